"""Training by noisy gradients: what comes out, against plain loops and closed forms; what is refused."""

import json

import numpy as np
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from own_losses import Squared
from regression.test_regression import split
from spies import SpyLedger, SpyRows, refused, seeded

from fastpubpriv import ZCDP, ApproxDP, BudgetError, InputError, PureDP, train
from fastpubpriv.results.models import DescentResult
from fastpubpriv.rowwise.losses import LOSSES
from fastpubpriv.training import (
    DPSGD,
    Ball,
    Box,
    Exponential,
    Loss,
    MirrorDescent,
    SemiDP,
    huber_loss,
)

BETA = np.array([1.0, -0.2, 5.0])
APPROX = ApproxDP(1, 1e-6)


def table(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    return x, x @ BETA + 3.0 + rng.normal(size=n)


X, Y = table(6200, 1)
GIVEN = split(X, Y, 200)


def fitted(method, *, budget=APPROX, loss="squared", data=GIVEN, **options):
    return seeded(train, **data, loss=loss, method=method, budget=budget, **options)


def distance(result):
    off = (result.coefficients[0] - BETA) * [1.0, 10.0, 0.1]
    level = result.intercept[0] - 3.0 + (result.coefficients[0] - BETA) @ [0.0, 5.0, 1.0]
    return float(off @ off + level**2)


METHODS = {
    "semi_dp": SemiDP(),
    "dp_sgd": DPSGD(),
    "mirror": MirrorDescent(),
    "poisson": SemiDP(sampling="poisson", batch_rows=300, steps=100),
    "fixed size": SemiDP(sampling="without_replacement", batch_rows=300, steps=60),
    "one pass": SemiDP(sampling="one_pass", batch_rows=300),
    "accelerated": SemiDP(accelerated=True),
    "momentum, suffix": SemiDP(momentum=0.5, average="suffix"),
    "sphere": SemiDP(public_gradient="batch_sphere", priv_weight=[0.5, 0.9], schedule="linear"),
    "inverse variance": SemiDP(priv_weight="inverse_variance", public_batch_rows=50),
}


@pytest.mark.parametrize("name", METHODS)
def test_each_method_beats_the_public_rows(name):
    result = fitted(METHODS[name])
    expected = 4 / 200  # what 200 rows leave on average; the private ones must do far better
    assert distance(result) < 0.2 * expected
    assert result.predicted_excess < 0.3 * expected
    assert result.spent == APPROX
    assert "private" in result.summary()


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(2)], ids=str)
def test_other_budgets(budget):
    assert distance(fitted("semi_dp", budget=budget)) < 0.02
    raises(BudgetError, None, fitted, METHODS["poisson"], budget=budget)


@pytest.mark.statistical
def test_predictions_of_the_error_hold():
    """Forty fits: the mean of the squared errors is within a factor of two of what public rows predicted."""
    found = []
    predicted = []
    for seed in range(40):
        x, y = table(6200, 100 + seed)
        result = fitted("semi_dp", data=split(x, y, 200), budget=ApproxDP(0.3, 1e-6))
        found.append(distance(result))
        predicted.append(result.predicted_excess)
    assert 0.5 < np.mean(predicted) / np.mean(found) < 2.0


def test_without_noise_it_is_clipped_gradient_descent():
    """A budget so large that the noise is nothing, all rows, private gradient only: a plain loop over per-sample gradients."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 4))
    w = np.array([1.0, 2.0, -1.0, 0.0])
    y = x @ w + rng.normal(size=400)
    method = SemiDP(
        steps=20, step_size=0.3, priv_weight=1.0, clip_norm=1.5, start="zero", scaling="none"
    )
    weights = np.zeros(4)
    for _ in range(20):
        gradients = (x @ weights - y)[:, None] * x
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        weights = weights - 0.3 * (gradients * np.minimum(1.0, 1.5 / norms)).mean(axis=0)
    for loss in ("squared", Squared()):
        found = seeded(
            train,
            x,
            y,
            loss=loss,
            x_pub=x[:50] + 0.0,
            y_pub=y[:50],
            budget=ZCDP(10**6),
            method=method,
        )
        np.testing.assert_allclose(found.coefficients[0], weights, atol=3e-5)


def test_accelerated_descent_keeps_its_bound():
    """Noiseless least squares: excess at most 2 nu |w0 - w*|^2 / (T (T + 1)) (Ghadimi and Lan)."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, 6)) * [1.0, 0.5, 0.3, 0.1, 0.05, 0.02]
    w = rng.normal(size=6)
    y = x @ w
    curvature = float(np.linalg.eigvalsh(x.T @ x / 500)[-1])
    for steps in (5, 20, 80):
        method = SemiDP(
            steps=steps,
            step_size=1 / (2 * curvature),
            priv_weight=0.0,
            start="zero",
            scaling="none",
            accelerated=True,
            clip_norm=1.0,
            public_gradient="raw",
        )
        result = train(
            x[:10].copy(), y[:10], loss="squared", x_pub=x, y_pub=y, budget=ZCDP(1), method=method
        )
        excess = 0.5 * float(np.mean((x @ (result.coefficients[0] - w)) ** 2))
        assert excess <= 2 * (2 * curvature) * float(w @ w) / (steps * (steps + 1))
        assert result.spent.amounts == (0,)


def test_no_private_weight_reads_and_spends_nothing():
    log = []
    rows = SpyRows(np.column_stack([X, Y]), log)
    ledger = SpyLedger(ZCDP(5), log)
    method = SemiDP(priv_weight=0.0, steps=10, step_size=0.1)
    results = [
        train(
            rows,
            label=-1,
            loss="squared",
            x_pub=np.column_stack([X, Y])[:200],
            budget=ZCDP(1),
            method=method,
            ledger=ledger,
        )
        for _ in range(2)
    ]
    assert log == []
    np.testing.assert_array_equal(results[0].coefficients, results[1].coefficients)


def test_losses():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(8200, 3))
    scores = x @ [1.0, -1.0, 0.5]
    two = (rng.random(8200) < 1 / (1 + np.exp(-scores))).astype(float)
    three = np.digitize(scores + 0.5 * rng.normal(size=8200), [-0.7, 0.7]).astype(float)
    counts = rng.poisson(np.exp(0.3 * scores)).astype(float)
    heavy = scores + rng.standard_t(2, size=8200)
    labels = {
        "logistic": two,
        "smooth_hinge": two,
        "softmax": three,
        "poisson": counts,
        "huber": heavy,
    }
    for loss, y in labels.items():
        result = fitted("semi_dp", data=split(x, y, 200), loss=loss)
        assert result.loss == loss
        assert DescentResult.from_json(result.to_json()).to_dict() == result.to_dict()
        arrays = (
            "coefficients",
            "intercept",
            "public_coefficients",
            "public_intercept",
            "part_reasons",
        )
        empty = {name: [] for name in arrays}
        raises(InputError, None, DescentResult.from_json, json.dumps(result.to_dict() | empty))
        assert result.predict(x[:5]).shape == (5,)
        if loss in ("logistic", "softmax"):
            np.testing.assert_allclose(result.predict_proba(x).sum(axis=1), 1.0)
        if loss == "poisson":
            np.testing.assert_allclose(result.coefficients[0], [0.3, -0.3, 0.15], atol=0.05)
        elif loss == "huber":
            np.testing.assert_allclose(result.coefficients[0], [1.0, -1.0, 0.5], atol=0.1)
        else:
            known = result.predict(x) == y
            assert known.mean() > (0.72 if loss != "softmax" else 0.74)
    raises(
        InputError,
        "poisson.*gradient method",
        fitted,
        "newton",
        data=split(x, counts, 200),
        loss="poisson",
    )


def test_losses_of_a_user_and_their_failures():
    quantile = Loss(
        name="0.9 quantile", residual=lambda prediction, label: 0.9 if label > prediction else -0.1
    )
    method = SemiDP(steps=60, step_size=0.3, priv_weight=0.9, schedule="inverse_root")
    assert np.mean(fitted(method, loss=quantile).predict(X) > Y) == pytest.approx(0.9, abs=0.03)
    # A loss that fails is found before the debit.
    log = []
    method = SemiDP(steps=2, step_size=0.1, priv_weight=0.5)
    given = {**GIVEN, "budget": ZCDP(1), "method": method}
    rows = SpyRows(given.pop("x_priv"), log)
    for loss in (
        Loss(
            name="words",
            residual=lambda prediction, label: str(prediction),
            residuals=lambda p, y: y - p,
        ),
        Loss(name="numbers", residual=lambda prediction: prediction, residuals=lambda p, y: y - p),
    ):
        raises(
            InputError,
            "first public row",
            train,
            rows,
            loss=loss,
            ledger=SpyLedger(ZCDP(5), log),
            **given,
        )
    assert log == []


def test_projections_penalties_and_thresholds():
    result = fitted(SemiDP(projection=Ball(radius=0.01), steps=5, step_size=0.3, priv_weight=1.0))
    start = fitted(SemiDP(priv_weight=0.0, steps=1, step_size=1e-9)).weights
    assert np.linalg.norm(result.weights - start) <= 0.01 * (1 + 1e-12)
    boxed = fitted(
        SemiDP(projection=Box(lower=-0.2, upper=0.2), steps=5, step_size=0.3, priv_weight=1.0)
    )
    assert np.all(np.abs(boxed.weights) <= 0.2)
    small = fitted(SemiDP(l2=10.0, steps=20, step_size=0.05, priv_weight=1.0))
    assert np.all(np.abs(small.coefficients) < np.abs(fitted("semi_dp").coefficients))
    # The loss of huber has a threshold.
    wide = fitted("semi_dp", loss=huber_loss(100.0))
    np.testing.assert_allclose(
        wide.coefficients, fitted("semi_dp").coefficients, rtol=0.05, atol=0.05
    )
    raises(InputError, "threshold", huber_loss, 0.0)
    assert set(LOSSES) == {"squared", "logistic", "softmax", "huber", "smooth_hinge", "poisson"}


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(2), APPROX], ids=str)
def test_a_choice_among_public_models(budget):
    rng = np.random.default_rng(9)
    x = rng.normal(size=(20_020, 1))
    data = split(x, 2.0 * x[:, 0] + 1.0 + rng.normal(size=20_020), 20)
    result = fitted("exponential", data=data, budget=budget)
    ends = (
        (result.coefficients, result.intercept),
        (result.public_coefficients, result.public_intercept),
    )
    off, alone = ((slopes[0, 0] - 2.0) ** 2 + (start[0] - 1.0) ** 2 for slopes, start in ends)
    assert off < 0.02
    assert off < alone
    assert result.spent == (PureDP(1) if budget is APPROX else budget)
    assert [each["name"] for each in result.releases] == ["model"]
    assert DescentResult.from_json(result.to_json()).to_dict() == result.to_dict()
    listed = np.array([[0.0, 0.0], result.weights, [1.0, -1.0]])
    again = fitted(Exponential(candidates=listed), data=data, budget=PureDP(2))
    np.testing.assert_array_equal(again.weights, listed[1])


REFUSED = Refusals()
REFUSED.add("candidates", Exponential(candidates=np.zeros((3, 9))))
REFUSED.add("candidates", Exponential(candidates="many"))
REFUSED.add("finite", Exponential(candidates=np.full((2, 4), np.nan)))
REFUSED.add("same loss", Exponential(candidates=np.zeros((2, 4))))
REFUSED.add("one prediction", Exponential(), loss=Squared())
REFUSED.add("public rows", Exponential(), loss="softmax", classes=[1, 2, 3])


@pytest.mark.parametrize(
    ("method", "options", "words"),
    REFUSED,
    ids=["width", "a word", "not finite", "equal", "loss of rows", "softmax"],
)
def test_choices_that_are_refused(method, options, words):
    refused(
        train, words, method=method, **{**GIVEN, "loss": "squared", "budget": APPROX, **options}
    )


def test_coefficients_of_categories_are_about_their_public_mean():
    """A move of all levels against the intercept changes no prediction: both kinds of results choose the same one."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, 6000)
    x = rng.normal(size=6000)
    y = np.array([1.0, 5.0, -2.0])[codes] + x + rng.normal(size=6000)
    data = np.column_stack([codes, x])
    public = slice(0, 300)
    for method in ("semi_dp", "pda_mirror_descent"):
        result = fitted(method, data=split(data, y, 300), categories={"x0": "public"})
        shares = np.array([np.mean(data[public, 0] == level) for level in range(3)])
        assert abs(result.coefficients[0, :3] @ shares) < 1e-9
        assert abs(result.public_coefficients[0, :3] @ shares) < 1e-9
        levels = result.predict(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))
        np.testing.assert_allclose(levels, [1.0, 5.0, -2.0], atol=0.5)
