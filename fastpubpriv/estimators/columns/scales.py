"""What the mean of real columns asks, and what counts of signed dyadic cells show: which stand out, and where each side ends.

From released counts of signed dyadic cells to what can be told apart from noise: where a column's numbers end on each side.
Post-processing of released and public numbers. Everything here is unchanged when a column and its counts move by whole octaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.columns import tuning
from fastpubpriv.kernels.rows import EXPONENTS, LOG2_PARTS_MAX, cells_of_column
from fastpubpriv.mechanisms.cells import count_event
from fastpubpriv.privacy.calibration import gaussian_count_grid, gaussian_sum_grid, laplace_count_grid, laplace_sum_grid

MOVED = 1 - tuning.MOVE_SUM - tuning.MOVE_COUNTS  # what a move leaves of the share of the sum


def draws(dim: int) -> int:
    """Most draws of noise that a call can make: cells of the finest kind and sums, with new centers, and shells."""
    return (1 + tuning.MOST_MOVES) * dim * (cells_of_column(LOG2_PARTS_MAX) + 1) + tuning.SHELLS + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSplit:
    """How the allowance of a call is divided among cells, shells and the sum."""

    n: int  # with dim: private rows and columns
    dim: int
    pure: bool  # Laplace noise
    cells: Fraction  # with shells and total: costs of the three releases: they add up to the allowance
    shells: Fraction
    total: Fraction
    log2_parts: int  # an octave has 2^log2_parts cells
    count_std: float  # noise of one cell, in rows

    @property
    def parts(self) -> int:
        """Cells of an octave."""
        return 1 << self.log2_parts

    @property
    def too_noisy(self) -> bool:
        """True where the counts cannot show any scale."""
        return self.count_std > self.n / tuning.UNSEEN

    @property
    def noise_per_radius(self) -> float:
        """Noise of one coordinate of a sum clipped to radius 1."""
        if self.pure:
            return math.sqrt(8.0 * self.dim) / float(self.total)
        return math.sqrt(2.0 / float(self.total))

    @property
    def noise_per_clip(self) -> float:
        """Noise expected of a column's sum for each unit of its own clip radius: the ball cuts less than the box."""
        if self.dim == 1:
            return self.noise_per_radius
        return (0.75 if self.dim <= tuning.FEW_COLUMNS else 0.5) * math.sqrt(self.dim) * self.noise_per_radius

    def predicted_error(self) -> float:
        """Expected error of one coordinate in standard deviations of a row, for columns like Gaussians."""
        radius_sq = max(9.0, self.dim + 2.0 * math.sqrt(self.dim))
        return math.sqrt(1.0 / self.n + radius_sq * (self.noise_per_radius / self.n) ** 2)


@lru_cache(maxsize=64)  # of public shares, those that a call starts with
def check_grids(shares: BudgetSplit) -> None:
    """Raise now, before the debit, unless every release has a grid."""
    pure, n = shares.pure, shares.n
    for log2_parts in range(LOG2_PARTS_MAX + 1):
        count_event(shares.cells, shares.dim, shares.dim * cells_of_column(log2_parts), n, pure=pure)
    if shares.shells:
        (laplace_count_grid if pure else gaussian_count_grid)(shares.shells, tuning.SHELLS + 1, n)
    (laplace_sum_grid if pure else gaussian_sum_grid)(shares.total, shares.dim, n)


@lru_cache(maxsize=64)  # calls come in loops, with the same settings
def divide(dim: int, n: int, allowance: Fraction, *, pure: bool, n_pub: int = 1) -> BudgetSplit:
    """Divide an allowance (a rho, or an epsilon when pure) between the questions about n private rows, beside n_pub public ones."""
    amount = float(allowance)
    signal = tuning.SIGNAL_PURE if pure and dim <= tuning.FEW_COLUMNS else tuning.SIGNAL
    need = math.sqrt(8.0) * dim * signal / (amount * n) if pure else dim * signal**2 / (amount * n * n)
    least = tuning.LEAST_SHARE if dim <= tuning.FEW_COLUMNS else tuning.LEAST_SHARE_MANY
    wanted = Fraction(math.ceil(64.0 * min(need, 1.0)), 64)
    most = (
        tuning.MOST_SHARE
        if not pure or (dim > tuning.FEW_COLUMNS and n_pub >= tuning.FEW_PUBLIC)
        else tuning.MOST_SHARE_PURE
    )
    share = min(most, max(least, wanted))
    shells = tuning.SHELL_SHARE if dim > 1 else Fraction(0)
    cells = share * allowance
    std = math.sqrt(8.0) * dim / float(cells) if pure else math.sqrt(dim / float(cells))
    reached = n / std
    return BudgetSplit(
        n=n,
        dim=dim,
        pure=pure,
        cells=cells,
        shells=shells * allowance,
        total=(1 - share - shells) * allowance,
        log2_parts=0 if reached < tuning.WHOLE else 1 if reached < 2.0 * tuning.WHOLE else 2,
        count_std=std,
    )


BOTH = 2  # sides together
SLACK = 1.0 - 1e-9  # the estimate of what a window may be must miss none


Windows = tuple[IntArray, tuple[float, int]]


@lru_cache(maxsize=32)
def thresholds(log2_parts: int, chance: float, pure: bool) -> FloatArray:
    """Deviations by which windows of 1, 2, 4 ... cells must stand out, by distance from known rows: (widths, cells + 1)."""
    octaves = np.arange((EXPONENTS << log2_parts) + 1) / 2**log2_parts
    log_chance = math.log(chance) - tuning.DECAY * math.log(2.0) * octaves
    gaussian = -special.ndtri_exp(log_chance)
    # Noise of a cell is Laplace under pure DP; that of several comes near a Gaussian.
    beyond = -(math.log(2.0) + log_chance) / math.sqrt(2.0) - gaussian if pure else np.zeros(len(octaves))
    every = np.stack([gaussian + beyond / math.sqrt(width) for width in tuning.WIDTHS if width <= 2 << log2_parts])
    every.flags.writeable = False
    return every


def find(columns: Sequence[SignedCounts], chance: float, shares: BudgetSplit) -> list[Windows]:
    """The windows of each column that can stand out anywhere, and its anchor: see `find_windows`."""
    limits, together = thresholds(shares.log2_parts, chance, shares.pure), tuning.MOST_CELLS >> shares.log2_parts
    parts = (columns[begin : begin + together] for begin in range(0, len(columns), together))
    return [window for part in parts for window in find_windows(*_counted(part), limits)]


def _counted(columns: Sequence[SignedCounts], part: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
    """Counts of a part of the cells and their variances, as `with_both`."""
    values, variances = np.array(
        [[(each.above[part], each.below[part]), (each.above_var[part], each.below_var[part])] for each in columns]
    ).swapaxes(0, 1)
    return with_both(values), with_both(variances)


def with_both(sides: FloatArray) -> FloatArray:
    """Numbers of cells above each center and below it (columns, 2, cells), and of both sides together: (columns, 3, cells)."""
    return np.concatenate([sides, sides.sum(axis=1, keepdims=True)], axis=1)


def find_windows(
    values: FloatArray,
    variances: FloatArray,
    thresholds: FloatArray,
    anchor_least: float = tuning.ANCHOR,
    last: int | None = None,
) -> list[Windows]:
    """Windows (k, 4) that stand out (below, first cell, half width, reach), and each column's anchor: its score and last cell."""
    columns, _, cells = values.shape
    std, flat, total = np.sqrt(variances.min(axis=2, keepdims=True)), variances.reshape(-1), values
    parts = []
    for k, limits in enumerate(thresholds):
        width, outer = 1 << k, (1 << k) // 2
        if k:  # window j begins at cell j
            half = total  # that of the width before is let go first: memory may be short
            total = half[:, :, :-outer] + half[:, :, outer:]
        single = min(anchor_least, limits[0])
        # Few windows come near to standing out: only these are worked out.
        near = total > np.array([[single], [single], [anchor_least]]) * std * (SLACK * math.sqrt(width))
        if last is not None:
            near[:, :, last + 1 :] = False
        places = near.reshape(-1).nonzero()[0]
        line, begin = np.divmod(places, total.shape[2])
        score = total.reshape(-1)[places] / np.sqrt(_sums_of(flat, line * cells + begin, width))
        stands = (score > limits[0]) & (line % 3 != BOTH)
        if k:
            outside = half.reshape(-1)[line * half.shape[2] + begin + outer]
            stands &= outside > tuning.OUTER_HALF * np.sqrt(_sums_of(flat, line * cells + begin + outer, outer))
        reach = limits.searchsorted(score)
        parts.append((score, np.stack([line // 3, line % 3, begin, np.full(len(line), outer), reach]), stands))
    score, windows, stands = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    best = np.full(columns, anchor_least)
    np.maximum.at(best, windows[0], score)
    anchors = [(-math.inf, -1)] * columns
    for k in ((score == best[windows[0]]) & (score > anchor_least)).nonzero()[0][::-1].tolist():  # of equals the first
        column, _, begin, outer, _ = windows[:, k].tolist()
        anchors[column] = float(score[k]), begin + max(2 * outer, 1) - 1
    windows = windows[:, stands]
    windows = windows[:, windows[0].argsort(kind="stable")]
    ends = windows[0].searchsorted(np.arange(columns + 1)).tolist()
    return [(windows[1:, low:high].T, anchor) for (low, high), anchor in zip(pairwise(ends), anchors, strict=True)]


def _sums_of(cells: FloatArray, begin: IntArray, width: int) -> FloatArray:
    """Sums of `width` cells from each of `begin` on."""
    return np.asarray(cells[begin[:, None] + np.arange(width)].sum(axis=1))


def stand(
    windows: IntArray, known: Iterable[int], shares: BudgetSplit, *, passes: int = tuning.PASSES
) -> tuple[BoolArray, tuple[int, int]]:
    """Which windows (k, 4) stand out, so far from `known` cells and earlier ones, and the outermost last cells on both sides."""
    cells = EXPONENTS << shares.log2_parts
    below, begin, outer, reach = windows.T
    last, far = begin + np.maximum(2 * outer, 1) - 1, 4 * cells
    # A window's outer half is what makes it reach so far: from there on it counts as a mistake that costs.
    most = np.where(reach > cells, 2 * far, reach - outer)
    most[most <= 0] = -2 * far
    held, stood = np.array(sorted([-far, *known, far])), np.zeros(len(windows), dtype=bool)
    ends, count = held, 0
    for _ in range(passes):
        after = ends.searchsorted(begin)
        stood = np.minimum(begin - ends[after - 1], ends[after] - last) < most
        before, count = count, int(np.count_nonzero(stood))
        if count in (before, len(windows)):
            break
        ends = np.sort(np.concatenate([held, last[stood]]))
    above_end, below_end = (int(last[stood & (below == side)].max(initial=-1)) for side in (0, 1))
    return stood, (above_end, below_end)


def anchor_between(column: SignedCounts, low: int, high: int, shares: BudgetSplit) -> tuple[float, int]:
    """Deviations and outer end of the window that stands out most among those that begin in cells low ... high."""
    begin = max(0, low)
    counted = _counted([column], slice(begin, high + tuning.WIDTHS[-1]))
    limits = thresholds(shares.log2_parts, chance_of(shares), shares.pure)
    ((_, (score, end)),) = find_windows(*counted, limits, -math.inf, high - begin)
    return score, begin + end


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
class SignedCounts:
    """Counts of one column above and below its center, (cells,) each, with their variances; at zero; missing."""

    center: float
    above: FloatArray
    below: FloatArray
    above_var: FloatArray
    below_var: FloatArray
    zero: float
    missing: float
    public_above: IntArray  # with public_below: the cells that hold a public row, ascending
    public_below: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Support:
    """What stands out of the noise: the outermost cell on each side, None for none."""

    above: int | None
    below: int | None
    anchored: bool  # some cells surely hold rows
    referenced: bool  # there was a place to start from
    outlying: bool = False  # public rows lie so far from all private ones that can be seen that they are not believed


def public_counts(public: FloatArray) -> IntArray:
    """How many numbers each public column (m, dim) has: NaN is none."""
    return np.asarray(len(public) - np.isnan(public).sum(axis=0))


def fewest(public: FloatArray) -> int:
    """The numbers of the public column that has the fewest."""
    return int(public_counts(public).min())


def lower_medians(public: FloatArray) -> FloatArray:
    """An actual number of each public column (m, dim), the lower one of two in the middle: (dim,)."""
    places = (public_counts(public) - 1) // 2
    return np.asarray(np.sort(public, axis=0)[places, np.arange(len(places))])


def public_moments(public: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Count, mean and standard deviation of the numbers of each public column (m, dim): (dim,) each; zero for one number."""
    counts, missing = public_counts(public), np.isnan(public)
    mean = np.where(missing, 0.0, public).sum(axis=0) / counts
    squares = (np.where(missing, 0.0, public - mean) ** 2).sum(axis=0)
    return counts, mean, np.sqrt(squares / np.maximum(counts - 1, 1))


def columns_of(
    counts: FloatArray, public: FloatArray, centers: FloatArray, shares: Sequence[BudgetSplit]
) -> list[SignedCounts]:
    """Columns from their released counts (columns, 2 cells + 2), public numbers (m, columns), centers and shares."""
    side, log2_parts = EXPONENTS << shares[0].log2_parts, shares[0].log2_parts
    # The public row that was taken as the center is no evidence; a released center is no public row.
    others = (public_counts(public) - (public == centers).any(axis=0)).tolist()
    factors = [each.n / m if m else 0.0 for each, m in zip(shares, others, strict=True)]
    own = [each.count_std**2 for each in shares]
    values, variances, cells = pooled_counts(counts, 2, log2_parts, public, centers, own, factors)
    return [
        SignedCounts(
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
    """Counts joined with those of public numbers by inverse variance, (columns, sides, cells), their variances, public cells."""
    columns, cells = len(centers), EXPONENTS << log2_parts
    variance, factor = np.array(own), np.array(factors)
    square = factor**2
    # A public row says something of the cells beside its own; far from all of them, half a row is as good as seen.
    far = np.where(factor > 0.0, variance / (variance + square * 0.5), 0.0)
    values = counts[:, : sides * cells]
    values = ((0.0 - values) * far[:, None] + values).reshape(columns * sides, cells)
    variances = np.repeat(variance * (1.0 - far), sides * cells).reshape(columns * sides, cells)
    with np.errstate(over="ignore"):
        distance = np.where(np.isnan(public), 0.0, public - centers)
    lines = np.arange(columns) * sides + (distance < 0.0)
    keys = lines * (cells + 2) + 1 + ((np.abs(distance).view(np.int64) - 1) >> (52 - log2_parts))
    # Each side has an empty cell at either end, so that every cell has neighbors.
    occupied = np.bincount(keys[distance != 0.0], minlength=columns * sides * (cells + 2))
    held = occupied.nonzero()[0]
    near = np.concatenate([held - 1, held, held + 1])
    line, place = np.divmod(near, cells + 2)
    within = (place > 0) & (place <= cells)
    near, line, place = near[within], line[within], place[within] - 1
    column = line // sides
    around = occupied[near - 1] + occupied[near] + occupied[near + 1]
    weight = variance[column] / (variance[column] + square[column] * (around / 3.0 + 0.5))
    counted = counts[column, line % sides * cells + place]
    values[line, place] = counted + weight * (factor[column] * occupied[near] - counted)
    variances[line, place] = variance[column] * (1.0 - weight)
    ends = held.searchsorted(np.arange(columns * sides + 1) * (cells + 2)).tolist()
    places = [held[low:high] - (1 + side * (cells + 2)) for side, (low, high) in enumerate(pairwise(ends))]
    shape = columns, sides, cells
    return values.reshape(shape), variances.reshape(shape), places


def chance_of(shares: BudgetSplit) -> float:
    """Chance of a false alarm beside what is known, for one column."""
    return (tuning.FALSE_ALARM_PURE if shares.pure else tuning.FALSE_ALARM) / min(
        shares.dim, tuning.MOST_FALSE_ALARM_COLUMNS
    )


def undetected_rows(shares: BudgetSplit, octaves: float = tuning.UNSEEN_OCTAVES, *, guessed: bool = False) -> float:
    """Rows that an octave so far from what is known, or `guessed`, may hold unseen: more of them stand out in 95 % of samples."""
    chance = chance_of(shares) / (tuning.GUESSED if guessed else 1)
    limits = thresholds(shares.log2_parts, chance, shares.pure)[shares.log2_parts]
    noise = shares.count_std * math.sqrt(shares.parts)
    least = float(limits[min(math.ceil(octaves * shares.parts), len(limits) - 1)]) * noise
    # The root of rows = least + z sqrt(noise^2 + rows): both the noise and the number of such rows in a sample vary.
    half = tuning.UNSEEN_STDS**2 / 2.0
    return min(least + half + tuning.UNSEEN_STDS * math.sqrt(noise**2 + least + half / 2.0), float(shares.n))


def undetected_at(column: SignedCounts, scale: Support, shares: BudgetSplit, distance: float) -> float:
    """Rows that may lie unseen at a distance from the center, which for a column in bounds is that of the bound."""
    lasts = [last for last in (scale.above, scale.below) if last is not None]
    key = key_of(max(distance, float(np.finfo(np.float64).smallest_subnormal)), shares.log2_parts)
    if lasts:
        return undetected_rows(shares, max(0, key - max(lasts)) / shares.parts)
    places = [key_of(size, shares.log2_parts) for size in (abs(column.center), 1.0) if size]
    return undetected_rows(shares, min(abs(key - place) for place in places) / shares.parts, guessed=True)


def _is_anchor(score: float, end: int, near: int, shares: BudgetSplit) -> bool:
    """Whether a window surely holds rows: one far above the size of the center has to stand out more than one near it."""
    if shares.too_noisy:
        return False
    far = max(0, end - near - tuning.NEAR_CENTER[1] * shares.parts) / shares.parts
    least = tuning.ANCHOR_PURE if shares.pure else tuning.ANCHOR
    log_chance = special.log_ndtr(-tuning.ANCHOR) - tuning.DECAY * math.log(2.0) * far
    gaussian = -float(special.ndtri_exp(log_chance))
    growth = (
        (log_chance - special.log_ndtr(-tuning.ANCHOR)) / -math.sqrt(2.0) if shares.pure else gaussian - tuning.ANCHOR
    )
    return bool(score > least + growth)


def doubtful_sum(column: SignedCounts, scale: Support, shares: BudgetSplit) -> float:
    """The largest sum, in distances from the center, of rows beyond what stands out that may well be there, or zero."""
    lasts = [last for last in (scale.above, scale.below) if last is not None]
    edges, worst = edges_of(shares.log2_parts), 0.0
    for last, counts in ((scale.above, column.above), (scale.below, column.below)):
        begin = 1 + (max(lasts, default=len(counts)) if last is None else last)
        near = counts[begin : begin + tuning.NEAR_OCTAVES * shares.parts]
        for width, limit in ((1, tuning.DOUBTFUL_CELL), (shares.parts, tuning.DOUBTFUL_OCTAVE)):
            sums = (
                near if width == 1 else np.convolve(near, np.ones(width), "valid") if len(near) >= width else near[:0]
            )
            least = limit * shares.count_std * math.sqrt(width)
            if len(sums) and np.maximum.reduce(sums) > least:
                places = np.flatnonzero(sums > least)
                with np.errstate(over="ignore"):
                    worst = max(worst, float((sums[places] * edges[begin + places]).max()))
    return worst


def trusted_public_cells(keys: IntArray, end: int, shares: BudgetSplit) -> set[int]:
    """The outermost of the public cells that go on from `end` without a gap, where the private rows can be seen to end."""
    far, last, cells = tuning.NEAR_OCTAVES * shares.parts, end, set()
    for key in keys.tolist():
        reached = key if key > end else end
        if reached - last > far:
            break
        last, cells = reached, {key}
    return cells


def scales_of(columns: Sequence[SignedCounts], shares: Sequence[BudgetSplit]) -> list[Support]:
    """Where the numbers of each column end on each side; `shares` are alike in everything but the noise of its counts."""
    windows = find(columns, chance_of(shares[0]), shares[0])
    return [_scale(*each) for each in zip(columns, windows, shares, strict=True)]


def _scale(column: SignedCounts, candidates: Windows, shares: BudgetSplit) -> Support:
    """Where the numbers of one column end: of windows near cells that are known to hold rows, or are believed to."""
    window, (score, end) = candidates
    one = key_of(1.0, shares.log2_parts)
    near = key_of(abs(column.center), shares.log2_parts) if column.center else one
    public = column.public_above, column.public_below
    ends = [set(keys[-1:].tolist()) for keys in public]  # the outermost ones
    known, outlying = ends[0] | ends[1], False
    anchored = _is_anchor(score, end, max(near, one, *known), shares)
    if anchored:
        # Private rows show where the column lies: a public row far from all of them may be a mistake, and one cell of noise
        # so far out would outweigh all else.
        _, certain = stand(window, {end}, shares)
        held = [trusted_public_cells(keys, max(end, *certain), shares) for keys in public]
        ends, known, outlying = held, {end, *held[0], *held[1]}, held != ends
    elif not known:
        known = guessed_cells(column, near, shares)
        ((window, _),) = find([column], chance_of(shares) / tuning.GUESSED, shares)
    if not known:
        return Support(above=None, below=None, anchored=False, referenced=False)
    _, stood = stand(window, known, shares)
    above, below = (max(held | {last} - {-1}, default=None) for held, last in zip(ends, stood, strict=True))
    return Support(above=above, below=below, anchored=anchored, referenced=True, outlying=outlying)


def guessed_cells(column: SignedCounts, near: int, shares: BudgetSplit) -> set[int]:
    """Cells that the size of the center, `near`, suggests, or none."""
    if column.zero > tuning.MANY_ZEROS * shares.n:
        return {near, key_of(1.0, shares.log2_parts)}
    down, up = (octaves * shares.parts for octaves in tuning.NEAR_CENTER)
    score, end = anchor_between(column, near - down, near + up, shares)
    return {end} if score > tuning.DOUBTFUL_CELL else set()
