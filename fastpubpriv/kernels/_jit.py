"""`compiled`: the one door to Numba, so that its options, and when it is imported, are decided in one place.

Importing the package does not import Numba, which takes longer than all of the rest. Nothing is cached on disk: Numba's cache loads
pickles, and a folder that others may write to would let them run code here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, made for the types of its arguments when it is first called; it gives up the GIL.

    IEEE arithmetic in the order of the code: a row must have the same bits wherever it stands. A division by zero gives an infinity
    or a NaN and raises nothing. No threads of Numba's own: sums would depend on their number, and a forked child may hang.
    """
    import numba

    # A function that the caller compiled with Numba may raise on a division by zero, so it is compiled again with these options.
    plain = getattr(function, "py_func", function)
    return numba.njit(nogil=True, fastmath=False, error_model="numpy")(plain)
