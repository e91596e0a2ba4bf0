"""Half of each speed goal, as a ratio between two paths of one run; part of the ordinary tests."""

from __future__ import annotations

import pytest

from benchmarks import bins_cases, cases, hypotheses, leaves
from fastpubpriv.kernels._cext import lib

# Goals hold for the instruction set they were set for; the baseline has half of them.
FAST = lib.fpp_isa_detect() >= lib.FPP_ISA_AVX2
AVX512 = lib.fpp_isa_detect() >= lib.FPP_ISA_AVX512

GUARDS = {
    # name: (case, peer, least speed-up = half the goal)
    "gaussian noise": (lambda: cases.noise_cases(200_000, False)[0], "numpy (insecure)", 1.0 if FAST else 0.5),
    "laplace noise": (lambda: cases.noise_cases(200_000, False)[1], "numpy (insecure)", 1.0 if FAST else 0.5),
    "sum 50": (lambda: cases.mean_case(200_000, 50), "NumPy clip and mean", 2.5 if AVX512 else 1.5),
    "sum 500": (lambda: cases.mean_case(20_000, 500), "NumPy clip and mean", 2.5 if AVX512 else 1.5),
    "gram 100": (lambda: cases.gram_case(100_000, 100), "NumPy clip and dsyrk", 2.5 if AVX512 else 1.2),
    "gram 1000": (lambda: cases.gram_case(10_000, 1000), "NumPy clip and dsyrk", 1.25),
    "most isolated": (
        lambda: cases.isolation_case(4_000, 100, packaged=False),
        "NumPy float32 products (may err)",
        5.0 if AVX512 else 3.0,
    ),
    "terrific balls 4": (lambda: cases.terrific_case(4_000, 4), "sorted cdist", 10.0 if AVX512 else 5.0),
    "terrific balls 16": (lambda: cases.terrific_case(4_000, 16), "sorted cdist", 6.0 if AVX512 else 3.0),
    "many balls 4": (lambda: cases.many_balls_case(100_000, 4), "sorted cdist", 5.5 if AVX512 else 2.5),
    "many balls 16": (lambda: cases.many_balls_case(100_000, 16), "sorted cdist", 3.5 if AVX512 else 1.5),
    "routes": (lambda: leaves.routing_case(100_000, 16, 8), "NumPy products", 1.5 if FAST else 0.5),
    "leaf grams": (lambda: leaves.leaf_gram_case(100_000, 16, 8), "NumPy masks, clip and dsyrk", 1.5 if FAST else 0.7),
    # The peers of the last two do a tenth of the work: half of 20 times as fast is then 1.
    "pairs": (lambda: hypotheses.pairs_case(640, 1024), "NumPy, a hypothesis against the rest", 1.0 if FAST else 0.5),
    "cells": (lambda: hypotheses.cells_case(640), "NumPy, a hypothesis against the rest", 1.0 if FAST else 0.5),
    "bins, bounded": (lambda: bins_cases.bins_case("bounded", 1_000_000), "NumPy unique", 2.5 if AVX512 else 1.5),
    "bins, few": (lambda: bins_cases.bins_case("few bins", 1_000_000), "NumPy unique", 2.5 if AVX512 else 1.5),
    "bins, heavy tail": (
        lambda: bins_cases.bins_case("heavy-tailed", 1_000_000),
        "NumPy unique",
        2.0 if AVX512 else 1.3,
    ),
    "bins, dyadic": (
        lambda: bins_cases.bins_case("dyadic", 1_000_000),
        "NumPy frexp and bincount",
        2.5 if AVX512 else 1.5,
    ),
    "bins, 30 widths": (lambda: bins_cases.bins_case("30 widths", 1_000_000), "NumPy unique", 1.5),
}


@pytest.mark.parametrize("name", GUARDS)
def test_speed_up_over_peer(name, speedup):
    make, peer, least = GUARDS[name]
    case = make()
    assert speedup(case.ours, case.peers[peer]) >= least


@pytest.mark.skipif(not AVX512, reason="the bandwidth goal is for AVX-512; narrower machines are bound by arithmetic")
@pytest.mark.parametrize(("n", "dim"), [(400_000, 50), (40_000, 500)])
def test_sum_stays_near_the_read_limit(n, dim, speedup):
    case = cases.mean_case(n, dim)
    assert speedup(case.floor, case.ours) <= 2 * 1.15
