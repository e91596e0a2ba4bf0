"""Mixtures: are the means learnt that the private rows could tell, and are the words about components true?"""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.gaussians import normal_covariance

# dim, components, private rows, public rows for each component, condition of the covariances, rho.
GRID = (
    (4, 3, 3_000, 10, 1.0, 0.5), (4, 3, 30_000, 10, 30.0, 0.05), (20, 3, 10_000, 20, 1.0, 0.5),
    (40, 4, 30_000, 20, 1.0, 0.5), (40, 4, 30_000, 20, 30.0, 0.5), (40, 4, 30_000, 20, 1.0, 0.05),
)  # fmt: skip
APART = 12.0
COUNTS = ("randhie.mdvis", "fair.affairs", "planes.engines", "anes96.TVnews", "modechoice.invc")


def separated(case: tuple[Any, ...], resamples: int) -> dict[str, Any]:
    """Error of the component means in average standard deviations, medians over components and resamples."""
    dim, k, n, per_leaf, condition, rho = case
    _, covariance = normal_covariance(dim, condition)
    spread = np.sqrt(np.trace(covariance) / dim)
    rng = np.random.default_rng(zlib.crc32(repr(case).encode()))
    found: dict[str, list[float]] = {"ours": [], "public": [], "non-private": []}
    told: list[str] = []
    for index in range(resamples):
        centers = rng.standard_normal((k, dim))
        centers *= APART * spread * np.sqrt(dim) / np.linalg.norm(centers, axis=1)[:, None]
        factor = np.linalg.cholesky(covariance)
        labels, public_labels = rng.integers(0, k, n), np.repeat(np.arange(k), per_leaf)
        private = centers[labels] + rng.standard_normal((n, dim)) @ factor.T
        public = centers[public_labels] + rng.standard_normal((k * per_leaf, dim)) @ factor.T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = fpp.learn_separated_mixture(
                private, x_pub=public, n_components=k, min_weight=0.5 / k, budget=fpp.ZCDP(rho), random_state=index,
                threads=1, progress=False,
            )  # fmt: skip
        for j in range(k):
            mine = {
                "ours": result.means, "public": public[public_labels == j].mean(axis=0, keepdims=True),
                "non-private": private[labels == j].mean(axis=0, keepdims=True),
            }  # fmt: skip
            for name, means in mine.items():
                found[name].append(float(np.linalg.norm(means - centers[j], axis=1).min() / spread))
        told += result.status
    name = f"{k} in {dim} columns, n = {n:,}, {per_leaf} public each, condition {condition:g}, rho {rho:g}"
    line: dict[str, Any] = {"mixture": name}
    line |= {word: float(np.median(values)) for word, values in found.items()}
    line["ratio to public"] = line["ours"] / line["public"]
    line["status"] = ", ".join(f"{count} {word}" for word, count in Counter(told).items())
    return line


def of_counts(column: tables.Column, resamples: int, n: int = 5_000) -> dict[str, Any]:
    """An axis-aligned mixture of a column that is no mixture of Gaussians: its mean, and components that cannot be."""
    rng = np.random.default_rng(zlib.crc32(column.name.encode()))
    low, high = column.values.min(), column.values.max()
    reach, told, absurd, off = 0.5 * (high - low), [], 0, []
    for index in range(resamples):
        private, public = (column.values[rng.integers(0, len(column.values), m)].reshape(-1, 1) for m in (n, 50))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = fpp.learn_axis_aligned_mixture(
                private,
                x_pub=public,
                n_components=2,
                budget=fpp.ZCDP(0.5),
                random_state=index,
                threads=1,
                progress=False,
            )
        told += result.status
        outside = (result.means[:, 0] < low - reach) | (result.means[:, 0] > high + reach)
        absurd += sum(bool(out) and status == "ok" for out, status in zip(outside, result.status, strict=True))
        off.append(abs(float(result.weights @ result.means[:, 0]) - column.values.mean()) / column.values.std())
    return {
        "column": column.name, "error of the mean (stds)": float(np.median(off)), "absurd and ok": absurd,
        "status": ", ".join(f"{count} {word}" for word, count in Counter(told).items()),
    }  # fmt: skip


def run(quick: bool, *, resamples: int) -> dict[str, list[dict[str, Any]]]:
    """The grid of separated mixtures, and the columns of counts."""
    chosen = [column for column in tables.columns() if column.name in COUNTS]
    return {
        "separated": [separated(case, resamples) for case in (GRID[:1] if quick else GRID)],
        "counts": [of_counts(column, resamples) for column in (chosen[:2] if quick else chosen)],
    }
