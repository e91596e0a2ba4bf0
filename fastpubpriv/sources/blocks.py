"""Rows of which any range can be read directly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

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


def even_chunks(rows: Rows, chunk_rows: int) -> Iterator[Chunk]:
    """All rows, exactly `chunk_rows` at a time but for the last: where a key or a step belongs to a range, whatever the source."""
    held: list[Chunk] = []
    count = 0
    for chunk in rows.chunks(chunk_rows=chunk_rows):
        held.append(chunk)
        count += len(chunk)
        if count >= chunk_rows:
            both = held[0] if len(held) == 1 else np.concatenate(held)
            yield both[:chunk_rows]
            held, count = [both[chunk_rows:]] if count > chunk_rows else [], count - chunk_rows
    if count:
        yield held[0] if len(held) == 1 else np.concatenate(held)
