"""Rows of few columns in panels of 64 neighbours, with the box of each: what the searches for balls skip and scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels._jit import kernel
from fastpubpriv.kernels._lanes import LANES, TURNED, fetch, turn
from fastpubpriv.kernels._reach import extent

AHEAD = 256  # rows to ask memory for before their turn
_SAMPLE = 1 << 14  # rows that the cells of many rows are cut by
Run = Callable[[Callable[[int, int], object], int, int], None]


class Blocks(NamedTuple):
    """Panels of rows that are near to one another. Unused lanes and boxes are NaN, which is within no distance."""

    panels: FloatArray  # (p, dim, 64)
    order: IntArray  # (p, 64): which row is in a lane, -1 for none
    lower: FloatArray  # (q, dim, 64): least corner of the box of panel 64 a + b in [a, :, b]
    upper: FloatArray
    sizes: IntArray  # (64 q,): rows of a panel


class Tiles(NamedTuple):
    """Panels in single precision, 64 to a tile, less the middle of their tile. Unused lanes and boxes are NaN."""

    panels: npt.NDArray[np.float32]  # (p, dim, 64)
    middles: FloatArray  # (q, dim): a place among the rows of a tile
    order: IntArray  # (p, 64): which row is in a lane, -1 for none
    boxes: FloatArray  # (q, 2, dim, 64): least and greatest corners of the rows of each panel
    lower: npt.NDArray[np.float32]  # (q, dim, 64): the same less the middle
    upper: npt.NDArray[np.float32]
    sizes: IntArray  # (64 q,): rows of a panel


@kernel(fastmath=False)
def _select(key, order, begin, end, middle):  # type: ignore[no-untyped-def]
    """Reorder order[begin:end] so that key (m,) is nowhere larger before middle than from middle on."""
    low, high = begin, end - 1
    while low < high:
        a, b, c = key[order[low]], key[order[(low + high) // 2]], key[order[high]]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while key[order[i]] < pivot:
                i += 1
            while key[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break


@kernel(fastmath=False)
def _split(columns, order, begin, end):  # type: ignore[no-untyped-def]
    """Order order[begin:end] so that each run of 64 rows of columns (dim, m) is a cell of halvings along the longest side."""
    stack = np.empty((128, 2), np.int64)
    stack[0, 0], stack[0, 1] = begin, end
    depth = 1
    while depth > 0:
        depth -= 1
        first, last = stack[depth, 0], stack[depth, 1]
        if last - first <= LANES:
            continue
        longest, side = 0, -1.0
        for k in range(columns.shape[0]):
            low = high = columns[k, order[first]]
            for i in range(first + 1, last):
                x = columns[k, order[i]]
                low = min(low, x)
                high = max(high, x)
            if high - low > side:
                longest, side = k, high - low
        middle = first + ((last - first + LANES) // (2 * LANES)) * LANES
        _select(columns[longest], order, first, last, middle)
        stack[depth, 0], stack[depth, 1] = first, middle
        stack[depth + 1, 0], stack[depth + 1, 1] = middle, last
        depth += 2


@kernel(fastmath=False)
def _fill(columns, order, panels, lower, upper):  # type: ignore[no-untyped-def]
    """Copy columns (dim, m) into panels (p, dim, 64) in order (p, 64), and their least and largest values into the boxes."""
    for p in range(panels.shape[0]):
        for k in range(panels.shape[1]):
            low, high = np.inf, -np.inf
            for v in range(LANES):
                i = order[p, v]
                if i >= 0:
                    x = columns[k, i]
                    panels[p, k, v] = x
                    low = min(low, x)
                    high = max(high, x)
            lower[p // LANES, k, p % LANES] = low
            upper[p // LANES, k, p % LANES] = high


@kernel(fastmath=False)
def _plant(columns, order, side, cut):  # type: ignore[no-untyped-def]
    """A tree of halvings of columns (dim, s): node i sends a row to 2 i + 1 if its column side[level] is at least cut[i]."""
    s = order.shape[0]
    for level in range(side.shape[0]):
        cells = 1 << level
        # The columns are taken by the sum of their extents over all cells, so that the rows of a block move in step.
        longest, width = 0, -1.0
        for k in range(columns.shape[0]):
            total = 0.0
            for cell in range(cells):
                low = high = columns[k, order[s * cell >> level]]
                for i in range(s * cell >> level, s * (cell + 1) >> level):
                    x = columns[k, order[i]]
                    low = min(low, x)
                    high = max(high, x)
                total += high - low
            if total > width:
                longest, width = k, total
        side[level] = longest
        for cell in range(cells):
            middle = s * (2 * cell + 1) >> (level + 1)
            _select(columns[longest], order, s * cell >> level, s * (cell + 1) >> level, middle)
            cut[cells + cell] = columns[longest, order[middle]]


@kernel(fastmath=False)
def _route(rows, side, cut, begin, end, leaf):  # type: ignore[no-untyped-def]
    """leaf[i] = cell of rows[i] (dim,) in a tree with columns side (depth,) and cuts, or -1 if the row is not finite."""
    depth, dim = side.shape[0], rows.shape[1]
    panel = np.empty((max(dim, TURNED), LANES))
    index = np.empty(LANES, np.int64)
    zero, node = np.empty(LANES), np.empty(LANES, np.int64)
    for first in range(begin, end, LANES):
        n = min(LANES, end - first)
        for v in range(LANES):
            if dim >= TURNED:  # shorter rows share lines, and come by themselves
                fetch(rows, first + AHEAD + v)
            index[v] = first + v if v < n else -1
        load_panel(rows, index, panel)
        zero[:] = 0.0
        node[:] = 1
        for k in range(dim):
            for v in range(LANES):
                zero[v] += panel[k, v] * 0.0
        for level in range(depth):
            k = side[level]
            for v in range(LANES):
                node[v] = 2 * node[v] + (panel[k, v] >= cut[node[v]])
        for v in range(n):
            leaf[first + v] = node[v] - (1 << depth) if zero[v] == 0.0 else -1


@kernel(fastmath=False)
def _sort(leaf, starts, order):  # type: ignore[no-untyped-def]
    """order = places of leaf (n,) by value, without those below 0; starts (values + 1,) is scratch. Returns how many."""
    starts[:] = 0
    for i in range(leaf.shape[0]):
        starts[leaf[i] + 1] += 1
    total = -starts[0]
    for cell in range(starts.shape[0]):
        total, starts[cell] = total + starts[cell], total
    for i in range(leaf.shape[0]):
        if leaf[i] >= 0:
            order[starts[leaf[i] + 1]] = i
            starts[leaf[i] + 1] += 1
    return total


@kernel(fastmath=False)
def load_panel(rows, index, panel):  # type: ignore[no-untyped-def]
    """panel (8 or dim, 64) = the rows (n, dim) that index (64,) names, side by side; NaN where it says -1."""
    n, dim = rows.shape
    safe = True
    for v in range(LANES):
        # The last row of few columns has nothing behind it that could be read along.
        safe &= (index[v] >= 0) & ((dim >= TURNED) | (index[v] * dim + TURNED <= n * dim))
    if not safe:
        for v in range(LANES):
            for k in range(dim):
                panel[k, v] = rows[index[v], k] if index[v] >= 0 else np.nan
        return
    for lane in range(0, LANES, TURNED):
        for k in range(0, dim, TURNED):
            # The last columns are done with some of those before them, a second time.
            turn(rows, index, lane, max(0, min(k, dim - TURNED)), panel)


@kernel(fastmath=False)
def _gather(rows, order, begin, end, panels, middles, boxes, lower, upper):  # type: ignore[no-untyped-def]
    """Tiles begin..end of 64 panels: their middles (q, dim), panels (p, dim, 64) = rows (n, dim) in order (p, 64) less them.

    boxes (q, 2, dim, 64) are those of the rows, lower and upper (q, dim, 64) the same less the middles.
    """
    dim = rows.shape[1]
    panel = np.empty((max(dim, TURNED), LANES))
    sides = np.empty(2)
    for q in range(begin, end):
        first, last = q * LANES, min((q + 1) * LANES, order.shape[0])
        # Any place among the rows will do for a middle; that of a few keeps differences small, and sums of it do not overflow.
        middles[q, :] = 0.0
        drawn = 0
        for p in range(first, last):
            drawn += order[p, 0] >= 0
        for p in range(first, first + drawn):
            for k in range(dim):
                middles[q, k] += rows[order[p, 0], k] / drawn
        for p in range(first, last):
            if p + 1 < order.shape[0]:
                for v in range(LANES):
                    fetch(rows, max(0, order[p + 1, v]))
            load_panel(rows, order[p], panel)
            for k in range(dim):
                middle = middles[q, k]
                for v in range(LANES):
                    panels[p, k, v] = panel[k, v] - middle
                extent(panel, k, sides)
                for e in range(2):
                    boxes[q, e, k, p - first] = sides[e]
                lower[q, k, p - first] = sides[0] - middle
                upper[q, k, p - first] = sides[1] - middle


def _aligned(count: int, dim: int) -> npt.NDArray[np.float32]:
    """A new (count, dim, 64) array whose vectors do not straddle cache lines, which would cost each load twice."""
    size = count * dim * LANES
    room = np.empty(size + LANES, dtype=np.float32)
    start = -room.ctypes.data % 64 // room.itemsize
    return room[start : start + size].reshape(count, dim, LANES)


class Sorter:
    """Tiles of one range of rows after another, in rough cells of a tree over a sample, in a few passes over the range.

    run(work, count, cost) calls work(begin, end) for ranges that cover 0..count, where each number is worth `cost`.
    """

    def __init__(self, rows: npt.NDArray[Any], most: int, run: Run) -> None:
        n, dim = rows.shape
        self._rows, self._run = rows, run
        sample = np.asarray(rows[:: max(1, n // _SAMPLE)], dtype=np.float64)
        sample = sample[np.isfinite(sample).all(axis=1)]
        depth = max(0, min(most // 32, sample.shape[0]).bit_length() - 1)
        self._side, self._cut = np.zeros(depth, dtype=np.int64), np.zeros(1 << depth)
        _plant(np.ascontiguousarray(sample.T), np.arange(sample.shape[0]), self._side, self._cut)
        count = -(-most // LANES)
        outer = -(-count // LANES)
        # Made once: fresh pages for each range would cost as much as the sorting.
        self._leaf = np.empty(most, dtype=np.int32)
        self._starts = np.empty((1 << depth) + 1, dtype=np.int64)
        self._order = np.empty((count, LANES), dtype=np.int64)
        self._panels = _aligned(count, dim)
        self._middles, self._boxes = np.empty((outer, dim)), np.empty((outer, 2, dim, LANES))
        self._lower, self._upper = _aligned(outer, dim), _aligned(outer, dim)

    def tiles(self, begin: int, end: int) -> Tiles:
        """Tiles of rows begin..end, those that are not finite left out; they live until the next call."""
        rows, leaf = self._rows[begin:end], self._leaf[: end - begin]
        self._run(lambda a, b: _route(rows, self._side, self._cut, a, b, leaf), rows.shape[0], 3 * rows.shape[1])
        count = -(-rows.shape[0] // LANES)
        order = self._order[:count]
        kept = _sort(leaf, self._starts, order.reshape(-1))
        order.reshape(-1)[kept:] = -1
        outer = -(-count // LANES)
        panels, middles, boxes = self._panels[:count], self._middles[:outer], self._boxes[:outer]
        lower, upper = self._lower[:outer], self._upper[:outer]
        for sides in (boxes, lower, upper):
            sides[-1] = np.nan
        self._run(
            lambda a, b: _gather(rows, order, a, b, panels, middles, boxes, lower, upper),
            outer,
            4 * rows.shape[1] * LANES * LANES,
        )
        sizes = np.clip(kept - LANES * np.arange(outer * LANES), 0, LANES)
        return Tiles(panels, middles, order, boxes, lower, upper, sizes)


def make_blocks(points: npt.NDArray[Any]) -> Blocks:
    """Blocks of finite rows points (m, dim), float32 or float64, m and dim at least 1."""
    m, dim = points.shape
    columns = np.ascontiguousarray(points.T, dtype=np.float64)
    count = -(-m // LANES)
    outer = -(-count // LANES)
    order = np.full(count * LANES, -1, dtype=np.int64)
    order[:m] = np.arange(m)
    _split(columns, order, 0, m)
    order = order.reshape(count, LANES)
    panels = np.full((count, dim, LANES), np.nan)
    lower, upper = np.full((outer, dim, LANES), np.nan), np.full((outer, dim, LANES), np.nan)
    _fill(columns, order, panels, lower, upper)
    sizes = np.zeros(outer * LANES, dtype=np.int64)
    sizes[:count] = (order >= 0).sum(axis=1)
    return Blocks(panels, order, lower, upper, sizes)


@kernel(fastmath=False)
def box_tile(lower, upper, row, near, far):  # type: ignore[no-untyped-def]
    """near, far (64,): least and largest squared distance that row (dim,) can have from rows in boxes (dim, 64).

    Rounding is monotone, and the order of the sum is that of `add_columns`: the bounds hold for computed distances as they are.
    """
    for v in range(LANES):
        near[v] = 0.0
        far[v] = 0.0
    for k in range(row.shape[0]):
        x = row[k]
        for v in range(LANES):
            below = lower[k, v] - x
            above = x - upper[k, v]
            gap = below if below > above else above
            gap = gap if gap > 0.0 else 0.0
            near[v] += gap * gap
            below *= below
            above *= above
            far[v] += below if below > above else above
