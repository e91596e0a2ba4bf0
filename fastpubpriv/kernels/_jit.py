"""`kernel`: the one decorator for Numba, so that its options, and when it is imported, are decided in one place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

# Sums may be reordered and contracted, and the sign of zero may be lost. NaN and infinity keep their meaning: with all
# of LLVM's flags a test for NaN is always false.
FAST = frozenset({"reassoc", "contract", "nsz"})


class Kernel:
    """A function that Numba compiles for the types of its arguments when it is first called.

    Importing the package does not import Numba, which takes longer than all of the rest. Nothing is cached on disk: Numba's
    cache loads pickles, and a folder that others may write to would let them run code here.
    """

    def __init__(self, function: Callable[..., Any], fastmath: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._fastmath = fastmath
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it, without the GIL, on arrays whose types and shapes the caller has checked."""
        return (self._compiled or self._dispatcher())(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """How Numba sees a kernel that another kernel calls."""
        return self._dispatcher()._numba_type_

    def _dispatcher(self) -> Any:
        if self._compiled is None:
            import numba

            # No threads of Numba's own: sums would depend on their number, and a forked child may hang.
            self._compiled = numba.njit(nogil=True, fastmath=set(FAST) if self._fastmath else False)(self._function)
        return self._compiled


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...


@overload
def kernel(*, fastmath: bool) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Callable[..., Any] | None = None, /, *, fastmath: bool = True
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Decorate a loop over arrays: compiled on first use, no GIL, `FAST` arithmetic or, with fastmath=False, IEEE's order.

    A distance that decides who belongs to what needs fastmath=False: equal bits wherever it is computed.
    """
    if function is None:
        return lambda later: Kernel(later, fastmath)
    return Kernel(function, fastmath)
