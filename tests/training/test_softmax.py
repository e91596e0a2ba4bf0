"""Softmax regression aims at the maximum likelihood of all private rows: oracles, intervals, and planted faults."""

import dataclasses

import numpy as np
import pytest
from helpers.errors import raises
from regression import test_coefficients as exact
from regression.test_regression import split
from scipy import linalg, optimize
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, PureDP, train
from fastpubpriv.privacy.spending import GaussianSpending
from fastpubpriv.results.base import shown
from fastpubpriv.training import softmax
from fastpubpriv.training.softmax import RowOfClasses

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
HUGE = ZCDP(1e6)
WEIGHTS = np.array([[1.0, -1.0], [-0.5, 1.0], [-0.5, 0.0]])


def classes(seed, n=6000, heavy=False):
    rng = np.random.default_rng([6, seed])
    x = rng.normal(size=(n, 2))
    scores = x @ WEIGHTS.T + [0.5, 0.0, -0.5] + rng.gumbel(size=(n, 3))
    return (np.exp(x) if heavy else x) * [1.0, 10.0], scores.argmax(axis=1).astype(float)


def likeliest(x, y, free=3):
    """Slopes (3, columns) of the maximum likelihood that add up to zero, and their sandwich deviations."""
    scale = x.std(axis=0)
    rows = np.column_stack([np.ones(len(x)), x / scale])
    hot = y[:, None] == np.arange(free)
    basis = np.kron(linalg.helmert(free).T, np.eye(rows.shape[1]))

    def chances(theta):
        scores = rows @ (basis @ theta).reshape(free, -1).T
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)

    def loss(theta):
        p = chances(theta)
        return -np.log(p[hot]).mean(), -basis.T @ ((hot - p).T @ rows).ravel() / len(x)

    theta = optimize.minimize(
        loss, np.zeros(basis.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}
    ).x
    p = chances(theta)
    bend = np.einsum(
        "na,nab,nd,ne->adbe",
        np.ones((len(x), free)),
        p[:, :, None] * (np.eye(free) - p[:, None]),
        rows,
        rows,
    )
    bend = basis.T @ bend.reshape(len(basis), -1) @ basis
    scores = np.einsum("na,nd->nad", hot - p, rows).reshape(len(x), -1) @ basis
    spread = basis @ np.linalg.inv(bend) @ scores.T @ scores @ np.linalg.inv(bend) @ basis.T
    found = [(basis @ theta).reshape(free, -1), np.sqrt(np.diag(spread)).reshape(free, -1)]
    return [each[:, 1:] / scale for each in found]


def fitted(x, y, m, **given):
    return seeded(train, **split(x, y, m), loss="softmax", **{"budget": HUGE, **given})


@pytest.mark.parametrize("heavy", [False, True])
def test_without_noise_the_answer_is_the_likeliest(heavy):
    x, y = classes(0, heavy=heavy)
    result = fitted(x, y, 200)
    wanted, _ = likeliest(x[200:], y[200:])
    assert result.method == "newton"
    assert np.allclose(result.coefficients.sum(axis=0), 0.0, atol=1e-9)
    errors = []
    for seed in range(4):
        rows, labels = classes(seed, heavy=heavy)
        likely, deviation = likeliest(rows[200:], labels[200:])
        errors.append(np.abs(fitted(rows, labels, 200).coefficients - likely) / deviation)
    assert np.median(errors) < (0.6 if heavy else 0.4)
    lower, upper = result.confidence_interval()
    assert np.mean((lower < wanted) & (wanted < upper)) > 0.8
    ends = [
        np.array(dict(column[:2] for column in shown(result, level)[0].columns)["upper"])
        for level in (0.5, 0.95)
    ]
    assert np.all(ends[0] < ends[1])
    light = fitted(x, y, 200, tails="light")
    assert light.method in ("semi_dp", "pda_mirror_descent")
    assert light.part_reasons == ()
    assert np.isnan(light.confidence_interval()[0]).all()


def covered(budget):
    return exact.covered(budget, 200, 3, law=classes, fit=fitted, best=likeliest)


@pytest.mark.parametrize("budget", [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(2)], ids=str)
def test_intervals_hold(budget):
    share, error = covered(budget)
    assert share >= 0.9
    assert error < 3.0


def test_a_planted_fault_is_seen(monkeypatch):
    """With the bound of Boehning in place of the curvature steps are too short."""
    right = covered(ZCDP(50))
    true = softmax._measure_curvature

    def bound(run, plan, slope, rows, again):
        found = true(run, plan, slope, rows, again)
        made = plan.known.contrasts
        half = 0.5 * made.T @ (np.eye(len(made)) - 1.0 / len(made)) @ made
        return dataclasses.replace(found, matrix=np.kron(half, np.eye(slope.shape[1])))

    monkeypatch.setattr(softmax, "_measure_curvature", bound)
    monkeypatch.setattr(softmax.tuning, "SOFTMAX_STEPS", 1)
    wrong = covered(ZCDP(50))
    assert right[0] >= 0.9
    assert wrong[1] > 1.5 * right[1]


def test_a_row_is_its_score_and_its_second_derivative():
    rng = np.random.default_rng(3)
    made = linalg.helmert(4).T
    slope = rng.normal(size=(3, 2))
    chunk = np.column_stack(
        [rng.normal(size=(9, 2)), np.r_[np.arange(4), np.arange(4), np.nan]]
    ).astype(np.float32)
    score = RowOfClasses(contrasts=made, slope=slope, step=0.5)
    bend = RowOfClasses(contrasts=made, slope=slope, step=0.5, curvature=True)
    found = score(chunk)
    bent = bend(chunk)
    assert not found[8].any()  # no class
    assert not bent[8].any()
    for row in range(9):  # alone and in company
        assert np.array_equal(score(chunk[row : row + 1])[0], found[row])
        assert np.array_equal(bend(chunk[row : row + 1])[0], bent[row])
    small = 1e-5
    for k in range(6):
        moved = slope + small * np.eye(6)[k].reshape(3, 2)
        change = (
            RowOfClasses(contrasts=made, slope=moved, step=0.5)(chunk)[:8] - found[:8]
        ) / small
        for row in range(8):
            assert np.allclose(bend.matrix(bent[row])[k], -change[row], atol=1e-4)
    assert np.allclose(np.sum(bent[0] ** 2), np.sum(bend.matrix(bent[0]) ** 2))


def test_hostile_rows_are_zero():
    chunk = np.array(
        [[np.nan, 1, 0], [np.inf, 1, 1], [1e30, -1e30, 2], [1, 1, 7], [1, 1, -np.inf]],
        dtype=np.float32,
    )
    for curvature in (False, True):
        row = RowOfClasses(
            contrasts=linalg.helmert(3).T, slope=np.ones((2, 2)), step=1.0, curvature=curvature
        )
        found = row(chunk)
        assert np.isfinite(found).all()
        assert not found[[0, 1, 3, 4]].any()


def test_what_cannot_be_exact():
    x, y = classes(2, 1000)
    # five public rows for each coefficient
    assert fitted(x, y, 25, budget=ZCDP(5)).method in ("semi_dp", "throw_away")
    raises(InputError, "public rows for each", fitted, x, y, 25, budget=ZCDP(5), method="newton")


def test_auto_takes_the_public_rows_if_no_grid_is_fine_enough(monkeypatch):
    def none(*_, **__):
        raise InputError("no integer grid")

    monkeypatch.setattr(GaussianSpending, "grid", none)
    x, y = classes(2, 1000)
    for loss in ("softmax", "squared"):
        given = {**split(x, y, 200), "loss": loss, "budget": ZCDP(5)}
        assert train(**given).method == "throw_away"
        raises(InputError, "no integer grid", train, **given, method="newton")
