"""The C library itself: its instruction sets, and its functions by address.

Addresses are for other compiled code (Numba, Cython) in the same process; the rest of the package does not use them. Such calls
do not check arrays: the caller is responsible for their lengths and types.
"""

from __future__ import annotations

import ctypes
from typing import Any

from fastpubpriv.errors import InputError
from fastpubpriv.kernels._cext import ffi, lib

# Instruction sets of the C kernels. Every set gives the same bits; it affects only the speed.

NAMES = ("baseline", "AVX2", "AVX-512")


def instruction_set() -> str:
    """Return the widest instruction set of this machine and this build: "baseline", "AVX2" or "AVX-512"."""
    return NAMES[lib.fpp_isa_detect()]


def interface_version() -> int:
    """Return the version number of the C interface (FPP_ABI_VERSION of csrc/fpp.h)."""
    return int(lib.fpp_abi_version())


_TYPES: dict[str, Any] = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "double": ctypes.c_double,
}


def kernel_names() -> list[str]:
    """Return the names of the functions of `csrc/fpp.h`, without test hooks, in alphabetical order.

    Examples
    --------
    >>> "fpp_gaussian_floor_i64" in kernel_names()
    True
    """
    return sorted(
        name for name in dir(lib) if name.startswith("fpp_") and not name.startswith("fpp_test_")
    )


def kernel_function(name: str) -> Any:
    """Return a function of `csrc/fpp.h` as a ctypes function, which Numba can call inside compiled code.

    Parameters
    ----------
    name : str
        One of `kernel_names()`. Its arguments, and what it returns, are described in `csrc/fpp.h`.

    Returns
    -------
    ctypes function
        Every pointer is an address as an integer: pass `array.ctypes.data`. The function releases the GIL, allocates nothing, and
        may run in several threads at once, each with a separate workspace.

    Raises
    ------
    InputError
        There is no such function.

    Privacy
    -------
    None by itself: these are building blocks of a private release. The caller must ensure what `examples/private_sum.c` states:
    noise that is large enough for the bound on a row, a fresh key for each release, and no output except noisy integers.

    Examples
    --------
    >>> import numpy as np
    >>> draw = kernel_function("fpp_gaussian_floor_i64")
    >>> key, noise = np.zeros(32, dtype=np.uint8), np.empty(3, dtype=np.int64)
    >>> draw(key.ctypes.data, 0, 3, 20, noise.ctypes.data)
    0
    """
    if not isinstance(name, str) or name not in kernel_names():
        raise InputError(
            f"there is no kernel {name!r}: pass one of fastpubpriv.kernels.library.kernel_names()"
        )
    function = getattr(lib, name)
    law = ffi.typeof(function)
    prototype = ctypes.CFUNCTYPE(_ctype(law.result), *[_ctype(argument) for argument in law.args])
    return prototype(int(ffi.cast("intptr_t", ffi.addressof(lib, name))))


def _ctype(kind: Any) -> Any:
    return ctypes.c_ssize_t if kind.kind == "pointer" else _TYPES[kind.cname]
