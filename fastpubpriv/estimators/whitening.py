"""The public linear map between data units and coordinates in which a row has covariance at most the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """x = center + factor y. `factor` is None (identity), a vector (diagonal) or a lower triangular matrix."""

    dim: int
    factor: FloatArray | None = None

    @property
    def inverse(self) -> FloatArray | None:
        """The map from x - center to y, of the same form as `factor`."""
        if self.factor is None:
            return None
        if self.factor.ndim == 1:
            reciprocal: FloatArray = 1.0 / self.factor
            return reciprocal
        inverse: FloatArray = np.tril(solve_triangular(self.factor, np.eye(self.dim), lower=True))
        return inverse

    def to_data(self, coordinates: FloatArray) -> FloatArray:
        """Map a vector of coordinates y to data units (without the centre)."""
        if self.factor is None:
            return coordinates
        mapped: FloatArray = self.factor * coordinates if self.factor.ndim == 1 else self.factor @ coordinates
        return mapped

    def row_std(self) -> FloatArray:
        """Standard deviation, in data units, of each column of factor z for z ~ N(0, I)."""
        if self.factor is None:
            return np.ones(self.dim)
        if self.factor.ndim == 1:
            return np.abs(self.factor)
        lengths: FloatArray = np.sqrt(np.einsum("ij,ij->i", self.factor, self.factor))
        return lengths


def known_root(covariance: Any, variance: Any, dim: int) -> FloatArray | None:
    """Root of what the caller knows: None, standard deviations (dim,), or the lower Cholesky factor of a matrix."""
    if covariance is not None and variance is not None:
        raise InputError("pass variance (a number, or one for each column) or covariance (a matrix), not both")
    if covariance is not None:
        if _axes(covariance) != 2:
            raise InputError(
                f"covariance must be a ({dim}, {dim}) matrix; a number, or one for each column, is variance="
            )
        return validation.symmetric_positive_definite("covariance", covariance, dim)
    if variance is None:
        return None
    axes = _axes(variance)
    if axes == 0:
        return np.full(dim, np.sqrt(validation.positive("variance", variance)))
    if axes > 1:
        raise InputError("variance must be a number, or one for each column; a matrix is covariance=")
    variances = validation.finite_vector("variance", variance, dim)
    if not np.all(variances > 0.0):
        raise InputError("every variance must be > 0; drop constant columns or give them a small variance")
    return np.sqrt(variances)


def _axes(value: Any) -> int:
    """Number of axes of an array-like, without making an array of it."""
    if isinstance(value, list | tuple):
        return 2 if any(isinstance(item, list | tuple | np.ndarray) for item in value) else 1
    return int(getattr(value, "ndim", 0))
