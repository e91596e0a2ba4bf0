"""pytest-benchmark suites of the hot loops, one group for each loop and size: ours, its peers."""

from __future__ import annotations

import pytest

from benchmarks import cases

pytestmark = pytest.mark.bench

MAKERS = {
    "noise 1e6": lambda: cases.noise_cases(1_000_000, False),
    "sum 1e6 x 50": lambda: [cases.mean_case(1_000_000, 50)],
    "sum 1e5 x 500": lambda: [cases.mean_case(100_000, 500)],
    "gram 1e6 x 100": lambda: [cases.gram_case(1_000_000, 100)],
    "gram 1e5 x 1000": lambda: [cases.gram_case(100_000, 1000)],
}


def calls():
    for group, make in MAKERS.items():
        count = 2 if group.startswith("noise") else 1
        for index in range(count):
            for who in ("ours", "peers"):
                yield pytest.param(make, index, who, id=f"{group}-{index}-{who}")


@pytest.mark.parametrize(("make", "index", "who"), list(calls()))
def test_hot_loop(benchmark, make, index, who):
    case = make()[index]
    benchmark.group = case.name
    call = case.ours if who == "ours" else next(iter(case.peers.values()))
    benchmark.pedantic(call, rounds=5, warmup_rounds=1)
