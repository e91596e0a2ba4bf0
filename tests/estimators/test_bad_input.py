"""The bad-input catalogue, groups A (values), B (form), C (public data), D (privacy parameters), F (state), for each estimator.

Group A must be silent: neither an exception nor a warning may depend on private values. The others are typed errors
before any private row is read and before any debit, with advice, and never with private content.
"""

import contextlib
import io
import itertools
import logging
import sys
import traceback
import warnings

import numpy as np
import pytest
from helpers.errors import raises
from spies import SpyLedger, SpyRows

from fastpubpriv import ZCDP, ApproxDP, PureDP, coinpress_mean, estimate_mean, weighted_mean
from fastpubpriv.errors import FastPubPrivError, InputError

DIM, ROWS = 3, 20_000
PUBLIC = np.random.default_rng(1).standard_normal((30, DIM))
MARKER, MARKER_TEXT, MARKER_DIGITS = 1.23456789e77, "Alice-SSN-123", "1.23456789"


def call_estimate(x, budget, **options):
    return estimate_mean(x, **{"x_pub": PUBLIC, "budget": budget, **options})


def call_public_covariance(x, budget, **options):
    return estimate_mean(x, **{"x_pub": PUBLIC, "covariance": "public", "budget": budget, **options})


def call_coinpress(x, budget, **options):
    return coinpress_mean(x, **{"center": 0.0, "radius": 10.0, "budget": budget, **options})


def call_weighted(x, budget, **options):
    return weighted_mean(
        x, **{"x_pub": PUBLIC, "norm_bound": 5.0, "row_weight": "private", "budget": budget, **options}
    )


ESTIMATORS = {
    "estimate_mean": call_estimate, "estimate_mean, public covariance": call_public_covariance,
    "coinpress_mean": call_coinpress, "weighted_mean": call_weighted,
}  # fmt: skip
WITH_PUBLIC = {name: call for name, call in ESTIMATORS.items() if name != "coinpress_mean"}
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}

every = pytest.mark.parametrize("call", ESTIMATORS.values(), ids=ESTIMATORS)


def good(n=ROWS):
    return np.random.default_rng(0).standard_normal((n, DIM))


class Watch:
    """Nothing may be debited, printed, logged or quoted while a call fails."""

    def __init__(self, caplog):
        self.caplog = caplog
        self.log = []
        self.ledger = SpyLedger(ZCDP(1000), self.log)

    def fails(self, action, kind=FastPubPrivError, *, quotes=(MARKER_TEXT, "1.23456789", "e+77")):
        stream = io.StringIO()
        with contextlib.redirect_stderr(stream), contextlib.redirect_stdout(stream), self.caplog.at_level(0):
            with pytest.raises(kind) as caught:
                action(self.ledger)
            error = caught.value
            assert isinstance(error, FastPubPrivError)
            texts, seen = [stream.getvalue(), self.caplog.text], error
            while seen is not None:
                texts += [str(seen), repr(seen), repr(seen.args), repr(vars(seen))]
                seen = seen.__cause__ or seen.__context__
            texts.append("".join(traceback.format_exception(error)))
        for text, quote in itertools.product(texts, quotes):
            assert quote not in text
        assert self.log == []
        assert self.ledger.spent.is_zero
        return str(error)


@pytest.fixture
def watch(caplog):
    return Watch(caplog)


COVARIANCES = {
    "45 m < d + 1": {"x_pub": PUBLIC[:DIM]},
    "46 rank-deficient": {"x_pub": np.vstack([PUBLIC[:DIM], PUBLIC[0]])},
    "47 duplicates": {"x_pub": np.ones((50, DIM))},
}
BAD_KNOWN = {
    "negative": -1.0, "zero": 0.0, "NaN": np.nan, "vector with zero": [1.0, 0.0, 1.0], "length": [1.0, 2.0],
    "indefinite": np.diag([1.0, -1.0, 1.0]), "asymmetric": np.triu(np.ones((DIM, DIM))), "shape": np.eye(DIM + 1),
    "text": "identity", "ragged": [[1.0], [1.0, 2.0]], "3-d": np.ones((DIM, DIM, DIM)), "bool": True, "dict": {},
}  # fmt: skip


def refused(call, options, watch, kind=InputError, budget=None):
    rows = SpyRows(np.full((500, DIM), MARKER), watch.log)

    def action(ledger):
        with warnings.catch_warnings(action="ignore"):
            call(rows, **{"budget": budget or ZCDP(0.5), "ledger": ledger, **options})

    return watch.fails(action, kind)


@pytest.mark.parametrize("options", COVARIANCES.values(), ids=COVARIANCES)
def test_group_c_public_rows_without_a_covariance(options, watch):
    assert "public rows" in refused(call_public_covariance, options, watch)
    assert np.all(np.isfinite(call_estimate(good(), ZCDP(0.5), **options).mean))  # a mean needs no covariance


@pytest.mark.parametrize("call", [call_estimate, call_coinpress])
@pytest.mark.parametrize("argument", ["covariance", "variance"])
@pytest.mark.parametrize("spread", BAD_KNOWN.values(), ids=BAD_KNOWN)
def test_group_c_known_spread(call, argument, spread, watch):
    assert argument in refused(call, {argument: spread}, watch)


@pytest.mark.parametrize("call", [call_estimate, call_coinpress])
def test_a_number_is_a_variance_and_a_matrix_a_covariance(call, watch):
    for spread in (4.0, np.array(4.0), np.full(DIM, 4.0), [4.0] * DIM, (4.0,) * DIM):
        assert "variance=" in refused(call, {"covariance": spread}, watch)
    for spread in (np.eye(DIM), np.eye(DIM).tolist()):
        assert "covariance=" in refused(call, {"variance": spread}, watch)
    assert "not both" in refused(call, {"variance": 1.0, "covariance": np.eye(DIM)}, watch)


@pytest.mark.parametrize("call", WITH_PUBLIC.values(), ids=WITH_PUBLIC)
def test_group_c_49_public_rows_are_the_private_rows(call, watch):
    rows = good()
    for public in (rows, rows[:10], rows[::-1], rows[5]):
        message = watch.fails(
            lambda ledger, public=public: call(rows, ZCDP(0.5), x_pub=public, ledger=ledger), InputError
        )
        assert "split the rows" in message or "private or public" in message
    assert np.all(np.isfinite(call(rows, ZCDP(0.5), x_pub=rows.copy()).mean))  # 50: equal content cannot be seen


@pytest.mark.parametrize("budget", [PureDP(2.0**-20), PureDP(2.0**-30), ZCDP(2.0**-50), ZCDP(2.0**-60)])
def test_steps_that_the_budget_does_not_reach_are_refused_before_the_debit(budget, watch):
    message = refused(call_coinpress, {"steps": 1000, "budget": budget}, watch)
    assert "steps" in message or "no integer grid" in message


def test_the_library_logs_nothing(caplog):
    with caplog.at_level(logging.DEBUG):
        for call in ESTIMATORS.values():
            call(np.full((ROWS, DIM), MARKER), ZCDP(0.5))
    assert [record for record in caplog.records if record.name.startswith("fastpubpriv")] == []


def test_control_the_watch_finds_a_marker(watch):
    def leaks(ledger):
        try:
            float(MARKER_TEXT)
        except ValueError as error:
            raise InputError("generic") from error

    raises(AssertionError, None, watch.fails, leaks)

    def prints(ledger):
        sys.stderr.write(f"{MARKER}")
        raise InputError("generic")

    raises(AssertionError, None, watch.fails, prints)

    def spends(ledger):
        ledger.debit(ZCDP(1), name="early")
        raise InputError("generic")

    raises(AssertionError, None, watch.fails, spends)
