"""The one door between NumPy arrays and the C library: dtype and layout checks, status codes to exceptions."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels._cext import ffi, lib

_CTYPES = {
    np.dtype(np.float64): "double[]",
    np.dtype(np.float32): "float[]",
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
