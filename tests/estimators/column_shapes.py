"""Shapes of real columns, by name."""

import numpy as np


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
        "two groups": lambda: rng.normal(0.0, 1.0, n) + np.where(rng.random(n) < 0.5, -100.0, 100.0),
        "negative": lambda: -1e-12 * rng.gamma(2.0, size=n),
        "tiny": lambda: rng.normal(0.0, 1e-148, n),
        "huge": lambda: rng.normal(0.0, 1e148, n),
        "one number": lambda: np.full(n, 36.6),
    }[kind]()
