"""Gaussians with known truth, and the distances in which the estimators' errors are predicted."""

from functools import partial

import numpy as np
from spies import seeded

from fastpubpriv import ZCDP, estimate_gaussian

RHO_HALF = ZCDP(0.5)
# By the method that starts from public bounds, unless told otherwise.
lifted_coinpress = partial(estimate_gaussian, method="lifted_coinpress")


def gaussian(dim, condition, rng, *, spread=3.0):
    """Mean (dim,) and factor (dim, dim) of a Gaussian in general position with eigenvalues from 1 to `condition`."""
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return spread * rng.standard_normal(dim), turn * np.sqrt(np.geomspace(1.0, condition, dim))


def draw(n, mean, factor, rng):
    return rng.standard_normal((n, len(mean))) @ factor.T + mean


def covariance_error(covariance, factor):
    """Relative Frobenius error |S^-1/2 C S^-1/2 - I|_F, S = factor factor^T."""
    half = np.linalg.solve(factor, covariance)
    return np.linalg.norm(np.linalg.solve(factor, half.T) - np.eye(len(factor)))


def mean_error(estimate, mean, factor):
    return np.linalg.norm(np.linalg.solve(factor, estimate - mean))


def held(result, truth, **options):
    """Which intervals of a result hold the truth."""
    lower, upper = result.confidence_interval(**options)
    return (lower <= truth) & (truth <= upper)


def fit(dim, n, condition, seed, *, n_pub=None, budget=RHO_HALF, **options):
    """One run on fresh data: the result, its covariance error and its mean error."""
    rng = np.random.default_rng([seed, dim, n])
    mean, factor = gaussian(dim, condition, rng)
    private = draw(n, mean, factor, rng)
    public = draw(n_pub or dim + 1, mean, factor, rng)
    result = seeded(
        lifted_coinpress, private, x_pub=public, budget=budget, random_state=seed, **options
    )
    return (
        result,
        covariance_error(result.covariance, factor),
        mean_error(result.mean, mean, factor),
    )


def ratios(runs, *args, **options):
    """Medians over runs of the two errors, as multiples of the predicted ones."""
    both = []
    for seed in range(runs):
        result, covariance, mean = fit(*args, seed, **options)
        both.append(
            (covariance / result.predicted_covariance_error, mean / result.predicted_mean_error)
        )
    return np.median(both, axis=0)


def column(rng, kind, n):
    """A column of n numbers."""
    return {
        "normal": lambda: rng.normal(1e6, 1.0, n),
        "lognormal": lambda: rng.lognormal(0.0, 1.0, n),
        "Cauchy": lambda: rng.standard_cauchy(n),
        "counts": lambda: rng.poisson(3.0, n).astype(float),
        "share": lambda: rng.random(n),
        "ages": lambda: rng.integers(18, 90, n).astype(float),
        "mostly zero": lambda: rng.gamma(1.0, 40.0, n) * (rng.random(n) < 0.2),
        "prices": lambda: rng.lognormal(3.0, 1.0, n).round() - 0.01,
        "two groups": lambda: (
            rng.normal(0.0, 1.0, n) + np.where(rng.random(n) < 0.5, -100.0, 100.0)
        ),
        "negative": lambda: -1e-12 * rng.gamma(2.0, size=n),
        "tiny": lambda: rng.normal(0.0, 1e-148, n),
        "huge": lambda: rng.normal(0.0, 1e148, n),
        "one number": lambda: np.full(n, 36.6),
    }[kind]()
