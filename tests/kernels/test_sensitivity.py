"""What the privacy proofs rest on, with Python integers: replacing a row moves a sum by at most 2 Q and a Gram matrix by at most
sqrt(2) Q^2. The same checker must catch kernels with the bugs that other libraries shipped, and must come close to the bound."""

import math

import numpy as np
import pytest
from helpers.errors import raises
from row_cases import (
    LEVELS,
    counts_of,
    gram_of,
    instruction_set,
    make_map,
    make_rows,
    same_at_every_level,
    sum_of,
)
from twins import rows as reference

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels._cext import lib
from fastpubpriv.rowwise.row_maps import MatrixKind, RowMap

SIZES = (1, 2, 7, 8, 9, 255, 256, 257)
FEW = 2_000
MANY = 200_000


def moved_sum(kernel, x, x_other, row_map):
    """Squared norm of the difference of two sums, modulo 2^64 as the noise sees it, in Python integers."""
    a = kernel(x, row_map)
    b = kernel(x_other, row_map)
    return sum((int(p) - int(q)) ** 2 for p, q in zip(a, b, strict=True))


def moved_gram(kernel, x, x_other, row_map):
    """Squared Frobenius norm of the difference of the full symmetric matrices."""
    a = kernel(x, row_map)
    b = kernel(x_other, row_map)
    below = [int(v) for v in (a - b)[np.tril_indices(a.shape[0], -1)] if v]
    diagonal = [int(v) for v in np.diag(a - b)]
    return 2 * sum(v * v for v in below) + sum(v * v for v in diagonal)


def sum_claim(bound):
    return 4 * bound**2


def gram_claim(bound):
    return 2 * bound**4


def random_row(rng, dim, row_map):
    """One row of a regime in which something could go wrong."""
    radius = row_map.limit / row_map.inv_step
    direction = rng.standard_normal(dim)
    direction /= np.linalg.norm(direction)
    center = 0.0 if row_map.center is None else row_map.center
    regime = rng.integers(9)
    if regime == 0:
        return direction * 10.0 ** rng.uniform(-300, 300)
    if regime == 1:  # at the radius, a few units in the last place off
        return direction * radius * (1 + int(rng.integers(-4, 5)) * 2.0**-52) + center
    if regime == 2:
        row = direction * radius
        row[rng.integers(dim)] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308])
        return row
    if regime == 3:  # an axis
        row = np.zeros(dim)
        row[rng.integers(dim)] = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(0, 308)
        return row
    if regime == 4:  # a face of the grid: half-integers
        return (np.floor(direction * row_map.limit) + 0.5) / row_map.inv_step + center
    if regime == 5:
        return np.full(dim, rng.choice([0.0, 1e308, -1e308, 1e-320, radius]))
    if regime == 6:  # the integer check: steps just above the bound
        return direction * (row_map.quant_bound + rng.integers(-2, 3)) / row_map.inv_step + center
    return direction * radius * 10.0 ** rng.uniform(-1, 2) + center


def neighbors(rng, dim, row_map):
    """Two data sets that differ in one row; often in opposite or orthogonal rows, the worst there are."""
    n = int(rng.choice(SIZES, p=(0.3, 0.25, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05)))
    x = rng.standard_normal((n, dim)) * row_map.limit / row_map.inv_step
    place = rng.integers(n)
    x[place] = random_row(rng, dim, row_map)
    other = x.copy()
    turn = rng.integers(3)
    if turn == 0:
        other[place] = -x[place]
    elif turn == 1:
        other[place] = np.roll(x[place], 1) * ((-1.0) ** np.arange(dim))
    else:
        other[place] = random_row(rng, dim, row_map)
    return x, other


def worst_ratio(kernel, moved, claim, pairs, *, seed, gram):
    """Largest squared move over its claim, or inf if a claim fails; maps clip below the bound, above it, or not at all."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    maps = []
    for dim in (1, 2, 3, 64) + ((257, 1000) if pairs >= 500 and not gram else ()):
        for kind in MatrixKind if dim < 64 else (MatrixKind.IDENTITY, MatrixKind.DIAGONAL):
            for bound in (20 * math.isqrt(dim) + 8, 2896) + (() if gram else (2**20,)):
                for slack in (1.0, 1.5, 1e9):
                    limit = slack * (bound - math.ceil(math.sqrt(dim) / 2) - 1)
                    maps.append(
                        make_map(
                            rng,
                            dim,
                            kind,
                            quant_bound=bound,
                            limit=limit,
                            scale=10.0 ** rng.integers(-3, 4),
                        )
                    )
    for i in range(pairs):
        row_map = maps[int(rng.integers(len(maps)))]
        with np.errstate(all="ignore"):
            x, other = neighbors(rng, row_map.dim, row_map)
            with instruction_set(LEVELS[i % len(LEVELS)]):
                squared = moved(kernel, x, other, row_map)
        if squared > claim(row_map.quant_bound):
            return math.inf  # the ratio itself may be beyond a float
        worst = max(worst, squared / claim(row_map.quant_bound))
    return worst


@pytest.mark.parametrize("pairs", [FEW, pytest.param(MANY, marks=pytest.mark.audit)])
@pytest.mark.parametrize("gram", [False, True])
def test_sums_and_grams_stay_within_their_sensitivity(pairs, gram):
    given = (gram_of, moved_gram, gram_claim) if gram else (sum_of, moved_sum, sum_claim)
    assert 0.9 <= worst_ratio(*given, pairs, seed=1 + gram, gram=gram) <= 1.0


@pytest.mark.parametrize(
    ("kernel", "moved", "claim", "bound"),
    [
        (sum_of, moved_sum, sum_claim, 2**20),
        (gram_of, moved_gram, gram_claim, 2896),
    ],
)
def test_a_climb_reaches_the_bound(kernel, moved, claim, bound):
    """From a random pair, keep changes that move the result further: the claim is not loose, and the search not blind."""
    rng = np.random.default_rng(3)
    row_map = RowMap(dim=3, quant_bound=bound, inv_step=1.0, limit=float(bound - 2))
    pair = [rng.standard_normal((1, 3)) * bound / 3 for _ in range(2)]
    best = moved(kernel, *pair, row_map)
    for _ in range(1500):
        trial = [
            row + rng.standard_normal((1, 3)) * bound * 10.0 ** rng.uniform(-3, 0) for row in pair
        ]
        squared = moved(kernel, *trial, row_map)
        if squared >= best:
            best = squared
            pair = trial
    assert 0.99**2 <= best / claim(bound) <= 1.0


def float_rows(x, row_map):
    """Grid steps of an affine map in plain floats."""
    t = x if row_map.center is None else x - row_map.center
    if row_map.kind is MatrixKind.DIAGONAL:
        t = t * row_map.matrix
    elif row_map.matrix is not None:
        t = t @ (np.tril(row_map.matrix) if row_map.kind is MatrixKind.LOWER else row_map.matrix).T
    return (t if row_map.offset is None else t + row_map.offset) * row_map.inv_step


def whole(z):
    """Rows of finite Python integers; what is not finite counts as zero."""
    return [[int(v) if math.isfinite(v) else 0 for v in row] for row in np.rint(z).tolist()]


def clip(z, radius):
    return z * np.minimum(1.0, radius / np.sqrt((z * z).sum(axis=1, keepdims=True)))


def unclipped(x, row_map):
    return whole(float_rows(x, row_map))


def clipped_without_check(x, row_map):
    """The usual factor, to the bound itself: rounding takes about half of the rows outside, NaN and overflow the others."""
    return whole(clip(float_rows(x, row_map), float(row_map.quant_bound)))


def twice_as_far(x, row_map):
    """A factor of two between the norm that clips and the norm that is declared."""
    return whole(clip(float_rows(x, row_map), 2.0 * row_map.quant_bound))


def clips_a_copy(x, row_map):
    """Clips, and then adds up the rows it started from."""
    z = float_rows(x, row_map)
    copy = clip(z, float(row_map.quant_bound - math.ceil(math.sqrt(z.shape[1]) / 2) - 1))
    assert copy.shape == z.shape
    return whole(z)


def clips_entries(x, row_map):
    """Each entry to the bound, instead of the norm."""
    return whole(np.clip(float_rows(x, row_map), -row_map.quant_bound, row_map.quant_bound))


BUGS = (unclipped, clipped_without_check, twice_as_far, clips_a_copy, clips_entries)


def bad_gram(bug):
    def gram(x, row_map):
        q = np.array(bug(x, row_map), dtype=object)
        return np.array(q.T.dot(q), dtype=object)

    return gram


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_in_a_sum_is_caught(bug):
    def bad_sum(x, row_map):
        return [sum(column) for column in zip(*bug(x, row_map), strict=True)]

    assert worst_ratio(bad_sum, moved_sum, sum_claim, 400, seed=4, gram=False) > 1.0


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_in_a_gram_is_caught(bug):
    assert worst_ratio(bad_gram(bug), moved_gram, gram_claim, 400, seed=5, gram=True) > 1.0


def test_clip_without_the_integer_check_fails_on_a_fine_grid():
    """At Q = 2^50 the float clip passes the bound in its last place: invisible to a float test, plain to an integer one."""
    bound = 2**50
    rng = np.random.default_rng(6)
    escaped = 0
    for _ in range(200):
        (q,) = whole(clip(rng.standard_normal((1, 5)) * 2.0**52, float(bound)))
        escaped += sum(v * v for v in q) > bound**2
        assert math.isclose(math.sqrt(sum(v * v for v in q)), bound, rel_tol=1e-12)
    assert escaped > 20


def test_a_claim_that_is_too_small_is_refuted():
    """The add-or-remove claim Q^2 for replacing a row: the factor of two in norm that is easiest to lose."""
    assert worst_ratio(sum_of, moved_sum, lambda bound: bound**2, 400, seed=7, gram=False) > 1.0
    assert worst_ratio(gram_of, moved_gram, lambda bound: bound**4, 400, seed=8, gram=True) > 1.0


# ---- Gram matrices at their limits; `test_rows.py` holds them to their twins ----------------------------------------
def test_largest_entries_do_not_overflow_an_accumulator(isa):
    """All rows at the bound, far beyond the rows that 32 bits can hold."""
    n = 5000
    bound = 2896
    row_map = RowMap(dim=2, quant_bound=bound, inv_step=1.0, limit=float(bound))
    x = np.zeros((n, 2))
    x[:, 1] = -float(bound)
    assert gram_of(x, row_map).tolist() == [[0, 0], [0, n * bound**2]]


def test_gram_refuses_a_large_bound():
    row_map = RowMap(dim=2, quant_bound=lib.FPP_GRAM_QUANT_MAX + 1, inv_step=1.0, limit=9.0)
    raises(KernelError, None, gram_of, np.ones((3, 2)), row_map)


# ---- Shell counts: membership is one fixed order of additions, whichever way the rows are cut -----------------------
PLAIN = RowMap(dim=2, quant_bound=1, inv_step=1.0, limit=1.0)


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
        pieces = range(0, 2000 if size > 3 else 300, size)
        end = counts_of(x[: pieces[-1] + size], row_map, edges_sq)
        parts = [x[i : i + size] for i in pieces]
        same_at_every_level(
            end, lambda parts: sum(counts_of(part, row_map, edges_sq) for part in parts), parts
        )
    np.testing.assert_array_equal(counts_of(x, row_map, edges_sq), whole)


def test_rows_on_edges_and_extreme_rows():
    x = np.array(
        [[3.0, 4.0], [np.nextafter(5.0, 6.0), 0.0], [np.nextafter(5.0, 4.0), 0.0], [0.0, -0.0]]
    )
    assert counts_of(x, PLAIN, np.array([0.0, 25.0])).tolist() == [1, 2, 1]
    # nothing lies between equal edges
    assert counts_of(x, PLAIN, np.array([25.0, 25.0])).tolist() == [3, 0, 1]
    x = np.array([[1e200, 0.0], [1.7e308, -1.7e308], [np.nan, 0.0], [0.0, np.inf], [5e-324, 0.0]])
    edges_sq = np.array([0.0, 1.0, np.inf])
    assert counts_of(x, PLAIN, edges_sq).tolist() == [1, 0, 0, 2]
    assert counts_of(x, PLAIN, edges_sq, reference).tolist() == [1, 0, 0, 2]
    assert counts_of(x, PLAIN, np.array([])).tolist() == [3]


@pytest.mark.parametrize("edges", [[2.0, 1.0], [np.nan], [-1.0], [1.0, np.nan, 2.0]])
def test_refuses_edges_that_do_not_ascend(edges):
    raises(KernelError, None, counts_of, np.ones((2, 2)), PLAIN, np.array(edges))


def test_scale_of_the_map_is_not_read():
    """A grid that would round everything away has no say in a shell count."""
    other = RowMap(dim=2, quant_bound=5, inv_step=1e-300, limit=1e-300)
    x = np.random.default_rng(2).standard_normal((50, 2))
    edges_sq = np.array([0.5, 1.0, 2.0])
    counts = counts_of(x, PLAIN, edges_sq)
    assert counts.tolist() == counts_of(x, other, edges_sq).tolist()
    assert (
        counts.tolist()
        == np.histogram((x**2).sum(axis=1), [0.0, 0.5, 1.0, 2.0, np.inf])[0].tolist()
    )
