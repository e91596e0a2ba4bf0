"""Record and replay of training by gradients on neighbors, on equal coins; and the planted faults that it must catch."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at
from own_losses import Squared
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    PureDP,
    ReplayError,
    linear_regression,
    logistic_regression,
    train,
)
from fastpubpriv.auditing import audit, record_replay
from fastpubpriv.gradient.gradient_problem import Units
from fastpubpriv.kernels import gradients as kernels
from fastpubpriv.kernels import rows as row_kernels
from fastpubpriv.mechanisms.gradient_sums import LinearGradientQuery, ResidualSum
from fastpubpriv.mechanisms.selection import LossQuery
from fastpubpriv.regression.coordinates import Rotation
from fastpubpriv.release import release
from fastpubpriv.training import DPSGD, Exponential, MirrorDescent, OutputPerturbation, SemiDP
from fastpubpriv.training.softmax import RowOfClasses

pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)
DIM = 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, DIM)) * [1.0, 10.0, 0.1]
NUMBERS = np.column_stack([X, X @ [1.0, 0.2, -3.0] + RNG.normal(size=60)])
CLASSES = np.column_stack([X, np.digitize(X[:, 0], [-0.5, 0.5])])
HOSTILE = np.array(
    [
        [np.nan] * 4,
        [np.inf, 0, 0, 0],
        [0, 0, 0, np.nan],
        [0, 0, 0, -np.inf],
        [1e308] * 4,
        [-1e308, 1e308, 0, 1e308],
        [5e-324] * 4,
        [0.0] * 4,
        [1e30, 0, 0, 1],
        [0, 0, 1e9, -1e9],
        [0, 0, 0, 7],
        [1, 10, 0.1, 1e300],
    ]
)
FIXED = {"step_size": 0.3, "priv_weight": 0.7, "clip_norm": 1.0}


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


PUBLIC_OF_LOSS = {"softmax": CLASSES, "poisson": np.abs(NUMBERS)}


def run_of(method, budget, loss="squared"):
    public = PUBLIC_OF_LOSS.get(loss, NUMBERS)
    common = {"label": -1, "x_pub": public, "budget": budget, "threads": 1, "progress": False}
    return lambda x: train(x, loss=loss, method=method, **common)


PERTURBED = OutputPerturbation(l2=0.5, steps=20)
OF_SQUARES = [
    pytest.param(ApproxDP(1, 1e-6), method, "squared", id=name) for name, method in METHODS.items()
]
CASES = [
    *OF_SQUARES,
    pytest.param(ZCDP(0.5), METHODS["full"], "softmax", id="softmax"),
    pytest.param(ZCDP(0.5), METHODS["full"], "huber", id="huber"),
    pytest.param(ZCDP(0.5), METHODS["full"], Squared(), id="a loss of a user"),
    pytest.param(PureDP(2), METHODS["full"], "poisson", id="poisson loss"),
    pytest.param(ApproxDP(1, 1e-6), METHODS["poisson"], Squared(), id="a loss of a user, sampled"),
    pytest.param(PureDP(2), Exponential(candidates=9), "huber", id="exponential, pure"),
    pytest.param(ZCDP(0.5), Exponential(candidates=9), "squared", id="exponential, zCDP"),
    pytest.param(PureDP(2), PERTURBED, "huber", id="output perturbation, pure"),
    pytest.param(ZCDP(0.5), PERTURBED, "huber", id="output perturbation, zCDP"),
]
# What is declared may be above what is allowed by the rounding of its fractions.
ROUNDING = 1 + Fraction(1, 10**9)


def neighbors(rng, trial, classes):
    x = rng.normal(size=(30, DIM)) * [1.0, 10.0, 0.1]
    rows = np.column_stack([x, rng.integers(0, classes, 30)])
    one = HOSTILE[trial % len(HOSTILE)]
    other = HOSTILE[(5 * trial + 1) % len(HOSTILE)]
    return pair_at(rows, 3, one, other)


@pytest.mark.parametrize(("budget", "method", "loss"), CASES)
def test_neighbors(budget, method, loss):
    rng = np.random.default_rng(4)
    run = run_of(method, budget, loss)
    every = 1 if loss == "squared" else 4
    for trial in range(0, len(HOSTILE), every):
        report = record_replay(run, *neighbors(rng, trial, classes=3), budget=budget)
        allowed = max(report.allowance * ROUNDING, Fraction(1))
        assert report.declared_cost + report.epsilon <= allowed
        assert report.pair_cost <= report.declared_cost


def opposite(length=2.0):
    rows = np.column_stack([np.repeat([[length, 0.0, 0.0]], 40, axis=0), np.zeros(40)])
    return pair_at(rows, (0, -1), 1e9, -1e9)


@pytest.mark.parametrize("name", ["full", "one pass"])
def test_opposite_labels_come_near_the_declared_cost(name):
    report = record_replay(run_of(METHODS[name], ZCDP(0.5)), *opposite(), budget=ZCDP(0.5))
    assert 0.9 < report.tightness <= 1.0


BUDGET = ApproxDP(1, 1e-6)


def caught(words, method=METHODS["full"], loss="squared"):
    run = run_of(method, BUDGET, loss)
    raises(ReplayError, words, record_replay, run, *opposite(), budget=BUDGET)


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

    def twice(self, *given):
        plain(self, *given)
        plain(self, *given)

    monkeypatch.setattr(LinearGradientQuery, "add", twice)
    method = METHODS[name]
    if name != "full":
        method = replace(method, batch_rows=39)  # so that the row is in a batch
    caught("moved by|sensitivity", method)


def test_a_batch_that_depends_on_rows_is_caught(monkeypatch):
    """A second batch, as if the coins looked at the rows: the sums move by more than one row's share."""

    def fresh(account, sampling, n):
        return release._sampled_places(account.fresh_key(), sampling, n)

    def forty_tries():
        """Seen only where the row is in one batch and not in the other, in more than half of the runs."""
        run = run_of(METHODS["poisson"], BUDGET)
        for _ in range(40):
            record_replay(run, *opposite(), budget=BUDGET)

    monkeypatch.setattr("fastpubpriv.mechanisms.gradient_sums.draw_batch", fresh)
    raises(ReplayError, r"moved by|sensitivity", forty_tries)


def test_a_unit_from_private_rows_is_caught(monkeypatch):
    plain = Units.__call__

    def scaled(self, chunk):
        found = plain(self, chunk)
        found[:, -1] -= np.nanmean(found[:, -1])
        return found

    monkeypatch.setattr(Units, "__call__", scaled)
    method = SemiDP(steps=2, step_size=0.3, priv_weight=1.0, clip_norm=50.0)
    caught("moved by|sensitivity|differ", method)


def test_rows_that_a_loss_mixes_are_caught():
    class Mixed(Squared):
        """Remembers the label of the row before, since a call sees one row."""

        before = 0.0

        def gradient(self, weights, x, y):
            found = super().gradient(weights, x, y) - self.before * x
            self.before = y[0]
            return found

    caught("moved by|sensitivity", loss=Mixed())


def test_a_choice_by_losses_that_are_not_clipped_is_caught(monkeypatch):
    plain = LossQuery.add

    def thrice(self, chunk, sums):
        plain(replace(self, clip=self.clip / 1e3), np.repeat(chunk, 3, axis=0), sums)

    monkeypatch.setattr(LossQuery, "add", thrice)
    caught("moved by", Exponential(candidates=9))


# ---- Record and replay of regressions on neighbors, how near the worst pair comes, and the planted faults that it must catch.
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
PUBLIC = np.column_stack([X, X @ [1.0, 0.2, -3.0] + RNG.normal(size=60)])
FEW = np.column_stack([*[X[:2]] * 3, PUBLIC[:2, -1:]])
CLASSES_OF_TRAINING = np.column_stack([X, X[:, 0] > 0.3])
# five rows for each coefficient
SHIFTED = X[:40, 0] + np.tile([1.0, -1.0], 20)
THREE = np.column_stack([X[:40], np.digitize(SHIFTED, [-0.5, 0.5])])


def few_public_rows(x, **common):
    """So few that the mean of the private rows is released first: a column stands there three times."""
    thrice = np.column_stack([*[x[:, :3]] * 3, x[:, 3:]])
    return linear_regression(thrice, x_pub=FEW, **common)


WEIGHTS = {"weights_priv": np.ones(30), "weights_pub": np.full(60, 0.5), "weight_cap": 1.0}
RUNS = {
    "newton, any": partial(linear_regression, x_pub=PUBLIC, tails="any"),
    "newton, light": partial(linear_regression, x_pub=PUBLIC, tails="light"),
    "few public rows": few_public_rows,
    "huber": partial(train, x_pub=PUBLIC, loss="huber"),
    "softmax": partial(train, x_pub=THREE, loss="softmax"),
    "logistic": partial(logistic_regression, x_pub=CLASSES_OF_TRAINING),
    "weighted": partial(linear_regression, x_pub=PUBLIC, **WEIGHTS),
}


def newton(function, budget, **given):
    """run(x) of a regression by private Newton steps."""
    common = {"label": -1, "method": "newton", "threads": 1, "progress": False}
    return partial(function, budget=budget, **common, **given)


@pytest.mark.parametrize("notion", BUDGETS)
@pytest.mark.parametrize("name", RUNS)
def test_neighbors_of_training(name, notion):
    rng = np.random.default_rng(4)
    budget = BUDGETS[notion]
    run = newton(RUNS[name], budget)
    for trial in range(12):
        report = record_replay(run, *neighbors(rng, trial, classes=2), budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance * ROUNDING


@pytest.mark.parametrize("budget", [ZCDP(20), PureDP(40)], ids=["zcdp", "pure"])
@pytest.mark.parametrize("loss", ["huber", "logistic"])
def test_neighbors_of_two_rounds(loss, budget):
    """So little noise on 30 rows that curvature and scores are released twice."""
    public = CLASSES_OF_TRAINING if loss == "logistic" else PUBLIC
    run = newton(train, budget, loss=loss, x_pub=public)
    rng = np.random.default_rng(4)
    for trial in range(12):
        first, second = neighbors(rng, trial, classes=2)
        names = [each["name"] for each in run(first).releases]
        assert sum(name.endswith("again") for name in names) in (2, 4)
        report = record_replay(run, first, second, budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance * ROUNDING


@pytest.mark.parametrize(("tails", "least"), [("light", 0.9), ("any", 0.6)])
def test_opposite_labels_come_near_the_declared_cost_of_training(tails, least):
    """A label far up and the same far down: opposite gradients and scores. Counts of norms and the curvature are then the same."""
    run = newton(linear_regression, ZCDP(0.5), x_pub=PUBLIC, tails=tails)
    tightness = []
    for length in (*np.linspace(0.5, 3.0, 8), 20.0):
        report = record_replay(run, *opposite(length), budget=ZCDP(0.5))
        tightness.append(report.tightness)
    assert least < max(tightness) <= 1.0


def caught_of_training(words):
    pair = pair_at(PUBLIC[:30], 0, [9.0, 90.0, 0.9, 1e6], [-9.0, -90.0, -0.9, 1e6])
    run = newton(linear_regression, ZCDP(0.5), x_pub=PUBLIC)
    raises(ReplayError, words, record_replay, run, *pair, budget=ZCDP(0.5))


def test_a_term_that_is_not_clipped_is_caught(monkeypatch):
    def loose(chunk, residual_map, sums, places):
        plain(chunk, residual_map, sums)
        sums += (chunk[:, :-1] > 0.0).sum(axis=0) << 40

    plain = kernels.gradient_sum
    monkeypatch.setattr(kernels, "gradient_sum", loose)
    caught_of_training("moved by|sensitivity")


@pytest.mark.parametrize(("notion", "times"), [("zcdp", 2), ("approx", 2), ("pure", 4)])
def test_rows_added_to_the_second_moments_twice_are_caught(monkeypatch, notion, times):
    """Rows at a right angle then move the curvature by twice what is declared; the l1 bound of pure epsilon is loose for them."""
    plain = row_kernels.rows_gram
    budget = BUDGETS[notion]

    def repeated(*given):
        for _ in range(times):
            plain(*given)

    monkeypatch.setattr(row_kernels, "rows_gram", repeated)
    rows = np.tile([2.0, 20.0, 0.2, 0.0], (40, 1))
    pair = pair_at(rows, 0, [1e3, 20.0, 0.2, 0.0], [2.0, 1e4, 0.2, 0.0])
    run = newton(linear_regression, budget, x_pub=PUBLIC)
    raises(ReplayError, r"moved by|sensitivity", record_replay, run, *pair, budget=budget)


def test_a_scale_from_private_rows_is_caught(monkeypatch):
    plain = ResidualSum.release

    def release(self, account, rows, executor, *, name, cost):
        spread = float(np.concatenate(list(rows.chunks()))[:, 0].max())
        wider = replace(self, radius=self.radius * (1.0 + abs(spread)))
        return plain(wider, account, rows, executor, name=name, cost=cost)

    monkeypatch.setattr(ResidualSum, "release", release)
    caught_of_training("unit")


def test_a_center_from_the_chunk_is_caught(monkeypatch):
    plain = Rotation.__call__

    def centered(self, chunk):
        return plain(self, chunk - np.nanmean(chunk, axis=0))

    monkeypatch.setattr(Rotation, "__call__", centered)
    caught_of_training("moved by|sensitivity|differ")


def test_scores_beyond_their_radius_are_held_by_the_norm(monkeypatch):
    """Both pieces, and their squares, pass a check of their own, so that privacy does not hang on their map."""
    plain = row_kernels.rows_radial

    def longer(chunk, row_map, sums, gram, per_step, *given):
        loose = replace(row_map, limit=50.0 * row_map.limit)
        plain(chunk, loose, sums, gram, 50.0 * per_step, *given)

    monkeypatch.setattr(row_kernels, "rows_radial", longer)
    pair = pair_at(PUBLIC[:30], (0, -1), 1e6, -1e6)
    run = partial(linear_regression, label=-1, x_pub=PUBLIC, budget=ZCDP(0.5))
    report = record_replay(run, *pair, budget=ZCDP(0.5))
    assert report.pair_cost <= report.declared_cost


def test_squares_of_scores_that_are_added_up_twice_are_caught(monkeypatch):
    """Of rows at a right angle, where the share of squares counts beside the sums."""
    plain = row_kernels.rows_radial

    def repeated(chunk, row_map, sums, gram, *given):
        plain(chunk, row_map, sums, gram, *given)
        plain(chunk, row_map, sums.copy(), gram, *given)

    monkeypatch.setattr(row_kernels, "rows_radial", repeated)
    monkeypatch.setattr("fastpubpriv.regression.regression_tuning.SQUARES", Fraction(2, 5))
    monkeypatch.setattr("fastpubpriv.regression.regression_tuning.UNCLEAR_SQUARES", np.inf)
    rows = np.tile([2.0, 20.0, 0.2, 0.0], (40, 1))
    pair = pair_at(rows, 0, [1e3, 20.0, 0.2, 1e6], [2.0, 1e4, 0.2, 1e6])
    run = newton(linear_regression, ZCDP(0.5), x_pub=PUBLIC)
    raises(ReplayError, r"moved by|sensitivity", record_replay, run, *pair, budget=ZCDP(0.5))


# ---- A black-box audit of training over sampled rows by a canary, and of a twin whose noise is a sixth of what it should be.
CLAIM = ApproxDP(1, 1e-3)
FIXED_OF_AUDIT = {
    "steps": 6,
    "step_size": 1.0,
    "priv_weight": 1.0,
    "clip_norm": 1.0,
    "start": "zero",
    "scaling": "none",
}
METHODS_OF_AUDIT = {
    "full": SemiDP(**FIXED_OF_AUDIT),
    "poisson": SemiDP(sampling="poisson", batch_rows=2, **FIXED_OF_AUDIT),
    "fixed size": SemiDP(sampling="without_replacement", batch_rows=2, **FIXED_OF_AUDIT),
}
PUBLIC_OF_AUDIT = np.array([[1.0, 0.5], [-1.0, 0.2], [0.5, -0.1], [2.0, 0.3]])


def rows(label):
    """Three rows that count for nothing, and a canary whose gradient is as long as the clip allows."""
    found = np.full((4, 2), np.nan)
    found[2] = [1.0, label]
    return found


def finals(method):
    """The last weight of each run, of which no two have the same seed."""
    seeds = itertools.count()
    common = {
        "label": -1,
        "loss": "squared",
        "x_pub": PUBLIC_OF_AUDIT,
        "budget": CLAIM,
        "method": method,
        "threads": 1,
    }

    def weight(data):
        return seeded(train, data, random_state=next(seeds), **common).weights[0]

    return lambda data, runs: np.array([weight(data) for _ in range(runs)])


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore::fastpubpriv.PrivacyWarning")
@pytest.mark.parametrize("name", METHODS_OF_AUDIT)
def test_a_canary_stays_within_the_claim_and_less_noise_does_not(name, monkeypatch):
    """At 1 - 1e-6 confidence; the claim is passed by an honest run with at least that probability."""
    settings = {"claim": CLAIM, "runs": 250, "confidence": 1 - 1e-6}
    pair = (rows(1e9), rows(-1e9))
    assert audit(finals(METHODS_OF_AUDIT[name]), *pair, **settings).passed
    plain = release._SAMPLERS["gaussian"]
    monkeypatch.setitem(release._SAMPLERS, "gaussian", lambda *given: plain(*given) // 6)
    assert not audit(finals(METHODS_OF_AUDIT[name]), *pair, **settings).passed


def test_scores_of_classes_that_depend_on_other_rows_are_caught(monkeypatch):
    plain = RowOfClasses.__call__

    def leaning(self, chunk):
        found = plain(self, chunk)
        return found if self.curvature else found - 9.0 * found.mean(axis=0)

    monkeypatch.setattr(RowOfClasses, "__call__", leaning)
    pair = pair_at(THREE[:30], 0, [9.0, 90.0, 0.9, 0.0], [-9.0, -90.0, -0.9, 0.0])
    run = newton(train, ZCDP(0.5), x_pub=THREE, loss="softmax")
    raises(ReplayError, "moved by|sensitivity", record_replay, run, *pair, budget=ZCDP(0.5))
