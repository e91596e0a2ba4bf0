"""The standard streams, which may be closed, full or unable to show a character: told apart from every other failure."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import sys
from typing import Any

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
