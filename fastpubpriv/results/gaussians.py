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
    """Lower factor of a covariance. Through the correlation, so that columns in very different units do not look singular."""
    scale = np.sqrt(np.diag(covariance))
    factor: FloatArray = scale[:, None] * np.linalg.cholesky(covariance / np.outer(scale, scale))
    return factor


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
    points: FloatArray = mean + circle(level) @ np.linalg.cholesky(covariance).T
    return points
