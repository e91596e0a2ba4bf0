"""Random lists of mixtures, and their distribution functions, for the tests of hypothesis selection."""

from fractions import Fraction

import numpy as np
from scipy import stats

from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.release import release as choice_weights


def random_arrays(rng, size, components, dim):
    return (
        rng.dirichlet(np.ones(components), size),
        2.0 * rng.normal(size=(size, components, dim)),
        np.exp(0.5 * rng.normal(size=(size, components, dim))),
    )


def random_list(rng, size, components, dim):
    return Hypotheses.from_arrays(*random_arrays(rng, size, components, dim))


def cdf(listed, index, points):
    parts = zip(
        listed.weights[index], listed.means[index, :, 0], listed.spreads[index, :, 0], strict=True
    )
    return sum(w * stats.norm.cdf(points, m, np.sqrt(v)) for w, m, v in parts)


def exponential_law(scores, rate):
    """Return the exact probabilities of the exponential mechanism."""
    weights = [0] * len(scores)
    for weight, candidates in choice_weights.levels(np.array(scores, dtype=np.int64), rate):
        for index in candidates:
            weights[index] = weight
    return [Fraction(weight, sum(weights)) for weight in weights]
