"""Whether released numbers say that private rows lie elsewhere, or have another scale, than the public ones: post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import polygamma

from fastpubpriv.estimators.ladder.public_base import Strength
from fastpubpriv.public_draws import chi2_quantile, f_quantile

# Beyond this factor between variances the scale of the public rows is given up for that of a private count.
FACTOR = 4.0
# Chance is allowed so many standard deviations of the public scale, and a quantile and a factor of the distance between means.
DEVIATIONS, CHANCE, MARGIN = 3.0, 0.999, 2.0


@dataclass(frozen=True, slots=True)
class Shift:
    """How far the private mean lies from the public one, in deviations, and whether that is more than chance.

    `mean_error_sq` is what the public mean is then worth: its squared error in deviations.
    """

    deviations: float
    beyond_chance: bool
    mean_error_sq: float


def shift_of(distance_sq: float, noise_sq: float, strength: Strength, n: float, *, freedom: float = math.inf) -> Shift:
    """The shift behind a released squared distance, of which noise has added `noise_sq` on average.

    `freedom` are the degrees of freedom of the covariance that it is measured by.
    """
    dim = strength.dim
    quantile = chi2_quantile(CHANCE, dim) if math.isinf(freedom) else f_quantile(CHANCE, dim, freedom) * dim
    chance = MARGIN * (1.0 / strength.n_pub + 1.0 / n) * quantile + 4.0 * noise_sq * math.sqrt(2.0 / dim)
    excess = max(distance_sq - noise_sq, 0.0)
    public = dim / strength.n_pub
    found = bool(excess > chance)
    return Shift(math.sqrt(excess), found, max(public, excess - dim / n) if found else public)


def weight_of(shift: Shift, error_sq: float) -> float:
    """Weight of a private mean with this squared error beside the public one: inverse variances (paper B, equation 3)."""
    return shift.mean_error_sq / (shift.mean_error_sq + error_sq) if error_sq < math.inf else 0.0


def stretch_of(middle_sq: float | None, strength: Strength) -> float:
    """By what the public scale is to be multiplied: 1 while a released median of squared norms is near what it promises."""
    if middle_sq is None:
        return 1.0
    ratio = middle_sq / strength.radius_sq(0.5)
    return 1.0 if 1.0 / FACTOR <= ratio <= FACTOR else math.sqrt(ratio)


def off_scale(stretch: float, strength: Strength) -> bool:
    """Whether a stretch is more than the public rows leave to chance."""
    chance = math.log(FACTOR) + DEVIATIONS * math.sqrt(float(polygamma(1, strength.low / 2.0)))
    return abs(2.0 * math.log(stretch)) > chance
