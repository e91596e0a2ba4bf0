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


def known_covariance(covariance: Any, dim: int) -> Whitening:
    """Whitening for a covariance that the caller knows: None (identity), variance, vector of variances, or matrix."""
    if covariance is None:
        return Whitening(dim)
    nested = isinstance(covariance, list | tuple) and any(
        isinstance(item, list | tuple | np.ndarray) for item in covariance
    )
    axes = 2 if nested else 1 if isinstance(covariance, list | tuple) else getattr(covariance, "ndim", 0)
    if axes == 0:
        return Whitening(dim, np.full(dim, np.sqrt(validation.positive("covariance", covariance))))
    if axes == 1:
        variances = validation.finite_vector("covariance", covariance, dim)
        if not np.all(variances > 0.0):
            raise InputError(
                "covariance: every variance must be > 0; drop constant columns or give them a small variance"
            )
        return Whitening(dim, np.sqrt(variances))
    return Whitening(dim, validation.symmetric_positive_definite("covariance", covariance, dim))
