"""Superclustering (paper A, Algorithm 3) in readable NumPy, by all pairwise distances."""

import numpy as np

from fastpubpriv._types import FloatArray


def pairwise(points):
    """Return distances (m, m) of all pairs of rows (m, dim)."""
    offsets = points[:, None, :] - points[None, :, :]
    away: FloatArray = np.sqrt((offsets * offsets).sum(axis=2))
    return away


def supercluster(points, n_components, step_factor=16.0):
    """Run Algorithm 3 as in the paper's proof; return the index of the center, and the radius."""
    away = pairwise(points)
    others = away + np.diag(np.full(len(points), np.inf))
    nearest = others.min(axis=1)
    center = int(np.argmax(nearest))
    step = step_factor * float(nearest[center])
    radius = step
    pure = False

    def count(x):
        return int((away[center] <= x).sum())

    for _ in range(n_components):
        if count(radius + step) == count(radius):
            if pure:
                return center, radius
            if count(radius + 2 * step) == count(radius):
                return center, radius + step
            pure = False
            radius += 3 * step
        else:
            pure = count(radius + 2 * step) == count(radius + step)
            radius += 2 * step
    return center, radius


def least_radius(points, min_count):
    """Return the radius below which no ball contains `min_count` rows, so that none is terrific; 0 if as many rows coincide."""
    return float(np.sort(pairwise(points), axis=1)[:, min_count - 1].min())
