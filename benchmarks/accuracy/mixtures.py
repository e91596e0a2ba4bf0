"""Mixtures: errors of component means against non-private estimates, and correctness of the reasons of components."""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

import fastpubpriv as fpp
from benchmarks.accuracy import real_mixtures, tables
from benchmarks.accuracy.gaussians import normal_covariance
from benchmarks.accuracy.keeping import Task, results
from fastpubpriv.mixtures.public_em import axis_aligned_start

# dim, components, private rows, public rows for each component, condition of the covariances, rho.
# With one public row per component, its covariance must be estimated from private rows.
GRID = (
    (2, 3, 30_000, 1, 30.0, 0.5),
    (5, 3, 3_000, 1, 1.0, 0.5),
    (20, 3, 30_000, 1, 30.0, 0.5),
    (4, 3, 3_000, 10, 1.0, 0.5),
    (4, 3, 30_000, 10, 30.0, 0.05),
    (20, 3, 10_000, 20, 1.0, 0.5),
    (40, 4, 30_000, 20, 1.0, 0.5),
    (40, 4, 30_000, 20, 30.0, 0.5),
    (40, 4, 30_000, 20, 1.0, 0.05),
)
APART = 12.0
# A mean with a larger error, in standard deviations of its component, needs a reason.
SILENT = 2.0
COUNTS = ("randhie.mdvis", "fair.affairs", "planes.engines", "anes96.TVnews", "modechoice.invc")


def sample(case: tuple[Any, ...], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return private rows, public rows and centers of one mixture of the grid."""
    dim, k, n, per_leaf, condition, _ = case
    _, covariance = normal_covariance(dim, condition)
    rng = np.random.default_rng([zlib.crc32(repr(case).encode()), seed])
    centers = rng.standard_normal((k, dim))
    centers *= APART * np.sqrt(np.trace(covariance)) / np.linalg.norm(centers, axis=1)[:, None]
    factor = np.linalg.cholesky(covariance)
    labels = np.concatenate([rng.integers(0, k, n), np.repeat(np.arange(k), per_leaf)])
    rows = centers[labels] + rng.standard_normal((len(labels), dim)) @ factor.T
    return rows[:n], rows[n:].copy(), centers


def separated(case: tuple[Any, ...], resamples: int) -> dict[str, Any]:
    """Return errors of the component means in average standard deviations, medians over components and resamples."""
    dim, k, n, per_leaf, condition, rho = case
    _, covariance = normal_covariance(dim, condition)
    spread = np.sqrt(np.trace(covariance) / dim)
    rng = np.random.default_rng(zlib.crc32(repr(case).encode()))
    found: dict[str, list[float]] = {"ours": [], "public": [], "non-private": []}
    told: list[str] = []
    worst = 0.0
    for index in range(resamples):
        centers = rng.standard_normal((k, dim))
        centers *= APART * spread * np.sqrt(dim) / np.linalg.norm(centers, axis=1)[:, None]
        factor = np.linalg.cholesky(covariance)
        labels = rng.integers(0, k, n)
        public_labels = np.repeat(np.arange(k), per_leaf)
        private = centers[labels] + rng.standard_normal((n, dim)) @ factor.T
        public = centers[public_labels] + rng.standard_normal((k * per_leaf, dim)) @ factor.T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = fpp.learn_separated_mixture(
                private,
                x_pub=public,
                n_components=k,
                min_weight=0.5 / k,
                budget=fpp.ZCDP(rho),
                random_state=index,
                threads=1,
                progress=False,
            )
        for j in range(k):
            mine = {
                "ours": result.means,
                "public": public[public_labels == j].mean(axis=0, keepdims=True),
                "non-private": private[labels == j].mean(axis=0, keepdims=True),
            }
            for name, means in mine.items():
                found[name].append(float(np.linalg.norm(means - centers[j], axis=1).min() / spread))
        away = np.linalg.norm(result.means[:, None] - centers, axis=2).min(axis=1) / spread
        worst = max(
            [worst, *(far for far, own in zip(away, result.part_reasons, strict=True) if not own)]
        )
        told += [", ".join(own) or "ok" for own in result.part_reasons]
    name = f"{k} in {dim} columns, n = {n:,}, {per_leaf} public each, condition {condition:g}, rho {rho:g}"
    line: dict[str, Any] = {"mixture": name}
    line |= {word: float(np.median(values)) for word, values in found.items()}
    line["ratio to public"] = line["ours"] / line["public"]
    line["worst silent"] = float(worst)
    line["reasons"] = ", ".join(f"{count} {word}" for word, count in Counter(told).items())
    return line


def of_counts(column: tables.Column, resamples: int, n: int = 5_000) -> dict[str, Any]:
    """Fit axis-aligned mixtures to a column that is not a Gaussian mixture; return errors of the mean and impossible components."""
    rng = np.random.default_rng(zlib.crc32(column.name.encode()))
    low = column.values.min()
    high = column.values.max()
    reach = 0.5 * (high - low)
    told = []
    absurd = 0
    off = []
    for index in range(resamples):
        private, public = (
            column.values[rng.integers(0, len(column.values), m)].reshape(-1, 1) for m in (n, 50)
        )
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
        told += [", ".join(own) or "ok" for own in result.part_reasons]
        outside = (result.means[:, 0] < low - reach) | (result.means[:, 0] > high + reach)
        absurd += sum(
            bool(out) and not own for out, own in zip(outside, result.part_reasons, strict=True)
        )
        off.append(
            abs(float(result.weights @ result.means[:, 0]) - column.values.mean())
            / column.values.std()
        )
    return {
        "column": column.name,
        "error of the mean (stds)": float(np.median(off)),
        "absurd and ok": absurd,
        "reasons": ", ".join(f"{count} {word}" for word, count in Counter(told).items()),
    }


def marginal_distance(weights: Any, means: Any, stds: Any, population: np.ndarray) -> float:
    """Return the maximum difference of the distribution functions of a mixture and of a table, averaged over the columns."""
    found = []
    for j, column in enumerate(population.T):
        values, counts = np.unique(column, return_counts=True)
        above = np.cumsum(counts) / len(column)
        # Midpoint of each step: no continuous distribution is closer at a value that many rows share.
        middle = above - counts / (2.0 * len(column))
        found.append(
            np.abs(ndtr((values[:, None] - means[:, j]) / stds[:, j]) @ weights - middle).max()
        )
    return float(np.mean(found))


def of_table(
    name: str, resamples: int, *, n: int = 5_000, n_pub: int = 40, rho: float = 0.5
) -> dict[str, Any]:
    """Compare an axis-aligned mixture of a real table with the fit to its public rows alone, by their marginal distributions."""
    population = tables.joint(name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    low = population.min(axis=0)
    high = population.max(axis=0)
    ours = []
    public_fits = []
    absurd = 0
    told = list[str]()
    for index in range(resamples):
        private, public = (population[rng.integers(0, len(population), m)] for m in (n, n_pub))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = fpp.learn_axis_aligned_mixture(
                private,
                x_pub=public,
                n_components=3,
                budget=fpp.ZCDP(rho),
                method="dp_em",
                random_state=index,
                threads=1,
                progress=False,
            )
        start = axis_aligned_start(public, 3, known_std=False)
        ours.append(
            marginal_distance(result.weights, result.means, np.sqrt(result.variances), population)
        )
        public_fits.append(marginal_distance(start.weights, start.means, start.stds, population))
        outside = ((result.means < low - (high - low)) | (result.means > high + (high - low))).any(
            axis=1
        )
        absurd += sum(
            bool(out) and not own for out, own in zip(outside, result.part_reasons, strict=True)
        )
        told += [", ".join(own) or "ok" for own in result.part_reasons]
    line: dict[str, Any] = {
        "table": f"{name}, n = {n:,}, {n_pub} public, rho {rho:g}",
        "ours": float(np.median(ours)),
        "public": float(np.median(public_fits)),
    }
    line["ratio to public"] = line["ours"] / line["public"]
    line |= {
        "absurd and ok": absurd,
        "reasons": ", ".join(f"{count} {word}" for word, count in Counter(told).items()),
    }
    return line


def run(
    quick: bool, *, resamples: int, processes: int = 1, keep: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Run the grid of separated mixtures, columns of counts, and real tables, also with groups; `keep` as in `keeping.results`."""
    chosen = [column for column in tables.columns() if column.name in COUNTS]
    settings = [{}, {"n_pub": 8, "rho": 0.05}, {"n": 500}]
    tasks = {
        "separated": [
            Task(f"separated {case} {resamples}", separated, (case, resamples))
            for case in (GRID[:4:3] if quick else GRID)
        ],
        "counts": [
            Task(f"counts {column.name} {resamples}", of_counts, (column, resamples))
            for column in (chosen[:2] if quick else chosen)
        ],
        "tables": [
            Task(f"tables {name} {each} {resamples}", partial(of_table, **each), (name, resamples))
            for name in (tables.JOINT_TABLES[:2] if quick else tables.JOINT_TABLES)
            for each in (settings[:1] if quick else settings)
        ],
        "groups": [
            Task(
                f"groups {each} {resamples}", real_mixtures.run_setting, (each, min(resamples, 40))
            )
            for each in (real_mixtures.SETTINGS[:1] if quick else real_mixtures.SETTINGS)
        ],
    }
    found = iter(
        results([task for each in tasks.values() for task in each], processes=processes, keep=keep)
    )
    return {name: [next(found) for _ in each] for name, each in tasks.items()}
