"""Measured limits of this machine on one thread: bytes read per second and fused multiply-adds per second.

The goals of PERFORMANCE are ratios to these limits. Both come from a few lines of C, compiled on the spot with the flags of the
machine, or of a narrower instruction set inside `held_to`: NumPy's sum is bound by its additions on fast
memory, and OpenBLAS picks AVX2 kernels on some AVX-512 machines, so that neither shows the limit. Reading is a sum of 64-bit
integers over sixteen vector accumulators, whose cost is negligible; arithmetic is twelve independent chains of a vector
multiply-add, enough to cover a latency of four cycles on two ports, and few enough for sixteen registers.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import pathlib
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.kernels._cext import lib

_SOURCE = r"""
#include <stdint.h>
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef uint64_t word __attribute__((vector_size(BYTES), aligned(8), may_alias));
typedef double real __attribute__((vector_size(BYTES)));
enum { SUMS = 16, CHAINS = 12 };

uint64_t read_all(const char *p, int64_t bytes)
{
    word a[SUMS];
    for (int j = 0; j < SUMS; j++) a[j] = (word){0};
    for (int64_t i = 0; i + SUMS * BYTES <= bytes; i += SUMS * BYTES)
        for (int j = 0; j < SUMS; j++) a[j] += *(const word *)(p + i + j * BYTES);
    uint64_t s = 0;
    for (int j = 0; j < SUMS; j++)
        for (int l = 0; l < BYTES / 8; l++) s += a[j][l];
    return s;
}

/* Returns the flops done. The result goes through a volatile so that the chains are needed. */
int64_t multiply_add(int64_t rounds)
{
    static volatile double sink;
    real a[CHAINS], m = (real){0} + 0.999, c = (real){0} + 1e-3;
    for (int j = 0; j < CHAINS; j++) a[j] = (real){0} + j;
    for (int64_t i = 0; i < rounds; i++)
        for (int j = 0; j < CHAINS; j++) a[j] = a[j] * m + c;
    double s = 0;
    for (int j = 0; j < CHAINS; j++)
        for (int l = 0; l < BYTES / 8; l++) s += a[j][l];
    sink = s;
    return rounds * CHAINS * (BYTES / 8) * 2;
}
"""
_ENOUGH, _AT_LEAST = 5.0, 0.02
_FLAGS = ["-O3", "-ffp-contract=fast", "-shared", "-fPIC"]
# An instruction set narrower than the machine's emulates a processor without wider instructions.
_NARROWER = {lib.FPP_ISA_BASELINE: "-march=x86-64", lib.FPP_ISA_AVX2: "-march=x86-64-v3"}
_held: list[int] = []


@contextlib.contextmanager
def held_to(level: int) -> Iterator[None]:
    """Measure limits inside the block with the instruction set of `level`, its number in the C library."""
    _held.append(level)
    try:
        yield
    finally:
        _held.pop()


def architecture() -> str:
    """Return the compiler flag of the instruction set that limits are measured with."""
    level = _held[-1] if _held else lib.fpp_isa_detect()
    return "-march=native" if level >= lib.fpp_isa_detect() else _NARROWER[level]


@functools.cache
def compiled(source: str, flag: str) -> ctypes.CDLL:
    """Compile a few lines of C for that instruction set; the functions of the library take and return 64-bit integers."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="limits"))
    text = folder / "limits.c"
    text.write_text(source, encoding="utf-8")
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    subprocess.run(
        [compiler, *_FLAGS, flag, "-o", str(folder / "limits.so"), str(text)], check=True
    )
    return ctypes.CDLL(str(folder / "limits.so"))


def _library() -> ctypes.CDLL:
    library = compiled(_SOURCE, architecture())
    library.read_all.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.read_all.restype = ctypes.c_uint64
    return library


def steps_per_second(source: str, name: str, rounds: int) -> float:
    """Return the peak number of steps per second of a compiled function, which returns the steps of its `rounds`."""
    return _steps_per_second(source, name, rounds, architecture())


@functools.cache
def _steps_per_second(source: str, name: str, rounds: int, flag: str) -> float:
    call = getattr(compiled(source, flag), name)
    call.argtypes, call.restype = [ctypes.c_int64], ctypes.c_int64
    return int(call(1)) * rounds / best_seconds(lambda: call(rounds), 9)


def best_seconds(call: Callable[[], Any], rounds: int = 7) -> float:
    """Return the minimum time of several runs after a warm-up: on a shared machine, interference only adds time.

    A call of a millisecond or less runs more often, as one interrupt lasts as long. No run starts after `_ENOUGH` seconds; then
    the minimum includes the first run, whose warm-up is a small part of it.
    """
    seconds: list[float] = []
    while len(seconds) <= rounds or sum(seconds) < _AT_LEAST:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > _ENOUGH:
            return min(seconds)
    return min(seconds[1:])


def read_once(array: npt.NDArray[Any]) -> int:
    """Read every byte of a contiguous array (up to the last kilobyte) as fast as one thread can."""
    if not array.flags.c_contiguous:
        raise ValueError("read_once needs a contiguous array")
    return int(_library().read_all(array.ctypes.data, array.nbytes))


def read_seconds(array: npt.NDArray[Any], rounds: int = 7) -> float:
    """Return the minimum time of one pass over this array, so that caches and page sizes have the same effect."""
    return best_seconds(lambda: read_once(array), rounds)


def flops_per_second() -> float:
    """Return the peak rate of double-precision fused multiply-adds (two flops each) on one thread."""
    return steps_per_second(_SOURCE, "multiply_add", 2_000_000)


def gram_flop_seconds(n_rows: int, dim: int) -> float:
    """Return the minimum time of the lower triangle of a Gram matrix in double precision: n d (d + 1) flops at the peak rate."""
    return n_rows * dim * (dim + 1) / flops_per_second()


if __name__ == "__main__":
    block = np.ones(50_000_000)
    print(
        f"read {block.nbytes / read_seconds(block) * 1e-9:.1f} GB/s, {flops_per_second() * 1e-9:.0f} Gflop/s"
    )
