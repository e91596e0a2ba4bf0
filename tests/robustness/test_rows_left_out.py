"""Persons with more rows than are used: counted by a 64th of the budget of each call with a given number of rows."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers.tables import rows_of_persons
from public_calls import CALLS, NOTIONS

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, FastPubPrivError, Ledger, PureDP, ReplayError
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators import user_level
from fastpubpriv.privacy import Neighbors
from fastpubpriv.release.transcript import recording
from fastpubpriv.results.base import shown
from fastpubpriv.sources import person_table

BUDGETS = [ZCDP(0.5), PureDP(10), ApproxDP(8, 1e-6)]
# Share of the budget for the number of persons with more rows.
SHARE = Fraction(1, 64)
MORE = "persons with more rows"


def visits(heavy, persons=1_000, k=1):
    """As many rows of each person as are used, and three more of each of the `heavy` ones."""
    rows = np.where(np.arange(persons) < heavy, k + 3, k)
    return pd.DataFrame({"id": np.repeat(np.arange(persons), rows), "x": 1.0})


def counted(table, k=1, budget=BUDGETS[0], **more):
    return fpp.value_counts(
        table, columns="x", keys=[1], person="id", rows_per_person=k, budget=budget, **more
    )


def released_share(result):
    """The released share of persons with more rows, and its interval."""
    (record,) = (each for each in result.releases if each["name"] == MORE)
    return [record[name] for name in person_table.MORE_ROWS]


@pytest.mark.parametrize("budget", BUDGETS[:2], ids=["zcdp", "pure"])
@pytest.mark.parametrize(("heavy", "least", "most"), [(100, 0.99, 1.0), (0, 0.0, 0.02)])
def test_persons_with_more_rows_are_a_reason_if_they_are_many(budget, heavy, least, most):
    table = rows_of_persons(visits(heavy), person="id")
    found = [
        fpp.value_counts(table, columns="x", keys=[1], budget=budget, progress=False)
        for _ in range(150)
    ]
    seen = np.mean(["rows_left_out" in each.reasons for each in found])

    assert least <= seen <= most


@pytest.mark.parametrize("budget", BUDGETS[:2], ids=["zcdp", "pure"])
def test_the_share_of_persons_with_more_rows_lies_in_its_interval(budget):
    table = rows_of_persons(visits(100, k=3), person="id", rows_per_person=3)
    held = []
    for _ in range(150):
        result = fpp.value_counts(table, columns="x", keys=[1], budget=budget, progress=False)
        _, lower, upper = released_share(result)
        held.append(lower <= 0.1 <= upper)

    assert np.mean(held) >= 0.9


def test_the_share_is_a_fact_of_the_result():
    result = counted(visits(620, k=3), k=3, budget=ZCDP(1e6))

    about = "at most 3 rows of each of 1,000 persons; persons with more than 3 rows: 62 % [62, 62]"
    assert result.about == about
    assert ["Answers about", about] in [[*each] for each in shown(result)[1]]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("budget", BUDGETS, ids=["zcdp", "pure", "approx"])
def test_the_price_is_the_budget_exactly_in_one_debit(budget, k):
    ledger = Ledger(budget, relation=Neighbors.REPLACE_PERSON)
    with recording() as recorded:
        result = counted(visits(100, k=k), k=k, budget=budget, ledger=ledger)

    assert result.spent == budget
    assert [entry.cost for entry in ledger.entries] == [budget.cost]
    assert ledger.remaining.is_zero
    assert [price for _, price, _ in recorded.accounts] == [budget * (1 - SHARE), budget * SHARE]
    draws = sum(declared for _, _, declared in recorded.accounts)
    assert result.numerics["noise_draws"] <= draws


@pytest.mark.parametrize("name", CALLS)
def test_every_call_that_takes_a_person_counts_those_with_more_rows(name):
    call = CALLS[name]
    if call.heavy or call.slow:
        pytest.skip("as quick ones do")
    if call.named:
        pytest.skip("has a table of its own")
    rows = np.asarray(call.rows)[:300]
    budget = NOTIONS[call.notions[0]]
    each = rows_of_persons(rows, person=pd.Series(np.arange(len(rows)) // 2, name="who"))
    ledger = Ledger(budget, relation=Neighbors.REPLACE_PERSON)
    try:
        result = call(each, budget=budget, ledger=ledger)
    except FastPubPrivError:
        assert ledger.entries == ()
        return

    if ledger.entries:
        assert result.spent == budget
        assert ledger.spent == budget.cost
        assert released_share(result)[2] <= 1.0
        assert "persons with more than 1 row: " in result.about
    else:
        assert MORE not in [release["name"] for release in result.releases]


REFUSED = Refusals()
REFUSED.add("REPLACE_PERSON", ledger=Ledger(ZCDP(1)))
REFUSED.add("Ledger or None", ledger="ledger")
REFUSED.add("threads", threads=0)
REFUSED.add("random_state", random_state=-1)
REFUSED.add("keys", keys=[])


@pytest.mark.parametrize(
    ("change", "words"), REFUSED, ids=["relation", "ledger", "threads", "seed", "keys"]
)
def test_bad_arguments_are_refused_in_words(change, words):
    asked = {"columns": "x", "keys": [1], "person": "id", "rows_per_person": 1, "budget": ZCDP(1)}
    raises(FastPubPrivError, words, fpp.value_counts, visits(10), **{**asked, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keys": [], "budget": ZCDP(0.5)}, "keys"),
        ({"budget": ZCDP(2)}, "larger than what remains"),
        ({"budget": ZCDP(2.0**-58)}, None),
    ],
    ids=["keys", "too little is left", "noise out of range"],
)
def test_a_refused_call_debits_nothing(change, words):
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    asked = {"columns": "x", "keys": [1], "person": "id", "rows_per_person": 3, "ledger": ledger}
    raises(FastPubPrivError, words, fpp.value_counts, visits(10), **{**asked, **change})
    assert ledger.entries == ()


def test_a_count_that_cannot_be_released_is_refused_before_the_debit(monkeypatch):
    def refuse(*given, **named):
        raise fpp.BudgetError("noise out of range")

    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    monkeypatch.setattr(user_level, "_prepare_count", refuse)
    raises(fpp.BudgetError, "out of range", counted, visits(10), ledger=ledger)
    assert ledger.entries == ()


def test_a_mean_or_a_sum_of_each_person_leaves_no_row_out():
    for keep in ("mean", "sum"):
        result = fpp.estimate_mean(
            visits(100),
            x_pub=pd.DataFrame({"x": [0.0]}),
            person="id",
            keep=keep,
            budget=ZCDP(0.5),
        )
        assert MORE not in [each["name"] for each in result.releases]


def replayed(budget=BUDGETS[0]):
    """Replay a call where one person's rows become one."""
    one = visits(20, persons=60)
    other = one.drop(index=range(1, 4))
    return record_replay(lambda table: counted(table, budget=budget), one, other, budget=budget)


@pytest.mark.parametrize("budget", BUDGETS[:2], ids=["zcdp", "pure"])
def test_a_person_with_fewer_rows_changes_the_count_by_one(budget):
    report = replayed(budget)

    assert report.calls == 2
    assert 0 < report.pair_cost <= report.declared_cost <= report.allowance


def test_planted_fault_a_count_on_top_of_the_whole_budget_is_caught(monkeypatch):
    at_row_level = user_level._at_row_level

    def whole(function, x_priv, given, named):
        return at_row_level(function, x_priv, given, {**named, "budget": BUDGETS[0]})

    monkeypatch.setattr(user_level, "_at_row_level", whole)
    with pytest.raises(ReplayError, match="exceed the budget"):
        replayed()


def test_planted_fault_a_count_relative_to_other_persons_is_caught(monkeypatch):
    """Whether a person has more rows than most others depends on the rows of all."""
    of_bucket = person_table._of_bucket

    def relative(bucket, k):
        sizes = np.unique(bucket.mark, return_counts=True)[1]
        return of_bucket(bucket, k)._replace(more=(sizes > 1) == (sizes.sum() > 60 + 3 * 19))

    monkeypatch.setattr(person_table, "_of_bucket", relative)
    with pytest.raises(ReplayError, match="sensitivity"):
        replayed()


@pytest.mark.parametrize(
    "change", [{"random_state": 1}, {"bounds": (50.0, 60.0)}], ids=["seed", "bounds"]
)
def test_warnings_as_errors_debit_nothing(change):
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    asked = {"x_pub": pd.DataFrame({"x": [0.0, 1.0, 2.0]}), "person": "id", "rows_per_person": 2}
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning):
        fpp.estimate_mean(visits(100), **asked, **change, budget=ZCDP(0.5), ledger=ledger)
    assert ledger.entries == ()


def test_each_warning_is_given_once():
    asked = {"x_pub": pd.DataFrame({"x": [0.0, 1.0, 2.0]}), "person": "id", "rows_per_person": 2}
    with warnings.catch_warnings(record=True, action="always") as caught:
        fpp.estimate_mean(visits(100), **asked, random_state=1, budget=ApproxDP(1, 0.5))
    texts = [str(each.message) for each in caught]
    assert len(texts) == len(set(texts)) >= 2
    assert {each.filename for each in caught} == {__file__}


def test_the_debit_of_a_call_that_fails_stays():
    """An error after the first pass began: the budget is spent, and nothing is said of the persons."""

    @user_level.user_level
    def failing(x_priv, *, budget, ledger=None, random_state=None):
        rows = user_level.session.open_rows(x_priv)[0]
        asked = user_level.session.asked(ledger, random_state, None, False)
        run = user_level.session.start("failing", rows, budget, draws=1, **asked)
        with run.paid():
            raise RuntimeError("lost")

    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    with pytest.raises(RuntimeError, match="lost"):
        failing(visits(10), person="id", rows_per_person=2, budget=ZCDP(0.5), ledger=ledger)
    assert ledger.spent == ZCDP(0.5).cost
