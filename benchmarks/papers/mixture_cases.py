"""Mixtures to draw rows from, and the total variation distance of a released one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from fastpubpriv._types import FloatArray

FAR = 1e9
_REACH = np.linspace(-9.0, 9.0, 2401)


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """An axis-aligned mixture: weights (k,), means and stds (k, dim)."""

    weights: FloatArray
    means: FloatArray
    stds: FloatArray

    @classmethod
    def line(cls, weights: list[float], means: list[float], stds: list[float]) -> Truth:
        """Return a one-dimensional mixture."""
        return cls(np.array(weights), np.array(means)[:, None], np.array(stds)[:, None])

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n rows, shape (n, dim)."""
        labels = rng.choice(len(self.weights), n, p=self.weights)
        rows: FloatArray = self.means[labels] + self.stds[labels] * rng.standard_normal(
            (n, self.means.shape[1])
        )
        return rows

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density (n,) at points (n, dim)."""
        parts = [
            math.log(w) - 0.5 * np.sum(((points - m) / s) ** 2, axis=1) - np.log(s).sum()
            for w, m, s in zip(self.weights, self.means, self.stds, strict=True)
            if w > 0.0
        ]
        density: FloatArray = logsumexp(parts, axis=0) - 0.5 * points.shape[1] * math.log(
            2.0 * math.pi
        )
        return density


# The four cases of the acceptance table, with median total variation of a first version by rows, at epsilon = 1.
CASES = {
    "N(1000, 3^2)": Truth.line([1.0], [1000.0], [3.0]),
    "two": Truth.line([0.5, 0.5], [-2.0, 3.0], [1.0, 0.5]),
    "concentric": Truth.line([0.4, 0.6], [0.0, 0.0], [1.0, 10.0]),
    "three": Truth.line([0.3, 0.3, 0.4], [-5.0, 0.0, 4.0], [1.0, 0.3, 2.0]),
}
FIRST_VERSION = {
    "N(1000, 3^2)": {5000: 0.057, 20_000: 0.057, 100_000: 0.003},
    "two": {5000: 0.191, 20_000: 0.100, 100_000: 0.022},
    "concentric": {5000: 0.327, 20_000: 0.201, 100_000: 0.072},
    "three": {5000: 0.275, 20_000: 0.169, 100_000: 0.036},
}


def anywhere(rng: np.random.Generator, components: int) -> Truth:
    """Return a mixture with means within 1e9 of zero, standard deviations over two decades, weights of at least 0.15."""
    weights = rng.dirichlet(np.full(components, 5.0)) * (1.0 - 0.15 * components) + 0.15
    return Truth(
        weights,
        rng.uniform(-FAR, FAR, (components, 1)),
        10.0 ** rng.uniform(-1.0, 1.0, (components, 1)),
    )


def blobs(rng: np.random.Generator, components: int, dim: int) -> Truth:
    """Return a mixture with equal weights, means N(0, 3^2), standard deviations e^N(0, 0.7^2)."""
    return Truth(
        np.full(components, 1.0 / components),
        rng.normal(0.0, 3.0, (components, dim)),
        np.exp(rng.normal(0.0, 0.7, (components, dim))),
    )


def released(result: Any) -> Truth:
    """Return a released mixture as a `Truth`."""
    return Truth(result.weights, result.means, np.sqrt(result.variances))


def distance_on_line(one: Truth, other: Truth) -> float:
    """Return the total variation of two one-dimensional mixtures, by the trapezoid rule on points dense around every component."""
    centers = np.concatenate([one.means[:, 0], other.means[:, 0]])
    spreads = np.concatenate([one.stds[:, 0], other.stds[:, 0]])
    points = np.unique((centers[:, None] + spreads[:, None] * _REACH).ravel())
    gap = np.abs(
        np.exp(one.log_density(points[:, None])) - np.exp(other.log_density(points[:, None]))
    )
    return float(0.25 * np.sum((gap[1:] + gap[:-1]) * np.diff(points)))


def distance_by_draws(
    one: Truth, other: Truth, rng: np.random.Generator, draws: int = 10_000
) -> float:
    """Return the total variation in any dimension: the mean of |p - q| / (p + q) over draws from (p + q) / 2."""
    points = np.concatenate([one.draw(rng, draws), other.draw(rng, draws)])
    return float(
        np.mean(np.abs(np.tanh((one.log_density(points) - other.log_density(points)) / 2.0)))
    )
