"""Ledger files made by hand, for the fuzz tests: every check right, every content wrong."""

import hashlib
import json
import os
import signal

from clocks import PATIENCE

from fastpubpriv.errors import BudgetError, LedgerError
from fastpubpriv.privacy import ZCDP, Ledger

UNIT = 1024
HEADER = {
    "format": "fastpubpriv-ledger",
    "version": 1,
    "label": "set A",
    "relation": "replace_one",
    "total": ZCDP(1).to_dict(),
}
DEBIT = {
    "number": 1,
    "name": "x",
    "cost": ZCDP(0.5).cost.to_dict(),
    "utc": "2026-01-01T00:00:00+00:00",
    "nonce": "00",
}


def as_body(record):
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def forge(*bodies):
    """A file whose lines have these texts (any text that ends in a brace) and checks that follow from each other."""
    data = b""
    check = ""
    for body in bodies:
        raw = body.encode("utf-8", "surrogatepass")
        check = hashlib.sha256(check.encode() + raw).hexdigest()
        line = raw[:-1] + f',"check":"{check}"}}'.encode()
        data += line.ljust(-(-(len(line) + 1) // UNIT) * UNIT - 1) + b"\n"
    return data


def forged_records(*records):
    return forge(*map(as_body, records))


def check_contract(data, folder):
    """A file of these bytes is read whole or refused by LedgerError, and never changed but by a debit or a repair.

    Returns whether it was read.
    """
    path = folder / "a.ledger"
    path.write_bytes(data)
    try:
        try:
            ledger = Ledger.from_file(path)
        except LedgerError:
            assert path.read_bytes() == data
            check_repair(path, data)
            return False
        assert path.read_bytes() == data
        entries = ledger.entries
        assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
        assert sum((entry.cost for entry in entries), ledger.remaining) == ledger.total.cost
        assert (
            Ledger(ledger.total, path=path, label=ledger.label, relation=ledger.relation).spent
            == ledger.spent
        )
        try:
            assert ledger.debit(ledger.remaining, name="the rest") == len(entries) + 1
        except BudgetError:  # amounts whose denominators have nothing in common
            assert path.read_bytes() == data
        else:
            assert path.read_bytes().startswith(data)
            assert Ledger.from_file(path).remaining.is_zero
        assert [p.name for p in folder.iterdir()] == [path.name]
        return True
    finally:
        for file in folder.iterdir():
            file.unlink()


def check_repair(path, data):
    """A repair moves bytes from the end of the file beside it, or refuses and leaves the file as it is."""
    try:
        moved = Ledger.repair(path)
    except LedgerError:
        assert path.read_bytes() == data
        assert [p.name for p in path.parent.iterdir()] == [path.name]
        return
    torn = b"".join(p.read_bytes() for p in path.parent.glob("*.torn-*"))
    assert path.read_bytes() + torn == data
    assert len(torn) == moved


NESTED = "[" * 3000 + "]" * 3000
# A small file of each kind that has been wrong or might be.
CASES = {
    "good-header": forged_records(HEADER),
    "good-one-debit": forged_records(HEADER, DEBIT),
    "good-full": forged_records(HEADER, DEBIT, {**DEBIT, "number": 2}),
    "good-no-label": forged_records({**HEADER, "label": None}),
    "good-unknown-field": forged_records(HEADER, {**DEBIT, "remark": [1, {"a": None}]}),
    "good-float-field-is-not-read": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "ZCDP", "rho": "1/2"}}
    ),
    "bad-nested-header": forge('{"format":"fastpubpriv-ledger","label":' + NESTED + "}"),
    "bad-nested-debit": forge(as_body(HEADER), '{"cost":' + NESTED + "}"),
    "bad-nested-objects": forge(as_body(HEADER), '{"a":' * 2000 + "1" + "}" * 2000),
    "bad-long-number": forge(
        as_body(HEADER), as_body(DEBIT).replace('"number":1', '"number":' + "1" * 5000)
    ),
    "bad-number-true": forged_records(HEADER, {**DEBIT, "number": True}),
    "bad-number-float": forged_records(HEADER, {**DEBIT, "number": 1.0}),
    "bad-number-text": forged_records(HEADER, {**DEBIT, "number": "1"}),
    "bad-number-skipped": forged_records(HEADER, {**DEBIT, "number": 2}),
    "bad-cost-list": forged_records(HEADER, {**DEBIT, "cost": [1]}),
    "bad-cost-text": forged_records(HEADER, {**DEBIT, "cost": "ZCDP"}),
    "bad-cost-notion-list": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": ["ZCDP"], "rho": "1/2"}}
    ),
    "bad-cost-of-another-notion": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "PureDP", "epsilon": "1/2"}}
    ),
    "bad-cost-negative": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "ZCDP", "rho": "-1/2"}}
    ),
    "bad-cost-over-zero": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "ZCDP", "rho": "1/0"}}
    ),
    "bad-cost-not-lowest": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "ZCDP", "rho": "2/4"}}
    ),
    "bad-cost-huge": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "ZCDP", "rho": "9" * 3900 + "/1"}}
    ),
    "bad-cost-above-total": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "ZCDP", "rho": "3/2"}}
    ),
    "bad-cost-arabic-digits": forged_records(
        HEADER, {**DEBIT, "cost": {"notion": "ZCDP", "rho": "\u0661/\u0662"}}
    ),
    "bad-name-empty": forged_records(HEADER, {**DEBIT, "name": ""}),
    "bad-name-half-a-character": forged_records(HEADER, {**DEBIT, "name": "\ud800"}),
    "bad-debit-empty": forge(as_body(HEADER), "{}"),
    "bad-debit-is-a-list": forge(as_body(HEADER), "[1}"),
    "bad-debit-not-ascii": forge(as_body(HEADER), as_body(DEBIT).replace('"x"', '"\u00e9"')),
    "bad-debit-utf-16": forge(as_body(HEADER), "\0".join(as_body(DEBIT))),
    "bad-header-no-total": forged_records({k: v for k, v in HEADER.items() if k != "total"}),
    "bad-header-total-list": forged_records({**HEADER, "total": [1]}),
    "bad-header-total-huge": forged_records(
        {**HEADER, "total": {"notion": "ZCDP", "rho": "9" * 3900 + "/1"}}
    ),
    "bad-header-total-zero": forged_records({**HEADER, "total": {"notion": "ZCDP", "rho": "0/1"}}),
    "bad-header-relation-list": forged_records({**HEADER, "relation": ["replace_one"]}),
    "bad-header-relation-null": forged_records({**HEADER, "relation": None}),
    "bad-header-label-number": forged_records({**HEADER, "label": 5}),
    "bad-header-version-true": forged_records({**HEADER, "version": True}),
    "bad-header-version-2": forged_records({**HEADER, "version": 2}),
    "bad-header-twice": forged_records(HEADER, HEADER),
    "bad-half-a-line": forged_records(HEADER, DEBIT)[:-300],
    "bad-zeros-at-the-end": forged_records(HEADER) + bytes(UNIT),
    "bad-half-a-header": forged_records(HEADER)[:-1],
    "bad-empty": b"",
}


def reopen(path, timeout=60.0):
    """The ledger of total 1 at a path."""
    return Ledger(ZCDP(1), path=path, label="set A", timeout=timeout)


def forked(work, *, unprivileged=False):
    """Run work() in a forked child; its exit code is 0 when work returns true. A child that hangs is killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(int(PATIENCE))
            if unprivileged and os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
