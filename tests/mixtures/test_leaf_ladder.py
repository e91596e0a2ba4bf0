"""Leaves on rungs of their own: means are learnt wherever that helps, and every mixture of rungs costs what it may."""

from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from helpers.errors import raises
from mixture_cases import opened
from spies import seeded
from test_leaf_gaussians import BUDGETS, DIM, ELSEWHERE, HOSTILE, SMALL, Mixture, check_closeness, check_pairs, replayed

from fastpubpriv import ZCDP, ReplayError, learn_separated_mixture
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.ladder import full
from fastpubpriv.estimators.ladder.schedule import Noise, forecast_structures
from fastpubpriv.mechanisms.leaves import AxisFeatures, LeafSecondMoments, LeafVector, LeafVectors
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.mixtures.separated import leaf_estimates
from fastpubpriv.mixtures.separated.leaf_estimates import leaf_bases, leaf_ladder_draws, learn_leaf_ladder
from fastpubpriv.mixtures.separated.search_state import ClusterTree
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources import private_rows

RUNGS = ("public", "mean", "diagonal", "full")
pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")


def bases_of(mixture):
    return leaf_bases(mixture.tree, mixture.tree.leaves, mixture.public)


def fit(mixture, budget, *, x=None, random_state=None, threads=1, bases=None, **options):
    rows, draws = mixture.private if x is None else x, leaf_ladder_draws(mixture.dim, mixture.k)
    run = opened(rows, budget, draws=draws, random_state=random_state, threads=threads)
    bases = bases_of(mixture) if bases is None else bases
    allowance = run.account.allowance
    return run, learn_leaf_ladder(run, mixture.tree, mixture.tree.leaves, bases, allowance=allowance, **options)


@pytest.fixture
def mixed_rungs(monkeypatch):
    """Puts the leaves on rungs of one's choice, by their place."""

    def put(*rungs):
        original = leaf_estimates._leaf
        monkeypatch.setattr(
            leaf_estimates,
            "_leaf",
            lambda place, *rest: replace(original(place, *rest), structure=rungs[place], low=False),
        )

    return put


@pytest.fixture(scope="module")
def mixture():
    return Mixture(60_000, 4, 3, n_pub=60)


@pytest.mark.parametrize("notion", BUDGETS)
def test_close_to_the_truth_and_to_the_prediction(mixture, notion):
    run, learned = fit(mixture, BUDGETS[notion], random_state=11)
    names = check_closeness(mixture, run, learned, least=Fraction(97, 100), means=2.5)
    assert names[-2:] == ["leaf second moments, last", "leaf means"]


def test_means_are_learnt_where_covariances_cannot_be():
    """The mixture in tens of columns that used to come back with its public means, thousands of rows in each cluster."""
    many = Mixture(12_000, 40, 4, n_pub=40, separation=30.0)
    _, learned = fit(many, ZCDP(0.02), random_state=3)
    assert {*learned.structure} <= {"mean", "diagonal"}
    assert not any(learned.part_reasons)
    _, mean = many.errors(learned)
    labels = np.arange(40) % 4
    public = [
        np.linalg.norm(np.linalg.solve(np.linalg.cholesky(c), many.public[labels == leaf].mean(axis=0) - m))
        for leaf, (m, c) in enumerate(zip(many.means, many.covariances, strict=True))
    ]
    assert np.all(mean < 0.6 * np.array(public))


def test_leaves_on_different_rungs_share_the_budget(mixture, mixed_rungs):
    mixed_rungs("full", "mean", "diagonal")
    for budget in BUDGETS.values():
        run, learned = fit(mixture, budget)
        assert learned.structure == ("full", "mean", "diagonal")
        assert not any(learned.part_reasons)
        assert run.account.charged <= run.account.allowance
        _, mean = mixture.errors(learned)
        assert np.all(mean < 0.2)


def test_without_a_full_leaf_the_vectors_get_everything(mixture, mixed_rungs):
    mixed_rungs("mean", "public", "mean")
    run, learned = fit(mixture, ZCDP(0.5))
    assert learned.structure == ("mean", "public", "mean")
    assert run.account.charged >= Fraction(99, 100) * run.account.allowance
    assert [record["name"] for record in run.log] == ["leaf counts", "leaf means"]
    np.testing.assert_array_equal(learned.means[1], bases_of(mixture)[1].center)
    mixed_rungs("public", "public", "public")
    run, learned = fit(mixture, ZCDP(0.5))
    assert [record["name"] for record in run.log] == ["leaf counts"]
    assert learned.rounds == 0


@pytest.mark.parametrize("rung", RUNGS)
def test_forced(mixture, rung):
    _, learned = fit(mixture, ZCDP(0.5), structure=rung)
    assert learned.structure == (rung,) * 3
    assert {detail["structure"] for detail in learned.details} == {rung}


def test_a_leaf_without_rows_is_the_public_one(mixture):
    x = mixture.private[mixture.tree.assign(mixture.private) != 2]
    _, learned = fit(mixture, ZCDP(0.5), x=x)
    assert learned.part_reasons == ((), ("fallback",), ())
    base = bases_of(mixture)[1]
    np.testing.assert_array_equal(learned.means[1], base.center)
    np.testing.assert_allclose(learned.covariances[1], base.covariance)
    assert not learned.mean_noise_std[1].any()


def few_public_rows(mixture):
    """All rows of the second leaf equal, a single one of the third."""
    public = mixture.public.copy()
    public[np.arange(60) % 3 == 1] = mixture.means[1]
    return np.delete(public, np.flatnonzero(np.arange(60) % 3 == 2)[1:], axis=0)


@pytest.mark.parametrize("scale", [1.0, np.array([1e-6, 1.0, 1e3, 1e9])])
def test_one_public_row_or_equal_ones_take_the_scales_around(mixture, scale):
    """A covariance many times too wide is cut down by private rounds, and columns in different units do not meet."""
    few = few_public_rows(mixture) * scale
    tree = ClusterTree.root(4).split_nearest(
        0, origin=np.zeros(4), projection=np.diag(np.ones(4) / scale), centers=mixture.means
    )
    bases = leaf_bases(tree, tree.leaves, few)
    assert [base.weak for base in bases] == [False, True, True]
    assert bases[1].source == "public rows around"
    np.testing.assert_allclose(np.diag(bases[1].root), few.std(axis=0, ddof=1))
    run = opened(mixture.private * scale, ZCDP(0.5), draws=leaf_ladder_draws(4, 3), random_state=4)
    learned = learn_leaf_ladder(run, tree, tree.leaves, bases, allowance=run.account.allowance)
    assert not any(learned.part_reasons)
    in_units = replace(
        learned, means=learned.means / scale, covariances=learned.covariances / np.multiply.outer(scale, scale)
    )
    covariance, mean = mixture.errors(in_units)
    assert np.all(mean < 0.05)
    assert np.all(covariance < 0.1)


def test_a_region_is_no_covariance(mixture):
    """Where the private rows cannot cut a region down to a component, a reason says so."""
    bases = leaf_bases(mixture.tree, mixture.tree.leaves, few_public_rows(mixture))
    _, learned = fit(mixture, ZCDP(0.5), bases=bases, structure="mean")
    assert learned.part_reasons == ((), ("few_public_rows",), ("few_public_rows",))
    _, learned = fit(mixture, ZCDP(0.0005), bases=bases, x=mixture.private[:3000])
    assert set(learned.part_reasons[1:]) <= {("few_public_rows",), ("unresolved",), ("fallback",)}


def test_a_constant_column_of_a_leaf_borrows_from_above(mixture):
    """Not from the other columns, which may be in other units."""
    rows = np.column_stack([mixture.public[:, 0] * 1e-3, np.arange(60) % 3 > 1, np.full(60, 7.0)])
    tree = ClusterTree.root(3).split_nearest(
        0, origin=np.zeros(3), projection=[[1.0, 0.0, 0.0]], centers=mixture.means[:, :1] * 1e-3
    )
    for base in leaf_bases(tree, tree.leaves, rows):
        assert base.covariance[1, 1] == pytest.approx(np.var(rows[:, 1], ddof=1))
        assert base.fallback == (2,)
    # A node below a cut: the nearest node above that knows a scale lends it.
    deep = tree.split_nearest(1, origin=np.zeros(3), projection=[[0.0, 1.0, 0.0]], centers=[[0.0], [1.0]])
    only = rows[(np.arange(60) % 3 == 0)][:2]
    path = leaf_bases(deep, (4,), np.concatenate([only, rows[np.arange(60) % 3 == 2]]))
    assert path[0].covariance[1, 1] == pytest.approx(np.var([0.0] * 2 + [1.0] * 20, ddof=1))
    raises(InputError, "no public row reaches node", leaf_bases, tree, tree.leaves, rows[np.arange(60) % 3 > 0])


def test_wrong_number_of_bases(mixture):
    raises(InputError, "3 leaves need as many bases", fit, mixture, ZCDP(1), bases=bases_of(mixture)[:2])


def test_draws_are_an_upper_bound(mixture):
    for budget in BUDGETS.values():
        run, _ = fit(mixture, budget, x=mixture.private[:3000], structure="full")
        assert sum(event.draws for event in run.account.events) <= leaf_ladder_draws(4, 3)


# The mechanism.


def test_a_vector_is_that_of_the_rows_of_its_leaf(mixture):
    routes = mixture.tree.routes(mixture.tree.leaves)
    features = AxisFeatures(center=np.zeros(4), matrix=np.eye(4) + 0.1)
    vectors = [
        LeafVector(target=0, rule=features, radius=9.0),
        LeafVector(target=2, rule=AffineMap(dim=4, center=mixture.means[2]), radius=4.0),
    ]
    run, _ = fit(mixture, ZCDP(0.5))
    account = opened(run.rows, ZCDP(1), draws=100, random_state=1).account
    x = mixture.private[:999]
    with recording() as transcript:
        found = LeafVectors(routes=routes, vectors=vectors).release(
            account, private_rows(x), run.executor, name="v", cost=Fraction(1, 2)
        )
    assert [answer.value.shape for answer in found.answers] == [(8,), (4,)]
    labels, query = mixture.tree.assign(x), transcript.calls[0].query
    assert query.shape == (12,)
    mine = np.clip(features(x[labels == mixture.tree.leaves[0]]), -1e9, 1e9)
    norms = np.linalg.norm(mine, axis=1, keepdims=True)
    expected = (mine * np.minimum(1.0, 9.0 / norms)).sum(axis=0)
    unit = found.answers[0].noise_std / found.event.noise_std
    np.testing.assert_allclose(query[:8] * unit, expected, atol=1e-3)
    for targets in ([], [0, 0], [2, 0], [3]):
        wrong = [replace(vectors[0], target=target) for target in targets]
        with pytest.raises(InputError, match="targets"):
            LeafVectors(routes=routes, vectors=wrong).release(
                account, private_rows(x), run.executor, name="v", cost=Fraction(1, 10)
            )
        with pytest.raises(InputError, match="one map"):
            LeafSecondMoments(
                routes=routes, affines=[AffineMap(dim=4)] * len(targets), radii=[1.0] * len(targets),
                targets=tuple(targets),
            ).release(account, private_rows(x), run.executor, name="v", cost=Fraction(1, 10))  # fmt: skip


@pytest.mark.parametrize("rung", ["mean", "diagonal", "full"])
def test_a_row_has_the_same_integers_in_every_place_of_its_group(rung):
    rng = np.random.default_rng(8)
    center, matrix = rng.normal(size=5), rng.normal(size=(5, 5))
    routes = ClusterTree.root(5).routes((0,))
    rule = (
        AxisFeatures(center=center, matrix=matrix)
        if rung == "diagonal"
        else AffineMap(dim=5, center=center, matrix=matrix)
    )
    measurement = (
        LeafSecondMoments(routes=routes, affines=[rule], radii=[4.0])
        if rung == "full"
        else LeafVectors(routes=routes, vectors=[LeafVector(target=0, rule=rule, radius=4.0)])
    )

    def integers(x):
        run = opened(x, ZCDP(1), draws=100, random_state=1)
        with recording() as transcript:
            measurement.release(run.account, run.rows, run.executor, name="v", cost=Fraction(1, 2))
        return transcript.calls[0].query

    rows = rng.normal(size=(9, 5))
    alone = [integers(row[None, :]) for row in rows]
    for size in range(1, 10):
        for begin in range(10 - size):
            group = slice(begin, begin + size)
            np.testing.assert_array_equal(integers(rows[group]), sum(alone[group]))


# Replay.

BASES = bases_of(SMALL)


def replayable(budget, **options):
    return replayed(fit, mixture=SMALL, budget=budget, bases=BASES, **options)


@pytest.mark.parametrize("notion", BUDGETS)
@pytest.mark.parametrize("rungs", [None, ("full", "mean", "diagonal"), ("diagonal", "public", "mean")])
def test_replay(notion, rungs, mixed_rungs):
    if rungs is not None:
        mixed_rungs(*rungs)
    check_pairs(replayable(BUDGETS[notion]), BUDGETS[notion], seed=19, count=15)


@pytest.mark.parametrize("structure", ["mean", "diagonal", "full"])
def test_replay_of_hostile_rows(structure):
    run, plain = replayable(ZCDP(0.5), structure=structure), np.tile(SMALL.means, (4, 1))
    for one in range(len(HOSTILE)):
        rows, other = plain.copy(), plain.copy()
        rows[3], other[3] = HOSTILE[one], HOSTILE[(one * 7 + 3) % len(HOSTILE)]
        record_replay(run, rows, other, budget=ZCDP(0.5))


def crowd():
    """Enough rows for every leaf to be learnt."""
    return np.tile(SMALL.means, (200, 1)) + np.random.default_rng(3).standard_normal((600, DIM))


def test_catches_rungs_that_private_rows_chose():
    x = crowd()
    y = x.copy()
    y[0, 2] = 1e9

    def adaptive(data):
        _, learned = fit(SMALL, ZCDP(0.5), x=data, bases=BASES, structure="mean" if data[0, 2] > 100.0 else "full")
        return [learned.means]

    raises(ReplayError, None, record_replay, adaptive, x, y, budget=ZCDP(0.5))


def test_catches_routes_that_differ_between_releases(monkeypatch):
    original = LeafVectors.release

    def elsewhere(self, account, rows, executor, **options):
        return original(replace(self, routes=ELSEWHERE), account, rows, executor, **options)

    monkeypatch.setattr(leaf_estimates.LeafVectors, "release", elsewhere)
    raises(BudgetError, "exceed the budget", fit, SMALL, ZCDP(0.5), x=crowd(), bases=BASES, structure="full")
    monkeypatch.undo()
    fit(SMALL, ZCDP(0.5), x=crowd(), bases=BASES, structure="full")


def test_catches_features_that_depend_on_the_company(monkeypatch):
    original = AxisFeatures._block
    monkeypatch.setattr(AxisFeatures, "_block", lambda self, rows, out: original(self, rows - rows.mean(axis=0), out))
    rows = crowd()
    other = rows.copy()
    other[4, 1] += 1e3
    with pytest.raises(ReplayError):
        record_replay(replayable(ZCDP(0.5), structure="diagonal"), rows, other, budget=ZCDP(0.5))


def test_the_cost_of_a_move_is_that_of_the_stage():
    """Brute force on tiny integers: over rungs and stages, no stay and no move costs more than the allowance."""
    for mean_share in (Fraction(1, 10), Fraction(1, 4), Fraction(2, 5), Fraction(1)):
        grams, vectors, counts = 1 - mean_share, mean_share, Fraction(1, 20)
        for one in RUNGS[1:]:
            for two in RUNGS[1:]:
                if mean_share == 1 and "full" in (one, two):
                    continue
                stay = (grams if one == "full" else 0) + vectors
                move = sum(((grams / 2 if rung == "full" else 0) + vectors / 4) for rung in (one, two)) + counts
                assert max(stay, move) <= 1


def test_rungs_follow_the_released_count(mixture):
    base, noise = bases_of(mixture)[0], Noise(False, Fraction(1, 2), moving=True)
    for count in (-50.0, 3.0, 500.0, 20_000.0, 1e9):
        leaf = leaf_estimates._leaf(0, base, count, 70, 60_000, noise, "auto")
        assert leaf.n == min(max(70, round(count)), 60_000)
        assert leaf.structure == ("public" if leaf.low else forecast_structures(base.worth, leaf.n, noise).best)
        assert leaf.low == (count < 70)


def narrow_leaf(seed):
    """Three groups on a line, one public row each; the third is ten thousand times narrower: the width learnt over the true one."""
    rng = np.random.default_rng(seed)
    centers, spreads = np.array([0.0, 200.0, 400.0]), np.array([10.0, 10.0, 1e-3])
    labels = rng.integers(0, 3, 20_000)
    rows = (centers[labels] + spreads[labels] * rng.normal(size=20_000))[:, None]
    public = (centers + spreads * rng.normal(size=3))[:, None]
    result = seeded(
        learn_separated_mixture, rows, x_pub=public, n_components=3, min_weight=0.2, budget=ZCDP(0.5),
        method="one_shot", random_state=seed, threads=1, progress=False,
    )  # fmt: skip
    third = int(np.argmax(result.means[:, 0]))
    return float(np.sqrt(result.variances[third, 0])) / 1e-3, result.part_status[third]


def test_a_leaf_of_one_column_far_narrower_than_the_rest_is_cut_down_to_its_width():
    found = [narrow_leaf(seed) for seed in range(2)]
    assert all(0.9 < ratio < 1.1 and status == "ok" for ratio, status in found)
    with mock.patch.object(
        full, "lifted_place", return_value=0
    ):  # planted: the least is left out, here that of the rows
        assert narrow_leaf(0)[0] > 10.0
