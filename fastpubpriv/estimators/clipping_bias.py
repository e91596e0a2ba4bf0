"""What the last clipped sum of CoinPress may take from its mean, by the means of all its steps.

A step clips rows to a ball of radius R about c, so that its mean is that of the rows less E[y (1 - R / |y|)+], y = row - c. This is

    pull(mean - c, R) + shape(R):

the first for Gaussian rows about a center that is not their mean, the second for rows that fall off in another way on one side. The
shape is not known before: each coordinate has a normal prior, whose deviation is that of a lognormal column. Means of steps are
from the same rows, so that the difference of two has no sampling error: it shows what the smaller ball takes and the larger does
not. All numbers are in standard deviations of a row, in whitened coordinates, and are public or released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.results.reasons import Reason, Reasons

NODES, _WEIGHTS = special.roots_hermitenorm(64)
WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def lognormal(log_std: float) -> FloatArray:
    """Return a standardized lognormal variable at `NODES`; its logarithms have this standard deviation."""
    growth = math.exp(log_std**2)
    std = math.sqrt(growth * (growth - 1.0))
    return np.asarray((np.exp(log_std * NODES) - math.sqrt(growth)) / std)


LOGNORMAL = lognormal(1.5)  # skewness 33
NONE = np.zeros(0)
FEWEST_PUBLIC = 20  # public rows that show the shape of their tail
EXCESS_ERRORS = 3.0
LEAST_STD = 1e-12  # of a shape, beside balls that hold every row
# Relative error of the pull of rows that are not Gaussian.
PULL_ERROR = 0.5
PULL_ROUNDS = 20  # of the search for the mean whose pulled image was released
# Deviations of noise, pull and shape from which two steps contradict what is assumed of the rows.
CONTRADICTION = 4.0
# Odds for the assumed scale, against any other, from which the means of two steps confirm it.
CONFIRMATION = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class ClippedMean:
    """The mean of rows that were clipped to a ball."""

    radius: float
    noise_std: float
    moved: FloatArray  # (dim,), from the center of the ball

    def in_units(self, unit: float) -> ClippedMean:
        """Return the same mean where its unit is this number."""
        return ClippedMean(self.radius * unit, self.noise_std * unit, self.moved * unit)


@dataclass(frozen=True, slots=True, eq=False)
class ClippingBias:
    """What clipping took from the last mean: a normal variable for each coordinate, and what the means say about the unit."""

    expected: FloatArray  # (dim,)
    std: float  # of each coordinate
    is_held_back: bool  # the center was too far from the mean
    is_contradicted: bool  # the means differ by more than rows of the assumed covariance permit
    # of the least certain coordinate, for the assumed scale against any other
    log_odds: float = -math.inf

    @property
    def reasons(self) -> Reasons:
        """CLIPPED if the answer was held back, or rows are not those of the covariance."""
        return (Reason.CLIPPED,) if self.is_held_back or self.is_contradicted else ()


def expected_loss(coordinate: FloatArray, radius: float, dim: int) -> float:
    """Return what clipping takes from the mean of a coordinate with these equally likely `NODES`; others have unit variance."""
    norm = np.sqrt(np.square(coordinate) + (dim - 1.0))
    lost = np.maximum(norm - radius, 0.0) / np.maximum(norm, radius)
    return float(WEIGHTS @ (coordinate * lost))


def shape_std(radius: float, dim: int) -> float:
    """Return the prior standard deviation of what clipping takes from a coordinate of centered rows."""
    return expected_loss(LOGNORMAL, radius, dim)


def pull(offset: FloatArray, radius: float) -> FloatArray:
    """Return what clipping takes from the mean of unit Gaussian rows at an offset (dim,) from the center of the ball."""
    distance = float(np.linalg.norm(offset))
    if distance == 0.0:
        return np.zeros_like(offset)
    return offset / distance * expected_loss(distance + NODES, radius, len(offset))


def offset_before_pull(moved: FloatArray, radius: float) -> FloatArray:
    """Return the offset of unit Gaussian rows whose clipped mean is at `moved` (dim,) from the center of the ball."""
    offset = moved
    for _ in range(PULL_ROUNDS):
        offset = moved + pull(offset, radius)
    return offset


def public_shape_std(norms: FloatArray, radius: float) -> float:
    """Return a bound on what clipping takes, by the norms of centered public rows; inf if they are few.

    Their tail is taken to be exponential: rows beyond a radius R are a quarter of all times exp(-(R - u) / e), and R is exceeded by
    e on average: u is the upper quartile, e the mean excess over it, here with EXCESS_ERRORS standard errors added.
    """
    if len(norms) < FEWEST_PUBLIC:
        return math.inf
    quartile = float(np.quantile(norms, 0.75))
    outer = norms[norms > quartile]
    if not len(outer):
        return math.inf
    excess = float(np.mean(outer - quartile)) * (1.0 + EXCESS_ERRORS / math.sqrt(len(outer)))
    return 0.25 * excess * math.exp(-max(radius - quartile, 0.0) / excess)


def bias_of_last(means: Sequence[ClippedMean], public_norms: FloatArray = NONE) -> ClippingBias:
    """Return what clipping took from the last of the means of CoinPress's steps; norms of centered public rows may bound it."""
    last = means[-1]
    dim = len(last.moved)
    lognormal_std = max(shape_std(last.radius, dim), LEAST_STD)
    prior = max(min(lognormal_std, public_shape_std(public_norms, last.radius)), LEAST_STD)
    offset = offset_before_pull(last.moved, last.radius)
    last_pull = offset - last.moved
    noise = math.hypot(last.noise_std, prior)
    held_back = bool(np.linalg.norm(last_pull) > CONTRADICTION * noise)
    later = np.zeros(dim)
    narrowest = ClippingBias(last_pull, prior, held_back, False)
    for step, following in zip(means[-2::-1], means[:0:-1], strict=True):
        later = later + following.moved
        before = pull(step.moved + later + last_pull, step.radius)
        # What the last ball takes by the shape of rows, less what the ball of this step takes.
        difference = before - last_pull - later
        error = math.hypot(step.noise_std, last.noise_std)
        error = math.hypot(error, PULL_ERROR * float(np.linalg.norm(before)))
        visible = 1.0 - shape_std(step.radius, dim) / lognormal_std
        precision = 1.0 / prior**2 + (visible / error) ** 2
        std = 1.0 / math.sqrt(precision)
        if not std < narrowest.std:
            continue
        shape = visible * difference / (error**2 * precision)
        allowed = CONTRADICTION * math.hypot(visible * lognormal_std, error)
        odds = math.log(2.0 * last.radius / math.sqrt(2.0 * math.pi) / error)
        log_odds = odds - (float(np.abs(difference).max()) / error) ** 2 / 2.0
        contradicted = bool(np.abs(difference).max() > allowed)
        narrowest = ClippingBias(last_pull + shape, std, held_back, contradicted, log_odds)
    return narrowest
