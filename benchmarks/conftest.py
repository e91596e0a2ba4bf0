"""Fixtures of the guards and the pytest-benchmark suites: one BLAS thread, and a speed ratio that is robust to other load."""

from __future__ import annotations

import os
import statistics
import time

import pytest
from threadpoolctl import threadpool_limits

from fastpubpriv.kernels._cext import lib

MOST_PAIRS, FEW_PAIRS = 9, 5  # of laps, and where a lap is long
SHORTEST_LAP, LONG_LAP = 0.01, 0.15  # seconds

# GUARDS_ISA=baseline|avx2 restricts our code to a narrower instruction set; the peers are unrestricted.
_NAMES = ["baseline", "avx2", "avx512"]
_CPUS = {"baseline": "generic", "avx2": "haswell"}
_ASKED = os.environ.get("GUARDS_ISA") or _NAMES[lib.fpp_isa_detect()]
LEVEL = lib.fpp_isa_limit(_NAMES.index(_ASKED))
if _ASKED in _CPUS and lib.fpp_isa_detect() > LEVEL:
    os.environ |= {"NUMBA_CPU_NAME": _CPUS[_ASKED], "NUMBA_CPU_FEATURES": ""}  # read when Numba is first imported


@pytest.fixture(autouse=True)
def one_blas_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def speedup():
    """Return `speedup(fast, slow)`: the median ratio of CPU times over interleaved pairs of runs of about equal length."""
    return measured_speedup


def measured_speedup(fast, slow, clock=time.process_time):
    """Return the ratio of the time of `slow` to that of `fast`; few pairs where a pair takes long."""

    def lap(call, repeats):
        start = clock()
        for _ in range(repeats):
            call()
        return (clock() - start) / repeats

    fast()
    slow()  # warm-up: JIT, page faults
    slow_seconds = max(lap(slow, 2), 1e-9)
    fast_seconds = max(lap(fast, 3), 1e-9)
    longest = max(slow_seconds, fast_seconds, SHORTEST_LAP)
    slow_repeats = max(1, round(longest / slow_seconds))
    fast_repeats = max(1, round(longest / fast_seconds))
    pairs = MOST_PAIRS if longest < LONG_LAP else FEW_PAIRS
    return statistics.median(lap(slow, slow_repeats) / lap(fast, fast_repeats) for _ in range(pairs))
