"""Which rung of the ladder to take: errors predicted from public numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder.norms import NO_COUNTS, CountShares
from fastpubpriv.estimators.ladder.public_base import Strength
from fastpubpriv.estimators.ladder.schedule import CLIP_BIAS_SQ, Noise, Plan
from fastpubpriv.public_draws import chi2_quantile

# ---- The rungs that release one vector, and how a private mean is combined with the public one: post-processing ------


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


STRUCTURES = ("public", "mean", "diagonal", "full")
# Of the budget, for the mean: what it gets is missing from the covariance.
MEAN_SHARES = (Fraction(1, 8), Fraction(1, 4), Fraction(2, 5))
MEAN_RADIUS, DIAGONAL_RADIUS = 0.95, 0.9
# A dearer rung must promise so much: the prediction of its gain is uncertain.
DIAGONAL_GAIN, FULL_GAIN, SHARE_GAIN = 0.8, 0.7, 0.97
# Variances take most of that rung's noise: its mean must be so much better than the public one.
DIAGONAL_MEAN = 0.5
# Of the squared error of a region's covariance, the most that a private one may have.
REGION_SHARE = 0.05
# Residual distance of the mean after whitening by a released covariance.
RESIDUAL_SQ = 7.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted relative Frobenius error of the covariance and error of the mean in standard deviations."""

    covariance: float
    mean: float

    @property
    def divergence(self) -> float:
        """What ranks the rungs: about twice the divergence of the estimate from the truth, where it is near."""
        return self.covariance**2 / 2.0 + self.mean**2


@dataclass(frozen=True, slots=True)
class Outlook:
    """Predictions for all rungs and the one that `auto` takes; `mean_share` is what the mean gets of the full rung's allowance.

    `own_error_sq` is the squared error of the full rung's covariance by itself, without the public rows; `counts` what is counted
    before sums are released.
    """

    rungs: dict[str, Prediction]
    best: str
    mean_share: Fraction
    own_error_sq: float
    counts: CountShares = NO_COUNTS

    def resolved(self, dim: int) -> bool:
        """Whether the noise of the full rung stays below the eigenvalues."""
        return self.own_error_sq <= dim / 2.0


def mean_clip(dim: int) -> float:
    """Clip radius of the full rung's mean step, in whitened coordinates."""
    return math.sqrt(RESIDUAL_SQ + chi2_quantile(0.99, dim))


def mean_radius(strength: Strength) -> float:
    """Clip radius of the mean rung."""
    return math.sqrt(strength.radius_sq(MEAN_RADIUS))


def diagonal_radius(strength: Strength) -> float:
    """Clip radius of the diagonal rung's 2 dim features."""
    dim = strength.dim
    wide = strength.radius_sq(DIAGONAL_RADIUS) / chi2_quantile(DIAGONAL_RADIUS, dim)
    return math.sqrt(dim * wide + (dim + 2.0 * math.sqrt(24.0 * dim)) * wide * wide)


def full_plan(strength: Strength, n: float, noise: Noise) -> Plan:
    """The plan of the full rung for an allowance of its covariance."""
    return Plan(strength.dim, n, noise, 1.0 + strength.radius_sq(MEAN_RADIUS))


def _inflation(strength: Strength) -> float:
    """Squared error that axis variances add which are those of the rows: they blow up the axes of few public rows.

    The axes of hardly more public rows than columns have variances far too small in some directions, and each of them, put right by
    itself, is put right for all that the others get wrong: by d / (m - d) on average, the mean of an inverse Wishart matrix. With
    fewer rows than columns the ridge has lifted those directions.
    """
    dim, degrees = strength.dim, strength.n_pub - 1
    if degrees < dim or strength.wide > 1.0:
        return 0.0
    return (dim - 1.0) * (dim / (degrees - dim + 1.0)) ** 2


def outlook(
    strength: Strength, n: float, noise: Noise, counts: CountShares = NO_COUNTS, *, pieces: bool = True
) -> Outlook:
    """Predict every rung for n private rows and choose; `counts` is paid for first.

    With `pieces`, the last second moment and the mean of the full rung are released in two pieces, after a count of norms each.
    """
    whole, noise = noise, noise.part(1 - counts.vectors)
    dim, spectrum = strength.dim, strength.spectrum()
    inverse = float(np.mean(1.0 / spectrum))
    off = strength.wide**2 * dim * (dim - 1) / strength.typical
    own = strength.wide**2 * 2.0 * dim / strength.scales
    public_mean = dim / strength.n_pub

    def mean_error(added: float) -> float:
        return math.sqrt(combined(public_mean, dim / n + added))

    std = mean_radius(strength) * noise.vector(dim) / n
    rungs = {
        "public": Prediction(math.sqrt(off + own), math.sqrt(public_mean)),
        "mean": Prediction(math.sqrt(off + own), mean_error(dim * std * std * inverse)),
    }
    std = diagonal_radius(strength) * noise.vector(2 * dim) / n
    scales = combined(own, 2.0 * dim / n + 2.0 * dim * (std * inverse) ** 2 + CLIP_BIAS_SQ * dim)
    rungs["diagonal"] = Prediction(
        math.sqrt(off + scales + _inflation(strength)), mean_error(dim * std * std * inverse)
    )
    mean_share, own_error_sq = MEAN_SHARES[0], math.inf
    for share in MEAN_SHARES:
        error_sq = (
            full_plan(strength, n, whole.part(1 - counts.vectors - share)).step(spectrum, Fraction(1), 0).error_sq
        )
        std = mean_clip(dim) * whole.vector(dim, share) / n
        found = Prediction(
            math.sqrt(combined(off + own, error_sq)), mean_error(1.2 * dim * std * std * min(inverse, 1.5))
        )
        if "full" not in rungs or found.divergence < SHARE_GAIN * rungs["full"].divergence:
            rungs["full"], mean_share, own_error_sq = found, share, error_sq
    best = min(("public", "mean"), key=lambda name: rungs[name].divergence)
    # The variances of the diagonal rung cannot leave the public ones far behind; noise beside a region's covariance is no loss.
    if (
        strength.wide == 1.0
        and rungs["diagonal"].divergence <= DIAGONAL_GAIN * rungs[best].divergence
        and rungs["diagonal"].mean <= DIAGONAL_MEAN * rungs["public"].mean
    ):
        best = "diagonal"
    most = dim / 2.0 if strength.wide == 1.0 else max(dim / 2.0, REGION_SHARE * (off + own))
    if own_error_sq <= most and rungs["full"].divergence <= FULL_GAIN * rungs[best].divergence:
        best = "full"
    return Outlook(rungs, best, mean_share, own_error_sq, counts)
