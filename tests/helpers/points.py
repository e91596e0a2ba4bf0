"""Public points for the searches for balls and for isolated rows."""

import numpy as np


def mixture(m, dim, seed=0, clusters=5, apart=10.0):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((clusters, dim)) * apart
    return rng.standard_normal((m, dim)) + centers[rng.integers(0, clusters, m)]


def lattice(side, dim):
    return np.stack(np.meshgrid(*[np.arange(float(side))] * dim), -1).reshape(-1, dim)
