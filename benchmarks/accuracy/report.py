"""Summaries over the cells: targets met or not, and tables in Markdown, including the cells where peers are better."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.accuracy import (
    coefficients,
    covariances,
    gaussians,
    regression_points,
    regressions,
)

Cells = list[dict[str, Any]]
# Maximum ratio to the best radius in hindsight: median, ninth decile, and worst without a reason, n >= 2,000; median at n = 300.
MEDIAN, DECILE, WORST, SMALL_MEDIAN = 1.1, 1.5, 3.0, 1.3
COVERAGE, ONE_IN = 0.93, 30
OBVIOUS = 1.1  # maximum error over the better of two simple estimates
LARGE = 2_000


def grouped(cells: Cells, *keys: str) -> dict[tuple[Any, ...], Cells]:
    """Return the cells grouped by the values of some keys, in order of appearance."""
    found: dict[tuple[Any, ...], Cells] = defaultdict(list)
    for cell in cells:
        found[tuple(cell[key] for key in keys)].append(cell)
    return found


def ratios(cells: Cells, name: str, key: str = "ratio") -> np.ndarray:
    """Return one contestant's ratios to the best radius, over the cells where it has one."""
    found = [cell["contestants"][name].get(key) for cell in cells if name in cell["contestants"]]
    return np.array([value for value in found if value is not None])


def coverage(cells: Cells, name: str) -> float:
    """Return the coverage of the intervals without a reason; NaN if there are none."""
    scores = [cell["contestants"][name] for cell in cells if name in cell["contestants"]]
    plain = sum(score["plain"] for score in scores if "covered_plain" in score)
    covered = sum(score.get("covered_plain", 0) for score in scores)
    return covered / plain if plain else math.nan


def flagged(cells: Cells, name: str) -> float:
    """Return the fraction of the answers with a reason."""
    scores = [cell["contestants"][name] for cell in cells if name in cell["contestants"]]
    total = sum(score["answers"] for score in scores)
    return 1.0 - sum(score["plain"] for score in scores) / total if total else math.nan


def settings(cells: Cells, name: str = "estimate_mean") -> list[dict[str, Any]]:
    """Return one line for each budget, n and number of public rows: ratios over the columns, and coverage."""
    lines = []
    for (budget, n, n_pub), group in grouped(cells, "budget", "n", "n_pub").items():
        all_ratios = ratios(group, name)
        plain = ratios(group, name, "plain_ratio")
        if len(all_ratios) == 0:
            continue
        median, decile, most = np.quantile(all_ratios, [0.5, 0.9, 1.0])
        worst = float(plain.max()) if len(plain) else math.nan
        met = (
            median <= SMALL_MEDIAN
            if n < LARGE
            else median <= MEDIAN and decile <= DECILE and not worst > WORST
        )
        lines.append(
            {
                "budget": budget,
                "n": n,
                "n_pub": n_pub,
                "median": float(median),
                "decile": float(decile),
                "most": float(most),
                "worst_plain": worst,
                "coverage": coverage(group, name),
                "flagged": flagged(group, name),
                "student": float(np.mean([cell["student_coverage"] for cell in group])),
                "met": bool(met),
            }
        )
    return lines


def by_reason(cells: Cells, name: str = "estimate_mean") -> list[dict[str, Any]]:
    """Return one line for each n and reason: how often it was given, and coverage and ratios to the best radius with it."""
    lines = []
    for (n,), group in grouped(cells, "n").items():
        scores = [
            (cell, cell["contestants"][name]) for cell in group if name in cell["contestants"]
        ]
        total = sum(score["answers"] for _, score in scores)
        for word in sorted({word for _, score in scores for word in score["reasons"]}):
            mine = [
                (cell, score["reasons"][word]) for cell, score in scores if word in score["reasons"]
            ]
            count = sum(part["answers"] for _, part in mine)
            found = [
                part["rmse"] / cell["best_radius"]
                for cell, part in mine
                if cell["best_radius"] > 0.0
            ]
            lines.append(
                {
                    "n": n,
                    "reason": word or "none",
                    "share": count / total,
                    "coverage": sum(part["covered"] for _, part in mine) / count,
                    "median": float(np.median(found)),
                    "most": float(max(found)),
                }
            )
    return lines


def by_column(
    cells: Cells, name: str = "estimate_mean", *, least: int = LARGE
) -> list[dict[str, Any]]:
    """Return one line for each column over the settings with at least `least` rows, worst coverage first."""
    lines = []
    for (column,), group in grouped(
        [cell for cell in cells if cell["n"] >= least], "column"
    ).items():
        found = ratios(group, name)
        if len(found):
            lines.append(
                {
                    "column": column,
                    "half": group[0]["half"],
                    "median": float(np.median(found)),
                    "most": float(found.max()),
                    "coverage": coverage(group, name),
                    "flagged": flagged(group, name),
                    "student": float(np.mean([cell["student_coverage"] for cell in group])),
                }
            )
    return sorted(lines, key=lambda line: (math.isnan(line["coverage"]), line["coverage"]))


def targets(cells: Cells, name: str = "estimate_mean") -> list[str]:
    """Return the targets, met or not met, in sentences with numbers."""
    told = []
    for large, asked in ((True, "n >= 2,000"), (False, "n = 300")):
        lines = [line for line in settings(cells, name) if (line["n"] >= LARGE) == large]
        if lines:
            met = sum(line["met"] for line in lines)
            told.append(f"{asked}: {met} of {len(lines)} settings met")
    columns = [line for line in by_column(cells, name) if not math.isnan(line["coverage"])]
    low = [line["column"] for line in columns if line["coverage"] < COVERAGE]
    allowed = max(1, len(columns) // ONE_IN)
    word = "met" if len(low) <= allowed else "not met"
    if columns:
        told.append(
            f"coverage >= {COVERAGE}: {len(columns) - len(low)} of {len(columns)} columns ({word}); below: {low}"
        )
    return told


def peers(cells: Cells) -> list[dict[str, Any]]:
    """Return every contestant over all cells of each n: median and ninth decile of the ratio, and how often it beats ours."""
    names = dict.fromkeys(name for cell in cells for name in cell["contestants"])
    lines = []
    for (n,), group in grouped(cells, "n").items():
        for name in names:
            found = ratios(group, name)
            if len(found) == 0:
                continue
            both = [
                (cell["contestants"]["estimate_mean"]["rmse"], cell["contestants"][name]["rmse"])
                for cell in group
                if name in cell["contestants"] and "estimate_mean" in cell["contestants"]
            ]
            lines.append(
                {
                    "n": n,
                    "contestant": name,
                    "cells": len(found),
                    "median": float(np.median(found)),
                    "decile": float(np.quantile(found, 0.9)),
                    "most": float(found.max()),
                    "coverage": coverage(group, name),
                    "closer_than_ours": sum(other < ours for ours, other in both) / len(both)
                    if both
                    else math.nan,
                }
            )
        public = np.array(
            [cell["public"] / cell["best_radius"] for cell in group if cell["best_radius"] > 0.0]
        )
        plain = np.array(
            [
                cell["non_private"] / cell["best_radius"]
                for cell in group
                if cell["best_radius"] > 0.0
            ]
        )
        for name, found in (("public rows alone", public), ("no privacy at all", plain)):
            lines.append(
                {
                    "n": n,
                    "contestant": name,
                    "cells": len(found),
                    "median": float(np.median(found)),
                    "decile": float(np.quantile(found, 0.9)),
                    "most": float(found.max()),
                    "coverage": math.nan,
                    "closer_than_ours": math.nan,
                }
            )
    return lines


def table(lines: Iterable[dict[str, Any]]) -> str:
    """Return lines as a Markdown table."""
    rows = list(lines)
    if not rows:
        return ""
    head = list(rows[0])
    text = [head, ["---"] * len(head), *[[_shown(row[key]) for key in head] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in text)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def mean_report(cells: Cells) -> str:
    """Return the Markdown page of the means."""
    parts = ["## Means of real columns", ""]
    parts += [f"- {sentence}" for sentence in targets(cells)]
    parts += [
        "",
        "RMSE over that of the best radius in hindsight, over the columns (estimate_mean):",
        "",
    ]
    parts += [table(settings(cells)), "", "By column, n >= 2,000:", "", table(by_column(cells))]
    parts += ["", "By reason (ratio of the answers that have it):", "", table(by_reason(cells))]
    parts += ["", "All contestants:", "", table(peers(cells))]
    return "\n".join(parts) + "\n"


def mean_table(cells: Cells) -> str:
    """Return all contestants in a few columns: median and ninth decile of the error over that of the best radius, and coverage."""
    sizes = sorted({cell["n"] for cell in cells})
    found = {(line["contestant"], line["n"]): line for line in peers(cells)}
    lines = []
    for name in dict.fromkeys(name for name, _ in found):
        line: dict[str, Any] = {"": name}
        for n in sizes:
            part = found[name, n]
            line[f"n = {n:,}"] = f"{part['median']:.2f} / {_shown(float(part['decile']))}"
        many = [cell for cell in cells if cell["n"] >= LARGE]
        covered = coverage(many, name)
        line["coverage"] = "-" if math.isnan(covered) else f"{covered:.1%}"
        lines.append(line)
    columns = len(grouped(cells, "column"))
    asked = len(grouped(cells, "n", "n_pub", "budget"))
    budgets = " and ".join(dict.fromkeys(str(cell["budget"]) for cell in cells))
    public = ", ".join(dict.fromkeys(str(cell["n_pub"]) for cell in cells))
    counts = {
        name: max(
            cell["contestants"][name]["answers"] for cell in cells if name in cell["contestants"]
        )
        for cell in cells
        for name in cell["contestants"]
    }
    most = max(counts.values())
    fewest = min(counts.values())
    # A root mean square of few errors is biased downward: noted where others have fewer resamples than ours.
    fewer = f", {fewest} of the others (which flatters their medians)" if fewest < most else ""
    low = [
        f"{line['column']} {line['coverage']:.1%}"
        for line in by_column(cells)
        if not math.isnan(line["coverage"]) and line["coverage"] < COVERAGE
    ]
    return (
        f"Root mean squared error over that of the best clip radius in hindsight: median / ninth decile over {columns} columns and "
        f"{asked}\nsettings ({budgets}; {public} public rows), {most} samples each{fewer}.\n"
        f"Coverage of the 95 % interval at n >= {LARGE:,}, where no reason says otherwise; estimate_mean below {COVERAGE:.0%}: "
        f"{', '.join(low) or 'none'}.\nPeers that take a range get the true one, or that of the public rows.\n\n"
        f"{table(lines)}"
    )


def gaussian_report(lines: list[dict[str, Any]]) -> str:
    """Return the Markdown page of the Gaussians."""
    told = "\n".join(f"- {sentence}" for sentence in gaussians.targets(lines))
    return f"## Gaussians\n\n{told}\n\nMedians of relative covariance and Mahalanobis mean errors:\n\n{table(lines)}\n"


def regression_report(lines: list[dict[str, Any]]) -> str:
    """Return the Markdown page of the regressions."""
    told = "\n".join(f"- {sentence}" for sentence in regressions.targets(lines))
    return (
        f"## Regressions\n\n{told}\n\nMean squared error on rows to judge by, over the variance of their labels; medians over "
        f"cuts of each table:\n\n{table(lines)}\n"
    )


def regressions_table(lines: list[dict[str, Any]]) -> str:
    """Return errors of each method and peer, by table."""
    names = {"visits": "visits to a doctor", "flights": "arrival delay of flights"}
    order = list(dict.fromkeys(cell.table for cell in regressions.CELLS))
    shown = []
    for line in sorted(
        lines, key=lambda line: (order.index(line["table"]), line["n_pub"], line["epsilon"])
    ):
        errors = {
            '"newton"': "newton",
            '"auto"': "auto",
            "public rows alone": "public",
            "AdaSSP": "AdaSSP",
            "diffprivlib": "diffprivlib",
            "Opacus, best on test": regressions.OPACUS,
            "no privacy": "non-private",
        }
        shown.append(
            {
                "table": names.get(line["table"], line["table"]),
                "rows": line["rows"],
                "public": line["n_pub"],
                "epsilon": line["epsilon"],
                "cuts (of Opacus)": f"{line['cuts']} ({line['Opacus cuts']})",
                **{title: _error(line.get(name)) for title, name in errors.items()},
            }
        )
    return "\n\n".join(
        [table(shown), " ".join(f"{sentence}." for sentence in regressions.targets(lines))]
    )


def coefficient_report(lines: list[dict[str, Any]]) -> str:
    """Return the Markdown page of the coefficients."""
    return f"## Coefficients\n\n{coefficients_table(lines)}\n"


def coefficients_table(lines: list[dict[str, Any]]) -> str:
    """Return coverage, width and excess of each setting, and the targets."""
    shown = [
        {
            "table": line["table"],
            "half": line["half"],
            "public": line["n_pub"],
            "budget": line["budget"],
            "terms": line["terms"],
            "coverage / lowest": _both(line["coverage"], line["lowest"]),
            "with a reason: share / coverage": _both(
                line["flagged"] / (line["ok"] + line["flagged"]), line["flagged coverage"]
            ),
            "width over sampling": line["width"],
            "excess": line["excess"],
            "public rows alone": line["public excess"],
        }
        for line in sorted(lines, key=lambda line: line["half"] != "report")
    ]
    rows = [coefficients.coverage_row(lines, "coefficients")]
    return "\n\n".join(
        [table(shown), table(rows), *(f"{sentence}." for sentence in coefficients.targets(lines))]
    )


def regression_points_report(
    lines: list[dict[str, Any]], old: list[dict[str, Any]] | None = None
) -> str:
    """Return the Markdown page of points of regressions, beside those of other code if given."""
    rows = regression_points.rows_of(lines, old or [])
    parts = [
        "## Points of regressions",
        table(rows),
        "\n".join(f"- {sentence}" for sentence in regression_points.targets(rows)),
        table(regression_points.reasons_of(lines)),
        table(regression_points.tables_of(lines)),
    ]
    return "\n\n".join(parts) + "\n"


def covariance_report(lines: list[dict[str, Any]]) -> str:
    """Return the Markdown page of intervals of Gaussians."""
    return f"## Intervals of Gaussians\n\n{covariances_table(lines)}\n"


def covariances_table(lines: list[dict[str, Any]]) -> str:
    """Return coverage without and with a reason, and width over that of sampling alone, by parameter."""
    shown = []
    for line in sorted(lines, key=lambda line: line["half"] != "report"):
        row: dict[str, Any] = {
            "table": line["table"],
            "half": line["half"],
            "public": line["n_pub"],
            "budget": line["budget"],
            "error (predicted)": f"{line['error']:.3g} ({line['predicted']:.3g}{', guess' if line['guess'] > 0.5 else ''})",
            "variance": f"{line['least variance']:.2f} to {line['most variance']:.2f}",
        }
        for kind in covariances.KINDS:
            covered = _both(line[f"{kind} coverage"], line[f"{kind} flagged coverage"])
            width = line[f"{kind} width"]
            own = line.get(f"{kind} without noise")
            row[kind.replace("_", " ")] = (
                "-"
                if width is None
                else f"{covered}, {width:.1f}" + (f", {own:.2f}" if own is not None else "")
            )
        shown.append(row | {"reasons": line["reasons"]})
    rows = [
        coefficients.coverage_row(lines, f"{kind.replace('_', ' ')}s", f"{kind} ")
        for kind in covariances.KINDS
    ]
    return "\n\n".join(
        [table(shown), table(rows), *(f"{sentence}." for sentence in covariances.targets(lines))]
    )


def direction_report(lines: list[dict[str, Any]]) -> str:
    """Return the Markdown page of intervals of principal directions."""
    return f"## Intervals of principal directions\n\n{directions_table(lines)}\n"


def directions_table(lines: list[dict[str, Any]]) -> str:
    """Return coverage without and with a reason, and width over that of sampling alone, by table and budget."""
    shown = [
        {
            "table": line["table"],
            "half": line["half"],
            "public": line["n_pub"],
            "budget": line["budget"],
            "without a reason": line["ok"],
            "with": line["flagged"],
            "coverage": _both(line["coverage"], line["flagged coverage"]),
            "without noise": "-"
            if line.get("without noise") is None
            else f"{line['without noise']:.2f}",
            "width over sampling": "-" if line["width"] is None else f"{line['width']:.1f}",
        }
        for line in sorted(lines, key=lambda line: line["half"] != "report")
    ]
    return "\n\n".join(
        [table(shown), table([coefficients.coverage_row(lines, "mean squares along directions")])]
    )


def _both(one: float | None, other: float | None) -> str:
    return " / ".join("-" if value is None else f"{value:.2f}" for value in (one, other))


def _error(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return (
        f"{value:.3f}"
        if value < 1.0
        else f"{value:.3g}"
        if value < 1000.0
        else f"over 1e{math.floor(math.log10(value))}"
    )


def mixture_report(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the Markdown page of the mixtures."""
    return (
        "## Mixtures\n\nMedian l2 error of a component's mean, in standard deviations of a column:\n\n"
        f"{table(found['separated'])}\n\nAxis-aligned mixtures of columns that are counts:\n\n{table(found['counts'])}\n\n"
        "Axis-aligned mixtures of real tables, distance of distribution functions, averaged over the columns:\n\n"
        f"{table(found['tables'])}\n\n"
        f"{_held_out(found['groups'])}\n"
    )


def _held_out(lines: list[dict[str, Any]]) -> str:
    """Return how separated mixtures describe rows of real tables that they were not fitted to."""
    return (
        "Separated mixtures of real tables, held-out log-likelihood in nats a row over scikit-learn's mixture of the public rows,\n"
        f"medians of at most 40 draws, and adjusted Rand indices:\n\n{table(lines)}"
    )


def _spread(values: Iterable[float]) -> str:
    """Return median, ninth decile and maximum of ratios."""
    found = np.array(list(values))
    return " / ".join(f"{value:.2f}" for value in np.quantile(found, [0.5, 0.9, 1.0]))


def _with_error(line: dict[str, Any], word: str) -> str:
    """Return a ratio and its standard error as text."""
    return f"{line[f'{word} ratio']:.2f} +- {line[f'{word} ratio, standard error']:.2f}"


def gaussians_table(lines: list[dict[str, Any]]) -> str:
    """Return ratios to the better of two simple estimates by kind of problem and budget, and every case above the limit."""
    text = []
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[gaussians.kind_of(line), line["budget"]].append(line)
    for (kind, budget), group in groups.items():
        text.append(
            {
                "": f"{kind}, {budget}",
                "cases": len(group),
                "covariance": _spread(line["covariance ratio"] for line in group),
                "mean": _spread(line["mean ratio"] for line in group),
                "covariance error, ours": float(np.median([line["covariance"] for line in group])),
                "public rows": float(np.median([line["public covariance"] for line in group])),
                "paper's method": float(np.median([line["paper covariance"] for line in group])),
            }
        )
    told = [
        f"{len(lines)} cases: ten tables and ten Gaussians, {', '.join(dict.fromkeys(line['budget'] for line in lines))}; "
        f"{max(line['samples'] for line in lines)} samples each."
    ]
    for word in ("covariance", "mean"):
        above = sorted(
            (line for line in lines if line[f"{word} ratio"] > OBVIOUS),
            key=lambda line: -line[f"{word} ratio"],
        )
        named = "; ".join(
            f"{line['problem']}, {line['budget']}: {_with_error(line, word)}" for line in above
        )
        worst = max(lines, key=lambda line: line[f"{word} ratio"])
        told.append(
            f"Error of the {word} above {OBVIOUS} times the better in {len(above)} of them: {named or 'none'}. "
            f"The largest ratio, with its standard error: {_with_error(worst, word)}."
        )
    # If every answer has a reason, the number without one is NaN, or null in a file of JSON.
    loud = np.nanmax([line["worst silent covariance"] or 0.0 for line in lines])
    told.append(f"Largest relative covariance error without a reason: {loud:.2f}.")
    return (
        "Median error over that of the better of the public rows alone and the paper's method: median / ninth decile / worst of\n"
        "the cases.\n\n" + table(text) + "\n\n" + "\n".join(told)
    )


def mixtures_table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return errors of separated components with those of the public rows, and mixtures fitted to columns that are not mixtures."""
    names = {
        "mixture": "separated components",
        "ours": "ours",
        "public": "public rows",
        "non-private": "no privacy",
    }
    lines = [{shown: line[name] for name, shown in names.items()} for line in found["separated"]]
    both = found["counts"] + found["tables"]
    return (
        "Median error of a component's mean, in standard deviations of a column:\n\n"
        f"{table(lines)}\n\n"
        f"Means without a reason are off by at most {max(line['worst silent'] for line in found['separated']):.2f} deviations. "
        f"Axis-aligned mixtures of {len(found['tables'])} real tables:\n"
        "distance of distribution functions over that of a fit to the public rows, median / ninth decile / worst "
        f"{_spread(line['ratio to public'] for line in found['tables'])}.\n"
        f"Absurd components without a reason, on them and on {len(found['counts'])} columns of counts: "
        f"{sum(line['absurd and ok'] for line in both)}.\n\n{_held_out(found['groups'])}"
    )
