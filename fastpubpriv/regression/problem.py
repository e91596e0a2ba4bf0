"""Problem, result and record of the training methods, and estimates from public rows: label spread and bias of clipped fits.

The bias is that of a robust fit relative to least squares, if the relation is nonlinear or a column has a long tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.privacy import Budget
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression import unlabeled
from fastpubpriv.regression.concerns import Concerns, NullSpace, is_drift, is_too_few
from fastpubpriv.regression.coordinates import Rotation, Whitener, label_values, rotation_map, some
from fastpubpriv.regression.inputs import DataSpec, Importance, require_units, usable_rows
from fastpubpriv.regression.posterior import Law, LossExcess, PublicLaws, kept_share
from fastpubpriv.regression.public_fits import (
    EVEN,
    AnyPosterior,
    Bound,
    FixedClip,
    LogisticPosterior,
    Posterior,
    chances,
    constant_odds,
    huber_minimum,
    huber_posterior,
    linear_posterior,
    logistic_posterior,
    maximum_likelihood,
    robust_covariance,
    robust_mean,
)
from fastpubpriv.results.public_draws import normal_quantile
from fastpubpriv.results.reasons import PartReasons, Reason
from fastpubpriv.rowwise.losses import Loss, huber_threshold, weighted_logistic
from fastpubpriv.session import Method
from fastpubpriv.sources.column_names import NUMBER


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingMethod(Method[[Any]]):
    """A method of `train`, called with a `TrainingProblem` or, if it has `settings`, with a `GradientProblem`."""

    # `prepare(problem, account)` returns a `MethodPlan`; `learn(run, problem, plan)` a `Fitted` or, for a `GradientProblem`, a
    # `Descended`.
    # type of the settings that `method=` takes besides the name; the name stands for its defaults
    settings: type[Any] | None = None
    # the part of a budget that it can use, as a budget
    spends: Callable[[Budget], Budget] = lambda budget: budget
    # (problem, plan, account) -> noise of a step, over the bound on a row
    noise: Callable[..., float] = lambda *_: 0.0


@dataclass(frozen=True, eq=False)
class TrainingProblem:
    """A loss, the posterior of its coefficients given public rows, and the map of private rows to the same coordinates."""

    loss: Loss  # what is minimized
    whitener: Whitener  # terms to whitened coordinates
    posterior: AnyPosterior  # of the coefficients given public rows
    rotation: Rotation  # the map of a private row
    n_priv: int  # number of private rows
    # mean weight of the private rows, in units of their cap: that of public rows until it is released, or 1
    weight_share: float = 1.0
    # mean of the squared weights of the public rows over the mean of the weights, in that unit; 1 without weights
    weight_spread: float = 1.0
    tails: str = "any"  # whether residuals may have long tails
    complete: float = 1.0  # share of the public rows that are usable
    has_labels: bool = True  # whether enough public rows have labels to fit anything
    n_labeled: int = 0  # number of public rows in use that have a label
    # share of the budget for a count of |label - center|, which the unit of labels comes from; zero if that is known
    label_share: Fraction = Fraction(0)
    has_far_labels: bool = False  # see `unlabeled.LabelScale`

    @property
    def has_few_rows(self) -> bool:
        """Whether public rows are too few: to show how columns vary if few have labels, else to show residuals too."""
        known = self.posterior
        if known.drawn is None:
            return is_too_few(len(known.labels), self.dim, classes=self.loss.classes)
        # Newton steps alone keep the scale of residuals that few labels show.
        is_guessed = self.tails == "light" and self.has_labels
        return is_guessed or len(known.rows) < self.dim

    @property
    def exact(self) -> bool:
        """Whether the target is the minimum of the loss of all private rows, far ones included."""
        return self.tails == "any" and not self.has_few_rows

    @property
    def threshold(self) -> float | None:
        """Threshold of the Huber loss; None for another loss."""
        known = self.posterior
        return known.threshold if isinstance(known, Posterior) else None

    @property
    def is_bounded(self) -> bool:
        """Whether residuals are bounded, so that the curvature depends on the coefficients."""
        return self.loss.classes or self.threshold is not None

    @property
    def longest_move(self) -> float:
        """Maximum change of linear predictors by a move, as a root mean square: of log-odds, or two thresholds."""
        if not self.is_bounded:
            return math.inf
        return tuning.LONGEST_MOVE * (1.0 if self.threshold is None else self.threshold)

    @property
    def dim(self) -> int:
        """Number of coordinates, including the intercept."""
        return len(self.posterior.mean)

    @property
    def counted(self) -> float:
        """Sum of the private weights over their cap: the equivalent number of rows of the largest weight."""
        return self.n_priv * self.weight_share

    @property
    def unit(self) -> float:
        """Unit of the predicted excess: that of squared labels, or log-loss."""
        return 1.0 if self.loss.classes else self.rotation.label_scale**2

    @property
    def excess_unit(self) -> float:
        """Excess of the loss for a unit of squared distance in the coordinates of scores, see `exact.row_score`."""
        # That of the log-loss is half of it, and its scores and curvatures are multiplied by four; the squared loss has no half.
        if self.loss.classes:
            return 0.125
        return 1.0 if self.threshold is None else 0.5

    @property
    def shares(self) -> FloatArray:
        """Means (p,) of the terms over public rows, to which coefficients of levels are relative."""
        design = self.rotation.design
        return design.center + design.scale * self.whitener.mean

    @cached_property
    def to_user(self) -> FloatArray:
        """Matrix (p + 1, D) from coordinates to [intercept, coefficients of the terms], in the units of the table."""
        slopes = (self.whitener.root @ self.posterior.turn[1:]) * self.rotation.label_scale
        design = self.rotation.design
        matrix = np.empty((len(design.terms) + 1, self.dim))
        matrix[1:] = slopes / design.scale[:, None]
        moved = design.center / design.scale + self.whitener.mean
        matrix[0] = self.posterior.turn[0] * self.rotation.label_scale - moved @ slopes
        design.about_the_mean(matrix[1:], matrix[0], self.shares)
        design.from_reference(matrix[1:], matrix[0])
        return matrix

    @property
    def about_the_mean(self) -> TrainingProblem:
        """The same problem with coefficients of all levels about their mean over public rows, whatever the reference."""
        if not len(self.rotation.design.reference):
            return self
        design = replace(self.rotation.design, reference=np.zeros(0, dtype=np.int64))
        return replace(self, rotation=replace(self.rotation, design=design))

    def in_units(self, mean: FloatArray) -> FloatArray:
        """Return [intercept, coefficients] of the terms, in the units of the table, (p + 1,)."""
        coefficients = self.to_user @ mean
        coefficients[0] += self.rotation.label_center
        return coefficients

    def from_units(self, difference: FloatArray) -> FloatArray:
        """Return the least difference of coordinates (D,) that moves `in_units` by `difference` (p + 1,), or closest to it."""
        # The coefficients of all categories of a column sum to zero: the map then loses a coordinate, and has no inverse.
        size = np.maximum(np.linalg.norm(self.to_user, axis=1), np.finfo(float).tiny)
        return np.asarray(
            np.linalg.lstsq(self.to_user / size[:, None], difference / size, rcond=1e-10)[0]
        )

    def covariance_in_units(
        self, covariance: FloatArray, bias_sq: float = 0.0, bias: FloatArray | None = None
    ) -> FloatArray:
        """Covariance (p + 1, p + 1) of `in_units`, plus squared biases: `bias_sq` of the intercept, and `bias` (p + 1,)."""
        scaled: FloatArray = self.to_user @ covariance @ self.to_user.T
        scaled[0, 0] += bias_sq * self.unit
        if bias is not None:
            scaled += np.outer(bias, bias)
        # A variance of zero, of an exact fit, may be negative by rounding.
        np.fill_diagonal(scaled, np.maximum(np.diag(scaled), 0.0))
        return (scaled + scaled.T) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """Estimates of [intercept, coefficients] in the units of the table, and the parts of their intervals, (p + 1,) each."""

    estimate: FloatArray
    # an interval extends by `below` or `above` and a normal deviation from the center to each side, and to the estimate
    center: FloatArray
    below: FloatArray
    above: FloatArray
    scale: FloatArray  # factors on the standard deviations of the covariance
    rows_std: FloatArray  # standard deviations about the coefficients of the private rows at hand
    reasons: PartReasons  # (p + 1,)


def one_sided(ends: Ends) -> Ends:
    """Return the intervals, without an end on the far side of zero if classes are separated, or only one of them is seen."""
    endless = {Reason.SEPARATED, Reason.ONE_CLASS}
    open_ended = np.array([not endless.isdisjoint(each) for each in ends.reasons])
    below = np.where(open_ended & (ends.estimate < 0.0), math.inf, ends.below)
    above = np.where(open_ended & (ends.estimate >= 0.0), math.inf, ends.above)
    return replace(ends, below=below, above=above)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """Result of a method, in the coordinates of the problem."""

    mean: FloatArray  # (D,), coefficients
    covariance: FloatArray  # (D, D), of the coefficients
    noise: FloatArray  # (D, D), the part of it that is privacy noise
    bias_sq: float = 0.0  # squared bias of the clip on residuals, for skewed labels
    bias: FloatArray | None = None  # (p + 1,), see `counted_bias` and `shrinkage_bias`
    drift: float = 1.0  # see `TrainingResult.public_drift`
    is_cut: bool = False  # of steps alone: see `NewtonState.note_move`
    is_shifted: bool = (
        False  # of steps alone: whether public rows are of another population, see `is_drift`
    )
    ends: Ends | None = None  # of exact coefficients, see `exact`
    # root mean square of private residuals at the start, where made-up labels do not show it
    residual_scale: float | None = None
    excess: LossExcess | None = None  # of the loss, as released scores show it


def make_problem(
    loss: Loss, table: FloatArray, names: Sequence[str], n_priv: int, stated: DataSpec
) -> tuple[TrainingProblem, int]:
    """Return the problem of public rows (m, dim + 1), the label last, and the number of usable rows."""
    given = stated.row_weights(len(table), n_priv)
    table, given = _in_order(table, given)
    share = 1.0
    spread = 1.0
    if given is not None and stated.weight_cap is not None:
        share = float(given.mean())
        spread = float(given @ given) / float(given.sum())
    if given is not None:
        table = table[given > 0.0]
        given = given[given > 0.0]
    design, usable, pair = usable_rows(table, names, stated, loss)
    assert design is not None
    used = table[usable]
    counted = None if given is None else given[usable]
    labeled = used[np.isfinite(used[:, -1])]
    has_labels = len(labeled) >= min(tuning.FEWEST_PUBLIC, len(used))
    center = resolution = 0.0
    scale = 1.0
    label_share = Fraction(0)
    if has_labels and not loss.classes:
        center, scale, resolution = stated.label_unit(labeled[:, -1])
    elif not loss.classes:
        center, known_scale = stated.stated_label_unit()
        label_share = tuning.LABEL_COUNT if known_scale is None else Fraction(0)
        scale = known_scale or 1.0
    require_units(design, scale)
    terms = design.standardize(used[:, :-1])
    weights = design.leverage_weights(terms)
    sums = design.constant_sums(terms)
    whitener = Whitener.of(
        terms, weights if counted is None else weights * counted / counted.mean(), sums
    )
    class_weights = np.ones(2)
    if pair is not None:
        part = None if counted is None else counted[np.isfinite(used[:, -1])]
        class_weights = stated.class_weights(pair, labeled[:, -1], part)
        first, second = class_weights.tolist()
        loss = loss if first == second else weighted_logistic(first, second)
    labels = label_values(used[:, -1], center, scale, pair)
    unequal = stated.weight_cap is not None
    public = PublicRows(
        whitener=whitener,
        terms=terms,
        labels=labels,
        weights=weights,
        counted=counted,
        unequal=unequal,
        class_weights=class_weights,
    )
    posterior = public.posterior(loss, resolution, has_labels=has_labels)
    every = np.vstack([posterior.rows, whitener(terms[np.isnan(labels)])])
    longest = float(np.sqrt(np.max(np.sum(every**2, axis=1))))
    radius = tuning.FAR_ROWS * longest + np.sqrt(whitener.root.shape[1])
    matrix = posterior.turn[1:].T @ whitener.root.T
    row_map, step = rotation_map(matrix, whitener.mean, posterior.turn[0], radius)
    rotation = Rotation(
        design=design,
        row_map=row_map,
        step=step,
        label_center=center,
        label_scale=scale,
        classes=pair,
        weight_cap=stated.weight_cap,
        sums=sums,
    )
    complete = len(used) / len(table)
    made = TrainingProblem(
        loss, whitener, posterior, rotation, n_priv, share, spread, stated.tails, complete
    )
    made = replace(made, has_labels=has_labels, n_labeled=len(labeled), label_share=label_share)
    return made, len(used)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicRows:
    """Usable public rows in standard units, M of them, of which m have labels."""

    whitener: Whitener
    terms: FloatArray  # (M, p)
    labels: FloatArray  # (M,), in the unit of the fit; NaN where they are not known
    weights: FloatArray  # (M,), for their leverage
    counted: FloatArray | None  # (M,), for how much each counts
    unequal: bool  # whether private rows have weights too
    class_weights: FloatArray  # (2,)

    def posterior(self, loss: Loss, resolution: float, *, has_labels: bool) -> AnyPosterior:
        """Return the posterior of the labeled rows, on all rows with made-up labels if these are too few."""
        labeled = np.isfinite(self.labels)
        dim = self.whitener.root.shape[1] + 1
        m = int(labeled.sum())
        counted = None if self.counted is None else self.counted[labeled]
        importance = EVEN
        if has_labels:
            known, importance = self._fitted(loss, resolution, labeled, counted)
        elif loss.classes:
            known = unlabeled.prior_of_classes(dim, self.class_weights)
        else:
            known = unlabeled.prior(dim, huber_threshold(loss))
        if m < len(labeled) and is_too_few(m, dim, classes=loss.classes):
            counted = self.counted
            importance = EVEN if counted is None else Importance.of(counted)
            known = self._on_all(known, importance)
        if counted is None or not self.unequal:
            return known
        return _of_unequal_rows(known, counted[importance.sample])

    def _fitted(
        self, loss: Loss, resolution: float, labeled: BoolArray, counted: FloatArray | None
    ) -> tuple[AnyPosterior, Importance]:
        """Return the posterior of the `labeled` rows (M,), and their importance."""
        terms = self.terms if labeled.all() else self.terms[labeled]  # in the same layout
        labels = self.labels[labeled]
        factors = None
        if np.ptp(self.class_weights) > 0.0:
            factors = self.class_weights[labels.astype(np.intp)]
        importance = EVEN
        if counted is not None or factors is not None:
            importance = Importance.of(
                np.ones(len(labels)) if counted is None else counted, factors
            )
        rows = (terms, labels, self.weights[labeled], self.whitener)
        if loss.classes:
            return logistic_posterior(*rows, importance=importance, factors=factors), importance
        threshold = huber_threshold(loss)
        given: dict[str, Any] = {"label_resolution": resolution, "importance": importance}
        if threshold is None:
            return linear_posterior(*rows, **given), importance
        return huber_posterior(*rows, threshold=threshold, **given), importance

    def _on_all(self, known: AnyPosterior, importance: Importance) -> AnyPosterior:
        """Return a posterior on all rows, with made-up labels."""
        rows = self.whitener(self.terms)[importance.sample] @ known.turn
        weights = self.weights[importance.sample]
        if isinstance(known, LogisticPosterior):
            return unlabeled.on_all_rows_of_classes(known, rows, weights, self.class_weights)
        return unlabeled.on_all_rows(known, rows, weights, self.whitener.confirmed)


def _in_order(
    table: FloatArray, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray | None]:
    """Sorted rows (m, width) and their weights: folds and subsamples do not depend on the order in which rows are given."""
    keys = table.T[::-1]
    if weights is None:
        return table[np.lexsort(keys)], None
    order = np.lexsort(
        [*keys, -weights]
    )  # the heaviest first, so that light ones move none of these
    return table[order], weights[order]


def _of_unequal_rows(posterior: AnyPosterior, heavy: FloatArray) -> AnyPosterior:
    """Return the posterior for private rows with weights like `heavy` (k,), at most 1: sampling errors have w^2 r^2 for w r^2."""
    if isinstance(posterior, LogisticPosterior):
        missed = posterior.factors * (posterior.labels - chances(posterior.rows @ posterior.mean))
        return replace(posterior, energy=posterior.energy * _weight_of(missed, heavy))
    usual = posterior.residuals * np.sqrt(posterior.weights) / posterior.scale
    clips = [
        replace(c, counts=heavy)
        if isinstance(c, FixedClip)
        else replace(
            c.at(1.0),
            energy=c.at(1.0).energy
            * _weight_of(np.clip(usual, -c.at(1.0).bound, c.at(1.0).bound), heavy),
        )
        for c in posterior.clips
    ]
    return replace(posterior, clips=tuple(clips))


def _weight_of(residuals: FloatArray, heavy: FloatArray) -> float:
    squares = residuals**2
    # Both sums by one routine, so that rows of equal weight give exactly 1: a product of BLAS adds in another order.
    return float((heavy * squares).sum()) / max(float(squares.sum()), 1e-300)


def rows_worth(squares: FloatArray) -> FloatArray:
    """Return the effective number (k,) of rows with squared influences (m, k)."""
    squares = squares / np.maximum(squares.max(axis=0), np.finfo(float).tiny)
    return np.asarray(np.sum(squares, axis=0) ** 2 / np.maximum(np.sum(squares**2, axis=0), 1e-300))


def clip_sq(dim: int) -> float:
    """Squared radius that rows of unit variance in each coordinate are predicted to be clipped to: four root mean squares."""
    return 16.0 * dim


def relative_noise(dim: int, n: float, std: float) -> float:
    """Noise variance of a mean of n such rows over that of sampling; `std` is the noise of a sum clipped to radius 1."""
    return clip_sq(dim) * std**2 / n


def risk(pieces: Fraction, relative: float) -> float:
    """Predicted squared error over that of sampling; `relative` is the noise variance at the whole budget over sampling's."""
    return 1.0 + 1.0 / (float(pieces) / relative + float(tuning.START) / (0.5 * relative))


def as_rare_as_chance_allows(rows: FloatArray) -> FloatArray:
    """Return the lower end of an interval of 95 % for the expected number of rows, over the numbers `rows` that were counted."""
    rows = np.maximum(rows, 1.0)
    return np.asarray(special.gammaincinv(rows, 0.025) / rows)


def rows_behind(problem: TrainingProblem) -> FloatArray:
    """Effective number of public rows that determine the least-squares coefficient of each term, (terms,)."""
    # By squared influence: m / 3 for normal columns, a handful for hourly rainfall.
    known = problem.posterior
    influence = (some(known.rows) * known.variance) @ problem.to_user[1:].T
    return len(known.rows) / len(influence) * rows_worth(influence**2)


def rests_on_few(problem: TrainingProblem) -> BoolArray:
    """Whether few public rows determine the coefficient of a term, (terms,); False for terms that are not numbers."""
    enough = min(tuning.ROWS_BEHIND, tuning.FEW_BEHIND * len(problem.posterior.rows))
    return np.asarray((rows_behind(problem) < enough) & (problem.rotation.design.role == NUMBER))


def null_space(problem: TrainingProblem) -> NullSpace:
    """Directions in which the terms of the public rows do not vary."""
    to_terms = problem.whitener.to_terms.T @ problem.posterior.turn[1:]
    terms = problem.posterior.rows @ to_terms.T
    return NullSpace.of(terms - terms.mean(axis=0), problem.rotation.sums, to_terms)


def concerns_of_columns(problem: TrainingProblem) -> Concerns:
    """What public rows show of columns, for a fit without a curvature of the private rows."""
    return Concerns(
        collinear=np.append(False, null_space(problem).loads()),
        few_rows=np.append(False, rests_on_few(problem)),
    )


def counted_bias(problem: TrainingProblem, bound: Bound, lever: FloatArray) -> FloatArray:
    """Return the bias of [intercept, coefficients] for intervals, in the units of the table, (terms + 1,)."""
    # One step from the public fit by the robust equation, in which typical rows have factors `lever` (k,), minus that by the
    # target's equation, if beyond two standard errors; for a coefficient that few rows determine, with the standard error.
    known = problem.posterior
    assert isinstance(known, Posterior)
    rows = some(known.rows)
    residuals = some(known.residuals) / known.scale
    m, dim = rows.shape
    if m < 2 * dim:
        return np.zeros(len(problem.to_user))
    clip = bound.at(known.scale)
    clipped = np.clip(residuals, -clip.bound, clip.bound)
    aimed = residuals if known.threshold is None else clipped
    lever = lever * np.sqrt(some(known.weights))
    robust = (rows.T * (lever * (clipped == residuals))) @ rows
    plain = (rows.T * (aimed == residuals)) @ rows
    # A small threshold leaves next to no residual inside it.
    shape = max(float(np.trace(plain)), tuning.LEAST_INSIDE * float(np.sum(rows**2)))
    ridge = 1e-6 * shape / dim * np.eye(dim)
    step = np.linalg.solve(robust + ridge, rows.T * (lever * clipped))
    step -= np.linalg.solve(plain + ridge, rows.T * aimed)
    each = problem.to_user @ step * known.scale
    bias = each.sum(axis=1)
    error = np.sqrt(m) * each.std(axis=1)
    # A standard error from few rows is uncertain itself, hence Student's quantile.
    behind = np.maximum(np.append(m, rows_behind(problem)), tuning.LEAST_BEHIND)
    doubt = error * special.stdtrit(behind - 1.0, 0.975) / normal_quantile(0.975)
    few = np.append(False, rests_on_few(problem))
    significant = np.abs(bias) > tuning.SIGNIFICANT_BIAS * error
    return np.where(few, np.copysign(np.hypot(bias, doubt), bias), np.where(significant, bias, 0.0))


def linearized(known: AnyPosterior, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (m, D) and residuals (m,) of the least squares that the loss of the public rows is near coefficients `at`."""
    rows = known.rows
    off = known.labels - known.rows @ at
    if isinstance(known, LogisticPosterior):
        p = chances(rows @ at)
        bends = np.sqrt(np.maximum(known.factors * p * (1.0 - p), 1e-12))
        return rows * bends[:, None], known.factors * (known.labels - p) / bends
    if known.threshold is not None:
        clipped = np.clip(off, -known.threshold, known.threshold)
        off = clipped / max(float(np.mean(clipped == off)), tuning.LEAST_INSIDE)
    return rows, off


def least_loss(known: Posterior, rcond: float) -> FloatArray:
    """Coefficients (D,) of least squared or Huber loss of the public rows; singular values below `rcond` are taken for zero."""
    if known.threshold is not None:
        return huber_minimum(known.rows, known.labels, known.threshold)
    return np.asarray(np.linalg.lstsq(known.rows, known.labels, rcond=rcond)[0])


def own_fit(problem: TrainingProblem) -> tuple[FloatArray, FloatArray]:
    """Coefficients (D,) of the public rows that minimize the loss, with Jeffreys' prior of classes, and their covariance (D, D)."""
    known = problem.posterior
    if isinstance(known, LogisticPosterior):
        exact = maximum_likelihood(known.rows, known.labels, known.factors)
    else:
        exact = least_loss(known, 1e-10)
    return exact, robust_covariance(*linearized(known, exact))


def public_laws(problem: TrainingProblem) -> PublicLaws:
    """What public rows say: their own fit, which is that of `posterior` if they are next to none, and a constant."""
    known = problem.posterior
    dim = problem.dim
    if known.drawn is not None:
        axis = known.turn[0]
        along = np.outer(axis, axis)
        # Over that of even classes, the curvature is an inverse variance.
        variance = 4.0 if problem.loss.classes else 1.0
        constant = Law(mean=along @ known.mean, covariance=along @ known.covariance @ along)
        return PublicLaws(
            own=None, reported=known.mean, constant=constant, slope_variance=variance / dim
        )
    own = Law(mean=known.mean, covariance=known.covariance)
    if len(known.labels) > dim + 2:
        mean, covariance = own_fit(problem)
        own = Law(mean=mean, covariance=covariance)
    middle = float(np.mean(known.labels))
    variance = float(np.var(known.labels))
    if isinstance(known, LogisticPosterior):
        middle, variance = constant_odds(known)
    elif known.threshold is not None:
        middle, variance = robust_mean(known.labels, known.threshold)
    axis = known.turn[0]
    constant = Law(
        mean=middle * axis, covariance=variance / len(known.labels) * np.outer(axis, axis)
    )
    return PublicLaws(
        own=own, reported=known.mean, constant=constant, slope_variance=variance / dim
    )


def is_shifted(problem: TrainingProblem, mean: FloatArray, variance: FloatArray) -> bool:
    """Whether coefficients (D,) that steps measure, with variances (D,), are far from the public rows' own fit."""
    known = problem.posterior
    if known.drawn is not None or problem.has_few_rows:
        return False
    own, covariance = own_fit(problem)
    apart_sq = (mean - own) ** 2 / (variance + np.diag(covariance))
    return is_drift(float(apart_sq.mean()), problem.dim, len(known.labels) - problem.dim + 1)


def shrunk_steps(problem: TrainingProblem, fitted: Fitted) -> Fitted:
    """Fit of classes by steps from few public rows, shrunk to a constant by its variance; a move is a bias."""
    constant = public_laws(problem).constant.mean
    curvature = problem.posterior.curvature_at(fitted.mean)
    apart = fitted.mean - constant
    doubt_sq = float(curvature @ np.diag(fitted.covariance))
    share = kept_share(tuning.POINT_DOUBT * doubt_sq, float(curvature @ apart**2))
    move = (share - 1.0) * apart
    bias = problem.to_user @ move
    if fitted.bias is not None:
        bias = np.copysign(np.hypot(bias, fitted.bias), bias)
    return replace(fitted, mean=fitted.mean + move, bias=bias)


def shrinkage_bias(problem: TrainingProblem, covariance: FloatArray) -> FloatArray:
    """Return the bias of [intercept, coefficients] by the prior of the public rows, in the units of the table, (terms + 1,)."""
    # One prior for all coordinates shrinks a strong one as much as the many weak ones it was chosen for.
    known = problem.posterior
    if known.drawn is not None or len(known.rows) < 2 * problem.dim:
        return np.zeros(len(problem.to_user))
    left = np.linalg.lstsq(*linearized(known, known.mean), rcond=1e-10)[0]
    bias: FloatArray = problem.to_user @ (covariance @ (left / known.variance))
    return bias


def shrinkage_error(problem: TrainingProblem, covariance: FloatArray) -> FloatArray:
    """Return the covariance (D, D) of what the prior of public classes takes from coefficients, see `shrinkage_bias`.

    A prior of precision R moves coefficients b by -V R b, with the covariance V of the fit. Without the prior b is known by the
    public rows' own fit and by what private rows add to the precision of the public law.
    """
    known = problem.posterior
    if not isinstance(known, LogisticPosterior) or known.drawn is not None or problem.has_few_rows:
        return np.zeros_like(covariance)
    values, along = np.linalg.eigh(np.linalg.inv(covariance) - np.diag(1.0 / known.variance))
    private = (along * np.maximum(values, 0.0)) @ along.T
    own = np.linalg.inv(robust_covariance(*linearized(known, known.mean)))
    taken = covariance @ known.ridge
    return np.asarray(taken @ np.linalg.solve(own + private, taken.T))


def label_quantiles(problem: TrainingProblem, fitted: Fitted) -> FloatArray:
    """Quantiles at 1 / (k + 1), ..., k / (k + 1) of standardized residuals of public labels, (k,), ascending."""
    # Leave-one-out residuals over the standard deviation of a prediction; a row's leverage is that in the public fit, times the
    # share of the variance along it that private rows leave. Labels that are all equal, and classes, have none.
    known = problem.posterior
    if not isinstance(known, Posterior) or known.blank:
        return np.zeros(0)
    rows = some(known.rows)
    along = np.einsum("ij,ij->i", rows @ fitted.covariance, rows)
    alone = rows**2 @ known.variance
    # Noise can make predictions less certain than those of the public fit, but it enlarges no leverage.
    along = np.minimum(along, alone)
    part = np.minimum(some(known.leverage) * along / alone, tuning.MOST_LEVERAGE)
    off = some(known.labels) - rows @ fitted.mean
    most = math.inf if known.threshold is None else known.threshold
    off = off + part / (1.0 - part) * np.clip(off, -most, most)
    variance = known.unexplained + along / (1.0 - part) + fitted.bias_sq
    if fitted.bias is not None and fitted.bias.any():
        # The bias is in the units of the table; a common part of a column's categories is in the intercept.
        variance += (rows @ problem.from_units(fitted.bias)) ** 2
    off /= np.sqrt(variance)
    if len(off) <= tuning.MOST_QUANTILES:
        return np.sort(off)
    levels = np.arange(1, tuning.MOST_QUANTILES + 1) / (tuning.MOST_QUANTILES + 1)
    return np.asarray(np.quantile(off, levels, method="weibull"))
