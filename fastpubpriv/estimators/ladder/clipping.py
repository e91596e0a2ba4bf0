"""How much of the rows' spread was clipped away, from a released second moment."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.quantiles import chi2_quantiles

MOST = 3.0
STEPS = 4
QUANTILES = 400


def clip_factor(second: FloatArray, radius_sq: float, *, std: float, n: float) -> float:
    """The factor (at most 3) between the second moment of Gaussian rows y and `second` (dim, dim), that of (y, 1) clipped.

    Squared norms are taken as a multiple of a chi-squared variable with the trace and the variance that `second` shows, after
    noise (`std` on the diagonal) and sampling (n rows) have been taken out of it.
    """
    dim = len(second)
    trace = max(float(np.trace(second)), 0.05 * dim)
    own = std * std * dim * (dim + 1) / 2.0 + trace * trace * (dim + 1) / (dim * n)
    with np.errstate(over="ignore", invalid="ignore"):
        power = float(np.nan_to_num(np.sum(np.square(second)) - own, nan=trace * trace))
    power = min(max(power, trace * trace / dim), trace * trace)
    freedom = trace * trace / power
    levels = chi2_quantiles((np.arange(QUANTILES) + 0.5) / QUANTILES, freedom) * (power / trace)
    factor = 1.0
    for _ in range(STEPS):
        norms = factor * levels
        kept = np.minimum(norms, radius_sq * norms / (1.0 + norms))
        factor = min(MOST, float(np.mean(norms) / np.mean(kept)))
    return factor
