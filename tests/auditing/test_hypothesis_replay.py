"""Record and replay of hypothesis selection: scores promise what they cost, and nothing passes them by.

The comparison is exact (integers and fractions): there are no false alarms.
"""

from fractions import Fraction

import numpy as np
import pytest
from helpers.neighbors import replaced

from fastpubpriv import ZCDP, BudgetError, PureDP, ReplayError, select_hypothesis
from fastpubpriv.auditing import record_replay
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.selection import log_ratio
from fastpubpriv.mixtures import select as public
from fastpubpriv.sources import Executor

BUDGETS = {"pure": PureDP(1), "zcdp": ZCDP(0.125)}
HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1.7976931348623157e308, 5e-324, -0.0, 1e9]
COMMON = {"threads": 1, "progress": False}


def listed(dim, size=20):
    rng = np.random.default_rng(dim)
    return (
        rng.dirichlet(np.ones(2), size),
        2.0 * rng.normal(size=(size, 2, dim)),
        np.exp(0.5 * rng.normal(size=(size, 2, dim))),
    )


def runner(budget, dim, **options):
    return lambda x: select_hypothesis(x, hypotheses=listed(dim), budget=budget, draws=64, **COMMON, **options)


CASES = [
    pytest.param(budget, dim, {"method": method, "law": mechanism}, id=f"{notion}: {method}, {mechanism}, {dim}")
    for notion, budget in BUDGETS.items()
    for method, dim in (("exact", 1), ("cells", 1), ("densities", 1), ("densities", 3))
    for mechanism in ("exponential", "permute_and_flip")
] + [
    pytest.param(budget, dim, {"score": score, "method": method}, id=f"{notion}: {score}, {method}, {dim}")
    for notion, budget in BUDGETS.items()
    for score, method, dim in (
        ("yatracos", "exact", 1),
        ("yatracos", "cells", 1),
        ("yatracos", "densities", 3),
        ("log_ratio", "densities", 1),
        ("log_ratio", "densities", 3),
    )
]


def neighbours(rng, dim, count):
    for _ in range(count):
        n = int(rng.choice([1, 2, 10, 51]))
        rows = rng.standard_normal((n, dim)) * 10.0 ** rng.choice([-300, 0, 0, 1, 6, 300])
        if rng.random() < 0.3:
            rows[rng.integers(n), rng.integers(dim)] = HOSTILE[rng.integers(len(HOSTILE))]
        yield rows, replaced(rng, rows, HOSTILE)


@pytest.mark.parametrize(("budget", "dim", "options"), CASES)
def test_replay_passes(budget, dim, options):
    run = runner(budget, dim, **options)
    moved = 0
    for rows, other in neighbours(np.random.default_rng(5), dim, 25):
        report = record_replay(run, rows, other, budget=budget)
        assert report.calls == 1
        assert report.pair_cost <= report.declared_cost <= report.allowance
        assert report.declared_cost >= Fraction(999_999, 1_000_000) * report.allowance
        moved += report.pair_cost > 0
    assert moved > 3


def test_a_pair_reaches_the_whole_cost():
    """A row that leaves the set of one hypothesis for that of another moves scores both ways."""
    arrays = (np.ones((2, 1)), np.array([[[-3.0]], [[3.0]]]), np.ones((2, 1, 1)))
    rows, other = np.full((10, 1), -3.0), np.full((10, 1), -3.0)
    rows[5:] = 3.0
    other[6:] = 3.0
    for method in ("exact", "cells", "densities"):
        report = record_replay(
            lambda x, method=method: select_hypothesis(
                x, hypotheses=arrays, budget=PureDP(1), method=method, law="exponential", **COMMON
            ),
            rows, other, budget=PureDP(1),
        )  # fmt: skip
        assert report.pair_cost == report.declared_cost > 0


def hostile_pair(dim=1):
    rows = np.random.default_rng(3).standard_normal((10, dim))
    other = rows.copy()
    other[4] = 50.0
    return rows, other


# Planted bugs: each must be caught.


def test_catches_log_ratios_that_are_not_clipped(monkeypatch):
    """A row that one hypothesis finds impossible then counts for more than the clip."""
    original = log_ratio.LogRatios.prepare.__func__

    def unclipped(cls, hypotheses, *, clip):
        made = original(cls, hypotheses, clip=clip)
        return cls(made.table, made.size, made.unit // 4)

    monkeypatch.setattr(log_ratio, "STEPS", 16)
    monkeypatch.setattr(log_ratio.LogRatios, "prepare", classmethod(unclipped))
    with pytest.raises(ReplayError, match="sensitivity"):
        record_replay(runner(PureDP(1), 3, score="log_ratio"), *hostile_pair(3), budget=PureDP(1))


def test_catches_rows_that_are_counted_twice(monkeypatch):
    original = CellQuery.answer
    monkeypatch.setattr(CellQuery, "answer", lambda self, found: 2 * original(self, found))
    with pytest.raises(ReplayError, match="moved by 2"):
        record_replay(runner(PureDP(1), 1, method="cells"), *hostile_pair(), budget=PureDP(1))


def test_catches_cells_that_follow_the_rows(monkeypatch):
    original = Executor.run

    def shifted(self, query, rows):
        largest = max(float(np.nanmax(chunk)) for chunk in rows.chunks())
        return original(self, CellQuery.between([query.edges[0] + largest]), rows)

    monkeypatch.setattr(Executor, "run", shifted)
    with pytest.raises(ReplayError, match="sensitivity"):
        record_replay(runner(PureDP(1), 1, method="cells"), *hostile_pair(), budget=PureDP(1))


def test_catches_a_list_that_follows_the_rows(monkeypatch):
    original = public.prepare

    def adaptive(listed, n, **options):
        method, made = original(listed, n, **options)
        seen = []

        class Adaptive:
            sensitivity = made.sensitivity

            def scores(self, rows, passes):
                seen.extend(float(np.nanmax(chunk)) for chunk in rows.chunks())
                return made.scores(rows, passes) * (2 if max(seen) > 10.0 else 1)

        return method, Adaptive()

    monkeypatch.setattr(public, "prepare", adaptive)
    with pytest.raises(ReplayError, match="sensitivity"):
        record_replay(runner(PureDP(1), 3), *hostile_pair(3), budget=PureDP(1))


def test_catches_a_score_in_the_result(monkeypatch):
    original = public.HypothesisChoice.release
    leaked = []

    def leaky(self, account, rows, executor, **options):
        leaked.append(int(self.evaluation.scores(rows, executor).sum()))
        return original(self, account, rows, executor, **options)

    monkeypatch.setattr(public.HypothesisChoice, "release", leaky)
    result = public._result
    monkeypatch.setattr(public, "_result", lambda *arguments, **named: [result(*arguments, **named), leaked[-1]])
    with pytest.raises(ReplayError, match="leaked past release"):
        record_replay(runner(PureDP(1), 1), *hostile_pair(), budget=PureDP(1))


def test_catches_permute_and_flip_at_the_price_of_the_exponential_mechanism(monkeypatch):
    """Planted: epsilon^2 / 8 is for mechanisms of bounded range only."""
    monkeypatch.setattr(public, "epsilon_of", lambda share, law, *, pure: Fraction(1))
    with pytest.raises(BudgetError, match="exceed the budget"):
        runner(ZCDP(0.125), 1, law="permute_and_flip")(hostile_pair()[0])
