"""Numbered pieces of work in the standing threads, for work that is not a pass over rows: `run_steps`, and `share_out` where the
pieces see private rows; and `Lent`, buffers for pieces that need one each.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from fastpubpriv.threads.guard import reraise
from fastpubpriv.threads.pool import Crew, available_cpus, in_worker

_STOP_SECONDS = 0.1
T = TypeVar("T")


class Lent(Generic[T]):
    """Buffers lent to pieces of work, each to one at a time: no more are made than pieces run at once."""

    __slots__ = ("_idle", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._idle: deque[T] = deque()  # its ends are atomic

    @contextmanager
    def one(self) -> Iterator[T]:
        """A buffer that nobody else has, until the block ends."""
        try:
            lent = self._idle.pop()
        except IndexError:
            lent = self._make()
        try:
            yield lent
        finally:
            self._idle.append(lent)


def run_steps(step: Callable[[int], object], count: int, workers: int) -> None:
    """step(0), ..., step(count - 1), each once, in any order and in `workers` threads; the first error is raised.

    An interrupt reaches the caller between two steps, or at once when others do the work; no further step starts after it.
    """
    if workers <= 1 or count <= 1:
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

    crew = Crew()
    try:
        for _ in range(min(workers, count)):
            crew.add(work)
        while crew.busy:
            if crew.left_alone() or crew.wait():
                crew.cancel()  # there is nothing left to take, or nobody to take it
        work()  # what is left, if no thread could be had
    finally:
        stopped.set()
        crew.cancel()
        crew.settle(_STOP_SECONDS)
    if not errors:
        return
    error = errors[0]
    errors.clear()
    try:
        raise error
    finally:
        del error  # else the frames and the exception would keep each other, and what the pieces hold, alive


def share_out(work: Callable[[int], object], count: int, *, threads: int | None = None) -> None:
    """Call work(0) ... work(count - 1), each once, from up to `threads` threads (None: one for each CPU).

    The pieces must not depend on each other. An interrupt leaves within 0.2 s, and no thread starts another piece. As in `fold`,
    the exception of a piece comes back without its causes, and a foreign one as a generic InputError.
    """
    workers = available_cpus() if threads is None else threads
    if in_worker() or not threading.main_thread().is_alive():
        workers = 1
    failure: BaseException | None = None
    try:
        run_steps(work, count, workers)
    except BaseException as error:
        failure = error
    if failure is not None:
        try:
            reraise(failure)
        finally:
            del failure  # else the frame and the exception would keep each other, and the rows, alive
