"""The file behind a ledger: append-only lines that are checked, chained, locked and on disk before a debit counts.

Format. One JSON object per line, ASCII, padded with spaces to a multiple of 1024 bytes (newline included), so that an
ordinary line lies in one memory page and a killed process cannot leave half of it. The last key, "check", is the
SHA-256 of the previous line's check and the rest of this line: a changed, missing, doubled or moved line breaks the
chain. The first line is the header. Cutting off whole lines at the end leaves a valid file; nothing inside a file can
show that, so keep the file where nobody shortens it. A process that has seen the longer file does notice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastpubpriv.errors import LedgerError

_LINE_UNIT = 1024
_MAX_LINE = 1 << 16
_TAIL = re.compile(rb',"check":"([0-9a-f]{64})"\} *\Z')
_FORMAT = "fastpubpriv-ledger"
_VERSION = 1


class Position:
    """How far a reader has verified the file: byte offset, check of the last line, identity of the file."""

    __slots__ = ("check", "identity", "offset")

    def __init__(self, offset: int = 0, check: str = "", identity: tuple[int, int] | None = None) -> None:
        self.offset, self.check, self.identity = offset, check, identity


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
    if match is None or (len(line) + 1) % _LINE_UNIT:
        return None
    body = line[: match.start()] + b"}"
    check = match[1].decode("ascii")
    if hashlib.sha256(previous.encode("ascii") + body).hexdigest() != check:
        return None
    try:
        record = json.loads(body)
    except ValueError:
        return None
    return (record, check) if isinstance(record, dict) else None


class LedgerFile:
    """Locked access to one ledger file, opened anew for every operation: a fork shares no lock and no descriptor."""

    __slots__ = ("path", "timeout")

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self.path = Path(path)
        self.timeout = timeout

    def create(self, header: dict[str, Any]) -> bool:
        """Create the file with its header, on disk when this returns; False when a file is already there.

        The header is written to a temporary name first and linked into place: no other process ever sees an empty
        ledger.
        """
        if os.path.lexists(self.path):
            self._sync_directory()  # its creator may have crashed just before
            return False
        line, _ = encode({"format": _FORMAT, "version": _VERSION, **header}, "")
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._error("cannot be created", error) from None
        try:
            try:
                if os.write(fd, line) != len(line):
                    raise self._error("cannot be created: the disk is full")
                os.fsync(fd)
            finally:
                os.close(fd)
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self.path, follow_symlinks=False)
            self._sync_directory()
        except OSError as error:
            raise self._error("cannot be created", error) from None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return True

    @contextlib.contextmanager
    def locked(self, *, write: bool) -> Iterator[int]:
        """An open descriptor under the file lock: exclusive for writing, shared for reading."""
        mode = (os.O_RDWR | os.O_APPEND) if write else os.O_RDONLY
        try:
            fd = os.open(self.path, mode | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if self.path.is_symlink():
                raise self._error("is a symbolic link; pass the path of the file itself") from None
            raise self._error("cannot be opened", error) from None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise self._error("is not a regular file")
            deadline = time.monotonic() + self.timeout
            while True:
                try:
                    fcntl.flock(fd, (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise self._error(
                            f"is locked by another process (waited {self.timeout:g} s); pass a longer timeout"
                        ) from None
                    time.sleep(0.002)
                except OSError as error:
                    raise self._error("cannot be locked", error) from None
            yield fd
        finally:
            os.close(fd)  # closing also unlocks

    def read_from(self, fd: int, position: Position) -> tuple[list[dict[str, Any]], Position]:
        """Every record after `position`, verified, and the new position. The first record of a file is its header."""
        info = os.fstat(fd)
        identity = (info.st_dev, info.st_ino)
        if position.identity not in (None, identity):
            raise self._error("was replaced by another file while in use")
        if info.st_size < position.offset:
            raise self._error("became shorter: somebody removed debits")
        if info.st_size == 0:
            raise self._error("is empty; if no release ever used it, delete it and start again")
        if position.offset == 0:
            self._check_format(os.pread(fd, 256, 0))
        data = bytearray()
        try:
            while len(data) < info.st_size - position.offset:
                piece = os.pread(fd, 1 << 20, position.offset + len(data))
                if not piece:
                    break
                data += piece
        except OSError as error:
            raise self._error("cannot be read", error) from None
        if data and not data.endswith(b"\n"):
            raise self._error(
                "ends in half a line (a power cut, or a copy that was cut off). No debit is charged for half a line. "
                "If nobody else touched the file, Ledger.repair(path) removes it"
            )
        records, check = [], position.check
        for number, line in enumerate(bytes(data).split(b"\n")[:-1]):
            decoded = decode(line, check)
            if decoded is None:
                raise self._error(
                    f"is corrupt {number} lines after byte {position.offset}: a line was changed, lost or doubled"
                )
            records.append(decoded[0])
            check = decoded[1]
        return records, Position(position.offset + len(data), check, identity)

    def append(self, fd: int, record: dict[str, Any], position: Position) -> Position:
        """Write one record at `position`, the end of the file, under the exclusive lock; on disk when this returns."""
        line, check = encode(record, position.check)
        written = 0
        try:
            written = os.write(fd, line)
        except OSError as error:
            raise self._error("could not be written, so nothing was charged", error) from None
        finally:
            # Also after an interrupt: either the whole line stays, or none of it.
            if written != len(line) and os.fstat(fd).st_size != position.offset + len(line):
                os.ftruncate(fd, position.offset)
        if written != len(line):
            raise self._error("could not be written because the disk is full, so nothing was charged; free some space")
        try:
            os.fsync(fd)
        except OSError as error:
            # The line may or may not be on disk. It stays in the file and counts; the caller must not read data.
            raise self._error(
                "could not be flushed to disk; the debit counts, but nothing may be released", error
            ) from None
        return Position(position.offset + len(line), check, position.identity)

    def repair(self) -> int:
        """Move half a line at the end of the file into a file beside it; returns how many bytes were moved."""
        with self.locked(write=True) as fd:
            size = os.fstat(fd).st_size
            data = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
            whole = data.rfind(b"\n") + 1
            self._check_format(data)
            check = ""
            for line in data[:whole].split(b"\n")[:-1]:
                decoded = decode(line, check)
                if decoded is None:
                    raise self._error("is corrupt before its last line and cannot be repaired")
                check = decoded[1]
            if not whole:
                raise self._error("has no complete header; if no release ever used it, delete it and start again")
            if whole < size:
                aside = self.path.with_name(f"{self.path.name}.torn-{secrets.token_hex(4)}")
                try:
                    aside.write_bytes(data[whole:])
                    os.ftruncate(fd, whole)
                    os.fsync(fd)
                except OSError as error:
                    raise self._error("could not be repaired", error) from None
            return size - whole

    def remove_leftovers(self) -> None:
        """Delete temporary files of creators that crashed. Safe once the ledger exists: their link would fail."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path.parent):
                if re.fullmatch(re.escape(f".{self.path.name}.") + r"[0-9a-f]{16}\.new", name):
                    os.unlink(self.path.parent / name)

    def _check_format(self, start: bytes) -> None:
        if f'"format":"{_FORMAT}"'.encode() not in start[:256]:
            raise self._error("is not a fastpubpriv ledger; pass another path")

    def _sync_directory(self) -> None:
        try:
            fd = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._error("cannot be opened: its directory cannot be read", error) from None
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems have no such call for directories
                raise self._error("cannot be opened: its directory cannot be flushed", error) from None
        finally:
            os.close(fd)

    def _error(self, what: str, error: OSError | None = None) -> LedgerError:
        reason = f": {error.strerror or type(error).__name__}" if error is not None else ""
        return LedgerError(f"ledger file {str(self.path)!r} {what}{reason}")
