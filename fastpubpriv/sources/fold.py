"""`fold`: one pass over rows in chunks and threads, into integers that do not depend on how the pass was cut."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.sources.base import Chunk, RandomAccessRows, Rows, default_chunk_rows
from fastpubpriv.threads.guard import reraise
from fastpubpriv.threads.pool import Crew, available_cpus, in_worker, max_threads
from fastpubpriv.threads.progress import Progress
from fastpubpriv.validation import integer

Accumulators = tuple[IntArray, ...]
Make = Callable[[], Accumulators]
Step = Callable[[Chunk, Accumulators], object]

# A unit of work is what a row sum does with one number, about 1 ns.
_INLINE_WORK = 1_000_000  # below this, waking a thread costs more than it saves
_CHUNK_WORK = 20_000_000  # an interrupt waits for at most one chunk
_CHUNKS_PER_THREAD = 4  # so that a thread that was held up can leave its share to the others
_IN_FLIGHT_BYTES = 1 << 26  # chunks of a sequential source that have been read and not yet used
_STOP_SECONDS = 0.1


def fold(
    rows: Rows,
    make: Make,
    step: Step,
    *,
    threads: int | None = None,
    chunk_rows: int | None = None,
    row_cost: int | None = None,
    progress: bool | None = None,
) -> Accumulators:
    """Run `step` over all rows, chunk by chunk, and add up the integers it collects.

    Parameters
    ----------
    rows : Rows
        The rows to pass over.
    make : callable
        make() returns new accumulators, a tuple of int64 arrays, at zero. Called once for each thread.
    step : callable
        step(chunk, accumulators) adds what the rows of `chunk` (k, dim) contribute. It must add the same integers for a
        row whatever rows are in the chunk with it, and release the GIL for threads to pay.
    threads : int, optional
        Threads to use. The default is one for each CPU, or none at all (the calling thread does the work) for a small
        pass.
    chunk_rows : int, optional
        Most rows in a chunk. The default is 4 MB worth, fewer if `row_cost` is high.
    row_cost : int, optional
        Work for one row, in units of about a nanosecond; the default is `rows.dim`. Say more for a Gram matrix
        (about dim**2 / 32).
    progress : bool, optional
        True shows a progress bar, False does not; the default shows one on a terminal when the pass takes more than 2
        s.

    Returns
    -------
    tuple of ndarray, int64
        The sum of all accumulators, modulo 2**64: the same bits for any number of threads, any chunk size and any kind
        of source.

    Raises
    ------
    InputError
        The rows could not be read, or `step` failed; the text says nothing about the content. Nothing is returned half
        done.
    KeyboardInterrupt
        The pass was interrupted: within 0.2 s the caller has control again, and no thread starts another chunk.

    Privacy
    -------
    The result is private: only `release` may make something public of it. No warning, log line or exception of a pass
    carries content; foreign exceptions are replaced, and the chain of causes is cut.
    """
    n = rows.n
    cost = rows.dim if row_cost is None else integer("row_cost", row_cost, minimum=1)
    workers = 1
    if threads is not None:
        workers = integer("threads", threads, minimum=1, maximum=max_threads())
    elif n * cost > _INLINE_WORK:
        workers = available_cpus()
    if in_worker() or not threading.main_thread().is_alive():  # inside of another pass, or while Python shuts down
        workers = 1
    if chunk_rows is None:
        size = max(1, min(default_chunk_rows(rows.dim), _CHUNK_WORK // cost))
        if workers > 1:
            size = min(size, -(-n // (_CHUNKS_PER_THREAD * workers)))
    else:
        size = integer("chunk_rows", chunk_rows, minimum=1)

    first = make()
    _check_accumulators(first)
    bar = None if workers == 1 and progress is None and n * cost <= _INLINE_WORK else Progress(n, progress)
    failure: BaseException | None = None
    parts: list[Accumulators] = []
    try:
        if workers == 1 or size >= n:
            _inline(rows, step, first, size, bar)
        elif isinstance(rows, RandomAccessRows):
            parts = _by_ranges(rows, _made(first, make, workers), make, step, size, bar)
        else:
            parts = _by_stream(rows, _made(first, make, workers), make, step, size, bar)
    except BaseException as error:
        failure = error
    finally:
        if bar is not None:
            bar.close()
    if failure is not None:
        try:
            reraise(failure)
        finally:
            del failure  # else the frame and the exception would keep each other, and the rows, alive
    for part in parts:
        if part is first:
            continue
        for total, addend in zip(first, part, strict=True):
            np.add(total, addend, out=total)  # int64 arrays wrap around silently: addition modulo 2**64
    return first


def _made(first: Accumulators, make: Make, workers: int) -> deque[Accumulators]:
    """`first` and others of this thread, one for each worker, or for fewer of them where memory is short.

    They may be large matrices, and what a worker allocates its own heap keeps for good. Zeros that nobody takes cost nothing.
    """
    ready = deque([first])
    with contextlib.suppress(MemoryError):
        while len(ready) < workers:
            ready.append(make())
    return ready


def _taken(ready: deque[Accumulators], make: Make) -> Accumulators:
    try:
        return ready.popleft()  # atomic
    except IndexError:
        return make()


def _check_accumulators(accumulators: Any) -> None:
    ok = isinstance(accumulators, tuple) and all(
        isinstance(item, np.ndarray) and item.dtype == np.int64 for item in accumulators
    )
    if not ok:
        raise KernelError("fold: make() must return a tuple of int64 arrays")


def _inline(rows: Rows, step: Step, accumulators: Accumulators, size: int, bar: Progress | None) -> None:
    """The pass in the calling thread."""
    with np.errstate(all="ignore"):
        if isinstance(rows, RandomAccessRows):
            n = rows.n
            for begin in range(0, n, size):
                end = min(begin + size, n)
                step(rows.block(begin, end), accumulators)
                if bar is not None:
                    bar.at(end)
            return
        done = 0
        for chunk in rows.chunks(chunk_rows=size):
            step(chunk, accumulators)
            done += chunk.shape[0]
            if bar is not None:
                bar.at(done)


class _Pass:
    """What the threads of one pass share: whether to go on, what went wrong, and how far they are."""

    __slots__ = ("done", "errors", "stopped")

    def __init__(self) -> None:
        self.stopped = False
        self.errors: deque[BaseException] = deque()
        self.done: deque[int] = deque()

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self.stopped = True

    def stop(self, crew: Crew) -> None:
        """No more chunks; wait a moment for those at work, so that in most cases nothing reads the rows any longer."""
        self.stopped = True
        crew.cancel()
        crew.settle(_STOP_SECONDS)


def _by_ranges(
    rows: RandomAccessRows, ready: deque[Accumulators], make: Make, step: Step, size: int, bar: Progress | None
) -> list[Accumulators]:
    """The pass in threads that take ranges of rows until there are none left."""
    n, workers = rows.n, len(ready)
    state = _Pass()
    ticket = itertools.count()  # next() on it is atomic
    parts: deque[Accumulators] = deque()

    def work(shown: Progress | None = None) -> None:
        accumulators: Accumulators | None = None
        try:
            with np.errstate(all="ignore"):
                while not state.stopped:
                    begin = next(ticket) * size
                    if begin >= n:
                        break
                    if accumulators is None:
                        accumulators = _taken(ready, make)
                    end = min(begin + size, n)
                    step(rows.block(begin, end), accumulators)
                    state.done.append(end - begin)
                    if shown is not None and shown.wanted:
                        shown.at(sum(list(state.done)))
        except BaseException as error:
            state.fail(error)
        if accumulators is not None:
            parts.append(accumulators)

    crew = Crew()
    complete = False
    try:
        for _ in range(min(workers, -(-n // size))):
            crew.add(work)
        while crew.busy:
            if crew.left_alone() or crew.wait():
                crew.cancel()  # one has found nothing left to do, or none will come
            if bar is not None and bar.wanted:
                bar.at(sum(list(state.done)))
        work(bar)  # what is left, if no thread could be had
        complete = True
    finally:
        if not complete:
            state.stop(crew)
    if state.errors:
        reraise(state.errors[0])
    return list(parts)


def _by_stream(
    rows: Rows, ready: deque[Accumulators], make: Make, step: Step, size: int, bar: Progress | None
) -> list[Accumulators]:
    """The pass over a sequential source: the calling thread reads, the pool works, few chunks are between them."""
    state = _Pass()
    idle: deque[Accumulators] = deque()

    def work(chunk: Chunk) -> None:
        if state.stopped:
            return
        try:
            try:
                accumulators = idle.pop()
            except IndexError:
                accumulators = _taken(ready, make)
            with np.errstate(all="ignore"):
                step(chunk, accumulators)
            idle.append(accumulators)
        except BaseException as error:
            state.fail(error)

    crew = Crew()
    limit = max(1, min(len(ready), _IN_FLIGHT_BYTES // (8 * rows.dim * size)))
    done, complete = 0, False
    try:
        for chunk in rows.chunks(chunk_rows=size):
            _wait(crew, limit - 1)
            if state.stopped:
                break
            crew.add(partial(work, chunk))
            done += chunk.shape[0]
            if bar is not None:
                bar.at(done)
        _wait(crew, 0)
        complete = True
    finally:
        if not complete:
            state.stop(crew)
    if state.errors:
        reraise(state.errors[0])
    return list(idle)


def _wait(crew: Crew, most: int) -> None:
    """Until at most so many chunks wait or are worked on; the calling thread works where no other does."""
    while crew.busy > most:
        if crew.left_alone():
            crew.begin_one()
        else:
            crew.wait()
