"""The line of each column from its signed counts about a center, its clip interval, and what rows may hide beyond it.

A side has counted cells up to its outermost significant one, and the tail of `line.tails` for `OUTER` octaves beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import BudgetSplit
from fastpubpriv.distributions.line import (
    ClipBox,
    Line,
    Moments,
    excess_above,
    tails,
    within_octaves,
)
from fastpubpriv.distributions.support import SignedCounts, Support, edges_of

LARGEST_EXPONENT = 1020  # base-2 exponent of a clip point, so that the box of a column is finite
DOWN, UP = 0, 1  # places of the sides of a column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """What the outermost octaves of each side of columns show, (columns, 2) each; cells beyond the support are in `Line`."""

    occupied: BoolArray  # a cell is significant
    heavy: BoolArray  # rows per octave decrease too slowly for a finite variance
    apart: BoolArray  # the outermost rows are few and separated from all others by a gap


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedColumns:
    """Counts, supports and clip intervals of columns; arrays are (columns,), lengths in the units of `box`.

    A column enters the sum as (clipped - box.middle) / box.half.
    """

    counted: Sequence[SignedCounts]
    scales: Sequence[Support]
    shares: Sequence[BudgetSplit]  # they differ in the noise of their counts only
    box: ClipBox
    rows: FloatArray  # number of rows that are not missing
    missing: FloatArray  # released number of missing rows, zero unless significant
    # From the counts: mean and standard deviation of values clipped where noise and clipping error balance, and of all values.
    first_mean: FloatArray
    rms: FloatArray
    mean: FloatArray
    std: FloatArray
    sides: Sides

    @cached_property  # nothing changes the box of finished columns
    def used(self) -> BoolArray:
        """False for columns that are left out: the clip interval is empty, or not representable by normal numbers."""
        box = self.box
        lengths = np.stack([box.upper, -box.lower, box.half])
        least = np.where(lengths == 0.0, math.inf, lengths).min(axis=0)
        return (box.upper > box.lower) & (box.half > 0.0) & (box.absolute(least) > 0.0)

    @property
    def zero(self) -> FloatArray:
        """Released numbers of rows that equal the center."""
        return np.array([column.zero for column in self.counted])

    @property
    def anchored(self) -> BoolArray:
        """Whether a window of cells localizes a column by itself."""
        return np.array([scale.anchored for scale in self.scales])

    @property
    def absent(self) -> FloatArray:
        """What a missing value adds to the released sum, unless incomplete rows are left out."""
        box = self.box
        with np.errstate(all="ignore"):
            return np.where(self.used, (self.first_mean - box.middle) / box.half, 0.0)

    @property
    def radius(self) -> FloatArray:
        """Half the length of the clip intervals."""
        return (self.box.upper - self.box.lower) / 2.0

    @property
    def reach(self) -> FloatArray:
        """Largest absolute value with which a column enters the sum."""
        box = self.box
        return np.maximum(box.upper - box.middle, box.middle - box.lower) / box.half

    @property
    def evidence(self) -> Iterator[tuple[SignedCounts, Support, BudgetSplit]]:
        """Counts, support and noise of each column."""
        return zip(self.counted, self.scales, self.shares, strict=True)

    def line(self, place: int) -> Line:
        """Line of one column."""
        part = slice(place, place + 1)
        return lines_of(self.counted[part], self.scales[part], self.shares[part])[0]


def joined(parts: Sequence[Any]) -> Any:
    """One value of several dataclasses of arrays, sequences, or such dataclasses: every field joined."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if not is_dataclass(first):
        return list(chain.from_iterable(parts))
    names = [field.name for field in fields(first)]
    values = {name: joined([getattr(part, name) for part in parts]) for name in names}
    return replace(first, **values)  # type: ignore[type-var]


def rows_of(column: SignedCounts, shares: BudgetSplit) -> tuple[float, float]:
    """Number of rows that are not missing, and that are; the latter zero unless significant."""
    clear = tuning.LIKELY * shares.count_std
    missing = column.missing if column.missing > clear else 0.0
    return max(shares.n - missing, 1.0, min(clear, float(shares.n))), missing


def _filled(scale: Support, column: SignedCounts, shares: BudgetSplit) -> list[int | None]:
    """Outermost cells below and above; a side without any gets one an octave inside that of the other side."""
    lasts = list(scale.ends)
    if None in lasts and column.zero <= tuning.MANY_ZEROS * shares.n:
        for empty in (DOWN, UP):
            other = lasts[1 - empty]
            if scale.ends[empty] is None and other is not None:
                lasts[empty] = max(other - max(shares.parts, 2), 0)
    return lasts


def _window(values: FloatArray, last: int, parts: int) -> FloatArray:
    """Entries of an array (cells,) from `INNER` octaves inside the end of cell `last` to `OUTER` beyond it, padded by zeros."""
    begin = last + 1 - tuning.INNER * parts
    end = last + 1 + tuning.OUTER * parts
    out = np.zeros(end - begin)
    low = max(begin, 0)
    high = max(low, min(end, len(values)))
    out[low - begin : high - begin] = values[low:high]
    return out


def is_slow(octaves: FloatArray, stds: FloatArray, first: int) -> BoolArray:
    """Whether three octaves of (sides, k), from `first` inwards, decrease as slowly as a tail of infinite variance."""
    one, two, three = octaves[:, first : first + 3].T
    noise = stds[:, first : first + 3].T
    clear = (one > 4.0 * noise[0]) & (two > 3.0 * noise[1]) & (three > 3.0 * noise[2])
    slow = (tuning.HEAVY * two <= one) & (one < two) & (tuning.HEAVY * three <= two) & (two < three)
    # An octave further out may fall below that ratio by one standard deviation of its count.
    goes_on = tuning.HEAVY * octaves[:, 1 : first + 1] <= octaves[:, :first] + stds[:, :first]
    return np.asarray(clear & slow & goes_on.all(axis=1))


# Entries of absent sides and of cells beyond the largest double are undefined until they are set to zero.
@np.errstate(all="ignore")
def lines_of(
    columns: Sequence[SignedCounts], scales: Sequence[Support], every: Sequence[BudgetSplit]
) -> tuple[Line, Sides]:
    """Lines of columns, and what their sides show; the cell at the center, of length zero, holds the rows of no other cell."""
    parts = every[0].parts
    inner = tuning.INNER * parts
    grid = edges_of(every[0].log2_parts)
    lasts = list(chain(*(_filled(*each) for each in zip(scales, columns, every, strict=True))))
    ends = [None if last is None else math.frexp(grid[last + 1])[1] for last in lasts]
    exponents = [
        max((end for end in pair if end is not None), default=0)
        for pair in zip(ends[::2], ends[1::2], strict=True)
    ]
    present = np.array([last is not None for last in lasts])
    # an absent side has no cell from here on
    known = [-1 - tuning.OUTER * parts if last is None else last for last in lasts]
    places = np.array(known)[:, None] + np.arange(1 - inner, 2 + tuning.OUTER * parts)
    edges = np.ldexp(grid.take(places, mode="clip"), -np.repeat(exponents, 2)[:, None])
    begins = chain(*(each.begins for each in columns))
    here = [last - begin for last, begin in zip(known, begins, strict=True)]
    counts = [side for each in columns for side in each.values]
    variances = [side for each in columns for side in each.variances]
    rows = np.array([_window(*each, parts) for each in zip(counts, here, strict=True)])
    variance = np.array([_window(*each, parts) for each in zip(variances, here, strict=True)])
    octaves = rows.reshape(len(rows), -1, parts).sum(axis=2)
    stds = np.sqrt(variance.reshape(len(rows), -1, parts).sum(axis=2))
    # The first octave beyond the outermost cell, then the last four from there inwards.
    last = slice(tuning.INNER - 4, tuning.INNER + 1)
    around = octaves[:, last][:, ::-1]
    around_stds = stds[:, last][:, ::-1]
    beyond = octaves[:, tuning.INNER :]
    tail = tails(around[:, 1:], around_stds[:, 1:], beyond, stds[:, tuning.INNER :])
    share = within_octaves(edges[:, inner:], parts)
    noise = np.sqrt(variance[:, :inner].max(axis=1, initial=0.0))
    gap = around[:, 2] + around[:, 3]
    gap_std = np.hypot(around_stds[:, 2], around_stds[:, 3])
    heavy = is_slow(around, around_stds, 1) | is_slow(around, around_stds, 2)
    apart = (gap < 3.0 * gap_std) & (around[:, 1] < tuning.UNSEEN * noise)
    occupied = np.array([[each is not None for each in scale.ends] for scale in scales])
    edges[:, 0] = 0.0  # the innermost cell reaches the center
    cells = np.zeros((4, *rows.shape))  # rows, variance, spread, hidden
    cells[0, :, :inner] = rows[:, :inner]
    cells[1, :, :inner] = variance[:, :inner]
    cells[[0, 2, 3], :, inner:] = np.repeat(np.stack(tail), parts, axis=2) * share

    # Cells of both sides in ascending order around the cell at the center, zero on absent sides.
    edges = np.where(present[:, None], edges, 0.0).reshape(len(columns), 2, -1)
    cells = np.where(present[:, None], cells, 0.0).reshape(4, len(columns), 2, -1)
    used = np.array([rows_of(*each)[0] for each in zip(columns, every, strict=True)])
    middle = np.zeros((4, len(columns), 1))
    middle[0, :, 0] = used - cells[0].reshape(len(columns), -1).sum(axis=1)
    both = np.concatenate([cells[:, :, DOWN, ::-1], middle, cells[:, :, UP]], axis=2)
    line = Line(
        center=np.array([each.center for each in columns]),
        exponent=np.array(exponents),
        edges=np.concatenate([-edges[:, DOWN, ::-1], edges[:, UP]], axis=1),
        rows=both[0],
        variance=both[1],
        spread=both[2],
        hidden=both[3],
    )
    return line, Sides(
        occupied=occupied,
        heavy=heavy.reshape(occupied.shape) & occupied,
        apart=apart.reshape(occupied.shape) & occupied,
    )


def candidates(line: Line, parts: int, side: int) -> FloatArray:
    """Candidate clip points of one side of each column from its center outwards, `POINTS_AN_OCTAVE` an octave, (columns, k)."""
    center = line.edges.shape[1] // 2 - 1 + side
    last = tuning.INNER * parts
    steps = max(1, tuning.POINTS_AN_OCTAVE // parts)
    outward = line.edges[:, center:] if side else line.edges[:, center::-1]
    near = outward[:, last - tuning.BELOW * parts : last + tuning.NEAR_OCTAVES * parts + 1]
    between = near[:, :-1, None] + np.diff(near, axis=1)[:, :, None] * (np.arange(steps) / steps)
    points = np.concatenate(
        [np.zeros((len(near), 1)), between.reshape(len(near), -1), near[:, -1:]], axis=1
    )
    most = np.ldexp(1.0, np.minimum(1000, LARGEST_EXPONENT - line.exponent))[:, None]
    return np.asarray(np.clip(points, -most, most))


def columns_clipped(
    counted: Sequence[SignedCounts],
    scales: Sequence[Support],
    every: Sequence[BudgetSplit],
    bounds: FloatArray,
    public: FloatArray,
) -> CountedColumns:
    """Columns with the clip interval of least predicted error within `bounds` (columns, 2).

    Where counts resolve no scale, the range of `public` values (m, columns) gives the interval.
    """
    shares = every[0]
    whole, sides = lines_of(counted, scales, every)
    line = whole.within(bounds[:, 0], bounds[:, 1])
    below = candidates(line, shares.parts, DOWN)
    above = candidates(line, shares.parts, UP)
    box = line.clip(below, above, noise=shares.noise_per_clip, occupied=sides.occupied)
    inside = line.moments(box)
    if shares.dim > tuning.FEW_COLUMNS:
        box = _freely_extended(line, box, (below, above), inside, shares.dim)
    every_row = line.moments()
    rows, missing = np.array([rows_of(*each) for each in zip(counted, every, strict=True)]).T
    columns = CountedColumns(
        counted=counted,
        scales=scales,
        shares=every,
        box=box,
        rows=rows,
        missing=missing,
        first_mean=np.clip(inside.mean, box.lower, box.upper),
        rms=np.sqrt(np.maximum(inside.variance, 0.0)),
        mean=every_row.mean,
        std=np.sqrt(np.maximum(every_row.variance, 0.0)),
        sides=sides,
    )
    hidden = np.maximum(box.hidden, undetected(columns, whole, bounds))
    columns = replace(columns, box=replace(box, hidden=hidden))
    for place, own in enumerate(every):
        values = public[~np.isnan(public[:, place]), place]
        if own.too_noisy and len(values) >= tuning.FEW_PUBLIC:
            _set_from_public(columns, place, values)
    return replace(columns, box=scaled(columns, shares.dim))


def _freely_extended(
    line: Line, box: ClipBox, points: tuple[FloatArray, FloatArray], inside: Moments, dim: int
) -> ClipBox:
    """Box extended to the points up to which many columns add no noise: their width is then the deviation of their rows."""
    below, above = points
    reach = np.sqrt(np.maximum(inside.variance, 0.0)) * extent_of(dim)
    middle = middle_of(box.middle, inside.mean, dim)
    free = (middle - reach)[:, None]
    lower = np.where(below >= free, below, 0.0).min(axis=1)
    upper = np.where(above <= free + 2.0 * reach[:, None], above, 0.0).max(axis=1)
    return line.box(np.minimum(box.lower, lower), np.maximum(box.upper, upper))


def undetected(columns: CountedColumns, line: Line, bounds: FloatArray) -> FloatArray:
    """Bound on the excess of rows that tails do not cover, (columns, 2): far beyond them, or beside a frequent value."""
    limits = np.abs(line.relative(bounds.T)).T
    excess = np.zeros(limits.shape)
    for place, scale in enumerate(columns.scales):
        outermost = scale.outermost
        if outermost < 0:
            continue
        for side in (DOWN, UP):
            limit = float(limits[place, side])
            excess[place, side] = _far_excess_bound(columns, line, place, side, outermost, limit)
            if scale.ends[side] is None:
                beside = _rare_excess_bound(columns, place, side, outermost, limit)
                excess[place, side] = max(excess[place, side], beside)
    return excess


def _far_excess_bound(
    columns: CountedColumns, line: Line, place: int, side: int, outermost: int, limit: float
) -> float:
    """Bound on the excess of rows up to `FAR` octaves beyond the outermost significant cell of both sides."""
    column = columns.counted[place]
    shares = columns.shares[place]
    parts = shares.parts
    sign = 1.0 if side else -1.0
    end = sign * float((columns.box.lower, columns.box.upper)[side][place])
    last = columns.scales[place].ends[side]
    begin = max(0, outermost + 1 - tuning.NEAR_OCTAVES * parts) if last is None else last + 1
    counts, variances = column.cells(side, begin, outermost + 1 + tuning.FAR * parts)
    lengths = edges_of(shares.log2_parts)[begin : begin + len(counts) + 1]
    likely = tuning.FAR_REACH * columns.std[place] + sign * columns.mean[place]
    limit = min(limit, max(0.0, float(likely)))
    edges = np.minimum(np.ldexp(lengths, -line.exponent[place]), limit)
    unexpected = counts.copy()
    if last is not None:
        outward = line.rows[place] if side else line.rows[place, ::-1]
        tail = outward[-tuning.OUTER * parts :][: len(counts)]
        unexpected[: len(tail)] -= tail
    total, variance = excess_above(end, edges, unexpected, variances)
    return max(0.0, total + tuning.FAR_STDS * math.sqrt(variance))


def _rare_excess_bound(
    columns: CountedColumns, place: int, side: int, outermost: int, limit: float
) -> float:
    """Bound on the excess on a side without rows to be seen where most rows equal the center: rare values may lie on both."""
    column = columns.counted[place]
    shares = columns.shares[place]
    frequent = column.zero / columns.rows[place] - tuning.MANY_ZEROS
    weight = min(1.0, max(0.0, frequent / (tuning.MOST_ZEROS - tuning.MANY_ZEROS)))
    end = outermost + 1
    cells, _ = column.cells(side, end - shares.parts, end + shares.parts)
    rows = max(0.0, float(cells.sum())) + shares.count_std * math.sqrt(len(cells))
    length = math.ldexp(edges_of(shares.log2_parts)[end], -int(columns.box.exponent[place]))
    return float(weight * rows * min(length, limit))


def _set_from_public(columns: CountedColumns, place: int, values: FloatArray) -> None:
    """Clip one column to the range of its public values, widened by its length on both sides."""
    low = float(values.min())
    high = float(values.max())
    length = high - low
    exponent = math.frexp(length)[1] if length > 0.0 else 0
    center = columns.counted[place].center

    def relative(value: float) -> float:
        return math.ldexp(value, -exponent)

    box = columns.box
    box.exponent[place] = exponent
    box.lower[place] = relative(low - center - length)
    box.upper[place] = relative(high - center + length)
    for each in (box.back, box.variance, box.hidden):
        each[place] = 0.0
    for each in (columns.mean, columns.first_mean):
        each[place] = relative(float(values.mean()) - center)
    for each in (columns.std, columns.rms):
        each[place] = relative(float(values.std(ddof=1)))
    for shown in (columns.sides.occupied, columns.sides.heavy, columns.sides.apart):
        shown[place] = False


def extent_of(dim: int) -> float:
    """Standard deviations from its midpoint that a column of many may extend to before its width grows."""
    return 0.9 * math.sqrt(dim) + 1.6


def middle_of(interval: FloatArray, mean: FloatArray, dim: int) -> FloatArray:
    """Centers of columns in the sum: the midpoints of their intervals if columns are few, the means of their rows if many."""
    share = min(1.0, max(0.0, (dim - 1) / 5.0))
    return (1.0 - share) * interval + share * mean


def scaled(columns: CountedColumns, dim: int) -> ClipBox:
    """Box of the columns with their centers and widths in the sum: those of intervals if columns are few, of rows if many."""
    box = columns.box
    midpoint = (box.lower + box.upper) / 2.0
    middle = midpoint if dim == 1 else middle_of(midpoint, columns.first_mean, dim)
    half = np.maximum(box.upper - middle, middle - box.lower)
    if dim > tuning.FEW_COLUMNS:
        half = np.maximum(np.minimum(columns.rms, half), half / extent_of(dim))
    return replace(box, middle=middle, half=half)
