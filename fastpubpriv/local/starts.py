"""Where local training starts and how far it may go, by public rows alone: their fit, its error, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.alone import public_gradients
from fastpubpriv.local.public_facts import row_norms
from fastpubpriv.losses import LOSSES, Loss, RowLoss

FOLDS = 10
# Chosen by `python -m benchmarks.local_starts`: within 3 % of the least excess overall, and ahead of a wider reach where reports
# are noisy. A clip at the median suits even noise and spoils classes and skewed labels; the longest gradient is last everywhere.
CLIP_QUANTILE = 0.75
REACH = 3.0
_MOST_PASSES = 200
_LARGEST = 1e30


@dataclass(frozen=True, slots=True, eq=False)
class PublicStart:
    """The minimum of the public loss, its root mean squared error, and gradient lengths of public rows at fits without them."""

    weights: FloatArray
    error: float
    lengths: FloatArray

    @property
    def radius(self) -> float:
        """Distance from the start within which the best weights are looked for."""
        return REACH * self.error

    @classmethod
    def of(cls, loss: RowLoss, x: FloatArray, y: FloatArray) -> PublicStart:
        """From public rows, more of them than columns when a tenth is left out.

        The error is that of the jackknife: of the fits without one tenth of the rows each, which the lengths come from as well.
        """
        n_pub, dim = x.shape
        folds = min(FOLDS, n_pub)
        fold = np.arange(n_pub) % folds
        if n_pub - np.count_nonzero(fold == 0) <= dim:
            raise InputError(
                f"start='public' needs more public rows than columns without a tenth of them, got {n_pub} rows in {dim} columns: "
                "pass numbers for start and radius"
            )
        fits = np.array([_minimum(loss, x[fold != k], y[fold != k]) for k in range(folds)])
        lengths = np.concatenate([gradient_lengths(loss, fits[k], x[fold == k], y[fold == k]) for k in range(folds)])
        off = fits - fits.mean(axis=0)
        error = float(np.sqrt((folds - 1.0) / folds * np.sum(off * off)))
        return cls(_minimum(loss, x, y), error, lengths)


def gradient_lengths(loss: RowLoss, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Lengths of the gradients of public rows, (m,)."""
    return row_norms(finite_gradients(loss, weights, x, y))


def clip_of(lengths: FloatArray) -> float:
    """The clip norm by gradient lengths of public rows."""
    found = float(np.quantile(lengths, CLIP_QUANTILE))
    if not found > 0.0:
        raise InputError("clip_norm='public' needs public rows with gradients that are not zero: pass a number")
    return found


def finite_gradients(loss: RowLoss, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Gradients (m, dim) at public rows, zeros for one that is not finite."""
    found = public_gradients(loss, weights, x, y)
    return np.where(np.isfinite(found).all(axis=1, keepdims=True), found, 0.0)


def _minimum(loss: RowLoss, x: FloatArray, y: FloatArray) -> FloatArray:
    """The minimum of the mean loss of public rows."""
    if loss is LOSSES["squared"]:
        return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], dtype=np.float64)
    if not callable(getattr(loss, "value", None)) or (isinstance(loss, Loss) and loss.values is None):
        raise InputError("start='public' needs a loss with a function of values: pass numbers for start and radius")
    # As much as one row's squared prediction: classes that a plane divides have no minimum without it.
    ridge = np.mean(x * x, axis=0) / len(x)

    def value(weights: FloatArray) -> tuple[float, FloatArray]:
        each = np.asarray(loss.value(weights, x, y))
        total = float(np.mean(np.where(np.isfinite(each), each, 0.0))) + 0.5 * float(ridge @ (weights * weights))
        slope = finite_gradients(loss, weights, x, y).mean(axis=0) + ridge * weights
        if not (np.isfinite(total) and np.isfinite(slope).all()):
            return _LARGEST, np.zeros(len(weights))
        return total, slope

    from scipy import optimize  # slow to import, and least squares do not need it

    with np.errstate(all="ignore"):
        options: Any = {"maxiter": _MOST_PASSES}
        best = optimize.minimize(value, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(best.x, dtype=np.float64)
