"""Calibration: the budget is never exceeded, exactly, and hardly anything of it is wasted."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from helpers.accounts import opened
from helpers.errors import raises
from helpers.refusals import Refusals
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
        m = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator)
        root = mpmath.sqrt(2)
        return (
            mpmath.erfc((e / m - m / 2) / root)
            - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root)
        ) / 2


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
        return Fraction(float(budget.epsilon) ** 2 / (4 * math.log(2 / float(budget.delta))))

    budget = ApproxDP(10, 1e-5)
    assert exact_delta(budget.epsilon, classical(budget, 1)) > 1.3e-5
    assert exact_delta(budget.epsilon, gaussian_rho(budget, 1)) <= 1e-5
    over, loose = calibration_misses(classical, 200, 5)
    assert over > 0
    assert loose > 0


def test_noise_by_notion_and_for_a_huge_epsilon():
    assert gaussian_rho(ZCDP(Fraction(1, 3)), 10**9) == Fraction(1, 3)
    raises(BudgetError, "Laplace", gaussian_rho, PureDP(1), 1)
    raises(BudgetError, "delta >=", gaussian_rho, ApproxDP(1, 1e-25), 10**6)
    raises(BudgetError, None, gaussian_rho, ApproxDP(1, 1e-6), -1)
    assert laplace_epsilon(PureDP(1), 5) == 1 - Fraction(5, 2**99)
    assert laplace_epsilon(ApproxDP(1, 1e-6), 5) == 1
    for rho in (2.0**-60, 1e-6, 0.5, 10, 1e6):
        epsilon = laplace_epsilon(ZCDP(rho), 1)
        assert (
            pure_to_zcdp(epsilon) <= Fraction(str(rho)) < pure_to_zcdp(epsilon * Fraction(1 + 1e-9))
        )
    raises(BudgetError, None, laplace_epsilon, PureDP(2.0**-30), 2**70)
    raises(BudgetError, None, laplace_epsilon, 1.0, 1)
    # Huge epsilon is calibrated at a stricter one.
    values = [gaussian_rho(ApproxDP(e, 1e-6), 10**6) for e in (1, 10, 35, 38, 39, 41, 50, 1000)]
    assert values == sorted(values)
    assert values[-1] == values[-2]
    for epsilon, rho in zip((35, 38, 1000), (values[2], values[3], values[7]), strict=True):
        strict = min(Fraction(epsilon), Fraction(40))
        assert exact_delta(strict, rho) + float(approx_slack(strict, 10**6)) <= 1e-6


def common(grid, dim, n, cut, power):
    q = grid.quant_bound
    assert 8 <= grid.log2_scale <= 40
    assert 8 * math.ceil(math.sqrt(dim)) <= q
    assert dim * q * q <= 2**53
    assert n * q**power + cut * 2**grid.log2_scale < 2**62
    # at least most of the radius is left
    assert 2 * grid.clip_steps >= q - 4 * math.ceil(math.sqrt(dim))
    assert grid.clip_steps + Fraction(math.isqrt(dim - 1) + 1, 2) <= q
    assert grid.step(2.0) == 2.0 / grid.clip_steps


# Entries of a row, the sensitivity that is taken for (dim, Q), squared for Gaussian noise, draws, and the largest Q.
GRIDS = {
    gaussian_sum_grid: (1, lambda dim, q: 4 * q * q, lambda dim: dim, 2**26),
    gaussian_gram_grid: (2, lambda dim, q: 2 * q**4, lambda dim: dim * dim, 2896),
    laplace_sum_grid: (1, lambda dim, q: math.isqrt(4 * dim * q * q), lambda dim: dim, 2**26),
    laplace_gram_grid: (
        2,
        lambda dim, q: math.isqrt(dim * (dim + 3) // 2 * q**4),
        lambda dim: dim * (dim + 1) // 2,
        2**26,
    ),
}


@pytest.mark.parametrize("make", GRIDS)
@settings(max_examples=300, deadline=None)
@given(AMOUNTS, st.integers(1, 2000), st.integers(0, 10**10))
def test_grids_of_sums_and_grams(make, amount, dim, n):
    gaussian = make in (gaussian_sum_grid, gaussian_gram_grid)
    power, sensitivity, draws, most = GRIDS[make]
    try:
        grid = make(amount, dim, n)
    except InputError:  # public sizes rule one out
        return
    q = grid.quant_bound
    m = grid.log2_scale
    common(grid, dim, n, 16 if gaussian else 128, power)
    assert q <= most
    event = GaussianEvent if gaussian else LaplaceEvent
    price = (
        (lambda bound: Fraction(bound, 2 * 4**m))
        if gaussian
        else (lambda bound: Fraction(bound, 2**m))
    )
    assert grid.event == event(sensitivity(dim, q), m, draws(dim))
    assert price(sensitivity(dim, q)) <= Fraction(str(amount)) < price(sensitivity(dim, q + 1))
    if make is gaussian_sum_grid:
        finer = math.isqrt(math.floor(Fraction(str(amount)) * 4 ** (m + 1) / 2))
        assert (
            m == 40
            or finer > 2**26
            or dim * finer**2 > 2**53
            or n * finer + 16 * 2 ** (m + 1) >= 2**62
        )


def test_laplace_sensitivities_against_random_neighbors():
    rng = np.random.default_rng(6)
    sums = laplace_sum_grid(1, 3, 100)
    grams = laplace_gram_grid(1, 3, 100)
    top_sum = top_gram = 0
    for _ in range(3000):
        u, v = rng.standard_normal((2, 3))
        v = -u if rng.random() < 0.5 else v - u * (u @ v) / (u @ u)
        for grid in (sums, grams):
            a = [int(t) for t in u / np.linalg.norm(u) * grid.quant_bound]
            b = [int(t) for t in v / np.linalg.norm(v) * grid.quant_bound]
            if grid is sums:
                top_sum = max(top_sum, sum(abs(s - t) for s, t in zip(a, b, strict=True)))
            else:
                moved = sum(abs(a[i] * a[j] - b[i] * b[j]) for i in range(3) for j in range(i, 3))
                top_gram = max(top_gram, moved)
    assert 0.95 * sums.event.l1_sensitivity < top_sum <= sums.event.l1_sensitivity
    assert 0.8 * grams.event.l1_sensitivity < top_gram <= grams.event.l1_sensitivity


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, st.integers(1, 10**6), st.integers(0, 2**35))
def test_count_grids(amount, cells, n):
    gaussian = gaussian_count_grid(amount, cells, n)
    laplace = laplace_count_grid(amount, cells, n)
    s = gaussian.quant_bound
    m = gaussian.log2_scale
    assert gaussian.event == GaussianEvent(2 * s * s, m, cells)
    assert gaussian.event.rho <= Fraction(str(amount)) < Fraction((s + 1) ** 2, 4**m)
    s = laplace.quant_bound
    m = laplace.log2_scale
    assert laplace.event == LaplaceEvent(2 * s, m, cells)
    assert laplace.event.epsilon <= Fraction(str(amount)) < Fraction(2 * (s + 1), 2**m)
    for grid, cut in ((gaussian, 16), (laplace, 128)):
        assert n * grid.quant_bound + cut * 2**grid.log2_scale < 2**62


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
@pytest.mark.parametrize(
    "make", [gaussian_sum_grid, gaussian_gram_grid, laplace_sum_grid, laplace_gram_grid]
)
def test_bad_arguments(make, arguments):
    raises(BudgetError, None, make, *arguments)


def test_impossible_sizes_and_clip_steps():
    raises(InputError, r"10000000 columns, 5 rows.*at least", gaussian_gram_grid, 0.5, 10**7, 5)
    raises(InputError, "overflows", gaussian_sum_grid, 1e6, 10, 10**18)
    raises(InputError, "at least", laplace_sum_grid, 2.0**-30, 1000, 10)
    # Clip steps and step.
    for dim in [*range(1, 200), 10**6, 10**6 + 1]:
        half = math.ceil(math.sqrt(dim) / 2)
        assert clip_steps(10**4, dim) == 10**4 - half - 1
    for bad in (0, -1.0, math.inf, math.nan):
        raises(InputError, "radius", laplace_sum_grid(1, 4, 100).step, bad)
    raises(InputError, "no room", clip_steps, 3, 16)


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
    calls = []
    honest = subsampled.pld.solved
    pairs = len(sampling.pairs(1.0, relation))
    monkeypatch.setattr(
        subsampled.pld,
        "solved",
        lambda *a, fineness=1.0: calls.append(fineness) or honest(*a, fineness=fineness),
    )
    z = noise_multiplier_for(budget, sampling, steps, relation)
    assert calls.count(1.0) <= 3 * pairs  # the number of compositions is what a calibration costs
    assert calls.count(0.25) <= 8 * pairs
    assert epsilon_of(z, sampling, steps, budget.delta, relation) <= budget.epsilon
    assert epsilon_of(z * (1 - 3e-5), sampling, steps, budget.delta, relation) > budget.epsilon
    assert (
        0.97 * budget.delta
        <= delta_of(z, sampling, steps, budget.epsilon, relation)
        <= 1.005 * budget.delta
    )


def test_known_multipliers_and_runs_without_sampling():
    # dp-accounting: 5.2229 at its grid
    assert noise_multiplier_for(*RUNS[0][:3]) == pytest.approx(5.2229, rel=1e-3)
    assert noise_multiplier_for(*RUNS[2]) == pytest.approx(2.726, abs=5e-4)
    # Beside full batches sampling buys computation only: noise on the mean as 2 sqrt(T) / mu at these rates.
    full = noise_multiplier_for(ApproxDP(2, 1e-5), FullBatch(), 5000)
    assert noise_multiplier_for(*RUNS[0][:3]) == pytest.approx(full / 54, rel=2e-3)
    # More noise fewer steps and a smaller rate cost less.
    cost = lambda z, q, steps: epsilon_of(z, Poisson(q), steps, 1e-6)  # noqa: E731
    here = cost(2.0, 0.02, 500)
    assert cost(2.1, 0.02, 500) < here < cost(2.0, 0.021, 500)
    assert cost(2.0, 0.02, 400) < here < epsilon_of(2.0, FullBatch(), 500, 1e-6)
    # Runs without sampling are exact.
    assert epsilon_of(100, FullBatch(), 1000, 1e-5) == pytest.approx(
        gdp_epsilon(1e-5, 0.4**0.5), rel=1e-14
    )
    assert epsilon_of(4, OnePass(), 10**6, 1e-5) == gdp_epsilon(1e-5, 0.5)
    assert epsilon_of(4, OnePass(), 7, 1e-5, ADD_REMOVE) == gdp_epsilon(1e-5, 0.25)
    for whole in (Poisson(1), WithoutReplacement(9, 9)):
        assert epsilon_of(5, whole, 17, 1e-6) == epsilon_of(5, FullBatch(), 17, 1e-6)
        assert noise_multiplier_for(ZCDP(0.5), whole, 25) == 10.0
    assert noise_multiplier_for(ZCDP(0.5), OnePass(), 25) == 2.0
    z = noise_multiplier_for(ApproxDP(1, 1e-6), FullBatch(), 12)
    assert epsilon_of(z, FullBatch(), 12, 1e-6) <= 1
    assert delta_of(z, FullBatch(), 12, 1) <= 1e-6


def test_a_planted_fault_of_the_relation_is_seen():
    # The library's own relation must cost about twice what the tables' relation says.
    assert epsilon_of(noise_multiplier_for(*RUNS[2]), Poisson(Fraction(1, 54)), 5000, 1e-5) > 4


REFUSED = Refusals()
REFUSED.add_values(
    "needs a budget ApproxDP", lambda: noise_multiplier_for(PureDP(1), Poisson(0.1), 5)
)
REFUSED.add_values("no useful cost in rho", lambda: noise_multiplier_for(ZCDP(1), Poisson(0.1), 5))
REFUSED.add_values(
    "sampling must be FullBatch", lambda: noise_multiplier_for(ApproxDP(1, 1e-6), "poisson", 5)
)
REFUSED.add_values(
    "steps",
    lambda: noise_multiplier_for(ApproxDP(1, 1e-6), Poisson(0.1), 0),
    lambda: event(steps=0),
)
REFUSED.add_values(
    "steps must be at most", lambda: noise_multiplier_for(ApproxDP(1, 1e-6), Poisson(0.1), 10**9)
)
REFUSED.add_values(
    "relation", lambda: noise_multiplier_for(ApproxDP(1, 1e-6), Poisson(0.1), 5, "replace")
)
REFUSED.add_values(
    "replace-one only",
    lambda: noise_multiplier_for(ApproxDP(1, 1e-6), WithoutReplacement(1, 9), 5, ADD_REMOVE),
)
REFUSED.add_values("between 0.01 and 1e9", lambda: epsilon_of(0.001, Poisson(0.1), 5, 1e-6))
REFUSED.add_values("delta", lambda: epsilon_of(1.0, Poisson(0.1), 5, 0.0), lambda: event(delta=1))
REFUSED.add_values("rate must lie", lambda: Poisson(0), lambda: Poisson(1.5))
REFUSED.add_values("cannot be drawn", lambda: WithoutReplacement(10, 9))
REFUSED.add_values("GaussianEvent", lambda: event(sampling=FullBatch()))
REFUSED.add_values("first", lambda: event(first=1))


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_is_refused(call, words):
    raises(BudgetError, words, call)


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
    # Under add-remove it has the same noise over half the sensitivity.
    assert event(relation=ADD_REMOVE, squared_sensitivity=128**2).noise_multiplier == pytest.approx(
        4.0, rel=1e-15
    )


def test_the_event_is_charged_and_checks_its_promise():
    account = opened(ApproxDP(2, 1e-5), draws=100)
    query = lambda: np.array([5, 7], dtype=np.int64)  # noqa: E731
    for each in (event(), *[event().later] * 29):
        answer = release(account, name="step", query=query, shape=(2,), event=each, unit=1.0)
    assert answer.shape == (2,)
    epsilon, delta = account.approx_left
    assert epsilon <= 2 - event().epsilon
    assert delta <= account.budget.delta - event().delta
    raises(BudgetError, "exceed", account.charge, event(log2_scale=8, steps=3000))
    # The event checks its promise.
    step = event()
    assert step.pair_cost(np.array([0, 0]), np.array([256, 0]), ApproxDP) == step.epsilon
    assert step.later.pair_cost(np.array([0, 0]), np.array([0, 0]), ApproxDP) == 0
    raises(ReplayError, "moved by", step.pair_cost, np.array([0, 0]), np.array([256, 1]), ApproxDP)


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
        upper = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
        grown = mpmath.exp(e)
        if kind == "replace":
            x = z**2 * (
                e / 2 + mpmath.asinh((1 - q) / q * mpmath.exp(1 / (2 * z**2)) * mpmath.sinh(e / 2))
            )
            one = (1 - q) * upper(x / z) + q * upper((x - 1) / z)
            return one - grown * ((1 - q) * upper(x / z) + q * upper((x + 1) / z))
        s = 2 if kind == "fixed size" else 1
        if kind in ("remove", "fixed size"):
            x = z**2 / s * mpmath.log(1 + (grown - 1) / q) + mpmath.mpf(s) / 2
            return (1 - q) * upper(x / z) + q * upper((x - s) / z) - grown * upper(x / z)
        ratio = 1 + (1 / grown - 1) / q
        if ratio <= 0:
            return mpmath.mpf(0)
        x = z**2 / s * mpmath.log(ratio) + mpmath.mpf(s) / 2
        return upper(-x / z) - grown * ((1 - q) * upper(-x / z) + q * upper((s - x) / z))


def profile(kind, q, z):
    return {
        "replace": lambda: pld.poisson_replace(q, z).above,
        "remove": lambda: pld.poisson_remove(q, z).above,
        "add": lambda: pld.poisson_remove(q, z).below,
        "fixed size": lambda: pld.fixed_size_replace(q, z).below,
    }[kind]()


@pytest.mark.parametrize("kind", ["replace", "remove", "add", "fixed size"])
def test_never_below_the_truth_and_close_to_it(kind):
    for epsilon, q, z in POINTS:
        ours = float(profile(kind, q, z)(np.array([epsilon]))[0])
        truth = exact(kind, epsilon, q, z)
        # Values below 1e-300 underflow to an exact zero; they are far below any delta.
        assert mpmath.mpf(ours) >= truth - mpmath.mpf("1e-300"), (epsilon, q, z)
        if truth > 1e-30:
            # Subtracting terms of size q leaves an absolute error of a few hundred rounding errors of them.
            assert ours - float(truth) <= 1e-9 * float(truth) + 1e-12 * q, (epsilon, q, z)


@pytest.mark.parametrize("kind", ["replace", "remove", "add", "fixed size"])
@pytest.mark.parametrize(
    ("epsilon", "q", "z"), [(0.05, 0.1, 1.0), (0.5, 0.3, 0.7), (0.01, 0.02, 2.0)]
)
def test_against_direct_quadrature(kind, epsilon, q, z):
    s = 2.0 if kind == "fixed size" else 1.0
    mixture = lambda x, m: (1 - q) * norm.pdf(x, 0, z) + q * norm.pdf(x, m, z)  # noqa: E731
    pairs = {"replace": (s, -s), "remove": (s, 0.0), "fixed size": (s, 0.0), "add": (0.0, s)}
    one, other = pairs[kind]
    gap = lambda x: max(mixture(x, one) - math.exp(epsilon) * mixture(x, other), 0.0)  # noqa: E731
    value = sum(quad(gap, a, a + 0.25 * z, epsabs=1e-15)[0] for a in np.arange(-40, 40) * 0.25 * z)
    ours = float(profile(kind, q, z)(np.array([epsilon]))[0])
    assert ours == pytest.approx(value, rel=1e-8, abs=1e-13)


def test_planted_fault_a_profile_without_its_rounding_bound_is_caught(monkeypatch):
    monkeypatch.setattr(
        pld, "_rounded_up", lambda gain, cost, epsilon, far: np.clip(gain - cost, 0.0, 1.0)
    )
    below = 0
    for epsilon, q, z in POINTS:
        ours = float(profile("replace", q, z)(np.array([epsilon]))[0])
        below += mpmath.mpf(ours) < exact("replace", epsilon, q, z)
    assert below > 10


# ---- Stable histograms: the stated delta against the exact output laws of tiny data sets, and calibration against known numbers.
SCALE = 8
STEPS = 2**SCALE
# To how many digits losses are told apart: Laplace losses are few, Gaussian ones are all different.
DIGITS = {"laplace": 9, "gaussian": 2}


def law(kind, count, step, threshold, scale=float(STEPS)):
    """Exact law of one bin: nothing first, then each integer from the threshold on; what lies beyond the end is lumped there."""
    if count == 0:
        return lambda end: np.concatenate([[1.0], np.zeros(end - threshold)])

    def masses(end):
        values = np.arange(threshold, end) - step * count
        if kind == "laplace":
            a = math.exp(-1.0 / scale)
            point = (1.0 - a) / (1.0 + a) * np.exp(-np.abs(values) / scale)
            first = values[0]
            below = (
                1.0 - math.exp(-first / scale) / (1 + a)
                if first > 0
                else math.exp((first - 1) / scale) / (1 + a)
            )
            point[-1] = math.exp(-values[-1] / scale) / (1 + a)
        else:
            lower = values / scale
            upper = (values + 1) / scale
            point = np.where(lower > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
            below = ndtr(values[0] / scale)
            point[-1] = ndtr(-values[-1] / scale)
        return np.concatenate([[below], point])

    return masses


def bin_pair(kind, before, after, step, threshold, scale=float(STEPS)):
    end = max(threshold, step * max(before, after)) + math.ceil(
        (42 if kind == "laplace" else 9) * scale
    )
    return merge(
        *(law(kind, count, step, threshold, scale)(end) for count in (before, after)), DIGITS[kind]
    )


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
    worst = {}
    for pair in (((1, 5), (0, 6)), ((3, 0), (2, 1)), ((1, 0), (0, 1)), ((30, 20), (29, 21))):
        moved = [bin_pair("laplace", *counts, 1, 8, 2.0) for counts in zip(*pair, strict=True)]
        worst[pair] = divergence(joint(moved), 1.0)
        assert worst[pair] <= delta * (1 + 1e-9)
    assert worst[((1, 5), (0, 6))] == pytest.approx(delta, rel=1e-9)
    assert worst[((1, 0), (0, 1))] == pytest.approx(delta, rel=1e-9)
    assert worst[((3, 0), (2, 1))] < 1e-9


def test_calibration_matches_known_numbers():
    for delta, count in ((1e-6, 28), (1e-8, 37)):
        assert (
            math.ceil(
                stable_event(
                    1, delta, histograms=1, n=10**6, draws=1, law="laplace"
                ).count_threshold
            )
            == count
        )
    for m, std, threshold in ((1, 5.975, 29.40), (5, 13.360, 68.73), (20, 26.719, 143.34)):
        event = stable_event(1, 1e-6, histograms=m, n=10**6, draws=1, law="gaussian")
        assert event.count_noise_std == pytest.approx(std, rel=2e-4)
        assert event.count_threshold == pytest.approx(threshold, rel=2e-4)
    assert stable_event(1, 1e-6, histograms=1, n=10**6, draws=1).law == "laplace"
    assert stable_event(1, 1e-6, histograms=5, n=10**6, draws=1).law == "gaussian"
    # Basic composition of five at epsilon / 5: the Gaussian halves the threshold.
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
        for old, new in itertools.product(range(bins + 1), repeat=2):
            if old != new and (old == bins or counts[old]) and (old < bins or bins in where):
                moved = list(counts)
                for b, change in ((old, -1), (new, 1)):
                    if b < bins:
                        moved[b] += change
                yield counts, moved


def worst_case(kind, m, step, threshold, epsilon, rows=4):
    """Largest divergence over data sets of at most `rows` rows and large counts; m histograms that see the same kind of move."""
    changes = set()
    for n in range(1, rows + 1):
        for before, after in neighbors(3, n):
            changes.add(tuple(sorted((a, b) for a, b in zip(before, after, strict=True) if a != b)))
    big = -(-threshold // step) + 12 * STEPS // step + 2
    changes.add(((big, big - 1), (big, big + 1)))
    cache = {}

    def of(change):
        if change not in cache:
            cache[change] = joint(
                [bin_pair(kind, *counts, step, threshold) for counts in change], DIGITS[kind]
            )
        return cache[change]

    return max(
        divergence(joint([of(change) for change in chosen], DIGITS[kind]), epsilon)
        for chosen in itertools.combinations_with_replacement(sorted(changes), m)
    )


@pytest.mark.parametrize(("kind", "m", "step", "threshold", "epsilon"), EVENTS)
def test_delta_covers_every_pair_and_is_reached(kind, m, step, threshold, epsilon):
    exact = worst_case(
        kind, m, step, threshold, epsilon, rows={"laplace": 4 if m == 1 else 2, "gaussian": 2}[kind]
    )
    claim = stable_delta(kind, m, step, threshold, SCALE, Fraction(epsilon))
    assert exact <= claim * (1 + 1e-9)
    covered = Fraction(2 * m * step, STEPS) <= Fraction(epsilon)
    if kind == "gaussian":
        assert exact >= 0.998 * claim
    elif covered and singleton_rate(kind, threshold - step, SCALE) < 1 - math.exp(-step / STEPS):
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
    tighter = stable_delta(
        event.law,
        m,
        event.step,
        event.threshold - max(1, event.threshold // 1000),
        event.log2_scale,
        event.epsilon,
    )
    if event.threshold - max(1, event.threshold // 1000) > event.step:
        assert Fraction(tighter) > Fraction(delta)
    assert event.step * 10**6 + 128 * 2**event.log2_scale < 2**62
    assert event.cost.amounts == (Fraction(str(epsilon)), event.delta)


def test_blocks_of_cases_are_an_upper_bound(monkeypatch):
    def worst():
        return [
            stable_delta.__wrapped__("gaussian", 40, 80, 80 + 791, 8, Fraction(e))
            for e in (0.1, 1.0, 4.0)
        ]

    fine = worst()
    monkeypatch.setattr(conversions, "_WHOLE_GRID", 8)
    rough = worst()
    assert all(a <= b <= 2.5 * a for a, b in zip(fine, rough, strict=True))


def test_more_rows_take_a_coarser_grid():
    assert stable_event(1, 1e-6, histograms=1, n=100, draws=1).log2_scale == 40
    event = stable_event(1, 1e-6, histograms=1, n=2**40, draws=1)
    assert event.log2_scale < 24
    assert event.count_threshold == pytest.approx(27.245, rel=1e-3)


def test_refusals():
    raises(BudgetError, "epsilon > 0", stable_event, 0, 1e-6, histograms=1, n=10, draws=1)
    raises(BudgetError, "delta in", stable_event, 1, 0, histograms=1, n=10, draws=1)
    raises(
        InputError,
        "histograms can be released",
        stable_event,
        1,
        1e-6,
        histograms=2**21,
        n=10,
        draws=1,
    )
    raises(InputError, "no stable histogram", stable_event, 1, 1e-6, histograms=1, n=2**62, draws=1)
    raises(
        InputError,
        "noise must be",
        stable_event,
        1,
        1e-6,
        histograms=1,
        n=10,
        draws=1,
        law="cauchy",
    )
    good = {
        "law": "laplace",
        "histograms": 1,
        "step": 5,
        "threshold": 6,
        "log2_scale": 8,
        "epsilon": 1,
        "draws": 0,
    }
    StableHistogramEvent(**good)
    bad = [
        {"law": "x"},
        {"histograms": 0},
        {"step": 0},
        {"threshold": 5},
        {"log2_scale": 7},
        {"log2_scale": 41},
        {"epsilon": 0},
        {"draws": -1},
        {"relation": Neighbors.ADD_REMOVE_ONE},
    ]
    for change in bad:
        raises(BudgetError, None, StableHistogramEvent, **{**good, **change})
