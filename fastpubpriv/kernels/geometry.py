"""Searches over public rows: the most isolated row, the first terrific ball, the widest gap around a row.

Decisive squared distances are summed column by column in double precision, without fused multiply-adds, so that every search gives
the same bits. NumPy computes all distances between few rows; among many, the loops of `_searches` skip most of them. One thread;
Ctrl-C takes effect between pieces of work. Not for private rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.validation import integer, positive

_OUTER = 11.0  # there is no row between the radius of a terrific ball and this multiple of it
# operations up to which NumPy is used, about 2 ms: importing Numba takes a hundred times as long
_FEW = 1 << 20
_STEP_WORK = 1 << 27  # coordinates in a piece of work: at most about .1 s
_BLOCK = 1 << 16  # distances that stay in the cache
_SAMPLE = 48  # comparisons a row of a slow race, and rows on which other searches are tried
_TRIAL = 200  # comparisons a row that take twice as long as building a k-d tree
_ROWS_A_LEADER = 4000  # for each so many rows, one more row leads a race, beyond the first two


def most_isolated(points: npt.NDArray[Any]) -> tuple[int, float]:
    """Return the row of points (m, dim) farthest from its nearest other row, lowest index on ties, and this squared distance."""
    return isolated_row(_public(points))


def isolated_row(table: FloatArray) -> tuple[int, float]:
    """`most_isolated` of a contiguous, writable, finite matrix of rows."""
    # The distance of a single row is infinite, and so is one whose square overflows.
    m, dim = table.shape
    if not _is_little(m * m * dim):
        return _last_of_race(table)
    columns = np.ascontiguousarray(table.T)
    nearest = np.empty(m)
    rows = max(1, _BLOCK // m)
    for begin in range(0, m, rows):
        squares = _squares(columns, begin, begin + rows)
        lanes = np.arange(len(squares))
        squares[lanes, begin + lanes] = np.inf
        nearest[begin : begin + rows] = squares.min(axis=1)
    best = int(nearest.argmax())
    return best, float(nearest[best])


def counts_within(table: FloatArray, row: int, step: float, most: int) -> IntArray:
    """Return (most + 1,) the number of rows of a checked matrix within 0, 1, ... `most` steps > 0 of a row."""
    m, dim = table.shape
    if _is_little(m * m * dim):
        away = np.sort(np.sqrt(_squares(table.T, row, row + 1)[0]))
        with np.errstate(over="ignore", invalid="ignore"):  # every row lies within infinite steps
            reach = step * np.arange(most + 1)
        return np.searchsorted(away, reach, side="right")
    counts = np.zeros(most + 2, dtype=np.int64)
    import_module("fastpubpriv.kernels._searches").shells(table, row, step, counts)
    return np.cumsum(counts)[:-1]


def first_terrific(
    points: npt.NDArray[Any], radius_max: float, n_radii: int, min_count: int
) -> tuple[int, int] | None:
    """Return the first (i, j) for which the ball of radius r = radius_max / 2**i about row j of points passes Q_pub, or None."""
    # Q_pub: at least min_count rows within r, none between r and 11 r, at least min_count beyond 11 r.
    table = _public(points)
    m, dim = table.shape
    radius_max = positive("radius_max", radius_max)
    n_radii = integer("n_radii", n_radii, minimum=1)
    min_count = integer("min_count", min_count, minimum=1)
    with np.errstate(over="ignore", under="ignore"):
        radii = np.ldexp(radius_max, -np.arange(n_radii))
        radii_sq = np.stack([radii * radii, (_OUTER * radii) * (_OUTER * radii)])
    if not _is_little(m * m * (dim + n_radii)):
        return _first_ball(table, radii, radii_sq, min_count)
    squares = _squares(table.T, 0, m)
    for i in range(n_radii):
        within, shell = ((squares <= radii_sq[side, i]).sum(axis=1) for side in (0, 1))
        passed = (within >= min_count) & (shell == within) & (m - shell >= min_count)
        if passed.any():
            return i, int(passed.argmax())
    return None


def widest_gap(points: npt.NDArray[Any], min_count: int) -> tuple[int, int, float, float] | None:
    """Return (j, p, inner_sq, outer_sq): the widest gap between sorted distances from a row j of points, after rank p."""
    # Maximizes outer_sq / inner_sq over p = min_count .. m - min_count, where row j itself has rank 1; the lowest j, then the
    # lowest p on ties. None if there is no such rank, or no gap at all.
    table = _public(points)
    m = table.shape[0]
    min_count = integer("min_count", min_count, minimum=1)
    if 2 * min_count > m:
        return None
    columns = np.ascontiguousarray(table.T)
    best = None
    widest = 1.0
    rows = max(1, _BLOCK // m)
    for begin in range(0, m, rows):
        squares = np.sort(_squares(columns, begin, begin + rows), axis=1)
        with np.errstate(all="ignore"):
            ratio = (
                squares[:, min_count : m - min_count + 1]
                / squares[:, min_count - 1 : m - min_count]
            )
        ratio[np.isnan(ratio)] = 0.0
        j, p = divmod(int(ratio.argmax()), ratio.shape[1])
        if ratio[j, p] > widest:
            rank = p + min_count
            widest = float(ratio[j, p])
            best = begin + j, rank, float(squares[j, rank - 1]), float(squares[j, rank])
    return best


def _is_little(work: int) -> bool:
    """Whether NumPy does this many operations faster than the compiled loops, which may have to be loaded first."""
    return work <= (_FEW / 64 if "fastpubpriv.kernels._searches" in sys.modules else _FEW)


def prepare() -> None:
    """Compile the loops for searches among many rows, or load them from disk."""
    _last_of_race(np.ones((2, 1)))
    import_module("fastpubpriv.kernels._searches").shells(
        np.ones((2, 1)), 0, 1.0, np.zeros(2, np.int64)
    )
    _first_ball(np.ones((2, 1)), np.ones(1), np.ones((2, 1)), 1)


def _last_of_race(table: FloatArray) -> tuple[int, float]:
    """`most_isolated` of many rows: the first near neighbor eliminates a row, and seemingly isolated rows come first."""
    race = _Race(table)
    while race.done < race.m and not race.is_slow():
        race.run()
    if race.done < race.m:
        race.find_neighbors()
    while race.done < race.m:
        race.run()
    return race.best, race.farthest


_Search = Callable[[IntArray], tuple[IntArray, FloatArray]]


class _Race:
    """A search for the most isolated row, row by row in the order of a queue, places[0]."""

    def __init__(self, table: FloatArray) -> None:
        self.searches: Any = import_module("fastpubpriv.kernels._searches")
        self.table = table
        self.m = len(table)
        self.near = np.empty(self.m)
        self.places = np.empty((3, self.m), dtype=np.int64)
        self.best = self.m
        self.farthest = -1.0
        self.done = 0
        self.distances = 0
        self.distances_per_row = 0.0  # of the last piece of work
        self.seconds = math.inf  # of a distance, in the fastest piece of work
        leaders = min(self.m, 2 + self.m // _ROWS_A_LEADER)
        self.searches.start(table, leaders, self.near, self.places)

    def run(self) -> None:
        """Try the next rows, as long as a piece of work: at first for few distances, then for as many as so far."""
        allowed = min(max(_SAMPLE // 4 * self.m, self.distances), _STEP_WORK // self.table.shape[1])
        started = perf_counter()
        given = (
            self.table,
            self.near,
            self.places,
            self.done,
            max(1, allowed),
            self.best,
            self.farthest,
        )
        self.best, self.farthest, done, distances = self.searches.race(*given)
        self.seconds = min(self.seconds, (perf_counter() - started) / max(1, distances))
        self.distances += distances
        self.distances_per_row = distances / (done - self.done)
        self.done = done

    def is_slow(self) -> bool:
        """Whether a row was compared with so many others, on the average of all, and the rest takes longer than a trial.

        No clock is asked: on a busy machine it would decide otherwise.
        """
        trial = _TRIAL * max(self.m, _FEW / 256 / self.table.shape[1])
        left = self.distances_per_row * (self.m - self.done)
        return self.distances > _SAMPLE * self.m and left > max(self.distances, trial)

    def find_neighbors(self) -> None:
        """Give each row that is left a near neighbor to be tried first, if a search for it is faster than going on."""
        queue, neighbors, _ = self.places
        rest = queue[self.done :].copy()
        search = self._faster_search(rest)
        if search is None:
            return
        distance_sq = np.empty(rest.size)
        # all distances of a step are in memory
        step = max(_SAMPLE, (_STEP_WORK >> 3) // len(self.table))
        for begin in range(0, rest.size, step):
            some = rest[begin : begin + step]
            nearest, distance_sq[begin : begin + step] = search(some)
            # both fail where squares overflow
            is_other = (nearest != some) & (nearest < len(self.table))
            neighbors[some] = np.where(is_other, nearest, -1)
        queue[self.done :] = rest[np.argsort(-distance_sq, kind="stable")]

    def _faster_search(self, rest: IntArray) -> _Search | None:
        """Return a search that would find neighbors of the rest well before the race ends at its pace, None if none would."""
        # Races become faster: the longest distance so far eliminates more and more rows early.
        allowed = 0.65 * self.seconds * self.distances_per_row * rest.size
        sample = rest[:: max(1, rest.size // _SAMPLE)]
        m, dim = self.table.shape
        is_step = m * dim * m.bit_length() <= _STEP_WORK  # building a tree cannot be interrupted
        searches = [_tree_search, _product_search] if is_step else [_product_search]
        for make_search in searches:
            started = perf_counter()
            search = make_search(self.table)
            search(sample[:1])
            spent = perf_counter() - started
            of_a_call = _seconds_of(search, sample[:1])
            for some in (sample[::8], sample):
                seconds = _seconds_of(search, some)
                spent += seconds
                if spent + (seconds - of_a_call) * rest.size / some.size > allowed:
                    break
            else:
                return search
        return None


def _seconds_of(search: _Search, rows: IntArray) -> float:
    """Return the time of a search for the neighbors of these rows, the shortest of three: other load can only add to it."""
    laps = list[float]()
    for _ in range(3):
        started = perf_counter()
        search(rows)
        laps.append(perf_counter() - started)
    return min(laps)


def _tree_search(table: FloatArray) -> _Search:
    """Return a search for nearest other rows and squared distances, fast where rows fill few dimensions or have a close partner."""
    tree = import_module("scipy.spatial").cKDTree(table)

    def search(rows: IntArray) -> tuple[IntArray, FloatArray]:
        distance, nearest = tree.query(table[rows], k=2)
        lanes = np.arange(rows.size)
        second = (nearest[:, 0] == rows).astype(np.int64)  # a copy of the row may stand before it
        return nearest[lanes, second], distance[lanes, second] ** 2

    return search


def _product_search(table: FloatArray) -> _Search:
    """Return the same by products of matrices in single precision, whose time does not depend on the shape of the rows."""
    with np.errstate(all="ignore"):
        centered = (table - table.mean(axis=0)).astype(np.float32)
        half_sq = 0.5 * np.einsum("ij,ij->i", centered, centered)

    def search(rows: IntArray) -> tuple[IntArray, FloatArray]:
        lanes = np.arange(rows.size)
        with np.errstate(all="ignore"):
            score = centered[rows] @ centered.T - half_sq
            score[lanes, rows] = -np.inf
            nearest = score.argmax(axis=1)
            return nearest, 2.0 * (half_sq[rows] - score[lanes, nearest]).astype(np.float64)

    return search


def _first_ball(
    table: FloatArray, radii: FloatArray, radii_sq: FloatArray, min_count: int
) -> tuple[int, int] | None:
    """`first_terrific` of many rows, sorted along the column of largest range."""
    m, dim = table.shape
    searches: Any = import_module("fastpubpriv.kernels._searches")
    with np.errstate(over="ignore"):
        extent = table.max(axis=0) - table.min(axis=0)
        widest_sq = np.cumsum(extent * extent)[-1]  # summed like all squares, so none is larger
    axis = int(extent.argmax())
    lanes = searches.LANES
    order = np.argsort(table[:, axis], kind="stable")
    numbers = table[order, axis]
    places = np.stack(
        [np.argsort(order, kind="stable"), _too_small(table[:, axis], numbers, radii, min_count)]
    )
    panels = np.full((-(-m // lanes) * lanes, dim), np.nan)
    panels[:m] = table[order]
    panels = np.ascontiguousarray(panels.reshape(-1, lanes, dim).transpose(0, 2, 1))
    edges = np.stack(
        [numbers[::lanes], numbers[np.minimum(np.arange(lanes, m + lanes, lanes), m) - 1]], axis=1
    )
    scratch = np.empty(lanes), np.empty(radii.size, dtype=np.int64)
    first = int((radii_sq[1] >= widest_sq).sum())  # for earlier radii no row is beyond the shell
    best = radii.size
    winner = -1
    rows = max(1, _STEP_WORK // (m * (dim + radii.size)))
    for begin in range(0, m, rows):
        given = axis, min_count, begin, min(m, begin + rows), first, best
        radius_index, row = searches.balls(
            (table, panels, edges, places), radii_sq, given, *scratch
        )
        if row >= 0:
            best = int(radius_index)
            winner = int(row)
    return (best, winner) if winner >= 0 else None


def _too_small(
    along: FloatArray, numbers: FloatArray, radii: FloatArray, min_count: int
) -> IntArray:
    """Return (m,) the first radius that fewer than min_count rows can be within, judged by sorted numbers in one column."""
    some = np.zeros(along.size, dtype=np.int64)
    with np.errstate(over="ignore"):  # margin for rounding, and for squares that underflow to 0
        for reach in np.maximum(radii * (1.0 + 1e-12), 1e-150):
            last = np.searchsorted(numbers, along + reach, "right")
            before = np.searchsorted(numbers, along - reach)
            some += last - before >= min_count
    return some


def _squares(columns: FloatArray, begin: int, end: int) -> FloatArray:
    """Return squared distances of rows begin ... end from all rows, given by `columns` (dim, m)."""
    with np.errstate(all="ignore"):
        total: FloatArray = np.square(columns[0, begin:end, None] - columns[0])
        gap = np.empty_like(total)
        for column in columns[1:]:
            np.subtract(column[begin:end, None], column, out=gap)
            total += np.multiply(gap, gap, out=gap)
    return total


def _public(points: npt.NDArray[Any]) -> FloatArray:
    """Return public points as a contiguous, writable float64 matrix; InputError unless a finite float matrix."""
    if points.ndim != 2 or 0 in points.shape or points.dtype not in (np.float32, np.float64):
        raise InputError(
            f"points must be a float matrix with rows, got {points.dtype} of shape {points.shape}"
        )
    if not np.isfinite(points).all():
        raise InputError("points must be finite: leave out rows with a NaN or an infinity")
    return np.require(points, np.float64, ["C", "W"])
