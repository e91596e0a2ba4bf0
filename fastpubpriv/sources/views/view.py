"""What all views have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from fastpubpriv.sources.base import Chunk, Rows, in_blocks


class View(Rows):
    """Rows made from those of another source: with random access if the source has it, otherwise read in order by `_streamed`."""

    __slots__ = ("_rows", "random_access")

    def __init__(self, rows: Rows, n: int, dim: int, kind: str, columns: tuple[str, ...] | None) -> None:
        super().__init__(n, dim, kind, columns)
        self._rows = rows
        self.random_access = rows.random_access

    @abstractmethod
    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        """As `_chunks`, from a source that is read in order."""

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return in_blocks(self, begin, end, chunk_rows) if self.random_access else self._streamed(begin, end, chunk_rows)
