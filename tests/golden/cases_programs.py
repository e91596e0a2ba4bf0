"""Cases of what people see: the JSON of every command. Figures have tests of their own."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from click.testing import CliRunner
from golden_case import Case
from golden_data import BLOBS, BLOBS_PUBLIC, LINE, MANY_PUBLIC, ROWS

from fastpubpriv.cli import main

RHO = ("--rho", "0.5")
BOTH = ("--epsilon", "1", "--delta", "1e-6")
COLUMNS = ("weight", "height", "age")
FILES = {
    "rows": ROWS,
    "public": MANY_PUBLIC,
    "blobs": BLOBS,
    "blobs_public": BLOBS_PUBLIC,
    "line": LINE,
}


def command(*arguments: str) -> Any:
    """The JSON that a command prints. {name} in an argument is a Parquet file of these rows."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, rows in FILES.items():
            if any(f"{{{name}}}" in argument for argument in arguments):
                # a folder for each: all files have one name
                paths[name] = Path(folder) / name / "rows.parquet"
                paths[name].parent.mkdir()
                table = pa.table(
                    {column: rows[:, j] for j, column in enumerate(COLUMNS[: rows.shape[1]])}
                )
                pyarrow.parquet.write_table(table, paths[name], row_group_size=301)
        filled = [argument.format(**paths) for argument in arguments]
        result = CliRunner().invoke(main, [*filled, "--json", "-"])
        if result.exit_code:
            return {"exit code": result.exit_code}
        return json.loads(result.stdout)


def commands() -> Iterator[Case]:
    two = ("--private", "{rows}", "--public", "{public}")
    alone = ("--private", "{rows}")
    groups = ("--private", "{blobs}", "--public", "{blobs_public}", "--components", "3")
    calls = {
        "mean, counts": ("mean", *two, *RHO),
        "quantiles": ("quantiles", *two, *RHO),
        "describe": ("describe", *two, *RHO),
        "counts": ("counts", *alone, "--columns", "age", "--keys", "1,2", *RHO),
        "counts of two columns": (
            "counts",
            *alone,
            "--columns",
            "age,height",
            "--keys",
            "age=1",
            "--keys",
            "height=2",
            *RHO,
        ),
        "persons": (
            "persons",
            *alone,
            "--person",
            "height",
            "--by",
            "age",
            "--groups",
            "1,2",
            *RHO,
        ),
        "gaussian": ("gaussian", *two, *RHO),
        "mixture": ("mixture", *groups, "--rho", "20"),
        "axis-mixture": ("axis-mixture", "--private", "{line}", "--components", "2", *BOTH),
        "weighted-mean": ("weighted-mean", *two, "--norm-bound", "50", "--epsilon", "1"),
        "coinpress-mean": ("coinpress-mean", *alone, "--center", "1", "--radius", "40", *RHO),
        "histogram, dyadic": (
            "histogram",
            *alone,
            "--columns",
            "age,height",
            "--dyadic",
            "--joint",
            *BOTH,
        ),
        "train": ("train", *two, "--label", "age", "--columns", "weight,height", *RHO),
    }
    for name, arguments in calls.items():
        yield Case(
            name=f"command {name}",
            call=command,
            args=(*arguments, "--seed", "7", "--threads", "1"),
            blas=True,
        )
    numbers = ("--dim", "5", "--n-pub", "20", "--n-priv", "10000")
    yield Case(
        name="command plan, counts", call=command, args=("plan", "mean", *numbers, *RHO), blas=True
    )


CASES = [*commands()]
