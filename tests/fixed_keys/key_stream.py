"""A stream of keys that a name decides, with the ways of the operating system's: what threads and forked children get differs."""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import weakref
from collections.abc import Callable

NAME_OF_STREAM = (
    # in the environment of processes that a test starts; only `sitecustomize` reads it
    "KEYS_OF_THIS_TEST"
)
KEYS = "fastpubpriv.keys"  # the module whose random bytes are fixed
_LIVING: weakref.WeakSet[KeyStream] = weakref.WeakSet()


class KeyStream:
    """Called like `os.urandom`. The n-th call gives the same bytes in every run; no two calls give the same."""

    def __init__(self, name: str) -> None:
        self._seed = hashlib.sha256(name.encode()).digest()
        # its `next` is atomic, and no lock can be held across a fork
        self._calls = itertools.count()
        self._forks = 0
        _LIVING.add(self)

    def __call__(self, size: int) -> bytes:
        return hashlib.shake_256(self._seed + next(self._calls).to_bytes(8, "little")).digest(size)

    def _before_fork(self) -> None:
        self._forks += 1

    def _in_child(self) -> None:
        self._seed = hashlib.sha256(
            self._seed + b"child" + self._forks.to_bytes(8, "little")
        ).digest()
        self._forks = 0


def _each(method: str) -> None:
    for stream in list(_LIVING):
        getattr(stream, method)()


os.register_at_fork(before=lambda: _each("_before_fork"), after_in_child=lambda: _each("_in_child"))


def give_keys_from(current: Callable[[], KeyStream | None]) -> None:
    """From now on the library's keys come from `current()`, if there is one; all others who ask the system are let through."""
    system = os.urandom

    def urandom(size: int, /) -> bytes:
        stream = current() if sys._getframe(1).f_globals.get("__name__") == KEYS else None
        return (stream or system)(size)

    os.urandom = urandom
