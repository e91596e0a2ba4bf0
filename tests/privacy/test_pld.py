"""The grid of losses and its composition: against exact Gaussians, against dp-accounting, and planted faults of rounding."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import gdp_delta, gdp_epsilon, pld
from fastpubpriv.privacy.pld import fixed_size_replace, poisson_remove, poisson_replace

# Noise multiplier, steps, delta: replace-one without sampling, whose composition is known exactly.
GAUSSIANS = [
    (4.0, 1, 1e-5),
    (1.0, 10, 1e-5),
    (100.0, 1000, 1e-5),
    (30.0, 100, 1e-12),
    (2000.0, 10**6, 1e-6),
    (300.0, 5000, 0.05),
    (0.15, 1, 1e-8),
]


@pytest.mark.parametrize(("z", "steps", "delta"), GAUSSIANS)
def test_exact_gaussians_from_above(z, steps, delta):
    curve, epsilon = pld.solved(poisson_replace(1.0, z), steps, delta)
    truth = gdp_epsilon(delta, 2 * math.sqrt(steps) / z)
    assert truth <= epsilon <= truth + 1.1 * curve.excess + 1e-4
    assert curve.excess <= 1.1e-3
    assert curve.delta(truth) >= delta * (1 - 1e-9)
    assert curve.infinite <= delta / 1000
    delta_there = pld.composed_delta(poisson_replace(1.0, z), steps, truth)
    assert delta * (1 - 1e-9) <= delta_there <= 1.02 * delta


def test_epsilon_one_hundred_and_a_million_steps():
    epsilon = pld.composed_epsilon(poisson_replace(1.0, 200.0), 10**6, 1e-6)
    assert epsilon == pytest.approx(gdp_epsilon(1e-6, 10.0), abs=1.3e-3)
    assert pld.composed_epsilon(poisson_replace(0.1, 0.1939), 10, 1e-6) == pytest.approx(100.0, abs=0.1)


def test_what_the_grid_adds_is_as_stated():
    pair = poisson_replace(1 / 54, 5.2292)
    coarse, high = pld.solved(pair, 5000, 1e-5)
    fine, low = pld.solved(pair, 5000, 1e-5, fineness=6.0)
    assert fine.excess == pytest.approx(coarse.excess / 36, rel=0.01)
    # Stated at the tilt of the Chernoff bound, which is somewhat above the one at the answer.
    assert 0.7 * coarse.excess < high - low < coarse.excess


def test_the_law_holds_the_profile_from_above():
    for pair in (poisson_replace(0.3, 0.8), poisson_remove(0.3, 0.8), fixed_size_replace(0.05, 2.0)):
        above, below = pld.grid_halves(pair, 2.0**-6, 1e-12)
        law = pld.loss_law(pair, above, below)
        assert law.masses.min() >= 0
        assert law.masses.sum() + law.infinite == pytest.approx(1.0, abs=1e-11)
        for epsilon in np.linspace(0.0, 3.0, 40):
            kept = law.losses > epsilon
            ours = float(law.masses[kept] @ -np.expm1(epsilon - law.losses[kept])) + law.infinite
            truth = float(pair.above(np.array([epsilon]))[0])
            assert truth * (1 - 1e-12) <= ours <= 1.05 * truth + 1e-6


def caught():
    """How many exact Gaussians are undercut."""
    count = 0
    for z, steps, delta in GAUSSIANS[:4]:
        epsilon = pld.composed_epsilon(poisson_replace(1.0, z), steps, delta)
        count += epsilon < gdp_epsilon(delta, 2 * math.sqrt(steps) / z)
    return count


def test_planted_fault_losses_rounded_down_are_caught(monkeypatch):
    assert caught() == 0
    honest = pld.half_masses
    # Each mass one cell towards zero: the classic optimistic rounding.
    monkeypatch.setattr(
        pld, "half_masses", lambda losses, deltas: np.append(honest(losses, deltas)[1:], 0.0) * (1 - 1e-12)
    )
    assert caught() >= 3


def test_planted_fault_a_running_minimum_spreads_a_dip(monkeypatch):
    dip = np.array([0.5, 0.3, 0.1999, 0.2, 0.1, 0.05])
    assert pld.falling(dip)[2] == 0.2
    monkeypatch.setattr(pld, "falling", np.minimum.accumulate)
    assert pld.falling(dip)[3] < 0.2


def test_planted_fault_a_window_of_the_untilted_law_is_caught(monkeypatch):
    # Rare and large losses: the tilted sum reaches beyond the window, and what comes back must be small.
    pair = poisson_replace(1e-5, 0.4)
    truth = pld.composed_epsilon(pair, 1000, 1e-6)
    monkeypatch.setattr(pld, "_LOG_WRAPPED", math.log(0.5))
    monkeypatch.setattr(pld, "_LOG_SHARP", 1e9)
    assert pld.composed_epsilon(pair, 1000, 1e-6) > truth + 0.05  # high, never low


REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
ADD_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


def ours(q, z, steps, delta, relation):
    if relation is REPLACE:
        return pld.composed_epsilon(poisson_replace(q, z), steps, delta)
    pair = poisson_remove(q, z)
    return max(pld.composed_epsilon(each, steps, delta) for each in (pair, pair.swapped))


def compared(q, z, steps, deltas, relation):
    # Not much wider than a typical loss, else their own grid decides.
    interval = min(1e-3, max(0.02 * q / z, 2e-4 if z < 1.5 else 1e-6))
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z)), steps
    )
    accountant = PLDAccountant(relation, value_discretization_interval=interval).compose(event)
    for delta in deltas:
        theirs, found = accountant.get_epsilon(delta), ours(q, z, steps, delta, relation)
        # Their pessimistic value has a grid error of its own, about steps (t + 1) interval^2 / 12, and ours is at most 0.001.
        curve, _ = pld.solved(poisson_replace(q, z), steps, delta)
        grid = curve.excess * (interval / curve.step) ** 2
        assert found <= theirs + 0.002, (q, z, steps, delta)
        # Above 700, exp(-epsilon) underflows in their sums, and they give the quantile of the loss, which is about 1 too high.
        slack = 1.0 if theirs > 700 else 0.0
        assert found >= theirs - 3 * grid - 1e-3 * theirs - 1e-6 - slack, (q, z, steps, delta)
        yield found


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize(
    ("q", "z", "steps"), [(0.01, 1.0, 100), (1 / 60, 4.7064, 1000), (0.5, 3.0, 10), (1e-4, 0.6, 1000), (0.1, 0.7, 3)]
)
def test_against_dp_accounting(relation, q, z, steps):
    assert len(list(compared(q, z, steps, (1e-3, 1e-6), relation))) == 2


@pytest.mark.audit
def test_against_dp_accounting_at_hundreds_of_points():
    points = 0
    for q, z, steps in itertools.product((1e-3, 1 / 54, 0.2, 0.7), (0.6, 1.0, 2.5, 8.0), (1, 30, 1000)):
        for relation in (REPLACE, ADD_REMOVE):
            points += len(list(compared(q, z, steps, (1e-2, 1e-5, 1e-8), relation)))
    assert points == 288


def test_fixed_size_is_below_the_renyi_bound_and_above_poisson():
    # dp-accounting states the multiplier relative to the replace-one sensitivity 2 C, hence z / 2.
    for n, k, z, steps, delta in [(10_000, 100, 4.0, 1000, 1e-6), (1000, 100, 3.0, 50, 1e-5), (100, 50, 8.0, 20, 1e-4)]:
        event = dp_accounting.SelfComposedDpEvent(
            dp_accounting.SampledWithoutReplacementDpEvent(n, k, dp_accounting.GaussianDpEvent(z / 2)), steps
        )
        renyi = RdpAccountant(neighboring_relation=REPLACE).compose(event).get_epsilon(delta)
        found = pld.composed_epsilon(fixed_size_replace(k / n, z), steps, delta)
        assert ours(k / n, z, steps, delta, REPLACE) < found < renyi


def test_poisson_is_below_the_renyi_bound():
    for q, z, steps, delta in [(0.01, 1.0, 1000, 1e-6), (0.1, 2.0, 100, 1e-5), (1 / 54, 2.744, 5000, 1e-5)]:
        event = dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z)), steps
        )
        renyi = RdpAccountant(neighboring_relation=ADD_REMOVE).compose(event).get_epsilon(delta)
        assert 0.6 * renyi < ours(q, z, steps, delta, ADD_REMOVE) < renyi


def test_too_little_noise_for_the_grid_is_refused():
    with pytest.raises(BudgetError, match="noise is too small"):
        pld.composed_epsilon(poisson_replace(0.5, 1e-4), 10, 1e-6)


def test_a_large_delta_needs_no_epsilon():
    assert pld.composed_epsilon(poisson_replace(1e-4, 5.0), 10, 0.1) == 0.0
    assert gdp_delta(0, 0.01) < 0.1
