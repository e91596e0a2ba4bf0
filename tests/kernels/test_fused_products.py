"""Fused products of maps: where one would make another integer than the unfused product, the row is taken again, unfused.

Every case has rows whose integers differ if a processor fuses multiplying with adding and does not look: `test_plants_are_caught`
says so in exact fractions.
"""

from fractions import Fraction

import numpy as np
import pytest
from row_cases import LEVELS, gram_of, instruction_set, integers_of, sum_of
from twins import rows as reference

from fastpubpriv.maps import MatrixKind, RowMap

DIMS = (24, 25, 31, 50, 127, 128, 129, 257)
SMALL, LARGE = 2.0**-41, 2.0**-12  # 1 + LARGE is a float32, and half a last bit of 1 is SMALL * LARGE


def planted_map(dim, kind, sign):
    """Output i is sign (1 + SMALL) x_i, less (1/2 + SMALL + LARGE) x_0; the limit clips no row."""
    matrix = np.diag(np.full(dim, sign * (1.0 + SMALL)))
    matrix[:, 0] = -sign * (0.5 + LARGE + SMALL)
    return RowMap(dim=dim, out_dim=dim, quant_bound=2896, inv_step=1.0, limit=2800.0, kind=kind, matrix=matrix)


def planted_rows(dim, place, dtype=np.float64):
    """One row: the product of column `place`, 1 + LARGE, keeps SMALL * LARGE only when it is fused with the sum before it."""
    x = np.zeros((1, dim), dtype=dtype)
    x[0, 0] = 1.0
    x[0, place] = 1.0 + LARGE
    return x


def every_set(x, row_map):
    """Integers of the rows from the reference, after all sets of instructions have agreed with it."""
    expected = integers_of(x, row_map, reference)
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(integers_of(x, row_map), expected)
            np.testing.assert_array_equal(sum_of(x, row_map), expected.sum(axis=0, dtype=np.int64))
            wide = expected.astype(np.int64)
            np.testing.assert_array_equal(np.tril(gram_of(x, row_map)), np.tril(wide.T @ wide))
    return expected


def test_plants_are_caught():
    """The unfused sum is a half, which rounds to 0; the exact one, and the fused, is above, which would be 1."""
    row_map, x = planted_map(24, MatrixKind.LOWER, 1.0), planted_rows(24, 7)
    row = row_map.matrix[7]
    exact = Fraction(row[0]) + Fraction(row[7]) * Fraction(1.0 + LARGE)
    assert exact == Fraction(1, 2) + Fraction(SMALL) * Fraction(LARGE)
    assert float(exact) > 0.5
    assert row[0] + row[7] * (1.0 + LARGE) == 0.5
    assert every_set(x, row_map)[0, 7] == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [MatrixKind.LOWER, MatrixKind.FULL])
@pytest.mark.parametrize("dim", DIMS)
def test_one_planted_row_alone_and_among_others(dim, kind, dtype):
    rng = np.random.default_rng(dim)
    for sign in (1.0, -1.0):
        row_map = planted_map(dim, kind, sign)
        for place in {1, dim // 2, dim - 1}:
            row = planted_rows(dim, place, dtype)
            assert every_set(row, row_map)[0, place] == 0
            apart = np.full((67, dim + 3), 9.0, dtype=dtype)
            apart[:, 1:-2] = rng.standard_normal((67, dim))
            for at in (0, 7, 66):
                apart[at, 1:-2] = row[0]
            found = every_set(apart[:, 1:-2], row_map)
            assert not found[[0, 7, 66], place].any()
            assert found.any()


def test_many_planted_rows():
    """So many rows are taken twice that later products are not fused: it changes no integer."""
    row_map = planted_map(40, MatrixKind.LOWER, 1.0)
    rows = np.concatenate([planted_rows(40, place) for place in range(1, 40)])
    x = np.concatenate([rows, np.random.default_rng(0).standard_normal((200, 40)), rows])
    assert not every_set(x, row_map)[np.arange(39), np.arange(1, 40)].any()


@pytest.mark.parametrize("limit", [2800.0, 40.0])
@pytest.mark.parametrize("magnitude", [2.0**30, 2.0**36, 2.0**42])
def test_products_that_cancel(magnitude, limit):
    """Large products with small sums: rounding errors of the products decide many integers, and for the largest all of them."""
    rng = np.random.default_rng(1)
    dim, n = 50, 400
    matrix = rng.standard_normal((dim, dim))
    matrix -= matrix.mean(axis=1, keepdims=True)
    x = magnitude + 8.0 * rng.standard_normal((n, dim))
    row_map = RowMap(
        dim=dim, out_dim=dim, quant_bound=2896, inv_step=1.0, limit=limit, kind=MatrixKind.FULL, matrix=matrix
    )
    assert np.unique(every_set(x, row_map)).size > 20


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e-120, 1e120, 1e150, 1e200])
def test_columns_and_steps_far_from_one(scale):
    """Weights of columns and steps whose squares are not numbers: no product is fused, or the bound holds."""
    rng = np.random.default_rng(2)
    dim = 30
    plain = planted_map(dim, MatrixKind.LOWER, 1.0)
    rows = np.concatenate([planted_rows(dim, 9), rng.standard_normal((20, dim))])
    for by_column in (True, False):
        row_map = RowMap(
            dim=dim,
            out_dim=dim,
            quant_bound=2896,
            inv_step=1.0 if by_column else 1.0 / scale,
            limit=2800.0,
            kind=MatrixKind.LOWER,
            matrix=plain.matrix * scale,
        )
        every_set(rows / scale if by_column else rows, row_map)
    mixed = plain.matrix.copy()
    mixed[:, 5] = 0.0
    row_map = RowMap(
        dim=dim, out_dim=dim, quant_bound=2896, inv_step=1.0, limit=2800.0, kind=MatrixKind.LOWER, matrix=mixed
    )
    assert every_set(rows, row_map)[0, 9] == 0
