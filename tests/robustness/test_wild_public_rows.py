"""Public rows as people have them, for every function that takes some: a finite answer, or advice before anything is spent."""

import numpy as np
import pandas as pd
import pytest
from public_calls import CALLS, PUBLIC_ONLY, quiet

import fastpubpriv as fpp
from fastpubpriv import ZCDP, Ledger
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import Cost

RNG = np.random.default_rng(31)
DIM = 4
CENTER = np.array([10.0, -3.0, 500.0, 0.1])
SPREAD = np.array([2.0, 1.0, 80.0, 0.01])
PRIVATE = RNG.normal(CENTER, SPREAD, (1000, DIM))
PUBLIC = RNG.normal(CENTER, SPREAD, (30, DIM))
NAMES = ("height", "angle", "weight", "share")
OPTIONS = {"budget": ZCDP(0.5), "random_state": 3, "threads": 1, "progress": False}


def with_column(rows, j, values):
    changed = rows.copy()
    changed[:, j] = values
    return changed


def one_hot(count):
    number = RNG.normal(size=count)
    levels = np.eye(3)[RNG.integers(0, 3, count)]
    return np.column_stack([number, levels])


def collinear(rows):
    return with_column(rows, 3, 2.0 * rows[:, 0] - rows[:, 1])


def twice(rows):
    return rows[:, [0, 0, 2, 3]]


RARE = with_column(PRIVATE, 3, RNG.random(1000) < 0.01)
UNITS = np.array([1e12, 1.0, 1e-12, 1.0])
OUTLIER = [1e6, -3.0, 500.0, 0.1]
# Private rows, and the public rows beside them.
SITUATIONS = {
    "ordinary": (PRIVATE, PUBLIC),
    "a constant column": (PRIVATE, with_column(PUBLIC, 1, 7.0)),
    "a constant column on both sides": (with_column(PRIVATE, 1, 7.0), with_column(PUBLIC, 1, 7.0)),
    "all columns constant": (PRIVATE, np.repeat(PUBLIC[:1], 30, axis=0)),
    "all zero": (PRIVATE * 0.0, PUBLIC * 0.0),
    "collinear": (collinear(PRIVATE), collinear(PUBLIC)),
    "a column twice": (twice(PRIVATE), twice(PUBLIC)),
    "a rare event that no public row saw": (RARE, with_column(PUBLIC, 3, 0.0)),
    "a rare event that one public row saw": (RARE, with_column(PUBLIC, 3, np.arange(30) == 4)),
    "one-hot columns": (one_hot(1000), one_hot(30)),
    "one row": (PRIVATE, PUBLIC[:1]),
    "two rows": (PRIVATE, PUBLIC[:2]),
    "two equal rows": (PRIVATE, np.repeat(PUBLIC[:1], 2, axis=0)),
    "as many rows as columns": (PRIVATE, PUBLIC[:DIM]),
    "shifted": (PRIVATE, PUBLIC + 20.0 * SPREAD),
    "in another unit": (PRIVATE, PUBLIC * 100.0),
    "far too narrow": (PRIVATE, CENTER + 0.01 * (PUBLIC - CENTER)),
    "one column in another unit": (PRIVATE, PUBLIC * [1.0, 1.0, 1e6, 1.0]),
    "an outlier": (PRIVATE, np.vstack([OUTLIER, PUBLIC[1:]])),
    "columns of very different scale": (PRIVATE * UNITS, PUBLIC * UNITS),
}
# Calls of the table, and what they are given otherwise.
WILD_CALLS = {
    "estimate_mean": {},
    "estimate_mean, public covariance": {},
    "weighted_mean": {"norm_bound": 200.0, "center": "public"},
    "estimate_gaussian, auto": {},
    "estimate_gaussian, pairs": {},
    "learn_separated_mixture, one shot": {"method": "auto"},
    "learn_separated_mixture, public": {},
    "learn_axis_aligned_mixture, dp_em": {},
}
# What an error must hold to be of use.
ADVICE = ("pass", "drop", "fill", "give", "choose", "fewer", "needed here")


def attempt(call, *args, **options):
    """The result and no words, or no result and the words of the error."""
    try:
        return call(*args, **options), ""
    except InputError as error:
        return None, str(error)


def check_finite(result):
    for field in ("mean", "covariance", "means", "covariances", "weights"):
        assert np.isfinite(getattr(result, field, 0.0)).all(), field


def check_covariances(result):
    """Correlations that belong to a covariance have no negative eigenvalue, but for rounding."""
    matrices = getattr(result, "covariances", getattr(result, "covariance", np.eye(1)))
    for matrix in matrices.reshape(-1, *matrices.shape[-2:]):
        std = np.sqrt(np.diag(matrix))
        correlation = matrix / np.outer(std, std)
        assert np.linalg.eigvalsh(correlation)[0] > -1e-9, correlation


def is_advice(words, situation):
    return situation != "ordinary" and any(word in words for word in ADVICE)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", WILD_CALLS)
def test_a_finite_answer_or_advice(name, situation):
    private, public = SITUATIONS[situation]
    ledger = Ledger(ZCDP(10))
    given = {**OPTIONS, **WILD_CALLS[name], "ledger": ledger}
    result, words = attempt(CALLS[name], private, x_pub=public, **given)
    nothing = Cost.zero(ZCDP)
    if result is None:
        assert is_advice(words, situation), words
        assert ledger.spent == nothing, "an error after the debit"
        return
    check_finite(result)
    check_covariances(result)
    assert ledger.spent.amounts in (ZCDP(0.5).amounts, nothing.amounts)
    assert result.summary()
    assert len(result._repr_html_()) > 100


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", PUBLIC_ONLY)
def test_functions_of_public_rows_alone(name, situation):
    _, public = SITUATIONS[situation]
    found, words = attempt(PUBLIC_ONLY[name], public)
    assert not words or is_advice(words, situation), words
    for field in ("factor", "means", "center"):
        assert np.isfinite(getattr(found, field, 0.0)).all(), field


@pytest.mark.parametrize("name", WILD_CALLS)
def test_fewer_public_rows_than_columns(name):
    rng = np.random.default_rng(5)
    stds = np.arange(1.0, 13.0)
    private = rng.normal(size=(2000, 12)) * stds
    public = rng.normal(size=(5, 12)) * stds
    result, words = attempt(CALLS[name], private, x_pub=public, **OPTIONS, **WILD_CALLS[name])
    if result is None:
        assert "at least" in words
        return
    check_finite(result)


def estimated(function, situation):
    private, public = SITUATIONS[situation]
    named = pd.DataFrame(private, columns=NAMES)
    x_pub = pd.DataFrame(public, columns=NAMES)
    return quiet(function, named, x_pub=x_pub, **OPTIONS)


BORROWED = [
    ("a constant column", "angle"),
    ("a constant column on both sides", "angle"),
    ("a rare event that no public row saw", "share"),
]


@pytest.mark.parametrize(("situation", "name"), BORROWED)
def test_a_gaussian_names_the_columns_that_borrow_a_scale(situation, name):
    result = estimated(fpp.estimate_gaussian, situation)
    assert list(result.diagnostics["fallback_columns"]) == [name]
    _, after = result.summary().split("No public scale in", 1)
    assert name in after.splitlines()[0]


def test_a_mean_gives_a_constant_column_exactly_with_its_reason():
    result = estimated(fpp.estimate_mean, "a constant column on both sides")
    assert result.part_reasons[1] == ("constant",)
    assert result.mean[1] == 7.0


def test_a_mean_tells_the_status_of_each_column():
    result = estimated(fpp.estimate_mean, "a constant column on both sides")
    expected = dict(zip(NAMES, result.part_status, strict=True))
    assert result.to_frame()["status"].to_dict() == expected


def test_a_mean_says_which_column_it_cannot_see():
    result = estimated(fpp.estimate_mean, "a rare event that no public row saw")
    assert result.part_status[3] != "ok"


# Where the public rows say nothing true about place or scale, the counts find both.
MISLED = [
    "ordinary",
    "a constant column",
    "all columns constant",
    "collinear",
    "a column twice",
    "one-hot columns",
    "one row",
    "two equal rows",
    "shifted",
    "far too narrow",
    "columns of very different scale",
]


@pytest.mark.parametrize("situation", MISLED)
def test_a_mean_needs_little_of_the_public_rows(situation):
    private, _ = SITUATIONS[situation]
    result = estimated(fpp.estimate_mean, situation)
    error = np.abs(result.mean - private.mean(axis=0))
    assert np.all(error <= 0.2 * private.std(axis=0)), error
