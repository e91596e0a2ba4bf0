"""`python -m benchmarks.accuracy.held_out_covariances`: `estimate_gaussian` on held-out tables, a call for each setting.

Rows are drawn with replacement, so that the table is the population. *Error* is that of the covariance in the Frobenius norm after
whitening by the true one, as a ratio to the public rows' own covariance and, with `--old`, to that of other code on the same rows
with the same random_state. *Worse* counts answers over 1.3 times worse than the public rows' covariance that do not say
"unreliable". *Held* is the share of 95 % intervals of means, deviations and correlations that hold the truth; *absent* the share of
parts without an interval.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import held_out_tables
from benchmarks.accuracy.coefficients import BUDGETS
from benchmarks.accuracy.gaussians import covariance_error
from benchmarks.accuracy.keeping import Task, results
from benchmarks.accuracy.report import table
from benchmarks.accuracy.scores import geometric, interval_counts

SIZES = (500, 5_000)
PUBLIC_SIZES = (5, 20, 200)
CHOSEN_BUDGETS = ("rho 0.05", "rho 0.5", "(1, 1e-6)")
KINDS = ("mean", "standard_deviation", "correlation")
MUCH_WORSE = 1.3
KEY = ("table", "n", "n_pub", "budget", "draw")

Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Setting:
    """Numbers of private and of public rows, and a budget."""

    n: int
    n_pub: int
    budget: str


def intervals(result: Any, truth: dict[str, np.ndarray]) -> dict[str, dict[str, int]]:
    """Return the counts of the intervals of each kind."""
    ok = np.array([not own for own in result.part_reasons])
    found = {}
    for kind in KINDS:
        true = truth[kind]
        lower, upper = result.confidence_interval(0.95, of=kind)
        plain = ok
        if true.ndim == 2:
            places = np.triu_indices(len(true), 1)
            true, lower, upper = true[places], lower[places], upper[places]
            plain = ok[places[0]] & ok[places[1]]
        found[kind] = interval_counts(true, (lower, upper), plain)
    return found


def answer(name: str, rows: np.ndarray, setting: Setting, draw: int) -> dict[str, Any]:
    """Return how one call does."""
    covariance = np.cov(rows.T, ddof=0)
    scale = np.sqrt(np.diag(covariance))
    truth = {
        "mean": rows.mean(axis=0),
        "standard_deviation": scale,
        "correlation": covariance / np.outer(scale, scale),
    }
    rng = np.random.default_rng([zlib.crc32(name.encode()), setting.n, setting.n_pub, draw])
    drawn = rows[rng.integers(0, len(rows), setting.n + setting.n_pub)]
    public = drawn[: setting.n_pub].copy()
    line: dict[str, Any] = {
        "table": name,
        "dim": rows.shape[1],
        "n": setting.n,
        "n_pub": setting.n_pub,
        "budget": setting.budget,
        "draw": draw,
        "public error": covariance_error(covariance, np.cov(public.T, ddof=1)),
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result: Any = fpp.estimate_gaussian(
                np.ascontiguousarray(drawn[setting.n_pub :]),
                x_pub=public,
                budget=BUDGETS[setting.budget],
                random_state=draw,
                threads=1,
                progress=False,
            )
        except fpp.FastPubPrivError as error:
            return line | {"refused": type(error).__name__}
    words = {str(reason) for own in (result.reasons, *result.part_reasons) for reason in own}
    return line | {
        "error": covariance_error(covariance, result.covariance),
        "predicted": float(result.predicted_covariance_error),
        "structure": result.structure,
        "status": str(result.status),
        "reasons": ", ".join(sorted(words)),
        "intervals": intervals(result, truth),
    }


def measure(name: str, rows: np.ndarray, draws: int) -> Lines:
    """Return a line for each setting and draw of a table."""
    settings = [
        Setting(n, n_pub, budget)
        for n in SIZES
        for n_pub in PUBLIC_SIZES
        for budget in CHOSEN_BUDGETS
    ]
    return [answer(name, rows, each, draw) for each in settings for draw in range(draws)]


def much_worse(line: dict[str, Any]) -> bool:
    """Return whether an answer that is not unreliable is much worse than the covariance of the public rows."""
    return line["error"] > MUCH_WORSE * line["public error"] and line["status"] != "unreliable"


def share(lines: Lines, word: str, of: str) -> float:
    """Return the share of the parts counted as `of` that are counted as `word`, over all kinds of intervals."""
    counts = [own for line in lines for own in line["intervals"].values()]
    total = sum(own[of] for own in counts)
    return sum(own[word] for own in counts) / total if total else math.nan


def row(name: str, lines: Lines, old: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """Return the row of some answers."""
    given = [line for line in lines if "error" in line]
    pairs = [
        (line, old[key]) for line in given if (key := tuple(line[part] for part in KEY)) in old
    ]
    ratios = [line["error"] / before["error"] for line, before in pairs if "error" in before]
    near = [0.5 <= line["predicted"] / line["error"] <= 2.0 for line in given]
    return {
        "rows, public rows": name,
        "answers": len(given),
        "error / public": geometric(line["error"] / line["public error"] for line in given),
        "error / old": geometric(ratios),
        "predicted within 2": float(np.mean(near)),
        "held, ok": share(given, "ok held", "ok"),
        "held": share(given, "held", "known"),
        "ok": share(given, "ok", "known"),
        "absent": 1.0 - share(given, "known", "parts"),
        "worse": sum(map(much_worse, given)),
    }


def report(lines: Lines, old: Lines) -> str:
    """Return the table of all answers by rows and public rows."""
    before = {tuple(line[part] for part in KEY): line for line in old}
    body = [
        row(
            f"{n:,}, {n_pub}",
            [line for line in lines if (line["n"], line["n_pub"]) == (n, n_pub)],
            before,
        )
        for n in SIZES
        for n_pub in PUBLIC_SIZES
    ]
    return table([*body, row("all", lines, before)])


def run(draws: int, processes: int, measured: Callable[..., Lines] = measure) -> Lines:
    """Measure the held-out tables."""
    tasks = [
        Task(name, measured, (name, rows, draws))
        for name, rows in held_out_tables.held_out().items()
    ]
    return [line for own in results(tasks, processes=processes) for line in own]


def main(given: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1, help="draws of each setting")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the answers to this file as well")
    parser.add_argument("--old", type=Path, help="file of --json of other code")
    options = parser.parse_args(given)
    lines = run(options.draws, options.processes)
    if options.json is not None:
        options.json.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    old = json.loads(options.old.read_text(encoding="utf-8")) if options.old is not None else []
    print(report(lines, old))


if __name__ == "__main__":
    main()
