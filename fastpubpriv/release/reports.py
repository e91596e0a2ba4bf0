"""The one door for the randomness of local reports: each row becomes a report that may leave the user's hands.

Privacy note: `notes/local_reports.md`. What a report costs is said by the randomizer that made the law (`fastpubpriv.local`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.kernels import reports as kernels
from fastpubpriv.kernels.seeds import SEED_BYTES
from fastpubpriv.keys import KeySource, key_source
from fastpubpriv.laws import ReportLaw
from fastpubpriv.sources.base import Rows
from fastpubpriv.threads.steps import share_out

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
    for chunk in rows.chunks(chunk_rows=max(1, _CHUNK_BYTES // (8 * law.dim))):
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
