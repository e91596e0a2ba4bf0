"""A noisy choice among candidates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.privacy.budgets import ZCDP, Budget, Cost, PureDP
from fastpubpriv.privacy.conversions import pure_to_zcdp_exact
from fastpubpriv.privacy.events.base import Event, check_relation, signed_gaps
from fastpubpriv.privacy.exact import exact, show, whole
from fastpubpriv.privacy.relations import Neighbors

CHOICE_LAWS = ("exponential", "permute_and_flip")


@dataclass(frozen=True, slots=True)
class SelectionEvent(Event):
    """One of `candidates` chosen on integer scores, with rate = epsilon / (2 sensitivity).

    Law "exponential": P(i) ~ e^(rate score_i). "permute_and_flip": in random order, the first to win a coin of probability
    e^(-rate (best score - score_i)); never worse at the same epsilon, but not bounded in range, so dearer in zCDP.

    Parameters
    ----------
    epsilon : number
        Exact pure cost.
    sensitivity : int
        Most that the score of a candidate differs between neighbours.
    candidates : int
        How many scores there are.
    relation : Neighbors
        What the sensitivity refers to.
    law : "exponential" or "permute_and_flip"
        How the choice is made.

    Examples
    --------
    >>> event = SelectionEvent(epsilon=1, sensitivity=1, candidates=5)
    >>> event.rho, event.rate
    (Fraction(1, 8), Fraction(1, 2))
    >>> f"{float(SelectionEvent(epsilon=1, sensitivity=1, candidates=5, law='permute_and_flip').rho):.4f}"
    '0.4621'
    """

    beside_gaussian = True

    epsilon: Fraction
    sensitivity: int
    candidates: int
    relation: Neighbors = Neighbors.REPLACE_ONE
    law: str = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        if self.epsilon <= 0:
            raise BudgetError(f"epsilon must be > 0, got {show(self.epsilon)}")
        whole(self.sensitivity, "sensitivity")
        whole(self.candidates, "candidates")
        check_relation(self.relation)
        if self.law not in CHOICE_LAWS:
            raise BudgetError(f"law must be one of {', '.join(CHOICE_LAWS)}, got {self.law!r}")

    @property
    def draws(self) -> int:
        """One: the choice itself, within e^(2^-100) of its law but for a mass below 2^-184."""
        return 1

    @property
    def rate(self) -> Fraction:
        """Weight lost for each point of score, as an exponent."""
        return self.epsilon / (2 * self.sensitivity)

    @property
    def rho(self) -> Fraction:
        """zCDP cost: epsilon^2 / 8 when bounded in range, else as of any pure mechanism, epsilon tanh(epsilon / 2) rounded up."""
        return self.rho_at(self.epsilon)

    def rho_at(self, epsilon: Fraction) -> Fraction:
        """zCDP cost of two data sets whose laws of this kind differ by `epsilon`."""
        return epsilon**2 / 8 if self.law == "exponential" or not epsilon else pure_to_zcdp_exact(epsilon)

    @property
    def cost(self) -> Cost:
        """The pure cost."""
        return Cost(PureDP, (self.epsilon,))

    @property
    def rho_bound(self) -> Fraction:
        """As `rho`."""
        return self.rho

    def price(self, notion: type[Budget]) -> Fraction:
        """Its rho or its epsilon."""
        return self.rho if notion is ZCDP else self.epsilon

    def record(self) -> dict[str, Any]:
        """Law, number of candidates, sensitivity and epsilon."""
        public = {"candidates": self.candidates, "sensitivity": self.sensitivity, "epsilon": self.epsilon}
        return {"noise": "exponential mechanism" if self.law == "exponential" else "permute-and-flip", **public}

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """One score moves up and all others down: for either law rate times the sum of the largest gaps, as an epsilon."""
        gaps = signed_gaps(query, other)
        most = max(abs(gap) for gap in gaps)
        if most > self.sensitivity:
            raise ReplayError(f"a score moved by {most} where its sensitivity allows {self.sensitivity}")
        epsilon = self.rate * (max(0, *gaps) + max(0, *(-gap for gap in gaps)))
        # The pair is a mechanism of the same kind at its own, smaller epsilon.
        return self.rho_at(epsilon) if notion is ZCDP else epsilon
