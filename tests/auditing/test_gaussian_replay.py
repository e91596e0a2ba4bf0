"""Exact record and replay of the Gaussian estimators: their releases promise what they cost, and nothing passes them by."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import hostile_pairs, hostile_rows, pair_at, random_pairs
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    PureDP,
    ReplayError,
    coinpress_covariance,
    coinpress_mean,
    estimate_gaussian,
    private_pca,
    weighted_mean,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.auditing.replay import compare
from fastpubpriv.estimators.preconditioner import precondition
from fastpubpriv.gaussians import gaussian_methods, last_round, lifted
from fastpubpriv.gaussians import ladder as ladder_module
from fastpubpriv.gaussians.gaussian_tuning import EARLY_SHARES
from fastpubpriv.mechanisms import sums
from fastpubpriv.mechanisms.sums import StatisticSum, WithCompleteRows
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources.views import Pairs

pytestmark = [pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")]
DIM = 3
PUBLIC = np.random.default_rng(9).standard_normal((12, DIM)) @ np.diag([1.0, 10.0, 0.1]) + 5.0
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
COMMON = {"threads": 1, "progress": False}


def gaussian(budget, x_pub=PUBLIC, **options):
    return partial(estimate_gaussian, x_pub=x_pub, budget=budget, **COMMON, **options)


def coinpress(budget, steps):
    given = {"scale": 30.0, "center": 5.0, "steps": steps}
    return partial(coinpress_covariance, budget=budget, **given, **COMMON)


def directions(budget, **options):
    return partial(private_pca, budget=budget, n_components=2, **COMMON, **options)


AROUND_FIVE = {"center": 5.0, "radius": 9.0}


def runs(budget):
    """Name and run(x) of each estimator with each method and frame."""
    for method in ("lifted_coinpress", "pairs"):
        yield method, gaussian(budget, method=method, rounds=4)
        yield f"{method}, theory", gaussian(budget, method=method, mode="theory", rounds=3)
        yield f"{method}, auto", gaussian(budget, method=method)
        yield f"{method}, trace", gaussian(budget, PUBLIC[:2], method=method)
    yield "one round", gaussian(budget, rounds=1)
    yield "coinpress 1", coinpress(budget, 1)
    yield "coinpress 3", coinpress(budget, 3)
    yield "pca, public rows", directions(budget, x_pub=PUBLIC)
    yield "pca", directions(budget, **AROUND_FIVE)


CASES = [
    pytest.param(budget, run, id=f"{notion}: {name}")
    for notion, budget in BUDGETS.items()
    for name, run in runs(budget)
]
HOSTILE = hostile_rows([5.0, 5.0, 14.0])  # on the ball of private_pca


neighbors = partial(random_pairs, sizes=[2, 3, 10, 51], dim=DIM, hostile=HOSTILE, shift=5.0)


def ladder(budget, structure, public=PUBLIC):
    return gaussian(budget, public, structure=structure)


STRUCTURES = ("mean", "diagonal", "full")


def cases_of_ladder():
    publics = (PUBLIC, PUBLIC[:2])
    for notion, structure, public in itertools.product(BUDGETS, STRUCTURES, publics):
        name = f"{notion}: {structure}, {len(public)} public rows"
        run = ladder(BUDGETS[notion], structure, public)
        yield pytest.param(BUDGETS[notion], run, id=name)


CASES_OF_LADDER = list(cases_of_ladder())
# What is declared may be above what is allowed by the rounding of its fractions.
ROUNDING = 1 + Fraction(1, 10**9)


def check_costs(report):
    """The pair costs no more than what is declared, and this no more than what is allowed."""
    assert report.pair_cost <= report.declared_cost <= report.allowance * ROUNDING


@pytest.mark.parametrize("count", [25, pytest.param(300, marks=pytest.mark.audit)])
@pytest.mark.parametrize(("budget", "run"), [*CASES, *CASES_OF_LADDER])
def test_random_neighbors(budget, run, count):
    for rows, other in neighbors(np.random.default_rng(60), count):
        report = record_replay(run, rows, other, budget=budget)
        check_costs(report)
        # The shares of the rounds add up to one, whatever was released.
        assert report.declared_cost >= Fraction(97, 100) * report.allowance


@pytest.mark.parametrize(("budget", "run"), [*CASES, *CASES_OF_LADDER])
def test_hostile_neighbors(budget, run):
    rows = np.random.default_rng(5).standard_normal((8, DIM)) + 5.0
    for pair in hostile_pairs(rows, 3, HOSTILE):
        record_replay(run, *pair, budget=budget)


@pytest.mark.parametrize(("budget", "run"), [case for case in CASES if "pairs" not in case.id])
def test_one_row(budget, run):
    for one in range(len(HOSTILE)):
        record_replay(run, HOSTILE[one][None, :], HOSTILE[one - 1][None, :], budget=budget)


def second_moment_part(run, rows, other, notion):
    """Exact cost of a pair over the second moments alone, and their declared cost."""
    with recording() as recorded:
        run(rows)
    with recording(script=recorded.calls) as replayed:
        run(other)
    cost = Fraction(0)
    declared = Fraction(0)
    for one, two in zip(recorded.calls, replayed.calls, strict=True):
        if one.name.startswith("second moment"):
            cost_of_pair, price = compare(one, two, notion)
            cost += cost_of_pair
            declared += price
    return cost, declared


def orthogonal_pair():
    """Twenty rows at rest and a far one, orthogonal to its neighbor under the public map too.

    The rows at rest leave the preconditioner isotropic up to the noise, so orthogonal rows stay nearly so.
    """
    factor = precondition(PUBLIC).factor
    middle = PUBLIC.mean(axis=0)
    rows = np.tile(middle, (20, 1))
    return pair_at(rows, 0, middle + 1e12 * factor[:, 0], middle + 1e12 * factor[:, 2])


@pytest.mark.parametrize("method", ["lifted_coinpress", "pairs"])
def test_orthogonal_extreme_rows_nearly_reach_the_cost(method):
    budget = BUDGETS["zcdp"]
    run = gaussian(budget, method=method, rounds=1)
    cost, declared = second_moment_part(run, *orthogonal_pair(), ZCDP)
    assert Fraction(95, 100) * declared <= cost <= declared
    # The declared cost itself is what the budget gives to the second moments, up to the grid.
    assert declared >= Fraction(99, 100) * Fraction(9, 10) * budget.rho


@pytest.mark.parametrize("method", ["lifted_coinpress", "pairs"])
def test_orthogonal_extreme_rows_nearly_reach_the_cost_of_several_rounds(method):
    """Whatever the noise does to the preconditioner in between, in the best of five runs."""
    run = gaussian(BUDGETS["zcdp"], method=method, rounds=3)
    parts = [second_moment_part(run, *orthogonal_pair(), ZCDP) for _ in range(5)]
    cost, declared = max(parts)
    assert cost >= Fraction(80, 100) * declared


BY_MATRIX = [directions(ZCDP(0.5), **AROUND_FIVE), coinpress(ZCDP(0.5), 1)]


@pytest.mark.parametrize("run", BY_MATRIX, ids=["pca", "coinpress"])
def test_orthogonal_extreme_rows_of_the_matrix_estimators(run):
    pair = pair_at(np.full((20, DIM), 5.0), 0, [1e12, 5.0, 5.0], [5.0, 1e12, 5.0])
    assert 0.95 <= record_replay(run, *pair, budget=ZCDP(0.5)).tightness <= 1.0


def test_extreme_rows_in_l1_of_directions():
    """The all-equal vectors are extreme: v v^T and the same with alternating signs."""
    budget = BUDGETS["pure"]
    pair = pair_at(np.full((5, 4), 5.0), 0, 1e12, 1e12 * np.array([1.0, -1.0, 1.0, -1.0]))
    report = record_replay(directions(budget, **AROUND_FIVE), *pair, budget=budget)
    assert 0.4 <= report.tightness <= 1.0


# Planted bugs: each must be caught.
def hostile_pair():
    return pair_at(np.random.default_rng(3).standard_normal((10, DIM)) + 5.0, 4, [1e9, -1e9, 1e9])


def caught(words, run, pair, budget=BUDGETS["zcdp"]):
    raises(ReplayError, words, record_replay, run, *pair, budget=budget)


def plant(monkeypatch, learn):
    """Let a method learn in this way."""
    planted = replace(gaussian_methods.LIFTED, learn=learn)
    monkeypatch.setitem(gaussian_methods.METHODS, "lifted_coinpress", planted)


@pytest.mark.parametrize("method", ["lifted_coinpress", "ladder"])
def test_catches_a_mean_that_bypasses_release(monkeypatch, method):
    original = lifted.learn if method == "lifted_coinpress" else ladder_module.release_structure

    def leaky(run, *arguments, **options):
        learned = original(run, *arguments, **options)
        first_chunk = next(iter(run.rows.chunks()))
        return replace(learned, mean=learned.mean + 1e-9 * first_chunk[4, 0])

    plant(monkeypatch, leaky)
    monkeypatch.setattr(ladder_module, "release_structure", leaky)
    caught("leaked past release", gaussian(ZCDP(0.5), method=method), hostile_pair())


def largest_of(rows):
    return max(float(np.abs(chunk).max()) for chunk in rows.chunks())


def test_catches_rounds_that_depend_on_private_rows(monkeypatch):
    def adaptive(run, base, problem, *, rounds):
        if largest_of(run.rows) > 100.0:
            rounds += 1
        return lifted.learn(run, base, problem, rounds=rounds)

    plant(monkeypatch, adaptive)
    caught(None, gaussian(ZCDP(0.5), method="lifted_coinpress", rounds=3), hostile_pair())


@pytest.mark.parametrize(
    ("kind", "options"),
    [(WithCompleteRows, {"rounds": 3}), (StatisticSum, {"structure": "diagonal"})],
)
def test_catches_clipping_to_a_private_radius(monkeypatch, kind, options):
    original = kind.release

    def clipped(measurement, rows):
        return replace(measurement, radius=min(measurement.radius, largest_of(rows)))

    def data_dependent(self, account, rows, executor, **given):
        if kind is WithCompleteRows:
            fitted = replace(self, total=clipped(self.total, rows))
        else:
            fitted = clipped(self, rows)
        return original(fitted, account, rows, executor, **given)

    monkeypatch.setattr(kind, "release", data_dependent)
    pair = pair_at(np.full((10, DIM), 1e-3), 4, 2e-3)
    caught("depends on private rows", gaussian(ZCDP(0.5), **options), pair)


def test_catches_pairs_that_follow_the_order_of_values(monkeypatch):
    """One replaced row then shifts every pair after it, and the sums move by more than one pair's worth."""
    original = Pairs.derived

    def in_order(*given):
        *others, chunk = given
        return original(*others, chunk[np.argsort(chunk[:, 0])])

    monkeypatch.setattr(Pairs, "derived", in_order)
    up = [0.0, 1e9, 0.0]
    aside = [0.0, 0.0, 1e9]
    rows = np.tile([up, up, aside, aside], (10, 1))
    rows[:, 0] = np.arange(40)
    run = gaussian(ZCDP(0.5), method="pairs", rounds=2)
    pair = pair_at(rows, (0, 0), 1e12)
    caught("sensitivity", run, pair)
    monkeypatch.undo()
    record_replay(run, *pair, budget=ZCDP(0.5))


@pytest.mark.parametrize("structure", ["mean", "diagonal", "full"])
def test_opposite_extremes_nearly_reach_the_cost(structure):
    """Opposite far rows have the same squares, so the way to the cost is by a moderate one for variances."""
    budget = BUDGETS["zcdp"]
    rows = np.tile(PUBLIC.mean(axis=0), (20, 1))
    if structure == "mean":
        pair = pair_at(rows, (0, 0), 1e12, -1e12)
        least = 0.95
    else:
        pair = pair_at(rows, (0, 0), 1e12)
        least = 0.05
    report = record_replay(ladder(budget, structure), *pair, budget=budget)
    assert report.tightness >= least


def test_the_number_of_rounds_follows_the_releases():
    """Rows far beyond the public ones fill the ball round after round, and the released spectra say so."""
    rows = np.random.default_rng(6).standard_normal((3000, DIM)) + PUBLIC.mean(axis=0)
    given = {"x_pub": PUBLIC, "budget": BUDGETS["zcdp"], "structure": "full", **COMMON}
    near = seeded(estimate_gaussian, rows, **given)
    far = seeded(estimate_gaussian, rows + 1e4, **given)
    assert near.rounds < far.rounds


# Enough budget for the counts of norms and of column scales that come before sums.
COUNTED = {"zcdp": ZCDP(8), "approx": ApproxDP(12, 1e-6), "pure": PureDP(40)}
CONSTANT = np.column_stack([PUBLIC[:, :2], np.full(len(PUBLIC), 5.0)])


def rows_of_scale(scale):
    deviations = scale * np.array([1.0, 10.0, 0.1])
    rng = np.random.default_rng(72)
    return PUBLIC.mean(axis=0) + rng.standard_normal((300, DIM)) * deviations


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("notion", COUNTED)
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_counts_come_before_sums(notion, structure, scale):
    run = ladder(COUNTED[notion], structure, CONSTANT)
    with recording() as recorded:
        result = run(rows_of_scale(scale))
    assert recorded.calls
    names = [release["name"] for release in result.releases]
    assert names[0] == "scale of column 2"
    assert names[1].startswith("norms of rows")
    assert ("last second moment" in names) == (structure == "full")
    assert (result.diagnostics["scale_ratio"] > 5.0) == (scale > 5.0)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("notion", COUNTED)
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_neighbors_with_counts_before_sums(notion, structure, scale):
    budget = COUNTED[notion]
    run = ladder(budget, structure, CONSTANT)
    rows = rows_of_scale(scale)
    middle = PUBLIC.mean(axis=0)
    near_zero = np.random.default_rng(74).standard_normal(DIM)
    gap = np.full(DIM, np.nan)
    for row in (HOSTILE[0], HOSTILE[1], rows[7] + 1e9, middle, near_zero, gap):
        report = record_replay(run, *pair_at(rows, 7, row), budget=budget)
        check_costs(report)
        assert report.declared_cost >= Fraction(97, 100) * report.allowance


@pytest.mark.parametrize("budget", COUNTED.values(), ids=COUNTED)
def test_directions_with_a_count_of_incomplete_rows(budget):
    rows = PUBLIC.mean(axis=0) + np.random.default_rng(73).standard_normal((300, DIM))
    pair = pair_at(rows, 7, HOSTILE[0], np.full(DIM, np.nan))
    run = directions(budget, x_pub=PUBLIC)
    assert run(rows).complete_rows is not None
    check_costs(record_replay(run, *pair, budget=budget))


def test_catches_an_incomplete_row_that_counts_twice(monkeypatch):
    original = sums._shells_and_incomplete

    def doubled(chunk, row_map, counts, **options):
        original(chunk, row_map, counts, **options)
        counts[-1] += int(np.isnan(chunk).any(axis=1).sum())

    rows = PUBLIC.mean(axis=0) + np.random.default_rng(72).standard_normal((300, DIM))
    run = ladder(COUNTED["zcdp"], "mean", PUBLIC)
    pair = pair_at(rows, 7, np.full(DIM, np.nan))
    record_replay(run, *pair, budget=COUNTED["zcdp"])
    monkeypatch.setattr(sums, "_shells_and_incomplete", doubled)
    caught(None, run, pair, budget=COUNTED["zcdp"])


# The worst row becomes incomplete: the count moves by one row, and the sum by that of one row instead of two.
BECOMES_INCOMPLETE = {
    "weighted_mean": partial(weighted_mean, norm_bound=3.0),
    "weighted_mean, public rows": partial(weighted_mean, norm_bound="auto", x_pub=PUBLIC),
    "coinpress_mean": partial(coinpress_mean, center=0.0, radius=3.0),
    "coinpress_mean, counts": partial(coinpress_mean, center=0.0, radius="auto"),
    "coinpress_covariance": partial(coinpress_covariance, scale=9.0, steps=2),
    "lifted_coinpress": partial(
        estimate_gaussian, x_pub=PUBLIC, method="lifted_coinpress", rounds=3
    ),
    "pairs": partial(estimate_gaussian, x_pub=PUBLIC, method="pairs", rounds=3),
    "recursive_preconditioner": partial(
        estimate_gaussian, x_pub=PUBLIC, method="recursive_preconditioner"
    ),
}


@pytest.mark.parametrize("budget", [ZCDP(8.0), ApproxDP(20, 1e-6), PureDP(40)])
@pytest.mark.parametrize("verb", BECOMES_INCOMPLETE)
def test_a_row_that_becomes_incomplete(verb, budget):
    rows = np.random.default_rng(75).standard_normal((3_000, DIM)) + 5.0
    rows[7] = 1e9
    pair = pair_at(rows, 7, [np.nan, 1e9, 1e9])
    run = partial(BECOMES_INCOMPLETE[verb], budget=budget, **COMMON)
    assert run(rows).complete_rows is not None
    check_costs(record_replay(run, *pair, budget=budget))


@pytest.mark.parametrize("verb", ["weighted_mean", "coinpress_covariance"])
def test_catches_a_count_of_complete_rows_that_is_not_free(monkeypatch, verb):
    kind = sums.VectorSum if verb == "weighted_mean" else sums.SecondMoment
    original = kind.free_count
    monkeypatch.setattr(kind, "free_count", lambda *given: 2 * original(*given))
    run = partial(BECOMES_INCOMPLETE[verb], budget=ZCDP(0.5), **COMMON)
    caught("sensitivity", run, pair_at(np.full((20, DIM), 1e9), 7, [np.nan, 0.0, 0.0]))


def test_catches_an_incomplete_row_in_the_sum(monkeypatch):
    """The proof needs that a row which is not counted is zero."""
    original = sums.CompleteRowsQuery.add

    def filled(self, chunk, accumulators):
        original(self, chunk, accumulators)
        incomplete = chunk[np.isnan(chunk).any(axis=1)]
        self.total.add(np.nan_to_num(incomplete), accumulators[:1])

    monkeypatch.setattr(sums.CompleteRowsQuery, "add", filled)
    run = partial(BECOMES_INCOMPLETE["weighted_mean"], budget=ZCDP(0.5), **COMMON)
    caught("sensitivity", run, pair_at(np.full((20, DIM), 1e9), 7, [np.nan, -1e9, -1e9]))


def test_catches_edges_that_follow_private_rows(monkeypatch):
    original = sums.ShellCounts.release

    def fitted(self, account, rows, executor, **given):
        wider = replace(self, edges=self.edges * largest_of(rows))
        return original(wider, account, rows, executor, **given)

    monkeypatch.setattr(sums.ShellCounts, "release", fitted)
    rows = np.random.default_rng(73).standard_normal((300, DIM))
    budget = COUNTED["zcdp"]
    caught(None, ladder(budget, "mean"), pair_at(rows, 4, 1e3), budget)


def test_catches_rounds_that_follow_private_rows(monkeypatch):
    original = ladder_module._full

    def longer(rounds):
        return None if rounds.made == 8 else EARLY_SHARES[0]

    def adaptive(run, *arguments):
        if largest_of(run.rows) > 100.0:
            monkeypatch.setattr(last_round.FullRounds, "step", longer)
        return original(run, *arguments)

    monkeypatch.setattr(ladder_module, "_full", adaptive)
    caught(None, ladder(BUDGETS["zcdp"], "full"), hostile_pair())


def test_catches_features_that_depend_on_the_company(monkeypatch):
    # Centered by the mean of the block: every row moves when one is replaced.
    original = sums.AxisFeatures._block

    def centered(self, rows, out):
        original(self, rows - rows.mean(axis=0), out)

    monkeypatch.setattr(sums.AxisFeatures, "_block", centered)
    rows = np.random.default_rng(3).standard_normal((40, DIM)) + 5.0
    caught(None, ladder(BUDGETS["zcdp"], "diagonal"), pair_at(rows, 4, 1e3))
