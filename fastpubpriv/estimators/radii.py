"""Clip radii, budget shares, predicted errors of means, and clipping regions, from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.errors import InputError, warn
from fastpubpriv.mechanisms.sums import AffineMap

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
        raise InputError(f"failure_prob must be at least {LEAST_FAILURE:g}, got {failure_prob:g}; for example 0.01")
    return failure_prob


def size(name: str, value: Any) -> float:
    """Return a radius, norm or squared norm. Raise InputError unless it is positive and its square is a normal number."""
    number = validation.positive(name, value)
    if not 1.0 / LARGEST_SIZE <= number <= LARGEST_SIZE:
        raise InputError(
            f"{name} must lie in [{1.0 / LARGEST_SIZE:g}, {LARGEST_SIZE:g}], got {number:g}; change the unit"
        )
    return number


def step_count(steps: Any) -> int | Literal["auto"]:
    """Return the argument `steps`, or raise InputError."""
    if isinstance(steps, str):
        if steps != "auto":
            raise InputError(f"steps must be a whole number of at least 1, or 'auto'; got {steps!r}")
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
def budget_shares(steps: int) -> tuple[Fraction, ...]:
    """Return the shares of the steps: 3/4 for the last, equal ones for the others; they add up to one exactly."""
    if steps == 1:
        return (Fraction(1),)
    return (FIRST_STEPS_SHARE / (steps - 1),) * (steps - 1) + (1 - FIRST_STEPS_SHARE,)


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
class StepRadii:
    """Clip radius of one CoinPress step, and the radius of the ball around its answer that holds the mean."""

    dim: int
    n: int
    steps: int
    mode: Mode
    failure_prob: float

    def clip(self, radius: float) -> float:
        """Return the clip radius around a center within `radius` of the mean, for unit covariance."""
        if self.mode == "theory":
            # Lemma 2.2 for a single step, otherwise BDKU20's union bound over rows and steps.
            share = 2.0 if self.steps == 1 else 4.0 * self.steps
            return radius + chi_radius(self.dim, self.failure_prob / (share * self.n))
        row = chi_radius(self.dim, STEP_FAILURE)
        # 6r stands for 2 r sqrt(2 log(2 / b)): a row's component towards the true mean is one-dimensional.
        return min(math.sqrt(radius * radius + 6.0 * radius + row * row), radius + row)

    def after(self, noise_std: float) -> float:
        """Return the radius of the ball around the released center, for Gaussian `noise_std` of the mean in one coordinate."""
        probability = self.failure_prob / (4.0 * self.steps) if self.mode == "theory" else STEP_FAILURE
        return chi_radius(self.dim, probability) * math.sqrt(1.0 / self.n + noise_std * noise_std)


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """The numbers of one step, predicted from public numbers."""

    clip_radius: float
    noise_std: float
    error: float


def predict_steps(
    dim: int,
    n: int,
    radius: float,
    *,
    steps: int,
    noise_per_radius: Callable[[Fraction], float],
    mode: Mode,
    failure_prob: float,
) -> list[PredictedStep]:
    """Predict the error of each CoinPress step; `noise_per_radius` maps a share to the noise of a sum clipped to radius 1."""
    radii = StepRadii(dim, n, steps, mode, failure_prob)
    path = []
    for share in budget_shares(steps):
        clip = radii.clip(radius)
        noise = clip * noise_per_radius(share) / n
        path.append(PredictedStep(clip, noise, expected_normal_norm(dim) * math.sqrt(1.0 / n + noise * noise)))
        radius = radii.after(noise)
    return path


def best_steps(dim: int, n: int, radius: float, steps: int | str = "auto", **settings: Any) -> int:
    """Return the given number of steps; for "auto", the fewest of 1 to MAX_AUTO_STEPS with the least predicted error."""
    if not isinstance(steps, str):
        return steps
    return min(
        range(1, MAX_AUTO_STEPS + 1),
        key=lambda count: predict_steps(dim, n, radius, steps=count, **settings)[-1].error,
    )


# Maximum share of public rows beyond a bound without a warning.
MOST_BEYOND = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region:
    """A clipping ball of `radius` about `center`, in units `unit` of each column, and the box that holds the answer, if any."""

    center: FloatArray
    unit: FloatArray
    radius: float
    box: tuple[FloatArray, FloatArray] | None
    provenance: dict[str, str]
    counted: bool = False  # the radius will come from a private count of norms

    @property
    def affine(self) -> AffineMap:
        """The map of rows to offsets from the center in these units; it has no matrix if all units are 1."""
        alone = self.box is None and (self.unit == 1.0).all()
        return AffineMap(dim=len(self.center), center=self.center, matrix=None if alone else 1.0 / self.unit)

    def warn_if_contradicted(self, public: FloatArray) -> None:
        """Warn if more than MOST_BEYOND of the public rows would be clipped."""
        lengths = np.linalg.norm((public - self.center) / self.unit, axis=1)
        beyond = int(np.count_nonzero(lengths > self.radius * (1 + 1e-12)))
        if beyond > MOST_BEYOND * len(public):
            name = "norm_bound" if self.box is None else "bounds"
            warn(
                f"weighted_mean: {beyond} of {len(public)} public rows are beyond {name}, and private rows like them would be "
                "clipped; pass larger ones, another center, or norm_bound='auto'",
            )


def units_of(public: FloatArray) -> FloatArray:
    """Return standard deviations of public columns (m, dim), the least for a constant column; ones for one column or one row."""
    stds = np.std(public, axis=0, ddof=1) if len(public) >= 2 and public.shape[1] > 1 else np.zeros(public.shape[1])
    usable = np.isfinite(stds) & (stds > 1.0 / LARGEST_SIZE) & (stds < LARGEST_SIZE)
    return np.where(usable, stds, stds[usable].min()) if usable.any() else np.ones(len(stds))


def clip_region(
    norm_bound: Any, bounds: Any, center: Any, variance: Any, public: FloatArray | None, dim: int
) -> Region:
    """Return the clipping region of a radius and a center, or of `bounds` on the columns. Raise InputError for bad arguments."""
    if (norm_bound is None) == (bounds is None):
        raise InputError("pass either norm_bound=, the distance to which rows are clipped, or bounds=(lowest, highest)")
    box = validation.column_bounds(bounds, dim)
    if box is None:
        auto = isinstance(norm_bound, str) and validation.choice("norm_bound", norm_bound, ("auto",)) == "auto"
        if auto and public is None:
            raise InputError("norm_bound='auto' needs public rows: pass x_pub=, or a number")
        center = "public" if auto and center is None else center
        if isinstance(center, str):
            if center != "public" or public is None:
                raise InputError("center must be None, a number, a vector, or 'public' together with x_pub")
            middle = public.mean(axis=0)
        else:
            middle = session.vector_or_number("center", 0.0 if center is None else center, dim)
        spread_by = public if auto and variance is None else None
        return Region(
            center=middle,
            unit=np.ones(dim) if spread_by is None else units_of(spread_by),
            radius=LARGEST_SIZE if auto else size("norm_bound", norm_bound),
            box=None,
            provenance={
                "center": "public rows" if isinstance(center, str) else "argument",
                "norm_bound": "released" if auto else "argument",
            },
            counted=auto,
        )
    if center is not None or variance is not None:
        raise InputError("bounds= replaces center= and variance=: leave them out")
    half = box[1] / 2.0 - box[0] / 2.0
    for value in half:
        size("half of the range of bounds", value)
    return Region(
        center=box[0] + half,
        unit=half,
        radius=math.sqrt(dim),
        box=box,
        provenance={"center": "argument", "bounds": "argument"},
    )
