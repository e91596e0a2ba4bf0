"""Noisy counts of public cells: of the line for each column, or of rows by a public code.

Privacy notes: `notes/cell_counts.md`, `notes/code_counts.md`, `notes/real_columns.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels.rows import cells_apart, cells_of_column, columns_cells, columns_count
from fastpubpriv.mechanisms.sums import Measurement, Released
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent
from fastpubpriv.privacy.calibration import gaussian_count_grid, laplace_count_grid
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellQuery(Query):
    """For each column, the numbers of rows below its first edge, between each edge and the next, and from the last edge on.

    A value on an edge belongs to the cell on its right; one that is not finite is in no cell.
    """

    edges: tuple[FloatArray, ...]  # ascending
    scale: int = 1

    def zeros(self) -> tuple[IntArray, ...]:
        """See `Query.zeros`."""
        return (np.zeros(sum(len(cuts) + 1 for cuts in self.edges), dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        columns_cells(chunk, self.edges, accumulators[0])

    def answer(self, accumulators: tuple[IntArray, ...]) -> IntArray:
        """A count is scaled up to the noise grid, never the noise down."""
        counts: IntArray = accumulators[0]
        counts *= self.scale
        return counts

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return 16 * len(self.edges)

    @property
    def in_place(self) -> bool:
        """See `Query.in_place`."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeQuery(Query):
    """For each coding, the number of rows with each code that `codes` gives, times `scale`; any other number is in no cell."""

    cells: tuple[int, ...]
    scale: int
    codes: Callable[[Any], list[IntArray]]
    cost: int

    def zeros(self) -> tuple[IntArray, ...]:
        """See `Query.zeros`."""
        return tuple(np.zeros(size, dtype=np.int64) for size in self.cells)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        for found, size, counts in zip(self.codes(chunk), self.cells, accumulators, strict=True):
            counts[:] += np.bincount(found[(found >= 0) & (found < size)], minlength=size)

    def answer(self, accumulators: tuple[IntArray, ...]) -> IntArray:
        """A count is scaled up to the noise grid, never the noise down."""
        counts: IntArray = np.concatenate(accumulators)
        counts *= self.scale
        return counts

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return self.cost


def count_event(
    cost: Fraction, histograms: int, cells: int, n: int, *, pure: bool
) -> tuple[GaussianEvent | LaplaceEvent, int]:
    """The event of a joint release of histograms, of so many cells in all, at this cost, and the grid steps of one count.

    A replaced row moves two counts of each histogram by one: the shares of the cost that are for each add up.

    Examples
    --------
    >>> event, steps = count_event(Fraction(1, 4), 2, 8192, 1000, pure=False)
    >>> event.rho <= Fraction(1, 4), event.draws
    (True, 8192)
    """
    grid = (laplace_count_grid if pure else gaussian_count_grid)(cost / histograms, cells, n)
    steps = grid.quant_bound
    if pure:
        return LaplaceEvent(2 * steps * histograms, grid.log2_scale, cells), steps
    return GaussianEvent(2 * steps**2 * histograms, grid.log2_scale, cells), steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellCounts(Measurement[Fraction, Released]):
    """Release how many rows are in each cell between the ascending `edges` of each column, column after column.

    Discrete Laplace noise at `cost` epsilon for all columns together (l1 sensitivity 2 for each), or Gaussian noise at `cost` rho
    (squared l2 sensitivity 2 for each). Every cell is released, empty or not: the cells are public.
    """

    edges: list[FloatArray]
    gaussian: bool = False

    def release(self, account: Account, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, run the pass and add noise."""
        columns, cells = len(self.edges), sum(len(cuts) + 1 for cuts in self.edges)
        event, steps = count_event(cost, columns, cells, rows.n, pure=not self.gaussian)
        query = partial(executor.run, CellQuery(edges=tuple(self.edges), scale=steps), rows)
        unit = 1.0 / steps
        value = release(account, name=name, query=query, shape=(cells,), event=event, unit=unit)
        return Released(value=value, noise_std=event.noise_std * unit, event=event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignedCellQuery(Query):
    """Rows by the signed dyadic cell of each column about `center`, (dim, cells), times `scale`; see `kernels.rows`.

    The accumulators have a gap between columns.
    """

    center: FloatArray
    log2_parts: int
    neutral: bool
    scale: int

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros((len(self.center), cells_apart(self.log2_parts)), dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        columns_count(chunk, self.center, self.log2_parts, self.neutral, accumulators[0])

    def answer(self, accumulators: tuple[IntArray]) -> IntArray:
        """A count is scaled up to the noise grid, never the noise down."""
        return accumulators[0][:, : cells_of_column(self.log2_parts)] * self.scale

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return 4 * len(self.center)

    @property
    def in_place(self) -> bool:
        """See `Query.in_place`."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignedCells(Measurement[Fraction, Released]):
    """Release, for each column, how many rows are in each signed dyadic cell about `center`, at zero and missing: (dim, cells).

    Each row is in one cell of each column. If `neutral`, a row with a number that is not finite is missing in every column.
    """

    center: FloatArray
    log2_parts: int
    neutral: bool = False

    def release(self, account: Account, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, run the pass and add noise."""
        shape = dim, cells = len(self.center), cells_of_column(self.log2_parts)
        event, steps = count_event(cost, dim, dim * cells, rows.n, pure=account.pure)
        counts = SignedCellQuery(center=self.center, log2_parts=self.log2_parts, neutral=self.neutral, scale=steps)
        query = partial(executor.run, counts, rows)
        value = release(account, name=name, query=query, shape=shape, event=event, unit=1.0 / steps)
        return Released(value=value, noise_std=event.noise_std / steps, event=event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeCounts(Measurement[Fraction, Released]):
    """Release, for each of several codings, how many rows have each code 0 ... cells - 1; coding after coding.

    Discrete Laplace noise at `cost` epsilon for all codings together (l1 sensitivity 2 for each), or Gaussian noise at `cost` rho
    (squared l2 sensitivity 2 for each). `codes` maps a chunk to one int64 array for each coding, each row by itself; a row with any
    other number is in no cell.
    """

    codes: Callable[[Any], list[IntArray]]
    cells: list[int]
    row_cost: int
    gaussian: bool = False

    def release(self, account: Account, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, run the pass and add noise."""
        codings, cells = len(self.cells), sum(self.cells)
        event, steps = count_event(cost, codings, cells, rows.n, pure=not self.gaussian)
        counts = CodeQuery(cells=tuple(self.cells), scale=steps, codes=self.codes, cost=self.row_cost)
        query = partial(executor.run, counts, rows)
        unit = 1.0 / steps
        value = release(account, name=name, query=query, shape=(cells,), event=event, unit=unit)
        return Released(value=value, noise_std=event.noise_std * unit, event=event)
