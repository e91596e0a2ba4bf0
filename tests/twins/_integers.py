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


def sum_by_halves(terms: FloatArray) -> np.float64:
    """Eight sums of every eighth term, in order, which are then added by halves, as a vector unit folds a register."""
    lanes = np.zeros(8)
    for begin in range(0, len(terms), 8):
        part = terms[begin : begin + 8]
        lanes[: len(part)] += part
    halves = lanes[:4] + lanes[4:]
    quarters = halves[:2] + halves[2:]
    return np.float64(quarters[0] + quarters[1])


def add_rounded(steps: FloatArray, quant_bound: int, sums: IntArray) -> None:
    """sums += steps rounded to integers q, unless an entry or the norm of q is above quant_bound."""
    with np.errstate(all="ignore"):
        q = (steps + _ROUNDER) - _ROUNDER
    if not np.all(np.abs(q) <= quant_bound):  # NaN fails
        return
    whole = q.astype(np.int64)
    if int((whole * whole).sum()) <= quant_bound**2:
        sums += whole
