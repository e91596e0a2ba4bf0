"""One vector for each leaf of a cluster tree, of its own length: the mean rungs and the diagonal rungs of a ladder together.

Privacy note: `notes/leaf_vectors.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import leaves
from fastpubpriv.kernels import rows as row_kernels
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.maps import RowMap, RowTree
from fastpubpriv.mechanisms.axis_features import AxisFeatures
from fastpubpriv.mechanisms.leaves import routing_cost
from fastpubpriv.mechanisms.sums import AffineMap, Measurement, Released
from fastpubpriv.privacy import Event, cluster_sum_grid
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk


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
    """The integer vectors of the leaves, one after another."""

    routes: RowTree
    vectors: tuple[LeafVector, ...]
    maps: tuple[RowMap, ...]

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(sum(vector.length for vector in self.vectors), dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """Add each leaf's rows, under its map, to the leaf's part of the accumulator."""
        ends = np.cumsum([vector.length for vector in self.vectors])
        parts = np.split(accumulators[0], ends[:-1])
        maps: list[RowMap | None] = [None] * self.routes.n_labels
        totals: list[IntArray | None] = [None] * self.routes.n_labels
        squared = []
        for vector, row_map, part in zip(self.vectors, self.maps, parts, strict=True):
            if isinstance(vector.rule, AxisFeatures):
                squared.append((vector.target, vector.rule, row_map, part))
            else:
                maps[vector.target], totals[vector.target] = row_map, part
        if len(squared) < len(self.vectors):
            leaves.leaf_sums(chunk, self.routes, maps, totals)
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
    """

    routes: RowTree
    vectors: Sequence[LeafVector]

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
        query = partial(
            executor.run, LeafVectorsQuery(routes=self.routes, vectors=tuple(self.vectors), maps=maps), rows
        )
        value = release(account, name=name, query=query, shape=(sum(lengths),), event=grid.event, unit=1.0)
        pieces = np.split(value, np.cumsum(lengths)[:-1])
        answers = []
        for vector, piece in zip(self.vectors, pieces, strict=True):
            unit = grid.step(vector.radius)
            answers.append(Released(value=piece * unit, noise_std=grid.event.noise_std * unit, event=grid.event))
        return VectorsReleased(answers=answers, event=grid.event)
