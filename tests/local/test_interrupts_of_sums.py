"""An interrupt at any instruction of a call leaves sums as they were before the call, or as they are after it."""

import io
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import raises
from helpers.own_thread import in_own_thread

import fastpubpriv.local as package
from fastpubpriv.local import Aggregator, PrivUnit, Reports
from fastpubpriv.local.collector import Collector

HERE = str(Path(package.__file__).parent)
FIVE = PrivUnit(5, 2.0)
BATCHES = [
    Reports(
        FIVE, np.random.default_rng(n).integers(-99, 99, (n, 5), dtype=np.int32), private=n != 6
    )
    for n in (4, 6, 8)
]


@in_own_thread
def interrupted(call, place):
    """Run call(), raising KeyboardInterrupt at the instruction of the folder with this number; whether there was one."""
    left = place

    def at(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return at

    # The tracer of a coverage run comes back afterwards.
    before = sys.gettrace()
    sys.settrace(at)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def same_or_next(make, change, state, step=1):
    """Interrupt change(made) at every instruction: state(made) is that before or that after, and both are met."""
    made = make()
    before = state(made)
    change(made)
    after = state(made)
    assert before != after
    found = set()
    for place in itertools.count(1, step):
        made = make()
        if not interrupted(lambda made=made: change(made), place):
            break
        found.add(state(made))
        assert found <= {before, after}, place
    assert place > 50
    return found == {before, after}


def names(count, first=0):
    return [(first + i).to_bytes(16, "big") for i in range(1, count + 1)]


def aggregator(cap=None):
    found = Aggregator(FIVE, reports_per_user=cap)
    found.add(BATCHES[0], users=None if cap is None else names(4), threads=1)
    return found


@pytest.mark.parametrize("cap", [None, 1])
def test_a_batch_and_merged_sums_are_in_or_not(cap):
    users = None if cap is None else names(6, first=2)
    assert same_or_next(
        lambda: aggregator(cap),
        lambda total: total.add(BATCHES[1], users=users, threads=1),
        lambda total: (total.count, total.refused, total.private, total.to_bytes()),
    )
    # Merged sums are in or not.
    other = Aggregator(FIVE, reports_per_user=cap)
    other.add(BATCHES[2], users=None if cap is None else names(8, first=4), threads=1)
    assert same_or_next(
        lambda: aggregator(cap), lambda total: total.merge(other), lambda total: total.to_bytes()
    )


def collector():
    found = Collector(FIVE)
    found.read(io.BytesIO(BATCHES[0].to_bytes()), threads=1)
    return found


def test_a_batch_is_summed_and_known_again_or_neither():
    """An interrupted stream is read again from its beginning: what was taken is left out, what was not is taken."""
    data = b"".join(batch.to_bytes() for batch in BATCHES[1:])
    assert same_or_next(
        collector,
        lambda found: found.read(io.BytesIO(data), threads=1),
        lambda found: found.to_bytes(),
        step=7,
    )
    whole = collector()
    whole.read(io.BytesIO(data), threads=1)
    for place in itertools.count(1, 11):
        again = collector()
        if not interrupted(lambda again=again: again.read(io.BytesIO(data), threads=1), place):
            break
        again.read(io.BytesIO(data), threads=1)
        assert again.to_bytes() == whole.to_bytes(), place


def test_planted_fault_two_assignments_are_seen():
    """The count before the sums, as an object of several attributes would have it."""

    class Halves:
        def __init__(self):
            self.count = self.total = 0

    namespace = {}
    source = "def change(made):\n    made.count += 1\n    [list(range(i)) for i in range(9)]\n    made.total += 1\n"
    exec(compile(source, HERE + "/planted.py", "exec"), namespace)
    raises(
        AssertionError,
        None,
        same_or_next,
        Halves,
        namespace["change"],
        lambda made: (made.count, made.total),
    )
