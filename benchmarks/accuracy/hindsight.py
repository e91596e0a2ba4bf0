"""Exact errors for one column, without simulation: the best clip radius in hindsight, no privacy, and the public rows alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv import PureDP

# Least fraction of the population within the best radius in hindsight.
LEAST_KEPT = 0.8
MOST_RADII = 400


@dataclass(frozen=True)
class Cell:
    """Sizes and budget of one comparison. `notion` is "rho" or "epsilon"."""

    n: int
    n_pub: int
    notion: str
    amount: float

    @property
    def noise_per_radius(self) -> float:
        """Noise standard deviation of a sum of rows clipped to radius 1 that spends the complete budget."""
        return (
            math.sqrt(8.0) / self.amount
            if self.notion == "epsilon"
            else math.sqrt(2.0 / self.amount)
        )

    @property
    def equivalent_epsilon(self) -> float:
        """Pure epsilon whose zCDP cost, epsilon^2 / 2, equals the budget."""
        return self.amount if self.notion == "epsilon" else math.sqrt(2.0 * self.amount)

    def label(self) -> str:
        """Return budget, n and public rows as a short text."""
        return f"{self.notion} {self.amount:g}, n = {self.n:,}, {self.n_pub} public"


def equivalent_pure(cell: Cell) -> PureDP:
    """Return the equivalent pure budget, for peers that accept no other."""
    return PureDP(epsilon=cell.equivalent_epsilon)


def best_radius_error(values: np.ndarray, cell: Cell) -> float:
    """Return the root mean squared error of the best symmetric radius around the population median, chosen in hindsight.

    At least `LEAST_KEPT` of the population lies within the radius; one clipped sum spends the complete budget. The squared error is
    squared clipping bias, plus sampling variance of the clipped rows, plus noise variance.
    """
    distance = np.sort(np.abs(values - np.median(values)))
    candidates = np.unique(distance[int(LEAST_KEPT * (len(distance) - 1)) :])
    # Integer columns have few distinct values, each of which is evaluated once.
    shifted, rows = np.unique(values - np.median(values), return_counts=True)
    weight = rows / len(values)
    if len(candidates) > MOST_RADII:
        candidates = candidates[np.linspace(0, len(candidates) - 1, MOST_RADII).astype(int)]
    mean = float(weight @ shifted)
    least = math.inf
    for radius in candidates:
        clipped = np.clip(shifted, -radius, radius)
        noise = radius * cell.noise_per_radius / cell.n
        middle = float(weight @ clipped)
        variance = float(weight @ (clipped - middle) ** 2)
        least = min(least, (middle - mean) ** 2 + variance / cell.n + noise**2)
    return math.sqrt(least)


def non_private_error(values: np.ndarray, cell: Cell) -> float:
    """Return the standard error of the mean of n rows."""
    return float(values.std()) / math.sqrt(cell.n)


def public_error(values: np.ndarray, cell: Cell) -> float:
    """Return the standard error of the mean of the public rows."""
    return float(values.std()) / math.sqrt(cell.n_pub)
