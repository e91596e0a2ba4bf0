"""The searches over public rows against loops over all rows: equal integers and equal bits, for few rows and for many."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from clocks import PATIENCE, ctrl_c
from helpers.errors import raises
from twins import geometry as twin

from benchmarks.cases.public_calls import SHAPES, shaped
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import geometry


def mixture(m, dim, seed=0, clusters=5, apart=10.0):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((clusters, dim)) * apart
    return rng.standard_normal((m, dim)) + centers[rng.integers(0, clusters, m)]


def lattice(side, dim):
    return np.stack(np.meshgrid(*[np.arange(float(side))] * dim), -1).reshape(-1, dim)


def two_scales(m, dim):
    x = mixture(m, dim, seed=2)
    x[::2] = 1e9 + x[::2] * 1e-3
    return x


def pairs(m, dim):
    """Rows in random order, each with one partner a millionth of the usual distance away."""
    rng = np.random.default_rng(4)
    some = rng.standard_normal((m // 2, dim))
    return rng.permutation(np.vstack([some, some + 1e-6 * rng.standard_normal(some.shape)]))


def integers(m, dim, top):
    return np.random.default_rng(3).integers(0, top, (m, dim)).astype(float)


CASES = {
    "normal": lambda: mixture(300, 10, clusters=1),
    "mixture": lambda: mixture(400, 33),
    "wide": lambda: mixture(120, 200, seed=1),
    "far clusters": lambda: mixture(260, 3, clusters=4, apart=500.0),
    "sixteen columns": lambda: mixture(257, 16, clusters=4, apart=200.0),
    "one column": lambda: mixture(299, 1, apart=1000.0),
    "lattice": lambda: lattice(4, 4),
    "two lattices": lambda: np.vstack([lattice(3, 3), lattice(3, 3) + 64.0]),
    "ties": lambda: integers(300, 7, 3),
    "bits": lambda: integers(300, 40, 2),
    "all equal": lambda: np.full((100, 3), 7.25),
    "all zero": lambda: np.zeros((130, 2)),
    "two places": lambda: np.repeat([[0.0, 1.0], [64.0, 1.0]], 70, axis=0),
    "each row twice": lambda: np.repeat(mixture(100, 3, apart=300.0), 2, axis=0),
    "one row twice": lambda: np.vstack([mixture(200, 5), mixture(200, 5)[:1]]),
    "nearly equal distances": lambda: np.eye(120) + 1e-9 * mixture(120, 120, clusters=1),
    "collinear": lambda: np.outer(mixture(200, 1)[:, 0], np.arange(1.0, 8.0)),
    "sphere": lambda: (x := mixture(200, 50, apart=0)) / np.linalg.norm(x, axis=1)[:, None],
    "far from the origin": lambda: mixture(300, 8) + 1e12,
    "two scales": lambda: two_scales(300, 8),
    "subnormal": lambda: mixture(200, 4) * 1e-310,
    "squares of one bit": lambda: lattice(3, 5) * 2.6e-162,
    "squares of few bits": lambda: mixture(200, 9, clusters=1) * 3e-162,
    "squares underflow": lambda: mixture(200, 4) * 1e-163,
    "some squares underflow": lambda: mixture(200, 4, apart=300.0) * 1e-161,
    "squares overflow": lambda: mixture(200, 4) * 1e300,
    "some squares overflow": lambda: mixture(200, 4, apart=300.0) * 1e152,
    "one outlier": lambda: np.vstack([mixture(200, 6), np.full((1, 6), 1e40)]),
    "largest numbers": lambda: np.sign(mixture(100, 3)) * np.finfo(float).max,
}


@pytest.fixture(params=["few", "many"])
def rows_are(request, monkeypatch):
    """All distances by NumPy, or the compiled loops, a few rows at a time."""
    monkeypatch.setattr(geometry, "_FEW", math.inf if request.param == "few" else -1)
    monkeypatch.setattr(geometry, "_STEP_WORK", 20_000)
    monkeypatch.setattr(geometry, "_BLOCK", 5_000)


def widest(x):
    with np.errstate(over="ignore"):
        return float(min(np.ptp(x, axis=0).max() * 3.0, 1e305)) or 1.0


def agree(x, counts, radii=(1.0, 1.0 / 7.0)):
    """Whether all three searches find what loops over all rows find; with how many different balls they end."""
    assert geometry.most_isolated(x) == twin.most_isolated(x)
    balls = set()
    width = widest(x.astype(np.float64))
    for count, share in itertools.product(counts, radii):
        expected = twin.first_terrific(x, width * share, 9, count)
        assert geometry.first_terrific(x, width * share, 9, count) == expected
        balls.add(expected)
    assert geometry.widest_gap(x, counts[-1]) == twin.widest_gap(x, counts[-1])
    return balls - {None}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_twin(name, rows_are):
    x = CASES[name]()
    balls = agree(x, (1, 2, 11, len(x) // 3))
    assert balls or name not in {"far clusters", "two places", "sixteen columns"}


def adversarial(seed):
    """Few rows with ties, copies, tails, heaps within heaps, and scales nine decades apart or where squares leave the range."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 50))
    dim = int(rng.integers(1, 9))
    kind = seed % 8
    if kind == 0:
        x = rng.integers(0, int(rng.integers(1, 4)), (m, dim)).astype(float)
    elif kind == 1:
        x = rng.standard_cauchy((m, dim))
    elif kind == 2:
        x = np.repeat(rng.standard_normal((m, dim)), 2, axis=0)[:m]
    elif kind == 3:
        x = rng.standard_normal((m, dim)) * 10.0 ** rng.integers(-9, 1, (m, 1))
    elif kind == 4:
        x = np.cumsum(rng.choice([0.0, 1.0, -1.0, 1.0 + 2.0**-52], (m, dim)), axis=0)
    elif kind == 5:  # nested: each heap a hundredth of the one around it
        x = sum(rng.integers(0, 2, (m, 1)) * 100.0**-level * np.ones(dim) for level in range(4))
    elif kind == 6:  # rows at the radii and at 11 times the radii of dyadic balls
        x = rng.choice([0.0, 0.25, 1.0, 2.75, 11.0, 12.0, 22.0, 88.0], (m, dim))
    else:
        x = mixture(m, dim, seed, clusters=3, apart=float(10 ** rng.uniform(0, 4)))
    return x * [1.0, 1e-160, 1.0, 1e152, -1.0, 1e-30][seed // 8 % 6]


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_adversarial_sets(block, rows_are):
    balls = set()
    for seed in range(100 * block, 100 * block + 100):
        x = adversarial(seed)
        if seed % 5 == 0:
            with np.errstate(over="ignore"):
                single = x.astype(np.float32)
            if np.isfinite(single).all():
                x = single
        balls |= agree(x, (1, 1 + len(x) // 4), radii=(1.0,))
    assert len(balls) > 5


@pytest.mark.parametrize("search", [geometry._tree_search, geometry._product_search])
@pytest.mark.parametrize("name", [*CASES, "pairs"])
def test_neighbors_that_are_found_first_change_no_bit(name, search, monkeypatch):
    """After the first rows of each race, a search for neighbors goes first, whether or not it is faster."""
    monkeypatch.setattr(geometry, "_FEW", -1)
    monkeypatch.setattr(geometry, "_STEP_WORK", 1)  # one row in a piece of work
    monkeypatch.setattr(geometry._Race, "is_slow", lambda race: race.done > 0)
    monkeypatch.setattr(geometry._Race, "_faster_search", lambda race, rest: search(race.table))
    x = CASES[name]() if name in CASES else pairs(300, 5)
    assert geometry.most_isolated(x) == twin.most_isolated(x)


@pytest.mark.parametrize("name", ["pairs", "line"])
def test_rows_in_pairs_or_on_a_line_are_compared_with_few_others(name, monkeypatch):
    """Without a search for neighbors, rows in pairs are compared with half of the others: 2,000,000 distances."""
    races = set()
    run = geometry._Race.run

    def noted_run(race):
        races.add(race)
        run(race)

    def tree_search(race, rest):
        return geometry._tree_search(race.table)

    monkeypatch.setattr(geometry._Race, "run", noted_run)
    monkeypatch.setattr(geometry, "_TRIAL", 0)
    monkeypatch.setattr(geometry._Race, "_faster_search", tree_search)
    x = pairs(2_000, 5)
    if name == "line":
        x = np.outer(mixture(2_000, 1)[:, 0], np.ones(5))
    assert geometry.most_isolated(x) == twin.most_isolated(x)
    (race,) = races
    assert race.distances < 100 * len(x)


@pytest.mark.parametrize("late", range(1, 8))
def test_other_load_does_not_change_the_search(late, monkeypatch):
    """One of seven readings of the clock is as late as another program lets it be; searches for neighbors are found as before."""
    readings = itertools.count()
    clock = geometry.perf_counter
    waited = 0.0

    def interrupted():
        nonlocal waited
        if next(readings) % 7 == late % 7:
            waited += 0.02
        return clock() + waited

    chosen = []
    search = geometry._Race._faster_search

    def noted_search(race, rest):
        chosen.append(search(race, rest))
        return chosen[-1]

    monkeypatch.setattr(geometry, "perf_counter", interrupted)
    monkeypatch.setattr(geometry._Race, "_faster_search", noted_search)
    geometry.most_isolated(shaped("pairs", 8_000, 20))
    (faster,) = chosen
    assert faster is not None


@pytest.mark.parametrize(
    ("shape", "most"), [("random", 40), ("nested", 12), ("mixture", 60), ("sphere", 400)]
)
def test_rows_are_compared_with_few_others(shape, most):
    """Of 1,999 others, on the average: the least distance to two rows shows which row to try first, and eliminates many."""
    x = shaped(shape, 2_000, 20)
    race = geometry._Race(x)
    while race.done < len(x):
        race.run()
    assert (race.best, race.farthest) == geometry.most_isolated(x)
    assert race.distances / len(x) < most


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", [2, 20])
def test_six_shapes_equal_the_twin(shape, dim):
    x = shaped(shape, 300, dim)
    assert geometry.most_isolated(x) == twin.most_isolated(x)


def test_nested_rows_take_one_call_of_the_loop(monkeypatch):
    """Neither a clock nor another search is needed where all rows are eliminated at once."""
    pieces = []
    run = geometry._Race.run

    def noted_run(race):
        pieces.append(race.done)
        run(race)

    monkeypatch.setattr(geometry._Race, "run", noted_run)
    monkeypatch.setattr(geometry, "_FEW", -1)
    geometry.most_isolated(shaped("nested", 2_000, 20))
    assert pieces == [0]


def test_counts_within_steps_by_hand(rows_are):
    x = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [3.0, 4.1], [30.0, 40.0]])
    assert geometry.counts_within(x, 0, 5.0, 4).tolist() == [2, 3, 4, 4, 4]
    assert geometry.counts_within(x, 4, 0.1, 2).tolist() == [1, 1, 1]
    assert geometry.counts_within(x, 0, math.inf, 1).tolist() == [5, 5]


@pytest.mark.parametrize("seed", range(200))
def test_counts_within_steps_equal_the_twin(seed, rows_are):
    """Sets of `adversarial`, whose distances are often whole numbers of steps, underflow, or overflow."""
    x = adversarial(seed)
    scale = [1.0, 1e-160, 1.0, 1e152, 1.0, 1e-30][seed // 8 % 6]
    last = len(x) - 1
    for step in (1.0 * scale, 0.3 * scale, 0.01 * scale):
        expected = twin.counts_within(x, last, step, 30)
        assert geometry.counts_within(x, last, step, 30).tolist() == expected


of_twin_and_kernel = pytest.mark.parametrize("searches", [twin, geometry], ids=["twin", "kernel"])


@of_twin_and_kernel
def test_the_most_isolated_row_by_hand(rows_are, searches):
    """Rows 2 and 3 are each other's nearest: the lower index."""
    x = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [5.0, 3.0], [1.0, 1.0]])
    assert searches.most_isolated(x) == (2, 9.0)
    assert searches.most_isolated(x[::-1]) == (1, 9.0)
    assert searches.most_isolated(x[:1]) == (0, math.inf)


@of_twin_and_kernel
def test_the_first_terrific_ball_by_hand(rows_are, searches):
    """Radius 1 around 0 holds two rows, nothing lies in (1, 11], and two rows lie beyond."""
    x = np.array([[20.0], [0.0], [1.0], [21.0]])
    assert searches.first_terrific(x, 1.0, 1, 2) == (0, 0)
    # 4 and 2 reach 44 and 22: nothing is left beyond
    assert searches.first_terrific(x, 4.0, 3, 2) == (2, 0)
    assert searches.first_terrific(x, 1.0, 1, 3) is None
    # the neighbor at 1 lies in (0.5, 5.5]
    assert searches.first_terrific(x, 0.5, 1, 2) is None


@of_twin_and_kernel
def test_a_row_at_eleven_radii_is_in_the_shell(rows_are, searches):
    x = np.array([[1.0], [0.0], [12.0], [13.0]])
    assert searches.first_terrific(x, 1.0, 1, 2) == (0, 1)


@of_twin_and_kernel
def test_the_widest_gap_by_hand(rows_are, searches):
    """Rank 2 only: 0 sees 1 then 4, 1 sees 1 then 3, 4 sees 3 then 4, and 40 sees 36 then 39."""
    x = np.array([[0.0], [1.0], [4.0], [40.0]])
    assert searches.widest_gap(x, 2) == (0, 2, 1.0, 16.0)
    assert searches.widest_gap(x, 1)[:2] == (0, 1)  # 1 / 0 is the widest of all
    assert searches.widest_gap(x, 3) is None
    assert searches.widest_gap(np.ones((6, 2)), 2) is None


def test_a_reordered_sum_differs():
    """The comparison sees a search that adds up in another order, as its distance has other bits for most sets of rows."""
    sets = [mixture(100, 33, seed) for seed in range(10)]
    assert sum(geometry.most_isolated(x[:, ::-1]) != twin.most_isolated(x) for x in sets) >= 3


def test_memory_layout_and_calls_compile_nothing_new(rows_are, monkeypatch):
    x = mixture(300, 6, apart=300.0)
    wide = np.zeros((300, 12))
    wide[:, ::2] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    isolated = geometry.most_isolated(x)
    terrific = geometry.first_terrific(x, widest(x), 12, 9)
    geometry.counts_within(x, 0, 1.0, 3)
    for view in (np.asfortranarray(x), wide[:, ::2], frozen):
        assert geometry.most_isolated(view) == isolated
        assert geometry.first_terrific(view, widest(x), 12, 9) == terrific
    geometry.prepare()
    from fastpubpriv.kernels import _searches

    loops = (_searches.start, _searches.race, _searches.shells, _searches.balls)
    assert [len(loop.signatures) for loop in loops] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros(3),
        np.zeros((3, 3), dtype=np.int64),
        np.array([[0.0], [np.nan], [1.0]]),
        np.array([[0.0], [-np.inf], [1.0]], dtype=np.float32),
    ],
)
def test_bad_points_are_refused(points):
    raises(InputError, "points must be", geometry.most_isolated, points)
    raises(InputError, "points must be", geometry.first_terrific, points, 1.0, 3, 1)
    raises(InputError, "points must be", geometry.widest_gap, points, 1)


@pytest.mark.parametrize(
    ("name", "number"),
    [("radius_max", 0.0), ("radius_max", math.nan), ("n_radii", 0), ("min_count", 0)],
)
def test_bad_numbers_are_refused(name, number):
    good = {"radius_max": 1.0, "n_radii": 3, "min_count": 1}
    raises(InputError, name, geometry.first_terrific, np.zeros((2, 2)), **good | {name: number})


def test_few_rows_import_no_numba_and_where_nothing_can_be_written_loops_are_compiled_anew(
    tmp_path,
):
    code = (
        "import sys, numpy as np\n"
        "from fastpubpriv.kernels import geometry\n"
        "assert geometry.most_isolated(np.array([[0.0], [1.0], [3.0]])) == (2, 4.0)\n"
        "assert geometry.first_terrific(np.zeros((3, 1)), 1.0, 1, 1) is None\n"
        "assert geometry.widest_gap(np.zeros((4, 1)), 1) is None\n"
        "assert not {'numba', 'llvmlite'} & set(sys.modules)\n"
        "from fastpubpriv.kernels import _searches\n"
        "exec('def half(x):\\n    return x / 2')\n"  # no file, so no place for its cache
        "assert _searches.compiled(half)(3.0) == 1.5\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.serial
@pytest.mark.parametrize(
    ("search", "n", "dim", "options"),
    [
        (geometry.most_isolated, 80_000, 200, ()),
        (geometry.first_terrific, 200_000, 16, (1.0, 12, 2)),
        (geometry.widest_gap, 40_000, 4, (5,)),
    ],
)
def test_an_interrupt_returns_at_once(search, n, dim, options):
    """From half a minute of work."""
    x = np.random.default_rng(0).standard_normal((n, dim))
    if dim == 200:
        x /= np.linalg.norm(x, axis=1)[:, None]  # nothing stands out
    geometry.prepare()
    with ctrl_c():
        search(x, *options)
