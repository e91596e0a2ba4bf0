"""How often each whole call reads the private rows, and the memory it takes for a column: counts say more than clocks."""

import math
import tracemalloc
from functools import partial

import numpy as np
import pytest
from helpers.tables import rows_of_persons
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv.sources.row_types import RandomAccessRows

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")

N = 4_000
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((N, 3))
PUBLIC = RNG.standard_normal((100, 3))
LABELED, PUBLIC_LABELED = (np.column_stack([x[:, :2], x.sum(axis=1)]) for x in (ROWS, PUBLIC))
CLASSES, PUBLIC_CLASSES = (np.column_stack([x[:, :2], x.sum(axis=1) > 0.0]) for x in (ROWS, PUBLIC))
GROUPS, PUBLIC_GROUPS = (np.column_stack([x[:, :2], np.sign(x[:, 2])]) for x in (ROWS, PUBLIC))
TWO, PUBLIC_TWO = (x + 30.0 * (np.arange(len(x)) % 2)[:, None] for x in (ROWS, PUBLIC))
PERSONS = RNG.integers(0, N // 4, N)
RHO = fpp.ZCDP(0.5)
DELTA = fpp.ApproxDP(1.0, 1e-6)
MIXTURES = np.full((5, 2), 0.5), RNG.standard_normal((5, 2, 3)), np.ones((5, 2, 3))


class CountedRows(RandomAccessRows):
    """Rows of an array that count how many of them have been read."""

    def __init__(self, array):
        super().__init__(*array.shape, "array", None)
        self.array = np.ascontiguousarray(array)
        self.read = 0

    def block(self, begin, end):
        found = self.array[begin:end]
        self.read += len(found)
        return found


# The passes of each call over its rows, the least and the most: released numbers decide whether cells are counted again, and how
# many rounds a mixture gets. One more is a loss of up to a half that no clock of a busy machine would show.
PASSES = {
    "estimate_mean": (3, 4, ROWS, partial(fpp.estimate_mean, x_pub=PUBLIC, budget=RHO)),
    "estimate_mean, normal rows": (
        2, 2, ROWS, partial(fpp.estimate_mean, x_pub=PUBLIC, clipping="gaussian", budget=RHO),
    ),
    "estimate_mean, groups": (
        3, 4, GROUPS, partial(fpp.estimate_mean, x_pub=PUBLIC_GROUPS, by=-1, groups=[-1.0, 1.0], budget=RHO),
    ),
    "weighted_mean": (1, 1, ROWS, partial(fpp.weighted_mean, x_pub=PUBLIC, norm_bound=2.0, variance=3.0, budget=RHO)),
    "estimate_gaussian": (4, 4, ROWS, partial(fpp.estimate_gaussian, x_pub=PUBLIC, budget=RHO)),
    "estimate_gaussian, four rounds": (5, 5, ROWS, partial(fpp.estimate_gaussian, x_pub=PUBLIC, rounds=4, budget=RHO)),
    "coinpress_mean": (
        4, 4, ROWS, partial(fpp.coinpress_mean, variance=1.0, center=0.0, radius=10.0, steps=4, budget=RHO),
    ),
    "coinpress_covariance": (4, 4, ROWS, partial(fpp.coinpress_covariance, scale=1.0, steps=4, budget=RHO)),
    "linear_regression": (1, 1, LABELED, partial(fpp.linear_regression, x_pub=PUBLIC_LABELED, label=-1, budget=RHO)),
    "logistic_regression": (1, 1, CLASSES, partial(fpp.logistic_regression, x_pub=PUBLIC_CLASSES, label=-1, budget=RHO)),
    "learn_separated_mixture": (
        10, 16, TWO, partial(fpp.learn_separated_mixture, x_pub=PUBLIC_TWO, n_components=2, budget=RHO),
    ),
    "learn_axis_aligned_mixture": (10, 16, TWO, partial(fpp.learn_axis_aligned_mixture, n_components=2, budget=DELTA)),
    "quantiles": (5, 6, ROWS, partial(fpp.quantiles, x_pub=PUBLIC, budget=RHO)),
    "describe": (8, 9, ROWS, partial(fpp.describe, x_pub=PUBLIC, budget=RHO)),
    "value_counts": (1, 1, GROUPS[:, 2:], partial(fpp.value_counts, keys=[-1.0, 1.0], budget=RHO)),
    "stable_histogram": (1, 1, ROWS, partial(fpp.stable_histogram, bins=fpp.BinGrid(width=1.0), budget=DELTA)),
    "select_hypothesis": (1, 1, ROWS, partial(fpp.select_hypothesis, hypotheses=MIXTURES, budget=fpp.PureDP(1.0))),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_a_call_reads_its_rows_this_often(name):
    least, most, array, call = PASSES[name]
    rows = CountedRows(array)
    seeded(call, rows, threads=1, progress=False)
    assert least <= math.ceil(rows.read / N) <= most


def test_rows_of_persons_are_read_once_to_choose_them_and_once_to_keep_them():
    """The passes of the call are over what is kept in memory."""
    rows = CountedRows(ROWS)
    table = rows_of_persons(rows, person=PERSONS, rows_per_person=2)
    seeded(fpp.estimate_mean, table, x_pub=PUBLIC, budget=RHO, threads=1, progress=False)
    assert rows.read == 2 * N


def test_memory_of_a_further_column():
    """There are 16,592 counters of 8 bytes for its cells, in this call as in `quantiles` and `describe`, and little else."""
    peaks = []
    for dim in (50, 100):
        x = np.random.default_rng(1).standard_normal((2_000, dim))
        tracemalloc.start()
        fpp.estimate_mean(x, x_pub=x[:100].copy(), budget=RHO, threads=1, progress=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 50 < 150_000
