"""From released counts of signed dyadic cells to what can be told apart from noise: where a column's numbers end on each side.

Post-processing of released and public numbers. Everything here is unchanged when a column and its counts move by whole octaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
FALSE_ALARM, FALSE_ALARM_PURE = 0.01, 0.03  # so rare an error costs more rows under Laplace noise
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


@lru_cache(maxsize=8)
def edges_of(log2_parts: int) -> FloatArray:
    """Edges of the cells of one sign, ascending: cell k is (edges[k], edges[k + 1]]; the last one ends at the largest double."""
    side = EXPONENTS << log2_parts
    edges = (np.arange(side + 1, dtype=np.int64) << (52 - log2_parts)).view(np.float64)
    edges[-1] = np.finfo(np.float64).max
    edges.flags.writeable = False
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
    """Counts (..., cells) and their variances, private ones and those of the other public rows weighted by inverse variance."""
    own = shares.count_std**2
    if others == 0:
        return counts, np.full(counts.shape, own)
    factor = shares.n / others
    # Nearly all cells are far from every public row, and have one weight; the others follow one by one.
    weight = own / (own + factor**2 * 0.5)
    found, variance = counts + weight * (0.0 - counts), np.full(counts.shape, own * (1.0 - weight))
    around = np.zeros((*counts.shape[:-1], counts.shape[-1] + 2))
    around[..., 1:-1] = seen
    some = around > 0.0
    near = np.nonzero(some[..., :-2] | some[..., 1:-1] | some[..., 2:])
    *line, place = near
    mean = (around[*line, place] + around[*line, place + 1] + around[*line, place + 2]) / 3.0
    weights = own / (own + factor**2 * (mean + 0.5))
    found[near] = counts[near] + weights * (factor * seen[near] - counts[near])
    variance[near] = own * (1.0 - weights)
    return found, variance


def column_of(counts: FloatArray, public: FloatArray, center: float, shares: Shares) -> Column:
    """One column from its released counts (2 cells + 2,) and its public numbers (m,)."""
    side = EXPONENTS << shares.log2_parts
    # The row at the centre was chosen, so that it says nothing; a centre that was released is none of them.
    same = np.flatnonzero(public == center)
    kept = np.concatenate([public[: same[0]], public[same[0] + 1 :]]) if len(same) else public
    distances = kept - center
    apart = distances[distances != 0.0]
    keys = (np.abs(apart).view(np.int64) - 1) >> (52 - shares.log2_parts)
    keys[apart < 0.0] += side
    seen = np.bincount(keys, minlength=2 * side).reshape(2, side)
    values, variances = pooled(counts[: 2 * side].reshape(2, side), seen, len(distances), shares)
    return Column(
        center=center, above=values[0], below=values[1], above_var=variances[0], below_var=variances[1],
        zero=float(counts[2 * side]), missing=float(counts[2 * side + 1]),
        public_above=np.flatnonzero(seen[0]), public_below=np.flatnonzero(seen[1]),
    )  # fmt: skip


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
    return (FALSE_ALARM_PURE if shares.pure else FALSE_ALARM) / min(shares.dim, MOST_FALSE_ALARM_COLUMNS)


def undetected_rows(shares: Shares) -> float:
    """Rows that two octaves beside what is known may hold without standing out."""
    width = 2 * shares.parts
    limit = thresholds(shares.log2_parts, chance_of(shares), width, shares.pure)[0]
    return float(limit) * shares.count_std * math.sqrt(width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sums:
    """Sums of `width` neighbours over their deviations, in rows above, below, and both: (3, k); sum k begins at cell k.

    `half` are the sums of half the width and `half_std` their deviations, where there are any.
    """

    width: int
    score: FloatArray
    half: FloatArray | None
    half_std: FloatArray | None


def _sums(columns: Sequence[Column], shares: Shares) -> list[list[_Sums]]:
    """For each column the sums of both sides, and of both together, for widths up to two octaves."""
    total, variance = np.empty((2, 3, len(columns), len(columns[0].above)))
    total[0], total[1] = [each.above for each in columns], [each.below for each in columns]
    variance[0], variance[1] = [each.above_var for each in columns], [each.below_var for each in columns]
    for sides in (total, variance):
        np.add(sides[0], sides[1], out=sides[2])
    std = np.sqrt(variance)
    score = total / std
    found = [[_Sums(width=1, score=score[:, j], half=None, half_std=None)] for j in range(len(columns))]
    for width in WIDTHS[1:]:
        if width <= 2 * shares.parts:
            half, half_std, shift = total, std, width // 2
            total = half[..., :-shift] + half[..., shift:]
            variance = variance[..., :-shift] + variance[..., shift:]
            std = np.sqrt(variance)
            score = total / std
            for j, sums in enumerate(found):
                sums.append(_Sums(width=width, score=score[:, j], half=half[:, j], half_std=half_std[:, j]))
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Windows:
    """Windows of every width and both sides that stand out at least as much as beside a reference, (k,) each.

    `above` and `below` say on which side; `begin` and `last` are the outermost cells; `outer` is half the width; `scores` has the
    deviations of the windows of each width in turn.
    """

    above: BoolArray
    below: BoolArray
    begin: IntArray
    last: IntArray
    outer: IntArray
    scores: tuple[tuple[int, FloatArray], ...]

    def reach(self, chance: float, shares: Shares) -> IntArray:
        """(k,) how many cells from what is known a window is believed: its distance must be less."""
        # Thresholds rise with the distance, so that the number of those below a score is the first distance that is too far.
        found = [
            np.searchsorted(thresholds(shares.log2_parts, chance, width, shares.pure), score)
            for width, score in self.scores
        ]
        return np.concatenate(found)


def _standing(sums: list[_Sums], chance: float, shares: Shares) -> _Windows:
    """The windows that can stand out anywhere; all others need not be looked at again."""
    sides, begins, scores = [], [], []
    for each in sums:
        least = thresholds(shares.log2_parts, chance, each.width, shares.pure)[0]
        side, begin = np.divmod(np.flatnonzero(each.score[:2] > least), each.score.shape[1])
        if each.half is not None and each.half_std is not None:
            outer = begin + each.width // 2
            stands = each.half[side, outer] > OUTER_HALF * each.half_std[side, outer]
            side, begin = side[stands], begin[stands]
        sides.append(side)
        begins.append(begin)
        scores.append((each.width, each.score[side, begin]))
    width = np.repeat([each.width for each in sums], [len(begin) for begin in begins])
    begin, below = np.concatenate(begins), np.concatenate(sides) == 1
    return _Windows(
        above=~below, below=below, begin=begin, last=begin + width - 1, outer=width // 2, scores=tuple(scores)
    )


def _ends(standing: _Windows, reach: IntArray, known: set[int], shares: Shares) -> list[set[int]]:
    """Outer ends of the windows of each side that stand out so far from the cells that are known."""
    far = 4 * EXPONENTS * WIDTHS[-1]
    references = np.array([-far, *sorted(known), far])
    place = references.searchsorted(standing.begin)
    # Cells between a window and the nearest reference; none where one is inside.
    right = np.maximum(references[place] - standing.last, 0)
    distance = np.minimum(standing.begin - references[place - 1], right)
    # Its outer half is what makes a window reach so far: from there on it counts as a mistake that costs.
    stands = np.minimum(distance + standing.outer, EXPONENTS << shares.log2_parts) < reach
    return [set(standing.last[stands & side].tolist()) for side in (standing.above, standing.below)]


def _anchor(sums: list[_Sums], low: int, high: int) -> tuple[float, int]:
    """Score and outer end of the window, of one side or both together within cells low ... high, that stands out most."""
    best = -math.inf, -1
    for row in (2, 0, 1):
        for each in sums:
            score = each.score[row, max(0, low) : high + 1]
            if len(score):
                place = int(score.argmax())
                best = max(best, (float(score[place]), max(0, low) + place + each.width - 1))
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
            sums = (
                near if width == 1 else np.convolve(near, np.ones(width), "valid") if len(near) >= width else near[:0]
            )
            places = np.flatnonzero(sums > limit * shares.count_std * math.sqrt(width))
            if len(places):
                with np.errstate(over="ignore"):
                    worst = max(worst, float((sums[places] * edges[begin + places]).max()))
    return worst


def outer_set(keys: IntArray) -> set[int]:
    """The outermost public cell of a side, if there is one."""
    return {int(keys[-1])} if len(keys) else set()


def believed(keys: IntArray, end: int, shares: Shares) -> set[int]:
    """The outermost of the public cells that go on from `end` without a gap, where the private rows can be seen to end."""
    far = PUBLIC_GAP * shares.parts
    steps = np.flatnonzero(np.diff(np.maximum(np.append(end, keys), end)) > far)
    return outer_set(keys if len(steps) == 0 else keys[: int(steps[0])])


def scales_of(columns: Sequence[Column], shares: Sequence[Shares]) -> list[Scale]:
    """Where the numbers of each column end on each side, as far as the counts can tell.

    `shares` are those of each column: alike in everything but the noise of its counts.
    """
    return [_scale_of(*each) for each in zip(columns, _sums(columns, shares[0]), shares, strict=True)]


def _scale_of(column: Column, sums: list[_Sums], shares: Shares) -> Scale:
    """As `scales_of`, for one column."""
    one = key_of(1.0, shares.log2_parts)
    near = key_of(abs(column.center), shares.log2_parts) if column.center else one
    ends = [outer_set(column.public_above), outer_set(column.public_below)]
    score, end = _anchor(sums, 0, len(column.above) - 1)
    anchored = _is_anchor(score, end, max(near, one, *ends[0], *ends[1]), shares)
    chance = chance_of(shares)
    standing = _standing(sums, chance, shares)
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
            score, end = _anchor(sums, near - down, near + up)
            known = {end} if score > WEAK else set()
    if not known:
        return Scale(above=None, below=None, anchored=False, referenced=False)
    ends, _ = _grown(ends, known, standing, chance, shares)
    return Scale(above=max(ends[0], default=None), below=max(ends[1], default=None), anchored=False, referenced=True)


def _grown(
    ends: list[set[int]], known: set[int], standing: _Windows, chance: float, shares: Shares
) -> tuple[list[set[int]], set[int]]:
    """Ends of both sides, and all cells that are known, once nothing more stands out beside them."""
    reach = standing.reach(chance, shares)
    for _ in range(PASSES):
        more = _ends(standing, reach, known, shares)
        ends = [mine | found for mine, found in zip(ends, more, strict=True)]
        found = known | ends[0] | ends[1]
        if found == known:
            break
        known = found
    return ends, known
