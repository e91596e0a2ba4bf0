"""Gradients of labelled rows as exact integers, in readable NumPy: equal to `kernels.gradients`, each sum in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.row_maps import ResidualMap
from twins._integers import add_rounded, sum_by_halves


def residual_sum(chunk: npt.NDArray[Any], residual_map: ResidualMap, sums: IntArray) -> None:
    """sums (dim,) += integer gradients of the labelled rows chunk (n, dim + 1), the label last, or a weight after it."""
    m = residual_map
    for row in chunk.astype(np.float64):
        z, label = row[: m.dim], float(row[m.dim])
        weight = min(float(row[-1]), 1.0) if m.weighted and row[-1] > 0.0 else float(not m.weighted)
        with np.errstate(all="ignore"):
            weighted = m.spread * z
            norm = float(np.sqrt(sum_by_halves(weighted * weighted)))
            residual = float(m.residual(float(sum_by_halves(m.slope * z)), label)) * (1.0 / m.scale)
            shortened = m.radius / norm if norm > m.radius else 1.0
            factor = shortened * (min(max(residual, -m.clip), m.clip) / m.clip) * m.inv_step * weight
            if not (np.isfinite(residual) and np.isfinite(factor)):
                continue
            steps = factor * weighted
        add_rounded(steps, m.quant_bound, sums)
