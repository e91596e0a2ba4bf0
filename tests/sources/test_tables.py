"""Frames, Arrow and Parquet: which columns are numbers; text is never quoted and changes no other row."""

import datetime
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_sources import silently

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows

NAN = float("nan")


def values(rows):
    return silently(lambda: np.concatenate(list(rows.chunks(chunk_rows=2))))


def test_pandas_number_types():
    frame = pd.DataFrame(
        {
            "f8": [1.5, NAN, 3.0],
            "f4": np.array([1, 2, 3], "f4"),
            "i8": [2**62, 2, 3],
            "bool": [True, False, True],
            "Int64": pd.array([2**62, None, 3], dtype="Int64"),
            "Float32": pd.array([1.5, None, 3], dtype="Float32"),
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "arrow": pd.array([2**60 + 1, None, 3], dtype="int64[pyarrow]"),
            "decimal": pd.array([Decimal("1.25"), None, Decimal(3)], dtype=pd.ArrowDtype(pa.decimal128(10, 2))),
        }
    )
    rows = silently(lambda: private_rows(frame))
    assert rows.columns == tuple(frame.columns)
    assert values(rows).dtype == np.float64
    expected = [
        [1.5, 1, 2.0**62, 1, 2.0**62, 1.5, 1, 2.0**60, 1.25],
        [NAN, 2, 2, 0, NAN, NAN, NAN, NAN, NAN],
        [3, 3, 3, 1, 3, 3, 0, 3, 3],
    ]
    np.testing.assert_array_equal(values(rows), expected)
    assert values(private_rows(frame, columns=["f4"])).dtype == np.float32
    np.testing.assert_array_equal(values(private_rows(frame, columns=["bool", "f8"])), [[1, 1.5], [0, NAN], [1, 3]])


def test_polars_number_types():
    frame = pl.DataFrame(
        {
            "f8": [1.5, None, NAN],
            "i8": [2**62 + 1, None, 3],
            "u1": pl.Series([1, 2, None], dtype=pl.UInt8),
            "bool": [True, None, False],
            "decimal": [Decimal("1.25"), None, Decimal(3)],
        }
    )
    rows = silently(lambda: private_rows(frame))
    expected = [[1.5, 2.0**62, 1, 1, 1.25], [NAN, NAN, 2, NAN, NAN], [NAN, 3, NAN, 0, 3]]
    np.testing.assert_array_equal(values(rows), expected)
    assert values(private_rows(frame.select(pl.col("f8").cast(pl.Float32)))).dtype == np.float32


def arrow_table():
    return pa.table(
        {
            "f8": [1.5, None, 3.0],
            "f2": pa.array(np.array([1, 2, 3], np.float16)),
            "i8": pa.array([2**62 + 1, None, 3]),
            "u8": pa.array([2**64 - 1, None, 3], pa.uint64()),
            "bool": [True, None, False],
            "decimal": pa.array([Decimal("1.25"), None, Decimal(3)]),
            "wide": pa.array([Decimal("1.25"), None, Decimal(3)], pa.decimal256(40, 2)),
            "dict": pa.array([2.5, None, 2.5]).dictionary_encode(),
        }
    )


@pytest.mark.parametrize("kind", ["table", "batch", "parquet"])
def test_arrow_number_types(kind, tmp_path):
    source = arrow_table()
    if kind == "batch":
        source = source.combine_chunks().to_batches()[0]
    if kind == "parquet":
        pq.write_table(source.drop_columns("f2").append_column("f2", source["f2"]), tmp_path / "t.parquet")
        source = tmp_path / "t.parquet"
    rows = silently(lambda: private_rows(source, columns=arrow_table().column_names))
    expected = [
        [1.5, 1, 2.0**62, 2.0**64, 1, 1.25, 1.25, 2.5],
        [NAN, 2, NAN, NAN, NAN, NAN, NAN, NAN],
        [3, 3, 3, 3, 0, 3, 3, 2.5],
    ]
    np.testing.assert_array_equal(values(rows), expected)
    assert values(private_rows(pa.table({"a": pa.array([1, None], pa.float32())}))).dtype == np.float32


def text_sources(tmp_path):
    data = {"a": [1.0, 2.0], "name": ["Alice-SSN-123", "Bob"], "day": [datetime.date(2013, 1, 1)] * 2}
    table = pa.table(data)
    pq.write_table(table, tmp_path / "t.parquet")
    return {
        "pandas": pd.DataFrame(data),
        "category": pd.DataFrame(
            {"a": [1.0, 2.0], "name": pd.Categorical(data["name"]), "day": pd.Categorical([1, 2])}
        ),
        "sparse": pd.DataFrame(
            {"a": [1.0], "name": pd.arrays.SparseArray([7.25]), "day": pd.to_datetime(["2013-01-01"])}
        ),
        "polars": pl.DataFrame(data),
        "enum": pl.DataFrame(data).with_columns(pl.col("name").cast(pl.Enum(["Alice-SSN-123", "Bob"]))),
        "arrow": table,
        "dictionary": table.set_column(1, "name", table["name"].dictionary_encode()),
        "null": table.set_column(1, "name", pa.nulls(2)),
        "parquet": tmp_path / "t.parquet",
    }


@pytest.mark.parametrize(
    "kind", ["pandas", "category", "sparse", "polars", "enum", "arrow", "dictionary", "null", "parquet"]
)
def test_text_columns_are_named_and_not_quoted(kind, tmp_path):
    source = text_sources(tmp_path)[kind]
    with pytest.raises(InputError, match=r"'name'.*'day'.*pass columns=") as caught:
        private_rows(source)
    assert not any(word in str(caught.value) for word in ("Alice", "Bob", "2013", "7.25"))
    with pytest.raises(InputError, match=r"not numeric.*'name'") as caught:
        private_rows(source, columns=["a", "name"])
    assert "'day'" not in str(caught.value)
    assert private_rows(source, columns=["a"]).dim == 1


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_that_cannot_be_chosen(make):
    table = make({"a": [1.0], "b": [2.0]})
    for columns, words in (
        (["a", "z"], "no column 'z'.*'a', 'b'"),
        ("a", "list of column names"),
        ([], "at least one"),
        (["a", "a"], "twice"),
        (lambda: 0, "list of column names"),
    ):
        with pytest.raises(InputError, match=words):
            private_rows(table, columns=columns)
    np.testing.assert_array_equal(values(private_rows(table, columns=("b", "a"))), [[2.0, 1.0]])


def test_repeated_and_odd_labels():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", 7])
    with pytest.raises(InputError, match="more than one column 'a'"):
        private_rows(frame)
    assert private_rows(frame, columns=[7]).columns == ("7",)


def test_things_that_are_almost_tables():
    table = pa.table({"a": [1.0]})
    for source, words in (
        (pd.Series(["x"]), "numeric"),
        (pl.Series(["x"]), "numeric"),
        (table.to_reader(), "read_all"),
        (pd.DataFrame({"a": []}, dtype=float), "no rows"),
        (pa.table({"a": pa.array([], pa.float64())}), "no rows"),
        (pd.DataFrame(index=[0, 1]), "no columns|at least one"),
    ):
        with pytest.raises(InputError, match=words):
            private_rows(source)
    for make in (Rows.from_frame, Rows.from_arrow):
        with pytest.raises(InputError, match="expected"):
            make([[1.0]])


def test_the_index_that_pandas_stores_is_not_data(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 9]).to_parquet(tmp_path / "t.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "t.parquet").names
    assert private_rows(tmp_path / "t.parquet").columns == ("a",)


def test_parquet_lists_and_broken_files(tmp_path):
    a, b, c = (tmp_path / f"{name}.parquet" for name in "abc")
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [3, 4]}), a)
    pq.write_table(pa.table({"y": [8], "x": pa.array([7.0], pa.float32())}), b)
    pq.write_table(pa.table({"x": [7.0]}), c)
    np.testing.assert_array_equal(values(private_rows([a, b])), [[1, 3], [2, 4], [7, 8]])
    rows = private_rows([str(a), str(c)], columns=["x"])
    np.testing.assert_array_equal(np.concatenate(list(rows.chunks(1, 3, 1))), [[2.0], [7.0]])
    with pytest.raises(InputError, match="other columns"):
        private_rows([a, c])
    (tmp_path / "bad.parquet").write_bytes(b"Alice-SSN-123" * 9)
    for path, words in ((tmp_path / "bad.parquet", "cannot be read"), (tmp_path / "no.parquet", "no file")):
        with pytest.raises(InputError, match=words) as caught:
            private_rows(path)
        assert "Alice" not in str(caught.value)
    with pytest.raises(InputError, match=r"all must end in \.parquet"):
        private_rows([a, tmp_path / "x.csv"])
    (tmp_path / "dir.parquet").mkdir()
    with pytest.raises(InputError, match="directory"):
        private_rows(tmp_path / "dir.parquet")
    rows = private_rows(a)
    pq.write_table(pa.table({"x": [1.0], "y": [1]}), a)
    with pytest.raises(InputError, match="has 1 rows"):
        list(rows.chunks())


@pytest.mark.parametrize("path", ["data.txt", "Alice-SSN-123", "x.parquet.zip"])
def test_paths_with_no_known_suffix(path):
    with pytest.raises(InputError, match="suffix") as caught:
        private_rows(path)
    assert "Alice" not in str(caught.value)


def test_optional_libraries_stay_out_until_needed():
    code = (
        "import sys, numpy as np\n"
        "from fastpubpriv.sources import private_rows, public_rows\n"
        "private_rows(np.ones((2, 2))); public_rows([[1.0]])\n"
        "bad = [m for m in ('pandas', 'polars', 'pyarrow', 'tqdm') if m in sys.modules]\n"
        "assert not bad, bad\n"
        "sys.modules['pyarrow'] = None\n"
        "try: private_rows('x.parquet')\n"
        "except ValueError as e: assert 'fastpubpriv[io]' in str(e), e\n"
        "else: raise SystemExit('no error')\n"
        "try: private_rows('x.csv')\n"
        "except ValueError as e: assert 'fastpubpriv[io]' in str(e) or 'no file' in str(e), e\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
