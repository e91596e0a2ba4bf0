"""`fastpubpriv audit`: try to refute the privacy of a mechanism of this library, on made-up rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fastpubpriv.cli import options

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
def audit(mechanism: str, json_path: Path | None, **settings: Any) -> None:
    """Try to refute the privacy of MECHANISM: run it on two neighbours and count the event that tells them apart best.

    The event is fixed before the runs. Ends with status 1 if the claim is refuted. A claim that is not refuted is not proven: the
    proofs are in the privacy notes.
    """
    from fastpubpriv.cli import outputs

    outputs.check_outputs(json_path, None)
    if settings["rows"] is not None and settings["attack"] != "tracing":
        raise click.UsageError("--rows belongs to --attack tracing")
    found = _mean_report(settings) if mechanism == "weighted-mean" else _local_report(mechanism, settings)
    if json_path is not None:
        outputs.write_json({**found.to_dict(), "passed": found.passed}, json_path)
    if json_path is None or str(json_path) != "-":
        click.echo(found.summary())
    if not found.passed:
        raise click.exceptions.Exit(1)


def _mean_report(settings: dict[str, Any]) -> Any:
    """The report on `weighted_mean`."""
    from fastpubpriv import ApproxDP, PureDP, auditing

    delta = settings["delta"]
    if settings["words"] is not None:
        raise click.UsageError("--words belongs to subset-selection")

    def price(epsilon: float) -> PureDP | ApproxDP:
        return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)

    common = {
        "claim": None if settings["claim"] is None else price(settings["claim"]),
        "runs": settings["runs"] or 2000,
        "confidence": settings["confidence"],
    }
    if settings["attack"] == "tracing":
        dim = settings["dim"] or (5 if delta is None else 400)
        return auditing.trace_weighted_mean(
            price(settings["epsilon"]), dim=dim, n_priv=settings["rows"] or 10, **common
        )
    if settings["dim"] is not None:
        raise click.UsageError(
            "--dim: the worst data sets of weighted-mean have one column; it belongs to --attack tracing"
        )
    return auditing.audit_weighted_mean(price(settings["epsilon"]), **common)


def _local_report(mechanism: str, settings: dict[str, Any]) -> Any:
    """The report on a local randomizer."""
    from fastpubpriv import PureDP, auditing
    from fastpubpriv.cli.reports import make_randomizer

    if settings["delta"] is not None:
        raise click.UsageError("--delta belongs to weighted-mean: reports are pure")
    radius = 1.0 if mechanism == "duchi" else None
    randomizer = make_randomizer(settings["dim"] or 10, {**settings, "family": mechanism, "norm_bound": radius})
    claim = None if settings["claim"] is None else PureDP(settings["claim"])
    common = {"claim": claim, "confidence": settings["confidence"]}
    if settings["attack"] == "tracing":
        reports, runs = settings["rows"] or 1, settings["runs"] or 5000
        return auditing.trace_randomizer(randomizer, n_reports=reports, runs=runs, **common)
    return auditing.audit_randomizer(randomizer, runs=settings["runs"] or 100_000, **common)
