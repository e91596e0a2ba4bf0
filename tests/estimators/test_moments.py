"""The mean of derived rows in two pieces: the law of the tail, the pieces, their price, intervals, and planted faults."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.neighbors import pair_at

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, session
from fastpubpriv.auditing import record_replay
from fastpubpriv.distributions import norms as norms_module
from fastpubpriv.distributions.norms import NormCount
from fastpubpriv.estimators import moments
from fastpubpriv.estimators.moments import RadialMean, RadialPlan
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.mechanisms import sums
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    CountedMoment,
    RadialPieces,
    SecondMoment,
    ShellCounts,
)
from fastpubpriv.privacy.spending import GaussianSpending
from fastpubpriv.release.account import Account
from fastpubpriv.sources import Executor

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
NO_PUBLIC = np.zeros(0)


def radial_mean(x, budget, matrix=None, *, public=NO_PUBLIC, seed=None, radius=None):
    """The radial mean of an affine map of the rows, as a call of its own."""
    rows, _ = session.open_rows(x)
    affine = AffineMap(dim=rows.dim, matrix=matrix)
    dim = affine.out_dim
    options = {"ledger": None, "random_state": seed, "threads": 1, "progress": False}
    run = session.start("radial_mean", rows, budget, draws=norms_module.DRAWS + 2 * dim, **options)
    counted = run.account.allowance * moments.count_share(dim)
    pieces = run.account.allowance - counted
    plan = RadialPlan(
        dim=dim, n=rows.n, spending=run.account.spending, count=counted, pieces=pieces
    )
    plan.check_grids(run.account)
    with run.paid():
        return plan.measure(run, affine, public, radius=radius)


def law_of(norms, cost=Fraction(1, 100), n=10_000):
    """The law that counts of norms without noise show, as if there were `n` rows."""

    def release(measurement, *, name, cost):
        places = np.searchsorted(measurement.edges, norms)
        return SimpleNamespace(
            value=np.bincount(places, minlength=len(measurement.edges) + 1) * (n / len(norms))
        )

    count = NormCount.costing(
        cost,
        3 * cost,
        n,
        1,
        spending=GaussianSpending(4 * cost),
        noise=math.sqrt(2.0 / (3.0 * float(cost))),
    )
    return count.count_norms(SimpleNamespace(release=release), AffineMap(dim=1), NO_PUBLIC).law


LEVELS = (np.arange(200_000) + 0.5) / 200_000


@pytest.mark.parametrize("index", [2.0, 3.0, 4.0])
def test_a_power_law_goes_on_as_it_should(index):
    """Beyond R a tail of index g has 1 / (2^(g - 1) - 1) times what lies between R / 2 and R."""
    law = law_of((1.0 - LEVELS) ** (-1.0 / index))
    exact = 1.0 / (2.0 ** (index - 1.0) - 1.0)
    expected, most = law.ratios(law.end / 4.0)
    assert abs(expected / exact - 1.0) < 0.25
    assert expected <= most <= 1.6 * exact


def test_the_law_of_heavier_tails_allows_more():
    heavy = law_of((1.0 - LEVELS) ** (-1.0 / 1.5))
    light = law_of(np.sqrt(-2.0 * np.log(1.0 - LEVELS)))
    assert heavy.ratios(heavy.end / 2.0)[0] > moments.HEAVY > light.ratios(light.end / 2.0)[1]
    assert heavy.ratios(heavy.end / 2.0)[1] > 2.0
    # Per octave a power law of index 1.5 falls by 2^-1.5, and the sum beyond a radius of no rows by nothing.
    assert heavy.fall == pytest.approx(2.0**-1.5, rel=0.1)
    assert light.far(4.0 * light.end) == 0.0
    assert light.most(light.end) >= light.beyond(light.end) > 0.0


@pytest.mark.parametrize("dim", [1, 3])
def test_pieces_add_up_to_a_clipped_row(monkeypatch, dim):
    # without noise
    monkeypatch.setattr(sums, "release", lambda account, *, query, unit, **_: query() * unit)
    rng = np.random.default_rng(0)
    radius = 5.0
    z = rng.normal(size=(200, dim)) * rng.lognormal(0.0, 2.0, size=(200, 1))
    z[:3] = np.outer([0.0, radius / 2.0, 1e150], np.eye(dim)[0])
    matrix = np.eye(dim) + 0.1 * rng.normal(size=(dim, dim))
    affine = AffineMap(dim=dim, matrix=matrix)
    edges = np.array([0.1, 1.0, 4.0, 1e100])
    counts = ShellCounts(affine=affine, edges=edges)
    part = Fraction(1, 10)
    asked = RadialPieces(affine=affine, radius=radius, squares=part, counts=counts, counted=part)
    x = np.linalg.solve(matrix, z.T).T
    rows, _ = session.open_rows(np.vstack([x, [[np.nan] * dim]]))
    found = asked.release(
        Account("", ZCDP(0.5), draws=99), rows, Executor(threads=1), name="", cost=Fraction(1, 2)
    )
    norm = np.linalg.norm(z, axis=1, keepdims=True)
    unit = z / np.maximum(norm, 1e-300)
    whole = unit * np.minimum(norm, radius)
    assert np.allclose(
        found.value[0], np.sum(unit * np.minimum(norm, radius / 2.0), axis=0), atol=1e-4
    )
    assert np.allclose(found.value.sum(axis=0), whole.sum(axis=0), atol=1e-4)
    assert np.allclose(found.moment.value, whole.T @ whole, atol=0.3)
    expected = np.histogram(norm, [0.0, *edges, np.inf])[0]
    np.testing.assert_array_equal(found.counts, expected)
    # Counts and squares of the same rows share a pass; those of other rows need two.
    for other in (affine, AffineMap(dim=dim, matrix=matrix.copy())):
        moment = SecondMoment(affine=other, radius=radius)
        joint = CountedMoment(counts=counts, moment=moment, counted=part).release(
            Account("", ZCDP(0.5), draws=99),
            rows,
            Executor(threads=1),
            name="",
            cost=Fraction(1, 2),
        )
        np.testing.assert_array_equal(joint.value, expected)
        assert np.allclose(joint.moment.value, whole.T @ whole, atol=0.3)


@every_budget
def test_the_noise_of_both_pieces_is_that_of_one_clipped_sum(budget):
    n = 5000
    dim = 4
    cost = Fraction(1, 10)
    account = Account("test", budget, draws=10_000)
    plan = RadialPlan(dim=dim, n=n, spending=account.spending, count=cost, pieces=cost)
    one = account.spend(cost).grid("sum", dim, n)
    half = account.spend(cost / 2).grid("sum", dim, n)
    plain = one.event.noise_std * one.step(1.0)
    pieces = half.event.noise_std * half.step(0.5)
    assert pieces == pytest.approx(
        account.spending.by_tail(plain / math.sqrt(2.0), plain), rel=0.02
    )
    assert plan.noise == pytest.approx(math.sqrt(2.0) * pieces, rel=0.02)


def heavy(seed, n=8000):
    """Two coordinates, the first with a tail to one side."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.lognormal(0.0, 1.3, n), rng.normal(size=n)])


def coverage(draws, part=slice(None)):
    inside = []
    for seed in range(draws):
        x = heavy(seed)
        found = radial_mean(x, ZCDP(0.05), seed=seed).functional(np.eye(2))
        lower, upper = found.interval()
        inside.append(((lower <= x.mean(axis=0)) & (x.mean(axis=0) <= upper))[part])
    return np.mean(inside)


def test_intervals_hold_the_mean_and_need_the_outer_piece(monkeypatch):
    assert coverage(20) >= 0.95
    functional = RadialMean.functional

    def inner_alone(found, q):
        return functional(
            replace(
                found, inner=found.mean, outer=0.0 * found.outer, piece_std=0.0 * found.piece_std
            ),
            q,
        )

    monkeypatch.setattr(RadialMean, "functional", inner_alone)
    assert coverage(20, part=slice(0, 1)) < 0.8


def test_reasons():
    rng = np.random.default_rng(3)
    assert radial_mean(rng.normal(size=(20_000, 2)), ZCDP(0.5), seed=1).reason is None
    assert (
        radial_mean(rng.standard_cauchy(size=(20_000, 2)), ZCDP(0.5), seed=1).reason == "heavy_tail"
    )
    assert radial_mean(np.zeros((2000, 2)), ZCDP(0.5), seed=1).reason == "unresolved"
    assert radial_mean(rng.normal(size=(20, 2)), ZCDP(1e-4), seed=1).reason == "unresolved"
    public = np.abs(rng.standard_cauchy(size=200))
    assert (
        radial_mean(rng.normal(size=(20_000, 2)), ZCDP(0.5), public=public, seed=1).reason
        == "heavy_tail"
    )
    assert (
        radial_mean(
            rng.normal(size=(20_000, 2)), ZCDP(0.5), public=public[:49] / 1e3, seed=1
        ).reason
        is None
    )


HOSTILE = [
    [0.0, 0.0],
    [1e308, -1e308],
    [np.nan, 1.0],
    [np.inf, 0.0],
    [5e-324, 0.0],
    [3.0, 4.0],
    [-6.0, -8.0],
]


@every_budget
def test_record_and_replay(budget):
    rng = np.random.default_rng(4)
    for trial in range(12):
        rows = rng.normal(size=(int(rng.choice([1, 30, 400])), 2))
        pair = pair_at(rows, 0, HOSTILE[trial % 7], HOSTILE[(3 * trial + 1) % 7])
        report = record_replay(partial(radial_mean, budget=budget), *pair, budget=budget)
        assert report.calls == 2
        assert report.pair_cost <= report.declared_cost <= report.allowance


def opposite():
    return pair_at(np.random.default_rng(4).normal(size=(400, 2)), 0, [1e6, 0.0], [-1e6, 0.0])


@pytest.mark.parametrize("radius", [None, 9.0])
def test_opposite_rows_come_near_the_declared_cost(radius):
    report = record_replay(
        partial(radial_mean, budget=ZCDP(0.5), radius=radius), *opposite(), budget=ZCDP(0.5)
    )
    assert report.tightness > 0.6  # the count, nearly a third of the cost, sees no difference


@pytest.mark.parametrize("radius", [None, 9.0])
@pytest.mark.parametrize("fault", ["longer", "company"])
def test_faults_are_caught(monkeypatch, fault, radius):
    plain = kernels.rows_radial
    if fault == "longer":
        # Pieces that are added up twice, past the check of the integers.
        add = sums.RadialQuery.add
        monkeypatch.setattr(
            sums.RadialQuery, "add", lambda self, *given: (add(self, *given), add(self, *given))
        )
    else:
        monkeypatch.setattr(
            kernels, "rows_radial", lambda chunk, *given: plain(chunk - chunk.mean(axis=0), *given)
        )
    with pytest.raises(ReplayError, match=r"moved by|sensitivity"):
        record_replay(
            lambda rows: radial_mean(rows, ZCDP(0.5), radius=radius), *opposite(), budget=ZCDP(0.5)
        )
