"""Every public function under record and replay, its rows in one piece and in chunks of one and of seven rows."""

import numpy as np
import pytest
from public_calls import CALLS, NOTIONS

from fastpubpriv.auditing import record_replay

SHORT = {name: call for name, call in CALLS.items() if len(call.rows) <= 1000}


def pair(call):
    """The call's rows, and the same with one replaced."""
    other = np.array(call.rows)
    other[17] = -3.0
    return np.array(call.rows), other


@pytest.mark.parametrize("name", SHORT)
def test_the_same_integers_are_asked_about_in_any_chunks(name):
    call = CALLS[name]
    for index, size in enumerate((1, 7)):
        budget = NOTIONS[call.notions[index % len(call.notions)]]
        record_replay(lambda x, b=budget: call(x, budget=b), *pair(call), budget=budget, pieces=size)


@pytest.mark.audit
@pytest.mark.parametrize("name", [name for name in CALLS if name not in SHORT])
def test_the_same_integers_are_asked_about_in_any_chunks_of_many_rows(name):
    call = CALLS[name]
    for notion in call.notions:
        budget = NOTIONS[notion]
        record_replay(lambda x, b=budget: call(x, budget=b), *pair(call), budget=budget, pieces=4999)
