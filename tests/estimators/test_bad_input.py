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


def put(row, index=5):
    rows = good()
    rows[index] = row
    return rows


def signalling():
    return np.full(DIM, np.array([0x7FF4000000000001], dtype=np.uint64).view(np.float64)[0])


GROUP_A = {
    "1 NaN in one row": lambda: put([0.0, np.nan, 1.0]),
    "2 all-NaN row": lambda: put(np.nan),
    "3 all rows NaN": lambda: np.full((ROWS, DIM), np.nan),
    "4 +inf": lambda: put([np.inf, 0.0, 0.0]),
    "4b all inf": lambda: np.full((ROWS, DIM), np.inf),
    "5 -inf": lambda: put([0.0, -np.inf, np.inf]),
    "6 1.7e308": lambda: put([1.7e308, -1.7e308, 1.7e308]),
    "6b all 1.7e308": lambda: np.full((ROWS, DIM), 1.7e308),
    "7 subnormal": lambda: put(5e-324),
    "7b all subnormal": lambda: np.full((ROWS, DIM), 5e-324),
    "8 minus zero": lambda: put(-0.0),
    "9 signalling NaN": lambda: put(signalling()),
    "10 row on the radius": lambda: put([5.0, 0.0, 0.0]),
    "11 row one ulp above": lambda: put([np.nextafter(5.0, 6.0), 0.0, 0.0]),
    "12 identical rows": lambda: np.ones((ROWS, DIM)),
    "zeros": lambda: np.zeros((ROWS, DIM)),
    # Every second row, so that the mean itself has other digits.
    "marker": lambda: MARKER * np.repeat((np.arange(ROWS) % 2.0)[:, None], DIM, axis=1),
    "float32 inf": lambda: put(np.inf).astype(np.float32),
    "integers beyond 2^53": lambda: np.full((ROWS, DIM), 2**62 + 1, dtype=np.int64),
    "float16 overflowed": lambda: np.full((ROWS, DIM), np.float16(np.inf)),
}


@every
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("make", GROUP_A.values(), ids=GROUP_A)
def test_group_a_values_are_silent(call, budget, make):
    data = make()
    before, captured = data.tobytes(), io.StringIO()
    with np.errstate(all="raise"), warnings.catch_warnings(action="error"), contextlib.redirect_stderr(captured):
        result = call(data, budget, threads=1)
        filters, state = list(warnings.filters), np.geterr()
    assert state == dict.fromkeys(state, "raise")  # the caller's error state is as it was
    assert filters[0][0] == "error"
    assert captured.getvalue() == ""
    assert np.all(np.isfinite(result.mean))
    assert result.spent == budget
    assert data.tobytes() == before
    assert MARKER_DIGITS not in repr(result.to_dict())


@every
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_group_a_gives_the_same_form_of_answer(call):
    forms = set()
    for make in GROUP_A.values():
        fields = call(make(), ZCDP(0.5)).to_dict()
        if fields["report"] is not None:  # radii, deviations and reasons are worked out of released counts
            for released in ("report", "status", "reasons", "part_reasons", "noise_std", "sampling_std", "provenance"):
                fields.pop(released)
            fields.pop("numerics")
            # Distances that no clip point reaches leave nothing to sum up.
            fields["releases"] = [(each["name"], each["rho"]) for each in fields["releases"]][:1]
        fields.pop("mean")
        forms.add(repr(fields))
    assert len(forms) == 1


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
