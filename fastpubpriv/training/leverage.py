"""How far a robust fit may lie from least squares, by public rows: rows far out count less in it, and long residuals too.

Where labels are linear in the terms both aim at the same coefficients. Where the line bends, or a column has a long tail, they do
not; public rows show this as far as they reach.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.columns import NUMBER
from fastpubpriv.public_draws import normal_quantile
from fastpubpriv.training.problem import Problem
from fastpubpriv.training.public_linear import Bound, Posterior
from fastpubpriv.training.whitening import some

_FEW, _SHARE = 20.0, 0.1  # a coefficient needs so many rows behind it, or this share of the public ones
_LEAST_ROWS = 3.0
_SEEN = 2.0  # standard errors from which a difference counts as seen


def rows_behind(problem: Problem) -> FloatArray:
    """About how many public rows the least-squares coefficient of each term rests on, (terms,).

    (sum of h)^2 / (sum of h^2) over the rows' squared influence h: m / 3 for normal columns, a handful for rain by the hour.
    """
    known = problem.posterior
    influence = ((some(known.rows) * known.variance) @ problem.to_user[1:].T) ** 2
    total, squares = influence.sum(axis=0), (influence**2).sum(axis=0)
    found: FloatArray = len(known.rows) / len(influence) * total**2 / np.maximum(squares, 1e-300)
    return found


def rests_on_few(problem: Problem) -> FloatArray:
    """1 for each number whose coefficient rests on few public rows, else 0, (terms,)."""
    enough = min(_FEW, _SHARE * len(problem.posterior.rows))
    found: FloatArray = ((rows_behind(problem) < enough) & (problem.design.role == NUMBER)).astype(np.float64)
    return found


def counted_bias(problem: Problem, bound: Bound, lever: FloatArray) -> FloatArray:
    """What intervals count as bias of [intercept, coefficients], in the units of the table, (terms + 1,).

    One step from the public fit is taken by both equations, the robust one and that of least squares (of the Huber loss, where that
    is the aim); their difference is a mean over public rows, with a standard error. It counts where it is beyond two of these; and,
    the standard error with it, where the coefficient rests on few rows. `bound` is that on residuals, and `lever` (k,) the factor
    of each of the typical public rows in the robust equation.
    """
    known = problem.posterior
    assert isinstance(known, Posterior)
    rows, residuals = some(known.rows), some(known.residuals) / known.scale
    m, dim = rows.shape
    if m < 2 * dim:
        return np.zeros(len(problem.to_user))
    clip = bound.at(known.scale)
    clipped = np.clip(residuals, -clip.bound, clip.bound)
    aimed = residuals if known.threshold is None else clipped
    lever = lever * np.sqrt(some(known.weights))
    robust = (rows.T * (lever * (clipped == residuals))) @ rows
    plain = (rows.T * (aimed == residuals)) @ rows
    ridge = 1e-6 * np.trace(plain) / dim * np.eye(dim)
    step = np.linalg.solve(robust + ridge, rows.T * (lever * clipped))
    step -= np.linalg.solve(plain + ridge, rows.T * aimed)
    each = problem.to_user @ step * known.scale
    bias, error = each.sum(axis=1), np.sqrt(m) * each.std(axis=1)
    # A standard error from few rows is uncertain itself, as Student found.
    behind = np.maximum(np.append(m, rows_behind(problem)), _LEAST_ROWS)
    doubt = error * special.stdtrit(behind - 1.0, 0.975) / normal_quantile(0.975)
    few = np.append(0.0, rests_on_few(problem)) > 0.0
    seen = np.abs(bias) > _SEEN * error
    found: FloatArray = np.where(few, np.copysign(np.hypot(bias, doubt), bias), np.where(seen, bias, 0.0))
    return found
