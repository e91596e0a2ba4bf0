"""Ledger files and many processes: forks at any moment, and openers that all come first."""

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import signal
import threading
from fractions import Fraction

import pytest
from clocks import PATIENCE
from helpers.errors import raises
from ledger_cases import forked, reopen

from fastpubpriv.errors import BudgetError, LedgerError
from fastpubpriv.privacy import ZCDP, Ledger
from fastpubpriv.privacy.ledger_file import Turn

# Python 3.12: forks beside threads
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
FORK = multiprocessing.get_context("fork")
EIGHTH = ZCDP(0.125)


def check_unlocked(path):
    """Nobody holds the lock now: a debit that does not wait goes through."""
    return reopen(path, timeout=0).debit(EIGHTH, name="not locked")


def c_fork():
    """A fork by a C library: Python runs none of its own handlers."""
    return ctypes.PyDLL(None).fork()


def live_on():
    """For a child: wait to be killed, in C, which needs nothing from an interpreter without its threads."""
    ctypes.PyDLL(None).alarm(int(PATIENCE))  # should the test itself be killed
    while True:
        ctypes.PyDLL(None).pause()


@contextlib.contextmanager
def living_child(fork=os.fork):
    """A child that was forked here and lives until the block ends."""
    pid = fork()
    if pid == 0:
        live_on()
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@contextlib.contextmanager
def debit_in_progress(ledger):
    """Another thread stands inside a debit, at the flush to disk, until the block ends."""
    reached = threading.Event()
    go_on = threading.Event()
    real = os.fsync
    numbers = []

    def flush(fd):
        if threading.current_thread() is thread:
            reached.set()
            go_on.wait()
        real(fd)

    thread = threading.Thread(
        target=lambda: numbers.append(ledger.debit(EIGHTH, name="in progress"))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        thread.start()
        assert reached.wait(120)
        try:
            yield
        finally:
            go_on.set()
            thread.join()
    assert len(numbers) == 1


def fork_beside_a_debit(path, fork):
    """A child is forked while another thread debits, and lives on; returns the number of a debit that does not wait."""
    ledger = reopen(path)
    with contextlib.ExitStack() as children:
        with debit_in_progress(ledger):
            children.enter_context(living_child(fork))
            with pytest.raises(LedgerError, match="locked"):
                check_unlocked(path)  # the child has not taken the lock from its parent either
        return check_unlocked(path)


@pytest.mark.parametrize("fork", [os.fork, c_fork])
def test_a_child_forked_during_a_debit_does_not_keep_the_lock(path, fork):
    assert fork_beside_a_debit(path, fork) == 5


def test_planted_fault_closing_without_unlocking_is_caught(path, monkeypatch):
    real = fcntl.flock
    monkeypatch.setattr(
        fcntl, "flock", lambda fd, kind: None if kind == fcntl.LOCK_UN else real(fd, kind)
    )
    raises(LedgerError, "locked", fork_beside_a_debit, path, c_fork)


def killed_in_a_debit(path, ready, fork):
    """Debit in a thread, fork a child that lives on, and wait inside the debit to be killed."""
    with debit_in_progress(reopen(path)):
        if fork() == 0:
            os.write(ready, f"{os.getpid()}\n".encode())
        live_on()


def kill_the_parent_in_a_debit(path, fork):
    """The parent of a child that lives on is killed while it debits; returns the number of a debit that does not wait."""
    received, ready = os.pipe()
    parent = FORK.Process(target=killed_in_a_debit, args=(path, ready, fork))
    parent.start()
    grandchild = int(os.read(received, 100))
    try:
        os.kill(parent.pid, signal.SIGKILL)
        parent.join()
        return check_unlocked(path)
    finally:
        os.kill(grandchild, signal.SIGKILL)
        os.close(received)
        os.close(ready)


def test_a_child_does_not_keep_the_lock_of_a_killed_parent(path):
    # the killed debit had been written, and counts
    assert kill_the_parent_in_a_debit(path, os.fork) == 5
    # Control a child that closes nothing would keep it.
    raises(LedgerError, "locked", kill_the_parent_in_a_debit, path, c_fork)


@pytest.mark.parametrize("where", ["write", "fsync", "flock"])
def test_a_fork_inside_a_debit_does_not_pay_for_two(path, monkeypatch, where):
    """A signal handler may fork in the middle of a debit, and both processes may go on from there."""
    module = fcntl if where == "flock" else os
    ledger = reopen(path)
    real = getattr(module, where)
    codes = []
    me = os.getpid()

    def fork_first(fd, argument=None):
        monkeypatch.undo()
        pid = os.fork()
        if pid:
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return real(fd) if argument is None else real(fd, argument)

    monkeypatch.setattr(module, where, fork_first)
    code = 1
    try:
        signal.alarm(0 if os.getpid() == me else 120)
        assert ledger.debit(EIGHTH, name="once") == 4
        code = 2
    except LedgerError as error:
        code = 0 if "fork" in str(error) else 3
    finally:
        if os.getpid() != me:
            os._exit(code)
    assert codes == [0]
    assert [entry.name for entry in reopen(path).entries][3:] == ["once"]
    assert check_unlocked(path) == 5


def test_a_child_that_unwinds_from_a_debit_leaves_its_parents_lock(path, monkeypatch):
    ledger = reopen(path)
    real = os.fsync
    me = os.getpid()

    def fork_first(fd):
        monkeypatch.undo()
        pid = os.fork()
        if pid == 0:
            raise KeyboardInterrupt
        os.waitpid(pid, 0)
        raises(LedgerError, "locked", check_unlocked, path)
        real(fd)

    monkeypatch.setattr(os, "fsync", fork_first)
    try:
        assert ledger.debit(EIGHTH, name="x") == 4
    finally:
        if os.getpid() != me:
            os._exit(0)
    assert check_unlocked(path) == 5


def test_a_memory_ledger_forked_under_its_lock_refuses_and_does_not_hang():
    ledger = Ledger(ZCDP(1))
    ledger.debit(EIGHTH, name="before")

    def refuses():
        raises(LedgerError, "forked", ledger.debit, EIGHTH, name="x")
        return ledger.spent == EIGHTH.cost  # what was known at the fork stays readable

    with Turn(ledger._turns) as turn:
        turn.wait()  # as if another thread had it at the time of the fork
        assert forked(refuses) == 0
        assert forked(lambda: forked(refuses) == 0) == 0
    assert ledger.debit(EIGHTH, name="the owner goes on") == 2


def debit_from_threads(ledger, threads, each, part):
    def work():
        for _ in range(each):
            ledger.debit(part, name="x")

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    return workers


def test_threads_and_forks_at_once_count_exactly(path):
    """Children are forked while two threads debit; each debits its inherited ledger from four threads, and lives on."""
    part = ZCDP(Fraction(5, 8)) / 1000
    ledger = reopen(path)

    def child():
        for worker in debit_from_threads(ledger, 4, 3, part):
            worker.join()
        numbers = [entry.number for entry in ledger.entries]  # read once: the parent goes on
        return numbers == list(range(1, len(numbers) + 1))

    with contextlib.ExitStack() as children:
        workers = debit_from_threads(ledger, 2, 40, part)
        for _ in range(8):
            children.enter_context(living_child())
            assert forked(child) == 0
        for worker in workers:
            worker.join()
        reopen(path, timeout=0)
    assert ledger.spent == EIGHTH.cost + EIGHTH + EIGHTH + part * (8 * 12 + 2 * 40)
    assert len(ledger.entries) == 3 + 8 * 12 + 2 * 40


def answers(children, results):
    """What each child, from now until it ends, puts into the queue."""
    for child in children:
        child.start()
    found = [results.get() for _ in children]
    for child in children:
        child.join()
    return found


def opening_child(folder, rounds, barrier, results):
    failures = []
    for k in range(rounds):
        barrier.wait()
        try:
            Ledger(ZCDP(1), path=folder / f"{k}.ledger", timeout=60).debit(
                ZCDP(1) / 8, name="one of six"
            )
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
    results.put(failures)


def test_six_processes_open_a_new_ledger_at_once(tmp_path):
    rounds = 40
    barrier = FORK.Barrier(6)
    results = FORK.SimpleQueue()
    children = [
        FORK.Process(target=opening_child, args=(tmp_path, rounds, barrier, results))
        for _ in range(6)
    ]
    assert answers(children, results) == [[]] * 6
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        f"{k}.ledger" for k in range(rounds)
    )
    for k in range(rounds):
        assert Ledger.from_file(tmp_path / f"{k}.ledger").spent == ZCDP(0.75).cost


def come_second(path, call):
    """Create a ledger; just before the system call `call`, somebody else creates it, debits it and tidies up."""
    real = getattr(os, call)

    def late(*arguments, **options):
        patch.undo()
        reopen(path).debit(EIGHTH, name="first")
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, late)
        return reopen(path)


@pytest.mark.parametrize("call", ["open", "write", "fsync", "link", "unlink"])
def test_another_process_may_come_first_at_any_moment(tmp_path, call):
    assert come_second(tmp_path / "a.ledger", call).debit(EIGHTH, name="second") == 2
    assert [p.name for p in tmp_path.iterdir()] == ["a.ledger"]


def test_planted_fault_a_vanished_temporary_file_as_an_error_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    raises(
        LedgerError, "cannot be created: No such file", come_second, tmp_path / "a.ledger", "link"
    )


def test_a_link_that_fails_for_another_reason_is_told(tmp_path, monkeypatch):
    """The ledger is there only if its file is: a vanished temporary file alone proves nothing."""

    def vanished(*arguments, **options):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "link", vanished)
    raises(LedgerError, "cannot be created: No such file", reopen, tmp_path / "a.ledger")
    assert list(tmp_path.iterdir()) == []


def test_openers_with_different_totals_agree_on_one(tmp_path):
    path = tmp_path / "a.ledger"
    barrier = FORK.Barrier(4)
    results = FORK.SimpleQueue()

    def child(rho):
        barrier.wait()
        try:
            Ledger(ZCDP(rho), path=path, timeout=60)
            results.put(rho)
        except LedgerError as error:
            results.put(str(error))

    found = answers([FORK.Process(target=child, args=(rho,)) for rho in (1, 2, 3, 4)], results)
    (won,) = [answer for answer in found if not isinstance(answer, str)]
    assert Ledger.from_file(path).total == ZCDP(won)
    assert all("made with another total" in answer for answer in found if isinstance(answer, str))
    raises(BudgetError, None, Ledger.from_file(path).debit, ZCDP(5), name="x")
