"""Conversions between privacy notions, composition theorems, and the cost of stable histograms.

Every result errs toward reporting less privacy.

Directed rounding: a returned epsilon, delta or cost is rounded up; a returned rho or mu that may be spent is
rounded down. Exact inputs (Fractions, Decimals) are first rounded to a float in the direction that keeps this true.
The floating-point formulas below avoid cancellation, and the relative margin `_MARGIN` covers the remaining rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from scipy.special import erfcx, gammaln, log_ndtr, logsumexp

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.budgets import Number, exact, float_down, float_for, float_up, show, whole

__all__ = [
    "advanced_composition",
    "basic_composition",
    "best_epsilon",
    "bun_steinke_epsilon",
    "bun_steinke_rho",
    "exponential_mechanism_rho",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gdp_rho",
    "group_approx",
    "group_mu",
    "group_rho",
    "optimal_composition_delta",
    "optimal_composition_epsilon",
    "pure_to_zcdp",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]

# relative; the formulas were compared with 60-digit arithmetic and stay below half of it
_MARGIN = 4e-13
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_FLOAT_TINY = 2.0**-1022


def real(
    value: Number, name: str, to_float: Callable[[Fraction], float], *, zero: bool = False
) -> float:
    """Return `value` rounded by `to_float`; BudgetError if it is negative or, unless `zero`, zero."""
    number = exact(value, name)
    if number < 0 or (number == 0 and not zero):
        raise BudgetError(f"{name} must be {'>=' if zero else '>'} 0, got {show(number)}")
    try:
        return to_float(number)
    except OverflowError:
        raise BudgetError(f"{name} is too large, got {show(number)}") from None


def delta_in(value: Number) -> float:
    """Return a delta as a float, rounded down; BudgetError unless strictly between 0 and 1."""
    delta = real(value, "delta", float_down)
    if not _FLOAT_TINY <= delta < 1:
        raise BudgetError(
            f"delta must lie strictly between 0 and 1 (and not below 1e-307), got {delta!r}"
        )
    return delta


def _round_up(value: float) -> float:
    return math.nextafter(value * (1 + _MARGIN), math.inf)


def _sum_up(terms: tuple[float, ...]) -> float:
    """Return the sum of the terms, rounded up by more than their rounding errors."""
    return math.fsum(terms) + _MARGIN * math.fsum(map(abs, terms))


def _delta_of_log(log_delta: float) -> float:
    """Return the delta of this logarithm, rounded up and at most 1."""
    if log_delta <= -708:
        return _FLOAT_TINY
    return min(1.0, max(_round_up(math.exp(log_delta)), _FLOAT_TINY))


def largest(keeps: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect for the largest x in [low, high] with keeps(x); assume keeps(low). Return the end that satisfies `keeps`."""
    return high if keeps(high) else _bisect(keeps, low, high)[0]


def smallest(keeps: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect for the smallest x in [low, high] with keeps(x); assume keeps(high). Return the end that satisfies `keeps`."""
    return _bisect(lambda x: not keeps(x), low, high)[1]


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return neighboring floats (a, b) with is_below(a), not is_below(b): geometric bisection to a factor 2, then arithmetic."""
    while True:
        middle = (
            math.sqrt(low) * math.sqrt(high)
            if low > 0 and high / low > 2
            else low + (high - low) / 2
        )
        if not low < middle < high:
            return low, high
        low, high = (middle, high) if is_below(middle) else (low, middle)


# ---- Gaussian differential privacy: delta(epsilon) = Phi(-x) - e^epsilon Phi(-x - mu) with x = epsilon/mu - mu/2.
# As phi(x) = e^epsilon phi(x + mu), this is phi(x) (M(x) - M(x + mu)) with the Mills ratio M, which needs no e^epsilon.
# M' = t M - 1, so the difference is also the integral of 1 - t M(t) over [x, x + mu]: no cancellation when mu is small.


def _one_minus_t_mills(t: np.ndarray) -> np.ndarray:
    """1 - t M(t), by erfcx for t < 3, else by the continued fraction M(t) = 1/(t + C), C = 1/(t + 2/(t + ...))."""
    near = 1 - t * (_SQRT_HALF_PI * erfcx(t / math.sqrt(2)))
    far = np.maximum(t, 3.0)
    fraction = np.zeros_like(far)
    for k in range(120, 0, -1):
        fraction = k / (far + fraction)
    return np.asarray(np.where(t < 3, near, fraction / (far + fraction)))


def _mills(t: float) -> float:
    return _SQRT_HALF_PI * float(erfcx(t / math.sqrt(2)))


def gdp_delta(epsilon: Number, mu: Number) -> float:
    """Least delta at which mu-GDP (Gaussian noise, mu = sensitivity/std) gives (epsilon, delta)-DP, rounded up.

    See Also
    --------
    gdp_epsilon : the epsilon at a given delta.
    zcdp_delta : not all noise is Gaussian.

    Examples
    --------
    >>> f"{gdp_delta(1.0, 0.26805):.3g}"
    '1e-05'
    """
    m = real(mu, "mu", float_up)
    x = real(epsilon, "epsilon", float_down, zero=True) / m - m / 2
    log_density = -x * x / 2 - _HALF_LOG_2PI
    # The logarithm of the exact delta, to about 1e-13.
    if m < 0.25 * max(1.0, x):
        t = x + m * (_NODES + 1) / 2
        value = log_density + math.log(float(np.dot(_WEIGHTS, _one_minus_t_mills(t))) * m / 2)
    elif x >= 0:
        value = log_density + math.log(_mills(x) - _mills(x + m))
    else:
        first = float(log_ndtr(-x))
        value = first + math.log1p(-math.exp(log_density + math.log(_mills(x + m)) - first))
    return _delta_of_log(value)


def gdp_epsilon(delta: Number, mu: Number) -> float:
    """Least epsilon at which a mu-GDP mechanism is (epsilon, delta)-DP, rounded up: the tightest report if all noise is Gaussian.

    See Also
    --------
    gdp_delta : the delta at a given epsilon.
    best_epsilon : chooses between this and the conversion from zCDP.

    Examples
    --------
    >>> f"{gdp_epsilon(1e-6, 1.0):.4f}"
    '4.8866'
    """
    d = delta_in(delta)
    m = real(mu, "mu", float_up)
    if gdp_delta(0, m) <= d:
        return 0.0
    high = _round_up(m * m / 2 + m * math.sqrt(-2 * math.log(d)))
    return smallest(lambda e: gdp_delta(e, m) <= d, 0.0, high)


def gdp_mu(epsilon: Number, delta: Number) -> float:
    """Largest mu for which mu-GDP gives (epsilon, delta)-DP, rounded down. The Gaussian noise is sensitivity/mu.

    See Also
    --------
    gdp_rho : the same as a rho.
    gdp_epsilon : the conversion back.

    Examples
    --------
    >>> f"{1 / gdp_mu(1, 1e-5):.5f}"
    '3.73063'
    """
    e = real(epsilon, "epsilon", float_down)
    d = delta_in(delta)
    high = 2 * (math.sqrt(2 * e) + 10 + math.sqrt(-2 * math.log1p(-d)))
    while gdp_delta(e, high) <= d:  # delta close to 1 admits any mu
        high *= 2
    low = high
    while gdp_delta(e, low) > d:
        low /= 2
    return largest(lambda mu: gdp_delta(e, mu) <= d, low, high)


def gdp_rho(epsilon: Number, delta: Number) -> float:
    """Largest rho = mu^2/2 of a Gaussian mechanism that is (epsilon, delta)-DP, rounded down.

    See Also
    --------
    gdp_mu : the same as a mu.
    zcdp_rho : not all noise is Gaussian.

    Examples
    --------
    >>> from fastpubpriv.privacy.conversions import gdp_rho
    >>> round(gdp_rho(1, 1e-6), 4)
    0.028
    """
    mu = gdp_mu(epsilon, delta)
    return math.nextafter(mu * mu / 2, 0.0)


# ---- zCDP to approximate DP (Canonne, Kamath, Steinke 2020). With s = alpha - 1:
# log delta = s ((1+s) rho - epsilon) - s log1p(1/s) - log1p(s). Every s > 0 gives a valid bound, so only the
# evaluation, not the search for the best s, is rounded safely.


def zcdp_delta(epsilon: Number, rho: Number) -> float:
    """Least delta of the optimal conversion from rho-zCDP at this epsilon, rounded up and at most 1.

    See Also
    --------
    zcdp_epsilon : the epsilon at a given delta.
    gdp_delta : all noise is Gaussian, which gives less.

    Examples
    --------
    >>> f"{zcdp_delta(1, 0.030557):.4g}"
    '1e-05'
    """
    e = real(epsilon, "epsilon", float_down, zero=True)
    r = real(rho, "rho", float_up)
    # The derivative in s, (1 + 2s) rho - epsilon - log1p(1/s), increases.
    s = smallest(lambda s: (1 + 2 * s) * r - e - math.log1p(1 / s) > 0, 1e-300, 1e300)
    terms = (s * ((1 + s) * r), -s * e, -s * math.log1p(1 / s), -math.log1p(s))
    return _delta_of_log(_sum_up(terms))


def zcdp_epsilon(delta: Number, rho: Number) -> float:
    """Least epsilon of the optimal conversion from rho-zCDP at this delta, rounded up.

    See Also
    --------
    bun_steinke_epsilon : the simple formula that papers use.
    gdp_epsilon : all noise is Gaussian, which gives less.

    Examples
    --------
    >>> f"{zcdp_epsilon(1e-6, 0.5):.2f}"
    '5.22'
    """
    d = delta_in(delta)
    r = real(rho, "rho", float_up)
    log_inverse = -math.log(d)
    # epsilon(s) = (1+s) rho + (log(1/delta) - log1p(s))/s - log1p(1/s) is least where rho s^2 = log(1/delta) -
    # log1p(s).
    s = smallest(lambda s: r * s * s - log_inverse + math.log1p(s) > 0, 1e-300, 1e140)
    terms = ((1 + s) * r, log_inverse / s, -math.log1p(s) / s, -math.log1p(1 / s))
    return max(0.0, math.nextafter(_sum_up(terms), math.inf))


def zcdp_rho(epsilon: Number, delta: Number) -> float:
    """Largest rho for which rho-zCDP implies (epsilon, delta)-DP by the optimal conversion, rounded down.

    See Also
    --------
    bun_steinke_rho : the simple formula that papers use.
    gdp_rho : all noise is Gaussian, which gives more.

    Examples
    --------
    >>> f"{zcdp_rho(1, 1e-6):.6f}"
    '0.024356'
    """
    e = real(epsilon, "epsilon", float_down)
    d = delta_in(delta)
    low = bun_steinke_rho(e, d)
    # no conversion of rho-zCDP can beat the Gaussian mechanism itself
    high = gdp_rho(e, d) * 1.01 + low
    return largest(lambda r: zcdp_epsilon(d, r) <= e, low, high)


def bun_steinke_epsilon(delta: Number, rho: Number) -> float:
    """The simple bound rho + 2 sqrt(rho log(1/delta)) of Bun and Steinke, Proposition 1.3, rounded up.

    See Also
    --------
    zcdp_epsilon : the optimal conversion, which is never larger.
    bun_steinke_rho : the conversion back.

    Examples
    --------
    >>> from fastpubpriv.privacy.conversions import bun_steinke_epsilon, zcdp_epsilon
    >>> bun_steinke_epsilon(1e-6, 0.5) > zcdp_epsilon(1e-6, 0.5)  # the tight conversion asks for less
    True
    """
    d = delta_in(delta)
    r = real(rho, "rho", float_up)
    return _round_up(r + 2 * math.sqrt(r * -math.log(d)))


def bun_steinke_rho(epsilon: Number, delta: Number) -> float:
    """The rho at which `bun_steinke_epsilon` gives epsilon, rounded down.

    See Also
    --------
    zcdp_rho : the optimal conversion, which is never smaller.
    bun_steinke_epsilon : the conversion back.

    Examples
    --------
    >>> f"{bun_steinke_rho(1, 1e-5):.6f}"
    '0.020820'
    """
    e = real(epsilon, "epsilon", float_down)
    d = delta_in(delta)
    log_inverse = -math.log(d)
    root = e / (math.sqrt(log_inverse + e) + math.sqrt(log_inverse))
    value = root * root
    return math.nextafter(value * (1 - _MARGIN), 0.0)


def best_epsilon(delta: Number, rho: Number, *, all_gaussian: bool) -> float:
    """The smallest provable epsilon of a run of total cost rho: GDP if every release was Gaussian, else optimal zCDP.

    See Also
    --------
    gdp_epsilon : a mu is known, and all noise is Gaussian.
    zcdp_epsilon : a rho is known, and any noise.

    Examples
    --------
    >>> f"{best_epsilon(1e-6, 0.5, all_gaussian=True):.3f}", f"{best_epsilon(1e-6, 0.5, all_gaussian=False):.3f}"
    ('4.887', '5.222')
    """
    if not all_gaussian:
        return zcdp_epsilon(delta, rho)
    return gdp_epsilon(delta, _round_up(math.sqrt(2 * real(rho, "rho", float_up))))


# ---- Pure DP and groups


def pure_to_zcdp(epsilon: Number) -> Fraction:
    """Exact upper bound of epsilon tanh(epsilon/2), the sharp zCDP cost of pure epsilon-DP; within 1e-14 of it.

    See Also
    --------
    exponential_mechanism_rho : a choice by the exponential mechanism, which costs less.
    zcdp_epsilon : from zCDP to an epsilon and a delta.

    Examples
    --------
    >>> from fastpubpriv.privacy.conversions import pure_to_zcdp
    >>> round(float(pure_to_zcdp(1)), 6)
    0.462117
    """
    number = exact(epsilon, "epsilon")
    half = real(number, "epsilon", float_up, zero=True) / 2
    # 2^-48 is 16 units in the last place: above any libm's error
    tanh = Fraction(math.tanh(half) * (1 + 2.0**-48))
    return number * min(Fraction(1), number / 2, tanh)


def exponential_mechanism_rho(epsilon: Number) -> Fraction:
    """The zCDP cost epsilon^2/8 of an exponential mechanism with parameter epsilon (bounded range), exact.

    See Also
    --------
    pure_to_zcdp : any other mechanism with an epsilon.
    zcdp_epsilon : from zCDP to an epsilon and a delta.

    Examples
    --------
    >>> from fastpubpriv.privacy.conversions import exponential_mechanism_rho
    >>> exponential_mechanism_rho(1)
    Fraction(1, 8)
    """
    real(epsilon, "epsilon", float_up)
    return exact(epsilon, "epsilon") ** 2 / 8


def group_rho(rho: Number, group: int) -> Fraction:
    """zCDP cost for `group` rows of one person: group^2 rho, exact.

    See Also
    --------
    group_mu : Gaussian noise, as a mu.
    group_approx : an epsilon and a delta.

    Examples
    --------
    >>> from fastpubpriv.privacy.conversions import group_rho
    >>> float(group_rho(0.5, 3))  # three rows of one person
    4.5
    """
    return exact(rho, "rho") * whole(group, "group") ** 2


def group_mu(mu: Number, group: int) -> float:
    """GDP parameter for `group` rows of one person: group mu, rounded up.

    See Also
    --------
    group_rho : zCDP.
    group_approx : an epsilon and a delta.

    Examples
    --------
    >>> from fastpubpriv.privacy.conversions import group_mu
    >>> float(group_mu(0.5, 3))  # three rows of one person
    1.5
    """
    return float_up(exact(mu, "mu") * whole(group, "group"))


def group_approx(epsilon: Number, delta: Number, group: int) -> tuple[float, float]:
    """(epsilon, delta) for `group` rows: g epsilon, delta (e^(g epsilon) - 1)/(e^epsilon - 1), rounded up.

    See Also
    --------
    group_rho : zCDP.
    group_mu : Gaussian noise, as a mu.

    Examples
    --------
    >>> group_approx(1.0, 0.0, 3)
    (3.0, 0.0)
    """
    g = whole(group, "group")
    e = real(epsilon, "epsilon", float_up)
    d = real(delta, "delta", float_up, zero=True)
    if d == 0:
        return float_up(exact(epsilon, "epsilon") * g), 0.0
    # log of 1 + e^epsilon + ... + e^((g-1) epsilon), by its largest term alone where the quotient would cancel
    log_factor = (g - 1) * e + math.log(g)
    if e > 1e-3:
        log_factor = min(
            log_factor, (g - 1) * e + math.log(-math.expm1(-g * e)) - math.log(-math.expm1(-e))
        )
    value = math.log(d) + log_factor
    return float_up(exact(epsilon, "epsilon") * g), 1.0 if value > 0 else min(
        1.0, _round_up(math.exp(value + 1e-12))
    )


# Composition theorems for (epsilon, delta) reports. The pipelines add zCDP or pure costs and do not need them.

_COUNT_MAX = 10**6


def basic_composition(calls: Iterable[tuple[Number, Number]]) -> tuple[float, float]:
    """Sum of the epsilons and of the deltas, added exactly and rounded up once.

    See Also
    --------
    optimal_composition_epsilon : many calls of equal cost, which give less together.
    advanced_composition : the classical bound for many calls.

    Examples
    --------
    >>> basic_composition([(0.5, 1e-6), (0.25, 0)])
    (0.75, 1e-06)
    """
    pairs = [(exact(e, "epsilon"), exact(d, "delta")) for e, d in calls]
    if not pairs or any(e < 0 or d < 0 for e, d in pairs):
        raise BudgetError(
            "basic_composition needs at least one (epsilon, delta) pair, none negative"
        )
    return float_for(sum((e for e, _ in pairs), Fraction(0))), float_for(
        sum((d for _, d in pairs), Fraction(0))
    )


def advanced_composition(
    epsilon: Number, delta: Number, count: int, slack: Number
) -> tuple[float, float]:
    """Epsilon and delta of `count` calls of (epsilon, delta)-DP (Dwork, Rothblum, Vadhan 2010); total delta count * delta + slack.

    The shortcut epsilon sqrt(6 count log(1/slack)), often quoted for every epsilon <= 1, is false for large counts.

    See Also
    --------
    optimal_composition_epsilon : the least epsilon, never larger.
    basic_composition : few calls.

    Examples
    --------
    >>> epsilon, delta = advanced_composition(0.1, 0, 100, 1e-6)
    >>> f"{epsilon:.2f}"
    '6.31'
    """
    e = real(epsilon, "epsilon", float_up)
    times = whole(count, "count")
    if e > 700:
        raise BudgetError(
            f"advanced_composition needs epsilon <= 700, got {e}; use basic_composition"
        )
    s = delta_in(slack)
    total = e * math.sqrt(2 * times * -math.log(s)) + times * e * math.expm1(e)
    exact_delta = exact(delta, "delta")
    if exact_delta < 0:
        raise BudgetError("delta must be >= 0")
    return math.nextafter(total * (1 + 1e-14), math.inf), min(
        1.0, float_up(exact_delta * times + exact(slack, "slack"))
    )


def optimal_composition_delta(
    epsilon: Number, delta: Number, count: int, target_epsilon: Number
) -> float:
    """Least delta of `count` calls of (epsilon, delta)-DP, rounded up (Kairouz, Oh, Viswanath 2015).

    `count` adaptive calls are never worse than that many randomized responses; their exact profile is a binomial sum.

    See Also
    --------
    optimal_composition_epsilon : the epsilon at a given delta.
    advanced_composition : the classical bound.

    Examples
    --------
    >>> optimal_composition_delta(1.0, 0, 1000, 288) > 0.999999
    True
    """
    times = whole(count, "count")
    if times > _COUNT_MAX:
        raise BudgetError(f"count must be at most {_COUNT_MAX}, got {times}")
    e = real(epsilon, "epsilon", float_up)
    goal = real(target_epsilon, "target_epsilon", float_down, zero=True)
    d = real(delta, "delta", float_up, zero=True)
    if d >= 1:
        return 1.0
    lies = np.arange(times + 1, dtype=np.float64)  # number of flipped responses
    gain = (times - 2 * lies) * e - goal  # log-likelihood ratio minus the target epsilon
    terms = lies[gain > 0], gain[gain > 0]
    log_response = -math.inf
    if terms[0].size:
        wrong = terms[0]
        log_choose = gammaln(times + 1) - gammaln(wrong + 1) - gammaln(times - wrong + 1)
        log_mass = log_choose - wrong * e - times * math.log1p(math.exp(-e))
        # The relative error of gammaln is about 1e-15; allow four times that, and the errors of the two products.
        error = 8e-15 * float(gammaln(times + 1) + times * e + 1)
        log_response = float(logsumexp(log_mass + np.log(-np.expm1(-terms[1])))) + error
    response = min(1.0, math.exp(log_response))
    # 1 - (1 - d)^T (1 - response), without cancellation
    lost = -math.expm1(times * math.log1p(-d))
    return min(1.0, (lost + (1 - lost) * response) * (1 + 1e-14) + 1e-300)


def optimal_composition_epsilon(
    epsilon: Number, delta: Number, count: int, target_delta: Number
) -> float:
    """The least epsilon of `count` calls of (epsilon, delta)-DP at `target_delta`, rounded up (Kairouz, Oh, Viswanath).

    See Also
    --------
    optimal_composition_delta : the delta at a given epsilon.
    advanced_composition : the classical bound.
    basic_composition : calls of different costs.

    Examples
    --------
    >>> f"{optimal_composition_epsilon(1.0, 0, 200, 1e-3):.0f}"
    '129'
    """
    goal = delta_in(target_delta)
    high = float_up(exact(epsilon, "epsilon") * whole(count, "count"))
    if optimal_composition_delta(epsilon, delta, count, high) > goal:
        raise BudgetError(
            f"{count} calls of this delta alone exceed the total delta {goal:.3g}; pass a larger target_delta or a "
            "smaller delta"
        )
    if optimal_composition_delta(epsilon, delta, count, 0) <= goal:
        return 0.0
    return smallest(
        lambda e: optimal_composition_delta(epsilon, delta, count, e) <= goal, 0.0, high
    )


# ---- Cost of stable histograms

Law = Literal["laplace", "gaussian"]

_ROUNDING = 1e-12  # relative margin for the rounding of the special functions and products below
_TINY = 1e-300
# histograms up to which all v and a are tried; beyond, blocks with an upper bound for each
_WHOLE_GRID = 48
_KOV_BLOCKS = 6  # the same for Laplace noise, whose profile is slow to evaluate


def singleton_rate(law: Law, gap: int, log2_scale: int) -> float:
    """Return P(noise >= gap) for a gap of at least one grid step, rounded up."""
    z = math.ldexp(gap, -log2_scale)
    if law == "laplace":
        # e^(-z) / (1 + e^(-1 step)), the discrete tail
        rate = math.exp(-z) / (1.0 + math.exp(-math.ldexp(1.0, -log2_scale)))
    else:
        rate = math.exp(float(log_ndtr(-z)))
    return min(1.0, rate * (1 + _ROUNDING) + _TINY)


@lru_cache(maxsize=4096)
def stable_delta(
    law: Law, histograms: int, step: int, threshold: int, log2_scale: int, epsilon: Fraction
) -> float:
    """Least known delta at `epsilon` of noisy counts above a threshold, rounded up.

    A row counts in at most one bin of each of `histograms`. For every occupied bin the integer step * count + noise is released
    if it is at least the threshold. A replaced row lowers at most one count and raises at most one in each histogram. With v bins
    that become empty, a bins that become occupied and lambda = -log(1 - singleton rate),

        delta(epsilon) = max over v, a of 1 - e^(-v lambda) + e^(-v lambda) H(epsilon - (a - v) lambda, 2 histograms - v - a),

    where H(x, j) is the privacy profile of j counts changed by one (`mechanisms/notes/stable_histogram.md`).
    """
    # Exact up to rounding for Gaussian noise, and for Laplace noise if epsilon covers a change of 2 counts per histogram; otherwise
    # the bound is optimal composition over these counts.
    rate = singleton_rate(law, threshold - step, log2_scale)
    if rate >= 1.0:
        return 1.0
    single = -math.log1p(-rate)  # lambda
    piece = Fraction(step, 2**log2_scale)
    if (
        law == "laplace"
        and 2 * histograms * piece <= epsilon
        and single * (1 + _ROUNDING) <= float_down(piece)
    ):
        # Every other likelihood ratio is at most e^epsilon: only bins that become empty contribute to delta.
        return min(1.0, -math.expm1(-histograms * single) * (1 + _ROUNDING))
    profile: Callable[[FloatArray, IntArray], FloatArray]
    if law == "gaussian":
        most = _WHOLE_GRID
        profile = partial(_gaussian_profile, math.ldexp(step, -log2_scale) * (1 + _ROUNDING))
    else:
        most = _KOV_BLOCKS
        profile = np.vectorize(partial(_laplace_profile, float_up(piece)), otypes=[np.float64])
    # The maximum over v and a; if they are many, over blocks [v, v'] x [a, a'], each term at its worst end.
    edges = np.unique(
        np.linspace(0, histograms + 1, min(histograms + 1, most) + 1).astype(np.int64)
    )
    v_low, a_low = np.meshgrid(edges[:-1], edges[:-1], indexing="ij")
    v_high, a_high = np.meshgrid(edges[1:] - 1, edges[1:] - 1, indexing="ij")
    shift = (a_high - v_low) * single
    moved = profile(
        float_down(epsilon) - shift - np.abs(shift) * _ROUNDING, 2 * histograms - v_low - a_low
    )
    worst = float((-np.expm1(-v_high * single) + np.exp(-v_low * single) * moved).max())
    return min(1.0, worst * (1 + 4 * _ROUNDING) + _TINY)


def _gaussian_profile(unit: float, x: FloatArray, moved: IntArray) -> FloatArray:
    """Return the privacy profile at `x` of `moved` counts with Gaussian noise, each changed by `unit` standard deviations."""
    mu = np.sqrt(np.maximum(moved, 1)) * unit
    with np.errstate(over="ignore"):
        first = np.exp(log_ndtr(mu / 2 - x / mu))
        second = np.exp(x + log_ndtr(-mu / 2 - x / mu))
    # Both terms have relative errors of a few 1e-14; margins on the terms do not vanish with their difference.
    gap = first * (1 + _ROUNDING) - second * (1 - _ROUNDING)
    return np.asarray(np.where(moved == 0, -np.expm1(np.minimum(x, 0.0)), np.maximum(gap, 0.0)))


def _laplace_profile(unit: float, x: float, moved: int) -> float:
    """Return a bound on the privacy profile at `x` of `moved` counts with Laplace noise, each changed by `unit` scales."""
    if x < 0:
        # The composition of randomized responses is symmetric: delta(x) = 1 - e^x + e^x delta(-x).
        other = _laplace_profile(unit, -x, moved)
        return min(1.0, -math.expm1(x) * (1 + _ROUNDING) + math.exp(x) * other * (1 + _ROUNDING))
    return 0.0 if moved * unit <= x else optimal_composition_delta(unit, 0, moved, x)
