"""One row for each person: made of that person's rows alone, whatever the form of the table, the cut into chunks and the others."""

import dataclasses
import pickle
import warnings

import dask.dataframe
import numpy as np
import pandas as pd
import polars
import pyarrow
import pyarrow.feather
import pytest
from helpers.errors import raises
from helpers.tables import forms_of
from public_calls import CALLS

import fastpubpriv as fpp
from fastpubpriv import ZCDP, BudgetError, InputError, Ledger, Rows
from fastpubpriv.privacy import Cost, Neighbors, OnePass
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.person_table import PersonRows

PERSON = "replace all rows of one person; the number of persons is public"
KEEPS = ("row", "mean", "sum")


def visits(seed=0, n=400, people=60):
    """Visits of persons with text identifiers, some without any, values of nine decades, and missing ones."""
    rng = np.random.default_rng(seed)
    value = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-4, 5, size=(n, 1))
    value[rng.random((n, 2)) < 0.1] = np.nan
    who = np.array([f"p{i}" for i in rng.integers(0, people, n)], dtype=object)
    who[rng.random(n) < 0.05] = None
    return pd.DataFrame({"who": who, "a": value[:, 0], "b": value[:, 1], "town": rng.choice(["x", "y", "z"], n)})


def made(table, keep, columns=("a", "b"), person="who"):
    return fpp.persons(table, person=person, keep=keep).rows(list(columns)).in_memory


def by_person(table, keep):
    """What stands for each person, in plain pandas."""
    groups = table.dropna(subset="who").groupby("who")[["a", "b"]]
    return {"mean": groups.mean, "sum": groups.sum}[keep]()


@pytest.mark.parametrize("keep", ["mean", "sum"])
def test_means_and_sums_of_persons_are_those_of_pandas(keep):
    table = visits()
    ours, theirs = made(table, keep), by_person(table, keep).to_numpy()
    assert ours.shape == theirs.shape
    order = np.lexsort(np.nan_to_num(ours).T), np.lexsort(np.nan_to_num(theirs).T)
    np.testing.assert_allclose(ours[order[0]], theirs[order[1]], rtol=1e-9)


def test_a_row_that_stands_for_a_person_is_one_of_that_persons():
    table = visits()
    table[["a", "b"]] = np.arange(800.0).reshape(400, 2)
    found = {tuple(row) for row in made(table, "row").tolist()}
    owner = {(row.a, row.b): row.who for row in table.itertuples()}
    assert len({owner[row] for row in found}) == len(found) == table["who"].nunique()
    # Not always the first one, as rows often come in an order that means something.
    first = {(row.a, row.b) for row in table.dropna(subset="who").drop_duplicates("who").itertuples()}
    assert 5 < len(found - first) < len(found)


def changed_rows(keep, seed, make=made):
    """How many rows differ when the rows of one person are replaced by others, of another number and in other places."""
    table = visits(seed)
    rng = np.random.default_rng(1000 + seed)
    person = table["who"].dropna().iloc[int(rng.integers(0, 100))]
    new = visits(seed + 5000, n=int(rng.integers(1, 40))).assign(who=person)
    rest = table[table["who"] != person]
    cut = int(rng.integers(0, len(rest)))
    other = pd.concat([rest[:cut], new, rest[cut:]], ignore_index=True)
    one, two = make(table, keep), make(other, keep)
    assert one.shape == two.shape
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    return int((~same.all(axis=1)).sum())


@pytest.mark.parametrize("keep", KEEPS)
def test_replacing_all_rows_of_a_person_changes_one_row(keep):
    assert max(changed_rows(keep, seed) for seed in range(25)) == 1


def by_file_order(table, keep):
    """Wrong: the places of persons are those of their first rows."""
    del keep
    return table.dropna(subset="who").drop_duplicates("who")[["a", "b"]].to_numpy()


def by_place_in_the_file(table, keep):
    """Wrong: which row stands for a person depends on how many rows the table has."""
    del keep
    groups = table.dropna(subset="who").groupby("who")
    return np.array([part[["a", "b"]].to_numpy()[len(table) % len(part)] for _, part in groups])


@pytest.mark.parametrize("planted", [by_file_order, by_place_in_the_file])
def test_a_choice_that_looks_at_others_is_found(planted):
    assert max(changed_rows("row", seed, planted) for seed in range(25)) > 1


@pytest.mark.parametrize("keep", KEEPS)
def test_the_cut_into_chunks_changes_no_bit(keep):
    table = visits().fillna({"who": "nobody"})
    values, who = table[["a", "b"]].to_numpy(), table["who"].tolist()
    whole = fpp.persons(values, person=who, keep=keep).rows(None).in_memory
    for size in (1, 7, 64):
        pieces = Rows.from_chunks(lambda size=size: (values[i : i + size] for i in range(0, 400, size)), n=400, dim=2)
        cut = fpp.persons(pieces, person=who, keep=keep).rows(None).in_memory
        assert cut.tobytes() == whole.tobytes()


@pytest.mark.parametrize("keep", KEEPS)
def test_all_forms_of_a_table_give_the_same_persons(keep, tmp_path):
    table = visits()
    numbered = table.assign(who=table["who"].str[1:].astype(float))
    whole = made(table, keep)
    split, lazy = dask.dataframe.from_pandas(table, npartitions=3), polars.from_pandas(table).lazy()
    forms = [*forms_of(tmp_path, table), split, lazy, table.astype({"who": "category"})]
    for form in forms:
        assert made(form, keep).tobytes() == whole.tobytes(), type(form)
    by_number = [numbered, numbered.astype({"who": "Int64"}), polars.from_pandas(numbered)]
    assert len({made(form, keep).tobytes() for form in by_number}) == 1
    assert np.allclose(np.sort(made(numbered, keep), axis=0), np.sort(whole, axis=0), equal_nan=True) or keep == "row"


def test_the_index_of_a_stored_frame_is_no_feature(tmp_path):
    table = visits()[["who", "a"]].set_index(np.arange(400)[::-1])
    table.to_parquet(tmp_path / "t.parquet")
    held = pyarrow.Table.from_pandas(table)
    pyarrow.feather.write_feather(held, str(tmp_path / "t.feather"))
    with pyarrow.ipc.new_stream(str(tmp_path / "t.arrow"), held.schema) as writer:
        writer.write_table(held)
    for name in ("t.parquet", "t.feather", "t.arrow"):
        assert fpp.persons(tmp_path / name, person="who").rows(None).columns == ("a",)


def test_identifiers_are_no_feature_and_texts_are_read():
    table = visits().assign(who=lambda t: t["who"].str[1:].astype(float))
    each = fpp.persons(table, person="who")
    numbers = table[["who", "a", "b"]]
    for form in (numbers, polars.from_pandas(numbers).lazy(), dask.dataframe.from_pandas(numbers, npartitions=2)):
        assert fpp.persons(form, person="who").rows(None).columns == ("a", "b")
    labels = {"y_priv": np.zeros(400), "x_pub": np.zeros((9, 2)), "y_pub": np.zeros(9), "budget": ZCDP(1)}
    raises(InputError, "label=", fpp.linear_regression, fpp.persons(numbers, person="who"), **labels)
    counts = fpp.value_counts(each, column="town", keys=["x", "y", "z"], budget=ZCDP(1e4))
    assert counts.relation == PERSON
    assert abs(sum(counts.counts[:3]) - len(each)) < 3
    means = fpp.persons(table, person="who", keep="mean")
    raises(InputError, 'keep="row"', fpp.value_counts, means, column="town", keys=["x"], budget=ZCDP(1))


@pytest.mark.parametrize("name", CALLS)
def test_every_call_says_what_it_promises(name):
    call = CALLS[name]
    few = "hypothesis_selection" in str(call.options) or "recursive" in str(call.options)
    if call.heavy or call.slow or call.named or few:
        pytest.skip("as quick ones do, or needs more rows")
    rows = np.asarray(call.rows)[:300]
    each = fpp.persons(rows, person=np.arange(len(rows)))
    budget = fpp.ApproxDP(1, 1e-6) if "approx" in call.notions else ZCDP(0.5)
    ledger = Ledger(budget, relation=Neighbors.REPLACE_PERSON)
    result = call(each, budget=budget, ledger=ledger, random_state=0)
    assert result.relation == PERSON
    assert result.n_priv == len(rows)
    assert sum(1 for _ in ledger.entries) == (0 if isinstance(result.spent, Cost) else 1)
    raises(BudgetError, "REPLACE_PERSON", call, each, budget=budget, ledger=Ledger(budget), random_state=0)
    raises(BudgetError, "REPLACE_ONE", call, rows, budget=budget, ledger=ledger, random_state=0)


def test_calculators_take_a_person_for_a_row():
    assert OnePass().squared_mu(100, Neighbors.REPLACE_PERSON) == OnePass().squared_mu(100, Neighbors.REPLACE_ONE)


def test_a_public_table_of_visits_is_warned_about_at_the_line_of_the_caller():
    table = pd.DataFrame({"patient_id": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]})
    private = pd.DataFrame({"patient_id": np.arange(300) // 3, "x": np.linspace(0, 5, 300)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fpp.estimate_mean(private, x_pub=table, columns=["x"], budget=ZCDP(1.0))
    named = [each for each in caught if "persons(x_priv, person='patient_id')" in str(each.message)]
    assert [each.filename for each in named] == [__file__]
    with warnings.catch_warnings(record=True) as silent:
        warnings.simplefilter("always")
        each = fpp.persons(private, person="patient_id")
        fpp.estimate_mean(each, x_pub=table, columns=["x"], budget=ZCDP(1.0))
        one_each = table.drop_duplicates("patient_id")
        fpp.estimate_mean(private, x_pub=one_each, columns=["x"], budget=ZCDP(1.0))
    assert not any("persons" in str(each.message) for each in silent)


def test_private_rows_of_persons_are_handed_out_by_nothing():
    each = fpp.persons(visits(), person="who")
    assert repr(each) == "PersonTable(n=60, keep='row')"
    assert len(each) == each.n == 60
    for leak in (pickle.dumps, np.asarray, list, bool, dataclasses.asdict):
        raises(TypeError, None, leak, each)
    rows = private_rows(each, columns=["a"])
    assert isinstance(rows, PersonRows)
    assert "n=60" in repr(rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"person": "nobody"}, "no column 'nobody'"),
        ({"person": "town", "keep": "median"}, "'row', 'mean'"),
        ({"person": np.full(400, np.nan)}, "no row has an identifier"),
        ({"person": [1, 2, 3]}, "one identifier for each row"),
        ({"person": None}, "person"),
        ({"person": np.zeros((400, 2))}, "one identifier for each row"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, words):
    table = visits()
    with pytest.raises(InputError, match=words):
        fpp.persons(table if isinstance(arguments["person"], str) else table[["a", "b"]].to_numpy(), **arguments)


def test_persons_are_made_once_and_are_not_the_public_rows():
    table = visits()[["a", "b", "who"]]
    each = fpp.persons(table, person="who")
    raises(InputError, "already", fpp.persons, each, person="who")
    raises(InputError, "same object", fpp.estimate_mean, each, x_pub=table, columns=["a"], budget=ZCDP(1.0))
