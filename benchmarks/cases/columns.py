"""Cases of the passes of the mean of columns: cell counts of each column, and norms and the clipped sum of rows in a box."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.cases import limits
from benchmarks.cases.loops import Call, Case, sum_map
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.mechanisms.sums import MappedQuery
from fastpubpriv.rowwise.row_maps import ColumnBox
from fastpubpriv.sources import Executor, private_rows
from fastpubpriv.sources.derived import DerivedRows

LOG2_PARTS = 2
BINCOUNT = "NumPy bits and bincount"
CLIP = "NumPy clip in row blocks"
ADD = "NumPy clips and sum in row blocks"
NORMS = "NumPy clip and norms in row blocks"
BLOCK = 4096


def count_in_blocks(x: FloatArray, center: FloatArray, counts: IntArray) -> None:
    """Count signed dyadic cells of finite numbers in NumPy: keys of a block of rows, and one `bincount` for all columns."""
    side = kernels.EXPONENTS << LOG2_PARTS
    cells = counts.shape[1]
    first = np.arange(len(center)) * cells
    for begin in range(0, len(x), BLOCK):
        bits = (x[begin : begin + BLOCK] - center).view(np.int64)
        keys = (
            ((bits & np.int64(2**63 - 1)) - 1 >> (52 - LOG2_PARTS))
            + np.where(bits < 0, side, 0)
            + first
        )
        counts += np.bincount(keys.ravel(), minlength=counts.size).reshape(counts.shape)


def cells_case(n: int, dim: int) -> Case:
    """Case of the cell counts of all columns, from one pass over the rows."""
    x = np.random.default_rng(21).normal(3.0, 2.0, size=(n, dim))
    center = np.full(dim, 2.9)
    cells = kernels.cells_of_column(LOG2_PARTS)
    counts = np.zeros((dim, kernels.cells_apart(LOG2_PARTS)), dtype=np.int64)
    theirs = np.zeros((dim, cells), dtype=np.int64)
    kernels.columns_count(x[:1000], center, LOG2_PARTS, False, counts)
    count_in_blocks(x[:1000], center, theirs)
    assert np.array_equal(counts[:, :cells], theirs)
    return _case(
        "signed cells of columns",
        x,
        lambda: kernels.columns_count(x, center, LOG2_PARTS, False, counts),
        {BINCOUNT: lambda: count_in_blocks(x, center, theirs)},
    )


def boxed_in_blocks(x: FloatArray, box: ColumnBox, out: FloatArray) -> None:
    """Clip rows to a box in NumPy, one block of rows at a time; missing values are not handled."""
    for begin in range(0, len(x), BLOCK):
        part = out[begin : begin + BLOCK]
        np.subtract(x[begin : begin + BLOCK], box.center, out=part)
        np.clip(part, box.lower, box.upper, out=part)
        part -= box.middle
        part /= box.width


def box_case(n: int, dim: int) -> Case:
    """Case of rows clipped to a box and scaled, the first step of a Gram matrix of real columns."""
    x, box = boxed_rows(n, dim)
    out = np.empty_like(x)
    boxed_in_blocks(x, box, out)
    assert np.array_equal(out, kernels.columns_box(x, box))
    return _case(
        "rows clipped to a box",
        x,
        lambda: kernels.columns_box(x, box),
        {CLIP: lambda: boxed_in_blocks(x, box, out)},
    )


def boxed_sum_case(n: int, dim: int) -> Case:
    """Case of the sum of rows clipped to a box and to a norm, without writing any row."""
    x, box = boxed_rows(n, dim)
    radius = 0.5 * float(np.sqrt(dim))
    row_map = sum_map(dim, radius)
    sums = np.zeros(dim, dtype=np.int64)
    kernels.rows_sum(x[:1000], row_map, sums, box)
    assert np.allclose(
        sums / row_map.inv_step, add_in_blocks(x[:1000], box, radius), rtol=1e-3, atol=1.0
    )
    return _case(
        "boxed rows added up",
        x,
        lambda: kernels.rows_sum(x, row_map, sums, box),
        {ADD: lambda: add_in_blocks(x, box, radius)},
    )


def boxed_shells_case(n: int, dim: int) -> Case:
    """Case of the counts of rows clipped to a box by their norm, without writing any row."""
    x, box = boxed_rows(n, dim)
    row_map = sum_map(dim, float(np.sqrt(dim)))
    edges_sq = dim * np.geomspace(0.05, 4.0, 40)
    counts = np.zeros(41, dtype=np.int64)
    theirs = np.zeros(41, dtype=np.int64)
    kernels.rows_shell_counts(x[:1000], row_map, counts, edges_sq, box)
    count_norms_in_blocks(x[:1000], box, edges_sq, theirs)
    assert np.abs(counts - theirs).sum() <= 2  # the last bit of a norm may differ
    return _case(
        "boxed rows by their norm",
        x,
        lambda: kernels.rows_shell_counts(x, row_map, counts, edges_sq, box),
        {NORMS: lambda: count_norms_in_blocks(x, box, edges_sq, theirs)},
    )


def boxed_rows(n: int, dim: int) -> tuple[FloatArray, ColumnBox]:
    """Return normal rows, and a box that clips few of their values."""
    one = np.ones(dim)
    box = ColumnBox(
        center=2.9 * one,
        lower=-5.0 * one,
        upper=6.0 * one,
        middle=0.3 * one,
        width=2.1 * one,
        absent=0.0 * one,
    )
    return np.random.default_rng(22).normal(3.0, 2.0, size=(n, dim)), box


def add_in_blocks(x: FloatArray, box: ColumnBox, radius: float) -> FloatArray:
    """Return the sum of rows clipped to a box and to a norm, one block of rows at a time."""
    found = np.zeros(x.shape[1])
    part = np.empty((BLOCK, x.shape[1]))
    for begin in range(0, len(x), BLOCK):
        rows = x[begin : begin + BLOCK]
        boxed = part[: len(rows)]
        boxed_in_blocks(rows, box, boxed)
        found += np.minimum(1.0, radius / np.sqrt(np.einsum("ij,ij->i", boxed, boxed))) @ boxed
    return found


def count_norms_in_blocks(
    x: FloatArray, box: ColumnBox, edges_sq: FloatArray, counts: IntArray
) -> None:
    """Count rows clipped to a box by the number of edges below their squared norm, one block of rows at a time."""
    part = np.empty((BLOCK, x.shape[1]))
    for begin in range(0, len(x), BLOCK):
        rows = x[begin : begin + BLOCK]
        boxed = part[: len(rows)]
        boxed_in_blocks(rows, box, boxed)
        below = np.searchsorted(edges_sq, np.einsum("ij,ij->i", boxed, boxed))
        counts += np.bincount(below, minlength=len(counts))


def passes_of_condition(n: int, dim: int) -> tuple[Call, Call]:
    """Return the pass of the clipped sum of columns of a table, and the same pass under a condition of two comparisons."""
    rng = np.random.default_rng(22)
    names = [f"x{k}" for k in range(dim)]
    table = pd.DataFrame({name: rng.normal(size=n) for name in names})
    table["age"] = rng.integers(18, 90, n)
    table["score"] = rng.normal(size=n)
    query = MappedQuery(
        shape=(dim,), kernel=kernels.rows_sum, row_map=sum_map(dim, float(np.sqrt(dim)))
    )
    rows = private_rows(table, columns=names)
    condition = "age >= 40 and score < 1"
    inside = private_rows(DerivedRows(table, where=(condition,)), columns=names)
    chosen = private_rows(table.query(condition), columns=names)
    executor = Executor()
    assert np.array_equal(executor.run(query, inside), executor.run(query, chosen))
    return lambda: executor.run(query, rows), lambda: executor.run(query, inside)


def _case(name: str, x: FloatArray, ours: Call, peers: dict[str, Call]) -> Case:
    """Return a case whose limit is one read of the rows."""
    n, dim = x.shape
    return Case(
        f"{name}, {n:.0e} x {dim}",
        ours,
        peers,
        lambda: limits.read_seconds(x),
        "reading the rows once",
        lambda: limits.read_once(x),
    )
