"""Clipped gradients of many linear models side by side, in readable NumPy: `kernels.sweeps` to single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray

Array = npt.NDArray[Any]


def sweep_sum(
    labelled: tuple[Array, Array, Array],
    places: IntArray | None,
    weights: Array,
    factors: Array,
    total: Array,
    *,
    residual: Any,
    limit: float,
    bounded: int,
) -> None:
    """total (dim, S) += factors (S,) times the sum of residuals times rows, at weights (dim, S), over rows at places, or all."""
    rows, labels, norms = labelled
    found = np.zeros(total.shape)
    for i in range(len(rows)) if places is None else places:
        z, label = rows[i].astype(np.float64), float(labels[i])
        norms[i] = np.sqrt(z @ z)
        longest = limit / max(float(norms[i]), 1e-30)
        for s, factor in enumerate(factors):
            r = residual(float(weights[:, s].astype(np.float64) @ z), label)
            if not np.isfinite(r):
                continue
            if bounded == 1:
                r = min(max(r, -longest), longest)
            elif bounded == 2:
                r = np.sign(r) * longest
            found[:, s] += float(factor) * r * z
    total += found.astype(total.dtype)
