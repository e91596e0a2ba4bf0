"""The steps of a descent: where the gradient is asked for, what is made of the answer, and which weights come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.training.gradient.plan import Plan, public_batches
from fastpubpriv.training.gradient.problem import GradientProblem

# (weights, step) -> the released sum of clipped residuals times rows; None for a step that was lost.
Ask = Callable[[FloatArray, int], FloatArray | None]


def descend(problem: GradientProblem, plan: Plan, ask: Ask | None) -> FloatArray:
    """The weights after all steps; `ask` None stands for the public gradient alone. Everything but `ask` is post-processing."""
    path: Path = Accelerated(plan) if plan.settings.accelerated else Path(plan)
    known = PublicRows.of(problem) if plan.priv_weight < 1.0 and problem.loss is not None else None
    batches = public_batches(len(problem.x), plan.settings.public_batch_rows)
    alpha = plan.priv_weight
    free: FloatArray = np.ones(problem.units.width)
    if problem.units.design is not None:
        free[0] = 0.0  # the intercept is not drawn to zero
    for step in range(plan.steps):
        rows = next(batches)
        point = path.point
        move: FloatArray = -plan.settings.l2 * free * point
        if alpha > 0.0:
            assert ask is not None
            total = ask(point, step)
            if total is None:
                continue
            move = move + alpha / plan.divisor * total
        if alpha < 1.0:
            move = move + (1.0 - alpha) * public_gradient(problem, plan, point, rows, known)
        if plan.preconditioner is not None:
            move = move @ plan.preconditioner
        path.take(move, step)
    return path.result


@dataclass(frozen=True, slots=True, eq=False)
class PublicRows:
    """Sums and sums of squares of the public rows of a linear model, (m,) each, which no step changes."""

    sums: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, problem: GradientProblem) -> PublicRows:
        """Of all public rows."""
        with np.errstate(all="ignore"):
            return cls(problem.x.sum(axis=1), np.sum(problem.x**2, axis=1))


def public_gradient(
    problem: GradientProblem, plan: Plan, weights: FloatArray, rows: slice | IntArray, known: PublicRows | None
) -> FloatArray:
    """Minus the mean of the public gradients as the settings transform them; one that is not finite counts as zero.

    `known` is given for a linear model: 200 rows of 2,000 columns are then read twice in place of eight times.
    """
    kind, clip = plan.settings.public_gradient, plan.clip_norm
    with np.errstate(all="ignore"):
        coefficients, vectors = problem.gradients(weights, rows)
        sums = vectors.sum(axis=1) if known is None else known.sums[rows]
        fine = np.isfinite(coefficients.sum(axis=1) * sums)
        if not fine.all():
            coefficients, vectors = np.where(fine[:, None], coefficients, 0.0), np.where(fine[:, None], vectors, 0.0)
        squares = np.sum(vectors**2, axis=1) if known is None else np.where(fine, known.squares[rows], 0.0)
        norms = np.sqrt(np.sum(coefficients**2, axis=1) * squares)
        if kind == "clip":
            coefficients = coefficients * np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]
        elif kind == "sphere":
            coefficients = coefficients * np.where(norms > 0.0, clip / np.maximum(norms, 1e-300), 0.0)[:, None]
        found: FloatArray = (coefficients.T @ vectors).reshape(weights.shape) / len(coefficients)
        if kind == "batch_sphere":
            length = float(np.sqrt(np.sum(found * found)))
            found = found * (clip / length) if length > 0.0 else found
    return found


class Path:
    """Plain descent, with momentum; an update that would not be finite is left out."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._start = plan.start
        self._weights = self._projected(plan.start)
        self._velocity = np.zeros_like(plan.start)
        self._mean, self._counted = self._weights, 0

    @property
    def point(self) -> FloatArray:
        """Where the next gradient is asked for."""
        return self._weights

    @property
    def result(self) -> FloatArray:
        """The last weights, or the average that was asked for."""
        return self._weights if self._plan.settings.average == "last" else self._mean

    def take(self, move: FloatArray, step: int) -> None:
        """Go along `move`, minus a gradient."""
        self._velocity = self._plan.settings.momentum * self._velocity + move
        self._weights = self._finite(self._weights + self._length(step) * self._velocity, self._weights)
        if self._plan.settings.average == "all" or 2 * step >= self._plan.steps:
            self._counted += 1
            self._mean = self._mean + (self._weights - self._mean) / self._counted

    def _length(self, step: int) -> float:
        size, steps = self._plan.step_size, self._plan.steps
        if self._plan.settings.schedule == "inverse_root":
            return size / float(np.sqrt(step + 1.0))
        return size * (1.0 - step / steps) if self._plan.settings.schedule == "linear" else size

    def _finite(self, weights: FloatArray, before: FloatArray) -> FloatArray:
        return self._projected(weights) if np.isfinite(weights).all() else before

    def _projected(self, weights: FloatArray) -> FloatArray:
        projection = self._plan.settings.projection
        if projection is None:
            return weights
        found: FloatArray = projection.project(weights, self._start)
        return found


class Accelerated(Path):
    """AC-SA of Ghadimi and Lan for a convex loss: with nu = 1 / step_size, at least twice the largest curvature."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._joint, self._taken = self._weights, 0

    @property
    def _part(self) -> float:
        return 2.0 / (self._taken + 2.0)

    @property
    def point(self) -> FloatArray:
        """Between the two sequences."""
        return (1.0 - self._part) * self._joint + self._part * self._weights

    @property
    def result(self) -> FloatArray:
        """The averaged sequence."""
        return self._joint

    def take(self, move: FloatArray, step: int) -> None:
        """See `Path.take`."""
        part, t = self._part, self._taken + 1
        self._weights = self._finite(self._weights + self._length(step) * t / 2.0 * move, self._weights)
        self._joint = part * self._weights + (1.0 - part) * self._joint
        self._taken += 1
