"""What the released slopes of a descent show of its end: the excess of the loss there, at the public fit and at a constant.

Near its minimum w* the private loss is about quadratic with the public curvature K, times the share b of the gradients that clips
leave: a slope, minus the mean gradient, at weights w is b K (w* - w) plus noise. Mean slopes of the first and of the second half of
the steps, at mean weights v and w, show the relative error of K along the way,

    |slope(w) - slope(v) + b K (w - v)| / |b K (w - v)|    in the norm of K^-1,

and so what the way from w to the end may lack. An excess that is planned from public rows holds if they are like private ones; what
slopes show beyond their noise takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.moments import LARGEST
from fastpubpriv.gradient.gradient_problem import Descended, GradientProblem, PreparedDescent
from fastpubpriv.gradient.loss_curvature import LossCurvature
from fastpubpriv.regression import regression_tuning
from fastpubpriv.regression.concerns import Concerns, is_drift, is_too_few
from fastpubpriv.regression.newton import Slope
from fastpubpriv.regression.posterior import LossExcess, kept_share
from fastpubpriv.results.reasons import Reasons


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What slopes show of the end of a descent."""

    excess: LossExcess
    is_significant: bool  # whether the excess at the end is above the planned one beyond noise
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
    """Return the result with the reasons that slopes (outputs, width) show, and the excess if that is above the planned one."""
    if plan.more is None or not slopes:
        return descended
    with np.errstate(all="ignore"):  # a slope may be as large as noise makes it
        shown = evidence_of(problem, plan, slopes, descended.weights)
    excess = shown.excess if shown.is_significant else None
    return replace(descended, excess=excess, reasons=shown.reasons)


def evidence_of(
    problem: GradientProblem, plan: PreparedDescent, slopes: Sequence[Slope], end: FloatArray
) -> Evidence:
    """Return what slopes (outputs, width) show of the weights at the `end`; distances are in the metric of the curvature."""
    curvature: LossCurvature = plan.more
    steep = curvature.inside * curvature.values
    sampled = 1.0 / plan.batch_rows - 1.0 / problem.n_priv
    of_batch = curvature.energy * curvature.inside * steep * sampled
    along = [_along(each, curvature.turn, of_batch) for each in slopes]
    half = len(along) // 2
    late = mean_slope(along[half:])
    misfit = curvature.doubt
    if half:
        early = mean_slope(along[:half])
        misfit = max(misfit, _misfit(early, late, steep))
    last = np.atleast_2d(end) @ curvature.turn
    move = last - late.start
    # In these units the length of a slope is the distance to the minimum.
    root = np.sqrt(curvature.values) / steep
    slope = (late.slope - steep * move) * root
    there = Slope(start=last, slope=slope, noise_variance=late.noise_variance * root**2)
    lacking_sq = misfit**2 * float(np.sum(curvature.values * move**2))
    unit = problem.excess_part / problem.outputs
    predicted = float(plan.predicted or 0.0)
    surely_sq = there.length_sq - there.doubt + lacking_sq
    is_significant = unit * surely_sq > predicted
    if is_significant:
        predicted = unit * (max(there.length_sq, 0.0) + lacking_sq)
    noise_sq = float(np.sum(there.noise_variance))
    length_sq = float(np.sum(there.slope**2))
    share = kept_share(noise_sq, length_sq)
    best = last + share * there.slope / np.sqrt(curvature.values)
    public = np.atleast_2d(problem.public.weights) @ curvature.turn
    public_sq = float(np.sum(curvature.values * (public - best) ** 2))
    constant = unit * _constant_sq(problem, curvature, best)
    within_clip = curvature.inside < 1.0
    excess = LossExcess(
        predicted=predicted,
        public=unit * public_sq + predicted,
        constant=max(constant - predicted, 0.0),
        within_clip=within_clip,
    )
    loss = problem.loss
    assert loss is not None
    coefficients = problem.units.width * (problem.outputs - loss.scores)
    of_classes = loss.classes or loss.scores
    few = is_too_few(len(problem.x), coefficients, classes=of_classes)
    usual = curvature.public_error * problem.outputs + noise_sq
    disagreement = min(public_sq / max(usual, 1.0 / LARGEST), LARGEST)
    freedom = len(problem.x) - problem.units.width + 1
    # The plan from public rows failed by what matters beside the better of their fit and a constant.
    misled = is_significant and predicted > regression_tuning.MUCH * excess.alternative
    return Evidence(
        excess=excess,
        is_significant=is_significant,
        has_few_rows=few,
        is_shifted=misled or is_drift(disagreement, problem.size, freedom),
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
    count = len(slopes)
    start = reduce(np.add, [each.start for each in slopes])
    slope = reduce(np.add, [each.slope for each in slopes])
    noise_variance = reduce(np.add, [each.noise_variance for each in slopes])
    return Slope(
        start=start / count,
        slope=slope / count,
        noise_variance=noise_variance / count**2,
    )


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
