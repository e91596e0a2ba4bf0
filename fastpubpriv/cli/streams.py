"""The standard streams, which may be closed, full or unable to show a character, and errors as one line.

A standard output that cannot be written has an exception of its own, OutputError.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from fastpubpriv.errors import FastPubPrivError

TRACEBACK = "FASTPUBPRIV_TRACEBACK"  # environment variable
LINGER_SECONDS = 0.2  # wait for a reader that leaves early


class OutputError(Exception):
    """The standard output could not be written to its end."""


def reason(error: Exception) -> str:
    """Return a phrase for an error of a stream or file, without names or content."""
    if isinstance(error, BrokenPipeError):
        return "was closed before everything was written"
    if isinstance(error, OSError):
        return f"could not be written: {error.strerror or errno.errorcode.get(error.errno or 0, 'error')}"
    return "is closed"


def quiet(stream: Any) -> None:
    """Redirect a broken stream to the null device, or Python reports its buffer as an error at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def prepare() -> None:
    """Make the streams safe to use: characters outside of their encoding are written as escape sequences."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Otherwise the next opened file, perhaps the ledger, gets the number of a standard stream, the lowest free one.
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def emit(text: str, *, whole: bool = False) -> None:
    """Write all of the text to the standard output; raise OutputError if that fails or, if it is the `whole`, nobody reads."""
    if sys.stdout is None:
        raise OutputError("the standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:  # ValueError: the stream was closed
        quiet(sys.stdout)
        raise OutputError(f"the standard output {reason(error)}") from None
    if whole:
        wait_for_reader()


def hint(text: str) -> None:
    """Write to the error stream, if there is one; failures are ignored."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        quiet(sys.stderr)


def output_is_gone(seconds: float = 0.0) -> bool:
    """Return whether the standard output is closed, at this end or, within `seconds`, by its reader."""
    if sys.stdout is None:
        return True
    try:
        number = sys.stdout.fileno()
        pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
        poll = select.poll()
    # a stream without a file, or a system without poll
    except (OSError, ValueError, AttributeError):
        return bool(getattr(sys.stdout, "closed", False))
    poll.register(number, select.POLLERR)
    events = poll.poll(1000.0 * seconds if pipe else 0)
    return any(event & (select.POLLERR | select.POLLNVAL) for _, event in events)


def wait_for_reader() -> None:
    """Raise OutputError if the reader of a pipe leaves early: writes to a pipe succeed, whether they are read or not."""
    if output_is_gone(LINGER_SECONDS):
        raise OutputError("the standard output was closed before its end was read")


# Errors of commands.


class Failure(click.ClickException):
    """An error reported as one line. Exit codes: 2 for a refusal, 1 if an answer could not be written, 130 if interrupted."""

    exit_code: int  # type: ignore[misc]

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
    """Return the message of an error: in full if this library raised it, else without its text, which may quote rows."""
    if isinstance(error, FastPubPrivError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, OSError):
        name = (
            f"{os.fspath(error.filename)!r}: "
            if isinstance(error.filename, str | bytes | os.PathLike)
            else ""
        )
        return f"{name}{error.strerror or type(error).__name__}"
    return type(error).__name__


@contextlib.contextmanager
def in_one_line(
    verdict: Callable[[], str] | None = None, paid: Callable[[], bool] = bool
) -> Iterator[None]:
    """Convert errors to one line; a command that may charge a ledger passes `verdict`, which says whether it was charged."""
    # The text of an unexpected error is not shown: it is not from this library, and may quote rows.
    try:
        yield
    except (click.exceptions.Exit, click.Abort, click.ClickException):
        raise
    except KeyboardInterrupt:
        charged = (
            f" before there was an answer; {verdict()}"
            if verdict
            else "; nothing was charged to a ledger"
        )
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
