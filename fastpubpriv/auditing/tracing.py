"""The tracing attack on a released mean (paper B, Algorithm 2), and an audit made of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.auditing.black_box import AuditReport, delta_of, name_of, report_of
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.weighted_mean import weighted_mean
from fastpubpriv.local.randomizers import Randomizer
from fastpubpriv.privacy import Budget
from fastpubpriv.public_draws import draw_uniforms
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs

# Few enough for the ratio to show, and many enough to be counted.
_FALSE_ALARMS = 0.1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracingResult:
    """What the attack says of rows.

    Attributes
    ----------
    score : (k,) float64
        <y - theta, [released - theta] cut at eta>.
    threshold : float
        A row with a larger score is called a member.
    member : (k,) bool
        The verdicts.

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
    rows: Any, *, released: Any, theta: Any, error: float, failure_prob: float = FAILURE_PROB, printed: bool = False
) -> TracingResult:
    """Tell from a released mean whether rows were among those that it was made of.

    Parameters
    ----------
    rows : (k, dim) array-like
        Rows with entries +1 and -1, of mean theta.
    released : (dim,) array-like
        The released mean.
    theta : (dim,) array-like
        The true mean.
    error : float > 0
        alpha: the l2 error that the mechanism is expected to make; entries of released - theta are cut at 2 alpha / sqrt(dim).
    failure_prob : float
        The most that a row that was not among them may be called a member.
    printed : bool
        True: the threshold of the paper, which keeps `failure_prob` squared. False: one that depends on the released mean and
        keeps `failure_prob`, and finds many more.

    Returns
    -------
    TracingResult

    Raises
    ------
    InputError
        Shapes that do not fit, or numbers out of range.

    Privacy
    -------
    An attack: it shows what a mean without noise gives away.

    Notes
    -----
    LLHR (paper B), Algorithm 2. Hoeffding's inequality, given the released mean, for the sharper threshold
    sqrt(2 ln(1 / failure_prob) sum of the squares of the cut entries).

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
        raise InputError(f"rows must be a finite matrix of {len(center)} columns, got shape {targets.shape}")
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
    spread: float = 0.5,
    failure_prob: float = FAILURE_PROB,
    confidence: float = 0.99,
) -> AuditReport:
    """Audit a mean estimator with the tracing attack, at one threshold that is fixed before the runs.

    Parameters
    ----------
    mechanism : callable (n_priv, dim) -> (dim,)
        Releases the mean of rows with entries +1 and -1.
    claim : PureDP or ApproxDP
        What it says it costs.
    n_priv, dim : int
        Of the made-up rows.
    error : float > 0
        The l2 error that the mechanism is expected to make.
    rng : numpy.random.Generator, optional
        Makes the rows; the auditor's, not the mechanism's. None: fresh ones.
    runs : int
        Independent runs, each with a mean of its own, rows of its own, and one row scored of those within and one of the others.
    spread : float
        Entries of the true mean are uniform in [-spread, spread].
    failure_prob, confidence : float
        Of the attack, and of the report.

    Returns
    -------
    AuditReport

    Raises
    ------
    InputError
        Arguments out of range, or an answer of another shape.

    Privacy
    -------
    The rows are made up.

    Notes
    -----
    Scores of several rows of a run depend on each other, so a run gives one of each kind. A row within and a row of the same law
    that is not, in its place, are replace-one neighbors with the same n.

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
    delta_of(claim)  # refuses another notion
    n_priv = validation.integer("n_priv", n_priv, minimum=1)
    dim = validation.integer("dim", dim, minimum=1)
    runs = validation.integer("runs", runs, minimum=10)
    half = validation.fraction("spread", spread, include_one=True)
    level = validation.confidence_level(confidence, "confidence")
    hits = false_hits = 0
    for _ in range(runs):
        theta = half * (2.0 * draw_uniforms(dim, rng) - 1.0)
        rows = np.where(draw_uniforms((n_priv + 1, dim), rng) < 0.5 * (1.0 + theta), 1.0, -1.0)
        answer = mechanism(rows[:n_priv])
        found = tracing_attack(rows[n_priv - 1 :], released=answer, theta=theta, error=error, failure_prob=failure_prob)
        hits += int(found.member[0])
        false_hits += int(found.member[1])
    event = f"score beyond the threshold that keeps {failure_prob:g}"
    return report_of("mean, by tracing", claim, event, (hits, false_hits, runs), level)


@shared_docs
def trace_weighted_mean(
    budget: Budget,
    *,
    claim: Budget | None = None,
    n_priv: int = 10,
    dim: int = 400,
    runs: int = 2000,
    confidence: float = 0.99,
) -> AuditReport:
    """Audit `weighted_mean` with the tracing attack, on made-up rows with entries +1 and -1.

    Parameters
    ----------
    budget : PureDP or ApproxDP
        Given to the mechanism.
    claim : PureDP or ApproxDP, optional
        What it is held to; by default the budget.
    n_priv, dim : int
        Of the rows.
    runs : int
        Each takes a millisecond or two.
    {confidence}

    {of_an_audit}

    Notes
    -----
    Weaker than `audit_weighted_mean`, which knows the worst rows; the attacker here knows one row and the law of the others.

    Examples
    --------
    >>> from fastpubpriv import ApproxDP
    >>> from fastpubpriv.auditing import trace_weighted_mean
    >>> trace_weighted_mean(ApproxDP(1.0, 1e-5), runs=50).passed
    True
    """
    n_priv = validation.integer("n_priv", n_priv, minimum=1)
    dim = validation.integer("dim", dim, minimum=1)

    def answer_to(rows: FloatArray) -> Any:
        return weighted_mean(
            rows, budget=budget, norm_bound=math.sqrt(dim), row_weight="private", project=False, threads=1
        )

    # The level of the noise is public, and the same for all rows.
    noise = float(np.sum(answer_to(np.ones((n_priv, dim))).noise_std ** 2))
    found = audit_by_tracing(
        lambda rows: answer_to(rows).mean,
        claim=budget if claim is None else claim,
        n_priv=n_priv,
        dim=dim,
        error=math.sqrt(noise + dim / n_priv),
        runs=runs,
        failure_prob=_FALSE_ALARMS,
        confidence=confidence,
    )
    return dataclasses.replace(found, name=f"weighted_mean of {n_priv} rows in {dim} columns, by tracing")


@shared_docs
def trace_randomizer(
    randomizer: Randomizer,
    *,
    claim: Budget | None = None,
    n_reports: int = 1,
    runs: int = 5000,
    confidence: float = 0.99,
) -> AuditReport:
    """Audit a local randomizer with the tracing attack on the mean of a few reports.

    Parameters
    ----------
    {randomizer, claim}
    n_reports : int
        In each mean; an attacker who sees single reports, as a server does, is the strongest.
    runs : int
        Means.
    {confidence}

    {of_an_audit}

    Examples
    --------
    >>> from fastpubpriv.auditing import trace_randomizer
    >>> from fastpubpriv.local import PrivUnit
    >>> trace_randomizer(PrivUnit(20, 1.0), runs=200).passed
    True
    """
    n_reports = validation.integer("n_reports", n_reports, minimum=1)
    # Rows with entries +1 and -1 have this length; they are reported at the length of the radius.
    length = math.sqrt(randomizer.dim)
    unit = length / randomizer.radius
    found = audit_by_tracing(
        lambda rows: randomizer.privatize(rows / unit, threads=1).vectors().mean(axis=0) * unit,
        claim=randomizer.cost if claim is None else claim,
        n_priv=n_reports,
        dim=randomizer.dim,
        error=unit * math.sqrt(randomizer.second_moment / n_reports),
        runs=runs,
        failure_prob=_FALSE_ALARMS,
        confidence=confidence,
    )
    return dataclasses.replace(found, name=f"{name_of(randomizer)}, mean of {n_reports}, by tracing")
