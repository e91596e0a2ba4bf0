"""Clipped gradients of many linear models side by side, on rows that need no protection (C, one thread, no GIL).

Rows are read once for all models, where they lie. What comes out is for simulations: single precision, no integers, and no bound
that privacy rests on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels._labelled import name_loss

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
    """total (dim, S) += factors (S,) times the sum of residuals times rows, at weights (dim, S), over the rows at places, or all.

    `labelled` is rows (n, dim), labels (n,) and norms (n,), all float32; a norm below 0 is not known, and is filled in. A residual
    counts as it is (`bounded` 0), clipped so that the gradient is no longer than `limit` (1), or becomes that long (2).
    """
    rows, labels, norms = labelled
    n, dim = rows.shape
    outputs = len(factors)
    for name, array, shape in (
        ("labels", labels, (n,)),
        ("norms", norms, (n,)),
        ("weights", weights, (dim, outputs)),
        ("factors", factors, (outputs,)),
        ("total", total, (dim, outputs)),
    ):
        _cbuf.expect(name, array, np.float32, shape)
    if rows.dtype != np.float32 or not (total.flags.writeable and norms.flags.writeable):
        raise KernelError("a sweep reads float32 rows, and writes norms and total")
    x, stride = _cbuf.rows(rows, dim)
    given = ffi.new("fpp_gradient_map *", {"dim": dim, "outputs": outputs, "limit": limit})
    compiled = name_loss(given, residual, outputs=False)
    if places is not None:
        _cbuf.expect("places", places, np.int64, (len(places),))
    workspace = _cbuf.scratch(max(0, lib.fpp_sweep_workspace_size(given)), "sweep")
    _cbuf.check(
        lib.fpp_sweep_sum_f32(
            x,
            n,
            stride,
            _cbuf.inp(labels),
            ffi.NULL if places is None else _cbuf.inp(places),
            n if places is None else len(places),
            given,
            _cbuf.inp(weights.reshape(-1)),
            _cbuf.inp(factors),
            bounded,
            _cbuf.out(workspace),
            _cbuf.out(norms),
            _cbuf.out(total.reshape(-1)),
        )
    )
    del compiled  # its machine code was needed until here
