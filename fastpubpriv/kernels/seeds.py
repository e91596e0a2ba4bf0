"""What a report that is a seed or a code stands for: public, and the same integers on every machine (C, one thread, no GIL)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.laws import ReportLaw

SEED_BYTES: int = lib.FPP_SEED_BYTES
CODE_BYTES: int = lib.FPP_CODE_BYTES


def seed_integers(seeds: npt.NDArray[np.uint8], law: ReportLaw, out: npt.NDArray[np.int32]) -> None:
    """out (n, dim) int32 = the reports of seeds (n, 32) uint8."""
    _integers(lib.fpp_report_of_seeds_i32, "seeds", seeds, SEED_BYTES, law, out)


def code_integers(codes: npt.NDArray[np.uint8], law: ReportLaw, out: npt.NDArray[np.int32]) -> None:
    """out (n, dim) int32 = the words that codes (n, 10) uint8 name."""
    _integers(lib.fpp_report_of_codes_i32, "codes", codes, CODE_BYTES, law, out)


def _integers(
    call: Any, name: str, given: npt.NDArray[np.uint8], width: int, law: ReportLaw, out: npt.NDArray[np.int32]
) -> None:
    _cbuf.expect(name, given, np.uint8, (len(given), width))
    _cbuf.expect("out", out, np.int32, (len(given), law.dim))
    claw, work = workspace(law)
    _cbuf.check(call(_cbuf.inp(given.reshape(-1)), len(given), claw, work, _cbuf.out(out.reshape(-1))))


class _Last(threading.local):
    """What this thread's last call was prepared with: to prepare takes as long as to draw a report of 100 columns."""

    law: ReportLaw | None = None

    def prepare(self, law: ReportLaw) -> None:
        claw = _cbuf.new(
            "fpp_report_law *",
            (law.dim, int(law.gaussian), law.log2_grid, int(law.ball), law.threshold, law.miss, law.radius),
        )
        size = lib.fpp_report_workspace_size(claw)
        if size < 0:
            raise KernelError("the law of a report is out of range")
        self.law, self.given = law, (claw, ffi.from_buffer(_cbuf.scratch(size)))


_last = _Last()


def workspace(law: ReportLaw) -> tuple[Any, Any]:
    """The law as C sees it, and memory for a call: those of this thread's last call, if the law is the same object."""
    if _last.law is not law:
        _last.prepare(law)
    found: tuple[Any, Any] = _last.given
    return found
