"""`PrivateTable`: its methods are the functions, its ledger is debited by each call, and nothing of it shows a row."""

import ast
import contextlib
import copy
import inspect
import pickle
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import types_of_methods
from clocks import PATIENCE
from helpers.errors import raises
from helpers.tables import rows_of_persons
from helpers.visits import NUMBER_OF_ROWS, PATIENTS, files, visits, volunteers

import fastpubpriv as fpp
from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BudgetError,
    InputError,
    Ledger,
    LedgerError,
    PrivateTable,
    PureDP,
)
from fastpubpriv.estimators import user_level
from fastpubpriv.local import Duchi
from fastpubpriv.privacy import Neighbors
from fastpubpriv.release.account import before_debit
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.bound import BOUND
from fastpubpriv.tables.bound_functions import BoundFunction, BoundFunctions, method_of

VISITS = visits()
PUBLIC = volunteers()
COST = {"columns": ["cost"]}
ROWS_IN_TEXTS = (str(NUMBER_OF_ROWS), f"{NUMBER_OF_ROWS:,}")
pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)


def table_of(**bound):
    return PrivateTable(VISITS, **{"x_pub": PUBLIC, "total": ZCDP(1), **bound})


def persons_table(**bound):
    return table_of(**{"person": "patient", "rows_per_person": 2, **bound})


# ---- Methods ---------------------------------------------------------------------------------------------------------


def of_private_rows(name):
    """Whether a public name is a function of private rows that debits a ledger and releases something about them."""
    value = getattr(fpp, name)
    if not inspect.isfunction(value):
        return False
    return {"x_priv", "ledger", "budget"} <= inspect.signature(value).parameters.keys()


def test_methods_are_the_functions_with_private_rows_and_a_ledger():
    methods = {
        name for name, value in vars(BoundFunctions).items() if isinstance(value, BoundFunction)
    }
    assert methods == {name for name in fpp.__all__ if of_private_rows(name)}


@pytest.mark.parametrize("function", types_of_methods.functions(), ids=lambda each: each.__name__)
def test_a_method_has_the_signature_and_the_words_of_its_function_without_what_is_bound(function):
    method = method_of(function)
    theirs = inspect.signature(function).parameters
    ours = inspect.signature(method).parameters
    assert [*ours] == ["self", *(name for name in theirs if name not in BOUND)]
    assert all(ours[name].default == theirs[name].default for name in [*ours][1:])
    assert method.__name__ == function.__name__
    for name in theirs:
        is_described = f"\n{name} : " in method.__doc__
        assert is_described == (name not in BOUND), name


def test_types_of_methods_are_those_of_the_functions():
    # Formatting aside: `python tests/tables/types_of_methods.py` writes the file.
    stored, made = (
        ast.parse(text) for text in (types_of_methods.STUB.read_text(), types_of_methods.stub())
    )
    imports = [
        {
            (node.module, each.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for each in node.names
        }
        for tree in (stored, made)
    ]
    assert imports[0] == imports[1]
    assert ast.dump(stored.body[-1]) == ast.dump(made.body[-1])


CALLS = {
    "estimate_mean": COST,
    "quantiles": COST,
    "value_counts": {"columns": ["ward"]},
    "linear_regression": {"label": "cost", "columns": ["age"]},
    "estimate_gaussian": {"columns": ["age", "cost"]},
}
PERSONS = {
    "rows": {},
    "two rows": {"person": "patient", "rows_per_person": 2},
    "means": {"person": "patient", "keep": "mean"},
}


@pytest.mark.parametrize("person", PERSONS)
@pytest.mark.parametrize("call", CALLS)
def test_a_method_gives_what_the_function_gives_bit_by_bit(call, person):
    if call == "value_counts" and person == "means":
        pytest.skip("there is no mean of text")
    bound = PERSONS[person]
    budget = ZCDP(Fraction(1, 8))
    given = {**CALLS[call], "budget": budget, "random_state": 5}
    table = table_of(**bound)
    by_method = getattr(table, call)(**given)
    passed_on = getattr(fpp, call)(table, **given)
    direct = getattr(fpp, call)(VISITS, x_pub=PUBLIC, **bound, **given)
    assert by_method.to_json() == direct.to_json() == passed_on.to_json()
    assert table.spent == (budget + budget).cost


def test_count_persons_counts_the_persons_of_the_table():
    table = persons_table(total=ZCDP(10), rows_per_person=None)
    counts = table.count_persons(by="ward", groups=["north", "south"], budget=ZCDP(5))
    truth = VISITS[VISITS.ward == "south"].patient.nunique()
    assert counts.n_priv == PATIENTS
    assert abs(counts["south"] - truth) < 10


def test_listed_keys_win_over_bound_public_rows():
    table = table_of(total=ZCDP(2))
    counts = table.value_counts(columns=["ward"], keys=["north"], budget=ZCDP(1))
    assert counts.keys == (("north",), ("(other)",), ("(missing)",))
    binned = table.value_counts(columns=["age"], bins=[50], budget=ZCDP(1))
    assert binned.keys == (("below 50",), ("50 or more",), ("(missing)",))


def test_a_call_may_say_what_stands_for_a_person():
    table = persons_table()
    sums = table.estimate_mean(**COST, keep="sum", budget=table.total / 4)
    assert sums.about == f"the sum of the rows of each of {PATIENTS} persons"
    several = table_of(person="patient", keep="mean")
    one = several.estimate_mean(**COST, rows_per_person=1, budget=table.total / 4)
    assert one.about.startswith(f"at most 1 row of each of {PATIENTS} persons")


@pytest.mark.parametrize("name", BOUND)
@pytest.mark.parametrize("verb", ["estimate_mean", "count_persons"])
def test_what_is_bound_is_refused_before_the_debit(name, verb):
    table = persons_table()
    words = f"{name}= is bound to this table: make another one to change it"
    given = {name: VISITS, "budget": ZCDP(0.1)}
    raises(InputError, words, getattr(table, verb), **given)
    if name != "x_priv":
        raises(InputError, words, getattr(fpp, verb), table, **given)
    assert table.spent.is_zero


# ---- The ledger ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [ZCDP(1), ApproxDP(1, 1e-6), PureDP(1), ZCDP(0.1)], ids=repr)
def test_twelve_parts_of_a_total_pay_for_twelve_calls_exactly(total):
    table = PrivateTable(VISITS, x_pub=PUBLIC, total=total)
    for _ in range(12):
        table.value_counts(columns=["ward"], budget=table.total / 12)
    assert table.remaining.is_zero
    raises(
        BudgetError,
        "larger than what remains",
        table.value_counts,
        columns=["ward"],
        budget=total / 12,
    )
    assert table.spent == total.cost


def test_a_path_opens_a_ledger_or_makes_one(tmp_path):
    path = tmp_path / "a.ledger"
    raises(InputError, "no ledger .* yet: pass total=", table_of, total=None, ledger=path)
    table = table_of(ledger=path)
    table.estimate_mean(**COST, budget=ZCDP(0.25))
    for again in (table_of(ledger=str(path)), table_of(total=None, ledger=path)):
        assert again.remaining == ZCDP(0.75).cost
    raises(BudgetError, "leave total= out", table_of, ledger=path, total=ZCDP(2))
    raises(BudgetError, "opened with relation=Neighbors.REPLACE_PERSON", persons_table, ledger=path)


def test_without_a_total_or_a_ledger_nothing_says_what_is_left():
    raises(InputError, "a table without a total cannot say what is left", PrivateTable, VISITS)


def test_a_ledger_of_patients_is_none_of_wards():
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    first = persons_table(ledger=ledger, total=None)
    second = persons_table(ledger=ledger, total=None, person="ward")  # nobody is counted yet
    first.estimate_mean(**COST, budget=ZCDP(0.25))
    words = "each 'patient', and 'ward' is another kind"
    raises(BudgetError, words, persons_table, ledger=ledger, total=None, person="ward")
    raises(BudgetError, words, second.estimate_mean, **COST, budget=ZCDP(0.25))
    raises(BudgetError, words, second.count_persons, by="age", groups=[50], budget=ZCDP(0.25))
    assert ledger.spent == ZCDP(0.25).cost


def test_planted_fault_a_ledger_that_forgets_its_persons_is_seen(monkeypatch):
    monkeypatch.setattr(Ledger, "_check_person", lambda self, person: None)
    monkeypatch.setattr(Ledger, "person", None)
    with pytest.raises(pytest.fail.Exception):
        test_a_ledger_of_patients_is_none_of_wards()


def test_a_closed_table_debits_nothing_nor_do_others_of_its_rows(tmp_path):
    with persons_table(ledger=tmp_path / "a.ledger") as table:
        derived = table._with((), {})
        table.estimate_mean(**COST, budget=ZCDP(0.25))
        assert table.held
    for each in (table, derived):
        raises(
            InputError, "closed: nothing was debited", each.estimate_mean, **COST, budget=ZCDP(0.25)
        )
        raises(InputError, "closed", fpp.estimate_mean, each, **COST, budget=ZCDP(0.25))
    raises(LedgerError, "closed", table.binding.ledger.debit, ZCDP(0.25), name="by hand")
    assert table.spent == ZCDP(0.25).cost
    assert not table.held
    assert repr(table).endswith("rho 0.75 of 1 left; closed)")


def test_a_ledger_of_the_caller_stays_open():
    ledger = Ledger(ZCDP(1))
    table_of(ledger=ledger, total=None).close()
    ledger.debit(ZCDP(1), name="by hand")
    assert ledger.remaining.is_zero


# ---- What is done once -----------------------------------------------------------------------------------------------


def test_rows_of_persons_are_chosen_once(monkeypatch):
    chosen = []
    make = user_level.table_of_persons

    def choose(source, person, rule, k, **more):
        chosen.append((rule, k))
        return make(source, person, rule, k, **more)

    monkeypatch.setattr("fastpubpriv.sources.bound.table_of_persons", choose)
    table = persons_table()
    for _ in range(3):
        table.estimate_mean(**COST, budget=ZCDP(0.1))
    table.quantiles(**COST, budget=ZCDP(0.1))
    table.estimate_mean(**COST, keep="sum", budget=ZCDP(0.1))
    assert chosen == [("row", 2), ("sum", 1)]


def test_a_stream_is_read_once():
    stream = pa.Table.from_pandas(VISITS[["age", "cost"]]).to_reader()
    query = Rows.from_stream(stream, each_row_from_one=True)
    table = PrivateTable(query, x_pub=PUBLIC[["age", "cost"]], total=ZCDP(1))
    first = table.estimate_mean(**COST, budget=ZCDP(0.5), random_state=1)
    assert (
        first.to_json() == table.estimate_mean(**COST, budget=ZCDP(0.5), random_state=1).to_json()
    )
    assert not any(number in repr(table) for number in ROWS_IN_TEXTS)


def releases_of_choices(table, at_once=2):
    """Two first calls at once; return how many of them paid for the choice of rows."""
    results = []
    begin = threading.Barrier(at_once)

    def ask():
        begin.wait()
        results.append(table.estimate_mean(**COST, budget=table.total / 4))

    threads = [threading.Thread(target=ask) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [[each["name"] for each in result.releases] for result in results]
    assert len(results) == at_once
    return sum("rows per person" in each for each in names)


def test_two_first_calls_at_once_pay_for_the_choice_once():
    table = table_of(person="patient", rows_per_person="auto")
    assert "the first call chooses how many rows of each" in repr(table)
    assert releases_of_choices(table) == 1
    k = table.binding.choice["rows_per_person"]
    assert f"at most {k} row" in repr(table)
    later = table.estimate_mean(**COST, budget=table.total / 4)
    assert not any(each["name"] == "rows per person" for each in later.releases)
    assert f"persons with more than {k} row" in later.about
    assert table.spent == (table.total * Fraction(3, 4)).cost


def test_planted_fault_a_table_without_a_lock_pays_twice():
    table = table_of(person="patient", rows_per_person="auto")
    table.binding.lock = contextlib.nullcontext()
    both_choose = threading.Barrier(2, timeout=PATIENCE)
    original = user_level._debit

    def debit(*given):
        both_choose.wait()
        original(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_level, "_debit", debit)
        assert releases_of_choices(table) == 2


# ---- Nothing shows a row ---------------------------------------------------------------------------------------------

CANARY = 1.23456789e77
NAME = "Alice-SSN-123"
MARKS = ("1.2345", "12345678", "Alice", "SSN")


def marked_csv(folder):
    """A file without a header: its first line is a private row."""
    lines = [f"{NAME},{NAME}-b", *(f"{NAME},{CANARY}{place}" for place in range(50))]
    (folder / "private.csv").write_text("\n".join(lines) + "\n")
    return folder / "private.csv"


def marked_frame(folder):
    return pd.DataFrame({"age": [CANARY] * 50, "ward": [NAME] * 50})


def everything_about(table):
    """All texts that come out of a table: representations, state, and what refused operations and failed calls say."""
    texts = [
        repr(table),
        str(table),
        f"{table}",
        table._repr_html_(),
        repr(table.columns),
        str(table.n),
    ]
    texts += [repr(table.binding.ledger), repr(table.spent)]
    refused = [
        vars, list, len, np.asarray, np.sum, bool, pd.DataFrame, pickle.dumps, copy.copy, copy.deepcopy, private_rows,
        lambda each: each == each, lambda each: each[0], lambda each: each + 1, lambda each: format(each, "f"),
        lambda each: each.estimate_mean(columns=["age"], budget=ZCDP(9)),
        lambda each: each.estimate_mean(columns=["agee"], budget=ZCDP(0.1)),
        lambda each: each.value_counts(columns=["name"], keys=["a"], budget=ZCDP(0.1)),
        lambda each: each.quantiles(budget=ZCDP(0.1)), lambda each: PrivateTable(each, total=ZCDP(1)),
        lambda each: PrivateTable(each.binding.source, total=ZCDP(1), person="agee"),
    ]  # fmt: skip
    for action in refused:
        try:
            texts.append(repr(action(table)))
        except Exception as error:
            texts += ["".join(traceback.format_exception(error)), repr(vars(error))]
    return "\n".join(texts)


@pytest.mark.parametrize("source", [marked_csv, marked_frame])
def test_no_text_of_a_table_shows_a_private_cell(source, tmp_path):
    table = PrivateTable(source(tmp_path), x_pub=pd.DataFrame({"age": [1.0, 2.0]}), total=ZCDP(1))
    texts = everything_about(table)
    assert "2 columns" in texts
    assert not any(mark in texts for mark in MARKS)


def test_planted_fault_a_representation_with_the_names_of_a_csv_file_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(
        PrivateTable, "__repr__", lambda table: f"PrivateTable({table.binding.names})"
    )
    with pytest.raises(AssertionError):
        test_no_text_of_a_table_shows_a_private_cell(marked_csv, tmp_path)


def test_names_of_a_csv_file_are_those_that_the_public_rows_have(tmp_path):
    VISITS.to_csv(tmp_path / "a.csv", index=False)
    table = PrivateTable(
        tmp_path / "a.csv", x_pub=PUBLIC[["cost"]], total=ZCDP(1), person="patient"
    )
    assert table.columns == ("patient", "cost")
    assert "5 columns" in repr(table)
    frame = table_of(total=ZCDP(1))
    assert frame.columns == tuple(VISITS.columns)


def test_the_number_of_rows_of_persons_is_in_no_text(tmp_path):
    path = files(tmp_path)
    for table in (persons_table(), PrivateTable.from_toml(path)):
        result = table.estimate_mean(**COST, budget=table.total / 4)
        counts = table.count_persons(by="ward", budget=table.total / 4)
        texts = [everything_about(table), result.summary(), result.to_json(), counts.summary()]
        assert f"{PATIENTS} persons" in texts[0]
        assert not [number for number in ROWS_IN_TEXTS for text in texts if number in text]
    stored = pickle.dumps(PrivateTable.from_toml(path))
    assert str(NUMBER_OF_ROWS).encode() not in stored
    assert NUMBER_OF_ROWS.to_bytes(2, "little") not in stored


def test_only_functions_that_debit_read_a_table(tmp_path):
    table = table_of()
    doors = (
        private_rows, Rows.from_csv, Rows.from_dask, lambda each: Rows.from_chunks(each, n=3, dim=2),
        lambda each: Rows.from_stream(each, each_row_from_one=True),
        Duchi(dim=5, epsilon=1.0, norm_bound=1.0).privatize,
        lambda each: fpp.estimate_mean(VISITS, x_pub=each, **COST, budget=ZCDP(0.1)),
        lambda each: PrivateTable(VISITS, x_pub=each, total=ZCDP(1)),
    )  # fmt: skip
    for door in doors:
        raises(InputError, "PrivateTable", door, table)
    assert table.spent.is_zero


def test_tables_of_persons_are_no_sources():
    rows = rows_of_persons(VISITS, person="patient")
    raises(InputError, "pass the table itself, and person=", PrivateTable, rows, total=ZCDP(1))


# ---- Pickles ---------------------------------------------------------------------------------------------------------


def mean_in_a_process(table):
    return table.estimate_mean(columns=["cost"], budget=table.total / 4, random_state=3).to_json()


def test_a_table_of_files_goes_to_other_processes(tmp_path, monkeypatch):
    table = PrivateTable.from_toml(files(tmp_path, rows_per_person="auto"))
    table.quantiles(**COST, budget=table.total / 4)
    state = table.__getstate__()
    assert {str, tuple, dict, type(None)} >= {type(value) for value in state.values()}
    monkeypatch.chdir("/")  # names of files are absolute
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        answers = [*pool.map(mean_in_a_process, [table, table])]
    assert answers[0] == answers[1]
    assert table.spent == (table.total * Fraction(3, 4)).cost
    assert answers[0] == mean_in_a_process(table)
    assert '"rows per person"' not in answers[0]  # the choice went along


IN_MEMORY = {
    "x_priv": {"x_priv": VISITS},
    "x_pub": {"x_pub": PUBLIC},
    "person": {"person": VISITS.patient},
    "ledger": {"ledger": None, "total": ZCDP(1)},
}


@pytest.mark.parametrize("part", IN_MEMORY)
def test_a_part_in_memory_is_named_where_a_table_cannot_be_pickled(part, tmp_path):
    files(tmp_path)
    parts = {"x_priv": tmp_path / "visits.parquet", "ledger": tmp_path / "a.ledger"}
    table = PrivateTable(**{**parts, "total": ZCDP(1), **IN_MEMORY[part]})
    for action in (pickle.dumps, copy.copy, copy.deepcopy):
        raises(TypeError, part, action, table)


# ---- Where and with_columns ------------------------------------------------------------------------------------------


def test_conditions_share_the_ledger_and_the_number_of_rows():
    table = persons_table(total=ZCDP(8))
    inside = table.where("age >= 60")
    result = inside.quantiles(**COST, budget=ZCDP(4))
    assert inside.n == table.n == PATIENTS
    assert result.n_priv == PATIENTS
    assert table.remaining == inside.remaining == ZCDP(4).cost
    assert "where age >= 60" in repr(inside)
    assert "where" not in repr(table)
    truth = VISITS[VISITS.age >= 60].cost.median()
    low, high = result.confidence_interval(0.95)
    assert low[0, 1] <= truth <= high[0, 1]


def test_columns_of_persons_cannot_be_redefined():
    table = persons_table()
    raises(InputError, "patient", table.with_columns, patient="age")
    double = table.with_columns(cost="age")
    raises(InputError, "a column 'cost' already", double.estimate_mean, **COST, budget=ZCDP(0.1))
    more = table.with_columns(old="age >= 60")
    assert more.n == PATIENTS
    assert more.columns == (*VISITS.columns, "old")
    assert more.estimate_mean(columns=["old"], budget=ZCDP(0.1)).n_priv == PATIENTS


def test_a_kept_choice_is_of_all_rows():
    table = table_of(person="patient", rows_per_person="auto", total=ZCDP(8))
    inside = table.where("age >= 60")
    inside.quantiles(**COST, budget=ZCDP(2))
    again = table.where("age < 40").quantiles(**COST, budget=ZCDP(2))
    assert "of all rows of the table" in again.about
    assert not any(each["name"] == "rows per person" for each in again.releases)
    assert "of all rows of the table" not in table.quantiles(**COST, budget=ZCDP(2)).about


def test_a_debit_is_announced_once():
    announced = []
    with before_debit(lambda: announced.append(1)):
        persons_table().estimate_mean(**COST, budget=ZCDP(0.1))
    assert announced == [1]
