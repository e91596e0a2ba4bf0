"""`fastpubpriv plan`: error from rows and budget, and the other way round, without data."""

from __future__ import annotations

from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options

# Spelled out: --help must not load the library.
CHOICES = (
    *("mean", "coinpress-mean", "weighted-mean", "gaussian", "separated-mixture", "axis-aligned-mixture"),
    *("select-hypothesis", "train"),
)
# Arguments of the tasks: their types, and what they mean.
ARGUMENTS: dict[str, tuple[Any, str]] = {
    "n_pub": (options.count(0), "Public rows. Default: none."),
    "clipping": (("auto", "gaussian"), "mean: as in the estimator. Default: auto."),
    "pub_priv_gap": (float, "Total variation between public and private rows. Default: 0."),
    "radius": (float, "coinpress-mean: radius of the prior ball, in standard deviations."),
    "norm_bound": (float, "weighted-mean: rows are clipped to this distance."),
    "variance": (float, "weighted-mean: mean squared distance of a row. Default: the bound squared."),
    "cond_max": (float, "gaussian with few public rows: most that the condition may be."),
    "n_components": (options.count(), "Mixtures: most Gaussians."),
    "min_weight": (float, "separated-mixture: least weight of a Gaussian. Default: 1 / (2 components)."),
    "candidates": (options.count(), "select-hypothesis and axis-aligned-mixture: length of the list."),
    "loss": (("squared", "logistic", "huber"), "train: what is minimised. Default: squared."),
    "r_squared": (float, "train: share of the labels' variance that a model explains. Default: 0.5."),
    "mean_weight": (float, "train: mean weight of private rows, in units of their cap. Default: no weights."),
    "steps": (options.STEPS, "Times the range is narrowed, or auto."),
    "mode": (("practical", "theory"), "As in the estimator."),
    "method": (str, "As in the estimator."),
    "structure": (str, "gaussian: as in the estimator."),
    "failure_prob": (float, "Chance that a bound fails (costs accuracy, not privacy)."),
}


def own_arguments(task: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; a usage error for one that is not of this task."""
    from fastpubpriv.planning import task_arguments

    allowed = task_arguments(task.replace("-", "_"))
    found = options.given(settings, "dim", *ARGUMENTS)
    for name in found:
        if name not in allowed:
            raise click.UsageError(f"{options.name_of(name)} is not an option of 'plan {task}': leave it out")
    if task == "separated-mixture" and "n_components" in found:
        found.setdefault("min_weight", 1.0 / (2 * found["n_components"]))
    return found


@click.command(
    epilog=options.epilog(
        "fastpubpriv plan mean --dim 5 --n-pub 20 --n-priv 10000 --rho 0.5",
        "fastpubpriv plan mean --dim 5 --n-pub 20 --rho 0.5 --error 0.05",
        "fastpubpriv plan gaussian --dim 10 --n-pub 11 --n-priv 20000 --rho 0.5",
        "fastpubpriv plan axis-aligned-mixture --dim 1 --components 3 --n-priv 20000 --epsilon 1 --delta 1e-6",
        "fastpubpriv plan train --dim 10 --n-pub 200 --n-priv 20000 --epsilon 1 --delta 1e-6",
        "fastpubpriv plan weighted-mean --dim 10 --n-pub 100 --n-priv 5000 --norm-bound 1 --error 0.02 --delta 1e-6",
    )
)
@click.argument("task", type=click.Choice(CHOICES))
@options.table({"dim": (options.count(), "Columns.", ...), "n_priv": (options.count(), "Private rows.")})
@options.budget_options()
@options.table(
    {
        "error": (
            float,
            "Wanted distance from the true mean: in standard deviations, or in data units for weighted-mean. gaussian and "
            "separated-mixture: relative Frobenius error of a covariance. axis-aligned-mixture and select-hypothesis: total "
            "variation beyond three times that of the best candidate. train: excess of the squared error, in parts of a label's "
            "variance, or of the log-loss.",
        ),
        "notion": (
            ("zcdp", "approx", "pure"),
            "Notion of a budget that is solved for. Default: approx with --delta, else zcdp.",
        ),
        **ARGUMENTS,
    }
)
@options.json_option
def plan(task: str, **settings: Any) -> None:
    """What error a budget buys, or what rows or budget an error needs.

    Give two of --n-priv, a budget and --error; the third is worked out. No data is read, so nothing is spent.
    """
    from rich.markup import escape

    from fastpubpriv.cli import outputs
    from fastpubpriv.results.base import shown

    rho, epsilon, delta, error = (settings[name] for name in ("rho", "epsilon", "delta", "error"))
    solving = rho is None and epsilon is None and error is not None
    budget = None if solving else options.make_budget(rho, epsilon, delta)
    if budget is not None and settings["notion"] is not None:
        raise click.UsageError("--notion says which kind of budget to work out; here the budget is given")
    outputs.check_outputs(settings)
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
    if outputs.write_json(made.to_dict(), settings["json_path"]):
        table, facts = shown(made)
        outputs.print_table(table, title="Plan")
        outputs.print_facts([(name, escape(text)) for name, text in facts])
