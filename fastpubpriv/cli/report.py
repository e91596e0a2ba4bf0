"""What a person sees: a table, a few lines under it, warnings; and the files that are written."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fastpubpriv.cli import streams
from fastpubpriv.errors import AccuracyWarning, ExperimentalWarning, PrivacyWarning, SeededNoiseWarning
from fastpubpriv.results.base import plain
from fastpubpriv.results.estimates import GaussianResult, MeanResult
from fastpubpriv.results.histogram import Histogram, HistogramResult
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.words import explain, number, short

Shown = MeanResult | GaussianResult | MixtureResult | HistogramResult
OURS = (AccuracyWarning, ExperimentalWarning, PrivacyWarning, SeededNoiseWarning)
MOST_ROWS = 60
MOST_CORRELATIONS = 10
MOST_SPREADS = 8
MOST_HISTOGRAMS = 6


def console(*, stderr: bool = False) -> Console:
    """A console on the stream of the moment (tests replace it); wide output when nobody watches."""
    stream: Any = streams.standard_error() if stderr else streams.standard_output()
    made = Console(file=stream or io.StringIO(), highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(file=made.file, highlight=False, width=max(made.width, 110))


def mean_table(result: MeanResult, *, level: float, title: str, names: tuple[str, ...] | None = None) -> Table:
    """Column, estimate, interval, noise."""
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    table.add_column("column")
    table.add_column("estimate", justify="right", style="bold")
    table.add_column(f"{level:.4g} interval" if level > 0.9999 else f"{100 * level:.4g} % interval", justify="right")
    table.add_column("noise std", justify="right")
    if result.status:
        table.add_column("status")
    lower, upper = result.confidence_interval(level)
    errors = result.standard_error
    for j, name in enumerate((names or result.labels)[:MOST_ROWS]):
        scale = float(errors[j])
        table.add_row(
            escape(name),
            number(result.mean[j], scale),
            f"{number(lower[j], scale)} to {number(upper[j], scale)}",
            number(result.noise_std[j], result.noise_std[j]),
            *result.status[j : j + 1],
        )
    return table


def gaussian_tables(result: GaussianResult, *, title: str, names: tuple[str, ...] | None = None) -> list[Table]:
    """Mean and standard deviation of each column; then the correlations, if they fit on a screen."""
    shown = (names or result.labels)[:MOST_ROWS]
    deviations = np.sqrt(np.diag(result.covariance))
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    table.add_column("column")
    table.add_column("mean", justify="right", style="bold")
    table.add_column("mean's noise std", justify="right")
    table.add_column("standard deviation", justify="right", style="bold")
    for j, name in enumerate(shown):
        error = math.hypot(float(result.mean_noise_std[j]), float(deviations[j]) / math.sqrt(result.n_priv))
        table.add_row(
            escape(name),
            number(result.mean[j], error),
            number(result.mean_noise_std[j], result.mean_noise_std[j]),
            f"{deviations[j]:.4g}",
        )
    if result.dim > MOST_CORRELATIONS or result.dim == 1:
        return [table]
    matrix = Table(title="Correlations", title_justify="left", title_style="bold")
    matrix.add_column("")
    for name in shown:
        matrix.add_column(escape(name), justify="right")
    for j, name in enumerate(shown):
        matrix.add_row(escape(name), *(f"{value:.2f}" for value in result.correlation[j, : j + 1]))
    return [table, matrix]


def mixture_table(result: MixtureResult, *, title: str, names: tuple[str, ...] | None = None) -> Table:
    """Weight, status, and mean with standard deviation of each column, for each component."""
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    table.add_column("component", justify="right")
    table.add_column("weight", justify="right", style="bold")
    shown = (names or result.labels)[:MOST_SPREADS]
    for name in shown:
        table.add_column(f"{escape(name)}\nmean ± std", justify="right")
    table.add_column("status")
    for index in range(min(result.n_components, MOST_ROWS)):
        spreads = np.sqrt(np.diag(result.covariances[index]))
        cells = [
            f"{number(float(result.means[index, j]), float(spreads[j]) / 10.0)} ± {spreads[j]:.3g}"
            for j in range(len(shown))
        ]
        status = result.status[index]
        mark = status if status == "ok" else f"[bold yellow]{escape(status.replace('_', ' '))}[/]"
        table.add_row(str(index), f"{result.weights[index]:.3f}", *cells, mark)
    return table


def histogram_table(result: HistogramResult, item: Histogram, *, title: str) -> Table:
    """The most frequent bins of one histogram, in order, each with its noisy count."""
    names = result.labels
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    for column in item.columns:
        table.add_column(f"{escape(names[column])} above", justify="right")
        table.add_column("up to", justify="right")
    table.add_column("rows", justify="right", style="bold")
    shown = np.sort(np.argsort(-item.counts, kind="stable")[:MOST_ROWS])
    for index in shown:
        pairs = zip(item.lower[index], item.upper[index], strict=True)
        ends = [number(end, (upper - lower) / 10.0) for lower, upper in pairs for end in (lower, upper)]
        table.add_row(*ends, number(item.counts[index], result.noise_std))
    if len(item) > MOST_ROWS:
        table.caption = f"{MOST_ROWS} of {len(item)} bins, those with the largest counts"
    return table


def print_histograms(result: HistogramResult, title: str) -> None:
    """A table for each histogram, as many as one wants to read."""
    for item in result.histograms[:MOST_HISTOGRAMS]:
        level = f", level {item.level}" if item.level or len(result) > 1 else ""
        console().print(histogram_table(result, item, title=f"{title}{level}"))
    if len(result) > MOST_HISTOGRAMS:
        console().print(f"... and {len(result) - MOST_HISTOGRAMS} more histograms; --json FILE writes all of them.")


def tables_of(
    result: MeanResult | GaussianResult | MixtureResult, *, level: float, title: str, names: tuple[str, ...] | None
) -> list[Table]:
    """The tables of a result, whichever it is."""
    if isinstance(result, MeanResult):
        return [mean_table(result, level=level, title=title, names=names)]
    if isinstance(result, GaussianResult):
        return gaussian_tables(result, title=title, names=names)
    return [mixture_table(result, title=title, names=names)]


def print_result(
    result: Shown,
    *,
    level: float,
    title: str,
    ledger: Any = None,
    names: tuple[str, ...] | None = None,
) -> None:
    """The tables of a result and what a reader must know about it."""
    out = console()
    if isinstance(result, HistogramResult):
        print_histograms(result, title)
    else:
        for table in tables_of(result, level=level, title=title, names=names):
            out.print(table)
        most = MOST_ROWS if isinstance(result, MeanResult | GaussianResult) else MOST_SPREADS
        if result.dim > most:
            out.print(f"... and {result.dim - most} more columns; --json FILE writes all of them.")
    public = f"{result.n_pub:,} public" if result.n_pub else "no public"
    facts = [
        ("Rows", f"{result.n_priv:,} private, {public}"),
        *predicted(result),
        ("Spent", explain(result.spent, result.releases)),
        ("Neighbours", result.relation),
        ("Private", "yes" if result.private else "[bold red]NO: the noise came from --seed[/]"),
    ]
    if ledger is not None:
        facts.append(("Ledger", f"{short(ledger.remaining)} remains of {short(ledger.total)}"))
    print_facts(facts)


def predicted(result: Shown) -> list[tuple[str, str]]:
    """The errors that public numbers predict for a Gaussian; how noisy the counts of a histogram are; how a mixture was found."""
    if isinstance(result, HistogramResult):
        noise = f"{result.noise_law}, standard deviation {result.noise_std:.3g} rows"
        return [("Noise", noise), ("Hidden", f"bins with a noisy count below {result.threshold:.4g} rows")]
    if isinstance(result, MeanResult):
        return []
    if not isinstance(result, GaussianResult):
        asked = result.diagnostics.get("n_components_asked", result.n_components)
        return [("Found", f"{result.n_components} of {asked} components, by {result.method.replace('_', ' ')}")]
    text = (
        f"covariance {result.predicted_covariance_error:.1%} (relative Frobenius), mean "
        f"{result.predicted_mean_error:.3g} standard deviations; {result.rounds} rounds"
    )
    return [("Predicted error", text)]


def print_facts(facts: list[tuple[str, str]]) -> None:
    """Pairs in two columns, without lines."""
    grid = Table.grid(padding=(0, 2))
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
