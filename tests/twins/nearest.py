"""The most isolated point, in readable NumPy: the same bits as `kernels.nearest`, because each sum has the same order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray


def squared_distances(points: npt.NDArray[Any], center: npt.NDArray[Any]) -> FloatArray:
    """(n,) float64: squared distance of each row of points (n, dim) from center (dim,), added up column by column.

    This order, in double precision and without fused multiply-adds, is what every decision on membership rests on.
    """
    total = np.zeros(points.shape[0])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for column in range(points.shape[1]):
            difference = points[:, column].astype(np.float64) - np.float64(center[column])
            total += difference * difference
    return total


def most_isolated(points: npt.NDArray[Any]) -> tuple[int, float]:
    """Row of points (m, dim) that is farthest from its nearest other row, lowest index on ties, and that squared distance."""
    best, farthest = 0, -1.0
    for index in range(points.shape[0]):
        distances = squared_distances(points, points[index])
        distances[index] = math.inf  # another row with the same content is a neighbour, the row itself is none
        nearest = float(distances.min())
        if nearest > farthest:
            best, farthest = index, nearest
    return best, farthest
