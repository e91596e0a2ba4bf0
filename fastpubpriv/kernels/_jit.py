"""`callback`: the one door to Numba, so that its options, and when it is imported, are decided in one place.

Importing the package does not import Numba, which takes longer than all of the rest, and our own losses do not need it: they are C.
What is compiled is a loss of the caller's alone, as a function that the loop in C calls for each row; a loop of its own took 2 s to
compile. So nothing is cached on disk: Numba's cache loads pickles, and a folder that others may write to would let them run code.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

MOST_CALLBACKS = 64  # compiled functions that are kept


@functools.lru_cache(maxsize=MOST_CALLBACKS)
def callback(function: Callable[..., Any], *, outputs: bool) -> Any:
    """The function compiled for C, with its machine address in `address`; it needs no GIL and is kept as long as the result.

    A function of (prediction, label) -> residual, or with `outputs` one of (predictions, label, found) that fills `found` in. What
    raises is NaN: an exception would tell of a row. IEEE arithmetic in the order of the code: a row must have the same bits
    wherever it stands. A division by zero gives an infinity or a NaN.
    """
    numba: Any = importlib.import_module("numba")
    carray, types = numba.carray, numba.types
    options: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}
    # A function that the caller compiled with Numba may raise on a division by zero, so it is compiled again with these options.
    inner = numba.njit(nogil=True, **options)(getattr(function, "py_func", function))

    def value(prediction, label):  # type: ignore[no-untyped-def]
        try:
            found = inner(prediction, label)
        except Exception:
            found = math.nan
        return found

    def fill(scores, size, label, found):  # type: ignore[no-untyped-def]
        residuals = carray(found, size)
        try:
            inner(carray(scores, size), label, residuals)
        except Exception:
            residuals[0] = math.nan

    number, numbers = types.float64, types.CPointer(types.float64)
    if outputs:
        return numba.cfunc(types.void(numbers, types.int64, number, numbers), **options)(fill)
    return numba.cfunc(number(number, number), **options)(value)
