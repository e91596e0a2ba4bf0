"""Record/replay of histograms and list decoders on hostile neighbours, with planted faults."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import replaced

from fastpubpriv import ZCDP, ApproxDP, BinGrid, DyadicBins, ProductBins, PureDP, select_hypothesis, stable_histogram
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.kernels import bins as kernel
from fastpubpriv.mechanisms import histograms as stable
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.selection import log_ratio
from fastpubpriv.mixtures import select as public
from fastpubpriv.mixtures.list_decoding import coarse, decoders
from fastpubpriv.mixtures.list_decoding import stages as decoder_stages
from fastpubpriv.sources import Executor
from fastpubpriv.sources.views import pairs, view

BUDGET = ApproxDP(1, 1e-6)
COMMON = {"budget": BUDGET, "threads": 1, "progress": False}
ROWS = np.random.default_rng(0).normal([5.0, -3.0], [1.0, 4.0], size=(1200, 2))
HOSTILE = [
    [np.nan, 0.0], [np.inf, -np.inf], [1e308, -1e308], [5e-324, -0.0], [0.0, 0.0], [5.0, -3.0], [2.0**53, 2.0**54], [1e6, 1e-6],
    [0.5, 1.5],
]  # fmt: skip
RUNS = {
    "widths": lambda x: stable_histogram(x, bins=BinGrid(width=0.5, levels=4), **COMMON),
    "dyadic": lambda x: stable_histogram(x, bins=DyadicBins(), **COMMON),
    "product": lambda x: stable_histogram(x, bins=ProductBins(grids=[BinGrid(width=1.0), DyadicBins()]), **COMMON),
    "laplace": lambda x: stable_histogram(x, bins=[BinGrid(width=1.0), None], noise="laplace", **COMMON),
    "variances": lambda x: coarse.decode_variances(x, min_weight=0.9, **COMMON),
    "means": lambda x: coarse.decode_means(x, std=2.0, min_weight=0.9, **COMMON),
    "axis": lambda x: decoders.decode_axis_aligned(x, min_weight=0.9, **COMMON),
    "known": lambda x: decoders.decode_axis_aligned(x, covariance=[[1.0, 0.5], [0.5, 16.0]], min_weight=0.9, **COMMON),
    "gaussians": lambda x: decoders.decode_gaussians(np.ascontiguousarray(x[:, 0]), min_weight=0.9, **COMMON),
    "paper": lambda x: decoders.decode_gaussians(x[:, :1], accounting="paper", min_weight=0.9, **COMMON),
}


def neighbour(index, row):
    other = ROWS.copy()
    other[index] = row
    return other


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("row", HOSTILE, ids=str)
def test_hostile_neighbours(name, row):
    for index in (0, 600, 1199):
        report = record_replay(RUNS[name], ROWS, neighbour(index, row), budget=BUDGET)
        assert report.pair_cost <= report.declared_cost <= report.allowance


def test_a_moved_row_takes_the_whole_cost():
    report = record_replay(RUNS["laplace"], ROWS, neighbour(3, [100.0, 0.0]), budget=BUDGET)
    assert report.tightness == 1.0
    assert report.declared_cost == BUDGET.epsilon
    # An odd last row of a half is in no pair.
    assert (
        record_replay(RUNS["variances"], ROWS[:1199], neighbour(1198, [9.0, 9.0])[:1199], budget=BUDGET).pair_cost == 0
    )


def test_both_halves_may_spend_everything():
    for index in (1, 1199):
        report = record_replay(RUNS["axis"], ROWS, neighbour(index, [50.0, 50.0]), budget=BUDGET)
        assert report.calls == 2
        assert report.tightness == 1.0


# ---- planted faults
def test_catches_bins_that_depend_on_the_data(monkeypatch):
    original = kernel.BinTable.count

    def shifted(self, column, rule):
        original(self, column - column.mean(), rule)

    monkeypatch.setattr(kernel.BinTable, "count", shifted)
    with pytest.raises(ReplayError, match="moved by more than one row"):
        record_replay(RUNS["widths"], ROWS, neighbour(3, [1e4, 1e4]), budget=BUDGET)


def test_catches_a_row_that_counts_twice(monkeypatch):
    original = kernel.BinTable.count

    def twice(self, column, rule):
        original(self, column, rule)
        original(self, column, rule)

    monkeypatch.setattr(kernel.BinTable, "count", twice)
    with pytest.raises(ReplayError, match="moved by more than one row"):
        record_replay(RUNS["dyadic"], ROWS, neighbour(3, [1e4, 1e4]), budget=BUDGET)


def test_catches_suppressed_bins_in_the_result(monkeypatch):
    original = stable.StableHistograms.release

    def leaky(self, account, rows, executor, **options):
        released = original(self, account, rows, executor, **options)
        occupied = sum(len(keys) for keys, _ in stable.count_bins(rows, self.partitions, executor))
        return dataclasses.replace(released, threshold=released.threshold + 1e-9 * occupied)

    monkeypatch.setattr(stable.StableHistograms, "release", leaky)
    with pytest.raises(ReplayError, match="leaked past release"):
        record_replay(RUNS["widths"], ROWS, neighbour(3, [1e4, 1e4]), budget=BUDGET)


def test_catches_blocks_that_overlap(monkeypatch):
    monkeypatch.setattr(decoders, "split_rows", lambda rows, *shares: (rows, rows))
    raises(ReplayError, "disjoint", record_replay, RUNS["axis"], ROWS, neighbour(3, [50.0, 50.0]), budget=BUDGET)


def test_catches_blocks_that_follow_the_values(monkeypatch):
    class Sorted(view.Slice):
        def block(self, begin, end):
            whole = self._rows.block(0, self._rows.n)
            order = np.argsort(whole[:, 0])[self._begin + begin : self._begin + end]
            return np.ascontiguousarray(whole[order])

    monkeypatch.setattr(view, "Slice", Sorted)
    # The smallest row becomes the largest: it changes halves, and so does the row in the middle.
    with pytest.raises(ReplayError):
        record_replay(RUNS["axis"], ROWS, neighbour(int(np.argmin(ROWS[:, 0])), [50.0, 50.0]), budget=BUDGET)


def test_catches_pairs_that_follow_the_values(monkeypatch):
    original = pairs.differences
    monkeypatch.setattr(pairs, "differences", lambda rows: original(rows[np.argsort(rows[:, 0])]))
    rows = ROWS.copy()
    rows[:, 0] = np.arange(1200)
    rows[:, 1] = np.where(np.arange(1200) // 2 % 2, 1.0, 1e3) * np.arange(1200) ** 2
    other = rows.copy()
    other[0, 0] = 1e12
    raises(ReplayError, "moved by more than one row", record_replay, RUNS["variances"], rows, other, budget=BUDGET)


def test_catches_scales_taken_from_the_data(monkeypatch):
    original = decoder_stages.release_means

    def adaptive(run, scales, thresholds, **options):
        largest = max(float(np.abs(chunk).max()) for chunk in run.rows.chunks())
        return original(run, [[*column, largest] for column in scales], thresholds, **options)

    monkeypatch.setattr(decoders, "release_means", adaptive)
    raises(ReplayError, None, record_replay, RUNS["axis"], ROWS, neighbour(1199, [50.0, 5e4]), budget=BUDGET)


def test_catches_an_event_that_is_too_cheap(monkeypatch):
    monkeypatch.setattr("fastpubpriv.privacy.stable.StableHistogramEvent.delta", property(lambda self: 0))
    cheap = lambda *args, **kw: dataclasses.replace(original(*args, **kw), threshold=original(*args, **kw).step + 1)  # noqa: E731
    from fastpubpriv.privacy import stable_event as original

    monkeypatch.setattr(stable, "stable_event", cheap)
    run = RUNS["laplace"]
    record_replay(run, ROWS, neighbour(3, [100.0, 0.0]), budget=BUDGET)  # the account believes the event ...
    monkeypatch.undo()
    monkeypatch.setattr(stable, "stable_event", cheap)
    with pytest.raises(Exception, match="exceed the budget"):  # ... which is why the event computes its delta itself
        record_replay(run, ROWS, neighbour(3, [100.0, 0.0]), budget=BUDGET)


# ---- Record and replay of hypothesis selection: scores promise what they cost, and nothing passes them by.
# The comparison is exact (integers and fractions): there are no false alarms.
BUDGETS = {"pure": PureDP(1), "zcdp": ZCDP(0.125)}
HOSTILE_OF_HYPOTHESIS = [np.nan, np.inf, -np.inf, 1e308, -1.7976931348623157e308, 5e-324, -0.0, 1e9]
COMMON_OF_HYPOTHESIS = {"threads": 1, "progress": False}


def listed(dim, size=20):
    rng = np.random.default_rng(dim)
    return (
        rng.dirichlet(np.ones(2), size),
        2.0 * rng.normal(size=(size, 2, dim)),
        np.exp(0.5 * rng.normal(size=(size, 2, dim))),
    )


def runner(budget, dim, **options):
    return lambda x: select_hypothesis(
        x, hypotheses=listed(dim), budget=budget, draws=64, **COMMON_OF_HYPOTHESIS, **options
    )


CASES = [
    pytest.param(budget, dim, {"method": method, "law": mechanism}, id=f"{notion}: {method}, {mechanism}, {dim}")
    for notion, budget in BUDGETS.items()
    for method, dim in (("exact", 1), ("cells", 1), ("densities", 1), ("densities", 3))
    for mechanism in ("exponential", "permute_and_flip")
] + [
    pytest.param(budget, dim, {"score": score, "method": method}, id=f"{notion}: {score}, {method}, {dim}")
    for notion, budget in BUDGETS.items()
    for score, method, dim in (
        ("yatracos", "exact", 1), ("yatracos", "cells", 1), ("yatracos", "densities", 3),
        ("log_ratio", "densities", 1), ("log_ratio", "densities", 3),
    )
]  # fmt: skip


def neighbours(rng, dim, count):
    for _ in range(count):
        n = int(rng.choice([1, 2, 10, 51]))
        rows = rng.standard_normal((n, dim)) * 10.0 ** rng.choice([-300, 0, 0, 1, 6, 300])
        if rng.random() < 0.3:
            rows[rng.integers(n), rng.integers(dim)] = HOSTILE_OF_HYPOTHESIS[rng.integers(len(HOSTILE_OF_HYPOTHESIS))]
        yield rows, replaced(rng, rows, HOSTILE_OF_HYPOTHESIS)


@pytest.mark.parametrize(("budget", "dim", "options"), CASES)
def test_replay_passes(budget, dim, options):
    run, moved = runner(budget, dim, **options), 0
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
                x, hypotheses=arrays, budget=PureDP(1), method=method, law="exponential", **COMMON_OF_HYPOTHESIS
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
    raises(ReplayError, "sensitivity", record_replay, runner(PureDP(1), 3), *hostile_pair(3), budget=PureDP(1))


def test_catches_a_score_in_the_result(monkeypatch):
    original, leaked = public.HypothesisChoice.release, []

    def leaky(self, account, rows, executor, **options):
        leaked.append(int(self.evaluation.scores(rows, executor).sum()))
        return original(self, account, rows, executor, **options)

    monkeypatch.setattr(public.HypothesisChoice, "release", leaky)
    result = public._result
    monkeypatch.setattr(public, "_result", lambda *arguments, **named: [result(*arguments, **named), leaked[-1]])
    raises(ReplayError, "leaked past release", record_replay, runner(PureDP(1), 1), *hostile_pair(), budget=PureDP(1))


def test_catches_permute_and_flip_at_the_price_of_the_exponential_mechanism(monkeypatch):
    """Planted: epsilon^2 / 8 is for mechanisms of bounded range only."""
    monkeypatch.setattr(public, "epsilon_of", lambda share, law, *, pure: Fraction(1))
    with pytest.raises(BudgetError, match="exceed the budget"):
        runner(ZCDP(0.125), 1, law="permute_and_flip")(hostile_pair()[0])
