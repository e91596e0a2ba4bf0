"""Private rows to exact integers: column sums, Gram matrices, quantised rows and shell counts (C, one thread, no GIL)."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib

GRAM_QUANT_MAX: int = lib.FPP_GRAM_QUANT_MAX
_EXACT = 2**53
_DIM_MAX = 2**24


class MatrixKind(enum.Enum):
    """Shape of the linear part of a row map."""

    IDENTITY = lib.FPP_MATRIX_IDENTITY
    DIAGONAL = lib.FPP_MATRIX_DIAGONAL
    LOWER = lib.FPP_MATRIX_LOWER
    FULL = lib.FPP_MATRIX_FULL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowMap:
    """What happens to a row x before it is added up: y = offset + matrix (x - center), steps, clip, round, integer check.

    Parameters
    ----------
    dim : int
        Columns of a row.
    out_dim : int
        Columns of y: any number if `kind` is FULL, at least `dim` if LOWER, else `dim`.
    quant_bound : int
        Q, the largest integer norm that passes; out_dim * Q**2 <= 2**53.
    inv_step : float
        Grid steps per unit of y.
    limit : float
        Norm to which longer rows are shortened, in grid steps.
    kind : MatrixKind
        IDENTITY (no matrix), DIAGONAL (a vector), LOWER (row i is read up to column i) or FULL.
    center, offset : (dim,), (out_dim,) float64 or None
        Public vectors; None means zero.
    matrix : None, (dim,) or (out_dim, dim) float64
        Public matrix that `kind` calls for.

    Raises
    ------
    InputError
        Sizes that disagree, a non-finite entry, or Q too large for exact sums.

    Guarantees
    ----------
    Arrays are read-only, and copied unless they were. A row with a NaN or an infinity becomes the zero row. A finite row is
    clipped, never lost, whatever its size (up to inv_step = 1e150). Every integer row q satisfies sum q**2 <= quant_bound**2:
    replacing one row moves a sum by at most 2 Q in norm, and a full symmetric Gram matrix by at most sqrt(2) Q**2.
    """

    dim: int
    out_dim: int
    quant_bound: int
    inv_step: float
    limit: float
    kind: MatrixKind = MatrixKind.IDENTITY
    center: FloatArray | None = None
    matrix: FloatArray | None = None
    offset: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("dim", "out_dim", "quant_bound"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise InputError(f"{name} must be an integer of at least 1, got {value!r}")
            object.__setattr__(self, name, int(value))
        if max(self.dim, self.out_dim) > _DIM_MAX:
            raise InputError(f"rows may have at most {_DIM_MAX} columns, got dim={self.dim}, out_dim={self.out_dim}")
        if not isinstance(self.kind, MatrixKind):
            raise InputError("kind must be a MatrixKind")
        longer = self.kind is MatrixKind.LOWER and self.out_dim > self.dim
        if self.kind is not MatrixKind.FULL and self.out_dim != self.dim and not longer:
            raise InputError(
                f"a {self.kind.name} map keeps the columns: out_dim={self.out_dim} must equal dim={self.dim}"
            )
        if self.out_dim * self.quant_bound**2 > _EXACT:
            raise InputError(
                f"out_dim * quant_bound**2 must be at most 2**53 for exact checks: use quant_bound <= "
                f"{math.isqrt(_EXACT // self.out_dim)} with out_dim={self.out_dim}, got {self.quant_bound}"
            )
        for name in ("inv_step", "limit"):
            number = float(getattr(self, name))
            if not 0.0 < number < math.inf:
                raise InputError(f"{name} must be positive and finite, got {number}")
            object.__setattr__(self, name, number)
        shapes = {
            MatrixKind.IDENTITY: None,
            MatrixKind.DIAGONAL: (self.dim,),
            MatrixKind.LOWER: (self.out_dim, self.dim),
            MatrixKind.FULL: (self.out_dim, self.dim),
        }
        object.__setattr__(self, "matrix", _public("matrix", self.matrix, shapes[self.kind], required=True))
        object.__setattr__(self, "center", _public("center", self.center, (self.dim,)))
        object.__setattr__(self, "offset", _public("offset", self.offset, (self.out_dim,)))

    def __reduce__(self) -> Any:
        # A copy is made, and checked, like any other: arrays that were pickled can be written to.
        return partial(RowMap, **{field.name: getattr(self, field.name) for field in fields(self)}), ()


def rows_sum(chunk: npt.NDArray[Any], row_map: RowMap, sums: IntArray) -> None:
    """sums (out_dim,) += integer rows of chunk (n, dim), float64 or float32, modulo 2**64."""
    _cbuf.expect("sums", sums, np.int64, (row_map.out_dim,))
    x, stride, work, cmap, _keep = _arguments(chunk, row_map)
    call = lib.fpp_rows_sum_f64 if chunk.itemsize == 8 else lib.fpp_rows_sum_f32
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, work, _cbuf.out(sums)))


def rows_gram(chunk: npt.NDArray[Any], row_map: RowMap, gram: IntArray) -> None:
    """gram (out_dim, out_dim), lower triangle with diagonal, += sum of q q^T over chunk (n, dim), modulo 2**64."""
    _cbuf.expect("gram", gram, np.int64, (row_map.out_dim, row_map.out_dim))
    x, stride, work, cmap, _keep = _arguments(chunk, row_map)
    call = lib.fpp_rows_gram_f64 if chunk.itemsize == 8 else lib.fpp_rows_gram_f32
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, work, _cbuf.out(gram)))


def rows_quantise(chunk: npt.NDArray[Any], row_map: RowMap, out: npt.NDArray[np.int32]) -> None:
    """out (n, out_dim) int32 = integer rows of chunk (n, dim)."""
    x, stride, work, cmap, _keep = _arguments(chunk, row_map)
    _cbuf.expect("out", out, np.int32, (chunk.shape[0], row_map.out_dim))
    call = lib.fpp_rows_quantise_f64 if chunk.itemsize == 8 else lib.fpp_rows_quantise_f32
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, work, _cbuf.out(out)))


def rows_shell_counts(chunk: npt.NDArray[Any], row_map: RowMap, edges_sq: FloatArray, counts: IntArray) -> None:
    """counts (n_edges + 1,) += rows of chunk (n, dim) by how many of edges_sq (n_edges,), ascending, are below |y|^2."""
    _cbuf.expect("edges_sq", edges_sq, np.float64, (edges_sq.size,))
    _cbuf.expect("counts", counts, np.int64, (edges_sq.size + 1,))
    x, stride, work, cmap, _keep = _arguments(chunk, row_map)
    call = lib.fpp_rows_shell_counts_f64 if chunk.itemsize == 8 else lib.fpp_rows_shell_counts_f32
    _cbuf.check(call(x, chunk.shape[0], stride, cmap, _cbuf.inp(edges_sq), edges_sq.size, work, _cbuf.out(counts)))


def _public(
    name: str, value: npt.ArrayLike | None, shape: tuple[int, ...] | None, required: bool = False
) -> FloatArray | None:
    """A read-only float64 copy of a public array of the given shape, or None."""
    if shape is None:
        if value is not None:
            raise InputError("an IDENTITY map takes no matrix: pass another kind or leave it out")
        return None
    if value is None:
        if required:
            raise InputError(f"this kind of map needs {name} of shape {shape}")
        return None
    # A read-only array that owns its memory is taken as it is: nobody is going to change it, and a matrix may be large.
    array: FloatArray
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and _is_settled(value):
        array = value
    else:
        array = np.array(value, dtype=np.float64, order="C")
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite")
    array.flags.writeable = False
    return array


def _is_settled(array: npt.NDArray[Any]) -> bool:
    flags = array.flags
    return type(array) is np.ndarray and flags.owndata and flags.c_contiguous and not flags.writeable


def _arguments(chunk: npt.NDArray[Any], row_map: RowMap) -> tuple[Any, int, Any, Any, Any]:
    """Pointer and stride of the rows, workspace, map as C sees it, and the views that keep its pointers alive."""
    pointer, stride = _cbuf.rows(chunk, row_map.dim)
    keep = [
        None if v is None else ffi.from_buffer("double[]", v) for v in (row_map.center, row_map.matrix, row_map.offset)
    ]
    center, matrix, offset = (ffi.NULL if v is None else v for v in keep)
    cmap = ffi.new(
        "fpp_row_map *",
        (
            row_map.dim, row_map.out_dim, row_map.quant_bound, row_map.kind.value,
            center, matrix, offset, row_map.inv_step, row_map.limit,
        ),
    )  # fmt: skip
    work = ffi.from_buffer(_cbuf.scratch(lib.fpp_rows_workspace_size(cmap)))
    return pointer, stride, work, cmap, keep
