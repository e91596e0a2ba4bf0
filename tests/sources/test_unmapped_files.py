"""Files that are read without a memory map: the same rows, and an error instead of a dead process if a file becomes shorter."""

import os

import numpy as np
import pyarrow as pa
import pytest
from helpers_sources import content
from pyarrow import feather, ipc, parquet

import fastpubpriv as fpp
from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows

X = np.random.default_rng(3).normal(5.0, 2.0, (6000, 3))


@pytest.mark.parametrize(
    "array",
    [
        X,
        X.astype(np.float32),
        np.asfortranarray(X),
        X.astype(">f8"),
        np.arange(60).reshape(20, 3),
        X[:, 0].copy(),
        X > 5.0,
        np.asfortranarray(X.astype(np.float32)),
    ],
    ids=[
        "double",
        "single",
        "fortran",
        "big-endian",
        "integers",
        "one column",
        "flags",
        "single by columns",
    ],
)
def test_the_rows_of_a_numpy_file_are_those_of_its_map(array, tmp_path):
    np.save(tmp_path / "x.npy", array)
    mapped = private_rows(tmp_path / "x.npy")
    read = private_rows(tmp_path / "x.npy", memory_map=False)
    assert read.n == mapped.n
    assert read.dim == mapped.dim
    assert read.kind == mapped.kind
    assert read.columns == mapped.columns
    for rows in ((0, None, None), (3, 17, 5)):
        found = content(read, *rows)
        expected = content(mapped, *rows)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(read.take(np.array([7, 2, 7])), mapped.take(np.array([7, 2, 7])))


def write_stream(table, path):
    with ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table)


WRITERS = {
    "x.parquet": parquet.write_table,
    "x.arrow": lambda table, path: feather.write_feather(table, path, compression="uncompressed"),
    "x.feather": feather.write_feather,
    "x.ipc": write_stream,
    "x.csv": lambda table, path: table.to_pandas().to_csv(path, index=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_rows_of_a_table_are_those_of_its_map(name, tmp_path):
    WRITERS[name](
        pa.table({"a": X[:, 0], "text": ["x"] * len(X), "b": X[:, 1].astype(np.float32)}),
        str(tmp_path / name),
    )
    mapped = private_rows(tmp_path / name, columns=["b", "a"])
    read = private_rows(tmp_path / name, columns=["b", "a"], memory_map=False)
    assert read.n == 6000
    assert read.columns == ("b", "a")
    np.testing.assert_array_equal(content(read), content(mapped))


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.arrow", "x.ipc"])
def test_a_file_that_becomes_shorter_raises_and_the_debit_stays(name, tmp_path):
    path = tmp_path / name
    if name == "x.npy":
        np.save(path, X)
    else:
        WRITERS[name](pa.table(dict(zip("abc", X.T, strict=True))), str(path))
    rows = private_rows(path, memory_map=False)
    ledger = fpp.Ledger(fpp.ZCDP(1))
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(InputError):
        fpp.estimate_mean(rows, x_pub=X[:9].copy(), budget=fpp.ZCDP(0.5), ledger=ledger)
    assert len(ledger.entries) == 1


def test_a_list_of_files_is_read_without_a_map(tmp_path):
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for path in paths:
        parquet.write_table(pa.table({"a": X[:, 0]}), path)
    np.testing.assert_array_equal(content(private_rows(paths, memory_map=False))[:6000], X[:, :1])


@pytest.mark.parametrize(
    "source",
    [X, [[1.0]], Rows.from_chunks(lambda: [X], n=6000, dim=3)],
    ids=["array", "list", "rows"],
)
def test_only_files_are_read_without_a_map(source):
    with pytest.raises(InputError, match="memory_map=False is for the path of a file"):
        private_rows(source, memory_map=False)


def test_a_public_file_that_is_the_private_one_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", X)
    rows = private_rows(tmp_path / "x.npy", memory_map=False)
    with pytest.raises(InputError, match="the same file"):
        fpp.estimate_mean(rows, x_pub=tmp_path / "x.npy", budget=fpp.ZCDP(1))
