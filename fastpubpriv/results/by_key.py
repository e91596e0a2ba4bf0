"""Released counts of rows and means of columns by key: the text or number in a column, or a tuple of those in several."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.results import base, plots
from fastpubpriv.results.base import LEVEL, Contents, Result, Table, TableColumn, shape
from fastpubpriv.results.interval_parts import half_widths, width_columns, width_facts
from fastpubpriv.results.reasons import PartReasons, Reason

OTHER = "(other)"
MISSING = "(missing)"
FEW_STDS = 4.0  # standard errors of a number of rows below which there may be none
Part = str | float
Key = tuple[Part, ...]


def label_of(key: Part | Key) -> str:
    """Return a key as text; the parts of a tuple are joined by commas."""
    if isinstance(key, tuple):
        return ", ".join(map(label_of, key))
    return key if isinstance(key, str) else f"{key:g}"


def place_of(keys: Sequence[Part | Key], key: Any) -> int:
    """Return the place of a key; raise KeyError if it is not there."""
    return {each: place for place, each in enumerate(keys)}[key]


def table_by(by: tuple[str, ...], keys: Sequence[Part | Key], columns: list[TableColumn]) -> Table:
    """Return a table with one row per key: keys of one column label the rows, those of several fill a column each."""
    if len(by) == 1:
        return Table(by[0], list(keys), columns)
    parts = [
        TableColumn(name, [key[j] if isinstance(key, tuple) else key for key in keys])
        for j, name in enumerate(by)
    ]
    return Table("key", list(range(len(keys))), [*parts, *columns])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CountResult(Result):
    """Released counts of keys.

    A part is a key. A named key has "few_rows" if its count is within two noise standard deviations of zero: it may have no rows.

    Attributes
    ----------
    by : tuple of str
        Names of the columns that form a key.
    keys : tuple of tuples of str or float
        One entry for each column of `by`. If keys were listed, "(other)" and "(missing)" are among them, and every row has a key;
        otherwise only keys whose noisy count reached the threshold.
    counts : (k,) float64
        Estimated number of rows with each key. It is not rounded and may be negative, so that sums of counts are unbiased; tables
        and plots show `published`.
    noise_std : float
        Standard deviation of the noise in each count, in rows.
    noise_law : str
        "gaussian" or "laplace".
    rows_used : float or None
        With several rows per person, the estimated number of rows in use, with the noise of a count: that of all keys, or
        without a list of keys all rows less the noisy count of those that persons do not have. None with one row each (n_priv).
    threshold : float
        Minimum noisy count that was released if keys were not listed; otherwise zero.
    top : int or None
        Number of largest counts that the table shows; None for all, in the order of the keys.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> answers = [0.0] * 3000 + [1.0] * 5000 + [7.0] * 40
    >>> result = fpp.value_counts(answers, keys=[0, 1], budget=fpp.ZCDP(rho=0.5))
    >>> result.keys
    ((0.0,), (1.0,), ('(other)',), ('(missing)',))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(lower[1] <= 5000 <= upper[1])
    True
    """

    by: tuple[str, ...]
    keys: tuple[Key, ...]
    counts: FloatArray = dataclasses.field(metadata=shape("keys"))
    noise_std: float
    noise_law: str
    rows_used: float | None = None
    threshold: float = 0.0
    top: int | None = None

    _main = "keys"
    _parted = "counts"

    def _fits_together(self) -> bool:
        return self.noise_std >= 0.0 and all(len(key) == len(self.by) for key in self.keys)

    def __getitem__(self, key: Any) -> float:
        """Return the count of a key; raise KeyError if it is not among `keys`."""
        return float(self.counts[place_of(self.keys, key if isinstance(key, tuple) else (key,))])

    @property
    def published(self) -> FloatArray:
        """Counts for readers, (k,): `counts` clipped to [0, rows that there can be], as are the ends of their intervals."""
        return np.clip(self.counts, 0.0, float(self._most_rows))

    @property
    def share(self) -> FloatArray:
        """Shares of the rows in use, (k,): counts / n_priv; with several rows per person counts / `rows_used`.

        NaN if that is unknown, or hidden in noise.
        """
        return np.asarray(self.counts / np.maximum(rows_counted(self), 1.0))

    @property
    def named(self) -> IntArray:
        """Indices of the keys without "(other)" and "(missing)" in any part, in decreasing order of count."""
        named = [
            i
            for i, key in enumerate(self.keys)
            if not {OTHER, MISSING} & set(key) or self.threshold > 0.0
        ]
        places = np.array(named, dtype=np.int64)
        return places[np.argsort(-self.counts[places], kind="stable")]

    def confidence_interval(
        self, level: float = 0.95, *, simultaneous: bool = False, of: str = "rows"
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (k,) each, of intervals for the counts.

        With `of` "rows", intervals are for the counts in these rows and include privacy noise only; with "population", for the
        expected counts in as many rows of the population, including sampling error. With `simultaneous`, all intervals hold jointly
        at this level by the union bound. Ends are clipped to [0, rows that there can be]. Laplace noise: the larger of both laws'
        quantiles.
        """
        level = validation.confidence_level(level)
        of = validation.choice("of", of, ("rows", "population"))
        together = (
            max(len(self.counts), 1) if validation.boolean("simultaneous", simultaneous) else 1
        )
        z = deviations(self.noise_law, level, together)
        n = float(self._most_rows)
        rows = n if math.isnan(rows_counted(self)) else min(max(rows_counted(self), 0.0), n)
        share = np.clip(self.counts / max(rows, 1.0), 0.0, 1.0)
        # Worst case: the rows of a person are identical.
        sampling = (
            np.sqrt(rows * share * (1.0 - share) * self.rows_per_person)
            if of == "population"
            else 0.0
        )
        width = z * np.hypot(self.noise_std, sampling)
        return np.clip(self.counts - width, 0.0, n), np.clip(self.counts + width, 0.0, n)

    def rank_interval(self, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return simultaneous confidence bounds, (k,) each, for the rank of each key's count among the keys of this result.

        Rank 1 is the largest count. "(other)" and "(missing)" have no rank: both bounds are 0.
        """
        lower, upper = self.confidence_interval(level, simultaneous=True)
        first = np.zeros(len(self.keys), dtype=np.int64)
        last = np.zeros(len(self.keys), dtype=np.int64)
        named = self.named
        lows = np.sort(lower[named])
        highs = np.sort(upper[named])
        first[named] = 1 + len(named) - np.searchsorted(lows, upper[named], side="right")
        last[named] = len(named) - np.searchsorted(highs, lower[named], side="left")
        return first, last

    def plot(
        self, path: str | Path | None = None, *, level: float = LEVEL, x_pub: Any = None
    ) -> Any:
        """Draw the counts of the table with their intervals (needs matplotlib); returns the figure.

        `x_pub` is ignored; it exists because other results draw public rows.
        """
        shown = self._shown_places()
        lower, upper = (ends[shown] for ends in self.confidence_interval(level))
        names = [label_of(self.keys[place]) for place in shown]
        estimates = [plots.Estimate("private", self.published[shown], lower, upper, style="bar")]
        label = f"rows by {', '.join(self.by)}, with {level:.0%} intervals of the noise"
        groups = [("", list(range(len(shown))))]
        return plots.plot_forest(estimates, names, groups=groups, label=label, path=path)

    def _shown_places(self) -> IntArray:
        return np.arange(len(self.keys)) if self.top is None else self.named[: self.top]

    def _own(self, level: float) -> Contents:
        shown = self._shown_places()
        lower, upper = (ends[shown] for ends in self.confidence_interval(level))
        scale = np.full(len(shown), max(self.noise_std, 1.0))
        columns = base.with_ends("count", self.published[shown], (lower, upper), scale)
        if not math.isnan(rows_counted(self)):
            share = np.clip(self.share[shown], 0.0, 1.0)
            columns.append(TableColumn("share", share, scale / max(rows_counted(self), 1.0)))
        if self.top is not None:
            first, last = self.rank_interval(level)
            columns += [TableColumn("rank_from", first[shown]), TableColumn("rank_to", last[shown])]
        columns += base.with_reasons(tuple(self.part_reasons[place] for place in shown.tolist()))
        keys = [self.keys[place] for place in shown.tolist()]
        table = table_by(self.by, keys if len(self.by) > 1 else [key[0] for key in keys], columns)
        facts = [("Interval", f"{base.percent(level)} each, of the counts of {self._rows_in_use}")]
        if self.rows_used is not None:
            facts = [
                (
                    "Rows used",
                    f"{self.rows_used:,.0f}, with the noise of a count; shares are of these",
                ),
                *facts,
            ]
        facts.append(("Noise", f"{self.noise_law}, standard deviation {self.noise_std:.3g} rows"))
        if self.threshold > 0.0:
            facts.append(("Hidden", f"keys with a noisy count below {self.threshold:.4g} rows"))
        return table, facts

    def to_table(self) -> FloatArray:
        """Return the counts as an array with one axis per column of `by`, indexed in the order of `levels`."""
        levels = self.levels
        table = np.zeros([len(each) for each in levels])
        for key, count in zip(self.keys, self.counts.tolist(), strict=True):
            table[tuple(level.index(part) for level, part in zip(levels, key, strict=True))] = count
        return table

    @property
    def levels(self) -> tuple[Key, ...]:
        """Distinct values of each column of `by`, in the order of `keys`."""
        return tuple(
            tuple(dict.fromkeys(key[place] for key in self.keys)) for place in range(len(self.by))
        )


def rows_counted(result: CountResult) -> float:
    """Return the number of rows in use, the denominator of shares; NaN if it is not known, or noise hides that there are any."""
    if result.rows_used is not None:
        few = result.rows_used < FEW_STDS * result.noise_std
        return math.nan if few else result.rows_used
    return float(result.n_priv) if result.rows_per_person == 1 else math.nan


# Means and deviations of groups.


def unseen_parts(
    groups: Sequence[Part | Key], values: FloatArray, parts: PartReasons
) -> list[bool]:
    """Return which parts belong to the group of all other rows, which nobody named, while its count is within noise of zero."""
    # Such a part has no estimate, and "few_rows" as its only reason.
    each_group = values.size // max(len(groups), 1)
    unnamed = [group == OTHER for group in groups for _ in range(each_group)]
    unknown = np.isnan(values).ravel().tolist()
    few = [own == (Reason.FEW_ROWS,) for own in parts]
    return [all(facts) for facts in zip(unnamed, unknown, few, strict=False)]


def judged_parts(
    groups: Sequence[Part | Key], values: FloatArray, parts: PartReasons
) -> PartReasons:
    """Return the reasons of the parts that enter a status: without those of `unseen_parts`."""
    unseen = unseen_parts(groups, values, parts)
    return tuple(own for own, left_out in zip(parts, unseen, strict=False) if not left_out)


def unseen_facts(unseen: list[bool]) -> list[tuple[str, str]]:
    """Return the fact that tables leave the parts of `unseen_parts` out, if there are any."""
    text = "no line: its rows, if there are any, are within noise of none"
    return [(OTHER, text)] if any(unseen) else []


def lines_of(groups: Sequence[Part | Key], labels: Sequence[str]) -> list[str]:
    """Return the names of (group, column) pairs, in row-major order; those of groups if there is one column."""
    if len(labels) == 1:
        return [label_of(group) for group in groups]
    return [f"{label_of(group)}: {name}" for group in groups for name in labels]


def deviation_ends(
    law: str, level: float, variance: Any, std: Any, tail: Any
) -> tuple[FloatArray, FloatArray]:
    """Return interval ends for standard deviations from variances, their standard errors `std` and tail allowances `tail`."""
    middle = np.where(np.isnan(variance), 0.0, variance)
    with np.errstate(over="ignore"):
        width = deviations(law, level) * std
        high = middle + np.hypot(width, tail)
    return np.sqrt(np.maximum(middle - width, 0.0)), np.sqrt(np.maximum(high, 0.0))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupMeans(Result):
    """Released means of groups; arrays are (groups, dim), in data units.

    A part is a (group, column) pair, in row-major order. A group "(other)" whose rows are within four noise standard deviations of
    zero has no line in plots, and its "few_rows" does not enter the status. The mean is NaN if it is "unresolved", since
    the counts cannot locate the column, or has "few_rows" and the number of rows is within four noise standard deviations of zero.
    A mean with "heavy_tail" may be moved out of its interval by a single distant row, or by distant rows that noise hides.

    Attributes
    ----------
    by : tuple of str
        The columns that determine the group of a row.
    groups : tuple of str, float or tuple
        The listed groups (tuples of cells if `by` has several columns), and "(other)" for rows of any other group.
    mean : float64
        The estimates; NaN if unavailable (null in JSON).
    count : float64
        Estimated number of rows of the group with a finite value in the column; it may be negative. Tables show it within
        [0, rows that there can be].
    count_noise_std : float
        Standard deviation of the noise in each count.
    noise_std, sampling_std, clipping_std : float64
        Standard deviations of each mean from privacy noise, from sampling, and of the correction for clipped rows.
    tail_below, tail_above : float64
        Largest shift of the mean by undetected rows, if tails decay as the counts of all rows indicate; infinite if unknown (null
        in JSON).
    variance, variance_std, variance_tail : float64
        Variances (divisor: rows - 1), their standard errors from noise, sampling and clipping, and the largest increase by
        undetected rows; NaN and infinite where there is no mean, and under Laplace noise (null in JSON).
    noise_law : str
        "gaussian" or "laplace".
    lowest, highest : (dim,) float64
        Bounds that the caller gave; infinite without (null in JSON).

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rng = np.random.default_rng(0)
    >>> ward = rng.integers(0, 3, 30_000)
    >>> rows = np.column_stack([rng.normal(5.0 + ward, 1.0), ward])
    >>> result = fpp.estimate_mean(rows[9:], x_pub=rows[:9], by=-1, groups=[0, 1, 2], budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(np.all((lower[:3, 0] < [5, 6, 7]) & ([5, 6, 7] < upper[:3, 0]))), bool(abs(result[2] - 7.0) < 0.1)
    (True, True)
    """

    by: tuple[str, ...]
    groups: tuple[Part | Key, ...]
    mean: FloatArray = dataclasses.field(metadata=shape("groups", "dim", missing=math.nan))
    count: FloatArray = dataclasses.field(metadata=shape("groups", "dim"))
    count_noise_std: float
    noise_std: FloatArray = dataclasses.field(metadata=shape("groups", "dim"))
    sampling_std: FloatArray = dataclasses.field(metadata=shape("groups", "dim"))
    clipping_std: FloatArray = dataclasses.field(metadata=shape("groups", "dim"))
    tail_below: FloatArray = dataclasses.field(metadata=shape("groups", "dim", missing=math.inf))
    tail_above: FloatArray = dataclasses.field(metadata=shape("groups", "dim", missing=math.inf))
    variance: FloatArray = dataclasses.field(metadata=shape("groups", "dim", missing=math.nan))
    variance_std: FloatArray = dataclasses.field(metadata=shape("groups", "dim", missing=math.inf))
    variance_tail: FloatArray = dataclasses.field(metadata=shape("groups", "dim", missing=math.inf))
    noise_law: str
    lowest: FloatArray = dataclasses.field(metadata=shape("dim", missing=-math.inf))
    highest: FloatArray = dataclasses.field(metadata=shape("dim", missing=math.inf))

    _main = "groups"
    _parted = "mean"
    _sampling = ("sampling_std", "variance_std")

    @classmethod
    def _judged(cls, fields: Mapping[str, Any]) -> PartReasons:
        return judged_parts(fields["groups"], fields["mean"], fields.get("part_reasons", ()))

    def __getitem__(self, group: Part | Key) -> Any:
        """Return the mean of a group, a float if dim is 1, else (dim,); raise KeyError if it is not among `groups`."""
        mean = self.mean[place_of(self.groups, group)]
        return float(mean[0]) if self.dim == 1 else mean

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of each mean from privacy noise, sampling and clipping, (groups, dim)."""
        with np.errstate(over="ignore"):
            return np.hypot(np.hypot(self.noise_std, self.sampling_std), self.clipping_std)

    def confidence_interval(
        self, level: float = 0.95, *, simultaneous: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (groups, dim) each, of intervals for the means.

        They include privacy noise, sampling, clipping, and undetected rows; infinite where there is no mean. With `simultaneous`,
        all intervals hold jointly at this level by the union bound. Under pure DP, the Laplace quantile is used if it exceeds the
        Gaussian one.
        """
        level = validation.confidence_level(level)
        together = self.mean.size if validation.boolean("simultaneous", simultaneous) else 1
        middle = np.where(np.isnan(self.mean), 0.0, self.mean)
        z = deviations(self.noise_law, level, together)
        with np.errstate(over="ignore"):
            width = z * self.standard_error
            lower = middle - np.hypot(width, self.tail_below)
            upper = middle + np.hypot(width, self.tail_above)
        return np.clip(lower, self.lowest, self.highest), np.clip(upper, self.lowest, self.highest)

    def interval_parts(self, level: float = 0.95) -> FloatArray:
        """Half-widths from noise, sampling, clipping and undetected rows, (groups, dim, 4).

        Their squares add up to that of the larger half of `confidence_interval`, which bounds may cut.
        """
        z = deviations(self.noise_law, validation.confidence_level(level))
        tail = np.maximum(self.tail_below, self.tail_above)
        return half_widths(z, self.noise_std, self.sampling_std, self.clipping_std, tail)

    @property
    def standard_deviation(self) -> FloatArray:
        """Standard deviations within each group, (groups, dim); NaN if unknown."""
        return np.asarray(np.sqrt(np.maximum(self.variance, 0.0)))

    def deviation_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (groups, dim) each, of intervals for the standard deviations; infinite under Laplace noise."""
        level = validation.confidence_level(level)
        return deviation_ends(
            self.noise_law, level, self.variance, self.variance_std, self.variance_tail
        )

    def plot(
        self, path: str | Path | None = None, *, level: float = LEVEL, x_pub: Any = None
    ) -> Any:
        """Draw the means with their intervals, a line for each group below each column (needs matplotlib); returns the figure.

        `x_pub` is ignored; it exists because other results draw public rows.
        """
        lower, upper = (ends.T.ravel() for ends in self.confidence_interval(level))
        k = len(self.groups)
        unseen = np.reshape(
            unseen_parts(self.groups, self.mean, self.part_reasons), self.mean.shape
        )
        shown = [np.flatnonzero(~unseen[:, j]) for j in range(self.dim)]
        groups = [(name, (j * k + shown[j]).tolist()) for j, name in enumerate(self.labels)]
        return plots.plot_forest(
            [plots.Estimate("private", self.mean.T.ravel(), lower, upper)],
            [label_of(group) for group in self.groups] * self.dim,
            groups=groups,
            apart=True,
            label=f"mean by {label_of(self.by)}, with {level:.0%} intervals",
            path=path,
        )

    def _own(self, level: float) -> Contents:
        lower, upper = (ends.reshape(-1) for ends in self.confidence_interval(level))
        count = np.clip(self.count, 0.0, float(self._most_rows)).reshape(-1)
        names = ("std_lower", "std_upper")
        spread, *ends = (
            part.reshape(-1) for part in (self.standard_deviation, *self.deviation_interval(level))
        )
        columns = [
            *(
                []
                if self.dim == 1
                else [TableColumn("column", list(self.labels) * len(self.groups))]
            ),
            *base.with_ends(
                "mean", self.mean.reshape(-1), (lower, upper), self.standard_error.reshape(-1)
            ),
            *base.with_ends(
                "std", spread, (ends[0], ends[1]), np.sqrt(self.variance_std).reshape(-1), names
            ),
            TableColumn("rows", count, np.full(len(count), max(self.count_noise_std, 1.0))),
            *base.with_reasons(self.part_reasons),
        ]
        parts = self.interval_parts(level)
        unseen = unseen_parts(self.groups, self.mean, self.part_reasons)
        table = table_by(
            self.by, [group for group in self.groups for _ in range(self.dim)], columns
        )
        table = dataclasses.replace(table, more=width_columns(parts), left_out=unseen)
        shown = table.printed
        lines = lines_of(self.groups, self.labels)
        sources = f"{self.noise_law} noise, sampling, clipping and undetected rows"
        return table, [
            ("Interval", f"{base.percent(level)} each, from {sources}"),
            *width_facts(
                [lines[place] for place in shown],
                self.mean.reshape(-1)[shown],
                parts.reshape(-1, 4)[shown],
            ),
            ("Rows of a group", f"released with noise of {self.count_noise_std:.3g}"),
            *unseen_facts(unseen),
        ]
