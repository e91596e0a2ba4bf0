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
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels._maps import map_table
from fastpubpriv.kernels.kept import known_nodes
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.maps import RowMap, RowTree

Maps = Sequence[RowMap | None]
Totals = Sequence[IntArray | None]


def leaf_counts(chunk: npt.NDArray[Any], row_tree: RowTree, counts: IntArray) -> None:
    """counts (n_labels,) += rows of chunk (n, dim) that reach each target."""
    _cbuf.expect("counts", counts, np.int64, (row_tree.n_labels,))
    known = known_nodes(chunk, row_tree)
    if known is None:
        counts += np.diff(grouped_rows(chunk, row_tree)[1])
        return
    totals = _cbuf.new("int64_t *[]", [_cbuf.out(counts)])
    known.add(_cbuf.new("fpp_each *", {"what": lib.FPP_EACH_COUNT, "totals": totals}))


def leaf_sums(chunk: npt.NDArray[Any], row_tree: RowTree, maps: Maps, sums: Totals) -> None:
    """sums[label] (out_dim,) += integer rows, by maps[label], of those of chunk (n, dim) that reach it."""
    shapes = [None if row_map is None else (row_map.out_dim,) for row_map in maps]
    _add(lib.FPP_EACH_SUM, rows.rows_sum, chunk, row_tree, maps, sums, shapes)


def leaf_grams(chunk: npt.NDArray[Any], row_tree: RowTree, maps: Maps, grams: Totals) -> None:
    """grams[label] (out_dim, out_dim), lower triangle, += sum of q q^T over the same integer rows."""
    shapes = [None if row_map is None else (row_map.out_dim, row_map.out_dim) for row_map in maps]
    _add(lib.FPP_EACH_GRAM, rows.rows_gram, chunk, row_tree, maps, grams, shapes)


def leaf_shell_counts(
    chunk: npt.NDArray[Any], row_tree: RowTree, maps: Maps, edges_sq: FloatArray, counts: Totals
) -> None:
    """counts[label] (n_edges + 1,) += rows that reach a target by how many of edges_sq (n_edges,) are below |y|^2."""

    def shell_counts(chunk: npt.NDArray[Any], row_map: RowMap, found: IntArray) -> None:
        rows.rows_shell_counts(chunk, row_map, edges_sq, found)

    _cbuf.expect("edges_sq", edges_sq, np.float64, (edges_sq.size,))
    shapes = [None if row_map is None else (edges_sq.size + 1,) for row_map in maps]
    _add(lib.FPP_EACH_SHELLS, shell_counts, chunk, row_tree, maps, counts, shapes, edges_sq)


def _add(
    what: int,
    one: Callable[[npt.NDArray[Any], RowMap, IntArray], None],
    chunk: npt.NDArray[Any],
    row_tree: RowTree,
    maps: Maps,
    totals: Totals,
    shapes: Sequence[tuple[int, ...] | None],
    edges_sq: FloatArray | None = None,
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
    known = known_nodes(chunk, row_tree)
    if known is None:
        # Without splits all rows are there; those with a non-finite entry add nothing anyway.
        grouped, begins = (chunk, [0, len(chunk)]) if not row_tree.above else grouped_rows(chunk, row_tree)
        for label, row_map, total in taking:
            if begins[label] < begins[label + 1]:
                one(grouped[begins[label] : begins[label + 1]], row_map, total)
        return
    tables, into = [ffi.NULL] * row_tree.n_labels, [ffi.NULL] * row_tree.n_labels
    for label, row_map, total in taking:
        tables[label], into[label] = map_table(row_map), _cbuf.out(total.reshape(-1))
    each = {"what": what, "maps": _cbuf.new("fpp_row_map *[]", tables), "totals": _cbuf.new("int64_t *[]", into)}
    edges = {} if edges_sq is None else {"edges_sq": _cbuf.inp(edges_sq), "n_edges": edges_sq.size}
    known.add(_cbuf.new("fpp_each *", {**each, **edges}))
