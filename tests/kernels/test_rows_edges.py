"""Values that private rows may hold (values 1-12 of the catalogue of bad input): none raises, none warns, none escapes the clip."""

import math
import struct

import numpy as np
import pytest
from row_cases import (
    KINDS,
    LEVELS,
    SIGNALLING_NAN,
    SPECIAL_BITS,
    counts_of,
    gram_of,
    instruction_set,
    integers_of,
    make_map,
    sum_of,
)
from twins import rows as reference

from fastpubpriv.kernels import rows as kernels
from fastpubpriv.maps import MatrixKind, RowMap

BOUND = 2000
PLAIN = RowMap(dim=3, out_dim=3, quant_bound=BOUND, inv_step=1.0, limit=1990.0)


def everywhere(x, row_map):
    """Integer rows, after checking that twin, sums and Grams of every instruction set agree with them."""
    q = integers_of(x, row_map, reference)
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(integers_of(x, row_map), q)
            np.testing.assert_array_equal(sum_of(x, row_map), q.sum(axis=0, dtype=np.int64))
            wide = q.astype(np.int64)
            np.testing.assert_array_equal(gram_of(x, row_map), np.tril(wide.T @ wide))
            # Blocks of nothing else than one of the rows: loops that take 32 rows at once leave fewer to the tiles.
            np.testing.assert_array_equal(sum_of(np.repeat(x, 32, axis=0), row_map), 32 * wide.sum(axis=0))
    return q


def from_bits(word):
    return struct.unpack("<d", struct.pack("<Q", word))[0]


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize(
    "value", [np.nan, np.inf, -np.inf, from_bits(SIGNALLING_NAN), from_bits(0xFFF8_0000_DEAD_BEEF)], ids=str
)
def test_one_bad_entry_makes_the_row_neutral_and_no_other(value, column):
    x = np.tile([100.0, -200.0, 300.0], (20, 1))
    x[7].view(np.uint64)[column] = np.float64(value).view(np.uint64)
    q = everywhere(x, PLAIN)
    assert q[7].tolist() == [0, 0, 0]
    assert (np.delete(q, 7, axis=0) == [100, -200, 300]).all()


def test_signalling_bits_survive_until_the_kernel():
    x = np.zeros((9, 3))
    x.view(np.uint64)[4, 1] = SIGNALLING_NAN
    assert x.view(np.uint64)[4, 1] == SIGNALLING_NAN
    x[:, 0] = 5.0
    assert sum_of(x, PLAIN).tolist() == [40, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_nothing_but_nan(kind):
    row_map = make_map(np.random.default_rng(0), 11, kind)
    assert not everywhere(np.full((33, 11), np.nan), row_map).any()
    assert counts_of(np.full((33, 11), np.nan), row_map, np.array([1.0])).tolist() == [0, 0]


@pytest.mark.parametrize("size", [1e160, 1e200, 1e300, 1.7e308, np.finfo(np.float64).max])
def test_huge_rows_are_clipped_not_lost(size):
    q = everywhere(np.array([[size, 0.0, 0.0], [0.0, -size, 0.0], [size, -size, size]]), PLAIN)
    corner = round(1990.0 / math.sqrt(3.0))
    assert q.tolist() == [[1990, 0, 0], [0, -1990, 0], [corner, -corner, corner]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 1e10, 1e150])
def test_huge_rows_keep_their_direction(kind, scale):
    """Whatever the map and the grid, a finite row that is too long comes out with the clip norm."""
    rng = np.random.default_rng(5)
    row_map = make_map(rng, 9, kind, scale=scale, offset=False)
    x = rng.standard_normal((16, 9)) * 1e307
    q = everywhere(x, row_map).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), row_map.limit, atol=0.5 * math.sqrt(row_map.out_dim))
    small = RowMap(
        dim=9,
        out_dim=row_map.out_dim,
        quant_bound=BOUND,
        inv_step=1e9,
        limit=row_map.limit,
        kind=kind,
        matrix=row_map.matrix,
    )
    assert np.abs(q - everywhere(x * 1e-306, small)).max() <= 2.0


def test_difference_that_overflows():
    """x - center is infinite although both are finite."""
    row_map = RowMap(dim=2, out_dim=2, quant_bound=BOUND, inv_step=1.0, limit=1990.0, center=np.array([-1.7e308, 0.0]))
    assert everywhere(np.array([[1.7e308, 0.0], [-1.7e308, 4.0]]), row_map).tolist() == [[1990, 0], [0, 4]]


@pytest.mark.parametrize("value", [5e-324, -5e-324, 2.2e-308, 0.0, -0.0])
def test_tiny_and_signed_zero(value):
    assert not everywhere(np.full((10, 3), value), PLAIN).any()
    fine = RowMap(dim=3, out_dim=3, quant_bound=BOUND, inv_step=1e308, limit=1990.0)
    assert (everywhere(np.full((10, 3), 1e-308 * np.sign(value)), fine) == np.sign(value)).all()


@pytest.mark.parametrize("ulps", [-4, -1, 0, 1, 4])
def test_rows_at_the_radius(ulps):
    """On it, and some units in the last place to either side: the same integers, for the grid is far coarser."""
    length = 1990.0
    for _ in range(abs(ulps)):
        length = math.nextafter(length, math.inf * ulps)
    x = np.array([[length, 0.0, 0.0], [0.0, 0.6 * length, 0.8 * length]])
    assert everywhere(x, PLAIN).tolist() == [[1990, 0, 0], [0, 1194, 1592]]


def test_identical_rows_and_ties_to_even():
    x = np.tile([0.5, 1.5, -2.5], (300, 1))
    assert everywhere(x, PLAIN)[0].tolist() == [0, 2, -2]
    assert sum_of(x, PLAIN).tolist() == [0, 600, -600]


@pytest.mark.parametrize("limit", [1000.0, 1e6, 1e12, 1e300])
def test_rows_that_fail_the_integer_check_count_as_zero(limit):
    """With a clip norm beyond the bound nothing but the integer check stands; among good rows, at every place of a group."""
    row_map = RowMap(dim=20, out_dim=20, quant_bound=100, inv_step=1.0, limit=limit)
    rng = np.random.default_rng(1)
    for bad in (0, 3, 7, 8, 40, 62, 63, 64):
        x = np.rint(rng.uniform(-9, 9, size=(65, 20)))
        x[bad, rng.integers(20)] = 101.0
        q = everywhere(x, row_map)
        assert not q[bad].any()
        np.testing.assert_array_equal(np.delete(q, bad, axis=0), np.delete(x, bad, axis=0))
    x[:, 0] = 2.0**63  # as an int64, or squared modulo 2^64, this could pass for zero
    assert not everywhere(x, row_map).any()
    x[:, 0] = 2.0**32
    assert not everywhere(x, row_map).any()


def test_every_pair_of_notorious_values():
    """All rows of two notorious bit patterns, under every kind of map; no warning escapes either (they are errors here)."""
    words = np.array([(a, b) for a in SPECIAL_BITS for b in SPECIAL_BITS], dtype=np.uint64)
    x = np.ascontiguousarray(words).view(np.float64)
    rng = np.random.default_rng(8)
    for kind in KINDS:
        q = everywhere(x, make_map(rng, 2, kind, scale=1e5))
        finite = np.isfinite(x).all(axis=1)
        assert not q[~finite].any()
        assert q[finite].any()


def test_matrix_above_the_diagonal_is_never_read():
    matrix = np.array([[1.0, 1e300], [2.0, 1.0]])
    row_map = RowMap(
        dim=2, out_dim=2, quant_bound=BOUND, inv_step=1.0, limit=1990.0, kind=MatrixKind.LOWER, matrix=matrix
    )
    assert everywhere(np.array([[3.0, 4.0]]), row_map).tolist() == [[3, 10]]


def test_empty_and_single_rows_leave_or_fill_the_outputs():
    sums = np.array([7, 8, 9], dtype=np.int64)
    kernels.rows_sum(np.empty((0, 3)), PLAIN, sums)
    assert sums.tolist() == [7, 8, 9]
    kernels.rows_sum(np.array([[1.0, 2.0, 3.0]]), PLAIN, sums)
    assert sums.tolist() == [8, 10, 12]
    assert integers_of(np.empty((0, 3)), PLAIN).shape == (0, 3)
    assert not gram_of(np.empty((0, 3), dtype=np.float32), PLAIN).any()


def test_one_row_seen_many_times():
    """Row stride zero: a broadcast array."""
    x = np.broadcast_to(np.array([1.0, 2.0, 3.0]), (1000, 3))
    assert sum_of(x, PLAIN).tolist() == [1000, 2000, 3000]
    assert gram_of(x, PLAIN)[2].tolist() == [3000, 6000, 9000]
