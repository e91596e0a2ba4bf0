"""The thread pool, parallel loops that run in it, and progress bars.

Threads are started on demand, and again in a forked child process. No pass depends on the pool: where threads cannot be started (a
limit on threads or memory), end at once or are busy with other passes, the calling thread does the work, so that a pass whose
budget is spent always finishes. `concurrent.futures` does not guarantee this: starting a thread may raise there, or block forever
if the thread lacks the memory to report that it runs.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import itertools
import mmap
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, NoReturn, TypeVar

from fastpubpriv.threads.guard import call_guarded

# Interval of waking up: a signal may be delivered to another thread, and a waiting thread then does not notice it.
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 1.0  # after this long without any thread beginning a call, the calling thread does the work
_BARREN_SECONDS = 60.0  # no further threads are started for this long after one was started and did not run
# Memory that must be free before a thread is started: its stack, and the buffers of all threads.
_THREAD_BYTES = 64 << 20
_EXIT_SECONDS = 1.0
_MAX_THREADS = max(64, os.cpu_count() or 1)  # cached: a system call takes microseconds

_state = threading.local()


class _Pool:
    """Threads that serve one queue. `lock` guards all state here and in each `WorkerPool`."""

    __slots__ = ("alive", "barren_until", "lock", "queue", "started", "wanted")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queue: SimpleQueue[WorkerPool | None] = SimpleQueue()
        self.started = self.alive = 0  # threads started, and those that have reported that they run
        self.wanted = 0  # calls that are pending or running
        self.barren_until = 0.0

    def offer(self, calls: WorkerPool) -> None:
        """Queue the calls, so that a thread begins one of them; start a thread if there are fewer threads than calls."""
        with self.lock:
            few = self.started < min(self.wanted, max_threads()) and time.monotonic() >= self.barren_until
            self.started += few
        if few and not _start_thread(self):
            with self.lock:
                self.started -= 1
        with contextlib.suppress(MemoryError):  # in that case the calling thread makes the call
            self.queue.put(calls)

    def give_up(self) -> None:
        """Write off threads that were started and did not run. The caller must hold the lock."""
        if self.started > self.alive:
            self.started = self.alive
            self.barren_until = time.monotonic() + _BARREN_SECONDS

    def serve(self) -> None:
        """Make calls from the queue: the main loop of a thread of the pool."""
        _state.worker = True
        with self.lock:
            self.alive += 1
            self.started = max(self.started, self.alive)
        try:
            while (calls := self.queue.get()) is not None:
                with contextlib.suppress(BaseException):  # calls record their own errors
                    calls.begin_one()
                del calls
        finally:
            with self.lock:
                self.alive -= 1
                self.started -= 1

    def end(self) -> None:
        """Stop the threads at exit, and wait briefly, so that none still runs compiled code."""
        for _ in range(self.started):
            self.queue.put(None)
        last = time.monotonic() + _EXIT_SECONDS
        while self.alive and time.monotonic() < last:
            time.sleep(0.001)


class WorkerPool:
    """Calls that one thread submits to the pool; it waits for them, or makes them itself."""

    __slots__ = ("_change", "_ended", "_last", "_noticed", "_pool", "_running", "_waiting")

    def __init__(self) -> None:
        self._pool = _pool
        self._change = threading.Condition(self._pool.lock)
        self._waiting: deque[Callable[[], object]] = deque()
        self._running = self._ended = self._noticed = 0
        self._last = time.monotonic()

    def add(self, call: Callable[[], object]) -> None:
        """Add a call for any thread to make once. It must record its own errors."""
        with self._change:
            self._waiting.append(call)
            self._pool.wanted += 1
            self._last = time.monotonic()
        self._pool.offer(self)

    def begin_one(self) -> None:
        """Make one pending call in this thread, if there is one."""
        with self._change:
            if not self._waiting:
                return
            call = self._waiting.popleft()
            self._running += 1
            self._last = time.monotonic()
        try:
            call()
        finally:
            del call
            with self._change:
                self._running -= 1
                self._ended += 1
                self._pool.wanted -= 1
                self._last = time.monotonic()
                self._change.notify_all()

    def cancel(self) -> None:
        """Drop the pending calls."""
        with self._change:
            self._pool.wanted -= len(self._waiting)
            self._waiting.clear()

    @property
    def busy(self) -> int:
        """Number of calls that are pending or running."""
        return len(self._waiting) + self._running

    def wait(self, seconds: float = POLL_SECONDS) -> bool:
        """Wait until a call ends, at most `seconds`; return True if one has ended since the last wait."""
        with self._change:
            if self._ended == self._noticed and self.busy:
                self._change.wait(seconds)
            heard = self._ended > self._noticed
            self._noticed = self._ended
        return heard

    def settle(self, seconds: float) -> None:
        """Wait until no call is running, at most `seconds`."""
        last = time.monotonic() + seconds
        while self._running and (rest := last - time.monotonic()) > 0.0:
            self.wait(rest)

    def left_alone(self) -> bool:
        """Return True if calls are pending that no thread will take, so that the calling thread has to make them."""
        with self._change:
            if not self._waiting or self._running:
                return False
            if self._pool.started and time.monotonic() - self._last < PATIENCE_SECONDS:
                return False
            self._pool.give_up()
            return True


def max_threads() -> int:
    """Return the maximum number of threads that a pass may request."""
    return _MAX_THREADS


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_worker() -> bool:
    """Return True in a thread of the pool, where waiting for the pool could deadlock."""
    return getattr(_state, "worker", False)


@contextmanager
def alone() -> Iterator[None]:
    """Context in which this thread does all work itself, without the pool."""
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


def _start_thread(pool: _Pool) -> bool:
    """Start a thread without waiting for it; return False if resources are lacking."""
    if not has_memory(_THREAD_BYTES):
        return False
    try:
        _thread.start_new_thread(_life, (pool,))
    except (RuntimeError, OSError, ValueError, MemoryError):
        return False
    return True


def _life(pool: _Pool) -> None:
    # Otherwise Python prints the error, for example of a thread that lacks the memory to start.
    with contextlib.suppress(BaseException):
        pool.serve()


def _forget() -> None:
    # The threads of the parent do not exist in a forked child, and its lock may have been held at that moment.
    global _pool
    _pool = _Pool()
    _state.worker = False


_pool = _Pool()
atexit.register(lambda: _pool.end())
os.register_at_fork(after_in_child=_forget)


# Progress bar for long passes, by default only on a terminal and after two seconds.

DELAY_SECONDS = 2.0
_REDRAW_SECONDS = 0.1


class Progress:
    """Progress bar of a pass over `total` rows. `progress` None shows it on a terminal after a delay, True at once, False never."""

    __slots__ = ("_bar", "_show_at", "_total", "wanted")

    def __init__(self, total: int, progress: bool | None) -> None:
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
                self._bar = _bar(self._total)
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


def _bar(total: int) -> Any:
    from rich import progress
    from rich.console import Console

    # The caller has decided to show the bar, so a notebook or a log file is treated as a terminal. `auto_refresh` would start a
    # thread, which may fail or block forever if memory is short.
    bar = progress.Progress(
        progress.MofNCompleteColumn(), "rows", progress.BarColumn(), progress.TimeRemainingColumn(),
        console=Console(stderr=True, force_terminal=True, force_jupyter=False),
        auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    bar.start()
    bar.add_task("", total=total)
    return bar


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # stderr is None or closed
        return False


# Parallel loops in the thread pool: `run_steps` over indices, `run_stream` over the items of an iterator; `share_out` and
# `share_stream` are the same with the guard for code that reads private rows. `AccumulatorPool` lends buffers to their steps.

_STOP_SECONDS = 0.1
T = TypeVar("T")


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


def _nothing() -> None:
    pass


def run_steps(
    step: Callable[[int], object], count: int, workers: int, *, between: Callable[[], object] = _nothing
) -> None:
    """Call step(0), ..., step(count - 1), each once, in any order, in `workers` threads; raise the first error."""
    # The calling thread makes steps that no thread of the pool takes, and calls `between` periodically. An interrupt reaches the
    # caller between two steps, or at once while other threads do the work; no further step starts after it.
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

    calls = WorkerPool()
    try:
        for _ in range(min(workers, count)):
            calls.add(work)
        while calls.busy:
            if calls.left_alone() or calls.wait():
                calls.cancel()  # no step is left, or no thread takes one
            between()
        work(between)  # the remaining steps, if no thread could be started
    finally:
        stopped.set()
        calls.cancel()
        calls.settle(_STOP_SECONDS)
    if errors:
        _raise_first(errors)


def run_stream(
    step: Callable[[T], object], items: Iterable[T], workers: int, *, between: Callable[[], object] = _nothing
) -> None:
    """Call step(item) for each item in `workers` threads, while the calling thread fetches items (0 workers: it does both)."""
    # At most `workers` fetched items are unfinished at a time. Errors, interrupts and missing threads as in `run_steps`.
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

    calls = WorkerPool()
    try:
        for item in items:
            _wait(calls, workers - 1)
            if errors:
                break
            calls.add(partial(work, item))
            between()
        _wait(calls, 0)
    finally:
        calls.cancel()
        calls.settle(_STOP_SECONDS)
    if errors:
        _raise_first(errors)


def _wait(calls: WorkerPool, most: int) -> None:
    """Wait until at most `most` calls are pending or running; the calling thread makes calls that no other thread takes."""
    while calls.busy > most:
        if calls.left_alone():
            calls.begin_one()
        else:
            calls.wait()


def _raise_first(errors: deque[BaseException]) -> NoReturn:
    error = errors[0]
    errors.clear()
    try:
        raise error
    finally:
        del error  # breaks the reference cycle of frames and exception, which would keep buffers alive


def share_out(work: Callable[[int], object], count: int, *, threads: int | None = None) -> None:
    """Call work(0), ..., work(count - 1), each once, in up to `threads` threads (None: one per CPU)."""
    # Steps must be independent. An interrupt propagates within 0.2 s, and no thread starts another step. As in a pass, the
    # exception of a step is raised without its causes, and a foreign one as a generic InputError.
    workers = _workers(threads)
    call_guarded(lambda: run_steps(work, count, workers))


def share_stream(work: Callable[[T], object], items: Iterable[T], *, threads: int | None = None) -> None:
    """Call work(item) for each item in up to `threads` threads, while the calling thread fetches items; see `share_out`."""
    workers = _workers(threads)
    call_guarded(lambda: run_stream(work, items, workers if workers > 1 else 0))


def _workers(threads: int | None) -> int:
    """Return the number of threads to use: one inside the pool and while Python shuts down."""
    if in_worker() or not threading.main_thread().is_alive():
        return 1
    return available_cpus() if threads is None else threads
