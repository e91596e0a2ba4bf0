"""`release`: the order of events, the arithmetic of an answer, and the record that a transcript keeps."""

import pickle
from collections.abc import Sequence
from fractions import Fraction
from importlib import resources

import numpy as np
import pytest
from helpers import accounts
from spies import SpyLedger

from fastpubpriv.errors import BudgetError, InputError, KernelError, OutOfMemoryError, ReplayError
from fastpubpriv.kernels import noise
from fastpubpriv.keys import KeySource, key_source
from fastpubpriv.mechanisms import sums
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    GaussianEvent,
    LaplaceEvent,
    PureDP,
    SelectionEvent,
    StableHistogramEvent,
)
from fastpubpriv.release import release as release_module
from fastpubpriv.release import transcript as transcripts
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release, release_choice, release_stable

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

RHO_1 = ZCDP(1)
GAUSS = GaussianEvent(4 * 100**2, 10, 3)  # rho = 0.019
LAPLACE = LaplaceEvent(100, 10, 3)


def ask(account, query, event=GAUSS, *, shape=(3,), unit=0.25, name="answer"):
    return release(account, name=name, query=query, shape=shape, event=event, unit=unit)


def opened(budget=RHO_1, **options):
    return accounts.opened(budget, draws=100, **options)


def zeros():
    return np.zeros(3, dtype=np.int64)


def test_debit_then_query_then_key():
    log = []
    account = Account("test", ZCDP(1), draws=100, ledger=SpyLedger(ZCDP(1), log))

    class Keys(KeySource):
        def check(self):
            log.append("check")

        def fresh(self):
            log.append("key")
            return super().fresh()

    account.book.keys = Keys(None)

    def query():
        log.append("query")
        return zeros()

    account.open()
    ask(account, query)
    assert log == ["check", "debit", "query", "key"]


def unreachable():
    raise RuntimeError("the query must not be called")


def test_nothing_is_read_before_the_debit():
    account = Account("test", ZCDP(1), draws=100)
    with pytest.raises(BudgetError, match="before the budget was debited"):
        ask(account, unreachable)


def test_over_budget_is_refused_before_reading():
    account = opened(ZCDP(GAUSS.rho * 2))
    ask(account, zeros)
    ask(account, zeros)  # fills the budget exactly
    with pytest.raises(BudgetError, match="exceed the budget"):
        ask(account, unreachable)
    with pytest.raises(BudgetError, match="exceed the budget"):
        ask(account, unreachable, GaussianEvent(1, 40, 3))  # the least that can be asked


def test_nothing_is_refunded_when_the_query_fails():
    log = []
    ledger = SpyLedger(ZCDP(1), log)
    account = opened(ZCDP(GAUSS.rho), ledger=ledger)

    def failing():
        raise KernelError("as if the disk were gone")

    with pytest.raises(KernelError):
        ask(account, failing)
    with pytest.raises(BudgetError):
        ask(account, unreachable)
    assert ledger.spent.amounts == (GAUSS.rho,)
    assert log == ["debit"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (lambda: np.zeros(3), "float answer"),
        (lambda: np.zeros(4, dtype=np.int64), "length"),
        (lambda: np.zeros((3, 1), dtype=np.int64), "shape"),
        (lambda: [0, 0, 0], "list"),
        (lambda: np.zeros(3, dtype=np.int32), "int32"),
    ],
)
def test_a_query_that_is_not_the_declared_integers_is_refused(query, problem):
    with pytest.raises(KernelError, match="int64 array of shape"):
        ask(opened(), query)


def test_an_event_that_counts_too_few_draws_is_refused_before_reading():
    with pytest.raises(KernelError, match="draws"):
        ask(opened(), unreachable, GaussianEvent(4, 10, 1))


@pytest.mark.parametrize(
    ("event", "budget", "draw", "half"),
    [
        (GAUSS, ZCDP(1), lambda key: noise.gaussian_floor(key, 3, 10), 0.5),
        (LAPLACE, PureDP(1), lambda key: noise.discrete_laplace(key, 3, 10), 0.0),
    ],
)
def test_answer_is_integers_plus_noise_plus_half_a_step(event, budget, draw, half):
    key = key_source(11).fresh()
    query = np.array([5, -(2**40), 0], dtype=np.int64)
    answer = ask(opened(budget, random_state=11), lambda: query, event, unit=0.125)
    assert np.array_equal(answer, ((query + draw(key)) + half) * 0.125)
    assert answer.dtype == np.float64


def test_half_a_step_centres_the_gaussian():
    # 2e7 draws at the coarsest scale: the mean has a standard error of 0.057 steps; 6.5 of them are 1e-10.
    count, total, squares = 2_000_000, 0.0, 0.0
    for seed in range(10):
        account = Account("test", ZCDP(1), draws=count, random_state=seed)
        account.open()
        event = GaussianEvent(4, 8, count)
        answer = ask(account, lambda: np.zeros(count, dtype=np.int64), event, shape=(count,), unit=1.0)
        total += answer.mean() / 10
        squares += np.square(answer).mean() / 10
    tolerance = 6.5 * 256 / np.sqrt(10 * count)
    assert abs(total) < tolerance
    assert abs(np.sqrt(squares) / 256 - 1) < 6.5 / np.sqrt(20 * count)
    assert abs(total - 0.5) > tolerance  # control: the same without its half step


def test_sums_wrap_around_silently():
    key = key_source(2).fresh()
    edge = np.array([2**63 - 1, -(2**63), 2**63 - 5], dtype=np.int64)
    with np.errstate(all="raise"):
        answer = ask(opened(random_state=2), lambda: edge, unit=1.0)
    wrapped = [
        (int(a) + int(b) + 2**63) % 2**64 - 2**63 for a, b in zip(edge, noise.gaussian_floor(key, 3, 10), strict=True)
    ]
    assert answer.tolist() == [float(w) + 0.5 for w in wrapped]


def test_keys_are_fresh_for_each_release():
    account = opened()
    assert len({ask(account, zeros, GaussianEvent(4, 40, 3)).tobytes() for _ in range(20)}) == 20


def test_tap_records_what_was_asked_and_answered():
    query = np.array([1, 2, 3], dtype=np.int64)
    assert transcripts.current() is None
    with transcripts.recording() as transcript:
        answer = ask(opened(), lambda: query, name="first")
        ask(opened(PureDP(1)), zeros, LAPLACE, name="second")
    assert transcripts.current() is None
    first, second = transcript.calls
    assert (first.name, first.event, first.unit, first.query.tolist()) == ("first", GAUSS, 0.25, [1, 2, 3])
    assert np.array_equal(first.answer, answer)
    assert (second.name, second.event) == ("second", LAPLACE)
    recorded = first.answer.copy()
    answer += 1.0  # an estimator may work in place; the record stays
    assert np.array_equal(first.answer, recorded)


def test_tap_is_closed_by_an_exception_and_shows_no_integers():
    seen = []

    def run():
        with transcripts.recording() as transcript:
            seen.append(transcript)
            ask(opened(), lambda: np.full(3, 123456789, dtype=np.int64))
            ask(opened(), lambda: np.zeros(1))

    with pytest.raises(KernelError):
        run()
    (transcript,) = seen
    assert transcripts.current() is None
    assert repr(transcript) == "Transcript(calls=1, replaying=False)"
    with pytest.raises(TypeError, match="private integers"):
        pickle.dumps(transcript)


def test_replay_forces_answers_and_refuses_another_course():
    with transcripts.recording() as recorded:
        first = ask(opened(), zeros)
    with transcripts.recording(script=recorded.calls):
        again = ask(opened(), lambda: np.full(3, 9, dtype=np.int64))
        again_bytes = again.tobytes()
        again += 1.0
        with pytest.raises(ReplayError, match="no counterpart"):
            ask(opened(), zeros)
    assert again_bytes == first.tobytes() == recorded.calls[0].answer.tobytes()
    with transcripts.recording(script=recorded.calls), pytest.raises(ReplayError, match="recorded was"):
        ask(opened(), zeros, name="other")
    with transcripts.recording(script=recorded.calls), pytest.raises(ReplayError, match="recorded was"):
        ask(opened(), lambda: np.zeros((3, 1), dtype=np.int64), shape=(3, 1))


@pytest.mark.parametrize(
    ("module", "names"),
    [(release_module, ["release.md"]), (sums, ["vector_sum.md", "gram.md", "shell_counts.md"])],
)
def test_privacy_notes_exist_beside_the_code(module, names):
    folder = resources.files("fastpubpriv.mechanisms") / "notes"
    for name in names:
        assert f"notes/{name}" in module.__doc__
        text = (folder / name).read_text(encoding="utf-8")
        assert "Sensitivity" in text or "Claim" in text
    kinds = sums.Measurement.__subclasses__()
    releasing = [kind.__name__ for kind in kinds if kind.__module__.startswith("fastpubpriv.")]
    notes = " ".join((folder / entry.name).read_text(encoding="utf-8") for entry in folder.iterdir())
    assert releasing
    assert all(f"`{name}`" in notes for name in releasing)


# ---- what a query may say when it fails -----------------------------------------------------------------------------

SHAPE = "Unable to allocate 7.5 GiB for an array with shape (12345678, 81)"
CHOICE = SelectionEvent(epsilon=Fraction(1, 2), sensitivity=1, candidates=3)
STABLE = StableHistogramEvent("laplace", 1, 128, 10 * 128, 8, 1, 20)


class Failing(Sequence):
    """Histograms that fail when they are made."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 1

    def __getitem__(self, number):
        raise self.error


def fail(error):
    raise error


ASKED = {
    "noise": (RHO_1, lambda account, error: ask(account, lambda: fail(error))),
    "choice": (
        RHO_1,
        lambda account, error: release_choice(account, name="x", query=lambda: fail(error), event=CHOICE),
    ),
    "bins": (
        ApproxDP(1, Fraction(1, 100)),
        lambda account, error: release_stable(
            account, name="x", query=lambda: fail(error), event=STABLE, slots=(20,), threads=1
        ),
    ),
    "bins, one by one": (
        ApproxDP(1, Fraction(1, 100)),
        lambda account, error: release_stable(
            account, name="x", query=lambda: Failing(error), event=STABLE, slots=(20,), threads=1
        ),
    ),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    "error", [MemoryError(SHAPE), ValueError(SHAPE), ZeroDivisionError(SHAPE), KernelError("status")]
)
def test_a_query_that_fails_outside_of_a_pass_says_nothing(name, error):
    """What a query makes of a pass's answer, such as scores, has shapes and values that may be private."""
    budget, asked = ASKED[name]
    account = opened(budget)
    kind = {MemoryError: OutOfMemoryError, KernelError: KernelError}.get(type(error), InputError)
    with pytest.raises(kind) as caught:
        asked(account, error)
    assert type(caught.value) is kind
    assert "12345678" not in repr(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert len(account.events) == 1  # paid for, and not given back
