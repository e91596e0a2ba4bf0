"""The private side of a descent: what a step asks of the rows, who pays for it, and what a checkpoint has kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mechanisms.gradients import Gradient, GradientSum, LinearGradient, RowGradient, SampledGradientSum
from fastpubpriv.mechanisms.sums import Released, sum_grid
from fastpubpriv.privacy import (
    FullBatch,
    GaussianEvent,
    Grid,
    LaplaceEvent,
    Poisson,
    SampledGaussianEvent,
    SampledGrid,
    Sampling,
    WithoutReplacement,
    sampled_sum_grid,
)
from fastpubpriv.release.account import Account
from fastpubpriv.session import Run, noise_per_radius
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.training.gradient.checkpoint import Checkpoint
from fastpubpriv.training.gradient.plan import NoiseOf, Plan
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.gradient.settings import Descent
from fastpubpriv.training.kept import fits, kept_rows


def scheme(settings: Descent, n: int) -> Sampling | None:
    """How batches are drawn; None where every step is a plain sum (full batches, and one pass)."""
    rows = settings.batch_rows
    if rows is None or settings.sampling == "one_pass":
        return None
    found: Sampling = Poisson(Fraction(rows, n)) if settings.sampling == "poisson" else WithoutReplacement(rows, n)
    return None if found.rate == FullBatch().rate else found


def noise_of(problem: GradientProblem, settings: Descent, account: Account) -> NoiseOf:
    """The noise multiplier for a number of steps, on an infinitely fine grid."""
    sampling = scheme(settings, problem.n_priv)
    plain = noise_per_radius(problem.size, pure=account.pure, allowance=account.allowance)
    if sampling is None:
        once = settings.sampling == "one_pass"
        return lambda steps: plain(Fraction(1, 1 if once else steps))
    return lambda steps: sampled_grid(problem, account, sampling, steps).noise_multiplier


def sampled_grid(problem: GradientProblem, account: Account, sampling: Sampling, steps: int) -> SampledGrid:
    """The grid on which so many sums over sampled rows meet the budget."""
    epsilon, delta = account.approx_left
    return sampled_sum_grid(epsilon, delta, sampling, steps=steps, dim=problem.size, n=problem.n_priv)


def check(problem: GradientProblem, settings: Descent, rows: Rows, executor: Executor) -> None:
    """Refuse, before the debit, what cannot be done with these rows."""
    if scheme(settings, rows.n) is None and settings.sampling != "one_pass":
        return
    if rows.cluster is not None and scheme(settings, rows.n) is None:
        return  # the rows of a step are a range, which a cluster reads where it lives
    if not rows.random_access and not fits(rows.n, problem.units.width + 1, problem.units.dtype, executor):
        raise InputError(
            "batches need rows of which any can be read, or that fit into memory: pass an array or a .npy file, or sampling='full'"
        )


def _share(plan: Plan, account: Account) -> Fraction:
    """What a step may spend: all of it, where every step reads rows of its own."""
    return account.allowance / (1 if plan.settings.sampling == "one_pass" else plan.steps)


def _gradient(problem: GradientProblem, weights: FloatArray) -> Gradient:
    if problem.loss is not None:
        return LinearGradient(weights=weights, residual=problem.loss.residual)
    assert problem.row_loss is not None
    return RowGradient(weights=weights, gradient=problem.row_loss.gradient)


def ready_grid(problem: GradientProblem, plan: Plan, account: Account) -> SampledGrid | None:
    """The grid of sums over sampled rows, None for plain sums. Before the debit: refuses what cannot be paid for, or cannot run.

    One public row is tried: a residual that Numba cannot compile, or a gradient of another shape, is found here.
    """
    sampling, sampled = scheme(plan.settings, problem.n_priv), None
    grid: Grid | SampledGrid
    if sampling is not None:
        grid = sampled = sampled_grid(problem, account, sampling, plan.steps)
        if sampled.event.epsilon > account.approx_left[0]:
            raise BudgetError("the steps of a sampled run do not fit into the budget: pass fewer steps")
    else:
        rows = plan.divisor if plan.settings.sampling == "one_pass" else problem.n_priv
        grid = sum_grid(account, _share(plan, account), problem.size, rows)
    row = np.column_stack([problem.x[:1], problem.y[:1]]).astype(problem.units.dtype)
    query = _gradient(problem, plan.start).query(grid, plan.clip_norm)
    # Alone, as private rows are: a row at which the gradient fails is ignored.
    problem.gradients(plan.start, slice(0, 1))
    try:
        query.add(row, query.zeros())
    except Exception as error:
        raise InputError(f"loss: it fails at the first public row ({type(error).__name__}: {error})") from error
    return sampled


class Asker:
    """Answers the steps of one run, on the grid of `ready_grid`. `prepare` comes after the debit: it reads the private rows."""

    def __init__(
        self, run: Run, problem: GradientProblem, plan: Plan, grid: SampledGrid | None, checkpoint: Checkpoint | None
    ) -> None:
        self._run, self._problem, self._plan, self._checkpoint = run, problem, plan, checkpoint
        self._grid = grid
        self._rows: Rows | None = None
        self.noise_std = 0.0
        self.lost = 0

    @property
    def _share(self) -> Fraction:
        return _share(self._plan, self._run.account)

    def prepare(self) -> None:
        """Bring the private rows into the units of the fit."""
        units = self._problem.units
        self._rows = kept_rows(
            self._run.rows,
            units,
            units.width + 1,
            dtype=units.dtype,
            executor=self._run.executor,
            single=self._grid is not None,
        )

    def __call__(self, weights: FloatArray, step: int) -> FloatArray | None:
        """Minus the released sum of the gradients of a step; None if a crash has lost it."""
        kept = self._checkpoint
        if kept is not None and step < kept.begun:
            return self._replayed(step, kept)
        if kept is not None:
            kept.begin(step)
        released = self._released(weights, step)
        self.noise_std = released.noise_std
        if kept is not None:
            kept.keep(step, released.value)
        return released.value if self._problem.loss is not None else -released.value

    def _payer(self, step: int) -> tuple[Run, Rows]:
        """Who pays for a step, and the rows that it reads."""
        assert self._rows is not None
        if self._plan.settings.sampling != "one_pass":
            return self._run, self._rows
        size = self._plan.divisor
        part = self._rows.slice(step * size, (step + 1) * size)
        return self._run.block(part), part

    def _event(self, rows: Rows, step: int) -> tuple[GaussianEvent | LaplaceEvent | SampledGaussianEvent, float]:
        """What a step costs, and the length of its grid's steps."""
        if self._grid is None:
            grid = sum_grid(self._run.account, self._share, self._problem.size, rows.n)
            return grid.event, grid.step(self._plan.clip_norm)
        return self._sampled(self._grid, step), self._grid.step(self._plan.clip_norm)

    @staticmethod
    def _sampled(grid: SampledGrid, step: int) -> SampledGaussianEvent:
        """The first step of a sampled run pays for all."""
        return grid.event if step == 0 else grid.event.later

    def _released(self, weights: FloatArray, step: int) -> Released:
        gradient, clip, name = _gradient(self._problem, weights), self._plan.clip_norm, f"gradient, step {step + 1}"
        run, rows = self._payer(step)
        if self._grid is None:
            plain = GradientSum(gradient=gradient, clip_norm=clip)
            return run.on(rows).release(plain, name=name, cost=self._share, clip_radius=clip)
        sampled = SampledGradientSum(gradient=gradient, clip_norm=clip, grid=self._grid)
        return run.on(rows).release(sampled, name=name, cost=self._sampled(self._grid, step), clip_radius=clip)

    def _replayed(self, step: int, kept: Checkpoint) -> FloatArray | None:
        """What the checkpoint has of a step, which was paid for."""
        run, rows = self._payer(step)
        event, unit = self._event(rows, step)
        self.noise_std = event.noise_std * unit
        run.repeat(
            event,
            name=f"gradient, step {step + 1}",
            keys=1 if self._grid is None else 2,  # that of the batch, and that of the noise
            facts={"noise_std": self.noise_std},
            clip_radius=self._plan.clip_norm,
        )
        value = kept.value(step)
        if value is None:
            self.lost += 1
            return None
        return value if self._problem.loss is not None else -value
