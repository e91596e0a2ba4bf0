"""Rows under a function of chunks that treats each row by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.views.view import View

# ---- Rows under a public linear map. Each row is mapped by itself, by operations in a fixed order --------------------


def linear_rows(rows: Rows, matrix: FloatArray) -> Rows:
    """The rows `matrix @ x` of the rows x of a source, (n, len(matrix)) float64; without BLAS, so that the chunk changes no bit."""
    return each_row(rows, Mapped(matrix), len(matrix))


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """`mapped` by one matrix: a value, so that it can be sent to where the rows are."""

    matrix: FloatArray

    def __call__(self, chunk: Chunk) -> Chunk:
        """See `mapped`."""
        return mapped(chunk, self.matrix)


def mapped(chunk: Chunk, matrix: FloatArray) -> Chunk:
    """Map the rows of a chunk, (k, len(matrix)) float64, column by column; zero entries of the matrix are skipped."""
    out: Chunk = np.zeros((len(chunk), len(matrix)))
    with np.errstate(all="ignore"):
        for j, row in enumerate(matrix):
            for i in np.flatnonzero(row):
                out[:, j] += chunk[:, i].astype(np.float64) * row[i]
    return out


OfChunk = Callable[[Chunk], Chunk]

# What a function makes on its way is as large as its chunk: in pieces of this size it stays in the cache of a core. Each call of
# NumPy for a piece gives up Python's lock and waits for it: the fewer pieces, the less two threads wait for each other.
PIECE_BYTES = 1 << 20


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

    def changed(self, chunk: Chunk) -> Chunk:
        """The rows of a chunk of the source, changed piece by piece."""
        size = max(1, PIECE_BYTES // (chunk.itemsize * max(self._rows.dim, self.dim)))
        if len(chunk) <= size:
            return self._function(chunk)
        first = self._function(chunk[:size])
        out: Chunk = np.empty((len(chunk), *first.shape[1:]), dtype=first.dtype)
        out[:size] = first
        for begin in range(size, len(chunk), size):
            out[begin : begin + size] = self._function(chunk[begin : begin + size])
        return out

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end."""
        return self.changed(self._rows.block(begin, end))

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(begin, end, chunk_rows):
            yield self.changed(chunk)


def read_and_changed(rows: Rows) -> tuple[Rows, OfChunk]:
    """What is read, chunk after chunk, and what is then done to each chunk, by whichever thread."""
    if not isinstance(rows, Each):
        return rows, _unchanged
    source, before = read_and_changed(rows.sources[0])
    return source, lambda chunk: rows.changed(before(chunk))


def _unchanged(chunk: Chunk) -> Chunk:
    return chunk
