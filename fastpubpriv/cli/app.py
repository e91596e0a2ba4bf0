"""The command group: all commands, and error messages for broken streams and invalid input."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import click

from fastpubpriv import __version__
from fastpubpriv.cli import estimators, local, tools, training_commands
from fastpubpriv.cli.streams import hint, in_one_line, prepare, quiet, reason
from fastpubpriv.errors import warnings_to

# Options are built, and the library is loaded, when a command is run.
OTHERS = (
    training_commands.train,
    training_commands.predict,
    local.local,
    tools.plan,
    tools.audit,
    tools.ledger,
    tools.info,
)
COMMANDS: dict[str, click.Command] = {
    str(each.name): each for each in (*estimators.COMMANDS, *OTHERS)
}
LONG_WORD = re.compile(r"\S{260,}")  # names of files are shorter


def show_warning(text: str, category: type[Warning]) -> bool:
    """Print a warning of the library that the command does not collect itself."""
    hint(f"Warning: {' '.join(text.split())}\n")
    return False


class Program(click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the overview."""
        return list(self.commands)

    def main(self, *arguments: Any, **named: Any) -> Any:
        """Run the program on streams that may be closed or full."""
        prepare()
        # Warnings of other libraries may quote rows; ours are received. The program is the only user of its process.
        warnings.simplefilter("ignore")
        try:
            return super().main(*arguments, **named)
        except OSError as error:
            # The help or an error message could not be written.
            quiet(sys.stdout)
            hint(f"Error: the standard output {reason(error)}\n")
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; report every error as one line."""
        try:
            with in_one_line(), warnings_to(show_warning):
                return super().invoke(ctx)
        except click.UsageError as error:
            # A long text may have been pasted in place of a number.
            error.message = LONG_WORD.sub(lambda word: f"{word[0][:60]}...", error.message)  # type: ignore[misc]
            raise


EPILOG = """\b
Examples:
  fastpubpriv mean --private visits.parquet --public volunteers.csv --rho 0.5
  fastpubpriv plan mean --dim 5 --n-pub 20 --n-priv 10000 --rho 0.5
"""


@click.group(
    cls=Program,
    commands=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="fastpubpriv", message="%(prog)s %(version)s")
def main() -> None:
    """Differentially private estimates from many private rows and a few public ones.

    The private rows are protected: all output comes from noisy releases. The public rows are not protected, and need no
    budget.
    """
