"""The search of `plan` for the least rows or the least budget with a predicted error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy import Budget, PureDP
from fastpubpriv.session import Predictor

# Search ranges of rows and of budgets in rho or epsilon, within the limits of the budget types.
MOST_ROWS = 2**40
LEAST_AMOUNT = 2.0**-28
MOST_AMOUNT = 2.0**9
STRIDE = 16  # ratio of the ends of the first bracket of a search
# other maxima: a larger epsilon of pure budgets is rejected for releases with many noise draws
MOST_AMOUNTS: dict[type[Budget], float] = {PureDP: 32.0}


def amounts_tried(budget: Budget) -> tuple[float, float]:
    """Return the smallest and the largest rho or epsilon of the search for budgets of this notion."""
    return LEAST_AMOUNT, MOST_AMOUNTS.get(budget.notion, MOST_AMOUNT)


Number = TypeVar("Number", int, float)


def halve(low: Number, high: Number, holds: Callable[[Number], bool], close: float = 1.0) -> Number:
    """Bisect for the least number at which monotone `holds` is true, to a factor `close`; it is false at `low`, true at `high`."""
    whole = isinstance(low, int) and isinstance(high, int)
    while high > low * close:
        if whole and high - low <= 1:
            break
        middle: Any = (low + high) // 2 if whole else math.sqrt(low * high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def turning_point(
    start: Number,
    lowest: Number,
    highest: Number,
    holds: Callable[[Number], bool],
    close: float = 1.001,
) -> float:
    """Return the least number, to a factor `close`, at which monotone `holds` is true; inf if it is false at `highest`."""
    low: Any = start
    high: Any = start
    while not holds(high):
        if high >= highest:
            return math.inf
        low = high
        high = min(highest, high * STRIDE)
    if high == start:
        while low > lowest:
            high = low
            low = max(lowest, low // STRIDE if isinstance(low, int) else low / STRIDE)
            if not holds(low):
                break
        else:
            return float(lowest)
    return float(halve(low, high, holds, close))


def rows_for(predict: Predictor, budget: Budget, error: float) -> int:
    """Return the least rows with a predicted error of at most `error`. Raise InputError if there are none."""

    def reaches(n_priv: int) -> bool:
        return predict(n_priv, budget)[0] <= error

    least = turning_point(2, 1, MOST_ROWS, reaches, 1.0)
    if math.isinf(least):
        raise InputError(
            f"no number of rows up to 2^40 reaches an error of {error:.3g}; pass a larger error or budget"
        )
    return int(least)


def budget_for(
    predict: Predictor, n_priv: int, error: float, make: Callable[[float], Budget]
) -> Budget:
    """Return the least budget, to a relative 1e-9, with a predicted error of at most `error`. Raise InputError if there is none."""

    def reaches(amount: float) -> bool:
        return predict(n_priv, make(amount))[0] <= error

    def is_payable(amount: float) -> bool:
        try:
            predict(n_priv, make(amount))
        except BudgetError:
            return False
        return True

    low, high = amounts_tried(make(1.0))
    # A row of a person has no delta left where the epsilon of all is large, and no epsilon where it is small.
    while not is_payable(high) and high > 2.0 * low:
        high /= 2.0
    while not is_payable(low) and high > 2.0 * low:
        low *= 2.0
    if not reaches(high):
        raise InputError(
            f"no budget reaches an error of {error:.3g} with n_priv={n_priv}; pass a larger error or n_priv"
        )
    if reaches(low):
        return make(low)
    return make(halve(low, high, reaches, 1.0 + 1e-9))
