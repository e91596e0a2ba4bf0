"""One open and locked file, which no forked child keeps.

The lock (`flock`) belongs to the open file, and a fork gives the child a share in it: it then lasts until one of them
unlocks or all of them have closed. Therefore the owner unlocks before it closes, whatever children live on; a child
closes its share at birth, so that the lock of a parent that is killed goes with the parent; and a child never unlocks.
`fcntl` locks belong to one process, but any close of the file anywhere in it would drop them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time

from fastpubpriv.errors import LedgerError

_PAUSE = 0.002

# A fork waits while a file is opened or closed: between the two calls and their entry in `_open` there is no moment at
# which it could happen. Reentrant, because a signal handler may fork in the thread that holds it.
_gate = threading.RLock()
_open: set[LockedFile] = set()


class LockedFile:
    """An open file with a lock on it; of no use in a child that was forked while it was open.

    Parameters
    ----------
    path : str
        The file; it must exist.
    flags : int
        For `os.open`; files are closed in programs that are started.
    """

    __slots__ = ("_fd", "_owner")

    def __init__(self, path: str, flags: int) -> None:
        self._owner = os.getpid()
        with _gate:
            self._fd = os.open(path, flags | os.O_CLOEXEC)
            _open.add(self)

    @property
    def fd(self) -> int:
        """The descriptor; LedgerError in a child, where it is closed and its number may stand for another file."""
        if os.getpid() != self._owner:
            raise LedgerError(
                "this process was forked in the middle of a ledger operation; its parent finishes it. Nothing was "
                "charged here"
            )
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

    def close(self) -> None:
        """Unlock and close; nothing in a child, which neither owns the lock nor has the file open."""
        if os.getpid() != self._owner:
            return
        with _gate:
            _open.discard(self)
            try:
                with contextlib.suppress(OSError):  # closing unlocks as well, unless a child without handlers lives
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
            finally:
                os.close(self._fd)


def _after_fork_in_child() -> None:
    global _gate
    _gate = threading.RLock()
    for file in _open:
        with contextlib.suppress(OSError):
            os.close(file._fd)
    _open.clear()


# Not the bound methods: a child that forks again has another gate.
os.register_at_fork(
    before=lambda: _gate.acquire(), after_in_parent=lambda: _gate.release(), after_in_child=_after_fork_in_child
)
