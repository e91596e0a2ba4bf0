"""The methods that step along noisy gradients, and a fit from opened rows to the result for all methods with settings."""

from __future__ import annotations

import contextlib
import hashlib
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastpubpriv import session as running
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.losses import LOSSES, Loss, RowLoss, huber_threshold
from fastpubpriv.privacy import Budget, SampledGrid
from fastpubpriv.release.account import Account
from fastpubpriv.results.base import frozen
from fastpubpriv.results.models import DescentResult
from fastpubpriv.session import Run
from fastpubpriv.sources import Rows
from fastpubpriv.training.gradient.plan import Plan, descend, gradient_lengths, make_plan, most_steps, public_curvature
from fastpubpriv.training.gradient.private_gradients import (
    Asker,
    Call,
    Checkpoint,
    check,
    noise_of,
    open_checkpoint,
    ready_grid,
)
from fastpubpriv.training.gradient.problem import Descended, GradientTask, Prepared, excess_part, make_gradient_problem
from fastpubpriv.training.gradient.settings import DPSGD, Descent, MirrorDescent, SemiDP
from fastpubpriv.training.inputs import Stated, named_design
from fastpubpriv.training.problem import WORTH, TrainingMethod


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """A plan, the grid of sums over sampled rows (None for plain sums), and the checkpoint (None without one)."""

    plan: Plan
    grid: SampledGrid | None = None
    kept: Checkpoint | None = None


def _draws(task: GradientTask) -> int:
    task.settings.check_rows(task.problem.n_priv)
    return most_steps(task.problem, task.settings) * task.problem.size


def _prepare(task: GradientTask, account: Account) -> Prepared:
    """The least predicted error; what can be refused is refused here."""
    problem, settings = task.problem, task.settings
    if task.rows is not None and task.executor is not None:
        check(problem, settings, task.rows, task.executor)
    plan = make_plan(problem, settings, noise_of(problem, settings, account), public=task.public)
    start = settings.start
    reads = plan.priv_weight > 0.0
    steps, resumed = Steps(plan=plan), False
    if reads and task.rows is not None:
        grid = ready_grid(problem, plan, account)
        call = Call(digest=_digest(task, plan), shape=problem.shape, steps=plan.steps, seeded=not account.private)
        kept = task.files.enter_context(open_checkpoint(settings.checkpoint, call))
        steps, resumed = Steps(plan=plan, grid=grid, kept=kept), kept is not None and kept.resumed
    return Prepared(
        public=plan.public,
        predicted=plan.predicted,
        public_excess=plan.public_excess,
        steps=plan.steps,
        clip_norm=plan.clip_norm,
        batch_rows=plan.divisor,
        step_size=plan.step_size,
        priv_weight=plan.priv_weight,
        ranges={
            "clip": "public rows" if settings.clip_norm == "auto" else "argument",
            "start": f"{start} weights" if isinstance(start, str) else "argument",
        },
        reads=reads,
        resumed=resumed,
        more=steps,
    )


def _learn(run: Run, task: GradientTask, prepared: Prepared) -> Descended:
    """Take the steps."""
    steps: Steps = prepared.more
    if not prepared.reads:
        return Descended(weights=descend(task.problem, steps.plan, None))
    if steps.kept is not None and not steps.kept.resumed:
        steps.kept.start()
    asker = Asker(run, task.problem, steps.plan, steps.grid, steps.kept)
    asker.prepare()
    weights = descend(task.problem, steps.plan, asker)
    return Descended(weights=weights, noise_std=asker.noise_std, lost_steps=asker.lost)


def _digest(task: GradientTask, plan: Plan) -> str:
    """What a checkpoint must agree with: everything public that decides the queries."""
    problem = task.problem
    facts = (
        repr(plan.settings.with_(checkpoint=None, start="public")),
        plan.settings.name,
        problem.loss.name if problem.loss is not None else type(problem.row_loss).__name__,
        problem.n_priv,
        problem.shape,
        repr(task.budget),
        (plan.steps, plan.clip_norm.hex(), float(plan.step_size).hex(), float(plan.priv_weight).hex(), plan.divisor),
    )
    found = hashlib.sha256(repr(facts).encode())
    for part in (task.table, plan.start):
        found.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    return found.hexdigest()


def prepare_public(task: GradientTask) -> Prepared:
    """Public rows alone: nothing is read."""
    problem, public = task.problem, task.public
    if problem.loss is None or problem.loss.values is None:
        raise InputError("method='throw_away' needs a loss with values, which public rows can minimise")
    lengths = gradient_lengths(problem, public.weights, public)
    clip = float(np.max(lengths)) or 1.0
    known = public_curvature(problem, public, lengths, clip)
    alone = excess_part(problem) * known.public_error
    return Prepared(
        public=public,
        predicted=alone,
        public_excess=alone,
        steps=0,
        clip_norm=clip,
        batch_rows=problem.n_priv,
        priv_weight=0.0,
        ranges={"start": "public weights"},
        reads=False,
    )


def finite(value: float | None, unit: float) -> float | None:
    """A predicted excess in a unit, None where there is none."""
    return None if value is None or not math.isfinite(value) else value * unit


def record_of(kind: type[Descent]) -> TrainingMethod:
    """The record of a kind of settings."""
    return TrainingMethod(name=kind.name, settings=kind, draws=_draws, prepare=_prepare, learn=_learn)


SEMI_DP, DP_SGD, PDA_MIRROR_DESCENT = (record_of(kind) for kind in (SemiDP, DPSGD, MirrorDescent))


STEPWISE = ("squared", "logistic", "huber")  # losses that methods without settings know


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
    """Whether methods without settings know the loss."""
    return huber_threshold(loss) is not None or any(loss is LOSSES[name] for name in STEPWISE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Names:
    """Of the private columns as they are matched, None where there are none, and as results call them; and the public rows."""

    features: tuple[str, ...] | None
    columns: tuple[str, ...]
    n_pub: int


def fit(
    record: TrainingMethod,
    settings: Any,
    loss: Loss | RowLoss,
    data: tuple[Rows, FloatArray],
    budget: Budget,
    model: Stated,
    account: dict[str, Any],
    *,
    instead: TrainingMethod | None = None,
) -> DescentResult:
    """Check, plan, pay, learn; `settings` None is for a method that has none. `instead` is for one that is not worth its budget."""
    rows, table = data
    features = None if rows.columns is None else tuple(str(each) for each in rows.columns[:-1])
    columns = features or tuple(f"x{j}" for j in range(rows.dim - 1))
    running.require_squares("train", rows.dim - 1, 12)
    scaling = getattr(settings, "scaling", "standard")
    problem, n_pub = make_gradient_problem(loss, table, columns, rows.n, scaling=scaling, stated=model)
    names = _Names(features=features, columns=columns, n_pub=n_pub)
    with contextlib.ExitStack() as files:
        task = GradientTask(problem=problem, settings=settings, rows=rows, table=table, budget=budget, files=files)
        run = running.start("train", rows, record.spends(budget), draws=max(1, record.draws(task)), **account)
        task = replace(task, executor=run.executor)
        plan: Prepared = record.prepare(task, run.account)
        if instead is not None and not plan.beats(WORTH):
            record, plan = instead, instead.prepare(task, run.account)
        if not plan.reads:
            return _result(run, record, task, plan, record.learn(run, task, plan), names)
        if not plan.beats(1.0):
            warnings.warn(
                f"train: method={record.name!r} is predicted to be no closer than the public rows alone; pass a larger budget, "
                "more private rows, or let step_size and priv_weight be chosen",
                AccuracyWarning,
                stacklevel=4,
            )
        with run.paid(before=plan.resumed):
            return _result(run, record, task, plan, record.learn(run, task, plan), names)


def _result(
    run: running.Run, record: TrainingMethod, task: GradientTask, plan: Prepared, found: Descended, names: _Names
) -> DescentResult:
    problem, unit = task.problem, task.excess_unit
    units, design = problem.units, problem.units.design
    coefficients, intercept = units.in_units(found.weights.reshape(problem.outputs, -1))
    public, alone = units.in_units(plan.public.weights.reshape(problem.outputs, -1))
    shared = run.fields(names.n_pub)
    shared["dim"] = len(names.columns)
    return DescentResult(
        coefficients=frozen(coefficients),
        intercept=frozen(intercept),
        public_coefficients=frozen(public),
        public_intercept=frozen(alone),
        method=record.name,
        loss=problem.loss.name if problem.loss is not None else type(problem.row_loss).__name__,
        terms=tuple(names.columns if design is None else design.terms),
        weights=frozen(found.weights.ravel()),
        steps=plan.steps,
        lost_steps=found.lost_steps,
        step_size=plan.step_size,
        clip_norm=plan.clip_norm,
        priv_weight=plan.priv_weight,
        batch_rows=plan.batch_rows,
        noise_std=found.noise_std,
        predicted_excess=finite(plan.predicted, unit),
        public_excess=finite(plan.public_excess, unit),
        classes=frozen(units.classes or ()),
        design=named_design(design, units.classes, problem.class_names),
        columns=names.features,
        provenance={"scales": "none" if design is None else problem.scales, **plan.ranges},
        **shared,
    )
