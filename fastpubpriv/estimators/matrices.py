"""Symmetric matrices that have been released: spectra, roots, floors."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import KernelError

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

    Any square root whitens equally well, for clipping and noise do not change under rotations; this one halves the work of a pass.
    By QR, which does not square the condition number, and from LAPACK, because scipy.linalg.qr takes two matrices more.
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
