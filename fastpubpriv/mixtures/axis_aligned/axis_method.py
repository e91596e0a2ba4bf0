"""A call of the axis-aligned learner, its methods, what they learn, and the reasons of components.

If many rows share a value (counts, answers, constants), a density is a poor model, and a reason reports it. Ties cost no extra
release: pairs of rows show them (`places.column_scales`), or public rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.estimators.output_bounds import Box
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.fit import (
    MOST_OPEN,
    MeasuredFit,
    measure,
)
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.mixture import ROUNDING
from fastpubpriv.results.reasons import PartReasons, Reason, first_of
from fastpubpriv.session import Method, Session

# Randomness of public computations needs no secrecy; a fixed seed gives the same list for the same rows.
PUBLIC_SEED = 20_240_607


def measured(
    task: Task, learned: LearnedMixture, run: Session, *, cost: Spending | None = None
) -> LearnedMixture:
    """Return the mixture with a released count of its fit, by the rows of a run; see `measure` for the cost."""
    public = np.zeros((0, run.rows.dim)) if task.public is None else task.public
    fit = measure(run, task.bounded(learned.at), public=public, cost=cost)
    return replace(learned, fit=fit)


# ---- Run times of the methods on one core of a small shared machine, fitted to measurements; accurate to an order of
# magnitude.

SEARCH_SECONDS = 0.25  # seconds of the candidate search for one column, per component
ROW_SECONDS = 4e-9  # seconds of a pass, per computed number of a row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A call with checked arguments. Everything here is public except the rows of `run`."""

    run: Session
    n_components: int
    min_weight: float
    failure_prob: float
    accuracy: float | None = None
    public: FloatArray | None = None
    box: Box | None = None  # bounds of the columns, in data units
    # bounds of the columns of the rows of `run`, where these are the range
    range_box: Box | None = None
    # lower root of a known covariance: data units of the rows of `run`
    factor: FloatArray | None = None
    # what a warning of too few rows for a private start calls it
    start_name: str = "method='sketch'"

    @property
    def known_std(self) -> bool:
        """Whether every component has standard deviation one in every coordinate of the rows of `run`."""
        return self.factor is not None

    def bounded(self, at: GaussianMixture) -> GaussianMixture:
        """Return the mixture within bounds, as the caller gets it: that is what a count of the fit is compared with."""
        if self.box is None or self.factor is None:
            return at.within(self.box)
        clipped = np.clip(at.means @ self.factor.T, *self.box)
        return replace(at, means=solve_triangular(self.factor, clipped.T, lower=True).T)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisMethod(Method[...]):
    """A method of `learn_axis_aligned_mixture`.

    learn(task: Task) -> Learned; draws(n, dim, components, *, known_std); prepare(n, components, dim, accuracy, budget,
    failure_prob, *, known_std); predict(n, dim, components, n_pub, budget) -> (error, details), None if the error is that of the
    choice.
    """

    draws: Callable[..., int]
    seconds: Callable[[int, int, int], float]  # rough run time for n, dim and components
    columns: Literal["any", "one", "several"] = "any"  # numbers of columns
    # whether the range comes from public rows, or else from releases that need a delta
    range_from_public: bool = False
    # whether the range may come from finite bounds in place of releases that need a delta
    range_from_bounds: bool = False
    refuses_inaccurate: bool = False  # `prepare` raises if the desired accuracy is not guaranteed
    # details for `plan` without public rows, from components and budget
    details: Callable[[int, ApproxDP], dict[str, float]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedMixture:
    """A learned mixture in the coordinates of the rows that the method read, and what is known about it."""

    at: GaussianMixture
    # SHORTLIST, or FALLBACK if a stage found nothing, from released values only
    reason: Reason | None = None
    nothing: bool = False  # whether nothing was found, and this is the public N(0, 1)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    unseen: BoolArray | None = None  # (k,): narrower than the cells of a released histogram
    low: BoolArray | None = None  # (k,): hidden by noise
    # (k,): predicted total variation errors from noise and sampling
    predicted: FloatArray | None = None
    fit: MeasuredFit | None = None
    # whether so few public rows gave the start that a component may stand for several
    may_be_merged: bool = False


def nothing_found(dim: int, facts: dict[str, Any]) -> LearnedMixture:
    """Return the public N(0, 1), which stands for a mixture that was not found."""
    at = GaussianMixture(np.ones(1), np.zeros((1, dim)), np.ones((1, dim)))
    return LearnedMixture(at=at, reason=Reason.FALLBACK, nothing=True, diagnostics=facts)


def component_reasons(
    learned: LearnedMixture,
    tied: list[float],
    steps: list[float],
    *,
    known_std: bool = False,
    asked: int | None = None,
) -> PartReasons:
    """Return the reasons of each component: TIES, the method's reason, UNRESOLVED if noise hides it, WIDE, or those of its fit.

    `asked` is the requested number of components; None if all were found.
    """
    weights = learned.at.normalized.weights
    means = learned.at.means
    stds = learned.at.stds
    if learned.nothing:
        return ((Reason.FALLBACK,),) * len(means)
    if learned.reason == Reason.FEW_PUBLIC_ROWS:
        # Equal public rows show no scale, and suggest that many private rows share their value.
        return ((Reason.FEW_PUBLIC_ROWS, Reason.TIES),) * len(means)
    # In a column with ties components represent values that many rows share: those not much wider than the step between values, or
    # all if rounding to that step does not explain the ties. For a component many steps wide, a density is an adequate model.
    atoms = np.zeros(len(weights), dtype=bool)
    for share, step, mean, std in zip(tied, steps, means.T, stds.T, strict=True):
        if share > 0.0:
            # The share of tied pairs if values are rounded to multiples of the step.
            spread = np.maximum(np.hypot(std[:, None], std), 1e-300)
            apart = np.minimum(np.abs(mean[:, None] - mean) / spread, 40.0)
            same = np.minimum(
                step * np.exp(-0.5 * apart**2) / (math.sqrt(2.0 * math.pi) * spread), 1.0
            )
            explained = float(weights @ same @ weights)
            atoms |= (std < tuning.STEPS_WIDE * step) | (
                share > tuning.MOST_UNEXPLAINED * explained
            )
    if learned.reason == Reason.FALLBACK and learned.unseen is not None:
        # Neither pairs of rows nor cells of any size showed the width of these components.
        atoms = atoms | learned.unseen
    size = np.abs(means).max(axis=0)
    narrow = np.any((stds * tuning.NARROW < stds.max(axis=0)) | (stds < ROUNDING * size), axis=1)
    if learned.unseen is not None and not known_std:
        narrow = narrow | learned.unseen
    low = np.zeros(len(means), dtype=bool) if learned.low is None else learned.low
    predicted = np.zeros(len(means)) if learned.predicted is None else learned.predicted
    reasons = first_of(
        [
            (atoms, Reason.TIES),
            (learned.reason is not None, learned.reason),
            (low, Reason.UNRESOLVED),
            (narrow, Reason.TIES),
            (predicted > MOST_OPEN, Reason.WIDE),
        ],
        len(means),
    )
    if learned.fit is None:
        return reasons
    wanted = len(means) if asked is None else asked
    merged = learned.may_be_merged
    return learned.fit.all_reasons(reasons, predicted, asked=wanted, may_be_merged=merged)
