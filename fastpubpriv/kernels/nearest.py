"""The most isolated of the public points: the largest distance to a nearest neighbour, exact."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.errors import InputError
from fastpubpriv.kernels._jit import kernel
from fastpubpriv.kernels._parallel import count_threads, run_steps

_STEP_WORK = 2e7


@kernel(fastmath=False)
def _race(points, begin, end, best, farthest):  # type: ignore[no-untyped-def]
    """Nearest neighbours of rows begin..end of points (m, dim) until each is out of the race; the winner and its distance."""
    m, dim = points.shape
    for i in range(begin, end):
        nearest = np.inf
        for other in range(1, m):
            j = i + other if i + other < m else i + other - m
            total = 0.0
            for k in range(dim):
                difference = points[i, k] - points[j, k]
                total += difference * difference
            nearest = min(nearest, total)
            if nearest < farthest or (nearest == farthest and i > best):
                break
        if nearest > farthest or (nearest == farthest and i < best):
            best, farthest = i, nearest
    return best, farthest


def most_isolated(points: npt.NDArray[Any], *, threads: int | None = None) -> tuple[int, float]:
    """Row of points (m, dim) that is farthest from its nearest other row, lowest index on ties, and that squared distance."""
    if points.ndim != 2 or points.shape[0] < 1:
        raise InputError(f"points must be a matrix of at least one row, got shape {points.shape}")
    if not np.isfinite(points).all():
        raise InputError("points must be finite: leave out rows with a NaN or an infinity")
    m, dim = points.shape
    if m == 1:
        return 0, math.inf
    table = np.ascontiguousarray(points, dtype=np.float64)
    state = (m, -1.0)
    lock = threading.Lock()
    rows = max(1, int(_STEP_WORK / (m * dim)))

    def step(number: int) -> None:
        nonlocal state
        found = _race(table, number * rows, min(m, (number + 1) * rows), *state)
        with lock:
            if (found[1], -found[0]) > (state[1], -state[0]):
                state = found

    run_steps(step, -(-m // rows), count_threads(threads, m * dim * 100.0))
    return int(state[0]), float(state[1])
