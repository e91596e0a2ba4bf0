"""pytest-benchmark suite of the exact samplers of noise against NumPy's insecure ones; row kernels are in bench_rows.py."""

from __future__ import annotations

import pytest

from benchmarks.cases import loops

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("who", ["ours", "numpy (insecure)"])
@pytest.mark.parametrize("law", [0, 1], ids=["gaussian", "laplace"])
def test_noise(benchmark, law, who):
    case = loops.noise_cases(1_000_000, False)[law]
    benchmark.group = case.name
    call = case.ours if who == "ours" else case.peers[who]
    benchmark.pedantic(call, rounds=5, warmup_rounds=1)
