"""A process for each set of instructions: in a narrower one the peers are held to it too, as far as they can be told.

Ours is held by the C library. OpenBLAS (of NumPy, SciPy and what stands on them), the loops of NumPy and what Numba compiles read
an environment when they are loaded, so that each set has a process of its own. Polars and OpenDP choose by themselves and cannot be
told. The processes take turns, so that the numbers of a row are close in time: the speed of a shared machine drifts.
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

# A processor with no wider instructions than these: what OpenBLAS, and what LLVM behind Numba, call it.
_PROCESSORS = {lib.FPP_ISA_BASELINE: ("Nehalem", "nehalem"), lib.FPP_ISA_AVX2: ("Haswell", "haswell")}
# NumPy's names for groups of instructions that such a processor has.
_KEPT = {lib.FPP_ISA_BASELINE: ("X86_V2",), lib.FPP_ISA_AVX2: ("X86_V2", "X86_V3", "FMA3", "AVX2", "AVX", "F16C")}


def environment(level: int) -> dict[str, str]:
    """What holds the peers to the instructions of `level`, by its number in the C library; nothing if those are all."""
    if level >= lib.fpp_isa_detect():
        return {}
    blas, llvm = _PROCESSORS[level]
    config: Any = np.show_config(mode="dicts")
    found = config.get("SIMD Extensions", {}).get("found", [])
    return {
        "OPENBLAS_CORETYPE": blas,
        # NumPy ignores the whole list with a warning where it holds a name that is not of this build.
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in found if name not in _KEPT[level]),
        "NUMBA_CPU_NAME": llvm,
        "NUMBA_CPU_FEATURES": "",  # those of the processor by name: without this, Numba adds all that the machine has
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


def _serve(connection: Connection, level: int, produce: Callable[..., Iterator[Any]], given: tuple[Any, ...]) -> None:
    found = produce(level, *given)
    with suppress(EOFError):  # whoever asks is gone
        while connection.recv():
            connection.send(next(found, None))


def in_turn(levels: Sequence[int], produce: Callable[..., Iterator[Any]], *given: Any) -> Iterator[tuple[Any, ...]]:
    """What `produce(level, *given)` yields, in a process for each level; each works only while the others wait.

    All of them must yield equally often, and never None. `produce` is a function of a module, as it is sent by its name.
    """
    context = multiprocessing.get_context(
        "spawn"
    )  # a new interpreter: libraries read the environment when they are loaded
    ends = []
    for level in levels:
        ours, theirs = context.Pipe()
        with _set(environment(level)):
            context.Process(target=_serve, args=(theirs, level, produce, given), daemon=True).start()
        theirs.close()  # so that our waiting ends where the process fails
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
