"""`run_steps`: numbered pieces of work, in the threads of the standing pool, that can be interrupted between two pieces."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait

from fastpubpriv.sources.pool import available_cpus, get_pool, in_worker, max_threads
from fastpubpriv.validation import integer

INLINE_WORK = 2_000_000  # below this many nanoseconds or so, waking threads costs more than it saves
_POLL_SECONDS = 0.05  # a signal may have been given to another thread, which leaves the waiting one asleep in its lock
_STOP_SECONDS = 0.1


def count_threads(threads: int | None, work: float) -> int:
    """Threads for about `work` nanoseconds: as asked, else one for each CPU; one inside of another pass."""
    workers = available_cpus() if work > INLINE_WORK else 1
    if threads is not None:
        workers = integer("threads", threads, minimum=1, maximum=max_threads())
    if in_worker() or not threading.main_thread().is_alive():
        return 1
    return workers


def run_steps(step: Callable[[int], object], count: int, workers: int) -> None:
    """step(0), ..., step(count - 1), each once, in any order and in `workers` threads; the first error is raised.

    An interrupt reaches the caller between two steps, or at once when others do the work; no further step starts after it.
    """
    if workers == 1 or count <= 1:
        for number in range(count):
            step(number)
        return
    ticket = itertools.count()  # next() on it is atomic
    errors: deque[BaseException] = deque()
    stopped = threading.Event()

    def work() -> None:
        try:
            while not stopped.is_set() and (number := next(ticket)) < count:
                step(number)
        except BaseException as error:
            errors.append(error)
            stopped.set()

    pool = get_pool()
    pending: set[Future[None]] = set()
    try:
        for _ in range(min(workers, count)):
            pending.add(pool.submit(work))
        while pending:
            finished, pending = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            if finished:  # there is nothing left to take, so those that still wait for a thread are not needed
                pending = {future for future in pending if not future.cancel()}
    finally:
        stopped.set()
        wait({future for future in pending if not future.cancel()}, timeout=_STOP_SECONDS)
    if errors:
        raise errors[0]
