"""The methods of noisy gradient descent: the rows, the query and the budget of a step."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mechanisms import gradient_sums
from fastpubpriv.mechanisms.sums import sum_grid
from fastpubpriv.privacy import FullBatch, Poisson, Sampling, WithoutReplacement
from fastpubpriv.privacy.calibration import Grid, SampledGrid, sampled_sum_grid
from fastpubpriv.release.account import Account
from fastpubpriv.session import Noise, Session
from fastpubpriv.training.coordinates import fits, mapped_rows
from fastpubpriv.training.gradient.gradient_problem import (
    DPSGD,
    Descended,
    Descent,
    GradientProblem,
    MirrorDescent,
    PreparedDescent,
    SemiDP,
)
from fastpubpriv.training.gradient.plan import (
    DescentPlan,
    NoiseOf,
    descend,
    gradient_lengths,
    make_plan,
    public_curvature,
    step_choices,
)
from fastpubpriv.training.problem import TrainingMethod


def scheme(settings: Descent, n: int) -> Sampling | None:
    """Return the sampling of batches; None if every step is a plain sum (full batches, and one pass)."""
    rows = settings.batch_rows
    if rows is None or settings.sampling == "one_pass":
        return None
    sampling: Sampling = Poisson(Fraction(rows, n)) if settings.sampling == "poisson" else WithoutReplacement(rows, n)
    return None if sampling.rate == FullBatch().rate else sampling


def noise_of(problem: GradientProblem, account: Account) -> NoiseOf:
    """Return the noise multiplier as a function of the number of steps, on an infinitely fine grid."""
    sampling = scheme(problem.settings, problem.n_priv)
    plain = partial(Noise(account.pure, account.allowance).vector, problem.size)
    if sampling is None:
        once = problem.settings.sampling == "one_pass"
        return lambda steps: plain(Fraction(1, 1 if once else steps))
    return lambda steps: sampled_grid(problem, account, sampling, steps).noise_multiplier


def sampled_grid(problem: GradientProblem, account: Account, sampling: Sampling, steps: int) -> SampledGrid:
    """Return the grid on which `steps` sums over sampled rows meet the budget."""
    epsilon, delta = account.approx_left
    return sampled_sum_grid(epsilon, delta, sampling, steps=steps, dim=problem.size, n=problem.n_priv)


def _share(problem: GradientProblem, plan: DescentPlan, account: Account) -> Fraction:
    """Return the budget of a step: all of it if the steps read disjoint rows."""
    return account.allowance / (1 if problem.settings.sampling == "one_pass" else plan.steps)


def _gradients(problem: GradientProblem, weights: FloatArray) -> gradient_sums.Gradients:
    if problem.loss is not None:
        return partial(gradient_sums.linear_gradients, weights=weights, residual=problem.loss.residual)
    assert problem.row_loss is not None
    return partial(gradient_sums.gradients_by_row, weights=weights, gradient=problem.row_loss.gradient)


def ready_grid(problem: GradientProblem, plan: DescentPlan, account: Account) -> SampledGrid | None:
    """Return the grid of sums over sampled rows, None for plain sums. Raise, before the debit, if the steps cannot be run."""
    # The query runs on one public row, to find a residual that Numba cannot compile or a gradient of the wrong shape.
    sampling, sampled = scheme(problem.settings, problem.n_priv), None
    grid: Grid
    if sampling is not None:
        grid = sampled = sampled_grid(problem, account, sampling, plan.steps)
        if sampled.event.epsilon > account.approx_left[0]:
            raise BudgetError("the steps of a sampled run do not fit into the budget: pass fewer steps")
    else:
        rows = plan.batch_rows if problem.settings.sampling == "one_pass" else problem.n_priv
        grid = sum_grid(account, _share(problem, plan, account), problem.size, rows)
    row = np.column_stack([problem.x[:1], problem.y[:1]]).astype(problem.units.dtype)
    query = _gradients(problem, plan.start)(grid, plan.clip_norm)
    # A single row, as for private rows, among which one whose gradient fails is ignored without an error.
    problem.gradients(plan.start, slice(0, 1))
    try:
        query.add(row, query.zeros())
    except Exception as error:
        raise InputError(f"loss: it fails at the first public row ({type(error).__name__}: {error})") from error
    return sampled


def _draws(problem: GradientProblem) -> int:
    problem.settings.check_rows(problem.n_priv)
    return max(step_choices(problem)) * problem.size


def _prepare(problem: GradientProblem, account: Account) -> DescentPlan:
    """Return the plan with the least predicted error. Raise, before the debit, if the run is impossible."""
    settings, rows, sampled = problem.settings, problem.rows, scheme(problem.settings, problem.n_priv) is not None
    if rows is not None and problem.executor is not None:
        # In one pass the rows of a step are a contiguous range, which the workers of a cluster read in place.
        batches = sampled or (settings.sampling == "one_pass" and rows.cluster is None)
        if batches and not rows.random_access and not fits(rows.n, problem.units, problem.executor):
            raise InputError(
                "batches need rows of which any can be read, or that fit into memory: pass an array or a .npy file, or "
                "sampling='full'"
            )
    plan = make_plan(problem, noise_of(problem, account))
    if not plan.reads or problem.rows is None:
        return plan
    return replace(plan, grid=ready_grid(problem, plan, account))


def _learn(run: Session, problem: GradientProblem, plan: DescentPlan) -> Descended:
    """Run the steps of the descent; private rows are mapped to the units of the fit after the debit."""
    grid, clip, share, noise_std = plan.grid, plan.clip_norm, _share(problem, plan, run.account), 0.0
    rows = mapped_rows(run.rows, problem.units, run.executor, single=grid is not None) if plan.reads else run.rows

    def ask(weights: FloatArray, step: int) -> FloatArray:
        """Return minus the released sum of the gradients of a step."""
        nonlocal noise_std
        gradients, on_rows, size = _gradients(problem, weights), run.on(rows), plan.batch_rows
        if problem.settings.sampling == "one_pass":  # disjoint rows, each part of which pays for itself
            on_rows = run.block(rows.slice(step * size, (step + 1) * size))
        facts: Any = {"name": f"gradient, step {step + 1}", "clip_radius": clip}
        if grid is None:
            plain = gradient_sums.GradientSum(gradients=gradients, shape=weights.shape, clip_norm=clip)
            released = on_rows.release(plain, cost=share, **facts)
        else:
            sampled = gradient_sums.SampledGradientSum(gradients=gradients, clip_norm=clip, grid=grid)
            cost = grid.event if step == 0 else grid.event.later  # the first step pays for all
            released = on_rows.release(sampled, cost=cost, **facts)
        noise_std = released.noise_std
        return released.value if problem.loss is not None else -released.value

    weights = descend(problem, plan, ask if plan.reads else None)
    return Descended(weights=weights, noise_std=noise_std)


def prepare_public(problem: GradientProblem) -> PreparedDescent:
    """Return the plan of public rows alone, which reads no private row."""
    if problem.loss is None or problem.loss.values is None:
        raise InputError("method='throw_away' needs a loss with values, which public rows can minimize")
    lengths = gradient_lengths(problem)
    clip = float(np.max(lengths)) or 1.0
    alone = problem.excess_part * public_curvature(problem, lengths, clip).public_error
    return PreparedDescent(
        predicted=alone, public_excess=alone, steps=0, clip_norm=clip, batch_rows=problem.n_priv,
        priv_weight=0.0, ranges={"start": "public weights"}, reads=False,
    )  # fmt: skip


SEMI_DP, DP_SGD, PDA_MIRROR_DESCENT = (
    TrainingMethod(
        name=kind.name,
        settings=kind,
        draws=_draws,
        prepare=_prepare,
        learn=_learn,
        noise=lambda problem, plan, account: noise_of(problem, account)(plan.steps),
    )
    for kind in (SemiDP, DPSGD, MirrorDescent)
)
