"""Conversions against high precision, dp-accounting, and the counterexamples."""

import itertools
import math
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from helpers.errors import raises

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import ZCDP, SelectionEvent, pld
from fastpubpriv.privacy.budgets import float_down, float_up
from fastpubpriv.privacy.calibrated_budget import person_budget
from fastpubpriv.privacy.conversions import (
    advanced_composition,
    basic_composition,
    best_epsilon,
    bun_steinke_epsilon,
    bun_steinke_rho,
    exponential_mechanism_rho,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    gdp_rho,
    group_approx,
    group_mu,
    group_rho,
    optimal_composition_delta,
    optimal_composition_epsilon,
    pure_to_zcdp,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from fastpubpriv.privacy.pld import fixed_size_replace, poisson_remove, poisson_replace


def exact_gdp_delta(epsilon, mu):
    """The textbook formula, with enough digits for its cancellation."""

    def above(x):
        return mpmath.erfc(x / mpmath.sqrt(2)) / 2

    digits = 120 if mu * mu > epsilon / 700 else 700
    with mpmath.workdps(digits):
        e = mpmath.mpf(epsilon)
        m = mpmath.mpf(mu)
        return above(e / m - m / 2) - mpmath.exp(e) * above(e / m + m / 2)


@pytest.mark.parametrize(
    ("count", "seed"), [(300, 1), pytest.param(10_000, 2, marks=pytest.mark.audit)]
)
def test_gdp_delta_is_above_the_exact_value_by_at_most_1e_12(count, seed):
    """With delta from 1e-290 to nearly 1, epsilon over twelve decades, both branches of the formula."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(count):
        epsilon = 10 ** rng.uniform(-9, 3)
        x = rng.uniform(-6, 35)  # epsilon/mu - mu/2
        root = math.sqrt(x * x + 2 * epsilon)
        mu = root - x if x < 0 else 2 * epsilon / (x + root)
        exact = exact_gdp_delta(epsilon, mu)
        ours = gdp_delta(epsilon, mu)
        # A float may mean its decimal, so the formula is used at arguments that are on the safe side of both readings.
        safe = float_down(Fraction(repr(epsilon))), float_up(Fraction(repr(mu)))
        if exact > 1e-300:
            relative = float(mpmath.mpf(ours) / exact - 1)
            assert relative >= 0 or ours == 1.0
            at_safe = exact if safe == (epsilon, mu) else exact_gdp_delta(*safe)
            worst = max(worst, float(mpmath.mpf(ours) / at_safe - 1))
        else:
            assert ours >= exact
    assert 0 < worst < 1e-12


def test_gdp_extremes():
    assert gdp_delta(0, 1e-9) == pytest.approx(1e-9 / math.sqrt(2 * math.pi), rel=1e-12)
    assert gdp_delta(1, 1e4) == 1.0
    assert 0 < gdp_delta(1000, 1e-3) < 1e-300  # underflow rounds up, never to zero
    assert gdp_epsilon(0.9, 0.1) == 0.0
    assert gdp_mu(1, 0.999999) > 5


CHECK_VALUES = [
    (1, 1e-5, 0.26805, 0.035926, 0.030557, 0.020820),
    (1, 1e-6, 0.23670, 0.028014, 0.024356, 0.017469),
    (2, 1e-6, 0.44833, 0.100502, 0.088153, 0.067574),
    (4, 1e-6, 0.83786, 0.351004, 0.311065, 0.253936),
]


@pytest.mark.parametrize(("epsilon", "delta", "mu", "gdp", "cks", "bs"), CHECK_VALUES)
def test_check_values_of_the_specification(epsilon, delta, mu, gdp, cks, bs):
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-4)
    assert gdp_rho(epsilon, delta) == pytest.approx(gdp, rel=1e-4)
    assert zcdp_rho(epsilon, delta) == pytest.approx(cks, rel=1e-4)
    assert bun_steinke_rho(epsilon, delta) == pytest.approx(bs, rel=1e-4)


EPSILONS = pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1, 5, 30])
DELTAS = pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-15])
MORE = 1.01


@EPSILONS
@DELTAS
def test_mu_is_the_largest_that_keeps_delta(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    assert exact_gdp_delta(epsilon, mu) <= delta < exact_gdp_delta(epsilon, mu * (1 + 1e-9))


@EPSILONS
@DELTAS
def test_epsilon_of_mu_is_its_inverse(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    back = gdp_epsilon(delta, mu)
    assert exact_gdp_delta(back, mu) <= delta
    assert back == pytest.approx(epsilon, rel=1e-9)


@EPSILONS
@DELTAS
def test_rho_is_the_largest_that_keeps_delta(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(delta, rho) <= epsilon <= zcdp_epsilon(delta, rho * (1 + 1e-6))
    assert zcdp_delta(epsilon, rho) <= delta * (1 + 1e-9)
    closed_form = bun_steinke_epsilon(delta, bun_steinke_rho(epsilon, delta))
    assert closed_form == pytest.approx(epsilon, rel=1e-9)


@EPSILONS
@DELTAS
def test_a_law_that_says_more_has_a_smaller_epsilon(epsilon, delta):
    rho = bun_steinke_rho(epsilon, delta)
    of_gaussian = gdp_epsilon(delta, math.sqrt(2 * rho))
    assert of_gaussian <= zcdp_epsilon(delta, rho) <= bun_steinke_epsilon(delta, rho)
    assert rho <= zcdp_rho(epsilon, delta) <= gdp_rho(epsilon, delta)


@EPSILONS
@DELTAS
@pytest.mark.parametrize("function", [zcdp_rho, gdp_rho, bun_steinke_rho])
def test_rho_grows_with_epsilon_and_with_delta(function, epsilon, delta):
    assert function(epsilon, delta) < function(epsilon * MORE, delta)
    assert function(epsilon, delta) < function(epsilon, delta * MORE)


@EPSILONS
@DELTAS
@pytest.mark.parametrize("function", [zcdp_epsilon, bun_steinke_epsilon])
def test_epsilon_grows_with_rho_and_falls_with_delta(function, epsilon, delta):
    """Where it is above zero."""
    rho = bun_steinke_rho(epsilon, delta)
    here = function(delta, rho)
    of_more_rho = function(delta, rho * MORE)
    assert here < of_more_rho or of_more_rho == 0
    assert here > function(delta * MORE, rho) or here == 0


@EPSILONS
@DELTAS
def test_delta_grows_with_mu_and_falls_with_epsilon(epsilon, delta):
    rho = bun_steinke_rho(epsilon, delta)
    mu = math.sqrt(2 * rho)
    assert gdp_delta(epsilon, mu) < gdp_delta(epsilon, mu * MORE)
    assert gdp_delta(epsilon, mu) > gdp_delta(epsilon * MORE, mu)
    assert zcdp_delta(epsilon, rho) >= zcdp_delta(epsilon * MORE, rho)


def exact_zcdp_delta(epsilon, rho):
    """Minimum over a fine grid of alpha in high precision: an upper bound of the minimum, good to 1e-7 relative."""
    with mpmath.workdps(50):
        e = mpmath.mpf(epsilon)
        r = mpmath.mpf(rho)

        def log_delta(t):
            a = 1 + mpmath.exp(t)
            return (a - 1) * (a * r - e) - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)

        low = mpmath.mpf(-20)
        high = mpmath.mpf(20)
        for _ in range(120):  # golden section; the function is unimodal in t
            third = (high - low) / 3
            if log_delta(low + third) < log_delta(high - third):
                high -= third
            else:
                low += third
        return mpmath.exp(log_delta(low))


@pytest.mark.parametrize(
    ("epsilon", "rho"), [(1, 0.03), (5, 0.5), (0.1, 1e-4), (20, 3.0), (0.5, 0.4), (100, 25.0)]
)
def test_zcdp_delta_against_high_precision(epsilon, rho):
    exact = exact_zcdp_delta(epsilon, rho)
    assert 1 <= float(mpmath.mpf(zcdp_delta(epsilon, rho)) / exact) < 1 + 1e-10


def test_composition_of_gaussians_is_additive_in_rho():
    of_half = pytest.approx(gdp_epsilon(1e-6, 0.5), rel=1e-9)
    assert gdp_epsilon(1e-6, math.sqrt(0.3**2 + 0.4**2)) == of_half
    assert best_epsilon(1e-6, 0.125, all_gaussian=True) == of_half
    assert best_epsilon(1e-6, 0.125, all_gaussian=False) == zcdp_epsilon(1e-6, 0.125)


def test_p4_classical_gaussian_calibration_fails_for_large_epsilon():
    for epsilon, delta, true in [(10, 1e-5, 1.4e-5), (8, 1e-2, 0.0104)]:
        classical_mu = epsilon / math.sqrt(2 * math.log(2 / delta))
        assert exact_gdp_delta(epsilon, classical_mu) == pytest.approx(true, rel=0.03)
        assert gdp_mu(epsilon, delta) < classical_mu
    assert gdp_mu(1, 1e-6) * math.sqrt(2 * math.log(2e6)) == pytest.approx(1.27, abs=0.01)


def test_p5_half_zcdp_is_not_the_claimed_approximate_dp():
    claimed = math.sqrt(math.log(1e6))  # epsilon sqrt(log 1/delta) at epsilon = 1
    assert claimed == pytest.approx(3.72, abs=0.01)
    assert gdp_delta(claimed, 1.0) == pytest.approx(1.4e-4, rel=0.05)
    assert zcdp_epsilon(1e-6, 0.5) == pytest.approx(5.22, abs=0.01)
    assert gdp_epsilon(1e-6, 1.0) == pytest.approx(4.89, abs=0.01)


def exact_response_delta(epsilon0, count, epsilon):
    """delta of `count` randomized responses, by an exact binomial sum in high precision."""
    with mpmath.workdps(60):
        e0 = mpmath.mpf(epsilon0)
        e = mpmath.mpf(epsilon)
        total = mpmath.mpf(0)
        for wrong in range(count + 1):
            gap = mpmath.exp((count - wrong) * e0) - mpmath.exp(e + wrong * e0)
            if gap > 0:
                total += mpmath.binomial(count, wrong) * gap
        return total / (1 + mpmath.exp(e0)) ** count


@pytest.mark.parametrize(
    ("epsilon0", "count", "delta", "true"),
    [(1.0, 1000, 1e-6, 1.0), (0.5, 1000, 1e-6, 0.07), (1.0, 200, 1e-3, None)],
)
def test_p3_the_quoted_advanced_composition_is_false(epsilon0, count, delta, true):
    claimed = epsilon0 * math.sqrt(6 * count * math.log(1 / delta))
    exact = exact_response_delta(epsilon0, count, claimed)
    assert exact > 100 * delta
    if true is not None:
        assert float(exact) == pytest.approx(true, rel=0.1)
    ours = optimal_composition_delta(epsilon0, 0, count, claimed)
    assert exact <= ours <= float(exact) * (1 + 1e-9)


def test_e10_figures():
    assert math.sqrt(6 * 200 * math.log(1e3)) == pytest.approx(91, abs=0.1)
    # On the grid (T - 2i) epsilon0 of the theorem the optimum is 130; between the grid points it is a little less.
    optimum = optimal_composition_epsilon(1.0, 0, 200, 1e-3)
    assert 128 < optimum <= 130
    assert exact_response_delta(1.0, 200, 128) > 1e-3 >= exact_response_delta(1.0, 200, optimum)
    # of many calls at a small epsilon, at a delta of 1e-6
    claimed = 0.1 * math.sqrt(6e4 * math.log(1e6))
    assert optimal_composition_delta(0.1, 0, 10_000, claimed) == pytest.approx(1.3e-5, rel=0.05)


def test_basic_composition_adds():
    assert basic_composition([(0.5, 0), (Fraction(1, 4), 1e-6)]) == (0.75, 1e-6)


def test_advanced_composition_is_its_formula():
    epsilon, delta = advanced_composition(0.1, 1e-9, 100, 1e-6)
    formula = 0.1 * math.sqrt(200 * math.log(1e6)) + 10 * math.expm1(0.1)
    assert epsilon == pytest.approx(formula, rel=1e-12)
    assert delta == pytest.approx(1.1e-6)
    assert optimal_composition_epsilon(0.1, 0, 100, 1e-6) < epsilon


def test_ends_of_optimal_composition():
    assert optimal_composition_epsilon(0.1, 0, 1, 1e-12) <= 0.1
    assert optimal_composition_epsilon(1e-3, 0, 2, 0.9) == 0.0
    assert optimal_composition_delta(0.1, 1e-8, 100, 1e9) == pytest.approx(1e-6, rel=1e-6)
    assert optimal_composition_delta(0.1, 1, 2, 1) == 1.0


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (basic_composition, ([],)),
        (basic_composition, ([(-1, 0)],)),
        (advanced_composition, (800, 0, 2, 1e-6)),
        (advanced_composition, (1, -1, 2, 1e-6)),
        (optimal_composition_epsilon, (0.1, 1e-6, 100, 1e-5)),
        (optimal_composition_delta, (0.1, 0, 10**7, 1)),
        (optimal_composition_delta, (0.1, 0, 1.5, 1)),
    ],
)
def test_compositions_that_are_refused(function, arguments):
    raises(BudgetError, None, function, *arguments)


@pytest.mark.parametrize("epsilon", [2.0**-30, 1e-6, 1e-3, 0.1, 1, 4, 20, 100, 1024])
def test_pure_to_zcdp_bound(epsilon):
    with mpmath.workdps(60):
        given = mpmath.mpf(str(epsilon))
        exact = given * mpmath.tanh(given / 2)
        bound = pure_to_zcdp(epsilon)
        ratio = mpmath.mpf(bound.numerator) / bound.denominator / exact
        assert 1 <= ratio <= 1 + mpmath.mpf(10) ** -14
    assert bound <= Fraction(str(epsilon)) ** 2 / 2
    assert type(bound) is Fraction


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("alpha", [1.0001, 1.5, 2, 5, 50])
def test_pure_to_zcdp_holds_for_randomized_response(epsilon, alpha):
    """The worst pure mechanism; divergence of order alpha in closed form."""
    p = 1 / (1 + math.exp(-epsilon))
    likely = p**alpha * (1 - p) ** (1 - alpha)
    unlikely = (1 - p) ** alpha * p ** (1 - alpha)
    divergence = math.log(likely + unlikely) / (alpha - 1)
    assert divergence <= alpha * float(pure_to_zcdp(epsilon)) * (1 + 1e-9)


def test_rho_of_a_group_grows_with_its_square():
    assert group_rho(0.5, 3) == Fraction(9, 2)
    assert person_budget(ZCDP(0.5), 3) == ZCDP(4.5)
    assert group_mu(0.5, 3) == 1.5


def test_rho_of_the_exponential_mechanism_is_an_eighth_of_epsilon_squared():
    assert exponential_mechanism_rho(2) == Fraction(1, 2)
    assert SelectionEvent(epsilon=2, sensitivity=1, candidates=2).rho == Fraction(1, 2)


def test_epsilon_and_delta_of_a_group():
    epsilon, delta = group_approx(0.5, 1e-6, 3)
    assert epsilon == 1.5
    exact = 1e-6 * (1 + math.exp(0.5) + math.exp(1.0))
    assert exact <= delta <= exact * (1 + 1e-9)
    assert group_approx(1e-6, 1e-9, 2)[1] == pytest.approx(2e-9, rel=1e-5)
    assert group_approx(100, 1e-6, 20) == (2000.0, 1.0)


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_groups_that_are_refused(size):
    raises(BudgetError, None, group_approx, 1, 0, size)


@pytest.mark.parametrize(
    "function",
    [gdp_delta, zcdp_delta, gdp_mu, zcdp_rho, bun_steinke_rho, gdp_epsilon, zcdp_epsilon],
)
@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "1", True, None, 10**400])
def test_bad_numbers_are_refused(function, bad):
    raises(BudgetError, None, function, bad, 0.5)
    raises(BudgetError, None, function, 0.5, bad)


def test_exact_inputs_are_rounded_towards_safety():
    third = Fraction(1, 3)
    assert gdp_delta(third, 1) >= gdp_delta(math.nextafter(1 / 3, 1), 1)
    assert gdp_epsilon(Fraction(1, 10**6), third) >= gdp_epsilon(1e-6, math.nextafter(1 / 3, 0))


# ---- The grid of losses and its composition: against exact Gaussians, against dp-accounting, and planted faults of rounding.
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


def solved_epsilon(*given):
    """The epsilon of a pair, a number of steps and a delta."""
    _, epsilon = pld.solved(*given)
    return epsilon


def test_a_million_steps():
    epsilon = solved_epsilon(poisson_replace(1.0, 200.0), 10**6, 1e-6)
    assert epsilon == pytest.approx(gdp_epsilon(1e-6, 10.0), abs=1.3e-3)


def test_an_epsilon_of_a_hundred():
    epsilon = solved_epsilon(poisson_replace(0.1, 0.1939), 10, 1e-6)
    assert epsilon == pytest.approx(100.0, abs=0.1)


def test_what_the_grid_adds():
    pair = poisson_replace(1 / 54, 5.2292)
    coarse, high = pld.solved(pair, 5000, 1e-5)
    fine, low = pld.solved(pair, 5000, 1e-5, fineness=6.0)
    assert fine.excess == pytest.approx(coarse.excess / 36, rel=0.01)
    # Stated at the tilt of the Chernoff bound, which is somewhat above the one at the answer.
    assert 0.7 * coarse.excess < high - low < coarse.excess


@pytest.mark.parametrize(
    "pair",
    [poisson_replace(0.3, 0.8), poisson_remove(0.3, 0.8), fixed_size_replace(0.05, 2.0)],
    ids=["replace", "remove", "fixed size"],
)
def test_the_law_holds_the_profile_from_above(pair):
    above, below = pld.grid_halves(pair, 2.0**-6, 1e-12)
    law = pld.loss_law(pair, above, below)
    assert law.masses.min() >= 0
    assert law.masses.sum() + law.infinite == pytest.approx(1.0, abs=1e-11)
    for epsilon in np.linspace(0.0, 3.0, 40):
        kept = law.losses > epsilon
        beyond = -np.expm1(epsilon - law.losses[kept])
        ours = float(law.masses[kept] @ beyond) + law.infinite
        truth = float(pair.above(np.array([epsilon]))[0])
        assert truth * (1 - 1e-12) <= ours <= 1.05 * truth + 1e-6


def caught():
    """How many exact Gaussians are undercut."""
    count = 0
    for z, steps, delta in GAUSSIANS[:4]:
        epsilon = solved_epsilon(poisson_replace(1.0, z), steps, delta)
        count += epsilon < gdp_epsilon(delta, 2 * math.sqrt(steps) / z)
    return count


def test_planted_fault_losses_rounded_down_are_caught(monkeypatch):
    honest = pld.half_masses

    def one_cell_towards_zero(losses, deltas):
        """The classic optimistic rounding."""
        return np.append(honest(losses, deltas)[1:], 0.0) * (1 - 1e-12)

    assert caught() == 0
    monkeypatch.setattr(pld, "half_masses", one_cell_towards_zero)
    assert caught() >= 3


def test_planted_fault_a_running_minimum_spreads_a_dip(monkeypatch):
    dip = np.array([0.5, 0.3, 0.1999, 0.2, 0.1, 0.05])
    assert pld.falling(dip)[2] == 0.2
    monkeypatch.setattr(pld, "falling", np.minimum.accumulate)
    assert pld.falling(dip)[3] < 0.2


def test_planted_fault_a_window_of_the_untilted_law_is_caught(monkeypatch):
    # Rare and large losses: the tilted sum reaches beyond the window, and what comes back must be small.
    pair = poisson_replace(1e-5, 0.4)
    truth = solved_epsilon(pair, 1000, 1e-6)
    monkeypatch.setattr(pld, "_LOG_WRAPPED", math.log(0.5))
    monkeypatch.setattr(pld, "_LOG_SHARP", 1e9)
    assert solved_epsilon(pair, 1000, 1e-6) > truth + 0.05  # high, never low


REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
ADD_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


def ours(q, z, steps, delta, relation):
    if relation is REPLACE:
        return solved_epsilon(poisson_replace(q, z), steps, delta)
    pair = poisson_remove(q, z)
    removed = solved_epsilon(pair, steps, delta)
    added = solved_epsilon(pair.swapped, steps, delta)
    return max(removed, added)


def compared(q, z, steps, deltas, relation):
    # Not much wider than a typical loss, else their own grid decides.
    least = 2e-4 if z < 1.5 else 1e-6
    interval = min(1e-3, max(0.02 * q / z, least))
    step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
    event = dp_accounting.SelfComposedDpEvent(step, steps)
    accountant = PLDAccountant(relation, value_discretization_interval=interval).compose(event)
    for delta in deltas:
        theirs = accountant.get_epsilon(delta)
        found = ours(q, z, steps, delta, relation)
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
    ("q", "z", "steps"),
    [(0.01, 1.0, 100), (1 / 60, 4.7064, 1000), (0.5, 3.0, 10), (1e-4, 0.6, 1000), (0.1, 0.7, 3)],
)
def test_against_dp_accounting_of_pld(relation, q, z, steps):
    assert len(list(compared(q, z, steps, (1e-3, 1e-6), relation))) == 2


@pytest.mark.audit
def test_against_dp_accounting_at_hundreds_of_points():
    points = 0
    rates = (1e-3, 1 / 54, 0.2, 0.7)
    multipliers = (0.6, 1.0, 2.5, 8.0)
    deltas = (1e-2, 1e-5, 1e-8)
    for q, z, steps in itertools.product(rates, multipliers, (1, 30, 1000)):
        for relation in (REPLACE, ADD_REMOVE):
            points += len(list(compared(q, z, steps, deltas, relation)))
    assert points == 288


@pytest.mark.parametrize(
    ("n", "k", "z", "steps", "delta"),
    [(10_000, 100, 4.0, 1000, 1e-6), (1000, 100, 3.0, 50, 1e-5), (100, 50, 8.0, 20, 1e-4)],
)
def test_fixed_size_is_below_the_renyi_bound_and_above_poisson(n, k, z, steps, delta):
    """dp-accounting states the multiplier relative to the replace-one sensitivity 2 C, hence z / 2."""
    noise = dp_accounting.GaussianDpEvent(z / 2)
    step = dp_accounting.SampledWithoutReplacementDpEvent(n, k, noise)
    event = dp_accounting.SelfComposedDpEvent(step, steps)
    renyi = RdpAccountant(neighboring_relation=REPLACE).compose(event).get_epsilon(delta)
    found = solved_epsilon(fixed_size_replace(k / n, z), steps, delta)
    assert ours(k / n, z, steps, delta, REPLACE) < found < renyi


def test_a_large_delta_needs_no_epsilon():
    assert solved_epsilon(poisson_replace(1e-4, 5.0), 10, 0.1) == 0.0
    assert gdp_delta(0, 0.01) < 0.1


def test_too_little_noise_for_the_grid_is_refused():
    raises(BudgetError, "noise is too small", pld.solved, poisson_replace(0.5, 1e-4), 10, 1e-6)
