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
    truth: float
    of_sums: float
    refused: tuple[str, ...] = ()


def mean_ends(result):
    return result.confidence_interval(LEVEL)


def ends_of_first(result):
    """Ends of the first group, line or slope."""
    lower, upper = result.confidence_interval(LEVEL)
    return lower[0], upper[0]


def description_ends(result):
    return ends_of_first(result.means)


def share_ends(result):
    """Ends of the share of the first key in the rows that are used."""
    lower, upper = ends_of_first(result)
    used = result.n_priv if result.rows_used is None else result.rows_used
    return lower / used, upper / used


def gaussian_ends(result):
    return result.confidence_interval(LEVEL, of="mean")


ROWS = ("two rows", "auto")
ONLY_ROWS = ("the mean", "the sum")
PAIRS = {}


def add_x(name, function, ends, *, refused=(), **options):
    """Add a verb that estimates the mean of x: 10 for one row of a person, 20 for the sum of the two."""
    options = {"x_pub": PUBLIC, "columns": ["x"], **options}
    PAIRS[name] = Pair(function, options, ends, 10.0, 20.0, refused)


def add_share(name, *, refused=(), **options):
    """Add a count whose first key has half of the persons, and so half of the rows."""
    PAIRS[name] = Pair(fpp.value_counts, options, share_ends, 0.5, 0.5, refused)


def add_slope(name, function, *, refused=(), **options):
    """Add a regression of y on x: the slope 2 is that of the sums too."""
    labeled = {"x_pub": PUBLIC[["id", "x", "y", "w"]], "label": "y", "columns": ["x"]}
    PAIRS[name] = Pair(function, {**labeled, **options}, ends_of_first, 2.0, 2.0, refused)


BOUNDS = (0, 60)
OF_HALF: dict[str, Any] = {"by": "h", "groups": [0]}
OF_TEXT: dict[str, Any] = {"by": "g", "groups": ["a"]}
WEIGHTED = {"weights_priv": "w", "weights_pub": "w", "weight_cap": 2.0}
KEYS_OF_TEXT = {"columns": ["x", "g"], "keys": {"g": ["a", "b"]}}
add_x("mean", fpp.estimate_mean, mean_ends)
add_x("mean, bounds", fpp.estimate_mean, mean_ends, bounds=BOUNDS)
add_x("mean, by", fpp.estimate_mean, ends_of_first, **OF_HALF)
add_x("mean, by text", fpp.estimate_mean, ends_of_first, refused=ONLY_ROWS, **OF_TEXT)
add_x("mean, by and bounds", fpp.estimate_mean, ends_of_first, bounds=BOUNDS, **OF_HALF)
add_x("mean, variance", fpp.estimate_mean, mean_ends, refused=ROWS, variance=4.0)
add_x("quantiles", fpp.quantiles, ends_of_first, q=0.5)
add_x("quantiles, bounds", fpp.quantiles, ends_of_first, q=0.5, bounds=BOUNDS)
add_x("quantiles, by", fpp.quantiles, ends_of_first, q=0.5, **OF_HALF)
add_x("gaussian", fpp.estimate_gaussian, gaussian_ends)
add_x("gaussian, bounds", fpp.estimate_gaussian, gaussian_ends, bounds=BOUNDS)
add_share("counts", columns="h", keys=[0, 1])
add_share("counts of text", refused=ONLY_ROWS, columns="g", keys=["a", "b"])
add_share("counts, by", columns="z", keys=[0], **OF_HALF)
add_x("describe", fpp.describe, description_ends)
add_x("describe, bounds", fpp.describe, description_ends, bounds=BOUNDS)
add_x("describe, keys", fpp.describe, description_ends, refused=ONLY_ROWS, **KEYS_OF_TEXT)
add_x("weighted mean", fpp.weighted_mean, mean_ends, refused=ROWS, norm_bound=60.0)
add_slope("regression", fpp.linear_regression)
add_slope("regression, weights", fpp.linear_regression, **WEIGHTED)
add_slope("regression, tails", fpp.linear_regression, refused=ROWS, tails="light")
add_slope("train", fpp.train, loss="squared", method="newton")


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
