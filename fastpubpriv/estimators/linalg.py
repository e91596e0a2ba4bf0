"""Symmetric matrices that have been released, and the public map to coordinates of covariance at most the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError, KernelError

_HUGE = 1e150


def symmetric(matrix: FloatArray) -> FloatArray:
    """Average a matrix with its transpose: rounding leaves products of symmetric matrices a bit lopsided."""
    total: FloatArray = matrix + matrix.T
    total /= 2.0
    return total


def spectrum(matrix: FloatArray, *, overwrite: bool = False) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, ascending, and eigenvectors of a released matrix, of which one triangle is read.

    SciPy's routine takes two matrices less than NumPy's; with `overwrite` the matrix itself is its workspace.
    """
    if not np.isfinite(matrix).all():
        # Sums of huge released numbers; any finite matrix in their place is as good.
        matrix, overwrite = np.nan_to_num(matrix, nan=0.0, posinf=_HUGE, neginf=-_HUGE), True
    values, vectors = linalg.eigh(matrix.T, overwrite_a=overwrite, check_finite=False)
    return values, vectors


def rebuilt(vectors: FloatArray, values: FloatArray) -> FloatArray:
    """The symmetric matrix with these eigenvectors and eigenvalues."""
    return symmetric((vectors * values) @ vectors.T)


def floored(matrix: FloatArray, floor: float) -> FloatArray:
    """Raise the eigenvalues of a released symmetric matrix to at least `floor`."""
    values, vectors = spectrum(matrix)
    return rebuilt(vectors, np.maximum(values, floor))


def lower_root(vectors: FloatArray, roots: FloatArray) -> FloatArray:
    """The lower triangular L with L L^T = V diag(roots^2) V^T and a positive diagonal; `vectors` is its workspace.

    Any root whitens equally well; this one halves the work of a pass. By QR, which does not square the condition number, and from
    LAPACK, because scipy.linalg.qr takes two matrices more.
    """
    vectors *= roots
    upper = np.array(vectors.T, order="F")
    lwork, _ = linalg.lapack.dgeqrf_lwork(*upper.shape)
    upper, _, _, info = linalg.lapack.dgeqrf(upper, lwork=int(lwork), overwrite_a=True)
    if info != 0:
        raise KernelError("QR refused a released matrix")
    for column in range(len(upper)):  # where LAPACK keeps its reflections
        upper[column + 1 :, column] = 0.0
    upper *= np.where(np.diag(upper) < 0.0, -1.0, 1.0)[:, None]
    root: FloatArray = upper.T
    return root


def lower_powers(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower triangular root L of a released positive definite matrix, and its inverse."""
    values, vectors = spectrum(matrix)
    # An eigenvalue that rounding made zero or negative would poison the inverse; it is released, so a floor is free.
    values = np.maximum(values, np.finfo(np.float64).eps * max(float(values[-1]), np.finfo(np.float64).tiny))
    root = lower_root(vectors, np.sqrt(values))
    return root, divided(root, np.eye(len(root), order="F"))


def divided(root: FloatArray, right: FloatArray) -> FloatArray:
    """root^-1 right, for a lower triangular root; `right` may be its workspace.

    By the BLAS routine: LAPACK's wakes all threads even for three columns.
    """
    # A row-major root is the transpose of a column-major upper one: as it is, it would be copied.
    if root.flags.f_contiguous:
        solved: FloatArray = linalg.blas.dtrsm(1.0, root, right, lower=1, overwrite_b=1)
    else:
        solved = linalg.blas.dtrsm(1.0, root.T, right, lower=0, trans_a=1, overwrite_b=1)
    return solved


def lower_inverse(root: FloatArray) -> FloatArray:
    """Inverse of a lower triangular matrix, lower triangular, (dim, dim)."""
    return np.tril(linalg.solve_triangular(root, np.eye(len(root)), lower=True))


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
        return lower_inverse(self.factor) if self.factor.ndim == 2 else np.asarray(1.0 / self.factor)

    def to_data(self, coordinates: FloatArray) -> FloatArray:
        """Map coordinates y, (dim,) or columns (dim, k), to data units (without the center)."""
        if self.factor is None:
            return coordinates
        mapped: FloatArray = self.factor @ coordinates if self.factor.ndim == 2 else (self.factor * coordinates.T).T
        return mapped

    def row_std(self) -> FloatArray:
        """Standard deviation, in data units, of each column of factor z for z ~ N(0, I)."""
        if self.factor is None:
            return np.ones(self.dim)
        return np.asarray(np.linalg.norm(self.factor, axis=1) if self.factor.ndim == 2 else np.abs(self.factor))


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
