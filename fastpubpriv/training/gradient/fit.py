"""A fit by noisy gradients, from opened rows to the result: what `train` calls for the gradient methods."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fastpubpriv import run as running
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.losses import LOSSES, Loss, RowLoss
from fastpubpriv.privacy import ApproxDP, Budget, PureDP
from fastpubpriv.results.base import frozen
from fastpubpriv.results.descent import DescentResult
from fastpubpriv.sources import Rows
from fastpubpriv.training.design import named_design
from fastpubpriv.training.gradient.asking import Asker, check, noise_of
from fastpubpriv.training.gradient.checkpoint import open_checkpoint
from fastpubpriv.training.gradient.choosing import Exponential, choose_model, clip_of, spread_models
from fastpubpriv.training.gradient.descent import descend
from fastpubpriv.training.gradient.perturbing import OutputPerturbation, check_loss, learn_minimum, plan_minimum
from fastpubpriv.training.gradient.plan import Plan, gradient_lengths, make_plan, most_steps, public_curvature
from fastpubpriv.training.gradient.problem import GradientProblem, make_gradient_problem
from fastpubpriv.training.gradient.public_fit import PublicFit, public_fit
from fastpubpriv.training.gradient.settings import DESCENTS, Descent
from fastpubpriv.training.kept import kept_rows
from fastpubpriv.training.stated import Stated

Settings = Descent | Exponential | OutputPerturbation
STEPWISE = ("squared", "logistic")  # losses that other methods know


def chosen_loss(loss: Any) -> Loss | RowLoss:
    """The loss that an argument names or is."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))}, a Loss or a RowLoss, got {loss!r}")
        return LOSSES[loss]
    if isinstance(loss, Loss) or callable(getattr(loss, "gradient", None)):
        return loss  # type: ignore[no-any-return]
    raise InputError("loss must be a name, a Loss, or an object with value() and gradient() for each row")


def is_stepwise(loss: Any) -> bool:
    """Whether methods other than gradient descent know the loss."""
    return any(loss is LOSSES[name] for name in STEPWISE)


def descent_for(method: Any, loss: Any) -> Settings | None:
    """The method of this module that is asked for, None for another method."""
    if isinstance(method, Settings):
        return method
    for kind in (Exponential, OutputPerturbation):
        if method == kind.name:
            return kind()
    if method in DESCENTS:
        return DESCENTS[method]()
    if method == "auto" and not is_stepwise(loss):
        return DESCENTS["semi_dp"]()
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """What a result says of the way to it: fields of `DescentResult`."""

    method: str
    steps: int
    clip_norm: float
    batch_rows: int
    step_size: float = 0.0
    priv_weight: float = 1.0
    noise_std: float = 0.0
    lost_steps: int = 0
    predicted_excess: float | None = None
    public_excess: float | None = None


def fit(
    loss: Loss | RowLoss,
    data: tuple[Rows, FloatArray],
    budget: Budget,
    settings: Settings,
    model: Stated,
    account: dict[str, Any],
) -> DescentResult:
    """Check, plan, pay, descend or choose."""
    rows, table = data
    features = None if rows.columns is None else tuple(str(each) for each in rows.columns[:-1])
    names = features or tuple(f"x{j}" for j in range(rows.dim - 1))
    problem, n_pub = make_gradient_problem(loss, table, names, rows.n, scaling=settings.scaling, stated=model)
    if isinstance(settings, Exponential):
        return _chosen(problem, rows, budget, settings, (n_pub, features, names), account)
    if isinstance(settings, OutputPerturbation):
        return _perturbed(problem, rows, budget, settings, (n_pub, features, names), account)
    settings.check_rows(rows.n)
    draws = max(1, most_steps(problem, settings) * problem.size)
    run = running.start("train", rows, budget, draws=draws, **account)
    check(problem, settings, rows, run.executor)
    plan = make_plan(problem, settings, noise_of(problem, settings, run.account))
    if plan.priv_weight == 0.0:
        return _result(run, problem, plan, descend(problem, plan, None), (n_pub, features, names), None)
    worse = plan.predicted is not None and plan.public_excess is not None and not plan.predicted < plan.public_excess
    if worse:
        warnings.warn(_no_closer(settings.name), AccuracyWarning, stacklevel=4)
    with open_checkpoint(settings.checkpoint, _digest(problem, plan, table, budget), problem.shape) as kept:
        asker = Asker(run, problem, plan, kept)
        with run.paid(before=kept is not None and kept.resumed):
            if kept is not None and not kept.resumed:
                kept.start()
            asker.prepare()
            weights = descend(problem, plan, asker)
            return _result(run, problem, plan, weights, (n_pub, features, names), asker)


def _digest(problem: GradientProblem, plan: Plan, table: FloatArray, budget: Budget) -> str:
    """What a checkpoint must agree with: everything public that decides the queries."""
    facts = (
        repr(plan.settings.with_(checkpoint=None, start="public")),
        plan.settings.name,
        problem.loss.name if problem.loss is not None else type(problem.row_loss).__name__,
        problem.n_priv,
        problem.shape,
        repr(budget),
        (plan.steps, plan.clip_norm.hex(), float(plan.step_size).hex(), float(plan.priv_weight).hex(), plan.divisor),
    )
    found = hashlib.sha256(repr(facts).encode())
    for part in (table, plan.start):
        found.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    return found.hexdigest()


def _chosen(
    problem: GradientProblem,
    rows: Rows,
    budget: Budget,
    settings: Exponential,
    names: tuple[int, tuple[str, ...] | None, tuple[str, ...]],
    account: dict[str, Any],
) -> DescentResult:
    """One of a public list of models, chosen by private rows."""
    loss = problem.loss
    if loss is None or loss.values is None or loss.scores:
        raise InputError("method='exponential' is for a loss of one prediction that has a function of values")
    public = public_fit(problem, settings.l2)
    lengths = gradient_lengths(problem, public.weights, public)
    known = public_curvature(problem, public, lengths, float(np.max(lengths)) or 1.0)
    models = spread_models(problem, settings, public, known)
    clip = clip_of(problem, settings, models)
    # A choice has no use for delta, so none is spent.
    spent = PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget
    run = running.start("train", rows, spent, draws=1, **account)
    with run.paid():
        units = problem.units
        kept = kept_rows(rows, units, units.width + 1, dtype=units.dtype, executor=run.executor)
        weights = choose_model(run.on(kept), problem, models, clip)
        how = _How(method=settings.name, steps=1, clip_norm=clip, batch_rows=rows.n)
        clipped = "public rows" if settings.clip == "auto" else "argument"
        return _assembled(run, problem, public, weights, names, how, {"clip": clipped})


def _perturbed(
    problem: GradientProblem,
    rows: Rows,
    budget: Budget,
    settings: OutputPerturbation,
    names: tuple[int, tuple[str, ...] | None, tuple[str, ...]],
    account: dict[str, Any],
) -> DescentResult:
    """The minimum of a weighted loss, with noise."""
    check_loss(problem)
    public = public_fit(problem, 0.0)
    run = running.start("train", rows, budget, draws=problem.size, **account)
    plan = plan_minimum(problem, settings, public, run.account)
    if not plan.predicted < plan.public_excess:
        warnings.warn(_no_closer(settings.name), AccuracyWarning, stacklevel=5)
    minimum = plan.minimum
    minimum.descend(lambda query: query.zeros()[0], 1)  # compiles the loss before the debit
    with run.paid():
        weights, noise_std = learn_minimum(run, problem, plan)
        unit = problem.units.scale**2
        how = _How(
            method=settings.name,
            steps=minimum.steps,
            step_size=minimum.step_size,
            clip_norm=minimum.longest,
            priv_weight=minimum.priv_weight,
            batch_rows=rows.n,
            noise_std=noise_std,
            predicted_excess=_known(plan.predicted, unit),
            public_excess=_known(plan.public_excess, unit),
        )
        clipped = "public rows" if settings.row_norm == "auto" else "argument"
        return _assembled(run, problem, public, weights, names, how, {"clip": clipped, "start": "public weights"})


def _no_closer(method: str) -> str:
    return (
        f"train: method={method!r} is predicted to be no closer than the public rows alone; pass a larger budget, more "
        "private rows, or let step_size and priv_weight be chosen"
    )


def _result(
    run: running.Run,
    problem: GradientProblem,
    plan: Plan,
    weights: FloatArray,
    names: tuple[int, tuple[str, ...] | None, tuple[str, ...]],
    asker: Asker | None,
) -> DescentResult:
    squares = 1.0
    if problem.loss is not None and problem.loss.name in ("squared", "huber"):
        squares = problem.units.scale**2
    start = plan.settings.start
    how = _How(
        method=plan.settings.name,
        steps=plan.steps,
        step_size=plan.step_size,
        clip_norm=plan.clip_norm,
        priv_weight=plan.priv_weight,
        batch_rows=plan.divisor,
        noise_std=0.0 if asker is None else asker.noise_std,
        lost_steps=0 if asker is None else asker.lost,
        predicted_excess=_known(plan.predicted, squares),
        public_excess=_known(plan.public_excess, squares),
    )
    ranges = {
        "clip": "public rows" if plan.settings.clip_norm == "auto" else "argument",
        "start": f"{start} weights" if isinstance(start, str) else "argument",
    }
    return _assembled(run, problem, plan.public, weights, names, how, ranges)


def _assembled(
    run: running.Run,
    problem: GradientProblem,
    fitted: PublicFit,
    weights: FloatArray,
    names: tuple[int, tuple[str, ...] | None, tuple[str, ...]],
    how: _How,
    ranges: dict[str, str],
) -> DescentResult:
    n_pub, features, columns = names
    units, design = problem.units, problem.units.design
    coefficients, intercept = units.in_units(weights.reshape(problem.outputs, -1))
    public, alone = units.in_units(fitted.weights.reshape(problem.outputs, -1))
    shared = run.fields(n_pub)
    shared["dim"] = len(columns)
    return DescentResult(
        coefficients=frozen(coefficients),
        intercept=frozen(intercept),
        public_coefficients=frozen(public),
        public_intercept=frozen(alone),
        loss=problem.loss.name if problem.loss is not None else type(problem.row_loss).__name__,
        terms=tuple(columns if design is None else design.terms),
        weights=frozen(weights.ravel()),
        classes=frozen(units.classes or ()),
        design=named_design(design, units.classes, problem.class_names),
        columns=features,
        provenance={"scales": "none" if design is None else problem.scales, **ranges},
        **asdict(how),
        **shared,
    )


def _known(value: float | None, unit: float) -> float | None:
    return None if value is None or not math.isfinite(value) else value * unit
