"""MixtureResult: densities, posteriors, synthetic rows, JSON, and bounds of the columns."""

import numpy as np
import pytest
from helpers.errors import raises
from scipy import stats
from spies import seeded

from fastpubpriv import (
    ZCDP,
    MixtureResult,
    learn_axis_aligned_mixture,
    learn_separated_mixture,
)
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.estimators.output_bounds import bounded
from fastpubpriv.results import Reason

WEIGHTS = np.array([0.25, 0.75])
MEANS = np.array([[0.0, 1e6], [5.0, -1e6]])
COVARIANCES = np.array([[[1.0, 500.0], [500.0, 1e6]], [[4.0, 0.0], [0.0, 1e4]]])


def mixture():
    return MixtureResult(
        n_priv=100,
        n_pub=3,
        dim=2,
        spent=ZCDP(0.5),
        private=True,
        weights=WEIGHTS,
        means=MEANS,
        covariances=COVARIANCES,
        part_reasons=((), (Reason.FALLBACK,)),
        structure=("full", "public"),
        method="test",
    )


def test_densities_and_posteriors_are_those_of_the_components():
    """Those of SciPy, at one row near each component."""
    rows = np.array([[0.5, 1e6], [4.0, -1e6]])
    parts = []
    for weight, mean, covariance in zip(WEIGHTS, MEANS, COVARIANCES, strict=True):
        parts.append(weight * stats.multivariate_normal(mean, covariance).pdf(rows))
    density = np.sum(parts, axis=0)
    result = mixture()
    np.testing.assert_allclose(np.exp(result.log_prob(rows)), density, rtol=1e-9)
    posterior = np.transpose(parts) / density
    np.testing.assert_allclose(result.predict_proba(rows), posterior, rtol=1e-5, atol=1e-8)
    assert result.predict(rows).tolist() == [0, 1]


def test_the_posterior_far_from_every_component_is_a_distribution():
    far = np.array([[2.0, 0.0]])
    np.testing.assert_allclose(mixture().predict_proba(far).sum(axis=1), 1.0)


def test_rows_and_texts_of_another_form_are_refused():
    raises(InputError, "shape", mixture().predict, np.zeros((3, 5)))
    raises(InputError, "MixtureResult", MixtureResult.from_json, '{"kind": "MeanResult"}')


def test_synthetic_rows_follow_the_mixture():
    rows = mixture().sample(40_000, random_state=3)
    labels = mixture().predict(rows)
    assert abs(np.mean(labels) - 0.75) < 0.012  # 5.5 standard deviations
    for index, (mean, covariance) in enumerate(zip(MEANS, COVARIANCES, strict=True)):
        drawn = rows[labels == index]
        error = np.abs(drawn.mean(axis=0) - mean)
        assert np.all(error < 6 * np.sqrt(np.diag(covariance) / len(drawn))), f"mean {index}"
        np.testing.assert_allclose(np.cov(drawn.T), covariance, rtol=0.1, atol=120.0)


BOUNDS = (np.array([1.0, -np.inf]), np.array([7.0, np.inf]))


def correlation(covariance):
    return covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])


def test_bounds_keep_means_inside():
    """The mean of the first component is at 0 in the first column, below its bound by one deviation: no reason for a doubt."""
    result = bounded(mixture(), BOUNDS)
    assert result.means.tolist() == [[1.0, 1e6], [5.0, -1e6]]
    assert result.part_reasons == ((), ("fallback",))
    assert result.diagnostics["bounds"] == ((1.0, None), (7.0, None))
    assert MixtureResult.from_json(result.to_json()).diagnostics == result.diagnostics


def test_bounds_keep_components_no_wider_than_they_can_be():
    """At an end of 1 to 7 a thousandth of the distance is left as a width; with mean 5, a variance of 4 is below the most, 8."""
    result = bounded(mixture(), BOUNDS)
    assert result.variances[0, 0] == pytest.approx((6.0 * 1e-3) ** 2)
    assert result.variances[:, 1].tolist() == [1e6, 1e4]
    assert correlation(result.covariances[0]) == pytest.approx(correlation(COVARIANCES[0]))
    np.testing.assert_array_equal(result.covariances[1], COVARIANCES[1])


def test_a_mean_far_beyond_its_bound_is_doubted():
    """The first mean is two deviations below 2; the second, of which nothing was learnt, is one deviation above 3."""
    result = bounded(mixture(), (np.array([2.0, -2e6]), np.array([3.0, 2e6])))
    assert result.part_reasons == (("clipped",), ("fallback",))
    assert result.diagnostics["outside_bounds"] == (True, False)


def test_a_known_covariance_stays():
    result = bounded(mixture(), BOUNDS, known_covariance=True)
    np.testing.assert_array_equal(result.covariances, COVARIANCES)


def test_no_bounds_change_nothing():
    whole = mixture()
    assert bounded(whole, None) is whole


def learn_two_groups(learn, bounds):
    """Return two components of non-negative rows around (0, 0) and (9, 0)."""
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [9.0, 0.0]])[np.arange(600) % 2]
    rows = np.abs(centers + 0.3 * rng.normal(size=(600, 2)))
    given = {"n_components": 2, "budget": ZCDP(0.05), "threads": 1, "progress": False}
    if learn is learn_separated_mixture:
        given["min_weight"] = 0.4
    return seeded(learn, rows[40:], x_pub=rows[:40], bounds=bounds, random_state=0, **given)


EACH_LEARNER = pytest.mark.parametrize(
    "learn",
    [learn_separated_mixture, learn_axis_aligned_mixture],
    ids=["separated", "axis_aligned"],
)


@EACH_LEARNER
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_learners_keep_means_and_variances_within_bounds(learn):
    free = learn_two_groups(learn, bounds=None)
    held = learn_two_groups(learn, bounds=(0.0, [9.0, 0.2]))
    np.testing.assert_array_equal(held.means, np.clip(free.means, 0.0, [9.0, 0.2]))
    assert held.spent == free.spent
    assert np.all(held.variances <= free.variances)


@EACH_LEARNER
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_learners_warn_of_public_values_beyond_bounds(learn):
    with pytest.warns(AccuracyWarning, match=r"public values lie beyond bounds= in x1,"):
        learn_two_groups(learn, bounds=(0.0, [12.0, 0.2]))


@EACH_LEARNER
def test_learners_refuse_bounds_in_the_wrong_order(learn):
    raises(InputError, "bounds must have each lowest", learn_two_groups, learn, bounds=(1.0, 0.0))
