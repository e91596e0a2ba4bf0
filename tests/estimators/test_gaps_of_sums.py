"""Means and covariances by clipped sums are those of the complete rows, whose number each sum releases at no cost."""

import warnings

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import (
    ZCDP,
    PureDP,
    coinpress_covariance,
    coinpress_mean,
    estimate_gaussian,
    estimate_mean,
    weighted_mean,
)

MEAN = 5.0
VARIANCE = 9.0
N = 10_000
BUDGETS = {"zcdp": ZCDP(0.5), "little zcdp": ZCDP(0.05), "pure": PureDP(1.0)}
MEANS = {
    "weighted_mean": (weighted_mean, {"norm_bound": 20.0}),
    "weighted_mean, public rows": (weighted_mean, {"norm_bound": 20.0, "x_pub": True}),
    "weighted_mean, bounds": (weighted_mean, {"bounds": (-10.0, 20.0)}),
    "weighted_mean, auto": (weighted_mean, {"norm_bound": "auto", "x_pub": True}),
    "coinpress_mean": (coinpress_mean, {"center": 0.0, "radius": 30.0, "variance": VARIANCE}),
    "coinpress_mean, bounds": (coinpress_mean, {"bounds": (-20.0, 20.0)}),
    "coinpress_mean, auto": (coinpress_mean, {"center": 0.0, "radius": "auto"}),
    "coinpress_mean, auto and variance": (
        coinpress_mean,
        {"center": 0.0, "radius": "auto", "variance": VARIANCE},
    ),
    "estimate_mean, variance": (estimate_mean, {"x_pub": True, "variance": VARIANCE}),
}


def rows_with_gaps(seed, incomplete):
    """Return private rows (N, 2), of which a share lacks one cell, and public rows."""
    rng = np.random.default_rng([400, seed])
    private = rng.normal(MEAN, VARIANCE**0.5, size=(N, 2))
    public = rng.normal(MEAN, VARIANCE**0.5, size=(100, 2))
    lacking = np.flatnonzero(rng.random(N) < incomplete)
    private[lacking, rng.integers(2, size=len(lacking))] = np.nan
    return private, public


def estimated(verb, options, seed, incomplete, budget):
    private, public = rows_with_gaps(seed, incomplete)
    given = {**options, "x_pub": public} if options.get("x_pub") else options
    with warnings.catch_warnings(action="ignore"):
        return seeded(verb, private, budget=budget, random_state=seed, **given), private


@pytest.mark.parametrize("incomplete", [0.3, 0.66])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize(("verb", "options"), MEANS.values(), ids=MEANS)
def test_intervals_hold_the_mean_of_complete_rows(verb, options, budget, incomplete):
    """With all rows in place of the complete ones, means were .7 and .34 of 5."""
    held = []
    counted = []
    for seed in range(60):
        result, private = estimated(verb, options, seed, incomplete, budget)
        lower, upper = result.confidence_interval()
        held.append((lower <= MEAN) & (upper >= MEAN))
        fewest, most = result.complete_rows_interval()
        counted.append(fewest <= np.isfinite(private).all(axis=1).sum() <= most)
        assert "gaps" in result.reasons
    assert np.mean(held) >= 0.93
    assert np.mean(counted) >= 0.93


@pytest.mark.parametrize(("verb", "options"), MEANS.values(), ids=MEANS)
def test_rows_without_gaps_have_no_reason_for_gaps(verb, options):
    for seed in range(5):
        result, _ = estimated(verb, options, seed, 0.0, ZCDP(0.05))
        assert "gaps" not in result.reasons


def test_the_number_of_complete_rows_leaves_the_noise_as_it_was():
    """Two standard deviations of a sum of rows in a ball of radius 20 at 1/2 zCDP: sqrt(2 / rho) radius / n, up to the grid."""
    result, _ = estimated(weighted_mean, {"norm_bound": 20.0}, 0, 0.0, ZCDP(0.5))
    assert result.noise_std == pytest.approx(2.0 * 20.0 / N, rel=1e-4)
    assert float(result.spent.rho) <= 0.5


@pytest.mark.parametrize("incomplete", [0.0, 0.3, 0.66])
@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(2.0)])
@pytest.mark.parametrize(
    ("verb", "options"),
    [
        (coinpress_covariance, {"scale": 40.0, "center": MEAN}),
        (estimate_gaussian, {"method": "lifted_coinpress", "x_pub": True}),
        (estimate_gaussian, {"method": "pairs", "x_pub": True}),
        (estimate_gaussian, {"method": "recursive_preconditioner", "x_pub": True}),
    ],
)
def test_covariances_are_those_of_complete_rows(verb, options, budget, incomplete):
    """Of pairs .49 and .12 are complete: with all pairs in place of these, variances were 4.4 and 1.3 for 9."""
    variances = []
    for seed in range(5):
        result, _ = estimated(verb, options, seed, incomplete, budget)
        variances.append(np.diag(result.covariance))
        assert ("gaps" in result.reasons) == (incomplete > 0.0)
    assert np.mean(variances) == pytest.approx(VARIANCE, rel=0.1)


def test_the_summary_says_what_the_answers_are_about():
    result, _ = estimated(weighted_mean, {"norm_bound": 20.0}, 0, 0.3, ZCDP(0.5))
    lower, upper = result.complete_rows_interval()
    sentence = (
        f"the complete rows, {result.complete_rows:,.0f} [{lower:,.0f}, {upper:,.0f}] of 10,000"
    )
    assert f"Answers about  {sentence}" in result.summary()
    again = type(result).from_json(result.to_json())
    assert again.complete_rows_interval() == (lower, upper)


@pytest.mark.parametrize("several", [1, 3, "auto"])
def test_rows_that_a_person_does_not_have_are_no_gaps(several):
    """6,700 persons with one to five rows: with three of each, a quarter of the rows in use pads persons."""
    rng = np.random.default_rng(11)
    person = np.repeat(np.arange(6_700), rng.integers(1, 6, size=6_700))[:20_000]
    private = rng.normal([MEAN, 1.0], [3.0, 2.0], size=(len(person), 2))
    public = rng.normal([MEAN, 1.0], [3.0, 2.0], size=(100, 2))
    with warnings.catch_warnings(action="ignore"):
        result = seeded(
            estimate_gaussian,
            private,
            x_pub=public,
            person=person,
            rows_per_person=several,
            budget=ZCDP(0.5),
            structure="full",
        )
    assert "gaps" not in result.reasons
    lower, upper = result.confidence_interval(0.999)
    assert np.all((lower <= [MEAN, 1.0]) & (upper >= [MEAN, 1.0]))
    if several == 3:
        fewest, most = result.complete_rows_interval()
        assert fewest <= np.minimum(np.bincount(person), 3).sum() <= most
        assert "Rows used" in result.summary()
        assert "the complete rows" not in result.summary()
