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
LABELED = np.column_stack([ROWS[:, :2], ROWS.sum(axis=1)])
PUBLIC_LABELED = np.column_stack([PUBLIC[:, :2], PUBLIC.sum(axis=1)])
CLASSES, PUBLIC_CLASSES = (np.column_stack([x[:, :2], x.sum(axis=1) > 0.0]) for x in (ROWS, PUBLIC))
GROUPS, PUBLIC_GROUPS = (np.column_stack([x[:, :2], np.sign(x[:, 2])]) for x in (ROWS, PUBLIC))
TWO = ROWS + 30.0 * (np.arange(len(ROWS)) % 2)[:, None]
PUBLIC_TWO = PUBLIC + 30.0 * (np.arange(len(PUBLIC)) % 2)[:, None]
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
PASSES = {}


def passes(name, least, most, rows, function, **given):
    """Add a call on these rows, with the least and the most passes that it makes."""
    PASSES[name] = (least, most, rows, partial(function, **given))


OF_PUBLIC = {"x_pub": PUBLIC, "budget": RHO}
BY_SIGN = {"x_pub": PUBLIC_GROUPS, "by": -1, "groups": [-1.0, 1.0], "budget": RHO}
OF_LABELS = {"x_pub": PUBLIC_LABELED, "label": -1, "budget": RHO}
OF_CLASSES = {"x_pub": PUBLIC_CLASSES, "label": -1, "budget": RHO}
OF_TWO = {"x_pub": PUBLIC_TWO, "n_components": 2, "budget": RHO}
BALL = {"variance": 1.0, "center": 0.0, "radius": 10.0, "steps": 4, "budget": RHO}
GRID = fpp.BinGrid(width=1.0)
SIGNS = GROUPS[:, 2:]
passes("estimate_mean", 3, 4, ROWS, fpp.estimate_mean, **OF_PUBLIC)
passes("normal rows", 2, 2, ROWS, fpp.estimate_mean, clipping="gaussian", **OF_PUBLIC)
passes("groups", 3, 4, GROUPS, fpp.estimate_mean, **BY_SIGN)
passes("weighted_mean", 1, 1, ROWS, fpp.weighted_mean, norm_bound=2.0, variance=3.0, **OF_PUBLIC)
passes("estimate_gaussian", 4, 4, ROWS, fpp.estimate_gaussian, **OF_PUBLIC)
passes("four rounds", 5, 5, ROWS, fpp.estimate_gaussian, rounds=4, **OF_PUBLIC)
passes("coinpress_mean", 4, 4, ROWS, fpp.coinpress_mean, **BALL)
passes("covariance", 4, 4, ROWS, fpp.coinpress_covariance, scale=1.0, steps=4, budget=RHO)
passes("linear_regression", 1, 1, LABELED, fpp.linear_regression, **OF_LABELS)
passes("logistic_regression", 1, 1, CLASSES, fpp.logistic_regression, **OF_CLASSES)
passes("separated mixture", 10, 16, TWO, fpp.learn_separated_mixture, **OF_TWO)
passes("axes", 10, 16, TWO, fpp.learn_axis_aligned_mixture, n_components=2, budget=DELTA)
passes("quantiles", 5, 6, ROWS, fpp.quantiles, **OF_PUBLIC)
passes("describe", 8, 9, ROWS, fpp.describe, **OF_PUBLIC)
passes("value_counts", 1, 1, SIGNS, fpp.value_counts, keys=[-1.0, 1.0], budget=RHO)
passes("stable_histogram", 1, 1, ROWS, fpp.stable_histogram, bins=GRID, budget=DELTA)
passes("choice", 1, 1, ROWS, fpp.select_hypothesis, hypotheses=MIXTURES, budget=fpp.PureDP(1.0))


@pytest.mark.parametrize("name", PASSES)
def test_a_call_reads_its_rows_this_often(name):
    least, most, array, call = PASSES[name]
    rows = CountedRows(array)
    seeded(call, rows, threads=1, progress=False)
    found = math.ceil(rows.read / N)
    assert least <= found <= most


def test_rows_of_persons_are_read_once_to_choose_them_and_once_to_keep_them():
    """The passes of the call are over what is kept in memory."""
    rows = CountedRows(ROWS)
    table = rows_of_persons(rows, person=PERSONS, rows_per_person=2)
    seeded(fpp.estimate_mean, table, x_pub=PUBLIC, budget=RHO, threads=1, progress=False)
    assert rows.read == 2 * N


def peak_of_columns(dim):
    """The most memory that a mean of so many columns takes."""
    x = np.random.default_rng(1).standard_normal((2_000, dim))
    x_pub = x[:100].copy()
    tracemalloc.start()
    try:
        fpp.estimate_mean(x, x_pub=x_pub, budget=RHO, threads=1, progress=False)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_a_further_column():
    """There are 16,592 counters of 8 bytes for its cells, in this call as in `quantiles` and `describe`, and little else."""
    of_column = (peak_of_columns(100) - peak_of_columns(50)) / 50
    assert of_column < 150_000
