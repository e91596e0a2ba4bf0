"""Fewer public rows than columns, where private rows lie about another mean; and the pooling of noisy measurements."""

from fractions import Fraction

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ApproxDP, linear_regression
from fastpubpriv.losses import LOSSES
from fastpubpriv.training import centre, methods
from fastpubpriv.training.newton_state import State
from fastpubpriv.training.problem import make_problem
from fastpubpriv.training.stated import Stated

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


def rows_and_labels(n, dim, seed):
    """Columns of different sizes, which explain nearly all of the label."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=dim)
    x = rng.normal(size=(n, dim))
    return x * np.arange(1, dim + 1) + 3.0, x @ slopes + rng.normal(size=n)


def problem(m, dim, n_priv=10_000):
    x, y = rows_and_labels(m, dim, 1)
    return make_problem(LOSSES["squared"], np.column_stack([x, y]), [f"x{j}" for j in range(dim)], n_priv, Stated())[0]


def test_a_moved_problem_predicts_the_same():
    here = problem(8, 12)
    mean = np.random.default_rng(2).normal(size=12)
    moved = centre.centred(here, mean, 0.0)
    chunk = np.column_stack(rows_and_labels(5, 12, 3))
    before, after = (
        here.rotation(chunk)[:, :-1] * here.rotation.step,
        moved.rotation(chunk)[:, :-1] * here.rotation.step,
    )
    np.testing.assert_allclose(after @ moved.posterior.mean, before @ here.posterior.mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moved.back(moved.posterior.mean), here.posterior.mean, atol=1e-12)
    there = np.eye(13) + np.outer(moved.axis, moved.moved)
    factor = np.random.default_rng(4).normal(size=(13, 13))
    given = factor @ factor.T
    np.testing.assert_allclose(moved.covariance_back(there @ given @ there.T), given, atol=1e-9)
    # In the whitened coordinates of a row, the mean has been taken off.
    difference = (before - after) @ here.posterior.turn.T
    np.testing.assert_allclose(difference, np.tile(np.append(0.0, mean), (5, 1)), atol=1e-4)


def test_the_mean_is_released_where_public_rows_are_few():
    def noise(share):
        return 4.0 / float(np.sqrt(float(share)))

    assert centre.centre_share(problem(5, 20).posterior, 10_000, noise) == 0
    few = problem(4, 40).posterior
    shares = [centre.centre_share(few, n, noise) for n in (10, 100, 1000, 10_000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == Fraction(1, 5)
    assert shares[-1] == Fraction(1, 100)
    # With six public rows only where it is cheap.
    between = problem(6, 40).posterior
    assert [centre.centre_share(between, n, noise) for n in (10, 100)] == [0, 0]
    assert centre.centre_share(between, 10_000, noise) == Fraction(1, 100)


def test_few_public_rows_of_a_strong_signal(monkeypatch):
    """100 columns, 10 public rows: without their mean, private rows make the steps overshoot."""
    x, y = rows_and_labels(8_000, 100, 6)
    given = {"x_pub": x[:10].copy(), "y_pub": y[:10].copy(), "budget": ApproxDP(8, 1e-5), "method": "newton"}

    def excess(result):
        return float(np.mean((result.predict(x) - y) ** 2)) - 1.0

    found = seeded(linear_regression, x[10:], y[10:], **given)
    assert found.releases[0]["name"] == "mean of the rows"
    assert len(found.releases) == 129
    assert excess(found) < 0.5
    monkeypatch.setattr(methods, "centre_share", lambda *ignored: Fraction(0))
    assert excess(seeded(linear_regression, x[10:], y[10:], **given)) > 2.0 * excess(found)


class Known:
    mean, variance = np.zeros(50), np.full(50, 0.1)
    unexplained, spread = 1.0, 5.0


def test_noisy_measurements_are_averaged_however_noisy():
    """Noise far above the error that is left: the mean of 32 has a 32nd of the variance of one."""
    rng = np.random.default_rng(6)
    state, truth = State(Known()), rng.normal(size=50) * np.sqrt(0.1)
    for _ in range(32):
        state.add(truth + 5.0 * rng.normal(size=50), np.full(50, 25.0), 0.0)
    np.testing.assert_allclose(state.private_precision, 32 / 25.0)
    assert np.mean((state.private_mean - truth) ** 2) < 1.5 * 25.0 / 32


def test_a_measurement_that_started_far_off_counts_less():
    # What it means to be far off: much farther than the noise says.
    state = State(Known())
    state.add(np.full(50, 20.0), np.full(50, 0.01), 0.0)
    state.add(np.full(50, 30.0), np.full(50, 0.01), 0.0)
    assert np.all(state.private_precision < 1.1 / 0.01)
    assert np.all(state.private_mean > 29.0)
