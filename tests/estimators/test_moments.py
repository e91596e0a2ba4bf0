"""The mean of derived rows in two pieces: the law of the tail, the pieces, their price, intervals, and planted faults."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.neighbors import pair_at

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, session
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators import moments
from fastpubpriv.estimators.moments import NormCount, RadialMean, RadialPlan, TwoPieces
from fastpubpriv.mechanisms.sums import AffineMap, SumQuery, sum_grid
from fastpubpriv.release.account import Account

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
NO_PUBLIC = np.zeros(0)


def radial_mean(x, budget, matrix=None, *, public=NO_PUBLIC, seed=None):
    """The radial mean of an affine map of the rows, as a call of its own."""
    rows, _ = session.open_rows(x)
    affine = AffineMap(dim=rows.dim, matrix=matrix)
    dim = affine.out_dim
    options = {"ledger": None, "random_state": seed, "threads": 1, "progress": False}
    run = session.start("radial_mean", rows, budget, draws=moments.DRAWS + 2 * dim, **options)
    plan = RadialPlan.of(run.account, rows.n, dim, Fraction(1))
    plan.check_grids(run.account)
    with run.paid():
        return plan.measure(run, affine, public)


class Counting:
    """In place of a run: the counts of norms without noise, as if there were `n` rows."""

    def __init__(self, norms, n):
        self.norms, self.times = norms, n / len(norms)

    def release(self, measurement, *, name, cost):
        places = np.searchsorted(measurement.edges, self.norms)
        value = np.bincount(places, minlength=len(measurement.edges) + 1) * self.times
        return type("Released", (), {"value": value})


def law_of(norms, cost=Fraction(1, 100), n=10_000):
    count = NormCount.costing(cost, 3 * cost, n, 1, pure=False, noise=math.sqrt(2.0 / (3.0 * float(cost))))
    return count.count_norms(Counting(norms, n), AffineMap(dim=1), NO_PUBLIC).law


LEVELS = (np.arange(200_000) + 0.5) / 200_000


@pytest.mark.parametrize("index", [2.0, 3.0, 4.0])
def test_a_power_law_goes_on_as_it_should(index):
    """Beyond R a tail of index g has 1 / (2^(g - 1) - 1) times what lies between R / 2 and R."""
    law, exact = law_of((1.0 - LEVELS) ** (-1.0 / index)), 1.0 / (2.0 ** (index - 1.0) - 1.0)
    expected, most = law.ratios(law.end / 4.0)
    assert abs(expected / exact - 1.0) < 0.25
    assert expected <= most <= 1.6 * exact


def test_the_law_of_heavier_tails_allows_more():
    heavy, light = law_of((1.0 - LEVELS) ** (-1.0 / 1.5)), law_of(np.sqrt(-2.0 * np.log(1.0 - LEVELS)))
    assert heavy.ratios(heavy.end / 2.0)[0] > moments.HEAVY > light.ratios(light.end / 2.0)[1]
    assert heavy.ratios(heavy.end / 2.0)[1] > 2.0
    # Per octave a power law of index 1.5 falls by 2^-1.5, and the sum beyond a radius of no rows by nothing.
    assert heavy.fall == pytest.approx(2.0**-1.5, rel=0.1)
    assert light.far(4.0 * light.end) == 0.0
    assert light.most(light.end) >= light.beyond(light.end) > 0.0


@pytest.mark.parametrize("dim", [1, 3])
def test_pieces_add_up_to_a_clipped_row(dim):
    rng = np.random.default_rng(0)
    radius = 5.0
    z = rng.normal(size=(200, dim)) * rng.lognormal(0.0, 2.0, size=(200, 1))
    along = np.zeros((6, dim))
    along[:, 0] = [0.0, radius / 2.0, radius, np.inf, np.nan, 1e300]
    z = np.concatenate([z, along])
    matrix = rng.normal(size=(dim, dim))
    made = TwoPieces.of(AffineMap(dim=dim, matrix=matrix), radius)(
        np.ascontiguousarray(np.linalg.solve(matrix, z[:-3].T).T)
    )
    inner, outer = np.split(made * math.sqrt(radius / 2.0), 2, axis=1)
    norm = np.linalg.norm(z[:-3], axis=1, keepdims=True)
    assert np.allclose(inner + outer, z[:-3] * np.minimum(1.0, radius / np.maximum(norm, 1e-300)), atol=1e-6 * radius)
    assert np.allclose(np.linalg.norm(outer, axis=1), np.clip(norm[:, 0] - radius / 2.0, 0.0, radius / 2.0), atol=1e-6)
    hostile = TwoPieces.of(AffineMap(dim=dim), radius)(z)
    assert np.linalg.norm(hostile, axis=1).max() <= math.sqrt(radius) * (1.0 + 1e-6)
    assert np.linalg.norm(hostile[-1]) == pytest.approx(math.sqrt(radius))
    assert np.array_equal(hostile[-3:-1], np.zeros((2, 2 * dim)))
    assert np.array_equal(TwoPieces.of(AffineMap(dim=dim), radius)(z[7:8])[0], hostile[7])


@every_budget
def test_the_noise_of_both_pieces_is_that_of_one_clipped_sum(budget):
    n, dim, cost = 5000, 4, Fraction(1, 10)
    account = Account("test", budget, draws=10_000)
    plan = RadialPlan(dim=dim, n=n, pure=account.pure, count=cost, pieces=cost)
    one, two = sum_grid(account, cost, dim, n), sum_grid(account, cost, 2 * dim, n)
    plain, radius = one.event.noise_std * one.step(1.0), 7.0
    pieces = two.event.noise_std * two.step(math.sqrt(radius)) * math.sqrt(radius / 2.0) / radius
    assert pieces == pytest.approx(plain if account.pure else plain / math.sqrt(2.0), rel=0.02)
    assert plan.noise == pytest.approx(math.sqrt(2.0) * pieces, rel=0.02)


def heavy(seed, n=8000):
    """Two coordinates, the first with a tail to one side."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.lognormal(0.0, 1.3, n), rng.normal(size=n)])


def coverage(draws, law=heavy, part=slice(None)):
    inside = []
    for seed in range(draws):
        x = law(seed)
        found = radial_mean(x, ZCDP(0.05), seed=seed).functional(np.eye(2))
        lower, upper = found.interval()
        inside.append(((lower <= x.mean(axis=0)) & (x.mean(axis=0) <= upper))[part])
    return np.mean(inside)


def test_intervals_hold_the_mean_and_need_the_outer_piece(monkeypatch):
    assert coverage(20) >= 0.95
    functional = RadialMean.functional
    monkeypatch.setattr(
        RadialMean,
        "functional",
        lambda self, q: functional(
            replace(self, inner=self.mean, outer=0.0 * self.outer, piece_std=0.0 * self.piece_std), q
        ),
    )
    assert coverage(20, part=slice(0, 1)) < 0.8


def test_reasons():
    rng = np.random.default_rng(3)
    assert radial_mean(rng.normal(size=(20_000, 2)), ZCDP(0.5), seed=1).reason is None
    assert radial_mean(rng.standard_cauchy(size=(20_000, 2)), ZCDP(0.5), seed=1).reason == "heavy_tail"
    assert radial_mean(np.zeros((2000, 2)), ZCDP(0.5), seed=1).reason == "unresolved"
    assert radial_mean(rng.normal(size=(20, 2)), ZCDP(1e-4), seed=1).reason == "unresolved"
    public = np.abs(rng.standard_cauchy(size=200))
    assert radial_mean(rng.normal(size=(20_000, 2)), ZCDP(0.5), public=public, seed=1).reason == "heavy_tail"
    assert radial_mean(rng.normal(size=(20_000, 2)), ZCDP(0.5), public=public[:49] / 1e3, seed=1).reason is None


HOSTILE = [[0.0, 0.0], [1e308, -1e308], [np.nan, 1.0], [np.inf, 0.0], [5e-324, 0.0], [3.0, 4.0], [-6.0, -8.0]]


@every_budget
def test_record_and_replay(budget):
    rng = np.random.default_rng(4)
    for trial in range(12):
        x, other = pair_at(
            rng.normal(size=(int(rng.choice([1, 30, 400])), 2)), 0, HOSTILE[trial % 7], HOSTILE[(3 * trial + 1) % 7]
        )
        report = record_replay(lambda rows: radial_mean(rows, budget), x, other, budget=budget)
        assert report.calls == 2
        assert report.pair_cost <= report.declared_cost <= report.allowance


def opposite():
    return pair_at(np.random.default_rng(4).normal(size=(400, 2)), 0, [1e6, 0.0], [-1e6, 0.0])


def test_opposite_rows_come_near_the_declared_cost():
    report = record_replay(lambda rows: radial_mean(rows, ZCDP(0.5)), *opposite(), budget=ZCDP(0.5))
    assert report.tightness > 0.6  # the count, nearly a third of the cost, sees no difference


@pytest.mark.parametrize("fault", ["longer", "company"])
def test_faults_are_caught(monkeypatch, fault):
    plain = TwoPieces.__call__
    if fault == "longer":
        # Rows of the pieces that are added up twice, past the check of the integers.
        add = SumQuery.add
        monkeypatch.setattr(SumQuery, "add", lambda self, chunk, sums: (add(self, chunk, sums), add(self, chunk, sums)))
    else:
        monkeypatch.setattr(TwoPieces, "__call__", lambda self, chunk: plain(self, chunk - chunk.mean(axis=0)))
    with pytest.raises(ReplayError, match=r"moved by|sensitivity"):
        record_replay(lambda rows: radial_mean(rows, ZCDP(0.5)), *opposite(), budget=ZCDP(0.5))


def test_long_pieces_are_held_by_the_integers(monkeypatch):
    plain = TwoPieces.__call__
    monkeypatch.setattr(TwoPieces, "__call__", lambda self, chunk: 50.0 * plain(self, chunk))
    report = record_replay(lambda rows: radial_mean(rows, ZCDP(0.5)), *opposite(), budget=ZCDP(0.5))
    assert report.pair_cost <= report.declared_cost
