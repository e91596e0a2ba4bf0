"""Anchors: cuts in valleys, codes of rows, splits, and the whole learner in several columns."""

import math
from unittest import mock

import numpy as np
import pytest
from axis_cases import BLOBS, learn, matched
from scipy import stats
from spies import seeded

from benchmarks.papers.mixture_cases import Truth, blobs, distance_by_draws, released
from fastpubpriv import AccuracyWarning, ApproxDP, learn_axis_aligned_mixture
from fastpubpriv.mixtures.axis_aligned import anchors
from fastpubpriv.mixtures.axis_aligned.anchors import (
    Column,
    Start,
    anchor_columns,
    around,
    codes,
    labels_of,
    moments_of,
    split,
    started,
    valleys,
)
from fastpubpriv.mixtures.axis_aligned.binned_em import Mixtures
from fastpubpriv.mixtures.axis_aligned.dp_em import Parameters


def fit(weights, means, stds):
    return Mixtures(np.array([weights]), np.array([means]), np.array([stds]))


def column(weights, means, stds, least=0.05):
    found = fit(weights, means, stds)
    return Column(found, *valleys(found, least))


def test_a_cut_lies_in_the_valley_and_confuses_as_many_as_it_says():
    cuts, confused = valleys(fit([0.4, 0.6], [0.0, 10.0], [1.0, 2.0]), 0.05)
    assert len(cuts) == 1
    wrong = 0.4 * stats.norm.sf(cuts[0], 0.0, 1.0) + 0.6 * stats.norm.cdf(cuts[0], 10.0, 2.0)
    assert confused == pytest.approx(wrong / 0.4)
    assert 2.0 < cuts[0] < 6.0


@pytest.mark.parametrize(
    "modes",
    [
        ([0.5, 0.5], [0.0, 1.5], [1.0, 1.0]),  # no valley
        ([0.5, 0.5], [0.0, 0.0], [1.0, 10.0]),  # concentric
        ([0.999, 0.001], [0.0, 50.0], [1.0, 1.0]),  # too light to be a component
        ([1.0, 0.0], [0.0, 50.0], [1.0, 1.0]),  # padding
    ],
)
def test_no_cut_without_a_valley(modes):
    assert len(valleys(fit(*modes), 0.05)[0]) == 0


def test_codes_number_combinations_and_ignore_other_columns():
    columns = [
        column([0.5, 0.5], [0.0, 100.0], [1.0, 1.0]),
        column([1.0], [0.0], [1.0]),
        column([0.3, 0.3, 0.4], [0.0, 50.0, 100.0], [1.0] * 3),
    ]
    chosen = anchor_columns(columns)
    assert chosen == [2, 0]
    rows = np.array([[0.0, 9e9, 0.0], [100.0, 0.0, 0.0], [0.0, 0.0, 51.0], [100.0, 0.0, 99.0], [np.nan, 0.0, 0.0]])
    assert codes(rows, chosen, columns).tolist() == [0, 1, 2, 5, -1]
    assert labels_of(5, chosen, columns) == {2: 2, 0: 1}
    assert [labels_of(code, chosen, columns)[2] for code in range(6)] == [0, 0, 1, 1, 2, 2]


def test_anchors_are_few_and_their_combinations_too():
    many = [column([0.2] * 5, [0.0, 50.0, 100.0, 150.0, 200.0], [1.0] * 5) for _ in range(6)]
    assert len(anchor_columns(many)) == 3  # 5^3 = 125 combinations; a fourth column would make 625
    assert len(anchor_columns([column([0.5, 0.5], [0.0, 50.0], [1.0, 1.0])] * 6)) == 4


def test_moments_of_modes():
    mean, std = moments_of(np.array([[0.5, 0.0, 1.0], [0.5, 4.0, 1.0]]))
    assert (mean, std) == (pytest.approx(2.0), pytest.approx(np.sqrt(5.0)))
    # A light mode far away, which may be noise, moves nothing.
    assert column([0.998, 0.002], [0.0, 1e6], [1.0, 1.0]).moments(None, 0.05) == (0.0, 1.0)


def test_split_takes_the_widest_gap_first_and_keeps_the_weight():
    columns = [column([0.5, 0.5], [0.0, 3.0], [1.0, 1.0]), column([0.5, 0.5], [0.0, 50.0], [1.0, 1.0])]
    at = started(columns, split([Start(1.0, {}, {})], columns, 2, 0.05), 0.05, known_std=False)
    assert sorted(at.means[:, 1].tolist()) == [0.0, 50.0]
    assert np.allclose(at.means[:, 0], 1.5)
    assert at.weights.sum() == pytest.approx(1.0)
    assert len(split([Start(1.0, {}, {})], columns, 9, 0.05)) == 4  # there is nothing more to split


def test_points_around_are_about_a_standard_error_away():
    at = Parameters(np.array([0.5, 0.5]), np.zeros((2, 3)), np.ones((2, 3)))
    found = around(at, np.array([0.1, 0.2]), 500, known_std=False)
    means = np.array([each.means for each in found])
    assert np.allclose(means.std(axis=(0, 2)), [0.1, 0.2], rtol=0.1)
    assert all(each.weights.sum() == pytest.approx(1.0) for each in found)


# ---- the whole ------------------------------------------------------------------------------------------------------


def test_columns_that_are_no_anchors_get_the_modes_that_match():
    # Five columns a million standard deviations wide, of which four are anchors: the fifth must not be left blurred.
    rng = np.random.default_rng(1)
    truth = Truth(np.array([0.5, 0.5]), np.array([[-1e6] * 5, [1e6] * 5]), np.ones((2, 5)))
    result = learn(truth.draw(rng, 40_000), 2)
    assert len(result.diagnostics["anchors"]) == 4
    assert "matching_modes" in [release["name"] for release in result.releases]
    assert (matched(result, truth) < [0.2, 0.3, 0.02]).all()


def test_units_of_columns_do_not_matter():
    rng = np.random.default_rng(2)
    rows = blobs(np.random.default_rng(4), 3, 4).draw(rng, 40_000)
    unit = 2.0 ** np.array([-40, 0, 30, 100])
    one, other = learn(rows, 3), learn(rows * unit, 3)
    # Powers of two: the same cells, the same noise, the same answer.
    assert np.allclose(other.means / unit, one.means, rtol=1e-6, atol=1e-6)
    assert np.allclose(other.weights, one.weights, rtol=1e-9)


def test_what_it_cannot_do_is_one_component():
    # Concentric in two columns: nothing tells the components apart, and the answer says so by being one Gaussian at that place.
    rng = np.random.default_rng(3)
    truth = Truth(np.array([0.5, 0.5]), np.zeros((2, 2)), np.array([[1.0, 1.0], [6.0, 6.0]]))
    result = learn(truth.draw(rng, 20_000), 2)
    assert result.diagnostics["anchors"] == ()
    assert np.abs(result.means).max() < 1.5


def test_blobs_without_a_range():
    rng = np.random.default_rng(5)
    assert distance_by_draws(BLOBS, released(learn(BLOBS.draw(rng, 30_000), 5)), rng) < 0.15


def test_deviations_a_billionth_of_the_distances():
    """The least deviation is that of the arithmetic, not a share of the whole spread."""
    truth = Truth(
        np.array([0.3, 0.3, 0.4]),
        np.array([[-1e9, 0.0, 0.0], [0.0, 1e5, 1.0], [1e9, -50.0, 2.0]]),
        np.array([[3.0, 1.0, 1.0], [0.5, 40.0, 1.0], [1.0, 1.0, 1.0]]),
    )
    result = learn(truth.draw(np.random.default_rng(3), 40_000), 3, method="anchors")
    assert (matched(result, truth) < [0.25, 0.25, 0.05]).all()


def test_rows_too_few_to_show_any_place_are_said_before_they_are_paid_for():
    """500 rows in 11 columns: no place can show, cells hold noise, and what is made of it stays near where nothing is known."""
    rng = np.random.default_rng(0)
    rows = 10.0 * rng.integers(0, 2, size=(500, 1)) + rng.normal(size=(500, 11))
    options = {"n_components": 2, "budget": ApproxDP(1, 1e-6), "random_state": 0, "threads": 1, "progress": False}
    with pytest.warns(AccuracyWarning, match=r"500 rows in 11 columns are too few for method='anchors' here"):
        result = seeded(learn_axis_aligned_mixture, rows, **options)
    assert set(result.status) <= {"empty", "fallback"}
    assert np.abs(result.means).max() < 10.0
    with (
        mock.patch.object(anchors, "_STANDS_OUT", -math.inf),  # planted: noise is taken for rows
        pytest.warns(AccuracyWarning, match="too few"),
    ):
        assert np.abs(seeded(learn_axis_aligned_mixture, rows, **options).means).max() > 10.0
