"""Texts of conditions and new columns: row by row the same bits, nothing raised for a value, all other texts refused."""

import datetime
import math
import pickle

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pytest
from twins import elementary as twin

from fastpubpriv import InputError
from fastpubpriv.rowwise.expressions import row_program
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.derived import GIVEN, DerivedRows
from fastpubpriv.sources.tables import TextColumns, TextsOrOther

HOSTILE = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1e308, -1e308, 1.7976931348623157e308, 0.5, 1.5, 2.5,
     -0.5, 1.0, -1.0, 3.0, 18.0, 40.0, 2.0**53, 1e-300, 0.1, -7.25]
)  # fmt: skip


# ---- A derived row is a function of one row --------------------------------------------------------------------------


def number(rng, depth):
    """A random text that is a number."""
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(["a", "b", "c", "2.5", "0", "1e300", "-3", "True"]))
    one, other = number(rng, depth - 1), number(rng, depth - 1)
    kind = rng.integers(6)
    if kind == 0:
        return f"({one} {rng.choice(list('+-*/'))} {other})"
    if kind == 1:
        return f"({one}) ** {rng.integers(2, 5)}"
    if kind == 2:
        return f"{rng.choice(['abs', 'sqrt', 'floor', 'ceil', 'round', 'log', 'exp'])}({one})"
    if kind == 3:
        return f"{rng.choice(['min', 'max'])}({one}, {other})"
    if kind == 4:
        return f"({one} if {truth(rng, depth - 1)} else {other})"
    return f"-({one})"


def truth(rng, depth):
    """A random text that is a condition."""
    one, other = number(rng, depth), number(rng, max(depth - 1, 0))
    kind = rng.integers(5) if depth else 0
    if kind == 0:
        return f"({one} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {other})"
    if kind == 1:
        return f"({truth(rng, depth - 1)} {rng.choice(['and', 'or'])} {truth(rng, depth - 1)})"
    if kind == 2:
        return f"(not {truth(rng, depth - 1)})"
    if kind == 3:
        return f"({one} in [0, 1, {other}])"
    return f"missing({one})"


def programs(count):
    rng = np.random.default_rng(7)
    while count:
        texts = {"new": f"a + {number(rng, 3)}", "band": f"bin(a - {number(rng, 2)}, -1, 0, 2.5)"}
        condition = f"a == a and {truth(rng, 3)}"
        if max(map(len, [*texts.values(), condition])) < 400:
            count -= 1
            yield row_program([condition], texts)


def columns_of(program, cells):
    size = len(cells["a"])
    inside = np.broadcast_to(program.inside(cells, GIVEN), size)
    new = [np.broadcast_to(program.new_column(name, cells, GIVEN), size) for name in program.names]
    return np.column_stack([inside, *new])


def bits_of(program, cells):
    return columns_of(program, cells).view(np.uint64)


def test_programs_have_the_same_bits_whole_permuted_strided_and_row_by_row():
    rng = np.random.default_rng(1)
    columns = [rng.choice(HOSTILE, 61) for _ in "abc"]
    cells = dict(zip("abc", columns, strict=True))
    order = rng.permutation(61)
    table = np.zeros((122, 5))
    table[::2, 1:4] = np.column_stack(columns)
    strided = {name: table[::2, 1 + j] for j, name in enumerate("abc")}
    with np.errstate(all="raise"):
        for program in programs(200):
            whole = bits_of(program, cells)
            permuted = bits_of(program, {name: cell[order] for name, cell in cells.items()})
            np.testing.assert_array_equal(permuted, whole[order], err_msg=str(program))
            np.testing.assert_array_equal(bits_of(program, strided), whole)
            alone = [
                bits_of(program, {name: cell[i : i + 1] for name, cell in cells.items()})
                for i in range(0, 61, 4)
            ]
            np.testing.assert_array_equal(np.concatenate(alone), whole[::4])


def test_planted_fault_a_step_that_mixes_rows_changes_bits(monkeypatch):
    monkeypatch.setitem(GIVEN, "exp", lambda x: np.exp(x - np.nanmax(x)))
    cells = {"a": np.array([1.0, 2.0, 3.0])}
    program = row_program([], {"new": "exp(a)"})
    whole = program.new_column("new", cells, GIVEN)
    alone = program.new_column("new", {"a": cells["a"][:1]}, GIVEN)
    assert whole[0] != alone[0]


def test_log_and_exp_are_those_of_the_library(monkeypatch):
    x = np.random.default_rng(3).uniform(1e-3, 600.0, 200_000)
    program = row_program([], {"log": "log(x)", "exp": "exp(x)"})
    for name in ("log", "exp"):
        monkeypatch.setattr(np, name, None)
        found = program.new_column(name, {"x": x}, GIVEN)
        monkeypatch.undo()
        np.testing.assert_array_equal(found, getattr(twin, name)(x))
        # Planted: NumPy's own, whose bits depend on the processor, is another function.
        planted = program.new_column(name, {"x": x}, {name: getattr(np, name)})
        assert (planted != found).any()


def test_a_program_is_a_value_that_pickles():
    for program in programs(20):
        assert pickle.loads(pickle.dumps(program)) == program


# ---- What texts mean -------------------------------------------------------------------------------------------------

NAN = math.nan
MEANINGS = [
    ("x + y * 2", [1.0, 2.0], 5.0),
    ("x / y", [1.0, 0.0], math.inf),
    ("x ** 3", [-2.0, 0.0], -8.0),
    ("x ** 2.0", [-3.0, 0.0], 9.0),
    ("round(x)", [2.5, 0.0], 2.0),
    ("min(x, y, 7)", [9.0, 8.0], 7.0),
    ("max(x, y)", [9.0, NAN], NAN),
    ("sqrt(x)", [-1.0, 0.0], NAN),
    ("log(x)", [0.0, 0.0], -math.inf),
    ("(x > 1) + (y > 1)", [2.0, 2.0], 2.0),
    ("x if y > 0 else -x", [3.0, 1.0], 3.0),
    ("x if y > 0 else -x", [3.0, -1.0], -3.0),
    ("x if y > 0 else -x", [3.0, NAN], NAN),
    ("x > 1", [NAN, 0.0], NAN),
    ("x > 1 or y > 1", [NAN, 2.0], 1.0),
    ("x > 1 or y > 1", [NAN, 0.0], NAN),
    ("x > 1 and y > 1", [NAN, 0.0], 0.0),
    ("x > 1 and y > 1", [NAN, 2.0], NAN),
    ("not x > 1", [NAN, 0.0], NAN),
    ("not x > 1", [0.0, 0.0], 1.0),
    ("x != 1", [NAN, 0.0], NAN),
    ("1 < x <= 2 < y", [2.0, 3.0], 1.0),
    ("1 < x <= 2 < y", [3.0, 3.0], 0.0),
    ("x in [1, 2]", [2.0, 0.0], 1.0),
    ("x not in [1, 2]", [2.0, 0.0], 0.0),
    ("x not in [1, 2]", [NAN, 0.0], NAN),
    ("missing(x)", [NAN, 0.0], 1.0),
    ("missing(x)", [math.inf, 0.0], 1.0),
    ("missing(x)", [0.0, 0.0], 0.0),
    ("not x", [0.0, 0.0], 1.0),
    ("x and y", [2.0, NAN], NAN),
    ("+x - -y", [1.0, 2.0], 3.0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "row", "wanted"), MEANINGS)
def test_meaning(text, row, wanted):
    program = row_program([], {"new": text})
    cells = {"x": np.array(row[:1]), "y": np.array(row[1:])}
    np.testing.assert_array_equal(
        np.broadcast_to(program.new_column("new", cells, GIVEN), 1), wanted
    )


def test_a_row_is_inside_only_if_its_condition_is_true():
    program = row_program(["x > 1", "y < 5"], {})
    cells = {"x": np.array([2.0, 2.0, 0.0, NAN]), "y": np.array([0.0, NAN, 0.0, 0.0])}
    assert program.inside(cells, GIVEN).tolist() == [True, False, False, False]
    assert program.about == "(x > 1) and (y < 5)"


def test_bins_are_closed_on_the_left():
    program = row_program([], {"band": "bin(x, 18, 40.5, 65)"})
    assert program.bins_of("band").labels == ("[18, 40.5)", "[40.5, 65)")
    x = np.array([17.9, 18.0, 40.5, 64.9, 65.0, np.inf, -np.inf, NAN])
    places = program.new_column("band", {"x": x}, GIVEN)
    np.testing.assert_array_equal(places, [2, 0, 1, 1, 2, NAN, NAN, NAN])


def test_parts_of_dates_are_those_of_pandas():
    days = pd.date_range("1899-12-25", "2101-01-05", freq="17D")
    texts = {part: f"{part}(at)" for part in ("year", "quarter", "month", "day", "weekday")}
    table = pd.DataFrame({"at": [*days, pd.NaT]})
    rows = private_rows(DerivedRows(table, with_columns=texts), columns=list(texts))
    found = np.concatenate(list(rows.chunks()))
    for j, part in enumerate(texts):
        name = "day_of_week" if part == "weekday" else part
        np.testing.assert_array_equal(found[:-1, j], getattr(days, name))
    assert np.isnan(found[-1]).all()


def test_new_columns_may_name_those_before_them():
    program = row_program(["bmi > 30"], {"bmi": "kg / m ** 2", "over": "bmi - 30"})
    cells = {"kg": np.array([96.0]), "m": np.array([1.6])}
    assert program.new_column("over", cells, GIVEN)[0] == pytest.approx(7.5)
    assert program.inside(cells, GIVEN)[0]
    assert {each.name for each in program.columns} == {"kg", "m"}


REFUSED = [
    "", "   ", "age + 1", "1", "True", "'f'", "cumsum(age) > 1", "age.mean() > 1", "age[0] > 1", "lambda: 1", "age & sex",
    "age | sex", "~age", "age % 2 == 0", "age // 2 == 0", "age ** age > 1", "age ** 5 > 1", "2 ** -1 > age", "sex < 'f'",
    "sex == ''", "sex == ' f'", "sex + 'f' == 'g'", "'a' == 'b'", "age > 3 and age + 1", "age = 3", "age is None", "age == None",
    "(x := 3) > 2", "[age]", "age in other", "age in []", "age in 'abc'", "age > 1e400", "age > 10 ** 10", "age > 1j", "age > b'1'",
    "min(age) > 1", "round(age, 2) > 1", "bin(age, 1, 2)", "bin(age, 1, 2) == '[1, 2)'", "month('a') > 1", "month(3) > 1",
    "year(age) > 2000 and age > 3", "sex == 'f' and sex > 3", "f'{age}' == 'a'", "*age", "age if age", "await age", "(yield)",
    "admitted >= '2024-02-31'", "a" * 30_000 + " > 1", "(" * 300 + "age" + ")" * 300, "not " * 300 + "age > 0",
    "+".join(["age"] * 400) + " > 1", "-" * 200 + "age > 1", "age > \x00", "sex == '\ud800'", "age >\n3 and", "sex in ['f', 3]",
    "max(*age) > 1", "min(age, key=b) > 1", "col(age) > 1", "col('a', 'b') > 1", "col(3) > 1", "age @ b > 1",
    "__import__('os') > 1", "age > (1, 2)", "{age} == 1", "... > age", "sex == city and sex == 'f'", "sex == '\\n'",
    "9" * 5_000 + " > age",
    "age > 3; import os", "print(age) > 1", "sum([age]) > 1", "[x for x in age] == 1",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:30]))
def test_other_texts_are_refused_in_words_before_anything_is_opened(text):
    class Unopened:
        def __getattr__(self, name):
            raise AssertionError("opened")

    with pytest.raises(InputError) as refusal:
        DerivedRows(Unopened(), where=(text,))
    assert f"where={text!r:.200}" in str(refusal.value)
    assert refusal.value.__cause__ is None


REFUSED_COLUMNS = [
    ("band", "bin(x)"), ("band", "bin(x, 1)"), ("band", "bin(x, 2, 1)"), ("band", "bin(x, 1, 1)"), ("band", "bin(x, 1, y)"),
    ("band", "bin(x, 1, 1e400)"), ("band", "bin('f', 1, 2)"), ("new", "sex == 'f' if 1 else 2"), ("new", "3"), ("new", "'a'"),
    ("", "x"), ("new", 3), ("new", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), REFUSED_COLUMNS)
def test_other_new_columns_are_refused(name, text):
    with pytest.raises(InputError):
        row_program([], {name: text})


def test_columns_that_name_each_other_stay_small():
    texts = {"c0": "x + x"} | {f"c{k}": f"c{k - 1} + c{k - 1}" for k in range(1, 30)}
    with pytest.raises(InputError, match="at most 500 steps"):
        row_program([], texts)


# ---- Every source, whatever the chunk --------------------------------------------------------------------------------


def table_of_kinds():
    rng = np.random.default_rng(5)
    n = 700
    age = rng.integers(0, 99, n).astype(float)
    age[::13] = NAN
    first = datetime.date(2023, 12, 1)
    days = [first + datetime.timedelta(days=int(day)) for day in rng.integers(0, 90, n)]
    return pd.DataFrame(
        {
            "age": age,
            "weight": rng.normal(70.0, 12.0, n).round(2),
            "sex": rng.choice(["f", "m", ""], n),
            "admitted": [day.isoformat() for day in days],
        }
    )


TEXTS = {
    "band": "bin(age, 18, 40, 65)",
    "month": "month(admitted)",
    "load": "log(weight) * age ** 2 / 3",
    "old": "age >= 65 or sex == 'f'",
}
CONDITION = ("age > 12 and sex in ['f', 'm']", "admitted < '2024-02-20'")


def sources(table, folder):
    table.to_parquet(folder / "table.parquet", row_group_size=100)
    table.to_csv(folder / "table.csv", index=False)
    dated = table.assign(admitted=pd.to_datetime(table.admitted))
    return {
        "frame": table,
        "dates": dated,
        "parquet": folder / "table.parquet",
        "csv": str(folder / "table.csv"),
        "polars": pl.from_pandas(table),
        "lazy": pl.scan_parquet(folder / "table.parquet"),
        "dask": dask.dataframe.from_pandas(table, npartitions=3),
    }


def derived_bits(source, chunk_rows):
    derived = DerivedRows(source, where=CONDITION, with_columns=TEXTS)
    rule = {"band": TextsOrOther(derived.levels_of("band")), "sex": TextsOrOther(("m",))}
    names = ["weight", "band", "sex", "month", "load", "old"]
    rows = private_rows(derived, columns=TextColumns(names, rule))
    assert rows.n == 700
    return np.concatenate(list(rows.chunks(chunk_rows=chunk_rows)))


def test_every_source_and_chunk_gives_the_same_bits(tmp_path):
    table = table_of_kinds()
    wanted = derived_bits(table, 700)
    inside = (table.age > 12) & table.sex.isin(["f", "m"]) & (table.admitted < "2024-02-20")
    np.testing.assert_array_equal(~np.isnan(wanted[:, 0]), inside)
    np.testing.assert_array_equal(
        wanted[inside, 3], pd.to_datetime(table.admitted)[inside].dt.month
    )
    bands = pd.cut(table.age, [18, 40, 65], right=False, labels=False).fillna(2.0)
    np.testing.assert_array_equal(wanted[inside, 1], bands[inside])
    np.testing.assert_array_equal(wanted[inside, 2], (table.sex[inside] != "m").astype(float))
    for name, source in sources(table, tmp_path).items():
        for chunk_rows in (9, 64, 700):
            found = derived_bits(source, chunk_rows)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{name}, {chunk_rows}")


def test_an_array_has_columns_x0_and_so_on():
    array = np.arange(12.0).reshape(4, 3)
    rows = private_rows(DerivedRows(array, where=("x0 >= 3",), with_columns={"s": "x1 + x2"}))
    assert rows.columns == ("x0", "x1", "x2", "s")
    found = np.concatenate(list(rows.chunks()))
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], [3.0, 4.0, 5.0, 9.0])
    rows = private_rows(DerivedRows(array, where=("x0 >= 3",)), columns=[2, 0])
    assert rows.columns is None
    assert rows.block(1, 2).tolist() == [[5.0, 3.0]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"where": ("aeg > 3",)}, "did you mean 'age'"),
        ({"with_columns": {"age": "weight * 2"}}, "has a column 'age' already"),
        ({"with_columns": {"id": "age"}, "person": "id"}, "says whose row it is"),
        ({"where": ("sex > 3",)}, "compared with other texts"),
        ({"where": ("age == 'f'",)}, "not text"),
    ],
)
def test_what_does_not_fit_the_source_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        private_rows(DerivedRows(table_of_kinds(), **options), columns=["weight"])


def test_the_header_of_a_file_is_not_quoted(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("alice,4711\nbob,4712\n")
    with pytest.raises(InputError) as refusal:
        private_rows(DerivedRows(path, where=("alise > 3",)), columns=["alise"])
    assert "alice" not in str(refusal.value)
