"""Counts in balls and the public searches for a ball, in readable NumPy: the same integers and bits as `kernels.balls`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from twins.nearest import squared_distances

OUTER = 11.0  # Q_pub wants nothing between r and 11 r


def ball_counts(points: npt.NDArray[Any], centers: npt.NDArray[Any], radii_sq: FloatArray) -> IntArray:
    """(k, radii) int64: rows of points (n, dim) within each squared radius of each of centers (k, dim), ties inside."""
    counts = np.empty((centers.shape[0], radii_sq.size), dtype=np.int64)
    for index, center in enumerate(centers):
        counts[index] = (squared_distances(points, center)[:, None] <= radii_sq).sum(axis=0)
    return counts


def first_terrific(points: npt.NDArray[Any], radius_max: float, n_radii: int, min_count: int) -> tuple[int, int] | None:
    """First (i, j) such that the ball of radius r = radius_max / 2**i around row j of points (m, dim) passes Q_pub, or None.

    Q_pub: at least min_count rows within r, none between r and 11 r, at least min_count beyond 11 r.
    """
    m = points.shape[0]
    for i in range(n_radii):  # largest radius first
        radius = float(np.ldexp(radius_max, -i))
        thresholds = np.array([radius * radius, (OUTER * radius) * (OUTER * radius)])
        for j in range(m):
            inner, outer = ball_counts(points, points[j : j + 1], thresholds)[0]
            if inner >= min_count and outer == inner and m - outer >= min_count:
                return i, j
    return None


def widest_gap(points: npt.NDArray[Any], min_count: int) -> tuple[int, int, float, float] | None:
    """(j, p, inner_sq, outer_sq): the rank p of the sorted distances from row j of points (m, dim) with the widest gap behind.

    Maximises outer_sq / inner_sq over p = min_count .. m - min_count, where row j itself has rank 1; the lowest j, then the
    lowest p on ties. None if there is no such rank, or no gap at all.
    """
    best, widest = None, 1.0
    for j in range(points.shape[0]):
        distances = np.sort(squared_distances(points, points[j]))
        for p in range(min_count, points.shape[0] - min_count + 1):
            inner, outer = float(distances[p - 1]), float(distances[p])
            with np.errstate(all="ignore"):
                ratio = np.float64(outer) / np.float64(inner)
            if ratio > widest:  # false for 0 / 0
                best, widest = (j, p, inner, outer), ratio
    return best
