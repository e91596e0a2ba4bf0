"""Arrays and lists: which forms are read, which are refused, and that values never matter (groups A and B)."""

import array as stdlib_array
import copy
import datetime
import pickle
from decimal import Decimal
from fractions import Fraction
from numbers import Real

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers_sources import column_sums, content, direct_sums, silently

from fastpubpriv import ZCDP, Rows, estimate_mean, linear_regression, value_counts
from fastpubpriv.errors import InputError
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.person_table import rows_of_each

X = np.random.default_rng(1).normal(size=(37, 4))
NAN = float("nan")


def values(rows):
    return silently(lambda: content(rows, chunk_rows=2))


class Hostile(np.ndarray):
    """A subclass that would read along."""

    def __array_ufunc__(self, *args, **kwargs):
        raise AssertionError("a subclass saw the rows")

    def __array_function__(self, *args, **kwargs):
        raise AssertionError("a subclass saw the rows")

    def __getitem__(self, index):
        raise AssertionError("a subclass saw the rows")


def read_only():
    x = X.copy()
    x.flags.writeable = False
    return x


def unaligned():
    raw = bytearray(X.nbytes + 1)
    view = np.frombuffer(raw, dtype=np.float64, offset=1, count=X.size).reshape(X.shape)
    view[:] = X
    assert not view.flags.aligned
    return view


@pytest.mark.parametrize(
    "x",
    [
        X,
        np.asfortranarray(X),
        np.ascontiguousarray(X[::-1])[::-1],
        np.ascontiguousarray(X[:, ::-1])[:, ::-1],
        np.repeat(X, 2, axis=0)[::2],
        np.repeat(X, 2, axis=1)[:, ::2],
        np.hstack([X, X])[:, 4:],
        read_only(),
        unaligned(),
        X.astype(">f8"),
        X.view(Hostile),
        np.asmatrix(X),
        memoryview(X),
        X.tolist(),
        tuple(map(tuple, X.tolist())),
        [row for row in X],
        [[Fraction(v) for v in row] for row in X.tolist()],
        [[Decimal(v) for v in row] for row in X.tolist()],
    ],
    ids=lambda x: type(x).__name__,
)
def test_every_layout_gives_the_same_integers(x):
    rows = silently(lambda: private_rows(x))
    assert (rows.n, rows.dim) == X.shape
    expected = direct_sums(X)
    for chunk_rows in (1, 7, 100):
        found = silently(lambda size=chunk_rows: column_sums(rows, chunk_rows=size))
        assert found == expected, chunk_rows


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f2", ">i4", ">f4", "f4"])
def test_other_number_types_are_converted(dtype):
    x = np.abs(X * 3).astype(dtype)
    rows = private_rows(x)
    assert column_sums(rows, chunk_rows=5) == direct_sums(x.astype(np.float64))
    chunk = next(rows.chunks())
    assert chunk.dtype == (np.float32 if dtype == "f4" else np.float64)
    assert chunk.dtype.isnative


@pytest.mark.parametrize(
    "x", [X, X.astype(np.float32), np.zeros((50, 9))[::2, 2:6]], ids=["f8", "f4", "apart"]
)
def test_native_rows_are_views(x):
    chunk = next(private_rows(x).chunks(3, 9))
    assert np.shares_memory(chunk, x)
    assert chunk.shape == (6, 4)
    assert chunk.strides[1] == chunk.itemsize


def test_large_integers_are_rounded_silently():
    x = np.array([[2**63 - 1, -(2**63)], [1, 2]])
    found = values(private_rows(x))
    assert found[0].tolist() == [2.0**63, -(2.0**63)]


def test_integers_of_a_list_beyond_all_numbers_are_missing():
    found = values(private_rows([[10**400, 2**70], [None, 1]]))
    np.testing.assert_array_equal(found, [[NAN, 2.0**70], [NAN, 1.0]])


@pytest.mark.parametrize(
    "bad",
    [
        np.nan,
        np.inf,
        -np.inf,
        1.7e308,
        5e-324,
        -0.0,
        1e-300,
        np.array(0x7FF0000000000001).view(np.float64)[()],
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "f2"])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_value_raises_or_warns(bad, dtype, threads):
    x = X.copy()
    x[3, 1] = bad
    x[5] = bad
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
        expected = direct_sums(x.astype(np.float64))
    assert silently(lambda: column_sums(private_rows(x), threads=threads, chunk_rows=4)) == expected


# Text of any length, which NumPy has from 2.0 on.
VARIABLE_TEXT = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else np.dtype(str)


REFUSED = Refusals()
REFUSED.add_values("dtype text", np.array([["a", "b"]]), [1.0, "x"], [["1", "2"]], [[1.0, "x"]])
REFUSED.add_values("dtype bytes", np.array([[b"a", b"b"]]))
REFUSED.add_values("dtype", np.array([["a", "b"]], dtype=VARIABLE_TEXT))
REFUSED.add_values("real and imaginary", X.astype(complex), [[1j, 2.0]])
REFUSED.add_values("astype", X.astype(np.longdouble))
REFUSED.add_values("datetime", X.astype("M8[s]"))
REFUSED.add_values("structured", np.zeros((3, 2), dtype=[("Alice", "f8")]))
REFUSED.add_values("0 dim", np.array(1.0))
REFUSED.add_values("float64", np.float64(1.0))
REFUSED.add_values("3 dim", X.reshape(-1, 2, 2))
REFUSED.add_values("no rows", X[:0], [], X[:0, 0])
REFUSED.add_values("no columns", X[:, :0], [[]])
REFUSED.add_values("toarray", scipy.sparse.csr_matrix(X), scipy.sparse.coo_array(X))
REFUSED.add_values("filled", np.ma.masked_invalid(X))
REFUSED.add_values(
    "cannot be read", stdlib_array.array("d", [1.0]), {"a": [1.0]}, None, 3.0, b"1,2,3"
)
REFUSED.add_values("equal length", [[1.0, 2.0], [3.0]], [[None, "x"]], [[object(), 2.0]])
REFUSED.add_values("only once", (row for row in X), iter(X.tolist()))


class Tensor:
    def __array__(self, *arguments):
        pytest.fail("called")


REFUSED.add_values(r"numpy\.asarray", Tensor())


@pytest.mark.parametrize(("x", "words"), REFUSED)
def test_wrong_forms_say_what_to_pass(x, words):
    caught = raises(InputError, words, private_rows, x)
    assert caught.__context__ is None
    assert "Alice" not in str(caught)


def test_more_than_two_to_the_31_rows():
    rows = private_rows(np.broadcast_to(np.float32(1.0), (2**31 + 5, 1)))
    assert rows.n == 2**31 + 5
    last = list(rows.chunks(2**31 + 1, None, 3))
    assert [len(chunk) for chunk in last] == [3, 1]


def test_npy_files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    rows = private_rows(str(tmp_path / "x.npy"))
    assert repr(rows) == "Rows(n=37, dim=4, kind='npy')"
    assert rows.random_access


def test_a_line_in_a_file_is_one_column(tmp_path):
    np.save(tmp_path / "line.npy", X[0])
    assert private_rows(tmp_path / "line.npy").dim == 1


@pytest.mark.parametrize("name", ["objects", "cube", "empty", "text", "absent"])
def test_npy_files_that_cannot_be_read(name, tmp_path):
    np.save(tmp_path / "objects.npy", X.astype(object), allow_pickle=True)
    np.save(tmp_path / "cube.npy", X[None])
    np.save(tmp_path / "empty.npy", X[:0])
    (tmp_path / "text.npy").write_text("Alice-SSN-123")
    caught = raises(InputError, None, private_rows, tmp_path / f"{name}.npy")
    assert caught.__context__ is None
    assert "Alice" not in str(caught)


def test_rows_pass_through():
    rows = private_rows(X)
    assert private_rows(rows) is rows


def test_rows_without_names_have_no_columns_to_choose():
    raises(InputError, "no names", private_rows, X, columns=["a"])
    raises(InputError, "no names", private_rows, private_rows(X), columns=["a"])


REFUSALS = {
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asarray": np.asarray,
    "list": list,
    "iteration": lambda r: [0 for _ in r],
    "equality": lambda r: r == r,
    "inequality": lambda r: r != r,
    "truth": bool,
    "membership": lambda r: 1.0 in r,
    "index": lambda r: r[0],
    "sum": sum,
    "add": lambda r: r + 1,
    "numpy add": lambda r: np.zeros(3) + r,
    "numpy function": np.mean,
    "format": lambda r: f"{r:.3f}",
    "float": float,
    "order": lambda r: r < r,
}


@pytest.mark.parametrize("action", REFUSALS, ids=str)
def test_rows_cannot_be_looked_at(action):
    rows = private_rows(X)
    caught = raises(TypeError, None, REFUSALS[action], rows)
    assert "0." not in str(caught)
    assert not hasattr(rows, "__dict__")


def test_rows_show_their_shape():
    rows = private_rows(X)
    shape = "Rows(n=37, dim=4, kind='array')"
    assert repr(rows) == shape
    assert str(rows) == shape
    assert f"{rows}" == shape
    assert len(rows) == 37


def test_rows_are_keys_of_a_dictionary():
    rows = private_rows(X)
    assert {rows: 1}[rows] == 1


# ---- Frames, Arrow and Parquet: which columns are numbers; text is never quoted and changes no other row ------------
NULLABLE_TYPES = {
    "Int64": ([2**62, None, 3], "Int64", [2.0**62, NAN, 3]),
    "Float32": ([1.5, None, 3], "Float32", [1.5, NAN, 3]),
    "boolean": ([True, None, False], "boolean", [1, NAN, 0]),
    "arrow": ([2**60 + 1, None, 3], "int64[pyarrow]", [2.0**60, NAN, 3]),
}


@pytest.mark.parametrize("name", NULLABLE_TYPES)
def test_nullable_types_of_pandas(name):
    cells, dtype, numbers = NULLABLE_TYPES[name]
    frame = pd.DataFrame({"a": pd.array(cells, dtype=dtype)})
    found = values(private_rows(frame))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found[:, 0], numbers)


def test_decimals_of_pandas():
    decimals = pd.ArrowDtype(pa.decimal128(10, 2))
    frame = pd.DataFrame({"a": pd.array([Decimal("1.25"), None, Decimal(3)], dtype=decimals)})
    np.testing.assert_array_equal(values(private_rows(frame))[:, 0], [1.25, NAN, 3])


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "f8": [1.5, NAN, 3.0],
            "f4": np.array([1, 2, 3], "f4"),
            "i8": [2**62, 2, 3],
            "bool": [True, False, True],
            "Int64": pd.array([2**62, None, 3], dtype="Int64"),
        }
    )


def test_number_types_of_pandas_beside_each_other(frame):
    rows = silently(lambda: private_rows(frame))
    assert rows.columns == ("f8", "f4", "i8", "bool", "Int64")
    found = values(rows)
    assert found.dtype == np.float64
    expected = [[1.5, 1, 2.0**62, 1, 2.0**62], [NAN, 2, 2, 0, NAN], [3, 3, 3, 1, 3]]
    np.testing.assert_array_equal(found, expected)


def test_chosen_columns_of_pandas(frame):
    found = values(private_rows(frame, columns=["bool", "f8"]))
    np.testing.assert_array_equal(found, [[1, 1.5], [0, NAN], [1, 3]])


def test_columns_of_pandas_of_single_precision_keep_it(frame):
    assert values(private_rows(frame, columns=["f4"])).dtype == np.float32


def test_number_types_of_polars():
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
    assert rows.columns == ("f8", "i8", "u1", "bool", "decimal")
    expected = [[1.5, 2.0**62, 1, 1, 1.25], [NAN, NAN, 2, NAN, NAN], [NAN, 3, NAN, 0, 3]]
    np.testing.assert_array_equal(values(rows), expected)


def test_columns_of_polars_of_single_precision_keep_it():
    frame = pl.DataFrame({"f4": pl.Series([1.5, None], dtype=pl.Float32)})
    assert values(private_rows(frame)).dtype == np.float32


def arrow_table():
    decimals = [Decimal("1.25"), None, Decimal(3)]
    return pa.table(
        {
            "f8": [1.5, None, 3.0],
            "f2": pa.array(np.array([1, 2, 3], np.float16)),
            "i8": pa.array([2**62 + 1, None, 3]),
            "u8": pa.array([2**64 - 1, None, 3], pa.uint64()),
            "bool": [True, None, False],
            "decimal": pa.array(decimals),
            "wide": pa.array(decimals, pa.decimal256(40, 2)),
            "dict": pa.array([2.5, None, 2.5]).dictionary_encode(),
        }
    )


ARROW_VALUES = [
    [1.5, 1, 2.0**62, 2.0**64, 1, 1.25, 1.25, 2.5],
    [NAN, 2, NAN, NAN, NAN, NAN, NAN, NAN],
    [3, 3, 3, 3, 0, 3, 3, 2.5],
]


def arrow_batch(tmp_path):
    return arrow_table().combine_chunks().to_batches()[0]


def arrow_in_parquet(tmp_path):
    """A file whose second column stands last."""
    table = arrow_table()
    moved = table.drop_columns("f2").append_column("f2", table["f2"])
    pq.write_table(moved, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


ARROW_SOURCES = {
    "table": lambda tmp_path: arrow_table(),
    "batch": arrow_batch,
    "parquet": arrow_in_parquet,
}


@pytest.mark.parametrize("kind", ARROW_SOURCES)
def test_arrow_number_types(kind, tmp_path):
    source = ARROW_SOURCES[kind](tmp_path)
    rows = silently(lambda: private_rows(source, columns=arrow_table().column_names))
    np.testing.assert_array_equal(values(rows), ARROW_VALUES)


def test_arrow_columns_of_single_precision_keep_it():
    table = pa.table({"a": pa.array([1, None], pa.float32())})
    assert values(private_rows(table)).dtype == np.float32


NAMES = ["Alice-SSN-123", "Bob"]
WITH_TEXT = {"a": [1.0, 2.0], "name": NAMES, "day": [datetime.date(2013, 1, 1)] * 2}
PANDAS_WITH_TEXT = pd.DataFrame(WITH_TEXT).astype({"name": "str", "day": "datetime64[s]"})
POLARS_WITH_TEXT = pl.DataFrame(WITH_TEXT)
ARROW_WITH_TEXT = pa.table(WITH_TEXT)
TEXT_SOURCES = {
    "pandas": PANDAS_WITH_TEXT,
    "category": PANDAS_WITH_TEXT.astype({"name": "category", "day": "category"}),
    "sparse": PANDAS_WITH_TEXT.assign(name=pd.arrays.SparseArray([7.25, 7.25])),
    "polars": POLARS_WITH_TEXT,
    "enum": POLARS_WITH_TEXT.cast({"name": pl.Enum(NAMES)}),
    "arrow": ARROW_WITH_TEXT,
    "dictionary": ARROW_WITH_TEXT.set_column(1, "name", pa.array(NAMES).dictionary_encode()),
    "null": ARROW_WITH_TEXT.set_column(1, "name", pa.nulls(2)),
}


def check_named_and_not_quoted(source):
    caught = raises(InputError, r"'name'.*'day'.*pass columns=", private_rows, source)
    assert not any(word in str(caught) for word in ("Alice", "Bob", "2013", "7.25"))
    asked = ["a", "name"]
    caught = raises(InputError, r"not numeric.*'name'", private_rows, source, columns=asked)
    assert "'day'" not in str(caught)
    assert private_rows(source, columns=["a"]).dim == 1


@pytest.mark.parametrize("kind", TEXT_SOURCES)
def test_text_columns_are_named_and_not_quoted(kind):
    check_named_and_not_quoted(TEXT_SOURCES[kind])


def test_text_columns_of_a_file_are_named_and_not_quoted(tmp_path):
    pq.write_table(ARROW_WITH_TEXT, tmp_path / "t.parquet")
    check_named_and_not_quoted(tmp_path / "t.parquet")


NO_COLUMNS = [
    (["a", "z"], "no column 'z'.*'a', 'b'"),
    ("z", "no column 'z'.*'a', 'b'"),
    ([], "at least one"),
    (["a", "a"], "twice"),
    (lambda: 0, "a name, or a list of names"),
]


@pytest.mark.parametrize(("columns", "words"), NO_COLUMNS)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_that_cannot_be_chosen(make, columns, words):
    table = make({"a": [1.0], "b": [2.0]})
    raises(InputError, words, private_rows, table, columns=columns)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_come_in_the_order_in_which_they_are_named(make):
    table = make({"a": [1.0], "b": [2.0]})
    np.testing.assert_array_equal(values(private_rows(table, columns=("b", "a"))), [[2.0, 1.0]])
    np.testing.assert_array_equal(values(private_rows(table, columns="b")), [[2.0]])


def test_a_label_that_stands_twice_names_no_column():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", 7])
    raises(InputError, "more than one column 'a'", private_rows, frame)
    assert private_rows(frame, columns=[7]).columns == ("7",)


NO_TABLES = Refusals()
NO_TABLES.add_values("numeric", pd.Series(["x"]), pl.Series(["x"]))
NO_TABLES.add_values("from_stream", pa.table({"a": [1.0]}).to_reader())
NO_TABLES.add_values("no rows", pd.DataFrame({"a": []}, dtype=float))
NO_TABLES.add_values("no rows", pa.table({"a": pa.array([], pa.float64())}))
NO_TABLES.add_values("no columns|at least one", pd.DataFrame(index=[0, 1]))


@pytest.mark.parametrize(("source", "words"), NO_TABLES)
def test_things_that_are_almost_tables(source, words):
    raises(InputError, words, private_rows, source)


def test_the_index_that_pandas_stores_is_not_data(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 9]).to_parquet(tmp_path / "t.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "t.parquet").names
    assert private_rows(tmp_path / "t.parquet").columns == ("a",)


@pytest.fixture
def parquet(tmp_path):
    """A file, one with its columns in another order, and one without the second column."""
    a = tmp_path / "a.parquet"
    b = tmp_path / "b.parquet"
    c = tmp_path / "c.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [3, 4]}), a)
    pq.write_table(pa.table({"y": [8], "x": pa.array([7.0], pa.float32())}), b)
    pq.write_table(pa.table({"x": [7.0]}), c)
    return a, b, c


def test_parquet_files_are_joined_by_the_names_of_their_columns(parquet):
    a, b, _ = parquet
    np.testing.assert_array_equal(values(private_rows([a, b])), [[1, 3], [2, 4], [7, 8]])


def test_chunks_of_parquet_files_begin_anywhere(parquet):
    a, _, c = parquet
    rows = private_rows([str(a), str(c)], columns=["x"])
    np.testing.assert_array_equal(np.concatenate(list(rows.chunks(1, 3, 1))), [[2.0], [7.0]])


def test_parquet_files_of_other_columns_are_refused(parquet):
    a, _, c = parquet
    raises(InputError, "no column .y.", private_rows, [a, c])
    raises(InputError, "other columns", private_rows, [c, a])


def test_a_parquet_file_that_cannot_be_read_is_not_quoted(tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"Alice-SSN-123" * 9)
    caught = raises(InputError, "cannot be read", private_rows, bad)
    assert "Alice" not in str(caught)


def test_paths_that_are_no_parquet_files(parquet, tmp_path):
    (tmp_path / "dir.parquet").mkdir()
    raises(InputError, "no file", private_rows, tmp_path / "no.parquet")
    raises(InputError, "directory", private_rows, tmp_path / "dir.parquet")
    csv = [parquet[0], tmp_path / "x.csv"]
    raises(InputError, r"all must end in \.parquet", private_rows, csv)


def test_a_parquet_file_that_has_changed_is_refused(parquet):
    rows = private_rows(parquet[0])
    pq.write_table(pa.table({"x": [1.0], "y": [1]}), parquet[0])
    raises(InputError, "gave fewer rows than were declared: the source", list, rows.chunks())


# ---- Objects: one cell that is no number, or too large for a type, changes no other ---------------------------------
CELLS = [
    1.5,
    2,
    2**70,
    -(2**63) - 1,
    True,
    Decimal("0.25"),
    np.float32(3.0),
    None,
    "Alice-SSN-123",
    10**400,
    object(),
    1j,
    NAN,
]
NUMBERS = [1.5, 2.0, 2.0**70, -(2.0**63), 1.0, 0.25, 3.0] + [NAN] * 6
ONES = [1.0] * len(CELLS)


class Bad:
    """A number whose conversion fails, in words about it."""

    def __float__(self):
        raise SystemExit("Alice-SSN-123")


Real.register(Bad)


def objects(cells):
    array = np.empty(len(cells), object)
    array[:] = cells
    return array


def beside_ones(cells):
    return np.column_stack([objects(cells), objects(ONES)])


def in_pieces(cells):
    return Rows.from_chunks(lambda: [beside_ones(cells)], n=len(cells), dim=2)


OBJECT_SOURCES = {
    "array": beside_ones,
    "pandas": lambda cells: pd.DataFrame({"a": pd.Series(cells, dtype=object), "b": ONES}),
    "polars": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=pl.Object), "b": ONES}),
    "dask array": lambda cells: da.from_array(beside_ones(cells), chunks=(4, 2), name=False),
    "pieces": in_pieces,
}


@pytest.mark.parametrize("kind", OBJECT_SOURCES)
def test_objects_are_read_cell_by_cell(kind):
    found = values(private_rows(OBJECT_SOURCES[kind](CELLS)))
    np.testing.assert_array_equal(found, np.column_stack([NUMBERS, ONES]))
    bad = values(private_rows(OBJECT_SOURCES[kind]([Bad(), *CELLS[1:]])))
    np.testing.assert_array_equal(bad[:, 0], [NAN, *NUMBERS[1:]])


ODD = {2**70: 2.0**70, True: 1.0, -(2**63) - 1: -(2.0**63), "x": NAN, None: NAN}


def random_table(rng, n):
    """A feature x, a label y, and g, which serves as weight and as key."""
    return pd.DataFrame(
        {"x": rng.normal(size=n), "y": rng.normal(size=n), "g": np.tile([0.25, 1.0], n // 2)}
    )


PUBLIC = random_table(np.random.default_rng(0), 50)
SEEDED = {"budget": ZCDP(1), "progress": False, "random_state": 1}


def fit_of_parts(frame):
    return linear_regression(
        frame[["x"]],
        frame["y"],
        weights_priv=frame["g"],
        x_pub=PUBLIC[["x"]],
        y_pub=PUBLIC["y"],
        weights_pub=PUBLIC["g"],
        weight_cap=1.0,
        **SEEDED,
    )


ANSWERS = {
    "mean": lambda frame: estimate_mean(frame, x_pub=PUBLIC, **SEEDED).mean,
    "counts": lambda frame: value_counts(frame["g"], keys=[0.25, 1], **SEEDED).counts,
    "fit of parts": lambda frame: fit_of_parts(frame).coefficients,
    "fit": lambda frame: linear_regression(frame, x_pub=PUBLIC, label="y", **SEEDED).coefficients,
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.SeededNoiseWarning")
@pytest.mark.parametrize("name", ["x", "y", "g"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("answer", ANSWERS)
def test_one_odd_cell_changes_no_other(answer, name, odd):
    """A column, the label, the weights and the keys: as objects with one odd cell the same bits as floats."""
    floats = random_table(np.random.default_rng(1), 600)
    floats.loc[599, name] = ODD[odd]
    objects = floats.astype({name: object})
    objects.at[599, name] = odd
    assert np.array_equal(ANSWERS[answer](objects), ANSWERS[answer](floats))


@pytest.mark.parametrize("odd", [2**70, "x", 10**400, None, 7])
def test_one_odd_identifier_is_a_person_of_its_own_or_nobody(odd):
    """1,000 persons with two rows each, as floats and as objects: one row of one of them has an odd identifier."""
    ids = np.repeat(np.arange(1000.0), 2)
    x = np.repeat(np.linspace(0, 1, 1000), 2)
    frame = pd.DataFrame({"id": pd.Series([*ids[:-1], odd], dtype=object), "x": x})
    public = pd.DataFrame({"x": [0.1, 0.5, 0.9]})
    call = {"x_pub": public, "budget": ZCDP(1e4), "progress": False, "rows_per_person": 2}
    by_column = estimate_mean(frame, person="id", **call)
    by_series = estimate_mean(frame[["x"]], person=frame["id"], **call)
    assert by_column.mean == pytest.approx([0.5], abs=0.01)
    assert by_series.mean == pytest.approx([0.5], abs=0.01)


def test_texts_and_numbers_are_identifiers_beside_each_other():
    ids = objects(["a", "a", 1, 1.0, True, None, "b", 2**70])
    frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "x": np.arange(8.0)})
    assert sorted(rows_of_each(frame, "id")) == [1.0, 1.0, 2.0, 3.0]
    assert sorted(rows_of_each(frame[["x"]], ids)) == [1.0, 1.0, 2.0, 3.0]


def test_public_objects_that_are_no_numbers_are_named():
    private = pd.DataFrame({"a": [1.0, 2.0], "name": NAMES}, dtype=object)
    public = pd.DataFrame({"a": [1.0, 2.0], "name": ["north", "south"]}, dtype=object)
    call = {"x_pub": public, "budget": ZCDP(1)}
    caught = raises(InputError, r"not numeric.*'name'", estimate_mean, private, **call)
    assert "Alice" not in str(caught)
