"""The most isolated point against its twin: equal index and equal bits, whatever the rows, threads and precision."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from clocks import PATIENCE, ctrl_c
from helpers.points import lattice, mixture
from row_cases import LEVELS, instruction_set
from twins import nearest as reference

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cover, nearest
from fastpubpriv.kernels._cext import lib


@pytest.fixture
def by_groups(monkeypatch):
    """The search by groups from the start: the early race would end before it."""
    monkeypatch.setattr(nearest, "_SMALL", 0)
    monkeypatch.setattr(nearest, "_may_end_early", lambda points: False)


@pytest.fixture
def early(monkeypatch):
    """The early race to its end, whatever it costs, ten thousand coordinates at a time."""
    monkeypatch.setattr(nearest, "_SMALL", 0)
    monkeypatch.setattr(nearest, "_may_end_early", lambda points: True)
    monkeypatch.setattr(nearest, "_TABLE_WORK", 1 << 60)
    monkeypatch.setattr(nearest, "_STEP_WORK", 10_000)


def two_scales(m, dim):
    x = mixture(m, dim, seed=2)
    x[::2] = 1e9 + x[::2] * 1e-3  # single precision sees one point in place of the half of them
    return x


CASES = {
    "normal": lambda: np.random.default_rng(0).standard_normal((700, 10)),
    "mixture": lambda: mixture(1000, 33),
    "wide": lambda: mixture(300, 200, seed=1),
    "one column": lambda: mixture(999, 1),
    "two columns": lambda: mixture(500, 2, apart=100.0),
    "lattice": lambda: lattice(5, 4),
    "ties": lambda: np.random.default_rng(3).integers(0, 3, (400, 7)).astype(float),
    "bits": lambda: np.random.default_rng(4).integers(0, 2, (600, 40)).astype(float),
    "all equal": lambda: np.full((200, 3), 7.25),
    "all zero": lambda: np.zeros((130, 2)),
    "each row twice": lambda: np.repeat(mixture(200, 5), 2, axis=0),
    "one row twice": lambda: np.vstack([mixture(200, 5), mixture(200, 5)[:1]]),
    "identity": lambda: np.eye(150),
    "nearly equal distances": lambda: np.eye(200) + 1e-9 * np.random.default_rng(5).standard_normal((200, 200)),
    "collinear": lambda: np.outer(np.random.default_rng(6).standard_normal(400), np.arange(1.0, 8.0)),
    "sphere": lambda: (x := mixture(500, 50, apart=0)) / np.linalg.norm(x, axis=1)[:, None],
    "far from the origin": lambda: mixture(500, 8) + 1e12,
    "two scales": lambda: two_scales(600, 8),
    "subnormal": lambda: mixture(300, 4) * 1e-310,
    "squares underflow": lambda: mixture(300, 4) * 1e-165,
    "small": lambda: mixture(300, 4) * 1e-30,
    "squares overflow": lambda: mixture(300, 4) * 1e300,
    "some squares overflow": lambda: mixture(300, 4) * 1e153,
    "one outlier": lambda: np.vstack([mixture(300, 6), np.full((1, 6), 1e40)]),
    "one outlier in ten columns": lambda: np.vstack([mixture(300, 10), np.full((1, 10), 1e40)]),
    "two scales in twenty columns": lambda: two_scales(400, 20),
    "near and far in nine columns": lambda: np.vstack([mixture(200, 9), 1e7 + mixture(200, 9)]),
    "small in eight columns": lambda: mixture(300, 8) * 1e-12,
    "squares overflow in eight columns": lambda: mixture(300, 8) * 1e300,
    "largest numbers": lambda: np.sign(mixture(200, 3)) * np.finfo(float).max,
}


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_twin(name, threads, by_groups):
    x = CASES[name]()
    assert nearest.most_isolated(x, threads=threads) == reference.most_isolated(x)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_the_early_race_equals_the_twin(name, level, early):
    x = CASES[name]()
    with instruction_set(level):
        assert nearest.most_isolated(x, threads=1) == reference.most_isolated(x)


def odd_rows(m, dim, seed):
    """Rows of one kind or another, at a scale where squares may underflow or overflow: ties, copies, far ones, steps of an edge."""
    rng = np.random.default_rng(seed)
    x = [
        lambda: rng.integers(0, int(rng.integers(1, 4)), (m, dim)).astype(float),
        lambda: rng.standard_cauchy((m, dim)),
        lambda: np.repeat(rng.standard_normal((m, dim)), 2, axis=0)[:m],
        lambda: mixture(m, dim, seed, clusters=5, apart=1e9),
        lambda: np.cumsum(rng.choice([0.0, 1.0, -1.0, 1.0 + 2.0**-52], (m, dim)), axis=0),
    ][seed % 5]()
    return x * [1.0, 1.0, 1e-160, 1e153, -1.0][seed // 5 % 5]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 9, 16, 31, 32, 33, 64])
def test_one_call_for_few_rows_equals_the_twin(dim, level, monkeypatch):
    """Blocks of 16 with one row more and one less, and sizes on both sides of the largest; no other search may come in."""
    largest = nearest._SMALL // dim - 15
    sizes = [m for m in (2, 3, 15, 16, 17, 31, 33, 49, 100) if m <= largest]
    sizes += [largest] if largest < 500 else []
    monkeypatch.setattr(nearest, "read_only", None)
    with instruction_set(level):
        for m in sizes:
            for seed in range(15 if m < 50 else 5):
                x = odd_rows(m, dim, seed)
                assert nearest.most_isolated(x, threads=1) == reference.most_isolated(x), (m, seed)
        with pytest.raises(TypeError):
            nearest.most_isolated(np.zeros((largest + 1, dim)))


@pytest.mark.parametrize("level", LEVELS)
def test_one_call_for_few_rows_at_any_address(level):
    """A tie alone in its block, rows before and behind it, and rows that begin eight bytes off."""
    with instruction_set(level):
        for m in (17, 32, 33):
            for place in range(m):
                x = np.zeros((m, 3))
                x[place] = 2.0
                x[(place + 5) % m] = -2.0  # as far out: the lower of the two wins
                loose = np.concatenate([[9.0], x.ravel()])[1:].reshape(m, 3)
                expected = min(place, (place + 5) % m), 12.0
                assert nearest.most_isolated(x) == expected == reference.most_isolated(x)
                assert nearest.most_isolated(loose) == nearest.most_isolated(np.asfortranarray(x)) == expected


@pytest.fixture
def by_cover(monkeypatch):
    """The race by cover, whatever the sample and the work say, in ranges of a few rows."""
    monkeypatch.setattr(_cover, "_COVERED", ((1.0, -math.inf),))
    monkeypatch.setattr(_cover, "_OUT", 1.0)
    monkeypatch.setattr(_cover, "_STEP_WORK", 100_000)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_the_race_by_cover_equals_the_twin_or_is_given_up(name, level, by_cover):
    x = CASES[name]()
    expected = reference.most_isolated(x)
    with instruction_set(level):
        for workers in (1, 2):
            found = _cover.race(x, math.inf, workers)
            assert found == expected if found is not None else name in GIVEN_UP


# Every row has an equal, or squares underflow or overflow: nothing lies between what is near and what is not.
GIVEN_UP = {
    "all equal",
    "all zero",
    "squares overflow in eight columns",
    "each row twice",
    "subnormal",
    "squares underflow",
    "squares overflow",
    "largest numbers",
}
GIVEN_UP |= {"some squares overflow"}


@pytest.mark.parametrize("seed", range(12))
def test_the_early_race_on_shapes_around_its_panels(seed, early):
    rng = np.random.default_rng(seed)
    for m in (1, 2, 15, 16, 17, 33, int(rng.integers(34, 120))):
        dim = int(rng.integers(6, 70))
        x = rng.standard_normal((m, dim)) * 10.0 ** rng.integers(-9, 9) + rng.integers(-1, 2) * 1e9
        x[rng.integers(0, m, m // 4)] = x[rng.integers(0, m, m // 4)]
        for level in LEVELS:
            with instruction_set(level):
                assert nearest.most_isolated(x) == reference.most_isolated(x)


def test_rows_that_single_precision_cannot_tell_apart(early):
    """An early race that believed single precision would find all distances zero."""
    x = 1.0 + 1e-9 * np.random.default_rng(8).standard_normal((64, 16))
    x[0] = 0.0  # what all rows are taken less
    narrow = (x - x[0]).astype(np.float32).astype(np.float64)
    assert reference.most_isolated(narrow[1:])[1] == 0.0 < reference.most_isolated(x[1:])[1]
    assert nearest.most_isolated(x) == reference.most_isolated(x)
    apart = np.vstack([x, x[1:2] + 1e-9])
    assert nearest.most_isolated(apart) == reference.most_isolated(apart)


@pytest.mark.parametrize("seed", range(30))
def test_the_race_by_cover_on_rows_of_any_shape(seed, by_cover):
    rng = np.random.default_rng(seed)
    m, dim = int(rng.integers(128, 700)), int(rng.integers(1, 70))
    x = mixture(m, dim, seed, clusters=int(rng.integers(1, 30)), apart=float(10 ** rng.uniform(-2, 4)))
    if seed % 3 == 0:
        x = np.round(x)
    found = _cover.race(x, math.inf, 1)
    assert found == reference.most_isolated(x) or (found is None and reference.most_isolated(x)[1] == 0.0)


def test_the_race_by_cover_stops_where_it_costs_too_much(by_cover):
    x = mixture(600, 20)
    assert [_cover.race(x, work * x.size, 1) is None for work in (1.0, 33.0, math.inf)] == [True, True, False]


def test_which_rows_the_race_by_cover_is_tried_on(monkeypatch):
    rng = np.random.default_rng(0)
    heaps, cube, coins = (
        mixture(4000, 70, apart=1.0, clusters=3),
        rng.random((4000, 70)),
        rng.integers(0, 2, (4000, 70)).astype(float),
    )
    assert nearest._may_be_covered(heaps)
    assert not nearest._may_be_covered(heaps[:1000])
    assert not nearest._may_be_covered(cube[:, :4])
    assert _cover.pivots(heaps) is not None
    assert _cover.pivots(coins) is None
    expected = nearest.most_isolated(heaps, threads=1)
    with monkeypatch.context() as patch:
        patch.setattr(nearest, "_table", None)  # the search by groups would need it
        patch.setattr(nearest, "_early", None)
        assert nearest.most_isolated(heaps, threads=2) == expected
        assert nearest.most_isolated(heaps.astype(np.float32).astype(float)) is not None
    monkeypatch.setattr(nearest, "_may_be_covered", lambda points: False)
    assert nearest.most_isolated(heaps) == expected


def test_a_row_that_is_not_finite_is_not_covered(by_cover):
    x = mixture(300, 20)
    for bad in (math.nan, math.inf):
        for place in ((0, 0), (299, 19), (1, 3)):
            x_bad = x.copy()
            x_bad[place] = bad
            assert _cover.race(x_bad, math.inf, 1) is None


@pytest.mark.parametrize("name", CASES)
def test_groups_go_on_where_the_early_race_stops(name, monkeypatch):
    """Races that give up after a few rows, more of them each time."""
    x = CASES[name]()
    expected = reference.most_isolated(x)
    monkeypatch.setattr(nearest, "_SMALL", 0)
    monkeypatch.setattr(nearest, "_may_end_early", lambda points: True)
    ends = set()
    for work in (100, 10_000, 100_000):
        for part in ("_TABLE_WORK", "_TABLE_ROW_WORK", "_TABLE_ENTRY_WORK"):
            monkeypatch.setattr(nearest, part, work if part == "_TABLE_WORK" else 0)
        ends.add(nearest._early(x)[1])
        assert nearest.most_isolated(x, threads=1) == expected
    assert False in ends or len(x) < 200


def test_a_race_that_tells_no_ties_apart_is_caught(early, monkeypatch):
    """The lowest of equals wins, from whichever end the rows are numbered: taking any of them would fail."""
    x = CASES["lattice"]()
    index, square = reference.most_isolated(x)
    assert (nearest.most_isolated(x)[0], nearest.most_isolated(x[::-1])[0]) == (
        index,
        reference.most_isolated(x[::-1])[0],
    )
    others = [i for i in range(len(x)) if i != index and _nearest_sq(x, i) == square]
    assert len(others) > 10


def _nearest_sq(x, i):
    squares = reference.squared_distances(x, x[i])
    squares[i] = math.inf
    return squares.min()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_every_instruction_set_finds_the_same(name, level, by_groups):
    x = CASES[name]()
    with instruction_set(level):
        assert nearest.most_isolated(x, threads=1) == reference.most_isolated(x)


@pytest.mark.parametrize("seed", range(10))
def test_equal_distances_among_many_columns(seed, by_groups):
    """Many neighbours at one distance, each of them looked at exactly, are no reason to stop before the last row."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(130, 260))
    twins = np.repeat(rng.standard_normal((12, m)) * 3.0, 2, axis=0)  # far out, so that they run first
    x = np.vstack([np.eye(m), twins])[rng.permutation(m + 24)]
    assert nearest.most_isolated(x, threads=1) == reference.most_isolated(x)


@pytest.mark.parametrize("name", ["mixture", "lattice", "ties", "each row twice", "wide", "far from the origin"])
def test_single_precision_rows_are_taken_as_they_are(name, by_groups):
    x = CASES[name]().astype(np.float32)
    expected = reference.most_isolated(x)
    assert nearest.most_isolated(x) == expected
    assert nearest.most_isolated(x.astype(np.float64)) == expected


@pytest.mark.parametrize("m", [1, 2, 3, 63, 64, 65, 127, 128, 129, 191, 193, 257])
@pytest.mark.parametrize("dim", [1, 3, 31, 32, 33, 65])
def test_sizes_around_the_lanes(m, dim, monkeypatch):
    x = mixture(m, dim, seed=m * 100 + dim)
    expected = reference.most_isolated(x)
    assert nearest.most_isolated(x) == expected
    monkeypatch.setattr(nearest, "_SMALL", 0)
    assert nearest.most_isolated(x) == expected
    monkeypatch.setattr(nearest, "_may_end_early", lambda points: False)
    assert nearest.most_isolated(x) == expected


@pytest.mark.parametrize("seed", range(40))
def test_random_shapes(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    m, dim = int(rng.integers(2, 600)), int(rng.integers(1, 50))
    x = mixture(m, dim, seed, clusters=int(rng.integers(1, 20)), apart=float(10 ** rng.uniform(-2, 4)))
    if seed % 3 == 0:
        x = np.round(x)
    x *= 10 ** rng.uniform(-3, 3)
    expected = reference.most_isolated(x)
    assert nearest.most_isolated(x) == expected
    assert nearest.most_isolated(x.astype(np.float32)) == reference.most_isolated(x.astype(np.float32))
    monkeypatch.setattr(nearest, "_SMALL", 0)
    monkeypatch.setattr(nearest, "_may_end_early", lambda points: False)
    assert nearest.most_isolated(x) == expected


def test_by_hand():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [5.0, 3.0], [1.0, 1.0]])
    assert reference.most_isolated(x) == (2, 9.0)  # rows 2 and 3 are each other's nearest: the lower index
    assert nearest.most_isolated(x) == (2, 9.0)
    assert nearest.most_isolated(x[::-1]) == (1, 9.0)
    assert nearest.most_isolated(x[:1]) == (0, math.inf)
    assert reference.most_isolated(x[:1]) == (0, math.inf)
    assert reference.squared_distances(x, x[4]).tolist() == [2.0, 1.0, 17.0, 20.0, 0.0]


def test_memory_layout_does_not_matter():
    x = mixture(300, 6)
    wide = np.zeros((300, 12))
    wide[:, ::2] = x
    expected = nearest.most_isolated(x)
    for view in (np.asfortranarray(x), wide[:, ::2], x.view()):
        assert nearest.most_isolated(view) == expected
    frozen = x.copy()
    frozen.flags.writeable = False
    assert nearest.most_isolated(frozen) == expected


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros(3),
        np.zeros((3, 3), dtype=np.int64),
        np.array([[0.0], [np.nan], [1.0]]),
        np.array([[0.0], [np.inf], [1.0]]),
        np.array([[0.0], [-np.inf], [1.0]], dtype=np.float32),
        np.full((500, 2), np.nan),
    ],
)
@pytest.mark.parametrize("first", [False, True, None])
def test_bad_points_are_refused(points, first, monkeypatch):
    monkeypatch.setattr(nearest, "_SMALL", lib.FPP_SMALL_RACE if first is None else 0)
    monkeypatch.setattr(nearest, "_may_end_early", lambda points: first)
    with pytest.raises(InputError, match="points must be"):
        nearest.most_isolated(points)


def test_a_reordered_sum_differs():
    """The comparison sees a kernel that adds up in another order, as its distance has other bits for most sets of rows."""
    differ = 0
    for seed in range(10):
        x = mixture(100, 33, seed)
        backwards = reference.most_isolated(x[:, ::-1])
        assert backwards == (reference.most_isolated(x)[0], pytest.approx(nearest.most_isolated(x)[1], rel=1e-12))
        differ += backwards[1] != nearest.most_isolated(x)[1]
    assert differ >= 3


def test_which_rows_the_early_race_is_tried_on():
    rng = np.random.default_rng(0)
    assert nearest._may_end_early(rng.standard_normal((2000, 100)))
    assert nearest._may_end_early(rng.standard_normal((100_000, 4)))
    assert nearest._may_end_early(rng.standard_cauchy((20_000, 100)))
    assert not nearest._may_end_early(rng.standard_normal((20_000, 100)))
    assert not nearest._may_end_early(np.full((20_000, 100), np.nan))


@pytest.mark.serial
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_returns_at_once(threads):
    x = np.random.default_rng(0).standard_normal((80_000, 200))  # seconds of work
    x /= np.linalg.norm(x, axis=1)[:, None]
    nearest.most_isolated(x[:500])
    with ctrl_c():
        nearest.most_isolated(x, threads=threads)


def test_the_first_call_compiles_nothing():
    code = (
        "import sys, numpy as np\n"
        "from fastpubpriv.kernels import nearest, balls\n"
        "assert nearest.most_isolated(np.array([[0.0], [1.0], [3.0]])) == (2, 4.0)\n"
        "assert balls.first_terrific(np.zeros((3, 1)), 1.0, 1, 1) is None\n"
        "assert not {'numba', 'llvmlite'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
