"""Ranks of edges from noisy counts of cells between them, the edges to count next, and quantiles.

Unknown are the rows m of the finest cells. A released count is the sum of the m of its own cells with noise, the total
is the sum of all with deviation total_std; a priori a count lies evenly in its cells, up to a deviation of PRIOR_STD
times what they can hold. With A the sums of the counts c, W their inverse noise variances, D the prior precisions:

    m = P^-1 (D prior + A' W c + total / total_std^2),    P = D + A' W A + 1 1' / total_std^2

The rank of an edge is the sum of m before it. A window of cells whose ranks may be that of a quantile is divided until
its cells hold fewer rows than the noise or the sampling error resolves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import BudgetSplit
from fastpubpriv.distributions.support import SignedCounts, Support, edges_of
from fastpubpriv.results.by_key import FEW_STDS
from fastpubpriv.results.ranks import EdgeRanks, Structure, in_order
from fastpubpriv.results.reasons import Reason, Reasons

# first edges over the range of the detected rows; there are two more at the center
FIRST_EDGES = 25
# subdivisions of a window, and of one in which one cell holds more than `FAR` of all rows
STEPS = 8
STEPS_FAR = 64
FAR = 0.5
# standard deviations, of noise or of sampling, within which ranks may belong to a quantile
NEAR_STDS = 3.0
# Minimum relative standard deviation of a total: a smaller one makes the precision matrix singular.
_SURE = 1e-6
# distances of additional edges beyond the outermost ones, over the range
OUTSIDE = (1.0, 7.0, 63.0, 1023.0)
DECIMALS = 2  # maximum number of cells per window that are searched for a value with few digits
# Noise deviations that a number of rows exceeds clearly: a cell with fewer, or fewer than SOME_SAMPLING sampling deviations, is not
# divided further.
CLEAR_STDS = 6.0
SOME_SAMPLING = 0.25
PRIOR_STD = 0.5  # prior standard deviation of the rows of a cell, over the most that it may hold
NARROW = 1e-9  # relative width at which a window is a single number
# rank offsets of last edges
LAST_NOISE = (-1.5, -0.5, 0.5, 1.5)
LAST_TOTAL = (-2.6, -2.15, -1.85, 1.85, 2.15, 2.6)
# A cell is an atom if its rows exceed ATOM_STDS noise standard deviations and its density is DENSE times that around it; a cell of
# a single float only needs SINGLE_STDS.
ATOM_STDS = 8.0
DENSE = 10.0
SINGLE_STDS = 4.0
MANY = 20.0  # minimum rows of an atom, and minimum rows expected in a gap under a uniform density
# An interval of equal ranks is a gap if a uniform density, over NEAR_STDS sampling deviations, predicts more rows there than
# CLEAR_STDS noise deviations, and it holds less than GAP_SHARE of these.
GAP_SHARE = 0.25
MOST_DIGITS = 18


def cells_between_edges(k: int, zooms: int) -> int:
    """Return the maximum number of cells between edges of one column, or of one group in it, in all rounds with `zooms`."""
    window = STEPS_FAR + 2 + (STEPS_FAR + 2) * DECIMALS
    first = FIRST_EDGES + STEPS_FAR + 3
    zoom = k * window + 2 * len(OUTSIDE) + 3
    last = k * (len(LAST_NOISE) + len(LAST_TOTAL) + window) + 3
    return first + zooms * zoom + last


def shortest_decimal(low: float, high: float) -> float:
    """Return the number with the fewest decimal digits in [low, high); of several, one near the middle."""
    if low <= 0.0 < high:
        return 0.0
    a, b = low.as_integer_ratio()
    c, d = high.as_integer_ratio()
    parts = b * d  # the ends are in units of 1 / parts
    start = a * d
    end = c * b
    most = math.floor(math.log10(max(abs(low), abs(high)))) + 1
    for power in range(most, most - MOST_DIGITS, -1):
        times = 10 ** max(-power, 0)
        unit = parts * 10 ** max(power, 0)
        first = -(-start * times // unit)
        last = end * times // unit
        near = min(max(((start + end) * times + unit) // (2 * unit), first), last)
        # Rounding to a double may move a decimal number across an end.
        for digits in (near, first, first - 1, last + 1):
            value = float(f"{digits}e{power}")
            if low <= value < high:
                return value
    return low


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeCounts:
    """Released counts (k + 1,) between ascending edges (k,) of one column, with the noise of each."""

    edges: FloatArray
    counts: FloatArray
    std: float


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPlace:
    """Location of a column by the signed cells: center, `first` edges, and the length `stretch` of the range of detected rows."""

    center: float
    first: FloatArray
    stretch: float
    total: float  # estimated number of non-missing values
    total_std: float  # its standard deviation
    located: bool  # whether rows were detected
    hidden: bool  # whether noise hides that the column has any number

    @property
    def reach(self) -> float:
        """Unit of the distances of edges beyond the range."""
        return self.stretch or max(abs(self.center), 1.0)


def single_cell(value: float) -> list[float]:
    """Return the edges of the cell that holds this number alone."""
    return [value, float(np.nextafter(value, math.inf))]


def subdivided(low: float, high: float) -> list[float]:
    """Return edges that divide a cell into `STEPS_FAR` equal ones."""
    return list(low + (high - low) * (np.arange(1, STEPS_FAR) / STEPS_FAR))


def finite_edges(edges: Any) -> FloatArray:
    """Return the distinct finite edges in ascending order, with -0.0 replaced by 0.0."""
    values = np.asarray(edges, dtype=np.float64) + 0.0
    return np.unique(values[np.isfinite(values)])


def locate(
    columns: Sequence[SignedCounts], scales: Sequence[Support], every: Sequence[BudgetSplit]
) -> list[ColumnPlace]:
    """Return the location of each column from the counts of signed cells about its center."""
    placed = []
    for column, scale, shares in zip(columns, scales, every, strict=True):
        sizes = edges_of(shares.log2_parts)
        parts = shares.parts
        sides = []
        for side, (sign, last) in enumerate(zip((-1.0, 1.0), scale.ends, strict=True)):
            if last is None:
                continue
            start = max(0, last + 1 - tuning.BELOW * parts)
            inside, _ = column.cells(side, 0, start + 1)
            outer, _ = column.cells(side, start + 1, last + 1)
            mass = np.append(column.inside[side] + inside.sum(), outer)
            edges = column.center + sign * sizes[start : last + 2]
            sides.append((edges, np.maximum(mass, 0.0)))
        first = _first_edges(column.center, sides, shares.count_std)
        stretch = max((abs(float(edges[-1]) - column.center) for edges, _ in sides), default=0.0)
        missing = column.missing if column.missing > NEAR_STDS * shares.count_std else 0.0
        total_std = shares.count_std if missing else 0.5
        many_zeros = column.zero > tuning.MANY_ZEROS * shares.n
        located = bool(sides) or (many_zeros and not shares.too_noisy)
        total = max(shares.n - missing, 0.0)
        hidden = total < FEW_STDS * total_std
        placed.append(ColumnPlace(column.center, first, stretch, total, total_std, located, hidden))
    return placed


def _first_edges(
    center: float, sides: list[tuple[FloatArray, FloatArray]], std: float
) -> FloatArray:
    """Return edges: the center as a cell of its own, the ends of both sides, and edges between that divide the mass equally.

    A side has edges from the center outwards, and the mass of the cells between them.
    """
    chosen = single_cell(center)
    total = sum(float(mass.sum()) for _, mass in sides)
    for edges, mass in sides:
        steps = FIRST_EDGES // 4
        if total > 0.0:
            steps = max(1, math.floor((FIRST_EDGES - 4) * mass.sum() / total))
        # Each cell gets a small extra mass, so that cells of noise alone are divided too.
        fullest = int(mass.argmax())
        if mass[fullest] > FAR * total:
            chosen += subdivided(edges[fullest], edges[fullest + 1])
        inside = np.cumsum(mass + std / 4.0)
        at = np.searchsorted(inside, inside[-1] * np.arange(1, steps) / steps)
        picked = np.concatenate([edges[at + 1], [edges[-1], edges[0]]])
        # A signed cell above the center includes its upper end, a cell between edges its lower end.
        chosen += np.where(picked > center, np.nextafter(picked, math.inf), picked).tolist()
    return finite_edges(chosen)


def ranks_of(asked: Sequence[EdgeCounts], total: float, total_std: float) -> EdgeRanks:
    """Estimate the ranks of all edges from all counts, by a Gaussian linear model whose prior spreads a cell's rows evenly."""
    edges = finite_edges(np.concatenate([each.edges for each in asked]))
    most_rows = max(total, 1.0)
    total_std = max(total_std, _SURE * most_rows)
    lows = np.append(-math.inf, edges)
    highs = np.append(edges, math.inf)
    half = highs / 2.0 - lows / 2.0
    half[~np.isfinite(half)] = 0.0
    least = np.full(len(lows), math.inf)
    prior = np.zeros(len(lows))
    precision = np.full((len(lows), len(lows)), total_std**-2)
    right = np.full(len(lows), total * total_std**-2)
    # Where no total holds it back, positive noise alone would add up to rows.
    floor = 0.0 if total_std < most_rows else -math.inf
    for each in asked:
        parent = np.searchsorted(each.edges, lows, side="right")
        size = len(each.counts)
        length = np.bincount(parent, half, size)[parent]
        parts = np.bincount(parent, minlength=size)[parent]
        open_ended = (parent == 0) | (parent == size - 1) | (length == 0.0)
        share = np.where(open_ended, 1.0 / parts, half / np.where(open_ended, 1.0, length))
        most = np.maximum(each.counts, 0.0)[parent] + NEAR_STDS * each.std
        smaller = most < least
        least = np.where(smaller, most, least)
        prior = np.where(smaller, np.maximum(each.counts, floor)[parent] * share, prior)
        precision += (parent[:, None] == parent[None, :]) * each.std**-2
        right += each.counts[parent] * each.std**-2
    # prior precision; no cell holds more than all rows
    own = (PRIOR_STD * np.minimum(least, most_rows)) ** -2.0
    precision[np.diag_indices(len(lows))] += own
    covariance = np.linalg.inv(precision)
    masses = covariance @ (right + own * prior)
    sums = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
    rows = max(float(masses.sum()), 0.0)
    below = np.cumsum(masses)[:-1]
    share = in_order(below, rows) / rows if rows > 0.0 else np.zeros(len(edges))
    of_total = float(sums[-1, -1])
    variance = np.diag(sums)[:-1] - 2.0 * share * sums[:-1, -1] + share**2 * of_total
    return EdgeRanks(
        edges=edges,
        below=below,
        std=np.sqrt(np.maximum(variance, 0.0)),
        total=rows,
        total_std=math.sqrt(of_total),
    )


def window(ranks: EdgeRanks, q: float) -> tuple[int, int]:
    """Return the first and last cell that may contain the q-quantile given the noise; cell i ends at edge i."""
    target = q * ranks.total
    below = ranks.ascending
    low = np.flatnonzero(below + NEAR_STDS * ranks.std < target)
    high = np.flatnonzero(below - NEAR_STDS * ranks.std > target)
    first = int(low[-1]) + 1 if len(low) else 0
    last = int(high[0]) if len(high) else len(ranks.edges)
    return first, last


def position(ranks: EdgeRanks, at: Any) -> FloatArray:
    """Return the values at ranks `at`, interpolated linearly between edges."""
    # the difference of two edges must not overflow
    scale = 4.0 if np.abs(ranks.edges).max() > 1e300 else 1.0
    rising = ranks.ascending + np.arange(len(ranks.edges)) * 1e-9 * max(ranks.total, 1.0)
    return np.interp(np.asarray(at, dtype=np.float64), rising, ranks.edges / scale) * scale


def sampling_std(ranks: EdgeRanks, q: float) -> float:
    """Return the standard deviation, in rows, of the rank of the q-quantile in a sample."""
    return math.sqrt(q * (1.0 - q) * ranks.total)


def fine_enough(ranks: EdgeRanks, q: float, std: float) -> float:
    """Return the number of rows up to which a cell near the q-quantile is not divided further."""
    return max(CLEAR_STDS * std, SOME_SAMPLING * sampling_std(ranks, q))


def zoom(
    ranks: EdgeRanks, place: ColumnPlace, qs: FloatArray, std: float
) -> tuple[FloatArray, bool]:
    """Return edges that divide every window, and whether any window still needs to be divided."""
    edges = ranks.edges
    below = ranks.ascending
    masses = ranks.masses
    last = len(edges)
    chosen = list[float]()
    open_windows = False
    for q in qs.tolist():
        low, high = window(ranks, q)
        fine = fine_enough(ranks, q, std)
        first = max(low - 1, 0)
        final = min(high, last - 1)
        begin = edges[first]
        end = edges[final]
        inside = masses[low : high + 1]
        narrow = end - begin <= NARROW * max(abs(begin), abs(end))
        unseen = (low == 0 and masses[0] > fine) or (high == last and masses[-1] > fine)
        open_windows |= unseen or (not narrow and bool(inside.max() > fine))
        steps = STEPS_FAR if inside.max() > FAR * ranks.total else STEPS
        rows = below[final] - below[first]
        between = position(ranks, below[first] + rows * np.arange(1, steps) / steps)
        chosen += [begin, end, *between.tolist()]
        chosen += _edges_in_fullest_cells(ranks, masses, q, (low, high), fine / 2.0)
        with np.errstate(over="ignore"):
            chosen += [edges[0] - place.reach * far for far in OUTSIDE if low == 0]
            chosen += [edges[-1] + place.reach * far for far in OUTSIDE if high == last]
    return finite_edges([*single_cell(place.center), *chosen]), open_windows


def _edges_in_fullest_cells(
    ranks: EdgeRanks, masses: FloatArray, q: float, cells: tuple[int, int], least: float
) -> list[float]:
    """Return edges in the fullest of cells (first, last) with over `least` rows: around a short decimal, and finer if dense."""
    edges = ranks.edges
    values = list[float]()
    first = max(cells[0], 1)
    last = min(cells[1], len(edges) - 1)
    full = [i for i in range(first, last + 1) if masses[i] > least]
    for i in sorted(full, key=lambda i: -masses[i])[:DECIMALS]:
        low = float(edges[i - 1])
        high = float(edges[i])
        values += single_cell(shortest_decimal(low, high))
        if _is_dense(ranks, q, i):
            values += subdivided(low, high)
    return values


def last_edges(ranks: EdgeRanks, place: ColumnPlace, qs: FloatArray, std: float) -> FloatArray:
    """Return the edges of the last round: for the estimate, for its interval ends, and around cells that may be atoms."""
    masses = ranks.masses
    chosen = single_cell(place.center)
    for q in qs.tolist():
        low, high = window(ranks, q)
        noise = float(np.interp(q * ranks.total, ranks.ascending, ranks.std))
        sampling = math.hypot(noise, sampling_std(ranks, q))
        reach = [noise * each for each in LAST_NOISE]
        reach += [sampling * each for each in LAST_TOTAL]
        chosen += position(ranks, q * ranks.total + np.array(reach)).tolist()
        # Possible atoms are counted once more.
        for i in range(max(low, 1), min(high, len(ranks.edges) - 1) + 1):
            if masses[i] > ATOM_STDS * std and len(chosen) < STEPS_FAR * len(qs):
                chosen += ranks.edges[i - 1 : i + 1].tolist()
        chosen += _edges_in_fullest_cells(
            ranks, masses, q, (low, high), fine_enough(ranks, q, std) / 2.0
        )
    return finite_edges(chosen)


def _is_dense(ranks: EdgeRanks, q: float, cell: int) -> bool:
    """Return whether the density of a cell is at least `DENSE` times that around it."""
    below = ranks.ascending
    rows = below[cell] - below[cell - 1]
    halves = ranks.edges / 2.0
    length = halves[cell] - halves[cell - 1]
    reach = NEAR_STDS * sampling_std(ranks, q)
    first = int(np.searchsorted(below, below[cell - 1] - reach, side="right")) - 1
    first = max(first, 0)
    last = int(np.searchsorted(below, below[cell] + reach, side="left"))
    last = min(last, len(halves) - 1)
    rows_around = below[last] - below[first] - rows
    length_around = halves[last] - halves[first] - length
    return bool(rows * length_around >= DENSE * rows_around * length)


def _middle_of_gap(ranks: EdgeRanks, q: float) -> float | None:
    """Return the middle of the gap around a quantile, or None if there is no gap."""
    target = q * ranks.total
    halves = ranks.edges / 2.0
    below = ranks.ascending
    near = np.flatnonzero(np.abs(below - target) <= NEAR_STDS * ranks.std)
    if len(near) < 2:
        return None
    first = int(near[0])
    last = int(near[-1])
    reach = NEAR_STDS * sampling_std(ranks, q)
    outer = position(ranks, [target - reach, target + reach]) / 2.0
    if not outer[1] > outer[0]:
        return None
    part = (halves[last] - halves[first]) / (outer[1] - outer[0])
    expected = 2.0 * reach * min(part, 1.0)
    held = below[last] - below[first]
    noise = float(ranks.std[first : last + 1].max())
    if expected <= max(CLEAR_STDS * noise, MANY) or held >= GAP_SHARE * expected:
        return None
    return float(halves[first] + halves[last])


def answer(ranks: EdgeRanks, q: float, std: float) -> tuple[float, float, Structure, Reasons]:
    """Return the q-quantile, the noise of its rank in rows, the structure around it, and its reasons."""
    edges = ranks.edges
    below = ranks.ascending
    masses = ranks.masses
    target = q * ranks.total
    i = int(np.searchsorted(below, target, side="left"))
    noise = float(ranks.std[max(i - 1, 0) : i + 1].max(initial=0.0))
    if i in (0, len(edges)):
        return float(edges[min(i, len(edges) - 1)]), noise, "continuous", (Reason.CLIPPED,)

    def atom(cell: int) -> bool:
        """Return whether a cell is an atom: many rows in a dense cell."""
        if not 0 < cell < len(edges):
            return False
        single = np.nextafter(edges[cell - 1], math.inf) == edges[cell]
        if single:
            return bool(masses[cell] > max(SINGLE_STDS * std, MANY))
        return bool(masses[cell] > max(ATOM_STDS * std, MANY)) and _is_dense(ranks, q, cell)

    # If ranks near the target are equal up to noise, an atom beside them is the answer.
    near = np.flatnonzero(np.abs(below - target) <= np.maximum(ranks.std, 0.5))
    if not atom(i) and len(near) >= 2:
        first = int(near[0])
        last = int(near[-1])
        beside = (last + 1, first) if below[first] < target else (first, last + 1)
        i = next(filter(atom, beside), i)
    if atom(i):
        return shortest_decimal(float(edges[i - 1]), float(edges[i])), noise, "atom", ()
    middle = _middle_of_gap(ranks, q)
    if middle is not None:
        return middle, noise, "gap", ()
    part = (target - below[i - 1]) / masses[i] if masses[i] > 0.0 else 0.5
    return float(edges[i - 1] * (1.0 - part) + edges[i] * part), noise, "continuous", ()


def unranked(total: float) -> EdgeRanks:
    """Return the ranks of no edges."""
    none = np.zeros(0)
    return EdgeRanks(edges=none, below=none, std=none, total=total)
