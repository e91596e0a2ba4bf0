"""Closed-form profiles of one sampled step: against forty digits, against quadrature, and never below the truth."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fastpubpriv.privacy import pld

# Computed by independent quadrature: epsilon, rate, noise multiplier, delta.
QUADRATURES = [
    (0.1, 1 / 60, 2.49, 7.017041e-9),
    (0.5, 1 / 6, 3.0, 1.372414e-6),
    (1.0, 0.5, 1.5, 0.0249286328),
    (0.02, 1 / 54, 5.2292, 7.3025017e-6),
    (2.0, 0.9, 0.8, 0.3563962708),
]
POINTS = [
    (epsilon, q, z)
    for epsilon in (0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0, 29.0, 31.0, 80.0)
    for q in (1e-9, 1e-4, 1 / 54, 0.5, 0.999)
    for z in (0.1, 0.5, 2.5, 40.0)
]


def exact(kind, epsilon, q, z):
    """The profile in high precision, from the threshold where the loss is epsilon."""
    with mpmath.workdps(80 + int(2 * epsilon)):
        e, q, z = mpmath.mpf(epsilon), mpmath.mpf(q), mpmath.mpf(z)
        upper = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
        grown = mpmath.exp(e)
        if kind == "replace":
            x = z**2 * (e / 2 + mpmath.asinh((1 - q) / q * mpmath.exp(1 / (2 * z**2)) * mpmath.sinh(e / 2)))
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


@pytest.mark.parametrize(("epsilon", "q", "z", "delta"), QUADRATURES)
def test_against_quadratures_made_elsewhere(epsilon, q, z, delta):
    ours = float(pld.poisson_replace(q, z).above(np.array([epsilon]))[0])
    assert ours == pytest.approx(delta, rel=1e-6 if delta < 1e-8 else 5e-7)


@pytest.mark.parametrize("kind", ["replace", "remove", "add", "fixed size"])
@pytest.mark.parametrize(("epsilon", "q", "z"), [(0.05, 0.1, 1.0), (0.5, 0.3, 0.7), (0.01, 0.02, 2.0)])
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
    def bare(gain, cost, epsilon, far):
        return np.clip(gain - cost, 0.0, 1.0)

    monkeypatch.setattr(pld, "_rounded_up", bare)
    below = 0
    for epsilon, q, z in POINTS:
        ours = float(profile("replace", q, z)(np.array([epsilon]))[0])
        below += mpmath.mpf(ours) < exact("replace", epsilon, q, z)
    assert below > 10
