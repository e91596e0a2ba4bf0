"""What all views have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from fastpubpriv._types import IntArray
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.blocks import in_blocks


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
