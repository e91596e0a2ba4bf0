"""Formulas of Gaussians that results and plots share, and the report of estimates and errors behind their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.results.base import Value
from fastpubpriv.results.fields import array, column, value_class
from fastpubpriv.results.public_draws import normal_quantile

# Quantities that intervals are available for.
KINDS = ("mean", "standard_deviation", "covariance", "correlation")


def ends_about(
    point: Any, center: Any, std: Any, below: Any, above: Any, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of normal intervals about `center`, with an allowance on each side, extended to contain `point`."""
    width = normal_quantile(0.5 + level / 2.0) * std
    lower = np.minimum(center - width - below, point)
    upper = np.maximum(center + width + above, point)
    return lower, upper


@value_class
class GaussianReport(Value):
    """Estimates of each mean, covariance and correlation from releases, before shrinkage, and their errors.

    Attributes
    ----------
    mean, covariance, correlation : (dim,) or (dim, dim) float64
        Estimates without shrinkage or public rows; they include half of the tail expected from the counts. Without a private
        covariance, covariances and correlations are those of the public rows, and means include what public rows lose by clipping.
    mean_std, covariance_std, correlation_std
        Their standard errors from noise and sampling; NaN where there is no interval.
    mean_below, mean_above, and likewise for covariance and correlation
        Largest decrease and increase by rows beyond the clip radius.
    """

    mean: FloatArray = array("dim", label="mean")
    mean_std: FloatArray = array("dim", sampling=True, missing=math.nan)
    mean_below: FloatArray = array("dim")
    mean_above: FloatArray = array("dim")
    covariance: FloatArray = array("dim", "dim")
    covariance_std: FloatArray = array("dim", "dim", sampling=True, missing=math.nan)
    covariance_below: FloatArray = array("dim", "dim")
    covariance_above: FloatArray = array("dim", "dim")
    correlation: FloatArray = array("dim", "dim")
    correlation_std: FloatArray = array("dim", "dim", sampling=True, missing=math.nan)
    correlation_below: FloatArray = array("dim", "dim")
    correlation_above: FloatArray = array("dim", "dim")

    _line_axes = ("dim",)

    def interval(self, kind: str, point: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return interval ends of this level, extended to contain the estimate `point`, which may be shrunk or pooled."""
        if kind == "standard_deviation":
            lower, upper = self.interval("covariance", np.diag(np.square(point)), level)
            return np.sqrt(np.maximum(np.diag(lower), 0.0)), np.sqrt(
                np.maximum(np.diag(upper), 0.0)
            )
        value, std, below, above = (
            getattr(self, f"{kind}{part}") for part in ("", "_std", "_below", "_above")
        )
        lower, upper = ends_about(point, value, std, below, above, level)
        if kind == "correlation":
            lower = np.clip(lower, -1.0, 1.0)
            upper = np.clip(upper, -1.0, 1.0)
            for ends in (lower, upper):
                np.fill_diagonal(ends, 1.0)
        elif kind == "covariance":
            np.fill_diagonal(lower, np.maximum(np.diag(lower), 0.0))
        return lower, upper

    def __repr__(self) -> str:
        return f"GaussianReport(dim={len(self.mean)})"

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return "column", [str(place) for place in range(len(self.mean))]

    @property
    @column("standard_deviation")
    def _spread(self) -> FloatArray:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


def positive_definite(covariances: FloatArray) -> bool:
    """Return whether all covariances (k, dim, dim) are symmetric and positive definite."""
    diagonal = np.diagonal(covariances, axis1=1, axis2=2)
    try:
        with np.errstate(all="ignore"):
            scale = np.sqrt(diagonal)  # a product of two variances may overflow
            correlations = covariances / (scale[:, :, None] * scale[:, None, :])
            apart = np.abs(correlations - np.swapaxes(correlations, 1, 2)).max(initial=0.0)
            np.linalg.cholesky(correlations)
    except np.linalg.LinAlgError:
        return False
    return bool(np.all(diagonal > 0.0) and apart <= 1e-8)


def drawn_box(
    bounds: Any, diagnostics: Mapping[str, Any], dim: int
) -> tuple[FloatArray, FloatArray]:
    """Return the range that a plot shows, (dim,) each: `bounds`, by default those of the call; infinite without."""
    if bounds is None and "bounds" in diagnostics:
        low, high = diagnostics["bounds"]
        lowest = [-math.inf if end is None else end for end in low]
        highest = [math.inf if end is None else end for end in high]
        bounds = lowest, highest
    box = validation.column_bounds(bounds, dim, endless=True)
    if box is None:
        endless = np.full(dim, math.inf)
        return -endless, endless
    return box


def correlation_of(covariance: FloatArray) -> FloatArray:
    """Return the correlation matrix of a covariance; a column without variance is uncorrelated with the others."""
    scale = np.sqrt(np.diag(covariance))
    scale[scale == 0.0] = 1.0
    matrix: FloatArray = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def factor_of(covariance: FloatArray) -> FloatArray:
    """Return the lower Cholesky factor of a covariance, computed from the correlation to be stable under scaling of columns."""
    scale = np.sqrt(np.diag(covariance))
    return scale[:, None] * np.linalg.cholesky(covariance / np.outer(scale, scale))


def log_density(rows: FloatArray, mean: FloatArray, factor: FloatArray) -> tuple[FloatArray, float]:
    """Return half the squared Mahalanobis distances of rows (n, dim) and the log normalizer; log density = -half - constant."""
    white = solve_triangular(factor, (rows - mean).T, lower=True)
    constant = len(mean) * math.log(2.0 * math.pi) / 2.0 + float(np.log(np.diag(factor)).sum())
    return np.einsum("ij,ij->j", white, white) / 2.0, constant


def circle(level: float) -> FloatArray:
    """Return points (181, 2) of the circle with probability `level` under the standard bivariate Gaussian."""
    angle = np.linspace(0.0, 2.0 * math.pi, 181)
    return math.sqrt(-2.0 * math.log1p(-level)) * np.column_stack([np.cos(angle), np.sin(angle)])


def ellipse(mean: FloatArray, covariance: FloatArray, level: float) -> FloatArray:
    """Return points (181, 2) of the ellipse with probability `level` under a bivariate Gaussian."""
    return mean + circle(level) @ np.linalg.cholesky(covariance).T


def clipped(points: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return a convex outline (n, 2) clipped to the box [low, high], (2,) each and perhaps infinite: (m, 2), closed, or empty."""
    if not np.isfinite([low, high]).any():
        return points
    for axis, sign, end in (
        (0, 1.0, high[0]),
        (0, -1.0, -low[0]),
        (1, 1.0, high[1]),
        (1, -1.0, -low[1]),
    ):
        if not math.isfinite(end):
            continue
        outside = sign * points[:, axis] - end
        inside = []
        for i, here in enumerate(outside):
            before = outside[i - 1]
            if (before > 0.0) != (here > 0.0):
                inside.append(points[i] + (points[i - 1] - points[i]) * (here / (here - before)))
            if here <= 0.0:
                inside.append(points[i])
        points = np.array(inside).reshape(-1, 2)
    return np.clip(np.vstack([points, points[:1]]), low, high)  # crossings have rounding errors
