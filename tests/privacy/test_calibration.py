"""Calibration: the budget is never exceeded, exactly, and hardly anything of it is wasted."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    GaussianEvent,
    LaplaceEvent,
    PureDP,
    approx_slack,
    clip_steps,
    gaussian_count_grid,
    gaussian_gram_grid,
    gaussian_rho,
    gaussian_sum_grid,
    laplace_count_grid,
    laplace_epsilon,
    laplace_gram_grid,
    laplace_sum_grid,
    pure_to_zcdp_exact,
    step,
)

AMOUNTS = st.floats(min_value=2.0**-20, max_value=2.0**10) | st.fractions(
    Fraction(1, 999), Fraction(100), max_denominator=999
)
DIMS = st.integers(1, 2000)
ROWS = st.integers(0, 10**10)


def exact_delta(epsilon, rho):
    """delta of the Gaussian mechanism of exactly this rho, in high precision."""
    with mpmath.workdps(400):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        m = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator)
        root = mpmath.sqrt(2)
        return (mpmath.erfc((e / m - m / 2) / root) - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root)) / 2


def calibration_misses(calibrate, count, seed):
    """Of random (epsilon, delta, draws): how often delta is exceeded, and how often rho is 2e-6 too small."""
    rng = np.random.default_rng(seed)
    over = loose = 0
    for _ in range(count):
        epsilon, delta = 10 ** rng.uniform(-6, 1.5), 10 ** rng.uniform(-14, -1)
        draws = int(10 ** rng.uniform(0, 8))
        budget = ApproxDP(epsilon, delta)
        slack = approx_slack(budget.epsilon, draws)
        if slack > budget.delta / 32:  # calibrated at a stricter epsilon: test_huge_epsilon looks at those
            continue
        rho = calibrate(budget, draws)
        allowed = budget.delta - slack
        limit = mpmath.mpf(allowed.numerator) / allowed.denominator
        over += exact_delta(budget.epsilon, rho) > limit
        loose += exact_delta(budget.epsilon, rho * Fraction(1 + 2e-6)) <= limit
    return over, loose


def test_gaussian_calibration_on_two_hundred_points():
    assert calibration_misses(gaussian_rho, 200, 3) == (0, 0)


@pytest.mark.audit
def test_gaussian_calibration_on_ten_thousand_points():
    assert calibration_misses(gaussian_rho, 10_000, 4) == (0, 0)


def test_planted_bug_is_caught():
    def classical(budget, draws):
        return Fraction(float(budget.epsilon) ** 2 / (4 * math.log(2 / float(budget.delta))))

    budget = ApproxDP(10, 1e-5)
    assert exact_delta(budget.epsilon, classical(budget, 1)) > 1.3e-5
    assert exact_delta(budget.epsilon, gaussian_rho(budget, 1)) <= 1e-5
    over, loose = calibration_misses(classical, 200, 5)
    assert over > 0
    assert loose > 0


def test_gaussian_rho_by_notion():
    assert gaussian_rho(ZCDP(Fraction(1, 3)), 10**9) == Fraction(1, 3)
    with pytest.raises(BudgetError, match="Laplace"):
        gaussian_rho(PureDP(1), 1)
    with pytest.raises(BudgetError, match="delta >="):
        gaussian_rho(ApproxDP(1, 1e-25), 10**6)
    with pytest.raises(BudgetError):
        gaussian_rho(ApproxDP(1, 1e-6), -1)


def test_huge_epsilon_is_calibrated_at_a_stricter_one():
    values = [gaussian_rho(ApproxDP(e, 1e-6), 10**6) for e in (1, 10, 35, 38, 39, 41, 50, 1000)]
    assert values == sorted(values)
    assert values[-1] == values[-2]
    for epsilon, rho in zip((35, 38, 1000), (values[2], values[3], values[7]), strict=True):
        strict = min(Fraction(epsilon), Fraction(40))
        assert exact_delta(strict, rho) + float(approx_slack(strict, 10**6)) <= 1e-6


def test_laplace_epsilon_by_notion():
    assert laplace_epsilon(PureDP(1), 5) == 1 - Fraction(5, 2**99)
    assert laplace_epsilon(ApproxDP(1, 1e-6), 5) == 1
    for rho in (2.0**-60, 1e-6, 0.5, 10, 1e6):
        epsilon = laplace_epsilon(ZCDP(rho), 1)
        assert pure_to_zcdp_exact(epsilon) <= Fraction(rho) < pure_to_zcdp_exact(epsilon * Fraction(1 + 1e-9))
    with pytest.raises(BudgetError):
        laplace_epsilon(PureDP(2.0**-30), 2**70)
    with pytest.raises(BudgetError):
        laplace_epsilon(1.0, 1)


def built(make, *arguments):
    """The grid, or None where public sizes rule one out (with the library's own error)."""
    try:
        return make(*arguments)
    except InputError:
        return None


def common(grid, dim, n, cut, power):
    q = grid.quant_bound
    assert 8 <= grid.log2_scale <= 40
    assert 8 * math.ceil(math.sqrt(dim)) <= q
    assert dim * q * q <= 2**53
    assert n * q**power + cut * 2**grid.log2_scale < 2**62
    assert 2 * grid.clip_steps >= q - 4 * math.ceil(math.sqrt(dim))  # at least most of the radius is left
    assert grid.clip_steps + Fraction(math.isqrt(dim - 1) + 1, 2) <= q
    assert grid.step(2.0) == 2.0 / grid.clip_steps


# Entries of a row, the sensitivity that is taken for (dim, Q), squared for Gaussian noise, draws, and the largest Q.
GRIDS = {
    gaussian_sum_grid: (1, lambda dim, q: 4 * q * q, lambda dim: dim, 2**26),
    gaussian_gram_grid: (2, lambda dim, q: 2 * q**4, lambda dim: dim * dim, 2896),
    laplace_sum_grid: (1, lambda dim, q: math.isqrt(4 * dim * q * q), lambda dim: dim, 2**26),
    laplace_gram_grid: (
        2, lambda dim, q: math.isqrt(dim * (dim + 3) // 2 * q**4), lambda dim: dim * (dim + 1) // 2, 2**26,
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", GRIDS)
@settings(max_examples=300, deadline=None)
@given(AMOUNTS, DIMS, ROWS)
def test_grids_of_sums_and_grams(make, amount, dim, n):
    gaussian = make in (gaussian_sum_grid, gaussian_gram_grid)
    power, sensitivity, draws, most = GRIDS[make]
    grid = built(make, amount, dim, n)
    if grid is None:
        return
    q, m = grid.quant_bound, grid.log2_scale
    common(grid, dim, n, 16 if gaussian else 128, power)
    assert q <= most
    event = GaussianEvent if gaussian else LaplaceEvent
    price = (lambda bound: Fraction(bound, 2 * 4**m)) if gaussian else (lambda bound: Fraction(bound, 2**m))
    assert grid.event == event(sensitivity(dim, q), m, draws(dim))
    assert price(sensitivity(dim, q)) <= Fraction(amount) < price(sensitivity(dim, q + 1))
    if make is gaussian_sum_grid:
        finer = math.isqrt(math.floor(Fraction(amount) * 4 ** (m + 1) / 2))
        assert m == 40 or finer > 2**26 or dim * finer**2 > 2**53 or n * finer + 16 * 2 ** (m + 1) >= 2**62


def test_laplace_sensitivities_against_random_neighbours():
    rng = np.random.default_rng(6)
    sums, grams = laplace_sum_grid(1, 3, 100), laplace_gram_grid(1, 3, 100)
    top_sum = top_gram = 0
    for _ in range(3000):
        u, v = rng.standard_normal((2, 3))
        v = -u if rng.random() < 0.5 else v - u * (u @ v) / (u @ u)
        for grid in (sums, grams):
            a, b = ([int(t) for t in x / np.linalg.norm(x) * grid.quant_bound] for x in (u, v))
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
    gaussian, laplace = gaussian_count_grid(amount, cells, n), laplace_count_grid(amount, cells, n)
    s, m = gaussian.quant_bound, gaussian.log2_scale
    assert gaussian.event == GaussianEvent(2 * s * s, m, cells)
    assert gaussian.event.rho <= Fraction(amount) < Fraction((s + 1) ** 2, 4**m)
    s, m = laplace.quant_bound, laplace.log2_scale
    assert laplace.event == LaplaceEvent(2 * s, m, cells)
    assert laplace.event.epsilon <= Fraction(amount) < Fraction(2 * (s + 1), 2**m)
    for grid, cut in ((gaussian, 16), (laplace, 128)):
        assert n * grid.quant_bound + cut * 2**grid.log2_scale < 2**62


def test_waste_is_within_1e_6_for_sums():
    for rho in (0.01, 0.3, 1, 7):
        assert 1 - 1e-6 < float(gaussian_sum_grid(rho, 50, 10**6).event.rho) / rho <= 1
        assert 1 - 1e-6 < float(laplace_sum_grid(rho, 50, 10**6).event.epsilon) / rho <= 1


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
@pytest.mark.parametrize("make", [gaussian_sum_grid, gaussian_gram_grid, laplace_sum_grid, laplace_gram_grid])
def test_bad_arguments(make, arguments):
    with pytest.raises(BudgetError):
        make(*arguments)


def test_impossible_sizes_say_so_with_numbers():
    with pytest.raises(InputError, match=r"10000000 columns, 5 rows.*at least"):
        gaussian_gram_grid(0.5, 10**7, 5)
    with pytest.raises(InputError, match="overflows"):
        gaussian_sum_grid(1e6, 10, 10**18)
    with pytest.raises(InputError, match="at least"):
        laplace_sum_grid(2.0**-30, 1000, 10)


def test_clip_steps_and_step():
    for dim in [*range(1, 200), 10**6, 10**6 + 1]:
        half = math.ceil(math.sqrt(dim) / 2)
        assert clip_steps(10**4, dim) == 10**4 - half - 1
    assert step(3.0, 1000, 4) == 3.0 / 998
    for bad in (0, -1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="radius"):
            step(bad, 1000, 4)
    with pytest.raises(InputError, match="no room"):
        clip_steps(3, 16)
