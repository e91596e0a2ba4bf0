"""`value_counts`: exact counts, every source of text, intervals and ranks, neighbors; sums of means."""

from fractions import Fraction
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
    CountResult,
    Ledger,
    PureDP,
    estimate_mean,
    value_counts,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError, InputError, ReplayError
from fastpubpriv.estimators import value_counts as module
from fastpubpriv.mechanisms import cells
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.tables import TextColumns, TextsOrOther, TextWord, text_of_words

EXACT = ZCDP(1e6)  # as good as no noise
BUDGETS = {"zcdp": ZCDP(0.1), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
WARDS = ["north", "south", "ward 3"]
CELLS = [
    "a",
    " UA ",
    "N14228",
    "",
    None,
    "üüü",
    "x" * 24,
    "x" * 25,
    "nul\0x",
    'say "hi"',
    "日本語テキスト",
    " b",
    "\t",
]
WORDS = [
    "a",
    "UA",
    "N14228",
    None,
    None,
    "üüü",
    "x" * 24,
    None,
    None,
    'say "hi"',
    "日本語テキスト",
    "b",
    None,
]
PLACES = [2.0, 0.0, 2.0, None, None, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, None]


def counted(rows, budget=EXACT, **options):
    return value_counts(rows, budget=budget, threads=1, progress=False, **options)


def visits(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    wards = np.array(["north", " south", "ward 3", "elsewhere", None], dtype=object)
    return pd.DataFrame(
        {
            "ward": pd.Series(rng.choice(wards, n, p=[0.5, 0.2, 0.1, 0.15, 0.05]), dtype=object),
            "night": rng.choice([0.0, 1.0, 7.0, np.nan], n),
        }
    )


# ---- cells of text --------------------------------------------------------------------------------------------------
def sources(folder, cells):
    frame = pd.DataFrame({"t": cells})
    frame.to_parquet(folder / "t.parquet")
    yield "objects", frame
    yield "categories", frame.astype("category")
    yield "pandas over Arrow", frame.astype(pd.ArrowDtype(pa.string()))
    yield "Arrow", pa.table({"t": cells})
    yield "dictionary", pa.table({"t": pa.array(cells).dictionary_encode()})
    yield "slice", pa.table({"t": ["first", *cells]}).slice(1)
    yield "polars", pl.DataFrame({"t": cells})
    yield "Parquet", str(folder / "t.parquet")


def column(source, rule):
    rows = private_rows(source, columns=TextColumns(["t"], {"t": rule}))
    return np.concatenate(list(rows.chunks()))[:, 0]


def words_of(source):
    words = np.stack([column(source, TextWord(first, 24)) for first in range(0, 24, 6)], axis=1)
    return [None if np.isnan(line).any() else text_of_words(line) for line in words]


def test_every_source_reads_the_same_words_and_places(tmp_path):
    for name, source in sources(tmp_path, CELLS):
        assert words_of(source) == WORDS, name
        places = column(source, TextsOrOther(("UA", "b")))
        assert [None if np.isnan(place) else place for place in places] == PLACES, name


def test_text_files_and_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "t.csv"
    lines = [
        b"t",
        b"a",
        b" UA ",
        b'"say ""hi"""',
        b"",
        b"caf\xe9",
        b"nul\0x",
        "日本語".encode(),
        b"b",
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert words_of(str(path)) == ["a", "UA", 'say "hi"', None, None, None, "日本語", "b"]
    places = column(str(path), TextsOrOther(('say "hi"', "b")))
    assert np.array_equal(places, [2, 2, 0, np.nan, 2, 2, 2, 1], equal_nan=True)


def test_half_a_character_and_numbers_are_no_text():
    lone = pd.DataFrame({"t": ["\ud800", "a", 5, 1.5]}, dtype=object)
    assert words_of(lone) == [None, "a", None, None]


# ---- exact counts ---------------------------------------------------------------------------------------------------
def test_without_noise_counts_are_exact_and_add_up():
    table = visits()
    result = counted(table, columns="ward", keys=WARDS)
    wards = table["ward"].str.strip().value_counts()
    missing = table["ward"].isna().sum()
    truth = [*wards[list(WARDS)], wards["elsewhere"], missing]
    assert result.counts == pytest.approx(truth, abs=0.05)
    assert result.counts.sum() == pytest.approx(len(table))


def test_without_noise_counts_of_numbers_are_exact():
    nights = visits()["night"]
    result = counted(nights.astype(np.float32), keys=[7, 0.0])
    of_number = nights.value_counts()
    truth = [of_number[7.0], of_number[0.0], of_number[1.0], nights.isna().sum()]
    assert result.counts == pytest.approx(truth, abs=0.05)


def test_a_key_is_found_in_single_precision():
    singles = np.array([0.1, 0.1, np.inf], dtype=np.float32)
    result = counted(singles, keys=[0.1])
    assert result[0.1] == pytest.approx(2.0, abs=0.05)


def test_counts_of_two_columns_are_those_of_the_rows_and_keys_may_come_from_public_ones():
    table = visits()
    night = {"night": [1, 0]}
    result = counted(table, columns=["ward", "night"], keys={"ward": WARDS, **night})
    assert result.levels == ((*WARDS, "(other)", "(missing)"), (1.0, 0.0, "(other)", "(missing)"))
    wards = table["ward"].str.strip()
    nights = table["night"]
    in_ward = np.array([*(wards == name for name in WARDS), wards == "elsewhere", wards.isna()])
    in_night = np.array([nights == 1, nights == 0, nights == 7, nights.isna()])
    truth = in_ward.astype(int) @ in_night.astype(int).T
    assert result.to_table() == pytest.approx(truth, abs=0.05)
    public = pd.DataFrame({"ward": WARDS, "night": [1.0, 0.0, 0.0]})
    other = counted(table, columns=["ward", "night"], x_pub=public)
    assert other["ward 3", 1.0] == pytest.approx(result["ward 3", 1.0], abs=0.1)


def test_keys_of_public_rows_are_sorted():
    table = visits()
    public = pd.DataFrame({"ward": ["south ", "north", "north"]})
    texts = counted(table, columns="ward", x_pub=public)
    assert texts.keys[:2] == (("north",), ("south",))
    numbers = counted(table["night"], x_pub=np.array([[1.0], [0.0]]))
    assert numbers.keys[:2] == ((0.0,), (1.0,))


def test_texts_that_nobody_listed():
    table = visits(20_000)
    table.loc[:4, "ward"] = ["a", "b", "c" * 40, "d", "e"]
    result = counted(table, ApproxDP(1, 1e-8), columns="ward")
    assert result.keys == (("elsewhere",), ("north",), ("south",), ("ward 3",))
    truth = table["ward"].str.strip().value_counts()
    assert result.counts == pytest.approx([truth[key] for (key,) in result.keys], abs=60.0)
    assert result.threshold > 20.0
    assert "Hidden" in result.summary()
    short = counted(table, ApproxDP(1, 1e-8), columns="ward", max_bytes=5)
    assert short.keys == (("north",), ("south",))


# ---- intervals, ranks, forms ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("budget", BUDGETS)
def test_intervals_hold_and_ranks_are_right(budget):
    rng = np.random.default_rng(3)
    alone = []
    together = []
    ranked = []
    rows = rng.choice(20, 5000, p=np.arange(1, 21) / 210.0).astype(float)
    truth = np.bincount(rows.astype(int), minlength=22)
    order = 20 - np.argsort(np.argsort(truth[:20], kind="stable"))
    for _ in range(40):
        result = counted(rows, BUDGETS[budget], keys=range(20))
        alone.append(held(result, truth, level=0.9).mean())
        together.append(held(result, truth, level=0.9, simultaneous=True).all())
        first, last = result.rank_interval(0.9)
        ranked.append(np.all((first[:20] <= order) & (order <= last[:20])))
        assert first[20:].tolist() == last[20:].tolist() == [0, 0]
    # ends are whole numbers further out, of noise of 3 rows
    assert 0.87 <= np.mean(alone) <= (0.97 if budget != "pure" else 0.98)
    assert np.mean(together) >= 0.8
    assert np.mean(ranked) >= 0.8


def test_tables_plots_and_json():
    result = counted(visits(), ZCDP(1), columns="ward", keys=[*WARDS, "attic"], top=2)
    frame = result.to_frame()
    assert list(frame.index) == ["north", "south"]
    assert frame["rank_from"].tolist() == frame["rank_to"].tolist() == [1, 2]
    assert dict(zip(result.keys, result.part_reasons, strict=True))["attic",] == ("few_rows",)
    raises(
        InputError,
        "'keys' must not hold null",
        CountResult.from_json,
        result.to_json().replace('"north"', "null"),
    )
    whole = counted(
        visits(),
        ZCDP(1),
        columns=["ward", "night"],
        keys={"ward": WARDS, "night": [0]},
    )
    assert whole.to_frame().index.names == ["ward", "night"]
    assert whole.to_frame().shape == (15, 8)
    figure = whole.plot()
    assert len(figure.axes[0].patches) == 15


def test_the_sum_of_a_mean_holds_the_sum():
    rng = np.random.default_rng(5)
    rows = rng.normal([50.0, -3.0], [9.0, 1.0], size=(8000, 2))
    rows[:800, 0] = np.nan
    result = estimate_mean(
        rows, x_pub=np.array([[55.0, -2.0]]), budget=ZCDP(0.5), threads=1, progress=False
    )
    total, lower, upper = result.sum()
    truth = np.nansum(rows, axis=0)
    assert np.all((lower <= truth) & (truth <= upper))
    assert np.abs(total / truth - 1.0).max() < 0.02
    assert total[0] == pytest.approx(result.mean[0] * (8000 - result.report.missing[0]))


# ---- refusals and privacy -------------------------------------------------------------------------------------------
REFUSED = Refusals()
REFUSED.add("list of texts", InputError, keys="north")
REFUSED.add("at least one", InputError, keys=[])
REFUSED.add("of one kind", InputError, keys=["a", 1])
REFUSED.add("twice", InputError, keys=["a", " a"])
REFUSED.add("stand for", InputError, keys=["(other)"])
REFUSED.add("keys", InputError, keys=[1, np.nan])
REFUSED.add("ward", InputError, keys=[0, 1])
REFUSED.add("no column", InputError, keys=["a"], columns="no")
REFUSED.add("too many", InputError, keys=range(2_000_000), columns="night")
REFUSED.add("top", InputError, keys=["a"], top=0)
REFUSED.add("delta", BudgetError)
REFUSED.add("max_bytes", InputError, budget=ApproxDP(1, 1e-6), max_bytes=10_000)


@pytest.mark.parametrize(("kind", "given", "words"), REFUSED, ids=lambda each: str(each)[:40])
def test_refusals_cost_nothing(given, kind, words):
    ledger = Ledger(ZCDP(1) if "budget" not in given else ApproxDP(2, 1e-5))
    table = visits(50).astype({"ward": "str"})
    asked = {"columns": "ward", "budget": ZCDP(1), "ledger": ledger, **given}
    raises(kind, words, value_counts, table, **asked)
    assert not ledger.entries


def test_columns_of_arrays_are_named_by_number():
    rows = np.random.default_rng(0).integers(0, 3, (3000, 3)).astype(float)
    found = counted(rows, ZCDP(100), columns=-1, keys=[0, 1, 2]).counts
    np.testing.assert_allclose(found[:3], np.bincount(rows[:, 2].astype(int)), atol=1.0)
    of_public = counted(rows, ZCDP(1), columns=2, x_pub=rows[:9].copy())
    assert of_public.keys[2] == (2.0,)
    both = counted(rows, ZCDP(100), columns=[2, 0], keys={2: [1], 0: [0, 2]})
    assert both.by == ("x2", "x0")
    assert both.keys[1] == (1.0, 2.0)
    truth = np.sum((rows[:, 2] == 1) & (rows[:, 0] == 2))
    assert abs(both[1.0, 2.0] - truth) < 2.0
    for wrong in (3, "ward"):
        raises(
            InputError,
            "list of their numbers, each once, from 0 to 2",
            counted,
            rows,
            ZCDP(1),
            columns=wrong,
            keys=[0],
        )


def test_a_column_must_be_named_and_needs_keys():
    raises(InputError, "columns=", counted, np.zeros((5, 2)), keys=[0])
    words = "values of column 'night': list them in keys="
    raises(InputError, words, counted, visits(50), columns=["night", "ward"])
    raises(InputError, "text is read from frames", counted, np.zeros(5), keys=["a"])


HOSTILE = [
    ("north", 1.0),
    ("", np.nan),
    (None, np.inf),
    ("x" * 999, 1e308),
    ("\ud800", -0.0),
    ("(other)", 5e-324),
    (" south\t", 0.0),
    ("nul\0", -np.inf),
]
CROSSED = {
    "columns": ["ward", "night"],
    "keys": {"ward": WARDS, "night": [0, 1]},
}
RUNS = {
    **{
        f"counts, {name}": (budget, {"columns": "ward", "keys": WARDS})
        for name, budget in BUDGETS.items()
    },
    **{f"two columns, {name}": (budget, CROSSED) for name, budget in BUDGETS.items()},
    "texts": (ApproxDP(1, 1e-6), {"columns": "ward"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_replay_on_hostile_neighbors(name):
    budget, given = RUNS[name]
    for ward, night in HOSTILE:
        rows = visits(300)
        other = visits(300)
        other.loc[7, "ward"] = ward
        other.loc[7, "night"] = night
        report = record_replay(lambda x: counted(x, budget, **given), rows, other, budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance


def replayed(budget=BUDGETS["zcdp"]):
    rows = visits(300)
    other = visits(300)
    rows.loc[7, "ward"] = "north"
    other.loc[7, "ward"] = "ward 3"
    return record_replay(
        lambda x: counted(x, budget, columns="ward", keys=WARDS), rows, other, budget=budget
    )


def test_a_moved_row_takes_the_whole_cost_and_planted_faults_are_caught():
    report = replayed()
    assert report.tightness == 1.0
    assert report.declared_cost >= report.allowance * Fraction(99, 100)
    answer = cells.CodeQuery.answer
    with mock.patch.object(
        cells.CodeQuery, "answer", lambda self, counts: 2 * answer(self, counts)
    ):
        raises(ReplayError, None, replayed)

    code_of = module.code_of

    def overlapping(keys, **form):  # planted: a row that is counted twice
        return lambda chunk: [np.repeat(code_of(keys)(chunk)[0], 2)]

    with mock.patch.object(module, "code_of", overlapping):
        raises(ReplayError, None, replayed)


# ---- columns without a table ----------------------------------------------------------------------------------------
TEXTS = ["north"] * 50 + [" south"] * 30 + [None] * 5 + ["x"] * 3
COLUMNS = {
    "Series": pd.Series(TEXTS),
    "polars": pl.Series(TEXTS),
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "objects": np.array(TEXTS, dtype=object),
    "NumPy text": np.array([cell or "" for cell in TEXTS]),
    "NumPy strings": np.array([cell or "" for cell in TEXTS], dtype=np.dtypes.StringDType()),
    "Arrow": pa.array(TEXTS),
    "Arrow chunks": pa.chunked_array([TEXTS[:7], TEXTS[7:]]),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
}
KEYS = [
    {"keys": ["north", "south"]},
    {"keys": np.array(["north", "south"])},
    {"x_pub": ["south", "north"]},
    {"x_pub": pd.Series(["south", "north"])},
    {"x_pub": pa.array(["south", "north"])},
]


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(
    "keys", KEYS, ids=["list", "array", "public list", "public Series", "public Arrow"]
)
def test_texts_are_counted_without_a_table(kind, keys):
    result = counted(COLUMNS[kind], **keys)
    assert result.keys == (("north",), ("south",), ("(other)",), ("(missing)",))
    assert result.counts == pytest.approx([50, 30, 3, 5], abs=0.05)
    unknown = counted(COLUMNS[kind], ApproxDP(100, 1e-3))
    assert [unknown["north"], unknown["south"]] == pytest.approx([50, 30], abs=2)


@pytest.mark.parametrize(
    "make", [pd.Series, pl.Series, list, pa.array, lambda cells: np.array(cells, dtype=object)]
)
def test_truth_values_are_keys(make):
    result = counted(make([True, False, True, None, True]), keys=[True, False])
    assert result[True] == pytest.approx(3, abs=0.05)
    assert result[False] == pytest.approx(1, abs=0.05)
    assert result["(missing)"] == pytest.approx(1, abs=0.05)


def test_one_text_among_numbers_is_another_value():
    cells = np.array([1.0] * 20 + [2.0] * 9 + ["x"], dtype=object)
    by_number = counted(cells, keys=[1, 2])
    assert by_number.counts == pytest.approx([20, 9, 0, 1], abs=0.05)
    by_text = counted(cells, keys=["x"])
    assert by_text.counts == pytest.approx([1, 0, 29], abs=0.05)
    raises(
        InputError, "paths|parquet", counted, ["a.parquet", "b.parquet"], keys=["x"], columns="ward"
    )
