"""Record and replay of training by gradients on neighbours, on equal coins; and the planted faults that it must catch."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, train
from fastpubpriv.auditing import record_replay
from fastpubpriv.kernels import gradients as kernels
from fastpubpriv.mechanisms.gradients import LinearGradientQuery
from fastpubpriv.mechanisms.selection import LossQuery
from fastpubpriv.release import batches
from fastpubpriv.training import DPSGD, Exponential, MirrorDescent, OutputPerturbation, SemiDP
from fastpubpriv.training.gradient.problem import Units

pytestmark = [
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning"),
]
DIM = 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, DIM)) * [1.0, 10.0, 0.1]
NUMBERS = np.column_stack([X, X @ [1.0, 0.2, -3.0] + RNG.normal(size=60)])
CLASSES = np.column_stack([X, np.digitize(X[:, 0], [-0.5, 0.5])])
HOSTILE = np.array(
    [
        [np.nan] * 4, [np.inf, 0, 0, 0], [0, 0, 0, np.nan], [0, 0, 0, -np.inf], [1e308] * 4, [-1e308, 1e308, 0, 1e308],
        [5e-324] * 4, [0.0] * 4, [1e30, 0, 0, 1], [0, 0, 1e9, -1e9], [0, 0, 0, 7], [1, 10, 0.1, 1e300],
    ]
)  # fmt: skip
FIXED = {"step_size": 0.3, "priv_weight": 0.7, "clip_norm": 1.0}


class Own:
    """A loss of a user."""

    def value(self, weights, x, y):
        return 0.5 * (np.sum(x * weights, axis=1) - y) ** 2

    def gradient(self, weights, x, y):
        return (np.sum(x * weights, axis=1) - y)[:, None] * x


METHODS = {
    "full": SemiDP(steps=4, **FIXED),
    "accelerated": SemiDP(steps=4, accelerated=True, **FIXED),
    "dp_sgd": DPSGD(steps=3),
    "mirror": MirrorDescent(steps=3),
    "as they are": SemiDP(steps=3, scaling="none", **FIXED),
    "poisson": SemiDP(steps=5, sampling="poisson", batch_rows=6, **FIXED),
    "fixed size": SemiDP(steps=5, sampling="without_replacement", batch_rows=6, **FIXED),
    "one pass": SemiDP(sampling="one_pass", batch_rows=8, **FIXED),
}


def run_of(method, budget, loss="squared"):
    public = CLASSES if loss == "softmax" else NUMBERS
    common = {"label": -1, "x_pub": public, "budget": budget, "threads": 1, "progress": False}
    return lambda x: train(x, loss=loss, method=method, **common)


CASES = [
    pytest.param(ApproxDP(1, 1e-6), method, "squared", id=name) for name, method in METHODS.items()
] + [
    pytest.param(ZCDP(0.5), METHODS["full"], "softmax", id="softmax"),
    pytest.param(ZCDP(0.5), METHODS["full"], "huber", id="huber"),
    pytest.param(ZCDP(0.5), METHODS["full"], Own(), id="a loss of a user"),
    pytest.param(PureDP(2), METHODS["full"], "poisson", id="poisson loss"),
    pytest.param(ApproxDP(1, 1e-6), METHODS["poisson"], Own(), id="a loss of a user, sampled"),
    pytest.param(PureDP(2), Exponential(candidates=9), "huber", id="exponential, pure"),
    pytest.param(ZCDP(0.5), Exponential(candidates=9), "squared", id="exponential, zCDP"),
    pytest.param(PureDP(2), OutputPerturbation(l2=0.5, steps=20), "huber", id="output perturbation, pure"),
    pytest.param(ZCDP(0.5), OutputPerturbation(l2=0.5, steps=20), "huber", id="output perturbation, zCDP"),
]  # fmt: skip


@pytest.mark.parametrize(("budget", "method", "loss"), CASES)
def test_neighbours(budget, method, loss):
    rng = np.random.default_rng(4)
    public = np.abs(NUMBERS) if loss == "poisson" else None
    run = run_of(method, budget, loss)
    if public is not None:
        common = {"label": -1, "x_pub": public, "budget": budget, "threads": 1, "progress": False}
        run = lambda x: train(x, loss=loss, method=method, **common)  # noqa: E731
    for trial in range(0, len(HOSTILE), 1 if loss == "squared" else 4):
        rows = np.column_stack([rng.normal(size=(30, DIM)) * [1.0, 10.0, 0.1], rng.integers(0, 3, 30)])
        other = rows.copy()
        rows[3], other[3] = HOSTILE[trial], HOSTILE[(5 * trial + 1) % len(HOSTILE)]
        report = record_replay(run, rows, other, budget=budget)
        assert report.declared_cost + report.epsilon <= max(report.allowance * (1 + Fraction(1, 10**9)), Fraction(1))
        assert report.pair_cost <= report.declared_cost


def opposite():
    rows = np.column_stack([np.repeat([[2.0, 0.0, 0.0]], 40, axis=0), np.zeros(40)])
    other = rows.copy()
    rows[0, -1], other[0, -1] = 1e9, -1e9
    return rows, other


@pytest.mark.parametrize("name", ["full", "one pass"])
def test_opposite_labels_come_near_the_declared_cost(name):
    report = record_replay(run_of(METHODS[name], ZCDP(0.5)), *opposite(), budget=ZCDP(0.5))
    assert 0.9 < report.tightness <= 1.0


BUDGET = ApproxDP(1, 1e-6)


def caught(words, method=METHODS["full"], budget=BUDGET, loss="squared"):
    with pytest.raises(ReplayError, match=words):
        record_replay(run_of(method, budget, loss), *opposite(), budget=budget)


def test_a_gradient_that_is_not_clipped_is_caught(monkeypatch):
    plain = kernels.gradient_sum

    def loose(chunk, gradient_map, sums, places=None):
        plain(chunk, gradient_map, sums, places)
        sums += (chunk[:, -1] > 1.0).sum() << 45

    monkeypatch.setattr(kernels, "gradient_sum", loose)
    for name in ("full", "one pass"):
        caught("moved by|sensitivity", METHODS[name])


@pytest.mark.parametrize("name", ["full", "poisson", "fixed size"])
def test_a_row_in_two_sums_is_caught(monkeypatch, name):
    plain = LinearGradientQuery.add
    monkeypatch.setattr(LinearGradientQuery, "add", lambda self, *given: (plain(self, *given), plain(self, *given)))
    method = METHODS[name].with_(batch_rows=None if name == "full" else 39)  # so that the row is in a batch
    caught("moved by|sensitivity", method)


def test_a_batch_that_depends_on_rows_is_caught(monkeypatch):
    """A second batch, as if the coins looked at the rows: the sums move by more than one row's share."""
    monkeypatch.setattr(batches, "current", lambda: None)
    # Seen only where the row is in one batch and not in the other, in more than half of the runs.
    tries = (
        record_replay(run_of(METHODS["poisson"], BUDGET, "squared"), *opposite(), budget=BUDGET) for _ in range(40)
    )
    with pytest.raises(ReplayError, match=r"moved by|sensitivity"):
        list(tries)


def test_a_unit_from_private_rows_is_caught(monkeypatch):
    plain = Units.__call__

    def scaled(self, chunk):
        found = plain(self, chunk)
        found[:, -1] -= np.nanmean(found[:, -1])
        return found

    monkeypatch.setattr(Units, "__call__", scaled)
    caught("moved by|sensitivity|differ", SemiDP(steps=2, step_size=0.3, priv_weight=1.0, clip_norm=50.0))


def test_rows_that_a_loss_mixes_are_caught():
    class Mixed(Own):
        """Remembers the label of the row before, since a call sees one row."""

        before = 0.0

        def gradient(self, weights, x, y):
            found = super().gradient(weights, x, y) - self.before * x
            self.before = y[0]
            return found

    caught("moved by|sensitivity", loss=Mixed())


def test_a_choice_by_losses_that_are_not_clipped_is_caught(monkeypatch):
    plain = LossQuery.add
    monkeypatch.setattr(
        LossQuery,
        "add",
        lambda self, chunk, sums: plain(replace(self, clip=self.clip / 1e3), np.repeat(chunk, 3, axis=0), sums),
    )
    caught("moved by", Exponential(candidates=9))
