"""pytest-benchmark suites of releases over leaves: routing alone, a joint second moment, and the complete stage."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cases import leaves

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("make", [leaves.routing_case, leaves.leaf_gram_case])
@pytest.mark.parametrize("who", ["ours", "peer"])
def test_leaves(benchmark, make, who):
    case = make(1_000_000, 16, 8)
    benchmark.group = case.name
    (peer,) = case.peers.values()
    benchmark.pedantic(case.ours if who == "ours" else peer, rounds=5, warmup_rounds=1)


def test_labels_agree():
    case = leaves.routing_case(100_000, 16, 8)
    np.testing.assert_array_equal(case.ours(), case.peers["NumPy products"]())
