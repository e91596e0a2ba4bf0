"""Black-box audits: count an event, such as that of the tracing attack, on two neighbors, and bound epsilon from below."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.weighted_mean import weighted_mean
from fastpubpriv.local.families import SubsetSelection, names_near_word
from fastpubpriv.local.randomizers import Randomizer, directions, integers
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.results.base import Value
from fastpubpriv.results.fields import value_class
from fastpubpriv.results.json_fields import read_price
from fastpubpriv.results.public_draws import beta_quantile, draw_uniforms
from fastpubpriv.results.result_tables import Facts, Table

# From counts to a lower bound on epsilon: Clopper-Pearson intervals, and the test of two data sets.


def clopper_pearson(
    successes: int, trials: int, *, confidence: float = 0.99
) -> tuple[float, float]:
    """One-sided bounds on a probability, each valid with probability `confidence`.

    Parameters
    ----------
    successes, trials : int
        Number of successes, and number of independent trials, at least one.
    confidence : float
        Confidence level of each bound separately.

    Returns
    -------
    lower, upper : float

    See Also
    --------
    epsilon_lower_bound : what two such bounds say of an epsilon.
    audit : the whole audit.

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
    hits: int,
    runs: int,
    false_hits: int,
    false_runs: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
) -> float:
    """The largest epsilon that counts of one event, fixed beforehand, refute with this confidence.

    Parameters
    ----------
    hits, runs : int
        Number of occurrences of the event in independent runs on one data set.
    false_hits, false_runs : int
        The same on its neighbor.
    delta : float
        Delta of the claim.
    confidence : float
        Confidence level of the result; each rate has half of the error probability.

    Returns
    -------
    float
        max(0, ln((rate - delta) / false rate)), with a lower bound of the rate and an upper bound of the false rate.

    See Also
    --------
    clopper_pearson : the bounds on both rates.
    audit : counts the event, on two neighbors.

    Notes
    -----
    Both orders of the two data sets, and an event and its complement, are four tests: to report the best of H, use the confidence
    1 - (1 - confidence) / H.

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


@value_class
class AuditReport(Value):
    """Result of an audit. It can refute a claim, never prove one.

    Attributes
    ----------
    name : str
        Name of the audited mechanism.
    claim : PureDP or ApproxDP
        Claimed privacy cost of the mechanism.
    epsilon_lower : float
        The largest epsilon that the counts refute at the delta of the claim.
    confidence : float
        Confidence level of that bound.
    hits, false_hits, runs : int
        Occurrences of the event on each of the two neighbors, in `runs` runs each.
    event : str
        The event, fixed before the counted runs.

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

    @property
    def passed(self) -> bool:
        """True unless the claim is refuted."""
        return self.epsilon_lower <= float(self.claim.amounts[0])

    @classmethod
    def _fields_of(cls, data: dict[str, Any]) -> dict[str, Any]:
        fields = super()._fields_of(data)
        fields["claim"] = read_price(fields["claim"])
        return fields

    def _table(self, level: float) -> Table:
        columns = [
            ("happened", [self.hits, self.false_hits]),
            ("of runs", [self.runs, self.runs]),
        ]
        return Table("data", ["one data set", "its neighbor"], columns)

    def _facts(self, level: float) -> Facts:
        verdict = "not refuted" if self.passed else "REFUTED"
        conclusion = f"epsilon is at least {self.epsilon_lower:.4g}, with confidence {self.confidence:g}: claim {verdict}"
        return [
            ("Audited", self.name),
            ("Event", self.event),
            ("Claim", f"{self.claim!r}"),
            ("Found", conclusion),
        ]

    def __repr__(self) -> str:
        facts = (
            f"epsilon_lower={self.epsilon_lower:.4g}, claim={self.claim!r}, passed={self.passed}"
        )
        return f"AuditReport(name={self.name!r}, {facts})"


def delta_of(claim: Budget) -> float:
    """Return the delta of a claim; raise InputError for another notion."""
    parts = claim.parts if isinstance(claim, Budget) else ()
    if "epsilon" not in parts:
        raise InputError(
            f"claim must be PureDP or ApproxDP, got {type(claim).__name__}: convert a ZCDP claim first"
        )
    return float(claim.amounts[1]) if "delta" in parts else 0.0


def report_of(
    name: str, claim: Budget, event: str, counts: tuple[int, int, int], level: float
) -> AuditReport:
    """Return the report on a claim from the counts (hits, false_hits, runs) of an event."""
    hits, false_hits, runs = counts
    lower = epsilon_lower_bound(
        hits, runs, false_hits, runs, delta=delta_of(claim), confidence=level
    )
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
    """Report of how often a statistic of the output reaches a threshold, on two neighbors.

    Parameters
    ----------
    statistic : callable (data, runs) -> (runs,) numbers
        Runs the mechanism `runs` times independently, and reduces each output to one number.
    data, neighbor : any
        Two data sets that differ in one row and have the same number of rows.
    claim : PureDP or ApproxDP
        Claimed privacy cost of the mechanism.
    runs : int
        Counted runs on each data set.
    threshold : float, optional
        Fixed beforehand. None: chosen by separate runs, a quarter as many on each data set, which are not counted.
    confidence : float
        Of the report.
    name : str
        Name in the report.

    Returns
    -------
    AuditReport
        `passed` is False if the claim is refuted.

    Raises
    ------
    InputError
        Arguments out of range, or a statistic that does not return `runs` numbers.

    Privacy
    -------
    Runs the mechanism repeatedly without any budget, and protects nothing: for synthetic data only.

    See Also
    --------
    record_replay : checks sensitivities exactly, without thousands of runs.
    audit_randomizer : a randomizer of the local model.
    audit_weighted_mean : `weighted_mean`, with its worst neighbors.
    audit_by_tracing : a mean in many columns.

    Notes
    -----
    The protocol of Ding et al. and Jagielski et al.; the event is {statistic >= threshold}, more likely on `data`. Rare events
    are not detected: an audit that passes proves nothing.

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
        edge = _best_threshold(first[0], first[1], delta)
        chosen = ", chosen by other runs"
    else:
        edge = validation.finite("threshold", threshold)
        chosen = ""
    how = f"statistic at least {edge:.6g}{chosen}"
    hits, false_hits = (
        int(np.count_nonzero(_numbers(statistic, each, runs) >= edge)) for each in (data, neighbor)
    )
    return report_of(name, claim, how, (hits, false_hits, runs), level)


def _numbers(statistic: Callable[[Any, int], Any], data: Any, runs: int) -> FloatArray:
    numbers = np.asarray(statistic(data, runs), dtype=np.float64)
    if numbers.shape != (runs,):
        raise InputError(f"statistic must return {runs} numbers, got shape {numbers.shape}")
    return numbers


def _best_threshold(values: FloatArray, others: FloatArray, delta: float) -> float:
    """Return the threshold with the largest bound; candidates are quantiles of both samples."""
    grid = np.unique(np.quantile(np.concatenate([values, others]), np.linspace(0.01, 0.99, 99)))
    n = len(values)
    counts = [[int(np.count_nonzero(each >= at)) for each in (values, others)] for at in grid]
    scores = [
        epsilon_lower_bound(hits, n, false, n, delta=delta, confidence=0.9)
        for hits, false in counts
    ]
    return float(grid[int(np.argmax(scores))])


# The tracing attack on a released mean (paper B, Algorithm 2), and an audit based on it.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracingResult:
    """Result of the tracing attack for each row.

    Attributes
    ----------
    score : (k,) float64
        <y - theta, released - theta>, with the entries of released - theta clipped to [-eta, eta].
    threshold : float
        A row with a larger score is classified as a member.
    member : (k,) bool
        Classification of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv.auditing import tracing_attack
    >>> rows = np.sign(np.random.default_rng(0).uniform(-1, 1, (20, 4000)))
    >>> result = tracing_attack(rows, released=rows[:10].mean(axis=0), theta=np.zeros(4000), error=20.0)
    >>> bool(result.score[:10].min() > result.score[10:].max())  # members of an exact mean stand out
    True
    """

    score: FloatArray
    threshold: float
    member: BoolArray


def tracing_attack(
    rows: Any,
    *,
    released: Any,
    theta: Any,
    error: float,
    failure_prob: float = FAILURE_PROB,
    printed: bool = False,
) -> TracingResult:
    """Scores by which a released mean tells whether rows were among those that were averaged.

    Parameters
    ----------
    rows : (k, dim) array-like
        Rows with entries +1 and -1, drawn from a distribution of mean theta.
    released : (dim,) array-like
        The released mean.
    theta : (dim,) array-like
        The true mean.
    error : float > 0
        alpha: the expected l2 error of the mechanism; entries of released - theta are clipped to +-2 alpha / sqrt(dim).
    failure_prob : float
        Bound on the probability that a row that was not averaged is classified as a member.
    printed : bool
        True: the threshold of the paper, with false-positive probability at most `failure_prob` squared. False: a threshold that
        depends on the released mean, with at most `failure_prob`, and detects many more members.

    Returns
    -------
    TracingResult

    Raises
    ------
    InputError
        Incompatible shapes, or numbers out of range.

    Privacy
    -------
    An attack: it demonstrates what a mean without noise reveals.

    See Also
    --------
    audit_by_tracing : the audit that is made of this attack.
    audit : one statistic of any mechanism.

    Notes
    -----
    LLHR (paper B), Algorithm 2. The sharper threshold, sqrt(2 ln(1 / failure_prob) sum of squares of the clipped entries), follows
    from Hoeffding's inequality given the released mean.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv.auditing import tracing_attack
    >>> rng = np.random.default_rng(0)
    >>> rows = np.sign(rng.uniform(-1, 1, (60, 4000)))
    >>> found = tracing_attack(rows, released=rows[:30].mean(axis=0), theta=np.zeros(4000), error=12.0, failure_prob=1e-6)
    >>> bool(found.member[:30].all()), int(found.member[30:].sum())
    (True, 0)
    """
    center = np.asarray(theta, dtype=np.float64)
    if center.ndim != 1:
        raise InputError(f"theta must be a vector, got shape {center.shape}")
    center = validation.finite_vector("theta", center, len(center))
    answer = validation.finite_vector("released", released, len(center))
    targets = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    if targets.ndim != 2 or targets.shape[1] != len(center) or not np.isfinite(targets).all():
        raise InputError(
            f"rows must be a finite matrix of {len(center)} columns, got shape {targets.shape}"
        )
    chance = validation.probability("failure_prob", failure_prob)
    eta = 2.0 * validation.positive("error", error) / math.sqrt(len(center))
    cut = np.clip(answer - center, -eta, eta)
    score = np.sum((targets - center) * cut, axis=1)
    if printed:
        threshold = 2.0 * eta * math.sqrt(len(center) * math.log(1.0 / chance))
    else:
        threshold = math.sqrt(2.0 * math.log(1.0 / chance) * float(np.sum(cut * cut)))
    return TracingResult(score=score, threshold=threshold, member=score > threshold)


def audit_by_tracing(
    mechanism: Callable[[FloatArray], Any],
    *,
    claim: Budget,
    n_priv: int,
    dim: int,
    error: float,
    rng: Any = None,
    runs: int = 500,
    failure_prob: float = FAILURE_PROB,
    confidence: float = 0.99,
) -> AuditReport:
    """Report of an audit of a mean estimator by the tracing attack, at one threshold that is fixed before the runs.

    Parameters
    ----------
    mechanism : callable (n_priv, dim) -> (dim,)
        Releases the mean of rows with entries +1 and -1.
    claim : PureDP or ApproxDP
        Claimed privacy cost of the mechanism.
    n_priv, dim : int
        Shape of the synthetic rows.
    error : float > 0
        Expected l2 error of the mechanism.
    rng : numpy.random.Generator, optional
        Generator of the synthetic rows, not of the mechanism's noise. None: a new one.
    runs : int
        Independent runs, each with new rows and a new true mean with entries uniform in [-0.5, 0.5]; one member and one
        non-member are scored in each.
    failure_prob : float
        False-positive probability of the attack.
    confidence : float
        Of the report.

    Returns
    -------
    AuditReport

    Raises
    ------
    InputError
        Arguments out of range.

    Privacy
    -------
    The rows are made up.

    See Also
    --------
    tracing_attack : the attack on one release.
    audit_weighted_mean : one column, with its worst neighbors.
    record_replay : an exact check of sensitivities.

    Notes
    -----
    Scores of several rows of a run are dependent, so a run scores one row of each kind. Data sets with the member, and with a
    non-member of the same distribution in its place, are replace-one neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import PureDP
    >>> from fastpubpriv.auditing import audit_by_tracing
    >>> settings = {"claim": PureDP(1.0), "n_priv": 20, "dim": 1000, "error": 7.0, "runs": 100}
    >>> found = audit_by_tracing(lambda rows: rows.mean(axis=0), rng=np.random.default_rng(0), **settings)
    >>> found.passed  # a mean without noise
    False
    """
    delta_of(claim)  # raises for another notion
    n_priv = validation.integer("n_priv", n_priv, minimum=1)
    dim = validation.integer("dim", dim, minimum=1)
    runs = validation.integer("runs", runs, minimum=10)
    level = validation.confidence_level(confidence, "confidence")
    hits = false_hits = 0
    for _ in range(runs):
        theta = draw_uniforms(dim, rng) - 0.5
        rows = np.where(draw_uniforms((n_priv + 1, dim), rng) < 0.5 * (1.0 + theta), 1.0, -1.0)
        answer = mechanism(rows[:n_priv])
        attack = tracing_attack(
            rows[n_priv - 1 :], released=answer, theta=theta, error=error, failure_prob=failure_prob
        )
        hits += int(attack.member[0])
        false_hits += int(attack.member[1])
    event = f"score beyond the threshold that keeps {failure_prob:g}"
    return report_of("mean, by tracing", claim, event, (hits, false_hits, runs), level)


# Audits of mechanisms of this library, by the worst two data sets ("canary") or by the tracing attack.

Attack = Literal["canary", "tracing"]
# False-positive rate of the tracing attack: small enough for a large ratio of rates, large enough for counts that are not rare.
_FALSE_ALARMS = 0.1


def audit_randomizer(
    randomizer: Randomizer,
    *,
    claim: Budget | None = None,
    attack: Attack = "canary",
    n_reports: int = 1,
    runs: int = 20_000,
    confidence: float = 0.99,
) -> AuditReport:
    """Report of an audit of a local randomizer: how often reports of a row, and of its opposite, lie in the cap of the row.

    For `SubsetSelection`: how often they name one of the words nearest to the row (statistic 1, else 0).

    Parameters
    ----------
    randomizer : PrivUnit, PrivUnitG, Duchi or SubsetSelection
        To be audited.
    claim : PureDP or ApproxDP, optional
        By default the cost that it states.
    attack : "canary" or "tracing"
        The event above, or the tracing attack on the mean of a few reports of rows with entries +1 and -1.
    n_reports : int
        For tracing: reports per mean; an attacker who sees single reports, as a server does, is the strongest.
    runs : int
        Number of reports per row, or of means.
    confidence : float
        Of the report.

    Returns
    -------
    AuditReport

    Raises
    ------
    InputError
        Arguments out of range.

    Privacy
    -------
    The rows are made up.

    See Also
    --------
    audit : any mechanism and statistic.
    epsilon_lower_bound : the bound that the counts give.

    Notes
    -----
    The cap, or the set of words, is the event of the largest likelihood ratio: with enough runs the bound approaches epsilon.

    Examples
    --------
    >>> from fastpubpriv.auditing import audit_randomizer
    >>> from fastpubpriv.local import PrivUnit
    >>> audit_randomizer(PrivUnit(5, 1.0), runs=2000).passed
    True
    >>> audit_randomizer(PrivUnit(20, 1.0), attack="tracing", runs=200).passed
    True
    """
    name = f"{type(randomizer).__name__}(dim={randomizer.dim}, epsilon={randomizer.epsilon:g})"
    claim = randomizer.cost if claim is None else claim
    if validation.choice("attack", attack, get_args(Attack)) == "tracing":
        n_reports = validation.integer("n_reports", n_reports, minimum=1)
        # Rows with entries +1 and -1 have norm sqrt(dim); they are scaled to norm `radius` before they are randomized.
        unit = math.sqrt(randomizer.dim) / randomizer.radius
        report = audit_by_tracing(
            lambda rows: randomizer.privatize(rows / unit, threads=1).vectors().mean(axis=0) * unit,
            claim=claim,
            n_priv=n_reports,
            dim=randomizer.dim,
            error=unit * math.sqrt(randomizer.second_moment / n_reports),
            runs=runs,
            failure_prob=_FALSE_ALARMS,
            confidence=confidence,
        )
        return dataclasses.replace(report, name=f"{name}, mean of {n_reports}, by tracing")
    row = np.zeros(randomizer.dim)
    row[0] = randomizer.radius

    def along(data: FloatArray, runs: int) -> FloatArray:
        payload = randomizer.privatize(np.tile(data, (runs, 1))).payload
        if isinstance(randomizer, SubsetSelection):
            return names_near_word(randomizer, payload, row).astype(np.float64)
        return directions(randomizer, integers(randomizer, payload))[:, 0]

    edge = 1.0 if isinstance(randomizer, SubsetSelection) else randomizer.cap.threshold
    return audit(
        along, row, -row, claim=claim, runs=runs, threshold=edge, confidence=confidence, name=name
    )


def audit_weighted_mean(
    budget: Budget,
    *,
    claim: Budget | None = None,
    attack: Attack = "canary",
    n_priv: int = 10,
    dim: int = 400,
    runs: int = 2000,
    confidence: float = 0.99,
) -> AuditReport:
    """Report of an audit of `weighted_mean` by the worst two data sets of one column: a row at either end of the ball.

    Parameters
    ----------
    budget : PureDP or ApproxDP
        Budget passed to the mechanism.
    claim : PureDP or ApproxDP, optional
        Claim to test, by default the budget. A sufficiently smaller one must be refuted.
    attack : "canary" or "tracing"
        Those data sets, or the tracing attack on made-up rows with entries +1 and -1.
    n_priv : int
        Number of rows, at least one.
    dim : int
        For tracing: number of columns.
    runs : int
        Runs on each data set; one takes about a millisecond, or two for tracing.
    confidence : float
        Of the report.

    Returns
    -------
    AuditReport

    Raises
    ------
    InputError
        Arguments out of range.

    Privacy
    -------
    The rows are made up.

    See Also
    --------
    audit_by_tracing : many columns.
    record_replay : an exact check of sensitivities.

    Notes
    -----
    The canary of paper B's audit at mechanism level: the event is an answer above the exact one. Tracing is far weaker: that
    attacker knows one row and the distribution of the others.

    Examples
    --------
    >>> from fastpubpriv import ApproxDP, PureDP
    >>> from fastpubpriv.auditing import audit_weighted_mean
    >>> audit_weighted_mean(PureDP(1.0), runs=100).passed
    True
    >>> audit_weighted_mean(ApproxDP(1.0, 1e-5), attack="tracing", runs=50).passed
    True
    """
    n_priv = validation.integer("n_priv", n_priv, minimum=1)
    dim = validation.integer("dim", dim, minimum=1)
    tracing = validation.choice("attack", attack, get_args(Attack)) == "tracing"
    claim = budget if claim is None else claim

    def answer_to(rows: FloatArray) -> Any:
        bound = math.sqrt(rows.shape[1])
        return weighted_mean(
            rows, budget=budget, norm_bound=bound, row_weight="private", project=False, threads=1
        )

    if tracing:
        # The noise scale is public, and does not depend on the rows.
        noise = float(np.sum(answer_to(np.ones((n_priv, dim))).noise_std ** 2))
        report = audit_by_tracing(
            lambda rows: answer_to(rows).mean,
            claim=claim,
            n_priv=n_priv,
            dim=dim,
            error=math.sqrt(noise + dim / n_priv),
            runs=runs,
            failure_prob=_FALSE_ALARMS,
            confidence=confidence,
        )
        return dataclasses.replace(
            report, name=f"weighted_mean of {n_priv} rows in {dim} columns, by tracing"
        )
    high = np.zeros((n_priv, 1))
    high[0] = 1.0
    spending = spending_of(budget, draws=1)
    # Laplace: above the exact answer, the likelihood ratio is e^epsilon. Gaussian: the best threshold is larger.
    threshold = spending.by_tail(None, 1.0 / n_priv)
    return audit(
        lambda rows, runs: np.array([answer_to(rows).mean[0] for _ in range(runs)]),
        high,
        -high,
        claim=claim,
        runs=runs,
        threshold=threshold,
        confidence=confidence,
        name=f"weighted_mean, {spending.law.capitalize()} noise",
    )
