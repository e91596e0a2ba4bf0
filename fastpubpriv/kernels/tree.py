"""Rows down a cluster tree, and rows put together by leaf (C, one thread, no GIL)."""

from __future__ import annotations

import enum
import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib

LabelArray = npt.NDArray[np.int32]

UNASSIGNED = -1


class Rule(enum.Enum):
    """How a node chooses among its children."""

    BALL = lib.FPP_NODE_BALL
    NEAREST = lib.FPP_NODE_NEAREST


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """An inner node of a cluster tree: y = projection (x - origin), then a ball or the nearest of some centers.

    Parameters
    ----------
    rule : Rule
        BALL: the first child takes a row with |y - center|^2 <= radius_sq, the second all others (NaN too). NEAREST: the child of
        the least |y - center|^2, of the first among equals.
    origin : (dim,) float64
    projection : (out_dim, dim) float64 or None
        None is the identity.
    centers : (n_centers, out_dim) float64
        One for BALL.
    first_child : int
        Id of the first child; the others follow.
    radius_sq : float
        BALL only.

    Guarantees
    ----------
    Arrays are copied and read-only. Every sum of a row goes term by term in ascending order of the column, so a row takes the
    same way in every pass, chunk, thread and instruction set.
    """

    rule: Rule
    origin: FloatArray
    projection: FloatArray | None
    centers: FloatArray
    first_child: int
    radius_sq: float = 0.0

    def __post_init__(self) -> None:
        origin, centers = _public("origin", self.origin, 1), _public("centers", self.centers, 2)
        out_dim = len(origin)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "centers", centers)
        if self.projection is not None:
            projection = _public("projection", self.projection, 2)
            if projection.shape[1] != len(origin):
                raise InputError(f"projection must have shape (l, {len(origin)}), got {projection.shape}")
            out_dim = len(projection)
            object.__setattr__(self, "projection", projection)
        if centers.shape[1] != out_dim:
            raise InputError(f"centers must have shape (n_centers, {out_dim}), got {centers.shape}")
        if self.rule is Rule.BALL and len(centers) != 1:
            raise InputError(f"a ball has one center, got {len(centers)}")
        radius_sq = float(self.radius_sq)
        if not 0.0 <= radius_sq <= math.inf:
            raise InputError(f"the squared radius must be at least 0, got {radius_sq}")
        object.__setattr__(self, "radius_sq", radius_sq)

    @property
    def n_children(self) -> int:
        """How many children the node has; their ids follow one another."""
        return 2 if self.rule is Rule.BALL else len(self.centers)

    @property
    def children(self) -> range:
        """Ids of the children."""
        return range(self.first_child, self.first_child + self.n_children)

    def named(self, above: str) -> str:
        """A name for this node by everything that decides where its rows go, given the name of the way to it."""
        content = hashlib.sha256(above.encode())
        parts = [self.origin, self.centers] if self.projection is None else [self.origin, self.centers, self.projection]
        for part in parts:
            content.update(repr(part.shape).encode() + part.astype("<f8").tobytes())
        content.update(repr((self.rule.name, self.radius_sq.hex())).encode())
        return content.hexdigest()[:32]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class RowTree:
    """A cluster tree as the kernels see it: rows that reach target i get label i, all other rows get -1.

    Parameters
    ----------
    dim : int
        Columns of a row.
    splits : sequence of Split or None
        Nodes by id, None for a leaf; node 0 is the root, and children come after their parent.
    targets : sequence of int
        Ids of leaves or inner nodes, none below another.

    Attributes
    ----------
    lineage : tuple of str
        Names what the labels mean by everything that decides them. One target: the nodes from the root to it, each as
        "split above/which child", so that a node's lineage begins with its parent's. Several: one name for all.
    """

    dim: int
    splits: tuple[Split | None, ...]
    targets: tuple[int, ...]
    lineage: tuple[str, ...]
    _nodes: Any
    _keep: Any

    def __init__(self, dim: int, splits: Sequence[Split | None], targets: Sequence[int]) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "splits", tuple(splits))
        object.__setattr__(self, "targets", tuple(targets))
        parents = parents_of(self.splits)
        paths = [path_to(parents, target) for target in self.targets]
        above = {node for path in paths for node in path[:-1]}
        if not self.targets or above & set(self.targets) or len(set(self.targets)) < len(self.targets):
            raise InputError("targets must be different nodes of the tree, at least one, none of them below another")
        for node in above:
            split = self.splits[node]
            if split is None or len(split.origin) != dim:
                raise InputError(f"node {node} does not split rows of {dim} columns")
        lineage = self._lineage(paths[0])
        if len(paths) > 1:
            ends = "\n".join(self._lineage(path)[-1] for path in paths)
            lineage = (hashlib.sha256(ends.encode()).hexdigest()[:32],)
        object.__setattr__(self, "lineage", lineage)
        self._describe(above)

    def __reduce__(self) -> Any:
        return RowTree, (self.dim, self.splits, self.targets)

    @property
    def n_labels(self) -> int:
        """Number of targets."""
        return len(self.targets)

    def _lineage(self, path: Sequence[int]) -> tuple[str, ...]:
        """Names of the nodes of a path from the root: the split above, and which child of it."""
        names = [f"{self.dim} columns"]
        for node, child in itertools.pairwise(path):
            split = self.splits[node]
            assert split is not None
            names.append(f"{split.named(names[-1])}/{child - split.first_child}")
        return tuple(names)

    def _describe(self, above: set[int]) -> None:
        """The C structures: nodes that lead to no target end there, and targets are leaves."""
        label = {target: index for index, target in enumerate(self.targets)}
        nodes = ffi.new("fpp_tree_node[]", len(self.splits))
        keep: list[Any] = []

        def pointer(array: FloatArray | None) -> Any:
            if array is None:
                return ffi.NULL
            keep.append(ffi.from_buffer("double[]", array))
            return keep[-1]

        for index, split in enumerate(self.splits):
            node = nodes[index]
            if split is None or index not in above:
                node.rule, node.label = lib.FPP_NODE_LEAF, label.get(index, UNASSIGNED)
                continue
            node.rule, node.radius_sq = split.rule.value, split.radius_sq
            node.n_centers, node.out_dim = split.centers.shape
            node.first_child = split.first_child
            node.origin, node.centers = pointer(split.origin), pointer(split.centers)
            node.projection = pointer(split.projection)
        if lib.fpp_tree_workspace_size(self.dim, nodes, len(self.splits)) < 0:
            raise InputError("the nodes are not a tree: children must follow their parent, adjacent to each other")
        object.__setattr__(self, "_nodes", nodes)
        object.__setattr__(self, "_keep", keep)


class Members:
    """The rows of a chunk that reach one node of a cluster tree: what a release with `only=` works on.

    Parameters
    ----------
    row_tree : RowTree
        With a single target.
    """

    __slots__ = ("lineage", "row_tree")

    def __init__(self, row_tree: RowTree) -> None:
        if row_tree.n_labels != 1:
            raise InputError(f"the rows of one node are asked for, got {row_tree.n_labels} nodes")
        self.row_tree = row_tree
        self.lineage = row_tree.lineage

    def __call__(self, chunk: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows of chunk (n, dim) that reach the node, (k, dim), in order. Valid until this thread's next call."""
        grouped, begins = grouped_rows(chunk, self.row_tree)
        return grouped[: begins[1]]


def grouped_rows(chunk: npt.NDArray[Any], row_tree: RowTree) -> tuple[npt.NDArray[Any], list[int]]:
    """Rows of chunk (n, dim) by label, and where each label's rows begin and end. Valid until this thread's next call."""
    n = chunk.shape[0]
    labels = _cbuf.scratch(4 * n, "labels")[: 4 * n].view(np.int32)
    size = chunk.shape[0] * row_tree.dim
    out = _cbuf.scratch(size * chunk.itemsize, "grouped")[: size * chunk.itemsize].view(chunk.dtype)
    out = out.reshape(n, row_tree.dim)
    begins = np.empty(row_tree.n_labels + 1, dtype=np.int64)
    tree_assign(chunk, row_tree, labels)
    rows_group(chunk, labels, row_tree.n_labels, out, begins)
    return out, begins.tolist()


def tree_assign(chunk: npt.NDArray[Any], row_tree: RowTree, labels: LabelArray) -> None:
    """labels (n,) int32 = label of the target that each row of chunk (n, dim) reaches; -1 for none or a non-finite row."""
    x, stride = _cbuf.rows(chunk, row_tree.dim)
    _cbuf.expect("labels", labels, np.int32, (chunk.shape[0],))
    nodes, n_nodes = row_tree._nodes, len(row_tree.splits)
    work = ffi.from_buffer(_cbuf.scratch(lib.fpp_tree_workspace_size(row_tree.dim, nodes, n_nodes)))
    call = lib.fpp_tree_assign_f64 if chunk.itemsize == 8 else lib.fpp_tree_assign_f32
    _cbuf.check(call(x, chunk.shape[0], stride, row_tree.dim, nodes, n_nodes, work, _cbuf.out(labels)))


def rows_group(
    chunk: npt.NDArray[Any], labels: LabelArray, n_groups: int, out: npt.NDArray[Any], begins: IntArray
) -> None:
    """out (n, dim), begins (n_groups + 1,): rows of chunk (n, dim) with label g, in order, at begins[g] ... begins[g + 1]."""
    x, stride = _cbuf.rows(chunk, out.shape[1])
    _cbuf.expect("labels", labels, np.int32, (chunk.shape[0],))
    _cbuf.expect("out", out, chunk.dtype.type, (chunk.shape[0], out.shape[1]))
    _cbuf.expect("begins", begins, np.int64, (n_groups + 1,))
    call = lib.fpp_rows_group_f64 if chunk.itemsize == 8 else lib.fpp_rows_group_f32
    inp, into = _cbuf.inp(labels), _cbuf.out(out)
    _cbuf.check(call(x, chunk.shape[0], stride, out.shape[1], inp, n_groups, into, _cbuf.out(begins)))


def parents_of(splits: Sequence[Split | None]) -> list[int]:
    """Parent of each node, -1 for the root."""
    parents = [-1] * len(splits)
    for index, split in enumerate(splits):
        for child in () if split is None else split.children:
            if not index < child < len(splits):
                raise InputError(f"node {index} has a child {child} that does not come after it")
            parents[child] = index
    return parents


def path_to(parents: Sequence[int], node: int) -> list[int]:
    """Nodes from the root to `node`."""
    if isinstance(node, bool) or not isinstance(node, int | np.integer) or not 0 <= node < len(parents):
        raise InputError(f"a node is a number from 0 to {len(parents) - 1}, got {node!r}")
    path = [int(node)]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    if path[-1] != 0:
        raise KernelError(f"node {node} does not hang on the root")
    return path[::-1]


def _public(name: str, value: npt.ArrayLike, ndim: int) -> FloatArray:
    """A read-only float64 copy of a public array."""
    array = np.array(value, dtype=np.float64, order="C")
    if array.ndim != ndim or 0 in array.shape:
        raise InputError(f"{name} must have {ndim} axes and no empty one, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite")
    array.flags.writeable = False
    return array
