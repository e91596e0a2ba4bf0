"""Integers released with noise added: Gaussian or discrete Laplace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.budgets import ZCDP, ApproxDP, Budget, Cost, PureDP
from fastpubpriv.privacy.clusters import Clusters
from fastpubpriv.privacy.events.base import (
    Event,
    by_case,
    check_clusters,
    check_relation,
    checked_scale,
    noise_gaps,
    within,
)
from fastpubpriv.privacy.exact import exact, float_up, show, whole
from fastpubpriv.privacy.relations import Neighbors


@lru_cache(maxsize=1024)  # each release asks for it several times
def _gaussian_rho(squared_sensitivity: int, log2_scale: int) -> Fraction:
    return Fraction(squared_sensitivity, 2 * 4**log2_scale)


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Integers released with floor(N(0, 4^log2_scale)) added to each.

    Parameters
    ----------
    squared_sensitivity : int
        Largest squared l2 distance between the integer vectors of neighbours; a Python int, as 2 Q^4 exceeds int64.
    log2_scale : int
        The noise has standard deviation 2^log2_scale grid steps; 8 to 40.
    draws : int
        How many integers were released.
    relation : Neighbors
        What the sensitivity refers to.
    clusters : Clusters or None
        For a release over disjoint clusters of rows, the sensitivity by case; the larger one is the event's.

    Examples
    --------
    >>> event = GaussianEvent(squared_sensitivity=4 * 500**2, log2_scale=10, draws=20)
    >>> event.rho, event.cost
    (Fraction(15625, 32768), Cost(ZCDP, rho=0.476837158203125))
    """

    law: ClassVar[str] = "gaussian"
    gdp = True

    squared_sensitivity: int
    log2_scale: int
    draws: int
    relation: Neighbors = Neighbors.REPLACE_ONE
    clusters: Clusters | None = None

    def __post_init__(self) -> None:
        whole(self.squared_sensitivity, "squared_sensitivity", at_least=0)
        checked_scale(self.log2_scale)
        whole(self.draws, "draws", at_least=0)
        check_relation(self.relation)
        check_clusters(self.clusters, self.squared_sensitivity)

    @property
    def worst(self) -> int:
        """The sensitivity, under the name that all noise laws share."""
        return self.squared_sensitivity

    @property
    def rho(self) -> Fraction:
        """Exact zCDP cost, squared_sensitivity / (2 * 4^log2_scale)."""
        return _gaussian_rho(int(self.squared_sensitivity), int(self.log2_scale))

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on one integer, in grid steps."""
        return math.ldexp(1.0, self.log2_scale)

    @property
    def mu(self) -> float:
        """GDP parameter sqrt(2 rho), rounded up."""
        return math.nextafter(math.sqrt(float_up(2 * self.rho)), math.inf)

    @property
    def cost(self) -> Cost:
        """The zCDP cost."""
        return Cost(ZCDP, (self.rho,))

    def price(self, notion: type[Budget]) -> Fraction:
        """Its rho; Gaussian noise has no pure cost."""
        if notion is PureDP:
            raise BudgetError("Gaussian noise cannot meet PureDP; pass ZCDP or ApproxDP")
        return self.rho

    def record(self) -> dict[str, Any]:
        """Law, scale and rho, by case over clusters."""
        public = {"noise": "gaussian", "log2_scale": self.log2_scale, "rho": self.rho}
        return public if self.clusters is None else public | by_case("rho", self.rho, self.clusters)

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """|query - other|^2 / (2 4^log2_scale)."""
        moved = sum(gap * gap for gap in noise_gaps(self, query, other))
        return Fraction(within(moved, int(self.squared_sensitivity)), 2 * 4 ** int(self.log2_scale))


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Integers released with discrete Laplace noise, P(x) proportional to e^(-|x| / 2^log2_scale), added to each.

    Parameters
    ----------
    l1_sensitivity : int
        Largest l1 distance between the integer vectors of neighbours.
    log2_scale : int
        The noise has scale 2^log2_scale grid steps; 8 to 40.
    draws : int
        How many integers were released.
    relation : Neighbors
        What the sensitivity refers to.
    clusters : Clusters or None
        For a release over disjoint clusters of rows, the sensitivity by case; the larger one is the event's.
    delta : number
        What is relied on beyond the noise: the probability with which a comparison of the answer misleads, where a proof pays for
        that (`mechanisms/notes/agreement.md`). 0 for an answer that stands for itself; only then is the cost pure.

    Examples
    --------
    >>> LaplaceEvent(l1_sensitivity=128, log2_scale=8, draws=1).epsilon
    Fraction(1, 2)
    """

    law: ClassVar[str] = "laplace"
    beside_gaussian = True

    l1_sensitivity: int
    log2_scale: int
    draws: int
    relation: Neighbors = Neighbors.REPLACE_ONE
    clusters: Clusters | None = None
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", exact(self.delta, "delta"))
        if not 0 <= self.delta < 1:
            raise BudgetError(f"delta must be in [0, 1), got {show(self.delta)}")
        whole(self.l1_sensitivity, "l1_sensitivity", at_least=0)
        checked_scale(self.log2_scale)
        whole(self.draws, "draws", at_least=0)
        check_relation(self.relation)
        check_clusters(self.clusters, self.l1_sensitivity)

    @property
    def worst(self) -> int:
        """The sensitivity, under the name that all noise laws share."""
        return self.l1_sensitivity

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on one integer, in grid steps: sqrt(2) scales, less a part in 12 4^m."""
        return math.sqrt(2.0) * math.ldexp(1.0, self.log2_scale)

    @property
    def epsilon(self) -> Fraction:
        """Exact pure cost, l1_sensitivity / 2^log2_scale."""
        return Fraction(int(self.l1_sensitivity), 2 ** int(self.log2_scale))

    @property
    def cost(self) -> Cost:
        """The pure cost; (epsilon, delta) where the event states a delta."""
        return Cost(ApproxDP, (self.epsilon, self.delta)) if self.delta else Cost(PureDP, (self.epsilon,))

    @property
    def own_delta(self) -> Fraction:
        """As `delta`."""
        return self.delta

    def price(self, notion: type[Budget]) -> Fraction:
        """Its epsilon; under PureDP only where it states no delta."""
        if notion is ZCDP:
            raise BudgetError("this release is calibrated in epsilon; pass PureDP")
        if notion is PureDP and self.delta:
            raise BudgetError("this release has a delta; pass ApproxDP(epsilon=..., delta=...)")
        return self.epsilon

    def record(self) -> dict[str, Any]:
        """Law, scale and epsilon, by case over clusters; delta where it states one."""
        public = {"noise": "discrete laplace", "log2_scale": self.log2_scale, "epsilon": self.epsilon}
        return public | ({"delta": self.delta} if self.delta else {}) | by_case("epsilon", self.epsilon, self.clusters)

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """|query - other|_1 / 2^log2_scale."""
        moved = sum(abs(gap) for gap in noise_gaps(self, query, other))
        return Fraction(within(moved, int(self.l1_sensitivity)), 2 ** int(self.log2_scale))
