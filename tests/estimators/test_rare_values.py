"""`estimate_mean` of columns in which few rows decide: a rare yes, a value that stands for "missing".

Seeded: every run gives the same numbers.
"""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, PureDP, estimate_mean
from fastpubpriv.estimators.columns import report, scales
from fastpubpriv.estimators.columns.shares import divide

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
SENTINEL = 9999.0
RUNS = 40


def mean_of(private, public, budget, **options):
    return seeded(estimate_mean, private, x_pub=public, budget=budget, threads=1, progress=False, **options)


# ---- equal public values tell of no deviation -----------------------------------------------------------------------

RARE = [  # rows, share, value, the usual value, budget, allowed error over that of sampling
    (200, 0.2, 1.0, 0.0, ZCDP(0.05), 2.5),
    (200, 0.2, 1.0, 0.0, PureDP(1), 2.5),
    (1000, 0.05, 1.0, 0.0, ZCDP(0.05), 2.0),
    (1000, 0.05, 1.0, 0.0, PureDP(1), 2.0),
    (200, 0.3, SENTINEL, 7.0, ZCDP(0.05), 2.0),
    (1000, 0.2, 99.0, 7.0, PureDP(0.3), 2.5),
]


def rare_error(n, share, value, usual, budget, public_rows=5):
    """Root mean squared error over the deviation of the mean of the rows, where all public rows have the usual value."""
    errors = []
    for seed in range(RUNS):
        rows = np.where(np.random.default_rng(seed).random((n, 1)) < share, value, usual)
        result = mean_of(rows, np.full((public_rows, 1), usual), budget, random_state=seed)
        errors.append(result.mean[0] - (usual + share * (value - usual)))
    return np.sqrt(np.mean(np.square(errors)) * n / (share * (1.0 - share))) / abs(value - usual)


@pytest.mark.parametrize(("n", "share", "value", "usual", "budget", "most"), RARE)
def test_equal_public_values_do_not_replace_a_released_sum(n, share, value, usual, budget, most):
    assert rare_error(n, share, value, usual, budget) < most


def test_a_deviation_of_zero_would_replace_it():
    def certain(found, n_pub, **known):
        instead = 0.0 if np.isinf(found.instead_std) else found.instead_std
        return report.say(replace(found, instead_std=instead), n_pub, **known)

    with mock.patch("fastpubpriv.estimators.columns.learn.say", side_effect=certain):  # planted
        assert all(rare_error(*case[:-1]) > 1.5 * case[-1] for case in RARE)


# ---- rows that cannot be seen ---------------------------------------------------------------------------------------


def with_sentinels(n, rows, budget, bounds=None, runs=RUNS):
    """Runs with so many sentinels expected among n rows about 50: how many are resolved, and how many of these hold the truth."""
    resolved = held = 0
    share = rows / n
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        private = rng.normal(50.0, 10.0, size=(n, 1))
        private[rng.random(n) < share] = SENTINEL
        public = rng.normal(50.0, 10.0, size=(1, 1))
        result = mean_of(private, public, budget, bounds=bounds, random_state=seed)
        lower, upper = result.confidence_interval()
        resolved += result.status == ("resolved",)
        held += result.status == ("resolved",) and lower[0] <= (1.0 - share) * 50.0 + share * SENTINEL <= upper[0]
    return resolved, held


@pytest.mark.parametrize("budget", [ZCDP(0.05), ZCDP(0.5), PureDP(1)])
@pytest.mark.parametrize("rows", [3, 6, 12, 20])
def test_a_column_that_may_hide_many_rows_is_not_called_resolved(budget, rows):
    assert with_sentinels(200, rows, budget, runs=10)[0] == 0


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
def test_many_rows_show_or_the_status_is_another(budget):
    """Where one row in fifty can be seen, so many sentinels are."""
    for n in (2_000, 20_000):
        resolved, held = with_sentinels(n, n / 50, budget)
        assert held >= 0.8 * resolved
        assert resolved >= 0.5 * RUNS or n == 2_000


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
@pytest.mark.parametrize("rows", [6, 10, 14, 20])
def test_bounds_make_the_interval_hold_them(budget, rows):
    resolved, held = with_sentinels(200, rows, budget, bounds=(0.0, SENTINEL))
    assert resolved >= RUNS / 5
    assert held >= 0.9 * resolved


def test_a_limit_that_does_not_grow_with_the_distance_is_caught():
    def near(column, scale, shares, far):
        return scales.undetected_rows(shares, 0)

    with mock.patch.object(report, "undetected_at", side_effect=near):  # planted
        resolved, held = with_sentinels(200, 14, ZCDP(0.5), bounds=(0.0, SENTINEL))
    assert held < 0.8 * resolved


@pytest.mark.parametrize(("dim", "budget", "pure"), [(1, 0.5, False), (1, 1, True), (6, 0.5, False)])
def test_more_rows_may_lie_unseen_further_out(dim, budget, pure):
    """More rows further out, and never more than there are."""
    shares = divide(dim, 2_000, budget, pure=pure)
    found = [scales.undetected_rows(shares, octaves) for octaves in (0, 1, 4, 10, 100)]
    assert found == sorted(found)
    assert scales.undetected_rows(shares, 4, guessed=True) > found[2]
    assert scales.undetected_rows(divide(dim, 50, budget, pure=pure), 500) <= 50
    assert found[0] > 1.645 * shares.count_std
