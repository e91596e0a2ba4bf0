"""Shrinkage of a released covariance towards the likeliest of several targets, entry by entry."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.linalg import spectrum, symmetric
from fastpubpriv.gaussians import gaussian_tuning as tuning

PREVIOUS = "previous"


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTarget:
    """A released covariance in the eigenbasis of a shrinkage target, with the target's strength in rows on and off the diagonal."""

    name: str
    vectors: FloatArray
    values: FloatArray
    released: FloatArray
    scale: FloatArray
    std: float  # noise of the diagonal entries of the release
    n: float  # its number of rows
    diagonal: float = 1.0
    off: float = 1.0
    log_likelihood: float = -math.inf

    @property
    def prior(self) -> FloatArray:
        """Prior variance of the off-diagonal entries around the target, and half the prior variance of the diagonal ones."""
        worth = np.where(np.eye(len(self.values), dtype=bool), self.diagonal, self.off)
        return np.outer(self.values, self.values) / worth

    @property
    def sampling(self) -> FloatArray:
        """Sampling variance of the off-diagonal entries."""
        return np.outer(self.scale, self.scale) / self.n

    @property
    def error(self) -> FloatArray:
        """Error variance of the off-diagonal entries of the release; sampling error is shared with a target from the same rows."""
        noise = self.std**2 / 2.0
        return (
            np.full_like(self.released, noise) if self.name == PREVIOUS else self.sampling + noise
        )

    def error_sq(self, *, reported: bool = False) -> float:
        """Return the predicted squared relative Frobenius error; `reported` adds the error of fitted strengths and diagonals."""
        prior = self.prior
        error = self.error
        side = len(self.values)
        if reported:
            doubt = np.full((side, side), math.sqrt(4.0 / max(side * (side - 1), 2)))
            np.fill_diagonal(doubt, math.sqrt(2.0 / side))
            prior = prior + np.minimum(doubt, 1.0) * error
        left = prior * error / (prior + error)
        if reported and self.name == "diagonal":
            np.fill_diagonal(left, np.diag(error))
        if self.name == PREVIOUS:
            left = left + self.sampling
        return float(np.sum((1.0 + np.eye(side)) * left / np.outer(self.scale, self.scale)))

    def repaired(self) -> tuple[FloatArray, int]:
        """Return the release shrunk toward the target entry by entry, with eigenvalues raised to a noise-based floor on each axis.

        The second number is that of raised eigenvalues.
        """
        prior = self.prior
        values = self.values
        turn = self.vectors
        target = np.diag(values)
        shrunk = target + prior / (prior + self.error) * (self.released - target)
        floor = np.minimum(
            0.2 * values, 0.35 * self.std * math.sqrt(2.0 * len(values)) + 1e-9 * values
        )
        root = np.sqrt(np.maximum(floor, 1e-13 * float(np.max(values))))
        relative, vectors = spectrum(symmetric(shrunk / np.outer(root, root)))
        inner = (vectors * np.maximum(relative, 1.0)) @ vectors.T * np.outer(root, root)
        return symmetric(turn @ inner @ turn.T), int(np.count_nonzero(relative < 1.0))


def weighted_target(
    name: str, target: FloatArray, value: FloatArray, std: float, n: float, low: float
) -> WeightedTarget:
    """Fit the strengths of a target by maximum likelihood, with a penalty below `low`, the public degrees of freedom."""
    values, vectors = spectrum(target)
    values = np.maximum(values, 1e-13 * max(float(values[-1]), np.finfo(np.float64).tiny))
    released = symmetric(vectors.T @ value @ vectors)
    side = len(values)
    scale = np.maximum(np.diag(released), np.minimum(0.2 * values, std * math.sqrt(side)))
    one = WeightedTarget(name, vectors, values, released, np.maximum(scale, 1e-13 * values), std, n)
    gaps = released - np.diag(values)
    parts = []
    total = 0.0
    for entries, factor in (((np.arange(side),) * 2, 2.0), (np.triu_indices(side, 1), 1.0)):
        squares = np.square(gaps[entries])
        prior = one.prior[entries]
        error = one.error[entries]
        variance = factor * (prior / tuning.TARGET_GRID[:, None] + error)
        levels = -0.5 * np.sum(squares / variance + np.log(variance), axis=1)
        if name != PREVIOUS:
            levels -= 0.5 * np.square(
                np.minimum(np.log(tuning.TARGET_GRID / low), 0.0) / tuning.DOUBT
            )
        best = int(np.argmax(np.nan_to_num(levels, nan=-np.inf)))
        parts.append(float(tuning.TARGET_GRID[best]))
        total += float(levels[best])
    if name == "diagonal":
        total -= side / 2.0  # penalty for the fitted diagonal entries
    return replace(one, diagonal=parts[0], off=parts[1], log_likelihood=total)


def chosen(
    targets: dict[str, FloatArray], value: FloatArray, std: float, n: float, low: float
) -> WeightedTarget:
    """Return the target of largest likelihood, or the previous rounds where their predicted error is smaller.

    They are for a covariance `value` of n rows, released with noise `std` of its diagonal entries.
    """
    weighted = {
        name: weighted_target(name, target, value, std, n, low) for name, target in targets.items()
    }
    previous = weighted.pop(PREVIOUS, None)
    able = [
        each
        for each in weighted.values()
        if previous is None or each.diagonal >= tuning.LEAST_DIAGONAL
    ]
    if not able:
        assert previous is not None
        return previous
    best = max(able, key=lambda each: each.log_likelihood)
    return previous if previous is not None and previous.error_sq() < best.error_sq() else best
