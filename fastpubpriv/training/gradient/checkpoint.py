"""A file that keeps the released values of a run, so that it can go on after a crash and no noise is ever drawn twice.

It holds what was released, and nothing else. A step is marked as begun, on disk, before its query runs. One that was begun and
whose value is not in the file was lost: it is left out, and its noise is not drawn again.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError

_KIND = "fastpubpriv checkpoint 1"


class Checkpoint:
    """An open checkpoint, locked against other processes.

    Attributes
    ----------
    resumed : bool
        Whether the budget was debited before, when the file was made.
    begun : int
        Steps that have begun.
    """

    def __init__(self, handle: Any, digest: str, shape: tuple[int, ...], name: str) -> None:
        self._handle, self._shape, self._name = handle, shape, name
        self._values: dict[int, FloatArray] = {}
        self.begun = 0
        self._head = {"kind": _KIND, "digest": digest, "shape": list(shape)}
        self.resumed = self._read(digest)

    def _read(self, digest: str) -> bool:
        text = self._handle.read()
        whole = text[: text.rfind(b"\n") + 1]  # a line that was cut off says nothing
        lines = []
        for line in whole.splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                raise self._refused("is not a checkpoint") from None
        os.ftruncate(self._handle.fileno(), len(whole))
        self._handle.seek(0, os.SEEK_END)
        if not lines:
            if text.strip():
                raise self._refused("is not a checkpoint")
            return False
        head = lines[0]
        if not isinstance(head, dict) or head.get("kind") != _KIND:
            raise self._refused("is not a checkpoint")
        if head.get("digest") != digest or head.get("shape") != list(self._shape):
            raise self._refused("belongs to a call with other data, settings or budget")
        for line in lines[1:]:
            self._take(line)
        return True

    def _take(self, line: Any) -> None:
        try:
            if "value" in line:
                raw = np.frombuffer(base64.b64decode(line["value"]), dtype="<f8")
                self._values[int(line["step"])] = raw.astype(np.float64).reshape(self._shape)
            if "begun" in line:
                self.begun = max(self.begun, int(line["begun"]) + 1)
        except (ValueError, TypeError, KeyError):
            raise self._refused("is damaged") from None

    def _refused(self, words: str) -> InputError:
        return InputError(f"checkpoint: {self._name!r} {words}: pass another path, or delete it to begin anew")

    def _write(self, line: dict[str, Any], *, durable: bool) -> None:
        self._handle.write(json.dumps(line).encode() + b"\n")
        self._handle.flush()
        if durable:
            os.fsync(self._handle.fileno())

    def start(self) -> None:
        """Write the first line of a new file; after the debit, so that a file that exists has been paid for."""
        self._write(self._head, durable=True)

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


@contextmanager
def open_checkpoint(path: Any, digest: str, shape: tuple[int, ...]) -> Iterator[Checkpoint | None]:
    """The checkpoint at a path, new or to be resumed; None for no path.

    Raises
    ------
    InputError
        The file cannot be written, is in use by another process, is no checkpoint, or belongs to another call.
    """
    if path is None:
        yield None
        return
    name = validation.path_name(path)
    try:
        descriptor = os.open(Path(name), os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:
        raise InputError(f"checkpoint: {name!r} cannot be opened for writing") from None
    with contextlib.closing(os.fdopen(descriptor, "r+b")) as handle:
        try:
            fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"checkpoint: {name!r} is in use by another process") from None
        yield Checkpoint(handle, digest, shape, name)
