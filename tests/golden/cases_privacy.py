"""Cases of accounting and planning: conversions, calibration, composition, plans, orders of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from golden_case import Case, public, steps
from golden_data import APPROX, BUDGETS

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, planning
from fastpubpriv.privacy import calibrated_budget, calibration, conversions
from fastpubpriv.privacy.conversions import stable_delta

HALF = Fraction(1, 2)
EPSILONS = (Fraction(1, 100), HALF, 1, 5, 60)
DELTAS = (1e-12, 1e-6, 0.01)
RHOS = (Fraction(1, 10**5), HALF, 8)

# Functions of accounting, each with the arguments that it is tried on.
TABLE: list[tuple[Any, list[tuple[Any, ...]], dict[str, Any]]] = [
    (conversions.gdp_delta, [(e, mu) for e in EPSILONS for mu in (0.01, 0.3, 4.0)], {}),
    (conversions.gdp_epsilon, [(d, mu) for d in DELTAS for mu in (0.01, 0.3, 4.0)], {}),
    (conversions.gdp_mu, [(e, d) for e in EPSILONS for d in DELTAS], {}),
    (conversions.gdp_rho, [(e, d) for e in EPSILONS for d in DELTAS], {}),
    (conversions.zcdp_delta, [(e, rho) for e in EPSILONS for rho in RHOS], {}),
    (conversions.zcdp_epsilon, [(d, rho) for d in DELTAS for rho in RHOS], {}),
    (conversions.zcdp_rho, [(e, d) for e in EPSILONS for d in DELTAS], {}),
    (conversions.bun_steinke_epsilon, [(d, rho) for d in DELTAS for rho in RHOS], {}),
    (conversions.bun_steinke_rho, [(e, d) for e in EPSILONS for d in DELTAS], {}),
    (conversions.best_epsilon, [(d, rho) for d in DELTAS for rho in RHOS], {"all_gaussian": True}),
    (conversions.pure_to_zcdp, [(e,) for e in EPSILONS], {}),
    (conversions.pure_to_zcdp_exact, [(e,) for e in EPSILONS], {}),
    (conversions.exponential_mechanism_rho, [(e,) for e in EPSILONS], {}),
    (conversions.group_rho, [(rho, 3) for rho in RHOS], {}),
    (conversions.group_mu, [(0.3, 3)], {}),
    (conversions.group_approx, [(e, d, 3) for e in (HALF, 5) for d in (0.0, 1e-9)], {}),
    (conversions.basic_composition, [([(0.5, 1e-6), (0.25, 0), (1, 1e-9)],)], {}),
    (conversions.advanced_composition, [(0.1, 1e-9, 100, 1e-6), (1.0, 0, 10, 1e-3)], {}),
    (conversions.optimal_composition_delta, [(0.1, 1e-9, 100, 2.0), (1.0, 0, 10, 4.0)], {}),
    (conversions.optimal_composition_epsilon, [(0.1, 1e-9, 100, 1e-6), (1.0, 0, 200, 1e-3)], {}),
    (calibrated_budget.total_variation, [(0,), (10**6,)], {}),
    (calibrated_budget.approx_slack, [(e, 10**6) for e in EPSILONS], {}),
    (calibrated_budget.pure_slack, [(e, 10**6) for e in EPSILONS], {}),
    (calibrated_budget.gaussian_rho, [(b, n) for b in (ZCDP(HALF), APPROX, ApproxDP(8, 1e-9)) for n in (1, 10**6)], {}),
    (calibrated_budget.gaussian_rho_beside, [(APPROX, n, Fraction(1, 8), Fraction(1, 10**7)) for n in (1, 10**6)], {}),
    (calibrated_budget.laplace_epsilon, [(b, n) for b in BUDGETS.values() for n in (1, 10**6)], {}),
    (calibration.clip_steps, [(1000, 17), (2**20, 1)], {}),
    (calibration.step, [(2.5, 1000, 17)], {}),
    (calibration.gaussian_sum_grid, [(rho, 7, 10**5) for rho in RHOS], {}),
    (calibration.gaussian_gram_grid, [(rho, 7, 10**5) for rho in RHOS], {}),
    (calibration.gaussian_count_grid, [(rho, 7, 10**5) for rho in RHOS], {}),
    (calibration.laplace_sum_grid, [(e, 7, 10**5) for e in EPSILONS], {}),
    (calibration.laplace_parts_grid, [(e, 3, 4, 10**5) for e in EPSILONS], {}),
    (calibration.parts_slack, [(3, 11)], {}),
    (calibration.laplace_gram_grid, [(e, 7, 10**5) for e in EPSILONS[1:]], {}),
    (calibration.laplace_count_grid, [(e, 7, 10**5) for e in EPSILONS], {}),
    (
        stable_delta,
        [("laplace", 3, 2**20, 2**25, 20, Fraction(6)), ("gaussian", 3, 2**18, 2**23, 20, Fraction(1))],
        {},
    ),
    (
        calibration.stable_event,
        [(e, d) for e in (HALF, 5) for d in DELTAS],
        {"histograms": 5, "n": 10**4, "draws": 10**4, "law": None},
    ),
    *[
        (function, [(HALF, *more)], {"pure": pure, **cells, "lineage": ("root", "child")})
        for pure in (False, True)
        for function, more, cells in (
            (calibration.cluster_sum_grid, (4, 1000), {"clusters": 3}),
            (calibration.cluster_gram_grid, (4, 1000), {"clusters": 3}),
            (calibration.cluster_count_grid, (1000,), {"clusters": 3}),
            (calibration.cluster_shell_grid, (4, 1000), {}),
        )
    ],
]


def answers(function: Any, arguments: list[tuple[Any, ...]], options: dict[str, Any]) -> list[Any]:
    """What a function says for each list of arguments; the kind of refusal where it refuses."""
    found: list[Any] = []
    for each in arguments:
        try:
            found.append(function(*each, **options))
        except fpp.FastPubPrivError as error:
            found.append(type(error).__name__)
    return found


def table() -> dict[str, list[Any]]:
    """What every function of the table says."""
    found: dict[str, list[Any]] = {}
    for function, arguments, options in TABLE:
        name = f"{function.__name__}{', pure' if options.get('pure') else ''}"
        found[name] = answers(function, arguments, options)
    return found


def accounting() -> Iterator[Case]:
    yield steps("accounting", table, *(function for function, _, _ in TABLE))


def plans() -> Iterator[Case]:
    mixture = {"n_components": 2, "n_pub": 50}
    tasks: dict[str, tuple[dict[str, Any], float]] = {
        "mean": ({"dim": 5, "n_pub": 4, "clipping": "gaussian"}, 0.1),
        "coinpress_mean": ({"dim": 5, "radius": 30.0}, 0.1),
        "weighted_mean": ({"dim": 5, "n_pub": 100, "norm_bound": 2.0}, 0.02),
        "gaussian": ({"dim": 4, "n_pub": 12}, 0.3),
        "separated_mixture": (
            {"dim": 4, "n_pub": 60, "n_components": 3, "min_weight": 0.2, "method": "public_pca"}, 0.5
        ),
        "select_hypothesis": ({"dim": 1, "candidates": 500}, 0.2),
        "axis_aligned_mixture": ({"dim": 2, **mixture}, 0.1),
    }  # fmt: skip
    for task, (options, error) in tasks.items():
        for name, budget in BUDGETS.items():
            yield public(f"plan, {task}, error, {name}", fpp.plan, task, **options, n_priv=20_000, budget=budget)
        if task in {"mean", "gaussian", "select_hypothesis"}:
            yield public(f"plan, {task}, rows, zcdp", fpp.plan, task, **options, budget=BUDGETS["zcdp"], error=error)
    mean, error = tasks["mean"]
    yield public("plan, mean, budget, zcdp", fpp.plan, "mean", **mean, n_priv=50_000, error=error, notion="zcdp")
    counted = {"dim": 5, "n_pub": 4, "n_priv": 20_000}
    yield public("plan, mean by counts, zcdp", fpp.plan, "mean", **counted, budget=BUDGETS["zcdp"])
    yield public("plan, train, error, approx", fpp.plan, "train", dim=3, n_pub=40, n_priv=3000, budget=APPROX)
    # Their names are those of the day; how many there are is not.
    yield steps(
        "arguments of plans",
        lambda: {task: len(planning.task_arguments(task)) for task in tasks},
        planning.task_arguments,
    )


def orders() -> Iterator[Case]:
    radius, weights = {"mean_radius": 10.0}, {"n_components": 3, "min_weight": 0.2}
    theorems: dict[str, dict[str, Any]] = {
        "B.1": radius, "B.2": {}, "HKM22": radius, "B.5": {}, "B.12": {"pub_priv_gap": 0.3}, "C.23": weights,
        "C.24": {**radius, **weights, "cond_max": 100.0}, "C.28": weights, "C.29": weights,
    }  # fmt: skip
    for theorem, options in theorems.items():
        call = {"dim": 7, "accuracy": 0.1, "budget": BUDGETS["zcdp"], **options}
        yield public(f"order_bounds, {theorem}, zcdp", fpp.order_bounds, theorem, **call)
    needs = {"n_priv": 10**5, "n_components": 4, "min_weight": 0.2, "accuracy": 0.2, "failure_prob": 0.05}
    yield public("mixture_needs", planning.mixture_needs, **needs)
    yield public(
        "condition_two", planning.condition_two, [np.eye(500), np.diag(np.arange(1.0, 501.0) ** 3)], n_total=50
    )


CASES = [*accounting(), *plans(), *orders()]
