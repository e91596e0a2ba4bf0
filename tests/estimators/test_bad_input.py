"""What the means refuse before any private row is read and before any debit: spreads, public rows and steps that do not do."""

import warnings

import numpy as np
import pytest
from helpers.errors import raises
from spies import SpyLedger, SpyRows

from fastpubpriv import ZCDP, PureDP, coinpress_mean, estimate_mean, weighted_mean
from fastpubpriv.errors import InputError

DIM = 3
PUBLIC = np.random.default_rng(1).standard_normal((30, DIM))


def call_estimate(x, **options):
    return estimate_mean(x, **{"x_pub": PUBLIC, **options})


def call_public_covariance(x, **options):
    return estimate_mean(x, **{"x_pub": PUBLIC, "covariance": "public", **options})


def call_coinpress(x, **options):
    return coinpress_mean(x, **{"center": 0.0, "radius": 10.0, **options})


def call_weighted(x, **options):
    return weighted_mean(x, **{"x_pub": PUBLIC, "norm_bound": 5.0, "row_weight": "private", **options})


def good(n=20_000):
    return np.random.default_rng(0).standard_normal((n, DIM))


def refusal(call, rows=None, **options):
    """Return the words of the error that a call raises before it reads rows or debits."""
    log = []
    given = {"budget": ZCDP(0.5), "ledger": SpyLedger(ZCDP(1000), log), **options}
    with warnings.catch_warnings(action="ignore"):
        error = raises(InputError, None, call, SpyRows(good(500), log) if rows is None else rows, **given)
    assert log == []
    return str(error)


@pytest.mark.parametrize("public", [
    PUBLIC[:DIM], np.vstack([PUBLIC[:DIM], PUBLIC[0]]), np.ones((50, DIM)),
], ids=["45 m < d + 1", "46 rank-deficient", "47 duplicates"])  # fmt: skip
def test_public_rows_without_a_covariance(public):
    assert "public rows" in refusal(call_public_covariance, x_pub=public)
    assert np.all(np.isfinite(call_estimate(good(), budget=ZCDP(0.5), x_pub=public).mean))  # a mean needs no covariance


BAD_KNOWN = {
    "negative": -1.0, "zero": 0.0, "NaN": np.nan, "vector with zero": [1.0, 0.0, 1.0], "length": [1.0, 2.0],
    "indefinite": np.diag([1.0, -1.0, 1.0]), "asymmetric": np.triu(np.ones((DIM, DIM))), "shape": np.eye(DIM + 1),
    "text": "identity", "ragged": [[1.0], [1.0, 2.0]], "3-d": np.ones((DIM, DIM, DIM)), "bool": True, "dict": {},
}  # fmt: skip


@pytest.mark.parametrize("call", [call_estimate, call_coinpress])
@pytest.mark.parametrize("argument", ["covariance", "variance"])
@pytest.mark.parametrize("spread", BAD_KNOWN.values(), ids=BAD_KNOWN)
def test_known_spread(call, argument, spread):
    assert argument in refusal(call, **{argument: spread})


@pytest.mark.parametrize("call", [call_estimate, call_coinpress])
def test_a_number_is_a_variance_and_a_matrix_a_covariance(call):
    for spread in (4.0, np.array(4.0), np.full(DIM, 4.0), [4.0] * DIM, (4.0,) * DIM):
        assert "variance=" in refusal(call, covariance=spread)
    for spread in (np.eye(DIM), np.eye(DIM).tolist()):
        assert "covariance=" in refusal(call, variance=spread)
    assert "not both" in refusal(call, variance=1.0, covariance=np.eye(DIM))


@pytest.mark.parametrize("call", [call_estimate, call_public_covariance, call_weighted])
def test_public_rows_are_the_private_rows(call):
    rows = good()
    for public in (rows, rows[:10], rows[::-1], rows[5]):
        message = refusal(call, rows, x_pub=public)
        assert "split the rows" in message or "private or public" in message
    assert np.all(np.isfinite(call(rows, budget=ZCDP(0.5), x_pub=rows.copy()).mean))  # equal content cannot be seen


@pytest.mark.parametrize("budget", [PureDP(2.0**-20), PureDP(2.0**-30), ZCDP(2.0**-50), ZCDP(2.0**-60)])
def test_steps_that_the_budget_does_not_reach(budget):
    message = refusal(call_coinpress, steps=1000, budget=budget)
    assert "steps" in message or "no integer grid" in message
