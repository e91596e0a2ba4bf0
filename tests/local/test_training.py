"""Semi-local training: what it learns, its bound, and that rows are used as promised."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fastpubpriv import InputError, PureDP
from fastpubpriv.local import LOSSES, PrivUnit, train, training, training_bound
from fastpubpriv.local import training as module

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

TRUTH = np.array([0.4, -0.3, 0.2])


def regression(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 3))
    return x, x @ TRUTH + 0.1 * rng.uniform(-1.0, 1.0, n)


def excess(weights):
    """Of the squared loss: uniform columns have variance 1/3."""
    return float(np.sum((weights - TRUTH) ** 2)) / 6.0


def learned(n_priv=5000, n_pub=100, **more):
    x, y = regression(n_priv, 0)
    x_pub, y_pub = regression(max(n_pub, 1), 1)
    given = {"epsilon": 4.0, "clip_norm": 2.0, "radius": 1.0, "random_state": 3, **more}
    if n_pub:
        given.update(x_pub=x_pub, y_pub=y_pub)
    return train(x, y, **given)


def test_it_learns_within_its_bound():
    found = learned()
    assert excess(found.coefficients) < found.excess_bound
    assert excess(found.coefficients) < 0.2 * excess(np.zeros(3))
    assert found.spent == PureDP(4.0)
    assert not found.private
    assert type(found).from_json(found.to_json()).coefficients.tolist() == found.coefficients.tolist()
    assert "coefficient" in found.summary()


def test_the_bound_is_that_of_the_paper_or_better():
    randomizer = PrivUnit(3, 4.0, norm_bound=2.0)
    better, paper = training_bound(randomizer, n_priv=5000, n_pub=100, radius=1.0)
    assert better <= paper
    assert better <= training_bound(randomizer, n_priv=0, n_pub=100, radius=1.0)[0]
    assert learned(300, 50, batch_rows=1).excess_bound == pytest.approx(
        training_bound(randomizer, n_priv=300, n_pub=50, radius=1.0)[0]
    )
    assert learned().excess_bound < 1.13 * better
    assert paper == pytest.approx(math.sqrt(5000 * randomizer.second_moment + 400.0) / 5100)


def test_a_strongly_convex_loss_gets_falling_steps():
    """Uniform columns in [-1, 1]: the mean loss is 1/3-strongly convex."""
    randomizer = PrivUnit(3, 4.0, norm_bound=2.0)
    sizes = {"n_priv": 20_000, "n_pub": 400, "radius": 1.0}
    better, plain = training_bound(randomizer, strong_convexity=1 / 3, **sizes)
    assert better <= plain
    assert better < 0.6 * training_bound(randomizer, **sizes)[0]
    assert better == pytest.approx(6.0 / (20_000 / randomizer.second_moment + 400 / 4.0))
    one = learned(300, 50, batch_rows=1, strong_convexity=3.0, radius=50.0)
    assert one.excess_bound <= training_bound(randomizer, n_priv=300, n_pub=50, radius=50.0, strong_convexity=3.0)[0]
    assert one.releases[0]["steps"] == "strongly convex"
    # A promise too weak to help leaves the steps as they were.
    weak = learned(300, 50, strong_convexity=1e-6)
    assert weak.coefficients.tolist() == learned(300, 50).coefficients.tolist()
    assert weak.releases[0]["steps"] == "convex"


def test_falling_steps_learn_more_where_the_ball_is_wide():
    """The mean of 10 runs each: constant steps are as long as the ball asks for."""
    runs = {None: [], 1 / 3: []}
    for mu, errors in runs.items():
        for seed in range(10):
            found = learned(
                2000,
                20,
                epsilon=2.0,
                strong_convexity=mu,
                radius=1000.0,
                clip_norm=6.0,
                random_state=seed,
                batch_rows=20,
            )
            errors.append(excess(found.coefficients))
            assert found.releases[0]["steps"] == ("convex" if mu is None else "strongly convex")
        assert np.mean(errors) < found.excess_bound
    assert np.mean(runs[1 / 3]) < 0.5 * np.mean(runs[None])


def test_steps_by_hand():
    """Two batches of one row, totals 1 and 2, mu = 1: A = 1, 3; weights 1, 6; lengths 1 / 1, 3 / 7; bound (1 + 9 * 2 / 7) / 14."""
    found = training.best_steps([1.0, 2.0], [False, False], clip=1.0, radius=1e9, convexity=1.0)
    assert list(found.weights) == [1.0, 6.0]
    assert list(found.lengths) == pytest.approx([1.0, 3.0 / 7.0])
    assert found.excess_bound == pytest.approx((1.0 + 18.0 / 7.0) / 14.0)
    # Batches of several rows: (total clip)^2 more.
    found = training.best_steps([1.0, 2.0], [False, True], clip=1.0, radius=1.0, convexity=None)
    assert found.excess_bound == pytest.approx(math.sqrt(1.0 + 2.0 + 4.0) / 3.0)


def test_falling_steps_keep_their_bound_on_a_quadratic():
    """mu |w|^2 / 2 in one column with coins for noise: the mean of 4000 runs stays below the bound; with tiny steps it does not."""
    rng = np.random.default_rng(0)
    totals = [0.25] * 30 + [4.0] * 10
    plan = training.best_steps(totals, [False] * 40, clip=1.0, radius=1e9, convexity=1.0)

    def mean_excess(factor):
        weights, average, done = np.full(4000, 0.5), np.zeros(4000), 0.0
        for total, length, weight in zip(totals, plan.lengths, plan.weights, strict=True):
            done += weight
            average += weight / done * (weights - average)
            noise = rng.choice([-1.0, 1.0], 4000) * np.sqrt(1.0 / total - np.minimum(weights**2, 1.0 / total))
            weights = weights - factor * length * total * (weights + noise)
        return float(np.mean(average**2)) / 2.0

    assert mean_excess(1.0) < plan.excess_bound
    assert mean_excess(0.02) > plan.excess_bound


def test_a_user_reports_once():
    x, y = regression(300, 0)
    names = [bytes([i % 100]) * 16 for i in range(300)]
    common = {"epsilon": 4.0, "clip_norm": 2.0, "radius": 1.0, "random_state": 3}
    found = train(x, y, users=names, **common)
    assert (found.n_priv, found.spent) == (100, PureDP(4.0))
    assert found.releases[0]["rows_left_out"] == 200
    assert found.coefficients.tolist() == train(x[:100], y[:100], **common).coefficients.tolist()
    mixed = np.random.default_rng(1).permutation(300)
    chosen = [names[i] for i in mixed]
    first = sorted({name: place for place, name in reversed(list(enumerate(chosen)))}.values())
    again = train(x[mixed], y[mixed], users=chosen, **common).coefficients
    assert again.tolist() == train(x[mixed][first], y[mixed][first], **common).coefficients.tolist()
    twice = train(x, y, users=names, reports_per_user=2, **common)
    assert (twice.n_priv, twice.spent) == (200, PureDP(8.0))
    priced = train(x, y, reports_per_user=3, **common)
    assert (priced.n_priv, priced.spent) == (300, PureDP(12.0))
    for bad in ({"users": names[:-1]}, {"users": ["anna"] * 300}, {"reports_per_user": 0}, {"reports_per_user": 1.5}):
        with pytest.raises(InputError, match="user"):
            train(x, y, **bad, **common)


def test_logistic_loss():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (5000, 3))
    y = (rng.random(5000) < 1.0 / (1.0 + np.exp(-3.0 * x @ TRUTH))).astype(float)
    found = train(x, y, epsilon=4.0, clip_norm=1.8, radius=2.0, loss="logistic", random_state=1)
    better = LOSSES["logistic"].value(found.coefficients, x, y).mean()
    assert better < LOSSES["logistic"].value(np.zeros(3), x, y).mean() - 0.01
    assert found.loss == "logistic"


@pytest.mark.parametrize("loss", list(one for one in LOSSES.values() if not one.scores))
def test_gradients_are_derivatives_and_depend_on_their_row_alone(loss):
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(6, 4)), np.array([0.0, 1, 1, 0, 1, 0]), rng.normal(size=4)
    found = loss.gradient(w, x, y)
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-6
        assert np.allclose(found[:, j], (loss.value(w + step, x, y) - loss.value(w - step, x, y)) / 2e-6, atol=1e-8)
    for i in range(6):
        assert np.array_equal(loss.gradient(w, x[i : i + 1], y[i : i + 1])[0], found[i])


def test_every_user_reports_once(monkeypatch):
    seen = []
    honest = PrivUnit._reported

    def counted(self, rows, keys, **more):
        seen.append(len(rows))
        assert rows.dim == 3
        return honest(self, rows, keys, **more)

    monkeypatch.setattr(module.PrivUnit, "_reported", counted)
    learned(1000, 77, batch_rows=10)
    assert sum(seen) == 1000
    for size in (1, 7, 10_000):
        plan = list(module._plan(1000, 77, size))
        assert [plan[0][0][0], plan[-1][0][1], plan[-1][1][1]] == [0, 1000, 77]
        assert all(one[0][1] == two[0][0] and one[1][1] == two[1][0] for one, two in itertools.pairwise(plan))


def test_a_row_enters_by_its_clipped_gradient_alone(monkeypatch):
    """Record and replay: with reports forced, two data sets that differ in one row give the same weights."""
    x, y = regression(400, 0)
    other = x.copy()
    other[123] = [1e300, math.nan, -1.0]
    records = []

    def forced(self, rows, keys, **more):
        records.append(np.concatenate(list(rows.chunks())))
        fixed = np.random.default_rng(len(rows)).normal(size=(len(rows), 3))
        return self.privatize(fixed, random_state=0)

    monkeypatch.setattr(module.PrivUnit, "privatize", PrivUnit.privatize)
    honest = PrivUnit._reported
    depth = []

    def once(self, rows, keys, **more):
        if depth:
            return honest(self, rows, keys, **more)
        depth.append(1)
        try:
            return forced(self, rows, keys, **more)
        finally:
            depth.pop()

    monkeypatch.setattr(module.PrivUnit, "_reported", once)
    first = train(x, y, epsilon=1.0, clip_norm=1.0, radius=1.0, random_state=0).coefficients
    mine, records[:] = list(records), []
    second = train(other, y, epsilon=1.0, clip_norm=1.0, radius=1.0, random_state=0).coefficients
    assert np.array_equal(first, second)
    changed = [np.flatnonzero(~(a == b).all(axis=1)) for a, b in zip(mine, records, strict=True)]
    assert [len(rows) for rows in changed if len(rows)] == [1]


def test_hostile_rows_do_not_raise():
    x, y = regression(200, 0)
    x[3], x[4], x[5, 1], y[6] = 1e308, 0.0, np.nan, np.inf
    assert np.isfinite(train(x, y, epsilon=1.0, clip_norm=1.0, radius=1.0).coefficients).all()
    found = train(x, np.full(200, 7.0), epsilon=1.0, clip_norm=1.0, radius=1.0, loss="logistic").coefficients
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "more",
    [
        {"epsilon": -1.0}, {"clip_norm": 0.0}, {"radius": math.inf}, {"batch_rows": 0}, {"loss": "hinge"}, {"loss": 3},
        {"start": [1.0]}, {"form": "both"}, {"strong_convexity": 0.0}, {"strong_convexity": math.nan},
        {"x_pub": None}, {"y_pub": None}, {"y_pub": [1.0, 2.0]},
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(more):
    with pytest.raises(InputError):
        learned(50, 20) if not more else train(
            *regression(50, 0),
            **{
                "epsilon": 1.0, "clip_norm": 1.0, "radius": 1.0, "x_pub": np.ones((4, 3)), "y_pub": np.ones(4), **more,
            },
        )  # fmt: skip


def test_labels_must_fit():
    x, y = regression(50, 0)
    for bad in (y[:-1], np.ones((50, 2))):
        with pytest.raises(InputError, match="y_priv"):
            train(x, bad, epsilon=1.0, clip_norm=1.0, radius=1.0)
