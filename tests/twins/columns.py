"""Signed dyadic cells and boxes of columns, in readable NumPy: equal bits to `kernels.rows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.row_maps import ColumnBox, RowMap
from twins.rows import rows_shell_counts, rows_sum

_SIZE = np.uint64(2**63 - 1)


def cells_of_column(log2_parts: int) -> int:
    """Cells of one column: those of each sign, zero, missing."""
    return 2 * (2047 << log2_parts) + 2


def columns_count(
    chunk: npt.NDArray[Any], center: FloatArray, log2_parts: int, neutral: bool, counts: IntArray
) -> None:
    """counts (dim, k) += numbers of chunk (n, dim), float64 or float32, by cell: the first cells_of_column(log2_parts) of k."""
    with np.errstate(all="ignore"):
        x = chunk.astype(np.float64)
        missing = ~np.isfinite(x)
        if neutral:
            missing |= np.logical_or.reduce(missing, axis=1).reshape(-1, 1)
        bits = np.ascontiguousarray(x - center).view(np.uint64)
    size = bits & _SIZE
    side = 2047 << log2_parts
    # For zero the difference wraps around; its cell is put in afterwards.
    key = ((size - np.uint64(1)) >> np.uint64(52 - log2_parts)).astype(np.int64) + np.where(bits > _SIZE, side, 0)
    cell = np.where(missing, 2 * side + 1, np.where(size == 0, 2 * side, key))
    for column in range(x.shape[1]):
        counts[column, : 2 * side + 2] += np.bincount(cell[:, column], minlength=2 * side + 2)


def columns_cells(chunk: npt.NDArray[Any], edges: Sequence[FloatArray], counts: IntArray) -> None:
    """counts (edges + 1 of each column, one after another) += numbers of chunk by how many edges are at most each."""
    begin = 0
    for column, cuts in enumerate(edges):
        with np.errstate(all="ignore"):
            value = chunk[:, column].astype(np.float64)
        cell = np.searchsorted(cuts, value[np.isfinite(value)], side="right")
        counts[begin : begin + len(cuts) + 1] += np.bincount(cell, minlength=len(cuts) + 1)
        begin += len(cuts) + 1


def columns_box(chunk: npt.NDArray[Any], box: ColumnBox) -> FloatArray:
    """Numbers of chunk (n, dim), float64 or float32, less a centre, clipped, less a middle, over a width: (n, dim) float64."""
    with np.errstate(all="ignore"):
        x = chunk.astype(np.float64)
        v = x - box.center
        v = np.where(v < box.lower, box.lower, v)
        v = np.where(v > box.upper, box.upper, v)
        y = np.where(np.isfinite(x), (v - box.middle) / box.width, box.absent)
    if box.neutral:
        y[~np.isfinite(x).all(axis=1)] = np.nan
    return np.asarray(y)


def boxed_sum(chunk: npt.NDArray[Any], box: ColumnBox, row_map: RowMap, sums: IntArray) -> None:
    """sums (out_dim,) += integer rows of the boxed chunk (n, dim), float64 or float32, modulo 2**64."""
    rows_sum(columns_box(chunk, box), row_map, sums)


def boxed_shell_counts(
    chunk: npt.NDArray[Any], box: ColumnBox, row_map: RowMap, edges_sq: FloatArray, counts: IntArray
) -> None:
    """counts (n_edges + 1,) += rows of the boxed chunk (n, dim) by how many of edges_sq (n_edges,), ascending, are below |y|^2."""
    rows_shell_counts(columns_box(chunk, box), row_map, edges_sq, counts)
