"""Record and replay of the mean of real columns, and planted bugs in each of its three releases."""

from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from test_record_replay import BUDGETS, DIM, HOSTILE, PUBLIC, neighbours

from fastpubpriv import BudgetError, ReplayError, estimate_mean
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators.columns import clips, learn, shares
from fastpubpriv.kernels import columns as kernels
from fastpubpriv.kernels import rows as row_kernels
from fastpubpriv.mechanisms import cells, sums

pytestmark = [
    pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
]

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
    """Small neighbours of every kind, and large ones where all three releases are made."""
    yield from neighbours(rng, count)
    for _ in range(count // 4):
        rows = BIG + rng.normal(size=DIM)
        other = rows.copy()
        other[rng.integers(len(rows))] = HOSTILE[rng.integers(len(HOSTILE))]
        yield rows, other


@every_budget
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_random_neighbours(budget, options):
    calls = set()
    for rows, other in pairs_of(np.random.default_rng(60), 24):
        report = record_replay(run_of(budget, **options), rows, other, budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance
        calls.add(report.calls)
    assert 3 in calls


@pytest.mark.audit
@every_budget
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_many_random_neighbours(budget, options):
    for rows, other in pairs_of(np.random.default_rng(61), 1000):
        record_replay(run_of(budget, **options), rows, other, budget=budget)


def columns_of_many(budget, seen=None):
    """Six columns, where intervals reach as far as they may at no price; `seen` is told the rows."""
    public = np.random.default_rng(62).normal(size=(5, 6))

    def run(x):
        if seen is not None:
            seen.append(x)
        return estimate_mean(x, x_pub=public, budget=budget, threads=1, progress=False, random_state=3)

    return run, np.random.default_rng(63).normal(size=(3000, 6))


@every_budget
def test_many_columns(budget):
    run, rows = columns_of_many(budget)
    for value in (1e300, -np.inf, np.nan, 0.0, 7.0):
        other = rows.copy()
        other[11] = value
        report = record_replay(run, rows, other, budget=budget)
        assert report.calls == 3
        assert report.pair_cost <= report.declared_cost <= report.allowance


def test_an_interval_of_many_columns_that_looks_at_private_rows_is_caught():
    seen = []
    run, rows = columns_of_many(BUDGETS["zcdp"], seen)
    other = rows.copy()
    other[11] = 7.0

    def peeking(*args):
        return tuple(reach * (1.0 + np.abs(seen[-1]).max()) for reach in honest(*args))

    honest = clips.free_reach
    with mock.patch.object(clips, "free_reach", peeking), pytest.raises(ReplayError, match="sensitivity allows"):
        record_replay(run, rows, other, budget=BUDGETS["zcdp"])


@every_budget
def test_hostile_neighbours(budget):
    for one in range(len(HOSTILE)):
        rows, other = BIG.copy(), BIG.copy()
        rows[3], other[3] = HOSTILE[one], HOSTILE[(one * 7 + 3) % len(HOSTILE)]
        record_replay(run_of(budget), rows, other, budget=budget, pieces=701)
        record_replay(run_of(budget), HOSTILE[one][None, :], HOSTILE[one - 1][None, :], budget=budget)  # n = 1


@every_budget
def test_antipodal_rows_nearly_reach_the_declared_cost(budget):
    rows, other = BIG.copy(), BIG.copy()
    rows[0], other[0] = 1e12, -1e12
    report = record_replay(run_of(budget), rows, other, budget=budget)
    assert report.declared_cost >= report.allowance * 99 / 100
    assert 0.85 <= report.tightness <= 1.0  # both are in the outermost shell, whose count does not move


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def far_away():
    other = BIG.copy()
    other[7] = [50.0, -3.0, 1.0]
    return BIG, other


def replay(pair=None, options=None):
    budget = BUDGETS["zcdp"]
    return record_replay(run_of(budget, **(options or {})), *(pair or far_away()), budget=budget)


def centred(chunk, center, log2_parts, neutral, counts):
    """A cell of the distance from the mean of the chunk."""
    kernels.columns_count(chunk - chunk.mean(axis=0), center, log2_parts, neutral, counts)


def twice(chunk, center, log2_parts, neutral, counts):
    """The rows at even places are counted in two cells."""
    kernels.columns_count(chunk, center, log2_parts, neutral, counts)
    kernels.columns_count(2.0 * chunk[:8], center, log2_parts, neutral, counts)


def test_honest_control_passes():
    assert replay().calls == 3


@pytest.mark.parametrize("bug", [centred, twice])
def test_a_cell_that_sees_more_than_one_number_is_caught(bug):
    with mock.patch.object(cells, "columns_count", bug), pytest.raises(ReplayError, match="sensitivity allows"):
        replay()


def test_a_cost_that_was_forgotten_is_caught():
    def forgetful(*args, **options):
        found = shares.divide(*args, **options)
        return replace(found, total=found.total + found.shells)

    with mock.patch.object(learn, "divide", forgetful), pytest.raises(BudgetError, match="exceed"):
        replay()


def test_a_radius_from_private_rows_is_caught():
    def peeking(run, columns, box, known):
        found = honest(run, columns, box, known)
        return replace(found, radius=found.radius + 1e-9 * float(np.abs(next(iter(run.rows.chunks()))).max()))

    honest = learn.ball_of
    with mock.patch.object(learn, "ball_of", peeking), pytest.raises(ReplayError, match="depends on private rows"):
        replay()


def test_a_number_that_was_not_released_is_caught():
    def leaking(name, result):
        object.__setattr__(result.report, "missing", np.array([float(np.isnan(latest[0]).sum())] * DIM))

    latest = []
    honest = learn.learn

    def noting(run, *args, **options):
        latest[:] = [np.concatenate(list(run.rows.chunks()))]
        return honest(run, *args, **options)

    other = BIG.copy()
    other[7] = np.nan
    with (
        mock.patch.object(learn, "warn_about", leaking),
        mock.patch.object(learn, "learn", noting),
        pytest.raises(ReplayError, match="leaked past release"),
    ):
        replay((BIG, other))


@contextmanager
def boxes_by(function):
    """Rows go through another function than their box, before they are added up and counted."""
    added = mock.Mock(side_effect=lambda chunk, box, *given: row_kernels.rows_sum(function(chunk, box), *given))
    counted = mock.Mock(
        side_effect=lambda chunk, box, *given: row_kernels.rows_shell_counts(function(chunk, box), *given)
    )
    with mock.patch.multiple(sums.boxes, boxed_sum=added, boxed_shell_counts=counted):
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


def test_a_box_of_the_neighbours_is_caught():
    def faulty(chunk, box):
        return kernels.columns_box(chunk - chunk.mean(axis=0), box)

    pair = BIG.copy(), BIG.copy()
    pair[1][0] = 1e6
    with boxes_by(faulty), pytest.raises(ReplayError, match="sensitivity allows"):
        replay(pair)
