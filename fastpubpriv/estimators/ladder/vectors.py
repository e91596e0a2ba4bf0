"""The rungs that release one vector, and how a private mean is combined with the public one: post-processing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder.public_base import Strength


def combined(one: float, other: float) -> float:
    """Variance of the best combination of two independent estimates with these variances."""
    return one * other / (one + other) if 0.0 < one < np.inf and 0.0 < other < np.inf else min(one, other)


def mean_weight(strength: Strength, error_sq: float) -> float:
    """Weight of a private mean with this squared error, beside the public mean: inverse variances (paper B, equation 3)."""
    public = strength.dim / strength.n_pub
    return public / (public + error_sq) if error_sq < np.inf else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """Released variances (dim,) of the axes in units of the public ones, and their weight beside one common scale."""

    variances: FloatArray
    errors_sq: FloatArray
    common: float


def axis_variances(released: FloatArray, std: float, n: float, strength: Strength) -> Scales:
    """Variances from the released average of (v, (v^2 - 1) / sqrt(2)), (2 dim,), with noise `std` in each coordinate.

    They are drawn to a common scale as far as sampling and noise explain their differences, and that to the public one.
    """
    dim = strength.dim
    first, second = released[:dim], released[dim:]
    raw = 1.0 + np.sqrt(2.0) * second - np.square(first) + std * std
    errors_sq = 2.0 * np.square(np.maximum(raw, 0.1)) / n + 2.0 * std * std
    own = 2.0 / max(strength.scales, 1.0)
    weight = own / (own + float(np.mean(errors_sq)) / dim)
    common = max(1.0 + weight * (float(np.mean(raw)) - 1.0), 0.05)
    gaps = raw - common
    between = own if dim <= 2 else max(0.0, float(np.mean(np.square(gaps) - errors_sq)))
    variances = common + between / (between + errors_sq) * gaps
    return Scales(np.maximum(variances, 0.1 * common), errors_sq, common)
