"""Linear algebra of released symmetric matrices, and the public map to whitened coordinates."""

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
    """Return the average of a matrix and its transpose, which removes asymmetry by rounding."""
    total: FloatArray = matrix + matrix.T
    total /= 2.0
    return total


def spectrum(matrix: FloatArray, *, overwrite: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the ascending eigenvalues and the eigenvectors of a released symmetric matrix, of which one triangle is read.

    SciPy's routine allocates two matrices fewer than NumPy's; with `overwrite` the matrix itself is the workspace.
    """
    if not np.isfinite(matrix).all():
        # Sums of huge released numbers overflowed; any finite matrix can replace them.
        matrix = np.nan_to_num(matrix, nan=0.0, posinf=_HUGE, neginf=-_HUGE)
        overwrite = True
    values, vectors = linalg.eigh(matrix.T, overwrite_a=overwrite, check_finite=False)
    return values, vectors


def bessel(n: FloatArray | float) -> FloatArray:
    """Return n / (n - 1), by which mean squares about an estimated mean become unbiased variances; 2 for less than two rows."""
    rows = np.maximum(n, 2.0)
    return np.asarray(rows / (rows - 1.0))


def rebuilt(vectors: FloatArray, values: FloatArray) -> FloatArray:
    """Return the symmetric matrix with these eigenvectors and eigenvalues."""
    return symmetric((vectors * values) @ vectors.T)


def floored(matrix: FloatArray, floor: float) -> FloatArray:
    """Raise the eigenvalues of a released symmetric matrix to at least `floor`."""
    values, vectors = spectrum(matrix)
    return rebuilt(vectors, np.maximum(values, floor))


def lower_root(vectors: FloatArray, roots: FloatArray) -> FloatArray:
    """Return the lower triangular L with L L^T = V diag(roots^2) V^T and a positive diagonal; `vectors` is overwritten.

    Any root whitens equally well; a triangular one halves the work of a pass. QR does not square the condition number, and
    scipy.linalg.qr would allocate two matrices more than LAPACK's routine.
    """
    vectors *= roots
    upper = np.array(vectors.T, order="F")
    lwork, _ = linalg.lapack.dgeqrf_lwork(*upper.shape)
    upper, _, _, info = linalg.lapack.dgeqrf(upper, lwork=int(lwork), overwrite_a=True)
    if info != 0:
        raise KernelError("QR refused a released matrix")
    for column in range(len(upper)):  # LAPACK stores its reflectors below the diagonal
        upper[column + 1 :, column] = 0.0
    upper *= np.where(np.diag(upper) < 0.0, -1.0, 1.0)[:, None]
    return np.asarray(upper.T)


def lower_powers(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lower triangular root L of a released positive definite matrix, and its inverse."""
    values, vectors = spectrum(matrix)
    # Rounding may leave an eigenvalue at or below zero; the matrix is released, so a floor is post-processing.
    values = np.maximum(
        values, np.finfo(np.float64).eps * max(float(values[-1]), np.finfo(np.float64).tiny)
    )
    root = lower_root(vectors, np.sqrt(values))
    return root, divided(root, np.eye(len(root), order="F"))


def divided(root: FloatArray, right: FloatArray) -> FloatArray:
    """Return root^-1 right for a lower triangular root; `right` may be overwritten.

    BLAS is called directly because LAPACK's routine starts all threads even for three columns.
    """
    # A row-major root is passed as the transpose of a column-major upper one; otherwise it would be copied.
    if root.flags.f_contiguous:
        solved: FloatArray = linalg.blas.dtrsm(1.0, root, right, lower=1, overwrite_b=1)
    else:
        solved = linalg.blas.dtrsm(1.0, root.T, right, lower=0, trans_a=1, overwrite_b=1)
    return solved


def lower_inverse(root: FloatArray) -> FloatArray:
    """Return the inverse of a lower triangular matrix, lower triangular, (dim, dim)."""
    return np.tril(linalg.solve_triangular(root, np.eye(len(root)), lower=True))


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """The map x = center + factor y; `factor` is None (identity), a vector (diagonal) or a lower triangular matrix."""

    dim: int
    factor: FloatArray | None = None

    @property
    def inverse(self) -> FloatArray | None:
        """The map from x - center to y, of the same form as `factor`."""
        if self.factor is None:
            return None
        return (
            lower_inverse(self.factor) if self.factor.ndim == 2 else np.asarray(1.0 / self.factor)
        )

    def to_data(self, coordinates: FloatArray) -> FloatArray:
        """Map coordinates y, (dim,) or columns (dim, k), to data units (without the center)."""
        if self.factor is None:
            return coordinates
        return (
            self.factor @ coordinates if self.factor.ndim == 2 else (self.factor * coordinates.T).T
        )

    def row_std(self) -> FloatArray:
        """Return the standard deviation, in data units, of each column of factor z for z ~ N(0, I)."""
        if self.factor is None:
            return np.ones(self.dim)
        return np.asarray(
            np.linalg.norm(self.factor, axis=1) if self.factor.ndim == 2 else np.abs(self.factor)
        )


def known_root(covariance: Any, variance: Any, dim: int) -> FloatArray | None:
    """Return the root of a known covariance: None, standard deviations (dim,), or the lower Cholesky factor of a matrix."""
    if covariance is not None and variance is not None:
        raise InputError(
            "pass variance (a number, or one for each column) or covariance (a matrix), not both"
        )
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
        raise InputError(
            "variance must be a number, or one for each column; a matrix is covariance="
        )
    variances = validation.finite_vector("variance", variance, dim)
    if not np.all(variances > 0.0):
        raise InputError(
            "every variance must be > 0; drop constant columns or give them a small variance"
        )
    return np.sqrt(variances)


def _axes(value: Any) -> int:
    """Return the number of axes of an array-like, without converting it."""
    if isinstance(value, list | tuple):
        return 2 if any(isinstance(item, list | tuple | np.ndarray) for item in value) else 1
    return int(getattr(value, "ndim", 0))
