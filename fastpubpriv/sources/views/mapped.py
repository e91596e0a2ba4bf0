"""Rows under a public linear map. Each row is mapped by itself, by operations in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.views.view import View


def linear_rows(rows: Rows, matrix: FloatArray) -> Rows:
    """The rows `matrix @ x` of the rows x of a source, (n, len(matrix)) float64; without BLAS, so that the chunk changes no bit."""
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
    """Map the rows of a chunk, (k, len(matrix)) float64, column by column; zero entries of the matrix are skipped."""
    out: Chunk = np.zeros((len(chunk), len(matrix)))
    with np.errstate(all="ignore"):
        for j, row in enumerate(matrix):
            for i in np.flatnonzero(row):
                out[:, j] += chunk[:, i].astype(np.float64) * row[i]
    return out
