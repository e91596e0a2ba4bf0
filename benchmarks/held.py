"""One process for each instruction set, in which peers are restricted to it as well, as far as possible.

The C library restricts our code. OpenBLAS (of NumPy, SciPy and packages built on them), the loops of NumPy and Numba read
environment variables when they are loaded, so that each instruction set needs its own process. Polars and OpenDP cannot be
restricted. The processes alternate, so that the numbers of a row are close in time: the speed of a shared machine drifts.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fastpubpriv.kernels._cext import lib

# Names that OpenBLAS, and LLVM behind Numba, give to a processor with no wider instructions than these.
_PROCESSORS = {
    lib.FPP_ISA_BASELINE: ("Nehalem", "nehalem"),
    lib.FPP_ISA_AVX2: ("Haswell", "haswell"),
}
# NumPy's names of the instruction groups of such a processor.
_KEPT = {
    lib.FPP_ISA_BASELINE: ("X86_V2",),
    lib.FPP_ISA_AVX2: ("X86_V2", "X86_V3", "FMA3", "AVX2", "AVX", "F16C"),
}


def environment(level: int) -> dict[str, str]:
    """Return environment variables that restrict peers to instruction set `level` of the C library; empty for the widest."""
    if level >= lib.fpp_isa_detect():
        return {}
    blas, llvm = _PROCESSORS[level]
    config: Any = np.show_config(mode="dicts")
    found = config.get("SIMD Extensions", {}).get("found", [])
    return {
        "OPENBLAS_CORETYPE": blas,
        # NumPy ignores the complete list, with a warning, if it contains a name that is not of this build.
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in found if name not in _KEPT[level]),
        "NUMBA_CPU_NAME": llvm,
        # without this, Numba adds all features of the machine to those of the named processor
        "NUMBA_CPU_FEATURES": "",
    }


@contextmanager
def _set(names: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(
    connection: Connection,
    level: int,
    produce: Callable[..., Iterator[Any]],
    given: tuple[Any, ...],
) -> None:
    found = produce(level, *given)
    with suppress(EOFError):  # the parent has exited
        while connection.recv():
            connection.send(next(found, None))


def in_turn(
    levels: Sequence[int], produce: Callable[..., Iterator[Any]], *given: Any
) -> Iterator[tuple[Any, ...]]:
    """Yield the values of `produce(level, *given)`, run in one process for each level; each runs only while the others wait.

    All of them must yield equally often, and never None. `produce` must be a function of a module, as it is pickled by name.
    """
    # a new interpreter: libraries read the environment when they are loaded
    context = multiprocessing.get_context("spawn")
    ends = []
    for level in levels:
        ours, theirs = context.Pipe()
        with _set(environment(level)):
            context.Process(
                target=_serve, args=(theirs, level, produce, given), daemon=True
            ).start()
        theirs.close()  # so that receiving ends if the process fails
        ends.append(ours)
    try:
        while True:
            found = []
            for end in ends:
                end.send(True)
                found.append(end.recv())
            if found[0] is None:
                break
            yield tuple(found)
    finally:
        for end in ends:
            end.close()
