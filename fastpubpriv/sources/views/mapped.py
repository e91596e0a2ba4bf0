"""Rows under a public linear map, each by itself and in one order of operations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.sources.base import Chunk, RandomAccessRows, Rows


def linear_rows(rows: Rows, matrix: FloatArray) -> Rows:
    """Rows matrix x, (n, len(matrix)) float64, of a source; no BLAS, so a row has the same bits in every chunk."""
    return RandomAccessMapped(rows, matrix) if isinstance(rows, RandomAccessRows) else StreamedMapped(rows, matrix)


class RandomAccessMapped(RandomAccessRows):
    """A mapped source of which any range can be read."""

    __slots__ = ("_matrix", "_rows")

    def __init__(self, rows: RandomAccessRows, matrix: FloatArray) -> None:
        super().__init__(rows.n, len(matrix), rows.kind, None)
        self._rows, self._matrix = rows, matrix

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end, mapped."""
        return mapped(self._rows.block(begin, end), self._matrix)


class StreamedMapped(Rows):
    """A mapped source that is read in order."""

    __slots__ = ("_matrix", "_rows")

    def __init__(self, rows: Rows, matrix: FloatArray) -> None:
        super().__init__(rows.n, len(matrix), rows.kind, None)
        self._rows, self._matrix = rows, matrix

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(begin, end, chunk_rows):
            yield mapped(chunk, self._matrix)


def mapped(chunk: Chunk, matrix: FloatArray) -> Chunk:
    """(k, len(matrix)) float64, column by column; zero entries of the matrix are skipped."""
    out: Chunk = np.zeros((len(chunk), len(matrix)))
    with np.errstate(all="ignore"):
        for j, row in enumerate(matrix):
            for i in np.flatnonzero(row):
                out[:, j] += chunk[:, i].astype(np.float64) * row[i]
    return out
