"""Gradients of labeled rows: as exact integers for a loss (C, one thread, no GIL), and row by row for a custom function.

The contribution of a row to a sum may depend on that row alone, to the last bit. A function of many rows does not guarantee that:
the order of addition in NumPy's `x @ weights` depends on the other rows, and a sign turns a last bit into a whole gradient. So each
call of a custom function gets one row, and integer gradients are not computed by NumPy in blocks.

The gradient of a row is its residual times the row, so its norm is a product, and the gradient is never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cbuf import aligned
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels._jit import callback, row_loop
from fastpubpriv.rowwise import losses
from fastpubpriv.rowwise.losses import Loss, RowLoss, predictions
from fastpubpriv.rowwise.row_maps import GradientMap, ResidualMap
from fastpubpriv.threads.guard import attempt

CALL = 10_000  # work, in nanoseconds, of a call with some NumPy operations on a row

PerRow = Callable[[FloatArray, FloatArray, FloatArray], Any]


def is_compiled(gradient: PerRow) -> bool:
    """Return whether Numba has compiled the function, so that a compiled loop can call it."""
    return hasattr(gradient, "py_func") and not isinstance(gradient, MethodType)


def row_gradients(
    gradient: PerRow, weights: FloatArray, rows: FloatArray, labels: FloatArray
) -> FloatArray:
    """Return gradient(weights, row (1, dim), label (1,)) -> (1, *weights.shape) of each of k rows, as (k, *weights.shape)."""
    # Zero for a row at which the function raises, or returns another shape or a number that is not finite. It is not called for a
    # row with a non-finite entry or label, which has a gradient of zero as well.
    x, y = (np.ascontiguousarray(each, dtype=np.float64) for each in (rows, labels))
    usable = _whole(x, y)
    if not usable.all():
        out: FloatArray = np.zeros((len(x), *weights.shape))
        out[usable] = row_gradients(gradient, weights, x[usable], y[usable])
        return out
    out = np.zeros((len(x), *weights.shape))
    if is_compiled(gradient):
        row_loop(gradient)(np.ascontiguousarray(weights), x, y, out)
    else:
        # Each call gets fresh views of memory that is refilled, so that writes to arguments do not persist. The memory is aligned,
        # because in some BLAS the order of addition depends on the alignment.
        memory = [aligned(shape, np.float64) for shape in (weights.shape, (1, x.shape[1]), (1,))]
        for i in range(len(x)):
            for array, content in zip(memory, (weights, x[i], y[i]), strict=True):
                array[...] = content
            one = attempt(
                lambda: np.asarray(gradient(*(each[...] for each in memory)), dtype=np.float64)
            )
            if one is not None and one.shape == (1, *weights.shape):
                out[i] = one[0]
    out[~np.isfinite(out).all(axis=tuple(range(1, out.ndim)))] = 0.0
    return out


def _whole(rows: FloatArray, labels: FloatArray) -> BoolArray:
    """Return which rows have finite entries and a finite label."""
    return np.isfinite(rows).all(axis=1) & np.isfinite(labels)


def loss_gradients(
    loss: Loss | RowLoss, weights: FloatArray, rows: FloatArray, labels: FloatArray
) -> FloatArray:
    """Return the gradients (k, dim) of a loss at k private rows; zero for a row that fails, as in `row_gradients`."""
    if not isinstance(loss, Loss):
        return row_gradients(loss.gradient, weights, rows, labels)
    if loss.ours:
        gradients = loss.gradient(weights, rows, labels)
    else:
        residual = getattr(loss.residual, "py_func", loss.residual)
        residuals = np.zeros(len(rows))

        def number(prediction: float, label: float) -> float:
            return float(residual(prediction, label))

        for i, given in enumerate(
            zip(predictions(weights, rows).tolist(), labels.tolist(), strict=True)
        ):
            residuals[i] = attempt(partial(number, *given)) or 0.0
        gradients = -residuals[:, None] * rows
    gradients[~(_whole(rows, labels) & np.isfinite(gradients).all(axis=1))] = 0.0
    return gradients


def public_gradients(
    loss: RowLoss, weights: FloatArray, x: FloatArray, y: FloatArray
) -> FloatArray:
    """Return gradients (k, dim) at public rows; InputError, which may quote them, if the loss fails or returns another shape."""
    try:
        # Copies: a function that writes into its arguments must not change the public rows.
        gradients = np.asarray(loss.gradient(weights.copy(), x.copy(), y.copy()), dtype=np.float64)
    except Exception as error:
        raise InputError(
            f"loss: gradient() fails at public rows ({type(error).__name__}: {error}): it takes weights, rows and labels, "
            "and returns an array with one gradient for each row"
        ) from error
    if gradients.shape != x.shape:
        raise InputError(
            f"gradient() must return shape {x.shape} for these rows, got {gradients.shape}"
        )
    return gradients


def row_values(values: Callable[[Any, Any], Any], scores: FloatArray, label: float) -> FloatArray:
    """Return values(scores, labels) of one row at its scores (models,); NaN if it fails, or scores or label are not finite."""
    nothing: FloatArray = np.full(len(scores), np.nan)
    if not (np.isfinite(scores).all() and np.isfinite(label)):
        return nothing
    one = attempt(
        lambda: np.asarray(values(scores.copy(), np.full(len(scores), label)), dtype=np.float64)
    )
    return one if one is not None and one.shape == scores.shape else nothing


# The C call of the kernels over labeled rows: a built-in loss is passed by number, a custom one as a callback.

# Residuals without parameters, then those that are built with parameters. C performs the same operations in the same order.
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


def gradient_sum(
    chunk: npt.NDArray[Any],
    gradient_map: GradientMap,
    sums: IntArray,
    places: IntArray | None = None,
) -> None:
    """sums (of the shape of the weights) += integer gradients of the labeled rows chunk (n, dim + 1), the label last."""
    # A row of a weighted map has its weight after the label. With places (k,), only the rows at these positions are used, without
    # a copy.
    m = gradient_map
    weights = gradient_map.weights
    weighted = 0
    arrays = {"weights": weights}
    numbers = {"inv_scale": 1.0, "limit": m.clip_norm}
    if isinstance(m, ResidualMap):
        arrays["spread"], weighted = m.spread, int(m.weighted)
        numbers |= {"inv_scale": 1.0 / m.scale, "clip": m.clip}
    width = m.dim + 1 + weighted
    if chunk.dtype not in (np.float32, np.float64) or chunk.ndim != 2 or chunk.shape[1] != width:
        raise KernelError(f"labeled rows must be float32 or float64 of shape (n, {width})")
    if not sums.flags.writeable:
        raise KernelError("sums must be writeable")
    _cbuf.expect("sums", sums, np.int64, weights.shape)
    adjacent = (
        chunk.strides[1] == chunk.itemsize
        and chunk.strides[0] % chunk.itemsize == 0
        and chunk.flags.aligned
    )
    rows = chunk if adjacent else np.ascontiguousarray(chunk)
    fields: dict[str, Any] = {"dim": m.dim, "outputs": weights.size // m.dim, "weighted": weighted}
    fields |= {"quant_bound": m.quant_bound, "inv_step": m.inv_step, **numbers}
    pointers = {name: _cbuf.inp(array.reshape(-1)) for name, array in arrays.items()}
    loss = loss_fields(m.residual, outputs=weights.ndim == 2)
    given = _cbuf.new("fpp_gradient_map *", {**fields, **pointers, **loss})
    x, stride = _cbuf.rows(rows, width)
    workspace = _cbuf.scratch(max(0, lib.fpp_gradients_workspace_size(given)), "gradients")
    at: tuple[Any, int] = (ffi.NULL, 0)
    if places is not None:
        _cbuf.expect("places", places, np.int64, (len(places),))
        at = _cbuf.inp(places), len(places)
    into = given, _cbuf.out(workspace), _cbuf.out(sums.reshape(-1))
    _cbuf.check(
        lib.fpp_gradients_sum(x, int(rows.itemsize == 4), rows.shape[0], stride, *at, *into)
    )


def loss_fields(residual: Callable[..., Any], *, outputs: bool) -> dict[str, Any]:
    """Return the fields of a gradient map that identify the loss."""
    if isinstance(residual, losses.NumberedResidual) and residual.make in _NUMBERED and not outputs:
        return {"loss": _NUMBERED[residual.make], "numbers": list(residual.numbers)}
    # A residual of one prediction does not fit several outputs, and vice versa; Numba raises for such a function.
    if residual in _PLAIN and outputs == (residual is losses.softmax_residual):
        return {"loss": _PLAIN[residual]}
    compiled = callback(residual, outputs=outputs)
    name, kind = ("functions", "fpp_residuals") if outputs else ("function", "fpp_residual")
    return {"loss": lib.FPP_LOSS_FUNCTION, name: _cbuf.function(kind, compiled)}
