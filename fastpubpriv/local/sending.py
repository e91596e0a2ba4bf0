"""A device's end of a stream: reports of many rows, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

from fastpubpriv.errors import InputError
from fastpubpriv.local.randomizers import Randomizer
from fastpubpriv.local.reports import Reports
from fastpubpriv.release.reports import report_keys
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.base import Chunk

_BATCH_BYTES, _BATCH_NORMALS, _MOST_ROWS = 1 << 20, 1 << 24, 1 << 16


def batch_rows_of(randomizer: Randomizer) -> int:
    """Rows whose reports make a batch of about a megabyte, or take a tenth of a second."""
    fitting = min(_BATCH_BYTES // randomizer.report_bytes, _BATCH_NORMALS // int(randomizer.normals))
    return max(1, min(_MOST_ROWS, fitting))


def report_batches(
    randomizer: Randomizer, chunks: Iterator[Chunk], *, random_state: int | None = None, threads: int | None = None
) -> Iterator[Reports]:
    """Yield a batch of reports for each chunk of rows (k, dim).

    Privacy
    -------
    Local, one report of each row: `randomizer.cost`. A fresh key for each chunk; with a seed each chunk has a key of its own too.
    """
    _ = randomizer.cost  # refuses an epsilon that has none
    keys = report_keys(random_state)
    for chunk in chunks:
        if chunk.shape[1] != randomizer.dim:
            raise InputError(f"rows have {chunk.shape[1]} columns, the randomizer is for {randomizer.dim}")
        yield randomizer._reported(private_rows(chunk), keys, threads=threads)
