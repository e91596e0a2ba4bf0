"""Column sums and quantised rows: equal integers from C on every instruction set, from NumPy, and from exact fractions."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import DIMS, KINDS, LEVELS, cases, instruction_set, integers_of, make_map, make_rows, sum_of
from twins import rows as reference

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.maps import MatrixKind, RowMap


@given(cases())
@settings(max_examples=400, deadline=None)
def test_quantise_equals_twin(case):
    expected = integers_of(case.chunk, case.row_map, reference)
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(integers_of(case.chunk, case.row_map), expected)
    assert ((expected.astype(np.int64) ** 2).sum(axis=1) <= case.row_map.quant_bound**2).all()


@given(cases())
@settings(max_examples=400, deadline=None)
def test_sum_equals_twin(case):
    expected = sum_of(case.chunk, case.row_map, reference)
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(sum_of(case.chunk, case.row_map), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", DIMS)
def test_every_size_and_kind(dim, kind):
    rng = np.random.default_rng(dim)
    for dtype in (np.float64, np.float32):
        row_map = make_map(rng, dim, kind, center=dtype is np.float64)
        with np.errstate(over="ignore"):
            x = make_rows(rng, 203, dim, [np.nan, np.inf]).astype(dtype)
        expected = integers_of(x, row_map, reference)
        assert expected.any()
        for level in LEVELS:
            with instruction_set(level):
                np.testing.assert_array_equal(integers_of(x, row_map), expected)
                np.testing.assert_array_equal(sum_of(x, row_map), expected.sum(axis=0, dtype=np.int64))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 20, 40, 64, 100, 127, 128, 131, 500])
def test_rows_of_identity_maps(dim, dtype):
    """Identity maps without an offset have loops of their own: rows that are clipped or not, fail, cannot be used, or lie apart."""
    rng = np.random.default_rng(dim)
    limits = [(2000, None), (2000, 3.0), (40, 40.0)]  # of rows at the last limit rounding lifts some above the bound
    for center, (bound, limit), bits in itertools.product((False, True), limits, ([], [np.nan, np.inf])):
        row_map = make_map(rng, dim, MatrixKind.IDENTITY, quant_bound=bound, limit=limit, center=center, offset=False)
        with np.errstate(over="ignore"):
            x = make_rows(rng, 203, dim, bits).astype(dtype) if bits else rng.standard_normal((203, dim)).astype(dtype)
        apart = np.full((203, dim + 3), 1e9, dtype=dtype)
        apart[:, 1:-2] = x
        expected = integers_of(x, row_map, reference).sum(axis=0, dtype=np.int64)
        assert expected.any()
        for level in LEVELS:
            with instruction_set(level):
                np.testing.assert_array_equal(sum_of(x, row_map), expected)
                np.testing.assert_array_equal(sum_of(apart[:, 1:-2], row_map), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [3, 50, 130, 300])
def test_splits_and_threads_change_nothing(dim, kind):
    rng = np.random.default_rng(7)
    row_map = make_map(rng, dim, kind)
    x = make_rows(rng, 1000, dim, [np.nan, -np.inf, 1e200])
    whole, integers = sum_of(x, row_map), integers_of(x, row_map)
    for size in (1, 3, 7, 64, 999):
        pieces = [x[i : i + size] for i in range(0, 1000, size)][:: 1 if size > 3 else 5]
        kept = np.concatenate(
            [np.arange(i, min(i + size, 1000)) for i in range(0, 1000, size)][:: 1 if size > 3 else 5]
        )
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(lambda piece: sum_of(piece, row_map), pieces))
            parts = list(pool.map(lambda piece: integers_of(piece, row_map), pieces))
        np.testing.assert_array_equal(np.concatenate(parts), integers[kept])
        np.testing.assert_array_equal(np.sum(sums, axis=0), integers[kept].sum(axis=0, dtype=np.int64))
    np.testing.assert_array_equal(whole, integers.sum(axis=0, dtype=np.int64))
    np.testing.assert_array_equal(sum_of(x[rng.permutation(1000)], row_map), whole)


def test_sums_are_added_to_and_wrap_around():
    row_map = RowMap(dim=1, out_dim=1, quant_bound=100, inv_step=1.0, limit=99.0)
    sums = np.array([2**63 - 2], dtype=np.int64)
    kernels.rows_sum(np.array([[3.0], [-1.0]]), row_map, sums)
    assert sums[0] == -(2**63)


@st.composite
def dyadic_cases(draw):
    """Rows, centers and matrices of small multiples of 1/8: without a clip, every floating-point step is exact."""
    eighths = st.integers(-64, 64).map(lambda k: k / 8)
    dim, out_dim = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(KINDS))
    out_dim = out_dim if kind is MatrixKind.FULL else dim
    shape = {MatrixKind.IDENTITY: 0, MatrixKind.DIAGONAL: dim}.get(kind, out_dim * dim)
    matrix = np.array(draw(st.lists(eighths, min_size=shape, max_size=shape)))
    vector = st.lists(eighths, min_size=dim, max_size=dim)
    return {
        "rows": draw(st.lists(vector, min_size=1, max_size=12)),
        "center": draw(vector),
        "offset": draw(st.lists(eighths, min_size=out_dim, max_size=out_dim)),
        "matrix": None if not shape else matrix if kind is MatrixKind.DIAGONAL else matrix.reshape(out_dim, dim),
        "kind": kind,
        "out_dim": out_dim,
        "inv_step": draw(st.sampled_from((0.25, 1.0, 16.0))),
        "limit": draw(st.sampled_from((1e7, 50.0))),
    }


def exact_steps(row, case):
    """The row in grid steps before the clip, as fractions."""
    t = [Fraction(x) - Fraction(c) for x, c in zip(row, case["center"], strict=True)]
    m, kind = case["matrix"], case["kind"]
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
        out_dim=case["out_dim"],
        quant_bound=bound,
        inv_step=case["inv_step"],
        limit=case["limit"],
        kind=case["kind"],
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
            assert all(abs(a - float(s) * shrink) <= 0.5 + 1e-9 * bound for a, s in zip(q, steps, strict=True))


def good(**changes):
    return {"dim": 3, "out_dim": 3, "quant_bound": 100, "inv_step": 1.0, "limit": 90.0, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 0},
        {"dim": True},
        {"dim": 2.0},
        {"out_dim": 2},
        {"quant_bound": 0},
        {"quant_bound": 2**26},  # 3 Q^2 > 2^53
        {"inv_step": float("nan")},
        {"inv_step": float("inf")},
        {"limit": 0.0},
        {"limit": -1.0},
        {"kind": 0},
        {"kind": MatrixKind.DIAGONAL},
        {"kind": MatrixKind.LOWER, "matrix": np.ones(3)},
        {"kind": MatrixKind.LOWER, "matrix": np.ones((2, 3)), "out_dim": 2},
        {"matrix": np.eye(3)},
        {"center": np.zeros(2)},
        {"center": [0.0, np.nan, 0.0]},
        {"offset": [np.inf, 0.0, 0.0]},
        {"kind": MatrixKind.FULL, "matrix": np.full((3, 3), np.nan)},
    ],
    ids=str,
)
def test_map_refuses_bad_public_arguments(changes):
    with pytest.raises(InputError):
        RowMap(**good(**changes))


def test_map_copies_and_freezes_its_arrays():
    center = np.zeros(3)
    row_map = RowMap(**good(center=center))
    center[:] = 5.0
    assert (row_map.center == 0.0).all()
    with pytest.raises(ValueError, match="read-only"):
        row_map.center[0] = 1.0
    with pytest.raises(AttributeError):
        row_map.limit = 2.0


def test_largest_bound_is_exact():
    """Q at 2^26.5: squares near 2^53 are still told apart."""
    bound = math.isqrt(2**53)
    row_map = RowMap(dim=1, out_dim=1, quant_bound=bound, inv_step=1.0, limit=2.0 * bound)
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
    with pytest.raises(KernelError):
        sum_of(chunk, RowMap(**good()))


@pytest.mark.parametrize("sums", [np.zeros(2, np.int64), np.zeros(3, np.int32), np.zeros(6, np.int64)[::2]])
def test_kernel_refuses_outputs_it_cannot_write(sums):
    with pytest.raises(KernelError):
        kernels.rows_sum(np.ones((4, 3)), RowMap(**good()), sums)
