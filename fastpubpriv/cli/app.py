"""The command group, and the standard streams it writes to."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import click

from fastpubpriv import __version__
from fastpubpriv.errors import FastPubPrivError

# The standard streams, which may be closed, full or unable to show a character: told apart from every other failure.

LINGER_SECONDS = 0.2


class OutputError(Exception):
    """The standard output took no more."""


class Guarded:
    """A stream whose failures to write are OutputErrors, or, for the error stream, nothing at all."""

    def __init__(self, stream: Any, *, silent: bool) -> None:
        self._stream = stream
        self._silent = silent

    def write(self, text: str) -> int:
        """Write, or say why not."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush, or say why not."""
        self._attempt(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _attempt(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            quiet(self._stream)
            if not self._silent:
                raise OutputError(f"the standard output {reason(error)}") from None


def reason(error: Exception) -> str:
    """What happened to a stream or file, without names or content."""
    if isinstance(error, BrokenPipeError):
        return "was closed before everything was written"
    if isinstance(error, OSError):
        return f"could not be written: {error.strerror or errno.errorcode.get(error.errno or 0, 'error')}"
    return "is closed"


def quiet(stream: Any) -> None:
    """Send what is left in the buffer of a broken stream nowhere, or Python complains about it at the very end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def prepare() -> None:
    """Make the streams safe to use: characters that they do not know are written as their codes."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Or the next file to be opened, perhaps the ledger, takes the number of a standard stream. Lowest numbers go first.
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def standard_output() -> Guarded:
    """The standard output of the moment (tests replace it)."""
    if sys.stdout is None:
        raise OutputError("the standard output is closed")
    return Guarded(sys.stdout, silent=False)


def standard_error() -> Guarded | None:
    """The error stream of the moment, or None; what cannot be said there is not said."""
    return None if sys.stderr is None else Guarded(sys.stderr, silent=True)


def emit(text: str) -> None:
    """A line on the standard output, all of it, or an OutputError."""
    out = standard_output()
    out.write(text + "\n")
    out.flush()


def hint(text: str) -> None:
    """A line on the error stream, if there is one."""
    err = standard_error()
    if err is not None:
        err.write(text + "\n")
        err.flush()


def output_is_gone(seconds: float = 0.0) -> bool:
    """Whether the standard output is closed, at this end or, within so many seconds, by the one who reads it."""
    if sys.stdout is None:
        return True
    try:
        number = sys.stdout.fileno()
        pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
        poll = select.poll()
    except (OSError, ValueError, AttributeError):  # a stream without a file, or a system without poll
        return bool(getattr(sys.stdout, "closed", False))
    poll.register(number, select.POLLERR)
    events = poll.poll(1000.0 * seconds if pipe else 0)
    return any(event & (select.POLLERR | select.POLLNVAL) for _, event in events)


def wait_for_reader() -> None:
    """An OutputError if the reader of a pipe leaves before the end: `| head -1` has taken a line and no more.

    What the pipe holds has been written without an error, whether anybody reads it or not.
    """
    if output_is_gone(LINGER_SECONDS):
        raise OutputError("the standard output was closed before its end was read")


# The command group: finds a command, runs it, and reports every error in one line.

# Name of a command -> its module and its line in the overview. A module is imported when its command is asked for.
COMMANDS = {
    "mean": ("estimators:mean", "Mean of private rows, with the range taken from public rows."),
    "describe": ("estimators:describe", "A table at a glance: means, deviations, quartiles, commonest texts."),
    "quantiles": ("estimators:quantiles", "Medians, quartiles and other quantiles of private columns."),
    "gaussian": ("estimators:gaussian", "Mean and covariance of private rows, with ranges taken from public rows."),
    "mixture": ("estimators:mixture", "Groups of private rows: weight, mean and covariance of each."),
    "axis-mixture": (
        "estimators:axis_mixture",
        "Mixture of Gaussians with independent columns, and no range given.",
    ),
    "weighted-mean": (
        "estimators:weighted_mean",
        "Mean of bounded rows, private and public ones weighted for least error.",
    ),
    "coinpress-mean": (
        "estimators:coinpress_mean",
        "Mean of private rows without public rows: give a centre and radius.",
    ),
    "histogram": ("estimators:histogram", "Histograms of private columns, with no range given."),
    "counts": ("estimators:counts", "How many rows have each value of a column, of text or numbers."),
    "crosstab": ("estimators:crosstab", "How many rows have each combination of the values of several columns."),
    "train": ("train:train", "A linear model of a label from the other columns: regression, classes, counts."),
    "predict": ("train:predict", "Labels of rows by a model that `train` wrote."),
    "local": ("local:local", "Reports of users who trust nobody, and means from them: two ends of a pipe."),
    "plan": ("tools:plan", "What error a budget buys, or what rows or budget an error needs. Reads no data."),
    "audit": ("tools:audit", "Try to refute the privacy of a mechanism, on made-up rows."),
    "info": ("tools:info", "Versions, processor and libraries, for bug reports."),
}
TRACEBACK = "FASTPUBPRIV_TRACEBACK"
LONG_WORD = re.compile(r"\S{260,}")  # names of files are shorter


class Failure(click.ClickException):
    """A refusal by the library, as one line."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the line, without the usage."""
        click.echo(f"{click.style('Error:', fg='red')} {self.format_message()}", err=True)


class Interrupted(Failure):
    """Ctrl-C, as one line."""

    exit_code = 130


class Undelivered(Failure):
    """The error of an answer that could not be written where the user asked for it, as one line."""

    exit_code = 1


def words_of(error: BaseException) -> str:
    """An error in words: whole if this library wrote it, and without its text otherwise, as that may quote rows."""
    if isinstance(error, FastPubPrivError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, OSError):
        name = f"{os.fspath(error.filename)!r}: " if isinstance(error.filename, str | bytes | os.PathLike) else ""
        return f"{name}{error.strerror or type(error).__name__}"
    return type(error).__name__


@contextlib.contextmanager
def in_one_line(verdict: Callable[[], str] | None = None, paid: Callable[[], bool] = bool) -> Iterator[None]:
    """Errors that leave the block are one line; a command that may pay gives its `verdict` on what became of the budget.

    The text of an unexpected error is not shown: this library did not write it, and it may quote rows.
    """
    try:
        yield
    except (click.exceptions.Exit, click.Abort, click.ClickException):
        raise
    except KeyboardInterrupt:
        charged = f" before there was an answer; {verdict()}" if verdict else "; nothing was charged to a ledger"
        raise Interrupted(f"interrupted{charged}") from None
    except OutputError as error:
        raise Undelivered(str(error)) from None
    except (FastPubPrivError, OSError, MemoryError) as error:
        raise Failure(words_of(error) + (f" ({verdict()})" if verdict and paid() else "")) from None
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        charged = f" ({verdict()})" if verdict else ""
        raise click.ClickException(
            f"unexpected {type(error).__name__}{charged}; this is a bug. Set {TRACEBACK}=1 to see where it came from (the "
            "traceback may quote data)"
        ) from None


class LazyGroup(click.Group):
    """Knows its commands by name and overview line, so that `--help` and typing errors need no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, the most wanted first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        place, line = COMMANDS[cmd_name]
        module, _, name = place.partition(":")
        command: click.Command = getattr(import_module(f"fastpubpriv.cli.{module}"), name)
        command.short_help = line
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def main(self, *arguments: Any, **named: Any) -> Any:
        """Run the program on streams that may be closed or full."""
        prepare()
        try:
            return super().main(*arguments, **named)
        except OSError as error:
            # Help, or an error message, that could not be shown.
            quiet(sys.stdout)
            hint(f"Error: the standard output {reason(error)}")
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; every error becomes one line."""
        try:
            with in_one_line():
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
    cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="fastpubpriv", message="%(prog)s %(version)s")
def main() -> None:
    """Differentially private estimates from many private rows and a few public ones.

    The private rows are protected: what is printed and written comes out of noisy releases. The public rows are not
    protected, and need no budget.
    """
