"""The most isolated point against its twin: equal index and equal bits, whatever the rows, threads and precision."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from clocks import PATIENCE, ctrl_c
from helpers.points import lattice, mixture

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import nearest
from fastpubpriv.kernels._jit import kernel
from fastpubpriv.kernels._lanes import add_columns, count, lowest, within
from fastpubpriv.reference import nearest as reference


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
    "largest numbers": lambda: np.sign(mixture(200, 3)) * np.finfo(float).max,
}


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_twin(name, threads):
    x = CASES[name]()
    assert nearest.most_isolated(x, threads=threads) == reference.most_isolated(x)


@pytest.mark.parametrize("name", ["mixture", "lattice", "ties", "each row twice", "wide", "far from the origin"])
def test_single_precision_rows_are_taken_as_they_are(name):
    x = CASES[name]().astype(np.float32)
    expected = reference.most_isolated(x)
    assert nearest.most_isolated(x) == expected
    assert nearest.most_isolated(x.astype(np.float64)) == expected


@pytest.mark.parametrize("m", [1, 2, 3, 63, 64, 65, 127, 128, 129, 191, 193, 257])
@pytest.mark.parametrize("dim", [1, 3, 31, 32, 33, 65])
def test_sizes_around_the_lanes(m, dim):
    x = mixture(m, dim, seed=m * 100 + dim)
    assert nearest.most_isolated(x) == reference.most_isolated(x)


@pytest.mark.parametrize("seed", range(40))
def test_random_shapes(seed):
    rng = np.random.default_rng(seed)
    m, dim = int(rng.integers(2, 600)), int(rng.integers(1, 50))
    x = mixture(m, dim, seed, clusters=int(rng.integers(1, 20)), apart=float(10 ** rng.uniform(-2, 4)))
    if seed % 3 == 0:
        x = np.round(x)
    x *= 10 ** rng.uniform(-3, 3)
    assert nearest.most_isolated(x) == reference.most_isolated(x)


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
def test_bad_points_are_refused(points):
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


@pytest.mark.serial
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_returns_at_once(threads):
    x = np.random.default_rng(0).standard_normal((80_000, 200))  # seconds of work
    x /= np.linalg.norm(x, axis=1)[:, None]
    nearest.most_isolated(x[:500])
    with ctrl_c():
        nearest.most_isolated(x, threads=threads)


def test_numba_is_imported_by_the_first_call_only():
    code = (
        "import sys, fastpubpriv, fastpubpriv.kernels.nearest as n, fastpubpriv.kernels.balls, numpy as np\n"
        "assert 'numba' not in sys.modules\n"
        "assert n.most_isolated(np.array([[0.0], [1.0], [3.0]])) == (2, 4.0)\n"
        "assert 'numba' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


# ---- The vector instructions, compiled and in Python ------------------------------------------------------------------


@kernel(fastmath=False)
def _instructions(panel, row, bound, out, found):  # type: ignore[no-untyped-def]
    split = row.shape[0] // 3
    add_columns(panel, row, 0, split, out)
    add_columns(panel, row, split, row.shape[0], out)
    bits = within(out, bound)
    found[0], found[1] = count(bits), lowest(bits)
    return bits


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 3, 7, 50])
def test_instructions_equal_their_twins(dim, dtype):
    rng = np.random.default_rng(dim)
    panel, row = rng.standard_normal((dim, 64)).astype(dtype), rng.standard_normal(dim).astype(dtype)
    panel[0, 5], panel[0, 6] = np.nan, np.inf
    out, twin = np.full(64, 9.0, dtype=dtype), np.full(64, 9.0, dtype=dtype)
    add_columns(panel, row, 0, dim, twin)
    found = np.zeros(2, dtype=np.int64)
    for bound in (-1.0, float(twin[9]), float(dim), np.inf):
        bits = np.uint64(_instructions(panel, row, bound, out, found))
        np.testing.assert_allclose(out, twin, rtol=0 if dtype is np.float64 else 1e-5 * dim)
        assert bits == within(out, bound)
        assert not int(bits) >> 5 & 1
        assert found.tolist() == [count(bits), lowest(bits)]
        assert count(bits) == np.count_nonzero(out <= dtype(bound))
    assert lowest(np.uint64(0)) == 64
    assert lowest(np.uint64(40)) == 3


def test_kernels_run_without_compilation():
    """NUMBA_DISABLE_JIT=1 runs the Python twins of the instructions, with NumPy's checks of bounds."""
    code = (
        "import numpy as np\n"
        "from fastpubpriv.kernels import nearest, balls\n"
        "from fastpubpriv.reference import nearest as n, balls as b\n"
        "x = np.random.default_rng(0).standard_normal((150, 3))\n"
        "assert nearest.most_isolated(x, threads=1) == n.most_isolated(x)\n"
        "assert balls.first_terrific(x, 50.0, 4, 5, threads=1) == b.first_terrific(x, 50.0, 4, 5)\n"
        "r = np.array([0.1, 1.0, 4.0])\n"
        "assert (balls.ball_counts(x, x[:2], r, threads=1) == b.ball_counts(x, x[:2], r)).all()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
