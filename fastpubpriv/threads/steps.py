"""Pieces of work in the thread pool: `run_steps` for numbered pieces, `run_stream` for pieces that arrive one after another, and
`share_out` and `share_stream` for either of them where private rows are read. `Lent` lends a buffer to each piece that needs one.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, NoReturn, TypeVar

from fastpubpriv.threads.guard import call_guarded
from fastpubpriv.threads.pool import Crew, available_cpus, in_worker

_STOP_SECONDS = 0.1
T = TypeVar("T")


class Lent(Generic[T]):
    """Buffers lent to pieces of work, each to one piece at a time: first those that are `ready`, then new ones from `make`."""

    __slots__ = ("_idle", "_make")

    def __init__(self, make: Callable[[], T], ready: Iterable[T] = ()) -> None:
        self._make = make
        self._idle: deque[T] = deque(ready)  # adding and removing at its ends is atomic

    @contextmanager
    def one(self) -> Iterator[T]:
        """Lend a buffer to one piece of work until the block ends."""
        try:
            lent = self._idle.pop()
        except IndexError:
            lent = self._make()
        try:
            yield lent
        finally:
            self._idle.append(lent)

    def given_back(self) -> Iterator[T]:
        """Return all buffers; to be called when no piece is at work."""
        return iter(self._idle)


def _nothing() -> None:
    pass


def run_steps(
    step: Callable[[int], object], count: int, workers: int, *, between: Callable[[], object] = _nothing
) -> None:
    """Call step(0), ..., step(count - 1), each once, in any order and in `workers` threads; the first error is raised.

    Steps that no thread of the pool takes are done by the calling thread, which also calls `between` from time to time. An
    interrupt reaches the caller between two steps, or at once when other threads do the work; no further step starts after it.
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
                crew.cancel()  # no step is left, or no thread that would take one
            between()
        work(between)  # the steps that are left, if no thread could be started
    finally:
        stopped.set()
        crew.cancel()
        crew.settle(_STOP_SECONDS)
    if errors:
        _raise_first(errors)


def run_stream(
    step: Callable[[T], object], items: Iterable[T], workers: int, *, between: Callable[[], object] = _nothing
) -> None:
    """Call step(item) for each item, in `workers` threads while the calling thread fetches the next item (0: it does both).

    At most `workers` items have been fetched and are not finished. Errors, interrupts and missing threads: as in `run_steps`.
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
    """Wait until at most `most` calls wait or run; the calling thread makes calls where no other thread does."""
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
    workers = _workers(threads)
    call_guarded(lambda: run_steps(work, count, workers))


def share_stream(work: Callable[[T], object], items: Iterable[T], *, threads: int | None = None) -> None:
    """Call work(item) for each item, from up to `threads` threads while the calling thread fetches the next; see `share_out`."""
    workers = _workers(threads)
    call_guarded(lambda: run_stream(work, items, workers if workers > 1 else 0))


def _workers(threads: int | None) -> int:
    """How many threads there are for pieces of work: one inside the pool, and while Python shuts down."""
    if in_worker() or not threading.main_thread().is_alive():
        return 1
    return available_cpus() if threads is None else threads
