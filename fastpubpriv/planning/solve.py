"""`plan`: rows, budget and predicted error of an estimator; two of them given, the third solved for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.gaussian import DEFAULT_COND_MAX
from fastpubpriv.estimators.radii import Mode, failure_probability, gap_radius, size, step_count
from fastpubpriv.planning.axis_aligned import UNIT as AXIS_ALIGNED_UNIT
from fastpubpriv.planning.axis_aligned import axis_aligned_predictor, distant_details, theory_details
from fastpubpriv.planning.mixtures import separated_predictor
from fastpubpriv.planning.predictors import Predictor, coinpress_predictor, gaussian_predictor, weighted_predictor
from fastpubpriv.planning.selection import UNIT as SELECTION_UNIT
from fastpubpriv.planning.selection import selection_predictor
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.results.base import plain

TASKS = (
    "mean",
    "coinpress_mean",
    "weighted_mean",
    "gaussian",
    "separated_mixture",
    "axis_aligned_mixture",
    "select_hypothesis",
)
MOST_ROWS = 2**40
# Of anything that is counted: a float holds every whole number up to here.
MOST_COUNT = 2**53
# Search range of a budget, in rho or epsilon: what the budget types accept.
LEAST_AMOUNT, MOST_AMOUNT = 2.0**-28, 2.0**9
MOST_PURE = 32.0  # a larger epsilon is refused as pure where much noise is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A triple of rows, budget and predicted error that fit together.

    Attributes
    ----------
    task : str
        Name of the estimator.
    n_priv : int
        Private rows.
    budget : ZCDP, ApproxDP or PureDP
        Privacy budget.
    error : float
        Predicted error, see `unit`; infinite when a Gaussian's covariance cannot be resolved at all.
    unit : str
        What the error is, and what it is measured in.
    solved_for : str
        "error", "n_priv" or "budget": the one that was not given.
    details : dict
        Steps, radii, noise level and the error of the alternatives, all from public numbers.
    """

    task: str
    n_priv: int
    budget: Budget
    error: float
    unit: str
    solved_for: str
    details: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain numbers and strings, ready for JSON."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}

    def __repr__(self) -> str:
        found = f"n_priv={self.n_priv}, budget={self.budget!r}, error={self.error:.4g}"
        return f"Plan({self.task}: {found}; solved for {self.solved_for})"


def _solve_rows(predict: Predictor, budget: Budget, error: float) -> int:
    """Least n_priv with a predicted error of at most `error`."""
    low, high = 1, 2
    while predict(high, budget)[0] > error:
        low, high = high, high * 2
        if high > MOST_ROWS:
            raise InputError(
                f"no number of rows up to 2^40 reaches an error of {error:.3g}; pass a larger error or budget"
            )
    if predict(low, budget)[0] <= error:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if predict(middle, budget)[0] <= error else (middle, high)
    return high


def _solve_budget(predict: Predictor, n_priv: int, error: float, make: Callable[[float], Budget]) -> Budget:
    """Least budget, to a relative 1e-9, with a predicted error of at most `error`."""
    low = math.log(LEAST_AMOUNT)
    high = math.log(MOST_PURE if isinstance(make(1.0), PureDP) else MOST_AMOUNT)
    if predict(n_priv, make(math.exp(high)))[0] > error:
        raise InputError(
            f"no budget reaches an error of {error:.3g} with {n_priv} rows; pass a larger error or more rows"
        )
    if predict(n_priv, make(math.exp(low)))[0] <= error:
        return make(math.exp(low))
    while high - low > 1e-9:
        middle = (low + high) / 2.0
        low, high = (low, middle) if predict(n_priv, make(math.exp(middle)))[0] <= error else (middle, high)
    return make(math.exp(high))


def _budget_maker(notion: str, delta: float | None) -> Callable[[float], Budget]:
    validation.choice("notion", notion, ("zcdp", "approx", "pure"))
    if (notion == "approx") != (delta is not None):
        raise InputError("delta belongs to notion='approx', and notion='approx' needs it; for example delta=1e-6")
    if delta is not None:
        return lambda amount: ApproxDP(epsilon=amount, delta=delta)
    if notion == "pure":
        return lambda amount: PureDP(epsilon=amount)
    return lambda amount: ZCDP(rho=amount)


def plan(
    task: str,
    *,
    dim: int,
    n_priv: int | None = None,
    budget: Budget | None = None,
    error: float | None = None,
    n_pub: int = 0,
    notion: str = "zcdp",
    delta: float | None = None,
    radius: float | None = None,
    pub_priv_gap: float = 0.0,
    steps: int | str = 2,
    mode: Mode = "practical",
    failure_prob: float | None = None,
    cond_max: float = DEFAULT_COND_MAX,
    norm_bound: float | None = None,
    variance: float | None = None,
    row_weight: str | float = "optimal",
    noise: str = "laplace",
    candidates: int | None = None,
    n_components: int | None = None,
    min_weight: float | None = None,
    clustering: str = "auto",
    method: str = "auto",
    accuracy: float | None = None,
) -> Plan:
    """Predict the error of an estimator, or solve for the rows or the budget that reach a wanted error.

    Give exactly two of `n_priv`, `budget` and `error`; the third is solved for.

    Parameters
    ----------
    task : str
        One of `fastpubpriv.planning.TASKS`: "mean" (`estimate_mean` with known covariance), "coinpress_mean", "weighted_mean",
        "gaussian" (`estimate_gaussian`), "separated_mixture" (`learn_separated_mixture`), "axis_aligned_mixture"
        (`learn_axis_aligned_mixture`), "select_hypothesis".
    dim : int
        Columns.
    n_priv, budget, error
        Private rows; privacy budget; wanted error. The error of "mean" and "coinpress_mean" is the expected l2 distance in standard
        deviations; that of "weighted_mean" is the root mean squared l2 distance in data units; that of "gaussian" is the relative
        Frobenius error of the covariance (the mean's is in `details`), for "separated_mixture" that of the smallest component
        once it has been found; that of "select_hypothesis" and "axis_aligned_mixture" is the slack beyond three times the best
        total variation in the list (for method "dp_em", with no rows held out, the expected distance of a mean, in standard
        deviations of its component).
    n_pub : int
        Public rows (at least 1 for "mean", 2 for "gaussian"; from dim + 1 a Gaussian is preconditioned; for
        "separated_mixture" at least one for each component).
    notion, delta
        Notion of the budget that is solved for: "zcdp", "pure", or "approx" with its delta.
    radius : float, optional
        For "coinpress_mean": radius of the prior ball, in standard deviations.
    pub_priv_gap, steps, mode
        As in `estimate_mean`; "gaussian" has no steps.
    failure_prob : float, optional
        As in the estimator, whose default is taken.
    cond_max : float
        As in `estimate_gaussian`.
    norm_bound, variance, row_weight, noise
        As in `weighted_mean`; `variance` defaults to norm_bound^2.
    candidates : int, optional
        For "select_hypothesis" and "axis_aligned_mixture": length of the list.
    n_components, min_weight, clustering
        As in `learn_separated_mixture`.
    method, accuracy
        As in `learn_axis_aligned_mixture`; the paper's list sizes and rows in `details` are for this accuracy, default 0.1.

    Returns
    -------
    Plan
        Rows, budget and error, with the error of the alternatives in `details`.

    Raises
    ------
    InputError, BudgetError
        Not exactly two of the three given, arguments out of range, or an error that nothing reaches.

    Privacy
    -------
    Reads no data.

    Notes
    -----
    The recursion of CoinPress run on paper (paper A, section 2.1), and equation 5 of paper B, which holds with
    equality. A Gaussian takes the closed form of the last release, once the public rule has found enough rounds. The noise is that
    of an infinitely fine grid; the real grid adds less than one percent.

    Examples
    --------
    >>> from fastpubpriv import ZCDP, PureDP, plan
    >>> plan("mean", dim=50, n_pub=1, n_priv=10_000, budget=ZCDP(rho=0.5))
    Plan(mean: n_priv=10000, budget=ZCDP(rho=0.5), error=0.07203; solved for error)
    >>> plan("mean", dim=50, n_pub=1, budget=ZCDP(rho=0.5), error=0.1).n_priv
    5394
    >>> plan("select_hypothesis", dim=1, candidates=1000, budget=PureDP(epsilon=1.0), error=0.1).n_priv
    4098
    >>> plan("gaussian", dim=10, n_pub=11, budget=ZCDP(rho=0.5), error=0.1).n_priv
    12934
    """
    validation.choice("task", task, TASKS)
    dim = validation.integer("dim", dim, minimum=1, maximum=MOST_COUNT)
    n_pub = validation.integer("n_pub", n_pub, minimum=0, maximum=MOST_COUNT)
    if n_priv is not None:
        n_priv = validation.integer("n_priv", n_priv, minimum=1, maximum=MOST_COUNT)
    if sum(value is None for value in (n_priv, budget, error)) != 1:
        raise InputError("give exactly two of n_priv, budget and error; the third is solved for")
    if failure_prob is None:
        failure_prob = {
            "gaussian": 0.05,
            "select_hypothesis": 0.05,
            "separated_mixture": 0.1,
            "axis_aligned_mixture": 0.05,
        }.get(task, 0.01)
    failure_prob = failure_probability(failure_prob)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    steps = step_count(steps)
    unit = "standard deviations, expected l2 distance"
    if task == "weighted_mean":
        if norm_bound is None:
            raise InputError("plan('weighted_mean') needs norm_bound=, the radius to which rows are clipped")
        bound = size("norm_bound", norm_bound)
        energy = bound**2 if variance is None else size("variance", variance)
        k_norm = validation.choice("noise", noise, ("laplace", "k_norm")) == "k_norm"
        if k_norm and not (notion == "pure" if budget is None else isinstance(budget, PureDP)):
            raise InputError("noise='k_norm' belongs to PureDP; ZCDP and ApproxDP budgets use Gaussian noise")
        if n_pub == 0 and row_weight == "throw_away":
            raise InputError("row_weight='throw_away' keeps the public rows only: pass n_pub of at least 1")
        predict = weighted_predictor(dim, n_pub, bound, energy, row_weight, k_norm)
        unit = "data units, root mean squared l2 distance"
    elif task == "mean":
        if n_pub < 1:
            raise InputError("plan('mean') needs n_pub of at least 1; without public rows plan 'coinpress_mean'")
        gap = validation.fraction("pub_priv_gap", pub_priv_gap)
        ball = gap_radius(dim, n_pub, failure_prob / 2.0, gap)
        predict = coinpress_predictor(dim, ball, steps, mode, failure_prob, n_pub)
    elif task == "gaussian":
        if n_pub < 2:
            raise InputError("plan('gaussian') needs n_pub of at least 2, better dim + 1")
        gap = validation.fraction("pub_priv_gap", pub_priv_gap)
        condition = max(validation.positive("cond_max", cond_max), 1.0)
        predict = gaussian_predictor(dim, n_pub, gap, mode, failure_prob, condition)
        unit = "relative Frobenius error of the covariance"
    elif task == "select_hypothesis":
        predict = selection_predictor(dim, candidates, failure_prob)
        unit = SELECTION_UNIT
    elif task == "axis_aligned_mixture":
        predict = axis_aligned_predictor(dim, n_pub, n_components, candidates, method, failure_prob)
        unit = AXIS_ALIGNED_UNIT
    elif task == "separated_mixture":
        predict = separated_predictor(dim, n_pub, n_components, min_weight, clustering, mode, failure_prob)
        unit = "relative Frobenius error of the smallest component's covariance"
    else:
        if radius is None:
            raise InputError("plan('coinpress_mean') needs radius=, that of the ball that holds the mean")
        predict = coinpress_predictor(dim, size("radius", radius), steps, mode, failure_prob, 0)

    solved_for = "error"
    if n_priv is None and budget is not None and error is not None:
        n_priv = _solve_rows(predict, budget, validation.positive("error", error))
        solved_for = "n_priv"
    elif budget is None and n_priv is not None and error is not None:
        budget = _solve_budget(predict, n_priv, validation.positive("error", error), _budget_maker(notion, delta))
        solved_for = "budget"
    if not isinstance(budget, Budget):
        raise InputError(f"budget must be ZCDP, ApproxDP or PureDP, got {type(budget).__name__}")
    assert n_priv is not None
    predicted, details = predict(n_priv, budget)
    if task == "axis_aligned_mixture" and n_components is not None:
        details |= distant_details(n_components, dim, n_pub, n_priv, budget, method)
        details |= theory_details(n_components, dim, accuracy, budget, failure_prob)
    return Plan(
        task=task, n_priv=n_priv, budget=budget, error=predicted, unit=unit, solved_for=solved_for, details=details
    )
