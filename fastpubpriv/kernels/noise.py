"""Draws from ChaCha20 and a 32-byte key: noise, and local reports. A key must serve one release only.

Draws begin ... begin + count - 1 of a key are the same however the range is cut at multiples of DRAW_BLOCK. The noise of a release
is `gaussian_floor` or `discrete_laplace`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cbuf import check, out
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels.report_codes import CODE_BYTES, SEED_BYTES, workspace
from fastpubpriv.rowwise.row_maps import CodeLaw, ReportLaw

DRAW_BLOCK: int = lib.FPP_DRAW_BLOCK
LOG2_SCALE_MIN: int = lib.FPP_LOG2_SCALE_MIN
LOG2_SCALE_MAX: int = lib.FPP_LOG2_SCALE_MAX


def _key(key: bytes) -> Any:
    if not isinstance(key, bytes) or len(key) != lib.FPP_KEY_BYTES:
        raise KernelError(f"a key is {lib.FPP_KEY_BYTES} bytes")
    return ffi.from_buffer("uint8_t[]", key)


def _drawn(call: Any, key: bytes, begin: int, count: int, dtype: Any, *law: int) -> NDArray[Any]:
    """Return draws begin ... begin + count - 1 of a key, with the parameters of their law."""
    if not 0 <= count < 2**62 or not 0 <= begin < 2**62:
        raise KernelError("a range of draws begins and ends at non-negative 62-bit numbers")
    draws = np.empty(count, dtype=dtype)
    check(call(_key(key), begin, begin + count, *law, out(draws)))
    return draws


def _int32(value: int) -> int:
    """Return a small integer for C; one that does not fit becomes -1, which C rejects."""
    return value if -(2**31) <= value < 2**31 else -1


def gaussian_floor(key: bytes, count: int, log2_scale: int, *, begin: int = 0) -> IntArray:
    """Draw floor(N(0, 4^log2_scale)), within 2^-100 of exact; (count,) int64."""
    return _drawn(lib.fpp_gaussian_floor_i64, key, begin, count, np.int64, _int32(log2_scale))


def discrete_laplace(key: bytes, count: int, log2_scale: int, *, begin: int = 0) -> IntArray:
    """Draw from P(x) proportional to exp(-|x| / 2^log2_scale), within 2^-100 of exact; (count,) int64."""
    return _drawn(lib.fpp_laplace_i64, key, begin, count, np.int64, _int32(log2_scale))


def uniform(key: bytes, count: int, *, begin: int = 0) -> FloatArray:
    """Draw uniform multiples of 2^-53 in [0, 1), exact on that grid; (count,) float64."""
    return _drawn(lib.fpp_uniform_f64, key, begin, count, np.float64)


def below(key: bytes, count: int, bound: int, *, begin: int = 0) -> IntArray:
    """Draw uniform integers in {0, ..., bound - 1}, exact; (count,) int64."""
    if not 1 <= bound < 2**63:
        raise KernelError(f"bound must be between 1 and 2^63 - 1, got {bound}")
    return _drawn(lib.fpp_below_i64, key, begin, count, np.int64, bound)


def permutation(key: bytes, n: int) -> IntArray:
    """Draw a permutation of 0 ... n - 1, all equally likely; (n,) int64."""
    if not 0 <= n < 2**62:
        raise KernelError(f"a permutation has 0 to 2^62 numbers, got {n}")
    order = np.empty(n, dtype=np.int64)
    check(lib.fpp_permutation_i64(_key(key), n, out(order)))
    return order


# Draws of local reports from rows and a 32-byte key (C, one thread, no GIL). Only `release` may call these functions.


def report_integers(
    rows: npt.NDArray[Any],
    law: ReportLaw,
    key: bytes,
    out: npt.NDArray[np.int32],
    *,
    first: int = 0,
) -> None:
    """out (n, dim) int32 = reports first ... first + n - 1 of a key, for rows (n, dim), float64."""
    _cbuf.expect("out", out, np.int32, rows.shape)
    _report(lib.fpp_reports_f64, rows, law, (), key, first, out)


def report_seeds(
    rows: npt.NDArray[Any],
    law: ReportLaw,
    key: bytes,
    out: npt.NDArray[np.uint8],
    *,
    first: int = 0,
    most_trials: int = 1 << 24,
) -> None:
    """out (n, 32) uint8 = reports as seeds, each the first accepted proposal; arguments as of `report_integers`."""
    _cbuf.expect("out", out, np.uint8, (rows.shape[0], SEED_BYTES))
    _report(lib.fpp_report_seeds_f64, rows, law, (law.tail, most_trials), key, first, out)


def report_codes(
    rows: npt.NDArray[Any], law: CodeLaw, key: bytes, out: npt.NDArray[np.uint8], *, first: int = 0
) -> None:
    """out (n, 10) uint8 = for each row the number of a fresh codebook, and that of one of its codewords."""
    _cbuf.expect("out", out, np.uint8, (rows.shape[0], CODE_BYTES))
    book = _cbuf.new("fpp_report_book *", (law.words, law.chosen, law.miss))
    _report(lib.fpp_report_codes_f64, rows, law.vectors, (book,), key, first, out)


def _report(
    call: Any,
    rows: npt.NDArray[Any],
    law: ReportLaw,
    more: tuple[Any, ...],
    key: bytes,
    first: int,
    out: Any,
) -> None:
    """Call C for rows (n, dim), with the arguments `more` after the law."""
    if rows.dtype != np.float64:
        raise KernelError("reports are made of native float64 rows")
    pointer, stride = _cbuf.rows(rows, law.dim)
    claw, work = workspace(law)
    into = _cbuf.out(out.reshape(-1))
    _cbuf.check(call(pointer, rows.shape[0], stride, claw, *more, _key(key), first, work, into))
