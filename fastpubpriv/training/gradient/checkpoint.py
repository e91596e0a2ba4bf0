"""A file that keeps the released values of a run, so that it can go on after a crash and no noise is ever drawn twice.

It holds what was released, and nothing else. A step is marked as begun, on disk, before its query runs. One that was begun and
whose value is not in the file was lost: it is left out, and its noise is not drawn again.

Lines of JSON, the first one about the call, then zeros up to the size that the file has from the start: one that was cut, wherever,
is too short.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import fcntl
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError

_KIND = "fastpubpriv checkpoint 2"
_MOST_HEAD, _MOST_WORDS = 1 << 12, 64  # bytes of the first line, and of a step's lines without its value
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a checkpoint must agree with."""

    digest: str  # of everything public that decides the queries
    shape: tuple[int, ...]  # of a released value
    steps: int  # of the run
    # whether the noise comes from a seed: such a run is not private, and one that is must not go on with its values
    seeded: bool

    @property
    def size(self) -> int:
        """Bytes of a file that holds all steps."""
        return _MOST_HEAD + self.steps * (2 * _MOST_WORDS + 4 * math.ceil(8 * math.prod(self.shape) / 3))

    @property
    def head(self) -> dict[str, Any]:
        """The first line."""
        return {"kind": _KIND, **dataclasses.asdict(self), "shape": list(self.shape), "bytes": self.size}


class Checkpoint:
    """An open checkpoint, locked against other processes.

    `resumed`: whether the budget was debited before, when the file was made; `begun`: how many steps have begun.
    """

    def __init__(self, descriptor: int, call: Call, name: str) -> None:
        self._fd, self._call, self._name = descriptor, call, name
        self._values: dict[int, FloatArray] = {}
        self.begun = 0
        self._end = 0  # of the lines
        self._started = False
        self.resumed = self._read()

    # ---- Reading -----------------------------------------------------------------------------------------------------

    def _read(self) -> bool:
        """Take what is there; False for a file in which nothing is written, which is made as large as it may become."""
        size = self._of_system(os.fstat).st_size
        first = self._at(0, _MOST_HEAD)
        if not first.strip(b"\0") and size in (0, self._call.size):
            self._of_system(_reserve, self._call.size)
            return False
        self._check_head(first.partition(b"\n")[0], size)
        text = self._at(0, size).rstrip(b"\0")
        whole = text[: text.rfind(b"\n") + 1]  # a line that a crash has cut off is ignored
        self._started, self._end = True, len(whole)
        for line in whole.splitlines()[1:]:
            self._take(self._parsed(line, "is damaged"))
        if len(text) > len(whole):
            self._put(len(whole), bytes(len(text) - len(whole)))
        return True

    def _check_head(self, line: bytes, size: int) -> None:
        head = self._parsed(line, "is not a checkpoint")
        kind = head.get("kind")
        if kind != _KIND:
            other = isinstance(kind, str) and kind.startswith("fastpubpriv checkpoint")
            self._refuse("is a checkpoint of another version of fastpubpriv" if other else "is not a checkpoint")
        if head.get("seeded") is not self._call.seeded:
            self._refuse(
                "holds noise from a seed, and this call asks for private noise"
                if head.get("seeded") is True
                else "holds private noise, and this call asks for noise from a seed"
            )
        if head != self._call.head:
            self._refuse("belongs to a call with other data, settings or budget")
        if size != self._call.size:
            self._refuse("was cut, or is a part of a copy: what it has lost was released, and it cannot be resumed")

    def _parsed(self, line: bytes, problem: str) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # RecursionError: thousands of brackets within brackets
            self._refuse(problem)
        if not isinstance(found, dict):
            self._refuse(problem)
        return found

    def _take(self, line: dict[str, Any]) -> None:
        """One line after the first: the next step has begun, or the value of the last one that has."""
        if set(line) == {"begun"} and _is_number(line["begun"], self.begun) and self.begun < self._call.steps:
            self.begun += 1
            return
        last = self.begun - 1
        if set(line) != {"step", "value"} or not _is_number(line["step"], last) or last in self._values:
            self._refuse("is damaged")
        try:
            raw = np.frombuffer(base64.b64decode(line["value"], validate=True), dtype="<f8")
            self._values[last] = raw.astype(np.float64).reshape(self._call.shape)
        except (ValueError, TypeError):
            self._refuse("is damaged")

    def _refuse(self, words: str) -> NoReturn:
        raise InputError(f"checkpoint: {self._name!r} {words}: pass another path, or delete it to begin anew")

    # ---- The file ----------------------------------------------------------------------------------------------------

    def _of_system(self, call: Any, *given: Any) -> Any:
        try:
            return call(self._fd, *given)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
        paid = "what was released until now stays in it, and was paid for" if self._started else "nothing was spent"
        raise InputError(
            f"checkpoint: {self._name!r} cannot be written or read ({reason}); it needs {self._call.size:,} bytes; {paid}"
        )

    def _at(self, begin: int, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = self._of_system(os.pread, min(_PIECE, count - len(found)), begin + len(found))
            if not piece:
                break
            found += piece
        return bytes(found)

    def _put(self, begin: int, content: bytes) -> None:
        while content:
            count = self._of_system(os.pwrite, content[:_PIECE], begin)
            begin, content = begin + count, content[count:]

    def _write(self, line: dict[str, Any], *, durable: bool) -> None:
        content = json.dumps(line).encode() + b"\n"
        self._put(self._end, content)
        self._end += len(content)
        if durable:
            self._of_system(os.fsync)

    def leave(self) -> None:
        """Give back the room of a file in which nothing is written."""
        if not self._started:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)

    # ---- Steps -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Write the first line of a new file; after the debit, so that a file that exists has been paid for."""
        self._started = True
        self._write(self._call.head, durable=True)

    def value(self, step: int) -> FloatArray | None:
        """What a step released, None if it was lost."""
        return self._values.get(step)

    def begin(self, step: int) -> None:
        """Mark a step as begun, before its query runs."""
        self._write({"begun": step}, durable=True)
        self.begun = step + 1

    def keep(self, step: int, value: FloatArray) -> None:
        """Keep what a step has released. Should a crash lose the line, the step counts as lost."""
        text = base64.b64encode(np.ascontiguousarray(value, dtype="<f8").tobytes()).decode()
        self._write({"step": step, "value": text}, durable=False)


def _is_number(found: Any, wanted: int) -> bool:
    return type(found) is int and found == wanted


def _reserve(descriptor: int, size: int) -> None:
    """Zeros up to this size, on disk: a disk that is full is found before the debit."""
    try:
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # file systems that cannot promise room
            os.ftruncate(descriptor, 0)
            raise


@contextmanager
def open_checkpoint(path: Any, call: Call) -> Iterator[Checkpoint | None]:
    """The checkpoint at a path, new or to be resumed; None for no path.

    InputError where the file is no regular file, cannot be written, is in use by another process, is no checkpoint, was cut, or
    belongs to another call, among them one whose noise is from a seed while this one's is not.
    """
    if path is None:
        yield None
        return
    name = validation.path_name(path)
    descriptor = _opened(name)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"checkpoint: {name!r} is in use by another process") from None
        made = Checkpoint(descriptor, call, name)
        try:
            yield made
        finally:
            made.leave()
    finally:
        os.close(descriptor)


def _opened(name: str) -> int:
    """A descriptor of the regular file of this name, which is made where there is none."""
    wanted = f"checkpoint: {name!r} is not a regular file: pass the path of a file, or of one that is to be made"
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.lstat(name).st_mode):
            raise InputError(wanted)  # before it is opened, which a device or a pipe may notice
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError:
        raise InputError(f"checkpoint: {name!r} cannot be opened for writing") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(wanted)
    return descriptor
