"""`Forecast`, which each task gives to `plan`: its error for rows and a budget, from public numbers only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastpubpriv import validation
from fastpubpriv.privacy import Budget

# error and details of a task for (n_priv, budget)
Predictor = Callable[[int, Budget], tuple[float, dict[str, float]]]
# Limit on everything that is counted: a float holds every whole number up to here.
MOST_COUNT = 2**53
# Search range of rows, and of a budget in rho or epsilon: what the budget types accept.
MOST_ROWS = 2**40
LEAST_AMOUNT, MOST_AMOUNT = 2.0**-28, 2.0**9
MOST_PURE = 32.0  # a larger epsilon is refused as pure where much noise is drawn


def nothing_more(n_priv: int, budget: Budget) -> dict[str, float]:
    """No further details."""
    return {}


def always(n_priv: int, budget: Budget) -> bool:
    """True."""
    return True


def never(n_priv: int, budget: Budget) -> bool:
    """False."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The error of a task as a function of rows and budget, its unit, and details that are worked out once, for the solution.

    `gaussian`: whether all noise would be Gaussian under zCDP, so that rho implies a smaller epsilon.
    """

    predict: Predictor
    unit: str
    more: Callable[[int, Budget], dict[str, float]] = nothing_more
    gaussian: Callable[[int, Budget], bool] = always


def count(name: str, value: Any, *, minimum: int = 0) -> int:
    """A checked number of rows or columns."""
    return validation.integer(name, value, minimum=minimum, maximum=MOST_COUNT)
