"""Commands that read no private rows: `plan`, `audit`, `ledger`, `info`."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
from pathlib import Path
from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv import __version__
from fastpubpriv.cli import options
from fastpubpriv.cli.streams import refuse

# `fastpubpriv plan`: error from rows and budget, and vice versa, without data.

# Spelled out: --help must not load the library.
CHOICES = (
    *(
        "mean",
        "coinpress-mean",
        "weighted-mean",
        "gaussian",
        "quantiles",
        "counts",
        "count-persons",
        "separated-mixture",
    ),
    *("axis-aligned-mixture", "select-hypothesis", "train"),
)


@options.command(click.Argument(["task"], type=click.Choice(CHOICES)))
def plan(task: str, **settings: Any) -> None:
    """What error a budget buys, or what rows or budget an error needs.

    Give two of --n-priv, a budget and --error; the third is computed. No data is read, so nothing is spent.

    dim : count, optional :: Columns; for all tasks but counts and count-persons.
    cells : count, optional :: counts and count-persons: number of combinations of keys or bins.
    keys_per_person : count, optional :: count-persons: most keys of a person that count. Default: all.
    n_priv : count, optional :: Private rows, or with --rows-per-person private persons.
    rows_per_person : count, optional :: Rows that each person has, as for --person; not for count-persons.
    {rho, epsilon, delta}
    error : float, optional
        Wanted distance from the true mean: in standard deviations, or in data units for weighted-mean. gaussian and
        separated-mixture: relative Frobenius error of a covariance. axis-aligned-mixture: distance of a component's mean, in its
        standard deviations. select-hypothesis: total variation beyond three times that of the best candidate. train: excess of
        the squared error, in parts of a label's variance, or of the log-loss.
    notion : "zcdp", "approx" or "pure", optional
        Notion of a budget that is solved for. Default: approx with --delta, else zcdp.
    n_pub : count or 0, optional :: Public rows. Default: none.
    clipping : "auto", "counts" or "gaussian", optional :: mean: as in the estimator. Default: auto.
    pub_priv_gap : float, optional :: Total variation between public and private rows. Default: 0.
    radius : float, optional :: coinpress-mean: radius of the prior ball, in standard deviations.
    norm_bound : float, optional :: weighted-mean: rows are clipped to this distance.
    variance : float, optional :: weighted-mean: mean squared distance of a row. Default: the bound squared.
    cond_max : float, optional :: gaussian with few public rows: maximum condition number.
    n_components : count, optional :: Mixtures: maximum number of Gaussians.
    bounds : LOW,HIGH, optional :: Mixtures: range of all columns, for a budget without a delta and no public rows.
    min_weight : float, optional :: separated-mixture: least weight of a Gaussian. Default: 1 / (2 components).
    candidates : count, optional :: select-hypothesis: length of the list.
    n_labeled : count or 0, optional :: train: public rows whose label is known. Default: all.
    loss : "squared", "logistic" or "huber", optional :: train: loss. Default: squared.
    r_squared : float, optional :: train: share of the labels' variance that a model explains. Default: 0.5.
    mean_weight : float, optional :: train: mean weight of private rows, in units of their cap. Default: no weights.
    steps : int or "auto", optional :: Times the range is narrowed, or auto.
    mode : "practical" or "theory", optional :: As in the estimator.
    method : TEXT, optional :: As in the estimator.
    structure : TEXT, optional :: gaussian: as in the estimator.
    failure_prob : float, optional :: Probability that a bound fails (costs accuracy, not privacy).
    {json_path}

    $ fastpubpriv plan mean --dim 5 --n-pub 20 --n-priv 10000 --rho 0.5
    $ fastpubpriv plan mean --dim 5 --n-pub 20 --rho 0.5 --error 0.05
    $ fastpubpriv plan gaussian --dim 10 --n-pub 11 --n-priv 20000 --rho 0.5
    $ fastpubpriv plan axis-aligned-mixture --dim 1 --components 3 --n-priv 20000 --epsilon 1 --delta 1e-6
    $ fastpubpriv plan train --dim 10 --n-pub 200 --n-priv 20000 --epsilon 1 --delta 1e-6
    $ fastpubpriv plan weighted-mean --dim 10 --n-pub 100 --n-priv 5000 --norm-bound 1 --error 0.02 --delta 1e-6
    """
    from fastpubpriv.cli import outputs
    from fastpubpriv.planning import task_arguments
    from fastpubpriv.results.base import shown

    outputs.check_outputs(settings)
    notion = settings.pop("notion")
    json_path = settings.pop("json_path")
    budget = {name: settings.pop(name) for name in options.PARTS}
    delta = budget["delta"]
    arguments = {name: value for name, value in settings.items() if value is not None}
    name_of_task: Any = task.replace("-", "_")
    allowed = {"n_priv", "error", "rows_per_person", *task_arguments(name_of_task)}
    for name in arguments:
        refuse(
            name not in allowed,
            f"{options.name_of(name)} is not an option of 'plan {task}': leave it out",
        )
    is_open = budget["rho"] is None and budget["epsilon"] is None
    if is_open and "error" in arguments:
        arguments |= {
            "notion": notion or ("zcdp" if delta is None else "approx"),
            "delta": delta and float(delta),
        }
    else:
        refuse(
            notion is not None,
            "--notion says which kind of budget to work out; here the budget is given",
        )
        arguments["budget"] = options.make_budget(budget)
    made = fpp.plan(name_of_task, **arguments)
    table, facts = shown(made)
    outputs.print_answer(made.to_dict(), json_path, facts, table=table, title="Plan")


# `fastpubpriv audit`: try to refute the privacy of a mechanism of this library, on synthetic rows.

# Spelled out: --help must not load the library.
MECHANISMS = ("privunit", "privunit-g", "duchi", "subset-selection", "weighted-mean")


@options.command(click.Argument(["mechanism"], type=click.Choice(MECHANISMS)))
def audit(mechanism: str, **settings: Any) -> None:
    """Try to refute the privacy of MECHANISM: run it on two neighbors and count the event that tells them apart best.

    The event is fixed before the runs. Ends with status 1 if the claim is refuted. A claim that is not refuted is not proven: the
    proofs are in the privacy notes.

    epsilon : float :: Epsilon of the mechanism.
    delta : float, optional :: Delta of weighted-mean, which then has Gaussian noise.
    claim : float, optional :: Epsilon that is tested; default: that of the mechanism.
    attack : "canary" or "tracing", default canary
        canary: the worst two data sets. tracing: was a row among those of a released mean? Weaker, and more realistic.
    dim : int in [1, 1048576], optional :: Columns. Default: 10, for tracing weighted-mean 5, with --delta 400.
    rows : int in [1, 1048576], optional :: For tracing: rows or reports of a mean. Default: 10, or 1.
    {form, words}
    runs : int >= 10, optional :: On each of two rows. Default: 100000, tracing 5000, weighted-mean 2000.
    confidence : float, default 0.99 :: Confidence level of a refutation.
    {json_path}

    $ fastpubpriv audit privunit --epsilon 1 --dim 20
    $ fastpubpriv audit subset-selection --epsilon 1 --words 16
    $ fastpubpriv audit weighted-mean --epsilon 1 --runs 5000
    $ fastpubpriv audit privunit --epsilon 1 --claim 0.8
    $ fastpubpriv audit weighted-mean --attack tracing --epsilon 10 --delta 1e-5 --claim 1
    """
    from fastpubpriv.cli import outputs

    outputs.check_outputs(settings)
    report = _report(mechanism, settings)
    text = outputs.json_text({**report.to_dict(), "passed": report.passed})
    if outputs.write_text(text, settings["json_path"]):
        click.echo(report.summary())
    if not report.passed:
        raise click.exceptions.Exit(1)


def _report(mechanism: str, settings: dict[str, Any]) -> Any:
    from fastpubpriv import ApproxDP, PureDP, auditing
    from fastpubpriv.cli.report_commands import make_randomizer

    delta, dim, rows = (settings[name] for name in ("delta", "dim", "rows"))
    mean = mechanism == "weighted-mean"
    tracing = settings["attack"] == "tracing"
    one_column = "--dim: the worst data sets of weighted-mean have one column; it belongs to --attack tracing"
    refuse(rows is not None and not tracing, "--rows belongs to --attack tracing")
    refuse(mean and settings["words"] is not None, "--words belongs to subset-selection")
    refuse(mean and dim is not None and not tracing, one_column)
    refuse(delta is not None and not mean, "--delta belongs to weighted-mean: reports are pure")

    def price(amount: float) -> PureDP | ApproxDP:
        return PureDP(amount) if delta is None else ApproxDP(amount, delta)

    common = {name: settings[name] for name in ("attack", "confidence")}
    common["claim"] = None if settings["claim"] is None else price(settings["claim"])
    common["runs"] = settings["runs"] or (2000 if mean else 5000 if tracing else 100_000)
    if mean:
        dim = dim or (5 if delta is None else 400)
        return auditing.audit_weighted_mean(
            price(settings["epsilon"]), dim=dim, n_priv=rows or 10, **common
        )
    given = {**settings, "family": mechanism, "norm_bound": 1.0 if mechanism == "duchi" else None}
    randomizer = make_randomizer(dim or 10, given)
    return auditing.audit_randomizer(randomizer, n_reports=rows or 1, **common)


# `fastpubpriv ledger`: the debits of a ledger file, and what is left.


@options.command(click.Argument(["ledger_path"], type=options.FileName()))
def ledger(ledger_path: Path, json_path: Path | None) -> None:
    """What was spent on a data set, by each answer, and what is left.

    {json_path}

    $ fastpubpriv ledger visits.ledger
    """
    from fastpubpriv.cli import outputs
    from fastpubpriv.privacy.budgets import short
    from fastpubpriv.results.result_tables import Table

    outputs.check_outputs({"json_path": json_path}, (ledger_path,))
    opened = fpp.Ledger.from_file(ledger_path)
    entries = opened.entries
    debits = [
        {"number": each.number, "name": each.name, "cost": each.cost.to_dict()} for each in entries
    ]
    budgets = {"total": opened.total.to_dict(), "remaining": opened.remaining.to_dict()}
    about = {"label": opened.label, "relation": opened.relation.value, "person": opened.person}
    labels = [str(each.number) for each in entries]
    names = [each.name for each in entries]
    costs = [short(each.cost) for each in entries]
    table = Table("number", labels, [("name", names), ("cost", costs)])
    facts = [("Budget", opened.left), ("Neighbors", opened.relation.statement)]
    if opened.person is not None:
        facts.append(("Person", opened.person))
    if opened.label is not None:
        facts.append(("Label", opened.label))
    data = {**budgets, **about, "entries": debits}
    outputs.print_answer(data, json_path, facts, table=table, title="Debits")


# `fastpubpriv info`: environment of a measurement or a bug report: processor, instruction set, libraries.

PACKAGES = (
    *(
        "numpy",
        "scipy",
        "numba",
        "cffi",
        "pyarrow",
        "pandas",
        "polars",
        "matplotlib",
        "scikit-learn",
    ),
    *("torch", "opacus"),
)


def describe_machine() -> dict[str, Any]:
    """Return names and versions, in the order to show them; nothing about the user, the host's name or any path."""
    from importlib import metadata

    from fastpubpriv.kernels.library import instruction_set, interface_version

    versions = dict.fromkeys(PACKAGES, "not installed")
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "fastpubpriv": __version__,
        "C interface": interface_version(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "CPUs": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "instructions": instruction_set(),
        "BLAS": _blas(),
        "compiled at first use": "by Numba: functions of the caller, not kept on disk, and searches among many public rows, kept",
        **versions,
    }


def _processor() -> str:
    """Return the name of the processor; on Linux also family and model, as virtual machines hide the generation in the name."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        first = ""
    facts = dict(re.findall(r"^([^\t:]+?)\s*: *(.*)$", first, re.MULTILINE))
    name = facts.get("model name") or platform.processor() or "unknown"
    words = (
        f"{word} {facts[key]}"
        for key, word in (("cpu family", "family"), ("model", "model"))
        if key in facts
    )
    return f"{name} ({generation})" if (generation := ", ".join(words)) else name


def _blas() -> str:
    """Return the name of NumPy's BLAS; with threadpoolctl, also the kernels that it chose for this processor."""
    try:
        pools = importlib.import_module("threadpoolctl").threadpool_info()
        names = [
            f"{item['internal_api']} {item['version']} ({item.get('architecture')})"
            for item in pools
        ]
        return ", ".join(dict.fromkeys(names)) or "unknown"
    except (ImportError, KeyError):
        import numpy as np

        config: Any = np.show_config(mode="dicts")
        blas = config.get("Build Dependencies", {}).get("blas", {})
        return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


@options.command()
def info(json_path: Path | None) -> None:
    """Versions, processor, instruction set and libraries, for bug reports.

    No path and no name of this machine is shown.

    {json_path}
    """
    from fastpubpriv.cli import outputs

    outputs.check_outputs({"json_path": json_path})
    machine = describe_machine()
    facts = [(name, str(value)) for name, value in machine.items()]
    outputs.print_answer(machine, json_path, facts)
