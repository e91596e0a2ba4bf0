"""The second page of `fastpubpriv demo`: mean and covariance, also from public rows of the wrong season."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastpubpriv as fpp

if TYPE_CHECKING:
    from fastpubpriv._types import FloatArray
    from fastpubpriv.experiments.weather import Weather


# A generous bound for "another season": two Gaussians this far apart overlap in a tenth of their mass.
SHIFT_GAP = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One way to learn the covariance, with its distance to the covariance of the year without the gust."""

    label: str
    covariance_error: float
    mean_error: float
    protected: str


def errors(
    mean: FloatArray, covariance: FloatArray, true_mean: FloatArray, true_covariance: FloatArray
) -> tuple[float, float]:
    """Relative Frobenius error of a covariance, and distance of a mean in standard deviations."""
    import numpy as np

    inverse = np.linalg.inv(np.linalg.cholesky(true_covariance))
    relative = inverse @ covariance @ inverse.T - np.eye(len(mean))
    return float(np.linalg.norm(relative)), float(np.linalg.norm(inverse @ (mean - true_mean)))


def bare(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the complete rows, without any privacy."""
    import numpy as np

    whole = rows[np.isfinite(rows).all(axis=1)]
    return whole.mean(axis=0), np.cov(whole.T)


def cases(weather: Weather, budget: Any, seed: int | None) -> tuple[fpp.GaussianResult, list[Case]]:
    """Release with each public set, then set beside it what needs no release or no privacy."""
    from fastpubpriv.experiments.weather import load_shifted_weather

    shifted = load_shifted_weather()
    truth = bare(weather.private[~weather.impossible()])
    plans = (
        ("private, 1 % of rows public", weather, 0.0),
        (f"private, July week public, gap {SHIFT_GAP:g}", shifted, SHIFT_GAP),
        ("private, July week public, gap understated as 0", shifted, 0.0),
    )
    found: list[Case] = []
    results = []
    for index, (label, table, gap) in enumerate(plans):
        result = fpp.estimate_gaussian(
            fpp.Rows.from_array(table.private),
            x_pub=table.public,
            pub_priv_gap=gap,
            budget=budget,
            random_state=None if seed is None else seed + 10 + index,
        )
        results.append(result)
        found.append(Case(label, *errors(result.mean, result.covariance, *truth), "yes"))
    found += [
        Case("public rows only, 1 % of rows", *errors(*bare(weather.public), *truth), "none read"),
        Case("public rows only, July week", *errors(*bare(shifted.public), *truth), "none read"),
        Case("no privacy, gust included", *errors(*bare(weather.private), *truth), "[bold red]NO[/]"),
    ]
    return results[0], found


def page(weather: Weather, budget: Any, seed: int | None, out: Path) -> list[Path]:
    """Print the second page and write its JSON and plot; returns the files."""
    from rich.table import Table

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.experiments.weather import COLUMNS

    warned: list[str] = []
    with report.nice_warnings(warned):
        result, found = cases(weather, budget, seed)
    screen = report.console()
    screen.print()
    names = tuple(f"{name} ({unit})" for name, unit in COLUMNS.items())
    report.print_result(
        dataclasses.replace(result, columns=names), level=0.95, title="Mean and covariance of the same rows"
    )
    table = Table(title="\nFor demonstration only: how far from the truth", title_justify="left", title_style="bold")
    table.add_column("covariance and mean from")
    table.add_column("covariance\nerror *", justify="right")
    table.add_column("mean\nerror *", justify="right")
    table.add_column("protected")
    for case in found:
        table.add_row(case.label, f"{case.covariance_error:.3f}", f"{case.mean_error:.3f}", case.protected)
    screen.print(table)
    screen.print(
        "[dim]* relative Frobenius distance, and distance in standard deviations, to the rows without the gust[/]\n"
    )
    screen.print(f"[bold]What happened.[/] {story(found)}")
    json_path, plot_path = out / "demo-gaussian.json", out / "demo-gaussian.png"
    data = report.result_dict(result, level=0.95, warned=warned)
    data["columns"] = list(weather.columns)
    data["demonstration_only"] = {
        case.label: {"covariance_error": case.covariance_error, "mean_error": case.mean_error} for case in found
    }
    outputs.write_json(data, json_path)
    named = dataclasses.replace(result, columns=names)
    outputs.attempt(named.plot, plot_path)
    return [json_path, plot_path]


def story(found: list[Case]) -> str:
    """The page in plain sentences."""
    ours, gapped, understated, public, july, gust = found
    return (
        f"A week of July at one airport says little about the year: by itself it is off by {july.covariance_error:.2f} in "
        f"covariance and {july.mean_error:.1f} standard deviations in mean. As a public set with a gap of {SHIFT_GAP:g} it leads "
        f"to {gapped.covariance_error:.2f}, nearly the {ours.covariance_error:.2f} that 1 % of the rows leads to "
        f"({public.covariance_error:.2f} by themselves). With the gap understated as 0 the private rows are clipped to July, and "
        f"the error is {understated.covariance_error:.2f}; privacy is the same in all three. The gust alone spoils the ordinary "
        f"covariance by {gust.covariance_error:.2f}."
    )
