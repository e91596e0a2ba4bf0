"""Record/replay of histograms and list decoders on hostile neighbours, with planted faults."""

import dataclasses

import numpy as np
import pytest

from fastpubpriv import ApproxDP, BinGrid, DyadicBins, ProductBins, ReplayError, stable_histogram
from fastpubpriv.auditing import record_replay
from fastpubpriv.kernels import bins as kernel
from fastpubpriv.mechanisms import histograms as stable
from fastpubpriv.mixtures.list_decoding import decoders
from fastpubpriv.mixtures.list_decoding import decoders as decoder_stages
from fastpubpriv.sources import views

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
    "variances": lambda x: decoders.decode_variances(x, min_weight=0.9, **COMMON),
    "means": lambda x: decoders.decode_means(x, std=2.0, min_weight=0.9, **COMMON),
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
    with pytest.raises(ReplayError, match="disjoint"):
        record_replay(RUNS["axis"], ROWS, neighbour(3, [50.0, 50.0]), budget=BUDGET)


def test_catches_blocks_that_follow_the_values(monkeypatch):
    class Sorted(views.Slice):
        def block(self, begin, end):
            whole = self._rows.block(0, self._rows.n)
            order = np.argsort(whole[:, 0])[self._begin + begin : self._begin + end]
            return np.ascontiguousarray(whole[order])

    monkeypatch.setattr(views, "Slice", Sorted)
    # The smallest row becomes the largest: it changes halves, and so does the row in the middle.
    with pytest.raises(ReplayError):
        record_replay(RUNS["axis"], ROWS, neighbour(int(np.argmin(ROWS[:, 0])), [50.0, 50.0]), budget=BUDGET)


def test_catches_pairs_that_follow_the_values(monkeypatch):
    original = views.differences
    monkeypatch.setattr(views, "differences", lambda rows: original(rows[np.argsort(rows[:, 0])]))
    rows = ROWS.copy()
    rows[:, 0] = np.arange(1200)
    rows[:, 1] = np.where(np.arange(1200) // 2 % 2, 1.0, 1e3) * np.arange(1200) ** 2
    other = rows.copy()
    other[0, 0] = 1e12
    with pytest.raises(ReplayError, match="moved by more than one row"):
        record_replay(RUNS["variances"], rows, other, budget=BUDGET)


def test_catches_scales_taken_from_the_data(monkeypatch):
    original = decoder_stages.release_means

    def adaptive(run, scales, thresholds, **options):
        largest = max(float(np.abs(chunk).max()) for chunk in run.rows.chunks())
        return original(run, [[*column, largest] for column in scales], thresholds, **options)

    monkeypatch.setattr(decoders, "release_means", adaptive)
    with pytest.raises(ReplayError):
        record_replay(RUNS["axis"], ROWS, neighbour(1199, [50.0, 5e4]), budget=BUDGET)


def test_catches_an_event_that_is_too_cheap(monkeypatch):
    monkeypatch.setattr("fastpubpriv.privacy.calibration.StableHistogramEvent.delta", property(lambda self: 0))
    cheap = lambda *args, **kw: dataclasses.replace(original(*args, **kw), threshold=original(*args, **kw).step + 1)  # noqa: E731
    from fastpubpriv.privacy import stable_event as original

    monkeypatch.setattr(stable, "stable_event", cheap)
    run = RUNS["laplace"]
    record_replay(run, ROWS, neighbour(3, [100.0, 0.0]), budget=BUDGET)  # the account believes the event ...
    monkeypatch.undo()
    monkeypatch.setattr(stable, "stable_event", cheap)
    with pytest.raises(Exception, match="exceed the budget"):  # ... which is why the event computes its delta itself
        record_replay(run, ROWS, neighbour(3, [100.0, 0.0]), budget=BUDGET)
