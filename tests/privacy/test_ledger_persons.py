"""A ledger for persons is for one kind of person: it keeps the name of the first, and refuses any other before the debit."""

import multiprocessing

import numpy as np
import pandas as pd
import polars
import pytest
from helpers.errors import raises
from helpers.tables import rows_of_persons
from ledger_cases import DEBIT, HEADER, forged_records
from spies import SpyRows

import fastpubpriv as fpp
from fastpubpriv import ZCDP, BudgetError, InputError, Ledger, LedgerError
from fastpubpriv.privacy import Neighbors

FORK = multiprocessing.get_context("fork")
PERSONS = {"relation": Neighbors.REPLACE_PERSON}
PART = ZCDP(0.125)
VISITS = pd.DataFrame(
    {
        "patient": np.arange(700) % 100,
        "doctor": np.arange(700) // 70,
        "cost": np.random.default_rng(0).normal(size=700),
    }
)


def mean_by(person, ledger, **more):
    return fpp.estimate_mean(
        VISITS,
        x_pub=pd.DataFrame({"cost": [0.0, 1.0]}),
        columns=["cost"],
        **{"person": person, "rows_per_person": 1, "budget": PART, "ledger": ledger, **more},
    )


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("rows_per_person", [1, 2, "auto"])
def test_a_patient_of_many_doctors_is_not_debited_as_one_doctor(in_file, rows_per_person, tmp_path):
    ledger = Ledger(ZCDP(1), path=tmp_path / "a.ledger" if in_file else None, **PERSONS)
    assert ledger.person is None
    mean_by("patient", ledger, rows_per_person=rows_per_person)
    assert ledger.person == "patient"
    with pytest.raises(BudgetError, match="each 'patient', and 'doctor' is another kind") as caught:
        mean_by("doctor", ledger, rows_per_person=rows_per_person)
    assert "name 'patient' as the person" in str(caught.value)
    assert ledger.spent == PART.cost
    mean_by("patient", ledger, rows_per_person=rows_per_person)
    assert ledger.spent == (PART + PART).cost


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_every_door_to_a_ledger_names_the_person():
    doors = {
        "a table of persons": lambda ledger: fpp.estimate_mean(
            rows_of_persons(VISITS, person="doctor"),
            x_pub=pd.DataFrame({"cost": [0.0, 1.0]}),
            columns=["cost"],
            budget=PART,
            ledger=ledger,
        ),
        "the choice of a number of rows": lambda ledger: mean_by(
            "doctor", ledger, rows_per_person="auto"
        ),
        "a name of a series": lambda ledger: mean_by(VISITS["doctor"], ledger),
        "a name of a polars series": lambda ledger: mean_by(
            polars.Series("doctor", VISITS["doctor"].to_numpy()), ledger
        ),
        "another function": lambda ledger: fpp.value_counts(
            VISITS[["doctor", "cost"]].round(),
            columns="cost",
            keys=[0.0, 1.0],
            person="doctor",
            rows_per_person=1,
            budget=PART,
            ledger=ledger,
        ),
        "a debit by hand": lambda ledger: ledger.debit(PART, name="x", person="doctor"),
    }
    for name, door in doors.items():
        ledger = Ledger(ZCDP(1), **PERSONS)
        door(ledger)
        assert ledger.person == "doctor", name
        ledger = Ledger(ZCDP(1), **PERSONS)
        ledger.debit(PART, name="x", person="patient")
        raises(BudgetError, "'doctor' is another kind", door, ledger)
        assert ledger.spent == PART.cost, name


@pytest.mark.parametrize("rows_per_person", [1, "auto"])
@pytest.mark.parametrize(
    "person",
    [VISITS["patient"].to_numpy(), VISITS["patient"].tolist(), VISITS["patient"].rename(None)],
)
def test_identifiers_without_a_name_need_one_for_a_ledger(person, rows_per_person):
    ledger = Ledger(ZCDP(1), **PERSONS)
    raises(
        BudgetError,
        "a Series that has a name",
        mean_by,
        person,
        ledger,
        rows_per_person=rows_per_person,
    )
    assert ledger.spent.is_zero
    assert mean_by(person, None).n_priv == 100


def test_a_name_that_cannot_be_recorded_is_refused_before_the_debit():
    ledger = Ledger(ZCDP(1), **PERSONS)
    log = []
    rows = SpyRows(np.zeros((700, 1)), log)
    who = VISITS["patient"].rename("two\nlines")
    raises(
        InputError,
        "person must be a printable text",
        fpp.coinpress_mean,
        rows,
        person=who,
        rows_per_person=1,
        center=0.0,
        radius=1.0,
        budget=PART,
        ledger=ledger,
    )
    assert ledger.spent.is_zero
    raises(
        BudgetError,
        "belongs to a ledger of REPLACE_PERSON",
        Ledger(ZCDP(1)).debit,
        PART,
        name="x",
        person="patient",
    )


def test_the_name_outlives_the_process_and_debits_without_one(tmp_path):
    path = tmp_path / "a.ledger"
    first = Ledger(ZCDP(1), path=path, **PERSONS)
    second = Ledger(ZCDP(1), path=path, **PERSONS)
    first.debit(PART, name="by hand")
    second.debit(PART, name="x", person="patient")
    raises(BudgetError, "another kind", first.debit, PART, name="x", person="doctor")
    first.debit(PART, name="by hand")
    again = Ledger.from_file(path)
    assert again.person == "patient"
    assert len(again.entries) == 3
    raises(BudgetError, "another kind", again.debit, PART, name="x", person="doctor")
    assert again.spent == (PART + PART + PART).cost


OLD = {**HEADER, "relation": "replace_person"}


def test_a_file_of_an_earlier_version_accepts_the_first_name(tmp_path):
    path = tmp_path / "old.ledger"
    path.write_bytes(forged_records(OLD, DEBIT))
    ledger = Ledger.from_file(path)
    assert ledger.person is None
    assert ledger.spent == ZCDP(0.5).cost
    assert ledger.debit(PART, name="x", person="patient") == 2
    raises(BudgetError, "another kind", ledger.debit, PART, name="x", person="doctor")
    assert Ledger.from_file(path).person == "patient"
    assert Ledger.from_file(path).spent == ZCDP(0.625).cost


@pytest.mark.parametrize("persons", [["patient", "doctor"], [None], [""], [7], ["two\nlines"]])
def test_a_file_with_other_names_is_refused(tmp_path, persons):
    debits = [
        {**DEBIT, "number": place + 1, "cost": PART.cost.to_dict(), "person": name}
        for place, name in enumerate(persons)
    ]
    path = tmp_path / "forged.ledger"
    path.write_bytes(forged_records(OLD, *debits))
    raises(LedgerError, "two kinds of persons|cannot be read", Ledger.from_file, path)


def first_debit(path, name, barrier, results):
    ledger = Ledger.from_file(path, timeout=60)  # it has read that there is no name
    barrier.wait()
    try:
        ledger.debit(PART / 8, name="first", person=name)
        results.put((name, "paid"))
    except Exception as error:  # any other too, since the parent waits for an answer
        results.put((name, "refused" if "another kind" in str(error) else repr(error)))


def test_of_two_first_debits_at_once_the_second_sees_the_name(tmp_path):
    for turn in range(20):
        path = tmp_path / f"{turn}.ledger"
        Ledger(ZCDP(1), path=path, **PERSONS)
        barrier = FORK.Barrier(4)
        results = FORK.SimpleQueue()
        names = ["patient", "doctor", "ward", "town"]
        children = [
            FORK.Process(target=first_debit, args=(path, name, barrier, results)) for name in names
        ]
        for child in children:
            child.start()
        found = dict(results.get() for _ in children)
        for child in children:
            child.join()
        ledger = Ledger.from_file(path)
        assert found == {name: "paid" if name == ledger.person else "refused" for name in names}
        assert ledger.spent == (PART / 8).cost


def test_planted_fault_a_check_before_the_lock_is_caught(tmp_path, monkeypatch):
    """What another process wrote is seen only if the check follows the reading under the lock."""
    path = tmp_path / "a.ledger"
    first = Ledger(ZCDP(1), path=path, **PERSONS)
    second = Ledger(ZCDP(1), path=path, **PERSONS)
    first.debit(PART, name="x", person="patient")
    raises(BudgetError, "another kind", second.debit, PART, name="x", person="doctor")
    monkeypatch.setattr(Ledger, "_check_person", lambda self, person: None)
    second.debit(PART, name="x", person="doctor")
    raises(LedgerError, "two kinds of persons", Ledger.from_file, path)
