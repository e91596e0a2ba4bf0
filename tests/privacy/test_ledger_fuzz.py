"""Fuzzing of everything in `privacy/` that reads text: ledger files, and budgets from JSON. Long runs in `make audit`."""

import json
import os
from fractions import Fraction

import pytest
from helpers.errors import raises
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from ledger_cases import (
    CASES,
    DEBIT,
    HEADER,
    NESTED,
    UNIT,
    as_body,
    check_contract,
    forge,
    forged_records,
)

from fastpubpriv.errors import BudgetError, LedgerError
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, Cost, Ledger, PureDP, ledger_file


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: None)


ODD_TEXTS = st.sampled_from(
    [
        "",
        "1/2",
        "0/1",
        "1/0",
        "-1/2",
        "2/4",
        "1/2 ",
        "01/2",
        "1",
        "1e5/1",
        "nan",
        "\u0661/\u0662",
        "9" * 3999 + "/1",
        "1/" + "9" * 3999,
        "9" * 9000 + "/1",
        "ZCDP",
        "PureDP",
        "Budget",
        "replace_one",
        "x" * 201,
        "\n",
        "\ud800",
        "\0",
    ]
)
ODD_NUMBERS = st.sampled_from(
    [0, 1, 2, -1, True, 1.0, float("nan"), float("inf"), 1e308, 10**400, 2**63]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | ODD_TEXTS
    | ODD_NUMBERS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | ODD_TEXTS, inner, max_size=3)
    ),
)
AMOUNTS = st.sampled_from(
    [budget.to_dict() for budget in (ZCDP(1), ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(2.0**-20))]
).map(dict)


@st.composite
def damaged(draw, record):
    """A record in which a field or two, at any depth, are something else, missing or new."""
    record = json.loads(json.dumps(record))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(
            st.sampled_from(
                [record] + [value for value in record.values() if isinstance(value, dict)]
            )
        )
        key = draw(st.sampled_from([*place, "new"]))
        what = draw(st.sampled_from(["value", "value", "amount", "remove"]))
        if what == "remove":
            place.pop(key, None)
        else:
            place[key] = draw(VALUES if what == "value" else AMOUNTS)
    return as_body(record)


ODD_BODIES = st.sampled_from(
    [
        '{"a":' + NESTED + "}",
        '{"format":"fastpubpriv-ledger","total":' + NESTED + "}",
        '{"a":' * 900 + "1" + "}" * 900,
        "{}",
        "}",
        '{"number":1,"number":1}',
        '{"number":' + "9" * 5000 + "}",
        '{"a":1e999}',
        "[1}",
        '{"a":"\ud800"}',
        '{"a":"\\ud800"}',
    ]
)


@st.composite
def forged(draw):
    """A header and debits in order, of which at most one is damaged or something else altogether."""
    records = [HEADER] + [
        {**DEBIT, "number": k + 1, "cost": draw(st.sampled_from([ZCDP(0.25), ZCDP(0.5)])).to_dict()}
        for k in range(draw(st.integers(0, 3)))
    ]
    bodies = [as_body(record) for record in records]
    k = draw(st.integers(0, len(records) - 1))
    bodies[k] = draw(
        damaged(records[k]) | ODD_BODIES | VALUES.map(lambda value: as_body({"cost": value}))
    )
    return forge(*bodies)


@st.composite
def mutated(draw):
    """A file of the corpus with bytes changed, and pieces cut, doubled, moved or put in; often at the ends of lines."""
    data = CASES[draw(st.sampled_from(sorted(CASES)))]
    for _ in range(draw(st.integers(0, 4))):
        lines = st.integers(0, len(data) // UNIT).map(lambda line: line * UNIT)
        begin, end = sorted(
            (draw(lines | st.integers(0, len(data))), draw(lines | st.integers(0, len(data))))
        )
        piece = data[begin:end]
        data = draw(
            st.sampled_from(
                [
                    data[:begin] + data[end:],
                    data[:end] + piece + data[end:],
                    data[:end],
                    data[begin:],
                    piece + data[:begin] + data[end:],
                    data[:begin] + draw(st.binary(max_size=20)) + data[begin:],
                    data[:begin] + b"\n" + data[begin:],
                    data[:begin] + draw(st.binary(min_size=1, max_size=3)) + data[begin + 1 :],
                ]
            )
        )
    return data


FILES = {
    "bytes": st.binary(max_size=3 * UNIT),
    "bytes after a header": st.binary(max_size=2 * UNIT).map(
        lambda rest: forged_records(HEADER) + rest
    ),
    "mutated": mutated(),
    "forged": forged(),
}


@pytest.mark.parametrize("case", CASES)
def test_corpus(case, tmp_path):
    assert check_contract(CASES[case], tmp_path) == case.startswith("good")


# For planted faults: the same examples every time, and what is found need not be made small.
PLANTED = {"derandomize": True, "phases": [Phase.explicit, Phase.generate]}
NEW_ONES = {"derandomize": False}  # for long runs: each looks at other examples


def fuzz_files(kind, count, folder, seen=None, **options):
    @settings(max_examples=count, deadline=None, database=None, **options)
    @given(FILES[kind])
    def run(data):
        opened = check_contract(data, folder)
        if seen is not None:
            seen.append(opened)

    run()


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    ("count", "options"), [(100, {}), pytest.param(10_000, NEW_ONES, marks=pytest.mark.audit)]
)
def test_files(kind, count, options, tmp_path):
    fuzz_files(kind, count, tmp_path, **options)


def test_the_fuzzer_reaches_what_lies_behind_the_checks(tmp_path):
    seen = []
    fuzz_files("forged", 150, tmp_path, seen, **PLANTED)
    assert 5 < sum(seen) < 145


def test_planted_faults_in_the_reader_are_found(tmp_path, monkeypatch):
    decode = ledger_file.decode

    def deep(line, previous):
        json.loads(line[: line.rindex(b',"check"')] + b"}") if b',"check"' in line else None
        return decode(line, previous)

    monkeypatch.setattr(ledger_file, "decode", deep)
    raises(
        (ValueError, RecursionError, ExceptionGroup),
        None,
        fuzz_files,
        "forged",
        300,
        tmp_path,
        **PLANTED,
    )


@pytest.mark.parametrize(
    ("count", "options"), [(500, {}), pytest.param(20_000, NEW_ONES, marks=pytest.mark.audit)]
)
def test_budgets(count, options):
    amounts = st.fixed_dictionaries(
        {},
        optional={
            "notion": SCALARS,
            "rho": SCALARS,
            "epsilon": SCALARS,
            "delta": SCALARS,
            "rho_float": SCALARS,
        },
    )

    @settings(max_examples=count, deadline=None, database=None, **options)
    @given(VALUES | amounts | AMOUNTS, st.sampled_from([Budget, ZCDP, ApproxDP, PureDP, Cost]))
    def run(value, kind):
        try:
            read = kind.from_dict(value)
        except BudgetError:
            return
        assert kind.from_dict(json.loads(json.dumps(read.to_dict()))) == read

    run()


class History(RuleBasedStateMachine):
    """Live ledgers on one file, which other programs roll back, cut, tear, repair, exchange and delete meanwhile.

    What must hold: an operation that returns has found everything that its ledger had ever seen still in the file, and
    debits in the file never exceed the total. What should hold as well: a ledger whose file only grew goes on working.
    """

    folder = None

    def __init__(self):
        super().__init__()
        for file in self.folder.iterdir():
            file.unlink()
        self.path = self.folder / "a.ledger"
        self.live = []
        self.copies = []

    def content(self):
        return self.path.read_bytes() if self.path.exists() else None

    def identity(self):
        return (
            (info.st_dev, info.st_ino)
            if (info := self.path.stat() if self.path.exists() else None)
            else None
        )

    @rule()
    def start(self):
        try:
            ledger = Ledger(ZCDP(1), path=self.path)
        except LedgerError:
            return
        self.live = [*self.live[-3:], [ledger, self.content(), self.identity()]]

    def use(self, which, work):
        ledger, seen, identity = self.live[which % len(self.live)]
        before = self.content()
        whole = before is not None and before.startswith(seen) and identity == self.identity()
        try:
            work(ledger)
        except LedgerError:
            assert not whole or len(before) % UNIT, "a ledger whose file only grew must go on"
            assert self.content() == before
            return
        except BudgetError:
            pass
        assert whole, "something that this ledger had seen is gone, and it went on"
        after = self.content()
        assert after.startswith(before)
        self.live[which % len(self.live)][1] = after

    @rule(which=st.integers(0, 3), eighths=st.integers(1, 4))
    def debit(self, which, eighths):
        if self.live:
            self.use(which, lambda ledger: ledger.debit(ZCDP(Fraction(eighths, 8)), name="x"))

    @rule(which=st.integers(0, 3))
    def read(self, which):
        if self.live:
            self.use(which, lambda ledger: ledger.spent)

    @rule()
    def copy(self):
        if self.path.exists():
            self.copies = [*self.copies[-3:], self.content()]

    @rule(which=st.integers(0, 3), in_place=st.booleans())
    def put_back(self, which, in_place):
        if self.copies:
            data = self.copies[which % len(self.copies)]
            if in_place and self.path.exists():
                with open(self.path, "r+b") as file:
                    file.truncate(0)
                    file.write(data)
            else:
                other = self.folder / "other"
                other.write_bytes(data)
                os.replace(other, self.path)

    @rule(lines=st.integers(1, 3))
    def cut(self, lines):
        if self.path.exists() and self.path.stat().st_size > lines * UNIT:
            os.truncate(self.path, self.path.stat().st_size - lines * UNIT)

    @rule(size=st.integers(1, UNIT - 1))
    def tear(self, size):
        if self.path.exists() and not self.path.stat().st_size % UNIT:
            with open(self.path, "ab") as file:
                file.write(b"{" * size)

    @rule()
    def repair(self):
        if self.path.exists():
            before = self.content()
            try:
                Ledger.repair(self.path)
            except LedgerError:  # nothing but half a header is left
                assert self.content() == before
            for file in self.folder.glob("*.torn-*"):
                file.unlink()

    @rule()
    def delete(self):
        self.path.unlink(missing_ok=True)

    @invariant()
    def the_file_never_holds_more_than_its_total(self):
        if self.path.exists() and not self.path.stat().st_size % UNIT:
            Ledger.from_file(self.path)


def run_history(folder, runs, steps, **options):
    machine = type("HistoryHere", (History,), {"folder": folder})
    limits = settings(
        max_examples=runs, stateful_step_count=steps, deadline=None, database=None, **options
    )
    run_state_machine_as_test(machine, settings=limits)


@pytest.mark.parametrize(
    ("runs", "steps", "options"),
    [(40, 25, {}), pytest.param(1500, 60, NEW_ONES, marks=pytest.mark.audit)],
)
def test_history(runs, steps, options, tmp_path):
    run_history(tmp_path, runs, steps, **options)


def test_planted_fault_in_history_is_found(tmp_path, monkeypatch):
    read = ledger_file.LedgerFile._read
    monkeypatch.setattr(  # the last line is taken as read without reading it
        ledger_file.LedgerFile,
        "_check_unchanged",
        lambda self, file, position: len(read(self, file, 1 << 20, 0)),
    )
    raises((AssertionError, ExceptionGroup), None, run_history, tmp_path, 300, 25, **PLANTED)
