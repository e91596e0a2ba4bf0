"""Estimates from public rows in the local model: norm bounds, moments, clipping bias, and the start of training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.gradients import public_gradients
from fastpubpriv.results.public_draws import student_factor
from fastpubpriv.rowwise.losses import LOSSES, Loss, RowLoss, minimum

# The clipping bias of rows beyond the bound is extrapolated from the longest public rows. Under an exponential tail four are the
# fewest with a coverage of 95 % (`covered` in test_training.py).
TOLD_BY = 4
CHANCE = 0.05  # quantile of the scale of the tail
# Times that the farthest of the public rows counts once more in a standard error: where rows are skewed, others as far were missed
# (`python -m benchmarks.local_answers`).
FARTHEST = 2.0


def _scaled(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return largest magnitudes (n,) in rows, rows (n, dim) divided by them, and norms (n,) of these, which do not overflow."""
    largest = np.max(np.abs(rows), axis=1)
    scaled = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
    return largest, scaled, np.sqrt(np.einsum("ij,ij->i", scaled, scaled))


def row_norms(rows: FloatArray) -> FloatArray:
    """Return the norms of rows (n, dim) of any magnitude, (n,)."""
    largest, _, lengths = _scaled(rows)
    return largest * lengths


def public_norm_bound(public: FloatArray) -> float:
    """Return the norm of the longest public row, rounded up to four digits, so that devices and servers agree on it."""
    longest = float(np.max(row_norms(public)))
    if not longest > 0.0:
        raise InputError(
            "norm_bound='public' needs a public row that is not zero: pass a number, or other public rows"
        )
    unit = 10.0 ** (math.floor(math.log10(longest)) - 3)
    return float(f"{math.ceil(longest / unit * (1.0 - 1e-12))}e{round(math.log10(unit))}")


def shortened(rows: FloatArray, bound: float) -> FloatArray:
    """Return rows clipped to norm `bound`."""
    return rows * np.minimum(1.0, bound / np.maximum(row_norms(rows), 1e-300))[:, None]


def directions_of(rows: FloatArray) -> FloatArray:
    """Return rows scaled to norm one; a row of zeros becomes the first unit vector."""
    _, scaled, lengths = _scaled(rows)
    directions: FloatArray = scaled / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    directions[lengths == 0.0, 0] = 1.0
    return directions


def moments(public: FloatArray | None, radius: float, *, sphere: bool) -> tuple[float, float]:
    """Return E |x - E x|^2 of one row, and the least value assumed of E |x|^2, from public rows prepared as users do."""
    # Unbiased from two rows or more; without them the largest possible variance.
    largest = radius**2
    if public is None or len(public) < 2:
        return largest, largest if sphere else 0.0
    total = float(np.sum(np.var(public, axis=0, ddof=1)))
    # Never zero: public rows may be equal by chance.
    variance = min(max(total, largest / (4.0 * len(public))), largest)
    square = largest if sphere else min(float(np.mean(np.sum(public * public, axis=1))), largest)
    return variance, square


def mean_std(rows: FloatArray) -> FloatArray:
    """Return the standard error of the mean of at least two rows in each column, (dim,), with Student's factor; also if skewed."""
    n = len(rows)
    deviations_sq = (rows - rows.mean(axis=0)) ** 2
    total: FloatArray = deviations_sq.sum(axis=0) + FARTHEST * deviations_sq.max(axis=0)
    return student_factor(n) * np.sqrt(total / (n * (n - 1.0)))


def public_mean_std(public: FloatArray, radius: float, spread: float) -> FloatArray:
    """Return the standard error of the mean of public rows, (dim,); by the radius and `spread`, a row's variance, if equal."""
    n_pub, dim = public.shape
    # Equal rows: with confidence .95, less than 3 / n of all rows differ from them ("rule of three").
    alike = max(math.sqrt(spread / n_pub), 3.0 * radius / (n_pub * math.sqrt(dim)))
    own = mean_std(public) if n_pub > 1 else np.zeros(dim)
    return np.where(own > 0.0, own, alike)


def clipping_std(public: FloatArray, bound: float) -> FloatArray | None:
    """Return the root mean square bias of the mean from clipping rows to `bound`, (dim,); None with too few public rows."""
    # Mean change, and its standard error, from clipping to the norm of the fifth longest row, or to the bound if that is less. For
    # a bound beyond the longest row it decreases by an exponential tail with the largest scale that is consistent with the rows.
    n_pub = len(public)
    if n_pub <= TOLD_BY:
        return None
    norms = row_norms(public)
    ordered = np.sort(norms)[::-1]
    cut = min(float(ordered[TOLD_BY]), bound)
    lost = public - shortened(public, cut)
    std: FloatArray = np.hypot(lost.mean(axis=0), mean_std(lost))
    beyond = bound - float(ordered[0])
    if beyond > 0.0:
        scale = float(np.sum(ordered[:TOLD_BY] - cut)) / float(special.gammaincinv(TOLD_BY, CHANCE))
        std *= math.exp(-beyond / scale) if scale > 0.0 else 0.0
    return std


# Start, radius and clip norm of local training from public rows alone: their fit, its error, and their gradients.

FOLDS = 10
# Chosen by `python -m benchmarks.local_starts`, near the least excess loss overall; a wider reach loses where reports are noisy. A
# clip at the median spoils classes and skewed labels; the longest gradient is worst everywhere.
CLIP_QUANTILE = 0.75
REACH = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class PublicStart:
    """The minimum of the public loss, its root mean squared error, and gradient norms of public rows at fits to the others."""

    weights: FloatArray
    error: float
    lengths: FloatArray

    @classmethod
    def of(cls, loss: RowLoss, x: FloatArray, y: FloatArray) -> PublicStart:
        """Fit public rows, with a jackknife error; InputError unless there are more of them than columns without a tenth."""
        n_pub, dim = x.shape
        folds = min(FOLDS, n_pub)
        fold = np.arange(n_pub) % folds
        if n_pub - np.count_nonzero(fold == 0) <= dim:
            raise InputError(
                f"start='public' needs more public rows than columns without a tenth of them, got {n_pub} rows in {dim} columns: "
                "pass numbers for start and radius"
            )
        fits = np.array([_minimum(loss, x[fold != k], y[fold != k]) for k in range(folds)])
        lengths = np.concatenate(
            [gradient_lengths(loss, fits[k], x[fold == k], y[fold == k]) for k in range(folds)]
        )
        off = fits - fits.mean(axis=0)
        error = float(np.sqrt((folds - 1.0) / folds * np.sum(off * off)))
        return cls(_minimum(loss, x, y), error, lengths)


def gradient_lengths(
    loss: RowLoss, weights: FloatArray, x: FloatArray, y: FloatArray
) -> FloatArray:
    """Return the norms of the gradients of public rows, (m,)."""
    return row_norms(finite_gradients(loss, weights, x, y))


def clip_of(lengths: FloatArray) -> float:
    """Return the clip norm for gradient norms of public rows."""
    clip = float(np.quantile(lengths, CLIP_QUANTILE))
    if not clip > 0.0:
        raise InputError(
            "clip_norm='public' needs public rows with gradients that are not zero: pass a number"
        )
    return clip


def finite_gradients(
    loss: RowLoss, weights: FloatArray, x: FloatArray, y: FloatArray
) -> FloatArray:
    """Return gradients (m, dim) at public rows, zeros for one that is not finite."""
    gradients = public_gradients(loss, weights, x, y)
    return np.where(np.isfinite(gradients).all(axis=1, keepdims=True), gradients, 0.0)


def _minimum(loss: RowLoss, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the minimum of the mean loss of public rows."""
    if loss is LOSSES["squared"]:
        return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], dtype=np.float64)
    if not callable(getattr(loss, "value", None)) or (
        isinstance(loss, Loss) and loss.values is None
    ):
        raise InputError(
            "start='public' needs a loss with a function of values: pass numbers for start and radius"
        )
    # A ridge as large as one row's squared prediction: for separable classes there is no minimum without it.
    ridge = np.mean(x * x, axis=0) / len(x)

    def value(weights: FloatArray) -> tuple[float, FloatArray]:
        each = np.asarray(loss.value(weights, x, y))
        total = float(np.mean(np.where(np.isfinite(each), each, 0.0))) + 0.5 * float(
            ridge @ (weights * weights)
        )
        return total, finite_gradients(loss, weights, x, y).mean(axis=0) + ridge * weights

    return minimum(value, np.zeros(x.shape[1]))
