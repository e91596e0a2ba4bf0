"""select_hypothesis from the door: what it returns, pays, refuses and finds."""

import itertools
import json
import math
from functools import partial

import numpy as np
import pytest
from helpers.errors import raises
from helpers.hypotheses import random_arrays
from scipy import stats
from spies import SpyLedger, SpyRows, refused, seeded

from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    BinGrid,
    DyadicBins,
    Hypotheses,
    InputError,
    Ledger,
    ProductBins,
    PureDP,
    select_hypothesis,
    stable_histogram,
)
from fastpubpriv.errors import BudgetError, PrivacyWarning
from fastpubpriv.mixtures.select import required_n
from fastpubpriv.results.mixture import MixtureResult

COMMON = {"threads": 1, "progress": False}


def draw(rng, arrays, index, n):
    weights, means, variances = (part[index] for part in arrays)
    picked = rng.choice(len(weights), size=n, p=weights)
    return means[picked] + np.sqrt(variances[picked]) * rng.normal(size=(n, means.shape[1]))


def as_mixture(weights, means, covariances):
    return MixtureResult(
        n_priv=1, n_pub=0, dim=means.shape[1], spent=PureDP(1), private=True, weights=weights, means=means,
        covariances=covariances, part_reasons=((),) * len(weights), structure=("full",) * len(weights), method="test",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "dim", "size"),
    [("exact", 1, 60), ("cells", 1, 300), ("densities", 1, 60), ("densities", 4, 60)],
)
@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.125)])
def test_finds_the_mixture_that_the_rows_come_from(method, dim, size, budget):
    rng = np.random.default_rng(dim)
    arrays = random_arrays(rng, size, 2, dim)
    rows = draw(rng, arrays, 17, 20_000)
    result = select_hypothesis(rows, hypotheses=arrays, budget=budget, method=method, **COMMON)
    # The next best is hundreds of rows away: a wrong choice has probability below e^-100.
    assert (result.index, result.status, result.method) == (17, "ok", method)
    np.testing.assert_allclose(result.means, arrays[1][17])
    np.testing.assert_allclose(result.variances, arrays[2][17])
    assert result.law == ("exponential" if isinstance(budget, ZCDP) else "permute_and_flip")
    assert result.epsilon == pytest.approx(1.0)
    assert result.private


@pytest.mark.parametrize("score", ["yatracos", "log_ratio"])
@pytest.mark.parametrize("dim", [1, 4])
def test_each_score_finds_the_true_hypothesis(score, dim):
    arrays = random_arrays(rng := np.random.default_rng(dim), 60, 2, dim)
    rows = draw(rng, arrays, 17, 20_000)
    result = select_hypothesis(rows, hypotheses=arrays, budget=PureDP(1), score=score, **COMMON)
    assert (result.index, result.score) == (17, score)
    assert math.isinf(result.slack) == (score == "log_ratio")
    assert result.releases[0]["sensitivity"] == (4 if score == "log_ratio" else 1)
    assert json.loads(result.to_json())["score"] == score
    assert result.releases[0].get("clip") == (8.0 if score == "log_ratio" else None)


def total_variation(one, other):
    grid = np.linspace(-30.0, 30.0, 6001)
    masses = []
    for weights, means, variances in (one, other):
        parts = zip(weights, means[:, 0], variances[:, 0], strict=True)
        masses.append(np.diff(sum(w * stats.norm.cdf(grid, m, np.sqrt(v)) for w, m, v in parts)))
    return 0.5 * np.abs(masses[0] - masses[1]).sum()


@pytest.mark.parametrize("method", ["exact", "cells", "densities"])
def test_error_is_within_the_bound(method):
    """The law of the rows is not in the list: 3 OPT + slack, with OPT far above zero."""
    rng = np.random.default_rng(4)
    size = 80
    truth = (np.array([0.5, 0.5]), np.array([[-1.0], [2.0]]), np.array([[1.0], [0.3]]))
    base = [np.repeat(part[None], size, axis=0) for part in truth]
    arrays = (
        base[0],
        base[1] + rng.normal(size=base[1].shape),
        base[2] * np.exp(0.7 * rng.normal(size=base[2].shape)),
    )
    n = required_n(size, accuracy=0.25, epsilon=1.0, failure_prob=0.05)
    rows = draw(rng, [part[None] for part in truth], 0, n)
    errors = [total_variation(truth, [part[i] for part in arrays]) for i in range(size)]
    result = select_hypothesis(
        rows, hypotheses=arrays, budget=PureDP(1), method=method, accuracy=0.25, **COMMON
    )
    best = min(errors)
    assert best > 0.05
    assert result.slack < 0.125
    assert errors[result.index] <= 3.0 * best + 0.125
    assert np.median(errors) > 3.0 * best + 0.125  # an arbitrary choice would not pass


def test_mixtures_with_full_covariances_and_different_numbers_of_components():
    rng = np.random.default_rng(8)
    listed = []
    for k in (1, 2, 3, 2):
        root = rng.normal(size=(k, 2, 2)) + 2.0 * np.eye(2)
        listed.append(
            as_mixture(
                np.full(k, 1.0 / k), 4.0 * rng.normal(size=(k, 2)), root @ root.transpose(0, 2, 1)
            )
        )
    rows = listed[2].sample(5000, random_state=1)
    result = select_hypothesis(rows, hypotheses=listed, budget=PureDP(1), **COMMON)
    assert result.index == 2
    np.testing.assert_allclose(result.covariances, listed[2].covariances)
    mixture = result.mixture
    np.testing.assert_allclose(mixture.log_prob(rows[:5]), listed[2].log_prob(rows[:5]))
    assert mixture.spent == result.spent
    # Diagonal ones become variances.
    diagonal = [
        as_mixture(np.ones(1), np.array([[float(m), 0.0]]), np.eye(2)[None]) for m in range(3)
    ]
    assert Hypotheses.from_mixtures(diagonal).axis_aligned
    assert not Hypotheses.from_mixtures(listed).axis_aligned


def test_of_approximate_dp_only_epsilon_is_spent():
    ledger = Ledger(ApproxDP(2, 1e-6))
    arrays = random_arrays(np.random.default_rng(1), 5, 1, 1)
    result = select_hypothesis(
        np.zeros((50, 1)), hypotheses=arrays, budget=ApproxDP(1, 1e-7), ledger=ledger, **COMMON
    )
    assert result.spent == PureDP(1)
    assert ledger.remaining == ApproxDP(2, 1e-6) - ledger.spent
    assert repr(ledger.spent) == "Cost(ApproxDP, epsilon=1.0, delta=0.0)"


def test_one_hypothesis_or_none_costs_nothing():
    log = []
    rows = SpyRows(np.zeros((50, 1)), log, fails=AssertionError("read"))
    arrays = random_arrays(np.random.default_rng(1), 2, 1, 1)
    arrays[2][0] = np.nan
    ledger = SpyLedger(PureDP(2), log)
    result = select_hypothesis(rows, hypotheses=arrays, budget=PureDP(1), ledger=ledger, **COMMON)
    assert (result.index, result.status, result.left_out, result.epsilon) == (1, "ok", 1, 0.0)
    assert result.spent.is_zero
    assert log == []
    # No hypothesis gives the fallback for nothing.
    log = []
    rows = SpyRows(np.zeros((50, 1)), log, fails=AssertionError("read"))
    none = ([[1.0], [1.0]], [[[np.inf]], [[0.0]]], [[[1.0]], [[0.0]]])
    spare = ([[1.0]], [[[5.0]]], [[[4.0]]])
    result = select_hypothesis(rows, hypotheses=none, budget=PureDP(1), fallback=spare, **COMMON)
    assert (result.index, result.reasons, result.candidates, result.left_out) == (
        None,
        ("fallback",),
        0,
        2,
    )
    assert result.means.tolist() == [[5.0]]
    raises(
        InputError,
        "fallback=",
        select_hypothesis,
        rows,
        hypotheses=none,
        budget=PureDP(1),
        **COMMON,
    )
    assert log == []


def test_left_out_hypotheses_are_never_chosen():
    rng = np.random.default_rng(3)
    weights, means, variances = random_arrays(rng, 30, 2, 1)
    for index, bad in zip(range(0, 30, 3), [np.nan, np.inf, 0.0, -1.0, -np.inf] * 2, strict=True):
        variances[index, 1] = bad
    weights[9] = [1.0, 0.0]  # the bad component weighs nothing
    listed = Hypotheses.from_arrays(weights, means, variances)
    assert (listed.size, listed.given) == (21, 30)
    assert 9 in listed.positions
    rows = draw(rng, (weights, means, np.ones_like(variances)), 9, 3000)
    for seed in range(10):
        call = {
            "hypotheses": (weights, means, variances),
            "budget": PureDP(0.001),
            "random_state": seed,
        }
        result = seeded(select_hypothesis, rows, **call, **COMMON)
        assert result.index in listed.positions
        assert (result.candidates, result.left_out) == (21, 9)
        np.testing.assert_array_equal(result.means[0], means[result.index][0])


def test_too_few_rows_for_an_accuracy_are_told():
    arrays = random_arrays(np.random.default_rng(1), 5, 1, 1)
    with pytest.warns(AccuracyWarning, match="do not guarantee accuracy"):
        select_hypothesis(
            np.zeros((50, 1)), hypotheses=arrays, budget=PureDP(1), accuracy=0.1, **COMMON
        )


ARRAYS = random_arrays(np.random.default_rng(1), 5, 2, 1)


@pytest.mark.parametrize(("change", "text"), [
    ({"hypotheses": random_arrays(np.random.default_rng(1), 5, 2, 3)}, "describe 3 columns"),
    ({"hypotheses": ()}, "empty"), ({"hypotheses": 3}, "must be a Hypotheses value"),
    ({"hypotheses": [1, 2]}, "weights, means and covariances"),
    ({"hypotheses": (ARRAYS[0], ARRAYS[1])}, "weights, means and covariances"),
    ({"hypotheses": (ARRAYS[0][0], ARRAYS[1], ARRAYS[2])}, "shape"),
    ({"hypotheses": (ARRAYS[0], ARRAYS[1], ARRAYS[2][:, :1])}, "same shape"),
    ({"hypotheses": (2.0 * ARRAYS[0], ARRAYS[1], ARRAYS[2])}, "position 0 do not"),
    ({"hypotheses": (-ARRAYS[0], ARRAYS[1], ARRAYS[2])}, "non-negative"),
    ({"hypotheses": (ARRAYS[0].astype(str), ARRAYS[1], ARRAYS[2])}, "real numbers"), ({"accuracy": 0.0}, "accuracy"),
    ({"score": "likelihood"}, "score must be one of"),
    ({"score": "log_ratio", "accuracy": 0.1}, "guarantees no accuracy"),
    ({"score": "log_ratio", "method": "exact"}, "compares densities"), ({"clip": 40.0}, "1/512 to 31 nats"),
    ({"clip": 0.001}, "1/512 to 31 nats"), ({"law": "gumbel"}, "law must be one of"), ({"cells": 1}, "cells"),
    ({"cells": 10**6}, "cells"), ({"draws": 3}, "draws"), ({"public_seed": -1}, "public_seed"),
    ({"fallback": ARRAYS}, "one usable mixture"),
])  # fmt: skip
def test_bad_arguments_are_refused_before_anything_is_read(change, text):
    refused(
        select_hypothesis,
        text,
        np.zeros((50, 1)),
        **{"hypotheses": ARRAYS, "budget": PureDP(1), **change},
    )


def test_weights_positions_and_arguments_of_required_n_are_checked():
    weights, means, variances = (part.copy() for part in ARRAYS)
    variances[0] = np.nan
    weights[3] *= 3.0
    raises(InputError, "position 3 do not", Hypotheses.from_arrays, weights, means, variances)
    # Required n checks its arguments.
    raises(InputError, "accuracy", required_n, 10, 1.5, 1.0)
    raises(InputError, "epsilon", required_n, 10, 0.5, 0.0)
    assert required_n(10, 0.5, 1.0) < required_n(1000, 0.5, 1.0) < required_n(1000, 0.5, 0.01)


# ---- `stable_histogram`: what comes out, that it does not depend on how rows are read, and the bad-input groups -----

BUDGET = ApproxDP(1, 1e-6)
X = np.random.default_rng(0).normal([0.0, 1e6], [1.0, 30.0], size=(20_000, 2))
BINS = [
    BinGrid(width=0.5), BinGrid(width=0.25, offset=0.1, levels=5), DyadicBins(), [BinGrid(width=1.0), DyadicBins()],
    [None, BinGrid(width=10.0)], ProductBins(grids=[BinGrid(width=1.0, levels=2), BinGrid(width=20.0, levels=2)]),
    [BinGrid(width=1.0), None, ProductBins(grids=[DyadicBins()], columns=[1])],
]  # fmt: skip


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
    result = stable_histogram(X, bins=bins, budget=BUDGET)
    grids = []
    for item in (
        [bins] * 2
        if not isinstance(bins, list | ProductBins)
        else bins
        if isinstance(bins, list)
        else [bins]
    ):
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
    assert (
        stable_histogram(X, bins=BinGrid(width=1.0, levels=3), budget=BUDGET).noise_law
        == "gaussian"
    )
    for noise in ("laplace", "gaussian"):
        assert stable_histogram(X, bins=DyadicBins(), budget=BUDGET, noise=noise).noise_law == noise


def test_every_count_is_within_the_stated_error():
    failures = 0
    for seed in range(40):
        result = seeded(
            stable_histogram, X[:5000, 0], bins=BinGrid(width=0.5), budget=BUDGET, random_state=seed
        )
        keys, counts = np.unique(np.ceil(X[:5000, 0] / 0.5) - 1.0, return_counts=True)
        noisy = dict(zip(result[0].keys[:, 0].tolist(), result[0].counts.tolist(), strict=True))
        error = result.count_error(0.05)
        failures += any(
            abs(noisy.get(int(key), 0.0) - count) > error
            for key, count in zip(keys, counts, strict=True)
        )
    # at 5 % each, more than 9 of 40 has probability below 1e-4; the seeds are fixed
    assert failures <= 9
    assert result.count_error(0.001) > error
    raises(InputError, None, result.count_error, 0.0)


@pytest.mark.parametrize(("grid", "ends"), [
    (BinGrid(width=10_000), [0.0, 10_000.0, 20_000.0, 30_000.0]),
    (BinGrid(width=10_000, offset=-2_500.0), [-2_500.0, 7_500.0, 17_500.0, 27_500.0]),
])  # fmt: skip
def test_bins_end_at_the_offset_and_every_width_from_there(grid, ends):
    """What lies beside an end, and at it: a bin holds its lower end."""
    for low, high in itertools.pairwise(ends):
        for value in (low, (low + high) / 2.0, high - 1.0):
            (item,) = seeded(
                stable_histogram, np.full(900, value), bins=grid, budget=BUDGET
            ).histograms
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
    assert (
        len(stable_histogram(np.full(5000, 1e300), bins=BinGrid(width=1e-3), budget=BUDGET)[0]) == 0
    )
    # The widest bins have infinite ends.
    result = stable_histogram(np.full(900, 1.7e308), bins=BinGrid(width=1.6e308), budget=BUDGET)
    assert result[0].keys.tolist() == [[1]]
    assert result[0].lower[0, 0] == 1.6e308
    assert result[0].upper[0, 0] == math.inf
    # Every row in a bin of its own: the chance that any of 2000 shows is below 2000 delta_0 = 2e-9.
    values = np.arange(2000.0) * 1e3
    assert len(stable_histogram(values, bins=BinGrid(width=1.0), budget=ApproxDP(1, 1e-12))[0]) == 0


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
    log = []
    options = {"bins": DyadicBins(), "budget": BUDGET, **change}
    raises(error, None, stable_histogram, SpyRows(np.zeros((50, 2)), log), **options)
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
    raises(InputError, None, make)


def test_a_large_delta_is_warned_about():
    with pytest.warns(PrivacyWarning, match="at least 1/n"):
        stable_histogram(np.ones(1000), bins=DyadicBins(), budget=ApproxDP(1, 0.01))
