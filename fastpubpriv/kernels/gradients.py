"""Gradients of labelled rows, each clipped as a whole, as exact integers (C, one thread, no GIL).

The gradient of a row is its residual times the row, so that its norm is a product and it is never written down.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.kernels._labelled import add_gradients
from fastpubpriv.residual_maps import GradientMap


def gradient_sum(
    chunk: npt.NDArray[Any], gradient_map: GradientMap, sums: IntArray, places: IntArray | None = None
) -> None:
    """sums (dim,) or (outputs, dim) += integer gradients of the labelled rows chunk (n, dim + 1), the label last.

    With places (k,), of the rows at these positions, which are read where they lie.
    """
    m = gradient_map
    add_gradients(
        chunk,
        sums,
        places=places,
        weights=m.weights,
        residual=m.residual,
        quant_bound=m.quant_bound,
        limit=m.clip_norm,
        inv_step=m.inv_step,
        inv_scale=1.0,
    )
