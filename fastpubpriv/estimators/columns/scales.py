"""From released counts of signed dyadic cells to what can be told apart from noise: where a column's numbers end on each side.

Post-processing of released and public numbers. Everything here is unchanged when a column and its counts move by whole octaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.columns import windows
from fastpubpriv.estimators.columns.shares import Shares
from fastpubpriv.estimators.columns.windows import DECAY, thresholds
from fastpubpriv.kernels.rows import EXPONENTS

ANCHOR, ANCHOR_PURE = 5.2, 9.8
WEAK = 3.5
FALSE_ALARM, FALSE_ALARM_PURE = 0.01, 0.03  # so rare an error costs more rows under Laplace noise
GUESSED = 16  # times rarer beside a place that only the size of the centre suggests
MOST_FALSE_ALARM_COLUMNS = 10
MANY_ZEROS = 0.4
# Octaves beyond the last cell that stands out, and deviations of a cell and of an octave there, that make a column doubtful.
DOUBTFUL_OCTAVES = 4
DOUBTFUL_CELL, DOUBTFUL_OCTAVE = 3.4, 2.8
PUBLIC_GAP = 3  # octaves between the last private row that can be seen and a public one that is believed
NEAR_CENTER = 12, 2  # octaves below and above the size of the centre
# Without bounds, unseen rows are told of up to a thousand times further out than what is seen: values that stand for "missing" are
# there. The deviations are the 95 % quantile of a normal law.
UNSEEN_OCTAVES, UNSEEN_STDS = 10.0, 1.645


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


def columns_of(counts: FloatArray, public: FloatArray, centers: FloatArray, shares: Sequence[Shares]) -> list[Column]:
    """Columns from their released counts (columns, 2 cells + 2), public numbers (m, columns), centres and shares.

    Private counts and those of the other public rows are joined by inverse variance.
    """
    side, log2_parts = EXPONENTS << shares[0].log2_parts, shares[0].log2_parts
    # The row at the centre was chosen, so that it says nothing; a centre that was released is none of them.
    others = (len(public) - (public == centers).any(axis=0)).tolist()
    factors = [each.n / m if m else 0.0 for each, m in zip(shares, others, strict=True)]
    own = [each.count_std**2 for each in shares]
    values, variances, cells = pooled_counts(counts, 2, log2_parts, public, centers, own, factors)
    return [
        Column(
            center=center, above=values[j, 0], below=values[j, 1], above_var=variances[j, 0], below_var=variances[j, 1],
            zero=zero, missing=missing, public_above=cells[2 * j], public_below=cells[2 * j + 1],
        )
        for j, (center, (zero, missing)) in enumerate(zip(centers.tolist(), counts[:, 2 * side :].tolist(), strict=True))
    ]  # fmt: skip


def pooled_counts(
    counts: FloatArray,
    sides: int,
    log2_parts: int,
    public: FloatArray,
    centers: FloatArray,
    own: Sequence[float],
    factors: Sequence[float],
) -> tuple[FloatArray, FloatArray, list[IntArray]]:
    """Counts and variances (columns, sides, cells), and the cells that hold public rows, ascending, side after side of each column.

    `counts` (columns, at least sides * cells) with variances `own` are joined, by inverse variance, with those of the finite public
    rows (m, columns) about `centers`, each of which stands for so many of the counted rows as `factors` say. `sides`: those of
    numbers above the center, and below it.
    """
    columns, cells = len(centers), EXPONENTS << log2_parts
    variance, factor = np.array(own), np.array(factors)
    square = factor**2
    # A public row says something of the cells beside its own; far from all of them, half a row is as good as seen.
    far = np.where(factor > 0.0, variance / (variance + square * 0.5), 0.0)
    values = counts[:, : sides * cells]
    values = ((0.0 - values) * far[:, None] + values).reshape(columns * sides, cells)
    variances = np.repeat(variance * (1.0 - far), sides * cells).reshape(columns * sides, cells)
    with np.errstate(over="ignore"):
        distance = np.asarray(public, dtype=np.float64) - centers
    lines = np.arange(columns) * sides + (distance < 0.0)
    keys = lines * (cells + 2) + 1 + ((np.abs(distance).view(np.int64) - 1) >> (52 - log2_parts))
    # Each side has an empty cell at either end, so that every cell has neighbors.
    seen = np.bincount(keys[distance != 0.0], minlength=columns * sides * (cells + 2))
    held = seen.nonzero()[0]
    near = np.concatenate([held - 1, held, held + 1])
    line, place = np.divmod(near, cells + 2)
    within = (place > 0) & (place <= cells)
    near, line, place = near[within], line[within], place[within] - 1
    column = line // sides
    around = seen[near - 1] + seen[near] + seen[near + 1]
    weight = variance[column] / (variance[column] + square[column] * (around / 3.0 + 0.5))
    counted = counts[column, line % sides * cells + place]
    values[line, place] = counted + weight * (factor[column] * seen[near] - counted)
    variances[line, place] = variance[column] * (1.0 - weight)
    ends = held.searchsorted(np.arange(columns * sides + 1) * (cells + 2)).tolist()
    found = [held[low:high] - (1 + side * (cells + 2)) for side, (low, high) in enumerate(pairwise(ends))]
    shape = columns, sides, cells
    return values.reshape(shape), variances.reshape(shape), found


def chance_of(shares: Shares) -> float:
    """Chance of a false alarm beside what is known, for one column."""
    return (FALSE_ALARM_PURE if shares.pure else FALSE_ALARM) / min(shares.dim, MOST_FALSE_ALARM_COLUMNS)


def undetected_rows(shares: Shares, octaves: float = UNSEEN_OCTAVES, *, guessed: bool = False) -> float:
    """Rows that an octave so far from what is known may hold unseen: where more are expected, they stand out in 95 % of samples.

    `guessed`: only the size of the centre suggests what is known.
    """
    chance = chance_of(shares) / (GUESSED if guessed else 1)
    limits = thresholds(shares.log2_parts, chance, shares.parts, shares.pure)
    noise = shares.count_std * math.sqrt(shares.parts)
    least = float(limits[min(math.ceil(octaves * shares.parts), len(limits) - 1)]) * noise
    # The root of rows = least + z sqrt(noise^2 + rows): both the noise and the number of such rows in a sample vary.
    half = UNSEEN_STDS**2 / 2.0
    return min(least + half + UNSEEN_STDS * math.sqrt(noise**2 + least + half / 2.0), float(shares.n))


def undetected_at(column: Column, scale: Scale, shares: Shares, distance: float) -> float:
    """Rows that may lie unseen at a distance from the centre, which for a column in bounds is that of the bound."""
    lasts = [last for last in (scale.above, scale.below) if last is not None]
    key = key_of(max(distance, float(np.finfo(np.float64).smallest_subnormal)), shares.log2_parts)
    if lasts:
        return undetected_rows(shares, max(0, key - max(lasts)) / shares.parts)
    places = [key_of(size, shares.log2_parts) for size in (abs(column.center), 1.0) if size]
    return undetected_rows(shares, min(abs(key - place) for place in places) / shares.parts, guessed=True)


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
            least = limit * shares.count_std * math.sqrt(width)
            if len(sums) and np.maximum.reduce(sums) > least:
                places = np.flatnonzero(sums > least)
                with np.errstate(over="ignore"):
                    worst = max(worst, float((sums[places] * edges[begin + places]).max()))
    return worst


def outer_set(keys: IntArray) -> set[int]:
    """The outermost public cell of a side, if there is one."""
    return {int(keys[-1])} if len(keys) else set()


def believed(keys: IntArray, end: int, shares: Shares) -> set[int]:
    """The outermost of the public cells that go on from `end` without a gap, where the private rows can be seen to end."""
    far, last, found = PUBLIC_GAP * shares.parts, end, set()
    for key in keys.tolist():
        reached = key if key > end else end
        if reached - last > far:
            break
        last, found = reached, {key}
    return found


def scales_of(columns: Sequence[Column], shares: Sequence[Shares]) -> list[Scale]:
    """Where the numbers of each column end on each side, as far as the counts can tell.

    `shares` are those of each column: alike in everything but the noise of its counts.
    """
    found = windows.find(columns, chance_of(shares[0]), shares[0])
    return [_scale(*each) for each in zip(columns, found, shares, strict=True)]


def _scale(column: Column, candidates: windows.Found, shares: Shares) -> Scale:
    """Where the numbers of one column end."""
    found, anchor = candidates
    start = _Start.of(column, anchor, shares)
    if start.anchored:
        # Private rows show where the column lies: a public row far from all of them may be a mistake, and one cell of noise
        # so far out would outweigh all else.
        _, seen = windows.stand(found, {start.end}, shares)
        start = start.held_by(column, max(start.end, *seen), shares)
    elif start.guessed:
        start = start.guess(column, shares)
        ((found, _),) = windows.find([column], chance_of(shares) / GUESSED, shares)
    _, ends = windows.stand(found, start.known, shares)
    return start.scale(*ends)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Start:
    """What one column's windows are compared with: cells that are `known`, and the public `ends` above and below among them.

    `end` is that of the anchor, if the column is `anchored`; `guessed` where only the size of the centre suggests a place.
    """

    near: int
    ends: tuple[set[int], set[int]]
    known: set[int]
    end: int
    anchored: bool
    guessed: bool
    outlying: bool = False

    @classmethod
    def of(cls, column: Column, anchor: tuple[float, int], shares: Shares) -> _Start:
        """From the anchor and the public rows."""
        one = key_of(1.0, shares.log2_parts)
        near = key_of(abs(column.center), shares.log2_parts) if column.center else one
        above, below = outer_set(column.public_above), outer_set(column.public_below)
        anchored = _is_anchor(*anchor, max(near, one, *above, *below), shares)
        known = above | below
        return cls(
            near=near, ends=(above, below), known=known, end=anchor[1], anchored=anchored, guessed=not (anchored or known)
        )  # fmt: skip

    def held_by(self, column: Column, last: int, shares: Shares) -> _Start:
        """With the public rows that are believed where private rows are seen up to the cell `last`."""
        above, below = (believed(keys, last, shares) for keys in (column.public_above, column.public_below))
        outlying = (above, below) != self.ends
        return replace(self, ends=(above, below), known={self.end, *above, *below}, outlying=outlying)

    def guess(self, column: Column, shares: Shares) -> _Start:
        """With places that the size of the centre suggests, or none."""
        if column.zero > MANY_ZEROS * shares.n:
            return replace(self, known={self.near, key_of(1.0, shares.log2_parts)})
        down, up = (octaves * shares.parts for octaves in NEAR_CENTER)
        score, end = windows.anchor_between(column, self.near - down, self.near + up, shares)
        return replace(self, known={end} if score > WEAK else set())

    def scale(self, above: int, below: int) -> Scale:
        """With the outermost windows that stand, -1 for none."""
        if not self.known:
            return Scale(above=None, below=None, anchored=False, referenced=False)
        outermost = [
            max(held | {found} - {-1}, default=None) for held, found in zip(self.ends, (above, below), strict=True)
        ]
        return Scale(
            above=outermost[0], below=outermost[1], anchored=self.anchored, referenced=True, outlying=self.outlying
        )  # fmt: skip
