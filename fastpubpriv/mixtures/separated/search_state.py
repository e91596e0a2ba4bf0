"""The cluster tree and the state that all searches share: nodes, their public rows, and two private queries."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import FastPubPrivError, InputError
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.kernels.tree import tree_assign
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment, ShellCounts
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated.public_shapes import DATA_UNITS, Scaling, distances
from fastpubpriv.release.account import NodeBudget, TreeBudget
from fastpubpriv.results.base import Value
from fastpubpriv.results.json_fields import read_json, without_version
from fastpubpriv.results.result_tables import Facts, Table
from fastpubpriv.rowwise.row_maps import RowTree, Rule, Split, parents_of, path_to
from fastpubpriv.session import Session
from fastpubpriv.sources.column_names import points

# The cluster tree: released balls, projections and centers that route each row to a leaf. Private rows are never partitioned.


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterTree(Value):
    """A tree of splits of the space, made of public and released numbers only.

    Nodes have ids: the root is 0, children get the next free ids, and an id never changes as the tree grows. A split returns a
    new tree; the old one is still valid.

    Parameters
    ----------
    dim : int
        Number of columns.
    splits : tuple of Split or None
        Splits by node id, None for a leaf. Start from `ClusterTree.root(dim)`.

    Notes
    -----
    Each row is routed by one fixed sequence of floating-point operations on that row alone (`csrc/tree.c`), so it reaches the same
    leaf in every pass, whatever its position, chunk, thread or instruction set. Parallel composition over leaves relies on that.

    Examples
    --------
    >>> tree = ClusterTree.root(2).split_ball(0, origin=[0.0, 0.0], projection=None, center=[5.0, 0.0], radius=1.0)
    >>> tree.leaves, tree.assign([[5.0, 1.0], [0.0, 0.0], [np.nan, 0.0]]).tolist()
    ((1, 2), [1, 2, -1])
    """

    dim: int
    splits: tuple[Split | None, ...] = (None,)

    @classmethod
    def root(cls, dim: int) -> ClusterTree:
        """A tree of one leaf, for rows of `dim` columns."""
        return cls(validation.integer("dim", dim, minimum=1))

    def split_ball(
        self, node: int, *, origin: Any, projection: Any, center: Any, radius: float
    ) -> ClusterTree:
        """Split a leaf into the ball |projection (x - origin) - center| <= radius (first child) and the rest (second child).

        `origin` (dim,), `projection` (l, dim) or None for the identity, `center` (l,). The comparison is between squares.
        """
        radius = validation.finite("radius", radius)
        if radius < 0.0:
            raise InputError(f"radius must be at least 0, got {radius}")
        centers = np.asarray(center, dtype=np.float64)[None]
        return self._split(node, Rule.BALL, origin, projection, centers, radius * radius)

    def split_nearest(
        self, node: int, *, origin: Any, projection: Any, centers: Any
    ) -> ClusterTree:
        """Split a leaf by the nearest of `centers` (c, l) to projection (x - origin); the first of equals wins."""
        return self._split(node, Rule.NEAREST, origin, projection, centers, 0.0)

    def _split(
        self, node: int, rule: Rule, origin: Any, projection: Any, centers: Any, radius_sq: float
    ) -> ClusterTree:
        self.path(node)
        if self.splits[node] is not None:
            raise InputError(f"node {node} has been split already; split a leaf: {self.leaves}")
        split = Split(
            rule=rule,
            origin=validation.finite_vector("origin", origin, self.dim),
            projection=projection,
            centers=centers,
            first_child=len(self.splits),
            radius_sq=radius_sq,
        )
        grown = [*self.splits, *[None] * len(split.children)]
        grown[node] = split
        return replace(self, splits=tuple(grown))

    @property
    def leaves(self) -> tuple[int, ...]:
        """Ids of the leaves, ascending."""
        return tuple(index for index, split in enumerate(self.splits) if split is None)

    def children(self, node: int) -> tuple[int, ...]:
        """Ids of the children of a node: inside then outside, or in the order of the centers; none for a leaf."""
        self.path(node)
        split = self.splits[node]
        return () if split is None else tuple(split.children)

    def path(self, node: int) -> tuple[int, ...]:
        """Ids from the root to a node."""
        return tuple(path_to(parents_of(self.splits), node))

    def routes(self, nodes: Any = None) -> RowTree:
        """The tree in the form of the kernels: rows that reach the i-th of `nodes` (default: the leaves) get label i, others -1."""
        return RowTree(self.dim, self.splits, self.leaves if nodes is None else tuple(nodes))

    def only(self, node: int) -> RowTree:
        """Routes to one node, for `only=` of a release."""
        return self.routes((node,))

    def assign(self, rows: Any) -> IntArray:
        """Id of the leaf that each of rows (n, dim) reaches, (n,); -1 for a row with a non-finite entry.

        The leaf of a private row is private data.
        """
        leaves = np.array([*self.leaves, -1], dtype=np.int64)
        reached: IntArray = leaves[self._labels(rows, self.routes())]
        return reached

    def members(self, rows: Any, node: int) -> BoolArray:
        """Whether each of rows (n, dim) reaches a node of any depth, (n,); False for a row with a non-finite entry."""
        inside: BoolArray = self._labels(rows, self.routes((node,))) == 0
        return inside

    def _labels(self, rows: Any, routes: RowTree) -> np.ndarray[Any, np.dtype[np.int32]]:
        array = rows
        if (
            type(array) is not np.ndarray
            or array.dtype not in (np.float32, np.float64)
            or not array.dtype.isnative
        ):
            array = points(rows, self.dim, finite=False)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise InputError(f"rows must have shape (n, {self.dim}), got {array.shape}")
        labels = np.empty(len(array), dtype=np.int32)
        tree_assign(np.ascontiguousarray(array), routes, labels)
        return labels

    def __repr__(self) -> str:
        return f"ClusterTree(dim={self.dim}, nodes={len(self.splits)}, leaves={len(self.leaves)})"

    def to_dict(self) -> dict[str, Any]:
        """Tree as plain lists, numbers and strings; `from_dict` reads it back bit for bit, also from JSON."""
        return Value.to_dict(self)

    def _plain(self) -> dict[str, Any]:
        nodes = []
        parents = [None, *parents_of(self.splits)[1:]]
        for index, split in enumerate(self.splits):
            node: dict[str, Any] = {"id": index, "parent": parents[index], "rule": "leaf"}
            if split is not None:
                node |= {
                    "rule": split.rule.name.lower(),
                    "children": list(split.children),
                    "origin": split.origin.tolist(),
                    "projection": None if split.projection is None else split.projection.tolist(),
                    "centers": split.centers.tolist(),
                }
                if split.rule is Rule.BALL:
                    node["radius_sq"] = split.radius_sq
            nodes.append(node)
        return {"dim": self.dim, "nodes": nodes}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ClusterTree:
        """Read back what `to_dict` wrote."""
        try:
            data = without_version(data)
            if set(data) != {"dim", "nodes"}:
                raise KeyError
            splits = tuple(
                None
                if node["rule"] == "leaf"
                else Split(
                    rule=Rule[node["rule"].upper()],
                    origin=node["origin"],
                    projection=node["projection"],
                    centers=node["centers"],
                    first_child=node["children"][0],
                    radius_sq=node.get("radius_sq", 0.0),
                )
                for node in data["nodes"]
            )
            tree = cls(validation.integer("dim", data["dim"], minimum=1), splits)
            tree.routes()
            return tree
        except FastPubPrivError:
            raise
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError):
            raise InputError("this is not what ClusterTree.to_dict writes") from None

    @classmethod
    def from_json(cls, text: str | os.PathLike[str]) -> ClusterTree:
        """Read back what `to_json` returned, or wrote to a path."""
        return cls.from_dict(read_json(text, cls.__name__))

    def _table(self, level: float) -> Table:
        nodes = self._plain()["nodes"]
        heads = ("parent", "rule", "children")
        columns = [(head, [str(node.get(head, "")) for node in nodes]) for head in heads]
        return Table("node", range(len(nodes)), columns)

    def _facts(self, level: float) -> Facts:
        return [("Leaves", ", ".join(map(str, self.leaves)))]


HISTOGRAM_SHARE = 1 - tuning.DIRECTIONS_SHARE
# A ball smaller than this share of the magnitude of its rows is due to rounding; its node becomes a leaf.
LEAST_RADIUS = 1e-100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A node of the tree: indices of its public rows, number of ancestors with private queries, radius of its public ball."""

    id: int
    rows: IntArray
    depth: int
    radius: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clustering:
    """Result of a search: the tree, its leaves with the radii of public balls around them, and the released facts of each cut."""

    tree: ClusterTree
    leaves: tuple[int, ...]
    scales: tuple[float, ...]
    depth: int
    cuts: tuple[dict[str, Any], ...] = ()
    scaling: str = DATA_UNITS.name  # of the coordinates of distances


@dataclass(slots=True, eq=False)
class Search:
    """A search in progress over one data set; trees, centers and projections are in data units."""

    run: Session
    public: FloatArray
    n_components: int
    min_weight: float
    scope: TreeBudget | None = None  # pays for the private queries of nodes, None if there are none
    scaling: Scaling = DATA_UNITS  # the coordinates of distances
    tree: ClusterTree = field(init=False)
    cuts: list[dict[str, Any]] = field(default_factory=list)
    deepest: int = 0

    def __post_init__(self) -> None:
        self.tree = ClusterTree.root(self.public.shape[1])

    @property
    def least_private(self) -> float:
        """Minimum private rows on either side of a cut: a quarter of those of the smallest component."""
        return self.run.rows.n * self.min_weight / 4.0

    @property
    def least_public(self) -> int:
        """Minimum public rows on either side of a cut: half of those expected in the smallest component, at least one."""
        return max(1, math.ceil(len(self.public) * self.min_weight / 2.0))

    def root(self) -> Node:
        """Return the node of all rows."""
        return Node(id=0, rows=np.arange(len(self.public)), depth=0, radius=widest(self.public))

    def payer(self, node: Node) -> NodeBudget:
        """Return the budget of a node; its depth is checked against the maximum depth of the scope."""
        assert self.scope is not None, "this search asks nothing of private rows"
        self.deepest = max(self.deepest, node.depth + 1)
        return self.scope.node(node.depth)

    def directions(
        self,
        node: Node,
        payer: NodeBudget,
        *,
        center: FloatArray,
        radius: float,
        count: int,
        share: Fraction = tuning.DIRECTIONS_SHARE,
    ) -> FloatArray:
        """Release the projection (count or dim, dim) to principal directions of a node's private rows, clipped to a scaled ball."""
        name = f"node {node.id}: directions"
        affine = AffineMap(dim=self.run.rows.dim, center=center, matrix=self.scaling.matrix)
        released = self.run.release(
            SecondMoment(affine=affine, radius=radius, only=self.tree.only(node.id)),
            name=name,
            cost=payer.allowance * share,
            payer=payer,
            clip_radius=radius,
        )
        return self.scaling.after(leading(released.value, count))

    def radial_counts(
        self,
        node: Node,
        payer: NodeBudget,
        *,
        origin: FloatArray,
        projection: FloatArray,
        center: FloatArray,
        edges: FloatArray,
        share: Fraction = HISTOGRAM_SHARE,
        attempt: int = 1,
    ) -> Released:
        """Release one joint histogram of a node's private rows by distance from a public center in projected space."""
        name = f"node {node.id}: radial counts" + (f", attempt {attempt}" if attempt > 1 else "")
        return self.run.release(
            ShellCounts(
                affine=AffineMap(
                    dim=self.run.rows.dim, center=origin, matrix=projection, offset=-center
                ),
                edges=edges,
                only=self.tree.only(node.id),
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
        """Split a node by a ball; return the children (inside, outside) with their public rows."""
        self.tree = self.tree.split_ball(
            node.id, origin=origin, projection=projection, center=center, radius=radius
        )
        inside, outside = (self.child(each, node, depth) for each in self.tree.children(node.id))
        return inside, outside

    def child(self, name: int, parent: Node, depth: int) -> Node:
        """Return a child with its public rows, routed like private ones, and their radius (the parent's if they are equal)."""
        rows = parent.rows[self.tree.members(self.public[parent.rows], name)]
        spread = widest(self.public[rows]) if len(rows) > 1 else 0.0
        return Node(
            id=name, rows=rows, depth=depth, radius=spread if spread > 0.0 else parent.radius
        )

    def finish(self, leaves: Sequence[Node]) -> Clustering:
        """Return the result, with leaves sorted by id."""
        ordered = sorted(leaves, key=lambda node: node.id)
        return Clustering(
            tree=self.tree,
            leaves=tuple(node.id for node in ordered),
            scales=tuple(node.radius for node in ordered),
            depth=self.deepest,
            cuts=tuple(self.cuts),
            scaling=self.scaling.name,
        )


def widest(points: FloatArray) -> float:
    """Largest distance of public rows from their mean."""
    return float(distances(points, points.mean(axis=0)).max())


def usable_radius(radius: float, points: FloatArray) -> bool:
    """Whether a public ball is large enough, relative to the magnitude of its rows, to clip private rows to it."""
    return math.isfinite(radius) and radius > LEAST_RADIUS * max(1.0, float(np.abs(points).max()))


def leading(matrix: FloatArray, count: int) -> FloatArray:
    """Eigenvectors (count or dim, dim) of the algebraically largest eigenvalues of a released matrix, signs fixed."""
    _, vectors = spectrum(matrix)
    rows = vectors[:, ::-1][:, :count].T
    largest = np.take_along_axis(rows, np.argmax(np.abs(rows), axis=1)[:, None], axis=1)
    return np.ascontiguousarray(rows * np.where(largest < 0.0, -1.0, 1.0))
