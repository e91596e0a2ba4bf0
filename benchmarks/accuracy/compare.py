"""`python -m benchmarks.accuracy.compare OLD NEW`: errors and intervals of new code beside those of old code.

Both are files of `--json`, or folders with files of the same names, as `make accuracy-save` stores them. *Error* is the geometric
mean of new errors over old ones, over the cells that both have, *width* that of median widths; *worst* is the cell whose error has
grown most. *Of ok* is the coverage of 95 % intervals without a reason, *ok* the share of answers without one, *silent* the share of
answers without one whose interval misses. Quantiles store the coverage of all intervals together, whatever their reasons.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.regression_points import floored
from benchmarks.accuracy.report import table

CONTESTANT = "estimate_mean"
MOMENTS = ("mean", "standard_deviation", "covariance", "correlation")


@dataclass(frozen=True)
class Score:
    """Stored numbers of one cell, NaN where they are not known; `answers` and `ok` count answers, all and without a reason."""

    name: str
    error: float = math.nan
    width: float = math.nan
    answers: float = math.nan
    ok: float = math.nan
    ok_coverage: float = math.nan


def number(value: Any) -> float:
    """Return a stored number; NaN for null, or for the dash of a table."""
    return math.nan if value in (None, "-") else float(value)


def of_means(lines: list[dict[str, Any]]) -> Iterator[Score]:
    """Yield the cells of single columns."""
    for line in lines:
        score = line["contestants"][CONTESTANT]
        plain = score["reasons"].get("", {"answers": 0, "covered": 0})
        yield Score(
            f"{line['column']}, n = {line['n']}, {line['n_pub']} public, {line['budget']}",
            number(score["rmse"]),
            number(score["median_width"]),
            score["answers"],
            plain["answers"],
            plain["covered"] / plain["answers"] if plain["answers"] else math.nan,
        )


def of_gaussians(word: str) -> Callable[[list[dict[str, Any]]], Iterator[Score]]:
    """Return the reader of the errors of a mean or of a covariance, which have no interval there."""

    def read(lines: list[dict[str, Any]]) -> Iterator[Score]:
        for line in lines:
            ok = re.search(r"(\d+) ok", line["reasons"])
            yield Score(
                f"{line['problem']}, {line['budget']}",
                number(line[word]),
                answers=line["samples"],
                ok=float(ok[1]) if ok else 0.0,
            )

    return read


def of_moments(kind: str) -> Callable[[list[dict[str, Any]]], Iterator[Score]]:
    """Return the reader of the intervals of one kind of moments on raw tables."""

    def read(lines: list[dict[str, Any]]) -> Iterator[Score]:
        for line in lines:
            error = {"mean": line["mean error"], "covariance": line["error"]}.get(kind)
            yield Score(
                f"{line['table']}, {line['n_pub']} public, {line['budget']}",
                number(error),
                number(line[f"{kind} width"]),
                line[f"{kind} ok"] + line[f"{kind} flagged"],
                line[f"{kind} ok"],
                number(line[f"{kind} coverage"]),
            )

    return read


def of_coefficients(lines: list[dict[str, Any]]) -> Iterator[Score]:
    """Yield the settings of regressions; the error is the square root of the excess."""
    for line in lines:
        yield Score(
            f"{line['table']}, {line['n_pub']} public, {line['budget']}",
            math.sqrt(line["excess"]),
            number(line["width"]),
            line["ok"] + line["flagged"],
            line["ok"],
            number(line["coverage"]),
        )


def of_points(lines: list[dict[str, Any]]) -> Iterator[Score]:
    """Yield the fits of regressions; the error is the square root of the excess and of the sampling error."""
    for line in lines:
        if "excess" not in line:
            continue
        counts = line["intervals"]["population"]
        yield Score(
            f"{line['table']}, {line['tails']}, {line['n_pub']} public, {line['budget']}, draw {line['draw']}",
            math.sqrt(floored(line["excess"])),
            answers=counts["known"],
            ok=counts["ok"],
            ok_coverage=counts["ok held"] / counts["ok"] if counts["ok"] else math.nan,
        )


def of_groups(lines: list[dict[str, str]]) -> Iterator[Score]:
    """Yield the tables of groups."""
    for line in lines:
        groups = float(line["groups"])
        yield Score(
            f"{line['table']}, rho {line['rho']}",
            number(line["error"]),
            answers=groups,
            ok=groups * (1.0 - number(line["with a reason"])),
            ok_coverage=number(line["held, no reason"]),
        )


def of_quantiles(lines: list[dict[str, str]]) -> Iterator[Score]:
    """Yield the columns of quantiles; the error is that of ranks, with sampling."""
    for line in lines:
        yield Score(
            f"{line['column']}, {line['budget']}",
            number(line["total, largest"]),
            ok=1.0,
            ok_coverage=number(line["held"]),
        )


# What a file holds under a name -> what is told of it, and how it is read.
READERS: dict[str, dict[str, Callable[[Any], Iterator[Score]]]] = {
    "mean": {"means": of_means},
    "gaussian": {
        "Gaussians, mean": of_gaussians("mean"),
        "Gaussians, covariance": of_gaussians("covariance"),
    },
    "covariances": {f"raw tables, {kind}": of_moments(kind) for kind in MOMENTS},
    "coefficients": {"coefficients": of_coefficients},
    "regression_points": {"regressions": of_points},
    "groups": {"groups": of_groups},
    "quantiles": {"quantiles": of_quantiles},
}


def scores(path: Path) -> dict[str, dict[str, Score]]:
    """Return the cells of a file, or of the files of a folder, by what they are about and by their names."""
    found: dict[str, dict[str, Score]] = {}
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        parts = json.loads(file.read_text(encoding="utf-8"))
        if "rows" in parts:
            lines = [dict(zip(parts["columns"], row, strict=True)) for row in parts["rows"]]
            # The table of groups and that of quantiles have no name.
            parts = {"groups" if "groups" in parts["columns"] else "quantiles": lines}
        for part in READERS.keys() & parts.keys():
            for about, read in READERS[part].items():
                cells = found.setdefault(about, {})
                cells |= {score.name: score for score in read(parts[part])}
    return found


def coverage(cells: Sequence[Score]) -> float:
    """Return the coverage of the answers without a reason; NaN if it is not known."""
    known = [cell for cell in cells if cell.ok > 0.0 and not math.isnan(cell.ok_coverage)]
    if not known:
        return math.nan
    weights = [cell.ok for cell in known]
    return float(np.average([cell.ok_coverage for cell in known], weights=weights))


def ok_share(cells: Sequence[Score]) -> float:
    """Return the share of answers without a reason; NaN if it is not known."""
    return sum(cell.ok for cell in cells) / sum(cell.answers for cell in cells)


def silent_share(cells: Sequence[Score]) -> float:
    """Return the share of answers that have no reason and an interval that misses."""
    return ok_share(cells) * (1.0 - coverage(cells))


def logs(new: Sequence[Score], old: Sequence[Score], of: str) -> np.ndarray:
    """Return logarithms of new numbers over old ones; NaN where one of them is unknown, zero or infinite."""
    pairs = [
        (getattr(cell, of), getattr(before, of)) for cell, before in zip(new, old, strict=True)
    ]
    numbers = np.array(pairs)
    with np.errstate(all="ignore"):
        found = np.log(numbers[:, 0] / numbers[:, 1])
    return np.where(np.isfinite(found), found, math.nan)


def mean_ratio(ratios: np.ndarray) -> float:
    """Return the geometric mean of ratios from their logarithms; NaN without one."""
    known = ratios[~np.isnan(ratios)]
    return math.exp(float(known.mean())) if len(known) else math.nan


def both(old: float, new: float) -> str:
    """Return two numbers as text."""
    return "-" if math.isnan(old) and math.isnan(new) else f"{old:.4f} -> {new:.4f}"


def row(about: str, new: Sequence[Score], old: Sequence[Score]) -> dict[str, Any]:
    """Return the line of one kind of answers."""
    errors = logs(new, old, "error")
    worst = "-"
    if not np.isnan(errors).all():
        place = int(np.nanargmax(errors))
        worst = f"{math.exp(errors[place]):.3f}: {new[place].name}"
    return {
        "answers": about,
        "cells": len(new),
        "error": mean_ratio(errors),
        "worst": worst,
        "width": mean_ratio(logs(new, old, "width")),
        "of ok": both(coverage(old), coverage(new)),
        "ok": both(ok_share(old), ok_share(new)),
        "silent": both(silent_share(old), silent_share(new)),
    }


def compared(old: Path, new: Path) -> list[dict[str, Any]]:
    """Return the line of each kind of answers that both have."""
    before = scores(old)
    lines = []
    for about, cells in scores(new).items():
        names = [name for name in cells if name in before.get(about, {})]
        if names:
            pairs = [cells[name] for name in names], [before[about][name] for name in names]
            lines.append(row(about, *pairs))
    return lines


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.compare", description=__doc__
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(given)
    print(table(compared(options.old, options.new)))


if __name__ == "__main__":
    main()
