"""Rows under a map, in memory where they fit, so that further passes only read them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.views import PIECE_BYTES, OfChunk, each_row, read_and_changed
from fastpubpriv.threads.pool import share_out, share_stream

KEPT_BYTES = 1 << 30  # without `max_memory`, mapped rows are kept in memory up to this, else made again in each pass


def fits(n: int, width: int, dtype: type[np.floating], executor: Executor) -> bool:
    """Whether n rows of `width` numbers are kept."""
    most = KEPT_BYTES if executor.max_memory is None else executor.max_memory
    return n * width * np.dtype(dtype).itemsize <= most


def kept_rows(
    rows: Rows, function: OfChunk, width: int, *, dtype: type[np.floating], executor: Executor, single: bool = False
) -> Rows:
    """The rows function(chunk), `width` numbers each, which must not depend on the rows beside them.

    They are in memory where `executor.max_memory` allows it, else they are made from their source in each pass, to the same bits.
    Rows on a cluster stay there, unless a `single` one may be asked for at a time.
    """
    view = each_row(rows, function, width)
    if (view.cluster is not None and not single) or not fits(rows.n, width, dtype, executor):
        return view
    kept = np.empty((rows.n, width), dtype=dtype)
    if view.random_access:
        size = max(1, PIECE_BYTES // (8 * max(rows.dim, width)))

        def work(piece: int) -> None:
            begin = piece * size
            end = min(begin + size, rows.n)
            kept[begin:end] = view.block(begin, end)

        share_out(work, -(-rows.n // size), threads=executor.threads)
    else:
        source, changed = read_and_changed(view)

        def keep(placed: tuple[int, Chunk]) -> None:
            begin, chunk = placed
            kept[begin : begin + len(chunk)] = changed(chunk)

        share_stream(keep, _placed(source), threads=executor.threads)
    return ArrayRows(kept, "array")


def _placed(rows: Rows) -> Iterator[tuple[int, Chunk]]:
    """Each chunk with the number of rows before it."""
    begin = 0
    for chunk in rows.chunks():
        yield begin, chunk
        begin += len(chunk)
