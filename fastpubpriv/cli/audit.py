"""`fastpubpriv audit`: try to refute the privacy of a mechanism of this library, on made-up rows."""

from __future__ import annotations

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
