"""`fastpubpriv info`: what a bug report should hold."""

from __future__ import annotations

from pathlib import Path

import click

from fastpubpriv.cli import options


@click.command(short_help="Versions, processor and libraries, for bug reports.")
@click.option("--json", "json_path", type=options.FileName(dash=True), help="Write them; - for stdout.")
def info(json_path: Path | None) -> None:
    """Versions, processor, instruction set and libraries, for bug reports. No path and no name of this machine is shown."""
    from rich.table import Table

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.cli.surroundings import describe_machine

    outputs.check_outputs(json_path, None)
    found = describe_machine()
    if json_path is not None:
        outputs.write_json(found, json_path)
        if str(json_path) == "-":
            return
    table = Table(show_header=False, box=None)
    for name, value in found.items():
        table.add_row(name, str(value))
    report.console().print(table)
