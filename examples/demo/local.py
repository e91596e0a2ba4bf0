"""The fifth page of `fastpubpriv demo`: users who trust nobody, beside a trusted server and beside the public rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import fastpubpriv as fpp

if TYPE_CHECKING:
    from fastpubpriv._types import FloatArray

CLIENTS = 100_000
PUBLIC = 200  # of the volunteered rows: enough for units, few enough to leave something to learn
EPSILON = 4
SEED_OF_CLIENTS = 11
MESSAGE = 1000  # reports in a message on its way to the server


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One way to the mean of the clients' rows; errors in standard deviations of a row, root mean square over columns."""

    label: str
    mean: FloatArray
    standard_error: FloatArray
    error: float
    predicted: float
    protected: str


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """The rows of the clients and of the volunteers, complete ones, in data units."""

    private: FloatArray
    public: FloatArray
    columns: tuple[str, ...]


def load_clients() -> Clients:
    """Flights by number of the row: a public draw of them plays the clients, the first of the volunteered rows are public."""
    import numpy as np

    from fastpubpriv.experiments.flights import COLUMNS, load_flights
    from fastpubpriv.public_draws import draw_uniforms

    flights = load_flights()
    chosen = draw_uniforms(len(flights.private), SEED_OF_CLIENTS).argsort()[:CLIENTS]
    units = tuple(f"{name} ({unit})" for name, unit in COLUMNS.items())
    return Clients(flights.private[np.sort(chosen)] * flights.scale, flights.public[:PUBLIC] * flights.scale, units)


def simulate(clients: Clients, seed: int | None) -> list[Way]:
    """Every client reports once, in messages of bytes; then the mean in four ways."""
    import numpy as np

    from fastpubpriv import local
    from fastpubpriv.local.standard import Standard

    standard = Standard.of(clients.public)
    rows, public = standard.chunk(clients.private), standard.chunk(clients.public)
    dim = rows.shape[1]
    # Delays have long tails: a bound that cuts them off would cost more than the noise.
    bound = float(np.linalg.norm(public, axis=1).max())
    device = local.PrivUnit(dim, EPSILON, norm_bound=bound)
    reports = device.privatize(rows, random_state=seed)
    server = local.Aggregator(device)
    for first in range(0, len(reports), MESSAGE):
        server.add(reports[first : first + MESSAGE].to_bytes())
    alone, both = local.estimate_mean(server), local.estimate_mean(server, x_pub=public)
    central = fpp.weighted_mean(
        rows,
        x_pub=public,
        budget=fpp.PureDP(EPSILON),
        norm_bound=bound,
        random_state=None if seed is None else seed + 1,
    )
    spread = np.std(public, axis=0, ddof=1) / np.sqrt(len(public))
    found = (
        ("public rows only", public.mean(axis=0), spread, "none read"),
        ("local: reports alone", alone.mean, alone.standard_error, "from everybody"),
        ("semi-local: reports and public rows", both.mean, both.standard_error, "from everybody"),
        ("central: a trusted server", central.mean, central.standard_error, "from readers of the answer"),
    )
    truth = standard.chunk(np.nanmean(clients.private, axis=0)[None])[0]
    return [
        Way(
            label,
            mean * standard.scale + standard.center,
            error * standard.scale,
            float(np.sqrt(np.mean((mean - truth) ** 2))),
            float(np.sqrt(np.mean(error**2))),
            protected,
        )
        for label, mean, error, protected in found
    ]


def draw(ways: list[Way], clients: Clients, path: Path) -> None:
    """All ways side by side, one panel for each column, with the truth as a line."""
    import numpy as np

    from fastpubpriv.results import plots as plotting

    truth = np.nanmean(clients.private, axis=0)
    estimates = [
        plotting.Estimate(
            way.label.split(":")[0],
            way.mean,
            way.mean - 1.96 * way.standard_error,
            way.mean + 1.96 * way.standard_error,
        )
        for way in ways
    ]
    figure = plotting.new_figure(10.0, 6.4)
    panels = figure.subplots(2, 2)
    for j, name in enumerate(clients.columns):
        axes = panels.ravel()[j]
        plotting.draw_panel(axes, estimates, j, name)
        axes.axhline(truth[j], color="0.6", lw=0.8, ls=":", zorder=0)
        if j < 2:
            axes.tick_params(labelbottom=False)
    figure.suptitle(
        f"{CLIENTS:,} simulated clients, epsilon {EPSILON:g} each: 95 % intervals; dotted, NOT PRIVATE: their rows",
        fontsize=10,
    )
    plotting.save(figure, path)


def page(seed: int | None, out: Path) -> list[Path]:
    """Print the fifth page and write its JSON and plot; returns the files."""
    from rich.table import Table

    from fastpubpriv.cli import outputs, report

    clients = load_clients()
    warned: list[str] = []
    with report.nice_warnings(warned):
        ways = simulate(clients, seed)
    screen = report.console()
    table = Table(
        title=f"\nNo trusted server: {CLIENTS:,} clients report a flight each, {PUBLIC} flights are public",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("mean from")
    for name in clients.columns:
        table.add_column(name, justify="right")
    table.add_column("error *", justify="right")
    table.add_column("protected")
    for way in ways:
        table.add_row(way.label, *(f"{value:,.2f}" for value in way.mean), f"{way.error:.4f}", way.protected)
    screen.print(table)
    screen.print(
        "[dim]* in standard deviations of a row, root mean square over the columns; against the rows themselves[/]\n"
    )
    screen.print(f"[bold]What happened.[/] {story(ways)}", highlight=False)
    json_path, plot_path = out / "demo-local.json", out / "demo-local.png"
    ways_found = {way.label: {"mean": way.mean.tolist(), "standard_error": way.standard_error.tolist()} for way in ways}
    data = {
        "clients": CLIENTS,
        "n_pub": PUBLIC,
        "epsilon": EPSILON,
        "private": seed is None,
        "columns": list(clients.columns),
        "ways": ways_found,
        "demonstration_only": {way.label: {"error": way.error, "predicted": way.predicted} for way in ways},
        "warnings": warned,
    }
    outputs.write_json(data, json_path)
    outputs.attempt(lambda place: draw(ways, clients, place), plot_path)
    return [json_path, plot_path]


def story(ways: list[Way]) -> str:
    """The page in plain sentences."""
    public, local, both, central = ways
    return (
        f"Each client sent one report that is epsilon-private by itself, epsilon {EPSILON:g}, and nobody was trusted. The {PUBLIC} "
        f"public flights by themselves are off by {public.error:.3f} standard deviations of a row, the reports by "
        f"{local.error:.3f}, and both together by {both.error:.3f}. A server that is trusted with the rows comes to "
        f"{central.error:.3f} at the same epsilon: that is the price of trusting nobody. Units and the longest row that counts "
        "come from the public flights; what is beyond is shortened, which intervals do not count."
    )
