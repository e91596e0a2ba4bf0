"""What the mean of real columns asks of every row: its cell in each column, and the row clipped to a box."""

from __future__ import annotations

import numpy as np

from benchmarks.cases import limits
from benchmarks.cases.loops import Case
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import columns as kernels
from fastpubpriv.maps import ColumnBox

LOG2_PARTS = 2
BINCOUNT = "NumPy bits and bincount"
CLIP = "NumPy clip in row blocks"
BLOCK = 4096


def count_in_blocks(x: FloatArray, center: FloatArray, counts: IntArray) -> None:
    """Signed dyadic cells of finite numbers as a NumPy user would count them: keys of a block of rows, one `bincount` for all."""
    side, cells = kernels.EXPONENTS << LOG2_PARTS, counts.shape[1]
    first = np.arange(len(center)) * cells
    for begin in range(0, len(x), BLOCK):
        bits = (x[begin : begin + BLOCK] - center).view(np.int64)
        keys = ((bits & np.int64(2**63 - 1)) - 1 >> (52 - LOG2_PARTS)) + np.where(bits < 0, side, 0) + first
        counts += np.bincount(keys.ravel(), minlength=counts.size).reshape(counts.shape)


def cells_case(n: int, dim: int) -> Case:
    """Counts of the cells of all columns, from one reading of the rows."""
    x = np.random.default_rng(21).normal(3.0, 2.0, size=(n, dim))
    center = np.full(dim, 2.9)
    shape = dim, kernels.cells_of_column(LOG2_PARTS)
    counts, theirs = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    kernels.columns_count(x[:1000], center, LOG2_PARTS, False, counts)
    count_in_blocks(x[:1000], center, theirs)
    assert np.array_equal(counts, theirs)
    return Case(
        f"signed cells of columns, {n:.0e} x {dim}",
        lambda: kernels.columns_count(x, center, LOG2_PARTS, False, counts),
        {BINCOUNT: lambda: count_in_blocks(x, center, theirs)},
        lambda: limits.read_seconds(x),
        "reading the rows once",
        lambda: limits.read_once(x),
    )


def boxed_in_blocks(x: FloatArray, box: ColumnBox, out: FloatArray) -> None:
    """Rows clipped to a box as a NumPy user would, a block of rows at a time, without a thought of missing numbers."""
    for begin in range(0, len(x), BLOCK):
        part = out[begin : begin + BLOCK]
        np.subtract(x[begin : begin + BLOCK], box.center, out=part)
        np.clip(part, box.lower, box.upper, out=part)
        part -= box.middle
        part /= box.width


def box_case(n: int, dim: int) -> Case:
    """Rows clipped to a box, and scaled."""
    x, one = np.random.default_rng(22).normal(3.0, 2.0, size=(n, dim)), np.ones(dim)
    box = ColumnBox(
        center=2.9 * one, lower=-5.0 * one, upper=6.0 * one, middle=0.3 * one, width=2.1 * one, absent=0.0 * one
    )
    out = np.empty_like(x)
    boxed_in_blocks(x, box, out)
    assert np.array_equal(out, kernels.columns_box(x, box))
    return Case(
        f"rows clipped to a box, {n:.0e} x {dim}",
        lambda: kernels.columns_box(x, box),
        {CLIP: lambda: boxed_in_blocks(x, box, out)},
        lambda: limits.read_seconds(x),
        "reading the rows once",
        lambda: limits.read_once(x),
    )
