"""Rows under a public linear map. Each row is mapped by itself, by operations in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.views.each import each_row


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
