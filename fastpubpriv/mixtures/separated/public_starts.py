"""Public fits of a mixture whose components may differ in scale by any factor: expectation-maximization from scale-free starts.

Each seed has its own scale, the distance of a row from its q-th nearest neighbor; k-means, with one scale for all components,
gives the other starts. No private row is read and no budget is spent.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated.public_shapes import kmeans, nearest_centers
from fastpubpriv.mixtures.separated.search_state import column_variances
from fastpubpriv.public_draws import draw_uniforms

SEED = 20_229


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    """Parameters of a Gaussian mixture: weights (k,), means (k, dim) and covariances (k, dim, dim)."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    diagonal: bool = False  # whether the covariances are diagonal

    @property
    def spreads(self) -> FloatArray:
        """The covariances, or their diagonals (k, dim) if `diagonal`."""
        return np.einsum("kii->ki", self.covariances) if self.diagonal else self.covariances


def without_far(public: FloatArray, k: int, min_weight: float = 0.0) -> FloatArray:
    """Return the public rows without groups that are far from all others and smaller than the lightest component would be."""
    few = max(2, math.ceil(tuning.LEAST_PART * max(min_weight, 0.5 / k) * len(public)))
    if len(public) < tuning.TYPICAL * k or len(public) <= 2 * few:
        return public
    low, high = np.quantile(public, (0.25, 0.75), axis=0)
    scale = np.where(
        high > low, high - low, np.maximum(public.std(axis=0), np.abs(public).max(axis=0) * tuning.LEAST_VARIANCE)
    )
    rows = public / np.where(scale > 0.0, scale, 1.0)
    away = np.array([np.partition(np.square(rows - row).sum(axis=1), few)[few] for row in rows])
    near = away <= tuning.FAR**2 * np.partition(away, -few)[-few]
    return public[near] if np.ptp(public[near], axis=0).any() else public


def maximized(rows: FloatArray, share: FloatArray, column: FloatArray, *, full: bool) -> Parameters:
    """M step for responsibilities (m, k), with variances shrunk to column / k^(2 / dim) and correlations of few rows to zero."""
    # `column` (dim,) are the variances of the columns. Without `full` the covariances are diagonal.
    (m, dim), k = rows.shape, share.shape[1]
    held = share.sum(axis=0)
    means = (share.T @ rows) / np.maximum(held, 1e-9)[:, None]
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
    covariances = np.zeros((k, dim, dim))
    if full:
        root = np.sqrt(np.maximum(own, 1e-300))
        weight = np.where(few, 0.0, held / (held + dim))[:, None, None]
        covariances = np.matmul(weighted.swapaxes(1, 2), gaps) / (root[:, :, None] * root[:, None, :]) * weight
    covariances[:, np.arange(dim), np.arange(dim)] = 1.0
    covariances *= deviations[:, :, None] * deviations[:, None, :]
    weights = (held + 0.5) / (m + 0.5 * k)
    return Parameters(weights=weights, means=means, covariances=covariances, diagonal=not full)


def responsibilities(rows: FloatArray, at: Parameters, *, full: bool) -> tuple[FloatArray, float]:
    """E step: return responsibilities (m, k) and the log likelihood of all rows, up to a constant."""
    scale = np.sqrt(np.einsum("kii->ki", at.covariances))
    gaps = (rows - at.means[:, None, :]) / scale[:, None, :]
    constants = np.log(at.weights) - np.log(scale).sum(axis=1)
    if full:
        dim = rows.shape[1]
        root = np.linalg.cholesky(at.covariances / (scale[:, :, None] * scale[:, None, :]) + 1e-12 * np.eye(dim))
        gaps = np.linalg.solve(root, gaps.swapaxes(1, 2)).swapaxes(1, 2)
        constants -= np.log(np.einsum("kii->ki", root)).sum(axis=1)
    joint = (constants[:, None] - 0.5 * np.einsum("kmd,kmd->km", gaps, gaps)).T
    top = joint.max(axis=1, keepdims=True)
    share = np.exp(joint - top)
    sums = share.sum(axis=1, keepdims=True)
    return share / sums, float((top + np.log(sums)).sum())


def improved(rows: FloatArray, at: Parameters, steps: int, *, full: bool, least: float) -> tuple[Parameters, float]:
    """Run at most `steps` of EM; return the fit and its log likelihood minus a penalty for components of under `least` rows."""
    column = column_variances(rows)[0]
    share, likelihood = responsibilities(rows, at, full=full)
    for _ in range(steps):
        at, before = maximized(rows, share, column, full=full), likelihood
        share, likelihood = responsibilities(rows, at, full=full)
        if abs(likelihood - before) <= tuning.SETTLED_FIT * len(rows):
            break
    return at, likelihood - tuning.LACKING * float(np.maximum(least - share.sum(axis=0), 0.0).sum())


def scale_free_labels(rows: FloatArray, k: int, uniform: FloatArray, *, nearest: FloatArray, small: bool) -> IntArray:
    """Labels (m,) by random seeds with their own scales, from sorted distances `nearest` (m, m) and numbers `uniform` (k + 1,)."""
    m, dim = rows.shape
    place = max(2, round((0.3 + 0.7 * float(uniform[0])) * m / (2.0 * k)))
    scale_sq = np.maximum(np.square(nearest[:, min(place, m - 1)]), 1e-30)
    chosen: list[int] = []
    away = np.full(m, tuning.FARTHEST_SEED)
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
    """Return the labels (m,) of all starts, each partition once, as a deterministic function of the public rows."""
    inner = np.einsum("ij,ij->i", rows, rows)
    nearest = np.sqrt(np.maximum(np.sort(inner[:, None] + inner - 2.0 * rows @ rows.T, axis=1), 0.0))
    coins = draw_uniforms((tuning.STARTS, k + 1), random_state=SEED)
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
    public: FloatArray, k: int, min_weight: float, kinds: Sequence[bool] = (True, False)
) -> list[Parameters]:
    """Return the most likely fit to public rows (m, dim) for each of `kinds`: full (True) or diagonal covariances, data units."""
    center = public.mean(axis=0)
    scale = np.sqrt(column_variances(public)[0])
    rows = (public - center) / scale
    few = rows[:: -(-len(rows) // tuning.MOST_ROWS)]
    column, least = column_variances(few)[0], tuning.LEAST_PART * min_weight
    starts = (maximized(few, np.eye(k)[labels], column, full=False) for labels in starting_labels(few, k))
    tried = (improved(few, at, tuning.SHORT_STEPS, full=False, least=least * len(few)) for at in starts)
    best = [at for at, _ in heapq.nlargest(tuning.KEPT, tried, key=lambda each: each[1])]
    fitted = []
    if len(rows) < tuning.FEWEST_ROWS * k:
        return [labeled_fit(public, nearest_centers(rows, kmeans(rows, k))[0], k, full=full) for full in kinds]
    for full in kinds:
        fits = (improved(rows, at, tuning.LONG_STEPS, full=full, least=least * len(rows)) for at in best)
        fitted.append(in_units(max(fits, key=lambda each: each[1])[0], center, scale))
    return fitted


def labeled_fit(public: FloatArray, labels: Any, k: int, *, full: bool) -> Parameters:
    """M step of public rows with labels 0 ... k - 1, in data units; every label has a row."""
    center = public.mean(axis=0)
    scale = np.sqrt(column_variances(public)[0])
    rows = (public - center) / scale
    at = maximized(rows, np.eye(k)[labels], column_variances(rows)[0], full=full)
    if len(rows) < tuning.FEWEST_ROWS * k:
        away = np.square(at.means[:, None] - at.means).sum(axis=2) + np.where(np.eye(k), np.inf, 0.0)
        wide = np.min(away, axis=1) / (tuning.WITHIN * rows.shape[1])
        at = replace(at, covariances=wide[:, None, None] * np.eye(rows.shape[1]))
    return in_units(at, center, scale)


def in_units(at: Parameters, center: FloatArray, scale: FloatArray) -> Parameters:
    """Convert parameters from standardized columns to data units."""
    return replace(at, means=center + scale * at.means, covariances=at.covariances * np.outer(scale, scale))
