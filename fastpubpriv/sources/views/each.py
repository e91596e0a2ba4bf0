"""Rows under a function of chunks that treats each row by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.views.view import View

OfChunk = Callable[[Chunk], Chunk]


def each_row(rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None = None) -> Rows:
    """Rows of `dim` columns, function(chunk) of a source; what becomes of a row must not depend on the rows beside it."""
    return Each(rows, function, dim, columns)


class Each(View):
    """The rows of a source, each changed by itself."""

    __slots__ = ("_function",)

    def __init__(self, rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None) -> None:
        super().__init__(rows, rows.n, dim, rows.kind, columns)
        self._function = function

    @property
    def arguments(self) -> tuple[Any, ...]:
        """See `View.arguments`."""
        return self._function, self.dim, self.columns

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end."""
        return self._function(self._rows.block(begin, end))

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(begin, end, chunk_rows):
            yield self._function(chunk)
