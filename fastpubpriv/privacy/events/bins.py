"""Occupied bins released where their noisy counts reach a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.privacy.budgets import ApproxDP, Budget, Cost
from fastpubpriv.privacy.events.base import Event, checked_scale
from fastpubpriv.privacy.exact import exact, show, whole
from fastpubpriv.privacy.relations import Neighbors
from fastpubpriv.privacy.stable_profile import Law, singleton_rate, stable_delta


@dataclass(frozen=True, slots=True)
class StableHistogramEvent(Event):
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
        if self.law not in ("laplace", "gaussian"):
            raise BudgetError(f"law must be 'laplace' or 'gaussian', got {self.law!r}")
        whole(self.histograms, "histograms")
        whole(self.step, "step")
        whole(self.threshold, "threshold", at_least=self.step + 1)
        checked_scale(self.log2_scale)
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
    def own_delta(self) -> Fraction:
        """As `delta`."""
        return self.delta

    def price(self, notion: type[Budget]) -> Fraction:
        """Its epsilon, in (epsilon, delta) only."""
        if notion is not ApproxDP:
            raise BudgetError("this release has an epsilon and a delta; pass ApproxDP(epsilon=..., delta=...)")
        return self.epsilon

    def record(self) -> dict[str, Any]:
        """Law, number of histograms, scale, epsilon and delta."""
        public = {"histograms": self.histograms, "log2_scale": self.log2_scale, "epsilon": self.epsilon}
        noise = "discrete laplace" if self.law == "laplace" else "gaussian"
        return {"noise": noise, **public, "delta": self.delta}

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """The share of epsilon that the moved counts take; rows of an answer are (histogram, count, key ...)."""
        tables = [{(row[0], *row[2:]): row[1] for row in answer.tolist()} for answer in (query, other)]
        moved = 0
        for index in range(self.histograms):
            bins = {key for table in tables for key in table if key[0] == index}
            gaps = [tables[0].get(key, 0) - tables[1].get(key, 0) for key in bins]
            if sum(gap for gap in gaps if gap > 0) > 1 or sum(-gap for gap in gaps if gap < 0) > 1:
                raise ReplayError(f"histogram {index} moved by more than one row between two bins")
            moved += sum(abs(gap) for gap in gaps)
        return self.epsilon * Fraction(moved, 2 * self.histograms)
