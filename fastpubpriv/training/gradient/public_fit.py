"""The minimum of the public loss, for any loss of a linear model, and the residuals of rows that were held out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.losses import LOSSES
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.public_linear import marginal_likelihood

_STRENGTHS = (1e-2, 1.0, 100.0)  # ridges, in rows of unit length
_FOLDS = 5
_MOST_PASSES = 200
_LARGEST = 1e30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicFit:
    """What public rows alone say."""

    # in the shape of the weights, the minimum of the public loss plus a ridge; zero where the loss has no values
    # to minimise
    weights: FloatArray
    residuals: FloatArray  # (m, outputs), of each public row, at weights that it had no part in
    penalty: float  # the strength of the ridge, on the sum of the losses


def public_fit(problem: GradientProblem, l2: float) -> PublicFit:
    """The public fit, its ridge chosen by public rows."""
    nothing = np.zeros(problem.shape)
    if problem.loss is None or problem.loss.values is None:
        coefficients, _ = problem.gradients(nothing)
        return PublicFit(weights=nothing, residuals=coefficients, penalty=0.0)
    if problem.loss is LOSSES["squared"]:
        return _least_squares(problem, l2)
    m = len(problem.x)
    fold, best = np.arange(m) % min(_FOLDS, m), None
    for strength in _STRENGTHS:
        scores = np.empty((m, *problem.shape[:-1]))
        for k in np.unique(fold):
            inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            found = _minimum(problem, inside, strength + l2 * len(inside), nothing)
            scores[outside] = problem.x[outside] @ found.T
        with np.errstate(all="ignore"):
            total = float(np.sum(problem.loss.values(scores, problem.y)))
        if best is None or total < best[0]:
            best = total, strength, problem.loss.residuals_of(scores, problem.y).reshape(m, -1)
    assert best is not None
    penalty = best[1] + l2 * m
    return PublicFit(weights=_minimum(problem, slice(None), penalty, nothing), residuals=best[2], penalty=penalty)


def _shape(problem: GradientProblem, penalty: float, m: int) -> FloatArray:
    """The ridge of each weight; the intercept is as good as free."""
    shape = np.full(problem.units.width, max(penalty, 1e-12 * m))
    if problem.units.design is not None:
        shape[0] = 1e-6 * m
    return shape


def _least_squares(problem: GradientProblem, l2: float) -> PublicFit:
    """The ridge by marginal likelihood, and residuals with the row itself left out."""
    x, y, m = problem.x, problem.y, len(problem.x)
    inner = x if problem.units.design is None else x[:, 1:]
    noise, spread = marginal_likelihood(inner - inner.mean(axis=0), y - y.mean())
    penalty = noise / max(spread, 1e-12 * max(noise, 1e-300)) + l2 * m
    shape = _shape(problem, penalty, m)
    if m >= len(shape):
        inverse = np.linalg.solve(x.T @ x + np.diag(shape), x.T)
    else:
        # Fewer rows than columns: the same by the smaller system.
        scaled = x / shape
        inverse = np.linalg.solve(x @ scaled.T + np.eye(m), scaled).T
    weights = inverse @ y
    leverage = np.minimum(np.einsum("ij,ji->i", x, inverse), 1.0 - 1e-3)
    residuals = (y - x @ weights) / (1.0 - leverage)
    return PublicFit(weights=weights, residuals=residuals[:, None], penalty=penalty)


def _minimum(problem: GradientProblem, rows: Any, penalty: float, start: FloatArray) -> FloatArray:
    """The minimum of the loss of some public rows plus the ridge."""
    loss, x, y = problem.loss, problem.x[rows], problem.y[rows]
    assert loss is not None
    assert loss.values is not None
    values, shape = loss.values, _shape(problem, penalty, len(x))

    def value(flat: FloatArray) -> tuple[float, FloatArray]:
        w = flat.reshape(problem.shape)
        scores = x @ w.T
        total = float(np.sum(values(scores, y))) + 0.5 * float(np.sum(shape * w * w))
        slope = shape * w - loss.residuals_of(scores, y).T @ x
        if not (np.isfinite(total) and np.isfinite(slope).all()):
            return _LARGEST, np.zeros(flat.size)
        return total, slope.ravel()

    from scipy import optimize  # slow to import, and plans and fits by squares do not need it

    with np.errstate(all="ignore"):
        found = optimize.minimize(value, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _MOST_PASSES})
    result: FloatArray = np.asarray(found.x).reshape(problem.shape)
    return result
