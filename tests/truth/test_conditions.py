"""The sweep under a condition: each argument beside `where`, on tables of which half of the rows are nonsense and outside."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fastpubpriv.sources.derived import DerivedRows
from tests.truth import engine, oracles
from tests.truth.arguments import VERBS, Call

INSIDE = "part == 'in'"
SEED = 1
# Verbs that answer about rows inside a condition; the others refuse rows that may be absent, which `tests/tables` asserts.
QUICK = ("estimate_mean", "quantiles", "value_counts", "describe", "count_persons")
SLOW = ("estimate_gaussian", "linear_regression", "logistic_regression", "stable_histogram")


def with_nonsense(private: pd.DataFrame, draw: int) -> pd.DataFrame:
    """Return the rows in a new order, each beside one of the same person that is outside and far from all others."""
    numbers = private.select_dtypes("number").columns.difference(["id", "weight"])
    outside = private.copy()
    outside[numbers] = 700.0 - 3.0 * outside[numbers]
    outside["g"] = outside["g"].iloc[0]
    both = pd.concat([private.assign(part="in"), outside.assign(part="out")])
    return both.sample(frac=1.0, random_state=draw).reset_index(drop=True)


def derived(call: Call, where: str = INSIDE) -> DerivedRows:
    """Return the private rows of a call, inside a condition of a table that has as many rows outside."""
    return DerivedRows(with_nonsense(call.tables.private, call.draw), where=(where,))


def sweep_of(monkeypatch: pytest.MonkeyPatch, where: str = INSIDE) -> engine.Sweep:
    """Return a sweep whose calls get derived rows; the truth is that of the rows inside."""
    plain = engine.result_of
    faults = oracles.of_result

    def result_of(call: Call, private: Any = None, **more: Any) -> Any:
        return plain(call, derived(call, where) if private is None else private, **more)

    def of_result(call: Call, result: Any) -> Any:
        # The number of rows is that of the table, rows outside included.
        return (fault for fault in faults(call, result) if fault.kind != "n_priv")

    monkeypatch.setattr(engine, "result_of", result_of)
    monkeypatch.setattr(oracles, "of_result", of_result)
    return engine.Sweep(seed=SEED, draws=2)


@pytest.mark.parametrize("verb", QUICK)
def test_no_argument_beside_a_condition_prints_what_is_not_true(verb, monkeypatch):
    sweep = sweep_of(monkeypatch)
    engine.thinned(sweep, verb)
    assert sum(map(len, sweep.calls.values())) >= 4, "nearly all calls are refused"
    assert [finding.line() for finding in sweep.findings] == []


@pytest.mark.parametrize("verb", QUICK + SLOW)
def test_no_pair_of_arguments_beside_a_condition_prints_what_is_not_true(verb, monkeypatch):
    sweep = sweep_of(monkeypatch)
    sweep.singles(verb, ["light"], rotated=True)
    sweep.pairs(verb, ["light"], share=engine.PAIRS * VERBS[verb].speed)
    assert [finding.line() for finding in sweep.findings] == []


def test_the_sweep_sees_a_condition_that_is_ignored(monkeypatch):
    """Planted: a condition that all rows fulfill, so that the nonsense is inside."""
    sweep = sweep_of(monkeypatch, where="part != 'none'")
    engine.thinned(sweep, "estimate_mean")
    assert "coverage mean" in {finding.kind for finding in sweep.findings}
