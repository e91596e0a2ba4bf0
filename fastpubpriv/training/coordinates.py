"""Labelled rows in the coordinates of a model, and rows under a map kept in memory where they fit.

Labelled rows in the coordinates of a model: standardised, whitened and turned by public numbers, as whole numbers of grid steps.
A row has the same bits whatever lies beside it: entry by entry up to the standard units, then by the C library's fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.kernels.rows import rows_quantise
from fastpubpriv.row_maps import MatrixKind, RowMap
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.views import PIECE_BYTES, OfChunk, each_row, read_and_changed
from fastpubpriv.threads.pool import share_out, share_stream
from fastpubpriv.training.inputs import Design

KEPT_BYTES = 1 << 30  # without `max_memory`, mapped rows are kept in memory up to this, else made again in each pass


def fits(n: int, width: int, dtype: type[np.floating], executor: Executor) -> bool:
    """Whether n rows of `width` numbers are kept."""
    most = KEPT_BYTES if executor.max_memory is None else executor.max_memory
    return n * width * np.dtype(dtype).itemsize <= most


def kept_rows(
    rows: Rows, function: OfChunk, width: int, *, dtype: type[np.floating], executor: Executor, single: bool = False
) -> Rows:
    """The rows function(chunk), `width` numbers each, which must not depend on the rows beside them.

    They are in memory where `executor.max_memory` allows it, else they are made from their source in each pass, to the same bits.
    Rows on a cluster stay there, unless a `single` one may be asked for at a time.
    """
    view = each_row(rows, function, width)
    if (view.cluster is not None and not single) or not fits(rows.n, width, dtype, executor):
        return view
    kept = np.empty((rows.n, width), dtype=dtype)
    if view.random_access:
        size = max(1, PIECE_BYTES // (8 * max(rows.dim, width)))

        def work(piece: int) -> None:
            begin = piece * size
            end = min(begin + size, rows.n)
            kept[begin:end] = view.block(begin, end)

        share_out(work, -(-rows.n // size), threads=executor.threads)
    else:
        source, changed = read_and_changed(view)

        def keep(placed: tuple[int, Chunk]) -> None:
            begin, chunk = placed
            kept[begin : begin + len(chunk)] = changed(chunk)

        share_stream(keep, _placed(source), threads=executor.threads)
    return ArrayRows(kept, "array")


def _placed(rows: Rows) -> Iterator[tuple[int, Chunk]]:
    """Each chunk with the number of rows before it."""
    begin = 0
    for chunk in rows.chunks():
        yield begin, chunk
        begin += len(chunk)


_FLOAT32_WHOLE = 2**24  # whole numbers up to this are exact in single precision
_LONGEST_LABEL = 1e30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rotation:
    """The public map of a labelled row (dim + 1) to (D + 1): z in grid steps and the label in its unit."""

    design: Design  # columns to standardised terms, (p,)
    row_map: RowMap  # terms to z, (D,), on a grid
    step: float  # length of a grid step of z
    label_centre: float = 0.0  # with label_scale: the label becomes (label - centre) / scale
    label_scale: float = 1.0
    classes: tuple[float, float] | None = None  # two labels that become 0 and 1; any other becomes NaN
    weight_cap: float | None = None  # rows have a weight after the label, which becomes min(weight, cap) / cap

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight_cap is not None

    @property
    def width(self) -> int:
        """Numbers of a row that comes out."""
        return self.row_map.out_dim + 1 + self.weighted

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, dim + 1) as (k, D + 1) float32, or with a weight more; a row that is ignored has z = 0 or no label."""
        label = chunk.shape[1] - 1 - self.weighted
        terms = np.ascontiguousarray(self.design.standardise(chunk[:, :label]))
        dim = self.row_map.out_dim
        whole = np.empty((len(chunk), dim), dtype=np.int32)
        rows_quantise(terms, self.row_map, whole)
        out = np.empty((len(chunk), self.width), dtype=np.float32)
        out[:, :dim] = whole
        out[:, dim] = self.labels(chunk[:, label].astype(np.float64))
        if self.weight_cap is not None:
            out[:, -1] = capped(chunk[:, -1].astype(np.float64), self.weight_cap)
        return out

    def labels(self, found: FloatArray) -> FloatArray:
        """Labels in their unit."""
        return label_values(found, self.label_centre, self.label_scale, self.classes)


def capped(weights: FloatArray, cap: float) -> FloatArray:
    """min(weight, cap) / cap, (k,); 0 for a weight that is missing, infinite or negative."""
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(weights) & (weights > 0.0), np.minimum(weights / cap, 1.0), 0.0)


def label_values(found: FloatArray, centre: float, scale: float, classes: tuple[float, float] | None) -> FloatArray:
    """(label - centre) / scale, NaN for a label that is not finite; or 0 and 1 for two classes, NaN for any other label."""
    with np.errstate(all="ignore"):
        if classes is not None:
            return np.where(found == classes[1], 1.0, np.where(found == classes[0], 0.0, np.nan))
        # A residual is clipped, never lost, however long; but an infinite label is a missing one.
        values: FloatArray = np.clip((found - centre) / scale, -_LONGEST_LABEL, _LONGEST_LABEL)
        return np.where(np.isfinite(found), values, np.nan)


def rotation_map(matrix: FloatArray, centre: FloatArray, offset: FloatArray, radius: float) -> tuple[RowMap, float]:
    """z = offset + matrix (terms - centre) on the finest grid of exact single-precision numbers, and the length of its steps.

    Rows longer than `radius`, a public number far above what public rows have, are shortened to it.
    """
    dim = len(matrix)
    bound = min(math.isqrt(2**53 // dim), _FLOAT32_WHOLE)
    limit = bound - math.isqrt(dim) // 2 - 2
    step = float(radius) / limit
    row_map = RowMap(
        dim=matrix.shape[1], out_dim=dim, kind=MatrixKind.FULL, matrix=matrix, center=centre, offset=offset,
        quant_bound=bound, inv_step=1.0 / step, limit=float(limit),
    )  # fmt: skip
    return row_map, step


def rotated_rows(rows: Rows, rotation: Rotation, executor: Executor) -> Rows:
    """The rows under the rotation: in memory where they fit, so that further passes only read them."""
    return kept_rows(rows, rotation, rotation.width, dtype=np.float32, executor=executor)
