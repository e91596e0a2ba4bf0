"""The ledger: exact under threads, processes and kill -9."""

import contextlib
import copy
import os
import pickle
import random
import re
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from clocks import PATIENCE
from helpers.errors import raises
from helpers.own_thread import at_once
from ledger_cases import reopen

import fastpubpriv
from fastpubpriv import ZCDP, ApproxDP, Ledger, PureDP
from fastpubpriv.errors import BudgetError, InputError, LedgerError
from fastpubpriv.privacy import Cost, GaussianEvent, LaplaceEvent, Neighbors
from fastpubpriv.privacy.conversions import pure_to_zcdp

ROOT = Path(fastpubpriv.__file__).parents[1]


def test_debits_add_up_exactly(place):
    ledger = Ledger(ZCDP(Fraction(3, 10)), label="set A", **place)
    assert [ledger.debit(ZCDP(0.1), name=f"query {k}") for k in range(3)] == [1, 2, 3]
    assert ledger.remaining.is_zero
    assert ledger.spent == ledger.total.cost
    assert [(e.number, e.name) for e in ledger.entries] == [
        (1, "query 0"),
        (2, "query 1"),
        (3, "query 2"),
    ]
    raises(
        BudgetError,
        r"what remains, Cost\(ZCDP, rho=0.0\)",
        ledger.debit,
        ZCDP(2.0**-60),
        name="one too many",
    )
    assert len(ledger.entries) == 3


def test_a_sum_of_floats_that_is_just_too_large_is_named(place):
    ledger = Ledger(ZCDP(0.3), **place)
    raises(
        BudgetError, "by 4e-17: a sum of rounded floats", ledger.debit, ZCDP(0.1 + 0.2), name="x"
    )
    for k in range(3):
        ledger.debit(ZCDP(0.1), name=f"tenth {k}")
    assert ledger.remaining.is_zero


def test_every_part_of_the_total_is_checked(place):
    ledger = Ledger(ApproxDP(1, 1e-6), **place)
    ledger.debit(ApproxDP(0.25, 1e-6), name="uses all of delta")
    raises(
        BudgetError,
        "larger than what remains",
        ledger.debit,
        ApproxDP(0.25, 1e-9),
        name="no delta left",
    )
    ledger.debit(PureDP(0.75), name="pure still fits")
    assert ledger.remaining.is_zero
    raises(BudgetError, None, ledger.debit, PureDP(0.001), name="no epsilon left")


def test_events_and_notions(place):
    ledger = Ledger(ZCDP(2), **place)
    ledger.debit(GaussianEvent(2**16, 8, 3), name="gaussian")
    ledger.debit(PureDP(0.5), name="pure")
    ledger.debit(LaplaceEvent(128, 8, 3), name="laplace")
    ledger.debit(Cost.zero(ZCDP), name="free")
    assert ledger.spent.amounts[0] == Fraction(1, 2) + 2 * pure_to_zcdp(0.5)
    raises(BudgetError, "ZCDP or PureDP", ledger.debit, ApproxDP(0.1, 1e-6), name="x")
    raises(BudgetError, None, ledger.debit, LaplaceEvent(64, 8, 1, delta=1e-9), name="x")
    for bad in (0.5, None, "ZCDP(1)"):
        raises(BudgetError, "must be a budget", ledger.debit, bad, name="x")
    assert len(ledger.entries) == 4


def test_other_notions_get_advice():
    raises(
        BudgetError,
        "open a ledger with ZCDP or ApproxDP",
        Ledger(PureDP(1)).debit,
        ZCDP(0.1),
        name="x",
    )
    with pytest.raises(BudgetError, match="from which the noise was calibrated"):
        Ledger(ApproxDP(1, 1e-6)).debit(GaussianEvent(1, 8, 1), name="x")
    ledger = Ledger(ApproxDP(1, 1e-6))
    ledger.debit(LaplaceEvent(128, 8, 1, delta=1e-7), name="with a delta")
    assert ledger.spent == Cost(ApproxDP, (Fraction(1, 2), Fraction(1, 10**7)))


def test_relations_never_mix(place):
    ledger = Ledger(ZCDP(1), **place)
    raises(
        BudgetError,
        "REPLACE_ONE",
        ledger.debit,
        GaussianEvent(1, 8, 1, Neighbors.ADD_REMOVE_ONE),
        name="x",
    )
    raises(
        BudgetError,
        "REPLACE_ONE",
        ledger.debit,
        ZCDP(0.1),
        name="x",
        relation=Neighbors.ADD_REMOVE_ONE,
    )
    ledger.debit(ZCDP(0.1), name="x", relation=Neighbors.REPLACE_ONE)
    other = Ledger(ZCDP(1), relation=Neighbors.ADD_REMOVE_ONE)
    other.debit(ZCDP(0.5), name="stated under the relation of the ledger")
    raises(BudgetError, None, other.debit, GaussianEvent(1, 8, 1), name="x")


def test_with_closes_and_spending_stays_readable(place):
    ledger = Ledger(ZCDP(1), **place)

    def failing_fit():
        with ledger:
            ledger.debit(ZCDP(0.5), name="failed fit")
            raise RuntimeError("inside")

    raises(RuntimeError, "inside", failing_fit)
    raises(LedgerError, "closed", ledger.debit, ZCDP(0.5), name="after")
    assert ledger.spent == ZCDP(0.5).cost  # never refunded


def test_short_repr_and_no_copies(place):
    ledger = Ledger(ZCDP(1), **place)
    ledger.debit(ZCDP(0.25), name="x")
    assert repr(ledger) == "Ledger(total=ZCDP(rho=1.0), remaining=Cost(ZCDP, rho=0.75), entries=1)"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        raises(TypeError, "share its path", attempt, ledger)


@pytest.mark.parametrize("bad", ["", "x" * 201, "two\nlines", "\x00", 5, None, b"x"])
def test_names_are_checked_before_anything_is_charged(place, bad):
    ledger = Ledger(ZCDP(1), **place)
    raises(InputError, "printable", ledger.debit, ZCDP(0.5), name=bad)
    assert ledger.spent.is_zero


def test_a_page_shows_each_debit_and_what_is_left(place):
    ledger = Ledger(ZCDP(1), label="<b>survey & co</b>", **place)
    ledger.debit(ZCDP(Fraction(1, 4)), name="<script>alert('x')</script>")
    ledger.debit(ZCDP(Fraction(1, 8)), name="mean")
    page = ledger._repr_html_()
    first = "<td>1</td><td>&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;</td><td>rho = 0.25</td><td>rho = 0.75</td>"
    assert f"<tr>{first}</tr>" in page
    assert "<tr><td>2</td><td>mean</td><td>rho = 0.125</td><td>rho = 0.625</td></tr>" in page
    assert "<p>rho 0.625 of 1 left</p>" in page
    assert "&lt;b&gt;survey &amp; co&lt;/b&gt;" in page
    assert set(re.findall(r"</?([a-z]+)", page)) == {
        "div",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
    }


def test_a_page_of_many_debits_shows_the_last_ones():
    ledger = Ledger(ApproxDP(1, 1e-6))
    for number in range(70):
        ledger.debit(ApproxDP(0.01, 1e-9), name=f"debit {number}")
    page = ledger._repr_html_()
    assert "<td>debit 9</td>" not in page
    assert "<td>debit 10</td>" in page
    assert "<p>10 earlier debits are not shown; entries has all of them</p>" in page
    assert "<p>epsilon 0.3 of 1, delta 9.3e-07 of 1e-06 left</p>" in page


def test_a_page_does_not_wait_for_the_file(tmp_path):
    ledger = Ledger(PureDP(1), path=tmp_path / "a.ledger")
    ledger.debit(PureDP(0.5), name="mean")
    (tmp_path / "a.ledger").unlink()
    assert "epsilon 0.5 of 1 left" in ledger._repr_html_()


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
        raises(LedgerError, "made with another", Ledger, total, path=path, label=label, **extra)
    assert os.stat(path).st_mode & 0o777 == 0o600
    # Two objects see each other.
    one = reopen(path)
    two = reopen(path)
    one.debit(ZCDP(0.5), name="one")
    raises(BudgetError, "remains", two.debit, ZCDP(0.5), name="two")
    assert two.debit(ZCDP(0.125), name="two") == 5
    assert one.remaining.is_zero


def test_sixteen_threads(place):
    per_thread = 200 if not place else 25  # each debit in a file waits for the disk
    ledger = Ledger(ZCDP(1), **place)
    part = ZCDP(1) / (16 * per_thread + 1)

    def work():
        for _ in range(per_thread):
            ledger.debit(part, name="x")

    at_once(*[work] * 16)
    assert ledger.remaining == part.cost
    assert [e.number for e in ledger.entries] == list(range(1, 16 * per_thread + 1))


def test_threads_never_overdraw():
    ledger = Ledger(ZCDP(1))
    refused = []

    def work():
        for _ in range(200):
            try:
                ledger.debit(ZCDP(1) / 1000, name="x")
            except BudgetError:
                refused.append(1)

    at_once(*[work] * 16)
    assert ledger.remaining.is_zero
    assert len(refused) == 16 * 200 - 1000


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


def kill_children(path, times, seed, program=KILLED, wait=0.0):
    """Kill a debiting child `times` times; return debits that returned and debits in the file."""
    chance = random.Random(seed)
    acknowledged = 0
    for _ in range(times):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert child.stdout.readline() == b"ready\n"
        if acknowledged == 0 and not wait:  # one debit at least is made, however slow the machine
            acknowledged += child.stdout.readline() == b"y\n"
        # `wait` is for a child that kills itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(wait + chance.uniform(0, 0.03))
        child.send_signal(signal.SIGKILL)
        acknowledged += child.stdout.read().count(b"y\n")
        child.stdout.close()
        child.wait()
        reopen(path)  # parses every time
    return acknowledged, len(reopen(path).entries) - 3


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.audit)])
def test_kill_loses_no_acknowledged_debit(path, times):
    acknowledged, charged = kill_children(path, times, 7)
    assert 0 < acknowledged <= charged <= acknowledged + times
    assert reopen(path).spent == Cost(ZCDP, (Fraction(3, 8) + charged * Fraction(1, 2**20),))


def test_planted_bug_acknowledging_before_the_debit_is_caught(path):
    # The same loop with its two halves exchanged, killed between them the third time.
    loop = KILLED.index("    ledger.debit")
    debit, acknowledge = KILLED[loop:].split("\n", 1)
    die = "    if len(ledger.entries) == 5: import os; os.kill(os.getpid(), 9)\n"
    acknowledged, charged = kill_children(
        path, 1, 9, KILLED[:loop] + acknowledge + die + debit + "\n", wait=PATIENCE
    )
    assert acknowledged == 3
    assert charged == 2
