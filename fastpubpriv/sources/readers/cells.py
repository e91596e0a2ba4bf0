"""Cells of lines of text, and the numbers in them. The cells depend on their line alone, and a number on its cell alone.

A line has the cells that a reader of its columns expects, or it is a row of missing values. A comma separates two cells
unless an odd number of quotes stands before it on its line, and a line with an odd number of quotes has no cells. A
cell is a number if, out of its quotes and without the blanks around it, it is a decimal numeral; its value is then the
double nearest to it. Any other cell is NaN. In a column of text a cell is the place of its text in the public list of the column,
or NaN.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.sources.readers.arrow import load_pyarrow
from fastpubpriv.sources.readers.lines import QUOTE, Lines
from fastpubpriv.sources.readers.texts import arrow_places

Positions = IntArray
Column = tuple[int, tuple[str, ...] | None]  # its place on a line; its list, if it holds text

_COMMA = ord(",")
_BLANKS = " \t\r\v\f"
_NUMERAL = r"\A[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))\z"

# Of the texts made of these characters, Arrow parses exactly those that are decimal numerals (a test tries all short texts).
_SIMPLE = b"0123456789+-.eE"


def read_columns(lines: Lines, width: int, chosen: Sequence[Column]) -> list[FloatArray]:
    """The numbers, or places of texts, in some columns of lines that should have `width` cells, column by column."""
    codes = lines.text
    commas = np.flatnonzero(codes == _COMMA)
    quotes = np.flatnonzero(codes == QUOTE)
    whole = np.ones(len(lines), bool)
    if len(quotes):
        first, last = np.searchsorted(quotes, lines.begin), np.searchsorted(quotes, lines.end)
        whole = (last - first) % 2 == 0
        # The only quotes left are those in pairs on one line, so pairs are found without looking at the lines.
        quotes = quotes[_covered(len(quotes), first[whole], last[whole])]
        commas = commas[~_covered(len(commas), *np.searchsorted(commas, quotes.reshape(-1, 2)).T)]
    first = np.searchsorted(commas, lines.begin)
    whole &= np.searchsorted(commas, lines.end) - first == width - 1
    first = first[whole]
    columns = []
    for index, levels in chosen:
        begin, end = (
            lines.begin.copy(),
            lines.begin.copy(),
        )  # a line without cells: all its cells are empty, hence missing
        begin[whole] = lines.begin[whole] if index == 0 else commas[first + index - 1] + 1
        end[whole] = lines.end[whole] if index == width - 1 else commas[first + index]
        if len(quotes):
            _unquote(codes, begin, end)
        texts = _texts(codes, begin, end)
        columns.append(_numbers(texts) if levels is None else _places(texts, levels))
    return columns


def names_of(lines: Lines) -> list[str] | None:
    """The cells of the first line as column names; None if they cannot be. Raises if it is not UTF-8."""
    text = lines.text[lines.begin[0] : lines.end[0]].tobytes().decode("utf-8")
    # A carriage return within the line: a file whose lines end in carriage returns alone would be read as one long header.
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
        (cell[1:-1].replace('""', '"') if inside else cell).strip() for cell, inside in zip(cells, quoted, strict=True)
    ]


def _covered(n: int, begin: Positions, end: Positions) -> BoolArray:
    """Which of 0 ... n - 1 are in one of the ranges [begin, end), which are in order and do not overlap."""
    some = begin < end
    steps = np.zeros(n + 1, np.int8)
    steps[begin[some]] += 1
    steps[end[some]] -= 1
    return np.cumsum(steps[:n], dtype=np.int8).astype(np.bool_)


def _unquote(codes: NDArray[np.uint8], begin: Positions, end: Positions) -> None:
    """Move both ends of each quoted cell inwards, so that the quotes are left out."""
    at = np.flatnonzero(end - begin >= 2)
    at = at[(codes[begin[at]] == QUOTE) & (codes[end[at] - 1] == QUOTE)]
    begin[at] += 1
    end[at] -= 1


def _texts(codes: NDArray[np.uint8], begin: Positions, end: Positions) -> Any:
    """The cells codes[begin:end], which follow each other, as Arrow text; an empty one is missing."""
    pa = load_pyarrow()
    # Cells and what lies between them are one array of texts over the same bytes; every second text is kept.
    bounds = np.stack([begin, end], axis=1).astype(np.int32).ravel()
    missing = np.ones(len(bounds), bool)
    missing[::2] = begin < end
    return pa.StringArray.from_buffers(
        len(bounds) - 1,
        pa.py_buffer(bounds),
        pa.py_buffer(codes),
        pa.py_buffer(np.packbits(missing, bitorder="little")),
    ).take(pa.array(np.arange(0, len(bounds), 2)))


def _places(texts: Any, levels: Sequence[str]) -> FloatArray:
    """The places of texts in a list. A quote within a cell stands there twice, so it does in the list."""
    found: FloatArray = arrow_places(texts, [level.replace('"', '""') for level in levels])
    return found


def _numbers(texts: Any) -> FloatArray:
    """The number in each of the texts; NaN where there is none."""
    pa = load_pyarrow()
    parsed = _parsed(pa, texts) if _is_simple(texts) else None
    if parsed is None:
        texts = _numerals(pa, texts)
        parsed = _parsed(pa, texts)
    if parsed is None:
        # Both parsers round to the nearest double, so it does not matter which of them reads a numeral.
        parsed = pa.array([None if text is None else float(text) for text in texts.to_pylist()], pa.float64())
    return parsed.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _is_simple(texts: Any) -> bool:
    """Whether all texts that are not missing are made of _SIMPLE alone."""
    data = texts.buffers()[2]
    return data is None or not data.to_pybytes().translate(None, _SIMPLE)


def _numerals(pa: Any, texts: Any) -> Any:
    """The texts without the blanks around them; missing where what is left is not a numeral."""
    import pyarrow.compute

    texts = pyarrow.compute.ascii_trim(texts, characters=_BLANKS)
    # Matched as bytes: text that is not UTF-8 then simply does not match.
    kept = pyarrow.compute.match_substring_regex(texts.cast(pa.binary()), _NUMERAL)
    return pyarrow.compute.if_else(kept, texts, pa.scalar(None, pa.string()))


def _parsed(pa: Any, texts: Any) -> Any:
    """The texts as doubles, or None if Arrow cannot parse one of them as a number."""
    with contextlib.suppress(pa.ArrowInvalid):
        return texts.cast(pa.float64())
    return None
