"""The searches of `kernels.geometry` as plain loops over all rows: the same integers and bits, as each sum has the same order."""

import math

import numpy as np

OUTER = 11.0  # Q_pub requires no rows between r and 11 r


def squared_distances(points, center):
    """Return squared distances (n,) float64 of points (n, dim) from center (dim,), summed column by column.

    Every decision on membership depends on this order, in double precision and without fused multiply-adds.
    """
    total = np.zeros(points.shape[0])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for column in range(points.shape[1]):
            difference = points[:, column].astype(np.float64) - np.float64(center[column])
            total += difference * difference
    return total


def most_isolated(points):
    """Return the row of points (m, dim) farthest from its nearest other row, lowest index on ties, and that squared distance."""
    best, farthest = 0, -1.0
    for index in range(points.shape[0]):
        distances = squared_distances(points, points[index])
        distances[index] = math.inf  # an equal other row is a neighbor, the row itself is not
        nearest = float(distances.min())
        if nearest > farthest:
            best, farthest = index, nearest
    return best, farthest


def first_terrific(points, radius_max, n_radii, min_count):
    distances = np.array([squared_distances(points, center) for center in points])
    for i in range(n_radii):  # largest radius first
        radius = float(np.ldexp(radius_max, -i))
        inner = (distances <= radius * radius).sum(axis=1)
        outer = (distances <= (OUTER * radius) * (OUTER * radius)).sum(axis=1)
        passed = np.flatnonzero(
            (inner >= min_count) & (outer == inner) & (len(points) - outer >= min_count)
        )
        if passed.size:
            return i, int(passed[0])
    return None


def widest_gap(points, min_count):
    best, widest = None, 1.0
    for j in range(points.shape[0]):
        distances = np.sort(squared_distances(points, points[j]))
        for p in range(min_count, points.shape[0] - min_count + 1):
            inner, outer = float(distances[p - 1]), float(distances[p])
            with np.errstate(all="ignore"):
                ratio = np.float64(outer) / np.float64(inner)
            if ratio > widest:  # false for 0 / 0
                best, widest = (j, p, inner, outer), ratio
    return best


def counts_within(points, row, step, most):
    """Return how many rows lie within 0, 1, ... `most` steps of a row."""
    away = np.sqrt(squared_distances(points, points[row]))
    with np.errstate(over="ignore"):
        return [int((away <= number * step).sum()) for number in range(most + 1)]
