"""Forecasts of training for `plan`: predicted errors, the choice of a method, and minimax rates (paper B, Theorems 41 and 42)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from scipy.special import logit, ndtri

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, StepwiseLoss, TrainMethod
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.gradient.gradient_problem import (
    GradientProblem,
    make_gradient_problem,
    public_fit,
)
from fastpubpriv.gradient.single_releases import EXPONENTIAL
from fastpubpriv.planning.search import MOST_ROWS, amounts_tried, turning_point
from fastpubpriv.planning.tasks import Forecast, defaults_of
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.regression.inputs import DataSpec
from fastpubpriv.regression.problem import TrainingProblem, make_problem
from fastpubpriv.regression.public_fits import Posterior
from fastpubpriv.results.public_draws import draw_uniforms
from fastpubpriv.rowwise.losses import LOSSES
from fastpubpriv.session import WORTH, PredictedError
from fastpubpriv.training.methods import (
    METHODS,
    NEWTON,
    PUBLIC_ONLY,
    Choice,
    choose,
    with_gradient_methods,
)
from fastpubpriv.training.train import train

# The order of the squared error that privacy adds to a sum of unit rows, from their dimension and the amounts of a budget.
COST_OF_PRIVACY: dict[type[Budget], Callable[..., float]] = {
    ZCDP: lambda dim, rho: dim / rho,
    ApproxDP: lambda dim, epsilon, delta: dim * math.log(1.0 / delta) / epsilon**2,
    PureDP: lambda dim, epsilon: (dim / epsilon) ** 2,
}


def minimax_rates(*, n_priv: int, n_pub: int, dim: int, budget: Budget) -> dict[str, float]:
    """Return the terms of the rate min(1 / n_pub, cost / n^2 + 1 / n), n = n_priv + n_pub, and which of them is smaller."""
    # All constants of the loss (Lipschitz, curvature, ...) are one; the rates of convex losses are the square roots. The public
    # term is the smaller one from `minimax_public_rows` on, which is infinite if it never is.
    cost = COST_OF_PRIVACY[budget.notion](dim, *map(float, budget.amounts))
    n = float(n_priv + n_pub)
    # 1 / n_pub < cost / n^2 + 1 / n is n_priv^2 < n_pub (cost - n_priv).
    spare = cost - n_priv
    public = 1.0 / n_pub if n_pub else math.inf
    private = cost / n**2 + 1.0 / n
    return {
        "minimax_public": public,
        "minimax_private": private,
        "minimax_public_decides": float(public < private),
        "minimax_public_rows": float(n_priv) ** 2 / spare if spare > 0.0 else math.inf,
    }


UNITS = {
    "squared": "excess of the mean squared error, in parts of the variance of a label",
    "logistic": "excess of the mean log-loss",
    "huber": "excess of the mean Huber loss, in parts of the variance of a label",
}
_MOST_CELLS = 2**24  # maximum number of cells of the synthetic public rows
_LOGISTIC_VARIANCE = math.pi**2 / 3.0
LEAST_RANGE = (
    1e-9  # range of labels up to which they are all equal, as those of two or three rows may be
)


@defaults_of(train)
def plan_train(
    *,
    dim: int,
    n_pub: int = 0,
    n_labeled: int | None = None,
    loss: StepwiseLoss = "squared",
    method: TrainMethod,
    r_squared: float = 0.5,
    mean_weight: float | None = None,
) -> Forecast:
    """Forecast the excess of the loss over that of the best coefficients; details include the error of each method."""
    if n_pub < 2:
        raise InputError(
            "plan('train') needs n_pub of at least 2: training starts from public rows"
        )
    if n_pub * (dim + 1) > _MOST_CELLS:
        raise InputError(
            f"plan('train') makes up public rows of at most 2^24 cells: pass n_pub up to {_MOST_CELLS // (dim + 1)}"
        )
    loss = validation.choice("loss", loss, get_args(StepwiseLoss))
    method = METHODS.choose(method)
    stated = DataSpec()
    if mean_weight is not None:
        stated = _stated_weights(mean_weight, method, n_pub)
    labeled = n_pub
    if n_labeled is not None:
        labeled = validation.integer("n_labeled", n_labeled, minimum=0, maximum=n_pub)
    table = typical_rows(loss, dim, n_pub, validation.fraction("r_squared", r_squared))
    labels = table[:labeled, -1]
    table[labeled:, -1] = np.nan
    if LOSSES[loss].classes:
        stated = replace(stated, classes=(0.0, 1.0))
    elif labeled and float(np.ptp(labels)) <= LEAST_RANGE:
        stated = replace(stated, y_scale=1.0)
    given: dict[str, Any] = {
        "loss": LOSSES[loss],
        "table": table,
        "names": [f"x{j}" for j in range(dim)],
        "n_priv": 1,
        "stated": stated,
    }
    case = _Call(method=method, shape=(n_pub, dim), problem=make_problem(**given)[0], given=given)
    return Forecast(predict=case.predict, unit=UNITS[loss], more=case.more)


def _stated_weights(mean_weight: Any, method: str, n_pub: int) -> DataSpec:
    """Return what is stated of rows with a mean weight, in units of their cap. Raise InputError for methods without weights."""
    weight = validation.positive("mean_weight", mean_weight)
    if weight > 1.0:
        raise InputError(f"mean_weight is in units of weight_cap, so at most 1, got {weight:g}")
    if METHODS.get(method, NEWTON).settings is not None:
        able = [repr(name) for name, each in METHODS.items() if each.settings is None]
        raise InputError(
            f"mean_weight= goes with method={' or '.join(able)}, got {method!r}: leave one of them out"
        )
    return DataSpec(weights_pub=np.full(n_pub, weight), weight_cap=1.0)


def typical_rows(loss: str, dim: int, n_pub: int, r_squared: float) -> FloatArray:
    """Return synthetic public rows with labels, (n_pub, dim + 1): independent normal columns, equally informative of the label."""
    # They are the same in every call. Columns and noise are the quantiles of their distributions in random order, which avoids the
    # sampling variation of draws (a fifth, with 200 rows). For classes, `r_squared` is that of log-odds with logistic noise.
    order = np.argsort(draw_uniforms((n_pub, dim + 1), 0), axis=0)
    levels = (order + 0.5) / n_pub
    x = ndtri(levels[:, :-1])
    noise = levels[:, -1]
    signal = x.sum(axis=1) / math.sqrt(dim)
    if not LOSSES[loss].classes:
        label = math.sqrt(r_squared) * signal + math.sqrt(1.0 - r_squared) * ndtri(noise)
    else:
        odds = math.sqrt(_LOGISTIC_VARIANCE * r_squared / (1.0 - r_squared)) * signal
        label = (logit(noise) < odds).astype(np.float64)
    return np.column_stack([x, label])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Call:
    """Problems of public rows, with the predictions of `train` for any number of private rows and any budget."""

    method: str
    shape: tuple[int, int]  # numbers of public rows and of columns
    problem: TrainingProblem
    given: dict[str, Any]  # the arguments of both problems

    @cached_property
    def gradients(self) -> GradientProblem:
        """The problem of gradient methods with its public fit. Raise InputError if they do not support the rows."""
        made = make_gradient_problem(**self.given, scaling="standard")[0]
        return replace(made, known=public_fit(made, 0.0))

    def _ask(self, name: str, n_priv: int, budget: Budget) -> Choice:
        """Return the method of a name, or that "auto" chooses, with its plan and the account that would pay."""
        problem: Any = replace(self.problem, n_priv=n_priv)

        def gradients() -> GradientProblem:
            return replace(self.gradients, n_priv=n_priv)

        if name == "auto":
            choices = with_gradient_methods(Choice(method=NEWTON, problem=problem), gradients)
            return choose(choices, "plan", budget)
        record = METHODS[name]
        if record.settings is not None:
            problem = replace(gradients(), settings=record.settings())
        return Choice(method=record, problem=problem).prepared("plan", budget)

    def predict(self, n_priv: int, budget: Budget) -> PredictedError:
        """Return the predicted error of the method, and details of its plan."""
        choice = self._ask(self.method, n_priv, budget)
        noise = choice.method.noise(choice.problem, choice.plan, choice.account)
        details = {"steps": float(choice.plan.steps), "noise_multiplier": noise}
        if self.method == "auto":
            for name, record in METHODS.items():
                if record is not EXPONENTIAL:
                    details[f"takes_{name}"] = float(choice.method is record)
        return _excess(choice.plan), details

    def more(self, n_priv: int, budget: Budget) -> dict[str, float]:
        """Return the error of every method, the rows and budget from which training is worthwhile, and the minimax rates."""
        details: dict[str, float] = {}
        for name in METHODS:
            # Output perturbation does not support some losses, and public rows that a line fits exactly give no clip bound.
            with contextlib.suppress(InputError, BudgetError):
                details[name] = _excess(self._ask(name, n_priv, budget).plan)
        details.pop(PUBLIC_ONLY.name, None)
        amount, *delta = budget.amounts
        n_pub, dim = self.shape

        def is_worth_rows(rows: int) -> bool:
            return self._worth(rows, budget)

        def is_worth_budget(amount: float) -> bool:
            return self._worth(n_priv, type(budget)(amount, *delta))

        known = self.problem.posterior
        lowest, highest = amounts_tried(budget)
        details["is_a_guess"] = float(n_pub <= dim + 1)
        details["public_rows_alone"] = known.excess
        details["without_privacy"] = _excess_without_privacy(known, n_priv)
        details["worth_rows"] = turning_point(n_priv, 1, MOST_ROWS, is_worth_rows)
        details["worth_budget"] = turning_point(float(amount), lowest, highest, is_worth_budget)
        return details | minimax_rates(n_priv=n_priv, n_pub=n_pub, dim=dim, budget=budget)

    def _worth(self, n_priv: int, budget: Budget) -> bool:
        """Whether private rows are worth their budget: "auto" reads them, or another method improves by the same factor."""
        try:
            choice = self._ask(self.method, n_priv, budget)
        except (InputError, BudgetError):
            return False
        if self.method == "auto":
            return choice.method is not PUBLIC_ONLY
        return bool(_excess(choice.plan) < WORTH * self.problem.posterior.excess)


def _excess_without_privacy(known: Any, n_priv: int) -> float:
    """Return the excess of the loss that public rows and so many private rows have without noise, from the law of public rows."""
    precision = 1.0 / known.variance
    if isinstance(known, Posterior):
        variance = 1.0 / (precision + n_priv * (1.0 / known.row_variance))
        return float(known.part * float(np.sum(variance)))
    curvature = known.curvature
    return float(np.sum(0.5 * curvature / (precision + n_priv * curvature)))


def _excess(plan: Any) -> float:
    return math.inf if plan.predicted is None else float(plan.predicted)
