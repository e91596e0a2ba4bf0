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
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import tree as kernels
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    ArrayQuery,
    Measurement,
    NoiseEvent,
    Released,
    gram_cost,
    symmetrized,
)
from fastpubpriv.privacy import Event
from fastpubpriv.release.release import release
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.rowwise.row_maps import RowMap, RowTree
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
        ask = partial(executor.run, query, rows)
        unit = 1.0 / grid.quant_bound
        value = release(account, name=name, query=ask, shape=(k,), event=grid.event, unit=unit)
        std = grid.event.noise_std * unit
        answers = [Released(value=count, noise_std=std, event=grid.event) for count in value]
        return LeavesReleased(answers=answers, event=grid.event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafSecondMoments(Measurement[Fraction, LeavesReleased]):
    """Release for each leaf the sum of y y^T over its rows, mapped to y by the leaf's map and clipped to `radii[leaf]`, (D, D)."""

    # Noise as in `SecondMoment`. Squared l2 sensitivity 2 Q^4, whether the replaced row stays or moves; of the triangles in l1
    # isqrt(D (D + 3) / 2 Q^4) for a row that stays and 2 floor((D + 1) Q^2 / 2) for one that moves.
    routes: RowTree
    affines: Sequence[AffineMap]
    radii: Sequence[float]

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        k, dim = _check(self.routes, self.affines, self.radii)
        spending = account.spend(cost)
        lineage = self.routes.lineage
        grid = spending.cluster_grid("moment", dim, rows.n, clusters=k, lineage=lineage)
        maps = tuple(
            affine.on_grid(grid, radius)
            for affine, radius in zip(self.affines, self.radii, strict=True)
        )
        shape = spending.moment_shape(dim, k)
        work = max(self.routes.dim, gram_cost(dim)) + routing_cost(self.routes)
        query = LeafQuery(
            shape=shape,
            lower=(k, dim, dim),
            row_cost=work,
            routes=self.routes,
            maps=maps,
            squares=True,
        )
        ask = partial(executor.run, query, rows)
        value = release(account, name=name, query=ask, shape=shape, event=grid.event, unit=1.0)
        square = symmetrized(value, triangle=grid.event.triangle)
        units = np.array([grid.step(radius) for radius in self.radii]) ** 2
        return LeavesReleased.of(
            square, units.tolist(), grid.event, spectral=grid.event.spectral_factor
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafSums(Measurement[Fraction, LeavesReleased]):
    """Release for each leaf the sum of its rows under the leaf's own map, each clipped to norm `radii[leaf]`, (k, D)."""

    # A row that stays changes its leaf's vector by at most 2 Q; one that moves, two vectors by at most Q each.
    routes: RowTree
    affines: Sequence[AffineMap]
    radii: Sequence[float]

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        k, dim = shape = _check(self.routes, self.affines, self.radii)
        lineage = self.routes.lineage
        grid = account.spend(cost).cluster_grid("sum", dim, rows.n, clusters=k, lineage=lineage)
        maps = tuple(
            affine.on_grid(grid, radius)
            for affine, radius in zip(self.affines, self.radii, strict=True)
        )
        work = max(self.routes.dim, dim) + routing_cost(self.routes)
        query = LeafQuery(shape=shape, row_cost=work, routes=self.routes, maps=maps)
        ask = partial(executor.run, query, rows)
        value = release(account, name=name, query=ask, shape=shape, event=grid.event, unit=1.0)
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


def _check(
    routes: RowTree, affines: Sequence[AffineMap], radii: Sequence[float]
) -> tuple[int, int]:
    """Return the number of leaves and of columns of their maps; InputError unless the arguments match."""
    k = routes.n_labels
    sizes = {affine.out_dim for affine in affines}
    if len(affines) != k or len(radii) != k or len(sizes) != 1:
        raise InputError(
            f"{k} leaves need one map and one radius each, and maps with the same number of columns"
        )
    return k, sizes.pop()
