"""Windows of counts that stand out of the noise, against a slow rewrite."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv.estimators.columns import clips as tails
from fastpubpriv.estimators.columns import scales, tuning
from fastpubpriv.estimators.columns.scales import divide
from fastpubpriv.kernels.rows import EXPONENTS


def test_windows_are_believed_by_their_distance_to_the_nearest_reference():
    rng, shares = np.random.default_rng(17), divide(3, 5_000, Fraction(1, 10), pure=False)
    edges, size = scales.edges_of(shares.log2_parts), EXPONENTS << shares.log2_parts
    for _ in range(5):
        counts = rng.normal(size=2 * size + 2) * shares.count_std
        counts[rng.integers(0, 2 * size, 30)] += 400.0
        column = scales.columns_of(counts[None], np.zeros((1, 1)), np.zeros(1), [shares])[0]
        ((found, _),) = scales.find([column], 0.01, shares)
        assert not scales.stand(found, (), shares, passes=1)[0].any()  # nothing is known
        known = set(rng.integers(0, len(edges) - 1, 3).tolist())
        stood, ends = scales.stand(found, known, shares, passes=1)
        below, begin, outer, _ = found[stood].T
        last = begin + np.maximum(2 * outer, 1) - 1
        for side, counts_of in enumerate((column.above, column.below)):
            slowly = set()
            for width, limits in zip((1, 2, 4, 8), scales.thresholds(shares.log2_parts, 0.01, False), strict=False):
                for begin in range(size - width + 1):
                    total, beyond = (
                        counts_of[begin : begin + width].sum(),
                        counts_of[begin + width // 2 : begin + width].sum(),
                    )
                    if total < 2.0 * shares.count_std * math.sqrt(width):
                        continue
                    apart = min(max(begin - each, each - (begin + width - 1), 0) for each in known) + width // 2
                    stands = total > limits[min(apart, size)] * shares.count_std * math.sqrt(width)
                    if stands and (width == 1 or beyond > 1.5 * shares.count_std * math.sqrt(width / 2)):
                        slowly.add(begin + width - 1)
            assert set(last[below == side].tolist()) == slowly
            assert ends[side] == max(slowly, default=-1)


def slowly_stand(found, cells, known, passes):
    """Every window against every cell that is known or was found, again in every pass."""
    _, begin, outer, reach = found.T
    last = begin + np.maximum(2 * outer, 1) - 1
    stood, held = np.zeros(len(found), dtype=bool), list(known)
    for _ in range(passes):
        distance = np.full(len(found), cells)
        for cell in held:
            distance = np.minimum(distance, np.maximum(np.maximum(begin - cell, cell - last), 0))
        stood |= (outer < reach) & (np.minimum(distance + outer, cells) < reach)
        held = [*known, *last[stood].tolist()]
    return stood


def test_windows_that_stand_make_others_stand():
    rng, shares = np.random.default_rng(18), divide(2, 5_000, Fraction(1, 10), pure=False)
    size, counted = EXPONENTS << shares.log2_parts, []
    for place in (0, -1) * 6:
        counts = rng.normal(size=(1, 2 * size + 2)) * shares.count_std
        # One of a run is near enough only when the one before it is known.
        places = 900 + np.cumsum(shares.parts * rng.integers(4, 9, 12))
        counts[:, places] += rng.uniform(6.5, 8.0, 12) * shares.count_std
        (column,) = scales.columns_of(counts, np.zeros((1, 1)), np.zeros(1), [shares])
        ((found, _),) = scales.find([column], 0.01, shares)
        counted.append([])
        for passes in (1, 2, 3, 6):
            stood, ends = scales.stand(found, {int(places[place])}, shares, passes=passes)
            slowly = slowly_stand(found, size, [int(places[place])], passes)
            assert stood.tolist() == slowly.tolist()
            lasts = found[:, 1] + np.maximum(2 * found[:, 2], 1) - 1
            assert ends == tuple(lasts[slowly & (found[:, 0] == side)].max(initial=-1) for side in (0, 1))
            counted[-1].append(int(stood.sum()))
    firsts, seconds, thirds, _ = np.sum(counted, axis=0)
    assert firsts < seconds < thirds  # passes after the first one matter here


def test_the_anchor_is_the_window_that_stands_out_most():
    """Above, below or both together, of any width: against all of them, one by one; of equals the same one each time."""
    rng = np.random.default_rng(18)
    for log2_parts in range(3):
        shares = replace(divide(3, 5_000, Fraction(1, 10), pure=False), log2_parts=log2_parts)
        size, columns = EXPONENTS << log2_parts, []
        for height in (0.0, 4.0, 40.0):
            counts = np.round(rng.normal(size=2 * size + 2) * shares.count_std)
            counts[rng.integers(0, 2 * size, 20)] += height * shares.count_std
            columns.append(scales.columns_of(counts[None], np.zeros((1, 1)), np.zeros(1), [shares])[0])
        for column in columns:
            ((_, anchor),) = scales.find([column], 0.01, shares)
            best = -math.inf, -1
            for counts in (column.above, column.below, column.above + column.below):
                std = shares.count_std * (1.0 if counts is column.above or counts is column.below else math.sqrt(2.0))
                for width in (1, 2, 4, 8)[: log2_parts + 2]:
                    score = np.convolve(counts, np.ones(width), "valid") / (std * math.sqrt(width))
                    best = max(best, (float(score.max()), int(score.argmax()) + width - 1))
            if best[0] > tuning.ANCHOR:
                assert math.isclose(anchor[0], best[0], rel_tol=1e-12)
            else:
                assert anchor == (-math.inf, -1)
            low, high = best[1] - 30, best[1] + 5
            near = scales.anchor_between(column, low, high, shares)
            assert math.isclose(near[0], best[0], rel_tol=1e-12) or near[0] < best[0]
            assert low <= near[1] < high + 2 * shares.parts


def test_a_window_is_found_with_nothing_beside_it():
    for place in (0, 1, 15, 2044, 2046):
        for side in range(2):
            counts = np.zeros((2, 2, 2047))
            counts[1, side, place] = 8.0
            ones = scales.with_both(np.ones(counts.shape))
            empty, (found, anchor) = scales.find_windows(scales.with_both(counts), ones, np.full((1, 2048), 3.0))
            assert found.tolist() == [[side, place, 0, 2048]]
            assert anchor == (8.0, place)
            assert (len(empty[0]), empty[1]) == (0, (-math.inf, -1))


# ---- Released counts of columns: pooled with public rows, and the sides and tails made of them ----------------------
PARTS = [0, 1, 2]


# ---- counts of public rows -------------------------------------------------------------------------------------------
def slowly_pooled(counts, sides, log2_parts, public, centers, own, factors):
    """All cells of one side of one column at a time."""
    cells = 2047 << log2_parts
    values, variances, found = np.zeros((len(centers), sides, cells)), np.zeros((len(centers), sides, cells)), []
    for j, (center, variance, factor) in enumerate(zip(centers, own, factors, strict=True)):
        distance = public[:, j] - center
        distance = distance[distance != 0.0]
        keys = (np.abs(distance).view(np.int64) - 1) >> (52 - log2_parts)
        for side in range(sides):
            seen = np.bincount(keys[(distance < 0.0) == bool(side)], minlength=cells)
            around = np.convolve(seen, np.ones(3), "same")
            weight = variance / (variance + factor**2 * (around / 3.0 + 0.5)) if factor else np.zeros(cells)
            part = counts[j, side * cells : (side + 1) * cells]
            values[j, side] = part + weight * (factor * seen - part)
            variances[j, side] = variance * (1.0 - weight)
            found.append(np.flatnonzero(seen).tolist())
    return values, variances, found


@pytest.mark.parametrize("log2_parts", PARTS)
@pytest.mark.parametrize("sides", [1, 2])
def test_pooled_counts_are_those_of_one_cell_after_another(log2_parts, sides):
    rng = np.random.default_rng(10 * log2_parts + sides)
    notorious = np.array([0.0, -0.0, 1.0, 1.25, 2.0, 5e-324, -5e-324, 1.7e308, -1.7e308])
    for m in (0, 1, 7, 300):
        columns = int(rng.integers(1, 5))
        counts = rng.normal(size=(columns, 2 * (2047 << log2_parts) + 2)) * 20.0
        public = rng.normal(size=(m, columns)) * 10.0 ** rng.integers(-300, 300, size=(m, columns))
        public = np.where(rng.random((m, columns)) < 0.4, rng.choice(notorious, size=(m, columns)), public)
        centers = rng.choice([0.0, 1.0, -1e308], size=columns)
        if sides == 1:
            public, centers = np.abs(public), np.zeros(columns)
        factors = (rng.random(columns) * 50.0 * (m > 0)).tolist()
        given = counts, sides, log2_parts, public, centers, (rng.random(columns) * 90.0).tolist(), factors
        values, variances, found = scales.pooled_counts(*given)
        with np.errstate(over="ignore"):
            slowly = slowly_pooled(*given)
        assert np.array_equal(values, slowly[0])
        assert np.array_equal(variances, slowly[1])
        assert [each.tolist() for each in found] == slowly[2]


# ---- sides and tails -------------------------------------------------------------------------------------------------
def some_sides(rng, log2_parts, sides=9):
    parts, edges = 1 << log2_parts, scales.edges_of(log2_parts)
    cells = len(edges) - 1
    counts = rng.normal(size=(sides, cells)) * 4.0
    lasts = [*rng.integers(cells, size=sides - 6).tolist(), 0, cells - 1, None]
    lasts += (1023 * parts + rng.integers(9, size=3)).tolist()
    for side, last in zip(counts, lasts, strict=True):
        if last is not None:
            begin = max(0, last - 6 * parts)
            side[begin : last + 1] += 5000.0 * rng.random(last + 1 - begin) ** 4
    exponents = np.array([math.frexp(edges[(last or 0) + 1])[1] for last in lasts])
    return list(counts), [np.full(cells, 9.0)] * sides, edges, lasts, parts, exponents


def test_a_cliff_has_hardly_a_tail_and_a_power_law_has_one():
    counts = np.zeros((2, 2047))
    counts[0, 1020:1031] = 10_000.0
    counts[1, 1020:1031] = 10_000.0 * 0.5 ** np.arange(11)
    counts[1, 1031:1036] = 10_000.0 * 0.5 ** np.arange(11, 16)
    given = [np.full(2047, 1.0)] * 2, scales.edges_of(0), [1030, 1030], 1, np.array([9, 9])
    sides = tails.sides_of(list(counts), *given)
    assert sides.heavy == [False, True]
    cliff, power_law = (side.beyond for side in sides.each())
    assert cliff.sum() < 10.0
    assert np.allclose(power_law, counts[1, 1031:1036], atol=6.0)


@pytest.mark.parametrize("log2_parts", PARTS)
def test_sums_beyond_clips_are_those_over_all_cells(log2_parts):
    """But for the order of sums: cells that are left out add zeros."""
    for seed in range(5):
        rng = np.random.default_rng([log2_parts, seed])
        sides = tails.sides_of(*some_sides(rng, log2_parts))
        ends = sides.upper[:, sides.occupied - 1, None].copy()
        octaves = np.sort(rng.uniform(-10.0, 5.0, size=(9, 7)), axis=1)
        clips = np.concatenate([np.zeros((9, 1)), ends * 2.0**octaves], axis=1)
        excess, _, hidden = sides.excess(clips)
        sums, _ = sides.clipped(clips)
        lower, upper, mass, _, _, most = sides.block
        with np.errstate(all="ignore"):
            for k, clip in enumerate(clips.T[:, :, None]):
                part = np.minimum(np.maximum(upper - clip, 0.0), upper - lower)
                over = 0.5 * part / np.maximum(upper - lower, tails.TINY) * part
                over += np.where(part > 0.0, np.maximum(lower - clip, 0.0), 0.0)
                np.testing.assert_allclose(excess[:, k], (over * mass).sum(axis=1), rtol=1e-9, atol=1e-9)
                unseen = np.maximum(most - mass, 0.0) * over
                np.testing.assert_allclose(hidden[:, k], unseen[:, sides.occupied :].sum(axis=1), rtol=1e-9)
                middle = np.minimum(lower + (upper - lower) / 2.0, clip)
                assert np.array_equal(sums[:, k], (mass * middle).sum(axis=1))


def test_a_tail_model_is_total_and_does_not_depend_on_the_sides_beside_it():
    given = some_sides(np.random.default_rng(5), 1)
    block = tails.sides_of(*given).block
    for place in range(9):
        part = slice(place, place + 1)
        alone = tails.sides_of(given[0][part], given[1][part], given[2], given[3][part], 2, given[5][part])
        assert np.array_equal(alone.block[:, 0], block[:, place], equal_nan=True)
    # A tail model is total.
    rng = np.random.default_rng(16)
    for scale in (0.0, 1.0, 1e6, 1e18):
        counts, edges = rng.normal(size=(50, 138)) * scale, np.cumsum(rng.random(139))
        given = list(counts), [np.full(138, 3.0)] * 50, edges, [127] * 50, 2, np.zeros(50, dtype=np.int64)
        block = tails.sides_of(*given).block
        for found in block[2:, :, 128:]:
            assert np.isfinite(found).all()
            assert (found >= 0.0).all()
        assert (block[5, :, 128:] > 0.0).all()
