"""Rows under a function of chunks that treats each row by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fastpubpriv.sources.base import Chunk, RandomAccessRows, Rows

OfChunk = Callable[[Chunk], Chunk]


def each_row(rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None = None) -> Rows:
    """Rows of `dim` columns, function(chunk) of a source; what becomes of a row must not depend on the rows beside it."""
    if isinstance(rows, RandomAccessRows):
        return RandomAccessEach(rows, function, dim, columns)
    return StreamedEach(rows, function, dim, columns)


class RandomAccessEach(RandomAccessRows):
    """The rows of a source of which any range can be read."""

    __slots__ = ("_function", "_rows")

    def __init__(self, rows: RandomAccessRows, function: OfChunk, dim: int, columns: tuple[str, ...] | None) -> None:
        super().__init__(rows.n, dim, rows.kind, columns)
        self._rows, self._function = rows, function

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end."""
        return self._function(self._rows.block(begin, end))


class StreamedEach(Rows):
    """The rows of a source that is read in order."""

    __slots__ = ("_function", "_rows")

    def __init__(self, rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None) -> None:
        super().__init__(rows.n, dim, rows.kind, columns)
        self._rows, self._function = rows, function

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(begin, end, chunk_rows):
            yield self._function(chunk)
