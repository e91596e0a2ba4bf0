"""`fastpubpriv bench`: what this machine does, beside NumPy, in one run of a few seconds."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fastpubpriv.cli import options


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

    from rich.table import Table

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.experiments.machine import measure
    from fastpubpriv.experiments.surroundings import describe_machine

    outputs.check_outputs(json_path, None)
    before = read_ratios(compare) if compare is not None else None
    laps = measure(threads)
    if json_path is not None:
        written = {"machine": describe_machine(), "laps": [{**asdict(lap), "ratio": lap.ratio} for lap in laps]}
        outputs.write_json(written, json_path)
        if str(json_path) == "-":
            return
    table = Table(title="Private mean, medians of interleaved runs", title_justify="left", title_style="bold")
    for heading in (
        "rows",
        "columns",
        "ours",
        "NumPy",
        "ratio",
        "ours, numbers/s",
        *(["old ratio"] if before is not None else []),
    ):
        table.add_column(heading, justify="right")
    for lap in laps:
        table.add_row(
            f"{lap.n_priv:,}",
            f"{lap.dim:,}",
            f"{1e3 * lap.seconds:.2f} ms",
            f"{1e3 * lap.numpy_seconds:.2f} ms",
            f"{lap.ratio:.1f}x",
            f"{lap.n_priv * lap.dim / lap.seconds / 1e9:.2f} billion",
            *([before.get((lap.n_priv, lap.dim), "")] if before is not None else []),
        )
    report.console().print(table)


def read_ratios(path: Path) -> dict[tuple[int, int], str]:
    """The ratio of each shape in a file that `--json` wrote."""
    try:
        laps = json.loads(path.read_text(encoding="utf-8"))["laps"]
        return {(int(lap["n_priv"]), int(lap["dim"])): f"{float(lap['ratio']):.1f}x" for lap in laps}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{path}: not a file that `fastpubpriv bench --json` wrote") from error
