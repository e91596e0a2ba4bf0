"""Rows that lie far from most others, or where no public row lies: they are found, or the answer says what it may lack."""

from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, PureDP, estimate_mean
from fastpubpriv.distributions import norms, support, tuning
from fastpubpriv.distributions.budget_split import divide
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
LAWS = {GaussianSpending: stats.norm, LaplaceSpending: stats.laplace(scale=np.sqrt(0.5))}
NO_CELLS = np.zeros(0, dtype=np.int64)


def mixed(rng, n, share, value):
    """Rows of N(0, 1), a share of which is a far value."""
    return np.where(rng.random(n) < share, value, rng.normal(size=n))


def answers(budget, share, value, draws=12, n=2_000):
    """Results for draws of `mixed` with five usual public rows."""
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        private = mixed(rng, n, share, value)[:, None]
        public = rng.normal(size=(5, 1))
        yield seeded(estimate_mean, private, x_pub=public, budget=budget, random_state=draw)


def error_in_stds(budget, share, value):
    """Root mean squared error over the standard deviation of the population."""
    errors = [each.mean[0] - share * value for each in answers(budget, share, value)]
    return np.sqrt(np.mean(np.square(errors)) / (share * (1.0 - share) * value**2))


def with_a_floor(rate):
    """Replace the floor of the false-alarm rate."""
    support.thresholds.cache_clear()
    return mock.patch.object(tuning, "FLOOR", rate)


def test_a_tenth_of_rows_at_a_million_is_found():
    # Sampling alone gives 1 / sqrt(2000) = .022.
    assert error_in_stds(PureDP(1), 0.1, 1e6) < 0.04


def test_planted_rate_without_a_floor_loses_a_tenth_of_rows():
    with with_a_floor(1e-300):
        lost = error_in_stds(PureDP(1), 0.1, 1e6)
    support.thresholds.cache_clear()
    assert lost > 0.1  # .33 = sqrt(.1 / .9) where all are lost


@pytest.mark.parametrize("log2_parts", [0, 2])
@pytest.mark.parametrize("noise", LAWS)
def test_floors_of_a_column_add_up_to_one_in_a_million(noise, log2_parts):
    limits = support.thresholds(log2_parts, 1e-300, noise)[0]
    within = limits[1 : 1 + (tuning.REACH << log2_parts)]
    assert 2.0 * LAWS[noise].sf(within).sum() == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("share", "value", "budget"), [(0.04, 9999.0, PureDP(1)), (0.1, 1e6, ZCDP(0.05))]
)
def test_an_ok_answer_holds_the_truth_beside_a_minority(share, value, budget):
    ok = [each for each in answers(budget, share, value, draws=24) if not each.part_reasons[0]]
    intervals = [each.confidence_interval() for each in ok]
    missed = [not low[0] < share * value < high[0] for low, high in intervals]
    # Of 24 intervals of coverage .95, 5 or more miss with probability .007.
    assert sum(missed) <= 4


def noise_beyond_a_cell(rng, divided, law):
    """Counts that are noise but for one cell, which ends the support on both sides."""
    size = 2047 * divided.parts
    end = support.key_of(1.0, divided.log2_parts)
    counts = law.rvs(size=(2, size), random_state=rng) * divided.count_std
    column = support.SignedCounts(
        center=0.0,
        values=counts,
        variances=np.full((2, size), divided.count_std**2),
        zero=0.0,
        missing=0.0,
        public_above=NO_CELLS,
        public_below=NO_CELLS,
    )
    return column, support.Support(above=end, below=end, anchored=True, referenced=True)


@pytest.mark.parametrize(
    "spending", [GaussianSpending(Fraction(1, 2)), LaplaceSpending(Fraction(1))]
)
def test_noise_makes_few_columns_doubtful(spending):
    divided = divide(1, 20_000, spending)
    rng = np.random.default_rng(0)
    cases = [noise_beyond_a_cell(rng, divided, LAWS[type(spending)]) for _ in range(400)]
    doubtful = sum(support.doubtful_sum(*case, divided) > 0.0 for case in cases)
    # At most .005 of 400 are expected; 8 or more have probability .001.
    assert doubtful <= 7


@pytest.mark.parametrize("octaves", [6, 10, 20])
def test_as_many_rows_as_may_be_undetected_are_mostly_detected(octaves):
    divided = divide(1, 20_000, GaussianSpending(Fraction(1, 2)))
    rows = support.undetected_rows(divided, octaves)
    rng = np.random.default_rng(octaves)
    found = 0
    for _ in range(200):
        column, scale = noise_beyond_a_cell(rng, divided, stats.norm)
        first = scale.above + 1 + octaves * divided.parts
        column.values[1, scale.above] += 15_000.0
        column.values[1, first : first + divided.parts] += rng.poisson(rows) / divided.parts
        (support_of,) = support.scales_of([column], [divided])
        found += (support_of.above or 0) >= first
    assert found >= 184  # .95 of 200 are 190; fewer than 184 have probability .03


# ---- public rows that are not like the private ones ------------------------------------------------------------------
# 260 private rows in one cell, with noise of 37, beside 60 public rows elsewhere.
PLACE = support.key_of(1.5, norms.LOG2_PARTS)
ELSEWHERE = np.full(60, 12.0)


def test_a_cell_of_private_rows_is_hardly_shrunk_by_public_rows_elsewhere():
    counts = np.zeros((1, 4 * 2047 + 2))
    counts[0, PLACE] = 260.0
    given = [37.0**2], [400.0 / 60.0]
    values, variances, _ = support.pooled_counts(
        counts, 2, norms.LOG2_PARTS, ELSEWHERE[:, None], np.zeros(1), *given
    )
    assert 260.0 - 37.0 < values[0, 0, PLACE] <= 260.0  # 6 where public rows are believed
    assert variances[0, 0, PLACE] > 0.8 * 37.0**2


def test_a_shell_of_private_norms_is_hardly_shrunk_by_public_norms_elsewhere():
    divided = replace(divide(1, 400, GaussianSpending(Fraction(1, 200))), log2_parts=1)
    counts = np.zeros(norms.DRAWS)
    counts[int(np.searchsorted(norms.EDGES, 1.5))] = 7.0 * divided.count_std
    column = norms.column_of(counts, ELSEWHERE, divided)
    assert column.values[1, PLACE] > 6.0 * divided.count_std


def groups_of(rng, n, moved):
    """A yes in .35 of the rows of two groups, moved."""
    yes = (rng.random(n) < 0.35) + moved
    return pd.DataFrame({"yes": yes, "group": np.array(["a", "b"])[np.arange(n) % 2]})


def test_ok_means_of_groups_hold_the_truth_beside_shifted_public_rows():
    ok = missed = 0
    for draw in range(24):
        rng = np.random.default_rng(draw)
        private = groups_of(rng, 400, 0.0)
        public = groups_of(rng, 60, 0.95)  # two standard deviations
        result = seeded(
            estimate_mean,
            private,
            x_pub=public,
            by="group",
            groups=["a", "b"],
            columns=["yes"],
            budget=ApproxDP(0.4, 1e-6),
            random_state=draw,
        )
        low, high = result.confidence_interval()
        of_group = zip(result.part_reasons, low.ravel() < 0.35, high.ravel() > 0.35, strict=True)
        for reasons, above_low, below_high in of_group:
            ok += not reasons
            missed += not reasons and not (above_low and below_high)
    # Believed public rows gave 18 ok means, all of them wrong.
    assert ok >= 20
    assert missed <= 4  # of 28 intervals of coverage .95, 5 or more miss with probability .01
