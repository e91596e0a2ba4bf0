"""Exact integers of private rows: sums, Gram matrices, quantized rows, shell counts, and statistics of single columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import Columns, FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels.gradients import loss_fields
from fastpubpriv.rowwise.row_maps import ColumnBox, RowMap, RowScore

Codes = np.ndarray[Any, np.dtype[np.int32]]  # the group of each row

# A row map as C reads it.


def _map_table(row_map: RowMap) -> Any:
    """Return the map as a C structure."""
    m = row_map
    arrays = [
        ffi.NULL if v is None else ffi.from_buffer("double[]", v)
        for v in (m.center, m.matrix, m.offset)
    ]
    numbers = (m.dim, m.out_dim, m.quant_bound, m.kind._value_)
    score = ffi.NULL if m.score is None else _score_table(m.score)
    return _cbuf.new("fpp_row_map *", (*numbers, *arrays, m.inv_step, m.limit, score))


def _score_table(score: RowScore) -> Any:
    """Return the score of a row as a C structure."""
    fields = loss_fields(score.residual, outputs=False)
    fields["curvature"] = int(score.curvature)
    fields["weighted"] = int(score.weighted)
    fields["unit"] = score.unit
    fields["step"] = score.step
    fields["slope"] = _cbuf.inp(score.slope)
    return _cbuf.new("fpp_row_score *", fields)


# largest norm of a whole row whose squares are added up
GRAM_QUANT_MAX: int = lib.FPP_GRAM_QUANT_MAX

# Column sums, Gram matrices, quantized rows and shell counts (C, one thread, no GIL).


def rows_sum(
    chunk: npt.NDArray[Any], row_map: RowMap, sums: IntArray, box: ColumnBox | None = None
) -> None:
    """sums (out_dim,) += integer rows of chunk (n, dim), float64 or float32, after a box if there is one, modulo 2**64."""
    _cbuf.expect("sums", sums, np.int64, (row_map.out_dim,))
    given, work = _arguments(chunk, row_map, box)
    call = lib.fpp_rows_sum if box is None else lib.fpp_boxed_sum
    _cbuf.check(call(*given, work, _cbuf.out(sums)))


def rows_sum_counted(
    chunk: npt.NDArray[Any], row_map: RowMap, sums: IntArray, neutral: IntArray
) -> None:
    """Add as `rows_sum`; neutral (1,) += rows of chunk that are zero in the sums because an entry is not finite."""
    _cbuf.expect("sums", sums, np.int64, (row_map.out_dim,))
    _cbuf.expect("neutral", neutral, np.int64, (1,))
    given, work = _arguments(chunk, row_map)
    _cbuf.check(lib.fpp_rows_sum_counted(*given, work, _cbuf.out(sums), _cbuf.out(neutral)))


def rows_gram(chunk: npt.NDArray[Any], row_map: RowMap, gram: IntArray) -> None:
    """gram (out_dim, out_dim), lower triangle with diagonal, += sum of q q^T over chunk (n, dim), modulo 2**64."""
    _cbuf.expect("gram", gram, np.int64, (row_map.out_dim, row_map.out_dim))
    rows, work = _arguments(chunk, row_map)
    _cbuf.check(lib.fpp_rows_gram(*rows, work, _cbuf.out(gram)))


def rows_gram_counted(
    chunk: npt.NDArray[Any], row_map: RowMap, gram: IntArray, neutral: IntArray
) -> None:
    """Add as `rows_gram`; neutral (1,) += rows of chunk that are zero in the Gram matrix because an entry is not finite."""
    _cbuf.expect("gram", gram, np.int64, (row_map.out_dim, row_map.out_dim))
    _cbuf.expect("neutral", neutral, np.int64, (1,))
    rows, work = _arguments(chunk, row_map)
    _cbuf.check(lib.fpp_rows_gram_counted(*rows, work, _cbuf.out(gram), _cbuf.out(neutral)))


def rows_pieces(chunk: npt.NDArray[Any], row_map: RowMap, grams: IntArray) -> None:
    """grams (2, out_dim, out_dim) += Gram matrices of the parts of rows inside the limit, and from there to sqrt(2) times it."""
    _cbuf.expect("grams", grams, np.int64, (2, row_map.out_dim, row_map.out_dim))
    rows, work = _arguments(chunk, row_map)
    _cbuf.check(lib.fpp_rows_pieces(*rows, work, *(_cbuf.out(gram) for gram in grams)))


def rows_radial(
    chunk: npt.NDArray[Any],
    row_map: RowMap,
    sums: IntArray | None,
    gram: IntArray | None,
    per_step: float,
    bound: int,
    edges_sq: FloatArray | None = None,
    counts: IntArray | None = None,
) -> None:
    """sums (2, out_dim) += the parts of rows inside the limit and from there to twice it; gram, if any, += squares up to there."""
    # gram (out_dim, out_dim), lower triangle: of rows times per_step, in whole numbers of norm at most `bound`. counts, if any, as
    # by `rows_shell_counts`, of squared norms in squared grid steps.
    if sums is not None:
        _cbuf.expect("sums", sums, np.int64, (2, row_map.out_dim))
    if gram is not None:
        _cbuf.expect("gram", gram, np.int64, (row_map.out_dim, row_map.out_dim))
    edges: tuple[Any, int] = (ffi.NULL, 0)
    if counts is not None and edges_sq is not None:
        _cbuf.expect("edges_sq", edges_sq, np.float64, (edges_sq.size,))
        _cbuf.expect("counts", counts, np.int64, (edges_sq.size + 1,))
        edges = _cbuf.inp(edges_sq), edges_sq.size
    rows, work = _arguments(chunk, row_map)
    into = (
        ffi.NULL if each is None else _cbuf.out(each.reshape(-1)) for each in (sums, gram, counts)
    )
    _cbuf.check(lib.fpp_rows_radial(*rows, per_step, bound, *edges, work, *into))


def rows_quantise(chunk: npt.NDArray[Any], row_map: RowMap, out: npt.NDArray[np.int32]) -> None:
    """out (n, out_dim) int32 = integer rows of chunk (n, dim)."""
    rows, work = _arguments(chunk, row_map)
    _cbuf.expect("out", out, np.int32, (chunk.shape[0], row_map.out_dim))
    _cbuf.check(lib.fpp_rows_quantise(*rows, work, _cbuf.out(out)))


def rows_single(chunk: npt.NDArray[Any], row_map: RowMap, out: npt.NDArray[np.float32]) -> None:
    """First columns of out (n, at least out_dim) float32 = integer rows of chunk (n, dim), exact up to 2**24."""
    rows, work = _arguments(chunk, row_map)
    _cbuf.expect("out", out, np.float32, (chunk.shape[0], max(out.shape[1], row_map.out_dim)))
    _cbuf.check(lib.fpp_rows_single(*rows, work, out.shape[1], _cbuf.out(out.reshape(-1))))


def rows_shell_counts(
    chunk: npt.NDArray[Any],
    row_map: RowMap,
    counts: IntArray,
    edges_sq: FloatArray,
    box: ColumnBox | None = None,
) -> None:
    """counts (n_edges + 1,) += rows of chunk (n, dim), after a box if any, by how many of edges_sq, ascending, are below |y|^2."""
    _cbuf.expect("edges_sq", edges_sq, np.float64, (edges_sq.size,))
    _cbuf.expect("counts", counts, np.int64, (edges_sq.size + 1,))
    given, work = _arguments(chunk, row_map, box)
    call = lib.fpp_rows_shell_counts if box is None else lib.fpp_boxed_shell_counts
    _cbuf.check(call(*given, _cbuf.inp(edges_sq), edges_sq.size, work, _cbuf.out(counts)))


def _rows(chunk: npt.NDArray[Any], dim: int) -> tuple[Any, int, int, int]:
    """Return pointer, whether the rows are of float32, their number and their stride."""
    pointer, stride = _cbuf.rows(chunk, dim)
    return pointer, int(chunk.itemsize == 4), chunk.shape[0], stride


def _arguments(
    chunk: npt.NDArray[Any], row_map: RowMap, box: ColumnBox | None = None
) -> tuple[tuple[Any, ...], Any]:
    """Return the rows, the box if there is one, and the map as C structures, and a workspace."""
    cmap = _map_table(row_map)
    if box is None:
        work = ffi.from_buffer(_cbuf.scratch(lib.fpp_rows_workspace_size(cmap)))
        return (*_rows(chunk, row_map.width), cmap), work
    work = ffi.from_buffer(_cbuf.scratch(lib.fpp_boxed_workspace_size(cmap)))
    return (*_rows(chunk, box.dim), _table(box), cmap), work


# Columns of private rows: counts of signed dyadic cells about a center, and rows clipped to a box, which are returned, summed, or
# counted by norm (C, one thread, no GIL).

EXPONENTS = 2047  # exponents of finite doubles, that of subnormal ones first
LOG2_PARTS_MAX: int = lib.FPP_COLUMN_LOG2_PARTS_MAX
PIECE_BYTES = 1 << 19  # of columns that are turned into rows, a fraction of the second-level cache


def cells_of_column(log2_parts: int) -> int:
    """Return the number of cells of one column: those of each sign, zero, missing."""
    return 2 * (EXPONENTS << log2_parts) + 2


def cells_apart(log2_parts: int) -> int:
    """Return the distance between the counters of neighboring columns: the cells of one and a gap."""
    # Counters at a distance of whole pages share lines of the first-level cache and alias in the processor's store buffer; the gap
    # spreads the counters of columns over the lines of a page.
    return -(-cells_of_column(log2_parts) // 512) * 512 + 216


def columns_count(
    chunk: npt.NDArray[Any] | Columns,
    center: FloatArray,
    log2_parts: int,
    neutral: bool,
    counts: IntArray,
) -> None:
    """counts (dim, k) += numbers of chunk (n, dim), float64 or float32, by cell: the first cells_of_column(log2_parts) of k."""
    if isinstance(chunk, Columns):
        for j, column in enumerate(chunk):
            columns_count(
                column[:, None], center[j : j + 1], log2_parts, neutral, counts[j : j + 1]
            )
        return
    apart = max(counts.shape[-1], cells_of_column(log2_parts))
    _cbuf.expect("center", center, np.float64, (center.size,))
    _cbuf.expect("counts", counts, np.int64, (center.size, apart))
    given = center.size, _cbuf.inp(center), log2_parts, int(neutral), apart
    _cbuf.check(
        lib.fpp_columns_count(*_rows(chunk, center.size), *given, _cbuf.out(counts.reshape(-1)))
    )


def columns_cells(
    chunk: npt.NDArray[Any] | Columns,
    edges: Sequence[FloatArray],
    counts: IntArray,
    code: Codes | None = None,
    groups: int = 1,
    own: bool = False,
) -> None:
    """counts (columns, groups, edges + 1) += numbers of chunk, by group in `code` and by how many edges are not above them."""
    # For the first columns of chunk, one ascending list of edges each or, with `own`, one for each group; a number that is not
    # finite is in no cell.
    if isinstance(chunk, Columns):
        lists_each = groups if own else 1
        groups_each = 1 if own else groups
        begin = 0
        for first in range(0, len(edges), lists_each):
            lists = edges[first : first + lists_each]
            end = begin + groups_each * sum(len(cuts) + 1 for cuts in lists)
            column = chunk[first // lists_each][:, None]
            columns_cells(column, lists, counts[begin:end], code, groups, own)
            begin = end
        return
    begins = np.concatenate([[0], np.cumsum([len(cuts) for cuts in edges])]).astype(np.int64)
    flat = np.concatenate([*edges, np.zeros(0)]).astype(np.float64, copy=False)
    # with `own` a list belongs to one group, else to all groups
    columns = len(edges) // groups if own else len(edges)
    groups_each = 1 if own else groups
    _cbuf.expect("counts", counts, np.int64, ((len(flat) + len(edges)) * groups_each,))
    if chunk.ndim != 2 or chunk.shape[1] < columns or (own and len(edges) % groups):
        raise KernelError(f"rows must have {columns} columns or more")
    x, stride = _cbuf.rows(chunk, chunk.shape[1])
    given = chunk.shape[0], stride, columns, _codes(code, len(chunk)), groups, int(own)
    lists = _cbuf.inp(flat), _cbuf.inp(begins)
    _cbuf.check(
        lib.fpp_columns_cells(x, int(chunk.itemsize == 4), *given, *lists, _cbuf.out(counts))
    )


def _codes(code: Codes | None, n: int) -> Any:
    """Return the groups of n rows as a C pointer, NULL for one group."""
    if code is None:
        return ffi.NULL
    _cbuf.expect("code", code, np.int32, (n,))
    return _cbuf.inp(code)


def column_codes(column: npt.NDArray[Any], keys: FloatArray) -> Codes:
    """Return indices (n,) of numbers, at any stride, in ascending keys; len(keys) for any other, one more for non-finite ones."""
    code = np.empty(len(column), dtype=np.int32)
    x, apart = _cbuf.strided(column)
    is_f32 = int(column.itemsize == 4)
    _cbuf.check(
        lib.fpp_column_codes(
            x, is_f32, len(column), apart, _cbuf.inp(keys), len(keys), _cbuf.out(code)
        )
    )
    return code


def moment_sums(groups: int, columns: int) -> IntArray:
    """Return aligned zeros for `group_moments`: (groups, 3, columns padded to whole vectors)."""
    sums = _cbuf.aligned((groups, 3, -(-columns // lib.FPP_VECTOR) * lib.FPP_VECTOR), np.int64)
    sums[:] = 0
    return sums


def group_moments(
    chunk: npt.NDArray[Any] | Columns,
    code: Codes | None,
    middle: FloatArray,
    steps: FloatArray,
    squared: bool,
    quant_bound: int,
    sums: IntArray,
) -> None:
    """sums += for each group and column: number of finite values, sum of q, and sum of q^2 // Q - Q // 2."""
    # q is the integer nearest to t = `steps` (x - middle), (groups, columns) each, clipped to -Q ... Q; if `squared`, that nearest
    # to Q (2 t^2 - 1), t clipped to -1 ... 1. `sums` is from `moment_sums`.
    groups, columns = middle.shape
    _cbuf.expect("sums", sums, np.int64, moment_sums(groups, columns).shape)
    if len(chunk.shape) != 2 or chunk.shape[1] < columns or steps.shape != middle.shape:
        raise KernelError(f"rows must have {columns} columns or more, and boxes as many")
    tables = [_cbuf.aligned((groups, sums.shape[2]), np.float64) for _ in range(2)]
    for table, given in zip(tables, (middle, steps), strict=True):
        table[:] = 0.0
        table[:, :columns] = given
    boxes = [_cbuf.inp(table.reshape(-1)) for table in tables]
    for begin, rows in _pieces(chunk, columns):
        x, stride = _cbuf.rows(rows, rows.shape[1])
        own_code = _codes(None if code is None else code[begin : begin + len(rows)], len(rows))
        of_rows = x, int(rows.itemsize == 4), len(rows), stride, columns, own_code, groups
        into = _cbuf.out(sums.reshape(-1))
        _cbuf.check(lib.fpp_group_moments(*of_rows, *boxes, int(squared), quant_bound, into))


def _pieces(
    chunk: npt.NDArray[Any] | Columns, columns: int
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield a chunk as rows, with the place of the first: itself or, of columns, pieces that stay in the cache."""
    if not isinstance(chunk, Columns):
        yield 0, chunk
        return
    size = max(1, PIECE_BYTES // (8 * columns))
    for begin in range(0, len(chunk[0]), size):
        parts = [column[begin : begin + size] for column in chunk[:columns]]
        if chunk[0].dtype == np.float64:
            room = _cbuf.scratch(8 * columns * size, "rows of columns")
            taken = room[: 8 * columns * len(parts[0])].view(np.float64)
            yield begin, columns_join(parts, taken.reshape(-1, columns))
        else:
            yield begin, np.stack(parts, axis=1)


def columns_join(columns: Sequence[FloatArray], out: FloatArray | None = None) -> FloatArray:
    """Columns (n,) of as many numbers each, float64 and contiguous, as rows (n, len(columns)): `out`, or a new array."""
    out = np.empty((len(columns[0]), len(columns))) if out is None else out
    if any(len(column) != len(out) or column.dtype != np.float64 for column in columns):
        raise KernelError("columns must be float64 and of one length")
    pointers = _cbuf.new("double *[]", [_cbuf.inp(column) for column in columns])
    _cbuf.check(lib.fpp_columns_join(pointers, *out.shape, _cbuf.out(out.reshape(-1))))
    return out


def columns_box(chunk: npt.NDArray[Any], box: ColumnBox) -> FloatArray:
    """Return (n, dim) float64: chunk (n, dim) minus the center, clipped, minus the middle, divided by the width of a box."""
    out = np.empty((chunk.shape[0], box.dim))
    _cbuf.check(
        lib.fpp_columns_box(*_rows(chunk, box.dim), _table(box), _cbuf.out(out.reshape(-1)))
    )
    return out


def _table(box: ColumnBox) -> Any:
    """Return the box as a C structure."""
    arrays = [
        _cbuf.inp(each)
        for each in (box.center, box.lower, box.upper, box.middle, box.width, box.absent)
    ]
    return _cbuf.new("fpp_column_box *", (box.dim, int(box.neutral), *arrays))
