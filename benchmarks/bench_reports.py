"""pytest-benchmark suite of local reports against NumPy, a Numba loop and the secure normals that they consist of."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cases.reports import NUMBA, NUMPY, SECURE, SIZES, report_case
from fastpubpriv.local import PrivUnit

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("who", ["ours", "limit", NUMPY, NUMBA, SECURE])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_reports(benchmark, size, who):
    case = report_case(*size)
    benchmark.group = case.name
    call = case.ours if who == "ours" else case.floor if who == "limit" else case.peers[who]
    benchmark.pedantic(call, rounds=7, warmup_rounds=1)


@pytest.mark.parametrize("dim", [10, 100, 1000])
def test_one_report_at_a_time(benchmark, dim):
    """One client encodes one row as bytes."""
    randomizer, row = PrivUnit(dim, 4.0), np.ones(dim)
    benchmark.group = "one report"
    benchmark(lambda: randomizer.privatize(row).to_bytes())
