"""Faults of predictions and intervals that are planted by changing a line of a function.

`test_engine.py` has those that replace one. Each is caught by an oracle that is about the truth: not by a recorded bit.
"""

import ast
import dataclasses
import inspect
import sys
import textwrap

import numpy as np
import pytest

import fastpubpriv as fpp
from fastpubpriv.distributions import budget_split
from fastpubpriv.estimators import (
    column_means,
    group_means,
    mean_methods,
    quantiles,
)
from fastpubpriv.gaussians import coinpress_covariance, rounds
from fastpubpriv.regression import curvature, exact
from fastpubpriv.results import by_key, ranks
from tests.truth import engine, shares, terms
from tests.truth.test_engine import Call, case_of, kinds


def changed(owner, name, old, new):
    """A function of a module or class whose source, as `ast.unparse` lays it out, has `new` in place of `old`."""
    function = vars(owner)[name]
    written = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    text = ast.unparse(ast.parse(written))  # a statement a line, however it is laid out
    assert text.count(old) == 1, f"{name} has {text.count(old)} times {old!r}"
    made = {}
    source = "from __future__ import annotations\n" + text.replace(old, new)
    exec(
        compile(source, f"<{name} with a fault>", "exec"),
        vars(sys.modules[function.__module__]),
        made,
    )
    return made[name]


def plant(monkeypatch, owner, name, old, new):
    """Plant a fault in a function, for a test."""
    monkeypatch.setattr(owner, name, changed(owner, name, old, new))


def test_a_function_with_a_changed_line_takes_the_place_of_the_right_one(monkeypatch):
    plant(monkeypatch, rounds, "noise_error", "square / 2.0", "0.0")
    assert rounds.noise_error(np.ones(4), 0.5) == 0.0


# ---- Noise -----------------------------------------------------------------------------------------------------------
def test_2_counts_whose_noise_is_said_to_be_larger_are_found(monkeypatch):
    larger = changed(budget_split, "divide", "count_std=std", "count_std=1.4 * std")
    for module in (mean_methods, column_means):
        monkeypatch.setattr(module, "divide", larger)
    assert not 1.0 / 1.03 < terms.planned_cells("mean") < 1.03


def test_3_last_counts_whose_noise_is_said_to_be_larger_are_found(monkeypatch):
    plant(
        monkeypatch,
        quantiles,
        "close_in",
        "std=counted.noise_std))",
        "std=1.5 * counted.noise_std))",
    )
    assert terms.noise_of_ranks(terms.MEDIAN) < terms.RANKS_RECORDED / terms.ROOM


def test_8_half_the_noise_of_means_of_groups_is_found(monkeypatch):
    plant(
        monkeypatch,
        group_means,
        "group_estimates",
        "noise = box.half *",
        "noise = 0.5 * box.half *",
    )
    call = terms.call_of("estimate_mean", "by='g', bounds=ends(1.0)")
    ratio, most = terms.noise_of_means(call, terms.SEEDS // 3)
    assert ratio > terms.ROOM * most


def test_20_a_quarter_of_the_noise_of_coefficients_is_found(monkeypatch):
    plant(
        monkeypatch,
        exact.ExactStep,
        "fitted",
        "noise = (1.0 - worth)",
        "noise = 0.25 * (1.0 - worth)",
    )
    assert (
        terms.noise_of_coefficients(terms.call_of("linear_regression", rows=20_000), 30)
        > terms.ROOM
    )


# ---- Intervals -------------------------------------------------------------------------------------------------------
def test_5_quantile_ends_of_half_their_reach_are_found(monkeypatch):
    plant(monkeypatch, ranks.EdgeRanks, "ends", "reach = z *", "reach = 0.5 * z *")
    assert "coverage quantile" in kinds(
        terms.call_of("quantiles", "columns=columns[:1]", "q=(0.1, 0.9)", rows=20_000)
    )


def test_7_groups_without_clipping_are_found(monkeypatch):
    without = property(lambda self: np.hypot(self.noise_std, self.sampling_std))
    monkeypatch.setattr(fpp.GroupMeans, "standard_error", without)
    assert "GroupMeans.clipping_std does not move an interval" in terms.still_terms()


def reasons_of_skewed_groups(seed):
    """Reasons of ten groups of 200 lognormal rows, whose clipped tails are a good part of the width."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.lognormal(3.0, 1.2, 2_000), rng.integers(0, 10, 2_000)])
    result = fpp.estimate_mean(
        rows[30:],
        x_pub=rows[:30],
        by=-1,
        groups=list(range(10)),
        budget=fpp.PureDP(1.0),
        random_state=seed,
    )
    return result.part_reasons


@pytest.mark.filterwarnings("ignore")  # seeds, and reasons
def test_9_a_width_that_decides_without_clipping_is_found(monkeypatch):
    with_clipping = [reasons_of_skewed_groups(seed) for seed in range(3)]
    plant(
        monkeypatch,
        group_means,
        "group_estimates",
        "sampling ** 2 + clipping ** 2",
        "sampling ** 2",
    )
    assert [reasons_of_skewed_groups(seed) for seed in range(3)] != with_clipping


def test_10_clip_ends_that_move_after_the_boxes_were_chosen_are_found(monkeypatch):
    text = "measured_moments = GroupMoments(codes=codes, middle=middle, half=half"
    moved = "lower, upper = np.clip([lower, upper], *ends)\n    middle, half = (lower + upper) / 2.0, (upper - lower) / 2.0\n    "
    monkeypatch.setattr(group_means.GroupCells, "within", lambda self, lowest, highest: self)
    plant(monkeypatch, group_means, "learn", text, moved + text)
    bounded = case_of("estimate_mean", "by='g', bounds=ends(1.0)")
    assert "far" in kinds(
        Call("estimate_mean", (bounded,), "light", 20_000, fpp.ZCDP(0.1)), draws=1
    )


def test_18_directions_that_noise_turns_are_found(monkeypatch):
    right = share_of_hidden_maps()
    plant(monkeypatch, curvature.PooledMoment, "hidden_parts", "turned = 4.0 *", "turned = 0.0 *")
    assert right < 0.1
    assert share_of_hidden_maps() > 0.5


def share_of_hidden_maps(draws=100, noise=0.005):
    """How often a map along a resolved direction is said to be hidden, as noise turns the unseen one towards it."""
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 1.0, 0.0]
    found = []
    for draw in range(draws):
        error = np.random.default_rng(draw).normal(scale=noise, size=(3, 3))
        plain = np.diag([1.0, 1.0, 0.0]) + (error + error.T) / np.sqrt(2.0)
        released = curvature.ReleasedCurvature(mean=plain, noise=noise, clipped=0.0, unit=1.0)
        moment = curvature.pooled_curvature(released, rows.T @ rows / 200, rows, n=1e6)
        found.append(moment.hidden_parts(np.eye(3)[:1]).sum() > exact.tuning.MUCH)
    return np.mean(found)


def test_19_directions_that_are_unseen_from_one_deviation_are_found(monkeypatch):
    plant(monkeypatch, exact, "pooled_curvature", "2.0 * error", "0.7 * error")
    assert shares.watched_moved(shares.RARELY) != []


def test_22_counts_of_the_population_without_sampling_are_found(monkeypatch):
    plant(
        monkeypatch,
        by_key.CountResult,
        "_sampling_variance",
        "rows * shares *",
        "0.0 * shares *",
    )
    assert (
        terms.sampling_of_counts(terms.call_of("value_counts", "columns='w', keys=[0.0, 1.0]"))
        > terms.ROOM
    )


# ---- Plans -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", ["cells", "rows"])
def test_24_a_plan_of_quantiles_without_their_share_is_found(monkeypatch, count):
    plant(monkeypatch, quantiles, "predict", f"rank_std({count}, q)", f"math.sqrt({count})")
    assert not 1.0 / 1.2 < terms.planned_median(20_000) < 1.2


def test_25_a_plan_of_a_mean_that_spends_the_part_of_the_cells_is_found(monkeypatch):
    right = mean_methods.divide

    def whole(dim, n, spending, **more):
        return dataclasses.replace(right(dim, n, spending, **more), total=spending.allowance)

    monkeypatch.setattr(mean_methods, "divide", whole)
    assert terms.planned_mean(fpp.ZCDP(0.001)) < terms.PLAN_AT_LEAST_BUDGET / 1.15


@pytest.mark.parametrize("alone", ["the released moment", "public numbers"])
def test_26_an_error_of_a_covariance_with_too_few_entries_is_found(alone, monkeypatch):
    """The larger of an error from the released moment and one from public numbers is printed: each is looked at alone."""
    right = coinpress_covariance.covariance_error
    if alone == "public numbers":
        monkeypatch.setattr(coinpress_covariance, "_error_of", lambda *given: 0.0)
    else:
        # The prediction is for white rows.
        monkeypatch.setattr(
            coinpress_covariance,
            "covariance_error",
            lambda values, *given: 0.0 if np.ptp(values) == 0.0 else right(values, *given),
        )
    assert terms.error_of_covariances() < terms.ROOM
    plant(monkeypatch, rounds, "noise_error", "np.add.reduce(1.0 / values) ** 2 + ", "")
    assert terms.error_of_covariances() > terms.ROOM


# ---- Arguments -------------------------------------------------------------------------------------------------------
def test_27_bounds_of_quantiles_in_reversed_order_are_found(monkeypatch):
    right = quantiles.result_of

    def reversed_limits(run, places, ranks, std, qs, limits, *more):
        turned = None if limits is None else tuple(end[::-1] for end in limits)
        return right(run, places, ranks, std, qs, turned, *more)

    monkeypatch.setattr(quantiles, "result_of", reversed_limits)
    call = Call(
        "quantiles", (case_of("quantiles", "bounds=ends(1.0)"),), "awkward", 2_000, fpp.ZCDP(0.1)
    )
    assert "beyond bounds=" in kinds(call, draws=0)


def test_30_rows_with_gaps_that_are_not_left_out_are_found(monkeypatch):
    never_neutral = changed(
        column_means, "mean_of_columns", "settings.missing == 'neutral'", "False"
    )
    planted = dataclasses.replace(mean_methods.COUNTS, learn=never_neutral)
    monkeypatch.setitem(mean_methods.METHODS, planted.name, planted)
    found = [finding.arguments for finding in engine.without_effect("estimate_mean", ["awkward"])]
    assert ("missing='neutral'",) in found
