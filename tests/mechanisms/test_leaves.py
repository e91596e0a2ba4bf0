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
    if affines is None:
        affines = leaf_cases.maps()
    given = (account, rows, routes, affines)
    asked = {"radii": RADII, "cost": COST}
    counts = leaf_cases.leaf_counts(account, rows, routes, name="counts", cost=COST)
    sums = leaf_cases.leaf_sums(*given, name="sums", **asked)
    moments = leaf_cases.leaf_second_moments(*given, name="moments", **asked)
    return counts, sums, moments


def integers(*given, **options):
    """The exact integers that the three releases ask about, with their events."""
    with recording() as transcript:
        all_three(*given, **options)
    return transcript.calls


def row_map_of(affine, radius, bound):
    """The map to integers of at most Q in norm: half a step of rounding in each column stands between the clip and Q."""
    steps = bound - math.ceil(math.sqrt(leaf_cases.DIM) / 2) - 1
    return affine.row_map(quant_bound=bound, inv_step=1.0 / (radius / steps), limit=float(steps))


@pytest.mark.parametrize("notion", BUDGETS)
def test_each_leaf_gets_the_integers_of_its_own_rows(notion):
    rows = leaf_cases.clustered(np.random.default_rng(1), 500, 2.0)
    x = np.concatenate([rows, leaf_cases.HOSTILE])
    reached = leaf_cases.three_leaves().assign(x)
    counts, sums, moments = integers(x, BUDGETS[notion])
    bound_of_sums = bound_of_sum(sums.event, notion)
    bound_of_moments = bound_of_moment(moments.event, notion)
    leaves = zip(leaf_cases.LEAVES, leaf_cases.maps(), RADII, strict=True)
    for index, (leaf, affine, radius) in enumerate(leaves):
        own = np.ascontiguousarray(x[reached == leaf])
        assert len(own) > 20
        assert counts.query[index] % len(own) == 0
        expected = np.zeros(leaf_cases.DIM, dtype=np.int64)
        kernels.rows_sum(own, row_map_of(affine, radius, bound_of_sums), expected)
        np.testing.assert_array_equal(sums.query[index], expected)
        expected = np.zeros((leaf_cases.DIM, leaf_cases.DIM), dtype=np.int64)
        kernels.rows_gram(own, row_map_of(affine, radius, bound_of_moments), expected)
        found = moments.query[index]
        np.testing.assert_array_equal(found, in_shape(expected, found.shape))


def bound_of_sum(event, notion):
    """Q from the sensitivity of a sum: 4 Q^2, or the root of 4 D Q^2 in l1."""
    if notion == "pure":
        return math.isqrt((event.clusters.stay + 1) ** 2 // (4 * leaf_cases.DIM))
    return math.isqrt(event.clusters.stay // 4)


def bound_of_moment(event, notion):
    """Q from the sensitivity of a second moment: 2 Q^4, or (D + 1) Q^2 in l1, rounded to whole pairs."""
    if notion == "pure":
        return math.isqrt((event.clusters.move + 1) // (leaf_cases.DIM + 1))
    return math.isqrt(math.isqrt(event.clusters.move // 2))


def case_of(x, y):
    """Whether the replaced row stays, moves or only enters or leaves, or "none"."""
    index = np.flatnonzero((x.view(np.int64) != y.view(np.int64)).any(axis=1))
    if not len(index):
        return "none"
    before = leaf_cases.three_leaves().assign(x[index])[0]
    after = leaf_cases.three_leaves().assign(y[index])[0]
    if before == after:
        return "none" if before == -1 else "stay"
    return "cross" if -1 in (before, after) else "move"


def distance(one, two, notion):
    """What a replaced row moved an answer by: in l1 for pure epsilon, squared in l2 for others."""
    gaps = (one.query - two.query).astype(object).ravel()
    if notion == "pure":
        return int(np.abs(gaps).sum())
    return int((gaps**2).sum())


@pytest.mark.parametrize("notion", BUDGETS)
def test_distance_is_within_the_case(notion):
    """Exact integers: no neighbor moves an answer by more than its case allows."""
    rng = np.random.default_rng(3)
    seen = set()
    for x, y in leaf_cases.neighbors(rng, 150):
        case = case_of(x, y)
        seen.add(case)
        before = integers(x, BUDGETS[notion])
        after = integers(y, BUDGETS[notion])
        for one, two in zip(before, after, strict=True):
            clusters = one.event.clusters
            allowed = {
                "stay": clusters.stay,
                "move": clusters.move,
                "cross": clusters.move / 2,
                "none": 0,
            }
            assert distance(one, two, notion) <= allowed[case], (case, one.name)
    assert seen >= {"stay", "move", "cross"}


FAR = 1e9


def at_rest_but(row):
    """Four rows in the center of the second leaf, of which one is replaced."""
    rows = np.tile(leaf_cases.CENTERS[1], (4, 1))
    rows[0] = row
    return rows


UP = leaf_cases.CENTERS[1] + [0.0, FAR, 0.0]
ASIDE = leaf_cases.CENTERS[1] + [FAR, 1.0, 0.0]
OPPOSITE = leaf_cases.CENTERS[1] + [-FAR, 1.0, 0.0]
BELOW = leaf_cases.CENTERS[2] - [0.0, FAR, 0.0]


def moves(row, other):
    """Squared distance and sensitivities by the name of the release, for one row or another."""
    before = integers(at_rest_but(row), affines=leaf_cases.CENTERED)
    after = integers(at_rest_but(other), affines=leaf_cases.CENTERED)
    found = {}
    for one, two in zip(before, after, strict=True):
        found[one.name] = distance(one, two, "zcdp"), one.event.clusters
    return found


def test_the_sensitivity_of_a_moment_is_reached_by_orthogonal_rows_of_a_leaf():
    moved, clusters = moves(UP, ASIDE)["moments"]
    assert 0.99 * clusters.stay <= moved <= clusters.stay


def test_a_row_that_stays_moves_no_count():
    moved, clusters = moves(UP, ASIDE)["counts"]
    assert moved == 0
    assert clusters.stay == 0


def test_the_sensitivity_of_a_sum_is_reached_by_opposite_rows_of_a_leaf():
    moved, clusters = moves(OPPOSITE, ASIDE)["sums"]
    assert 0.99 * clusters.stay <= moved <= clusters.stay


def test_the_sensitivities_are_reached_by_a_row_that_changes_its_leaf():
    for name, (moved, clusters) in moves(UP, BELOW).items():
        assert 0.99 * clusters.move <= moved <= clusters.move, name


@pytest.mark.parametrize("notion", BUDGETS)
def test_answers_of_leaves_are_near_the_truth(notion):
    """Within forty standard deviations of the noise (Laplace: e^-56), and a grid step for each row."""
    x = leaf_cases.clustered(np.random.default_rng(4), 20_000)
    reached = leaf_cases.three_leaves().assign(x)
    counts, sums, moments = all_three(x, BUDGETS[notion], leaf_cases.CENTERED)
    for index, leaf in enumerate(leaf_cases.LEAVES):
        gaps = x[reached == leaf] - leaf_cases.CENTERS[index]
        norms = np.linalg.norm(gaps, axis=1, keepdims=True)
        clipped = gaps * np.minimum(1.0, RADII[index] / np.maximum(norms, 1e-300))
        truths = (len(gaps), clipped.sum(axis=0), clipped.T @ clipped)
        for released, truth in zip((counts, sums, moments), truths, strict=True):
            room = 40.0 * released.noise_std[index] + 1e-2 * len(gaps)
            assert np.abs(released.value[index] - truth).max() < room
            assert released.noise_std[index] < 0.05 * len(gaps)
        np.testing.assert_array_equal(moments.value[index], moments.value[index].T)


@pytest.mark.parametrize("notion", BUDGETS)
def test_noise_levels_follow_the_unit_of_each_leaf(notion):
    counts, sums, moments = all_three(np.zeros((10, leaf_cases.DIM)), BUDGETS[notion])
    ratio = np.array(RADII) / RADII[0]
    np.testing.assert_allclose(sums.noise_std, sums.noise_std[0] * ratio)
    np.testing.assert_allclose(moments.noise_std, moments.noise_std[0] * ratio**2)
    assert len(set(counts.noise_std)) == 1


# Numbers of three leaves of three columns: a count, a sum, and a matrix, of which pure epsilon releases the triangle.
@pytest.mark.parametrize(
    ("notion", "draws"), [("zcdp", [3, 9, 27]), ("approx", [3, 9, 27]), ("pure", [3, 9, 18])]
)
def test_leaves_draw_one_coin_a_number_and_spend_what_was_asked_for(notion, draws):
    released = all_three(np.zeros((10, leaf_cases.DIM)), BUDGETS[notion])
    assert [one.event.draws for one in released] == draws
    for one in released:
        cost = one.event.epsilon if notion == "pure" else one.event.rho
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
    given = (account, rows, routes, affines)
    asked = {"name": "x", "radii": radii, "cost": COST}
    raises(InputError, None, leaf_cases.leaf_sums, *given, **asked)
    raises(InputError, None, leaf_cases.leaf_second_moments, *given, **asked)
    assert account.charged == 0


# `only=`: releases on the rows of one node.
def of_node(x, only, notion, affine, edges):
    """The calls of the two releases that may look at one node."""
    account = leaf_cases.opened(BUDGETS[notion])
    rows = private_rows(x)
    edges = np.array(edges)
    asked = {"cost": COST, "only": only}
    with recording() as transcript:
        leaf_cases.second_moment(account, rows, affine, name="gram", radius=3.0, **asked)
        leaf_cases.shell_counts(account, rows, affine, name="shells", edges=edges, **asked)
    return transcript.calls


CLUSTERED = leaf_cases.clustered(np.random.default_rng(5), 700, 2.0)
AND_HOSTILE = np.concatenate([CLUSTERED, leaf_cases.HOSTILE])
SHELLS = [1.0, 2.0, 4.0]


@pytest.mark.parametrize("node", [0, 1, 2, 4])
@pytest.mark.parametrize("notion", ["zcdp", "pure"])
def test_only_looks_at_the_rows_of_a_node(node, notion):
    tree = leaf_cases.three_leaves()
    own = AND_HOSTILE[tree.members(AND_HOSTILE, node)]
    assert 0 < len(own) < len(AND_HOSTILE)
    # The rows of the node alone, padded with neutral rows to the same public n.
    padded = np.full(AND_HOSTILE.shape, np.nan)
    padded[: len(own)] = own
    only = tree.only(node)
    given = (only, notion, leaf_cases.maps()[0], SHELLS)
    of_all_rows = of_node(AND_HOSTILE, *given)
    of_own_rows = of_node(padded, *given)
    for one, two in zip(of_all_rows, of_own_rows, strict=True):
        np.testing.assert_array_equal(one.query, two.query)
        assert one.query.any()
        assert one.event.clusters.lineage == only.lineage


@pytest.mark.parametrize("node", [0, 1, 2, 4])
def test_the_price_of_a_node_is_that_of_all_rows(node):
    only = leaf_cases.three_leaves().only(node)
    given = ("zcdp", leaf_cases.maps()[0], SHELLS)
    of_the_node = of_node(AND_HOSTILE, only, *given)
    of_all_rows = of_node(AND_HOSTILE, None, *given)
    for one, two in zip(of_the_node, of_all_rows, strict=True):
        clusters = one.event.clusters
        assert one.event.squared_sensitivity == two.event.squared_sensitivity == clusters.stay
        assert clusters.move <= clusters.stay
        assert two.event.clusters is None


def test_only_takes_one_node():
    two_nodes = leaf_cases.three_leaves().routes((1, 2))
    given = (two_nodes, "zcdp", leaf_cases.maps()[0], SHELLS)
    raises(InputError, "one node", of_node, AND_HOSTILE, *given)


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
    for notion in ("zcdp", "pure"):
        given = (tree.only(3), notion, affine, [1.0])
        inside = of_node(at_rest_but(UP), *given)
        outside = of_node(at_rest_but(leaf_cases.CENTERS[2]), *given)
        for one, two in zip(inside, outside, strict=True):
            moved = distance(one, two, notion)
            half = one.event.clusters.move / 2
            assert 0 < moved <= half
            if isinstance(one.event, GaussianEvent):
                assert moved >= 0.99 * half


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
    if account is None:
        account = accounts.opened(PureDP(1), 100)
    if cost is None:
        cost = account.allowance
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
def test_cells_cost_the_epsilon_that_was_asked_for(columns):
    rows = np.zeros((10, columns))
    _, call, released = exact(cells, rows, edges=EDGES[:columns])
    assert isinstance(call.event, LaplaceEvent)
    assert Fraction(99, 100) < call.event.epsilon <= 1
    assert call.event.l1_sensitivity == 2 * round(1.0 / call.unit) * columns
    assert released.noise_std == pytest.approx(np.sqrt(2.0) * 2.0 * columns, rel=1e-3)


@pytest.mark.parametrize("columns", [1, 2])
def test_cells_cost_the_rho_that_was_asked_for(columns):
    rows = np.zeros((10, columns))
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
        rows[3] = rng.choice(HOSTILE_CELLS, size=2)
        other[3] = rng.choice(HOSTILE_CELLS), rng.normal(scale=100.0)
        _, one, _ = exact(cells, rows)
        _, two, _ = exact(cells, other)
        moved = int(np.abs(one.query - two.query).sum())
        worst = max(worst, moved)
        assert moved <= one.event.l1_sensitivity
    assert worst == one.event.l1_sensitivity  # reached


def coded(rows, *, codes, sizes):
    account = accounts.opened(PureDP(1), 100)
    asked = {"cost": account.allowance, "row_cost": 10, "executor": EXECUTOR}
    return release_code_counts(account, rows, codes, sizes, name="codes", **asked)


def test_codes_outside_are_ignored():
    def codes(chunk):
        whole = np.clip(chunk[:, 0], -2, 5)
        return [np.where(np.isfinite(chunk[:, 0]), whole, -1.0).astype(np.int64)]

    rows = np.array([[0.0], [0.5], [3.0], [4.0], [-2.0], [np.nan], [np.inf]])
    found, call, _ = exact(coded, rows, codes=codes, sizes=[4])
    assert np.allclose(found, [2, 0, 0, 1])
    assert call.event.l1_sensitivity == 2 * round(1.0 / call.unit)


def test_several_codings_share_the_price():
    def codes(chunk):
        column = chunk[:, 0]
        return [column.astype(np.int64), (column > 0).astype(np.int64)]

    rows = np.arange(12.0)[:, None] % 3
    found, call, released = exact(coded, rows, codes=codes, sizes=[3, 2])
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
    """A statistic that breaks its own promise: one row far beyond the radius, one not finite."""

    def statistic(chunk):
        out = np.ones((len(chunk), 2))
        out[chunk[:, 0] == 1.0] = [1e200, -1e200]
        out[chunk[:, 0] == 2.0] = [np.nan, 1.0]
        return out

    found, call, _ = exact(summed, np.array([[0.0], [1.0], [2.0]]), statistic=statistic)
    expected = np.array([1.0, 1.0]) + 3.0 / np.sqrt(2.0) * np.array([1.0, -1.0])
    assert np.allclose(found, expected, atol=1e-5)
    assert int(np.sum(call.query.astype(object) ** 2)) <= 4 * int(call.event.squared_sensitivity)


def test_statistics_move_by_twice_the_radius_at_most():
    def far_out(chunk):
        return chunk * 1e9

    rows = np.array([[0.0, 0.0], [1.0, 0.0]])
    _, one, _ = exact(summed, rows, statistic=far_out)
    _, two, _ = exact(summed, -rows, statistic=far_out)
    moved = distance(one, two, "zcdp")
    assert 0.999 * one.event.squared_sensitivity <= moved <= one.event.squared_sensitivity


def test_a_statistic_of_the_wrong_shape_is_a_bug():
    def three_columns(chunk):
        return np.zeros((len(chunk), 3))

    rows = private_rows(np.zeros((4, 1)))
    raises((KernelError, ValueError), None, summed, rows, statistic=three_columns)


# ---- the account: counts with an epsilon of their own under (epsilon, delta) -----------------------------------------
def test_a_block_for_each_law():
    account = accounts.opened(ApproxDP(1, 1e-6), 100)
    one = account.block()
    two = account.block()
    rows = private_rows(np.zeros((5, 1)))
    cells(rows, account=one, edges=EDGES[:1], cost=one.beside)
    cells(rows, account=two, edges=EDGES[:1], cost=two.allowance)
    assert len(account.events) == 2
