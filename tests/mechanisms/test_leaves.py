"""Releases over the leaves of a tree: the exact integers of each leaf's own rows, with sensitivities by case."""

import math
from fractions import Fraction

import numpy as np
import pytest
from leaf_cases import CENTERS, DIM, HOSTILE, LEAVES, ONE_THREAD, clustered, maps, neighbours, opened, three_leaves
from releases import (
    release_leaf_counts,
    release_leaf_second_moments,
    release_leaf_sums,
    release_second_moment,
    release_shell_counts,
    release_vector_sum,
)

from fastpubpriv import ZCDP, ApproxDP, PureDP
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.mechanisms.sums import AffineMap, mirror
from fastpubpriv.privacy import GaussianEvent
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources import private_rows

BUDGETS = {"zcdp": ZCDP(10), "approx": ApproxDP(60, 1e-6), "pure": PureDP(10)}
RADII = [4.0, 2.0, 7.0]
COST = Fraction(1)


def all_three(account, rows, executor=ONE_THREAD, *, tree=None, affines=None):
    """The three joint releases."""
    routes = (three_leaves() if tree is None else tree).routes(LEAVES)
    affines = maps() if affines is None else affines
    options = {"cost": COST, "executor": executor}
    return (
        release_leaf_counts(account, rows, routes, name="counts", **options),
        release_leaf_sums(account, rows, routes, affines, name="sums", radii=RADII, **options),
        release_leaf_second_moments(account, rows, routes, affines, name="moments", radii=RADII, **options),
    )


def integers(x, budget=BUDGETS["zcdp"], **options):
    """The exact integers that the three releases ask about, with their events."""
    with recording() as transcript:
        all_three(opened(budget), private_rows(x) if isinstance(x, np.ndarray) else x, **options)
    return transcript.calls


@pytest.mark.parametrize("notion", BUDGETS)
def test_each_leaf_gets_the_integers_of_its_own_rows(notion):
    x = np.concatenate([clustered(np.random.default_rng(1), 500, 2.0), HOSTILE])
    reached = three_leaves().assign(x)
    counts, sums, moments = integers(x, BUDGETS[notion])
    quanta = {call.name: call.event for call in (counts, sums, moments)}
    upper = np.triu_indices(DIM)
    for index, (leaf, affine, radius) in enumerate(zip(LEAVES, maps(), RADII, strict=True)):
        own = np.ascontiguousarray(x[reached == leaf])
        assert len(own) > 20
        assert counts.query[index] % len(own) == 0
        for call, kernel, shape in ((sums, kernels.rows_sum, (DIM,)), (moments, kernels.rows_gram, (DIM, DIM))):
            bound = bound_of(quanta[call.name], call.name, notion == "pure")
            steps = bound - math.ceil(math.sqrt(DIM) / 2) - 1
            row_map = affine.row_map(quant_bound=bound, inv_step=1.0 / (radius / steps), limit=float(steps))
            expected = np.zeros(shape, dtype=np.int64)
            kernel(own, row_map, expected)
            if call is moments:
                expected = mirror(expected)
                expected = expected[upper] if notion == "pure" else expected
            np.testing.assert_array_equal(call.query[index], expected)


def bound_of(event, name, pure):
    """Q from the sensitivities of an event."""
    worst = event.clusters.stay if name == "sums" else event.clusters.move
    if not pure:
        return math.isqrt(worst // 4) if name == "sums" else math.isqrt(math.isqrt(worst // 2))
    candidates = range(1, 2**26) if name == "sums" else range(1, 2897)
    low, high = candidates.start, candidates.stop
    while low + 1 < high:
        middle = (low + high) // 2
        value = math.isqrt(4 * DIM * middle**2) if name == "sums" else 2 * ((DIM + 1) * middle**2 // 2)
        low, high = (middle, high) if value <= worst else (low, middle)
    return low


def case_of(x, y):
    """Whether the replaced row stays, moves or only enters or leaves, or "none"."""
    index = np.flatnonzero((x.view(np.int64) != y.view(np.int64)).any(axis=1))
    if not len(index):
        return "none"
    before, after = (three_leaves().assign(rows[index])[0] for rows in (x, y))
    return (
        "none" if before == after == -1 else "stay" if before == after else "cross" if -1 in (before, after) else "move"
    )


@pytest.mark.parametrize("notion", BUDGETS)
def test_distance_is_within_the_case(notion):
    """Exact integers: no neighbour moves an answer by more than its case allows."""
    rng = np.random.default_rng(3)
    seen = set()
    for x, y in neighbours(rng, 150):
        case = case_of(x, y)
        seen.add(case)
        for one, two in zip(integers(x, BUDGETS[notion]), integers(y, BUDGETS[notion]), strict=True):
            gaps = [int(gap) for gap in (one.query - two.query).ravel()]
            moved = sum(map(abs, gaps)) if notion == "pure" else sum(gap * gap for gap in gaps)
            clusters = one.event.clusters
            allowed = {"stay": clusters.stay, "move": clusters.move, "cross": clusters.move / 2, "none": 0}[case]
            assert moved <= allowed, (case, one.name)
    assert seen >= {"stay", "move", "cross"}


def test_sensitivities_are_reached():
    identity = [AffineMap(dim=DIM, center=center) for center in CENTERS]
    far = 1e9
    base = np.tile(CENTERS[1], (4, 1))
    up, side, below = base.copy(), base.copy(), base.copy()
    up[0] += [0.0, far, 0.0]
    side[0] += [far, 1.0, 0.0]
    below[0] = CENTERS[2] - [0.0, far, 0.0]
    opposite = base.copy()
    base[0] += [-far, 1.0, 0.0]
    opposite[0] += [far, 1.0, 0.0]

    def squared(x, y):
        pairs = zip(integers(x, affines=identity), integers(y, affines=identity), strict=True)
        return {
            one.name: (sum(int(gap) ** 2 for gap in (one.query - two.query).ravel()), one.event.clusters)
            for one, two in pairs
        }

    stays = squared(up, side)
    moved, clusters = stays["moments"]
    assert 0.99 * clusters.stay <= moved <= clusters.stay
    assert stays["counts"][0] == 0 == stays["counts"][1].stay
    moved, clusters = squared(base, opposite)["sums"]
    assert 0.99 * clusters.stay <= moved <= clusters.stay
    for name, (moved, clusters) in squared(up, below).items():
        assert 0.99 * clusters.move <= moved <= clusters.move, name


@pytest.mark.parametrize("notion", BUDGETS)
def test_answers_are_near_the_truth(notion):
    x = clustered(np.random.default_rng(4), 20_000)
    reached = three_leaves().assign(x)
    counts, sums, moments = all_three(
        opened(BUDGETS[notion]), private_rows(x), affines=[AffineMap(dim=DIM, center=c) for c in CENTERS]
    )
    for index, leaf in enumerate(LEAVES):
        gaps = x[reached == leaf] - CENTERS[index]
        norms = np.linalg.norm(gaps, axis=1, keepdims=True)
        clipped = gaps * np.minimum(1.0, RADII[index] / np.maximum(norms, 1e-300))
        # Forty standard deviations of the noise (Laplace: e^-56), and a grid step for each row.
        for released, truth in ((counts, len(gaps)), (sums, clipped.sum(axis=0)), (moments, clipped.T @ clipped)):
            room = 40.0 * released.noise_std[index] + 1e-2 * len(gaps)
            assert np.abs(released.value[index] - truth).max() < room
            assert released.noise_std[index] < 0.05 * len(gaps)
        np.testing.assert_array_equal(moments.value[index], moments.value[index].T)


@pytest.mark.parametrize("notion", BUDGETS)
def test_noise_levels_follow_the_unit_of_each_leaf(notion):
    counts, sums, moments = all_three(opened(BUDGETS[notion]), private_rows(np.zeros((10, DIM))))
    ratio = np.array(RADII) / RADII[0]
    np.testing.assert_allclose(sums.noise_std, sums.noise_std[0] * ratio)
    np.testing.assert_allclose(moments.noise_std, moments.noise_std[0] * ratio**2)
    assert len(set(counts.noise_std)) == 1
    for released, cells in ((counts, 3), (sums, 3 * DIM), (moments, 3 * DIM * DIM)):
        expected = 3 * DIM * (DIM + 1) // 2 if notion == "pure" and released is moments else cells
        assert released.event.draws == expected
        cost = released.event.epsilon if notion == "pure" else released.event.rho
        assert 0.99 * COST < cost <= COST


def test_no_row_is_no_problem():
    for call in integers(np.full((5, DIM), np.nan)):
        assert not call.query.any()


@pytest.mark.parametrize(
    ("affines", "radii"),
    [
        (maps()[:2], RADII),
        (maps(), RADII[:2]),
        ([*maps()[:2], maps(out_dim=4)[2]], RADII),
        (maps(), [1.0, 0.0, 1.0]),
        (maps(), [1.0, math.nan, 1.0]),
    ],
)
def test_refuses_what_does_not_fit_together(affines, radii):
    account, rows = opened(ZCDP(10)), private_rows(np.zeros((4, DIM)))
    routes = three_leaves().routes(LEAVES)
    for release in (release_leaf_sums, release_leaf_second_moments):
        with pytest.raises(InputError):
            release(account, rows, routes, affines, name="x", radii=radii, cost=COST, executor=ONE_THREAD)
    assert account.charged == 0


# `only=`: releases on the rows of one node.


@pytest.mark.parametrize("node", [0, 1, 2, 4])
@pytest.mark.parametrize("notion", ["zcdp", "pure"])
def test_only_looks_at_the_rows_of_a_node(node, notion):
    x = np.concatenate([clustered(np.random.default_rng(5), 700, 2.0), HOSTILE])
    tree, affine = three_leaves(), maps()[0]
    own = x[tree.members(x, node)]
    assert 0 < len(own) < len(x)
    options = {"cost": COST, "executor": ONE_THREAD}

    def run(rows, only):
        with recording() as transcript:
            account = opened(BUDGETS[notion])
            release_vector_sum(account, rows, affine, name="sum", radius=3.0, only=only, **options)
            release_second_moment(account, rows, affine, name="gram", radius=3.0, only=only, **options)
            release_shell_counts(
                account, rows, affine, name="shells", edges=np.array([1.0, 2.0, 4.0]), only=only, **options
            )
        return transcript.calls

    # The rows of the node alone, padded with neutral rows to the same public n.
    padded = np.full(x.shape, np.nan)
    padded[: len(own)] = own
    for one, two in zip(run(private_rows(x), tree.only(node)), run(private_rows(padded), tree.only(node)), strict=True):
        np.testing.assert_array_equal(one.query, two.query)
        assert one.query.any()
        assert one.event.clusters.lineage == tree.only(node).lineage
    if notion == "zcdp":  # the price is that of the same release over all rows
        for one, two in zip(run(private_rows(x), tree.only(node)), run(private_rows(x), None), strict=True):
            assert one.event.squared_sensitivity == two.event.squared_sensitivity == one.event.clusters.stay
            assert two.event.clusters is None
            assert one.event.clusters.move <= one.event.clusters.stay


def test_entering_or_leaving_a_node_costs_half():
    """Exact integers: a row that enters moves the answer by at most half of what the event gives to a move."""
    tree, affine = three_leaves(), AffineMap(dim=DIM, center=CENTERS[1])
    x = np.tile(CENTERS[1], (3, 1))
    y = x.copy()
    y[0], x[0] = CENTERS[2], CENTERS[1] + [0.0, 1e9, 0.0]
    for notion in ("zcdp", "pure"):
        found = []
        for rows in (x, y):
            with recording() as transcript:
                account, only = opened(BUDGETS[notion]), tree.only(3)
                options = {"cost": COST, "executor": ONE_THREAD, "only": only}
                release_vector_sum(account, private_rows(rows), affine, name="sum", radius=3.0, **options)
                release_second_moment(account, private_rows(rows), affine, name="gram", radius=3.0, **options)
                release_shell_counts(
                    account, private_rows(rows), affine, name="shells", edges=np.array([1.0]), **options
                )
            found.append(transcript.calls)
        for one, two in zip(*found, strict=True):
            gaps = [int(gap) for gap in (one.query - two.query).ravel()]
            moved = sum(map(abs, gaps)) if notion == "pure" else sum(gap * gap for gap in gaps)
            assert 0 < moved <= one.event.clusters.move / 2
            if isinstance(one.event, GaussianEvent):
                assert moved >= 0.99 * one.event.clusters.move / 2
