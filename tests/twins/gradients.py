"""Gradients of labelled rows, each clipped as a whole, in readable NumPy: equal to `kernels.gradients`, in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.row_maps import GradientMap
from twins._integers import add_rounded, sum_by_halves, sum_in_order


def gradient_sum(
    chunk: npt.NDArray[Any], gradient_map: GradientMap, sums: IntArray, places: IntArray | None = None
) -> None:
    """sums (dim,) or (outputs, dim) += integer gradients of the labelled rows chunk (n, dim + 1), or of those at places."""
    m = gradient_map
    for row in (chunk if places is None else chunk[places]).astype(np.float64):
        z, label = row[:-1], float(row[-1])
        with np.errstate(all="ignore"):
            norm = np.float64(np.sqrt(sum_by_halves(z * z)))
            if m.weights.ndim == 1:
                s = np.array([m.residual(float(sum_by_halves(m.weights * z)), label)], dtype=np.float64)
                bound = np.float64(m.clip_norm) / norm
                factor = np.array(min(max(s[0], -bound), bound) * m.inv_step)
            else:
                s = np.zeros(len(m.weights))
                m.residual(np.array([float(sum_by_halves(one * z)) for one in m.weights]), label, s)
                length = np.float64(np.sqrt(sum_in_order(s * s)))
                bound = np.float64(m.clip_norm) / norm
                shortened = bound / length if length > bound else 1.0
                factor = s * (shortened * m.inv_step)
            if not (np.isfinite(label) and np.all(np.isfinite(s)) and np.all(np.isfinite(factor))):
                continue
            steps = factor[..., None] * z
        add_rounded(steps, m.quant_bound, sums)
