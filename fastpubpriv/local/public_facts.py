"""What public rows tell in the local model: bounds and moments of rows, and where training starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.gradients import public_gradients
from fastpubpriv.losses import LOSSES, Loss, RowLoss, minimum

# What rows beyond the bound lose is told from the longest public ones, of which none is beyond the longest. Under a tail that
# falls off exponentially four are the fewest that cover it in 95 % of draws (three 92 %: `covered` in test_training.py).
TOLD_BY = 4
CHANCE = 0.05


def _scaled(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Largest sizes (n,) of entries, rows (n, dim) over theirs, and the lengths (n,) of these, whose squares do not overflow."""
    largest = np.max(np.abs(rows), axis=1)
    scaled = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
    return largest, scaled, np.sqrt(np.einsum("ij,ij->i", scaled, scaled))


def row_norms(rows: FloatArray) -> FloatArray:
    """Lengths of rows (n, dim) of any size, (n,)."""
    largest, _, lengths = _scaled(rows)
    return largest * lengths


def public_norm_bound(public: FloatArray) -> float:
    """The length of the longest public row, rounded up to four digits: every end computes the same, and can write it down."""
    longest = float(np.max(row_norms(public)))
    if not longest > 0.0:
        raise InputError("norm_bound='public' needs a public row that is not zero: pass a number, or other public rows")
    unit = 10.0 ** (math.floor(math.log10(longest)) - 3)
    return float(f"{math.ceil(longest / unit * (1.0 - 1e-12))}e{round(math.log10(unit))}")


def shortened(rows: FloatArray, bound: float) -> FloatArray:
    """Rows, each at most as long as `bound`."""
    return rows * np.minimum(1.0, bound / np.maximum(row_norms(rows), 1e-300))[:, None]


def directions_of(rows: FloatArray) -> FloatArray:
    """Rows of length one; a row of zeros is the first unit vector."""
    _, scaled, lengths = _scaled(rows)
    directions: FloatArray = scaled / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    directions[lengths == 0.0, 0] = 1.0
    return directions


@dataclass(frozen=True, slots=True)
class Moments:
    """E |x - E x|^2 of one row, and the least that E |x|^2 can be taken for."""

    variance: float
    square: float

    @property
    def mean_square(self) -> float:
        """|E x|^2, the square of the length of the mean: what the two leave for it."""
        return max(self.square - self.variance, 0.0)

    @classmethod
    def of(cls, public: FloatArray | None, radius: float, *, sphere: bool) -> Moments:
        """Return unbiased moments of two public rows or more, prepared as users do; without them the most that rows can leave."""
        largest = radius**2
        if public is None or len(public) < 2:
            return cls(largest, largest if sphere else 0.0)
        total = float(np.sum(np.var(public, axis=0, ddof=1)))
        # Never zero: rows that happen to agree do not prove that all of them do.
        variance = min(max(total, largest / (4.0 * len(public))), largest)
        square = largest if sphere else min(float(np.mean(np.sum(public * public, axis=1))), largest)
        return cls(variance, square)


def clipping_std(public: FloatArray, bound: float) -> FloatArray | None:
    """Root mean square of what shortening rows to `bound` takes from their mean, (dim,); None by too few public rows to tell."""
    # The mean loss of rows that are shortened to the fifth longest of them, or to the bound if that is less, and its own error. A
    # bound beyond the longest leaves less, by an exponential tail with the longest scale that the rows are in keeping with.
    n_pub = len(public)
    if n_pub <= TOLD_BY:
        return None
    norms = row_norms(public)
    ordered = np.sort(norms)[::-1]
    cut = min(float(ordered[TOLD_BY]), bound)
    lost = public - shortened(public, cut)
    std: FloatArray = np.hypot(lost.mean(axis=0), np.std(lost, axis=0, ddof=1) / math.sqrt(n_pub))
    beyond = bound - float(ordered[0])
    if beyond > 0.0:
        scale = float(np.sum(ordered[:TOLD_BY] - cut)) / float(special.gammaincinv(TOLD_BY, CHANCE))
        std *= math.exp(-beyond / scale) if scale > 0.0 else 0.0
    return std


# Where local training starts and how far it may go, by public rows alone: their fit, its error, and their gradients.

FOLDS = 10
# Chosen by `python -m benchmarks.local_starts`: within 3 % of the least excess overall, and ahead of a wider reach where reports
# are noisy. A clip at the median suits even noise and spoils classes and skewed labels; the longest gradient is last everywhere.
CLIP_QUANTILE = 0.75
REACH = 3.0


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
        """Start from public rows, more of them than columns when a tenth is left out; the error is that of the jackknife."""
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
    clip = float(np.quantile(lengths, CLIP_QUANTILE))
    if not clip > 0.0:
        raise InputError("clip_norm='public' needs public rows with gradients that are not zero: pass a number")
    return clip


def finite_gradients(loss: RowLoss, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Gradients (m, dim) at public rows, zeros for one that is not finite."""
    gradients = public_gradients(loss, weights, x, y)
    return np.where(np.isfinite(gradients).all(axis=1, keepdims=True), gradients, 0.0)


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
        return total, finite_gradients(loss, weights, x, y).mean(axis=0) + ridge * weights

    return minimum(value, np.zeros(x.shape[1]))
