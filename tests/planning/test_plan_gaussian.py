import json
import math

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, Plan, PureDP, estimate_gaussian, plan
from fastpubpriv.estimators import lifted


@pytest.mark.parametrize("n_pub", [2, 5, 6, 40])
@pytest.mark.parametrize(
    "budget", [ZCDP(rho=0.5), ApproxDP(epsilon=2.0, delta=1e-6), PureDP(epsilon=8.0)], ids=["zcdp", "approx", "pure"]
)
def test_the_plan_is_what_the_estimator_predicts(n_pub, budget):
    rng = np.random.default_rng(n_pub)
    rows, public = rng.standard_normal((100_000, 5)), rng.standard_normal((n_pub, 5))
    options = {"pub_priv_gap": 0.2, "failure_prob": 0.1, "cond_max": 50.0}
    planned = plan("gaussian", dim=5, n_pub=n_pub, n_priv=100_000, budget=budget, **options)
    result = seeded(estimate_gaussian, rows, x_pub=public, budget=budget, **options)
    assert planned.error == pytest.approx(result.predicted_covariance_error, rel=1e-9)
    assert planned.details["mean_error"] == pytest.approx(result.predicted_mean_error, rel=1e-9)
    assert planned.details["rounds"] == result.rounds
    assert planned.solved_for == "error"


def test_closed_forms():
    planned = plan("gaussian", method="lifted_coinpress", dim=10, n_pub=11, n_priv=20_000, budget=ZCDP(rho=0.5))
    clip = 1 + math.sqrt(10 + 2 * math.sqrt(10 * math.log(10)) + 2 * math.log(10))
    noise = clip**2 / (20_000 * math.sqrt(0.6 * 0.9 * 0.5))
    assert planned.error == pytest.approx(math.sqrt(110 / 20_000 + noise**2 * 55), rel=1e-6)
    assert planned.details["clip_radius"] == pytest.approx(clip)
    assert planned.details["without_privacy"] == pytest.approx(math.sqrt(110 / 20_000))
    assert planned.details["total_variation"] < planned.error
    # The figures of the specification.
    fifty = plan("gaussian", method="lifted_coinpress", dim=50, n_pub=51, n_priv=200_000, budget=ZCDP(rho=0.5))
    assert fifty.error <= 0.125
    assert fifty.details["without_privacy"] == pytest.approx(0.113, abs=1e-3)
    assert fifty.details["rounds"] in (7, 8)


def test_solves_for_rows():
    found = plan("gaussian", method="lifted_coinpress", dim=10, n_pub=11, budget=ZCDP(rho=0.5), error=0.1)
    assert (found.solved_for, found.error <= 0.1) == ("n_priv", True)
    fewer = plan("gaussian", method="lifted_coinpress", dim=10, n_pub=11, n_priv=found.n_priv - 1, budget=ZCDP(rho=0.5))
    assert fewer.error > 0.1


@pytest.mark.parametrize(("notion", "delta"), [("zcdp", None), ("approx", 1e-6), ("pure", None)])
def test_solves_for_the_budget(notion, delta):
    found = plan(
        "gaussian", method="lifted_coinpress", dim=3, n_pub=4, n_priv=200_000, error=0.05, notion=notion, delta=delta
    )
    assert found.solved_for == "budget"
    assert found.error <= 0.05
    amount = float(getattr(found.budget, "rho", None) or found.budget.epsilon)
    less = type(found.budget)(*([amount * 0.98] + ([delta] if delta else [])))
    assert plan("gaussian", method="lifted_coinpress", dim=3, n_pub=4, n_priv=200_000, budget=less).error > 0.05


def test_an_unresolvable_covariance_has_no_finite_error():
    # Too few rounds would be catastrophic, so the closed form must not be quoted.
    planned = plan("gaussian", method="lifted_coinpress", dim=100, n_pub=101, n_priv=30_000, budget=ZCDP(rho=0.5))
    assert planned.error == math.inf
    assert planned.details["under_resolved"] == 1.0
    json.dumps(planned.to_dict(), allow_nan=False)


def test_more_public_rows_save_rounds_and_a_gap_costs_some():
    def rounds(n_pub, gap=0.0):
        return plan(
            "gaussian",
            method="lifted_coinpress",
            dim=10,
            n_pub=n_pub,
            n_priv=50_000,
            budget=ZCDP(rho=0.5),
            pub_priv_gap=gap,
        ).details["rounds"]

    assert rounds(11) > rounds(30) >= rounds(1000)
    assert rounds(30, gap=0.9) > rounds(30)


def test_the_last_round_sets_the_error(monkeypatch):
    before = plan("gaussian", method="lifted_coinpress", dim=5, n_pub=6, n_priv=50_000, budget=ZCDP(rho=0.5)).error
    monkeypatch.setattr(lifted, "LAST_SHARE", lifted.LAST_SHARE / 4)
    assert (
        plan("gaussian", method="lifted_coinpress", dim=5, n_pub=6, n_priv=50_000, budget=ZCDP(rho=0.5)).error > before
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_pub": 1}, "n_pub"),
        ({"cond_max": 0.0}, "cond_max"),
        ({"pub_priv_gap": 1.0}, "pub_priv_gap"),
        ({"failure_prob": 2.0}, "failure_prob"),
        ({"dim": 0}, "dim"),
        ({"error": 0.1}, "exactly two"),
    ],
)
def test_what_cannot_be_planned_is_refused(options, message):
    arguments = {"dim": 3, "n_pub": 4, "n_priv": 1000, "budget": ZCDP(rho=0.5)} | options
    with pytest.raises(InputError, match=message):
        plan("gaussian", **arguments)


def test_nothing_reaches_an_error_of_zero():
    with pytest.raises(InputError, match="no budget reaches"):
        plan("gaussian", method="lifted_coinpress", dim=3, n_pub=4, n_priv=1000, error=0.01)
    assert isinstance(plan("gaussian", method="lifted_coinpress", dim=3, n_pub=4, n_priv=1000, error=1.0), Plan)
