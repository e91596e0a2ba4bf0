"""`fastpubpriv audit`: try to refute the privacy of a mechanism of this library, on made-up rows."""

from __future__ import annotations

from pathlib import Path

import click

from fastpubpriv.cli import options

EPILOG = """\b
Examples:
  fastpubpriv audit privunit --epsilon 1 --dim 20
  fastpubpriv audit weighted-mean --epsilon 1 --runs 5000
  fastpubpriv audit privunit --epsilon 1 --claim 0.8
"""

# Spelled out: --help must not load the library.
MECHANISMS = ("privunit", "privunit-g", "duchi", "weighted-mean")


@click.command(short_help="Try to refute the privacy of a mechanism, on made-up rows.", epilog=EPILOG)
@click.argument("mechanism", type=click.Choice(MECHANISMS))
@click.option("--epsilon", type=float, required=True, help="Given to the mechanism.")
@click.option("--claim", type=float, help="Epsilon that it is held to; default: the one given to it.")
@click.option(
    "--dim", type=click.IntRange(min=1), default=10, show_default=True, help="Columns, for local randomizers."
)
@click.option(
    "--form", type=click.Choice(("direct", "selection")), default="direct", show_default=True, help="Of local reports."
)
@click.option("--runs", type=click.IntRange(min=10), help="On each of two rows. Default: 100000, weighted-mean 2000.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="Of the verdict.")
@click.option("--json", "json_path", type=options.FileName(dash=True), help="Write the report; - for stdout.")
def audit(
    mechanism: str,
    epsilon: float,
    claim: float | None,
    dim: int,
    form: str,
    runs: int | None,
    confidence: float,
    json_path: Path | None,
) -> None:
    """Try to refute the privacy of MECHANISM: run it on two neighbours and count the event that tells them apart best.

    Ends with status 1 if the claim is refuted. A claim that is not refuted is not proven: the proofs are in the privacy notes.
    """
    from fastpubpriv import PureDP, auditing, local
    from fastpubpriv.cli import outputs

    outputs.check_outputs(json_path, None)
    held = None if claim is None else PureDP(claim)
    if mechanism == "weighted-mean":
        found = auditing.audit_weighted_mean(PureDP(epsilon), claim=held, runs=runs or 2000, confidence=confidence)
    else:
        randomizer: local.Randomizer
        if mechanism == "privunit":
            randomizer = local.PrivUnit(dim, epsilon, form=form)
        elif mechanism == "privunit-g":
            randomizer = local.PrivUnitG(dim, epsilon, form=form)
        else:
            randomizer = local.Duchi(dim, epsilon, 1.0, form=form)
        found = auditing.audit_randomizer(randomizer, claim=held, runs=runs or 100_000, confidence=confidence)
    if json_path is not None:
        outputs.write_json({**found.to_dict(), "passed": found.passed}, json_path)
    if json_path is None or str(json_path) != "-":
        click.echo(found.summary())
    if not found.passed:
        raise click.exceptions.Exit(1)
