"""The registry of the training methods, the choice among them, and small releases that may precede a method.

The mean of the private rows: rows are whitened about the mean of m public rows, so that private rows have a mean d with |d|^2 of
about D / m. The curvature along d is then 1 + |d|^2 rather than 1, and steps along d overshoot unless noise keeps them short.
The sum of private weights, by which steps divide: public weights predict it only if private rows have about the same weights.

Methods are chosen by errors predicted from public numbers. Methods with settings are in `gradient/`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, get_args

import numpy as np

from fastpubpriv._types import FloatArray, StepwiseLoss
from fastpubpriv.distributions.norms import DRAWS
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.moments import LARGEST
from fastpubpriv.gradient.descents import DP_SGD, PDA_MIRROR_DESCENT, SEMI_DP
from fastpubpriv.gradient.gradient_problem import (
    Descended,
    GradientProblem,
    PreparedDescent,
)
from fastpubpriv.gradient.gradient_problem import public_fit as public_fit_of_gradients
from fastpubpriv.gradient.loss_curvature import gradient_lengths, public_curvature
from fastpubpriv.gradient.single_releases import EXPONENTIAL, OUTPUT_PERTURBATION
from fastpubpriv.mechanisms.gradient_sums import ResidualSum
from fastpubpriv.mechanisms.sums import AffineMap, VectorSum
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.regression import exact, unlabeled
from fastpubpriv.regression import newton as steps
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.coordinates import Rotation, Weighting, capped, mapped_rows, weighting
from fastpubpriv.regression.problem import (
    Ends,
    Fitted,
    TrainingMethod,
    TrainingProblem,
    concerns_of_columns,
    counted_bias,
    is_shifted,
    own_fit,
    shrinkage_bias,
    shrinkage_error,
    shrunk_steps,
)
from fastpubpriv.regression.public_fits import (
    AnyPosterior,
    FixedClip,
    LogisticPosterior,
    Posterior,
)
from fastpubpriv.release.account import Account
from fastpubpriv.rowwise.losses import LOSSES, Loss, RowLoss, huber_threshold
from fastpubpriv.session import Registry, Session
from fastpubpriv.sources import Rows
from fastpubpriv.sources.row_types import Chunk
from fastpubpriv.sources.views import each_row
from fastpubpriv.training import softmax


def center_share(posterior: AnyPosterior, n_priv: float, noise: steps.Noise) -> Fraction:
    """Return the share of the budget for the mean of the private rows; zero unless public rows are few."""
    m = len(posterior.labels)
    dim = len(posterior.mean)
    if not posterior.is_linear or dim < tuning.CENTER_FEW * m:
        return Fraction(0)
    weight = weighting(posterior.typical, np.ones(dim))
    # noise of a mean over that of a sum clipped to radius 1
    unit = float(weight.radius / (n_priv * weight.lever.mean()))
    enough = (
        share
        for share in tuning.CENTER_SHARES
        if dim / (m + (unit * noise(share)) ** -2) <= tuning.LEFT_SQ
    )
    return next(enough, tuning.CENTER_SHARES[-1])


def one(prediction: float, label: float) -> float:
    """The residual that turns a sum of gradients into a sum of rows."""
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Centered:
    """A posterior and a map of rows about a released mean."""

    # with the intercept at the released mean; correlations are ignored, which makes no variance smaller
    posterior: Posterior
    rotation: Rotation  # of rows, about the released mean
    axis: FloatArray  # (D,), direction of the intercept
    moved: FloatArray  # (D,), released mean, orthogonal to it

    def back(self, mean: FloatArray) -> FloatArray:
        """Convert coefficients (D,) to those about the public mean."""
        return mean - self.axis * float(self.moved @ mean)

    def covariance_back(self, covariance: FloatArray) -> FloatArray:
        """Return the covariance (D, D) of `back`."""
        half = covariance - np.outer(self.axis, self.moved @ covariance)
        return half - np.outer(half @ self.moved, self.axis)


def release_center(run: Session, problem: TrainingProblem, cost: Fraction) -> Centered:
    """Release the mean of the rotated rows of `run` and move the problem there."""
    posterior = problem.posterior
    assert isinstance(posterior, Posterior)
    m = len(posterior.labels)
    dim = len(posterior.mean)
    n = problem.counted
    weights = weighting(posterior.typical, np.ones(dim))
    rows = ResidualSum(
        slope=np.zeros(dim),
        spread=np.ones(dim),
        residual=one,
        scale=1.0,
        clip=1.0,
        radius=weights.radius,
        row_step=problem.rotation.step,
        weighted=problem.rotation.weighted,
    )
    released = run.release(rows, name="mean of the rows", cost=cost, clip_radius=weights.radius)
    unit = 1.0 / (n * float(weights.lever.mean()))
    noise_sq = (released.noise_std * unit) ** 2
    mean = posterior.turn[1:] @ np.clip(np.nan_to_num(released.value), -LARGEST, LARGEST) * unit
    # Shrinkage with a prior variance of 1 / m, the error of the public mean; no row is longer than the radius.
    mean /= 1.0 + m * noise_sq
    mean *= min(1.0, weights.radius / max(float(np.linalg.norm(mean)), 1e-300))
    return centered(problem, mean, 1.0 / (m + 1.0 / noise_sq))


def centered(problem: TrainingProblem, mean: FloatArray, doubt: float) -> Centered:
    """Return the problem about `mean` (p,), in whitened coordinates, whose entries have the error variance `doubt`."""
    posterior = problem.posterior
    rotation = problem.rotation
    assert isinstance(posterior, Posterior)
    axis = posterior.turn[0]
    moved = mean @ posterior.turn[1:]
    spread = float(moved**2 @ posterior.variance) + doubt * posterior.spread
    # Rows become root (terms - center) + offset: the released mean is subtracted in the offset, so that no matrix is inverted.
    row_map = replace(rotation.row_map, offset=posterior.turn[0] - moved)
    about = posterior.mean + axis * float(moved @ posterior.mean)
    posterior = replace(posterior, mean=about, variance=posterior.variance + axis**2 * spread)
    return Centered(
        posterior=posterior, rotation=replace(rotation, row_map=row_map), axis=axis, moved=moved
    )


SUM_OF_WEIGHTS = "sum of weights"


def weighing_cost(problem: TrainingProblem, account: Account) -> Fraction:
    """Return the cost of the sum of private weights; zero without weights, or if noise would dominate."""
    if not problem.rotation.weighted:
        return Fraction(0)
    noise = partial(account.spending.std, "sum", 1)
    for share in tuning.WEIGHT_SHARES:
        if 0.5 * noise(share) <= tuning.WANTED_WEIGHT_ERROR * problem.counted:
            return account.allowance * share
    hidden = 0.5 * noise(tuning.WEIGHT_SHARES[-1]) > tuning.MOST_WEIGHT_ERROR * problem.counted
    return Fraction(0) if hidden else account.allowance * tuning.WEIGHT_SHARES[-1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightOfRow:
    """The public map of a labeled row with a weight to that weight, in units of the cap; 0 for a row without a label."""

    rotation: Rotation

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, dim + 2) as (k, 1) float64."""
        assert self.rotation.weight_cap is not None
        weights = capped(chunk[:, -1].astype(np.float64), self.rotation.weight_cap)
        labels = self.rotation.labels(chunk[:, -2].astype(np.float64))
        return np.where(np.isfinite(labels), weights, 0.0)[:, None]


def weigh(
    run: Session, problem: TrainingProblem, plan: Any, cost: Fraction
) -> tuple[TrainingProblem, Any]:
    """Release the sum of the weights of the rows of `run`; return the problem and the plan that divide by it."""
    rows = each_row(run.rows, WeightOfRow(rotation=problem.rotation), 1)
    # Centered at one half, weights lie within one half of zero.
    middle = AffineMap(dim=1, center=np.array([0.5]))
    released = run.on(rows).release(
        VectorSum(affine=middle, radius=0.5), name=SUM_OF_WEIGHTS, cost=cost
    )
    n = problem.n_priv
    count = float(np.nan_to_num(released.value[0])) + 0.5 * n
    least = max(tuning.LEAST_WEIGHT * n, min(released.noise_std, float(n)))
    share = min(max(count, least), n) / n
    # Weights that are r times as large have r times the ratio of mean w^2 to mean w, at most 1.
    factor = min(share / problem.weight_share, 1.0 / problem.weight_spread)
    moved = replace(problem, weight_share=share)
    if isinstance(problem.posterior, LogisticPosterior):
        heavier = replace(problem.posterior, energy=problem.posterior.energy * factor)
        return replace(moved, posterior=heavier), plan
    if isinstance(plan.clip, FixedClip):
        clip = replace(plan.clip, counts=plan.clip.counts * factor)
    else:
        clip = replace(plan.clip, energy=plan.clip.energy * factor)
    return moved, replace(plan, clip=clip)


def with_label_unit(run: Session, problem: TrainingProblem) -> TrainingProblem:
    """Release the unit of the labels, if no public number says it; return the problem in that unit."""
    if not problem.label_share:
        return problem
    rotation = problem.rotation
    released = unlabeled.release_label_scale(
        run,
        len(rotation.design.columns),
        rotation.label_center,
        problem.label_share,
        float(rotation.design.scale.min()),
    )
    return replace(
        problem,
        rotation=replace(rotation, label_scale=released.scale),
        has_far_labels=released.has_far_labels,
    )


def _plan_public(problem: TrainingProblem, account: Account) -> steps.NewtonPlan:
    if not problem.has_labels:
        raise InputError(
            f"method='throw_away' fits public rows alone, and fewer than {tuning.FEWEST_PUBLIC} of them have a label: there is "
            "nothing to fit; pass y_pub=, or method='newton'"
        )
    alone = problem.posterior.excess
    return steps.NewtonPlan(steps=0, predicted=alone, public_excess=alone, reads=False)


def _plan_public_minimum(problem: GradientProblem, account: Account) -> PreparedDescent:
    if problem.loss is None or problem.loss.values is None:
        raise InputError(
            "method='throw_away' needs a loss with values, which public rows can minimize"
        )
    lengths = gradient_lengths(problem)
    clip = float(np.max(lengths)) or 1.0
    alone = problem.excess_part * public_curvature(problem, lengths, clip).public_error
    unread = PreparedDescent(
        predicted=alone,
        public_excess=alone,
        steps=0,
        clip_norm=clip,
        batch_rows=problem.n_priv,
        ranges={"start": "public weights"},
    )
    return replace(unread, priv_weight=0.0, reads=False)


def public_fit(problem: TrainingProblem) -> Fitted:
    """Return the fit of the public rows alone; intervals are about their least squares, or maximum likelihood."""
    known = problem.posterior
    none = np.zeros((problem.dim,) * 2)
    if problem.has_few_rows or known.drawn is not None:
        return Fitted(mean=known.mean, covariance=known.covariance, noise=none)
    exact, covariance = own_fit(problem)
    # What is moved does not depend on the levels that others are compared with.
    about = problem.about_the_mean
    center = about.in_units(exact)
    shrunk = about.in_units(known.mean)
    zeros = np.zeros(len(center))
    std = np.sqrt(np.diag(about.covariance_in_units(covariance)))
    # Shrinkage of an estimate by more than its standard error is a bias rather than a gain (Efron and Morris 1972).
    moved = np.clip(shrunk - center, -std, std)
    estimate = center + moved
    for values in (estimate, center):
        problem.rotation.design.from_reference(values[1:], values[:1])
    reasons = concerns_of_columns(problem).first(len(center))
    return Fitted(
        mean=exact + about.from_units(moved),
        covariance=covariance,
        noise=none,
        ends=Ends(
            estimate=estimate,
            center=center,
            below=zeros,
            above=zeros,
            scale=zeros + 1.0,
            rows_std=np.sqrt(np.diag(problem.covariance_in_units(covariance))),
            reasons=reasons,
        ),
    )


def _draws_newton(problem: TrainingProblem) -> int:
    known = problem.posterior
    dim = problem.dim
    most = steps.step_counts(known)[-1]
    rounds = 2 if problem.is_bounded else 1
    after = rounds * (2 * DRAWS + 2 * dim * dim + 2 * dim) if problem.exact else 0
    before = DRAWS + 1 if problem.label_share else 0
    return before + (most + 1) * dim + problem.rotation.weighted + after


def _left_for_fit(
    problem: TrainingProblem, account: Account, cost_of_weights: Fraction
) -> Spending:
    """What the releases before the steps leave: the count of labels and the sum of weights."""
    counted = account.allowance * problem.label_share
    return account.spending.at(account.allowance - counted - cost_of_weights)


def _plan_newton(problem: TrainingProblem, account: Account) -> Any:
    cost = weighing_cost(problem, account)
    if cost:
        account.spending.at(cost).grid("sum", 1, problem.n_priv)  # InputError if there is none
    if problem.label_share:
        unlabeled.plan_label_count(account.spending.part(problem.label_share), problem.n_priv)
    left = _left_for_fit(problem, account, cost)
    if not problem.exact:
        return _plan_steps(problem, left, tuning.MORE_STEPS[-1])
    most = exact.most_steps(problem, left.std("sum", problem.dim))
    start = _plan_steps(problem, left.part(tuning.START), most)
    return exact.plan_exact(problem, account, left, start)


def _plan_steps(problem: TrainingProblem, left: Spending, most: int) -> Any:
    """Plan at most `most` Newton steps at a total cost of `left`; raise InputError if a release has no grid."""
    noise = partial(left.std, "sum", problem.dim)
    center = center_share(problem.posterior, problem.counted, noise)
    plan = steps.plan_newton(problem.posterior, problem.counted, noise, center, most)
    if center:
        left.part(center).grid("sum", problem.dim, problem.n_priv)
    left.part(plan.share).grid("sum", problem.dim, problem.n_priv)
    return plan


def _learn_newton(run: Session, problem: TrainingProblem, plan: Any) -> Fitted:
    start = plan.start if isinstance(plan, exact.ExactPlan) else plan
    cost = weighing_cost(problem, run.account)
    left = _left_for_fit(problem, run.account, cost)
    if cost:
        problem, start = weigh(run, problem, start, cost)
    if not isinstance(plan, exact.ExactPlan):
        fitted, _ = _learn_steps(run, problem, start, left)
        if problem.loss.classes and problem.has_few_rows and problem.posterior.drawn is None:
            return shrunk_steps(problem, fitted)
        return fitted
    fitted, rows = _learn_steps(run, problem, start, left.part(tuning.START))
    return exact.learn_exact(run, problem, plan, fitted, rows)


def _learn_steps(
    run: Session, problem: TrainingProblem, plan: Any, left: Spending
) -> tuple[Fitted, Rows]:
    """Run Newton steps at a total cost of `left`; return the fit and the rows in the coordinates of the problem."""
    noise = partial(left.std, "sum", problem.dim)
    known = problem.posterior
    rotation = problem.rotation
    moved = None
    if isinstance(known, Posterior) and plan.center:
        once = each_row(run.rows, rotation, rotation.out_width)  # one pass: not cached
        moved = release_center(run.on(once), problem, left.part(plan.center).allowance)
        known = moved.posterior
        rotation = moved.rotation
    rows = mapped_rows(run.rows, rotation, run.executor)
    on_rows = run.on(rows)
    step_cost = left.part(plan.share).allowance

    def ask(
        step: int, slope: FloatArray, weights: Weighting, scale: float, clip: float
    ) -> tuple[FloatArray, float]:
        asked = ResidualSum(
            slope=slope,
            spread=weights.spread,
            residual=problem.loss.residual,
            scale=scale,
            clip=clip,
            radius=weights.radius,
            row_step=rotation.step,
            weighted=rotation.weighted,
        )
        released = on_rows.release(
            asked,
            name=f"gradient, step {step + 1}",
            cost=step_cost,
            residual_clip=clip * scale * rotation.label_scale,
            clip_radius=weights.radius,
        )
        return released.value, released.noise_std

    longest = problem.longest_move
    state = steps.newton(known, plan, problem.counted, noise, ask, longest)
    fitted = Fitted(
        mean=state.mean,
        covariance=state.covariance,
        noise=state.noise,
        drift=state.drift,
    )
    clipped = None
    if isinstance(known, Posterior):
        clipped = counted_bias(problem, plan.clip, state.lever)
    if problem.tails == "light":
        variance = 1.0 / state.private_precision
        if clipped is not None:  # least squares of public rows have no bias by clips
            variance = variance + problem.from_units(clipped) ** 2
        shifted = moved is None and is_shifted(problem, state.private_mean, variance)
        fitted = replace(fitted, is_cut=state.is_cut, is_shifted=shifted)
    if clipped is None:
        bias = shrinkage_bias(problem, fitted.covariance)
        covariance = fitted.covariance + shrinkage_error(problem, fitted.covariance)
        return replace(fitted, bias=bias, covariance=covariance), rows
    if moved is not None:
        mean = moved.back(fitted.mean)
        covariance = moved.covariance_back(fitted.covariance)
        noise_part = moved.covariance_back(fitted.noise)
        fitted = replace(fitted, mean=mean, covariance=covariance, noise=noise_part)
    shrunk = shrinkage_bias(problem, fitted.covariance)
    bias = np.copysign(np.hypot(shrunk, clipped), clipped)
    return replace(fitted, bias_sq=plan.clip.unseen_sq * known.noise_share, bias=bias), rows


NEWTON = TrainingMethod(
    name="newton",
    prepare=_plan_newton,
    learn=_learn_newton,
    draws=_draws_newton,
    noise=lambda problem, plan, account: account.spending.std("sum", problem.dim, plan.share),
)
PUBLIC_ONLY = TrainingMethod(
    name="throw_away",
    prepare=_plan_public,
    learn=lambda run, problem, plan: public_fit(problem),
    draws=lambda problem: 1,
)
METHODS: Registry[TrainingMethod] = Registry(
    NEWTON,
    PUBLIC_ONLY,
    SEMI_DP,
    DP_SGD,
    PDA_MIRROR_DESCENT,
    OUTPUT_PERTURBATION,
    EXPONENTIAL,
    auto=True,
)
# What the methods without settings are for a loss without a `TrainingProblem`.
NEWTON_OF_CLASSES = TrainingMethod(
    name=NEWTON.name, prepare=softmax.prepare, learn=softmax.learn, draws=softmax.draws
)
PUBLIC_MINIMUM = TrainingMethod(
    name=PUBLIC_ONLY.name,
    prepare=_plan_public_minimum,
    learn=lambda run, problem, plan: Descended(weights=problem.public.weights),
    draws=lambda problem: 1,
)
OF_GRADIENT_PROBLEMS = {record.name: record for record in (NEWTON_OF_CLASSES, PUBLIC_MINIMUM)}


def is_stepwise(loss: Any) -> bool:
    """Whether it is a loss of a `TrainingProblem`, for methods without settings."""
    return huber_threshold(loss) is not None or any(
        loss is LOSSES[name] for name in get_args(StepwiseLoss)
    )


def requested(
    method: Any, loss: str | Loss | RowLoss
) -> tuple[Loss | RowLoss, TrainingMethod, Any]:
    """Return loss and method given by names or as objects (for "auto", the method to try) and the settings, if any."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise InputError(
                f"loss must be one of {', '.join(map(repr, LOSSES))}, a Loss or a RowLoss, got {loss!r}"
            )
        loss = LOSSES[loss]
    if not isinstance(loss, Loss) and not callable(getattr(loss, "gradient", None)):
        raise InputError(
            "loss must be a name, a Loss, or an object with value() and gradient() for each row"
        )
    for record in METHODS.values():
        if record.settings is not None and isinstance(method, record.settings):
            return loss, record, method
    name = METHODS.choose(method)
    stepwise = is_stepwise(loss)
    if name == NEWTON.name and not (stepwise or loss is LOSSES["softmax"]):
        kind = getattr(loss, "name", type(loss).__name__)
        raise InputError(
            f"method={method!r} is for the squared, Huber, logistic and softmax losses, got {kind!r}: pass a gradient method"
        )
    record = METHODS.get(name, NEWTON if stepwise else SEMI_DP)  # "auto" is not in METHODS
    if not stepwise:
        record = OF_GRADIENT_PROBLEMS.get(name, record)
    return loss, record, None if record.settings is None else record.settings()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """A method with its problem, and once it is prepared its plan and the account that the plan is for."""

    method: TrainingMethod
    problem: TrainingProblem | GradientProblem
    plan: Any = None
    account: Account | None = None

    def prepared(self, name: str, budget: Budget) -> Choice:
        """Return the choice with its plan for a budget. Raise InputError if the method cannot run."""
        draws = self.method.draws(self.problem)
        account = Account(name, self.method.spends(budget), draws=draws)
        plan = self.method.prepare(self.problem, account)
        return replace(self, plan=plan, account=account)

    @property
    def error(self) -> float:
        """Predicted excess of the loss, comparable between methods; infinite unless public rows alone are clearly worse."""
        predicted = self.plan.predicted
        if predicted is None or not math.isfinite(predicted) or not self.plan.is_worth:
            return math.inf
        return float(predicted)


def gradient_choices(problem: GradientProblem) -> list[Choice]:
    """Return the methods with settings, at their defaults, that "auto" compares; they share a public fit."""
    # Two others never win: T disjoint batches have sqrt(T) times the noise of T full passes, and "dp_sgd" is "semi_dp" with a
    # private weight of one from a start farther off, at a distance that a shrunk public fit understates.
    records = (SEMI_DP, PDA_MIRROR_DESCENT, OUTPUT_PERTURBATION)
    known = public_fit_of_gradients(problem, 0.0)
    return [
        Choice(method=each, problem=replace(problem, known=known, settings=each.settings()))
        for each in records
        if each.settings is not None
    ]


def is_comparable(problem: TrainingProblem) -> bool:
    """Whether Newton steps are compared with gradient methods: of few public rows the curvature is no guide to steps along it."""
    return problem.has_labels and len(problem.posterior.labels) >= tuning.FEW * problem.dim


def with_gradient_methods(first: Choice, make: Callable[[], GradientProblem]) -> list[Choice]:
    """Return Newton steps and the methods that they are compared with; `make` returns the problem of these."""
    assert isinstance(first.problem, TrainingProblem)
    if not is_comparable(first.problem):
        return [first]
    try:
        gradients = make()
    except InputError:  # weights of rows are for "newton"
        return [first]
    return [first, *gradient_choices(gradients)]


def choose(choices: Sequence[Choice], name: str, budget: Budget) -> Choice:
    """Return the choice of least predicted error, prepared; public rows alone, with the first problem, if none is worthwhile.

    All of it from public numbers. Newton steps are preferred on a tie, since they have intervals.
    """
    first = choices[0].problem
    possible: list[Choice] = []
    if isinstance(first, TrainingProblem):
        if not first.has_labels:  # public rows alone have no fit
            return choices[0].prepared(name, budget)
        if len(first.posterior.labels) < tuning.FEWEST_PUBLIC:
            # A prediction from two public rows is unreliable: public rows alone are used, at no cost.
            choices = ()
        elif not is_comparable(first):
            choices = choices[:1]
    for each in choices:
        with contextlib.suppress(InputError):  # e.g. no grid of the noise is fine enough
            possible.append(each.prepared(name, budget))
    least = min((each.error for each in possible), default=math.inf)
    if least == math.inf:
        alone = PUBLIC_MINIMUM if isinstance(first, GradientProblem) else PUBLIC_ONLY
        return Choice(method=alone, problem=first).prepared(name, budget)
    ties = [each for each in possible if each.error <= tuning.TIE * least]
    return min(ties, key=lambda each: (each.method.name != NEWTON.name, each.error))
