"""A handful of public rows of columns in different units: nothing is pooled that is not alike, and a guess is called one."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from spies import seeded

import fastpubpriv as fpp
from benchmarks.accuracy.gaussians import Problem, errors
from fastpubpriv.gaussians import gaussian_tuning as tuning
from fastpubpriv.gaussians.public_prior import moderated, plain_worth, public_prior
from fastpubpriv.results.reasons import status_of


def geyser(rng, n):
    """A mixture like eruptions of the Old Faithful geyser: minutes and minutes, one column twelve times as wide."""
    is_long = rng.random(n) < 0.64
    eruptions = np.where(is_long, rng.normal(4.29, 0.41, n), rng.normal(2.04, 0.27, n))
    waiting = np.where(is_long, rng.normal(80.0, 5.9, n), rng.normal(54.5, 5.9, n))
    waiting += 5.0 * (eruptions - 3.5) * is_long
    return np.column_stack([eruptions, waiting])


def independent(rng, n):
    return rng.normal(size=(n, 4)) * [0.01, 1.0, 30.0, 2000.0]


@dataclass(frozen=True)
class Estimate:
    """A result, the error of its covariance, and the words of its warnings."""

    result: fpp.GaussianResult
    error: float
    words: str


def estimates(draw, n_pub, n=300):
    """Estimates from 15 sets of public rows."""
    population = draw(np.random.default_rng(0), 100_000)
    covariance = np.cov(population.T)
    problem = Problem("", draw, population.mean(axis=0), covariance, n, n_pub)
    budget = fpp.ZCDP(0.05)
    found = []
    for seed in range(15):
        rng = np.random.default_rng([seed, n_pub])
        rows = draw(rng, n)
        given = {"x_pub": draw(rng, n_pub), "budget": budget, "random_state": seed}
        with warnings.catch_warnings(record=True, action="always") as told:
            result = seeded(fpp.estimate_gaussian, rows, **given)
        words = " ".join(str(each.message) for each in told)
        error = errors(problem, result.mean, result.covariance)[0]
        found.append(Estimate(result, error, words))
    return found


def median_error(draw, n_pub):
    return np.median([found.error for found in estimates(draw, n_pub)])


def test_two_public_rows_keep_the_scales_of_their_columns(monkeypatch):
    assert median_error(geyser, 2) < 20.0
    monkeypatch.setattr(tuning, "LEAST_POOLED", 0)
    assert median_error(geyser, 2) > 60.0


@pytest.mark.parametrize("n_pub", [2, 3, 4])
def test_fewer_than_five_public_rows_keep_the_variances_of_their_columns(n_pub):
    rows = np.random.default_rng(n_pub).normal(size=(n_pub, 3)) * [1.0, 5.0, 30.0]
    logs = np.log(rows.var(axis=0, ddof=1))
    own, _, degrees = moderated(logs, n_pub - 1)
    assert np.array_equal(own, logs)
    assert degrees == n_pub - 1


@pytest.mark.parametrize("n_pub", [2, 3, 4])
def test_fewer_than_five_public_rows_are_the_same_in_any_unit(n_pub):
    rows = np.random.default_rng(n_pub).normal(size=(n_pub, 3)) * [1.0, 5.0, 30.0]
    units = np.array([1e6, 1.0, 1e-6])
    expected = public_prior(rows).covariance
    found = public_prior(rows * units).covariance
    assert np.allclose(found / np.outer(units, units), expected)


@pytest.mark.parametrize("n_pub", [2, 3, 4])
def test_planted_pooling_of_fewer_than_five_rows_is_seen(n_pub, monkeypatch):
    """Equal variances are pooled to any number of degrees of freedom: from five rows on, and here from any number."""
    alike = np.zeros(3)
    assert moderated(alike, tuning.LEAST_POOLED)[2] > 1e4
    monkeypatch.setattr(tuning, "LEAST_POOLED", 0)
    assert moderated(alike, n_pub - 1)[2] > 1e4


@pytest.mark.parametrize("draw", [geyser, independent])
@pytest.mark.parametrize("n_pub", [2, 3, 4])
def test_predictions_from_so_few_rows_are_called_a_guess(n_pub, draw):
    for found in estimates(draw, n_pub):
        if found.result.structure == "full":
            continue
        assert found.result.diagnostics["guess"]
        assert "its predicted error is a guess" in found.result.summary()
        is_predicted = "predicted relative error" in found.words
        assert ("a guess: " in found.words) == is_predicted


@pytest.mark.parametrize("n_pub", [2, 3, 4])
def test_predictions_from_so_few_rows_are_right_within_a_factor_of_three(n_pub):
    """Where columns are independent."""
    found = estimates(independent, n_pub)
    ratios = [each.error / each.result.predicted_covariance_error for each in found]
    assert 1.0 / 3.0 < np.median(ratios) < 3.0


def statuses(result):
    return [status_of(reasons) for reasons in result.part_reasons]


def test_a_column_that_is_constant_in_the_public_rows_is_unreliable_alone():
    """Its scale is that of other columns, forty times too large here; with few rows of all columns, none is reliable."""
    rng = np.random.default_rng(3)
    rare = (rng.random(600) < 0.02).astype(float)
    x = np.column_stack([rng.normal(40.0, 12.0, (600, 2)), rare])
    x_pub = x[rare == 0.0][:40]
    given = {"structure": "mean", "budget": fpp.ZCDP(0.02), "random_state": 0}
    with warnings.catch_warnings(action="ignore"):
        result = fpp.estimate_gaussian(x[40:], x_pub=x_pub, **given)
        few = fpp.estimate_gaussian(x[40:], x_pub=x_pub[:3], **given)
    assert result.covariance[2, 2] ** 0.5 > 10.0 * rare.std()
    assert statuses(result) == ["caution", "caution", "unreliable"]
    assert statuses(few) == ["unreliable"] * 3


@pytest.mark.parametrize(
    ("dim", "n_pub", "guess"),
    [
        (1, 2, False),
        (3, 2, True),
        (3, 4, True),
        (3, 5, False),
        (3, 50, False),
        (8, 5, True),
        (8, 8, True),
        (8, 9, False),
    ],
)
def test_enough_public_rows_are_no_guess(dim, n_pub, guess):
    assert plain_worth(dim, n_pub).guess is guess


def test_a_result_says_whether_it_is_a_guess():
    few = estimates(independent, 2)[0].result
    many = estimates(independent, 40)[0].result
    assert few.diagnostics["guess"]
    assert "a guess" not in many.summary()
