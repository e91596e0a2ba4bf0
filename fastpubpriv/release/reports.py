"""The one door for the randomness of local reports: each row becomes a report that may leave the user's hands.

Privacy notes: `notes/local_reports.md` and `notes/local_codes.md`. What a report costs is said by the randomizer that made the law
(`fastpubpriv.local`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.kernels import noise
from fastpubpriv.kernels import reports as kernels
from fastpubpriv.kernels.seeds import SEED_BYTES, seed_integers
from fastpubpriv.keys import KeySource, key_source
from fastpubpriv.laws import CodeLaw, ReportLaw
from fastpubpriv.sources.base import Rows
from fastpubpriv.sources.blocks import even_chunks
from fastpubpriv.threads.steps import share_out

CODE_BYTES = 10
_CHUNK_BYTES = 1 << 22
_PIECES = 16  # of a chunk, for threads to share
_ROW_NANOSECONDS = 2_000  # for a report, besides about 15 for each of its columns
_THREADS_PAY = 2_000_000


def report_keys(random_state: int | None) -> KeySource:
    """Where the keys of reports come from; asks for entropy once, so that a run does not end without it half way."""
    source = key_source(random_state)
    source.check()
    return source


def release_reports(
    rows: Rows, law: ReportLaw, *, seeds: bool, keys: KeySource, threads: int | None
) -> npt.NDArray[Any]:
    """Draw one report for each row.

    Parameters
    ----------
    rows : Rows
        One row for each user.
    law : ReportLaw
        Public; the same for all rows.
    seeds : bool
        True: reports are seeds of 32 bytes; False: integer vectors.
    keys : KeySource
        From `report_keys`: one for a run, which takes a key for each chunk of rows.
    threads : int or None
        Threads that draw (None: one for each CPU). Reports do not depend on them.

    Returns
    -------
    (n, 32) uint8 or (n, dim) int32
        What each user may send.
    """
    width, dtype = (SEED_BYTES, np.uint8) if seeds else (law.dim, np.int32)
    made = np.empty((rows.n, width), dtype=dtype)
    begin = 0
    for chunk in even_chunks(rows, max(1, _CHUNK_BYTES // (8 * law.dim))):
        n = chunk.shape[0]
        # Only now, as in `release`: a process forked while rows are read must not share the key.
        key = keys.fresh()
        size = -(-n // _PIECES)
        work = n * (_ROW_NANOSECONDS + 15 * law.dim)
        out = made[begin : begin + n]

        def draw(
            piece: int, chunk: npt.NDArray[Any] = chunk, key: bytes = key, size: int = size, out: Any = out
        ) -> None:
            part = slice(piece * size, (piece + 1) * size)
            # A copy of this piece alone: rows of another type, or that lie apart.
            mine = np.ascontiguousarray(chunk[part], dtype=np.float64)
            if seeds:
                kernels.report_seeds(mine, law, key, out[part], first=piece * size)
            else:
                kernels.report_integers(mine, law, key, out[part], first=piece * size)

        with np.errstate(all="ignore"):
            if work > _THREADS_PAY:
                share_out(draw, -(-n // size), threads=threads)
            else:  # a client that sends one report
                draw(0, size=n)
        begin += n
    return made


def release_codes(rows: Rows, law: CodeLaw, *, keys: KeySource) -> npt.NDArray[np.uint8]:
    """Choose one word of a fresh book for each row.

    Parameters
    ----------
    rows : Rows
        One row for each user.
    law : CodeLaw
        Public; the same for all rows.
    keys : KeySource
        From `report_keys`.

    Returns
    -------
    (n, 10) uint8
        What each user may send: the number of the book in 8 bytes, and that of the word in 2.
    """
    made = np.empty((rows.n, CODE_BYTES), dtype=np.uint8)
    begin = 0
    for chunk in even_chunks(rows, max(1, _CHUNK_BYTES // (8 * law.vectors.dim))):
        n = chunk.shape[0]
        books = noise.below(keys.fresh(), n, 1 << 62)
        hits = noise.below(keys.fresh(), n, 1 << 62) >= law.miss
        inside = noise.below(keys.fresh(), n, law.chosen)
        outside = noise.below(keys.fresh(), n, law.words - law.chosen)
        signs = noise.uniform(keys.fresh(), n)
        out = made[begin : begin + n]
        out[:, :8] = books.astype("<u8").view(np.uint8).reshape(n, 8)
        chosen = np.empty(n, dtype="<u2")
        with np.errstate(all="ignore"):
            for i in range(n):
                near = _nearest(_unit(chunk[i], law, signs[i]), book_words(int(books[i]), law), law.chosen)
                chosen[i] = np.flatnonzero(near)[inside[i]] if hits[i] else np.flatnonzero(~near)[outside[i]]
        out[:, 8:] = chosen.view(np.uint8).reshape(n, 2)
        begin += n
    return made


def book_words(book: int, law: CodeLaw) -> npt.NDArray[np.int32]:
    """The vectors (words, dim) of a book."""
    seeds = np.zeros((law.words, SEED_BYTES), dtype=np.uint8)
    seeds[:, :8] = np.frombuffer(book.to_bytes(8, "little"), dtype=np.uint8)
    seeds[:, 8:10] = np.arange(law.words, dtype="<u2").view(np.uint8).reshape(-1, 2)
    found = np.empty((law.words, law.vectors.dim), dtype=np.int32)
    seed_integers(seeds, law.vectors, found)
    return found


def _unit(row: npt.NDArray[Any], law: CodeLaw, coin: float) -> npt.NDArray[np.float64]:
    """The direction of a row; which map this is does not matter for privacy."""
    values = np.asarray(row, dtype=np.float64)
    largest = float(np.max(np.abs(values)))
    unit, length = np.zeros(len(values)), 0.0
    unit[0] = 1.0
    if 0.0 < largest < np.inf:  # not NaN either
        scaled = values / largest
        norm = float(np.sqrt(scaled @ scaled))
        unit, length = scaled / norm, min(1.0, norm * (largest / law.radius))
    return -unit if law.ball and coin >= 0.5 * (1.0 + length) else unit


def _nearest(unit: npt.NDArray[np.float64], words: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.bool_]:
    """Which `count` words, never more or fewer, have the largest cosines."""
    wide = words.astype(np.float64)
    cosines = (wide @ unit) / np.maximum(np.sqrt(np.einsum("ij,ij->i", wide, wide)), 1.0)
    near = np.zeros(len(words), dtype=np.bool_)
    near[np.argpartition(cosines, len(words) - count)[len(words) - count :]] = True
    return near
