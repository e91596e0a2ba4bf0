"""Threads: one of its own for what raises inside trace functions, where Python then loses exceptions; and several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_own_thread(work: Callable[P, T]) -> Callable[P, T]:
    """`work` in a thread that ends with it: what is lost there is in no later test's `__context__`."""

    @wraps(work)
    def apart(*arguments: P.args, **options: P.kwargs) -> T:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work, *arguments, **options).result()

    return apart


def at_once(*works: Callable[[], object]) -> None:
    """Each in a thread, until all have ended."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
