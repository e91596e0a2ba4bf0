"""The state, the rules and the loop of rounds of second moments, against direct evaluations."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from fastpubpriv.gaussians.recursive import SHRINK, Halvings
from fastpubpriv.gaussians.rounds import (
    Precision,
    RoundMoment,
    Rounds,
    covariance_error,
    planned,
    release_rounds,
)
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy.spending import GaussianSpending

DIM = 3
BASE = AffineMap(dim=DIM)


def second_moment(seed, side=DIM):
    rows = np.random.default_rng(seed).normal(size=(50, side)) * np.geomspace(1.0, 30.0, side)
    return rows.T @ rows / len(rows)


def moment_of(second, n=1.0, std=0.0):
    return RoundMoment(SimpleNamespace(value=second * n, spectral_std=std * n), n)


@pytest.mark.parametrize("side", [DIM, DIM + 1])
def test_a_round_whitens_what_it_released(side):
    truth = second_moment(1, side)
    state = Rounds(BASE, np.eye(side), lambda moment: 0.0)
    state.update(moment_of(truth))
    assert np.allclose(state.contraction @ truth @ state.contraction.T, np.eye(side))
    assert np.array_equal(state.contraction, np.tril(state.contraction))
    assert state.made == 1


def test_the_last_round_is_taken_back_through_all_rounds():
    truth = second_moment(2)
    state = Rounds(BASE, 0.1 * np.eye(DIM), lambda moment: 0.3)
    for _ in range(3):
        state.update(moment_of(state.contraction @ truth @ state.contraction.T))
    last = moment_of(state.contraction @ truth @ state.contraction.T)
    assert np.allclose(state.moment_of(last), truth)
    # Directions that noise made negative are raised to the floor.
    assert np.allclose(
        state.moment_of(moment_of(-np.eye(DIM)), 1e-3), 1e-3 * state_covariance(state)
    )


def state_covariance(state):
    inverse = np.linalg.inv(state.contraction)
    return inverse @ inverse.T


def test_no_direction_of_coinpress_is_taken_for_shorter_than_its_slack():
    state = Rounds(BASE, np.eye(DIM), lambda moment: 4.0 * moment.std)
    state.update(moment_of(np.diag([-1.0, 0.0, 5.0]), std=0.25))
    # Roots 1, 1 and sqrt(6), in whatever order.
    assert np.allclose(state.contraction @ state.contraction.T, np.diag([1.0, 1.0, 1.0 / 6.0]))


def test_halving_is_that_of_the_proof_up_to_a_rotation():
    condition = 1000.0
    state = Halvings(BASE, np.eye(DIM), lambda moment: 0.0, condition=condition)
    truth = second_moment(3)
    for made in range(2):
        released = state.contraction @ truth @ state.contraction.T
        values, vectors = np.linalg.eigh(released)
        halved = np.where(values >= condition * SHRINK**made / 2.0, 0.5, 1.0)
        symmetric = (vectors * halved) @ vectors.T @ state.contraction
        state.update(moment_of(released))
        assert np.allclose(state.contraction.T @ state.contraction, symmetric.T @ symmetric)
    assert state.made == 2


def test_the_loop_updates_every_state_but_after_the_last_release():
    states = [Rounds(BASE, np.eye(DIM), lambda moment: 0.0) for _ in range(2)]
    costs = [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    log = []

    def measure(step):
        log.append((step.name, step.cost, [state.made for state in states]))
        return [moment_of(4.0 * np.eye(DIM)) for _ in states]

    last = release_rounds(states, planned("moment", costs, 2.0), measure)
    assert log == [
        ("moment, round 1 of 3", Fraction(1, 4), [0, 0]),
        ("moment, round 2 of 3", Fraction(1, 4), [1, 1]),
        ("moment, round 3 of 3", Fraction(1, 2), [2, 2]),
    ]
    assert [state.made for state in states] == [2, 2]
    assert np.array_equal(last[1].value, 4.0 * np.eye(DIM))


def test_rows_are_mapped_with_and_without_a_constant():
    rows = np.random.default_rng(4).normal(size=(5, DIM))
    base = AffineMap(dim=DIM, center=np.ones(DIM), matrix=np.array([2.0, 3.0, 4.0]))
    moved = (rows - 1.0) * [2.0, 3.0, 4.0]
    lifted = np.tril(np.random.default_rng(5).normal(size=(DIM + 1, DIM + 1)))
    for side, expected in ((DIM, moved), (DIM + 1, np.column_stack([moved, np.ones(5)]))):
        contraction = lifted[:side, :side]
        affine = Rounds(base, contraction, lambda moment: 0.0).affine
        offset = 0.0 if affine.offset is None else affine.offset
        assert np.allclose(
            (rows - affine.center) @ affine.dense.T + offset, expected @ contraction.T
        )


def test_errors_of_a_round_by_hand():
    errors = Precision(4, 400.0, GaussianSpending(Fraction(1, 2)))
    # Square root of 4 / 400, and half of it squared.
    assert errors.sampling == pytest.approx(0.105)
    assert errors.slack(0.5) == pytest.approx(0.105 + math.sqrt(8.0) * 0.5)
    union = Precision(4, 400.0, GaussianSpending(Fraction(1, 2)), tail=3.0)
    assert union.slack(0.5) == pytest.approx(
        2.0 * (0.1 + 3.0 / 20.0) + (math.sqrt(8.0) + 3.0) * 0.5
    )
    # Of white rows in two columns: 6 / 600 by sampling, and by noise three entries of variance .01.
    assert covariance_error(np.ones(2), 600.0, 0.1) == pytest.approx(math.sqrt(0.01 + 0.03))
