"""What an operation on a ledger holds, and gives back at whatever moment it is interrupted: its turn, open files, their locks.

Python runs signal handlers between its instructions, also between a system call and the assignment of what it returned, and
Ctrl-C is an exception of such a handler. A child that is forked has a share in every open file. Hence:

- A thing is taken and noted down, or crossed out and given back, in one call of C, in which no handler runs (`Held`).
- What gives back stands twice around the work: an interrupt that meets the first meets the second before it gets away. Between
  the two and the work stands no `try`: CPython 3.11 covers the step onto it by no block around.
- A handler that asks for a turn that its own thread has is refused (`Turn`): it would wait for itself.
- The lock (`flock`) belongs to the open file, and lasts until a process unlocks it or all have closed. So the owner unlocks
  before it closes, whatever children live on; a child closes its share at birth, so that the lock of a parent that is killed
  goes with the parent; and a child never unlocks. (`fcntl` locks belong to one process, but any close of the file anywhere in
  it would drop them.)
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import operator
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self, cast

from fastpubpriv.errors import LedgerError
from fastpubpriv.processes import here

_PAUSE = 0.002

# A fork waits while a file is opened or closed: between the call and its entry in `_open` there is no moment at which it could
# happen. Reentrant, because a signal handler may fork in the thread that holds it.
_gate = threading.RLock()
_leave_gate = cast(Callable[[Any], object], _gate.__exit__)  # unlike `release` it takes an argument, and passes it over
_open: set[OpenFile] = set()


class Held:
    """Things that have been taken: each is given back once, the last one first. Use it as `with held, held:`."""

    __slots__ = ("_returns", "_taken")

    def __init__(self) -> None:
        self._taken: list[tuple[Callable[[Any], object], Any] | None] = [None]
        # A step of it takes the last entry off the list and makes its call; at None it ends for good.
        self._returns = itertools.starmap(operator.call, iter(self._taken.pop, None))

    def take(self, take: Callable[..., Any], *arguments: Any, back: Callable[[Any], object]) -> Any:
        """Return take(*arguments), which `back` will be called with. Both are functions of C, which no signal handler enters."""
        self._taken.extend(zip((back,), itertools.starmap(take, (arguments,)), strict=False))
        entry = self._taken[-1]
        assert entry is not None
        return entry[1]

    def give_back(self) -> None:
        """Give back what has not been given back. What fails to be (a close that reports an old error) is gone as well."""
        while True:
            try:
                deque(self._returns, maxlen=0)
                return
            except OSError:
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.give_back()


class OpenFile(Held):
    """A file to be opened and locked; of no use in a child that was forked while it was open. Use it as `with file, file:`."""

    __slots__ = ("_fd", "_home")

    def __init__(self) -> None:
        super().__init__()
        self._home = here()
        self._fd: int | None = None

    def open(self, path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> None:
        """Open it, as `os.open` does; it is closed in programs that are started. OSError passes."""
        _open.add(self)
        with (gate := Held()), gate:
            gate.take(_gate.acquire, back=_leave_gate)
            self._fd = self.take(os.open, path, flags | os.O_CLOEXEC, mode, back=os.close)

    @property
    def fd(self) -> int:
        """The descriptor; LedgerError in a child, where it is closed and its number may stand for another file."""
        if here() != self._home:
            raise LedgerError(
                "this process was forked in the middle of a ledger operation; its parent finishes it. Nothing was "
                "charged here"
            )
        assert self._fd is not None
        return self._fd

    def lock(self, *, exclusive: bool, timeout: float) -> bool:
        """Wait for the lock up to `timeout` seconds; False when another holds it for so long. OSError passes."""
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_PAUSE)

    def give_back(self) -> None:
        """Unlock and close; nothing in a child, which neither owns the lock nor has the file open."""
        if here() != self._home:
            return
        # The number is forgotten before it is closed: afterwards it may be that of another file.
        fd, self._fd = self._fd, None
        with (gate := Held()), gate:
            gate.take(_gate.acquire, back=_leave_gate)
            if fd is not None:
                with contextlib.suppress(OSError):  # closing unlocks as well, unless a child without handlers lives
                    fcntl.flock(fd, fcntl.LOCK_UN)
            super().give_back()
            _open.discard(self)


class Turn:
    """The right to work on one ledger, which one thread of a process has at a time. Use it as `with turn, turn:`.

    Parameters
    ----------
    turns : dict
        Of the ledger: whose turn it is in this process. A forked child finds no turn of its own there, and takes one.
    """

    __slots__ = ("_thread", "_turns")

    def __init__(self, turns: dict[tuple[int, int], Turn]) -> None:
        self._turns = turns
        self._thread = threading.get_ident()

    def wait(self) -> None:
        """Wait until it is ours; LedgerError where this thread has it already, and would wait for itself."""
        while (holder := self._turns.setdefault(here(), self)) is not self:
            if holder._thread == self._thread:
                raise LedgerError(
                    "this ledger was asked in the middle of an operation of the same thread, by a signal handler say; "
                    "ask again when that operation has ended"
                )
            time.sleep(_PAUSE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._turns.get(here()) is self:
            del self._turns[here()]


def _after_fork_in_child() -> None:
    for file in _open:
        Held.give_back(file)
    _open.clear()


# Bound methods of the lock: in a function of Python a signal handler could run and raise. The child has the parent's hold.
os.register_at_fork(after_in_child=_after_fork_in_child)
os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release)
