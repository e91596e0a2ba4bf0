"""Which instructions the C kernels use here. Every set gives the same bits; it decides the speed only."""

from __future__ import annotations

from fastpubpriv.kernels._cext import lib

NAMES = ("baseline", "AVX2", "AVX-512")


def instruction_set() -> str:
    """The widest set that this machine and this build have: "baseline", "AVX2" or "AVX-512"."""
    return NAMES[lib.fpp_isa_detect()]


def interface_version() -> int:
    """The number of the C interface (FPP_ABI_VERSION of csrc/fpp.h)."""
    return int(lib.fpp_abi_version())
