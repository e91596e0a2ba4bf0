"""What public rows say about a logistic regression: a ridge fit with its strength chosen by the loss on rows left out."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.training.whitening import Whitener

_FOLDS = 5
_STRENGTHS = np.logspace(-2.0, 3.0, 11)
_MODEST = 1.0  # the least strength where rows are few: one plane parts their classes, and folds of a few rows see no harm in it
_INTERCEPT = 0.1  # ridge on the intercept, relative to that on the others
_MOST_STEPS = 60


def chances(scores: FloatArray) -> FloatArray:
    """Probability of the second class at these log-odds."""
    with np.errstate(over="ignore"):
        return np.where(scores >= 0.0, 1.0 / (1.0 + np.exp(-scores)), np.exp(scores) / (1.0 + np.exp(scores)))


def log_loss(scores: FloatArray, labels: FloatArray, weights: FloatArray) -> float:
    """Sum over rows of their weights times the logistic loss."""
    return float(np.sum(weights * (np.logaddexp(0.0, scores) - labels * scores)))


def fit(
    rows: FloatArray, labels: FloatArray, weights: FloatArray, precision: FloatArray, pull: FloatArray
) -> FloatArray:
    """The minimum over w of log_loss(rows w) + w' precision w / 2 - pull' w, by damped Newton steps."""

    def value(w: FloatArray) -> float:
        return log_loss(rows @ w, labels, weights) + 0.5 * float(w @ precision @ w) - float(pull @ w)

    found: FloatArray = np.zeros(rows.shape[1])
    best = value(found)
    for _ in range(_MOST_STEPS):
        p = chances(rows @ found)
        slope = rows.T @ (weights * (p - labels)) + precision @ found - pull
        curvature = (rows.T * (weights * p * (1.0 - p))) @ rows + precision
        step = np.linalg.solve(curvature, slope)
        length = 1.0
        while length > 1e-9:
            candidate = found - length * step
            reached = value(candidate)
            if reached <= best - 0.25 * length * float(slope @ step):
                break
            length /= 2.0
        else:
            break
        done = best - reached <= 1e-12 * max(1.0, abs(best))
        found, best = candidate, reached
        if done:
            break
    return found


def ridge_precision(rows: FloatArray, labels: FloatArray, weights: FloatArray, whitener: Whitener) -> FloatArray:
    """The precision of the coefficients of whitened public rows (m, D), its strength by five-fold log-loss."""
    shape = whitener.ridge(_INTERCEPT)
    fold = np.arange(len(rows)) % min(_FOLDS, len(rows))
    few = len(rows) < 2 * rows.shape[1]
    strengths = _STRENGTHS[_STRENGTHS >= _MODEST] if few else _STRENGTHS
    losses = np.zeros(len(strengths))
    for k in np.unique(fold):
        inside = fold != k
        for index, strength in enumerate(strengths):
            w = fit(rows[inside], labels[inside], weights[inside], strength * shape, np.zeros(len(shape)))
            losses[index] += log_loss(rows[~inside] @ w, labels[~inside], weights[~inside])
    return float(strengths[int(np.argmin(losses))]) * shape
