"""What small calls do to be short: sums of public rows without NumPy's wrappers, and steps that are kept from call to call."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import fastpubpriv as fpp
from fastpubpriv.estimators import coinpress
from fastpubpriv.estimators.coinpress import planned_steps, public_path
from fastpubpriv.estimators.regions import column_means, column_stds, row_lengths
from fastpubpriv.privacy import Clusters, CostTally

SETTINGS = {"steps": 2, "mode": "practical", "failure_prob": 0.01}


@pytest.mark.parametrize("shape", [(2, 1), (1, 3), (7, 5), (100, 5), (129, 1), (1000, 33), (4096, 8)])
def test_moments_have_the_bits_of_numpy(shape):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=shape) * 10.0 ** rng.uniform(-5.0, 5.0, shape[1]) + 1e3 * rng.normal(size=shape[1])
    assert column_means(rows).tobytes() == rows.mean(axis=0).tobytes()
    assert row_lengths(rows).tobytes() == np.linalg.norm(rows, axis=1).tobytes()
    if len(rows) > 1:
        assert column_stds(rows).tobytes() == np.std(rows, axis=0, ddof=1).tobytes()
        assert column_stds(rows, column_means(rows)).tobytes() == column_stds(rows).tobytes()


def test_a_kept_path_is_the_one_that_would_be_worked_out():
    allowance = Fraction(1, 2)
    kept = public_path(5, 1000, allowance, 7.5, False, *SETTINGS.values())
    assert kept is public_path(5, 1000, Fraction(2, 4), 7.5, False, *SETTINGS.values())
    anew = public_path.__wrapped__(5, 1000, allowance, 7.5, False, *SETTINGS.values())
    for one, other in zip(kept.steps, anew.steps, strict=True):
        assert (one.name, one.cost, one.grid, one.clip_radius) == (
            other.name,
            other.cost,
            other.grid,
            other.clip_radius,
        )
    assert sum(step.cost for step in kept.steps) == allowance
    assert all(step.grid.event.rho <= step.cost for step in kept.steps)
    # Every setting tells paths apart; a kept one must never stand in for another.
    for changed in (
        (6, 1000, allowance, 7.5, False, 2, "practical", 0.01),
        (5, 1001, allowance, 7.5, False, 2, "practical", 0.01),
        (5, 1000, Fraction(1, 3), 7.5, False, 2, "practical", 0.01),
        (5, 1000, allowance, 7.25, False, 2, "practical", 0.01),
        (5, 1000, allowance, 7.5, True, 2, "practical", 0.01),
        (5, 1000, allowance, 7.5, False, 3, "practical", 0.01),
        (5, 1000, allowance, 7.5, False, 2, "theory", 0.01),
    ):
        other = public_path(*changed)
        assert [(step.cost, step.clip_radius) for step in other.steps] != [(s.cost, s.clip_radius) for s in kept.steps]


def test_the_noise_of_a_step_is_what_the_release_has():
    rows = np.random.default_rng(1).normal(size=(1000, 5))
    found = fpp.estimate_mean(rows[1:], x_pub=rows[:1], budget=fpp.ZCDP(0.5), clipping="gaussian")
    assert found.noise_std == pytest.approx(found.releases[-1]["noise_std"] / 999, rel=1e-15)
    (planned, *_), (first, *_) = (
        planned_steps(5, 999, Fraction(1, 2), found.releases[0]["clip_radius"], pure=False, **SETTINGS),
        found.releases,
    )
    assert planned.cost == Fraction(1, 8)
    assert first["rho"] <= planned.cost


def test_released_radii_are_not_kept():
    rows = np.random.default_rng(2).normal(size=(3000, 3))
    held = public_path.cache_info().currsize
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fpp.coinpress_mean(rows, budget=fpp.ZCDP(1.0), center=0.0, radius="auto", variance=1.0)
    assert public_path.cache_info().currsize == held
    assert not hasattr(coinpress.planned_steps, "cache_info")


def test_a_tally_within_a_limit_leaves_the_old_one():
    third, limit = Fraction(1, 3), Fraction(1)
    tally = CostTally().within(limit, third)
    more = tally.within(limit, Fraction(2, 3))
    assert more is not None
    assert more.total == 1
    assert tally.total == third
    assert more.within(limit, Fraction(1, 2**200)) is None
    by_case = more.within(limit + third, third, Clusters(stay=0, move=4, lineage=("leaves",)))
    assert by_case is not None
    assert by_case.total == limit + third
    assert by_case.within(limit + third, Fraction(1, 2**200)) is None
