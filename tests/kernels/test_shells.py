"""Shell counts: membership is one fixed order of additions, whichever way the rows are cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import LEVELS, cases, counts_of, instruction_set, make_map, make_rows
from twins import rows as reference

from fastpubpriv.errors import KernelError
from fastpubpriv.row_maps import MatrixKind, RowMap

PLAIN = RowMap(dim=2, out_dim=2, quant_bound=1, inv_step=1.0, limit=1.0)


@given(cases(), st.lists(st.floats(0.0, 1e6), max_size=9), st.booleans())
@settings(max_examples=300, deadline=None)
def test_counts_equal_twin(case, edges, unbounded):
    edges_sq = np.sort(np.array([*edges, np.inf] if unbounded else edges, dtype=np.float64))
    expected = counts_of(case.chunk, case.row_map, edges_sq, reference)
    finite = np.isfinite(case.chunk).all(axis=1)
    assert expected.sum() == finite.sum()
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(counts_of(case.chunk, case.row_map, edges_sq), expected)


@pytest.mark.parametrize("kind", list(MatrixKind))
def test_membership_does_not_depend_on_the_cut(kind):
    """Edges that are norms of rows: one bit of difference would move a row to the next cell."""
    rng = np.random.default_rng(11)
    row_map = make_map(rng, 37, kind)
    x = make_rows(rng, 2000, 37)
    with np.errstate(all="ignore"):
        norms = np.sort(reference._norm_sq(reference._affine(x, row_map, 1.0)))
    edges_sq = norms[np.isfinite(norms)][::10].copy()
    whole = counts_of(x, row_map, edges_sq, reference)
    for size in (1, 3, 7, 64, 1000):
        for level in LEVELS:
            with instruction_set(level):
                pieces = range(0, 2000 if size > 3 else 300, size)
                split = sum(counts_of(x[i : i + size], row_map, edges_sq) for i in pieces)
                end = min(2000, pieces[-1] + size)
                np.testing.assert_array_equal(split, counts_of(x[:end], row_map, edges_sq))
    np.testing.assert_array_equal(counts_of(x, row_map, edges_sq), whole)


def test_a_row_on_an_edge_is_inside():
    x = np.array([[3.0, 4.0], [np.nextafter(5.0, 6.0), 0.0], [np.nextafter(5.0, 4.0), 0.0], [0.0, -0.0]])
    assert counts_of(x, PLAIN, np.array([0.0, 25.0])).tolist() == [1, 2, 1]
    assert counts_of(x, PLAIN, np.array([25.0, 25.0])).tolist() == [3, 0, 1]  # nothing lies between equal edges


def test_extreme_rows():
    x = np.array([[1e200, 0.0], [1.7e308, -1.7e308], [np.nan, 0.0], [0.0, np.inf], [5e-324, 0.0]])
    edges_sq = np.array([0.0, 1.0, np.inf])
    assert counts_of(x, PLAIN, edges_sq).tolist() == [1, 0, 0, 2]
    assert counts_of(x, PLAIN, edges_sq, reference).tolist() == [1, 0, 0, 2]
    assert counts_of(x, PLAIN, np.array([])).tolist() == [3]


@pytest.mark.parametrize("edges", [[2.0, 1.0], [np.nan], [-1.0], [1.0, np.nan, 2.0]])
def test_refuses_edges_that_do_not_ascend(edges):
    with pytest.raises(KernelError):
        counts_of(np.ones((2, 2)), PLAIN, np.array(edges))


def test_scale_of_the_map_is_not_read():
    """A grid that would round everything away has no say in a shell count."""
    other = RowMap(dim=2, out_dim=2, quant_bound=5, inv_step=1e-300, limit=1e-300)
    x = np.random.default_rng(2).standard_normal((50, 2))
    edges_sq = np.array([0.5, 1.0, 2.0])
    counts = counts_of(x, PLAIN, edges_sq)
    assert counts.tolist() == counts_of(x, other, edges_sq).tolist()
    assert counts.tolist() == np.histogram((x**2).sum(axis=1), [0.0, 0.5, 1.0, 2.0, np.inf])[0].tolist()
