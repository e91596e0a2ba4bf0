"""Rows of few columns in panels of 64 neighbours, with the box of each: what the searches for balls skip and scan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastpubpriv.kernels._jit import kernel

LANES = 64


class Blocks(NamedTuple):
    """Panels of rows that are near to one another. Unused lanes and boxes are NaN, which is within no distance."""

    panels: npt.NDArray[np.float64]  # (p, dim, 64)
    order: npt.NDArray[np.int64]  # (p, 64): which row is in a lane, -1 for none
    lower: npt.NDArray[np.float64]  # (q, dim, 64): least corner of the box of panel 64 a + b in [a, :, b]
    upper: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]  # (64 q,): rows of a panel


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
def tile(panel, row, out):  # type: ignore[no-untyped-def]
    """out (64,) = squared distances of row (dim,) from panel (dim, 64), added up in the order of the columns."""
    for v in range(LANES):
        out[v] = 0.0
    for k in range(row.shape[0]):
        x = row[k]
        for v in range(LANES):
            difference = panel[k, v] - x
            out[v] += difference * difference


@kernel(fastmath=False)
def box_tile(lower, upper, row, near, far):  # type: ignore[no-untyped-def]
    """near, far (64,): least and largest squared distance that row (dim,) can have from rows in boxes (dim, 64).

    Rounding is monotone, and the order of the sum is that of `tile`: the bounds hold for computed distances as they are.
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
