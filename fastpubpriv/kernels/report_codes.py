"""Decoding of local reports, and batches of reports as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.rowwise.row_maps import ReportLaw

# Decoding of reports that are seeds or codes: public, with the same integers on every machine (C, one thread, no GIL).

SEED_BYTES: int = lib.FPP_SEED_BYTES
CODE_BYTES: int = lib.FPP_CODE_BYTES


def seed_integers(seeds: npt.NDArray[np.uint8], law: ReportLaw, out: npt.NDArray[np.int32]) -> None:
    """out (n, dim) int32 = the reports that seeds (n, 32) uint8 encode."""
    _integers(lib.fpp_report_of_seeds_i32, "seeds", seeds, SEED_BYTES, law, out)


def code_integers(codes: npt.NDArray[np.uint8], law: ReportLaw, out: npt.NDArray[np.int32]) -> None:
    """out (n, dim) int32 = the codewords that codes (n, 10) uint8 encode."""
    _integers(lib.fpp_report_of_codes_i32, "codes", codes, CODE_BYTES, law, out)


def _integers(
    call: Any,
    name: str,
    given: npt.NDArray[np.uint8],
    width: int,
    law: ReportLaw,
    out: npt.NDArray[np.int32],
) -> None:
    _cbuf.expect(name, given, np.uint8, (len(given), width))
    _cbuf.expect("out", out, np.int32, (len(given), law.dim))
    claw, work = workspace(law)
    _cbuf.check(
        call(_cbuf.inp(given.reshape(-1)), len(given), claw, work, _cbuf.out(out.reshape(-1)))
    )


def workspace(law: ReportLaw) -> tuple[Any, Any]:
    """Return the law as a C structure, and workspace."""
    claw = _cbuf.new(
        "fpp_report_law *",
        (
            law.dim,
            int(law.gaussian),
            law.log2_grid,
            int(law.ball),
            law.threshold,
            law.miss,
            law.radius,
        ),
    )
    size = lib.fpp_report_workspace_size(claw)
    if size < 0:
        raise KernelError("the law of a report is out of range")
    return claw, ffi.from_buffer(_cbuf.scratch(size))


# Batches of reports as bytes (C); `csrc/wire.c` defines the format.

VERSION = 1
# The forms of reports, and the bytes per report of each form; 0: an integer for each column.
FORMS = {"direct": 0, "selection": 1, "codes": 2}
WIDTHS: tuple[int, ...] = (0, lib.FPP_SEED_BYTES, lib.FPP_CODE_BYTES)


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of a batch in bytes, in the order of fpp_report_header; all fields are public."""

    dim: int
    count: int
    gaussian: int
    form: int
    ball: int
    log2_grid: int
    entry_bytes: int
    threshold: float
    logit: float
    radius: float
    epsilon: float


def batch_write(header: BatchHeader, payload: npt.NDArray[Any]) -> bytes:
    """Return the bytes of a batch of n reports, payload (n, dim) int32 or, for seeds and codes, (n, 32 or 10) uint8."""
    shape = (len(payload), WIDTHS[header.form] or header.dim)
    _cbuf.expect("payload", payload, np.uint8 if header.form else np.int32, shape)
    cheader = _as_struct(header)
    cheader.count = len(payload)
    size = lib.fpp_report_batch_size(cheader)
    if size < 0:
        _cbuf.check(lib.FPP_ERR_ARGUMENT)
    data = np.empty(size, dtype=np.uint8)
    body = _cbuf.inp(payload.reshape(-1))
    entries, seeds = (ffi.NULL, body) if header.form else (body, ffi.NULL)
    _cbuf.check(lib.fpp_report_batch_write(cheader, entries, seeds, _cbuf.out(data)))
    return data.tobytes()


def _as_struct(header: BatchHeader) -> Any:
    return _cbuf.new(
        "fpp_report_header *", [getattr(header, name) for name in BatchHeader.__slots__]
    )


def batch_size(header: BatchHeader) -> int:
    """Return the size of the whole batch in bytes."""
    return int(lib.fpp_report_batch_size(_as_struct(header)))


def batch_header(data: bytes) -> BatchHeader:
    """Return the header of the batch at the beginning of `data`; InputError unless the batch is whole."""
    cheader = _cbuf.new("fpp_report_header *")
    _read(lib.fpp_report_batch_read(ffi.from_buffer("uint8_t[]", data), len(data), cheader))
    return BatchHeader(
        *(getattr(cheader, name) for name, _ in ffi.typeof("fpp_report_header").fields)
    )


def batch_payload(data: bytes) -> npt.NDArray[Any]:
    """Return the reports of the batch at the beginning of `data`: (count, dim) int32 or (count, 32 or 10) uint8."""
    header = batch_header(data)
    shape = (header.count, WIDTHS[header.form] or header.dim)
    payload: npt.NDArray[Any] = np.empty(shape, dtype=np.uint8 if header.form else np.int32)
    body = _cbuf.out(payload.reshape(-1))
    entries, seeds = (ffi.NULL, body) if header.form else (body, ffi.NULL)
    _read(
        lib.fpp_report_batch_entries(ffi.from_buffer("uint8_t[]", data), len(data), entries, seeds)
    )
    return payload


def _read(code: int) -> None:
    if code == lib.FPP_ERR_VERSION:
        raise InputError(
            f"these reports have another version than {VERSION}: update whichever side is older"
        )
    if code == lib.FPP_ERR_FOREIGN:
        raise InputError(
            "these bytes are not a whole batch of local reports: they are cut short, changed or foreign"
        )
    _cbuf.check(code)
