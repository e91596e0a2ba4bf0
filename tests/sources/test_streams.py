"""Objects with an Arrow stream: tables in memory are read, queries are refused, and what the caller vouches for is read once."""

import sys
import types

import narwhals
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from helpers.errors import raises

import fastpubpriv as fpp
from fastpubpriv import ZCDP, InputError, Ledger, Rows
from fastpubpriv.privacy import Neighbors
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.open import public_rows

SECRET = "4711 from Bonn"
RNG = np.random.default_rng(2)
COLUMNS = {
    "who": np.arange(1_150) // 4,
    "age": RNG.normal(40.0, 9.0, 1_150),
    "town": RNG.choice(["x", "y"], 1_150),
}
TABLE = pa.table(COLUMNS)
PUBLIC = pd.DataFrame({"age": [35.0, 45.0]})
GIVEN = {"columns": ["age"], "x_pub": PUBLIC, "budget": ZCDP(0.5)}
QUERY = "this object runs a query, or may run one"
TABLES = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "polars": lambda: polars.from_arrow(TABLE),
    "narwhals of pandas": lambda: narwhals.from_native(pd.DataFrame(COLUMNS)),
    "narwhals of polars": lambda: narwhals.from_native(polars.from_arrow(TABLE)),
    "narwhals of pyarrow": lambda: narwhals.from_native(TABLE),
}
QUERIES = {
    "narwhals, lazy": lambda: narwhals.from_native(polars.from_arrow(TABLE).lazy()),
    "unknown": lambda: Query(TABLE),
    "reader": TABLE.to_reader,
}


class Query:
    """An object of a library that nobody knows, with a stream that can be opened again."""

    def __init__(self, table):
        self.table = table
        self.opened = 0

    def __arrow_c_stream__(self, requested_schema=None):
        self.opened += 1
        return self.table.__arrow_c_stream__(requested_schema)


def vouched(query):
    return Rows.from_stream(query, each_row_from_one=True)


def failing(batches):
    """A stream that gives so many batches of the table, and then an error with private text."""

    def parts():
        yield from TABLE.to_batches(max_chunksize=100)[:batches]
        raise ValueError(SECRET)

    return pa.RecordBatchReader.from_batches(TABLE.schema, parts())


def fake(monkeypatch, module, name, **attributes):
    """A class of a module that is not installed here, with the stream of `Query`."""
    kind = type(name, (Query,), attributes)
    loaded = types.ModuleType(module)
    setattr(loaded, name, kind)
    monkeypatch.setitem(sys.modules, module, loaded)
    return kind(TABLE)


@pytest.mark.parametrize("form", TABLES)
def test_tables_in_memory_are_read(form):
    result = fpp.estimate_mean(TABLES[form](), **GIVEN)
    assert result.n_priv == 1_150
    lower, upper = result.confidence_interval(0.9999)
    assert lower[0] < COLUMNS["age"].mean() < upper[0]


@pytest.mark.parametrize("form", TABLES)
def test_persons_and_texts_of_tables_in_memory_are_read(form):
    asked = {"columns": "town", "keys": ["x", "y"], "person": "who", "rows_per_person": 3}
    result = fpp.value_counts(TABLES[form](), budget=ZCDP(10), **asked)
    assert result.n_priv == 288
    assert abs(result.rows_used - 863) < 20


@pytest.mark.parametrize("form", QUERIES)
@pytest.mark.parametrize("persons", [{}, {"person": "who", "rows_per_person": 1}])
def test_queries_are_refused_before_the_debit_and_are_not_run(form, persons):
    query = QUERIES[form]()
    relation = Neighbors.REPLACE_PERSON if persons else Neighbors.REPLACE_ONE
    ledger = Ledger(ZCDP(1), relation=relation)
    raises(InputError, QUERY, fpp.estimate_mean, query, ledger=ledger, **GIVEN, **persons)
    raises(InputError, "each_row_from_one=True", private_rows, query)
    assert ledger.spent.is_zero
    assert getattr(query, "opened", 0) == 0


def test_counts_of_persons_and_estimators_refuse_queries_too():
    sklearn = pytest.importorskip("fastpubpriv.sklearn")
    asked = {"person": "who", "by": "town", "groups": ["x", "y"], "budget": ZCDP(1)}
    raises(InputError, QUERY, fpp.count_persons, Query(TABLE), **asked)
    raises(InputError, QUERY, fpp.PrivateTable, Query(TABLE), person="who", total=ZCDP(1))
    model = sklearn.SemiPrivatePCA(ZCDP(1), X_pub=PUBLIC)
    raises(InputError, QUERY, model.fit, Query(TABLE.select(["age"])))


@pytest.mark.parametrize(
    "kind", ["QUERY_RELATION", "FILTER_RELATION", "VIEW_RELATION", "TABLE_RELATION"]
)
def test_of_duckdb_tables_alone_are_read(kind, monkeypatch):
    relation = fake(monkeypatch, "duckdb", "DuckDBPyRelation", type=kind)
    if kind == "TABLE_RELATION":
        assert fpp.estimate_mean(relation, **GIVEN).n_priv == 1_150
    else:
        raises(InputError, QUERY, fpp.estimate_mean, relation, **GIVEN)


def test_planted_fault_a_query_of_duckdb_that_passes_for_a_table_is_seen(monkeypatch):
    relation = fake(monkeypatch, "duckdb", "DuckDBPyRelation", type="QUERY_RELATION")
    monkeypatch.setattr("fastpubpriv.sources.arrow_streams._is_table_of_duckdb", lambda obj: True)
    assert private_rows(relation, columns=["age"]).n == 1_150


def test_expressions_of_ibis_are_refused(monkeypatch):
    expression = fake(monkeypatch, "ibis.expr.types", "Table")
    raises(InputError, QUERY, fpp.estimate_mean, expression, **GIVEN)


def test_duckdb_itself():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("given", TABLE)
    connection.execute("create table t as from given")
    connection.execute("create view v as from t")
    assert fpp.estimate_mean(connection.table("t"), **GIVEN).n_priv == 1_150
    filtered = connection.table("t").filter("age > 40")
    for query in (connection.sql("from t"), connection.table("v"), filtered):
        raises(InputError, QUERY, fpp.estimate_mean, query, **GIVEN)
    assert fpp.estimate_mean(vouched(connection.sql("from t")), **GIVEN).n_priv == 1_150


def test_a_stream_that_the_caller_vouches_for_is_read_once_for_all_calls():
    query = Query(TABLE)
    rows = vouched(query)
    means = fpp.estimate_mean(rows, **GIVEN)
    counts = fpp.value_counts(rows, columns="town", keys=["x", "y"], budget=ZCDP(10))
    persons = fpp.count_persons(rows, person="who", by="town", groups=["x", "y"], budget=ZCDP(10))
    few = {
        "person": "who",
        "rows_per_person": 3,
        "columns": ["age", "town"],
        "keys": {"town": ["x", "y"]},
    }
    described = fpp.describe(rows, x_pub=PUBLIC.assign(town="x"), budget=ZCDP(10), **few)
    assert query.opened == 1
    assert means.n_priv == 1_150
    assert counts.n_priv == 1_150
    assert persons.n_priv == 288
    assert described.n_priv == 288
    assert abs(counts["x"] - np.sum(COLUMNS["town"] == "x")) < 20


def test_lazy_frames_that_the_caller_vouches_for_are_read():
    older = polars.from_arrow(TABLE).lazy().filter(polars.col("age") > 0)
    for lazy in (older, narwhals.from_native(older)):
        assert private_rows(vouched(lazy), columns=["age"]).dim == 1


@pytest.mark.parametrize("said", [False, None, 1, "yes"])
def test_a_query_without_the_word_of_the_caller_is_refused_and_not_run(said):
    query = Query(TABLE)
    raises(
        InputError,
        "each_row_from_one must be True",
        Rows.from_stream,
        query,
        each_row_from_one=said,
    )
    raises(InputError, "each_row_from_one must be True", Rows.from_stream, query)
    assert query.opened == 0


@pytest.mark.parametrize("batches", [0, 2])
def test_errors_within_a_stream_say_nothing_of_it(batches):
    with pytest.raises(InputError, match="could not be read") as caught:
        vouched(failing(batches))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


class Loud:
    """A stream whose opening fails with private text, in words of this library or of others."""

    def __init__(self, error):
        self.error = error

    def __arrow_c_stream__(self, requested_schema=None):
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError(SECRET), InputError(SECRET), SystemExit(SECRET)])
def test_errors_of_opening_a_stream_say_nothing_of_it(error):
    with pytest.raises(InputError, match="could not be read") as caught:
        vouched(Loud(error))
    assert SECRET not in str(caught.value)


def test_a_stream_that_was_read_before_is_refused():
    reader = TABLE.to_reader()
    assert fpp.estimate_mean(vouched(reader), **GIVEN).n_priv == 1_150
    raises(InputError, "was read before", vouched, reader)


def test_forms_that_are_no_table_are_refused_in_words():
    raises(InputError, "no columns", vouched, Query(pa.table({})))
    raises(InputError, "no rows", vouched, Query(TABLE.slice(0, 0)))
    raises(InputError, "__arrow_c_stream__", vouched, [1.0])
    twice = vouched(Query(pa.table([TABLE["age"], TABLE["age"]], names=["a", "a"])))
    raises(InputError, "more than one column 'a'", private_rows, twice)
    odd = vouched(Query(pa.table({"day": pa.array([0], pa.date32()), "list": pa.array([[1]])})))
    raises(InputError, "'day' .date32.*'list' .list", private_rows, odd)
    raises(
        InputError, "has no column 'agee'", private_rows, vouched(Query(TABLE)), columns=["agee"]
    )


@pytest.mark.parametrize("persons", [{}, {"person": "who", "rows_per_person": 3}])
def test_no_text_of_a_stream_says_how_many_rows_it_has(persons, capfd):
    rows = vouched(Query(TABLE))
    texts = [repr(rows), repr(private_rows(rows, columns=["age"]))]
    result = fpp.estimate_mean(rows, **GIVEN, **persons, progress=True)
    if persons:
        texts += [
            result.summary(),
            result.to_json(),
            repr(fpp.PrivateTable(rows, person="who", keep="mean", total=ZCDP(1))),
        ]
    wrong = (
        lambda: fpp.count_persons(
            rows, person=np.arange(7), by="town", groups=["x"], budget=ZCDP(1)
        ),
        lambda: fpp.estimate_mean(rows, **{**GIVEN, "columns": ["agee"]}, **persons),
        lambda: private_rows(rows, columns=["age"]).slice(0, 10**6),
    )
    for call in wrong:
        with pytest.raises(InputError) as caught:
            call()
        texts.append(str(caught.value))
    captured = capfd.readouterr()
    texts += [captured.out, captured.err]
    assert not any("1150" in text or "1,150" in text for text in texts)
    assert "%" in captured.err


def test_a_stream_gives_nothing_away():
    rows = vouched(Query(TABLE))
    for leak in (np.asarray, list, bool, len, lambda each: each[0], lambda each: each == each):
        raises(TypeError, None, leak, rows)


def test_public_rows_may_come_from_a_query():
    assert public_rows(Query(pa.table({"age": [1.0, 2.0]}))).tolist() == [[1.0], [2.0]]
    lazy = narwhals.from_native(polars.DataFrame({"age": [35.0, 45.0]}).lazy())
    for public in (
        lazy,
        Query(pa.table({"age": [35.0, 45.0]})),
        pa.table({"age": [35.0, 45.0]}).to_reader(),
    ):
        assert fpp.estimate_mean(TABLE, **{**GIVEN, "x_pub": public}).n_pub == 2


def test_rows_of_a_stream_are_private_or_public_and_not_both(monkeypatch):
    ages = TABLE.select(["age"])
    rows = vouched(Query(ages))
    relation = fake(monkeypatch, "duckdb", "DuckDBPyRelation", type="TABLE_RELATION")
    eager = narwhals.from_native(ages)
    asked = {"columns": ["age"], "budget": ZCDP(1)}
    for one in (rows, relation, eager):
        raises(InputError, "same object", fpp.estimate_mean, one, x_pub=one, **asked)
    raises(InputError, "share memory", fpp.estimate_mean, rows, x_pub=ages, **asked)
