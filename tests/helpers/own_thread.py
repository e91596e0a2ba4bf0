"""Threads: a separate one for code that raises inside trace functions, where Python loses exceptions; and several at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_own_thread(work: Callable[P, T]) -> Callable[P, T]:
    """Run `work` in a new thread, so that an exception lost there is not the `__context__` of a later test."""

    @wraps(work)
    def apart(*arguments: P.args, **options: P.kwargs) -> T:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work, *arguments, **options).result()

    return apart


def at_once(*works: Callable[[], object]) -> None:
    """Run each function in a thread, and wait for all."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
