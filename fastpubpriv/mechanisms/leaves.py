"""Joint releases over the leaves of a cluster tree: one integer vector for all leaves, from one pass over the rows.

The private rows are never split into separate data sets: inside the pass, the rows of each chunk are routed down the tree and
grouped by leaf, and the rows of each leaf go through the map of that leaf. All leaves share the grid (Q), so the sensitivities are
those of one leaf (`privacy/calibration.py`).

Privacy notes: `notes/leaf_counts.md`, `notes/leaf_sums.md`, `notes/leaf_second_moments.md`, `notes/leaf_vectors.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import rows as row_kernels
from fastpubpriv.kernels import tree as kernels
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.mechanisms.sums import AffineMap, Measurement, Released, mirror
from fastpubpriv.privacy import Event, LaplaceEvent
from fastpubpriv.privacy.calibration import cluster_count_grid, cluster_gram_grid, cluster_sum_grid
from fastpubpriv.release.release import release
from fastpubpriv.release.transcript import Payer
from fastpubpriv.row_maps import RowMap, RowTree
from fastpubpriv.sources import Executor, Query, Rows
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

    @property
    def facts(self) -> dict[str, Any]:
        """The noise, for the record."""
        stds = self.noise_std.tolist()
        return {"noise_std": max(stds), "leaf_noise_std": stds}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafCountQuery(Query):
    """Rows that reach each target of a tree, (k,), times `scale`."""

    routes: RowTree
    scale: int

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.routes.n_labels, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        kernels.leaf_counts(chunk, self.routes, accumulators[0])

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return routing_cost(self.routes)

    def answer(self, accumulators: tuple[IntArray]) -> IntArray:
        """The count is scaled up to the noise grid. The noise is never scaled down: q + floor(N) / s would reveal q."""
        return accumulators[0] * self.scale


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafGramQuery(Query):
    """For each leaf that takes part the sum of q q^T over its integer rows q, under its own map: (k, D, D), or the upper
    triangles, row by row. `targets` are the places of these leaves among the targets of `routes`.
    """

    routes: RowTree
    maps: tuple[RowMap, ...]
    targets: tuple[int, ...]
    triangle: bool = False

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        dim = self.maps[0].out_dim
        return (np.zeros((len(self.maps), dim, dim), dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """Add each leaf's rows, under its map, to the leaf's accumulator."""
        maps: list[RowMap | None] = [None] * self.routes.n_labels
        totals: list[IntArray | None] = [None] * self.routes.n_labels
        for place, (leaf, row_map) in enumerate(zip(self.targets, self.maps, strict=True)):
            maps[leaf], totals[leaf] = row_map, accumulators[0][place]
        kernels.leaf_grams(chunk, self.routes, maps, totals)

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return max(self.routes.dim, self.maps[0].out_dim ** 2 // 32) + routing_cost(self.routes)

    def answer(self, accumulators: tuple[IntArray]) -> IntArray:
        """See `Query.answer`."""
        (squares,) = accumulators
        for leaf in squares:
            mirror(leaf)
        if not self.triangle:
            return squares
        upper = np.triu_indices(squares.shape[1])
        return squares[:, upper[0], upper[1]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafCounts(Measurement[Fraction, LeavesReleased]):
    """Release how many rows reach each target of `routes`, (k,).

    A row that stays in its leaf changes nothing: only a move costs, 2 S^2 in squared l2 or 2 S in l1.
    """

    routes: RowTree

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        k = self.routes.n_labels
        grid = cluster_count_grid(cost, rows.n, pure=account.pure, clusters=k, lineage=self.routes.lineage)

        query = partial(executor.run, LeafCountQuery(routes=self.routes, scale=grid.quant_bound), rows)
        unit = 1.0 / grid.quant_bound
        value = release(account, name=name, query=query, shape=(k,), event=grid.event, unit=unit)
        std = np.full(k, grid.event.noise_std * unit)
        return LeavesReleased(value=value, noise_std=std, event=grid.event, spectral_std=std)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafSums(Measurement[Fraction, LeavesReleased]):
    """Release for each leaf the sum of its rows under the leaf's own map, each clipped to norm `radii[leaf]`, (k, D).

    A row that stays moves its leaf's sum by at most 2Q; one that moves, two sums by at most Q each: half the squared distance.
    """

    routes: RowTree
    affines: Sequence[AffineMap]
    radii: Sequence[float]

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        shape = _check(tuple(range(self.routes.n_labels)), self.routes, self.affines, self.radii)
        each = enumerate(zip(self.affines, self.radii, strict=True))
        vectors = [LeafVector(target=leaf, rule=affine, radius=radius) for leaf, (affine, radius) in each]
        joint = LeafVectors(routes=self.routes, vectors=vectors, shape=shape)
        found = joint.release(account, rows, executor, name=name, cost=cost)
        std = np.array([answer.noise_std for answer in found.answers])
        value = np.stack([answer.value for answer in found.answers])
        return LeavesReleased(value=value, noise_std=std, event=found.event, spectral_std=std)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafSecondMoments(Measurement[Fraction, LeavesReleased]):
    """Release for each leaf the sum of y y^T over its rows, y the leaf's own map clipped to norm `radii[leaf]`, (k, D, D).

    `targets` are the places among the targets of `routes` of the leaves that take part, None for all; maps and radii are theirs.

    Noise as in `SecondMoment`. Squared l2 sensitivity 2 Q^4, whether the replaced row stays or moves; of the triangles in
    l1 isqrt(D (D + 3) / 2 Q^4) for a row that stays and 2 floor((D + 1) Q^2 / 2) for one that moves.
    """

    routes: RowTree
    affines: Sequence[AffineMap]
    radii: Sequence[float]
    targets: tuple[int, ...] | None = None

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> LeavesReleased:
        """Charge `cost`, run the pass and add noise."""
        targets = tuple(range(self.routes.n_labels)) if self.targets is None else self.targets
        k, dim = _check(targets, self.routes, self.affines, self.radii)
        grid = cluster_gram_grid(cost, dim, rows.n, pure=account.pure, clusters=k, lineage=self.routes.lineage)
        maps = tuple(affine.on_grid(grid, radius) for affine, radius in zip(self.affines, self.radii, strict=True))
        triangle = isinstance(grid.event, LaplaceEvent)
        query = partial(
            executor.run, LeafGramQuery(routes=self.routes, maps=maps, targets=targets, triangle=triangle), rows
        )
        units = np.array([grid.step(radius) for radius in self.radii]) ** 2
        std = grid.event.noise_std * units
        if not triangle:
            square = release(account, name=name, query=query, shape=(k, dim, dim), event=grid.event, unit=1.0)
            square += np.swapaxes(square, 1, 2)
            square *= (units / 2.0)[:, None, None]
            return LeavesReleased(value=square, noise_std=std, event=grid.event, spectral_std=std)
        upper = np.triu_indices(dim)
        flat = release(account, name=name, query=query, shape=(k, len(upper[0])), event=grid.event, unit=1.0)
        value = np.zeros((k, dim, dim))
        value[:, upper[0], upper[1]] = flat * units[:, None]
        value[:, upper[1], upper[0]] = value[:, upper[0], upper[1]]
        return LeavesReleased(value=value, noise_std=std, event=grid.event, spectral_std=math.sqrt(2.0) * std)


def routing_cost(routes: RowTree) -> int:
    """Work to route one row, in units of about a nanosecond; a multiply-add takes about a tenth of one."""
    splits = [split for split in routes.splits if split is not None]
    widest = max(
        (split.centers.size + (0 if split.projection is None else split.projection.size) for split in splits), default=0
    )
    return routes.dim + widest // 10


def _check(
    targets: tuple[int, ...], routes: RowTree, affines: Sequence[AffineMap], radii: Sequence[float]
) -> tuple[int, int]:
    """Number of leaves that take part and columns of their maps."""
    k = len(targets)
    sizes = {affine.out_dim for affine in affines}
    # Ascending, so that no leaf takes part twice.
    known = list(targets) == sorted(set(targets)) and all(0 <= target < routes.n_labels for target in targets)
    if not known or len(affines) != k or len(radii) != k or len(sizes) != 1:
        raise InputError(f"{k} leaves need one map and one radius each, and maps with the same number of columns")
    return k, sizes.pop()


# The features of the diagonal rung: each row's coordinates and their squares. Privacy note: `notes/axis_features.md`.

BLOCK = 2048


@dataclass(frozen=True, slots=True, eq=False)
class AxisFeatures:
    """The map x -> (v, (v^2 - 1) / sqrt(2)) for v = matrix (x - center), rows (n, dim) to (n, 2 dim).

    Every sum is made term by term, in the order of the columns, so that a row has the same bits whatever rows are in its chunk.
    """

    center: FloatArray
    matrix: FloatArray

    @property
    def out_dim(self) -> int:
        """Features of a row."""
        return 2 * len(self.center)

    def __call__(self, chunk: Any) -> FloatArray:
        """Map a chunk, in blocks that stay in the cache."""
        n, dim = len(chunk), len(self.center)
        out = np.empty((n, 2 * dim))
        with np.errstate(all="ignore"):
            for begin in range(0, n, BLOCK):
                self._block(np.asarray(chunk[begin : begin + BLOCK], dtype=np.float64), out[begin : begin + BLOCK])
        return out

    def _block(self, rows: FloatArray, out: FloatArray) -> None:
        dim = len(self.center)
        gaps = np.ascontiguousarray((rows - self.center).T)
        found = self.matrix[:, :1] * gaps[0]
        product = np.empty_like(found)
        for column in range(1, dim):
            np.multiply(self.matrix[:, column : column + 1], gaps[column], out=product)
            found += product
        out[:, :dim] = found.T
        np.multiply(found, found, out=product)
        product -= 1.0
        product /= math.sqrt(2.0)
        out[:, dim:] = product.T


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafVector:
    """The vector of one leaf: its place among the targets, its map (or features with squares), and the clip radius of its rows."""

    target: int
    rule: AffineMap | AxisFeatures
    radius: float

    @property
    def length(self) -> int:
        """Entries of its vector."""
        return self.rule.out_dim

    @property
    def affine(self) -> AffineMap:
        """The map that is applied after the features have been computed."""
        return AffineMap(dim=self.length) if isinstance(self.rule, AxisFeatures) else self.rule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorsReleased:
    """The answers of the leaves that took part, in their order."""

    answers: list[Released]
    event: Event

    @property
    def facts(self) -> dict[str, Any]:
        """The noise, for the record."""
        stds = [answer.noise_std for answer in self.answers]
        return {"noise_std": max(stds), "leaf_noise_std": stds}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafVectorsQuery(Query):
    """The integer vectors of the leaves, one after another, as an array of this shape."""

    routes: RowTree
    vectors: tuple[LeafVector, ...]
    maps: tuple[RowMap, ...]
    shape: tuple[int, ...]

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.shape, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """Add each leaf's rows, under its map, to the leaf's part of the accumulator."""
        ends = np.cumsum([vector.length for vector in self.vectors])
        parts = np.split(accumulators[0].reshape(-1), ends[:-1])
        maps: list[RowMap | None] = [None] * self.routes.n_labels
        totals: list[IntArray | None] = [None] * self.routes.n_labels
        squared = []
        for vector, row_map, part in zip(self.vectors, self.maps, parts, strict=True):
            if isinstance(vector.rule, AxisFeatures):
                squared.append((vector.target, vector.rule, row_map, part))
            else:
                maps[vector.target], totals[vector.target] = row_map, part
        if len(squared) < len(self.vectors):
            kernels.leaf_sums(chunk, self.routes, maps, totals)
        if squared:
            grouped, begins = grouped_rows(chunk, self.routes)
            for target, features, row_map, part in squared:
                own = grouped[begins[target] : begins[target + 1]]
                if len(own):
                    row_kernels.rows_sum(features(own), row_map, part)

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return max(self.routes.dim, *(vector.length for vector in self.vectors)) + routing_cost(self.routes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafVectors(Measurement[Fraction, VectorsReleased]):
    """Release for each leaf that takes part the sum of its rows under its own map, each clipped to the leaf's radius.

    All leaves share Q. A row that stays moves its leaf's vector by at most 2 Q; one that moves, two vectors by at most Q each.
    `shape` is that of the answer, one vector after another if it is None.
    """

    routes: RowTree
    vectors: Sequence[LeafVector]
    shape: tuple[int, ...] | None = None

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> VectorsReleased:
        """Charge `cost`, run the pass and add noise."""
        targets = [vector.target for vector in self.vectors]
        if not targets or targets != sorted(set(targets)) or not 0 <= targets[0] <= targets[-1] < self.routes.n_labels:
            raise InputError(
                f"leaves {targets} are not {self.routes.n_labels} targets or fewer, each once, in their order"
            )
        lengths = [vector.length for vector in self.vectors]
        grid = cluster_sum_grid(
            cost,
            max(lengths),
            rows.n,
            pure=account.pure,
            clusters=len(lengths),
            lineage=self.routes.lineage,
            draws=sum(lengths),
        )
        maps = tuple(vector.affine.on_grid(grid, vector.radius) for vector in self.vectors)
        shape = (sum(lengths),) if self.shape is None else self.shape
        vectors = LeafVectorsQuery(routes=self.routes, vectors=tuple(self.vectors), maps=maps, shape=shape)
        query = partial(executor.run, vectors, rows)
        value = release(account, name=name, query=query, shape=shape, event=grid.event, unit=1.0)
        pieces = np.split(value.reshape(-1), np.cumsum(lengths)[:-1])
        answers = []
        for vector, piece in zip(self.vectors, pieces, strict=True):
            unit = grid.step(vector.radius)
            answers.append(Released(value=piece * unit, noise_std=grid.event.noise_std * unit, event=grid.event))
        return VectorsReleased(answers=answers, event=grid.event)
