"""Calibration: the budget is never exceeded, exactly, and hardly anything of it is wasted."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from helpers.accounts import opened
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from fastpubpriv import ReplayError
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    Cost,
    FullBatch,
    GaussianEvent,
    LaplaceEvent,
    Ledger,
    Neighbors,
    OnePass,
    Poisson,
    PureDP,
    SampledGaussianEvent,
    StableHistogramEvent,
    WithoutReplacement,
    conversions,
    delta_of,
    epsilon_of,
    noise_multiplier_for,
    pld,
)
from fastpubpriv.privacy import sampling as subsampled
from fastpubpriv.privacy.calibrated_budget import approx_slack, gaussian_rho, laplace_epsilon
from fastpubpriv.privacy.calibration import (
    clip_steps,
    gaussian_count_grid,
    gaussian_gram_grid,
    gaussian_sum_grid,
    laplace_count_grid,
    laplace_gram_grid,
    laplace_sum_grid,
    stable_event,
)
from fastpubpriv.privacy.conversions import gdp_epsilon, pure_to_zcdp, singleton_rate, stable_delta
from fastpubpriv.privacy.ledger import cost_in
from fastpubpriv.release.release import release

# A float stands for its shortest decimal, Fraction(str(amount)).
AMOUNTS = st.floats(min_value=2.0**-20, max_value=2.0**10) | st.fractions(
    Fraction(1, 999), Fraction(100), max_denominator=999
)


def exact_delta(epsilon, rho):
    """delta of the Gaussian mechanism of exactly this rho, in high precision."""
    with mpmath.workdps(400):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        mu = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator)
        root = mpmath.sqrt(2)
        one = mpmath.erfc((e / mu - mu / 2) / root)
        other = mpmath.erfc((e / mu + mu / 2) / root)
        return (one - mpmath.exp(e) * other) / 2


def calibration_misses(calibrate, count, seed):
    """Of random (epsilon, delta, draws): how often delta is exceeded, and how often rho is 2e-6 too small."""
    rng = np.random.default_rng(seed)
    over = loose = 0
    for _ in range(count):
        epsilon = 10 ** rng.uniform(-6, 1.5)
        delta = 10 ** rng.uniform(-14, -1)
        draws = int(10 ** rng.uniform(0, 8))
        budget = ApproxDP(epsilon, delta)
        slack = approx_slack(budget.epsilon, draws)
        # calibrated at a stricter epsilon: test_huge_epsilon looks at those
        if slack > budget.delta / 32:
            continue
        rho = calibrate(budget, draws)
        allowed = budget.delta - slack
        limit = mpmath.mpf(allowed.numerator) / allowed.denominator
        over += exact_delta(budget.epsilon, rho) > limit
        loose += exact_delta(budget.epsilon, rho * Fraction(1 + 2e-6)) <= limit
    return over, loose


@pytest.mark.parametrize("points", [200, pytest.param(10_000, marks=pytest.mark.audit)])
def test_gaussian_calibration_on_many_points(points):
    assert calibration_misses(gaussian_rho, points, 3) == (0, 0)


def test_planted_bug_is_caught():
    def classical(budget, draws):
        epsilon = float(budget.epsilon)
        return Fraction(epsilon**2 / (4 * math.log(2 / float(budget.delta))))

    budget = ApproxDP(10, 1e-5)
    assert exact_delta(budget.epsilon, classical(budget, 1)) > 1.3e-5
    assert exact_delta(budget.epsilon, gaussian_rho(budget, 1)) <= 1e-5
    over, loose = calibration_misses(classical, 200, 5)
    assert over > 0
    assert loose > 0


def test_the_gaussian_amount_of_each_notion():
    assert gaussian_rho(ZCDP(Fraction(1, 3)), 10**9) == Fraction(1, 3)
    raises(BudgetError, "Laplace", gaussian_rho, PureDP(1), 1)
    raises(BudgetError, "delta >=", gaussian_rho, ApproxDP(1, 1e-25), 10**6)
    raises(BudgetError, None, gaussian_rho, ApproxDP(1, 1e-6), -1)


def test_the_laplace_amount_of_each_notion():
    assert laplace_epsilon(PureDP(1), 5) == 1 - Fraction(5, 2**99)
    assert laplace_epsilon(ApproxDP(1, 1e-6), 5) == 1
    raises(BudgetError, None, laplace_epsilon, PureDP(2.0**-30), 2**70)
    raises(BudgetError, None, laplace_epsilon, 1.0, 1)


@pytest.mark.parametrize("rho", [2.0**-60, 1e-6, 0.5, 10, 1e6])
def test_the_laplace_amount_for_rho_is_safe_and_tight(rho):
    epsilon = laplace_epsilon(ZCDP(rho), 1)
    more = epsilon * Fraction(1 + 1e-9)
    assert pure_to_zcdp(epsilon) <= Fraction(str(rho)) < pure_to_zcdp(more)


def test_a_huge_epsilon_is_calibrated_at_a_stricter_one():
    draws = 10**6
    epsilons = (1, 10, 35, 38, 39, 41, 50, 1000)
    rho = {epsilon: gaussian_rho(ApproxDP(epsilon, 1e-6), draws) for epsilon in epsilons}
    amounts = list(rho.values())
    assert amounts == sorted(amounts)
    assert rho[1000] == rho[50]
    for epsilon in (35, 38, 1000):
        strict = Fraction(min(epsilon, 40))
        assert exact_delta(strict, rho[epsilon]) + float(approx_slack(strict, draws)) <= 1e-6


# Where the noise of a draw is cut off, in scales.
GAUSSIAN_CUT = 16
LAPLACE_CUT = 128


def check_sizes(grid, dim, n, cut, power):
    """The sum of n rows, of this power of Q each, and its noise fit 62 bits; most of the radius is left after rounding."""
    q = grid.quant_bound
    assert 8 <= grid.log2_scale <= 40
    assert 8 * math.ceil(math.sqrt(dim)) <= q
    assert dim * q * q <= 2**53
    assert n * q**power + cut * 2**grid.log2_scale < 2**62
    assert 2 * grid.clip_steps >= q - 4 * math.ceil(math.sqrt(dim))
    assert grid.clip_steps + Fraction(math.isqrt(dim - 1) + 1, 2) <= q
    assert grid.step(2.0) == 2.0 / grid.clip_steps


GRIDS = [gaussian_sum_grid, gaussian_gram_grid, laplace_sum_grid, laplace_gram_grid]


def made(make, amount, dim, n):
    """The grid, or None where public sizes rule one out."""
    try:
        return make(amount, dim, n)
    except InputError:
        return None


@settings(max_examples=300, deadline=None)
@given(AMOUNTS, st.integers(1, 2000), st.integers(0, 10**10))
def test_a_gaussian_grid_of_sums_is_the_finest_that_the_budget_allows(amount, dim, n):
    grid = made(gaussian_sum_grid, amount, dim, n)
    if grid is None:
        return
    q = grid.quant_bound
    m = grid.log2_scale
    check_sizes(grid, dim, n, GAUSSIAN_CUT, 1)
    assert q <= 2**26
    assert grid.event == GaussianEvent(4 * q * q, m, dim)
    more = Fraction(4 * (q + 1) ** 2, 2 * 4**m)
    assert grid.event.rho <= Fraction(str(amount)) < more
    finer = math.isqrt(math.floor(Fraction(str(amount)) * 4 ** (m + 1) / 2))
    finest = m == 40
    no_room = n * finer + GAUSSIAN_CUT * 2 ** (m + 1) >= 2**62
    assert finest or no_room or finer > 2**26 or dim * finer**2 > 2**53


@settings(max_examples=300, deadline=None)
@given(AMOUNTS, st.integers(1, 2000), st.integers(0, 10**10))
def test_a_gaussian_grid_of_grams_spends_the_budget(amount, dim, n):
    grid = made(gaussian_gram_grid, amount, dim, n)
    if grid is None:
        return
    q = grid.quant_bound
    m = grid.log2_scale
    check_sizes(grid, dim, n, GAUSSIAN_CUT, 2)
    assert q <= 2896
    assert grid.event == GaussianEvent(2 * q**4, m, dim * dim)
    more = Fraction(2 * (q + 1) ** 4, 2 * 4**m)
    assert grid.event.rho <= Fraction(str(amount)) < more


@settings(max_examples=300, deadline=None)
@given(AMOUNTS, st.integers(1, 2000), st.integers(0, 10**10))
def test_a_laplace_grid_of_sums_spends_the_budget(amount, dim, n):
    def sensitivity(q):
        return math.isqrt(4 * dim * q * q)

    grid = made(laplace_sum_grid, amount, dim, n)
    if grid is None:
        return
    q = grid.quant_bound
    m = grid.log2_scale
    check_sizes(grid, dim, n, LAPLACE_CUT, 1)
    assert q <= 2**26
    assert grid.event == LaplaceEvent(sensitivity(q), m, dim)
    more = Fraction(sensitivity(q + 1), 2**m)
    assert grid.event.epsilon <= Fraction(str(amount)) < more


@settings(max_examples=300, deadline=None)
@given(AMOUNTS, st.integers(1, 2000), st.integers(0, 10**10))
def test_a_laplace_grid_of_grams_spends_the_budget(amount, dim, n):
    def sensitivity(q):
        return math.isqrt(dim * (dim + 3) // 2 * q**4)

    grid = made(laplace_gram_grid, amount, dim, n)
    if grid is None:
        return
    q = grid.quant_bound
    m = grid.log2_scale
    check_sizes(grid, dim, n, LAPLACE_CUT, 2)
    assert q <= 2**26
    assert grid.event == LaplaceEvent(sensitivity(q), m, dim * (dim + 1) // 2)
    more = Fraction(sensitivity(q + 1), 2**m)
    assert grid.event.epsilon <= Fraction(str(amount)) < more


def random_neighbors(count, largest):
    """Pairs of opposite or orthogonal rows of this norm, of whole numbers, which move a sum or Gram matrix most."""
    rng = np.random.default_rng(6)
    for _ in range(count):
        u, v = rng.standard_normal((2, 3))
        if rng.random() < 0.5:
            v = -u
        else:
            v = v - u * (u @ v) / (u @ u)
        before = np.trunc(u / np.linalg.norm(u) * largest).astype(int)
        after = np.trunc(v / np.linalg.norm(v) * largest).astype(int)
        yield before.astype(object), after.astype(object)


def test_the_laplace_sensitivity_of_sums_against_random_neighbors():
    grid = laplace_sum_grid(1, 3, 100)
    largest = 0
    for before, after in random_neighbors(3000, grid.quant_bound):
        largest = max(largest, np.abs(before - after).sum())
    assert 0.95 * grid.event.l1_sensitivity < largest <= grid.event.l1_sensitivity


def test_the_laplace_sensitivity_of_grams_against_random_neighbors():
    grid = laplace_gram_grid(1, 3, 100)
    upper_triangle = np.triu_indices(3)
    largest = 0
    for before, after in random_neighbors(3000, grid.quant_bound):
        change = np.outer(before, before) - np.outer(after, after)
        largest = max(largest, np.abs(change[upper_triangle]).sum())
    assert 0.8 * grid.event.l1_sensitivity < largest <= grid.event.l1_sensitivity


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, st.integers(1, 10**6), st.integers(0, 2**35))
def test_a_gaussian_grid_of_counts_spends_the_budget(amount, cells, n):
    grid = gaussian_count_grid(amount, cells, n)
    s = grid.quant_bound
    m = grid.log2_scale
    assert grid.event == GaussianEvent(2 * s * s, m, cells)
    assert grid.event.rho <= Fraction(str(amount)) < Fraction((s + 1) ** 2, 4**m)
    assert n * s + GAUSSIAN_CUT * 2**m < 2**62


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, st.integers(1, 10**6), st.integers(0, 2**35))
def test_a_laplace_grid_of_counts_spends_the_budget(amount, cells, n):
    grid = laplace_count_grid(amount, cells, n)
    s = grid.quant_bound
    m = grid.log2_scale
    assert grid.event == LaplaceEvent(2 * s, m, cells)
    assert grid.event.epsilon <= Fraction(str(amount)) < Fraction(2 * (s + 1), 2**m)
    assert n * s + LAPLACE_CUT * 2**m < 2**62


@pytest.mark.parametrize(
    "arguments",
    [
        (0.5, 0, 10),
        (0.5, 1.0, 10),
        (0.5, True, 10),
        (0.5, 3, -1),
        (0, 3, 10),
        (-1, 3, 10),
        (float("nan"), 3, 1),
        ("1", 3, 1),
    ],
)
@pytest.mark.parametrize("make", GRIDS)
def test_bad_arguments(make, arguments):
    raises(BudgetError, None, make, *arguments)


def test_impossible_sizes():
    raises(InputError, r"10000000 columns, 5 rows.*at least", gaussian_gram_grid, 0.5, 10**7, 5)
    raises(InputError, "overflows", gaussian_sum_grid, 1e6, 10, 10**18)
    raises(InputError, "at least", laplace_sum_grid, 2.0**-30, 1000, 10)


def test_clip_steps_leave_room_for_rounding_half_a_step_up_in_each_column():
    for dim in [*range(1, 200), 10**6, 10**6 + 1]:
        half = math.ceil(math.sqrt(dim) / 2)
        assert clip_steps(10**4, dim) == 10**4 - half - 1
    raises(InputError, "no room", clip_steps, 3, 16)


@pytest.mark.parametrize("radius", [0, -1.0, math.inf, math.nan])
def test_a_step_of_what_is_no_radius_is_refused(radius):
    raises(InputError, "radius", laplace_sum_grid(1, 4, 100).step, radius)


# ---- Sampling schemes, the cost of a run and the noise for a budget, and the event of one step of it ----------------
ADD_REMOVE = Neighbors.ADD_REMOVE_ONE
RUNS = [
    (ApproxDP(2, 1e-5), Poisson(Fraction(1, 54)), 5000, Neighbors.REPLACE_ONE),
    (ApproxDP(4, 1e-5), Poisson(Fraction(1, 3)), 5000, Neighbors.REPLACE_ONE),
    (ApproxDP(2, 1e-5), Poisson(Fraction(1, 54)), 5000, ADD_REMOVE),
    (ApproxDP(1, 1e-6), WithoutReplacement(100, 10_000), 1000, Neighbors.REPLACE_ONE),
    (ApproxDP(0.1, 1e-8), Poisson(0.01), 100, Neighbors.REPLACE_ONE),
    (ApproxDP(100, 1e-6), Poisson(0.1), 10, Neighbors.REPLACE_ONE),
    (ApproxDP(50, 1e-10), WithoutReplacement(1, 2), 3, Neighbors.REPLACE_ONE),
    (ApproxDP(8, 1e-6), Poisson(Fraction(1, 10_000)), 10**5, Neighbors.REPLACE_ONE),
    (ApproxDP(100, 1e-6), Poisson(Fraction(1, 2)), 10**6, Neighbors.REPLACE_ONE),
]


@pytest.mark.parametrize(("budget", "sampling", "steps", "relation"), RUNS)
def test_noise_for_a_budget_is_safe_and_tight(budget, sampling, steps, relation, monkeypatch):
    fineness_of_calls = []
    honest = subsampled.pld.solved

    def noted(*arguments, fineness=1.0):
        fineness_of_calls.append(fineness)
        return honest(*arguments, fineness=fineness)

    monkeypatch.setattr(subsampled.pld, "solved", noted)
    pairs = len(sampling.pairs(1.0, relation))
    z = noise_multiplier_for(budget, sampling, steps, relation)
    # the number of compositions is what a calibration costs
    assert fineness_of_calls.count(1.0) <= 3 * pairs
    assert fineness_of_calls.count(0.25) <= 8 * pairs
    assert epsilon_of(z, sampling, steps, budget.delta, relation) <= budget.epsilon
    assert epsilon_of(z * (1 - 3e-5), sampling, steps, budget.delta, relation) > budget.epsilon
    delta = delta_of(z, sampling, steps, budget.epsilon, relation)
    assert 0.97 * budget.delta <= delta <= 1.005 * budget.delta


def test_known_multipliers():
    budget = ApproxDP(2, 1e-5)
    sampling = Poisson(Fraction(1, 54))
    # dp-accounting: 5.2229 at its grid
    assert noise_multiplier_for(budget, sampling, 5000) == pytest.approx(5.2229, rel=1e-3)
    add_remove = noise_multiplier_for(budget, sampling, 5000, ADD_REMOVE)
    assert add_remove == pytest.approx(2.726, abs=5e-4)


def test_sampling_buys_computation_only():
    """Noise on the mean is 2 sqrt(T) / mu at these rates, as of full batches."""
    budget = ApproxDP(2, 1e-5)
    full = noise_multiplier_for(budget, FullBatch(), 5000)
    sampled = noise_multiplier_for(budget, Poisson(Fraction(1, 54)), 5000)
    assert sampled == pytest.approx(full / 54, rel=2e-3)


def test_more_noise_fewer_steps_and_a_smaller_rate_cost_less():
    def epsilon(z, q, steps):
        return epsilon_of(z, Poisson(q), steps, 1e-6)

    here = epsilon(2.0, 0.02, 500)
    assert epsilon(2.1, 0.02, 500) < here < epsilon(2.0, 0.021, 500)
    assert epsilon(2.0, 0.02, 400) < here < epsilon_of(2.0, FullBatch(), 500, 1e-6)


def test_runs_without_sampling_have_the_epsilon_of_one_gaussian_release():
    full = epsilon_of(100, FullBatch(), 1000, 1e-5)
    assert full == pytest.approx(gdp_epsilon(1e-5, 0.4**0.5), rel=1e-14)  # mu = 2 sqrt(1000) / 100
    assert epsilon_of(4, OnePass(), 10**6, 1e-5) == gdp_epsilon(1e-5, 0.5)
    assert epsilon_of(4, OnePass(), 7, 1e-5, ADD_REMOVE) == gdp_epsilon(1e-5, 0.25)


@pytest.mark.parametrize("whole", [Poisson(1), WithoutReplacement(9, 9)], ids=repr)
def test_a_sample_of_all_rows_is_a_full_batch(whole):
    assert epsilon_of(5, whole, 17, 1e-6) == epsilon_of(5, FullBatch(), 17, 1e-6)
    assert noise_multiplier_for(ZCDP(0.5), whole, 25) == 10.0


def test_multipliers_of_runs_without_sampling():
    assert noise_multiplier_for(ZCDP(0.5), OnePass(), 25) == 2.0
    z = noise_multiplier_for(ApproxDP(1, 1e-6), FullBatch(), 12)
    assert epsilon_of(z, FullBatch(), 12, 1e-6) <= 1
    assert delta_of(z, FullBatch(), 12, 1) <= 1e-6


def test_a_planted_fault_of_the_relation_is_seen():
    """The library's own relation must cost about twice what the tables' relation says."""
    sampling = Poisson(Fraction(1, 54))
    z = noise_multiplier_for(ApproxDP(2, 1e-5), sampling, 5000, ADD_REMOVE)
    assert epsilon_of(z, sampling, 5000, 1e-5) > 4


TENTH = Poisson(0.1)
ONE = ApproxDP(1, 1e-6)


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("needs a budget ApproxDP", (PureDP(1), TENTH, 5)),
        ("no useful cost in rho", (ZCDP(1), TENTH, 5)),
        ("sampling must be FullBatch", (ONE, "poisson", 5)),
        ("steps", (ONE, TENTH, 0)),
        ("steps must be at most", (ONE, TENTH, 10**9)),
        ("relation", (ONE, TENTH, 5, "replace")),
        ("replace-one only", (ONE, WithoutReplacement(1, 9), 5, ADD_REMOVE)),
    ],
)
def test_noise_that_is_refused(words, arguments):
    raises(BudgetError, words, noise_multiplier_for, *arguments)


def test_an_epsilon_that_is_refused():
    raises(BudgetError, "between 0.01 and 1e9", epsilon_of, 0.001, TENTH, 5, 1e-6)
    raises(BudgetError, "delta", epsilon_of, 1.0, TENTH, 5, 0.0)


def test_sampling_that_is_refused():
    raises(BudgetError, "rate must lie", Poisson, 0)
    raises(BudgetError, "rate must lie", Poisson, 1.5)
    raises(BudgetError, "cannot be drawn", WithoutReplacement, 10, 9)


def test_an_event_of_a_step_that_is_refused():
    raises(BudgetError, "steps", event, steps=0)
    raises(BudgetError, "delta", event, delta=1)
    raises(BudgetError, "GaussianEvent", event, sampling=FullBatch())
    raises(BudgetError, "first", event, first=1)


def event(**changes):
    fields = {
        "sampling": Poisson(Fraction(1, 20)),
        "squared_sensitivity": 4 * 128**2,
        "log2_scale": 9,
        "draws": 2,
        "steps": 30,
        "delta": Fraction(1, 10**6),
    }
    return SampledGaussianEvent(**(fields | changes))


def test_the_event_answers_for_the_whole_run_once():
    step = event()
    assert step.noise_multiplier == pytest.approx(4.0, rel=1e-15)
    assert step.noise_multiplier <= 4.0
    assert float(step.epsilon) == epsilon_of(step.noise_multiplier, step.sampling, 30, step.delta)
    assert step.cost == Cost(ApproxDP, (step.epsilon, step.delta))
    assert step.later.cost.is_zero
    assert step.record()["sampling_rate"] == Fraction(1, 20)
    assert cost_in(ApproxDP, step) == step.cost
    assert not step.gdp
    ledger = Ledger(ApproxDP(2, 1e-5))
    ledger.debit(step, name="run")
    assert ledger.spent == step.cost
    for notion in (ZCDP, PureDP):
        raises(BudgetError, "pass ApproxDP", step.price, notion)


def test_under_add_remove_the_event_has_the_same_noise_over_half_the_sensitivity():
    step = event(relation=ADD_REMOVE, squared_sensitivity=128**2)
    assert step.noise_multiplier == pytest.approx(4.0, rel=1e-15)


def test_the_event_is_charged_for_the_whole_run():
    def query():
        return np.array([5, 7], dtype=np.int64)

    account = opened(ApproxDP(2, 1e-5), draws=100)
    for step in (event(), *[event().later] * 29):
        answer = release(account, name="step", query=query, shape=(2,), event=step, unit=1.0)
    assert answer.shape == (2,)
    epsilon, delta = account.approx_left
    assert epsilon <= 2 - event().epsilon
    assert delta <= account.budget.delta - event().delta
    raises(BudgetError, "exceed", account.charge, event(log2_scale=8, steps=3000))


def test_the_event_checks_its_promise():
    step = event()
    zeros = np.zeros(2, dtype=int)
    allowed = np.array([256, 0])
    too_far = np.array([256, 1])
    assert step.pair_cost(zeros, allowed, ApproxDP) == step.epsilon
    assert step.later.pair_cost(zeros, zeros, ApproxDP) == 0
    raises(ReplayError, "moved by", step.pair_cost, zeros, too_far, ApproxDP)


# ---- Closed-form profiles of one sampled step: against forty digits, against quadrature, and never below the truth.
POINTS = [
    (epsilon, q, z)
    for epsilon in (0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0, 29.0, 31.0, 80.0)
    for q in (1e-9, 1e-4, 1 / 54, 0.5, 0.999)
    for z in (0.1, 0.5, 2.5, 40.0)
]


def exact(kind, epsilon, q, z):
    """The profile in high precision, from the threshold where the loss is epsilon."""
    with mpmath.workdps(80 + int(2 * epsilon)):
        e = mpmath.mpf(epsilon)
        q = mpmath.mpf(q)
        z = mpmath.mpf(z)
        grown = mpmath.exp(e)

        def upper(x):
            return mpmath.erfc(x / (z * mpmath.sqrt(2))) / 2

        def sampled(x, mean):
            return (1 - q) * upper(x) + q * upper(x - mean)

        if kind == "replace":
            loss = (1 - q) / q * mpmath.exp(1 / (2 * z**2)) * mpmath.sinh(e / 2)
            x = z**2 * (e / 2 + mpmath.asinh(loss))
            return sampled(x, 1) - grown * sampled(x, -1)
        s = 2 if kind == "fixed size" else 1
        if kind in ("remove", "fixed size"):
            x = z**2 / s * mpmath.log(1 + (grown - 1) / q) + mpmath.mpf(s) / 2
            return sampled(x, s) - grown * upper(x)
        ratio = 1 + (1 / grown - 1) / q
        if ratio <= 0:
            return mpmath.mpf(0)
        x = z**2 / s * mpmath.log(ratio) + mpmath.mpf(s) / 2
        return upper(-x) - grown * sampled(-x, -s)


PROFILES = {
    "replace": lambda q, z: pld.poisson_replace(q, z).above,
    "remove": lambda q, z: pld.poisson_remove(q, z).above,
    "add": lambda q, z: pld.poisson_remove(q, z).below,
    "fixed size": lambda q, z: pld.fixed_size_replace(q, z).below,
}


def profile(kind, epsilon, q, z):
    """The library's bound on delta of one sampled step."""
    deltas = PROFILES[kind](q, z)(np.array([epsilon]))
    return float(deltas[0])


@pytest.mark.parametrize("kind", PROFILES)
def test_never_below_the_truth_and_close_to_it(kind):
    for epsilon, q, z in POINTS:
        ours = profile(kind, epsilon, q, z)
        truth = exact(kind, epsilon, q, z)
        # Values below 1e-300 underflow to an exact zero; they are far below any delta.
        assert mpmath.mpf(ours) >= truth - mpmath.mpf("1e-300"), (epsilon, q, z)
        if truth > 1e-30:
            # Subtracting terms of size q leaves an absolute error of a few hundred rounding errors of them.
            assert ours - float(truth) <= 1e-9 * float(truth) + 1e-12 * q, (epsilon, q, z)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("replace", 1.0, -1.0),
        ("remove", 1.0, 0.0),
        ("fixed size", 2.0, 0.0),
        ("add", 0.0, 1.0),
    ],
)
@pytest.mark.parametrize(
    ("epsilon", "q", "z"), [(0.05, 0.1, 1.0), (0.5, 0.3, 0.7), (0.01, 0.02, 2.0)]
)
def test_against_direct_quadrature(kind, one, other, epsilon, q, z):
    def density(x, mean):
        return (1 - q) * norm.pdf(x, 0, z) + q * norm.pdf(x, mean, z)

    def gap(x):
        return max(density(x, one) - math.exp(epsilon) * density(x, other), 0.0)

    width = 0.25 * z
    pieces = [quad(gap, k * width, (k + 1) * width, epsabs=1e-15)[0] for k in range(-40, 40)]
    ours = profile(kind, epsilon, q, z)
    assert ours == pytest.approx(sum(pieces), rel=1e-8, abs=1e-13)


def test_planted_fault_a_profile_without_its_rounding_bound_is_caught(monkeypatch):
    def rounded_to_nearest(gain, cost, epsilon, far):
        return np.clip(gain - cost, 0.0, 1.0)

    monkeypatch.setattr(pld, "_rounded_up", rounded_to_nearest)
    below = 0
    for epsilon, q, z in POINTS:
        ours = profile("replace", epsilon, q, z)
        below += mpmath.mpf(ours) < exact("replace", epsilon, q, z)
    assert below > 10


# ---- Stable histograms: the stated delta against the exact output laws of tiny data sets, and calibration against known numbers.
SCALE = 8
STEPS = 2**SCALE
# To how many digits losses are told apart: Laplace losses are few, Gaussian ones are all different.
DIGITS = {"laplace": 9, "gaussian": 2}


def law(kind, count, step, threshold, end, scale):
    """Exact law of one bin: nothing first, then each integer from the threshold on; what lies beyond the end is lumped there."""
    if count == 0:
        return np.concatenate([[1.0], np.zeros(end - threshold)])
    values = np.arange(threshold, end) - step * count
    if kind == "laplace":
        a = math.exp(-1.0 / scale)
        point = (1.0 - a) / (1.0 + a) * np.exp(-np.abs(values) / scale)
        first = values[0]
        if first > 0:
            below = 1.0 - math.exp(-first / scale) / (1 + a)
        else:
            below = math.exp((first - 1) / scale) / (1 + a)
        point[-1] = math.exp(-values[-1] / scale) / (1 + a)
    else:
        lower = values / scale
        upper = (values + 1) / scale
        point = np.where(lower > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
        below = ndtr(values[0] / scale)
        point[-1] = ndtr(-values[-1] / scale)
    return np.concatenate([[below], point])


# Scales of noise beyond which a law is lumped: e^-42 and the normal tail at 9 are below 1e-18.
LUMPED = {"laplace": 42, "gaussian": 9}


def bin_pair(kind, before, after, step, threshold, scale=float(STEPS)):
    """Laws of one bin that holds `before` and `after` counts."""
    largest = max(threshold, step * max(before, after))
    end = largest + math.ceil(LUMPED[kind] * scale)
    law_before = law(kind, before, step, threshold, end, scale)
    law_after = law(kind, after, step, threshold, end, scale)
    return merge(law_before, law_after, DIGITS[kind])


def merge(p, q, digits=9):
    """Group outputs by the logarithm of p / q, rounded: a post-processing, so the divergence can only fall, and next to nothing."""
    keep = (p > 0) | (q > 0)
    p = p[keep]
    q = q[keep]
    with np.errstate(divide="ignore"):
        loss = np.round(np.log(p) - np.log(q), digits)
    _, where = np.unique(loss, return_inverse=True)
    return np.bincount(where, weights=p), np.bincount(where, weights=q)


def joint(pairs, digits=9):
    """The law of independent bins together."""
    p = np.ones(1)
    q = np.ones(1)
    for one, other in pairs:
        p, q = merge(np.outer(p, one).ravel(), np.outer(q, other).ravel(), digits)
    return p, q


def divergence(pair, epsilon):
    p, q = pair
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def test_known_value_of_the_untranslated_mechanism():
    """epsilon_0 = 1/2, threshold 8 counts, noise on the counts themselves: delta_0 = 0.0187966, and no pair is worse."""
    delta = math.exp(-0.5 * 7) / (1 + math.exp(-0.5))
    assert round(delta, 7) == 0.0187966

    def divergence_of(first_bin, second_bin):
        """At epsilon = 1; a bin is (count before, count after)."""
        first = bin_pair("laplace", *first_bin, 1, 8, 2.0)
        second = bin_pair("laplace", *second_bin, 1, 8, 2.0)
        return divergence(joint([first, second]), 1.0)

    assert divergence_of((1, 0), (5, 6)) == pytest.approx(delta, rel=1e-9)
    assert divergence_of((1, 0), (0, 1)) == pytest.approx(delta, rel=1e-9)
    assert divergence_of((3, 2), (0, 1)) < 1e-9
    assert divergence_of((30, 29), (20, 21)) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(("delta", "count"), [(1e-6, 28), (1e-8, 37)])
def test_the_threshold_of_laplace_noise_is_a_known_number(delta, count):
    event = stable_event(1, delta, histograms=1, n=10**6, draws=1, law="laplace")
    assert math.ceil(event.count_threshold) == count


@pytest.mark.parametrize(
    ("m", "std", "threshold"), [(1, 5.975, 29.40), (5, 13.360, 68.73), (20, 26.719, 143.34)]
)
def test_the_threshold_of_gaussian_noise_is_a_known_number(m, std, threshold):
    event = stable_event(1, 1e-6, histograms=m, n=10**6, draws=1, law="gaussian")
    assert event.count_noise_std == pytest.approx(std, rel=2e-4)
    assert event.count_threshold == pytest.approx(threshold, rel=2e-4)


def test_the_law_with_the_lower_threshold_is_chosen():
    assert stable_event(1, 1e-6, histograms=1, n=10**6, draws=1).law == "laplace"
    assert stable_event(1, 1e-6, histograms=5, n=10**6, draws=1).law == "gaussian"


def test_laplace_noise_of_five_histograms_is_a_known_number():
    """Basic composition of five at epsilon / 5: the Gaussian halves the threshold."""
    basic = stable_event(1, 1e-6, histograms=5, n=10**6, draws=1, law="laplace")
    assert basic.count_noise_std == pytest.approx(14.1, rel=5e-3)
    assert basic.count_threshold == pytest.approx(148.2, rel=2e-3)


EVENTS = [
    ("laplace", 1, 128, 8 * 128, 1.0),
    ("laplace", 1, 128, 3 * 128 + 17, 1.0),
    ("laplace", 1, 300, 900, 2 * 300 / STEPS),
    # -log(1 - delta_0) exceeds epsilon_0
    ("laplace", 1, 128, 8 * 128, 1.7),
    ("laplace", 1, 128, 129, 1.0),
    ("laplace", 1, 200, 1000, 0.9),  # epsilon does not cover two moved counts
    ("laplace", 2, 64, 640, 1.0),
    ("laplace", 2, 100, 700, 1.0),
    ("gaussian", 1, 128, 700, 1.0),
    ("gaussian", 1, 400, 1000, 1.0),
    ("gaussian", 2, 90, 900, 1.0),
]


def neighbors(bins, rows):
    """All pairs of count vectors of `rows` rows in `bins` bins or none that differ in one row."""
    for where in itertools.combinations_with_replacement(range(bins + 1), rows):
        counts = [where.count(b) for b in range(bins)]
        # The last place stands for no bin.
        for old, new in itertools.permutations(range(bins + 1), 2):
            if old not in where:
                continue
            moved = [*counts, 0]
            moved[old] -= 1
            moved[new] += 1
            yield counts, moved[:bins]


def worst_case(kind, m, step, threshold, epsilon, rows=4):
    """Largest divergence over data sets of at most `rows` rows and large counts; m histograms that see the same kind of move."""
    changes = set()
    for n in range(1, rows + 1):
        for before, after in neighbors(3, n):
            bins = zip(before, after, strict=True)
            changes.add(tuple(sorted((a, b) for a, b in bins if a != b)))
    big = -(-threshold // step) + 12 * STEPS // step + 2
    changes.add(((big, big - 1), (big, big + 1)))
    laws = {}
    for change in changes:
        bins = [bin_pair(kind, *counts, step, threshold) for counts in change]
        laws[change] = joint(bins, DIGITS[kind])
    largest = 0.0
    for chosen in itertools.combinations_with_replacement(sorted(changes), m):
        together = joint([laws[change] for change in chosen], DIGITS[kind])
        largest = max(largest, divergence(together, epsilon))
    return largest


@pytest.mark.parametrize(("kind", "m", "step", "threshold", "epsilon"), EVENTS)
def test_delta_covers_every_pair_and_is_reached(kind, m, step, threshold, epsilon):
    rows = 4 if kind == "laplace" and m == 1 else 2
    exact = worst_case(kind, m, step, threshold, epsilon, rows)
    claim = stable_delta(kind, m, step, threshold, SCALE, Fraction(epsilon))
    assert exact <= claim * (1 + 1e-9)
    covered = Fraction(2 * m * step, STEPS) <= Fraction(epsilon)
    rate = singleton_rate(kind, threshold - step, SCALE)
    if kind == "gaussian":
        assert exact >= 0.998 * claim
    elif covered and rate < 1 - math.exp(-step / STEPS):
        assert exact >= 0.9999 * claim
    # A mechanism that compares with `>` in place of `>=`, the other way round: one grid step too low is over the claim.
    if kind == "laplace" and covered and m == 1:
        assert worst_case(kind, m, step, threshold - 1, epsilon) > claim * (1 + 1e-4)


def test_the_check_catches_a_threshold_that_ignores_the_step():
    """SAFETY T5: a^(T - 1) / (1 + a) in place of a^(T - k) / (1 + a)."""
    step = 128
    threshold = 8 * 128
    wrong = math.exp(-(threshold - 1) / STEPS) / (1 + math.exp(-1 / STEPS))
    assert worst_case("laplace", 1, step, threshold, 1.0) > 1.5 * wrong


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.01, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("delta", [1e-20, 1e-9, 1e-3, 0.4])
@pytest.mark.parametrize("m", [1, 2, 7, 130])
def test_calibration_keeps_its_budget_and_wastes_little(epsilon, delta, m):
    event = stable_event(epsilon, delta, histograms=m, n=10**6, draws=10)
    assert event.delta <= Fraction(str(delta))
    lower = event.threshold - max(1, event.threshold // 1000)
    exceeded = stable_delta(event.law, m, event.step, lower, event.log2_scale, event.epsilon)
    if lower > event.step:
        assert Fraction(exceeded) > Fraction(delta)
    assert event.step * 10**6 + 128 * 2**event.log2_scale < 2**62
    assert event.cost.amounts == (Fraction(str(epsilon)), event.delta)


def test_blocks_of_cases_are_an_upper_bound(monkeypatch):
    def deltas():
        uncached = stable_delta.__wrapped__
        epsilons = (Fraction(0.1), Fraction(1), Fraction(4))
        return np.array([uncached("gaussian", 40, 80, 80 + 791, 8, e) for e in epsilons])

    fine = deltas()
    monkeypatch.setattr(conversions, "_WHOLE_GRID", 8)
    rough = deltas()
    assert (fine <= rough).all()
    assert (rough <= 2.5 * fine).all()


def test_more_rows_take_a_coarser_grid():
    assert stable_event(1, 1e-6, histograms=1, n=100, draws=1).log2_scale == 40
    event = stable_event(1, 1e-6, histograms=1, n=2**40, draws=1)
    assert event.log2_scale < 24
    assert event.count_threshold == pytest.approx(27.245, rel=1e-3)


@pytest.mark.parametrize(
    ("error", "words", "change"),
    [
        (BudgetError, "epsilon > 0", {"epsilon": 0}),
        (BudgetError, "delta in", {"delta": 0}),
        (InputError, "histograms can be released", {"histograms": 2**21}),
        (InputError, "no stable histogram", {"n": 2**62}),
        (InputError, "noise must be", {"law": "cauchy"}),
    ],
)
def test_stable_histograms_that_are_refused(error, words, change):
    good = {"epsilon": 1, "delta": 1e-6, "histograms": 1, "n": 10, "draws": 1}
    raises(error, words, stable_event, **good | change)


@pytest.mark.parametrize(
    "change",
    [
        {"law": "x"},
        {"histograms": 0},
        {"step": 0},
        {"threshold": 5},
        {"log2_scale": 7},
        {"log2_scale": 41},
        {"epsilon": 0},
        {"draws": -1},
        {"relation": Neighbors.ADD_REMOVE_ONE},
    ],
    ids=str,
)
def test_events_of_stable_histograms_that_are_refused(change):
    good = {
        "law": "laplace",
        "histograms": 1,
        "step": 5,
        "threshold": 6,
        "log2_scale": 8,
        "epsilon": 1,
        "draws": 0,
    }
    assert StableHistogramEvent(**good).threshold == 6
    raises(BudgetError, None, StableHistogramEvent, **good | change)
