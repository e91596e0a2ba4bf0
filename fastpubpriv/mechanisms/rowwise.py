"""Sums within a row, for rows that are the columns of an array. The order of addition does not depend on the other rows.

`np.add.reduce`, `sum`, `dot` and `@` choose their order of addition, and with it the last bits, by the shape of the whole array:
the sum of a row alone may differ from its sum within a chunk. What a private row contributes may depend on that row only, so code
that reads private rows adds up by these functions.
"""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray


def total(entries: FloatArray) -> FloatArray:
    """Sum of entries (k, n) over k, (n,): ((e_1 + e_2) + e_3) + ..."""
    found: FloatArray = entries[0].copy()
    for entry in entries[1:]:
        found += entry
    return found


def total_times(entries: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum of entries (k, n) times weights (k,) over k, (n,), in the same order; each product is rounded before it is added."""
    found: FloatArray = entries[0].astype(np.float64) * weights[0]
    for entry, weight in zip(entries[1:], weights[1:], strict=True):
        found += entry.astype(np.float64) * weight
    return found


def total_of_squares(entries: FloatArray) -> FloatArray:
    """Sum of the squares of entries (k, n) over k, (n,), in the same order; each square is rounded before it is added."""
    found: FloatArray = entries[0] * entries[0]
    square = np.empty_like(found)
    for entry in entries[1:]:
        np.multiply(entry, entry, out=square)
        found += square
    return found


def all_finite(entries: FloatArray) -> BoolArray:
    """Which rows have finite entries (k, n) only, (n,)."""
    found: BoolArray = np.logical_and.reduce(np.isfinite(entries), axis=0)  # no rounding, so any order will do
    return found
