"""Gradients of labelled rows as exact integers: clipped residuals times weighted rows (C, one thread, no GIL).

NumPy in blocks is no choice here: its matrix products add in an order that depends on the rows beside a row.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.kernels._labelled import add_gradients
from fastpubpriv.residual_maps import ResidualMap


def residual_sum(chunk: npt.NDArray[Any], residual_map: ResidualMap, sums: IntArray) -> None:
    """sums (dim,) += integer gradients of the labelled rows chunk (n, dim + 1), the label last, or a weight after it."""
    m = residual_map
    add_gradients(
        chunk,
        sums,
        weights=m.slope,
        residual=m.residual,
        spread=m.spread,
        quant_bound=m.quant_bound,
        limit=m.radius,
        inv_step=m.inv_step,
        inv_scale=1.0 / m.scale,
        clip=m.clip,
        weighted=int(m.weighted),
    )
