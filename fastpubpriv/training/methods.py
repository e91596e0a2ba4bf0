"""The registry of all methods of training, and the choice between them by errors that public numbers predict.

What the functions of a record are called with stands in `TrainingMethod`. The methods in this file have no settings; those that
have are in `gradient/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.losses import Loss, RowLoss
from fastpubpriv.mechanisms.gradients import ResidualSum
from fastpubpriv.mechanisms.sums import check_sum_grids
from fastpubpriv.release.account import Account
from fastpubpriv.session import Registry, Run, noise_per_radius
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import each_row
from fastpubpriv.training import exact
from fastpubpriv.training import newton as steps
from fastpubpriv.training import newton_logistic as logistic
from fastpubpriv.training.centre import centre_share, release_centre
from fastpubpriv.training.gradient.choosing import EXPONENTIAL
from fastpubpriv.training.gradient.descents import DP_SGD, PDA_MIRROR_DESCENT, SEMI_DP, prepare_public
from fastpubpriv.training.gradient.fit import is_stepwise
from fastpubpriv.training.gradient.perturbing import OUTPUT_PERTURBATION
from fastpubpriv.training.gradient.task import Descended, GradientTask
from fastpubpriv.training.leverage import counted_bias
from fastpubpriv.training.newton_state import State
from fastpubpriv.training.problem import Fitted, Problem
from fastpubpriv.training.public_linear import Posterior
from fastpubpriv.training.record import WORTH, TrainingMethod
from fastpubpriv.training.rotated import Rotation, rotated_rows
from fastpubpriv.training.weighing import weigh, weighing_share

# Two rows do not tell how large anything is: a column or a label in which they hardly differ looks next to constant.
_FEWEST_PUBLIC = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicOnly:
    """The plan of the method that reads no private row."""

    predicted: float


def _plan_public(task: Problem | GradientTask, account: Account) -> Any:
    return prepare_public(task) if isinstance(task, GradientTask) else PublicOnly(predicted=task.posterior.excess)


def _learn_public(run: Run, task: Problem | GradientTask, plan: Any) -> Fitted | Descended:
    return Descended(weights=plan.public.weights) if isinstance(task, GradientTask) else public_fit(task)


def public_fit(problem: Problem) -> Fitted:
    """What the public rows say by themselves."""
    known = problem.posterior
    return Fitted(mean=known.mean, covariance=known.covariance, noise=np.zeros((problem.dim,) * 2))


def _weighing(problem: Problem, account: Account) -> Fraction:
    """What the sum of private weights costs."""
    noise = noise_per_radius(1, pure=account.pure, allowance=account.allowance)
    return account.allowance * weighing_share(problem, noise)


def _weighed(run: Run, problem: Problem, plan: Any) -> tuple[Problem, Any, Fraction]:
    """Problem and plan with the released sum of private weights, if it is worth its cost; and what is left to spend."""
    cost = _weighing(problem, run.account)
    found = (problem, plan) if not cost else weigh(run, problem, plan, cost)
    return *found, run.account.allowance - cost


def _check_weighing(problem: Problem, account: Account) -> Fraction:
    """What is left to spend besides the sum of weights; raises before the debit where that sum cannot be released."""
    cost = _weighing(problem, account)
    if cost:
        check_sum_grids(account, [cost], 1, problem.n_priv)
    return account.allowance - cost


def _most_steps(problem: Problem) -> int:
    known = problem.posterior
    return (steps.step_counts(known) if isinstance(known, Posterior) else steps.STEPS)[-1]


def _plan_newton(problem: Problem, account: Account) -> Any:
    left = _check_weighing(problem, account)
    if not problem.exact:
        return _plan_steps(problem, account, left, steps.MORE_STEPS[-1])
    start = _plan_steps(problem, account, left * exact.START, exact.MOST_STEPS)
    noise = noise_per_radius(problem.dim, pure=account.pure, allowance=left)
    return exact.plan_exact(problem, account, left, start, noise(Fraction(1)))


def _plan_steps(problem: Problem, account: Account, left: Fraction, most: int) -> Any:
    """At most so many Newton steps for what is left of an allowance."""
    noise = noise_per_radius(problem.dim, pure=account.pure, allowance=left)
    plan: Any
    if isinstance(problem.posterior, Posterior):
        centre = centre_share(problem.posterior, problem.counted, noise)
        plan = steps.plan_newton(problem.posterior, problem.counted, noise, centre, most)
        if centre:
            check_sum_grids(account, [left * centre], problem.dim, problem.n_priv)
    else:
        plan = logistic.plan_logistic(problem.posterior, problem.counted, noise, most)
    check_sum_grids(account, [left * plan.share], problem.dim, problem.n_priv)
    return plan


def _asker(on_rows: Run, problem: Problem, rotation: Rotation, cost: Fraction) -> steps.Ask:
    """What answers the requests of Newton steps, each at `cost`, from rows in the coordinates of the problem."""

    def ask(request: steps.Request, step: int) -> steps.Answer:
        released = on_rows.release(
            ResidualSum(
                slope=request.slope,
                spread=request.spread,
                residual=problem.loss.residual,
                scale=request.scale,
                clip=request.clip,
                radius=request.radius,
                row_step=rotation.step,
                weighted=rotation.weighted,
            ),
            name=f"gradient, step {step + 1}",
            cost=cost,
            residual_clip=request.clip * request.scale * rotation.label_scale,
            clip_radius=request.radius,
        )
        return released.value, released.noise_std

    return ask


def _learn_newton(run: Run, problem: Problem, plan: Any) -> Fitted:
    start = plan.start if isinstance(plan, exact.ExactPlan) else plan
    problem, start, left = _weighed(run, problem, start)
    if not isinstance(plan, exact.ExactPlan):
        return _learn_steps(run, problem, plan, left)[0]
    found, rows = _learn_steps(run, problem, start, left * exact.START)
    return exact.learn_exact(run, problem, plan, found, rows)


def _learn_steps(run: Run, problem: Problem, plan: Any, left: Fraction) -> tuple[Fitted, Rows]:
    """Newton steps that cost what is left, and the rows in the coordinates of the problem."""
    noise = noise_per_radius(problem.dim, pure=run.account.pure, allowance=left)
    known, rotation, moved = problem.posterior, problem.rotation, None
    if isinstance(known, Posterior) and plan.centre:
        once = each_row(run.rows, rotation, rotation.width)  # one pass: not kept
        moved = release_centre(run.on(once), problem, left * plan.centre)
        known, rotation = moved.posterior, moved.rotation
    rows = rotated_rows(run.rows, rotation, run.executor)
    ask = _asker(run.on(rows), problem, rotation, left * plan.share)
    if not isinstance(known, Posterior):
        return _fitted(logistic.newton_logistic(known, plan, problem.counted, noise, ask), plan), rows
    state = steps.newton(known, plan, problem.counted, noise, ask)
    fitted = _fitted(state, plan)
    if moved is not None:
        fitted = replace(
            fitted,
            mean=moved.back(fitted.mean),
            covariance=moved.covariance_back(fitted.covariance),
            noise=moved.covariance_back(fitted.noise),
            steps=plan.steps + 1,
        )
    bias_sq, bias = plan.clip.unseen_sq * known.noise_share, counted_bias(problem, plan.clip, state.lever)
    return replace(fitted, bias_sq=bias_sq, bias=bias), rows


def _fitted(state: State, plan: Any) -> Fitted:
    return Fitted(
        mean=state.mean,
        covariance=state.covariance,
        noise=state.noise,
        drift=state.drift,
        steps=plan.steps,
    )


METHODS: Registry[TrainingMethod] = Registry(
    TrainingMethod(
        name="newton",
        prepare=_plan_newton,
        learn=_learn_newton,
        draws=lambda problem: (
            (_most_steps(problem) + 1) * problem.dim
            + problem.rotation.weighted
            + (exact.draws(problem.dim) if problem.exact else 0)
        ),
    ),
    TrainingMethod(name="throw_away", prepare=_plan_public, learn=_learn_public, draws=lambda task: 0),
    SEMI_DP,
    DP_SGD,
    PDA_MIRROR_DESCENT,
    OUTPUT_PERTURBATION,
    EXPONENTIAL,
    auto=True,
)
WITHOUT_SETTINGS = tuple(name for name, each in METHODS.items() if each.settings is None)


def asked(method: Any, loss: Loss | RowLoss) -> tuple[str, Any]:
    """The name of a method that is given by name or as a value with settings, and its settings, None where it has none."""
    for record in METHODS.values():
        if record.settings is not None and isinstance(method, record.settings):
            return record.name, method
    name = METHODS.choose(method)
    if is_stepwise(loss):
        made = None if name == "auto" else METHODS[name].settings
    elif name in ("auto", "throw_away"):
        made = METHODS["semi_dp"].settings if name == "auto" else None
    else:
        made = METHODS[name].settings
        if made is None:
            kind = getattr(loss, "name", type(loss).__name__)
            raise InputError(
                f"method={method!r} is for the squared, the Huber and the logistic loss, got {kind!r}: pass a gradient method"
            )
    return name, None if made is None else made()


def candidates(method: str) -> list[str]:
    """The methods that `method` may stand for: itself, or all without settings."""
    return [method] if method != "auto" else list(WITHOUT_SETTINGS)


def prepare(problem: Problem, account: Account, names: list[str]) -> dict[str, Any]:
    """The plans of these methods; of several, those that can be done."""
    plans: dict[str, Any] = {}
    for name in names:
        try:
            plans[name] = METHODS[name].prepare(problem, account)
        except InputError:
            if len(names) == 1:
                raise  # "auto" takes a method that can be done
    return plans


def least(problem: Problem, plans: dict[str, Any]) -> str:
    """The method with the least predicted error; public rows alone unless a private one is clearly better.

    Predictions assume light tails. Exact coefficients, with which public rows are pooled where they agree, are therefore taken
    unless noise is sure to drown them. Of two public rows no prediction is worth anything: these alone, which cost nothing.
    """
    if "throw_away" in plans and len(problem.posterior.labels) < _FEWEST_PUBLIC:
        return "throw_away"
    plan = plans.get("newton")
    if isinstance(plan, exact.ExactPlan):
        return "throw_away" if plan.hopeless and "throw_away" in plans else "newton"
    chosen = min(plans, key=lambda name: float(plans[name].predicted))
    if "throw_away" in plans and not plans[chosen].predicted < WORTH * plans["throw_away"].predicted:
        chosen = "throw_away"
    return chosen


def choose(problem: Problem, account: Account, names: list[str]) -> tuple[TrainingMethod, Any]:
    """The method of `least`, and its plan."""
    plans = prepare(problem, account, names)
    chosen = least(problem, plans)
    return METHODS[chosen], plans[chosen]
