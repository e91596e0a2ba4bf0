"""Coefficients of `linear_regression` against least squares on all rows of raw tables: coverage, width and excess error.

A draw splits a table at random into public rows and at most `MOST_ROWS` private ones. The target is least squares on all rows of
the split, for terms that vary in the public rows. As intervals also include sampling error, they should nearly always contain it.
"""

from __future__ import annotations

import itertools
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.keeping import Task, results

MOST_ROWS = 30_000
BUDGETS: dict[str, Any] = {
    "rho 0.05": fpp.ZCDP(0.05),
    "rho 0.5": fpp.ZCDP(0.5),
    "rho 5": fpp.ZCDP(5),
    "(1, 1e-6)": fpp.ApproxDP(1, 1e-6),
    "epsilon 1": fpp.PureDP(1),
}
DEFAULT_BUDGETS = ("(1, 1e-6)", "rho 0.5")
PUBLIC_SIZES = (50, 200, 1_000)
# Required coverage without a reason: mean over a table, and of its worst coefficient.
MEAN_COVERAGE, LEAST_COVERAGE = 0.93, 0.85


@dataclass(frozen=True)
class Labels:
    """Rows (n, p) with names of the columns, and labels (n,)."""

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]


@cache
def labeled(name: str) -> Labels:
    """Return a regression of the list: numeric columns, and an indicator for each category except the first."""
    table = tables.REGRESSIONS[name]
    frame = tables.raw(table.source)[[table.label, *table.numbers, *table.categories]].dropna()
    y = frame[table.label].to_numpy(np.float64)
    columns = {each: frame[each].to_numpy(np.float64) for each in table.numbers}
    for each in table.categories:
        values = frame[each].astype(str)
        for level in sorted(values.unique())[1:]:
            columns[f"{each}={level}"] = (values == level).to_numpy(np.float64)
    x = np.column_stack(list(columns.values()))
    return Labels(x, np.exp(y) if table.exponential else y, tuple(columns))


@dataclass(frozen=True)
class LeastSquares:
    """Least squares with an intercept: coefficients, robust standard errors, second moment, and mean squared error."""

    coefficients: np.ndarray
    deviations: np.ndarray
    moment: np.ndarray
    variance: float
    n: int

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray) -> LeastSquares:
        """Fit to standardized columns, for numerical accuracy."""
        mean = x.mean(axis=0)
        scale = np.maximum(x.std(axis=0), 1e-300)
        rows = np.column_stack([np.ones(len(x)), (x - mean) / scale])
        found = np.linalg.lstsq(rows, y, rcond=None)[0]
        left = y - rows @ found
        n = len(y)
        moment = rows.T @ rows / n
        inverse = np.linalg.pinv(moment)
        sandwich = inverse @ ((rows * (left * left)[:, None]).T @ rows / n) @ inverse / n
        inner = np.linalg.pinv(inverse[1:, 1:]) / np.outer(1.0 / scale, 1.0 / scale)
        return cls(
            found[1:] / scale,
            np.sqrt(np.diag(sandwich)[1:]) / scale,
            inner,
            float(np.mean(left * left)),
            n,
        )

    def excess(self, coefficients: np.ndarray) -> float:
        """Return the excess mean squared error of other coefficients, in units of the expected sampling error of as many rows."""
        gap = coefficients - self.coefficients
        return float(gap @ self.moment @ gap / (len(gap) * self.variance / self.n))


@dataclass(frozen=True)
class Setting:
    """A table, numbers of public and of private rows, and a budget."""

    table: str
    n_pub: int
    budget: str
    n: int = MOST_ROWS
    method: str = "auto"


def fitted(setting: Setting, seed: int) -> tuple[Any, LeastSquares]:
    """Return our result on one split, and least squares on its private and public rows."""
    result, truth, _ = _both(setting, seed)
    return result, truth


def _both(setting: Setting, seed: int) -> tuple[Any, LeastSquares, LeastSquares]:
    """Return our result on one split, and least squares on all its rows and on the public ones."""
    data = labeled(setting.table)
    order = np.random.default_rng([zlib.crc32(setting.table.encode()), seed]).permutation(
        len(data.y)
    )
    order = order[: setting.n + setting.n_pub]
    x = np.ascontiguousarray(data.x[order])
    y = data.y[order].copy()
    m = setting.n_pub
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        result = fpp.linear_regression(
            x[m:],
            y[m:],
            x_pub=x[:m],
            y_pub=y[:m],
            budget=BUDGETS[setting.budget],
            method=setting.method,
            random_state=seed,
            progress=False,
            threads=1,
        )
        kept = columns_of(result)
        return result, LeastSquares.of(x[:, kept], y), LeastSquares.of(x[:m][:, kept], y[:m])


def columns_of(result: Any) -> list[int]:
    """Return the columns with a coefficient: all but those that are constant in the public rows."""
    slopes = np.isfinite(result.coefficients)
    return [int(term.removeprefix("x")) for term in itertools.compress(result.terms, slopes)]


def draw(setting: Setting, seed: int) -> dict[str, Any]:
    """Return coverage, reasons and relative width per term of one split, and the excess of the private and of the public fit."""
    data = labeled(setting.table)
    result, truth, public = _both(setting, seed)
    kept = columns_of(result)
    has_slope = np.isfinite(result.coefficients)
    lower, upper = (ends[has_slope] for ends in result.confidence_interval(0.95))
    parts = itertools.compress(result.part_reasons[1:], has_slope)
    return {
        "terms": [data.names[j] for j in kept],
        "method": result.method,
        "reasons": [", ".join(own) or "ok" for own in parts],
        "covered": ((lower <= truth.coefficients) & (truth.coefficients <= upper)).tolist(),
        "width": ((upper - lower) / (3.92 * np.maximum(truth.deviations, 1e-300))).tolist(),
        "excess": truth.excess(result.coefficients[has_slope]),
        "public excess": truth.excess(public.coefficients),
    }


def run_setting(setting: Setting, draws: int) -> dict[str, Any]:
    """Return all draws of one setting in one line."""
    found = [draw(setting, seed) for seed in range(draws)]
    tally: dict[str, list[bool]] = {}
    flagged: list[bool] = []
    widths = []
    words = Counter[str]()
    for one in found:
        for term, word, covered, width in zip(
            one["terms"], one["reasons"], one["covered"], one["width"], strict=True
        ):
            words[word] += 1
            if np.isnan(width):  # there is no interval
                continue
            widths.append(width)
            if word == "ok":
                tally.setdefault(term, []).append(covered)
            else:
                flagged.append(covered)
    plain = [covered for each in tally.values() for covered in each]
    excess, public = (np.array([one[key] for one in found]) for key in ("excess", "public excess"))
    return {
        "table": setting.table,
        "half": tables.REGRESSIONS[setting.table].half,
        "n_pub": setting.n_pub,
        "budget": setting.budget,
        "method": setting.method,
        "draws": draws,
        "terms": len(found[0]["terms"]),
        "ok": len(plain),
        "coverage": float(np.mean(plain)) if plain else None,
        "lowest": min(float(np.mean(each)) for each in tally.values()) if plain else None,
        "flagged": len(flagged),
        "flagged coverage": float(np.mean(flagged)) if flagged else None,
        "width": float(np.median(widths)) if widths else None,
        "excess": float(np.median(excess)),
        "public excess": float(np.median(public)),
        "reasons": ", ".join(f"{count} {word}" for word, count in words.items()),
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
) -> list[dict[str, Any]]:
    """Run all settings, or those of some tables or of one half; `keep` as in `keeping.results`."""
    chosen = [
        name
        for name, table in tables.REGRESSIONS.items()
        if half in (None, table.half) and (not wanted or name in wanted)
    ]
    settings = [
        Setting(name, m, budget, 4_000 if quick else MOST_ROWS)
        for budget in budgets
        for name in chosen
        for m in (public[1:2] if quick else public)
    ]
    tasks = [Task(f"coefficients {each} {draws}", run_setting, (each, draws)) for each in settings]
    return results(tasks, processes=processes, keep=keep)


def coverage_row(lines: Sequence[dict[str, Any]], number: str, prefix: str = "") -> dict[str, Any]:
    """Summarize the coverage of one kind of number over the report half; its keys in `lines` begin with `prefix`."""
    report = [line for line in lines if line["half"] == "report"]
    plain = [line for line in report if line[f"{prefix}coverage"] is not None]
    low = [line for line in plain if line[f"{prefix}coverage"] < MEAN_COVERAGE]

    def own(line: dict[str, Any]) -> str:
        """Return the coverage of intervals without noise, if it was measured."""
        found = line.get(f"{prefix}without noise")
        return (
            "" if found is None else f": {line[f'{prefix}coverage']:.2f}, without noise {found:.2f}"
        )

    held = sum(
        line[f"{prefix}flagged"] * (line[f"{prefix}flagged coverage"] or 0.0) for line in report
    )
    flagged = sum(line[f"{prefix}flagged"] for line in report)
    return {
        "intervals of": number,
        f"cover {MEAN_COVERAGE} or more without a reason": f"{len(plain) - len(low)} of {len(plain)} settings",
        "with a reason": f"{held / flagged:.3f} of {flagged:,}" if flagged else "-",
        "below": "; ".join(
            f"{line['table']} ({line['n_pub']}, {line['budget']}){own(line)}" for line in low
        )
        or "none",
    }


def targets(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return the targets of single coefficients in the report half, each met or not met."""
    plain = [
        line["lowest"]
        for line in lines
        if line["half"] == "report" and line["coverage"] is not None
    ]
    worst = sum(lowest < LEAST_COVERAGE for lowest in plain)
    return [f"A coefficient below {LEAST_COVERAGE}: in {worst} of {len(plain)} settings"]
