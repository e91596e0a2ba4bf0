"""Logistic regression from fewer public rows than columns: no worse than these rows alone, and no interval that is not honest."""

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ApproxDP, logistic_regression
from fastpubpriv.training import newton_logistic, public_logistic, whitening
from fastpubpriv.training.newton_state import State

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


def drawn(dim, m, seed, *, n=6_000, strength=3.0, shift=1.0):
    """Public and private rows of columns with different sizes and shifts; and the loss above the best of given coefficients."""
    rng = np.random.default_rng([dim, m, seed])
    slopes = rng.normal(size=dim) * strength / np.sqrt(dim)
    z = rng.normal(size=(n, dim))
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-z @ slopes))).astype(float)
    x = (z + shift) * np.arange(1, dim + 1)
    best = np.mean(np.logaddexp(0.0, z @ slopes) - label * (z @ slopes))

    def excess(intercept, coefficients):
        scores = intercept + x @ coefficients
        return float(np.mean(np.logaddexp(0.0, scores) - label * scores) - best)

    return {"x_priv": x[m:], "y_priv": label[m:], "x_pub": x[:m].copy(), "y_pub": label[:m]}, excess


def errors(dim, m, seeds, **law):
    """Excess losses of newton and of public rows alone."""
    found = []
    for seed in seeds:
        given, excess = drawn(dim, m, seed, **law)
        result = seeded(logistic_regression, **given, budget=ApproxDP(8, 1e-5), method="newton")
        assert set(result.status) == {"few_public_rows"}
        assert np.isnan(result.standard_error).all()
        alone = excess(result.public_intercept, result.public_coefficients)
        found.append((excess(result.intercept, result.coefficients), alone))
    return np.array(found).T


@pytest.mark.parametrize(("dim", "m", "shift"), [(20, 6, 1.0), (20, 6, 3.0), (20, 10, 1.0), (60, 20, 1.0)])
def test_it_is_no_worse_than_public_rows_alone(dim, m, shift):
    newton, alone = errors(dim, m, range(3), shift=shift)
    assert np.all(newton < alone + 0.05)
    assert np.mean(newton) < 0.9 * np.mean(alone)


def test_planted_faults_steps_that_run_away_are_seen(monkeypatch):
    """Curvature of fitted rows, directions they seem not to vary in, a ridge that folds of two rows chose, and no way back."""
    law = {"shift": 3.0, "strength": 6.0}
    assert errors(20, 6, [2], **law)[0, 0] < 0.6
    monkeypatch.setattr(State, "settle", lambda self, wary: None)
    monkeypatch.setattr(whitening, "next_to_none", lambda m, p: False)
    monkeypatch.setattr(newton_logistic, "FEW", 0)
    monkeypatch.setattr(public_logistic, "_MODEST", 0.0)
    assert errors(20, 6, [2], **law)[0, 0] > 2.0


@pytest.mark.statistical
def test_intervals_cover_from_five_public_rows_for_each_coefficient():
    """20 slopes of 30 draws: a true coverage of .95 has a standard deviation of .009; the curvature itself moves with the fit."""
    assert covered(110) > 0.9


def covered(m):
    hits = []
    for seed in range(30):
        given, _ = drawn(20, m, seed, shift=0.0)
        rng = np.random.default_rng([20, m, seed])
        slopes = rng.normal(size=20) * 3.0 / np.sqrt(20) / np.arange(1, 21)
        result = seeded(logistic_regression, **given, budget=ApproxDP(8, 1e-5), method="newton")
        lower, upper = result.confidence_interval()
        hits += list((lower < slopes) & (slopes < upper))
    return float(np.mean(hits))


@pytest.mark.statistical
def test_planted_fault_a_curvature_taken_for_known_is_seen(monkeypatch):
    monkeypatch.setattr(State, "widen", lambda self, *given: None)
    assert covered(110) < 0.9
