"""Clip radii, budget shares and steps of CoinPress, and predicted errors of means, from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from scipy.special import gammaln

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.errors import InputError

# CoinPress's constant (BDKU20): probability that a step clips a given row, or that the mean is outside its ball.
STEP_FAILURE = 0.01
FIRST_STEPS_SHARE = Fraction(1, 4)
# With more than six steps the shares of the early ones are too small to shrink a ball.
MAX_AUTO_STEPS = 6
MAX_STEPS = 1000
# Smaller probabilities would underflow when divided among rows; larger sizes would overflow when squared.
LEAST_FAILURE = 1e-100
LARGEST_SIZE = 1e150


def failure_probability(value: Any) -> float:
    """Return the argument `failure_prob` as a float, or raise InputError."""
    failure_prob = validation.probability("failure_prob", value)
    if failure_prob < LEAST_FAILURE:
        raise InputError(
            f"failure_prob must be at least {LEAST_FAILURE:g}, got {failure_prob:g}; for example 0.01"
        )
    return failure_prob


def size(name: str, value: Any) -> float:
    """Return a radius, norm or squared norm. Raise InputError unless it is positive and its square is a normal number."""
    number = validation.positive(name, value)
    if not 1.0 / LARGEST_SIZE <= number <= LARGEST_SIZE:
        raise InputError(
            f"{name} must lie in [{1.0 / LARGEST_SIZE:g}, {LARGEST_SIZE:g}], got {number:g}; change the unit"
        )
    return number


def size_or_auto(name: str, value: Any) -> float | None:
    """Return a radius or norm, or None for "auto"."""
    if not isinstance(value, str):
        return size(name, value)
    validation.choice(name, value, ("auto",))
    return None


def middle_and_half(box: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the middle of bounds on the columns, and half of their range, or raise InputError if it is not a `size`."""
    half = box[1] / 2.0 - box[0] / 2.0
    for value in half:
        size("half of the range of bounds", value)
    return box[0] + half, half


def step_count(steps: Any) -> int | Literal["auto"]:
    """Return the argument `steps`, or raise InputError."""
    if isinstance(steps, str):
        if steps != "auto":
            raise InputError(
                f"steps must be a whole number of at least 1, or 'auto'; got {steps!r}"
            )
        return "auto"
    return validation.integer("steps", steps, minimum=1, maximum=MAX_STEPS)


def chi_radius(dim: int, failure_prob: float) -> float:
    """Return tb(d, b): a standard normal vector in d dimensions is longer with probability at most b (Hanson-Wright)."""
    tail = -math.log(failure_prob)
    return math.sqrt(dim + 2.0 * math.sqrt(dim * tail) + 2.0 * tail)


@lru_cache(maxsize=256)
def expected_normal_norm(dim: int) -> float:
    """Return E |N(0, I_d)| = sqrt(2) Gamma((d + 1) / 2) / Gamma(d / 2)."""
    return math.sqrt(2.0) * math.exp(gammaln((dim + 1) / 2.0) - gammaln(dim / 2.0))


@lru_cache(maxsize=64)
def budget_shares(steps: int, early: Fraction = FIRST_STEPS_SHARE) -> tuple[Fraction, ...]:
    """Return the shares of the steps: equal ones of `early` for all but the last, which has the rest; together one exactly."""
    if steps == 1:
        return (Fraction(1),)
    return (early / (steps - 1),) * (steps - 1) + (1 - early,)


@lru_cache(maxsize=256)
def gap_radius(dim: int, n_pub: int, failure_prob: float, pub_priv_gap: float) -> float:
    """Return a bound, in private standard deviations, on the distance from the public mean to the private mean.

    Gap 0 is Claim 2.1 of the paper, averaged over the public rows. For larger gaps the two univariate facts inside Lemma B.9 are
    used before they are rounded up, so that the bound is continuous at gap 0, unlike the constants of Lemma B.10.
    """
    own = chi_radius(dim, failure_prob) / math.sqrt(n_pub)
    return gap_ratio(pub_priv_gap) * (gap_shift(pub_priv_gap) + own)


def gap_ratio(pub_priv_gap: float) -> float:
    """Return the largest ratio s of two Gaussians' standard deviations in one direction: s + 1/s <= 2 / (1 - gap)^2."""
    half_sum = 1.0 / (1.0 - pub_priv_gap) ** 2
    return half_sum + math.sqrt((half_sum - 1.0) * (half_sum + 1.0))


def gap_shift(pub_priv_gap: float) -> float:
    """Return the largest distance of two Gaussians' means in one direction, in units of the larger standard deviation."""
    return math.sqrt(-8.0 * math.log1p(-pub_priv_gap))


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One clipped sum of CoinPress's mean, from public numbers: its share of the allowance, clip radius, noise and error."""

    share: Fraction
    clip_radius: float
    noise_std: float
    error: float


def predict_steps(
    dim: int,
    n: int,
    radius: float,
    *,
    steps: int,
    noise: Callable[[Fraction, float], float],
    mode: Mode,
    failure_prob: float,
) -> list[PlannedStep]:
    """Plan CoinPress steps for unit covariance from a ball of `radius` that holds the mean.

    `noise` maps a share of the allowance and a clip radius to the noise of each coordinate of the sum.
    """
    path = []
    theory = mode == "theory"
    for share in budget_shares(steps):
        if theory:
            # Lemma 2.2 for a single step, otherwise BDKU20's union bound over rows and steps.
            union = 2.0 if steps == 1 else 4.0 * steps
            clip = radius + chi_radius(dim, failure_prob / (union * n))
        else:
            row = chi_radius(dim, STEP_FAILURE)
            # 6r stands for 2 r sqrt(2 log(2 / b)): a row's component towards the true mean is one-dimensional.
            clip = min(math.sqrt(radius * radius + 6.0 * radius + row * row), radius + row)
        clip = min(clip, LARGEST_SIZE)
        std = noise(share, clip) / n
        path.append(
            PlannedStep(
                share, clip, std, expected_normal_norm(dim) * math.sqrt(1.0 / n + std * std)
            )
        )
        # Radius of the ball around the released center that holds the mean.
        probability = failure_prob / (4.0 * steps) if theory else STEP_FAILURE
        radius = chi_radius(dim, probability) * math.sqrt(1.0 / n + std * std)
    return path


def best_steps(dim: int, n: int, radius: float, steps: int | str = "auto", **settings: Any) -> int:
    """Return the given number of steps; for "auto", the fewest of 1 to MAX_AUTO_STEPS with the least predicted error."""
    if not isinstance(steps, str):
        return steps
    return min(
        range(1, MAX_AUTO_STEPS + 1),
        key=lambda count: predict_steps(dim, n, radius, steps=count, **settings)[-1].error,
    )


def planned_steps(
    run: session.Session,
    allowance: Fraction,
    radius: float,
    steps: int | str = "auto",
    **settings: Any,
) -> list[PlannedStep]:
    """Plan the given number of steps, or that of least predicted error, on the grids of an allowance; raise if there is none."""
    account = run.account
    dim = run.rows.dim
    n = run.rows.n
    spending = account.spend(allowance)

    def on_grid(share: Fraction, clip: float) -> float:
        grid = spending.part(share).grid("sum", dim, n)
        return grid.event.noise_std * grid.step(clip)

    count = best_steps(
        dim,
        n,
        radius,
        steps,
        noise=lambda share, clip: clip * spending.std("sum", dim, share),
        **settings,
    )
    return predict_steps(dim, n, radius, steps=count, noise=on_grid, **settings)
