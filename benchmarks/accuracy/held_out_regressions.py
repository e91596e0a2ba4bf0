"""`python -m benchmarks.accuracy.held_out_regressions`: `linear_regression` and `logistic_regression` on held-out tables.

Of the tables of held_out_tables.json those are measured that have a label and two covariates by the rule of regression_points.py,
which explains the numbers. With `--old`, *excess / old* is the geometric mean ratio to fits of other code to the same rows with the
same random_state. `--read` reports on a file of fits instead, also on one of `python -m benchmarks.accuracy --estimator
regression_points --json FILE`, and so does `--old`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy import held_out_tables, regression_points, report
from benchmarks.accuracy.keeping import Task, results
from benchmarks.accuracy.regression_points import Lines

HALF = "held out"


def run(
    draws: int,
    processes: int = 1,
    losses: Sequence[str] = regression_points.LOSSES,
    tails: str = "any",
) -> Lines:
    """Measure the held-out tables."""
    chosen = [
        regression_points.population(name, HALF, rows)
        for name, rows in held_out_tables.held_out().items()
    ]
    tasks = [
        Task(one.name, regression_points.measure, (one, draws, losses, tails))
        for one in chosen
        if one is not None
    ]
    return [line for found in results(tasks, processes=processes) for line in found]


def stored(path: Path) -> Lines:
    """Return the fits of a file of either command."""
    found = json.loads(path.read_text(encoding="utf-8"))
    lines: Lines = found["regression_points"] if isinstance(found, dict) else found
    return lines


def main(given: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.held_out_regressions", description=__doc__
    )
    parser.add_argument("--draws", type=int, default=1, help="draws of each setting")
    parser.add_argument("--loss", choices=regression_points.LOSSES, help="only this loss")
    parser.add_argument("--tails", choices=regression_points.TAILS, default="any")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the fits to this file as well")
    parser.add_argument("--old", type=Path, help="file of --json of other code")
    parser.add_argument("--read", type=Path, help="file of --json to report on, for no measurement")
    options = parser.parse_args(given)
    losses = regression_points.LOSSES if options.loss is None else (options.loss,)
    if options.read is None:
        lines = run(options.draws, options.processes, losses, options.tails)
    else:
        lines = stored(options.read)
    if options.json is not None:
        options.json.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    old = [] if options.old is None else stored(options.old)
    print(report.regression_points_report(lines, old))


if __name__ == "__main__":
    main()
