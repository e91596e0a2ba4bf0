"""Check that the compiled part exists and was built from these sources."""

import hashlib
from pathlib import Path

from fastpubpriv.errors import FastPubPrivError

_COMPILE = (
    "run `python setup.py build_ext --inplace` in the folder of the sources, or install the package again as a folder, since "
    "Python loads no compiled part from a zip archive"
)


class CompiledPartError(FastPubPrivError, ImportError):
    """The compiled part is missing, or was built from other sources."""


def declared() -> int | None:
    """Return the hash of the declarations in `csrc/fpp.h`, as `csrc/build_ffi.py` computes it; None without the sources."""
    try:
        header = (
            Path(__file__)
            .resolve()
            .parents[2]
            .joinpath("csrc", "fpp.h")
            .read_text(encoding="utf-8")
        )
    except OSError:
        return None
    declarations = header.partition("/* cdef begins */")[2].partition("/* cdef ends */")[0]
    return int(hashlib.sha256(declarations.encode()).hexdigest()[:15], 16)


def check_compiled() -> None:
    """Raise CompiledPartError if the compiled part is missing or was built from another `fpp.h` with other arguments."""
    try:
        from fastpubpriv.kernels._cext import lib
    except ImportError as error:
        raise CompiledPartError(
            f"the compiled part of fastpubpriv is missing or cannot be loaded ({error}): {_COMPILE}"
        ) from error
    made_from = getattr(lib, "FPP_DECLARATION", None)
    wanted = declared()
    if wanted is not None and made_from != wanted:
        raise CompiledPartError(
            f"the compiled part of fastpubpriv is older than its Python part: {_COMPILE}"
        )
