"""Intervals of `private_pca` for the mean square along each direction, by the source of the radius."""

import math
import warnings

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, PureDP, private_pca

MIX = np.array([[3.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.5, 0.2, 0.4]])
# The lognormal column exp(.9 z): its mean, variance, and covariance with z.
LOG_MEAN = math.exp(0.405)
LOG_VARIANCE = (math.exp(0.81) - 1.0) * math.exp(0.81)
LOG_COVARIANCE = 0.9 * LOG_MEAN


def light(z):
    return z @ MIX.T + [10.0, -5.0, 2.0]


def lognormal(z):
    return np.column_stack([np.exp(0.9 * z[:, 0]), z[:, 1], 2.0 * z[:, 2] + z[:, 0]])


def awkward(z):
    return np.column_stack(
        [1e9 + 5.0 * z[:, 0], 3.0 + 0.001 * z[:, 1], z[:, 2] - 2.0 + 0.5 * z[:, 0]]
    )


def constant(z):
    return np.column_stack([2.0 * z[:, 0], np.full(len(z), 4.0), z[:, 2] + z[:, 0]])


# Rows made of standard normal ones, and their exact mean and covariance.
POPULATIONS = {
    "light": (light, [10.0, -5.0, 2.0], MIX @ MIX.T),
    "lognormal": (
        lognormal,
        [LOG_MEAN, 0.0, 0.0],
        [[LOG_VARIANCE, 0.0, LOG_COVARIANCE], [0.0, 1.0, 0.0], [LOG_COVARIANCE, 0.0, 5.0]],
    ),
    "awkward": (awkward, [1e9, 3.0, -2.0], [[25.0, 0.0, 2.5], [0.0, 1e-6, 0.0], [2.5, 0.0, 1.25]]),
    "constant": (constant, [0.0, 4.0, 0.0], [[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 2.0]]),
}


def truth_of(result, mean, covariance):
    """Return the mean square of the population about the printed center along each printed direction."""
    gap = np.asarray(mean) - result.center
    moment = np.asarray(covariance) + np.outer(gap, gap)
    return np.einsum("ij,jk,ik->i", result.components, moment, result.components)


def draws(name, n, budget, seeds, *, m=20, shrink=1.0, **options):
    """Yield results for samples of a population, and which of their intervals hold the truth."""
    rows_of, mean, covariance = POPULATIONS[name]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        public = rows_of(rng.normal(size=(m, 3)))
        private = rows_of(rng.normal(size=(n, 3)))
        if options.get("center") is None:
            options = {
                **options,
                "x_pub": public.mean(axis=0) + shrink * (public - public.mean(axis=0)),
            }
        with warnings.catch_warnings(action="ignore"):
            result = seeded(
                private_pca, private, n_components=3, budget=budget, random_state=seed, **options
            )
        truth = truth_of(result, mean, covariance)
        lower, upper = result.confidence_interval()
        assert np.isfinite([lower, upper]).all()
        yield result, (lower <= truth) & (truth <= upper)


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("n", [400, 2_000, 20_000])
def test_the_mean_square_of_the_population_is_in_the_interval(name, n):
    held = np.concatenate([inside for _, inside in draws(name, n, ZCDP(0.05), 25)])
    assert held.mean() >= 0.95


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1), ApproxDP(1, 1e-6)])
def test_few_rows_have_an_interval_and_no_direction_is_ok(name, budget):
    found = list(draws(name, 60, budget, 25))
    assert {result.provenance["radius"] for result, _ in found} == {"public rows"}
    assert np.mean([inside for _, inside in found]) >= 0.95
    assert all("ok" not in result.part_status for result, _ in found)
    assert any("few_rows" in own for result, _ in found for own in result.part_reasons)


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("shrink", [0.03, 0.1, 0.3])
def test_public_rows_of_too_small_a_scale_make_few_rows_unreliable(name, shrink):
    """Up to .998 of the variance is beyond the radius."""
    found = list(draws(name, 400, ZCDP(0.05), 10, shrink=shrink))
    missed = [result.status for result, inside in found if not inside.all()]
    assert missed
    assert set(missed) == {"unreliable"}
    assert any("clipped" in own for result, _ in found for own in result.part_reasons)


@pytest.mark.parametrize(
    ("radius", "status"), [(2.0, "unreliable"), (7.0, "caution"), (25.0, "ok")]
)
def test_a_radius_that_holds_the_rows_is_ok_and_a_short_one_is_not(radius, status):
    """The largest standard deviation is 3.2, so that 2 loses most of the variance and 7 a little."""
    options = {"center": [10.0, -5.0, 2.0], "radius": radius}
    found = list(draws("light", 20_000, ZCDP(0.5), 5, **options))
    assert {result.part_status[0] for result, _ in found} == {status}
    if status != "unreliable":
        assert np.mean([inside for _, inside in found]) >= 0.95


def test_bounds_that_no_row_exceeds_leave_noise_and_sampling_alone():
    """Uniform rows have variance 1/12 about the middle of their bounds; without a count the radius is that of the corner."""
    rows = np.random.default_rng(0).uniform(size=(500, 2))
    with warnings.catch_warnings(action="ignore"):
        result = seeded(private_pca, rows, bounds=(0.0, 1.0), n_components=1, budget=ZCDP(0.05))
    assert result.provenance["radius"] == "bounds"
    lower, upper = result.confidence_interval()
    assert lower[0] <= 1.0 / 12.0 <= upper[0]
    assert upper[0] - lower[0] < 1.0 / 12.0
    assert result.along_below[0] == 0.0
    assert result.along_above[0] == 0.0


@pytest.mark.parametrize("incomplete", [0.0, 0.3, 0.66])
def test_rows_with_gaps_are_not_rows_at_the_center(incomplete):
    """A sum over the complete rows divided by all of them is 1 - incomplete times the mean square."""
    held = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        private = light(rng.normal(size=(10_000, 3)))
        public = light(rng.normal(size=(20, 3)))
        private[rng.random(private.shape) < 1.0 - (1.0 - incomplete) ** (1.0 / 3.0)] = np.nan
        result = seeded(
            private_pca, private, x_pub=public, n_components=2, budget=ZCDP(0.5), random_state=seed
        )
        assert ("gaps" in result.reasons) == (incomplete > 0.0)
        truth = truth_of(result, *POPULATIONS["light"][1:])
        lower, upper = result.confidence_interval()
        held.append((lower <= truth) & (truth <= upper))
        fewest, most = result.complete_rows_interval(0.999)
        assert fewest <= np.isfinite(private).all(axis=1).sum() <= most
        assert f"the complete rows, {result.complete_rows:,.0f} [" in result.summary()
    assert np.mean(held) >= 0.93


def test_a_mean_square_that_noise_takes_below_zero_is_printed_as_zero():
    rows = np.random.default_rng(3).normal(size=(300, 3)) * [9.0, 0.1, 0.1]
    results = [
        seeded(
            private_pca,
            rows,
            budget=ZCDP(0.01),
            center=np.zeros(3),
            radius=40.0,
            n_components=3,
            random_state=seed,
        )
        for seed in range(20)
    ]
    printed = np.array([result.along for result in results])
    lower, upper = np.array([result.confidence_interval() for result in results]).transpose(1, 0, 2)
    assert printed.min() == 0.0
    assert ((lower <= printed) & (printed <= upper)).all()
