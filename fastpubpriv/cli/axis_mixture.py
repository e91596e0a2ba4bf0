"""`fastpubpriv axis-mixture`: mixtures of axis-aligned Gaussians, with no range given."""

from __future__ import annotations

from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options
from fastpubpriv.cli.means import common, prepare, run

EPILOG = """\b
Examples:
  fastpubpriv axis-mixture --private delays.parquet --columns minutes --components 3 --epsilon 1 --delta 1e-7 --plot out.png
  fastpubpriv axis-mixture --private p.npy --public q.npy --components 4 --epsilon 1 --json out.json
"""


@click.command(
    "axis-mixture", epilog=EPILOG, short_help="Mixture of Gaussians with independent columns, and no range given."
)
@options.private_option()
@options.public_option(required=False)
@click.option("--components", required=True, type=options.Count(), help="Most Gaussians in the mixture.")
@options.budget_options(" Without --public it must be --epsilon with --delta.")
@options.columns_option
@options.method_option(
    "fastpubpriv.mixtures.axis_aligned.learn",
    "How it is learnt; auto decides by columns, rows, budget and whether there are public rows.",
)
@click.option("--variance", type=float, help="Known variance of every Gaussian in every column. Default: learnt.")
@click.option("--accuracy", type=float, help="Wanted total variation; needed for --method list_decoding.")
@click.option("--candidates", type=int, help="Length of the list that is chosen from.")
@click.option(
    "--held-out",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of the private rows that choose among the iterations of --method dp_em.",
)
@options.mixture_bounds_option
@options.failure_option
@options.memory_option(None)
@options.ledger_options
@options.run_options
@options.output_options
def axis_mixture(**settings: Any) -> None:
    """Mixture of Gaussians with independent columns, and no range given.

    Values may lie anywhere. Without public rows the budget must have a delta; several columns then need groups that are
    apart in some of them.
    """
    opened = prepare(settings)
    bounds = options.two_numbers(settings["bounds"], "--bounds")

    def call(ledger: Any) -> fpp.MixtureResult:
        return fpp.learn_axis_aligned_mixture(
            opened.private,
            x_pub=opened.public,
            n_components=settings["components"],
            variance=settings["variance"],
            accuracy=settings["accuracy"],
            candidates=settings["candidates"],
            held_out=settings["held_out"],
            failure_prob=settings["failure_prob"],
            bounds=bounds,
            max_memory=settings["max_memory"],
            ledger=ledger,
            **options.given(settings, "method"),
            **common(settings),
        )

    drawing = {} if opened.public is None else {"x_pub": opened.public}
    run(call, f"Private mixture of {opened.private.n:,} rows", settings, **drawing)
