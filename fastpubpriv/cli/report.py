"""What the terminal shows: a table, a few lines under it, warnings, and the names of the files that were written."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Framed

from fastpubpriv.cli import streams
from fastpubpriv.errors import AccuracyWarning, ExperimentalWarning, PrivacyWarning, SeededNoiseWarning
from fastpubpriv.results import words
from fastpubpriv.results.base import plain, shown
from fastpubpriv.results.estimates import GaussianResult, MeanResult
from fastpubpriv.results.histogram import HistogramResult
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.training import TrainingResult
from fastpubpriv.results.words import Table

Shown = MeanResult | GaussianResult | MixtureResult | HistogramResult | TrainingResult
OURS = (AccuracyWarning, ExperimentalWarning, PrivacyWarning, SeededNoiseWarning)
MOST_CORRELATIONS = 10
MOST_HISTOGRAMS = 6


def console(*, stderr: bool = False) -> Console:
    """A console on the stream of the moment (tests replace it); wide output when nobody watches."""
    stream: Any = streams.standard_error() if stderr else streams.standard_output()
    made = Console(file=stream or io.StringIO(), highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(file=made.file, highlight=False, width=max(made.width, 110))


def print_table(table: Table, *, title: str) -> None:
    """The table of a value in a frame; words of a status that is not "ok" stand out."""
    (names, *lines), more = words.cells(table, rounded=True, where="--json FILE")
    framed = Framed(title=escape(title), title_justify="left", title_style="bold")
    for name in names:
        left = name in ("column", "meaning", "status")
        framed.add_column(escape(name), justify="left" if left else "right", no_wrap=name == "status")
    for line in lines:
        marked = [
            f"[bold yellow]{escape(cell)}[/]" if name == "status" and cell not in ("ok", "resolved") else escape(cell)
            for name, cell in zip(names, line, strict=True)
        ]
        framed.add_row(*marked)
    console().print(framed)
    for text in more:
        console().print(text)


def tables_of(result: Shown, *, level: float, title: str) -> Iterator[tuple[str, Table]]:
    """Title and table of what a terminal shows: the result's own, a histogram at a time, and the correlations of a Gaussian."""
    if not isinstance(result, HistogramResult):
        yield title, shown(result, level)[0]
        if isinstance(result, GaussianResult) and 1 < result.dim <= MOST_CORRELATIONS:
            pairs = list(zip(result.labels, np.round(result.correlation, 2).T, strict=True))
            yield "Correlations", Table("column", result.labels, pairs)
        return
    for item in result.histograms[:MOST_HISTOGRAMS]:
        largest = np.sort(np.argsort(-item.counts, kind="stable")[: words.MOST_ROWS])
        arrays = ("keys", "counts", "lower", "upper", "frequency")
        short = replace(item, **{name: getattr(item, name)[largest] for name in arrays})
        note = f", the {len(largest)} largest of {len(item)} bins" if len(largest) < len(item) else ""
        level_note = f", level {item.level}" if item.level or len(result) > 1 else ""
        yield f"{title}{level_note}{note}", shown(replace(result, histograms=(short,)))[0]


def print_result(result: Shown, *, level: float, title: str, ledger: Any = None) -> None:
    """The tables of a result and what a reader must know about it."""
    for name, table in tables_of(result, level=level, title=title):
        print_table(table, title=name)
    if isinstance(result, HistogramResult) and len(result) > MOST_HISTOGRAMS:
        console().print(f"... and {len(result) - MOST_HISTOGRAMS} more histograms; --json FILE writes all of them.")
    facts = [(name, escape(text)) for name, text in shown(result, level)[1]]
    if not result.private:
        facts[-1] = ("Private", "[bold red]NO: the noise came from --seed[/]")
    if ledger is not None:
        facts.append(("Ledger", f"{words.short(ledger.remaining)} remains of {words.short(ledger.total)}"))
    print_facts(facts)


def print_facts(facts: list[tuple[str, str]]) -> None:
    """Pairs in two columns, without lines."""
    grid = Framed.grid(padding=(0, 2))
    for name, text in facts:
        grid.add_row(f"[dim]{name}[/]", text)
    console().print(grid)


def note(text: str) -> None:
    """A line of advice on the error stream."""
    console(stderr=True).print(f"[yellow]Note:[/] {escape(text)}")


def warn(text: str) -> None:
    """A line of warning on the error stream."""
    console(stderr=True).print(f"[bold yellow]Warning:[/] {escape(text)}")


@contextmanager
def collected(texts: list[str]) -> Iterator[None]:
    """Collect the library's own warnings, each text once; others are dropped, as they may quote rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for item in caught:
        text = " ".join(str(item.message).split())
        if issubclass(item.category, OURS) and text not in texts:
            texts.append(text)


@contextmanager
def nice_warnings(texts: list[str]) -> Iterator[None]:
    """As `collected`, and show them."""
    new: list[str] = []
    with collected(new):
        yield
    for text in new:
        if text not in texts:
            texts.append(text)
            warn(text)


def result_dict(result: Shown, *, level: float, warned: list[str]) -> dict[str, Any]:
    """The result's own dictionary, with what a reader would compute from it and the warnings that were shown."""
    if isinstance(result, GaussianResult):
        return {**result.to_dict(), "correlation": result.correlation.tolist(), "warnings": warned}
    if not isinstance(result, MeanResult):
        return {**result.to_dict(), "warnings": warned}
    lower, upper = result.confidence_interval(level)
    return {
        **result.to_dict(),
        "standard_error": result.standard_error.tolist(),
        "confidence_interval": {"level": level, "lower": plain(lower), "upper": plain(upper)},
        "warnings": warned,
    }
