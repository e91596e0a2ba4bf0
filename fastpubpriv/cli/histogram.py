"""`fastpubpriv histogram`: a private histogram with no range given."""

from __future__ import annotations

from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options
from fastpubpriv.cli.means import common, prepare, run

EPILOG = """\b
Examples:
  fastpubpriv histogram --private flights.parquet --columns arr_delay --width 10 --epsilon 1 --delta 1e-7
  fastpubpriv histogram --private p.npy --dyadic --epsilon 1 --delta 1e-7 --json out.json --plot out.png
"""


@click.command(epilog=EPILOG, short_help="Histograms of private columns, with no range given.")
@options.private_option("The values to protect")
@options.budget_options()
@click.option("--columns", metavar="A,B,...", help="Columns of the table. Default: all numeric columns.")
@options.join_option
@click.option("--width", type=options.Exact(), help="Width of the bins, in data units.")
@click.option(
    "--offset",
    type=options.Exact(),
    default="0",
    show_default=True,
    help="Where a bin ends; the others end whole widths from there.",
)
@click.option(
    "--levels",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Also bins 2, 4, ... times as wide, each level a histogram of its own.",
)
@click.option("--dyadic", is_flag=True, help="Bins between powers of two of the absolute value, in place of --width.")
@click.option("--joint", is_flag=True, help="One histogram over all columns together, in place of one for each column.")
@click.option(
    "--noise",
    type=click.Choice(["auto", "laplace", "gaussian"]),
    default="auto",
    show_default=True,
    help="Noise on the counts; auto takes what hides fewer bins.",
)
@click.option(
    "--pad",
    type=click.Choice(["occupied", "all"]),
    default="occupied",
    show_default=True,
    help="Draw noise for the occupied bins, or for as many as the rows could occupy; the result is the same.",
)
@options.memory_option("8e9")
@options.ledger_options
@options.run_options
@options.output_options
def histogram(**settings: Any) -> None:
    """Histograms of private columns, with no range given: only bins with enough rows show, with noisy counts.

    The bins must not be chosen by looking at the private rows. --delta is needed: it is what a bin of a single row may show.
    """
    if settings["dyadic"] == (settings["width"] is not None):
        raise click.UsageError("pass either --width W or --dyadic")
    if settings["dyadic"] and (settings["levels"] > 1 or settings["offset"]):
        raise click.UsageError("--levels and --offset belong to --width")
    opened = prepare(settings)

    def call(ledger: Any) -> fpp.HistogramResult:
        grid: Any = fpp.DyadicBins()
        if settings["width"] is not None:
            grid = fpp.BinGrid(
                width=options.real(settings["width"], "--width"),
                offset=options.real(settings["offset"], "--offset"),
                levels=settings["levels"],
            )
        bins = fpp.ProductBins(grids=[grid] * opened.private.dim) if settings["joint"] else grid
        return fpp.stable_histogram(
            opened.private,
            bins=bins,
            noise=settings["noise"],
            pad=settings["pad"],
            ledger=ledger,
            max_memory=settings["max_memory"],
            **common(settings),
        )

    run(call, f"Private histogram of {opened.private.n:,} rows", settings)
