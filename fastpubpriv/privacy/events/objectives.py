"""The minimum of a loss with a secret linear term, released with noise for what its computation leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.privacy.budgets import ZCDP, Budget, Cost, PureDP
from fastpubpriv.privacy.conversions import pure_to_zcdp_exact
from fastpubpriv.privacy.events.base import Event, check_relation, checked_scale, signed_gaps, within
from fastpubpriv.privacy.exact import exact, float_up, show, whole
from fastpubpriv.privacy.relations import Neighbors

VOLUME_BITS = 40  # of the fraction of a log-determinant in a transcript
_VOLUME_ERROR = Fraction(1, 2**16)  # of the difference of two of them: they are computed from rounded rows


def log_upper(ratio: Fraction) -> Fraction:
    """A rational number that is at least ln(1 + ratio), for ratio >= 0, within a factor 1 + 2^-41."""
    return Fraction(math.log1p(float_up(ratio)) * (1.0 + 2.0**-42))  # far above the error of any libm


@dataclass(frozen=True, slots=True)
class ObjectiveEvent(Event):
    """The minimum of a strongly convex loss plus <secret, w>, in steps of a grid, with discrete Laplace noise added to each.

    The secret is a vector of discrete Laplace noise, drawn by `release_minimum` and never shown. Two neighbours have the same exact
    minimum when their secrets differ by the difference of their gradients there, and the density of the minimum has the
    determinant of the second derivative as a factor; the noise that is added covers the distance of the computed minima from it.

    Parameters
    ----------
    l1_sensitivity : int
        Largest l1 distance of two secrets, in their steps, that lead neighbours to the same minimum.
    log2_scale : int
        The secret has scale 2^log2_scale of its steps; 8 to 40.
    curvature : number
        A row's largest second derivative over the least eigenvalue of that of the loss.
    computed_sensitivity : int
        Largest l1 distance of the computed minima of two neighbours with the same exact one, in released steps.
    computed_log2_scale : int
        The noise on the minimum has scale 2^computed_log2_scale released steps; 8 to 40.
    draws : int
        Values of noise, half of them secret.
    relation : Neighbors
        What the sensitivities refer to.

    Examples
    --------
    >>> event = ObjectiveEvent(
    ...     l1_sensitivity=512, log2_scale=10, curvature=1, computed_sensitivity=64, computed_log2_scale=10, draws=4
    ... )
    >>> f"{float(event.epsilon):.4f}"  # 1/2 for the secret, ln 2 for the determinant, 1/16 for what is computed
    '1.2556'
    """

    law: ClassVar[str] = "objective"

    l1_sensitivity: int
    log2_scale: int
    curvature: Fraction
    computed_sensitivity: int
    computed_log2_scale: int
    draws: int
    relation: Neighbors = Neighbors.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "curvature", exact(self.curvature, "curvature"))
        if self.curvature < 0:
            raise BudgetError(f"curvature must be >= 0, got {show(self.curvature)}")
        whole(self.l1_sensitivity, "l1_sensitivity", at_least=0)
        whole(self.computed_sensitivity, "computed_sensitivity", at_least=0)
        checked_scale(self.log2_scale)
        checked_scale(self.computed_log2_scale)
        if whole(self.draws, "draws", at_least=0) % 2:
            raise BudgetError(f"draws must be even, half of them secret, got {self.draws}")
        check_relation(self.relation)

    @property
    def determinant_epsilon(self) -> Fraction:
        """What the change of variables costs: ln(1 + curvature), rounded up."""
        return log_upper(self.curvature)

    @property
    def epsilon(self) -> Fraction:
        """Pure cost: of the secret, of the determinant, and of the noise on the minimum."""
        secret = Fraction(int(self.l1_sensitivity), 2 ** int(self.log2_scale))
        computed = Fraction(int(self.computed_sensitivity), 2 ** int(self.computed_log2_scale))
        return secret + self.determinant_epsilon + computed

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on the computed minimum, in released steps."""
        return math.ldexp(math.sqrt(2.0), self.computed_log2_scale)

    @property
    def secret_std(self) -> float:
        """Standard deviation of an entry of the secret, in its steps."""
        return math.ldexp(math.sqrt(2.0), self.log2_scale)

    @property
    def half_step(self) -> float:
        """Zero: the discrete Laplace law is symmetric."""
        return 0.0

    @property
    def cost(self) -> Cost:
        """The pure cost."""
        return Cost(PureDP, (self.epsilon,))

    def price(self, notion: type[Budget]) -> Fraction:
        """Its epsilon, or the rho of any mechanism of this epsilon."""
        return self.rho_bound if notion is ZCDP else self.epsilon

    def record(self) -> dict[str, Any]:
        """Laws, scales and epsilons."""
        public = {"log2_scale": self.log2_scale, "computed_log2_scale": self.computed_log2_scale}
        return {"noise": "secret discrete laplace", **public, "epsilon": self.epsilon}

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """Exact cost of a pair at one point: of the secrets that lead there, of the determinants there, of the computed minima.

        An answer is (secret, minimum in steps, log-determinant in 2^-VOLUME_BITS), draws + 1 integers.
        """
        gaps = signed_gaps(query, other)
        if len(gaps) != self.draws + 1:
            raise ReplayError(f"declares {self.draws} draws for {len(gaps)} integers")
        half = self.draws // 2
        secret = within(sum(map(abs, gaps[:half])), int(self.l1_sensitivity))
        computed = within(sum(map(abs, gaps[half:-1])), int(self.computed_sensitivity))
        volume, most = Fraction(abs(gaps[-1]), 2**VOLUME_BITS), self.determinant_epsilon
        if volume > most + _VOLUME_ERROR:
            raise ReplayError(f"a log-determinant moved by {show(volume)} where its sensitivity allows {show(most)}")
        epsilon = Fraction(secret, 2 ** int(self.log2_scale)) + min(volume, most)
        epsilon += Fraction(computed, 2 ** int(self.computed_log2_scale))
        return pure_to_zcdp_exact(epsilon) if notion is ZCDP and epsilon else epsilon
