"""The methods that step along noisy gradients: what each does before the debit and after it, and its record."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.privacy import SampledGrid
from fastpubpriv.release.account import Account
from fastpubpriv.session import Run
from fastpubpriv.training.gradient.asking import Asker, check, noise_of, ready_grid
from fastpubpriv.training.gradient.checkpoint import Call, Checkpoint, open_checkpoint
from fastpubpriv.training.gradient.descent import descend
from fastpubpriv.training.gradient.plan import Plan, gradient_lengths, make_plan, most_steps, public_curvature
from fastpubpriv.training.gradient.settings import DPSGD, Descent, MirrorDescent, SemiDP
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared, excess_part
from fastpubpriv.training.record import TrainingMethod


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
