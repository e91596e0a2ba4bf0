"""What `private_rows`, `public_rows` and `Rows.from_csv` get by mistake: an error of this library, without a word of a file."""

import builtins
import io
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from helpers.errors import raises, shown

from fastpubpriv import InputError, Rows
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.open import public_rows

X = np.random.default_rng(6).normal(size=(1500, 2))
SECRET = "Alice-SSN-123"
READERS = [private_rows, public_rows, Rows.from_csv]
FILES = [private_rows, public_rows]
NO_SOURCES = [
    5,
    None,
    1.5,
    math.nan,
    True,
    b"x.npy",
    [],
    (),
    {},
    object(),
    lambda: 0,
    "a\0b",
    "\ud800.npy",
    "a\0b.npy",
    "a\0b.parquet",
    "a\0b.csv",
    "a\0b.feather",
    "a\0b.arrow",
    "a\0b.csv.gz",
    "x" * 5000 + ".npy",
    "x" * 5000 + ".parquet",
    "x" * 5000 + ".csv",
    "x" * 5000 + ".feather",
    ["a\0.parquet"],
    [b"a.parquet"],
    [Path("a.parquet"), 5],
    np.array("x.npy"),
    Path("no.npy"),
    type("P", (), {}),
]


@pytest.mark.parametrize("wrong", NO_SOURCES, ids=shown)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_what_is_no_source(read, wrong):
    raises(InputError, None, read, wrong)


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".arrow", ".csv"])
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_directory_is_no_file(read, suffix, tmp_path):
    directory = tmp_path / f"d{suffix}"
    directory.mkdir()
    raises(InputError, "is a directory", read, directory)


NO_COLUMNS = [
    5,
    math.nan,
    True,
    "b",
    b"a",
    {"a"},
    {"a": 1},
    [["a"]],
    [{}],
    [math.nan],
    [None],
    lambda: 0,
    ["a", "a"],
]


@pytest.mark.parametrize("columns", NO_COLUMNS)
def test_what_are_no_columns(columns):
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    for source in (frame, private_rows(frame), X, [frame.to_dict()]):
        raises(InputError, None, private_rows, source, columns=columns)


@pytest.mark.parametrize("number", [-1, 2.0, math.nan, "5", [1], True])
def test_what_are_no_ranges_of_rows(number):
    rows = private_rows(X)

    def chunks(*arguments):
        return list(rows.chunks(*arguments))

    def nothing():
        return []

    raises(InputError, None, chunks, number, 9)
    raises(InputError, None, chunks, 0, number)
    raises(InputError, None, chunks, 0, 9, number)
    raises(InputError, None, rows.slice, 0, number)
    raises(InputError, None, Rows.from_chunks, nothing, n=number, dim=2)
    raises(InputError, None, Rows.from_chunks, nothing, n=2, dim=number)


def test_files_without_permission(tmp_path, monkeypatch):
    """As far as Python opens them, since a test may run as the one user whom nothing is forbidden."""
    table = pa.table({"a": [1.0, 2.0]})
    pa.feather.write_feather(table, str(tmp_path / "t.feather"))
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", X)
    real = builtins.open

    def forbidden(name, *args, **options):
        if str(name).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", SECRET)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "open", forbidden)
    monkeypatch.setattr(io, "open", forbidden)
    for path in tmp_path.iterdir():
        if os.geteuid() != 0:
            path.chmod(0)
        elif path.suffix == ".parquet":
            continue  # opened by Arrow itself
        for read in FILES:
            assert SECRET not in str(raises(InputError, "cannot be read", read, path))


@pytest.mark.parametrize("suffix", ["arrow", "feather", "parquet"])
def test_column_names_that_are_not_utf8(suffix, tmp_path):
    name = "Alice_SSN"
    table = pa.table({name: [1.0, 2.0], "b": [3.0, 4.0]})
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pa.parquet.write_table(table, path, store_schema=False)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    content = path.read_bytes()
    assert name.encode() in content
    path.write_bytes(content.replace(name.encode(), b"Alice\xff\xfeSN"))
    for read in FILES:
        caught = raises(InputError, "cannot be read", read, path)
        assert "Alice" not in str(caught)
        assert caught.__context__ is None
