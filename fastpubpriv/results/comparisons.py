"""Differences and ratios of two released numbers, with intervals from those of both: post-processing, without further cost.

Of numbers a and b with intervals [l, u] and [m, v], whose errors have correlation r, the difference has the interval

    a - b - sqrt((a - l)^2 + (v - b)^2 - 2 r (a - l) (v - b)),  a - b + sqrt((u - a)^2 + (b - m)^2 - 2 r (u - a) (b - m))

(Zou and Donner, Statistics in Medicine 27, 2008). A ratio t is in its interval if zero is in that of a - t b (Donner and Zou,
Statistical Methods in Medical Research 21, 2012); this is Fieller's interval where those of a and b are symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.results import plots
from fastpubpriv.results.base import LEVEL, MOST_IN_REPR, Value
from fastpubpriv.results.drawn import Drawn
from fastpubpriv.results.fields import array, drawn_of, value_class
from fastpubpriv.results.json_fields import shortened
from fastpubpriv.results.reasons import (
    PartReasons,
    Reason,
    Reasons,
    Status,
    explained,
    ordered,
    status_of,
)
from fastpubpriv.results.result_tables import (
    Facts,
    Lines,
    Table,
    as_shown,
    bracketed,
    declared_numbers,
    label_of,
    percent,
    scale_of,
    with_ends,
    with_reasons,
)
from fastpubpriv.sources.column_names import listed

Kind = Literal["difference", "ratio"]
SIGNS: dict[Kind, str] = {"difference": "minus", "ratio": "divided by"}


class Estimated(NamedTuple):
    """Estimates with their interval ends, (k,) each."""

    value: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def below(self) -> FloatArray:
        """Distance of the lower ends from the estimates, at least zero."""
        return np.maximum(self.value - self.lower, 0.0)

    @property
    def above(self) -> FloatArray:
        """Distance of the upper ends from the estimates, at least zero."""
        return np.maximum(self.upper - self.value, 0.0)

    def moved(self, by: float) -> Estimated:
        """The estimates and their intervals, moved by a number."""
        return Estimated(self.value + by, self.lower + by, self.upper + by)

    @property
    def negative(self) -> Estimated:
        """The estimates with the other sign."""
        return Estimated(-self.value, -self.upper, -self.lower)


def _length(first: FloatArray, second: FloatArray, r: float) -> FloatArray:
    """Length of the sum of two errors with these lengths and correlation -r; infinite if one is."""
    with np.errstate(all="ignore"):
        squares = np.hypot(first, second) ** 2 - 2.0 * r * first * second
        length = np.sqrt(np.maximum(squares, 0.0))
    return np.where(np.isinf(first) | np.isinf(second), math.inf, length)


def difference_of(first: Estimated, second: Estimated, r: float | None) -> Estimated:
    """Return first - second; the errors have correlation r, or if None any: then the widest interval, that of r = -1."""
    value = first.value - second.value
    known = -1.0 if r is None else r
    lower = value - _length(first.below, second.above, known)
    upper = value + _length(first.above, second.below, known)
    unknown = np.isnan(value)
    return Estimated(value, np.where(unknown, -math.inf, lower), np.where(unknown, math.inf, upper))


def _lower_end(
    a: FloatArray,
    below: FloatArray,
    b: FloatArray,
    b_below: FloatArray,
    b_above: FloatArray,
    r: float,
) -> FloatArray:
    """Lower ends of a / b for positive b > b_below: the greatest t up to a / b where the lower end of a - t b is zero."""
    # There t^2 (b^2 - s^2) - 2 t (a b - r below s) + a^2 - below^2 = 0, where s is b_above if t >= 0, else b_below.
    constant = (a - below) * (a + below)

    def root(s: FloatArray) -> FloatArray:
        linear = a * b - r * below * s
        square = (b - s) * (b + s)
        discriminant = linear**2 - square * constant
        # Where the parabola opens upwards, a / b lies between its roots, and only rounding makes this negative.
        of_root = np.sqrt(np.where(square > 0.0, np.maximum(discriminant, 0.0), discriminant))
        return np.where(linear >= 0.0, constant / (linear + of_root), (linear - of_root) / square)

    with np.errstate(all="ignore"):
        most = a / b
        positive = root(b_above)
        # Of a number without an upper end nothing positive is excluded.
        positive = np.where(np.isinf(b_above), np.where(constant > 0.0, 0.0, math.nan), positive)
        fits = (a >= 0.0) & (positive >= 0.0) & (positive <= most * (1.0 + 1e-12))
        # Without any error, or of zero without one, the root is a / b itself.
        exact = (below == 0.0) & ((a == 0.0) | (np.where(a >= 0.0, b_above, b_below) == 0.0))
        lower = np.where(fits, np.minimum(positive, most), np.minimum(root(b_below), 0.0))
    return np.where(exact, most, np.where(np.isinf(below), -math.inf, np.minimum(lower, most)))


def _ratio_ends(first: Estimated, second: Estimated, r: float) -> tuple[FloatArray, FloatArray]:
    """Ends of first / second for positive intervals of the second."""
    # In units in which no square overflows.
    lengths = np.stack([np.abs(first.value), first.below, first.above])
    finite = np.where(np.isfinite(lengths), lengths, 0.0)
    unit = np.maximum(finite.max(axis=0), np.finfo(np.float64).tiny)
    value = first.value / unit
    sides = (np.ones(len(unit)), second.below / second.value, second.above / second.value)
    lower = _lower_end(value, first.below / unit, *sides, r)
    upper = -_lower_end(-value, first.above / unit, *sides, -r)
    return lower * (unit / second.value), upper * (unit / second.value)


def ratio_of(first: Estimated, second: Estimated, r: float | None) -> Estimated:
    """Return first / second; the errors have correlation r, or if None any: then the wider of the intervals of r = -1 and 1.

    NaN and infinite where the interval of the second number has zero in it.
    """
    below_zero = second.upper < 0.0
    numerator, denominator = (
        Estimated(
            *(np.where(below_zero, other, own) for own, other in zip(of, of.negative, strict=True))
        )
        for of in (first, second)
    )
    ends = [
        _ratio_ends(numerator, denominator, known) for known in ((-1.0, 1.0) if r is None else (r,))
    ]
    with np.errstate(all="ignore"):
        value = numerator.value / denominator.value
        lower = np.min([low for low, _ in ends], axis=0)
        upper = np.max([high for _, high in ends], axis=0)
    unknown = ~(denominator.lower > 0.0) | np.isnan(value)
    return Estimated(
        np.where(unknown, math.nan, value),
        np.where(unknown, -math.inf, lower),
        np.where(unknown, math.inf, upper),
    )


@value_class
class Comparison(Value):
    """Difference or ratio of two released numbers, or of several pairs, one for each column or quantile.

    Attributes
    ----------
    kind : "difference" or "ratio"
        Whether the second number is subtracted, or divides the first.
    of : str
        What is compared: "mean", "quantile", "count", "count of the population" or "share".
    first, second : str
        Names of the two: groups, keys or columns.
    lines : tuple of str
        Names of the pairs.
    estimate, lower, upper : (lines,) float64
        The differences or ratios, and the ends of an interval for each; NaN and infinite where they are not known (null in JSON).
    level : float
        Confidence level of each interval.
    correlation : float or None
        Correlation of the errors of the two numbers; None if it is not known, so that the interval is the widest of all.
    private : bool
        False when the noise came from a seed, so that the numbers are not private.
    about : str
        What the answers are about, as of the result with both numbers.
    part_reasons : tuple of tuples of Reason
        Warnings for each line: those of both numbers, and "unresolved" where the ratio has no interval because the second number
        may be zero.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> answers = ["yes"] * 6000 + ["no"] * 2000
    >>> result = fpp.value_counts(answers, keys=["yes", "no"], budget=fpp.ZCDP(rho=0.5))
    >>> times = result.ratio("yes", "no", level=0.999999)
    >>> bool(times.lower[0] < 3.0 < times.upper[0]), times.status
    (True, 'ok')
    """

    kind: Kind
    of: str
    first: str
    second: str
    lines: tuple[str, ...]
    estimate: FloatArray = array("lines", missing=math.nan)
    lower: FloatArray = array("lines", missing=-math.inf)
    upper: FloatArray = array("lines", missing=math.inf)
    level: float
    correlation: float | None
    private: bool
    about: str
    part_reasons: PartReasons = ()

    def _fits_together(self) -> bool:
        known = self.correlation is None or -1.0 <= self.correlation <= 1.0
        return known and 0.0 < self.level < 1.0 and len(self.part_reasons) == len(self.lines)

    @property
    def reasons(self) -> Reasons:
        """Warnings about any of the lines."""
        return ordered(reason for own in self.part_reasons for reason in own)

    @property
    def status(self) -> Status:
        """The worst level of `reasons`: "ok" without any, "caution" or "unreliable"."""
        return status_of(self.reasons)

    def confidence_interval(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (lines,) each: those of the fields, at the level of the comparison."""
        return self.lower, self.upper

    def plot(self, path: str | Path | None = None, *, ax: Any = None) -> Any:
        """Draw each line with its interval (needs matplotlib); returns the figure.

        `ax` are axes of matplotlib to draw into, in place of a figure of their own.
        """
        estimates = [plots.Estimate("private", self.estimate, self.lower, self.upper)]
        label = f"{self.in_words}, with {self.level:.0%} intervals"
        zero = self.kind == "difference"
        return plots.plot_forest(estimates, self.lines, label=label, zero=zero, path=path, ax=ax)

    @property
    def in_words(self) -> str:
        """What is compared: "mean: north minus south"."""
        return f"{self.of}: {self.first} {SIGNS[self.kind]} {self.second}"

    def __repr__(self) -> str:
        shown = f"{self.kind}, {self.in_words!r}"
        flag = "" if self.private else ", private=False"
        return f"Comparison({shown}, estimate={bracketed(self.estimate[:MOST_IN_REPR])}{flag})"

    def _table(self, level: float) -> Table:
        width = scale_of(self.lower, self.upper)
        scale = np.where(np.isfinite(width), width, 0.0)
        columns = with_ends(self.kind, self.estimate, self.confidence_interval(), scale)
        columns += with_reasons(self.part_reasons)
        return Table(self.of, self.lines, columns, rounded=True, units=self._units())

    def _units(self) -> list[str]:
        """Return the name of the axis of each line: ratios, counts and shares have one, values of columns one for each column."""
        if self.kind == "ratio" or self.of not in ("mean", "quantile"):
            return [""] * len(self.lines)
        if self.of == "mean":
            return list(self.lines)
        return [line.rpartition(": ")[0] for line in self.lines]

    def _facts(self, level: float) -> Facts:
        errors = "their errors may have any correlation, and the widest interval is shown"
        if self.correlation is not None:
            errors = f"the correlation of their errors is {self.correlation:.2g}"
        if self.correlation == 0.0:
            errors = "their errors are independent"
        interval = f"{percent(self.level)} each, from those of both; {errors}"
        facts = [("Answers about", self.about), ("Compared", self.in_words)]
        facts.append(("Interval", interval))
        facts += explained(self.reasons, self.part_reasons)
        facts.append(("Spent", "nothing: both numbers had been released"))
        if not self.private:
            seeded = "NO: the noise came from a seed, so these values are not private"
            facts.append(("Private", seeded))
        return facts


def named_pair(names: Sequence[Any], first: Any, second: Any, what: str) -> tuple[int, int]:
    """Return the places of two different names; raise InputError if one is not there, or if they are the same."""
    places = {name: place for place, name in enumerate(names)}
    first = as_shown(first)
    second = as_shown(second)
    for name in (first, second):
        try:
            known = name in places
        except TypeError:
            known = False
        if not known:
            raise InputError(
                f"no {what} is called {shortened(str(name))}: pass two of {listed([*map(str, names)])}"
                + validation.did_you_mean(str(name), map(str, names))
            )
    if places[first] == places[second]:
        raise InputError(f"pass two different {what}s, got {shortened(str(first))} twice")
    return places[first], places[second]


def compared(
    result: Any,
    kind: Kind,
    answer: Estimated,
    names: tuple[Any, Any],
    places: tuple[int, int],
    *,
    of: str,
    level: float,
    correlation: float | None,
    lines: Sequence[str] = (),
    most: float | None = None,
) -> Comparison:
    """Return the comparison of two numbers of a result on each line, by `difference_of` or `ratio_of`; by default on a single line.

    The numbers are those of the parts at `places`, with their reasons. If they are from 0 to `most`, the answer is clipped to the
    differences or ratios that there can be.
    """
    first, second = map(label_of, names)
    lines = lines or (f"{first} {SIGNS[kind]} {second}",)
    part_reasons = []
    for line, value in enumerate(answer.value.tolist()):
        causes: list[Reason] = []
        for place in places if result.part_reasons else ():
            part = place * len(lines) + line
            causes.extend(result.part_reasons[part])
        if math.isnan(value):
            causes.append(Reason.UNRESOLVED)
        part_reasons.append(ordered(causes))
    if most is not None:
        within = (0.0, math.inf)
        if kind == "difference":
            within = (-most, most)
        answer = Estimated(*(np.clip(each, *within) for each in answer))
    return Comparison(
        kind=kind,
        of=of,
        first=first,
        second=second,
        lines=tuple(lines),
        estimate=answer.value,
        lower=answer.lower,
        upper=answer.upper,
        level=level,
        correlation=correlation,
        private=result.private,
        about=result._about_at(level),
        part_reasons=tuple(part_reasons),
    )


class Comparable(Drawn):
    """Base class of results whose drawn numbers are compared with each other: those of two groups or, without groups, columns."""

    __slots__ = ()

    def difference(self, a: Any, b: Any, level: float = LEVEL) -> Comparison:
        """Difference of the numbers of two groups, or of a mean of two columns, with intervals, from released numbers alone.

        Groups: a line for each column (and quantile). The rows of one group are none of the other, so that errors are independent.
        Where the privacy unit is a person, who may have rows in both, the sampling error of each was computed as if the rows of a
        person were identical, which is the worst case for the difference as well (by the Cauchy-Schwarz inequality). Columns: their
        rows are the same, the correlation of errors is not known, and the interval is the widest. Raise InputError for a name that
        is not there.
        """
        return self._compared("difference", a, b, validation.confidence_level(level))

    def ratio(self, a: Any, b: Any, level: float = LEVEL) -> Comparison:
        """Ratio of the numbers of two groups, or of a mean of two columns, with intervals, from released numbers alone.

        As for `difference`. An interval is infinite, and has the reason "unresolved", if the second number may be zero.
        """
        return self._compared("ratio", a, b, validation.confidence_level(level))

    def _compared(self, kind: Kind, a: Any, b: Any, level: float) -> Comparison:
        lines = Lines.of(self)
        of_groups = lines.axes[0] == "groups"
        names: Any = getattr(self, "groups" if of_groups else "labels")
        what = "group" if of_groups else "column"
        places = named_pair(names, a, b, what)
        name, declaration = next(iter(drawn_of(type(self)).items()))
        numbers, ends = declared_numbers(self, name, declaration, level)
        by_name = [each.reshape(len(names), -1) for each in (numbers, *ends)]
        pair = [Estimated(*(each[place] for each in by_name)) for place in places]
        # Groups have no rows in common; how the errors of columns go together is not known.
        correlation = 0.0 if of_groups else None
        answer = answer_of(kind, pair, correlation)
        others = lines.axes[1:]
        names_of_lines = lines.joined(others) if others else ()
        return compared(
            self,
            kind,
            answer,
            (a, b),
            places,
            of=declaration.label or "",
            lines=names_of_lines,
            level=level,
            correlation=correlation,
        )


def answer_of(kind: Kind, pair: Sequence[Estimated], r: float | None) -> Estimated:
    """Return the difference or the ratio of two numbers, whose errors have correlation r, or any if None."""
    first, second = pair
    return difference_of(first, second, r) if kind == "difference" else ratio_of(first, second, r)
