"""`plan`: solving forwards and backwards agree, and hostile arguments are refused."""

import json
import math

import pytest

from fastpubpriv import ZCDP, ApproxDP, BudgetError, InputError, PureDP, plan

TASKS = {
    "mean": {"n_pub": 2, "dim": 20, "clipping": "gaussian"},
    "mean by counts": {"n_pub": 2, "dim": 20},
    "coinpress_mean": {"radius": 100.0, "dim": 20},
    "weighted_mean": {"n_pub": 50, "dim": 20, "norm_bound": 4.0},
    "select_hypothesis": {"dim": 1, "candidates": 500},
}
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("notion", BUDGETS)
@pytest.mark.parametrize("steps", [2, "auto"])
def test_three_ways_agree(task, notion, steps):
    options = {**TASKS[task], **({"steps": steps} if task in ("mean", "coinpress_mean") else {})}
    task = task.removesuffix(" by counts")
    forwards = plan(task, n_priv=5000, budget=BUDGETS[notion], **options)
    assert forwards.solved_for == "error"
    rows = plan(task, budget=BUDGETS[notion], error=forwards.error, **options)
    assert rows.solved_for == "n_priv"
    assert abs(rows.n_priv - 5000) <= 1
    delta = 1e-6 if notion == "approx" else None
    budget = plan(task, n_priv=5000, error=forwards.error, notion=notion, delta=delta, **options)
    assert budget.solved_for == "budget"
    assert float(budget.budget.amounts[0]) == pytest.approx(float(BUDGETS[notion].amounts[0]), rel=1e-6)
    assert budget.error <= forwards.error * (1 + 1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_more_rows_and_more_budget_never_hurt(task):
    options = TASKS[task]
    task = task.removesuffix(" by counts")
    errors = [plan(task, n_priv=n, budget=ZCDP(0.5), **options).error for n in (100, 1000, 10_000, 10**6)]
    assert errors == sorted(errors, reverse=True)
    errors = [plan(task, n_priv=1000, budget=ZCDP(rho), **options).error for rho in (1e-3, 0.1, 1, 100)]
    assert errors == sorted(errors, reverse=True)


def test_alternatives_and_json():
    result = plan("weighted_mean", n_priv=5000, budget=ZCDP(0.5), **TASKS["weighted_mean"])
    assert result.error <= min(result.details["throw_away"], result.details["gaussian"])
    assert result.details["without_privacy"] < result.error
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["solved_for"] == "error"
    alone = plan("weighted_mean", n_priv=5000, budget=ZCDP(0.5), dim=3, norm_bound=1.0)
    assert json.loads(json.dumps(alone.to_dict(), allow_nan=False))["details"]["throw_away"] is None


def test_out_of_reach():
    with pytest.raises(InputError, match="no budget reaches"):
        plan("mean", n_priv=10, error=1e-3, **TASKS["mean"])
    with pytest.raises(InputError, match="no number of rows"):
        plan("mean", budget=ZCDP(0.5), error=1e-9, **TASKS["mean"])


@pytest.mark.parametrize(
    ("task", "options", "kind"),
    [
        ("median", {}, InputError),
        ("mean", {"n_pub": 0}, InputError),
        ("mean", {"dim": 0}, InputError),
        ("mean", {"dim": 2.0}, InputError),
        ("mean", {"n_priv": None}, InputError),
        ("mean", {"error": 0.1}, InputError),
        ("mean", {"n_priv": 0}, InputError),
        ("mean", {"n_priv": True}, InputError),
        ("mean", {"budget": 0.5}, (InputError, BudgetError)),
        ("mean", {"budget": None, "error": math.nan}, InputError),
        ("mean", {"budget": None, "error": 0.1, "notion": "approx"}, InputError),
        ("mean", {"budget": None, "error": 0.1, "delta": 1e-6}, InputError),
        ("mean", {"steps": 0}, InputError),
        ("mean", {"steps": "some"}, InputError),
        ("mean", {"mode": "fast"}, InputError),
        ("mean", {"failure_prob": 1.0}, InputError),
        ("mean", {"pub_priv_gap": 1.0}, InputError),
        ("coinpress_mean", {"radius": None}, InputError),
        ("coinpress_mean", {"radius": math.inf}, InputError),
        ("weighted_mean", {"norm_bound": None}, InputError),
        ("weighted_mean", {"norm_bound": 1e200}, InputError),
        ("weighted_mean", {"noise": "k_norm"}, InputError),
        ("weighted_mean", {"row_weight": "throw_away", "n_pub": 0}, InputError),
        ("weighted_mean", {"row_weight": 0.5, "n_priv": 10}, InputError),
    ],
)
def test_arguments_are_checked(task, options, kind):
    arguments = {"n_priv": 5000, "budget": ZCDP(0.5), **TASKS.get(task, {"dim": 2}), **options}
    with pytest.raises(kind):
        plan(task, **arguments)
