"""Gradients of labelled rows as exact integers, in readable NumPy: equal to `kernels.residuals`, each sum in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.residual_maps import ResidualMap

_ROUNDER = 1.5 * 2.0**52  # adding it rounds a double below 2**51 in size to the nearest integer, ties to even


def residual_sum(chunk: npt.NDArray[Any], residual_map: ResidualMap, sums: IntArray) -> None:
    """sums (dim,) += integer gradients of the labelled rows chunk (n, dim + 1), the label last."""
    m = residual_map
    for row in chunk.astype(np.float64):
        z, label = row[:-1], float(row[-1])
        with np.errstate(all="ignore"):
            weighted = m.spread * z
            norm = float(np.sqrt(_in_order(weighted * weighted)))
            residual = float(m.residual(float(_in_order(m.slope * z)), label)) * (1.0 / m.scale)
            shortened = m.radius / norm if norm > m.radius else 1.0
            factor = shortened * (min(max(residual, -m.clip), m.clip) / m.clip) * m.inv_step
            if not (np.isfinite(residual) and np.isfinite(factor)):
                continue
            q = (factor * weighted + _ROUNDER) - _ROUNDER
        if not np.all(np.abs(q) <= m.quant_bound):  # NaN fails
            continue
        whole = q.astype(np.int64)
        if int((whole * whole).sum()) <= m.quant_bound**2:
            sums += whole


def _in_order(terms: FloatArray) -> np.float64:
    """((t_1 + t_2) + t_3) + ..."""
    found = np.float64(0.0)
    for term in terms:
        found = found + term
    return found
