"""Joint releases over the leaves of a cluster tree: one integer vector for all leaves, from one pass over the rows.

The private rows are never cut up: each chunk is sent down the tree inside the pass, its rows are put together by leaf, and each
leaf's rows go through that leaf's own map. All leaves share the grid (Q), so the sensitivities are those of one leaf
(`cluster_grids`).

Privacy notes: `notes/leaf_counts.md`, `notes/leaf_sums.md`, `notes/leaf_second_moments.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.maps import RowMap, RowTree
from fastpubpriv.mechanisms.sums import AffineMap, Passes, mirrored
from fastpubpriv.privacy import Event, Grid, LaplaceEvent, cluster_count_grid, cluster_gram_grid, cluster_sum_grid
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release
from fastpubpriv.sources import Rows, fold
from fastpubpriv.sources.base import Chunk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeavesReleased:
    """Released answers of k leaves in data units, with the standard deviation of the noise on each leaf's coordinates (k,).

    `spectral_std` (k,) is, for symmetric matrices, the diagonal standard deviation of the Gaussian orthogonal ensemble with noise
    of the same spectral norm.
    """

    value: FloatArray
    noise_std: FloatArray
    event: Event
    spectral_std: FloatArray


def release_leaf_counts(
    account: Payer, rows: Rows, routes: RowTree, *, name: str, cost: Fraction, passes: Passes
) -> LeavesReleased:
    """Release how many rows reach each target of `routes`, (k,).

    A row that stays in its leaf changes nothing: only a move costs, 2 S^2 in squared l2 or 2 S in l1.
    """
    k = routes.n_labels
    grid = cluster_count_grid(cost, rows.n, pure=account.pure, clusters=k, lineage=routes.lineage)

    def step(chunk: Chunk, accumulators: tuple[IntArray, ...]) -> None:
        accumulators[0][:] += np.diff(grouped_rows(chunk, routes)[1])

    def query() -> IntArray:
        (counts,) = fold(
            rows,
            lambda: (np.zeros(k, dtype=np.int64),),
            step,
            row_cost=routing_cost(routes),
            threads=passes.threads,
            progress=passes.progress,
        )
        # A count is scaled up to the noise grid, never the noise down: q + floor(N) / s would give q away.
        scaled: IntArray = counts * grid.quant_bound
        return scaled

    unit = 1.0 / grid.quant_bound
    value = release(account, name=name, query=query, shape=(k,), event=grid.event, unit=unit)
    std = np.full(k, grid.event.noise_std * unit)
    return LeavesReleased(value=value, noise_std=std, event=grid.event, spectral_std=std)


def release_leaf_sums(
    account: Payer,
    rows: Rows,
    routes: RowTree,
    affines: Sequence[AffineMap],
    *,
    name: str,
    radii: Sequence[float],
    cost: Fraction,
    passes: Passes,
) -> LeavesReleased:
    """Release for each leaf the sum of its rows under the leaf's own map, each clipped to norm `radii[leaf]`, (k, D).

    A row that stays moves its leaf's sum by at most 2Q; one that moves, two sums by at most Q each: half the squared distance.
    """
    k, dim = _check(routes, affines, radii)
    grid = cluster_sum_grid(cost, dim, rows.n, pure=account.pure, clusters=k, lineage=routes.lineage)
    maps = [affine.on_grid(grid, radius) for affine, radius in zip(affines, radii, strict=True)]

    def query() -> IntArray:
        (sums,) = fold(
            rows,
            lambda: (np.zeros((k, dim), dtype=np.int64),),
            by_leaf(routes, maps, kernels.rows_sum),
            row_cost=rows.dim + routing_cost(routes),
            threads=passes.threads,
            progress=passes.progress,
        )
        return sums

    value = release(account, name=name, query=query, shape=(k, dim), event=grid.event, unit=1.0)
    units = _units(grid, radii)
    std = grid.event.noise_std * units
    return LeavesReleased(value=value * units[:, None], noise_std=std, event=grid.event, spectral_std=std)


def release_leaf_second_moments(
    account: Payer,
    rows: Rows,
    routes: RowTree,
    affines: Sequence[AffineMap],
    *,
    name: str,
    radii: Sequence[float],
    cost: Fraction,
    passes: Passes,
) -> LeavesReleased:
    """Release for each leaf the sum of y y^T over its rows, y the leaf's own map clipped to norm `radii[leaf]`, (k, D, D).

    Noise as in `release_second_moment`. Squared l2 sensitivity 2 Q^4, whether the replaced row stays or moves; of the triangles in
    l1 isqrt(D (D + 3) / 2 Q^4) for a row that stays and 2 floor((D + 1) Q^2 / 2) for one that moves.
    """
    k, dim = _check(routes, affines, radii)
    grid = cluster_gram_grid(cost, dim, rows.n, pure=account.pure, clusters=k, lineage=routes.lineage)
    maps = [affine.on_grid(grid, radius) for affine, radius in zip(affines, radii, strict=True)]

    def grams() -> IntArray:
        (lower,) = fold(
            rows,
            lambda: (np.zeros((k, dim, dim), dtype=np.int64),),
            by_leaf(routes, maps, kernels.rows_gram),
            row_cost=max(rows.dim, dim * dim // 32) + routing_cost(routes),
            threads=passes.threads,
            progress=passes.progress,
        )
        for leaf in lower:
            mirrored(leaf)
        return lower

    units = _units(grid, radii) ** 2
    std = grid.event.noise_std * units
    if not isinstance(grid.event, LaplaceEvent):
        square = release(account, name=name, query=grams, shape=(k, dim, dim), event=grid.event, unit=1.0)
        square += np.swapaxes(square, 1, 2)
        square *= (units / 2.0)[:, None, None]
        return LeavesReleased(value=square, noise_std=std, event=grid.event, spectral_std=std)
    upper = np.triu_indices(dim)

    def triangles() -> IntArray:
        whole = grams()
        triangle: IntArray = whole[:, upper[0], upper[1]]
        return triangle

    flat = release(account, name=name, query=triangles, shape=(k, len(upper[0])), event=grid.event, unit=1.0)
    value = np.zeros((k, dim, dim))
    value[:, upper[0], upper[1]] = flat * units[:, None]
    value[:, upper[1], upper[0]] = value[:, upper[0], upper[1]]
    return LeavesReleased(value=value, noise_std=std, event=grid.event, spectral_std=math.sqrt(2.0) * std)


def by_leaf(
    routes: RowTree, maps: Sequence[RowMap], kernel: Callable[[Chunk, RowMap, IntArray], None]
) -> Callable[[Chunk, tuple[IntArray, ...]], None]:
    """The step of a pass that gives each leaf's rows of a chunk, under its map, to `kernel` and the leaf's accumulator."""

    def step(chunk: Chunk, accumulators: tuple[IntArray, ...]) -> None:
        grouped, begins = grouped_rows(chunk, routes)
        for leaf, row_map in enumerate(maps):
            if begins[leaf] < begins[leaf + 1]:
                kernel(grouped[begins[leaf] : begins[leaf + 1]], row_map, accumulators[0][leaf])

    return step


def routing_cost(routes: RowTree) -> int:
    """Work for a row on its way down, in units of about a nanosecond: a multiply-add takes about a tenth."""
    splits = [split for split in routes.splits if split is not None]
    widest = max(
        (split.centers.size + (0 if split.projection is None else split.projection.size) for split in splits), default=0
    )
    return routes.dim + widest // 10


def _units(grid: Grid, radii: Sequence[float]) -> FloatArray:
    """Length of a grid step of each leaf, in data units."""
    return np.array([grid.step(radius) for radius in radii])


def _check(routes: RowTree, affines: Sequence[AffineMap], radii: Sequence[float]) -> tuple[int, int]:
    """Number of leaves and columns of their maps."""
    k = routes.n_labels
    sizes = {affine.out_dim for affine in affines}
    if len(affines) != k or len(radii) != k or len(sizes) != 1:
        raise InputError(f"{k} leaves need one map and one radius each, and maps with the same number of columns")
    return k, sizes.pop()
