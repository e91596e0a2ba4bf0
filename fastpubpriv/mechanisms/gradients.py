"""Noisy gradients: the sum of the gradients of labelled rows, each clipped as a whole; over all rows or over a secret batch.

Privacy notes: `notes/gradient_sum.md`, `notes/sampled_gradient_sum.md`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import gradients as kernels
from fastpubpriv.kernels.alone import CALL, PerRow, is_compiled, row_gradients
from fastpubpriv.kernels.rows import rows_sum
from fastpubpriv.maps import RowMap
from fastpubpriv.mechanisms.sums import Measurement, Released, sum_grid
from fastpubpriv.privacy import Grid, SampledGaussianEvent, SampledGrid
from fastpubpriv.release.batches import draw_batch
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release
from fastpubpriv.residual_maps import GradientMap
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk

_PIECE_BYTES = 1 << 23  # of a batch, gathered at a time


class Gradient(abc.ABC):
    """How a labelled row becomes a gradient; a frozen value of public and released numbers."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the gradient."""

    @abc.abstractmethod
    def query(self, grid: Grid | SampledGrid, clip_norm: float) -> Query:
        """The pass that adds up gradients clipped to `clip_norm`, on a grid."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearGradient(Gradient):
    """Of a loss of predictions that are linear in the row: a residual times the row. See `GradientMap`."""

    weights: FloatArray
    residual: Callable[..., Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Gradient.shape`."""
        return tuple(self.weights.shape)

    def query(self, grid: Grid | SampledGrid, clip_norm: float) -> Query:
        """See `Gradient.query`."""
        return LinearGradientQuery(
            gradient_map=GradientMap(
                weights=self.weights,
                residual=self.residual,
                clip_norm=clip_norm,
                inv_step=1.0 / grid.step(clip_norm),
                quant_bound=grid.quant_bound,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGradient(Gradient):
    """Of any loss: gradient(weights, row (1, dim), label (1,)) -> (1, *weights.shape), called for each row by itself."""

    weights: FloatArray
    gradient: PerRow

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Gradient.shape`."""
        return tuple(self.weights.shape)

    def query(self, grid: Grid | SampledGrid, clip_norm: float) -> Query:
        """See `Gradient.query`."""
        row_map = whole_row_map(self.weights.size, grid, clip_norm)
        return RowGradientQuery(weights=self.weights, gradient=self.gradient, row_map=row_map)


def whole_row_map(size: int, grid: Grid | SampledGrid, clip_norm: float) -> RowMap:
    """Gradients of `size` numbers, written out, to integers clipped to `clip_norm`."""
    return RowMap(
        dim=size,
        out_dim=size,
        quant_bound=grid.quant_bound,
        inv_step=1.0 / grid.step(clip_norm),
        limit=float(grid.clip_steps),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearGradientQuery(Query):
    """Sum of the integer gradients of labelled rows (z, label), in the shape of the weights."""

    gradient_map: GradientMap

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.gradient_map.weights.shape, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: tuple[IntArray], places: IntArray | None = None) -> None:
        """See `Query.add`; with places (k,), of the rows of the chunk at these positions."""
        kernels.gradient_sum(chunk, self.gradient_map, accumulators[0], places)

    @property
    def row_cost(self) -> int:
        """Two sums, a rounding and a test for each number."""
        return 3 * self.gradient_map.weights.size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGradientQuery(Query):
    """Sum of the integer images of gradients that a function makes, row by row; one that fails or is not finite counts as none."""

    weights: FloatArray
    gradient: PerRow
    row_map: RowMap

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.weights.shape, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        found = row_gradients(self.gradient, self.weights, chunk[:, :-1], chunk[:, -1])
        rows_sum(found.reshape(len(chunk), -1), self.row_map, accumulators[0].reshape(-1))

    @property
    def row_cost(self) -> int:
        """About ten operations a number, and a call."""
        return 10 * self.weights.size + (0 if is_compiled(self.gradient) else CALL)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientSum(Measurement[Fraction, Released]):
    """Release the sum over all labelled rows of their gradients, each clipped to `clip_norm`, in the shape of the weights.

    `cost` is a rho, or an epsilon when the account is pure. Replace-one sensitivity 2Q in l2, isqrt(4 D Q^2) in l1, in grid steps.
    """

    gradient: Gradient
    clip_norm: float

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, run the pass and add noise."""
        shape = self.gradient.shape
        grid = sum_grid(account, cost, int(np.prod(shape)), rows.n)
        ask = partial(executor.run, self.gradient.query(grid, self.clip_norm), rows)
        unit = grid.step(self.clip_norm)
        value = release(account, name=name, query=ask, shape=shape, event=grid.event, unit=unit)
        return Released(value=value, noise_std=grid.event.noise_std * unit, event=grid.event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledGradientSum(Measurement[SampledGaussianEvent, Released]):
    """Release the sum over a secret batch of labelled rows of their gradients, each clipped to `clip_norm`.

    `cost` is the event of the step: the first of the run, which pays for all steps, or a later one. Replace-one sensitivity 2Q in
    l2 given the batch. The rows need random access.
    """

    gradient: Gradient
    clip_norm: float
    grid: SampledGrid

    def release(
        self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: SampledGaussianEvent
    ) -> Released:
        """Charge the event, draw the batch, add up its gradients and add noise."""
        query = self.gradient.query(self.grid, self.clip_norm)

        def ask() -> IntArray:
            accumulators = query.zeros()
            places = draw_batch(account, cost.sampling, rows.n)
            _add_batch(query, rows, places, accumulators)
            found: IntArray = query.answer(accumulators)
            return found

        unit = self.grid.step(self.clip_norm)
        value = release(account, name=name, query=ask, shape=self.gradient.shape, event=cost, unit=unit)
        return Released(value=value, noise_std=cost.noise_std * unit, event=cost)


def _add_batch(query: Query, rows: Rows, places: IntArray, accumulators: Any) -> None:
    """Add the rows at these positions: where they lie, if that is in memory, else gathered piece by piece."""
    table = rows.in_memory
    if table is not None and isinstance(query, LinearGradientQuery):
        query.add(table, accumulators, places)
        return
    piece = max(1, _PIECE_BYTES // (8 * rows.dim))
    with np.errstate(all="ignore"):
        for begin in range(0, len(places), piece):
            query.add(rows.take(places[begin : begin + piece]), accumulators)
