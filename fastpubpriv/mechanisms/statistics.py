"""Noisy sum of a vector that is computed from each row by itself. Privacy note: `notes/statistic_sum.md`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.mechanisms.sums import AffineMap, Passes, Released, sum_grid
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release
from fastpubpriv.sources import Rows, fold


def release_statistic_sum(
    account: Account,
    rows: Rows,
    statistic: Callable[[Any], FloatArray],
    *,
    name: str,
    dim: int,
    radius: float,
    cost: Fraction,
    row_cost: int,
    passes: Passes,
) -> Released:
    """Release the sum over the rows of statistic(row), each clipped to norm `radius`.

    `statistic` maps a chunk (n, columns) to (n, dim) float64, every output row from its own input row and public numbers alone; a
    row with a non-finite entry counts as zero. `cost` and the sensitivity are those of `release_vector_sum`.
    """
    grid = sum_grid(account, cost, dim, rows.n)
    row_map = AffineMap(dim=dim).on_grid(grid, radius)

    def query() -> IntArray:
        (sums,) = fold(
            rows,
            lambda: (np.zeros(dim, dtype=np.int64),),
            lambda chunk, acc: kernels.rows_sum(np.ascontiguousarray(statistic(chunk)), row_map, acc[0]),
            row_cost=row_cost,
            threads=passes.threads,
            progress=passes.progress,
        )
        return sums

    unit = grid.step(radius)
    value = release(account, name=name, query=query, shape=(dim,), event=grid.event, unit=unit)
    return Released(value=value, noise_std=grid.event.noise_std * unit, event=grid.event)
