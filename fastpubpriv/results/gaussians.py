"""Formulas of Gaussians that results and plots share."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from fastpubpriv._types import FloatArray


def correlation_of(covariance: FloatArray) -> FloatArray:
    """Correlation matrix of a covariance; a column with no variance is uncorrelated with the others."""
    scale = np.sqrt(np.diag(covariance))
    scale[scale == 0.0] = 1.0
    matrix: FloatArray = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def factor_of(covariance: FloatArray) -> FloatArray:
    """Lower factor of a covariance, computed from the correlation, so that columns in very different units do not look singular."""
    scale = np.sqrt(np.diag(covariance))
    return scale[:, None] * np.linalg.cholesky(covariance / np.outer(scale, scale))


def log_density(rows: FloatArray, mean: FloatArray, factor: FloatArray) -> tuple[FloatArray, float]:
    """Half the squared distances of rows (n, dim) in standard deviations, and the constant: both are subtracted from 0."""
    white = solve_triangular(factor, (rows - mean).T, lower=True)
    constant = len(mean) * math.log(2.0 * math.pi) / 2.0 + float(np.log(np.diag(factor)).sum())
    return np.einsum("ij,ij->j", white, white) / 2.0, constant


def circle(level: float) -> FloatArray:
    """Points (181, 2) of the circle that holds a share `level` of the standard Gaussian of two columns."""
    angle = np.linspace(0.0, 2.0 * math.pi, 181)
    return math.sqrt(-2.0 * math.log1p(-level)) * np.column_stack([np.cos(angle), np.sin(angle)])


def ellipse(mean: FloatArray, covariance: FloatArray, level: float) -> FloatArray:
    """Points (181, 2) of the ellipse that holds a share `level` of a Gaussian of two columns."""
    return mean + circle(level) @ np.linalg.cholesky(covariance).T


def clipped(points: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """A convex outline (n, 2) cut to the box from `low` to `high`, (2,) each and perhaps infinite: (m, 2), closed, or empty."""
    for axis in (0, 1):
        for sign, end in ((1.0, high[axis]), (-1.0, -low[axis])):
            if math.isfinite(end) and len(points):
                points = _cut(points, sign * points[:, axis] - end)
    inside: FloatArray = np.clip(np.vstack([points, points[:1]]), low, high)  # a crossing is off by rounding
    return inside


def _cut(points: FloatArray, outside: FloatArray) -> FloatArray:
    """The part of an outline on one side of a line, with the two points on the line; `outside` is above 0 on the other side."""
    kept = []
    for i in range(len(points)):
        before, here = outside[i - 1], outside[i]
        if (before > 0.0) != (here > 0.0):
            kept.append(points[i] + (points[i - 1] - points[i]) * (here / (here - before)))
        if here <= 0.0:
            kept.append(points[i])
    return np.array(kept).reshape(-1, 2)
