"""`fastpubpriv gaussian`: mean and covariance."""

from __future__ import annotations

from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options
from fastpubpriv.cli.means import common, prepare, run

EPILOG = """\b
Examples:
  fastpubpriv gaussian --private visits.parquet --public volunteers.csv --rho 0.5 --plot ellipses.png
  fastpubpriv gaussian --private p.npy --public other_town.npy --gap 0.9 --epsilon 1 --delta 1e-7 --json out.json
"""


@click.command(epilog=EPILOG, short_help="Mean and covariance of private rows, with ranges taken from public rows.")
@options.private_option()
@options.public_option(required=True)
@options.budget_options()
@options.columns_option
@click.option(
    "--gap",
    type=float,
    default=0.0,
    show_default=True,
    help="How far public and private rows may differ: total variation, 0 to 1. Too low costs accuracy, never privacy.",
)
@options.method_option("fastpubpriv.estimators.learners", "See the README.")
@options.structure_option
@click.option(
    "--rounds", type=click.IntRange(min=1), help="Rounds of the covariance; default: chosen from public numbers."
)
@options.mode_option
@options.gaussian_bounds_option
@options.failure_option
@options.ledger_options
@options.run_options
@options.output_options
def gaussian(**settings: Any) -> None:
    """Mean and covariance of private rows, with ranges taken from public rows.

    Two distinct public rows are enough to begin. What is learnt privately is decided before anything is spent, by what public
    numbers predict to be best. A private row with a missing value adds nothing, but counts.
    """
    opened = prepare(settings)
    bounds = options.two_numbers(settings["bounds"], "--bounds")

    def call(ledger: Any) -> fpp.GaussianResult:
        return fpp.estimate_gaussian(
            opened.private,
            x_pub=opened.public,
            pub_priv_gap=settings["gap"],
            rounds=settings["rounds"],
            mode=settings["mode"],
            failure_prob=settings["failure_prob"],
            bounds=bounds,
            ledger=ledger,
            **options.given(settings, "method", "structure"),
            **common(settings),
        )

    run(call, f"Private mean and covariance of {opened.private.n:,} rows", settings, x_pub=opened.public)
