"""Rows of persons: made of that person's rows alone, whatever its form, its order, the cut into chunks, and others."""

import dataclasses
import json
import pickle
import warnings
from fractions import Fraction
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
    value = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-4, 5, size=(n, 1))
    value[rng.random((n, 2)) < 0.1] = np.nan
    who = np.array([f"p{i}" for i in rng.integers(0, people, n)], dtype=object)
    who[rng.random(n) < 0.05] = None
    return pd.DataFrame(
        {"who": who, "a": value[:, 0], "b": value[:, 1], "town": rng.choice(["x", "y", "z"], n)}
    )


def kept(keep):
    return {"rows_per_person": keep} if isinstance(keep, int) else {"keep": keep}


def made(table, keep, columns=("a", "b"), person="who"):
    return rows_of_persons(table, person=person, **kept(keep)).rows(list(columns)).in_memory


@pytest.mark.parametrize("keep", ["mean", "sum"])
def test_means_and_sums_of_persons_are_those_of_pandas(keep):
    table = visits()
    groups = table.dropna(subset="who").groupby("who")[["a", "b"]]
    ours = made(table, keep)
    theirs = groups.agg(keep).to_numpy()
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
    first = {
        (row.a, row.b) for row in table.dropna(subset="who").drop_duplicates("who").itertuples()
    }
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
    same = ((one == two) | (np.isnan(one) & np.isnan(two))).all(axis=1)
    # blocks of persons
    return int((~same.reshape(-1, keep if isinstance(keep, int) else 1).all(axis=1)).sum())


@pytest.mark.parametrize("keep", KEEPS)
def test_replacing_all_rows_of_a_person_changes_one_block(keep):
    assert max(changed_rows(keep, seed) for seed in range(25)) == 1


@pytest.mark.parametrize("keep", ["row", 3])
def test_the_order_of_the_rows_decides_nothing(keep):
    table = visits().round(1)  # with copies
    shuffled = {
        made(table.sample(frac=1.0, random_state=seed), keep).tobytes() for seed in range(5)
    }
    assert shuffled == {made(table, keep).tobytes()}


def test_rows_of_a_person_are_kept_as_often_as_they_come():
    """Each copy has a hash of its own; with one for all, rare values would be kept as often as frequent ones."""
    table = pd.DataFrame(
        {"who": np.repeat(np.arange(2_000), 10), "a": np.tile([1.0, *[0.0] * 9], 2_000)}
    )
    for k in (1, 2, 5):
        assert (
            abs(
                rows_of_persons(table, person="who", rows_per_person=k).rows(None).in_memory.mean()
                - 0.1
            )
            < 0.02
        )
    all_of_them = (
        rows_of_persons(table, person="who", rows_per_person=12)
        .rows(None)
        .in_memory.reshape(2_000, 12)
    )
    assert np.array_equal(np.nansum(all_of_them, axis=1), np.ones(2_000))
    assert np.array_equal(np.isnan(all_of_them).sum(axis=1), np.full(2_000, 2))


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

    open_files = len(list(Path("/proc/self/fd").iterdir()))
    assert made(table, keep).tobytes() == whole.tobytes()
    raises(
        InputError,
        "reading",
        rows_of_persons,
        Broken(np.ones((400, 2)), "array"),
        person=np.arange(400),
        **kept(keep),
    )
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    assert [*names, *tmp_path.iterdir()] == []


def by_file_order(table, _keep):
    """Wrong: the places of persons are those of their first rows."""
    return table.dropna(subset="who").drop_duplicates("who")[["a", "b"]].to_numpy()


def by_place_in_the_file(table, _keep):
    """Wrong: which row stands for a person depends on how many rows the table has."""
    groups = table.dropna(subset="who").groupby("who")
    return np.array([part[["a", "b"]].to_numpy()[len(table) % len(part)] for _, part in groups])


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
    for size in (1, 7, 64):
        pieces = Rows.from_chunks(
            lambda size=size: (values[i : i + size] for i in range(0, 400, size)), n=400, dim=2
        )
        cut = rows_of_persons(pieces, person=who, **kept(keep)).rows(None).in_memory
        assert cut.tobytes() == whole.tobytes()


@pytest.mark.parametrize("keep", KEEPS)
def test_all_forms_of_a_table_give_the_same_persons(keep, tmp_path):
    table = visits()
    numbered = table.assign(who=table["who"].str[1:].astype(float))
    whole = made(table, keep)
    split = dask.dataframe.from_pandas(table, npartitions=3)
    lazy = polars.from_pandas(table).lazy()
    forms = [*forms_of(tmp_path, table), split, lazy, table.astype({"who": "category"})]
    for form in forms:
        assert made(form, keep).tobytes() == whole.tobytes(), type(form)
    whole_numbers = numbered.astype({"who": "Int64"})
    (tmp_path / "whole").mkdir()
    (tmp_path / "floats").mkdir()
    by_number = [
        *forms_of(tmp_path / "whole", whole_numbers),
        *forms_of(tmp_path / "floats", numbered),
    ]
    by_number += [
        dask.dataframe.from_pandas(whole_numbers, npartitions=3),
        polars.from_pandas(numbered).lazy(),
    ]
    by_number += [whole_numbers.assign(who=whole_numbers["who"].astype(object))]
    assert len({made(form, keep).tobytes() for form in by_number}) == 1
    beside = rows_of_persons(
        table[["a", "b", "town"]], person=numbered["who"].to_numpy(), **kept(keep)
    )
    assert beside.rows(["a", "b"]).in_memory.tobytes() == made(numbered, keep).tobytes()
    if keep in ("mean", "sum"):
        assert np.allclose(
            np.sort(made(numbered, keep), axis=0), np.sort(whole, axis=0), equal_nan=True
        )


def test_texts_of_digits_choose_the_same_rows_in_every_form(tmp_path):
    table = visits().assign(zip=[f"{i * 7919 % 1000:03d}" for i in range(400)])
    chosen = {made(form, "row").tobytes() for form in forms_of(tmp_path, table)}
    assert chosen == {made(table, "row").tobytes()}


def test_identifiers_and_stored_indices_are_no_features(tmp_path):
    table = visits()[["who", "a"]].set_index(np.arange(400)[::-1])
    table.to_parquet(tmp_path / "t.parquet")
    held = pyarrow.Table.from_pandas(table)
    pyarrow.feather.write_feather(held, str(tmp_path / "t.feather"))
    with pyarrow.ipc.new_stream(str(tmp_path / "t.arrow"), held.schema) as writer:
        writer.write_table(held)
    for name in ("t.parquet", "t.feather", "t.arrow"):
        assert rows_of_persons(tmp_path / name, person="who").rows(None).columns == ("a",)
    # Identifiers are no feature and texts are read.
    table = visits().assign(who=lambda t: t["who"].str[1:].astype(float))
    each = rows_of_persons(table, person="who")
    numbers = table[["who", "a", "b"]]
    for form in (
        numbers,
        polars.from_pandas(numbers).lazy(),
        dask.dataframe.from_pandas(numbers, npartitions=2),
    ):
        assert rows_of_persons(form, person="who").rows(None).columns == ("a", "b")
    labels = {
        "y_priv": np.zeros(400),
        "x_pub": np.zeros((9, 2)),
        "y_pub": np.zeros(9),
        "budget": ZCDP(1),
    }
    raises(
        InputError,
        "label=",
        fpp.linear_regression,
        rows_of_persons(numbers, person="who"),
        **labels,
    )
    counts = fpp.value_counts(each, columns="town", keys=["x", "y", "z"], budget=ZCDP(1e4))
    assert counts.relation == PERSON
    assert abs(sum(counts.counts[:3]) - len(each)) < 3
    means = rows_of_persons(table, person="who", keep="mean")
    raises(
        InputError,
        'keep="row"',
        fpp.value_counts,
        means,
        columns="town",
        keys=["x"],
        budget=ZCDP(1),
    )


# Calls that take a row without numbers for one at a center, and so one row of each person.
ONE_ROW_EACH = {
    name
    for name in CALLS
    if name.startswith(
        (
            "weighted_mean",
            "coinpress",
            "private_pca",
            "learn_separated",
            "no_public",
            "select_hypothesis",
            "train, dp_sgd",
        )
    )
    or (name.startswith("learn_axis") and not name.endswith(("dp_em", "public")))
} | {
    "estimate_mean, public covariance",
    "estimate_gaussian, ladder, mean",
    "estimate_gaussian, ladder, diagonal",
    "estimate_gaussian, lifted",
    "estimate_gaussian, lifted from two public rows",
    "estimate_gaussian, pairs",
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_says_what_it_promises(name):
    call = CALLS[name]
    few = "hypothesis_selection" in str(call.options) or "recursive" in str(call.options)
    if call.heavy or call.slow or call.named or few:
        pytest.skip("as quick ones do, or needs more rows")
    rows = np.asarray(call.rows)[:300]
    who = pd.Series(np.arange(len(rows)), name="who")
    each = rows_of_persons(rows, person=who)
    budget = fpp.ApproxDP(1, 1e-6) if "approx" in call.notions else ZCDP(0.5)
    several = rows_of_persons(rows, person=who, rows_per_person=2)
    for given, k, relation in (
        (each, 1, PERSON),
        (several, 2, f"{PERSON}; at most 2 rows of each are used"),
    ):
        ledger = Ledger(budget, relation=Neighbors.REPLACE_PERSON)
        if k > 1 and name in ONE_ROW_EACH:
            raises(InputError, "rows_per_person=1", call, given, budget=budget, ledger=ledger)
            assert ledger.spent.is_zero
            continue
        result = call(given, budget=budget, ledger=ledger, random_state=0)
        assert result.relation == relation
        assert result.n_priv == 300
        assert result.rows_per_person == k
        assert result._contents(0.95)[1][0] == ("Answers about", result.about)
        plain = {
            name: value for name, value in result.to_dict().items() if name != "rows_per_person"
        }
        # as texts of before the field
        assert type(result).from_json(json.dumps(plain)).rows_per_person == k
        assert sum(1 for _ in ledger.entries) == (0 if isinstance(result.spent, Cost) else 1)
        assert ledger.spent.amounts[0] == result.spent.amounts[0]
    raises(
        BudgetError,
        "REPLACE_PERSON",
        call,
        each,
        budget=budget,
        ledger=Ledger(budget),
        random_state=0,
    )
    ledger = Ledger(budget, relation=Neighbors.REPLACE_PERSON)
    raises(BudgetError, "REPLACE_ONE", call, rows, budget=budget, ledger=ledger, random_state=0)


def test_calculators_take_a_person_for_a_row():
    assert OnePass().squared_mu(100, Neighbors.REPLACE_PERSON) == OnePass().squared_mu(
        100, Neighbors.REPLACE_ONE
    )


def test_a_public_table_of_visits_is_warned_about_at_the_line_of_the_caller():
    table = pd.DataFrame({"patient_id": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]})
    private = pd.DataFrame({"patient_id": np.arange(300) // 3, "x": np.linspace(0, 5, 300)})
    with warnings.catch_warnings(record=True, action="always") as caught:
        fpp.estimate_mean(private, x_pub=table, columns=["x"], budget=ZCDP(1.0))
    named = [each for each in caught if "pass person='patient_id'" in str(each.message)]
    assert [each.filename for each in named] == [__file__]
    with warnings.catch_warnings(record=True, action="always") as silent:
        fpp.estimate_mean(
            private,
            person="patient_id",
            rows_per_person=1,
            x_pub=table,
            columns=["x"],
            budget=ZCDP(1.0),
        )
        one_each = table.drop_duplicates("patient_id")
        fpp.estimate_mean(private, x_pub=one_each, columns=["x"], budget=ZCDP(1.0))
    assert not any("person" in str(each.message) for each in silent)


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
    table = visits()
    with pytest.raises(InputError, match=words):
        rows_of_persons(
            table if isinstance(arguments["person"], str) else table[["a", "b"]].to_numpy(),
            **arguments,
        )


def test_persons_are_made_once_and_are_not_the_public_rows():
    table = visits()[["a", "b", "who"]]
    each = rows_of_persons(table, person="who")
    raises(InputError, "already", rows_of_persons, each, person="who")
    raises(
        InputError,
        "same object",
        fpp.estimate_mean,
        each,
        x_pub=table,
        columns=["a"],
        budget=ZCDP(1.0),
    )


# ---- k rows of each person: the budget is spent at row level ---------------------------------------------------------


def cost_of_change(call, moved):
    """What the answers of a release tell of the change of its query, in the unit of its notion."""
    unit = call.event.price(ZCDP) / call.event.squared_sensitivity
    return unit * int(((call.query - moved.query).astype(object) ** 2).sum())


def person_cost(k, budget):
    """What telling a person from its opposite costs: all k rows of one go from one cell to another, k + 1 rows become k."""
    one = pd.DataFrame(
        {
            "who": np.repeat(np.arange(40), k),
            "a": np.repeat(np.where(np.arange(40) == 7, 1.0, -1.0), k),
        }
    )
    other = one.assign(a=np.where(one["who"] == 7, -1.0, one["a"]))
    one = pd.concat([one, one[one["who"] == 7][:1]])
    seen = []
    for table in (one, other):
        with recording(script=seen[0].calls if seen else None) as recorded:
            fpp.value_counts(
                rows_of_persons(table, person="who", rows_per_person=k),
                columns="a",
                keys=[-1, 1],
                budget=budget,
            )
        seen.append(recorded)
    assert [price for _, price, _ in seen[0].accounts] == [budget * 63 / 64, budget / 64]
    return sum(cost_of_change(*each) for each in zip(*(each.calls for each in seen), strict=True))


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_a_person_costs_the_budget_and_a_forgotten_square_is_seen(k, monkeypatch):
    assert Fraction(99, 100) < person_cost(k, ZCDP(1)) <= 1
    # planted: k in place of k^2
    monkeypatch.setattr(user_level, "row_budget", lambda budget, rows: budget / rows)
    monkeypatch.setattr(account, "person_budget", lambda budget, rows: budget * rows)
    assert (person_cost(k, ZCDP(1)) > 1) == (k > 1)


@pytest.mark.parametrize(
    "budget",
    [ZCDP(0.1), fpp.PureDP(1), *(fpp.ApproxDP(e, d) for e in (0.01, 1, 8) for d in (1e-9, 1e-4))],
)
@pytest.mark.parametrize("k", [1, 2, 7, 100])
def test_what_a_row_may_spend_is_the_inverse_of_group_privacy(budget, k):
    row = row_budget(budget, k)
    assert person_budget(row, k) == budget
    if isinstance(budget, fpp.ApproxDP) and k > 1:
        epsilon, delta = group_approx(row.epsilon, row.delta, k)
        assert exact(epsilon, "epsilon") <= budget.epsilon
        assert 1 - 1e-9 < delta / budget.delta <= 1
        # Gaussian noise alone goes by mu / k: no delta is lost, so more of the budget is left.
        plain = fpp.ApproxDP(row.epsilon, row.delta)
        assert gaussian_rho(row, 9) == gaussian_rho(budget, 9) / k**2 > gaussian_rho(plain, 9)
        most = gaussian_rho(budget, 9, budget.epsilon / 2, budget.delta * Fraction(1, 10**9)) / k**2
        assert gaussian_rho(row, 9, row.epsilon / 2, row.delta / 2) <= most


def test_intervals_count_rows_of_a_person_as_alike():
    table = visits(n=3_000, people=300).fillna({"who": "p0"})
    asked = {"x_pub": pd.DataFrame({"a": [0.0]}), "columns": ["a"], "budget": ZCDP(6e4)}
    found = fpp.estimate_mean(table, person="who", rows_per_person=4, **asked)
    plain = fpp.estimate_mean.__wrapped__(
        rows_of_persons(table, person="who", rows_per_person=4), **asked
    )
    assert found.sampling_std[0] == pytest.approx(2 * plain.sampling_std[0], rel=0.03)
    assert found.rows_per_person == 4
    counts = fpp.value_counts(
        table,
        columns="town",
        keys=["x", "y", "z"],
        person="who",
        rows_per_person=4,
        budget=ZCDP(1e4),
    )
    assert abs(counts.share[:3].sum() - 1.0) < 0.01  # of the rows that are there


def test_a_share_of_the_budget_chooses_how_many_rows():
    rng = np.random.default_rng(0)
    for most, wanted in ((1, {1}), (8, {8})):
        who = np.repeat(np.arange(4_000), most)
        table = pd.DataFrame({"who": who, "a": rng.normal(size=len(who))})
        ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
        given = {
            "x_pub": pd.DataFrame({"a": [0.1]}),
            "columns": ["a"],
            "person": "who",
            "rows_per_person": "auto",
            "ledger": ledger,
        }
        raises(
            InputError,
            "'gaussian'",
            fpp.estimate_mean,
            table,
            clipping="x",
            budget=ZCDP(0.5),
            **given,
        )
        raises(BudgetError, None, fpp.estimate_mean, table, budget=ZCDP(2), **given)
        assert ledger.spent.is_zero  # an error costs nothing
        result = fpp.estimate_mean(table, budget=ZCDP(0.5), **given)
        assert result.spent == ZCDP(0.5)
        assert ledger.spent == ZCDP(0.5).cost
        assert sum(each.get("rho", 0) for each in result.releases[:1]) <= Fraction(1, 32)
        assert result.rows_per_person in wanted


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
    table = visits()
    public = pd.DataFrame({"who": "q", "a": [1.0, 2.0]})
    raises(
        FastPubPrivError,
        words,
        fpp.estimate_mean,
        table,
        **{
            "x_pub": public,
            "columns": ["a"],
            "person": "who",
            "rows_per_person": 1,
            "budget": ZCDP(1),
            **given,
        },
    )


def test_identifiers_of_several_types_are_those_of_persons():
    table = pd.DataFrame(
        {"who": ["7", 7, 7.0, None, "7 ", "7.0", "07", "7.50", 8], "a": np.arange(9.0)}
    )
    # 7 in five forms, and 07, 7.50 and 8.
    assert (
        rows_of_persons(table, person="who").n
        == rows_of_persons(table[["a"]], person=table["who"].tolist()).n
        == 4
    )


def test_long_identifiers_of_text_are_not_rounded_to_one_person():
    table = pd.DataFrame(
        {
            "who": ["9007199254740993", "9007199254740992", "10000000000000000001"],
            "a": np.arange(3.0),
        }
    )
    assert rows_of_persons(table, person="who").n == 3


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize("frames", [pd.DataFrame, polars.DataFrame, pyarrow.table])
def test_a_public_table_may_hold_the_identifiers_too(frames):
    rng = np.random.default_rng(1)
    visits = {"patient": np.arange(600) % 300, "minutes": rng.normal(30.0, 5.0, 600)}
    public = {name: values[:40].copy() for name, values in visits.items()}
    asked = {"budget": fpp.ZCDP(0.5), "random_state": 0, "progress": False}
    both = fpp.estimate_mean(
        frames(visits), x_pub=frames(public), person="patient", rows_per_person=2, **asked
    )
    one = fpp.estimate_mean(
        frames(visits),
        x_pub=frames({"minutes": public["minutes"]}),
        person="patient",
        rows_per_person=2,
        **asked,
    )
    made = rows_of_persons(frames(visits), person="patient", rows_per_person=2)
    assert (
        both.to_json()
        == one.to_json()
        == fpp.estimate_mean(made, x_pub=frames(public), **asked).to_json()
    )
    other = frames({"clinic": public["patient"], "minutes": public["minutes"]})
    raises(
        InputError, "'clinic', which x_priv has not", fpp.estimate_mean, made, x_pub=other, **asked
    )


FILES_OF = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "feather": lambda frame, path: pyarrow.feather.write_feather(
        pyarrow.Table.from_pandas(frame), path
    ),
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize("name", ["estimate_mean", "describe", "linear_regression"])
@pytest.mark.parametrize("form", [*FILES_OF, "lazy"])
def test_a_public_file_may_hold_the_identifiers_too(form, name, tmp_path):
    rng = np.random.default_rng(1)
    visits = pd.DataFrame(
        {"who": np.arange(600) % 300, "a": rng.normal(size=600), "b": rng.normal(size=600)}
    )
    public = visits[:40].assign(who="P1")
    path = tmp_path / f"public.{form}"
    given = polars.DataFrame(public).lazy() if form == "lazy" else path
    if form != "lazy":
        FILES_OF[form](public, path)
    asked = {"budget": ZCDP(0.5), "random_state": 0, "person": "who", "rows_per_person": 1} | (
        {"label": "b"} if name.startswith("l") else {}
    )
    call = getattr(fpp, name)
    assert (
        call(visits, x_pub=given, **asked).to_json()
        == call(visits, x_pub=public[["a", "b"]].copy(), **asked).to_json()
    )


@pytest.mark.parametrize("k", [np.zeros(3), polars.Series([1, 2]), True, 1.0])
def test_a_number_of_rows_per_person_that_is_none_is_refused_in_words(k):
    raises(
        InputError,
        "rows_per_person",
        fpp.estimate_mean,
        [[1.0]],
        x_pub=[[1.0]],
        budget=ZCDP(1.0),
        rows_per_person=k,
    )


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
