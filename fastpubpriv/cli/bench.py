"""`fastpubpriv bench`: what this machine does, beside NumPy, in one run of a few seconds."""

from __future__ import annotations

from pathlib import Path

import click

from fastpubpriv.cli import options


@click.command(short_help="How fast this machine releases private means, beside NumPy.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: all cores.")
@click.option("--json", "json_path", type=options.FileName(dash=True), help="Write the numbers; - for stdout.")
def bench(threads: int | None, json_path: Path | None) -> None:
    """How fast this machine releases private means, beside NumPy, in one run of a few seconds.

    NumPy does the same job in floating point (clip, average, add Gaussian noise), which protects nobody: exact integers
    and exact noise are what ours adds. The full suites, with all peers, are in the source (make bench).
    """
    from dataclasses import asdict

    from rich.table import Table

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.experiments.machine import measure

    outputs.check_outputs(json_path, None)
    laps = measure(threads)
    if json_path is not None:
        outputs.write_json({"laps": [{**asdict(lap), "ratio": lap.ratio} for lap in laps]}, json_path)
        if str(json_path) == "-":
            return
    table = Table(title="Private mean, medians of interleaved runs", title_justify="left", title_style="bold")
    for heading in ("rows", "columns", "ours", "NumPy", "ratio", "ours, numbers/s"):
        table.add_column(heading, justify="right")
    for lap in laps:
        table.add_row(
            f"{lap.n_priv:,}",
            f"{lap.dim:,}",
            f"{1e3 * lap.seconds:.2f} ms",
            f"{1e3 * lap.numpy_seconds:.2f} ms",
            f"{lap.ratio:.1f}x",
            f"{lap.n_priv * lap.dim / lap.seconds / 1e9:.2f} billion",
        )
    report.console().print(table)
