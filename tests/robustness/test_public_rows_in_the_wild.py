"""Public rows as people have them, given to every function that takes some: a finite answer, or advice before anything is spent."""

import numpy as np
import pandas as pd
import pytest
from public_calls import quiet

import fastpubpriv as fpp
from fastpubpriv import ZCDP, Ledger
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import Cost

RNG = np.random.default_rng(31)
DIM, CENTER, SPREAD = 4, np.array([10.0, -3.0, 500.0, 0.1]), np.array([2.0, 1.0, 80.0, 0.01])
PRIVATE, PUBLIC = RNG.normal(CENTER, SPREAD, (1000, DIM)), RNG.normal(CENTER, SPREAD, (30, DIM))
NAMES = ("height", "angle", "weight", "share")


def with_column(rows, j, values):
    changed = rows.copy()
    changed[:, j] = values
    return changed


def one_hot(count):
    return np.column_stack([RNG.normal(size=count), np.eye(3)[RNG.integers(0, 3, count)]])


RARE = with_column(PRIVATE, 3, RNG.random(1000) < 0.01)
SITUATIONS = {
    "ordinary": (PRIVATE, PUBLIC),
    "a constant column": (PRIVATE, with_column(PUBLIC, 1, 7.0)),
    "a constant column on both sides": (with_column(PRIVATE, 1, 7.0), with_column(PUBLIC, 1, 7.0)),
    "all columns constant": (PRIVATE, np.repeat(PUBLIC[:1], 30, axis=0)),
    "all zero": (PRIVATE * 0.0, PUBLIC * 0.0),
    "collinear": (
        with_column(PRIVATE, 3, 2.0 * PRIVATE[:, 0] - PRIVATE[:, 1]),
        with_column(PUBLIC, 3, 2.0 * PUBLIC[:, 0] - PUBLIC[:, 1]),
    ),
    "a column twice": (PRIVATE[:, [0, 0, 2, 3]], PUBLIC[:, [0, 0, 2, 3]]),
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
    "an outlier": (PRIVATE, np.vstack([[1e6, -3.0, 500.0, 0.1], PUBLIC[1:]])),
    "columns of very different scale": (PRIVATE * [1e12, 1.0, 1e-12, 1.0], PUBLIC * [1e12, 1.0, 1e-12, 1.0]),
}
CALLS = {
    "estimate_mean": (fpp.estimate_mean, {}),
    "estimate_mean, public covariance": (fpp.estimate_mean, {"covariance": "public"}),
    "weighted_mean": (fpp.weighted_mean, {"norm_bound": 200.0, "center": "public"}),
    "estimate_gaussian": (fpp.estimate_gaussian, {}),
    "estimate_gaussian, pairs": (fpp.estimate_gaussian, {"method": "pairs"}),
    "learn_separated_mixture": (fpp.learn_separated_mixture, {"n_components": 2, "min_weight": 0.2}),
    "learn_separated_mixture, public_pca": (
        fpp.learn_separated_mixture,
        {"n_components": 2, "min_weight": 0.2, "method": "public_pca"},
    ),
    "learn_axis_aligned_mixture": (fpp.learn_axis_aligned_mixture, {"n_components": 2, "method": "dp_em"}),
}
PUBLIC_CALLS = {
    "precondition": lambda p: fpp.precondition(p).factor,
    "public_only": lambda p: fpp.public_only(p, n_components=2).means,
    "supercluster": lambda p: fpp.supercluster(p, n_components=2).center,
    "terrific_ball": lambda p: getattr(fpp.terrific_ball(p, min_count=2, radius_max=1e3), "center", np.zeros(1)),
}
# What an error must hold to be of use.
ADVICE = ("pass", "drop", "fill", "give", "choose", "fewer", "needed here")


def attempt(call, *args, **options):
    """The result and no words, or no result and the words of the error."""
    try:
        return quiet(call, *args, **options), ""
    except InputError as error:
        return None, str(error)


def is_advice(words, situation):
    return situation != "ordinary" and any(word in words for word in ADVICE)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", CALLS)
def test_a_finite_answer_or_advice(name, situation):
    function, options = CALLS[name]
    private, public = SITUATIONS[situation]
    ledger = Ledger(ZCDP(10))
    given = {"budget": ZCDP(0.5), "ledger": ledger, "random_state": 3, "threads": 1, "progress": False}
    result, words = attempt(function, private, x_pub=public, **given, **options)
    if result is None:
        assert is_advice(words, situation), words
        assert ledger.spent == Cost.zero(ZCDP)
        return
    for field in ("mean", "covariance", "means", "covariances", "weights"):
        assert np.isfinite(getattr(result, field, 0.0)).all(), field
    matrices = getattr(result, "covariances", getattr(result, "covariance", np.eye(1)))
    for matrix in matrices.reshape(-1, *matrices.shape[-2:]):
        spread = np.sqrt(np.diag(matrix))
        assert np.linalg.eigvalsh(matrix / np.outer(spread, spread))[0] > -1e-9
    assert ledger.spent.amounts in (ZCDP(0.5).amounts, Cost.zero(ZCDP).amounts)
    assert result.summary()
    assert len(result._repr_html_()) > 100


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", PUBLIC_CALLS)
def test_functions_of_public_rows_alone(name, situation):
    found, words = attempt(PUBLIC_CALLS[name], SITUATIONS[situation][1])
    assert is_advice(words, situation) if found is None else np.isfinite(found).all(), words


@pytest.mark.parametrize("name", CALLS)
def test_fewer_public_rows_than_columns(name):
    function, options = CALLS[name]
    rng = np.random.default_rng(5)
    private, public = (
        rng.normal(size=(2000, 12)) * np.arange(1.0, 13.0),
        rng.normal(size=(5, 12)) * np.arange(1.0, 13.0),
    )
    given = {"budget": ZCDP(0.5), "random_state": 3, "threads": 1, "progress": False}
    result, words = attempt(function, private, x_pub=public, **given, **options)
    if result is None:
        assert "at least" in words
        return
    for field in ("mean", "covariance", "means", "covariances", "weights"):
        assert np.isfinite(getattr(result, field, 0.0)).all(), field


def estimated(function, situation):
    private, public = (pd.DataFrame(rows, columns=NAMES) for rows in SITUATIONS[situation])
    given = {"budget": ZCDP(0.5), "random_state": 3, "threads": 1, "progress": False}
    return quiet(function, private, x_pub=public, **given), private.to_numpy()


@pytest.mark.parametrize(("situation", "name"), [
    ("a constant column", "angle"),
    ("a constant column on both sides", "angle"),
    ("a rare event that no public row saw", "share"),
])  # fmt: skip
def test_a_gaussian_names_the_columns_that_borrow_a_scale(situation, name):
    result, _ = estimated(fpp.estimate_gaussian, situation)
    assert list(result.diagnostics["fallback_columns"]) == [name]
    assert name in result.summary().split("No public scale in")[1].splitlines()[0]


def test_a_mean_says_which_columns_it_cannot_see():
    result, _ = estimated(fpp.estimate_mean, "a constant column on both sides")
    assert result.status[1] == "point_mass"
    assert result.mean[1] == 7.0
    assert result.to_frame()["status"].to_dict() == dict(zip(NAMES, result.status, strict=True))
    result, _ = estimated(fpp.estimate_mean, "a rare event that no public row saw")
    assert result.status[3] != "resolved"


# Where the public rows say nothing true about place or scale, the counts find both.
@pytest.mark.parametrize("situation", [
    "ordinary", "a constant column", "all columns constant", "collinear", "a column twice", "one-hot columns",
    "one row", "two equal rows", "shifted", "far too narrow", "columns of very different scale",
])  # fmt: skip
def test_a_mean_needs_little_of_the_public_rows(situation):
    result, private = estimated(fpp.estimate_mean, situation)
    assert np.all(np.abs(result.mean - private.mean(axis=0)) <= 0.2 * private.std(axis=0))
