"""Cases of audits, of the accounting of sampled rows, and of what plots say of public rows.

Audits of true noise keep their verdict alone.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from golden_case import Case, public, steps
from golden_data import normal

from fastpubpriv import ApproxDP, PureDP, auditing, local, privacy
from fastpubpriv.privacy import FullBatch, Neighbors, OnePass, Poisson, Sampling, WithoutReplacement
from fastpubpriv.results import plots

WAYS: dict[str, Sampling] = {
    "full batch": FullBatch(),
    "poisson": Poisson(Fraction(1, 54)),
    "without replacement": WithoutReplacement(500, 30_000),
    "one pass": OnePass(),
}


def sampled(sampling: Sampling) -> dict[str, Any]:
    """Noise, epsilon and delta of a hundred steps under both relations, to six digits: a Fourier transform comes before them."""
    found: dict[str, Any] = {}
    for relation in (Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE):
        values = (
            privacy.noise_multiplier_for(ApproxDP(2, 1e-5), sampling, 100, relation),
            privacy.epsilon_of(4.0, sampling, 100, 1e-5, relation),
            privacy.delta_of(4.0, sampling, 100, 1.0, relation),
        )
        found[relation.value] = " ".join(f"{value:.5e}" for value in values)
    return found


def verdicts() -> dict[str, Any]:
    """Audits of mechanisms that draw true noise: what they are called, and that they pass."""
    reports = (
        auditing.audit_randomizer(local.PrivUnit(5, 1.0), runs=2000),
        auditing.audit_weighted_mean(PureDP(1.0), runs=100),
        auditing.trace_randomizer(local.PrivUnit(5, 1.0), runs=200),
        auditing.trace_weighted_mean(ApproxDP(1.0, 1e-5), runs=50),
    )
    return {report.name: (report.passed, report.runs) for report in reports}


def refuted() -> dict[str, Any]:
    """Audits of broken mechanisms, on numbers from a seed."""
    coins = np.random.default_rng(0)
    noisy = auditing.audit(
        lambda row, runs: row + coins.laplace(size=runs), 1.0, 0.0, claim=PureDP(0.5), runs=20_000, threshold=1.0
    )
    settings = {"claim": PureDP(1.0), "n_priv": 20, "dim": 1000, "error": 7.0, "runs": 100}
    plain = auditing.audit_by_tracing(lambda rows: rows.mean(axis=0), rng=np.random.default_rng(0), **settings)
    return {"noise for epsilon 1, claim 0.5": noisy.passed, "no noise": plain.passed}


def traced() -> dict[str, Any]:
    """The tracing attack on a mean without noise."""
    rows = np.sign(np.random.default_rng(0).uniform(-1, 1, (60, 4000)))
    released, theta = rows[:30].mean(axis=0), np.zeros(4000)
    found = auditing.tracing_attack(rows, released=released, theta=theta, error=12.0, failure_prob=1e-6)
    return {"threshold": f"{found.threshold:.9g}", "members": int(found.member.sum())}


CASES: tuple[Case, ...] = (
    *[
        Case(name=f"accounting of {name}", call=sampled, args=(way,), covers=(way, Sampling, privacy.epsilon_of,
             privacy.delta_of, privacy.noise_multiplier_for, type(way)))
        for name, way in WAYS.items()
    ],
    steps(
        "audits", verdicts, auditing.audit_randomizer, auditing.audit_weighted_mean, auditing.trace_randomizer,
        auditing.trace_weighted_mean, auditing.AuditReport, releases=False,
    ),
    steps("audits that refute", refuted, auditing.audit, auditing.audit_by_tracing),
    steps("tracing attack", traced, auditing.tracing_attack, auditing.TracingResult),
    public("clopper_pearson", auditing.clopper_pearson, 3, 100),
    public("epsilon_lower_bound", auditing.epsilon_lower_bound, 9000, 10_000, 1000, 10_000),
    public("public_estimate", plots.public_estimate, normal(51, 20, 3), 0.95),
)  # fmt: skip
