"""Noisy counts of rows in public cells: intervals of each column, or codes computed from each row by a public function.

Privacy notes: `notes/cell_counts.md`, `notes/code_counts.md`, `notes/real_columns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels.rows import (
    Codes,
    cells_apart,
    cells_of_column,
    columns_cells,
    columns_count,
)
from fastpubpriv.mechanisms.sums import ArrayQuery, NoiseEvent, NoisyMeasurement
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.sources.row_types import Chunk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGroups:
    """A public rule that divides the rows into groups, counted separately, with edges of each group (`own`) or common ones."""

    code: Callable[[Any], Codes]  # maps a chunk to groups 0 ... number - 1, each row independently
    number: int
    own: bool


def cells_between(edges: Sequence[FloatArray], groups: RowGroups | None) -> tuple[int, int]:
    """Return the number of columns, and the number of cells in all columns and groups."""
    number = 1 if groups is None else groups.number
    cells = sum(len(cuts) + 1 for cuts in edges)
    return (
        (len(edges) // number, cells)
        if groups is not None and groups.own
        else (len(edges), cells * number)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellQuery(ArrayQuery):
    """For each column and group, the number of rows below the first edge, between consecutive edges, and from the last one on."""

    # A value on an edge belongs to the cell on its right; one that is not finite is in no cell.
    edges: tuple[FloatArray, ...]  # ascending
    groups: RowGroups | None = None
    takes_columns = True

    @classmethod
    def of(cls, *edges: FloatArray, groups: RowGroups | None = None, scale: int = 1) -> CellQuery:
        """Build the query for the first columns, with one array of edges per column or, with own edges, per column and group."""
        columns, cells = cells_between(edges, groups)
        return cls(shape=(cells,), edges=edges, groups=groups, scale=scale, row_cost=16 * columns)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        if self.groups is None:
            columns_cells(chunk, self.edges, accumulators[0])
        else:
            groups = self.groups
            columns_cells(
                chunk, self.edges, accumulators[0], groups.code(chunk), groups.number, groups.own
            )

    @property
    def in_place(self) -> bool:
        """See `Query.in_place`."""
        return self.groups is None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeQuery(ArrayQuery):
    """For each coding in `codes`, the number of rows with each code 0 ... cells - 1; any other code is not counted."""

    cells: tuple[int, ...]
    codes: Callable[[Any], Sequence[Codes | IntArray]]

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        begin = 0
        for codes, size in zip(self.codes(chunk), self.cells, strict=True):
            accumulators[0][begin : begin + size] += np.bincount(
                codes[(codes >= 0) & (codes < size)], minlength=size
            )
            begin += size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellCounts(NoisyMeasurement):
    """Release the number of rows in each cell between the ascending `edges` of each column, and of each group in it."""

    # A replaced row changes two counts of each column: l1 sensitivity 2 and squared l2 sensitivity 2 for each. Every cell is
    # released, empty or not: the cells are public.
    edges: list[FloatArray]
    groups: RowGroups | None = None
    # `cost` is for all columns together.

    def priced_query(self, spending: Spending, n: int) -> tuple[CellQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        columns, cells = cells_between(self.edges, self.groups)
        grid = spending.grid("count", cells, n, parts=columns)
        steps = grid.quant_bound
        return CellQuery.of(*self.edges, groups=self.groups, scale=steps), grid.event, 1.0 / steps

    def parted(self, counts: FloatArray) -> list[FloatArray]:
        """The released counts between each of the `edges`, (groups, cells); one group unless several have these edges."""
        sizes = np.array([len(cuts) + 1 for cuts in self.edges])
        groups = len(counts) // sizes.sum()
        parts = np.split(counts, groups * np.cumsum(sizes)[:-1])
        return [part.reshape(groups, -1) for part in parts]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignedCellQuery(ArrayQuery):
    """Number of rows in each signed dyadic cell of each column about `center`, (dim, cells); see `kernels.rows` for the layout."""

    center: FloatArray
    log2_parts: int
    neutral: bool
    in_place = True

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros((len(self.center), cells_apart(self.log2_parts)), dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        columns_count(chunk, self.center, self.log2_parts, self.neutral, accumulators[0])

    def answer(self, accumulators: tuple[IntArray]) -> IntArray:
        """See `ArrayQuery.answer`."""
        return accumulators[0][:, : self.shape[1]] * self.scale

    @property
    def takes_columns(self) -> bool:
        """See `Query.takes_columns`."""
        return not self.neutral


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignedCells(NoisyMeasurement):
    """Release, for each column, the number of rows in each signed dyadic cell about `center`, at zero and missing: (dim, cells)."""

    # Each row is in one cell of each column.
    center: FloatArray
    log2_parts: int
    neutral: bool = False  # a row with a number that is not finite is missing in every column

    def priced_query(self, spending: Spending, n: int) -> tuple[SignedCellQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        shape = dim, cells = len(self.center), cells_of_column(self.log2_parts)
        grid = spending.grid("count", dim * cells, n, parts=dim)
        steps = grid.quant_bound
        query = SignedCellQuery(
            shape=shape,
            scale=steps,
            row_cost=4 * dim,
            center=self.center,
            log2_parts=self.log2_parts,
            neutral=self.neutral,
        )
        return query, grid.event, 1.0 / steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeCounts(NoisyMeasurement):
    """Release, for each of several codings, the number of rows with each code 0 ... cells - 1; coding after coding."""

    # A replaced row changes two counts of each coding: l1 sensitivity 2 and squared l2 sensitivity 2 for each. A row with any other
    # code is in no cell.
    codes: Callable[[Any], Sequence[Codes | IntArray]]  # chunk to codes of each coding, by row
    cells: list[int]
    row_cost: int
    # `cost` is for all codings together.

    def priced_query(self, spending: Spending, n: int) -> tuple[CodeQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        total = sum(self.cells)
        grid = spending.grid("count", total, n, parts=len(self.cells))
        steps = grid.quant_bound
        query = CodeQuery(
            shape=(total,),
            scale=steps,
            row_cost=self.row_cost,
            cells=tuple(self.cells),
            codes=self.codes,
        )
        return query, grid.event, 1.0 / steps
