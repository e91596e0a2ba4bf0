"""The ledger: exact under threads, processes and kill -9; a typed error for every broken file (SAFETY.md 3.8, 3.9)."""

import copy
import errno
import fcntl
import multiprocessing
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

import fastpubpriv
from fastpubpriv.errors import BudgetError, InputError, LedgerError
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    ComposedEvent,
    Cost,
    GaussianEvent,
    KNormEvent,
    LaplaceEvent,
    Ledger,
    Neighbors,
    PureDP,
    pure_to_zcdp_exact,
)

ROOT = Path(fastpubpriv.__file__).parents[1]


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    return {"path": tmp_path / "a.ledger"} if request.param == "file" else {}


@pytest.fixture
def path(tmp_path):
    """A file with three debits of 1/8 against a total of 1."""
    file = tmp_path / "a.ledger"
    ledger = Ledger(ZCDP(1), path=file, label="set A")
    for k in range(3):
        ledger.debit(ZCDP(0.125), name=f"query {k}")
    return file


def reopen(path):
    return Ledger(ZCDP(1), path=path, label="set A")


def test_debits_add_up_exactly(place):
    ledger = Ledger(ZCDP(Fraction(3, 10)), label="set A", **place)
    numbers = [ledger.debit(ZCDP(Fraction(1, 10)), name=f"query {k}") for k in range(3)]
    assert numbers == [1, 2, 3]
    assert ledger.remaining.is_zero
    assert ledger.spent == ledger.total.cost
    assert [(e.number, e.name) for e in ledger.entries] == [(1, "query 0"), (2, "query 1"), (3, "query 2")]
    with pytest.raises(BudgetError, match=r"what remains, Cost\(ZCDP, rho=0.0\)"):
        ledger.debit(ZCDP(2.0**-60), name="one too many")
    assert len(ledger.entries) == 3


def test_every_part_of_the_total_is_checked(place):
    ledger = Ledger(ApproxDP(1, 1e-6), **place)
    ledger.debit(ApproxDP(0.25, 1e-6), name="uses all of delta")
    with pytest.raises(BudgetError, match="larger than what remains"):
        ledger.debit(ApproxDP(0.25, 1e-9), name="no delta left")
    ledger.debit(PureDP(0.75), name="pure still fits")
    assert ledger.remaining.is_zero
    with pytest.raises(BudgetError):
        ledger.debit(PureDP(0.001), name="no epsilon left")


def test_events_and_notions(place):
    ledger = Ledger(ZCDP(2), **place)
    ledger.debit(GaussianEvent(2**16, 8, 3), name="gaussian")
    ledger.debit(PureDP(0.5), name="pure")
    ledger.debit(ComposedEvent((LaplaceEvent(128, 8, 3), LaplaceEvent(0, 8, 1))), name="laplace")
    ledger.debit(Cost.zero(ZCDP), name="free")
    assert ledger.spent.amounts[0] == Fraction(1, 2) + 2 * pure_to_zcdp_exact(0.5)
    with pytest.raises(BudgetError, match="ZCDP or PureDP"):
        ledger.debit(ApproxDP(0.1, 1e-6), name="x")
    with pytest.raises(BudgetError):
        ledger.debit(KNormEvent(0.1, 1e-9), name="x")
    for bad in (0.5, None, "ZCDP(1)"):
        with pytest.raises(BudgetError, match="must be a budget"):
            ledger.debit(bad, name="x")
    assert len(ledger.entries) == 4


def test_other_notions_get_advice():
    with pytest.raises(BudgetError, match="open a ledger with ZCDP or ApproxDP"):
        Ledger(PureDP(1)).debit(ZCDP(0.1), name="x")
    with pytest.raises(BudgetError, match="from which the noise was calibrated"):
        Ledger(ApproxDP(1, 1e-6)).debit(GaussianEvent(1, 8, 1), name="x")
    ledger = Ledger(ApproxDP(1, 1e-6))
    ledger.debit(KNormEvent(0.5, 1e-7), name="k-norm")
    assert ledger.spent == Cost(ApproxDP, (Fraction(1, 2), Fraction(1e-7)))


def test_relations_never_mix(place):
    ledger = Ledger(ZCDP(1), **place)
    with pytest.raises(BudgetError, match="REPLACE_ONE"):
        ledger.debit(GaussianEvent(1, 8, 1, Neighbors.ADD_REMOVE_ONE), name="x")
    with pytest.raises(BudgetError, match="REPLACE_ONE"):
        ledger.debit(ZCDP(0.1), name="x", relation=Neighbors.ADD_REMOVE_ONE)
    ledger.debit(ZCDP(0.1), name="x", relation=Neighbors.REPLACE_ONE)
    other = Ledger(ZCDP(1), relation=Neighbors.ADD_REMOVE_ONE)
    other.debit(ZCDP(0.5), name="stated under the relation of the ledger")
    with pytest.raises(BudgetError):
        other.debit(GaussianEvent(1, 8, 1), name="x")


def test_with_closes_and_spending_stays_readable(place):
    ledger = Ledger(ZCDP(1), **place)

    def failing_fit():
        with ledger:
            ledger.debit(ZCDP(0.5), name="failed fit")
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        failing_fit()
    with pytest.raises(LedgerError, match="closed"):
        ledger.debit(ZCDP(0.5), name="after")
    assert ledger.spent == ZCDP(0.5).cost  # never refunded


def test_short_repr_and_no_copies(place):
    ledger = Ledger(ZCDP(1), **place)
    ledger.debit(ZCDP(0.25), name="x")
    assert repr(ledger) == "Ledger(total=ZCDP(rho=1.0), remaining=Cost(ZCDP, rho=0.75), entries=1)"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="share its path"):
            attempt(ledger)


@pytest.mark.parametrize("bad", ["", "x" * 201, "two\nlines", "\x00", 5, None, b"x"])
def test_names_are_checked_before_anything_is_charged(place, bad):
    ledger = Ledger(ZCDP(1), **place)
    with pytest.raises(InputError, match="printable"):
        ledger.debit(ZCDP(0.5), name=bad)
    assert ledger.spent.is_zero


def test_constructor_arguments_are_checked(tmp_path):
    for arguments in ({"total": 1.0}, {"total": ZCDP(1), "relation": "replace_one"}):
        with pytest.raises(BudgetError):
            Ledger(**arguments)
    for arguments in ({"label": "\n"}, {"timeout": -1}, {"timeout": float("nan")}, {"timeout": True}, {"timeout": "1"}):
        with pytest.raises(InputError):
            Ledger(ZCDP(1), path=tmp_path / "x", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_file_survives_and_must_match(path):
    assert reopen(path).spent == ZCDP(0.375).cost
    assert [e.name for e in Ledger.from_file(path).entries] == ["query 0", "query 1", "query 2"]
    assert Ledger.from_file(path).label == "set A"
    for total, label, extra in (
        (ZCDP(2), "set A", {}),
        (PureDP(1), "set A", {}),
        (ZCDP(1), "set B", {}),
        (ZCDP(1), None, {}),
        (ZCDP(1), "set A", {"relation": Neighbors.ADD_REMOVE_ONE}),
    ):
        with pytest.raises(LedgerError, match="made with another"):
            Ledger(total, path=path, label=label, **extra)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_two_objects_see_each_other(path):
    one, two = reopen(path), reopen(path)
    one.debit(ZCDP(0.5), name="one")
    with pytest.raises(BudgetError, match="remains"):
        two.debit(ZCDP(0.5), name="two")
    assert two.debit(ZCDP(0.125), name="two") == 5
    assert one.remaining.is_zero


LINE = 1024


def broken(name, data):
    lines = [data[k : k + LINE] for k in range(0, len(data), LINE)]
    return {
        "empty": b"",
        "torn": data[:-1],
        "torn in the middle": data[: -LINE // 2],
        "header only in part": data[:100],
        "doubled line": data + lines[-1],
        "doubled inside": b"".join([*lines[:2], lines[1], *lines[2:]]),
        "line lost": b"".join([lines[0], *lines[2:]]),
        "lines exchanged": b"".join([lines[0], lines[2], lines[1], lines[3]]),
        "header lost": b"".join(lines[1:]),
        "amount changed": data.replace(b'"rho":"1/8"', b'"rho":"1/9"', 1),
        "name changed": data.replace(b"query 1", b"query 7"),
        "padding changed": data[:-3] + b"x \n",
        "foreign text": b"hello\n",
        "foreign binary": bytes(range(256)) * 8,
        "trailing newline": data + b"\n",
        "zeros": data + bytes(LINE),
        "carriage returns": data.replace(b"\n", b"\r\n"),
    }[name]


BROKEN = [
    "empty", "torn", "torn in the middle", "header only in part", "doubled line", "doubled inside", "line lost",
    "lines exchanged", "header lost", "amount changed", "name changed", "padding changed", "foreign text",
    "foreign binary", "trailing newline", "zeros", "carriage returns",
]  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_and_left_alone(path, name):
    running = reopen(path)
    data = broken(name, path.read_bytes())
    path.write_bytes(data)
    with pytest.raises(LedgerError, match="ledger"):
        reopen(path)
    with pytest.raises(LedgerError):
        Ledger.from_file(path)
    if "lost" not in name and "exchanged" not in name and "changed" not in name and "inside" not in name:
        with pytest.raises(LedgerError):  # a process that has read the good file notices as well
            running.debit(ZCDP(0.125), name="x")
    assert path.read_bytes() == data


def test_a_running_ledger_notices_removed_and_replaced_files(path, tmp_path):
    running = reopen(path)
    data = path.read_bytes()
    path.write_bytes(data[:-LINE])
    with pytest.raises(LedgerError, match="shorter"):
        running.debit(ZCDP(0.125), name="x")
    other = tmp_path / "b"
    other.write_bytes(data)
    os.replace(other, path)
    with pytest.raises(LedgerError, match="replaced"):
        _ = running.spent
    path.unlink()
    with pytest.raises(LedgerError, match="cannot be opened"):
        running.debit(ZCDP(0.125), name="x")
    assert not path.exists()


def test_valid_lines_with_wrong_content_are_refused(tmp_path):
    from fastpubpriv.privacy.ledger_file import encode

    header = {
        "format": "fastpubpriv-ledger",
        "version": 1,
        "total": ZCDP(1).to_dict(),
        "label": None,
        "relation": "replace_one",
    }
    good = {"number": 1, "name": "x", "cost": ZCDP(0.5).cost.to_dict()}
    for record in (
        {**good, "number": 2},
        {**good, "cost": PureDP(0.5).cost.to_dict()},
        {**good, "cost": {"notion": "ZCDP", "rho": "-1/2"}},
        {**good, "cost": None},
        {**good, "name": ""},
        {**good, "cost": ZCDP(2).cost.to_dict()},
        {},
    ):
        file = tmp_path / "b.ledger"
        first, check = encode(header, "")
        file.write_bytes(first + encode(record, check)[0])
        with pytest.raises(LedgerError):
            Ledger(ZCDP(1), path=file)
    file.write_bytes(encode({**header, "version": 2}, "")[0])
    with pytest.raises(LedgerError, match="version"):
        Ledger(ZCDP(1), path=file)
    file.write_bytes(encode({"format": "fastpubpriv-ledger"}, "")[0])
    with pytest.raises(LedgerError, match="header"):
        Ledger.from_file(file)


def test_repair_moves_half_a_line_aside(path):
    data = path.read_bytes()
    assert Ledger.repair(path) == 0
    path.write_bytes(data + b'{"cost":{"notion"')
    with pytest.raises(LedgerError, match="repair"):
        reopen(path)
    assert Ledger.repair(path) == 17
    assert path.read_bytes() == data
    assert [p.read_bytes() for p in path.parent.glob("*.torn-*")] == [b'{"cost":{"notion"']
    assert reopen(path).debit(ZCDP(0.125), name="again") == 4
    path.write_bytes(broken("name changed", path.read_bytes()))
    with pytest.raises(LedgerError, match="cannot be repaired"):
        Ledger.repair(path)
    path.write_bytes(data[:100])
    with pytest.raises(LedgerError, match="header"):
        Ledger.repair(path)


def test_odd_places_are_refused(path, tmp_path):
    link, pipe, inside = tmp_path / "link", tmp_path / "pipe", path / "x.ledger"
    link.symlink_to(path)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    os.mkfifo(pipe)
    for place, why in (
        (link, "symbolic link"), (dangling, "symbolic link"), (pipe, "regular"), (tmp_path, "ledger"),
        (inside, "created"), (tmp_path / "missing" / "x", "created"),
    ):  # fmt: skip
        with pytest.raises(LedgerError, match=why):
            reopen(place)
    assert not (tmp_path / "nowhere").exists()
    assert reopen(path).spent == ZCDP(0.375).cost


def test_read_only_directory(tmp_path, monkeypatch):
    folder = tmp_path / "ro"
    folder.mkdir()
    if os.geteuid() == 0:  # permissions do not bind root: let the system call say what it would say
        real = os.open

        def refuse(name, flags, *rest, **more):
            if flags & os.O_CREAT:
                raise PermissionError(errno.EACCES, "Permission denied")
            return real(name, flags, *rest, **more)

        monkeypatch.setattr(os, "open", refuse)
    folder.chmod(0o500)
    with pytest.raises(LedgerError, match="cannot be created: Permission denied"):
        Ledger(ZCDP(1), path=folder / "a.ledger")
    assert list(folder.iterdir()) == []


def test_read_only_file_can_be_read_but_not_debited(path, monkeypatch):
    ledger, real = reopen(path), os.open

    def refuse(name, flags, *rest, **more):
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(name, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert ledger.spent == ZCDP(0.375).cost
    with pytest.raises(LedgerError, match="cannot be opened: Permission denied"):
        ledger.debit(ZCDP(0.125), name="x")


def test_locked_by_another_process(path):
    with open(path, "rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        ledger = None
        started = time.monotonic()
        with pytest.raises(LedgerError, match="locked by another process"):
            ledger = Ledger(ZCDP(1), path=path, label="set A", timeout=0.05)
        assert 0.04 < time.monotonic() - started < 2
        assert ledger is None
    assert reopen(path).debit(ZCDP(0.125), name="x") == 4


def test_short_write_and_full_disk_charge_nothing(path, monkeypatch):
    ledger, real, before = reopen(path), os.write, path.read_bytes()

    def half(fd, data):
        return real(fd, data[: len(data) // 2])

    def full(fd, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupted(fd, data):
        real(fd, data[:10])
        raise KeyboardInterrupt

    for broken_write, error in ((half, LedgerError), (full, LedgerError), (interrupted, KeyboardInterrupt)):
        monkeypatch.setattr(os, "write", broken_write)
        with pytest.raises(error):
            ledger.debit(ZCDP(0.125), name="x")
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert ledger.spent == ZCDP(0.375).cost
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(LedgerError, match="disk is full"):
            Ledger(ZCDP(1), path=path.with_name("new.ledger"))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert ledger.debit(ZCDP(0.125), name="x") == 4


def test_failed_flush_counts_as_spent(path, monkeypatch):
    ledger = reopen(path)

    def fail(fd):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(LedgerError, match="nothing may be released"):
            ledger.debit(ZCDP(0.125), name="x")
    assert ledger.spent == ZCDP(0.5).cost
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(LedgerError, match="directory cannot be flushed"):
            reopen(path)


def test_flushed_before_debit_returns(path, monkeypatch):
    ledger, calls, real_write, real_sync = reopen(path), [], os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda fd, data: (calls.append("write"), real_write(fd, data))[1])
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), real_sync(fd))[1])
    ledger.debit(ZCDP(0.125), name="x")
    assert calls == ["write", "fsync"]
    Ledger(ZCDP(1), path=path.with_name("new.ledger"))
    assert calls == ["write", "fsync", "write", "fsync", "fsync"]  # the file, then its directory


def limited_child(path, limit, results):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    ledger = reopen(path)
    done = 0
    try:
        while True:
            ledger.debit(ZCDP(2.0**-20), name="small")
            done += 1
    except LedgerError as error:
        results.put((done, str(error)))


def test_file_size_limit(path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=limited_child, args=(path, 10 * LINE + 300, results))
    child.start()
    done, message = results.get(timeout=30)
    child.join()
    assert done == 6
    assert "nothing was charged" in message
    assert reopen(path).spent == Cost(ZCDP, (Fraction(3, 8) + 6 * Fraction(1, 2**20),))


def test_leftovers_of_a_crashed_creator_are_removed(path):
    leftover = path.with_name(f".{path.name}.{'0' * 16}.new")
    leftover.write_bytes(b"half")
    reopen(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_sixteen_threads(place, tmp_path):
    per_thread = 200 if not place else 25  # each debit in a file waits for the disk
    ledger = Ledger(ZCDP(1), **place)
    part = ZCDP(1) / (16 * per_thread + 1)

    def work():
        for _ in range(per_thread):
            ledger.debit(part, name="x")

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.remaining == part.cost
    assert [e.number for e in ledger.entries] == list(range(1, 16 * per_thread + 1))


def test_threads_never_overdraw():
    ledger, refused = Ledger(ZCDP(1)), []

    def work():
        for _ in range(200):
            try:
                ledger.debit(ZCDP(1) / 1000, name="x")
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.remaining.is_zero
    assert len(refused) == 16 * 200 - 1000


def debiting_child(path, count, results):
    ledger, done = reopen(path), 0
    for _ in range(count):
        try:
            ledger.debit(ZCDP(Fraction(1, 160)), name="child")
            done += 1
        except BudgetError:
            break
    results.put(done)


def test_two_processes_share_one_file(path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=debiting_child, args=(path, 80, results)) for _ in range(2)]
    for child in children:
        child.start()
    done = sum(results.get(timeout=60) for _ in children)
    for child in children:
        child.join()
    assert done == 100  # 5/8 were left
    assert reopen(path).remaining.is_zero


def forked(work):
    """Run work() in a forked child; its exit code is 0 when work returns true."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_memory_ledger_refuses_a_forked_copy_and_a_file_ledger_works_there(path):
    memory, file = Ledger(ZCDP(1)), reopen(path)

    def memory_refuses():
        try:
            memory.debit(ZCDP(0.5), name="x")
        except LedgerError:
            return True

    assert forked(memory_refuses) == 0
    with file._lock:  # as if another thread held it at the time of the fork
        assert forked(lambda: file.debit(ZCDP(0.125), name="child") == 4) == 0
    assert file.spent == ZCDP(0.5).cost


KILLED = """
import sys
from fastpubpriv.privacy import Ledger, ZCDP
from fractions import Fraction
ledger = Ledger(ZCDP(1), path=sys.argv[1], label="set A")
print("ready", flush=True)
while True:
    ledger.debit(ZCDP(Fraction(1, 2**20)), name="x" * 150)
    sys.stdout.write("y\\n")
    sys.stdout.flush()
"""


def kill_children(path, times, seed):
    """Kill a debiting child `times` times; return debits that returned and debits in the file."""
    chance = random.Random(seed)
    acknowledged = 0
    for _ in range(times):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.03))
        child.send_signal(signal.SIGKILL)
        acknowledged += child.stdout.read().count(b"y\n")
        child.stdout.close()
        child.wait()
        reopen(path)  # parses every time
    return acknowledged, len(reopen(path).entries) - 3


def check_kills(path, times, seed):
    acknowledged, charged = kill_children(path, times, seed)
    assert 0 < acknowledged <= charged <= acknowledged + times
    assert reopen(path).spent == Cost(ZCDP, (Fraction(3, 8) + charged * Fraction(1, 2**20),))


def test_kill_loses_no_acknowledged_debit(path):
    check_kills(path, 20, 7)


@pytest.mark.audit
def test_kill_audit(path):
    check_kills(path, 200, 8)


def test_planted_bug_write_after_acknowledging_is_caught(path):
    # A ledger that acknowledges before it writes must fail the comparison that check_kills makes.
    acknowledged = 0
    ledger = reopen(path)
    for _ in range(3):
        acknowledged += 1
        if acknowledged < 3:  # the crash comes between acknowledging and writing
            ledger.debit(ZCDP(0.125), name="x")
    charged = len(reopen(path).entries) - 3
    assert not acknowledged <= charged
