"""The fourth page of `fastpubpriv demo`: the shape of one column, with no range given and no public rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastpubpriv as fpp

if TYPE_CHECKING:
    from fastpubpriv._types import FloatArray
COLUMN, UNIT = "arr_delay", "min"
COMPONENTS = 5
EPSILON, DELTA = 1, Fraction(1, 10**7)
# The table is rounded to minutes; spread over its minute by public coins, each value is as if it had been measured.
UNROUNDED_BY = 1.0
PUBLIC_SEED = 7


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How well a released density agrees with the private values, for the demonstration only."""

    label: str
    distance: float
    protected: str


def minutes() -> tuple[FloatArray, FloatArray]:
    """The column of all flights but the public ones, as it is and unrounded."""
    import numpy as np

    from fastpubpriv.experiments.flights import COLUMNS, load_flights
    from fastpubpriv.public_draws import draw_uniforms

    flights = load_flights()
    place = list(COLUMNS).index(COLUMN)
    rounded = np.rint(flights.private[:, place] * flights.scale[place])
    coins = (draw_uniforms(len(rounded), PUBLIC_SEED) - 0.5) * UNROUNDED_BY
    return rounded, rounded + coins


def distance(result: fpp.MixtureResult, rounded: FloatArray) -> float:
    """Total variation between a mixture and the distribution of whole minutes."""
    import numpy as np
    from scipy.special import ndtr

    seen = rounded[np.isfinite(rounded)]
    least = int(seen.min())
    share = np.bincount((seen - least).astype(np.int64)) / len(seen)
    ends = least - 0.5 + np.arange(len(share) + 1)
    stds = np.sqrt(result.variances[:, 0])
    below = ndtr((ends[:, None] - result.means[:, 0]) / stds) @ result.weights
    mass = np.diff(below)
    return float(0.5 * (np.abs(share - mass).sum() + 1.0 - mass.sum()))


def cases(budget: Any, seed: int | None) -> tuple[fpp.MixtureResult, FloatArray, list[Shape]]:
    """Release the mixture; beside it, one Gaussian, and a small budget."""
    rounded, values = minutes()
    plans = (
        (f"{COMPONENTS} components", COMPONENTS, budget),
        ("one Gaussian", 1, budget),
        (
            f"{COMPONENTS} components, a tenth of the budget",
            COMPONENTS,
            fpp.ApproxDP(budget.epsilon / 10, budget.delta),
        ),
    )
    found: list[Shape] = []
    results = []
    for index, (label, components, paid) in enumerate(plans):
        result = fpp.learn_axis_aligned_mixture(
            values,
            n_components=components,
            budget=paid,
            random_state=None if seed is None else seed + 50 + index,
        )
        results.append(result)
        found.append(Shape(label, distance(result, rounded), "yes"))
    return results[0], rounded, found


def draw(result: fpp.MixtureResult, rounded: FloatArray, path: Path) -> None:
    """The released density over the histogram of the private minutes, which is labelled as what it is."""
    import numpy as np

    from fastpubpriv.results import plots as plotting

    figure = plotting.new_figure(7.6, 4.6)
    axes = figure.subplots()
    low, high = -80.0, 240.0
    axes.hist(
        rounded[np.isfinite(rounded)],
        bins=np.arange(low - 0.5, high + 1.5, 2.0),
        density=True,
        color="0.85",
        label="NOT PRIVATE: histogram of the rows",
    )
    steps = np.linspace(low, high, 1601)
    stds = np.sqrt(result.variances[:, 0])
    heights = result.weights * np.exp(-0.5 * ((steps[:, None] - result.means[:, 0]) / stds) ** 2)
    heights /= stds * np.sqrt(2.0 * np.pi)
    for index in range(result.n_components):
        colour = plotting.PALETTE[index % len(plotting.PALETTE)]
        axes.plot(steps, heights[:, index], color=colour, lw=0.9, ls="--")
    axes.plot(steps, heights.sum(axis=1), color=plotting.PALETTE[0], lw=1.8, label="private: released mixture")
    axes.set_xlim(low, high)
    axes.set_xlabel(f"{COLUMN} ({UNIT})")
    axes.set_ylabel("density")
    axes.set_title("Arrival delays, New York 2013: no range was given, no row is public", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    plotting.save(figure, path)


def page(seed: int | None, out: Path) -> list[Path]:
    """Print the fourth page and write its JSON and plot; returns the files."""
    from rich.table import Table

    from fastpubpriv.cli import outputs, report

    budget = fpp.ApproxDP(EPSILON, DELTA)
    warned: list[str] = []
    with report.nice_warnings(warned):
        result, rounded, found = cases(budget, seed)
    screen = report.console()
    screen.print(
        f"\nHow late do flights arrive? {result.n_priv:,} private values; nobody says in which range they lie.\n",
        highlight=False,
    )
    name = f"{COLUMN} ({UNIT})"
    report.print_result(replace(result, columns=(name,)), level=0.95, title="The shape of a column")
    table = Table(title="\nFor demonstration only: how far from the rows", title_justify="left", title_style="bold")
    table.add_column("density from")
    table.add_column("total variation", justify="right")
    table.add_column("protected")
    for shape in found:
        table.add_row(shape.label, f"{shape.distance:.3f}", shape.protected)
    screen.print(table)
    screen.print(f"\n[bold]What happened.[/] {story(result, found)}", highlight=False)
    json_path, plot_path = out / "demo-axis.json", out / "demo-axis.png"
    data = report.result_dict(result, level=0.95, warned=warned)
    data["columns"] = [name]
    data["demonstration_only"] = {shape.label: {"total_variation": shape.distance} for shape in found}
    outputs.write_json(data, json_path)
    outputs.attempt(lambda place: draw(result, rounded, place), plot_path)
    return [json_path, plot_path]


def story(result: fpp.MixtureResult, found: list[Shape]) -> str:
    """The page in plain sentences."""
    ours, one, small = found
    scales = result.diagnostics["scales"]
    return (
        f"Differences of pairs of flights showed scales from {min(scales):g} to {max(scales):g} minutes, histograms at these "
        f"scales showed where the flights are, and cells in that place were counted on other rows. A mixture of "
        f"{result.n_components} lies within {ours.distance:.3f} of the distribution in total variation; one Gaussian, which "
        f"cannot have a long tail on one side, within {one.distance:.3f}. With a tenth of the budget it is {small.distance:.3f}."
    )
