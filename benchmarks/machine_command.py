"""`fastpubpriv bench`: what this machine does, beside NumPy, in one run of a few seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastpubpriv.cli import options

if TYPE_CHECKING:
    from rich.table import Table

    from fastpubpriv.experiments.machine import Lap

MOST_LETTERS = 300  # of the line about a machine


@click.command(short_help="How fast this machine releases private means, beside NumPy.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: all cores.")
@click.option("--json", "json_path", type=options.FileName(dash=True), help="Write the numbers; - for stdout.")
@click.option(
    "--compare",
    type=options.FileName(),
    metavar="OLD.json",
    help="A file of --json, perhaps of another machine, to show beside.",
)
def bench(threads: int | None, json_path: Path | None, compare: Path | None) -> None:
    """How fast this machine releases private means, beside NumPy, in one run of a few seconds.

    NumPy does the same job in floating point (clip, average, add Gaussian noise), which protects nobody: exact integers
    and exact noise are what ours adds. The full suites, with all peers, are in the source (make bench).
    """
    from dataclasses import asdict

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.experiments.machine import measure
    from fastpubpriv.experiments.surroundings import describe_machine

    if compare is not None and str(json_path) == "-":
        raise click.UsageError(
            "--json - prints JSON alone, and --compare is for the table: name a file for --json, or leave one out"
        )
    outputs.check_outputs(json_path, None)
    before = None if compare is None else read_older(compare)
    laps, machine = measure(threads), describe_machine()
    if json_path is not None:
        written = {
            "machine": machine,
            "threads": threads or machine["CPUs"],
            "laps": [{**asdict(lap), "ratio": lap.ratio} for lap in laps],
        }
        outputs.write_json(written, json_path)
        if str(json_path) == "-":
            return
    console = report.console()
    console.print(table_of(laps, before))
    console.print(f"now: {named(machine, threads or machine['CPUs'])}", markup=False, highlight=False)
    if before is not None:
        console.print(f"old: {before.machine}", markup=False, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """What a file of `--json` says: seconds and ratio for each shape, and the machine."""

    laps: dict[tuple[int, int], tuple[float, float]]
    machine: str


def named(machine: dict[str, Any], threads: Any) -> str:
    """A machine in a line: what speed depends on."""
    said = [str(machine.get(name, "unknown")) for name in ("processor", "instructions", "BLAS")]
    number = machine.get("fastpubpriv", "unknown")
    # The file may come from anybody: nothing in it may steer the terminal.
    text = f"fastpubpriv {number}, {', '.join(said)}, threads: {threads}"
    return "".join(letter if letter.isprintable() else " " for letter in text)[:MOST_LETTERS]


def table_of(laps: Sequence[Lap], before: Older | None) -> Table:
    """Our times beside NumPy's, and beside those of an older file where there is one."""
    from rich.table import Table

    table = Table(title="Private mean, medians of interleaved runs", title_justify="left", title_style="bold")
    old = () if before is None else ("old", "old ratio")
    for heading in ("rows", "columns", "ours", "NumPy", "ratio", "ours, numbers/s", *old):
        table.add_column(heading, justify="right")
    for lap in laps:
        found = None if before is None else before.laps.get((lap.n_priv, lap.dim))
        then = ("-", "-") if found is None else (f"{1e3 * found[0]:.2f} ms", f"{found[1]:.1f}x")
        table.add_row(
            f"{lap.n_priv:,}",
            f"{lap.dim:,}",
            f"{1e3 * lap.seconds:.2f} ms",
            f"{1e3 * lap.numpy_seconds:.2f} ms",
            f"{lap.ratio:.1f}x",
            f"{lap.n_priv * lap.dim / lap.seconds / 1e9:.2f} billion",
            *(then if before is not None else ()),
        )
    return table


def read_older(path: Path) -> Older:
    """The numbers in a file that `--json` wrote, perhaps an older version of it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        laps = {
            (int(lap["n_priv"]), int(lap["dim"])): (float(lap["seconds"]), float(lap["ratio"])) for lap in found["laps"]
        }
        if not laps or not all(0.0 < number < math.inf for pair in laps.values() for number in pair):
            raise ValueError("no times")
        return Older(laps=laps, machine=named(dict(found.get("machine", {})), found.get("threads", "unknown")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise click.UsageError(f"{path}: not a file that `fastpubpriv bench --json` wrote") from error
