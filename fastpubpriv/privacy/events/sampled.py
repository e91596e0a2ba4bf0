"""One noisy sum over a random sample of the rows, out of a run of equal ones that is accounted for as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.budgets import ApproxDP, Budget, Cost
from fastpubpriv.privacy.events.base import Event, check_relation, checked_scale, noise_gaps, within
from fastpubpriv.privacy.exact import exact, float_up, show, whole
from fastpubpriv.privacy.relations import Neighbors
from fastpubpriv.privacy.sampling import Sampling
from fastpubpriv.privacy.subsampled import epsilon_of


@dataclass(frozen=True, slots=True)
class SampledGaussianEvent(Event):
    """Integers summed over sampled rows, released with floor(N(0, 4^log2_scale)) added to each: one step of `steps`.

    What sampling gains does not add up step by step: the first step is charged for the whole run, and the others (`later`), at most
    steps - 1 of them, are free: an account refuses one more, or one without a first. Full batches and one pass need no such
    event: each of their steps is a `GaussianEvent`, and these add up exactly.

    Parameters
    ----------
    sampling : Sampling
        Poisson(rate) or WithoutReplacement(batch, rows), with fewer than all rows.
    squared_sensitivity : int
        Largest squared l2 distance between the sums of neighbours: 4 Q^2 under replace-one for rows of integer norm Q.
    log2_scale : int
        The noise has standard deviation 2^log2_scale grid steps; 8 to 40.
    draws : int
        How many integers one step releases.
    steps : int
        How many steps the run has.
    delta : number
        Where epsilon is stated.
    first : bool
        True for the step that is charged.
    relation : Neighbors
        Replace-one in a fit.

    Examples
    --------
    >>> from fastpubpriv.privacy import Poisson
    >>> event = SampledGaussianEvent(Poisson(Fraction(1, 54)), 4 * 1000**2, 12, 20, steps=100, delta=1e-6)
    >>> round(event.noise_multiplier, 6), event.later.price(ApproxDP)
    (4.096, Fraction(0, 1))
    >>> round(float(event.epsilon), 2), float(event.own_delta)
    (0.36, 1e-06)
    """

    law: ClassVar[str] = "gaussian"

    sampling: Sampling
    squared_sensitivity: int
    log2_scale: int
    draws: int
    steps: int
    delta: Fraction
    first: bool = True
    relation: Neighbors = Neighbors.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", exact(self.delta, "delta"))
        if not 0 < self.delta < 1:
            raise BudgetError(f"delta must lie strictly between 0 and 1, got {show(self.delta)}")
        whole(self.squared_sensitivity, "squared_sensitivity", at_least=1)
        checked_scale(self.log2_scale)
        whole(self.draws, "draws", at_least=0)
        whole(self.steps, "steps")
        check_relation(self.relation)
        if not isinstance(self.first, bool):
            raise BudgetError(f"first must be a bool, got {type(self.first).__name__}")
        if not isinstance(self.sampling, Sampling) or self.sampling.squared_mu(self.steps, self.relation) is not None:
            raise BudgetError(
                "sampling must be Poisson or WithoutReplacement of fewer than all rows; else pass a GaussianEvent"
            )

    @property
    def later(self) -> SampledGaussianEvent:
        """Any other step of the same run."""
        return replace(self, first=False)

    @property
    def opens(self) -> int:
        """steps - 1 for the first step: an account charges no more later steps than the first has paid for."""
        return self.steps - 1 if self.first else 0

    @property
    def follows(self) -> SampledGaussianEvent | None:
        """The first step of the run, for a later one."""
        return None if self.first else replace(self, first=True)

    @property
    def noise_multiplier(self) -> float:
        """Noise over the clipping norm, rounded down: the sum moves by two norms under replace-one, by one under add/remove."""
        norms = 2 if self.relation is Neighbors.REPLACE_ONE else 1
        root = math.sqrt(float_up(Fraction(self.squared_sensitivity))) / norms
        while Fraction(root) ** 2 * norms**2 < self.squared_sensitivity:
            root = math.nextafter(root, math.inf)
        multiplier = math.ldexp(1.0, self.log2_scale) / root
        while Fraction(multiplier) * Fraction(root) > 2**self.log2_scale:
            multiplier = math.nextafter(multiplier, 0.0)
        return multiplier

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on one integer, in grid steps."""
        return math.ldexp(1.0, self.log2_scale)

    @property
    def epsilon(self) -> Fraction:
        """Of the whole run at `delta`, rounded up; 0 for a later step."""
        if not self.first:
            return Fraction(0)
        return Fraction(epsilon_of(self.noise_multiplier, self.sampling, self.steps, self.delta, self.relation))

    @property
    def own_delta(self) -> Fraction:
        """delta of the whole run; 0 for a later step."""
        return self.delta if self.first else Fraction(0)

    @property
    def cost(self) -> Cost:
        """The (epsilon, delta) cost of the whole run; zero for a later step."""
        return Cost(ApproxDP, (self.epsilon, self.own_delta))

    def price(self, notion: type[Budget]) -> Fraction:
        """Its epsilon, in (epsilon, delta) only."""
        if notion is not ApproxDP:
            raise BudgetError(
                "sums over sampled rows have an epsilon and a delta; pass ApproxDP(epsilon=..., delta=...)"
            )
        return self.epsilon

    def record(self) -> dict[str, Any]:
        """Law, scale, rate and steps, epsilon and delta."""
        public = {"noise": "gaussian", "log2_scale": self.log2_scale, "sampling_rate": self.sampling.rate}
        return public | {"steps": self.steps, "epsilon": self.epsilon, "delta": self.own_delta}

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """The price: what the run costs cannot be shared out among its steps. The sums must keep the promised distance."""
        within(sum(gap * gap for gap in noise_gaps(self, query, other)), int(self.squared_sensitivity))
        return self.price(notion)
