"""What every event answers for itself. Accounts, `release`, records and record/replay ask an event and never its class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.privacy.budgets import ZCDP, ApproxDP, Budget, Cost
from fastpubpriv.privacy.clusters import Clusters
from fastpubpriv.privacy.conversions import pure_to_zcdp_exact
from fastpubpriv.privacy.exact import whole
from fastpubpriv.privacy.relations import Neighbors
from fastpubpriv.privacy.sampler_error import total_variation

LOG2_SCALE_MIN = 8
LOG2_SCALE_MAX = 40


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

    # True where it is sqrt(2 rho)-GDP: then an account in (epsilon, delta) adds up its rho, else its epsilon and `own_delta`.
    gdp: ClassVar[bool] = False
    # True where it may be paid from the part of an ApproxDP budget that is reserved beside Gaussian releases.
    beside_gaussian: ClassVar[bool] = False

    if TYPE_CHECKING:  # a property here would be taken for the default value of the field

        @property
        def draws(self) -> int:
            """How many values of noise are drawn."""

        @property
        def relation(self) -> Neighbors:
            """What the sensitivity refers to."""

        @property
        def law(self) -> str:
            """Name of the law of its noise; `release` has a sampler for each."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The cost in its own notion."""

    @abstractmethod
    def price(self, notion: type[Budget]) -> Fraction:
        """What an account of this notion adds up, a rho or an epsilon; BudgetError with what to pass instead if there is none."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The law, scale and exact cost of the release, for the record of a result."""

    @abstractmethod
    def pair_cost(self, query: IntArray, other: IntArray, notion: type[Budget]) -> Fraction:
        """Exact cost of telling two given answers apart, in the currency of `price`; ReplayError where they break the promise."""

    @property
    def half_step(self) -> float:
        """What is added to a noisy integer: a floored continuous law sits half a step low, the discrete Laplace is symmetric."""
        return 0.0 if self.law == "laplace" else 0.5

    @property
    def opens(self) -> int:
        """How many later steps of the same run its price has paid for; each of them costs nothing, and may be charged once."""
        return 0

    @property
    def follows(self) -> Event | None:
        """The event whose price pays for this one too; None where it pays for itself."""
        return None

    @property
    def clusters(self) -> Clusters | None:
        """The sensitivity by case, for a release over disjoint clusters of rows."""
        return None

    @property
    def own_delta(self) -> Fraction:
        """The delta that the event states beside its epsilon."""
        return Fraction(0)

    @property
    def total_variation(self) -> Fraction:
        """Distance of the sampled noise from its ideal law, at most draws 2^-100."""
        return total_variation(self.draws)

    @property
    def rho_bound(self) -> Fraction:
        """zCDP cost, of a pure event at most epsilon tanh(epsilon / 2), rounded up; BudgetError for an event with a delta."""
        cost = self.cost
        if cost.notion is ApproxDP:
            raise BudgetError(f"a {type(self).__name__} has a delta of its own and therefore no zCDP cost")
        (amount,) = cost.amounts
        return amount if cost.notion is ZCDP or not amount else pure_to_zcdp_exact(amount)


# ---- what the events share


def checked_scale(value: object) -> int:
    """A log2 scale that the samplers take."""
    scale = whole(value, "log2_scale", at_least=LOG2_SCALE_MIN)
    if scale > LOG2_SCALE_MAX:
        raise BudgetError(f"log2_scale must be at most {LOG2_SCALE_MAX}, got {scale}")
    return scale


def check_relation(value: object) -> None:
    """Refuse what is not a relation."""
    if not isinstance(value, Neighbors):
        raise BudgetError(f"relation must be a Neighbors value, got {type(value).__name__}")


def check_clusters(value: Clusters | None, sensitivity: int) -> None:
    """Refuse cases that do not belong to the sensitivity."""
    if value is not None and (not isinstance(value, Clusters) or value.worst != sensitivity):
        raise BudgetError("clusters must be a Clusters value whose worse case is the sensitivity of the event")


def by_case(currency: str, cost: Fraction, clusters: Clusters | None) -> dict[str, Fraction]:
    """The cost by case, for a record."""
    if clusters is None:
        return {}
    stay, move = (cost * case / clusters.worst for case in (clusters.stay, clusters.move))
    return {f"{currency}_stay": stay, f"{currency}_move": move}


def signed_gaps(query: IntArray, other: IntArray) -> list[int]:
    """Differences of two answers modulo 2^64; Python integers, as squares may exceed int64."""
    return [int(gap) for gap in (query - other).ravel().tolist()]


def noise_gaps(event: Event, query: IntArray, other: IntArray) -> list[int]:
    """As `signed_gaps`, one for each draw."""
    found = signed_gaps(query, other)
    if event.draws != len(found):
        raise ReplayError(f"declares {event.draws} draws for {len(found)} integers")
    return found


def within(moved: int, allowed: int) -> int:
    """`moved`, which must not exceed the sensitivity."""
    if moved > allowed:
        raise ReplayError(f"moved by {moved} where its sensitivity allows {allowed}")
    return moved
