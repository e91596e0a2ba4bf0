"""Linear regression from one release: the second moments of clipped rows and residuals, pooled with the public posterior.

The released matrix holds the curvature of the private rows besides their gradient. With the residual's weight `radius / clip` the
gradient has no more noise than if it had been released alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.training.problem import Fitted
from fastpubpriv.training.public_linear import Clip, Posterior
from fastpubpriv.training.whitening import Weighting, weighting

_CURVATURE = 1.5  # error of the public second moment, over m
_LEAST_CURVATURE = 0.05
_LARGEST = 1e60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatisticsPlan:
    """Clips with the least predicted error, from public numbers."""

    weights: Weighting  # of rows: none but the bound `radius` on their norm
    clip: Clip  # bound on residuals, in units of the posterior's scale
    residual_weight: float  # a: a released row is [x, a residual]
    predicted: float  # excess of the squared error, clipping bias included, in the unit of the labels

    @property
    def radius(self) -> float:
        """Bound on the norm of a released row."""
        return math.sqrt(2.0) * self.weights.radius


def plan_statistics(posterior: Posterior, n_priv: float, noise: float) -> StatisticsPlan:
    """The clips with the least predicted error; `noise` is that of an off-diagonal entry for rows clipped to norm 1."""
    weights = weighting(posterior.typical, np.ones(len(posterior.mean)))
    share = _second_share(weights, posterior.typical)
    best: StatisticsPlan | None = None
    for bound in posterior.clips:
        clip = bound.at(posterior.scale)
        residual_weight = weights.radius / clip.bound
        entry = noise * 2.0 * weights.radius**2
        error = _error(posterior, n_priv, clip, share, entry, residual_weight)
        predicted = float(np.sum(1.0 / (1.0 / posterior.variance + share**2 / error))) + clip.bias_sq
        if best is None or predicted < best.predicted:
            best = StatisticsPlan(weights=weights, clip=clip, residual_weight=residual_weight, predicted=predicted)
    assert best is not None
    return best


def _second_share(weights: Weighting, public: FloatArray) -> float:
    """Part of the second moment of rows that is left when both factors are shortened."""
    norms = np.einsum("ij,ij->i", public, public)
    return float(weights.lever**2 @ norms / norms.sum())


def _error(
    posterior: Posterior, n_priv: float, clip: Clip, share: float, entry: float, residual_weight: float
) -> float:
    """Variance of an entry of the measured gradient, noise, sampling and the error of the curvature together."""
    scale, m = posterior.scale, len(posterior.labels)
    noise = (entry * scale / (residual_weight * n_priv * clip.inside)) ** 2
    sampling = share * clip.energy * scale**2 / (n_priv * clip.inside**2)
    private, public = _curvature_errors(n_priv, m, share, entry)
    return noise + sampling + share**2 * posterior.excess * private * public / (private + public)


def _curvature_errors(n_priv: float, m: int, share: float, entry: float) -> tuple[float, float]:
    """Error of an entry of the second moments of private and of public rows."""
    return (entry / (n_priv * share)) ** 2 + 1.0 / n_priv, _CURVATURE / m


def _bounded(released: FloatArray) -> FloatArray:
    """Released numbers, which may be of any size, as ones that can be squared."""
    return np.clip(np.nan_to_num(released), -_LARGEST, _LARGEST)


def pooled(posterior: Posterior, plan: StatisticsPlan, n_priv: float, released: FloatArray, entry: float) -> Fitted:
    """The coefficients from the released matrix (D + 1, D + 1), the residual last; `entry` is the noise off its diagonal."""
    dim, m, clip, public = len(posterior.mean), len(posterior.labels), plan.clip, posterior.typical
    lever = plan.weights.lever
    share = _second_share(plan.weights, public)
    private_error, public_error = _curvature_errors(n_priv, m, share, entry)
    trust = public_error / (public_error + private_error)
    missing = np.diag(np.maximum(1.0 - (public**2).mean(axis=0), 0.0))
    near = (public * (lever**2)[:, None]).T @ public / len(public) + missing * float(np.mean(lever**2))
    moments = trust * _bounded(released[:dim, :dim]) / n_priv + (1.0 - trust) * near
    values, vectors = np.linalg.eigh((moments + moments.T) / 2.0)
    # No row is longer than the radius, so a second moment beyond its square is noise.
    values = np.clip(values, _LEAST_CURVATURE, max(1.0, plan.weights.radius**2))
    curvature, inverse = (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
    unit = posterior.scale / (plan.residual_weight * clip.inside * n_priv)
    gradient = _bounded(released[:dim, dim]) * unit
    error = _error(posterior, n_priv, clip, share, entry, plan.residual_weight)
    apart = inverse @ gradient
    between = np.diag(posterior.variance) + error * inverse @ inverse
    disagreement = float(apart @ np.linalg.solve(between, apart))
    drift = disagreement / dim if disagreement > dim + 3.0 * math.sqrt(2.0 * dim) else 1.0
    information = curvature @ curvature / error
    covariance = np.linalg.inv(np.diag(1.0 / (drift * posterior.variance)) + information)
    covariance = (covariance + covariance.T) / 2.0
    gain = covariance @ curvature / error
    return Fitted(
        mean=posterior.mean + gain @ gradient,
        covariance=covariance,
        noise=gain @ gain.T * (entry * unit) ** 2,
        bias_sq=clip.unseen_sq,
        drift=drift,
        steps=1,
    )
