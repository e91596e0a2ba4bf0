"""A missing cell of a public row is left out of its column alone."""

from itertools import product

import numpy as np
import pytest
from spies import seeded

import fastpubpriv as fpp

ROWS = np.random.default_rng(4).lognormal(3.0, 1.0, size=(3000, 1))
CALLS = {
    f"{call.__name__}, {type(budget).__name__} {number}": (call, budget)
    for number, (call, budget) in enumerate(
        [
            *product(
                [fpp.estimate_mean, fpp.quantiles, fpp.describe], [fpp.ZCDP(0.5), fpp.PureDP(1)]
            ),
            (fpp.estimate_mean, fpp.ZCDP(1e-4)),
        ]
    )
}


def with_gaps(rows, places):
    return np.insert(rows, places, np.nan, axis=0)


@pytest.mark.parametrize(("call", "budget"), CALLS.values(), ids=CALLS)
def test_a_gap_gives_what_the_rows_without_it_give(call, budget):
    gaps = with_gaps(ROWS[:5], [0, 2, 5])
    found = seeded(call, ROWS[5:], x_pub=gaps, budget=budget)
    expected = seeded(call, ROWS[5:], x_pub=ROWS[:5], budget=budget)
    text = str(found.to_dict()).replace("'n_pub': 8", "'n_pub': 5")
    assert text == str(expected.to_dict())


def test_a_gap_in_one_column_leaves_the_other_one_alone():
    public = np.column_stack([with_gaps(ROWS[:5], [0, 2, 5]), np.arange(8.0)])
    private = np.repeat(ROWS[5:], 2, axis=1)
    result = seeded(fpp.estimate_mean, private, x_pub=public, budget=fpp.ZCDP(0.5))
    # The public numbers 0 to 7 of the second column are far from its private mean.
    assert np.all(np.abs(result.mean / ROWS.mean() - 1.0) < 0.1)


def test_a_mean_of_public_rows_alone_leaves_the_gap_out():
    public = with_gaps(ROWS[9:90], 7)
    options = {"budget": fpp.ZCDP(1e-3), "public_only": "auto"}
    result = fpp.estimate_mean(ROWS[:9], x_pub=public, **options)
    assert result.mean == ROWS[9:90].mean(axis=0)
