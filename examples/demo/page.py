"""`fastpubpriv demo`: the main job on a real table, beside what else one could have done."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options

if TYPE_CHECKING:
    from fastpubpriv._types import FloatArray
    from fastpubpriv.experiments.weather import Weather

# What somebody who has never seen weather might dare to promise: every mean within 1000 of zero, every standard deviation
# below 100.
WEAK_BOUND, WEAK_STD = 1000.0, 100.0
LEVEL = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The release, and what the demonstration sets beside it."""

    private: fpp.MeanResult
    coinpress: fpp.MeanResult
    public_only: FloatArray
    public_error: FloatArray
    bare: FloatArray
    bare_without_gust: FloatArray
    row_std: FloatArray
    gust: float
    neutral_rows: int

    @property
    def gust_shift(self) -> float:
        """How far the impossible gust moves the ordinary mean of the wind speed, in mph."""
        from fastpubpriv.experiments.weather import WIND

        return float(self.bare[WIND] - self.bare_without_gust[WIND])

    @property
    def most_shift(self) -> float:
        """How far one row, whatever it says, can move the last clipped sum that our wind speed comes from, in mph."""
        from fastpubpriv.experiments.weather import WIND

        last = self.private.releases[-1]
        per_unit = float(self.private.noise_std[WIND]) / float(last["noise_std"])
        return 2.0 * float(last["clip_radius"]) * per_unit

    def worst_error(self, mean: FloatArray) -> float:
        """Largest error of a column, in standard deviations of a row, against the mean without the gust."""
        return float(abs((mean - self.bare_without_gust) / self.row_std).max())


def compare(weather: Weather, budget: Any, seed: int | None) -> Comparison:
    """Release the private mean, then compute what it is compared with."""
    import numpy as np

    from fastpubpriv.experiments.weather import WIND

    dim = len(weather.columns)
    private = fpp.estimate_mean(
        fpp.Rows.from_array(weather.private),
        x_pub=weather.public,
        covariance="public",
        budget=budget,
        random_state=seed,
    )
    coinpress = fpp.coinpress_mean(
        fpp.Rows.from_array(weather.private),
        center=0.0,
        radius=WEAK_BOUND * math.sqrt(dim) / WEAK_STD,
        variance=WEAK_STD**2,
        budget=budget,
        random_state=None if seed is None else seed + 1,
    )
    gust = weather.impossible()
    possible = weather.private[~gust]
    return Comparison(
        private=private,
        coinpress=coinpress,
        public_only=weather.public.mean(axis=0),
        public_error=weather.public.std(axis=0, ddof=1) / math.sqrt(len(weather.public)),
        bare=np.nanmean(weather.private, axis=0),
        bare_without_gust=np.nanmean(possible, axis=0),
        row_std=np.nanstd(possible, axis=0),
        gust=float(weather.private[gust, WIND].max()),
        neutral_rows=int((~np.isfinite(weather.private)).any(axis=1).sum()),
    )


def show(comparison: Comparison, weather: Weather) -> None:
    """Two tables and what happened."""
    from rich.table import Table

    from fastpubpriv.cli import report
    from fastpubpriv.experiments.weather import COLUMNS, WIND

    out = report.console()
    ours = comparison.private
    names = tuple(f"{name} ({unit})" for name, unit in COLUMNS.items())
    out.print(
        f"Hourly weather at New York's airports, 2013: {ours.n_priv:,} private rows; {ours.n_pub} rows, every 100th, were "
        "volunteered in public.\n",
        highlight=False,
    )
    report.print_result(replace(ours, columns=names), level=LEVEL, title="The private answer")

    table = Table(
        title="\nFor demonstration only: what else one could have done", title_justify="left", title_style="bold"
    )
    table.add_column("", no_wrap=True)
    table.add_column("private\nanswer", justify="right", style="bold")
    table.add_column("public\nrows only", justify="right")
    table.add_column("CoinPress,\nweak bounds", justify="right")
    table.add_column("no privacy", justify="right")
    table.add_column("no privacy,\nwithout gust", justify="right")
    columns = (
        ours.mean,
        comparison.public_only,
        comparison.coinpress.mean,
        comparison.bare,
        comparison.bare_without_gust,
    )
    for j, name in enumerate(COLUMNS):
        cells = [f"{mean[j]:.3f}" for mean in columns]
        if j == WIND:
            cells[3] = f"[bold red]{cells[3]}[/]"
        table.add_row(name, *cells)
    errors = [f"{comparison.worst_error(mean):.4f}" for mean in columns[:-1]]
    table.add_section()
    table.add_row("max. error *", *errors, "")
    table.add_section()
    table.add_row("protected", "yes", "none read", "yes", "[bold red]NO[/]", "[bold red]NO[/]")
    out.print(table)
    out.print("[dim]* of a column, in standard deviations of a row, against the last column[/]\n")
    out.print(f"[bold]What happened.[/] {story(comparison)}")


def story(comparison: Comparison) -> str:
    """The result in plain sentences."""
    ours, public = (comparison.worst_error(mean) for mean in (comparison.private.mean, comparison.public_only))
    return (
        f"The private answer is off by at most {ours:.2g} standard deviations of a row, the {comparison.private.n_pub} public "
        f"rows by themselves by {public:.2g}; and nobody had to guess a range: it came from the public rows. "
        f"One broken reading, a wind of {comparison.gust:,.0f} mph, moves the ordinary mean by "
        f"{comparison.gust_shift:.3f} mph; in the private answer no single row counts for more than "
        f"{comparison.most_shift:.3f} mph, because it is clipped to where the public rows say weather is. "
        f"{comparison.neutral_rows} rows with a missing value count as rows at the public mean."
    )


def draw(comparison: Comparison, weather: Weather, path: Path) -> None:
    """All estimates side by side, one panel for each column."""
    from fastpubpriv.experiments.weather import COLUMNS, WIND
    from fastpubpriv.quantiles import normal_quantile
    from fastpubpriv.results import plots as plotting

    wide = normal_quantile(0.5 + LEVEL / 2.0) * comparison.public_error
    public = comparison.public_only
    estimates = [
        plotting.Estimate("private answer", comparison.private.mean, *comparison.private.confidence_interval(LEVEL)),
        plotting.Estimate("public rows only", public, public - wide, public + wide),
        plotting.Estimate("CoinPress, weak bounds", comparison.coinpress.mean),
        plotting.Estimate("no privacy", comparison.bare),
        plotting.Estimate("no privacy, no gust", comparison.bare_without_gust),
    ]
    figure = plotting.new_figure(10.0, 6.6)
    grid = figure.subplots(2, 3)
    panels = grid.ravel()
    for j, (name, unit) in enumerate(COLUMNS.items()):
        plotting.draw_panel(panels[j], estimates, j, f"{name} ({unit})")
        panels[j].axhline(comparison.bare_without_gust[j], color="0.6", lw=0.8, ls=":", zorder=0)
    zoom = panels[-1]
    plotting.draw_panel(zoom, estimates, WIND, "wind_speed, closer: one gust", hidden=(1,))
    true, moved = float(comparison.bare_without_gust[WIND]), float(comparison.bare[WIND])
    zoom.axhline(true, color="0.6", lw=0.8, ls=":", zorder=0)
    zoom.annotate("", (3, moved), (3, true), arrowprops={"arrowstyle": "->", "color": plotting.PALETTE[3]})
    zoom.annotate(
        f"+{comparison.gust_shift:.3f} mph\nfrom one row",
        (3, moved),
        (0, 7),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )
    low, high = zoom.get_ylim()
    zoom.set_ylim(low, high + 0.15 * (high - low))
    for axes in grid[0]:
        axes.tick_params(labelbottom=False)
    figure.suptitle(
        f"Mean weather, New York 2013: the private answer ({LEVEL:.0%} interval), and, for demonstration only, what else one "
        "could have done",
        fontsize=10,
    )
    plotting.save(figure, path)


EPILOG = """\b
Examples:
  fastpubpriv demo
  fastpubpriv demo --rho 0.01 --out weather
"""


@click.command(epilog=EPILOG, short_help="The main job on a real weather table, beside what else one could have done.")
@click.option(
    "--out",
    type=options.FileName(file_okay=False),
    default=Path("demo-out"),
    show_default=True,
    help="Folder.",
)
@click.option("--rho", type=options.Exact(), default="0.5", show_default=True, help="Budget in zero-concentrated DP.")
@click.option("--seed", type=int, help="Repeatable noise: the answer is then NOT private.")
def demo(out: Path, rho: Any, seed: int | None) -> None:
    """The main job on a real weather table, beside what else one could have done.

    The hourly weather at New York's airports in 2013: every 100th row plays the public, the rest are private. The mean of
    five columns is released, then compared with the answers from the public rows alone, from CoinPress with weak bounds,
    and without any privacy. A second page does the same for the covariance, also from a public set that is shifted: one
    July week at one airport. A third looks for groups of flights, a fourth for the shape of one column, in a fifth 100,000
    clients report a flight each without trusting anybody, and a sixth asks what makes flights arrive late. Each release is paid
    from a budget of its own.
    """
    from fastpubpriv.cli import outputs, report
    from fastpubpriv.cli.demo import axis as demo_axis
    from fastpubpriv.cli.demo import gaussian as demo_gaussian
    from fastpubpriv.cli.demo import local as demo_local
    from fastpubpriv.cli.demo import mixture as demo_mixture
    from fastpubpriv.cli.demo import training as demo_training
    from fastpubpriv.experiments.weather import load_weather

    budget = fpp.ZCDP(rho)
    weather = load_weather()
    outputs.need_matplotlib()
    outputs.check_folder("--out", out)
    warned: list[str] = []
    with report.nice_warnings(warned):
        comparison = compare(weather, budget, seed)
    show(comparison, weather)
    json_path, plot_path = out / "demo.json", out / "demo.png"
    data = report.result_dict(comparison.private, level=LEVEL, warned=warned)
    data["columns"] = list(weather.columns)
    data["demonstration_only"] = {
        "note": "no_privacy and no_privacy_without_gust read the private rows without protection; coinpress has its own budget",
        "public_rows_only": comparison.public_only.tolist(),
        "coinpress_weak_bounds": comparison.coinpress.mean.tolist(),
        "no_privacy": comparison.bare.tolist(),
        "no_privacy_without_gust": comparison.bare_without_gust.tolist(),
        "gust_shift_mph": comparison.gust_shift,
        "most_shift_of_private_answer_mph": comparison.most_shift,
    }
    outputs.write_json(data, json_path)
    outputs.attempt(lambda place: draw(comparison, weather, place), plot_path)
    second = demo_gaussian.page(weather, budget, seed, out)
    third = demo_mixture.page(budget, seed, out)
    fourth = demo_axis.page(seed, out)
    fifth = demo_local.page(None if seed is None else seed + 70, out)
    sixth = demo_training.page(None if seed is None else seed + 90, out)
    outputs.written([json_path, plot_path, *second, *third, *fourth, *fifth, *sixth])
