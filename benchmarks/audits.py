"""`python -m benchmarks.audits`: black-box privacy audits of public functions, each with a negative control.

Every audit runs a call some thousand times on two neighboring data sets, counts how often an event that was fixed in advance occurs
on each, and computes a lower confidence bound on epsilon from these counts. The bound must not exceed the claim. The negative
control is the same call with several times the epsilon and the same claim: the audit must refute it, which shows its power.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from fastpubpriv import auditing, local
from fastpubpriv.privacy import Budget
from fastpubpriv.training import SemiDP

TABLE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "audits.json"
CONFIDENCE = 0.999
# (budget spent, budget claimed, number of runs)
Run = Callable[[Budget, Budget, int], auditing.AuditReport]
FAR = 1e9  # a value beyond every clipping radius


def repeat(call: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """Return a statistic of one run, `call(rows, seed)`, with a new seed at every call."""
    seeds = itertools.count()
    return lambda rows, runs: np.array([call(rows, next(seeds)) for _ in range(runs)])


def canary(value: float, n: int = 4) -> Any:
    """Return `n` rows, one at `value` and the others at zero."""
    rows = np.zeros((n, 1))
    rows[0] = value
    return rows


def one_column(call: Callable[..., Any], **options: Any) -> Run:
    """Return an audit of a mean on its worst-case neighboring data sets."""

    def run(budget: Budget, claim: Budget, runs: int) -> auditing.AuditReport:
        statistic = repeat(
            lambda x, seed: call(x, budget=budget, random_state=seed, threads=1, **options).mean[0]
        )
        return auditing.audit(
            statistic, canary(FAR), canary(-FAR), claim=claim, runs=runs, confidence=CONFIDENCE
        )

    return run


def histogram(budget: Budget, claim: Budget, runs: int) -> auditing.AuditReport:
    """Audit the count of a bin, with and without one of its rows."""
    bins = fpp.BinGrid(width=1.0)

    def count(rows: Any, seed: int) -> float:
        bars = fpp.stable_histogram(rows, bins=bins, budget=budget, random_state=seed, threads=1)[0]
        here = (
            np.flatnonzero(bars.lower[:, 0] == bars.lower[:, 0].min()) if len(bars.counts) else []
        )
        return float(bars.counts[here[0]]) if len(here) else 0.0

    full = np.zeros((60, 1))
    less = np.zeros((60, 1))
    less[0] = 40.0
    return auditing.audit(repeat(count), full, less, claim=claim, runs=runs, confidence=CONFIDENCE)


def selection(budget: Budget, claim: Budget, runs: int) -> auditing.AuditReport:
    """Audit the selection between two candidates whose scores differ by one row."""
    listed = (np.ones((2, 1)), np.array([-5.0, 5.0]).reshape(2, 1, 1), np.ones((2, 1, 1)))

    def chosen(rows: Any, seed: int) -> float:
        return float(
            fpp.select_hypothesis(rows, hypotheses=listed, budget=budget, random_state=seed).means[
                0, 0
            ]
        )

    one = np.full((41, 1), -5.0)
    other = np.full((41, 1), -5.0)
    one[:21], other[:20] = 5.0, 5.0
    return auditing.audit(
        repeat(chosen), one, other, claim=claim, runs=runs, threshold=0.0, confidence=CONFIDENCE
    )


def weighted(budget: Budget, claim: Budget, runs: int) -> auditing.AuditReport:
    """Audit the weighted mean on the worst-case neighboring data sets of one column."""
    return auditing.audit_weighted_mean(budget, claim=claim, runs=runs, confidence=CONFIDENCE)


def trained(fit: Callable[..., Any], **options: Any) -> Run:
    """Return an audit of training on missing rows and one canary, whose gradient has the clipping norm and either sign.

    The statistic is the prediction at the canary, which each of its gradients moves.
    """
    shown = np.array([[1.0, 0.5], [-1.0, 0.2], [0.5, -0.1], [2.0, 0.3], [-2.0, 0.1], [0.1, -0.4]])

    def rows(label: float) -> Any:
        found = np.full((4, 2), np.nan)
        found[2] = [2.0, label]
        return found

    def run(budget: Budget, claim: Budget, runs: int) -> auditing.AuditReport:
        common = {
            "label": -1,
            "x_pub": shown,
            "budget": budget,
            "threads": 1,
            "progress": False,
            **options,
        }
        statistic = repeat(lambda x, seed: fit(x, random_state=seed, **common).predict([[2.0]])[0])
        return auditing.audit(
            statistic, rows(FAR), rows(-FAR), claim=claim, runs=runs, confidence=CONFIDENCE
        )

    return run


def traced(budget: Budget, claim: Budget, runs: int) -> auditing.AuditReport:
    """Audit against an attacker who knows one row and the distribution of the others."""
    return auditing.audit_weighted_mean(
        budget, claim=claim, attack="tracing", runs=runs, confidence=CONFIDENCE
    )


def randomizer(make: Callable[[float], local.Randomizer]) -> Run:
    """Return an audit of a local randomizer by its reports of two opposite rows."""

    def run(budget: Budget, claim: Budget, runs: int) -> auditing.AuditReport:
        made = make(float(budget.epsilon))  # type: ignore[union-attr]
        return auditing.audit_randomizer(made, claim=claim, runs=runs, confidence=CONFIDENCE)

    return run


APPROX = fpp.ApproxDP(epsilon=1, delta=1e-3)
PURE = fpp.PureDP(epsilon=1)
BALL = {"center": 0.0, "radius": 1.0, "steps": 1}
PUBLIC = {"x_pub": np.zeros((1, 1)), "clipping": "gaussian", "steps": 1}
STEPS = {
    "steps": 6,
    "step_size": 1.0,
    "priv_weight": 1.0,
    "clip_norm": 1.0,
    "start": "zero",
    "scaling": "none",
}
# Name, claim, runs on each data set, audit, and the factor on epsilon in the negative control.
AUDITS: list[tuple[str, Budget, int, Run, int]] = [
    ("coinpress_mean, Gaussian noise", APPROX, 8_000, one_column(fpp.coinpress_mean, **BALL), 2),
    (
        "coinpress_mean, discrete Laplace noise",
        PURE,
        8_000,
        one_column(fpp.coinpress_mean, **BALL),
        2,
    ),
    (
        "estimate_mean, clipping='gaussian'",
        APPROX,
        8_000,
        one_column(fpp.estimate_mean, **PUBLIC),
        2,
    ),
    ("weighted_mean", APPROX, 8_000, weighted, 2),
    ("stable_histogram", APPROX, 8_000, histogram, 3),
    ("select_hypothesis", PURE, 4_000, selection, 2),
    ("weighted_mean, the tracing attack", fpp.ApproxDP(epsilon=1, delta=1e-5), 1_000, traced, 15),
    (
        "train, 'semi_dp', all rows",
        APPROX,
        2_000,
        trained(fpp.train, loss="squared", method=SemiDP(**STEPS)),
        4,
    ),
    (
        "linear_regression, 'newton'",
        APPROX,
        1_500,
        trained(fpp.linear_regression, method="newton"),
        4,
    ),
    (
        "local.PrivUnit, 20 columns",
        PURE,
        200_000,
        randomizer(lambda epsilon: local.PrivUnit(20, epsilon)),
        2,
    ),
    (
        "local.PrivUnitG, 20 columns",
        PURE,
        200_000,
        randomizer(lambda epsilon: local.PrivUnitG(20, epsilon)),
        2,
    ),
    (
        "local.Duchi, 1 column",
        PURE,
        200_000,
        randomizer(lambda epsilon: local.Duchi(1, epsilon, 1.0)),
        2,
    ),
    (
        "local.SubsetSelection, 20 columns",
        PURE,
        10_000,
        randomizer(lambda epsilon: local.SubsetSelection(20, epsilon)),
        2,
    ),
]


def larger(claim: Budget, factor: int) -> Budget:
    """Return the budget with `factor` times the epsilon."""
    if isinstance(claim, fpp.ApproxDP):
        return fpp.ApproxDP(epsilon=claim.epsilon * factor, delta=claim.delta)
    return fpp.PureDP(epsilon=claim.epsilon * factor)  # type: ignore[union-attr]


def line(name: str, claim: Budget, runs: int, run: Run, factor: int) -> dict[str, Any]:
    """Run an audit and its negative control; raise if the claim is refuted, or if that of the control is not."""
    honest = run(claim, claim, runs)
    twin = run(larger(claim, factor), claim, runs)
    if not honest.passed or twin.passed:
        found = f"at least {honest.epsilon_lower:.3g}, and {twin.epsilon_lower:.3g} with {factor} times the epsilon"
        raise AssertionError(f"{name}: {claim} was claimed; found {found}")
    return {
        "name": name,
        "claim": str(claim),
        "runs": runs,
        "epsilon_lower": round(honest.epsilon_lower, 2),
        "twin_epsilon": factor,
        "twin_epsilon_lower": round(twin.epsilon_lower, 2),
        "confidence": CONFIDENCE,
    }


def main() -> None:
    """Run all audits and print them; with --write, store them for the book."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name} of the book")
    parser.add_argument(
        "--only", default="", help="part of a name; with --write, the others stay as they are"
    )
    options = parser.parse_args()
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # every run is seeded and tiny
        for each in AUDITS:
            if options.only in each[0]:
                found.append(line(*each))
                print(found[-1])
    if options.write:
        kept = (
            {each["name"]: each for each in json.loads(TABLE.read_text(encoding="utf-8"))}
            if options.only
            else {}
        )
        made = {each["name"]: each for each in found}
        found = [
            each for name, *_ in AUDITS if (each := made.get(name, kept.get(name))) is not None
        ]
        TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
