"""Rows down a cluster tree, and rows put together by leaf (C, one thread, no GIL)."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.maps import RowTree, Split

LabelArray = npt.NDArray[np.int32]

UNASSIGNED = -1
_WORTH_KEEPING = 1 << 14  # rows


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
    labels = _known_labels(chunk, row_tree)
    if labels is None:
        labels = _cbuf.scratch(4 * n, "labels")[: 4 * n].view(np.int32)
        tree_assign(chunk, row_tree, labels)
    size = chunk.shape[0] * row_tree.dim
    out = _cbuf.scratch(size * chunk.itemsize, "grouped")[: size * chunk.itemsize].view(chunk.dtype)
    out = out.reshape(n, row_tree.dim)
    begins = np.empty(row_tree.n_labels + 1, dtype=np.int64)
    rows_group(chunk, labels, row_tree.n_labels, out, begins)
    return out, begins.tolist()


def tree_assign(chunk: npt.NDArray[Any], row_tree: RowTree, labels: LabelArray) -> None:
    """labels (n,) int32 = label of the target that each row of chunk (n, dim) reaches; -1 for none or a non-finite row."""
    x, stride = _cbuf.rows(chunk, row_tree.dim)
    _cbuf.expect("labels", labels, np.int32, (chunk.shape[0],))
    (nodes, _keep), n_nodes = _described(row_tree), len(row_tree.splits)
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


class _Step(NamedTuple):
    """A split that rows of the node `code` go down: a tree of its own, and codes for its labels, the last for rows without one."""

    code: int
    routes: RowTree
    codes: npt.NDArray[np.int16]


class _Way(NamedTuple):
    """To the targets of a tree: the splits on the way, ascending, and the label of each code, the last for rows without one.

    Good for as long as the codes are those of `version`.
    """

    steps: list[_Step]
    labels: LabelArray
    version: tuple[int, int]


class KeptNodes:
    """For each row of an array the deepest node of a growing tree that it is known to reach, in two bytes: private data.

    A row goes down the same splits by the same operations as without this, but each of them once: the same bits. The array is
    held here, so that nothing else can lie in its memory; a chunk that does not lie there goes down the tree anew.
    """

    __slots__ = ("_base", "_begun", "_codes", "_names", "_parents", "_steps")

    def __init__(self, base: npt.NDArray[Any]) -> None:
        self._base = base
        self._codes = np.zeros(len(base), dtype=np.int16)
        self._begun = 0
        self._forget()

    @classmethod
    def of(cls, base: npt.NDArray[Any] | None, max_memory: int | None) -> KeptNodes | None:
        """For an array that is worth it and a bound in bytes that allows it; else None."""
        if base is None or len(base) < _WORTH_KEEPING or (max_memory is not None and 2 * len(base) > max_memory):
            return None
        return cls(base)

    def watch(self, row_tree: RowTree) -> None:
        """Route rows of the array down this tree by what is known of them. To be called between two passes."""
        if row_tree.above and len(self._parents) + len(row_tree.splits) < np.iinfo(np.int16).max:
            _WATCHED[row_tree] = self, self._way(row_tree)

    def labels(self, chunk: npt.NDArray[Any], way: _Way) -> LabelArray | None:
        """Labels (n,) of rows of a chunk; None if the chunk is no part of the array, or the tree was watched too long ago."""
        codes = self._of_chunk(chunk)
        if codes is None or way.version != self._version:
            return None
        for step in way.steps:
            here = np.flatnonzero(codes == step.code)
            if len(here):
                reached = np.empty(len(here), dtype=np.int32)
                tree_assign(chunk if len(here) == len(chunk) else chunk[here], step.routes, reached)
                codes[here] = step.codes[reached]
        found: LabelArray = way.labels[codes]
        return found

    def _of_chunk(self, chunk: npt.NDArray[Any]) -> npt.NDArray[np.int16] | None:
        base = self._base
        if chunk.dtype != base.dtype or chunk.shape[1:] != base.shape[1:] or not len(chunk):
            return None
        if len(chunk) > 1 and chunk.strides != base.strides:
            return None
        first, rest = divmod(chunk.ctypes.data - base.ctypes.data, base.strides[0])
        if rest or not 0 <= first <= len(base) - len(chunk):
            return None
        return self._codes[first : first + len(chunk)]

    def _forget(self) -> None:
        """Begin again: of all rows nothing is known but that they are in the root."""
        self._codes[:] = 0
        self._begun += 1
        self._names: dict[str, int] = {}
        self._parents: list[int] = []
        self._steps: dict[int, tuple[str, _Step]] = {}

    def _way(self, row_tree: RowTree) -> _Way:
        names, splits = {0: f"{row_tree.dim} columns"}, {}
        for node in sorted(row_tree.above):
            split = row_tree.splits[node]
            assert split is not None
            splits[node] = split.named(names[node]), split
            names.update({child: f"{splits[node][0]}/{child}" for child in split.children})
        # A node may be split in another way after a first split was taken back.
        known = {names[node]: name for node, (name, _) in splits.items()}
        before = {name: self._steps[code][0] for name, code in self._names.items() if code in self._steps}
        if any(known.get(name, split) != split for name, split in before.items()):
            self._forget()
        steps = [self._step(row_tree, names, node, *splits[node]) for node in sorted(splits)]
        labels = np.full(len(self._parents) + 1, UNASSIGNED, dtype=np.int32)
        targets = {self._names[names[target]]: label for label, target in enumerate(row_tree.targets)}
        for code, parent in enumerate(self._parents):  # a parent comes first, and what is below a target counts as it
            labels[code] = targets.get(code, labels[parent] if parent >= 0 else UNASSIGNED)
        return _Way(steps, labels, self._version)

    @property
    def _version(self) -> tuple[int, int]:
        return self._begun, len(self._parents)

    def _step(self, row_tree: RowTree, names: dict[int, str], node: int, name: str, split: Split) -> _Step:
        code = self._code(names[node], UNASSIGNED)
        if code not in self._steps:
            codes = [self._code(names[child], code) for child in split.children]
            alone = dataclasses.replace(split, first_child=1)
            routes = RowTree(row_tree.dim, [alone, *[None] * split.n_children], tuple(alone.children))
            self._steps[code] = name, _Step(code, routes, np.array([*codes, UNASSIGNED], dtype=np.int16))
        return self._steps[code][1]

    def _code(self, name: str, parent: int) -> int:
        if name not in self._names:
            self._names[name] = len(self._parents)
            self._parents.append(parent)
        return self._names[name]


def _known_labels(chunk: npt.NDArray[Any], row_tree: RowTree) -> LabelArray | None:
    """Labels of rows of a chunk where earlier passes have left something to go by."""
    watched = _WATCHED.get(row_tree)
    return None if watched is None else watched[0].labels(chunk, watched[1])


_WATCHED: weakref.WeakKeyDictionary[RowTree, tuple[KeptNodes, _Way]] = weakref.WeakKeyDictionary()

# What C reads of a tree, for as long as the tree is there.
_DESCRIBED: weakref.WeakKeyDictionary[RowTree, tuple[Any, list[Any]]] = weakref.WeakKeyDictionary()


def _described(row_tree: RowTree) -> tuple[Any, list[Any]]:
    """The nodes of a tree for C, and the views that keep their pointers alive."""
    found = _DESCRIBED.get(row_tree)
    if found is None:
        _DESCRIBED[row_tree] = found = _description(row_tree)
    return found


def _description(row_tree: RowTree) -> tuple[Any, list[Any]]:
    """Nodes that lead to no target end there, and targets are leaves."""
    label = {target: index for index, target in enumerate(row_tree.targets)}
    nodes = ffi.new("fpp_tree_node[]", len(row_tree.splits))
    keep: list[Any] = []

    def pointer(array: FloatArray | None) -> Any:
        if array is None:
            return ffi.NULL
        keep.append(ffi.from_buffer("double[]", array))
        return keep[-1]

    for index, split in enumerate(row_tree.splits):
        node = nodes[index]
        if split is None or index not in row_tree.above:
            node.rule, node.label = lib.FPP_NODE_LEAF, label.get(index, UNASSIGNED)
            continue
        node.rule, node.radius_sq = split.rule.value, split.radius_sq
        node.n_centers, node.out_dim = split.centers.shape
        node.first_child = split.first_child
        node.origin, node.centers = pointer(split.origin), pointer(split.centers)
        node.projection = pointer(split.projection)
    return nodes, keep
