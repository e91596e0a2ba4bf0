"""The row statistic of DP-EM, its M step, and what public rows start it with."""

import math

import numpy as np
import pytest
from axis_cases import APPROX, learn, matched
from spies import seeded

from benchmarks.papers.mixture_cases import blobs, distance_by_draws, released
from fastpubpriv import ZCDP, AccuracyWarning, InputError, PureDP, learn_axis_aligned_mixture
from fastpubpriv.mixtures.axis_aligned.dp_em import (
    Parameters,
    Radii,
    iteration_shares,
    maximised,
    public_start,
    row_statistic,
    statistic_dim,
)
from fastpubpriv.sources import Rows


def parameters(rng, components=3, dim=4):
    return Parameters(
        rng.dirichlet(np.full(components, 5.0)),
        3.0 * rng.normal(size=(components, dim)),
        np.exp(0.3 * rng.normal(size=(components, dim))),
    )


def plain_statistic(row, at, radii):
    """The same for one row, written to be read."""
    logs = [
        math.log(w) - sum(math.log(s) + 0.5 * ((x - m) / s) ** 2 for x, m, s in zip(row, means, stds, strict=True))
        for w, means, stds in zip(at.weights, at.means, at.stds, strict=True)
    ]
    share = np.exp(np.array(logs) - max(logs))
    share /= share.sum()
    first, second = [], []
    for r, means, stds in zip(share, at.means, at.stds, strict=True):
        z = (row - means) / stds
        v = (z * z - 1.0) / math.sqrt(2.0)
        first.append(r * z * min(1.0, radii.first / np.linalg.norm(z)))
        second.append(r * v * min(1.0, radii.second / np.linalg.norm(v)))
    return np.concatenate([radii.share * share, *first, *second])


def test_statistic_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    at, radii = parameters(rng), Radii.of(4, known_std=False)
    rows = 4.0 * rng.normal(size=(200, 4))
    expected = np.array([plain_statistic(row, at, radii) for row in rows])
    assert np.allclose(row_statistic(rows, at, radii), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("known_std", [False, True])
def test_no_row_is_longer_than_the_radius(known_std):
    rng = np.random.default_rng(1)
    at, radii = parameters(rng), Radii.of(4, known_std=known_std)
    rows = rng.normal(size=(3000, 4)) * 10.0 ** rng.uniform(-300, 300, size=(3000, 1))
    rows[:5] = [[0.0] * 4, [1e308] * 4, [-1e308] * 4, [5e-324] * 4, [1e308, -1e308, 0.0, 0.0]]
    found = row_statistic(rows, at, radii)
    assert found.shape == (3000, statistic_dim(3, 4, known_std=known_std))
    assert np.linalg.norm(found, axis=1).max() <= radii.total * (1.0 + 1e-12)
    assert np.isfinite(found).all()


def test_rows_do_not_see_each_other_nor_their_place():
    rng = np.random.default_rng(2)
    at, radii = parameters(rng, dim=5), Radii.of(5, known_std=False)
    rows = rng.normal(size=(1003, 5))
    whole = row_statistic(rows, at, radii)
    for size in (1, 3, 7, 64, 1000):
        parts = [row_statistic(rows[i : i + size], at, radii) for i in range(0, len(rows), size)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert np.array_equal(row_statistic(np.asfortranarray(rows), at, radii), whole)


def test_a_row_that_is_not_finite_counts_for_nothing():
    at, radii = parameters(np.random.default_rng(3)), Radii.of(4, known_std=False)
    rows = np.array([[np.nan, 0, 0, 0], [np.inf, 0, 0, 0], [1.0, 2.0, 3.0, 4.0], [0, 0, 0, -np.inf], [1e308] * 4])
    with np.errstate(all="raise"):
        found = row_statistic(rows, at, radii)
    assert np.isfinite(found).all()
    assert found.any(axis=1).tolist() == [False, False, True, False, True]


def test_the_truth_is_a_fixed_point():
    rng = np.random.default_rng(4)
    at, radii = parameters(rng), Radii.of(4, known_std=False)
    wide = Radii(radii.share, 50.0, 50.0)  # nothing is clipped
    labels = rng.choice(3, 400_000, p=at.weights)
    rows = at.means[labels] + at.stds[labels] * rng.normal(size=(len(labels), 4))
    moved = maximised(at, row_statistic(rows, at, wide).mean(axis=0), wide, np.zeros(4))
    assert np.abs((moved.means - at.means) / at.stds).max() < 0.02
    assert np.abs(np.log(moved.stds / at.stds)).max() < 0.02
    assert np.abs(moved.weights - at.weights).max() < 0.005


def test_a_step_goes_from_a_poor_start_towards_the_truth():
    rng = np.random.default_rng(5)
    truth = Parameters(np.array([0.5, 0.5]), np.array([[0.0], [6.0]]), np.array([[1.0], [2.0]]))
    labels = rng.choice(2, 100_000)
    rows = truth.means[labels] + truth.stds[labels] * rng.normal(size=(len(labels), 1))
    at = Parameters(np.array([0.7, 0.3]), np.array([[-1.0], [7.0]]), np.array([[2.0], [1.0]]))
    radii = Radii.of(1, known_std=False)
    for _ in range(30):
        at = maximised(at, row_statistic(rows, at, radii).mean(axis=0), radii, np.zeros(1))
    assert np.abs(at.means - truth.means).max() < 0.15
    assert np.abs(np.log(at.stds / truth.stds)).max() < 0.1


def test_shares_grow_and_add_up_exactly():
    assert iteration_shares(1) == [1]
    assert sum(iteration_shares(4)) == 1
    assert [part / iteration_shares(3)[0] for part in iteration_shares(3)] == [1, 3, 9]


def test_public_start_stands_up_to_constant_columns():
    public = np.column_stack([np.zeros(10), np.full(10, 1e9), np.arange(10.0)])
    at, floor = public_start(public, 2, known_std=False)
    assert np.isfinite(at.means).all()
    assert (at.stds > 0.0).all()
    assert (floor > 0.0).all()


@pytest.mark.parametrize("budget", [ZCDP(0.0176), APPROX, PureDP(1)])
def test_private_rows_improve_on_the_public_ones(budget):
    rng = np.random.default_rng(6)
    truth = blobs(rng, 3, 5)
    public, rows = truth.draw(rng, 300), truth.draw(rng, 20_000)
    result = learn(rows, 3, budget=budget, x_pub=public, method="dp_em")
    at, _ = public_start(public, 3, known_std=False)
    alone = distance_by_draws(truth, type(truth)(at.weights, at.means, at.stds), rng)
    ours = distance_by_draws(truth, released(result), rng)
    assert ours < (0.5 if not isinstance(budget, PureDP) else 0.9) * alone
    assert result.diagnostics["private_weight"][-1] > 0.8
    rows_worse = learn(rows, 3, budget=ZCDP(1e-6), x_pub=public, method="dp_em")
    assert rows_worse.diagnostics["private_weight"][-1] < 0.2  # the noise decides the weight
    assert distance_by_draws(truth, released(rows_worse), rng) < 1.3 * alone


def test_public_rows_from_elsewhere_cost_accuracy_only():
    rng = np.random.default_rng(7)
    truth = blobs(rng, 2, 2)
    rows = truth.draw(rng, 20_000)
    result = learn(rows, 2, budget=ZCDP(0.05), x_pub=truth.draw(rng, 50) + 1.0, method="dp_em")
    assert (matched(result, truth) < [0.6, 0.5, 0.2]).all()


def test_rows_held_out_choose_how_far_to_go():
    """Public rows of another law: the public fit is poor, and the rows held out say so."""
    rng = np.random.default_rng(8)
    truth = blobs(rng, 2, 2)
    rows, public = truth.draw(rng, 20_000), truth.draw(rng, 50) + 1.0
    result = learn(rows, 2, budget=ZCDP(0.05), x_pub=public, method="dp_em", held_out=0.2)
    assert result.diagnostics["candidates"] == 4
    assert result.diagnostics["chosen"] >= 1
    assert (matched(result, truth) < [0.7, 0.5, 0.2]).all()
    assert [release["name"] for release in result.releases] == [*(f"responsibilities {i}" for i in (1, 2, 3)), "choice"]
    # Blocks of their own: the iterations have all of rho, and so has the choice.
    assert sum(release["rho"] for release in result.releases[:3]) == pytest.approx(0.05, rel=1e-6)
    assert result.releases[3]["epsilon"] == pytest.approx(math.sqrt(8 * 0.05), rel=1e-6)


def test_rows_held_out_of_a_stream():
    rng = np.random.default_rng(9)
    truth = blobs(rng, 2, 2)
    rows, public = truth.draw(rng, 3000), truth.draw(rng, 50)
    stream = Rows.from_chunks(lambda: (rows[k : k + 700] for k in range(0, 3000, 700)), n=3000, dim=2)
    options = {"budget": ZCDP(0.05), "x_pub": public, "method": "dp_em", "held_out": np.float32(0.2), "random_state": 3}
    one, other = (seeded(learn_axis_aligned_mixture, x, n_components=2, **options) for x in (rows, stream))
    assert one.diagnostics["chosen"] == other.diagnostics["chosen"]
    np.testing.assert_array_equal(one.means, other.means)


def test_too_few_rows_held_out_for_an_accuracy_are_told():
    with pytest.warns(AccuracyWarning, match="best of 4 candidates"):
        learn(
            np.zeros((3000, 2)), 2, budget=ZCDP(0.1), x_pub=np.arange(8.0).reshape(4, 2), method="dp_em", held_out=0.29,
            accuracy=0.01,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"held_out": 0.6}, "from 0 to 0.5"),
        ({"held_out": 0.105}, "whole hundredths"),
        ({"held_out": -0.1}, "held_out"),
        ({"held_out": math.nan}, "held_out"),
        (
            {"held_out": 0.2, "method": "public_list"},
            "the method here is 'public_list': leave it out, or pass method='dp_em'",
        ),
        ({"held_out": 0.01, "x": np.zeros((9, 2))}, "too few for 2 blocks"),
    ],
)
def test_what_cannot_be_held_out(change, text):
    options = {"x": np.zeros((200, 2)), "method": "dp_em", "x_pub": np.arange(8.0).reshape(4, 2), **change}
    with pytest.raises(InputError, match=text):
        learn(options.pop("x"), 2, budget=ZCDP(0.1), **options)
