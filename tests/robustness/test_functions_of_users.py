"""Functions that a user brings see one private row in each call: what that protects, by enumeration, and that it is so."""

import dataclasses
from fractions import Fraction
from itertools import combinations
from unittest import mock

import numpy as np
import pytest
from helpers.errors import raises
from own_losses import COMPILED, OWN, ROWS, OwnLoss, own_residual
from scipy import special
from spies import seeded

from fastpubpriv import ApproxDP, InputError, Ledger, PureDP, local, train
from fastpubpriv.kernels import gradients as alone
from fastpubpriv.mechanisms import gradient_sums
from fastpubpriv.privacy import Poisson
from fastpubpriv.privacy.calibration import sampled_sum_grid
from fastpubpriv.sources import private_rows
from fastpubpriv.training import DPSGD, Exponential, Loss, SemiDP

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")

DIM = 8
RATE = Fraction(3, 4)


def in_order(x, weights, backwards):
    """<x, weights> for each row, added up in one order or the other: what BLAS chooses by the number of rows."""
    return np.add.accumulate((x * weights)[:, :: -1 if backwards else 1], axis=1)[:, -1]


class Absolute:
    """The example of `RowLoss`, with a product whose order depends on how many rows there are, on every machine alike."""

    def gradient(self, weights, x, y):
        return np.sign(in_order(x, weights, len(x) % 2 == 0) - y)[:, None] * x


def on_the_kink():
    """Weights, a row, and a label that lies between the two sums of the row."""
    rng = np.random.default_rng(4)
    while True:
        weights, row = rng.normal(size=(2, DIM))
        one = float(in_order(row[None], weights, False)[0])
        other = float(in_order(row[None], weights, True)[0])
        middle = (one + other) / 2.0
        if min(one, other) < middle < max(one, other):
            return weights, row, middle


def sums_of_batches(query, rows):
    """(probability, integer sum) of every Poisson batch of four rows."""
    found = []
    for size in range(5):
        chance = float(RATE**size * (1 - RATE) ** (4 - size))
        for places in combinations(range(4), size):
            sums = query.zeros()
            gradient_sums._add_batch(
                query, private_rows(rows), np.array(places, dtype=np.int64), sums
            )
            found.append((chance, query.answer(sums)))
    return found


def hockey_stick(first, second, along, std, epsilon):
    """sup over events of P(first) - e^epsilon P(second), for mixtures of normals at sums that lie on one line.

    Their densities cross where the ratio does; the integral is a sum over cells that are fine beside the noise.
    """
    places = [[float(sums @ along) / std for _, sums in each] for each in (first, second)]
    edges = np.linspace(min(map(min, places)) - 12.0, max(map(max, places)) + 12.0, 200_001)
    masses = [
        sum(
            chance * np.diff(special.ndtr(edges - place))
            for (chance, _), place in zip(each, at, strict=True)
        )
        for each, at in zip((first, second), places, strict=True)
    ]
    return float(np.maximum(masses[0] - np.exp(epsilon) * masses[1], 0.0).sum())


def true_delta(epsilon, delta):
    """The delta of one step over a Poisson batch of four rows, at epsilon; and what is printed."""
    weights, row, label = on_the_kink()
    grid = sampled_sum_grid(Fraction(epsilon), delta, Poisson(RATE), steps=1, dim=DIM, n=4)
    query = gradient_sums.gradients_by_row(grid, 1.0, weights=weights, gradient=Absolute().gradient)
    labels = np.array([[-1e6, label, label, label], [1e6, label, label, label]])
    data = [np.column_stack([np.tile(row, (4, 1)), each]) for each in labels]
    sums = [sums_of_batches(query, rows) for rows in data]
    along = row / np.linalg.norm(row)
    across = [total - (total @ along) * along for each in sums for _, total in each]
    assert np.max(np.abs(across)) <= 4 * DIM  # nothing but rounding leaves the line
    return max(
        hockey_stick(one, other, along, grid.event.noise_std, epsilon)
        for one, other in (sums, reversed(list(sums)))
    )


def together(gradient, weights, rows, labels):
    """The planted fault: the rows of a batch in one call."""
    return np.asarray(gradient(weights, rows, labels))


@pytest.mark.parametrize(("epsilon", "delta"), [(4, Fraction(1, 100)), (2, Fraction(1, 1000))])
def test_the_printed_delta_holds_for_a_sign_on_the_kink(epsilon, delta):
    """All sixteen batches of four rows, three of them on the kink of |prediction - label|."""
    assert 0.1 * delta < true_delta(epsilon, delta) <= delta
    with mock.patch.object(gradient_sums, "row_gradients", together):
        assert true_delta(epsilon, delta) > 3.0 * delta


def table(n=60, dim=3):
    x = np.random.default_rng(1).normal(size=(n, dim))
    return x, x.sum(axis=1) + 10.0 * np.arange(n)


class Watching(OwnLoss):
    """Keeps the labels of every call."""

    def __init__(self):
        self.calls = []

    def gradient(self, weights, x, y):
        self.calls.append(np.array(y))
        weights[:], x[:], y[:] = weights + 1.0, x * 2.0, 0.0  # gone in the next call
        return super().gradient(weights, x, y)


def shared(calls, private):
    """The calls that had several private labels, or a private one beside others; and how many private rows were shown."""
    hidden = [np.isin(labels, private) for labels in calls]
    return [each for each in hidden if each.any() and len(each) > 1], sum(
        int(each.sum()) for each in hidden
    )


METHODS = {
    "full": SemiDP(steps=3, step_size=0.1, priv_weight=0.5),
    "poisson": DPSGD(steps=3, step_size=0.1, sampling="poisson", batch_rows=20),
    "fixed size": DPSGD(steps=3, step_size=0.1, sampling="without_replacement", batch_rows=20),
    "one pass": DPSGD(step_size=0.1, sampling="one_pass", batch_rows=20),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_gradient_sees_one_row(name):
    x, y = table()
    loss = Watching()
    method = dataclasses.replace(METHODS[name], start="zero", scaling="none")
    given = {
        "x_pub": x[:20].copy(),
        "y_pub": y[:20].copy(),
        "budget": ApproxDP(2, 1e-3),
        "method": method,
    }
    seeded(train, x[20:], y[20:], loss=loss, threads=2, **given)
    several, seen = shared(loss.calls, y[20:])
    assert not several
    assert seen >= 40
    loss.calls.clear()
    with mock.patch.object(gradient_sums, "row_gradients", together):
        seeded(train, x[20:], y[20:], loss=loss, threads=2, **given)
    assert shared(loss.calls, y[20:])[0]


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_a_user_of_local_training_computes_alone():
    x, y = table()
    loss = Watching()
    seen = []

    def residuals(scores, labels):
        seen.append(np.array(labels))
        return labels - scores

    options = {"epsilon": 2.0, "clip_norm": 1.0, "radius": 1.0, "batch_rows": 10, "random_state": 1}
    public = {"x_pub": x[:20].copy(), "y_pub": y[:20].copy()}
    local.train(x[20:], y[20:], loss=loss, **public, **options)
    several, count = shared(loss.calls, y[20:])
    assert several == []
    assert count == 40
    local.train(
        x[20:],
        y[20:],
        loss=Loss(name="own", residual=own_residual, residuals=residuals),
        **public,
        **options,
    )
    assert seen
    assert shared(seen, y[20:]) == ([], 0)  # private rows are asked about by `residual`


def test_values_are_asked_of_one_row():
    x, y = table()
    calls = []

    def values(scores, labels):
        calls.append(np.unique(labels))
        return np.abs(labels - scores)

    loss = Loss(name="own", residual=own_residual, values=values)
    method = Exponential(candidates=4, clip=1.0, scaling="none")
    given = {"x_pub": x[:20].copy(), "y_pub": y[:20].copy(), "budget": PureDP(2), "method": method}
    seeded(train, x[20:], y[20:], loss=loss, **given)
    several, count = shared(calls, y[20:].astype(np.float64))
    assert several == []
    assert count == 40


class Failing(OwnLoss):
    """Raises, ends the program, or returns something else at some private rows."""

    def gradient(self, weights, x, y):
        found = super().gradient(weights, x, y)
        if y[0] == 1001.0:
            raise ValueError(f"secret {x}")
        if y[0] == 1002.0:
            raise SystemExit("secret")
        return {1003.0: found[0], 1004.0: "secret", 1005.0: found * np.nan, 1006.0: None}.get(
            float(y[0]), found
        )


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_row_at_which_a_function_fails_counts_for_nothing():
    x = np.ones((8, 3))
    weights = np.ones(3)
    found = alone.row_gradients(Failing().gradient, weights, x, 1000.0 + np.arange(8))
    assert np.flatnonzero(found.any(axis=1)).tolist() == [0, 7]
    x, y = table()
    hidden = y[20:].copy()
    hidden[:7] = 1000.0 + np.arange(7)
    given = {"x_pub": x[:20].copy(), "y_pub": y[:20].copy(), "budget": PureDP(2)}
    ledger = Ledger(PureDP(2))
    found = seeded(
        train, x[20:], hidden, loss=Failing(), method=METHODS["full"], ledger=ledger, **given
    )
    assert np.isfinite(found.coefficients).all()
    options = {"epsilon": 2.0, "clip_norm": 1.0, "radius": 1.0, "random_state": 1}
    with pytest.warns(UserWarning, match="can be repeated"):
        assert np.isfinite(
            local.train(x[20:], hidden, loss=Failing(), **options).coefficients
        ).all()


def test_a_row_that_is_not_whole_is_not_shown():
    x = np.ones((6, 3))
    y = np.ones(6)
    x[1, 1] = np.nan
    x[2, 0] = np.inf
    y[3] = -np.inf
    y[4] = np.nan
    for loss in (ROWS, COMPILED, OWN):
        found = alone.loss_gradients(loss, 0.1 * np.ones(3), x, y)
        assert found.any(axis=1).tolist() == [True, False, False, False, False, True]
    assert np.isnan(
        alone.row_values(lambda scores, labels: np.zeros(len(scores)), np.ones(2), np.inf)
    ).all()


def raising_gradient(weights, x, y):
    if y[0] > 1000.0:
        raise ValueError("secret")
    return np.sign(x @ weights - y) * x / (y[0] - 1000.0)


def test_a_compiled_function_that_fails_counts_for_nothing():
    gradient = pytest.importorskip("numba").njit(raising_gradient)
    assert alone.is_compiled(gradient)
    x = np.ones((4, 3))
    y = 999.0 + np.arange(4)
    found = alone.row_gradients(gradient, np.ones(3), x, y)
    # a division by zero is not finite
    assert found.any(axis=1).tolist() == [True, False, False, False]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupts_and_memory_are_not_failures_of_a_row(error):
    def gradient(weights, x, y):
        raise error("secret")

    caught = raises(
        error, None, alone.row_gradients, gradient, np.ones(3), np.ones((4, 3)), np.ones(4)
    )
    assert "secret" not in str(caught)


class Crowd(OwnLoss):
    """Knows no row alone."""

    def gradient(self, weights, x, y):
        if len(x) == 1:
            raise ValueError("no spread")
        return super().gradient(weights, x, y)


class Squeezed(OwnLoss):
    """One row has another shape."""

    def gradient(self, weights, x, y):
        return np.squeeze(super().gradient(weights, x, y))


def values_of_many(scores, labels):
    return np.abs(labels - scores) if np.ptp(labels) else np.array(1.0)


def test_a_function_that_fails_at_one_row_is_refused_before_the_debit():
    x, y = table()
    ledger = Ledger(PureDP(2))
    given = {"x_pub": x[:20].copy(), "y_pub": y[:20].copy()}
    options = {"epsilon": 2.0, "clip_norm": 1.0, "radius": 1.0}
    paid = {**given, "budget": PureDP(2), "ledger": ledger}
    broken = Loss(
        name="own",
        residual=lambda prediction: prediction,
        residuals=lambda scores, labels: labels - scores,
    )
    for loss, words in ((Crowd(), "no spread"), (Squeezed(), "shape"), (broken, "fails")):
        if loss is not broken:
            raises(InputError, words, train, x, y, loss=loss, method=METHODS["full"], **paid)
        for public in (given, {}):
            raises(InputError, words, local.train, x, y, loss=loss, **public, **options)
    values = Loss(name="own", residual=own_residual, values=values_of_many)
    method = Exponential(candidates=4, clip=1.0)
    raises(InputError, "one row by several models", train, x, y, loss=values, method=method, **paid)
    assert not ledger.entries
