"""`python -m benchmarks.accuracy` measures the errors of every estimator on real tables, as JSON and as Markdown tables."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from benchmarks import readme
from benchmarks.accuracy import (
    coefficients,
    covariances,
    gaussians,
    means,
    mixtures,
    regression_points,
    regressions,
    report,
    tables,
)
from benchmarks.accuracy.contestants import OURS, PEERS


def run_means(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the means of the requested columns, in all cells."""
    chosen = tables.columns(None if options.half == "both" else options.half, tables=options.table)
    grid = means.cells()
    if options.quick:
        chosen = chosen[::4]
        grid = means.cells((300, 2_000), (1, 50), (("rho", 0.5), ("epsilon", 1.0)))
    names = {"default": ("estimate_mean",), "ours": tuple(OURS), "all": (*OURS, *PEERS)}[
        options.contestants
    ]
    resamples = options.resamples or (20 if options.quick else 200)
    return means.run(
        chosen,
        grid,
        resamples=resamples,
        names=names,
        processes=options.processes,
        keep=options.keep,
    )


def run_gaussians(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure Gaussians of several columns."""
    resamples = options.resamples or (3 if options.quick else 20)
    return gaussians.run(
        options.quick, resamples=resamples, processes=options.processes, keep=options.keep
    )


def run_mixtures(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Measure separated mixtures, and columns of counts."""
    resamples = options.resamples or (2 if options.quick else 10)
    return mixtures.run(
        options.quick, resamples=resamples, processes=options.processes, keep=options.keep
    )


def run_regressions(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure regressions of real tables."""
    return regressions.run(
        options.quick,
        seeds=options.resamples or (3 if options.quick else 20),
        wanted=options.regression or (),
        opacus_cuts=options.opacus_cuts,
    )


def _raw_options(options: argparse.Namespace, budgets: Any) -> dict[str, Any]:
    """Return the options shared by the two measurements of intervals on raw tables."""
    return {
        "draws": options.draws or (2 if options.quick else 8),
        "half": None if options.half == "both" else options.half,
        "wanted": options.raw or (),
        "budgets": options.budget or budgets,
        "processes": options.processes,
        "keep": options.keep,
    }


def run_coefficients(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure intervals of coefficients on raw tables."""
    return coefficients.run(options.quick, **_raw_options(options, coefficients.DEFAULT_BUDGETS))


def run_regression_points(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure points, predictions and reasons of least squares on the benchmark's tables."""
    given = _raw_options(options, regression_points.DEFAULT_BUDGETS)
    return regression_points.run(options.quick, tails=options.tails, **given)


def run_covariances(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure intervals of Gaussians on raw tables."""
    return covariances.run(options.quick, **_raw_options(options, covariances.DEFAULT_BUDGETS))


def run_directions(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run intervals of principal directions on raw tables."""
    given = _raw_options(options, covariances.DEFAULT_BUDGETS)
    return covariances.run(options.quick, measure=covariances.run_directions, **given)


def strict(value: Any) -> Any:
    """Replace numbers that are not finite by None, as JSON has no infinities."""
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def together(paths: list[Path]) -> dict[str, Any]:
    """Merge result files; the first file with a contestant wins, as ours may have more resamples than peers."""
    found: dict[str, Any] = {}
    for path in reversed(paths):
        for name, cells in json.loads(path.read_text(encoding="utf-8")).items():
            older = found.get(name, [])
            found[name] = cells
            if name == "regression":
                # In JSON, null stands for a peer that was not measured.
                cells = [
                    {key: math.nan if item is None else item for key, item in cell.items()}
                    for cell in cells
                ]
                known = {(cell["table"], cell["n_pub"], cell["epsilon"]) for cell in cells}
                found[name] = cells + [
                    cell
                    for cell in older
                    if (cell["table"], cell["n_pub"], cell["epsilon"]) not in known
                ]
            if name == "mean":
                places = {
                    tuple(cell[key] for key in ("column", "n", "n_pub", "budget")): cell
                    for cell in older
                }
                for cell in cells:
                    same = places.get(
                        tuple(cell[key] for key in ("column", "n", "n_pub", "budget"))
                    )
                    if same is not None:
                        cell["contestants"] = {
                            **cell["contestants"],
                            **{
                                other: score
                                for other, score in same["contestants"].items()
                                if other not in cell["contestants"]
                            },
                        }
    return found


ESTIMATORS = {
    "mean": (run_means, report.mean_report),
    "gaussian": (run_gaussians, report.gaussian_report),
    "mixture": (run_mixtures, report.mixture_report),
    "regression": (run_regressions, report.regression_report),
    "coefficients": (run_coefficients, report.coefficient_report),
    "regression_points": (run_regression_points, report.regression_points_report),
    "covariances": (run_covariances, report.covariance_report),
    "directions": (run_directions, report.direction_report),
}
# Further measurements of an estimator: intervals on raw tables.
INCLUDED = {
    "coefficients": "regression",
    "regression_points": "regression",
    "covariances": "gaussian",
    "directions": "gaussian",
}
# Marks in docs/evidence/accuracy.md, and the tables between them.
PARTS = {
    "mean": ("accuracy", report.mean_table),
    "gaussian": ("gaussians", report.gaussians_table),
    "mixture": ("mixtures", report.mixtures_table),
    "regression": ("regressions", report.regressions_table),
    "coefficients": ("coefficients", report.coefficients_table),
    "covariances": ("covariances", report.covariances_table),
    "directions": ("directions", report.directions_table),
}


def main() -> None:
    """Run the requested measurements, print the Markdown page, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--estimator", choices=[*ESTIMATORS, "all"], default="all")
    parser.add_argument("--quick", action="store_true", help="few columns, cells and resamples")
    parser.add_argument("--half", choices=["tuning", "report", "both"], default="both")
    parser.add_argument(
        "--table",
        action="append",
        choices=list(tables.COLUMNS),
        help="only this table; may be repeated",
    )
    parser.add_argument(
        "--regression",
        action="append",
        choices=sorted({cell.table for cell in regressions.CELLS}),
        help="only regressions of this table; may be repeated",
    )
    parser.add_argument(
        "--raw",
        action="append",
        choices=list(
            dict.fromkeys(
                [
                    *tables.REGRESSIONS,
                    *tables.RAW_TABLES,
                    *tables.JOINT_TABLES,
                    *covariances.MADE_UP,
                ]
            )
        ),
        help="only this raw table, of coefficients, regression_points or covariances; may be repeated",
    )
    parser.add_argument(
        "--draws",
        type=int,
        help="draws for each setting of coefficients, regression_points and covariances (8)",
    )
    parser.add_argument(
        "--budget",
        action="append",
        choices=list(coefficients.BUDGETS),
        help="of coefficients, regression_points and covariances",
    )
    parser.add_argument(
        "--tails",
        choices=regression_points.TAILS,
        default="any",
        help="of regression_points",
    )
    parser.add_argument(
        "--opacus-cuts", type=int, help="cuts of a table that Opacus is tried on (a quarter of all)"
    )
    parser.add_argument("--contestants", choices=["default", "ours", "all"], default="all")
    parser.add_argument(
        "--resamples", type=int, help="samples for each cell (200; 20 with --quick)"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--keep",
        type=Path,
        help="file of results as they come: what it holds, from the same code, is not measured again",
    )
    parser.add_argument("--json", type=Path, help="write every cell to this file")
    parser.add_argument(
        "--write", action="store_true", help="tables into docs/evidence/accuracy.md and README.md"
    )
    parser.add_argument(
        "--read",
        type=Path,
        action="append",
        help="report on the cells of files of --json, an earlier one first, instead of measuring",
    )
    parser.add_argument("--markdown", type=Path, help="write the page to this file as well")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    pages = []
    given = None if options.read is None else together(options.read)
    for name, (run, page) in ESTIMATORS.items():
        if options.estimator in (name, INCLUDED.get(name), "all") and (
            given is None or name in given
        ):
            found[name] = run(options) if given is None else given[name]
            pages.append(page(found[name]))
    print("\n".join(pages))
    if options.json is not None:
        options.json.write_text(json.dumps(strict(found), indent=1) + "\n", encoding="utf-8")
    if options.write:
        text = readme.ACCURACY.read_text(encoding="utf-8")
        for name in found.keys() & PARTS.keys():
            mark, write = PARTS[name]
            text = readme.replaced(text, mark, write(found[name]))
        readme.ACCURACY.write_text(text, encoding="utf-8")
        readme.main()
    if options.markdown is not None:
        options.markdown.write_text("\n".join(pages), encoding="utf-8")


if __name__ == "__main__":
    main()
