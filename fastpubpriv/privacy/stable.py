"""Stable histograms: what a release of noisy counts above a threshold costs, exactly, and how to choose its integers.

Each of `histograms` counts has one bin for a row, or none. For every occupied bin the integer step * count + noise is released if
it is at least the threshold. A replaced row lowers at most one count and raises at most one in each histogram. With v bins that
vanish, a bins that appear and lambda = -log(1 - singleton rate),

    delta(epsilon) = max over v, a of 1 - e^(-v lambda) + e^(-v lambda) H(epsilon - (a - v) lambda, 2 histograms - v - a),

H(x, j) being the profile of j counts moved by one (`mechanisms/notes/stable_histogram.md`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy.budgets import ApproxDP, Cost
from fastpubpriv.privacy.composition import optimal_composition_delta
from fastpubpriv.privacy.conversions import gdp_mu, largest
from fastpubpriv.privacy.exact import Number, exact, float_down, float_up, show, whole
from fastpubpriv.privacy.relations import Neighbors

Law = Literal["laplace", "gaussian"]

HISTOGRAMS_MAX = 2**20
_SCALES = range(40, 7, -1)  # the samplers' log2 scales, finest first
_STEP_MAX = 2**40
_MAX_TOTAL = 2**62
_CUT = {"laplace": 128, "gaussian": 16}  # the samplers never exceed cut * 2^m
_GAUSSIAN_INFLATION = 1 + Fraction(1, 10**4)
_ROUNDING = 1e-12  # relative; covers the special functions and the products below
_TINY = 1e-300
_WHOLE_GRID = 48  # v and a are all tried up to so many histograms, then in blocks with an upper bound for each
_KOV_FROM, _KOV_BLOCKS = 4, 6


@dataclass(frozen=True, slots=True)
class StableHistogramEvent:
    """Occupied bins released with noisy counts where step * count + noise >= threshold.

    Parameters
    ----------
    law : "laplace" or "gaussian"
        Discrete Laplace noise of scale 2^log2_scale, or floor(N(0, 4^log2_scale)).
    histograms : int
        How many histograms; a row counts in at most one bin of each.
    step : int
        Grid steps per counted row.
    threshold : int
        Least integer that is released; at least step + 1.
    log2_scale : int
        8 to 40.
    epsilon : number
        Where delta is stated.
    draws : int
        Noise draws, used or not: a public bound on the occupied bins.
    relation : Neighbors
        Replace-one.

    Examples
    --------
    >>> event = StableHistogramEvent("laplace", 1, 128, 8 * 128, 8, Fraction(1), draws=10)
    >>> f"{float(event.delta):.6f}", event.count_threshold
    ('0.015128', 8.0)
    """

    law: Law
    histograms: int
    step: int
    threshold: int
    log2_scale: int
    epsilon: Fraction
    draws: int
    relation: Neighbors = Neighbors.REPLACE_ONE

    def __post_init__(self) -> None:
        if self.law not in _CUT:
            raise BudgetError(f"law must be 'laplace' or 'gaussian', got {self.law!r}")
        whole(self.histograms, "histograms")
        whole(self.step, "step")
        whole(self.threshold, "threshold", at_least=self.step + 1)
        if whole(self.log2_scale, "log2_scale", at_least=_SCALES[-1]) > _SCALES[0]:
            raise BudgetError(f"log2_scale must be at most {_SCALES[0]}, got {self.log2_scale}")
        whole(self.draws, "draws", at_least=0)
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        if self.epsilon <= 0:
            raise BudgetError(f"epsilon must be > 0, got {show(self.epsilon)}")
        if self.relation is not Neighbors.REPLACE_ONE:
            raise BudgetError("a stable histogram is accounted for under replace-one")

    @property
    def delta(self) -> Fraction:
        """delta at `epsilon`, rounded up; exact for one histogram and for Gaussian noise."""
        return Fraction(
            stable_delta(self.law, self.histograms, self.step, self.threshold, self.log2_scale, self.epsilon)
        )

    @property
    def singleton_rate(self) -> float:
        """Chance that a bin with one row is released, rounded up."""
        return singleton_rate(self.law, self.threshold - self.step, self.log2_scale)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on one integer, in grid steps."""
        return math.ldexp(math.sqrt(2.0) if self.law == "laplace" else 1.0, self.log2_scale)

    @property
    def count_noise_std(self) -> float:
        """Standard deviation of the noise on a count."""
        return self.noise_std / self.step

    @property
    def count_threshold(self) -> float:
        """The threshold on a noisy count."""
        return self.threshold / self.step

    @property
    def cost(self) -> Cost:
        """The (epsilon, delta) cost."""
        return Cost(ApproxDP, (self.epsilon, self.delta))

    @property
    def total_variation(self) -> Fraction:
        """Distance of the sampled noise from its ideal law, at most draws 2^-100."""
        return self.draws * Fraction(1, 2**100)


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
    """Least known delta at `epsilon`, rounded up: exact for Gaussian noise up to rounding, and for Laplace noise where
    epsilon covers the 2 histograms moved counts; optimal composition of these otherwise.
    """
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


Profile = Callable[["np.ndarray[tuple[int, ...], np.dtype[np.float64]]", "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"],
                   "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"]  # fmt: skip


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
            # The composition of randomised responses is symmetric: delta(x) = 1 - e^x + e^x delta(-x).
            return min(1.0, -math.expm1(x) * (1 + _ROUNDING) + math.exp(x) * one(-x, count) * (1 + _ROUNDING))
        if count == 0 or count * up <= x:
            return 0.0
        return optimal_composition_delta(up, 0, count, x)

    def profile(x: np.ndarray, moved: np.ndarray) -> np.ndarray:
        pairs = zip(x.ravel().tolist(), moved.ravel().tolist(), strict=True)
        return np.array([one(*pair) for pair in pairs]).reshape(x.shape)

    return profile


# ---- calibration


@lru_cache(maxsize=512)
def stable_event(
    epsilon: Number, delta: Number, *, histograms: int, n: int, draws: int, law: Law | None = None
) -> StableHistogramEvent:
    """The event that releases most at (epsilon, delta); with `law` None, that of the law with the smaller count_threshold + 2
    count_noise_std, the count that is nearly always released.

    Examples
    --------
    >>> event = stable_event(1, 1e-6, histograms=1, n=10**5, draws=10**5)
    >>> event.law, math.ceil(event.count_threshold), round(event.count_noise_std, 2)
    ('laplace', 28, 2.83)
    >>> event = stable_event(1, 1e-6, histograms=5, n=10**5, draws=10**5)
    >>> event.law, round(event.count_threshold, 1), round(event.count_noise_std, 2)
    ('gaussian', 68.7, 13.36)
    """
    e, d = exact(epsilon, "epsilon"), exact(delta, "delta")
    if e <= 0 or not 0 < d < 1:
        raise BudgetError(f"a stable histogram needs epsilon > 0 and delta in (0, 1), got {show(e)}, {show(d)}")
    m = whole(histograms, "histograms")
    if m > HISTOGRAMS_MAX:
        raise InputError(f"at most {HISTOGRAMS_MAX} histograms can be released together, got {m}")
    if law is not None and law not in _CUT:
        raise InputError(f"noise must be 'laplace', 'gaussian' or 'auto', got {law!r}")
    found = [
        event
        for kind in (("laplace", "gaussian") if law is None else (law,))
        for event in _candidates(kind, e, d, m, whole(n, "n"), whole(draws, "draws", at_least=0))
    ]
    if not found:
        raise InputError(
            f"no stable histogram for epsilon = {show(e)}, delta = {show(d)}, {m} histograms and {n} rows: pass a larger "
            "budget, fewer bins or columns, or fewer rows"
        )
    return min(found, key=lambda event: event.count_threshold + 2 * event.count_noise_std)


def _candidates(law: Law, epsilon: Fraction, delta: Fraction, m: int, n: int, draws: int) -> list[StableHistogramEvent]:
    sizes: list[Callable[[int], int]]  # log2 scale -> grid steps per row
    if law == "gaussian":
        squared = Fraction(gdp_mu(epsilon, delta)) ** 2 / (2 * m * _GAUSSIAN_INFLATION**2)
        sizes = [lambda s: math.isqrt(math.floor(squared * 4**s))]
    else:
        sizes = [lambda s: math.floor(epsilon * 2**s / (2 * m))]
        if m >= _KOV_FROM:
            goal, pieces = float_down(delta) / 2, 2 * m
            high = min(float(epsilon), 30.0)
            best = largest(
                lambda x: optimal_composition_delta(x, 0, pieces, epsilon) <= goal, float_down(epsilon / pieces), high
            )
            sizes.append(lambda s: math.floor(Fraction(best) * 2**s))
    events = []
    for size in sizes:
        # The finest grid on which n counted rows, the noise and the threshold fit into 64 bits.
        for scale in _SCALES:
            step = size(scale)
            if 1 <= step <= _STEP_MAX and n * step + (_CUT[law] + 64) * 2**scale < _MAX_TOTAL:
                threshold = _least_threshold(law, m, step, scale, epsilon, delta)
                if threshold is not None:
                    events.append(StableHistogramEvent(law, m, step, threshold, scale, epsilon, draws))
                break
    return events


def _least_threshold(law: Law, m: int, step: int, scale: int, epsilon: Fraction, delta: Fraction) -> int | None:
    """The least threshold at which delta is kept, or None; a larger threshold is post-processing, so delta falls with it."""
    cut = _CUT[law] // 2 if law == "laplace" else _CUT[law]

    def keeps(threshold: int) -> bool:
        return Fraction(stable_delta(law, m, step, threshold, scale, epsilon)) <= delta

    low = step
    high: int = step + cut * 2**scale
    if not keeps(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
