"""Noisy sum of a vector that is computed from each row by itself, or of its outer product with itself.

Privacy notes: `notes/statistic_sum.md`, `notes/two_pieces.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.maps import RowMap
from fastpubpriv.mechanisms.squares import mirror
from fastpubpriv.mechanisms.sums import AffineMap, Measurement, Released, SecondMoment, sum_grid
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk

_NUMBERS = 1 << 17  # of the statistics that are held at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatisticQuery(Query):
    """Sum of the integer rows made of statistic(row)."""

    statistic: Callable[[Any], FloatArray]
    row_map: RowMap
    cost: int

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.row_map.out_dim, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        # A few rows at a time: what they become is then read while it is still in the second-level cache.
        size = max(64, _NUMBERS // self.row_map.out_dim)
        for begin in range(0, len(chunk), size):
            part = np.ascontiguousarray(self.statistic(chunk[begin : begin + size]))
            kernels.rows_sum(part, self.row_map, accumulators[0])

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return self.cost


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatisticSum(Measurement[Fraction, Released]):
    """Release the sum over the rows of statistic(row), each clipped to norm `radius`.

    `statistic` maps a chunk (n, columns) to (n, dim) float64, every output row from its own input row and public numbers alone; a
    row with a non-finite entry counts as zero. `cost` and the sensitivity are those of `VectorSum`.
    """

    statistic: Callable[[Any], FloatArray]
    dim: int
    radius: float
    row_cost: int

    def release(self, account: Account, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, run the pass and add noise."""
        grid = sum_grid(account, cost, self.dim, rows.n)
        row_map = AffineMap(dim=self.dim).on_grid(grid, self.radius)

        query = partial(
            executor.run, StatisticQuery(statistic=self.statistic, row_map=row_map, cost=self.row_cost), rows
        )
        unit = grid.step(self.radius)
        value = release(account, name=name, query=query, shape=(self.dim,), event=grid.event, unit=unit)
        return Released(value=value, noise_std=grid.event.noise_std * unit, event=grid.event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatisticGramQuery(StatisticQuery):
    """Sum of q q^T over the integer rows q made of statistic(row), which leaves out rows that are zero."""

    triangle: bool

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros((self.row_map.out_dim, self.row_map.out_dim), dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        size = max(64, _NUMBERS // self.row_map.out_dim)
        for begin in range(0, len(chunk), size):
            part = np.ascontiguousarray(self.statistic(chunk[begin : begin + size]))
            if len(part):
                kernels.rows_gram(part, self.row_map, accumulators[0])

    def answer(self, accumulators: tuple[IntArray]) -> IntArray:
        """See `Query.answer`."""
        square = mirror(accumulators[0])
        return square[np.triu_indices(len(square))] if self.triangle else square


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatisticGram(SecondMoment):
    """Release the sum over the rows of y y^T, y = statistic(row) clipped to norm `radius`; `affine` is the identity.

    `statistic` maps a chunk to (k, dim) float64, every output row from its own input row and public numbers alone; rows that would
    be zero may be left out. Noise and sensitivity are those of `SecondMoment`.
    """

    statistic: Callable[[Any], FloatArray]
    row_cost: int

    def _query(self, row_map: RowMap, triangle: bool) -> Query:
        return StatisticGramQuery(statistic=self.statistic, row_map=row_map, cost=self.row_cost, triangle=triangle)
