"""Gradients of labelled rows as exact integers: a loop that Numba compiles around the residual of a loss (one thread, no GIL).

Numba, not C: the loop is made around a function of a caller. NumPy in blocks is no choice here: its matrix products add in an order
that depends on the rows beside a row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels._jit import compiled
from fastpubpriv.kernels._tiles import LANES, MOST_LOOPS, add_rounded, guarded, turn_rows
from fastpubpriv.residual_maps import ResidualMap

Residual = Callable[[float, float], float]


def residual_sum(chunk: npt.NDArray[Any], residual_map: ResidualMap, sums: IntArray) -> None:
    """sums (dim,) += integer gradients of the labelled rows chunk (n, dim + 1), the label last, or a weight after it."""
    m = residual_map
    width = m.dim + 1 + m.weighted
    if chunk.dtype not in (np.float32, np.float64) or chunk.ndim != 2 or chunk.shape[1] != width:
        raise KernelError(f"labelled rows must be float32 or float64 of shape (n, {width})")
    if sums.dtype != np.int64 or sums.shape != (m.dim,) or not sums.flags.c_contiguous or not sums.flags.writeable:
        raise KernelError(f"sums must be a contiguous int64 array of shape ({m.dim},)")
    rows = np.ascontiguousarray(chunk).view()
    rows.flags.writeable = False
    numbers = (1.0 / m.scale, m.clip, m.radius, m.inv_step, float(m.quant_bound))
    _loop(m.residual)(rows, m.slope, m.spread, numbers, sums)


@functools.lru_cache(maxsize=MOST_LOOPS)
def _loop(residual: Residual) -> Any:
    """The loop around a residual, compiled: (rows, slope, spread, numbers, sums) as below."""
    safe, lanes, turn, add = guarded(residual), LANES, turn_rows(), add_rounded()

    def loop(rows, slope, spread, numbers, sums):  # type: ignore[no-untyped-def]
        inv_scale, clip, radius, inv_step, bound = numbers
        n, dim = rows.shape[0], slope.size
        tile = np.zeros((dim, lanes))
        prediction, norm_sq, factor = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        largest, total = np.zeros(lanes), np.zeros(lanes)
        for first in range(0, n, lanes):
            used = min(lanes, n - first)
            turn(rows, first, used, tile)
            for lane in range(lanes):
                prediction[lane], norm_sq[lane], factor[lane] = 0.0, 0.0, 0.0
            for j in range(dim):
                for lane in range(lanes):
                    entry = tile[j, lane]
                    prediction[lane] += slope[j] * entry
                    weighted = spread[j] * entry
                    tile[j, lane] = weighted
                    norm_sq[lane] += weighted * weighted
            for lane in range(used):
                found = safe(prediction[lane], np.float64(rows[first + lane, dim])) * inv_scale
                if math.isfinite(found):
                    norm = math.sqrt(norm_sq[lane])
                    shortened = radius / norm if norm > radius else 1.0
                    steps = shortened * (min(max(found, -clip), clip) / clip) * inv_step
                    if rows.shape[1] > dim + 1:
                        weight = np.float64(rows[first + lane, dim + 1])
                        steps = steps * min(weight, 1.0) if weight > 0.0 else 0.0
                    if math.isfinite(steps):
                        factor[lane] = steps
            add(tile, factor, largest, total, bound, sums)

    return compiled(loop)
