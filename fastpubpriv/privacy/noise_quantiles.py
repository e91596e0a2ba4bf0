"""Quantiles of noise by the name of its law, as results and their files hold it."""

from __future__ import annotations

import math

from scipy import special


def deviations(law: str, level: float, together: int = 1) -> float:
    """Return the half-width of an interval in standard deviations; `together` intervals hold jointly by the union bound."""
    alpha = (1.0 - level) / together
    normal = float(-special.ndtri(alpha / 2.0))
    return max(normal, -math.log(alpha) / math.sqrt(2.0)) if law == "laplace" else normal


def noise_quantile(law: str, noise_std: float, tail: float) -> float:
    """Return the upper quantile of the noise on a count: it exceeds this with probability `tail`."""
    if law == "laplace":
        return noise_std / math.sqrt(2.0) * max(0.0, -math.log(2.0 * tail))
    return float(-noise_std * special.ndtri(tail))
