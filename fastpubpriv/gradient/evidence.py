"""What the released slopes of a descent show of its end: the excess of the loss there, at the public fit and at a constant.

Near its minimum w* the private loss is about quadratic with the public curvature K, times the share b of the gradients that clips
leave: a slope, minus the mean gradient, at weights w is b K (w* - w) plus noise. So the mean slope of the second half of the steps,
at the mean w of their weights, measures

    w* = w + slope / (b K)    with the error of noise, of the sampling of private rows, and of K.

Mean slopes of the first and of the second half, at mean weights v and w, show the relative error of K along the way,

    |slope(w) - slope(v) + b K (w - v)| / |b K (w - v)|    in the norm of K^-1,

and so what the way from w to the end may lack, and how much larger the curvature of private rows may be. Public rows know w* too,
up to the error of their fit, which is enlarged until it agrees with the measurement. Both together, by inverse variance, give the
expected excess at weights u: that of the mean of w*, (u - mean)' K (u - mean), plus the variance of w* in the metric of K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.moments import LARGEST
from fastpubpriv.gradient import gradient_tuning as tuning
from fastpubpriv.gradient.gradient_problem import Descended, GradientProblem, PreparedDescent
from fastpubpriv.gradient.loss_curvature import LossCurvature
from fastpubpriv.regression import regression_tuning
from fastpubpriv.regression.concerns import Concerns, is_drift, is_too_few
from fastpubpriv.regression.newton import Slope
from fastpubpriv.regression.posterior import LossExcess
from fastpubpriv.results.reasons import Reasons


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Minimum:
    """What slopes and public rows say about the minimum: differences (outputs, D) from the end, in the metric of the curvature."""

    mean: FloatArray
    variance_sum: float
    # factor on the curvature that slopes show to be possible
    steeper: float
    public: FloatArray  # the fit of public rows
    # squared distance of what slopes measure from the public fit, over its expectation
    disagreement: float

    @classmethod
    def pooled(
        cls,
        measured: FloatArray,
        variance: FloatArray,
        public: FloatArray,
        public_variance: FloatArray,
        *,
        steeper: float,
    ) -> Minimum:
        """Return the mean of a measurement and of the public fit, whose variance is enlarged until they agree."""
        apart_sq = (measured - public) ** 2
        usual = np.maximum(public_variance + variance, 1.0 / LARGEST)
        disagreement = float(np.mean(np.minimum(apart_sq / usual, LARGEST)))
        drifted = max(disagreement, 1.0) * public_variance
        share = drifted / np.maximum(drifted + variance, 1.0 / LARGEST)
        mean = public + share * (measured - public)
        return cls(
            mean=mean,
            variance_sum=float(np.sum(share * variance)),
            steeper=steeper,
            public=public,
            disagreement=disagreement,
        )

    def excess_at(self, weights: FloatArray | float) -> float:
        """Expected squared distance of the minimum from weights (outputs, D)."""
        return float(np.sum((self.mean - weights) ** 2)) + self.variance_sum


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What slopes show of the end of a descent."""

    excess: LossExcess
    has_few_rows: bool  # whether public rows are too few to show the curvature
    is_shifted: bool  # whether private rows are of another population than the public ones

    @property
    def reasons(self) -> Reasons:
        """The first reason that holds, if any."""
        concerns = Concerns(
            fallback=self.excess.is_fallback,
            few_public_rows=self.has_few_rows,
            shifted=self.is_shifted,
        )
        return concerns.first(1)[0]


def with_evidence(
    descended: Descended, problem: GradientProblem, plan: PreparedDescent, slopes: Sequence[Slope]
) -> Descended:
    """Return the result with the excess and the reasons that slopes (outputs, width) show."""
    if plan.more is None or not slopes:
        return descended
    with np.errstate(all="ignore"):  # a slope may be as large as noise makes it
        shown = evidence_of(problem, plan, slopes, descended.weights)
    return replace(descended, excess=shown.excess, reasons=shown.reasons)


def evidence_of(
    problem: GradientProblem, plan: PreparedDescent, slopes: Sequence[Slope], end: FloatArray
) -> Evidence:
    """Return what slopes (outputs, width) show of the weights at the `end`."""
    curvature: LossCurvature = plan.more
    last = np.atleast_2d(end) @ curvature.turn
    minimum = minimum_by(problem, plan, slopes, last)
    unit = problem.excess_part / problem.outputs
    predicted = unit * minimum.steeper * minimum.excess_at(0.0)
    public = unit * minimum.excess_at(minimum.public)
    best = last + minimum.mean / np.sqrt(curvature.values)
    excess = LossExcess(
        predicted=predicted,
        public=public,
        constant=unit * _constant_sq(problem, curvature, best),
        within_clip=curvature.inside < 1.0,
    )
    loss = problem.loss
    assert loss is not None
    coefficients = problem.units.width * (problem.outputs - loss.scores)
    of_classes = loss.classes or loss.scores
    few = is_too_few(len(problem.x), coefficients, classes=of_classes)
    freedom = len(problem.x) - problem.units.width + 1
    # The plan from public rows failed by what matters beside the better of their fit and a constant.
    misled = (
        predicted > tuning.BEYOND_PLAN * float(plan.predicted or 0.0)
        and predicted > regression_tuning.MUCH * excess.alternative
    )
    return Evidence(
        excess=excess,
        has_few_rows=few,
        is_shifted=misled or is_drift(minimum.disagreement, problem.size, freedom),
    )


def minimum_by(
    problem: GradientProblem, plan: PreparedDescent, slopes: Sequence[Slope], last: FloatArray
) -> Minimum:
    """Return the minimum by slopes (outputs, width) and public rows; `last` (outputs, D) is the end along the eigenvectors."""
    curvature: LossCurvature = plan.more
    root = np.sqrt(curvature.values)
    steep = curvature.inside * curvature.values
    sampled = 1.0 / plan.batch_rows - 1.0 / problem.n_priv
    of_batch = curvature.energy * curvature.inside * steep * sampled
    along = [_along(each, curvature.turn, of_batch) for each in slopes]
    half = len(along) // 2
    late = mean_slope(along[half:])
    shown = _misfit(mean_slope(along[:half]), late, steep) if half else 0.0
    misfit = max(curvature.doubt, shown)
    move = root * (last - late.start)
    lacking_sq = misfit**2 * float(np.sum(move**2))
    variance = late.noise_variance * (root / steep) ** 2
    variance += curvature.settled / problem.n_priv + lacking_sq / move.size
    measured = late.slope * root / steep - move
    public_weights = np.atleast_2d(problem.public.weights) @ curvature.turn
    public = root * (public_weights - last)
    return Minimum.pooled(
        measured=measured,
        variance=variance,
        public=public,
        public_variance=curvature.values * curvature.unknown,
        steeper=1.0 + shown,
    )


def _along(slope: Slope, turn: FloatArray, of_batch: FloatArray) -> Slope:
    """Return a slope along the eigenvectors of the curvature, (outputs, width), with the variance of sampled batches."""
    start = np.atleast_2d(slope.start) @ turn
    turned = np.nan_to_num(np.atleast_2d(slope.slope) @ turn)
    noise_variance = np.atleast_2d(slope.noise_variance) + of_batch
    bounded = np.clip(turned, -LARGEST, LARGEST)
    return Slope(start=start, slope=bounded, noise_variance=noise_variance)


def mean_slope(slopes: Sequence[Slope]) -> Slope:
    """Return the mean of slopes, at the mean of their weights."""
    start = np.mean([each.start for each in slopes], axis=0)
    slope = np.mean([each.slope for each in slopes], axis=0)
    of_sum = np.sum([each.noise_variance for each in slopes], axis=0)
    return Slope(start=start, slope=slope, noise_variance=of_sum / len(slopes) ** 2)


def _misfit(early: Slope, late: Slope, steep: FloatArray) -> float:
    """Return the relative error of the curvature between two slopes, as far as noise does not explain it."""
    root = np.sqrt(steep)
    expected = root * (late.start - early.start)
    change = (late.slope - early.slope) / root
    noise_variance = (early.noise_variance + late.noise_variance) / steep
    off = Slope(start=late.start, slope=change + expected, noise_variance=noise_variance)
    shown_sq = max(off.length_sq - off.doubt, 0.0)
    length_sq = max(float(np.sum(expected**2)), 1.0 / LARGEST)
    return math.sqrt(min(shown_sq / length_sq, LARGEST))


def _constant_sq(problem: GradientProblem, curvature: LossCurvature, best: FloatArray) -> float:
    """Squared distance of the closest constant from the minimum `best` (outputs, width), along the eigenvectors."""
    slopes = best @ curvature.turn.T
    matrix = (curvature.turn * curvature.values) @ curvature.turn.T
    if problem.units.design is not None:
        # What is left of the curvature of the slopes if the intercept is free.
        matrix = matrix - np.outer(matrix[0], matrix[0]) / matrix[0, 0]
    return max(float(np.sum((slopes @ matrix) * slopes)), 0.0)
