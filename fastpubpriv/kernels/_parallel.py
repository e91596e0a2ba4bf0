"""The number of threads for a piece of work on public data."""

from __future__ import annotations

import threading

from fastpubpriv.threads.pool import available_cpus, in_worker, max_threads
from fastpubpriv.validation import integer

INLINE_WORK = 2_000_000  # below this many nanoseconds or so, waking threads costs more than it saves


def count_threads(threads: int | None, work: float) -> int:
    """Threads for about `work` nanoseconds: as asked, else one for each CPU; one inside of another pass."""
    workers = available_cpus() if work > INLINE_WORK else 1
    if threads is not None:
        workers = integer("threads", threads, minimum=1, maximum=max_threads())
    if in_worker() or not threading.main_thread().is_alive():
        return 1
    return workers
