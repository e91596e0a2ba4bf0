"""The standard streams, which may be closed, full or unable to show a character, and errors as one line.

A stream that takes no more is told apart from every other failure.
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

TRACEBACK = "FASTPUBPRIV_TRACEBACK"
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
    """An OutputError if the reader of a pipe leaves before the end: what the pipe holds was written, whether it is read or not."""
    if output_is_gone(LINGER_SECONDS):
        raise OutputError("the standard output was closed before its end was read")


def emit_whole(text: str) -> None:
    """Write to the standard output, up to its end."""
    emit(text)
    wait_for_reader()


# Errors of commands.


class Failure(click.ClickException):
    """An end without an answer, as one line: 2 is a refusal, 1 an answer that could not be written, 130 an interruption."""

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
    """Errors that leave the block are one line; a command that may pay gives its `verdict` on what became of the budget."""
    # The text of an unexpected error is not shown: this library did not write it, and it may quote rows.
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
