"""The public search for a terrific ball, the widest gap, and k-means on public rows."""

import inspect
import math
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import geometry as reference
from twins import supercluster as supercluster_twin
from twins.supercluster import least_radius, pairwise

from fastpubpriv import InputError
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated import public_shapes, searches
from fastpubpriv.mixtures.separated.public_shapes import (
    Ball,
    Gap,
    supercluster,
    terrific_ball,
    widest_gap,
)
from fastpubpriv.mixtures.separated.search_state import Search


def blobs(rng, *centers, size=20, scale=1.0):
    centers = np.asarray(centers, dtype=float)
    return np.concatenate(
        [center + scale * rng.normal(size=(size, centers.shape[1])) for center in centers]
    )


def test_one_gaussian_has_no_terrific_ball():
    draws = (np.random.default_rng(seed).normal(size=(100, 3)) for seed in range(30))
    assert (
        sum(terrific_ball(points, min_count=12, radius_max=50.0) is not None for points in draws)
        <= 1
    )


def test_that_test_notices_a_missing_shell(monkeypatch):
    """Planted bug: the shell reaches no farther than the ball."""
    monkeypatch.setattr(reference, "OUTER", 1.0)
    monkeypatch.setattr(public_shapes.geometry, "first_terrific", reference.first_terrific)
    raises(AssertionError, None, test_one_gaussian_has_no_terrific_ball)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans())
def test_equals_an_exhaustive_search(seed, count, copies):
    """The rule that misses nothing finds what the twin finds down to the radius below which no ball can hold enough rows."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(rng.integers(1, 5), 2)) * 10.0 ** rng.integers(0, 7)
    points = blobs(rng, *centers, size=6, scale=10.0 ** rng.integers(-3, 1))
    if copies:
        points = np.repeat(points, 2, axis=0)
    largest = 4.0 * float(pairwise(points).max())
    found = terrific_ball(points, min_count=count, radius_max=largest)
    least = max(least_radius(points, min(count, len(points))), 1e-12 * largest)
    expected = reference.first_terrific(
        points, largest, public_shapes.radii_down_to(largest, least), count
    )
    assert (found is None) == (expected is None)
    if found is not None:
        assert (found.index, found.radius) == (expected[1], 2.0 * largest / 2.0 ** expected[0])


def test_a_given_least_radius_stops_the_search():
    points = blobs(np.random.default_rng(1), [0.0], [1000.0])
    whole = terrific_ball(points, min_count=10, radius_max=1e6)
    assert whole is not None
    assert terrific_ball(points, min_count=10, radius_max=1e6, radius_min=whole.radius) is None
    kept = terrific_ball(points, min_count=10, radius_max=1e6, radius_min=whole.radius / 2.0)
    assert (kept.index, kept.radius) == (whole.index, whole.radius)
    assert public_shapes.radii_down_to(8.0, 1.0) == 4
    assert public_shapes.radii_down_to(8.0, 8.0) == 1
    assert public_shapes.radii_down_to(9.0, 1.0) == 5


def test_balls_are_closed_and_silent():
    ball = Ball(center=np.array([0.0, 0.0]), radius=5.0, index=0)
    rows = [
        [3.0, 4.0],
        [np.nextafter(3.0, 4.0), 4.0001],
        [np.nan, 0.0],
        [np.inf, 0.0],
        [1e308, -1e308],
    ]
    assert ball.contains(rows).tolist() == [True, False, False, False, False]
    assert ball.to_dict() == {"format_version": 1, "center": [0.0, 0.0], "radius": 5.0, "index": 0}
    raises(InputError, "shape", ball.contains, [[1.0]])
    with pytest.raises(ValueError, match="read-only"):
        ball.center[0] = 1.0


BALL = (terrific_ball, {"min_count": 1, "radius_max": 2.0})
CLUSTER = (supercluster, {"n_components": 2})


@pytest.mark.parametrize(("called", "options", "message"), [
    (BALL, {"min_count": 0}, "min_count"), (BALL, {"min_count": 2.0}, "min_count"),
    (BALL, {"radius_max": 0.0}, "radius_max"), (BALL, {"radius_max": math.inf}, "radius_max"),
    (BALL, {"radius_min": 3.0}, "radius_min must be at most"), (BALL, {"radius_min": 0.0}, "radius_min"),
    (BALL, {"x": [[0.0, math.nan]]}, "nan"), (CLUSTER, {"x": [[0.0, math.nan], [1.0, 1.0]]}, "nan"),
    (CLUSTER, {"x": np.zeros((1, 2))}, "at least 2 public rows"), (CLUSTER, {"n_components": 0}, "n_components"),
    (CLUSTER, {"step_factor": 0.0}, "step_factor"),
])  # fmt: skip
def test_arguments_out_of_range_are_refused(called, options, message):
    search = called[0]
    arguments = {"x": np.zeros((4, 2)), **called[1], **options}
    raises(InputError, message, search, arguments.pop("x"), **arguments)


def test_widest_gap_and_the_emptiest_valley():
    points = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])[:, None]
    gap = widest_gap(points, min_count=2)
    # From 1 the others lie at 0, 1, 1, 9, 10, 11: a ratio of 9, and the same from 11, which comes later.
    assert gap == Gap(index=1, rank=3, inner=1.0, outer=9.0)
    assert gap.ratio == 9.0
    assert widest_gap(points, min_count=4) is None
    assert widest_gap(np.zeros((6, 1)), min_count=2) is None
    assert widest_gap(np.array([0.0, 0.0, 5.0, 5.0])[:, None], min_count=2).ratio == math.inf
    # Valley takes the emptiest bin that splits.
    edges = np.array([1.0, 2.0, 4.0, 8.0])
    found = searches.valley(
        np.array([500.0, 300.0, 5.0, 200.0, 700.0]), edges, least=100.0, noise_std=1.0
    )
    assert found == {"radius": math.sqrt(8.0), "inside": 800.0, "shell": 5.0, "outside": 900.0}
    # Too many rows in the emptiest bin; too few inside it; none on a side.
    assert (
        searches.valley(
            np.array([500.0, 300.0, 40.0, 200.0, 700.0]), edges, least=100.0, noise_std=1.0
        )
        is None
    )
    assert (
        searches.valley(np.array([50.0, 30.0, 5.0, 0.0, 700.0]), edges, least=100.0, noise_std=1.0)
        is None
    )
    # A bin with too few rows inside does not count, however empty it is.
    found = searches.valley(
        np.array([50.0, 0.0, 500.0, 3.0, 700.0]), edges, least=100.0, noise_std=1.0
    )
    assert found["radius"] == math.sqrt(32.0)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e140])
def test_kmeans_with_fewer_distinct_rows_than_centers(scale):
    found = public_shapes.kmeans(np.array([[0.0, 1.0]] * 4 + [[5.0, 1.0]] * 3) * scale, 4)
    assert sorted(np.round(found[:, 0] / scale).tolist()) == [0.0, 5.0]
    assert len(public_shapes.kmeans(np.ones((5, 2)) * scale, 3)) == 1


def test_kmeans_of_many_rows_looks_at_all_of_them_in_the_end(monkeypatch):
    points = blobs(np.random.default_rng(4), [0.0, 0.0], [9.0, 0.0], [0.0, 9.0], size=400)
    whole = public_shapes.kmeans(points, 3)
    monkeypatch.setattr(tuning, "RESTART_ROWS", 100)
    assert np.allclose(
        np.sort(public_shapes.kmeans(points, 3), axis=0),
        np.sort(whole, axis=0),
        rtol=1e-12,
        atol=1e-12,
    )


def test_kmeans_cost_is_near_the_best_of_scipy():
    from scipy.cluster.vq import kmeans2

    # before SciPy 1.15
    chance = "rng" if "rng" in inspect.signature(kmeans2).parameters else "seed"

    points = np.random.default_rng(3).normal(size=(200, 3))

    def cost(centers):
        return ((points[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()

    theirs = min(cost(kmeans2(points, 6, minit="++", **{chance: seed})[0]) for seed in range(10))
    assert cost(public_shapes.kmeans(points, 6)) <= 1.02 * theirs


def radial(*arguments, edges, **options):
    """Counts in place of those of private rows: many at both ends, and none in the bin before the last."""
    cells = np.full(len(edges) + 1, 100.0)
    cells[[0, -1]], cells[-2] = 5000.0, 0.0
    return SimpleNamespace(value=cells, noise_std=1.0)


def without_rows(n):
    """A run whose rows nobody reads."""
    return SimpleNamespace(
        rows=SimpleNamespace(n=n, in_memory=None), executor=SimpleNamespace(max_memory=None)
    )


def test_a_cut_beyond_all_public_rows_is_taken_back(monkeypatch):
    """The emptiest bin may lie beyond the public gap, outside of every public row: that side would have nothing to learn from."""
    monkeypatch.setattr(Search, "payer", lambda self, node: None)
    monkeypatch.setattr(Search, "directions", lambda *arguments, count, **options: np.eye(count, 2))
    monkeypatch.setattr(Search, "radial_counts", radial)
    points = np.array(
        [[0.0, 0.0], [0.01, 0.0], [0.02, 0.0], [1.0, 0.0], [1.001, 0.0], [1.002, 0.0]]
    )
    run = without_rows(10_000)
    found = searches.tree_search(Search(run, points, 2, 0.5))
    assert found.leaves == (0,)
    assert found.tree.leaves == (0,)
    # The same answers with a valley inside the gap do cut.
    inside = {"radius": 0.5, "inside": 1.0, "shell": 0.0, "outside": 1.0}
    monkeypatch.setattr(searches, "valley", lambda counts, edges, **options: inside)
    assert len(searches.tree_search(Search(run, points, 2, 0.5)).leaves) == 2


def test_a_center_without_public_rows_is_dropped(monkeypatch):
    run = without_rows(100)
    points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    centers = np.array([[0.0, 0.5], [9.0, 0.5], [50.0, 50.0]])
    monkeypatch.setattr(searches, "kmeans", lambda seen, count: centers)
    found = searches.nearest_split(Search(run, points, 3, 0.2), np.eye(2), np.zeros(2), depth=0)
    assert found.leaves == (1, 2)
    assert sorted(np.unique(found.tree.assign(points), return_counts=True)[1].tolist()) == [2, 2]
    monkeypatch.setattr(searches, "kmeans", lambda seen, count: centers[2:])
    assert searches.nearest_split(
        Search(run, points, 3, 0.2), np.eye(2), np.zeros(2), depth=0
    ).leaves == (0,)


# ---- Algorithm 3 on point sets made for its branches, against the twin, and under scaling; bad input ----------------
def on_a_line(*steps):
    """A most isolated row at 0 with its nearest neighbor at 1 (so a step is 16), and pairs of rows at distances given in steps.

    The rows of a pair are close to each other, so they are not more isolated.
    """
    rows = [0.0, 1.0]
    for step in steps:
        rows += [16.0 * step, 16.0 * step + 0.5]
    return np.array(rows)[:, None]


# Distances of the pairs from the center, rounds, and the radius in steps that Algorithm 3 gives by hand.
BRANCHES = [
    pytest.param((), 3, 2, id="empty around: out by the second test of round 1"),
    pytest.param((2.5,), 1, 4, id="one round: a pair in the second shell makes it 1 + 3"),
    pytest.param((2.5,), 2, 5, id="grows by 3, then out with nothing near"),
    pytest.param(
        (1.5,), 2, 3, id="pure: a pair in the first shell, none in the second, out in round 2"
    ),
    pytest.param(
        (1.5, 2.5),
        2,
        4,
        id="not pure: pairs in both shells, so the empty shell behind is looked at twice",
    ),
    pytest.param((1.5, 3.5, 5.5), 2, 5, id="rounds run out"),
    pytest.param((1.5, 3.5, 5.5), 9, 7, id="pure three times, then out"),
]


@pytest.mark.parametrize(("steps", "rounds", "radius"), BRANCHES)
def test_branches_by_hand(steps, rounds, radius):
    ball = supercluster(on_a_line(*steps), n_components=rounds)
    assert ball.index == 0
    assert ball.center.tolist() == [0.0]
    assert ball.radius == 16.0 * radius
    assert ball.radius <= (3 * rounds + 1) * 16.0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_equals_the_twin(seed, rounds, dim):
    rng = np.random.default_rng(seed)
    groups = [
        rng.normal(size=(rng.integers(1, 7), dim)) * 10.0 ** rng.integers(-2, 2)
        + rng.normal(size=dim) * 10.0 ** rng.integers(0, 6)
        for _ in range(rng.integers(1, 6))
    ]
    points = np.concatenate([*groups, groups[0][:1] + 1.0])
    ball = supercluster(points, n_components=rounds)
    index, radius = supercluster_twin.supercluster(points, rounds)
    assert ball.index == index
    assert ball.radius == pytest.approx(radius, rel=1e-12)
    away = supercluster_twin.pairwise(points) + np.diag(np.full(len(points), np.inf))
    step = 16.0 * away.min(axis=1).max()
    assert step * (1 - 1e-12) <= ball.radius <= (3 * rounds + 1) * step * (1 + 1e-12)


@pytest.mark.parametrize("scale", [2.0**-300, 2.0**-20, 2.0**40, 2.0**300])
def test_moves_and_scales_with_the_rows(scale):
    points = np.random.default_rng(4).integers(-50, 50, size=(30, 3)).astype(float)
    points = np.unique(points, axis=0)
    one = supercluster(points, n_components=4)
    scaled = supercluster(points * scale, n_components=4)
    assert (scaled.index, scaled.radius) == (one.index, one.radius * scale)
    moved = supercluster(points + 1024.0, n_components=4)
    assert (moved.index, moved.radius) == (one.index, one.radius)
    assert supercluster(on_a_line(), n_components=3, step_factor=2.0).radius < 16.0


def test_lowest_index_wins_ties_and_equal_rows_have_radius_zero():
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert supercluster(square, n_components=2).index == 0
    equal = supercluster(np.ones((4, 2)), n_components=2)
    assert (equal.index, equal.radius) == (0, 0.0)
    assert equal.contains(np.ones((1, 2))).all()


def test_twin_test_notices_a_wrong_growth(monkeypatch):
    """Planted bug: a shell that holds rows adds three steps, as the other branch does."""
    source = public_shapes.find_supercluster

    def planted(points, n_components, *, step_factor=16.0):
        ball = source(points, n_components, step_factor=step_factor)
        return Ball(center=ball.center, radius=ball.radius + step_factor, index=ball.index)

    monkeypatch.setattr(public_shapes, "find_supercluster", planted)
    raises(AssertionError, None, test_branches_by_hand, (1.5,), 2, 3)


def test_too_many_rows_are_refused_before_the_wait(monkeypatch):
    monkeypatch.setattr(public_shapes, "MOST_WORK", 10.0)
    raises(
        InputError,
        "too many for pairwise distances",
        supercluster,
        np.arange(8.0).reshape(4, 2),
        n_components=2,
    )
