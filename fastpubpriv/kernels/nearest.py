"""The most isolated of the public points: the largest distance to a nearest neighbour, exact, in far less than all distances.

A row is out of the race once one neighbour is nearer than the largest nearest-neighbour distance proved so far. Rows are
grouped around pivots and, within a group, sorted by distance from its middle, where most neighbours are near; the rows that
lie farthest out run first, so that the bar is high from the start.

Distances for this come from single-precision copies of the rows, in panels of 64 rows side by side, with a bound on their
error. What the bound leaves open is decided by the distance of `reference.nearest.squared_distances`. Where it leaves open
too much (clusters 1e6 times as far apart as they are wide) the panels hold the rows in double precision as they are, added up
in the order of that function, which leaves nothing open.

Tried and not kept: panels of 32 or 128 rows (slower), loops over the lanes left to Numba (between half and a thirtieth of the
speed of `_lanes`, by length and type), two rows at a time (a row mostly leaves after one panel).
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
from fastpubpriv.kernels._jit import kernel, read_only
from fastpubpriv.kernels._lanes import LANES, TURNED, add_columns, lowest, turn, within
from fastpubpriv.kernels._parallel import count_threads
from fastpubpriv.threads.steps import run_steps

_GOLDEN = 0.6180339887498949  # multiples of it, without their whole part, fall evenly into the unit interval
_COLUMNS = 32  # columns between two looks at whether a panel may be left
_FIRST = 16  # rows that run before all others
_STEP_WORK = 1 << 28  # coordinates, of which 1e10 or more fit into a second
_DOUBTS = 4  # exact distances that a panel may cost on average before double precision is cheaper


@kernel(fastmath=False)
def _exact(points, i, j):  # type: ignore[no-untyped-def]
    """Squared distance of two rows of points (m, dim) that decides."""
    total = 0.0
    for k in range(points.shape[1]):
        difference = np.float64(points[i, k]) - np.float64(points[j, k])
        total += difference * difference
    return total


@kernel
def _narrow(points, center, begin, end, rows):  # type: ignore[no-untyped-def]
    """rows[i] = points[i] - center (dim,) in single precision; returns the largest squared norm, inf if one is not finite."""
    largest = np.float32(0.0)
    for i in range(begin, end):
        norm = np.float32(0.0)
        for k in range(points.shape[1]):
            x = np.float32(points[i, k] - center[k])
            rows[i, k] = x
            norm += x * x
        if not norm <= largest:
            largest = norm if norm > largest else np.float32(np.inf)
    return largest


@kernel(fastmath=False)
def _nearest_pivot(rows, pivots, begin, end, group, sums):  # type: ignore[no-untyped-def]
    """group[i] = nearest of pivots (dim, 64) to rows[i] (dim,); sums (64, dim) += rows by group."""
    out = np.empty(LANES, rows.dtype)
    for i in range(begin, end):
        add_columns(pivots, rows[i], 0, rows.shape[1], out)
        g = 0
        for v in range(1, LANES):
            if out[v] < out[g]:
                g = v
        group[i] = g
        for k in range(rows.shape[1]):
            sums[g, k] += rows[i, k]


@kernel
def _spread(rows, group, middles, begin, end, distance):  # type: ignore[no-untyped-def]
    """distance[i] = of rows[i] (dim,) from its group's row of middles (64, dim)."""
    for i in range(begin, end):
        total = rows[i, 0] * 0
        for k in range(rows.shape[1]):
            difference = rows[i, k] - middles[group[i], k]
            total += difference * difference
        distance[i] = np.sqrt(total)


@kernel(fastmath=False)
def _fill(rows, order, begin, end, panels):  # type: ignore[no-untyped-def]
    """panels (p, dim, 64) from begin to end = the rows (m, dim) that order (p, 64) names; infinity where it says -1."""
    dim = rows.shape[1]
    for p in range(begin, end):
        if order[p, LANES - 1] >= 0 and dim >= TURNED:
            for lane in range(0, LANES, TURNED):
                for k in range(0, dim, TURNED):
                    turn(rows, order[p], lane, min(k, dim - TURNED), panels[p])
            continue
        for v in range(LANES):
            i = order[p, v]
            if i >= 0:
                for k in range(rows.shape[1]):
                    panels[p, k, v] = rows[i, k]
            else:
                panels[p, :, v] = np.inf


@kernel(fastmath=False)
def _bounds(limit, drift, kappa, bounds):  # type: ignore[no-untyped-def]
    """bounds[0], [1]: a computed square below [0] means an exact one below limit, and one above [1] means one above limit."""
    bounds[0] = limit
    bounds[1] = limit
    if drift > 0.0:
        root = np.sqrt(limit)
        low = (root - drift) * (1.0 - kappa)
        high = (root + drift) * (1.0 + kappa)
        # A smaller one is no larger than what squares lose.
        bounds[0] = low * low * (1.0 - 1e-6) if low > drift else 0.0
        bounds[1] = high * high * (1.0 + 1e-6)


@kernel(fastmath=False)
def _scan(points, table, row, i, g, limit, tie, shrink, counts):  # type: ignore[no-untyped-def]
    """Look at the neighbours of i, whose copy is row (dim,) and group g, group by group.

    With shrink, the exact squared distance of the nearest. Without, -1 if one is below limit, or equal to it when tie, else
    limit. counts[0] += coordinates looked at, counts[1] += exact distances.
    """
    panels, order, starts, near, far, middles, drift, kappa = table
    dim = row.shape[0]
    bounds = np.empty(2, panels.dtype)
    out = np.empty(LANES, panels.dtype)
    away = np.zeros(LANES, panels.dtype)
    seen = np.zeros(LANES, np.bool_)
    _bounds(limit, drift, kappa, bounds)
    groups = starts.shape[0] - 1
    for visit in range(groups):
        if visit == 1:
            add_columns(middles, row, 0, dim, away)
            counts[0] += dim * LANES
        if visit > 0:
            g = -1
            for v in range(groups):
                if not seen[v] and (g < 0 or away[v] < away[g]):
                    g = v
        seen[g] = True
        center = np.sqrt(np.float64(away[g]))
        for p in range(starts[g], starts[g + 1]):
            if visit > 0 and center < np.inf and far[p] < np.inf:
                # Triangle inequality, with room for the rounding of all three sides and for squares that underflow.
                reach = np.sqrt(limit) + drift + 4.0 * kappa * (center + far[p]) + 1e-150
                if center - far[p] > reach or near[p] - center > reach:
                    continue
            begin, found = 0, np.uint64(1)
            while begin < dim and found != 0:
                end = min(begin + _COLUMNS, dim)
                add_columns(panels[p], row, begin, end, out)
                found = within(out, bounds[1])
                begin = end
            counts[0] += begin * LANES
            while found != 0:
                v = lowest(found)
                found &= found - np.uint64(1)
                j = order[p, v]
                if not out[v] <= bounds[1] or j == i or j < 0:
                    continue
                if not shrink and out[v] < bounds[0]:
                    return -1.0
                total = _exact(points, i, j)
                counts[1] += 1
                if shrink:
                    if total < limit:
                        limit = total
                        _bounds(limit, drift, kappa, bounds)
                elif total < limit or (tie and total == limit):
                    return -1.0
    return limit


@kernel(fastmath=False)
def _race(points, table, queue, begin, end, best, farthest, counts):  # type: ignore[no-untyped-def]
    """Run the places queue[begin:end] of the panels; returns where it stopped, and the winner so far with its distance.

    Stops early when enough work is done, or when single precision leaves too much open.
    """
    panels, order, starts = table[0], table[1], table[2]
    row = np.empty(panels.shape[1], panels.dtype)
    counts[:] = 0
    while begin < end and counts[0] < _STEP_WORK and counts[1] * LANES * row.shape[0] <= 1e6 + _DOUBTS * counts[0]:
        p, v = queue[begin] // LANES, queue[begin] % LANES
        begin += 1
        i = order[p, v]
        if i < 0 or i == best:
            continue
        for k in range(row.shape[0]):
            row[k] = panels[p, k, v]
        g = np.searchsorted(starts, p, side="right") - 1
        nearest = -1.0
        # First against the bar, which most rows miss; then for the neighbour of those that do not.
        for shrink in (False, True):
            if shrink or farthest >= 0.0:
                limit = np.inf if shrink else farthest
                nearest = _scan(points, table, row, i, g, limit, i > best, shrink, counts)
                if nearest < 0.0:
                    break
        if nearest > farthest or (nearest == farthest and i < best):
            best, farthest = i, nearest
    return begin, best, farthest


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The rows in panels, and what is known of them: read by every thread of a race."""

    arrays: tuple[Any, ...]  # panels, order, starts, near, far, middles, drift, kappa: as in _scan
    first: IntArray  # places of the rows that lie farthest out


def most_isolated(points: npt.NDArray[Any], *, threads: int | None = None) -> tuple[int, float]:
    """Row of points (m, dim) that is farthest from its nearest other row, lowest index on ties, and that squared distance.

    A single row has no neighbour: its distance is infinite. So is one whose square overflows.
    """
    if points.ndim != 2 or points.shape[0] < 1 or points.shape[1] < 1:
        raise InputError(f"points must be a matrix of at least one row and column, got shape {points.shape}")
    if points.dtype not in (np.float32, np.float64):
        raise InputError(f"points must be float32 or float64, got {points.dtype}")
    points = read_only(points)
    m, dim = points.shape
    workers = count_threads(threads, m * dim * 10.0)
    rows, norm_sq = _single(points, workers)
    # Squares of single precision must stay clear of both ends of its range.
    single = 1e-20 < norm_sq < 1e30
    if not single and not np.isfinite(points).all():
        raise InputError("points must be finite: leave out rows with a NaN or an infinity")
    if m == 1:
        return 0, math.inf
    state = (m, -1.0)
    if single:
        drift, kappa = 2.1 * 2.0**-24 * math.sqrt(norm_sq), (dim + 8) * 2.0**-24
        state, settled = _run(points, _table(read_only(rows), drift, kappa, workers), state, workers)
        if settled:
            return state
    del rows
    table = _table(read_only(points.astype(np.float64, copy=False)), 0.0, (dim + 8) * 2.0**-53, workers)
    return _run(points, table, state, workers)[0]


def _single(points: npt.NDArray[Any], workers: int) -> tuple[npt.NDArray[np.float32], float]:
    """Rows around their middle in single precision, and their largest squared norm: inf or more than fits if there is none."""
    m, dim = points.shape
    with np.errstate(all="ignore"):
        center = points[:: max(1, m // 1000)].mean(axis=0, dtype=np.float64)
    rows = np.empty((m, dim), dtype=np.float32)
    norms: list[float] = []
    _by_rows(m, dim, workers, lambda begin, end: norms.append(_narrow(points, center, begin, end, rows)))
    return rows, max(norms)


def _table(rows: npt.NDArray[Any], drift: float, kappa: float, workers: int) -> _Table:
    """Group rows (m, dim) around pivots, sort each group by distance from its middle, and copy them into panels."""
    m, dim = rows.shape
    groups = max(1, min(LANES, m // LANES))
    pivots = np.full((dim, LANES), np.inf, dtype=rows.dtype)
    pivots[:, :groups] = rows[(np.arange(groups) * _GOLDEN % 1.0 * m).astype(np.int64)].T
    group = np.empty(m, dtype=np.int64)
    distance = np.empty(m)
    parts: list[FloatArray] = []

    def join(begin: int, end: int) -> None:
        sums = np.zeros((LANES, dim))
        _nearest_pivot(rows, pivots, begin, end, group, sums)
        parts.append(sums)

    _by_rows(m, dim * LANES, workers, join)
    sizes = np.bincount(group, minlength=LANES)
    with np.errstate(all="ignore"):
        middles = (sum(parts) / np.maximum(sizes, 1)[:, None]).astype(rows.dtype)
    _by_rows(m, dim, workers, lambda begin, end: _spread(rows, group, middles, begin, end, distance))

    finite = np.isfinite(distance)
    top = distance.max(where=finite, initial=0.0) or 1.0
    in_order = np.argsort(group + np.where(finite, distance / top * 0.5, 0.75), kind="stable")
    starts = np.zeros(groups + 1, dtype=np.int64)
    starts[1:] = np.cumsum(-(-sizes[:groups] // LANES))
    place = np.arange(m) + np.repeat(starts[:-1] * LANES - (np.cumsum(sizes) - sizes)[:groups], sizes[:groups])
    order = np.full((starts[-1], LANES), -1, dtype=np.int64)
    order.ravel()[place] = in_order
    panels = np.empty((order.shape[0], dim, LANES), dtype=rows.dtype)
    _by_rows(order.shape[0], dim * LANES, workers, lambda begin, end: _fill(rows, order, begin, end, panels))
    last = (order >= 0).sum(axis=1) - 1
    near, far = distance[order[:, 0]], distance[order[np.arange(last.size), last]]
    outermost = np.argsort(-distance[in_order], kind="stable")[:_FIRST]
    middles = np.ascontiguousarray(middles.T)
    return _Table((panels, order, starts, near, far, middles, drift, kappa), place[outermost])


def _run(
    points: npt.NDArray[Any], table: _Table, state: tuple[int, float], workers: int
) -> tuple[tuple[int, float], bool]:
    """The winner of all rows, starting from a known state, and whether the distances of the table were good enough."""
    lock = threading.Lock()
    settled = True

    def race(queue: IntArray, size: int) -> None:
        def step(number: int) -> None:
            nonlocal state, settled
            begin, end = number * size, min(queue.size, (number + 1) * size)
            counts = np.empty(2, dtype=np.int64)
            while begin < end and settled:
                begin, best, farthest = _race(points, table.arrays, queue, begin, end, *state, counts)
                with lock:
                    if (farthest, -best) > (state[1], -state[0]):
                        state = best, farthest
                    settled &= begin == end or counts[0] >= _STEP_WORK

        run_steps(step, -(-queue.size // size), workers)

    race(table.first, 4)
    race(np.arange(table.arrays[1].size), 1024)
    return (int(state[0]), float(state[1])), settled


def _by_rows(count: int, cost: int, workers: int, work: Callable[[int, int], object]) -> None:
    """work(begin, end) for ranges that cover 0..count, each of about 2e7 coordinates or an eighth of a thread's share."""
    size = max(1, min(20_000_000 // cost, -(-count // (8 * workers)) if workers > 1 else count))
    run_steps(lambda number: work(number * size, min(count, (number + 1) * size)), -(-count // size), workers)
