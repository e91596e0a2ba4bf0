import json
import math

import pytest

from fastpubpriv import ZCDP, ApproxDP, BudgetError, InputError, PureDP
from fastpubpriv.planning import OrderBounds, order_bounds
from fastpubpriv.planning.orders import THEOREMS

BUDGETS = {ZCDP: ZCDP(rho=0.25), PureDP: PureDP(epsilon=0.5), ApproxDP: ApproxDP(epsilon=0.5, delta=1e-6)}
COMMON = {"dim": 20, "accuracy": 0.1, "failure_prob": 0.05}
MIXTURE = {"n_components": 4, "min_weight": 0.2, "mean_radius": 100.0, "cond_max": 50.0}
CASES = [(theorem, notion) for theorem, (notions, _) in THEOREMS.items() for notion in notions]


def bounds(theorem, notion, **options):
    extra = MIXTURE if theorem.startswith("C") else {"mean_radius": 1e6} if theorem == "B.1" else {}
    return order_bounds(theorem, **({"budget": BUDGETS[notion]} | COMMON | extra | options))


@pytest.mark.parametrize(("theorem", "notion"), CASES)
def test_every_theorem(theorem, notion):
    found = bounds(theorem, notion)
    assert found.label == "up to constants and logs"
    assert found.label in repr(found)
    assert theorem in found.theorem
    assert all(0.0 < value < math.inf for value in found.terms.values())
    assert found.n_priv == pytest.approx(sum(found.terms.values()))
    tripled = bounds(theorem, notion, constant=3.0)
    assert tripled.terms == pytest.approx({name: 3 * value for name, value in found.terms.items()})
    assert tripled.n_pub == found.n_pub
    # More of anything that is hard needs no fewer rows.
    assert bounds(theorem, notion, accuracy=0.05).n_priv > found.n_priv
    assert bounds(theorem, notion, dim=40).n_priv > found.n_priv
    assert bounds(theorem, notion, failure_prob=0.001).n_priv > found.n_priv
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["label"] == found.label
    assert data["n_priv"] == found.n_priv


def test_terms_by_hand():
    found = order_bounds("B.2", dim=50, accuracy=0.1, budget=ZCDP(rho=0.25), failure_prob=0.05)
    tail = math.log(20)
    assert list(found.terms.values()) == pytest.approx([(50 + tail) / 0.01, 50 * tail**1.5 / (0.1 * 0.5)])
    assert found.n_pub == 1
    found = order_bounds("B.1", dim=9, accuracy=0.1, budget=ZCDP(rho=0.25), failure_prob=0.05, mean_radius=100)
    assert list(found.terms.values()) == pytest.approx([(9 + tail) / 0.01, 3 * 103 * tail / (0.1 * 0.5)])
    assert found.n_pub == 0
    found = order_bounds("B.5", dim=10, accuracy=0.1, budget=PureDP(epsilon=2), failure_prob=0.05)
    assert list(found.terms.values()) == pytest.approx(
        [(100 + tail) / 0.01, 100 * math.log(10 / (0.1 * 0.05)) / (0.1 * 2)]
    )
    assert found.n_pub == 11
    found = order_bounds(
        "C.28", dim=10, accuracy=0.1, budget=ApproxDP(1, 1e-6), failure_prob=0.05, n_components=4, min_weight=0.25
    )
    many = math.log(4e6)
    polylog = math.log(10 * (4 / 0.05) * 10 * 2 * many)
    assert list(found.terms.values()) == pytest.approx(
        [100 * math.log(80) / (0.25 * 0.01), (100 * many + 10 * many**1.5) * polylog / (0.25 * 0.1)]
    )
    assert found.n_pub == pytest.approx(10 * math.log(80) / 0.25)


def test_what_the_paper_says_about_its_theorems():
    # A gap costs logarithms only, and at gap 0 nothing.
    near, far = bounds("B.12", ZCDP), bounds("B.12", ZCDP, pub_priv_gap=1 - 1e-12)
    assert near.n_priv == pytest.approx(bounds("B.5", ZCDP).n_priv)
    assert near.n_priv < far.n_priv < 100 * near.n_priv
    # Public rows in proportion to the dimension take the term of private PCA away.
    few, many = bounds("C.23", ApproxDP), bounds("C.28", ApproxDP)
    assert {*few.terms} - {*many.terms} == {"d^1.5 k^2.5 log(k / delta) / epsilon"}
    assert many.n_pub == pytest.approx(20 * few.n_pub)
    # Ranges enter as log(R), sqrt(log(K)) only.
    wide = bounds("C.24", ZCDP, mean_radius=1e12, cond_max=1e12)
    assert bounds("C.24", ZCDP).n_priv < wide.n_priv < 2 * bounds("C.24", ZCDP).n_priv


def test_a_public_row_takes_the_range_away():
    far = bounds("HKM22", PureDP, mean_radius=1e30)
    assert bounds("HKM22", PureDP).n_priv < far.n_priv
    assert {*far.terms} - {*bounds("HKM22", PureDP).terms} == {"(d log R + min(d, log R) log(1/beta)) / epsilon"}
    assert bounds("B.1", ZCDP).n_priv > 10 * bounds("B.2", ZCDP).n_priv


def test_extreme_arguments_stay_finite():
    found = bounds("C.23", ApproxDP, budget=ApproxDP(1e-3, 1e-30), failure_prob=1e-90, accuracy=1e-6, dim=10**6)
    assert isinstance(found, OrderBounds)
    assert math.isfinite(found.n_priv)


@pytest.mark.parametrize(
    ("theorem", "options", "message"),
    [
        ("B.3", {}, "theorem"),
        ("B.1", {}, "range"),
        ("B.2", {"accuracy": 0.0}, "accuracy"),
        ("B.2", {"dim": 0}, "dim"),
        ("B.2", {"constant": 0.0}, "constant"),
        ("B.12", {"pub_priv_gap": 1.0}, "pub_priv_gap"),
        ("C.24", {"n_components": 2, "min_weight": 0.1}, "ranges"),
        ("C.29", {}, "mixtures"),
        ("C.29", {"n_components": 4, "min_weight": 0.3}, "min_weight"),
    ],
)
def test_arguments_outside_of_a_theorem_are_refused(theorem, options, message):
    with pytest.raises(InputError, match=message):
        order_bounds(theorem, **({"dim": 5, "accuracy": 0.1, "budget": ZCDP(rho=0.5)} | options))


@pytest.mark.parametrize(("theorem", "notion"), [("B.5", ApproxDP), ("C.23", ZCDP), ("C.29", PureDP)])
def test_the_notion_belongs_to_the_theorem(theorem, notion):
    with pytest.raises(BudgetError, match=f"theorem {theorem}"):
        bounds(theorem, notion)
    with pytest.raises(BudgetError):
        bounds(theorem, notion, budget=0.5)
