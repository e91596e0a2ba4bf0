"""`stable_histogram`: what comes out, that it does not depend on how rows are read, and the bad-input groups."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from spies import SpyRows, seeded

from fastpubpriv import ZCDP, ApproxDP, BinGrid, DyadicBins, Ledger, ProductBins, PureDP, stable_histogram
from fastpubpriv.errors import BudgetError, InputError, PrivacyWarning

BUDGET = ApproxDP(1, 1e-6)
X = np.random.default_rng(0).normal([0.0, 1e6], [1.0, 30.0], size=(20_000, 2))
BINS = [
    BinGrid(width=0.5),
    BinGrid(width=0.25, offset=0.1, levels=5),
    DyadicBins(),
    [BinGrid(width=1.0), DyadicBins()],
    [None, BinGrid(width=10.0)],
    ProductBins(grids=[BinGrid(width=1.0, levels=2), BinGrid(width=20.0, levels=2)]),
    [BinGrid(width=1.0), None, ProductBins(grids=[DyadicBins()], columns=[1])],
]


def exact_counts(x, item, grid):
    """Rows in each released bin, by its ends."""
    counts = []
    for lower, upper in zip(item.lower, item.upper, strict=True):
        inside = np.ones(len(x), dtype=bool)
        for column, low, high, one in zip(item.columns, lower, upper, grid, strict=True):
            value = np.abs(x[:, column]) if isinstance(one, DyadicBins) else x[:, column]
            inside &= (value > low) & (value <= high)
        counts.append(inside.sum())
    return np.array(counts)


@pytest.mark.parametrize("bins", BINS, ids=str)
def test_counts_are_those_of_the_bins(bins):
    result, grids = stable_histogram(X, bins=bins, budget=BUDGET), []
    for item in [bins] * 2 if not isinstance(bins, list | ProductBins) else bins if isinstance(bins, list) else [bins]:
        if item is not None:
            parts = item.grids if isinstance(item, ProductBins) else (item,)
            grids += [parts] * parts[0].levels
    assert len(result) == len(grids)
    assert result.threshold > result.noise_std > 0
    for item, grid in zip(result.histograms, grids, strict=True):
        assert len(item) > 0
        gaps = item.counts - exact_counts(X, item, grid)
        assert np.abs(gaps).max() < 20 * result.noise_std  # a tail below 1e-11 for each count
        assert (item.counts >= result.threshold).all()
        np.testing.assert_array_equal(item.frequency, item.counts / 20_000)
        assert (item.lower < item.upper).all()


def test_the_noise_is_chosen_by_the_number_of_histograms():
    assert stable_histogram(X[:, :1], bins=BinGrid(width=1.0), budget=BUDGET).noise_law == "laplace"
    assert stable_histogram(X, bins=BinGrid(width=1.0, levels=3), budget=BUDGET).noise_law == "gaussian"
    for noise in ("laplace", "gaussian"):
        assert stable_histogram(X, bins=DyadicBins(), budget=BUDGET, noise=noise).noise_law == noise


def test_every_count_is_within_the_stated_error():
    failures = 0
    for seed in range(40):
        result = seeded(stable_histogram, X[:5000, 0], bins=BinGrid(width=0.5), budget=BUDGET, random_state=seed)
        keys, counts = np.unique(np.ceil(X[:5000, 0] / 0.5) - 1.0, return_counts=True)
        noisy = dict(zip(result[0].keys[:, 0].tolist(), result[0].counts.tolist(), strict=True))
        error = result.count_error(0.05)
        failures += any(abs(noisy.get(int(key), 0.0) - count) > error for key, count in zip(keys, counts, strict=True))
    assert failures <= 9  # at 5 % each, more than 9 of 40 has probability below 1e-4; the seeds are fixed
    assert result.count_error(0.001) > error
    with pytest.raises(InputError):
        result.count_error(0.0)


@pytest.mark.parametrize(("grid", "ends"), [
    (BinGrid(width=10_000), [0.0, 10_000.0, 20_000.0, 30_000.0]),
    (BinGrid(width=10_000, offset=-2_500.0), [-2_500.0, 7_500.0, 17_500.0, 27_500.0]),
])  # fmt: skip
def test_bins_end_at_the_offset_and_every_width_from_there(grid, ends):
    """What lies beside an end, and at it: a bin holds its upper end."""
    for low, high in itertools.pairwise(ends):
        for value in (low + 1.0, (low + high) / 2.0, high):
            (item,) = seeded(stable_histogram, np.full(900, value), bins=grid, budget=BUDGET).histograms
            assert (item.lower.tolist(), item.upper.tolist()) == ([[low]], [[high]])
            assert item.keys.tolist() == [[ends.index(low)]]


def test_bins_at_the_ends_and_without_rows():
    grid = BinGrid(width=0.5, offset=3.0, levels=4)
    for level, width in enumerate(grid.widths):
        lower, upper = grid.edges(np.array([-1, 0, 1]), level)
        assert lower.tolist() == [3.0 - width, 3.0, 3.0 + width]
        assert upper.tolist() == [3.0, 3.0 + width, 3.0 + 2.0 * width]
    # Values without a bin leave nothing.
    for value in (np.nan, np.inf, 0.0):
        assert len(stable_histogram(np.full(5000, value), bins=DyadicBins(), budget=BUDGET)[0]) == 0
    assert len(stable_histogram(np.full(5000, 1e300), bins=BinGrid(width=1e-3), budget=BUDGET)[0]) == 0
    # The widest bins have infinite ends.
    result = stable_histogram(np.full(900, 1.7e308), bins=BinGrid(width=1.6e308), budget=BUDGET)
    assert result[0].keys.tolist() == [[1]]
    assert result[0].lower[0, 0] == 1.6e308
    assert result[0].upper[0, 0] == math.inf
    # Every row in a bin of its own: the chance that any of 2000 shows is below 2000 delta_0 = 2e-9.
    values = np.arange(2000.0) * 1e3
    assert len(stable_histogram(values, bins=BinGrid(width=1.0), budget=ApproxDP(1, 1e-12))[0]) == 0


# ---- bad input, group A: silent whatever the values


# ---- groups B, D, E, F: refused before anything is read
ARGUMENTS = [
    ({"budget": ZCDP(1)}, BudgetError), ({"budget": PureDP(1)}, BudgetError), ({"budget": 1.0}, BudgetError),
    ({"bins": None}, InputError), ({"bins": 0.5}, InputError), ({"bins": []}, InputError), ({"bins": [None, None]}, InputError),
    ({"bins": [DyadicBins()]}, InputError), ({"bins": [DyadicBins()] * 3}, InputError),
    ({"bins": [ProductBins(grids=[DyadicBins()]), DyadicBins(), DyadicBins()]}, InputError),
    ({"bins": ProductBins(grids=[DyadicBins()], columns=[2])}, InputError),
    ({"noise": "cauchy"}, InputError), ({"ledger": Ledger(ApproxDP(0.5, 1e-6))}, BudgetError),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error"), ARGUMENTS, ids=str)
def test_refused_arguments(change, error):
    log, options = [], {"bins": DyadicBins(), "budget": BUDGET, **change}
    with pytest.raises(error):
        stable_histogram(SpyRows(np.zeros((50, 2)), log), **options)
    assert log == []


@pytest.mark.parametrize("make", [
    lambda: BinGrid(width=0.0), lambda: BinGrid(width=-1.0), lambda: BinGrid(width=np.nan), lambda: BinGrid(width=np.inf),
    lambda: BinGrid(width="1"), lambda: BinGrid(width=1.0, offset=np.inf), lambda: BinGrid(width=1.0, levels=0),
    lambda: BinGrid(width=1.0, levels=55), lambda: BinGrid(width=1.0, levels=2.0), lambda: BinGrid(width=1e307, levels=50),
    lambda: BinGrid(width=1.7e308, offset=1.7e308),
    lambda: ProductBins(grids=[]), lambda: ProductBins(grids=BinGrid(width=1.0)), lambda: ProductBins(grids=[1.0]),
    lambda: ProductBins(grids=[DyadicBins()] * 65), lambda: ProductBins(grids=[BinGrid(width=1.0, levels=2), DyadicBins()]),
    lambda: ProductBins(grids=[DyadicBins()] * 2, columns=[0]), lambda: ProductBins(grids=[DyadicBins()] * 2, columns=[1, 1]),
    *(
        partial(ProductBins, grids=[DyadicBins()], columns=bad)
        for bad in (np.nan, 5, "ab", {}, object(), [np.nan], [None], [1.5], [True], [-1], [0, 1], [[0]])
    ),
])  # fmt: skip
def test_refused_bins(make):
    with pytest.raises(InputError):
        make()


def test_a_large_delta_is_warned_about():
    with pytest.warns(PrivacyWarning, match="at least 1/n"):
        stable_histogram(np.ones(1000), bins=DyadicBins(), budget=ApproxDP(1, 0.01))
