"""pytest-benchmark suites of the row kernels: this library, typical NumPy code, and the limit of the machine.

Each group is one size and dtype; `extra_info` holds rows per second and, where the limit is not a call, its seconds.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cases import limits, loops
from fastpubpriv.kernels import rows
from fastpubpriv.kernels._cext import lib
from fastpubpriv.rowwise.row_maps import RowMap

pytestmark = pytest.mark.bench

SUMS = [(1_000_000, 50), (100_000, 500)]
GRAMS = [(1_000_000, 100), (100_000, 1000)]
LEVELS = range(lib.fpp_isa_detect() + 1)


def run(benchmark, group, n_rows, call, **info):
    benchmark.group = group
    benchmark.extra_info.update(info)
    benchmark.pedantic(call, rounds=5, warmup_rounds=1)
    if benchmark.stats is not None:
        benchmark.extra_info["rows_per_second"] = n_rows / benchmark.stats["min"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize(("n", "dim"), SUMS)
@pytest.mark.parametrize("who", ["ours", "numpy", "limit"])
def test_sum(benchmark, n, dim, dtype, who):
    case = loops.mean_case(n, dim, dtype)
    call = {"ours": case.ours, "numpy": case.peers["NumPy clip and mean"], "limit": case.floor}[who]
    run(benchmark, case.name, n, call)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("n", "dim"), SUMS)
def test_sum_on_each_instruction_set(benchmark, n, dim, level):
    case = loops.mean_case(n, dim)
    lib.fpp_isa_limit(level)
    try:
        run(benchmark, f"{case.name}, instruction sets", n, case.ours, level=level)
    finally:
        lib.fpp_isa_limit(lib.FPP_ISA_AVX512)


@pytest.mark.parametrize(("n", "dim"), GRAMS)
@pytest.mark.parametrize("who", ["ours", "NumPy clip and dsyrk"])
def test_gram(benchmark, n, dim, who):
    case = loops.gram_case(n, dim)
    call = case.ours if who == "ours" else case.peers[who]
    run(benchmark, case.name, n, call, limit_seconds=limits.gram_flop_seconds(n, dim))


@pytest.mark.parametrize(("n", "dim"), [(200_000, 100), (10_000, 1000)])
@pytest.mark.parametrize("who", ["ours", "NumPy product, clip and dsyrk"])
def test_gram_behind_a_full_matrix(benchmark, n, dim, who):
    """The Gram matrix with its affine map, which is a second matrix product, against BLAS for both."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, dim))
    identity = loops.gram_map(dim, float(np.sqrt(dim)))
    row_map = RowMap(
        dim=dim,
        quant_bound=identity.quant_bound,
        inv_step=identity.inv_step,
        limit=identity.limit,
        matrix=rng.standard_normal((dim, dim)) / np.sqrt(dim),
        center=np.full(dim, 0.1),
    )
    gram = np.zeros((dim, dim), dtype=np.int64)

    def numpy_way():
        clipped = loops.numpy_clip((x - row_map.center) @ row_map.matrix.T, float(np.sqrt(dim)))
        return loops.dsyrk(1.0, clipped.T, lower=1)

    call = (lambda: rows.rows_gram(x, row_map, gram)) if who == "ours" else numpy_way
    run(benchmark, f"Gram behind a full matrix, {n:.0e} x {dim}", n, call)


@pytest.mark.parametrize("who", ["sum", "gram", "no rows"])
def test_small_calls(benchmark, who):
    """Time of a call on a chunk of 1000 rows, and on an empty one."""
    x = np.random.default_rng(4).standard_normal((1000, 50))
    row_map = loops.gram_map(50, float(np.sqrt(50)))
    sums, gram = np.zeros(50, dtype=np.int64), np.zeros((50, 50), dtype=np.int64)
    calls = {
        "sum": lambda: rows.rows_sum(x, row_map, sums),
        "gram": lambda: rows.rows_gram(x, row_map, gram),
        "no rows": lambda: rows.rows_sum(x[:0], row_map, sums),
    }
    benchmark.group = "small calls"
    benchmark(calls[who])
