"""`fastpubpriv plan`: error from rows and budget, and the other way round, without data."""

from __future__ import annotations

from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options

EPILOG = """\b
Examples:
  fastpubpriv plan mean --dim 5 --n-pub 20 --n-priv 10000 --rho 0.5
  fastpubpriv plan mean --dim 5 --n-pub 20 --rho 0.5 --error 0.05
  fastpubpriv plan gaussian --dim 10 --n-pub 11 --n-priv 20000 --rho 0.5
  fastpubpriv plan axis-aligned-mixture --dim 1 --components 3 --n-priv 20000 --epsilon 1 --delta 1e-6
  fastpubpriv plan train --dim 10 --n-pub 200 --n-priv 20000 --epsilon 1 --delta 1e-6
  fastpubpriv plan weighted-mean --dim 10 --n-pub 100 --n-priv 5000 --norm-bound 1 --error 0.02 --delta 1e-6
"""


# Spelled out: --help must not load the library.
CHOICES = (
    "mean",
    "coinpress-mean",
    "weighted-mean",
    "gaussian",
    "separated-mixture",
    "axis-aligned-mixture",
    "select-hypothesis",
    "train",
)


# What the options of a task are called in the library.
NAMES = {
    "dim": "dim",
    "n_pub": "n_pub",
    "clipping": "clipping",
    "gap": "pub_priv_gap",
    "radius": "radius",
    "norm_bound": "norm_bound",
    "variance": "variance",
    "cond_max": "cond_max",
    "components": "n_components",
    "min_weight": "min_weight",
    "candidates": "candidates",
    "steps": "steps",
    "mode": "mode",
    "method": "method",
    "structure": "structure",
    "failure_prob": "failure_prob",
    "loss": "loss",
    "r_squared": "r_squared",
    "mean_weight": "mean_weight",
}


def own_arguments(task: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, under the names of the library; a usage error for one that is not of this task."""
    from fastpubpriv.planning import task_arguments

    allowed = task_arguments(task.replace("-", "_"))
    found = {NAMES[option]: value for option, value in options.given(settings, *NAMES).items()}
    for option, name in NAMES.items():
        if name in found and name not in allowed:
            raise click.UsageError(f"--{option.replace('_', '-')} is not an option of 'plan {task}': leave it out")
    if task == "separated-mixture" and "n_components" in found:
        found.setdefault("min_weight", 1.0 / (2 * found["n_components"]))
    return found


@click.command(
    epilog=EPILOG, short_help="What error a budget buys, or what rows or budget an error needs. Reads no data."
)
@click.argument("task", type=click.Choice(CHOICES))
@click.option("--dim", required=True, type=options.Count(), help="Columns.")
@click.option("--n-priv", type=options.Count(), help="Private rows.")
@click.option("--n-pub", type=options.Count(0), help="Public rows. Default: none.")
@options.budget_options()
@click.option(
    "--error",
    type=float,
    help="Wanted distance from the true mean: in standard deviations, or in data units for weighted-mean. gaussian and "
    "separated-mixture: relative Frobenius error of a covariance. axis-aligned-mixture and select-hypothesis: total variation "
    "beyond three times that of the best candidate. train: excess of the squared error, in parts of a label's variance, or of the "
    "log-loss.",
)
@click.option(
    "--notion",
    type=click.Choice(["zcdp", "approx", "pure"]),
    help="Notion of a budget that is solved for. Default: approx with --delta, else zcdp.",
)
@click.option("--clipping", type=click.Choice(["auto", "gaussian"]), help="mean: as in the estimator. Default: auto.")
@click.option("--gap", type=float, help="Total variation between public and private rows. Default: 0.")
@click.option("--radius", type=float, help="coinpress-mean: radius of the prior ball, in standard deviations.")
@click.option("--norm-bound", type=float, help="weighted-mean: rows are clipped to this distance.")
@click.option(
    "--variance", type=float, help="weighted-mean: mean squared distance of a row. Default: the bound squared."
)
@click.option("--cond-max", type=float, help="gaussian with few public rows: most that the condition may be.")
@click.option("--components", type=options.Count(), help="Mixtures: most Gaussians.")
@click.option(
    "--min-weight", type=float, help="separated-mixture: least weight of a Gaussian. Default: 1 / (2 components)."
)
@click.option(
    "--candidates", type=options.Count(), help="select-hypothesis and axis-aligned-mixture: length of the list."
)
@click.option(
    "--loss", type=click.Choice(["squared", "logistic", "huber"]), help="train: what is minimised. Default: squared."
)
@click.option(
    "--r-squared", type=float, help="train: share of the labels' variance that a model explains. Default: 0.5."
)
@click.option(
    "--mean-weight", type=float, help="train: mean weight of private rows, in units of their cap. Default: no weights."
)
@options.plan_options
@click.option("--json", "json_path", type=options.FileName(dash=True), help="Write the plan; - for stdout.")
def plan(task: str, **settings: Any) -> None:
    """What error a budget buys, or what rows or budget an error needs.

    Give two of --n-priv, a budget and --error; the third is worked out. No data is read, so nothing is spent.
    """
    from rich.markup import escape

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.results.base import shown

    rho, epsilon, delta, error = (settings[name] for name in ("rho", "epsilon", "delta", "error"))
    solving = rho is None and epsilon is None and error is not None
    budget = None if solving else options.require_budget(rho, epsilon, delta)
    if budget is not None and settings["notion"] is not None:
        raise click.UsageError("--notion says which kind of budget to work out; here the budget is given")
    outputs.check_outputs(settings["json_path"], None)
    arguments = own_arguments(task, settings)
    made = fpp.plan(
        task.replace("-", "_"),
        n_priv=settings["n_priv"],
        budget=budget,
        error=error,
        notion=(settings["notion"] or ("zcdp" if delta is None else "approx")) if solving else "zcdp",
        delta=None if delta is None or not solving else float(delta),
        **arguments,
    )
    if settings["json_path"] is not None:
        outputs.write_json(made.to_dict(), settings["json_path"])
        if str(settings["json_path"]) == "-":
            return
    table, facts = shown(made)
    report.print_table(table, title="Plan")
    report.print_facts([(name, escape(text)) for name, text in facts])
