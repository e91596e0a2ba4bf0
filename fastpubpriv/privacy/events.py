"""Events: the integer parameters and the cost of a release, one frozen class for each kind of release.

A new kind of release is a new subclass of `Event`; accounts, `release` and record/replay need no change for it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.privacy.budgets import (
    ZCDP,
    ApproxDP,
    Budget,
    Clusters,
    Cost,
    Neighbors,
    PureDP,
    checked_relation,
    exact,
    keep_whole,
    positive,
    show,
)
from fastpubpriv.privacy.conversions import Law, pure_to_zcdp, singleton_rate, stable_delta
from fastpubpriv.privacy.sampling import Sampling, epsilon_of, jump, root_up

LOG2_SCALE_MIN = 8  # bounds on log2 of the noise scale in grid steps
LOG2_SCALE_MAX = 40
NEEDS_APPROX = "this release has an epsilon and a delta; pass ApproxDP(epsilon=..., delta=...)"
_NOISES = {
    "gaussian": "gaussian",
    "laplace": "discrete laplace",
    "exponential": "exponential mechanism",
    "permute_and_flip": "permute-and-flip",
}


class Event(ABC):
    """One release. A subclass is a frozen dataclass of public values, with `draws`, `relation` and `law` as fields or constants.

    A new kind of release is a new subclass and nothing else. Notions are the types of budgets: ZCDP, ApproxDP and PureDP.

    Examples
    --------
    >>> from fastpubpriv.privacy import Event, GaussianEvent
    >>> event = GaussianEvent(squared_sensitivity=2**20, log2_scale=10, draws=1)
    >>> isinstance(event, Event), event.law, float(event.rho)
    (True, 'gaussian', 0.5)
    """

    __slots__ = ()

    # True if the release is sqrt(2 rho)-GDP: an account in (epsilon, delta) then adds up its rho, else its epsilon and `own_delta`.
    gdp: ClassVar[bool] = False
    # True if the release may be charged to the part of an ApproxDP budget reserved for releases composed with Gaussian ones.
    beside_gaussian: ClassVar[bool] = False
    # Fields and properties that a record shows beside the noise; over clusters of rows, the cost comes last.
    recorded: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:  # a property here would become the default value of the field

        @property
        def draws(self) -> int:
            """Number of noise values drawn."""

        @property
        def relation(self) -> Neighbors:
            """Neighboring relation of the sensitivity."""

        @property
        def law(self) -> str:
            """Name of the noise distribution; `release` has a sampler for each."""

    @property
    def cost(self) -> Cost:
        """The cost, in the native notion of the event: rho if it is GDP, else epsilon, with a delta if it has one."""
        if self.gdp:
            return Cost(ZCDP, (self.price(ZCDP),))
        epsilon = self.price(ApproxDP)
        return (
            Cost(ApproxDP, (epsilon, self.own_delta)) if self._delta else Cost(PureDP, (epsilon,))
        )

    def price(self, notion: type[Budget]) -> Fraction:
        """Rho or epsilon that an account of this notion adds up; BudgetError, with advice, if there is none."""
        if notion is PureDP and self.gdp:
            raise BudgetError("Gaussian noise cannot meet PureDP; pass ZCDP or ApproxDP")
        if notion is not ApproxDP and self._delta:
            raise BudgetError(NEEDS_APPROX)
        amount: Fraction | None = getattr(
            self, "rho" if notion is ZCDP or self.gdp else "epsilon", None
        )
        if amount is None:
            raise BudgetError("this release is calibrated in epsilon; pass PureDP")
        return amount

    def record(self) -> dict[str, Any]:
        """Noise distribution, scale and exact cost of the release, for the record of a result."""
        public = {"noise": _NOISES[self.law]} | {
            name: getattr(self, name) for name in self.recorded
        }
        if self._delta:
            public["delta"] = self.own_delta
        if (cases := self.clusters) is not None:
            unit = self.recorded[-1]  # rho or epsilon
            for case in ("stay", "move"):
                public[f"{unit}_{case}"] = public[unit] * getattr(cases, case) / cases.worst
        return public

    @abstractmethod
    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """Exact privacy loss between two given answers, in the unit of `price`; ReplayError beyond the sensitivity."""

    @property
    def half_step(self) -> float:
        """Bias correction of a noisy integer: 0.5 for continuous noise that was floored, 0 for symmetric discrete Laplace noise."""
        return 0.0 if self.law == "laplace" else 0.5

    @property
    def opens(self) -> int:
        """Number of later steps of the run that the price covers; each costs nothing, and may be charged once."""
        return 0

    @property
    def follows(self) -> Event | None:
        """The event whose price covers this one; None if this one has its own price."""
        return None

    @property
    def clusters(self) -> Clusters | None:
        """The sensitivity by case, for a release over disjoint clusters of rows; else None."""
        return None

    @property
    def own_delta(self) -> Fraction:
        """The delta that belongs to the epsilon of the event."""
        return self._delta

    @property
    def _delta(self) -> Fraction:
        return getattr(self, "delta", Fraction(0))


class IntegerEvent(Event):
    """Release of integers with "gaussian" or "laplace" noise (`law`) of scale 2^log2_scale."""

    __slots__ = ()

    # name of the field of the sensitivity: squared l2, or l1 for Laplace noise
    sensitivity_field: ClassVar[str] = ""
    # whether a released second moment is its upper triangle, not the whole matrix
    triangle: ClassVar[bool] = False
    # noise on the diagonal of the Gaussian orthogonal ensemble with the same effect, over that of one integer
    spectral_factor: ClassVar[float] = 1.0

    if TYPE_CHECKING:

        @property
        def log2_scale(self) -> int:
            """The scale of the noise is 2^log2_scale grid steps; 8 to 40."""

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on one integer, in grid steps; Laplace: sqrt(2) scales, within a relative 1/(12 4^m)."""
        return math.ldexp(math.sqrt(2.0) if self.law == "laplace" else 1.0, self.log2_scale)

    @property
    def worst(self) -> int:
        """The sensitivity, under the name that all noise laws share."""
        return int(getattr(self, self.sensitivity_field))

    def check_noise(self, *, at_least: int = 0) -> None:
        """Raise BudgetError unless sensitivity, scale, draws, relation and clusters are valid."""
        if self.sensitivity_field:
            keep_whole(self, self.sensitivity_field, at_least=at_least)
        if keep_whole(self, "log2_scale", at_least=LOG2_SCALE_MIN) > LOG2_SCALE_MAX:
            raise BudgetError(f"log2_scale must be at most {LOG2_SCALE_MAX}, got {self.log2_scale}")
        keep_whole(self, "draws", at_least=0)
        checked_relation(self.relation)
        cases = self.clusters
        if cases is not None and (not isinstance(cases, Clusters) or cases.worst != self.worst):
            raise BudgetError(
                "clusters must be a Clusters value whose worse case is the sensitivity of the event"
            )

    def moved(self, query: IntArray, other: IntArray) -> int:
        """Return the distance of two answers, as the sensitivity measures it; ReplayError if it is larger."""
        gaps = signed_gaps(query, other)
        if self.draws != len(gaps):
            raise ReplayError(f"declares {self.draws} draws for {len(gaps)} integers")
        moved = sum(abs(gap) if self.law == "laplace" else gap * gap for gap in gaps)
        if moved > self.worst:
            raise ReplayError(f"moved by {moved} where its sensitivity allows {self.worst}")
        return moved

    def cost_of(self, moved: int) -> Fraction:
        """Return the exact rho, or epsilon for Laplace noise, of answers at this distance."""
        return Fraction(
            int(moved), 2**self.log2_scale if self.law == "laplace" else 2 * 4**self.log2_scale
        )

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """Return the exact cost of the distance of two answers."""
        return self.cost_of(self.moved(query, other))


def signed_gaps(query: IntArray, other: IntArray) -> list[int]:
    """Return the differences of two answers modulo 2^64, as Python integers, since squares may exceed int64."""
    return [int(gap) for gap in (query - other).ravel().tolist()]


@dataclass(frozen=True, slots=True)
class GaussianEvent(IntegerEvent):
    """Integers released with floor(N(0, 4^log2_scale)) added to each.

    Parameters
    ----------
    squared_sensitivity : int
        Largest squared l2 distance between the integer vectors of neighbors; a Python int, as 2 Q^4 exceeds int64.
    log2_scale : int
        The noise has standard deviation 2^log2_scale grid steps; 8 to 40.
    draws : int
        Number of released integers.
    relation : Neighbors
        Neighboring relation of the sensitivity.
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
    sensitivity_field = "squared_sensitivity"
    recorded = ("log2_scale", "rho")
    triangle = False
    spectral_factor = 1.0

    squared_sensitivity: int
    log2_scale: int
    draws: int
    relation: Neighbors = Neighbors.REPLACE_ONE
    clusters: Clusters | None = None

    def __post_init__(self) -> None:
        self.check_noise()

    @property
    def rho(self) -> Fraction:
        """Exact zCDP cost, squared_sensitivity / (2 * 4^log2_scale)."""
        return self.cost_of(self.worst)


@dataclass(frozen=True, slots=True)
class LaplaceEvent(IntegerEvent):
    """Integers released with discrete Laplace noise, P(x) proportional to e^(-|x| / 2^log2_scale), added to each.

    Parameters
    ----------
    l1_sensitivity : int
        Largest l1 distance between the integer vectors of neighbors.
    log2_scale : int
        The noise has scale 2^log2_scale grid steps; 8 to 40.
    draws : int
        Number of released integers.
    relation : Neighbors
        Neighboring relation of the sensitivity.
    clusters : Clusters or None
        For a release over disjoint clusters of rows, the sensitivity by case; the larger one is the event's.
    delta : number
        Probability that a comparison with the answer fails, where the privacy proof relies on such a comparison
        (`mechanisms/notes/agreement.md`). Otherwise 0; only then is the cost pure.

    Examples
    --------
    >>> LaplaceEvent(l1_sensitivity=128, log2_scale=8, draws=1).epsilon
    Fraction(1, 2)
    """

    law: ClassVar[str] = "laplace"
    beside_gaussian = True
    sensitivity_field = "l1_sensitivity"
    recorded = ("log2_scale", "epsilon")
    triangle = True
    spectral_factor = math.sqrt(2.0)

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
        self.check_noise()

    @property
    def epsilon(self) -> Fraction:
        """Exact pure cost, l1_sensitivity / 2^log2_scale."""
        return self.cost_of(self.worst)


@dataclass(frozen=True, slots=True)
class SelectionEvent(Event):
    """One of `candidates` chosen on integer scores, with rate = epsilon / (2 sensitivity).

    Law "exponential": P(i) ~ e^(rate score_i). "permute_and_flip": in random order, the first candidate accepted with probability
    e^(-rate (best score - score_i)); never worse at the same epsilon, but without bounded range, so its zCDP cost is higher.

    Parameters
    ----------
    epsilon : number
        Exact pure cost.
    sensitivity : int
        Maximum difference of a candidate's score between neighbors.
    candidates : int
        Number of scores.
    relation : Neighbors
        Neighboring relation of the sensitivity.
    law : "exponential" or "permute_and_flip"
        Selection mechanism.

    Examples
    --------
    >>> event = SelectionEvent(epsilon=1, sensitivity=1, candidates=5)
    >>> event.rho, event.rate
    (Fraction(1, 8), Fraction(1, 2))
    >>> f"{float(SelectionEvent(epsilon=1, sensitivity=1, candidates=5, law='permute_and_flip').rho):.4f}"
    '0.4621'
    """

    beside_gaussian = True
    recorded = ("candidates", "sensitivity", "epsilon")

    epsilon: Fraction
    sensitivity: int
    candidates: int
    relation: Neighbors = Neighbors.REPLACE_ONE
    law: str = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        keep_whole(self, "sensitivity")
        keep_whole(self, "candidates")
        checked_relation(self.relation)
        if self.law not in ("exponential", "permute_and_flip"):
            raise BudgetError(f"law must be one of exponential, permute_and_flip, got {self.law!r}")

    @property
    def draws(self) -> int:
        """One: the selection, within a factor e^(2^-100) of its distribution except for a mass below 2^-184."""
        return 1

    @property
    def rate(self) -> Fraction:
        """Exponent per unit of score, epsilon / (2 sensitivity)."""
        return self.epsilon / (2 * self.sensitivity)

    @property
    def rho(self) -> Fraction:
        """zCDP cost: epsilon^2 / 8 for "exponential" (bounded range), else epsilon tanh(epsilon / 2) of pure DP, rounded up."""
        return self.rho_at(self.epsilon)

    def rho_at(self, epsilon: Fraction) -> Fraction:
        """zCDP cost of a selection of this kind at `epsilon`."""
        return epsilon**2 / 8 if self.law == "exponential" else pure_to_zcdp(epsilon)

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """Cost at epsilon = rate times (largest increase + largest decrease of a score), valid for either law."""
        gaps = signed_gaps(query, other)
        most = max(abs(gap) for gap in gaps)
        if most > self.sensitivity:
            raise ReplayError(
                f"a score moved by {most} where its sensitivity allows {self.sensitivity}"
            )
        epsilon = self.rate * (max(0, *gaps) + max(0, *(-gap for gap in gaps)))
        # The pair is a mechanism of the same kind at its own, smaller epsilon.
        return self.rho_at(epsilon) if notion is ZCDP else epsilon


@dataclass(frozen=True, slots=True)
class StableHistogramEvent(IntegerEvent):
    """Occupied bins released with noisy counts where step * count + noise >= threshold.

    Parameters
    ----------
    law : "laplace" or "gaussian"
        Discrete Laplace noise of scale 2^log2_scale, or floor(N(0, 4^log2_scale)).
    histograms : int
        Number of histograms; a row counts in at most one bin of each.
    step : int
        Grid steps per counted row.
    threshold : int
        Least integer that is released; at least step + 1.
    log2_scale : int
        8 to 40.
    epsilon : number
        Epsilon at which delta is stated.
    draws : int
        Number of noise draws that are charged: a public bound on the number of occupied bins.
    relation : Neighbors
        Replace-one.

    Examples
    --------
    >>> event = StableHistogramEvent("laplace", 1, 128, 8 * 128, 8, Fraction(1), draws=10)
    >>> f"{float(event.delta):.6f}", event.count_threshold
    ('0.015128', 8.0)
    """

    recorded = ("histograms", "log2_scale", "epsilon")

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
        keep_whole(self, "histograms")
        keep_whole(self, "step")
        keep_whole(self, "threshold", at_least=self.step + 1)
        self.check_noise()
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if self.relation is Neighbors.ADD_REMOVE_ONE:
            raise BudgetError("a stable histogram is accounted for under replace-one")

    @property
    def delta(self) -> Fraction:
        """delta at `epsilon`, rounded up; exact for one histogram and for Gaussian noise."""
        return Fraction(
            stable_delta(
                self.law, self.histograms, self.step, self.threshold, self.log2_scale, self.epsilon
            )
        )

    @property
    def singleton_rate(self) -> float:
        """Probability that a bin with one row is released, rounded up."""
        return singleton_rate(self.law, self.threshold - self.step, self.log2_scale)

    @property
    def count_noise_std(self) -> float:
        """Standard deviation of the noise on a count."""
        return self.noise_std / self.step

    @property
    def count_threshold(self) -> float:
        """The threshold on a noisy count."""
        return self.threshold / self.step

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """Epsilon times the fraction of counts that changed; rows of an answer are (histogram, count, key ...)."""
        tables = [
            {(row[0], *row[2:]): row[1] for row in answer.tolist()} for answer in (query, other)
        ]
        moved = 0
        for index in range(self.histograms):
            bins = {key for table in tables for key in table if key[0] == index}
            gaps = [tables[0].get(key, 0) - tables[1].get(key, 0) for key in bins]
            if sum(gap for gap in gaps if gap > 0) > 1 or sum(-gap for gap in gaps if gap < 0) > 1:
                raise ReplayError(f"histogram {index} moved by more than one row between two bins")
            moved += sum(abs(gap) for gap in gaps)
        return self.epsilon * Fraction(moved, 2 * self.histograms)


@dataclass(frozen=True, slots=True)
class SampledGaussianEvent(IntegerEvent):
    """Integers summed over sampled rows, released with floor(N(0, 4^log2_scale)) added to each: one step of `steps`.

    Costs of sampled steps do not add up: the first step is charged for the whole run, and at most steps - 1 others (`later`) are
    free; an account refuses one more, or one without a first step. Full batches and one pass need no such event: each of their
    steps is a `GaussianEvent`, and these add up exactly.

    Parameters
    ----------
    sampling : Sampling
        Poisson(rate) or WithoutReplacement(batch, rows), with fewer than all rows.
    squared_sensitivity : int
        Largest squared l2 distance between the sums of neighbors: 4 Q^2 under replace-one for rows of integer norm Q.
    log2_scale : int
        The noise has standard deviation 2^log2_scale grid steps; 8 to 40.
    draws : int
        Number of integers released by one step.
    steps : int
        Number of steps of the run.
    delta : number
        Delta at which epsilon is stated.
    first : bool
        True for the step that is charged.
    relation : Neighbors
        Neighboring relation of the sensitivity; replace-one in a fit.

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
    sensitivity_field = "squared_sensitivity"
    recorded = ("log2_scale", "sampling_rate", "steps", "epsilon")

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
        self.check_noise(at_least=1)
        keep_whole(self, "steps")
        if not isinstance(self.first, bool):
            raise BudgetError(f"first must be a bool, got {type(self.first).__name__}")
        if (
            not isinstance(self.sampling, Sampling)
            or self.sampling.squared_mu(self.steps, self.relation) is not None
        ):
            raise BudgetError(
                "sampling must be Poisson or WithoutReplacement of fewer than all rows; else pass a GaussianEvent"
            )

    @property
    def later(self) -> SampledGaussianEvent:
        """The event of any other step of the same run."""
        return replace(self, first=False)

    @property
    def opens(self) -> int:
        """steps - 1 for the first step, else 0: an account accepts no more later steps than the first one covers."""
        return self.steps - 1 if self.first else 0

    @property
    def follows(self) -> SampledGaussianEvent | None:
        """The first step of the run; None for the first step itself."""
        return None if self.first else replace(self, first=True)

    @property
    def noise_multiplier(self) -> float:
        """Noise over the clipping norm, rounded down; the sum changes by two norms under replace-one, by one under add/remove."""
        root = root_up(Fraction(self.worst, jump(self.relation) ** 2))
        multiplier = math.ldexp(1.0, self.log2_scale) / root
        while Fraction(multiplier) * Fraction(root) > 2**self.log2_scale:
            multiplier = math.nextafter(multiplier, 0.0)
        return multiplier

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the whole run at `delta`, rounded up; 0 for a later step."""
        if not self.first:
            return Fraction(0)
        return Fraction(
            epsilon_of(self.noise_multiplier, self.sampling, self.steps, self.delta, self.relation)
        )

    @property
    def own_delta(self) -> Fraction:
        """delta of the whole run; 0 for a later step."""
        return self.delta if self.first else Fraction(0)

    @property
    def sampling_rate(self) -> Fraction:
        """Probability that a row takes part in a step."""
        return self.sampling.rate

    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """Price, as the cost of a run cannot be divided among its steps; ReplayError beyond the sensitivity."""
        self.moved(query, other)
        return self.price(notion)
