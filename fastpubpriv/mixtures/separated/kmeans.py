"""k-means++ on public rows: small, deterministic, and without randomness that privacy could depend on."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.public_draws import draw_uniforms

RESTARTS = 10
MAX_ITERATIONS = 100
# Restarts look at every so-many-th of more rows than this; the best of them is then carried on with all rows.
RESTART_ROWS = 10_000
# The draws that choose starting centres are public: they are the same in every run.
SEED = 20_221


def squared_distances(points: FloatArray, center: FloatArray) -> FloatArray:
    """Squared distances of rows (m, dim) from a centre, (m,)."""
    offsets = points - center
    squares: FloatArray = np.einsum("ij,ij->i", offsets, offsets)
    return squares


def nearest_centers(points: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    """Index of the nearest centre (the lowest on ties) and squared distance to it, (m,) each."""
    best = np.full(len(points), np.inf)
    labels = np.zeros(len(points), dtype=np.int64)
    for index, center in enumerate(centers):
        squares = squared_distances(points, center)
        closer = squares < best
        best[closer] = squares[closer]
        labels[closer] = index
    return labels, best


def seeds(points: FloatArray, count: int, uniform: FloatArray) -> FloatArray:
    """Starting centres by k-means++ from uniform draws (count,): at most `count`, all distinct."""
    chosen = [min(int(uniform[0] * len(points)), len(points) - 1)]
    best = squared_distances(points, points[chosen[0]])
    for draw in uniform[1:]:
        total = np.cumsum(best)
        if not total[-1] > 0.0:
            break
        index = int(np.searchsorted(total, draw * total[-1], side="right"))
        # Rounding may point past the last row that is away from every centre.
        index = min(index, int(np.flatnonzero(best > 0.0)[-1]))
        chosen.append(index)
        best = np.minimum(best, squared_distances(points, points[index]))
    start: FloatArray = points[chosen]
    return start


def lloyd(points: FloatArray, centers: FloatArray) -> tuple[FloatArray, float]:
    """Lloyd's iterations until no row changes its centre; returns the centres and the sum of squared distances."""
    labels, best = nearest_centers(points, centers)
    for _ in range(MAX_ITERATIONS):
        counts = np.bincount(labels, minlength=len(centers))
        sums = np.stack([np.bincount(labels, weights=column, minlength=len(centers)) for column in points.T], axis=1)
        filled = counts > 0
        centers = np.where(filled[:, None], sums / np.maximum(counts, 1)[:, None], centers)
        moved, best = nearest_centers(points, centers)
        if np.array_equal(moved, labels):
            break
        labels = moved
    counts = np.bincount(labels, minlength=len(centers))
    return centers[counts > 0], float(best.sum())


def kmeans(points: FloatArray, count: int, *, restarts: int = RESTARTS) -> FloatArray:
    """Centres (at most count, dim) of public rows (m, dim): the best of `restarts` runs, each centre nearest to some row."""
    # On a scale of one, so that squares neither overflow nor underflow.
    middle = points.mean(axis=0)
    scale = float(np.abs(points - middle).max()) or 1.0
    scaled = (points - middle) / scale
    draws = draw_uniforms((restarts, count), random_state=SEED)
    looked = scaled[:: -(-len(scaled) // max(RESTART_ROWS, 2 * count))]
    centers, cost = np.zeros((1, points.shape[1])), np.inf
    for uniform in draws:
        found, sum_sq = lloyd(looked, seeds(looked, count, uniform))
        if sum_sq < cost:
            centers, cost = found, sum_sq
    if len(looked) < len(scaled):
        centers, _ = lloyd(scaled, centers)
    moved: FloatArray = middle + scale * centers
    return moved
