"""What is known in hindsight about one column: the best clip radius, no privacy, the public rows alone. Exact, not simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv import PureDP

# The best radius in hindsight keeps at least this share of the population.
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
        """Standard deviation of the noise on a sum of rows clipped to radius 1 when the whole budget pays for it."""
        return math.sqrt(8.0) / self.amount if self.notion == "epsilon" else math.sqrt(2.0 / self.amount)

    @property
    def equivalent_epsilon(self) -> float:
        """The pure epsilon that costs as much: epsilon^2 / 2 in zCDP."""
        return self.amount if self.notion == "epsilon" else math.sqrt(2.0 * self.amount)

    def label(self) -> str:
        """n, budget and public rows in a few characters."""
        return f"{self.notion} {self.amount:g}, n = {self.n:,}, {self.n_pub} public"


def equivalent_pure(cell: Cell) -> PureDP:
    """The pure budget of the same price, for peers that know no other."""
    return PureDP(epsilon=cell.equivalent_epsilon)


def best_radius_error(values: np.ndarray, cell: Cell) -> float:
    """Root mean squared error of the best symmetric radius about the population median, chosen in hindsight.

    The radius keeps at least `LEAST_KEPT` of the population; the whole budget buys one clipped sum. Error = clipping bias,
    sampling of the clipped rows and noise.
    """
    distance = np.sort(np.abs(values - np.median(values)))
    candidates = np.unique(distance[int(LEAST_KEPT * (len(distance) - 1)) :])
    # Columns of whole numbers have few distinct values: each is looked at once.
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
    """Standard deviation of the mean of n rows."""
    return float(values.std()) / math.sqrt(cell.n)


def public_error(values: np.ndarray, cell: Cell) -> float:
    """Standard deviation of the mean of the public rows."""
    return float(values.std()) / math.sqrt(cell.n_pub)
