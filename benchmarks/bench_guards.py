"""Guards against slowdowns: speed ratios of two paths in one run, on any x86 processor and under load; part of the ordinary tests.

Each guard is listed with the lowest ratio measured, and is at most `ROOM` times it: it detects lost vectorization, a copy of the
rows and quadratic run time, and tolerates another processor and other load. The lowest ratio is over four processors, idle and
busy, also restricted to AVX2 and to the baseline (`make guards GUARDS_ISA=avx2`) with unrestricted peers. For changes by a tenth
or a quarter, use `python -m benchmarks.machine --compare` on an idle machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.cases import bins, calls, columns, geometry, hypotheses, leaves, loops, reports, training
from benchmarks.conftest import LEVEL
from fastpubpriv.kernels._cext import lib

ROOM = 0.4
ATTEMPTS = 3  # other load can spoil one median; a real slowdown spoils all


class Ratios(NamedTuple):
    """One number for each instruction set that the C library distinguishes."""

    baseline: float
    avx2: float
    avx512: float


GUARDS = {
    # name: (case, peer, guard, lowest ratio measured)
    "gaussian noise": (
        lambda: loops.noise_cases(200_000, False)[0],
        "numpy (insecure)",
        Ratios(0.31, 0.73, 0.8),
        Ratios(0.79, 1.84, 2.8),
    ),
    "laplace noise": (
        lambda: loops.noise_cases(200_000, False)[1],
        "numpy (insecure)",
        Ratios(0.34, 0.8, 0.8),
        Ratios(0.87, 2.14, 2.71),
    ),
    "a small pass": (
        loops.empty_pass_case,
        "NumPy mean",
        Ratios(1.04, 1.05, 1.09),  # Python on both sides
        Ratios(2.6, 2.64, 2.73),
    ),
    "local reports 100": (
        lambda: reports.report_case(2_000, 100),
        reports.NUMPY,
        Ratios(0.73, 1.27, 1.68),
        Ratios(1.83, 3.19, 4.2),
    ),
    "local reports 1000": (
        lambda: reports.report_case(200, 1000),
        reports.NUMPY,
        Ratios(0.7, 1.31, 1.7),
        Ratios(1.77, 3.28, 4.26),
    ),
    "one local report": (
        lambda: reports.one_case(100),
        reports.NUMPY,
        Ratios(1.1, 0.95, 0.97),  # mostly Python on both sides
        Ratios(2.75, 2.39, 2.43),
    ),
    "sum 4": (
        lambda: loops.mean_case(1_000_000, 4),
        "NumPy clip and mean",
        Ratios(2.0, 2.87, 3.0),
        Ratios(5.11, 7.19, 7.88),
    ),
    "sum 50": (
        lambda: loops.mean_case(200_000, 50),
        "NumPy clip and mean",
        Ratios(1.5, 1.5, 2.0),
        Ratios(4.77, 6.08, 5.98),
    ),
    "sum 500": (
        lambda: loops.mean_case(20_000, 500),
        "NumPy clip and mean",
        Ratios(1.5, 1.5, 2.0),
        Ratios(5.06, 6.04, 6.79),
    ),
    "cells of columns": (
        lambda: columns.cells_case(100_000, 50),
        columns.BINCOUNT,
        Ratios(4.4, 5.3, 5.6),
        Ratios(12.85, 15.25, 16.12),
    ),
    "boxes of columns": (
        lambda: columns.box_case(20_000, 50),
        columns.CLIP,
        Ratios(1.4, 1.6, 1.3),
        Ratios(4.06, 4.08, 3.29),
    ),
    "boxed rows added up": (
        lambda: columns.boxed_sum_case(20_000, 50),
        columns.ADD,
        Ratios(0.98, 1.1, 1.5),
        Ratios(2.46, 2.79, 3.82),
    ),
    "boxed rows by norm": (
        lambda: columns.boxed_shells_case(20_000, 50),
        columns.NORMS,
        Ratios(1.3, 1.4, 1.6),
        Ratios(3.28, 3.57, 4.06),
    ),
    "gram 100": (
        lambda: loops.gram_case(100_000, 100),
        "NumPy clip and dsyrk",
        Ratios(0.8, 1.2, 2.0),
        Ratios(2.02, 3.43, 5.19),
    ),
    "gram 1000": (
        lambda: loops.gram_case(10_000, 1000),
        "NumPy clip and dsyrk",
        Ratios(0.29, 0.52, 1.0),
        Ratios(0.74, 1.32, 3.02),
    ),
    "gram 100, mapped": (
        lambda: loops.gram_case(30_000, 100, mapped=True),
        "NumPy clip and dsyrk",
        Ratios(0.22, 0.5, 0.75),
        Ratios(0.58, 1.31, 1.99),
    ),
    "most isolated": (
        lambda: geometry.isolation_case(2_000, 100),
        geometry.SCIKIT,
        Ratios(2.0, 2.0, 2.0),  # scikit-learn's time depends on its BLAS
        Ratios(71.7, 71.7, 71.7),
    ),
    "terrific balls 4": (
        lambda: geometry.terrific_case(4_000, 4),
        geometry.SORTED,
        Ratios(5.0, 5.0, 5.0),
        Ratios(17.1, 17.1, 17.1),
    ),
    "terrific balls 16": (
        lambda: geometry.terrific_case(4_000, 16),
        geometry.SORTED,
        Ratios(2.0, 2.0, 2.0),
        Ratios(6.5, 6.5, 6.5),
    ),
    "routes": (
        lambda: leaves.routing_case(100_000, 16, 8),
        "NumPy products",
        Ratios(0.39, 0.98, 0.87),
        Ratios(0.99, 2.47, 2.19),
    ),
    "leaf grams": (
        lambda: leaves.leaf_gram_case(100_000, 16, 8),
        "NumPy masks, clip and dsyrk",
        Ratios(0.7, 1.2, 1.2),
        Ratios(1.99, 3.35, 3.69),
    ),
    # The peers of the next two do a tenth of the work: a ratio of 0.5 means 5 times as fast.
    "pairs": (
        lambda: hypotheses.pairs_case(640, 1024),
        "NumPy, a hypothesis against the rest",
        Ratios(0.5, 0.8, 0.8),
        Ratios(1.83, 3.56, 5.67),
    ),
    "cells": (
        lambda: hypotheses.cells_case(640),
        "NumPy, a hypothesis against the rest",
        Ratios(0.4, 0.8, 0.8),
        Ratios(1.0, 2.34, 4.34),
    ),
    "bins, bounded": (
        lambda: bins.bins_case("bounded", 1_000_000),
        "NumPy unique",
        Ratios(1.06, 1.4, 1.41),
        Ratios(2.66, 3.5, 3.53),
    ),
    "bins, few": (
        lambda: bins.bins_case("few bins", 1_000_000),
        "NumPy unique",
        Ratios(0.83, 1.28, 1.34),
        Ratios(2.08, 3.21, 3.35),
    ),
    "bins, heavy tail": (
        lambda: bins.bins_case("heavy-tailed", 1_000_000),
        "NumPy unique",
        Ratios(0.84, 1.17, 1.25),
        Ratios(2.1, 2.94, 3.14),
    ),
    "bins, dyadic": (
        lambda: bins.bins_case("dyadic", 1_000_000),
        "NumPy frexp and bincount",
        Ratios(0.8, 0.72, 0.56),
        Ratios(2.0, 1.8, 1.41),
    ),
    "bins, 30 widths": (
        lambda: bins.bins_case("30 widths", 1_000_000),
        "NumPy unique",
        Ratios(0.92, 1.16, 1.12),
        Ratios(2.31, 2.9, 2.81),
    ),
    "clipped gradients": (
        lambda: training.gradient_case(50_000, 100),
        training.BLOCKS,
        Ratios(0.73, 1.05, 1.24),
        Ratios(1.84, 2.64, 3.12),
    ),
    "clipped gradients, float32": (
        lambda: training.gradient_case(50_000, 100, np.float32),
        training.BLOCKS,
        Ratios(0.32, 0.5, 0.64),
        Ratios(0.82, 1.26, 1.6),
    ),
    "a mini-batch": (
        training.batch_case,
        "NumPy",
        Ratios(0.37, 0.53, 0.5),
        Ratios(0.94, 1.34, 1.25),
    ),
    "a newton pass": (
        lambda: training.newton_case(50_000, 100),
        training.BLOCKS,
        Ratios(0.69, 1.02, 1.48),
        Ratios(1.73, 2.55, 3.7),
    ),
    "linear regression": (
        lambda: calls.regression_calls(200_000, 20)[0],
        calls.SCIKIT,
        Ratios(0.22, 0.32, 0.36),
        Ratios(0.55, 0.82, 0.9),
    ),
    "logistic regression": (
        lambda: calls.regression_calls(200_000, 20)[1],
        calls.SCIKIT,
        Ratios(0.25, 0.31, 0.34),
        Ratios(0.63, 0.79, 0.86),
    ),
    "persons": (
        lambda: bins.persons_case(1_000_000),
        "polars, head of groups",
        Ratios(0.27, 0.27, 0.27),
        Ratios(0.7, 0.7, 0.7),
    ),
    # Whole calls, which read the rows several times, against one pass that is not private.
    "quantiles": (
        lambda: calls.quantiles_call(2_000_000),
        "np.quantile",
        Ratios(0.36, 0.54, 0.54),
        Ratios(0.9, 1.36, 1.36),
    ),
    "describe": (
        lambda: calls.describe_call(200_000, 20),
        "pandas describe",
        Ratios(0.21, 0.26, 0.26),
        Ratios(0.53, 0.66, 0.67),
    ),
    "means of groups": (
        lambda: calls.groups_call(500_000, 10, 51),
        "pandas groupby",
        Ratios(0.064, 0.082, 0.084),
        Ratios(0.16, 0.207, 0.211),
    ),
}
# Guards of kernels that read public rows only; `make guards-rest` runs them.
PUBLIC = {"most isolated", "terrific balls 4", "terrific balls 16"}
MOST_READS, READS_SEEN = 6.3, 2.5  # time of the clipped sum over that of one read of its rows: limit, measured


@pytest.mark.filterwarnings("ignore:.*L-BFGS-B:DeprecationWarning")  # scikit-learn asks for an old option
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.extended] if name in PUBLIC else []) for name in GUARDS]
)
def test_speed_up_over_peer(name, speedup):
    make, peer, guard, _ = GUARDS[name]
    case = make()
    found = []
    while not found or (found[-1] < guard[LEVEL] and len(found) < ATTEMPTS):
        found.append(speedup(case.ours, case.peers[peer]))
    assert found[-1] >= guard[LEVEL], found


@pytest.mark.skipif(LEVEL < lib.FPP_ISA_AVX512, reason="narrower machines are bound by arithmetic, not by bandwidth")
@pytest.mark.parametrize(("n", "dim"), [(400_000, 50), (40_000, 500)])
def test_sum_stays_near_the_read_limit(n, dim, speedup):
    case = loops.mean_case(n, dim)
    found = []
    while not found or (found[-1] > MOST_READS and len(found) < ATTEMPTS):
        found.append(speedup(case.floor, case.ours))
    assert found[-1] <= MOST_READS, found


def test_guards_leave_room():
    assert GUARDS.keys() > PUBLIC
    for name, (_, _, guard, lowest) in GUARDS.items():
        assert all(least <= ROOM * seen for least, seen in zip(guard, lowest, strict=True)), name
    assert MOST_READS >= READS_SEEN / ROOM


def test_a_loop_at_half_its_speed_is_caught(speedup):
    """A loop that does its work twice has half of the ratio, so that the guards would catch it."""
    case = loops.noise_cases(50_000, False)[0]
    once = speedup(case.ours, case.peers["numpy (insecure)"])
    twice = speedup(lambda: (case.ours(), case.ours()), case.peers["numpy (insecure)"])
    assert 0.3 < twice / once < 0.8
