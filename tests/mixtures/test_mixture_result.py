"""MixtureResult: densities, posteriors, synthetic rows and the JSON round trip."""

import pickle

import numpy as np
import pytest
from scipy import stats

from fastpubpriv import ZCDP
from fastpubpriv.errors import InputError
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
    again = mixture().sample(40_000, random_state=3)
    assert np.array_equal(rows, again)


def test_round_trips_and_read_only():
    result = mixture()
    back = MixtureResult.from_json(result.to_json())
    assert np.array_equal(back.covariances, COVARIANCES)
    assert back.status == ("ok", "low_count")
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.means, MEANS)
    assert not result.weights.flags.writeable
    assert result.variances.tolist() == [[1.0, 1e6], [4.0, 1e4]]
    assert result.n_components == 2


def test_wrong_shapes_and_kinds_are_refused():
    with pytest.raises(InputError, match="shape"):
        mixture().predict(np.zeros((3, 5)))
    with pytest.raises(InputError, match="MixtureResult"):
        MixtureResult.from_json('{"kind": "MeanResult"}')
