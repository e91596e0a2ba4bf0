"""Moments of one group: what a number may change is the declared sensitivity, and no weight of its count is larger."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fastpubpriv.mechanisms.group_moments import GroupMomentsQuery
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
