"""The only place that draws randomness of local reports: each row becomes a report that its user may send.

Privacy notes: `notes/local_reports.md` and `notes/local_codes.md`. The randomizer that made the law states the cost of a report
(`fastpubpriv.local`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray
from fastpubpriv.kernels import noise as kernels
from fastpubpriv.kernels.report_codes import CODE_BYTES, SEED_BYTES
from fastpubpriv.keys import KeySource, key_source
from fastpubpriv.rowwise.row_maps import CodeLaw, ReportLaw
from fastpubpriv.sources.row_types import Rows, even_chunks
from fastpubpriv.threads.pool import share_stream

_CHUNK_ENTRIES = 1 << 19  # maximum per chunk
_PIECES = 16  # maximum number of pieces of a chunk, which threads share
# Minimum time of a piece, much longer than its scheduling.
_PIECE_NANOSECONDS = 8_000_000
_ROW_NANOSECONDS = 2_000  # per report, in addition to about 15 per normal draw


def report_keys(random_state: int | None) -> KeySource:
    """Return the source of the keys of reports; entropy is checked once, so that a run does not fail half way."""
    source = key_source(random_state)
    source.check()
    return source


def release_reports(
    rows: Rows | FloatArray,
    law: ReportLaw,
    *,
    seeds: bool,
    entry_bytes: int,
    keys: KeySource,
    threads: int | None,
) -> npt.NDArray[Any]:
    """Draw one report per row, which its user may send: with `seeds` (n, 32) uint8, else integer vectors (n, dim) int32.

    Rows in an array, C-contiguous float64, share a key, and one thread draws. Otherwise each chunk of rows takes one of the `keys`
    of the run, from `report_keys`, and reports do not depend on the threads. With 2 `entry_bytes` entries are clipped to +-32767.
    """
    if seeds:
        made: npt.NDArray[Any] = np.empty((len(rows), SEED_BYTES), dtype=np.uint8)
        _draw(rows, law, kernels.report_seeds, made, normals=law.dim, keys=keys, threads=threads)
    else:
        made = np.empty((len(rows), law.dim), dtype=np.int32)
        kernel = _narrow_integers if entry_bytes == 2 else kernels.report_integers
        _draw(rows, law, kernel, made, normals=law.dim, keys=keys, threads=threads)
    return made


def _narrow_integers(
    rows: FloatArray, law: ReportLaw, key: bytes, out: npt.NDArray[np.int32], **where: int
) -> None:
    """Draw reports and clip their entries to two bytes, in the thread that draws them."""
    kernels.report_integers(rows, law, key, out, **where)
    np.minimum(out, 32767, out=out)
    np.maximum(out, -32767, out=out)  # faster than np.clip for one report


def release_codes(
    rows: Rows | FloatArray, law: CodeLaw, *, keys: KeySource, threads: int | None
) -> npt.NDArray[np.uint8]:
    """Select one word of a new codebook for each row: number of the codebook in 8 bytes, and of the word in 2, (n, 10).

    Each user may send this report. Rows, keys and threads as for `release_reports`.
    """
    made = np.empty((len(rows), CODE_BYTES), dtype=np.uint8)
    _draw(
        rows,
        law,
        kernels.report_codes,
        made,
        normals=law.words * law.vectors.dim,
        keys=keys,
        threads=threads,
    )
    return made


def _draw(
    rows: Rows | FloatArray,
    law: Any,
    kernel: Callable[..., None],
    made: npt.NDArray[Any],
    *,
    normals: int,
    keys: KeySource,
    threads: int | None,
) -> None:
    """Set made[i] to the report of the kernel for row i, of `normals` draws each; each chunk of rows has a new key."""
    if isinstance(rows, np.ndarray):
        kernel(rows, law, keys.fresh(), made)
        return
    row_nanoseconds = _ROW_NANOSECONDS + 15 * normals
    fitting = max(
        1, min(_CHUNK_ENTRIES // rows.dim, max(_PIECES, _PIECES * _CHUNK_ENTRIES // normals))
    )

    def pieces() -> Iterator[tuple[npt.NDArray[Any], bytes, int, npt.NDArray[Any]]]:
        begin = 0
        for chunk in even_chunks(rows, fitting):
            # After reading, as in `release`: a process forked meanwhile would share the key, and is refused one here.
            key = keys.fresh()
            n = chunk.shape[0]
            size = max(-(-n // _PIECES), _PIECE_NANOSECONDS // row_nanoseconds)
            for first in range(0, n, size):
                part = slice(first, min(first + size, n))
                yield chunk[part], key, first, made[begin + part.start : begin + part.stop]
            begin += n

    def work(piece: tuple[npt.NDArray[Any], bytes, int, npt.NDArray[Any]]) -> None:
        part, key, first, out = piece
        with np.errstate(all="ignore"):
            # A copy, of this piece only, if rows have another dtype or are not contiguous.
            kernel(np.ascontiguousarray(part, dtype=np.float64), law, key, out, first=first)

    small = len(rows) * row_nanoseconds <= _PIECE_NANOSECONDS  # a client that sends one report
    share_stream(work, pieces(), threads=1 if small else threads)
