"""`callback` and `row_loop`: custom functions compiled by Numba, with its options in one place.

Importing the package does not import Numba, which takes longer than all the rest, and the built-in losses, in C, do not need it.
A custom residual is compiled to a function that the loop in C calls for each row; compiling a loop for it would take seconds. A
gradient that the user has compiled gets such a loop, since it takes arrays. Nothing is cached on disk. `_searches` also uses Numba.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

MOST_CALLBACKS = 64  # compiled functions in the cache
_OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}


@functools.lru_cache(maxsize=MOST_CALLBACKS)
def callback(function: Callable[..., Any], *, outputs: bool) -> Any:
    """Compile a function for C, with its machine address in `address`; it needs no GIL and lives as long as the result."""
    # With `outputs` it takes (predictions, label, out) and fills `out`, else (prediction, label) -> residual. IEEE arithmetic in
    # the order of the code: a row has the same bits at every position. A division by zero gives an infinity or a NaN, and an
    # exception becomes NaN, because it would reveal something about a row.
    numba: Any = importlib.import_module("numba")
    carray = numba.carray
    types = numba.types
    inner = _compiled(function)

    def value(prediction, label):  # type: ignore[no-untyped-def]
        try:
            number = inner(prediction, label)
        except Exception:
            number = math.nan
        return number

    def fill(scores, size, label, out):  # type: ignore[no-untyped-def]
        residuals = carray(out, size)
        try:
            inner(carray(scores, size), label, residuals)
        except Exception:
            residuals[0] = math.nan

    number = types.float64
    numbers = types.CPointer(types.float64)
    if outputs:
        return numba.cfunc(types.void(numbers, types.int64, number, numbers), **_OPTIONS)(fill)
    return numba.cfunc(number(number, number), **_OPTIONS)(value)


@functools.lru_cache(maxsize=MOST_CALLBACKS)
def row_loop(gradient: Callable[..., Any]) -> Any:
    """Return loop(weights, rows (k, dim), labels (k,), out (k, *weights.shape)), which calls a compiled function for each row."""
    # gradient(weights, row (1, dim), label (1,)) -> (1, *weights.shape) gets copies of its arguments. If it raises, or returns
    # another shape, `out` is unchanged for that row.
    inner = _compiled(gradient)

    def loop(weights, rows, labels, out):  # type: ignore[no-untyped-def]
        given = np.empty_like(weights)
        row = np.empty((1, rows.shape[1]))
        label = np.empty(1)
        for i in range(len(rows)):
            given[...] = weights
            row[0] = rows[i]
            label[0] = labels[i]
            try:
                one = inner(given, row, label)
                if one.shape == out[i : i + 1].shape:
                    out[i] = one[0]
            except Exception:
                continue

    return _compiled(loop)


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with these options; one that the user compiled is compiled again, as it may raise on division by zero."""
    numba: Any = importlib.import_module("numba")
    return numba.njit(nogil=True, **_OPTIONS)(getattr(function, "py_func", function))
