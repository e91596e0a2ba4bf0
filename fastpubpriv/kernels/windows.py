"""Windows of neighbouring counts that stand out of their noise, and which of them are believed (C, one thread, no GIL)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib

ROOM = 2048  # windows of a column that a first call has room for


def find_windows(
    counts: Sequence[FloatArray], thresholds: FloatArray, anchor_least: float, outer_half: float
) -> tuple[IntArray, float, int]:
    """Windows (k, 4) of 1, 2, 4 ... cells that stand out by more than the thresholds (widths, cells + 1) at distance zero.

    Of each: whether it is below, its first cell, half its width, and how far it reaches. Then the deviations, at least
    `anchor_least`, and the last cell of the window that stands out most; -inf, -1 where none does. `counts` are those above the
    centre and below it, and the variances of both, (cells,) each; an outer half must exceed `outer_half` deviations of its own.
    """
    cells = counts[0].size
    if len(counts) != 4 or thresholds.ndim != 2:
        raise KernelError("windows need counts and variances of both sides, and a row of thresholds for each width")
    for each in counts:
        _cbuf.expect("counts", each, np.float64, (cells,))
    _cbuf.expect("thresholds", thresholds, np.float64, (len(thresholds), cells + 1))
    held = [_cbuf.inp(each) for each in counts]
    score, end = ffi.new("double *"), ffi.new("int64_t *")
    given = (
        _cbuf.new("double *[]", held),
        cells,
        _cbuf.inp(thresholds.reshape(-1)),
        len(thresholds),
        anchor_least,
        outer_half,
    )
    work = ffi.from_buffer("double[]", _cbuf.scratch(16 * cells, "sums of windows"))
    room = ROOM
    while True:
        windows = np.empty((room, 4), dtype=np.int64)
        found = lib.fpp_windows_find(*given, work, room, _cbuf.out(windows.reshape(-1)), score, end)
        if found < 0:
            raise KernelError("a kernel argument is out of range")
        if found <= room:
            return windows[:found], score[0], end[0]
        room = found


def windows_that_stand(
    windows: IntArray, cells: int, known: Sequence[int], passes: int
) -> tuple[BoolArray, tuple[int, int]]:
    """Which windows (k, 4) reach a cell that is known, or the last cell of a window that stood in an earlier pass: (k,).

    Then the outermost last cells above and below of those that stand, -1 for none.
    """
    _cbuf.expect("windows", windows, np.int64, (len(windows), 4))
    places, stood = np.array(known, dtype=np.int64), np.empty(len(windows), dtype=np.int64)
    work = ffi.from_buffer("uint64_t[]", _cbuf.scratch(16 * (cells + 63) // 64 + 16, "references"))
    ends = ffi.new("int64_t[2]")
    given = _cbuf.inp(windows.reshape(-1)), len(windows), cells, _cbuf.inp(places), len(places), passes
    _cbuf.check(lib.fpp_windows_stand(*given, work, _cbuf.out(stood), ends))
    return stood != 0, (ends[0], ends[1])
