"""A fit from opened rows to the result: what `train` calls for the methods with settings, and for most losses."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, replace
from typing import Any

from fastpubpriv import session as running
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.losses import LOSSES, Loss, RowLoss, huber_threshold
from fastpubpriv.privacy import Budget
from fastpubpriv.results.base import frozen
from fastpubpriv.results.models import DescentResult
from fastpubpriv.sources import Rows
from fastpubpriv.training.design import named_design
from fastpubpriv.training.gradient.descents import finite
from fastpubpriv.training.gradient.problem import make_gradient_problem
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared
from fastpubpriv.training.record import WORTH, TrainingMethod
from fastpubpriv.training.stated import Stated

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
