"""Windows of counts that stand out of the noise, against a slow rewrite."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastpubpriv.estimators.columns import scales, windows
from fastpubpriv.estimators.columns.shares import divide
from fastpubpriv.kernels.rows import EXPONENTS


def test_thresholds_rise_with_the_distance():
    for log2_parts, chance, width, pure in itertools.product(
        range(3), (0.01, 0.001, 0.01 / 160), (1, 2, 4, 8), (False, True)
    ):
        assert np.all(np.diff(windows.thresholds(log2_parts, chance, width, pure)) > 0.0)


def test_windows_are_believed_by_their_distance_to_the_nearest_reference():
    rng = np.random.default_rng(17)
    shares = divide(3, 5_000, Fraction(1, 10), pure=False)
    edges, size = scales.edges_of(shares.log2_parts), EXPONENTS << shares.log2_parts
    for _ in range(5):
        counts = rng.normal(size=2 * size + 2) * shares.count_std
        counts[rng.integers(0, 2 * size, 30)] += 400.0
        column = scales.columns_of(counts[None], np.zeros((1, 1)), np.zeros(1), [shares])[0]
        ((found, _),) = windows.find([column], 0.01, shares)
        assert not windows.stand(found, (), shares, passes=1)[0].any()  # nothing is known
        known = set(rng.integers(0, len(edges) - 1, 3).tolist())
        stood, ends = windows.stand(found, known, shares, passes=1)
        below, begin, outer, _ = found[stood].T
        last = begin + np.maximum(2 * outer, 1) - 1
        for side, counts_of in enumerate((column.above, column.below)):
            slowly = set()
            for width in (1, 2, 4, 8)[: shares.log2_parts + 2]:
                limits = windows.thresholds(shares.log2_parts, 0.01, width, False)
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
    rng = np.random.default_rng(18)
    shares = divide(2, 5_000, Fraction(1, 10), pure=False)
    size, counted = EXPONENTS << shares.log2_parts, []
    for place in (0, -1) * 6:
        counts = rng.normal(size=(1, 2 * size + 2)) * shares.count_std
        # One of a run is near enough only when the one before it is known.
        places = 900 + np.cumsum(shares.parts * rng.integers(4, 9, 12))
        counts[:, places] += rng.uniform(6.5, 8.0, 12) * shares.count_std
        (column,) = scales.columns_of(counts, np.zeros((1, 1)), np.zeros(1), [shares])
        ((found, _),) = windows.find([column], 0.01, shares)
        counted.append([])
        for passes in (1, 2, 3, 6):
            stood, ends = windows.stand(found, {int(places[place])}, shares, passes=passes)
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
        size = EXPONENTS << log2_parts
        columns = []
        for height in (0.0, 4.0, 40.0):
            counts = np.round(rng.normal(size=2 * size + 2) * shares.count_std)
            counts[rng.integers(0, 2 * size, 20)] += height * shares.count_std
            columns.append(scales.columns_of(counts[None], np.zeros((1, 1)), np.zeros(1), [shares])[0])
        for column in columns:
            ((_, anchor),) = windows.find([column], 0.01, shares)
            best = -math.inf, -1
            for counts in (column.above, column.below, column.above + column.below):
                std = shares.count_std * (1.0 if counts is column.above or counts is column.below else math.sqrt(2.0))
                for width in (1, 2, 4, 8)[: log2_parts + 2]:
                    score = np.convolve(counts, np.ones(width), "valid") / (std * math.sqrt(width))
                    best = max(best, (float(score.max()), int(score.argmax()) + width - 1))
            if best[0] > windows.ANCHOR_LEAST:
                assert math.isclose(anchor[0], best[0], rel_tol=1e-12)
            else:
                assert anchor == (-math.inf, -1)
            low, high = best[1] - 30, best[1] + 5
            near = windows.anchor_between(column, low, high, shares)
            assert math.isclose(near[0], best[0], rel_tol=1e-12) or near[0] < best[0]
            assert low <= near[1] < high + 2 * shares.parts


def test_a_window_is_found_with_nothing_beside_it():
    for place in (0, 1, 15, 2044, 2046):
        for side in range(2):
            counts = np.zeros((2, 2, 2047))
            counts[1, side, place] = 8.0
            ones = windows.with_both(np.ones(counts.shape))
            empty, (found, anchor) = windows.find_windows(
                windows.with_both(counts), ones, np.full((1, 2048), 3.0), 5.0, 1.5
            )
            assert found.tolist() == [[side, place, 0, 2048]]
            assert anchor == (8.0, place)
            assert (len(empty[0]), empty[1]) == (0, (-math.inf, -1))


def test_both_sides_together_stand_out_most():
    counts = np.array([np.full((2, 2047), 50.0), np.full((2, 2047), 60.0)])
    ones = windows.with_both(np.ones(counts.shape))
    (found, anchor), _ = windows.find_windows(windows.with_both(counts), ones, np.full((2, 2048), 3.0), 5.0, 1.5)
    assert len(found) == 2 * (2047 + 2046)
    assert anchor == (100.0, 1)  # two cells: of equals the first
