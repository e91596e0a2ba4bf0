"""Plans of Newton steps, which are simulated side by side."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fastpubpriv.training.newton import plan_newton
from fastpubpriv.training.public_linear import Posterior, linear_posterior
from fastpubpriv.training.whitening import QUANTILE, Whitener, quantile, water_filled, weighting

N_PRIV = 3000


def posterior(dim, n_pub):
    rng = np.random.default_rng(dim)
    terms, ones = rng.standard_normal((n_pub, dim)), np.ones(n_pub)
    labels = terms.sum(axis=1) + rng.standard_t(3, n_pub)
    return linear_posterior(terms, labels / labels.std(), ones, Whitener.of(terms, ones))


def noise(share):
    return 40.0 / math.sqrt(share)


def error_alone(known: Posterior, steps, bound):
    """The error of one plan after its steps, number by number."""
    unit, variance, error, pooled = known.unexplained, known.variance, known.spread, 0.0

    def precision(clip, radius, share):
        std = radius * noise(1.0 / steps) * clip.bound * math.sqrt(unit + error) / (N_PRIV * clip.inside * share)
        return std**-2

    clip, radius, share = bound.at(math.sqrt(unit + error)), 1.0, 1.0
    for _ in range(2):
        total = precision(clip, radius, share)
        first = weighting(known.typical, np.sqrt(water_filled(variance, total, 0.05) / total))
        radius, share = first.radius, first.share
    for _ in range(steps):
        filled = water_filled(variance, precision(clip, radius, share), 0.05)
        noise_variance = (share / first.shares) ** 2 / filled
        left = np.sum(variance * noise_variance / (variance + noise_variance)) / np.sum(variance)
        again = min((1.0 + left) / (1.0 - left), steps)
        pooled = pooled + 1.0 / (noise_variance + (known.curvature_error + 1.0 / N_PRIV) * error * again)
        sampling = clip.energy * (unit + error) / (N_PRIV * clip.inside**2)
        variance = 1.0 / (1.0 / known.variance + 1.0 / (1.0 / pooled + sampling))
        error = float(np.sum(variance))
        clip = bound.at(math.sqrt(unit + error))
    return error


@pytest.mark.parametrize(("dim", "n_pub"), [(1, 8), (4, 30), (9, 400)])
def test_a_plan_is_the_best_of_all_each_alone(dim, n_pub):
    known = posterior(dim, n_pub)
    found = plan_newton(known, N_PRIV, noise)
    alone = {
        (steps, clip): known.part * (error_alone(known, steps, clip) + clip.bias_sq * known.noise_share)
        for steps in (1, 2, 4, 8, 16, 32)
        for clip in known.clips
    }
    assert (found.steps, found.clip) == min(alone, key=alone.__getitem__)
    assert found.predicted == pytest.approx(min(alone.values()), rel=1e-9)
    one = plan_newton(replace(known, clips=(found.clip,)), N_PRIV, noise)
    assert one.predicted == found.predicted  # the others beside it change no bit


def test_quantiles_are_those_of_numpy():
    values = np.random.default_rng(0).random((3, 41))
    for size in (1, 2, 3, 41):
        for chance in (0.0, 0.3, QUANTILE, 1.0):
            wanted = np.quantile(values[:, :size], chance, axis=1)
            np.testing.assert_allclose(quantile(values[:, :size], chance), wanted, rtol=1e-15)
