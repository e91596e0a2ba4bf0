"""log and exp of numbers in the C library: the same bits on every processor, which those of NumPy are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import lib


def log(numbers: FloatArray) -> FloatArray:
    """Natural logarithms of numbers of any shape, within one unit in the last place; -inf for 0, NaN below."""
    return _of_each(lib.fpp_log_f64, numbers)


def exp(numbers: FloatArray) -> FloatArray:
    """Exponentials of numbers of any shape, within one unit in the last place."""
    return _of_each(lib.fpp_exp_f64, numbers)


def _of_each(function: Any, numbers: FloatArray) -> FloatArray:
    given = np.ascontiguousarray(numbers, dtype=np.float64)
    out = np.empty(np.shape(numbers))
    _cbuf.check(function(_cbuf.inp(given.reshape(-1)), given.size, _cbuf.out(out.reshape(-1))))
    return out
