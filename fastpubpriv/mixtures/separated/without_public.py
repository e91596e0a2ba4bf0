"""Mixtures of full covariances from private rows alone: the start of `axis_aligned.private_start`, and rounds of `soft_em` from it.

Range, groups, Gram matrices and sketch are those of axis-aligned components, and so are their costs. Two things differ. Columns may
correlate within a component, so that correlations show directions only where means are far apart: then they are those of largest
variance. And the mixture along them has full covariances.

Rows of a group, given their coordinates t = A (x - c) along its directions, are taken to have one Gaussian distribution, that of
the linear regression of x on t. This extends each component along the directions to all columns, and gives the mixture with
whose responsibilities the first round begins. Privacy note: `mechanisms/notes/sketch.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.mixtures import em_rounds
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import axis_method, private_start
from fastpubpriv.mixtures.axis_aligned.axis_method import LearnedMixture, Task
from fastpubpriv.mixtures.axis_aligned.column_modes import ColumnModes, Groups
from fastpubpriv.mixtures.axis_aligned.places import BoundedRange, HistogramRange
from fastpubpriv.mixtures.axis_aligned.private_start import FoundColumns, Frames, Start, StartPlan
from fastpubpriv.mixtures.axis_aligned.sketch import Projection
from fastpubpriv.mixtures.em_rounds import RoundMoments, StartState
from fastpubpriv.mixtures.fit import MeasuredFit, gaussian_tv
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.separated import soft_em
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import WHOLE, Spending, spending_of
from fastpubpriv.results.reasons import PartReasons, Reason
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows

MOST_COMPONENTS = 64  # maximum number of components, as of axis-aligned ones

# ---- Groups and directions.


def with_clean_cuts(columns: list[ColumnModes]) -> list[ColumnModes]:
    """Return the columns, without the cuts of those that misclassify more than a share CLEAN of the rows."""
    without = np.zeros(0)
    listed = []
    for column in columns:
        is_clean = column.confused <= tuning.CLEAN
        listed.append(column if is_clean else replace(column, cuts=without))
    return listed


def leading_directions(correlations: FloatArray, usable: BoolArray, most: int) -> FloatArray:
    """Return the `most` directions (l, dim) of largest variance of standardized rows, or all few columns, by usable columns.

    `correlations` (dim, dim) have ones on the diagonal. The variance along each direction is EXTENT squared.
    """
    places = np.flatnonzero(usable)
    values, vectors = spectrum(correlations[np.ix_(places, places)])
    if len(correlations) > tuning.FEW_COLUMNS:
        leading = min(most, tuning.FULL_DIRECTIONS, len(places))
        values = values[len(places) - leading :]
        vectors = vectors[:, len(places) - leading :]
    rows = np.zeros((len(values), len(correlations)))
    stds = np.sqrt(np.maximum(values, tuning.FLAT))
    rows[:, places] = tuning.EXTENT * (vectors / stds).T
    return rows


def group_correlations(frames: Frames, group: int, own: RoundMoments) -> FloatArray:
    """Move a group's frame to its released moments; return the correlations of its columns, positive definite.

    They are shrunk toward none by their noise, which is large in a small group of many columns.
    """
    correlations = private_start.move_frame(frames, group, own) + np.eye(frames.centers.shape[1])
    variance = own.off**2 + 1.0 / own.rows
    correlations = em_rounds.shrunken_change(correlations, own.on**2, variance)
    values, vectors = spectrum(correlations)
    positive: FloatArray = (vectors * np.maximum(values, tuning.FLAT)) @ vectors.T
    return positive


def find_directions(
    groups: Groups, frames: Frames, moments: list[RoundMoments], more: int
) -> tuple[list[FloatArray], list[Projection]]:
    """Move the frames to the released moments; return the covariance of each group, and projections of those with directions."""
    covariances = []
    listed = []
    for group, own in enumerate(moments):
        correlations = group_correlations(frames, group, own)
        deviations = frames.deviations[group]
        covariances.append(correlations * np.outer(deviations, deviations))
        usable = private_start.usable_columns(groups, deviations)
        if more == 0 or not usable.any():
            continue
        matrix = leading_directions(correlations, usable, more) / deviations
        if not np.isfinite(matrix).all():
            continue
        spread = tuning.EXTENT**2 * np.eye(len(matrix))
        center = frames.centers[group].copy()
        listed.append(Projection.of(group, center, matrix, spread))
    return covariances, listed


def gaussian(mean: FloatArray, covariance: FloatArray) -> GaussianMixture:
    """Return a mixture of one component."""
    return GaussianMixture(np.ones(1), mean[None], covariance[None])


def find_mixture(
    task: Task, run: Session, groups: Groups, frames: Frames, costs: dict[str, Spending]
) -> Start:
    """Release Gram matrices, and a sketch if groups may hold several components; return the start of the rounds."""
    more = task.n_components - groups.size
    moments = private_start.release_moments(run, groups, frames, costs["grams"])
    covariances, listed = find_directions(groups, frames, moments, more)
    components = private_start.find_along(
        run, groups, frames, listed, more, costs["sketch"], full=True
    )
    parts = []
    for center, covariance in zip(frames.centers, covariances, strict=True):
        parts.append(gaussian(center, covariance))
    for projection in listed:
        group = projection.group
        if group in components:
            along = components[group]
            centered = private_start.extended(projection.matrix, covariances[group], along)
            parts[group] = centered.mapped(projection.center, 1.0)
    return Start.of(parts, frames, [len(each.matrix) for each in listed])


# ---- The whole call.


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The state after the last round, the reasons of its components with the count of the fit, and diagnostics."""

    state: StartState
    reasons: PartReasons
    predicted: FloatArray  # (k,): total variation errors from noise and sampling
    facts: dict[str, Any]
    fit: MeasuredFit


@dataclass(frozen=True, slots=True, eq=False)
class PrivatePlan:
    """The blocks of rows, and the shares of the budget, from public numbers."""

    search: HistogramRange | BoundedRange
    shares: StartPlan

    @classmethod
    def of(cls, task: Task) -> PrivatePlan:
        """Return the plan of a call."""
        search = private_start.range_of(task)
        spending = task.run.account.spending
        rest = search.rest
        shares = shares_of(rest.n, rest.dim, task.n_components, spending, search.looks)
        return cls(search, shares)

    @property
    def rest(self) -> Rows:
        """The rows of the cells and of all rounds."""
        return self.search.rest

    def predicted(self, rows: float, spending: Spending) -> Prediction:
        """Predict the errors of a component with `rows` of the rows of `rest`."""
        return soft_em.predicted_errors(self.rest.dim, rows, spending, self.shares.least_last)

    def check(self, task: Task) -> None:
        """Raise before the debit if a stage has no noise grid or memory; warn if rows are too few, all by public numbers."""
        spending = task.run.account.spending
        n = self.rest.n
        for parts in range(1, task.n_components + 1):
            for share in (self.shares.early, self.shares.least_last, WHOLE):
                spending.part(share).grid("shared", self.rest.dim + 1, n, parts=parts)
        private_start.check_start(task, self.search, self.shares)


def shares_of(n: int, dim: int, k: int, spending: Spending, looks: Fraction) -> StartPlan:
    """Return the shares of the releases on n rows of `rest`, with few early rounds where noise is large."""
    noise = soft_em.budget_noise(dim, k, n, spending)
    shares = StartPlan.of_noise(noise, spending, diagonal=False, looks=looks)
    if noise > tuning.NOISY and looks == 0:
        return replace(shares, rounds=tuning.EARLY_ROUNDS)
    return shares


def most_draws(n: int, dim: int, k: int) -> int:
    """Return an upper bound on the noise draws of a run."""
    rounds = soft_em.soft_draws(dim, k)
    return rounds + private_start.most_draws(n, dim, k, known_std=False)


def predict(
    n: int, dim: int, k: int, weight: float, budget: Budget
) -> tuple[Prediction, dict[str, float]]:
    """Return the predicted errors of a component of this share of n rows once it is found, and details for `plan`."""
    spending = spending_of(budget, most_draws(n, dim, k))
    rest, looks = private_start.rows_of_rest(n, dim, k, budget, spending)
    shares = shares_of(max(round(rest), 1), dim, k, spending, looks)
    rows = max(rest * weight, 1.0)
    error = soft_em.predicted_errors(dim, rows, spending, shares.least_last)
    details = {
        "rows_of_rounds": rest,
        "rounds": shares.rounds + 1.0,
        "last_share": float(shares.least_last),
    }
    return error, details


def nothing(run: Session, columns: list[ColumnModes], facts: dict[str, Any]) -> Found:
    """Return the public N(0, 1), where no column shows any value, with the count of its fit."""
    dim = run.rows.dim
    at = gaussian(np.zeros(dim), np.eye(dim))
    unknown = np.ones((2, 1))
    counts = np.array([float(run.rows.n)])
    state = StartState(name="nothing", at=at, noise=unknown[0], counts=counts, errors=unknown)
    fit = private_start.count_of_fit(run, columns, at)
    return Found(state, ((Reason.FALLBACK,),), unknown[0], facts | fit.facts_in(), fit)


def learn(task: Task, plan: PrivatePlan) -> Found:
    """Run all stages, after the debit."""
    rest = plan.rest
    dim = rest.dim
    column_fits = private_start.find_columns(task, plan.search)
    run = column_fits.run
    steps = [each if math.isfinite(each) else None for each in column_fits.steps]
    facts: dict[str, Any] = {"tied_share": column_fits.tied, "step": steps}
    if column_fits.are_empty:
        return nothing(run, column_fits.columns, facts)
    column_fits = column_fits._replace(columns=with_clean_cuts(column_fits.columns))
    groups = private_start.find_groups(task, column_fits)
    frames = Frames.of(groups, rest.n)
    start = find_mixture(task, run, groups, frames, column_fits.costs)
    facts |= {"anchors": groups.chosen, "groups": groups.size, "directions": start.directions}
    nobody = np.zeros((0, dim))
    one_round: Callable[..., StartState] = partial(em_rounds.advance, run, nobody)
    state = StartState(name="sketch", at=start.at)
    state = private_start.rounds_from(run, state, one_round, plan.shares)
    state = soft_em.without_noise_correlations(state)
    return judged(task, column_fits, state, facts)


def judged(
    task: Task, column_fits: FoundColumns, state: StartState, facts: dict[str, Any]
) -> Found:
    """Release the count of the fit; return the state with its reasons."""
    at = state.at
    columns = column_fits.columns
    # as the caller gets them
    fit = private_start.count_of_fit(column_fits.run, columns, at.within(task.box))
    is_whole = all(column.is_known for column in columns)
    predicted = gaussian_tv(*state.errors)
    # a mean may be off by a deviation
    lost = (state.errors[0] > 1.0) | state.low
    reason = None if is_whole else Reason.FALLBACK
    learned = LearnedMixture(at=at, reason=reason)
    learned = replace(learned, low=lost, predicted=predicted, fit=fit)
    asked = task.n_components
    reasons = axis_method.component_reasons(
        learned, column_fits.tied, column_fits.steps, asked=asked
    )
    if not fit.graded:  # values of all columns are rounded: nothing tells whether the answer fits
        reasons = tuple(own or (Reason.TIES,) for own in reasons)
    return Found(state, reasons, predicted, facts | fit.facts_in(), fit)
