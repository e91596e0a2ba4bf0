"""Clip points of columns: the model of each tail, the clip interval of least predicted error, and the correction for clipped rows.

A side of a column has counted cells up to the outermost significant one, and cells of a tail model for five octaves beyond it.
Lengths are in units of a power of two near the outermost cell, so that products of lengths and counts cannot overflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import BudgetSplit
from fastpubpriv.distributions.support import SignedCounts, Support, edges_of

GRID = 1.0 - np.linspace(0.0, 1.0, 41)
TINY = float(np.finfo(np.float64).tiny)
LOWER, UPPER, MASS, VARIANCE, SPREAD, HIDDEN = range(6)


class Side(NamedTuple):
    """Summary of one side of a column."""

    last: int  # index of the outermost significant cell
    end: float  # its upper end
    beyond: FloatArray  # (5 octaves of cells,): predicted rows in each cell beyond it
    heavy: bool  # counts per octave decrease too slowly for a finite variance
    apart: bool  # the outermost rows are few and separated from all others by a gap


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """Masses of cells (lower, upper] of each side: counts of the first `occupied` cells, then masses of a model of the tail."""

    # (6, sides, cells): lower and upper edges, ascending; mass (rows); variance of the counted mass; standard deviation of the
    # predicted mass, perfectly correlated over the cells; upper bound of the predicted mass.
    block: FloatArray
    # Outermost significant cell of each side; None if there is none: the side is not `present`, and its entries are undefined.
    lasts: Sequence[int | None]
    parts: int  # cells per octave
    heavy: Sequence[bool]  # as in `Side`, like apart
    apart: Sequence[bool]

    @property
    def occupied(self) -> int:
        """Number of counted cells per side."""
        return tuning.INNER * self.parts

    @property
    def upper(self) -> FloatArray:
        """Upper edges of the cells, (sides, cells)."""
        return np.asarray(self.block[UPPER])

    @property
    def present(self) -> BoolArray:
        """(sides,) True where a cell is significant."""
        return np.array([last is not None for last in self.lasts])

    def each(self) -> list[Side | None]:
        """Return a `Side` for each side, None for one that is not present."""
        ends = self.block[UPPER, :, self.occupied - 1].tolist()
        beyond = self.block[MASS, :, self.occupied :]
        sides = zip(self.lasts, ends, beyond, self.heavy, self.apart, strict=True)
        return [None if last is None else Side(last, *rest) for last, *rest in sides]

    @np.errstate(all="ignore")
    def excess(self, clips: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Total excess of the rows over each of `clips` (sides, k), its variance, and a bound on the excess of undetected rows."""
        # Clip points after the first lie near the outermost cell, so that cells far inside contribute nothing.
        parts = [self._excess(part) for part in (clips[:, :1], clips[:, 1:]) if part.shape[1]]
        over, risk, hidden = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        return over, risk, hidden

    def _excess(self, clips: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`excess` over the cells that reach beyond the smallest clip point; all others contribute zero."""
        within = self.upper[:, : self.occupied] <= clips.min(axis=1)[:, None]
        begin = int(within.sum(axis=1).min(initial=self.occupied))
        counts = self.occupied - begin
        lower, upper, mass, variance, spread, hidden = self.block[:, :, None, begin:]
        width = upper - lower
        points = clips[:, :, None]
        # Values are assumed uniform within a cell, also within one that holds a clip point.
        part = np.minimum(np.maximum(upper - points, 0.0), width)
        over = 0.5 * part / np.maximum(width, TINY) * part + np.where(
            part > 0.0, np.maximum(lower - points, 0.0), 0.0
        )
        guessed = (spread * over)[:, :, counts:].sum(axis=2)
        risk = (
            (over**2 * variance).sum(axis=2)
            + guessed**2
            + np.square(part * np.maximum(mass, 0.0)).sum(axis=2) / 12.0
        )
        unseen = (np.maximum(hidden - mass, 0.0) * over)[:, :, counts:].sum(axis=2)
        return (over * mass).sum(axis=2), risk, unseen

    @np.errstate(all="ignore")
    def clipped(self, clips: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sum of the values clipped to each of `clips` (sides, k), and sum of their squares: (sides, k) each."""
        lower, upper, mass = self.block[:3, :, None]
        limits = clips[:, :, None]
        cut = np.minimum(lower + (upper - lower) / 2.0, limits)
        width = np.minimum(upper, limits) - np.minimum(lower, limits)
        return (mass * cut).sum(axis=2), (mass * (cut**2 + width**2 / 12.0)).sum(axis=2)


# entries of absent sides and of cells beyond the largest double are undefined
@np.errstate(all="ignore")
def sides_of(
    counts: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    edges: FloatArray,
    lasts: Sequence[int | None],
    parts: int,
    exponents: IntArray,
) -> Sides:
    """Build sides from counts, given the outermost significant cells `lasts`; lengths in units of 2^exponent per side."""
    # no cell from there on
    known = [-1 - tuning.OUTER * parts if last is None else last for last in lasts]
    places = np.array(known)[:, None] + np.arange(
        1 - tuning.INNER * parts, 2 + tuning.OUTER * parts
    )
    scaled = np.ldexp(edges[np.clip(places, 0, len(edges) - 1)], -exponents[:, None])
    mass = np.array([cut(*each, parts) for each in zip(counts, known, strict=True)])
    variance = np.array([cut(*each, parts) for each in zip(variances, known, strict=True)])
    inner = tuning.INNER * parts
    octaves = _octaves(mass[:, inner - 4 * parts : inner], parts)[:, ::-1]
    stds = np.sqrt(_octaves(variance[:, inner - 4 * parts : inner], parts))[:, ::-1]
    beyond = _octaves(mass[:, inner:], parts)
    beyond_std = np.sqrt(_octaves(variance[:, inner:], parts))
    numbers, spreads, hidden, shares = tails(
        octaves, stds, beyond, beyond_std, scaled[:, inner:], parts
    )
    mass[:, inner:] = np.repeat(numbers, parts, axis=1) * shares
    spread = np.zeros(mass.shape)
    most = np.zeros(mass.shape)
    spread[:, inner:] = np.repeat(spreads, parts, axis=1) * shares
    most[:, inner:] = np.repeat(hidden, parts, axis=1) * shares
    variance[:, inner:] = 0.0
    around = np.concatenate([beyond[:, :1], octaves], axis=1)
    around_std = np.concatenate([beyond_std[:, :1], stds], axis=1)
    noise = np.sqrt(variance[:, :inner].max(axis=1, initial=0.0))
    gap = octaves[:, 1] + octaves[:, 2]
    gap_std = [math.hypot(*each) for each in stds[:, 1:3].tolist()]
    block = np.stack([scaled[:, :-1], scaled[:, 1:], mass, variance, spread, most])
    apart = (gap < 3.0 * np.array(gap_std)) & (octaves[:, 0] < tuning.UNSEEN * noise)
    heavy = is_slow(around, around_std, 1) | is_slow(around, around_std, 2)
    return Sides(block=block, lasts=lasts, parts=parts, heavy=heavy.tolist(), apart=apart.tolist())


def cut(values: FloatArray, last: int, parts: int) -> FloatArray:
    """Entries from last - 64 octaves + 1 to last + 5 octaves of an array (cells,), padded by zeros."""
    begin = last + 1 - tuning.INNER * parts
    end = last + 1 + tuning.OUTER * parts
    out = np.zeros(end - begin)
    low = max(begin, 0)
    high = min(end, len(values))
    out[low - begin : high - begin] = values[low:high]
    return out


def _octaves(cells: FloatArray, parts: int) -> FloatArray:
    """Sum the cells of each octave: (sides, cells) -> (sides, octaves)."""
    return np.asarray(cells.reshape(len(cells), -1, parts).sum(axis=2))


def is_slow(octaves: FloatArray, stds: FloatArray, first: int) -> BoolArray:
    """Return where three octaves of (sides, k), from `first` inwards, decrease as slowly as a tail of infinite variance."""
    one, two, three = octaves[:, first : first + 3].T
    noise = stds[:, first : first + 3].T
    clear = (one > 4.0 * noise[0]) & (two > 3.0 * noise[1]) & (three > 3.0 * noise[2])
    slow = (tuning.HEAVY * two <= one) & (one < two) & (tuning.HEAVY * three <= two) & (two < three)
    # An octave further out may fall below that ratio by one standard deviation of its count.
    goes_on = tuning.HEAVY * octaves[:, 1 : first + 1] <= octaves[:, :first] + stds[:, :first]
    return np.asarray(clear & slow & goes_on.all(axis=1))


def first_ratio(octaves: Sequence[float], stds: Sequence[float]) -> tuple[float, float, float]:
    """Mass of the outermost octave, its ratio to the previous octave, and the least factor on it in the tail prior."""
    safe = [max(std, TINY) for std in stds]
    one, two = (max(octaves[k], safe[k] / 2.0) for k in (0, 1))
    ratio = min(tuning.LARGEST_RATIO, one / two) if one < two else tuning.LARGEST_RATIO
    factor = tuning.LEAST_FACTOR
    clear = octaves[0] > 4.0 * safe[0] and octaves[1] > 3.0 * safe[1] and octaves[2] > 3.0 * safe[2]
    if clear and octaves[0] < octaves[1]:  # a power law is extrapolated; a concave decay is not
        bend = octaves[0] * octaves[2] / octaves[1] ** 2
        factor = min(0.5, max(tuning.LEAST_FACTOR, 0.1 * min(1.0, bend) ** tuning.BEND))
    return one, ratio, factor


def tails(
    octaves: FloatArray,
    stds: FloatArray,
    beyond: FloatArray,
    beyond_std: FloatArray,
    edges: FloatArray,
    parts: int,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Predicted mass of five octaves beyond the last, standard deviations, upper bounds (sides, 5), and shares of the cells."""
    starts = [first_ratio(*each) for each in zip(octaves.tolist(), stds.tolist(), strict=True)]
    before, step, factor = np.array(starts).reshape(-1, 3).T
    most = before + stds[:, 0]
    growth = tuning.HIDDEN_GROWTH * step
    fractions = factor[:, None] ** GRID
    shape = len(octaves), tuning.OUTER
    numbers = np.zeros(shape)
    spreads = np.zeros(shape)
    hidden = np.zeros(shape)
    falls = np.zeros(shape)
    for j in range(tuning.OUTER):
        std = np.maximum(beyond_std[:, j], TINY)
        there = beyond_std[:, j] > 0.0  # there are no cells beyond the largest double
        guessed = posterior(before * step, fractions, beyond[:, j], std)
        numbers[:, j], spreads[:, j] = (np.where(there, each, 0.0) for each in guessed)
        # After a steep decrease, a slower one further out is not allowed.
        hidden[:, j] = np.where(
            there, np.minimum(growth * most, np.maximum(beyond[:, j], 0.0) + 2.0 * std), 0.0
        )
        growth = np.minimum(growth, tuning.HIDDEN_GROWTH * hidden[:, j] / np.maximum(most, TINY))
        most = hidden[:, j]
        fall = np.minimum(
            tuning.LARGEST_RATIO, np.maximum(numbers[:, j] / np.maximum(before, TINY), TINY)
        )
        falls[:, j] = fall
        before = numbers[:, j]
        step = np.minimum(step, fall)
    if parts == 1:
        return numbers, spreads, hidden, np.ones(shape)
    # Shares of the cells of an octave under a tail u^-index; uniform where that is undefined.
    indices = np.array([-math.log2(fall) for fall in falls.ravel().tolist()])
    windows = np.arange(tuning.OUTER)[:, None] * parts + np.arange(parts + 1)
    edges = edges[:, windows].reshape(-1, parts + 1)
    known = (edges[:, 0] > 0.0) & (edges[:, -1] > edges[:, 0])
    powers = (edges / np.where(known, edges[:, 0], 1.0)[:, None]) ** -indices[:, None]
    shares = powers[:, :-1] - powers[:, 1:]
    total = shares.sum(axis=1)
    known &= total > 0.0
    shares = np.where(known[:, None], shares / np.where(known, total, 1.0)[:, None], 1.0 / parts)
    return numbers, spreads, hidden, shares.reshape(len(octaves), -1)


def posterior(
    prior: FloatArray, fractions: FloatArray, count: FloatArray, std: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and deviation (sides,) of a mass, uniform a priori on `fractions` of 1.5 `prior`, given a noisy `count`."""
    points = (1.5 * prior)[:, None] * fractions
    log_weight = -0.5 * ((count[:, None] - points) / std[:, None]) ** 2
    weight = np.exp(log_weight - log_weight.max(axis=1)[:, None])
    weight /= weight.sum(axis=1)[:, None]
    mean = (weight * points).sum(axis=1)
    spread = np.sqrt(np.maximum(0.0, (weight * (points - mean[:, None]) ** 2).sum(axis=1)))
    return mean, spread


LARGEST_EXPONENT = 1020  # base-2 exponent of a clip point, so that the box of a column is finite
LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnClip:
    """How one column is clipped before the sum, and what the counts say of its moments; lengths in units of 2^exponent."""

    exponent: int
    below: float  # values, from the center, are clipped to [-below, above]
    above: float
    correction: float  # added to the sum for clipped values
    variance: float  # variance of the correction
    hidden: tuple[float, float]  # bounds on the contribution of undetected rows, below and above
    # From the counts: mean after clipping where noise and clipping bias balance, and mean of all values; deviations alike.
    first_mean: float
    mean: float
    rms: float  # standard deviation of a value so clipped, and (std) of a value
    std: float
    rows: float  # number of rows that are not missing
    missing: float  # released number of missing rows, zero unless significant
    sides: tuple[Side | None, Side | None]

    @property
    def middle(self) -> float:
        """Midpoint of the clip interval."""
        return (self.above - self.below) / 2.0

    @property
    def radius(self) -> float:
        """Half the length of the clip interval."""
        return (self.above + self.below) / 2.0

    def absolute(self, length: float) -> float:
        """Convert a length to the unit of the column; finite."""
        try:
            value = math.ldexp(length, self.exponent)
        except OverflowError:
            value = math.copysign(math.inf, length)
        return min(max(value, -LARGEST), LARGEST)


def candidates(sides: Sides, exponents: IntArray, bounds: FloatArray) -> FloatArray:
    """Candidate clip points of each side, ascending from zero: (sides, k); zeros for an absent side."""
    begin = sides.occupied - 1 - tuning.BELOW * sides.parts
    end = sides.occupied - 1 + tuning.NEAR_OCTAVES * sides.parts
    most = np.minimum(bounds, np.ldexp(1.0, np.minimum(1000, LARGEST_EXPONENT - exponents)))
    steps = max(1, tuning.POINTS_AN_OCTAVE // sides.parts)
    edges = sides.upper[:, begin : end + 1]
    points = np.zeros((len(most), steps * (end - begin) + 2))
    within = edges[:, :-1, None] + np.diff(edges, axis=1)[:, :, None] * (np.arange(steps) / steps)
    points[:, 1:-1], points[:, -1] = within.reshape(len(most), -1), edges[:, -1]
    np.minimum(points, most[:, None], out=points)
    return points * sides.present[:, None]


def rows_of(column: SignedCounts, shares: BudgetSplit) -> tuple[float, float]:
    """Number of rows that are not missing, and that are; the latter zero unless significant."""
    missing = column.missing if column.missing > tuning.LIKELY * shares.count_std else 0.0
    return max(
        shares.n - missing, 1.0, min(tuning.LIKELY * shares.count_std, float(shares.n))
    ), missing


def with_empty_sides(
    columns: Sequence[SignedCounts], lasts: Sequence[int | None], shares: BudgetSplit
) -> list[int | None]:
    """Outermost cells for the choice of clip points: a side without any gets one an octave inside the other side's."""
    filled = list(lasts)
    for j, column in enumerate(columns):
        for empty, other in ((2 * j, lasts[2 * j + 1]), (2 * j + 1, lasts[2 * j])):
            if (
                lasts[empty] is None
                and other is not None
                and column.zero <= tuning.MANY_ZEROS * shares.n
            ):
                filled[empty] = max(other - max(shares.parts, 2), 0)
    return filled


def shrunk_excess(excess: float, variance: float) -> float:
    """Shrink the noisy total excess of clipped values toward zero (positive-part James-Stein)."""
    return max(0.0, excess - variance / excess) if excess > 0.0 else 0.0


def choose(
    columns: Sequence[SignedCounts],
    scales: Sequence[Support],
    every: Sequence[BudgetSplit],
    bounds: FloatArray,
) -> list[ColumnClip]:
    """Choose the clip interval of least predicted error of each column within `bounds` (columns, 2)."""
    shares = every[0]
    edges = edges_of(shares.log2_parts)
    shape = (len(columns), 2, -1)
    lasts = [last for scale in scales for last in (scale.below, scale.above)]
    ends = [None if last is None else math.frexp(edges[last + 1])[1] for last in lasts]
    exponents = [
        max((end for end in ends[j : j + 2] if end is not None), default=0)
        for j in range(0, len(ends), 2)
    ]
    center = np.array([each.center for each in columns])
    units = np.repeat(exponents, 2)
    with np.errstate(all="ignore"):
        far = np.maximum(np.stack([center - bounds[:, 0], bounds[:, 1] - center], axis=1), 0.0)
        most = np.ldexp(far.ravel(), -units)
    ends_of = sides_of(
        [counts for each in columns for counts in (each.below, each.above)],
        [variances for each in columns for variances in (each.below_var, each.above_var)],
        edges,
        with_empty_sides(columns, lasts, shares),
        shares.parts,
        units,
    )
    if most.min() < math.inf:  # there is no mass beyond bounds
        ends_of.block[MASS:] *= ends_of.block[LOWER] < most[:, None]
    points = candidates(ends_of, units, most)
    present = ends_of.present[:, None]
    excess, variance, hidden = (
        np.where(present, part, 0.0).reshape(shape) for part in ends_of.excess(points)
    )
    occupied = np.array([last is not None for last in lasts])[:, None]
    risk = variance
    # a side without significant cells has a risk only if its counts suggest rows
    if (present & ~occupied).any():
        suggested = np.maximum(excess, 0.0) ** 2
        risk = (
            np.where(
                occupied.reshape(-1, 2, 1), 1.0, suggested / np.maximum(suggested + variance, TINY)
            )
            * variance
        )
    points = points.reshape(shape)
    error = (points[:, 0, :, None] + points[:, 1, None, :]) / 2.0
    error = np.square(error * shares.noise_per_clip)
    error += risk[:, 0, :, None]
    error += risk[:, 1, None, :]
    best = np.unravel_index(error.reshape(len(columns), -1).argmin(axis=1), error.shape[1:])
    at = np.arange(len(columns))[:, None], np.arange(2), np.stack(best, axis=1)
    clips = points[at]
    limits = np.stack([clips.ravel(), np.full(clips.size, math.inf)], axis=1)
    # Sums of clipped and unclipped values, then sums of their squares: (columns, 2, 4).
    moments = np.where(present, np.concatenate(ends_of.clipped(limits), axis=1), 0.0).reshape(shape)
    if shares.dim > tuning.FEW_COLUMNS:
        free = [
            free_reach(*each, shares)
            for each in zip(columns, clips.tolist(), moments.tolist(), strict=True)
        ]
        furthest = (points <= np.array(free)[:, :, None]).sum(axis=2) - 1
        at = at[0], at[1], np.maximum(at[2], furthest)
        clips = points[at]
    sides = [
        None if last is None else side for last, side in zip(lasts, ends_of.each(), strict=True)
    ]
    chosen = (part.tolist() for part in (clips, excess[at], variance[at], hidden[at], moments))
    pairs = zip(sides[::2], sides[1::2], strict=True)
    return [
        _clip(*each)
        for each in zip(
            columns,
            every,
            most.reshape(-1, 2).tolist(),
            exponents,
            pairs,
            zip(*chosen, strict=True),
            strict=True,
        )
    ]


def free_reach(
    column: SignedCounts, clips: list[float], moments: list[list[float]], shares: BudgetSplit
) -> tuple[float, float]:
    """Clip points up to which many columns add no noise, since the width of a column is then the deviation of its rows."""
    rows, _ = rows_of(column, shares)
    below, above = clips
    mean, rms = middle_and_rms(clips, moments, rows)
    reach = rms * extent_of(shares.dim)
    middle = middle_of((above - below) / 2.0, mean, shares.dim)
    return reach - middle, reach + middle


def middle_and_rms(
    clips: list[float], moments: list[list[float]], rows: float
) -> tuple[float, float]:
    """Mean and standard deviation of the clipped values of one column, from the sums in `moments` (2, 4)."""
    (down, _, down_sq, _), (up, _, up_sq, _) = moments
    mean = min(max((up - down) / rows, -clips[0]), clips[1])
    return mean, math.sqrt(max(0.0, (down_sq + up_sq) / rows - mean**2))


def _clip(
    column: SignedCounts,
    shares: BudgetSplit,
    reach: tuple[float, float],
    exponent: int,
    sides: tuple[Side | None, Side | None],
    best: Any,
) -> ColumnClip:
    """Build the clip of one column, which extends to `reach` at most; `best`: ends, excess, variance, hidden and moments."""
    ends, excess, variance, hidden, moments = best
    rows, missing = rows_of(column, shares)
    down, up = moments
    first_mean, rms = middle_and_rms(ends, moments, rows)
    mean = (up[1] - down[1]) / rows
    std = math.sqrt(max(0.0, (down[3] + up[3]) / rows - mean**2))
    clip = ColumnClip(
        exponent=exponent,
        below=ends[0],
        above=ends[1],
        correction=shrunk_excess(excess[1], variance[1]) - shrunk_excess(excess[0], variance[0]),
        variance=variance[0] + variance[1],
        hidden=(hidden[0], hidden[1]),
        first_mean=first_mean,
        mean=mean,
        rms=rms,
        std=std,
        rows=rows,
        missing=missing,
        sides=sides,
    )
    counted = (column.below, column.below_var), (column.above, column.above_var)
    unseen = []
    for place in range(2):
        possible = min(reach[place], max(0.0, tuning.FAR_REACH * std + (mean if place else -mean)))
        far = unseen_far(clip, place, counted[place], possible, shares)
        beside = unseen_beside(
            clip, place, counted[place][0], column.zero / rows, reach[place], shares
        )
        unseen.append(max(hidden[place], far, beside))
    return replace(clip, hidden=(unseen[0], unseen[1]))


def unseen_far(
    clip: ColumnClip,
    place: int,
    counted: tuple[FloatArray, FloatArray],
    reach: float,
    shares: BudgetSplit,
) -> float:
    """Bound on the contribution of rows far beyond the outermost significant cell, which the tail model does not cover."""
    lasts = [each.last for each in clip.sides if each is not None]
    if not lasts:
        return 0.0
    counts, variances = counted
    side = clip.sides[place]
    end = (clip.below, clip.above)[place]
    begin = (
        max(0, max(lasts) + 1 - tuning.NEAR_OCTAVES * shares.parts)
        if side is None
        else side.last + 1
    )
    last = min(len(counts), max(lasts) + 1 + tuning.FAR * shares.parts)
    edges = np.minimum(
        np.ldexp(edges_of(shares.log2_parts)[begin : last + 1], -clip.exponent), reach
    )
    expected = np.zeros(last - begin)
    if side is not None:
        beyond = side.beyond[: last - begin]
        expected[: len(beyond)] = beyond
    over = np.where(
        edges[1:] > edges[:-1], np.maximum((edges[:-1] + edges[1:]) / 2.0 - end, 0.0), 0.0
    )
    std = math.sqrt(float((variances[begin:last] * over**2).sum()))
    return max(0.0, float(((counts[begin:last] - expected) * over).sum()) + tuning.FAR_STDS * std)


def unseen_beside(
    clip: ColumnClip,
    place: int,
    counts: FloatArray,
    at_center: float,
    reach: float,
    shares: BudgetSplit,
) -> float:
    """Bound on the contribution of an empty side where most rows equal the center: rare values may lie on both sides of it."""
    other = clip.sides[1 - place]
    if clip.sides[place] is not None or other is None:
        return 0.0
    weight = min(
        1.0, max(0.0, (at_center - tuning.MANY_ZEROS) / (tuning.MOST_ZEROS - tuning.MANY_ZEROS))
    )
    cells = counts[max(0, other.last + 1 - shares.parts) : other.last + 1 + shares.parts]
    return (
        weight
        * (max(0.0, float(cells.sum())) + shares.count_std * math.sqrt(len(cells)))
        * min(other.end, reach)
    )


def from_public(column: SignedCounts, public: FloatArray, shares: BudgetSplit) -> ColumnClip:
    """Clip to the range of the public values, widened by its length on both sides, where counts resolve no scale."""
    low = float(public.min())
    high = float(public.max())
    length = high - low
    exponent = math.frexp(length)[1] if length > 0.0 else 0
    rows, missing = rows_of(column, shares)
    above = math.ldexp(high - column.center + length, -exponent)
    below = math.ldexp(column.center - low + length, -exponent)
    mean = math.ldexp(float(public.mean()) - column.center, -exponent)
    std = math.ldexp(float(public.std(ddof=1)), -exponent)
    return ColumnClip(
        exponent=exponent,
        below=below,
        above=above,
        correction=0.0,
        variance=0.0,
        hidden=(0.0, 0.0),
        first_mean=mean,
        mean=mean,
        rms=std,
        std=std,
        rows=rows,
        missing=missing,
        sides=(None, None),
    )


def extent_of(dim: int) -> float:
    """Standard deviations from its midpoint that a column of many may extend to before its width grows."""
    return 0.9 * math.sqrt(dim) + 1.6


def middle_of(interval: float, mean: float, dim: int) -> float:
    """Center of a column in the sum: the midpoint of its interval if columns are few, the mean of its rows if many."""
    share = min(1.0, max(0.0, (dim - 1) / 5.0))
    return (1.0 - share) * interval + share * mean


def middle_and_width(clip: ColumnClip, dim: int) -> tuple[float, float]:
    """Center and width of a column in the sum: of its interval if columns are few, of its rows if many."""
    if dim == 1:
        return clip.middle, clip.radius
    middle = middle_of(clip.middle, clip.first_mean, dim)
    extent = max(clip.above - middle, middle + clip.below)
    if dim <= tuning.FEW_COLUMNS:
        return middle, extent
    return middle, max(min(clip.rms, extent), extent / extent_of(dim))
