"""Column sums and quantized rows: equal integers from C on every instruction set, from NumPy, and from exact fractions."""

import itertools
import math
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

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
    expected = integers_of(case.chunk, case.row_map, reference)
    same_at_every_level(expected, integers_of, case.chunk, case.row_map)
    same_at_every_level(
        sum_of(case.chunk, case.row_map, reference), sum_of, case.chunk, case.row_map
    )
    assert ((expected.astype(np.int64) ** 2).sum(axis=1) <= case.row_map.quant_bound**2).all()
    gram = gram_of(case.chunk, case.row_map, reference)
    by_blas = np.zeros_like(gram)
    reference.rows_gram_blas(case.chunk, case.row_map, by_blas)
    np.testing.assert_array_equal(by_blas, gram)
    same_at_every_level(gram, gram_of, case.chunk, case.row_map)
    same_at_every_level(
        pieces_of(case.chunk, case.row_map, reference), pieces_of, case.chunk, case.row_map
    )
    same_at_every_level(
        radial_of(case.chunk, case.row_map, module=reference), radial_of, case.chunk, case.row_map
    )
    edges_sq = np.sort(np.array([*edges, np.inf] if unbounded else edges, dtype=np.float64))
    counts = counts_of(case.chunk, case.row_map, edges_sq, reference)
    assert counts.sum() == np.isfinite(case.chunk).all(axis=1).sum()
    same_at_every_level(counts, counts_of, case.chunk, case.row_map, edges_sq)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [*DIMS, 47, 48, 49, 96, 100, 601])
def test_every_size_and_kind(dim, kind):
    """Rows beyond one flush and one super-panel, columns around the panels of every instruction set."""
    rng = np.random.default_rng(dim)
    for dtype in (np.float64, np.float32):
        row_map = make_map(rng, dim, kind, quant_bound=2896, center=dtype is np.float64)
        with np.errstate(over="ignore"):
            x = make_rows(rng, 1303 if dim < 300 else 90, dim, [np.nan, np.inf]).astype(dtype)
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
    for center, (bound, limit), bits in itertools.product(
        (False, True), limits, ([], [np.nan, np.inf])
    ):
        row_map = make_map(
            rng,
            dim,
            MatrixKind.IDENTITY,
            quant_bound=bound,
            limit=limit,
            center=center,
            offset=False,
        )
        with np.errstate(over="ignore"):
            x = (
                make_rows(rng, 203, dim, bits).astype(dtype)
                if bits
                else rng.standard_normal((203, dim)).astype(dtype)
            )
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
    rng = np.random.default_rng(7)
    row_map = make_map(rng, dim, kind)
    x = make_rows(rng, 700, dim, [np.nan, -np.inf, 1e200])
    integers = integers_of(x, row_map).astype(np.int64)
    for size in (1, 3, 7, 64, 255, 256, 257, 699):
        pieces = [x[i : i + size] for i in range(0, 700, size)][:: 1 if size > 3 else 5]
        kept = np.concatenate(
            [np.arange(i, min(i + size, 700)) for i in range(0, 700, size)][:: 1 if size > 3 else 5]
        )
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(sum_of, pieces, [row_map] * len(pieces)))
            grams = list(pool.map(gram_of, pieces, [row_map] * len(pieces)))
            parts = list(pool.map(integers_of, pieces, [row_map] * len(pieces)))
        np.testing.assert_array_equal(np.concatenate(parts), integers[kept])
        np.testing.assert_array_equal(np.sum(sums, axis=0), integers[kept].sum(axis=0))
        np.testing.assert_array_equal(
            np.sum(grams, axis=0), np.tril(integers[kept].T @ integers[kept])
        )
    order = rng.permutation(700)
    np.testing.assert_array_equal(sum_of(x[order], row_map), sum_of(x, row_map))
    np.testing.assert_array_equal(gram_of(x[order], row_map), gram_of(x, row_map))


SCORED = [
    squared_residual,
    logistic_residual,
    NumberedResidual(weighted_residual, (0.3, 1.0)),
    NumberedResidual(huber_residual, (4.0,)),
]


@pytest.mark.parametrize("kind", [MatrixKind.IDENTITY, MatrixKind.FULL])
@pytest.mark.parametrize("residual", SCORED, ids=["squared", "logistic", "weighted", "huber"])
@pytest.mark.parametrize("dim", [1, 3, 8, 21, 33, 130])
def test_labeled_rows_become_scores(dim, residual, kind):
    """As the twin has them, alone and in company; labels and weights of all sorts."""
    rng = np.random.default_rng(dim)
    for curvature, weighted, dtype in itertools.product(
        (False, True), (False, True), (np.float32, np.float64)
    ):
        x = np.zeros((203, dim + 1 + weighted), dtype=dtype)
        x[:, :dim] = np.rint(
            rng.normal(size=(203, dim)) * 2.0 ** rng.integers(0, 19, size=(203, 1))
        )
        x[:, dim] = rng.choice([0.0, 1.0, 1.0, np.nan, np.inf, -3.0, 1e30], size=203)
        x[:, dim + 1 :] = rng.choice([0.0, 0.25, 1.0, 1.0, 7.0, -1.0], size=(203, int(weighted)))
        x[5, 0] = np.nan
        score = RowScore(
            residual=residual,
            slope=np.rint(rng.normal(size=dim) * 2.0**20),
            unit=2.0**-30,
            step=2.0**-10,
            weighted=weighted,
            curvature=curvature,
        )
        row_map = replace(
            make_map(rng, dim, kind, limit=900.0), center=None, offset=None, score=score
        )
        expected = integers_of(x, row_map, reference)
        assert len(np.unique(expected)) > 5
        same_at_every_level(expected, integers_of, x, row_map)
        np.testing.assert_array_equal(gram_of(x, row_map), gram_of(x, row_map, reference))
        same_at_every_level(radial_of(x, row_map, module=reference), radial_of, x, row_map)
        edges_sq = 4.0 ** np.arange(-9, 9)
        same_at_every_level(
            counts_of(x, row_map, edges_sq, reference), counts_of, x, row_map, edges_sq
        )
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
    out_dim = out_dim if kind is MatrixKind.FULL else dim
    shape = {MatrixKind.IDENTITY: 0, MatrixKind.DIAGONAL: dim}.get(kind, out_dim * dim)
    matrix = np.array(draw(st.lists(eighths, min_size=shape, max_size=shape)))
    vector = st.lists(eighths, min_size=dim, max_size=dim)
    return {
        "rows": draw(st.lists(vector, min_size=1, max_size=12)),
        "center": draw(vector),
        "offset": draw(st.lists(eighths, min_size=out_dim, max_size=out_dim)),
        "matrix": None
        if not shape
        else matrix
        if kind is MatrixKind.DIAGONAL
        else matrix.reshape(out_dim, dim),
        "kind": kind,
        "out_dim": out_dim,
        "inv_step": draw(st.sampled_from((0.25, 1.0, 16.0))),
        "limit": draw(st.sampled_from((1e7, 50.0))),
    }


def exact_steps(row, case):
    """The row in grid steps before the clip, as fractions."""
    t = [Fraction(x) - Fraction(c) for x, c in zip(row, case["center"], strict=True)]
    m = case["matrix"]
    kind = case["kind"]
    steps = []
    for i in range(case["out_dim"]):
        if kind is MatrixKind.IDENTITY:
            y = t[i]
        elif kind is MatrixKind.DIAGONAL:
            y = Fraction(m[i]) * t[i]
        else:
            last = i + 1 if kind is MatrixKind.LOWER else len(t)
            y = sum((Fraction(m[i][k]) * t[k] for k in range(last)), Fraction(0))
        steps.append((y + Fraction(case["offset"][i])) * Fraction(case["inv_step"]))
    return steps


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
            assert all(
                abs(a - float(s) * shrink) <= 0.5 + 1e-9 * bound
                for a, s in zip(q, steps, strict=True)
            )


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


def test_a_map_freezes_its_arrays_and_the_largest_bound_is_exact():
    center = np.zeros(3)
    row_map = RowMap(**good(center=center))
    center[:] = 5.0
    assert (row_map.center == 0.0).all()
    with pytest.raises(ValueError, match="read-only"):
        row_map.center[0] = 1.0
    with pytest.raises(AttributeError):
        row_map.limit = 2.0
    # Q at 2^26.5: squares near 2^53 are still told apart.
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
    np.testing.assert_allclose(
        np.linalg.norm(q, axis=1), row_map.limit, atol=0.5 * math.sqrt(row_map.out_dim)
    )
    small = replace(row_map, inv_step=1e9, center=None)
    assert np.abs(q - everywhere(x * 1e-306, small)).max() <= 2.0


def test_difference_that_overflows():
    """x - center is infinite although both are finite."""
    row_map = RowMap(
        dim=2, quant_bound=BOUND, inv_step=1.0, limit=1990.0, center=np.array([-1.7e308, 0.0])
    )
    assert everywhere(np.array([[1.7e308, 0.0], [-1.7e308, 4.0]]), row_map).tolist() == [
        [1990, 0],
        [0, 4],
    ]


@pytest.mark.parametrize("value", [5e-324, -5e-324, 2.2e-308, 0.0, -0.0])
def test_tiny_and_signed_zero(value):
    assert not everywhere(np.full((10, 3), value), PLAIN).any()
    fine = RowMap(dim=3, quant_bound=BOUND, inv_step=1e308, limit=1990.0)
    assert (everywhere(np.full((10, 3), 1e-308 * np.sign(value)), fine) == np.sign(value)).all()


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
    words = np.array([(a, b) for a in SPECIAL_BITS for b in SPECIAL_BITS], dtype=np.uint64)
    x = np.ascontiguousarray(words).view(np.float64)
    rng = np.random.default_rng(8)
    for kind in KINDS:
        q = everywhere(x, make_map(rng, 2, kind, scale=1e5))
        finite = np.isfinite(x).all(axis=1)
        assert not q[~finite].any()
        assert q[finite].any()


def test_odd_shapes_fill_or_leave_the_outputs():
    matrix = np.array([[1.0, 1e300], [2.0, 1.0]])
    row_map = RowMap(
        dim=2, quant_bound=BOUND, inv_step=1.0, limit=1990.0, lower=True, matrix=matrix
    )
    assert everywhere(np.array([[3.0, 4.0]]), row_map).tolist() == [[3, 10]]
    # Empty and single rows leave or fill the outputs.
    sums = np.array([7, 8, 9], dtype=np.int64)
    kernels.rows_sum(np.empty((0, 3)), PLAIN, sums)
    assert sums.tolist() == [7, 8, 9]
    kernels.rows_sum(np.array([[1.0, 2.0, 3.0]]), PLAIN, sums)
    assert sums.tolist() == [8, 10, 12]
    assert integers_of(np.empty((0, 3)), PLAIN).shape == (0, 3)
    assert not gram_of(np.empty((0, 3), dtype=np.float32), PLAIN).any()
    # Row stride zero: a broadcast array.
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
    for sign in (1.0, -1.0):
        row_map = planted_map(dim, kind, sign)
        for place in {1, dim // 2, dim - 1}:
            row = planted_rows(dim, place, dtype)
            assert everywhere(row, row_map)[0, place] == 0
            apart = np.full((67, dim + 3), 9.0, dtype=dtype)
            apart[:, 1:-2] = rng.standard_normal((67, dim))
            for at in (0, 7, 66):
                apart[at, 1:-2] = row[0]
            found = everywhere(apart[:, 1:-2], row_map)
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
    for by_column in (True, False):
        row_map = replace(
            plain, inv_step=1.0 if by_column else 1.0 / scale, matrix=plain.matrix * scale
        )
        everywhere(rows / scale if by_column else rows, row_map)
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
