"""How far labels lie from predictions, by public rows: what intervals for new labels are made of."""

from __future__ import annotations

import math

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.training.problem import Fitted, Problem
from fastpubpriv.training.public_linear import Posterior
from fastpubpriv.training.whitening import some

MOST_QUANTILES = 200
_MOST_LEVERAGE = 1.0 - 1e-3


def residual_std(problem: Problem) -> float:
    """Of a label about the best prediction, from public numbers."""
    known = problem.posterior
    if not isinstance(known, Posterior):
        return 0.0
    return float(np.sqrt(known.unexplained)) * problem.rotation.label_scale


def label_quantiles(problem: Problem, fitted: Fitted) -> FloatArray:
    """Quantiles at 1 / (k + 1), ..., k / (k + 1) of how far public labels lie from their predictions, (k,), ascending.

    Each is in units of the standard deviation that its prediction has under a normal law. A public row had a part in the
    coefficients: what it would have been off without that part is known from its part in the public fit, of which the private rows
    leave as much as they leave of the variance along the row. Labels that are all equal, and classes, have none.
    """
    known = problem.posterior
    if not isinstance(known, Posterior) or known.blank:
        return np.zeros(0)
    rows = some(known.rows)
    along = np.einsum("ij,ij->i", rows @ fitted.covariance, rows)
    part = some(known.leverage) * along / (rows**2 @ known.variance)
    part = np.minimum(part, _MOST_LEVERAGE)
    off = some(known.labels) - rows @ fitted.mean
    most = math.inf if known.threshold is None else known.threshold
    off = off + part / (1.0 - part) * np.clip(off, -most, most)
    variance = known.unexplained + along / (1.0 - part) + fitted.bias_sq
    if fitted.bias is not None and fitted.bias.any():
        # Of the coefficients in the units of the table; a common part of a column's categories is in the intercept.
        variance += (rows @ np.linalg.lstsq(problem.to_user, fitted.bias)[0]) ** 2
    off /= np.sqrt(variance)
    if len(off) <= MOST_QUANTILES:
        return np.sort(off)
    levels = np.arange(1, MOST_QUANTILES + 1) / (MOST_QUANTILES + 1)
    found: FloatArray = np.quantile(off, levels, method="weibull")
    return found
