"""Output perturbation: the iterate against the closed form, its sensitivity, and the planted fault."""

import math

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at

from fastpubpriv import ZCDP, PureDP, ReplayError, train
from fastpubpriv.auditing import record_replay
from fastpubpriv.mechanisms.gradient_sums import WeightedMinimum
from fastpubpriv.rowwise.losses import LOSSES
from fastpubpriv.training import OutputPerturbation

pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)
RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 3))
Y = X @ [1.0, -2.0, 0.5] + 3.0 + RNG.normal(size=400)
METHOD = OutputPerturbation(l2=0.5, steps=30, priv_weight=0.8)
CURVATURES = {"logistic": 0.25, "huber": 1.0, "smooth_hinge": 1.0}
SLOPES = {"logistic": 1.0, "huber": 1.345, "smooth_hinge": 1.0}


def minimum(public, *, loss="huber", steps=400, l2=0.5, priv_weight=0.7, radius=1.5):
    return WeightedMinimum(
        start=np.linspace(-0.1, 0.1, public.shape[1] - 1),
        public=public,
        residual=LOSSES[loss].residual,
        slope=SLOPES[loss],
        curvature=CURVATURES[loss],
        radius=radius,
        priv_weight=priv_weight,
        l2=l2,
        steps=steps,
    )


def end(problem, rows):
    def sums(query):
        found = query.zeros()
        query.add(rows, found)
        return found[0]

    return problem.descend(sums, len(rows))


def short(n, seed, labels=1.0):
    """Rows of norm at most 1, labels near zero or in {0, 1}."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 4))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return np.column_stack(
        [rows, labels * rng.uniform(-0.3, 0.3, n) if labels else rng.integers(0, 2, n)]
    )


def test_the_iterate_is_the_ridge_regression_of_the_closed_form():
    """Residuals stay below the threshold, where the Huber loss is a square."""
    private = short(500, 1)
    public = short(60, 2)
    problem = minimum(public)
    second = np.zeros((4, 4))
    first = np.zeros(4)
    for rows, weight in ((private, 0.7), (public, 0.3)):
        x = rows[:, :-1]
        y = rows[:, -1]
        second += weight * x.T @ x / len(x)
        first += weight * x.T @ (y - x @ problem.start) / len(x)
    expected = np.linalg.solve(second + 0.5 * np.eye(4), first)
    assert (
        np.linalg.norm(end(problem, private) - expected)
        <= problem.gradient_error() / problem.l2 + 1e-12
    )


@pytest.mark.parametrize("loss", ["logistic", "huber", "smooth_hinge"])
@pytest.mark.parametrize("steps", [1, 3, 200])
def test_neighbors_end_no_farther_apart_than_declared(loss, steps):
    rng = np.random.default_rng(6)
    public = short(20, 3, 0.0 if loss != "huber" else 1.0)
    for trial in range(10):
        problem = minimum(public, loss=loss, steps=steps, l2=10.0 ** -(trial % 4), radius=1.0)
        rows = short(30, trial, 0.0 if loss != "huber" else 1.0)
        opposite = [*(-rows[7, :-1]), rng.integers(0, 2)]
        rows, other = pair_at(rows, 7, opposite if trial % 3 else [0.0, 0.0, 0.0, 0.0, np.nan])
        assert np.linalg.norm(end(problem, rows) - end(problem, other)) <= problem.distance(30)
        assert np.linalg.norm(end(problem, rows)) <= problem.reach


def test_opposite_rows_come_near_the_declared_distance():
    """All rows but one are zero, and its residual stays at the threshold."""
    rows, other = pair_at(
        np.zeros((10, 5)), 0, [1.5, 0.0, 0.0, 0.0, 1e9], [1.5, 0.0, 0.0, 0.0, -1e9]
    )
    problem = minimum(np.zeros((3, 5)), steps=400)
    assert (
        0.999
        < np.linalg.norm(end(problem, rows) - end(problem, other)) / problem.distance(10)
        <= 1.0
    )


FAR_APART = pair_at(
    np.tile([0.0, 0.0, 0.0, 3.0], (40, 1)), 0, [9.0, 0.0, 0.0, 1e9], [9.0, 0.0, 0.0, -1e9]
)


def run(x):
    public = np.column_stack([X, Y])
    return train(
        x,
        label=-1,
        loss="huber",
        x_pub=public,
        budget=ZCDP(0.5),
        method=METHOD,
        threads=1,
        progress=False,
    )


def test_half_the_sensitivity_is_caught(monkeypatch):
    report = record_replay(run, *FAR_APART, budget=ZCDP(0.5))
    assert report.tightness <= 1.0
    plain = WeightedMinimum.distance
    monkeypatch.setattr(
        WeightedMinimum,
        "distance",
        lambda self, n: plain(self, n) * math.sqrt(report.tightness) / 1.1,
    )
    raises(ReplayError, r"moved by|sensitivity", record_replay, run, *FAR_APART, budget=ZCDP(0.5))


def test_the_noise_is_that_of_the_sensitivity():
    given = {
        "loss": "huber",
        "x_pub": X[:50].copy(),
        "y_pub": Y[:50],
        "method": METHOD,
        "progress": False,
    }
    gaussian = train(X[50:], Y[50:], budget=ZCDP(0.5), **given)
    distance = 2.0 * 0.8 * gaussian.clip_norm / (350 * 0.5)
    assert 1.0 <= gaussian.noise_std / distance < 1.01
    pure = train(X[50:], Y[50:], budget=PureDP(1), **given)
    # l1 by Cauchy-Schwarz, four weights
    assert 1.0 <= pure.noise_std / (distance * math.sqrt(4) * math.sqrt(2.0)) < 1.01
    assert gaussian.method == "output_perturbation"
    assert gaussian.steps == 30
