"""Rows read afresh in each pass: directories, datasets, streams and lazy frames, against the same rows in memory."""

import datetime
import os

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers_sources import column_sums, content, direct_sums, silently

from fastpubpriv import InputError, Rows
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.views import DistantPairs, Pairs

TEXT = "Alice-SSN-123"
N = 203
X = np.random.default_rng(3).normal(size=(N, 3))
X[4, 1] = np.nan
X[9] = np.inf
X[50] = 1e300
NAMES = ["a", "b", "c"]
TABLE = pa.table({name: X[:, k] for k, name in enumerate(NAMES)})


def directory(table, folder):
    """Three files in two folders; what a writer leaves beside them is not read."""
    for name, first, last in (("x/2", 0, 50), ("x/3", 50, 51), ("y/1", 51, N)):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        pq.write_table(
            table.slice(first, last - first), folder / f"{name}.parquet", row_group_size=20
        )
    (folder / "_SUCCESS").write_text(TEXT)
    (folder / "x" / "_metadata.parquet").write_text(TEXT)
    (folder / "notes.txt").write_text(TEXT)
    return folder


def stream(table):
    return lambda: pa.RecordBatchReader.from_batches(
        table.schema, table.to_batches(max_chunksize=30)
    )


KINDS = {
    "directory": directory,
    "files": lambda t, f: sorted(str(path) for path in directory(t, f).glob("*/[0-9].parquet")),
    "dataset of a directory": lambda t, f: ds.dataset(directory(t, f) / "y", format="parquet"),
    "dataset in memory": lambda t, f: ds.dataset(t),
    "stream": lambda t, f: stream(t),
    "lazy": lambda t, f: pl.from_arrow(t).lazy(),
    "lazy file": lambda t, f: pl.scan_parquet(str(directory(t, f) / "*" / "*[0-9].parquet")),
}


def opened(kind, table, folder, **options):
    return private_rows(KINDS[kind](table, folder), **options)


def expected(kind, table):
    return content(private_rows(table.slice(51) if kind == "dataset of a directory" else table))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_ranges(kind, tmp_path):
    rows = opened(kind, TABLE, tmp_path)
    direct = expected(kind, TABLE)
    assert rows.columns == tuple(NAMES)
    for size in (1, 3, 7, 64, None):
        assert content(rows, chunk_rows=size).tobytes() == direct.tobytes()
    for begin, end in ((0, 1), (49, 52), (50, 51), (100, rows.n), (3, 60), (rows.n, rows.n)):
        assert (
            b"".join(c.tobytes() for c in rows.chunks(begin, end, 11))
            == direct[begin:end].tobytes()
        )
    for view in (Pairs, DistantPairs, lambda r: r.slice(2, 150)):
        assert column_sums(view(rows), chunk_rows=9, threads=2) == column_sums(
            view(private_rows(direct))
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_read_without_regard_to_the_others(kind, tmp_path):
    """One row is replaced by numbers of every kind: the others keep their bits, and there are as many."""
    rows = opened(kind, TABLE, tmp_path / "before")
    shift = N - rows.n
    for number, value in enumerate((np.nan, -np.inf, 5e-324, 1.7e308, 2.0**53 + 1)):
        other = X.copy()
        other[100] = value
        table = pa.table({name: other[:, k] for k, name in enumerate(NAMES)})
        changed = content(opened(kind, table, tmp_path / str(number)), chunk_rows=13)
        direct = content(rows, chunk_rows=17)
        assert np.array_equal(
            np.delete(changed, 100 - shift, axis=0),
            np.delete(direct, 100 - shift, axis=0),
            equal_nan=True,
        )
        assert np.array_equal(changed[100 - shift], other[100], equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
def test_types_and_chosen_columns(kind, tmp_path):
    table = pa.table(
        {
            "f": pa.array(np.arange(N, dtype=np.float32)),
            "i": pa.array([None, 2**53 + 1, *range(N - 2)], pa.int64()),
            "t": [TEXT] * N,
            "d": [datetime.date(2020, 1, 1)] * N,
        }
    )
    for columns in (["i", "f"], ["f"]):
        rows = opened(kind, table, tmp_path, columns=columns)
        direct = expected(kind, table.select(columns))
        assert content(rows).dtype == direct.dtype
        assert np.array_equal(content(rows), direct, equal_nan=True)
    for columns in (None, ["t"], ["f", "d"], ["z"]):
        assert TEXT not in str(
            raises(InputError, None, opened, kind, table, tmp_path, columns=columns)
        )


def test_files_whose_types_differ(tmp_path):
    """Nothing is cast to the types of the first file: that would fail for some values."""
    for name, column in (
        ("1", pa.array([1.5], pa.float32())),
        ("2", pa.array([2**53 + 1, 3], pa.int64())),
        ("3", pa.array([2.5])),
    ):
        pq.write_table(pa.table({"a": column}), tmp_path / f"{name}.parquet")
    assert content(private_rows(tmp_path)).ravel().tolist() == [1.5, 2.0**53, 3.0, 2.5]
    pq.write_table(pa.table({"b": [1.0]}), tmp_path / "4.parquet")
    raises(InputError, "has no column 'a'", private_rows, tmp_path)
    pq.write_table(pa.table({"a": [TEXT]}), tmp_path / "4.parquet")
    assert TEXT not in str(raises(InputError, "not numeric", private_rows, tmp_path))


def test_keys_of_folders_are_columns(tmp_path):
    table = pa.table(
        {"a": [1.0, 2.0, 3.0, 4.0], "year": [2020, 2021, 2020, 2021], "place": ["x", "y", "x", "y"]}
    )
    pq.write_to_dataset(table.select(["a", "year"]), tmp_path / "years", partition_cols=["year"])
    pq.write_to_dataset(table.select(["a", "place"]), tmp_path / "places", partition_cols=["place"])
    assert content(private_rows(tmp_path / "years")).tolist() == [
        [1, 2020],
        [3, 2020],
        [2, 2021],
        [4, 2021],
    ]
    assert content(private_rows(tmp_path / "years", columns=["year"])).tolist() == [
        [2020],
        [2020],
        [2021],
        [2021],
    ]
    assert content(private_rows(tmp_path / "places", columns=["a"])).tolist() == [
        [1],
        [3],
        [2],
        [4],
    ]
    raises(InputError, "'place'", private_rows, tmp_path / "places")


def test_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.parquet").write_text(TEXT)

    def fails():
        raise InputError(TEXT)

    for source, words in (
        (tmp_path / "empty", "without .parquet files"),
        (tmp_path / "bad", "cannot be read"),
        (ds.dataset(TABLE).filter(ds.field("a") > 0), "without a filter"),
        (pl.LazyFrame({"a": []}, schema={"a": pl.Float64}), "no rows"),
        (pl.LazyFrame({"a": [TEXT]}), "not numeric"),
    ):
        assert TEXT not in str(raises(InputError, words, private_rows, source))
    for factory, words in ((lambda: TABLE, "RecordBatchReader each time"), (fails, "withheld")):
        assert TEXT not in str(raises(InputError, words, private_rows, factory))


def test_sources_that_change_between_passes(tmp_path):
    lengths = iter([4, 4, 5, 3])
    changing = private_rows(lambda: stream(TABLE.slice(0, next(lengths)))())
    assert len(content(changing)) == 4
    for _ in range(2):
        raises(InputError, "same rows in each pass", content, changing)
    once = iter([TABLE])
    raises(InputError, "withheld", content, private_rows(lambda: stream(next(once))()))
    rows = private_rows(directory(TABLE, tmp_path))
    pq.write_table(TABLE, tmp_path / "x" / "3.parquet")
    raises(InputError, None, content, rows)


def test_a_function_of_python_in_a_lazy_plan_is_not_called():
    def odd(frame):
        raise ValueError(TEXT)

    plan = pl.LazyFrame({"a": [1.0]}).map_batches(odd, schema={"a": pl.Float64})
    caught = raises(InputError, "cannot be looked into", private_rows, plan)
    assert TEXT not in repr((caught, caught.__context__))


# ---- Rows.from_chunks: declared shapes are kept, buffers may be reused, and what the factory raises stays inside.
X_OF_STREAMS = np.random.default_rng(3).normal(size=(41, 3))


def test_pieces_of_any_form():
    pieces = [
        X_OF_STREAMS[:5].astype(np.float32),
        [[1, 2, 3]],
        X_OF_STREAMS[5:7].astype(">f8"),
        np.asfortranarray(X_OF_STREAMS[7:9]),
        np.ones((2, 3), bool),
    ]
    rows = Rows.from_chunks(lambda: iter(pieces), n=12, dim=3)
    expected = np.concatenate([np.asarray(p, float) for p in pieces])
    assert silently(lambda: column_sums(rows)) == direct_sums(expected)


REFUSED = Refusals()
REFUSED.add_values("gave fewer rows than were declared: n = 41", [X_OF_STREAMS[:40]])
REFUSED.add_values("gave more rows than were declared: n = 41", [X_OF_STREAMS, X_OF_STREAMS[:1]])
REFUSED.add_values("2 columns where dim = 3", [X_OF_STREAMS[:, :2]])
REFUSED.add_values("two-dimensional", [X_OF_STREAMS[0]])
REFUSED.add_values("dtype text", [["Alice-SSN-123"]])
REFUSED.add_values("withheld", None)
REFUSED.add_values("cannot be read", ["Alice-SSN-123"])


@pytest.mark.parametrize(("pieces", "words"), REFUSED)
@pytest.mark.parametrize("threads", [1, 2])
def test_wrong_pieces(pieces, words, threads):
    rows = Rows.from_chunks(lambda: pieces, n=41, dim=3)
    caught = raises(InputError, words, column_sums, rows, threads=threads, chunk_rows=8)
    assert caught.__context__ is None
    assert "Alice" not in str(caught)


def test_iterators_that_are_not_fresh_and_bad_declarations():
    once = iter([X_OF_STREAMS])
    rows = Rows.from_chunks(lambda: once, n=41, dim=3)
    assert column_sums(rows) == direct_sums(X_OF_STREAMS)
    raises(InputError, r"gave fewer rows.*afresh", column_sums, rows)
    for n, dim in ((0, 3), (-1, 3), (3, 0), (2.0, 3), (True, 3), (3, "3"), (None, 1)):
        raises(InputError, None, Rows.from_chunks, lambda: [], n=n, dim=dim)
    raises(InputError, "lambda: iterable", Rows.from_chunks, [X_OF_STREAMS], n=41, dim=3)


# ---- Files that another program makes shorter after they were opened: fatal where they are mapped, harmless where they are not.
X_OF_TRUNCATED = np.random.default_rng(0).normal(size=(40_000, 3))


def written(folder, suffix):
    path = folder / f"x.{suffix}"
    table = pa.table({f"c{i}": X_OF_TRUNCATED[:, i] for i in range(3)})
    if suffix == "npy":
        np.save(path, X_OF_TRUNCATED)
    elif suffix == "parquet":
        pa.parquet.write_table(table, path)
    elif suffix == "feather":
        pa.feather.write_feather(table, str(path))
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("suffix", ["npy", "arrow", "feather", "parquet"])
def test_a_file_that_was_shorter_before_is_an_error(suffix, tmp_path):
    path = written(tmp_path, suffix)
    assert column_sums(private_rows(path), threads=2, chunk_rows=999) == direct_sums(X_OF_TRUNCATED)
    for length in (path.stat().st_size - 1, 5000, 100, 3, 0):
        os.truncate(path, length)
        raises(InputError, None, lambda: column_sums(private_rows(path)))
