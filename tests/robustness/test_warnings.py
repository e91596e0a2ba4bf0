"""A warning names the line of the caller, however deep in the package it is given."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import fastpubpriv as fpp
from fastpubpriv.sklearn import SemiPrivateLinearRegression

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((400, 3))
PUBLIC = RNG.standard_normal((40, 3))
TINY = {"budget": fpp.ZCDP(1e-9), "progress": False}
GIVEN = {"budget": fpp.ZCDP(0.5), "random_state": 1, "progress": False}
SMALL = {**GIVEN, "budget": fpp.ZCDP(1e-3)}
EQUAL = np.column_stack([np.ones(400), np.sign(ROWS[:, 2])])
BY_SIGN = np.column_stack([ROWS[:, :2], np.sign(ROWS[:, 2])])


def twice():
    for _ in range(2):
        model = SemiPrivateLinearRegression(fpp.ZCDP(0.5))
        model.fit(ROWS[:, :2], ROWS[:, 2], X_pub=PUBLIC[:, :2], y_pub=PUBLIC[:, 2])


CALLS = {
    "seed": (lambda: fpp.estimate_mean(ROWS, x_pub=PUBLIC, **GIVEN), "random_state is an int"),
    "delta": (
        lambda: fpp.estimate_mean(ROWS, x_pub=PUBLIC, budget=fpp.ApproxDP(1.0, 0.1)),
        "delta = 0.1",
    ),
    "bounds": (
        lambda: fpp.estimate_mean(ROWS, x_pub=PUBLIC, bounds=(5, 6), budget=fpp.ZCDP(1)),
        "beyond bounds=",
    ),
    "mean": (lambda: fpp.estimate_mean(ROWS, x_pub=PUBLIC, **TINY), "estimate_mean:"),
    "groups": (
        lambda: fpp.estimate_mean(BY_SIGN, x_pub=BY_SIGN[:40].copy(), by=-1, groups=[7.0], **TINY),
        "in no group",
    ),
    "quantiles": (lambda: fpp.quantiles(ROWS, x_pub=PUBLIC, **TINY), "quantiles:"),
    "regression": (
        lambda: fpp.linear_regression(ROWS, x_pub=PUBLIC, label=-1, method="newton", **TINY),
        "gain little or nothing",
    ),
    "components": (
        lambda: fpp.private_pca(ROWS, center=0.0, radius=9.0, n_components=1, **TINY),
        "private_pca:",
    ),
    "covariance": (lambda: fpp.coinpress_covariance(100.0 * ROWS, scale=1.0, **GIVEN), "clipped ("),
    "Gaussian": (
        lambda: fpp.estimate_gaussian(ROWS, x_pub=PUBLIC, structure="full", **SMALL),
        "unresolved (",
    ),
    "one group": (
        lambda: fpp.estimate_mean(EQUAL, x_pub=EQUAL[:40].copy(), by=-1, **GIVEN),
        "): -1, 1",
    ),
    "mixture": (
        lambda: fpp.learn_separated_mixture(ROWS, x_pub=PUBLIC, n_components=2, **SMALL),
        "component 1",
    ),
    "fits": (twice, "without a ledger"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_is_at_the_line_of_the_caller(name):
    call, text = CALLS[name]
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    assert any(text in str(each.message) for each in caught), [str(each.message) for each in caught]
    assert {each.filename for each in caught} == {__file__}


def test_all_warnings_are_given_in_one_place():
    package = Path(fpp.__file__).parent
    found = {
        path.name
        for path in package.rglob("*.py")
        if re.search(r"warnings\.warn\(|stacklevel", path.read_text("utf-8"))
    }
    assert found == {"errors.py"}
