"""Rows of few columns in panels of 64 rows that are near to one another, each with its box; searches for balls skip panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib

LANES: int = lib.FPP_ROW_LANES
_SAMPLE = 1 << 14  # rows of the sample by which cells are cut if there are many rows
Run = Callable[[Callable[[int, int], object], int, int], None]


class Blocks(NamedTuple):
    """Panels of rows that are near to one another. Unused lanes and boxes are NaN, which is within no distance."""

    panels: FloatArray  # (p, dim, 64)
    order: IntArray  # (p, 64): which row is in a lane, -1 for none
    lower: FloatArray  # (q, dim, 64): least corner of the box of panel 64 a + b in [a, :, b]
    upper: FloatArray
    sizes: IntArray  # (64 q,): rows of a panel

    def table(self) -> Any:
        """The C side; it keeps the arrays alive."""
        pointers = (_cbuf.inp(array.reshape(-1)) for array in self)
        return _cbuf.new("fpp_blocks *", (self.panels.shape[0], self.panels.shape[1], *pointers))


class Tiles(NamedTuple):
    """Panels in single precision, 64 to a tile, less the middle of their tile. Unused lanes and boxes are NaN."""

    panels: npt.NDArray[np.float32]  # (p, dim, 64)
    middles: FloatArray  # (q, dim): a place among the rows of a tile
    order: IntArray  # (p, 64): which row is in a lane, -1 for none
    boxes: FloatArray  # (q, 2, dim, 64): least and greatest corners of the rows of each panel
    lower: npt.NDArray[np.float32]  # (q, dim, 64): the same less the middle
    upper: npt.NDArray[np.float32]
    sizes: IntArray  # (64 q,): rows of a panel

    def table(self) -> Any:
        """The C side; it keeps the arrays alive."""
        pointers = (_cbuf.inp(array.reshape(-1)) for array in self)
        return _cbuf.new("fpp_tiles *", (self.panels.shape[0], *pointers))


def workspace(dim: int, radii: int) -> Any:
    """Scratch of this thread for the kernels of balls."""
    return ffi.from_buffer(_cbuf.scratch(lib.fpp_ball_workspace_size(dim, radii), "balls"))


class Sorter:
    """Makes tiles of ranges of rows, one range after another, by the cells of a tree over a sample, in a few passes over a range.

    run(work, count, cost) calls work(begin, end) for ranges that cover 0..count, where each number is worth `cost`.
    """

    def __init__(self, rows: npt.NDArray[Any], most: int, run: Run) -> None:
        n, dim = rows.shape
        self._rows, self._run = rows, run
        sample = np.asarray(rows[:: max(1, n // _SAMPLE)], dtype=np.float64)
        sample = sample[np.isfinite(sample).all(axis=1)]
        depth = max(0, min(most // 32, sample.shape[0]).bit_length() - 1)
        self._side, self._cut = np.zeros(depth, dtype=np.int64), np.zeros(1 << depth)
        columns, held = np.ascontiguousarray(sample.T), np.empty(sample.shape[0], dtype=np.int64)
        goal = (_cbuf.out(array) for array in (held, self._side, self._cut))
        _cbuf.check(lib.fpp_cells_plant(_cbuf.inp(columns.reshape(-1)), held.size, dim, depth, *goal))
        count = -(-most // LANES)
        outer = -(-count // LANES)
        # Made once: fresh pages for each range would cost as much as the sorting.
        self._leaf = np.empty(most, dtype=np.int32)
        self._starts = np.empty((1 << depth) + 1, dtype=np.int64)
        self._order = np.empty((count, LANES), dtype=np.int64)
        self._panels = _cbuf.aligned((count, dim, LANES), np.float32)
        self._middles, self._boxes = np.empty((outer, dim)), np.empty((outer, 2, dim, LANES))
        self._lower, self._upper = (_cbuf.aligned((outer, dim, LANES), np.float32) for _ in range(2))

    def tiles(self, begin: int, end: int) -> Tiles:
        """Tiles of rows begin..end, those that are not finite left out; they live until the next call."""
        rows, leaf = self._rows[begin:end], self._leaf[: end - begin]

        def route(first: int, last: int) -> None:
            tree = _cbuf.inp(self._side), self._side.size, _cbuf.inp(self._cut)
            part, work = _cbuf.plain_rows(rows[first:last]), workspace(rows.shape[1], 0)
            _cbuf.check(lib.fpp_cells_route(*part, *tree, work, _cbuf.out(leaf[first:last])))

        self._run(route, rows.shape[0], 3 * rows.shape[1])
        count = -(-rows.shape[0] // LANES)
        order = self._order[:count]
        found, goal = ffi.new("int64_t *"), (_cbuf.out(self._starts), _cbuf.out(order.reshape(-1)))
        _cbuf.check(lib.fpp_cells_sort(_cbuf.inp(leaf), leaf.size, self._cut.size, *goal, found))
        kept = found[0]
        order.reshape(-1)[kept:] = -1
        outer = -(-count // LANES)
        panels, middles, boxes = self._panels[:count], self._middles[:outer], self._boxes[:outer]
        lower, upper = self._lower[:outer], self._upper[:outer]
        for sides in (boxes, lower, upper):
            sides[-1] = np.nan
        sizes = np.clip(kept - LANES * np.arange(outer * LANES), 0, LANES)
        tiles = Tiles(panels, middles, order, boxes, lower, upper, sizes)
        table = tiles.table()

        def gather(first: int, last: int) -> None:
            _cbuf.check(lib.fpp_tiles_gather(*_cbuf.plain_rows(rows), table, first, last, workspace(rows.shape[1], 0)))

        self._run(gather, outer, 4 * rows.shape[1] * LANES * LANES)
        return tiles


def make_blocks(points: npt.NDArray[Any]) -> Blocks:
    """Blocks of finite rows points (m, dim), float32 or float64, m and dim at least 1."""
    m, dim = points.shape
    columns = np.ascontiguousarray(points.T, dtype=np.float64)
    count = -(-m // LANES)
    outer = -(-count // LANES)
    order, panels = np.empty((count, LANES), dtype=np.int64), np.empty((count, dim, LANES))
    lower, upper = np.full((outer, dim, LANES), np.nan), np.full((outer, dim, LANES), np.nan)
    goal = (_cbuf.out(array.reshape(-1)) for array in (order, panels, lower, upper))
    _cbuf.check(lib.fpp_blocks_make(_cbuf.inp(columns.reshape(-1)), m, dim, *goal))
    sizes = np.zeros(outer * LANES, dtype=np.int64)
    sizes[:count] = (order >= 0).sum(axis=1)
    return Blocks(panels, order, lower, upper, sizes)
