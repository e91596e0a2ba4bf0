"""Composition theorems for (epsilon, delta) reports. The pipelines add zCDP or pure costs and do not need them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from scipy.special import gammaln, logsumexp

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.conversions import delta_in, real, smallest
from fastpubpriv.privacy.exact import Number, exact, float_down, float_up, whole

_COUNT_MAX = 10**6


def basic_composition(calls: Iterable[tuple[Number, Number]]) -> tuple[float, float]:
    """Sum of the epsilons and of the deltas, added exactly and rounded up once.

    Examples
    --------
    >>> basic_composition([(0.5, 1e-6), (0.25, 0)])
    (0.75, 1e-06)
    """
    pairs = [(exact(e, "epsilon"), exact(d, "delta")) for e, d in calls]
    if not pairs or any(e < 0 or d < 0 for e, d in pairs):
        raise BudgetError("basic_composition needs at least one (epsilon, delta) pair, none negative")
    return float_up(sum((e for e, _ in pairs), Fraction(0))), float_up(sum((d for _, d in pairs), Fraction(0)))


def advanced_composition(epsilon: Number, delta: Number, count: int, slack: Number) -> tuple[float, float]:
    """Dwork, Rothblum, Vadhan 2010: `count` calls of (epsilon, delta)-DP; total delta count * delta + slack.

    The shortcut epsilon sqrt(6 count log(1/slack)), often quoted for every epsilon <= 1, is false for large counts.

    Examples
    --------
    >>> epsilon, delta = advanced_composition(0.1, 0, 100, 1e-6)
    >>> f"{epsilon:.2f}"
    '6.31'
    """
    e, times = real(epsilon, "epsilon", float_up), whole(count, "count")
    if e > 700:
        raise BudgetError(f"advanced_composition needs epsilon <= 700, got {e}; use basic_composition")
    s = delta_in(slack)
    total = e * math.sqrt(2 * times * -math.log(s)) + times * e * math.expm1(e)
    exact_delta = exact(delta, "delta")
    if exact_delta < 0:
        raise BudgetError("delta must be >= 0")
    return math.nextafter(total * (1 + 1e-14), math.inf), min(
        1.0, float_up(exact_delta * times + exact(slack, "slack"))
    )


def optimal_composition_delta(epsilon: Number, delta: Number, count: int, target_epsilon: Number) -> float:
    """Kairouz, Oh, Viswanath 2015: least delta of `count` calls of (epsilon, delta)-DP, rounded up.

    `count` adaptive calls are never worse than that many randomised responses; their exact profile is a binomial sum.

    Examples
    --------
    >>> optimal_composition_delta(1.0, 0, 1000, 288) > 0.999999
    True
    """
    times = whole(count, "count")
    if times > _COUNT_MAX:
        raise BudgetError(f"count must be at most {_COUNT_MAX}, got {times}")
    e, goal = real(epsilon, "epsilon", float_up), real(target_epsilon, "target_epsilon", float_down, zero=True)
    d = real(delta, "delta", float_up, zero=True)
    if d >= 1:
        return 1.0
    lies = np.arange(times + 1, dtype=np.float64)  # how many of the responses were flipped
    gain = (times - 2 * lies) * e - goal  # log of how much likelier than e^goal times the other side
    terms = lies[gain > 0], gain[gain > 0]
    log_response = -math.inf
    if terms[0].size:
        wrong = terms[0]
        log_choose = gammaln(times + 1) - gammaln(wrong + 1) - gammaln(times - wrong + 1)
        log_mass = log_choose - wrong * e - times * math.log1p(math.exp(-e))
        # gammaln is good to about 1e-15 of its value; allow four times that and the two products
        error = 8e-15 * float(gammaln(times + 1) + times * e + 1)
        log_response = float(logsumexp(log_mass + np.log(-np.expm1(-terms[1])))) + error
    response = min(1.0, math.exp(log_response))
    # 1 - (1 - d)^T (1 - response), without cancellation
    lost = -math.expm1(times * math.log1p(-d))
    return min(1.0, (lost + (1 - lost) * response) * (1 + 1e-14) + 1e-300)


def optimal_composition_epsilon(epsilon: Number, delta: Number, count: int, target_delta: Number) -> float:
    """The least epsilon of `count` calls of (epsilon, delta)-DP at `target_delta`, rounded up (Kairouz, Oh, Viswanath).

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
    return smallest(lambda e: optimal_composition_delta(epsilon, delta, count, e) <= goal, 0.0, high)
