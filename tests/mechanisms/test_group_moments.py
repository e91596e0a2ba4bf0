"""Moments of one group: what a number may change is the declared sensitivity, no weight of its count is larger; readings."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fastpubpriv.mechanisms.group_moments import GroupMomentsQuery, MomentsReleased
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending

BOUNDS = range(2, 41)  # Q
SUMS = {GaussianSpending: 3, LaplaceSpending: 2}


def answers(bound, weight, sums, groups=1):
    """What each number -Q ... Q and a missing one adds, in each group: (groups, 2 Q + 2, sums x groups)."""
    box = np.ones((groups, 1))
    query = GroupMomentsQuery(
        codes=None if groups == 1 else lambda chunk: chunk[:, 1].astype(np.int32),
        middle=0.0 * box,
        half=box,
        squared=False,
        bound=bound,
        weight=weight,
        shape=(sums, 1, groups),
    )
    numbers = np.append(np.arange(-bound, bound + 1) / bound, np.nan)
    found = []
    for group, number in product(range(groups), numbers):
        totals = query.zeros()
        query.add(np.array([[number, group]]), totals)
        found.append(query.answer(totals).ravel())
    return np.array(found)


def largest_change(law, bound, weight, groups=1):
    """The largest change by one replaced number: squared l2 under Gaussian noise, l1 under Laplace noise."""
    found = answers(bound, weight, SUMS[law], groups)
    change = found[:, None] - found
    if law is GaussianSpending:
        return int((change**2).sum(axis=2).max())
    return int(np.abs(change).sum(axis=2).max())


def declared(law, bound):
    return 4 * bound**2 if law is GaussianSpending else 2 * bound


@pytest.mark.parametrize("law", SUMS)
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_number_of_one_group_changes_what_is_declared(law, bound):
    weight = law.count_weight(bound, 1)
    assert largest_change(law, bound, weight) == declared(law, bound)


@pytest.mark.parametrize("law", SUMS)
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_weight_of_one_group_is_the_largest(law, bound):
    weight = law.count_weight(bound, 1) + 1  # planted
    assert largest_change(law, bound, weight) > declared(law, bound)


@pytest.mark.parametrize("law", SUMS)
@pytest.mark.parametrize("bound", [2, 3, 7, 12])
def test_the_weight_of_one_group_is_too_large_for_two(law, bound):
    several = law.count_weight(bound, 2)
    of_one = law.count_weight(bound, 1)  # planted
    enough = 4 * bound**2 if law is GaussianSpending else 2 * (bound + several)
    assert largest_change(law, bound, several, groups=2) <= enough
    assert largest_change(law, bound, of_one, groups=2) > enough


@pytest.mark.parametrize("law", SUMS)
@pytest.mark.parametrize("columns", [1, 6])
def test_the_event_of_one_group_is_that_of_all_columns(law, columns):
    spending = law(Fraction(1, 2))
    grid = spending.group_grid(1, columns, 1000)
    assert grid.event.worst == columns * declared(law, grid.bound)
    assert grid.event.price(law.unit) <= spending.allowance
    assert grid.event.price(law.unit) > spending.allowance * Fraction(999, 1000)


def test_a_count_of_one_group_has_less_noise_than_one_of_several():
    """Squared weights are 11/4 Q^2 and 3/4 Q^2 with Gaussian noise; with Laplace noise Q is S, or 4/5 S with weight Q/4."""
    noise = {}
    for law, groups in product(SUMS, (1, 2)):
        grid = law(Fraction(1, 2)).group_grid(groups, 1, 1000)
        noise[law, groups] = grid.event.noise_std / grid.weight
    ratios = [noise[law, 1] / noise[law, 2] for law in SUMS]
    assert ratios == pytest.approx([np.sqrt(3 / 11), 1 / 5], rel=1e-3)


# ---- What is read from the released sums -----------------------------------------------------------------------------
NOISE = 4.0
COUNT_NOISE = 7.0


def released(y, noise=0.0, count_noise=0.0):
    """Moments of one group of rows (n, columns) with this noise on sums and on counts."""
    return MomentsReleased(
        count=np.full((1, y.shape[1]), len(y)) + count_noise,
        total=y.sum(axis=0)[None] + noise,
        squares=(y**2 - 0.5).sum(axis=0)[None],
        count_std=COUNT_NOISE,
        noise_std=NOISE,
        event=GaussianSpending(Fraction(1, 2)).group_grid(1, 2, 1000).event,
    )


def numbers():
    return np.random.default_rng(0).uniform(-0.2, 1.0, (500, 2))


def test_mean_and_variance_are_those_of_the_numbers():
    y = numbers()
    column = released(y).at(np.s_[:, 1])
    assert column.mean == pytest.approx(y[:, 1].mean())
    assert column.variance == pytest.approx(y[:, 1].var())
    assert released(y).at(0).rows.tolist() == [500.0, 500.0]


def test_the_noise_of_a_mean_is_that_of_its_sum_and_of_its_count():
    rng = np.random.default_rng(1)
    y = numbers()
    draws = [
        released(y, rng.normal(scale=NOISE), rng.normal(scale=COUNT_NOISE)).mean
        for _ in range(4000)
    ]
    assert np.std(draws, axis=0) == pytest.approx(released(y).noise, rel=0.05)  # 4.5 deviations
    assert np.std(draws) > 1.2 * NOISE / 500  # the count's part shows


def test_sums_that_no_numbers_have_are_held_back():
    y = np.ones((5, 2))
    assert released(y, noise=2.0).mean.max() == 1.4
    assert released(y, noise=2.0).possible.mean.tolist() == [[1.0, 1.0]]
    assert released(y - 0.5).possible.mean.tolist() == [[0.5, 0.5]]
