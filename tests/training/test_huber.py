"""Newton steps for the Huber loss: the coefficients it has without privacy, labels far out, intervals, and its public fit."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize
from spies import seeded

from fastpubpriv import ApproxDP, linear_regression, train
from fastpubpriv.results.models import TrainingResult
from fastpubpriv.training import SemiDP, huber_loss, methods
from fastpubpriv.training.design import make_design
from fastpubpriv.training.public_huber import huber_posterior
from fastpubpriv.training.public_linear import linear_posterior
from fastpubpriv.training.whitening import Whitener

STRONG = ApproxDP(4, 1e-5)
BETA = np.array([1.0, -2.0, 0.5])


def split(x, y, m):
    return {"x_priv": x[m:], "y_priv": y[m:], "x_pub": x[:m].copy(), "y_pub": y[:m].copy()}


def table(n, seed, noise):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ (np.eye(3) + 0.4 * np.tri(3)).T * [1.0, 10.0, 0.1] + [0.0, 5.0, 2.0]
    return x, x @ (BETA / [1.0, 10.0, 0.1]) + 7.0 + noise(rng, n)


def contaminated(rng, n):
    """One label in ten is wrong, and always upwards."""
    return rng.normal(size=n) + np.where(rng.random(n) < 0.1, np.abs(rng.normal(size=n)) * 30.0, 0.0)


def without_privacy(x, y, threshold):
    rows = np.column_stack([np.ones(len(x)), x])

    def value(w):
        left = np.abs(y - rows @ w)
        each = np.where(left <= threshold, 0.5 * left**2, threshold * (left - 0.5 * threshold))
        slope = -rows.T @ np.clip(y - rows @ w, -threshold, threshold)
        return each.sum() / len(x), slope / len(x)

    return optimize.minimize(value, np.linalg.lstsq(rows, y, rcond=None)[0], jac=True, options={"gtol": 1e-9}).x


@pytest.mark.parametrize("threshold", [1.345, 0.1])
def test_coefficients_are_those_of_the_loss_without_privacy(threshold):
    x, y = table(20_300, 1, contaminated)
    result = seeded(train, **split(x, y, 300), loss=huber_loss(threshold), budget=STRONG, method="newton")
    assert isinstance(result, TrainingResult)
    assert TrainingResult.from_json(result.to_json()).to_dict() == result.to_dict()
    assert (result.loss, result.method) == ("huber", "newton")
    wanted = without_privacy(x, y, threshold * y[:300].std())
    off = np.append(result.intercept, result.coefficients) - wanted
    # Both see the same rows, and noise is what sets them apart.
    assert np.all(np.abs(off) < 4.0 * np.sqrt(np.diag(result.covariance)))
    alone = np.append(result.public_intercept, result.public_coefficients)
    assert np.abs(alone - wanted)[1:] @ [1.0, 10.0, 0.1] > 2.0 * np.abs(off)[1:] @ [1.0, 10.0, 0.1]
    assert result.predicted_excess < 0.2 * result.public_excess
    assert "Huber loss" in result.summary()


def test_labels_that_are_wrong_move_it_less_than_least_squares():
    x, y = table(20_300, 2, contaminated)
    given = {**split(x, y, 300), "budget": STRONG}
    robust = seeded(train, **given, loss=huber_loss(0.1), method="newton")
    squares = seeded(linear_regression, **given, method="newton")
    assert abs(robust.intercept - 7.0) < 0.5 < 1.0 < abs(squares.intercept - 7.0)
    assert np.all(robust.standard_error < 0.5 * squares.standard_error)


def test_auto_takes_it_and_noisy_gradients_aim_at_the_same():
    x, y = table(8_200, 3, lambda rng, n: rng.standard_t(2, size=n))
    given = {**split(x, y, 200), "loss": "huber", "budget": STRONG}
    found = seeded(train, **given)
    assert found.method == "newton"
    steps = seeded(train, **given, method=SemiDP())
    np.testing.assert_allclose(steps.coefficients[0], found.coefficients, atol=5.0 * np.max(found.standard_error))
    # A bound that no residual reaches is least squares.
    wide = seeded(train, **{**given, "loss": huber_loss(1e6)}, method="throw_away")
    plain = seeded(linear_regression, **split(x, y, 200), budget=STRONG, method="throw_away")
    np.testing.assert_allclose(wide.coefficients, plain.coefficients, rtol=1e-5)


def test_few_public_rows_weights_and_equal_labels():
    x, y = table(5_000, 4, contaminated)
    many = np.column_stack([x, np.random.default_rng(5).normal(size=(5_000, 40))])
    few = seeded(train, **split(many, y, 20), loss="huber", budget=STRONG, method="newton")
    assert np.isfinite(few.coefficients).all()
    weights = np.random.default_rng(6).random(5_000)
    weighted = seeded(
        train, **split(x, y, 200), loss="huber", budget=STRONG, method="newton", weights_priv=weights[200:],
        weights_pub=weights[:200], weight_cap=1.0,
    )  # fmt: skip
    assert np.all(np.abs(weighted.coefficients * [1.0, 10.0, 0.1] - BETA) < 0.4)
    equal = {**split(x, y, 200), "y_pub": np.full(200, 2.0)}
    blank = seeded(train, **equal, y_scale=5.0, loss="huber", budget=STRONG, method="newton")
    assert np.isfinite(blank.covariance).all()


@pytest.mark.parametrize("m", [6, 300])
def test_the_public_fit_is_the_minimum_of_the_public_loss(m):
    x, y = table(m, 7, contaminated)
    design, _ = make_design(x, ["a", "b", "c"], None, None, {})
    terms, labels, ones = design.standardise(x), (y - y.mean()) / y.std(), np.ones(m)
    whitener = Whitener.of(terms, ones)
    found = huber_posterior(terms, labels, ones, whitener, threshold=0.3)
    left = labels - found.rows @ found.mean
    inside = np.mean(np.abs(left) < 0.3)
    # Its labels are those of least squares with the same prior: the slope of loss and prior together is zero.
    shortened = labels - left + np.clip(left, -0.3, 0.3) / max(inside, 0.05)
    again = linear_posterior(terms, shortened, ones, whitener)
    np.testing.assert_allclose(found.turn @ found.mean, again.turn @ again.mean, atol=1e-3)
    np.testing.assert_allclose(found.labels, labels)


def covered(seeds):
    """Fits of nine columns with labels that are wrong in a tenth of the rows: coverage, the excess, and its prediction."""
    mixing = np.linalg.cholesky(np.full((9, 9), 0.5) + 0.5 * np.eye(9))
    hits, excess, predicted = [], [], []
    for seed in range(seeds):
        rng = np.random.default_rng([8, seed])
        beta, x = rng.normal(size=9), rng.normal(size=(20_500, 9)) @ mixing.T
        noise = rng.normal(size=20_500) * np.where(rng.random(20_500) < 0.1, 20.0, 1.0)
        result = seeded(
            train,
            **split(x, x @ beta + 2.0 + noise, 500),
            loss=huber_loss(0.2),
            budget=ApproxDP(0.5, 1e-5),
            method="newton",
        )
        lower, upper = result.confidence_interval()
        hits += list((lower < beta) & (beta < upper))
        hits.append(abs(result.intercept - 2.0) < 1.96 * result.intercept_error)
        off = result.coefficients - beta
        excess.append(np.sum((mixing.T @ off) ** 2) + (result.intercept - 2.0) ** 2)
        predicted.append(result.predicted_excess)
    return float(np.mean(hits)), float(np.mean(excess)), float(np.mean(predicted))


@pytest.mark.statistical
def test_intervals_cover():
    """800 numbers: a true coverage of .95 has a standard deviation of .008. A residual is within the bound in .78 of the rows."""
    coverage, excess, predicted = covered(80)
    assert 0.92 < coverage < 0.98
    assert 0.6 < predicted / (0.5 * 0.8 * excess) < 1.7


@pytest.mark.statistical
def test_planted_fault_an_ordinary_clip_in_place_of_the_bound_is_seen(monkeypatch):
    """A slope of the clipped equation of twice its size: steps cover half of the way, and errors are stated half as large."""
    plain = methods.steps.plan_newton

    class Twice:
        def __init__(self, bound):
            self.bound, self.bias_sq, self.unseen_sq = bound, 0.0, 0.0

        def at(self, size):
            found = self.bound.at(size)
            return replace(found, inside=2.0 * found.inside)

    def planned(posterior, *given):
        found = plain(posterior, *given)
        return replace(found, clip=Twice(found.clip))

    monkeypatch.setattr(methods.steps, "plan_newton", planned)
    assert covered(30)[0] < 0.9
