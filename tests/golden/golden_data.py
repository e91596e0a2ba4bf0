"""Inputs of the cases. Made of sums and products of 53-bit uniforms alone, so that no processor or library makes them otherwise."""

from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import ZCDP, ApproxDP, PureDP

BUDGETS = {
    "zcdp": ZCDP(Fraction(1, 2)),
    "approx": ApproxDP(1, Fraction(1, 10**6)),
    "pure": PureDP(1),
}
APPROX = BUDGETS["approx"]


def normal(seed: int, n: int, dim: int) -> np.ndarray:
    """Rows of independent entries close to N(0, 1): twelve uniforms added up."""
    rng = np.random.default_rng(seed)
    total = np.zeros((n, dim))
    for _ in range(12):
        total += rng.random((n, dim))
    return total - 6.0


def mixed(seed: int, n: int, dim: int) -> np.ndarray:
    """Correlated columns in different units, about a mean that is not zero."""
    rows = normal(seed, n, dim)
    for j in range(1, dim):
        rows[:, j] += 0.6 * rows[:, j - 1]
    return rows * (10.0 ** (np.arange(dim) - 1.0)) + 3.0 * np.arange(1.0, dim + 1.0)


def blobs(seed: int, n: int, centers: Any, spread: Any = 1.0) -> np.ndarray:
    """Rows about the centers in turn."""
    points = np.asarray(centers, dtype=np.float64)
    which = np.arange(n) % len(points)
    spreads = np.broadcast_to(np.asarray(spread, dtype=np.float64), (len(points),))
    return points[which] + normal(seed, n, points.shape[1]) * spreads[which][:, None]


def hostile(rows: np.ndarray) -> np.ndarray:
    """The same with a missing row, an infinite entry and one that overflows."""
    changed = rows.copy()
    changed[7] = np.nan
    changed[8, 0] = np.inf
    changed[9] = 1e300
    return changed


ROWS = hostile(mixed(1, 1200, 3))
PUBLIC = mixed(2, 6, 3)
MANY_PUBLIC = mixed(3, 40, 3)
CENTERS = np.array([[0.0, 0.0, 0.0], [40.0, 0.0, 10.0], [0.0, 60.0, 0.0]])
BLOBS = hostile(blobs(5, 6000, CENTERS))
BLOBS_PUBLIC = blobs(6, 36, CENTERS)
FAR_BLOBS = blobs(7, 3000, 100.0 * CENTERS)
FAR_PUBLIC = blobs(8, 36, 100.0 * CENTERS)
LINE = hostile(blobs(9, 4000, [[0.0], [1000.0]], [1.0, 30.0]))
LINE_PUBLIC = blobs(10, 30, [[0.0], [1000.0]], [1.0, 30.0])
PLANE = hostile(blobs(11, 4000, [[0.0, 5.0], [30.0, 5.0]], [1.0, 3.0]))
PLANE_PUBLIC = blobs(12, 30, [[0.0, 5.0], [30.0, 5.0]], [1.0, 3.0])
