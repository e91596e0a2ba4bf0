"""Instruction sets of this machine."""

import contextlib

from fastpubpriv.kernels._cext import lib


@contextlib.contextmanager
def instruction_set(level):
    """Restrict the library to instruction sets up to `level`."""
    lib.fpp_isa_limit(level)
    try:
        yield
    finally:
        lib.fpp_isa_limit(lib.FPP_ISA_AVX512)
