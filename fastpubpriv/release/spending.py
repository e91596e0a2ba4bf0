"""What releases on the same rows may cost together, and what they have cost: one class for each way to spend a budget.

Each class starts from the allowance in its own exact currency, already reduced by the samplers' error of 2^-100 per declared draw.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, Event, PureDP
from fastpubpriv.privacy.budgets import Composition, float_up
from fastpubpriv.privacy.calibrated_budget import (
    approx_slack,
    gaussian_rho,
    gaussian_rho_beside,
    laplace_epsilon,
    pure_slack,
)

EXCEEDED = "a release would exceed the budget of the call"
TWO_ACCOUNTS = "Gaussian releases and those with an epsilon of their own need two accounts"
NEEDS_APPROX = "this release has an epsilon and a delta; pass ApproxDP(epsilon=..., delta=...)"


class Spending(ABC):
    """An allowance and what has been charged to it. Errors do not name the call; the account does."""

    allowance: Fraction  # what the releases may add up to
    notion: ClassVar[type[Budget]]
    pure: ClassVar[bool] = False  # True where costs are an epsilon
    composed = False  # True once releases have been charged by their own epsilon and delta, outside the allowance

    def __init__(self) -> None:
        self._tally = Composition()
        # Later steps that a first one has paid for, and that have not been taken.
        self._paid_ahead: dict[Event, int] = {}

    def charge(self, event: Event) -> None:
        """Add the price of an event; BudgetError, and nothing changes, where it is not covered."""
        self.take(event.price(self.notion), event)

    @abstractmethod
    def implementation(self, draws: int) -> dict[str, Any]:
        """What the sampler error of `draws` draws adds to the privacy statement, for the record."""

    @property
    def charged(self) -> Fraction:
        """Exact cost so far, in the currency of `allowance`."""
        return self._tally.total

    @property
    def approx_left(self) -> tuple[Fraction, Fraction]:
        """The (epsilon, delta) that releases with a delta of their own may still cost."""
        raise BudgetError(NEEDS_APPROX)

    def _steps_left(self, event: Event) -> dict[Event, int]:
        """What is paid ahead after an event; BudgetError for a later step that no first step has paid for."""
        first = event.follows
        if first is None and not event.opens:
            return self._paid_ahead
        known = event if first is None else first
        left = self._paid_ahead.get(known, 0) + (event.opens if first is None else -1)
        if left < 0:
            raise BudgetError("a run has more steps than its first one has paid for")
        return {**self._paid_ahead, known: left}

    def take(self, cost: Fraction, event: Event | None = None) -> None:
        """Take a cost off the allowance, by case where the event is over clusters."""
        tally = self._tally.within(self.allowance, cost, None if event is None else event.clusters)
        if tally is None:
            raise BudgetError(EXCEEDED)
        self._tally = tally

    def for_block(self) -> Spending:
        """The same amount for a block of rows to spend separately: a replaced row is in one block only."""
        return copy.copy(self)  # no method changes a value in place


class PureSpending(Spending):
    """Epsilons add up."""

    notion, pure = PureDP, True

    def __init__(self, budget: PureDP, draws: int) -> None:
        super().__init__()
        self._epsilon = budget.epsilon
        self.allowance = laplace_epsilon(budget, draws)

    def implementation(self, draws: int) -> dict[str, Any]:
        """A part of epsilon, which has been subtracted from the allowance, and a delta below 2^-100, which has not."""
        epsilon, delta = pure_slack(self._epsilon, draws)
        return {
            "implementation_epsilon": float_up(epsilon),
            "implementation_epsilon_included": True,
            "implementation_delta": float_up(delta),
            "implementation_delta_included": False,
        }


class ZcdpSpending(Spending):
    """Rhos add up."""

    notion = ZCDP

    def __init__(self, budget: ZCDP, draws: int) -> None:
        super().__init__()
        self.allowance = gaussian_rho(budget, draws)

    def implementation(self, draws: int) -> dict[str, Any]:
        """Nothing beside the total variation."""
        return {}


class ApproxSpending(Spending):
    """Either the rhos of Gaussian releases add up, by GDP, or the epsilons and deltas of others, by basic composition."""

    notion = ApproxDP

    def __init__(self, budget: ApproxDP, draws: int, beside: tuple[Fraction, ...] = ()) -> None:
        super().__init__()
        # The epsilon in use. The samplers' error grows with it; where that would use up delta, a smaller epsilon is taken.
        self._epsilon = laplace_epsilon(budget, draws)
        self.allowance = gaussian_rho_beside(budget, draws, *beside) if beside else gaussian_rho(budget, draws)
        self._left = self._epsilon, budget.delta - approx_slack(self._epsilon, draws)

    @property
    def approx_left(self) -> tuple[Fraction, Fraction]:
        """The (epsilon, delta) that releases with a delta of their own may still cost."""
        return self._left

    def charge(self, event: Event) -> None:
        """Add the event's rho, or its epsilon and delta; one allowance never pays for both kinds."""
        price = event.price(self.notion)
        if event.gdp:
            if self.composed:
                raise BudgetError(TWO_ACCOUNTS)
            self.take(price, event)
            return
        if self.charged:
            raise BudgetError(TWO_ACCOUNTS)
        steps = self._steps_left(event)
        self._left, self.composed = self._less(price, event.own_delta, EXCEEDED), True
        self._paid_ahead = steps

    def _less(self, epsilon: Fraction, delta: Fraction, refusal: str) -> tuple[Fraction, Fraction]:
        """What is left after a release of this epsilon and delta."""
        if epsilon > self._left[0] or delta > self._left[1]:
            raise BudgetError(refusal)
        return self._left[0] - epsilon, self._left[1] - delta

    def implementation(self, draws: int) -> dict[str, Any]:
        """A part of delta, which has been subtracted from the budget."""
        return {
            "implementation_delta": float_up(approx_slack(self._epsilon, draws)),
            "implementation_delta_included": True,
        }


class ReservedSpending(ApproxSpending):
    """A reserved part pays for Laplace releases and choices; in the rest, the rhos of Gaussian releases add up."""

    def __init__(self, budget: ApproxDP, draws: int, reserved: ApproxDP) -> None:
        super().__init__(budget, draws, reserved.amounts)
        self._left = reserved.epsilon, reserved.delta

    @property
    def approx_left(self) -> tuple[Fraction, Fraction]:
        """Refused: what is reserved is for Laplace releases and choices."""
        raise BudgetError(NEEDS_APPROX)

    def charge(self, event: Event) -> None:
        """Add the event's rho, or subtract its epsilon and delta from the reserved part."""
        price = event.price(self.notion)
        if event.gdp:
            self.take(price, event)
            return
        if not event.beside_gaussian:
            raise BudgetError(NEEDS_APPROX)
        if price > self._left[0]:
            raise BudgetError("this release is calibrated in epsilon; pass PureDP")
        self._left = self._less(price, event.own_delta, "the delta of a release exceeds what was reserved for it")


def choose_spending(budget: Budget, draws: int, reserved: ApproxDP | None) -> Spending:
    """The way to spend a budget; the only place that looks at its type."""
    if isinstance(budget, ApproxDP):
        return ApproxSpending(budget, draws) if reserved is None else ReservedSpending(budget, draws, reserved)
    if isinstance(budget, PureDP):
        return PureSpending(budget, draws)
    assert isinstance(budget, ZCDP)
    return ZcdpSpending(budget, draws)
