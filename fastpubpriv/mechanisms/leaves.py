"""Joint releases over the leaves of a cluster tree: one integer vector for all leaves, from one pass over the rows.

The private rows are never split into separate data sets: inside the pass, the rows of each chunk are routed down the tree and
grouped by leaf, and the rows of each leaf go through the map of that leaf. All leaves share the grid (Q), so the sensitivities are
those of one leaf (`privacy/calibration.py`).

Privacy notes: `notes/leaf_counts.md`, `notes/leaf_sums.md`, `notes/leaf_second_moments.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import tree as kernels
from fastpubpriv.mechanisms.sums import (
    ArrayQuery,
    Measurement,
    NoiseEvent,
    Released,
    gram_cost,
    release_query,
    symmetrized,
)
from fastpubpriv.privacy import Event
from fastpubpriv.privacy.calibration import Grid
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.rowwise.row_maps import AffineMap, RowMap, RowTree
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.row_types import Chunk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeavesReleased:
    """The answers of the leaves, in their order, in data units."""

    answers: list[Released]
    event: Event

    @classmethod
    def of(
        cls,
        values: Iterable[Any],
        units: Iterable[float],
        event: NoiseEvent,
        *,
        spectral: float = 0.0,
    ) -> LeavesReleased:
        """Build from the noisy integers and the grid step of each leaf; `spectral` is `spectral_std` over `noise_std`."""
        answers = []
        for value, unit in zip(values, units, strict=True):
            std = event.noise_std * unit
            answers.append(
                Released(
                    value=value * unit, noise_std=std, event=event, spectral_std=spectral * std
                )
            )
        return cls(answers=answers, event=event)

    @property
    def value(self) -> FloatArray:
        """The values of all leaves, (k, ...), if they have equal shapes."""
        return np.stack([answer.value for answer in self.answers])

    @property
    def noise_std(self) -> FloatArray:
        """Standard deviation of the noise on each leaf's coordinates, (k,)."""
        return np.array([answer.noise_std for answer in self.answers])

    @property
    def facts(self) -> dict[str, Any]:
        """Standard deviations of the noise, for the record."""
        stds = self.noise_std.tolist()
        return {"noise_std": max(stds), "leaf_noise_std": stds}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafQuery(ArrayQuery):
    """For each target of a tree, the number of its rows, (k,), or the sum of q or q q^T over its integer rows q, by its own map."""

    routes: RowTree
    maps: tuple[RowMap, ...] = ()  # none for numbers of rows
    squares: bool = False

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        if self.maps:
            kernels.leaf_totals(
                chunk, self.routes, list(accumulators[0]), self.maps, squares=self.squares
            )
        else:
            accumulators[0][:] += np.diff(kernels.grouped_rows(chunk, self.routes)[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafCounts(Measurement[Fraction, LeavesReleased]):
    """Release the number of rows that reach each target of `routes`, (k,)."""

    # A row that stays in its leaf changes no count; one that moves has sensitivity 2 S^2 in squared l2 or 2 S in l1.
    routes: RowTree

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        k = self.routes.n_labels
        work = routing_cost(self.routes)
        lineage = self.routes.lineage
        grid = account.spend(cost).cluster_grid("count", 1, rows.n, clusters=k, lineage=lineage)
        query = LeafQuery(shape=(k,), scale=grid.quant_bound, row_cost=work, routes=self.routes)
        unit = 1.0 / grid.quant_bound
        value = release_query(
            account, query, rows, executor, name=name, event=grid.event, unit=unit
        )
        std = grid.event.noise_std * unit
        answers = [Released(value=count, noise_std=std, event=grid.event) for count in value]
        return LeavesReleased(answers=answers, event=grid.event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LeafMoments(Measurement[Fraction, LeavesReleased]):
    """Base of what is released of each leaf's rows under the leaf's own map."""

    routes: RowTree
    affines: Sequence[AffineMap]
    radii: Sequence[float]

    def leaves_and_columns(self) -> tuple[int, int]:
        """Return the number of leaves and of columns of their maps; InputError unless there is one map and one radius for each."""
        k = self.routes.n_labels
        sizes = {affine.out_dim for affine in self.affines}
        if len(self.affines) != k or len(self.radii) != k or len(sizes) != 1:
            raise InputError(
                f"{k} leaves need one map and one radius each, and maps with the same number of columns"
            )
        return k, sizes.pop()

    def maps_on(self, grid: Grid) -> tuple[RowMap, ...]:
        """Return the map of each leaf into integers, clipped to the leaf's radius."""
        pairs = zip(self.affines, self.radii, strict=True)
        return tuple(affine.on_grid(grid, radius) for affine, radius in pairs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafSecondMoments(_LeafMoments):
    """Release for each leaf the sum of y y^T over its rows, mapped to y by the leaf's map and clipped to `radii[leaf]`, (D, D)."""

    # Noise as in `SecondMoment`. Squared l2 sensitivity 2 Q^4, whether the replaced row stays or moves; of the triangles in l1
    # isqrt(D (D + 3) / 2 Q^4) for a row that stays and 2 floor((D + 1) Q^2 / 2) for one that moves.
    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        k, dim = self.leaves_and_columns()
        spending = account.spend(cost)
        lineage = self.routes.lineage
        grid = spending.cluster_grid("moment", dim, rows.n, clusters=k, lineage=lineage)
        shape = spending.moment_shape(dim, k)
        work = max(self.routes.dim, gram_cost(dim)) + routing_cost(self.routes)
        maps = self.maps_on(grid)
        query = LeafQuery(
            shape=shape,
            lower=(k, dim, dim),
            row_cost=work,
            routes=self.routes,
            maps=maps,
            squares=True,
        )
        value = release_query(account, query, rows, executor, name=name, event=grid.event)
        square = symmetrized(value, triangle=grid.event.triangle)
        units = np.array([grid.step(radius) for radius in self.radii]) ** 2
        return LeavesReleased.of(
            square, units.tolist(), grid.event, spectral=grid.event.spectral_factor
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafSums(_LeafMoments):
    """Release for each leaf the sum of its rows under the leaf's own map, each clipped to norm `radii[leaf]`, (k, D)."""

    # A row that stays changes its leaf's vector by at most 2 Q; one that moves, two vectors by at most Q each.
    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        k, dim = shape = self.leaves_and_columns()
        lineage = self.routes.lineage
        grid = account.spend(cost).cluster_grid("sum", dim, rows.n, clusters=k, lineage=lineage)
        work = max(self.routes.dim, dim) + routing_cost(self.routes)
        query = LeafQuery(shape=shape, row_cost=work, routes=self.routes, maps=self.maps_on(grid))
        value = release_query(account, query, rows, executor, name=name, event=grid.event)
        return LeavesReleased.of(value, [grid.step(radius) for radius in self.radii], grid.event)


def routing_cost(routes: RowTree) -> int:
    """Return the work to route one row, in units of about a nanosecond; a multiply-add takes about a tenth of one."""
    splits = [split for split in routes.splits if split is not None]
    widest = max(
        (
            split.centers.size + (0 if split.projection is None else split.projection.size)
            for split in splits
        ),
        default=0,
    )
    return routes.dim + widest // 10
