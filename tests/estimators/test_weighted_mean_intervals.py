"""Intervals of `weighted_mean` that take their deviation from few public rows."""

import numpy as np
import pytest

import fastpubpriv as fpp
from fastpubpriv.results.public_draws import student_factor

CALLS, COLUMNS = 150, 4


@pytest.mark.parametrize("row_weight", ["throw_away", "optimal"])
def test_intervals_from_five_public_rows_hold_the_truth(row_weight):
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(CALLS):
        private, public = rng.normal(3.0, 2.0, (40, COLUMNS)), rng.normal(3.0, 2.0, (5, COLUMNS))
        result = fpp.weighted_mean(
            private,
            x_pub=public,
            norm_bound=30.0,
            row_weight=row_weight,
            budget=fpp.ZCDP(0.1),
        )
        lower, upper = result.confidence_interval()
        held += np.count_nonzero((lower <= 3.0) & (upper >= 3.0))

    # 600 intervals: four deviations, .009 each, below .95. With Gaussian quantiles .878 of them hold it.
    assert held / (CALLS * COLUMNS) > 0.914


def test_the_factor_is_the_ratio_of_two_quantiles():
    # Tables of Student's t: 2.776 with four degrees of freedom; of the Gaussian: 1.960.
    assert student_factor(5) == pytest.approx(2.776445 / 1.959964, rel=1e-6)
