"""Means and deviations of the columns of public rows.

The bits are NumPy's. Its wrappers take longer than its sums where rows are few, and a small call asks for several of them.
"""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray


def column_means(rows: FloatArray) -> FloatArray:
    """`np.mean(rows, axis=0)`, (dim,)."""
    means: FloatArray = np.add.reduce(rows, axis=0) / len(rows)
    return means


def column_stds(rows: FloatArray, means: FloatArray | None = None) -> FloatArray:
    """`np.std(rows, axis=0, ddof=1)` of at least two rows, (dim,); `means` are those of the columns, if they are known."""
    offsets = rows - (column_means(rows) if means is None else means)
    stds: FloatArray = np.sqrt(np.add.reduce(offsets * offsets, axis=0) / (len(rows) - 1))
    return stds


def row_lengths(rows: FloatArray) -> FloatArray:
    """`np.linalg.norm(rows, axis=1)`, (n,)."""
    lengths: FloatArray = np.sqrt(np.add.reduce(rows * rows, axis=1))
    return lengths
