"""From released counts of signed dyadic cells to what can be told apart from noise: where a column's numbers end on each side.

Post-processing of released and public numbers. Everything here is unchanged when a column and its counts move by whole octaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.columns.shares import Shares
from fastpubpriv.kernels.columns import EXPONENTS

WIDTHS = (1, 2, 4, 8)
ANCHOR, ANCHOR_PURE = 5.2, 9.8
WEAK = 3.5
FALSE_ALARM = 0.01
GUESSED = 16  # times rarer beside a place that only the size of the centre suggests
MOST_FALSE_ALARM_COLUMNS = 10
# A cell found by mistake g octaves out costs 4^g in squared error: mistakes must become rare faster than that.
DECAY = 3.0
OUTER_HALF = 1.5
PASSES = 6
MANY_ZEROS = 0.4
# Octaves beyond the last cell that stands out, and deviations of a cell and of an octave there, that make a column doubtful.
DOUBTFUL_OCTAVES = 4
DOUBTFUL_CELL, DOUBTFUL_OCTAVE = 3.4, 2.8
PUBLIC_GAP = 3  # octaves between the last private row that can be seen and a public one that is believed
NEAR_CENTER = 12, 2  # octaves below and above the size of the centre


def edges_of(log2_parts: int) -> FloatArray:
    """Edges of the cells of one sign, ascending: cell k is (edges[k], edges[k + 1]]; the last one ends at the largest double."""
    side = EXPONENTS << log2_parts
    edges = (np.arange(side + 1, dtype=np.int64) << (52 - log2_parts)).view(np.float64)
    edges[-1] = np.finfo(np.float64).max
    return edges


def key_of(size: float, log2_parts: int) -> int:
    """Cell of a positive number."""
    return (int(np.float64(size).view(np.int64)) - 1) >> (52 - log2_parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """Counts of one column: `above` and `below` the centre, (cells,) each, with their variances; at zero; missing.

    `public_above` and `public_below` are the cells that hold a public row, ascending.
    """

    center: float
    above: FloatArray
    below: FloatArray
    above_var: FloatArray
    below_var: FloatArray
    zero: float
    missing: float
    public_above: IntArray
    public_below: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scale:
    """What stands out of the noise: the outermost cell on each side, None for none.

    `anchored`: some cells surely hold rows; `referenced`: there was a place to start from; `outlying`: public rows lie so far from
    all private ones that can be seen that they are not believed.
    """

    above: int | None
    below: int | None
    anchored: bool
    referenced: bool
    outlying: bool = False


def lower_medians(public: FloatArray) -> FloatArray:
    """An actual number of each public column (m, dim), the lower one of two in the middle: (dim,)."""
    return np.asarray(np.sort(public, axis=0)[(len(public) - 1) // 2])


def pooled(counts: FloatArray, seen: IntArray, others: int, shares: Shares) -> tuple[FloatArray, FloatArray]:
    """Counts (cells,) and their variances, private ones and those of the other public rows weighted by inverse variance."""
    variance = np.full(len(counts), shares.count_std**2)
    if others == 0:
        return counts, variance
    around = np.zeros(len(seen) + 2)
    around[1:-1] = seen
    mean = (around[:-2] + around[1:-1] + around[2:]) / 3.0
    factor = shares.n / others
    public_variance = factor**2 * (mean + 0.5)
    weight = variance / (variance + public_variance)
    return counts + weight * (factor * seen - counts), variance * (1.0 - weight)


def column_of(counts: FloatArray, public: FloatArray, center: float, shares: Shares) -> Column:
    """One column from its released counts (2 cells + 2,) and its public numbers (m,)."""
    side = EXPONENTS << shares.log2_parts
    # The row at the centre was chosen, so that it says nothing; a centre that was released is none of them.
    distances = np.delete(public, np.flatnonzero(public == center)[:1]) - center
    parts = []
    for sign, begin in ((1.0, 0), (-1.0, side)):
        sizes = distances[sign * distances > 0.0] * sign
        keys = (sizes.view(np.int64) - 1) >> (52 - shares.log2_parts)
        pool = pooled(counts[begin : begin + side], np.bincount(keys, minlength=side), len(distances), shares)
        parts.append((*pool, np.unique(keys)))
    (above, above_var, public_above), (below, below_var, public_below) = parts
    return Column(
        center=center, above=above, below=below, above_var=above_var, below_var=below_var, zero=float(counts[2 * side]),
        missing=float(counts[2 * side + 1]), public_above=public_above, public_below=public_below,
    )  # fmt: skip


def windows(values: FloatArray, parts: int) -> list[tuple[int, FloatArray]]:
    """(width, sums of so many neighbours) for widths up to two octaves; sum k begins at cell k."""
    found = [(1, values)]
    for width in WIDTHS[1:]:
        if width <= 2 * parts:
            last = found[-1][1]
            found.append((width, last[: -(width // 2)] + last[width // 2 :]))
    return found


@lru_cache(maxsize=32)
def thresholds(log2_parts: int, chance: float, width: int, pure: bool) -> FloatArray:
    """How many deviations a window must stand out, by its distance in cells from what is known to hold rows."""
    octaves = np.arange((EXPONENTS << log2_parts) + 1) / 2**log2_parts
    log_chance = math.log(chance) - DECAY * math.log(2.0) * octaves
    gaussian = -special.ndtri_exp(log_chance)
    if pure:  # noise of a cell is Laplace; that of several comes near a Gaussian
        laplace = -(math.log(2.0) + log_chance) / math.sqrt(2.0)
        gaussian = gaussian + (laplace - gaussian) / math.sqrt(width)
    gaussian.flags.writeable = False
    return np.asarray(gaussian)


def chance_of(shares: Shares) -> float:
    """Chance of a false alarm beside what is known, for one column."""
    return FALSE_ALARM / min(shares.dim, MOST_FALSE_ALARM_COLUMNS)


def undetected_rows(shares: Shares) -> float:
    """Rows that two octaves beside what is known may hold without standing out."""
    width = 2 * shares.parts
    limit = thresholds(shares.log2_parts, chance_of(shares), width, shares.pure)[0]
    return float(limit) * shares.count_std * math.sqrt(width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Windows:
    """Windows of one width that stand out at least as much as beside a reference: first cells, and deviations (k,) each."""

    width: int
    begin: IntArray
    score: FloatArray


def _standing(counts: FloatArray, variances: FloatArray, chance: float, shares: Shares) -> list[_Windows]:
    """The windows of one side that can stand out anywhere; all others need not be looked at again."""
    found = []
    sums, var_sums = windows(counts, shares.parts), windows(variances, shares.parts)
    for place, ((width, total), (_, variance)) in enumerate(zip(sums, var_sums, strict=True)):
        least = thresholds(shares.log2_parts, chance, width, shares.pure)[0]
        score = total / np.sqrt(variance)
        stands: BoolArray = score > least
        if width > 1:
            half, half_variance = sums[place - 1][1], var_sums[place - 1][1]
            shift = width // 2
            stands &= half[shift:] > OUTER_HALF * np.sqrt(half_variance[shift:])
        begin = np.flatnonzero(stands)
        found.append(_Windows(width=width, begin=begin, score=score[begin]))
    return found


def _distances(begin: IntArray, width: int, references: IntArray) -> IntArray:
    """Cells between each window and the nearest of ascending `references`; 0 where one is inside."""
    place = np.searchsorted(references, begin)
    far = 4 * EXPONENTS * WIDTHS[-1]
    padded = np.concatenate([[-far], references, [far]])
    left = begin - padded[place]
    right = np.maximum(0, padded[place + 1] - (begin + width - 1))
    return np.asarray(np.minimum(left, right))


def _ends(standing: list[_Windows], references: IntArray, chance: float, shares: Shares) -> set[int]:
    """Outer ends of the windows of one side that stand out so far from the references."""
    ends: set[int] = set()
    most = EXPONENTS << shares.log2_parts
    for each in standing:
        limit = thresholds(shares.log2_parts, chance, each.width, shares.pure)
        # Its outer half is what makes a window reach so far: from there on it counts as a mistake that costs.
        apart = np.minimum(_distances(each.begin, each.width, references) + each.width // 2, most)
        ends.update((each.begin[each.score > limit[apart]] + each.width - 1).tolist())
    return ends


def _anchor(column: Column, shares: Shares, low: int, high: int) -> tuple[float, int]:
    """Score and outer end of the window, of one side or both together within cells low ... high, that stands out most."""
    best = -math.inf, -1
    sides = (column.above, column.above_var), (column.below, column.below_var)
    both = column.above + column.below, column.above_var + column.below_var
    for counts, variances in (both, *sides):
        pairs = zip(windows(counts, shares.parts), windows(variances, shares.parts), strict=True)
        for (width, total), (_, variance) in pairs:
            begin, end = max(0, low), min(len(total), high + 1)
            if begin < end:
                score = total[begin:end] / np.sqrt(variance[begin:end])
                place = int(np.argmax(score))
                best = max(best, (float(score[place]), begin + place + width - 1))
    return best


def _is_anchor(score: float, end: int, near: int, shares: Shares) -> bool:
    """Whether a window surely holds rows: one far above the size of the centre has to stand out more than one near it."""
    if shares.blind:
        return False
    far = max(0, end - near - NEAR_CENTER[1] * shares.parts) / shares.parts
    least = ANCHOR_PURE if shares.pure else ANCHOR
    log_chance = special.log_ndtr(-ANCHOR) - DECAY * math.log(2.0) * far
    gaussian = -float(special.ndtri_exp(log_chance))
    growth = (log_chance - special.log_ndtr(-ANCHOR)) / -math.sqrt(2.0) if shares.pure else gaussian - ANCHOR
    return bool(score > least + growth)


def doubtful_sum(column: Column, scale: Scale, shares: Shares) -> float:
    """The largest sum, in distances from the centre, of rows beyond what stands out that may well be there, or zero.

    A cell or an octave counts that is near the end of either side and improbable as noise alone, though not so improbable as to
    be acted on.
    """
    lasts = [last for last in (scale.above, scale.below) if last is not None]
    edges, worst = edges_of(shares.log2_parts), 0.0
    for last, counts in ((scale.above, column.above), (scale.below, column.below)):
        begin = 1 + (max(lasts, default=len(counts)) if last is None else last)
        near = counts[begin : begin + DOUBTFUL_OCTAVES * shares.parts]
        for width, limit in ((1, DOUBTFUL_CELL), (shares.parts, DOUBTFUL_OCTAVE)):
            sums = np.convolve(near, np.ones(width), "valid") if len(near) >= width else np.zeros(0)
            places = np.flatnonzero(sums > limit * shares.count_std * math.sqrt(width))
            with np.errstate(over="ignore"):
                worst = max(worst, float((sums[places] * edges[begin + places]).max(initial=0.0)))
    return worst


def outer_set(keys: IntArray) -> set[int]:
    """The outermost public cell of a side, if there is one."""
    return {int(keys[-1])} if len(keys) else set()


def believed(keys: IntArray, end: int, shares: Shares) -> set[int]:
    """The outermost of the public cells that go on from `end` without a gap, where the private rows can be seen to end."""
    far = PUBLIC_GAP * shares.parts
    steps = np.flatnonzero(np.diff(np.maximum(np.append(end, keys), end)) > far)
    return outer_set(keys if len(steps) == 0 else keys[: int(steps[0])])


def scale_of(column: Column, shares: Shares) -> Scale:
    """Where the column's numbers end on each side, as far as the counts can tell."""
    one = key_of(1.0, shares.log2_parts)
    near = key_of(abs(column.center), shares.log2_parts) if column.center else one
    ends = [outer_set(column.public_above), outer_set(column.public_below)]
    score, end = _anchor(column, shares, 0, len(column.above) - 1)
    anchored = _is_anchor(score, end, max(near, one, *ends[0], *ends[1]), shares)
    chance = chance_of(shares)
    standing = [
        _standing(column.above, column.above_var, chance, shares),
        _standing(column.below, column.below_var, chance, shares),
    ]
    if anchored:
        # Private rows show where the column lies: a public row far from all of them may be a mistake, and one cell of noise
        # so far out would outweigh all else.
        _, last = _grown([set(), set()], {end}, standing, chance, shares)
        held = [believed(keys, max(last), shares) for keys in (column.public_above, column.public_below)]
        outlying = held != ends
        ends, known = _grown(held, {end, *held[0], *held[1]}, standing, chance, shares)
        return Scale(
            above=max(ends[0], default=None),
            below=max(ends[1], default=None),
            anchored=True,
            referenced=True,
            outlying=outlying,
        )
    known = ends[0] | ends[1]
    if not known:
        chance /= GUESSED
        if column.zero > MANY_ZEROS * shares.n:
            known = {near, one}
        else:
            down, up = (octaves * shares.parts for octaves in NEAR_CENTER)
            score, end = _anchor(column, shares, near - down, near + up)
            known = {end} if score > WEAK else set()
    if not known:
        return Scale(above=None, below=None, anchored=False, referenced=False)
    ends, _ = _grown(ends, known, standing, chance, shares)
    return Scale(above=max(ends[0], default=None), below=max(ends[1], default=None), anchored=False, referenced=True)


def _grown(
    ends: list[set[int]], known: set[int], standing: list[list[_Windows]], chance: float, shares: Shares
) -> tuple[list[set[int]], set[int]]:
    """Ends of both sides, and all cells that are known, once nothing more stands out beside them."""
    for _ in range(PASSES):
        references = np.array(sorted(known))
        ends = [mine | _ends(windows, references, chance, shares) for mine, windows in zip(ends, standing, strict=True)]
        found = known | ends[0] | ends[1]
        if found == known:
            break
        known = found
    return ends, known
