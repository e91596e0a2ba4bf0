"""Benchmarks of occupied bins: width and dyadic bins, nested widths, many columns, and a complete release."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from benchmarks.bench_rows import run
from benchmarks.cases import limits
from benchmarks.cases.bins import SHAPES, bins_case, bins_count
from fastpubpriv import ApproxDP, BinGrid, DyadicBins, PrivacyWarning, stable_histogram
from fastpubpriv.kernels._cext import lib
from fastpubpriv.kernels.bins import BinRule

pytestmark = pytest.mark.bench

N = 10_000_000


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("who", ["ours", "numpy", "polars"])
def test_bins(benchmark, shape, who):
    case = bins_case(shape, N)
    calls = {"ours": case.ours, "numpy": next(iter(case.peers.values())), "polars": case.peers["polars, one thread"]}
    run(benchmark, case.name, N, calls[who], limit_seconds=case.limit())


@pytest.mark.skipif(lib.fpp_isa_detect() < lib.FPP_ISA_AVX512, reason="the promise is for AVX-512")
@pytest.mark.parametrize("shape", SHAPES)
def test_promised_speed(shape, speedup):
    """On ten million numbers and one thread, binning is at least 5 times as fast as NumPy and 3.5 times as fast as polars."""
    case = bins_case(shape, N)
    assert speedup(case.ours, next(iter(case.peers.values()))) >= 5.0
    assert speedup(case.ours, case.peers["polars, one thread"]) >= 3.5


@pytest.mark.parametrize("shape", ["bounded", "dyadic"])
@pytest.mark.parametrize("level", range(lib.fpp_isa_detect() + 1))
def test_bins_on_each_instruction_set(benchmark, shape, level):
    case = bins_case(shape, N)
    before = lib.fpp_isa_limit(level)
    try:
        run(benchmark, f"{case.name}, instruction sets", N, case.ours, level=level)
    finally:
        lib.fpp_isa_limit(max(before, lib.fpp_isa_detect()))


@pytest.mark.parametrize("who", ["ours", "a pass for each column", "numpy"])
def test_many_columns(benchmark, who):
    """Bin twenty columns of row-major rows in one pass, against one strided pass per column."""
    x = np.random.default_rng(0).standard_normal((500_000, 20))
    budget = ApproxDP(1, 1e-9)
    calls = {
        "ours": lambda: stable_histogram(x, bins=BinGrid(width=0.1), budget=budget, threads=1, progress=False),
        "a pass for each column": lambda: [bins_count(x[:, j], BinRule(0.1)) for j in range(20)],
        "numpy": lambda: [np.unique(np.ceil(x[:, j] / 0.1 - 0.5), return_counts=True) for j in range(20)],
    }
    run(benchmark, "twenty columns", len(x) * 20, calls[who], limit_seconds=limits.read_seconds(x))


@pytest.mark.parametrize("bins", [DyadicBins(), BinGrid(width=0.1)], ids=["dyadic", "width"])
@pytest.mark.parametrize("threads", [1, 2])
def test_whole_release(benchmark, bins, threads):
    """The release draws noise for a public number of slots: for width bins one per row, at 5 ns each."""
    x = np.random.default_rng(0).standard_normal((N, 1))

    def call():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            return stable_histogram(x, bins=bins, budget=ApproxDP(1, 1e-6), threads=threads, progress=False)

    run(benchmark, f"stable_histogram, {type(bins).__name__}", N, call, threads=threads)
