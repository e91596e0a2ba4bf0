"""`plan`: solve for one of rows, budget and predicted error of an estimator, given the other two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastpubpriv import validation
from fastpubpriv._types import Notion, PlanTask
from fastpubpriv.errors import InputError
from fastpubpriv.planning.plans import EPSILON, Plan
from fastpubpriv.planning.search import budget_for, rows_for
from fastpubpriv.planning.tasks import MOST_COUNT, forecast_of, of_persons
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.results.base import readers_epsilon

NOTIONS: dict[str, type[Budget]] = {"zcdp": ZCDP, "approx": ApproxDP, "pure": PureDP}


def _budgets(notion: Any, delta: Any) -> Callable[[float], Budget]:
    """Return the budget of a notion as a function of its rho or epsilon. Raise InputError for a delta without "approx"."""
    kind: Callable[..., Budget] = NOTIONS[validation.choice("notion", notion, NOTIONS)]
    if (notion == "approx") != (delta is not None):
        raise InputError(
            "delta belongs to notion='approx', and notion='approx' needs it; for example delta=1e-6"
        )
    return kind if delta is None else lambda epsilon: kind(epsilon, delta)


def _solved_for(**triple: Any) -> str:
    """Return the name of the only one that is None. Raise InputError if there is another number of them."""
    missing = [name for name, value in triple.items() if value is None]
    if len(missing) == 1:
        return missing[0]
    given = ", ".join(name for name in triple if name not in missing) or "none of them"
    raise InputError(
        f"give exactly two of n_priv, budget and error; the third is solved for: got {given}"
    )


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
    """Error that an estimator is predicted to have, or the rows or the budget that reach a wanted error.

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
        as unrelated as those of different persons; `details` lacks what other rows or budgets would give. Not for "count_persons",
        and above 1 not for calls that take one row of each person.
    arguments
        Those of the task; others raise InputError. Meaning and defaults are those of the function, unless stated otherwise:

        - all tasks but "counts" and "count_persons": `dim`, the number of columns (required).
        - "quantiles": `n_pub` (at least 1), `q`, and `groups`, the number of groups of equal size.
        - "counts": `cells`, the number of combinations of keys or bins (required); 3 edges make 5 cells.
        - "count_persons": `cells` (required), and `keys_per_person`, a number; by default all keys count.
        - "mean": `n_pub` (at least 1), `clipping`; `groups` for `by=`, all of equal size;
          with clipping="gaussian", for a known covariance, also `pub_priv_gap`, `steps`,
          `mode`, `failure_prob`.
        - "coinpress_mean": `radius` of the prior ball, in standard deviations (required); `steps`, `mode`, `failure_prob`.
        - "weighted_mean": `norm_bound` (required), `n_pub`, `variance` (default norm_bound^2), `row_weight`.
        - "gaussian": `n_pub` (at least 2; from dim + 1 a Gaussian is preconditioned), `method`, `structure`, `pub_priv_gap`,
          `mode`, `cond_max`, `failure_prob`.
        - "separated_mixture": `n_components` (required), `min_weight`, `n_pub` (at least one for each component, or 0 for
          none, for which the budget needs a delta or the columns `bounds`), `method`, `mode`, `failure_prob`.
        - "axis_aligned_mixture": `n_components` (required), `n_pub`, `method`, `bounds`, `failure_prob`, and `accuracy`, for
          which `details` has the paper's list sizes and rows, default 0.1.
        - "select_hypothesis": `candidates`, the length of the list (required); `failure_prob`.
        - "train": `n_pub` (at least 2), `n_labeled`, how many of these have a label, default all, `loss` ("squared", "logistic" or
          "huber"), `method`, and `r_squared`, the share of the labels' variance that the best model explains,
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

    See Also
    --------
    fastpubpriv.planning.task_arguments : the arguments of a task.
    order_bounds : terms of a theorem, up to constants.

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
    solved_for = _solved_for(n_priv=n_priv, budget=budget, error=error)
    if n_priv is not None:
        n_priv = validation.integer("n_priv", n_priv, minimum=1, maximum=MOST_COUNT)
    if budget is not None:
        if not isinstance(budget, Budget):
            raise InputError(
                "budget must be ZCDP(rho=...), ApproxDP(epsilon=..., delta=...) or PureDP(epsilon=...), "
                f"got {type(budget).__name__}"
            )
        if notion != "zcdp" or delta is not None:
            raise InputError(
                "notion= and delta= say which budget is solved for, and budget= is given: leave them out, or budget="
            )
    wanted = math.inf if error is None else validation.positive("error", error)
    forecast = forecast_of(task, arguments)
    if rows_per_person is not None:
        forecast = of_persons(task, forecast, rows_per_person)
    if n_priv is None:
        assert budget is not None
        n_priv = rows_for(forecast.predict, budget, wanted)
    elif budget is None:
        budget = budget_for(forecast.predict, n_priv, wanted, _budgets(notion, delta))
    predicted, details = forecast.predict(n_priv, budget)
    details |= forecast.more(n_priv, budget)
    details[EPSILON] = readers_epsilon(budget, all_gaussian=forecast.gaussian(n_priv, budget))
    return Plan(
        task=task,
        n_priv=n_priv,
        budget=budget,
        error=predicted,
        unit=forecast.unit,
        solved_for=solved_for,
        details=details,
    )
