"""Checkpoints: a run goes on after a crash, no step is asked twice, and what cannot be trusted is refused before the debit."""

import errno
import json
import os
import resource
import signal
import socket
from unittest import mock

import numpy as np
import pytest
from clocks import PATIENCE
from helpers.errors import raises
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv import ApproxDP, BudgetError, InputError, train
from fastpubpriv.training import SemiDP
from fastpubpriv.training.gradient import checkpoint
from fastpubpriv.training.gradient.checkpoint import Checkpoint

BUDGET = ApproxDP(1, 1e-6)
METHODS = {
    "full": SemiDP(steps=12),
    "poisson": SemiDP(sampling="poisson", batch_rows=300, steps=20),
    "one pass": SemiDP(sampling="one_pass", batch_rows=300),
}


def table():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6200, 3))
    y = x @ [1.0, -0.2, 5.0] + rng.normal(size=6200)
    return {"x_priv": x[200:], "y_priv": y[200:], "x_pub": x[:200].copy(), "y_pub": y[:200].copy()}


GIVEN = {**table(), "loss": "squared", "budget": BUDGET}


def fitted(path, method=METHODS["full"], **options):
    return seeded(train, **GIVEN, method=method.with_(checkpoint=path), **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def ledger():
    """With room for one debit."""
    return fpp.Ledger(BUDGET)


def rewritten(path, lines):
    """The file with these lines, as large as it was."""
    path.write_bytes(b"".join(line + b"\n" for line in lines).ljust(path.stat().st_size, b"\0"))


def lines_of(path):
    return path.read_bytes().rstrip(b"\0").splitlines()


BEGIN = Checkpoint.begin


def crash(self, step):
    """`Checkpoint.begin`, until the eighth step."""
    if step == 7:
        raise KeyboardInterrupt
    BEGIN(self, step)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_goes_on_after_a_crash(path, ledger, name):
    method = METHODS[name]
    whole = seeded(train, **GIVEN, method=method)
    with mock.patch.object(Checkpoint, "begin", crash), pytest.raises(KeyboardInterrupt):
        fitted(path, method, ledger=ledger)
    resumed = fitted(path, method, ledger=ledger)  # the ledger has no room for a second debit
    np.testing.assert_array_equal(resumed.coefficients, whole.coefficients)
    assert resumed.releases == whole.releases
    assert resumed.lost_steps == 0
    # Once more: everything is replayed.
    np.testing.assert_array_equal(fitted(path, method).coefficients, whole.coefficients)


def test_a_step_that_had_begun_is_never_repeated(path):
    whole = fitted(path)
    rewritten(path, [*lines_of(path)[:12], b'{"step": 5, "val'])
    path.write_bytes(path.read_bytes().replace(b'"val\n', b'"val\0'))
    resumed = fitted(path)
    assert resumed.lost_steps == 1
    assert len(resumed.releases) == len(whole.releases) == 12
    assert not np.array_equal(resumed.coefficients, whole.coefficients)
    assert "crash" in resumed.summary()
    assert fitted(path).lost_steps == 1


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_noise_from_a_seed_is_never_passed_off_as_private(path, ledger):
    """The released values of a seeded run, in a result that says private=True, would have cost nothing."""
    given = {**GIVEN, "method": SemiDP(steps=3, checkpoint=path)}
    assert not train(**given, random_state=1).private
    raises(InputError, "from a seed", train, **given, ledger=ledger)
    assert not ledger.entries
    assert not train(**given, random_state=1, ledger=ledger).private
    path.unlink()
    assert train(**given, ledger=ledger).private
    assert len(ledger.entries) == 1
    raises(InputError, "private noise", train, **given, random_state=1)
    assert train(**given).private


# ---- Files that are refused ----------------------------------------------------------------------------------------
def refused(path, ledger, words):
    """Soon, with two gigabytes of memory, and without a debit."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used() + (1 << 31), before[1]))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        raises(InputError, words, fitted, path, ledger=ledger)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert not ledger.entries


def used():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", [
    make_pipe, make_socket, lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/full"),
    lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path.with_name("elsewhere")),
], ids=["pipe", "socket", "folder", "link to a device", "link to zeros", "link to nothing"])  # fmt: skip
def test_what_is_no_regular_file_is_refused(path, ledger, make):
    make(path)
    refused(path, ledger, "not a regular file")
    assert not path.with_name("elsewhere").exists()


def test_a_file_that_was_cut_is_refused_or_paid_for(path, ledger):
    """Whole lines off the end as well: their steps would be asked again, and were released."""
    fitted(path)
    content = path.read_bytes()
    written = len(content.rstrip(b"\0"))
    ends = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    for size in (1, 50, *ends, *(end - 3 for end in ends), written, len(content) - 1):
        path.write_bytes(content[:size])
        refused(path, ledger, "was cut|is not a checkpoint")
    path.write_bytes(content + b"\0")
    refused(path, ledger, "was cut")
    path.write_bytes(b"")
    fitted(path, ledger=ledger)
    assert len(ledger.entries) == 1


def test_other_files_are_refused(path, ledger):
    for content in (b"{}\n", b"hello\n", b"hello", b"[" * 100_000 + b"\n", b'{"kind": 1e400}\n', b"\0" * 100, b"1\n"):
        path.write_bytes(content)
        refused(path, ledger, "is not a checkpoint")
        assert path.read_bytes() == content
    path.write_bytes(b'{"kind": "fastpubpriv checkpoint 1", "digest": ""}\n')
    refused(path, ledger, "another version")
    path.unlink()
    fitted(path, SemiDP(steps=3))
    refused(path, ledger, "other data, settings")
    os.truncate(path, 1 << 42)  # no file of this call is so large
    refused(path, ledger, "other data, settings")
    path.unlink()
    fitted(path)
    os.truncate(path, 1 << 42)
    refused(path, ledger, "was cut")
    refused(path.with_name("no") / "run", ledger, "cannot be opened")


@pytest.mark.parametrize("line", [
    b"[" * 100, b"{" * 100, b'{"begun": 1e400}', b'{"begun": NaN}', b'{"begun": 3.0}', b'{"begun": true}', b'{"begun": 5}',
    b'{"begun": 2}', b'{"begun": -1}', b'{"begun": "3"}', b'{"begun": null}', b'{"step": 1e400, "value": ""}', b"[1]", b"3",
    b'"begun"', b"null", b"{}", b'{"step": 2, "value": ""}', b'{"step": 2, "value": 1}', b'{"step": 2, "value": "!"}',
    b'{"step": 2, "value": "\xff"}', b'{"step": 2}', b'{"step": 3, "value": "AAAA"}', b"\0\0\0",
], ids=str)  # fmt: skip
def test_damaged_lines_are_refused(path, ledger, line):
    fitted(path)
    lines = lines_of(path)
    rewritten(path, [*lines[:6], line, *lines[7:9]])  # in the place of the value of the third step
    refused(path, ledger, "is damaged")
    rewritten(path, [*lines[:6], line])
    refused(path, ledger, "is damaged")


def test_deep_brackets_and_lines_out_of_order_are_refused(path, ledger):
    method = SemiDP(steps=2000, step_size=0.01, priv_weight=0.5)
    fitted(path, method)
    lines = lines_of(path)
    for changed in ([lines[0], b"[" * 100_000], [lines[0], *lines[3:]], [*lines[:3], lines[2]], [*lines, lines[-1]]):
        rewritten(path, changed)
        raises(InputError, "is damaged", fitted, path, method, ledger=ledger)
    assert not ledger.entries


# ---- Disks ---------------------------------------------------------------------------------------------------------
def test_a_full_disk_is_found_before_the_debit(path, ledger):
    full = OSError(errno.ENOSPC, "full")
    with mock.patch.object(checkpoint.os, "posix_fallocate", side_effect=full):
        refused(path, ledger, r"No space left on device.*nothing was spent")
    assert path.stat().st_size == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        refused(path, ledger, r"File too large.*nothing was spent")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size == 0
    fitted(path, ledger=ledger)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
@pytest.mark.parametrize("after", range(6))
def test_a_disk_that_fails_later_says_what_was_paid(path, ledger, call, after):
    honest, calls = getattr(os, call), []

    def failing(*given):
        calls.append(given)
        if len(calls) > after:
            raise OSError(errno.EIO, "broken")
        return honest(*given)

    with mock.patch.object(checkpoint.os, call, failing), pytest.raises(InputError, match=r"error.*was paid for"):
        fitted(path, ledger=ledger)
    assert len(ledger.entries) == 1
    if (call, after) == ("pwrite", 0):  # nothing was written: the next call begins anew, and pays
        raises(BudgetError, None, fitted, path, ledger=ledger)
        return
    resumed = fitted(path, ledger=ledger)
    assert len(ledger.entries) == 1
    assert resumed.lost_steps <= 1


def test_a_file_of_a_call_that_is_refused_holds_nothing(path):
    raises(BudgetError, None, fitted, path, ledger=fpp.Ledger(ApproxDP(0.5, 1e-6)))
    assert path.stat().st_size == 0


def test_the_file_has_room_for_all_steps(path):
    for method in METHODS.values():
        path.unlink(missing_ok=True)
        fitted(path, method)
        assert path.stat().st_size == json.loads(lines_of(path)[0])["bytes"]
        assert len(path.read_bytes().rstrip(b"\0")) < path.stat().st_size
