"""rows_per_person="auto": one debit, after every check and warning, in calls that leave the filters of warnings alone."""

import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from public_calls import CALLS, NOTIONS

import fastpubpriv as fpp
from fastpubpriv.errors import warn
from fastpubpriv.estimators import user_level
from fastpubpriv.privacy import Neighbors
from fastpubpriv.privacy.spending import GaussianSpending
from fastpubpriv.release.account import before_debit

RNG = np.random.default_rng(0)
VISITS = pd.DataFrame(
    {"who": np.repeat(np.arange(3_000), 4), "a": RNG.normal(5.0, 1.0, size=12_000)}
)
PUBLIC = pd.DataFrame({"a": [4.0, 5.5, 6.0]})
AUTO = {
    "x_pub": PUBLIC,
    "columns": ["a"],
    "person": "who",
    "rows_per_person": "auto",
    "progress": False,
}


def ledger_of_persons(rho=1):
    return fpp.Ledger(fpp.ZCDP(rho), relation=Neighbors.REPLACE_PERSON)


def test_threads_leave_the_filters_of_warnings_as_they_were():
    before = list(warnings.filters)
    calls = [
        threading.Thread(
            target=fpp.estimate_mean, args=(VISITS,), kwargs={**AUTO, "budget": fpp.ZCDP(0.5)}
        )
        for _ in range(4)
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert warnings.filters == before


def test_no_warning_of_another_thread_is_lost():
    """The main thread warns 200 times while another one chooses rows."""
    stop = threading.Event()

    def choose_again_and_again():
        while not stop.is_set():
            fpp.estimate_mean(VISITS, **AUTO, budget=fpp.ZCDP(0.5))

    other = threading.Thread(target=choose_again_and_again)
    with warnings.catch_warnings(record=True, action="always") as caught:
        other.start()
        for _ in range(200):
            warn("seeded", fpp.SeededNoiseWarning)
            stop.wait(0.001)
        stop.set()
        other.join()
    assert sum(each.category is fpp.SeededNoiseWarning for each in caught) == 200


@pytest.mark.parametrize(
    "change", [{"random_state": 1}, {"bounds": (50.0, 60.0)}], ids=["seed", "bounds"]
)
def test_warnings_as_errors_debit_nothing(change):
    ledger = ledger_of_persons()
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning):
        fpp.estimate_mean(VISITS, **AUTO, **change, budget=fpp.ZCDP(0.5), ledger=ledger)
    assert ledger.entries == ()


def test_each_warning_is_given_once():
    with warnings.catch_warnings(record=True, action="always") as caught:
        fpp.estimate_mean(VISITS, **AUTO, random_state=1, bounds=(50.0, 60.0), budget=fpp.ZCDP(0.5))
    texts = [str(each.message) for each in caught]
    assert len(texts) == len(set(texts))
    assert {each.filename for each in caught} == {__file__}
    assert {each.category for each in caught} >= {fpp.SeededNoiseWarning, fpp.AccuracyWarning}


def test_a_warning_about_the_result_raises_nothing_and_reaches_the_caller():
    """Only released counts show that no rows are near the public ones; the result is paid for."""
    far = pd.DataFrame({"a": [100.0, 101.0]})
    asked = {**AUTO, "x_pub": far, "budget": fpp.ZCDP(3e-5)}
    ledger = ledger_of_persons()
    with warnings.catch_warnings(action="error"):
        result = fpp.estimate_mean(VISITS, **asked, ledger=ledger)
    assert result.status == "unreliable"
    assert ledger.spent == fpp.ZCDP(3e-5).cost
    with pytest.warns(fpp.AccuracyWarning, match=r"unresolved \("):
        fpp.estimate_mean(VISITS, **asked)


def visits_of_two_groups():
    centers = RNG.choice([-40.0, 40.0], size=3_000)
    return pd.DataFrame({"who": np.arange(3_000), "a": centers + RNG.normal(size=3_000)})


def test_a_mixture_is_paid_once_and_learned_from_the_rows():
    """This function debits at a place of its own, which a rehearsal must not pass."""
    visits = visits_of_two_groups()
    ledger = ledger_of_persons()
    public = pd.DataFrame(
        {"a": np.concatenate([RNG.normal(-38.0, 1.0, 20), RNG.normal(38.0, 1.0, 20)])}
    )
    result = fpp.learn_axis_aligned_mixture(
        visits, **{**AUTO, "x_pub": public}, n_components=2, budget=fpp.ZCDP(1), ledger=ledger
    )
    assert ledger.spent == fpp.ZCDP(1).cost
    assert result.spent == fpp.ZCDP(1)
    assert sorted(result.means[:, 0].round()) == [-40.0, 40.0]


def refusing(above, error, events):
    """A public function of persons that refuses more than `above` rows of each, before its debit or after it."""

    def call(x_priv, *, budget, ledger=None, when="before"):
        if when == "before" and x_priv.rows_per_person > above:
            events.append(f"refuses {x_priv.rows_per_person}")
            raise error("too many rows of a person")
        run = user_level.session.start(
            "call",
            user_level.session.open_rows(x_priv)[0],
            budget,
            draws=1,
            ledger=ledger,
            random_state=None,
            threads=None,
            progress=False,
        )
        with run.paid():
            events.append(f"reads {x_priv.rows_per_person}")
            if when == "after" and x_priv.rows_per_person > above:
                raise error("too many rows of a person")
        return fpp.estimate_mean.__wrapped__(
            x_priv, x_pub=PUBLIC[:1], budget=budget, progress=False
        )

    return user_level.user_level(call)


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
@pytest.mark.parametrize(
    "error", [fpp.InputError, fpp.BudgetError, fpp.InfeasibleError, fpp.OutOfMemoryError]
)
def test_rows_are_halved_while_the_call_refuses_before_it_reads(error):
    events = []
    result = refusing(1, error, events)(
        VISITS, person="who", rows_per_person="auto", budget=fpp.ZCDP(10)
    )
    assert events == ["refuses 2", "refuses 4", "refuses 2", "reads 1"]  # the first is a rehearsal
    assert result.releases[0]["rows_per_person"] == 1
    assert result.releases[0]["share_of_rows_used"] == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("error", [fpp.InputError, fpp.BudgetError, RuntimeError])
def test_an_error_after_the_first_pass_starts_no_second_run(error):
    events = []
    ledger = ledger_of_persons(10)
    asked = {
        "person": "who",
        "rows_per_person": "auto",
        "budget": fpp.ZCDP(10),
        "ledger": ledger,
        "when": "after",
    }
    with pytest.raises(error, match="too many rows"):
        refusing(1, error, events)(VISITS, **asked)
    assert events == ["reads 4"]
    assert ledger.spent == fpp.ZCDP(10).cost


def test_counts_that_cannot_be_released_are_refused_before_the_debit(monkeypatch):
    """The noise of the counts is checked with the rest."""

    def refuse(*given, **named):
        raise fpp.BudgetError("noise out of range")

    monkeypatch.setattr(GaussianSpending, "grid", refuse)
    ledger = ledger_of_persons()
    with pytest.raises(fpp.BudgetError, match="out of range"):
        fpp.estimate_mean(VISITS, **AUTO, budget=fpp.ZCDP(0.5), ledger=ledger)
    assert ledger.entries == ()


@pytest.mark.parametrize("scale", [1, 1e-6], ids=["as usual", "tiny budget"])
@pytest.mark.parametrize("name", CALLS)
def test_no_call_warns_with_an_error_after_its_debit(name, scale):
    """With warnings as errors a call raises before its debit, or gives its result."""
    call = CALLS[name]
    budget = NOTIONS[call.notions[0]] * scale
    debits = []
    with warnings.catch_warnings(action="error"), before_debit(lambda: debits.append(name)):
        try:
            call.function(
                call.rows, **{"threads": 1, "progress": False, **call.options}, budget=budget
            )
        except UserWarning:
            assert debits == []
        except fpp.FastPubPrivError:
            pass


@pytest.mark.filterwarnings(
    "ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.AccuracyWarning"
)
def test_laplace_noise_alone_adds_no_rows_of_a_person():
    sizes = np.full(1_000, 2.0)
    budget = fpp.PureDP(1.0)
    chosen = []
    for seed in range(200):
        asked = {"ledger": None, "random_state": seed, "threads": 1, "progress": False}
        share = budget * user_level.CHOICE_SHARE
        choice = user_level.RowsChoice.prepare("mean", "who", sizes, share, budget, **asked)
        chosen.append(choice.release())

    assert np.mean(np.array(chosen) > 2) <= 0.01
