"""Private rows to exact integers: column sums, Gram matrices, quantised rows and shell counts (C, one thread, no GIL)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels._maps import map_table
from fastpubpriv.maps import RowMap

GRAM_QUANT_MAX: int = lib.FPP_GRAM_QUANT_MAX


def rows_sum(chunk: npt.NDArray[Any], row_map: RowMap, sums: IntArray) -> None:
    """sums (out_dim,) += integer rows of chunk (n, dim), float64 or float32, modulo 2**64."""
    _cbuf.expect("sums", sums, _cbuf.I64, (row_map.out_dim,))
    x, stride, work, cmap = _arguments(chunk, row_map)
    call = lib.fpp_rows_sum_f64 if chunk.itemsize == 8 else lib.fpp_rows_sum_f32
    room = ffi.from_buffer("int64_t[]", sums, require_writable=True)
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, work, room))


def rows_gram(chunk: npt.NDArray[Any], row_map: RowMap, gram: IntArray) -> None:
    """gram (out_dim, out_dim), lower triangle with diagonal, += sum of q q^T over chunk (n, dim), modulo 2**64."""
    _cbuf.expect("gram", gram, np.int64, (row_map.out_dim, row_map.out_dim))
    x, stride, work, cmap = _arguments(chunk, row_map)
    call = lib.fpp_rows_gram_f64 if chunk.itemsize == 8 else lib.fpp_rows_gram_f32
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, work, _cbuf.out(gram)))


def rows_quantise(chunk: npt.NDArray[Any], row_map: RowMap, out: npt.NDArray[np.int32]) -> None:
    """out (n, out_dim) int32 = integer rows of chunk (n, dim)."""
    x, stride, work, cmap = _arguments(chunk, row_map)
    _cbuf.expect("out", out, np.int32, (chunk.shape[0], row_map.out_dim))
    call = lib.fpp_rows_quantise_f64 if chunk.itemsize == 8 else lib.fpp_rows_quantise_f32
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, work, _cbuf.out(out)))


def rows_shell_counts(chunk: npt.NDArray[Any], row_map: RowMap, edges_sq: FloatArray, counts: IntArray) -> None:
    """counts (n_edges + 1,) += rows of chunk (n, dim) by how many of edges_sq (n_edges,), ascending, are below |y|^2."""
    _cbuf.expect("edges_sq", edges_sq, np.float64, (edges_sq.size,))
    _cbuf.expect("counts", counts, np.int64, (edges_sq.size + 1,))
    x, stride, work, cmap = _arguments(chunk, row_map)
    call = lib.fpp_rows_shell_counts_f64 if chunk.itemsize == 8 else lib.fpp_rows_shell_counts_f32
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, _cbuf.inp(edges_sq), edges_sq.size, work, _cbuf.out(counts)))


def _arguments(chunk: npt.NDArray[Any], row_map: RowMap) -> tuple[Any, int, Any, Any]:
    """Pointer and stride of the rows, workspace, and map as C sees it."""
    pointer, stride = _cbuf.rows(chunk, row_map.dim)
    cmap = map_table(row_map)
    work = ffi.from_buffer(_cbuf.scratch(lib.fpp_rows_workspace_size(cmap)))
    return pointer, stride, work, cmap
