"""Expectation-maximization (EM) on public rows, for mixtures whose components may differ in scale by any factor.

Starts are scale-free: each seed has its own scale, the distance of a row from its q-th nearest neighbor; k-means, with one scale
for all components, gives the other starts. Components have full covariances, variances of the columns alone, or deviations that
are known to be one. The rounds on private rows have the same E step in kernels, and their M step in `rounds`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.separated.public_shapes import (
    SEED,
    column_scaling,
    kmeans,
    kmeans_groups,
    nearest_centers,
)
from fastpubpriv.results.public_draws import draw_uniforms


class ComponentShape(Enum):
    """What EM estimates of the shape of a component."""

    FULL = "full"
    DIAGONAL = "diagonal"
    KNOWN = "known"  # deviations of one


# (public rows, number of components, kind) -> their fit
PublicFit = Callable[[FloatArray, int, ComponentShape], GaussianMixture]

ALL_EQUAL = "all public rows are equal, so they say nothing about scale; pass distinct public rows"
# A column with a standard deviation below this share of its largest absolute value is constant up to rounding.
CONSTANT = 64.0 * float(np.finfo(np.float64).eps)


def column_variances(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variances (dim,) of public columns, and which columns are constant (given the typical variance). Raise if all are."""
    scale = np.max(np.abs(points), axis=0)
    variances = np.square(points - points.mean(axis=0)).mean(axis=0)
    equal = variances <= np.square(CONSTANT * np.where(scale > 0.0, scale, 1.0))
    if equal.all():
        raise InputError(ALL_EQUAL)
    typical = float(np.exp(np.mean(np.log(variances[~equal]))))
    return np.where(equal, typical, variances), equal


def without_far(public: FloatArray, k: int, min_weight: float = 0.0) -> FloatArray:
    """Return the public rows without groups that are far from all others and smaller than the lightest component would be."""
    few = max(2, math.ceil(tuning.LEAST_PART * max(min_weight, 0.5 / k) * len(public)))
    if len(public) < tuning.TYPICAL * k or len(public) <= 2 * few:
        return public
    low, high = np.quantile(public, (0.25, 0.75), axis=0)
    scale = np.where(
        high > low,
        high - low,
        np.maximum(public.std(axis=0), np.abs(public).max(axis=0) * tuning.LEAST_VARIANCE),
    )
    rows = public / np.where(scale > 0.0, scale, 1.0)
    away = np.array([np.partition(np.square(rows - row).sum(axis=1), few)[few] for row in rows])
    near = away <= tuning.FAR**2 * np.partition(away, -few)[-few]
    return public[near] if np.ptp(public[near], axis=0).any() else public


def weighted_gaussians(
    rows: FloatArray, share: FloatArray, column: FloatArray, kind: ComponentShape
) -> GaussianMixture:
    """Gaussians of rows weighted by responsibilities (m, k): the M step.

    Variances are shrunk to column / k^(2 / dim), and correlations of few rows to zero.
    """
    # `column` (dim,) are the variances of the columns.
    m, dim = rows.shape
    k = share.shape[1]
    held = share.sum(axis=0)
    means = (share.T @ rows) / np.maximum(held, 1e-9)[:, None]
    weights = (held + 0.5) / (m + 0.5 * k)
    if kind is ComponentShape.KNOWN:
        return GaussianMixture(weights, means, np.ones(means.shape))
    gaps = rows - means[:, None, :]
    weighted = gaps * share.T[:, :, None]
    own = np.einsum("kmd,kmd->kd", weighted, gaps)
    degrees = np.maximum(held - 1.0, 0.0)[:, None]
    few = (held < tuning.FEW_ROWS) & (dim >= 3)
    # A component with too few rows has the pooled shape of all components, at its own scale.
    pooled = np.maximum(own.sum(axis=0) / max(m - k, 1), tuning.LEAST_VARIANCE * column)
    scale = (np.sum(own / pooled, axis=1, keepdims=True) + 0.01) / (degrees * dim + 0.01)
    borrowed = (own + tuning.FEW_ROWS * scale * pooled) / (degrees + tuning.FEW_ROWS)
    base = np.minimum(column / k ** (2.0 / dim), 3.0 * own / np.maximum(degrees, 0.5))
    variances = np.where(few[:, None], borrowed, (own + 2.0 * base) / (degrees + 2.0))
    deviations = np.sqrt(np.maximum(variances, tuning.LEAST_VARIANCE * column))
    if kind is ComponentShape.DIAGONAL:
        return GaussianMixture(weights, means, deviations)
    root = np.sqrt(np.maximum(own, 1e-300))
    weight = np.where(few, 0.0, held / (held + dim))[:, None, None]
    covariances = (
        np.matmul(weighted.swapaxes(1, 2), gaps) / (root[:, :, None] * root[:, None, :]) * weight
    )
    covariances[:, np.arange(dim), np.arange(dim)] = 1.0
    covariances *= deviations[:, :, None] * deviations[:, None, :]
    return GaussianMixture(weights, means, covariances)


def responsibilities(rows: FloatArray, at: GaussianMixture) -> tuple[FloatArray, float]:
    """E step: return responsibilities (m, k) and the log likelihood of all rows, up to a constant."""
    scale = at.stds
    gaps = (rows - at.means[:, None, :]) / scale[:, None, :]
    constants = np.log(at.weights) - np.log(scale).sum(axis=1)
    if at.is_full:
        dim = rows.shape[1]
        root = np.linalg.cholesky(
            at.covariances / (scale[:, :, None] * scale[:, None, :]) + 1e-12 * np.eye(dim)
        )
        gaps = np.linalg.solve(root, gaps.swapaxes(1, 2)).swapaxes(1, 2)
        constants -= np.log(np.einsum("kii->ki", root)).sum(axis=1)
    joint = (constants[:, None] - 0.5 * np.einsum("kmd,kmd->km", gaps, gaps)).T
    top = joint.max(axis=1, keepdims=True)
    share = np.exp(joint - top)
    sums = share.sum(axis=1, keepdims=True)
    return share / sums, float((top + np.log(sums)).sum())


def run_em(
    rows: FloatArray, at: GaussianMixture, steps: int, kind: ComponentShape, *, least: float
) -> tuple[GaussianMixture, float]:
    """Run at most `steps` of EM; return the fit and its log likelihood minus a penalty for components of under `least` rows."""
    column = column_variances(rows)[0]
    share, likelihood = responsibilities(rows, at)
    for _ in range(steps):
        at = weighted_gaussians(rows, share, column, kind)
        before = likelihood
        share, likelihood = responsibilities(rows, at)
        if abs(likelihood - before) <= tuning.SETTLED_FIT * len(rows):
            break
    return at, likelihood - tuning.LACKING * float(np.maximum(least - share.sum(axis=0), 0.0).sum())


def scale_free_labels(
    rows: FloatArray, k: int, uniform: FloatArray, *, nearest: FloatArray, small: bool
) -> IntArray:
    """Labels (m,) by random seeds with their own scales, from sorted distances `nearest` (m, m) and numbers `uniform` (k + 1,)."""
    m, dim = rows.shape
    place = max(2, round((0.3 + 0.7 * float(uniform[0])) * m / (2.0 * k)))
    scale_sq = np.maximum(np.square(nearest[:, min(place, m - 1)]), 1e-30)
    away = np.full(m, tuning.FARTHEST_SEED)
    cost = np.empty((k, m))
    for number, coin in enumerate(uniform[1:]):
        weight = away / np.sqrt(scale_sq) if small else away
        mass = np.cumsum(weight)
        seed = min(int(np.searchsorted(mass, coin * mass[-1], side="right")), m - 1)
        squares = np.square(rows - rows[seed]).sum(axis=1)
        away = np.minimum(away, squares / scale_sq[seed])
        cost[number] = dim * np.log(scale_sq[seed] / dim) + squares * dim / scale_sq[seed]
    labels: IntArray = np.argmin(cost, axis=0)
    return labels


def starting_labels(rows: FloatArray, k: int) -> list[IntArray]:
    """Return the labels (m,) of all starts, each partition once, as a deterministic function of the public rows."""
    inner = np.einsum("ij,ij->i", rows, rows)
    nearest = np.sqrt(
        np.maximum(np.sort(inner[:, None] + inner - 2.0 * rows @ rows.T, axis=1), 0.0)
    )
    coins = draw_uniforms((tuning.STARTS, k + 1), random_state=SEED + 8)
    labelings = [
        scale_free_labels(rows, k, uniform, nearest=nearest, small=number % 3 == 2)
        for number, uniform in enumerate(coins)
    ]
    projected = [rows]
    if rows.shape[1] > k:
        centered = rows - rows.mean(axis=0)
        projected.append(centered @ np.linalg.svd(centered, full_matrices=False)[2][:k].T)
    labelings += [nearest_centers(points, kmeans(points, k))[0] for points in projected]
    # Partitions that are equal up to a relabeling are one start.
    distinct: dict[bytes, IntArray] = {}
    for labels in labelings:
        _, first, places = np.unique(labels, return_index=True, return_inverse=True)
        distinct.setdefault(np.argsort(np.argsort(first))[places].tobytes(), labels)
    return list(distinct.values())


def public_fits(
    public: FloatArray,
    k: int,
    min_weight: float,
    kinds: Sequence[ComponentShape] = (ComponentShape.FULL, ComponentShape.DIAGONAL),
) -> list[GaussianMixture]:
    """Return the most likely fit to public rows (m, dim) of each kind, in data units; KNOWN is alone. Raise if rows are equal."""
    center, scale = units_of(public, kinds[0])
    rows = (public - center) / scale
    start = ComponentShape.KNOWN if kinds[0] is ComponentShape.KNOWN else ComponentShape.DIAGONAL
    if len(rows) < tuning.FEWEST_ROWS * k:
        return [
            labeled_fit(public, nearest_centers(rows, kmeans(rows, k))[0], k, kind)
            for kind in kinds
        ]
    few = rows[:: -(-len(rows) // tuning.MOST_ROWS)]
    column = column_variances(few)[0]
    least = tuning.LEAST_PART * min_weight
    starts = (
        weighted_gaussians(few, np.eye(k)[labels], column, start)
        for labels in starting_labels(few, k)
    )
    tried = (run_em(few, at, tuning.SHORT_STEPS, start, least=least * len(few)) for at in starts)
    best = [at for at, _ in heapq.nlargest(tuning.KEPT, tried, key=lambda each: each[1])]
    fitted = []
    for kind in kinds:
        continued = [at.full for at in best] if kind is ComponentShape.FULL else best
        fits = (
            run_em(rows, at, tuning.LONG_STEPS, kind, least=least * len(rows)) for at in continued
        )
        fitted.append(max(fits, key=lambda each: each[1])[0].mapped(center, scale))
    return fitted


def labeled_fit(public: FloatArray, labels: Any, k: int, kind: ComponentShape) -> GaussianMixture:
    """M step of public rows with labels 0 ... k - 1, in data units; a label without a row is a component amid all rows."""
    center, scale = units_of(public, kind)
    rows = (public - center) / scale
    at = weighted_gaussians(rows, np.eye(k)[labels], column_variances(rows)[0], kind)
    if kind is not ComponentShape.KNOWN and len(rows) < tuning.FEWEST_ROWS * k:
        away = np.square(at.means[:, None] - at.means).sum(axis=2)
        nearest = np.where(away > 0.0, away, np.inf).min(axis=1)
        variances = np.where(nearest < np.inf, nearest / (tuning.WITHIN * rows.shape[1]), 1.0)
        stds = np.broadcast_to(np.sqrt(variances)[:, None], at.means.shape)
        wide = GaussianMixture(at.weights, at.means, stds)
        at = wide.full if kind is ComponentShape.FULL else wide
    return at.mapped(center, scale)


def grouped_fit(public: FloatArray, k: int, kind: ComponentShape) -> GaussianMixture:
    """Return the Gaussians of k-means groups of public rows, in data units."""
    labels = kmeans_groups(public, k, column_scaling(public, k))
    return labeled_fit(public, labels, k, kind)


def likeliest_fit(public: FloatArray, k: int, kind: ComponentShape) -> GaussianMixture:
    """Return the most likely fit to public rows of one kind, in data units."""
    return public_fits(public, k, 0.5 / k, (kind,))[0]


def units_of(public: FloatArray, kind: ComponentShape) -> tuple[FloatArray, FloatArray]:
    """Return center and scale (dim,) of the columns of public rows; the scale is one if deviations are known."""
    center = public.mean(axis=0)
    if kind is ComponentShape.KNOWN:
        return center, np.ones(len(center))
    return center, np.sqrt(column_variances(public)[0])


def axis_aligned_start(
    public: FloatArray, k: int, *, known_std: bool, fit: PublicFit = likeliest_fit
) -> GaussianMixture:
    """Return an axis-aligned fit to public rows, equal or not, by default the most likely one. Raise on overflow."""
    with np.errstate(over="ignore"):
        center = public.mean(axis=0)
        scale = np.ones(public.shape[1]) if known_std else public.std(axis=0)
    if not (np.isfinite(center).all() and np.isfinite(scale).all()):
        raise InputError(
            "x_pub spans more than a double can square: divide the columns by a constant"
        )
    scale = np.where(scale > 0.0, scale, np.maximum(np.abs(center), 1.0))
    rows = (public - center) / scale
    if np.ptp(rows, axis=0).any():
        kind = ComponentShape.KNOWN if known_std else ComponentShape.DIAGONAL
        at = fit(rows, k, kind).normalized
    else:
        at = GaussianMixture(
            np.full(k, 1.0 / k), np.tile(rows[0], (k, 1)), np.ones((k, len(scale)))
        )
    return at.mapped(center, scale)
