"""Column sums and quantized rows: equal integers from C on every instruction set, from NumPy, and from exact fractions."""

import itertools
import math
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import (
    DIMS,
    KINDS,
    SIGNALLING_NAN,
    SPECIAL_BITS,
    cases,
    counted_gram_of,
    counted_sum_of,
    counts_of,
    gram_of,
    integers_of,
    make_map,
    make_rows,
    pieces_of,
    radial_of,
    same_at_every_level,
    sum_of,
)
from twins import rows as reference

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.kernels._cext import lib
from fastpubpriv.rowwise.losses import (
    NumberedResidual,
    huber_residual,
    logistic_residual,
    squared_residual,
    weighted_residual,
)
from fastpubpriv.rowwise.row_maps import MatrixKind, RowMap, RowScore, RowTree, Rule


@given(cases(), st.lists(st.floats(0.0, 1e6), max_size=9), st.booleans())
@settings(max_examples=300, deadline=None)
def test_whole_calls_equal_the_twin(case, edges, unbounded):
    """Integers, sums, Gram matrices, also by BLAS in exact chunks, and counts of shells."""
    rows = case.chunk
    row_map = case.row_map
    expected = integers_of(rows, row_map, reference)
    same_at_every_level(expected, integers_of, rows, row_map)
    same_at_every_level(sum_of(rows, row_map, reference), sum_of, rows, row_map)
    assert ((expected.astype(np.int64) ** 2).sum(axis=1) <= row_map.quant_bound**2).all()
    gram = gram_of(rows, row_map, reference)
    by_blas = np.zeros_like(gram)
    reference.rows_gram_blas(rows, row_map, by_blas)
    np.testing.assert_array_equal(by_blas, gram)
    same_at_every_level(gram, gram_of, rows, row_map)
    same_at_every_level(pieces_of(rows, row_map, reference), pieces_of, rows, row_map)
    same_at_every_level(radial_of(rows, row_map, module=reference), radial_of, rows, row_map)
    if unbounded:
        edges = [*edges, np.inf]
    edges_sq = np.sort(np.array(edges, dtype=np.float64))
    counts = counts_of(rows, row_map, edges_sq, reference)
    assert counts.sum() == np.isfinite(rows).all(axis=1).sum()
    same_at_every_level(counts, counts_of, rows, row_map, edges_sq)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [*DIMS, 47, 48, 49, 96, 100, 601])
def test_every_size_and_kind(dim, dtype, kind):
    """Rows beyond one flush and one super-panel, columns around the panels of every instruction set."""
    rng = np.random.default_rng(dim)
    row_map = make_map(rng, dim, kind, quant_bound=2896, center=dtype is np.float64)
    n = 1303 if dim < 300 else 90
    with np.errstate(over="ignore"):
        x = make_rows(rng, n, dim, [np.nan, np.inf]).astype(dtype)
    expected = integers_of(x, row_map, reference).astype(np.int64)
    assert expected.any()
    same_at_every_level(expected, integers_of, x, row_map)
    same_at_every_level(expected.sum(axis=0), sum_of, x, row_map)
    same_at_every_level(np.tril(expected.T @ expected), gram_of, x, row_map)
    same_at_every_level(counted_sum_of(x, row_map, reference), counted_sum_of, x, row_map)
    same_at_every_level(counted_gram_of(x, row_map, reference), counted_gram_of, x, row_map)
    same_at_every_level(pieces_of(x, row_map, reference), pieces_of, x, row_map)
    same_at_every_level(radial_of(x, row_map, module=reference), radial_of, x, row_map)
    same_at_every_level(0, gram_of, x[:0], row_map)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "dim", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 20, 40, 64, 100, 127, 128, 131, 500]
)
def test_rows_of_identity_maps(dim, dtype):
    """Identity maps without an offset have loops of their own: rows that are clipped or not, fail, cannot be used, or lie apart."""
    rng = np.random.default_rng(dim)
    # of rows at the last limit rounding lifts some above the bound
    limits = [(2000, None), (2000, 3.0), (40, 40.0)]
    for center, (bound, limit), hostile in itertools.product((False, True), limits, (False, True)):
        given = {"quant_bound": bound, "limit": limit, "center": center, "offset": False}
        row_map = make_map(rng, dim, MatrixKind.IDENTITY, **given)
        x = rng.standard_normal((203, dim))
        if hostile:
            x = make_rows(rng, 203, dim, [np.nan, np.inf])
        with np.errstate(over="ignore"):
            x = x.astype(dtype)
        apart = np.full((203, dim + 3), 1e9, dtype=dtype)
        apart[:, 1:-2] = x
        expected = integers_of(x, row_map, reference).sum(axis=0, dtype=np.int64)
        assert expected.any()
        same_at_every_level(expected, sum_of, x, row_map)
        same_at_every_level(expected, sum_of, apart[:, 1:-2], row_map)
        same_at_every_level(counted_sum_of(x, row_map, reference), counted_sum_of, x, row_map)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [3, 50, 130, 300])
def test_splits_and_threads_change_nothing(dim, kind):
    """Of pieces of few rows every fifth is taken: there are many."""
    rng = np.random.default_rng(7)
    row_map = make_map(rng, dim, kind)
    x = make_rows(rng, 700, dim, [np.nan, -np.inf, 1e200])
    integers = integers_of(x, row_map).astype(np.int64)
    for size in (1, 3, 7, 64, 255, 256, 257, 699):
        begins = range(0, 700, size if size > 3 else 5 * size)
        pieces = [x[begin : begin + size] for begin in begins]
        expected = np.concatenate([integers[begin : begin + size] for begin in begins])
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(partial(sum_of, row_map=row_map), pieces))
            grams = list(pool.map(partial(gram_of, row_map=row_map), pieces))
            parts = list(pool.map(partial(integers_of, row_map=row_map), pieces))
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        np.testing.assert_array_equal(np.sum(sums, axis=0), expected.sum(axis=0))
        np.testing.assert_array_equal(np.sum(grams, axis=0), np.tril(expected.T @ expected))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [3, 50, 130, 300])
def test_the_order_of_rows_changes_nothing(dim, kind):
    rng = np.random.default_rng(7)
    row_map = make_map(rng, dim, kind)
    x = make_rows(rng, 700, dim, [np.nan, -np.inf, 1e200])
    shuffled = rng.permutation(x)
    np.testing.assert_array_equal(sum_of(shuffled, row_map), sum_of(x, row_map))
    np.testing.assert_array_equal(gram_of(shuffled, row_map), gram_of(x, row_map))


SCORED = [
    squared_residual,
    logistic_residual,
    NumberedResidual(weighted_residual, (0.3, 1.0)),
    NumberedResidual(huber_residual, (4.0,)),
]


@pytest.mark.parametrize("kind", [MatrixKind.IDENTITY, MatrixKind.FULL])
@pytest.mark.parametrize("residual", SCORED, ids=["squared", "logistic", "weighted", "huber"])
@pytest.mark.parametrize("curvature", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 3, 8, 21, 33, 130])
def test_labeled_rows_become_scores(dim, dtype, weighted, curvature, residual, kind):
    """As the twin has them, alone and in company; labels and weights of all sorts."""
    rng = np.random.default_rng(dim)
    sizes = 2.0 ** rng.integers(0, 19, size=(203, 1))
    features = np.rint(rng.normal(size=(203, dim)) * sizes)
    labels = rng.choice([0.0, 1.0, 1.0, np.nan, np.inf, -3.0, 1e30], size=203)
    columns = [features, labels]
    if weighted:
        columns.append(rng.choice([0.0, 0.25, 1.0, 1.0, 7.0, -1.0], size=203))
    x = np.column_stack(columns).astype(dtype)
    x[5, 0] = np.nan
    score = RowScore(
        residual=residual,
        slope=np.rint(rng.normal(size=dim) * 2.0**20),
        unit=2.0**-30,
        step=2.0**-10,
        weighted=weighted,
        curvature=curvature,
    )
    centered = make_map(rng, dim, kind, limit=900.0)
    row_map = replace(centered, center=None, offset=None, score=score)
    expected = integers_of(x, row_map, reference)
    assert len(np.unique(expected)) > 5
    same_at_every_level(expected, integers_of, x, row_map)
    np.testing.assert_array_equal(gram_of(x, row_map), gram_of(x, row_map, reference))
    same_at_every_level(radial_of(x, row_map, module=reference), radial_of, x, row_map)
    edges_sq = 4.0 ** np.arange(-9, 9)
    counts = counts_of(x, row_map, edges_sq, reference)
    same_at_every_level(counts, counts_of, x, row_map, edges_sq)
    np.testing.assert_array_equal(integers_of(x[17:18], row_map), expected[17:18])


def test_sums_are_added_to_and_wrap_around():
    row_map = RowMap(dim=1, quant_bound=100, inv_step=1.0, limit=99.0)
    sums = np.array([2**63 - 2], dtype=np.int64)
    gram = np.array([[2**63 - 1]], dtype=np.int64)
    kernels.rows_sum(np.array([[3.0], [-1.0]]), row_map, sums)
    kernels.rows_gram(np.array([[3.0]]), row_map, gram)
    assert sums[0] == -(2**63)
    assert gram[0, 0] == -(2**63) + 8


@st.composite
def dyadic_cases(draw):
    """Rows, centers and matrices of small multiples of 1/8: without a clip, every floating-point step is exact."""
    eighths = st.integers(-64, 64).map(lambda k: k / 8)
    dim = draw(st.integers(1, 4))
    out_dim = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(KINDS))
    if kind is not MatrixKind.FULL:
        out_dim = dim

    def vectors(size):
        return st.lists(eighths, min_size=size, max_size=size)

    matrix = None
    if kind is MatrixKind.DIAGONAL:
        matrix = np.array(draw(vectors(dim)))
    elif kind is not MatrixKind.IDENTITY:
        matrix = np.array(draw(vectors(out_dim * dim))).reshape(out_dim, dim)
    return {
        "rows": draw(st.lists(vectors(dim), min_size=1, max_size=12)),
        "center": draw(vectors(dim)),
        "offset": draw(vectors(out_dim)),
        "matrix": matrix,
        "kind": kind,
        "out_dim": out_dim,
        "inv_step": draw(st.sampled_from((0.25, 1.0, 16.0))),
        "limit": draw(st.sampled_from((1e7, 50.0))),
    }


exactly = np.vectorize(Fraction, otypes=[object])


def exact_steps(row, case):
    """The row in grid steps before the clip, as fractions."""
    matrix = case["matrix"]
    dim = len(row)
    if case["kind"] is MatrixKind.IDENTITY:
        matrix = np.eye(dim)
    elif case["kind"] is MatrixKind.DIAGONAL:
        matrix = np.diag(matrix)
    elif case["kind"] is MatrixKind.LOWER:
        matrix = np.tril(matrix)
    centered = exactly(row) - exactly(case["center"])
    mapped = exactly(matrix) @ centered + exactly(case["offset"])
    return mapped * Fraction(case["inv_step"])


@given(dyadic_cases())
@settings(max_examples=300, deadline=None)
def test_equals_exact_fractions(case):
    """Unclipped rows: round half to even of the exact value. Clipped rows: within rounding of the exactly clipped value."""
    bound = 2**20
    row_map = RowMap(
        dim=len(case["center"]),
        quant_bound=bound,
        inv_step=case["inv_step"],
        limit=case["limit"],
        lower=case["kind"] is MatrixKind.LOWER,
        center=case["center"],
        matrix=case["matrix"],
        offset=case["offset"],
    )
    got = integers_of(np.array(case["rows"]), row_map).tolist()
    for row, q in zip(case["rows"], got, strict=True):
        steps = exact_steps(row, case)
        norm_sq = sum(s * s for s in steps)
        if norm_sq <= Fraction(case["limit"]) ** 2:
            assert q == [round(s) for s in steps]  # of a Fraction: half to even, exactly
        else:
            shrink = case["limit"] / math.sqrt(norm_sq)
            clipped = steps.astype(float) * shrink
            assert np.abs(q - clipped).max() <= 0.5 + 1e-9 * bound


def good(**changes):
    return {"dim": 3, "quant_bound": 100, "inv_step": 1.0, "limit": 90.0, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        # 3 Q^2 > 2^53
        {"dim": 0},
        {"dim": True},
        {"dim": 2.0},
        {"quant_bound": 0},
        {"quant_bound": 2**26},
        {"inv_step": math.nan},
        {"inv_step": math.inf},
        {"limit": 0.0},
        {"limit": -1.0},
        {"matrix": np.ones(2)},
        {"lower": True, "matrix": np.ones((2, 3))},
        {"matrix": np.ones((3, 2))},
        {"matrix": np.ones((0, 3))},
        {"matrix": np.ones((1, 3, 3))},
        {"center": np.zeros(2)},
        {"center": [0.0, np.nan, 0.0]},
        {"offset": [np.inf, 0.0, 0.0]},
        {"matrix": np.full((3, 3), np.nan)},
    ],
    ids=str,
)
def test_map_refuses_bad_public_arguments(changes):
    raises(InputError, None, RowMap, **good(**changes))


def test_a_map_freezes_its_arrays():
    center = np.zeros(3)
    row_map = RowMap(**good(center=center))
    center[:] = 5.0
    assert (row_map.center == 0.0).all()
    with pytest.raises(ValueError, match="read-only"):
        row_map.center[0] = 1.0
    with pytest.raises(AttributeError):
        row_map.limit = 2.0


def test_the_largest_bound_is_exact():
    """Q at 2^26.5: squares near 2^53 are still told apart."""
    bound = math.isqrt(2**53)
    row_map = RowMap(dim=1, quant_bound=bound, inv_step=1.0, limit=2.0 * bound)
    x = np.array([[float(bound)], [float(bound + 1)], [-float(bound)]])
    assert integers_of(x, row_map)[:, 0].tolist() == [bound, 0, -bound]
    assert sum_of(x, row_map).tolist() == [0]


def refused_layouts():
    x = np.ones((4, 3))
    buffer = np.zeros(4 * 3 * 8 + 1, dtype=np.uint8)
    yield "int64", x.astype(np.int64)
    yield "big-endian", x.astype(">f8")
    yield "column-major", np.asfortranarray(x)
    yield "one row", x[0]
    yield "too wide", np.ones((4, 4))
    yield "unaligned", buffer[1:].view(np.float64).reshape(4, 3)


@pytest.mark.parametrize(("name", "chunk"), list(refused_layouts()))
def test_kernel_refuses_other_layouts(name, chunk):
    raises(KernelError, None, sum_of, chunk, RowMap(**good()))


@pytest.mark.parametrize(
    "sums", [np.zeros(2, np.int64), np.zeros(3, np.int32), np.zeros(6, np.int64)[::2]]
)
def test_kernel_refuses_outputs_it_cannot_write(sums):
    raises(KernelError, None, kernels.rows_sum, np.ones((4, 3)), RowMap(**good()), sums)


# ---- Values that private rows may hold (1-12 of the catalogue of bad input): none raises, none warns, none escapes the clip.
BOUND = 2000
PLAIN = RowMap(dim=3, quant_bound=BOUND, inv_step=1.0, limit=1990.0)


def everywhere(x, row_map):
    """Integer rows, after checking that twin, sums and Grams of every instruction set agree with them."""
    q = integers_of(x, row_map, reference)
    wide = q.astype(np.int64)
    same_at_every_level(q, integers_of, x, row_map)
    same_at_every_level(wide.sum(axis=0), sum_of, x, row_map)
    same_at_every_level(np.tril(wide.T @ wide), gram_of, x, row_map)
    # Blocks of nothing else than one of the rows: loops that take 32 rows at once leave fewer to the tiles.
    same_at_every_level(32 * wide.sum(axis=0), sum_of, np.repeat(x, 32, axis=0), row_map)
    return q


def from_bits(word):
    return struct.unpack("<d", struct.pack("<Q", word))[0]


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize(
    "value",
    [np.nan, np.inf, -np.inf, from_bits(SIGNALLING_NAN), from_bits(0xFFF8_0000_DEAD_BEEF)],
    ids=str,
)
def test_one_bad_entry_makes_the_row_neutral_and_no_other(value, column):
    x = np.tile([100.0, -200.0, 300.0], (20, 1))
    x[7].view(np.uint64)[column] = np.float64(value).view(np.uint64)
    q = everywhere(x, PLAIN)
    assert q[7].tolist() == [0, 0, 0]
    assert (np.delete(q, 7, axis=0) == [100, -200, 300]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 1e10, 1e150])
def test_huge_rows_keep_their_direction(kind, scale):
    """Whatever the map and the grid, a finite row that is too long comes out with the clip norm."""
    rng = np.random.default_rng(5)
    row_map = make_map(rng, 9, kind, scale=scale, offset=False)
    x = rng.standard_normal((16, 9)) * 1e307
    q = everywhere(x, row_map).astype(np.float64)
    rounding = 0.5 * math.sqrt(row_map.out_dim)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), row_map.limit, atol=rounding)
    small = replace(row_map, inv_step=1e9, center=None)
    assert np.abs(q - everywhere(x * 1e-306, small)).max() <= 2.0


def test_difference_that_overflows():
    """x - center is infinite although both are finite."""
    center = np.array([-1.7e308, 0.0])
    row_map = RowMap(dim=2, quant_bound=BOUND, inv_step=1.0, limit=1990.0, center=center)
    rows = np.array([[1.7e308, 0.0], [-1.7e308, 4.0]])
    assert everywhere(rows, row_map).tolist() == [[1990, 0], [0, 4]]


@pytest.mark.parametrize("value", [5e-324, -5e-324, 2.2e-308, 0.0, -0.0])
def test_tiny_and_signed_zero(value):
    assert not everywhere(np.full((10, 3), value), PLAIN).any()
    fine = RowMap(dim=3, quant_bound=BOUND, inv_step=1e308, limit=1990.0)
    sign = np.sign(value)
    assert (everywhere(np.full((10, 3), 1e-308 * sign), fine) == sign).all()


@pytest.mark.parametrize("ulps", [-4, -1, 0, 1, 4])
def test_rows_at_the_radius(ulps):
    """On it, and some units in the last place to either side: the same integers, for the grid is far coarser."""
    length = 1990.0
    for _ in range(abs(ulps)):
        length = math.nextafter(length, math.inf * ulps)
    x = np.array([[length, 0.0, 0.0], [0.0, 0.6 * length, 0.8 * length]])
    assert everywhere(x, PLAIN).tolist() == [[1990, 0, 0], [0, 1194, 1592]]


@pytest.mark.parametrize("limit", [1000.0, 1e6, 1e12, 1e300])
def test_rows_that_fail_the_integer_check_count_as_zero(limit):
    """With a clip norm beyond the bound nothing but the integer check stands; among good rows, at every place of a group."""
    row_map = RowMap(dim=20, quant_bound=100, inv_step=1.0, limit=limit)
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
    pairs = list(itertools.product(SPECIAL_BITS, repeat=2))
    x = np.array(pairs, dtype=np.uint64).view(np.float64)
    rng = np.random.default_rng(8)
    for kind in KINDS:
        q = everywhere(x, make_map(rng, 2, kind, scale=1e5))
        finite = np.isfinite(x).all(axis=1)
        assert not q[~finite].any()
        assert q[finite].any()


def test_what_stands_above_the_diagonal_of_a_lower_map_is_not_read():
    matrix = np.array([[1.0, 1e300], [2.0, 1.0]])
    row_map = RowMap(
        dim=2, quant_bound=BOUND, inv_step=1.0, limit=1990.0, lower=True, matrix=matrix
    )
    assert everywhere(np.array([[3.0, 4.0]]), row_map).tolist() == [[3, 10]]


def test_no_row_leaves_the_sums_and_one_row_is_added():
    sums = np.array([7, 8, 9], dtype=np.int64)
    kernels.rows_sum(np.empty((0, 3)), PLAIN, sums)
    assert sums.tolist() == [7, 8, 9]
    kernels.rows_sum(np.array([[1.0, 2.0, 3.0]]), PLAIN, sums)
    assert sums.tolist() == [8, 10, 12]


def test_no_row_has_no_integers_and_no_gram():
    assert integers_of(np.empty((0, 3)), PLAIN).shape == (0, 3)
    assert not gram_of(np.empty((0, 3), dtype=np.float32), PLAIN).any()


def test_rows_of_stride_zero():
    x = np.broadcast_to(np.array([1.0, 2.0, 3.0]), (1000, 3))
    assert sum_of(x, PLAIN).tolist() == [1000, 2000, 3000]
    assert gram_of(x, PLAIN)[2].tolist() == [3000, 6000, 9000]


# ---- Fused products of maps: where one would make another integer than the unfused product, the row is taken again, unfused.
# Every case has rows whose integers differ if a processor fuses multiplying with adding and does not look: `test_plants_are_caught`
# says so in exact fractions.
FUSED_DIMS = (24, 25, 31, 50, 127, 128, 129, 257)
# 1 + LARGE is a float32, and half a last bit of 1 is SMALL * LARGE
SMALL = 2.0**-41
LARGE = 2.0**-12


def planted_map(dim, kind, sign):
    """Output i is sign (1 + SMALL) x_i, less (1/2 + SMALL + LARGE) x_0; the limit clips no row."""
    matrix = np.diag(np.full(dim, sign * (1.0 + SMALL)))
    matrix[:, 0] = -sign * (0.5 + LARGE + SMALL)
    return RowMap(
        dim=dim,
        quant_bound=2896,
        inv_step=1.0,
        limit=2800.0,
        lower=kind is MatrixKind.LOWER,
        matrix=matrix,
    )


def planted_rows(dim, place, dtype=np.float64):
    """One row: the product of column `place`, 1 + LARGE, keeps SMALL * LARGE only when it is fused with the sum before it."""
    x = np.zeros((1, dim), dtype=dtype)
    x[0, 0] = 1.0
    x[0, place] = 1.0 + LARGE
    return x


def test_plants_are_caught():
    """The unfused sum is a half, which rounds to 0; the exact one, and the fused, is above, which would be 1."""
    row_map = planted_map(24, MatrixKind.LOWER, 1.0)
    x = planted_rows(24, 7)
    row = row_map.matrix[7]
    exact = Fraction(row[0]) + Fraction(row[7]) * Fraction(1.0 + LARGE)
    assert exact == Fraction(1, 2) + Fraction(SMALL) * Fraction(LARGE)
    assert float(exact) > 0.5
    assert row[0] + row[7] * (1.0 + LARGE) == 0.5
    assert everywhere(x, row_map)[0, 7] == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [MatrixKind.LOWER, MatrixKind.FULL])
@pytest.mark.parametrize("dim", FUSED_DIMS)
def test_one_planted_row_alone_and_among_others(dim, kind, dtype):
    rng = np.random.default_rng(dim)
    for sign, place in itertools.product((1.0, -1.0), (1, dim // 2, dim - 1)):
        row_map = planted_map(dim, kind, sign)
        row = planted_rows(dim, place, dtype)
        assert everywhere(row, row_map)[0, place] == 0
        apart = np.full((67, dim + 3), 9.0, dtype=dtype)
        x = apart[:, 1:-2]
        x[:] = rng.standard_normal((67, dim))
        x[[0, 7, 66]] = row
        found = everywhere(x, row_map)
        assert not found[[0, 7, 66], place].any()
        assert found.any()


def test_many_planted_rows():
    """So many rows are taken twice that later products are not fused: it changes no integer."""
    row_map = planted_map(40, MatrixKind.LOWER, 1.0)
    rows = np.concatenate([planted_rows(40, place) for place in range(1, 40)])
    x = np.concatenate([rows, np.random.default_rng(0).standard_normal((200, 40)), rows])
    assert not everywhere(x, row_map)[np.arange(39), np.arange(1, 40)].any()


@pytest.mark.parametrize("limit", [2800.0, 40.0])
@pytest.mark.parametrize("magnitude", [2.0**30, 2.0**36, 2.0**42])
def test_products_that_cancel(magnitude, limit):
    """Large products with small sums: rounding errors of the products decide many integers, and for the largest all of them."""
    rng = np.random.default_rng(1)
    dim = 50
    n = 400
    matrix = rng.standard_normal((dim, dim))
    matrix -= matrix.mean(axis=1, keepdims=True)
    x = magnitude + 8.0 * rng.standard_normal((n, dim))
    row_map = replace(planted_map(dim, MatrixKind.FULL, 1.0), limit=limit, matrix=matrix)
    assert np.unique(everywhere(x, row_map)).size > 20


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e-120, 1e120, 1e150, 1e200])
def test_columns_and_steps_far_from_one(scale):
    """Weights of columns and steps whose squares are not numbers: no product is fused, or the bound holds."""
    rng = np.random.default_rng(2)
    dim = 30
    plain = planted_map(dim, MatrixKind.LOWER, 1.0)
    rows = np.concatenate([planted_rows(dim, 9), rng.standard_normal((20, dim))])
    larger_columns = replace(plain, matrix=plain.matrix * scale)
    everywhere(rows / scale, larger_columns)
    larger_steps = replace(larger_columns, inv_step=1.0 / scale)
    everywhere(rows, larger_steps)


def test_a_column_of_zeros_in_the_matrix():
    rng = np.random.default_rng(2)
    dim = 30
    plain = planted_map(dim, MatrixKind.LOWER, 1.0)
    rows = np.concatenate([planted_rows(dim, 9), rng.standard_normal((20, dim))])
    mixed = plain.matrix.copy()
    mixed[:, 5] = 0.0
    assert everywhere(rows, replace(plain, matrix=mixed))[0, 9] == 0


def test_numbers_of_kinds_are_those_of_the_header():
    for kind in MatrixKind:
        assert kind.value == getattr(lib, f"FPP_MATRIX_{kind.name}")
    for rule in Rule:
        assert rule.value == getattr(lib, f"FPP_NODE_{rule.name}")


@pytest.mark.parametrize("dim", [0, -1, 2**24 + 1])
def test_a_tree_of_impossible_rows_is_refused(dim):
    raises(InputError, "columns", RowTree, dim, [None], [0])
