"""Gradients of labelled rows, each clipped as a whole, as exact integers: loops that Numba compiles around the residual of a loss.

One thread, no GIL. The gradient of a row is its residual times the row, so that its norm is a product and it is never written down.
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
from fastpubpriv.kernels._tiles import LANES, MOST_LOOPS, ROUNDER, add_rounded, guarded, turn_rows
from fastpubpriv.residual_maps import GradientMap


def gradient_sum(chunk: npt.NDArray[Any], gradient_map: GradientMap, sums: IntArray) -> None:
    """sums (dim,) or (outputs, dim) += integer gradients of the labelled rows chunk (n, dim + 1), the label last."""
    m = gradient_map
    if chunk.dtype not in (np.float32, np.float64) or chunk.ndim != 2 or chunk.shape[1] != m.dim + 1:
        raise KernelError(f"labelled rows must be float32 or float64 of shape (n, {m.dim + 1})")
    wanted = m.weights.shape
    if sums.dtype != np.int64 or sums.shape != wanted or not sums.flags.c_contiguous or not sums.flags.writeable:
        raise KernelError(f"sums must be a contiguous int64 array of shape {wanted}")
    rows = np.ascontiguousarray(chunk).view()
    rows.flags.writeable = False
    make = _scalar_loop if m.weights.ndim == 1 else _vector_loop
    make(m.residual)(rows, m.weights, (m.clip_norm, m.inv_step, float(m.quant_bound)), sums)


def _guarded_vector(residual: Any) -> Any:
    """As `guarded`, for a residual with an entry for each output."""

    def fill(scores, label, found):  # type: ignore[no-untyped-def]
        try:
            residual(scores, label, found)
        except Exception:
            found[0] = math.nan

    return fill


@functools.lru_cache(maxsize=MOST_LOOPS)
def _scalar_loop(residual: Callable[..., Any]) -> Any:
    """The loop around a residual of one prediction, compiled."""
    safe, lanes, turn, add = guarded(residual), LANES, turn_rows(), add_rounded()

    def loop(rows, weights, numbers, sums):  # type: ignore[no-untyped-def]
        clip, inv_step, bound = numbers
        n, dim = rows.shape[0], weights.size
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
                    prediction[lane] += weights[j] * entry
                    norm_sq[lane] += entry * entry
            for lane in range(used):
                label = np.float64(rows[first + lane, dim])
                found = np.float64(safe(prediction[lane], label))
                if math.isfinite(found) and math.isfinite(label):
                    longest = clip / math.sqrt(norm_sq[lane])
                    steps = min(max(found, -longest), longest) * inv_step
                    if math.isfinite(steps):
                        factor[lane] = steps
            add(tile, factor, largest, total, bound, sums)

    return compiled(loop)


@functools.lru_cache(maxsize=MOST_LOOPS)
def _vector_loop(residual: Callable[..., Any]) -> Any:
    """The loop around a residual with an entry for each output, compiled."""
    fill, rounder = compiled(_guarded_vector(compiled(residual))), ROUNDER

    def loop(rows, weights, numbers, sums):  # type: ignore[no-untyped-def]
        clip, inv_step, bound = numbers
        outputs, dim = weights.shape
        scores, found, row = np.zeros(outputs), np.zeros(outputs), np.zeros(dim)
        for i in range(rows.shape[0]):
            norm_sq, length_sq = 0.0, 0.0
            for j in range(dim):
                row[j] = rows[i, j]
                norm_sq += row[j] * row[j]
            for k in range(outputs):
                scores[k], found[k] = 0.0, 0.0
                for j in range(dim):
                    scores[k] += weights[k, j] * row[j]
            fill(scores, np.float64(rows[i, dim]), found)
            for k in range(outputs):
                length_sq += found[k] * found[k]
            length, longest = math.sqrt(length_sq), clip / math.sqrt(norm_sq)
            shortened = (longest / length if length > longest else 1.0) * inv_step
            largest, total = 0.0 if math.isfinite(rows[i, dim]) else math.inf, 0.0
            for k in range(outputs):
                found[k] = found[k] * shortened
                if not math.isfinite(found[k]):
                    largest = math.inf
                for j in range(dim):
                    step = (found[k] * row[j] + rounder) - rounder
                    largest = max(largest, abs(step)) if step == step else math.inf
                    total += step * step
            if largest <= bound and total <= bound * bound:
                for k in range(outputs):
                    for j in range(dim):
                        sums[k, j] += np.int64((found[k] * row[j] + rounder) - rounder)

    return compiled(loop)
