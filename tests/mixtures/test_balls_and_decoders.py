"""The public search for a terrific ball, the widest gap, and k-means on public rows."""

import inspect
import math
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from spies import SpyRows, seeded
from twins import geometry as reference
from twins import supercluster as supercluster_twin
from twins.supercluster import least_radius, pairwise

from fastpubpriv import AccuracyWarning, ApproxDP, BudgetError, InputError, Ledger, PureDP
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.list_decoding import (
    decode_axis_aligned,
    decode_gaussians,
    decode_means,
    decode_variances,
    results,
)
from fastpubpriv.mixtures.list_decoding.decoders import MAX_SCALES
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


# ---- List decoders: what they promise, on samples; lists no longer than the lemmas; reasons; refusals before anything is read.
BUDGET = ApproxDP(1, 1e-6)


def sample(rng, n, parts):
    """A mixture of (weight, mean, sd), in random order."""
    weights = np.array([part[0] for part in parts])
    label = rng.choice(len(parts), size=n, p=weights / weights.sum())
    means, sds = (np.array([part[i] for part in parts]) for i in (1, 2))
    return rng.normal(means[label], sds[label])


MIXTURES = [
    [(1.0, 1e9, 3.0)], [(0.5, -2.0, 1.0), (0.5, 3.0, 0.5)], [(0.4, 0.0, 1.0), (0.6, 0.0, 1000.0)],
    [(0.3, -5e8, 1.0), (0.3, 0.0, 0.3), (0.4, 4e8, 200.0)],
]  # fmt: skip


@pytest.mark.parametrize("parts", MIXTURES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_pair_is_close_to_every_component(parts, seed):
    values = sample(np.random.default_rng(seed), 60_000, parts)
    lists = seeded(decode_gaussians, values, budget=BUDGET, min_weight=0.3, random_state=seed)
    means, scales, counts = lists.coarse()
    assert lists.status == "ok"
    for _, mean, sd in parts:
        good = (scales >= sd) & (scales < 2 * sd) & (np.abs(means - mean) <= sd)
        assert good.any()
        assert ((np.abs(lists.net(0, 0.25) - [mean, sd]) <= 0.25 * sd).all(axis=1)).any()
    assert len(lists.scales[0]) <= 12
    assert len(lists.net(0, 0.25)) == lists.net_size(0, 0.25) == lists.list_size(0.25)
    # The halves are 30,000 rows, so counts above the share of the weight.
    assert counts.min() / 30_000 > 0.5 * results.MEAN_MASS * 0.3


@pytest.mark.parametrize("seed", range(3))
def test_theory_constants_at_the_theorems_size(seed):
    w = 0.5
    n = results.variance_rows(w, BUDGET, 0.01)
    values = sample(np.random.default_rng(seed), n, [(0.5, 7e6, 2.5), (0.5, -7e6, 0.7)])
    lists = seeded(
        decode_variances, values, budget=BUDGET, min_weight=w, mode="theory", random_state=seed
    )
    assert len(lists.scales[0]) <= results.scale_list_bound(w)
    for sd in (2.5, 0.7):
        assert ((lists.scales[0] >= sd) & (lists.scales[0] < 2 * sd)).any()
    n = results.mean_rows(w, BUDGET, 0.01)
    values = sample(np.random.default_rng(seed), n, [(0.5, 7e6, 1.3), (0.5, -7e6, 0.9)])
    lists = seeded(
        decode_means, values, std=1.6, budget=BUDGET, min_weight=w, mode="theory", random_state=seed
    )
    assert len(lists.means[0]) <= results.mean_list_bound(w)
    for mean, sd in ((7e6, 1.3), (-7e6, 0.9)):
        assert np.abs(lists.means[0] - mean).min() <= sd


def test_theory_constants_give_nothing_where_the_premise_fails(monkeypatch):
    values = np.random.default_rng(0).normal(size=20_000)
    monkeypatch.setattr(results, "scale_list_bound", lambda w: 1)
    lists = seeded(decode_variances, values, budget=BUDGET, min_weight=1.0, mode="theory")
    assert lists.part_reasons == (("unresolved",),)
    assert len(lists.scales[0]) == 0


def test_a_warning_where_the_theorem_asks_for_more():
    values = np.random.default_rng(0).normal(size=200)
    with pytest.warns(AccuracyWarning, match="asks for"):
        decode_means(values, std=1.0, budget=BUDGET, min_weight=0.5, mode="theory")
    with pytest.warns(AccuracyWarning, match="asks for"):
        decode_gaussians(values, budget=BUDGET, min_weight=0.5, mode="theory")


@pytest.mark.parametrize("seed", range(3))
def test_columns_together(seed):
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 1e6, -5.0], [50.0, 1e6, 5.0]])
    sds = np.array([[1.0, 0.1, 2.0], [3.0, 0.1, 2.0]])
    label = rng.integers(0, 2, 40_000)
    rows = rng.normal(centers[label], sds[label])
    lists = seeded(decode_axis_aligned, rows, budget=BUDGET, min_weight=0.4, random_state=seed)
    assert lists.status == "ok"
    for component in range(2):
        for column in range(3):
            mean = centers[component, column]
            sd = sds[component, column]
            means, scales, _ = lists.coarse(column)
            assert ((scales >= sd) & (scales < 2 * sd) & (np.abs(means - mean) <= sd)).any()
    assert lists.list_size(0.5) == math.prod(lists.net_size(column, 0.5 / 3) for column in range(3))
    assert [entry["histograms"] for entry in lists.releases] == [
        3,
        sum(len(s) for s in lists.scales),
    ]


def test_known_covariance():
    rng = np.random.default_rng(0)
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    factor = np.linalg.cholesky(covariance)
    centers = np.array([[1e5, -3.0], [0.0, 40.0]])
    rows = centers[rng.integers(0, 2, 30_000)] + rng.normal(size=(30_000, 2)) @ factor.T
    lists = seeded(decode_axis_aligned, rows, budget=BUDGET, min_weight=0.4, covariance=covariance)
    assert len(lists.releases) == 1
    for center in centers:
        white = np.linalg.solve(factor, center)
        nearest = [
            lists.means[j][0][np.abs(lists.means[j][0] - white[j]).argmin()] for j in range(2)
        ]
        assert np.abs(np.array(nearest) - white).max() <= 1.0
        fine = [lists.net(j, 0.1)[:, 0] for j in range(2)]
        best = np.array([line[np.abs(line - white[j]).argmin()] for j, line in enumerate(fine)])
        assert np.abs(best - white).max() <= 0.2 / 2 + 1e-9


def test_empty_lists_and_the_longest_counts():
    for values in (np.full(2000, 3.5), np.full(2000, np.nan), np.zeros(4)):
        lists = decode_gaussians(values, budget=BUDGET)
        assert lists.part_reasons == (("unresolved",),)
        assert lists.coarse()[0].size == lists.net(0, 0.5).size == lists.list_size(0.5) == 0
        assert lists.spent == BUDGET
        assert decode_variances(values, budget=BUDGET).reasons == ("unresolved",)
    assert decode_means(np.full(5, np.inf), std=1.0, budget=BUDGET).reasons == ("unresolved",)
    assert decode_axis_aligned(np.zeros((4, 3)), budget=BUDGET).reasons == ("unresolved",)
    # The longest counts are kept.
    rng = np.random.default_rng(0)
    values = np.where(
        rng.random(40_000) < 0.5, rng.normal(size=40_000), rng.normal(0.0, 1e6, 40_000)
    )
    many = seeded(decode_variances, values, budget=BUDGET, min_weight=0.05)
    few = seeded(decode_variances, values, budget=BUDGET, min_weight=0.05, max_scales=2)
    assert len(many.scales[0]) > 2 == len(few.scales[0])
    assert set(few.counts[0]) == set(np.sort(many.counts[0])[-2:])
    assert (np.diff(few.scales[0]) > 0).all()


def test_every_scale_above_the_threshold_is_kept():
    # Differences between heavy components fill more bins than those within the light ones, which 12 bins would lose.
    means = np.array([0.0, 500.0, -2e4, 1e6])
    stds = np.array([1e-3, 1.0, 30.0, 1e4])
    weights = [0.15, 0.15, 0.2, 0.5]
    found = {most: [] for most in (MAX_SCALES, 12)}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labels = rng.choice(4, size=40_000, p=weights)
        values = rng.normal(means[labels], stds[labels])
        for most, complete in found.items():
            lists = seeded(
                decode_gaussians, values, budget=BUDGET, min_weight=0.15, max_scales=most
            )
            near = [(lists.scales[0] >= std) & (lists.scales[0] < 2.0 * std) for std in stds]
            complete.append(all(which.any() for which in near))
    assert all(found[MAX_SCALES])
    assert not any(found[12])
    # Hidden scales at the ends of doubles.
    for size in (1e-320, 1e300, 4e307):
        values = np.clip(np.random.default_rng(0).normal(size=4000), -4, 4) * size
        lists = seeded(decode_gaussians, values, budget=BUDGET, min_weight=0.9)
        assert all(np.isfinite(scales).all() and (scales > 0).all() for scales in lists.scales)
        assert all(np.isfinite(means).all() for means in lists.means[0])


def test_the_papers_composition_is_valid_and_worse():
    values = sample(np.random.default_rng(0), 100_000, MIXTURES[1])
    exact = seeded(decode_gaussians, values, budget=BUDGET)
    paper = seeded(decode_gaussians, values, budget=BUDGET, accounting="paper")
    assert paper.releases[1]["noise_std"] > 4 * exact.releases[1]["noise_std"]
    assert paper.releases[0]["epsilon"] < exact.releases[0]["epsilon"]
    assert paper.spent == exact.spent == BUDGET


REFUSED = [
    (lambda x: decode_gaussians(x, budget=PureDP(1)), BudgetError),
    (lambda x: decode_gaussians(x, budget=BUDGET, min_weight=0.0), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, min_weight=1.5), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, mode="other"), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, failure_prob=1.0), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, accounting="advanced"), InputError),
    (lambda x: decode_variances(x, budget=BUDGET, max_scales=1.5), InputError),
    (lambda x: decode_means(x, std=0.0, budget=BUDGET), InputError),
    (lambda x: decode_means(x, std=[1.0, 2.0], budget=BUDGET), InputError),
    (lambda x: decode_axis_aligned(x, budget=BUDGET, covariance=[[-1.0]]), InputError),
    (lambda x: decode_axis_aligned(x, budget=BUDGET, covariance=np.eye(2)), InputError),
    (lambda x: decode_variances(x, budget=BUDGET, ledger=Ledger(ApproxDP(0.5, 1e-6))), BudgetError),
]


@pytest.mark.parametrize(("call", "error"), REFUSED)
def test_refused_before_anything_is_read(call, error):
    log = []
    raises(error, None, call, SpyRows(np.zeros((100, 1)), log))
    assert log == []


def test_refused_shapes():
    raises(InputError, "one column", decode_gaussians, np.zeros((10, 2)), budget=BUDGET)
    raises(InputError, "four rows", decode_gaussians, np.zeros(3), budget=BUDGET)
    raises(InputError, "two rows", decode_variances, np.zeros(1), budget=BUDGET)
    raises(InputError, "two-dimensional", decode_means, np.zeros((2, 2, 2)), std=1.0, budget=BUDGET)
