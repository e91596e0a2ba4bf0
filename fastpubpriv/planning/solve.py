"""`plan`: solve for one of rows, budget and predicted error of an estimator, given the other two."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib import import_module
from typing import Any

from fastpubpriv import validation
from fastpubpriv._types import Notion, PlanTask
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.coinpress import Predictor
from fastpubpriv.planning import forecasts
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.results.base import Value, explain, readers_epsilon
from fastpubpriv.results.fields import value_class
from fastpubpriv.results.result_tables import Facts, Table
from fastpubpriv.sources.person_table import MOST_ROWS


class _Tasks(dict[str, Any]):
    """Functions of the tasks, each imported on first access, because importing all would slow down the first call."""

    def __getitem__(self, task: str) -> Callable[..., forecasts.Forecast]:
        function: Callable[..., forecasts.Forecast] = getattr(
            import_module(super().__getitem__(task)), f"plan_{task}"
        )
        return function


TASKS: Mapping[str, Callable[..., forecasts.Forecast]] = _Tasks(
    dict.fromkeys(
        (
            "mean",
            "coinpress_mean",
            "weighted_mean",
            "gaussian",
            "quantiles",
            "counts",
            "count_persons",
        ),
        "fastpubpriv.planning.forecasts",
    )
    | dict.fromkeys(
        ("separated_mixture", "axis_aligned_mixture", "select_hypothesis"),
        "fastpubpriv.planning.mixture_forecasts",
    )
    | {"train": "fastpubpriv.planning.training_forecasts"}
)
NOTIONS: dict[str, type[Budget]] = {"zcdp": ZCDP, "approx": ApproxDP, "pure": PureDP}
GUESS = "is_a_guess"
EPSILON = "implied_epsilon"
GUESSED = (
    "there are no more public rows than coefficients: a line goes through them all, and what of a label is noise does not show; "
    "every predicted error may be far too small"
)
# Structures of a Gaussian: description of the choice, and of the errors.
_RUNGS = {
    "public": ("the public rows alone", "public rows alone"),
    "mean": ("the public covariance and a private mean", "private mean"),
    "diagonal": ("private variances along public axes", "private variances"),
    "full": ("a full private covariance", "full"),
}
# Methods of `train`.
_METHODS = {
    "newton": "Newton steps",
    "throw_away": "the public rows alone",
    "semi_dp": "semi-private gradient descent",
    "dp_sgd": "noisy gradient descent on private rows alone",
    "pda_mirror_descent": "mirror descent",
    "output_perturbation": "noise on the minimum of the loss",
    "exponential": "a choice among models that public rows suggest",
}
_OF_METHODS = {
    **{f"takes_{name}": f"takes {words} (1: yes)" for name, words in _METHODS.items()},
    **{name: f"error of {words}" for name, words in _METHODS.items()},
}
# Meaning of the arguments that a task cannot do without.
REQUIRED = {
    "dim": "the number of columns",
    "radius": "that of the ball that holds the mean",
    "norm_bound": "the radius to which rows are clipped",
    "cells": "the combinations of keys, with '(other)' and '(missing)', or of bins",
    "n_components": "the number of components",
    "candidates": "the length of the list",
}
# Meaning of each number in `details`.
MEANINGS = {
    "steps": "steps",
    "radius": "radius of the prior ball",
    "clip_radius": "clip radius of the last step",
    "noise_std": "noise per column",
    "private_weight": "weight of the private rows",
    "without_privacy": "error without privacy",
    "public_rows_alone": "error of the public rows alone",
    "count_share": "share of the budget that counts",
    "count_std": "noise of a count, in rows",
    "noise_rows": "noise of the rank, in rows",
    "smallest_group": "rows from which a group has a mean",
    "smallest_share": "least share of the rows that a count shows",
    "gaussian": "error of one Gaussian on all rows",
    "rounds": "rounds of the covariance",
    "unresolved": "rounds are too few (1: yes)",
    **{f"takes_{name}": f"takes {words} (1: yes)" for name, (words, _) in _RUNGS.items()},
    **{
        f"{name}_covariance_error": f"error of the covariance, {words}"
        for name, (_, words) in _RUNGS.items()
    },
    **{f"{name}_mean_error": f"error of the mean, {words}" for name, (_, words) in _RUNGS.items()},
    "mean_error": "error of the mean, in standard deviations",
    "condition": "condition number allowed for",
    "mean_radius": "distance of the mean allowed for",
    "total_variation": "total variation",
    "search_depth": "cuts on the way to a group",
    "search_share": "share of the budget that finds the groups",
    "public_rows_worst_case": "public rows, in the worst case",
    "direction_noise": "noise on a group's directions",
    "epsilon": "epsilon of the choice",
    "choice": "error of the choice",
    "comparisons": "comparisons",
    "closed_form_rows": "rows, by the looser closed form",
    "candidates": "candidates that are chosen from",
    "distant_components_rows": "rows that components far apart need",
    "choice_rows": "rows that choose",
    "seconds": "seconds on one core, roughly",
    "list_decoding_accuracy": "the paper's proof, at accuracy",
    "list_decoding_log10_candidates": "its candidates, as a power of ten",
    "list_decoding_rows": "its rows",
    "list_decoding_scales": "its scales for a column",
    "list_decoding_means_per_scale": "its means for a scale",
    "list_decoding_weights": "its vectors of weights",
    "noise_multiplier": "noise of a step, over the bound on a row",
    **_OF_METHODS,
    "is_a_guess": "no more public rows than coefficients: all errors here are guesses, and may be far too small (1: yes)",
    EPSILON: "epsilon of the budget, for zCDP at delta = 1e-6",
    "worth_rows": "private rows from which they are worth it",
    "worth_budget": "rho or epsilon from which private rows are worth it",
    "minimax_public": "order of the best rate, public rows alone",
    "minimax_private": "order of the best rate, all rows",
    "minimax_public_decides": "public rows alone have the best rate (1: yes; 0: they help by a constant)",
    "minimax_public_rows": "public rows from which they alone have the best rate",
}


@value_class
class Plan(Value):
    """A consistent triple of rows, budget and predicted error.

    Attributes
    ----------
    task : str
        Name of the estimator.
    n_priv : int
        Private rows.
    budget : ZCDP, ApproxDP or PureDP
        Privacy budget.
    error : float
        Predicted error, see `unit`; infinite if a Gaussian's covariance cannot be resolved.
    unit : str
        Kind of error, and its unit.
    solved_for : str
        "error", "n_priv" or "budget": the one that was not given.
    details : mapping of str to float
        Steps, radii, noise level and errors of the alternatives, all from public numbers.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> found = fpp.plan("mean", dim=5, n_pub=1, n_priv=10_000, error=0.05)
    >>> found.solved_for, found.budget.rho < 0.5, found.error <= 0.05
    ('budget', True, True)
    """

    task: str
    n_priv: int
    budget: Budget
    error: float
    unit: str
    solved_for: str
    details: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        facts = f"n_priv={self.n_priv}, budget={self.budget!r}, error={self.error:.4g}"
        guess = "; a guess, from too few public rows" if self.details.get(GUESS) else ""
        return f"Plan({self.task}: {facts}; solved for {self.solved_for}{guess})"

    def _table(self, level: float) -> Table:
        names = {"n_priv": self.n_priv, "error": self.error, **dict(sorted(self.details.items()))}
        meanings = {"n_priv": "private rows", "error": self.unit, **MEANINGS}
        explained = [
            meanings.get(name, "") + (" <- worked out" if name == self.solved_for else "")
            for name in names
        ]
        columns = [("value", list(names.values())), ("meaning", explained)]
        return Table("number", list(names), columns)

    def _facts(self, level: float) -> Facts:
        mark = " <- worked out" if self.solved_for == "budget" else ""
        price = explain(self.budget, epsilon=self.details.get(EPSILON))
        guess = [("A guess", GUESSED)] if self.details.get(GUESS) else []
        return [("Task", self.task), ("Budget", f"{price}{mark}"), *guess]


def _solve_budget(
    predict: Predictor, n_priv: int, error: float, make: Callable[[float], Budget]
) -> Budget:
    """Return the least budget, to a relative 1e-9, with a predicted error of at most `error`. Raise InputError if there is none."""

    def reaches(amount: float) -> bool:
        return predict(n_priv, make(amount))[0] <= error

    def is_payable(amount: float) -> bool:
        try:
            predict(n_priv, make(amount))
        except BudgetError:
            return False
        return True

    low, high = forecasts.amounts_tried(make(1.0))
    # A row of a person has no delta left where the epsilon of all is large, and no epsilon where it is small.
    while not is_payable(high) and high > 2.0 * low:
        high /= 2.0
    while not is_payable(low) and high > 2.0 * low:
        low *= 2.0
    if not reaches(high):
        raise InputError(
            f"no budget reaches an error of {error:.3g} with {n_priv} rows; pass a larger error or more rows"
        )
    return make(low if reaches(low) else forecasts.halve(low, high, reaches, 1.0 + 1e-9))


def _parameters(task: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(TASKS[validation.choice("task", task, TASKS)]).parameters


def task_arguments(task: str) -> tuple[str, ...]:
    """Return the arguments of a task, besides rows, budget and error.

    Examples
    --------
    >>> from fastpubpriv.planning import task_arguments
    >>> "n_components" in task_arguments("separated_mixture")
    True
    """
    return tuple(_parameters(task))


def plan(
    task: PlanTask,
    *,
    n_priv: int | None = None,
    budget: Budget | None = None,
    error: float | None = None,
    notion: Notion = "zcdp",
    delta: float | None = None,
    rows_per_person: int | None = None,
    **arguments: Any,
) -> Plan:
    """Predict the error of an estimator, or solve for the rows or the budget that reach a wanted error.

    Give exactly two of `n_priv`, `budget` and `error`; the third is solved for.

    Parameters
    ----------
    task : str
        One of `fastpubpriv.planning.TASKS`: "mean" (`estimate_mean`), "coinpress_mean", "weighted_mean",
        "gaussian" (`estimate_gaussian`), "quantiles", "counts" (`value_counts`), "count_persons", "separated_mixture"
        (`learn_separated_mixture`), "axis_aligned_mixture" (`learn_axis_aligned_mixture`), "select_hypothesis", "train".
    n_priv, budget, error
        Private rows; privacy budget; target error. The error of "mean" and "coinpress_mean" is the expected l2 distance in standard
        deviations; that of "weighted_mean" is the root mean squared l2 distance in data units; that of "gaussian" is the relative
        Frobenius error of the covariance (the mean's is in `details`), for "separated_mixture" that of the smallest component
        given that it was identified; that of "axis_aligned_mixture" is the expected distance of the mean of an average component,
        in its standard deviations; that of "select_hypothesis", and of method "list_decoding", is the slack beyond three times the
        best total variation in the list. That of "train" is the excess of the loss over that of the best coefficients: of
        the squared error, in units of the labels' variance, or of the log-loss.
        Those of "quantiles" and "counts" are shares of the rows, that of "count_persons" is a share of the persons (`n_priv`).
    notion, delta
        Notion of the budget that is solved for: "zcdp", "pure", or "approx" with its delta.
    rows_per_person
        Rows of each person, for calls with `person=` and this number: `n_priv` is then the number of persons, and the budget that
        of all rows of a person, of which 1/64 counts the persons with more. Errors are those of persons who all have so many rows,
        as unrelated as those of different persons; `details` lacks what other rows or budgets would give. Not for "count_persons".
    arguments
        Those of the task; others raise InputError. Meaning and defaults are those of the estimator, unless stated otherwise:

        - all tasks but "counts" and "count_persons": `dim`, the number of columns (required).
        - "quantiles": `n_pub` (at least 1), `q`, and `groups`, the number of groups of equal size.
        - "counts": `cells`, the number of combinations of keys or bins (required); 3 edges make 5 cells.
        - "count_persons": `cells` (required), and `keys_per_person`, a number; by default all keys count.
        - "mean": `n_pub` (at least 1), `clipping`; `groups` for `by=`, all of equal size;
          with clipping="gaussian", for a known covariance, also `pub_priv_gap`, `steps`,
          `mode`, `failure_prob`.
        - "coinpress_mean": `radius` of the prior ball, in standard deviations (required); `steps`, `mode`, `failure_prob`.
        - "weighted_mean": `norm_bound` (required), `n_pub`, `variance` (default norm_bound^2), `row_weight`, `noise`.
        - "gaussian": `n_pub` (at least 2; from dim + 1 a Gaussian is preconditioned), `method`, `pub_priv_gap`, `mode`, `cond_max`,
          `failure_prob`.
        - "separated_mixture": `n_components` (required), `min_weight`, `n_pub` (at least one for each component, or 0 for
          none, for which the budget needs a delta or the columns `bounds`), `method`, `mode`, `failure_prob`.
        - "axis_aligned_mixture": `n_components` (required), `n_pub`, `method`, `bounds`, `failure_prob`, and `accuracy`, for
          which `details` has the paper's list sizes and rows, default 0.1.
        - "select_hypothesis": `candidates`, the length of the list (required); `failure_prob`.
        - "train": `n_pub` (at least 2), `n_labeled`, how many of these have a label, default all, `loss` ("squared", "logistic" or
          "huber"), `method` (not "exponential"), and `r_squared`, the share of the labels' variance that the best model explains,
          default 0.5. `dim` counts the columns without the label; one with k levels (`categories=`) is k - 1 of them, whatever its
          `reference=`.
          `mean_weight`, for private rows with weights, is the mean weight in units of `weight_cap`.

    Returns
    -------
    Plan
        Rows, budget and error, with the errors of the alternatives in `details`.

    Raises
    ------
    InputError, BudgetError
        Not exactly two of the three given, arguments out of range, or an error that no rows or no budget reach.

    Privacy
    -------
    Reads no data.

    Notes
    -----
    The recursion of CoinPress with predicted radii (paper A, section 2.1), and equation 5 of paper B, which holds with
    equality. A Gaussian has the closed form of the last release, for the number of rounds of the public rule. The noise is that
    of an infinitely fine grid; the actual grid adds less than one percent.

    "train" runs the predictions of `fastpubpriv.train` on synthetic public rows: independent normal columns, equally
    informative, the same rows in every call. With no more of them than coefficients every error is a guess, which may be
    far too small: `details` then has `is_a_guess` 1, and the plan shows it. In `details`,
    `worth_rows` and `worth_budget` are the least private rows and the least rho or epsilon, to 0.1 %, for which the method is
    worthwhile: it reduces the error of the public rows alone by the tenth that "auto" requires. "auto" is that of `train`; for
    `linear_regression` and `logistic_regression`, which compare methods with intervals only, pass "newton".

    The `minimax` numbers are the two
    terms of paper B's rate for strongly convex losses, min(1 / n_pub, c / n^2 + 1 / n) with n = n_priv + n_pub,
    c = dim log(1 / delta) / epsilon^2, dim^2 / epsilon^2 or dim / rho, and all constants one. If the second term is smaller,
    public rows gain at most a constant factor.

    Examples
    --------
    >>> from fastpubpriv import ZCDP, PureDP, plan
    >>> plan("mean", dim=50, n_pub=1, n_priv=10_000, budget=ZCDP(rho=0.5), clipping="gaussian")
    Plan(mean: n_priv=10000, budget=ZCDP(rho=0.5), error=0.07203; solved for error)
    >>> plan("mean", dim=50, n_pub=1, budget=ZCDP(rho=0.5), error=0.1, clipping="gaussian").n_priv
    5394
    >>> plan("select_hypothesis", dim=1, candidates=1000, budget=PureDP(epsilon=1.0), error=0.1).n_priv
    4098
    >>> plan("gaussian", dim=10, n_pub=11, budget=ZCDP(rho=0.5), error=0.1).n_priv
    12976
    >>> found = plan("train", dim=10, n_pub=100, n_priv=1000, budget=ZCDP(rho=0.5))
    >>> round(found.error, 3), round(found.details["public_rows_alone"], 3), found.details["worth_rows"] < 100
    (0.005, 0.045, True)
    """
    if n_priv is not None:
        n_priv = validation.integer("n_priv", n_priv, minimum=1, maximum=forecasts.MOST_COUNT)
    if sum(value is None for value in (n_priv, budget, error)) != 1:
        raise InputError("give exactly two of n_priv, budget and error; the third is solved for")
    # Only the arguments of the task are accepted.
    allowed = _parameters(task)
    for name in arguments:
        if name not in allowed:
            raise InputError(
                f"plan({task!r}) has no argument {name!r}: leave it out; its arguments are {', '.join(allowed)}"
            )
    needed = [
        name
        for name, each in allowed.items()
        if each.default is each.empty and arguments.get(name) is None
    ]
    if needed:
        raise InputError(f"plan({task!r}) needs {needed[0]}=, {REQUIRED[needed[0]]}")
    checked = {
        name: check(arguments[name])
        for name, check in forecasts.CHECKS.items()
        if name in arguments
    }
    forecast = TASKS[task](**arguments | checked)
    if rows_per_person is not None:
        if task == "count_persons":
            raise InputError("plan('count_persons') counts all rows: leave out rows_per_person=")
        k = validation.integer("rows_per_person", rows_per_person, minimum=1, maximum=MOST_ROWS)
        forecast = forecasts.of_persons(forecast, k)
    predict = forecast.predict
    solved_for = "error"
    wanted = math.inf if error is None else validation.positive("error", error)
    if n_priv is None:
        assert budget is not None
        solved_for = "n_priv"
        given_budget = budget
        least = forecasts.turning_point(
            2, 1, forecasts.MOST_ROWS, lambda n: predict(n, given_budget)[0] <= wanted, 1.0
        )
        if math.isinf(least):
            raise InputError(
                f"no number of rows up to 2^40 reaches an error of {wanted:.3g}; pass a larger error or budget"
            )
        n_priv = int(least)
    elif budget is None:
        kind = NOTIONS[validation.choice("notion", notion, NOTIONS)]
        if (notion == "approx") != (delta is not None):
            raise InputError(
                "delta belongs to notion='approx', and notion='approx' needs it; for example delta=1e-6"
            )
        given = () if delta is None else (delta,)
        budget = _solve_budget(predict, n_priv, wanted, lambda amount: kind(amount, *given))
        solved_for = "budget"
    if not isinstance(budget, Budget):
        raise InputError(f"budget must be ZCDP, ApproxDP or PureDP, got {type(budget).__name__}")
    predicted, details = predict(n_priv, budget)
    details |= forecast.more(n_priv, budget)
    details[EPSILON] = readers_epsilon(budget, all_gaussian=forecast.gaussian(n_priv, budget))
    triple: dict[str, Any] = {"n_priv": n_priv, "budget": budget, "error": predicted}
    return Plan(task=task, **triple, unit=forecast.unit, solved_for=solved_for, details=details)
