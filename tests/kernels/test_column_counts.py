"""Released counts of columns: pooled with public rows, windows that stand out, and tails, beside their twins."""

import math

import numpy as np
import pytest
from twins import pooled as slow_pooled
from twins import tails as slow_tails
from twins import windows as slow_windows

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import pooled, tails, windows

PARTS = [0, 1, 2]


def edges_of(log2_parts):
    edges = (np.arange((2047 << log2_parts) + 1) << (52 - log2_parts)).view(np.float64)
    edges[-1] = np.finfo(np.float64).max
    return edges


# ---- counts of public rows -------------------------------------------------------------------------------------------


def public_rows(rng, m, columns):
    notorious = np.array([0.0, -0.0, 1.0, 1.25, 2.0, 5e-324, -5e-324, 1.7e308, -1.7e308])
    rows = rng.normal(size=(m, columns)) * 10.0 ** rng.integers(-300, 300, size=(m, columns))
    return np.where(rng.random((m, columns)) < 0.4, rng.choice(notorious, size=(m, columns)), rows)


@pytest.mark.parametrize("log2_parts", PARTS)
@pytest.mark.parametrize("sides", [1, 2])
def test_pooled_counts_have_the_bits_of_the_twin(log2_parts, sides):
    rng = np.random.default_rng(10 * log2_parts + sides)
    with np.errstate(all="ignore"):
        for m in (0, 1, 2, 7, 300):
            columns = int(rng.integers(1, 5))
            counts = rng.normal(size=(columns, 2 * (2047 << log2_parts) + 2)) * 20.0
            public, centers = public_rows(rng, m, columns), rng.choice([0.0, 1.0, -1e308], size=columns)
            if sides == 1:
                public, centers = np.abs(public), np.zeros(columns)
            factors = (rng.random(columns) * 50.0 * (m > 0)).tolist()
            given = counts, sides, log2_parts, public, centers, (rng.random(columns) * 90.0).tolist(), factors
            fast, slow = pooled.pooled_counts(*given), slow_pooled.pooled_counts(*given)
            assert np.array_equal(fast[0], slow[0])
            assert np.array_equal(fast[1], slow[1])
            for found, expected in zip(fast[2], slow[2], strict=True):
                assert found.tolist() == expected.tolist()


def test_public_rows_of_one_column_are_none_of_another():
    counts, public = np.ones((2, 2 * 2047 + 2)), np.array([[3.0, 1.0], [5.0, 1.0]])
    values, _, cells = pooled.pooled_counts(counts, 2, 0, public, np.ones(2), [4.0, 4.0], [2.0, 0.0])
    assert [len(each) for each in cells] == [2, 0, 0, 0]
    assert np.array_equal(values[1], np.ones((2, 2047)))
    assert not np.array_equal(values[0], np.ones((2, 2047)))


# ---- windows ---------------------------------------------------------------------------------------------------------


def noisy_counts(rng, log2_parts, height):
    cells = 2047 << log2_parts
    counts = [np.round(rng.normal(size=cells) * 9.0) for _ in range(2)]
    for each in counts:
        place = int(rng.integers(0, cells - 40))
        each[place : place + 40] += height * rng.random(40)
        each[-3:] += height  # windows at the end
    variances = [np.where(rng.random(cells) < 0.05, 40.0, 81.0) for _ in range(2)]
    return [*counts, *variances]


def rising(rng, widths, cells, first):
    return first + np.cumsum(rng.random((widths, cells + 1)) * 0.02, axis=1)


@pytest.mark.parametrize("log2_parts", PARTS)
@pytest.mark.parametrize("height", [0.0, 30.0, 400.0])
def test_windows_are_those_of_the_twin(isa, log2_parts, height):
    rng = np.random.default_rng(log2_parts)
    widths, cells = log2_parts + 2, 2047 << log2_parts
    for first in (2.0, 3.5, 6.0):
        counts, limits = noisy_counts(rng, log2_parts, height), rising(rng, widths, cells, first)
        found, score, end = windows.find_windows(counts, limits, 5.0, 1.5)
        slowly, slow_score, slow_end = slow_windows.find_windows(counts, limits, 5.0, 1.5)
        assert found.tolist() == slowly.tolist()
        assert (score, end) == (slow_score, slow_end)
        for known in ([], [1000], [5, 1000, cells - 1]):
            for passes in (0, 1, 2, 6):
                stood, ends = windows.windows_that_stand(found, cells, known, passes)
                expected, slow_ends = slow_windows.windows_that_stand(slowly, cells, known, passes)
                assert stood.tolist() == expected.tolist()
                assert ends == slow_ends


def test_windows_that_need_more_room_are_all_found(isa):
    counts = [np.full(2047, 50.0), np.full(2047, 70.0), np.ones(2047), np.ones(2047)]
    limits = np.full((2, 2048), 3.0)
    found, score, end = windows.find_windows(counts, limits, 5.0, 1.5)
    assert len(found) == 2 * (2047 + 2046) > windows.ROOM
    assert (score, end) == (120.0, 1)  # both sides together, two cells: of equals the first


def test_a_window_is_found_with_nothing_beside_it(isa):
    for place in (0, 1, 15, 16, 31, 32, 2044, 2045, 2046):
        for side in range(2):
            counts = [np.zeros(2047), np.zeros(2047), np.ones(2047), np.ones(2047)]
            counts[side][place] = 8.0
            found, score, end = windows.find_windows(counts, np.full((1, 2048), 3.0), 5.0, 1.5)
            assert found.tolist() == [[side, place, 0, 2048]]
            assert (score, end) == (8.0, place)


def test_windows_refuse_what_is_no_argument():
    cells = [np.zeros(2047)] * 4
    with pytest.raises(KernelError, match="both sides"):
        windows.find_windows(cells[:3], np.zeros((1, 2048)), 5.0, 1.5)
    with pytest.raises(KernelError, match="shape"):
        windows.find_windows(cells, np.zeros((1, 2047)), 5.0, 1.5)
    with pytest.raises(KernelError, match="out of range"):
        windows.find_windows(cells, np.zeros((5, 2048)), 5.0, 1.5)
    with pytest.raises(KernelError, match="shape"):
        windows.windows_that_stand(np.zeros((2, 3), dtype=np.int64), 2047, [], 1)


# ---- tails -----------------------------------------------------------------------------------------------------------


def some_sides(rng, log2_parts, sides=9):
    parts, edges = 1 << log2_parts, edges_of(log2_parts)
    cells = len(edges) - 1
    counts = rng.normal(size=(sides, cells)) * 4.0
    lasts = [*rng.integers(cells, size=sides - 6).tolist(), 0, cells - 1, -1 - 5 * parts]
    lasts += (1023 * parts + rng.integers(9, size=3)).tolist()
    for side, last in zip(counts, lasts, strict=True):
        begin = max(0, last - 6 * parts)
        side[begin : max(last + 1, 0)] += 5000.0 * rng.random(max(last + 1 - begin, 0)) ** 4
    exponents = np.array([math.frexp(edges[max(last, 0) + 1])[1] for last in lasts])
    return list(counts), [np.full(cells, 9.0)] * sides, edges, lasts, parts, exponents


@pytest.mark.parametrize("log2_parts", PARTS)
def test_masses_are_those_of_the_twin(log2_parts):
    """But for the last bits of exponentials and powers, which differ from one mathematical library to another."""
    with np.errstate(all="ignore"):
        for seed in range(20):
            given = some_sides(np.random.default_rng([log2_parts, seed]), log2_parts)
            block, heavy, faint = tails.masses_of_sides(*given)
            slowly, slow_heavy, slow_faint = slow_tails.masses_of_sides(*given)
            assert (heavy, faint) == (slow_heavy, slow_faint)
            seen = 64 * given[4]
            assert np.array_equal(block[:2], slowly[:2])
            assert np.array_equal(block[:, :, :seen], slowly[:, :, :seen])
            assert np.allclose(block[:, :, seen:], slowly[:, :, seen:], rtol=1e-10, atol=1e-290)


@pytest.mark.parametrize("log2_parts", PARTS)
def test_sums_beyond_clips_have_the_bits_of_the_twin(log2_parts):
    with np.errstate(all="ignore"):
        for seed in range(20):
            rng = np.random.default_rng([log2_parts, seed])
            given = some_sides(rng, log2_parts)
            block, parts = tails.masses_of_sides(*given)[0], given[4]
            ends = block[1, :, 64 * parts - 1, None].copy()
            for points in (
                ends * 2.0 ** rng.uniform(-60.0, 5.0, size=(9, 7)),
                np.sort(rng.random((9, 40)), axis=1),
                ends,
            ):
                for fast, slow in zip(
                    tails.sums_beyond(block, parts, points), slow_tails.sums_beyond(block, parts, points), strict=True
                ):
                    assert np.array_equal(fast, slow)
                for fast, slow in zip(
                    tails.clipped_sums(block, parts, points), slow_tails.clipped_sums(block, parts, points), strict=True
                ):
                    assert np.array_equal(fast, slow)


def test_a_side_does_not_depend_on_the_sides_beside_it():
    given = some_sides(np.random.default_rng(5), 1)
    block, _, _ = tails.masses_of_sides(*given)
    for place in range(9):
        part = slice(place, place + 1)
        alone, _, _ = tails.masses_of_sides(given[0][part], given[1][part], given[2], given[3][part], 2, given[5][part])
        assert np.array_equal(alone[:, 0], block[:, place], equal_nan=True)


def test_a_tail_model_is_total():
    rng = np.random.default_rng(16)
    for scale in (0.0, 1.0, 1e6, 1e18):
        counts, edges = rng.normal(size=(50, 138)) * scale, np.cumsum(rng.random(139))
        given = list(counts), [np.full(138, 3.0)] * 50, edges, [127] * 50, 2, np.zeros(50, dtype=np.int64)
        block, _, _ = tails.masses_of_sides(*given)
        for found in block[2:, :, 128:]:
            assert np.isfinite(found).all()
            assert (found >= 0.0).all()
        assert (block[5, :, 128:] > 0.0).all()


def test_tails_refuse_what_is_no_argument():
    counts, variances, edges, lasts, parts, exponents = some_sides(np.random.default_rng(6), 0)
    with pytest.raises(KernelError, match="each"):
        tails.masses_of_sides(counts, variances, edges, lasts[:-1], parts, exponents)
    with pytest.raises(KernelError, match="out of range"):
        tails.masses_of_sides(counts, variances, edges, [2047] * 9, parts, exponents)
    with pytest.raises(KernelError, match="shape"):
        tails.masses_of_sides(counts, variances, edges[1:], lasts, parts, exponents)
    block, _, _ = tails.masses_of_sides(counts, variances, edges, lasts, parts, exponents)
    with pytest.raises(KernelError, match="shape"):
        tails.sums_beyond(block, 2, np.ones((9, 3)))
    with pytest.raises(KernelError, match="shape"):
        tails.clipped_sums(block, 1, np.ones((8, 3)))
