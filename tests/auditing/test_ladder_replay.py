"""Record and replay of the ladder: every rung's releases promise what they cost, on every path, and nothing passes them by."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from spies import seeded
from test_gaussian_replay import BUDGETS, COMMON, DIM, HOSTILE, PUBLIC, hostile_pair, neighbours

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, estimate_gaussian
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators.ladder import full, learn, looks
from fastpubpriv.estimators.ladder.schedule import EARLY_SHARES
from fastpubpriv.mechanisms import axis_features
from fastpubpriv.release.transcript import recording

pytestmark = [pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")]


def ladder(budget, structure, public=PUBLIC):
    return lambda x: estimate_gaussian(x, x_pub=public, budget=budget, structure=structure, **COMMON)


CASES = [
    pytest.param(budget, ladder(budget, structure, public), id=f"{notion}: {structure}, {len(public)} public rows")
    for notion, budget in BUDGETS.items()
    for structure in ("mean", "diagonal", "full")
    for public in (PUBLIC, PUBLIC[:2])
]


@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.audit)])
@pytest.mark.parametrize(("budget", "run"), CASES)
def test_random_neighbours(budget, run, count):
    for rows, other in neighbours(np.random.default_rng(70), count):
        report = record_replay(run, rows, other, budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance * (1 + Fraction(1, 10**9))
        # The shares of the rounds add up to one, whatever was released.
        assert report.declared_cost >= Fraction(97, 100) * report.allowance


@pytest.mark.parametrize(("budget", "run"), CASES)
def test_hostile_neighbours(budget, run):
    plain = np.random.default_rng(5).standard_normal((8, DIM)) + 5.0
    for one in range(len(HOSTILE)):
        rows, other = plain.copy(), plain.copy()
        rows[3], other[3] = HOSTILE[one], HOSTILE[(one * 7 + 3) % len(HOSTILE)]
        record_replay(run, rows, other, budget=budget)


@pytest.mark.parametrize("structure", ["mean", "diagonal", "full"])
def test_opposite_extremes_nearly_reach_the_cost(structure):
    budget = BUDGETS["zcdp"]
    rows = np.tile(PUBLIC.mean(axis=0), (20, 1))
    other = rows.copy()
    rows[0, 0], other[0, 0] = 1e12, -1e12
    if structure == "diagonal":
        # Far rows have the same squares, so the way to the cost is by a moderate one.
        rows[0, 0], other[0, 0] = PUBLIC[:, 0].mean(), 1e12
    report = record_replay(ladder(budget, structure), rows, other, budget=budget)
    assert report.tightness >= (0.95 if structure == "mean" else 0.05)


def test_the_number_of_rounds_follows_the_releases():
    # Rows far beyond the public ones fill the ball round after round, and the released spectra say so.
    rows = np.random.default_rng(6).standard_normal((3000, DIM)) + PUBLIC.mean(axis=0)
    given = {"x_pub": PUBLIC, "budget": BUDGETS["zcdp"], "structure": "full", **COMMON}
    near, far = (seeded(estimate_gaussian, each, **given).rounds for each in (rows, rows + 1e4))
    assert near < far


# Enough budget for the counts of norms and of column scales that come before sums.
COUNTED = {"zcdp": ZCDP(8), "approx": ApproxDP(12, 1e-6), "pure": PureDP(40)}
CONSTANT = np.column_stack([PUBLIC[:, :2], np.full(len(PUBLIC), 5.0)])


@pytest.mark.parametrize("structure", ["mean", "diagonal", "full"])
@pytest.mark.parametrize("notion", COUNTED)
def test_counts_before_sums(notion, structure):
    budget, rng = COUNTED[notion], np.random.default_rng(72)
    run = ladder(budget, structure, CONSTANT)
    for scale in (1.0, 40.0):
        rows = PUBLIC.mean(axis=0) + scale * rng.standard_normal((300, DIM)) * [1.0, 10.0, 0.1]
        with recording() as recorded:
            result = run(rows)
        names = [each["name"] for each in result.releases]
        assert names[:2] == ["scale of column 2", "norms of rows"]
        assert ("norms before the last round" in names) == (structure == "full")
        assert (result.diagnostics["scale_ratio"] > 5.0) == (scale > 5.0)
        assert recorded.calls
        for hostile in (HOSTILE[0], HOSTILE[1], rows[7] + 1e9, PUBLIC.mean(axis=0), rng.standard_normal(DIM)):
            other = rows.copy()
            other[7] = hostile
            report = record_replay(run, rows, other, budget=budget)
            assert report.pair_cost <= report.declared_cost <= report.allowance * (1 + Fraction(1, 10**9))
            assert report.declared_cost >= Fraction(97, 100) * report.allowance


# Planted faults: each must be caught.


def test_catches_edges_that_follow_private_rows(monkeypatch):
    original = looks.count_norms

    def fitted(run, affine, edges, share, *, name):
        largest = max(float(np.abs(chunk).max()) for chunk in run.rows.chunks())
        return original(run, affine, edges * largest, share, name=name)

    monkeypatch.setattr(looks, "count_norms", fitted)
    rows = np.random.default_rng(73).standard_normal((300, DIM))
    other = rows.copy()
    other[4] = 1e3
    with pytest.raises(ReplayError):
        record_replay(ladder(COUNTED["zcdp"], "mean"), rows, other, budget=COUNTED["zcdp"])


def test_catches_rounds_that_follow_private_rows(monkeypatch):
    original, step = learn._second_moments, full.FullRung.step

    def longer(rung):
        return replace(step(rung), share=None if rung.made == 8 else EARLY_SHARES[0])

    def adaptive(run, *arguments):
        largest = max(float(np.abs(chunk).max()) for chunk in run.rows.chunks())
        if largest > 100.0:
            monkeypatch.setattr(full.FullRung, "step", longer)
        return original(run, *arguments)

    monkeypatch.setattr(learn, "_second_moments", adaptive)
    with pytest.raises(ReplayError):
        record_replay(ladder(BUDGETS["zcdp"], "full"), *hostile_pair(), budget=BUDGETS["zcdp"])


def test_catches_a_mean_that_bypasses_release(monkeypatch):
    original = learn.climb

    def leaky(run, base, view, structure, x_pub):
        found = original(run, base, view, structure, x_pub)
        private = next(iter(run.rows.chunks()))
        return replace(found, mean=found.mean + 1e-9 * private[4, 0])

    monkeypatch.setattr(learn, "climb", leaky)
    with pytest.raises(ReplayError, match="leaked past release"):
        record_replay(ladder(BUDGETS["zcdp"], "mean"), *hostile_pair(), budget=BUDGETS["zcdp"])


def test_catches_features_that_depend_on_the_company(monkeypatch):
    # Centred by the mean of the block: every row moves when one is replaced.
    original = axis_features.AxisFeatures._block

    def centred(self, rows, out):
        original(self, rows - rows.mean(axis=0), out)

    monkeypatch.setattr(axis_features.AxisFeatures, "_block", centred)
    rows = np.random.default_rng(3).standard_normal((40, DIM)) + 5.0
    other = rows.copy()
    other[4] = 1e3
    with pytest.raises(ReplayError):
        record_replay(ladder(BUDGETS["zcdp"], "diagonal"), rows, other, budget=BUDGETS["zcdp"])


def test_catches_clipping_to_a_private_radius(monkeypatch):
    original = learn.StatisticSum.release

    def data_dependent(self, account, rows, executor, **options):
        largest = max(float(np.abs(chunk).max()) for chunk in rows.chunks())
        return original(replace(self, radius=min(self.radius, largest)), account, rows, executor, **options)

    monkeypatch.setattr(learn.StatisticSum, "release", data_dependent)
    rows = np.full((10, DIM), 1e-3)
    other = rows.copy()
    other[4] = 2e-3
    with pytest.raises(ReplayError, match="depends on private rows"):
        record_replay(ladder(BUDGETS["zcdp"], "diagonal"), rows, other, budget=BUDGETS["zcdp"])


def test_the_public_rung_makes_no_call():
    with recording() as recorded:
        estimate_gaussian(
            np.full((10, DIM), np.nan), x_pub=PUBLIC, budget=BUDGETS["zcdp"], structure="public", **COMMON
        )
    assert not recorded.calls
