"""Streams of batches of reports, written by devices and read by a server.

The content of a stream is not trusted. From the first item that is not a batch of this server's randomizer, the rest of a stream is
left unread, since the beginning of the next batch is unknown; other streams are not affected.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Self

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import report_codes
from fastpubpriv.local.aggregate import (
    NAME_BYTES,
    Aggregator,
    Users,
    hashed_names,
    sealed,
    unsealed,
)
from fastpubpriv.local.randomizers import Randomizer, Reports, payload_form
from fastpubpriv.release.reports import report_keys
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.row_types import Chunk

# Writing a stream: reports of many rows, by batches.

_BATCH_BYTES, _BATCH_NORMALS, _MOST_ROWS = 1 << 20, 1 << 24, 1 << 16  # limits of one batch


def batch_rows_of(randomizer: Randomizer) -> int:
    """Return the number of rows whose reports make a batch of about a megabyte, or take a tenth of a second."""
    fitting = min(
        _BATCH_BYTES // randomizer.report_bytes, _BATCH_NORMALS // int(randomizer.normals)
    )
    return max(1, min(_MOST_ROWS, fitting))


def report_batches(
    randomizer: Randomizer,
    chunks: Iterator[Chunk],
    *,
    random_state: int | None = None,
    threads: int | None = None,
) -> Iterator[Reports]:
    """Yield a batch of reports for each chunk of rows (k, dim), each row by `randomizer.cost`."""
    # A fresh key for each chunk; with a seed, too, each chunk has a separate key.
    _ = randomizer.cost  # raises for an epsilon without a cost
    keys = report_keys(random_state)
    for chunk in chunks:
        if chunk.shape[1] != randomizer.dim:
            raise InputError(
                f"rows have {chunk.shape[1]} columns, the randomizer is for {randomizer.dim}"
            )
        yield randomizer._reported(private_rows(chunk), keys, threads=threads)


MOST_BATCH_BYTES = 1 << 30
# Entries from which on equal batches are taken for one batch sent twice: a coincidence has probability below 2^-100.
REPEAT_NUMBERS = 16

CUT_SHORT = "cut short"
FOREIGN = "not a batch of reports, or changed on the way"
OTHER_VERSION = f"another version than {report_codes.VERSION} of the format"
OTHER_RANDOMIZER = (
    "of another randomizer: its kind, dim, epsilon, norm bound, form and words must be the same"
)
TOO_LARGE = f"a batch of more than {MOST_BATCH_BYTES:,} bytes"
REPEATED = "a batch that was taken before"

_MAGIC = b"FPPC"
_VERSION = 1
_GROUP_BYTES = 1 << 22  # payload added at once
_PIECE_BYTES = 1 << 20  # read at once
# Fields of a header, as in csrc/wire.c.
_FORMAT = slice(4, 6)
_LAW = (slice(6, 16), slice(24, 56), slice(60, 64))
_COUNT = slice(16, 24)


class BatchReader:
    """Reads the valid batches of one stream, up to the first item that is not one."""

    def __init__(self, randomizer: Randomizer) -> None:
        self.randomizer = randomizer
        self.reason: str | None = None  # why reading ended, None at the end of the stream
        self.reports = self.end = 0  # number of complete reports so far, and bytes up to their end
        width, dtype = payload_form(randomizer)
        nothing = np.zeros((0, width), dtype)
        self._begun = report_codes.batch_write(randomizer.header, nothing)

    def batches(self, stream: BinaryIO) -> Iterator[Any]:
        """Yield the payloads of nonempty batches, each an array of reports."""
        while head := _exactly(stream, len(self._begun)):
            self.reason, payload = self._batch(head, stream)
            if payload is None:
                return
            self.reports += len(payload)
            self.end += len(head) + len(payload) * self.randomizer.report_bytes
            if len(payload):
                yield payload

    def _batch(self, head: bytes, stream: BinaryIO) -> tuple[str | None, Any]:
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

    def __init__(self, randomizer: Randomizer) -> None:
        self._state = Aggregator(randomizer), Users(1)
        self.refused: Counter[str] = Counter()  # reason -> number of batches refused for it

    @property
    def total(self) -> Aggregator:
        """The sums so far; replaced by a new object when reports are added."""
        return self._state[0]

    def read(
        self,
        stream: BinaryIO,
        *,
        threads: int | None = None,
        after: Callable[[], Any] = lambda: None,
    ) -> None:
        """Add the batches of a stream, and record why the rest of it was refused; `after` is called when reports were added."""
        reader = BatchReader(self.total.randomizer)
        chain = hashlib.sha256()
        numbers = 0
        size = 0
        # Batches are added in groups: few large sums are faster than many small ones. An interrupt drops a group.
        payloads: list[Any] = []
        digests: set[bytes] = set()

        def add_group() -> None:
            if payloads:
                total, users = self._state
                total = total.copy()
                total.add(Reports(total.randomizer, np.concatenate(payloads)), threads=threads)
                self._state = total, users.with_more(dict.fromkeys(digests, 1))
            after()

        for payload in reader.batches(stream):
            data = payload.tobytes()
            chain.update(data)
            numbers += payload.size
            own = hashlib.sha256(data) if payload.size >= REPEAT_NUMBERS else chain
            if numbers >= REPEAT_NUMBERS:
                digest = own.digest()[:NAME_BYTES]
                if digest in digests or not self._state[1].admit(hashed_names([digest], 1))[0][0]:
                    self.refused[REPEATED] += 1
                    continue
                digests.add(digest)
            payloads.append(payload)
            size += payload.nbytes
            if size >= _GROUP_BYTES:
                add_group()
                payloads = []
                digests = set()
                size = 0
        add_group()
        if reader.reason is not None:
            self.refused[reader.reason] += 1

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
            raise InputError(
                "these bytes are not the sums of a server: cut short, changed or foreign"
            )
        total = Aggregator.from_bytes(body[16 : 16 + size], randomizer=randomizer)
        collector = cls(randomizer)
        collector._state = total, Users.from_bytes(body[16 + size :], 1)
        return collector


def _exactly(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, or those up to the end: memory grows with the bytes received, not with the size that a header claims."""
    data = bytearray()
    while len(data) < size and (piece := stream.read(min(size - len(data), _PIECE_BYTES))):
        data += piece
    return bytes(data)
