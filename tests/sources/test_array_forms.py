"""Arrays and lists: which forms are read, which are refused, and that values never matter (groups A and B)."""

import array as stdlib_array
import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from helpers_sources import column_sums, direct_sums, silently

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows

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
        assert silently(lambda size=chunk_rows: column_sums(rows, chunk_rows=size)) == direct_sums(X)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f2", ">i4", ">f4", "f4"])
def test_other_number_types_are_converted(dtype):
    x = np.abs(X * 3).astype(dtype)
    rows = private_rows(x)
    assert column_sums(rows, chunk_rows=5) == direct_sums(x.astype(np.float64))
    chunk = next(rows.chunks())
    assert chunk.dtype == (np.float32 if dtype == "f4" else np.float64)
    assert chunk.dtype.isnative


def test_native_rows_are_views_and_never_written():
    wide = np.zeros((50, 9))
    for x in (X, X.astype(np.float32), wide[::2, 2:6]):
        chunk = next(Rows.from_array(x).chunks(3, 9))
        assert np.shares_memory(chunk, x)
        assert chunk.shape == (6, 4)
        assert chunk.strides[1] == chunk.itemsize


def test_integers_beyond_53_bits_are_rounded_silently():
    x = np.array([[2**63 - 1, -(2**63)], [1, 2]])
    assert silently(lambda: next(private_rows(x).chunks()))[0].tolist() == [2.0**63, -(2.0**63)]
    lists = silently(lambda: next(private_rows([[10**400, 2**70], [None, 1]]).chunks()))
    assert lists[0, 1] == 2.0**70
    assert np.isnan(lists[[0, 1], 0]).all()


@pytest.mark.parametrize(
    "bad", [np.nan, np.inf, -np.inf, 1.7e308, 5e-324, -0.0, 1e-300, np.array(0x7FF0000000000001).view(np.float64)[()]]
)
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "f2"])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_value_raises_or_warns(bad, dtype, threads):
    x = X.copy()
    x[3, 1] = bad
    x[5] = bad
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
    expected = silently(lambda: direct_sums_quiet(x))
    assert silently(lambda: column_sums(private_rows(x), threads=threads, chunk_rows=4)) == expected


def direct_sums_quiet(x):
    with np.errstate(all="ignore"):
        return direct_sums(x.astype(np.float64))


def test_all_rows_nan_is_an_empty_sum():
    assert silently(lambda: column_sums(private_rows(np.full((9, 2), np.nan)))) == [0, 0]


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (X.astype(object), "dtype object"),
        (np.array([["a", "b"]]), "dtype text"),
        (np.array([[b"a", b"b"]]), "dtype bytes"),
        (np.array([["a", "b"]], dtype=np.dtypes.StringDType()), "dtype"),
        (X.astype(complex), "real and imaginary"),
        (X.astype(np.longdouble), "astype"),
        (X.astype("M8[s]"), "datetime"),
        (np.zeros((3, 2), dtype=[("Alice", "f8")]), "structured"),
        (np.array(1.0), "0 dim"),
        (np.float64(1.0), "float64"),
        (X.reshape(-1, 2, 2), "3 dim"),
        (X[:0], "no rows"),
        (X[:, :0], "no columns"),
        (scipy.sparse.csr_matrix(X), "toarray"),
        (scipy.sparse.coo_array(X), "toarray"),
        (np.ma.masked_invalid(X), "filled"),
        (stdlib_array.array("d", [1.0]), "cannot be read"),
        ([[1.0, 2.0], [3.0]], "equal length"),
        ([], "no rows"),
        ([1.0, "x"], "dtype text"),
        (X[:0, 0], "no rows"),
        ([[]], "no columns"),
        ([["1", "2"]], "dtype text"),
        ([[1.0, "x"]], "dtype text"),
        ([[None, "x"]], "equal length"),
        ([[1j, 2.0]], "real and imaginary"),
        ([[object(), 2.0]], "equal length"),
        ((row for row in X), "only once"),
        (iter(X.tolist()), "only once"),
        ({"a": [1.0]}, "cannot be read"),
        (None, "cannot be read"),
        (3.0, "cannot be read"),
        (b"1,2,3", "cannot be read"),
    ],
)
def test_wrong_forms_say_what_to_pass(x, words):
    with pytest.raises(InputError, match=words) as caught:
        private_rows(x)
    assert caught.value.__context__ is None
    assert "Alice" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [X[:, 1], X[::2, 1], X[:, 1].tolist(), tuple(X[:, 1]), X[:, 1].astype("f4"), memoryview(X[:, 1].copy()), [1, None]],
)
def test_one_dimension_is_rows_of_one_number(line):
    found = np.concatenate(list(private_rows(line).chunks()))
    np.testing.assert_array_equal(found, np.array(line, dtype=float).reshape(-1, 1))
    assert private_rows(X[:, 1]).memory()[0].base is not None  # a view: nothing is copied


def test_foreign_arrays_are_refused_without_being_called():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("called")

    with pytest.raises(InputError, match=r"numpy\.asarray"):
        private_rows(Tensor())


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
    np.save(tmp_path / "o.npy", X.astype(object), allow_pickle=True)
    np.save(tmp_path / "line.npy", X[0])
    assert private_rows(tmp_path / "line.npy").dim == 1
    np.save(tmp_path / "cube.npy", X[None])
    np.save(tmp_path / "empty.npy", X[:0])
    (tmp_path / "text.npy").write_text("Alice-SSN-123")
    for name in ("o", "cube", "empty", "text", "absent"):
        with pytest.raises(InputError) as caught:
            private_rows(tmp_path / f"{name}.npy")
        assert caught.value.__context__ is None
        assert "Alice" not in str(caught.value)


def test_rows_pass_through_and_have_their_columns():
    rows = private_rows(X)
    assert private_rows(rows) is rows
    with pytest.raises(InputError, match="no names"):
        private_rows(rows, columns=["a"])
    with pytest.raises(InputError, match="no names"):
        private_rows(X, columns=["a"])


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
    with pytest.raises(TypeError) as caught:
        REFUSALS[action](rows)
    assert "0." not in str(caught.value)
    assert not hasattr(rows, "__dict__")


def test_rows_show_their_shape():
    rows = private_rows(X)
    assert repr(rows) == str(rows) == f"{rows}" == "Rows(n=37, dim=4, kind='array')"
    assert len(rows) == 37
    assert {rows: 1}[rows] == 1
