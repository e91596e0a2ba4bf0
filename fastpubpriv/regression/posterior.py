"""The point of a regression: the average of posteriors under three families of priors, weighted by the released scores.

In coordinates a = half^-1 (theta - start), with half the inverse root of the curvature H, the mean of the scores is g = a + error.
The error has the covariance C of privacy noise nu^2 I and of noise eta and clipped part T of the curvature along the step delta,

    C = nu^2 I + (eta^2 + (T / D)^2) |delta|^2 H^-1,

and the sampling variance s^2 in each coordinate. A prior N(mu, A) of log weight p has, with V = A + C + s^2 I, the log evidence

    p - log|V| / 2 - (g - mu)' V^-1 (g - mu) / 2,

and the posterior mean mu + A (A + C)^-1 (g - mu) and covariance A (A + C)^-1 C. The average weights these by the evidence (Hoeting
et al. 1999, Bayesian model averaging). It stays at the start, returns to the public rows' own fit, or to a constant, by what the
scores show, in each direction: where C is large the prior's mean remains.

No C holds what a handful of rows beyond the clips would add. The average is shrunk to a point of public rows, between a constant
and their own fit, by that doubt over its squared distance from the constant (James and Stein 1961, positive part).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, special

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.moments import LARGEST
from fastpubpriv.regression import regression_tuning as tuning


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Law:
    """A normal law of the coefficients."""

    mean: FloatArray  # (D,)
    covariance: FloatArray  # (D, D)

    def mapped(self, origin: FloatArray, root: FloatArray) -> Law:
        """Law of root (theta - origin), for a symmetric matrix (D, D)."""
        covariance = root @ self.covariance @ root
        return Law(mean=root @ (self.mean - origin), covariance=covariance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicLaws:
    """What public rows alone say about the coefficients."""

    own: Law | None  # their own fit, without a prior; None if too few have labels
    reported: FloatArray  # (D,), the fit that is reported beside the private one
    constant: Law  # the intercept of their labels, all slopes zero, and its error
    slope_variance: float  # of a slope, if it explained the variance of the labels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Priors of equal weight with a common mean, in the coordinates of scores."""

    mean: FloatArray  # (D,)
    covariances: Sequence[FloatArray]  # (D, D) each


def start_family(covariance: FloatArray, noise_sq: float) -> Family:
    """Priors about the start: of its own covariance (D, D), and of a bias by its clips, in units of the scores' noise."""
    identity = np.eye(len(covariance))
    own = [times * covariance for times in tuning.START_PRIORS]
    biased = [
        tuning.START_PRIORS[0] * covariance + times * noise_sq * identity
        for times in tuning.BIAS_PRIORS
    ]
    return Family(mean=np.zeros(len(covariance)), covariances=own + biased)


def public_family(own: Law) -> Family:
    """Priors about the public rows' own fit, whose population may differ from that of the private rows."""
    return Family(
        mean=own.mean, covariances=[times * own.covariance for times in tuning.PUBLIC_PRIORS]
    )


def constant_family(constant: Law, slopes: FloatArray) -> Family:
    """Priors about a constant; `slopes` (D, D) is the covariance of slopes that explain the labels."""
    covariances = [constant.covariance + share * slopes for share in tuning.SLOPE_PRIORS]
    return Family(mean=constant.mean, covariances=covariances)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """The released mean of scores and its errors."""

    value: FloatArray  # (D,)
    half: FloatArray  # (D, D), inverse root of the curvature
    noise_sq: float  # of privacy, in each coordinate
    sampling_sq: float  # of sampling, in each coordinate
    curvature_sq: float  # squared error of an entry of the curvature

    def errors(self, step: FloatArray) -> FloatArray:
        """Covariance (D, D) of the errors for a step (D,), without those of sampling."""
        length_sq = min(float(np.sum((self.half @ step) ** 2)), LARGEST)
        bent = self.curvature_sq * length_sq * (self.half @ self.half)
        return np.asarray(self.noise_sq * np.eye(len(step)) + bent)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Average:
    """Average of the posteriors."""

    mean: FloatArray  # (D,), the point
    error_sq: float  # expected squared distance of the coefficients from it
    weights: FloatArray  # (families,), shares of the evidence


def _factor(matrix: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a covariance (D, D), which is singular, up to rounding, for a prior along few directions."""
    least = 1e-12 * float(np.trace(matrix)) / len(matrix) + 1.0 / LARGEST
    raised = matrix + least * np.eye(len(matrix))
    try:
        return np.asarray(linalg.cholesky(raised, lower=True))
    except linalg.LinAlgError:
        # Products of matrices of different size round by more than that along directions that are next to nothing.
        values, vectors = np.linalg.eigh((raised + raised.T) / 2.0)
        positive = np.maximum(values, tuning.FLAT * max(float(values[-1]), 1.0 / LARGEST))
        return np.asarray(linalg.cholesky((vectors * positive) @ vectors.T, lower=True))


def _log_evidence(covariance: FloatArray, off: FloatArray) -> float:
    """Log density at `off` (D,) of a centered normal law, up to a constant."""
    factor = _factor(covariance)
    whitened = linalg.solve_triangular(factor, off, lower=True)
    length_sq = min(float(whitened @ whitened), LARGEST)
    return -float(np.sum(np.log(np.diag(factor)))) - 0.5 * length_sq


def _average_for(scores: Scores, families: Sequence[Family], step: FloatArray) -> Average:
    """Average of the posteriors if the curvature errs along `step` (D,)."""
    errors = scores.errors(step)
    sampling = scores.sampling_sq * np.eye(len(step))
    evidence = []
    means = []
    variances = []
    for family in families:
        off = scores.value - family.mean
        weight = math.log(len(family.covariances))
        for prior in family.covariances:
            factor = _factor(prior + errors)
            evidence.append(_log_evidence(prior + errors + sampling, off) - weight)
            means.append(family.mean + prior @ linalg.cho_solve((factor, True), off))
            variances.append(float(np.sum(prior * linalg.cho_solve((factor, True), errors).T)))
    weights = special.softmax(evidence)
    mean = weights @ np.array(means)
    between = np.sum((np.array(means) - mean) ** 2, axis=1)
    sizes = [len(family.covariances) for family in families]
    shares = np.add.reduceat(weights, np.cumsum([0, *sizes[:-1]]))
    error_sq = float(weights @ (np.array(variances) + between))
    return Average(mean=mean, error_sq=error_sq, weights=shares)


def average(scores: Scores, families: Sequence[Family]) -> Average:
    """Average of the posteriors, whose errors depend on the step, from that of the scores alone on."""
    point = _average_for(scores, families, scores.value)
    for _ in range(tuning.POINT_PASSES - 1):
        point = _average_for(scores, families, point.mean)
    return point


def kept_share(doubt_sq: float, distance_sq: float) -> float:
    """Share of a distance that is kept beside a doubt about it, both squared: the positive part of James and Stein."""
    return max(0.0, 1.0 - doubt_sq / max(distance_sq, 1.0 / LARGEST))


def public_point(constant: FloatArray, own: Law | None) -> FloatArray:
    """Public rows' own fit (D,), shrunk to the constant by its variance."""
    if own is None:
        return constant
    apart = own.mean - constant
    variance = float(np.trace(own.covariance))
    return constant + kept_share(tuning.PUBLIC_DOUBT * variance, float(apart @ apart)) * apart


def shrunk(point: Average, target: FloatArray, share: float) -> Average:
    """Average at a share of the way from a target (D,); its expected error grows by the move."""
    mean = target + share * (point.mean - target)
    moved_sq = float(np.sum((mean - point.mean) ** 2))
    return replace(point, mean=mean, error_sq=point.error_sq + moved_sq)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossExcess:
    """Excess of the loss over that of the best coefficients, as the released scores show it."""

    predicted: float  # of the point
    public: float  # of the fit of public rows alone
    constant: float | None  # of the constant of public labels; None where it is not released
    # whether rows beyond the clip may have more curvature than the others, which these numbers are about
    within_clip: bool

    @property
    def alternative(self) -> float:
        """Excess of the better of the public fit and the constant."""
        return self.public if self.constant is None else min(self.public, self.constant)

    @property
    def is_fallback(self) -> bool:
        """Whether the doubt about the point allows an excess above the constant's."""
        return self.constant is not None and self.predicted >= self.constant
