"""The released sum of a module's gradients over a secret batch: the library's own measurement, fed with rows by their position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.kernels.rows import rows_sum
from fastpubpriv.mechanisms.gradients import Gradient
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.row_maps import RowMap
from fastpubpriv.sources import Query
from fastpubpriv.sources.base import Chunk
from fastpubpriv.torch.rows import RowGradients, Table


@dataclass(frozen=True, slots=True, eq=False)
class ModuleGradient(Gradient):
    """Gradients of a module's loss by rows of a table; rows are asked for by position."""

    rows_of: RowGradients
    table: Table

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Gradient.shape`."""
        return (self.rows_of.size,)

    def query(self, grid: Any, clip_norm: float) -> Query:
        """See `Gradient.query`."""
        row_map = AffineMap(dim=self.rows_of.size).on_grid(grid, clip_norm)
        return ModuleGradientQuery(self.rows_of, self.table, row_map)


@dataclass(frozen=True, slots=True, eq=False)
class ModuleGradientQuery(Query):
    """Sum of the integer gradients of the rows at given positions."""

    rows_of: RowGradients
    table: Table
    row_map: RowMap

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.row_map.dim, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        places = chunk[:, 0].astype(np.int64)
        for begin in range(0, len(places), self.rows_of.piece):
            x, y, counts = self.table.rows(places[begin : begin + self.rows_of.piece], self.rows_of)
            found = self.rows_of.gradients(x, y)
            found[~counts] = 0.0
            rows_sum(found, self.row_map, accumulators[0])
