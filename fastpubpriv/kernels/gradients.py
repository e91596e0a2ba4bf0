"""Gradients of labelled rows as exact integers, for losses of the library and of the caller.

Gradients of labelled rows, each clipped as a whole, as exact integers (C, one thread, no GIL).

The gradient of a row is its residual times the row, so that its norm is a product and it is never written down.

Gradients of labelled rows as exact integers: clipped residuals times weighted rows (C, one thread, no GIL).

NumPy in blocks is no choice here: its matrix products add in an order that depends on the rows beside a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv import losses
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import lib
from fastpubpriv.kernels._jit import callback
from fastpubpriv.maps import GradientMap, ResidualMap

# What the kernels over labelled rows share: the call of C, which gets a loss of ours by number and another one as a callback.

# Functions without numbers, then those that are made with numbers. C repeats them operation by operation.
_PLAIN = {
    losses.squared_residual: lib.FPP_LOSS_SQUARED,
    losses.logistic_residual: lib.FPP_LOSS_LOGISTIC,
    losses.smooth_hinge_residual: lib.FPP_LOSS_SMOOTH_HINGE,
    losses.poisson_residual: lib.FPP_LOSS_POISSON,
    losses.softmax_residual: lib.FPP_LOSS_SOFTMAX,
}
_NUMBERED = {
    losses.huber_residual: lib.FPP_LOSS_HUBER,
    losses.weighted_residual: lib.FPP_LOSS_WEIGHTED_LOGISTIC,
}


def _add_gradients(
    chunk: npt.NDArray[Any],
    sums: IntArray,
    *,
    weights: FloatArray,
    residual: Callable[..., Any],
    places: IntArray | None = None,
    spread: FloatArray | None = None,
    weighted: int = 0,
    **numbers: float,
) -> None:
    """sums (of the shape of the weights) += integer gradients of the labelled rows chunk (n, dim + 1), the label last.

    With `weighted`, rows have a weight after the label. `numbers` are those of fpp_gradient_map: quant_bound, inv_scale, clip,
    limit, inv_step. `places` (k,) are those of the rows that count.
    """
    dim = weights.shape[-1]
    width = dim + 1 + weighted
    if chunk.dtype not in (np.float32, np.float64) or chunk.ndim != 2 or chunk.shape[1] != width:
        raise KernelError(f"labelled rows must be float32 or float64 of shape (n, {width})")
    if not sums.flags.writeable:
        raise KernelError("sums must be writeable")
    _cbuf.expect("sums", sums, np.int64, weights.shape)
    adjacent = chunk.strides[1] == chunk.itemsize and chunk.strides[0] % chunk.itemsize == 0 and chunk.flags.aligned
    rows = chunk if adjacent else np.ascontiguousarray(chunk)
    fields = {"dim": dim, "outputs": weights.size // dim, "weighted": weighted, **numbers}
    arrays = {"weights": weights} if spread is None else {"weights": weights, "spread": spread}
    pointers = {
        name: _cbuf.inp(np.ascontiguousarray(array, dtype=np.float64).reshape(-1)) for name, array in arrays.items()
    }
    loss = _loss_fields(residual, outputs=weights.ndim == 2)
    given = _cbuf.new("fpp_gradient_map *", {**fields, **pointers, **loss})
    x, stride = _cbuf.rows(rows, width)
    workspace = _cbuf.scratch(max(0, lib.fpp_gradients_workspace_size(given)), "gradients")
    into = (given, _cbuf.out(workspace), _cbuf.out(sums.reshape(-1)))
    if places is None:
        call = lib.fpp_gradients_sum_f64 if rows.itemsize == 8 else lib.fpp_gradients_sum_f32
        _cbuf.check(call(x, rows.shape[0], stride, *into))
    else:
        _cbuf.expect("places", places, np.int64, (len(places),))
        call = lib.fpp_gradients_sum_at_f64 if rows.itemsize == 8 else lib.fpp_gradients_sum_at_f32
        _cbuf.check(call(x, rows.shape[0], stride, _cbuf.inp(places), len(places), *into))


def prepare(residual: Callable[..., Any], *, outputs: bool) -> None:
    """Compile a residual that is none of ours, for the calls to come."""
    _loss_fields(residual, outputs=outputs)


def _loss_fields(residual: Callable[..., Any], *, outputs: bool) -> dict[str, Any]:
    """The fields of a map that say which loss it is."""
    if isinstance(residual, losses.NumberedResidual) and residual.make in _NUMBERED and not outputs:
        return {"loss": _NUMBERED[residual.make], "numbers": list(residual.numbers)}
    # A function for one prediction is no answer for several, and the other way round: Numba says so of a wrong one.
    if residual in _PLAIN and outputs == (residual is losses.softmax_residual):
        return {"loss": _PLAIN[residual]}
    compiled = callback(residual, outputs=outputs)
    name, kind = ("functions", "fpp_residuals") if outputs else ("function", "fpp_residual")
    return {"loss": lib.FPP_LOSS_FUNCTION, name: _cbuf.function(kind, compiled)}


def gradient_sum(
    chunk: npt.NDArray[Any], gradient_map: GradientMap, sums: IntArray, places: IntArray | None = None
) -> None:
    """sums (dim,) or (outputs, dim) += integer gradients of the labelled rows chunk (n, dim + 1), the label last.

    With places (k,), of the rows at these positions, which are read where they lie.
    """
    m = gradient_map
    _add_gradients(
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


def residual_sum(chunk: npt.NDArray[Any], residual_map: ResidualMap, sums: IntArray) -> None:
    """sums (dim,) += integer gradients of the labelled rows chunk (n, dim + 1), the label last, or a weight after it."""
    m = residual_map
    _add_gradients(
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
