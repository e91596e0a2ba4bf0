"""Everything between NumPy arrays and the C library: checks of dtype and layout, and exceptions for status codes.

A pointer or structure made here keeps the memory alive that it leads to: after an interrupt a thread of the pool may still be at
work on it when its caller has gone, with all its arrays. No other module makes addresses (`tests/test_rules.py`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels._cext import ffi, lib

_F64, _F32 = np.dtype(np.float64), np.dtype(np.float32)
I64 = np.dtype(np.int64)
_CTYPES = {
    _F64: "double[]",
    _F32: "float[]",
    I64: "int64_t[]",
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


class _Owners(list[Any]):
    """What a pointer keeps alive: the function that C calls when the pointer goes."""

    __slots__ = ()

    def __call__(self, pointer: Any) -> None:
        self.clear()


def new(ctype: str, fields: Sequence[Any] | dict[str, Any] = ()) -> Any:
    """A new C structure of these fields, or an array of pointers or structures; what they point to lives as long as it does."""
    return ffi.gc(ffi.new(ctype, fields), _Owners([fields]))


def function(ctype: str, compiled: Any) -> Any:
    """A pointer to a function that Numba has compiled; its machine code lives as long."""
    return ffi.gc(ffi.cast(ctype, compiled.address), _Owners([compiled]))


def address(array: np.ndarray[Any, Any]) -> int:
    """Where an array begins, to be compared with other such numbers."""
    number: int = array.__array_interface__["data"][0]
    return number


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """A new array that begins at a cache line: vectors do not straddle lines, and sums of BLAS begin alike."""
    kind, size = np.dtype(dtype), math.prod(shape)
    room = np.empty(size + _LINE // kind.itemsize, dtype=kind)
    start = -address(room) % _LINE // kind.itemsize
    return room[start : start + size].reshape(shape)


def _first(array: np.ndarray[Any, Any]) -> Any:
    """Pointer to the first entry of an array at any stride; keeps the array alive."""
    return ffi.gc(ffi.cast(_CTYPES[array.dtype].replace("[]", " *"), address(array)), _Owners([array]))


def strided(array: np.ndarray[Any, Any]) -> tuple[Any, int]:
    """Pointer to the first entry of an aligned array (n,), and the entries from one to the next."""
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
    """Raise for every status but FPP_OK."""
    if code != lib.FPP_OK:
        raise KernelError(_MESSAGES.get(code, f"unknown kernel status {code}"))


def rows(chunk: np.ndarray[Any, Any], dim: int) -> tuple[Any, int]:
    """Pointer to the first of rows (n, dim), float64 or float32, and the elements from one row to the next."""
    dtype, flags = chunk.dtype, chunk.flags
    if dtype != _F64 and dtype != _F32:
        raise KernelError("rows must be native float64 or float32")
    if chunk.ndim != 2 or chunk.shape[1] != dim:
        raise KernelError(f"rows must have shape (n, {dim})")
    if flags.c_contiguous and flags.aligned:  # nearly always, and a third of the time of what follows
        return ffi.from_buffer(_CTYPES[dtype], chunk), dim
    # Along an axis of at most one entry, NumPy's strides may have any value.
    bytes_apart = chunk.strides[0] if chunk.shape[0] > 1 else 0
    adjacent = chunk.shape[0] == 0 or chunk.shape[1] == 1 or chunk.strides[1] == dtype.itemsize
    if not adjacent or bytes_apart % dtype.itemsize or not flags.aligned:
        raise KernelError("rows must be aligned and have adjacent columns")
    return _first(chunk), bytes_apart // dtype.itemsize


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, copied only if it is not contiguous, as one that may not be written."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def scratch(size: int, name: str = "workspace") -> np.ndarray[Any, np.dtype[np.uint8]]:
    """At least `size` bytes of this thread, kept between calls: new memory for each chunk of 1000 rows would take too long."""
    held: np.ndarray[Any, np.dtype[np.uint8]] | None = getattr(_scratch, name, None)
    if held is None or held.size < size:
        held = np.empty(size, dtype=np.uint8)
        setattr(_scratch, name, held)
    return held


def expect(name: str, array: np.ndarray[Any, Any], dtype: type | np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raise KernelError for an array of another form: C reads and writes these arrays without checks of its own."""
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise KernelError(f"{name} must be a C-contiguous {np.dtype(dtype)} array of shape {shape}")
