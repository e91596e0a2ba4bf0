"""Noisy gradients of labelled rows: the released sum of clipped residuals times weighted rows.

Privacy note: `notes/residual_sum.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import residuals as kernels
from fastpubpriv.mechanisms.sums import Measurement, Released, sum_grid
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release
from fastpubpriv.residual_maps import ResidualMap
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualQuery(Query):
    """Sum of the integer gradients of labelled rows (z, label), (D,)."""

    residual_map: ResidualMap

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.residual_map.dim, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        kernels.residual_sum(chunk, self.residual_map, accumulators[0])

    @property
    def row_cost(self) -> int:
        """Two sums, a rounding and a test for each number."""
        return 3 * self.residual_map.dim


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualSum(Measurement[Fraction, Released]):
    """Release the sum over rows (z, label) of min(1, radius / |spread z|) clip(residual / scale) / clip (spread z), (D,).

    `cost` is a rho, or an epsilon when the account is pure. Replace-one sensitivity 2Q in l2, isqrt(4 D Q^2) in l1, in grid steps.
    `row_step` is the unit of the rows' z. With `weighted`, rows are (z, label, weight), and each term is multiplied by its row's
    weight, at most 1: the sensitivity is the same.
    """

    slope: FloatArray
    spread: FloatArray
    residual: Callable[[float, float], float]
    scale: float
    clip: float
    radius: float
    row_step: float = 1.0
    weighted: bool = False

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, run the pass and add noise."""
        dim = len(self.slope)
        grid = sum_grid(account, cost, dim, rows.n)
        unit = grid.step(self.radius)
        residual_map = ResidualMap(
            slope=self.slope * self.row_step,
            spread=self.spread * self.row_step,
            residual=self.residual,
            scale=self.scale,
            clip=self.clip,
            radius=self.radius,
            inv_step=1.0 / unit,
            quant_bound=grid.quant_bound,
            weighted=self.weighted,
        )
        query = partial(executor.run, ResidualQuery(residual_map=residual_map), rows)
        value = release(account, name=name, query=query, shape=(dim,), event=grid.event, unit=unit)
        return Released(value=value, noise_std=grid.event.noise_std * unit, event=grid.event)
