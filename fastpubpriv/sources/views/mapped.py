"""Rows under a public linear map, each by itself and in one order of operations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.views.view import View


def linear_rows(rows: Rows, matrix: FloatArray) -> Rows:
    """Rows matrix x, (n, len(matrix)) float64, of a source; no BLAS, so a row has the same bits in every chunk."""
    return Mapped(rows, matrix)


class Mapped(View):
    """A mapped source."""

    __slots__ = ("_matrix",)

    def __init__(self, rows: Rows, matrix: FloatArray) -> None:
        super().__init__(rows, rows.n, len(matrix), rows.kind, None)
        self._matrix = matrix

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end, mapped."""
        return mapped(self._rows.block(begin, end), self._matrix)

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
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
