"""Fixtures of the guards and the pytest-benchmark suites: one BLAS thread, and a speed ratio that is robust to other load."""

from __future__ import annotations

import os
import statistics
import time

import pytest
from threadpoolctl import threadpool_limits

from fastpubpriv.kernels._cext import lib

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

    def measure(fast, slow, rounds=9, clock=time.process_time):
        def lap(call, repeats):
            start = clock()
            for _ in range(repeats):
                call()
            return (clock() - start) / repeats

        fast()
        slow()  # warm-up: JIT, page faults
        repeats = max(1, round(lap(slow, 2) / lap(fast, 5)))
        return statistics.median(lap(slow, 1) / lap(fast, repeats) for _ in range(rounds))

    return measure
