"""Events: what was run, in integers. Costs follow from them exactly.

The noise samplers are close to the ideal laws, not equal to them (SAFETY.md 0.2 item 6): each draw is within a factor
e^(2^-100) of its law inside a cut, and the tail beyond the cut has mass below 2^-184. `total_variation`,
`approx_slack` and `pure_slack` state what that costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.budgets import ZCDP, ApproxDP, Cost, PureDP
from fastpubpriv.privacy.clusters import Bill, Clusters
from fastpubpriv.privacy.conversions import pure_to_zcdp_exact
from fastpubpriv.privacy.exact import Number, exact, float_up, show, whole
from fastpubpriv.privacy.relations import Neighbors
from fastpubpriv.privacy.stable import StableHistogramEvent

LOG2_SCALE_MIN = 8
LOG2_SCALE_MAX = 40
DRAW_ERROR = Fraction(1, 2**100)
CHOICE_LAWS = ("exponential", "permute_and_flip")
_PURE_EPSILON_PER_DRAW = Fraction(1, 2**99)
PURE_DELTA_PER_DRAW = Fraction(1, 2**184)


def exp_upper(value: Fraction) -> Fraction:
    """A rational number that is at least e^value, for 0 <= value <= 1100, within a factor 1 + 2^-40."""
    # Squared once because e^1024 overflows a double; 2^-42 is far above the error of any libm.
    return Fraction(math.exp(float_up(value) / 2) * (1 + 2.0**-42)) ** 2


def total_variation(draws: int) -> Fraction:
    """Upper bound on the total variation distance between `draws` draws of noise and their ideal laws."""
    return whole(draws, "draws", at_least=0) * DRAW_ERROR


def approx_slack(epsilon: Number, draws: int) -> Fraction:
    """What the samplers add to delta in an (epsilon, delta) statement: (1 + e^epsilon) draws 2^-100, rounded up.

    Examples
    --------
    >>> f"{float(approx_slack(1.0, 10**6)):.1e}"
    '2.9e-24'
    """
    return (1 + exp_upper(exact(epsilon, "epsilon"))) * total_variation(draws)


def pure_slack(epsilon: Number, draws: int) -> tuple[Fraction, Fraction]:
    """What the samplers add to a pure epsilon statement: (draws 2^-99, (1 + e^epsilon) draws 2^-184), rounded up."""
    n = whole(draws, "draws", at_least=0)
    return n * _PURE_EPSILON_PER_DRAW, (1 + exp_upper(exact(epsilon, "epsilon"))) * n * PURE_DELTA_PER_DRAW


def _scale(value: object) -> int:
    scale = whole(value, "log2_scale", at_least=LOG2_SCALE_MIN)
    if scale > LOG2_SCALE_MAX:
        raise BudgetError(f"log2_scale must be at most {LOG2_SCALE_MAX}, got {scale}")
    return scale


def _relation(value: object) -> None:
    if not isinstance(value, Neighbors):
        raise BudgetError(f"relation must be a Neighbors value, got {type(value).__name__}")


def _clusters(value: Clusters | None, sensitivity: int) -> None:
    if value is not None and (not isinstance(value, Clusters) or value.worst != sensitivity):
        raise BudgetError("clusters must be a Clusters value whose worse case is the sensitivity of the event")


@dataclass(frozen=True, slots=True)
class GaussianEvent:
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

    squared_sensitivity: int
    log2_scale: int
    draws: int
    relation: Neighbors = Neighbors.REPLACE_ONE
    clusters: Clusters | None = None

    def __post_init__(self) -> None:
        whole(self.squared_sensitivity, "squared_sensitivity", at_least=0)
        _scale(self.log2_scale)
        whole(self.draws, "draws", at_least=0)
        _relation(self.relation)
        _clusters(self.clusters, self.squared_sensitivity)

    @property
    def worst(self) -> int:
        """The sensitivity, under the name that all noise laws share."""
        return self.squared_sensitivity

    @property
    def rho(self) -> Fraction:
        """Exact zCDP cost, squared_sensitivity / (2 * 4^log2_scale)."""
        return Fraction(int(self.squared_sensitivity), 2 * 4 ** int(self.log2_scale))

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

    @property
    def total_variation(self) -> Fraction:
        """Distance of the sampled noise from its ideal law, at most draws 2^-100."""
        return total_variation(self.draws)


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
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
        _scale(self.log2_scale)
        whole(self.draws, "draws", at_least=0)
        _relation(self.relation)
        _clusters(self.clusters, self.l1_sensitivity)

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
    def total_variation(self) -> Fraction:
        """Distance of the sampled noise from its ideal law, at most draws 2^-100."""
        return total_variation(self.draws)


@dataclass(frozen=True, slots=True)
class KNormEvent:
    """Integers released with floor(z) added, z of density proportional to e^(-epsilon |z|_2 / l2_sensitivity).

    z is computed in floating point, so the release is (epsilon, delta)-DP with the stated coupling bound, never pure.

    Parameters
    ----------
    epsilon : number
        Nominal cost.
    delta : number
        Bound on what floating point adds (`calibration.knorm_delta`).
    l2_sensitivity : int
        Largest l2 distance between the integer vectors of neighbours.
    draws : int
        How many integers were released.
    relation : Neighbors
        What the sensitivity refers to.

    Examples
    --------
    >>> KNormEvent(epsilon=1, delta=2.0**-40, l2_sensitivity=64, draws=3).cost
    Cost(ApproxDP, epsilon=1.0, delta=9.094947017729282e-13)
    """

    epsilon: Fraction
    delta: Fraction
    l2_sensitivity: int
    draws: int = 1
    relation: Neighbors = Neighbors.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact(self.delta, "delta"))
        if self.epsilon < 0 or not 0 <= self.delta < 1:
            raise BudgetError(f"epsilon must be >= 0 and delta in [0, 1), got {show(self.epsilon)}, {show(self.delta)}")
        whole(self.l2_sensitivity, "l2_sensitivity", at_least=0)
        whole(self.draws, "draws", at_least=0)
        _relation(self.relation)

    @property
    def noise_scale(self) -> float:
        """l2_sensitivity / epsilon, in grid steps."""
        return float_up(Fraction(self.l2_sensitivity) / self.epsilon)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on one integer, in grid steps: E |z|^2 = d (d + 1) noise_scale^2."""
        return math.sqrt(self.draws + 1.0) * self.noise_scale

    @property
    def cost(self) -> Cost:
        """The (epsilon, delta) cost, floating point included."""
        return Cost(ApproxDP, (self.epsilon, self.delta))


@dataclass(frozen=True, slots=True)
class SelectionEvent:
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
        _relation(self.relation)
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
    def total_variation(self) -> Fraction:
        """Distance of the computed choice from its ideal law."""
        return total_variation(1)


Event = GaussianEvent | LaplaceEvent | KNormEvent | SelectionEvent | StableHistogramEvent


def add_to_bill(bill: Bill, event: Event, cost: Fraction) -> None:
    """Add an event that costs `cost` in the currency of the bill, by case if it is over clusters."""
    clusters = event.clusters if isinstance(event, GaussianEvent | LaplaceEvent) else None
    if clusters is None or not clusters.worst:
        bill.add(cost)
    else:
        bill.add_case(
            cost * Fraction(clusters.stay, clusters.worst),
            cost * Fraction(clusters.move, clusters.worst),
            clusters.lineage,
        )
