"""`kernel` and `instruction`: the one door to Numba, so that its options, and when it is imported, are decided in one place."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, overload

import numpy as np
import numpy.typing as npt

# Sums may be reordered and contracted, and the sign of zero may be lost. NaN and infinity keep their meaning: with all
# of LLVM's flags a test for NaN is always false.
FAST = frozenset({"reassoc", "contract", "nsz"})

Emit = Callable[[Any, Any, Any, Any], Any]  # of Numba's context, LLVM's builder, Numba's types and LLVM's values


class Kernel:
    """A function that Numba compiles for the types of its arguments when it is first called.

    Importing the package does not import Numba, which takes longer than all of the rest. Nothing is cached on disk: Numba's
    cache loads pickles, and a folder that others may write to would let them run code here.
    """

    def __init__(self, function: types.FunctionType, fastmath: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._fastmath = fastmath
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it, without the GIL, on arrays whose types and shapes the caller has checked."""
        return (self._compiled or self.compiled())(*arguments)

    def compiled(self) -> Any:
        """Numba's view of it, for kernels that call it."""
        if self._compiled is None:
            import numba

            # No threads of Numba's own: sums would depend on their number, and a forked child may hang.
            decorate = numba.njit(nogil=True, fastmath=set(FAST) if self._fastmath else False)
            made = decorate(self._function if vars(numba.config)["DISABLE_JIT"] else self._linked())
            # One for all threads that come here at once, or each would compile its own.
            self._compiled = vars(self).setdefault("_made", made)
        return self._compiled

    def _linked(self) -> types.FunctionType:
        """The function with the kernels and instructions that it names in the form that Numba knows."""
        known = dict(self._function.__globals__)
        for name in self._function.__code__.co_names:
            if isinstance(known.get(name), Kernel | Instruction):
                known[name] = known[name].compiled()
        linked = types.FunctionType(self._function.__code__, known, self._function.__name__)
        functools.update_wrapper(linked, self._function)
        return linked


class Instruction:
    """LLVM code inside of a kernel, and the plain Python function that says what it does outside of one."""

    def __init__(self, function: Callable[..., Any], result: str, emit: Emit) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._result = result
        self._emit = emit
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """What a kernel without compilation would do."""
        return self._function(*arguments)

    def compiled(self) -> Any:
        """Numba's view of it."""
        if self._compiled is None:
            import numba.extending

            def typing(context, *arguments):  # type: ignore[no-untyped-def]
                def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
                    return self._emit(context, builder, signature.args, values)

                return getattr(numba.types, self._result)(*arguments), code

            # Numba matches arguments by name, and takes *arguments for one tuple.
            first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            given = inspect.signature(self._function).parameters.values()
            typing.__signature__ = inspect.Signature([first, *given])  # type: ignore[attr-defined]
            self._compiled = vars(self).setdefault("_made", numba.extending.intrinsic(typing))
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
        return lambda later: kernel_of(later, fastmath)
    return kernel_of(function, fastmath)


def kernel_of(function: Callable[..., Any], fastmath: bool) -> Kernel:
    """The kernel of a plain function."""
    assert isinstance(function, types.FunctionType)
    return Kernel(function, fastmath)


def instruction(*, result: str, emit: Emit) -> Callable[[Callable[..., Any]], Instruction]:
    """Decorate the Python twin of a piece of LLVM code, where the compiler does not find the vectors by itself.

    `result` names a type of Numba. emit(context, builder, types, values) writes the code and returns its value.
    """
    return lambda function: Instruction(function, result, emit)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, copied only if it is not contiguous, as one that may not be written: kernels compile once for all callers."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
