"""Ledger files: a typed error for every broken file and failing system call, nothing charged."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import resource
from dataclasses import replace
from fractions import Fraction

import pytest
from clocks import PATIENCE, ten_times
from helpers.errors import raises
from ledger_cases import reopen

from fastpubpriv.errors import LedgerError
from fastpubpriv.privacy import ZCDP, Cost, Ledger, ledger_file
from fastpubpriv.privacy import ledger as ledger_module

LINE = 1024


def failing(number):
    """A system call that ends in this error."""

    def fail(*arguments):
        raise OSError(number, os.strerror(number))

    return fail


# What is done to the four lines of a good file.
BROKEN = {
    "empty": lambda data, lines: b"",
    "torn": lambda data, lines: data[:-1],
    "torn in the middle": lambda data, lines: data[: -LINE // 2],
    "header only in part": lambda data, lines: data[:100],
    "doubled line": lambda data, lines: data + lines[-1],
    "doubled inside": lambda data, lines: b"".join([*lines[:2], lines[1], *lines[2:]]),
    "line lost": lambda data, lines: b"".join([lines[0], *lines[2:]]),
    "lines exchanged": lambda data, lines: b"".join([lines[0], lines[2], lines[1], lines[3]]),
    "header lost": lambda data, lines: b"".join(lines[1:]),
    "amount changed": lambda data, lines: data.replace(b'"rho":"1/8"', b'"rho":"1/9"', 1),
    "name changed": lambda data, lines: data.replace(b"query 1", b"query 7"),
    "padding changed": lambda data, lines: data[:-3] + b"x \n",
    "foreign text": lambda data, lines: b"hello\n",
    "foreign binary": lambda data, lines: bytes(range(256)) * 8,
    "trailing newline": lambda data, lines: data + b"\n",
    "zeros": lambda data, lines: data + bytes(LINE),
    "carriage returns": lambda data, lines: data.replace(b"\n", b"\r\n"),
}


def broken(name, data):
    return BROKEN[name](data, [data[k : k + LINE] for k in range(0, len(data), LINE)])


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_and_left_alone(path, name):
    running = reopen(path)
    data = broken(name, path.read_bytes())
    path.write_bytes(data)
    raises(LedgerError, "ledger", reopen, path)
    raises(LedgerError, None, Ledger.from_file, path)
    if (
        "lost" not in name
        and "exchanged" not in name
        and "changed" not in name
        and "inside" not in name
    ):
        # who has read the good file notices as well
        raises(LedgerError, None, running.debit, ZCDP(0.125), name="x")
    assert path.read_bytes() == data


def test_a_running_ledger_notices_removed_and_replaced_files(path, tmp_path):
    running = reopen(path)
    data = path.read_bytes()
    path.write_bytes(data[:-LINE])
    raises(LedgerError, "shorter", running.debit, ZCDP(0.125), name="x")
    other = tmp_path / "b"
    other.write_bytes(data)
    os.replace(other, path)
    raises(LedgerError, "replaced", lambda: running.spent)
    path.unlink()
    raises(LedgerError, "does not exist", running.debit, ZCDP(0.125), name="x")
    assert not path.exists()


def test_repair_moves_half_a_line_aside(path):
    data = path.read_bytes()
    assert Ledger.repair(path) == 0
    path.write_bytes(data + b'{"cost":{"notion"')
    raises(LedgerError, "repair", reopen, path)
    assert Ledger.repair(path) == 17
    assert path.read_bytes() == data
    assert [p.read_bytes() for p in path.parent.glob("*.torn-*")] == [b'{"cost":{"notion"']
    assert reopen(path).debit(ZCDP(0.125), name="again") == 4
    path.write_bytes(broken("name changed", path.read_bytes()))
    raises(LedgerError, "cannot be repaired", Ledger.repair, path)
    path.write_bytes(data[:100])
    raises(LedgerError, "header", Ledger.repair, path)


def test_odd_places_are_refused(path, tmp_path):
    link = tmp_path / "link"
    pipe = tmp_path / "pipe"
    inside = path / "x.ledger"
    link.symlink_to(path)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    os.mkfifo(pipe)
    for place, why in (
        (link, "symbolic link"),
        (dangling, "symbolic link"),
        (pipe, "regular"),
        (tmp_path, "ledger"),
        (inside, "created"),
        (tmp_path / "missing" / "x", "created"),
    ):
        raises(LedgerError, why, reopen, place)
    assert not (tmp_path / "nowhere").exists()
    assert reopen(path).spent == ZCDP(0.375).cost


def test_locked_by_another_process(path):
    with open(path, "rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with ten_times(0.2, least=0.04):
            raises(LedgerError, "locked by another process", reopen, path, timeout=0.05)
    assert reopen(path).debit(ZCDP(0.125), name="x") == 4


def test_short_write_and_full_disk_charge_nothing(path, monkeypatch):
    ledger = reopen(path)
    real = os.write
    before = path.read_bytes()

    def half(fd, data):
        return real(fd, data[: len(data) // 2])

    def interrupted(fd, data):
        real(fd, data[:10])
        raise KeyboardInterrupt

    full = failing(errno.ENOSPC)
    for broken_write, error in (
        (half, LedgerError),
        (full, LedgerError),
        (interrupted, KeyboardInterrupt),
    ):
        monkeypatch.setattr(os, "write", broken_write)
        raises(error, None, ledger.debit, ZCDP(0.125), name="x")
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert ledger.spent == ZCDP(0.375).cost
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        raises(LedgerError, "disk is full", Ledger, ZCDP(1), path=path.with_name("new.ledger"))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert ledger.debit(ZCDP(0.125), name="x") == 4


def test_a_failed_write_never_lengthens_a_file_that_was_cut(path, monkeypatch):
    ledger = reopen(path)
    data = path.read_bytes()

    def cut_and_full(fd, line):
        path.write_bytes(data[:LINE])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", cut_and_full)
        raises(LedgerError, "nothing was charged", ledger.debit, ZCDP(0.125), name="x")
    assert path.read_bytes() == data[:LINE]


def test_a_disk_that_cannot_be_read(path, monkeypatch):
    ledger = reopen(path)
    before = path.read_bytes()

    monkeypatch.setattr(os, "pread", failing(errno.EIO))
    for use in (
        reopen,
        Ledger.from_file,
        Ledger.repair,
        lambda path: ledger.debit(ZCDP(0.125), name="x"),
    ):
        raises(LedgerError, "cannot be read: Input/output error", use, path)
    assert path.read_bytes() == before


def test_a_file_that_is_cut_while_it_is_read(path, monkeypatch):
    real = os.pread
    monkeypatch.setattr(
        os, "pread", lambda fd, size, offset: real(fd, size, offset) if size == 256 else b""
    )
    raises(LedgerError, "shorter while it was read", Ledger.from_file, path)


def test_many_lines_are_read_in_pieces(path, monkeypatch):
    ledger = reopen(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        for _ in range(1500):  # more than one piece
            ledger.debit(ZCDP(2.0**-20), name="small")
    assert len(reopen(path).entries) == 1503
    assert reopen(path).spent == ledger.spent
    with open(path, "ab") as file:
        file.write(b" " * (1 << 17))
    for use in (reopen, Ledger.repair):
        raises(LedgerError, "a line has no end", use, path)


def test_failed_flush_counts_as_spent(path, monkeypatch):
    ledger = reopen(path)
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    raises(LedgerError, "nothing may be released", ledger.debit, ZCDP(0.125), name="x")
    assert ledger.spent == ZCDP(0.5).cost
    raises(LedgerError, "directory cannot be flushed", reopen, path)


def test_flushed_before_debit_returns(path, monkeypatch):
    ledger = reopen(path)
    calls = []
    real_write = os.write
    real_sync = os.fsync
    monkeypatch.setattr(
        os, "write", lambda fd, data: (calls.append("write"), real_write(fd, data))[1]
    )
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
    done, message = results.get(timeout=PATIENCE)
    child.join()
    assert done == 6
    assert "nothing was charged" in message
    assert reopen(path).spent == Cost(ZCDP, (Fraction(3, 8) + 6 * Fraction(1, 2**20),))


def test_leftovers_of_a_crashed_creator_are_removed(path):
    path.with_name(f".{path.name}.{'0' * 16}.new").write_bytes(b"half")
    reopen(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# ---- A ledger file that goes back in time under a live process: noticed before anything more is released ------------

HALF = ZCDP(0.5)


@pytest.fixture
def fresh(tmp_path):
    """A ledger of total 1 without debits."""
    file = tmp_path / "a.ledger"
    reopen(file)
    return file


def put_back(fresh, data):
    """Overwrite in place, as `cp backup a.ledger` does: the file stays the same, its content does not."""
    with open(fresh, "r+b") as file:
        file.truncate(0)
        file.write(data)


def released_after_rollback(fresh, name="other"):
    """Debits of 1/2 that return in a total of 1, when the first of them is rolled back and its place taken by another."""
    backup = fresh.read_bytes()
    live = reopen(fresh)
    returned = [live.debit(HALF, name="mine")]
    put_back(fresh, backup)
    returned.append(reopen(fresh).debit(HALF, name=name))
    assert fresh.stat().st_size == len(backup) + LINE  # as long as the live process left it
    with contextlib.suppress(LedgerError):
        returned.append(live.debit(HALF, name="mine again"))
    return len(returned)


@pytest.fixture
def stopped_clock(monkeypatch):
    """Two debits in one second: their lines would differ in nothing but the nonce."""

    class Stopped(ledger_module.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(ledger_module, "datetime", Stopped)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("name", ["other", "mine"])
def test_a_rollback_to_the_same_length_is_noticed(fresh, name):
    assert released_after_rollback(fresh, name) == 2


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("fault", ["the last line is not read again", "lines may be alike"])
def test_planted_faults_release_one_and_a_half_and_are_caught(fresh, monkeypatch, fault):
    if fault == "lines may be alike":
        monkeypatch.setattr(ledger_file.secrets, "token_hex", lambda count: "00" * count)
    else:
        check = ledger_file.LedgerFile._check_unchanged
        monkeypatch.setattr(
            ledger_file.LedgerFile,
            "_check_unchanged",
            lambda self, file, position: check(self, file, replace(position, last=b"")),
        )
    assert released_after_rollback(fresh, "mine") == 3


def test_a_rollback_that_has_grown_past_is_noticed(fresh):
    backup = fresh.read_bytes()
    live = reopen(fresh)
    live.debit(ZCDP(0.25), name="mine")
    put_back(fresh, backup)
    other = reopen(fresh)
    for _ in range(3):
        other.debit(ZCDP(0.25), name="other")
    for use in (lambda: live.debit(ZCDP(0.25), name="x"), lambda: live.spent, lambda: live.entries):
        raises(LedgerError, "rolled back", use)
    assert live.total == ZCDP(1)
    assert "remaining=Cost(ZCDP, rho=0.75)" in repr(live)  # what this process knows


def test_readers_that_never_debited_notice_as_well(fresh):
    backup = fresh.read_bytes()
    reader = reopen(fresh)
    reopen(fresh).debit(HALF, name="mine")
    assert reader.spent == HALF.cost
    put_back(fresh, backup)
    reopen(fresh).debit(ZCDP(0.25), name="other")
    raises(LedgerError, "rolled back", lambda: reader.spent)


@pytest.mark.parametrize("call", ["flock", "write", "fsync"])
@pytest.mark.parametrize("change", ["rolled back", "exchanged"])
def test_a_file_that_changes_during_a_debit_is_noticed(fresh, monkeypatch, change, call):
    """Programs that copy files heed no locks: the line must be where it belongs when the debit returns."""
    module = fcntl if call == "flock" else os
    reopen(fresh).debit(ZCDP(0.25), name="first")
    live = reopen(fresh)
    data = fresh.read_bytes()
    backup = fresh.with_name("backup")
    real = getattr(module, call)
    backup.write_bytes(data)

    def late(*arguments):
        monkeypatch.undo()
        put_back(fresh, data[:LINE]) if change == "rolled back" else os.replace(backup, fresh)
        return real(*arguments)

    monkeypatch.setattr(module, call, late)
    for _ in range(2):
        raises(
            LedgerError, "replaced" if change == "exchanged" else None, live.debit, HALF, name="x"
        )
    assert change == "rolled back" or len(reopen(fresh).entries) == 1
