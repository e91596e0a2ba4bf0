"""Draws from ChaCha20 and a 32-byte key. The same key gives the same draws; a key must serve one release only.

Draws begin ... begin + count - 1 of a key are the same however the range is cut at multiples of DRAW_BLOCK. The noise
of a release is `gaussian_floor` or `discrete_laplace`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels._cbuf import check, out
from fastpubpriv.kernels._cext import ffi, lib

DRAW_BLOCK: int = lib.FPP_DRAW_BLOCK
LOG2_SCALE_MIN: int = lib.FPP_LOG2_SCALE_MIN
LOG2_SCALE_MAX: int = lib.FPP_LOG2_SCALE_MAX


def _key(key: bytes) -> Any:
    if not isinstance(key, bytes) or len(key) != lib.FPP_KEY_BYTES:
        raise KernelError(f"a key is {lib.FPP_KEY_BYTES} bytes")
    return ffi.from_buffer("uint8_t[]", key)


def _empty(begin: int, count: int, dtype: Any) -> NDArray[Any]:
    if not 0 <= count < 2**62 or not 0 <= begin < 2**62:
        raise KernelError("a range of draws begins and ends at non-negative 62-bit numbers")
    return np.empty(count, dtype=dtype)


def _int32(value: int) -> int:
    """Pass a small integer to C; one that does not fit becomes one that C refuses."""
    return value if -(2**31) <= value < 2**31 else -1


def gaussian_floor(key: bytes, count: int, log2_scale: int, *, begin: int = 0) -> IntArray:
    """floor(N(0, 4^log2_scale)), within 2^-100 of exact; (count,) int64."""
    draws = _empty(begin, count, np.int64)
    room = ffi.from_buffer("int64_t[]", draws, require_writable=True)
    check(lib.fpp_gaussian_floor_i64(_key(key), begin, begin + count, _int32(log2_scale), room))
    return draws


def discrete_laplace(key: bytes, count: int, log2_scale: int, *, begin: int = 0) -> IntArray:
    """P(x) proportional to exp(-|x| / 2^log2_scale), within 2^-100 of exact; (count,) int64."""
    draws = _empty(begin, count, np.int64)
    check(lib.fpp_laplace_i64(_key(key), begin, begin + count, _int32(log2_scale), out(draws)))
    return draws


def uniform(key: bytes, count: int, *, begin: int = 0) -> FloatArray:
    """Uniform on the multiples of 2^-53 in [0, 1), exact on that grid; (count,) float64."""
    draws = _empty(begin, count, np.float64)
    check(lib.fpp_uniform_f64(_key(key), begin, begin + count, out(draws)))
    return draws


def below(key: bytes, count: int, bound: int, *, begin: int = 0) -> IntArray:
    """Uniform on {0, ..., bound - 1}, exact; (count,) int64."""
    draws = _empty(begin, count, np.int64)
    if not 1 <= bound < 2**63:
        raise KernelError(f"bound must be between 1 and 2^63 - 1, got {bound}")
    check(lib.fpp_below_i64(_key(key), begin, begin + count, bound, out(draws)))
    return draws


def permutation(key: bytes, n: int) -> IntArray:
    """A permutation of 0 ... n - 1, each equally likely; (n,) int64."""
    order = _empty(0, n, np.int64)
    check(lib.fpp_permutation_i64(_key(key), n, out(order)))
    return order
