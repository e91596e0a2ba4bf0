"""`python -m benchmarks.accuracy.held_out`: means of the 150 held-out columns, one call for each column and setting.

*Ok* is the share of answers without a reason, *silent* that of those whose 95 % interval misses the mean of the column. The *width
ratio* is the width of an interval over that of noise and sampling alone, 3.92 hypot(noise_std, sampling_std); columns are *light*
(kurtosis below 6), *mid* or *heavy* (above 30). *Without privacy* is Student's interval of the same rows. Old and new code draw the
same rows and have the same random_state. Ratios of errors are geometric means; their standard errors take columns as independent.

`--bounds` measures 60 of the columns with the range of each as `bounds=`, or a range FACTOR times as wide about the same middle,
beside `weighted_mean` with the same bounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import contestants, held_out_columns, means
from benchmarks.accuracy.hindsight import Cell
from benchmarks.accuracy.keeping import Task, results
from benchmarks.accuracy.report import table
from benchmarks.accuracy.tables import Column

SIZES = (500, 1_500, 5_000)
BUDGETS = (("rho", 0.05), ("rho", 0.1), ("epsilon", 1.0))
PUBLIC_SIZES = (5, 60)
BOUNDS_PUBLIC_SIZES = (1, 5, 60)
BOUNDS_COLUMNS = 60
MOST_PROCESSES = 2
# Limits of the population's fourth moment over its squared variance, and the kinds of column between them.
KURTOSES = (6.0, 30.0)
KINDS = ("light", "mid", "heavy")
# Errors below this fraction of the sampling error are equal: a ratio to an error of zero is uninformative.
LEAST_ERROR = 1e-3
KEY = ("column", "n", "n_pub", "budget", "draw")

Lines = list[dict[str, Any]]


def kurtosis(values: np.ndarray) -> float:
    """Return the fourth central moment over the squared variance."""
    scaled = (values - values.mean()) / values.std()
    return float(np.mean(scaled**4))


def answers(result: Any, samples: Sequence[contestants.Sample]) -> Lines:
    """Return how a mean of one or several columns does, a line for each; the samples are those of the columns."""
    lines = []
    lower, upper = result.confidence_interval(0.95)
    plain = 3.92 * np.hypot(result.noise_std, result.sampling_std)
    for j, sample in enumerate(samples):
        truth = float(sample.population.mean())
        reasons = result.part_reasons[j]
        line = {
            "mean": float(result.mean[j]),
            "error": abs(float(result.mean[j]) - truth),
            "width": float(upper[j] - lower[j]),
            "plain_width": float(plain[j]),
            "covered": bool(lower[j] <= truth <= upper[j]),
            "plain_covered": means.student_covers(sample, truth),
            "ok": not reasons,
            "reasons": ", ".join(reasons),
        }
        lines.append(line)
    return lines


def answer(sample: contestants.Sample, **options: Any) -> dict[str, Any]:
    """Return how one call of estimate_mean does."""
    result = fpp.estimate_mean(
        sample.private, x_pub=sample.public, **options, **contestants.options(sample)
    )
    return answers(result, [sample])[0]


def bounded(sample: contestants.Sample, factor: float) -> dict[str, Any]:
    """Return how calls of estimate_mean and weighted_mean do with the same bounds."""
    low, high = contestants.true_range(sample)
    middle = (low + high) / 2.0
    half = factor * (high - low) / 2.0
    bounds = (middle - half, middle + half)
    peer: Any = contestants.weighted(sample, bounds)
    truth = float(sample.population.mean())
    return answer(sample, bounds=bounds) | {
        "peer_error": abs(peer.value - truth),
        "peer_width": peer.upper - peer.lower,
        "peer_covered": peer.lower <= truth <= peer.upper,
    }


def about(column: Column, cell: Cell, draw: int) -> dict[str, Any]:
    """Return what a line says about its column and setting."""
    return {
        "column": column.name,
        "kurtosis": kurtosis(column.values),
        "std": float(column.values.std()),
        "n": cell.n,
        "n_pub": cell.n_pub,
        "budget": f"{cell.notion} {cell.amount:g}",
        "draw": draw,
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let no call warn."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def measure(
    column: Column, cells: Sequence[Cell], draws: int, factor: float | None = None
) -> Lines:
    """Return a line for each cell and draw of a column; `factor` widens its range to bounds."""
    lines = []
    with quiet():
        for cell in cells:
            for draw, sample in enumerate(means.samples(column, cell, draws)):
                found = answer(sample) if factor is None else bounded(sample, factor)
                lines.append(about(column, cell, draw) | found)
    return lines


def measure_jointly(columns: Sequence[Column], cells: Sequence[Cell], draws: int) -> Lines:
    """Return a line for each cell, draw and column of calls about several columns, whose rows are independent."""
    lines = []
    with quiet():
        for cell in cells:
            drawn = zip(*(means.samples(column, cell, draws) for column in columns), strict=True)
            for draw, samples in enumerate(drawn):
                result = fpp.estimate_mean(
                    np.hstack([sample.private for sample in samples]),
                    x_pub=np.hstack([sample.public for sample in samples]),
                    **contestants.options(samples[0]),
                )
                for column, line in zip(columns, answers(result, samples), strict=True):
                    lines.append(about(column, cell, draw) | line)
    return lines


def run(draws: int = 1, factor: float | None = None, processes: int = 1) -> Lines:
    """Measure the held-out columns, or some of them with bounds."""
    columns = held_out_columns.columns("held out")
    cells = means.cells(SIZES, PUBLIC_SIZES, BUDGETS)
    if factor is not None:
        columns = columns[:BOUNDS_COLUMNS]
        cells = means.cells(SIZES, BOUNDS_PUBLIC_SIZES, BUDGETS)
    tasks = [Task(column.name, measure, (column, cells, draws, factor)) for column in columns]
    found = results(tasks, processes=min(processes, MOST_PROCESSES))
    return [line for own in found for line in own]


def kind(line: dict[str, Any]) -> str:
    """Return whether the column of a line has a light, a heavier or a heavy tail."""
    return KINDS[int(np.searchsorted(KURTOSES, line["kurtosis"], side="right"))]


def share(lines: Lines, of: Callable[[dict[str, Any]], bool]) -> float:
    """Return the share of the lines of which a statement is true; NaN without a line."""
    return float(np.mean([of(line) for line in lines])) if lines else math.nan


def coverage(lines: Lines) -> float:
    """Return the coverage of the intervals."""
    return share(lines, lambda line: line["covered"])


def silent(line: dict[str, Any]) -> bool:
    """Return whether an answer without a reason is missed by its interval."""
    return bool(line["ok"] and not line["covered"])


def finite(number: float | None) -> float:
    """Return the number, or infinity for what JSON has no word for."""
    return math.inf if number is None else number


def least_error(line: dict[str, Any]) -> float:
    """Return the error below which errors are equal."""
    return LEAST_ERROR * line["std"] / math.sqrt(line["n"])


def geometric(logs: Sequence[float], columns: Sequence[str]) -> tuple[float, float]:
    """Return the geometric mean of ratios, from their logarithms, and its standard error; columns are independent."""
    by_column: dict[str, list[float]] = {}
    for log, column in zip(logs, columns, strict=True):
        by_column.setdefault(column, []).append(log)
    centers = [float(np.mean(own)) for own in by_column.values()]
    mean = math.exp(float(np.mean(logs)))
    error = float(np.std(centers, ddof=1)) / math.sqrt(len(centers)) if len(centers) > 1 else 0.0
    return mean, mean * error


def error_ratio(new: Lines, old: Lines, key: str = "error") -> tuple[float, float]:
    """Return the geometric mean of new errors over old ones, line by line, and its standard error."""
    logs = []
    for line, before in zip(new, old, strict=True):
        least = least_error(line)
        logs.append(math.log(max(line["error"], least) / max(before[key], least)))
    return geometric(logs, [line["column"] for line in new])


def width_over(new: Lines, old: Lines, key: str = "width") -> np.ndarray:
    """Return new widths over old ones, line by line; NaN where both are infinite or zero."""
    widths = np.array([finite(line["width"]) for line in new])
    before = np.array([finite(line[key]) for line in old])
    with np.errstate(all="ignore"):
        return np.asarray(widths / before)


def middle_and_decile(ratios: np.ndarray) -> tuple[float, float]:
    """Return median and ninth decile of ratios, some of which may be infinite; NaN without a ratio."""
    known = ratios[~np.isnan(ratios)]
    if len(known) == 0:
        return math.nan, math.nan
    middle, decile = np.quantile(known, [0.5, 0.9], method="inverted_cdf")
    return float(middle), float(decile)


def together(new: Lines, old: Lines) -> tuple[Lines, Lines]:
    """Return the lines that both measurements have, in the same order."""
    before = {tuple(line[name] for name in KEY): line for line in old}
    kept = [line for line in new if tuple(line[name] for name in KEY) in before]
    return kept, [before[tuple(line[name] for name in KEY)] for line in kept]


def summary(lines: Lines) -> dict[str, float]:
    """Return coverage, shares of answers, and width ratios of columns with light tails."""
    ok = [line for line in lines if line["ok"]]
    light = [line for line in lines if kind(line) == "light"]
    middle, decile = middle_and_decile(width_over(light, light, "plain_width"))
    return {
        "coverage": coverage(lines),
        "of ok": coverage(ok),
        "ok": share(lines, lambda line: line["ok"]),
        "silent": share(lines, silent),
        "width ratio, light: median": middle,
        "d9": decile,
    }


def by_kind(lines: Lines) -> list[dict[str, Any]]:
    """Return a line for each kind of column, as `summary`."""
    rows = []
    for name in KINDS:
        own = [line for line in lines if kind(line) == name]
        middle, decile = middle_and_decile(width_over(own, own, "plain_width"))
        rows.append(
            {
                "columns": f"{name}, {len({line['column'] for line in own})}",
                "calls": len(own),
                "coverage": coverage(own),
                "of ok": coverage([line for line in own if line["ok"]]),
                "ok": share(own, lambda line: line["ok"]),
                "silent": share(own, silent),
                "width ratio: median": middle,
                "d9": decile,
                "coverage without privacy": share(own, lambda line: line["plain_covered"]),
            }
        )
    return rows


def both(old: float, new: float) -> str:
    """Return two numbers as text."""
    return f"{old:.3f} -> {new:.3f}"


def comparison(new: Lines, old: Lines) -> dict[str, Any]:
    """Return one line on new and old code: the two summaries, and ratios of widths and of errors."""
    new, old = together(new, old)
    before = summary(old)
    row: dict[str, Any] = {"calls": len(new)}
    row |= {name: both(before[name], number) for name, number in summary(new).items()}
    ratios = width_over(new, old)
    kinds = np.array([kind(line) for line in new])
    medians = [middle_and_decile(ratios[kinds == name])[0] for name in KINDS]
    row["width / before: light, mid, heavy"] = ", ".join(f"{median:.3f}" for median in medians)
    mean, error = error_ratio(new, old)
    row["error / before"] = f"{mean:.3f} +- {error:.3f}"
    return row


def bounds_rows(lines: Lines) -> list[dict[str, Any]]:
    """Return a line for each number of public rows: intervals and errors beside those of weighted_mean with the same bounds."""
    groups = {f"{n_pub}": (n_pub,) for n_pub in BOUNDS_PUBLIC_SIZES}
    groups |= {"5 or more": BOUNDS_PUBLIC_SIZES[1:], "all": BOUNDS_PUBLIC_SIZES}
    rows = []
    for name, sizes in groups.items():
        own = [line for line in lines if line["n_pub"] in sizes]
        if not own:
            continue
        middle, decile = middle_and_decile(width_over(own, own, "peer_width"))
        mean, error = error_ratio(own, own, "peer_error")
        rows.append(
            {
                "public rows": name,
                "calls": len(own),
                "width / weighted_mean: median": middle,
                "d9": decile,
                "error / weighted_mean": f"{mean:.3f} +- {error:.3f}",
                "coverage": coverage(own),
                "of weighted_mean": share(own, lambda line: line["peer_covered"]),
                "ok": share(own, lambda line: line["ok"]),
                "silent": share(own, silent),
            }
        )
    return rows


def read(path: Path) -> Lines:
    """Return the lines of a file that `--json` wrote."""
    found: Lines = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(path: Path, lines: Lines) -> None:
    """Write the lines, with null for an infinite width."""
    for line in lines:
        line["width"] = line["width"] if math.isfinite(finite(line["width"])) else None
    text = ",\n".join(json.dumps(line) for line in lines)
    path.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def main(given: Sequence[str] | None = None) -> None:
    """Measure, or read what was measured, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.held_out", description=__doc__
    )
    parser.add_argument("--draws", type=int, default=1, help="draws for each column and setting")
    parser.add_argument("--processes", type=int, default=1, help="at most 2")
    parser.add_argument(
        "--bounds",
        type=float,
        nargs="?",
        const=1.0,
        metavar="FACTOR",
        help="give the range of each column as bounds, FACTOR times as wide",
    )
    parser.add_argument("--json", type=Path, help="write every answer to this file")
    parser.add_argument("--read", type=Path, help="a file of --json in place of a measurement")
    parser.add_argument("--compare", type=Path, help="a file of --json of older code")
    options = parser.parse_args(given)
    if options.read is not None:
        lines = read(options.read)
    else:
        lines = run(options.draws, options.bounds, options.processes)
    if options.json is not None:
        write(options.json, lines)
    with_bounds = "peer_width" in lines[0]
    print(table(bounds_rows(lines) if with_bounds else by_kind(lines)))
    if options.compare is not None:
        older = read(options.compare)
        if with_bounds:
            print(f"\nBefore:\n\n{table(bounds_rows(older))}")
        print(f"\nBefore -> now:\n\n{table([comparison(lines, older)])}")
    elif not with_bounds:
        print(f"\n{table([{'calls': len(lines)} | summary(lines)])}")


if __name__ == "__main__":
    main()
