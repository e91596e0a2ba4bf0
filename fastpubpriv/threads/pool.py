"""Parallel loops, whose threads live as long as the loop, and progress bars.

No loop depends on its threads: the calling thread takes items as they do, so that a pass whose budget is spent always finishes,
also where threads cannot be started (a limit on threads or memory) or end at once. `concurrent.futures` does not guarantee this:
starting a thread may raise there, or block forever if the thread lacks the memory to report that it runs.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import mmap
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from fastpubpriv.threads.guard import call_guarded

# Interval of waking up: a signal may be delivered to another thread, and a waiting thread then does not notice it.
POLL_SECONDS = 0.05
# Memory that must be free before a thread is started: its stack, and the buffers of all threads.
_THREAD_BYTES = 64 << 20
# longest waits for steps at work after an interrupt or error, and at exit
_STOP_SECONDS = 0.1
_EXIT_SECONDS = 1.0
_MAX_THREADS = max(64, os.cpu_count() or 1)  # cached: a system call takes microseconds

T = TypeVar("T")
_state = threading.local()


def max_threads() -> int:
    """Return the maximum number of threads that a pass may request."""
    return _MAX_THREADS


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_worker() -> bool:
    """Return True within a step of a loop, where a further loop starts no threads."""
    return getattr(_state, "worker", False)


@contextmanager
def alone() -> Iterator[None]:
    """Context in which this thread does all work itself."""
    before = in_worker()
    _state.worker = True
    try:
        yield
    finally:
        _state.worker = before


def has_memory(size: int) -> bool:
    """Return whether the system can allocate `size` bytes now; only addresses are reserved, since nothing is written."""
    try:
        mmap.mmap(-1, size).close()
    except (OSError, ValueError, OverflowError, MemoryError):
        return False
    return True


# Parallel loops; `share_out` and `share_stream` add the guard for code that reads private rows. `AccumulatorPool` lends buffers.


class AccumulatorPool(Generic[T]):
    """Buffers lent to steps of work, each to one step at a time: first those in `ready`, then new ones from `make`."""

    __slots__ = ("_idle", "_make")

    def __init__(self, make: Callable[[], T], ready: Iterable[T] = ()) -> None:
        self._make = make
        self._idle: deque[T] = deque(ready)  # adding and removing at its ends is atomic

    @contextmanager
    def one(self) -> Iterator[T]:
        """Lend a buffer to one step until the block ends."""
        try:
            buffer = self._idle.pop()
        except IndexError:
            buffer = self._make()
        try:
            yield buffer
        finally:
            self._idle.append(buffer)

    def given_back(self) -> Iterator[T]:
        """Return all buffers; to be called when no step is running."""
        return iter(self._idle)


class _Loop(Generic[T]):
    """The pending items of a loop, from which its threads take; `change` guards all state."""

    __slots__ = ("change", "ended", "errors", "items", "running", "step")

    def __init__(self, step: Callable[[T], object]) -> None:
        self.step = step
        self.items: deque[T] = deque()
        self.errors: deque[BaseException] = deque()
        self.running = 0
        self.ended = False
        self.change = threading.Condition()

    def start(self, count: int) -> None:
        """Start up to `count` threads without waiting for them: fewer if resources are lacking."""
        for _ in range(count):
            try:
                if not has_memory(_THREAD_BYTES):
                    return
                _thread.start_new_thread(self._serve, ())
            except (RuntimeError, OSError, ValueError, MemoryError):
                return

    def _serve(self) -> None:
        # Otherwise Python prints the error of a thread that lacks the memory to start.
        with contextlib.suppress(BaseException):
            _serving.append(None)
            try:
                while not self.ended:
                    if not self.make_one():
                        self.wait(lambda: self.ended or (bool(self.items) and not self.errors))
            finally:
                _serving.pop()

    def add(self, item: T) -> None:
        """Add an item for any thread to take."""
        with self.change:
            self.items.append(item)
            self.change.notify()

    def make_one(self) -> bool:
        """Make the step of the next item in this thread; return False if there is none, or a step has failed."""
        with self.change:
            if not self.items or self.errors:
                return False
            item = self.items.popleft()
            self.running += 1
        try:
            with alone():
                self.step(item)
        except BaseException as error:
            self.errors.append(error)
        finally:
            del item
            with self.change:
                self.running -= 1
                self.change.notify_all()
        return True

    def wait(self, true: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until a condition is true, at most `seconds`."""
        with self.change:
            self.change.wait_for(true, seconds)

    def end(self) -> None:
        """Drop the pending items, and wait briefly for steps that still run."""
        with self.change:
            self.ended = True
            self.items.clear()
            self.change.notify_all()
        self.wait(lambda: not self.running, _STOP_SECONDS)


# one entry for each thread of a loop; adding and removing at its ends is atomic
_serving: deque[None] = deque()
os.register_at_fork(after_in_child=_serving.clear)


@atexit.register
def _end() -> None:
    """Wait briefly at exit, so that no thread still runs compiled code."""
    last = time.monotonic() + _EXIT_SECONDS
    while _serving and time.monotonic() < last:
        time.sleep(0.001)


def _nothing() -> None:
    pass


def run_steps(
    step: Callable[[T], object],
    items: Iterable[T],
    workers: int,
    *,
    between: Callable[[], object] = _nothing,
) -> None:
    """Call step(item) for each item once, in any order, in `workers` threads; raise the first error."""
    # The calling thread is one of them: it fetches items, of an iterator at most 2 * workers ahead, and takes one where that many
    # are pending or no more follow. It calls `between` periodically. An interrupt reaches it between two steps; none starts then.
    count = len(items) if isinstance(items, Sized) else None
    if workers <= 1 or count in (0, 1) or in_worker():
        for item in items:
            step(item)
            del item  # it must not stay alive while the next one is fetched
            between()
        return
    loop = _Loop(step)
    most = 2 * workers if count is None else count
    try:
        loop.start(min(workers, most) - 1)
        for item in items:
            loop.add(item)
            del item
            while len(loop.items) + loop.running >= most and loop.make_one():
                between()
            if loop.errors:
                break
        while loop.make_one():
            between()
        while loop.running and not loop.errors:
            loop.wait(lambda: not loop.running, POLL_SECONDS)
            between()
    finally:
        loop.end()
    if loop.errors:
        error = loop.errors[0]
        loop.errors.clear()
        try:
            raise error
        finally:
            # breaks the reference cycle of frames and exception, which would keep buffers alive
            del error


def share_out(work: Callable[[int], object], count: int, *, threads: int | None = None) -> None:
    """Call work(0), ..., work(count - 1), each once, in up to `threads` threads (None: one per CPU)."""
    # Steps must be independent. An interrupt propagates within 0.2 s, and no thread starts another step. As in a pass, the
    # exception of a step is raised without its causes, and a foreign one as a generic InputError.
    share_stream(work, range(count), threads=threads)


def share_stream(
    work: Callable[[T], object], items: Iterable[T], *, threads: int | None = None
) -> None:
    """Call work(item) for each item in up to `threads` threads, while the calling thread fetches items; see `share_out`."""
    call_guarded(lambda: run_steps(work, items, available_cpus() if threads is None else threads))


# Progress bar for long passes, by default only on a terminal and after two seconds.

DELAY_SECONDS = 2.0
_REDRAW_SECONDS = 0.1


class Progress:
    """Progress bar of a pass over `total` rows. `progress` None shows it on a terminal after a delay, True at once, False never.

    Without `counted`, it shows the share of the rows that were read, and not their number.
    """

    __slots__ = ("_bar", "_counted", "_show_at", "_total", "wanted")

    def __init__(self, total: int, progress: bool | None, *, counted: bool = True) -> None:
        self._counted = counted
        self.wanted = _on_terminal() if progress is None else bool(progress)
        self._total = total
        self._show_at = time.monotonic() + (0.0 if progress else DELAY_SECONDS)
        self._bar: Any = None

    def at(self, done: int) -> None:
        """Update the bar with the number of rows done."""
        if not self.wanted or time.monotonic() < self._show_at:
            return
        try:
            if self._bar is None:
                self._bar = _bar(self._total, self._counted)
            self._bar.update(self._bar.task_ids[0], completed=done, refresh=True)
            self._show_at = time.monotonic() + _REDRAW_SECONDS
        except Exception:
            # For example a closed terminal: a pass whose budget is spent must not fail because of its bar.
            self.wanted = False

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            with contextlib.suppress(Exception):
                self._bar.stop()


def _bar(total: int, counted: bool) -> Any:
    from rich import progress
    from rich.console import Console

    # The caller has decided to show the bar, so a notebook or a log file is treated as a terminal. `auto_refresh` would start a
    # thread, which may fail or block forever if memory is short.
    bar = progress.Progress(
        progress.MofNCompleteColumn() if counted else progress.TaskProgressColumn(),
        "rows",
        progress.BarColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True, force_terminal=True, force_jupyter=False),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.start()
    bar.add_task("", total=total)
    return bar


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # stderr is None or closed
        return False
