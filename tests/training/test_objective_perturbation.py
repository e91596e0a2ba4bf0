"""Objective perturbation in `train`: replay on neighbours with planted faults, the law of what comes out, and bad input."""

import math
import pickle

import numpy as np
import pytest
from scipy import stats
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BudgetError,
    ExperimentalWarning,
    InputError,
    Ledger,
    PureDP,
    ReplayError,
    plan,
    train,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.kernels import noise
from fastpubpriv.losses import LOSSES
from fastpubpriv.mechanisms import objectives
from fastpubpriv.mechanisms.objectives import PerturbedMinimum, PrivateLoss
from fastpubpriv.sources import Rows
from fastpubpriv.training import ObjectivePerturbation, huber_loss

pytestmark = [
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.ExperimentalWarning"),
]
RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 3))
Y = X @ [1.0, -2.0, 0.5] + 3.0 + RNG.normal(size=400)
BUDGET = PureDP(4)
METHOD = ObjectivePerturbation(l2=0.05, priv_weight=0.8)


def run(x, budget=BUDGET, method=METHOD, **more):
    public = np.column_stack([X, Y])
    given = {"label": -1, "x_pub": public, "loss": "huber", "threads": 1, "progress": False}
    return train(x, budget=budget, method=method, **(given | more))


def neighbours(other_label=-1e9):
    rows = np.column_stack([RNG.normal(size=(60, 3)), np.full(60, 3.0)])
    other = rows.copy()
    rows[0], other[0] = [9.0, 9.0, 9.0, 1e9], [9.0, 9.0, 9.0, other_label]
    return rows, other


@pytest.mark.parametrize("budget", [BUDGET, ZCDP(2), ApproxDP(4, 1e-6)])
def test_record_and_replay(budget):
    spent = PureDP(4) if isinstance(budget, ApproxDP) else budget
    report = record_replay(lambda x: run(x, budget), *neighbours(), budget=spent)
    assert report.calls == 1
    # A long row with its residual at the bound on either side; a rho grows as the square of an epsilon.
    assert (0.05 if isinstance(budget, ZCDP) else 0.25) < report.tightness <= 1.0
    assert report.declared_cost <= report.allowance


def test_neither_pieces_nor_threads_change_a_bit():
    rows = neighbours()[0]
    one = seeded(run, rows, random_state=3)
    np.testing.assert_array_equal(seeded(run, rows, random_state=3, threads=3).weights, one.weights)
    cut = Rows.from_chunks(lambda: (rows[at : at + 7] for at in range(0, 60, 7)), n=60, dim=4)
    np.testing.assert_array_equal(seeded(run, cut, random_state=3).weights, one.weights)
    record_replay(lambda x: run(x), rows, rows.copy(), budget=BUDGET, pieces=7)


def bent():
    """A row that the loss does not know, and one near the line in its place: beside it only lost rows have a second derivative."""
    rows = np.column_stack([RNG.normal(size=(60, 3)), np.full(60, np.nan)])
    other = rows.copy()
    other[0] = [1.0, -1.0, 1.0, 3.0 + 1.0 + 2.0 + 0.5]
    return rows, other


def sure(x, **more):
    return run(x, PureDP(20), ObjectivePerturbation(l2=0.5, priv_weight=0.8, **more))


def hasty(x):
    return sure(x, steps=1)


def test_a_determinant_that_is_not_paid_for_is_caught(monkeypatch):
    record_replay(sure, *bent(), budget=PureDP(20))
    monkeypatch.setattr(PerturbedMinimum, "curvature_ratio", lambda self, n: objectives.Fraction(1, 10**6))
    with pytest.raises(ReplayError, match="log-determinant"):
        record_replay(sure, *bent(), budget=PureDP(20))


def test_half_the_length_of_a_gradient_is_caught(monkeypatch):
    plain = PerturbedMinimum.gradient_change
    monkeypatch.setattr(PerturbedMinimum, "gradient_change", lambda self, n: 0.5 * plain(self, n))
    with pytest.raises(ReplayError, match="moved by"):
        record_replay(run, *neighbours(), budget=BUDGET)


def test_a_search_that_stops_early_is_caught(monkeypatch):
    """The noise on the minimum covers what the declared error leaves; a solver that leaves more moves it by more."""

    def few(self, pushed):
        moved = np.zeros(len(pushed))
        for _ in range(5):
            moved = moved + self.problem.step_size * self._down(moved, pushed)[0]
        return moved

    monkeypatch.setattr(objectives, "_PATIENCE", 1)
    record_replay(hasty, *bent(), budget=PureDP(20))  # many gradient steps, and sure
    monkeypatch.setattr(PrivateLoss, "_descend", few)
    with pytest.raises(ReplayError, match="moved by"):
        record_replay(hasty, *bent(), budget=PureDP(20))


def test_what_depends_on_the_secret_alone_is_not_compared(monkeypatch):
    """The secrets of two neighbours differ; forced answers would hide that, so they are compared where they lead."""
    told = []
    plain = objectives.ObjectiveEvent.pair_cost

    def keep(self, query, other, notion):
        told.append((query, other))
        return plain(self, query, other, notion)

    monkeypatch.setattr(objectives.ObjectiveEvent, "pair_cost", keep)
    record_replay(run, *neighbours(), budget=BUDGET)
    ((one, other),) = told
    assert np.all(one[:4] != other[:4])
    assert np.abs(one[4:8] - other[4:8]).max() < 2**20  # while the minima agree to what is computed


def test_the_result_holds_no_secret():
    drawn = []
    plain = PrivateLoss.solve

    def keep(self, secret):
        drawn.append(secret.copy())
        return plain(self, secret)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PrivateLoss, "solve", keep)
        result = run(neighbours()[0])
    texts = repr(result), str(result.to_dict()), result.to_json(), repr(pickle.loads(pickle.dumps(result)).to_dict())
    (secret,) = drawn
    assert all(str(int(each)) not in text for each in secret for text in texts)
    assert secret.tobytes() not in pickle.dumps(result)
    assert [release["name"] for release in result.releases] == ["minimum"]


def exact_law(problem, found, rows, points):
    """P(minimum <= w) in one dimension: that of a secret at least minus the gradient at w."""
    slopes = []
    for w in points:
        parts = []
        for table in (rows, problem.public):
            residual = np.clip(table[:, 1] - table[:, 0] * (problem.start + w), -1.345, 1.345)
            parts.append(-float(np.mean(residual * table[:, 0])))
        slopes.append(problem.priv_weight * parts[0] + (1.0 - problem.priv_weight) * parts[1] + problem.l2 * w)
    return stats.laplace.cdf(np.array(slopes), scale=found.secret_unit * 2.0**32)


def drawn_law(count, rows, public, seed, factor=1.0):
    """The p-value of what comes out of many releases on one weight, against the law of the exact minimum."""
    problem = PerturbedMinimum(
        start=np.array([0.2]), public=public, loss=LOSSES["huber"], radius=1.0, priv_weight=0.7, l2=0.2,
        steps=8, computed_share=0.1,
    )  # fmt: skip
    found = problem.noise(objectives.Fraction(2), len(rows))

    def ask(query):
        sums = query.zeros()
        query.add(rows, sums)
        return sums

    loss = PrivateLoss(problem=problem, n=len(rows), secret_unit=found.secret_unit, unit=found.unit, ask=ask)
    key = np.random.default_rng(seed).bytes(32)
    secrets = (noise.discrete_laplace(key, count, 32) * factor).astype(np.int64)
    minima = np.array([loss.in_steps(loss.solve(each[None]))[0] * found.unit for each in secrets])
    return stats.kstest(exact_law(problem, found, rows, minima), "uniform").pvalue


@pytest.mark.parametrize("count", [300, pytest.param(6000, marks=pytest.mark.statistical)])
def test_minima_have_the_law_of_the_density(count):
    """At a rate of false alarms of 1e-9; a secret of seven tenths of its scale is the planted fault of the large run."""
    rng = np.random.default_rng(8)
    rows, public = rng.uniform(-1.0, 1.0, size=(30, 2)), rng.uniform(-1.0, 1.0, size=(8, 2))
    rows[:, 1] += 2.0 * np.sign(rows[:, 0])  # residuals at and beyond the bound
    assert drawn_law(count, rows, public, 1) > 1e-9
    assert drawn_law(count, rows, public, 1, factor=0.7 if count > 1000 else 0.3) < 1e-9


def test_the_error_is_about_what_is_predicted():
    """Medians of five runs."""
    rng = np.random.default_rng(3)
    truth = np.array([1.0, -1.0, 0.5])
    found, told = [], []
    for seed in range(5):
        x = rng.normal(size=(4060, 3))
        y = x @ truth + rng.normal(size=4060)
        given = {"x_pub": x[:60].copy(), "y_pub": y[:60], "loss": "huber", "budget": PureDP(1)}
        made = seeded(train, x[60:], y[60:], method="objective_perturbation", random_state=seed, **given)
        gap = np.array([*(made.coefficients[0] - truth), made.intercept[0]])
        # Of the Huber loss at unit noise: its mean second derivative is the chance of a residual within the bound.
        found.append(0.5 * (2.0 * stats.norm.cdf(1.345) - 1.0) * float(gap @ gap))
        told.append(made.predicted_excess)
    assert 0.4 < np.median(found) / np.median(told) < 2.0
    assert np.median(told) < 0.5 * made.public_excess


def test_it_is_closer_than_output_perturbation():
    for loss in ("huber", "logistic", "smooth_hinge"):
        y = Y if loss == "huber" else (Y > 3.0) * 1.0
        given = {"x_pub": X[:50].copy(), "y_pub": y[:50], "loss": loss, "budget": PureDP(2), "progress": False}
        errors = [
            seeded(train, X[50:], y[50:], method=name, **given).predicted_excess
            for name in ("objective_perturbation", "output_perturbation")
        ]
        assert errors[0] < 0.8 * errors[1]


def test_it_says_that_it_is_experimental():
    with pytest.warns(ExperimentalWarning, match="objective_perturbation' is experimental"):
        run(neighbours()[0])
    with pytest.warns(ExperimentalWarning, match="objective_perturbation.md"):
        run(neighbours()[0])


def test_a_plan_says_nothing_of_the_sort(recwarn):
    found = plan("train", dim=3, n_pub=40, n_priv=2000, budget=PureDP(1), loss="logistic")
    assert found.details["objective_perturbation"] < found.details["output_perturbation"]
    assert not [each for each in recwarn if each.category is ExperimentalWarning]


def test_facts_of_the_result():
    found = run(neighbours()[0])
    assert (found.method, found.steps, found.priv_weight) == ("objective_perturbation", 24, 0.8)
    (release,) = found.releases
    assert release["noise"] == "secret discrete laplace"
    assert 0 < release["epsilon"] <= 4
    assert found.numerics["noise_draws"] == 8
    # On a sum of gradients: sqrt(2) l1 sensitivities, by Cauchy and Schwarz in four weights, over the secret's part of epsilon.
    assert found.noise_std > math.sqrt(2.0) * 2.0 * found.clip_norm * 2.0 / 4.0
    spent = run(neighbours()[0], ApproxDP(4, 1e-6)).spent
    assert spent == PureDP(4)


@pytest.mark.parametrize("loss", ["squared", "poisson", "softmax", huber_loss(1.0)])
def test_losses_without_a_known_bound_are_refused_before_the_debit(loss):
    ledger, labels = Ledger(PureDP(1)), np.abs(np.rint(Y))
    given = {"x_pub": X.copy(), "y_pub": labels, "budget": PureDP(1), "ledger": ledger}
    with pytest.raises(InputError, match="objective_perturbation' needs a loss whose gradients are bounded"):
        train(X, labels, loss=loss, method="objective_perturbation", **given)
    assert len(ledger.entries) == 0


@pytest.mark.parametrize(
    ("budget", "l2", "words"), [(PureDP(0.01), 1e-6, "too small"), (PureDP(2.0**-30), "auto", "too small")]
)
def test_what_cannot_be_done_is_refused_before_the_debit(budget, l2, words):
    ledger = Ledger(PureDP(1))
    with pytest.raises((InputError, BudgetError), match=words):
        run(neighbours()[0], budget, ObjectivePerturbation(l2=l2), ledger=ledger)
    assert len(ledger.entries) == 0


def test_the_number_of_steps_is_no_choice():
    with pytest.raises((InputError, BudgetError)):
        ObjectivePerturbation(steps="auto")
