"""Commands that read no private rows: `plan`, `audit`, `info`."""

from __future__ import annotations

import importlib
import os
import platform
from importlib import metadata
from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv import __version__
from fastpubpriv.cli import options

# `fastpubpriv plan`: error from rows and budget, and the other way round, without data.

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


# `fastpubpriv audit`: try to refute the privacy of a mechanism of this library, on made-up rows.

# Spelled out: --help must not load the library.
MECHANISMS = ("privunit", "privunit-g", "duchi", "subset-selection", "weighted-mean")
SIZE = click.IntRange(1, 1 << 20)


@click.command(
    epilog=options.epilog(
        "fastpubpriv audit privunit --epsilon 1 --dim 20",
        "fastpubpriv audit subset-selection --epsilon 1 --words 16",
        "fastpubpriv audit weighted-mean --epsilon 1 --runs 5000",
        "fastpubpriv audit privunit --epsilon 1 --claim 0.8",
        "fastpubpriv audit weighted-mean --attack tracing --epsilon 10 --delta 1e-5 --claim 1",
    )
)
@click.argument("mechanism", type=click.Choice(MECHANISMS))
@options.table(
    {
        "epsilon": (float, "Given to the mechanism.", ...),
        "delta": (float, "Given to weighted-mean beside it: Gaussian noise."),
        "claim": (float, "Epsilon that it is held to; default: the one given to it."),
        "attack": (
            ("canary", "tracing"),
            "canary: the worst two data sets. tracing: was a row among those of a released mean? Weaker, and closer to life.",
            "canary",
        ),
        "dim": (SIZE, "Columns. Default: 10, for tracing weighted-mean 5, with --delta 400."),
        "rows": (SIZE, "For tracing: rows or reports of a mean. Default: 10, or 1."),
        "form": (("direct", "selection"), "Of local reports.", "direct"),
        "words": (click.IntRange(2, 1024), "For subset-selection: words of a book. Default: 256."),
        "runs": (
            click.IntRange(min=10),
            "On each of two rows. Default: 100000, tracing 5000, weighted-mean 2000.",
        ),
        "confidence": (float, "Of the verdict.", 0.99),
    }
)
@options.json_option
def audit(mechanism: str, **settings: Any) -> None:
    """Try to refute the privacy of MECHANISM: run it on two neighbours and count the event that tells them apart best.

    The event is fixed before the runs. Ends with status 1 if the claim is refuted. A claim that is not refuted is not proven: the
    proofs are in the privacy notes.
    """
    from fastpubpriv.cli import outputs

    outputs.check_outputs(settings)
    found = _report(mechanism, **settings)
    if outputs.write_json({**found.to_dict(), "passed": found.passed}, settings["json_path"]):
        click.echo(found.summary())
    if not found.passed:
        raise click.exceptions.Exit(1)


def _report(
    mechanism: str,
    *,
    attack: str,
    epsilon: float,
    delta: float | None,
    claim: float | None,
    dim: int | None,
    **settings: Any,
) -> Any:
    from fastpubpriv import ApproxDP, PureDP, auditing
    from fastpubpriv.cli.reports import make_randomizer

    mean, tracing, rows = mechanism == "weighted-mean", attack == "tracing", settings["rows"]
    for wrong, text in (
        (rows is not None and not tracing, "--rows belongs to --attack tracing"),
        (mean and settings["words"] is not None, "--words belongs to subset-selection"),
        (
            mean and dim is not None and not tracing,
            "--dim: the worst data sets of weighted-mean have one column; it belongs to --attack tracing",
        ),
        (delta is not None and not mean, "--delta belongs to weighted-mean: reports are pure"),
    ):
        if wrong:
            raise click.UsageError(text)

    def price(amount: float) -> PureDP | ApproxDP:
        return PureDP(amount) if delta is None else ApproxDP(amount, delta)

    common = {"claim": None if claim is None else price(claim), "confidence": settings["confidence"]}
    common["runs"] = settings["runs"] or (2000 if mean else 5000 if tracing else 100_000)
    if mean and tracing:
        dim = dim or (5 if delta is None else 400)
        return auditing.trace_weighted_mean(price(epsilon), dim=dim, n_priv=rows or 10, **common)
    if mean:
        return auditing.audit_weighted_mean(price(epsilon), **common)
    radius = 1.0 if mechanism == "duchi" else None
    given = {**settings, "epsilon": epsilon, "family": mechanism, "norm_bound": radius}
    randomizer = make_randomizer(dim or 10, given)
    if tracing:
        return auditing.trace_randomizer(randomizer, n_reports=rows or 1, **common)
    return auditing.audit_randomizer(randomizer, **common)


# `fastpubpriv info`: what a measurement or a bug report depends on besides the code: processor, instructions, libraries.

PACKAGES = [
    "numpy",
    "scipy",
    "numba",
    "cffi",
    "pyarrow",
    "pandas",
    "polars",
    "matplotlib",
    "scikit-learn",
    "torch",
    "opacus",
]


def describe_machine() -> dict[str, Any]:
    """Names and versions, in the order to show them; nothing about the user, the host's name or any path."""
    from fastpubpriv.kernels.library import instruction_set, interface_version

    return {
        "fastpubpriv": __version__,
        "C interface": interface_version(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "CPUs": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instructions": instruction_set(),
        "BLAS": _blas(),
        "compiled at first use": "by Numba: functions of the caller, not kept on disk, and searches among many public rows, kept",
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    """Its name; on Linux, where virtual machines leave the generation out of the name, also its family and model."""
    told: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                key, colon, value = line.partition(":")
                if not colon:
                    break  # the first processor ends
                told[key.strip()] = value.strip()
    except OSError:
        pass
    name = told.get("model name") or platform.processor() or "unknown"
    generation = ", ".join(
        f"{word} {told[key]}" for key, word in (("cpu family", "family"), ("model", "model")) if key in told
    )
    return f"{name} ({generation})" if generation else name


def _blas() -> str:
    """NumPy's BLAS; with threadpoolctl, also the kernels that it chose for this processor."""
    try:
        found = importlib.import_module("threadpoolctl").threadpool_info()
        names = [f"{item['internal_api']} {item['version']} ({item.get('architecture')})" for item in found]
        return ", ".join(dict.fromkeys(names)) or "unknown"
    except (ImportError, KeyError):
        import numpy as np

        config: Any = np.show_config(mode="dicts")
        blas = config.get("Build Dependencies", {}).get("blas", {})
        return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


@click.command()
@options.json_option
def info(**settings: Any) -> None:
    """Versions, processor, instruction set and libraries, for bug reports. No path and no name of this machine is shown."""
    from rich.table import Table

    from fastpubpriv.cli import outputs

    outputs.check_outputs(settings)
    found = describe_machine()
    if outputs.write_json(found, settings["json_path"]):
        table = Table(show_header=False, box=None)
        for name, value in found.items():
            table.add_row(name, str(value))
        outputs.console().print(table)
