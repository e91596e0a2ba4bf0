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
    for chunk_rows in (1, 7, 100):
        assert silently(lambda size=chunk_rows: column_sums(rows, chunk_rows=size)) == direct_sums(
            X
        )


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f2", ">i4", ">f4", "f4"])
def test_other_number_types_are_converted(dtype):
    x = np.abs(X * 3).astype(dtype)
    rows = private_rows(x)
    assert column_sums(rows, chunk_rows=5) == direct_sums(x.astype(np.float64))
    chunk = next(rows.chunks())
    assert chunk.dtype == (np.float32 if dtype == "f4" else np.float64)
    assert chunk.dtype.isnative


def test_native_rows_are_views_and_large_integers_are_rounded_silently():
    wide = np.zeros((50, 9))
    for x in (X, X.astype(np.float32), wide[::2, 2:6]):
        chunk = next(private_rows(x).chunks(3, 9))
        assert np.shares_memory(chunk, x)
        assert chunk.shape == (6, 4)
        assert chunk.strides[1] == chunk.itemsize
    x = np.array([[2**63 - 1, -(2**63)], [1, 2]])
    assert silently(lambda: next(private_rows(x).chunks()))[0].tolist() == [2.0**63, -(2.0**63)]
    lists = silently(lambda: next(private_rows([[10**400, 2**70], [None, 1]]).chunks()))
    assert lists[0, 1] == 2.0**70
    assert np.isnan(lists[[0, 1], 0]).all()


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
REFUSED.add_values(
    r"numpy\.asarray",
    type("Tensor", (), {"__array__": lambda self, *given: pytest.fail("called")})(),
)


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
    assert "0." not in str(raises(TypeError, None, REFUSALS[action], rows))
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
NAN = float("nan")


def values(rows):
    return silently(lambda: content(rows, chunk_rows=2))


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
            "decimal": pd.array(
                [Decimal("1.25"), None, Decimal(3)], dtype=pd.ArrowDtype(pa.decimal128(10, 2))
            ),
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
    np.testing.assert_array_equal(
        values(private_rows(frame, columns=["bool", "f8"])), [[1, 1.5], [0, NAN], [1, 3]]
    )


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


def text_sources(tmp_path):
    data = {
        "a": [1.0, 2.0],
        "name": ["Alice-SSN-123", "Bob"],
        "day": [datetime.date(2013, 1, 1)] * 2,
    }
    table = pa.table(data)
    pq.write_table(table, tmp_path / "t.parquet")
    return {
        "pandas": pd.DataFrame(data).astype({"name": "str", "day": "datetime64[s]"}),
        "category": pd.DataFrame(
            {"a": [1.0, 2.0], "name": pd.Categorical(data["name"]), "day": pd.Categorical([1, 2])}
        ),
        "sparse": pd.DataFrame(
            {
                "a": [1.0],
                "name": pd.arrays.SparseArray([7.25]),
                "day": pd.to_datetime(["2013-01-01"]),
            }
        ),
        "polars": pl.DataFrame(data),
        "enum": pl.DataFrame(data).with_columns(
            pl.col("name").cast(pl.Enum(["Alice-SSN-123", "Bob"]))
        ),
        "arrow": table,
        "dictionary": table.set_column(1, "name", table["name"].dictionary_encode()),
        "null": table.set_column(1, "name", pa.nulls(2)),
        "parquet": tmp_path / "t.parquet",
    }


@pytest.mark.parametrize(
    "kind",
    ["pandas", "category", "sparse", "polars", "enum", "arrow", "dictionary", "null", "parquet"],
)
def test_text_columns_are_named_and_not_quoted(kind, tmp_path):
    source = text_sources(tmp_path)[kind]
    caught = raises(InputError, r"'name'.*'day'.*pass columns=", private_rows, source)
    assert not any(word in str(caught) for word in ("Alice", "Bob", "2013", "7.25"))
    asked = ["a", "name"]
    caught = raises(InputError, r"not numeric.*'name'", private_rows, source, columns=asked)
    assert "'day'" not in str(caught)
    assert private_rows(source, columns=["a"]).dim == 1


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
    a, b, c = (tmp_path / f"{name}.parquet" for name in "abc")
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


def test_parquet_files_that_cannot_be_read(parquet, tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"Alice-SSN-123" * 9)
    (tmp_path / "dir.parquet").mkdir()
    assert "Alice" not in str(raises(InputError, "cannot be read", private_rows, bad))
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


OBJECT_SOURCES = {
    "array": lambda cells: np.column_stack([objects(cells), objects(ONES)]),
    "pandas": lambda cells: pd.DataFrame({"a": pd.Series(cells, dtype=object), "b": ONES}),
    "polars": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=pl.Object), "b": ONES}),
    "dask array": lambda cells: da.from_array(
        np.column_stack([objects(cells), objects(ONES)]), chunks=(4, 2), name=False
    ),
    "pieces": lambda cells: Rows.from_chunks(
        lambda: [np.column_stack([objects(cells), objects(ONES)])], n=len(cells), dim=2
    ),
}


@pytest.mark.parametrize("kind", OBJECT_SOURCES)
def test_objects_are_read_cell_by_cell(kind):
    found = values(private_rows(OBJECT_SOURCES[kind](CELLS)))
    np.testing.assert_array_equal(found, np.column_stack([NUMBERS, ONES]))
    bad = values(private_rows(OBJECT_SOURCES[kind]([Bad(), *CELLS[1:]])))
    np.testing.assert_array_equal(bad[:, 0], [NAN, *NUMBERS[1:]])


ODD = {2**70: 2.0**70, True: 1.0, -(2**63) - 1: -(2.0**63), "x": NAN, None: NAN}


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.SeededNoiseWarning")
@pytest.mark.parametrize("name", ["x", "y", "g"])
@pytest.mark.parametrize("odd", ODD)
def test_one_odd_cell_changes_no_other(name, odd):
    """A column, the label, the weights and the keys: as objects with one odd cell the same bits as floats."""
    rng = np.random.default_rng(0)
    public = pd.DataFrame(
        {"x": rng.normal(size=50), "y": rng.normal(size=50), "g": np.tile([0.25, 1.0], 25)}
    )
    floats = pd.DataFrame(
        {"x": rng.normal(size=600), "y": rng.normal(size=600), "g": np.tile([0.25, 1.0], 300)}
    )
    floats.loc[599, name] = ODD[odd]
    objects = floats.astype({name: object})
    objects.at[599, name] = odd
    call = {"budget": ZCDP(1), "progress": False, "random_state": 1}
    means = [estimate_mean(frame, x_pub=public, **call).mean for frame in (floats, objects)]
    assert np.array_equal(*means)
    counts = [
        value_counts(frame["g"], keys=[0.25, 1], **call).counts for frame in (floats, objects)
    ]
    assert np.array_equal(*counts)
    apart = {
        "x_pub": public[["x"]],
        "y_pub": public["y"],
        "weights_pub": public["g"],
        "weight_cap": 1.0,
    }
    fits = [
        linear_regression(frame[["x"]], frame["y"], weights_priv=frame["g"], **apart, **call)
        for frame in (floats, objects)
    ]
    assert np.array_equal(*[fit.coefficients for fit in fits])
    fits = [
        linear_regression(frame, x_pub=public, label="y", **call) for frame in (floats, objects)
    ]
    assert np.array_equal(*[fit.coefficients for fit in fits])


@pytest.mark.parametrize("odd", [2**70, "x", 10**400, None, 7])
def test_one_odd_identifier_is_a_person_of_its_own_or_nobody(odd):
    """1,000 persons with two rows each, as floats and as objects: one row of one of them has an odd identifier."""
    ids = np.repeat(np.arange(1000.0), 2)
    frame = pd.DataFrame(
        {
            "id": pd.Series([*ids[:-1], odd], dtype=object),
            "x": np.repeat(np.linspace(0, 1, 1000), 2),
        }
    )
    call = {"x_pub": pd.DataFrame({"x": [0.1, 0.5, 0.9]}), "budget": ZCDP(1e4), "progress": False}
    by_column = estimate_mean(frame, person="id", rows_per_person=2, **call)
    by_series = estimate_mean(frame[["x"]], person=frame["id"], rows_per_person=2, **call)
    assert by_column.mean == pytest.approx([0.5], abs=0.01)
    assert by_series.mean == pytest.approx([0.5], abs=0.01)


def test_texts_and_numbers_are_identifiers_beside_each_other():
    ids = objects(["a", "a", 1, 1.0, True, None, "b", 2**70])
    frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "x": np.arange(8.0)})
    assert sorted(rows_of_each(frame, "id")) == [1.0, 1.0, 2.0, 3.0]
    assert sorted(rows_of_each(frame[["x"]], ids)) == [1.0, 1.0, 2.0, 3.0]


def test_public_objects_that_are_no_numbers_are_named():
    private = pd.DataFrame(
        {"a": [1.0, 2.0], "name": pd.Series(["Alice-SSN-123", "Bob"], dtype=object)}
    )
    public = pd.DataFrame({"a": [1.0, 2.0], "name": pd.Series(["north", "south"], dtype=object)})
    caught = raises(
        InputError, r"not numeric.*'name'", estimate_mean, private, x_pub=public, budget=ZCDP(1)
    )
    assert "Alice" not in str(caught)
