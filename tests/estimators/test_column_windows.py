"""Windows of counts that stand out of the noise, against a slow rewrite."""

import itertools
import math
from fractions import Fraction

import numpy as np

from fastpubpriv.estimators.columns import scales
from fastpubpriv.estimators.columns.shares import divide
from fastpubpriv.kernels.columns import EXPONENTS


def test_thresholds_rise_with_the_distance():
    for log2_parts, chance, width, pure in itertools.product(
        range(3), (0.01, 0.001, 0.01 / 160), (1, 2, 4, 8), (False, True)
    ):
        assert np.all(np.diff(scales.thresholds(log2_parts, chance, width, pure)) > 0.0)


def test_windows_are_believed_by_their_distance_to_the_nearest_reference():
    rng = np.random.default_rng(17)
    shares = divide(3, 5_000, Fraction(1, 10), pure=False)
    edges, size = scales.edges_of(shares.log2_parts), EXPONENTS << shares.log2_parts
    for _ in range(5):
        counts = rng.normal(size=2 * size + 2) * shares.count_std
        counts[rng.integers(0, 2 * size, 30)] += 400.0
        column = scales.column_of(counts, np.zeros(1), 0.0, shares)
        standing = scales._standing(scales._sums([column], shares)[0], 0.01, shares)
        known = set(rng.integers(0, len(edges) - 1, 3).tolist())
        found = scales._ends(standing, standing.reach(0.01, shares), known, shares)
        for side, counts_of in enumerate((column.above, column.below)):
            slowly = set()
            for width in (1, 2, 4, 8)[: shares.log2_parts + 2]:
                limits = scales.thresholds(shares.log2_parts, 0.01, width, False)
                for begin in range(size - width + 1):
                    total, outer = (
                        counts_of[begin : begin + width].sum(),
                        counts_of[begin + width // 2 : begin + width].sum(),
                    )
                    if total < 2.0 * shares.count_std * math.sqrt(width):
                        continue
                    apart = min(max(begin - each, each - (begin + width - 1), 0) for each in known) + width // 2
                    stands = total > limits[min(apart, size)] * shares.count_std * math.sqrt(width)
                    if stands and (width == 1 or outer > 1.5 * shares.count_std * math.sqrt(width / 2)):
                        slowly.add(begin + width - 1)
            assert found[side] == slowly
