"""Parsing of text files into rows: lines, cells, numbers, and CSV files. Every reader of text uses this module.

A record is a physical line: the bytes between two line feeds, without one carriage return at their end. The content of a line does
not affect how another line is read or where it begins, and cannot raise: a replaced line changes one row, and never n.

Types are never inferred from private cells: a cell depends on its line alone, and a number on its cell alone. A comma separates two
cells unless it follows an odd number of quotes on its line. A line with an odd number of quotes, or with another number of cells
than expected, is a row of missing values. A cell is a number if, without quotes and stripped of blanks, it is a decimal numeral;
its value is the nearest double. In a text column a cell becomes the index of its text in the public list of the column. Any other
cell is NaN.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources import tables
from fastpubpriv.sources.arrays import existing_file
from fastpubpriv.sources.lazy_modules import compute, pa
from fastpubpriv.sources.row_types import Chunk, PathLike, Rows
from fastpubpriv.threads.guard import call_guarded, iterate_guarded

MAX_LINE_BYTES = 1 << 24  # a longer line is read as an empty one, to bound the memory

_PIECE_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_FEED, CARRIAGE_RETURN, QUOTE = b'\n\r"'


@dataclass(frozen=True, slots=True, eq=False)
class TextLines:
    """Consecutive lines of a text: line i is `text[begin[i]:end[i]]` without its line feed, empty if longer than MAX_LINE_BYTES."""

    text: NDArray[np.uint8]
    begin: IntArray
    end: IntArray

    def __len__(self) -> int:
        return len(self.begin)

    def part(self, first: int, last: int) -> TextLines:
        """Return lines `first` to `last` over the same buffer."""
        return TextLines(self.text, self.begin[first:last], self.end[first:last])


def read_lines(path: str, join_quoted: bool = False) -> Iterator[TextLines]:
    """Yield all lines of a file (plain, `.gz` or `.bz2`) in order; any bytes after the last line feed are a line."""
    # With `join_quoted` a line feed ends a line only after an even number of quotes since the beginning of the file.
    pending = bytearray()
    at_start = True
    odd = 0
    with _opened(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            codes = np.frombuffer(piece, np.uint8)
            feeds = np.flatnonzero(codes == LINE_FEED)
            if join_quoted:
                quotes = np.flatnonzero(codes == QUOTE)
                feeds = feeds[(np.searchsorted(quotes, feeds) + odd) % 2 == 0]
                odd ^= len(quotes) % 2
            cut = int(feeds[-1]) + 1 if len(feeds) else 0
            if cut:
                yield _lines(bytes(pending) + piece[:cut], feeds + len(pending), at_start)
                pending.clear()
                at_start = False
            # One byte beyond the limit marks a line as too long; its further bytes are dropped.
            pending += piece[cut : cut + MAX_LINE_BYTES + 1 - len(pending)]
    if pending:
        yield _lines(bytes(pending), np.array([len(pending)]), at_start)


def count_lines(path: str, join_quoted: bool = False) -> int:
    """Return the number of lines that `read_lines` yields."""
    if join_quoted:
        return sum(len(lines) for lines in read_lines(path, join_quoted))
    count = 0
    last = b"\n"
    with _opened(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            count += piece.count(b"\n")
            last = piece[-1:]
    return count + (last != b"\n")


def _lines(text: bytes, feeds: IntArray, at_start: bool) -> TextLines:
    """Return the lines with line feeds at these positions; the first line begins at 0."""
    codes = np.frombuffer(text, np.uint8)
    begin = np.concatenate(([0], feeds[:-1] + 1))
    # Lengths are compared before carriage returns are dropped, since a truncated line has lost its end.
    too_long = feeds - begin > MAX_LINE_BYTES
    if at_start and text.startswith(_BYTE_ORDER_MARK):
        begin[0] = len(_BYTE_ORDER_MARK)
    end = feeds - ((feeds > begin) & (codes[feeds - 1] == CARRIAGE_RETURN))
    return TextLines(codes, begin, np.where(too_long, begin, end))


def _opened(path: str) -> BinaryIO | gzip.GzipFile | bz2.BZ2File:
    name = path.lower()
    if name.endswith(".gz"):
        return gzip.open(path, "rb")
    return bz2.open(path, "rb") if name.endswith(".bz2") else open(path, "rb")


Positions = IntArray
# index of its cell on a line; encoding of a text column
Column = tuple[int, tables.TextRule | None]

_COMMA = ord(",")
_BLANKS = " \t\r\v\f"
_NUMERAL = r"\A[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))\z"

# Among texts of these characters, Arrow parses exactly the decimal numerals (a test tries all short texts).
_SIMPLE = b"0123456789+-.eE"


@dataclass(frozen=True, slots=True, eq=False)
class LineCells:
    """Cells of lines: `complete` says which lines have `width` cells and an even number of quotes; other lines have no cells."""

    lines: TextLines
    width: int
    complete: BoolArray
    commas: Positions  # those that separate cells of complete lines
    first: Positions  # index of the first comma of each complete line
    any_quotes: bool

    def texts(self, index: int) -> Any:
        """Return cell `index` of each line as Arrow text, without the quotes around a quoted cell; an empty cell is missing."""
        lines = self.lines
        complete = self.complete
        # The cells of an incomplete line are empty, hence missing.
        begin = lines.begin.copy()
        end = lines.begin.copy()
        begin[complete] = (
            lines.begin[complete] if index == 0 else self.commas[self.first + index - 1] + 1
        )
        end[complete] = (
            lines.end[complete] if index == self.width - 1 else self.commas[self.first + index]
        )
        if self.any_quotes:
            at = np.flatnonzero(end - begin >= 2)
            at = at[(lines.text[begin[at]] == QUOTE) & (lines.text[end[at] - 1] == QUOTE)]
            begin[at] += 1
            end[at] -= 1
        return _texts(lines.text, begin, end)


def split_cells(lines: TextLines, width: int) -> LineCells:
    """Return the cells of lines that should have `width` cells each."""
    commas = np.flatnonzero(lines.text == _COMMA)
    quotes = np.flatnonzero(lines.text == QUOTE)
    complete = np.ones(len(lines), bool)
    if len(quotes):
        first = np.searchsorted(quotes, lines.begin)
        last = np.searchsorted(quotes, lines.end)
        complete = (last - first) % 2 == 0
        # The remaining quotes are paired within lines, so consecutive positions are pairs.
        quotes = quotes[_covered(len(quotes), first[complete], last[complete])]
        commas = commas[~_covered(len(commas), *np.searchsorted(commas, quotes.reshape(-1, 2)).T)]
    first = np.searchsorted(commas, lines.begin)
    complete &= np.searchsorted(commas, lines.end) - first == width - 1
    return LineCells(lines, width, complete, commas, first[complete], bool(len(quotes)))


def read_columns(lines: TextLines, width: int, chosen: Sequence[Column]) -> list[FloatArray]:
    """Return the numbers, or codes of texts, of the chosen columns of lines with `width` cells; NaN for other lines."""
    cells = split_cells(lines, width)
    columns = []
    for index, levels in chosen:
        texts = cells.texts(index)
        columns.append(
            numbers_of(texts) if levels is None else tables.arrow_places(texts, levels, quoted=True)
        )
    return columns


def names_of(lines: TextLines) -> list[str] | None:
    """Return the cells of the first line as column names, None if it is not a header; raise if it is not UTF-8."""
    text = lines.text[lines.begin[0] : lines.end[0]].tobytes().decode("utf-8")
    # A file with carriage returns as its only line ends would be read as one long header.
    if not text or "\r" in text or text.count('"') % 2:
        return None
    cells: list[str] = []
    for piece in text.split(","):
        if cells and cells[-1].count('"') % 2:
            cells[-1] += f",{piece}"
        else:
            cells.append(piece)
    quoted = [len(cell) >= 2 and cell[0] == cell[-1] == '"' for cell in cells]
    return [
        (cell[1:-1].replace('""', '"') if inside else cell).strip()
        for cell, inside in zip(cells, quoted, strict=True)
    ]


def _covered(n: int, begin: Positions, end: Positions) -> BoolArray:
    """Return (n,) True for indices in one of the ranges [begin, end), which are ascending and disjoint."""
    some = begin < end
    steps = np.zeros(n + 1, np.int8)
    steps[begin[some]] += 1
    steps[end[some]] -= 1
    return np.cumsum(steps[:n], dtype=np.int8).astype(np.bool_)


def _texts(codes: NDArray[np.uint8], begin: Positions, end: Positions) -> Any:
    """Return the cells codes[begin:end], in ascending positions, as Arrow text; an empty cell is missing."""
    # Cells and the gaps between them form one text array over the same buffer, of which every second entry is taken.
    bounds = np.stack([begin, end], axis=1).astype(np.int32).ravel()
    missing = np.ones(len(bounds), bool)
    missing[::2] = begin < end
    return pa.StringArray.from_buffers(
        len(bounds) - 1,
        pa.py_buffer(bounds),
        pa.py_buffer(codes),
        pa.py_buffer(np.packbits(missing, bitorder="little")),
    ).take(pa.array(np.arange(0, len(bounds), 2)))


def numbers_of(texts: Any) -> FloatArray:
    """Return the number in each text, NaN if it is not a numeral."""
    parsed = _parsed(texts) if _is_simple(texts) else None
    if parsed is None:
        texts = _numerals(texts)
        parsed = _parsed(texts)
    if parsed is None:
        # Both parsers round to the nearest double, so they agree on every numeral.
        parsed = pa.array(
            [None if text is None else float(text) for text in texts.to_pylist()], pa.float64()
        )
    return np.asarray(parsed.to_numpy(zero_copy_only=False))


def _is_simple(texts: Any) -> bool:
    """Return whether all texts that are not missing consist of characters in _SIMPLE."""
    data = texts.buffers()[2]
    return data is None or not data.to_pybytes().translate(None, _SIMPLE)


def _numerals(texts: Any) -> Any:
    """Return the stripped texts, missing where the rest is not a numeral."""
    texts = compute.ascii_trim(texts, characters=_BLANKS)
    # Matched as bytes, so that text that is not UTF-8 does not match instead of raising.
    is_numeral = compute.match_substring_regex(texts.cast(pa.binary()), _NUMERAL)
    return compute.if_else(is_numeral, texts, pa.scalar(None, pa.string()))


def _parsed(texts: Any) -> Any:
    """Return the texts as doubles, or None if Arrow cannot parse one of them."""
    with contextlib.suppress(pa.ArrowInvalid):
        return texts.cast(pa.float64())
    return None


_F64 = np.dtype(np.float64)


class CsvRows(tables.RestartedRows):
    """Rows of the CSV file `path`, whose lines are joined between quotes if `join_quoted`."""

    __slots__ = ("join_quoted", "path")

    def __init__(
        self, path: str, join_quoted: bool, n: int, labels: Sequence[Any], open_at: tables.Open
    ) -> None:
        super().__init__(n, "csv", labels, open_at, "the CSV file has changed since it was opened")
        self.path = path
        self.join_quoted = join_quoted


def csv_rows(path: PathLike, columns: Sequence[str] | None, join_quoted: bool) -> Rows:
    """Return rows of a CSV file, read as a stream: read the header, select the columns, and count the lines."""
    name = existing_file(path)
    message = (
        f"{name!r} cannot be read as a CSV file: its first line must be a header with the names of the columns, "
        "in UTF-8 and ending in a line feed"
    )
    header = call_guarded(lambda: next(map(names_of, read_lines(name, join_quoted)), None), message)
    if header is None:
        raise InputError(message)
    if any(_looks_like_a_number(cell) for cell in header):
        # The line may be a private row, so it is not quoted.
        raise InputError(
            f"the first line of {name!r} holds numbers: add a header line with the column names"
        )
    # In a file without a header the first line is a private row, so only names given by the caller are quoted.
    labels = tables.choose(
        header, columns, f"the header of {name!r} (names between commas)", list_names=False
    )
    n = call_guarded(lambda: count_lines(name, join_quoted), message) - 1
    chosen = [(header.index(label), getattr(label, "levels", None)) for label in labels]

    def chunks(skipped: int, chunk_rows: int) -> Iterator[Chunk]:
        for lines in read_lines(name, join_quoted):
            if skipped < len(lines):
                yield from _chunks_of(
                    lines.part(skipped, len(lines)), len(header), chosen, chunk_rows
                )
            skipped = max(skipped - len(lines), 0)

    def open_at(begin: int, chunk_rows: int) -> tuple[int, Iterator[Chunk]]:
        return begin, chunks(begin + 1, chunk_rows)  # + 1: the header line

    return CsvRows(name, join_quoted, n, labels, open_at)


def _chunks_of(
    lines: TextLines, width: int, chosen: Sequence[Column], chunk_rows: int
) -> Iterator[Chunk]:
    columns = read_columns(lines, width, chosen)
    for start in range(0, len(lines), chunk_rows):
        stop = min(start + chunk_rows, len(lines))
        yield tables.assemble([lambda b, e, c=c: c[b:e] for c in columns], start, stop, _F64)  # type: ignore[misc]


def csv_stream(path: str, columns: Sequence[str]) -> Iterator[Chunk]:
    """Yield chunks of the chosen columns of a CSV text that can be read only once, such as the standard input."""
    message = "the rows must begin with a header: a line with the names of the columns, in UTF-8"
    pieces = iterate_guarded(read_lines(path))
    first: TextLines | None = next(pieces, None)
    header = None if first is None else call_guarded(lambda: names_of(first.part(0, 1)), message)
    if first is None or header is None or any(_looks_like_a_number(cell) for cell in header):
        raise InputError(message)
    labels = tables.choose(
        header, columns, "the header of the rows (names between commas)", list_names=False
    )
    chosen = [(header.index(label), None) for label in labels]
    lines = itertools.chain([first.part(1, len(first))], pieces)
    return iterate_guarded(
        chunk for piece in lines for chunk in _chunks_of(piece, len(header), chosen, sys.maxsize)
    )


def _looks_like_a_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    # a column may be called "inf"
    return cell.lower().lstrip("+-") not in {"nan", "inf", "infinity"}
