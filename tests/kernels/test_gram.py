"""Gram matrices: equal integers from C on every instruction set, from NumPy, and from BLAS in exact chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from row_cases import DIMS, KINDS, LEVELS, cases, gram_of, instruction_set, integers_of, make_map, make_rows
from twins import rows as reference

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.row_maps import MatrixKind, RowMap


def gram_blas(chunk, row_map):
    gram = np.zeros((row_map.out_dim, row_map.out_dim), dtype=np.int64)
    reference.rows_gram_blas(chunk, row_map, gram)
    return gram


@given(cases())
@settings(max_examples=300, deadline=None)
def test_gram_equals_twins(case):
    expected = gram_of(case.chunk, case.row_map, reference)
    np.testing.assert_array_equal(gram_blas(case.chunk, case.row_map), expected)
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(gram_of(case.chunk, case.row_map), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [*DIMS, 47, 48, 49, 96, 100])
def test_every_size_and_kind(dim, kind):
    """Rows beyond one flush and one super-panel, columns around the panels of every instruction set."""
    rng = np.random.default_rng(dim)
    row_map = make_map(rng, dim, kind, quant_bound=2896)
    x = make_rows(rng, 1303, dim, [np.nan, np.inf])
    expected = gram_of(x, row_map, reference)
    assert (np.triu(expected, 1) == 0).all()
    assert expected.any()
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(gram_of(x, row_map), expected)
            np.testing.assert_array_equal(gram_of(x[:0].astype(np.float32), row_map), 0)


@pytest.mark.parametrize("level", LEVELS)
def test_largest_entries_do_not_overflow_an_accumulator(level):
    """All rows at the bound, far beyond the rows that 32 bits can hold."""
    n, bound = 5000, 2896
    row_map = RowMap(dim=2, out_dim=2, quant_bound=bound, inv_step=1.0, limit=float(bound))
    x = np.zeros((n, 2))
    x[:, 1] = -float(bound)
    with instruction_set(level):
        gram = gram_of(x, row_map)
    assert gram.tolist() == [[0, 0], [0, n * bound**2]]


@pytest.mark.parametrize("dim", [5, 64, 260])
def test_splits_change_nothing(dim):
    rng = np.random.default_rng(3)
    row_map = make_map(rng, dim, MatrixKind.LOWER)
    x = make_rows(rng, 700, dim, [np.nan])
    whole = gram_of(x, row_map)
    for size in (1, 3, 7, 64, 255, 256, 257):
        total = np.zeros_like(whole)
        for begin in range(0, 700, size):
            kernels.rows_gram(x[begin : begin + size], row_map, total)
        np.testing.assert_array_equal(total, whole)
    np.testing.assert_array_equal(gram_of(x[::-1], row_map), whole)


def test_wide_matrix():
    rng = np.random.default_rng(4)
    row_map = make_map(rng, 601, MatrixKind.FULL)
    x = make_rows(rng, 90, 601)
    q = integers_of(x, row_map).astype(np.int64)
    np.testing.assert_array_equal(q, integers_of(x, row_map, reference))
    np.testing.assert_array_equal(gram_of(x, row_map), np.tril(q.T @ q))


def test_gram_is_added_to_and_wraps_around():
    row_map = RowMap(dim=1, out_dim=1, quant_bound=100, inv_step=1.0, limit=99.0)
    gram = np.array([[2**63 - 1]], dtype=np.int64)
    kernels.rows_gram(np.array([[3.0]]), row_map, gram)
    assert gram[0, 0] == -(2**63) + 8


def test_gram_refuses_a_large_bound():
    row_map = RowMap(dim=2, out_dim=2, quant_bound=kernels.GRAM_QUANT_MAX + 1, inv_step=1.0, limit=9.0)
    with pytest.raises(KernelError):
        gram_of(np.ones((3, 2)), row_map)
    assert gram_blas(np.ones((3, 2)), row_map).tolist() == [[3, 0], [3, 3]]  # the BLAS path has no such limit
