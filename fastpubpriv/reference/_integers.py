"""What the readable loops over labelled rows share: sums in order, and rounding with its checks."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray, IntArray

_ROUNDER = 1.5 * 2.0**52  # adding it rounds a double below 2**51 in size to the nearest integer, ties to even


def sum_in_order(terms: FloatArray) -> np.float64:
    """((t_1 + t_2) + t_3) + ..."""
    found = np.float64(0.0)
    for term in terms:
        found = found + term
    return found


def add_rounded(steps: FloatArray, quant_bound: int, sums: IntArray) -> None:
    """sums += steps rounded to integers q, unless an entry or the norm of q is above quant_bound."""
    with np.errstate(all="ignore"):
        q = (steps + _ROUNDER) - _ROUNDER
    if not np.all(np.abs(q) <= quant_bound):  # NaN fails
        return
    whole = q.astype(np.int64)
    if int((whole * whole).sum()) <= quant_bound**2:
        sums += whole
