"""Routing of rows down a cluster tree, and counts and sums of the rows that reach its targets (C, one thread, no GIL).

Rows are grouped by target and added up target by target.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf, rows
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.rowwise.row_maps import RowMap, RowTree

# Labels of rows by a cluster tree, and rows grouped by label (C, one thread, no GIL).

LabelArray = npt.NDArray[np.int32]
UNASSIGNED = -1


def grouped_rows(chunk: npt.NDArray[Any], row_tree: RowTree) -> tuple[npt.NDArray[Any], list[int]]:
    """Return rows of chunk (n, dim) by label, and where each label begins and ends. Valid until this thread's next call."""
    n = chunk.shape[0]
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
    nodes = _described(row_tree)
    n_nodes = len(row_tree.splits)
    work = ffi.from_buffer(_cbuf.scratch(lib.fpp_tree_workspace_size(row_tree.dim, nodes, n_nodes)))
    call = lib.fpp_tree_assign_f64 if chunk.itemsize == 8 else lib.fpp_tree_assign_f32
    _cbuf.check(
        call(x, chunk.shape[0], stride, row_tree.dim, nodes, n_nodes, work, _cbuf.out(labels))
    )


def rows_group(
    chunk: npt.NDArray[Any],
    labels: LabelArray,
    n_groups: int,
    out: npt.NDArray[Any],
    begins: IntArray,
) -> None:
    """out (n, dim), begins (n_groups + 1,): rows of chunk (n, dim) with label g, in order, at begins[g] ... begins[g + 1]."""
    x, stride = _cbuf.rows(chunk, out.shape[1])
    _cbuf.expect("labels", labels, np.int32, (chunk.shape[0],))
    _cbuf.expect("out", out, chunk.dtype.type, (chunk.shape[0], out.shape[1]))
    _cbuf.expect("begins", begins, np.int64, (n_groups + 1,))
    call = lib.fpp_rows_group_f64 if chunk.itemsize == 8 else lib.fpp_rows_group_f32
    inp = _cbuf.inp(labels)
    into = _cbuf.out(out)
    _cbuf.check(
        call(x, chunk.shape[0], stride, out.shape[1], inp, n_groups, into, _cbuf.out(begins))
    )


# The C structures of a tree, kept as long as the tree is alive.
_DESCRIBED: weakref.WeakKeyDictionary[RowTree, Any] = weakref.WeakKeyDictionary()


def _described(row_tree: RowTree) -> Any:
    """Return the nodes of a tree as C structures, in which targets, and nodes that lead to no target, are leaves."""
    if (description := _DESCRIBED.get(row_tree)) is not None:
        return description
    label = {target: index for index, target in enumerate(row_tree.targets)}
    nodes: list[dict[str, Any]] = []
    for index, split in enumerate(row_tree.splits):
        if split is None or index not in row_tree.above:
            nodes.append({"rule": lib.FPP_NODE_LEAF, "label": label.get(index, UNASSIGNED)})
            continue
        arrays = {"origin": split.origin, "centers": split.centers, "projection": split.projection}
        nodes.append(
            {
                "rule": split.rule.value,
                "radius_sq": split.radius_sq,
                "n_centers": split.centers.shape[0],
                "out_dim": split.centers.shape[1],
                "first_child": split.first_child,
                **{
                    name: ffi.from_buffer("double[]", array)
                    for name, array in arrays.items()
                    if array is not None
                },
            }
        )
    _DESCRIBED[row_tree] = description = _cbuf.new("fpp_tree_node[]", nodes)
    return description


def leaf_totals(
    chunk: npt.NDArray[Any],
    row_tree: RowTree,
    totals: Sequence[IntArray],
    maps: Sequence[RowMap],
    *,
    squares: bool = False,
) -> None:
    """totals[label] += integer rows q, by maps[label], of chunk (n, dim) that reach the target: (out_dim,), or sum of q q^T."""
    # Squares are lower triangles, (out_dim, out_dim).
    if not len(maps) == len(totals) == row_tree.n_labels:
        raise InputError(
            f"{row_tree.n_labels} targets need as many maps and totals, got {len(maps)} and {len(totals)}"
        )
    one = rows.rows_gram if squares else rows.rows_sum
    grouped, begins = grouped_rows(chunk, row_tree)
    for row_map, total, (begin, end) in zip(maps, totals, itertools.pairwise(begins), strict=True):
        if begin < end:
            one(grouped[begin:end], row_map, total)
