"""Caps of local randomizers: the known table, closed forms, and stability from one column to a million."""

from __future__ import annotations

import math

import mpmath
import pytest

from fastpubpriv.local import parameters as caps

TABLE = [
    (2, 1.0, 0.3082871299, 0.644638, 9.5217799), (10, 2.0, 0.2508000053, 0.686344, 14.898089),
    (100, 4.0, 0.1510682140, 0.793571, 42.818127), (1000, 8.0, 0.08659815913, 0.901397, 132.34683),
    (1000, 64.0, 0.3255224789, 0.991776, 8.4370886), (10**6, 1.0, 3.974630942e-4, 0.589326, 6330037.9),
]  # fmt: skip
TAILS = [
    (0.1, 0.0398927299), (1, 0.3974630105), (2, 0.7864802550), (4, 1.5156376592), (8, 2.7429447906), (16, 4.5613263599),
    (64, 10.5809168905),
]  # fmt: skip


@pytest.mark.parametrize(("dim", "epsilon", "threshold", "probability", "error"), TABLE)
def test_the_table(dim, epsilon, threshold, probability, error):
    cap = caps.best_cap(dim, epsilon)
    assert cap.threshold == pytest.approx(threshold, rel=1e-9)
    assert cap.probability == pytest.approx(probability, abs=1e-6)
    assert 1.0 / cap.scale**2 - 1.0 == pytest.approx(error, rel=5e-8)  # the digits of the table
    assert cap.scale == pytest.approx(cap.threshold, rel=1e-11)
    assert cap.epsilon == pytest.approx(epsilon, rel=1e-13)


@pytest.mark.parametrize(("epsilon", "threshold"), TAILS)
def test_the_tails(epsilon, threshold):
    cap = caps.best_tail(float(epsilon))
    assert cap.threshold == pytest.approx(threshold, abs=1e-10)
    assert cap.scale == pytest.approx(threshold, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 7.0, 20.0])
def test_three_columns_have_a_closed_form(epsilon):
    cap = caps.best_cap(3, epsilon)
    assert cap.threshold == pytest.approx(math.tanh(epsilon / 4.0), rel=1e-10)
    assert 1.0 / cap.scale**2 - 1.0 == pytest.approx(1.0 / math.sinh(epsilon / 4.0) ** 2, rel=1e-8)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 50, 1001, 65537, 10**6])
@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 1.0, 5.0, 25.0, 110.0, 500.0])
def test_every_cap_is_the_best_and_costs_what_it_says(dim, epsilon):
    cap = caps.best_cap(dim, epsilon)
    assert 0.0 < cap.scale < 1.0 + 1e-11
    assert cap.epsilon <= epsilon * (1.0 + 1e-12)
    if dim > 1 and cap.threshold**2 < 1.0 - 1e-11:
        assert cap.epsilon == pytest.approx(epsilon, rel=1e-12)
        for factor in (0.99, 1.01):
            at = cap.threshold * factor
            if at < 1.0 - 1e-12:
                other = caps.cap_of(dim, at, caps.logit_for(epsilon, caps.log_cap_mass(dim, at)))
                assert other.scale < cap.scale * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("dim", "threshold"), [(2, 0.3), (5, 0.9), (30, 0.2), (1000, 0.7), (4001, 0.75), (10**6, 0.003)]
)
def test_masses_agree_with_high_precision(dim, threshold):
    with mpmath.workdps(40):
        a = mpmath.mpf(dim - 1) / 2
        mass = mpmath.betainc(a, a, 0, (1 - mpmath.mpf(threshold)) / 2, regularized=True) if dim <= 1000 else None
        if (
            mass is None
        ):  # too many terms for the series: integrate the density, e^(its logarithm at the edge) taken out
            edge = (a - 1) * mpmath.log1p(-(mpmath.mpf(threshold) ** 2))
            inside = mpmath.quad(
                lambda t: mpmath.exp((a - 1) * mpmath.log1p(-t * t) - edge),
                mpmath.linspace(threshold, min(1, threshold + 60 / (dim * threshold)), 40),
            )
            log_mass = mpmath.log(inside) + edge - mpmath.log(mpmath.beta(mpmath.mpf(1) / 2, a))
        else:
            log_mass = mpmath.log(mass)
    assert caps.log_cap_mass(dim, threshold) == pytest.approx(float(log_mass), rel=1e-11, abs=1e-11)


def test_the_printed_normaliser_is_wrong():
    """LLHR's plus between the two terms; what is unbiased has a minus."""
    cap = caps.best_cap(10, 2.0)
    q, p = math.exp(cap.log_mass), cap.probability
    slope = cap.scale / (p / q - (1.0 - p) / (1.0 - q))
    assert slope * (p / q + (1.0 - p) / (1.0 - q)) == pytest.approx(0.329309, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 30.0, 200.0])
@pytest.mark.parametrize("dim", [3, 20, 1000])
def test_the_conditions_of_bhowmick_are_sufficient(dim, epsilon):
    log_mass = caps.log_cap_mass(dim, caps.bhowmick_threshold(dim, epsilon))
    assert caps.log_rest(log_mass) - log_mass <= epsilon * (1.0 + 1e-9)


def test_the_first_condition_of_bhowmick_is_false_for_two_columns():
    excess = []
    for epsilon in (0.5, 1.0, 1.4, 1.8, 2.0):
        log_mass = caps.log_cap_mass(2, min(0.999999, math.tanh(0.5 * epsilon) * math.sqrt(math.pi / 2.0)))
        excess.append(caps.log_rest(log_mass) - log_mass - epsilon)
    assert max(excess) > 0.2
