"""The public search for a terrific ball, the widest gap, and k-means on public rows."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import geometry as reference
from twins.supercluster import least_radius, pairwise

from fastpubpriv import InputError
from fastpubpriv.mixtures.separated import balls, kmeans, practical
from fastpubpriv.mixtures.separated.balls import Ball, Gap, terrific_ball, widest_gap
from fastpubpriv.mixtures.separated.search import Search


def blobs(rng, *centers, size=20, scale=1.0):
    centers = np.asarray(centers, dtype=float)
    return np.concatenate([center + scale * rng.normal(size=(size, centers.shape[1])) for center in centers])


def test_two_tight_blobs_far_apart():
    points = blobs(np.random.default_rng(0), [0.0, 0.0], [100.0, 0.0])
    ball = terrific_ball(points, min_count=10, radius_max=1000.0)
    inside = ball.contains(points)
    assert inside.sum() == 20
    assert inside[ball.index]
    # Radius 2 r: r holds all of the blob, and nothing lies between r and 11 r.
    away = np.sort(balls.distances(points, ball.center))
    assert away[19] <= ball.radius / 2.0
    assert away[20] > 5.5 * ball.radius
    assert np.log2(2000.0 / ball.radius) % 1.0 == 0.0


def one_gaussian(seed, dim=3, size=100):
    points = np.random.default_rng(seed).normal(size=(size, dim))
    return terrific_ball(points, min_count=size // 8, radius_max=50.0)


def test_one_gaussian_has_no_terrific_ball():
    assert sum(one_gaussian(seed) is not None for seed in range(30)) <= 1


def test_that_test_notices_a_missing_shell(monkeypatch):
    """Planted bug: the shell reaches no farther than the ball."""
    monkeypatch.setattr(reference, "OUTER", 1.0)
    monkeypatch.setattr(balls.geometry, "first_terrific", reference.first_terrific)
    with pytest.raises(AssertionError):
        test_one_gaussian_has_no_terrific_ball()


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
    expected = reference.first_terrific(points, largest, balls.radii_down_to(largest, least), count)
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
    assert balls.radii_down_to(8.0, 1.0) == 4
    assert balls.radii_down_to(8.0, 8.0) == 1
    assert balls.radii_down_to(9.0, 1.0) == 5


def test_balls_are_closed_and_silent():
    ball = Ball(center=np.array([0.0, 0.0]), radius=5.0, index=0)
    rows = [[3.0, 4.0], [np.nextafter(3.0, 4.0), 4.0001], [np.nan, 0.0], [np.inf, 0.0], [1e308, -1e308]]
    assert ball.contains(rows).tolist() == [True, False, False, False, False]
    assert ball.to_dict() == {"center": [0.0, 0.0], "radius": 5.0, "index": 0}
    with pytest.raises(InputError, match="shape"):
        ball.contains([[1.0]])
    with pytest.raises(ValueError, match="read-only"):
        ball.center[0] = 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_count": 0}, "min_count"),
        ({"min_count": 2.0}, "min_count"),
        ({"radius_max": 0.0}, "radius_max"),
        ({"radius_max": math.inf}, "radius_max"),
        ({"radius_min": 3.0}, "radius_min must be at most"),
        ({"radius_min": 0.0}, "radius_min"),
        ({"x_pub": [[0.0, math.nan]]}, "nan"),
    ],
)
def test_arguments_out_of_range_are_refused(options, message):
    arguments = {"x_pub": np.zeros((4, 2)), "min_count": 1, "radius_max": 2.0, **options}
    with pytest.raises(InputError, match=message):
        terrific_ball(arguments.pop("x_pub"), **arguments)


def test_widest_gap():
    points = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])[:, None]
    gap = widest_gap(points, min_count=2)
    # From 1 the others lie at 0, 1, 1, 9, 10, 11: a ratio of 9, and the same from 11, which comes later.
    assert gap == Gap(index=1, rank=3, inner=1.0, outer=9.0)
    assert gap.ratio == 9.0
    assert widest_gap(points, min_count=4) is None
    assert widest_gap(np.zeros((6, 1)), min_count=2) is None
    assert widest_gap(np.array([0.0, 0.0, 5.0, 5.0])[:, None], min_count=2).ratio == math.inf


def test_valley_takes_the_emptiest_bin_that_splits():
    edges = np.array([1.0, 2.0, 4.0, 8.0])
    found = practical.valley(np.array([500.0, 300.0, 5.0, 200.0, 700.0]), edges, least=100.0, noise_std=1.0)
    assert found == {"radius": math.sqrt(8.0), "inside": 800.0, "shell": 5.0, "outside": 900.0}
    # Too many rows in the emptiest bin; too few inside it; none on a side.
    assert practical.valley(np.array([500.0, 300.0, 40.0, 200.0, 700.0]), edges, least=100.0, noise_std=1.0) is None
    assert practical.valley(np.array([50.0, 30.0, 5.0, 0.0, 700.0]), edges, least=100.0, noise_std=1.0) is None
    # A bin with too few rows inside does not count, however empty it is.
    found = practical.valley(np.array([50.0, 0.0, 500.0, 3.0, 700.0]), edges, least=100.0, noise_std=1.0)
    assert found["radius"] == math.sqrt(32.0)


def test_histogram_covers_the_gap():
    edges = practical.histogram_edges(Gap(index=0, rank=3, inner=1.0, outer=2.0))
    assert edges[0] == pytest.approx(math.exp(-0.25))
    assert edges[-1] == pytest.approx(2.0 * math.exp(0.25))
    assert len(edges) == 1 + round((math.log(2.0) + 0.5) / 0.1)
    # Copies have no smallest distance; the histogram stays small.
    assert len(practical.histogram_edges(Gap(index=0, rank=3, inner=0.0, outer=2.0))) < 80


def test_kmeans_finds_blobs_and_is_the_same_every_time():
    rng = np.random.default_rng(2)
    centers = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0], [50.0, 50.0]])
    points = blobs(rng, *centers, size=5) + 1e6
    found = kmeans.kmeans(points, 4)
    order = np.lexsort(np.round(found / 50.0).T)
    assert np.allclose(found[order] - 1e6, centers[np.lexsort(centers.T)], atol=3.0)
    assert np.array_equal(found, kmeans.kmeans(points, 4))


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e140])
def test_kmeans_with_fewer_distinct_rows_than_centres(scale):
    found = kmeans.kmeans(np.array([[0.0, 1.0]] * 4 + [[5.0, 1.0]] * 3) * scale, 4)
    assert sorted(np.round(found[:, 0] / scale).tolist()) == [0.0, 5.0]
    assert len(kmeans.kmeans(np.ones((5, 2)) * scale, 3)) == 1


def test_kmeans_of_many_rows_looks_at_all_of_them_in_the_end(monkeypatch):
    points = blobs(np.random.default_rng(4), [0.0, 0.0], [9.0, 0.0], [0.0, 9.0], size=400)
    whole = kmeans.kmeans(points, 3)
    monkeypatch.setattr(kmeans, "RESTART_ROWS", 100)
    assert np.allclose(np.sort(kmeans.kmeans(points, 3), axis=0), np.sort(whole, axis=0), rtol=1e-12, atol=1e-12)


def test_kmeans_cost_is_near_the_best_of_scipy():
    from scipy.cluster.vq import kmeans2

    points = np.random.default_rng(3).normal(size=(200, 3))

    def cost(centers):
        return ((points[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()

    theirs = min(cost(kmeans2(points, 6, minit="++", rng=seed)[0]) for seed in range(10))
    assert cost(kmeans.kmeans(points, 6)) <= 1.02 * theirs


# ---- A side without public rows -------------------------------------------------------------------------------------


class Answers:
    """Stands in for the private queries of a search: leading axes, and counts that it was given."""

    def __init__(self, monkeypatch, counts):
        self.counts = counts
        monkeypatch.setattr(Search, "payer", lambda self, node: None)
        monkeypatch.setattr(Search, "directions", lambda *arguments, count, **options: np.eye(count, 2))
        monkeypatch.setattr(Search, "radial_counts", self.radial)

    def radial(self, *arguments, edges, **options):
        cells = np.full(len(edges) + 1, 100.0)
        cells[[0, -1]] = self.counts
        cells[-2] = 0.0
        return SimpleNamespace(value=cells, noise_std=1.0)


def without_rows(n):
    """A run whose rows nobody reads."""
    return SimpleNamespace(rows=SimpleNamespace(n=n, in_memory=None), executor=SimpleNamespace(max_memory=None))


def test_a_cut_beyond_all_public_rows_is_taken_back(monkeypatch):
    """The emptiest bin may lie beyond the public gap, outside of every public row: that side would have nothing to learn from."""
    Answers(monkeypatch, (5000.0, 5000.0))
    points = np.array([[0.0, 0.0], [0.01, 0.0], [0.02, 0.0], [1.0, 0.0], [1.001, 0.0], [1.002, 0.0]])
    run = without_rows(10_000)
    found = practical.tree_search(Search(run, points, 2, 0.5))
    assert found.leaves == (0,)
    assert found.tree.leaves == (0,)
    # The same answers with a valley inside the gap do cut.
    monkeypatch.setattr(
        practical,
        "valley",
        lambda counts, edges, **options: {"radius": 0.5, "inside": 1.0, "shell": 0.0, "outside": 1.0},
    )
    assert len(practical.tree_search(Search(run, points, 2, 0.5)).leaves) == 2


def test_a_centre_without_public_rows_is_dropped(monkeypatch):
    run = without_rows(100)
    points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    centers = np.array([[0.0, 0.5], [9.0, 0.5], [50.0, 50.0]])
    monkeypatch.setattr(practical, "kmeans", lambda seen, count: centers)
    found = practical.nearest_split(Search(run, points, 3, 0.2), np.eye(2), np.zeros(2), depth=0)
    assert found.leaves == (1, 2)
    assert sorted(np.unique(found.tree.assign(points), return_counts=True)[1].tolist()) == [2, 2]
    monkeypatch.setattr(practical, "kmeans", lambda seen, count: centers[2:])
    assert practical.nearest_split(Search(run, points, 3, 0.2), np.eye(2), np.zeros(2), depth=0).leaves == (0,)
