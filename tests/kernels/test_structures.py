"""C structures and the arrays that they point to."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels.kept import KeptNodes, known_nodes
from fastpubpriv.maps import RowTree, Rule, Split


def test_a_structure_keeps_its_arrays_alive():
    moments = np.ones(3)
    alive = weakref.ref(moments)
    made = _cbuf.new("fpp_normals *", (1, 3, _cbuf.inp(moments), _cbuf.inp(moments)))
    del moments
    gc.collect()
    assert alive() is not None  # a thread may be at work on it after an interrupt
    del made
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "pointer",
    [
        _cbuf.inp,
        _cbuf.out,
        lambda x: _cbuf.plain_rows(x)[0],
        lambda x: _cbuf.rows(x, 3)[0],
        lambda x: _cbuf.rows(x[::2], 3)[0],
        lambda x: _cbuf.rows(x[:, :2], 2)[0],
        lambda x: _cbuf.strided(x[:, 1])[0],
        lambda x: _cbuf.strided(x[::-1, 2])[0],
        lambda x: _cbuf.new("double *[]", [_cbuf.inp(x)]),
    ],
)
def test_a_pointer_keeps_its_array_alive(pointer):
    rows = np.ones((4, 3))
    alive = weakref.ref(rows)
    made = pointer(rows)
    del rows
    gc.collect()
    assert alive() is not None
    del made
    gc.collect()
    assert alive() is None


def test_what_is_known_of_rows_keeps_the_tree_alive():
    """A thread may be at work on it when the pass has gone, and the next one watches another tree."""
    rows, origin, center = np.zeros((1 << 14, 2)), np.zeros(2), np.zeros((1, 2))
    split = Split(rule=Rule.BALL, origin=origin, projection=None, centers=center, first_child=1, radius_sq=1.0)
    alive = weakref.ref(split.centers)
    tree = RowTree(2, [split, None, None], [1, 2])
    kept = KeptNodes.of(rows, None)
    kept.watch(tree)
    table = known_nodes(rows, tree).table
    del kept, tree, split
    gc.collect()
    assert alive() is not None
    del table
    gc.collect()
    assert alive() is None
