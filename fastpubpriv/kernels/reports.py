"""Draws of local reports from rows and a 32-byte key (C, one thread, no GIL). Only `release` may ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels.seeds import CODE_BYTES, SEED_BYTES, workspace
from fastpubpriv.laws import CodeLaw, ReportLaw


def report_integers(
    rows: npt.NDArray[Any], law: ReportLaw, key: bytes, out: npt.NDArray[np.int32], *, first: int = 0
) -> None:
    """out (n, dim) int32 = reports number first ... first + n - 1 of a key, of rows (n, dim), float64."""
    pointer, stride = _rows(rows, law)
    _cbuf.expect("out", out, np.int32, rows.shape)
    claw, work = workspace(law)
    _cbuf.check(
        lib.fpp_reports_f64(pointer, rows.shape[0], stride, claw, _key(key), first, work, _cbuf.out(out.reshape(-1)))
    )


def report_seeds(
    rows: npt.NDArray[Any],
    law: ReportLaw,
    key: bytes,
    out: npt.NDArray[np.uint8],
    *,
    first: int = 0,
    most_trials: int = 1 << 24,
) -> None:
    """out (n, 32) uint8 = the same as seeds, each the first proposal that is taken."""
    pointer, stride = _rows(rows, law)
    _cbuf.expect("out", out, np.uint8, (rows.shape[0], SEED_BYTES))
    claw, work = workspace(law)
    _cbuf.check(
        lib.fpp_report_seeds_f64(
            pointer, rows.shape[0], stride, claw, law.tail, most_trials, _key(key), first, work,
            _cbuf.out(out.reshape(-1)),
        )
    )  # fmt: skip


def report_codes(
    rows: npt.NDArray[Any], law: CodeLaw, key: bytes, out: npt.NDArray[np.uint8], *, first: int = 0
) -> None:
    """out (n, 10) uint8 = for each row the number of a fresh book, and that of one of its words."""
    pointer, stride = _rows(rows, law.vectors)
    _cbuf.expect("out", out, np.uint8, (rows.shape[0], CODE_BYTES))
    claw, work = workspace(law.vectors)
    book = _cbuf.new("fpp_report_book *", (law.words, law.chosen, law.miss))
    _cbuf.check(
        lib.fpp_report_codes_f64(
            pointer, rows.shape[0], stride, claw, book, _key(key), first, work, _cbuf.out(out.reshape(-1))
        )
    )


def _rows(rows: npt.NDArray[Any], law: ReportLaw) -> tuple[Any, int]:
    if rows.dtype != np.float64:
        raise KernelError("reports are made of native float64 rows")
    if rows.flags.c_contiguous and rows.flags.aligned and rows.shape[1:] == (law.dim,):
        return ffi.from_buffer("double[]", rows), law.dim  # a third of the time of what follows
    return _cbuf.rows(rows, law.dim)


def _key(key: bytes) -> Any:
    if not isinstance(key, bytes) or len(key) != lib.FPP_KEY_BYTES:
        raise KernelError(f"a key is {lib.FPP_KEY_BYTES} bytes")
    return ffi.from_buffer("uint8_t[]", key)
