"""fold: the same bits however a pass is cut, bounded memory, and a library that survives interrupts and forks."""

import _thread
import gc
import io
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from clocks import PATIENCE, ctrl_c, ten_times, wait_until
from helpers.errors import raises
from helpers.own_thread import at_once
from helpers_sources import (
    add_sums,
    column_sums,
    direct_sums,
    every_source,
    fold,
    make_sums,
    streamed,
)
from spies import SpyLedger

from fastpubpriv import ZCDP, SeededNoiseWarning, estimate_mean
from fastpubpriv.errors import FastPubPrivError, InputError, KernelError, OutOfMemoryError
from fastpubpriv.sources import Executor, Query, private_rows
from fastpubpriv.sources import fold as fold_module
from fastpubpriv.threads import pool
from fastpubpriv.threads.pool import _Loop, share_out


# What a Python of its own needs to import the helpers of these tests.
def here():
    """The environment of the test that runs, with what it can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], *sys.path])}


X = np.random.default_rng(4).normal(size=(257, 5))
X[13, 2] = np.nan
X[77] = np.inf
SOURCES = {"array": lambda: private_rows(X), "chunks": lambda: streamed(X, 2)}


def test_same_bits_for_all_sources_threads_and_chunks(tmp_path):
    x = X[:61]
    expected = direct_sums(x)
    for name, rows in every_source(x, tmp_path):
        assert (rows.n, rows.dim) == x.shape, name
        for threads in (None, 1, 2, 4):
            for chunk_rows in (None, 1, 3, 7, 60, 61, 1000):
                assert column_sums(rows, threads=threads, chunk_rows=chunk_rows) == expected, (
                    name,
                    threads,
                    chunk_rows,
                )


def test_the_comparison_of_bits_sees_floating_point_sums():
    # Planted bug: floats added up (their bits in the accumulator). The cut must show.
    def add_floats(chunk, accumulators):
        accumulators[0].view(np.float64)[0] += float(
            np.nansum(chunk[np.isfinite(chunk).all(axis=1)] * 1e9)
        )

    rows = private_rows(X)
    found = {
        int(fold(rows, make_sums(1), add_floats, chunk_rows=size)[0][0])
        for size in (1, 3, 7, 64, 257)
    }
    assert len(found) > 1


def test_sums_wrap_around_silently():
    def step(chunk, accumulators):
        accumulators[0][:] += np.int64(2**62) * len(chunk)

    with warnings.catch_warnings(action="error"):
        for threads in (1, 3):
            (total,) = fold(
                private_rows(X),
                lambda: (np.zeros(2, np.int64),),
                step,
                threads=threads,
                chunk_rows=1,
            )
            assert total.tolist() == [2**62] * 2  # 257 * 2^62 modulo 2^64


def test_threads_are_used_and_bounded():
    seen = set()
    busy = [0]
    most = [0]
    lock = threading.Lock()

    def step(chunk, accumulators):
        with lock:
            seen.add(threading.get_ident())
            busy[0] += 1
            most[0] = max(most[0], busy[0])
            if busy[0] == threads:
                all_at_work.set()
        all_at_work.wait(PATIENCE)  # however late one of them starts
        time.sleep(0.001)
        with lock:
            busy[0] -= 1
        accumulators[0][:] += len(chunk)

    for rows in (private_rows(X), streamed(X, 1)):
        for threads in (1, 3):
            seen.clear()
            most[0] = 0
            all_at_work = threading.Event()
            (total,) = fold(
                rows, lambda: (np.zeros(1, np.int64),), step, threads=threads, chunk_rows=10
            )
            assert total[0] == 257
            assert most[0] == threads
            assert threading.get_ident() in seen
            assert len(seen) == threads


def test_costly_rows_use_threads_and_make_chunks_short():
    seen = set()

    def step(chunk, accumulators):
        seen.add(threading.get_ident())
        assert wait_until(lambda: len(seen) >= min(2, pool.available_cpus()))

    fold(private_rows(X), make_sums(5), step, row_cost=10**6)
    # Row cost makes chunks short.
    sizes = []
    x = np.zeros((5000, 4))
    fold(
        private_rows(x),
        make_sums(4),
        lambda chunk, acc: sizes.append(len(chunk)),
        threads=1,
        row_cost=10**6,
    )
    assert max(sizes) == 20
    assert sum(sizes) == 5000
    sizes.clear()
    fold(
        private_rows(x),
        make_sums(4),
        lambda chunk, acc: sizes.append(len(chunk)),
        threads=1,
        row_cost=10**12,
    )
    assert set(sizes) == {1}


def test_accumulators_must_be_int64_arrays():
    for make in (
        lambda: [np.zeros(1, np.int64)],
        lambda: (np.zeros(1),),
        lambda: (0,),
        lambda: None,
    ):
        raises(KernelError, None, fold, private_rows(X), make, add_sums)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("threads", [1, 2])
def test_errors_of_a_step(kind, threads):
    rows = SOURCES[kind]()

    def run(error):
        def step(chunk, accumulators):
            if np.isnan(chunk).any():
                raise error

        fold(rows, make_sums(5), step, threads=threads, chunk_rows=10)

    for foreign in (
        ValueError("Alice-SSN-123"),
        ZeroDivisionError(1.23456789e77),
        FloatingPointError("Alice-SSN-123"),
    ):
        caught = raises(InputError, "withheld", run, foreign)
        assert "Alice" not in repr(caught)
        assert caught.__context__ is None
        assert caught.__cause__ is None
    assert "1234" not in repr(raises(OutOfMemoryError, None, run, MemoryError("shape (12345678,)")))
    for ours in (KernelError("status"), InputError("form")):
        caught = raises(type(ours), None, run, ours)
        assert caught is ours
        assert caught.__context__ is None
    assert column_sums(rows, threads=threads) == direct_sums(X)


@dataclass(frozen=True)
class FailsIn(Query):
    """Fails in one of its parts."""

    part: str
    error: Exception

    def fail(self, part):
        if self.part == part:
            raise self.error

    def zeros(self):
        self.fail("zeros")
        return (np.zeros(1, dtype=np.int64),)

    def add(self, chunk, accumulators):
        pass

    def merge(self, total, part):
        self.fail("merge")

    def answer(self, accumulators):
        self.fail("answer")
        return accumulators[0]


@pytest.mark.parametrize("part", ["zeros", "merge", "answer"])
def test_errors_of_the_other_parts_of_a_query(part):
    executor = Executor(threads=2, progress=False, chunk_rows=10)
    for foreign, kind in (
        (ValueError("Alice"), InputError),
        (MemoryError("shape (12345678,)"), OutOfMemoryError),
    ):
        caught = raises(kind, None, executor.run, FailsIn(part, foreign), private_rows(X))
        assert type(caught) is kind
        assert "Alice" not in repr(caught)
        assert "1234" not in repr(caught)
        assert caught.__cause__ is None
        assert caught.__context__ is None


@pytest.mark.parametrize(
    ("n", "threads", "wakes"), [(2000, 2, False), (2000, None, False), (400_000, 2, True)]
)
def test_small_work_stays_on_the_calling_thread(n, threads, wakes, monkeypatch):
    """Also where threads are asked for: waking them would cost more than the whole pass."""
    monkeypatch.setattr(fold_module, "_INLINE_WORK_ASKED", fold_module._INLINE_WORK)
    used = set()

    def step(chunk, accumulators):
        used.add(threading.get_ident())
        # so that the caller cannot do everything before a thread has come
        time.sleep(0.02 if wakes else 0.0)
        accumulators[0][0] += len(chunk)

    rows = private_rows(np.zeros((n, 5)))
    assert fold(rows, lambda: (np.zeros(1, np.int64),), step, threads=threads)[0][0] == n
    assert (used == {threading.get_ident()}) is not wakes


@pytest.mark.parametrize(
    ("n", "threads"), [(100_000, 2), (450_001, 2), (1_000_000, 3), (2_000_000, 2), (7, 4)]
)
def test_each_thread_gets_as_many_chunks(n, threads):
    rows = private_rows(np.zeros((n, 20)))
    counted = fold_module._CHUNKS_PER_THREAD * threads
    workers, size = Executor(threads=threads)._cut(FailsIn("add", ValueError()), rows, 20)
    chunks = -(-n // size)
    assert workers == threads
    assert n < counted or (chunks >= counted and chunks % threads == 0)


def test_a_pass_within_a_pass_does_not_wait_for_itself():
    def step(chunk, accumulators):
        inner = fold(private_rows(np.array(chunk)), make_sums(5), add_sums, threads=4, chunk_rows=1)
        for total, addend in zip(accumulators, inner, strict=True):
            total += addend

    for threads in (1, 2, 64):
        sums, count = fold(private_rows(X), make_sums(5), step, threads=threads, chunk_rows=4)
        assert sums.tolist() == direct_sums(X)
        assert count[0] == 257


def test_passes_at_the_same_time():
    results = []

    def run():
        rows = private_rows(X)
        results.extend(column_sums(rows, threads=4, chunk_rows=16) for _ in range(20))

    at_once(*[run] * 8)
    assert results == [direct_sums(X)] * 160


@pytest.mark.serial
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["array", "chunks"])
def test_an_interrupt_returns_at_once(kind, threads):
    x = np.zeros((2_000, 2))
    rows = private_rows(x) if kind == "array" else streamed(x, 1)
    steps = []

    def slow(chunk, accumulators):
        time.sleep(0.02)  # 20 seconds in all, on two threads
        steps.append(1)

    with ctrl_c():
        fold(rows, make_sums(2), slow, threads=threads, chunk_rows=1)
    returned = len(steps)
    time.sleep(0.1)
    # nothing goes on reading, but for what was at work
    assert returned <= len(steps) <= returned + threads
    assert column_sums(private_rows(X), threads=threads, chunk_rows=9) == direct_sums(X)


@pytest.mark.serial
def test_an_interrupt_does_not_wait_for_a_chunk_that_hangs():
    release = threading.Event()
    try:
        with ctrl_c():
            fold(
                private_rows(X),
                make_sums(5),
                lambda chunk, acc: release.wait(PATIENCE),
                threads=2,
                chunk_rows=100,
            )
        assert column_sums(private_rows(X), threads=2, chunk_rows=9) == direct_sums(X)
    finally:
        release.set()


def _child(queue):
    queue.put(column_sums(private_rows(X), threads=2, chunk_rows=9))


@pytest.mark.parametrize("used_before", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_fork_and_spawn(method, used_before):
    if used_before:
        column_sums(private_rows(X), threads=2, chunk_rows=9)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [
        context.Process(target=_child, args=(queue,)) for _ in range(3 if method == "fork" else 1)
    ]
    with warnings.catch_warnings():
        # Python 3.12 warns of fork in a process with threads
        warnings.simplefilter("ignore", DeprecationWarning)
        for child in children:
            child.start()
    found = [queue.get(timeout=PATIENCE) for _ in children]
    for child in children:
        child.join(PATIENCE)
        assert child.exitcode == 0
    assert found == [direct_sums(X)] * len(children)


def test_a_pass_while_python_shuts_down():
    code = (
        "import atexit, numpy as np\n"
        "from helpers_sources import fold\n"
        "from fastpubpriv.sources import private_rows\n"
        "rows = private_rows(np.ones((50, 2)))\n"
        "def step(chunk, acc): acc[0][:] += len(chunk)\n"
        "run = lambda: print(fold(rows, lambda: (np.zeros(1, np.int64),), step, threads=2, chunk_rows=5)[0])\n"
        "run(); atexit.register(run)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=here(),
    )
    assert done.returncode == 0
    assert done.stdout.split() == ["[50]", "[50]"]
    assert done.stderr == ""


MEMORY = """
import sys
import numpy as np
from helpers_sources import fold
from fastpubpriv.sources import private_rows

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024

peak = [0]
def step(chunk, accumulators):
    accumulators[0][:] += len(chunk) + int(np.count_nonzero(chunk))
    peak[0] = max(peak[0], anonymous())

rows = private_rows(sys.argv[1])
make = lambda: (np.zeros(1, np.int64),)
list(rows.chunks(0, 10))
before = anonymous()
found = fold(rows, make, step, threads=2)[0][0]
print(found, peak[0] - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
@pytest.mark.parametrize("kind", ["npy", "npy fortran", "parquet"])
def test_files_larger_than_memory_are_read_in_pieces(kind, tmp_path):
    n = 2_000_000  # 800 MB, sparse on disk
    dim = 50
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = tmp_path / "x.parquet"
        n = 1_000_000
        column = pa.array(np.zeros(n))
        pq.write_table(
            pa.table({f"c{i}": column for i in range(dim)}), path, row_group_size=100_000
        )
    else:
        path = tmp_path / "x.npy"
        big = np.lib.format.open_memmap(
            path, mode="w+", dtype="f8", shape=(n, dim), fortran_order="fortran" in kind
        )
        big[7, 3] = 1.0
        del big
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            MEMORY,
            str(path),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=here(),
    )
    assert done.returncode == 0, done.stderr
    found, extra = map(int, done.stdout.split())
    assert found == n + (kind != "parquet")
    # Threads of Arrow keep some decoded pieces, more of them under load: 52 to 76 MB were seen here.
    assert extra < n * dim * 8 / 3


class Terminal(io.StringIO):
    def isatty(self):
        return True


def slow_pass(monkeypatch, stderr, threads, rows, **options):
    monkeypatch.setattr("fastpubpriv.threads.pool.DELAY_SECONDS", 0.05)
    monkeypatch.setattr(sys, "stderr", stderr)
    fold(
        rows,
        make_sums(5),
        lambda c, a: time.sleep(0.02),
        threads=threads,
        chunk_rows=10,
        row_cost=10**6,
        **options,
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [private_rows(X), streamed(X, 1)], ids=repr)
def test_progress_on_a_terminal_after_a_while(monkeypatch, threads, rows):
    stderr = Terminal()
    slow_pass(monkeypatch, stderr, threads, rows)
    assert "rows" in stderr.getvalue()
    stderr = Terminal()
    slow_pass(monkeypatch, stderr, threads, rows, progress=False)
    assert stderr.getvalue() == ""


def test_no_progress_elsewhere(monkeypatch, capsys):
    for stderr in (sys.stderr, None):
        slow_pass(monkeypatch, stderr, 2, private_rows(X))
    assert capsys.readouterr().err == ""
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr("fastpubpriv.threads.pool.DELAY_SECONDS", PATIENCE)
    column_sums(private_rows(X))
    assert stderr.getvalue() == ""
    column_sums(private_rows(X), progress=True)
    assert "257" in stderr.getvalue()


# ---- Threads of a loop: a pass that has been paid for is finished, even where no thread can be had ---------------
def refused(function, arguments):
    raise RuntimeError("can't start new thread")


def no_memory(function, arguments):
    raise MemoryError


def stillborn(function, arguments):
    """A thread that starts, and has no memory for its first line of Python."""
    return 1


@pytest.fixture(params=[refused, no_memory, stillborn], ids=lambda fault: fault.__name__)
def no_threads(request, monkeypatch):
    monkeypatch.setattr(_thread, "start_new_thread", request.param)


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_the_calling_thread_makes_a_pass_alone(make, no_threads):
    seen = set()

    def step(chunk, accumulators):
        seen.add(threading.get_ident())
        add_sums(chunk, accumulators)

    with ten_times(0.1):  # it waits for no thread
        for _ in range(20):
            sums, count = fold(make(), make_sums(5), step, threads=4, chunk_rows=10)
            assert sums.tolist() == direct_sums(X)
            assert count[0] == 257
    assert seen == {threading.get_ident()}


def test_the_calling_thread_shares_with_itself(no_threads):
    seen = []
    share_out(seen.append, 100, threads=4)
    assert sorted(seen) == list(range(100))


def test_errors_and_progress_are_as_with_threads(no_threads, capsys):
    def step(chunk, accumulators):
        raise ValueError("Alice-SSN-123")

    for make in SOURCES.values():
        raises(
            FastPubPrivError, "withheld", fold, make(), make_sums(5), step, threads=2, chunk_rows=10
        )
        assert column_sums(make(), threads=2, chunk_rows=10, progress=True) == direct_sums(X)
    assert "257" in capsys.readouterr().err


def mean(ledger, threads):
    with warnings.catch_warnings(action="ignore", category=SeededNoiseWarning):
        public = np.random.default_rng(5).normal(size=(20, 5))
        rows = np.tile(X, (400, 1))
        return estimate_mean(
            rows, x_pub=public, budget=ZCDP(0.5), ledger=ledger, threads=threads, random_state=3
        ).mean


def test_an_estimate_that_was_paid_for_is_released(no_threads):
    log = []
    found = mean(SpyLedger(ZCDP(1), log), 4)
    assert log == ["debit"]
    np.testing.assert_array_equal(found, mean(None, 1))


def test_planted_an_error_of_a_thread_that_cannot_start(monkeypatch):
    """As before: the error reaches the pass, when it has been paid for."""
    monkeypatch.setattr(_Loop, "start", lambda loop, count: refused(None, ()))
    log = []
    raises(FastPubPrivError, None, mean, SpyLedger(ZCDP(1), log), 4)
    assert log == ["debit"]


def test_planted_a_caller_that_waits_for_a_thread_that_does_not_come(monkeypatch):
    looks = []

    class Impatient(Exception):
        pass

    def wait(loop, true, seconds=None):
        looks.append(seconds)
        if len(looks) > 50:
            raise Impatient

    def leave_to_others(loop):
        while loop.items:
            loop.wait(lambda: not loop.items, 0.0)

    monkeypatch.setattr(_thread, "start_new_thread", stillborn)
    monkeypatch.setattr(_Loop, "make_one", leave_to_others)
    monkeypatch.setattr(_Loop, "wait", wait)
    raises(FastPubPrivError, None, column_sums, private_rows(X), threads=2, chunk_rows=10)
    assert len(looks) > 50


LIMITED = """
import os, resource, signal, sys, warnings
import numpy as np
import fastpubpriv as fpp

warnings.simplefilter("ignore")
rows = np.random.default_rng(0).normal(size=(2_000_000, 5))
public = np.random.default_rng(1).normal(size=(20, 5))
fpp.estimate_mean(rows[:100], x_pub=public, budget=fpp.ZCDP(0.5), threads=1)
expected = fpp.estimate_mean(rows, x_pub=public, budget=fpp.ZCDP(0.5), threads=1, random_state=1).mean
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
for room in range(0, 60_000_000, 3_000_000):
    child = os.fork()
    if child == 0:
        signal.alarm(int(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_AS, (used + room, -1))
        ledger = fpp.Ledger(fpp.ZCDP(1))
        try:
            options = {"ledger": ledger, "threads": 4, "random_state": 1}
            found = fpp.estimate_mean(rows, x_pub=public, budget=fpp.ZCDP(0.5), **options).mean
            os._exit(0 if np.array_equal(found, expected) else 3)
        except fpp.OutOfMemoryError:
            os._exit(4)
        except BaseException:
            os._exit(5)
    print(room, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_AS")
def test_with_little_memory_for_threads_the_answer_is_the_same():
    command = [sys.executable, "-c", LIMITED, str(int(PATIENCE))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    found = dict(map(int, line.split()) for line in done.stdout.splitlines())
    assert len(found) == 20
    # With little memory left a call may find no room, and says so; half of what its 80 MB of rows take is room enough.
    assert {
        room: code for room, code in found.items() if code and (code != 4 or room > 40_000_000)
    } == {}


# ---- `share_out`: every piece once, whatever the threads; errors without content ------------------------------------
@pytest.mark.parametrize("threads", [1, 2, 5, None, 0, -1])
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_every_piece_once(threads, count):
    seen = []
    share_out(seen.append, count, threads=threads)
    assert sorted(seen) == list(range(count))


def test_pieces_run_side_by_side_and_inside_of_one_the_same_thread_goes_on():
    both = threading.Barrier(2, timeout=PATIENCE)
    share_out(lambda index: both.wait(), 2, threads=2)  # one thread alone would wait forever
    seen = []

    def outer(index):
        share_out(lambda inner: seen.append((index, inner, threading.get_ident())), 3, threads=4)

    share_out(outer, 4, threads=2)
    assert sorted(part[:2] for part in seen) == [(i, j) for i in range(4) for j in range(3)]
    assert all(len({part[2] for part in seen if part[0] == i}) == 1 for i in range(4))


@pytest.mark.parametrize("threads", [1, 2])
def test_errors_of_a_piece_say_nothing_or_stop_the_rest(threads):
    def work(index):
        raise ValueError("value 1.23456789e77 of Alice")

    caught = raises(InputError, None, share_out, work, 5, threads=threads)
    assert "Alice" not in str(caught)
    assert caught.__context__ is None
    assert caught.__cause__ is None
    # Our own error comes through and stops the rest.
    started = []

    def work(index):
        started.append(index)
        if index == 0:
            raise KernelError("refused")
        time.sleep(0.02)

    raises(KernelError, "refused", share_out, work, 1000, threads=threads)
    assert len(started) < 900


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("failure", [ValueError, KernelError])
def test_an_error_keeps_nothing_alive(threads, failure):
    class Chunk:
        pass

    def run():
        chunk = Chunk()

        def work(index):
            raise failure(f"chunk {chunk is not None}")

        # here: a helper's frame would be kept with the error
        with pytest.raises((InputError, KernelError)):
            share_out(work, 5, threads=threads)
        return weakref.ref(chunk)

    gc.collect()
    gc.disable()
    try:
        kept = run()
        assert wait_until(lambda: kept() is None)  # a worker may not have left its last piece
    finally:
        gc.enable()
