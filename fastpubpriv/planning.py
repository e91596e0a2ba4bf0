"""What budget and how many rows buy what error, and the other way round, without touching data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import (
    MAX_AUTO_STEPS,
    Mode,
    best_steps,
    expected_normal_norm,
    failure_probability,
    gap_radius,
    predict_steps,
    size,
    step_count,
)
from fastpubpriv.estimators.run import noise_per_radius
from fastpubpriv.estimators.weighted_mean import ErrorModel, checked_weight, noise_energy
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP, gaussian_rho, laplace_epsilon
from fastpubpriv.results import plain

TASKS = ("mean", "coinpress_mean", "weighted_mean")
MOST_ROWS = 2**40
# Search range of a budget, in rho or epsilon: what the budget types accept.
LEAST_AMOUNT, MOST_AMOUNT = 2.0**-28, 2.0**9


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
        Predicted root mean squared or expected l2 error, see `unit`.
    unit : str
        What the error is measured in.
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


# error and details of a task for (n_priv, budget)
Predictor = Callable[[int, Budget], tuple[float, dict[str, float]]]


def _allowance(budget: Budget, draws: int) -> tuple[bool, Fraction]:
    pure = isinstance(budget, PureDP)
    return pure, laplace_epsilon(budget, draws) if pure else gaussian_rho(budget, draws)


def _coinpress_predictor(
    dim: int, radius: float, steps: int | str, mode: Mode, failure_prob: float, n_pub: int
) -> Predictor:
    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = _allowance(budget, MAX_AUTO_STEPS * dim)
        noise = noise_per_radius(dim, pure=pure, allowance=allowance)
        count = (
            best_steps(dim, n_priv, radius, noise_per_radius=noise, mode=mode, failure_prob=failure_prob)
            if isinstance(steps, str)
            else steps
        )
        path = predict_steps(
            dim, n_priv, radius, steps=count, noise_per_radius=noise, mode=mode, failure_prob=failure_prob
        )
        details = {
            "steps": float(count),
            "radius": radius,
            "clip_radius": path[-1].clip_radius,
            "noise_std": path[-1].noise_std,
            "without_privacy": expected_normal_norm(dim) / math.sqrt(n_priv),
        }
        if n_pub:
            details["public_rows_alone"] = expected_normal_norm(dim) / math.sqrt(n_pub)
        return path[-1].error, details

    return predict


def _weighted_predictor(
    dim: int, n_pub: int, norm_bound: float, variance: float, row_weight: str | float, k_norm: bool
) -> Predictor:
    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = _allowance(budget, 2 * dim + 1)
        energy = noise_energy(dim, norm_bound, float(allowance), pure=pure, k_norm=k_norm and pure)
        model = ErrorModel(n_priv=n_priv, n_pub=n_pub, variance=variance, noise=energy)
        weight = checked_weight(row_weight, n_priv)
        details = {
            "private_weight": model.weight(weight),
            "throw_away": math.sqrt(model.mean_squared_error("throw_away")) if n_pub else math.inf,
            "gaussian": math.sqrt(model.mean_squared_error("gaussian")),
            "without_privacy": math.sqrt(variance / (n_priv + n_pub)),
        }
        return math.sqrt(model.mean_squared_error(weight)), details

    return predict


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
    low, high = math.log(LEAST_AMOUNT), math.log(MOST_AMOUNT)
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
    failure_prob: float = 0.01,
    norm_bound: float | None = None,
    variance: float | None = None,
    row_weight: str | float = "optimal",
    noise: str = "laplace",
) -> Plan:
    """Predict the error of a mean estimator, or solve for the rows or the budget that reach a wanted error.

    Give exactly two of `n_priv`, `budget` and `error`; the third is solved for.

    Parameters
    ----------
    task : "mean", "coinpress_mean" or "weighted_mean"
        The estimator: `estimate_mean` with known covariance, `coinpress_mean`, `weighted_mean`.
    dim : int
        Columns.
    n_priv, budget, error
        Private rows; privacy budget; wanted error. The error of "mean" and "coinpress_mean" is the expected l2 distance in standard
        deviations; that of "weighted_mean" is the root mean squared l2 distance in data units.
    n_pub : int
        Public rows (at least 1 for "mean").
    notion, delta
        Notion of the budget that is solved for: "zcdp", "pure", or "approx" with its delta.
    radius : float, optional
        For "coinpress_mean": radius of the prior ball, in standard deviations.
    pub_priv_gap, steps, mode, failure_prob
        As in `estimate_mean`.
    norm_bound, variance, row_weight, noise
        As in `weighted_mean`; `variance` defaults to norm_bound^2.

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
    equality. The noise is that of an infinitely fine grid; the real grid adds less than one percent.

    Examples
    --------
    >>> from fastpubpriv import ZCDP, plan
    >>> plan("mean", dim=50, n_pub=1, n_priv=10_000, budget=ZCDP(rho=0.5))
    Plan(mean: n_priv=10000, budget=ZCDP(rho=0.5), error=0.07203; solved for error)
    >>> plan("mean", dim=50, n_pub=1, budget=ZCDP(rho=0.5), error=0.1).n_priv
    5394
    """
    validation.choice("task", task, TASKS)
    dim = validation.integer("dim", dim, minimum=1)
    n_pub = validation.integer("n_pub", n_pub, minimum=0)
    if sum(value is None for value in (n_priv, budget, error)) != 1:
        raise InputError("give exactly two of n_priv, budget and error; the third is solved for")
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
        predict = _weighted_predictor(dim, n_pub, bound, energy, row_weight, k_norm)
        unit = "data units, root mean squared l2 distance"
    elif task == "mean":
        if n_pub < 1:
            raise InputError("plan('mean') needs n_pub of at least 1; without public rows plan 'coinpress_mean'")
        gap = validation.fraction("pub_priv_gap", pub_priv_gap)
        ball = gap_radius(dim, n_pub, failure_prob / 2.0, gap)
        predict = _coinpress_predictor(dim, ball, steps, mode, failure_prob, n_pub)
    else:
        if radius is None:
            raise InputError("plan('coinpress_mean') needs radius=, that of the ball that holds the mean")
        predict = _coinpress_predictor(dim, size("radius", radius), steps, mode, failure_prob, 0)

    solved_for = "error"
    if n_priv is None and budget is not None and error is not None:
        n_priv = _solve_rows(predict, budget, validation.positive("error", error))
        solved_for = "n_priv"
    elif budget is None and n_priv is not None and error is not None:
        n_priv = validation.integer("n_priv", n_priv, minimum=1)
        budget = _solve_budget(predict, n_priv, validation.positive("error", error), _budget_maker(notion, delta))
        solved_for = "budget"
    n_priv = validation.integer("n_priv", n_priv, minimum=1)
    if not isinstance(budget, Budget):
        raise InputError(f"budget must be ZCDP, ApproxDP or PureDP, got {type(budget).__name__}")
    predicted, details = predict(n_priv, budget)
    return Plan(
        task=task, n_priv=n_priv, budget=budget, error=predicted, unit=unit, solved_for=solved_for, details=details
    )
