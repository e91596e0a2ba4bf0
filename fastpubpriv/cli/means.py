"""`fastpubpriv mean`, `weighted-mean` and `coinpress-mean`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options

if TYPE_CHECKING:
    from fastpubpriv.cli.report import Shown


def run(
    call: Callable[[Any], Shown],
    title: str,
    settings: dict[str, Any],
    **drawing: Any,
) -> None:
    """Spend, release, show, write: what the commands have in common. `call(ledger)` makes the release; `drawing` goes to `plot`."""
    from fastpubpriv.cli import deliver

    deliver.run(call, title, settings, **drawing)


def prepare(settings: dict[str, Any], **reading: Any) -> Any:
    """Everything that can be refused before the budget is touched; returns the opened files. `reading`: as for `open_files`."""
    from fastpubpriv.cli import inputs, outputs, report

    settings["budget"] = options.require_budget(settings["rho"], settings["epsilon"], settings["delta"])
    files = (settings["private_path"], settings.get("public_path"), settings["ledger"])
    outputs.check_outputs(settings["json_path"], settings["plot_path"], files)
    outputs.check_reader(settings["json_path"], settings["plot_path"], settings["quiet"])
    opened = inputs.open_files(
        settings["private_path"],
        settings.get("public_path"),
        settings["columns"],
        settings["join_quoted_lines"],
        finite="label" not in settings,
        **reading,
    )
    if not settings["quiet"]:
        for text in opened.notes:
            report.note(text)
    return opened


def common(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments that every estimator takes."""
    return {
        "budget": settings["budget"],
        "random_state": settings["seed"],
        "threads": settings["threads"],
        "progress": False if settings["quiet"] else None,
    }


def refine(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the estimators that narrow a ball."""
    return {name: settings[name] for name in ("steps", "mode", "failure_prob")}


MEAN_EPILOG = """\b
Examples:
  fastpubpriv mean --private visits.parquet --public volunteers.csv --rho 0.5
  fastpubpriv mean --private p.npy --public q.npy --epsilon 1 --delta 1e-7 --json out.json --plot out.png
  fastpubpriv mean --private p.csv --public q.csv --columns age,income --rho 0.1 \\
      --ledger survey.ledger --ledger-total rho=1
"""


@click.command(epilog=MEAN_EPILOG, short_help="Mean of private rows, with the range taken from public rows.")
@options.private_option()
@options.public_option(required=True)
@options.budget_options()
@options.columns_option
@click.option(
    "--clipping",
    type=click.Choice(["auto", "gaussian"]),
    default="auto",
    show_default=True,
    help="auto: private counts show where each column lies and ends, in any unit and of any shape. gaussian: a ball for rows "
    "like those of a Gaussian; also with --covariance, and what --gap, --steps, --mode and --failure-prob belong to.",
)
@click.option(
    "--covariance",
    metavar="public|FILE.npy",
    help="For gaussian: how the rows spread, estimated from the public rows, or a covariance matrix in a file. Default: public, "
    "if there are more public rows than columns, else a variance of 1 in every column.",
)
@options.variance_option
@click.option(
    "--bounds",
    metavar="LOW,HIGH",
    help="Two numbers between which all values of all columns are known to lie: intervals become finite and sharper.",
)
@click.option(
    "--missing",
    type=click.Choice(["observed", "neutral"]),
    default="observed",
    show_default=True,
    help="observed: the mean of a column is that of its numbers. neutral: a row with a missing value is left out everywhere.",
)
@click.option(
    "--public-only",
    type=click.Choice(["never", "auto"]),
    default="never",
    show_default=True,
    help="auto: where 30 or more public rows are predicted to be closer by themselves, spend nothing and show their mean.",
)
@click.option(
    "--gap",
    type=float,
    default=0.0,
    show_default=True,
    help="How far public and private rows may differ: total variation, 0 to 1. Too low costs accuracy, never privacy.",
)
@options.refine_options
@options.ledger_options
@options.run_options
@options.output_options
def mean(**settings: Any) -> None:
    """Mean of private rows in any unit and of any shape, from one public row or more.

    Part of the budget counts where the values of each column lie and end, the rest goes into one clipped sum. Missing values
    are counted, and the mean of a column is that of the values it has.
    """
    opened = prepare(settings)
    spread = spread_of(opened, settings)
    bounds = options.two_numbers(settings["bounds"], "--bounds")

    def call(ledger: Any) -> fpp.MeanResult:
        return fpp.estimate_mean(
            opened.private,
            x_pub=opened.public,
            clipping=settings["clipping"],
            **spread,
            bounds=bounds,
            missing=settings["missing"],
            public_only=settings["public_only"],
            pub_priv_gap=settings["gap"],
            ledger=ledger,
            **refine(settings),
            **common(settings),
        )

    run(call, f"Private mean of {opened.private.n:,} rows", settings, x_pub=opened.public)


def spread_of(opened: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments `covariance` and `variance`, as given or, where clipping is "gaussian", what stands in for them."""
    from fastpubpriv.cli import inputs, report

    n_pub, dim = opened.public.shape
    covariance, variance = inputs.read_spread(settings["covariance"], settings["variance"], dim)
    if settings["clipping"] == "gaussian" and covariance is None and variance is None:
        if n_pub > dim:
            covariance = "public"
        else:
            few = "1 public row is" if n_pub == 1 else f"{n_pub} public rows are"
            text = (
                f"{few} too few to learn how {dim} {'column spreads' if dim == 1 else 'columns spread'} (that takes "
                f"{dim + 1}), so a standard deviation of 1 in every column is assumed. If that is far off, so is the "
                "answer: pass --variance, --covariance or more public rows"
            )
            # Not silenced by --quiet, and part of the JSON: the answer depends on it.
            report.note(text)
            settings["caveats"] = [text]
    return {"covariance": covariance, "variance": variance}


COINPRESS_EPILOG = """\b
Example:
  fastpubpriv coinpress-mean --private p.parquet --center 0 --radius 100 --variance 25 --rho 0.5
"""


@click.command(
    "coinpress-mean",
    epilog=COINPRESS_EPILOG,
    short_help="Mean of private rows without public rows: give a centre and radius.",
)
@options.private_option()
@click.option(
    "--center", required=True, metavar="C", help="Centre of a ball that holds the mean: number(s), or a .npy."
)
@click.option(
    "--radius",
    required=True,
    type=options.NumberOr("auto"),
    help="Radius of the ball, in standard deviations of a row, or auto: from a private count.",
)
@options.budget_options()
@options.columns_option
@click.option("--covariance", metavar="FILE.npy", help="Covariance matrix of a row. Default: the identity.")
@options.variance_option
@options.refine_options
@options.ledger_options
@options.run_options
@options.output_options
def coinpress_mean(**settings: Any) -> None:
    """Mean of private rows without public rows (CoinPress).

    The centre and the radius must not come from the private rows. Too small a radius costs accuracy, never privacy.
    """
    opened = prepare(settings)
    from fastpubpriv.cli import inputs

    dim = opened.private.dim
    center = inputs.read_vector(settings["center"], dim, "--center")
    covariance, variance = inputs.read_spread(settings["covariance"], settings["variance"], dim)

    def call(ledger: Any) -> fpp.MeanResult:
        return fpp.coinpress_mean(
            opened.private,
            center=center,
            radius=settings["radius"],
            covariance=covariance,
            variance=variance,
            ledger=ledger,
            **refine(settings),
            **common(settings),
        )

    run(call, f"Private mean of {opened.private.n:,} rows (CoinPress)", settings)


WEIGHTED_EPILOG = """\b
Example:
  fastpubpriv weighted-mean --private p.npy --public q.npy --norm-bound 3 --center public --epsilon 1
"""


@click.command(
    "weighted-mean",
    epilog=WEIGHTED_EPILOG,
    short_help="Mean of bounded rows, private and public ones weighted for least error.",
)
@options.private_option()
@options.public_option(required=False)
@click.option(
    "--norm-bound",
    type=options.NumberOr("auto"),
    help="Rows are clipped to this distance from the centre; auto: from a private count, with public rows.",
)
@click.option(
    "--bounds",
    metavar="LOW,HIGH",
    help="Instead of --norm-bound: two numbers between which all values of all columns are known to lie.",
)
@options.budget_options()
@options.columns_option
@click.option("--variance", type=float, help="Mean squared distance of a row from the mean. Default: from public rows.")
@click.option(
    "--row-weight",
    default="optimal",
    show_default=True,
    metavar="NAME|W",
    help="optimal, throw_away (public rows only), gaussian (all rows alike), private, or the weight of a private row.",
)
@click.option(
    "--center", metavar="public|C", help="Centre of clipping: the public mean, number(s), or a .npy. Default: 0."
)
@click.option(
    "--noise",
    type=click.Choice(["laplace"]),
    default="laplace",
    show_default=True,
    help="The noise of pure DP; rho and (epsilon, delta) have Gaussian noise.",
)
@options.ledger_options
@options.run_options
@options.output_options
def weighted_mean(**settings: Any) -> None:
    """Mean of bounded rows, private and public ones weighted so that the error is least."""
    opened = prepare(settings)
    from fastpubpriv.cli import inputs

    center, weight = settings["center"], settings["row_weight"]
    if center is not None and center != "public":
        center = inputs.read_vector(center, opened.private.dim, "--center")
    number = options.exact_number(weight)
    bounds = options.two_numbers(settings["bounds"], "--bounds")
    if (settings["norm_bound"] is None) == (bounds is None):
        raise click.UsageError("pass either --norm-bound, the distance to which rows are clipped, or --bounds LOW,HIGH")

    def call(ledger: Any) -> fpp.MeanResult:
        return fpp.weighted_mean(
            opened.private,
            x_pub=opened.public,
            norm_bound=settings["norm_bound"],
            bounds=bounds,
            variance=settings["variance"],
            row_weight=weight if number is None else options.real(number, "--row-weight"),
            center=center,
            noise=settings["noise"],
            ledger=ledger,
            **common(settings),
        )

    run(call, f"Weighted mean of {opened.private.n:,} private rows and the public ones", settings, x_pub=opened.public)
