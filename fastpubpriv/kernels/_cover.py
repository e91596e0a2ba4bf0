"""The race for the most isolated row by cover, for rows with many columns in a few heaps: `nearest` says where it comes in.

In many columns the rows around the middle of a heap are near all of it. So of a sample those 16 rows are taken that have most of it
within its own bar, and one pass over all rows leaves each with the distance to the nearest of the 16. Those that are farthest from
theirs are likely winners: a second pass finds their nearest neighbours, which is the bar. The rows beyond it are held against the
rows of their own heap, from its middle outwards; of 20,000 rows of a mixture a third meets the first 16 of those, and some forty
the 128th. What is left is gone through in a last pass, 16 at once.

Distances are added up in any order here, so that each decision leaves room for rounding; the distance of the winner is added up
in the order of `reference.nearest.squared_distances`. Nothing is decided where that room does not suffice, or where the sample or
the work so far says that the groups of `nearest` cost less.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import lib
from fastpubpriv.threads.steps import run_steps

PIVOTS = 16
# What 16 rows have to be near to of the sample, within its own bar and within nine tenths of that, which is closer to the bar of
# all rows: .96 and .83 of 20,000 rows of 8 heaps in 100 columns, .98 and .73 of uniform ones, .93 and .70 of 40 heaps, .75 and .30
# on a lattice.
_COVERED = (1.0, 0.9), (0.9, 0.78)
# Bars for which squares neither underflow nor overflow, in any order.
_SMALLEST, _LARGEST = 1e-270, 1e300
_OUT = 0.6  # of the rows beyond the bar, more than which cost more than groups
_PANELS = 4  # of the rows around the middle of a heap, in the first round; twice as many in the next
_ONE_THREAD = 1 << 18  # multiplications for which BLAS wakes no threads
_STEP_WORK = 1 << 26  # coordinates of one call


def slack(dim: int) -> float:
    """Two sums of the same dim squares in any order differ by a smaller factor than 1 + this, squared."""
    return 4.0 * (dim + 4) * 2.0**-53


def pivots(points: FloatArray) -> IntArray | None:
    """Rows (16,) that are near most rows of a sample of points (m, dim), or None if 16 rows are not."""
    m = len(points)
    count = 128
    block = max(1, _ONE_THREAD // (count * points.shape[1]))
    chosen = np.arange(count) * m // count
    with np.errstate(all="ignore"):
        sample = points[chosen]
        sample = sample - sample.mean(axis=0)
        norms = np.einsum("ij,ij->i", sample, sample)
        away = norms[:, None] + norms
        for a in range(0, count, block):
            away[a : a + block] -= 2.0 * (sample[a : a + block] @ sample.T)
        np.fill_diagonal(away, math.inf)
    bar = float(away.min(axis=1).max())
    taken: list[int] = []
    for part, least in _COVERED:
        within = (away < part * bar).astype(np.float32)
        np.fill_diagonal(within, 1.0)
        some, covered = _greedy(within)
        if not covered >= least:
            return None
        taken = taken or some
    order = np.argsort(-(away < bar).sum(axis=1), kind="stable").tolist()
    taken += [i for i in order if i not in taken][: PIVOTS - len(taken)]
    return chosen[taken].astype(np.int64)


def _greedy(within: npt.NDArray[np.float32]) -> tuple[list[int], float]:
    """At most 16 rows of within (n, n), each the one that has most of what is left, and the share that they have of all."""
    taken: list[int] = []
    open_rows = np.ones(len(within), dtype=np.float32)
    while len(taken) < PIVOTS:
        gain = within @ open_rows
        best = int(gain.argmax())
        if not gain[best] > 1.0:
            break
        taken.append(best)
        open_rows *= 1.0 - within[best]
    return taken, 1.0 - float(open_rows.mean())


class _Rows:
    """Points (m, dim) and the passes over them; work: coordinates that may be looked at before the race is given up."""

    def __init__(self, points: FloatArray, work: float, workers: int) -> None:
        self.points, self.work, self.workers = points, work, workers
        self.m, self.dim = points.shape
        self.x = _cbuf.inp(points.reshape(-1))
        self.slack = slack(self.dim)
        size = max(1, _STEP_WORK // (self.dim * PIVOTS))
        if workers > 1:
            size = min(size, -(-self.m // (4 * workers)))
        self.ranges = [(a, min(a + size, self.m)) for a in range(0, self.m, size)]

    def pays(self, work: float) -> bool:
        """Whether so much more work is left to spend; it is spent."""
        self.work -= work
        return self.work >= 0.0

    def near(self, rows: IntArray) -> tuple[FloatArray, IntArray]:
        """Least distance of each point from rows (16,), about, and from which of them."""
        nearest, group, which = np.empty(self.m), np.empty(self.m, dtype=np.int64), _cbuf.inp(rows)
        goal = _cbuf.out(nearest), _cbuf.out(group)

        def step(number: int) -> None:
            panel = _cbuf.out(np.empty(PIVOTS * self.dim))
            _cbuf.check(lib.fpp_race_cover(self.x, self.m, self.dim, which, *self.ranges[number], panel, *goal))

        run_steps(step, len(self.ranges), self.workers)
        return nearest, group

    def neighbors(self, rows: IntArray) -> tuple[FloatArray, IntArray, FloatArray]:
        """Of each of rows (at most 16): the least distance to another point, about, that point, and the least but that."""
        which = np.full(PIVOTS, -1, dtype=np.int64)
        which[: rows.size] = rows
        steps = len(self.ranges) if self.workers > 1 else 1  # one after the other, each goes on from the last
        nearest, second = np.full((steps, PIVOTS), math.inf), np.full((steps, PIVOTS), math.inf)
        at = np.zeros((steps, PIVOTS), dtype=np.int64)

        def step(number: int) -> None:
            panel, mine = _cbuf.out(np.empty(PIVOTS * self.dim)), number % steps
            goal = _cbuf.out(nearest[mine]), _cbuf.out(at[mine]), _cbuf.out(second[mine])
            _cbuf.check(
                lib.fpp_race_contend(self.x, self.m, self.dim, _cbuf.inp(which), *self.ranges[number], panel, *goal)
            )

        run_steps(step, len(self.ranges), self.workers)
        lanes, least = np.arange(rows.size), nearest.argmin(axis=0)[: rows.size]
        both = np.sort(np.vstack([nearest, second]), axis=0)
        return both[0, : rows.size], at[least, lanes], both[1, : rows.size]

    def exact(self, row: int, others: IntArray) -> float:
        """The least of the squared distances that decide, of a row from others."""
        gaps = self.points[others] - self.points[row]
        return float(np.cumsum(gaps * gaps, axis=1)[:, -1].min())

    def nearest_sq(self, row: int, about: float, at: int, second: float) -> float:
        """The squared distance that decides of a row from its nearest, which `neighbors` has looked for."""
        most = about * (1.0 + 4.0 * self.slack)
        if second > most:
            return self.exact(row, np.array([at]))
        close = []
        for begin, end in self.ranges:
            gaps = self.points[begin:end] - self.points[row]
            close.append(begin + np.flatnonzero(np.einsum("ij,ij->i", gaps, gaps) <= most))
        others = np.concatenate(close)
        return self.exact(row, others[others != row])


class _Heaps:
    """Points by the pivot that is nearest, those of a heap by distance from it."""

    def __init__(self, rows: _Rows, nearest: FloatArray, group: IntArray) -> None:
        order = np.argsort(group + nearest * (0.5 / float(nearest.max())))
        starts = np.searchsorted(group[order], np.arange(PIVOTS + 1)).tolist()
        self.rows = rows
        self.heaps = [np.ascontiguousarray(order[a:b]) for a, b in itertools.pairwise(starts)]

    def left(self, out: BoolArray, limit: float) -> IntArray | None:
        """Points of `out` (m,) that no row of their own heap is nearer to than limit; None if they cost too much."""
        rows, heaps = self.rows, self.heaps
        queues = [heap[out[heap]] for heap in heaps]
        first, panels = 0, _PANELS
        while any(queue.size and first < heap.size for heap, queue in zip(heaps, queues, strict=True)):
            last = first + panels * PIVOTS
            pairs = sum(queue.size * min(last - first, heap.size) for heap, queue in zip(heaps, queues, strict=True))
            if not rows.pays(float(pairs * rows.dim)):
                return None

            def step(number: int, first: int = first, last: int = last) -> None:
                heap, queue = heaps[number], queues[number]
                if queue.size and first < heap.size:
                    left, panel = np.array([queue.size]), _cbuf.out(np.empty(PIVOTS * rows.dim))
                    work = _cbuf.inp(heap), first, min(last, heap.size), limit, panel, _cbuf.out(queue), _cbuf.out(left)
                    _cbuf.check(lib.fpp_race_leave(rows.x, rows.m, rows.dim, *work))
                    queues[number] = queue[: left[0]]

            run_steps(step, PIVOTS, rows.workers)
            first, panels = last, 2 * panels
        return np.concatenate(queues)


def _contenders(
    rows: _Rows, nearest: FloatArray, group: IntArray
) -> list[tuple[IntArray, FloatArray, IntArray, FloatArray]] | None:
    """Points, the winner among them, with what `neighbors` says of them; None if they cost too much."""
    full = float(rows.m * rows.dim * PIVOTS)
    room = 1.0 - 2.0 * rows.slack
    if not rows.pays(2.0 * full):
        return None
    batch = np.argpartition(nearest, rows.m - PIVOTS)[rows.m - PIVOTS :]
    found = [(batch, *rows.neighbors(batch))]
    limit = float(found[0][1].max()) * room
    out = nearest >= limit
    if not (limit > _SMALLEST and np.count_nonzero(out) <= _OUT * rows.m):
        return None
    heaps = _Heaps(rows, nearest, group)
    while True:
        out[batch] = False  # their neighbours are known
        left = heaps.left(out, limit)
        if left is None or not (left.size == 0 or rows.pays(full)):
            return None
        if left.size == 0:
            return found
        batch = left[np.argsort(-nearest[left], kind="stable")[:PIVOTS]]
        found.append((batch, *rows.neighbors(batch)))
        if left.size <= PIVOTS:
            return found
        limit = max(limit, float(found[-1][1].max()) * room)
        out[:] = False
        out[left] = True


def race(points: FloatArray, work: float, workers: int) -> tuple[int, float] | None:
    """The winner among points (m, dim), m at least 128, and its distance; None if another search has to find it."""
    chosen = pivots(points)
    if chosen is None:
        return None
    rows = _Rows(points, work, workers)
    nearest, group = rows.near(chosen)
    found = _contenders(rows, nearest, group) if nearest.max() < _LARGEST else None
    if found is None:
        return None
    index, about, at, second = (np.concatenate(column) for column in zip(*found, strict=True))
    state = (rows.m, -1.0)
    for lane in np.flatnonzero(about >= about.max() * (1.0 - 4.0 * rows.slack)).tolist():
        row = int(index[lane])
        square = rows.nearest_sq(row, float(about[lane]), int(at[lane]), float(second[lane]))
        if (square, -row) > (state[1], -state[0]):
            state = row, square
    return state
