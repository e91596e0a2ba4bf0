"""`compiled`: the one door to Numba, so that its options, and when it is imported, are decided in one place.

Importing the package does not import Numba, which takes longer than all of the rest. Nothing is cached on disk: Numba's cache loads
pickles, and a folder that others may write to would let them run code here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastpubpriv.errors import InputError


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, made for the types of its arguments when it is first called; it gives up the GIL.

    IEEE arithmetic in the order of the code: a row must have the same bits wherever it stands. A division by zero gives an infinity
    or a NaN and raises nothing. No threads of Numba's own: sums would depend on their number, and a forked child may hang.
    """
    import numba

    # What Numba has compiled already may raise on a division by zero: compiled again, by these options.
    plain = getattr(function, "py_func", function)
    return numba.njit(nogil=True, fastmath=False, error_model="numpy")(plain)


def check_scalar(function: Callable[..., Any], *, what: str) -> None:
    """Compile a function of two numbers and try it on zeros; InputError where Numba cannot compile it or it gives no number."""
    import numba

    try:
        value = compiled(function)(0.0, 0.0)
    except numba.core.errors.NumbaError as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"{what} must be a function of two numbers that Numba can compile: {reason}") from None
    except Exception as error:
        raise InputError(f"{what} must give a number for (0.0, 0.0), but raised {type(error).__name__}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{what} must give one number, got {type(value).__name__}")
