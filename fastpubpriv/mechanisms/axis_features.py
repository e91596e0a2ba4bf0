"""The features of the diagonal rung: each row's coordinates and their squares. Privacy note: `notes/axis_features.md`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray

BLOCK = 2048


@dataclass(frozen=True, slots=True, eq=False)
class AxisFeatures:
    """The map x -> (v, (v^2 - 1) / sqrt(2)) for v = matrix (x - center), rows (n, dim) to (n, 2 dim).

    Every sum is made term by term, in the order of the columns, so that a row has the same bits whatever rows are in its chunk.
    """

    center: FloatArray
    matrix: FloatArray

    @property
    def out_dim(self) -> int:
        """Features of a row."""
        return 2 * len(self.center)

    def __call__(self, chunk: Any) -> FloatArray:
        """Map a chunk, in blocks that stay in the cache."""
        n, dim = len(chunk), len(self.center)
        out = np.empty((n, 2 * dim))
        with np.errstate(all="ignore"):
            for begin in range(0, n, BLOCK):
                self._block(np.asarray(chunk[begin : begin + BLOCK], dtype=np.float64), out[begin : begin + BLOCK])
        return out

    def _block(self, rows: FloatArray, out: FloatArray) -> None:
        dim = len(self.center)
        gaps = np.ascontiguousarray((rows - self.center).T)
        found = self.matrix[:, :1] * gaps[0]
        product = np.empty_like(found)
        for column in range(1, dim):
            np.multiply(self.matrix[:, column : column + 1], gaps[column], out=product)
            found += product
        out[:, :dim] = found.T
        np.multiply(found, found, out=product)
        product -= 1.0
        product /= math.sqrt(2.0)
        out[:, dim:] = product.T
