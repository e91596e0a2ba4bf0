"""From counts to a lower bound on epsilon: Clopper-Pearson intervals, and what a test of two data sets proves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import ApproxDP, Budget, PureDP
from fastpubpriv.quantiles import beta_quantile
from fastpubpriv.reading import Form
from fastpubpriv.results.base import Value, read_price
from fastpubpriv.results.words import Table


def clopper_pearson(successes: int, trials: int, *, confidence: float = 0.99) -> tuple[float, float]:
    """One-sided bounds on a probability, each of them true with probability `confidence`.

    Parameters
    ----------
    successes, trials : int
        Independent trials, at least one.
    confidence : float
        Of each bound by itself.

    Returns
    -------
    lower, upper : float

    Examples
    --------
    >>> from fastpubpriv.auditing import clopper_pearson
    >>> print("{:.4f} {:.4f}".format(*clopper_pearson(0, 100, confidence=0.95)))
    0.0000 0.0295
    """
    trials = validation.integer("trials", trials, minimum=1)
    successes = validation.integer("successes", successes, minimum=0, maximum=trials)
    level = validation.confidence_level(confidence, "confidence")
    lower = 0.0 if successes == 0 else beta_quantile(1.0 - level, successes, trials - successes + 1)
    upper = 1.0 if successes == trials else beta_quantile(level, successes + 1, trials - successes)
    return lower, upper


def epsilon_lower_bound(
    hits: int, runs: int, false_hits: int, false_runs: int, *, delta: float = 0.0, confidence: float = 0.99
) -> float:
    """The largest epsilon that counts of one event, fixed beforehand, refute with this confidence.

    Parameters
    ----------
    hits, runs : int
        How often the event happened in independent runs on one data set.
    false_hits, false_runs : int
        The same on its neighbour.
    delta : float
        Of the claim.
    confidence : float
        Of the statement; half of the error goes to each rate.

    Returns
    -------
    float
        max(0, ln((rate - delta) / false rate)), at the safe ends of both.

    Notes
    -----
    Both orders of the two data sets, and an event and its complement, are four tests: to report the best of H, ask for
    confidence 1 - (1 - confidence) / H.

    Examples
    --------
    >>> from fastpubpriv.auditing import epsilon_lower_bound
    >>> print(f"{epsilon_lower_bound(9000, 10_000, 1000, 10_000):.3f}")
    2.112
    """
    level = validation.confidence_level(confidence, "confidence")
    delta = validation.fraction("delta", delta)
    each = 1.0 - (1.0 - level) / 2.0
    rate = clopper_pearson(hits, runs, confidence=each)[0]
    false_rate = clopper_pearson(false_hits, false_runs, confidence=each)[1]
    return max(0.0, math.log((rate - delta) / false_rate)) if rate > delta else 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AuditReport(Value):
    """What an audit found. It can refute a claim, never prove one.

    Attributes
    ----------
    name : str
        What was audited.
    claim : PureDP or ApproxDP
        What the mechanism says of itself.
    epsilon_lower : float
        The largest epsilon that the counts refute at the delta of the claim.
    confidence : float
        Of that statement.
    hits, false_hits, runs : int
        How often the event happened on each of the two neighbours, in so many runs each.
    event : str
        The event, fixed before the runs that were counted.

    Examples
    --------
    >>> from fastpubpriv.auditing import audit_randomizer
    >>> from fastpubpriv.local import PrivUnit
    >>> report = audit_randomizer(PrivUnit(4, epsilon=1.0), runs=2_000)
    >>> report.claim, report.epsilon_lower <= 1.0, report.passed
    (PureDP(epsilon=1.0), True, True)
    """

    name: str
    claim: Any
    epsilon_lower: float
    confidence: float
    hits: int
    false_hits: int
    runs: int
    event: str

    _forms: ClassVar[Mapping[str, Form]] = {}

    @property
    def passed(self) -> bool:
        """True unless the claim is refuted."""
        return self.epsilon_lower <= float(self.claim.amounts[0])

    @classmethod
    def _fields_of(cls, data: dict[str, Any]) -> dict[str, Any]:
        found = super(AuditReport, cls)._fields_of(data)
        found["claim"] = read_price(found["claim"])
        return found

    def _table(self) -> Table:
        numbers = [("happened", [self.hits, self.false_hits]), ("of runs", [self.runs, self.runs])]
        return Table("data", ["one data set", "its neighbour"], numbers)

    def _facts(self) -> list[tuple[str, str]]:
        verdict = "not refuted" if self.passed else "REFUTED"
        return [
            ("Audited", self.name),
            ("Event", self.event),
            ("Claim", f"{self.claim!r}"),
            (
                "Found",
                f"epsilon is at least {self.epsilon_lower:.4g}, with confidence {self.confidence:g}: claim {verdict}",
            ),
        ]

    def __repr__(self) -> str:
        found = f"epsilon_lower={self.epsilon_lower:.4g}, claim={self.claim!r}, passed={self.passed}"
        return f"AuditReport(name={self.name!r}, {found})"


def checked_claim(claim: Budget) -> tuple[float, float]:
    """Epsilon and delta of a claim; InputError for another notion."""
    if isinstance(claim, PureDP):
        return float(claim.amounts[0]), 0.0
    if isinstance(claim, ApproxDP):
        return float(claim.amounts[0]), float(claim.amounts[1])
    raise InputError(f"claim must be PureDP or ApproxDP, got {type(claim).__name__}: convert a ZCDP claim first")
