"""Objective perturbation: the minimum of a weighted, strongly convex loss of private and public rows plus a secret linear term.

Privacy note: `notes/objective_perturbation.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.losses import Loss
from fastpubpriv.mechanisms.minima import LONGER, SLOPES, ULP, UP
from fastpubpriv.mechanisms.rowwise import total
from fastpubpriv.mechanisms.sums import Measurement, Released
from fastpubpriv.privacy import ObjectiveEvent
from fastpubpriv.privacy.events import LOG2_SCALE_MAX, LOG2_SCALE_MIN, VOLUME_BITS, log_upper
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release_minimum
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk

_SECRET_LOG2 = 32
_COMPUTED_STEPS = 256  # of a sensitivity, for each weight, of which rounding wastes two
_CUT = 128  # the sampler never draws more scales than that
_FAR = 100.0  # a ball about the start, in units of 1 + |start|, in which minima are told apart
_SOLVED = 2.0**50  # a released step is no smaller than this part of the ball, so that a quotient is right to an eighth
_FINEST, _SECOND_FINEST = 46, 20  # bits of a row's gradient, and of a row in a second derivative
_TOTAL_BITS = 61  # of a sum over rows
_PATIENCE = 40  # times the passes that were asked for, before plain gradient steps
_BLOCK_BITS = 53  # of a product of matrices of integers in doubles

Arrays = Callable[[Any, Any], Any]


def _logistic_second(scores: FloatArray, labels: FloatArray) -> FloatArray:
    tilt: FloatArray = np.tanh(0.5 * scores)
    return 0.25 * (1.0 - tilt * tilt)


def _hinge_second(scores: FloatArray, labels: FloatArray) -> FloatArray:
    margin = (2.0 * labels - 1.0) * scores
    return ((margin > 0.0) & (margin < 1.0)).astype(np.float64)


# The second derivative in the prediction, of arrays of predictions and labels.
SECOND: dict[str, Arrays] = {
    "logistic": _logistic_second,
    "huber": lambda scores, labels: (np.abs(labels - scores) < SLOPES["huber"]).astype(np.float64),
    "smooth_hinge": _hinge_second,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlopeQuery(Query):
    """Sums over labelled rows of minus their gradients, and of their second derivatives, each rounded to a grid of its own.

    A row whose label the loss does not know adds nothing, nor would one with an entry above `limit`: sums stay exact.
    """

    weights: FloatArray
    loss: Loss
    per_unit: float
    second_per_unit: float
    limit: float
    block: int

    def zeros(self) -> tuple[IntArray, IntArray]:
        """See `Query.zeros`."""
        dim = len(self.weights)
        return np.zeros(dim, dtype=np.int64), np.zeros((dim, dim), dtype=np.int64)

    def add(self, chunk: Chunk, accumulators: tuple[IntArray, IntArray]) -> None:
        """See `Query.add`."""
        sums, products = accumulators
        for begin in range(0, len(chunk), self.block):
            rows = chunk[begin : begin + self.block].T.astype(np.float64, order="C")  # a copy: it is written to
            columns, labels = rows[:-1], rows[-1]
            with np.errstate(all="ignore"):
                scores = total(columns * self.weights[:, None])
                residual = self.loss.residuals_of(scores, labels)
                known = np.isfinite(residual + labels) & np.logical_and.reduce(np.abs(columns) <= self.limit, axis=0)
                columns[:, ~known] = 0.0
                second = np.where(known, SECOND[self.loss.name](scores, labels), 0.0)
                found = np.rint(columns * np.where(known, residual * self.per_unit, 0.0))
                turned = np.rint(columns * (np.sqrt(second) * self.second_per_unit))
            sums += found.astype(np.int64).sum(axis=1)
            products += (turned @ turned.T).astype(np.int64)  # exact: every partial sum is a whole number below 2^53

    @property
    def row_cost(self) -> int:
        """A product of matrices, and some ten passes over the columns."""
        return len(self.weights) ** 2 + 10 * len(self.weights)

    def answer(self, accumulators: Any) -> Any:
        """Both sums."""
        return accumulators


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Noise:
    """The event of a release, the step of the secret in the unit of the mean loss's gradient, and the released step."""

    event: ObjectiveEvent
    secret_unit: float
    unit: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PerturbedMinimum(Measurement[Fraction, Released]):
    """Release where a G(w) + (1 - a) H(w) + l2 |w - start|^2 / 2 + <secret, w> is least, less `start`.

    G and H are mean losses of private and public rows, a is `priv_weight`; see `WeightedMinimum` for the rows and their loss.
    `steps` passes look for the minimum, and more where they have not found it; in the end gradient steps, as many as are sure to.
    `cost` is an epsilon, of which the determinant takes what `l2` makes it, and `computed_share` of the rest is for what is
    computed.
    """

    start: FloatArray
    public: FloatArray
    loss: Loss
    radius: float
    priv_weight: float
    l2: float
    steps: int
    computed_share: float

    @property
    def longest(self) -> float:
        """Bound on the norm of the gradient of a row."""
        return SLOPES[self.loss.name] * self.radius * LONGER

    @property
    def smoothness(self) -> float:
        """Bound on the second derivative of a row."""
        return self.loss.curvature * (self.radius * LONGER) ** 2 * UP

    @property
    def step_size(self) -> float:
        """Of gradient steps, each of which brings a point closer to the minimum by the factor 1 - step_size l2."""
        return 2.0 / ((self.smoothness + 2.0 * self.l2) * UP)

    @property
    def ball(self) -> float:
        """Minima farther from `start` are moved to this distance."""
        return _FAR * (1.0 + float(np.sqrt(np.sum(self.start**2))))

    def curvature_ratio(self, n: int) -> Fraction:
        """Bound on the second derivative of a row over the least eigenvalue of that of the loss: the determinant's share."""
        return Fraction(self.priv_weight / n * self.smoothness / self.l2 * UP)

    def gradient_change(self, n: int) -> float:
        """Bound on how far a replaced row moves the gradient at a point."""
        return 2.0 * self.priv_weight / n * self.longest * UP

    def push(self, secret_unit: float) -> float:
        """Bound on the norm of the secret, in the unit of the gradient."""
        return math.sqrt(len(self.start)) * _CUT * 2.0**_SECRET_LOG2 * secret_unit * UP

    def gradient_error(self, n: int, secret_unit: float) -> float:
        """Bound on the distance of a gradient, or of a step's move over its size, from the exact one, within `ball`.

        At a point c times as far from the start it is at most c times that.
        """
        dim, radius, reach = len(self.start), self.radius * LONGER, self.ball
        far = float(np.sqrt(np.sum(self.start**2))) + reach
        rounded = math.sqrt(dim) * (0.5 + 2.0**-20) * self.row_step(n)
        inside = radius * (
            self.loss.curvature * (dim + 4) * 2.0 * ULP * far * radius + SLOPES[self.loss.name] * 2.0**-48
        )
        moved = 64.0 * ULP * (self.longest + self.push(secret_unit) + self.l2 * reach + reach / self.step_size)
        return (rounded + inside + moved) * UP

    def distance(self, n: int, secret_unit: float) -> float:
        """Bound on the distance of a computed minimum from the exact one, wherever the secret lies in its cell, within `ball`."""
        cell = math.sqrt(len(self.start)) * secret_unit
        return (3.0 * self.gradient_error(n, secret_unit) + cell) / self.l2 * UP

    def noise(self, epsilon: Fraction, n: int) -> Noise:
        """What to draw for a pure cost; InputError, before the debit, where there is no such noise."""
        dim, ratio = len(self.start), self.curvature_ratio(n)
        left = epsilon - log_upper(ratio)
        if left <= 0:
            raise InputError(
                f"l2={self.l2:.3g} is too small for this budget: the curvature of one row alone costs epsilon "
                f"{float(log_upper(ratio)):.3g} of {float(epsilon):.3g}; pass a larger l2, more rows, or l2='auto'"
            )
        computed = left * Fraction(self.computed_share)
        secret_steps = math.floor((left - computed) * 2**_SECRET_LOG2)
        # The coarsest scale that wastes little: released steps may not be too small beside the ball.
        log2_scale = max(LOG2_SCALE_MIN, math.ceil(_COMPUTED_STEPS * dim / computed).bit_length())
        computed_steps = math.floor(computed * 2**log2_scale)
        if secret_steps < 4 * dim or log2_scale > LOG2_SCALE_MAX:
            raise InputError(f"epsilon {float(epsilon):.3g} is too small for {dim} weights: pass a larger budget")
        root = math.sqrt(dim) * UP
        secret_unit = root * self.gradient_change(n) / (secret_steps - dim)
        near = self.distance(n, secret_unit)
        if not near <= self.ball / 16.0:
            raise InputError(f"l2={self.l2:.3g} is too small to compute a minimum to any digit: pass a larger l2")
        # Neighbours are 2.2 `near` apart; the ball's edge is computed to (dim + 8) / 2^53 of its radius, twice.
        apart = root * (2.2 * near + 2.0 * (dim + 8) * ULP * self.ball)
        unit = max(apart / (computed_steps - 2 * dim), self.ball / _SOLVED) * UP
        event = ObjectiveEvent(
            l1_sensitivity=secret_steps,
            log2_scale=_SECRET_LOG2,
            curvature=ratio,
            computed_sensitivity=min(computed_steps, math.ceil(apart / unit * UP) + 2 * dim),
            computed_log2_scale=log2_scale,
            draws=2 * dim,
        )
        return Noise(event=event, secret_unit=secret_unit, unit=unit)

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge the epsilon `cost`, draw the secret, minimise, and add noise for what is computed."""
        found = self.noise(cost, rows.n)
        loss = PrivateLoss(
            problem=self,
            n=rows.n,
            secret_unit=found.secret_unit,
            unit=found.unit,
            ask=lambda query: executor.run(query, rows),
        )
        value = release_minimum(account, name=name, loss=loss, event=found.event, unit=found.unit)
        # On the sum of gradients, as for other gradient methods: on the weights it depends on the second derivative.
        noise_std = found.event.secret_std * found.secret_unit * rows.n / self.priv_weight
        return Released(value=value, noise_std=noise_std, event=found.event)

    def row_step(self, n: int) -> float:
        """The grid of a row's gradient."""
        return math.ldexp(self.longest * UP, -min(_FINEST, _TOTAL_BITS - n.bit_length()))

    def second_step(self, n: int) -> float:
        """The grid of a row in a second derivative."""
        return math.ldexp(math.sqrt(self.smoothness) * UP, -self._second_bits(n))

    def _second_bits(self, n: int) -> int:
        return min(_SECOND_FINEST, (_TOTAL_BITS - n.bit_length()) // 2)

    def query(self, weights: FloatArray, n: int) -> SlopeQuery:
        """The pass over n private rows, or over the public ones."""
        return SlopeQuery(
            weights=weights,
            loss=self.loss,
            per_unit=1.0 / self.row_step(n),
            second_per_unit=1.0 / self.second_step(n),
            limit=self.radius * LONGER,
            block=1 << _BLOCK_BITS - 2 * self._second_bits(n) - 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PrivateLoss:
    """The loss of the private rows beside the public ones, as `release_minimum` asks for it. Points are relative to the start."""

    problem: PerturbedMinimum
    n: int
    secret_unit: float
    unit: float
    ask: Callable[[SlopeQuery], Any]

    def solve(self, secret: IntArray) -> FloatArray:
        """See `PerturbedLoss.solve`: Newton steps, shortened until they help, a fixed number of passes and more only if they fail.

        For hard losses and far secrets, about one in a hundred of those that tests make up, twice as many passes are needed.
        """
        bound = self.problem.gradient_error(self.n, self.secret_unit)
        pushed = secret.astype(np.float64) * self.secret_unit
        here = best = np.zeros(len(secret))
        down, second = self._down(here, pushed)
        least, step = self._remaining(here, down), _solved(second, down)
        merit, part = float(np.sum(down * step)), 1.0
        for taken in range(1, _PATIENCE * self.problem.steps):
            if taken >= self.problem.steps and least <= bound:
                break
            there = here + part * step
            found, bent = self._down(there, pushed)
            remains = self._remaining(there, found)
            if remains < least:
                best, least = there, remains
            if not float(np.sum(found * _solved(second, found))) < merit:
                part *= 0.25
                continue
            here, down, second, part = there, found, bent, 1.0
            step = _solved(second, down)
            merit = float(np.sum(down * step))
        return best if least <= bound else self._descend(pushed)

    def _descend(self, pushed: FloatArray) -> FloatArray:
        """Gradient steps from the start, so many that the bound is met for all rows and all secrets."""
        problem = self.problem
        error, rate = problem.gradient_error(self.n, self.secret_unit), problem.step_size * problem.l2
        away = problem.longest + problem.push(self.secret_unit)
        moved = np.zeros(len(pushed))
        for _ in range(math.ceil(max(math.log(8.0 * away / error), 0.0) / rate) + 1):
            moved = moved + problem.step_size * self._down(moved, pushed)[0]
        return moved

    def _remaining(self, moved: FloatArray, down: FloatArray) -> float:
        """The gradient that remains, over how far out the point is; infinite where there is none."""
        size = float(np.sqrt(np.sum(down**2))) / max(1.0, float(np.sqrt(np.sum(moved**2))) / self.problem.ball)
        return size if math.isfinite(size) else math.inf

    def _down(self, moved: FloatArray, pushed: FloatArray | float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Minus the gradient, and the second derivative."""
        problem, (private, bent) = self.problem, self._sums(self.problem.start + moved)
        found = private - problem.l2 * moved - pushed
        return found, bent + problem.l2 * np.eye(len(moved))

    def _sums(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of the data part: the weighted means over private and public rows."""
        problem = self.problem
        query = problem.query(weights, self.n)
        known = query.zeros()
        query.add(problem.public, known)
        shares = problem.priv_weight / self.n, (1.0 - problem.priv_weight) / len(problem.public)
        steps = problem.row_step(self.n), problem.second_step(self.n) ** 2
        asked = self.ask(query)
        slope, bent = (
            asked[k].astype(np.float64) * (steps[k] * shares[0]) + known[k].astype(np.float64) * (steps[k] * shares[1])
            for k in (0, 1)
        )
        return slope, bent

    def _in_ball(self, moved: FloatArray) -> FloatArray:
        """The point, or the nearest one in the ball."""
        with np.errstate(all="ignore"):
            away = float(np.sqrt(np.sum(moved**2)))
        return moved * (self.problem.ball / away) if away > self.problem.ball else moved

    def in_steps(self, point: FloatArray) -> IntArray:
        """See `PerturbedLoss.in_steps`."""
        return np.rint(self._in_ball(point) / self.unit).astype(np.int64)

    def secret_at(self, point: FloatArray) -> IntArray:
        """See `PerturbedLoss.secret_at`."""
        found = self._down(self._in_ball(point))[0] / self.secret_unit
        return np.rint(np.clip(found, -(2.0**62), 2.0**62)).astype(np.int64)

    def log_volume(self, point: FloatArray) -> int:
        """See `PerturbedLoss.log_volume`."""
        pivots = _pivots(self._down(self._in_ball(point))[1].copy(), np.zeros(len(point)))
        return round(math.ldexp(float(np.sum(np.log(pivots))), VOLUME_BITS))


def _pivots(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Eliminate below the diagonal of a positive definite matrix, in place, and in `right`; return the pivots.

    LAPACK would choose its order of addition, and the last bits, by the machine.
    """
    for k in range(len(matrix) - 1):
        factor = matrix[k + 1 :, k] / matrix[k, k]
        matrix[k + 1 :, k:] -= factor[:, None] * matrix[k, k:]
        right[k + 1 :] -= factor * right[k]
    return np.diagonal(matrix)


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """The solution x of matrix x = right, for a positive definite matrix."""
    upper, found = matrix.copy(), right.copy()
    pivots = _pivots(upper, found)
    for k in range(len(found) - 1, -1, -1):
        found[k] /= pivots[k]
        found[:k] -= upper[:k, k] * found[k]
    return found
