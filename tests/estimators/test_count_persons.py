"""`count_persons`: the sensitivity by all neighbors, replays, coverage, keys that are left out, and what is refused."""

import math
from fractions import Fraction
from itertools import chain, combinations
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers.tables import rows_of_persons

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, InputError, Ledger, PureDP, count_persons
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import ReplayError
from fastpubpriv.estimators import count_persons as module
from fastpubpriv.estimators.person_sizes import PersonSizes
from fastpubpriv.mechanisms import person_keys
from fastpubpriv.mechanisms.person_keys import KeyQuery, changed_cells
from fastpubpriv.privacy import Neighbors
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.sources import keys_of_persons as deriving
from fastpubpriv.sources import private_rows

EXACT = ZCDP(1e6)  # as good as no noise
BUDGETS = {"zcdp": ZCDP(0.1), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
WARDS = list(range(10))


def counted(table, budget=EXACT, **options):
    given = {"person": "patient", "by": "ward", "groups": WARDS, **options}
    return count_persons(table, budget=budget, threads=1, progress=False, **given)


def visits(persons=400, each=3.0, seed=0, wards=10):
    """A table of visits, at least one of each patient, to wards chosen uniformly."""
    rng = np.random.default_rng(seed)
    patients = np.repeat(np.arange(persons), 1 + rng.poisson(each - 1.0, persons))
    return pd.DataFrame({"patient": patients, "ward": rng.integers(0, wards, len(patients))})


def truth(table, wards=10):
    return table.groupby("ward").patient.nunique().reindex(range(wards), fill_value=0).to_numpy()


# ---- sensitivity ----------------------------------------------------------------------------------------------------
def histogram(keys, most, cells):
    """The 0/1 vector that a person with rows of these keys adds."""
    rows = private_rows(np.array(keys, dtype=float)[:, None])
    people = np.zeros(len(keys), dtype=np.int64)
    marks = np.array([77], dtype=np.uint64)
    found = deriving.keys_of_persons(
        rows, lambda chunk: chunk[:, 0].astype(np.int64), cells, people, marks
    )
    query = KeyQuery(shape=(cells,))
    counts = query.zeros()
    query.add(found.first(most), counts)
    return counts[0]


def largest_moves(most, cells):
    """Largest l1 and squared l2 distance between a person's vectors, over all sets of keys; the first key stands there twice."""
    every = chain.from_iterable(combinations(range(cells), size) for size in range(1, cells + 1))
    vectors = np.array([histogram([*keys, keys[0]], most, cells) for keys in every])
    gaps = vectors[:, None, :] - vectors[None, :, :]
    return np.abs(gaps).sum(axis=2).max(), np.square(gaps).sum(axis=2).max()


@pytest.mark.parametrize("cells", [2, 3, 4, 5, 6, 7])
def test_every_pair_of_neighbors_moves_as_much_as_is_charged_and_never_more(cells):
    for most in range(1, cells + 1):
        charged = changed_cells(most, cells)
        assert largest_moves(most, cells) == (charged, charged), most


def test_keys_that_a_person_has_twice_are_caught_by_all_neighbors():
    with mock.patch.object(deriving, "distinct", np.sort):
        l1, squared = largest_moves(2, 4)
    assert squared > changed_cells(2, 4)
    assert l1 >= changed_cells(2, 4)


def test_padding_in_a_cell_is_caught_by_all_neighbors():
    add = KeyQuery.add

    def padded(self, chunk, accumulators):
        add(self, np.where(np.isnan(chunk), 0.0, chunk), accumulators)

    with mock.patch.object(KeyQuery, "add", padded), mock.patch.object(deriving, "room_for", room):
        assert largest_moves(3, 6)[1] > changed_cells(3, 6)


def room(shape, fill):
    """Rows of full length: the planted fault counts their padding."""
    return np.full((shape[0], 3), fill)


def hostile(table, rows):
    """A neighbor of `table`: patient 7 has these rows instead."""
    others = table[table.patient != 7]
    own = pd.DataFrame({"patient": 7, "ward": rows})
    return pd.concat([others, own], ignore_index=True)


HOSTILE = [[0], [0, 1, 2], [5, 6, 7], [*range(10), 55, None], [None, 99], [3] * 40]


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("keys_per_person", ["auto", 1, 3, 12])
def test_neighbors_replay_within_the_charged_cost(budget, keys_per_person):
    table = hostile(visits(60), [0, 1, 2])

    def run(rows):
        return counted(rows, budget, keys_per_person=keys_per_person)

    for rows in HOSTILE:
        report = record_replay(run, table, hostile(table, rows), budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_disjoint_keys_take_the_whole_cost_and_shuffled_rows_none(budget):
    table = hostile(visits(60), [0, 1, 2, 3, 4, 5])

    def run(rows):
        return counted(rows, budget, keys_per_person=12)

    # K = 12 cells, 12 keys: replaced by the complement, "(other)" and "(missing)" among it
    report = record_replay(run, table, hostile(table, [6, 7, 8, 9, 55, None]), budget=budget)
    assert report.tightness == 1.0
    assert report.declared_cost >= report.allowance * Fraction(99, 100)
    shuffled = table.sample(frac=1.0, random_state=3)
    assert record_replay(run, table, shuffled, budget=budget).pair_cost == 0


def replayed(rows=(6, 7, 8, 9, 55, None), **options):
    table = hostile(visits(60), [0, 1, 2, 3, 4, 5, 5])

    def run(rows):
        return counted(rows, BUDGETS["zcdp"], **options)

    return record_replay(run, table, hostile(table, list(rows)), budget=BUDGETS["zcdp"])


def test_planted_faults_are_caught_by_replays():
    replayed()
    few = {"groups": [0, 1], "keys_per_person": 4}
    replayed([0, 1], **few)

    def named_alone(most, cells):  # planted: "(other)" and "(missing)" have no cells
        return min(2 * most, cells - 2)

    with mock.patch.object(person_keys, "changed_cells", named_alone):
        raises(ReplayError, None, replayed, [55, None], **few)
    with mock.patch.object(deriving, "distinct", np.sort):  # planted: a key counts twice
        raises(ReplayError, None, replayed, [0] * 12, keys_per_person=12)


def test_the_noise_is_that_of_the_cells_that_neighbors_change():
    table = visits(300)
    for most, changed in ((1, 2), (3, 6), (5, 10), (6, 12), (12, 12)):
        share = 1.0 if changed == 12 else 63 / 64
        gaussian = counted(table, ZCDP(0.1), keys_per_person=most).noise_std
        laplace = counted(table, PureDP(1), keys_per_person=most).noise_std
        assert gaussian == pytest.approx(math.sqrt(changed / (2 * 0.1 * share)), rel=1e-3)
        assert laplace == pytest.approx(math.sqrt(2.0) * changed / share, rel=1e-3)


def test_one_cell_has_half_of_the_noise_of_two():
    """The share of persons with more keys: 1/64 of the budget, one cell."""
    table = visits(300)
    gaussian = counted(table, ZCDP(0.1), keys_per_person=1).releases[0]
    laplace = counted(table, PureDP(1), keys_per_person=1).releases[0]
    assert gaussian["noise_std"] == pytest.approx(math.sqrt(32 / 0.1), rel=1e-3)
    assert laplace["noise_std"] == pytest.approx(64 * math.sqrt(2.0), rel=1e-3)


# ---- counts ---------------------------------------------------------------------------------------------------------
def test_counts_without_noise_are_numbers_of_different_persons(tmp_path):
    table = visits(each=9.0)
    table.loc[::7, "ward"] = 55
    table["ward"] = table["ward"].astype(float)
    table.loc[::11, "ward"] = np.nan
    wanted = [
        *truth(table),
        table[table.ward == 55].patient.nunique(),
        table[table.ward.isna()].patient.nunique(),
    ]
    table.to_parquet(tmp_path / "visits.parquet")
    table.to_csv(tmp_path / "visits.csv", index=False)
    anonymous = table.drop(columns="patient")
    for form, person in (
        (table, "patient"),
        (tmp_path / "visits.parquet", "patient"),
        (tmp_path / "visits.csv", "patient"),
        (anonymous, table["patient"].to_numpy()),
    ):
        result = counted(form, person=person)
        assert np.round(result.counts).tolist() == wanted
        assert result.published.tolist() == wanted
        assert result.keys_per_person == 12
    assert result.about == "all keys of each of 400 persons"


def test_several_columns_have_a_count_of_each_combination():
    table = visits(each=5.0, wards=3)
    table["month"] = np.where(np.arange(len(table)) % 3 == 0, "May", " June ")
    groups = {"ward": [0, 1, 2], "month": ["May", "June"]}
    result = counted(table, by=["ward", "month"], groups=groups, keys_per_person=20)
    clean = table.assign(month=table.month.str.strip())
    wanted = clean.groupby(["ward", "month"]).patient.nunique()
    for key, count in wanted.items():
        assert round(result[key]) == count
    assert result.to_frame().shape[0] == 20


def test_keys_that_count_do_not_depend_on_other_persons():
    table = visits(each=9.0)
    alone = counted(table[table.patient < 200], keys_per_person=2)
    others = counted(table[table.patient >= 200], keys_per_person=2)
    together = counted(table, keys_per_person=2)
    assert np.round(together.counts).tolist() == np.round(alone.counts + others.counts).tolist()


def test_keys_that_count_are_as_if_at_random():
    table = pd.DataFrame({"patient": np.repeat(np.arange(6_000), 10), "ward": WARDS * 6_000})
    result = counted(table, keys_per_person=3)
    # each key is one of 3 of 10: 1,800 persons, standard deviation 35
    assert np.abs(result.counts[:10] - 1_800.0).max() < 5 * 35.5


# ---- intervals ------------------------------------------------------------------------------------------------------
def test_intervals_hold_the_truth_where_nothing_is_left_out():
    for budget in BUDGETS.values():
        table = visits(600, each=4.0)
        wanted = truth(table)
        held = []
        narrow = []
        for draw in range(60):
            result = counted(table, budget, keys_per_person=12 if draw % 2 else "auto")
            lower, upper = result.confidence_interval()
            held.append((lower[:10] <= wanted) & (wanted <= upper[:10]))
            half = 0.5 * (upper - lower)[:10] / 2.0  # planted: half of the width
            middle = (upper + lower)[:10] / 2.0
            narrow.append(np.abs(middle - wanted) <= half)
        assert np.mean(held) >= 0.94
        assert np.mean(narrow) < 0.9


def test_intervals_hold_the_truth_where_keys_are_left_out():
    table = visits(600, each=6.0)
    wanted = truth(table)
    for most in (1, 2, 4):
        held = []
        for _ in range(20):
            result = counted(table, BUDGETS["zcdp"], keys_per_person=most)
            lower, upper = result.confidence_interval()
            held.append((lower[:10] <= wanted) & (wanted <= upper[:10]))
            assert "rows_left_out" in result.reasons
        assert np.mean(held) >= 0.94
        without = result.counts[:10] + 2 * result.noise_std  # planted: the allowance is left out
        assert np.mean(wanted <= without) < 0.5


def test_intervals_of_the_population_are_wider_and_simultaneous_ones_too():
    result = counted(visits(), ZCDP(0.5))
    usual, population, all_at_once = (
        np.diff(result.confidence_interval(**more), axis=0)[0]
        for more in ({}, {"of": "population"}, {"simultaneous": True})
    )
    assert (population[:10] > usual[:10]).all()
    assert (all_at_once[:10] > usual[:10]).all()
    raises(InputError, "'persons', 'population'", result.confidence_interval, of="rows")


def test_published_numbers_are_whole_and_in_their_intervals():
    table = visits(40, wards=2)
    for _ in range(20):
        result = counted(table, ZCDP(0.02))
        frame = result.to_frame()
        published = result.published
        assert (published == np.rint(published)).all()
        assert published.min() >= 0.0
        assert published.max() <= 40.0
        assert frame["count"].tolist() == published.tolist()
        assert (frame["lower"] <= frame["count"]).all()
        assert (frame["count"] <= frame["upper"]).all()
        assert frame["upper"].max() <= 40.0
        assert (frame["lower"] == np.floor(frame["lower"])).all()
    assert "few_rows" in result.part_reasons[5]
    assert result.part_reasons[-1] == ()  # nobody named "(missing)"


def test_texts_show_whole_numbers_without_a_sign():
    shown = [counted(visits(40, wards=2), ZCDP(0.02)).summary() for _ in range(20)]
    assert not any(" -0 " in each for each in shown)
    many = counted(visits(2_000, wards=2), ZCDP(1e4))
    assert f"{int(many.published[0]):,} " in many.summary()


def test_one_name_in_a_list_is_that_name():
    expected = counted(visits(40, wards=2), ZCDP(1e4)).counts
    for options in (
        {"by": ["ward"]},
        {"by": ("ward",)},
        {"by": "ward", "groups": {"ward": [0, 1]}},
    ):
        found = counted(visits(40, wards=2), ZCDP(1e4), **options)
        assert found.by == ("ward",)
        assert found.counts[-1] == pytest.approx(expected[-1], abs=0.5)


# ---- how many keys count --------------------------------------------------------------------------------------------
def test_auto_takes_all_of_a_few_keys_without_a_release():
    result = counted(visits(wards=4), ZCDP(0.1), groups=range(4))
    assert result.keys_per_person == 6
    assert len(result.releases) == 1


def test_auto_chooses_by_the_noisy_sizes():
    many = visits(4_000, each=3.0, wards=200)
    result = counted(many, ZCDP(0.1), groups=range(200))
    assert result.keys_per_person in (4, 6, 8)
    assert [each["name"] for each in result.releases] == ["keys per person", "persons by key"]
    assert result.releases[0]["keys_per_person"] == result.keys_per_person
    assert f"persons with more than {result.keys_per_person} keys: " in result.about
    assert result.spent == ZCDP(0.1)


def test_the_predicted_error_of_the_choice_is_that_of_the_best():
    """1,000 persons with 1 key and 1,000 with 20 of 40: noise of c / (2 rho) and the pairs that are left out."""
    most = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    counts = np.array([1000.0, 0, 0, 0, 0, 1000.0, 0.0])
    sizes = PersonSizes(counts, 1.0, "gaussian", 2_000, most)
    for rho, wanted in ((1.0, 40), (1e-6, 1)):
        assert module.best_limit(sizes, 40, spending_of(ZCDP(rho), 40)) == wanted


def error_of(limit, sizes, keys, cells, rho):
    """Root mean squared error of a count of keys that are alike, of which at most `limit` of a person count."""
    left_out = np.maximum(sizes - limit, 0).sum() / keys
    return math.sqrt(min(2 * limit, cells) / (2.0 * rho) + left_out**2)


@pytest.mark.parametrize("rho", [0.1, 0.01])
@pytest.mark.parametrize("each", [4, 9, 21])
@pytest.mark.parametrize("keys", [20, 240])
def test_the_error_of_auto_is_near_that_of_the_best_number_of_keys(keys, each, rho):
    """Noise of the choice leaves up to 12 %, beside the sixteenth of the budget that it costs."""
    rng = np.random.default_rng(0)
    visits_of_each = 1 + rng.poisson(each - 1, 4_000)
    sizes = np.array([len(np.unique(rng.integers(0, keys, n))) for n in visits_of_each])
    cells = keys + 2
    ends = module.sizes_of_keys(cells)
    true = np.bincount(np.searchsorted(ends, sizes), minlength=len(ends))
    noise_std = math.sqrt(16.0 / rho)
    spending = spending_of(ZCDP(rho), cells + len(ends)).part(Fraction(15, 16))
    squares = []
    for _ in range(100):
        noisy = true + rng.normal(0.0, noise_std, len(ends))
        found = PersonSizes(noisy, noise_std, "gaussian", 4_000, ends)
        limit = module.best_limit(found, cells, spending)
        squares.append(error_of(limit, sizes, keys, cells, 15 / 16 * rho) ** 2)
    every = [error_of(limit, sizes, keys, cells, 15 / 16 * rho) for limit in range(1, cells + 1)]

    assert math.sqrt(np.mean(squares)) <= 1.13 * min(every)


@pytest.mark.parametrize("keys_per_person", ["auto", 4])
def test_rows_left_out_is_said_where_persons_with_more_keys_are_many(keys_per_person):
    rng = np.random.default_rng(5)
    heavy = pd.DataFrame(
        {"patient": np.repeat(np.arange(100), 30), "ward": rng.integers(0, 200, 3_000)}
    )
    light = pd.DataFrame({"patient": np.arange(100, 1_000), "ward": rng.integers(0, 200, 900)})
    some = pd.concat([heavy, light])
    settings = {"groups": range(200), "keys_per_person": keys_per_person}
    if keys_per_person == 4:
        said = ["rows_left_out" in counted(some, ZCDP(0.5), **settings).reasons for _ in range(100)]
        assert np.mean(said) >= 0.99
    none = ["rows_left_out" in counted(light, ZCDP(0.5), **settings).reasons for _ in range(100)]
    assert np.mean(none) <= 0.02


# ---- what is refused, and the account -------------------------------------------------------------------------------
REFUSED = Refusals()
REFUSED.add("the number of persons is public: 400", by=None)
REFUSED.add("says whose row it is", by="patient", groups=None)
REFUSED.add("says whose row it is", by=["ward", "patient"], groups=None)
REFUSED.add("wad", by="wad")
REFUSED.add("name the column that says whose row it is", person=None)
REFUSED.add("one identifier for each row", person=np.arange(3))
REFUSED.add("there are no values of column 'ward'", groups=None)
REFUSED.add(
    "1,004,004 combinations of keys are too many",
    by=["ward", "month"],
    groups={"ward": range(1_000), "month": range(1_000)},
)
REFUSED.add("at least one", groups=[])
REFUSED.add("at least 1|>= 1", keys_per_person=0)
REFUSED.add("a whole number or 'auto', got 'all'", keys_per_person="all")
REFUSED.add("groups must map them", groups={"Ward": [1]})
REFUSED.add("whole number|integer", keys_per_person=1.5)


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_bad_arguments_are_refused_before_the_debit(options, words):
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    raises(InputError, words, counted, visits(), ZCDP(0.1), ledger=ledger, **options)
    assert ledger.entries == ()


def test_rows_of_persons_are_refused():
    people = rows_of_persons(visits(), person="patient")
    raises(InputError, "already", counted, people)


def test_a_ledger_of_persons_is_charged_once_and_one_of_rows_refuses():
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    result = counted(visits(), ZCDP(0.25), ledger=ledger, keys_per_person=2)
    assert ledger.spent.amounts == (Fraction(1, 4),)
    assert result.relation == "replace all rows of one person; the number of persons is public"
    raises(fpp.BudgetError, None, counted, visits(), ZCDP(0.25), ledger=Ledger(ZCDP(1)))


def test_a_plan_has_the_noise_of_the_counts():
    found = fpp.plan("count_persons", cells=12, keys_per_person=12, n_priv=400, budget=ZCDP(0.1))
    result = counted(visits(), ZCDP(0.1), keys_per_person=12)
    assert found.error * 400 == pytest.approx(result.noise_std, rel=1e-3)
    few = fpp.plan("count_persons", cells=240, keys_per_person=4, n_priv=400, budget=ZCDP(0.1))
    assert few.details["count_std"] == pytest.approx(math.sqrt(8 / 0.2 * 64 / 63), rel=1e-6)
    refused = {"cells": 12, "keys_per_person": 0, "n_priv": 400, "budget": ZCDP(0.1)}
    raises(InputError, "keys_per_person", fpp.plan, "count_persons", **refused)


# ---- differences and ratios of two keys -----------------------------------------------------------------------------
def share_held(comparisons, truth_of_both):
    """Share of the comparisons whose interval holds the truth."""
    return np.mean([bool(each.lower[0] <= truth_of_both <= each.upper[0]) for each in comparisons])


@pytest.mark.parametrize("budget", [ZCDP(0.1), PureDP(5)], ids=["zcdp", "pure"])
@pytest.mark.parametrize("most", [10, 1], ids=["all keys", "one key"])
def test_differences_and_ratios_of_these_persons_hold_the_truth(budget, most):
    """Ward 0 has most persons; where one key of each counts, two thirds of a count may be left out."""
    table = visits(600)
    table.loc[::2, "ward"] = 0
    found = [counted(table, budget, keys_per_person=most) for _ in range(200)]
    many, few = truth(table)[[0, 3]]

    assert share_held([each.difference(0, 3) for each in found], many - few) >= 0.93
    assert share_held([each.ratio(0, 3) for each in found], many / few) >= 0.93
    if most == 10:  # no wider than they must be
        assert share_held([each.difference(0, 3) for each in found], many - few) <= 0.99


def test_a_difference_of_these_persons_has_independent_errors():
    result = counted(visits(), ZCDP(0.1), keys_per_person=12)
    width = result.difference(0, 1, 0.9)
    assert width.correlation == 0.0
    assert "their errors are independent" in width.summary()
    expected = 2 * 1.644854 * math.sqrt(2) * result.noise_std
    assert width.upper[0] - width.lower[0] == pytest.approx(expected, rel=1e-5)


def test_a_difference_of_the_population_is_the_widest_as_persons_share_keys():
    """The two wards have the same patients in half of the samples, and no patient in common in the others."""
    rng = np.random.default_rng(0)
    held = []
    for draw in range(200):
        first = np.flatnonzero(rng.random(500) < 0.4)
        second = first if draw % 2 else rng.permutation(500)[: rng.binomial(500, 0.4)]
        wards = np.repeat([0, 1], [len(first), len(second)])
        table = pd.DataFrame({"patient": np.append(first, second), "ward": wards})
        everyone = pd.DataFrame({"patient": np.arange(500), "ward": 2})
        result = counted(pd.concat([table, everyone]), ZCDP(5), groups=[0, 1, 2])
        answer = result.difference(0, 1, of="population")
        assert answer.correlation is None
        held.append(bool(answer.lower[0] <= 0.0 <= answer.upper[0]))
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize(
    ("options", "words"),
    [({"b": 11}, "no key is called '11'"), ({"b": 0}, "two different"), ({"of": "rows"}, "of")],
)
def test_bad_comparisons_are_refused_in_words(options, words):
    raises(InputError, words, counted(visits(), ZCDP(1)).difference, **{"a": 0, "b": 1, **options})
