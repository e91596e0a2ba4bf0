"""Rows for the tests of axis-aligned mixtures, and calls with repeatable noise."""

import numpy as np
from spies import seeded

from benchmarks.papers.mixture_cases import Truth
from fastpubpriv import ApproxDP, learn_axis_aligned_mixture

APPROX = ApproxDP(1, 1e-6)
COMMON = {"threads": 1, "progress": False}

FAR_APART = Truth.line([0.3, 0.7], [-1e9, 500.0], [0.2, 40.0])
BLOBS = Truth(
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.0, 0.0, 1e6], [20.0, 5.0, 1e6], [20.0, -30.0, 1e6 + 4.0]]),
    np.array([[1.0, 2.0, 0.5], [3.0, 1.0, 0.5], [1.0, 4.0, 1.0]]),
)


def learn(x, n_components, *, budget=APPROX, **options):
    return seeded(learn_axis_aligned_mixture, x, n_components=n_components, budget=budget, **COMMON, **options)


def matched(result, truth):
    """Worst error over the true components of the nearest released one: of means in stds, of log stds, of weights."""
    worst = np.zeros(3)
    for weight, mean, std in zip(truth.weights, truth.means, truth.stds, strict=True):
        away = np.abs((result.means - mean) / std).max(axis=1)
        nearest = int(np.argmin(away))
        ratio = np.abs(np.log(np.sqrt(result.variances[nearest]) / std)).max()
        worst = np.maximum(worst, [away[nearest], ratio, abs(result.weights[nearest] - weight)])
    return worst
