"""Sums and counts of the rows that reach each target of a cluster tree: one target after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.row_maps import RowMap, RowTree
from twins import rows
from twins.tree import tree_assign


def leaf_counts(chunk: npt.NDArray[Any], row_tree: RowTree, counts: IntArray) -> None:
    """counts (n_labels,) += rows of chunk (n, dim) that reach each target."""
    for label, members in enumerate(_members(chunk, row_tree)):
        counts[label] += len(members)


def leaf_sums(
    chunk: npt.NDArray[Any], row_tree: RowTree, maps: Sequence[RowMap | None], sums: Sequence[IntArray | None]
) -> None:
    """sums[label] (out_dim,) += integer rows, by maps[label], of those of chunk (n, dim) that reach it."""
    for members, row_map, found in zip(_members(chunk, row_tree), maps, sums, strict=True):
        if row_map is not None and found is not None:
            rows.rows_sum(members, row_map, found)


def leaf_grams(
    chunk: npt.NDArray[Any], row_tree: RowTree, maps: Sequence[RowMap | None], grams: Sequence[IntArray | None]
) -> None:
    """grams[label] (out_dim, out_dim), lower triangle, += sum of q q^T over the same integer rows."""
    for members, row_map, found in zip(_members(chunk, row_tree), maps, grams, strict=True):
        if row_map is not None and found is not None:
            rows.rows_gram(members, row_map, found)


def _members(chunk: npt.NDArray[Any], row_tree: RowTree) -> list[npt.NDArray[Any]]:
    """The rows that reach each target."""
    labels = np.empty(len(chunk), dtype=np.int32)
    tree_assign(chunk, row_tree, labels)
    return [chunk[labels == label] for label in range(row_tree.n_labels)]
