"""Public fits of a mixture whose components may differ in scale by any factor: expectation-maximization from scale-free starts.

A seed brings its own scale, the distance of a row from its q-th neighbor; k-means, which has one scale for all components, gives
the other starts. No private row, no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mixtures.separated.public_shapes import kmeans, nearest_centers
from fastpubpriv.mixtures.separated.search_state import column_variances
from fastpubpriv.public_draws import draw_uniforms

STARTS, SHORT, LONG, KEPT = 60, 6, 40, 5
SEED = 20_229
MOST_ROWS = 2000  # rows that seeds are looked for among; all rows take part in what follows
FARTHEST_SEED = 25.0  # squared distance from the seeds, in their scales, beyond which a row is as good a seed as any
LACKING = 20.0  # nats that a row costs which a component lacks of its share
FEW_ROWS, BORROWED = 8, 8.0  # rows below which a component borrows its shape, and the weight in rows of what it borrows
LEAST_SHARE = 1e-14  # of a column's variance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    """Weights (k,), means (k, dim) and covariances (k, dim, dim)."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray


def maximized(rows: FloatArray, share: FloatArray, *, full: bool) -> Parameters:
    """The M step for responsibilities (m, k), variances pulled to those of a k-th part, correlations of few rows to zero."""
    m, dim = rows.shape
    k = share.shape[1]
    column, _ = column_variances(rows)
    base = column / k ** (2.0 / dim)
    held = share.sum(axis=0)
    means = (share.T @ rows) / np.maximum(held, 1e-9)[:, None]
    scatters = np.empty((k, dim, dim))
    for place in range(k):
        gaps = rows - means[place]
        scatters[place] = (gaps * share[:, place, None]).T @ gaps
    within = np.einsum("kii->ki", scatters)
    pooled = np.maximum(within.sum(axis=0) / max(m - k, 1), LEAST_SHARE * column)
    covariances = np.empty_like(scatters)
    for place, count in enumerate(held.tolist()):
        degrees = max(count - 1.0, 0.0)
        own = within[place]
        if count < FEW_ROWS and dim >= 3:
            # Too few rows for a shape: that of all components, on the scale of this one.
            scale = (float(np.sum(own / pooled)) + 0.01) / (degrees * dim + 0.01)
            variances = (own + BORROWED * scale * pooled) / (degrees + BORROWED)
        else:
            variances = (own + 2.0 * np.minimum(base, 3.0 * own / max(degrees, 0.5))) / (degrees + 2.0)
        variances = np.maximum(variances, LEAST_SHARE * column)
        matrix = np.zeros((dim, dim))
        if full and not (count < FEW_ROWS and dim >= 3):
            root = np.sqrt(np.maximum(own, 1e-300))
            matrix = scatters[place] / np.outer(root, root) * (count / (count + dim))
        np.fill_diagonal(matrix, 1.0)
        deviation = np.sqrt(variances)
        covariances[place] = matrix * np.outer(deviation, deviation)
    return Parameters(weights=(held + 0.5) / (m + 0.5 * k), means=means, covariances=covariances)


def responsibilities(rows: FloatArray, at: Parameters) -> tuple[FloatArray, float]:
    """Responsibilities (m, k) and the log likelihood of all rows, but for a constant."""
    joint = np.empty((len(rows), len(at.weights)))
    for place, covariance in enumerate(at.covariances):
        scale = np.sqrt(np.diag(covariance))
        root = np.linalg.cholesky(covariance / np.outer(scale, scale) + 1e-12 * np.eye(len(scale)))
        white = np.linalg.solve(root, ((rows - at.means[place]) / scale).T)
        constant = np.log(at.weights[place]) - np.log(np.diag(root)).sum() - np.log(scale).sum()
        joint[:, place] = constant - 0.5 * np.einsum("ji,ji->i", white, white)
    top = joint.max(axis=1, keepdims=True)
    share = np.exp(joint - top)
    sums = share.sum(axis=1, keepdims=True)
    return share / sums, float((top + np.log(sums)).sum())


def improved(rows: FloatArray, at: Parameters, steps: int, *, full: bool, least: float) -> tuple[Parameters, float]:
    """EM for so many steps; the fit, and its log likelihood less what components of fewer than `least` rows cost."""
    for _ in range(steps):
        share, _ = responsibilities(rows, at)
        at = maximized(rows, share, full=full)
    share, likelihood = responsibilities(rows, at)
    return at, likelihood - LACKING * float(np.maximum(least - share.sum(axis=0), 0.0).sum())


def scale_free_labels(rows: FloatArray, k: int, uniform: FloatArray, *, nearest: FloatArray, small: bool) -> IntArray:
    """Labels (m,) by seeds that bring their own scale; `nearest` (m, m) are ascending distances, `uniform` (k + 1,) the coins."""
    m, dim = rows.shape
    place = max(2, round((0.3 + 0.7 * float(uniform[0])) * m / (2.0 * k)))
    scale_sq = np.maximum(np.square(nearest[:, min(place, m - 1)]), 1e-30)
    chosen: list[int] = []
    away = np.full(m, FARTHEST_SEED)
    cost = np.empty((k, m))
    for number, coin in enumerate(uniform[1:]):
        weight = away / np.sqrt(scale_sq) if small else away
        mass = np.cumsum(weight)
        seed = min(int(np.searchsorted(mass, coin * mass[-1], side="right")), m - 1)
        chosen.append(seed)
        squares = np.square(rows - rows[seed]).sum(axis=1)
        away = np.minimum(away, squares / scale_sq[seed])
        cost[number] = dim * np.log(scale_sq[seed] / dim) + squares * dim / scale_sq[seed]
    labels: IntArray = np.argmin(cost, axis=0)
    return labels


def starting_labels(rows: FloatArray, k: int) -> list[IntArray]:
    """Labels (m,) of all starts, public and the same in every run."""
    m, dim = rows.shape
    thinned = np.arange(0, m, -(-m // MOST_ROWS))
    few = rows[thinned]
    inner = np.einsum("ij,ij->i", few, few)
    nearest = np.sqrt(np.maximum(np.sort(inner[:, None] + inner - 2.0 * few @ few.T, axis=1), 0.0))
    found = []
    for number, uniform in enumerate(draw_uniforms((STARTS, k + 1), random_state=SEED)):
        labels = scale_free_labels(few, k, uniform, nearest=nearest, small=number % 3 == 2)
        if len(few) < m:
            centers = np.stack([few[labels == j].mean(axis=0) for j in np.unique(labels)])
            labels = nearest_centers(rows, centers)[0]
        found.append(labels)
    projected = [rows]
    if dim > k:
        centered = rows - rows.mean(axis=0)
        _, _, axes = np.linalg.svd(centered, full_matrices=False)
        projected.append(centered @ axes[:k].T)
    found += [nearest_centers(points, kmeans(points, k))[0] for points in projected]
    return found


def public_fits(public: FloatArray, k: int, min_weight: float) -> tuple[Parameters, Parameters]:
    """The likeliest fits to public rows (m, dim), with full and with diagonal covariances, in data units."""
    center = public.mean(axis=0)
    scale = np.sqrt(column_variances(public)[0])
    rows = (public - center) / scale
    least = 0.4 * min_weight * len(rows)
    tried: list[tuple[float, int, Parameters]] = []
    for number, labels in enumerate(starting_labels(rows, k)):
        at = maximized(rows, np.eye(k)[labels], full=False)
        at, score = improved(rows, at, SHORT, full=False, least=least)
        tried.append((-score, number, at))
    best = [at for _, _, at in sorted(tried, key=lambda each: each[:2])[:KEPT]]
    ends: list[Parameters] = []
    for full in (True, False):
        fits = [improved(rows, at, LONG, full=full, least=least) for at in best]
        ends.append(max(fits, key=lambda each: each[1])[0])
    return in_units(ends[0], center, scale), in_units(ends[1], center, scale)


def labelled_fit(public: FloatArray, labels: Any, k: int) -> Parameters:
    """The M step of public rows under labels 0 ... k - 1, in data units; every label has a row."""
    center = public.mean(axis=0)
    scale = np.sqrt(column_variances(public)[0])
    return in_units(maximized((public - center) / scale, np.eye(k)[labels], full=True), center, scale)


def in_units(at: Parameters, center: FloatArray, scale: FloatArray) -> Parameters:
    """From standardized columns back to data units."""
    return Parameters(
        weights=at.weights, means=center + scale * at.means, covariances=at.covariances * np.outer(scale, scale)
    )
