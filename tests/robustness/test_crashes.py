"""Crashes, interrupts, threads and forks: the ledger never knows of less than was released, and noise never repeats."""

import multiprocessing
import os
import signal
import time

import numpy as np
import polars  # noqa: F401  (its signal handler, with SA_RESTART, once kept Ctrl-C from waking the waiting thread)
import pytest
from clocks import PATIENCE, ctrl_c
from helpers.errors import raises
from helpers.own_thread import at_once
from spies import SpyRows

from fastpubpriv import ZCDP, BudgetError, Ledger, LedgerError, Rows, coinpress_mean, estimate_mean
from fastpubpriv.sources.base import RandomAccessRows

SMALL = ZCDP(2.0**-12)
FORK = multiprocessing.get_context("fork")


class MarkedRows(RandomAccessRows):
    """Rows that write a mark to a file, past all buffers, before each read."""

    def __init__(self, array, mark):
        super().__init__(array.shape[0], array.shape[1], "array", None)
        self.array, self.mark = array, mark

    def block(self, begin, end):
        self.mark("read")
        return self.array[begin:end]


def fit_for_ever(ledger_path, marks_path, data):
    marks = os.open(marks_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = Ledger.from_file(ledger_path)
    done = len(ledger.entries)
    os.write(marks, b"ready\n")
    while True:
        rows = MarkedRows(data, lambda kind, before=done: os.write(marks, f"{kind} {before}\n".encode()))
        estimate_mean(rows, x_pub=np.zeros(2), budget=SMALL, steps=2, ledger=ledger, threads=1, progress=False)
        os.write(marks, f"output {done}\n".encode())
        done += 1


def check(marks, entries):
    """Every output and every read had its debit; `marks` are (kind, debits before this call)."""
    for kind, before in marks:
        assert entries > before, f"{kind} without a debit"


def read_marks(path):
    lines = path.read_text().split("\n") if path.exists() else []
    return [(kind, int(number)) for kind, number in (line.split() for line in lines if " " in line)]


def kill_many(count, folder, seed):
    rng = np.random.default_rng(seed)
    ledger_path, data = folder / "ledger.jsonl", rng.standard_normal((200_000, 2))
    ledger = Ledger(ZCDP(1000), path=ledger_path)
    outputs = reads = 0
    for index in range(count):
        marks_path = folder / f"marks-{index}"
        child = FORK.Process(target=fit_for_ever, args=(ledger_path, marks_path, data))
        child.start()
        # The first has one call at least that ends, however slow the machine.
        awaited = b"output" if index == 0 else b"ready"
        while not marks_path.exists() or awaited not in marks_path.read_bytes():
            time.sleep(0.0005)
        time.sleep(float(rng.uniform(0, 0.03)))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        entries, marks = len(Ledger.from_file(ledger_path).entries), read_marks(marks_path)
        check(marks, entries)
        outputs += sum(kind == "output" for kind, _ in marks)
        reads += sum(kind == "read" for kind, _ in marks)
    spent = ledger.spent.amounts[0]
    assert spent == len(ledger.entries) * SMALL.rho
    assert spent >= outputs * SMALL.rho
    assert outputs > 0
    assert len(ledger.entries) <= outputs + count  # at most the call that was killed is charged without an output
    assert reads >= 2 * outputs
    leftovers = sorted(path.name for path in folder.iterdir() if not path.name.startswith("marks"))
    assert leftovers == ["ledger.jsonl"] or all(name.startswith("ledger.jsonl") for name in leftovers)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.audit)])
def test_kill_at_random_times(times, tmp_path):
    kill_many(times, tmp_path, seed=1)


def test_control_the_check_finds_a_read_before_its_debit():
    check([("read", 0), ("output", 0)], entries=1)
    raises(AssertionError, "read without a debit", check, [("read", 0), ("output", 0), ("read", 1)], entries=1)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("on_file", [False, True])
def test_threads_share_one_ledger(on_file, tmp_path):
    fits, workers = (50, 16) if not on_file else (5, 16)
    total = ZCDP(SMALL.rho * (fits * workers - 7))  # seven calls must be refused
    ledger = Ledger(total, path=tmp_path / "ledger.jsonl") if on_file else Ledger(total)
    data, answers, refused = np.random.default_rng(0).standard_normal((300, 3)), [], []

    def work():
        for _ in range(fits):
            try:
                result = coinpress_mean(data, center=0, radius=5, budget=SMALL, ledger=ledger)
                answers.append(result.mean.tobytes())
            except BudgetError:
                refused.append(1)

    at_once(*[work] * workers)
    assert len(refused) == 7
    assert len(set(answers)) == len(answers) == fits * workers - 7
    assert ledger.spent == total.cost
    assert ledger.remaining.is_zero


def release_in_child(queue, data, ledger):
    mean = coinpress_mean(data, center=0, radius=5, budget=ZCDP(0.5)).mean.tobytes()
    try:
        coinpress_mean(data, center=0, radius=5, budget=ZCDP(0.5), ledger=ledger)
        spent = "released"
    except LedgerError:
        spent = "refused"
    queue.put((mean, spent))


def test_forked_children_draw_their_own_noise_and_cannot_spend_a_copy():
    data = np.random.default_rng(0).standard_normal((300_000, 3))  # large enough for the thread pool
    ledger = Ledger(ZCDP(10))
    coinpress_mean(data, center=0, radius=5, budget=ZCDP(0.5), threads=2)  # the pool exists before the fork
    queue = FORK.SimpleQueue()
    children = [FORK.Process(target=release_in_child, args=(queue, data, ledger)) for _ in range(6)]
    for child in children:
        child.start()
    results = [queue.get() for _ in children]
    for child in children:
        child.join(PATIENCE)
        assert child.exitcode == 0
    means = {mean for mean, _ in results}
    means.add(coinpress_mean(data, center=0, radius=5, budget=ZCDP(0.5)).mean.tobytes())
    assert len(means) == 7
    assert {spent for _, spent in results} == {"refused"}
    assert ledger.spent.is_zero


LONG = 400_000_000
ROW = np.random.default_rng(0).standard_normal((1, 8))
CHUNK = np.repeat(ROW, 100_000, axis=0)


def long_chunks():
    return (CHUNK for _ in range(LONG // len(CHUNK)))


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("kind", ["array", "chunks"])
@pytest.mark.serial
def test_interrupt_returns_at_once_and_refunds_nothing(kind, threads):
    if kind == "array":
        rows = np.broadcast_to(ROW, (LONG, 8))
    else:
        rows = Rows.from_chunks(long_chunks, n=LONG, dim=8)
    ledger = Ledger(ZCDP(1))
    with ctrl_c(once=lambda: not ledger.spent.is_zero, after=0.15):
        coinpress_mean(rows, center=0, radius=5, budget=ZCDP(0.5), ledger=ledger, threads=threads, progress=False)
    assert ledger.spent == ZCDP(0.5).cost
    result = coinpress_mean(CHUNK, center=0, radius=5, budget=ZCDP(0.5), ledger=ledger, threads=threads)
    assert np.all(np.isfinite(result.mean))
    assert ledger.remaining.is_zero


def test_an_interrupt_while_reading_is_not_swallowed():
    log, ledger = [], Ledger(ZCDP(1))
    rows = SpyRows(CHUNK, log, fails=KeyboardInterrupt())
    raises(KeyboardInterrupt, None, coinpress_mean, rows, center=0, radius=5, budget=ZCDP(0.5), ledger=ledger)
    assert ledger.spent == ZCDP(0.5).cost


def test_out_of_memory_is_told_as_such_and_refunds_nothing():
    ledger, rows = Ledger(ZCDP(1)), SpyRows(CHUNK, [], fails=MemoryError())
    raises(MemoryError, None, coinpress_mean, rows, center=0, radius=5, budget=ZCDP(0.5), ledger=ledger)
    assert ledger.spent == ZCDP(0.5).cost
