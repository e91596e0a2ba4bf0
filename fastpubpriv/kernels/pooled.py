"""Released counts of columns pooled with those of public rows (C, one thread, no GIL)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib


def pooled_counts(
    counts: FloatArray,
    sides: int,
    log2_parts: int,
    public: FloatArray,
    centers: FloatArray,
    own: Sequence[float],
    factors: Sequence[float],
) -> tuple[FloatArray, FloatArray, list[IntArray]]:
    """Counts and variances (columns, sides, cells), and the cells that hold public rows, ascending, side after side of each column.

    `counts` (columns, at least sides * cells) with variances `own` are joined, by inverse variance, with those of the finite public
    rows (m, columns) about `centers`, each of which stands for so many of the counted rows as `factors` say. `sides`: those of
    numbers above the centre, and below it.
    """
    columns, cells = len(centers), 2047 << log2_parts
    _cbuf.expect("counts", counts, np.float64, (columns, max(counts.shape[-1], sides * cells)))
    public = np.ascontiguousarray(public, dtype=np.float64)
    if public.ndim != 2 or public.shape[1] != columns or not len(own) == len(factors) == columns:
        raise KernelError(f"public rows must have {columns} columns, with a variance and a factor for each")
    values, variances = np.empty((2, columns, sides, cells))
    room = public.size + 1
    found = np.empty((2, room), dtype=np.int64)
    work = ffi.from_buffer("int32_t[]", _cbuf.scratch(4 * sides * cells, "public rows of cells"))
    given = _cbuf.inp(counts.reshape(-1)), columns, counts.shape[-1], sides, log2_parts
    rows = _cbuf.inp(public.reshape(-1)), len(public), columns
    each = (_cbuf.inp(np.array(numbers, dtype=np.float64)) for numbers in (centers, own, factors))
    out = _cbuf.out(values.reshape(-1)), _cbuf.out(variances.reshape(-1)), _cbuf.out(found[0]), _cbuf.out(found[1])
    known = lib.fpp_counts_pool(*given, *rows, *each, work, *out)
    if known < 0:
        raise KernelError("a kernel argument is out of range")
    ends = found[0, :known].searchsorted(np.arange(columns * sides + 1)).tolist()
    return values, variances, [found[1, low:high] for low, high in pairwise(ends)]
