"""`callback` and `row_loop`: functions of the caller's compiled by Numba, so that its options for them are decided in one place.

Importing the package does not import Numba, which takes longer than all of the rest, and our own losses do not need it: they are C.
A residual of the caller's is compiled as a function that the loop in C calls for each row; a loop of its own took 2 s to compile. A
gradient that the caller has compiled gets such a loop, as it takes arrays. None is cached on disk. The other user of Numba is
`_searches`.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

MOST_CALLBACKS = 64  # compiled functions that are kept
_OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}


@functools.lru_cache(maxsize=MOST_CALLBACKS)
def callback(function: Callable[..., Any], *, outputs: bool) -> Any:
    """The function compiled for C, with its machine address in `address`; it needs no GIL and is kept as long as the result."""
    # With `outputs` it is (predictions, label, found) and fills `found` in, else (prediction, label) -> residual. IEEE arithmetic
    # in the order of the code: a row has the same bits wherever it stands. A division by zero gives an infinity or a NaN, and what
    # raises is NaN: an exception would tell of a row.
    numba: Any = importlib.import_module("numba")
    carray, types = numba.carray, numba.types
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

    number, numbers = types.float64, types.CPointer(types.float64)
    if outputs:
        return numba.cfunc(types.void(numbers, types.int64, number, numbers), **_OPTIONS)(fill)
    return numba.cfunc(number(number, number), **_OPTIONS)(value)


@functools.lru_cache(maxsize=MOST_CALLBACKS)
def row_loop(gradient: Callable[..., Any]) -> Any:
    """A loop(weights, rows (k, dim), labels (k,), found (k, *weights.shape)) that calls a compiled function for each row."""
    # gradient(weights, row (1, dim), label (1,)) -> (1, *weights.shape) gets copies in memory of its own. Where it raises, or has
    # another shape, `found` stays as it was.
    inner = _compiled(gradient)

    def loop(weights, rows, labels, out):  # type: ignore[no-untyped-def]
        given, row, label = np.empty_like(weights), np.empty((1, rows.shape[1])), np.empty(1)
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
    """A function that the caller compiled with Numba may raise on a division by zero, so it is compiled again with our options."""
    numba: Any = importlib.import_module("numba")
    return numba.njit(nogil=True, **_OPTIONS)(getattr(function, "py_func", function))
