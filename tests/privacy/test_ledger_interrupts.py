"""Ctrl-C, or a signal handler that asks, at each event of a ledger operation: nothing stays locked, open or half written."""

import contextlib
import fcntl
import itertools
import os
import sys
import threading
import time

import pytest
from helpers.errors import raises
from helpers.own_thread import in_own_thread
from ledger_cases import reopen

from fastpubpriv.errors import LedgerError
from fastpubpriv.privacy import ZCDP, Ledger, ledger, ledger_file
from fastpubpriv.threads.processes import here

EIGHTH = ZCDP(0.125)
OURS = {module.__file__ for module in (ledger, ledger_file, ledger_file)}
PLANTED = {"taken_in_two_steps"}


class Strike:
    """Calls `act()` at event number `at` of the block, and counts the events.

    Events are calls, returns, and lines or instructions of the ledger's modules: more than a signal handler can meet, as Python
    looks for signals at fewer places.
    """

    def __init__(self, act=None, at=-1, *, instructions=False):
        self.act = act
        self.at = at
        self.instructions = instructions
        self.seen = 0

    def _event(self, frame, kind, argument):
        if frame.f_code.co_filename not in OURS and frame.f_code.co_name not in PLANTED:
            return None
        frame.f_trace_opcodes = self.instructions
        self.seen += kind != ("line" if self.instructions else "opcode")
        if self.seen == self.at:
            self.at = -1
            self.act()
        return self._event

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._event)
        return self

    def __exit__(self, *error):
        sys.settrace(self._before)


def interrupt():
    raise KeyboardInterrupt


def descriptors():
    return os.listdir("/dev/fd")


class Workshop:
    """A folder with one ledger file, which is as it was before each operation, and what is to be done with it."""

    def __init__(self, folder):
        self.path = folder / "a.ledger"
        before = reopen(self.path)
        before.debit(EIGHTH, name="first")
        before.debit(EIGHTH, name="second")
        self.content = self.path.read_bytes()
        self.ledger = None

    def prepare(self, operation):
        for file in self.path.parent.iterdir():
            file.unlink()
        torn = b"x" * 700 if operation == "repair" else b""
        if operation != "create":
            self.path.write_bytes(self.content + torn)
        self.ledger = reopen(self.path) if operation in ASKED else None

    def run(self, operation):
        if operation in ("debit", "full disk"):
            return self.ledger.debit(EIGHTH, name="third")
        if operation in ("open", "create"):
            return reopen(self.path)
        if operation == "from_file":
            return Ledger.from_file(self.path)
        return (
            Ledger.repair(self.path) if operation == "repair" else getattr(self.ledger, operation)
        )

    def check_free(self, open_before):
        """Nothing is held: no descriptor, no lock, no turn."""
        assert descriptors() == open_before, "a descriptor leaked"
        assert repr(ledger_file._gate).startswith("<unlocked"), (
            "no other thread can open a file, or fork"
        )
        assert not ledger_file._open, "forked children would close what is closed"
        if self.ledger is not None:
            assert self.ledger._turns == {}, "no other thread can work on the ledger"
        if self.path.exists():
            # another descriptor, as of another process; it does not wait
            with open(self.path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def check_counted(self, operation):
        """A debit is in the file whole or not at all, and what is there is counted; the ledger is as good as before."""
        if operation == "repair" and os.path.getsize(self.path) % 1024:
            assert Ledger.repair(self.path) == 700
        after = reopen(self.path, timeout=0)
        count = len(after.entries)
        assert count in {"debit": (2, 3), "full disk": (2, 3), "create": (0,)}.get(operation, (2,))
        if self.ledger is not None:
            assert self.ledger.spent == after.spent
            assert self.ledger.debit(EIGHTH, name="afterwards") == count + 1
        assert {name for name in os.listdir(self.path.parent) if ".torn-" not in name} == {
            self.path.name
        }


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    def waits(seconds):
        raise AssertionError("it waits, and nobody else is at work")

    monkeypatch.setattr(os, "fsync", lambda fd: None)  # for speed: no power fails here
    made = Workshop(tmp_path)
    gate = threading.RLock()
    monkeypatch.setattr(time, "sleep", waits)
    monkeypatch.setattr(ledger_file, "_gate", gate)  # planted faults leave it locked
    monkeypatch.setattr(ledger_file, "_leave_gate", gate.__exit__)
    monkeypatch.setattr(ledger_file, "_open", set())
    return made


@in_own_thread
def interrupt_everywhere(workshop, operation, *, instructions):
    """Number of events at which the operation was interrupted, once at each."""
    for at in itertools.count(1):
        workshop.prepare(operation)
        before = descriptors()
        try:
            with (
                Strike(interrupt, at, instructions=instructions),
                one_short_write(operation == "full disk"),
            ):
                workshop.run(operation)
        except KeyboardInterrupt as kept:  # with its frames, as while a handler runs that works on
            try:
                workshop.check_free(before)
                workshop.check_counted(operation)
            except (AssertionError, OSError) as error:
                raise AssertionError(f"interrupted at event {at}: {error}") from kept
        except LedgerError:
            return at - 1  # the full disk
        else:
            return at - 1


@contextlib.contextmanager
def one_short_write(wanted):
    """The disk is full after half a line."""
    real = os.write

    def half(fd, line):
        os.write = real
        return real(fd, line[:500])

    os.write = half if wanted else real
    try:
        yield
    finally:
        os.write = real


INTERRUPTED = {  # at each instruction, or at each line
    "debit": True,
    "full disk": False,
    "spent": False,
    "entries": False,
    "open": False,
    "create": False,
    "from_file": False,
    "repair": False,
}
ASKED = {"debit": False, "full disk": False, "spent": True, "remaining": False, "entries": False}


@pytest.mark.parametrize("operation", INTERRUPTED)
def test_an_interrupt_at_any_event_leaves_nothing_held(workshop, operation):
    assert interrupt_everywhere(workshop, operation, instructions=INTERRUPTED[operation]) > 100


@pytest.mark.parametrize("operation", ASKED)
def test_a_signal_handler_may_ask_at_any_event(workshop, operation):
    """It is answered, or told that this thread is at work on the ledger already; and the operation goes on as if nothing were."""
    assert ask_everywhere(workshop, operation, instructions=ASKED[operation]) > 100


@in_own_thread
def ask_everywhere(workshop, operation, *, instructions):
    """Number of events at which a handler asked, once at each."""
    answers = []

    def ask():
        for question in (
            lambda: workshop.ledger.spent,
            lambda: workshop.ledger.debit(EIGHTH / 100, name="in a handler"),
        ):
            with contextlib.suppress(LedgerError):
                answers.append(question())

    for at in itertools.count(1):
        workshop.prepare(operation)
        before = descriptors()
        answers[:] = []
        result = None
        with (
            Strike(ask, at, instructions=instructions) as strike,
            one_short_write(operation == "full disk"),
        ):
            try:
                result = workshop.run(operation)
            except LedgerError:
                assert operation == "full disk"
        workshop.check_free(before)
        debits = sum(isinstance(answer, int) for answer in answers)
        expected = 2 * EIGHTH + debits * (EIGHTH / 100) if debits else 2 * EIGHTH
        if operation == "debit" or isinstance(result, int):
            assert result in (3, 3 + debits)
            expected += EIGHTH
        assert workshop.ledger.spent == reopen(workshop.path).spent == expected.cost
        if strike.seen < at:
            return at - 1


def taken_in_two_steps(self, take, *arguments, back):
    result = take(*arguments)
    self._taken.append((back, result))
    return result


def wait_for_whoever_it_is(self):
    while self._turns.setdefault(here(), self) is not self:
        time.sleep(0.002)


def test_planted_fault_a_descriptor_that_is_noted_down_later_is_caught(workshop, monkeypatch):
    monkeypatch.setattr(ledger_file.HeldResources, "take", taken_in_two_steps)
    raises(
        AssertionError,
        "interrupted at event",
        interrupt_everywhere,
        workshop,
        "spent",
        instructions=True,
    )


@pytest.mark.parametrize(
    "kind", [ledger_file.HeldResources, ledger_file.OpenFile, ledger_file.Turn]
)
def test_planted_fault_giving_back_once_is_caught(workshop, monkeypatch, kind):
    real = kind.__exit__
    met = []

    def second_time(self, *error):
        if self in met:
            met.remove(self)
            real(self, *error)
        else:
            met.append(self)

    monkeypatch.setattr(kind, "__exit__", second_time)
    raises(
        AssertionError,
        "interrupted at event",
        interrupt_everywhere,
        workshop,
        "spent",
        instructions=False,
    )


def test_planted_fault_a_turn_that_waits_for_its_own_thread_is_caught(workshop, monkeypatch):
    monkeypatch.setattr(ledger_file.Turn, "wait", wait_for_whoever_it_is)
    raises(
        AssertionError,
        "nobody else is at work",
        ask_everywhere,
        workshop,
        "spent",
        instructions=False,
    )
