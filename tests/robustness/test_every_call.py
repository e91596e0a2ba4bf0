"""What each public function promises whatever its method: when it reads, that threads change no bit, that no row raises."""

import inspect
import warnings

import numpy as np
import pytest
from public_calls import CALLS, NOTIONS, ample
from spies import SpyLedger, SpyRows

from fastpubpriv import ZCDP, FastPubPrivError, InputError, Ledger, PureDP, Rows
from fastpubpriv.auditing import record_replay
from fastpubpriv.privacy import Cost
from fastpubpriv.sources import fold

LIGHT = {name: call for name, call in CALLS.items() if not call.heavy}
light = pytest.mark.parametrize("call", LIGHT.values(), ids=LIGHT)


def text_of(call, x_priv=None, **options):
    """All bits of what a call gives with a seed."""
    return repr(call(x_priv, budget=NOTIONS[call.notions[0]], random_state=3, **options).to_dict())


@light
def test_the_debit_comes_before_the_first_read(call):
    log = []
    ledger = SpyLedger(ample(NOTIONS[call.notions[0]]).total, log)
    call(SpyRows(call.rows, log), budget=NOTIONS[call.notions[0]], ledger=ledger)
    # Nothing where the public rows alone are predicted to be best.
    assert log == [] or (log[0] == "debit" and log.count("debit") == 1)


@light
def test_threads_change_no_bit(call, monkeypatch):
    expected = text_of(call)
    monkeypatch.setattr(fold, "_ONE_CHUNK_WORK", 0)
    monkeypatch.setattr(fold, "_SHARED_CHUNK_WORK", 100)
    assert text_of(call, threads=3) == expected


CONTENTS = {
    "nothing but missing numbers": lambda rows: np.full_like(rows, np.nan),
    "infinite": lambda rows: np.full_like(rows, np.inf),
    "the largest numbers": lambda rows: np.full_like(rows, 1.7e308) * np.where(rows > 0.0, 1.0, -1.0),
    "the least numbers": lambda rows: np.full_like(rows, 5e-324),
    "equal rows": np.ones_like,
    "a few hostile rows": lambda rows: np.concatenate(
        [rows[:-4], *(np.full_like(rows[:1], bad) for bad in (np.nan, np.inf, -1.7e308, -0.0))]
    ),
}


def numbers_in(value):
    """All floating-point numbers of a dictionary, at any depth."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)


@light
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_private_rows_of_any_content_raise_nothing(call, content):
    """Nor does NumPy warn; and densities keep covariances that are positive definite."""
    rows = content(np.array(call.rows))
    before = rows.tobytes()
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error", RuntimeWarning)
        result = call(rows, budget=NOTIONS[call.notions[0]], random_state=3)
    assert rows.tobytes() == before
    assert np.all(np.isfinite([each for each in numbers_in(result.to_dict()) if each is not None]))
    if hasattr(result, "log_prob"):
        for name in {"covariance", "covariances"} & set(dir(result)):
            assert np.all(np.linalg.eigvalsh(getattr(result, name)) > 0.0)


CLOSED = Ledger(ZCDP(1))

CLOSED.close()

WRONG = {
    "budget": [0.5, None, "rho=1", ZCDP, (1, 1e-6), Cost.zero(ZCDP)],
    "ledger": ["ledger.jsonl", CLOSED, Ledger(PureDP(2.0**-20))],
    "threads": [0, -1, True, 1.5, "2", 10**6],
    "progress": ["yes", 1],
    "random_state": [1.0, True, "1", -1, np.random.default_rng(0)],
    "columns": [["a", "b", "c"]],
    "failure_prob": [0, 1, -0.1, np.nan, "0.1", True, None],
    "mode": ["fast", None, 1, "Practical"],
    "method": ["best", 3, None],
    "steps": [0, -1, True, 1.5, "many", [1], 10**9, np.nan, {}],
    "pub_priv_gap": [1.0, -0.1, np.nan, "0.1", True, None, np.inf],
    "x_pub": [np.full((9, 2), np.nan), np.full((9, 2), np.inf), np.empty((0, 2)), [["a", "b"]] * 5, np.ones((9, 5)), "none.csv"],
    "x_priv": [np.zeros((0, 2)), np.zeros((5, 2), dtype=complex), [["a", "b"]] * 5, np.zeros((2, 2, 2)), 5, {"a": [1.0]}],
}  # fmt: skip
ADVICE = (
    "pass", "must", "need", "give", "use", "check", "accepted", "choose", "drop", "change", "open it", "split the rows",
    "there is no", "debit a", "debit the",
)  # fmt: skip


def wrong_for(call):
    """Arguments of a call, and values that they must not have; what spends nothing takes any ledger."""
    for name, parameter in inspect.signature(call.function).parameters.items():
        free = name == "ledger" and call.options.get("structure") == "public"
        values = [] if free else WRONG.get(name, [])
        yield from ((name, value) for value in values if not (value is None and parameter.default is None))


@light
def test_what_is_wrong_everywhere_is_refused_before_anything_is_read(call):
    for name, value in wrong_for(call):
        log = []
        given = {"ledger": SpyLedger(ample(NOTIONS[call.notions[0]]).total, log), "budget": NOTIONS[call.notions[0]]}
        with pytest.raises(FastPubPrivError) as caught:
            call(**{"x_priv": SpyRows(call.rows, log), **given, name: value})
        assert any(word in str(caught.value).lower() for word in ADVICE), caught.value
        assert log == [], (name, value)


# Not those that ask about some of the blocks only, or read nothing.
WHOLE = {name: call for name, call in LIGHT.items() if "ladder, public" not in name and not name.startswith("decode_")}


@pytest.mark.parametrize("call", WHOLE.values(), ids=WHOLE)
def test_a_stream_with_other_rows_than_declared_is_refused(call):
    rows = np.array(call.rows)
    for declared in (len(rows) - 100, len(rows) - 1, len(rows) + 1):
        stream = Rows.from_chunks(lambda: [rows[:90], rows[90:]], n=declared, dim=rows.shape[1])
        with pytest.raises(InputError, match=f"where {declared} were declared"):
            call(stream, budget=NOTIONS[call.notions[0]])


# ---- Every public function under record and replay, its rows in one piece and in chunks of one and of seven rows.
SHORT = {name: call for name, call in CALLS.items() if len(call.rows) <= 1000}


def pair(call):
    """The call's rows, and the same with one replaced."""
    other = np.array(call.rows)
    other[17] = -3.0
    return np.array(call.rows), other


@pytest.mark.parametrize("name", SHORT)
def test_the_same_integers_are_asked_about_in_any_chunks(name):
    call = CALLS[name]
    for index, size in enumerate((1, 7)):
        budget = NOTIONS[call.notions[index % len(call.notions)]]
        record_replay(lambda x, b=budget: call(x, budget=b), *pair(call), budget=budget, pieces=size)


@pytest.mark.audit
@pytest.mark.parametrize("name", [name for name in CALLS if name not in SHORT])
def test_the_same_integers_are_asked_about_in_any_chunks_of_many_rows(name):
    call = CALLS[name]
    for notion in call.notions:
        budget = NOTIONS[notion]
        record_replay(lambda x, b=budget: call(x, budget=b), *pair(call), budget=budget, pieces=4999)
