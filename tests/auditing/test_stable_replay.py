"""Record/replay of histograms and list decoders on hostile neighbors, with planted faults."""

import dataclasses
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers.accounts import opened
from helpers.errors import raises
from helpers.hypotheses import random_arrays
from helpers.neighbors import pair_at, replaced
from releases import release_agreement, release_choice_of, release_statistic_sum, release_vector_sum

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BinGrid,
    DyadicBins,
    ProductBins,
    PureDP,
    select_hypothesis,
    stable_histogram,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.kernels import bins as kernel
from fastpubpriv.mechanisms import scores as log_ratio
from fastpubpriv.mechanisms import stable_histograms as stable
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.mechanisms.selection import prepare
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.mixtures import select as public
from fastpubpriv.mixtures.list_decoding import decoders
from fastpubpriv.privacy import SelectionEvent, spending
from fastpubpriv.privacy.calibrated_budget import gaussian_rho
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.privacy.spending import GaussianSpending
from fastpubpriv.release.account import Account
from fastpubpriv.release.transcript import CallRecord
from fastpubpriv.sources import Executor, private_rows, views
from fastpubpriv.sources.row_types import OPENERS

BUDGET = ApproxDP(1, 1e-6)
COMMON = {"budget": BUDGET, "threads": 1, "progress": False}
ROWS = np.random.default_rng(0).normal([5.0, -3.0], [1.0, 4.0], size=(1200, 2))
HOSTILE = [
    [np.nan, 0.0],
    [np.inf, -np.inf],
    [1e308, -1e308],
    [5e-324, -0.0],
    [0.0, 0.0],
    [5.0, -3.0],
    [2.0**53, 2.0**54],
    [1e6, 1e-6],
    [0.5, 1.5],
]
RUNS = {
    "widths": lambda x: stable_histogram(x, bins=BinGrid(width=0.5, levels=4), **COMMON),
    "dyadic": lambda x: stable_histogram(x, bins=DyadicBins(), **COMMON),
    "product": lambda x: stable_histogram(
        x, bins=ProductBins(grids=[BinGrid(width=1.0), DyadicBins()]), **COMMON
    ),
    "laplace": lambda x: stable_histogram(
        x, bins=[BinGrid(width=1.0), None], noise="laplace", **COMMON
    ),
    "variances": lambda x: decoders.decode_variances(x, min_weight=0.9, **COMMON),
    "means": lambda x: decoders.decode_means(x, std=2.0, min_weight=0.9, **COMMON),
    "axis": lambda x: decoders.decode_axis_aligned(x, min_weight=0.9, **COMMON),
    "known": lambda x: decoders.decode_axis_aligned(
        x, covariance=[[1.0, 0.5], [0.5, 16.0]], min_weight=0.9, **COMMON
    ),
    "gaussians": lambda x: decoders.decode_gaussians(
        np.ascontiguousarray(x[:, 0]), min_weight=0.9, **COMMON
    ),
    "paper": lambda x: decoders.decode_gaussians(
        x[:, :1], accounting="paper", min_weight=0.9, **COMMON
    ),
}


def caught(words, run, rows, other, *, budget=BUDGET, **options):
    """Record and replay rejects a run with these words."""
    raises(ReplayError, words, record_replay, run, rows, other, budget=budget, **options)


def neighbor(index, row):
    return pair_at(ROWS, index, row)[1]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("row", HOSTILE, ids=str)
def test_hostile_neighbors(name, row):
    for index in (0, 600, 1199):
        report = record_replay(RUNS[name], ROWS, neighbor(index, row), budget=BUDGET)
        assert report.pair_cost <= report.declared_cost <= report.allowance


def test_a_moved_row_takes_the_whole_cost():
    report = record_replay(RUNS["laplace"], ROWS, neighbor(3, [100.0, 0.0]), budget=BUDGET)
    assert report.tightness == 1.0
    assert report.declared_cost == BUDGET.epsilon
    # An odd last row of a half is in no pair.
    assert (
        record_replay(
            RUNS["variances"], ROWS[:1199], neighbor(1198, [9.0, 9.0])[:1199], budget=BUDGET
        ).pair_cost
        == 0
    )
    # Both halves may spend everything.
    for index in (1, 1199):
        report = record_replay(RUNS["axis"], ROWS, neighbor(index, [50.0, 50.0]), budget=BUDGET)
        assert report.calls == 2
        assert report.tightness == 1.0


def test_catches_bins_that_depend_on_the_data(monkeypatch):
    original = kernel.BinTable.count

    def shifted(self, column, rule):
        original(self, column - column.mean(), rule)

    monkeypatch.setattr(kernel.BinTable, "count", shifted)
    caught("moved by more than one row", RUNS["widths"], ROWS, neighbor(3, [1e4, 1e4]))


def test_catches_a_row_that_counts_twice(monkeypatch):
    original = kernel.BinTable.count

    def twice(self, column, rule):
        original(self, column, rule)
        original(self, column, rule)

    monkeypatch.setattr(kernel.BinTable, "count", twice)
    caught("moved by more than one row", RUNS["dyadic"], ROWS, neighbor(3, [1e4, 1e4]))


def test_catches_suppressed_bins_in_the_result(monkeypatch):
    original = stable.StableHistograms.release

    def leaky(self, account, rows, executor, **options):
        released = original(self, account, rows, executor, **options)
        occupied = sum(len(keys) for keys, _ in stable.count_bins(rows, self.partitions, executor))
        return dataclasses.replace(released, threshold=released.threshold + 1e-9 * occupied)

    monkeypatch.setattr(stable.StableHistograms, "release", leaky)
    caught("leaked past release", RUNS["widths"], ROWS, neighbor(3, [1e4, 1e4]))


def test_catches_blocks_that_overlap(monkeypatch):
    monkeypatch.setattr(decoders, "split_rows", lambda rows, *shares: (rows, rows))
    caught("disjoint", RUNS["axis"], ROWS, neighbor(3, [50.0, 50.0]))


def test_catches_blocks_that_follow_the_values(monkeypatch):
    class Sorted(views.Slice):
        def block(self, begin, end):
            whole = self._rows.block(0, self._rows.n)
            order = np.argsort(whole[:, 0])[self._begin + begin : self._begin + end]
            return np.ascontiguousarray(whole[order])

    monkeypatch.setitem(OPENERS, "slice", Sorted)
    # The smallest row becomes the largest: it changes halves, and so does the row in the middle.
    caught(None, RUNS["axis"], ROWS, neighbor(int(np.argmin(ROWS[:, 0])), [50.0, 50.0]))


def test_catches_pairs_that_follow_the_values(monkeypatch):
    original = views.Pairs.derived
    monkeypatch.setattr(
        views.Pairs,
        "derived",
        lambda *given: original(*given[:-1], given[-1][np.argsort(given[-1][:, 0])]),
    )
    rows = ROWS.copy()
    rows[:, 0] = np.arange(1200)
    rows[:, 1] = np.where(np.arange(1200) // 2 % 2, 1.0, 1e3) * np.arange(1200) ** 2
    caught("moved by more than one row", RUNS["variances"], *pair_at(rows, (0, 0), 1e12))


def test_catches_scales_taken_from_the_data(monkeypatch):
    original = decoders.release_means

    def adaptive(run, scales, thresholds, **options):
        largest = max(float(np.abs(chunk).max()) for chunk in run.rows.chunks())
        return original(run, [[*column, largest] for column in scales], thresholds, **options)

    monkeypatch.setattr(decoders, "release_means", adaptive)
    caught(None, RUNS["axis"], ROWS, neighbor(1199, [50.0, 5e4]))


def test_catches_an_event_that_is_too_cheap(monkeypatch):
    monkeypatch.setattr(
        "fastpubpriv.privacy.calibration.StableHistogramEvent.delta", property(lambda self: 0)
    )

    def cheap(*args, **kw):
        event = stable_event(*args, **kw)
        return dataclasses.replace(event, threshold=event.step + 1)

    monkeypatch.setattr(stable, "stable_event", cheap)
    run = RUNS["laplace"]
    # the account believes the event ...
    record_replay(run, ROWS, neighbor(3, [100.0, 0.0]), budget=BUDGET)
    monkeypatch.undo()
    monkeypatch.setattr(stable, "stable_event", cheap)
    # ... which is why the event computes its delta itself
    with pytest.raises(Exception, match="exceed the budget"):
        record_replay(run, ROWS, neighbor(3, [100.0, 0.0]), budget=BUDGET)


# ---- Record and replay of hypothesis selection: scores promise what they cost, and nothing passes them by.
# The comparison is exact (integers and fractions): there are no false alarms.
BUDGETS = {"pure": PureDP(1), "zcdp": ZCDP(0.125)}
HOSTILE_OF_HYPOTHESIS = [np.nan, np.inf, -np.inf, 1e308, -1.7976931348623157e308, 5e-324, -0.0, 1e9]
COMMON_OF_HYPOTHESIS = {"threads": 1, "progress": False}


def runner(budget, dim, **options):
    listed = random_arrays(np.random.default_rng(dim), 20, 2, dim)
    return lambda x: select_hypothesis(
        x, hypotheses=listed, budget=budget, draws=64, **COMMON_OF_HYPOTHESIS, **options
    )


CASES = [
    pytest.param(
        budget,
        dim,
        {"method": method, "law": mechanism},
        id=f"{notion}: {method}, {mechanism}, {dim}",
    )
    for notion, budget in BUDGETS.items()
    for method, dim in (("exact", 1), ("cells", 1), ("densities", 1), ("densities", 3))
    for mechanism in ("exponential", "permute_and_flip")
] + [
    pytest.param(
        budget, dim, {"score": score, "method": method}, id=f"{notion}: {score}, {method}, {dim}"
    )
    for notion, budget in BUDGETS.items()
    for score, method, dim in (
        ("yatracos", "exact", 1),
        ("yatracos", "cells", 1),
        ("yatracos", "densities", 3),
        ("log_ratio", "densities", 1),
        ("log_ratio", "densities", 3),
    )
]


def neighbors(rng, dim, count):
    for _ in range(count):
        n = int(rng.choice([1, 2, 10, 51]))
        rows = rng.standard_normal((n, dim)) * 10.0 ** rng.choice([-300, 0, 0, 1, 6, 300])
        if rng.random() < 0.3:
            rows[rng.integers(n), rng.integers(dim)] = HOSTILE_OF_HYPOTHESIS[
                rng.integers(len(HOSTILE_OF_HYPOTHESIS))
            ]
        yield rows, replaced(rng, rows, HOSTILE_OF_HYPOTHESIS)


@pytest.mark.parametrize(("budget", "dim", "options"), CASES)
def test_replay_passes(budget, dim, options):
    run = runner(budget, dim, **options)
    moved = 0
    for rows, other in neighbors(np.random.default_rng(5), dim, 25):
        report = record_replay(run, rows, other, budget=budget)
        assert report.calls == 1
        assert report.pair_cost <= report.declared_cost <= report.allowance
        assert report.declared_cost >= Fraction(999_999, 1_000_000) * report.allowance
        moved += report.pair_cost > 0
    assert moved > 3


def test_a_pair_reaches_the_whole_cost():
    """A row that leaves the set of one hypothesis for that of another moves scores both ways."""
    arrays = (np.ones((2, 1)), np.array([[[-3.0]], [[3.0]]]), np.ones((2, 1, 1)))
    rows = np.full((10, 1), -3.0)
    other = np.full((10, 1), -3.0)
    rows[5:] = 3.0
    other[6:] = 3.0
    for method in ("exact", "cells", "densities"):
        given = {"hypotheses": arrays, "budget": PureDP(1), "method": method, "law": "exponential"}
        run = partial(select_hypothesis, **given, **COMMON_OF_HYPOTHESIS)
        report = record_replay(run, rows, other, budget=PureDP(1))
        assert report.pair_cost == report.declared_cost > 0


def hostile_pair(dim=1):
    return pair_at(np.random.default_rng(3).standard_normal((10, dim)), 4, 50.0)


# Planted bugs: each must be caught.
def test_catches_log_ratios_that_are_not_clipped(monkeypatch):
    """A row that one hypothesis finds impossible then counts for more than the clip."""
    original = log_ratio.LogRatios.prepare.__func__

    def unclipped(cls, hypotheses, *, clip):
        made = original(cls, hypotheses, clip=clip)
        return cls(made.table, made.size, made.unit // 4)

    monkeypatch.setattr(log_ratio, "STEPS", 16)
    monkeypatch.setattr(log_ratio.LogRatios, "prepare", classmethod(unclipped))
    caught(
        "sensitivity", runner(PureDP(1), 3, score="log_ratio"), *hostile_pair(3), budget=PureDP(1)
    )


def test_catches_rows_that_are_counted_twice(monkeypatch):
    original = CellQuery.answer
    monkeypatch.setattr(CellQuery, "answer", lambda self, found: 2 * original(self, found))
    caught("moved by 2", runner(PureDP(1), 1, method="cells"), *hostile_pair(), budget=PureDP(1))


def test_catches_cells_that_follow_the_rows(monkeypatch):
    original = Executor.run

    def shifted(self, query, rows):
        largest = max(float(np.nanmax(chunk)) for chunk in rows.chunks())
        return original(self, CellQuery.of(query.edges[0] + largest), rows)

    monkeypatch.setattr(Executor, "run", shifted)
    caught("sensitivity", runner(PureDP(1), 1, method="cells"), *hostile_pair(), budget=PureDP(1))


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
    caught("sensitivity", runner(PureDP(1), 3), *hostile_pair(3), budget=PureDP(1))


def test_catches_a_score_in_the_result(monkeypatch):
    original = public.HypothesisChoice.release
    leaked = []

    def leaky(self, account, rows, executor, **options):
        leaked.append(int(self.evaluation.scores(rows, executor).sum()))
        return original(self, account, rows, executor, **options)

    monkeypatch.setattr(public.HypothesisChoice, "release", leaky)
    result = public._result
    monkeypatch.setattr(
        public, "_result", lambda *arguments, **named: [result(*arguments, **named), leaked[-1]]
    )
    caught("leaked past release", runner(PureDP(1), 1), *hostile_pair(), budget=PureDP(1))


def test_catches_permute_and_flip_at_the_price_of_the_exponential_mechanism(monkeypatch):
    """Planted: epsilon^2 / 8 is for mechanisms of bounded range only."""
    monkeypatch.setattr(GaussianSpending, "choice_epsilon", lambda spending, law: Fraction(1))
    raises(
        BudgetError,
        "exceed the budget",
        runner(ZCDP(0.125), 1, law="permute_and_flip"),
        hostile_pair()[0],
    )


# ---- Learners with planted faults that record and replay must reject, beside the honest learner that it lets pass.
DIM = 2
GROUPS = 12
ASIDE = ApproxDP(Fraction(1, 8), BUDGET.delta / 8)
EXECUTOR = Executor(threads=1, progress=False)
ROWS_OF_CONTROLS = np.random.default_rng(3).standard_normal((240, DIM))
OTHER = pair_at(ROWS_OF_CONTROLS, 4, [0.5, -0.25])[1]


def checked_mean(x):
    """A test whether groups of rows agree, paid from a part kept aside, then a mean with all that is left."""
    rows = private_rows(x)
    base = AffineMap(dim=DIM)
    account = opened(BUDGET, draws=1 + DIM, reserved=ASIDE)
    release_agreement(
        account,
        rows,
        base,
        GROUPS,
        name="agreement",
        cost=(ASIDE.epsilon, ASIDE.delta),
        executor=EXECUTOR,
    )
    return rest_for_a_mean(account, rows)


def rest_for_a_mean(account, rows):
    given = {"radius": 3.0, "cost": account.allowance, "executor": EXECUTOR}
    return release_vector_sum(account, rows, AffineMap(dim=DIM), name="sum", **given).value


LISTED = Hypotheses.from_arrays(
    np.ones((3, 1)), np.array([[[-1.0, 0.0]], [[0.0, 0.0]], [[1.0, 0.0]]]), np.ones((3, 1, DIM))
)


def chosen_then_mean(x, choices=1):
    """Choices among three Gaussians, paid from a part kept aside, then a mean with all that is left."""
    rows = private_rows(x)
    account = opened(BUDGET, draws=choices + DIM, reserved=ASIDE)
    evaluation = prepare(LISTED, rows.n, draws=64, threads=1)[1]
    chosen = [
        release_choice_of(
            account,
            rows,
            evaluation,
            size=3,
            law="permute_and_flip",
            name=f"choice {number}",
            cost=ASIDE.epsilon / choices,
            executor=EXECUTOR,
        ).index
        for number in range(choices)
    ]
    return chosen, rest_for_a_mean(account, rows)


def mean_of(statistic, *, draws=DIM):
    """The sum of a statistic of the rows, with all of a budget."""

    def run(x):
        rows = private_rows(x)
        account = opened(BUDGET, draws=draws)
        total = release_statistic_sum(
            account,
            rows,
            statistic,
            name="sum",
            dim=DIM,
            radius=3.0,
            cost=account.allowance,
            row_cost=DIM,
            executor=EXECUTOR,
        )
        return total.value

    return run


def test_the_honest_learner_passes():
    report = record_replay(checked_mean, ROWS_OF_CONTROLS, OTHER, budget=BUDGET, pieces=7)
    assert report.calls == 2
    assert report.epsilon > 0
    assert Fraction(99, 100) * report.allowance <= report.declared_cost <= report.allowance
    record_replay(
        mean_of(lambda chunk: np.array(chunk)), ROWS_OF_CONTROLS, OTHER, budget=BUDGET, pieces=7
    )


@pytest.mark.parametrize("choices", [1, 2])
def test_choices_paid_from_the_part_kept_aside_are_counted(choices):
    report = record_replay(
        lambda x: chosen_then_mean(x, choices), ROWS_OF_CONTROLS, OTHER, budget=BUDGET, pieces=7
    )
    assert report.calls == choices + 1
    # Basic composition: the choices' epsilons, and for the sum a budget that is smaller by just as much.
    assert report.epsilon == ASIDE.epsilon
    rest = ApproxDP(BUDGET.epsilon - ASIDE.epsilon, BUDGET.delta - ASIDE.delta)
    account = Account("", BUDGET, draws=choices + DIM, reserved=ASIDE)
    assert account.allowance <= gaussian_rho(rest, choices + DIM)
    assert Fraction(999, 1000) * account.allowance <= report.declared_cost <= account.allowance
    # The choices state no delta, so replay allows the sum that part too, and not more.
    assert report.allowance == gaussian_rho(BUDGET, choices + DIM, ASIDE.epsilon, Fraction(0))
    account.open()
    for _ in range(choices):
        account.charge(SelectionEvent(epsilon=ASIDE.epsilon / choices, sensitivity=1, candidates=3))
    more = SelectionEvent(epsilon=Fraction(1, 10**9), sensitivity=1, candidates=3)
    raises(BudgetError, "exceeds what was reserved", account.charge, more)


def test_choices_that_come_on_top_of_the_budget_are_rejected(monkeypatch):
    def on_top(budget, draws, *reserved):
        return gaussian_rho(budget, draws)

    monkeypatch.setattr(spending, "gaussian_rho", on_top)
    caught("exceed the budget", chosen_then_mean, ROWS_OF_CONTROLS, OTHER)


def test_a_learner_that_forgets_the_delta_kept_aside_is_rejected(monkeypatch):
    def forgetful(budget, draws, epsilon=0, delta=0):
        return gaussian_rho(ApproxDP(budget.epsilon - epsilon, budget.delta), draws)

    assert forgetful(BUDGET, 3, ASIDE.epsilon, ASIDE.delta) > gaussian_rho(
        BUDGET, 3, ASIDE.epsilon, ASIDE.delta
    )
    monkeypatch.setattr(spending, "gaussian_rho", forgetful)
    caught("exceed the budget", checked_mean, ROWS_OF_CONTROLS, OTHER)


def test_a_learner_that_states_no_delta_is_rejected():
    # The other way to forget it: nothing is kept aside, and the test is paid with a part of epsilon alone.
    less = ApproxDP(Fraction(7, 8), BUDGET.delta)

    def run(x):
        rows = private_rows(x)
        base = AffineMap(dim=DIM)
        side = opened(ASIDE, draws=1)
        cost = side.approx_left[0], ASIDE.delta / 2
        release_agreement(side, rows, base, GROUPS, name="agreement", cost=cost, executor=EXECUTOR)
        account = opened(less, draws=DIM)
        return rest_for_a_mean(account, rows)

    caught("exceed the budget", run, ROWS_OF_CONTROLS, OTHER)


def test_a_learner_that_overdraws_is_rejected(monkeypatch):
    run = mean_of(lambda chunk: np.array(chunk), draws=DIM - 1)
    monkeypatch.setattr(CallRecord, "check", lambda self, event: None)
    caught("2 values of noise were drawn where 1 were declared", run, ROWS_OF_CONTROLS, OTHER)


def test_a_statistic_that_depends_on_its_chunk_is_rejected():
    def scaled(chunk):
        """Rows in units of the largest row of their chunk: whoever has that row decides about all others."""
        return chunk / np.abs(chunk).max()

    # The pair itself shows nothing: neither of its rows is the largest.
    record_replay(mean_of(scaled), ROWS_OF_CONTROLS, OTHER, budget=BUDGET)
    caught("cut into chunks", mean_of(scaled), ROWS_OF_CONTROLS, OTHER, pieces=7)


def test_a_statistic_whose_rounding_depends_on_its_chunk_is_rejected():
    def centered(chunk):
        """The mean of a chunk taken off and put back: equal up to rounding, and rounding decides about a grid step."""
        middle = chunk.mean(axis=0)
        return (chunk - middle) + middle

    ties = np.full((240, DIM), 1e-17)
    ties[::3] = [1.0, 0.5]
    pair = pair_at(ties, 0, [0.5, 0.25])
    caught("cut into chunks", mean_of(lambda chunk: 1e17 * centered(chunk)), *pair, pieces=1)


def test_an_account_that_was_opened_before_the_run_is_rejected():
    account = opened(BUDGET, draws=4 * DIM)
    rows = private_rows(ROWS_OF_CONTROLS)

    def run(x):
        given = {"radius": 3.0, "cost": account.allowance / 8, "executor": EXECUTOR}
        return release_vector_sum(account, rows, AffineMap(dim=DIM), name="sum", **given).value

    caught("opened before the run", run, ROWS_OF_CONTROLS, OTHER)
