"""Paper C with a known scale: the list of Corollary 4.5, the learner of Theorem 4.6, and the mixtures of Proposition B.6."""

import numpy as np
import pytest
from scipy.special import ndtr
from spies import seeded

from fastpubpriv import ApproxDP, select_hypothesis
from fastpubpriv.mixtures.list_decoding import decode_means

BUDGET = ApproxDP(1, 1e-6)
CENTERS = np.array([998.3, 1000.8])
GRID = np.linspace(985.0, 1015.0, 3001)


def drawn(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(CENTERS[(rng.random(20_000) < 0.5).astype(int)], 1.0)


def fine_means(values, seed):
    """Return the means of Corollary 4.5 with steps of half a scale: within a fourth of each true mean."""
    lists = seeded(decode_means, values, std=1.0, min_weight=0.2, budget=BUDGET, random_state=seed)
    return np.add.outer(lists.means[0], [-1.0, -0.5, 0.0, 0.5, 1.0]).ravel()


def density(weights, means):
    return np.exp(-0.5 * (GRID[:, None] - means) ** 2) @ weights / np.sqrt(2.0 * np.pi)


@pytest.mark.parametrize("seed", range(5))
def test_the_list_of_the_corollary_has_a_mean_near_each_component(seed):
    means = fine_means(drawn(seed)[:10_000], seed)
    gaps = np.abs(means[:, None] - CENTERS).min(axis=0)
    assert np.all(gaps <= 0.25), gaps
    assert len(means) <= 12 / 0.2 * 5


@pytest.mark.parametrize("seed", range(5))
def test_the_learner_of_the_theorem_is_near_the_truth(seed):
    """Means of the list are at most a fourth off, which is a total variation of .1; the choice adds .03 at most."""
    values = drawn(seed)
    means = fine_means(values[:10_000], seed)
    first, second = np.triu_indices(len(means), k=1)
    weights = np.repeat([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]], len(first), axis=0)
    pairs = np.tile(np.column_stack([means[first], means[second]]), (3, 1))[:, :, None]
    result = seeded(
        select_hypothesis,
        values[10_000:],
        hypotheses=(weights, pairs, np.ones(pairs.shape)),
        budget=BUDGET,
        random_state=seed,
    )
    gap = density(result.weights, result.means.ravel()) - density([0.5, 0.5], CENTERS)
    assert 0.5 * np.abs(gap).sum() * (GRID[1] - GRID[0]) < 0.13


@pytest.mark.parametrize("radius", [0.1, 0.5, 0.9])
def test_no_cover_of_two_gaussians_is_locally_small(radius):
    """(1 - radius) N(0, 1) + radius N(6 j, 1): all within `radius` of N(0, 1), and any two at least half of it apart."""
    means = 6.0 * np.arange(1, 200)
    to_center = radius * (2.0 * ndtr(means / 2.0) - 1.0)
    assert np.all(to_center <= radius)
    between = radius * (2.0 * ndtr(np.abs(np.subtract.outer(means, means)) / 2.0) - 1.0)
    assert np.all(between[np.triu_indices(len(means), k=1)] >= radius / 2.0)
