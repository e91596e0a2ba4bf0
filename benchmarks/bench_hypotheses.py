"""pytest-benchmark suite of the loops over pairs of hypotheses, and of complete calls of select_hypothesis."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cases import hypotheses
from fastpubpriv import PureDP, select_hypothesis

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("size", [500, 2000])
def test_pairs(benchmark, size):
    case = hypotheses.pairs_case(size, 2000)
    benchmark.group = case.name
    benchmark.extra_info["comparisons"] = size * (size - 1) // 2 * 2000
    benchmark.pedantic(case.ours, rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("size", [500, 2000, 10_000])
def test_cells(benchmark, size):
    case = hypotheses.cells_case(size)
    benchmark.group = case.name
    benchmark.pedantic(case.ours, rounds=3, warmup_rounds=1)


@pytest.mark.parametrize(
    ("size", "dim", "n"),
    [(500, 1, 100_000), (2000, 1, 100_000), (10_000, 1, 10_000), (200, 20, 20_000), (2000, 5, 10_000)],
)
def test_selection(benchmark, size, dim, n):
    rng = np.random.default_rng(6)
    arrays = (
        rng.dirichlet(np.ones(3), size),
        2.0 * rng.normal(size=(size, 3, dim)),
        np.exp(0.5 * rng.normal(size=(size, 3, dim))),
    )
    picked = rng.choice(3, size=n, p=arrays[0][7])
    rows = arrays[1][7][picked] + np.sqrt(arrays[2][7][picked]) * rng.normal(size=(n, dim))
    benchmark.group = f"select_hypothesis, {size} of {dim} columns, {n:.0e} rows"
    result = benchmark.pedantic(
        lambda: select_hypothesis(rows, hypotheses=arrays, budget=PureDP(1), progress=False), rounds=2, warmup_rounds=1
    )
    assert result.index == 7
