"""The support of each column, estimated from counts of signed dyadic cells about its center.

A scan over windows of cells finds those whose counts are significantly above the noise; the outermost ones delimit the support on
each side of the center. All of it is post-processing of released and public numbers, and equivariant under scaling by powers of 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import BudgetSplit
from fastpubpriv.kernels.rows import EXPONENTS
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.public_draws import normal_quantile

MOST_CELLS = 32  # cells per octave over the columns of one batch, to bound memory
BOTH = 2  # index of the two sides added up, after above (0) and below (1)
SLACK = 1.0 - 1e-9  # so that rounding in the prefilter of windows loses none


Windows = tuple[IntArray, tuple[float, int]]


def widths_of(log2_parts: int) -> tuple[int, ...]:
    """Cells of the windows that are tested: up to two octaves."""
    return tuple(1 << k for k in range(2 + log2_parts))


@lru_cache(maxsize=32)
def thresholds(log2_parts: int, chance: float, noise: type[Spending]) -> FloatArray:
    """Critical z-scores of windows of 1, 2, 4 ... cells by distance, in cells, from known rows: (widths, distances)."""
    octaves = np.arange(EXPONENTS + 2 << log2_parts) / 2**log2_parts
    log_chance = math.log(chance) - tuning.DECAY * math.log(2.0) * octaves
    floor = tuning.FLOOR / (BOTH * tuning.REACH << log2_parts)
    near = log_chance[: (tuning.REACH << log2_parts) + 1]
    np.maximum(near, math.log(floor), out=near)
    gaussian = -special.ndtri_exp(log_chance)
    # The noise of a sum of cells approaches a Gaussian.
    beyond = noise.beyond_gaussian(log_chance)
    every = np.stack([gaussian + beyond / math.sqrt(width) for width in widths_of(log2_parts)])
    every.flags.writeable = False
    return every


def find(columns: Sequence[SignedCounts], chance: float, shares: BudgetSplit) -> list[Windows]:
    """Return the candidate windows and the anchor of each column, in batches of bounded memory: see `find_windows`."""
    limits = thresholds(shares.log2_parts, chance, type(shares.spending))
    together = MOST_CELLS >> shares.log2_parts
    parts = (columns[begin : begin + together] for begin in range(0, len(columns), together))
    return [window for part in parts for window in find_windows(_counted(part), limits)]


def _counted(columns: Sequence[SignedCounts], part: slice = slice(None)) -> FloatArray:
    """Counts and variances of a slice of the cells above and below each center, and of both added: (2, columns, 3, cells)."""
    cells = columns[0].values[:, part].shape[1]
    counted = np.empty((2, len(columns), BOTH + 1, cells))
    for place, each in enumerate(columns):
        counted[0, place, :BOTH] = each.values[::-1, part]
        counted[1, place, :BOTH] = each.variances[::-1, part]
    counted[:, :, BOTH] = counted[:, :, 0] + counted[:, :, 1]
    return counted


def find_windows(
    counted: FloatArray,
    thresholds: FloatArray,
    anchor_least: float = tuning.ANCHOR,
    last: int | None = None,
) -> list[Windows]:
    """Significant windows (k, 4): side, first and last cell, largest distance; each column's anchor: its z-score and last cell.

    `counted` are the counts and variances that `_counted` returns, (2, columns, 3, cells).
    """
    values, variances = counted
    columns, _, cells = values.shape
    std = np.sqrt(variances.min(axis=2, keepdims=True))
    flat = variances.reshape(-1)
    total = values
    parts = []
    for k, limits in enumerate(thresholds):
        width = 1 << k
        outer = width // 2
        if k:  # window j begins at cell j
            half = total  # the array of the previous width is freed first, to limit memory
            total = half[:, :, :-outer] + half[:, :, outer:]
        single = min(anchor_least, limits[0])
        # Few windows are nearly significant: exact z-scores are computed for these alone.
        near = total > np.array([[single], [single], [anchor_least]]) * std * (
            SLACK * math.sqrt(width)
        )
        if last is not None:
            near[:, :, last + 1 :] = False
        places = near.reshape(-1).nonzero()[0]
        line, begin = np.divmod(places, total.shape[2])
        score = total.reshape(-1)[places] / np.sqrt(_sums_of(flat, line * cells + begin, width))
        # The distance is that of the outer half of a window, since a false alarm there is what costs accuracy.
        most = limits.searchsorted(score) - outer
        stands = (most > 0) & (line % 3 != BOTH)
        if k:
            outside = half.reshape(-1)[line * half.shape[2] + begin + outer]
            stands &= outside > tuning.OUTER_HALF * np.sqrt(
                _sums_of(flat, line * cells + begin + outer, outer)
            )
        window = np.stack([line // 3, line % 3, begin, begin + width - 1, most])
        parts.append((score, window, stands))
    score, windows, stands = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    strong = (score > anchor_least).nonzero()[0][::-1]
    rising = strong[score[strong].argsort(kind="stable")]  # of equals the first is the last
    pairs = zip(score[rising].tolist(), windows[3, rising].tolist(), strict=True)
    anchors = dict(zip(windows[0, rising].tolist(), pairs, strict=True))
    windows = windows[:, stands]
    windows = windows[:, windows[0].argsort(kind="stable")]
    ends = windows[0].searchsorted(np.arange(columns + 1)).tolist()
    return [
        (windows[1:, low:high].T, anchors.get(column, (-math.inf, -1)))
        for column, (low, high) in enumerate(pairwise(ends))
    ]


def _sums_of(cells: FloatArray, begin: IntArray, width: int) -> FloatArray:
    """Sum of `width` cells from each index in `begin`."""
    return np.asarray(cells[begin[:, None] + np.arange(width)].sum(axis=1))


def stand(windows: IntArray, known: Iterable[int]) -> tuple[BoolArray, tuple[int, int]]:
    """Select the windows (k, 4) that are significant at their distance from `known` cells or other selected windows.

    Return their mask, and the outermost last cell above and below the center (-1 for none).
    """
    side, begin, last, most = windows.T
    nowhere = EXPONENTS << 10  # a cell far from all others
    held = np.array([-nowhere, *sorted(known), nowhere])
    ends = held
    stood = np.zeros(len(windows), dtype=bool)
    while True:  # selected windows select others and remain selected themselves
        after = ends.searchsorted(begin)
        near = np.minimum(begin - ends[after - 1], ends[after] - last) < most
        settled = np.count_nonzero(near) in (np.count_nonzero(stood), len(near))
        stood = near
        if settled:
            break
        ends = np.sort(np.concatenate([held, last[stood]]))
    above, below = (int(last[stood & (side == each)].max(initial=-1)) for each in (0, 1))
    return stood, (above, below)


def anchor_between(
    column: SignedCounts, low: int, high: int, shares: BudgetSplit
) -> tuple[float, int]:
    """Return the largest z-score among windows that begin in cells low ... high, and the last cell of that window."""
    begin = max(0, low)
    counted = _counted([column], slice(begin, high + (2 << shares.log2_parts)))
    limits = thresholds(shares.log2_parts, chance_of(shares), type(shares.spending))
    ((_, (score, end)),) = find_windows(counted, limits, -math.inf, high - begin)
    return score, begin + end


@lru_cache(maxsize=8)
def edges_of(log2_parts: int) -> FloatArray:
    """Ascending edges of the cells of one sign: cell k is (edges[k], edges[k + 1]]; the last edge is the largest double."""
    side = EXPONENTS << log2_parts
    edges = (np.arange(side + 1, dtype=np.int64) << (52 - log2_parts)).view(np.float64)
    edges[-1] = np.finfo(np.float64).max
    edges.flags.writeable = False
    return edges


def window_cells(log2_parts: int) -> int:
    """Number of cells that a column keeps on each side once its support is known."""
    return tuning.INSIDE + tuning.REACH << log2_parts


def key_of(size: float, log2_parts: int) -> int:
    """Return the index of the cell that holds a positive number."""
    return (int(np.float64(size).view(np.int64)) - 1) >> (52 - log2_parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignedCounts:
    """Counts of one column below (0) and above (1) its center, their variances, and counts of zeros and missing values."""

    center: float
    values: FloatArray  # (2, cells), like variances
    variances: FloatArray
    zero: float
    missing: float
    public_above: IntArray  # like public_below: cells that hold a public row, ascending
    public_below: IntArray
    # of both sides: which cell is the first, and the rows in cells inside it
    begins: Sequence[int] | IntArray = (0, 0)
    inside: Sequence[float] = (0.0, 0.0)

    def cells(self, side: int, begin: int, end: int) -> tuple[FloatArray, FloatArray]:
        """Counts and variances of the cells `begin` to `end` of a side, as far as they are there."""
        first = self.begins[side]
        part = slice(max(begin - first, 0), max(end - first, 0))
        return self.values[side, part], self.variances[side, part]

    def cut(self, scale: Support, log2_parts: int) -> SignedCounts:
        """The counts that are read once the support is known: from `INSIDE` octaves inside its ends to `REACH` beyond them."""
        lasts = np.array([scale.outermost if last is None else last for last in scale.ends])
        size = window_cells(log2_parts)
        begins = lasts + 1 - (tuning.INSIDE << log2_parts)
        begins = np.clip(begins, 0, (EXPONENTS << log2_parts) - size)
        places = begins[:, None] + np.arange(size)
        inside = [counts[:begin].sum() for counts, begin in zip(self.values, begins, strict=True)]
        values = np.take_along_axis(self.values, places, axis=1)
        variances = np.take_along_axis(self.variances, places, axis=1)
        return replace(self, values=values, variances=variances, begins=begins, inside=inside)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Support:
    """The estimated support of a column: its outermost significant cell on each side of the center, None if there is none."""

    above: int | None
    below: int | None
    anchored: bool  # a window localizes the column by itself
    referenced: bool  # there were known or guessed cells to start from
    outlying: bool = False  # public rows were ignored: they lie far from all significant cells

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The outermost significant cells below and above."""
        return self.below, self.above

    @property
    def outermost(self) -> int:
        """The outermost significant cell of both sides, -1 for none."""
        return max((last for last in self.ends if last is not None), default=-1)


def public_counts(public: FloatArray) -> IntArray:
    """Number of values that are not NaN in each public column (m, dim)."""
    return np.asarray(len(public) - np.isnan(public).sum(axis=0))


def fewest(public: FloatArray) -> int:
    """Minimum of `public_counts` over the columns."""
    return int(public_counts(public).min())


def lower_medians(public: FloatArray) -> FloatArray:
    """Lower median of each public column (m, dim), which is one of its values: (dim,)."""
    places = (public_counts(public) - 1) // 2
    return np.asarray(np.sort(public, axis=0)[places, np.arange(len(places))])


def public_moments(public: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Count, mean and sample standard deviation of each public column (m, dim), NaN left out: (dim,) each; 0 for one value."""
    counts = public_counts(public)
    missing = np.isnan(public)
    mean = np.where(missing, 0.0, public).sum(axis=0) / counts
    squares = (np.where(missing, 0.0, public - mean) ** 2).sum(axis=0)
    return counts, mean, np.sqrt(squares / np.maximum(counts - 1, 1))


def columns_of(
    counts: FloatArray, public: FloatArray, centers: FloatArray, shares: Sequence[BudgetSplit]
) -> list[SignedCounts]:
    """Combine released counts (columns, 2 cells + 2) with public values (m, columns) about the same centers."""
    side = EXPONENTS << shares[0].log2_parts
    log2_parts = shares[0].log2_parts
    # The public row that served as the center is no evidence; a released center is not a public row.
    others = (public_counts(public) - (public == centers).any(axis=0)).tolist()
    factors = [each.n / m if m else 0.0 for each, m in zip(shares, others, strict=True)]
    own = [each.count_std**2 for each in shares]
    values, variances, cells = pooled_counts(counts, 2, log2_parts, public, centers, own, factors)
    return [
        SignedCounts(
            center=center,
            values=values[j, ::-1],
            variances=variances[j, ::-1],
            zero=zero,
            missing=missing,
            public_above=cells[2 * j],
            public_below=cells[2 * j + 1],
        )
        for j, (center, (zero, missing)) in enumerate(
            zip(centers.tolist(), counts[:, 2 * side :].tolist(), strict=True)
        )
    ]


def pooled_counts(
    counts: FloatArray,
    sides: int,
    log2_parts: int,
    public: FloatArray,
    centers: FloatArray,
    own: Sequence[float],
    factors: Sequence[float],
) -> tuple[FloatArray, FloatArray, list[IntArray]]:
    """Pool released and public counts by inverse variance: counts and variances (columns, sides, cells), and public cells.

    Private rows need not be like public ones: the further a difference exceeds what noise explains, the less it is shrunk.
    """
    columns = len(centers)
    lines = columns * sides
    cells = EXPONENTS << log2_parts
    released = counts[:, : sides * cells].reshape(lines, cells)
    private_var = np.repeat(own, sides)
    factor = np.repeat(factors, sides)
    row_var = np.where(factor > 0.0, factor**2, math.inf)  # of a count of one public row
    # A public row is evidence about adjacent cells too; elsewhere half a public row is assumed, which shrinks counts to zero.
    private_weight = 1.0 / (1.0 + private_var / (row_var / 2.0))
    values = released * private_weight[:, None]
    variances = np.repeat(private_var * private_weight, cells).reshape(lines, cells)
    with np.errstate(over="ignore"):
        distance = np.where(np.isnan(public), 0.0, public - centers)
    keys = (np.abs(distance).view(np.int64) - 1) >> (52 - log2_parts)
    # Each line is padded by an empty cell at both ends, so that every cell has neighbors.
    keys += 1 + (np.arange(columns) * sides + (distance < 0.0)) * (cells + 2)
    occupied = np.bincount(keys[distance != 0.0], minlength=lines * (cells + 2))
    held = occupied.nonzero()[0]
    explained = tuning.LIKELY * np.sqrt(private_var + row_var / 2.0)
    unexplained = (released > explained[:, None]).reshape(-1).nonzero()[0]
    line, place = np.divmod(unexplained, cells)
    near = np.concatenate([held - 1, held, held + 1, line * (cells + 2) + 1 + place])
    line, place = np.divmod(near, cells + 2)
    within = (place > 0) & (place <= cells)
    near = near[within]
    line = line[within]
    place = place[within] - 1
    around = occupied[near - 1] + occupied[near] + occupied[near + 1]
    gap = factor[line] * occupied[near] - released[line, place]
    public_var = row_var[line] * (around / 3.0 + 0.5)
    explained = tuning.LIKELY * np.sqrt(private_var[line] + public_var)
    public_var += np.maximum(np.abs(gap) - explained, 0.0) ** 2
    weight = private_var[line] / (private_var[line] + public_var)
    values[line, place] = released[line, place] + weight * gap
    variances[line, place] = private_var[line] * (1.0 - weight)
    ends = held.searchsorted(np.arange(lines + 1) * (cells + 2)).tolist()
    places = [
        held[low:high] - (1 + side * (cells + 2)) for side, (low, high) in enumerate(pairwise(ends))
    ]
    shape = columns, sides, cells
    return values.reshape(shape), variances.reshape(shape), places


def chance_of(shares: BudgetSplit) -> float:
    """False-alarm rate of one column for windows adjacent to known rows."""
    of_call = shares.spending.by_tail(tuning.FALSE_ALARM, tuning.FALSE_ALARM_PURE)
    return of_call / min(shares.dim, tuning.MOST_FALSE_ALARM_COLUMNS)


def undetected_rows(
    shares: BudgetSplit, octaves: float = tuning.REACH, *, guessed: bool = False
) -> float:
    """Bound on undetected rows in an octave this far from known (or `guessed`) cells: more are detected in 95 % of samples."""
    chance = chance_of(shares) / (tuning.GUESSED if guessed else 1)
    limits = thresholds(shares.log2_parts, chance, type(shares.spending))[shares.log2_parts]
    noise = shares.count_std * math.sqrt(shares.parts)
    least = float(limits[min(math.ceil(octaves * shares.parts), len(limits) - 1)]) * noise
    # The solution of rows = least + z sqrt(noise^2 + rows): both the noise and the number of such rows in a sample vary.
    z = normal_quantile(0.95)
    half = z**2 / 2.0
    return min(least + half + z * math.sqrt(noise**2 + least + half / 2.0), float(shares.n))


def undetected_at(
    column: SignedCounts, scale: Support, shares: BudgetSplit, distance: float
) -> float:
    """Upper bound on undetected rows at a distance from the center, such as that of a bound of the column."""
    key = key_of(max(distance, float(np.finfo(np.float64).smallest_subnormal)), shares.log2_parts)
    if scale.outermost >= 0:
        return undetected_rows(shares, max(0, key - scale.outermost) / shares.parts)
    places = [key_of(size, shares.log2_parts) for size in (abs(column.center), 1.0) if size]
    return undetected_rows(
        shares, min(abs(key - place) for place in places) / shares.parts, guessed=True
    )


def _is_anchor(score: float, end: int, near: int, shares: BudgetSplit) -> bool:
    """Return whether a window localizes the column; the critical z-score grows far above the magnitude of the center."""
    far = max(0, end - near - tuning.NEAR_CENTER[1] * shares.parts) / shares.parts
    decay = tuning.DECAY * math.log(2.0) * far
    gaussian = -float(special.ndtri_exp(special.log_ndtr(-tuning.ANCHOR) - decay))
    exponential = tuning.ANCHOR_PURE + decay / math.sqrt(2.0)
    return not shares.too_noisy and score > shares.spending.by_tail(gaussian, exponential)


def doubtful_sum(column: SignedCounts, scale: Support, shares: BudgetSplit) -> float:
    """Largest contribution to the sum of distances of a cell or octave beyond the support that is unlikely noise, or zero."""
    if scale.outermost < 0:
        return 0.0
    parts = shares.parts
    widths = widths_of(shares.log2_parts)
    tests = len(widths) * BOTH * tuning.REACH * parts
    chance = tuning.DOUBT / tests / min(shares.dim, tuning.MOST_FALSE_ALARM_COLUMNS)
    limits = thresholds(shares.log2_parts, chance, type(shares.spending))[:, 0].tolist()
    edges = edges_of(shares.log2_parts)
    worst = 0.0
    for side, last in enumerate(scale.ends):
        begin = 1 + (scale.outermost if last is None else last)
        counts, _ = column.cells(side, begin, begin + tuning.REACH * parts)
        counted = np.append(0.0, counts.cumsum())
        for width, limit in zip(widths, limits, strict=True):
            sums = counted[width:] - counted[:-width]
            places = (sums > limit * shares.count_std * math.sqrt(width)).nonzero()[0]
            if len(places):
                with np.errstate(over="ignore"):
                    worst = max(worst, float((sums[places] * edges[begin + places]).max()))
    return worst


def trusted_public_cell(keys: IntArray, end: int, shares: BudgetSplit) -> int:
    """Outermost public cell that gaps of at most `NEAR_OCTAVES` connect to `end`, the end of the private support, or -1."""
    reached = end + tuning.NEAR_OCTAVES * shares.parts
    trusted = -1
    for key in keys.tolist():
        if key > reached:
            break
        trusted = key
        reached = max(reached, key + tuning.NEAR_OCTAVES * shares.parts)
    return trusted


def scales_of(columns: Sequence[SignedCounts], shares: Sequence[BudgetSplit]) -> list[Support]:
    """Estimate the support of each column; the `shares` differ in the noise of their counts only."""
    windows = find(columns, chance_of(shares[0]), shares[0])
    return [_scale(*each) for each in zip(columns, windows, shares, strict=True)]


def _scale(column: SignedCounts, candidates: Windows, shares: BudgetSplit) -> Support:
    """Estimate the support of one column from windows near known cells, or near guessed ones where none are known."""
    windows, (score, end) = candidates
    one = key_of(1.0, shares.log2_parts)
    near = key_of(abs(column.center), shares.log2_parts) if column.center else one
    public = column.public_above, column.public_below
    # the outermost public cell of each side
    ends = [int(keys[-1]) if len(keys) else -1 for keys in public]
    known = {*ends} - {-1}
    outlying = False
    anchored = _is_anchor(score, end, max(near, one, *known), shares)
    if anchored:
        if max(ends) > end + tuning.NEAR_OCTAVES * shares.parts:
            # The private rows localize the column, so that a public row far from them may be an error, and a false alarm
            # near it would dominate the result.
            _, certain = stand(windows, {end})
            trusted = [trusted_public_cell(keys, max(end, *certain), shares) for keys in public]
            outlying = trusted != ends
            ends = trusted
        known = {end, *ends} - {-1}
    elif not known:
        # The magnitude of the center suggests cells with rows, if a window supports it.
        down, up = (octaves * shares.parts for octaves in tuning.NEAR_CENTER)
        if column.zero > tuning.MANY_ZEROS * shares.n:
            known = {near, one}
        else:
            score, end = anchor_between(column, near - down, near + up, shares)
            known = {end} if score > tuning.LIKELY else set()
        ((windows, _),) = find([column], chance_of(shares) / tuning.GUESSED, shares)
    if not known:
        return Support(above=None, below=None, anchored=False, referenced=False)
    _, stood = stand(windows, known)
    lasts = [max(pair) for pair in zip(ends, stood, strict=True)]
    above, below = (None if last < 0 else last for last in lasts)
    return Support(above=above, below=below, anchored=anchored, referenced=True, outlying=outlying)
