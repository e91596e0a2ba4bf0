"""Describes the extension module to cffi: `fpp.h` between its marks is the declaration, the other C files are the library."""

import hashlib
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
SOURCES = [
    "isa.c", "chacha.c", "fixed.c", "sampler.c", "coins.c", "rowmap.c", "rows.c", "gram.c", "shells.c", "tree.c",
    "bins.c", "hypotheses.c", "roots.c", "elementary.c", "columns.c", "groups.c", "normals.c", "gradients.c", "reports.c",
    "report_loops.c", "seeds.c", "codes.c",
    "wire.c",
]  # fmt: skip
# No -ffast-math, ever: it would make NaN checks vanish. Contraction is off so that every instruction set rounds alike.
# No debug information, which Python's own flags ask for: the extension has a fourth of the size without it.
COMPILE_ARGS = ["-O3", "-std=c11", "-fno-math-errno", "-ffp-contract=off", "-g0"]


def declaration() -> str:
    """Return the part of fpp.h that cffi can read."""
    header = (HERE / "fpp.h").read_text(encoding="utf-8")
    return header.split("/* cdef begins */")[1].split("/* cdef ends */")[0]


def fingerprint(declared: str) -> str:
    """A number that changes with every change of the declaration: `fastpubpriv.kernels` tells a stale extension by it."""
    return f"0x{hashlib.sha256(declared.encode()).hexdigest()[:15]}"


ffi = FFI()
ffi.cdef(declaration() + "\n#define FPP_DECLARATION ...\n")
ffi.set_source(
    "fastpubpriv.kernels._cext",
    f'#include "fpp.h"\n#define FPP_DECLARATION {fingerprint(declaration())}LL',
    sources=[f"csrc/{name}" for name in SOURCES],
    depends=[f"csrc/{path.name}" for path in sorted(HERE.glob("*.h"))],
    include_dirs=["csrc"],
    extra_compile_args=COMPILE_ARGS,
)
