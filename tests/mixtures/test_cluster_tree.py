"""The cluster tree as a value: it grows without changing, says where rows belong, and survives JSON."""

import json

import numpy as np
import pytest
from helpers.errors import raises

from fastpubpriv.errors import InputError
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.mixtures.separated.search_state import ClusterTree


def grown():
    """A ball, then the nearest of three centers outside, then a projected ball inside."""
    tree = ClusterTree.root(2)
    tree = tree.split_ball(0, origin=[1.0, 0.0], projection=None, center=[0.0, 0.0], radius=2.0)
    tree = tree.split_nearest(
        2, origin=[0.0, 0.0], projection=None, centers=[[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0]]
    )
    return tree.split_ball(1, origin=[0.0, 0.0], projection=[[1.0, 1.0]], center=[1.0], radius=0.5)


# Rows, and the leaf of `grown` that a hand would send each to; -1 is no node.
ROWS_AND_LEAVES = [
    ([0.5, 0.5], 6),
    ([1.0, 2.0], 7),
    ([1.0, 2.1], 4),
    ([9.0, 1.0], 3),
    ([0.0, 9.0], 4),
    ([-9.0, 0.0], 5),
    ([np.nan, 0.0], -1),
    ([0.0, np.inf], -1),
]
ROWS = np.array([row for row, _ in ROWS_AND_LEAVES])
LEAVES = [leaf for _, leaf in ROWS_AND_LEAVES]


def test_a_tree_has_the_shape_of_its_splits():
    tree = grown()
    assert tree.leaves == (3, 4, 5, 6, 7)
    assert [tree.children(node) for node in range(8)] == [
        (1, 2),
        (6, 7),
        (3, 4, 5),
        (),
        (),
        (),
        (),
        (),
    ]
    assert [tree.path(node)[:-1] for node in range(8)] == [
        (),
        (0,),
        (0,),
        *[(0, 2)] * 3,
        *[(0, 1)] * 2,
    ]
    assert repr(tree) == "ClusterTree(dim=2, nodes=8, leaves=5)"


def test_a_row_reaches_its_leaf():
    leaves = grown().assign(ROWS)
    assert leaves.dtype == np.int64
    assert leaves.tolist() == LEAVES


# Each row of a node has reached one of these leaves.
@pytest.mark.parametrize(
    ("node", "below"), [(0, {3, 4, 5, 6, 7}), (1, {6, 7}), (2, {3, 4, 5}), (5, {5})]
)
def test_members_of_a_node_are_the_rows_of_the_leaves_below_it(node, below):
    assert grown().members(ROWS, node).tolist() == [leaf in below for leaf in LEAVES]


def test_rows_are_grouped_by_node():
    grouped, ends = grouped_rows(ROWS, grown().only(2))
    np.testing.assert_array_equal(grouped[: ends[1]], ROWS[2:6])


def test_a_root_takes_every_finite_row():
    tree = ClusterTree.root(2)
    assert tree.leaves == (0,)
    assert tree.assign(ROWS).tolist() == [0] * 6 + [-1, -1]


def split_twice():
    """A tree, and what it grows to."""
    root = ClusterTree.root(2)
    origin = [0.0, 0.0]
    old = root.split_ball(0, origin=origin, projection=None, center=origin, radius=1.0)
    centers = [[0.0, 0.0], [1.0, 0.0]]
    return old, old.split_nearest(1, origin=origin, projection=None, centers=centers)


def test_growth_keeps_the_old_tree_and_its_ids():
    old, new = split_twice()
    assert old.leaves == (1, 2)
    assert new.leaves == (2, 3, 4)
    rows = np.random.default_rng(0).standard_normal((500, 2))
    np.testing.assert_array_equal(old.members(rows, 1), new.members(rows, 1))
    assert old.only(1).lineage == new.only(1).lineage
    assert new.only(3).lineage[:2] == new.only(1).lineage


def test_a_tree_cannot_be_changed():
    _, tree = split_twice()
    with pytest.raises(AttributeError):
        tree.dim = 3
    with pytest.raises(ValueError, match="read-only"):
        tree.splits[0].origin[0] = 1.0


def test_routes_to_some_nodes_take_their_rows_only():
    tree = grown()
    assert tree._labels(ROWS, tree.routes((4, 1))).tolist() == [1, 1, 0, -1, 0, -1, -1, -1]
    raises(InputError, "below another", tree.routes, (1, 7))


def test_json_round_trip_bit_for_bit():
    rng = np.random.default_rng(4)
    tree = ClusterTree.root(7)
    for node in (0, 1, 2, 4):
        projection = rng.standard_normal((3, 7))
        origin = rng.standard_normal(7)
        center = rng.standard_normal(3)
        radius = rng.uniform(2, 4)
        tree = tree.split_ball(
            node, origin=origin, projection=projection, center=center, radius=radius
        )
    centers = rng.standard_normal((4, 7))
    tree = tree.split_nearest(3, origin=np.zeros(7), projection=None, centers=centers)
    again = ClusterTree.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again.routes().lineage == tree.routes().lineage
    rows = 2.0 * rng.standard_normal((2000, 7))
    np.testing.assert_array_equal(again.assign(rows), tree.assign(rows))
    assert len(set(tree.assign(rows))) > 4


BALL = {"origin": [0, 0], "projection": None, "center": [0, 0], "radius": 1.0}
LEAF = 3


@pytest.mark.parametrize(
    ("node", "change"),
    [
        (0, {}),  # not a leaf
        (8, {}),
        (LEAF, {"origin": [0, 0, 0]}),
        (LEAF, {"origin": [0, np.nan]}),
        (LEAF, {"center": [0, 0, 0]}),
        (LEAF, {"projection": [[1, 0, 0]], "center": [0]}),
        (LEAF, {"radius": -1.0}),
        (LEAF, {"radius": np.inf}),
    ],
    ids=str,
)
def test_balls_that_are_refused(node, change):
    raises(InputError, None, grown().split_ball, node, **{**BALL, **change})


@pytest.mark.parametrize("centers", [[0, 0], np.zeros((0, 2))], ids=["one row", "none"])
def test_centers_that_are_refused(centers):
    split = grown().split_nearest
    raises(InputError, None, split, LEAF, origin=[0, 0], projection=None, centers=centers)


def test_nodes_that_are_refused():
    raises(InputError, None, grown().children, -1)
    raises(InputError, None, grown().path, True)


def test_a_tree_without_columns_is_refused():
    raises(InputError, None, ClusterTree.root, 0)


@pytest.mark.parametrize("text", [{"dim": 2}, {"dim": 2, "nodes": [{"rule": "cone"}]}], ids=str)
def test_stored_trees_that_are_refused(text):
    raises(InputError, None, ClusterTree.from_dict, text)
