"""pytest-benchmark suites of the searches for balls and of counts in balls: ours, sorted distances, and the read limit."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cases import loops

pytestmark = pytest.mark.bench


def run(benchmark, case, who, rounds=3):
    benchmark.group = case.name
    call = {"ours": case.ours, "limit": case.floor, **case.peers}[who]
    benchmark.pedantic(call, rounds=rounds, warmup_rounds=1)


@pytest.mark.parametrize("apart", [10.0, 30.0])
@pytest.mark.parametrize("dim", [4, 16])
@pytest.mark.parametrize("who", ["ours", "sorted cdist"])
def test_terrific(benchmark, dim, apart, who):
    case = loops.terrific_case(20_000, dim, apart)
    assert case.ours() is None
    run(benchmark, case, who)


@pytest.mark.parametrize("dim", [4, 16])
@pytest.mark.parametrize("who", ["ours", "sorted cdist"])
def test_many_balls(benchmark, dim, who):
    case = loops.many_balls_case(1_000_000, dim)
    run(benchmark, case, who)


@pytest.mark.parametrize("dim", [4, 16])
def test_many_balls_agree(dim):
    case = loops.many_balls_case(100_000, dim)
    np.testing.assert_array_equal(case.ours(), case.peers["sorted cdist"]())


@pytest.mark.parametrize(("n", "dim"), [(10_000_000, 4), (1_000_000, 16)])
@pytest.mark.parametrize("who", ["ours", "SciPy cdist", "limit"])
def test_one_ball(benchmark, n, dim, who):
    run(benchmark, loops.one_ball_case(n, dim), who, rounds=5)


@pytest.mark.parametrize("m", [500, 2_000])
@pytest.mark.parametrize("who", ["ours", "sorted cdist"])
def test_widest_gap(benchmark, m, who):
    run(benchmark, loops.gap_case(m, 8), who)
