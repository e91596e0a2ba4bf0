"""`fastpubpriv plan`: error from rows and budget, and the other way round, without data."""

from __future__ import annotations

from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options

WORDS = {
    "steps": "steps",
    "radius": "radius of the prior ball",
    "clip_radius": "clip radius of the last step",
    "noise_std": "noise per column",
    "private_weight": "weight of the private rows",
    "without_privacy": "error without privacy",
    "public_rows_alone": "error of the public rows alone",
    "throw_away": "error of the public rows alone",
    "gaussian": "error of one Gaussian on all rows",
    "rounds": "rounds of the covariance",
    "under_resolved": "rounds are too few (1: yes)",
    "mean_error": "error of the mean, in standard deviations",
    "takes_public": "takes the public rows alone (1: yes)",
    "takes_mean": "takes the public covariance and a private mean (1: yes)",
    "takes_diagonal": "takes private variances along public axes (1: yes)",
    "takes_full": "takes a full private covariance (1: yes)",
    "public_covariance_error": "error of the covariance, public rows alone",
    "mean_covariance_error": "error of the covariance, private mean",
    "diagonal_covariance_error": "error of the covariance, private variances",
    "full_covariance_error": "error of the covariance, full",
    "public_mean_error": "error of the mean, public rows alone",
    "mean_mean_error": "error of the mean, private mean",
    "diagonal_mean_error": "error of the mean, private variances",
    "full_mean_error": "error of the mean, full",
    "condition": "condition number allowed for",
    "mean_radius": "distance of the mean allowed for",
    "total_variation": "total variation",
    "weight_error": "error of the smallest weight",
    "search_depth": "cuts on the way to a group",
    "search_share": "share of the budget that finds the groups",
    "public_rows_worst_case": "public rows, in the worst case",
    "direction_noise": "noise on a group's directions",
    "epsilon": "epsilon of the choice",
    "choice": "error of the choice",
    "comparisons": "comparisons",
    "closed_form_rows": "rows, by the looser closed form",
    "candidates": "candidates that are chosen from",
    "distant_components_rows": "rows that components far apart need",
    "choice_rows": "rows that choose",
    "seconds": "seconds on one core, roughly",
    "theory_accuracy": "the paper's proof, at accuracy",
    "theory_log10_candidates": "its candidates, as a power of ten",
    "theory_rows": "its rows",
    "theory_scales": "its scales for a column",
    "theory_means_per_scale": "its means for a scale",
    "theory_weights": "its vectors of weights",
}

EPILOG = """\b
Examples:
  fastpubpriv plan mean --dim 5 --n-pub 20 --n-priv 10000 --rho 0.5
  fastpubpriv plan mean --dim 5 --n-pub 20 --rho 0.5 --error 0.05
  fastpubpriv plan gaussian --dim 10 --n-pub 11 --n-priv 20000 --rho 0.5
  fastpubpriv plan axis-aligned-mixture --dim 1 --components 3 --n-priv 20000 --epsilon 1 --delta 1e-6
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
)


# What the options of a task are called in the library.
NAMES = {
    "dim": "dim",
    "n_pub": "n_pub",
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
    "beyond three times that of the best candidate.",
)
@click.option(
    "--notion",
    type=click.Choice(["zcdp", "approx", "pure"]),
    help="Notion of a budget that is solved for. Default: approx with --delta, else zcdp.",
)
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
@options.plan_options
@click.option("--json", "json_path", type=options.FileName(dash=True), help="Write the plan; - for stdout.")
def plan(task: str, **settings: Any) -> None:
    """What error a budget buys, or what rows or budget an error needs.

    Give two of --n-priv, a budget and --error; the third is worked out. No data is read, so nothing is spent.
    """
    from rich.markup import escape

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.results.words import explain

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
    facts = {
        "n_priv": ("private rows", f"{made.n_priv:,}"),
        "budget": ("budget", explain(made.budget)),
        "error": ("error", f"{made.error:.4g} ({made.unit})"),
    }
    lines = [
        (name, f"[bold]{escape(text)}[/]  <- worked out" if key == made.solved_for else escape(text))
        for key, (name, text) in facts.items()
    ]
    lines += [(WORDS.get(key, key), f"{value:.4g}") for key, value in made.details.items()]
    report.print_facts(lines)
