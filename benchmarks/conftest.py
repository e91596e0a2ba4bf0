"""Fixtures of the guards and the pytest-benchmark suites: one BLAS thread, and a speed ratio that is robust to other load."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

from fastpubpriv.kernels._cext import lib

SHORTEST_LAP = 0.01  # seconds
# of laps below so many seconds: long ones are steadier
PAIRS = ((0.1, 9), (0.4, 5), (float("inf"), 3))

Clock = Callable[[], float]

# GUARDS_ISA=baseline|avx2 restricts our code to a narrower instruction set; the peers are unrestricted.
_NAMES = ["baseline", "avx2", "avx512"]
_CPUS = {"baseline": "generic", "avx2": "haswell"}
_ASKED = os.environ.get("GUARDS_ISA") or _NAMES[lib.fpp_isa_detect()]
LEVEL = lib.fpp_isa_limit(_NAMES.index(_ASKED))
if _ASKED in _CPUS and lib.fpp_isa_detect() > LEVEL:
    # read when Numba is first imported
    os.environ |= {"NUMBA_CPU_NAME": _CPUS[_ASKED], "NUMBA_CPU_FEATURES": ""}


@pytest.fixture(autouse=True)
def one_blas_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def speedup():
    """Return `speedup(fast, slow)`: the median ratio of CPU times over interleaved pairs of runs of about equal length."""
    return measured_speedup


def measured_speedup(
    fast: Callable[[], Any], slow: Callable[[], Any], clock: Clock = time.process_time
) -> float:
    """Return the ratio of the time of `slow` to that of `fast`; few pairs where a pair takes long."""

    def lap(call: Callable[[], Any], repeats: int) -> float:
        start = clock()
        for _ in range(repeats):
            call()
        return max(clock() - start, 1e-9) / repeats

    def estimate(call: Callable[[], Any]) -> float:
        call()  # warm-up: JIT, page faults
        once = lap(call, 1)
        return once if once > SHORTEST_LAP else lap(call, 3)

    slow_seconds = estimate(slow)
    fast_seconds = estimate(fast)
    longest = max(slow_seconds, fast_seconds, SHORTEST_LAP)
    slow_repeats = max(1, round(longest / slow_seconds))
    fast_repeats = max(1, round(longest / fast_seconds))
    pairs = next(count for below, count in PAIRS if longest < below)
    return statistics.median(
        lap(slow, slow_repeats) / lap(fast, fast_repeats) for _ in range(pairs)
    )
