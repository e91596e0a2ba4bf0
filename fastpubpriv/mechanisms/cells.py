"""Noisy counts of public cells: of the line for each column, or of rows by a public code.

Privacy notes: `notes/cell_counts.md`, `notes/code_counts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mechanisms.sums import Passes, Released
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent, gaussian_count_grid, laplace_count_grid
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release
from fastpubpriv.sources import Rows, fold


def count_columns(rows: Rows, edges: list[FloatArray], passes: Passes) -> list[IntArray]:
    """For each column, the rows below its first edge, from it to the next, ..., from the last on; private.

    A value on an edge is right of it; one that is not finite is in no cell.
    """

    def step(chunk: Any, accumulators: tuple[IntArray, ...]) -> None:
        for column, (cuts, counts) in enumerate(zip(edges, accumulators, strict=True)):
            value = chunk[:, column].astype(np.float64)
            value = value[np.isfinite(value)]
            counts[:] += np.bincount(np.searchsorted(cuts, value, side="right"), minlength=len(cuts) + 1)

    return list(
        fold(
            rows,
            lambda: tuple(np.zeros(len(cuts) + 1, dtype=np.int64) for cuts in edges),
            step,
            row_cost=64 * len(edges),
            threads=passes.threads,
            progress=passes.progress,
        )
    )


def release_cell_counts(
    account: Account,
    rows: Rows,
    edges: list[FloatArray],
    *,
    name: str,
    cost: Fraction,
    passes: Passes,
    gaussian: bool = False,
) -> Released:
    """Release how many rows are in each cell between the ascending `edges` of each column, column after column.

    Discrete Laplace noise at `cost` epsilon for all columns together (l1 sensitivity 2 for each), or Gaussian noise at `cost` rho
    (squared l2 sensitivity 2 for each). Every cell is released, empty or not: the cells are public.
    """
    columns, cells = len(edges), sum(len(cuts) + 1 for cuts in edges)
    # One column's share of the cost: a grid says what one histogram costs, and the columns' costs add up.
    grid = (gaussian_count_grid if gaussian else laplace_count_grid)(cost / columns, cells, rows.n)
    event: GaussianEvent | LaplaceEvent
    if gaussian:
        event = GaussianEvent(2 * grid.quant_bound**2 * columns, grid.log2_scale, cells)
    else:
        event = LaplaceEvent(2 * grid.quant_bound * columns, grid.log2_scale, cells)

    def query() -> IntArray:
        counts = np.concatenate(count_columns(rows, edges, passes))
        # A count is scaled up to the noise grid, never the noise down.
        scaled: IntArray = counts * grid.quant_bound
        return scaled

    unit = 1.0 / grid.quant_bound
    value = release(account, name=name, query=query, shape=(cells,), event=event, unit=unit)
    return Released(value=value, noise_std=event.noise_std * unit, event=event)


def release_code_counts(
    account: Account,
    rows: Rows,
    codes: Callable[[Any], list[IntArray]],
    cells: list[int],
    *,
    name: str,
    cost: Fraction,
    row_cost: int,
    passes: Passes,
) -> Released:
    """Release, for each of several codings, how many rows have each code 0 ... cells - 1; coding after coding.

    Discrete Laplace noise at `cost` epsilon for all codings together (l1 sensitivity 2 for each). `codes` maps a chunk to one int64
    array for each coding, each row by itself; a row with any other number is in no cell.
    """
    grid = laplace_count_grid(cost / len(cells), sum(cells), rows.n)
    event = LaplaceEvent(2 * grid.quant_bound * len(cells), grid.log2_scale, sum(cells))

    def step(chunk: Any, accumulators: tuple[IntArray, ...]) -> None:
        for found, size, counts in zip(codes(chunk), cells, accumulators, strict=True):
            counts[:] += np.bincount(found[(found >= 0) & (found < size)], minlength=size)

    def query() -> IntArray:
        counts = fold(
            rows,
            lambda: tuple(np.zeros(size, dtype=np.int64) for size in cells),
            step,
            row_cost=row_cost,
            threads=passes.threads,
            progress=passes.progress,
        )
        scaled: IntArray = np.concatenate(counts) * grid.quant_bound
        return scaled

    unit = 1.0 / grid.quant_bound
    value = release(account, name=name, query=query, shape=(sum(cells),), event=event, unit=unit)
    return Released(value=value, noise_std=event.noise_std * unit, event=event)
