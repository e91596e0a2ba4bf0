"""What public rows say about a regression by the Huber loss: a ridge posterior of labels whose long residuals are shortened.

At the minimum, each residual r as clip(r) / inside, with the share of residuals that are not clipped, are labels of which the least
squares are that minimum, and the variance about them is that of a robust fit, mean clip(r)^2 / inside^2 (Huber 1964).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from fastpubpriv._types import FloatArray
from fastpubpriv.training.public_linear import (
    LEAST_INSIDE,
    Clip,
    Posterior,
    energy_of,
    linear_posterior,
    marginal_likelihood,
    residual_floor,
    residual_scale,
)
from fastpubpriv.training.stated import Importance
from fastpubpriv.training.whitening import Whitener, weighted_mean

_ROUNDS, _MOST_STEPS, _DONE = 3, 200, 1e-10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedClip:
    """The bound on residuals that the Huber loss has: in the unit of the labels, whatever the size of residuals.

    It is part of what is asked, so that it has no bias.
    """

    threshold: float  # the bound
    # (k,), with counts: of public rows, in units of their scale; and how much each counts in a mean square
    residuals: FloatArray
    counts: FloatArray  # (k,)
    bias_sq: float = 0.0
    unseen_sq: float = 0.0

    def at(self, size: float) -> Clip:
        """The clip where residuals are so large."""
        bound = self.threshold / size
        inside = max(float(np.mean(np.abs(self.residuals) < bound)), LEAST_INSIDE)
        clipped = np.clip(self.residuals, -bound, bound) * np.sqrt(self.counts)
        return Clip(bound=bound, inside=inside, energy=energy_of(clipped, inside), bias_sq=0.0, unseen_sq=0.0)


def huber_posterior(
    terms: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    whitener: Whitener,
    *,
    threshold: float,
    label_resolution: float = 0.0,
    importance: Importance | None = None,
) -> Posterior:
    """As `linear_posterior`, of the coefficients with the least Huber loss; `threshold` is in the unit of the labels."""
    sample: Any = slice(None) if importance is None else importance.sample
    counted = weights if importance is None else weights * importance.weights
    shortened, left = _shortened(terms, labels, counted, whitener, threshold, len(weights[sample]))
    known = linear_posterior(
        terms, shortened, weights, whitener, label_resolution=label_resolution, importance=importance
    )
    residuals, near = known.residuals, weights[sample]
    if not known.blank:
        # What leaving the row out adds is known of the shortened residual.
        residuals = left[sample] + (known.residuals - (known.labels - known.rows @ known.mean))
    usual = residuals * np.sqrt(near)
    scale = residual_scale(residuals, usual, max(1e-12 * float(np.abs(labels).max()), label_resolution))
    clip = FixedClip(threshold=threshold, residuals=usual / scale, counts=np.ones(len(usual)))
    return replace(
        known,
        labels=labels[sample],
        residuals=residuals,
        scale=scale,
        floor=residual_floor(scale, known.floor, len(labels) > known.rows.shape[1]),
        clips=(clip,),
        threshold=threshold,
    )


def _shortened(
    terms: FloatArray, labels: FloatArray, weights: FloatArray, whitener: Whitener, threshold: float, size: int
) -> tuple[FloatArray, FloatArray]:
    """The labels (m,) whose least squares minimise the Huber loss, and the residuals (m,) at the minimum."""
    rows, root = whitener(terms), np.sqrt(weights)
    shape, centred = whitener.ridge(0.0), (terms - whitener.mean) * root[:, None]
    gram = (rows.T * weights) @ rows
    found = np.zeros(rows.shape[1])
    found[0] = float(np.median(labels))
    for _ in range(_ROUNDS):
        left = labels - rows @ found
        inside = max(float(weighted_mean((np.abs(left) < threshold).astype(np.float64), weights)), LEAST_INSIDE)
        moved = labels - left + np.clip(left, -threshold, threshold) / inside
        noise, spread = marginal_likelihood(centred, (moved - weighted_mean(moved, weights)) * root, size)
        ridge = noise / max(spread, 1e-12 * noise, 1e-300) * shape
        ridge[0, 0] += 1e-12 * gram[0, 0]
        found = _minimum(rows, labels, weights / inside, (gram + ridge, ridge), threshold, found)
    left = labels - rows @ found
    inside = max(float(weighted_mean((np.abs(left) < threshold).astype(np.float64), weights)), LEAST_INSIDE)
    return labels - left + np.clip(left, -threshold, threshold) / inside, left


def _minimum(
    rows: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    matrices: tuple[FloatArray, FloatArray],
    threshold: float,
    start: FloatArray,
) -> FloatArray:
    """The minimum of the weighted Huber loss with a ridge, by steps with the curvature at a typical residual."""
    curvature, ridge = matrices
    factor = linalg.cho_factor(curvature + 1e-12 * np.trace(curvature) / len(curvature) * np.eye(len(curvature)))

    def value(w: FloatArray) -> float:
        size = np.abs(labels - rows @ w)
        each = np.where(size <= threshold, 0.5 * size**2, threshold * (size - 0.5 * threshold))
        return float(weights @ each) + 0.5 * float(w @ ridge @ w)

    found, best = start, value(start)
    for _ in range(_MOST_STEPS):
        slope = rows.T @ (weights * np.clip(labels - rows @ found, -threshold, threshold)) - ridge @ found
        step, length = linalg.cho_solve(factor, slope), 1.0
        candidate, reached = found + step, math.inf
        while length > 1e-9 and not (reached := value(candidate)) <= best - 0.25 * length * float(slope @ step):
            length /= 2.0
            candidate = found + length * step
        if not reached < best:
            break
        done = best - reached <= _DONE * max(best, 1e-300)
        found, best = candidate, reached
        if done:
            break
    return found
