"""Cases of planning: plans, orders of bounds, and what proofs require. Accounting has exact oracles in tests/privacy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from golden_case import Case, public
from golden_data import APPROX, BUDGETS

import fastpubpriv as fpp
from benchmarks.papers import regularity


def plans() -> Iterator[Case]:
    mixture = {"n_components": 2, "n_pub": 50}
    tasks: dict[str, tuple[dict[str, Any], float]] = {
        "mean": ({"dim": 5, "n_pub": 4, "clipping": "gaussian"}, 0.1),
        "coinpress_mean": ({"dim": 5, "radius": 30.0}, 0.1),
        "weighted_mean": ({"dim": 5, "n_pub": 100, "norm_bound": 2.0}, 0.02),
        "gaussian": ({"dim": 4, "n_pub": 12}, 0.3),
        "separated_mixture": (
            {"dim": 4, "n_pub": 60, "n_components": 3, "min_weight": 0.2, "method": "public_pca"},
            0.5,
        ),
        "select_hypothesis": ({"dim": 1, "candidates": 500}, 0.2),
        "axis_aligned_mixture": ({"dim": 2, **mixture}, 0.1),
    }
    for task, (options, error) in tasks.items():
        for name, budget in BUDGETS.items():
            yield public(
                f"plan, {task}, error, {name}",
                fpp.plan,
                task,
                **options,
                n_priv=20_000,
                budget=budget,
            )
        if task in {"mean", "gaussian", "select_hypothesis"}:
            yield public(
                f"plan, {task}, rows, zcdp",
                fpp.plan,
                task,
                **options,
                budget=BUDGETS["zcdp"],
                error=error,
            )
    mean, error = tasks["mean"]
    yield public(
        "plan, mean, budget, zcdp",
        fpp.plan,
        "mean",
        **mean,
        n_priv=50_000,
        error=error,
        notion="zcdp",
    )
    counted = {"dim": 5, "n_pub": 4, "n_priv": 20_000}
    yield public("plan, mean by counts, zcdp", fpp.plan, "mean", **counted, budget=BUDGETS["zcdp"])
    yield public(
        "plan, train, error, approx", fpp.plan, "train", dim=3, n_pub=40, n_priv=3000, budget=APPROX
    )


def orders() -> Iterator[Case]:
    radius = {"mean_radius": 10.0}
    weights = {"n_components": 3, "min_weight": 0.2}
    theorems: dict[str, dict[str, Any]] = {
        "B.1": radius,
        "B.2": {},
        "HKM22": radius,
        "B.5": {},
        "B.12": {"pub_priv_gap": 0.3},
        "C.23": weights,
        "C.24": {**radius, **weights, "cond_max": 100.0},
        "C.28": weights,
        "C.29": weights,
    }
    for theorem, options in theorems.items():
        call = {"dim": 7, "accuracy": 0.1, "budget": BUDGETS["zcdp"], **options}
        yield public(f"order_bounds, {theorem}, zcdp", fpp.order_bounds, theorem, **call)
    needs = {
        "n_priv": 10**5,
        "n_components": 4,
        "min_weight": 0.2,
        "accuracy": 0.2,
        "failure_prob": 0.05,
    }
    yield public("mixture_needs", regularity.mixture_needs, **needs)
    yield public(
        "condition_two",
        regularity.condition_two,
        [np.eye(500), np.diag(np.arange(1.0, 501.0) ** 3)],
        n_total=50,
    )


CASES = [*plans(), *orders()]
