"""The part of a budget available for ideal noise: the budget minus the privacy cost of the samplers' error.

Inside a cutoff, the probabilities of each draw are within a factor e^(2^-100) of the ideal distribution; the tail beyond
the cutoff has mass below 2^-184 (SECURITY.md).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TypeGuard

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.budgets import (
    DELTA_MIN,
    ZCDP,
    ApproxDP,
    Budget,
    Number,
    PureDP,
    RowApproxDP,
    exact,
    float_up,
    show,
    whole,
)
from fastpubpriv.privacy.conversions import gdp_delta, gdp_mu, group_approx, pure_to_zcdp

DRAW_ERROR = Fraction(1, 2**100)  # total variation distance of a draw
PURE_DELTA_PER_DRAW = Fraction(1, 2**184)


def total_variation(draws: int) -> Fraction:
    """Return an upper bound on the total variation distance between `draws` draws of noise and ideal noise."""
    return whole(draws, "draws", at_least=0) * DRAW_ERROR


def approx_slack(epsilon: Number, draws: int) -> Fraction:
    """Return the delta that sampler error adds to an (epsilon, delta) guarantee: (1 + e^epsilon) draws 2^-100, rounded up."""
    return _one_and_exp(exact(epsilon, "epsilon")) * total_variation(draws)


def pure_slack(epsilon: Number, draws: int) -> tuple[Fraction, Fraction]:
    """Return the (epsilon, delta) that sampler error adds to pure DP: (draws 2^-99, (1 + e^epsilon) draws 2^-184), rounded up."""
    n = whole(draws, "draws", at_least=0)
    return 2 * n * DRAW_ERROR, _one_and_exp(exact(epsilon, "epsilon")) * n * PURE_DELTA_PER_DRAW


@lru_cache(maxsize=256)  # several calls per fit, with one epsilon
def _one_and_exp(epsilon: Fraction) -> Fraction:
    """Return 1 + e^epsilon, rounded up, for 0 <= epsilon <= 1100, within a factor 1 + 2^-40."""
    # Squared once because e^1024 overflows a double; 2^-42 is far above the error of any libm.
    return 1 + Fraction(math.exp(float_up(epsilon) / 2) * (1 + 2.0**-42)) ** 2


# ---- The part of a budget available for ideal noise, rounded toward more privacy

_DEFLATION = Fraction(10**9, 10**9 + 1)  # safety factor on mu


def _usable_epsilon(budget: ApproxDP, draws: int) -> Fraction:
    """Return the budget's epsilon, reduced where e^epsilon times the sampler error would use up delta."""
    if not draws:
        return budget.epsilon
    least = 2**12 * total_variation(draws)
    if budget.delta < least:
        raise BudgetError(
            f"delta = {show(budget.delta)} is too small for {draws} noise draws, each 2^-100 from exact; "
            f"pass delta >= {show(least)}, or PureDP"
        )
    return min(
        budget.epsilon, Fraction(math.log(budget.delta / (2**4 * total_variation(draws)) - 1))
    )


@lru_cache(maxsize=256)
def gaussian_rho(
    budget: Budget, draws: int, epsilon: Fraction = Fraction(0), delta: Fraction = Fraction(0)
) -> Fraction:
    """The largest safe rho = squared sensitivity/(2 variance) that a run of `draws` Gaussian noise values may use.

    For ZCDP, rho itself. For ApproxDP, mu^2/2 of the analytic Gaussian mechanism (Balle and Wang 2018) at delta minus
    the sampler error, with mu deflated by 1 + 1e-9 and verified. Several releases may share it: their rhos add up. With an
    `epsilon` and `delta`, they are composed (basic composition) with others that spend these of an ApproxDP.

    Examples
    --------
    >>> f"{float(gaussian_rho(ApproxDP(1, 1e-5), draws=100)):.6f}"
    '0.035926'
    """
    draws = whole(draws, "draws", at_least=0)
    if isinstance(budget, ZCDP):
        return budget.rho
    if isinstance(budget, RowApproxDP):  # k rows have k times the mu of one row, at the same delta
        of_person = (
            Fraction(group_approx(epsilon, delta, budget.rows)[1])
            if epsilon
            else delta * budget.rows
        )
        return gaussian_rho(budget.person, draws, epsilon * budget.rows, of_person) / budget.rows**2
    if not isinstance(budget, ApproxDP):
        raise BudgetError(
            f"Gaussian noise cannot meet a {type(budget).__name__} budget; pass ZCDP(rho) or ApproxDP(epsilon, delta), "
            "or use Laplace noise for PureDP"
        )
    # Sampler error is charged for all `draws` at the full epsilon: it bounds the distance of the whole run from the ideal one.
    usable = _usable_epsilon(budget, draws)
    left = usable - epsilon, budget.delta - delta - approx_slack(usable, draws)
    if min(left) <= 0:
        raise BudgetError(
            f"epsilon = {show(epsilon)} and delta = {show(delta)}, reserved of {budget!r}, leave nothing for Gaussian noise: "
            f"with {draws} noise draws, each 2^-100 from exact, at most epsilon = {show(usable)} can be used at this delta; pass "
            "a smaller epsilon or a larger delta"
        )
    mu = Fraction(gdp_mu(*left)) * _DEFLATION
    # a safeguard: gdp_mu already returns the safe end
    while Fraction(gdp_delta(left[0], mu)) > left[1]:
        mu *= _DEFLATION
    # Later code takes square roots of this number in floats: keep it short, rounding down.
    return Fraction(math.floor(mu * mu / 2 * 2**120), 2**120)


@lru_cache(maxsize=256)
def laplace_epsilon(budget: Budget, draws: int) -> Fraction:
    """The largest safe epsilon that a run of `draws` Laplace noise values may use.

    For PureDP, epsilon minus draws 2^-99. The remaining sampler error is a delta (`pure_slack`) near 1e-55 per draw at epsilon 1
    that grows like e^epsilon; BudgetError if it exceeds 2^-100. For ApproxDP, the budget's epsilon, reduced where the sampler
    error, which is charged to delta, would use up delta. For ZCDP, the largest epsilon with epsilon tanh(epsilon/2) <= rho.

    Examples
    --------
    >>> float(laplace_epsilon(PureDP(1), draws=1000))
    1.0
    >>> f"{float(laplace_epsilon(ZCDP(0.5), draws=1000)):.4f}"
    '1.0436'
    """
    draws = whole(draws, "draws", at_least=0)
    if isinstance(budget, PureDP):
        extra, delta = pure_slack(budget.epsilon, draws)
        left = budget.epsilon - extra
        if left <= 0:
            raise BudgetError(
                f"epsilon = {show(budget.epsilon)} is too small for {draws} noise draws, each 2^-99 from exact"
            )
        if delta > DELTA_MIN:
            most = math.log(DELTA_MIN / (draws * PURE_DELTA_PER_DRAW))
            raise BudgetError(
                f"epsilon = {show(budget.epsilon)} cannot be kept as pure privacy: the tails of {draws} noise draws add a delta "
                f"of {show(delta)}, more than 2^-100; pass epsilon <= {math.floor(most)}, or Gaussian noise with "
                "ApproxDP(epsilon=..., delta=...)"
            )
        return left
    if isinstance(budget, ApproxDP):
        return _usable_epsilon(budget, draws)
    if not isinstance(budget, ZCDP):
        raise BudgetError(f"budget must be PureDP, ApproxDP or ZCDP, got {type(budget).__name__}")
    low = Fraction(0)
    high = Fraction(math.sqrt(2 * budget.rho) * 1.001) + 2 * budget.rho
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (middle, high) if pure_to_zcdp(middle) <= budget.rho else (low, middle)
    return low


def without_delta(budget: Budget) -> Budget:
    """Return the part of a budget for releases that cost an epsilon and no delta.

    Examples
    --------
    >>> without_delta(ApproxDP(epsilon=1, delta=1e-6)), without_delta(ZCDP(rho=1))
    (PureDP(epsilon=1.0), ZCDP(rho=1.0))
    """
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def has_delta(budget: object) -> TypeGuard[ApproxDP]:
    """Return whether this is a budget with a delta, which releases over unknown cells need.

    Examples
    --------
    >>> has_delta(ApproxDP(epsilon=1, delta=1e-6)), has_delta(PureDP(epsilon=1))
    (True, False)
    """
    return isinstance(budget, ApproxDP)


def row_budget(budget: Budget, rows: int) -> Budget:
    """Return the budget of one row such that `rows` rows of a person together cost at most `budget` (group privacy).

    rho / rows^2 or epsilon / rows, exactly; for ApproxDP the inverse of `group_approx`, rounded down. If all noise is Gaussian,
    `gaussian_rho` of the result is that of `budget` over rows^2.

    Examples
    --------
    >>> row_budget(ZCDP(rho=1), 4), row_budget(PureDP(epsilon=1), 4)
    (ZCDP(rho=0.0625), PureDP(epsilon=0.25))
    """
    k = whole(rows, "rows")
    if k == 1 or not isinstance(budget, Budget):
        return budget  # the account refuses a value that is not a budget
    try:
        if not isinstance(budget, ApproxDP):
            return budget / (k * k if isinstance(budget, ZCDP) else k)
        epsilon = budget.epsilon / k
        # The delta of a group is linear in that of a row; a trial too small to be capped at 1 gives the factor.
        trial = budget.delta / Fraction(math.exp(min((k - 1) * float(epsilon), 700.0))) / k
        delta = trial * budget.delta / Fraction(group_approx(epsilon, trial, k)[1])
        return RowApproxDP(epsilon, delta * (1 - Fraction(1, 2**40)), budget, k)
    except BudgetError as error:
        raise BudgetError(
            f"with {k} rows per person, {budget!r} leaves too little for a row: {error}"
        ) from None


def person_budget(budget: Budget, rows: int) -> Budget:
    """Return the budget of a person with `rows` rows, each with `budget`: the inverse of `row_budget`, rounded up."""
    if isinstance(budget, RowApproxDP) and budget.rows == rows:
        return budget.person
    if isinstance(budget, ApproxDP) and rows > 1:
        return ApproxDP(*group_approx(budget.epsilon, budget.delta, rows))
    return budget if rows == 1 else budget * (rows * rows if isinstance(budget, ZCDP) else rows)
