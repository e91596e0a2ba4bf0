"""Queries and their execution: a `Query` describes a pass over rows as a value, and an `Executor` runs it over a source.

The resulting integers do not depend on how the rows were split into chunks.
"""

from __future__ import annotations

import abc
import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv.errors import KernelError
from fastpubpriv.sources.row_types import (
    CHUNK_BYTES_IN_PLACE,
    STREAM,
    Chunk,
    Rows,
    default_chunk_rows,
)
from fastpubpriv.sources.views import read_and_changed
from fastpubpriv.threads import pool
from fastpubpriv.threads.guard import call_guarded
from fastpubpriv.validation import integer

Accumulators = tuple[Any, ...]

# Work is measured in units of about 1 ns: the time in which a row sum processes one number.
_INLINE_WORK = 1_000_000  # below this, waking a thread costs more than it saves
# The same threshold if the caller sets the number of threads; tests set it to zero, to split few rows in many ways.
_INLINE_WORK_ASKED = _INLINE_WORK
_CHUNK_WORK = 20_000_000  # maximum per chunk: an interrupt waits for at most one chunk
# Least and most chunks per thread (several, for load balancing), and the work per chunk that is aimed at between the two: each
# chunk costs some microseconds of Python code under the interpreter lock.
_CHUNKS_PER_THREAD = 4
_MOST_CHUNKS_PER_THREAD = 16
_SHARED_CHUNK_WORK = 500_000
# limit on the chunks of a sequential source that were read but not yet added
_IN_FLIGHT_BYTES = 1 << 26


class Query(abc.ABC):
    """A computation over all rows: initial accumulators, adding a chunk, merging two partial results, and the final answer.

    A query is a frozen dataclass of public and released numbers that can be pickled, so that it may run in another process. The
    contribution of a row depends on that row and the fields of the query alone, never on the other rows of the chunk.

    Examples
    --------
    >>> from fastpubpriv.sources import Executor, private_rows
    >>> @dataclass(frozen=True)
    ... class Above(Query):
    ...     limit: float
    ...     def zeros(self):
    ...         return (np.zeros(1, dtype=np.int64),)
    ...     def add(self, chunk, accumulators):
    ...         accumulators[0][:] += np.count_nonzero(chunk > self.limit)
    ...     def answer(self, accumulators):
    ...         return int(accumulators[0][0])
    >>> Executor(threads=1).run(Above(0.0), private_rows([-1.0, 2.0, 3.0]))  # exact: a mechanism adds noise before anyone sees it
    2
    """

    __slots__ = ()

    @abc.abstractmethod
    def zeros(self) -> Accumulators:
        """Return new accumulators: a tuple of zero integer arrays, or of lists that only the query uses. Called once per thread."""

    @abc.abstractmethod
    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """Add the contributions of the rows of `chunk` (k, dim). Threads save time only if this method releases the GIL."""

    def merge(self, total: Any, part: Any) -> None:
        """Add the accumulators `part` to `total` in place."""
        for sums, addend in zip(total, part, strict=True):
            # int64 arrays wrap around silently: addition modulo 2**64
            np.add(sums, addend, out=sums)

    def packed(self, accumulators: Any) -> Any:
        """Return accumulators without workspace, for transfer to another process and use there by `merge` or `answer`."""
        return accumulators

    def answer(self, accumulators: Any) -> Any:
        """Return the exact integers to release, given the accumulators of all rows."""
        return accumulators[0]

    @property
    def row_cost(self) -> int:
        """Work per row, in units of about a nanosecond; the executor uses at least `rows.dim`."""
        return 1

    @property
    def chunk_rows(self) -> int | None:
        """Rows per chunk, or None. If set, chunks are added sequentially, and the query distributes each among threads."""
        return None

    @property
    def in_place(self) -> bool:
        """True if `add` reads a chunk in place, without temporaries of its size: chunks of rows in memory are then larger."""
        return False

    @property
    def takes_columns(self) -> bool:
        """True if `add` also accepts `Columns`: a source that holds columns then need not turn them into rows."""
        return False

    @property
    def ordered(self) -> bool:
        """True if each chunk is added, in order, to the accumulators of all chunks before it; nothing is merged."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Settings for running passes over the rows; they never affect the result.

    Parameters
    ----------
    threads : int, optional
        Number of threads, by default one per CPU. A pass over few numbers runs in the calling thread.
    progress : bool, optional
        True shows a progress bar, False does not; the default shows one on a terminal when the pass takes more than 2 s.
    chunk_rows : int, optional
        Maximum number of rows in a chunk. The default is 4 MB worth, or 32 MB of an array that is read in place; fewer if the
        query's `row_cost` is high.
    max_memory : int, optional
        Limit in bytes on the memory for counting bins, and on the rows that a training call caches for later passes.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnit, ReportSum
    >>> from fastpubpriv.sources import Executor, private_rows
    >>> randomizer = PrivUnit(3, epsilon=2.0)
    >>> reports = randomizer.privatize(np.zeros((5, 3)))
    >>> count, sums, squares = Executor(threads=1, progress=False).run(ReportSum(randomizer), private_rows(reports.payload))
    >>> int(count[0])
    5
    """

    threads: int | None = None
    progress: bool | None = None
    chunk_rows: int | None = None
    max_memory: int | None = None

    @property
    def workers(self) -> int:
        """Number of threads for a pass that is large enough to need them."""
        return pool.available_cpus() if self.threads is None else self.threads

    def run(self, query: Query, rows: Rows) -> Any:
        """Run a query over all rows and return its answer.

        Returns
        -------
        ndarray of int64, or the type that the query defines
            The same bits for any number of threads, any chunk size and any kind of source.

        Raises
        ------
        InputError
            The rows could not be read, or the query failed; the message does not depend on the content. A partial result is
            never returned.
        KeyboardInterrupt
            The pass was interrupted: control returns to the caller within 0.2 s, and no thread starts another chunk.

        Privacy
        -------
        The result is private: only `release` may turn it into something public. No warning, log line or exception of a pass
        carries content; foreign exceptions are replaced, and the chain of causes is cut.
        """
        return call_guarded(self._run, given=(query, rows))

    def _run(self, query: Query, rows: Rows) -> Any:
        cost = max(rows.dim, query.row_cost)
        workers, size = self._cut(query, rows, cost)
        first = query.zeros()
        _check_accumulators(first)
        quick = workers == 1 and self.progress is None and rows.n * cost <= _INLINE_WORK
        bar = None
        if not quick and self.progress is not False:
            bar = pool.Progress(rows.n, self.progress, counted=rows.kind != STREAM)
        with np.errstate(all="ignore"):
            try:
                if rows.cluster is not None:
                    tell = None if bar is None or not bar.wanted else bar.at
                    return query.answer(rows.cluster.accumulate(query, rows, size, tell))
                parts = _pass(query, rows, first, workers, size, bar)
            finally:
                if bar is not None:
                    bar.close()
            for part in parts:
                if part is not first:
                    query.merge(first, part)
            return query.answer(first)

    def _cut(self, query: Query, rows: Rows, cost: int) -> tuple[int, int]:
        """Return the number of threads and the rows per chunk."""
        workers = 1
        if self.threads is not None:
            asked = integer("threads", self.threads, minimum=1, maximum=pool.max_threads())
            # With a given chunk size, few rows may still make many chunks.
            workers = (
                asked if rows.n * cost > _INLINE_WORK_ASKED or self.chunk_rows is not None else 1
            )
        elif rows.n * cost > _INLINE_WORK:
            workers = pool.available_cpus()
        if query.chunk_rows is not None:
            return 1, query.chunk_rows
        if pool.in_worker():  # no threads within another pass
            workers = 1
        if self.chunk_rows is not None:
            return workers, integer("chunk_rows", self.chunk_rows, minimum=1)
        held = query.in_place and rows.in_memory is not None
        held = held or (query.takes_columns and rows.by_columns(0, 0) is not None)
        if held:
            size = default_chunk_rows(rows.dim, CHUNK_BYTES_IN_PLACE)
        else:  # chunks of the source are copies of all of its columns
            size = default_chunk_rows(max(rows.dim, read_and_changed(rows)[0].dim))
        size = max(1, min(size, _CHUNK_WORK // cost))
        if workers > 1:
            each = rows.n * cost // (workers * _SHARED_CHUNK_WORK)
            least = workers * min(max(each, _CHUNKS_PER_THREAD), _MOST_CHUNKS_PER_THREAD)
            count = max(least, -(-rows.n // size))
            # An equal number per thread: with 21 chunks, one of two threads would add 11 while the other waits.
            size = max(1, -(-rows.n // (-(-count // workers) * workers)))
        return workers, size


def _pass(
    query: Query,
    rows: Rows,
    first: Accumulators,
    workers: int,
    size: int,
    bar: pool.Progress | None,
) -> Iterator[Accumulators]:
    """Add all chunks, and return the accumulators of all threads."""
    n = rows.n
    if size >= n:
        workers = 1
    source, changed = read_and_changed(rows)
    most_columns = 2 * rows.dim >= source.dim
    # the common case of a small data set
    if size >= n and bar is None and source.random_access and most_columns:
        query.add(changed(source.block(0, n)), first)
        return iter((first,))
    # One set of accumulators per worker, or fewer if memory runs out; this thread allocates them all.
    ready = deque([first])
    with contextlib.suppress(MemoryError):
        while len(ready) < workers:
            ready.append(query.zeros())
    workers = len(ready)
    buffers = pool.AccumulatorPool(query.zeros, ready)
    # rows added since the bar was last updated; adding and removing at its ends is atomic
    done: deque[int] = deque()
    shown = 0

    def add(chunk: Chunk) -> None:
        with buffers.one() as accumulators, np.errstate(all="ignore"):
            query.add(changed(chunk), accumulators)
        if bar is not None:
            done.append(chunk.shape[0])

    def tell() -> None:
        nonlocal shown
        if bar is not None and bar.wanted:
            while done:
                shown += done.popleft()
            bar.at(shown)

    if source.random_access:
        block: Any = source.block
        if query.takes_columns and rows.by_columns(0, 0) is not None:
            block, changed = rows.by_columns, lambda columns: columns
        pool.run_steps(
            lambda k: add(block(k, min(k + size, n))), range(0, n, size), workers, between=tell
        )
    else:
        # Here each chunk is a copy, so the number of pending chunks, two for each thread, is limited.
        limit = _IN_FLIGHT_BYTES // (16 * rows.dim * size)
        pool.run_steps(add, source.chunks(chunk_rows=size), min(workers, limit), between=tell)
    return buffers.given_back()


def _check_accumulators(accumulators: Any) -> None:
    ok = isinstance(accumulators, tuple)
    for item in accumulators if ok else ():
        ok = ok and (
            isinstance(item, list) or (isinstance(item, np.ndarray) and item.dtype.kind == "i")
        )
    if not ok:
        raise KernelError(
            "the accumulators of a query must be a tuple of integer arrays, or of lists of its own"
        )
