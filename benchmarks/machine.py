"""`python -m benchmarks.machine`: speed of private means on this machine, against NumPy, in one run of a few seconds.

NumPy does the same in floating point (clip, average, add Gaussian noise), which is not private; this library uses exact integers
and exact noise. `--json FILE` writes the numbers, `--compare OLD.json` adds those of such a file, perhaps of another machine.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from fastpubpriv._types import FloatArray
from fastpubpriv.cli.tools import describe_machine
from fastpubpriv.estimators.coinpress import coinpress_mean
from fastpubpriv.privacy import ZCDP

# With many rows the clipped sum takes most of the time, with many columns the noise.
SHAPES = ((200_000, 50), (4, 500_000))
ROUNDS = 7
RADIUS = 8.0
MOST_LETTERS = 300  # maximum length of the description of a machine


class Lap(NamedTuple):
    """One comparison: the shape of the rows, and median seconds of ours and of NumPy in interleaved runs."""

    n_priv: int
    dim: int
    seconds: float
    numpy_seconds: float

    @property
    def ratio(self) -> float:
        """Return the speedup over NumPy."""
        return self.numpy_seconds / self.seconds


class Older(NamedTuple):
    """Content of a file of `--json`: seconds and ratio for each shape, and the machine."""

    laps: dict[tuple[int, int], tuple[float, float]]
    machine: str


def race(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Return the median seconds of each, in alternating runs so that other load slows both; one warm-up each."""

    def lap(function: Callable[[], object]) -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    lap(ours)
    lap(theirs)
    laps = [(lap(ours), lap(theirs)) for _ in range(rounds)]
    return statistics.median(a for a, _ in laps), statistics.median(b for _, b in laps)


def float_mean(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a noisy mean as usually written: clip each row to a ball, average, add Gaussian noise in floats."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    clipped = rows * np.minimum(1.0, RADIUS / np.maximum(norms, 1e-300))[:, None]
    mean: FloatArray = clipped.mean(axis=0) + 2.0 * RADIUS / len(rows) * rng.standard_normal(
        rows.shape[1]
    )
    return mean


def measure(
    threads: int | None, *, shapes: Sequence[tuple[int, int]] = SHAPES, rounds: int = ROUNDS
) -> list[Lap]:
    """Time the complete public function and NumPy on each shape."""
    rng = np.random.default_rng(0)
    given = {
        "budget": ZCDP(0.5),
        "center": 0.0,
        "radius": 1.0,
        "steps": 1,
        "threads": threads,
        "progress": False,
    }
    laps = []
    for n_priv, dim in shapes:
        rows = rng.standard_normal((n_priv, dim))
        times = race(
            lambda rows=rows: coinpress_mean(rows, **given),
            lambda rows=rows: float_mean(rows, rng),
            rounds,
        )
        laps.append(Lap(n_priv, dim, *times))
    return laps


def named(machine: dict[str, Any], threads: Any) -> str:
    """Return the properties of a machine that determine its speed, in one line."""
    said = [str(machine.get(name, "unknown")) for name in ("processor", "instructions", "BLAS")]
    number = machine.get("fastpubpriv", "unknown")
    # The file is untrusted: control characters must not reach the terminal.
    text = f"fastpubpriv {number}, {', '.join(said)}, threads: {threads}"
    return "".join(letter if letter.isprintable() else " " for letter in text)[:MOST_LETTERS]


def table_of(laps: Sequence[Lap], before: Older | None) -> Table:
    """Return the table of our times and NumPy's, with those of an older file if given."""
    table = Table(
        title="Private mean, medians of interleaved runs", title_justify="left", title_style="bold"
    )
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
    """Read a file that `--json` wrote, perhaps in an older version; raise ValueError for any other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        laps = {
            (int(lap["n_priv"]), int(lap["dim"])): (float(lap["seconds"]), float(lap["ratio"]))
            for lap in found["laps"]
        }
        if not laps or not all(
            0.0 < number < math.inf for pair in laps.values() for number in pair
        ):
            raise ValueError("no times")
        return Older(laps, named(dict(found.get("machine", {})), found.get("threads", "unknown")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path}: not a file that `python -m benchmarks.machine --json` wrote"
        ) from error


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, and write the numbers with `--json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers")
    parser.add_argument(
        "--compare", type=Path, metavar="OLD.json", help="a file of --json to show beside"
    )
    asked = parser.parse_args(arguments)
    try:
        before = None if asked.compare is None else read_older(asked.compare)
    except ValueError as error:
        parser.error(str(error))
    laps = measure(asked.threads)
    machine = describe_machine()
    threads = asked.threads or machine["CPUs"]
    if asked.json is not None:
        written = {"machine": machine, "threads": threads}
        written["laps"] = [{**lap._asdict(), "ratio": lap.ratio} for lap in laps]
        asked.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    console = Console(highlight=False)
    console = (
        console if console.is_terminal else Console(highlight=False, width=max(console.width, 110))
    )
    console.print(table_of(laps, before))
    console.print(f"now: {named(machine, threads)}", markup=False)
    if before is not None:
        console.print(f"old: {before.machine}", markup=False)


if __name__ == "__main__":
    main()
