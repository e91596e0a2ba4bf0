"""Exact record and replay of every estimator on neighboring data sets, and the planted bugs that it must catch."""

from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np
import pytest
from helpers.accounts import opened
from helpers.errors import raises
from helpers.neighbors import hostile_pairs, hostile_rows, pair_at, random_pairs
from releases import release_second_moment, release_shell_counts, release_vector_sum
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    PureDP,
    coinpress_mean,
    estimate_mean,
    precondition,
    weighted_mean,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.distributions import budget_split, columns
from fastpubpriv.errors import BudgetError, ReplayError, SeededNoiseWarning
from fastpubpriv.estimators import column_means
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.mechanisms import cells, sums
from fastpubpriv.mechanisms.sums import AffineMap, Executor
from fastpubpriv.privacy import GaussianEvent
from fastpubpriv.privacy.calibration import gaussian_sum_grid
from fastpubpriv.release.release import release
from fastpubpriv.sources import private_rows

pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.AccuracyWarning"
)
DIM = 3
PUBLIC = np.random.default_rng(9).standard_normal((12, DIM))
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
EXECUTOR = Executor(threads=1, progress=False)


def runs(budget):
    """Name and run(x) of each estimator with each choice of steps."""
    common = {"budget": budget, "threads": 1, "progress": False}
    for steps in (1, 2, 3, "auto"):
        ball = {**common, "clipping": "gaussian", "steps": steps}
        yield (
            f"estimate_mean {steps}",
            lambda x, ball=ball: estimate_mean(x, x_pub=PUBLIC[:1], **ball),
        )
    yield (
        "public covariance",
        lambda x: estimate_mean(x, x_pub=PUBLIC, covariance="public", **common),
    )
    gap = {**common, "clipping": "gaussian", "pub_priv_gap": 0.1, "mode": "theory"}
    yield "gap", lambda x: estimate_mean(x, x_pub=PUBLIC, **gap)
    for steps in (1, 2):
        yield (
            f"coinpress_mean {steps}",
            lambda x, s=steps: coinpress_mean(x, center=0, radius=9, steps=s, **common),
        )
    yield "weighted_mean", lambda x: weighted_mean(x, x_pub=PUBLIC, norm_bound=3, **common)
    yield "weighted_mean private", lambda x: weighted_mean(x, norm_bound=3, **common)


CASES = [
    pytest.param(budget, run, id=f"{notion}: {name}")
    for notion, budget in BUDGETS.items()
    for name, run in runs(budget)
]
# Two on the ball of weighted_mean, and beside it.
HOSTILE = hostile_rows([3.0, 0.0, 0.0], [np.nextafter(3.0, 4.0), 0.0, 0.0])


neighbors = partial(random_pairs, sizes=[1, 2, 3, 10, 50], dim=DIM, hostile=HOSTILE)


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.audit)])
@pytest.mark.parametrize(("budget", "run"), CASES)
def test_random_neighbors(budget, run, count):
    for rows, other in neighbors(np.random.default_rng(60), count):
        report = record_replay(run, rows, other, budget=budget)
        assert report.pair_cost <= report.declared_cost


@pytest.mark.parametrize(("budget", "run"), CASES)
def test_hostile_neighbors(budget, run):
    for rows, other in hostile_pairs(
        np.random.default_rng(5).standard_normal((8, DIM)), 3, HOSTILE
    ):
        record_replay(run, rows, other, budget=budget)
        record_replay(run, rows[3:4], other[3:4], budget=budget)  # n = 1


# In the l1 norm a diagonal is the extreme direction, of the data or of the whitened data; in l2 any antipodal pair is.
EXTREME = [np.full(DIM, 1e12), precondition(PUBLIC).factor @ np.full(DIM, 1e12)]


@pytest.mark.parametrize(("budget", "run"), CASES)
def test_antipodal_rows_nearly_reach_the_declared_cost(budget, run):
    tightness = []
    for extreme in EXTREME:
        report = record_replay(
            run, *pair_at(np.zeros((40, DIM)), 0, extreme, -extreme), budget=budget
        )
        assert report.declared_cost <= report.allowance
        assert report.declared_cost >= report.allowance * Fraction(99, 100)
        tightness.append(report.tightness)
    assert 0.95 <= max(tightness) <= 1.0


@pytest.mark.parametrize("pure", [False, True])
def test_second_moment_and_counts(pure):
    budget = PureDP(1) if pure else ZCDP(0.5)
    share = Fraction(1, 2) if pure else Fraction(1, 4)

    def run(x):
        account = opened(budget, draws=30)
        rows = private_rows(x)
        affine = AffineMap(dim=DIM)
        gram = release_second_moment(
            account, rows, affine, name="gram", radius=1.0, cost=share, executor=EXECUTOR
        )
        edges = np.array([0.5, 2.0])
        counts = release_shell_counts(
            account, rows, affine, name="counts", edges=edges, cost=share, executor=EXECUTOR
        )
        return [gram.value, counts.value]

    for rows, other in neighbors(np.random.default_rng(62), 60):
        record_replay(run, rows, other, budget=budget)
    orthogonal = np.zeros((5, DIM))
    turned = np.zeros((5, DIM))
    orthogonal[0, 0] = 1e9  # also from the outermost shell to the innermost
    turned[0, 1] = 1e-3
    assert record_replay(run, orthogonal, turned, budget=budget).tightness > 0.5
    turned[0] = [0.0, 1e9, 0.0]
    report = record_replay(run, orthogonal, turned, budget=budget)
    if not pure:  # 2 Q^4 is reached by orthogonal rows; the count does not move
        assert report.pair_cost / share > 0.95


BUG_BUDGET = ZCDP(0.5)
ROWS = np.random.default_rng(3).standard_normal((20, DIM))
OTHER = pair_at(ROWS, 4, [50.0, -3.0, 1.0])[1]


def noisy_sum(x, radius=3.0, account=None, cost=BUG_BUDGET.rho):
    account = account or opened(BUG_BUDGET, draws=100)
    return release_vector_sum(
        account,
        private_rows(x),
        AffineMap(dim=DIM),
        name="sum",
        radius=radius,
        cost=cost,
        executor=EXECUTOR,
    ).value


def honest(x):
    return noisy_sum(x) / len(x)


def branches_on_raw_data(x):
    account = opened(BUG_BUDGET, draws=100)
    half = BUG_BUDGET.rho / 2
    if np.abs(x).max() > 10:
        return noisy_sum(x, 3.0, account, half) + noisy_sum(x, 3.0, account, half)
    return noisy_sum(x, 3.0, account)


def with_sensitivity(factor):
    """The sum of rows clipped to Q steps, which moves by 2 Q, billed as if it moved by `factor` Q."""

    def run(x):
        grid = gaussian_sum_grid(BUG_BUDGET.rho, DIM, len(x))
        event = GaussianEvent(int(factor**2 * grid.quant_bound**2), grid.log2_scale, DIM)

        def query():
            steps = np.nan_to_num(x, posinf=0.0, neginf=0.0) / grid.step(3.0)
            norm = np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-300)
            return (
                np.rint(steps * np.minimum(1.0, grid.clip_steps / norm))
                .astype(np.int64)
                .sum(axis=0)
            )

        account = opened(ZCDP(event.rho), draws=100)
        return release(
            account, name="sum", query=query, shape=(DIM,), event=event, unit=grid.step(3.0)
        ) / len(x)

    return run


ANTIPODAL = pair_at(np.zeros((6, DIM)), (0, 0), 9.0, -9.0)


def test_honest_control_passes():
    record_replay(honest, ROWS, OTHER, budget=BUG_BUDGET)
    record_replay(with_sensitivity(2), *ANTIPODAL, budget=BUG_BUDGET)


@pytest.mark.parametrize(("bug", "pair", "message"), [
    (lambda x: noisy_sum(x, float(np.abs(x).max())) / len(x), (ROWS, OTHER), "unit depends on private rows"),
    (lambda x: [honest(x), honest(x)], (ROWS, OTHER), "exceed the budget"),
    (branches_on_raw_data, (ROWS, OTHER), "releases on one|depends on private|no counterpart"),
    (branches_on_raw_data, (OTHER, ROWS), "releases on one|depends on private|no counterpart"),
    (lambda x: [honest(x), float(np.abs(x).max())], (ROWS, OTHER), "leaked past release"),
    (lambda x: noisy_sum(x) / np.isfinite(x).all(axis=1).sum(), pair_at(ROWS, 2, np.nan), "leaked past release"),
    (lambda x: honest(x - x.mean(axis=0)), pair_at(np.zeros((20, DIM)), (0, 0), 1e3), "sensitivity allows"),
    (with_sensitivity(1), ANTIPODAL, "sensitivity allows"),
    (with_sensitivity(2 / np.sqrt(2)), ANTIPODAL, "sensitivity allows"),
])  # fmt: skip
def test_planted_bugs_are_caught(bug, pair, message):
    raises(ReplayError, message, record_replay, bug, *pair, budget=BUG_BUDGET)


@pytest.mark.parametrize("budget", [ApproxDP(1, 1e-6), PureDP(1)])
def test_spending_twice_is_caught_under_every_notion(budget):
    def once(x):
        return coinpress_mean(x, budget=budget, center=0, radius=9, steps=1).mean

    record_replay(once, ROWS, OTHER, budget=budget)
    raises(
        ReplayError,
        "exceed the budget",
        record_replay,
        lambda x: [once(x), once(x)],
        ROWS,
        OTHER,
        budget=budget,
    )


def test_replay_needs_neither_fresh_arrays_nor_equal_noise():
    def in_place(x):
        value = noisy_sum(x)
        value /= len(x)
        return value

    record_replay(in_place, ROWS, OTHER, budget=BUG_BUDGET)
    report = record_replay(
        lambda x: seeded(coinpress_mean, x, budget=BUG_BUDGET, center=0, radius=9).mean,
        ROWS,
        OTHER,
        budget=BUG_BUDGET,
    )
    assert report.calls == 2
    assert 0 < report.pair_cost < report.declared_cost <= report.allowance
    with pytest.warns(SeededNoiseWarning):
        coinpress_mean(ROWS, budget=BUG_BUDGET, center=0, radius=9, random_state=1)


# ---- Record and replay of the mean of real columns, and planted bugs in each of its three releases ------------------
OPTIONS = {
    "one public row": {"x_pub": PUBLIC[:1]},
    "many public rows": {"x_pub": PUBLIC},
    "neutral": {"x_pub": PUBLIC, "missing": "neutral"},
    "bounds": {"x_pub": PUBLIC, "bounds": (-20.0, 30.0)},
}
BIG = np.random.default_rng(1).standard_normal((3000, DIM))
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)


def run_of(budget, **options):
    return lambda x: estimate_mean(
        x, **{"x_pub": PUBLIC, **options}, budget=budget, threads=1, progress=False, random_state=3
    )


def pairs_of(rng, count):
    """Small neighbors of every kind, and large ones where all three releases are made."""
    yield from neighbors(rng, count)
    for _ in range(count // 4):
        yield pair_at(
            BIG + rng.normal(size=DIM), rng.integers(len(BIG)), HOSTILE[rng.integers(len(HOSTILE))]
        )


@every_budget
@pytest.mark.parametrize("count", [24, pytest.param(1000, marks=pytest.mark.audit)])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_random_neighbors_of_columns(budget, options, count):
    calls = set()
    for rows, other in pairs_of(np.random.default_rng(60), count):
        report = record_replay(run_of(budget, **options), rows, other, budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance
        calls.add(report.calls)
    assert 3 in calls


def columns_of_many(budget, seen=None):
    """Six columns, where intervals reach as far as they may at no price; `seen` is told the rows."""
    public = np.random.default_rng(62).normal(size=(5, 6))

    def run(x):
        if seen is not None:
            seen.append(x)
        return estimate_mean(
            x, x_pub=public, budget=budget, threads=1, progress=False, random_state=3
        )

    return run, np.random.default_rng(63).normal(size=(3000, 6))


@every_budget
def test_many_columns(budget):
    run, rows = columns_of_many(budget)
    for value in (1e300, -np.inf, np.nan, 0.0, 7.0):
        report = record_replay(run, *pair_at(rows, 11, value), budget=budget)
        assert report.calls == 3
        assert report.pair_cost <= report.declared_cost <= report.allowance


def test_an_interval_of_many_columns_that_looks_at_private_rows_is_caught():
    seen = []
    run, rows = columns_of_many(BUDGETS["zcdp"], seen)

    def peeking(line, box, points, inside, dim):
        rows_max = 1.0 + np.abs(seen[-1]).max()
        return line.box(rows_max * box.lower, rows_max * box.upper)

    with (
        mock.patch.object(columns, "_freely_extended", peeking),
        pytest.raises(ReplayError, match="sensitivity allows"),
    ):
        record_replay(run, *pair_at(rows, 11, 7.0), budget=BUDGETS["zcdp"])


@every_budget
def test_hostile_and_antipodal_neighbors_of_columns(budget):
    for rows, other in hostile_pairs(BIG, 3, HOSTILE):
        record_replay(run_of(budget), rows, other, budget=budget, pieces=701)
        record_replay(run_of(budget), rows[3:4], other[3:4], budget=budget)  # n = 1
    # Antipodal rows nearly reach the declared cost of columns.
    report = record_replay(run_of(budget), *pair_at(BIG, 0, 1e12, -1e12), budget=budget)
    assert report.declared_cost >= report.allowance * 99 / 100
    # both are in the outermost shell, whose count does not move
    assert 0.85 <= report.tightness <= 1.0


FAR_AWAY = pair_at(BIG, 7, [50.0, -3.0, 1.0])


def replay(pair=FAR_AWAY):
    return record_replay(run_of(BUDGETS["zcdp"]), *pair, budget=BUDGETS["zcdp"])


def centered(chunk, center, log2_parts, neutral, counts):
    """A cell of the distance from the mean of the chunk."""
    kernels.columns_count(chunk - chunk.mean(axis=0), center, log2_parts, neutral, counts)


def twice(chunk, center, log2_parts, neutral, counts):
    """The rows at even places are counted in two cells."""
    kernels.columns_count(chunk, center, log2_parts, neutral, counts)
    kernels.columns_count(2.0 * chunk[:8], center, log2_parts, neutral, counts)


@pytest.mark.parametrize("bug", [centered, twice])
def test_a_cell_that_sees_more_than_one_number_is_caught(bug):
    assert replay().calls == 3
    with (
        mock.patch.object(cells, "columns_count", bug),
        pytest.raises(ReplayError, match="sensitivity allows"),
    ):
        replay()


def test_a_cost_that_was_forgotten_is_caught():
    def forgetful(*args, **options):
        found = budget_split.divide(*args, **options)
        return replace(found, total=found.total + found.shells)

    with (
        mock.patch.object(column_means, "divide", forgetful),
        pytest.raises(BudgetError, match="exceed"),
    ):
        replay()


def test_a_radius_from_private_rows_is_caught():
    def peeking(run, columns, box, known):
        radius, bias = honest(run, columns, box, known)
        return radius + 1e-9 * float(np.abs(next(iter(run.rows.chunks()))).max()), bias

    honest = column_means.ball_of
    with (
        mock.patch.object(column_means, "ball_of", peeking),
        pytest.raises(ReplayError, match="depends on private rows"),
    ):
        replay()


def test_a_number_that_was_not_released_is_caught():
    honest = column_means.sum_up

    def leaking(run, *args, **options):
        result = honest(run, *args, **options)
        missing = float(np.isnan(np.concatenate(list(run.rows.chunks()))).sum())
        object.__setattr__(result.report, "missing", np.array([missing] * DIM))
        return result

    with (
        mock.patch.object(column_means, "sum_up", leaking),
        pytest.raises(ReplayError, match="leaked past release"),
    ):
        replay(pair_at(BIG, 7, np.nan))


@contextmanager
def boxes_by(function):
    """Rows go through another function than their box, before they are added up and counted."""

    def planted(kernel):
        return mock.Mock(
            side_effect=lambda chunk, *given, box, **edges: kernel(
                function(chunk, box), *given, **edges
            )
        )

    added = planted(kernels.rows_sum)
    counted = planted(kernels.rows_shell_counts)
    with mock.patch.multiple(sums.kernels, rows_sum=added, rows_shell_counts=counted):
        yield added, counted


def test_the_guarantee_does_not_rest_on_the_box():
    """A box that clips nothing, and one that turns rows over: shells and sum stay within their bounds."""

    def open_box(chunk, box):
        return (chunk - box.center - box.middle) / box.width

    def wild_box(chunk, box):
        with np.errstate(all="ignore"):
            return 1.0 / (open_box(chunk, box) + 1e-300)

    for fault in (open_box, wild_box):
        with boxes_by(fault) as planted:
            for pair in pairs_of(np.random.default_rng(62), 8):
                replay(pair)
        assert all(each.called for each in planted)


def test_a_box_of_the_neighbors_is_caught():
    def faulty(chunk, box):
        return kernels.columns_box(chunk - chunk.mean(axis=0), box)

    with boxes_by(faulty), pytest.raises(ReplayError, match="sensitivity allows"):
        replay(pair_at(BIG, 0, 1e6))
