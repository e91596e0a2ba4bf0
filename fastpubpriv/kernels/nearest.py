"""The most isolated of the public points: the largest distance to a nearest neighbour, exact, in far less than all distances.

A row is out of the race once one neighbour is nearer than the largest nearest-neighbour distance proved so far. Rows are
grouped around pivots and, within a group, sorted by distance from its middle, where most neighbours are near; the rows that
lie farthest out run first, so that the bar is high from the start.

Distances for this come from single-precision copies of the rows, in panels of 64 rows side by side, with a bound on their
error. What the bound leaves open is decided by the distance of `reference.nearest.squared_distances`. Where it leaves open
too much (clusters 1e6 times as far apart as they are wide) the panels hold the rows in double precision as they are, added up
in the order of that function, which leaves nothing open.

Where a sample says that 16 rows are near most others (mixtures of some heaps in many columns), `_cover` ends the race in four or
five readings of the rows: 20,000 x 100 in a half to four fifths of the time of the search by groups (busy full-width machine, CPU
time: 14 in place of 30 ms, 23 in place of 29 in busier minutes; 30,000 x 100 29 in place of 48, 10,000 x 30 4.0 in place of 7.2).
Tried and not kept: the same for 2,000 x 100 (1.9 in place of 2.1, but 4.9 in place of 2.3 on uniform rows), for 100,000 x 50 (174
in place of 123: most rows lie beyond the bar) and for 6,000 x 1,000 (164 in place of 114: a panel does not stay in the first
cache). Next to try: single precision with a bound for the first pass, and four rows to a panel, as half of a pass is loads.

Before the groups comes a race without tables: row by row against panels of 16, and when those are not enough one row after the
other, until one is near. The bar is that of the row farthest from the first one, and the row that sent the last one home is looked
at first. It ends by itself where rows are few, or tails heavy; where the price of the first rows says that the rest would cost more
than the tables, the search by groups goes on from its bar. From eight columns on its panels are in single precision too, until that
leaves too much open. Few rows are one call of C, on whose stack all of those with up to 32
columns stand in panels from the start: one pass in the order that decides says whether a row leaves, and if not its distance.

Against a loop of ten lines in Numba that leaves a row at the first near one (the faster of two, with sums in any order and in
order; CPU time, full-width machine, one thread; mixtures, Cauchy, Student with three degrees of freedom, uniform, lattice; 2, 4,
10 and 100 columns): from 200 to 5,000 rows 1.1 to 5 times as fast, and .92 to .98 in four of 44 cases (.5 to .9 before with 200
rows and with 2,000 x 100). With 50 rows .6 to 1.2, at most 5 microseconds behind: .7 are the call and its checks, where the loop
takes as long for all. In one column of few numbers, where every row has an equal, it is 2 to 4 microseconds behind.

Tried and not kept: copying all of many rows into panels first (twice the loop's time on heavy tails), a bar from the first rows
alone (ten passes over all rows in place of two), and sums in the order that decides, which wait for their own additions (twice the
time); panels of 32 or 128 rows in the search by groups (slower), two rows at a time there (a row mostly leaves after one panel),
and the search by groups in Numba with lanes written as LLVM code: as fast, but 5 s to compile.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf, _cover
from fastpubpriv.kernels._cbuf import read_only
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels._parallel import count_threads
from fastpubpriv.threads.steps import run_steps

LANES: int = lib.FPP_ROW_LANES
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_SMALL: int = lib.FPP_SMALL_RACE  # numbers of which one call of C makes copies on its stack
_GOLDEN = 0.6180339887498949  # multiples of it, without their whole part, fall evenly into the unit interval
_FIRST = 16  # rows that run before all others
_STEP_WORK = 1 << 28  # coordinates, of which 1e10 or more fit into a second
# What the search by groups costs, in coordinates of the early race: a call, a row and a number; and the share of it where rows
# do not stay in the cache, for which the early race pays more.
_TABLE_WORK, _TABLE_ROW_WORK, _TABLE_ENTRY_WORK = 900_000, 2_250, 80
_CACHED, _UNCACHED_SHARE = 1 << 18, 0.7
_FEW_COLUMNS, _FALLING = 32, 3.0  # with more, the price of a row falls much while the bar rises
_EARLY_MOST = 1 << 26  # numbers of which the early race may make copies
_KEPT_BYTES = 1 << 20  # of such copies that stay for the next call
# Where the race by cover is tried: with fewer columns nothing is near most others, with more a panel leaves the first cache; fewer
# numbers are for the early race, and with more rows the bar is so low that most lie beyond it.
_COVER_COLUMNS, _COVER_ROWS = (30, 300), (2_000, 30_000)
_ROWS = 4096  # whose differences stay in the cache


class _Winner(threading.local):
    """What one call of C says of few points: a place of its own for each thread."""

    def __init__(self) -> None:
        self.kept = _cbuf.new("fpp_winner *")


_winner = _Winner()


def _narrow(points: npt.NDArray[Any], center: FloatArray, rows: npt.NDArray[np.float32]) -> float:
    """rows (n, dim) = points less center (dim,), in single precision; their largest squared norm, inf if one is not finite."""
    largest = 0.0
    with np.errstate(all="ignore"):
        for first in range(0, len(points), _ROWS):
            part = rows[first : first + _ROWS]
            np.subtract(points[first : first + _ROWS], center, out=part, casting="same_kind")
            norm_sq = float(np.einsum("ij,ij->i", part, part).max())
            largest = max(largest, norm_sq if norm_sq < math.inf else math.inf)
    return largest


def _spread(rows: npt.NDArray[Any], group: IntArray, middles: npt.NDArray[Any], distance: npt.NDArray[Any]) -> None:
    """distance (n,) = of rows (n, dim) from their group's row of middles (64, dim)."""
    with np.errstate(all="ignore"):
        for first in range(0, len(rows), _ROWS):
            apart = rows[first : first + _ROWS] - middles[group[first : first + _ROWS]]
            distance[first : first + _ROWS] = np.sqrt(np.einsum("ij,ij->i", apart, apart))


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The rows in panels, and what is known of them: read by every thread of a race."""

    race: Any  # what C reads
    places: int  # lanes of all panels
    first: IntArray  # places of the rows that lie farthest out


def most_isolated(points: npt.NDArray[Any], *, threads: int | None = None) -> tuple[int, float]:
    """Row of points (m, dim) that is farthest from its nearest other row, lowest index on ties, and that squared distance.

    A single row has no neighbour: its distance is infinite. So is one whose square overflows.
    """
    if points.ndim != 2 or 0 in points.shape:
        raise InputError(f"points must be a matrix of at least one row and column, got shape {points.shape}")
    m, dim = points.shape
    if (
        (m + 15) * dim <= _SMALL
        and points.dtype == _F64
        and (threads is None or (type(threads) is int and threads == 1))
    ):
        # One call of C, and as little around it as can be: a loop in Numba takes no more than a microsecond for 50 rows.
        x, winner = points if points.flags.c_contiguous else np.ascontiguousarray(points), _winner.kept
        if lib.fpp_race_small(ffi.from_buffer("double[]", x), m, dim, winner) == lib.FPP_OK and winner.best >= 0:
            return winner.best, winner.farthest
    if points.dtype not in (_F32, _F64):
        raise InputError(f"points must be float32 or float64, got {points.dtype}")
    points = read_only(points)
    workers = count_threads(threads, m * dim * 10.0)
    state = (m, -1.0)
    if _may_be_covered(points) and not _one_is_far_out(points):
        winner = _cover.race(points.astype(np.float64, copy=False), _other_work(m, dim), workers)
        if winner is not None:
            return winner
    if m > 1 and _may_end_early(points):
        state, done = _early(points.astype(np.float64, copy=False))
        if done:
            return state
    rows, norm_sq = _single(points, workers)
    # Squares of single precision must stay clear of both ends of its range.
    single = 1e-20 < norm_sq < 1e30
    if not single and not np.isfinite(points).all():
        raise InputError("points must be finite: leave out rows with a NaN or an infinity")
    if m == 1:
        return 0, math.inf
    if single:
        drift, kappa = 2.1 * 2.0**-24 * math.sqrt(norm_sq), (dim + 8) * 2.0**-24
        state, settled = _run(_table(points, rows, drift, kappa, workers), state, workers)
        if settled:
            return state
    del rows
    table = _table(points, points.astype(np.float64, copy=False), 0.0, (dim + 8) * 2.0**-53, workers)
    return _run(table, state, workers)[0]


def _may_end_early(points: npt.NDArray[Any]) -> bool:
    """Whether the early race is worth a trial: few numbers, few columns, or a sample of rows with one that is far out."""
    if points.size > _EARLY_MOST:
        return False
    if points.size <= _CACHED or points.shape[1] < _FEW_COLUMNS:
        return True
    return _one_is_far_out(points)


def _may_be_covered(points: npt.NDArray[Any]) -> bool:
    """Whether a sample may say that 16 rows have most others near: it takes columns, and rows that pay for the sample."""
    m, dim = points.shape
    fits = _COVER_COLUMNS[0] <= dim <= _COVER_COLUMNS[1] and _COVER_ROWS[0] <= m <= _COVER_ROWS[1]
    return fits and points.size > _CACHED


def _one_is_far_out(points: npt.NDArray[Any]) -> bool:
    """Whether a sample of rows has one that is far out, as where tails are heavy."""
    sample = points[:: max(1, len(points) // 256)].astype(np.float64)
    with np.errstate(all="ignore"):
        away = np.sum((sample - sample[0]) ** 2, axis=1)
        return bool(away.max() > 9.0 * np.median(away))


def _other_work(m: int, dim: int) -> int:
    """What the search by groups costs, in coordinates of the early race and of the race by cover."""
    return _TABLE_WORK + m * (_TABLE_ROW_WORK + _TABLE_ENTRY_WORK * dim)


def _early(points: FloatArray) -> tuple[tuple[int, float], bool]:
    """The winner of a race without tables, and whether it came to its end; if not, a state to go on from."""
    m, dim = points.shape
    x = _cbuf.inp(points.reshape(-1))
    size, kept = 8 * (m + 15) * dim, np.zeros(9, dtype=np.int64)
    panels = _cbuf.scratch(size, "early panels") if size <= _KEPT_BYTES else np.empty(size, dtype=np.uint8)
    best, farthest, left = ffi.new("int64_t *", m), ffi.new("double *", -1.0), ffi.new("int32_t *", 1)
    others = _other_work(m, dim)
    trial = others // 10
    if m * dim > _CACHED:
        others, trial = int(others * _UNCACHED_SHARE), others // 40
    elif dim >= _FEW_COLUMNS:
        others = int(others * _FALLING)
    while left[0] > 0:
        work = others, trial, _STEP_WORK, ffi.from_buffer("double[]", panels), _cbuf.out(kept)
        _cbuf.check(lib.fpp_race_early(x, m, dim, *work, best, farthest, left))
    return (best[0], farthest[0]), left[0] == 0


def _single(points: npt.NDArray[Any], workers: int) -> tuple[npt.NDArray[np.float32], float]:
    """Rows around their middle in single precision, and their largest squared norm: inf or more than fits if there is none."""
    m, dim = points.shape
    with np.errstate(all="ignore"):
        center = points[:: max(1, m // 1000)].mean(axis=0, dtype=np.float64)
    rows = np.empty((m, dim), dtype=np.float32)
    norms: list[float] = []
    _by_rows(m, dim, workers, lambda a, b: norms.append(_narrow(points[a:b], center, rows[a:b])))
    return rows, max(norms)


def _table(points: npt.NDArray[Any], rows: npt.NDArray[Any], drift: float, kappa: float, workers: int) -> _Table:
    """Rows (m, dim), copies of points, grouped around pivots, each group in panels by distance from its middle."""
    m, dim = rows.shape
    groups = max(1, min(LANES, m // LANES))
    pivots = np.full((dim, LANES), np.inf, dtype=rows.dtype)
    pivots[:, :groups] = rows[(np.arange(groups) * _GOLDEN % 1.0 * m).astype(np.int64)].T
    group = np.empty(m, dtype=np.int64)
    distance = np.empty(m)
    parts: list[FloatArray] = []

    def join(begin: int, end: int) -> None:
        sums = np.zeros((LANES, dim))
        x, is_f32, n, _ = _cbuf.plain_rows(rows[begin:end])
        goal = _cbuf.out(group[begin:end]), _cbuf.out(sums.reshape(-1))
        _cbuf.check(lib.fpp_race_join(x, is_f32, n, dim, _cbuf.inp(pivots.reshape(-1)), *goal))
        parts.append(sums)

    _by_rows(m, dim * LANES, workers, join)
    sizes = np.bincount(group, minlength=LANES)
    with np.errstate(all="ignore"):
        middles = (sum(parts) / np.maximum(sizes, 1)[:, None]).astype(rows.dtype)
    _by_rows(m, dim, workers, lambda a, b: _spread(rows[a:b], group[a:b], middles, distance[a:b]))

    finite = np.isfinite(distance)
    top = distance.max(where=finite, initial=0.0) or 1.0
    in_order = np.argsort(group + np.where(finite, distance / top * 0.5, 0.75), kind="stable")
    starts = np.zeros(groups + 1, dtype=np.int64)
    starts[1:] = np.cumsum(-(-sizes[:groups] // LANES))
    place = np.arange(m) + np.repeat(starts[:-1] * LANES - (np.cumsum(sizes) - sizes)[:groups], sizes[:groups])
    order = np.full((starts[-1], LANES), -1, dtype=np.int64)
    order.ravel()[place] = in_order
    panels = np.empty((order.shape[0], dim, LANES), dtype=rows.dtype)

    def fill(begin: int, end: int) -> None:
        goal = _cbuf.out(panels[begin:end].reshape(-1))
        _cbuf.check(
            lib.fpp_panels_fill(*_cbuf.plain_rows(rows), _cbuf.inp(order[begin:end].reshape(-1)), end - begin, goal)
        )

    _by_rows(order.shape[0], dim * LANES, workers, fill)
    last = (order >= 0).sum(axis=1) - 1
    near, far = distance[order[:, 0]], distance[order[np.arange(last.size), last]]
    outermost = np.argsort(-distance[in_order], kind="stable")[:_FIRST]
    middles = np.ascontiguousarray(middles.T)
    arrays = points, panels, order, starts, near, far, middles
    pointers = [_cbuf.inp(array.reshape(-1)) for array in arrays]
    singles = [int(array.dtype == np.float32) for array in (points, panels)]
    race = _cbuf.new("fpp_race *", (m, dim, groups, *singles, *pointers, drift, kappa))
    return _Table(race, order.size, place[outermost])


def _run(table: _Table, state: tuple[int, float], workers: int) -> tuple[tuple[int, float], bool]:
    """The winner of all rows, starting from a known state, and whether the distances of the table were good enough."""
    lock = threading.Lock()
    settled = True

    def race(queue: IntArray, size: int) -> None:
        def step(number: int) -> None:
            nonlocal state, settled
            begin, end = number * size, min(queue.size, (number + 1) * size)
            work = np.empty(table.race.dim)
            done, enough = ffi.new("int64_t *"), ffi.new("int32_t *")
            while begin < end and settled:
                best, farthest = ffi.new("int64_t *", state[0]), ffi.new("double *", state[1])
                left = _cbuf.inp(queue[begin:end])
                into = _cbuf.out(work), best, farthest, done, enough
                _cbuf.check(lib.fpp_race_run(table.race, left, end - begin, _STEP_WORK, *into))
                begin += done[0]
                with lock:
                    if (farthest[0], -best[0]) > (state[1], -state[0]):
                        state = best[0], farthest[0]
                    settled = settled and enough[0] == 1

        run_steps(step, -(-queue.size // size), workers)

    race(table.first, 4)
    race(np.arange(table.places), 1024)
    return state, settled


def _by_rows(count: int, cost: int, workers: int, work: Callable[[int, int], object]) -> None:
    """work(begin, end) for ranges that cover 0..count, each of about 2e7 coordinates or an eighth of a thread's share."""
    size = max(1, min(20_000_000 // cost, -(-count // (8 * workers)) if workers > 1 else count))
    run_steps(lambda number: work(number * size, min(count, (number + 1) * size)), -(-count // size), workers)
