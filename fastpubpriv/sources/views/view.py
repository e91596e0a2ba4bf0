"""What all views have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.blocks import in_blocks
from fastpubpriv.validation import integer


class View(Rows):
    """Rows made from those of another source: with random access if the source has it, otherwise read in order by `_streamed`.

    A view can be made again over other sources of the same shape, `type(view)(*sources, *view.arguments)`: a worker of a
    cluster does so with the part of the source that it holds.
    """

    __slots__ = ("_rows", "cluster", "random_access")

    def __init__(self, rows: Rows, n: int, dim: int, kind: str, columns: tuple[str, ...] | None) -> None:
        super().__init__(n, dim, kind, columns)
        self._rows = rows
        self.random_access = rows.random_access
        self.cluster = rows.cluster

    @property
    def sources(self) -> tuple[Rows, ...]:
        """The sources that the view is made of."""
        return (self._rows,)

    @property
    @abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """What the view was made with, beside its sources: public values that can be pickled."""

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Ranges that rows begin to end of the view are made of: number of the source, first row, end."""
        return [(0, begin, end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """Positions in the view between which as few ranges as possible reach over one of the `ends` in a source."""
        del source
        return ends

    @abstractmethod
    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        """As `_chunks`, from a source that is read in order."""

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return in_blocks(self, begin, end, chunk_rows) if self.random_access else self._streamed(begin, end, chunk_rows)


# ---- A range of the rows of a source, as a source of its own ---------------------------------------------------------


def slice_rows(rows: Rows, begin: int, end: int) -> Rows:
    """Rows begin to end, which must be a range within the rows."""
    begin, end = integer("begin", begin, minimum=0), integer("end", end, minimum=0)
    if not begin < end <= rows.n:
        raise InputError(f"rows {begin} to {end} are not a block within the {rows.n} rows of this source")
    return Slice(rows, begin, end)


def split_rows(rows: Rows, *shares: int) -> tuple[Rows, ...]:
    """Contiguous blocks with sizes in proportion to `shares`; the number of rows alone decides them. The last block takes the
    remainder.

    InputError when a block would have no row.
    """
    whole = sum(shares)
    ends = [int(Fraction(rows.n * sum(shares[: index + 1]), whole)) for index in range(len(shares))]
    starts = [0, *ends[:-1]]
    if any(begin >= end for begin, end in zip(starts, ends, strict=True)):
        raise InputError(f"{rows.n} rows are too few for {len(shares)} blocks: each needs at least one row")
    return tuple(rows.slice(begin, end) for begin, end in zip(starts, ends, strict=True))


class Slice(View):
    """A block of a source."""

    __slots__ = ("_begin",)

    def __init__(self, rows: Rows, begin: int, end: int) -> None:
        super().__init__(rows, end - begin, rows.dim, rows.kind, rows.columns)
        self._begin = begin

    @property
    def arguments(self) -> tuple[int, int]:
        """See `View.arguments`."""
        return self._begin, self._begin + self.n

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, self._begin + begin, self._begin + end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return ends - self._begin

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end of the block."""
        return self._rows.block(self._begin + begin, self._begin + end)

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return self._rows.chunks(self._begin + begin, self._begin + end, chunk_rows)
