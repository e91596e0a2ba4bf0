"""`fastpubpriv bench`: what this machine does, beside NumPy, in one run of a few seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fastpubpriv as fpp

if TYPE_CHECKING:
    import numpy as np

    FloatArray = np.ndarray[Any, np.dtype[np.float64]]

DRAWS = 1_000_000
ROWS, COLUMNS = 200_000, 50
ROUNDS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison, in units a second."""

    what: str
    unit: str
    ours: float
    numpy: float


def race(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of each, taking turns so that a busy machine slows both."""

    def lap(function: Callable[[], object]) -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    lap(ours)
    lap(theirs)
    laps = [(lap(ours), lap(theirs)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in laps), statistics.median(b for _, b in laps)


def clipped_mean(rows: FloatArray, radius: float) -> FloatArray:
    """What people write: clip each row to a ball and average, without noise."""
    import numpy as np

    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    clipped: FloatArray = rows * np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None]
    mean: FloatArray = clipped.mean(axis=0)
    return mean


def measure(threads: int | None) -> list[Line]:
    """Time noise and clipped sums through the public functions, everything included."""
    import numpy as np

    from fastpubpriv.mechanisms.account import Account
    from fastpubpriv.mechanisms.release import release
    from fastpubpriv.privacy import GaussianEvent

    rng = np.random.default_rng(0)
    budget = fpp.ZCDP(0.5)
    zeros = np.zeros(DRAWS, dtype=np.int64)
    event = GaussianEvent(squared_sensitivity=4, log2_scale=10, draws=DRAWS)

    def released() -> FloatArray:
        account = Account("bench", budget, draws=DRAWS)
        account.open()
        return release(account, name="bench", query=lambda: zeros, shape=(DRAWS,), event=event, unit=1.0)

    noise = race(released, lambda: rng.standard_normal(DRAWS))
    rows = rng.standard_normal((ROWS, COLUMNS))
    radius = 8.0
    sums = race(
        lambda: fpp.coinpress_mean(
            rows, budget=budget, center=0.0, radius=1.0, steps=1, threads=threads, progress=False
        ),
        lambda: clipped_mean(rows, radius),
    )
    return [
        Line(
            what=f"release of {DRAWS:,} zeros with exact Gaussian noise / standard_normal",
            unit="draws",
            ours=DRAWS / noise[0],
            numpy=DRAWS / noise[1],
        ),
        Line(
            what=f"private mean of {ROWS:,} rows x {COLUMNS} columns / clip and mean, no noise",
            unit="rows",
            ours=ROWS / sums[0],
            numpy=ROWS / sums[1],
        ),
    ]


@click.command(short_help="How fast this machine draws noise and sums rows, beside NumPy.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: all cores.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the numbers; - for stdout.")
def bench(threads: int | None, json_path: Path | None) -> None:
    """How fast this machine draws noise and sums rows, beside NumPy, in one run of a few seconds.

    NumPy's side adds no privacy: it is what the same arithmetic costs without it. The full suites with all peers are in
    the benchmarks folder of the source (make bench).
    """
    from dataclasses import asdict

    from rich.table import Table

    from fastpubpriv.cli import report

    report.check_outputs(json_path, None)
    lines = measure(threads)
    if json_path is not None:
        report.write_json({"lines": [asdict(line) for line in lines]}, json_path)
        if str(json_path) == "-":
            return
    table = Table(title="Millions a second, medians of interleaved runs", title_justify="left", title_style="bold")
    table.add_column("ours / NumPy")
    for heading in ("unit", "ours", "NumPy", "ratio"):
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(
            line.what, line.unit, f"{line.ours / 1e6:.1f}", f"{line.numpy / 1e6:.1f}", f"{line.ours / line.numpy:.2f}x"
        )
    report.console().print(table)
