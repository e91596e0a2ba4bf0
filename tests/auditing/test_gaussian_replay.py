"""Record and replay of the Gaussian estimators: their releases promise what they cost, and nothing passes them by.

The comparison is exact (integers and fractions): there are no false alarms.
"""

import dataclasses
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.neighbors import replaced

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, coinpress_covariance, estimate_gaussian, private_pca
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators import learners, lifted
from fastpubpriv.estimators.preconditioner import precondition
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources.views import pairs as pairs_module

pytestmark = [pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")]

DIM = 3
PUBLIC = np.random.default_rng(9).standard_normal((12, DIM)) @ np.diag([1.0, 10.0, 0.1]) + 5.0
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
COMMON = {"threads": 1, "progress": False}


def gaussian(budget, **options):
    return lambda x: estimate_gaussian(x, x_pub=PUBLIC, budget=budget, **COMMON, **options)


def runs(budget):
    """Name and run(x) of each estimator with each method and frame."""
    for method in ("lifted_coinpress", "pairs"):
        yield method, gaussian(budget, method=method, rounds=4)
        yield f"{method}, theory", gaussian(budget, method=method, mode="theory", rounds=3)
        yield f"{method}, auto", gaussian(budget, method=method)
        yield (
            f"{method}, trace",
            lambda x, name=method: estimate_gaussian(x, x_pub=PUBLIC[:2], budget=budget, method=name, **COMMON),
        )
    yield "one round", gaussian(budget, rounds=1)
    for steps in (1, 3):
        yield (
            f"coinpress {steps}",
            lambda x, s=steps: coinpress_covariance(x, budget=budget, scale=30.0, center=5.0, steps=s, **COMMON),
        )
    yield "pca, public rows", lambda x: private_pca(x, budget=budget, x_pub=PUBLIC, n_components=2, **COMMON)
    yield "pca", lambda x: private_pca(x, budget=budget, center=5.0, radius=9.0, n_components=2, **COMMON)


CASES = [
    pytest.param(budget, run, id=f"{notion}: {name}")
    for notion, budget in BUDGETS.items()
    for name, run in runs(budget)
]

HOSTILE = [
    np.full(DIM, np.nan),
    np.array([np.inf, 0.0, 0.0]),
    np.array([0.0, -np.inf, np.nan]),
    np.full(DIM, 1e308),
    np.array([1e308, -1e308, 1e308]),
    np.full(DIM, -1.7976931348623157e308),
    np.full(DIM, 5e-324),
    np.zeros(DIM),
    np.array([5.0, 5.0, 14.0]),  # on the ball of private_pca
    np.array([1e9, 0.0, 0.0]),
    np.array([0.0, 1e9, 0.0]),
    np.array([0.0, 0.0, -1e9]),
]


def neighbours(rng, count):
    """Random pairs: sizes, scales, and a replaced row that is random, hostile, or a copy of another."""
    for _ in range(count):
        n = int(rng.choice([2, 3, 10, 51]))
        rows = rng.standard_normal((n, DIM)) * 10.0 ** rng.choice([-300, -3, 0, 0, 1, 6, 300]) + 5.0
        if rng.random() < 0.3:
            rows[rng.integers(n)] = HOSTILE[rng.integers(len(HOSTILE))]
        yield rows, replaced(rng, rows, HOSTILE)


@pytest.mark.parametrize("count", [25, pytest.param(300, marks=pytest.mark.audit)])
@pytest.mark.parametrize(("budget", "run"), CASES)
def test_random_neighbours(budget, run, count):
    for rows, other in neighbours(np.random.default_rng(60), count):
        report = record_replay(run, rows, other, budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(("budget", "run"), CASES)
def test_hostile_neighbours(budget, run):
    plain = np.random.default_rng(5).standard_normal((8, DIM)) + 5.0
    for one in range(len(HOSTILE)):
        rows, other = plain.copy(), plain.copy()
        rows[3], other[3] = HOSTILE[one], HOSTILE[(one * 7 + 3) % len(HOSTILE)]
        record_replay(run, rows, other, budget=budget)


@pytest.mark.parametrize(("budget", "run"), [case for case in CASES if "pairs" not in case.id])
def test_one_row(budget, run):
    for one in range(len(HOSTILE)):
        record_replay(run, HOSTILE[one][None, :], HOSTILE[one - 1][None, :], budget=budget)


def second_moment_part(run, rows, other, notion):
    """Exact cost of a pair over the second moments alone, and their declared cost."""
    from fastpubpriv.auditing.replay import compare

    with recording() as recorded:
        run(rows)
    with recording(script=recorded.calls) as replayed:
        run(other)
    costs = [
        compare(one, two, notion)
        for one, two in zip(recorded.calls, replayed.calls, strict=True)
        if one.name.startswith("second moment")
    ]
    return sum((cost for cost, _ in costs), Fraction(0)), sum((price for _, price in costs), Fraction(0))


def orthogonal_extremes(rounds):
    """Rows far out along directions that stay orthogonal under the public map: columns of its factor."""
    factor = precondition(PUBLIC).factor
    far = 1e12
    return PUBLIC.mean(axis=0) + far * factor[:, 0], PUBLIC.mean(axis=0) + far * factor[:, 2]


@pytest.mark.parametrize("method", ["lifted_coinpress", "pairs"])
def test_orthogonal_extreme_rows_nearly_reach_the_cost(method):
    # Twenty rows at rest leave the preconditioner isotropic up to the noise, so orthogonal rows stay nearly so.
    one, two = orthogonal_extremes(4)
    rows = np.tile(PUBLIC.mean(axis=0), (20, 1))
    other = rows.copy()
    rows[0], other[0] = one, two
    budget = BUDGETS["zcdp"]
    run = gaussian(budget, method=method, rounds=1)
    cost, declared = second_moment_part(run, rows, other, type(budget))
    assert Fraction(95, 100) * declared <= cost <= declared
    # The declared cost itself is what the budget gives to the second moments, up to the grid.
    assert declared >= Fraction(99, 100) * Fraction(9, 10) * budget.rho
    # Nearly as tight over several rounds, whatever the noise does to the preconditioner in between.
    best = max(
        second_moment_part(gaussian(budget, method=method, rounds=3), rows, other, type(budget)) for _ in range(5)
    )
    assert best[0] >= Fraction(80, 100) * best[1]


def test_orthogonal_extreme_rows_of_the_matrix_estimators():
    budget = BUDGETS["zcdp"]
    rows = np.full((20, DIM), 5.0)
    other = rows.copy()
    rows[0, 0], other[0, 1] = 1e12, 1e12
    for run in (
        lambda x: private_pca(x, budget=budget, center=5.0, radius=9.0, n_components=2, **COMMON),
        lambda x: coinpress_covariance(x, budget=budget, scale=30.0, center=5.0, steps=1, **COMMON),
    ):
        assert 0.95 <= record_replay(run, rows, other, budget=budget).tightness <= 1.0


def test_pure_extremes_come_close():
    # In l1 the all-equal vectors are extreme: v v^T and the same with alternating signs.
    budget = BUDGETS["pure"]
    rows, other = np.full((5, 4), 5.0), np.full((5, 4), 5.0)
    rows[0] += 1e12
    other[0] += 1e12 * np.array([1.0, -1.0, 1.0, -1.0])
    report = record_replay(
        lambda x: private_pca(x, budget=budget, center=5.0, radius=9.0, n_components=2, **COMMON),
        rows, other, budget=budget,
    )  # fmt: skip
    assert 0.4 <= report.tightness <= 1.0


# Planted bugs: each must be caught.


def hostile_pair():
    rows = np.random.default_rng(3).standard_normal((10, DIM)) + 5.0
    other = rows.copy()
    other[4] = [1e9, -1e9, 1e9]
    return rows, other


def plant(monkeypatch, learn):
    """Let the default method learn in this way."""
    monkeypatch.setitem(learners.METHODS, "lifted_coinpress", replace(lifted.METHOD, learn=learn))


def test_catches_a_mean_that_bypasses_release(monkeypatch):
    def leaky(run, base, problem, *, rounds):
        learned = lifted.learn(run, base, problem, rounds=rounds)
        return replace(learned, mean=learned.mean + 1e-9 * next(iter(run.rows.chunks()))[4, 0])

    plant(monkeypatch, leaky)
    with pytest.raises(ReplayError, match="leaked past release"):
        record_replay(gaussian(ZCDP(0.5), rounds=3), *hostile_pair(), budget=ZCDP(0.5))


def test_catches_rounds_that_depend_on_private_rows(monkeypatch):
    def adaptive(run, base, problem, *, rounds):
        largest = max(float(np.abs(chunk).max()) for chunk in run.rows.chunks())
        return lifted.learn(run, base, problem, rounds=rounds + (largest > 100.0))

    plant(monkeypatch, adaptive)
    with pytest.raises(ReplayError):
        record_replay(gaussian(ZCDP(0.5), rounds=3), *hostile_pair(), budget=ZCDP(0.5))


def test_catches_clipping_to_a_private_radius(monkeypatch):
    original = lifted.SecondMoment.release

    def data_dependent(self, account, rows, executor, **options):
        largest = max(float(np.abs(chunk).max()) for chunk in rows.chunks())
        return original(dataclasses.replace(self, radius=min(self.radius, largest)), account, rows, executor, **options)

    monkeypatch.setattr(lifted.SecondMoment, "release", data_dependent)
    rows = np.full((10, DIM), 1e-3)
    other = rows.copy()
    other[4] = 2e-3
    with pytest.raises(ReplayError, match="depends on private rows"):
        record_replay(gaussian(ZCDP(0.5), rounds=3), rows, other, budget=ZCDP(0.5))


def test_catches_pairs_that_follow_the_order_of_values(monkeypatch):
    # One replaced row then shifts every pair after it, and the sums move by more than one pair's worth.
    original = pairs_module.differences
    monkeypatch.setattr(pairs_module, "differences", lambda rows: original(rows[np.argsort(rows[:, 0])]))
    rows = np.tile([[0.0, 1e9, 0.0], [0.0, 1e9, 0.0], [0.0, 0.0, 1e9], [0.0, 0.0, 1e9]], (10, 1))
    rows[:, 0] = np.arange(40)
    other = rows.copy()
    other[0, 0] = 1e12
    run = gaussian(ZCDP(0.5), method="pairs", rounds=2)
    with pytest.raises(ReplayError, match="sensitivity"):
        record_replay(run, rows, other, budget=ZCDP(0.5))
    monkeypatch.undo()
    record_replay(run, rows, other, budget=ZCDP(0.5))
