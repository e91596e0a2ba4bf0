"""A ledger file that goes back in time under a live process: noticed before anything more is released."""

import contextlib
import fcntl
import os
from dataclasses import replace

import pytest
from helpers.errors import raises
from ledger_cases import reopen

from fastpubpriv.errors import LedgerError
from fastpubpriv.privacy import ZCDP, ledger_file
from fastpubpriv.privacy import ledger as ledger_module

HALF, LINE = ZCDP(0.5), 1024


@pytest.fixture
def path(tmp_path):
    """A ledger of total 1 without debits."""
    file = tmp_path / "a.ledger"
    reopen(file)
    return file


def put_back(path, data):
    """Overwrite in place, as `cp backup a.ledger` does: the file stays the same, its content does not."""
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(data)


def released_after_rollback(path, name="other"):
    """Debits of 1/2 that return in a total of 1, when the first of them is rolled back and its place taken by another."""
    backup, live = path.read_bytes(), reopen(path)
    returned = [live.debit(HALF, name="mine")]
    put_back(path, backup)
    returned.append(reopen(path).debit(HALF, name=name))
    assert path.stat().st_size == len(backup) + LINE  # as long as the live process left it
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
def test_a_rollback_to_the_same_length_is_noticed(path, name):
    assert released_after_rollback(path, name) == 2


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("fault", ["the last line is not read again", "lines may be alike"])
def test_planted_faults_release_one_and_a_half_and_are_caught(path, monkeypatch, fault):
    if fault == "lines may be alike":
        monkeypatch.setattr(ledger_file.secrets, "token_hex", lambda count: "00" * count)
    else:
        check = ledger_file.LedgerFile._check_unchanged
        monkeypatch.setattr(
            ledger_file.LedgerFile,
            "_check_unchanged",
            lambda self, file, position: check(self, file, replace(position, last=b"")),
        )
    assert released_after_rollback(path, "mine") == 3


def test_a_rollback_that_has_grown_past_is_noticed(path):
    backup, live = path.read_bytes(), reopen(path)
    live.debit(ZCDP(0.25), name="mine")
    put_back(path, backup)
    other = reopen(path)
    for _ in range(3):
        other.debit(ZCDP(0.25), name="other")
    for use in (lambda: live.debit(ZCDP(0.25), name="x"), lambda: live.spent, lambda: live.entries):
        raises(LedgerError, "rolled back", use)
    assert live.total == ZCDP(1)
    assert "remaining=Cost(ZCDP, rho=0.75)" in repr(live)  # what this process knows


def test_readers_that_never_debited_notice_as_well(path):
    backup, reader = path.read_bytes(), reopen(path)
    reopen(path).debit(HALF, name="mine")
    assert reader.spent == HALF.cost
    put_back(path, backup)
    reopen(path).debit(ZCDP(0.25), name="other")
    raises(LedgerError, "rolled back", lambda: reader.spent)


def test_a_truncation_and_a_lost_header_are_noticed(path):
    reopen(path).debit(HALF, name="first")
    live, data = reopen(path), path.read_bytes()
    for shorter in (data[:-LINE], data[:LINE], b""):
        put_back(path, shorter)
        raises(LedgerError, None, live.debit, HALF, name="x")
        assert path.read_bytes() == shorter
    put_back(path, data)
    assert live.debit(HALF, name="back again") == 2


@pytest.mark.parametrize("call", ["flock", "write", "fsync"])
@pytest.mark.parametrize("change", ["rolled back", "exchanged"])
def test_a_file_that_changes_during_a_debit_is_noticed(path, monkeypatch, change, call):
    """Programs that copy files heed no locks: the line must be where it belongs when the debit returns."""
    module = fcntl if call == "flock" else os
    reopen(path).debit(ZCDP(0.25), name="first")
    live, data, backup, real = reopen(path), path.read_bytes(), path.with_name("backup"), getattr(module, call)
    backup.write_bytes(data)

    def late(*arguments):
        monkeypatch.undo()
        put_back(path, data[:LINE]) if change == "rolled back" else os.replace(backup, path)
        return real(*arguments)

    monkeypatch.setattr(module, call, late)
    for _ in range(2):
        raises(LedgerError, "replaced" if change == "exchanged" else None, live.debit, HALF, name="x")
    assert change == "rolled back" or len(reopen(path).entries) == 1
