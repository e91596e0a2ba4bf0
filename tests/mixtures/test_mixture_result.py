"""MixtureResult: densities, posteriors, synthetic rows and the JSON round trip."""

import numpy as np
import pytest
from scipy import stats

from fastpubpriv import ZCDP, AccuracyWarning, learn_axis_aligned_mixture, learn_separated_mixture
from fastpubpriv.errors import InputError
from fastpubpriv.mixtures.bounded import bounded
from fastpubpriv.results.mixture import MixtureResult

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
        status=("ok", "low_count"),
        method="test",
    )


def test_densities_are_those_of_the_components():
    result = mixture()
    rows = np.array([[0.5, 1e6], [4.0, -1e6], [2.0, 0.0]])
    parts = [
        stats.multivariate_normal(m, c).pdf(rows[:2]) * w for m, c, w in zip(MEANS, COVARIANCES, WEIGHTS, strict=True)
    ]
    expected = np.sum(parts, axis=0)
    assert np.allclose(np.exp(result.log_prob(rows[:2])), expected, rtol=1e-9)
    assert np.allclose(result.predict_proba(rows[:2]), (np.array(parts) / expected).T)
    assert result.predict(rows[:2]).tolist() == [0, 1]
    # Far from every component the posterior is still a distribution.
    assert np.allclose(result.predict_proba(rows).sum(axis=1), 1.0)


def test_synthetic_rows_follow_the_mixture():
    rows, labels = mixture().labelled_sample(40_000, random_state=3)
    assert abs(np.mean(labels) - 0.75) < 0.012  # 5.5 standard deviations
    for index in range(2):
        mine = rows[labels == index]
        assert np.allclose(mine.mean(axis=0), MEANS[index], atol=6 * np.sqrt(np.diag(COVARIANCES[index]) / len(mine)))
        assert np.allclose(np.cov(mine.T), COVARIANCES[index], rtol=0.1, atol=0.06 * np.sqrt(1e6 * 4))
    assert np.array_equal(rows, mixture().sample(40_000, random_state=3))


def test_wrong_shapes_and_kinds_are_refused():
    with pytest.raises(InputError, match="shape"):
        mixture().predict(np.zeros((3, 5)))
    with pytest.raises(InputError, match="MixtureResult"):
        MixtureResult.from_json('{"kind": "MeanResult"}')


# ---- bounds of columns ------------------------------------------------------------------------------------------------


def test_bounds_keep_means_inside_and_components_no_wider_than_they_can_be():
    low, high = np.array([1.0, -np.inf]), np.array([7.0, np.inf])
    result = bounded(mixture(), (low, high))
    assert np.array_equal(result.means, [[1.0, 1e6], [5.0, -1e6]])
    # Between 1 and 7 with mean 5 a variance is at most 8; at an end, a thousandth of the distance is left as a width.
    assert result.variances[0, 0] == pytest.approx((6.0 * 1e-3) ** 2)
    assert np.array_equal(result.covariances[1], COVARIANCES[1])
    assert np.array_equal(result.variances[:, 1], [1e6, 1e4])
    correlations = [each[0, 1] / np.sqrt(each[0, 0] * each[1, 1]) for each in (result.covariances[0], COVARIANCES[0])]
    assert correlations[0] == pytest.approx(correlations[1])
    assert result.status == ("ok", "low_count")  # one deviation is no more than a mean may be off
    assert result.diagnostics["bounds"] == ((1.0, None), (7.0, None))
    assert MixtureResult.from_json(result.to_json()).diagnostics == result.diagnostics
    away = bounded(mixture(), (np.array([2.0, -2e6]), np.array([3.0, 2e6])))
    assert away.status == ("clipped", "low_count")
    assert away.diagnostics["outside_bounds"] == (True, False)


def test_a_known_covariance_stays_and_no_bounds_change_nothing():
    limits = np.array([2.0, -2e6]), np.array([3.0, 2e6])
    assert np.array_equal(bounded(mixture(), limits, known_covariance=True).covariances, COVARIANCES)
    whole = mixture()
    assert bounded(whole, None) is whole


def groups(**options):
    rng = np.random.default_rng(0)
    rows = np.abs(np.array([[0.0, 0.0], [9.0, 0.0]])[np.arange(600) % 2] + 0.3 * rng.normal(size=(600, 2)))
    given = {"budget": ZCDP(0.05), "random_state": 0, "threads": 1, "progress": False, **options}
    return rows, given


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize(
    "learn", [learn_separated_mixture, learn_axis_aligned_mixture], ids=["separated", "axis_aligned"]
)
def test_learners_take_bounds(learn):
    rows, given = groups()
    more = {"min_weight": 0.4} if learn is learn_separated_mixture else {}
    free = learn(rows[40:], x_pub=rows[:40], n_components=2, **more, **given)
    held = learn(rows[40:], x_pub=rows[:40], n_components=2, bounds=(0.0, [9.0, 0.2]), **more, **given)
    assert np.array_equal(held.means, np.clip(free.means, 0.0, [9.0, 0.2]))
    assert held.spent == free.spent
    assert np.all(held.variances <= free.variances)
    with pytest.warns(AccuracyWarning, match=r"public values lie beyond bounds= in x1,"):
        learn(rows[40:], x_pub=rows[:40], n_components=2, bounds=(0.0, [12.0, 0.2]), **more, **given)
    with pytest.raises(InputError, match="bounds must have each lowest"):
        learn(rows[40:], x_pub=rows[:40], n_components=2, bounds=(1.0, 0.0), **more, **given)
