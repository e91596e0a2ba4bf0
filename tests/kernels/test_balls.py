"""Ball counts, terrific balls and widest gaps against their twins: equal integers and equal bits."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from clocks import ctrl_c
from helpers import points
from helpers.points import lattice
from row_cases import LEVELS, instruction_set
from twins import balls as reference
from twins.nearest import squared_distances

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _blocks, _cbuf, balls

mixture = partial(points.mixture, clusters=4)

CASES = {
    "one cluster": lambda: mixture(200, 4, clusters=1),
    "near clusters": lambda: mixture(300, 4),
    "far clusters": lambda: mixture(260, 3, apart=500.0),
    "sixteen columns": lambda: mixture(257, 16, apart=200.0),
    "one column": lambda: mixture(150, 1, apart=1000.0),
    "lattice": lambda: lattice(4, 4),
    "two lattices": lambda: np.vstack([lattice(3, 3), lattice(3, 3) + 64.0]),
    "all equal": lambda: np.full((100, 2), 3.5),
    "two places": lambda: np.repeat([[0.0, 1.0], [64.0, 1.0]], 70, axis=0),
    "each row twice": lambda: np.repeat(mixture(80, 3, apart=300.0), 2, axis=0),
    "collinear": lambda: np.outer(np.random.default_rng(6).standard_normal(150), np.arange(1.0, 5.0)),
    "a few far out": lambda: np.vstack([mixture(150, 3, clusters=1), mixture(5, 3, clusters=1) + 1e6]),
    "subnormal": lambda: mixture(100, 3, apart=300.0) * 1e-310,
    "squares underflow": lambda: mixture(100, 3, apart=300.0) * 1e-163,
    "squares overflow": lambda: mixture(100, 3, apart=300.0) * 1e300,
    "some squares overflow": lambda: mixture(100, 3, apart=300.0) * 1e152,
}


def widest(x):
    return float(min(np.ptp(x, axis=0).max() * 3.0, 1e305)) or 1.0


# ---- Terrific balls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_first_terrific_equals_the_twin(name, threads):
    x = CASES[name]()
    for min_count in (1, 2, 11, len(x) // 3):
        for radius_max in (widest(x), widest(x) / 7.0):
            expected = reference.first_terrific(x, radius_max, 9, min_count)
            assert balls.first_terrific(x, radius_max, 9, min_count, threads=threads) == expected


def test_first_terrific_finds_something_in_some_cases():
    found = {name: reference.first_terrific(x := CASES[name](), widest(x), 9, 11) for name in CASES}
    assert found["far clusters"] is not None
    assert found["two places"] is not None
    assert found["sixteen columns"] is not None
    assert found["one cluster"] is None
    assert found["all equal"] is None


@pytest.mark.parametrize("seed", range(30))
def test_first_terrific_on_random_shapes(seed):
    rng = np.random.default_rng(seed)
    m, dim = int(rng.integers(1, 250)), int(rng.integers(1, 17))
    x = mixture(m, dim, seed, clusters=int(rng.integers(1, 6)), apart=float(10 ** rng.uniform(0, 4)))
    if seed % 3 == 0:
        x = x.astype(np.float32)
    arguments = (widest(x.astype(np.float64)), int(rng.integers(1, 14)), int(rng.integers(1, 1 + m // 2 + 1)))
    assert balls.first_terrific(x, *arguments) == reference.first_terrific(x, *arguments)


def test_terrific_by_hand():
    # Radius 1 around 0 holds two rows, nothing lies in (1, 11], and two rows lie beyond.
    x = np.array([[20.0], [0.0], [1.0], [21.0]])
    assert reference.first_terrific(x, 1.0, 1, 2) == (0, 0)
    assert balls.first_terrific(x, 1.0, 1, 2) == (0, 0)
    assert balls.first_terrific(x, 4.0, 3, 2) == (2, 0)  # 4 and 2 reach 44 and 22: nothing is left beyond
    assert balls.first_terrific(x, 1.0, 1, 3) is None
    assert balls.first_terrific(x, 0.5, 1, 2) is None  # the neighbour at 1 lies in (0.5, 5.5]
    edge = np.array([[1.0], [0.0], [12.0], [13.0]])
    assert balls.first_terrific(edge, 1.0, 1, 2) == (
        0,
        1,
    )  # row 0 sees row 2 at 11 exactly, which is inside of its shell
    assert balls.first_terrific(edge[::3], 1.0, 1, 1) == (0, 0)


def test_terrific_prefers_the_largest_radius_then_the_lowest_row():
    x = np.vstack([mixture(40, 2, clusters=1), mixture(40, 2, clusters=1) * 1e-3 + 1e4])
    order = np.random.default_rng(0).permutation(80)
    i, j = reference.first_terrific(x[order], 3e4, 40, 20)
    assert balls.first_terrific(x[order], 3e4, 40, 20) == (i, j)
    assert (i, j) < min((i2, j2) for i2 in range(i + 1, 40) for j2 in range(1))
    assert balls.first_terrific(x[order][::-1].copy(), 3e4, 40, 20)[0] == i


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 2)), 0.0, 3, 1), "radius_max"),
        ((np.zeros((2, 2)), math.nan, 3, 1), "radius_max"),
        ((np.zeros((2, 2)), 1.0, 0, 1), "n_radii"),
        ((np.zeros((2, 2)), 1.0, 3, 0), "min_count"),
        ((np.zeros((2, 2)), 1.0, 3, 1.5), "min_count"),
        ((np.zeros(2), 1.0, 3, 1), "points"),
        ((np.zeros((0, 2)), 1.0, 3, 1), "points"),
        ((np.array([[np.nan, 1.0]]), 1.0, 3, 1), "points"),
    ],
)
def test_first_terrific_refuses(arguments, message):
    with pytest.raises(InputError, match=message):
        balls.first_terrific(*arguments)


# ---- Counts -----------------------------------------------------------------------------------------------------------


def spread_rows(n, dim, seed=0, dtype=np.float64):
    """Rows of which some are not finite, far out, equal, or exactly on a radius."""
    rng = np.random.default_rng(seed)
    x = mixture(n, dim, seed).astype(dtype)
    x[rng.integers(0, n, n // 20)] = np.nan
    x[rng.integers(0, n, n // 20), 0] = np.inf
    x[rng.integers(0, n, n // 20), dim - 1] = -np.inf
    x[rng.integers(0, n, n // 20)] *= dtype(1e25)
    x[rng.integers(0, n, n // 20)] *= dtype(1e-25)
    x[rng.integers(0, n, n // 10)] = 0.0
    return x


def radii_for(x, centers):
    """Radii through rows, so that ties decide, and dyadic ones."""
    finite = x[np.isfinite(x).all(axis=1)]
    ties = np.concatenate([squared_distances(finite[:40], c) for c in centers[:3]])
    return np.concatenate([ties[np.isfinite(ties)], np.ldexp(1.0, np.arange(-20, 20)), [0.0, 1e-40, 1e38, 1e50]])


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 7, 8, 16])
def test_ball_counts_equal_the_twin(dim, dtype, threads, monkeypatch):
    x = spread_rows(9_000, dim, dtype=dtype)
    centers = np.vstack([np.zeros((1, dim)), x[np.isfinite(x).all(axis=1)][:25].astype(np.float64)])
    radii_sq = radii_for(x, centers)
    expected = reference.ball_counts(x, centers, radii_sq)
    for sorted_cost in (1, 10**9):  # the rows sorted into cells, and as they come
        monkeypatch.setattr(balls, "_SORTED_COST", sorted_cost)
        for numbers in (1 << 22, 4096 * dim, 1000 * dim):  # in one piece and in several
            monkeypatch.setattr(balls, "_SORTED_NUMBERS", numbers)
            for level in LEVELS if threads == 1 else LEVELS[-1:]:
                with instruction_set(level):
                    counts = balls.ball_counts(x, centers, radii_sq, threads=threads)
                np.testing.assert_array_equal(counts, expected)
    assert 0 < expected.sum() < x.shape[0] * expected.size


@pytest.mark.parametrize("n", [0, 1, 2, 3, 63, 64, 65, 129])
def test_ball_counts_of_few_rows(n):
    x = mixture(n + 1, 3)[:n]
    radii_sq = np.array([4.0, 1.0, 4.0, 300.0])  # neither sorted nor distinct
    np.testing.assert_array_equal(
        balls.ball_counts(x, np.eye(3), radii_sq), reference.ball_counts(x, np.eye(3), radii_sq)
    )


def test_ball_counts_by_hand():
    x = np.array([[0.0, 0.0], [3.0, 4.0], [np.nan, 0.0], [6.0, 8.0], [np.inf, 0.0]])
    expected = [[1, 2, 3], [1, 3, 3]]
    centers, radii_sq = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0.0, 25.0, 100.0])
    assert reference.ball_counts(x, centers, radii_sq).tolist() == expected
    assert balls.ball_counts(x, centers, radii_sq).tolist() == expected


def test_sorted_rows_without_a_finite_one(monkeypatch):
    monkeypatch.setattr(balls, "_SORTED_COST", 1)
    x = np.full((5000, 2), np.nan)
    assert balls.ball_counts(x, np.zeros((1, 2)), np.array([1e300])).tolist() == [[0]]
    x[77] = 1.0
    assert balls.ball_counts(x, np.zeros((1, 2)), np.array([1e300])).tolist() == [[1]]


def test_a_count_does_not_depend_on_the_other_rows():
    """Which ball a row is in is a matter of the row alone: the whole is the sum of its parts, in any order."""
    x = spread_rows(20_000, 4)
    centers = mixture(30, 4)
    radii_sq = radii_for(x, centers)
    whole = balls.ball_counts(x, centers, radii_sq)
    np.testing.assert_array_equal(balls.ball_counts(x[::-1], centers, radii_sq), whole)
    parts = [balls.ball_counts(x[a : a + 6_500], centers, radii_sq) for a in range(0, 20_000, 6_500)]
    np.testing.assert_array_equal(sum(parts), whole)


@pytest.mark.parametrize(
    ("points", "centers", "radii_sq", "message"),
    [
        (np.zeros(3), np.zeros((1, 3)), [1.0], "points"),
        (np.zeros((2, 3), dtype=int), np.zeros((1, 3)), [1.0], "points"),
        (np.zeros((2, 3)), np.zeros((1, 2)), [1.0], "centers"),
        (np.zeros((2, 3)), np.full((1, 3), np.nan), [1.0], "centers"),
        (np.zeros((2, 3)), np.zeros((1, 3)), [], "radii_sq"),
        (np.zeros((2, 3)), np.zeros((1, 3)), [-1.0], "radii_sq"),
        (np.zeros((2, 3)), np.zeros((1, 3)), [1.0, np.inf], "radii_sq"),
        (np.zeros((2, 3)), np.zeros((1, 3)), [1.0, np.nan], "radii_sq"),
    ],
)
def test_ball_counts_refuse(points, centers, radii_sq, message):
    with pytest.raises(InputError, match=message):
        balls.ball_counts(points, centers, np.array(radii_sq))


def box_tile(*arrays):
    *given, near, far = (_cbuf.out(np.ascontiguousarray(array).reshape(-1)) for array in arrays)
    _cbuf.check(_cbuf.lib.fpp_test_box_tile(*given, len(arrays[2]), near, far))


def test_boxes_bound_computed_distances():
    """Least and largest distances of a box hold for the computed squares without any allowance."""
    rng = np.random.default_rng(0)
    near, far = np.empty(64), np.empty(64)
    for dim in (1, 3, 16):
        x = mixture(640, dim) * 10.0 ** rng.uniform(-8, 8)
        blocks = _blocks.make_blocks(x)
        for row in np.vstack([x[:50], x[:50] * (1 + 1e-15), rng.standard_normal((20, dim)) * 1e3]):
            box_tile(blocks.lower[0], blocks.upper[0], row, near, far)
            for p, order in enumerate(blocks.order):
                distances = squared_distances(x[order], row)
                assert near[p] <= distances.min()
                assert distances.max() <= far[p]
        assert np.isnan(blocks.lower[0, :, 10:]).all()


@pytest.mark.parametrize("m", [1, 2, 63, 64, 65, 1000, 4097])
def test_blocks_hold_each_row_once(m):
    x = mixture(m, 3)
    blocks = _blocks.make_blocks(x)
    assert sorted(blocks.order[blocks.order >= 0].tolist()) == list(range(m))
    assert blocks.sizes.sum() == m
    assert (blocks.sizes[: blocks.order.shape[0] - 1] == 64).all()


@pytest.mark.parametrize("level", LEVELS)
def test_every_instruction_set_finds_the_same(level, monkeypatch):
    monkeypatch.setattr(balls, "_SORTED_COST", 1)
    with instruction_set(level):
        for dim, dtype in ((1, np.float64), (2, np.float32), (4, np.float64), (9, np.float32), (16, np.float32)):
            x = spread_rows(5000, dim, dtype=dtype)
            radii_sq = radii_for(x, mixture(9, dim))
            for some in (1, 9):
                expected = reference.ball_counts(x, mixture(9, dim)[:some], radii_sq)
                np.testing.assert_array_equal(balls.ball_counts(x, mixture(9, dim)[:some], radii_sq), expected)
                few = balls.ball_counts(x[:500], mixture(9, dim)[:some], radii_sq)
                np.testing.assert_array_equal(few, reference.ball_counts(x[:500], mixture(9, dim)[:some], radii_sq))
        for name in CASES:
            x = CASES[name]()
            assert balls.first_terrific(x, widest(x), 9, 3) == reference.first_terrific(x, widest(x), 9, 3)
            assert balls.widest_gap(x, 3) == reference.widest_gap(x, 3)


def test_a_row_far_out_leaves_the_others_of_its_tile_exact(monkeypatch):
    """One row makes single precision useless for its tile: all rows in it are decided in double precision."""
    monkeypatch.setattr(balls, "_SORTED_COST", 1)
    x = mixture(9_000, 4)
    for far in (1e3, 1e9, 1e17, 1e19, 1e160):
        x[17] = far
        radii_sq = np.concatenate([np.ldexp(1.0, np.arange(-2, 12)), squared_distances(x[:3], x[5]), [far, 4.0 * far]])
        np.testing.assert_array_equal(
            balls.ball_counts(x, x[:20], radii_sq), reference.ball_counts(x, x[:20], radii_sq)
        )


# ---- Gaps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_widest_gap_equals_the_twin(name, threads):
    x = CASES[name]()
    for min_count in (1, 2, 11, len(x) // 2, len(x)):
        assert balls.widest_gap(x, min_count, threads=threads) == reference.widest_gap(x, min_count)


@pytest.mark.parametrize("seed", range(20))
def test_widest_gap_on_random_shapes(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    m, dim = int(rng.integers(1, 200)), int(rng.integers(1, 17))
    x = np.round(mixture(m, dim, seed) * 4.0) / 4.0
    if seed % 2:
        x = x.astype(np.float32)
    monkeypatch.setattr(balls, "_STEP_WORK", 10_000)  # several blocks of rows
    min_count = int(rng.integers(1, 2 + m // 2))
    assert balls.widest_gap(x, min_count) == reference.widest_gap(x, min_count)


def test_gap_by_hand():
    x = np.array([[0.0], [1.0], [4.0], [40.0]])
    assert reference.widest_gap(x, 1)[:2] == (0, 1)  # 1 / 0 is the widest of all
    # Rank 2 only: 0 sees 1 then 4, 1 sees 1 then 3, 4 sees 3 then 4, and 40 sees 36 then 39.
    assert reference.widest_gap(x, 2) == (0, 2, 1.0, 16.0)
    assert balls.widest_gap(x, 2) == (0, 2, 1.0, 16.0)
    assert balls.widest_gap(x, 3) is None
    assert balls.widest_gap(np.ones((6, 2)), 2) is None


# ---- Interrupts -------------------------------------------------------------------------------------------------------


# Each makes its rows at once and returns the work, half a minute of it.


def slow_counts():
    x = np.random.default_rng(0).standard_normal((800_000, 16))
    return lambda threads: balls.ball_counts(x, x[:8000], np.arange(1.0, 30.0), threads=threads)


def slow_search():
    x = np.random.default_rng(0).standard_normal((200_000, 16))
    return lambda threads: balls.first_terrific(x, 1.0, 12, 2, threads=threads)


def slow_gap():
    x = np.random.default_rng(0).standard_normal((40_000, 4))
    return lambda threads: balls.widest_gap(x, 5, threads=threads)


@pytest.mark.serial
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("prepare", [slow_counts, slow_search, slow_gap])
def test_an_interrupt_returns_at_once(prepare, threads):
    work = prepare()
    balls.first_terrific(np.zeros((2, 2)), 1.0, 1, 1)
    balls.ball_counts(np.zeros((9000, 2)), np.zeros((99, 2)), np.arange(99.0))
    balls.widest_gap(np.zeros((2, 2)), 1)
    with ctrl_c():
        work(threads)
