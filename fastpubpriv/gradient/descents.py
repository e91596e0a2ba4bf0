"""The methods of noisy gradient descent: choice of their open settings from public numbers, rows and budget of a step, and descent.

The predicted error is that of a quadratic loss: along each eigenvector of the public curvature it is a share of the public fit's
error, a share of the private rows' sampling error, and the noise of all steps, in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.gradient import gradient_tuning as tuning
from fastpubpriv.gradient.evidence import with_evidence
from fastpubpriv.gradient.gradient_problem import (
    DPSGD,
    Descended,
    Descent,
    GradientProblem,
    MirrorDescent,
    PreparedDescent,
    SemiDP,
    source_of,
)
from fastpubpriv.gradient.loss_curvature import LossCurvature, gradient_lengths, public_curvature
from fastpubpriv.mechanisms import gradient_sums
from fastpubpriv.privacy import FullBatch, Poisson, Sampling, WithoutReplacement
from fastpubpriv.privacy.calibration import SampledGrid, sampled_sum_grid
from fastpubpriv.regression import regression_tuning
from fastpubpriv.regression.coordinates import fits, mapped_rows
from fastpubpriv.regression.newton import Slope
from fastpubpriv.regression.problem import TrainingMethod
from fastpubpriv.release.account import Account
from fastpubpriv.session import Session


def make_plan(problem: GradientProblem, account: Account) -> PreparedDescent:
    """Return the plan with the least predicted error over the open settings, from public rows only."""
    settings = problem.settings
    start = _start(problem)
    noise = noise_of(problem, account)
    at = problem.public.weights if problem.loss is not None else start
    lengths = gradient_lengths(problem, at)
    clip = _clip_norm(settings, lengths)
    divisor = problem.n_priv if settings.batch_rows is None else settings.batch_rows
    ridge = float(getattr(settings, "ridge", 0.0)) if settings.preconditioned else None
    curvature = None if problem.loss is None else public_curvature(problem, lengths, clip, ridge)
    sizes = _step_sizes(settings, curvature)
    common = PreparedDescent(
        start=start,
        steps=0,
        clip_norm=clip,
        batch_rows=divisor,
        ranges={
            "clip": source_of(settings.clip_norm),
            "start": f"{settings.start} weights" if isinstance(settings.start, str) else "argument",
        },
        preconditioner=None if ridge is None else _preconditioner(problem, ridge),
        predicted=None,
        public_excess=None,
        step_size=sizes[0],
        more=curvature,
    )
    plans = []
    for steps in step_choices(problem):
        noisy = noise(steps) * clip / divisor if settings.priv_weight != 0.0 else 0.0
        weights = _weights(problem, lengths, clip, noisy, curvature)
        weight = weights[0]
        plan = replace(common, steps=steps, priv_weight=weight, reads=weight > 0.0)
        if curvature is not None:
            plan = _least(plan, curvature, problem, noisy, weights, sizes)
        plans.append(plan)
    return min(plans, key=lambda plan: math.inf if plan.predicted is None else plan.predicted)


def _clip_norm(settings: Descent, lengths: FloatArray) -> float:
    """Bound on the length of a gradient, from `lengths` (m,) of public ones if it is open."""
    clip = settings.clip_norm
    if clip == "auto":
        clip = float(np.quantile(lengths, regression_tuning.CLIP_QUANTILE))
    if not float(clip) > 0.0:
        raise InputError(
            "every public gradient is zero: pass clip_norm=, the length of a gradient that matters"
        )
    return float(clip)


def _preconditioner(problem: GradientProblem, ridge: float) -> FloatArray:
    """Inverse (width, width) of the second moment of public rows with a ridge."""
    x = problem.x
    dim = problem.units.width
    inverse = np.linalg.inv(x.T @ x / len(x) + ridge / dim * np.eye(dim))
    return np.asarray((inverse + inverse.T) / 2.0, dtype=np.float64)


def _step_sizes(settings: Descent, curvature: LossCurvature | None) -> tuple[float, ...]:
    """Candidate step sizes: up to the longest stable one if they are open."""
    sizes = settings.options("step_size")
    if sizes:
        return sizes
    if curvature is None:
        raise InputError("step_size='auto' needs a loss whose curvature is known: pass step_size=")
    steepest = curvature.inside * float(np.max(curvature.values * curvature.pull))
    longest = (1.0 - settings.momentum) / steepest
    return tuple(longest * part * (0.5 if settings.accelerated else 1.0) for part in tuning.SIZES)


def _start(problem: GradientProblem) -> FloatArray:
    given = problem.settings.start
    if isinstance(given, str):
        return problem.public.weights.copy() if given == "public" else np.zeros(problem.shape)
    try:
        start = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("start must be 'public', 'zero' or an array of numbers") from None
    if start.shape != problem.shape or not np.isfinite(start).all():
        raise InputError(
            f"start must be finite and have the shape of the weights, {problem.shape}, got {start.shape}"
        )
    return start


def step_choices(problem: GradientProblem) -> tuple[int, ...]:
    """Return the candidate numbers of steps."""
    settings: Descent = problem.settings
    n = problem.n_priv
    rows = settings.batch_rows
    if settings.sampling == "one_pass":
        assert rows is not None
        return (n // rows if settings.steps == "auto" else int(settings.steps),)
    if settings.steps != "auto":
        return (int(settings.steps),)
    if problem.loss is None:
        raise InputError(
            "steps='auto' needs a loss whose curvature is known: pass steps=, step_size= and priv_weight="
        )
    if rows is None:
        return tuning.FULL_STEPS
    return tuple(
        sorted(
            {min(tuning.MOST_SAMPLED, max(1, round(epochs * n / rows))) for epochs in tuning.EPOCHS}
        )
    )


def _weights(
    problem: GradientProblem,
    lengths: FloatArray,
    clip: float,
    noise: float,
    curvature: LossCurvature | None,
) -> tuple[float, ...]:
    """Return the candidate weights of the private gradient."""
    settings: Descent = problem.settings
    if settings.priv_weight == "auto" and curvature is not None:
        return tuning.WEIGHTS
    if settings.priv_weight in ("auto", "inverse_variance"):
        # Weights of paper B's Algorithm 1 for one step: the inverse variances of the public and private gradients.
        energy = float(np.mean(np.minimum(lengths, clip) ** 2))
        public = energy / (settings.public_batch_rows or len(problem.x))
        rows = problem.n_priv if settings.batch_rows is None else settings.batch_rows
        private = energy / rows + problem.size * noise**2
        return (public / (public + private),)
    return settings.options("priv_weight")


def _least(
    plan: PreparedDescent,
    curvature: LossCurvature,
    problem: GradientProblem,
    noise: float,
    weights: Sequence[float],
    sizes: Sequence[float],
) -> PreparedDescent:
    """Return the plan with the private weight and the step size of least predicted error."""
    alpha = np.array(weights)[:, None, None]
    errors = _predicted(plan, curvature, problem, noise, alpha, np.array(sizes)[:, None])
    best = int(np.argmin(errors))
    weight = weights[best // len(sizes)]
    return replace(
        plan,
        step_size=sizes[best % len(sizes)],
        priv_weight=weight,
        reads=weight > 0.0,
        predicted=float(errors.flat[best]),
        public_excess=problem.excess_part * curvature.public_error,
    )


def _predicted(
    plan: PreparedDescent,
    curvature: LossCurvature,
    problem: GradientProblem,
    noise: float,
    alpha: FloatArray,
    step_size: FloatArray,
) -> FloatArray:
    """Return predicted errors (weights, sizes); `noise` is the standard deviation on the mean gradient.

    `alpha` (weights, 1, 1) are weights of the private gradient, `step_size` (sizes, 1).
    """
    settings = problem.settings
    c = curvature
    steps = plan.steps
    size = step_size * c.pull / (1.0 - settings.momentum)
    if settings.accelerated:
        size = size * max(1.0, steps / 4.0)  # the progress of this many steps of plain descent
    with np.errstate(all="ignore"):
        left = 1.0 - size * c.inside * c.values
        stable = np.abs(left) < 1.0
        within = np.clip(left, -1.0, 1.0)
        end = np.where(stable, within**steps, np.inf) if steps > 1 else left
        # The contraction of a step has a relative error: after few steps that share of the initial error remains.
        last = np.abs(within) ** (steps - 1)
        doubt = alpha * c.doubt * (1.0 - left) * steps * last
        rows = len(problem.x)
        public_rows = min(settings.public_batch_rows or rows, rows)
        per_row = c.energy * c.inside**2 * c.values
        fresh = alpha**2 * (noise**2 + per_row * (1.0 / plan.batch_rows - 1.0 / problem.n_priv))
        fresh = fresh + (1.0 - alpha) ** 2 * per_row * (1.0 / public_rows - 1.0 / rows)
        repeats = np.where(stable, (1.0 - end**2) / (1.0 - left**2), np.inf)
        spread = size**2 * fresh * repeats
        sampling = (alpha * (1.0 - end)) ** 2 * c.settled / (c.values * problem.n_priv)
        warm = isinstance(settings.start, str) and settings.start == "public"
        known = (1.0 - alpha) + alpha * end if warm else (1.0 - alpha) * (1.0 - end)
        far = c.unknown if warm else c.far
        error = (
            known**2 * c.unknown
            + doubt**2 * far
            + sampling
            + spread
            + (0.0 if warm else end**2 * c.far)
        )
        total = problem.excess_part * np.sum(c.values * error, axis=-1)
    return np.where(np.isfinite(total), total, np.inf)


def descend(
    problem: GradientProblem, plan: PreparedDescent, ask: Callable[[FloatArray, int], FloatArray]
) -> FloatArray:
    """Return the weights after all steps; `ask` releases a sum of clipped gradients at weights. All else is post-processing."""
    # Gradient descent with momentum; or AC-SA of Ghadimi and Lan for a convex loss, with nu = 1 / step_size, at least twice the
    # largest curvature, whose gradients are taken between the weights and their average. A non-finite update is skipped.
    settings: Descent = problem.settings

    def projected(weights: FloatArray) -> FloatArray:
        return (
            weights
            if settings.projection is None
            else np.asarray(settings.projection.project(weights, plan.start))
        )

    weights = average = projected(plan.start)
    velocity = np.zeros_like(plan.start)
    counted = 0
    alpha = plan.priv_weight
    m = len(problem.x)
    batch = min(settings.public_batch_rows or m, m)
    free: FloatArray = np.ones(problem.units.width)
    if problem.units.design is not None:
        free[0] = 0.0  # the intercept has no l2 penalty
    for step in range(plan.steps):
        # Public rows are taken in turn.
        at = step * batch % m
        rows = slice(at, at + batch) if at + batch <= m else (at + np.arange(batch)) % m
        part = 2.0 / (step + 2.0)
        length = plan.step_size
        point = (1.0 - part) * average + part * weights if settings.accelerated else weights
        move: FloatArray = -settings.l2 * free * point
        if alpha > 0.0:
            move = move + alpha / plan.batch_rows * ask(point, step)
        if alpha < 1.0:
            move = move + (1.0 - alpha) * public_gradient(problem, plan, point, rows)
        if plan.preconditioner is not None:
            move = move @ plan.preconditioner
        if settings.schedule == "inverse_root":
            length /= float(np.sqrt(step + 1.0))
        elif settings.schedule == "linear":
            length *= 1.0 - step / plan.steps
        velocity = settings.momentum * velocity + move
        moved = (
            weights + (length * (step + 1.0) / 2.0 if settings.accelerated else length) * velocity
        )
        weights = projected(moved) if np.isfinite(moved).all() else weights
        if settings.accelerated:
            average = part * weights + (1.0 - part) * average
        elif settings.average == "all" or 2 * step >= plan.steps:
            counted += 1
            average = average + (weights - average) / counted
    return average if settings.accelerated or settings.average != "last" else weights


def public_gradient(
    problem: GradientProblem, plan: PreparedDescent, weights: FloatArray, rows: slice | IntArray
) -> FloatArray:
    """Return minus the mean of the public gradients, transformed by the settings; a non-finite one is set to zero."""
    kind = problem.settings.public_gradient
    clip = plan.clip_norm
    with np.errstate(all="ignore"):
        coefficients, vectors = problem.gradients(weights, rows)
        fine = np.isfinite(coefficients.sum(axis=1) * vectors.sum(axis=1))
        if not fine.all():
            coefficients = np.where(fine[:, None], coefficients, 0.0)
            vectors = np.where(fine[:, None], vectors, 0.0)
        if kind in ("clip", "sphere"):
            norms = np.sqrt(np.sum(coefficients**2, axis=1) * np.sum(vectors**2, axis=1))
            times = clip / np.maximum(norms, 1e-300)
            times = np.minimum(1.0, times) if kind == "clip" else np.where(norms > 0.0, times, 0.0)
            coefficients = coefficients * times[:, None]
        gradient: FloatArray = (coefficients.T @ vectors).reshape(weights.shape) / len(coefficients)
        if kind == "batch_sphere":
            length = float(np.sqrt(np.sum(gradient * gradient)))
            gradient = gradient * (clip / length) if length > 0.0 else gradient
    return gradient


def scheme(settings: Descent, n: int) -> Sampling | None:
    """Return the sampling of batches; None if every step is a plain sum (full batches, and one pass)."""
    rows = settings.batch_rows
    if rows is None or settings.sampling == "one_pass":
        return None
    sampling: Sampling = (
        Poisson(Fraction(rows, n))
        if settings.sampling == "poisson"
        else WithoutReplacement(rows, n)
    )
    return None if sampling.rate == FullBatch().rate else sampling


def noise_of(problem: GradientProblem, account: Account) -> Callable[[int], float]:
    """Return the noise multiplier as a function of the number of steps, on an infinitely fine grid."""
    sampling = scheme(problem.settings, problem.n_priv)
    plain = partial(account.spending.std, "sum", problem.size)
    if sampling is None:
        once = problem.settings.sampling == "one_pass"
        return lambda steps: plain(Fraction(1, 1 if once else steps))
    return lambda steps: sampled_grid(problem, account, sampling, steps).noise_multiplier


def sampled_grid(
    problem: GradientProblem, account: Account, sampling: Sampling, steps: int
) -> SampledGrid:
    """Return the grid on which `steps` sums over sampled rows meet the budget."""
    epsilon, delta = account.approx_left
    return sampled_sum_grid(
        epsilon, delta, sampling, steps=steps, dim=problem.size, n=problem.n_priv
    )


def _share(problem: GradientProblem, plan: PreparedDescent, account: Account) -> Fraction:
    """Return the budget of a step: all of it if the steps read disjoint rows."""
    return account.allowance / (1 if problem.settings.sampling == "one_pass" else plan.steps)


def _gradients(problem: GradientProblem, weights: FloatArray) -> gradient_sums.Gradients:
    if problem.loss is not None:
        return partial(
            gradient_sums.linear_gradients, weights=weights, residual=problem.loss.residual
        )
    assert problem.row_loss is not None
    return partial(
        gradient_sums.gradients_by_row, weights=weights, gradient=problem.row_loss.gradient
    )


def _draws(problem: GradientProblem) -> int:
    settings = problem.settings
    n = problem.n_priv
    if settings.batch_rows is not None and settings.batch_rows > n:
        raise InputError(f"batch_rows = {settings.batch_rows} is more than the {n} private rows")
    if (
        settings.sampling == "one_pass"
        and settings.steps != "auto"
        and int(settings.steps) * settings.batch_rows > n
    ):
        raise InputError(
            f"one pass over {n} rows has at most {n // settings.batch_rows} steps of {settings.batch_rows} rows, "
            f"got {settings.steps}"
        )
    return max(step_choices(problem)) * problem.size


def _prepare(problem: GradientProblem, account: Account) -> PreparedDescent:
    """Return the plan with the least predicted error. Raise, before the debit, if the run is impossible."""
    settings = problem.settings
    rows = problem.rows
    sampling = scheme(problem.settings, problem.n_priv)
    if rows is not None and problem.executor is not None:
        # In one pass the rows of a step are a contiguous range, which the workers of a cluster read in place.
        batches = sampling is not None or (settings.sampling == "one_pass" and rows.cluster is None)
        if batches and not rows.random_access and not fits(rows.n, problem.units, problem.executor):
            raise InputError(
                "batches need rows of which any can be read, or that fit into memory: pass an array or a .npy file, or "
                "sampling='full'"
            )
    plan = make_plan(problem, account)
    if not plan.reads or problem.rows is None:
        return plan
    if sampling is not None:
        sampled = sampled_grid(problem, account, sampling, plan.steps)
        if sampled.event.epsilon > account.approx_left[0]:
            raise BudgetError(
                "the steps of a sampled run do not fit into the budget: pass fewer steps"
            )
        plan = replace(plan, grid=sampled)
    n = plan.batch_rows if settings.sampling == "one_pass" else problem.n_priv
    cost = _share(problem, plan, account)
    grid = plan.grid or account.spending.at(cost).grid("sum", problem.size, n)
    # The query runs on one public row, to find a residual that Numba cannot compile or a gradient of the wrong shape.
    row = np.column_stack([problem.x[:1], problem.y[:1]]).astype(problem.units.dtype)
    query = _gradients(problem, plan.start)(grid, plan.clip_norm)
    # A single row, as for private rows, among which one whose gradient fails is ignored without an error.
    problem.gradients(plan.start, slice(0, 1))
    try:
        query.add(row, query.zeros())
    except Exception as error:
        raise InputError(
            f"loss: it fails at the first public row ({type(error).__name__}: {error})"
        ) from error
    return plan


def _learn(run: Session, problem: GradientProblem, plan: PreparedDescent) -> Descended:
    """Run the steps of the descent; private rows are mapped to the units of the fit after the debit."""
    grid = plan.grid
    clip = plan.clip_norm
    share = _share(problem, plan, run.account)
    noise_std = 0.0
    slopes: list[Slope] = []
    rows = (
        mapped_rows(run.rows, problem.units, run.executor, single=grid is not None)
        if plan.reads
        else run.rows
    )

    def ask(weights: FloatArray, step: int) -> FloatArray:
        """Return minus the released sum of the gradients of a step."""
        nonlocal noise_std
        gradients = _gradients(problem, weights)
        on_rows = run.on(rows)
        size = plan.batch_rows
        # disjoint rows, each part of which pays for itself
        if problem.settings.sampling == "one_pass":
            on_rows = run.block(rows.slice(step * size, (step + 1) * size))
        facts: Any = {"name": f"gradient, step {step + 1}", "clip_radius": clip}
        if grid is None:
            plain = gradient_sums.GradientSum(
                gradients=gradients, shape=weights.shape, clip_norm=clip
            )
            released = on_rows.release(plain, cost=share, **facts)
        else:
            sampled = gradient_sums.SampledGradientSum(
                gradients=gradients, clip_norm=clip, grid=grid
            )
            cost = grid.event if step == 0 else grid.event.later  # the first step pays for all
            released = on_rows.release(sampled, cost=cost, **facts)
        noise_std = released.noise_std
        value = released.value if problem.loss is not None else -released.value
        noise_variance = np.full_like(value, (noise_std / plan.batch_rows) ** 2)
        slopes.append(
            Slope(start=weights, slope=value / plan.batch_rows, noise_variance=noise_variance)
        )
        return value

    end = descend(problem, plan, ask)
    return with_evidence(Descended(weights=end, noise_std=noise_std), problem, plan, slopes)


def _noise(problem: GradientProblem, plan: PreparedDescent, account: Account) -> float:
    """Return the noise multiplier of a step of the plan."""
    return noise_of(problem, account)(plan.steps)


_method = partial(TrainingMethod, draws=_draws, prepare=_prepare, learn=_learn, noise=_noise)
SEMI_DP = _method(name=SemiDP.name, settings=SemiDP)
DP_SGD = _method(name=DPSGD.name, settings=DPSGD)
PDA_MIRROR_DESCENT = _method(name=MirrorDescent.name, settings=MirrorDescent)
