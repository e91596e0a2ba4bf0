"""Shared code of the experiments: an experiment computes rows of a table; this module writes them as CSV, figure and summary."""

from __future__ import annotations

import csv
import math
import string
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError, SeededNoiseWarning
from fastpubpriv.results import plots
from fastpubpriv.threads.pool import available_cpus

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Row = dict[str, Any]

SEED_NOTE = "data and noise come from seeds, so that the table repeats: a demonstration, not a private release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run of an experiment; see `Experiment.run`."""

    runs: int
    threads: int | None = None
    progress: bool | None = None
    quick: bool = False
    cells: tuple[tuple[float, float], ...] = ()

    def side_by_side(
        self, function: Callable[[Task], Answer], tasks: Sequence[Task], label: str
    ) -> list[Answer]:
        """See `side_by_side`."""
        return side_by_side(
            function, tasks, threads=self.threads, progress=self.progress, label=label
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Output of an experiment: its summary as lines for a fixed-width font, the paths of two files, and its seconds."""

    name: str
    lines: tuple[str, ...]
    csv: Path
    png: Path
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One reproduction.

    Attributes
    ----------
    name, summary, source : str
        The NAME of `python -m benchmarks.papers NAME`; its content in one line; paper and figure.
    runs : int
        Repetitions of the published figure, or as many as our acceptance band requires.
    rows : callable
        `rows(options)` returns the rows of the table, dictionaries with the same keys.
    lines, draw : callable
        `lines(rows, options)` returns the summary, `draw(rows, options)` the figure.
    notes : str
        Lines at the head of the CSV.
    quick : str or None
        Note in the CSV on the smaller problem, for experiments that take long.
    cells : bool
        Whether single cells of its table can be computed.
    """

    name: str
    summary: str
    source: str
    runs: int
    rows: Callable[[Options], list[Row]]
    lines: Callable[[list[Row], Options], Iterable[str]]
    draw: Callable[[list[Row], Options], Any]
    notes: str
    quick: str | None = None
    cells: bool = False

    def run(
        self,
        out: Path,
        *,
        runs: int | None = None,
        threads: int | None = None,
        progress: bool | None = None,
        quick: bool = False,
        cells: Sequence[tuple[float, float]] = (),
    ) -> Report:
        """Write the CSV and the PNG into `out`, which is created if necessary.

        `runs` None is the published number. `threads` (None: all cores) and `progress` (None: on a terminal) never change the
        results. `quick` is a smaller problem; `cells` are pairs (share of public rows, epsilon) of a table, all if empty.
        """
        start = time.perf_counter()
        if quick and self.quick is None:
            raise InputError(
                f"{self.name} has no smaller problem; pass fewer runs, or leave quick out"
            )
        if cells and not self.cells:
            raise InputError(f"{self.name} is made as a whole; leave cells out")
        checked_threads(threads)
        count = self.runs if runs is None else validation.integer("runs", runs, minimum=2)
        options = Options(
            runs=count, threads=threads, progress=progress, quick=quick, cells=tuple(cells)
        )
        rows = self.rows(options)
        paths = Path(out) / f"{self.name}.csv", Path(out) / f"{self.name}.png"
        write_csv(paths[0], [*([self.quick] if quick else []), *self.notes.splitlines()], rows)
        plots.save(self.draw(rows, options), paths[1])
        lines = tuple(self.lines(rows, options))
        return Report(
            name=self.name,
            lines=lines,
            csv=paths[0],
            png=paths[1],
            seconds=time.perf_counter() - start,
        )


# ---- Runs ------------------------------------------------------------------------------------------------------------


def checked_threads(threads: int | None) -> int:
    """Return the number of threads; None is all cores."""
    return (
        available_cpus() if threads is None else validation.integer("threads", threads, minimum=1)
    )


def noise_seed(size: int, run: int, call: int) -> int:
    """Return the seed of one noisy call from its place in the experiment, independent of threads and order.

    Seeds need only differ: keys are hashes of them.
    """
    return (size << 40) + (run << 8) + call


@contextmanager
def seeded_quietly() -> Iterator[None]:
    """Silence the warning about seeded noise inside the block; every CSV carries `SEED_NOTE` in its place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        yield


def side_by_side(
    function: Callable[[Task], Answer],
    tasks: Sequence[Task],
    *,
    threads: int | None,
    progress: bool | None,
    label: str,
) -> list[Answer]:
    """Apply `function` to every task on `threads` threads; return results in the order of the tasks.

    Threads suffice, as generators, kernels and NumPy release the interpreter lock. Long tasks should come first.
    """
    hidden = not (sys.stderr.isatty() if progress is None else progress)
    console = Console(stderr=True)
    bar = partial(
        track, description=label, total=len(tasks), disable=hidden, transient=True, console=console
    )
    pool = ThreadPoolExecutor(
        min(checked_threads(threads), max(len(tasks), 1)), thread_name_prefix="experiment"
    )
    with seeded_quietly():
        try:
            futures = [pool.submit(function, task) for task in tasks]
            for future in bar(as_completed(futures)):
                future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [future.result() for future in futures]


def trimmed(errors: FloatArray, share: float = 0.1) -> tuple[float, float]:
    """Return the trimmed mean and standard deviation, without `share` of the runs at each end."""
    cut = int(share * len(errors))
    middle = np.sort(errors)[cut : len(errors) - cut]
    return float(middle.mean()), float(middle.std())


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Return the mean of independent values, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


# ---- Tables ----------------------------------------------------------------------------------------------------------


def write_csv(path: Path, notes: Iterable[str], rows: Sequence[Row]) -> None:
    """Write rows below a header of their keys, numbers with seven digits, after `notes` as lines that begin with '#'."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {note}\n" for note in notes)
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{x:.7g}" if isinstance(x, float) else x for name, x in row.items()}
            for row in rows
        )


class _Cells(string.Formatter):
    """Formatter that writes a dash for a missing number."""

    def format_field(self, value: Any, spec: str) -> str:
        missing = value is None or (isinstance(value, float) and math.isnan(value))
        return "-" if missing else format(value, spec)


def filled(form: str, row: Mapping[str, Any]) -> str:
    """Return a format such as "{loss:.4f}" filled from a row."""
    return _Cells().vformat(form, (), row)


def text_table(columns: Mapping[str, str], rows: Iterable[Row]) -> list[str]:
    """Return lines of a table; `columns` maps each heading to a format, which is filled from each row."""
    return aligned(
        list(columns), [[filled(form, row) for form in columns.values()] for row in rows]
    )


def crossed(rows: Sequence[Row], index: str, across: str, cell: str) -> list[str]:
    """Return lines of a pivot table: a line for each value of `index`, a column for each of `across`, and `cell` as format."""
    places = list(dict.fromkeys(row[across] for row in rows))
    found = {(row[index], row[across]): filled(cell, row) for row in rows}
    names = dict.fromkeys(row[index] for row in rows)
    head = (index, *(f"{across}={place}" for place in places))
    return aligned(head, [[str(name), *(found[name, place] for place in places)] for name in names])


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Align cells into lines: the first column to the left, the others to the right."""
    grid = [head, *rows]
    widths = [max(len(row[j]) for row in grid) for j in range(len(head))]
    widths[0] = -widths[0]
    return [
        "  ".join(
            cell.ljust(-w) if w < 0 else cell.rjust(w) for cell, w in zip(row, widths, strict=True)
        ).rstrip()
        for row in grid
    ]


def where(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def column(rows: Iterable[Row], name: str) -> FloatArray:
    """Return one column as numbers."""
    return np.array([row[name] for row in rows], dtype=np.float64)


# ---- Figures ---------------------------------------------------------------------------------------------------------

GREY = "#555555"


def panels(
    width: float, height: float, down: int = 1, across: int = 1, *, title: str = "", **shared: Any
) -> tuple[Any, Any]:
    """Return a figure with a title, and its panels as an array (down, across)."""
    figure = plots.new_figure(width, height)
    grid = figure.subplots(down, across, squeeze=False, **shared)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure, grid


def curve(
    axes: Any, rows: Sequence[Row], x: str, y: str, style: str = "o-", color: Any = 0, **more: Any
) -> None:
    """Plot a column against another; `color` is an index into the palette or any color."""
    shade = plots.PALETTE[color % len(plots.PALETTE)] if isinstance(color, int) else color
    axes.plot(column(rows, x), column(rows, y), style, color=shade, **{"ms": 4, "lw": 1.1} | more)


def finish(
    axes: Any,
    x: str = "",
    y: str = "",
    *,
    log: str = "",
    title: str = "",
    legend: int = 8,
    ticks: Sequence[float] = (),
) -> None:
    """Label a panel and draw its grid.

    `log` names logarithmic axes ("x", "y", "xy"), `legend` is the font size of the legend (0: none), `ticks` are those of the
    vertical axis.
    """
    from matplotlib.ticker import FixedLocator, NullLocator

    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if len(ticks):
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3, lw=0.5)
    if legend:
        axes.legend(frameon=False, fontsize=legend)
