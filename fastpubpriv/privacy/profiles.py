"""Closed-form privacy profiles of one step with Gaussian noise on the sum over a random sample of the rows.

Lengths are in units of the clipping norm C: the noise has standard deviation z = `noise_multiplier`. A profile is the least delta
at each epsilon >= 0 for the worst pair of neighbours. Every value is rounded up by a stated bound on the rounding of its terms.

Derivations: `mechanisms/notes/subsampled_gaussian.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy.special import log_ndtr

from fastpubpriv._types import FloatArray

Profile: TypeAlias = Callable[[FloatArray], FloatArray]

ULP = 2.0**-53
_LARGE = 30.0  # from here on, e^epsilon - 1 is taken in logarithms


@dataclass(frozen=True, slots=True)
class StepProfile:
    """The worst pair (P, Q) of one step, by its two profiles on epsilon >= 0; together they are the profile on the whole line."""

    above: Profile  # sup over events of P(event) - e^epsilon Q(event)
    below: Profile  # the same with P and Q exchanged

    @property
    def swapped(self) -> StepProfile:
        """The pair (Q, P)."""
        return StepProfile(self.below, self.above)


def poisson_replace(rate: float, noise_multiplier: float) -> StepProfile:
    """Each row sampled with probability `rate`, one row replaced: (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1).

    The pair is its own mirror image, so one profile serves both directions.
    """
    profile = partial(_replace, q=rate, z=noise_multiplier)
    return StepProfile(profile, profile)


def poisson_remove(rate: float, noise_multiplier: float) -> StepProfile:
    """Each row sampled with probability `rate`, one row removed: (1-q) N(0) + q N(1) against N(0). Adding a row is `.swapped`."""
    return StepProfile(
        partial(_remove, q=rate, z=noise_multiplier, s=1.0), partial(_add, q=rate, z=noise_multiplier, s=1.0)
    )


def fixed_size_replace(rate: float, noise_multiplier: float) -> StepProfile:
    """A batch of fixed size drawn without replacement, one row replaced: (1-q) N(0) + q N(2) against N(0), spliced with its mirror
    image at epsilon = 0.
    """
    profile = partial(_remove, q=rate, z=noise_multiplier, s=2.0)
    return StepProfile(profile, profile)


# ---- the three formulas: gain - cost, each term in logarithms, none of them subtracting numbers of size 1 when q is small


def _log_expm1(epsilon: FloatArray) -> FloatArray:
    result: FloatArray = epsilon + np.log(-np.expm1(-epsilon))
    return result


def _rounded_up(gain: FloatArray, cost: FloatArray, epsilon: FloatArray, far: FloatArray) -> FloatArray:
    """gain - cost plus what rounding may have taken: a term e^(-a^2/2 + ...) has an error of a few ULP (1 + a^2 + epsilon).

    `far` is the largest |a|. The threshold x is where the difference is largest, so its own rounding counts only squared.
    """
    error = ULP * (16.0 + 2.0 * epsilon + 4.0 * far * far) * (gain + cost)
    result: FloatArray = np.clip(gain - cost + error, 0.0, 1.0)
    return result


def _replace(epsilon: FloatArray, *, q: float, z: float) -> FloatArray:
    with np.errstate(divide="ignore", under="ignore"):
        odds = math.log1p(-q) - math.log(q) if q < 1 else -math.inf
        log_y = odds + 0.5 / (z * z) + _log_expm1(epsilon) - 0.5 * epsilon - math.log(2.0)
        asinh = np.where(log_y > _LARGE, log_y + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_y, _LARGE))))
        x = z * z * (0.5 * epsilon + asinh)
        gain = q * np.exp(log_ndtr((1.0 - x) / z))
        cost = q * np.exp(epsilon + log_ndtr(-(x + 1.0) / z))
        if q < 1:
            cost = cost + np.exp(math.log1p(-q) + _log_expm1(epsilon) + log_ndtr(-x / z))
    return _rounded_up(gain, cost, epsilon, (np.abs(x) + 1.0) / z)


def _remove(epsilon: FloatArray, *, q: float, z: float, s: float) -> FloatArray:
    with np.errstate(divide="ignore", under="ignore"):
        near = np.expm1(np.minimum(epsilon, _LARGE))
        # log(e^epsilon - 1 + q)
        log_weight = np.where(epsilon < _LARGE, np.log(near + q), epsilon + np.log1p(-(1.0 - q) * np.exp(-epsilon)))
        log_ratio = np.where(epsilon < _LARGE, np.log1p(near / q), log_weight - math.log(q))
        x = z * z / s * log_ratio + 0.5 * s
        gain = q * np.exp(log_ndtr((s - x) / z))
        cost = np.exp(log_weight + log_ndtr(-x / z))
    return _rounded_up(gain, cost, epsilon, (np.abs(x) + s) / z)


def _add(epsilon: FloatArray, *, q: float, z: float, s: float) -> FloatArray:
    with np.errstate(divide="ignore", under="ignore"):
        # No event has a loss above -log(1-q); from there on the values at the edge stand, which are far below any delta.
        ratio = np.maximum(np.expm1(-epsilon) / q, -1.0 + ULP)
        held = np.minimum(epsilon, -math.log1p(-q))
        x = z * z / s * np.log1p(ratio) + 0.5 * s
        lower = np.exp(log_ndtr(x / z))
        grown = q * np.exp(held)
        gain = grown * lower
        cost = np.expm1(held) * lower + grown * np.exp(log_ndtr((x - s) / z))
    return _rounded_up(gain, cost, epsilon, (np.abs(x) + s) / z)
