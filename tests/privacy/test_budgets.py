"""Budgets: exact amounts, refusal of bad parameters, arithmetic that never drifts."""

import copy
import json
import math
import operator
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastpubpriv.errors import BudgetError, PrivacyWarning
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, Cost, GaussianEvent, LaplaceEvent, PureDP
from fastpubpriv.privacy.budgets import Clusters, Composition, exact, float_down, float_up
from fastpubpriv.privacy.calibrated_budget import (
    approx_slack,
    gaussian_rho,
    pure_slack,
    row_budget,
    total_variation,
    without_delta,
)
from fastpubpriv.privacy.events import SampledGaussianEvent, SelectionEvent, StableHistogramEvent
from fastpubpriv.privacy.sampling import WithoutReplacement

BUDGETS = [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(2)]


@pytest.mark.parametrize(
    "value",
    [
        0.5,
        Fraction(1, 2),
        Decimal("0.5"),
        np.float32(0.5),
        np.float64(0.5),
        np.array(0.5),
        np.longdouble(0.5),
        np.float16(0.5),
    ],
)
def test_every_exact_number_is_taken(value):
    assert PureDP(np.int64(3)).epsilon == 3
    assert ZCDP(value).rho == Fraction(1, 2)
    assert type(ZCDP(value).rho) is Fraction


def test_a_float_stands_for_its_shortest_decimal():
    """Three debits of .1 are one of .3, whatever type the numbers have; planted: a float taken for its binary number."""
    for tenth in (0.1, np.float64(0.1), np.float32(0.1), np.float16(0.1), np.longdouble("0.1")):
        assert ZCDP(tenth).rho == Fraction(1, 10) != Fraction(float(tenth))
    assert sum(ZCDP(0.1).rho for _ in range(3)) == ZCDP(0.3).rho != 3 * Fraction(0.1)
    assert ZCDP(0.1 + 0.2).rho == Fraction("0.30000000000000004")
    assert repr(ZCDP(0.1)) == "ZCDP(rho=0.1)"
    assert ZCDP(0.3).to_dict()["rho_float"] == 0.3


@settings(deadline=None)
@given(
    st.floats(min_value=5e-324, max_value=1.7e308),
    st.floats(min_value=2.0**-10, max_value=1e4, width=16),
)
@example(5e-324, 0.5)
@example(1.7976931348623157e308, 0.5)
def test_a_float_comes_back(value, half):
    assert float(exact(value, "x")) == value
    assert np.float16(float(exact(np.float16(half), "x"))) == np.float16(half)


@settings(deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**6, max_denominator=10**12))
def test_rounded_floats_are_safe_in_both_readings(value):
    for found, side in ((float_down(value), 1), (float_up(value), -1)):
        readings = [Fraction(found), Fraction(str(found))]
        assert all(side * (value - reading) >= 0 for reading in readings)
        assert abs(found - float(value)) <= math.ulp(float(value))


NO_NUMBERS = [
    0,
    0.0,
    -0.0,
    -1,
    -1e-300,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e300,
    "1",
    b"1",
    True,
    False,
    np.True_,
    None,
    1j,
    [1],
    np.array([1.0]),
    Decimal("nan"),
    Decimal("inf"),
    Decimal("1e-999999999"),
    Decimal("1e999999999"),
    Fraction(10**2000 + 1, 10**2000),
    Fraction(10**400),
    Fraction(1, 10**400),
]


@pytest.mark.parametrize(
    ("part", "make", "beyond"),
    [
        ("epsilon", PureDP, (1e-12, 5000)),
        ("epsilon", lambda value: ApproxDP(value, 1e-6), (1e-12, 5000)),
        ("rho", ZCDP, (2.0**-61, 1e6 + 1)),
        ("delta", lambda value: ApproxDP(1, value), (1, 1.5, 1e-31)),
    ],
)
def test_what_is_no_number_in_range_is_refused(part, make, beyond):
    for value in (*NO_NUMBERS, *beyond):
        raises(BudgetError, part, make, value)


def test_range_ends_are_allowed():
    assert PureDP(Fraction(1, 2**30)).epsilon == Fraction(1, 2**30)
    assert PureDP(2.0**-30).epsilon == Fraction(str(2.0**-30))
    assert PureDP(2**10).epsilon == 1024
    assert ZCDP(1e6).rho == 10**6
    assert ZCDP(2.0**-60).rho == Fraction(str(2.0**-60))


def test_messages_say_what_to_pass():
    raises(BudgetError, r"use PureDP\(epsilon\)", ApproxDP, 1, 0)
    raises(BudgetError, r"\[2\^-30, 2\^10\]", PureDP, 1e-12)
    raises(BudgetError, "abstract", Budget, 1)
    raises(BudgetError, "expected a ZCDP", ZCDP.from_dict, PureDP(1).to_dict())
    raises(BudgetError, "Neighbors", GaussianEvent, 1, 8, 1, "replace_one")


WEIGHTS = st.fractions(min_value=Fraction(1, 100), max_value=10**3, max_denominator=10**6)


@settings(deadline=None)
@given(st.lists(WEIGHTS, min_size=1, max_size=8))
def test_split_adds_up_exactly(weights):
    for whole in (ZCDP(0.7), ApproxDP(1.1, 1e-5)):
        parts = whole.split(*weights)
        total = Cost.zero(type(whole))
        for part in parts:
            total = total + part
        assert total == whole.cost
        amount_of_weight = parts[0].amounts[0] / weights[0]
        for part, weight in zip(parts, weights, strict=True):
            assert part.amounts[0] == amount_of_weight * weight


def test_split_accepts_floats_and_refuses_nonsense():
    assert ZCDP(1).split(0.25, 0.75) == (ZCDP(0.25), ZCDP(0.75))
    for bad in ((), (0, 1), (-1, 2), (float("nan"),), (True, 1), ("1",)):
        raises(BudgetError, None, ZCDP(1).split, *bad)


def test_budgets_are_added_and_subtracted():
    assert ZCDP(0.5) + ZCDP(0.25) == ZCDP(0.75)
    assert (PureDP(1) - PureDP(1)).is_zero
    assert PureDP(1) - PureDP(0.5) == PureDP(0.5).cost
    assert PureDP(1).cost + PureDP(1) == PureDP(2).cost


def test_budgets_are_multiplied_and_divided_by_numbers():
    eighth = ApproxDP(1, Fraction(1, 8))
    assert eighth * 2 == 2 * eighth == ApproxDP(2, Fraction(1, 4))
    assert PureDP(1) / 3 == PureDP(Fraction(1, 3))


@pytest.mark.parametrize("factor", [0, -1, True, "2", float("inf")])
def test_factors_of_budgets_that_are_refused(factor):
    raises(BudgetError, None, operator.mul, ZCDP(1), factor)
    raises(BudgetError, None, operator.truediv, ZCDP(1), factor)


def test_ten_tenths_are_exactly_one():
    left = ZCDP(1).cost
    for _ in range(10):
        left = left - ZCDP(Fraction(1, 10))
    assert left.is_zero
    raises(BudgetError, "never goes below zero", operator.sub, left, ZCDP(2.0**-60))


def test_comparison_looks_at_every_part():
    assert ApproxDP(1, 1e-6) <= ApproxDP(1, 1e-5)
    assert not ApproxDP(1, 1e-5) <= ApproxDP(2, 1e-6)
    assert not ApproxDP(2, 1e-6) <= ApproxDP(1, 1e-5)
    assert ApproxDP(2, 1e-5) >= ApproxDP(1, 1e-5)
    assert ZCDP(1) <= ZCDP(1).cost <= ZCDP(1)
    assert not ZCDP(1).cost >= ZCDP(2)


@pytest.mark.parametrize("other", [PureDP(1), ApproxDP(1, 1e-6), Cost.zero(PureDP), 1.0])
def test_notions_never_mix(other):
    raises((BudgetError, TypeError), None, operator.add, ZCDP(1), other)
    raises(BudgetError, None, operator.sub, ZCDP(1), other)
    raises(BudgetError, None, operator.le, ZCDP(1), other)
    assert ZCDP(1) != other


@pytest.mark.parametrize("budget", BUDGETS)
def test_round_trips(budget):
    assert Budget.from_dict(budget.to_dict()) == budget
    assert type(budget).from_dict(budget.to_dict()) == budget
    assert Cost.from_dict(budget.cost.to_dict()) == budget.cost
    assert pickle.loads(pickle.dumps(budget)) == budget
    assert copy.deepcopy(budget) == budget
    assert hash(budget) == hash(type(budget)(*budget.amounts))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"notion": "XDP"},
        {"notion": "ZCDP"},
        {"notion": "ZCDP", "rho": 0.5},
        {"notion": "ZCDP", "rho": "1/0"},
        {"notion": "ZCDP", "rho": "2/4"},
        {"notion": "ZCDP", "rho": "-1/2"},
        {"notion": "ZCDP", "rho": "1" * 5000 + "/1"},
        {"notion": "ZCDP", "rho": "1/2\n"},
        {"notion": "ApproxDP", "epsilon": "1/1"},
        {"notion": ["ZCDP"], "rho": "1/2"},
    ],
)
def test_bad_dicts_are_refused(data):
    raises(BudgetError, None, Budget.from_dict, data)
    raises(BudgetError, None, Cost.from_dict, data)


def test_frozen_and_short_repr():
    assert [repr(b) for b in BUDGETS] == [
        "ZCDP(rho=0.5)",
        "ApproxDP(epsilon=1.0, delta=1e-06)",
        "PureDP(epsilon=2.0)",
    ]
    assert repr(ZCDP(Fraction(1, 3))) == "ZCDP(rho=0.333333)"
    with pytest.raises(AttributeError):
        ZCDP(1).rho = Fraction(2)
    with pytest.raises((AttributeError, TypeError)):
        ZCDP(1).other = 1


@pytest.mark.parametrize(
    ("notion", "amounts", "words"),
    [
        (ZCDP, (Fraction(-1),), None),
        (ZCDP, (0.5,), None),
        (ApproxDP, (Fraction(1),), None),
        (Budget, (), None),
        (int, (1,), None),
        (ZCDP, (Fraction(1, 3**9000),), "bits"),
    ],
    ids=["negative", "float", "one of two", "abstract", "no notion", "long"],
)
def test_costs_that_are_refused(notion, amounts, words):
    raises(BudgetError, words, Cost, notion, amounts)


def test_weak_delta_warns_from_public_n():
    with pytest.warns(PrivacyWarning, match="1/n"):
        ApproxDP(1, 0.01).warn_if_weak(100)
    with warnings.catch_warnings(action="error"):
        ApproxDP(1, 0.0099).warn_if_weak(100)
        ZCDP(1).warn_if_weak(1)
        PureDP(1).warn_if_weak(10**9)


# ---- Events: exact costs, relations that never mix, and the error of the samplers -----------------------------------
@pytest.mark.parametrize("scale", [np.int64(31), np.int32(16)])
def test_powers_of_integers_of_numpy_do_not_wrap_around(scale):
    assert GaussianEvent(2, scale, 1).price(ZCDP) == Fraction(1, 4 ** int(scale))
    assert LaplaceEvent(2, scale, 1).price(PureDP) == Fraction(2, 2 ** int(scale))


def test_the_cost_of_a_gaussian_event_is_exact():
    event = GaussianEvent(2 * 2896**4 * 10**9, 40, 7)
    assert event.rho == Fraction(2 * 2896**4 * 10**9, 2 * 4**40)
    assert event.cost == Cost(ZCDP, (event.rho,))


def test_the_cost_of_a_laplace_event_is_exact():
    event = LaplaceEvent(3, 8, 2)
    assert event.epsilon == Fraction(3, 256)
    assert event.cost == Cost(PureDP, (Fraction(3, 256),))


def test_a_reserved_delta_counts_for_each_row_of_a_person():
    """Of 1e-6 for a person, 1e-7 reserved in the budget of each of four rows leaves 6e-7; 3e-7 would be more than there is.

    No public call reaches this: what a method reserves is an ApproxDP, whose epsilon is above zero, and then group privacy counts
    the delta (`test_what_a_row_may_spend_is_the_inverse_of_group_privacy`). So the budget itself is asked.
    """
    raises(BudgetError, "epsilon", ApproxDP, 0, 1e-7)
    person = ApproxDP(1, 1e-6)
    nothing = Fraction(0)
    row = row_budget(person, 4)
    left = gaussian_rho(row, 9, nothing, Fraction(1, 10**7))
    assert left == gaussian_rho(person, 9, nothing, Fraction(4, 10**7)) / 16
    raises(BudgetError, "leave nothing", gaussian_rho, row, 9, nothing, Fraction(3, 10**7))


def test_a_budget_of_a_row_has_the_notion_of_its_person():
    budgets = [ZCDP(1), PureDP(1), ApproxDP(1, 1e-6), row_budget(ApproxDP(1, 1e-6), 4)]
    assert [budget.notion for budget in budgets] == [ZCDP, PureDP, ApproxDP, ApproxDP]


def test_what_is_left_without_a_delta_is_the_whole_epsilon():
    row = row_budget(ApproxDP(1, 1e-6), 4)
    assert without_delta(row) == PureDP(row.epsilon)
    assert without_delta(ZCDP(2)) == ZCDP(2)


OF_NUMPY = {
    "gaussian": (
        GaussianEvent,
        {"squared_sensitivity": 2**31 - 1, "log2_scale": 31, "draws": 1},
        ZCDP,
    ),
    "laplace": (LaplaceEvent, {"l1_sensitivity": 2**31 - 1, "log2_scale": 40, "draws": 1}, PureDP),
    "selection": (
        SelectionEvent,
        {"epsilon": 1, "sensitivity": 2**31 - 1, "candidates": 1},
        PureDP,
    ),
    "histogram": (
        StableHistogramEvent,
        {
            "law": "laplace",
            "histograms": 1,
            "step": 2**30,
            "threshold": 2**31 - 1,
            "log2_scale": 30,
            "epsilon": 2,
            "draws": 1,
        },
        ApproxDP,
    ),
    "sampled": (
        SampledGaussianEvent,
        {
            "sampling": (2**24, 2**31 - 1),
            "squared_sensitivity": 2**31 - 1,
            "log2_scale": 16,
            "draws": 1,
            "steps": 2,
            "delta": 1e-6,
        },
        ApproxDP,
    ),
}


def made_of(kind, fields, integer):
    """An event whose integers are of this type."""
    given = dict(fields)
    for name, value in fields.items():
        if type(value) is int and name != "epsilon":
            given[name] = integer(value)
    if "sampling" in fields:
        n, total = fields["sampling"]
        given["sampling"] = WithoutReplacement(integer(n), integer(total))
    return kind(**given)


@pytest.mark.parametrize("integer", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("name", OF_NUMPY)
def test_an_event_of_numpy_integers_costs_what_one_of_python_integers_does(name, integer):
    """Sums, products and powers of NumPy's integers wrap around."""
    kind, fields, notion = OF_NUMPY[name]
    event = made_of(kind, fields, integer)
    wanted = made_of(kind, fields, int)
    assert event.price(notion) == wanted.price(notion) > 0
    assert event.own_delta == wanted.own_delta >= 0
    assert json.dumps(event.record(), default=str) == json.dumps(wanted.record(), default=str)
    if name == "selection":
        assert event.rate == Fraction(1, 2 * (2**31 - 1))
    if name == "sampled":
        assert event.noise_multiplier == wanted.noise_multiplier > 0.0


@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_clusters_of_numpy_integers_add_up_as_those_of_python_integers(integer):
    cost = Fraction(2**31 - 1, 2**20)
    for number in (int, integer):
        tally = Composition()
        tally.add(cost, Clusters(number(2**31 - 1), number(2**30), ("leaves",)))
        assert tally.total == cost


@pytest.mark.parametrize("kind", [GaussianEvent, LaplaceEvent])
@pytest.mark.parametrize(
    "arguments",
    [
        (-1, 8, 1),
        (1.0, 8, 1),
        (True, 8, 1),
        (1, 7, 1),
        (1, 41, 1),
        (1, 8.0, 1),
        (1, 8, -1),
        (1, 8, None),
    ],
)
def test_bad_events_are_refused(kind, arguments):
    raises(BudgetError, None, kind, *arguments)


@pytest.mark.parametrize("epsilon", [2.0**-30, 0.1, 1, 10, 709, 1024])
def test_slack_is_an_upper_bound_and_tight(epsilon):
    n = 10**12
    of_approx = approx_slack(epsilon, n)
    of_epsilon, of_delta = pure_slack(epsilon, n)
    assert of_epsilon == Fraction(n, 2**99)
    with mpmath.workdps(60):
        factor = n * (1 + mpmath.exp(mpmath.mpf(epsilon)))
        for bound, bits in ((of_approx, 100), (of_delta, 184)):
            exact = factor * mpmath.mpf(2) ** -bits
            ratio = mpmath.mpf(bound.numerator) / bound.denominator / exact
            assert 1 <= ratio < 1 + 1e-11


def test_no_draw_has_no_total_variation():
    assert total_variation(0) == 0
