"""What every clustering has in common: nodes, their public rows, and the two private queries that a node may ask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.matrices import spectrum
from fastpubpriv.kernels.tree import KeptNodes, Members
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment, ShellCounts
from fastpubpriv.mixtures.separated.public_shapes import DATA_UNITS, Scaling, distances
from fastpubpriv.mixtures.separated.tree import ClusterTree
from fastpubpriv.release.account import NodePayer, TreeScope
from fastpubpriv.session import Run

# Shares of a node's budget: principal directions, then the histogram around a ball.
DIRECTIONS_SHARE = Fraction(7, 10)
HISTOGRAM_SHARE = 1 - DIRECTIONS_SHARE
# A ball smaller than this share of the size of its rows is rounding; its node becomes a leaf.
LEAST_RADIUS = 1e-100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A node of the tree with its public rows.

    `rows` are positions of public rows; `depth` counts the nodes above it that asked a private query; `radius` is that of the
    public ball in which its rows lie, for the day when it has one row only.
    """

    id: int
    rows: IntArray
    depth: int
    radius: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clustering:
    """A finished search: the tree, the leaves that are components, and what was released on the way.

    `scales` (one for each leaf) is the radius of a public ball around the leaf's public rows or their parent's; `kept` is for the
    passes that follow, and private.
    """

    tree: ClusterTree
    leaves: tuple[int, ...]
    scales: tuple[float, ...]
    depth: int
    cuts: tuple[dict[str, Any], ...] = ()
    kept: KeptNodes | None = None


@dataclass(slots=True, eq=False)
class Search:
    """A search in progress over one data set; `scope` pays for the private queries of its nodes, None where it asks none.

    Distances are taken in the coordinates of `scaling`; trees, centers and projections are in data units.
    """

    run: Run
    public: FloatArray
    n_components: int
    min_weight: float
    scope: TreeScope | None = None
    scaling: Scaling = DATA_UNITS
    tree: ClusterTree = field(init=False)
    cuts: list[dict[str, Any]] = field(default_factory=list)
    deepest: int = 0
    kept: KeptNodes | None = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ClusterTree.root(self.public.shape[1])
        self.kept = KeptNodes.of(self.run.rows.in_memory, self.run.executor.max_memory)

    @property
    def least_private(self) -> float:
        """A quarter of the rows that the smallest component is said to have: fewer on a side are no component."""
        return self.run.rows.n * self.min_weight / 4.0

    @property
    def least_public(self) -> int:
        """Half of the public rows that the smallest component is expected to have, at least one."""
        return max(1, math.ceil(len(self.public) * self.min_weight / 2.0))

    def root(self) -> Node:
        """All rows."""
        return Node(id=0, rows=np.arange(len(self.public)), depth=0, radius=widest(self.public))

    def only(self, node: Node) -> Members:
        """The private rows of a node, which go down only those splits that no pass before has sent them down."""
        members = self.tree.only(node.id)
        if self.kept is not None:
            self.kept.watch(members.row_tree)
        return members

    def payer(self, node: Node) -> NodePayer:
        """What a node may spend; its depth is checked against the promise of the scope."""
        assert self.scope is not None, "this search asks nothing of private rows"
        self.deepest = max(self.deepest, node.depth + 1)
        return self.scope.node(node.depth)

    def directions(
        self,
        node: Node,
        payer: NodePayer,
        *,
        center: FloatArray,
        radius: float,
        count: int,
        share: Fraction = DIRECTIONS_SHARE,
    ) -> FloatArray:
        """Projection (count, dim) of rows to the leading directions of the private rows of a node, clipped to a public ball.

        The ball has this radius around the image of the center; the directions are orthonormal there.
        """
        name = f"node {node.id}: directions"
        affine = AffineMap(dim=self.run.rows.dim, center=center, matrix=self.scaling.matrix)
        released = self.run.release(
            SecondMoment(affine=affine, radius=radius, only=self.only(node)),
            name=name,
            cost=payer.allowance * share,
            payer=payer,
            clip_radius=radius,
        )
        return self.scaling.after(leading(released.value, count))

    def radial_counts(
        self,
        node: Node,
        payer: NodePayer,
        *,
        origin: FloatArray,
        projection: FloatArray,
        center: FloatArray,
        edges: FloatArray,
        share: Fraction = HISTOGRAM_SHARE,
        attempt: int = 1,
    ) -> Released:
        """Noisy numbers of private rows of a node by distance from a public centre in projected space: one joint histogram."""
        name = f"node {node.id}: radial counts" + (f", attempt {attempt}" if attempt > 1 else "")
        return self.run.release(
            ShellCounts(
                affine=AffineMap(dim=self.run.rows.dim, center=origin, matrix=projection, offset=-center),
                edges=edges,
                only=self.only(node),
            ),
            name=name,
            cost=payer.allowance * share,
            payer=payer,
            cells=float(len(edges) + 1),
        )

    def split_ball(
        self,
        node: Node,
        *,
        origin: FloatArray,
        projection: FloatArray | None,
        center: FloatArray,
        radius: float,
        depth: int,
    ) -> tuple[Node, Node]:
        """Cut a node by a ball; returns the children (inside, outside) with their public rows."""
        self.tree = self.tree.split_ball(node.id, origin=origin, projection=projection, center=center, radius=radius)
        inside, outside = self.tree.children(node.id)
        # By the same code as private rows, so that a row on the surface is on the same side in every pass.
        within = self.tree.members(self.public[node.rows], inside)
        return (
            Node(id=inside, rows=node.rows[within], depth=depth, radius=self.scale_of(node.rows[within], node)),
            Node(id=outside, rows=node.rows[~within], depth=depth, radius=self.scale_of(node.rows[~within], node)),
        )

    def scale_of(self, rows: IntArray, parent: Node) -> float:
        """Radius of a public ball around public rows; that of the parent where they coincide."""
        spread = widest(self.public[rows]) if len(rows) > 1 else 0.0
        return spread if spread > 0.0 else parent.radius

    def finish(self, leaves: Sequence[Node]) -> Clustering:
        """The result; leaves in the order of their ids."""
        ordered = sorted(leaves, key=lambda node: node.id)
        return Clustering(
            tree=self.tree,
            leaves=tuple(node.id for node in ordered),
            scales=tuple(node.radius for node in ordered),
            depth=self.deepest,
            cuts=tuple(self.cuts),
            kept=self.kept,
        )


def widest(points: FloatArray) -> float:
    """Largest distance of public rows from their mean."""
    return float(distances(points, points.mean(axis=0)).max())


def usable_radius(radius: float, points: FloatArray) -> bool:
    """Whether a public ball is large enough, beside the size of its rows, to clip private rows to."""
    return math.isfinite(radius) and radius > LEAST_RADIUS * max(1.0, float(np.abs(points).max()))


def leading(matrix: FloatArray, count: int) -> FloatArray:
    """Eigenvectors (count, dim) of the algebraically largest eigenvalues of a released matrix, signs fixed."""
    _, vectors = spectrum(matrix)
    rows = vectors[:, ::-1][:, :count].T
    largest = np.take_along_axis(rows, np.argmax(np.abs(rows), axis=1)[:, None], axis=1)
    return np.ascontiguousarray(rows * np.where(largest < 0.0, -1.0, 1.0))
