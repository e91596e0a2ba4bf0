"""The standing thread pool: started at the first use, and started anew in a forked child."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

_state = threading.local()
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_MAX_THREADS = max(64, os.cpu_count() or 1)  # asking the system takes microseconds, and a pass asks often


def get_pool() -> ThreadPoolExecutor:
    """The pool of this process. Its threads start when there is work for them."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=max_threads(), thread_name_prefix="fastpubpriv", initializer=_mark)
        return _pool


def max_threads() -> int:
    """Most threads that a pass may ask for."""
    return _MAX_THREADS


def available_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_worker() -> bool:
    """True in a thread of the pool, where waiting for the pool could wait forever."""
    return getattr(_state, "worker", False)


def _mark() -> None:
    _state.worker = True


def _forget() -> None:
    # The threads of the parent do not exist in a forked child, and its lock may have been held at that moment.
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()
    _state.worker = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
