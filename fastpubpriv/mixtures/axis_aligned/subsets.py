"""Lists of subsets of numbers, as a search grows them."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import IntArray


def grown_subsets(subsets: IntArray, count: int) -> IntArray:
    """Every subset (k, size) of ascending numbers below `count` with one number more: (_, size + 1), ascending, each once."""
    numbers = np.arange(count)
    place = np.sum(subsets[:, :, None] < numbers, axis=1)
    fresh = ~np.any(subsets[:, :, None] == numbers, axis=1)
    # Each number goes in before those above it. Narrow integers are sorted by their digits, which takes a tenth of the time.
    narrow = np.int16 if count < 2**15 else np.int64
    columns = []
    for j in range(subsets.shape[1] + 1):
        before = subsets[:, j, None] if j < subsets.shape[1] else 0
        behind = subsets[:, j - 1, None] if j else 0
        column = np.where(j < place, before, np.where(j == place, numbers, behind))
        columns.append(column[fresh].astype(narrow))
    rows = np.stack(columns, axis=1)[np.lexsort(columns[::-1])]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = np.any(rows[1:] != rows[:-1], axis=1)
    return rows[first].astype(np.int64)
