"""Quantiles of private columns in any unit, from at least one public row, by counts between edges refined around each quantile.

Privacy notes of all releases: `mechanisms/notes/cell_counts.md`, `mechanisms/notes/real_columns.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, RowsPerPerson
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import BudgetSplit, divide
from fastpubpriv.distributions.support import (
    SignedCounts,
    Support,
    columns_of,
    edges_of,
    fewest,
    lower_medians,
    scales_of,
)
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.column_means import memory_of_cells, warn_before
from fastpubpriv.estimators.grouping import ALL_SHARE, Grouping
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.kernels.rows import LOG2_PARTS_MAX, cells_of_column
from fastpubpriv.mechanisms.cells import CellCounts, RowGroups, SignedCells
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.results.base import LEVEL, frozen
from fastpubpriv.results.by_key import FEW_STDS
from fastpubpriv.results.ranks import EdgeRanks, GroupQuantiles, QuantileResult, Structure, in_order
from fastpubpriv.results.reasons import Reason, Reasons, with_clipped
from fastpubpriv.session import Session
from fastpubpriv.shared_docs import shared_docs

MOST_QUANTILES = 16
# Share of the budget left by the signed cells: of the first edges and of each of at most ZOOMS rounds; the last has the rest.
ZOOM = Fraction(1, 6)
ZOOMS = 3
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
UNKNOWN = 10.0  # prior standard deviation of the size of a group, over the number of all rows
# A group has few rows if its size is below FEW_STDS standard errors, TOTAL_STDS times the largest noise of its ranks.
TOTAL_STDS = 2.0


# Arrays of a number for each signed cell that exist at once: exact counts of the pass, scaled to the noise grid, noise, released.
HELD = 4
# The same for each cell between edges; the edges and counts of earlier rounds are kept too.
HELD_OF_EDGES = 6


def cells_between_edges(k: int) -> int:
    """Return the maximum number of cells between edges of one column, or of one group in it, in all rounds."""
    window = STEPS_FAR + 2 + (STEPS_FAR + 2) * DECIMALS
    first = FIRST_EDGES + STEPS_FAR + 3
    zoom = k * window + 2 * len(OUTSIDE) + 3
    last = k * (len(LAST_NOISE) + len(LAST_TOTAL) + window) + 3
    return first + ZOOMS * zoom + last


def draws(dim: int, k: int) -> int:
    """Return the maximum number of noise draws of a call."""
    return dim * (cells_of_column(LOG2_PARTS_MAX) + cells_between_edges(k))


def memory_of_edges(dim: int, k: int, groups: int = 1) -> int:
    """Bytes of the cells between edges, of all columns and groups."""
    return 8 * HELD_OF_EDGES * dim * groups * cells_between_edges(k)


def shortest_decimal(low: float, high: float) -> float:
    """Return the number with the fewest decimal digits in [low, high); of several, one near the middle."""
    if low <= 0.0 < high:
        return 0.0
    a, b = low.as_integer_ratio()
    c, d = high.as_integer_ratio()
    start, end, parts = a * d, c * b, b * d  # the ends in units of 1 / parts
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
        ends = []
        masses = []
        for sign, last, values in (
            (-1.0, scale.below, column.below),
            (1.0, scale.above, column.above),
        ):
            if last is None:
                continue
            start = max(0, last + 1 - tuning.BELOW * parts)
            ends.append(column.center + sign * sizes[start : last + 2])
            masses.append(
                np.append(
                    np.maximum(values[: start + 1].sum(), 0.0),
                    np.maximum(values[start + 1 : last + 1], 0.0),
                )
            )
        first = _first_edges(column.center, ends, masses, shares.count_std)
        stretch = max((abs(float(end[-1]) - column.center) for end in ends), default=0.0)
        missing = column.missing if column.missing > NEAR_STDS * shares.count_std else 0.0
        total_std = shares.count_std if missing else 0.5
        located = bool(ends) or (
            not shares.too_noisy and column.zero > tuning.MANY_ZEROS * shares.n
        )
        total = max(shares.n - missing, 0.0)
        hidden = total < FEW_STDS * total_std
        placed.append(ColumnPlace(column.center, first, stretch, total, total_std, located, hidden))
    return placed


def locate_rows(run: Session, public: FloatArray, shares: BudgetSplit) -> list[ColumnPlace]:
    """Release the counts of signed cells; return the location of each column."""
    centers = lower_medians(public)
    every = [shares] * shares.dim
    cells = SignedCells(center=centers, log2_parts=shares.log2_parts)
    counts = run.release(
        cells, name="signed dyadic cells", cost=shares.cells, cells_per_octave=shares.parts
    )
    counted = columns_of(counts.value, public, centers, every)
    return locate(counted, scales_of(counted, every), every)


def _first_edges(
    center: float, ends: list[FloatArray], masses: list[FloatArray], std: float
) -> FloatArray:
    """Return edges: the center as a cell of its own, the ends of both sides, and edges between that divide the mass equally."""
    chosen = [center, np.nextafter(center, math.inf)]
    total = sum(float(mass.sum()) for mass in masses)
    for edges, mass in zip(ends, masses, strict=True):
        steps = (
            max(1, math.floor((FIRST_EDGES - 4) * mass.sum() / total))
            if total > 0.0
            else FIRST_EDGES // 4
        )
        # Each cell gets a small extra mass, so that cells of noise alone are divided too.
        fullest = int(mass.argmax())
        if mass[fullest] > FAR * total:
            low = edges[fullest]
            high = edges[fullest + 1]
            chosen += (low + (high - low) * (np.arange(1, STEPS_FAR) / STEPS_FAR)).tolist()
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
    half = np.where(np.isfinite(highs / 2.0 - lows / 2.0), highs / 2.0 - lows / 2.0, 0.0)
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
        most = np.maximum(each.counts, 0.0)[parent]
        smaller = most + NEAR_STDS * each.std < least
        least = np.where(smaller, most + NEAR_STDS * each.std, least)
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
    variance = np.diag(sums)[:-1] - 2.0 * share * sums[:-1, -1] + share**2 * sums[-1, -1]
    return EdgeRanks(
        edges=frozen(edges),
        below=frozen(below),
        std=frozen(np.sqrt(np.maximum(variance, 0.0))),
        total=rows,
    )


def window(ranks: EdgeRanks, q: float) -> tuple[int, int]:
    """Return the first and last cell that may contain the q-quantile given the noise; cell i ends at edge i."""
    target = q * ranks.total
    below = ranks.ascending
    low = np.flatnonzero(below + NEAR_STDS * ranks.std < target)
    high = np.flatnonzero(below - NEAR_STDS * ranks.std > target)
    return (int(low[-1]) + 1 if len(low) else 0), (int(high[0]) if len(high) else len(ranks.edges))


def position(ranks: EdgeRanks, at: Any) -> FloatArray:
    """Return the values at ranks `at`, interpolated linearly between edges."""
    # the difference of two edges must not overflow
    scale = 4.0 if np.abs(ranks.edges).max() > 1e300 else 1.0
    rising = ranks.ascending + np.arange(len(ranks.edges)) * 1e-9 * max(ranks.total, 1.0)
    return np.interp(np.asarray(at, dtype=np.float64), rising, ranks.edges / scale) * scale


def fine_enough(ranks: EdgeRanks, q: float, std: float) -> float:
    """Return the number of rows up to which a cell near the q-quantile is not divided further."""
    return max(CLEAR_STDS * std, SOME_SAMPLING * math.sqrt(q * (1.0 - q) * max(ranks.total, 0.0)))


def zoom(
    ranks: EdgeRanks, place: ColumnPlace, qs: FloatArray, std: float
) -> tuple[FloatArray, bool]:
    """Return edges that divide every window, and whether any window still needs to be divided."""
    edges = ranks.edges
    below = ranks.ascending
    masses = ranks.masses
    last = len(ranks.edges)
    chosen = list[float]()
    open_windows = False
    for q in qs.tolist():
        low, high = window(ranks, q)
        fine = fine_enough(ranks, q, std)
        begin = edges[max(low - 1, 0)]
        end = edges[min(high, last - 1)]
        inside = masses[low : high + 1]
        narrow = end - begin <= NARROW * max(abs(begin), abs(end))
        unseen = (low == 0 and masses[0] > fine) or (high == last and masses[-1] > fine)
        open_windows |= unseen or (not narrow and bool(inside.max() > fine))
        steps = STEPS_FAR if inside.max() > FAR * ranks.total else STEPS
        first = below[max(low - 1, 0)]
        final = below[min(high, last - 1)]
        chosen += [
            begin,
            end,
            *position(ranks, first + (final - first) * np.arange(1, steps) / steps).tolist(),
        ]
        chosen += _divided(ranks, masses, q, (low, high), fine / 2.0)
        with np.errstate(over="ignore"):
            chosen += [edges[0] - place.reach * far for far in OUTSIDE if low == 0]
            chosen += [edges[-1] + place.reach * far for far in OUTSIDE if high == last]
    return finite_edges([place.center, np.nextafter(place.center, math.inf), *chosen]), open_windows


def _divided(
    ranks: EdgeRanks, masses: FloatArray, q: float, cells: tuple[int, int], least: float
) -> list[float]:
    """Return edges in the fullest of cells (first, last) with over `least` rows: around a short decimal, and finer if dense."""
    edges = ranks.edges
    values = list[float]()
    full = [
        i for i in range(max(cells[0], 1), min(cells[1], len(edges) - 1) + 1) if masses[i] > least
    ]
    for i in sorted(full, key=lambda i: -masses[i])[:DECIMALS]:
        low = float(edges[i - 1])
        high = float(edges[i])
        value = shortest_decimal(low, high)
        values += [value, float(np.nextafter(value, math.inf))]
        if _dense(ranks, q, i):
            values += (low + (high - low) * (np.arange(1, STEPS_FAR) / STEPS_FAR)).tolist()
    return values


def last_edges(ranks: EdgeRanks, place: ColumnPlace, qs: FloatArray, std: float) -> FloatArray:
    """Return the edges of the last round: for the estimate, for its interval ends, and around cells that may be atoms."""
    masses = ranks.masses
    chosen = [place.center, np.nextafter(place.center, math.inf)]
    for q in qs.tolist():
        low, high = window(ranks, q)
        noise = float(np.interp(q * ranks.total, ranks.ascending, ranks.std))
        sampling = math.hypot(noise, math.sqrt(q * (1.0 - q) * ranks.total))
        reach = [noise * each for each in LAST_NOISE] + [sampling * each for each in LAST_TOTAL]
        chosen += position(ranks, q * ranks.total + np.array(reach)).tolist()
        # Possible atoms are counted once more.
        for i in range(max(low, 1), min(high, len(ranks.edges) - 1) + 1):
            if masses[i] > ATOM_STDS * std:
                chosen += [ranks.edges[i - 1], ranks.edges[i]][
                    : 2 * (len(chosen) < STEPS_FAR * len(qs))
                ]
        chosen += _divided(ranks, masses, q, (low, high), fine_enough(ranks, q, std) / 2.0)
    return finite_edges(chosen)


def _dense(ranks: EdgeRanks, q: float, cell: int) -> bool:
    """Return whether the density of a cell is at least `DENSE` times that around it."""
    edges = ranks.edges
    below = ranks.ascending
    rows = below[cell] - below[cell - 1]
    length = edges[cell] / 2.0 - edges[cell - 1] / 2.0
    reach = NEAR_STDS * math.sqrt(q * (1.0 - q) * ranks.total)
    first = max(int(np.searchsorted(below, below[cell - 1] - reach, side="right")) - 1, 0)
    last = min(int(np.searchsorted(below, below[cell] + reach, side="left")), len(edges) - 1)
    around = below[last] - below[first] - rows
    return bool(rows * (edges[last] / 2.0 - edges[first] / 2.0 - length) >= DENSE * around * length)


def _gap(ranks: EdgeRanks, q: float) -> float | None:
    """Return the middle of the gap around a quantile, or None if there is no gap."""
    target = q * ranks.total
    edges = ranks.edges
    below = ranks.ascending
    near = np.flatnonzero(np.abs(below - target) <= NEAR_STDS * ranks.std)
    if len(near) < 2:
        return None
    first = int(near[0])
    last = int(near[-1])
    reach = NEAR_STDS * math.sqrt(q * (1.0 - q) * ranks.total)
    outer = position(ranks, [target - reach, target + reach]) / 2.0
    if not outer[1] > outer[0]:
        return None
    expected = (
        2.0 * reach * min((edges[last] / 2.0 - edges[first] / 2.0) / (outer[1] - outer[0]), 1.0)
    )
    held = below[last] - below[first]
    if (
        expected <= max(CLEAR_STDS * float(ranks.std[first : last + 1].max()), MANY)
        or held >= GAP_SHARE * expected
    ):
        return None
    return float(edges[first] / 2.0 + edges[last] / 2.0)


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
        return bool(masses[cell] > max(ATOM_STDS * std, MANY)) and _dense(ranks, q, cell)

    # If ranks near the target are equal up to noise, an atom beside them is the answer.
    near = np.flatnonzero(np.abs(below - target) <= np.maximum(ranks.std, 0.5))
    if not atom(i) and len(near) >= 2:
        first = int(near[0])
        last = int(near[-1])
        beside = (last + 1, first) if below[first] < target else (first, last + 1)
        i = next(filter(atom, beside), i)
    if atom(i):
        return shortest_decimal(float(edges[i - 1]), float(edges[i])), noise, "atom", ()
    middle = _gap(ranks, q)
    if middle is not None:
        return middle, noise, "gap", ()
    part = (target - below[i - 1]) / masses[i] if masses[i] > 0.0 else 0.5
    return float(edges[i - 1] * (1.0 - part) + edges[i] * part), noise, "continuous", ()


def close_in(
    run: Session,
    places: list[ColumnPlace],
    left: Fraction,
    dim: int,
    qs: FloatArray,
    groups: RowGroups | None = None,
) -> tuple[list[EdgeRanks], float]:
    """Release counts between edges refined around the quantiles; return the ranks of each column or group, and the last noise."""
    asked: list[list[EdgeCounts]] = [[] for _ in places]

    def ask(edges: list[FloatArray], cost: Fraction, name: str) -> float:
        counted = run.release(CellCounts(edges=edges, groups=groups), name=name, cost=cost)
        parts = np.split(counted.value, np.cumsum([len(cuts) + 1 for cuts in edges])[:-1])
        for mine, cuts, part in zip(asked, edges, parts, strict=True):
            mine.append(EdgeCounts(edges=cuts, counts=part, std=counted.noise_std))
        return counted.noise_std

    def ranks() -> list[EdgeRanks]:
        return [
            ranks_of(mine, place.total, place.total_std)
            for mine, place in zip(asked, places, strict=True)
        ]

    # a function of released numbers; nothing is refunded
    if not any(place.located for place in places):
        return [_unranked(place.total) for place in places], 0.0
    ask([place.first for place in places], left * ZOOM, "first edges")
    # Noise of a count of the last round if all earlier rounds are used.
    used = ZOOM
    last_std = run.account.spend(left * (1 - (1 + ZOOMS) * ZOOM)).std("counts", dim)
    estimates = ranks()
    for _ in range(ZOOMS):
        cut = [
            zoom(mine, place, qs, last_std) for mine, place in zip(estimates, places, strict=True)
        ]
        if not any(
            goes_on and place.located for (_, goes_on), place in zip(cut, places, strict=True)
        ):
            break
        ask([edges for edges, _ in cut], left * ZOOM, "edges near the quantiles")
        used = used + ZOOM
        estimates = ranks()
    last = [
        last_edges(mine, place, qs, last_std) for mine, place in zip(estimates, places, strict=True)
    ]
    std = ask(last, left * (1 - used), "last edges")
    known = [
        _unranked(place.total) if place.hidden else mine
        for mine, place in zip(ranks(), places, strict=True)
    ]
    return known, std


def check_rank_grids(shares: BudgetSplit, left: Fraction, k: int, groups: int = 1) -> None:
    """Raise before the debit unless every release has a feasible noise grid."""
    cells = shares.dim * cells_of_column(shares.log2_parts)
    spending = shares.spending
    dim = shares.dim
    spending.at(shares.cells).grid("count", cells, shares.n, parts=dim)
    spending.at(left * ZOOM).grid("count", groups * draws(dim, k), shares.n, parts=dim)


def shares_of_rows(q: Any) -> FloatArray:
    """Return the argument q as an ascending array; raise InputError unless it is 1 to 16 numbers in (0, 1)."""
    listed = [q] if isinstance(q, int | float) and not isinstance(q, bool) else q
    if not isinstance(listed, list | tuple | np.ndarray) or not 1 <= len(listed) <= MOST_QUANTILES:
        raise InputError(f"q must be a number in (0, 1), or 1 to {MOST_QUANTILES} of them")
    shares = np.array([validation.probability("q", each) for each in listed])
    if np.any(np.diff(shares) <= 0.0):
        raise InputError("q must be ascending, each number once")
    return shares


@shared_docs
@user_level
def quantiles(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    q: Any = (0.25, 0.5, 0.75),
    bounds: Any = None,
    by: Any = None,
    groups: Any = None,
    columns: Any = None,
    person: Any = None,
    rows_per_person: RowsPerPerson = 1,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> QuantileResult | GroupQuantiles:
    """Quantiles of private columns in any unit and of any shape, with as little as one public row instead of a range.

    Parameters
    ----------
    {values}
        An entry that is not a finite number is counted as missing; quantiles are those of the other entries of its column.
    {gappy_pub}
    {budget}
    q : float or sequence of float
        Shares of the rows below, 1 to 16 ascending numbers in (0, 1); 0.5 is the median.
    bounds : None or (lowest, highest)
        Numbers or vectors (dim,) between which every value is known to lie; estimates and intervals are clipped to them.
    {by, groups, matched_columns, person, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    QuantileResult
        `quantile` (dim, k), the noise of its rank in rows, intervals that count sampling, and reasons for each. With `by` a
        GroupQuantiles: (groups, dim, k).

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one private row. One count of signed dyadic cells, then two to five counts between edges that follow from
    public and released numbers: each has squared l2 sensitivity 2 dim S^2, l1 sensitivity 2 dim S. Gaussian noise (zCDP,
    approximate DP) or discrete Laplace noise (pure DP); the exact costs add up to at most the budget. With `by`, the counts between
    edges are of groups by cells, in which a row has one cell for each column: the same sensitivities, whatever the number of
    groups. Public: n_priv, dim, x_pub, q, groups.

    Notes
    -----
    The noise adds a few percent to the sampling error if that is above about ten times the noise of a count. A value that many rows
    share is an atom: the estimate is then this value, if it has a short decimal form. The algorithm is our own.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, quantiles
    >>> rng = np.random.default_rng(0)
    >>> stays = rng.lognormal(1.0, 0.8, size=20_000)
    >>> result = quantiles(stays[1:], x_pub=stays[:1], budget=ZCDP(rho=0.5))
    >>> ranks = [float((stays < each).mean()) for each in result.quantile[0]]
    >>> bool(np.all(np.abs(np.array(ranks) - result.q) < 0.01))
    True
    """
    qs = shares_of_rows(q)
    asked = session.asked(ledger, random_state, threads, progress)
    opened = Grouping.of("quantiles", x_priv, x_pub, by=by, groups=groups, columns=columns)
    rows = opened.rows
    public = opened.public
    dim = opened.dim
    k = len(qs)
    grouped = opened.codes is not None
    limits = validation.column_bounds(bounds, dim)
    most = draws(dim, k)
    run = session.start(
        "quantiles", rows, budget, draws=most + (opened.numbers(most) if grouped else 0), **asked
    )
    allowance = run.account.allowance
    share = allowance * ALL_SHARE if grouped else allowance
    shares = divide(dim, rows.n, run.account.spend(share), n_pub=fewest(public))
    left = allowance - shares.cells
    check_rank_grids(shares, left, k, opened.size)
    # The counts of signed cells are freed before those between edges are made.
    needed = max(memory_of_cells(shares, HELD), memory_of_edges(dim, k, opened.size))
    session.require_memory("quantiles", dim, needed)
    numbers = opened.run_on(run)
    beyond = warn_before("quantiles", shares, public, limits, opened.names)
    with run.paid():
        places = locate_rows(numbers, public, shares)
        if grouped:  # the prior of a group's size is nearly flat: only its own counts determine it
            unknown = (
                replace(place, total=float(rows.n), total_std=UNKNOWN * rows.n) for place in places
            )
            places = [place for place in unknown for _ in range(opened.size)]
        codes = (
            None
            if opened.codes is None
            else RowGroups(code=opened.codes, number=opened.size, own=True)
        )
        ranks, std = close_in(run, places, left, dim, qs, codes)
        if grouped:
            order = np.arange(len(places)).reshape(dim, opened.size).T.ravel().tolist()
            places = [places[line] for line in order]
            by_column = ranks
            ranks = []
            for each in (by_column[line] for line in order):
                few = each.total < FEW_STDS * TOTAL_STDS * each.std.max(initial=0.0)
                ranks.append(_unranked(each.total) if few else each)
        result = result_of(numbers, places, ranks, std, qs, limits, len(public), opened)
    result = session.warned("quantiles", result)
    held_back = np.tile(np.repeat(beyond, k), opened.size).tolist()
    return replace(result, part_reasons=with_clipped(result.part_reasons, held_back))


def _unranked(total: float) -> EdgeRanks:
    """Return the ranks of no edges."""
    return EdgeRanks(edges=frozen([]), below=frozen([]), std=frozen([]), total=total)


def result_of(
    run: Session,
    places: list[ColumnPlace],
    ranks: list[EdgeRanks],
    std: float,
    qs: FloatArray,
    limits: Any,
    n_pub: int,
    opened: Grouping | None = None,
) -> QuantileResult:
    """Return the result of all columns, or of all columns of each group."""
    dim = run.rows.dim
    grouping = opened if opened and opened.codes else None
    lowest, highest = (
        (np.full(dim, -math.inf), np.full(dim, math.inf)) if limits is None else limits
    )
    k = len(qs)
    answers = list[tuple[float, float, Structure, Reasons]]()
    for mine, place in zip(ranks, places, strict=True):
        lost = Reason.FEW_ROWS if place.located else Reason.UNRESOLVED
        known = place.located and len(mine.edges) > 0
        answers += [
            answer(mine, q, std) if known else (math.nan, 0.0, "continuous", (lost,))
            for q in qs.tolist()
        ]
    values, noises, words, reasons = zip(*answers, strict=True)
    shape = (-1, dim, k) if grouping else (dim, k)
    quantile = np.clip(np.reshape(values, shape), lowest[:, None], highest[:, None])
    kind: Any = (
        partial(GroupQuantiles, by=grouping.by, groups=grouping.labels)
        if grouping
        else QuantileResult
    )
    result: QuantileResult = kind(
        q=frozen(qs),
        quantile=frozen(np.maximum.accumulate(quantile, axis=-1)),
        noise_rows=frozen(np.reshape(noises, shape)),
        structure=tuple(words[j : j + k] for j in range(0, len(words), k)),
        part_reasons=reasons,
        noise_law=run.account.spending.law,
        ranks=tuple(ranks),
        lowest=frozen(lowest),
        highest=frozen(highest),
        columns=run.rows.columns,
        provenance={"edges": "released"},
        **run.fields(n_pub),
    )
    z = deviations(result.noise_law, LEVEL)
    bounds = list(zip(lowest.tolist(), highest.tolist(), strict=True)) * (len(places) // dim)
    parts = list[Reasons]()
    for mine, place, ends in zip(ranks, places, bounds, strict=True):
        wide = mine.widened(run.account.rows_per_person)
        parts += [reasons_of_ends(wide.ends(q, z), place, ends) for q in qs.tolist()]
    added = zip(reasons, parts, strict=True)
    return replace(result, part_reasons=tuple(own or new for own, new in added))


def reasons_of_ends(
    ends: tuple[float, float], place: ColumnPlace, bounds: tuple[float, float]
) -> Reasons:
    """Return the reason of an estimate whose interval lies beyond the bounds, or ends nowhere near the detected rows."""
    lower = max(ends[0], bounds[0])
    upper = min(ends[1], bounds[1])
    if lower > bounds[1] or upper < bounds[0]:
        return (Reason.CLIPPED,)
    reach = OUTSIDE[0] * place.reach
    start = float(place.first[0]) - reach
    end = float(place.first[-1]) + reach
    return (Reason.FEW_ROWS,) if lower < start or upper > end else ()
