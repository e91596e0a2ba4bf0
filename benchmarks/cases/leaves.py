"""Cases of routing rows to leaves and of a Gram matrix for each leaf, against typical NumPy code: for guards and suites."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from benchmarks.cases.loops import GRAM_BOUND, Case, gram_map, numpy_clip
from fastpubpriv.kernels import mixture_rows as soft
from fastpubpriv.kernels import rows
from fastpubpriv.kernels.tree import grouped_rows, tree_assign
from fastpubpriv.mechanisms.sums import SoftGramQuery
from fastpubpriv.mixtures.em_rounds import RowClip, rows_in_steps
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.rowwise.row_maps import RowMap, RowTree, Rule, Split

CHUNK = 16_384


def mixture_rows(
    n: int, dim: int, k: int
) -> tuple[np.ndarray[Any, Any], RowTree, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows around k centers, the tree of nearest projected centers, and its projection and centers."""
    rng = np.random.default_rng(0)
    centers = 3.0 * rng.standard_normal((k, dim))
    x = centers[rng.integers(0, k, n)] + rng.standard_normal((n, dim))
    projection = np.linalg.qr(rng.standard_normal((dim, min(k, dim))))[0].T.copy()
    split = Split(
        rule=Rule.NEAREST,
        origin=np.zeros(dim),
        projection=projection,
        centers=centers @ projection.T,
        first_child=1,
    )
    return x, RowTree(dim, [split, *[None] * k], range(1, k + 1)), projection, split.centers


def nearest(
    x: np.ndarray[Any, Any], projection: np.ndarray[Any, Any], centers: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return labels computed by matrix products, whose rounding depends on the chunk."""
    labels = np.empty(len(x), dtype=np.int64)
    for begin in range(0, len(x), CHUNK):
        y = x[begin : begin + CHUNK] @ projection.T
        labels[begin : begin + CHUNK] = np.argmin(
            (centers * centers).sum(axis=1) - 2.0 * (y @ centers.T), axis=1
        )
    return labels


def routing_case(n: int, dim: int, k: int) -> Case:
    x, tree, projection, centers = mixture_rows(n, dim, k)
    labels = np.empty(n, dtype=np.int32)

    def ours() -> np.ndarray[Any, Any]:
        tree_assign(x, tree, labels)
        return labels

    return Case(
        f"route {n:.0e} x {dim} to {k} leaves",
        ours,
        {"NumPy products": lambda: nearest(x, projection, centers)},
    )


def leaf_gram_case(n: int, dim: int, k: int, radius: float = 6.0) -> Case:
    x, tree, projection, centers = mixture_rows(n, dim, k)
    row_map: RowMap = gram_map(dim, radius)

    def ours() -> np.ndarray[Any, Any]:
        grams = np.zeros((k, dim, dim), dtype=np.int64)
        for begin in range(0, n, CHUNK):
            grouped, begins = grouped_rows(x[begin : begin + CHUNK], tree)
            for leaf in range(k):
                rows.rows_gram(grouped[begins[leaf] : begins[leaf + 1]], row_map, grams[leaf])
        return grams

    def numpy() -> np.ndarray[Any, Any]:
        labels = nearest(x, projection, centers)
        return np.array(
            [dsyrk(1.0, numpy_clip(x[labels == leaf], radius), trans=1) for leaf in range(k)]
        )

    return Case(
        f"Gram matrices of {k} leaves, {n:.0e} x {dim}",
        ours,
        {"NumPy masks, clip and dsyrk": numpy},
    )


def soft_round_case(n: int, dim: int, k: int) -> Case:
    """Case of the pass of a round of soft EM, against that of one component: one Gram matrix of all rows by the same loops."""
    x, *_ = mixture_rows(n, dim, k)
    centers = 3.0 * np.random.default_rng(0).standard_normal((k, dim))
    clip = RowClip.of(dim)

    def call(count: int) -> np.ndarray[Any, Any]:
        at = GaussianMixture(
            np.full(count, 1.0 / count), centers[:count], np.tile(np.eye(dim), (count, 1, 1))
        )
        query = SoftGramQuery(
            shape=(count, dim + 1, dim + 1),
            row_cost=1,
            rows_of=partial(rows_in_steps, table=at.table, clip=clip),
            inv_step=GRAM_BOUND / np.sqrt(clip.total),
            bound=GRAM_BOUND,
        )
        grams = query.zeros()
        for begin in range(0, n, CHUNK):
            query.add(x[begin : begin + CHUNK], grams)
        return query.answer(grams)

    soft.prepare(n, k * dim**2)
    return Case(
        f"round of soft EM, {n:.0e} x {dim}, {k} components",
        lambda: call(k),
        {"one component": lambda: call(1)},
    )
