"""Directions in which public rows cannot vary: they have no coordinate, or no part in a prediction."""

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, linear_regression, logistic_regression, train
from fastpubpriv.regression.coordinates import Whitener, complement
from fastpubpriv.regression.inputs import make_design

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
BUDGET = ZCDP(0.5)


def levels_table(levels, n, seed):
    """A normal column, a column of codes of equal shares, and the mean of a label of unit noise."""
    rng = np.random.default_rng([seed, levels])
    codes = rng.integers(0, levels, n)
    number = rng.normal(size=n)
    mean = number + rng.normal(size=levels)[codes]
    return np.column_stack([number, codes]), mean, mean + rng.normal(size=n)


@pytest.mark.parametrize(("levels", "m"), [(3, 60), (6, 100), (12, 150)])
def test_public_excess_counts_no_sum_of_all_levels_of_a_column(levels, m):
    """Means over 20 tables: with the sum as a coordinate it is 6, 5 and 2 times the true one."""
    predicted = []
    true = []
    for seed in range(20):
        x, mean, y = levels_table(levels, m + 3000, seed)
        result = seeded(
            linear_regression,
            x[m:],
            y[m:],
            x_pub=x[:m],
            y_pub=y[:m],
            budget=BUDGET,
            categories={"x1": "public"},
            method="throw_away",
        )
        predicted.append(result.public_excess)
        true.append(np.mean((result.predict(x[m:]) - mean[m:]) ** 2))
    assert 1.0 / 1.5 < np.mean(predicted) / np.mean(true) < 1.5


def test_a_column_given_twice_adds_nothing_to_the_public_excess():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3200, 3))
    y = x @ [1.0, -1.0, 0.5] + rng.normal(size=3200)
    once, twice = (
        seeded(
            linear_regression,
            rows[200:],
            y[200:],
            x_pub=rows[:200],
            y_pub=y[:200],
            budget=BUDGET,
            method="throw_away",
        ).public_excess
        for rows in (x, np.column_stack([x, x[:, 0]]))
    )
    assert twice == pytest.approx(once, rel=0.1)


def test_all_levels_of_a_column_have_one_coordinate_less():
    x, _, _ = levels_table(4, 200, 0)
    design, _ = make_design(x, ("x0", "x1"), {"x1": "public"})
    terms = design.standardize(x)
    sums = design.constant_sums(terms)
    whitener = Whitener.of(terms, np.ones(len(x)), sums)
    # a number and four levels, less one sum, and the intercept
    assert whitener(terms).shape == (200, 5)
    np.testing.assert_allclose(terms - whitener.mean, whitener(terms)[:, 1:] @ whitener.to_terms)


def test_levels_without_those_of_all_rows_have_no_constant_sum():
    x, _, _ = levels_table(4, 200, 0)
    design, _ = make_design(x, ("x0", "x1"), {"x1": [0.0, 1.0]})
    kept = np.flatnonzero(np.array(design.terms) != "x1=other")
    without_other = design.standardize(x) * np.isin(np.arange(4), kept)
    assert len(design.constant_sums(design.standardize(x))) == 1
    assert len(design.constant_sums(without_other)) == 0


def test_the_complement_of_sums_is_orthonormal_and_across_them():
    sums = np.array([[0.0, 1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0, 1.0]])
    basis = complement(sums)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(sums @ basis, 0.0, atol=1e-15)


FITS = {
    "squared": lambda *rows, **given: linear_regression(*rows, **given),
    "logistic": lambda *rows, **given: logistic_regression(*rows, **given),
    "huber": lambda *rows, **given: train(*rows, loss="huber", **given),
    "softmax": lambda *rows, **given: train(*rows, loss="softmax", method="newton", **given),
}


@pytest.mark.parametrize("loss", FITS)
def test_a_private_row_of_a_category_that_no_public_row_has_is_ignored(loss):
    """As if its label were missing, in the same bits."""
    x, mean, y = levels_table(3, 4000, 1)
    if loss in ("logistic", "softmax"):
        y = (y > 0.0).astype(float)
    if loss == "softmax":
        y += mean > 1.0
    m = 400
    x[m::20, 1] = 7.0
    without = y.copy()
    without[m::20] = np.nan
    found = [
        seeded(
            FITS[loss],
            x[m:],
            labels[m:],
            x_pub=x[:m],
            y_pub=y[:m],
            budget=BUDGET,
            categories={"x1": "public"},
        ).coefficients
        for labels in (y, without)
    ]
    np.testing.assert_array_equal(*found)


def test_intervals_of_named_categories_hold_beside_unnamed_ones():
    """A twentieth of the rows has a category of its own with labels 2 higher: 60 intervals of 95 % hold in 54 or more."""
    held = []
    for seed in range(15):
        rng = np.random.default_rng([7, seed])
        shares = [0.57, 0.285, 0.095, 0.05]
        codes = rng.choice(4, p=shares, size=8300)
        codes[:300] = np.where(codes[:300] == 3, 0, codes[:300])
        effects = np.array([0.0, 1.0, -1.0, 2.0])
        x = np.column_stack([rng.normal(size=8300), codes])
        y = x[:, 0] + effects[codes] + rng.normal(size=8300)
        result = seeded(
            linear_regression,
            x[300:],
            y[300:],
            x_pub=x[:300],
            y_pub=y[:300],
            budget=BUDGET,
            categories={"x1": "public"},
            method="newton",
        )
        middle = np.bincount(codes[:300]) / 300.0 @ effects[:3]
        lower, upper = result.confidence_interval()
        wanted = np.append(1.0, effects[:3] - middle)
        held += ((lower <= wanted) & (wanted <= upper)).tolist()
    assert np.sum(held) >= 54
