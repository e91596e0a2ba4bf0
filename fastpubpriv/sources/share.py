"""`share_out`: numbered pieces of work in the standing threads, for work that is not a pass over rows."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import wait

from fastpubpriv.sources.guard import reraise
from fastpubpriv.sources.pool import available_cpus, get_pool, in_worker

_POLL_SECONDS = 0.05
_STOP_SECONDS = 0.1


def share_out(work: Callable[[int], object], count: int, *, threads: int | None = None) -> None:
    """Call work(0) ... work(count - 1), each once, from up to `threads` threads (None: one for each CPU).

    The pieces must not depend on each other. An interrupt leaves within 0.2 s, and no thread starts another piece. As in `fold`,
    the exception of a piece comes back without its causes, and a foreign one as a generic InputError.
    """
    workers = min(count, available_cpus() if threads is None else threads)
    if workers <= 1 or in_worker() or not threading.main_thread().is_alive():
        failure: BaseException | None = None
        try:
            for index in range(count):
                work(index)
        except BaseException as error:
            failure = error
        if failure is not None:
            reraise(failure)
        return
    ticket = itertools.count()  # next() on it is atomic
    stopped = threading.Event()
    errors: deque[BaseException] = deque()

    def take() -> None:
        try:
            while not stopped.is_set():
                index = next(ticket)
                if index >= count:
                    return
                work(index)
        except BaseException as error:
            errors.append(error)
            stopped.set()

    pool = get_pool()
    pending = {pool.submit(take) for _ in range(workers)}
    complete = False
    try:
        while pending:
            _, pending = wait(pending, timeout=_POLL_SECONDS)
        complete = True
    finally:
        if not complete:
            stopped.set()
            wait({future for future in pending if not future.cancel()}, timeout=_STOP_SECONDS)
    if errors:
        reraise(errors[0])
