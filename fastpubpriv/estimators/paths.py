"""The steps of CoinPress's mean, worked out from public numbers before a row is read, and kept for the next call like it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import (
    LARGEST_SIZE,
    Mode,
    StepRadii,
    budget_shares,
    expected_normal_norm,
    predict_steps,
)
from fastpubpriv.privacy import Grid, gaussian_sum_grid, laplace_sum_grid
from fastpubpriv.run import noise_per_radius


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One clipped sum: its name, its cost and grid, the norm that rows are clipped to, and the noise of the mean."""

    name: str
    cost: Fraction
    grid: Grid
    clip_radius: float
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """All steps, and the noise of the last one on an infinitely fine grid."""

    steps: tuple[Step, ...]
    predicted_noise: float

    def predicted_error(self, n: int, dim: int, row_unit: float) -> float:
        """Expected distance to the mean in standard deviations of a row, from public numbers.

        `row_unit` is how many of them a whitened unit is: above one where the whitening allows for an uncertain covariance.
        """
        noise_std = row_unit * self.predicted_noise
        return expected_normal_norm(dim) * math.sqrt(1.0 / n + noise_std * noise_std)


def planned_steps(
    dim: int, n: int, allowance: Fraction, radius: float, *, pure: bool, steps: int, mode: Mode, failure_prob: float
) -> tuple[Step, ...]:
    """The steps from a ball of `radius`; InputError where a share of the allowance has no grid.

    Each step's noise is known beforehand, and so is the ball of the next.
    """
    radii = StepRadii(dim, n, steps, mode, failure_prob)
    planned = []
    for index, share in enumerate(budget_shares(steps)):
        clip = min(radii.clip(radius), LARGEST_SIZE)
        cost = allowance * share
        grid = (laplace_sum_grid if pure else gaussian_sum_grid)(cost, dim, n)
        noise_std = grid.event.noise_std * grid.step(clip) / n
        planned.append(Step(f"clipped sum, step {index + 1} of {steps}", cost, grid, clip, noise_std))
        radius = radii.after(noise_std)
    return tuple(planned)


# Public numbers only: a radius that was released goes to `planned_steps`, which keeps nothing.
@lru_cache(maxsize=256)
def public_path(
    dim: int, n: int, allowance: Fraction, radius: float, pure: bool, steps: int, mode: Mode, failure_prob: float
) -> Path:
    """The steps from a public ball; InputError, before the debit, unless every step has a grid and a radius."""
    noise = noise_per_radius(dim, pure=pure, allowance=allowance)
    predicted = predict_steps(dim, n, radius, steps=steps, noise_per_radius=noise, mode=mode, failure_prob=failure_prob)
    if max(step.clip_radius for step in predicted) > LARGEST_SIZE:
        raise InputError(
            "the noise of the early steps would make the ball grow without bound: pass fewer steps or a larger budget"
        )
    planned = planned_steps(dim, n, allowance, radius, pure=pure, steps=steps, mode=mode, failure_prob=failure_prob)
    return Path(planned, predicted[-1].noise_std)
