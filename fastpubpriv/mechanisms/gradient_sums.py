"""Noisy gradients of labeled rows, and the minimum of a strongly convex loss by gradient steps.

Each gradient is clipped as a whole; the sum is over all rows or over a secret batch.

Privacy notes: `notes/gradient_sum.md`, `notes/sampled_gradient_sum.md`, `notes/residual_sum.md`, `notes/weighted_minimum.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import gradients as kernels
from fastpubpriv.kernels.gradients import CALL, PerRow, is_compiled, row_gradients
from fastpubpriv.kernels.rows import rows_sum
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    ArrayQuery,
    Measurement,
    NoiseEvent,
    NoisyMeasurement,
    Released,
)
from fastpubpriv.privacy import SampledGaussianEvent
from fastpubpriv.privacy.calibration import Grid, SampledGrid, clip_steps
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.release.release import draw_batch, release
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.rowwise.row_maps import GradientMap, ResidualMap, RowMap
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.row_types import Chunk

_PIECE_BYTES = 1 << 23  # bytes of a batch that are gathered at once


# (grid, clip_norm) -> query for the sum of the gradients of labeled rows, each clipped to this norm, on the grid
Gradients = Callable[[Any, float], ArrayQuery]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearGradientQuery(ArrayQuery):
    """Sum of the integer gradients of labeled rows (z, label), in the shape of the weights."""

    gradient_map: GradientMap

    def add(self, chunk: Chunk, accumulators: Any, places: IntArray | None = None) -> None:
        """See `Query.add`; with `places` (k,), only the rows of the chunk at these positions are added."""
        kernels.gradient_sum(chunk, self.gradient_map, accumulators[0], places)


def linear_query(
    weights: FloatArray,
    residual: Callable[..., Any],
    clip_norm: float,
    step: float,
    quant_bound: int,
) -> LinearGradientQuery:
    """Return the query for gradients of this residual at these weights, which takes about 3 units of work per coordinate."""
    chosen = GradientMap(
        weights=weights,
        residual=residual,
        clip_norm=clip_norm,
        inv_step=1.0 / step,
        quant_bound=quant_bound,
    )
    return LinearGradientQuery(shape=weights.shape, row_cost=3 * weights.size, gradient_map=chosen)


def linear_gradients(
    grid: Grid, clip_norm: float, *, weights: FloatArray, residual: Callable[..., Any]
) -> LinearGradientQuery:
    """`Gradients` of a loss of linear predictions: a residual times the row."""
    return linear_query(weights, residual, clip_norm, grid.step(clip_norm), grid.quant_bound)


def gradients_by_row(
    grid: Grid, clip_norm: float, *, weights: FloatArray, gradient: PerRow
) -> RowGradientQuery:
    """`Gradients` of any loss: gradient(weights, row (1, dim), label (1,)) -> (1, *weights.shape), called for each row."""
    row_map = AffineMap(dim=weights.size).on_grid(grid, clip_norm)
    # About ten operations per coordinate, and a Python call unless the gradient is compiled.
    cost = 10 * weights.size + (0 if is_compiled(gradient) else CALL)
    return RowGradientQuery(
        shape=weights.shape, row_cost=cost, weights=weights, gradient=gradient, row_map=row_map
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGradientQuery(ArrayQuery):
    """Sum of quantized gradients that a function computes row by row; one that fails or is not finite adds zero."""

    weights: FloatArray
    gradient: PerRow
    row_map: RowMap

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        gradients = row_gradients(self.gradient, self.weights, chunk[:, :-1], chunk[:, -1])
        rows_sum(gradients.reshape(len(chunk), -1), self.row_map, accumulators[0].reshape(-1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientSum(NoisyMeasurement):
    """Release the sum over all labeled rows of their gradients, each clipped to `clip_norm`, in the shape of the weights."""

    # Replace-one sensitivity, in grid steps: 2Q in l2, isqrt(4 D Q^2) in l1.
    gradients: Gradients
    shape: tuple[int, ...]
    clip_norm: float

    def priced_query(self, spending: Spending, n: int) -> tuple[ArrayQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        grid = spending.grid("sum", math.prod(self.shape), n)
        return self.gradients(grid, self.clip_norm), grid.event, grid.step(self.clip_norm)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledGradientSum(Measurement[SampledGaussianEvent, Released]):
    """Release the sum over a secret batch of labeled rows of their gradients, each clipped to `clip_norm`."""

    # `cost` is the event of the step: the first of the run, which is charged for all steps, or a later one. Replace-one sensitivity
    # 2Q in l2 given the batch. The rows need random access.
    gradients: Gradients
    clip_norm: float
    grid: SampledGrid

    def release(
        self,
        account: BudgetAccount,
        rows: Rows,
        executor: Executor,
        *,
        name: str,
        cost: SampledGaussianEvent,
    ) -> Released:
        """Charge the event, draw the batch, add up its gradients and add noise."""
        query = self.gradients(self.grid, self.clip_norm)

        def ask() -> IntArray:
            accumulators = query.zeros()
            places = draw_batch(account, cost.sampling, rows.n)
            _add_batch(query, rows, places, accumulators)
            return query.answer(accumulators)

        unit = self.grid.step(self.clip_norm)
        value = release(account, name=name, query=ask, shape=query.shape, event=cost, unit=unit)
        return Released(value=value, noise_std=cost.noise_std * unit, event=cost)


def _add_batch(query: Query, rows: Rows, places: IntArray, accumulators: Any) -> None:
    """Add the rows at these positions: in place if the table is in memory, else copied piece by piece."""
    table = rows.in_memory
    if table is not None and isinstance(query, LinearGradientQuery):
        query.add(table, accumulators, places)
        return
    piece = max(1, _PIECE_BYTES // (8 * rows.dim))
    with np.errstate(all="ignore"):
        for begin in range(0, len(places), piece):
            query.add(rows.take(places[begin : begin + piece]), accumulators)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualSum(NoisyMeasurement):
    """Release the sum over rows (z, label) of min(1, radius / |spread z|) clip(residual / scale) / clip (spread z), (D,)."""

    # Replace-one sensitivity, in grid steps: 2Q in l2, isqrt(4 D Q^2) in l1.
    slope: FloatArray
    spread: FloatArray
    residual: Callable[[float, float], float]
    scale: float
    clip: float
    radius: float
    row_step: float = 1.0  # unit of the rows' z
    # rows are (z, label, weight <= 1), the factor of a term: the sensitivity is the same
    weighted: bool = False

    def priced_query(
        self, spending: Spending, n: int
    ) -> tuple[LinearGradientQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        dim = len(self.slope)
        grid = spending.grid("sum", dim, n)
        unit = grid.step(self.radius)
        residual_map = ResidualMap(
            weights=self.slope * self.row_step,
            spread=self.spread * self.row_step,
            residual=self.residual,
            scale=self.scale,
            clip=self.clip,
            clip_norm=self.radius,
            inv_step=1.0 / unit,
            quant_bound=grid.quant_bound,
            weighted=self.weighted,
        )
        return (
            LinearGradientQuery(shape=(dim,), row_cost=3 * dim, gradient_map=residual_map),
            grid.event,
            unit,
        )


ULP = 2.0**-53
# factor that covers the rounding of the bounds themselves (a few operations on doubles)
UP = 1.0 + 2.0**-30
# bound on norm / `radius` of a row that was clipped to `radius` in single or double precision
LONGER = 1.0 + 2.0**-24
# Bound on |derivative in the prediction| of the losses with bounded gradients.
SLOPES = {"logistic": 1.0, "huber": 1.345, "smooth_hinge": 1.0}
_EXACT = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedMinimum(Measurement[Fraction, Released]):
    """Release the displacement from `start` of the minimum of a G(w) + (1 - a) H(w) + l2 |w - start|^2 / 2."""

    # G and H are mean losses of private and public rows; the minimum is approximated by `steps` gradient steps, and noise is added
    # for the sensitivity of the last iterate. Replace-one sensitivity, in
    # grid steps: 2Q in l2, isqrt(4 D Q^2) in l1.
    start: FloatArray
    public: FloatArray
    residual: Callable[..., Any]
    slope: float  # bound on |derivative| of the convex losses of <w, z> and a label
    curvature: float  # bound on the second derivative
    radius: float  # bound on |z|, up to the factor `LONGER`
    priv_weight: float  # a
    l2: float
    steps: int

    @property
    def longest(self) -> float:
        """Bound on the norm of the gradient of a row."""
        return self.slope * self.radius * LONGER

    @property
    def step_size(self) -> float:
        """At most 2 / (largest + least curvature), so that a step contracts distances by the factor 1 - step_size l2."""
        return 2.0 / ((self.curvature * (self.radius * LONGER) ** 2 + 2.0 * self.l2) * UP)

    @property
    def reach(self) -> float:
        """Bound on the distance of every iterate from `start`."""
        return self.longest / self.l2 * UP

    def gradient_error(self) -> float:
        """Return a bound on the distance between the computed and the exact gradient of a step."""
        dim = len(self.start)
        radius = self.radius * LONGER
        far = float(np.sqrt(np.sum(self.start**2))) + self.reach
        rounded = math.sqrt(dim) * (0.5 + 2.0**-20) * self._row_step(dim)
        # Rounding of <w, z>, in any order of addition, and of w; then of the residual, whose exp is accurate to 2^-48.
        inside = radius * (
            self.curvature * (dim + 4) * 2.0 * ULP * far * radius + self.slope * 2.0**-48
        )
        moved = 64.0 * ULP * (self.longest + self.l2 * self.reach + self.reach / self.step_size)
        return (rounded + inside + moved) * UP

    def distance(self, n: int) -> float:
        """Return a bound on the distance between the computed last iterates of two neighboring data sets of n rows."""
        return 2.0 * (self.priv_weight / n * self.longest + self.gradient_error()) / self.l2 * UP

    def grid(self, spending: Spending, n: int) -> tuple[Grid, float]:
        """Return the grid and the length of its steps; InputError, before the debit, if there is none."""
        dim = len(self.start)
        grid = spending.grid("sum", dim, math.ceil(n / self.priv_weight) + 1)
        room = 2 * grid.quant_bound - math.isqrt(dim) - 3
        return grid, (self.distance(n) + 2.0**-50 * self.reach) / room * UP

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Released:
        """Charge `cost`, run the gradient steps, one pass each, and add noise to the last iterate."""
        grid, unit = self.grid(account.spend(cost), rows.n)

        def ask() -> IntArray:
            moved = self.descend(lambda query: executor.run(query, rows), rows.n) / unit
            return np.rint(np.clip(moved, -(2.0**62), 2.0**62)).astype(np.int64)

        value = release(
            account, name=name, query=ask, shape=self.start.shape, event=grid.event, unit=unit
        )
        return Released(value=value, noise_std=grid.event.noise_std * unit, event=grid.event)

    def descend(self, private_sum: Callable[[LinearGradientQuery], IntArray], n: int) -> FloatArray:
        """Return the last iterate minus `start`, a private value."""
        dim = len(self.start)
        moved = np.zeros(dim)
        step = self._row_step(dim)
        for _ in range(self.steps):
            query = self.query(self.start + moved)
            known = query.zeros()
            query.add(self.public, known)
            step_vector = private_sum(query).astype(np.float64) * (step * self.priv_weight / n)
            step_vector += known[0].astype(np.float64) * (
                step * (1.0 - self.priv_weight) / len(self.public)
            )
            # The sums are negative gradients.
            moved = moved + self.step_size * (step_vector - self.l2 * moved)
        return moved

    def query(self, weights: FloatArray) -> LinearGradientQuery:
        """Return the query of a step. Its clip norm is twice the bound on a row's gradient, so that no gradient is clipped."""
        dim = len(weights)
        bound = math.isqrt(_EXACT // dim)
        return linear_query(weights, self.residual, 2.0 * self.longest, self._row_step(dim), bound)

    def _row_step(self, dim: int) -> float:
        return self.longest * UP / clip_steps(math.isqrt(_EXACT // dim), dim)
