"""The values that describe a pass: they survive a pickle, and their numbers are those of the C header."""

import pickle

import numpy as np
import pytest

from fastpubpriv.errors import InputError
from fastpubpriv.kernels._cext import lib
from fastpubpriv.kernels.densities import mixture_table
from fastpubpriv.kernels.tree import Members, tree_assign
from fastpubpriv.row_maps import MatrixKind, RowMap, RowTree, Rule, Split


def split(**changes):
    given = {"rule": Rule.NEAREST, "origin": np.zeros(2), "projection": None, "centers": np.eye(2), "first_child": 1}
    return Split(**given | changes)


ROW_MAP = RowMap(
    dim=2, out_dim=2, quant_bound=9, inv_step=2.0, limit=8.0, kind=MatrixKind.FULL, matrix=np.eye(2), offset=np.ones(2)
)
TREE = RowTree(2, [split(), None, None], [1, 2])


def arrays(value):
    return {name: each for name in dir(value) if isinstance(each := getattr(value, name), np.ndarray)}


@pytest.mark.parametrize(
    "value", [ROW_MAP, split(), split(projection=np.ones((2, 2)))], ids=["map", "split", "projected"]
)
def test_a_pickle_keeps_the_fields_and_their_arrays_read_only(value):
    again = pickle.loads(pickle.dumps(value))
    assert arrays(value)
    assert arrays(value).keys() == arrays(again).keys()
    for name, array in arrays(again).items():
        np.testing.assert_array_equal(array, arrays(value)[name])
        assert not array.flags.writeable
    for name in value.__dataclass_fields__.keys() - arrays(value).keys():
        assert getattr(again, name) == getattr(value, name)


def test_a_pickled_tree_gives_the_same_labels():
    chunk = np.random.default_rng(0).normal(size=(100, 2))
    labels = np.empty((2, 100), dtype=np.int32)
    again = pickle.loads(pickle.dumps(TREE))
    for tree, out in zip((TREE, again), labels, strict=True):
        tree_assign(chunk, tree, out)
    np.testing.assert_array_equal(*labels)
    assert set(labels[0]) == {0, 1}
    assert (again.lineage, again.above) == (TREE.lineage, TREE.above)
    members = Members(RowTree(2, TREE.splits, [1]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(members))(chunk), chunk[labels[0] == 0])


def test_a_pickled_table_of_mixtures_is_the_same():
    table = mixture_table(np.ones((3, 1)), np.zeros((3, 1, 2)), np.ones((3, 1, 2)))
    again = pickle.loads(pickle.dumps(table))
    for name, array in arrays(table).items():
        np.testing.assert_array_equal(array, arrays(again)[name])


def test_numbers_of_kinds_are_those_of_the_header():
    for kind in MatrixKind:
        assert kind.value == getattr(lib, f"FPP_MATRIX_{kind.name}")
    for rule in Rule:
        assert rule.value == getattr(lib, f"FPP_NODE_{rule.name}")


@pytest.mark.parametrize("dim", [0, -1, 2**24 + 1])
def test_a_tree_of_impossible_rows_is_refused(dim):
    with pytest.raises(InputError, match="columns"):
        RowTree(dim, [None], [0])
