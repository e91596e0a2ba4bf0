"""Batches of reports as bytes, by `struct` and `zlib`: equal to csrc/wire.c."""

import struct
import zlib
from dataclasses import astuple

import numpy as np

# Magic, version, kind, form, ball, grid, entry bytes, zero, dim, count, threshold, logit, radius, epsilon; then CRC-32 and zero.
_FIELDS = struct.Struct("<4sH6BIQ4d")
_TAIL = struct.Struct("<II")


def batch_size(header):
    return 64 + int(header.count) * (
        (0, 32, 10)[header.form] or int(header.dim) * int(header.entry_bytes)
    )


def batch_write(header, payload):
    dim, count, *kinds, entry_bytes, threshold, logit, radius, epsilon = astuple(header)
    start = _FIELDS.pack(
        b"FPPL", 1, *kinds, entry_bytes, 0, dim, count, threshold, logit, radius, epsilon
    )
    if header.form:
        body = payload.tobytes()
    else:
        most = 2 ** (8 * entry_bytes - 1) - 1
        body = np.clip(payload.astype(np.int64), -most, most).astype(f"<i{entry_bytes}").tobytes()
    check = zlib.crc32(b"\0\0\0\0" + body, zlib.crc32(start))
    return start + _TAIL.pack(check, 0) + body


def batch_header(data):
    """Return the fields of a header in the order of BatchHeader; None for bytes that are not a complete batch."""
    if len(data) < 64 or data[:6] != b"FPPL\1\0":
        return None
    _, _, *kinds, entry_bytes, zero, dim, count, threshold, logit, radius, epsilon = (
        _FIELDS.unpack_from(data)
    )
    check, more = _TAIL.unpack_from(data, 56)
    size = 64 + count * ((0, 32, 10)[kinds[1] % 3] or dim * entry_bytes)
    sound = (
        zero == more == 0
        and size <= len(data)
        and check == zlib.crc32(data[60:size], zlib.crc32(data[:56]))
    )
    sound = sound and kinds[1] in (0, 1, 2) and entry_bytes in ((0,) if kinds[1] else (2, 4))
    return (dim, count, *kinds, entry_bytes, threshold, logit, radius, epsilon) if sound else None


def batch_payload(data):
    """Return the reports of a complete batch."""
    fields = batch_header(data)
    if fields is None:
        raise ValueError("not a batch of reports")
    dim, count, _, form, _, _, entry_bytes, *_ = fields
    if form:
        width = (0, 32, 10)[form]
        return np.frombuffer(data, dtype=np.uint8, count=width * count, offset=64).reshape(
            count, width
        )
    found = np.frombuffer(data, dtype=f"<i{entry_bytes}", count=dim * count, offset=64)
    return found.reshape(count, dim).astype(np.int32)
