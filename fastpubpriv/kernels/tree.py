"""Rows down a cluster tree, and rows put together by leaf (C, one thread, no GIL)."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels.kept import UNASSIGNED, known_nodes, node_fields
from fastpubpriv.maps import RowTree

LabelArray = npt.NDArray[np.int32]


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
    known = known_nodes(chunk, row_tree)
    if known is None:
        tree_assign(chunk, row_tree, labels)
    else:
        known.write_labels(labels)
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
    nodes, n_nodes = _described(row_tree), len(row_tree.splits)
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


# What C reads of a tree, for as long as the tree is there.
_DESCRIBED: weakref.WeakKeyDictionary[RowTree, Any] = weakref.WeakKeyDictionary()


def _described(row_tree: RowTree) -> Any:
    """The nodes of a tree for C."""
    found = _DESCRIBED.get(row_tree)
    if found is None:
        _DESCRIBED[row_tree] = found = _description(row_tree)
    return found


def _description(row_tree: RowTree) -> Any:
    """Nodes that lead to no target end there, and targets are leaves."""
    label = {target: index for index, target in enumerate(row_tree.targets)}
    nodes = [
        {"rule": lib.FPP_NODE_LEAF, "label": label.get(index, UNASSIGNED)}
        if split is None or index not in row_tree.above
        else node_fields(split, split.first_child)
        for index, split in enumerate(row_tree.splits)
    ]
    return _cbuf.new("fpp_tree_node[]", nodes)
