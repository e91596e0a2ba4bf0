"""`make demo`: run the pages in order; each writes a JSON file and a plot into a folder."""

import tempfile
from pathlib import Path

import click

import fastpubpriv as fpp
from examples.demo import flights, weather
from fastpubpriv.cli import options, outputs, streams

PAGES = (
    weather.mean,
    weather.gaussian,
    flights.mixture,
    flights.axis,
    flights.clients,
    flights.training,
)
FOLDER = Path("demo-out")


@click.command()
@click.option(
    "--out",
    type=options.FileName(file_okay=False),
    default=FOLDER,
    show_default=True,
    help="Folder.",
)
@click.option(
    "--rho",
    type=options.Read("NUMBER"),
    default="0.5",
    show_default=True,
    help="Budget in zero-concentrated DP.",
)
@click.option("--seed", type=int, help="Repeatable noise: the answer is then NOT private.")
def main(out, rho, seed):
    """Estimation from private and public rows of real tables, compared with alternatives.

    The hourly weather at New York's airports in 2013: every 100th row is public, the rest are private. The mean of
    five columns is released, then compared with the answers from the public rows alone, from CoinPress with weak bounds,
    and without any privacy. A second page does the same for the covariance, also from a public set that is shifted: one
    July week at one airport. A third clusters flights, a fourth estimates the distribution of one column, in a fifth 100,000
    clients report a flight each under local privacy, and a sixth is a regression of arrival delays. Each release has its own
    budget.
    """
    try:
        budget = fpp.ZCDP(rho)
        outputs.need_matplotlib()
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
        paths = [str(path) for page in PAGES for path in page(budget, seed, out)]
        streams.hint(f"Wrote {', '.join(paths)}\n")
    except fpp.FastPubPrivError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"--out: {str(out)!r} {streams.reason(error)}") from None


if __name__ == "__main__":
    main()
