"""Noisy Newton steps for the logistic loss: as `newton`, with the curvature of the loss at the present coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.training.newton import STEPS, Ask, Noise, Request
from fastpubpriv.training.newton_state import FEW, MANY, State
from fastpubpriv.training.public_logistic import chances, fit, ridge_precision
from fastpubpriv.training.stated import Importance
from fastpubpriv.training.whitening import Weighting, Whitener, directions, next_to_none, some, water_filled, weighting

FLOOR = 0.5  # more than for the squared loss: a Laplace approximation knows its directions roughly
_LEAST_CURVATURE = 0.03
_CURVATURE = 1.5
_NORMAL = special.ndtri((np.arange(64) + 0.5) / 64.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticPosterior:
    """A normal approximation of the coefficients given public rows; attributes as in `Posterior`.

    `ridge` (D, D) is the precision of the prior; `curvature` (D,) that of the loss of one row at `mean`. The loss is that of all
    rows `counted`: (rows, labels, weights). `factors` (m,) are those of the rows' classes, at most 1, and `energy` (D,) the mean
    square of a weighted residual relative to the curvature: 1 without weights of classes.
    """

    turn: FloatArray
    mean: FloatArray
    variance: FloatArray
    rows: FloatArray
    labels: FloatArray
    weights: FloatArray
    ridge: FloatArray
    curvature: FloatArray
    counted: tuple[FloatArray, FloatArray, FloatArray]
    factors: FloatArray
    energy: FloatArray

    @property
    def typical(self) -> FloatArray:
        """Some of the rows, each no farther out than its weight allows, (k, D)."""
        return some(self.rows) * np.sqrt(some(self.weights))[:, None]

    @property
    def unexplained(self) -> float:
        """A residual is bounded by one."""
        return 1.0

    @property
    def spread(self) -> float:
        """Predicted squared error of the coefficients."""
        return float(self.variance.sum())

    @property
    def excess(self) -> float:
        """Predicted excess of the log-loss over that of the best coefficients."""
        return 0.5 * float(self.curvature @ self.variance)

    def information(self, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The curvature of the public loss at `mean`, and the covariance of its slope, (D, D) each.

        The same matrix without weights of classes. With them, rows of the heavy class make the slope vary more than it bends.
        """
        rows, labels, weights = self.counted
        p = chances(rows @ mean)
        known = (rows.T * (weights * p * (1.0 - p))) @ rows + self.ridge
        if np.ptp(self.factors) == 0.0:
            return known, known
        return known, (rows.T * (weights * (labels - p)) ** 2) @ rows + self.ridge

    @property
    def covariance(self) -> FloatArray:
        """Of the coefficients by these rows alone, (D, D)."""
        if np.ptp(self.factors) == 0.0:
            return np.diag(self.variance)
        return sandwich(*self.information(self.mean))


def logistic_posterior(
    terms: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    whitener: Whitener,
    *,
    importance: Importance | None = None,
    factors: FloatArray | None = None,
) -> LogisticPosterior:
    """The posterior of public standardised terms (m, p) with weights (m,) and labels (m,) of 0 and 1.

    With `importance`, rows count as often as it says, and those of its sample stand for the private rows; `factors` (m,) are those
    of classes.
    """
    rows, near = whitener(terms), weights
    sample: Any = slice(None) if importance is None else importance.sample
    weights = weights if importance is None else weights * importance.weights
    ridge = ridge_precision(rows, labels, weights, whitener)
    mean = fit(rows, labels, weights, ridge, np.zeros(rows.shape[1]))
    p = chances(rows @ mean)
    values, turn = directions((rows.T * (weights * p * (1.0 - p))) @ rows + ridge)
    variance = 1.0 / np.maximum(values, 1e-12 * values[-1])
    rows = rows @ turn
    some_factors = (np.ones(len(rows)) if factors is None else factors)[sample]
    return LogisticPosterior(
        turn=turn,
        mean=turn.T @ mean,
        variance=variance,
        rows=rows[sample],
        labels=labels[sample],
        weights=near[sample],
        ridge=turn.T @ ridge @ turn,
        curvature=_curvature(rows[sample], turn.T @ mean, some_factors, len(some_factors)),
        counted=(rows, labels, weights),
        factors=some_factors,
        energy=np.ones(rows.shape[1])
        if factors is None
        else _energy(rows[sample], p[sample], labels[sample], some_factors),
    )


def _energy(rows: FloatArray, p: FloatArray, labels: FloatArray, factors: FloatArray) -> FloatArray:
    """Mean square of a weighted residual, relative to the curvature: along each coordinate, and at least that of all rows, (D,).

    Without weights both are the variance of a label. Rows of a heavy class lie together, so that coordinates differ.
    """
    squares, curvature = (factors * (labels - p)) ** 2, factors * p * (1.0 - p)
    least = _LEAST_CURVATURE * float(factors.mean())
    over_all = float(squares.mean()) / max(float(curvature.mean()), least)
    along = (squares @ rows**2) / np.maximum(curvature @ rows**2, least * np.sum(rows**2, axis=0) + 1e-300)
    found: FloatArray = np.maximum(np.maximum(along, over_all), float(factors.min()))
    return found


def _curvature(rows: FloatArray, w: FloatArray, lever: FloatArray, m: int) -> FloatArray:
    """Mean curvature of the loss of a row along each coordinate, drawn to an average where m public rows are few, (D,).

    Rows that the coefficients were fitted to look surer than fresh ones, of which whitening says how far scores spread: where
    public rows are few, the larger curvature counts, as steps beyond the minimum do harm.
    """
    scores = rows @ w
    p = chances(scores)
    weights = lever * p * (1.0 - p)
    share, average = min(1.0, (len(w) + 1.0) / m), float(weights.mean())
    if m < FEW * len(w):
        # The intercept, the mean of the scores, is not in the spread.
        middle = float(scores.mean())
        fresh = chances(middle + math.sqrt(max(float(w @ w) - middle**2, 0.0)) * _NORMAL)
        average = max(average, float(lever.mean()) * float(np.mean(fresh * (1.0 - fresh))))
    found = (1.0 - share) * (weights @ rows**2) / len(rows)
    return found + share * max(average, _LEAST_CURVATURE)


class LogisticState(State):
    """As `State`, with the minimum of the public loss and the measurements together."""

    def __init__(self, posterior: LogisticPosterior) -> None:
        super().__init__(posterior)
        self._public = posterior

    def add(self, measured: FloatArray, variance: FloatArray, sampling: float | FloatArray) -> None:
        """See `State.add`."""
        super().add(measured, variance, sampling)
        public, precision = self._public, self.private_precision
        rows, labels, weights = public.counted
        self.mean = fit(
            rows,
            labels,
            weights / self.drift,
            public.ridge / self.drift + np.diag(precision),
            precision * self.private_mean,
        )

    @property
    def _agreed(self) -> FloatArray:
        """By the curvature at the coefficients."""
        known, score = self._public.information(self.mean)
        measured = np.diag(self.private_precision)
        information = known / self.drift + measured
        return sandwich(information, information if score is known else score / self.drift + measured)


def sandwich(information: FloatArray, score: FloatArray) -> FloatArray:
    """The covariance of a minimum by the curvature and the covariance of the slope, (D, D)."""
    inverse = np.linalg.inv(information)
    found = inverse if score is information else inverse @ score @ inverse
    return np.asarray((found + found.T) / 2.0, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticPlan:
    """Number of steps with the least predicted excess of the log-loss."""

    steps: int
    predicted: float

    @property
    def share(self) -> Fraction:
        """Share of the budget for each step."""
        return Fraction(1, self.steps)


def plan_logistic(posterior: LogisticPosterior, n_priv: float, noise: Noise, most: int = STEPS[-1]) -> LogisticPlan:
    """The number of steps, at most `most`, with the least predicted error, from public numbers."""
    m, h = len(posterior.labels), posterior.curvature
    public, best = posterior.typical, None
    for steps in (each for each in STEPS if each <= most):
        per_step = noise(Fraction(1, steps))
        variance, pooled = posterior.variance, np.zeros_like(h)
        weights = _weights(public, variance, h, n_priv, per_step)
        total = (weights.radius * per_step / n_priv) ** -2
        for _ in range(steps):
            spread_sq = water_filled(variance, total * float(h.mean()) ** 2, FLOOR)
            spread_sq /= spread_sq.sum()
            error = (_CURVATURE / m + 1.0 / n_priv) * float(variance.sum())
            pooled = pooled + 1.0 / (1.0 / (total * spread_sq * h**2) + error)
            variance = 1.0 / (1.0 / posterior.variance + 1.0 / (1.0 / pooled + posterior.energy / (n_priv * h)))
        predicted = 0.5 * float(h @ variance)
        if best is None or predicted < best.predicted:
            best = LogisticPlan(steps=steps, predicted=predicted)
    assert best is not None
    return best


def _weights(public: FloatArray, variance: FloatArray, h: FloatArray, n_priv: float, noise: float) -> Weighting:
    """Water-filled weights for the precision that a step has."""
    radius = 1.0
    for _ in range(2):
        total = (radius * noise / (n_priv * float(h.mean()))) ** -2
        found = weighting(public, np.sqrt(water_filled(variance, total, FLOOR) / total))
        radius = found.radius
    return found


def newton_logistic(
    posterior: LogisticPosterior, plan: LogisticPlan, n_priv: float, noise: Noise, ask: Ask
) -> LogisticState:
    """Run the steps; `ask` releases the answer to a request."""
    state, public = LogisticState(posterior), posterior.typical
    m, per_step = len(posterior.labels), noise(plan.share)
    h, factors = posterior.curvature, some(posterior.factors)
    for step in range(plan.steps):
        weights = _weights(public, state.variance, h, n_priv, per_step)
        h = _curvature(public, state.mean, weights.lever * factors, m)
        request = Request(slope=state.mean, spread=weights.spread, scale=1.0, clip=1.0, radius=weights.radius)
        total, noise_std = ask(request, step)
        unit = 1.0 / (n_priv * h * weights.spread)
        state.note_slope(h * unit * total, (h * unit * noise_std) ** 2)
        variance = (unit * noise_std) ** 2 + (_CURVATURE / m + 1.0 / n_priv) * state.error
        state.add(state.mean + unit * total, variance, posterior.energy / (n_priv * h))
    if m < MANY * len(h):
        p = chances(public @ state.mean)
        state.widen(public, public * (weights.lever * factors * p * (1.0 - p))[:, None] / h, m, n_priv)
    if m < FEW * len(h):
        state.settle(wary=next_to_none(m, len(h) - 1))
    return state
