"""Black-box audits: count one event on two neighbors, and bound epsilon from below."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.weighted_mean import weighted_mean
from fastpubpriv.local.families import SubsetSelection, names_near_word
from fastpubpriv.local.randomizers import Randomizer, directions, integers
from fastpubpriv.privacy import ApproxDP, Budget, PureDP
from fastpubpriv.public_draws import beta_quantile
from fastpubpriv.results.base import Form, Table, Value, read_price
from fastpubpriv.shared_docs import shared_docs

# From counts to a lower bound on epsilon: Clopper-Pearson intervals, and what a test of two data sets proves.


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
        The same on its neighbor.
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
        How often the event happened on each of the two neighbors, in so many runs each.
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
        return Table("data", ["one data set", "its neighbor"], numbers)

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


def delta_of(claim: Budget) -> float:
    """The delta of a claim; InputError for another notion."""
    if isinstance(claim, PureDP | ApproxDP):
        return 0.0 if isinstance(claim, PureDP) else float(claim.amounts[1])
    raise InputError(f"claim must be PureDP or ApproxDP, got {type(claim).__name__}: convert a ZCDP claim first")


def report_of(name: str, claim: Budget, event: str, counts: tuple[int, int, int], level: float) -> AuditReport:
    """What counts (hits, false_hits, runs) of an event say of a claim."""
    hits, false_hits, runs = counts
    lower = epsilon_lower_bound(hits, runs, false_hits, runs, delta=delta_of(claim), confidence=level)
    return AuditReport(
        name=name,
        claim=claim,
        epsilon_lower=lower,
        confidence=level,
        hits=hits,
        false_hits=false_hits,
        runs=runs,
        event=event,
    )


# Black-box audits: run a mechanism on two neighbors, count one event, and bound epsilon from below.


@shared_docs
def audit(
    statistic: Callable[[Any, int], Any],
    data: Any,
    neighbor: Any,
    *,
    claim: Budget,
    runs: int,
    threshold: float | None = None,
    confidence: float = 0.99,
    name: str = "mechanism",
) -> AuditReport:
    """Count how often a statistic of the output reaches a threshold, on two neighbors.

    Parameters
    ----------
    statistic : callable (data, runs) -> (runs,) numbers
        Runs the mechanism that often, independently, and reduces each output to one number.
    data, neighbor : any
        Two data sets that differ in one row and have the same number of rows.
    claim : PureDP or ApproxDP
        What the mechanism says it costs.
    runs : int
        Counted runs on each data set.
    threshold : float, optional
        Fixed beforehand. None: chosen by a quarter as many runs of its own on each, which are not counted.
    {confidence}
    name : str
        For the report.

    Returns
    -------
    AuditReport
        `passed` is False if the claim is refuted.

    Raises
    ------
    InputError
        Arguments out of range, or a statistic of another length.

    Privacy
    -------
    Runs the mechanism again and again: for synthetic data only. Pays nothing and protects nothing.

    Notes
    -----
    The protocol of Ding et al. and Jagielski et al.; the event is {statistic >= threshold}, more likely on `data`. Rare events are
    out of its reach: an audit that passes proves nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import PureDP
    >>> from fastpubpriv.auditing import audit
    >>> coins = np.random.default_rng(0)
    >>> report = audit(lambda row, runs: row + coins.laplace(size=runs), 1.0, 0.0, claim=PureDP(0.5), runs=20_000, threshold=1.0)
    >>> report.passed  # the truth is 1.0
    False
    """
    delta = delta_of(claim)
    runs = validation.integer("runs", runs, minimum=10)
    level = validation.confidence_level(confidence, "confidence")
    if threshold is None:
        first = [_numbers(statistic, each, max(10, runs // 4)) for each in (data, neighbor)]
        edge, chosen = _best_threshold(first[0], first[1], delta), ", chosen by other runs"
    else:
        edge, chosen = validation.finite("threshold", threshold), ""
    how = f"statistic at least {edge:.6g}{chosen}"
    hits, false_hits = (int(np.count_nonzero(_numbers(statistic, each, runs) >= edge)) for each in (data, neighbor))
    return report_of(name, claim, how, (hits, false_hits, runs), level)


def _numbers(statistic: Callable[[Any, int], Any], data: Any, runs: int) -> FloatArray:
    found = np.asarray(statistic(data, runs), dtype=np.float64)
    if found.shape != (runs,):
        raise InputError(f"statistic must return {runs} numbers, got shape {found.shape}")
    return found


def _best_threshold(values: FloatArray, others: FloatArray, delta: float) -> float:
    """The candidate whose bound is highest; candidates are quantiles of both samples."""
    grid = np.unique(np.quantile(np.concatenate([values, others]), np.linspace(0.01, 0.99, 99)))
    n = len(values)
    scores = [
        epsilon_lower_bound(
            int(np.count_nonzero(values >= at)), n, int(np.count_nonzero(others >= at)), n, delta=delta, confidence=0.9
        )
        for at in grid
    ]
    return float(grid[int(np.argmax(scores))])


def name_of(randomizer: Randomizer) -> str:
    """What reports call a randomizer."""
    return f"{type(randomizer).__name__}(dim={randomizer.dim}, epsilon={randomizer.epsilon:g})"


@shared_docs
def audit_randomizer(
    randomizer: Randomizer, *, claim: Budget | None = None, runs: int = 20_000, confidence: float = 0.99
) -> AuditReport:
    """Audit a local randomizer: how often reports of a row, and of its opposite, lie in the cap of the row.

    Of `SubsetSelection`: how often they name one of the words nearest to the row, 1 for yes.

    Parameters
    ----------
    {randomizer, claim}
    runs : int
        Reports of each row.
    {confidence}

    {of_an_audit}

    Notes
    -----
    The cap, or the set of words, is the event of the largest ratio: with enough runs the bound comes close to epsilon.

    Examples
    --------
    >>> from fastpubpriv.auditing import audit_randomizer
    >>> from fastpubpriv.local import PrivUnit
    >>> audit_randomizer(PrivUnit(5, 1.0), runs=2000).passed
    True
    """
    row = np.zeros(randomizer.dim)
    row[0] = randomizer.radius
    words = isinstance(randomizer, SubsetSelection)

    def along(data: FloatArray, runs: int) -> FloatArray:
        payload = randomizer.privatize(np.tile(data, (runs, 1))).payload
        if isinstance(randomizer, SubsetSelection):
            return names_near_word(randomizer, payload, row).astype(np.float64)
        return directions(randomizer, integers(randomizer, payload))[:, 0]

    return audit(
        along,
        row,
        -row,
        claim=randomizer.cost if claim is None else claim,
        runs=runs,
        threshold=1.0 if words else randomizer.cap.threshold,
        confidence=confidence,
        name=name_of(randomizer),
    )


@shared_docs
def audit_weighted_mean(
    budget: Budget, *, claim: Budget | None = None, n_priv: int = 4, runs: int = 2000, confidence: float = 0.99
) -> AuditReport:
    """Audit `weighted_mean` with the worst two data sets of one column: one row at one end of the ball, or at the other.

    Parameters
    ----------
    budget : PureDP or ApproxDP
        Given to the mechanism.
    claim : PureDP or ApproxDP, optional
        What it is held to; by default the budget. A smaller one must be refuted.
    n_priv : int
        Rows, at least one.
    runs : int
        On each data set; one takes about a millisecond.
    {confidence}

    {of_an_audit}

    Notes
    -----
    The canary of paper B's audit at mechanism level, far stronger than tracing: the event is an answer beyond the exact one.

    Examples
    --------
    >>> from fastpubpriv import PureDP
    >>> from fastpubpriv.auditing import audit_weighted_mean
    >>> audit_weighted_mean(PureDP(1.0), runs=100).passed
    True
    """
    n_priv = validation.integer("n_priv", n_priv, minimum=1)
    high = np.zeros((n_priv, 1))
    high[0] = 1.0
    given: dict[str, Any] = {"norm_bound": 1.0, "row_weight": "private", "project": False, "threads": 1}

    def answers(data: FloatArray, runs: int) -> FloatArray:
        return np.array([weighted_mean(data, budget=budget, **given).mean[0] for _ in range(runs)])

    # Laplace: from the exact answer on, the ratio is e^epsilon. Gaussian: the best event lies further out.
    edge = 1.0 / n_priv if isinstance(budget, PureDP) else None
    return audit(
        answers,
        high,
        -high,
        claim=budget if claim is None else claim,
        runs=runs,
        threshold=edge,
        confidence=confidence,
        name=f"weighted_mean, {'pure' if not isinstance(budget, ApproxDP) else 'Gaussian'} noise",
    )
