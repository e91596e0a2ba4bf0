"""pytest-benchmark suite of the most isolated row: ours and all distances, where rows can be pruned and where they cannot."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cases import loops
from fastpubpriv.kernels.nearest import most_isolated

pytestmark = pytest.mark.bench

SIZES = [(2_000, 100), (20_000, 100), (20_000, 1000), (100_000, 50)]
PEERS = ["NumPy float32 products (may err)", "SciPy cdist", "scikit-learn NearestNeighbors"]


@pytest.mark.parametrize(("m", "dim"), SIZES)
@pytest.mark.parametrize("who", ["ours", *PEERS])
def test_clusters(benchmark, m, dim, who):
    if m * m * dim > 5e10 and who != "ours":
        pytest.skip("minutes")
    case = loops.isolation_case(m, dim)
    benchmark.group = case.name
    call = case.ours if who == "ours" else case.peers[who]
    assert call() == case.ours()
    benchmark.pedantic(call, rounds=3, warmup_rounds=1)


def hard_rows(kind, m, dim):
    rng = np.random.default_rng(0)
    if kind == "lattice":
        return rng.integers(0, 2, (m, dim)).astype(float)
    if kind == "each row twice":
        return np.repeat(rng.standard_normal((m // 2, dim)), 2, axis=0)
    x = rng.standard_normal((m, dim))
    if kind == "sphere":
        return x / np.linalg.norm(x, axis=1)[:, None]
    return x + 1e9 * (np.arange(m) % 2)[:, None]  # two scales: single precision cannot tell rows of a cluster apart


@pytest.mark.parametrize("kind", ["lattice", "each row twice", "sphere", "two scales"])
@pytest.mark.parametrize("threads", [1, 2])
def test_hard_rows(benchmark, kind, threads):
    x = hard_rows(kind, 20_000, 100)
    benchmark.group = "most isolated row, 20000 x 100, hard rows"
    benchmark.pedantic(lambda: most_isolated(x, threads=threads), rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1_000, 4_000, 16_000, 64_000, 256_000])
def test_growth(benchmark, m, dtype):
    """The exponent is the slope of the logarithms over this group."""
    x = loops.clusters(m, 20).astype(dtype)
    benchmark.group = "most isolated row, growth with m at 20 columns"
    benchmark.pedantic(lambda: most_isolated(x, threads=1), rounds=3, warmup_rounds=1)
