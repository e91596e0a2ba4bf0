"""Sizes of the theorems of the papers, up to constants and logarithms: terms by hand, and what the papers say of them."""

import json
import math

import pytest
from helpers.errors import raises
from helpers.refusals import Refusals

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    PureDP,
)
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.planning import (
    OrderBounds,
    order_bounds,
)
from fastpubpriv.planning.orders import THEOREMS

BUDGETS = {ZCDP: ZCDP(0.25), PureDP: PureDP(0.5), ApproxDP: ApproxDP(0.5, 1e-6)}
COMMON = {"dim": 20, "accuracy": 0.1, "failure_prob": 0.05}
MIXTURE = {"n_components": 4, "min_weight": 0.2, "mean_radius": 100.0, "cond_max": 50.0}
CASES = [(theorem, notion) for theorem, by_notion in THEOREMS.items() for notion in by_notion]


def bounds(theorem, notion, **options):
    extra = MIXTURE if theorem.startswith("C") else {"mean_radius": 1e6} if theorem == "B.1" else {}
    return order_bounds(theorem, **({"budget": BUDGETS[notion]} | COMMON | extra | options))


each_theorem = pytest.mark.parametrize(("theorem", "notion"), CASES)


@each_theorem
def test_every_theorem_has_terms_that_add_up(theorem, notion):
    found = bounds(theorem, notion)
    assert all(0.0 < value < math.inf for value in found.terms.values())
    assert found.n_priv == pytest.approx(sum(found.terms.values()))


@each_theorem
def test_every_theorem_is_labelled(theorem, notion):
    found = bounds(theorem, notion)
    assert found.label == "up to constants and logs"
    assert found.label in repr(found)
    assert theorem in found.theorem
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["label"] == found.label
    assert data["n_priv"] == found.n_priv


@each_theorem
def test_a_constant_multiplies_every_term(theorem, notion):
    found = bounds(theorem, notion)
    tripled = bounds(theorem, notion, constant=3.0)
    expected = {name: 3 * value for name, value in found.terms.items()}
    assert tripled.terms == pytest.approx(expected)
    assert tripled.n_pub == found.n_pub


@each_theorem
@pytest.mark.parametrize("harder", [{"accuracy": 0.05}, {"dim": 40}, {"failure_prob": 0.001}])
def test_what_is_harder_needs_more_rows(theorem, notion, harder):
    assert bounds(theorem, notion, **harder).n_priv > bounds(theorem, notion).n_priv


TAIL = math.log(20)  # of a failure probability of 0.05


def of_theorem(theorem, dim, budget, **options):
    return order_bounds(theorem, dim=dim, accuracy=0.1, budget=budget, failure_prob=0.05, **options)


def test_terms_of_a_mean_with_a_public_row_by_hand():
    found = of_theorem("B.2", 50, ZCDP(0.25))
    expected = [(50 + TAIL) / 0.01, 50 * TAIL**1.5 / (0.1 * 0.5)]
    assert list(found.terms.values()) == pytest.approx(expected)
    assert found.n_pub == 1


def test_terms_of_a_mean_within_a_range_by_hand():
    found = of_theorem("B.1", 9, ZCDP(0.25), mean_radius=100)
    expected = [(9 + TAIL) / 0.01, 3 * 103 * TAIL / (0.1 * 0.5)]
    assert list(found.terms.values()) == pytest.approx(expected)
    assert found.n_pub == 0


def test_terms_of_a_gaussian_by_hand():
    found = of_theorem("B.5", 10, PureDP(2))
    expected = [(100 + TAIL) / 0.01, 100 * math.log(10 / (0.1 * 0.05)) / (0.1 * 2)]
    assert list(found.terms.values()) == pytest.approx(expected)
    assert found.n_pub == 11


def test_terms_of_a_mixture_by_hand():
    found = of_theorem("C.28", 10, ApproxDP(1, 1e-6), n_components=4, min_weight=0.25)
    many = math.log(4e6)
    polylog = math.log(10 * (4 / 0.05) * 10 * 2 * many)
    sampling = 100 * math.log(80) / (0.25 * 0.01)
    privacy = (100 * many + 10 * many**1.5) * polylog / (0.25 * 0.1)
    assert list(found.terms.values()) == pytest.approx([sampling, privacy])
    assert found.n_pub == pytest.approx(10 * math.log(80) / 0.25)


# What the paper says about its theorems.
def test_a_gap_costs_logarithms_only_and_nothing_where_there_is_none():
    near = bounds("B.12", ZCDP)
    far = bounds("B.12", ZCDP, pub_priv_gap=1 - 1e-12)
    assert near.n_priv == pytest.approx(bounds("B.5", ZCDP).n_priv)
    assert near.n_priv < far.n_priv < 100 * near.n_priv


def test_public_rows_in_proportion_to_the_dimension_take_private_pca_away():
    few = bounds("C.23", ApproxDP)
    many = bounds("C.28", ApproxDP)
    assert {*few.terms} - {*many.terms} == {"d^1.5 k^2.5 log(k / delta) / epsilon"}
    assert many.n_pub == pytest.approx(20 * few.n_pub)


def test_ranges_enter_as_logarithms():
    wide = bounds("C.24", ZCDP, mean_radius=1e12, cond_max=1e12)
    usual = bounds("C.24", ZCDP)
    assert usual.n_priv < wide.n_priv < 2 * usual.n_priv


def test_a_public_row_takes_the_range_away():
    usual = bounds("HKM22", PureDP)
    far = bounds("HKM22", PureDP, mean_radius=1e30)
    assert usual.n_priv < far.n_priv
    of_range = {"(d log R + min(d, log R) log(1/beta)) / epsilon"}
    assert {*far.terms} - {*usual.terms} == of_range
    assert bounds("B.1", ZCDP).n_priv > 10 * bounds("B.2", ZCDP).n_priv


def test_bounds_of_extreme_arguments_are_finite():
    extreme = {"failure_prob": 1e-90, "accuracy": 1e-6, "dim": 10**6}
    found = bounds("C.23", ApproxDP, budget=ApproxDP(1e-3, 1e-30), **extreme)
    assert isinstance(found, OrderBounds)
    assert math.isfinite(found.n_priv)


REFUSED = Refusals()
REFUSED.add("theorem", "B.3")
REFUSED.add("range", "B.1")
REFUSED.add("accuracy", "B.2", accuracy=0.0)
REFUSED.add("dim", "B.2", dim=0)
REFUSED.add("constant", "B.2", constant=0.0)
REFUSED.add("pub_priv_gap", "B.12", pub_priv_gap=1.0)
REFUSED.add("ranges", "C.24", n_components=2, min_weight=0.1)
REFUSED.add("mixtures", "C.29")
REFUSED.add("min_weight", "C.29", n_components=4, min_weight=0.3)


@pytest.mark.parametrize(("theorem", "options", "message"), REFUSED)
def test_arguments_outside_of_a_theorem_are_refused(theorem, options, message):
    given = {"dim": 5, "accuracy": 0.1, "budget": ZCDP(0.5), **options}
    raises(InputError, message, order_bounds, theorem, **given)


@pytest.mark.parametrize(
    ("theorem", "notion"), [("B.5", ApproxDP), ("C.23", ZCDP), ("C.29", PureDP)]
)
def test_the_notion_belongs_to_the_theorem(theorem, notion):
    raises(BudgetError, f"theorem {theorem}", bounds, theorem, notion)
    raises(BudgetError, None, bounds, theorem, notion, budget=0.5)
