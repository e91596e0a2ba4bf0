"""Stable histograms: what a release of noisy counts above a threshold costs, exactly.

Each of `histograms` counts has one bin for a row, or none. For every occupied bin the integer step * count + noise is released if
it is at least the threshold. A replaced row lowers at most one count and raises at most one in each histogram. With v bins that
vanish, a bins that appear and lambda = -log(1 - singleton rate),

    delta(epsilon) = max over v, a of 1 - e^(-v lambda) + e^(-v lambda) H(epsilon - (a - v) lambda, 2 histograms - v - a),

H(x, j) being the profile of j counts moved by one (`mechanisms/notes/stable_histogram.md`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.privacy.budgets import float_down, float_up
from fastpubpriv.privacy.conversions import optimal_composition_delta

Law = Literal["laplace", "gaussian"]

_ROUNDING = 1e-12  # relative; covers the special functions and the products below
_TINY = 1e-300
_WHOLE_GRID = 48  # v and a are all tried up to so many histograms, then in blocks with an upper bound for each
_KOV_BLOCKS = 6


def singleton_rate(law: Law, gap: int, log2_scale: int) -> float:
    """P(noise >= gap) for a gap of at least one grid step, rounded up."""
    z = math.ldexp(gap, -log2_scale)
    if law == "laplace":
        # e^(-z) / (1 + e^(-1 step)), the discrete tail
        rate = math.exp(-z) / (1.0 + math.exp(-math.ldexp(1.0, -log2_scale)))
    else:
        rate = math.exp(float(log_ndtr(-z)))
    return min(1.0, rate * (1 + _ROUNDING) + _TINY)


@lru_cache(maxsize=4096)
def stable_delta(law: Law, histograms: int, step: int, threshold: int, log2_scale: int, epsilon: Fraction) -> float:
    """Least known delta at `epsilon`, rounded up."""
    # Exact for Gaussian noise up to rounding, and for Laplace noise where epsilon covers the 2 histograms moved counts; optimal
    # composition of these otherwise.
    rate = singleton_rate(law, threshold - step, log2_scale)
    if rate >= 1.0:
        return 1.0
    single = -math.log1p(-rate)  # lambda
    piece = Fraction(step, 2**log2_scale)
    if law == "laplace" and 2 * histograms * piece <= epsilon and single * (1 + _ROUNDING) <= float_down(piece):
        # Every other term is at most e^epsilon: only bins that vanish cost delta.
        return min(1.0, -math.expm1(-histograms * single) * (1 + _ROUNDING))
    if law == "gaussian":
        profile = _gaussian_profile(step, log2_scale)
    else:
        profile = _laplace_profile(piece)
    return _largest_case(profile, histograms, single, float_down(epsilon), few=law == "laplace")


Profile = Callable[[FloatArray, IntArray], FloatArray]


def _largest_case(profile: Profile, m: int, single: float, epsilon: float, *, few: bool) -> float:
    """The maximum over v and a; in blocks [v, v'] x [a, a'] where there are many, each term at its worst end."""
    most = _KOV_BLOCKS if few else _WHOLE_GRID
    edges = np.unique(np.linspace(0, m + 1, min(m + 1, most) + 1).astype(np.int64))
    low, high = edges[:-1], edges[1:] - 1
    v_low, a_low = np.meshgrid(low, low, indexing="ij")
    v_high, a_high = np.meshgrid(high, high, indexing="ij")
    shift = (a_high - v_low) * single
    moved = profile(epsilon - shift - np.abs(shift) * _ROUNDING, 2 * m - v_low - a_low)
    vanish = -np.expm1(-v_high * single)
    worst = float((vanish + np.exp(-v_low * single) * moved).max())
    return min(1.0, worst * (1 + 4 * _ROUNDING) + _TINY)


def _gaussian_profile(step: int, log2_scale: int) -> Profile:
    unit = math.ldexp(step, -log2_scale) * (1 + _ROUNDING)

    def profile(x: np.ndarray, moved: np.ndarray) -> np.ndarray:
        mu = np.sqrt(np.maximum(moved, 1)) * unit
        with np.errstate(over="ignore"):
            first = np.exp(log_ndtr(mu / 2 - x / mu))
            second = np.exp(x + log_ndtr(-mu / 2 - x / mu))
        # Both terms are good to a few 1e-14; the margin is on the first, so it does not vanish with the difference.
        gap = first * (1 + _ROUNDING) - second * (1 - _ROUNDING)
        result: np.ndarray = np.where(moved == 0, -np.expm1(np.minimum(x, 0.0)), np.maximum(gap, 0.0))
        return result

    return profile


def _laplace_profile(piece: Fraction) -> Profile:
    up = float_up(piece)

    def one(x: float, count: int) -> float:
        if x < 0:
            # The composition of randomized responses is symmetric: delta(x) = 1 - e^x + e^x delta(-x).
            return min(1.0, -math.expm1(x) * (1 + _ROUNDING) + math.exp(x) * one(-x, count) * (1 + _ROUNDING))
        if count == 0 or count * up <= x:
            return 0.0
        return optimal_composition_delta(up, 0, count, x)

    def profile(x: np.ndarray, moved: np.ndarray) -> np.ndarray:
        pairs = zip(x.ravel().tolist(), moved.ravel().tolist(), strict=True)
        return np.array([one(*pair) for pair in pairs]).reshape(x.shape)

    return profile
