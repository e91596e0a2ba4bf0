"""Sums and counts of the rows that reach each target of a cluster tree (C, one thread, no GIL).

Where earlier passes have found out how far the rows of an array go, one call moves them on, puts a block of them together and adds
it up while it is in the second cache. Elsewhere rows go down the tree, are put together, and are added up one target after another:
the same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf, rows
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.maps import RowMap, RowTree

Maps = Sequence[RowMap | None]
Totals = Sequence[IntArray | None]


def leaf_counts(chunk: npt.NDArray[Any], row_tree: RowTree, counts: IntArray) -> None:
    """counts (n_labels,) += rows of chunk (n, dim) that reach each target."""
    _cbuf.expect("counts", counts, np.int64, (row_tree.n_labels,))
    counts += np.diff(grouped_rows(chunk, row_tree)[1])


def leaf_sums(chunk: npt.NDArray[Any], row_tree: RowTree, maps: Maps, sums: Totals) -> None:
    """sums[label] (out_dim,) += integer rows, by maps[label], of those of chunk (n, dim) that reach it."""
    shapes = [None if row_map is None else (row_map.out_dim,) for row_map in maps]
    _add(rows.rows_sum, chunk, row_tree, maps, sums, shapes)


def leaf_grams(chunk: npt.NDArray[Any], row_tree: RowTree, maps: Maps, grams: Totals) -> None:
    """grams[label] (out_dim, out_dim), lower triangle, += sum of q q^T over the same integer rows."""
    shapes = [None if row_map is None else (row_map.out_dim, row_map.out_dim) for row_map in maps]
    _add(rows.rows_gram, chunk, row_tree, maps, grams, shapes)


def leaf_shell_counts(
    chunk: npt.NDArray[Any], row_tree: RowTree, maps: Maps, edges_sq: FloatArray, counts: Totals
) -> None:
    """counts[label] (n_edges + 1,) += rows that reach a target by how many of edges_sq (n_edges,) are below |y|^2."""

    def shell_counts(chunk: npt.NDArray[Any], row_map: RowMap, found: IntArray) -> None:
        rows.rows_shell_counts(chunk, row_map, edges_sq, found)

    _cbuf.expect("edges_sq", edges_sq, np.float64, (edges_sq.size,))
    shapes = [None if row_map is None else (edges_sq.size + 1,) for row_map in maps]
    _add(shell_counts, chunk, row_tree, maps, counts, shapes)


def _add(
    one: Callable[[npt.NDArray[Any], RowMap, IntArray], None],
    chunk: npt.NDArray[Any],
    row_tree: RowTree,
    maps: Maps,
    totals: Totals,
    shapes: Sequence[tuple[int, ...] | None],
) -> None:
    if not len(maps) == len(totals) == row_tree.n_labels:
        raise InputError(f"{row_tree.n_labels} targets need as many maps and totals, got {len(maps)} and {len(totals)}")
    taking = [
        (label, row_map, total)
        for label, (row_map, total) in enumerate(zip(maps, totals, strict=True))
        if row_map is not None and total is not None
    ]
    for label, _, total in taking:
        _cbuf.expect("a total", total, np.int64, shapes[label] or ())
    # Without splits all rows are there; those with a non-finite entry add nothing anyway.
    grouped, begins = (chunk, [0, len(chunk)]) if not row_tree.above else grouped_rows(chunk, row_tree)
    for label, row_map, total in taking:
        if begins[label] < begins[label + 1]:
            one(grouped[begins[label] : begins[label + 1]], row_map, total)
