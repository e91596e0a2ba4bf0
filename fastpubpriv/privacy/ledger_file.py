"""The file behind a ledger: append-only lines that are checked, chained, locked and on disk before a debit counts.

An operation holds its turn, open files and their locks, and gives them back at whatever moment it is interrupted. Python runs
signal handlers between its instructions, also between a system call and the assignment of what it returned, and Ctrl-C is an
exception of such a handler. A child that is forked has a share in every open file. Hence:

- A thing is taken and noted down, or crossed out and given back, in one call of C, in which no handler runs (`HeldResources`).
- What gives back stands twice around the work: an interrupt that meets the first meets the second before it gets away. Between
  the two and the work stands no `try`: CPython 3.11 covers the step onto it by no block around.
- A handler that asks for a turn that its own thread has is refused (`Turn`): it would wait for itself.
- The lock (`flock`) belongs to the open file, and lasts until a process unlocks it or all have closed. So the owner unlocks
  before it closes, whatever children live on; a child closes its share at birth, so that the lock of a parent that is killed
  goes with the parent; and a child never unlocks. (`fcntl` locks belong to one process, but any close of the file anywhere in
  it would drop them.)

Format. One JSON object per line, ASCII, padded with spaces to a multiple of 1024 bytes (newline included), so that an ordinary line
lies in one memory page and a killed process cannot leave half of it. The last key, "check", is the SHA-256 of the previous line's
check and the rest of this line: a changed, missing, doubled or moved line breaks the chain. Every debit has a random "nonce", so
that no two are alike. The first line is the header.

Cutting off whole lines at the end, or putting back an older copy, leaves a valid file; nothing inside a file can show that, so keep
the file where nobody does it. A process that has read the newer file does notice, whatever was written since: the last line that it
has verified is no longer where it was.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import json
import operator
import os
import re
import secrets
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from fastpubpriv.errors import InputError, LedgerError
from fastpubpriv.processes import here
from fastpubpriv.validation import nonnegative

_PAUSE = 0.002

# A fork waits while a file is opened or closed: between the call and its entry in `_open` there is no moment at which it could
# happen. Reentrant, because a signal handler may fork in the thread that holds it.
_gate = threading.RLock()
_leave_gate = cast(Callable[[Any], object], _gate.__exit__)  # unlike `release` it takes an argument, and passes it over
_open: set[OpenFile] = set()


class HeldResources:
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


class OpenFile(HeldResources):
    """A file to be opened and locked; of no use in a child that was forked while it was open. Use it as `with file, file:`."""

    __slots__ = ("_fd", "_home")

    def __init__(self) -> None:
        super().__init__()
        self._home = here()
        self._fd: int | None = None

    def open(self, path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> None:
        """Open it, as `os.open` does; it is closed in programs that are started. OSError passes."""
        _open.add(self)
        with (gate := HeldResources()), gate:
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
        with (gate := HeldResources()), gate:
            gate.take(_gate.acquire, back=_leave_gate)
            if fd is not None:
                with contextlib.suppress(OSError):  # closing unlocks as well, unless a child without handlers lives
                    fcntl.flock(fd, fcntl.LOCK_UN)
            super().give_back()
            _open.discard(self)


class Turn:
    """The right to work on one ledger, which one thread of a process has at a time. Use it as `with turn, turn:`."""

    # `turns` of the ledger say whose turn it is in this process. A forked child finds no turn of its own there, and takes one.

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
        HeldResources.give_back(file)
    _open.clear()


# Bound methods of the lock: in a function of Python a signal handler could run and raise. The child has the parent's hold.
os.register_at_fork(after_in_child=_after_fork_in_child)
os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release)


_LINE_UNIT = 1024
_MAX_LINE = 1 << 16
_PIECE = 1 << 20
_TAIL = re.compile(rb',"check":"([0-9a-f]{64})"\} *\Z')
_FORMAT = "fastpubpriv-ledger"
_VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has verified the file: byte offset, check and bytes of the last line, identity of the file."""

    offset: int = 0
    check: str = ""
    last: bytes = b""
    identity: tuple[int, int] | None = None


def encode(record: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """One padded line and its check."""
    body = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    check = hashlib.sha256((previous + body).encode("ascii")).hexdigest()
    line = f'{body[:-1]},"check":"{check}"}}'.encode("ascii")
    size = -(-(len(line) + 1) // _LINE_UNIT) * _LINE_UNIT
    if size > _MAX_LINE:
        raise LedgerError(f"a ledger line would have {size} bytes; use a shorter label or name")
    return line.ljust(size - 1) + b"\n", check


def decode(line: bytes, previous: str) -> tuple[dict[str, Any], str] | None:
    """The record and check of one line (without its newline), or None if it is not the one that follows `previous`."""
    match = _TAIL.search(line)
    if match is None or (len(line) + 1) % _LINE_UNIT or len(line) >= _MAX_LINE:
        return None
    body = line[: match.start()] + b"}"
    check = match[1].decode("ascii")
    if hashlib.sha256(previous.encode("ascii") + body).hexdigest() != check:
        return None
    try:
        record = json.loads(body.decode("ascii"))
    except (ValueError, RecursionError):  # RecursionError: thousands of brackets within brackets
        return None
    return (record, check) if isinstance(record, dict) else None


def checked_timeout(value: object) -> float:
    """Seconds to wait for a lock; InputError for everything but a finite number of at least 0."""
    return nonnegative("timeout (seconds to wait for the ledger file)", value)


def checked_path(value: object) -> Path:
    """The path of a ledger file; InputError for what cannot be one, on any file system."""
    wanted = "the path of a ledger must be a text or a pathlib.Path, for example 'survey.ledger'"
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise InputError(f"{wanted}; got {type(value).__name__}")
    if not text:
        raise InputError(f"{wanted}; got an empty text")
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise InputError(f"{wanted}; got {text[:80]!a}, which no file can be named") from None
    if b"\0" in encoded:
        raise InputError(f"{wanted}; got {text[:80]!a}, which has a NUL character in it")
    return Path(text)


class LedgerFile:
    """Locked access to one ledger file, opened anew for every operation: forked processes order themselves by the lock."""

    __slots__ = ("path", "timeout")

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self.path = checked_path(path)
        self.timeout = checked_timeout(timeout)

    def create(self, header: dict[str, Any]) -> bool:
        """Create the file with its header, on disk when this returns; False when a file is already there."""
        # It is linked into place once the header is written: no other process ever sees an empty ledger.
        if os.path.lexists(self.path):
            self.sync_directory()
            return False
        line, _ = encode({"format": _FORMAT, "version": _VERSION, **header}, "")
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        with (leftover := HeldResources()), leftover:
            leftover.take(str, temporary, back=os.unlink)
            self._create_from(temporary, line)
        return True

    def _create_from(self, temporary: Path, content: bytes) -> None:
        try:
            self._write_new(temporary, content)
            try:
                os.link(temporary, self.path, follow_symlinks=False)
            except FileExistsError:
                pass
            except FileNotFoundError:
                # Whoever created the ledger first takes the temporary files of the others for leftovers.
                if not os.path.lexists(self.path):
                    raise
            self.sync_directory()
        except OSError as error:
            raise self._error("cannot be created", error) from None

    def _write_new(self, path: Path, content: bytes) -> None:
        """Write a file that does not exist yet, on disk when this returns; OSError passes."""
        with (file := OpenFile()), file:
            file.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
            if os.write(file.fd, content) != len(content):
                raise self._error("cannot be created: the disk is full")
            os.fsync(file.fd)

    def locked(self, work: Callable[[OpenFile], T], *, write: bool) -> T:
        """What `work` makes of the open file under its lock: exclusive for writing, shared for reading."""
        with (file := OpenFile()), file:
            self._open(file, write)
            self._lock(file, write)
            return work(file)

    def _lock(self, file: OpenFile, write: bool) -> None:
        try:
            locked = file.lock(exclusive=write, timeout=self.timeout)
        except OSError as error:
            raise self._error("cannot be locked", error) from None
        if not locked:
            raise self._error(f"is locked by another process (waited {self.timeout:g} s); pass a longer timeout")

    def _open(self, file: OpenFile, write: bool) -> None:
        mode = (os.O_RDWR | os.O_APPEND) if write else os.O_RDONLY
        try:
            file.open(self.path, mode | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if os.path.islink(self.path):
                raise self._error("is a symbolic link; pass the path of the file itself") from None
            if isinstance(error, FileNotFoundError):
                raise self._error(
                    "does not exist; if no release used an earlier one, Ledger(total, path=...) starts it"
                ) from None
            if isinstance(error, IsADirectoryError):
                raise self._is_a_directory() from None
            raise self._error("cannot be opened", error) from None
        kind = os.fstat(file.fd).st_mode
        if stat.S_ISDIR(kind):
            raise self._is_a_directory()
        if not stat.S_ISREG(kind):
            raise self._error("is not a regular file")

    def read_from(self, file: OpenFile, position: Position) -> tuple[list[dict[str, Any]], Position]:
        """Every record after `position`, verified, and the new position. The first record of a file is its header."""
        records, position, torn = self._scan(file, position)
        if torn:
            raise self._error(
                "ends in half a line (a power cut, or a copy that was cut off). No debit is charged for half a line. "
                "If nobody else touched the file, Ledger.repair(path) removes it"
            )
        return records, position

    def _scan(self, file: OpenFile, position: Position) -> tuple[list[dict[str, Any]], Position, bytes]:
        """The records after `position`, the position after them, and half a line that may follow."""
        size = self._check_unchanged(file, position)
        if position.offset == 0 and f'"format":"{_FORMAT}"'.encode() not in self._read(file, 256, 0):
            raise self._error("is not a fastpubpriv ledger; pass another path")
        records: list[dict[str, Any]] = []
        offset, check, last, rest = position.offset, position.check, position.last, b""
        while offset + len(rest) < size:
            piece = self._read(file, min(_PIECE, size - offset - len(rest)), offset + len(rest))
            if not piece:
                raise self._error("became shorter while it was read: somebody removed debits")
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                decoded = decode(line, check)
                if decoded is None:
                    raise self._error(
                        f"is corrupt at byte {offset}: a line was changed, lost or doubled, which cannot be repaired"
                    )
                records.append(decoded[0])
                check, last = decoded[1], line + b"\n"
                offset += len(last)
            if len(rest) >= _MAX_LINE:
                raise self._error(f"is corrupt at byte {offset}: a line has no end, which cannot be repaired")
        return records, Position(offset, check, last, self._identity(file)), rest

    def _check_unchanged(self, file: OpenFile, position: Position) -> int:
        """The size of the file; LedgerError unless the path still leads to it and it still holds what was verified."""
        try:
            here = os.stat(self.path, follow_symlinks=False)
        except OSError as error:
            raise self._error("cannot be found any more", error) from None
        identity = self._identity(file)
        if identity != (here.st_dev, here.st_ino) or position.identity not in (None, identity):
            raise self._error("was replaced by another file while in use")
        size = os.fstat(file.fd).st_size
        if size < position.offset:
            raise self._error("became shorter: somebody removed debits")
        if size == 0:
            raise self._error("is empty; if no release ever used it, delete it and start again")
        if self._read(file, len(position.last), position.offset - len(position.last)) != position.last:
            raise self._error(
                "was rolled back: the debit that this process saw last is no longer in it. Put the newest copy back, or "
                "start a new ledger with what is really left"
            )
        return size

    def _identity(self, file: OpenFile) -> tuple[int, int]:
        info = os.fstat(file.fd)
        return info.st_dev, info.st_ino

    def _read(self, file: OpenFile, size: int, offset: int) -> bytes:
        try:
            return os.pread(file.fd, size, offset)
        except OSError as error:
            raise self._error("cannot be read", error) from None

    def append(self, file: OpenFile, record: dict[str, Any], position: Position) -> Position:
        """Write one record at `position`, the end of the file, under the exclusive lock; on disk when this returns."""
        line, check = encode({**record, "nonce": secrets.token_hex(16)}, position.check)
        end = position.offset + len(line)
        try:
            # Also after an interrupt either the whole line stays or none of it; twice, as for the lock.
            try:
                try:
                    written = os.write(file.fd, line)
                finally:
                    self._cut_half_a_line(file, position.offset, end)
            finally:
                self._cut_half_a_line(file, position.offset, end)
        except OSError as error:
            raise self._error("could not be written, so nothing was charged", error) from None
        if written != len(line):
            raise self._error("could not be written because the disk is full, so nothing was charged; free some space")
        try:
            os.fsync(file.fd)
        except OSError as error:
            # The line may or may not be on disk. It stays in the file and counts; the caller must not read data.
            raise self._error(
                "could not be flushed to disk; the debit counts, but nothing may be released", error
            ) from None
        position = Position(position.offset + len(line), check, line, position.identity)
        self._check_unchanged(file, position)  # programs that copy files heed no locks
        return position

    def _cut_half_a_line(self, file: OpenFile, begin: int, end: int) -> None:
        """Cut off a line that should reach from `begin` to `end` and does not; a child leaves this to its parent."""
        if begin < os.fstat(file.fd).st_size < end:
            os.ftruncate(file.fd, begin)

    def repair(self) -> int:
        """Move half a line at the end of the file into a file beside it; returns how many bytes were moved."""
        return self.locked(self._repair, write=True)

    def _repair(self, file: OpenFile) -> int:
        _, position, torn = self._scan(file, Position())
        if not position.offset:
            raise self._error("has no complete header; if no release ever used it, delete it and start again")
        if torn:
            aside = self.path.with_name(f"{self.path.name}.torn-{secrets.token_hex(4)}")
            try:
                self._write_new(aside, torn)
                os.ftruncate(file.fd, position.offset)
                os.fsync(file.fd)
            except OSError as error:
                raise self._error("could not be repaired", error) from None
        return len(torn)

    def remove_leftovers(self) -> None:
        """Delete temporary files of creators that crashed. Creators that run find the ledger there and need theirs no more."""
        pattern = re.compile(re.escape(f".{self.path.name}.") + r"[0-9a-f]{16}\.new")
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path.parent):
                if pattern.fullmatch(name):
                    with contextlib.suppress(OSError):
                        os.unlink(self.path.parent / name)

    def sync_directory(self) -> None:
        """Make sure that the file's name is on disk: its creator may have crashed just before."""
        with (folder := OpenFile()), folder:
            self._sync(folder)

    def _sync(self, folder: OpenFile) -> None:
        try:
            folder.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self._error("cannot be opened: its directory cannot be read", error) from None
        try:
            os.fsync(folder.fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems have no such call for directories
                raise self._error("cannot be opened: its directory cannot be flushed", error) from None

    def _is_a_directory(self) -> LedgerError:
        return self._error("is a directory; pass the path of a file in it")

    def _error(self, what: str, error: OSError | None = None) -> LedgerError:
        reason = f": {error.strerror or type(error).__name__}" if error is not None else ""
        return LedgerError(f"ledger file {str(self.path)!r} {what}{reason}")
