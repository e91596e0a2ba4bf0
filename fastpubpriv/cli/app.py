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
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from fastpubpriv import __version__
from fastpubpriv.errors import FastPubPrivError

# The standard streams, which may be closed, full or unable to show a character: told apart from every other failure.

LINGER_SECONDS = 0.2


class OutputError(Exception):
    """The standard output took no more."""


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


def emit(text: str) -> None:
    """Write to the standard output, all of it; otherwise raise OutputError."""
    if sys.stdout is None:
        raise OutputError("the standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:  # ValueError: the stream was closed
        quiet(sys.stdout)
        raise OutputError(f"the standard output {reason(error)}") from None


def hint(text: str) -> None:
    """Write to the error stream, if there is one; what cannot be said there is not said."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        quiet(sys.stderr)


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


def emit_whole(text: str) -> None:
    """Write to the standard output, up to its end."""
    emit(text)
    wait_for_reader()


# The command group: finds a command, runs it, and reports every error in one line.

# Name of a command -> its module, which is imported when the command, or the overview of all, is asked for.
COMMANDS = {
    **dict.fromkeys(("mean", "quantiles", "gaussian", "mixture", "axis-mixture", "weighted-mean"), "estimators"),
    **dict.fromkeys(("coinpress-mean", "histogram", "counts", "crosstab"), "estimators"),
    **dict.fromkeys(("train", "predict"), "train"),
    "local": "local",
    **dict.fromkeys(("plan", "audit", "info"), "tools"),
}
TRACEBACK = "FASTPUBPRIV_TRACEBACK"
LONG_WORD = re.compile(r"\S{260,}")  # names of files are shorter


class Failure(click.ClickException):
    """An end without an answer, as one line: 2 is a refusal, 1 an answer that could not be written, 130 an interruption."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def show(self, file: Any = None) -> None:
        """Print the line, without the usage."""
        click.echo(f"{click.style('Error:', fg='red')} {self.format_message()}", err=True)


def refuse(condition: object, text: str) -> None:
    """Raise a usage error with this text if the condition holds."""
    if condition:
        raise click.UsageError(text)


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
        raise Failure(f"interrupted{charged}", 130) from None
    except OutputError as error:
        raise Failure(str(error), 1) from None
    except (FastPubPrivError, OSError, MemoryError) as error:
        raise Failure(words_of(error) + (f" ({verdict()})" if verdict and paid() else "")) from None
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        charged = f" ({verdict()})" if verdict else ""
        raise Failure(
            f"unexpected {type(error).__name__}{charged}; this is a bug. Set {TRACEBACK}=1 to see where it came from (the "
            "traceback may quote data)",
            1,
        ) from None


class LazyGroup(click.Group):
    """Knows its commands by name, so that a command needs no import of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, the most wanted first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"fastpubpriv.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command, or say which one may be meant."""
        near = [] if args[0] in COMMANDS else get_close_matches(args[0], COMMANDS, n=1)
        if near:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview: the first sentence of each command's help."""
        commands = [(name, self.get_command(ctx, name)) for name in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(200)) for name, each in commands if each is not None])

    def main(self, *arguments: Any, **named: Any) -> Any:
        """Run the program on streams that may be closed or full."""
        prepare()
        try:
            return super().main(*arguments, **named)
        except OSError as error:
            # Help, or an error message, that could not be shown.
            quiet(sys.stdout)
            hint(f"Error: the standard output {reason(error)}\n")
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
