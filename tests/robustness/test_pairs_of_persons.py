"""What stands for a person beside every other argument of a verb: the truth is in the interval, or nothing is spent."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import fastpubpriv as fpp
from fastpubpriv import ZCDP, FastPubPrivError, InputError, Ledger
from fastpubpriv.privacy import Neighbors
from fastpubpriv.sources import person_table

PERSONS = 3_000
LEVEL = 0.9999
# Each person has two rows: x is normal(10, 1), y = 2 x + normal(0, 1), h and g are the same in both, the weight w is any.
STANDS: dict[str, dict[str, Any]] = {
    "the mean": {"keep": "mean"},
    "the sum": {"keep": "sum"},
    "one row": {"rows_per_person": 1},
    "the row": {"keep": "row", "rows_per_person": 1},
    "two rows": {"rows_per_person": 2},
    "auto": {"rows_per_person": "auto"},
}


def table(persons, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(10.0, 1.0, 2 * persons)
    half = np.repeat(np.arange(persons) % 2, 2).astype(float)
    return pd.DataFrame(
        {
            "id": np.repeat(np.arange(persons), 2),
            "x": x,
            "y": 2.0 * x + rng.normal(size=2 * persons),
            "h": half,
            "g": np.where(half == 1.0, "b", "a"),
            "z": 0.0,
            "w": rng.uniform(0.5, 1.0, 2 * persons),
        }
    )


PRIVATE = table(PERSONS, 0)
# Public rows are those of persons: with the identifiers they are reduced as the private ones are.
PUBLIC = table(100, 1)


class Pair(NamedTuple):
    """A verb with an argument, and the interval ends with the truth for one row of each person and for sums."""

    function: Callable[..., Any]
    options: dict[str, Any]
    ends: Callable[[Any], tuple[Any, Any]]
    truth: Any
    of_sums: Any
    refused: tuple[str, ...] = ()


def mean_ends(result):
    return result.confidence_interval(LEVEL)


def ends_of_first(result):
    """Ends of the first group, or line."""
    lower, upper = result.confidence_interval(LEVEL)
    return lower[0], upper[0]


def slope_ends(result):
    lower, upper = result.confidence_interval(LEVEL)
    return lower[0], upper[0]


def description_ends(result):
    lower, upper = result.means.confidence_interval(LEVEL)
    return lower[0], upper[0]


def share_ends(result):
    """Ends of the share of the first key in the rows that are used."""
    lower, upper = result.confidence_interval(LEVEL)
    used = result.n_priv if result.rows_used is None else result.rows_used
    return lower[0] / used, upper[0] / used


def gaussian_ends(result):
    return result.confidence_interval(LEVEL, of="mean")


OF_X = {"x_pub": PUBLIC, "columns": ["x"]}
ROWS = ("two rows", "auto")
ONLY_ROWS = ("the mean", "the sum")
LABELED = {"x_pub": PUBLIC[["id", "x", "y", "w"]], "label": "y", "columns": ["x"]}
GROUPED: dict[str, Any] = {"by": "h", "groups": [0]}
PAIRS = {
    "mean": Pair(fpp.estimate_mean, OF_X, mean_ends, 10.0, 20.0),
    "mean, bounds": Pair(fpp.estimate_mean, {**OF_X, "bounds": (0, 60)}, mean_ends, 10.0, 20.0),
    "mean, by": Pair(fpp.estimate_mean, {**OF_X, **GROUPED}, ends_of_first, 10.0, 20.0),
    "mean, by text": Pair(
        fpp.estimate_mean,
        {**OF_X, "by": "g", "groups": ["a"]},
        ends_of_first,
        10.0,
        20.0,
        ONLY_ROWS,
    ),
    "mean, by and bounds": Pair(
        fpp.estimate_mean, {**OF_X, **GROUPED, "bounds": (0, 60)}, ends_of_first, 10.0, 20.0
    ),
    "mean, variance": Pair(
        fpp.estimate_mean, {**OF_X, "variance": 4.0}, mean_ends, 10.0, 20.0, ROWS
    ),
    "quantiles": Pair(fpp.quantiles, {**OF_X, "q": 0.5}, ends_of_first, 10.0, 20.0),
    "quantiles, bounds": Pair(
        fpp.quantiles, {**OF_X, "q": 0.5, "bounds": (0, 60)}, ends_of_first, 10.0, 20.0
    ),
    "quantiles, by": Pair(fpp.quantiles, {**OF_X, "q": 0.5, **GROUPED}, ends_of_first, 10.0, 20.0),
    "gaussian": Pair(fpp.estimate_gaussian, OF_X, gaussian_ends, 10.0, 20.0),
    "gaussian, bounds": Pair(
        fpp.estimate_gaussian, {**OF_X, "bounds": (0, 60)}, gaussian_ends, 10.0, 20.0
    ),
    "counts": Pair(fpp.value_counts, {"columns": "h", "keys": [0, 1]}, share_ends, 0.5, 0.5),
    "counts of text": Pair(
        fpp.value_counts, {"columns": "g", "keys": ["a", "b"]}, share_ends, 0.5, 0.5, ONLY_ROWS
    ),
    "counts, by": Pair(
        fpp.value_counts, {"columns": "z", "keys": [0], **GROUPED}, share_ends, 0.5, 0.5
    ),
    "describe": Pair(fpp.describe, OF_X, description_ends, 10.0, 20.0),
    "describe, bounds": Pair(
        fpp.describe, {**OF_X, "bounds": (0, 60)}, description_ends, 10.0, 20.0
    ),
    "describe, keys": Pair(
        fpp.describe,
        {"x_pub": PUBLIC, "columns": ["x", "g"], "keys": {"g": ["a", "b"]}},
        description_ends,
        10.0,
        20.0,
        ONLY_ROWS,
    ),
    "weighted mean": Pair(
        fpp.weighted_mean, {**OF_X, "norm_bound": 60.0}, mean_ends, 10.0, 20.0, ROWS
    ),
    "regression": Pair(fpp.linear_regression, LABELED, slope_ends, 2.0, 2.0),
    "regression, weights": Pair(
        fpp.linear_regression,
        {**LABELED, "weights_priv": "w", "weights_pub": "w", "weight_cap": 2.0},
        slope_ends,
        2.0,
        2.0,
    ),
    "regression, tails": Pair(
        fpp.linear_regression, {**LABELED, "tails": "light"}, slope_ends, 2.0, 2.0, ROWS
    ),
    "train": Pair(
        fpp.train, {**LABELED, "loss": "squared", "method": "newton"}, slope_ends, 2.0, 2.0
    ),
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
@pytest.mark.parametrize("stand", STANDS)
@pytest.mark.parametrize("name", PAIRS)
def test_the_truth_is_in_the_interval_or_nothing_is_spent(name, stand):
    pair = PAIRS[name]
    ledger = Ledger(ZCDP(0.5), relation=Neighbors.REPLACE_PERSON)
    asked = {**pair.options, **STANDS[stand], "person": "id", "ledger": ledger, "progress": False}
    if stand in pair.refused:
        with pytest.raises(FastPubPrivError):
            pair.function(PRIVATE, budget=ZCDP(0.5), **asked)
        assert ledger.entries == ()
        return
    result = pair.function(PRIVATE, budget=ZCDP(0.5), **asked)

    lower, upper = pair.ends(result)
    truth = pair.of_sums if stand == "the sum" else pair.truth
    assert np.all((lower <= truth) & (truth <= upper)), (lower, truth, upper)
    assert np.all(np.asarray(upper) - lower < 1.5)
    assert ledger.spent == result.spent.cost == ZCDP(0.5).cost


@pytest.mark.parametrize("keep", ["mean", "sum"])
@pytest.mark.parametrize("rows_per_person", [2, "auto"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_mean_or_a_sum_beside_several_rows_is_refused(name, keep, rows_per_person):
    ledger = Ledger(ZCDP(0.5), relation=Neighbors.REPLACE_PERSON)
    asked = {**PAIRS[name].options, "person": "id", "keep": keep, "ledger": ledger}
    with pytest.raises(InputError, match="makes one row of each person"):
        PAIRS[name].function(PRIVATE, budget=ZCDP(0.5), rows_per_person=rows_per_person, **asked)
    assert ledger.entries == ()


def test_planted_fault_a_sum_that_is_a_mean_is_caught(monkeypatch):
    added = person_table._added
    monkeypatch.setattr(person_table, "_added", lambda *given: added(*given[:3], "mean"))
    with pytest.raises(AssertionError):
        test_the_truth_is_in_the_interval_or_nothing_is_spent("mean", "the sum")
