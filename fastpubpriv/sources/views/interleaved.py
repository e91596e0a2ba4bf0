"""Blocks of rows that are spread over a whole source: for data that come sorted or in groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from fastpubpriv._types import BoolArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.views.view import View

# Row i has the mark i g mod 2^64, where g / 2^64 is near the fraction of the golden ratio. Marks are integers, so they are the same
# on every machine, and they are spread so evenly that any range of rows has its share of each block, to within a few rows.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SEGMENT = 1 << 15


def interleave_rows(rows: Rows, *shares: int) -> tuple[Rows, ...]:
    """Disjoint blocks with sizes in proportion to `shares`, each spread over all rows; the number of rows alone decides them.

    A row keeps its order within its block. InputError when a block would have no row.
    """
    whole = sum(shares)
    ends = [Fraction(sum(shares[: index + 1]), whole) for index in range(len(shares))]
    cuts = [0, *(math.floor(end * 2**64) for end in ends)]
    found: list[Rows] = []
    for low, high in itertools.pairwise(cuts):
        block = _Members(rows.n, low, high)
        if block.size < 1:
            raise InputError(f"{rows.n} rows are too few for {len(shares)} blocks: each needs at least one row")
        found.append(Interleaved(rows, block))
    return tuple(found)


class _Members:
    """Which rows have a mark from `low` to below `high`, and how many there are before each segment."""

    __slots__ = ("high", "low", "n", "prefix")

    def __init__(self, n: int, low: int, high: int) -> None:
        self.n, self.low, self.high = n, np.uint64(low), np.uint64(high - 1)
        counts = [int(np.count_nonzero(self.mask(begin, min(begin + _SEGMENT, n)))) for begin in range(0, n, _SEGMENT)]
        self.prefix = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    @property
    def size(self) -> int:
        """Rows of the block."""
        return int(self.prefix[-1])

    def mask(self, begin: int, end: int) -> BoolArray:
        """Whether each of the rows begin to end is in the block."""
        marks = np.arange(begin, end, dtype=np.uint64) * _GOLDEN
        inside: BoolArray = (marks >= self.low) & (marks <= self.high)
        return inside

    def before(self, row: int) -> int:
        """Rows of the block among the first `row` rows of the source."""
        segment = row // _SEGMENT
        return int(self.prefix[segment]) + int(np.count_nonzero(self.mask(segment * _SEGMENT, row)))

    def positions(self, begin: int, end: int) -> IntArray:
        """Positions in the source of rows begin to end of the block."""
        first = int(np.searchsorted(self.prefix, begin, side="right")) - 1
        last = int(np.searchsorted(self.prefix, end, side="left"))
        start = first * _SEGMENT
        found = start + np.flatnonzero(self.mask(start, min(last * _SEGMENT, self.n)))
        skipped = begin - int(self.prefix[first])
        return found[skipped : skipped + end - begin].astype(np.int64)


class Interleaved(View):
    """A block that is spread over a source."""

    __slots__ = ("_members",)

    def __init__(self, rows: Rows, members: _Members) -> None:
        super().__init__(rows, members.size, rows.dim, rows.kind, rows.columns)
        self._members = members

    @property
    def arguments(self) -> tuple[_Members]:
        """See `View.arguments`."""
        return (self._members,)

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        if begin == end:
            return []
        first, last = (int(self._members.positions(at, at + 1)[0]) for at in (begin, end - 1))
        return [(0, first, last + 1)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return np.array([self._members.before(int(end)) for end in ends], dtype=np.int64)

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end of the block, copied."""
        if begin == end:
            return self._rows.block(0, 0)
        places = self._members.positions(begin, end)
        first = int(places[0])
        taken: Chunk = self._rows.block(first, int(places[-1]) + 1)[places - first]
        return taken

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        if begin == end:
            return
        at = int(self._members.positions(begin, begin + 1)[0])
        # A pass to the end of the block reads the source to its end, so that the source can check its number of rows.
        stop = self._rows.n if end == self.n else int(self._members.positions(end - 1, end)[0]) + 1
        for chunk in self._rows.chunks(at, stop, chunk_rows):
            taken = chunk[self._members.mask(at, at + len(chunk))]
            at += len(chunk)
            if len(taken):
                yield taken
