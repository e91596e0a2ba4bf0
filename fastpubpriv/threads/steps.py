"""Pieces of work in the standing threads: `run_steps` for numbered ones, `run_stream` for those that come one after another, and
`share_out` for numbered ones that see private rows; `Lent`, buffers for pieces that need one each.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, NoReturn, TypeVar

from fastpubpriv.threads.guard import reraise
from fastpubpriv.threads.pool import Crew, available_cpus, in_worker

_STOP_SECONDS = 0.1
T = TypeVar("T")


class Lent(Generic[T]):
    """Buffers lent to pieces of work, each to one at a time: those that are `ready`, and no more than pieces run at once."""

    __slots__ = ("_idle", "_make")

    def __init__(self, make: Callable[[], T], ready: Iterable[T] = ()) -> None:
        self._make = make
        self._idle: deque[T] = deque(ready)  # its ends are atomic

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

    def given_back(self) -> Iterator[T]:
        """All buffers, once no piece is at work."""
        return iter(self._idle)


def _nothing() -> None:
    pass


def run_steps(
    step: Callable[[int], object], count: int, workers: int, *, between: Callable[[], object] = _nothing
) -> None:
    """step(0), ..., step(count - 1), each once, in any order and in `workers` threads; the first error is raised.

    The calling thread works where no thread of the pool does, and calls `between` every now and then. An interrupt reaches the
    caller between two steps, or at once when others do the work; no further step starts after it.
    """
    if workers <= 1 or count <= 1:
        for number in range(count):
            step(number)
            between()
        return
    ticket = itertools.count()  # next() on it is atomic
    errors: deque[BaseException] = deque()
    stopped = threading.Event()

    def work(after: Callable[[], object] = _nothing) -> None:
        try:
            while not stopped.is_set() and (number := next(ticket)) < count:
                step(number)
                after()
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
            between()
        work(between)  # what is left, if no thread could be had
    finally:
        stopped.set()
        crew.cancel()
        crew.settle(_STOP_SECONDS)
    if errors:
        _raise_first(errors)


def run_stream(
    step: Callable[[T], object], items: Iterable[T], workers: int, *, between: Callable[[], object] = _nothing
) -> None:
    """step(item) for each item, in `workers` threads while the calling thread fetches the next one (0: all in the calling thread).

    At most `workers` items are between the two. Errors, interrupts and missing threads as in `run_steps`.
    """
    if workers < 1:
        for item in items:
            step(item)
            del item  # it must not stay alive while the next one is fetched
            between()
        return
    errors: deque[BaseException] = deque()

    def work(item: T) -> None:
        if errors:
            return
        try:
            step(item)
        except BaseException as error:
            errors.append(error)

    crew = Crew()
    try:
        for item in items:
            _wait(crew, workers - 1)
            if errors:
                break
            crew.add(partial(work, item))
            between()
        _wait(crew, 0)
    finally:
        crew.cancel()
        crew.settle(_STOP_SECONDS)
    if errors:
        _raise_first(errors)


def _wait(crew: Crew, most: int) -> None:
    """Until at most so many calls wait or run; the calling thread works where no other does."""
    while crew.busy > most:
        if crew.left_alone():
            crew.begin_one()
        else:
            crew.wait()


def _raise_first(errors: deque[BaseException]) -> NoReturn:
    error = errors[0]
    errors.clear()
    try:
        raise error
    finally:
        del error  # else the frames and the exception would keep each other, and what the pieces hold, alive


def share_out(work: Callable[[int], object], count: int, *, threads: int | None = None) -> None:
    """Call work(0) ... work(count - 1), each once, from up to `threads` threads (None: one for each CPU).

    The pieces must not depend on each other. An interrupt leaves within 0.2 s, and no thread starts another piece. As in a pass,
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
