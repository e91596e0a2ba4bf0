"""Rows of persons: made of that person's rows alone, whatever its form, its order, the cut into chunks, and others."""

import dataclasses
import json
import pickle
import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path

import dask.dataframe
import numpy as np
import pandas as pd
import polars
import pyarrow
import pyarrow.feather
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers.tables import forms_of, rows_of_persons
from public_calls import CALLS

import fastpubpriv as fpp
from fastpubpriv import ZCDP, BudgetError, FastPubPrivError, InputError, Ledger, Rows
from fastpubpriv.estimators import user_level
from fastpubpriv.privacy import Cost, Neighbors, OnePass
from fastpubpriv.privacy.budgets import exact
from fastpubpriv.privacy.calibrated_budget import gaussian_rho, person_budget, row_budget
from fastpubpriv.privacy.conversions import group_approx
from fastpubpriv.release import account
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources import person_table, private_rows
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.person_table import PersonRows

PERSON = "replace all rows of one person; the number of persons is public"
KEEPS = ("row", "mean", "sum", 3)  # or k rows


def visits(seed=0, n=400, people=60):
    """Visits of persons with text identifiers, some without any, values of nine decades, and missing ones."""
    rng = np.random.default_rng(seed)
    decades = 10.0 ** rng.integers(-4, 5, size=(n, 1))
    values = rng.normal(size=(n, 2)) * decades
    values[rng.random((n, 2)) < 0.1] = np.nan
    who = np.array([f"p{i}" for i in rng.integers(0, people, n)], dtype=object)
    who[rng.random(n) < 0.05] = None
    towns = rng.choice(["x", "y", "z"], n)
    return pd.DataFrame({"who": who, "a": values[:, 0], "b": values[:, 1], "town": towns})


def visits_by_number():
    """The same visits with numbers in place of text identifiers."""
    table = visits()
    return table.assign(who=table["who"].str[1:].astype(float))


def kept(keep):
    return {"rows_per_person": keep} if isinstance(keep, int) else {"keep": keep}


def made(table, keep, columns=("a", "b"), person="who"):
    """The rows of persons, as an array."""
    return rows_of_persons(table, person=person, **kept(keep)).rows(list(columns)).in_memory


def in_order(rows):
    """Rows sorted by their numbers."""
    return rows[np.lexsort(np.nan_to_num(rows).T)]


@pytest.mark.parametrize("keep", ["mean", "sum"])
def test_means_and_sums_of_persons_are_those_of_pandas(keep):
    table = visits()
    ours = made(table, keep)
    theirs = table.dropna(subset="who").groupby("who")[["a", "b"]].agg(keep).to_numpy()
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(in_order(ours), in_order(theirs), rtol=1e-9)


def numbered_visits():
    """Visits whose number a is their place in the table."""
    return visits().assign(a=np.arange(400.0))


def test_a_row_that_stands_for_a_person_is_one_of_that_persons():
    table = numbered_visits()
    places = made(table, "row", columns=["a"])[:, 0].astype(int)
    persons = table["who"].iloc[places]
    assert len(persons) == table["who"].nunique()
    assert persons.is_unique


def test_the_row_that_stands_for_a_person_is_not_always_the_first():
    """Rows often come in an order that means something."""
    table = numbered_visits()
    found = set(made(table, "row", columns=["a"])[:, 0])
    first = set(table.dropna(subset="who").drop_duplicates("who")["a"])
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
    one = make(table, keep)
    two = make(other, keep)
    assert one.shape == two.shape
    differs = (one != two) & ~(np.isnan(one) & np.isnan(two))
    rows_of_a_person = keep if isinstance(keep, int) else 1
    of_persons = differs.reshape(-1, rows_of_a_person * one.shape[1])
    return int(of_persons.any(axis=1).sum())


@pytest.mark.parametrize("keep", KEEPS)
def test_replacing_all_rows_of_a_person_changes_one_block(keep):
    assert max(changed_rows(keep, seed) for seed in range(25)) == 1


@pytest.mark.parametrize("keep", ["row", 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_rows_decides_nothing(keep, seed):
    table = visits().round(1)  # with copies
    shuffled = table.sample(frac=1.0, random_state=seed)
    assert made(shuffled, keep).tobytes() == made(table, keep).tobytes()


# Ten rows of each of 2,000 persons, of which one is 1.
ONE_OF_TEN = pd.DataFrame(
    {"who": np.repeat(np.arange(2_000), 10), "a": np.tile([1.0, *[0.0] * 9], 2_000)}
)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_rows_of_a_person_are_kept_as_often_as_they_come(k):
    """Each copy has a hash of its own; with one for all, rare values would be kept as often as frequent ones."""
    assert made(ONE_OF_TEN, k, columns=["a"]).mean() == pytest.approx(0.1, abs=0.02)


def test_rows_that_a_person_does_not_have_are_missing():
    twelve = made(ONE_OF_TEN, 12, columns=["a"]).reshape(2_000, 12)
    assert np.array_equal(np.nansum(twelve, axis=1), np.ones(2_000))
    assert np.array_equal(np.isnan(twelve).sum(axis=1), np.full(2_000, 2))


@pytest.mark.parametrize("keep", ["row", 3])
def test_large_tables_pass_through_files_without_a_name(keep, tmp_path, monkeypatch):
    table = visits()
    whole = made(visits(), keep)
    monkeypatch.setattr(person_table, "SPOOL_BYTES", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = []

    class Broken(ArrayRows):
        def _chunks(self, begin, end, chunk_rows):
            names.extend(tmp_path.iterdir())
            yield from super()._chunks(begin, end // 2, 50)
            raise OSError("disk")

    def open_files():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    assert made(table, keep).tobytes() == whole.tobytes()
    broken = Broken(np.ones((400, 2)), "array")
    raises(InputError, "reading", rows_of_persons, broken, person=np.arange(400), **kept(keep))
    assert open_files() == before
    assert names == []
    assert list(tmp_path.iterdir()) == []


def by_file_order(table, _keep):
    """Wrong: the places of persons are those of their first rows."""
    return table.dropna(subset="who").drop_duplicates("who")[["a", "b"]].to_numpy()


def by_place_in_the_file(table, _keep):
    """Wrong: which row stands for a person depends on how many rows the table has."""
    rows = []
    for _, part in table.dropna(subset="who").groupby("who"):
        rows.append(part[["a", "b"]].iloc[len(table) % len(part)])
    return np.array(rows)


def by_rank_among_all(table, _keep):
    """Wrong: the row of a person with the least rank of a hash among the rows of all."""
    ranks = pd.util.hash_pandas_object(table[["a", "b"]], index=False).rank() % 7
    ranked = table.assign(rank=ranks).sort_values(["who", "rank"])
    return by_file_order(ranked, _keep)


@pytest.mark.parametrize("planted", [by_file_order, by_place_in_the_file, by_rank_among_all])
def test_a_choice_that_looks_at_others_is_found(planted):
    assert max(changed_rows("row", seed, planted) for seed in range(25)) > 1


@pytest.mark.parametrize("keep", KEEPS)
def test_the_cut_into_chunks_changes_no_bit(keep):
    table = visits().fillna({"who": "nobody"})
    values = table[["a", "b"]].to_numpy()
    who = table["who"].tolist()
    whole = rows_of_persons(values, person=who, **kept(keep)).rows(None).in_memory
    for pieces in (400, 58, 7):
        rows = Rows.from_chunks(partial(np.array_split, values, pieces), n=400, dim=2)
        cut = rows_of_persons(rows, person=who, **kept(keep)).rows(None).in_memory
        assert cut.tobytes() == whole.tobytes()


def every_form(folder, table):
    """Files, frames and lazy plans of one table."""
    folder.mkdir(exist_ok=True)
    split = dask.dataframe.from_pandas(table, npartitions=3)
    return [*forms_of(folder, table), split, polars.from_pandas(table).lazy()]


@pytest.mark.parametrize("keep", KEEPS)
def test_all_forms_of_a_table_give_the_same_persons(keep, tmp_path):
    table = visits()
    expected = made(table, keep).tobytes()
    for form in [*every_form(tmp_path, table), table.astype({"who": "category"})]:
        assert made(form, keep).tobytes() == expected, type(form)


@pytest.mark.parametrize("keep", KEEPS)
def test_all_forms_of_a_table_with_numbers_of_persons_give_the_same_persons(keep, tmp_path):
    floats = visits_by_number()
    integers = floats.astype({"who": "Int64"})
    expected = made(floats, keep).tobytes()
    forms = every_form(tmp_path / "integers", integers) + every_form(tmp_path / "floats", floats)
    for form in [*forms, integers.astype({"who": object})]:
        assert made(form, keep).tobytes() == expected, type(form)


@pytest.mark.parametrize("keep", KEEPS)
def test_persons_may_stand_beside_the_table(keep):
    table = visits_by_number()
    beside = made(table[["a", "b", "town"]], keep, person=table["who"].to_numpy())
    assert beside.tobytes() == made(table, keep).tobytes()


@pytest.mark.parametrize("keep", ["mean", "sum"])
def test_texts_and_numbers_of_persons_give_the_same_means(keep):
    by_text = np.sort(made(visits(), keep), axis=0)
    by_number = np.sort(made(visits_by_number(), keep), axis=0)
    assert np.allclose(by_number, by_text, equal_nan=True)


def test_texts_of_digits_choose_the_same_rows_in_every_form(tmp_path):
    table = visits().assign(zip=[f"{i * 7919 % 1000:03d}" for i in range(400)])
    chosen = {made(form, "row").tobytes() for form in forms_of(tmp_path, table)}
    assert chosen == {made(table, "row").tobytes()}


@pytest.mark.parametrize("file_format", ["parquet", "feather", "arrow"])
def test_stored_indices_are_no_features(tmp_path, file_format):
    table = visits()[["who", "a"]].set_index(np.arange(400)[::-1])
    stored = pyarrow.Table.from_pandas(table)
    path = tmp_path / f"t.{file_format}"
    if file_format == "parquet":
        table.to_parquet(path)
    elif file_format == "feather":
        pyarrow.feather.write_feather(stored, str(path))
    else:
        with pyarrow.ipc.new_stream(str(path), stored.schema) as writer:
            writer.write_table(stored)
    assert rows_of_persons(path, person="who").rows(None).columns == ("a",)


def test_identifiers_are_no_features():
    numbers = visits_by_number()[["who", "a", "b"]]
    lazy = polars.from_pandas(numbers).lazy()
    split = dask.dataframe.from_pandas(numbers, npartitions=2)
    for form in (numbers, lazy, split):
        assert rows_of_persons(form, person="who").rows(None).columns == ("a", "b")


def test_labels_of_persons_stand_in_their_table():
    persons = rows_of_persons(visits_by_number()[["who", "a", "b"]], person="who")
    labels = {"y_priv": np.zeros(400), "x_pub": np.zeros((9, 2)), "y_pub": np.zeros(9)}
    raises(InputError, "label=", fpp.linear_regression, persons, budget=ZCDP(1), **labels)


def test_texts_of_persons_are_counted():
    persons = rows_of_persons(visits_by_number(), person="who")
    counts = fpp.value_counts(persons, columns="town", keys=["x", "y", "z"], budget=ZCDP(1e4))
    assert counts.relation == PERSON
    assert abs(sum(counts.counts[:3]) - len(persons)) < 3


def test_texts_have_no_mean():
    means = rows_of_persons(visits_by_number(), person="who", keep="mean")
    asked = {"columns": "town", "keys": ["x"], "budget": ZCDP(1)}
    raises(InputError, 'keep="row"', fpp.value_counts, means, **asked)


# Calls that take a row without numbers for one at a center, and so one row of each person.
ONE_ROW_EACH = {
    "estimate_mean, public covariance",
    "estimate_gaussian, ladder, mean",
    "estimate_gaussian, ladder, diagonal",
    "estimate_gaussian, lifted",
    "estimate_gaussian, lifted from two public rows",
    "estimate_gaussian, pairs",
}
OF_ONE_ROW = (
    "weighted_mean",
    "coinpress",
    "private_pca",
    "learn_separated",
    "no_public",
    "select_hypothesis",
    "train, dp_sgd",
)


def takes_one_row_of_each(name):
    if name.startswith("learn_axis"):
        return not name.endswith(("dp_em", "public"))
    return name.startswith(OF_ONE_ROW) or name in ONE_ROW_EACH


def is_quick(call):
    needs_more_rows = "hypothesis_selection" in str(call.options) or "recursive" in str(
        call.options
    )
    return not (call.heavy or call.slow or call.named or needs_more_rows)


QUICK_CALLS = [name for name, call in CALLS.items() if is_quick(call)]


def budget_of(call):
    return fpp.ApproxDP(1, 1e-6) if "approx" in call.notions else ZCDP(0.5)


def persons_of(call, **options):
    """300 persons with one row each."""
    rows = np.asarray(call.rows)[:300]
    who = pd.Series(np.arange(len(rows)), name="who")
    return rows_of_persons(rows, person=who, **options)


def check_promise(call, persons, k, relation):
    budget = budget_of(call)
    ledger = Ledger(budget, relation=Neighbors.REPLACE_PERSON)
    result = call(persons, budget=budget, ledger=ledger, random_state=0)
    assert result.relation == relation
    assert result.n_priv == 300
    assert result.rows_per_person == k
    assert result._contents(0.95)[1][0] == ("Answers about", result.about)
    stored = result.to_dict()
    stored.pop("rows_per_person", None)  # as texts of before the field
    assert type(result).from_json(json.dumps(stored)).rows_per_person == k
    entries = 0 if isinstance(result.spent, Cost) else 1
    assert len(list(ledger.entries)) == entries
    assert ledger.spent.amounts[0] == result.spent.amounts[0]


@pytest.mark.parametrize("name", QUICK_CALLS)
def test_every_call_says_what_it_promises(name):
    check_promise(CALLS[name], persons_of(CALLS[name]), 1, PERSON)


@pytest.mark.parametrize("name", [n for n in QUICK_CALLS if not takes_one_row_of_each(n)])
def test_every_call_with_several_rows_of_each_says_what_it_promises(name):
    several = persons_of(CALLS[name], rows_per_person=2)
    check_promise(CALLS[name], several, 2, f"{PERSON}; at most 2 rows of each are used")


@pytest.mark.parametrize("name", [n for n in QUICK_CALLS if takes_one_row_of_each(n)])
def test_several_rows_of_each_are_refused_before_the_debit(name):
    call = CALLS[name]
    budget = budget_of(call)
    ledger = Ledger(budget, relation=Neighbors.REPLACE_PERSON)
    several = persons_of(call, rows_per_person=2)
    raises(InputError, "rows_per_person=1", call, several, budget=budget, ledger=ledger)
    assert ledger.spent.is_zero


@pytest.mark.parametrize("name", QUICK_CALLS)
def test_a_ledger_of_another_relation_is_refused(name):
    call = CALLS[name]
    given = {"budget": budget_of(call), "random_state": 0}
    of_rows = Ledger(given["budget"])
    of_persons = Ledger(given["budget"], relation=Neighbors.REPLACE_PERSON)
    raises(BudgetError, "REPLACE_PERSON", call, persons_of(call), ledger=of_rows, **given)
    rows = np.asarray(call.rows)[:300]
    raises(BudgetError, "REPLACE_ONE", call, rows, ledger=of_persons, **given)


def test_calculators_take_a_person_for_a_row():
    of_persons = OnePass().squared_mu(100, Neighbors.REPLACE_PERSON)
    assert of_persons == OnePass().squared_mu(100, Neighbors.REPLACE_ONE)


PUBLIC_VISITS = pd.DataFrame({"patient_id": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]})
PRIVATE_VISITS = pd.DataFrame({"patient_id": np.arange(300) // 3, "x": np.linspace(0, 5, 300)})
MEAN_OF_X = {"columns": ["x"], "budget": ZCDP(1.0)}


def test_a_public_table_of_visits_is_warned_about_at_the_line_of_the_caller():
    with warnings.catch_warnings(record=True, action="always") as caught:
        fpp.estimate_mean(PRIVATE_VISITS, x_pub=PUBLIC_VISITS, **MEAN_OF_X)
    words = "pass person='patient_id'"
    places = [warning.filename for warning in caught if words in str(warning.message)]
    assert places == [__file__]


def test_a_call_that_names_the_person_or_has_one_row_of_each_is_not_warned_about():
    one_each = PUBLIC_VISITS.drop_duplicates("patient_id")
    persons = {"person": "patient_id", "rows_per_person": 1}
    with warnings.catch_warnings(record=True, action="always") as caught:
        fpp.estimate_mean(PRIVATE_VISITS, x_pub=PUBLIC_VISITS, **persons, **MEAN_OF_X)
        fpp.estimate_mean(PRIVATE_VISITS, x_pub=one_each, **MEAN_OF_X)
    assert not any("person" in str(warning.message) for warning in caught)


def test_private_rows_of_persons_are_handed_out_by_nothing():
    each = rows_of_persons(visits(), person="who")
    assert repr(each) == "PersonTable(n=60, keep='row')"
    assert len(each) == each.n == 60
    for leak in (pickle.dumps, np.asarray, list, bool, dataclasses.asdict):
        raises(TypeError, None, leak, each)
    rows = private_rows(each, columns=["a"])
    assert isinstance(rows, PersonRows)
    assert "n=60" in repr(rows)


REFUSED = Refusals()
REFUSED.add("no column 'nobody'", person="nobody")
REFUSED.add("'row', 'mean'", person="town", keep="median")
REFUSED.add("no row has an identifier", person=np.full(400, np.nan))
REFUSED.add("one identifier for each row", person=[1, 2, 3])
REFUSED.add("person", person=None)
REFUSED.add("one identifier for each row", person=np.zeros((400, 2)))


@pytest.mark.parametrize(("arguments", "words"), REFUSED)
def test_bad_input_is_refused_in_words(arguments, words):
    rows = visits()
    if not isinstance(arguments["person"], str):
        rows = rows[["a", "b"]].to_numpy()
    raises(InputError, words, rows_of_persons, rows, **arguments)


def test_persons_are_made_once():
    persons = rows_of_persons(visits(), person="who")
    raises(InputError, "already", rows_of_persons, persons, person="who")


def test_persons_are_not_the_public_rows():
    table = visits()[["a", "b", "who"]]
    persons = rows_of_persons(table, person="who")
    asked = {"x_pub": table, "columns": ["a"], "budget": ZCDP(1.0)}
    raises(InputError, "same object", fpp.estimate_mean, persons, **asked)


# ---- k rows of each person: the budget is spent at row level ---------------------------------------------------------


def cost_of_change(call, moved):
    """What the answers of a release tell of the change of its query, in the unit of its notion."""
    unit = call.event.price(ZCDP) / call.event.squared_sensitivity
    return unit * int(((call.query - moved.query).astype(object) ** 2).sum())


def person_cost(k, budget):
    """What telling a person from its opposite costs: all k rows of one go from one cell to another, k + 1 rows become k."""
    who = np.repeat(np.arange(40), k)
    other = pd.DataFrame({"who": who, "a": -1.0})
    one = other.assign(a=np.where(who == 7, 1.0, -1.0))
    one = pd.concat([one, one[one["who"] == 7][:1]])

    def recorded(table, script=None):
        persons = rows_of_persons(table, person="who", rows_per_person=k)
        with recording(script=script) as transcript:
            fpp.value_counts(persons, columns="a", keys=[-1, 1], budget=budget)
        return transcript

    first = recorded(one)
    second = recorded(other, script=first.calls)
    assert [price for _, price, _ in first.accounts] == [budget * 63 / 64, budget / 64]
    pairs = zip(first.calls, second.calls, strict=True)
    return sum(cost_of_change(call, moved) for call, moved in pairs)


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_a_person_costs_the_budget_and_a_forgotten_square_is_seen(k, monkeypatch):
    assert Fraction(99, 100) < person_cost(k, ZCDP(1)) <= 1
    # planted: k in place of k^2
    monkeypatch.setattr(user_level, "row_budget", lambda budget, rows: budget / rows)
    monkeypatch.setattr(account, "person_budget", lambda budget, rows: budget * rows)
    assert (person_cost(k, ZCDP(1)) > 1) == (k > 1)


APPROX_BUDGETS = [
    fpp.ApproxDP(epsilon, delta) for epsilon in (0.01, 1, 8) for delta in (1e-9, 1e-4)
]


@pytest.mark.parametrize("budget", [ZCDP(0.1), fpp.PureDP(1), *APPROX_BUDGETS])
@pytest.mark.parametrize("k", [1, 2, 7, 100])
def test_what_a_row_may_spend_is_the_inverse_of_what_a_person_spends(budget, k):
    assert person_budget(row_budget(budget, k), k) == budget


@pytest.mark.parametrize("budget", APPROX_BUDGETS)
@pytest.mark.parametrize("k", [2, 7, 100])
def test_what_a_row_may_spend_is_the_inverse_of_group_privacy(budget, k):
    row = row_budget(budget, k)
    epsilon, delta = group_approx(row.epsilon, row.delta, k)
    assert exact(epsilon, "epsilon") <= budget.epsilon
    assert 1 - 1e-9 < delta / budget.delta <= 1


@pytest.mark.parametrize("budget", APPROX_BUDGETS)
@pytest.mark.parametrize("k", [2, 7, 100])
def test_gaussian_noise_of_rows_of_a_person_loses_no_delta(budget, k):
    """It goes by mu / k, so more of the budget is left than by group privacy."""
    row = row_budget(budget, k)
    plain = fpp.ApproxDP(row.epsilon, row.delta)
    assert gaussian_rho(row, 9) == gaussian_rho(budget, 9) / k**2 > gaussian_rho(plain, 9)
    tiny_delta = budget.delta * Fraction(1, 10**9)
    of_half = gaussian_rho(budget, 9, budget.epsilon / 2, tiny_delta) / k**2
    assert gaussian_rho(row, 9, row.epsilon / 2, row.delta / 2) <= of_half


FOUR_ROWS = {"person": "who", "rows_per_person": 4}


def test_intervals_count_rows_of_a_person_as_alike():
    table = visits(n=3_000, people=300).fillna({"who": "p0"})
    asked = {"x_pub": pd.DataFrame({"a": [0.0]}), "columns": ["a"], "budget": ZCDP(6e4)}
    found = fpp.estimate_mean(table, **FOUR_ROWS, **asked)
    independent = fpp.estimate_mean.__wrapped__(rows_of_persons(table, **FOUR_ROWS), **asked)
    assert found.rows_per_person == 4
    twice = 2 * independent.sampling_std[0]  # sqrt(4)
    assert found.sampling_std[0] == pytest.approx(twice, rel=0.03)


def test_shares_are_of_the_rows_that_are_there():
    table = visits(n=3_000, people=300).fillna({"who": "p0"})
    asked = {"columns": "town", "keys": ["x", "y", "z"], "budget": ZCDP(1e4)}
    counts = fpp.value_counts(table, **FOUR_ROWS, **asked)
    assert abs(counts.share[:3].sum() - 1.0) < 0.01


AUTO_ROWS = {
    "x_pub": pd.DataFrame({"a": [0.1]}),
    "columns": ["a"],
    "person": "who",
    "rows_per_person": "auto",
}


def table_of_persons(rows_of_each):
    who = np.repeat(np.arange(4_000), rows_of_each)
    numbers = np.random.default_rng(0).normal(size=len(who))
    return pd.DataFrame({"who": who, "a": numbers})


@pytest.mark.parametrize("rows_of_each", [1, 8])
def test_a_share_of_the_budget_chooses_how_many_rows(rows_of_each):
    table = table_of_persons(rows_of_each)
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    result = fpp.estimate_mean(table, budget=ZCDP(0.5), ledger=ledger, **AUTO_ROWS)
    assert result.spent == ZCDP(0.5)
    assert ledger.spent == ZCDP(0.5).cost
    assert result.releases[0].get("rho", 0) <= Fraction(1, 32)
    assert result.rows_per_person == rows_of_each


def test_an_error_before_rows_are_chosen_costs_nothing():
    table = table_of_persons(8)
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    given = {"ledger": ledger, **AUTO_ROWS}
    wrong = {"clipping": "x", "budget": ZCDP(0.5)}
    raises(InputError, "'gaussian'", fpp.estimate_mean, table, **wrong, **given)
    raises(BudgetError, None, fpp.estimate_mean, table, budget=ZCDP(2), **given)
    assert ledger.spent.is_zero


def test_the_local_model_takes_one_row_of_each():
    several = rows_of_persons(visits()[["who", "a"]], person="who", rows_per_person=2)
    raises(InputError, "one report", fpp.local.PrivUnit(dim=1, epsilon=1.0).privatize, several)


REFUSED_BY_CALLS = Refusals()
REFUSED_BY_CALLS.add("belong to person=", person=None, rows_per_person=2)
REFUSED_BY_CALLS.add("belong to person=", person=None, keep="mean")
REFUSED_BY_CALLS.add("say what stands for a person", rows_per_person=None)
REFUSED_BY_CALLS.add("say what stands for a person", rows_per_person=None, keep="row")
REFUSED_BY_CALLS.add("makes one row of each person", rows_per_person=2, keep="sum")
REFUSED_BY_CALLS.add("makes one row of each person", rows_per_person="auto", keep="mean")
REFUSED_BY_CALLS.add("'row', 'mean', 'sum'", keep="median")
REFUSED_BY_CALLS.add("at least 1|>= 1", rows_per_person=0)
REFUSED_BY_CALLS.add("4096", rows_per_person=10**6)
REFUSED_BY_CALLS.add("rows_per_person", rows_per_person=2.5)
REFUSED_BY_CALLS.add("says whose row it is", columns=["who", "a"])
REFUSED_BY_CALLS.add("'auto'", rows_per_person="all")
REFUSED_BY_CALLS.add("no column 'nobody'", person="nobody")
REFUSED_BY_CALLS.add("says whose row it is", by="who")
REFUSED_BY_CALLS.add("REPLACE_PERSON", ledger=Ledger(ZCDP(1)))


@pytest.mark.parametrize(("given", "words"), REFUSED_BY_CALLS)
def test_bad_arguments_of_calls_are_refused_in_words(given, words):
    fine = {
        "x_pub": pd.DataFrame({"who": "q", "a": [1.0, 2.0]}),
        "columns": ["a"],
        "person": "who",
        "rows_per_person": 1,
        "budget": ZCDP(1),
    }
    raises(FastPubPrivError, words, fpp.estimate_mean, visits(), **fine | given)


def test_identifiers_of_several_types_are_those_of_persons():
    """7 in five forms, and 07, 7.50 and 8."""
    who = ["7", 7, 7.0, None, "7 ", "7.0", "07", "7.50", 8]
    table = pd.DataFrame({"who": who, "a": np.arange(9.0)})
    assert rows_of_persons(table, person="who").n == 4
    assert rows_of_persons(table[["a"]], person=who).n == 4


def test_long_identifiers_of_text_are_not_rounded_to_one_person():
    who = ["9007199254740993", "9007199254740992", "10000000000000000001"]
    table = pd.DataFrame({"who": who, "a": np.arange(3.0)})
    assert rows_of_persons(table, person="who").n == 3


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize("frames", [pd.DataFrame, polars.DataFrame, pyarrow.table])
def test_a_public_table_may_hold_the_identifiers_too(frames):
    rng = np.random.default_rng(1)
    private = frames({"patient": np.arange(600) % 300, "minutes": rng.normal(30.0, 5.0, 600)})
    patients = np.arange(40)
    minutes = rng.normal(30.0, 5.0, 40)
    asked = {"budget": fpp.ZCDP(0.5), "random_state": 0, "progress": False}
    two_rows = {"person": "patient", "rows_per_person": 2}
    made = rows_of_persons(private, **two_rows)
    alone = frames({"minutes": minutes})
    expected = fpp.estimate_mean(private, x_pub=alone, **two_rows, **asked).to_json()
    both = frames({"patient": patients, "minutes": minutes})
    assert fpp.estimate_mean(private, x_pub=both, **two_rows, **asked).to_json() == expected
    assert fpp.estimate_mean(made, x_pub=both, **asked).to_json() == expected
    other = frames({"clinic": patients, "minutes": minutes})
    words = "'clinic', which x_priv has not"
    raises(InputError, words, fpp.estimate_mean, made, x_pub=other, **asked)


def write_feather(frame, path):
    pyarrow.feather.write_feather(pyarrow.Table.from_pandas(frame), path)


FILES_OF = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "feather": write_feather,
}
CALLS_WITH_PUBLIC = {
    "estimate_mean": fpp.estimate_mean,
    "describe": fpp.describe,
    "linear_regression": partial(fpp.linear_regression, label="b"),
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize("name", CALLS_WITH_PUBLIC)
@pytest.mark.parametrize("form", [*FILES_OF, "lazy"])
def test_a_public_file_may_hold_the_identifiers_too(form, name, tmp_path):
    a, b = np.random.default_rng(1).normal(size=(2, 600))
    private = pd.DataFrame({"who": np.arange(600) % 300, "a": a, "b": b})
    public = private[:40].assign(who="P1")
    if form == "lazy":
        given = polars.DataFrame(public).lazy()
    else:
        given = tmp_path / f"public.{form}"
        FILES_OF[form](public, given)
    call = partial(
        CALLS_WITH_PUBLIC[name], person="who", rows_per_person=1, budget=ZCDP(0.5), random_state=0
    )
    expected = call(private, x_pub=public[["a", "b"]].copy())
    assert call(private, x_pub=given).to_json() == expected.to_json()


@pytest.mark.parametrize("k", [np.zeros(3), polars.Series([1, 2]), True, 1.0])
def test_a_number_of_rows_per_person_that_is_none_is_refused_in_words(k):
    call = {"x_pub": [[1.0]], "budget": ZCDP(1.0), "rows_per_person": k}
    raises(InputError, "rows_per_person", fpp.estimate_mean, [[1.0]], **call)


# ---- Rows that a person does not have: absent, in no count -----------------------------------------------------------

STAYS = {"a": 0.5, "b": 0.3, "c": 0.2}
PEOPLE = 2_500


def full_table():
    """One to four rows of each person, none of them with an empty cell."""
    rng = np.random.default_rng(8)
    who = np.repeat(np.arange(PEOPLE), 1 + np.arange(PEOPLE) % 4)
    wards = rng.choice(list(STAYS), len(who), p=list(STAYS.values()))
    days = rng.integers(0, 2, len(who))
    return pd.DataFrame({"who": who, "ward": wards, "day": days, "x": rng.normal(size=len(who))})


FULL = full_table()
FEW = full_table()[:50].drop(columns="who")
IN_WARDS = {"columns": "ward", "keys": list(STAYS)}
CROSSED = {"columns": ["ward", "day"], "keys": {"ward": list(STAYS), "day": [0, 1]}}


def of_counts(result):
    """Shares of all keys, the missing rows and their noise, and the rows in use."""
    missing = [place for place, key in enumerate(result.keys) if "(missing)" in key]
    used = float(result.n_priv) if result.rows_used is None else result.rows_used
    noise = result.noise_std * max(len(missing), 1) ** 0.5
    return result.share.sum(), result.counts[missing].sum(), noise, used


def of_means(result):
    """The same of a mean, whose report counts both kinds of rows in one cell."""
    used = result.report.rows_used
    if used is None:
        return 1.0, result.report.missing[0], result._missing_std, result.n_priv
    assert np.isnan(result.report.missing).all()
    return 1.0, 0.0, result._missing_std, used[0]


def of_groups(result):
    """The same of groups of means, which have no group of missing cells."""
    used = result.count[: len(STAYS)].sum()
    noise = result.count_noise_std * (len(STAYS) + 1) ** 0.5
    return 1.0, result.count[len(STAYS) :].sum(), noise, used


def of_ranks(result):
    """The same of quantiles, whose last edges are counted with all rows that have a value."""
    (ranks,) = result.ranks
    return 1.0, 0.0, ranks.total_std, ranks.total


VERBS = {
    "value_counts": (fpp.value_counts, IN_WARDS, of_counts),
    "value_counts of two": (fpp.value_counts, CROSSED, of_counts),
    "value_counts by": (fpp.value_counts, {**IN_WARDS, "by": "day", "groups": [0, 1]}, of_counts),
    "describe": (
        fpp.describe,
        {"columns": ["x", "ward"], "x_pub": FEW},
        lambda result: of_counts(result.top("ward")),
    ),
    "estimate_mean": (fpp.estimate_mean, {"columns": ["x"], "x_pub": FEW}, of_means),
    "estimate_mean by": (
        fpp.estimate_mean,
        {"columns": ["x"], "x_pub": FEW, "by": "ward", "groups": list(STAYS)},
        of_groups,
    ),
    "quantiles": (fpp.quantiles, {"columns": ["x"], "x_pub": FEW, "q": 0.5}, of_ranks),
}


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("verb", VERBS)
def test_rows_that_a_person_does_not_have_are_in_no_count(verb, k):
    call, given, read = VERBS[verb]
    result = call(FULL, person="who", rows_per_person=k, budget=ZCDP(0.5), **given)
    share, missing, noise, used = read(result)
    truth = np.minimum(FULL.groupby("who").size(), k).sum()
    assert abs(share - 1.0) < 1e-9
    assert abs(missing) < 5.0 * noise
    assert abs(used - truth) < 5.0 * noise + 1e-6
    assert result._contents(0.95)[1][0] == ("Answers about", result.about)
    assert result.about.startswith(f"at most {k} row")


@pytest.mark.parametrize("person", [np.arange(3), ["who"], np.arange(4000)])
def test_identifiers_that_are_not_as_many_as_the_rows_are_refused(person):
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    words = "person must have one identifier for each row.*such as person='id'"
    options = {"x_pub": FEW, "columns": "day", "budget": ZCDP(1), "ledger": ledger}
    raises(InputError, words, fpp.estimate_mean, FULL, person=person, keep="mean", **options)
    assert ledger.entries == ()


def test_a_sum_of_groups_of_text_is_refused_in_words():
    words = "no sum of text or dates, in columns= or by=: pass keep=.row. with rows_per_person="
    options = {"x_pub": FEW, "columns": "day", "budget": ZCDP(1), "by": "ward"}
    raises(InputError, words, fpp.estimate_mean, FULL, person="who", keep="sum", **options)


def test_results_within_a_result_are_about_the_same():
    options = {"x_pub": FEW, "budget": ZCDP(1), "person": "who", "progress": False}
    result = fpp.describe(FULL, rows_per_person=2, **options)
    assert "persons with more than 2 rows" in result.about
    for part in (result.means, result.quantiles, *result.texts):
        assert part.about == result.about
