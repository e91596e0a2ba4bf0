"""Keys that are truth values, dates, periods or intervals, and bins: exact counts, intervals, neighbors, and what is refused."""

import dataclasses
import datetime
import itertools
import math
import subprocess
import sys
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from gaussian_cases import held
from helpers.errors import raises
from helpers.refusals import Refusals

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BinGrid,
    CountResult,
    Ledger,
    PureDP,
    count_persons,
    describe,
    estimate_mean,
    quantiles,
    stable_histogram,
    value_counts,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import InputError, SeededNoiseWarning
from fastpubpriv.estimators import key_lists
from fastpubpriv.sources import tables

EXACT = ZCDP(1e6)  # as good as no noise
BUDGETS = {"zcdp": ZCDP(0.1), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
DAYS = [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), datetime.date(2023, 12, 31)]
MONTHS = [pd.Period("2024-01"), pd.Period("2024-02"), pd.Period("2023-12")]
AGES = [pd.Interval(18, 40, closed="left"), pd.Interval(40, 65, closed="left")]
EDGES = [25, 35, 45]
PUBLIC = pd.DataFrame({"age": [20.0, 30.0], "ward": ["north", "south"]})
EDGE_NAMES = ["below 25", "[25, 35)", "[35, 45)", "45 or more"]


def counted(rows, budget=EXACT, **options):
    return value_counts(rows, budget=budget, threads=1, progress=False, **options)


def seeded(rows, **options):
    with pytest.warns(SeededNoiseWarning):
        return counted(rows, ZCDP(1), random_state=0, **options)


def visits(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    days = np.datetime64("2023-12-30") + rng.integers(0, 60, n).astype("m8[D]")
    age = rng.normal(40.0, 15.0, n).round()
    age[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "id": rng.integers(0, n // 3, n),
            "ward": rng.choice(["north", "south", "elsewhere"], n),
            "night": rng.random(n) < 0.3,
            "admitted": (days + rng.integers(0, 86_400, n).astype("m8[s]")).astype("M8[s]"),
            "age": age,
        }
    )


# ---- exact counts of each kind ---------------------------------------------------------------------------------------
def names_of(result):
    """The names of the keys of one column."""
    return [name for (name,) in result.keys]


def test_truth_values_are_counted():
    table = visits()
    result = counted(table, columns="night", keys=[True, False])
    assert result[True] == pytest.approx(table["night"].sum(), abs=0.1)


def test_truth_values_are_shown_as_such():
    result = counted(visits(), columns="night", keys=[True, False])
    assert names_of(result) == [True, False, "(other)", "(missing)"]
    assert type(result.keys[0][0]) is bool
    assert type(result.keys[1][0]) is bool
    assert "True" in result.summary()
    assert result.difference(True, False).first == "True"


def test_truth_values_come_back_from_json():
    result = counted(visits(), columns="night", keys=[True, False])
    again = CountResult.from_json(result.to_json())
    assert again.keys == result.keys
    assert type(again.keys[0][0]) is bool


def test_truth_values_of_a_list():
    result = counted([True, None, False], keys=np.array([False]))
    assert result.counts == pytest.approx([1, 1, 1], abs=0.1)


def test_truth_values_of_public_rows():
    table = visits()
    result = counted(table, columns="night", x_pub=table[:50].copy())
    assert names_of(result)[:2] == [False, True]


def test_a_date_counts_all_moments_of_its_day():
    table = visits()
    result = counted(table, columns="admitted", keys=DAYS)
    truth = [(table["admitted"].dt.date == day).sum() for day in DAYS]
    assert result.counts[:3] == pytest.approx(truth, abs=0.1)
    assert result.counts[3] == pytest.approx(len(table) - sum(truth), abs=0.1)


def test_a_date_is_named_as_in_iso_8601():
    result = counted(visits(), columns="admitted", keys=DAYS)
    assert names_of(result)[0] == "2024-01-31"
    assert result[DAYS[0]] == result.counts[0]
    assert result["2024-01-31"] == result.counts[0]
    assert result.ratio(DAYS[0], DAYS[1]).first == "2024-01-31"


def test_dates_of_public_rows_ascend():
    public = pd.DataFrame({"admitted": pd.to_datetime(DAYS)})
    result = counted(visits(), columns="admitted", x_pub=public)
    assert names_of(result)[:3] == ["2023-12-31", "2024-01-31", "2024-02-01"]


@pytest.mark.parametrize("frequency", ["M", "Q", "Y"])
def test_periods_are_those_of_pandas(frequency):
    table = visits()
    periods = table["admitted"].dt.to_period(frequency)
    keys = sorted(periods.unique())
    result = counted(table, columns="admitted", keys=keys)
    truth = [(periods == key).sum() for key in keys]
    assert result.counts[:-2] == pytest.approx(truth, abs=0.1)
    assert result[keys[0]] == result[str(keys[0])]


@pytest.mark.parametrize("frequency", ["M", "Q", "Y"])
def test_an_index_of_periods_is_a_list_of_keys(frequency):
    periods = visits()["admitted"].dt.to_period(frequency)
    index = pd.period_range(periods.min(), periods.max(), freq=frequency)
    result = counted(periods.rename("t"), keys=index)
    assert names_of(result)[: len(index)] == [str(period) for period in index]


@pytest.mark.parametrize("closed", ["left", "right"])
def test_intervals_are_those_of_pandas_with_gaps_and_infinite_ends(closed):
    ends = [(-math.inf, 18), (18, 40), (45, 60.5), (70, math.inf)]
    keys = [pd.Interval(*pair, closed=closed) for pair in ends]
    numbers = np.array([-1e300, 18.0, 17.99, 40.0, 42.0, 45.0, 60.5, 61.0, 70.0, 1e300, np.nan])
    result = counted(numbers, keys=keys)
    truth = [sum(number in key for number in numbers[:-1]) for key in keys]
    assert result.counts == pytest.approx([*truth, 10 - sum(truth), 1], abs=0.05)
    assert result[pd.Interval(18.0, 40.0, closed=closed)] == result.counts[1]
    assert result.keys[2] == (("[45, 60.5)" if closed == "left" else "(45, 60.5]"),)


# ---- bins ------------------------------------------------------------------------------------------------------------
def test_bins_hold_their_lower_edges():
    around = [np.nextafter(edge, side) for edge in EDGES for side in (-math.inf, math.inf)]
    numbers = np.array([*EDGES, *around, -1e308, 1e308, np.nan, math.inf, -math.inf])
    result = counted(numbers, bins=EDGES)
    assert names_of(result) == [*EDGE_NAMES, "(missing)"]
    assert result.counts == pytest.approx([2, 3, 3, 3, 3], abs=0.05)
    assert result["45 or more"] == result.counts[3]


def test_an_edge_of_negative_zero_is_zero():
    numbers = np.array([0.0, -0.0, -5e-324, 5e-324])
    result = counted(numbers, bins=[-0.0])
    assert names_of(result) == ["below 0", "0 or more", "(missing)"]
    assert result.counts == pytest.approx([1, 3, 0], abs=0.05)


def test_planted_fault_upper_edges_are_seen():
    def lower(self, column):
        return numbers_between(dataclasses.replace(self, right=True), column)

    numbers_between = key_lists.NumbersBetween.__call__
    with mock.patch.object(key_lists.NumbersBetween, "__call__", lower):
        raises(AssertionError, None, test_bins_hold_their_lower_edges)


def test_planted_fault_days_of_another_clock_are_seen():
    days_of_datetimes = tables.days_of_datetimes

    def shifted(values):
        return days_of_datetimes(values + np.timedelta64(9, "h"))

    with mock.patch.object(tables, "days_of_datetimes", shifted):
        raises(AssertionError, None, test_a_date_counts_all_moments_of_its_day)


def test_bins_of_a_histogram_hold_their_lower_ends_too():
    rows = np.repeat([7.0, 7.25], [3000, 1000])
    budget = ApproxDP(1, 1e-6)
    bins = stable_histogram(
        rows, bins=BinGrid(width=0.25), budget=budget, threads=1, progress=False
    )[0]
    assert bins.lower[:, 0].tolist() == [7.0, 7.25]
    assert bins.counts == pytest.approx([3000, 1000], abs=100)


@pytest.mark.parametrize(
    ("edges", "truth"),
    [
        ([0.1, 0.2, 0.3], [0, 1, 1, 1]),
        ([0.1, 1e300], [0, 3, 0]),
    ],
)
def test_an_edge_of_single_precision_is_the_nearest_one(edges, truth):
    singles = np.array([0.1, 0.2, 0.3], dtype=np.float32)
    result = counted(singles, bins=edges)
    assert result.counts[:-1] == pytest.approx(truth, abs=0.05)


ROUND = [
    ([18, 30, 71], 10, ["below 10", *(f"[{k}, {k + 10})" for k in range(10, 80, 10)), "80 or more"]),
    ([0, 9], 10, ["below 0", *(f"[{k}, {k + 1})" for k in range(10)), "10 or more"]),
    ([0, 24.9], 10, ["below 0", *(f"[{a / 2:g}, {a / 2 + 2.5:g})" for a in range(0, 50, 5)), "25 or more"]),
    ([0, 90], 2, ["below 0", "[0, 50)", "[50, 100)", "100 or more"]),
    ([-0.03, 0.011], 3, ["below -0.04", "[-0.04, -0.02)", "[-0.02, 0)", "[0, 0.02)", "0.02 or more"]),
]  # fmt: skip


@pytest.mark.parametrize(("public", "number", "names"), ROUND)
def test_a_number_of_bins_holds_the_public_values_in_round_steps(public, number, names):
    result = counted(np.zeros(5), bins=number, x_pub=np.array(public, dtype=float))
    assert [key for (key,) in result.keys] == [*names, "(missing)"]


def test_steps_are_the_least_that_fit():
    rng = np.random.default_rng(0)
    steps = sorted(factor * 10.0**power for power in range(-8, 9) for factor in (1, 2, 2.5, 5))
    for _ in range(200):
        scale = 10.0 ** rng.integers(-6, 7)
        public = rng.normal(rng.normal(0.0, 10.0), 1.0, 9) * scale
        number = int(rng.integers(2, 30))
        result = counted(np.zeros(2), ZCDP(1), bins=number, x_pub=public)
        edges = [float(key[1:].split(",")[0]) for (key,) in result.keys[1:-2]]
        edges.append(float(result.keys[-2][0].split()[0]))
        assert edges[0] <= public.min() < edges[0] + (edges[1] - edges[0])
        assert edges[-2] <= public.max() < edges[-1]
        assert len(edges) - 1 <= number
        width = np.mean(np.diff(edges))
        smaller = max(step for step in steps if step < width * (1.0 - 1e-9))
        assert np.floor(public.max() / smaller) - np.floor(public.min() / smaller) >= number


def test_bins_beside_columns_and_groups_are_those_of_pandas():
    table = visits()
    binned = pd.cut(table["age"], [-math.inf, *EDGES, math.inf], right=False)
    codes = binned.cat.codes.to_numpy()
    wards = ["north", "south"]
    crossed = counted(table, columns=["ward", "age"], keys={"ward": wards}, bins={"age": EDGES})
    grouped = counted(table, columns="age", bins=EDGES, by="ward", groups=wards)
    truth = []
    for ward in (*wards, "elsewhere"):
        of_ward = codes[table["ward"] == ward]
        truth.append([np.sum(of_ward == code) for code in (0, 1, 2, 3, -1)])
    np.testing.assert_allclose(crossed.to_table()[:3], truth, atol=0.1)
    np.testing.assert_allclose(grouped.to_table()[:3], truth, atol=0.1)


def test_bins_of_public_rows_stand_beside_another_column():
    table = visits()
    public = table[["age", "night"]].dropna()[:40]
    both = counted(table, columns=["age", "night"], bins={"age": 5}, x_pub=public)
    assert both.by == ("age", "night")
    assert both.counts.sum() == pytest.approx(len(table))


SOURCES = {
    "frame": lambda table, folder: table,
    "polars": lambda table, folder: pl.from_pandas(table),
    "Arrow": lambda table, folder: pa.Table.from_pandas(table),
    "Parquet": lambda table, folder: (
        table.to_parquet(folder / "v.parquet") or str(folder / "v.parquet")
    ),
    "CSV": lambda table, folder: (
        table.assign(night=table["night"] * 1).to_csv(folder / "v.csv", index=False)
        or str(folder / "v.csv")
    ),
}
KINDS = {
    "truth": {"columns": "night", "keys": [True, False]},
    "dates": {"columns": "admitted", "keys": DAYS},
    "periods": {"columns": "admitted", "keys": MONTHS},
    "intervals": {"columns": "age", "keys": AGES},
    "bins": {"columns": "age", "bins": EDGES},
    "bins by dates": {"columns": "age", "bins": EDGES, "by": "admitted", "groups": MONTHS},
    "truth and bins": {
        "columns": ["night", "age"],
        "keys": {"night": [True, False]},
        "bins": {"age": EDGES},
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_bits(kind, source, tmp_path):
    table = visits(800)
    result = seeded(SOURCES[source](table, tmp_path), **KINDS[kind])
    expected = seeded(table, **KINDS[kind])
    assert result.keys == expected.keys
    np.testing.assert_array_equal(result.counts, expected.counts)


# ---- intervals hold the truth ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_intervals_hold_the_truth(kind, budget):
    table = visits(1000)
    truth = counted(table, **KINDS[kind]).counts.round()
    inside = []
    for _ in range(40):
        result = counted(table, BUDGETS[budget], **KINDS[kind])
        inside.append(held(result, truth, level=0.9).mean())
    assert 0.86 <= np.mean(inside) <= 0.995


OPTIONS = {
    "person": {"person": "id", "rows_per_person": 1},
    "rows of persons": {"person": "id", "rows_per_person": 3},
    "multiples": {"round_to": 20},
    "top": {"top": 2},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("more", OPTIONS)
def test_published_counts_stand_beside_every_other_argument(kind, more):
    table = visits(1200)
    exact = counted(table, **KINDS[kind], **OPTIONS[more])
    truth = exact.counts
    inside = []
    for _ in range(20):
        result = counted(table, ZCDP(0.1), **KINDS[kind], **OPTIONS[more])
        assert result.keys == exact.keys
        lower, upper = result.confidence_interval()
        inside.append(np.mean((lower - 0.5 <= truth) & (truth <= upper + 0.5)))
        assert np.all((lower <= result.published) & (result.published <= upper))
    assert np.mean(inside) >= 0.9


def test_a_mean_of_a_person_is_binned_and_a_date_has_none():
    table = visits(900)
    means = table.groupby("id")["age"].mean().to_numpy()
    result = counted(table, columns="age", bins=EDGES, person="id", keep="mean")
    missing = np.isnan(means)
    codes = np.digitize(means[~missing], EDGES)
    truth = [*np.bincount(codes, minlength=4), missing.sum()]
    assert result.counts == pytest.approx(truth, abs=0.1)
    words = "there is no mean of text or dates"
    raises(
        InputError, words, counted, table, columns="admitted", keys=DAYS, person="id", keep="mean"
    )


# The column of groups, the groups, and the group of each row of the table.
GROUPED = {
    "truth": ("night", [True, False], lambda column: column),
    "months": ("admitted", MONTHS, lambda column: column.dt.to_period("M")),
    "days": ("admitted", DAYS[:1], lambda column: column.dt.date),
}


@pytest.mark.parametrize("kind", GROUPED)
def test_groups_of_means_quantiles_and_persons_are_of_every_kind(kind):
    by, groups, cells_of = GROUPED[kind]
    table = visits()[["id", "ward", "night", "admitted", "age"]].dropna()
    public = table[:60].copy()
    public["admitted"] = pd.Timestamp(DAYS[0])
    public["age"] = 30.0 + np.arange(60) % 9
    cells = cells_of(table[by])
    of_groups = {"by": by, "groups": groups, "budget": ZCDP(1e4)}
    of_ages = {"x_pub": public[["age", by]], "columns": ["age"], **of_groups}
    means = estimate_mean(table[["age", by]], **of_ages)
    medians = quantiles(table[["age", by]], q=[0.5], **of_ages)
    persons = count_persons(table, person="id", **of_groups)
    for group in groups:
        rows = table[cells == group]
        assert means[group] == pytest.approx(rows["age"].mean(), abs=1.0)
        assert medians[group].ravel()[0] == pytest.approx(rows["age"].median(), abs=1.0)
        assert persons[group] == pytest.approx(rows["id"].nunique(), abs=1.0)


def test_groups_of_means_are_intervals():
    ages = visits()[["age"]].dropna()
    public = pd.DataFrame({"age": 30.0 + np.arange(60) % 9})
    banded = ages.assign(band=ages["age"])
    x_pub = public.assign(band=public["age"])
    given = {"columns": ["age"], "by": "band", "groups": AGES, "x_pub": x_pub}
    means = estimate_mean(banded, budget=ZCDP(1e4), **given)
    inside = ages["age"][(ages["age"] >= 18) & (ages["age"] < 40)]
    assert means[AGES[0]] == pytest.approx(inside.mean(), abs=0.5)


# ---- privacy ---------------------------------------------------------------------------------------------------------
HOSTILE = [
    (True, "2024-01-31", 25.0),
    (False, "2024-02-01", -math.inf),
    (False, "NaT", math.nan),
    (True, "2024-02-01", math.inf),
    (True, "1677-09-22", 1e308),
    (False, "2023-12-31", -5e-324),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_replay_on_hostile_neighbors_costs_what_keys_cost(kind, budget):
    def release(rows):
        return counted(rows, BUDGETS[budget], **KINDS[kind])

    for night, admitted, age in HOSTILE:
        rows = visits(200)
        other = rows.copy()
        other.loc[7, "night"] = night
        other.loc[7, "admitted"] = np.datetime64(admitted)
        other.loc[7, "age"] = age
        report = record_replay(release, rows, other, budget=BUDGETS[budget])
        assert report.pair_cost <= report.declared_cost <= report.allowance


def test_bins_cost_what_as_many_keys_cost():
    table = visits(500)
    bins = counted(table, ZCDP(0.5), columns="age", bins=EDGES)
    keys = counted(table, ZCDP(0.5), columns="age", keys=[1, 2, 3])
    assert len(bins.counts) == len(keys.counts) == 5
    assert bins.noise_std == keys.noise_std
    assert bins.spent == keys.spent
    assert bins.releases == keys.releases


def test_a_date_of_the_type_of_the_column_and_one_bad_cell_change_no_other_row():
    rows = [moment.isoformat(" ") for moment in visits(300)["admitted"]]
    other = ["unknown", *rows[1:]]
    typed = pd.DataFrame({"t": pd.to_datetime(pd.Series(rows))})
    texts = pd.DataFrame({"t": other})

    def release(rows):
        return counted(rows, ZCDP(0.1), columns="t", keys=DAYS)

    report = record_replay(release, typed, texts, budget=ZCDP(0.1))
    assert report.pair_cost <= report.declared_cost


def test_the_rows_of_persons_do_not_depend_on_the_type_of_a_date_column():
    table = visits(600)
    given = {"columns": "age", "bins": EDGES, "person": "id", "rows_per_person": 1}
    expected = seeded(table, **given).counts
    texts = table["admitted"].dt.strftime("%Y-%m-%dT%H:%M:%S").astype(object)
    dates = pd.Series(table["admitted"].dt.date, dtype=object)
    for column in (texts, dates):
        np.testing.assert_array_equal(
            seeded(table.assign(admitted=column), **given).counts, expected
        )


def test_rows_that_differ_in_their_date_alone_are_chosen_by_it_and_not_by_their_order():
    days = pd.to_datetime(DAYS[:2])
    table = pd.DataFrame({"id": np.repeat(np.arange(400), 2), "same": 0, "admitted": [*days] * 400})
    given = {"columns": "admitted", "keys": DAYS[:1], "person": "id", "rows_per_person": 1}
    result = seeded(table, **given)
    assert 120 < result[DAYS[0]] < 280
    np.testing.assert_array_equal(seeded(table[::-1], **given).counts, result.counts)


def test_levels_of_a_private_categorical_are_no_keys():
    table = visits(300)
    levels = ["north", "south", "elsewhere", "secret ward"]
    table["ward"] = pd.Categorical(table["ward"], categories=levels)
    result = counted(table, columns="ward", keys=["north", "south"])
    plain = counted(table.astype({"ward": object}), columns="ward", keys=["north", "south"])
    assert result.counts == pytest.approx(plain.counts, abs=0.1)
    ledger = Ledger(ZCDP(1))
    for keys in (
        table["ward"].cat.categories.astype("category"),
        table["ward"],
        table["ward"].array,
    ):
        error = raises(
            InputError,
            "must not be a Categorical",
            counted,
            table,
            ZCDP(1),
            columns="ward",
            keys=keys,
            ledger=ledger,
        )
        assert "secret" not in str(error)
    assert not ledger.entries


# ---- months without pandas -------------------------------------------------------------------------------------------
def test_months_and_years_of_numpy_are_periods():
    table = visits()
    months = np.arange("2023-12", "2024-03", dtype="M8[M]")
    result = counted(table, columns="admitted", keys=months)
    truth = table["admitted"].dt.to_period("M").value_counts()
    for month in months:
        assert abs(result[month] - truth[str(month)]) < 1
    years = counted(table, columns="admitted", keys=[np.datetime64("2023"), np.datetime64("2024")])
    assert abs(years["2023"] - (table["admitted"].dt.year == 2023).sum()) < 1


@pytest.mark.parametrize(
    "form", [lambda cells: pd.DataFrame({"t": cells}), lambda cells: pa.table({"t": cells}), list]
)
def test_texts_of_months_are_in_periods_but_are_no_days(form):
    cells = (
        ["2024-01"] * 40 + ["2024-01-31"] * 30 + ["2024-02-01T10:00"] * 20 + ["2024-13", "x"] * 5
    )
    rows = form(cells)
    named = {} if isinstance(rows, list) else {"columns": "t"}
    by_month = counted(rows, keys=[np.datetime64("2024-01"), np.datetime64("2024-02")], **named)
    assert np.round(by_month.counts).tolist() == [70, 20, 0, 10]
    by_day = counted(rows, keys=[datetime.date(2024, 1, 1), datetime.date(2024, 1, 31)], **named)
    assert np.round(by_day.counts).tolist() == [0, 30, 20, 50]


def test_bins_are_the_values_of_a_series_or_an_index():
    table = visits()
    expected = seeded(table, columns="age", bins=EDGES).counts.tolist()
    for bins in (pd.Series(EDGES), pd.Index(EDGES)):
        assert seeded(table, columns="age", bins=bins).counts.tolist() == expected


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({"keys": {"ward": ["north"], "age": [20]}}, "argument"),
        ({"x_pub": PUBLIC}, "public rows"),
        (
            {"keys": {"ward": ["north"]}, "bins": {"age": 5}, "x_pub": PUBLIC},
            "argument and public rows",
        ),
    ],
)
def test_results_say_where_keys_are_from(given, source):
    result = counted(visits(60), columns=["ward", "age"], **given)
    assert dict(result.provenance) == {"keys": source}


# ---- refusals --------------------------------------------------------------------------------------------------------
TOKYO = datetime.timezone(datetime.timedelta(hours=9))
REFUSED = Refusals()
REFUSED.add("edges that ascend", bins=[35, 25])
REFUSED.add("edges that ascend", bins=[25, 25])
REFUSED.add("edges that ascend", bins=[])
REFUSED.add("finite", bins=[25, math.nan])
REFUSED.add("finite", bins=[25, math.inf])
REFUSED.add("bins", bins=True)
REFUSED.add("at least 2", bins=1)
REFUSED.add("at most 1000000", bins=10**9, x_pub=PUBLIC)
REFUSED.add("needs public rows", bins=10)
REFUSED.add("bins", bins=2.5)
REFUSED.add("bins", bins="10")
REFUSED.add("bins", bins=[25, "35"])
REFUSED.add("bins", bins=[True, 3])
REFUSED.add("bins", bins=DAYS)
REFUSED.add("fewer than two values", bins=3, x_pub=PUBLIC[:1])
REFUSED.add("too many", bins=range(2_000_000))
REFUSED.add("no column 'age'", bins=3, x_pub=PUBLIC[["ward"]])
REFUSED.add("keys= or bins=", bins=[25], keys=[1])
REFUSED.add("must map columns", bins={"ward": [25]})
REFUSED.add("not numeric", columns="ward", bins=[25])
REFUSED.add("must map columns", columns=["age", "ward"], bins=[25])
REFUSED.add("of one kind", keys=[True, 0])
REFUSED.add("of one kind", keys=[True, "a"])
REFUSED.add("of one kind", keys=[DAYS[0], "2024-01-31"])
REFUSED.add("of one kind", keys=[DAYS[0], MONTHS[0]])
REFUSED.add("of one kind", keys=[AGES[0], 3])
REFUSED.add("twice", keys=[True, True])
REFUSED.add("holds no dates", keys=DAYS)
REFUSED.add("pass datetime.date", columns="admitted", keys=["2024-01-31"])
REFUSED.add(
    "without a time zone", columns="admitted", keys=[datetime.datetime(2024, 1, 31, tzinfo=TOKYO)]
)
REFUSED.add("without a time zone", columns="admitted", keys=[pd.Timestamp("2024-01-31", tz="UTC")])
REFUSED.add("without a time of day", columns="admitted", keys=[datetime.datetime(2024, 1, 31, 10)])
REFUSED.add("one is none", columns="admitted", keys=[np.datetime64("NaT")])
REFUSED.add("must not hold None", columns="admitted", keys=[pd.NaT])
REFUSED.add("one is none", columns="admitted", keys=[np.datetime64("NaT", "M")])
REFUSED.add("must not hold None", keys=[True, None])
REFUSED.add("must not hold None", keys=[math.nan])
REFUSED.add("and one is a object", keys=[object()])
REFUSED.add("and one is a bytes", keys=[b"north"])
REFUSED.add("number of bins, or a list of edges", bins="auto")
REFUSED.add("number of bins, or a list of edges", bins={20, 30})
REFUSED.add("leave out infinite ones", bins=[-math.inf, 25])
REFUSED.add(
    r"'Ward' is none of them \(did you mean 'ward'\?\)",
    columns=["age", "ward"],
    bins={"Ward": [25]},
)
REFUSED.add("list keys of the kind that the column holds", columns="ward", keys=[1])
REFUSED.add("twice", columns="admitted", keys=[*DAYS, DAYS[0]])
REFUSED.add("not numeric", columns="admitted", keys=[1, 2])
REFUSED.add("for days pass datetime.date", columns="admitted", keys=[pd.Period("2024-01-31")])
REFUSED.add(
    "calendar years, quarters or months", columns="admitted", keys=[pd.Period("2024-01-31", "W")]
)
REFUSED.add(
    "calendar years, quarters or months", columns="admitted", keys=[pd.Period("2024Q1", "Q-NOV")]
)
REFUSED.add("all of one length", columns="admitted", keys=[MONTHS[0], pd.Period("2024")])
REFUSED.add("closed on one side", keys=[pd.Interval(0, 5, closed="both")])
REFUSED.add("closed on one side", keys=[pd.Interval(0, 5, closed="neither")])
REFUSED.add(
    "all on the same", keys=[pd.Interval(0, 5, closed="left"), pd.Interval(5, 9, closed="right")]
)
REFUSED.add(
    "disjoint, ascending", keys=[pd.Interval(0, 5, closed="left"), pd.Interval(4, 9, closed="left")]
)
REFUSED.add("disjoint, ascending", keys=AGES[::-1])
REFUSED.add("not empty", keys=[pd.Interval(5, 5, closed="left")])
REFUSED.add("ends of keys", keys=[pd.Interval(pd.Timestamp(0), pd.Timestamp(1), closed="left")])
REFUSED.add("each once", keys={"age": [1]}, columns=["age", "age"])
REFUSED.add("columns must be", columns=True, keys=[1])
REFUSED.add("columns must be", columns=[], keys=[1])
REFUSED.add("columns must be", columns=["age", 1], keys=[1])


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_wrong_is_refused_in_words_before_the_debit(given, words):
    ledger = Ledger(ZCDP(1))
    table = visits(60)
    error = raises(
        InputError, words, counted, table, ZCDP(1), **{"columns": "age", "ledger": ledger, **given}
    )
    assert not ledger.entries
    for cell in {*table["age"].dropna().astype(int).astype(str)}:
        assert f" {cell}.0" not in str(error)


def test_pandas_is_not_imported_for_other_keys():
    code = (
        "import sys, datetime, fastpubpriv as f\n"
        "q = {'budget': f.ZCDP(1), 'threads': 1, 'progress': False}\n"
        "f.value_counts([True, False] * 9, keys=[True, False], **q)[True]\n"
        "f.value_counts([1.0, 2.0] * 9, bins=[1.5], **q)\n"
        "r = f.value_counts([datetime.date(2024, 1, 31)] * 9, keys=[datetime.date(2024, 1, 31)], **q)\n"
        "r[datetime.date(2024, 1, 31)]\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- columns without a table -----------------------------------------------------------------------------------------
LINES = {
    "list": list,
    "tuple": tuple,
    "objects": lambda cells: np.array(cells, dtype=object),
    "Arrow": pa.array,
    "Series": pd.Series,
    "polars": pl.Series,
}


@pytest.mark.parametrize("keys", [DAYS[:1], MONTHS[:1]], ids=["days", "months"])
@pytest.mark.parametrize("form", LINES)
def test_lists_of_dates_are_one_column(form, keys):
    dates = LINES[form]([DAYS[0], DAYS[1], DAYS[0], None])
    assert counted(dates, keys=keys).counts == pytest.approx([2, 1, 1], abs=0.05)


@pytest.mark.parametrize("form", LINES)
def test_keys_are_lists_of_every_form(form):
    dates = LINES[form]([DAYS[0], DAYS[1], DAYS[0], None])
    assert names_of(counted(dates, keys=LINES[form](DAYS[:1])))[0] == "2024-01-31"


@pytest.mark.parametrize("form", LINES)
def test_lists_of_truth_values_are_one_column(form):
    truths = LINES[form]([True, False, True, None])
    assert counted(truths, keys=[True]).counts == pytest.approx([2, 1, 1], abs=0.05)


def test_bytes_of_numpy_are_texts():
    cells = np.array([b"north"] * 5 + [b"s\xc3\xbcd", b"\xff", b""])
    result = counted(cells, keys=np.array([b"north", "süd".encode()]))
    assert result.keys[:2] == (("north",), ("süd",))
    assert result.counts == pytest.approx([5, 1, 1, 1], abs=0.05)
    assert counted(cells, ApproxDP(100, 1e-3))["north"] == pytest.approx(5, abs=2)


def test_describe_takes_keys_of_every_kind():
    table = visits()[["night", "admitted", "age"]]
    public = table.dropna()[:50].copy()
    keys = {"admitted": MONTHS, "night": [True, False]}
    result = describe(table, x_pub=public, keys=keys, budget=ZCDP(100))
    truth = (table["admitted"].dt.to_period("M") == MONTHS[0]).sum()
    assert result.top("admitted")[MONTHS[0]] == pytest.approx(truth, abs=3)
    assert result.top("night")[True] == pytest.approx(table["night"].sum(), abs=3)


def test_pairs_of_kinds_make_joint_keys():
    table = visits(500)
    every = [("night", [True, False]), ("admitted", DAYS), ("age", AGES), ("ward", ["north"])]
    for (first, a), (second, b) in itertools.combinations(every, 2):
        result = counted(table, columns=[first, second], keys={first: a, second: b})
        assert result.to_table().shape == (len(a) + 2, len(b) + 2)
        assert result.counts.sum() == pytest.approx(len(table))
        assert result[a[0], b[0]] == result.counts[0]
