"""The lines of a private text file: the one place where bytes become records, for every reader of text.

A record is a physical line: the bytes between two line feeds, without one carriage return at their end. Whatever a line
holds, it does not change where other lines begin and end and cannot make reading fail, so a replaced line changes one row and
never n. A parser gets lines and reads each by itself; a line that it cannot use is a row of missing values and counts for nothing.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import IntArray

MAX_LINE_BYTES = 1 << 24  # a longer line is read as an empty one, so that no line fills the memory

_PIECE_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_FEED, CARRIAGE_RETURN, QUOTE = b'\n\r"'


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Consecutive lines of a text: line i is `text[begin[i]:end[i]]`, without its line feed; a line that is too long is empty."""

    text: NDArray[np.uint8]
    begin: IntArray
    end: IntArray

    def __len__(self) -> int:
        return len(self.begin)

    def part(self, first: int, last: int) -> Lines:
        """Lines first to last, over the same text."""
        return Lines(self.text, self.begin[first:last], self.end[first:last])


def read_lines(path: str, join_quoted: bool = False) -> Iterator[Lines]:
    """Yield all lines of a file (plain, `.gz` or `.bz2`), in order; what follows the last line feed is a line if it is not empty.

    With `join_quoted` a line feed ends a line only after an even number of quotes since the beginning of the file.
    """
    pending = bytearray()
    at_start, odd = True, 0
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
            # One byte more than may be in a line shows that it is too long; its other bytes are not kept.
            pending += piece[cut : cut + MAX_LINE_BYTES + 1 - len(pending)]
    if pending:
        yield _lines(bytes(pending), np.array([len(pending)]), at_start)


def count_lines(path: str, join_quoted: bool = False) -> int:
    """The number of lines that `read_lines` yields."""
    if join_quoted:
        return sum(len(lines) for lines in read_lines(path, join_quoted))
    count, last = 0, b"\n"
    with _opened(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            count += piece.count(b"\n")
            last = piece[-1:]
    return count + (last != b"\n")


def _lines(text: bytes, feeds: IntArray, at_start: bool) -> Lines:
    """The lines that end at these positions, the first of which begins at 0."""
    codes = np.frombuffer(text, np.uint8)
    begin = np.concatenate(([0], feeds[:-1] + 1))
    # Lengths are compared first: a line that was cut has lost its end, and with it the carriage return.
    too_long = feeds - begin > MAX_LINE_BYTES
    if at_start and text.startswith(_BYTE_ORDER_MARK):
        begin[0] = len(_BYTE_ORDER_MARK)
    end = feeds - ((feeds > begin) & (codes[feeds - 1] == CARRIAGE_RETURN))
    return Lines(codes, begin, np.where(too_long, begin, end))


def _opened(path: str) -> BinaryIO | gzip.GzipFile | bz2.BZ2File:
    name = path.lower()
    if name.endswith(".gz"):
        return gzip.open(path, "rb")
    return bz2.open(path, "rb") if name.endswith(".bz2") else open(path, "rb")
