"""The registry of all methods of training, and the choice between them by errors that public numbers predict.

What the functions of a record are called with stands in `TrainingMethod`. The methods in this file have no settings; those that
have are in `gradient/`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.losses import Loss, RowLoss
from fastpubpriv.mechanisms.gradients import ResidualSum
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment, check_gram_grids, check_sum_grids, gram_grid
from fastpubpriv.release.account import Account
from fastpubpriv.session import Registry, Run, noise_per_radius
from fastpubpriv.sources.views import each_row
from fastpubpriv.training import newton as steps
from fastpubpriv.training import newton_logistic as logistic
from fastpubpriv.training import statistics
from fastpubpriv.training.centre import centre_share, release_centre
from fastpubpriv.training.gradient.choosing import EXPONENTIAL
from fastpubpriv.training.gradient.descents import DP_SGD, PDA_MIRROR_DESCENT, SEMI_DP, prepare_public
from fastpubpriv.training.gradient.fit import is_stepwise
from fastpubpriv.training.gradient.perturbing import OUTPUT_PERTURBATION
from fastpubpriv.training.gradient.task import Descended, GradientTask
from fastpubpriv.training.leverage import counted_bias, rests_on_few
from fastpubpriv.training.newton_state import State
from fastpubpriv.training.problem import Fitted, Problem
from fastpubpriv.training.public_linear import Posterior
from fastpubpriv.training.record import WORTH, TrainingMethod
from fastpubpriv.training.residual_rows import residual_rows
from fastpubpriv.training.rotated import Rotation, rotated_rows
from fastpubpriv.training.weighing import weigh, weighing_share

_TIE = 0.05
# Two rows do not tell how large anything is: a column or a label in which they hardly differ looks next to constant.
_FEWEST_PUBLIC = 3
_SURELY = 2.0  # so many times as large an error of the steps decides against them, with next to no public rows
_BOTH_GOOD = 0.02  # of a residual's variance: predicted errors below it are both about zero


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
    noise = noise_per_radius(problem.dim, pure=account.pure, allowance=left)
    plan: Any
    if isinstance(problem.posterior, Posterior):
        centre = centre_share(problem.posterior, problem.counted, noise)
        plan = steps.plan_newton(problem.posterior, problem.counted, noise, centre)
        if centre:
            check_sum_grids(account, [left * centre], problem.dim, problem.n_priv)
    else:
        plan = logistic.plan_logistic(problem.posterior, problem.counted, noise)
    check_sum_grids(account, [left * plan.share], problem.dim, problem.n_priv)
    return plan


def _asker(run: Run, problem: Problem, rotation: Rotation, cost: Fraction) -> steps.Ask:
    """What answers the requests of Newton steps, each at `cost`."""
    on_rows = run.on(rotated_rows(run.rows, rotation, run.executor))

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
    problem, plan, left = _weighed(run, problem, plan)
    noise = noise_per_radius(problem.dim, pure=run.account.pure, allowance=left)
    if not isinstance(problem.posterior, Posterior):
        ask = _asker(run, problem, problem.rotation, left * plan.share)
        found = logistic.newton_logistic(problem.posterior, plan, problem.counted, noise, ask)
        return _fitted(found, plan)
    known, rotation, moved = problem.posterior, problem.rotation, None
    if plan.centre:
        once = each_row(run.rows, rotation, rotation.width)  # one pass: not kept
        moved = release_centre(run.on(once), problem, left * plan.centre)
        known, rotation = moved.posterior, moved.rotation
    state = steps.newton(
        known,
        plan,
        problem.counted,
        noise,
        _asker(run, problem, rotation, left * plan.share),
        sparse=bool(rests_on_few(problem).any()),
    )
    fitted = _fitted(state, plan)
    if moved is not None:
        fitted = replace(
            fitted,
            mean=moved.back(fitted.mean),
            covariance=moved.covariance_back(fitted.covariance),
            noise=moved.covariance_back(fitted.noise),
            steps=plan.steps + 1,
        )
    return replace(
        fitted,
        bias_sq=plan.clip.unseen_sq * known.noise_share,
        bias=counted_bias(problem, plan.clip, state.lever),
    )


def _fitted(state: State, plan: Any) -> Fitted:
    return Fitted(
        mean=state.mean,
        covariance=state.covariance,
        noise=state.noise,
        drift=state.drift,
        steps=plan.steps,
    )


def _entry(account: Account, cost: Fraction, dim: int, n_priv: int) -> float:
    """Noise off the diagonal of a second moment of rows clipped to norm 1."""
    grid = gram_grid(account, cost, dim, n_priv)
    return _off_diagonal(account, grid.event.noise_std * grid.step(1.0) ** 2)


def _off_diagonal(account: Account, diagonal: float) -> float:
    """Noise off the diagonal, from that on it."""
    return diagonal if account.pure else diagonal / math.sqrt(2.0)


def statistics_noise(problem: Problem, account: Account) -> float:
    """Noise off the diagonal of the one release of "sufficient_statistics", for rows clipped to norm 1."""
    return _entry(account, account.allowance - _weighing(problem, account), problem.dim + 1, problem.n_priv)


def _plan_statistics(problem: Problem, account: Account) -> statistics.StatisticsPlan:
    if not isinstance(problem.posterior, Posterior) or problem.posterior.threshold is not None:
        raise InputError("method='sufficient_statistics' is for the squared loss: pass method='newton'")
    if problem.posterior.blank:
        raise InputError(
            "method='sufficient_statistics' clips residuals once, by those of public rows, and public labels that are all equal "
            "have none: pass method='newton'"
        )
    check_gram_grids(account, [_check_weighing(problem, account)], problem.dim + 1, problem.n_priv)
    entry = statistics_noise(problem, account)
    return statistics.plan_statistics(problem.posterior, problem.counted, entry)


def _learn_statistics(run: Run, problem: Problem, plan: statistics.StatisticsPlan) -> Fitted:
    problem, plan, left = _weighed(run, problem, plan)
    assert isinstance(problem.posterior, Posterior)
    account, dim = run.account, problem.dim
    rows = residual_rows(run.rows, problem, plan)
    released = run.on(rows).release(
        SecondMoment(affine=AffineMap(dim=dim + 1), radius=plan.radius),
        name="second moments of rows and residuals",
        cost=left,
        residual_clip=plan.clip.bound * problem.posterior.scale * problem.rotation.label_scale,
        clip_radius=plan.radius,
    )
    entry = _off_diagonal(account, released.noise_std)
    fitted = statistics.pooled(problem.posterior, plan, problem.counted, released.value, entry)
    return replace(fitted, bias=counted_bias(problem, plan.clip, plan.weights.lever**2))


METHODS: Registry[TrainingMethod] = Registry(
    TrainingMethod(
        name="newton",
        prepare=_plan_newton,
        learn=_learn_newton,
        draws=lambda problem: (_most_steps(problem) + 1) * problem.dim + problem.rotation.weighted,
    ),
    TrainingMethod(
        name="sufficient_statistics",
        prepare=_plan_statistics,
        learn=_learn_statistics,
        draws=lambda problem: (problem.dim + 1) ** 2 + problem.rotation.weighted,
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


def candidates(problem: Problem, method: str) -> list[str]:
    """The methods that `method` may stand for: itself, or all without settings that the loss has."""
    if method != "auto":
        return [method]
    known = problem.posterior
    linear = isinstance(known, Posterior) and known.threshold is None
    return [name for name in WITHOUT_SETTINGS if linear or name != "sufficient_statistics"]


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


def least(problem: Problem, account: Account, plans: dict[str, Any]) -> str:
    """The method with the least predicted error; public rows alone unless a private one is clearly better.

    Of two public rows no prediction is worth anything: these alone, which cost nothing.
    """
    if "throw_away" in plans and len(problem.posterior.labels) < _FEWEST_PUBLIC:
        return "throw_away"
    chosen = min(plans, key=lambda name: float(plans[name].predicted))
    if {"newton", "sufficient_statistics"} <= plans.keys() and chosen != "throw_away":
        chosen = _tied(problem, account, plans) or chosen
    if "throw_away" in plans and not plans[chosen].predicted < WORTH * plans["throw_away"].predicted:
        chosen = "throw_away"
    return chosen


def choose(problem: Problem, account: Account, names: list[str]) -> tuple[TrainingMethod, Any]:
    """The method with the least predicted error, and its plan; public rows alone unless a private one is clearly better."""
    plans = prepare(problem, account, names)
    chosen = least(problem, account, plans)
    return METHODS[chosen], plans[chosen]


def _tied(problem: Problem, account: Account, plans: dict[str, Any]) -> str | None:
    """The choice between two methods whose predicted errors are about the same: by what the public curvature is worth."""
    assert isinstance(problem.posterior, Posterior)
    one, other = plans["newton"].predicted, plans["sufficient_statistics"].predicted
    if problem.posterior.next_to_none:
        # One release, residuals clipped about the public fit, keeps more of that fit's error than it predicts; steps correct it.
        return "newton" if one < _SURELY * other else "sufficient_statistics"
    small = max(one, other) < _BOTH_GOOD * problem.posterior.scale**2
    if not small and abs(one - other) > _TIE * max(one, other):
        return None
    dim, m = problem.dim, len(problem.posterior.labels)
    noise = noise_per_radius(dim, pure=account.pure, allowance=account.allowance)(Fraction(1))
    many = problem.counted >= 8.0 * dim**1.5 * noise / 2.0
    return "sufficient_statistics" if m < 10 * dim and many else "newton"
