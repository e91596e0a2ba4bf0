"""A warning names the line of the caller, however deep in the package it is given."""

import re
import warnings
from functools import partial
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


def private_mean(**given):
    fpp.estimate_mean(ROWS, x_pub=PUBLIC, **given)


def mean_by_sign(rows, **given):
    fpp.estimate_mean(rows, x_pub=rows[:40].copy(), by=-1, **given)


def clipped_covariance():
    fpp.coinpress_covariance(100.0 * ROWS, scale=1.0, **GIVEN)


def full_gaussian():
    fpp.estimate_gaussian(ROWS, x_pub=PUBLIC, structure="full", **SMALL)


def regression():
    fpp.linear_regression(ROWS, x_pub=PUBLIC, label=-1, method="newton", **TINY)


def directions():
    fpp.private_pca(ROWS, center=0.0, radius=9.0, n_components=1, **TINY)


def mixture():
    fpp.learn_separated_mixture(ROWS, x_pub=PUBLIC, n_components=2, **SMALL)


CALLS = {
    "random_state is an int": partial(private_mean, **GIVEN),
    "delta = 0.1": partial(private_mean, budget=fpp.ApproxDP(1.0, 0.1)),
    "beyond bounds=": partial(private_mean, bounds=(5, 6), budget=fpp.ZCDP(1)),
    "estimate_mean:": partial(private_mean, **TINY),
    "in no group": partial(mean_by_sign, BY_SIGN, groups=[7.0], **TINY),
    "): -1, 1": partial(mean_by_sign, EQUAL, **GIVEN),
    "quantiles:": lambda: fpp.quantiles(ROWS, x_pub=PUBLIC, **TINY),
    "gain little or nothing": regression,
    "private_pca:": directions,
    "clipped (": clipped_covariance,
    "unresolved (": full_gaussian,
    "component 1": mixture,
    "without a ledger": twice,
}


@pytest.mark.parametrize("words", CALLS)
def test_a_warning_is_at_the_line_of_the_caller(words):
    with warnings.catch_warnings(record=True, action="always") as caught:
        CALLS[words]()
    messages = [str(warning.message) for warning in caught]
    assert any(words in message for message in messages), messages
    assert {warning.filename for warning in caught} == {__file__}


def test_all_warnings_are_given_in_one_place():
    package = Path(fpp.__file__).parent
    gives_warnings = re.compile(r"warnings\.warn\(|stacklevel")
    files = [
        path for path in package.rglob("*.py") if gives_warnings.search(path.read_text("utf-8"))
    ]
    assert [path.name for path in files] == ["errors.py"]
