"""Algorithm 3 on point sets made for its branches, against the twin, and under scaling; bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import supercluster as reference

from fastpubpriv import InputError
from fastpubpriv.mixtures.separated import public_shapes as module
from fastpubpriv.mixtures.separated.public_shapes import Ball, supercluster


def on_a_line(*steps):
    """A most isolated row at 0 with its nearest neighbour at 1 (so a step is 16), and pairs of rows at distances given in steps.

    The rows of a pair are close to each other, so they are not more isolated.
    """
    rows = [0.0, 1.0]
    for step in steps:
        rows += [16.0 * step, 16.0 * step + 0.5]
    return np.array(rows)[:, None]


# Distances of the pairs from the centre, rounds, and the radius in steps that Algorithm 3 gives by hand.
BRANCHES = [
    pytest.param((), 3, 2, id="empty around: out by the second test of round 1"),
    pytest.param((2.5,), 1, 4, id="one round: a pair in the second shell makes it 1 + 3"),
    pytest.param((2.5,), 2, 5, id="grows by 3, then out with nothing near"),
    pytest.param((1.5,), 2, 3, id="pure: a pair in the first shell, none in the second, out in round 2"),
    pytest.param((1.5, 2.5), 2, 4, id="not pure: pairs in both shells, so the empty shell behind is looked at twice"),
    pytest.param((1.5, 3.5, 5.5), 2, 5, id="rounds run out"),
    pytest.param((1.5, 3.5, 5.5), 9, 7, id="pure three times, then out"),
]


@pytest.mark.parametrize(("steps", "rounds", "radius"), BRANCHES)
def test_branches_by_hand(steps, rounds, radius):
    ball = supercluster(on_a_line(*steps), n_components=rounds)
    assert ball.index == 0
    assert ball.center.tolist() == [0.0]
    assert ball.radius == 16.0 * radius
    assert ball.radius <= (3 * rounds + 1) * 16.0


def test_step_factor():
    assert supercluster(on_a_line(), n_components=3, step_factor=2.0).radius < 16.0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_equals_the_twin(seed, rounds, dim):
    rng = np.random.default_rng(seed)
    groups = [
        rng.normal(size=(rng.integers(1, 7), dim)) * 10.0 ** rng.integers(-2, 2)
        + rng.normal(size=dim) * 10.0 ** rng.integers(0, 6)
        for _ in range(rng.integers(1, 6))
    ]
    points = np.concatenate([*groups, groups[0][:1] + 1.0])
    ball = supercluster(points, n_components=rounds)
    index, radius = reference.supercluster(points, rounds)
    assert ball.index == index
    assert ball.radius == pytest.approx(radius, rel=1e-12)
    away = reference.pairwise(points) + np.diag(np.full(len(points), np.inf))
    step = 16.0 * away.min(axis=1).max()
    assert step * (1 - 1e-12) <= ball.radius <= (3 * rounds + 1) * step * (1 + 1e-12)


@pytest.mark.parametrize("scale", [2.0**-300, 2.0**-20, 2.0**40, 2.0**300])
def test_moves_and_scales_with_the_rows(scale):
    points = np.random.default_rng(4).integers(-50, 50, size=(30, 3)).astype(float)
    points = np.unique(points, axis=0)
    one = supercluster(points, n_components=4)
    scaled = supercluster(points * scale, n_components=4)
    assert (scaled.index, scaled.radius) == (one.index, one.radius * scale)
    moved = supercluster(points + 1024.0, n_components=4)
    assert (moved.index, moved.radius) == (one.index, one.radius)


def test_lowest_index_wins_ties_and_equal_rows_have_radius_zero():
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert supercluster(square, n_components=2).index == 0
    equal = supercluster(np.ones((4, 2)), n_components=2)
    assert (equal.index, equal.radius) == (0, 0.0)
    assert equal.contains(np.ones((1, 2))).all()


def test_twin_test_notices_a_wrong_growth(monkeypatch):
    """Planted bug: a shell that holds rows adds three steps, as the other branch does."""
    source = module.find_supercluster

    def planted(points, n_components, *, step_factor=16.0):
        ball = source(points, n_components, step_factor=step_factor)
        return Ball(center=ball.center, radius=ball.radius + step_factor, index=ball.index)

    monkeypatch.setattr(module, "find_supercluster", planted)
    with pytest.raises(AssertionError):
        test_branches_by_hand((1.5,), 2, 3)


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (np.zeros((1, 2)), {}, "at least 2 public rows"),
        (np.array([[0.0, np.nan], [1.0, 1.0]]), {}, "nan"),
        (np.zeros((3, 2)), {"n_components": 0}, "n_components"),
        (np.zeros((3, 2)), {"n_components": 1.5}, "n_components"),
        (np.zeros((3, 2)), {"n_components": True}, "n_components"),
        (np.zeros((3, 2)), {"step_factor": 0.0}, "step_factor"),
    ],
)
def test_arguments_out_of_range_are_refused(points, options, message):
    with pytest.raises(InputError, match=message):
        supercluster(points, **{"n_components": 2, **options})


def test_too_many_rows_are_refused_before_the_wait(monkeypatch):
    monkeypatch.setattr("fastpubpriv.mixtures.separated.public_shapes.MOST_WORK", 10.0)
    with pytest.raises(InputError, match="too many for pairwise distances"):
        supercluster(np.arange(8.0).reshape(4, 2), n_components=2)
