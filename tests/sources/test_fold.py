"""fold: the same bits however a pass is cut, bounded memory, and a library that survives interrupts and forks."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from clocks import PATIENCE, ctrl_c
from helpers_sources import add_sums, column_sums, direct_sums, every_source, fold, make_sums

from fastpubpriv.errors import InputError, KernelError, OutOfMemoryError
from fastpubpriv.sources import Executor, Query, Rows, private_rows
from fastpubpriv.sources import fold as fold_module
from fastpubpriv.threads import pool

# What a Python of its own needs to import the helpers of these tests.


def here():
    """The environment of the test that runs, with what it can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], *sys.path])}


X = np.random.default_rng(4).normal(size=(257, 5))
X[13, 2] = np.nan
X[77] = np.inf


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
        accumulators[0].view(np.float64)[0] += float(np.nansum(chunk[np.isfinite(chunk).all(axis=1)] * 1e9))

    rows = private_rows(X)
    found = {int(fold(rows, make_sums(1), add_floats, chunk_rows=size)[0][0]) for size in (1, 3, 7, 64, 257)}
    assert len(found) > 1


def test_sums_wrap_around_silently():
    def step(chunk, accumulators):
        accumulators[0][:] += np.int64(2**62) * len(chunk)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for threads in (1, 3):
            (total,) = fold(private_rows(X), lambda: (np.zeros(2, np.int64),), step, threads=threads, chunk_rows=1)
            assert total.tolist() == [2**62] * 2  # 257 * 2^62 modulo 2^64


def test_threads_are_used_and_bounded():
    seen, busy, most = set(), [0], [0]
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

    for rows in (private_rows(X), Rows.from_chunks(lambda: [X], n=257, dim=5)):
        for threads in (1, 3):
            seen.clear()
            most[0] = 0
            all_at_work = threading.Event()
            (total,) = fold(rows, lambda: (np.zeros(1, np.int64),), step, threads=threads, chunk_rows=10)
            assert total[0] == 257
            assert most[0] == threads
            assert (threading.get_ident() in seen) == (threads == 1)


def test_a_small_pass_stays_in_the_calling_thread():
    here = []
    fold(private_rows(X), make_sums(5), lambda chunk, acc: here.append(threading.get_ident()))
    assert set(here) == {threading.get_ident()}
    here.clear()
    fold(private_rows(X), make_sums(5), lambda chunk, acc: here.append(threading.get_ident()), row_cost=10**6)
    if pool.available_cpus() > 1:
        assert threading.get_ident() not in here


def test_row_cost_makes_chunks_short():
    sizes, x = [], np.zeros((5000, 4))
    fold(private_rows(x), make_sums(4), lambda chunk, acc: sizes.append(len(chunk)), threads=1, row_cost=10**6)
    assert max(sizes) == 20
    assert sum(sizes) == 5000
    sizes.clear()
    fold(private_rows(x), make_sums(4), lambda chunk, acc: sizes.append(len(chunk)), threads=1, row_cost=10**12)
    assert set(sizes) == {1}


@pytest.mark.parametrize(
    "bad", [{"threads": 0}, {"threads": 1.0}, {"threads": True}, {"threads": 10**6}, {"chunk_rows": 0}]
)
def test_bad_options(bad):
    with pytest.raises(InputError):
        column_sums(private_rows(X), **bad)


def test_accumulators_must_be_int64_arrays():
    for make in (lambda: [np.zeros(1, np.int64)], lambda: (np.zeros(1),), lambda: (0,), lambda: None):
        with pytest.raises(KernelError):
            fold(private_rows(X), make, add_sums)


@pytest.mark.parametrize("kind", ["array", "chunks"])
@pytest.mark.parametrize("threads", [1, 2])
def test_errors_of_a_step(kind, threads):
    rows = private_rows(X) if kind == "array" else Rows.from_chunks(lambda: [X], n=257, dim=5)

    def run(error):
        def step(chunk, accumulators):
            if np.isnan(chunk).any():
                raise error

        fold(rows, make_sums(5), step, threads=threads, chunk_rows=10)

    for foreign in (ValueError("Alice-SSN-123"), ZeroDivisionError(1.23456789e77), FloatingPointError("Alice-SSN-123")):
        with pytest.raises(InputError, match="withheld") as caught:
            run(foreign)
        assert "Alice" not in repr(caught.value)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None
    with pytest.raises(OutOfMemoryError) as caught:
        run(MemoryError("shape (12345678,)"))
    assert "1234" not in repr(caught.value)
    for ours in (KernelError("status"), InputError("form")):
        with pytest.raises(type(ours)) as caught:
            run(ours)
        assert caught.value is ours
        assert caught.value.__context__ is None
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
    for foreign, kind in ((ValueError("Alice"), InputError), (MemoryError("shape (12345678,)"), OutOfMemoryError)):
        with pytest.raises(kind) as caught:
            executor.run(FailsIn(part, foreign), private_rows(X))
        assert type(caught.value) is kind
        assert "Alice" not in repr(caught.value)
        assert "1234" not in repr(caught.value)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize(("n", "threads", "wakes"), [(2000, 2, False), (2000, None, False), (400_000, 2, True)])
def test_small_work_stays_on_the_calling_thread(n, threads, wakes, monkeypatch):
    """Also where threads are asked for: waking them would cost more than the whole pass."""
    monkeypatch.setattr(fold_module, "_INLINE_WORK_ASKED", fold_module._INLINE_WORK)
    used = set()

    def step(chunk, accumulators):
        used.add(threading.get_ident())
        time.sleep(0.02 if wakes else 0.0)  # so that the caller cannot do everything before a thread has come
        accumulators[0][0] += len(chunk)

    rows = private_rows(np.zeros((n, 5)))
    assert fold(rows, lambda: (np.zeros(1, np.int64),), step, threads=threads)[0][0] == n
    assert (used == {threading.get_ident()}) is not wakes


def test_asking_for_threads_costs_a_small_pass_nothing(monkeypatch):
    """It goes the same short way as without threads, which neither cuts nor shares out."""
    monkeypatch.setattr(fold_module, "_INLINE_WORK_ASKED", fold_module._INLINE_WORK)
    monkeypatch.setattr(Executor, "_cut", lambda *given: pytest.fail("it was cut"))
    for threads in (None, 1, 2):
        assert column_sums(private_rows(X), threads=threads) == direct_sums(X)


@pytest.mark.parametrize(("n", "threads"), [(100_000, 2), (450_001, 2), (1_000_000, 3), (2_000_000, 2), (7, 4)])
def test_each_thread_gets_as_many_chunks(n, threads):
    rows, counted = private_rows(np.zeros((n, 20))), fold_module._CHUNKS_PER_THREAD * threads
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

    callers = [threading.Thread(target=run) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [direct_sums(X)] * 160


@pytest.mark.serial
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["array", "chunks"])
def test_an_interrupt_returns_at_once(kind, threads):
    x = np.zeros((2_000, 2))
    rows = private_rows(x) if kind == "array" else Rows.from_chunks(lambda: [x], n=2_000, dim=2)
    steps = []

    def slow(chunk, accumulators):
        time.sleep(0.02)  # 20 seconds in all, on two threads
        steps.append(1)

    with ctrl_c():
        fold(rows, make_sums(2), slow, threads=threads, chunk_rows=1)
    returned = len(steps)
    time.sleep(0.1)
    assert returned <= len(steps) <= returned + threads  # nothing goes on reading, but for what was at work
    assert column_sums(private_rows(X), threads=threads, chunk_rows=9) == direct_sums(X)


@pytest.mark.serial
def test_an_interrupt_does_not_wait_for_a_chunk_that_hangs():
    release = threading.Event()
    try:
        with ctrl_c():
            fold(private_rows(X), make_sums(5), lambda chunk, acc: release.wait(PATIENCE), threads=2, chunk_rows=100)
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
    else:
        pool._forget()
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=_child, args=(queue,)) for _ in range(3 if method == "fork" else 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of fork in a process with threads
        for child in children:
            child.start()
    found = [queue.get(timeout=PATIENCE) for _ in children]
    for child in children:
        child.join(PATIENCE)
        assert child.exitcode == 0
    assert found == [direct_sums(X)] * len(children)


def test_fork_while_another_thread_holds_the_pool():
    with pool._pool.lock:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(int(PATIENCE))
                code = 0 if column_sums(private_rows(X), threads=2, chunk_rows=9) == direct_sums(X) else 2
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False, env=here()
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["[50]", "[50]"], "")


MEMORY = """
import sys
import numpy as np
from helpers_sources import fold
from fastpubpriv.sources import Rows

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024

peak = [0]
def step(chunk, accumulators):
    accumulators[0][:] += len(chunk) + int(np.count_nonzero(chunk))
    peak[0] = max(peak[0], anonymous())

rows = {"npy": Rows.from_npy, "parquet": Rows.from_parquet}[sys.argv[1]](sys.argv[2])
make = lambda: (np.zeros(1, np.int64),)
list(rows.chunks(0, 10))
before = anonymous()
found = fold(rows, make, step, threads=2)[0][0]
print(found, peak[0] - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
@pytest.mark.parametrize("kind", ["npy", "npy fortran", "parquet"])
def test_files_larger_than_memory_are_read_in_pieces(kind, tmp_path):
    n, dim = 2_000_000, 50  # 800 MB, sparse on disk
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path, n = tmp_path / "x.parquet", 1_000_000
        column = pa.array(np.zeros(n))
        pq.write_table(pa.table({f"c{i}": column for i in range(dim)}), path, row_group_size=100_000)
    else:
        path = tmp_path / "x.npy"
        big = np.lib.format.open_memmap(path, mode="w+", dtype="f8", shape=(n, dim), fortran_order="fortran" in kind)
        big[7, 3] = 1.0
        del big
    done = subprocess.run([
        sys.executable, "-c", MEMORY, kind.split()[0], str(path),
    ], capture_output=True, text=True, timeout=PATIENCE, check=False, env=here())  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, extra = map(int, done.stdout.split())
    assert found == n + (kind != "parquet")
    # Threads of Arrow keep some decoded pieces, more of them under load: 52 to 76 MB were seen here.
    assert extra < n * dim * 8 / 3


class Terminal:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


def slow_pass(monkeypatch, stderr, threads, rows, **options):
    monkeypatch.setattr("fastpubpriv.threads.progress.DELAY_SECONDS", 0.05)
    monkeypatch.setattr(sys, "stderr", stderr)
    fold(
        rows, make_sums(5), lambda c, a: time.sleep(0.02), threads=threads, chunk_rows=10,
        row_cost=10**6, **options,
    )  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [private_rows(X), Rows.from_chunks(lambda: [X], n=257, dim=5)], ids=repr)
def test_progress_on_a_terminal_after_a_while(monkeypatch, threads, rows):
    stderr = Terminal()
    slow_pass(monkeypatch, stderr, threads, rows)
    assert "rows" in stderr.text
    stderr = Terminal()
    slow_pass(monkeypatch, stderr, threads, rows, progress=False)
    assert stderr.text == ""


def test_no_progress_elsewhere(monkeypatch, capsys):
    for stderr in (sys.stderr, None):
        slow_pass(monkeypatch, stderr, 2, private_rows(X))
    assert capsys.readouterr().err == ""
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr("fastpubpriv.threads.progress.DELAY_SECONDS", PATIENCE)
    column_sums(private_rows(X))
    assert stderr.text == ""
    column_sums(private_rows(X), progress=True)
    assert "257" in stderr.text
