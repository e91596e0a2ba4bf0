"""Intervals of `estimate_gaussian` against the true means, standard deviations, covariances and correlations of raw tables.

Rows are drawn from a table with replacement, so that the table is the population and its moments are the true ones. A covariance
has no reason if both of its columns have none.
"""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.coefficients import BUDGETS, MEAN_COVERAGE
from benchmarks.accuracy.gaussians import errors
from benchmarks.accuracy.keeping import Task, results

KINDS = ("mean", "standard_deviation", "covariance", "correlation")
DEFAULT_BUDGETS = ("rho 0.5", "(1, 1e-6)")
PUBLIC_SIZES = (20, 200)
SIZES = (10_000,)
POPULATION = 200_000  # rows of a synthetic population
# A predicted error is correct if it is within this factor of the median error.
FACTOR = 2.0
WORSE = 1.05  # ratio of median errors beyond which more budget is significantly worse
MADE_UP: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: (
        rng.standard_normal((POPULATION, 4))
        @ np.array(
            [[2.0, 0.3, 0.0, 0.1], [0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 3.0, 0.2], [0.0, 0.0, 0.0, 0.5]]
        )
    ),
    "lognormal": lambda rng: np.exp(
        rng.standard_normal((POPULATION, 3)) @ np.array([[1.0, 0.3, 0], [0, 0.5, 0.2], [0, 0, 0.8]])
    ),
    "student": lambda rng: (
        rng.standard_t(5, (POPULATION, 3))
        @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    ),
    "uniform": lambda rng: rng.uniform(size=(POPULATION, 3)),
}


@dataclass(frozen=True)
class Population:
    """Rows (size, dim) with their moments and the standard deviations of their sampling errors, by kind."""

    rows: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    truth: dict[str, np.ndarray]
    deviations: dict[str, np.ndarray]

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.mean)


@cache
def population(name: str) -> Population:
    """Return a raw or a synthetic table; standard deviations are those of one row, from influence functions."""
    rows = MADE_UP[name](np.random.default_rng(7)) if name in MADE_UP else tables.joint(name)
    mean = rows.mean(axis=0)
    covariance = np.cov(rows.T, ddof=0)
    scale = np.sqrt(np.diag(covariance))
    white = (rows - mean) / scale
    correlation = covariance / np.outer(scale, scale)
    squares = np.square(white)
    moved = np.einsum("ni,nj->ijn", white, white) - correlation[:, :, None]
    turned = moved - 0.5 * correlation[:, :, None] * (
        squares.T[:, None, :] + squares.T[None, :, :] - 2.0
    )
    deviations = {
        "mean": scale,
        "standard_deviation": scale * squares.std(axis=0) / 2.0,
        "covariance": np.outer(scale, scale) * moved.std(axis=2),
        "correlation": turned.std(axis=2),
    }
    truth = {
        "mean": mean,
        "standard_deviation": scale,
        "covariance": covariance,
        "correlation": correlation,
    }
    return Population(rows, mean, covariance, truth, deviations)


def half_of(name: str) -> str:
    """Return the half of a table; synthetic ones are for tuning."""
    return "tuning" if name in MADE_UP or name in tables.RAW_TUNING else "report"


@dataclass(frozen=True)
class Setting:
    """A population, numbers of private and of public rows, and a budget."""

    table: str
    n: int
    n_pub: int
    budget: str


def sample(setting: Setting, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw private and public rows of a setting."""
    of = population(setting.table)
    rng = np.random.default_rng([zlib.crc32(setting.table.encode()), seed])
    rows = of.rows[rng.integers(0, len(of.rows), setting.n + setting.n_pub)]
    return np.ascontiguousarray(rows[setting.n_pub :]), rows[: setting.n_pub].copy()


def draw(setting: Setting, seed: int) -> tuple[Any, float, float]:
    """Return the result on one sample, its error of the covariance and that of the mean."""
    of = population(setting.table)
    private, public = sample(setting, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fpp.estimate_gaussian(
            private,
            x_pub=public,
            budget=BUDGETS[setting.budget],
            random_state=seed,
            threads=1,
            progress=False,
        )
    problem: Any = of
    return result, *errors(problem, result.mean, result.covariance)


def judged(result: Any, setting: Setting, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each number of a kind whether it is covered, whether it has no reason, and its width over that of sampling."""
    of = population(setting.table)
    lower, upper = result.confidence_interval(0.95, of=kind)
    truth = of.truth[kind]
    unit = 3.92 * of.deviations[kind] / np.sqrt(setting.n)
    plain = np.array([not own for own in result.part_reasons])
    covered = (lower <= truth) & (truth <= upper)
    if truth.ndim == 1:
        return covered, plain, (upper - lower) / unit
    places = np.triu_indices(of.dim, 1)
    both = plain[places[0]] & plain[places[1]]
    return covered[places], both, (upper - lower)[places] / unit[places]


def held_without_noise(private: np.ndarray, of: Population) -> dict[str, np.ndarray]:
    """Return whether intervals of the sample itself, by the central limit theorem and without noise, hold the truth."""
    n = len(private)
    mean = private.mean(axis=0)
    scale = private.std(axis=0, ddof=1)
    fourth = np.mean((private - mean) ** 4, axis=0) / scale**4
    halves = {"mean": scale, "standard_deviation": scale * np.sqrt((fourth - 1.0) / 4.0)}
    return {
        kind: np.abs(value - of.truth[kind]) <= 1.96 * halves[kind] / np.sqrt(n)
        for kind, value in (("mean", mean), ("standard_deviation", scale))
    }


def run_setting(setting: Setting, draws: int) -> dict[str, Any]:
    """Return all draws of one setting in one line."""
    found = [draw(setting, seed) for seed in range(draws)]
    of = population(setting.table)
    ratios = np.array([np.diag(result.covariance) / np.diag(of.covariance) for result, *_ in found])
    off = np.array([error for _, error, _ in found])
    predicted = np.array([result.predicted_covariance_error for result, *_ in found])
    line: dict[str, Any] = {
        "table": setting.table,
        "half": half_of(setting.table),
        "n": setting.n,
        "n_pub": setting.n_pub,
        "budget": setting.budget,
        "draws": draws,
        "error": float(np.median(off)),
        "predicted": float(np.median(predicted)),
        "guess": float(
            np.mean([bool(result.diagnostics.get("guess", False)) for result, *_ in found])
        ),
        "mean error": float(np.median([error for *_, error in found])),
        "least variance": float(np.median(ratios, axis=0).min()),
        "most variance": float(np.median(ratios, axis=0).max()),
    }
    shown = [seed for seed, (result, *_) in enumerate(found) if result.report is not None]
    without = [held_without_noise(sample(setting, seed)[0], of) for seed in shown]
    for kind in KINDS:
        parts = [judged(found[seed][0], setting, kind) for seed in shown]
        if not parts:  # no draw has intervals
            nothing = dict.fromkeys(
                ("coverage", "flagged coverage", "without noise", "width", "lowest")
            )
            line |= {
                f"{kind} {word}": value
                for word, value in {"ok": 0, "flagged": 0, **nothing}.items()
            }
            continue
        covered, plain, width = (np.array([part[place] for part in parts]) for place in range(3))
        line[f"{kind} ok"], line[f"{kind} flagged"] = int(plain.sum()), int((~plain).sum())
        line[f"{kind} coverage"] = float(covered[plain].mean()) if plain.any() else None
        line[f"{kind} flagged coverage"] = float(covered[~plain].mean()) if (~plain).any() else None
        own = (
            np.array([each[kind] for each in without])[plain] if kind in without[0] else np.zeros(0)
        )
        line[f"{kind} without noise"] = float(own.mean()) if len(own) else None
        line[f"{kind} width"] = float(np.median(width))
        each = [
            float(covered[plain[:, j], j].mean())
            for j in range(plain.shape[1])
            if plain[:, j].sum() >= draws / 2.0
        ]
        line[f"{kind} lowest"] = min(each, default=None)
    words = Counter(", ".join(own) or "ok" for result, *_ in found for own in result.part_reasons)
    line["reasons"] = ", ".join(f"{count} {word}" for word, count in words.items())
    return line


def run_directions(setting: Setting, draws: int) -> dict[str, Any]:
    """Evaluate the intervals of `private_pca` for the population's mean square along a direction, around the center."""
    of = population(setting.table)
    parts = []
    plain = []
    for seed in range(draws):
        private, public = sample(setting, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = fpp.private_pca(
                private,
                x_pub=public,
                n_components=of.dim,
                budget=BUDGETS[setting.budget],
                random_state=seed,
                threads=1,
                progress=False,
            )
        squares = np.square((of.rows - result.center) @ result.components.T)
        truth = squares.mean(axis=0)
        unit = 3.92 * squares.std(axis=0) / np.sqrt(setting.n)
        lower, upper = result.confidence_interval(0.95)
        known = ~np.isnan(lower)
        own = np.square((private - result.center) @ result.components.T)
        without = np.abs(own.mean(axis=0) - truth) <= 1.96 * own.std(axis=0) / np.sqrt(setting.n)
        covered = (lower <= truth) & (truth <= upper)
        parts += zip(covered[known], without[known], ((upper - lower) / unit)[known], strict=True)
        plain += np.array([not each for each in result.part_reasons])[known].tolist()
    covered, without, width = (
        np.array(each) for each in (zip(*parts, strict=True) if parts else ((), (), ()))
    )
    ok = np.array(plain, dtype=bool)
    return {
        "table": setting.table,
        "half": half_of(setting.table),
        "n": setting.n,
        "n_pub": setting.n_pub,
        "budget": setting.budget,
        "draws": draws,
        "ok": int(ok.sum()),
        "flagged": int((~ok).sum()),
        "coverage": float(covered[ok].mean()) if ok.any() else None,
        "flagged coverage": float(covered[~ok].mean()) if (~ok).any() else None,
        "without noise": float(without[ok].mean()) if ok.any() else None,
        "width": float(np.median(width[ok])) if ok.any() else None,
    }


def run(
    quick: bool,
    *,
    draws: int,
    half: str | None = None,
    wanted: Sequence[str] = (),
    budgets: Sequence[str] = DEFAULT_BUDGETS,
    public: Sequence[int] = PUBLIC_SIZES,
    processes: int = 1,
    keep: Path | None = None,
    measure: Callable[[Setting, int], dict[str, Any]] = run_setting,
) -> list[dict[str, Any]]:
    """Run all settings, or those of one half or of some tables; `keep` as in `keeping.results`."""
    names = [name for name, (*_, columns) in tables.RAW_TABLES.items() if columns] + list(MADE_UP)
    chosen = [
        name for name in names if half in (None, half_of(name)) and (not wanted or name in wanted)
    ]
    settings = [
        Setting(name, n, m, budget)
        for budget in budgets
        for name in chosen
        for n in ((2_000,) if quick else SIZES)
        for m in (public[:1] if quick else public)
    ]
    kind = "covariances" if measure is run_setting else measure.__name__
    tasks = [Task(f"{kind} {each} {draws}", measure, (each, draws)) for each in settings]
    return results(tasks, processes=processes, keep=keep)


def more_budget(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Compare each setting with the same at the next larger rho: error of the covariance, and coverage without a reason."""
    settings = {(line["table"], line["n_pub"], line["budget"]): line for line in lines}
    rhos = [budget for budget in BUDGETS if budget.startswith("rho")]
    told = []
    for less, more in pairwise(rhos):
        pairs = [
            (settings[table, m, less], settings.get((table, m, more)))
            for table, m, own in settings
            if own == less
        ]
        known = [(one, other) for one, other in pairs if other is not None]
        worse = [
            f"{b['table']} ({b['n_pub']}), {b['error'] / a['error']:.2f} times"
            for a, b in known
            if b["error"] > WORSE * a["error"]
        ]
        low = [
            f"{kind} of {b['table']} ({b['n_pub']})"
            for a, b in known
            for kind in KINDS
            if b[f"{kind} coverage"] is not None
            and b[f"{kind} coverage"] < min(MEAN_COVERAGE, a[f"{kind} coverage"] or 1.0)
        ]
        if known:
            told.append(
                f"{more} in place of {less}: median error of the covariance {WORSE} times or more in {len(worse)} of "
                f"{len(known)} settings ({'; '.join(worse) or 'none'}); coverage without a reason below {MEAN_COVERAGE} and "
                f"below that with less: {'; '.join(low) or 'none'}"
            )
    return told


def targets(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return the targets of predictions, each met or not met, and what more budget did where several were measured."""
    near = [
        1.0 / FACTOR <= line["predicted"] / line["error"] <= FACTOR or line["guess"] > 0.5
        for line in lines
    ]
    told = f"Predicted covariance errors within a factor {FACTOR:g}, or a guess: {sum(near)} of {len(near)} settings"
    return [told, *more_budget(lines)]
