"""The file behind a ledger: append-only lines that are checked, chained, locked and on disk before a debit counts.

An operation holds its turn, open files and their locks, and must release them at whatever moment it is interrupted. Python runs
signal handlers between bytecode instructions, also between a system call and the assignment of its result, and Ctrl-C is an
exception raised by such a handler. A forked child shares every open file. Hence:

- A resource is acquired and registered, or deregistered and released, in one C call, in which no handler runs (`HeldResources`).
- The context manager that releases is entered twice: an interrupt in the first exit still runs the second. No `try` stands between
  the two and the work, because CPython 3.11 does not protect the step onto a `try` by the blocks around it.
- A handler that requests a turn held by its own thread is refused (`Turn`), since it would wait for itself.
- The lock (`flock`) belongs to the open file description, and lasts until a process unlocks it or all have closed it. So the
  owner unlocks before it closes, whatever children are alive; a child closes its copy right after the fork, so that the lock of a
  killed parent ends with the parent; and a child never unlocks. (`fcntl` locks belong to one process, but any close of the file
  anywhere in that process would drop them.)

Format. One JSON object per line, ASCII, padded with spaces to a multiple of 1024 bytes (newline included), so that an ordinary line
lies in one memory page and a killed process cannot leave half of it. The last key, "check", is the SHA-256 of the previous line's
check and the rest of this line: a changed, missing, duplicate or moved line breaks the chain. Every debit has a random "nonce", so
that no two are equal. The first line is the header.

Truncating whole lines at the end, or restoring an older copy, leaves a valid file; nothing inside a file can reveal that, so keep
the file where nobody can do it. A process that has read the newer file detects it, whatever was written since: the last line that
it has verified is no longer at its offset.
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
from fastpubpriv.threads.processes import here
from fastpubpriv.validation import nonnegative

_PAUSE = 0.002  # seconds between attempts to lock

# Held while a file is opened or closed, so that no fork happens between the system call and its entry in `_open`. Reentrant,
# because a signal handler may fork in the thread that holds it.
_gate = threading.RLock()
# unlike `release`, it accepts and ignores an argument
_leave_gate = cast(Callable[[Any], object], _gate.__exit__)
_open: set[OpenFile] = set()


class HeldResources:
    """Stack of acquired resources: each is released once, the last one first. Use it as `with held, held:`."""

    __slots__ = ("_returns", "_taken")

    def __init__(self) -> None:
        self._taken: list[tuple[Callable[[Any], object], Any] | None] = [None]
        # Each step of this iterator pops the last entry and calls it; the sentinel None ends the iteration.
        self._returns = itertools.starmap(operator.call, iter(self._taken.pop, None))

    def take(self, take: Callable[..., Any], *arguments: Any, back: Callable[[Any], object]) -> Any:
        """Return take(*arguments), which `back` will release. Both must be C functions, in which no signal handler runs."""
        self._taken.extend(zip((back,), itertools.starmap(take, (arguments,)), strict=False))
        entry = self._taken[-1]
        assert entry is not None
        return entry[1]

    def give_back(self) -> None:
        """Release all resources still held. One whose release fails (a close that reports an earlier error) counts as released."""
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
    """A file to open and lock; unusable in a child that was forked while it was open. Use it as `with file, file:`."""

    __slots__ = ("_fd", "_home")

    def __init__(self) -> None:
        super().__init__()
        self._home = here()
        self._fd: int | None = None

    def open(self, path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> None:
        """Open the file as `os.open` does, with close-on-exec. OSError propagates."""
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
        """Wait up to `timeout` seconds for the lock; return whether it was acquired. OSError propagates."""
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
        """Unlock and close the file; do nothing in a child, which neither owns the lock nor has the file open."""
        if here() != self._home:
            return
        # Forget the descriptor before closing it: afterwards its number may belong to another file.
        fd, self._fd = self._fd, None
        with (gate := HeldResources()), gate:
            gate.take(_gate.acquire, back=_leave_gate)
            if fd is not None:
                # closing unlocks as well, unless a child without handlers lives
                with contextlib.suppress(OSError):
                    fcntl.flock(fd, fcntl.LOCK_UN)
            super().give_back()
            _open.discard(self)


class Turn:
    """Lock of one ledger, held by one thread of a process at a time. Use it as `with turn, turn:`."""

    # `turns` of the ledger maps each process to the turn that holds it. A forked child has no entry there, and adds its own.

    __slots__ = ("_thread", "_turns")

    def __init__(self, turns: dict[tuple[int, int], Turn]) -> None:
        self._turns = turns
        self._thread = threading.get_ident()

    def wait(self) -> None:
        """Wait for the turn; LedgerError if this thread already holds one, since it would wait for itself."""
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


# Bound methods of the lock, as a signal handler could run and raise in a Python function. The child inherits the held lock.
os.register_at_fork(after_in_child=_after_fork_in_child)
os.register_at_fork(
    before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release
)


_LINE_UNIT = 1024  # bytes; the length of a line is a multiple of it
_MAX_LINE = 1 << 16  # bytes
_PIECE = 1 << 20  # bytes read at once
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
    """Return one padded line and its check."""
    body = json.dumps(
        record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    check = hashlib.sha256((previous + body).encode("ascii")).hexdigest()
    line = f'{body[:-1]},"check":"{check}"}}'.encode("ascii")
    size = -(-(len(line) + 1) // _LINE_UNIT) * _LINE_UNIT
    if size > _MAX_LINE:
        raise LedgerError(f"a ledger line would have {size} bytes; use a shorter label or name")
    return line.ljust(size - 1) + b"\n", check


def decode(line: bytes, previous: str) -> tuple[dict[str, Any], str] | None:
    """Return the record and check of a line (without its newline), or None if the line does not follow `previous`."""
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
    """Return the seconds to wait for a lock; InputError unless finite and at least 0."""
    return nonnegative("timeout (seconds to wait for the ledger file)", value)


def checked_path(value: object) -> Path:
    """Return the path of a ledger file; InputError for a value that is no path on any file system."""
    wanted = "the path of a ledger must be a text or a pathlib.Path, for example 'survey.ledger'"
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        text = None
    if not isinstance(text, str):
        why = type(value).__name__
    elif not text:
        why = "an empty text"
    elif "\0" in text:
        why = f"{text[:80]!a}, which has a NUL character in it"
    else:
        try:
            os.fsencode(text)
            return Path(text)
        except UnicodeEncodeError:
            why = f"{text[:80]!a}, which no file can be named"
    raise InputError(f"{wanted}; got {why}")


class LedgerFile:
    """Locked access to one ledger file, opened for each operation, so that the lock also excludes forked processes."""

    __slots__ = ("path", "timeout")

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self.path = checked_path(path)
        self.timeout = checked_timeout(timeout)

    def create(self, header: dict[str, Any]) -> None:
        """Create the file with its header, on disk when this returns, unless a file already exists."""
        # It is linked into place once the header is written: no other process ever sees an empty ledger.
        if os.path.lexists(self.path):
            self.sync_directory()
            return
        line, _ = encode({"format": _FORMAT, "version": _VERSION, **header}, "")
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        with (leftover := HeldResources()), leftover:
            leftover.take(str, temporary, back=os.unlink)
            self._create_from(temporary, line)

    def _create_from(self, temporary: Path, content: bytes) -> None:
        try:
            self._write_new(temporary, content)
            try:
                os.link(temporary, self.path, follow_symlinks=False)
            except FileExistsError:
                pass
            except FileNotFoundError:
                # The process that created the ledger first may have removed this temporary file as a leftover.
                if not os.path.lexists(self.path):
                    raise
            self.sync_directory()
        except OSError as error:
            raise self._error("cannot be created", error) from None

    def _write_new(self, path: Path, content: bytes) -> None:
        """Write a file that does not exist yet, on disk when this returns; OSError propagates."""
        with (file := OpenFile()), file:
            file.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
            if os.write(file.fd, content) != len(content):
                raise self._error("cannot be created: the disk is full")
            os.fsync(file.fd)

    def locked(self, work: Callable[[OpenFile], T], *, write: bool) -> T:
        """Return work(open file), called under the lock of the file: exclusive for writing, shared for reading."""
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
            raise self._error(
                f"is locked by another process (waited {self.timeout:g} s); pass a longer timeout"
            )

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

    def read_from(
        self, file: OpenFile, position: Position
    ) -> tuple[list[dict[str, Any]], Position]:
        """Return the verified records after `position`, and the new position. The first record of a file is its header."""
        records, position, torn = self._scan(file, position)
        if torn:
            raise self._error(
                "ends in half a line (a power cut, or a copy that was cut off). No debit is charged for half a line. "
                "If nobody else touched the file, Ledger.repair(path) removes it"
            )
        return records, position

    def _scan(
        self, file: OpenFile, position: Position
    ) -> tuple[list[dict[str, Any]], Position, bytes]:
        """Return the records after `position`, the position after them, and an incomplete line at the end, if any."""
        size = self._check_unchanged(file, position)
        if position.offset == 0 and f'"format":"{_FORMAT}"'.encode() not in self._read(
            file, 256, 0
        ):
            raise self._error("is not a fastpubpriv ledger; pass another path")
        records: list[dict[str, Any]] = []
        offset = position.offset
        check = position.check
        last = position.last
        rest = b""
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
                check = decoded[1]
                last = line + b"\n"
                offset += len(last)
            if len(rest) >= _MAX_LINE:
                raise self._error(
                    f"is corrupt at byte {offset}: a line has no end, which cannot be repaired"
                )
        return records, Position(offset, check, last, self._identity(file)), rest

    def _check_unchanged(self, file: OpenFile, position: Position) -> int:
        """Return the size of the file; LedgerError unless the path still leads to it and the last verified line is in place."""
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
        if (
            self._read(file, len(position.last), position.offset - len(position.last))
            != position.last
        ):
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
            # Even after an interrupt, either the whole line or none of it stays; nested twice, as the context managers are.
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
            raise self._error(
                "could not be written because the disk is full, so nothing was charged; free some space"
            )
        try:
            os.fsync(file.fd)
        except OSError as error:
            # The line may or may not be on disk. It stays in the file and is charged; the caller must not read data.
            raise self._error(
                "could not be flushed to disk; the debit counts, but nothing may be released", error
            ) from None
        position = Position(position.offset + len(line), check, line, position.identity)
        self._check_unchanged(file, position)  # programs that copy files ignore locks
        return position

    def _cut_half_a_line(self, file: OpenFile, begin: int, end: int) -> None:
        """Truncate an incomplete line that should span `begin` to `end`; in a child, raise and leave this to the parent."""
        if begin < os.fstat(file.fd).st_size < end:
            os.ftruncate(file.fd, begin)

    def repair(self, file: OpenFile) -> int:
        """Move half a line at the end of the file into a file beside it; return the number of bytes moved."""
        _, position, torn = self._scan(file, Position())
        if not position.offset:
            raise self._error(
                "has no complete header; if no release ever used it, delete it and start again"
            )
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
        """Delete temporary files of crashed creators. Creators that still run do not need theirs, as the ledger exists."""
        pattern = re.compile(re.escape(f".{self.path.name}.") + r"[0-9a-f]{16}\.new")
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path.parent):
                if pattern.fullmatch(name):
                    with contextlib.suppress(OSError):
                        os.unlink(self.path.parent / name)

    def sync_directory(self) -> None:
        """Flush the directory, so that the file's name is on disk: its creator may have crashed before doing so."""
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
            if error.errno != errno.EINVAL:  # some network file systems cannot flush directories
                raise self._error(
                    "cannot be opened: its directory cannot be flushed", error
                ) from None

    def _is_a_directory(self) -> LedgerError:
        return self._error("is a directory; pass the path of a file in it")

    def _error(self, what: str, error: OSError | None = None) -> LedgerError:
        reason = f": {error.strerror or type(error).__name__}" if error is not None else ""
        return LedgerError(f"ledger file {str(self.path)!r} {what}{reason}")
