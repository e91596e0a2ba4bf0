"""`plan("train")`: predicted errors, the choice of a method, and minimax rates (paper B, Theorems 41 and 42)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logit, ndtri

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.losses import LOSSES
from fastpubpriv.planning.forecasts import (
    LEAST_AMOUNT,
    MOST_AMOUNT,
    MOST_PURE,
    MOST_ROWS,
    Forecast,
    budget_maker,
    count,
)
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.public_draws import draw_uniforms
from fastpubpriv.release.account import Account
from fastpubpriv.session import noise_per_radius
from fastpubpriv.training.gradient.descents import STEPWISE, noise_of
from fastpubpriv.training.gradient.problem import (
    Descent,
    GradientProblem,
    GradientTask,
    Prepared,
    PublicFit,
    make_gradient_problem,
    public_fit,
)
from fastpubpriv.training.inputs import Stated
from fastpubpriv.training.methods import METHODS, candidates, least, prepare
from fastpubpriv.training.problem import WORTH, Problem, make_problem
from fastpubpriv.training.public_fits import Posterior

# The minimax rates of a strongly convex loss with public rows (paper B, Theorems 41 and 42): the regime of rows and budget.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The two terms of the rate min(1 / n_pub, cost / n^2 + 1 / n), n = n_priv + n_pub, with all constants one."""

    public: float  # with private: the public rows alone; and all rows, of which the private ones are protected
    private: float
    public_rows: float  # public rows from which their term is the smaller one; infinite where it never is

    @property
    def public_decides(self) -> bool:
        """Whether public rows alone have the best rate. Where they have not, they can help by a constant factor at most."""
        return self.public < self.private


def minimax_rates(*, n_priv: int, n_pub: int, dim: int, budget: Budget) -> Rates:
    """The rates for a loss with unit Lipschitz and curvature constants; for convex losses each is the square root of these."""
    cost = _cost(dim, budget)
    n = float(n_priv + n_pub)
    # 1 / n_pub < cost / n^2 + 1 / n is n_priv^2 < n_pub (cost - n_priv).
    spare = cost - n_priv
    return Rates(
        public=1.0 / n_pub if n_pub else math.inf,
        private=cost / n**2 + 1.0 / n,
        public_rows=float(n_priv) ** 2 / spare if spare > 0.0 else math.inf,
    )


def _cost(dim: int, budget: Budget) -> float:
    """What privacy adds to the error of a sum of n unit rows, in order."""
    if isinstance(budget, PureDP):
        return (dim / float(budget.epsilon)) ** 2
    if isinstance(budget, ApproxDP):
        return dim * math.log(1.0 / float(budget.delta)) / float(budget.epsilon) ** 2
    if isinstance(budget, ZCDP):
        return dim / float(budget.rho)
    raise BudgetError(f"budget must be ZCDP, ApproxDP or PureDP, got {type(budget).__name__}")


# `plan("train")`: the errors that `train` predicts for public rows of a normal law, and where its choice of a method turns.

UNITS = {
    "squared": "excess of the mean squared error, in parts of the variance of a label",
    "logistic": "excess of the mean log-loss",
    "huber": "excess of the mean Huber loss, in parts of the variance of a label",
}
_MOST_CELLS = 2**24  # of the public rows that are made up
_LOGISTIC_VARIANCE = math.pi**2 / 3.0
_CLOSE = 1.001  # a turning point is found to this factor
_STRIDE = 16
_MOST_GUESSES = 8  # three to five are usual
_NEAR = 4e-4


def plan_train(
    *,
    dim: int,
    n_pub: int = 0,
    loss: str = "squared",
    method: str = "auto",
    r_squared: float = 0.5,
    mean_weight: float | None = None,
) -> Forecast:
    """Forecast the excess of the loss over that of the best coefficients; the details have the error of each method."""
    dim, n_pub = count("dim", dim, minimum=1), count("n_pub", n_pub)
    if n_pub < 2:
        raise InputError("plan('train') needs n_pub of at least 2: training starts from public rows with labels")
    if n_pub * (dim + 1) > _MOST_CELLS:
        raise InputError(
            f"plan('train') makes up public rows of at most 2^24 cells: pass n_pub up to {_MOST_CELLS // (dim + 1)}"
        )
    loss = validation.choice("loss", loss, STEPWISE)
    method = METHODS.choose(method)
    if loss == "squared" and method == "output_perturbation":
        raise InputError(f"method={method!r} needs a loss whose gradients are bounded: pass loss='logistic'")
    explained = validation.fraction("r_squared", r_squared)
    weight = None if mean_weight is None else validation.positive("mean_weight", mean_weight)
    if weight is not None and weight > 1.0:
        raise InputError(f"mean_weight is in units of weight_cap, so at most 1, got {weight:g}")
    case = _Case(loss=loss, method=method, table=typical_rows(loss, dim, n_pub, explained), mean_weight=weight)
    return Forecast(predict=case.predict, unit=UNITS[loss], more=case.more)


def typical_rows(loss: str, dim: int, n_pub: int, r_squared: float) -> FloatArray:
    """Public rows with their labels, (n_pub, dim + 1): independent normal columns, of which each says as much about the label.

    They are the same in every call. Columns and noise have the quantiles of their laws in random orders: draws would have the luck
    of one sample (a fifth more or less, with 200 rows). For classes `r_squared` is that of the log-odds with their logistic noise.
    """
    order = np.argsort(draw_uniforms((n_pub, dim + 1), 0), axis=0)
    levels = (order + 0.5) / n_pub
    x, noise = ndtri(levels[:, :-1]), levels[:, -1]
    signal = x.sum(axis=1) / math.sqrt(dim)
    if not LOSSES[loss].classes:
        label = math.sqrt(r_squared) * signal + math.sqrt(1.0 - r_squared) * ndtri(noise)
    else:
        odds = math.sqrt(_LOGISTIC_VARIANCE * r_squared / (1.0 - r_squared)) * signal
        label = (logit(noise) < odds).astype(np.float64)
    return np.column_stack([x, label])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Case:
    """Public rows, and what `train` would do with them beside any number of private rows and any budget."""

    loss: str
    method: str
    table: FloatArray
    mean_weight: float | None = None
    _last: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _stated(self) -> Stated:
        weights: dict[str, Any] = {}
        if self.mean_weight is not None:
            weights = {"weights_pub": np.full(len(self.table), self.mean_weight), "weight_cap": 1.0}
        if LOSSES[self.loss].classes:
            return Stated(classes=(0.0, 1.0), **weights)
        # Of two or three rows the labels may all be equal.
        return Stated(y_scale=None if float(np.ptp(self.table[:, -1])) > 1e-9 else 1.0, **weights)

    @property
    def _names(self) -> list[str]:
        return [f"x{j}" for j in range(self.table.shape[1] - 1)]

    @cached_property
    def _problem(self) -> Problem:
        return make_problem(LOSSES[self.loss], self.table, self._names, 1, self._stated)[0]

    @cached_property
    def _gradients(self) -> GradientProblem:
        loss, stated = LOSSES[self.loss], self._stated
        return make_gradient_problem(loss, self.table, self._names, 1, scaling="standard", stated=stated)[0]

    @cached_property
    def _public(self) -> PublicFit:
        return public_fit(self._gradients, 0.0)

    def _stepwise(self, n_priv: int, budget: Budget, method: str) -> tuple[str, dict[str, Any], Account]:
        """The method that is taken, the plans of all that can be done, and the account that pays; the last answer is kept."""
        asked = (n_priv, budget, method)
        if self._last.get("asked") != asked:
            self._last.update(asked=asked, answer=self._plans(*asked))
        answer: tuple[str, dict[str, Any], Account] = self._last["answer"]
        return answer

    def _plans(self, n_priv: int, budget: Budget, method: str) -> tuple[str, dict[str, Any], Account]:
        problem = replace(self._problem, n_priv=n_priv)
        names = candidates(method)
        draws = max(1, *(METHODS[each].draws(problem) for each in names))
        account = Account("plan", budget, draws=draws)
        plans = prepare(problem, account, names)
        return least(problem, plans), plans, account

    def _with_settings(self, n_priv: int, budget: Budget, method: str) -> tuple[Prepared, float]:
        """The plan of a method with settings, and the noise of its steps, over the bound on a row."""
        record, problem = METHODS[method], replace(self._gradients, n_priv=n_priv)
        assert record.settings is not None
        task = GradientTask(problem=problem, settings=record.settings(), known=self._public)
        account = Account("plan", record.spends(budget), draws=max(1, record.draws(task)))
        plan: Prepared = record.prepare(task, account)
        if isinstance(task.settings, Descent):
            return plan, noise_of(problem, task.settings, account)(plan.steps)
        return plan, 0.0

    def predict(self, n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        """The error of the method, and what it does."""
        if self.method != "auto" and METHODS[self.method].settings is not None:
            plan, noise = self._with_settings(n_priv, budget, self.method)
            return _excess(plan), {"steps": float(plan.steps), "noise_multiplier": noise}
        name, plans, account = self._stepwise(n_priv, budget, self.method)
        noise, steps = 0.0, 0
        if name == "newton":
            steps = plans[name].steps
            plain = noise_per_radius(self._problem.dim, pure=account.pure, allowance=account.allowance)
            noise = plain(plans[name].share)
        details = {"steps": float(steps), "noise_multiplier": noise}
        if self.method == "auto":
            details |= {f"takes_{'public' if each == 'throw_away' else each}": float(each == name) for each in plans}
        return float(plans[name].predicted), details

    def more(self, n_priv: int, budget: Budget) -> dict[str, float]:
        """The error of every method, where the choice turns, and the minimax rates."""
        _, plans, _ = self._stepwise(n_priv, budget, "auto")
        found = {name: float(plan.predicted) for name, plan in plans.items() if name != "throw_away"}
        for name, record in METHODS.items():
            # Some losses have no perturbed minimum; two or three public rows, which one line fits, no gradient for a clip.
            with contextlib.suppress(InputError, BudgetError):
                if record.settings is not None:
                    found[name] = _excess(self._with_settings(n_priv, budget, name)[0])
        rates = minimax_rates(n_priv=n_priv, n_pub=len(self.table), dim=self.table.shape[1] - 1, budget=budget)
        return found | {
            "is_a_guess": float(len(self.table) <= self.table.shape[1]),
            "public_rows_alone": self._problem.posterior.excess,
            "without_privacy": self._without_privacy(n_priv),
            "worth_rows": turning_point(n_priv, 1, MOST_ROWS, lambda n: self._worth(int(n), budget)),
            "worth_budget": self._worth_budget(n_priv, budget),
            "minimax_public": rates.public,
            "minimax_private": rates.private,
            "minimax_public_decides": float(rates.public_decides),
            "minimax_public_rows": rates.public_rows,
        }

    def _without_privacy(self, n_priv: int) -> float:
        known = self._problem.posterior
        if isinstance(known, Posterior):
            return known.part * float(np.sum(1.0 / (1.0 / known.variance + n_priv * (1.0 / known.row_variance))))
        curvature, each = 0.5 * known.curvature, known.curvature
        return float(np.sum(curvature / (1.0 / known.variance + n_priv * each)))

    def _worth(self, n_priv: int, budget: Budget) -> tuple[bool, float]:
        """Whether private rows are worth their budget: "auto" reads them, and any other method is as much better.

        And the logarithm of the least gain that would be over theirs, which is about a line in that of rows or budget.
        """
        alone = self._problem.posterior.excess
        try:
            if self.method == "auto":
                name, plans, _ = self._stepwise(n_priv, budget, "auto")
                errors = [float(plan.predicted) for each, plan in plans.items() if each != "throw_away"]
                return name != "throw_away", _short_of(min(errors, default=math.inf) / alone)
            predicted, _ = self.predict(n_priv, budget)
        except (InputError, BudgetError):
            return False, math.inf
        return predicted < WORTH * alone, _short_of(predicted / alone)

    def _worth_budget(self, n_priv: int, budget: Budget) -> float:
        make = budget_maker(type(budget), getattr(budget, "delta", None))
        most = MOST_PURE if isinstance(budget, PureDP) else MOST_AMOUNT
        return turning_point(
            float(budget.amounts[0]), LEAST_AMOUNT, most, lambda amount: self._worth(n_priv, make(amount))
        )


def _excess(plan: Prepared) -> float:
    return math.inf if plan.predicted is None else plan.predicted


def _short_of(left: float) -> float:
    return math.log((1.0 - WORTH) / (1.0 - left)) if left < 1.0 else math.inf


class _Turning:
    """Whether something holds, which it does from some number on: asked for numbers that other answers do not settle."""

    def __init__(self, ask: Callable[[float], tuple[bool, float]]) -> None:
        self._ask = ask
        self._no: tuple[float, float] | None = None  # the largest number where it does not hold, and the margin there
        self._yes: tuple[float, float] | None = None

    def holds(self, number: float) -> bool:
        """At this number."""
        if self._no is not None and number <= self._no[0]:
            return False
        if self._yes is not None and number >= self._yes[0]:
            return True
        holds, margin = self._ask(number)
        if holds:
            self._yes = (number, margin)
        else:
            self._no = (number, margin)
        return holds

    def close_in(self, whole: bool) -> None:
        """Ask where the margin would be zero if it went on as between the two numbers, until these are close together.

        The rule of Illinois: the margin of an end that was kept twice counts half, so that both ends move.
        """
        side, weight = None, 1.0
        for _ in range(_MOST_GUESSES):
            assert self._no is not None
            assert self._yes is not None
            (low, above), (high, below) = self._no, self._yes
            above, below = (above * weight, below) if side else (above, below * weight)
            if not (low > 0.0 and above > 0.0 > below and math.isfinite(above - below)):
                return
            wide = math.log(high / low)
            part = above / (above - below)
            guess = low * math.exp(wide * min(max(part, _NEAR / 4.0 / wide), 1.0 - _NEAR / 4.0 / wide))
            number = round(guess) if whole else guess
            if wide <= _NEAR or not low < number < high:
                return
            found = self.holds(number)
            weight = weight / 2.0 if found is side else 1.0
            side = found


def turning_point(start: float, lowest: float, highest: float, ask: Callable[[float], tuple[bool, float]]) -> float:
    """About the least number, to 0.1 %, from which `ask` says yes; infinite where it says no even at the highest.

    It is found by halving. Most halves are known before they are asked for, as margins have told about where the number is.
    """
    whole = isinstance(start, int)
    turning = _Turning(ask)
    holds = turning.holds
    low = high = start
    if holds(start):
        while holds(low):
            if low <= lowest:
                return float(lowest)
            high, low = low, max(lowest, low // _STRIDE if whole else low / _STRIDE)
    else:
        while not holds(high):
            if high >= highest:
                return math.inf
            low, high = high, min(highest, high * _STRIDE)
    turning.close_in(whole)
    while high > low * _CLOSE and not (whole and high - low <= 1):
        middle = (low + high) // 2 if whole else math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return float(high)
