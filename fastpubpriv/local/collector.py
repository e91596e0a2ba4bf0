"""Streams of batches of reports, written by devices and read by a server.

The content of a stream is not trusted. From the first item that is not a batch of this server's randomizer, the rest of a stream is
left unread, since the beginning of the next batch is unknown; other streams are not affected.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import report_codes
from fastpubpriv.local.aggregate import NAME_BYTES, Aggregator, Users, hashed_names, sealed, unsealed
from fastpubpriv.local.randomizers import Randomizer, Reports, payload_form
from fastpubpriv.release.reports import report_keys
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.row_types import Chunk

# Writing a stream: reports of many rows, by batches.

_BATCH_BYTES, _BATCH_NORMALS, _MOST_ROWS = 1 << 20, 1 << 24, 1 << 16  # limits of one batch


def batch_rows_of(randomizer: Randomizer) -> int:
    """Return the number of rows whose reports make a batch of about a megabyte, or take a tenth of a second."""
    fitting = min(_BATCH_BYTES // randomizer.report_bytes, _BATCH_NORMALS // int(randomizer.normals))
    return max(1, min(_MOST_ROWS, fitting))


def report_batches(
    randomizer: Randomizer, chunks: Iterator[Chunk], *, random_state: int | None = None, threads: int | None = None
) -> Iterator[Reports]:
    """Yield a batch of reports for each chunk of rows (k, dim), each row by `randomizer.cost`."""
    # A fresh key for each chunk; with a seed, too, each chunk has a separate key.
    _ = randomizer.cost  # raises for an epsilon without a cost
    keys = report_keys(random_state)
    for chunk in chunks:
        if chunk.shape[1] != randomizer.dim:
            raise InputError(f"rows have {chunk.shape[1]} columns, the randomizer is for {randomizer.dim}")
        yield randomizer._reported(private_rows(chunk), keys, threads=threads)


MOST_BATCH_BYTES = 1 << 30
# Entries from which on equal batches are taken for one batch sent twice: a coincidence has probability below 2^-100.
REPEAT_NUMBERS = 16

CUT_SHORT = "cut short"
FOREIGN = "not a batch of reports, or changed on the way"
OTHER_VERSION = f"another version than {report_codes.VERSION} of the format"
OTHER_RANDOMIZER = "of another randomizer: its kind, dim, epsilon, norm bound, form and words must be the same"
TOO_LARGE = f"a batch of more than {MOST_BATCH_BYTES:,} bytes"
TOO_MANY = "more reports than one input may hold"
REPEATED = "a batch that was taken before"

_MAGIC, _VERSION = b"FPPC", 1
_GROUP_BYTES = 1 << 22  # payload added at once
_PIECE_BYTES = 1 << 20  # read at once
# Fields of a header, as in csrc/wire.c.
_FORMAT, _LAW, _COUNT = slice(4, 6), (slice(6, 16), slice(24, 56), slice(60, 64)), slice(16, 24)


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""


class BatchReader:
    """Reads the valid batches of one stream, up to the first item that is not one."""

    __slots__ = ("_begun", "_most", "end", "randomizer", "reason", "reports")

    def __init__(self, randomizer: Randomizer, *, most: int | None = None) -> None:
        self.randomizer = randomizer
        self.reason: str | None = None  # why reading ended, None at the end of the stream
        self.reports = self.end = 0  # number of complete reports so far, and bytes up to their end
        self._most = most
        width, dtype = payload_form(randomizer)
        nothing = np.zeros((0, width), dtype)
        self._begun = report_codes.batch_write(randomizer.header, nothing)

    def batches(self, stream: Readable) -> Iterator[Any]:
        """Yield the payloads of nonempty batches, each an array of reports."""
        while head := _exactly(stream, len(self._begun)):
            self.reason, payload = self._batch(head, stream)
            if payload is None:
                return
            self.reports += len(payload)
            self.end += len(head) + len(payload) * self.randomizer.report_bytes
            if len(payload):
                yield payload

    def _batch(self, head: bytes, stream: Readable) -> tuple[str | None, Any]:
        """Return (reason, None) for a batch that is refused, (None, reports) for a valid one."""
        if len(head) < len(self._begun):
            return (CUT_SHORT if head[:4] == self._begun[: min(4, len(head))] else FOREIGN), None
        if head[:4] != self._begun[:4]:
            return FOREIGN, None
        if head[_FORMAT] != self._begun[_FORMAT]:
            return OTHER_VERSION, None
        if any(head[place] != self._begun[place] for place in _LAW):
            return OTHER_RANDOMIZER, None
        count = int.from_bytes(head[_COUNT], "little")
        size = count * self.randomizer.report_bytes
        if size > MOST_BATCH_BYTES:
            return TOO_LARGE, None
        if self._most is not None and self.reports + count > self._most:
            return TOO_MANY, None
        body = _exactly(stream, size)
        if len(body) < size:
            return CUT_SHORT, None
        try:
            return None, report_codes.batch_payload(head + body)
        except InputError:
            return FOREIGN, None


class Collector:
    """Sums of the reports in streams, without repeated batches."""

    # A batch is in `total` and recognized by a digest of its reports, or neither, even after an interrupt. Batches of fewer than 16
    # entries may be equal by chance: they are recognized by their stream up to their end, once that has 16 entries.

    __slots__ = ("_state", "refused")

    def __init__(self, randomizer: Randomizer, *, reports_per_user: int | None = None) -> None:
        self._state = Aggregator(randomizer, reports_per_user=reports_per_user), Users(1)
        self.refused: dict[str, int] = {}  # reason -> number of batches refused for it

    @property
    def total(self) -> Aggregator:
        """The sums so far; replaced by a new object when reports are added."""
        return self._state[0]

    def read(
        self,
        stream: Readable,
        *,
        # a hashed name for each report of the stream, if there is a limit per user (InputError if there are fewer)
        users: Iterator[bytes] | None = None,
        most: int | None = None,  # reports that this stream may hold
        threads: int | None = None,
        # called occasionally with the number of reports of this stream in `total`; an exception ends the reading
        after: Callable[[int], Any] = lambda taken: None,
    ) -> str | None:
        """Add the batches of a stream; return why the rest of it was refused, None if all of it was read."""
        reader = BatchReader(self.total.randomizer, most=most)
        chain, numbers, taken, group = hashlib.sha256(), 0, 0, _Group()
        for payload in reader.batches(stream):
            data = payload.tobytes()
            chain.update(data)
            numbers += payload.size
            named = [] if users is None else _names(users, len(payload))
            own = hashlib.sha256(data) if payload.size >= REPEAT_NUMBERS else chain
            digest = own.digest()[:NAME_BYTES] if numbers >= REPEAT_NUMBERS else None
            if digest is not None and (
                digest in group.digests or not self._state[1].admit(hashed_names([digest], 1))[0][0]
            ):
                self._refuse(REPEATED)
                continue
            group.add(payload, named, digest)
            if group.size >= _GROUP_BYTES:
                taken += self._add_group(group, threads)
                after(taken)
                group = _Group()
        taken += self._add_group(group, threads)
        after(taken)
        if reader.reason is not None:
            self._refuse(reader.reason)
        return reader.reason

    def merge(self, other: Collector) -> None:
        """Add the sums of another server; InputError if both have read one batch, or a user exceeds the limit."""
        (mine, users), (theirs, others) = self._state, other._state
        try:
            users = users.merged(others)
        except InputError:
            raise InputError("the two have read the same batches, whose reports would count twice") from None
        total = mine.copy()
        total.merge(theirs)
        self._state = total, users

    def to_bytes(self) -> bytes:
        """Return the sums, and the digests of the batches in them, as bytes."""
        total, users = (part.to_bytes() for part in self._state)
        return sealed(_MAGIC, _VERSION, len(total).to_bytes(8, "little"), total, users)

    @classmethod
    def from_bytes(cls, data: bytes, *, randomizer: Randomizer) -> Self:
        """Read what `to_bytes` wrote, for the same randomizer; InputError for anything else."""
        body = unsealed(data, _MAGIC, _VERSION, "the sums of a server are", "these sums have")
        size = int.from_bytes(body[8:16], "little") if body else 0
        if body is None or len(body) < 16 or size > len(body) - 16:
            raise InputError("these bytes are not the sums of a server: cut short, changed or foreign")
        total = Aggregator.from_bytes(body[16 : 16 + size], randomizer=randomizer)
        collector = cls(randomizer, reports_per_user=total.reports_per_user)
        collector._state = total, Users.from_bytes(body[16 + size :], 1)
        return collector

    def _refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def _add_group(self, group: _Group, threads: int | None) -> int:
        """Add the batches of a group, and their digests, in one assignment; return their number of reports."""
        if not group.payloads:
            return 0
        total, users = self._state
        total = total.copy()
        reports = Reports(total.randomizer, np.concatenate(group.payloads))
        total.add(reports, users=None if total.reports_per_user is None else group.names, threads=threads)
        self._state = total, users.with_more(dict.fromkeys(group.digests, 1))
        return len(reports)


@dataclass(slots=True)
class _Group:
    """Batches of one stream to be added together: few large sums are faster than many small ones. An interrupt drops them."""

    payloads: list[Any] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    digests: set[bytes] = field(default_factory=set)
    size: int = 0

    def add(self, payload: Any, names: list[bytes], digest: bytes | None) -> None:
        self.payloads.append(payload)
        self.names += names
        self.digests |= set() if digest is None else {digest}
        self.size += payload.nbytes


def _exactly(stream: Readable, size: int) -> bytes:
    """Read `size` bytes, or those up to the end: memory grows with the bytes received, not with the size that a header claims."""
    data = bytearray()
    while len(data) < size and (piece := stream.read(min(size - len(data), _PIECE_BYTES))):
        data += piece
    return bytes(data)


def _names(users: Iterator[bytes], n: int) -> list[bytes]:
    names = list(itertools.islice(users, n))
    if len(names) < n:
        raise InputError(
            "there are more reports than names of users: one name for each report is needed, in their order"
        )
    return names
