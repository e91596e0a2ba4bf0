"""Rows of a CSV file, and public tables of one.

Private cells are never given a type by looking at them: every cell of a chosen column is a number or NaN, cell by cell,
so that no text in one row can change how another row is read, raise an error, or be quoted by one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv.errors import InputError
from fastpubpriv.sources.arrow import load_pyarrow
from fastpubpriv.sources.columns import assemble, choose
from fastpubpriv.sources.guard import guarded
from fastpubpriv.sources.rows import Chunk, PathLike, Rows, check_count

_BLOCK_BYTES = 1 << 20
_F64 = np.dtype(np.float64)

# Characters that occur in no number that Arrow parses. Only a quick filter: what passes it is still parsed, cell by
# cell if need be.
_NEVER_IN_A_NUMBER = r"[^0-9eE+\-.,_()infatyINFATYxXpP\s]"


class CsvRows(Rows):
    """Rows of a CSV file with a header, streamed."""

    __slots__ = ("_header", "_labels", "_path")

    def __init__(self, path: str, header: Sequence[str], labels: Sequence[str], n: int) -> None:
        super().__init__(n, len(labels), "csv", tuple(labels))
        self._path = path
        self._header = tuple(header)
        self._labels = list(labels)

    @classmethod
    def from_path(cls, path: PathLike, columns: Sequence[str] | None) -> CsvRows:
        """Read the header, choose the columns, and count the lines."""
        name = _existing(path)
        message = (
            f"{name!r} cannot be read as a CSV file: a header line, then lines that have a cell for each name in it"
        )
        header = guarded(lambda: _header(name), message)
        if any(_looks_like_a_number(cell) for cell in header):
            # The line may be a private row, so it is not quoted.
            raise InputError(f"the first line of {name!r} holds numbers: add a header line with the column names")
        # A file without a header would show a private row here: names that the caller did not say are not listed.
        labels = choose(header, columns, f"the header of {name!r}", list_names=False)
        n = guarded(lambda: sum(batch.num_rows for batch in _open(name, header, labels[:1])), message)
        return cls(name, header, labels, n)

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return check_count(
            self._batches(begin, end, chunk_rows), end - begin, "the CSV file has changed since it was opened"
        )

    def _batches(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        position = 0
        for batch in _open(self._path, self._header, self._labels):
            first, last = max(begin - position, 0), min(end - position, batch.num_rows)
            position += batch.num_rows
            if first >= last:
                if begin < end <= position:
                    return
                continue
            columns = [cells_to_numbers(batch.column(label).slice(first, last - first)) for label in self._labels]
            for start in range(0, last - first, chunk_rows):
                stop = min(start + chunk_rows, last - first)
                yield assemble([lambda b, e, c=c: c[b:e] for c in columns], start, stop, _F64)  # type: ignore[misc]


def cells_to_numbers(cells: Any) -> NDArray[np.float64]:
    """A binary Array of cell texts as float64; a cell that is not a number is NaN, whatever its neighbours are."""
    pa = load_pyarrow()
    import pyarrow.compute

    text = cells.cast(options=pyarrow.compute.CastOptions(pa.string(), allow_invalid_utf8=True))
    parsed = _parsed(pa, text)
    if parsed is None:
        hopeless = pyarrow.compute.match_substring_regex(cells, _NEVER_IN_A_NUMBER)
        text = pyarrow.compute.if_else(hopeless, pa.scalar(None, pa.string()), text)
        parsed = pa.concat_arrays(_parsed_pieces(pa, text))
    return parsed.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _parsed(pa: Any, text: Any) -> Any:
    """The texts as doubles, or None if one of them is not a number."""
    import pyarrow.compute

    # Trimming changes no text that parses without it, so the quick try first judges no cell differently.
    with contextlib.suppress(pa.ArrowInvalid):
        return text.cast(pa.float64())
    with contextlib.suppress(pa.ArrowInvalid):
        return pyarrow.compute.ascii_trim_whitespace(text).cast(pa.float64())
    return None


def _parsed_pieces(pa: Any, text: Any) -> list[Any]:
    """As `_parsed`, halving where a piece fails, so that each cell is judged by the same parser and on its own."""
    whole = _parsed(pa, text)
    if whole is not None:
        return [whole]
    if len(text) == 1:
        return [pa.nulls(1, pa.float64())]
    half = len(text) // 2
    return _parsed_pieces(pa, text.slice(0, half)) + _parsed_pieces(pa, text.slice(half))


def _existing(path: PathLike) -> str:
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise InputError(f"there is no file {name!r}")
    return name


def _header(name: str) -> list[str]:
    """The column names, from the first line."""
    pa = load_pyarrow()
    import pyarrow.csv

    # Reading the first line as data keeps Arrow from guessing types, and from renaming repeated columns.
    options = pyarrow.csv.ReadOptions(autogenerate_column_names=True, block_size=_BLOCK_BYTES, use_threads=False)
    with pyarrow.csv.open_csv(name, read_options=options) as probe:
        width = len(probe.schema)
    types = {f"f{index}": pa.string() for index in range(width)}
    convert = pyarrow.csv.ConvertOptions(column_types=types, check_utf8=False)
    with pyarrow.csv.open_csv(name, read_options=options, convert_options=convert) as reader:
        batch = reader.read_next_batch()
    return [str(batch.column(index)[0].as_py()).strip() for index in range(width)]


def _open(name: str, header: Sequence[str], labels: Sequence[str]) -> Any:
    """A streaming reader of the cells of some columns as bytes, with missing cells null."""
    pa = load_pyarrow()
    import pyarrow.csv

    names = [f"{index}" for index in range(len(header))]
    chosen = [names[header.index(label)] for label in labels]
    read = pyarrow.csv.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=_BLOCK_BYTES)
    # In a file of one column an empty line is a missing cell, so a row; elsewhere it is only an empty line.
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(header) > 1)
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(chosen, pa.binary()),
        include_columns=chosen,
        strings_can_be_null=True,
        check_utf8=False,
    )
    reader = pyarrow.csv.open_csv(name, read_options=read, parse_options=parse, convert_options=convert)
    schema = pa.schema([(label, pa.binary()) for label in labels])
    return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader)


def _looks_like_a_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.lower().lstrip("+-") not in {"nan", "inf", "infinity"}  # a column may well be called "inf"


def public_table(path: PathLike) -> Any:
    """A public CSV file as an Arrow table, types inferred from its content; errors quote what Arrow says."""
    pa = load_pyarrow()
    import pyarrow.csv

    name = _existing(path)
    try:
        table = pyarrow.csv.read_csv(name)
        return table.rename_columns(
            [label.strip() for label in table.column_names]
        )  # as in the header of a private file
    except (pa.ArrowException, OSError) as error:
        reason = str(error)
    raise InputError(f"{name!r} cannot be read as a CSV file: {reason}")
