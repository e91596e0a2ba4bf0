"""pytest-benchmark suites of training: a pass of clipped gradients, a mini-batch, a Newton pass, and a sweep over many settings.

Peers: what a user writes in NumPy row blocks, and a ten-line Numba loop in floats. The limit is one read of the rows.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from fastpubpriv.experiments.draws import SimulatedDraws
from fastpubpriv.kernels.gradients import gradient_sum
from fastpubpriv.kernels.residuals import residual_sum
from fastpubpriv.losses import logistic_residual, squared_residual
from fastpubpriv.residual_maps import GradientMap, ResidualMap
from fastpubpriv.training import Sweep, sweep

pytestmark = pytest.mark.bench
PASSES = [(200_000, 100), (20_000, 1000)]
CLIP, BOUND = 2.0, 2**20
BLOCK = 4096


def table(n: int, dim: int, dtype: Any) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, dim + 1)).astype(dtype)
    rows[:, -1] = rows[:, :-1] @ (rng.standard_normal(dim) / np.sqrt(dim)).astype(dtype) + rows[:, -1]
    return rows


def gradient_map(dim: int, residual: Any = squared_residual) -> GradientMap:
    weights = np.full(dim, 0.5 / np.sqrt(dim))
    return GradientMap(
        weights=weights, residual=residual, clip_norm=CLIP, inv_step=(BOUND - dim) / CLIP, quant_bound=BOUND
    )


def numpy_blocks(rows: Any, weights: Any) -> Any:
    """Norms are a product of the residual's and the row's; nothing of the size of the table is made."""
    total = np.zeros(len(weights))
    for begin in range(0, len(rows), BLOCK):
        x, y = rows[begin : begin + BLOCK, :-1], rows[begin : begin + BLOCK, -1]
        residual = y - x @ weights.astype(rows.dtype)
        bound = CLIP / np.sqrt(np.einsum("ij,ij->i", x, x))
        total += np.clip(residual, -bound, bound) @ x
    return total


@numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def numba_loop(rows: Any, weights: Any, clip: float) -> Any:
    total = np.zeros(weights.size)
    for i in range(rows.shape[0]):
        prediction, norm_sq = 0.0, 0.0
        for j in range(weights.size):
            prediction += rows[i, j] * weights[j]
            norm_sq += rows[i, j] * rows[i, j]
        bound = clip / np.sqrt(norm_sq)
        factor = min(max(rows[i, weights.size] - prediction, -bound), bound)
        for j in range(weights.size):
            total[j] += factor * rows[i, j]
    return total


def run(benchmark: Any, group: str, n: int, call: Any, **info: Any) -> None:
    benchmark.group = group
    benchmark.extra_info.update(info)
    benchmark.pedantic(call, rounds=5, warmup_rounds=1)
    if benchmark.stats is not None:
        benchmark.extra_info["rows_per_second"] = n / benchmark.stats["min"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize(("n", "dim"), PASSES)
@pytest.mark.parametrize("who", ["ours", "ours, logistic", "NumPy blocks", "Numba loop", "read"])
def test_clipped_gradients(benchmark, n, dim, dtype, who):
    rows, chosen, sums = table(n, dim, dtype), gradient_map(dim), np.zeros(dim, dtype=np.int64)
    gradient_sum(rows, chosen, sums)
    naive = numpy_blocks(rows, chosen.weights)
    assert np.max(np.abs(sums / chosen.inv_step - naive)) < (1e-2 if dtype == np.float64 else 1.0)
    logistic = gradient_map(dim, logistic_residual)
    call = {
        "ours": lambda: gradient_sum(rows, chosen, sums),
        "ours, logistic": lambda: gradient_sum(rows, logistic, sums),
        "NumPy blocks": lambda: numpy_blocks(rows, chosen.weights),
        "Numba loop": lambda: numba_loop(rows, chosen.weights, CLIP),
        "read": rows.sum,
    }[who]
    run(benchmark, f"clipped gradients, {n} x {dim}, {np.dtype(dtype).name}", n, call)


@pytest.mark.parametrize("who", ["ours", "NumPy"])
def test_a_mini_batch(benchmark, who):
    """500 of 27,000 rows of 2,000 columns in single precision, gathered."""
    rows, chosen, sums = table(27_000, 2000, np.float32), gradient_map(2000), np.zeros(2000, dtype=np.int64)
    places = np.sort(np.random.default_rng(1).choice(len(rows), 500, replace=False))
    call = {
        "ours": lambda: gradient_sum(rows[places], chosen, sums),
        "NumPy": lambda: numpy_blocks(rows[places], chosen.weights),
    }[who]
    run(benchmark, "a mini-batch of 500 of 27,000 x 2,000", 500, call)


@pytest.mark.parametrize("who", ["ours", "two products"])
def test_a_newton_pass(benchmark, who):
    """The two matrix-vector products of a pass are its limit; they add up in an order that hangs on the rows beside a row."""
    n, dim = 200_000, 100
    rows, sums = table(n, dim, np.float32), np.zeros(dim, dtype=np.int64)
    chosen = ResidualMap(
        slope=np.full(dim, 0.5 / np.sqrt(dim)), spread=np.full(dim, 1.0 / np.sqrt(dim)), residual=squared_residual,
        scale=1.0, clip=2.0, radius=1.2, inv_step=(BOUND - dim) / 1.2, quant_bound=BOUND,
    )  # fmt: skip
    slope = chosen.slope.astype(np.float32)
    call = {
        "ours": lambda: residual_sum(rows, chosen, sums),
        "two products": lambda: np.clip(rows[:, -1] - rows[:, :-1] @ slope, -2.0, 2.0) @ rows[:, :-1],
    }[who]
    run(benchmark, "a Newton pass, 200,000 x 100, float32", n, call)


@pytest.mark.parametrize("settings", [1, 16, 176])
def test_a_sweep(benchmark, settings):
    """Fifty steps of paper B's run: 2,000 columns, batches of 500 and 200; goal .25 s for each setting and 5,000 steps."""
    rows = table(30_000, 2000, np.float32)
    private, public = rows[3000:], rows[:3000]
    chosen = Sweep(
        step_size=np.linspace(0.01, 1.9, settings), priv_weight=0.5, steps=50, clip_norm=1.0, noise_multiplier=2.744,
        batch_rows=500.0,
    )  # fmt: skip

    def call() -> None:
        draws = SimulatedDraws(1, n=27_000, rate=1 / 54, n_pub=3000, public_rows=200)
        sweep(chosen, private[:, :-1], private[:, -1], x_pub=public[:, :-1], y_pub=public[:, -1], draws=draws)

    run(benchmark, "a sweep, fifty steps", 50 * settings, call)
