"""Shrinkage of a released covariance that knows the noise: targets, their weight by evidence, and a floor relative to the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.matrices import spectrum, symmetric

GRID = np.exp(np.linspace(math.log(0.5), math.log(1e6), 60))
# Below so many rows' worth of evidence for its diagonal a target is wrong.
LEAST_DIAGONAL = 20.0
# How many e-folds below the public strength an evidence may lie before it is doubted, as a standard deviation.
DOUBT = 1.5
PREVIOUS = "previous"


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """A released covariance with its noise (`std` on the diagonal) and the number of rows it was made of."""

    value: FloatArray
    std: float
    n: float


@dataclass(frozen=True, slots=True, eq=False)
class Turned:
    """A released covariance in the eigenbasis of a target: what shrinkage works on."""

    name: str
    vectors: FloatArray
    target: FloatArray
    released: FloatArray
    scale: FloatArray
    noisy: Noisy

    @property
    def prior(self) -> FloatArray:
        """Variance of the off-diagonal entries around the target, for one row's worth of evidence."""
        return np.outer(self.target, self.target)

    @property
    def sampling(self) -> FloatArray:
        """Sampling variance of the off-diagonal entries. The previous rounds saw the same rows: only noise differs."""
        return np.outer(self.scale, self.scale) / self.noisy.n

    @property
    def error(self) -> FloatArray:
        """Variance of the off-diagonal entries of the release that the target does not share."""
        noise = self.noisy.std**2 / 2.0
        return np.full_like(self.released, noise) if self.name == PREVIOUS else self.sampling + noise


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """A target with its evidence: worth so many rows on the diagonal and off it, and the error it is predicted to leave."""

    turned: Turned
    diagonal: float
    off: float
    log_likelihood: float

    def strengths(self) -> FloatArray:
        """Rows' worth of evidence of each entry."""
        side = len(self.turned.target)
        return np.where(np.eye(side, dtype=bool), self.diagonal, self.off)

    @property
    def error_sq(self) -> float:
        """Predicted squared relative Frobenius error."""
        turned, prior = self.turned, self.turned.prior / self.strengths()
        left = prior * turned.error / (prior + turned.error)
        if turned.name == PREVIOUS:
            left = left + turned.sampling
        factor = 1.0 + np.eye(len(prior))
        return float(np.sum(factor * left / np.outer(turned.scale, turned.scale)))

    @property
    def reported_error_sq(self) -> float:
        """`error_sq` without the credit for what was fitted: entries of the diagonal, and evidence within a standard error.

        As many entries as tell the evidence leave its variance uncertain by that many halves of them, as a share.
        """
        turned = self.turned
        side = len(turned.target)
        doubt = np.full((side, side), math.sqrt(4.0 / max(side * (side - 1), 2)))
        np.fill_diagonal(doubt, math.sqrt(2.0 / side))
        prior = turned.prior / self.strengths() + np.minimum(doubt, 1.0) * turned.error
        left = prior * turned.error / (prior + turned.error)
        if turned.name == "diagonal":
            np.fill_diagonal(left, np.diag(turned.error))
        if turned.name == PREVIOUS:
            left = left + turned.sampling
        factor = 1.0 + np.eye(side)
        return float(np.sum(factor * left / np.outer(turned.scale, turned.scale)))

    def shrunk(self) -> FloatArray:
        """The release drawn to the target by the weight of each entry, in the target's eigenbasis."""
        prior = self.turned.prior / self.strengths()
        target = np.diag(self.turned.target)
        return target + prior / (prior + self.turned.error) * (self.turned.released - target)


def turned(name: str, target: FloatArray, noisy: Noisy) -> Turned:
    """The release in the eigenbasis of `target`."""
    values, vectors = spectrum(target)
    values = np.maximum(values, 1e-13 * max(float(values[-1]), np.finfo(np.float64).tiny))
    released = symmetric(vectors.T @ noisy.value @ vectors)
    scale = np.maximum(np.diag(released), np.minimum(0.2 * values, noisy.std * math.sqrt(len(values))))
    return Turned(name, vectors, values, released, np.maximum(scale, 1e-13 * values), noisy)


def weigh(one: Turned, low: float) -> Weighed:
    """Find how much the target is worth, for the diagonal and the off-diagonal entries each by itself.

    `low` is the public strength in degrees of freedom: a prior doubt of what lies far below it.
    """
    side = len(one.target)
    upper = np.triu_indices(side, 1)
    gaps = one.released - np.diag(one.target)
    found, total = [], 0.0
    for entries, factor in (((np.arange(side),) * 2, 2.0), (upper, 1.0)):
        squares, prior, error = np.square(gaps[entries]), one.prior[entries], one.error[entries]
        variance = factor * (prior / GRID[:, None] + error)
        levels = -0.5 * np.sum(squares / variance + np.log(variance), axis=1)
        if one.name != PREVIOUS:
            levels -= 0.5 * np.square(np.minimum(np.log(GRID / low), 0.0) / DOUBT)
        best = int(np.argmax(np.nan_to_num(levels, nan=-np.inf)))
        found.append(float(GRID[best]))
        total += float(levels[best])
    if one.name == "diagonal":
        total -= side / 2.0  # for the entries that were fitted
    return Weighed(one, found[0], found[1], total)


def chosen(targets: dict[str, FloatArray], noisy: Noisy, low: float) -> Weighed:
    """The target to shrink to: the likeliest, or the rounds before where they are predicted to leave less error."""
    weighed = {name: weigh(turned(name, target, noisy), low) for name, target in targets.items()}
    previous = weighed.pop(PREVIOUS, None)
    able = [each for each in weighed.values() if previous is None or each.diagonal >= LEAST_DIAGONAL]
    if not able:
        assert previous is not None
        return previous
    best = max(able, key=lambda each: each.log_likelihood)
    return previous if previous is not None and previous.error_sq < best.error_sq else best


def repaired(weighed: Weighed) -> tuple[FloatArray, int]:
    """The shrunk covariance with its eigenvalues raised to a floor relative to the noise, and how many were raised.

    Never a floor relative to the largest eigenvalue: that is far above the small ones of a covariance whose columns differ.
    """
    target, std = weighed.turned.target, weighed.turned.noisy.std
    floor = np.minimum(0.2 * target, 0.35 * std * math.sqrt(2.0 * len(target)) + 1e-9 * target)
    root = np.sqrt(np.maximum(floor, 1e-13 * float(np.max(target))))
    values, vectors = spectrum(symmetric(weighed.shrunk() / np.outer(root, root)))
    raised = int(np.count_nonzero(values < 1.0))
    inner = (vectors * np.maximum(values, 1.0)) @ vectors.T * np.outer(root, root)
    turn = weighed.turned.vectors
    return symmetric(turn @ inner @ turn.T), raised
