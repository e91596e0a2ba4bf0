"""select_hypothesis from the door: what it returns, pays, refuses and finds."""

import json
import math

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
    Hypotheses,
    InputError,
    Ledger,
    PureDP,
    select_hypothesis,
)
from fastpubpriv.mixtures.select import required_n
from fastpubpriv.results.mixture import MixtureResult

COMMON = {"threads": 1, "progress": False}
ARRAYS = random_arrays(np.random.default_rng(1), 5, 2, 1)


def draw(rng, arrays, index, n):
    weights, means, variances = (part[index] for part in arrays)
    picked = rng.choice(len(weights), size=n, p=weights)
    return means[picked] + np.sqrt(variances[picked]) * rng.normal(size=(n, means.shape[1]))


def as_mixture(weights, means, covariances):
    return MixtureResult(
        n_priv=1,
        n_pub=0,
        dim=means.shape[1],
        spent=PureDP(1),
        private=True,
        weights=weights,
        means=means,
        covariances=covariances,
        part_reasons=((),) * len(weights),
        structure=("full",) * len(weights),
        method="test",
    )


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
    assert result.index == 17
    assert result.status == "ok"
    assert result.method == method
    np.testing.assert_allclose(result.means, arrays[1][17])
    np.testing.assert_allclose(result.variances, arrays[2][17])
    assert result.law == ("exponential" if isinstance(budget, ZCDP) else "permute_and_flip")
    assert result.epsilon == pytest.approx(1.0)
    assert result.private


@pytest.mark.parametrize("score", ["yatracos", "log_ratio"])
@pytest.mark.parametrize("dim", [1, 4])
def test_each_score_finds_the_true_hypothesis(score, dim):
    rng = np.random.default_rng(dim)
    arrays = random_arrays(rng, 60, 2, dim)
    rows = draw(rng, arrays, 17, 20_000)
    result = select_hypothesis(rows, hypotheses=arrays, budget=PureDP(1), score=score, **COMMON)
    assert result.index == 17
    assert result.score == score
    assert json.loads(result.to_json())["score"] == score


@pytest.mark.parametrize(
    ("score", "sensitivity", "clip", "has_slack"),
    [("yatracos", 1, None, True), ("log_ratio", 4, 8.0, False)],
)
def test_each_score_states_its_sensitivity_clip_and_slack(score, sensitivity, clip, has_slack):
    rows = np.zeros((50, 1))
    result = select_hypothesis(rows, hypotheses=ARRAYS, budget=PureDP(1), score=score, **COMMON)
    (release,) = result.releases
    assert release["sensitivity"] == sensitivity
    assert release.get("clip") == clip
    assert math.isfinite(result.slack) == has_slack


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
        means = 4.0 * rng.normal(size=(k, 2))
        listed.append(as_mixture(np.full(k, 1.0 / k), means, root @ root.transpose(0, 2, 1)))
    assert not Hypotheses.from_mixtures(listed).axis_aligned
    rows = listed[2].sample(5000, random_state=1)
    result = select_hypothesis(rows, hypotheses=listed, budget=PureDP(1), **COMMON)
    assert result.index == 2
    np.testing.assert_allclose(result.covariances, listed[2].covariances)
    mixture = result.mixture
    np.testing.assert_allclose(mixture.log_prob(rows[:5]), listed[2].log_prob(rows[:5]))
    assert mixture.spent == result.spent


def test_mixtures_with_diagonal_covariances_are_axis_aligned():
    identity = np.eye(2)[None]
    listed = [as_mixture(np.ones(1), np.array([[mean, 0.0]]), identity) for mean in (0.0, 1.0, 2.0)]
    assert Hypotheses.from_mixtures(listed).axis_aligned


def test_of_approximate_dp_only_epsilon_is_spent():
    ledger = Ledger(ApproxDP(2, 1e-6))
    arrays = random_arrays(np.random.default_rng(1), 5, 1, 1)
    result = select_hypothesis(
        np.zeros((50, 1)), hypotheses=arrays, budget=ApproxDP(1, 1e-7), ledger=ledger, **COMMON
    )
    assert result.spent == PureDP(1)
    assert ledger.remaining == ApproxDP(2, 1e-6) - ledger.spent
    assert repr(ledger.spent) == "Cost(ApproxDP, epsilon=1.0, delta=0.0)"


def test_one_hypothesis_costs_nothing():
    log = []
    rows = SpyRows(np.zeros((50, 1)), log, fails=AssertionError("read"))
    ledger = SpyLedger(PureDP(2), log)
    arrays = random_arrays(np.random.default_rng(1), 2, 1, 1)
    arrays[2][0] = np.nan
    result = select_hypothesis(rows, hypotheses=arrays, budget=PureDP(1), ledger=ledger, **COMMON)
    assert result.index == 1
    assert result.status == "ok"
    assert result.left_out == 1
    assert result.epsilon == 0.0
    assert result.spent.is_zero
    assert log == []


# Two mixtures of one component, none of them usable: a mean without a value, and a variance of zero.
UNUSABLE = ([[1.0], [1.0]], [[[np.inf]], [[0.0]]], [[[1.0]], [[0.0]]])


def test_without_a_usable_hypothesis_the_fallback_costs_nothing():
    log = []
    rows = SpyRows(np.zeros((50, 1)), log, fails=AssertionError("read"))
    ledger = SpyLedger(PureDP(2), log)
    given = {"hypotheses": UNUSABLE, "budget": PureDP(1), "ledger": ledger}
    spare = ([[1.0]], [[[5.0]]], [[[4.0]]])
    result = select_hypothesis(rows, fallback=spare, **given, **COMMON)
    assert result.index is None
    assert result.reasons == ("fallback",)
    assert result.candidates == 0
    assert result.left_out == 2
    assert result.means.tolist() == [[5.0]]
    assert log == []


def test_without_a_usable_hypothesis_and_a_fallback_is_refused():
    rows = np.zeros((50, 1))
    refused(select_hypothesis, "fallback=", rows, hypotheses=UNUSABLE, budget=PureDP(1), **COMMON)


def test_left_out_hypotheses_are_never_chosen():
    rng = np.random.default_rng(3)
    weights, means, variances = random_arrays(rng, 30, 2, 1)
    bad_variances = [np.nan, np.inf, 0.0, -1.0, -np.inf] * 2
    variances[::3, 1, 0] = bad_variances
    weights[9] = [1.0, 0.0]  # the bad component weighs nothing
    listed = Hypotheses.from_arrays(weights, means, variances)
    assert listed.given == 30
    assert listed.size == 21
    assert 9 in listed.positions
    rows = draw(rng, (weights, means, np.ones_like(variances)), 9, 3000)
    given = {"hypotheses": (weights, means, variances), "budget": PureDP(0.001), **COMMON}
    for seed in range(10):
        result = seeded(select_hypothesis, rows, random_state=seed, **given)
        assert result.index in listed.positions
        assert result.candidates == 21
        assert result.left_out == 9
        np.testing.assert_array_equal(result.means[0], means[result.index][0])


def test_too_few_rows_for_an_accuracy_are_told():
    arrays = random_arrays(np.random.default_rng(1), 5, 1, 1)
    with pytest.warns(AccuracyWarning, match="do not guarantee accuracy"):
        select_hypothesis(
            np.zeros((50, 1)), hypotheses=arrays, budget=PureDP(1), accuracy=0.1, **COMMON
        )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"hypotheses": random_arrays(np.random.default_rng(1), 5, 2, 3)}, "describe 3 columns"),
        ({"hypotheses": ()}, "empty"),
        ({"hypotheses": 3}, "must be a Hypotheses value"),
        ({"hypotheses": [1, 2]}, "weights, means and covariances"),
        ({"hypotheses": (ARRAYS[0], ARRAYS[1])}, "weights, means and covariances"),
        ({"hypotheses": (ARRAYS[0][0], ARRAYS[1], ARRAYS[2])}, "shape"),
        ({"hypotheses": (ARRAYS[0], ARRAYS[1], ARRAYS[2][:, :1])}, "same shape"),
        ({"hypotheses": (2.0 * ARRAYS[0], ARRAYS[1], ARRAYS[2])}, "position 0 do not"),
        ({"hypotheses": (-ARRAYS[0], ARRAYS[1], ARRAYS[2])}, "non-negative"),
        ({"hypotheses": (ARRAYS[0].astype(str), ARRAYS[1], ARRAYS[2])}, "real numbers"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"score": "likelihood"}, "score must be one of"),
        ({"score": "log_ratio", "accuracy": 0.1}, "guarantees no accuracy"),
        ({"score": "log_ratio", "method": "exact"}, "compares densities"),
        ({"clip": 40.0}, "1/512 to 31 nats"),
        ({"clip": 0.001}, "1/512 to 31 nats"),
        ({"law": "gumbel"}, "law must be one of"),
        ({"cells": 1}, "cells"),
        ({"cells": 10**6}, "cells"),
        ({"draws": 3}, "draws"),
        ({"public_seed": -1}, "public_seed"),
        ({"fallback": ARRAYS}, "one usable mixture"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_read(change, text):
    refused(
        select_hypothesis,
        text,
        np.zeros((50, 1)),
        **{"hypotheses": ARRAYS, "budget": PureDP(1), **change},
    )


def test_an_error_names_the_position_among_all_that_were_given():
    weights, means, variances = (part.copy() for part in ARRAYS)
    variances[0] = np.nan
    weights[3] *= 3.0
    raises(InputError, "position 3 do not", Hypotheses.from_arrays, weights, means, variances)


def test_arguments_of_required_n_are_checked():
    raises(InputError, "accuracy", required_n, 10, 1.5, 1.0)
    raises(InputError, "epsilon", required_n, 10, 0.5, 0.0)


def test_more_hypotheses_and_less_budget_require_more_rows():
    n = required_n(10, 0.5, 1.0)
    assert n < required_n(1000, 0.5, 1.0) < required_n(1000, 0.5, 0.01)
