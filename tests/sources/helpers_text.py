"""Text files made of hostile records, and a plain reading of one record that the readers are compared with."""

import bz2
import csv
import gzip
import re
from pathlib import Path

import numpy as np
from helpers_sources import content, silently

from fastpubpriv.sources import Rows

# Every reader of private text belongs here: how a file with these records is written, and how its rows are read. Columns
# "b" and "a" of "a,skip,b" are read, in this order, so that there is a column that is not read at all.
HEADER = b"a,skip,b"
CHOSEN = ("b", "a")
PLAIN = b"1.5,x,-2"

CORPUS = [
    (row["what"], bytes.fromhex(row["record"]))
    for row in csv.DictReader(
        (Path(__file__).parent / "hostile_records.csv").read_text("utf-8").splitlines()
    )
]


def file_of(records, header=HEADER, end=b"\n"):
    return b"".join(line + end for line in (header, *records))


def csv_rows(folder, text, suffix=".csv", **options):
    path = folder / f"t{suffix}"
    pack = {".gz": lambda raw: gzip.compress(raw, 1), ".bz2": lambda raw: bz2.compress(raw, 1)}
    path.write_bytes(pack.get(suffix[4:], bytes)(text))
    return Rows.from_csv(path, CHOSEN, **options)


TEXT_READERS = {
    suffix: lambda folder, text, suffix=suffix: csv_rows(folder, text, suffix)
    for suffix in (".csv", ".csv.gz", ".csv.bz2")
}


def values_of(rows):
    """All rows, in one array; any warning is an error."""
    return silently(lambda: content(rows))


def one_row(line, width=3, chosen=(2, 0), limit=1 << 24):
    """The row of one line, cell by cell, in plain Python: what the readers must give, wherever the line stands."""
    missing = [np.nan] * len(chosen)
    if len(line) > limit:
        return missing
    cells = [b""]
    for index, piece in enumerate(line.removesuffix(b"\r").split(b'"')):
        if index:
            cells[-1] += b'"'
        first, *others = [piece] if index % 2 else piece.split(b",")
        cells[-1] += first
        cells += others
    return (
        [number_of(cells[j]) for j in chosen]
        if len(cells) == width and line.count(b'"') % 2 == 0
        else missing
    )


def number_of(cell):
    if len(cell) >= 2 and cell[:1] == cell[-1:] == b'"':
        cell = cell[1:-1]
    text = cell.strip(b" \t\r\v\f").decode("latin-1")
    numeral = r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf|infinity)"
    return float(text) if re.fullmatch(numeral, text, re.ASCII | re.IGNORECASE) else np.nan


def same(found, expected):
    """Equal bit by bit, but for what a NaN looks like."""
    found = np.asarray(found, np.float64)
    expected = np.asarray(expected, np.float64)
    blank = np.isnan(expected)
    return (
        found.shape == expected.shape
        and (np.isnan(found) == blank).all()
        and found[~blank].tobytes() == expected[~blank].tobytes()
    )


def rows_changed(read, folder, records, index, record, before=None):
    """Replaces one record; how many other rows change, counting an exception and another n as all of them.

    `before` are the rows of the records as they are, if they are known.
    """
    replaced = [*records[:index], record, *records[index + 1 :]]
    before = values_of(read(folder, file_of(records))) if before is None else before
    try:
        after = values_of(read(folder, file_of(replaced)))
    except Exception:
        return len(records)
    if before.shape != after.shape:
        return len(records)
    others = np.arange(len(records)) != index
    return int((before.view(np.int64) != after.view(np.int64)).any(axis=1)[others].sum())
