"""Several events on the same rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.budgets import PureDP
from fastpubpriv.privacy.clusters import CostTally
from fastpubpriv.privacy.conversions import gdp_epsilon, zcdp_epsilon
from fastpubpriv.privacy.events import Event
from fastpubpriv.privacy.exact import Number, exact, float_up, show
from fastpubpriv.privacy.sampler_error import approx_slack


@dataclass(frozen=True, slots=True)
class ComposedEvent:
    """Events of one run, one after another on the same rows, all under the same relation.

    Parameters
    ----------
    events : tuple of Event
        In the order in which they ran.

    Examples
    --------
    >>> from fastpubpriv.privacy import GaussianEvent
    >>> run = ComposedEvent((GaussianEvent(2**16, 8, 4), GaussianEvent(2**15, 8, 4)))
    >>> run.rho, f"{run.epsilon_at(1e-6):.3f}"
    (Fraction(3, 4), '6.165')
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        if not all(isinstance(event, Event) for event in self.events):
            raise BudgetError("a ComposedEvent holds events of fastpubpriv.privacy only")
        if len({event.relation for event in self.events}) > 1:
            raise BudgetError(
                "events under different neighbour relations cannot be added; restate them under one relation"
            )

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @property
    def draws(self) -> int:
        """Noise draws of the whole run."""
        return sum(event.draws for event in self.events)

    @property
    def all_gaussian(self) -> bool:
        """True when the run is sqrt(2 rho)-GDP."""
        return all(event.gdp for event in self.events)

    @property
    def rho(self) -> Fraction:
        """Total zCDP cost; exact when all are Gaussian. Pure events enter with epsilon tanh(epsilon/2), rounded up."""
        tally = CostTally()
        for event in self.events:
            # The bound of a pure event is not linear in epsilon: there the worse case stands for both.
            tally.add(event.rho_bound, event.clusters if event.gdp else None)
        return tally.total

    @property
    def epsilon(self) -> Fraction:
        """Total pure cost, exact."""
        tally = CostTally()
        for event in self.events:
            if event.cost.notion is not PureDP:
                raise BudgetError("only Laplace and selection events have a pure cost; use .rho or .epsilon_at(delta)")
            tally.add(event.cost.amounts[0], event.clusters)
        return tally.total

    def epsilon_at(self, delta: Number) -> float:
        """Least epsilon at this delta, sampler error included, rounded up. By GDP when every event is Gaussian."""
        goal = exact(delta, "delta")
        rho = self.rho
        if not rho:
            return 0.0

        def report(d: Fraction) -> float:
            if self.all_gaussian:
                return gdp_epsilon(d, math.nextafter(math.sqrt(float_up(2 * rho)), math.inf))
            return zcdp_epsilon(d, rho)

        # The final epsilon is below the one at delta/2, so the slack at that one is enough.
        rough = report(goal / 2)
        slack = approx_slack(rough, self.draws) if rough < 1000 else Fraction(1)
        if slack >= goal / 2:
            raise BudgetError(
                f"delta = {show(goal)} is not above twice the error {show(slack)} of the samplers; pass a larger delta"
            )
        return report(goal - slack)
