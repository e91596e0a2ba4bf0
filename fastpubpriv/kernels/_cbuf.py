"""Everything between NumPy arrays and the C library: checks of dtype and layout, and exceptions for status codes.

A pointer or structure created here keeps the memory behind it alive: after an interrupt, a thread of the pool may still use it when
the caller and its arrays are gone. No other module creates addresses (`tests/test_rules.py`).
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels._cext import ffi, lib

_F64 = np.dtype(np.float64)
_F32 = np.dtype(np.float32)
_CTYPES = {
    _F64: "double[]",
    _F32: "float[]",
    np.dtype(np.int64): "int64_t[]",
    np.dtype(np.int32): "int32_t[]",
    np.dtype(np.int16): "int16_t[]",
    np.dtype(np.uint64): "uint64_t[]",
    np.dtype(np.uint8): "uint8_t[]",
}
_MESSAGES = {
    lib.FPP_ERR_ARGUMENT: "a kernel argument is out of range",
    lib.FPP_ERR_EXHAUSTED: "a sampler met a keystream that no key can produce",
}
_LINE = 64  # bytes of a cache line
_scratch = threading.local()


def _with(owner: Any, pointer: Any) -> Any:
    """Return the pointer; it keeps `owner` alive."""
    # Freed by a function in C, in which no signal handler runs: cffi would swallow the exception of an interrupt.
    return ffi.gc(pointer, partial(operator.is_, owner))


def new(ctype: str, fields: Sequence[Any] | dict[str, Any] = ()) -> Any:
    """Return a new C structure, or array of pointers or structures, of these fields; it keeps alive what they point to."""
    return _with(fields, ffi.new(ctype, fields))


def function(ctype: str, compiled: Any) -> Any:
    """Return a pointer to a function compiled by Numba, which keeps its machine code alive."""
    return _with(compiled, ffi.cast(ctype, compiled.address))


def address(array: np.ndarray[Any, Any]) -> int:
    """Return the address of the first byte of an array, for comparisons."""
    return int(array.__array_interface__["data"][0])


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Return a new array that begins at a cache line: vectors do not straddle lines, and BLAS sums in the same order."""
    kind = np.dtype(dtype)
    size = math.prod(shape)
    room = np.empty(size + _LINE // kind.itemsize, dtype=kind)
    start = -address(room) % _LINE // kind.itemsize
    return room[start : start + size].reshape(shape)


def _first(array: np.ndarray[Any, Any]) -> Any:
    """Return a pointer to the first entry of an array at any stride; it keeps the array alive."""
    return _with(array, ffi.cast(_CTYPES[array.dtype].replace("[]", " *"), address(array)))


def strided(array: np.ndarray[Any, Any]) -> tuple[Any, int]:
    """Return a pointer to the first entry of an aligned array (n,), and its stride in entries."""
    if array.ndim != 1 or not array.flags.aligned:
        raise KernelError("an aligned, one-dimensional array is needed")
    apart, rest = divmod(array.strides[0] if len(array) > 1 else array.itemsize, array.itemsize)
    if rest:
        raise KernelError("the entries of an array must be a whole number of entries apart")
    return _first(array), apart


def inp(array: np.ndarray[Any, Any]) -> Any:
    """Read-only view of a C-contiguous array as a C pointer; keeps the array alive."""
    if not array.flags.c_contiguous:
        raise KernelError("a kernel was given a non-contiguous array")
    return ffi.from_buffer(_CTYPES[array.dtype], array)


def out(array: np.ndarray[Any, Any]) -> Any:
    """Writable view of a C-contiguous array as a C pointer; keeps the array alive."""
    return ffi.from_buffer(_CTYPES[array.dtype], array, require_writable=True)


def check(code: int) -> None:
    """Raise KernelError for every status except FPP_OK."""
    if code != lib.FPP_OK:
        raise KernelError(_MESSAGES.get(code, f"unknown kernel status {code}"))


def rows(chunk: np.ndarray[Any, Any], dim: int) -> tuple[Any, int]:
    """Return a pointer to the first of rows (n, dim), float64 or float32, and the row stride in elements."""
    dtype = chunk.dtype
    flags = chunk.flags
    if dtype != _F64 and dtype != _F32:
        raise KernelError("rows must be native float64 or float32")
    if chunk.ndim != 2 or chunk.shape[1] != dim:
        raise KernelError(f"rows must have shape (n, {dim})")
    # the usual case, three times as fast as the general one
    if flags.c_contiguous and flags.aligned:
        return ffi.from_buffer(_CTYPES[dtype], chunk), dim
    # NumPy's stride along an axis of at most one entry may have any value.
    bytes_apart = chunk.strides[0] if chunk.shape[0] > 1 else 0
    adjacent = chunk.shape[0] == 0 or chunk.shape[1] == 1 or chunk.strides[1] == dtype.itemsize
    if not adjacent or bytes_apart % dtype.itemsize or not flags.aligned:
        raise KernelError("rows must be aligned and have adjacent columns")
    return _first(chunk), bytes_apart // dtype.itemsize


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array as a read-only array, copied only if it is not contiguous."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def scratch(size: int, name: str = "workspace") -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return at least `size` bytes of this thread, kept between calls: allocating them for each small chunk would be slow."""
    held: np.ndarray[Any, np.dtype[np.uint8]] | None = getattr(_scratch, name, None)
    if held is None or held.size < size:
        held = np.empty(size, dtype=np.uint8)
        setattr(_scratch, name, held)
    return held


def expect(
    name: str, array: np.ndarray[Any, Any], dtype: type | np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Raise KernelError unless the array is C-contiguous with this dtype and shape, which C does not check."""
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise KernelError(f"{name} must be a C-contiguous {np.dtype(dtype)} array of shape {shape}")
