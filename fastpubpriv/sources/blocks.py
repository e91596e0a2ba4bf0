"""Rows of which any range can be read directly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from fastpubpriv.sources.base import Chunk, Rows


class RandomAccessRows(Rows):
    """Rows of which any range can be read directly, from any thread; a subclass says how in `block`."""

    __slots__ = ()

    random_access = True

    @abstractmethod
    def block(self, begin: int, end: int) -> Chunk:
        """See `Rows.block`."""

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return in_blocks(self, begin, end, chunk_rows)


def in_blocks(rows: Rows, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
    """Rows with random access, block by block."""
    for first in range(begin, end, chunk_rows):
        yield rows.block(first, min(first + chunk_rows, end))
