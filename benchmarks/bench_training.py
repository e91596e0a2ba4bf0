"""pytest-benchmark suites of training: a pass of clipped gradients, a mini-batch, and a Newton pass.

Peers: typical NumPy code on blocks of rows, and a ten-line Numba loop in floats. The limit is one read of the rows, or the matrix
products of a Newton pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.cases import training
from benchmarks.cases.loops import Case
from fastpubpriv.kernels.gradients import gradient_sum
from fastpubpriv.rowwise.losses import logistic_residual, squared_residual

pytestmark = pytest.mark.bench
PASSES = [(200_000, 100), (20_000, 1000)]


def run(benchmark: Any, case: Case, who: str, count: int) -> None:
    calls = {"ours": case.ours, **case.peers, **({"limit": case.floor} if case.floor is not None else {})}
    if who not in calls:
        pytest.skip("no such peer")
    benchmark.group = case.name
    benchmark.pedantic(calls[who], rounds=5, warmup_rounds=1)
    if benchmark.stats is not None:
        benchmark.extra_info["rows_per_second"] = count / benchmark.stats["min"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("residual", [squared_residual, logistic_residual], ids=["squared", "logistic"])
@pytest.mark.parametrize(("n", "dim"), PASSES)
@pytest.mark.parametrize("who", ["ours", training.BLOCKS, training.LOOP, "limit"])
def test_clipped_gradients(benchmark, n, dim, residual, dtype, who):
    run(benchmark, training.gradient_case(n, dim, dtype, residual), who, n)


def test_peers_compute_the_same():
    rows, sums = training.labeled(5000, 30, np.float64), np.zeros(30, dtype=np.int64)
    chosen = training.gradient_map(30)
    gradient_sum(rows, chosen, sums)
    naive = training.numpy_gradients(rows, chosen.weights)
    np.testing.assert_allclose(sums / chosen.inv_step, naive, atol=1e-2)
    np.testing.assert_allclose(training.numba_gradients()(rows, chosen.weights, training.CLIP), naive, atol=1e-8)
    turned, sums = training.residual_map(30), np.zeros(30, dtype=np.int64)
    gradient_sum(rows, turned, sums)
    naive = training.numpy_newton(rows, turned)
    np.testing.assert_allclose(sums / turned.inv_step * turned.clip, naive, atol=1e-1)
    again = training.numba_newton()(rows, turned.weights, turned.spread, turned.clip, turned.clip_norm)
    np.testing.assert_allclose(again, naive, atol=1e-8)


@pytest.mark.parametrize("who", ["ours", "NumPy", training.LOOP])
def test_a_mini_batch(benchmark, who):
    run(benchmark, training.batch_case(), who, training.BATCH)


@pytest.mark.parametrize("who", ["ours", training.BLOCKS, training.LOOP, "limit"])
def test_a_newton_pass(benchmark, who):
    run(benchmark, training.newton_case(200_000, 100), who, 200_000)
