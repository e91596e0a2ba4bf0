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
from fastpubpriv.kernels._labelled import loss_fields

Array = npt.NDArray[Any]


class Swept:
    """Rows (n, dim), labels (n,) and norms (n,) of many calls of `sweep_sum`, as C sees them: what is checked and found out once.

    Rows leave nothing of Python in the near caches, so that all that each call does by itself takes three times as long there.
    """

    __slots__ = ("_dim", "_given", "_labels", "_n", "_norms", "_outputs", "_rows", "_stride")

    def __init__(self, labelled: tuple[Array, Array, Array], outputs: int, *, residual: Any, limit: float) -> None:
        rows, labels, norms = labelled
        n, dim = rows.shape
        _cbuf.expect("labels", labels, np.float32, (n,))
        _cbuf.expect("norms", norms, np.float32, (n,))
        if rows.dtype != np.float32 or not norms.flags.writeable:
            raise KernelError("a sweep reads float32 rows, and writes norms")
        self._n, self._dim, self._outputs = n, dim, outputs
        self._rows, self._stride = _cbuf.rows(rows, dim)
        self._labels, self._norms = _cbuf.inp(labels), _cbuf.out(norms)
        loss = loss_fields(residual, outputs=False)
        self._given = _cbuf.new("fpp_gradient_map *", {"dim": dim, "outputs": outputs, "limit": limit, **loss})

    def add(self, places: IntArray | None, weights: Array, factors: Array, total: Array, bounded: int) -> None:
        """See `sweep_sum`."""
        shape = self._dim, self._outputs
        _cbuf.expect("weights", weights, np.float32, shape)
        _cbuf.expect("factors", factors, np.float32, shape[1:])
        _cbuf.expect("total", total, np.float32, shape)
        if places is not None:
            _cbuf.expect("places", places, np.int64, (len(places),))
        workspace = _cbuf.scratch(max(0, lib.fpp_sweep_workspace_size(self._given)), "sweep")
        _cbuf.check(
            lib.fpp_sweep_sum_f32(
                self._rows,
                self._n,
                self._stride,
                self._labels,
                ffi.NULL if places is None else _cbuf.inp(places),
                self._n if places is None else len(places),
                self._given,
                _cbuf.inp(weights),
                _cbuf.inp(factors),
                bounded,
                _cbuf.out(workspace),
                self._norms,
                _cbuf.out(total),
            )
        )


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
    Swept(labelled, len(factors), residual=residual, limit=limit).add(places, weights, factors, total, bounded)
