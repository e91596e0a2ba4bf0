"""Noisy Newton steps in coordinates whitened by public rows, for the squared, the Huber and the logistic loss.

Each step has most precision where the public posterior is widest, and measures the coefficients; all measurements are pooled with
the public posterior by inverse variance. A link says what differs between losses. With few public rows a step is bounded in their
predictions, and the curvature h along a way d between two slopes g and g' is raised to (g - g') d / d h d times as much, a secant:
a change of rank one. The number of steps, the clip of residuals and the weights of rows are chosen from public and released
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.coordinates import Weighting, water_filled, weighting
from fastpubpriv.regression.public_fits import (
    AnyPosterior,
    Bound,
    LogisticPosterior,
    Posterior,
    ResidualClip,
    fit,
    normal_clips,
    sandwich,
)
from fastpubpriv.session import MethodPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slope:
    """Slope of the loss, a negative gradient, as a step measured it."""

    start: FloatArray  # (D,), coefficients at which it was measured
    slope: FloatArray  # (D,)
    noise_variance: FloatArray  # (D,)

    @property
    def length_sq(self) -> float:
        """Squared norm, minus that of the noise."""
        return float(np.sum(self.slope**2 - self.noise_variance))

    @property
    def doubt(self) -> float:
        """Three standard deviations of `length_sq` by noise."""
        of_square = 2.0 * self.noise_variance + 4.0 * self.slope**2
        variance = float(np.sum(self.noise_variance * of_square))
        return 3.0 * math.sqrt(variance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Secant:
    """Direction between two slopes along which the curvature is larger than assumed."""

    direction: FloatArray  # (D,)
    factor: float  # curvature along it over the assumed one, above 1

    @classmethod
    def between(cls, before: Slope, here: Slope, curvature: FloatArray) -> Secant | None:
        """Return the secant of two slopes, if it exceeds the assumed `curvature` (D,) by more than two deviations of noise."""
        direction = here.start - before.start
        noise_variance = before.noise_variance + here.noise_variance
        doubt = 2.0 * math.sqrt(float(noise_variance @ direction**2))
        measured = float((before.slope - here.slope) @ direction) - doubt
        assumed = float(curvature @ direction**2)
        if not measured > assumed > 0.0:
            return None
        return cls(direction=direction, factor=min(measured / assumed, tuning.STEEPEST))

    def shortened(self, move: FloatArray, curvature: FloatArray) -> FloatArray:
        """Return a Newton step (D,) by the assumed `curvature` (D,), shorter by the factor along the direction."""
        # A rank-one change of the curvature: what is orthogonal in the assumed curvature keeps its length.
        conjugate = curvature * self.direction
        along = float(conjugate @ move) / float(conjugate @ self.direction)
        return move - (1.0 - 1.0 / self.factor) * along * self.direction


class NewtonState:
    """State after some measurements: coefficients and their variances, in the coordinates of the posterior."""

    def __init__(self, posterior: AnyPosterior) -> None:
        dim = len(posterior.mean)
        self._posterior = posterior
        self._varying = posterior.varying
        # Measurements of the coefficients, their variances, where they started and the squared errors predicted there.
        self._measured: list[tuple[FloatArray, FloatArray, FloatArray, float]] = []
        # Mean and variance (D,) of the coefficients, from public rows and measurements together.
        self.mean: FloatArray = posterior.mean.copy()
        self.variance: FloatArray = posterior.variance.copy()
        # factor by which the public rows' variance was enlarged to agree with the measurements
        self.drift = 1.0
        self.lever: FloatArray = np.ones(0)  # (k,), factors of typical rows in the last step
        self.is_cut = False  # see `note_move`, of the last step
        self._disagreement = 0.0
        # Of the measurements alone; the first excludes the sampling error of private rows, which all have in common.
        self.noise_precision: FloatArray = np.zeros(dim)
        self.private_precision: FloatArray = np.zeros(dim)
        self.private_mean: FloatArray = np.zeros(dim)
        self._began: FloatArray = np.zeros(dim)
        self._unsure: FloatArray = np.zeros((dim, 0))
        self._slopes: list[Slope] = []
        self._secants: list[Secant] = []

    @property
    def error(self) -> float:
        """Predicted squared error, including the disagreement with public rows."""
        return float(self.variance @ self._varying) + self._disagreement

    def add(self, measured: FloatArray, variance: FloatArray, sampling: float | FloatArray) -> None:
        """Pool a measurement of the coefficients, made at the current ones, and update the state."""
        self._measured.append((measured, variance, self.mean, self.error))
        self._pool(None, sampling)
        public = self._posterior
        if isinstance(public, LogisticPosterior):
            # Its curvature changes on the way from a far start.
            self._pool(self.private_mean, sampling)
        dim = len(measured)
        apart = (self.private_mean - public.mean) ** 2
        disagreement = float(np.sum(apart / (public.variance + 1.0 / self.private_precision)))
        self.drift = disagreement / dim if disagreement > dim + 3.0 * math.sqrt(2.0 * dim) else 1.0
        trusted = 1.0 / (self.drift * public.variance)
        self.variance = 1.0 / (trusted + self.private_precision)
        self.mean = self.variance * (
            trusted * public.mean + self.private_precision * self.private_mean
        )
        # A drift along few directions exceeds the enlarged variance there: the part that the pooled mean keeps is estimated.
        kept_sq = (self.variance * trusted) ** 2 @ (
            apart - 1.0 / trusted - 1.0 / self.private_precision
        )
        self._disagreement = max(0.0, float(kept_sq)) if self.drift > 1.0 else 0.0
        # the joint minimum of the public loss and the measurements
        if isinstance(public, LogisticPosterior):
            rows, labels, weights = public.counted
            ridge = public.ridge / self.drift + np.diag(self.private_precision)
            pull = self.private_precision * self.private_mean
            self.mean = fit(rows, labels, weights / self.drift, ridge, pull)

    def _pool(self, now: FloatArray | None, sampling: float | FloatArray) -> None:
        """Pool the measurements by inverse variance, enlarged for an earlier one that started farther from `now` than predicted."""
        precision, weighted, started = (np.zeros_like(self.mean) for _ in range(3))
        # Without labels a start may be far from the minimum, and its distance is not predicted.
        usual = 0.0 if self._posterior.drawn is not None else tuning.FAR_START
        for index, (value, variance, start, error) in enumerate(self._measured):
            if now is not None and index + 1 < len(self._measured):
                expected = error + float(np.sum(1.0 / self.private_precision))
                variance = variance + max(0.0, float(np.sum((start - now) ** 2)) - usual * expected)
            precision += 1.0 / variance
            weighted += value / variance
            started += start / variance
        self.noise_precision = precision
        self.private_precision = 1.0 / (1.0 / precision + sampling)
        self.private_mean = weighted / precision
        self._began = started / precision

    @property
    def _agreed(self) -> FloatArray:
        """Covariance (D, D) of the coefficients if the assumed curvature is exact."""
        if not isinstance(self._posterior, LogisticPosterior):
            return np.diag(self.variance)
        known, score = self._posterior.information(self.mean)
        measured = np.diag(self.private_precision)
        information = known / self.drift + measured
        return sandwich(
            information, information if score is known else score / self.drift + measured
        )

    @property
    def covariance(self) -> FloatArray:
        """Covariance (D, D) of the coefficients."""
        agreed = self._agreed
        moved = (agreed * self.private_precision) @ self._unsure
        return agreed + moved @ moved.T

    @property
    def noise(self) -> FloatArray:
        """The part (D, D) of `covariance` that is privacy noise."""
        gain = self._agreed * self.private_precision
        return (gain / self.noise_precision) @ gain.T

    def widen(self, rows: FloatArray, slopes: FloatArray, m: int, n_priv: float) -> None:
        """Include in `covariance` the error of the curvature from m public rows, of which `rows` (k, D) are a subsample."""
        # `slopes` (k, D): the effect of a row on a measurement, over its prediction of the move from the mean start of all.
        share = m / max(m - rows.shape[1], 1) ** 2 + 1.0 / n_priv
        apart = self.private_mean - self._began
        way = np.sqrt((rows @ apart) ** 2 + rows**2 @ self.variance)
        self._unsure = (slopes * way[:, None]).T * math.sqrt(share / len(rows))

    def note_slope(self, here: Slope) -> None:
        """Record the slope at the current coefficients."""
        self._slopes.append(here)

    def note_secant(self, curvature: FloatArray) -> None:
        """Record the secant of the last two slopes, if the assumed `curvature` (D,) is too small along it."""
        if len(self._slopes) < 2:
            return
        before, here = self._slopes[-2:]
        secant = Secant.between(before, here, curvature)
        if secant is not None:
            self._secants.append(secant)

    def newton_step(self, curvature: FloatArray) -> FloatArray:
        """Return the step (D,) from the last slope by the assumed `curvature` (D,), changed by the last secants."""
        move: FloatArray = self._slopes[-1].slope / curvature
        for secant in self._secants[-tuning.SECANTS :]:
            move = secant.shortened(move, curvature)
        return move

    def note_move(self, move: FloatArray, noise_variance: FloatArray, longest: float) -> None:
        """Record whether a step (D,) is longer than steps may be, beyond its noise: then the next one would not be the last."""
        length = Slope(start=self.mean, slope=move, noise_variance=noise_variance)
        surely_sq = length.length_sq - length.doubt
        self.is_cut = surely_sq > longest**2

    def settle(self) -> None:
        """Return to the shortest slope, if the last one is longer beyond noise."""
        # The loss is convex: a slope that became longer shows that the steps ran away.
        shortest = min(self._slopes, key=lambda each: each.length_sq)
        last = self._slopes[-1]
        surely_sq = last.length_sq - last.doubt
        most_sq = shortest.length_sq + shortest.doubt
        if surely_sq > max(0.0, most_sq):
            self.mean = shortest.start


# share of the allowance -> noise on a sum of rows clipped to radius 1
Noise = Callable[[Fraction], float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewtonPlan(MethodPlan):
    """Number of steps, of equal shares of the budget, and clip with the least predicted error, including clipping bias."""

    clip: Any = None  # a `Bound` on residuals; None for classes, whose residuals are bounded by one
    # share of the budget for the mean of the private rows, see `center_share`
    center: Fraction = Fraction(0)

    @property
    def share(self) -> Fraction:
        """Share of the budget for each step."""
        return (1 - self.center) / self.steps


def _repeats(
    posterior: AnyPosterior, variance: FloatArray, noise_variance: FloatArray, steps: int
) -> float:
    """Effective number of steps with the same error by the curvature: (1 + r) / (1 - r), at most all of them."""
    # It acts on the remaining error, which has the correlation r from one step to the next; that of classes changes meanwhile.
    if not posterior.is_linear:
        return 1.0
    left = float(np.sum(1.0 / (1.0 / variance + 1.0 / noise_variance)) / np.sum(variance))
    return min((1.0 + left) / max(1.0 - left, 1e-300), float(steps))


def step_counts(posterior: AnyPosterior) -> tuple[int, ...]:
    """Return the candidate numbers of steps, in ascending order."""
    more = posterior.few and posterior.is_linear
    return (*tuning.STEPS, *tuning.MORE_STEPS) if more else tuning.STEPS


def plan_newton(
    posterior: AnyPosterior,
    n_priv: float,
    noise: Noise,
    center: Fraction = Fraction(0),
    most: int = tuning.MORE_STEPS[-1],
) -> NewtonPlan:
    """Return the plan with the number of steps, at most `most`, and the clip of least predicted error."""
    noises = {
        steps: noise((1 - center) / steps) for steps in step_counts(posterior) if steps <= most
    }
    steps, place, predicted = _least(posterior, n_priv, noises, posterior.clips)
    clip = posterior.clips[place]
    if (
        isinstance(posterior, Posterior)
        and posterior.few
        and predicted >= tuning.NOISY * posterior.part * posterior.unexplained
    ):
        pairs = normal_clips(posterior)
        steps, place, _ = _least(posterior, n_priv, noises, [judged for _, judged in pairs])
        clip = pairs[place][0]
        _, _, predicted = _least(posterior, n_priv, {steps: noises[steps]}, [clip])
    return NewtonPlan(
        steps=steps, clip=clip, predicted=predicted, public_excess=posterior.excess, center=center
    )


def _least(
    posterior: AnyPosterior,
    n_priv: float,
    noises: Mapping[int, float],
    clips: Sequence[Bound],
) -> tuple[int, int, float]:
    """Return the best number of steps, index of the clip, and error; `noises` are those of a step by number of steps."""
    best: tuple[int, int, float] | None = None
    for steps, per_step in noises.items():
        predicted = []
        for clip in clips:
            error = _predicted_error(posterior, clip, steps, per_step, n_priv)
            predicted.append(posterior.part * (error + clip.bias_sq * posterior.noise_share))
        place = min(range(len(predicted)), key=predicted.__getitem__)
        if best is None or predicted[place] < (
            best[2] if steps <= tuning.STEPS[-1] else tuning.NO_LOSS * best[2]
        ):
            best = steps, place, predicted[place]
    assert best is not None
    return best


def _predicted_error(
    posterior: AnyPosterior, clip: Bound, steps: int, noise: float, n_priv: float
) -> float:
    """Predicted squared error after steps with a clip, with the radius and share of the first one throughout."""
    variance = posterior.variance
    error = posterior.spread
    curvature = posterior.curvature_at(posterior.mean)
    curvature_error = posterior.curvature_error + 1.0 / n_priv
    release = ResidualRelease.of(posterior, clip, error, noise, n_priv, curvature)
    first = release.weighting(posterior, variance)
    relative = (first.shares / first.share * curvature / curvature.mean()) ** 2
    pooled = np.zeros_like(variance)
    for _ in range(steps):
        total = release.precision(first.radius, first.share)
        noise_variance = 1.0 / (water_filled(variance, total, posterior.even) * relative)
        again = _repeats(posterior, variance, noise_variance, steps)
        pooled += 1.0 / (noise_variance + curvature_error * error * again)
        sampling = release.row_variance * (posterior.energy / curvature) / n_priv
        variance = 1.0 / (1.0 / posterior.variance + 1.0 / (1.0 / pooled + sampling))
        error = float(np.sum(variance * posterior.varying))
        release = ResidualRelease.of(posterior, clip, error, noise, n_priv, curvature)
    return error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualRelease:
    """The noisy sum of rows times clipped residuals that a step releases."""

    scale: float  # of a residual
    law: ResidualClip  # bound on residuals, in units of `scale`
    noise: float  # on a sum of rows clipped to radius 1
    slope: float  # change of the sum by a coefficient, on average over coordinates, without a clip of rows

    @classmethod
    def of(
        cls,
        posterior: AnyPosterior,
        clip: Bound,
        error: float,
        noise: float,
        n_priv: float,
        curvature: FloatArray,
    ) -> ResidualRelease:
        """Return it for predictions with a squared `error`, and a mean `curvature` (D,) of the loss of a row."""
        scale = float(posterior.sizes(np.array(error)))
        law = clip.at(scale)
        slope = n_priv * (law.inside * float(curvature.mean()))
        return cls(scale=scale, law=law, noise=noise, slope=slope)

    def precision(self, radius: float, share: float) -> float:
        """Precision of the coefficients, summed over coordinates, by rows with a clip."""
        std = radius * self.noise * self.law.bound * self.scale / (self.slope * share)
        return float(std**-2)

    def weighting(self, posterior: AnyPosterior, variance: FloatArray) -> Weighting:
        """Water-filled weights; the precision depends on the radius and share of the weighting, so it is chosen twice."""
        chosen = None
        total = self.precision(1.0, 1.0)
        for _ in range(2):
            filled = water_filled(variance, total, posterior.even)
            chosen = weighting(posterior.typical, np.sqrt(filled / total))
            total = self.precision(chosen.radius, chosen.share)
        assert chosen is not None
        return chosen

    @property
    def row_variance(self) -> float:
        """Sampling variance of a coefficient by one row, for unit curvature."""
        return self.law.energy * self.scale**2 / self.law.inside**2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """What a step assumes: bound and weights of its sum, and the curvature of the loss near the current coefficients."""

    release: ResidualRelease
    weights: Weighting
    slopes: FloatArray  # (D,), mean change of a weighted row's slope by a coefficient, without the bound
    curvature: FloatArray  # (D,), mean second derivative of the loss
    sampling: FloatArray  # (D,), variance of a coefficient by one row


def next_step(
    posterior: AnyPosterior,
    clip: Bound,
    state: NewtonState,
    noise: float,
    n_priv: float,
) -> Step:
    """Return what the next step assumes; `noise` is that on a sum of rows clipped to radius 1."""
    everywhere = posterior.curvature_at(state.mean)
    release = ResidualRelease.of(posterior, clip, state.error, noise, n_priv, everywhere)
    weights = release.weighting(posterior, state.variance)
    curvature = posterior.curvature_at(state.mean, weights.lever)
    slopes = curvature * weights.shares if posterior.is_linear else curvature
    return Step(
        release=release,
        weights=weights,
        slopes=slopes,
        curvature=curvature,
        sampling=release.row_variance * (posterior.energy / curvature),
    )


# (step, coefficients, weights of rows, scale and clip of residuals) -> the released sum, and the deviation of its noise
Ask = Callable[[int, FloatArray, Weighting, float, float], tuple[FloatArray, float]]


def bounded(move: FloatArray, public: FloatArray, longest: float) -> tuple[FloatArray, float]:
    """Return a step (D,), shortened if it changes predictions for `public` rows (k, D) by more, and the variance that this adds."""
    # The root mean square of the changes is at most `longest`. A step that is shortened does not tell where the minimum is.
    change = math.sqrt(float(np.mean((public @ move) ** 2)))
    part = min(1.0, longest / max(change, 1e-300))
    length_sq = float(move @ move)
    lost_sq = (1.0 - part) ** 2 * length_sq
    return part * move, lost_sq / len(move)


def newton(
    posterior: AnyPosterior,
    plan: NewtonPlan,
    n_priv: float,
    noise: Noise,
    ask: Ask,
    longest: float,
) -> NewtonState:
    """Run the steps; `ask` releases the sums. A step changes predictions by `longest` at most, infinity for the squared loss."""
    state = NewtonState(posterior)
    public = posterior.typical
    per_step = noise(plan.share)
    m = len(posterior.labels)
    dim = len(posterior.mean)
    # More public rows know the curvature; of fewer than coefficients, secants shorten what is right along other directions.
    informed = tuning.FEW * dim <= m < tuning.MANY * dim
    # The pooled measurements of a squared loss reach its minimum by any curvature, as averages of steps too long and too short.
    with_secants = informed and longest < math.inf
    curvature_error = posterior.curvature_error + 1.0 / n_priv
    effects = np.zeros_like(public)
    for index in range(plan.steps):
        step = next_step(posterior, plan.clip, state, per_step, n_priv)
        scale = step.release.scale
        law = step.release.law
        total, noise_std = ask(index, state.mean, step.weights, scale, law.bound)
        slope_of_sum = n_priv * (law.inside * step.slopes) * step.weights.spread
        unit = law.bound * scale / slope_of_sum
        noise_variance = (unit * noise_std) ** 2
        here = Slope(
            start=state.mean,
            slope=step.curvature * unit * total,
            noise_variance=step.curvature**2 * noise_variance,
        )
        state.note_slope(here)
        if with_secants:
            state.note_secant(step.curvature)
        move = state.newton_step(step.curvature)
        again = _repeats(posterior, state.variance, noise_variance, plan.steps)
        variance = noise_variance + curvature_error * state.error * again
        state.note_move(move, noise_variance, longest)
        move, cut_variance = bounded(move, public, longest)
        variance += cut_variance
        state.add(state.mean + move, variance, step.sampling / n_priv)
        state.lever = step.weights.lever
        bends = step.weights.lever * posterior.bends_at(state.mean)
        bent = public * bends[:, None]
        # of a row on a measurement, over its prediction of the move
        effects = bent / step.slopes
    state.settle()
    if informed:
        state.widen(public, effects, m, n_priv)
    return state
