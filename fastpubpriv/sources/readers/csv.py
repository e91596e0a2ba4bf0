"""Rows of a CSV file, and public tables of one.

Types are never inferred from private cells. Every line is one row, read without regard to other lines, and every cell of a chosen
column is a number or NaN, so the content of one row cannot change how another is read, raise an error, or be quoted in one.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, PathLike, Rows
from fastpubpriv.sources.readers.array import check_count, existing_file
from fastpubpriv.sources.readers.arrow import load_pyarrow
from fastpubpriv.sources.readers.cells import Column, names_of, read_columns
from fastpubpriv.sources.readers.columns import assemble, choose
from fastpubpriv.sources.readers.lines import Lines, count_lines, read_lines
from fastpubpriv.sources.readers.texts import name_of
from fastpubpriv.threads.guard import call_guarded, iterate_guarded

_F64 = np.dtype(np.float64)


class CsvRows(Rows):
    """Rows of a CSV file with a header, streamed."""

    __slots__ = ("_chosen", "_join_quoted", "_path", "_width")

    def __init__(self, path: str, width: int, chosen: dict[str, int], n: int, join_quoted: bool) -> None:
        super().__init__(n, len(chosen), "csv", tuple(map(name_of, chosen)))
        self._path = path
        self._width = width
        self._chosen = [(place, getattr(label, "levels", None)) for label, place in chosen.items()]
        self._join_quoted = join_quoted

    @classmethod
    def from_path(cls, path: PathLike, columns: Sequence[str] | None, join_quoted: bool) -> CsvRows:
        """Read the header, choose the columns, and count the lines."""
        name = existing_file(path)
        load_pyarrow()
        message = (
            f"{name!r} cannot be read as a CSV file: its first line must be a header with the names of the columns, "
            "in UTF-8 and ending in a line feed"
        )
        header = call_guarded(lambda: _header(name, join_quoted), message)
        if header is None:
            raise InputError(message)
        if any(_looks_like_a_number(cell) for cell in header):
            # The line may be a private row, so it is not quoted.
            raise InputError(f"the first line of {name!r} holds numbers: add a header line with the column names")
        # In a file without a header the first line is a private row, so only names that the caller gave are quoted.
        labels = choose(header, columns, f"the header of {name!r} (names between commas)", list_names=False)
        n = call_guarded(lambda: count_lines(name, join_quoted), message) - 1
        return cls(name, len(header), {label: header.index(label) for label in labels}, n, join_quoted)

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return check_count(
            self._pieces(begin, end, chunk_rows), end - begin, "the CSV file has changed since it was opened"
        )

    def _pieces(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        if begin == end:
            return
        stop = end if end < self.n else sys.maxsize  # a pass to the last row reads on, to notice an extra line
        position = -1  # of the header
        for lines in read_lines(self._path, self._join_quoted):
            first, last = max(begin - position, 0), min(stop - position, len(lines))
            position += len(lines)
            if first < last:
                yield from self._parsed(lines.part(first, last), chunk_rows)
            if position >= stop:
                return

    def _parsed(self, lines: Lines, chunk_rows: int) -> Iterator[Chunk]:
        columns = read_columns(lines, self._width, self._chosen)
        for start in range(0, len(lines), chunk_rows):
            stop = min(start + chunk_rows, len(lines))
            yield assemble([lambda b, e, c=c: c[b:e] for c in columns], start, stop, _F64)  # type: ignore[misc]


def csv_stream(path: str, columns: Sequence[str]) -> Iterator[Chunk]:
    """Chunks of the chosen columns of a CSV text that can be read only once, such as the standard input."""
    load_pyarrow()
    message = "the rows must begin with a header: a line with the names of the columns, in UTF-8"
    pieces = iterate_guarded(read_lines(path))
    first: Lines | None = next(pieces, None)
    header = None if first is None else call_guarded(lambda: names_of(first.part(0, 1)), message)
    if first is None or header is None or any(_looks_like_a_number(cell) for cell in header):
        raise InputError(message)
    labels = choose(header, columns, "the header of the rows (names between commas)", list_names=False)
    chosen = [(header.index(label), None) for label in labels]
    return iterate_guarded(_once(itertools.chain([first.part(1, len(first))], pieces), len(header), chosen))


def _once(pieces: Iterator[Lines], width: int, chosen: Sequence[Column]) -> Iterator[Chunk]:
    for lines in pieces:
        if len(lines):
            columns = read_columns(lines, width, chosen)
            yield assemble([lambda b, e, c=c: c[b:e] for c in columns], 0, len(lines), _F64)  # type: ignore[misc]


def _header(name: str, join_quoted: bool) -> list[str] | None:
    """The column names, from the first line; None if it is not a header."""
    for lines in read_lines(name, join_quoted):
        return names_of(lines)
    return None


def _looks_like_a_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.lower().lstrip("+-") not in {"nan", "inf", "infinity"}  # a column may be called "inf"


def public_table(path: PathLike, texts: Iterable[str] = ()) -> Any:
    """A public CSV file as an Arrow table, types inferred but for columns of text; errors quote what Arrow says."""
    name = existing_file(path)
    pa = load_pyarrow()
    import pyarrow.csv

    try:
        as_text = pyarrow.csv.ConvertOptions(column_types={label: pa.string() for label in texts})
        table = pyarrow.csv.read_csv(name, convert_options=as_text)
        labels = [label.strip() for label in table.column_names]  # as in the header of a private file
        return table.rename_columns(labels)
    except UnicodeDecodeError:
        reason = "the first line is not UTF-8 text; save the file as UTF-8"
    except (pa.ArrowException, OSError) as error:
        reason = str(error)
    raise InputError(f"{name!r} cannot be read as a CSV file: {reason}")
