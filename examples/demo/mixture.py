"""The third page of `fastpubpriv demo`: groups of flights, found or not found in a real table."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastpubpriv as fpp

if TYPE_CHECKING:
    from fastpubpriv._types import FloatArray
    from fastpubpriv.experiments.flights import Flights


# Air time and distance; with the delays as well there are four columns.
TRIP = 2
MIN_WEIGHT = 0.1
# A ball around zero that holds every flight, for who has no public rows: eight standard deviations of a column.
BLIND_RADIUS = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One way to look for groups, with how well one of them agrees with the flights to the West."""

    label: str
    found: int
    western_kept: float
    western_share: float
    protected: str


def agreement(result: fpp.MixtureResult, rows: FloatArray, groups: Any) -> tuple[float, float]:
    """Of the western flights, the share in the component that has most of them; and their share in that component."""
    import numpy as np

    complete = groups >= 0
    leaf = result.tree.assign(np.ascontiguousarray(rows[complete]))
    west = groups[complete] == 1
    leaves, counts = np.unique(leaf[west], return_counts=True)
    best = leaves[np.argmax(counts)]
    return float(counts.max() / west.sum()), float(counts.max() / (leaf == best).sum())


def cases(flights: Flights, budget: Any, seed: int | None) -> tuple[fpp.MixtureResult, list[Case]]:
    """Look for groups in several ways; each private way is paid from a budget of its own."""
    import numpy as np

    groups = flights.groups()
    trips, public = (np.ascontiguousarray(rows[:, :TRIP]) for rows in (flights.private, flights.public))
    plans = (
        ("private tree, 2 groups asked for", trips, public, 2, "tree"),
        ("private tree, 3 groups asked for", trips, public, 3, "tree"),
        ("private tree, 2 groups, delays as columns too", flights.private, flights.public, 2, "tree"),
        ("private directions, nearest centres, 2 groups", trips, public, 2, "one_shot"),
    )
    found: list[Case] = []
    results = []
    for index, (label, rows, open_rows, count, method) in enumerate(plans):
        result = fpp.learn_separated_mixture(
            fpp.Rows.from_array(rows),
            x_pub=open_rows,
            n_components=count,
            min_weight=MIN_WEIGHT,
            method=method,
            budget=budget,
            random_state=None if seed is None else seed + 30 + index,
        )
        results.append(result)
        found.append(Case(label, result.n_components, *agreement(result, rows, groups), "yes"))
    blind = fpp.no_public_baseline(
        fpp.Rows.from_array(trips),
        n_components=2,
        radius=BLIND_RADIUS,
        budget=budget,
        random_state=None if seed is None else seed + 40,
    )
    found.append(Case("private, no public rows, 2 groups", blind.n_components, *agreement(blind, trips, groups), "yes"))
    alone = fpp.public_only(public, n_components=2)
    found.append(Case("public rows only, 2 groups", alone.n_components, *agreement(alone, trips, groups), "none read"))
    return results[0], found


def in_data_units(result: fpp.MixtureResult, scale: FloatArray, names: tuple[str, ...]) -> fpp.MixtureResult:
    """The same components in minutes and miles; the balls stay behind, as they are no balls there."""
    import numpy as np

    unit = scale[: result.dim]
    return dataclasses.replace(
        result,
        means=result.means * unit,
        covariances=result.covariances * np.outer(unit, unit),
        columns=names,
        diagnostics={**result.diagnostics, "balls": []},
    )


def page(budget: Any, seed: int | None, out: Path) -> list[Path]:
    """Print the third page and write its JSON and plot; returns the files."""
    from rich.table import Table

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.experiments.flights import COLUMNS, WEST, load_flights

    flights = load_flights()
    warned: list[str] = []
    with report.nice_warnings(warned):
        result, found = cases(flights, budget, seed)
    screen = report.console()
    screen.print(
        f"\nDepartures from New York, 2013: {result.n_priv:,} private flights; {result.n_pub:,}, every 100th, are public. The "
        f"flights to the West, beyond {WEST:,.0f} miles, are a group that a map shows. Does anyone find it?\n",
        highlight=False,
    )
    names = tuple(f"{name} ({unit})" for name, unit in COLUMNS.items())[:TRIP]
    shown = in_data_units(result, flights.scale, names)
    report.print_result(shown, level=0.95, title="Groups of flights")
    table = Table(title="\nFor demonstration only: the flights to the West", title_justify="left", title_style="bold")
    table.add_column("groups from")
    table.add_column("groups\nfound", justify="right")
    table.add_column("western flights\nkept together", justify="right")
    table.add_column("western share\nof that group", justify="right")
    table.add_column("protected")
    for case in found:
        table.add_row(
            case.label, str(case.found), f"{case.western_kept:.1%}", f"{case.western_share:.1%}", case.protected
        )
    screen.print(table)
    screen.print(f"\n[bold]What happened.[/] {story(found)}", highlight=False)
    json_path, plot_path = out / "demo-mixture.json", out / "demo-mixture.png"
    data = report.result_dict(shown, level=0.95, warned=warned)
    data["demonstration_only"] = {
        case.label: {
            "groups_found": case.found,
            "western_flights_kept_together": case.western_kept,
            "western_share_of_that_group": case.western_share,
        }
        for case in found
    }
    outputs.write_json(data, json_path)
    public = flights.public[:, :TRIP] * flights.scale[:TRIP]
    outputs.attempt(lambda place: shown.plot(place, x_pub=public), plot_path)
    return [json_path, plot_path]


def story(found: list[Case]) -> str:
    """The page in plain sentences, whatever was found."""
    tree, three, delays, centres, blind, public = found
    if tree.found == 2:
        first = (
            f"The tree finds the widest gap that the table has: {tree.western_kept:.1%} of the western flights are in one group, "
            f"and {tree.western_share:.1%} of that group are western."
        )
    else:
        first = "The tree finds no gap that it can be sure of at this budget, and leaves the flights in one group."
    more = f"Asked for three groups it finds {three.found}."
    if delays.found == 2:
        more += (
            f" With the delays as columns, whose long tails bridge the gap, it keeps {delays.western_kept:.0%} of the western "
            "flights together."
        )
    else:
        more += " With the delays as columns, whose long tails bridge the gap, it finds nothing to cut."
    others = (
        "Methods that always give as many groups as they are asked for cut somewhere: with nearest centres, of public rows "
        f"alone or along private directions, the group with the West is {public.western_share:.0%} and "
        f"{centres.western_share:.0%} western, without public rows {blind.western_share:.0%}."
    )
    return f"{first} {more} {others} No group of flights is a Gaussian: the means and spreads are right, the bell shape is not."
