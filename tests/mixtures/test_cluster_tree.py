"""The cluster tree as a value: it grows without changing, says where rows belong, and survives JSON."""

import json

import numpy as np
import pytest

from fastpubpriv.errors import InputError
from fastpubpriv.mixtures.separated.tree import ClusterTree


def grown():
    """A ball, then the nearest of three centres outside, then a projected ball inside."""
    tree = ClusterTree.root(2)
    tree = tree.split_ball(0, origin=[1.0, 0.0], projection=None, center=[0.0, 0.0], radius=2.0)
    tree = tree.split_nearest(2, origin=[0.0, 0.0], projection=None, centers=[[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0]])
    return tree.split_ball(1, origin=[0.0, 0.0], projection=[[1.0, 1.0]], center=[1.0], radius=0.5)


ROWS = np.array([[0.5, 0.5], [1.0, 2.0], [1.0, 2.1], [9.0, 1.0], [0.0, 9.0], [-9.0, 0.0], [np.nan, 0.0], [0.0, np.inf]])


def test_a_tree_has_the_shape_of_its_splits():
    tree = grown()
    assert tree.leaves == (3, 4, 5, 6, 7)
    assert [tree.children(node) for node in range(8)] == [(1, 2), (6, 7), (3, 4, 5), (), (), (), (), ()]
    assert [tree.parent(node) for node in range(8)] == [None, 0, 0, 2, 2, 2, 1, 1]
    assert [tree.depth(node) for node in range(8)] == [0, 1, 1, 2, 2, 2, 2, 2]
    assert tree.path(7) == (0, 1, 7)
    assert repr(tree) == "ClusterTree(dim=2, nodes=8, leaves=5)"


def test_rows_reach_the_leaf_that_a_hand_would_send_them_to():
    tree = grown()
    assert tree.assign(ROWS).tolist() == [6, 7, 4, 3, 4, 5, -1, -1]
    assert tree.assign(ROWS).dtype == np.int64
    assert tree.members(ROWS, 0).tolist() == [True] * 6 + [False] * 2
    assert tree.members(ROWS, 1).tolist() == [True] * 2 + [False] * 6
    assert tree.members(ROWS, 5).tolist() == [False] * 5 + [True] + [False] * 2
    np.testing.assert_array_equal(tree.only(2)(ROWS), ROWS[2:6])


def test_a_root_takes_every_finite_row():
    tree = ClusterTree.root(2)
    assert tree.leaves == (0,)
    assert tree.assign(ROWS).tolist() == [0] * 6 + [-1, -1]


def test_growth_keeps_the_old_tree_and_its_ids():
    old = ClusterTree.root(2).split_ball(0, origin=[0.0, 0.0], projection=None, center=[0.0, 0.0], radius=1.0)
    new = old.split_nearest(1, origin=[0.0, 0.0], projection=None, centers=[[0.0, 0.0], [1.0, 0.0]])
    assert old.leaves == (1, 2)
    assert new.leaves == (2, 3, 4)
    rows = np.random.default_rng(0).standard_normal((500, 2))
    np.testing.assert_array_equal(old.members(rows, 1), new.members(rows, 1))
    assert old.only(1).lineage == new.only(1).lineage
    assert new.only(3).lineage[:2] == new.only(1).lineage
    with pytest.raises(AttributeError):
        new.dim = 3
    with pytest.raises(ValueError, match="read-only"):
        new.splits[0].origin[0] = 1.0


def test_routes_to_some_nodes():
    tree = grown()
    assert tree._labels(ROWS, tree.routes((4, 1))).tolist() == [1, 1, 0, -1, 0, -1, -1, -1]
    with pytest.raises(InputError, match="below another"):
        tree.routes((1, 7))


def test_json_round_trip_bit_for_bit():
    rng = np.random.default_rng(4)
    tree = ClusterTree.root(7)
    for node in (0, 1, 2, 4):
        projection = rng.standard_normal((3, 7))
        tree = tree.split_ball(
            node,
            origin=rng.standard_normal(7),
            projection=projection,
            center=rng.standard_normal(3),
            radius=rng.uniform(2, 4),
        )
    tree = tree.split_nearest(3, origin=np.zeros(7), projection=None, centers=rng.standard_normal((4, 7)))
    again = ClusterTree.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again.routes().lineage == tree.routes().lineage
    rows = 2.0 * rng.standard_normal((2000, 7))
    np.testing.assert_array_equal(again.assign(rows), tree.assign(rows))
    assert len(set(tree.assign(rows))) > 4


@pytest.mark.parametrize(
    "split",
    [
        lambda tree: tree.split_ball(0, origin=[0, 0], projection=None, center=[0, 0], radius=1.0),  # not a leaf
        lambda tree: tree.split_ball(8, origin=[0, 0], projection=None, center=[0, 0], radius=1.0),
        lambda tree: tree.split_ball(3, origin=[0, 0, 0], projection=None, center=[0, 0], radius=1.0),
        lambda tree: tree.split_ball(3, origin=[0, np.nan], projection=None, center=[0, 0], radius=1.0),
        lambda tree: tree.split_ball(3, origin=[0, 0], projection=None, center=[0, 0, 0], radius=1.0),
        lambda tree: tree.split_ball(3, origin=[0, 0], projection=[[1, 0, 0]], center=[0], radius=1.0),
        lambda tree: tree.split_ball(3, origin=[0, 0], projection=None, center=[0, 0], radius=-1.0),
        lambda tree: tree.split_ball(3, origin=[0, 0], projection=None, center=[0, 0], radius=np.inf),
        lambda tree: tree.split_nearest(3, origin=[0, 0], projection=None, centers=[0, 0]),
        lambda tree: tree.split_nearest(3, origin=[0, 0], projection=None, centers=np.zeros((0, 2))),
        lambda tree: tree.children(-1),
        lambda tree: tree.depth(True),
        lambda tree: ClusterTree.root(0),
        lambda tree: ClusterTree.from_dict({"dim": 2}),
        lambda tree: ClusterTree.from_dict({"dim": 2, "nodes": [{"rule": "cone"}]}),
    ],
)
def test_refuses_bad_public_arguments(split):
    with pytest.raises(InputError):
        split(grown())
