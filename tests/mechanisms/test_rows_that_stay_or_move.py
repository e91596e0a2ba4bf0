"""Accounting by case: what a row costs that stays, moves, or walks down a tree; and the replay that checks it."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers.errors import raises
from leaf_cases import (
    CENTERED,
    CENTERS,
    DIM,
    HOSTILE,
    LEAVES,
    clustered,
    leaf_counts,
    leaf_second_moments,
    leaf_sums,
    maps,
    neighbors,
    opened,
    second_moment,
    shell_counts,
    stage,
    three_leaves,
)

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError
from fastpubpriv.kernels import tree as tree_kernels
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.mixtures.separated.search_state import ClusterTree
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent
from fastpubpriv.privacy.budgets import Clusters, Composition
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending
from fastpubpriv.release import account as scope_module
from fastpubpriv.sources import private_rows

HERE = ("here",)
THERE = ("there",)


def gaussian(stay, move, lineage=HERE):
    """An event on a scale of 2^8 whose costs are stay and move in units of 2^-17."""
    return GaussianEvent(max(stay, move), 8, 1, clusters=Clusters(stay, move, lineage))


def unit(count):
    return Fraction(count, 2**17)


def test_the_worse_case_is_the_sensitivity():
    assert gaussian(3, 5).rho == unit(5)
    for bad in (
        lambda: GaussianEvent(4, 8, 1, clusters=Clusters(3, 5, HERE)),
        lambda: LaplaceEvent(6, 8, 1, clusters=Clusters(3, 5, HERE)),
        lambda: GaussianEvent(5, 8, 1, clusters=(3, 5)),
        lambda: Clusters(-1, 5, HERE),
        lambda: Clusters(1.0, 5, HERE),
        lambda: Clusters(1, 5, ()),
        lambda: Clusters(1, 5, (7,)),
    ):
        raises(BudgetError, None, bad)


def test_tally_takes_the_larger_total_of_the_same_clusters():
    tally = Composition()
    tally.add(Fraction(1))
    tally.add(Fraction(4), Clusters(4, 2, HERE))
    tally.add(Fraction(3), Clusters(0, 3, HERE))
    assert tally.total == 1 + max(4, 5)
    # other clusters: the row may move in these and stay in those
    tally.add(Fraction(4), Clusters(4, 2, THERE))
    assert tally.total == 1 + 5 + 4
    assert tally.within(Fraction(15), Fraction(7), Clusters(7, 0, HERE)) is None
    other = tally.within(Fraction(16), Fraction(7), Clusters(7, 0, HERE))
    assert tally.total == 10
    assert other.total == 1 + 11 + 4


def test_account_charges_by_case():
    account = opened(ZCDP(unit(100)))
    account.charge(gaussian(0, 20))
    account.charge(gaussian(40, 20))
    assert account.charged == unit(40)
    account.charge(GaussianEvent(30, 8, 1))  # all rows: both cases
    assert account.charged == unit(70)
    account.charge(gaussian(20, 0, THERE))
    assert account.charged == unit(90)
    account.charge(gaussian(0, 10))
    assert account.charged == unit(100)
    raises(BudgetError, "exceed", account.charge, gaussian(0, 1))
    assert account.charged == unit(100)
    account.charge(GaussianEvent(0, 8, 1))
    assert len(account.events) == 6


@pytest.mark.parametrize("pure", [False, True])
def test_leaf_stage_costs_the_formula(pure):
    """rho_cov + max(rho_mean, rho_count + rho_mean / 2); under pure DP the sum of the worse cases."""
    rows = private_rows(np.zeros((50, DIM)))
    routes = three_leaves().routes(LEAVES)
    for count_share in (Fraction(1, 40), Fraction(1, 20), Fraction(1, 5)):
        account = opened(PureDP(2) if pure else ZCDP(2))
        cov = Fraction(9, 10)
        mean = Fraction(1, 10)
        count = count_share
        leaf_counts(account, rows, routes, name="n", cost=count)
        for share in (Fraction(2, 5), Fraction(3, 5)):
            leaf_second_moments(
                account, rows, routes, maps(), name="s", radii=[1.0] * 3, cost=cov * share
            )
        leaf_sums(account, rows, routes, maps(), name="m", radii=[1.0] * 3, cost=mean)
        expected = cov + mean + count if pure else cov + max(mean, count + mean / 2)
        assert Fraction(99, 100) * expected < account.charged <= expected


@pytest.mark.parametrize("dim", [1, 2, 3, 17, 100])
@pytest.mark.parametrize("pure", [False, True])
def test_grids_hold_their_promise(pure, dim):
    for cost in (Fraction(1, 1000), Fraction(1, 3), Fraction(7)):
        spending = LaplaceSpending(cost) if pure else GaussianSpending(cost)
        grids = [
            spending.cluster_grid("sum", dim, 1000, clusters=5, lineage=HERE),
            spending.cluster_grid("moment", dim, 1000, clusters=5, lineage=HERE),
            spending.cluster_grid("count", 1, 1000, clusters=5, lineage=HERE),
            spending.cluster_grid("cells", 5, 1000, clusters=1, lineage=HERE),
        ]
        for grid in grids:
            assert (grid.event.epsilon if pure else grid.event.rho) <= cost
            assert grid.event.worst == grid.event.clusters.worst
        sums, grams, counts, shells = (grid.event.clusters for grid in grids)
        q = grids[1].quant_bound
        s = grids[2].quant_bound
        # The largest a block can be: q of equal entries (l1) or one entry (l2), squared.
        assert grams.move >= (dim + 1) * q * q - 1 if pure else grams.move == grams.stay == 2 * q**4
        assert counts.stay == 0
        assert counts.move == (2 * s if pure else 2 * s * s)
        assert shells.stay == shells.move
        assert sums.move <= sums.stay if pure else 2 * sums.move == sums.stay
        if pure:  # one more grid step would cost too much
            assert (
                2 * ((dim + 1) * (q + 1) ** 2 // 2) > cost * 2 ** grids[1].log2_scale or q == 2896
            )


def deep_tree(depth):
    """A chain of balls of radius 100, 50, 33, ..., each inside the one above."""
    tree = ClusterTree.root(DIM)
    node = 0
    for level in range(depth):
        radius = 100.0 / (level + 1)
        tree = tree.split_ball(
            node, origin=np.zeros(DIM), projection=None, center=np.zeros(DIM), radius=radius
        )
        node = tree.children(node)[0]
    return tree


def chain(tree):
    """Ids from the root down the first children."""
    nodes = [0]
    while tree.children(nodes[-1]):
        nodes.append(tree.children(nodes[-1])[0])
    return nodes


def spend(payer, tree, node, rows, share=Fraction(1), center=None):
    """A second moment and a histogram of one node's rows, for its whole share."""
    affine = AffineMap(dim=DIM, center=np.zeros(DIM) if center is None else center)
    only = tree.only(node)
    cost = payer.allowance * share
    gram = second_moment(
        payer,
        rows,
        affine,
        name=f"gram {node}",
        radius=10.0,
        cost=cost * Fraction(7, 10),
        only=only,
    )
    shells = shell_counts(
        payer,
        rows,
        affine,
        name=f"shells {node}",
        edges=np.array([1.0, 50.0]),
        cost=cost * Fraction(3, 10),
        only=only,
    )
    return gram.value, shells.value


def test_a_scope_is_one_debit_by_depth():
    rows = private_rows(clustered(np.random.default_rng(0), 50))
    tree = deep_tree(4)
    account = opened(ZCDP(1))
    scope = account.tree(Fraction(1, 2), max_depth=4)
    assert account.charged == Fraction(1, 2)
    for depth, node in enumerate(chain(tree)[:4]):
        payer = scope.node(depth)
        assert payer.allowance == Fraction(1, 8)
        spend(payer, tree, node, rows)
    for node in (2, 4):  # siblings of the nodes on the chain
        spend(scope.node(2), tree, node, rows)
    assert account.charged == Fraction(1, 2)
    assert len(account.events) == 12
    assert account.numerics()["noise_draws"] == 6 * (9 + 3)
    released = [event.rho for event in account.events]
    # six nodes, of which no path has more than four
    assert sum(released) > Fraction(7, 10) > account.charged
    raises(BudgetError, "depth 4 has no budget", scope.node, 4)
    raises(BudgetError, "exceed the budget of the call", account.tree, Fraction(3, 4), max_depth=2)
    assert opened(ApproxDP(1, 1e-6)).tree(Fraction(1, 100), 3).share == Fraction(1, 300)


def test_a_payer_pays_for_one_node_and_a_scope_counts_them():
    rows = private_rows(clustered(np.random.default_rng(0), 50))
    tree = deep_tree(3)
    scope = opened(ZCDP(1)).tree(Fraction(1, 2), max_depth=3)
    payer = scope.node(0)
    with pytest.raises(BudgetError, match="over its own rows"):
        second_moment(payer, rows, AffineMap(dim=DIM), name="all", radius=1.0, cost=payer.allowance)
    for event in (GaussianEvent(1, 8, 1), LaplaceEvent(1, 8, 1, clusters=Clusters(1, 1, HERE))):
        raises(BudgetError, "over its own rows", payer.charge, event)
    spend(payer, tree, 0, rows)
    raises(BudgetError, "another node", spend, payer, tree, 1, rows)
    with pytest.raises(BudgetError, match="exceed the budget of its node"):
        payer.charge(GaussianEvent(2**17, 8, 1, clusters=Clusters(2**17, 0, tree.only(0).lineage)))
    raises(BudgetError, "had its payer already", spend, scope.node(0), tree, 0, rows)
    # Scope counts the paying nodes itself.
    rows = private_rows(clustered(np.random.default_rng(0), 50))
    tree = deep_tree(3)
    scope = opened(ZCDP(1)).tree(Fraction(1, 2), max_depth=3)
    first, second, third, _ = chain(tree)
    spend(scope.node(0), tree, first, rows)
    spend(scope.node(1), tree, third, rows)  # the node between runs no mechanism
    raises(BudgetError, "or one below it", spend, scope.node(1), tree, second, rows)
    below = tree.split_ball(
        chain(tree)[3], origin=np.zeros(DIM), projection=None, center=np.zeros(DIM), radius=1.0
    )
    words = "2 nodes above this one have paid; pass depth=2, not 1"
    raises(BudgetError, words, spend, scope.node(1), below, chain(below)[4], rows)
    spend(scope.node(2), below, chain(below)[4], rows)
    other = ClusterTree.root(DIM).split_nearest(
        0, origin=np.zeros(DIM), projection=None, centers=CENTERS
    )
    raises(BudgetError, "another tree", spend, scope.node(1), other, 2, rows)


def test_entering_counts_as_much_as_half_of_a_stay():
    lineage = deep_tree(1).only(0).lineage
    payer = opened(ZCDP(1)).tree(unit(40), max_depth=2).node(0)
    # entering or leaving: 5
    payer.charge(GaussianEvent(10, 8, 1, clusters=Clusters(0, 10, lineage)))
    payer.charge(GaussianEvent(20, 8, 1, clusters=Clusters(20, 10, lineage)))
    # stay 20 of 20, crossing 10 of 10
    for beyond in (Clusters(1, 0, lineage), Clusters(0, 1, lineage)):
        raises(
            BudgetError, "budget of its node", payer.charge, GaussianEvent(1, 8, 1, clusters=beyond)
        )


def test_scope_refuses_bad_terms():
    raises(BudgetError, "Gaussian noise", opened(PureDP(1)).tree, Fraction(1, 2), 3)
    account = opened(ZCDP(1))
    for cost, depth in ((Fraction(0), 3), (Fraction(1, 2), 0), (Fraction(1, 2), 1.5)):
        raises(BudgetError, None, account.tree, cost, depth)
    assert account.charged == 0
    raises(BudgetError, None, account.tree(Fraction(1, 2), 3).node, -1)
    split = opened(ZCDP(1))
    block = split.block()
    raises(BudgetError, "without blocks", split.tree, Fraction(1, 2), 3)
    assert block.tree(Fraction(1, 2), 3).node(0).path == (0,)


def whole_run(x, budget):
    """A recursive clustering of two levels and a leaf stage: every kind of release over clusters."""
    rows = private_rows(x)
    account = opened(budget)
    tree = three_leaves()
    answers = []
    if account.spending.carries_trees:
        scope = account.tree(account.allowance * Fraction(3, 10), max_depth=2)
        answers += spend(scope.node(0), tree, 0, rows, center=CENTERS[1])
        answers += spend(scope.node(1), tree, 2, rows, center=CENTERS[1])
        answers += spend(scope.node(1), tree, 1, rows, center=CENTERS[0])
    left = account.allowance - account.charged
    mean = left / 10
    cov, count = (9 * mean, mean / 2) if account.spending.carries_trees else (8 * mean, mean)
    routes = tree.routes(LEAVES)
    answers.append(leaf_counts(account, rows, routes, name="counts", cost=count).value)
    options = {"radii": [4.0, 2.0, 7.0]}
    answers.append(
        leaf_second_moments(
            account, rows, routes, CENTERED, name="moments", cost=cov, **options
        ).value
    )
    answers.append(
        leaf_sums(account, rows, routes, CENTERED, name="means", cost=mean, **options).value
    )
    assert account.charged <= account.allowance
    return answers


BUDGETS = {"zcdp": ZCDP(1), "approx": ApproxDP(8, 1e-6), "pure": PureDP(4)}


def replayed(x, y, notion):
    return record_replay(partial(whole_run, budget=BUDGETS[notion]), x, y, budget=BUDGETS[notion])


@pytest.mark.parametrize("notion", BUDGETS)
def test_neighbors_cost_at_most_the_debit(notion):
    for x, y in neighbors(np.random.default_rng(8), 60):
        report = replayed(x, y, notion)
        assert (
            report.pair_cost <= report.declared_cost <= report.allowance * (1 + Fraction(1, 10**9))
        )
        assert report.declared_cost >= Fraction(99, 100) * report.allowance * (
            1 - Fraction(1, 10**9)
        )


@pytest.mark.parametrize("notion", BUDGETS)
def test_hostile_neighbors(notion):
    plain = clustered(np.random.default_rng(5), 8)
    for one in range(len(HOSTILE)):
        x = plain.copy()
        y = plain.copy()
        x[3] = HOSTILE[one]
        y[3] = HOSTILE[(one * 7 + 3) % len(HOSTILE)]
        replayed(x, y, notion)
        replayed(HOSTILE[one][None], HOSTILE[one - 1][None], notion)


@pytest.mark.audit
@pytest.mark.parametrize("notion", BUDGETS)
def test_many_neighbors(notion):
    for x, y in neighbors(np.random.default_rng(9), 1500):
        replayed(x, y, notion)


def far_rows(first, second):
    """Two data sets that differ in one row, extreme in its leaf."""
    x = np.tile(CENTERS[1], (6, 1))
    y = x.copy()
    x[0] = first
    y[0] = second
    return x, y


FAR = 1e12
UP = CENTERS[1] + [0.0, FAR, 0.0]
DOWN = CENTERS[2] - [0.0, FAR, 0.0]


def leaf_stage(x):
    """Counts, second moments and means alone, by the formula with counts at their free limit."""
    account, rows, routes = stage(x, ZCDP(1))
    options = {"radii": [3.0] * 3}
    mean = Fraction(1, 2)
    counts = leaf_counts(account, rows, routes, name="counts", cost=mean / 2)
    moments = leaf_second_moments(
        account, rows, routes, CENTERED, name="moments", cost=1 - mean, **options
    )
    sums = leaf_sums(account, rows, routes, CENTERED, name="means", cost=mean, **options)
    return [counts.value, moments.value, sums.value]


def test_a_crafted_move_reaches_the_cost():
    report = record_replay(leaf_stage, *far_rows(UP, DOWN), budget=ZCDP(1))
    assert 0.95 <= report.tightness <= 1.0
    assert report.declared_cost >= Fraction(99, 100)


def test_a_crafted_stay_nearly_reaches_the_cost():
    # Orthogonal for the second moments is half of the squared distance for the sums: 1/2 + 1/4 of the budget.
    report = record_replay(leaf_stage, *far_rows(UP, CENTERS[1] + [FAR, 1.0, 0.0]), budget=ZCDP(1))
    assert 0.74 <= report.tightness <= 0.75

    def moments_then_sums(x):
        """Each with a map under which the two rows are extreme for it: orthogonal, then opposite."""
        account, rows, routes = stage(x, ZCDP(1))
        turned = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        between = np.array([[1.0, -1.0, 0.0]])
        options = {"radii": [3.0] * 3, "cost": Fraction(1, 2)}
        orthogonal = [AffineMap(dim=DIM, center=center, matrix=turned) for center in CENTERS]
        opposite = [AffineMap(dim=DIM, center=center, matrix=between) for center in CENTERS]
        return [
            leaf_second_moments(account, rows, routes, orthogonal, name="moments", **options).value,
            leaf_sums(account, rows, routes, opposite, name="means", **options).value,
        ]

    report = record_replay(
        moments_then_sums, *far_rows(UP, CENTERS[1] + [FAR, 1.0, 0.0]), budget=ZCDP(1)
    )
    assert 0.95 <= report.tightness <= 1.0


def test_a_crafted_walk_reaches_the_cost_of_a_scope():
    def run(x, depth=3):
        rows = private_rows(x)
        account = opened(ZCDP(1))
        scope = account.tree(Fraction(1), max_depth=depth)
        tree = deep_tree(3)
        answers = []
        for level, node in enumerate(chain(tree)[:depth]):
            affine = AffineMap(dim=DIM)
            cost = scope.share
            answers.append(
                second_moment(
                    scope.node(level),
                    rows,
                    affine,
                    name=f"gram {node}",
                    radius=0.5,
                    cost=cost,
                    only=tree.only(node),
                ).value
            )
        return answers

    # Orthogonal rows that walk down together to the last node: each payer is used up.
    x = np.zeros((2, DIM))
    y = np.zeros((2, DIM))
    x[0, 0] = y[0, 1] = 30.0
    report = record_replay(run, x, y, budget=ZCDP(1))
    assert 0.95 <= report.tightness <= 1.0
    # Parted after two of the three nodes: the last costs one of them half.
    y[0, 1] = 60.0
    report = record_replay(run, x, y, budget=ZCDP(1))
    assert 0.95 * 5 / 6 <= report.tightness <= 5 / 6


def test_catches_counts_priced_as_if_one_cluster_changed(monkeypatch):
    """The paper's "changing one point changes only one of the clusters" (E8)."""

    right = GaussianSpending.cluster_grid

    def halved(self, kind, dim, n, *, clusters, lineage):
        grid = right(self, kind, dim, n, clusters=clusters, lineage=lineage)
        if kind != "count":
            return grid
        move = grid.event.clusters.move // 2
        return replace(
            grid,
            event=replace(
                grid.event, squared_sensitivity=move, clusters=Clusters(0, move, lineage)
            ),
        )

    monkeypatch.setattr(GaussianSpending, "cluster_grid", halved)
    raises(
        ReplayError,
        "sensitivity allows",
        record_replay,
        leaf_stage,
        *far_rows(UP, DOWN),
        budget=ZCDP(1),
    )


def test_catches_a_second_moment_with_the_cases_of_a_sum(monkeypatch):
    """A move declared at half of a stay, where it costs as much: only the total shows it."""

    right = GaussianSpending.cluster_grid

    def cheap(self, kind, dim, n, *, clusters, lineage):
        grid = right(self, kind, dim, n, clusters=clusters, lineage=lineage)
        if kind != "moment":
            return grid
        stay = grid.event.squared_sensitivity
        return replace(grid, event=replace(grid.event, clusters=Clusters(stay, stay // 2, lineage)))

    def no_means(x):
        account, rows, routes = stage(x, ZCDP(1))
        given = {"name": "moments", "cost": Fraction(1), "radii": [3.0] * 3}
        moments = leaf_second_moments(account, rows, routes, CENTERED, **given)
        counts = leaf_counts(account, rows, routes, name="counts", cost=Fraction(1, 2))
        return [moments.value, counts.value]

    monkeypatch.setattr(GaussianSpending, "cluster_grid", cheap)
    raises(
        ReplayError,
        "moves in another",
        record_replay,
        no_means,
        *far_rows(UP, DOWN),
        budget=ZCDP(1),
    )
    monkeypatch.undo()
    raises(BudgetError, "exceed", record_replay, no_means, *far_rows(UP, DOWN), budget=ZCDP(1))


def test_catches_a_scope_that_does_not_check_depth(monkeypatch):
    def run(x):
        rows = private_rows(x)
        account = opened(ZCDP(1))
        scope = account.tree(Fraction(1), max_depth=2)
        tree = deep_tree(3)
        answers = []
        for node in chain(tree)[:3]:
            answers += spend(scope_module.NodeBudget(scope, 0), tree, node, rows)
        return answers

    x = np.zeros((2, DIM))
    y = np.zeros((2, DIM))
    x[0, 0] = y[0, 1] = 20.0
    raises(BudgetError, "nodes above this one have paid", record_replay, run, x, y, budget=ZCDP(1))
    monkeypatch.setattr(scope_module.TreeBudget, "enter", lambda self, lineage, depth: None)
    raises(ReplayError, "too many nodes on one path", record_replay, run, x, y, budget=ZCDP(1))


def test_catches_labels_that_depend_on_the_chunk(monkeypatch):
    """A row that one pass counts in a leaf and another adds up in its sibling: both cases are paid."""
    original = tree_kernels.tree_assign
    passes = [0]

    def drifting(chunk, row_tree, labels):
        original(chunk, row_tree, labels)
        passes[0] += 1
        if passes[0] % 3 != 1:  # not in the pass that counts
            labels[(labels > 0) & (chunk[:, 1] < 0.0)] = 1

    # Both rows count in their own leaves, yet are summed in one of them, opposite to each other.
    x, y = far_rows(CENTERS[1] + [0.0, FAR, 0.0], CENTERS[1] - [0.0, FAR, 0.0])
    record_replay(leaf_stage, x, y, budget=ZCDP(1))
    monkeypatch.setattr(tree_kernels, "tree_assign", drifting)

    def no_moments(x):
        account, rows, routes = stage(x, ZCDP(1))
        passes[0] = 0
        counts = leaf_counts(account, rows, routes, name="counts", cost=Fraction(1, 2))
        sums = [
            leaf_sums(
                account, rows, routes, CENTERED, name="means", radii=[3.0] * 3, cost=Fraction(1, 2)
            ).value
            for _ in range(2)
        ]
        return [counts.value, *sums]

    raises(
        ReplayError,
        "a row that stays in one moves in another",
        record_replay,
        no_moments,
        x,
        y,
        budget=ZCDP(1),
    )
    monkeypatch.undo()
    record_replay(no_moments, x, y, budget=ZCDP(1))


def test_catches_a_tree_that_private_rows_grew():
    def run(x):
        account = opened(ZCDP(1))
        rows = private_rows(x)
        tree = ClusterTree.root(DIM).split_nearest(
            0, origin=np.zeros(DIM), projection=None, centers=x[:2]
        )
        return leaf_counts(account, rows, tree.routes(), name="counts", cost=Fraction(1)).value

    raises(
        ReplayError,
        "depends on private rows",
        record_replay,
        run,
        *far_rows(UP, DOWN),
        budget=ZCDP(1),
    )


def test_catches_private_sizes():
    """A private size in a divisor (P2) shows as a result that differs under the same released values."""

    def run(x):
        account, rows, routes = stage(x, ZCDP(1))
        sums = leaf_sums(
            account, rows, routes, maps(), name="means", radii=[3.0] * 3, cost=Fraction(1)
        )
        return (
            sums.value
            / np.array([max(1, (three_leaves().assign(x) == leaf).sum()) for leaf in LEAVES])[
                :, None
            ]
        )

    raises(
        ReplayError, "leaked past release", record_replay, run, *far_rows(UP, DOWN), budget=ZCDP(1)
    )
