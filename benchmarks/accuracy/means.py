"""Means of single real columns: samples with replacement, every contestant on the same rows, errors and coverage."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.accuracy.contestants import OURS, PEERS, PLAIN, Answer, Contestant, Sample
from benchmarks.accuracy.hindsight import Cell, best_radius_error, non_private_error, public_error
from benchmarks.accuracy.keeping import Task, results
from benchmarks.accuracy.tables import Column

SIZES = (300, 2_000, 20_000)
PUBLIC_SIZES = (1, 5, 50, 200)
BUDGETS = (("rho", 0.05), ("rho", 0.5), ("epsilon", 1.0))
# Minimum number of resamples without a reason for which coverage is reported.
FEWEST = 10


@dataclass(frozen=True)
class Job:
    """One column with all its cells; picklable, so that processes may share the work."""

    column: Column
    cells: tuple[Cell, ...]
    resamples: int
    names: tuple[str, ...]


def cells(
    sizes: Sequence[int] = SIZES, public: Sequence[int] = PUBLIC_SIZES, budgets: Any = BUDGETS
) -> tuple[Cell, ...]:
    """Return the grid of sizes and budgets."""
    return tuple(
        Cell(n, m, notion, amount) for (notion, amount), n, m in product(budgets, sizes, public)
    )


def samples(column: Column, cell: Cell, count: int) -> Iterator[Sample]:
    """Yield samples of one cell, which depend on the column, the cell and the index alone."""
    start = zlib.crc32(f"{column.name} {cell.label()}".encode())
    rng = np.random.default_rng(start)
    size = len(column.values)
    for index in range(count):
        drawn = column.values[rng.integers(0, size, cell.n + cell.n_pub)].reshape(-1, 1)
        yield Sample(
            drawn[cell.n_pub :], drawn[: cell.n_pub].copy(), start + index, cell, column.values
        )


def run_cell(column: Column, cell: Cell, resamples: int, names: Sequence[str]) -> dict[str, Any]:
    """Return errors of every contestant in one cell, with the exact errors of `hindsight`."""
    contestants = {**OURS, **PEERS}
    found: dict[str, list[Answer]] = {name: [] for name in names}
    covered = []
    truth = float(column.values.mean())
    for sample in samples(column, cell, resamples):
        covered.append(student_covers(sample, truth))
        # same number of answers each: a root mean square of few errors is biased downward
        for name in names:
            answer = _quietly(contestants[name], sample)
            found[name] += [] if answer is None else [answer]
    best = best_radius_error(column.values, cell)
    return {
        "column": column.name,
        "half": column.half,
        "n": cell.n,
        "n_pub": cell.n_pub,
        "budget": f"{cell.notion} {cell.amount:g}",
        "row_std": float(column.values.std()),
        "best_radius": best,
        "non_private": non_private_error(column.values, cell),
        "public": public_error(column.values, cell),
        "student_coverage": float(np.mean(covered)),
        "contestants": {
            name: score(answers, truth, best) for name, answers in found.items() if answers
        },
    }


def _quietly(contestant: Contestant, sample: Sample) -> Answer | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return contestant(sample)


def student_covers(sample: Sample, truth: float) -> bool:
    """Return whether Student's interval of the private rows, which is not private, contains the mean."""
    rows = sample.private[:, 0]
    half = _student_quantile(len(rows) - 1) * rows.std(ddof=1) / math.sqrt(len(rows))
    return bool(abs(rows.mean() - truth) <= half)


@cache
def _student_quantile(degrees: int) -> float:
    return float(stats.t.ppf(0.975, degrees))


def score(answers: list[Answer], truth: float, best: float) -> dict[str, Any]:
    """Return errors and coverage of one contestant, over all answers and over those with `PLAIN` reasons."""
    errors = np.array([answer.value - truth for answer in answers])
    plain = np.array([answer.reasons in PLAIN for answer in answers])
    inside = np.array([answer.lower <= truth <= answer.upper for answer in answers])
    said = np.array([not math.isnan(answer.lower) for answer in answers])
    result: dict[str, Any] = {
        "answers": len(answers),
        "rmse": _rms(errors),
        "ratio": _rms(errors) / best if best > 0.0 else None,
        "median_error": float(np.median(np.abs(errors))),
        "bias": float(errors.mean()),
        "reasons": {
            word: {
                "answers": int(mine.sum()),
                "covered": int(inside[mine].sum()),
                "rmse": _rms(errors[mine]),
            }
            for word in dict.fromkeys(answer.reasons for answer in answers)
            if (mine := np.array([answer.reasons == word for answer in answers])).any()
        },
        "plain": int(plain.sum()),
    }
    if said.any():
        result["coverage"] = float(inside.mean())
        result["covered_plain"] = int(inside[plain].sum())
        result["median_width"] = float(
            np.median([answer.upper - answer.lower for answer in answers])
        )
    if plain.sum() >= FEWEST and best > 0.0:
        result["plain_ratio"] = _rms(errors[plain]) / best
    return result


def _rms(errors: np.ndarray) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean(errors * errors)))


def run_job(job: Job) -> list[dict[str, Any]]:
    """Run all cells of one column."""
    return [run_cell(job.column, cell, job.resamples, job.names) for cell in job.cells]


def run(
    chosen: Sequence[Column],
    grid: Sequence[Cell],
    *,
    resamples: int,
    names: Sequence[str],
    processes: int = 1,
    keep: Path | None = None,
) -> list[dict[str, Any]]:
    """Run all cells of all columns, on one or several processes; `keep` as in `keeping.results`."""
    jobs = [Job(column, tuple(grid), resamples, tuple(names)) for column in chosen]
    tasks = [
        Task(f"mean {job.column.name} {job.cells} {job.resamples} {job.names}", run_job, (job,))
        for job in jobs
    ]
    return [cell for part in results(tasks, processes=processes, keep=keep) for cell in part]
