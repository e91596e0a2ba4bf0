"""Whatever is passed by mistake is refused in words, before a private row is read and before a debit.

The values stand in `bad_values.py`, with the calls that take them and what must come. An error has a type of this library, says
what to pass, and shows nothing of a private row.
"""

import math
import re
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pytest
from bad_values import ADVICE, EVERYWHERE, REFUSALS, SETTINGS, WITH_PUBLIC, bad_values_of, budget_of
from every_result import made
from helpers.errors import raises, shown
from public_calls import CALLS, NOTIONS, ROWS, ample, spent_nothing
from spies import SpyLedger, SpyRows

from fastpubpriv import BudgetError, FastPubPrivError, InputError
from fastpubpriv.privacy import Neighbors
from fastpubpriv.sources import private_rows

LIGHT = {name: call for name, call in CALLS.items() if not (call.heavy or call.named)}
each_light_call = pytest.mark.parametrize("call", LIGHT.values(), ids=LIGHT)
SECRET = "Alice-SSN-123"
SECRET_NUMBER = 777.25


def refused(call, error, words, given):
    """Return the text of the error that a call raises; nothing was read and nothing was debited before it."""
    log = []
    budget = budget_of(call)
    rows = np.array(call.rows)
    rows[0, 0] = SECRET_NUMBER
    usual = {"x_priv": SpyRows(rows, log), "budget": budget}
    ledger = SpyLedger(ample(budget).total, log)
    caught = raises(error, words, call, **{**usual, "ledger": ledger, **given})
    assert log == [], f"{log} came before the error"
    return str(caught)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_a_bad_value_is_refused_before_anything_is_read(refusal):
    text = refused(refusal.call, refusal.error, refusal.words, refusal.given)
    assert str(SECRET_NUMBER) not in text
    assert "Alice" not in text


@each_light_call
def test_what_is_wrong_everywhere_is_refused_before_anything_is_read(call):
    for name, value in bad_values_of(call):
        text = refused(call, FastPubPrivError, None, {name: value})
        assert any(word in text.lower() for word in ADVICE), f"{name}: no advice in {text}"
        assert str(SECRET_NUMBER) not in text


def test_every_argument_with_a_bad_value_is_an_argument_of_some_call():
    taken = {name for call in LIGHT.values() for name in call.parameters}
    assert EVERYWHERE.keys() <= taken


def test_a_table_that_lets_a_debit_through_is_caught():
    """The check of this file: a call that spends before it fails is seen."""

    class Late(SpyRows):
        def block(self, begin, end):
            raise InputError("late")

    late = Late(np.array(ROWS), [])
    given = {"x_priv": late, "threads": 1}
    words = r"\['debit'\] came before the error"
    raises(AssertionError, words, refused, CALLS["estimate_mean"], InputError, None, given)


@each_light_call
def test_a_ledger_of_another_relation_is_refused_before_anything_is_read(call):
    for notion in call.notions:
        budget = NOTIONS[notion]
        ledger = ample(budget, Neighbors.ADD_REMOVE_ONE)
        refused(call, BudgetError, "ADD_REMOVE_ONE", {"budget": budget, "ledger": ledger})
        assert spent_nothing(ledger)


@pytest.mark.parametrize("name", WITH_PUBLIC)
def test_public_rows_with_the_content_of_private_ones_cannot_be_seen(name):
    result = CALLS[name](ROWS, x_pub=ROWS.copy(), budget=NOTIONS["zcdp"])
    assert np.isfinite(result.mean).all()


@pytest.mark.parametrize(("make", "words"), SETTINGS)
def test_settings_are_refused_where_they_are_made(make, words):
    raises(InputError, words, make)


FUNCTIONS = {call.function: call for name, call in reversed(CALLS.items()) if "groups" not in name}


@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=lambda call: call.function.__name__)
def test_types_of_words_are_what_is_accepted(call):
    for name, hint in get_type_hints(call.function).items():
        kinds = [kind for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal]
        for kind in kinds:
            error = raises(InputError, "typo", call, budget=budget_of(call), **{name: "typo"})
            named = set(re.findall(r"'(\w+)'", str(error)))
            assert named == {*get_args(kind), "typo"}, f"{name}: {error}"
        is_word = name in call.parameters and isinstance(call.parameters[name].default, str)
        assert kinds or not is_word, f"{name} takes words that its type does not list"


# ---- Rows that a result evaluates.
NOT_ROWS = [
    None,
    5,
    "x",
    SECRET,
    [[SECRET, 1.0]],
    [["1", "2"]],
    {"a": 1},
    [[1.0], [1.0, 2.0]],
    ROWS.astype(complex),
    ROWS[:, :1],
    ROWS[None],
    np.array([[SECRET, "b"]]),
    pd.DataFrame({"a": [SECRET], "b": [1.0]}),
    object(),
    private_rows(ROWS),
    [[None, {}]],
    lambda: 0,
]


def evaluations():
    """Return the methods of results that evaluate rows and need finite ones."""
    mixture = made("MixtureResult")
    gaussian = made("GaussianResult")
    return [gaussian.log_prob, mixture.predict, mixture.predict_proba, mixture.log_prob]


def members_of_root(rows):
    return made("ClusterTree").members(rows, 0)


@pytest.mark.parametrize("rows", NOT_ROWS, ids=shown)
def test_results_at_what_are_no_rows(rows):
    routing = [made("ClusterTree").assign, members_of_root]
    for method in [*evaluations(), made("PCAResult").transform, *routing]:
        assert SECRET not in str(raises(InputError, None, method, rows))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_rows_that_are_not_finite(bad):
    rows = [[1.0, 2.0], [bad, 3.0]]
    for method in evaluations():
        raises(InputError, "must be finite", method, rows)
    assert made("ClusterTree").assign(rows)[1] == -1
    assert not np.isfinite(made("PCAResult").transform(rows)[1]).any()
