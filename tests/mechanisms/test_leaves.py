"""Releases over the leaves of a tree: the exact integers of each leaf's own rows, with sensitivities by case."""

import math
from fractions import Fraction

import leaf_cases
import numpy as np
import pytest
from helpers import accounts
from helpers.errors import raises
from releases import release_cell_counts, release_code_counts, release_statistic_sum

from fastpubpriv import ZCDP, ApproxDP, KernelError, PureDP
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    ColumnBox,
    SecondMoment,
    VectorSum,
    WithCompleteRows,
    in_shape,
)
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

BUDGETS = {"zcdp": ZCDP(10), "approx": ApproxDP(60, 1e-6), "pure": PureDP(10)}
RADII = [4.0, 2.0, 7.0]
COST = Fraction(1)


def all_three(x, budget=BUDGETS["zcdp"], affines=None):
    """The three joint releases."""
    account, rows, routes = leaf_cases.stage(x, budget)
    affines = leaf_cases.maps() if affines is None else affines
    return (
        leaf_cases.leaf_counts(account, rows, routes, name="counts", cost=COST),
        leaf_cases.leaf_sums(account, rows, routes, affines, name="sums", radii=RADII, cost=COST),
        leaf_cases.leaf_second_moments(
            account, rows, routes, affines, name="moments", radii=RADII, cost=COST
        ),
    )


def integers(*given, **options):
    """The exact integers that the three releases ask about, with their events."""
    with recording() as transcript:
        all_three(*given, **options)
    return transcript.calls


@pytest.mark.parametrize("notion", BUDGETS)
def test_each_leaf_gets_the_integers_of_its_own_rows(notion):
    x = np.concatenate(
        [leaf_cases.clustered(np.random.default_rng(1), 500, 2.0), leaf_cases.HOSTILE]
    )
    reached = leaf_cases.three_leaves().assign(x)
    counts, sums, moments = integers(x, BUDGETS[notion])
    quanta = {call.name: call.event for call in (counts, sums, moments)}
    for index, (leaf, affine, radius) in enumerate(
        zip(leaf_cases.LEAVES, leaf_cases.maps(), RADII, strict=True)
    ):
        own = np.ascontiguousarray(x[reached == leaf])
        assert len(own) > 20
        assert counts.query[index] % len(own) == 0
        for call, kernel, shape in (
            (sums, kernels.rows_sum, (leaf_cases.DIM,)),
            (moments, kernels.rows_gram, (leaf_cases.DIM, leaf_cases.DIM)),
        ):
            bound = bound_of(quanta[call.name], call.name, notion == "pure")
            steps = bound - math.ceil(math.sqrt(leaf_cases.DIM) / 2) - 1
            row_map = affine.row_map(
                quant_bound=bound, inv_step=1.0 / (radius / steps), limit=float(steps)
            )
            expected = np.zeros(shape, dtype=np.int64)
            kernel(own, row_map, expected)
            if call is moments:
                expected = in_shape(expected, call.query[index].shape)
            np.testing.assert_array_equal(call.query[index], expected)


def bound_of(event, name, pure):
    """Q from the sensitivities of an event."""
    worst = event.clusters.stay if name == "sums" else event.clusters.move
    if not pure:
        return math.isqrt(worst // 4) if name == "sums" else math.isqrt(math.isqrt(worst // 2))
    candidates = range(1, 2**26) if name == "sums" else range(1, 2897)
    low = candidates.start
    high = candidates.stop
    while low + 1 < high:
        middle = (low + high) // 2
        value = (
            math.isqrt(4 * leaf_cases.DIM * middle**2)
            if name == "sums"
            else 2 * ((leaf_cases.DIM + 1) * middle**2 // 2)
        )
        low, high = (middle, high) if value <= worst else (low, middle)
    return low


def case_of(x, y):
    """Whether the replaced row stays, moves or only enters or leaves, or "none"."""
    index = np.flatnonzero((x.view(np.int64) != y.view(np.int64)).any(axis=1))
    if not len(index):
        return "none"
    before = leaf_cases.three_leaves().assign(x[index])[0]
    after = leaf_cases.three_leaves().assign(y[index])[0]
    return (
        "none"
        if before == after == -1
        else "stay"
        if before == after
        else "cross"
        if -1 in (before, after)
        else "move"
    )


@pytest.mark.parametrize("notion", BUDGETS)
def test_distance_is_within_the_case(notion):
    """Exact integers: no neighbor moves an answer by more than its case allows."""
    rng = np.random.default_rng(3)
    seen = set()
    for x, y in leaf_cases.neighbors(rng, 150):
        case = case_of(x, y)
        seen.add(case)
        for one, two in zip(
            integers(x, BUDGETS[notion]), integers(y, BUDGETS[notion]), strict=True
        ):
            gaps = [int(gap) for gap in (one.query - two.query).ravel()]
            moved = sum(map(abs, gaps)) if notion == "pure" else sum(gap * gap for gap in gaps)
            clusters = one.event.clusters
            allowed = {
                "stay": clusters.stay,
                "move": clusters.move,
                "cross": clusters.move / 2,
                "none": 0,
            }[case]
            assert moved <= allowed, (case, one.name)
    assert seen >= {"stay", "move", "cross"}


def test_sensitivities_are_reached():
    far = 1e9
    base = np.tile(leaf_cases.CENTERS[1], (4, 1))
    up = base.copy()
    side = base.copy()
    below = base.copy()
    up[0] += [0.0, far, 0.0]
    side[0] += [far, 1.0, 0.0]
    below[0] = leaf_cases.CENTERS[2] - [0.0, far, 0.0]
    opposite = base.copy()
    base[0] += [-far, 1.0, 0.0]
    opposite[0] += [far, 1.0, 0.0]

    def squared(x, y):
        pairs = zip(
            integers(x, affines=leaf_cases.CENTERED),
            integers(y, affines=leaf_cases.CENTERED),
            strict=True,
        )
        return {
            one.name: (
                sum(int(gap) ** 2 for gap in (one.query - two.query).ravel()),
                one.event.clusters,
            )
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
def test_answers_and_noise_levels_of_leaves(notion):
    x = leaf_cases.clustered(np.random.default_rng(4), 20_000)
    reached = leaf_cases.three_leaves().assign(x)
    counts, sums, moments = all_three(x, BUDGETS[notion], leaf_cases.CENTERED)
    for index, leaf in enumerate(leaf_cases.LEAVES):
        gaps = x[reached == leaf] - leaf_cases.CENTERS[index]
        norms = np.linalg.norm(gaps, axis=1, keepdims=True)
        clipped = gaps * np.minimum(1.0, RADII[index] / np.maximum(norms, 1e-300))
        # Forty standard deviations of the noise (Laplace: e^-56), and a grid step for each row.
        for released, truth in (
            (counts, len(gaps)),
            (sums, clipped.sum(axis=0)),
            (moments, clipped.T @ clipped),
        ):
            room = 40.0 * released.noise_std[index] + 1e-2 * len(gaps)
            assert np.abs(released.value[index] - truth).max() < room
            assert released.noise_std[index] < 0.05 * len(gaps)
        np.testing.assert_array_equal(moments.value[index], moments.value[index].T)
    # Noise levels follow the unit of each leaf.
    counts, sums, moments = all_three(np.zeros((10, leaf_cases.DIM)), BUDGETS[notion])
    ratio = np.array(RADII) / RADII[0]
    np.testing.assert_allclose(sums.noise_std, sums.noise_std[0] * ratio)
    np.testing.assert_allclose(moments.noise_std, moments.noise_std[0] * ratio**2)
    assert len(set(counts.noise_std)) == 1
    for released, cells in (
        (counts, 3),
        (sums, 3 * leaf_cases.DIM),
        (moments, 3 * leaf_cases.DIM * leaf_cases.DIM),
    ):
        expected = (
            3 * leaf_cases.DIM * (leaf_cases.DIM + 1) // 2
            if notion == "pure" and released is moments
            else cells
        )
        assert released.event.draws == expected
        cost = released.event.epsilon if notion == "pure" else released.event.rho
        assert 0.99 * COST < cost <= COST


def test_no_row_is_no_problem():
    for call in integers(np.full((5, leaf_cases.DIM), np.nan)):
        assert not call.query.any()


@pytest.mark.parametrize(
    ("affines", "radii"),
    [
        (leaf_cases.maps()[:2], RADII),
        (leaf_cases.maps(), RADII[:2]),
        ([*leaf_cases.maps()[:2], leaf_cases.maps(out_dim=4)[2]], RADII),
        (leaf_cases.maps(), [1.0, 0.0, 1.0]),
        (leaf_cases.maps(), [1.0, math.nan, 1.0]),
    ],
)
def test_refuses_what_does_not_fit_together(affines, radii):
    account, rows, routes = leaf_cases.stage(np.zeros((4, leaf_cases.DIM)), ZCDP(10))
    for release in (leaf_cases.leaf_sums, leaf_cases.leaf_second_moments):
        raises(
            InputError,
            None,
            release,
            account,
            rows,
            routes,
            affines,
            name="x",
            radii=radii,
            cost=COST,
        )
    assert account.charged == 0


# `only=`: releases on the rows of one node.
def of_node(x, only, notion, affine, edges):
    """The calls of the two releases that may look at one node."""
    account = leaf_cases.opened(BUDGETS[notion])
    rows = private_rows(x)
    options = {"cost": COST, "only": only}
    with recording() as transcript:
        leaf_cases.second_moment(account, rows, affine, name="gram", radius=3.0, **options)
        leaf_cases.shell_counts(
            account, rows, affine, name="shells", edges=np.array(edges), **options
        )
    return transcript.calls


@pytest.mark.parametrize("node", [0, 1, 2, 4])
@pytest.mark.parametrize("notion", ["zcdp", "pure"])
def test_only_looks_at_the_rows_of_a_node(node, notion):
    x = np.concatenate(
        [leaf_cases.clustered(np.random.default_rng(5), 700, 2.0), leaf_cases.HOSTILE]
    )
    tree = leaf_cases.three_leaves()
    affine = leaf_cases.maps()[0]
    own = x[tree.members(x, node)]
    assert 0 < len(own) < len(x)
    # The rows of the node alone, padded with neutral rows to the same public n.
    padded = np.full(x.shape, np.nan)
    padded[: len(own)] = own
    given = notion, affine, [1.0, 2.0, 4.0]
    raises(InputError, "one node", of_node, x, tree.routes((1, 2)), *given)
    for one, two in zip(
        *(of_node(rows, tree.only(node), *given) for rows in (x, padded)), strict=True
    ):
        np.testing.assert_array_equal(one.query, two.query)
        assert one.query.any()
        assert one.event.clusters.lineage == tree.only(node).lineage
    if notion == "zcdp":  # the price is that of the same release over all rows
        for one, two in zip(
            *(of_node(x, only, *given) for only in (tree.only(node), None)), strict=True
        ):
            assert (
                one.event.squared_sensitivity
                == two.event.squared_sensitivity
                == one.event.clusters.stay
            )
            assert two.event.clusters is None
            assert one.event.clusters.move <= one.event.clusters.stay


def test_no_count_of_complete_rows_is_free_in_a_node():
    """A row that enters the node moves the sum alone as much as is charged for."""
    tree = leaf_cases.three_leaves()
    affine = leaf_cases.maps()[0]
    of_a_node = SecondMoment(affine=affine, radius=3.0, only=tree.only(1))
    raises(InputError, "no count is free", WithCompleteRows, total=of_a_node)


def test_no_kernel_counts_complete_rows_behind_a_box():
    affine = leaf_cases.maps()[0]
    unit = np.ones(affine.dim)
    zero = np.zeros(affine.dim)
    box = ColumnBox(center=zero, lower=-unit, upper=unit, middle=zero, width=unit, absent=zero)
    boxed = VectorSum(affine=affine, radius=3.0, box=box)
    raises(InputError, "behind a box", WithCompleteRows, total=boxed)


def test_entering_or_leaving_a_node_costs_half():
    """Exact integers: a row that enters moves the answer by at most half of what the event gives to a move."""
    tree = leaf_cases.three_leaves()
    affine = AffineMap(dim=leaf_cases.DIM, center=leaf_cases.CENTERS[1])
    x = np.tile(leaf_cases.CENTERS[1], (3, 1))
    y = x.copy()
    y[0] = leaf_cases.CENTERS[2]
    x[0] = leaf_cases.CENTERS[1] + [0.0, 1e9, 0.0]
    for notion in ("zcdp", "pure"):
        found = [of_node(rows, tree.only(3), notion, affine, [1.0]) for rows in (x, y)]
        for one, two in zip(*found, strict=True):
            gaps = [int(gap) for gap in (one.query - two.query).ravel()]
            moved = sum(map(abs, gaps)) if notion == "pure" else sum(gap * gap for gap in gaps)
            assert 0 < moved <= one.event.clusters.move / 2
            if isinstance(one.event, GaussianEvent):
                assert moved >= 0.99 * one.event.clusters.move / 2


# ---- Counts of cells and codes, and sums of statistics: exact queries, sensitivities, prices, refusals --------------
EXECUTOR = Executor(threads=1, progress=False)
EDGES = [np.array([-1.0, 0.0, 2.5]), np.array([100.0])]
HOSTILE_CELLS = [
    np.nan,
    np.inf,
    -np.inf,
    1e308,
    -1e308,
    5e-324,
    -0.0,
    0.0,
    -1.0,
    2.5,
    np.nextafter(2.5, 3.0),
]


def exact(release, rows, **options):
    """The integers that a release asked about, in rows, and what came out."""
    with recording() as transcript:
        released = release(private_rows(rows), **options)
    call = transcript.calls[0]
    return call.query * call.unit, call, released


def cells(rows, *, account=None, cost=None, edges=EDGES):
    account = accounts.opened(PureDP(1), 100) if account is None else account
    cost = account.allowance if cost is None else cost
    return release_cell_counts(account, rows, edges, name="cells", cost=cost, executor=EXECUTOR)


def test_edges_and_values_without_a_cell():
    rows = np.array(
        [
            [-1.0, 0.0],
            [-0.0, 100.0],
            [2.5, np.nan],
            [np.nan, np.inf],
            [-np.inf, 1e308],
            [1e308, -1e308],
        ]
    )
    found, _, _ = exact(cells, rows)
    # a value on an edge is right of it; no cell for what is not finite
    assert np.allclose(found, [0, 1, 1, 2, 2, 2])


@pytest.mark.parametrize("columns", [1, 2])
def test_cells_cost_what_was_asked_for(columns):
    rows = np.zeros((10, columns))
    _, call, released = exact(cells, rows, edges=EDGES[:columns])
    assert isinstance(call.event, LaplaceEvent)
    assert Fraction(99, 100) < call.event.epsilon <= 1
    assert call.event.l1_sensitivity == 2 * round(1.0 / call.unit) * columns
    assert released.noise_std == pytest.approx(np.sqrt(2.0) * 2.0 * columns, rel=1e-3)
    account = accounts.opened(ZCDP(Fraction(1, 2)), 100)
    _, call, released = exact(cells, rows, edges=EDGES[:columns], account=account)
    assert isinstance(call.event, GaussianEvent)
    assert Fraction(49, 100) < call.event.rho <= Fraction(1, 2)
    assert call.event.squared_sensitivity == 2 * round(1.0 / call.unit) ** 2 * columns
    assert released.noise_std == pytest.approx(np.sqrt(columns * 2.0), rel=1e-3)


def test_a_replaced_row_moves_no_more_than_declared():
    rng = np.random.default_rng(1)
    worst = 0
    for _ in range(150):
        rows = rng.normal(scale=3.0, size=(7, 2))
        other = rows.copy()
        rows[3] = [
            HOSTILE_CELLS[rng.integers(len(HOSTILE_CELLS))],
            HOSTILE_CELLS[rng.integers(len(HOSTILE_CELLS))],
        ]
        other[3] = [HOSTILE_CELLS[rng.integers(len(HOSTILE_CELLS))], rng.normal(scale=100.0)]
        (_, one, _), (_, two, _) = exact(cells, rows), exact(cells, other)
        moved = int(np.abs(one.query - two.query).sum())
        worst = max(worst, moved)
        assert moved <= one.event.l1_sensitivity
    assert worst == one.event.l1_sensitivity  # reached


def sorted_code(chunk):
    return [np.where(np.isfinite(chunk[:, 0]), np.clip(chunk[:, 0], -2, 5), -1.0).astype(np.int64)]


def coded(rows, *, codes=sorted_code, sizes=(4,)):
    account = accounts.opened(PureDP(1), 100)
    return release_code_counts(
        account,
        rows,
        codes,
        list(sizes),
        name="codes",
        cost=account.allowance,
        row_cost=10,
        executor=EXECUTOR,
    )


def test_codes_outside_are_ignored_and_several_codings_share_the_price():
    rows = np.array([[0.0], [0.5], [3.0], [4.0], [-2.0], [np.nan], [np.inf]])
    found, call, _ = exact(coded, rows)
    assert np.allclose(found, [2, 0, 0, 1])
    assert call.event.l1_sensitivity == 2 * round(1.0 / call.unit)
    # Several codings share the price.
    rows = np.arange(12.0)[:, None] % 3
    found, call, released = exact(
        coded,
        rows,
        codes=lambda chunk: [chunk[:, 0].astype(np.int64), (chunk[:, 0] > 0).astype(np.int64)],
        sizes=(3, 2),
    )
    assert np.allclose(found, [4, 4, 4, 4, 8])
    assert call.event.l1_sensitivity == 4 * round(1.0 / call.unit)
    assert call.event.epsilon <= 1
    assert released.noise_std == pytest.approx(np.sqrt(2.0) * 4.0, rel=1e-3)


def summed(rows, *, statistic):
    account = accounts.opened(ZCDP(1), 100)
    options = {"name": "sum", "dim": 2, "radius": 3.0, "row_cost": 10}
    return release_statistic_sum(
        account, rows, statistic, cost=account.allowance, executor=EXECUTOR, **options
    )


def test_statistics_are_clipped_whatever_they_say():
    # A statistic that breaks its own promise: one row far beyond the radius, one not finite.
    def statistic(chunk):
        out = np.ones((len(chunk), 2))
        out[chunk[:, 0] == 1.0] = [1e200, -1e200]
        out[chunk[:, 0] == 2.0] = [np.nan, 1.0]
        return out

    found, call, _ = exact(summed, np.array([[0.0], [1.0], [2.0]]), statistic=statistic)
    expected = np.array([1.0, 1.0]) + 3.0 / np.sqrt(2.0) * np.array([1.0, -1.0])
    assert np.allclose(found, expected, atol=1e-5)
    assert int(np.sum(call.query.astype(object) ** 2)) <= 4 * int(call.event.squared_sensitivity)
    # Statistics move by twice the radius at most.
    pair = (np.array([[0.0, 0.0], [sign, 0.0]]) for sign in (1.0, -1.0))
    one, two = (exact(summed, rows, statistic=lambda chunk: chunk * 1e9)[1] for rows in pair)
    moved = int(((one.query - two.query).astype(object) ** 2).sum())
    assert 0.999 * one.event.squared_sensitivity <= moved <= one.event.squared_sensitivity
    # A statistic of the wrong shape is a bug.
    rows = private_rows(np.zeros((4, 1)))
    raises(
        (KernelError, ValueError),
        None,
        summed,
        rows,
        statistic=lambda chunk: np.zeros((len(chunk), 3)),
    )


# ---- the account: counts with an epsilon of their own under (epsilon, delta) -----------------------------------------
def test_a_block_for_each_law():
    account = accounts.opened(ApproxDP(1, 1e-6), 100)
    one = account.block()
    two = account.block()
    cells(private_rows(np.zeros((5, 1))), account=one, edges=EDGES[:1], cost=one.beside)
    cells(
        private_rows(np.zeros((5, 1))),
        account=two,
        edges=EDGES[:1],
        cost=two.allowance,
    )
    assert len(account.events) == 2
