"""`fastpubpriv mixture`: separated Gaussian components."""

from __future__ import annotations

from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options
from fastpubpriv.cli.means import common, prepare, run

EPILOG = """\b
Examples:
  fastpubpriv mixture --private visits.parquet --public volunteers.csv --components 3 --rho 0.5 --plot groups.png
  fastpubpriv mixture --private p.npy --public q.npy --components 4 --min-weight 0.1 --epsilon 1 --delta 1e-7 --json out.json
"""


@click.command(epilog=EPILOG, short_help="Groups of private rows: weight, mean and covariance of each.")
@options.private_option()
@options.public_option(required=True)
@click.option("--components", required=True, type=options.Count(), help="Most groups to look for.")
@click.option("--min-weight", type=float, help="Share of the rows in the smallest group. Default: half an equal share.")
@options.budget_options()
@options.columns_option
@options.method_option(
    "fastpubpriv.mixtures.separated.searches", "How groups are found; auto decides by the number of public rows."
)
@options.structure_option
@click.option(
    "--mode",
    type=click.Choice(["practical", "theory"]),
    default="practical",
    show_default=True,
    help="Searches that do well in practice, or those of the proofs, which need far more separation. Same privacy.",
)
@options.mixture_bounds_option
@options.failure_option
@options.ledger_options
@options.run_options
@options.output_options
def mixture(**settings: Any) -> None:
    """Groups of private rows: weight, mean and covariance of each.

    For groups that lie several standard deviations apart, in columns of any units. Public rows must include some of each
    group. Fewer groups than asked for are found if the rest cannot be told apart.
    """
    opened = prepare(settings)
    bounds = options.two_numbers(settings["bounds"], "--bounds")
    components = settings["components"]
    weight = settings["min_weight"] if settings["min_weight"] is not None else 0.5 / components

    def call(ledger: Any) -> fpp.MixtureResult:
        return fpp.learn_separated_mixture(
            opened.private,
            x_pub=opened.public,
            n_components=components,
            min_weight=weight,
            mode=settings["mode"],
            failure_prob=settings["failure_prob"],
            bounds=bounds,
            ledger=ledger,
            **options.given(settings, "method", "structure"),
            **common(settings),
        )

    run(call, f"Private groups of {opened.private.n:,} rows", settings, x_pub=opened.public)
