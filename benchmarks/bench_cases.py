"""The pytest-benchmark suite: every guarded case, its peer in the same run, and the ratio of both in `extra_info`.

`make bench` prints one table of all cases, `make bench-save` stores their ratios, and `make bench-check` compares them.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.guarded import (
    CLIPPED,
    GUARDED,
    HISTOGRAMS,
    PASSES,
    PRIVATIZED,
    SUPERCLUSTERS,
    TERRIFIC_BALLS,
    WHOLE_CALLS,
)

pytestmark = [
    pytest.mark.bench,
    # scikit-learn asks for an old option
    pytest.mark.filterwarnings("ignore:.*L-BFGS-B:DeprecationWarning"),
]
GROUPS = {
    "superclustering": SUPERCLUSTERS,
    "terrific balls": TERRIFIC_BALLS,
    "stable histograms": HISTOGRAMS,
    "PrivUnit": PRIVATIZED,
    "per-row clipping": CLIPPED,
    "whole calls": WHOLE_CALLS,
    "passes": PASSES,
}


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, cases in GROUPS.items() for name in cases]
)
def test_case(group, name, benchmark, speedup):
    make, peer = GUARDED[name]
    case = make()
    benchmark.group = group
    ratio = statistics.median(speedup(case.ours, case.peers[peer]) for _ in range(3))
    benchmark.extra_info.update(case=name, peer=peer, ratio=ratio)
    benchmark.pedantic(case.ours, rounds=5)
