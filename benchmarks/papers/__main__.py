"""`fastpubpriv reproduce`: the figures and tables of the papers, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fastpubpriv.cli import options


@click.command(short_help="Re-create a published figure or table; lists them without a name.")
@click.argument("name", required=False)
@click.option(
    "--out",
    type=options.FileName(file_okay=False),
    default=Path("reproduced"),
    show_default=True,
    help="Folder.",
)
@click.option(
    "--runs", type=click.IntRange(min=1), help="Repetitions of each point. Default: as many as was published."
)
@click.option("--threads", type=click.IntRange(min=1), help="Default: all cores. Never changes a number.")
@click.option("--quick", is_flag=True, help="A smaller problem, in seconds, for experiments that take long.")
@click.option(
    "--cell",
    "cells",
    multiple=True,
    metavar="SHARE:EPSILON",
    help="One cell of a table, such as 0.5:4, for experiments that take long; may be given for several.",
)
def reproduce(
    name: str | None, out: Path, runs: int | None, threads: int | None, quick: bool, cells: tuple[str, ...]
) -> None:
    """Re-create a published figure or table, with our numbers beside the published ones, as CSV and PNG.

    Without NAME, list what there is. The rows are simulated, so seeded noise is used throughout.
    """
    from rich.table import Table

    from fastpubpriv.cli import outputs, report, streams
    from fastpubpriv.experiments.registry import EXPERIMENTS

    if name is None:
        table = Table(title="fastpubpriv reproduce NAME", title_justify="left", title_style="bold")
        table.add_column("name", no_wrap=True)
        table.add_column("what it shows")
        for each in EXPERIMENTS.values():
            table.add_row(each.name, f"{each.summary}\n[dim]{each.source}[/]")
        report.console().print(table)
        return
    if name not in EXPERIMENTS:
        raise click.UsageError(f"no experiment {name[:80]!r}; there are {', '.join(EXPERIMENTS)}")
    if quick and not EXPERIMENTS[name].quick:
        raise click.UsageError(f"--quick: {name} has no smaller problem; pass fewer --runs, or leave --quick out")
    if cells and not EXPERIMENTS[name].cells:
        raise click.UsageError(f"--cell: {name} is made as a whole; leave it out")
    asked: dict[str, Any] = ({"quick": True} if quick else {}) | ({"cells": _pairs(cells)} if cells else {})
    outputs.need_matplotlib()
    outputs.check_folder("--out", out)
    made = EXPERIMENTS[name].run(out, runs=runs, threads=threads, **asked)
    streams.emit("\n".join([*made.lines, f"{made.seconds:.1f} s"]))
    outputs.written([made.csv, made.png])


def _pairs(cells: tuple[str, ...]) -> list[tuple[float, float]]:
    """Shares of public rows and epsilons."""
    found = []
    for cell in cells:
        share, _, epsilon = cell.partition(":")
        try:
            found.append((float(share), float(epsilon)))
        except ValueError:
            raise click.UsageError(
                f"--cell is a share of public rows and an epsilon, as 0.5:4, got {cell[:80]!r}"
            ) from None
    return found
