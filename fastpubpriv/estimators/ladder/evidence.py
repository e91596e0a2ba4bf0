"""How much a prior covariance is worth beside a few public rows: the evidence of an inverse-Wishart prior."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import multigammaln

from fastpubpriv._types import FloatArray

# Pseudo-rows that are tried, from none to so many that the public rows do not count.
GRID = np.exp(np.linspace(np.log(1e-4), np.log(1e5), 91))
# Numbers of pseudo-rows within so many nats of the best are all believable.
BELIEVABLE = 2.0
# No structure at all is taken for the best where it is worse by no more than this; for columns that have one variance, by chance
# alone in one case of a hundred.
NO_WORSE, NO_WORSE_ALIKE = 0.5, 3.0
# How far towards its expectation the ridge may lift the least eigenvalue: of coordinates, and of a covariance that is reported.
LIFT, LIFT_REPORTED = 0.15, 0.02


def log_evidence(pseudo_rows: FloatArray, scatter: FloatArray, degrees: int) -> FloatArray:
    """Log density of public rows with scatter eigenvalues `scatter` (dim,), for each number of pseudo-rows, up to a constant.

    The covariance has an inverse-Wishart law with mean I that is worth that many rows; the rows have `degrees` degrees of freedom.
    """
    dim = len(scatter)
    prior = pseudo_rows + dim + 1.0
    gammas = multigammaln((prior + degrees) / 2.0, dim) - multigammaln(prior / 2.0, dim)
    logs = np.array([np.sum(np.log(each + scatter)) for each in pseudo_rows])
    found: FloatArray = gammas + prior / 2.0 * dim * np.log(pseudo_rows) - (prior + degrees) / 2.0 * logs
    return found


def pseudo_rows(scatter: FloatArray, degrees: int, *, alike: bool = False) -> tuple[float, float]:
    """Number of pseudo-rows that the evidence likes best, and the least that it believes.

    With enough rows for a covariance of their own, the ridge may lift the least eigenvalue towards its expectation and no further:
    the evidence alone would lift eigenvalues that are truly small. `alike`: the columns look as if they had one variance.
    """
    dim = len(scatter)
    if dim == 1:
        return float(GRID[0]), float(GRID[0])
    levels = log_evidence(GRID, np.maximum(scatter, 0.0), degrees)
    best = int(np.argmax(levels))
    likely, least = float(GRID[best]), float(GRID[np.flatnonzero(levels >= levels[best] - BELIEVABLE)[0]])
    if degrees >= dim:
        likely = min(likely, lifting(scatter, degrees, LIFT))
        least = min(least, likely)
    elif levels[-1] >= levels[best] - (NO_WORSE_ALIKE if alike else NO_WORSE):
        likely = float(GRID[-1])
    return likely, least


def lifting(scatter: FloatArray, degrees: int, part: float) -> float:
    """The ridge that lifts the least eigenvalue by this part of the way to its expectation; for at least dim degrees of freedom.

    The error of an eigenvalue that is truly small counts relative to it, so a reported covariance is lifted less than coordinates:
    five times as much ridge has 1.4 times less divergence where there are hardly more rows than columns, and up to 2.4 times that
    error.
    """
    dim = len(scatter)
    typical = max(0.3 / dim, (math.sqrt(degrees) - math.sqrt(dim)) ** 2)
    return max(part * max(float(np.min(scatter)), 0.0) * (degrees / typical - 1.0), float(GRID[0]))
