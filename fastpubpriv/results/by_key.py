"""Released counts of rows and means of columns by key: the text or number in a column, or a tuple of those in several."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.results.base import LEVEL
from fastpubpriv.results.comparisons import (
    Comparable,
    Comparison,
    Estimated,
    Kind,
    answer_of,
    compared,
    named_pair,
    ratio_of,
)
from fastpubpriv.results.drawn import Drawn
from fastpubpriv.results.fields import array, column, value_class
from fastpubpriv.results.interval_parts import half_widths, width_facts
from fastpubpriv.results.publishable import publishable, whole_ends
from fastpubpriv.results.reasons import PartReasons, Reason
from fastpubpriv.results.result_tables import (
    ROUNDED_COLUMNS,
    Facts,
    Table,
    as_shown,
    label_of,
    percent,
    table_of,
)

OTHER = "(other)"
MISSING = "(missing)"
ALL = "(all)"  # margins
LEAST_STDS = 2.0  # noise standard deviations up to which a count is compatible with zero rows
# A count prints to two digits of its noise, and never to less than a row.
LEAST_SCALE = 10.0
FEW_STDS = 4.0  # standard errors of a number of rows below which there may be none
Part = str | bool | float
Key = tuple[Part, ...]


def place_of(keys: Sequence[Part | Key], key: Any) -> int:
    """Return the place of a key, or of the objects that it was listed as; raise KeyError if it is not there."""
    return {each: place for place, each in enumerate(keys)}[as_shown(key)]


def key_axis(by: tuple[str, ...], keys: Sequence[Part | Key]) -> tuple[str, Sequence[Any]]:
    """Return the title and the labels of an axis of keys: tuples where several columns form a key."""
    return ", ".join(by), [
        key[0] if len(by) == 1 and isinstance(key, tuple) else key for key in keys
    ]


def named_by(by: tuple[str, ...], keys: Sequence[Part | Key]) -> bool:
    """Return whether keys that are tuples have an entry for each column of `by`, of which there must be one."""
    return bool(by) and all(len(key) == len(by) for key in keys if isinstance(key, tuple))


class CountsByKey(Drawn):
    """Base class of released counts of keys, of which texts and plots show whole numbers."""

    __slots__ = ()

    by: tuple[str, ...]
    keys: tuple[Key, ...]
    counts: FloatArray
    noise_std: float
    noise_law: str

    _main = "keys"
    _parted = "counts"
    _line_axes = ("keys",)
    _rounded = True

    def __getitem__(self, key: Any) -> float:
        """Return the count of a key, also as it was listed (a date, for one); raise KeyError if it is not among `keys`."""
        return float(self.counts[place_of(self.keys, key if isinstance(key, tuple) else (key,))])

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return key_axis(self.by, self.keys) if axis == "keys" else super()._axis(axis)

    @abstractmethod
    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends, (k,) each, of intervals for the counts."""

    def _whole_ends(self, level: float) -> tuple[IntArray, IntArray]:
        """Return the ends of the intervals in whole numbers, which contain those that texts show."""
        lower, upper = self.confidence_interval(level)
        return np.floor(lower).astype(np.int64), np.ceil(upper).astype(np.int64)

    @property
    def _count_scale(self) -> float:
        return max(self.noise_std, LEAST_SCALE)

    def _places_of(self, a: Any, b: Any) -> tuple[int, int]:
        """Return the places of two different keys; raise InputError for one that is not there."""
        return named_pair(self._axis("keys")[1], a, b, "key")


@value_class
class CountResult(CountsByKey):
    """Released counts of keys.

    A part is a key. A named key has "few_rows" if its count is within two noise standard deviations of zero: it may have no rows.

    Attributes
    ----------
    by : tuple of str
        Names of the columns that form a key.
    keys : tuple of tuples of str, bool or float
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
    round_to : int
        Multiple to which `published` counts and their interval ends are rounded.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> answers = [0.0] * 3000 + [1.0] * 5000 + [7.0] * 40
    >>> result = fpp.value_counts(answers, keys=[0, 1], budget=fpp.ZCDP(rho=0.5))
    >>> result.keys
    ((0.0,), (1.0,), ('(other)',), ('(missing)',))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(lower[1] <= 5000 <= upper[1]), int(result.published.sum())
    (True, 8040)
    """

    by: tuple[str, ...]
    keys: tuple[Key, ...]
    counts: FloatArray = array("keys")
    noise_std: float
    noise_law: str
    rows_used: float | None = None
    threshold: float = 0.0
    top: int | None = None
    round_to: int = 1

    def _fits_together(self) -> bool:
        numbers = self.noise_std >= 0.0 and self.round_to >= 1
        return numbers and named_by(self.by, self.keys)

    @property
    @column(
        "count",
        ends="_whole_ends",
        error="_count_scale",
        unit="rows",
        drawn="private",
        bars=True,
        interval_of="the noise",
    )
    def published(self) -> IntArray:
        """Counts for readers, (k,): whole, not negative, and where keys were listed with the sum of all rows in use.

        Counts that noise alone explains are moved to the nearest ones that are not negative and have the same sum, others stay;
        then all are rounded, to multiples of `round_to`. Use `counts`, which are unbiased, for arithmetic.
        """
        return self._published(self.round_to)

    def _published(self, multiple: int) -> IntArray:
        total = None if self.threshold > 0.0 else self._whole_rows
        law = self.noise_law
        return publishable(self.counts, self.noise_std, law, total, self._most_rows, multiple)

    @property
    def _whole_rows(self) -> int:
        """Number of rows in use, rounded, between zero and the rows that there can be."""
        rows = float(self.counts.sum())
        if self.threshold > 0.0:
            rows = float(self.n_priv) if self.rows_used is None else self.rows_used
        return int(np.clip(np.nan_to_num(rows), 0.0, float(self._most_rows)).round())

    @property
    def share(self) -> FloatArray:
        """Shares of the rows in use, (k,), without negative ones; where keys were listed, they add up to one.

        The rows in use are n_priv, and with several rows per person `rows_used`. NaN if that is unknown, or hidden in noise.
        """
        if math.isnan(rows_counted(self)):
            return np.full(len(self.counts), math.nan)
        return np.asarray(np.minimum(self._published(1) / max(self._whole_rows, 1), 1.0))

    @property
    def named(self) -> IntArray:
        """Indices of the keys without "(other)" and "(missing)" in any part, in decreasing order of count."""
        places = np.flatnonzero(~self._unnamed)
        return places[np.argsort(-self.counts[places], kind="stable")]

    @property
    def _unnamed(self) -> BoolArray:
        """Which keys have "(other)" or "(missing)" in a part, (k,)."""
        if self.threshold > 0.0:
            return np.zeros(len(self.keys), dtype=bool)
        return np.array([not {OTHER, MISSING}.isdisjoint(key) for key in self.keys], dtype=bool)

    @property
    def _sampled(self) -> tuple[float, FloatArray]:
        """Number of rows in use, all that there can be if it is not known, and the shares of these, (k,), as counted."""
        most_rows = float(self._most_rows)
        rows = rows_counted(self)
        rows = most_rows if math.isnan(rows) else min(max(rows, 0.0), most_rows)
        return rows, np.clip(self.counts / max(rows, 1.0), 0.0, 1.0)

    def _sampling_variance(self, of: str) -> FloatArray:
        """Variance of each count as one of a sample of the population, (k,); zero for these rows."""
        if of == "rows":
            return np.zeros(len(self.counts))
        rows, shares = self._sampled
        # Worst case: the rows of a person are identical.
        return np.asarray(rows * shares * (1.0 - shares) * self.rows_per_person)

    def _estimated(self, level: float, of: str, together: int = 1) -> Estimated:
        """Return the counts with interval ends that are neither clipped nor rounded."""
        level = validation.confidence_level(level)
        z = deviations(self.noise_law, level, together)
        width = z * np.hypot(self.noise_std, np.sqrt(self._sampling_variance(of)))
        return Estimated(self.counts, self.counts - width, self.counts + width)

    def confidence_interval(
        self, level: float = 0.95, *, simultaneous: bool = False, of: str = "rows"
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (k,) each, of intervals for the counts.

        With `of` "rows", intervals are for the counts in these rows and include privacy noise only; with "population", for the
        expected counts in as many rows of the population, including sampling error. With `simultaneous`, all intervals hold jointly
        at this level by the union bound. Ends are whole numbers (multiples of `round_to`) in [0, rows that there can be], and
        `published` lies between them. Laplace noise: the larger of both laws' quantiles.
        """
        of = validation.choice("of", of, ("rows", "population"))
        together = (
            max(len(self.counts), 1) if validation.boolean("simultaneous", simultaneous) else 1
        )
        _, lower, upper = self._estimated(level, of, together)
        return whole_ends(lower, upper, self.published, self._most_rows, self.round_to)

    def share_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (k,) each, of intervals for the shares in these rows; `share` lies between them.

        With several rows per person, they include the noise of `rows_used`. NaN where shares are.
        """
        counts = self._estimated(level, "rows")
        # The rows in use are all but those of a cell of their own, whose noise is that of a count.
        ends = self._in_shares(counts, level, -self._correlation)
        lower, upper = (np.clip(end, 0.0, 1.0) for end in (ends.lower, ends.upper))
        share = self.share
        return np.minimum(lower, share), np.maximum(upper, share)

    def _in_shares(self, counts: Estimated, level: float, r: float) -> Estimated:
        """Return counts, or differences of them, over the rows in use; their errors and those of `rows_used` have correlation r."""
        rows = rows_counted(self)
        if self.rows_used is None or math.isnan(rows):
            return Estimated(*(each / np.maximum(rows, 1.0) for each in counts))
        width = deviations(self.noise_law, level) * self.noise_std
        of_rows = (np.full(len(counts.value), end) for end in (rows, rows - width, rows + width))
        return ratio_of(counts, Estimated(*of_rows), r)

    @property
    def _correlation(self) -> float:
        """Correlation of the noise of two counts: if keys were listed, all cells add up to the number of rows, which is public."""
        cells = len(self.counts) + (self.rows_used is not None)
        return 0.0 if self.threshold > 0.0 or cells < 2 else -1.0 / (cells - 1)

    def difference(self, a: Any, b: Any, level: float = LEVEL, *, of: str = "rows") -> Comparison:
        """Difference of the counts of two keys with an interval, from released numbers alone.

        With `of` "rows" or "population" of the counts that `confidence_interval` is about, with "share" of the shares in these
        rows. It is that of `counts`, not rounded. Raise InputError for a key that is not among `keys`.
        """
        return self._compared("difference", a, b, level, of)

    def ratio(self, a: Any, b: Any, level: float = LEVEL, *, of: str = "rows") -> Comparison:
        """Ratio of the counts of two keys, which is that of their shares, with an interval from released numbers alone.

        The arguments are those of `difference`. The interval is infinite, and the reason "unresolved", if the second may be zero.
        """
        return self._compared("ratio", a, b, level, of)

    def _compared(self, kind: Kind, a: Any, b: Any, level: float, of: str) -> Comparison:
        level = validation.confidence_level(level)
        of = validation.choice("of", of, ("rows", "population", "share"))
        places = self._places_of(a, b)
        r = self._correlation_of(places) if of == "population" else self._correlation
        counts = self._estimated(level, "population" if of == "population" else "rows")
        pair = [Estimated(*(each[[place]] for each in counts)) for place in places]
        answer = answer_of(kind, pair, r)
        most = float(self._most_rows)
        if kind == "difference" and of == "share":
            # The noise of `rows_used` is as much that of one count as of the other.
            answer = self._in_shares(answer, level, 0.0)
            most = 1.0
        titles = {"rows": "count", "population": "count of the population", "share": "share"}
        return compared(
            self, kind, answer, (a, b), places, of=titles[of], level=level, correlation=r, most=most
        )

    def _correlation_of(self, places: tuple[int, int]) -> float:
        """Correlation of the errors of two counts of a sample: that of the noise, and rows of one key are none of another."""
        rows, shares = self._sampled
        noise = self._correlation * np.square(self.noise_std)
        sampling = -rows * self.rows_per_person * float(np.prod(shares[list(places)]))
        variances = np.square(self.noise_std) + self._sampling_variance("population")[list(places)]
        return float((noise + sampling) / np.sqrt(np.prod(variances)))

    def rank_interval(self, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return simultaneous confidence bounds, (k,) each, for the rank of each key's count among the keys of this result.

        Rank 1 is the largest count. "(other)" and "(missing)" have no rank: both bounds are 0.
        """
        _, lower, upper = self._estimated(level, "rows", max(len(self.counts), 1))
        first = np.zeros(len(self.keys), dtype=np.int64)
        last = np.zeros(len(self.keys), dtype=np.int64)
        named = self.named
        lows = np.sort(lower[named])
        highs = np.sort(upper[named])
        first[named] = 1 + len(named) - np.searchsorted(lows, upper[named], side="right")
        last[named] = len(named) - np.searchsorted(highs, lower[named], side="left")
        return first, last

    @property
    def _places_in_table(self) -> IntArray:
        """Places of the keys that the table has, in its order."""
        if self.top is not None:
            return self.named[: self.top]
        # Keys with a part that nobody listed come last.
        return np.argsort(self._unnamed, kind="stable")

    def _drawn_places(self) -> list[int]:
        places = self._places_in_table
        drawn: list[int] = places[~self._left_out[places]].tolist()
        return drawn

    @property
    def _left_out(self) -> BoolArray:
        """Which keys texts and plots leave out, (k,): those with "(other)" or "(missing)", if together they may have no rows."""
        unnamed = self._unnamed
        error = self.noise_std * math.sqrt(np.count_nonzero(unnamed))
        few = abs(float(self.counts[unnamed].sum())) <= LEAST_STDS * error
        return unnamed & few

    def _facts_of_hidden(self, level: float) -> Facts:
        """Return the fact that says how many rows have the keys that are left out, if there are any."""
        hidden = self._left_out
        if self.top is not None or not hidden.any():
            return []
        published = self.published[hidden].sum(keepdims=True)
        counted = self.counts[hidden].sum(keepdims=True)
        width = deviations(self.noise_law, level) * self.noise_std
        width *= math.sqrt(np.count_nonzero(hidden))
        lower, upper = whole_ends(
            counted - width, counted + width, published, self._most_rows, self.round_to
        )
        ends = f"[{lower[0]:,.0f}, {upper[0]:,.0f}]"
        return [(f"{OTHER}, {MISSING}", f"{published[0]:,} {ends} rows, not shown")]

    def _crossed(self) -> Table | None:
        """Return the table with an axis for each of two columns, and margins; None if there are not two, or too many values."""
        if len(self.by) != 2 or self.top is not None:
            return None
        levels = list(self.levels)
        # "(other)" and "(missing)" may be left out.
        if min(map(len, levels)) > ROUNDED_COLUMNS + 2:
            return None
        counts = self._by_levels(self.published)
        if self._left_out.any():
            for axis, level in enumerate(levels):
                listed = [place for place, part in enumerate(level) if part not in (OTHER, MISSING)]
                counts = counts.take(listed, axis)
                levels[axis] = tuple(level[place] for place in listed)
        # The column with fewer values goes across, if only one of them fits.
        names = self.by
        if len(levels[1]) >= ROUNDED_COLUMNS:
            counts = counts.T
            levels = levels[::-1]
            names = names[::-1]
        down, across = levels
        if len(across) >= ROUNDED_COLUMNS:
            return None
        with_margins = np.pad(counts, (0, 1))
        with_margins[-1] = with_margins.sum(axis=0)
        with_margins[:, -1] = with_margins.sum(axis=1)
        heads = [*map(label_of, across), ALL]
        columns = list(zip(heads, with_margins.T, strict=True))
        return Table(" / ".join(names), [*map(label_of, down), ALL], columns)

    @property
    @column(
        "share",
        ends="share_interval",
        names_of_ends=("share_lower", "share_upper"),
        error="_share_scale",
        unit="share of the rows in use",
    )
    def _known_share(self) -> FloatArray | None:
        return None if math.isnan(rows_counted(self)) else self.share

    @property
    def _share_scale(self) -> float:
        return max(self.noise_std, 1.0) / max(rows_counted(self), 1.0)

    @column("rank_from")
    def _first_ranks(self, level: float) -> IntArray | None:
        return None if self.top is None else self.rank_interval(level)[0]

    @column("rank_to")
    def _last_ranks(self, level: float) -> IntArray | None:
        return None if self.top is None else self.rank_interval(level)[1]

    def _table(self, level: float) -> Table:
        table = table_of(self, level).taken(self._places_in_table.tolist())
        return dataclasses.replace(table, crossed=self._crossed())

    def _facts(self, level: float) -> Facts:
        intervals = f"{percent(level)} each, of the counts of {self._rows_in_use}"
        if self._crossed() is not None:
            width = deviations(self.noise_law, level) * self.noise_std
            width = np.ceil(width / self.round_to) * self.round_to
            intervals += f": about ± {width:,.0f} rows, and √m times that for a margin of m cells; "
            intervals += "to_frame() has the ends, and the shares"
        facts = [("Interval", intervals), *self._facts_of_hidden(level)]
        facts.append(("Noise", f"{self.noise_law}, standard deviation {self.noise_std:.3g} rows"))
        if self.threshold > 0.0:
            facts.append(("Hidden", f"keys with a noisy count below {self.threshold:.4g} rows"))
        return facts

    def _facts_of_rows_used(self, level: float) -> Facts:
        if self.rows_used is None:
            return []
        text = f"{self.rows_used:,.0f} (± {self.noise_std:.3g}, one standard deviation of the noise); shares are of these"
        return [("Rows used", text)]

    def to_table(self) -> FloatArray:
        """Return the counts as an array with one axis per column of `by`, indexed in the order of `levels`."""
        return np.asarray(self._by_levels(self.counts))

    def _by_levels(self, values: Any) -> Any:
        """Return values of keys as an array with one axis per column of `by`; zero for a combination that is no key."""
        places = [{part: place for place, part in enumerate(level)} for level in self.levels]
        table = np.zeros([len(level) for level in places], dtype=values.dtype)
        for key, value in zip(self.keys, values.tolist(), strict=True):
            at = tuple(level[part] for level, part in zip(places, key, strict=True))
            table[at] = value
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
    return math.nan if result._rows_may_be_absent else float(result.n_priv)


# Means and deviations of groups.


class OfGroups(Comparable):
    """Base class of results whose parts are numbers of groups, in row-major order.

    Texts and plots leave out the parts of the group of all other rows, which nobody named, while its count is within noise of zero:
    such a part has no estimate, and "few_rows" as its only reason, which does not enter the status.
    """

    __slots__ = ()

    groups: tuple[Any, ...]
    by: tuple[str, ...]

    def _fits_together(self) -> bool:
        return super()._fits_together() and named_by(self.by, self.groups)

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return key_axis(self.by, self.groups) if axis == "groups" else super()._axis(axis)

    @classmethod
    def _judged(cls, fields: Mapping[str, Any]) -> PartReasons:
        parts = fields.get("part_reasons", ())
        left_out = _parts_left_out(fields["groups"], fields[cls._parted], parts)
        return tuple(own for own, is_out in zip(parts, left_out, strict=False) if not is_out)

    @property
    def _left_out(self) -> BoolArray:
        return _parts_left_out(self.groups, getattr(self, self._parted), self.part_reasons)

    def _facts_of_left_out(self) -> Facts:
        """Return the fact that texts leave parts out, if there are any."""
        text = "no line: its rows, if there are any, are within noise of none"
        return [(OTHER, text)] if self._left_out.any() else []


def _parts_left_out(
    groups: Sequence[Part | Key], values: FloatArray, parts: PartReasons
) -> BoolArray:
    """Return which parts texts and plots leave out."""
    each_group = values.size // max(len(groups), 1)
    unnamed = [group == OTHER for group in groups for _ in range(each_group)]
    unknown = np.isnan(values).ravel().tolist()
    few = [own == (Reason.FEW_ROWS,) for own in parts]
    left_out = [all(facts) for facts in zip(unnamed, unknown, few, strict=False)]
    return np.array(left_out, dtype=bool)


def deviation_ends(
    law: str, level: float, variance: Any, std: Any, tail: Any
) -> tuple[FloatArray, FloatArray]:
    """Return interval ends for standard deviations from variances, their standard errors `std` and tail allowances `tail`."""
    middle = np.where(np.isnan(variance), 0.0, variance)
    with np.errstate(over="ignore"):
        width = deviations(law, level) * std
        high = middle + np.hypot(width, tail)
    return np.sqrt(np.maximum(middle - width, 0.0)), np.sqrt(np.maximum(high, 0.0))


@value_class
class GroupMeans(OfGroups):
    """Released means of groups; arrays are (groups, dim), in data units.

    A part is a (group, column) pair, in row-major order. A group "(other)" whose rows are within four noise standard deviations of
    zero has no line in plots, and its "few_rows" does not enter the status. The mean is NaN if it is "unresolved", since
    the counts cannot locate the column, or has "few_rows" and the number of rows is within four noise standard deviations of zero.
    A mean with "heavy_tail" may be moved out of its interval by a single distant row, or by distant rows that noise hides.

    Attributes
    ----------
    by : tuple of str
        The columns that determine the group of a row.
    groups : tuple of str, bool, float or tuple
        The listed groups (tuples of cells if `by` has several columns), and "(other)" for rows of any other group.
    mean : float64
        The estimates; NaN if unavailable (null in JSON).
    count : float64
        Estimated number of rows of the group with a finite value in the column; it may be negative. Tables show it within
        [0, rows that there can be].
    count_noise_std : float
        Standard deviation of the noise in each count.
    middle : float64
        Centers of the boxes to which the rows of each group were clipped; released, and needed for the noise of sums.
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
    mean: FloatArray = array(
        "groups",
        "dim",
        missing=math.nan,
        label="mean",
        ends="confidence_interval",
        error="standard_error",
        drawn="private",
    )
    count: FloatArray = array("groups", "dim")
    count_noise_std: float
    middle: FloatArray = array("groups", "dim")
    noise_std: FloatArray = array("groups", "dim")
    sampling_std: FloatArray = array("groups", "dim", sampling=True)
    clipping_std: FloatArray = array("groups", "dim")
    tail_below: FloatArray = array("groups", "dim", missing=math.inf)
    tail_above: FloatArray = array("groups", "dim", missing=math.inf)
    variance: FloatArray = array("groups", "dim", missing=math.nan)
    variance_std: FloatArray = array("groups", "dim", missing=math.inf, sampling=True)
    variance_tail: FloatArray = array("groups", "dim", missing=math.inf)
    noise_law: str
    lowest: FloatArray = array("dim", missing=-math.inf)
    highest: FloatArray = array("dim", missing=math.inf)

    _main = "groups"
    _parted = "mean"
    _line_axes = ("groups", "dim")

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

    @column("width_", "groups", "dim", "parts", frames_only=True)
    def interval_parts(self, level: float = 0.95) -> FloatArray:
        """Half-widths from noise, sampling, clipping and undetected rows, (groups, dim, 4).

        Their squares add up to that of the larger half of `confidence_interval`, which bounds may cut.
        """
        z = deviations(self.noise_law, validation.confidence_level(level))
        tail = np.maximum(self.tail_below, self.tail_above)
        return half_widths(z, self.noise_std, self.sampling_std, self.clipping_std, tail)

    def sum(self, level: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sums of the columns over the rows of each group, and lower and upper ends of intervals, (groups, dim) each.

        A sum is the count times the mean. The intervals are for the sums in these rows: they include noise (also that of the
        count, of which a mean has a part), clipping and undetected rows, but no sampling. Where the privacy unit is a person,
        these are at most `rows_per_person` rows of each. NaN and infinite where there is no mean.

        >>> import numpy as np
        >>> import fastpubpriv as fpp
        >>> ward = np.arange(30_000) % 3
        >>> rows = np.column_stack([np.random.default_rng(0).gamma(2.0, 5.0, 30_000), ward])
        >>> result = fpp.estimate_mean(rows[9:], x_pub=rows[:9], by=-1, groups=[0, 1, 2], budget=fpp.ZCDP(rho=0.5))
        >>> total, lower, upper = result.sum(0.999999)
        >>> truth = [rows[9:][rows[9:, 1] == k, 0].sum() for k in (0, 1, 2)]
        >>> bool(np.all((lower[:3, 0] < truth) & (truth < upper[:3, 0])))
        True
        """
        z = deviations(self.noise_law, validation.confidence_level(level))
        rows = np.maximum(self.count, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            # Of count * middle + (sum of deviations from the middle); a mean has the noise of its count times its deviation.
            of_count = self.middle**2 - (self.mean - self.middle) ** 2
            variance = (rows * self.noise_std) ** 2 + of_count * self.count_noise_std**2
            noise = np.sqrt(np.maximum(variance, 0.0))
            width = z * np.hypot(noise, rows * self.clipping_std)
            total = rows * self.mean
            lower = total - np.hypot(width, rows * self.tail_below)
            upper = total + np.hypot(width, rows * self.tail_above)
        unknown = np.isnan(total)
        return total, np.where(unknown, -math.inf, lower), np.where(unknown, math.inf, upper)

    @property
    @column(
        "std",
        "groups",
        "dim",
        ends="deviation_interval",
        names_of_ends=("std_lower", "std_upper"),
        error="_deviation_scale",
    )
    def standard_deviation(self) -> FloatArray:
        """Standard deviations within each group, (groups, dim); NaN if unknown."""
        return np.asarray(np.sqrt(np.maximum(self.variance, 0.0)))

    def deviation_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (groups, dim) each, of intervals for the standard deviations; infinite under Laplace noise."""
        level = validation.confidence_level(level)
        return deviation_ends(
            self.noise_law, level, self.variance, self.variance_std, self.variance_tail
        )

    @property
    def _deviation_scale(self) -> FloatArray:
        return np.sqrt(self.variance_std)

    @property
    @column("rows", "groups", "dim", error="_rows_scale", unit="rows")
    def _possible_rows(self) -> FloatArray:
        return np.clip(self.count, 0.0, float(self._most_rows))

    @property
    def _rows_scale(self) -> float:
        return max(self.count_noise_std, 1.0)

    def _facts(self, level: float) -> Facts:
        sources = f"{self.noise_law} noise, sampling, clipping and undetected rows"
        facts = [("Interval", f"{percent(level)} each, from {sources}"), *width_facts(self, level)]
        rows = f"released with noise of {self.count_noise_std:.3g}"
        return [*facts, ("Rows of a group", rows), *self._facts_of_left_out()]
