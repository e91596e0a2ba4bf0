"""The bad-input catalogue, groups A (values), B (form), C (public data), D (privacy parameters), F (state), for each estimator.

Group A must be silent: neither an exception nor a warning may depend on private values. The others are typed errors
before any private row is read and before any debit, with advice, and never with private content.
"""

import contextlib
import io
import itertools
import logging
import os
import sys
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from spies import SpyLedger, SpyRows

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BudgetError,
    EntropyError,
    FastPubPrivError,
    InputError,
    Ledger,
    LedgerError,
    PrivacyWarning,
    PureDP,
    Rows,
    SeededNoiseWarning,
    coinpress_mean,
    estimate_mean,
    weighted_mean,
)
from fastpubpriv.privacy import Cost, Neighbors
from fastpubpriv.results.columns import STATUSES

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
    "estimate_mean": call_estimate,
    "estimate_mean, public covariance": call_public_covariance,
    "coinpress_mean": call_coinpress,
    "weighted_mean": call_weighted,
}
WITH_PUBLIC = {name: call for name, call in ESTIMATORS.items() if name != "coinpress_mean"}
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}

every = pytest.mark.parametrize("call", ESTIMATORS.values(), ids=ESTIMATORS)
every_with_public = pytest.mark.parametrize("call", WITH_PUBLIC.values(), ids=WITH_PUBLIC)
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)


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
@every_budget
@pytest.mark.parametrize("make", GROUP_A.values(), ids=GROUP_A)
def test_group_a_values_are_silent(call, budget, make):
    data = make()
    before = data.tobytes()
    captured = io.StringIO()
    with np.errstate(all="raise"), warnings.catch_warnings(), contextlib.redirect_stderr(captured):
        warnings.simplefilter("error")
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
        if fields["report"] is not None:  # radii and deviations are worked out of released counts
            assert set(fields["report"]["status"]) <= STATUSES.keys()
            for released in ("report", "noise_std", "sampling_std", "provenance"):
                fields.pop(released)
            fields.pop("numerics")
            # Distances that no clip point reaches leave nothing to sum up.
            fields["releases"] = [(each["name"], each["rho"]) for each in fields["releases"]][:1]
        fields.pop("mean")
        forms.add(repr(fields))
    assert len(forms) == 1


def frame_with_text():
    frame = pd.DataFrame(good(), columns=["a", "b", "c"])
    frame["b"] = MARKER_TEXT
    return frame


GROUP_B = {
    "20 object": lambda: np.array([[MARKER_TEXT, 1.0, 2.0]] * 5, dtype=object),
    "21 text": lambda: np.array([[MARKER_TEXT] * DIM] * 5),
    "21b bytes": lambda: np.array([[MARKER_TEXT.encode()] * DIM] * 5),
    "21c list of text": lambda: [[MARKER_TEXT, MARKER_TEXT, MARKER_TEXT]] * 5,
    "22 complex": lambda: np.full((5, DIM), MARKER + 1j),
    "25 longdouble": lambda: np.full((5, DIM), MARKER, dtype=np.longdouble),
    "27 0-d": lambda: np.array(MARKER),
    "28 0-d": lambda: np.array(MARKER),
    "29 3-d": lambda: np.full((2, 2, DIM), MARKER),
    "31 n = 0": lambda: np.empty((0, DIM)),
    "33 d = 0": lambda: np.empty((5, 0)),
    "34 sparse": lambda: __import__("scipy.sparse").sparse.csr_matrix(np.full((5, DIM), MARKER)),
    "35 masked": lambda: np.ma.masked_array(np.full((5, DIM), MARKER)),
    "36 text column": frame_with_text,
    "39 ragged": lambda: [[MARKER, 1.0, 2.0], [MARKER_TEXT]],
    "40 generator": lambda: ([MARKER] * DIM for _ in range(5)),
    "structured": lambda: np.zeros(5, dtype=[(MARKER_TEXT.replace("-", "_"), float)]),
    "datetime": lambda: np.full((5, DIM), np.datetime64("2013-01-01")),
    "None": lambda: None,
    "string": lambda: MARKER_TEXT,
    "number": lambda: MARKER,
    "dict": lambda: {MARKER_TEXT: [MARKER]},
    "set": lambda: {MARKER},
}


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
            texts = [stream.getvalue(), self.caplog.text]
            seen = error
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


ADVICE = (
    "pass", "must", "need", "give", "use", "check", "accepted", "choose", "drop", "change", "open it", "split the rows",
    "there is no", "debit a", "debit the",
)  # fmt: skip


@every
@pytest.mark.parametrize("make", GROUP_B.values(), ids=GROUP_B)
def test_group_b_form_is_a_typed_error_that_quotes_nothing(call, make, watch):
    data = make()  # outside: these values are ours to see, the traceback of the test is not
    message = watch.fails(lambda ledger: call(data, ZCDP(0.5), ledger=ledger), InputError)
    assert any(word in message.lower() for word in ADVICE)


@every_with_public
def test_group_b_30_other_columns_than_the_public_rows(call, watch):
    rows = np.full((5, DIM + 1), MARKER)
    assert "columns" in watch.fails(lambda ledger: call(rows, ZCDP(0.5), ledger=ledger), InputError)


class Subclass(np.ndarray):
    def __array_ufunc__(self, *args, **kwargs):
        raise RuntimeError(MARKER_TEXT)


LEGAL_FORMS = {
    "23 bool": lambda rows: rows > 0,
    "23 int": lambda rows: np.rint(rows).astype(np.int32),
    "24 float16": lambda rows: rows.astype(np.float16),
    "26 big-endian": lambda rows: rows.astype(">f8"),
    "37 memoryview": lambda rows: memoryview(rows),
    "37 negative strides": lambda rows: rows[::-1, ::-1],
    "37 every other": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "37 Fortran": lambda rows: np.asfortranarray(rows),
    "38 subclass": lambda rows: rows.view(Subclass),
    "list": lambda rows: rows.tolist(),
    "frame": lambda rows: pd.DataFrame(rows),
}


@every
@pytest.mark.parametrize("change", LEGAL_FORMS.values(), ids=LEGAL_FORMS)
def test_group_b_legal_forms_work(call, change):
    rows = good()
    rows.flags.writeable = False
    result = call(change(rows), ZCDP(0.5))
    assert np.all(np.isfinite(result.mean))


@every
def test_group_b_32_one_row_works(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one row is too few is a warning about public sizes
        assert np.all(np.isfinite(call(np.ones((1, DIM)), ZCDP(0.5)).mean))


GROUP_C = {
    "42 NaN": {"x_pub": np.full((9, DIM), np.nan)},
    "43 inf": {"x_pub": np.full((9, DIM), np.inf)},
    "44 m = 0": {"x_pub": np.empty((0, DIM))},
    "48 1e300": {"x_pub": PUBLIC * 1e300},
    "48 1e-300": {"x_pub": PUBLIC * 1e-300},
    "text": {"x_pub": [["a"] * DIM] * 5},
    "columns": {"x_pub": np.ones((9, DIM + 2))},
    "path": {"x_pub": "there-is-no-such-file.csv"},
}
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(rows, **{"budget": budget or ZCDP(0.5), "ledger": ledger, **options})

    message = watch.fails(action, kind)
    assert any(word in message.lower() for word in ADVICE)
    return message


@every_with_public
@pytest.mark.parametrize("options", GROUP_C.values(), ids=GROUP_C)
def test_group_c_public_data(call, options, watch):
    refused(call, options, watch)


@pytest.mark.parametrize("options", COVARIANCES.values(), ids=COVARIANCES)
def test_group_c_public_rows_without_a_covariance(options, watch):
    message = refused(call_public_covariance, options, watch)
    assert "public rows" in message
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


@every_with_public
def test_group_c_49_public_rows_are_the_private_rows(call, watch):
    rows = good()
    for public in (rows, rows[:10], rows[::-1], rows[5]):
        message = watch.fails(
            lambda ledger, public=public: call(rows, ZCDP(0.5), x_pub=public, ledger=ledger), InputError
        )
        assert "split the rows" in message or "private or public" in message
    assert np.all(np.isfinite(call(rows, ZCDP(0.5), x_pub=rows.copy()).mean))  # 50: equal content cannot be seen


@every_with_public
def test_group_c_52_one_far_public_outlier(call):
    public = PUBLIC.copy()
    public[0] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.all(np.isfinite(call(good(), ZCDP(0.5), x_pub=public).mean))


GROUP_D = {
    "not a budget": {"budget": 0.5},
    "None": {"budget": None},
    "text": {"budget": "rho=1"},
    "class": {"budget": ZCDP},
    "cost": {"budget": Cost.zero(ZCDP)},
    "tuple": {"budget": (1, 1e-6)},
    "66 larger than the ledger": {"budget": ZCDP(1001)},
    "67 another notion": {"budget": ApproxDP(1, 1e-6)},
    "67 pure": {"budget": ApproxDP(1, 1e-6), "ledger": Ledger(PureDP(2))},
    "ledger is a path": {"ledger": "ledger.jsonl"},
    "ledger closed": {"ledger": None},
}


@every
@pytest.mark.parametrize("name", GROUP_D)
def test_group_d_budgets(call, name, watch):
    options = dict(GROUP_D[name])
    if name == "ledger closed":
        options["ledger"] = Ledger(ZCDP(1))
        options["ledger"].close()
    refused(call, options, watch, FastPubPrivError)


BAD_AMOUNTS = {
    "53": lambda: ZCDP(0), "54": lambda: ZCDP(-1), "55": lambda: ZCDP(np.nan), "56": lambda: PureDP(np.inf),
    "57": lambda: PureDP(1e-12), "58": lambda: PureDP(5000), "59 text": lambda: PureDP("1"),
    "59 bool": lambda: PureDP(True), "60": lambda: ApproxDP(1, 0), "61": lambda: ApproxDP(1, 1),
    "63": lambda: ApproxDP(1, 1e-400), "64": lambda: ZCDP(rho=1, epsilon=1),
}  # fmt: skip


@pytest.mark.parametrize("make", BAD_AMOUNTS.values(), ids=BAD_AMOUNTS)
def test_group_d_amounts(make):
    with pytest.raises((BudgetError, TypeError)):
        make()


@every
@pytest.mark.parametrize("amount", [np.array(0.5), np.float32(0.5), Decimal("0.5"), Fraction(1, 2)])
def test_group_d_59_exact_amounts(call, amount):
    assert call(good(), ZCDP(amount)).spent == ZCDP(0.5)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@every
def test_group_d_62_weak_delta_warns_from_public_n(call):
    for value in (0.0, np.nan):
        with pytest.warns(PrivacyWarning, match="at least 1/n"):
            call(np.full((ROWS, DIM), value), ApproxDP(1, 1e-3))


def test_group_d_67_relations(watch):
    with pytest.raises(BudgetError):
        Ledger(ZCDP(1), relation="replace one")
    other = [relation for relation in Neighbors if relation is not Neighbors.REPLACE_ONE]
    assert other == [] or all(Ledger(ZCDP(1), relation=relation) for relation in other)


BAD_COMMON = {
    "threads 0": {"threads": 0}, "threads -1": {"threads": -1}, "threads True": {"threads": True},
    "threads 1.5": {"threads": 1.5}, "threads text": {"threads": "2"}, "threads 10^6": {"threads": 10**6},
    "progress": {"progress": "yes"}, "progress 1": {"progress": 1}, "seed float": {"random_state": 1.0},
    "seed bool": {"random_state": True}, "seed text": {"random_state": "1"}, "seed negative": {"random_state": -1},
    "seed generator": {"random_state": np.random.default_rng(0)}, "columns": {"columns": ["a", "b", "c"]},
}  # fmt: skip
BAD_STEPS = {
    f"{name} {value!r}": {name: value}
    for name, values in {
        "steps": [0, -1, True, 1.5, None, "many", [1], 10**9, np.nan, {}],
        "mode": ["fast", None, 1, "Practical"],
        "failure_prob": [0, 1, -0.1, np.nan, "0.1", True, None, 1e-300],
    }.items()
    for value in values
}
BAD_GAPS = {f"gap {value!r}": {"pub_priv_gap": value} for value in [1.0, -0.1, np.nan, "0.1", True, None, np.inf]}


@every
@pytest.mark.parametrize("options", BAD_COMMON.values(), ids=BAD_COMMON)
def test_group_e_common_arguments(call, options, watch):
    refused(call, options, watch)


@pytest.mark.parametrize("call", [call_estimate, call_public_covariance, call_coinpress])
@pytest.mark.parametrize("options", BAD_STEPS.values(), ids=BAD_STEPS)
def test_group_e_steps_modes_and_probabilities(call, options, watch):
    refused(call, options, watch)


@pytest.mark.parametrize("call", [call_estimate, call_public_covariance])
@pytest.mark.parametrize("options", BAD_GAPS.values(), ids=BAD_GAPS)
def test_group_e_gaps(call, options, watch):
    refused(call, options, watch)


@pytest.mark.parametrize("budget", [PureDP(2.0**-20), PureDP(2.0**-30), ZCDP(2.0**-50), ZCDP(2.0**-60)])
def test_steps_that_the_budget_does_not_reach_are_refused_before_the_debit(budget, watch):
    message = refused(call_coinpress, {"steps": 1000, "budget": budget}, watch)
    assert "steps" in message or "no integer grid" in message


@every
def test_group_f_81_second_call_without_room(call):
    log = []
    ledger = SpyLedger(ZCDP(0.75), log)
    rows = SpyRows(good(), log)
    call(rows, ZCDP(0.5), ledger=ledger)
    assert log[0] == "debit"
    assert log.count("debit") == 1
    del log[:]
    with pytest.raises(BudgetError, match="larger than what remains"):
        call(rows, ZCDP(0.5), ledger=ledger)
    assert log == []
    assert ledger.spent == ZCDP(0.5).cost


@every
def test_group_f_84_seed_warns_once_and_flags(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(good(), ZCDP(0.5), random_state=3)
    assert [item.category for item in caught] == [SeededNoiseWarning]
    assert not result.private
    assert "private=False" in repr(result)
    assert result.to_dict()["private"] is False


@every
def test_group_f_85_no_entropy(call, monkeypatch):
    log = []
    ledger = SpyLedger(ZCDP(1), log)

    def fails(count):
        raise OSError("none")

    monkeypatch.setattr(os, "urandom", fails)
    with pytest.raises(EntropyError):
        call(SpyRows(good(), log), ZCDP(0.5), ledger=ledger)
    assert log == []  # found before the debit


@every
@pytest.mark.parametrize("content", [b"", b"{}\n", b"\x00" * 100, b"not a ledger\n"])
def test_group_f_86_foreign_ledger_file(call, content, tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    if content == b"":
        with pytest.raises(LedgerError):
            Ledger.from_file(path)
        return
    with pytest.raises(LedgerError):
        Ledger(ZCDP(1), path=path)


@every
def test_a_source_that_fails_while_read_quotes_nothing_and_spends(call, caplog):
    log = []
    ledger = SpyLedger(ZCDP(1), log)
    rows = SpyRows(np.full((100, DIM), MARKER), log, fails=ValueError(f"could not convert {MARKER_TEXT} {MARKER}"))
    warnings.simplefilter("ignore")  # pytest restores the filters after each test
    with pytest.raises(InputError) as caught:
        call(rows, ZCDP(0.5), ledger=ledger)
    seen = caught.value
    text = "".join(traceback.format_exception(seen)) + repr(seen.args) + caplog.text
    assert seen.__cause__ is None
    assert seen.__context__ is None
    assert MARKER_TEXT not in text.replace("could not convert {MARKER_TEXT}", "")
    assert "23456789" not in text
    assert log == ["debit", "read"]
    assert ledger.spent == ZCDP(0.5).cost


@every
def test_chunks_that_disagree_with_their_number_are_an_input_error(call):
    warnings.simplefilter("ignore")
    with pytest.raises(InputError):
        call(Rows.from_chunks(lambda: [good(10)], n=20, dim=DIM), ZCDP(0.5))


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

    with pytest.raises(AssertionError):
        watch.fails(leaks)

    def prints(ledger):
        sys.stderr.write(f"{MARKER}")
        raise InputError("generic")

    with pytest.raises(AssertionError):
        watch.fails(prints)

    def spends(ledger):
        ledger.debit(ZCDP(1), name="early")
        raise InputError("generic")

    with pytest.raises(AssertionError):
        watch.fails(spends)
