"""Steps alone (`tails="light"`): their reasons where public rows mislead, and what a prior of classes takes; planted faults."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, linear_regression, logistic_regression
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.newton import NewtonState
from fastpubpriv.training import methods

PUBLIC = 60
SLOPES = np.array([1.0, -1.0])

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


class Held(NamedTuple):
    """Of the slopes without a reason: how many there are, the share whose interval holds, and the largest number of half-widths."""

    ok: int
    share: float
    farthest: float


def fitted(model, draw, *, rows, budget, shift):
    """A fit of columns with a correlation of .87, whose public rows are moved by so many deviations."""
    rng = np.random.default_rng(draw)
    x = rng.normal(size=(rows + PUBLIC, 2))
    x[:, 1] = 0.9 * x[:, 0] + 0.5 * x[:, 1]
    score = x @ SLOPES
    y = score + rng.normal(size=len(x))
    if model is logistic_regression:
        y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-score))).astype(float)
    x_pub = x[rows:] + shift * x.std(axis=0)
    given = {"budget": budget, "method": "newton", "tails": "light", "random_state": draw}
    return seeded(model, x[:rows], y[:rows], x_pub=x_pub, y_pub=y[rows:], **given)


def held(model, draws, **given):
    within = []
    distances = []
    for draw in draws:
        result = fitted(model, draw, **given)
        lower, upper = result.confidence_interval()
        for place, reasons in enumerate(result.part_reasons[1:]):
            if not reasons:
                within.append(lower[place] < SLOPES[place] < upper[place])
                half = (upper[place] - lower[place]) / 2.0
                distances.append(abs(result.coefficients[place] - SLOPES[place]) / half)
    if not within:
        return Held(ok=0, share=1.0, farthest=0.0)
    return Held(ok=len(within), share=float(np.mean(within)), farthest=max(distances))


NOISY = {"rows": 400, "budget": ApproxDP(1, 1e-6), "shift": 0.0}
SHIFTED = {"rows": 20_000, "budget": ZCDP(0.1), "shift": 2.0}


def test_intervals_hold_what_a_prior_of_classes_takes():
    """Where 60 public rows show no slope, the prior is strong; all of the slopes are without a reason."""
    found = held(logistic_regression, range(24), **NOISY)
    assert found.ok == 48
    assert found.share > 0.85
    assert found.farthest < 3.0


def test_planted_fault_a_prior_that_takes_nothing_is_seen(monkeypatch):
    monkeypatch.setattr(methods, "shrinkage_error", lambda problem, covariance: 0.0)
    assert held(logistic_regression, range(24), **NOISY).farthest > 5.0


def test_slopes_about_shifted_public_rows_hold_or_have_a_reason():
    assert held(logistic_regression, range(6), **SHIFTED).share > 0.8


def test_steps_from_shifted_public_rows_do_not_run_away():
    for draw in range(6):
        result = fitted(logistic_regression, draw, **SHIFTED)
        assert np.max(np.abs(result.coefficients)) < 5.0


def test_planted_fault_steps_without_a_bound_are_seen(monkeypatch):
    monkeypatch.setattr(tuning, "LONGEST_MOVE", math.inf)
    monkeypatch.setattr(NewtonState, "settle", lambda self: None)
    slopes = [fitted(logistic_regression, draw, **SHIFTED).coefficients for draw in range(6)]
    assert np.max(np.abs(slopes)) > 5.0


def moved_labels(draw):
    """A linear model whose public labels are three deviations of the error larger."""
    rng = np.random.default_rng(draw)
    x = rng.normal(size=(2_060, 2))
    y = x @ SLOPES + rng.normal(size=2_060)
    given = {"budget": ZCDP(0.1), "method": "newton", "tails": "light", "random_state": draw}
    return seeded(linear_regression, x[60:], y[60:], x_pub=x[:60], y_pub=y[:60] + 3.0, **given)


def test_public_rows_of_another_population_are_said():
    assert {moved_labels(draw).reasons for draw in range(4)} == {("shifted",)}


def test_planted_fault_a_population_that_is_not_compared_is_seen(monkeypatch):
    monkeypatch.setattr(methods, "is_shifted", lambda problem, mean, variance: False)
    assert {moved_labels(draw).reasons for draw in range(4)} != {("shifted",)}
