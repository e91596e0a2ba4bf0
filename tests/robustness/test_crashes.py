"""Crashes, interrupts, threads and forks: the ledger never knows of less than was released, and noise never repeats."""

import multiprocessing
import os
import signal
import time

import numpy as np
import polars  # noqa: F401  (its signal handler, with SA_RESTART, once kept Ctrl-C from waking the waiting thread)
import pytest
from clocks import ctrl_c
from helpers.errors import raises
from spies import SpyRows

from fastpubpriv import ZCDP, Ledger, Rows, coinpress_mean, estimate_mean

SMALL = ZCDP(2.0**-12)
FORK = multiprocessing.get_context("fork")


class Marks:
    """A log that is a file, past all buffers."""

    def __init__(self, descriptor, before):
        self.descriptor = descriptor
        self.before = before

    def append(self, kind):
        os.write(self.descriptor, f"{kind} {self.before}\n".encode())


def fit_for_ever(ledger_path, marks_path, data):
    marks = os.open(marks_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = Ledger.from_file(ledger_path)
    done = len(ledger.entries)
    os.write(marks, b"ready\n")
    while True:
        rows = SpyRows(data, Marks(marks, done))
        estimate_mean(
            rows, x_pub=np.zeros(2), budget=SMALL, steps=2, ledger=ledger, threads=1, progress=False
        )
        rows.log.append("output")
        done += 1


def check(marks, entries):
    """Every output and every read had its debit; `marks` are (kind, debits before this call)."""
    for kind, before in marks:
        assert entries > before, f"{kind} without a debit"


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.audit)])
def test_kill_at_random_times(times, tmp_path):
    rng = np.random.default_rng(1)
    ledger_path = tmp_path / "ledger.jsonl"
    data = rng.standard_normal((200_000, 2))
    ledger = Ledger(ZCDP(1000), path=ledger_path)
    outputs = reads = 0
    for index in range(times):
        marks_path = tmp_path / f"marks-{index}"
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
        lines = [line.split() for line in marks_path.read_text().split("\n") if " " in line]
        marks = [(kind, int(number)) for kind, number in lines]
        check(marks, len(Ledger.from_file(ledger_path).entries))
        outputs += sum(kind == "output" for kind, _ in marks)
        reads += sum(kind == "read" for kind, _ in marks)
    spent = ledger.spent.amounts[0]
    assert spent == len(ledger.entries) * SMALL.rho
    assert spent >= outputs * SMALL.rho
    assert outputs > 0
    # at most the call that was killed is charged without an output
    assert len(ledger.entries) <= outputs + times
    assert reads >= 2 * outputs
    assert all(path.name.startswith(("ledger.jsonl", "marks")) for path in tmp_path.iterdir())


def test_control_the_check_finds_a_read_before_its_debit():
    check([("read", 0), ("output", 0)], entries=1)
    raises(
        AssertionError,
        "read without a debit",
        check,
        [("read", 0), ("output", 0), ("read", 1)],
        entries=1,
    )


LONG = 400_000_000
ROW = np.random.default_rng(0).standard_normal((1, 8))
CHUNK = np.repeat(ROW, 100_000, axis=0)


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("kind", ["array", "chunks"])
@pytest.mark.serial
def test_interrupt_returns_at_once_and_refunds_nothing(kind, threads):
    if kind == "array":
        rows = np.broadcast_to(ROW, (LONG, 8))
    else:
        rows = Rows.from_chunks(lambda: (CHUNK for _ in range(LONG // len(CHUNK))), n=LONG, dim=8)
    ledger = Ledger(ZCDP(1))
    with ctrl_c(once=lambda: not ledger.spent.is_zero, after=0.15):
        coinpress_mean(
            rows,
            center=0,
            radius=5,
            budget=ZCDP(0.5),
            ledger=ledger,
            threads=threads,
            progress=False,
        )
    assert ledger.spent == ZCDP(0.5).cost
    result = coinpress_mean(
        CHUNK, center=0, radius=5, budget=ZCDP(0.5), ledger=ledger, threads=threads
    )
    assert np.all(np.isfinite(result.mean))
    assert ledger.remaining.is_zero


@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_and_a_lack_of_memory_come_through_and_refund_nothing(failure):
    ledger = Ledger(ZCDP(1))
    rows = SpyRows(CHUNK, [], fails=failure())
    raises(failure, None, coinpress_mean, rows, center=0, radius=5, budget=ZCDP(0.5), ledger=ledger)
    assert ledger.spent == ZCDP(0.5).cost
