"""Radii, shares and predicted errors against the closed forms and tables of the specification."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fastpubpriv.errors import InputError
from fastpubpriv.estimators import radii
from fastpubpriv.estimators.radii import StepRadii, best_steps, budget_shares, chi_radius, gap_radius, predict_steps
from fastpubpriv.run import noise_per_radius


@pytest.mark.parametrize(
    ("dim", "failure", "value"), [(10, 0.1, 4.91958), (20, 0.1, 6.17879), (50, 0.1, 8.72152), (50, 0.01, 9.46356)]
)
def test_chi_radius_reference_values(dim, failure, value):
    assert chi_radius(dim, failure) == pytest.approx(value, abs=5e-6)


@pytest.mark.parametrize("dim", [1, 2, 5, 50, 1000])
@pytest.mark.parametrize("failure", [0.5, 0.1, 1e-3, 1e-9, 1e-100])
def test_chi_radius_bounds_the_quantile(dim, failure):
    assert stats.chi2.sf(chi_radius(dim, failure) ** 2, dim) <= failure


@pytest.mark.parametrize("dim", [1, 2, 3, 50, 10_000])
def test_expected_normal_norm(dim):
    exact = {1: math.sqrt(2 / math.pi), 2: math.sqrt(math.pi / 2), 3: 2 * math.sqrt(2 / math.pi)}
    value = radii.expected_normal_norm(dim)
    assert value == pytest.approx(exact.get(dim, math.sqrt(dim) * (1 - 1 / (4 * dim))), rel=1e-3 / dim)


def test_budget_shares():
    assert budget_shares(1) == (1,)
    assert budget_shares(2) == (Fraction(1, 4), Fraction(3, 4))
    for steps in (3, 6, 1000):
        shares = budget_shares(steps)
        assert sum(shares) == 1
        assert shares[-1] == Fraction(3, 4)
        assert len(set(shares[:-1])) == 1


def test_clip_radii_of_both_modes():
    practical = StepRadii(50, 1000, 2, "practical", 0.01)
    row = chi_radius(50, 0.01)
    assert practical.clip(3.0) == math.sqrt(9 + 18 + row**2)
    assert practical.clip(1e-12) == pytest.approx(row)
    assert practical.after(0.5) == pytest.approx(row * math.sqrt(1e-3 + 0.25))
    assert StepRadii(50, 1000, 1, "theory", 0.05).clip(3.0) == 3.0 + chi_radius(50, 0.05 / 2000)
    three = StepRadii(50, 1000, 3, "theory", 0.05)
    assert three.clip(3.0) == 3.0 + chi_radius(50, 0.05 / (4 * 1000 * 3))
    assert three.after(0.5) == chi_radius(50, 0.05 / 12) * math.sqrt(1e-3 + 0.25)


SIZES = [1000, 1818, 2636, 4272, 6727, 10_000]
FIGURE_1 = {
    10.0 * math.sqrt(50): [0.2824, 0.1880, 0.1499, 0.1138, 0.0889, 0.0721],
    100.0 * math.sqrt(50): [0.5537, 0.2428, 0.1687, 0.1183, 0.0901, 0.0724],
    1000.0 * math.sqrt(50): [4.408, 1.356, 0.6614, 0.2742, 0.1361, 0.0866],
    chi_radius(50, 0.01): [0.2726, 0.1860, 0.1492, 0.1136, 0.0888, 0.0720],
}
PAPER_CODE = [0.2757, 0.1870, 0.1497, 0.1138, 0.0889, 0.0721]


def predicted(n, radius, **options):
    arguments = {"steps": 2, "mode": "practical", "failure_prob": 0.01, **options}
    noise = noise_per_radius(50, pure=False, allowance=Fraction(1, 2))
    return predict_steps(50, n, radius, noise_per_radius=noise, **arguments)[-1].error


def same(value, printed):
    """Equal to four digits, as the table prints them."""
    return abs(value - printed) <= max(0.5e-4 * 1.001, 0.5e-3 * printed * 1.001)


@pytest.mark.parametrize("radius", FIGURE_1)
def test_figure_1_closed_forms(radius):
    for n, printed in zip(SIZES, FIGURE_1[radius], strict=True):
        assert same(predicted(n, radius), printed)


def test_figure_1_with_the_published_radius():
    for n, printed in zip(SIZES, PAPER_CODE, strict=True):
        assert same(predicted(n, chi_radius(n, 0.01)), printed)
    assert not same(predicted(1000, chi_radius(50, 0.01)), PAPER_CODE[0])  # control: the table tells them apart


def test_figure_1_needs_the_right_shares(monkeypatch):
    monkeypatch.setattr(radii, "budget_shares", lambda steps: [Fraction(1, steps)] * steps)
    assert not same(predicted(1000, 1000 * math.sqrt(50)), FIGURE_1[1000 * math.sqrt(50)][0])


def test_best_steps_is_the_least_predicted_error():
    noise = noise_per_radius(50, pure=False, allowance=Fraction(1, 2))
    arguments = {"noise_per_radius": noise, "mode": "practical", "failure_prob": 0.01}
    counts = []
    for radius in (1.0, 1e2, 1e4, 1e6):
        count = best_steps(50, 20_000, radius, **arguments)
        errors = [predicted(20_000, radius, steps=t) for t in range(1, radii.MAX_AUTO_STEPS + 1)]
        assert errors[count - 1] == min(errors)
        counts.append(count)
    assert counts == sorted(counts)
    assert counts[0] == 1 < counts[-1]


def test_gap_radius_is_continuous_and_monotone():
    own = chi_radius(7, 0.01) / math.sqrt(3)
    assert gap_radius(7, 3, 0.01, 0.0) == own
    gaps = [0.0, *np.geomspace(1e-14, 0.5, 60), 0.9, 0.999, 1 - 1e-12]
    values = [gap_radius(7, 3, 0.01, gap) for gap in gaps]
    assert values == sorted(values)
    assert values[1] == pytest.approx(own, rel=1e-5)
    assert all(math.isfinite(value) for value in values)


def total_variation_shift(distance):
    return 2 * stats.norm.cdf(distance / 2) - 1


def total_variation_scale(ratio, dim=1):
    """TV of N(0, I) and N(0, ratio^2 I): they cross on one sphere."""
    if ratio == 1.0:
        return 0.0
    cross = 2 * dim * math.log(ratio) / (1 - ratio**-2)
    return abs(stats.chi2.cdf(cross, dim) - stats.chi2.cdf(cross / ratio**2, dim))


@pytest.mark.parametrize("gap", [0.01, 0.1, 0.3, 0.6, 0.9, 0.99])
def test_gap_facts_hold_for_gaussians_within_the_gap(gap):
    shift = 2 * stats.norm.ppf(0.5 + gap / 2)  # the largest shift at this distance, equal variances
    assert total_variation_shift(shift) == pytest.approx(gap)
    assert shift <= radii.gap_shift(gap)
    low, high = 1.0, 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if total_variation_scale(middle) <= gap else (low, middle)
    assert low <= radii.gap_ratio(gap)
    # Never worse than the rounded constants of Lemma B.11.
    assert radii.gap_ratio(gap) <= 2 / (1 - gap) ** 2
    assert radii.gap_shift(gap) <= math.sqrt(10 * gap / (1 - gap))


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, math.nan, math.inf, "0.1", True, 1e-200, None])
def test_failure_probability_is_checked(value):
    with pytest.raises(InputError, match="failure_prob"):
        radii.failure_probability(value)


@pytest.mark.parametrize("value", [0, -1, True, 1.0, 1.5, "two", None, [2], 1001, 10**30])
def test_steps_are_checked(value):
    with pytest.raises(InputError, match="steps"):
        radii.step_count(value)
    assert radii.step_count(np.int64(3)) == 3
    assert radii.step_count("auto") == "auto"


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e151, 1e-151, True, "1", None])
def test_sizes_are_checked(value):
    with pytest.raises(InputError, match="radius"):
        radii.size("radius", value)
