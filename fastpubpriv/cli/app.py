"""The command group: finds a command, runs it, and turns what goes wrong into one line."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from fastpubpriv import __version__
from fastpubpriv.errors import FastPubPrivError

# Name of a command -> its module and its line in the overview. A module is imported when its command is asked for.
COMMANDS = {
    "mean": ("means:mean", "Mean of private rows, with the range taken from public rows."),
    "gaussian": ("gaussian:gaussian", "Mean and covariance of private rows, with ranges taken from public rows."),
    "mixture": ("mixture:mixture", "Groups of private rows: weight, mean and covariance of each."),
    "axis-mixture": (
        "axis_mixture:axis_mixture",
        "Mixture of Gaussians with independent columns, and no range given.",
    ),
    "weighted-mean": ("means:weighted_mean", "Mean of bounded rows, private and public ones weighted for least error."),
    "coinpress-mean": ("means:coinpress_mean", "Mean of private rows without public rows: give a centre and radius."),
    "histogram": ("histogram:histogram", "Histograms of private columns, with no range given."),
    "plan": ("plan:plan", "What error a budget buys, or what rows or budget an error needs. Reads no data."),
    "demo": ("demo:demo", "The main job on a real weather table, beside what else one could have done."),
    "reproduce": ("reproduce:reproduce", "Re-create a published figure or table; lists them without a name."),
    "bench": ("bench:bench", "How fast this machine releases private means, beside NumPy."),
}
TRACEBACK = "FASTPUBPRIV_TRACEBACK"


class Failure(click.ClickException):
    """A refusal by the library, as one line."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the line, without the usage."""
        click.echo(f"{click.style('Error:', fg='red')} {self.format_message()}", err=True)


class LazyGroup(click.Group):
    """Knows its commands by name and overview line, so that `--help` and typing errors need no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, the most wanted first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"fastpubpriv.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; refusals and accidents become one line."""
        try:
            return super().invoke(ctx)
        except FastPubPrivError as error:
            raise Failure(" ".join(str(error).split())) from None
        except (click.exceptions.Exit, click.Abort, click.ClickException, KeyboardInterrupt):
            raise
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            # The text of an error that this library did not write may quote rows.
            raise click.ClickException(
                f"unexpected {type(error).__name__}; this is a bug. Set {TRACEBACK}=1 to see where it came from "
                "(the traceback may quote data)"
            ) from None


EPILOG = """\b
Examples:
  fastpubpriv demo
  fastpubpriv mean --private visits.parquet --public volunteers.csv --rho 0.5
  fastpubpriv plan mean --dim 5 --n-pub 20 --n-priv 10000 --rho 0.5
"""


@click.group(
    cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="fastpubpriv", message="%(prog)s %(version)s")
def main() -> None:
    """Differentially private estimates from many private rows and a few public ones.

    The private rows are protected: what is printed and written comes out of noisy releases. The public rows are not
    protected, and need no budget.
    """
