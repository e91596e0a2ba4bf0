"""Trees, maps and neighbors for tests of releases over leaves."""

from functools import partial

import numpy as np
import releases
from helpers import accounts

from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.mixtures.separated.search_state import ClusterTree
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

DIM = 3
ONE_THREAD = Executor(threads=1, progress=False)
leaf_counts = partial(releases.release_leaf_counts, executor=ONE_THREAD)
leaf_sums = partial(releases.release_leaf_sums, executor=ONE_THREAD)
leaf_second_moments = partial(releases.release_leaf_second_moments, executor=ONE_THREAD)
second_moment = partial(releases.release_second_moment, executor=ONE_THREAD)
shell_counts = partial(releases.release_shell_counts, executor=ONE_THREAD)


def three_leaves():
    """A ball of radius 2 about (5, 0, 0), then the nearer of two centers."""
    tree = ClusterTree.root(DIM).split_ball(
        0, origin=[5.0, 0.0, 0.0], projection=None, center=[0.0, 0.0, 0.0], radius=2.0
    )
    centers = [[0.0, 5.0, 0.0], [0.0, -5.0, 0.0]]
    return tree.split_nearest(2, origin=np.zeros(DIM), projection=None, centers=centers)


LEAVES = (1, 3, 4)
CENTERS = np.array([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, -5.0, 0.0]])

# Rows far out, on and beside the ball, and rows that belong nowhere.
# On the ball, and as near to one center as to the other, too.
HOSTILE = np.array(
    [
        [np.nan] * 3,
        [np.inf, 0.0, 0.0],
        [1e308] * 3,
        [0.0, -1.7976931348623157e308, 1.7976931348623157e308],
        [5e-324] * 3,
        [0.0] * 3,
        [7.0, 0.0, 0.0],
        [np.nextafter(7.0, 8.0), 0.0, 0.0],
        [5.0, 0.0, 0.0],
        [0.0, 1e9, 0.0],
        [0.0, -1e9, 0.0],
        [1e9, 0.0, 1e9],
    ]
)


# The map of each leaf about its center.
CENTERED = [AffineMap(dim=DIM, center=center) for center in CENTERS]


def stage(x, budget):
    """An account, rows, and routes to the leaves."""
    return opened(budget), private_rows(x), three_leaves().routes(LEAVES)


def clustered(rng, n, scale=1.0):
    """Rows about the three centers, and their leaves."""
    return CENTERS[rng.integers(0, 3, n)] + scale * rng.standard_normal((n, DIM))


def maps(out_dim=DIM, seed=0):
    """One map for each leaf, of `out_dim` columns."""
    rng = np.random.default_rng(seed)
    return [
        AffineMap(
            dim=DIM,
            center=center,
            matrix=rng.standard_normal((out_dim, DIM)),
            offset=rng.standard_normal(out_dim),
        )
        for center in CENTERS
    ]


opened = partial(accounts.opened, draws=10**5)


def neighbors(rng, count):
    """Random pairs of data sets: a row is replaced by one of the same leaf, of another, by a hostile row, or by a copy."""
    for _ in range(count):
        n = int(rng.choice([1, 2, 3, 10, 60]))
        scale = 10.0 ** rng.choice([-300.0, -2.0, 0.0, 0.0, 2.0, 300.0])
        rows = clustered(rng, n, scale)
        if rng.random() < 0.3:
            rows[rng.integers(n)] = HOSTILE[rng.integers(len(HOSTILE))]
        other = rows.copy()
        index = rng.integers(n)
        kind = rng.integers(3)
        if kind == 0:
            other[index] = clustered(rng, 1)[0]
        elif kind == 1:
            other[index] = HOSTILE[rng.integers(len(HOSTILE))]
        else:
            other[index] = rows[rng.integers(n)]
        yield rows, other
