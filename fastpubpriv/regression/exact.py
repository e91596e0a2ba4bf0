"""Least squares, or the maximum likelihood, of all private rows: one step from a start, by the radial mean of scores.

Newton steps at a third of the budget give the start. Its clipped residuals make it a robust regression, which the step corrects:
the curvature H of the private rows and the mean of their scores at the start, far rows included, give the exact coefficients, up
to noise and undetected tails. Intervals are about these, and public rows are pooled if they agree. `posterior` has the point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.distributions.norms import NormCount, Norms
from fastpubpriv.estimators.moments import (
    KURTOSIS,
    LARGEST,
    SOME_PUBLIC,
    RadialMean,
    RadialPlan,
    count_share,
    kurtosis,
)
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment
from fastpubpriv.privacy.calibration import Grid
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.concerns import (
    Concerns,
    is_drift,
    is_exact_fit,
    is_hidden,
    is_narrower,
    is_one_class,
    is_separated,
)
from fastpubpriv.regression.coordinates import Rotation, rounding_residual, variances_of
from fastpubpriv.regression.curvature import PooledMoment, pooled_curvature, released_curvature
from fastpubpriv.regression.inputs import UNIFORM_SPREAD
from fastpubpriv.regression.newton import NewtonPlan, bounded
from fastpubpriv.regression.posterior import (
    Average,
    Family,
    LossExcess,
    PublicLaws,
    Scores,
    average,
    constant_family,
    kept_share,
    public_family,
    public_point,
    shrunk,
    start_family,
)
from fastpubpriv.regression.problem import (
    Ends,
    Fitted,
    TrainingProblem,
    as_rare_as_chance_allows,
    clip_sq,
    least_loss,
    null_space,
    one_sided,
    public_laws,
    relative_noise,
    risk,
    rows_behind,
    rows_worth,
)
from fastpubpriv.regression.public_fits import (
    LogisticPosterior,
    Posterior,
    chances,
)
from fastpubpriv.release.account import Account
from fastpubpriv.results.reasons import PartReasons, Reason
from fastpubpriv.rowwise.losses import Loss, huber_threshold
from fastpubpriv.rowwise.row_maps import RowScore
from fastpubpriv.session import MethodPlan, Session
from fastpubpriv.sources import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactPlan(MethodPlan):
    """Plan of the start and of the releases after it, from public numbers."""

    start: NewtonPlan  # at the share tuning.START
    count: NormCount  # of |u|^2, before the Gram matrix
    radial: RadialPlan
    share: Fraction  # of the budget of a round for the sum of scores
    rounds: int  # rounds of curvature and scores, each at an equal cost and at the result of the previous one
    hopeless: bool  # whether noise is so large that public rows alone are as accurate
    # whether radii come from public rows, and norms are counted in the pass that they are for
    joint: bool

    @property
    def is_worth(self) -> bool:
        """Whether private rows are used: unless noise surely dominates, since predictions assume light tails."""
        return not self.hopeless


def plan_scores(
    account: Account, spending: Spending, dim: int, n: int, squares: Fraction = Fraction(0)
) -> tuple[RadialPlan, Fraction]:
    """Return the plan for scores (dim,) from the budget without start, curvature and squares, and the share of the sums."""
    whole = spending.allowance
    counted = Fraction(7, 10) * count_share(dim)
    pieces = 1 - tuning.START - tuning.GRAM - counted - squares
    radial = RadialPlan(
        dim=dim,
        n=n,
        spending=spending,
        count=whole * counted,
        pieces=whole * pieces,
        squares=whole * squares,
    )
    radial.check_grids(account)
    return radial, pieces


def _grid_of_sums(radial: RadialPlan) -> Grid:
    """Return the grid of the sums of scores."""
    return radial.spending.at(radial.pieces / 2).grid("sum", radial.dim, radial.n)


def most_steps(problem: TrainingProblem, noise: float) -> int:
    """Maximum number of steps of the start; `noise` is that on a sum of rows clipped to radius 1 for the whole allowance."""
    known = problem.posterior
    dim = problem.dim
    if problem.loss.classes and known.drawn is not None:  # the start may be far
        return 2 * tuning.MOST_STEPS
    few = len(known.labels) < max(tuning.MANY * dim, 2 * SOME_PUBLIC)
    if few or relative_noise(dim, problem.counted, noise) >= tuning.QUIET:
        return tuning.MOST_STEPS
    lengths = np.linalg.norm(known.rows, axis=1)
    if not problem.loss.classes:  # whose residuals are at most one
        lengths *= np.abs(problem.loss.residuals_of(known.rows @ known.mean, known.labels))
    return tuning.MOST_STEPS if kurtosis(lengths) > KURTOSIS / 4.0 else tuning.MOST_STEPS // 2


def count_rounds(problem: TrainingProblem, left: Spending) -> int:
    """Number of rounds of curvature and scores: two of bounded residuals, if noise is not far above sampling errors.

    One is enough from a start that is near.
    """
    dim = problem.dim
    noise = left.std("sum", dim)
    if not problem.is_bounded or starts_near(problem, noise):
        return 1
    # The average of two halves has the noise of the whole in Gaussian accounts, and twice its variance with pure epsilon.
    whole = relative_noise(dim, problem.counted, noise)
    halves = relative_noise(dim, problem.counted, left.std("sum", dim, Fraction(1, 2))) / 2.0
    quiet = whole < tuning.QUIET_ROUNDS and halves - whole < tuning.SPLIT
    return 2 if quiet else 1


def starts_near(problem: TrainingProblem, noise: float) -> bool:
    """Whether next to no noise and many public rows of classes lead steps so near that rows bend no further step."""
    relative = relative_noise(problem.dim, problem.counted, noise)
    few_steps = most_steps(problem, noise) < tuning.MOST_STEPS
    return problem.loss.classes and relative < tuning.NOISELESS and few_steps


def plan_exact(
    problem: TrainingProblem, account: Account, left: Spending, start: NewtonPlan
) -> ExactPlan:
    """Return the plan for what is `left` of an allowance."""
    dim = problem.dim
    n = problem.n_priv
    noise = left.std("sum", dim)
    relative = relative_noise(dim, problem.counted, noise)
    rounds = count_rounds(problem, left)
    of_round = left.part(Fraction(1, rounds))
    counting = of_round.part(tuning.GRAM * tuning.GRAM_COUNT)
    gram = of_round.part(tuning.GRAM * (1 - tuning.GRAM_COUNT))
    count = NormCount.costing(
        counting.allowance,
        gram.allowance,
        n,
        dim * (dim + 1) // 2,
        spending=of_round,
        noise=math.sqrt(0.5) * gram.std("moment", dim),  # of an entry off the diagonal
        squared=True,
    )
    count.check_grid()
    moments = gram.grid("moment", dim, n)
    squared_std = clip_sq(dim) * of_round.std("moment", dim, tuning.SQUARES)
    unclear = squared_std / problem.counted * math.sqrt((dim + 1) / 2.0)
    clear = of_round.counts_squares and unclear < tuning.UNCLEAR_SQUARES
    squares = tuning.SQUARES if clear else Fraction(0)
    radial, pieces = plan_scores(account, of_round, dim, n, squares)
    if clear:
        bound, _ = of_round.at(radial.squares).square_bound(_grid_of_sums(radial), dim)
        if not bound:
            radial, pieces = plan_scores(account, of_round, dim, n)
    known = problem.posterior
    row = 0.5 if isinstance(known, LogisticPosterior) else known.part * known.row_variance
    sampling = dim * row / problem.counted
    private = sampling * risk(pieces, relative)
    # Rows whose factors are bounded are no longer than some times the longest public one; see `_WIDE`.
    of_sums = of_round.at(radial.count).count_steps(_grid_of_sums(radial).event)
    of_moments = counting.count_steps(moments.event)
    joint = starts_near(problem, noise) and min(of_moments, of_sums) > tuning.FINE_COUNTS
    return ExactPlan(
        start=start,
        count=count,
        radial=radial,
        share=pieces,
        predicted=_pooled(
            start.predicted, known.excess, sampling, sampling * relative / float(pieces)
        ),
        public_excess=known.excess,
        steps=start.steps + rounds * (tuning.PASSES // 2 if joint else tuning.PASSES),
        rounds=rounds,
        joint=joint,
        hopeless=relative > tuning.HOPELESS and private > tuning.DROWNED * known.excess,
    )


def _pooled(start: float, public: float, sampling: float, noise: float) -> float:
    """Predicted error of the step from the start, of that start and of public rows together, from the errors of these.

    The `sampling` error of private rows is common to the start and the step; the step adds its `noise`, in the same unit.
    """
    of_start = 1.0 / start - 1.0 / public  # precision by private rows
    if of_start > 0.0:
        # Water-filled steps have less noise than a mean of rows clipped to one radius, as `risk` has it.
        noise_of_start = max(1.0 / of_start - sampling, np.finfo(float).tiny)
        noise = 1.0 / (1.0 / noise + 1.0 / noise_of_start)
    return 1.0 / (1.0 / (sampling + noise) + 1.0 / public)


def row_score(
    loss: Loss, slope: FloatArray, rotation: Rotation, *, curvature: bool = False
) -> RowScore:
    """Return the map of a labeled row at coefficients `slope` to minus its gradient, or a vector whose square is the curvature."""
    # Rows are whole numbers of norm at most 2^24: with such slopes products and sums are exact, in any order. The logistic loss
    # is multiplied by four, so that a curvature is at most |z|^2.
    unit = max(float(np.linalg.norm(slope)), 1.0 / LARGEST) * 2.0**-28
    times = (2.0 if curvature else 4.0) if loss.classes else 1.0
    return RowScore(
        residual=loss.residual,
        slope=np.rint(slope / unit),
        unit=unit * rotation.step,
        step=times * rotation.step,
        weighted=rotation.weighted,
        curvature=curvature,
    )


def factors(
    loss: Loss, scores: FloatArray, labels: FloatArray, *, curvature: bool = False
) -> FloatArray:
    """Return the factors (k,) of public rows in the same map, from predictions and labels."""
    residuals = loss.residuals_of(scores, labels)
    if not loss.classes:
        if not curvature:
            return residuals
        threshold = huber_threshold(loss)
        within = math.inf if threshold is None else threshold
        return np.where(np.abs(labels - scores) < within, 1.0, 0.0)
    if not curvature:
        return 4.0 * residuals
    p = chances(scores)
    # The residual of a class is its weight times the probability of the other class.
    other = np.where(labels == 1.0, 1.0 - p, p)
    weight = np.abs(residuals) / np.maximum(other, np.finfo(np.float64).tiny)
    return 2.0 * np.sqrt(np.minimum(weight, 1.0) * p * (1.0 - p))


def measure_curvature(
    run: Session,
    problem: TrainingProblem,
    plan: ExactPlan,
    public: FloatArray,
    affine: AffineMap,
    again: str = "",
) -> PooledMoment:
    """Release the curvature; `affine` maps private rows to the vectors whose squares are summed, (m, D) for public rows."""
    n = problem.counted
    query = SecondMoment(
        affine=affine, radius=problem.rotation.row_map.limit * problem.rotation.step
    )
    lengths = np.sum(public**2, axis=1)
    released = released_curvature(run, plan.count, query, lengths, n, again, wide=plan.joint)
    released = replace(
        released,
        noise=released.noise / run.account.spending.on_diagonal,
        # The sum of squares of rows has as its unit the square of a grid step.
        rounding=math.sqrt(released.unit) / UNIFORM_SPREAD,
    )
    near = public.T @ public / len(public)
    if not problem.is_bounded:
        # Whitened rows, except in directions with almost no public variation, as if all categories have a term.
        sizes, along = np.linalg.eigh(near)
        near = (along * np.where(sizes < tuning.THIN, np.maximum(sizes, 0.0), 1.0)) @ along.T
    return pooled_curvature(released, near, public, n)


def is_elsewhere(problem: TrainingProblem, moment: PooledMoment) -> bool:
    """Whether the mean of the private rows is outside the range of public ones, or they have categories that no public row has."""
    axis = problem.posterior.turn[0]
    turn = problem.posterior.turn
    share = float(axis @ moment.plain @ axis)
    if not share > tuning.SIGNIFICANT * moment.plain_noise:
        return False
    to_terms = problem.whitener.to_terms.T @ turn[1:]
    mean = problem.whitener.mean + to_terms @ (moment.plain @ axis) / share
    unsure = (tuning.SIGNIFICANT * moment.plain_noise + moment.clipped) / share
    doubt = unsure * np.sqrt(np.sum(to_terms**2, axis=1))
    public = problem.whitener.mean + problem.posterior.rows @ to_terms.T
    if np.any((mean < public.min(axis=0) - doubt) | (mean > public.max(axis=0) + doubt)):
        return True
    if problem.is_bounded:  # whose curvature is no second moment of all rows
        return False
    squares = variances_of(to_terms, moment.plain) / share
    lengths_sq = np.sum(to_terms**2, axis=1)
    variance = squares - (mean - problem.whitener.mean) ** 2 + moment.clipped / share * lengths_sq
    noise = math.sqrt(2.0) * moment.plain_noise / share * lengths_sq
    if np.any(is_narrower(variance, public.var(axis=0), noise)):
        return True
    # Rows of categories that no public row has are ignored, so that the curvature along the intercept is their complement.
    if problem.rotation.weighted or not len(problem.rotation.sums):
        return False
    doubt = tuning.SIGNIFICANT * moment.plain_noise + moment.clipped
    return share < problem.complete - tuning.UNNAMED - doubt


def shows_clipped_rows(problem: TrainingProblem, curvature: PooledMoment, norms: Norms) -> bool:
    """Whether a count of norms of scores shows rows that the grid clips; only of classes, whose errors there are one.

    Their norm is known, up to the axes of the curvature and to the errors of those on the wrong side: rows that are too few to
    stand out anywhere do so at one place.
    """
    law = norms.law
    if law is None or not problem.loss.classes:
        return False
    radius = 4.0 * problem.rotation.row_map.limit * problem.rotation.step
    values = np.linalg.eigvalsh(curvature.matrix)
    nearest = radius / math.sqrt(values[-1])
    farthest = radius / math.sqrt(values[0])
    there = law.between(tuning.WRONG * nearest, farthest)
    if not len(there):
        return False
    by_chance = special.ndtri((1.0 - tuning.ALARM) ** (1.0 / len(there)))
    return bool(there.max() > by_chance * law.std)


def concerns_of(
    problem: TrainingProblem,
    curvature: PooledMoment,
    radial: RadialMean,
    start: FloatArray,
    rounding: float,
) -> Concerns:
    """What released curvature and scores at coefficients `start` show of columns and labels."""
    known = problem.posterior
    dim = problem.dim
    eta = curvature.plain_noise
    collinear = null_space(problem).loads(curvature.plain, 2.0 * eta * math.sqrt(dim))
    concerns = Concerns(collinear=np.append(False, collinear), heavy_tail=problem.has_far_labels)
    # Squared scores have the factor w^2 of a weight, and curvatures w: they are not compared.
    if radial.reason == Reason.UNRESOLVED or problem.rotation.weighted:
        return concerns
    mean_square = radial.norms.rms**2 / dim
    if not isinstance(known, LogisticPosterior):
        return replace(concerns, exact_fit=is_exact_fit(math.sqrt(mean_square), rounding))
    # Scores have a factor of 4 and curvatures too, so that their ratio has one.
    dispersion = mean_square / (4.0 * float(np.mean(known.energy)))
    axis = curvature.power(0.5) @ known.turn[0]
    predictors = known.rows @ start
    of_class = [
        (axis, factors(problem.loss, predictors, np.full(len(predictors), label)))
        for label in (0.0, 1.0)
    ]
    far = shows_clipped_rows(problem, curvature, radial.norms)
    of_labels = concerns_of_classes(curvature, radial, dispersion, of_class)
    return replace(of_labels, collinear=concerns.collinear, heavy_tail=far)


def concerns_of_classes(
    curvature: PooledMoment,
    radial: RadialMean,
    dispersion: float,
    of_class: Sequence[tuple[FloatArray, FloatArray]],
) -> Concerns:
    """What released curvature and scores show of classes: for each one, a map (D,) of scores, and what it is if all rows had it."""
    one_class = False
    for axis, expected in of_class:
        score = float(axis @ radial.mean)
        noise = radial.noise_std * float(np.linalg.norm(axis))
        one_class = one_class or is_one_class(score, noise, expected, dispersion)
    trace_noise = math.sqrt(2.0 * radial.dim) * curvature.plain_noise
    separated = is_separated(float(np.trace(curvature.plain)), trace_noise, dispersion)
    return Concerns(one_class=one_class, separated=separated)


def shape_of_squares(radial: RadialMean) -> FloatArray:
    """The covariance of scores over that of an average coordinate, (D, D), shrunk by its noise."""
    released = radial.squares
    if released is None:
        return np.eye(radial.dim)
    dim = radial.dim
    whole = np.clip(np.nan_to_num(released.value), -LARGEST, LARGEST) / radial.n
    whole -= np.outer(radial.mean, radial.mean)
    size = float(np.trace(whole)) / dim
    noise = released.spectral_std / radial.n / math.sqrt(2.0)
    if not size > noise:
        return np.eye(dim)
    apart = whole / size - np.eye(dim)
    hidden = dim * (dim + 1) * (noise / size) ** 2 / max(float(np.sum(apart**2)), 1.0 / LARGEST)
    values, vectors = np.linalg.eigh(np.eye(dim) + max(0.0, 1.0 - hidden) * apart)
    return np.asarray((vectors * np.maximum(values, tuning.LEAST_SQUARES)) @ vectors.T)


def learn_exact(
    run: Session, problem: TrainingProblem, plan: ExactPlan, start: Fitted, rows: Rows
) -> Fitted:
    """Release curvature and scores at the start, and take the exact step; `rows` are in the problem's coordinates."""
    on_rows = run.on(rows)
    laws = public_laws(problem)
    alone: FloatArray | None = problem.posterior.mean
    if laws.own is None:
        alone = None
    elif isinstance(problem.posterior, Posterior):
        alone = least_loss(problem.posterior, math.sqrt(tuning.FLAT))

    def measure(begin: Fitted, again: str) -> ExactStep:
        return measured_step(on_rows, problem, plan, begin, laws, alone, again=again)

    _, fitted = run_rounds(plan.rounds, start, measure)
    return fitted


def run_rounds(
    rounds: int, start: Fitted, measure: Callable[[Fitted, str], ExactStep]
) -> tuple[ExactStep, Fitted]:
    """Return the last of some rounds, each of which begins at the point of the one before, and the coefficients."""
    step = measure(start, "")
    for _ in range(rounds - 1):
        step = measure(step.next_start(), ", again")
    return step, step.fitted()


def measured_step(
    on_rows: Session,
    problem: TrainingProblem,
    plan: ExactPlan,
    start: Fitted,
    laws: PublicLaws,
    alone: FloatArray | None,
    *,
    again: str = "",
) -> ExactStep:
    """Release curvature and scores of a round at its `start`; `again` ends the names of the releases."""
    known = problem.posterior
    rotation = problem.rotation
    dim = problem.dim
    at_start = partial(row_score, problem.loss, start.mean, rotation)

    def public(slope: FloatArray, *, curvature: bool = False) -> FloatArray:
        fitted = known.rows @ slope
        labels = known.labels_at(fitted)
        return known.rows * factors(problem.loss, fitted, labels, curvature=curvature)[:, None]

    bends = public(start.mean, curvature=True)
    scores = public(start.mean)
    affine = AffineMap(dim=dim, score=at_start(curvature=True))
    curvature = measure_curvature(on_rows, problem, plan, bends, affine, again)
    half = curvature.power(-0.5)
    lengths = np.linalg.norm(scores @ half, axis=1)
    wide = max(
        tuning.WIDE * float(lengths.max()), tuning.WIDE_SCORES * float(np.sqrt(np.mean(lengths**2)))
    )
    # Made-up residuals have the size of labels, whatever columns explain of these: they are no evidence of private norms.
    made_up = known.drawn is not None and not problem.loss.classes
    evidence = lengths
    if made_up:
        evidence = np.zeros(0)
    pieces = "two pieces of scores"
    if plan.radial.squares:
        pieces += " and their squares"
    radial = plan.radial.measure(
        on_rows,
        AffineMap(dim=dim, matrix=half, score=at_start()),
        evidence,
        radius=wide if plan.joint else None,
        names=(f"norms of scores{again}", pieces + again),
        counted=problem.counted,
    )
    if made_up:
        radial = replace(radial, kurtosis=kurtosis(lengths))
    rounding = rounding_residual(rotation.step, start.mean, largest_label(problem, start.mean))
    constant_square = math.inf
    if problem.loss.classes and not rotation.weighted:
        constant_square = float(np.mean(np.sum(public(laws.constant.mean) ** 2, axis=1)))
    return ExactStep(
        to_user=problem.to_user,
        offset=problem.in_units(np.zeros(dim)),
        start=start,
        public=alone,
        laws=laws,
        public_scores=public(start.mean if alone is None else alone),
        public_bends=bends,
        behind=np.append(1.0, rows_behind(problem) / len(known.labels)),
        curvature=curvature,
        half=half,
        radial=radial,
        squares=shape_of_squares(radial),
        excess_unit=problem.excess_unit,
        elsewhere=is_elsewhere(problem, curvature),
        rounding=rounding,
        concerns=concerns_of(problem, curvature, radial, start.mean, rounding),
        predictors=known.rows,
        longest=problem.longest_move,
        vanishing=problem.loss.classes,
        constant_square=constant_square,
    )


def largest_label(problem: TrainingProblem, slope: FloatArray) -> float:
    """Largest label of a public row that rounding changes and that matters: of the Huber loss, within the threshold."""
    if problem.loss.classes:
        return 0.0
    known = problem.posterior
    largest = float(np.abs(known.labels).max())
    if problem.threshold is None:
        return largest
    return min(largest, float(np.abs(known.rows @ slope).max()) + problem.threshold)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactStep:
    """The step from released numbers to coefficients and intervals; variances are per coordinate of the mean of scores."""

    to_user: FloatArray  # (q, D), with `offset`: map to the reported numbers
    offset: FloatArray  # (q,)
    start: Fitted  # where scores were measured
    # (D,), the fit of the public rows alone, which intervals pool; None if too few have labels
    public: FloatArray | None
    laws: PublicLaws  # priors of the point
    # excess of the loss for a unit of squared distance in the coordinates of scores
    excess_unit: float
    behind: FloatArray  # (q,), share of the public rows that determine each number
    # (m, D) each, of the public rows: scores at their own fit, and vectors whose squares are their curvature
    public_scores: FloatArray
    public_bends: FloatArray
    curvature: PooledMoment
    half: FloatArray  # inverse root of the curvature, which scores are multiplied by
    radial: RadialMean
    squares: FloatArray  # (D, D), covariance of scores over that of an average coordinate
    elsewhere: bool  # see `is_elsewhere`
    rounding: float  # see `rounding_residual`; at worst all of it lies along one direction
    concerns: Concerns  # reasons that do not depend on the step
    predictors: FloatArray  # (m, D), rows of the public linear predictors, which a move changes
    longest: float  # largest root mean square of these changes
    # whether scores vanish with their curvature, of which the inverse is the variance
    vanishing: bool
    # mean score of public rows at coefficients (D,), if the change of the curvature along the step is estimated
    mean_score: Callable[[FloatArray], FloatArray] | None = None
    # mean squared length of public rows' scores at a constant; infinity where it is not compared with that of private ones
    constant_square: float = math.inf

    @property
    def _rank(self) -> int:
        """Number of directions that are seen, at least one."""
        return max(self.radial.dim - len(self.curvature.flattest), 1)

    @property
    def residual_scale(self) -> float:
        """Root mean square of the residuals at the start, as the norms of scores show it."""
        return self.radial.norms.rms / math.sqrt(self.radial.dim)

    @property
    def m(self) -> int:
        """Number of public rows."""
        return len(self.public_scores)

    @property
    def _noise_sq(self) -> float:
        return self.radial.noise_std**2

    @property
    def _inverse(self) -> FloatArray:
        return np.asarray(self.half @ self.half)

    def _length_of(self, root: FloatArray) -> float:
        """Length of a symmetric matrix (D, D) times the mean of scores, without that of its noise."""
        noise = self._noise_sq * np.linalg.eigvalsh(root @ root)
        length_sq = max(float(np.sum((root @ self.radial.mean) ** 2)) - float(np.sum(noise)), 0.0)
        return math.sqrt(length_sq + math.sqrt(2.0) * float(np.linalg.norm(noise)))

    @property
    def _length(self) -> float:
        """Length of the step, without that of its noise."""
        return self._length_of(self.half)

    @property
    def _bent_sq(self) -> float:
        """Factor of the squared inverse curvature in the covariance of the step due to noise of the curvature."""
        return (self.curvature.noise * self._length) ** 2

    def _bent(self, step: FloatArray) -> FloatArray:
        """Second-order change (D,) of a step, from public rows: half is added, and `BENT_OFF` of it widens the intervals."""
        if self.mean_score is None:
            return np.zeros_like(step)
        begin = self.start.mean
        small = tuning.SLIGHT * step
        straight = (self.mean_score(begin + small) - self.mean_score(begin)) / tuning.SLIGHT
        return self.half @ (
            self.half @ (self.mean_score(begin + step) - self.mean_score(begin) - straight)
        )

    @property
    def _clipped(self) -> FloatArray:
        """Bound (q,) on the effect of the clip of the curvature on the step."""
        most = min(self.curvature.clipped * self._length / self.radial.dim, self._length)
        return np.asarray(most * np.sqrt(np.sum((self.to_user @ self._inverse) ** 2, axis=1)))

    @property
    def _rounded(self) -> FloatArray:
        """Bound (q,) on the effect of the rounding of rows in the curvature on the step."""
        # A row y with an error e adds y e' + e y' to the curvature. Between b = H^-1 q and the step s that is e' (s b'y + b s'y):
        # at worst as large as a root mean square, since few distinct rows do not average their errors.
        step = self.half @ self.radial.mean
        inverse_rows = self.to_user @ self._inverse
        row_sq = np.sum((self.to_user @ self.half) ** 2, axis=1) * self._length**2
        change = self._length_of(np.eye(self.radial.dim))  # of predictions by the step
        error_sq = np.sum(inverse_rows**2, axis=1) * change**2
        both = (inverse_rows @ step) * (self.to_user @ step)
        size_sq = row_sq + error_sq + 2.0 * np.maximum(both, 0.0)
        return np.asarray(self.curvature.rounding * np.sqrt(size_sq))

    def _far_out(self, rows: FloatArray) -> FloatArray:
        """Bound (q,) on the effect of undetected rows on maps (q, D) of the mean score, if detected norms are far out already."""
        norms = self.radial.norms
        scores = self.public_scores @ self.half
        if norms.law is None:
            return np.zeros(len(rows))
        end = (norms.law.end / max(norms.rms, 1.0 / LARGEST) - tuning.LIGHT_END) / (
            tuning.HEAVY_END - tuning.LIGHT_END
        )
        # Far rows are assumed to point like the longest scores of public rows: those of a rare category are long, and alike.
        scores /= max(float(np.abs(scores).max()), 1.0 / LARGEST)
        sizes = np.sum(scores**2, axis=1)
        alike = sizes @ (scores @ rows.T) ** 2 / max(float(np.sum(sizes**2)), 1.0 / LARGEST)
        average = np.sum(rows**2, axis=1) / self.radial.dim
        far = tuning.PULLED_ALIKE * min(max(end, 0.0), 1.0) * self.radial.far
        return np.asarray(far * np.sqrt(np.maximum(alike, average)))

    def _unseen(self, step: FloatArray, public: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Center and half-width of the range of what a `step` (D,) may lack along unseen directions, (k,) each."""
        # From its own error, limited by the step to the `public` fit, if that is trusted.
        curvature = self.curvature
        more = curvature.raised / curvature.flattest - 1.0
        taken = curvature.unseen.T @ step
        error_sq = (self._noise_sq + self.radial.sampling_std**2) / curvature.raised * more**2
        if self.vanishing:
            error_sq = np.maximum(
                error_sq, 0.5 / self.excess_unit / (self.radial.n * curvature.flattest)
            )
        doubt = tuning.NORMAL * np.sqrt(error_sq)
        low = np.minimum(taken * more, 0.0) - doubt
        high = np.maximum(taken * more, 0.0) + doubt
        if public is not None:
            off = curvature.unseen.T @ public - taken
            reach, _ = self._public_reach(curvature.unseen.T)
            low = np.minimum(np.maximum(low, off - reach), 0.0)
            high = np.maximum(np.minimum(high, off + reach), 0.0)
        return (low + high) / 2.0, (high - low) / 2.0

    def _lacks_much(self, lacks: FloatArray) -> BoolArray:
        """Whether numbers (q,) are far from the step's by what it `lacks` (k,) of classes along unseen directions."""
        # Without public labels nothing but the step itself limits this: it is a bias of every number that it shifts.
        if self.public is not None or not self.vanishing:
            return np.zeros(len(self.to_user), dtype=bool)
        shift = np.abs(self.to_user @ self.curvature.unseen) @ np.abs(lacks)
        lengths = np.linalg.norm(self.to_user @ self.half, axis=1)
        std = lengths * np.hypot(self.radial.noise_std, self.radial.sampling_std)
        return np.asarray(shift > tuning.MUCH * std)

    def _public_reach(self, rows: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Half-width of the interval of the public fit alone for linear maps (k, D), and whether its rows show no tail."""
        # The larger of two errors: with equal residual variances, and with each row's residual, which is too small for few rows.
        # The degrees of freedom follow from the effective number of rows that determine a number.
        dim = self.radial.dim
        m = self.m
        values, along = np.linalg.eigh(self.public_bends.T @ self.public_bends / m)
        least = tuning.FLATTEST * max(float(values[-1]), 1.0 / LARGEST)
        inverse = (along / np.maximum(values, least)) @ along.T
        bends, scores = (
            (each @ inverse @ rows.T) ** 2 for each in (self.public_bends, self.public_scores)
        )
        size = float(np.sum((self.public_scores @ inverse) * self.public_scores)) / (dim * m)
        even = size * np.sum((rows @ inverse) * rows, axis=1)  # large where public rows do not vary
        variance = np.maximum(np.sum(scores, axis=0) / m, even) / (m - dim)
        reach: FloatArray = special.stdtrit(
            np.clip(rows_worth(bends) - 1.0, 1.0, m - dim), 0.975
        ) * np.sqrt(variance)
        return reach, rows_worth(scores) * tuning.NORMAL_ROWS > m

    @property
    def _families(self) -> tuple[Family, ...]:
        """Priors of the point, about the start, the public rows' own fit and a constant, in the coordinates of scores."""
        root = self.curvature.power(0.5)
        begin = self.start.mean
        constant = self.laws.constant.mapped(begin, root)
        slopes = self.laws.slope_variance * self.curvature.matrix
        about_start = start_family(root @ self.start.covariance @ root, self._noise_sq)
        about_constant = constant_family(constant, slopes)
        if self.laws.own is None:
            return about_start, about_constant
        return about_start, public_family(self.laws.own.mapped(begin, root)), about_constant

    @property
    def _scores(self) -> Scores:
        """Scores at the start with their errors; half of a second-order change is added, as for the center of intervals."""
        mean = self.radial.mean
        bent = np.linalg.solve(self.half, self._bent(self.half @ mean))
        sampling_sq = self.radial.sampling_std**2
        clipped = min(self.curvature.clipped / self.radial.dim, 1.0)
        curvature_sq = self.curvature.noise**2 + clipped**2
        return Scores(
            value=mean + bent / 2.0,
            half=self.half,
            noise_sq=self._noise_sq,
            sampling_sq=sampling_sq,
            curvature_sq=curvature_sq,
        )

    def _move(self, point: Average) -> tuple[FloatArray, bool]:
        """Move (D,) from the start to the point, and whether it is cut."""
        move = self.half @ point.mean
        cut, _ = bounded(move, self.predictors, self.longest)
        return cut, not np.array_equal(cut, move)

    @property
    def _is_astray(self) -> bool:
        """Whether private scores at the start are longer than those of public rows at a constant."""
        mean_curvature = float(np.trace(self.curvature.matrix)) / self.radial.dim
        return self.radial.norms.rms**2 * mean_curvature > self.constant_square

    def _moved(self, point: Average, constant: FloatArray) -> tuple[Average, FloatArray, bool]:
        """Point that is moved to, the move (D,), and whether the move to the given one is cut.

        Where classes are predicted with certainty there is next to no curvature, and a cut move ends anywhere. If these predictions
        are wrong, worse than those of a constant, the point is that of public rows.
        """
        move, is_cut = self._move(point)
        if is_cut and self._is_astray:
            point = shrunk(point, self._public_point(constant), 0.0)
            move = self.half @ point.mean
        return point, move, is_cut

    def next_start(self) -> Fitted:
        """Start of another round: the point, with the average of its errors over the coordinates of scores."""
        families = self._families
        averaged = average(self._scores, families)
        constant = self._constant(averaged, families[-1])
        point, move, _ = self._moved(averaged, constant)
        covariance = point.error_sq / self.radial.dim * self._inverse
        return Fitted(mean=self.start.mean + move, covariance=covariance, noise=covariance)

    @property
    def _tail_sq(self) -> float:
        """Squared half of the expected part of the scores beyond their clip."""
        tail = self.radial.pulled(self.radial.outer, np.ones(self.radial.dim)) / 2.0
        return float(tail @ tail)

    def _risk(self, point: Average) -> float:
        """Expected squared distance of the best coefficients of the population from a point, within the clips."""
        return point.error_sq + self.radial.dim * self.radial.sampling_std**2

    def _shrunk(self, point: Average, constant: FloatArray) -> Average:
        """Average, shrunk to the point of public rows by the part of its error that rows beyond the clips may hide."""
        if self.vanishing:  # scores of classes are bounded: as many held-out fits are worse than a constant, shrunk or not
            return point
        clipped = self.curvature.clipped / self.radial.dim
        hidden = min(clipped / tuning.CLIPPED_SHARE, 1.0) * self._risk(point) + self._tail_sq
        apart = point.mean - constant
        share = kept_share(tuning.POINT_DOUBT * hidden, float(apart @ apart))
        return shrunk(point, self._public_point(constant), share)

    def _public_point(self, constant: FloatArray) -> FloatArray:
        """Point (D,) of public rows, between their own fit and the `constant`."""
        own = self.laws.own
        if own is not None:
            own = own.mapped(self.start.mean, self.curvature.power(0.5))
        return public_point(constant, own)

    def _excess(self, averaged: Average, point: Average, constant: FloatArray) -> LossExcess:
        """Excess of the loss over the least one, at the point, at the public fit and at the `constant`, in its coordinates."""
        risk = self._risk(averaged)
        reported = self.curvature.power(0.5) @ (self.laws.reported - self.start.mean)
        public_sq = float(np.sum((averaged.mean - reported) ** 2))
        constant_sq = float(np.sum((averaged.mean - constant) ** 2))
        unit = self.excess_unit
        heavy = self.radial.reason == Reason.HEAVY_TAIL
        return LossExcess(
            predicted=unit * (self._risk(point) + self._tail_sq) + self._bent_excess(point),
            public=unit * (public_sq + risk),
            constant=unit * max(constant_sq - risk, 0.0),
            within_clip=heavy or self.curvature.clipped > 1.0,
        )

    def _bent_excess(self, point: Average) -> float:
        """Excess that a step to the point leaves because the curvature of classes changes on the way.

        The relative change is at most that of log-odds (Bach 2010, self-concordance), whose mean square is eight times the excess
        of a step at even odds: half of that change of the step leaves twice its squared excess at most, of which half is taken.
        """
        if not self.vanishing:
            return 0.0
        step_excess = self.excess_unit * float(np.sum(point.mean**2))
        return min(step_excess, LARGEST) ** 2

    def _constant(self, point: Average, about: Family) -> FloatArray:
        """Constant (D,) that a point is compared with: that of public labels or, without them, the closest one."""
        if self.public is not None:
            return about.mean
        along = about.covariances[0]  # of rank one
        return np.asarray(about.mean + along @ (point.mean - about.mean) / np.trace(along))

    def fitted(self) -> Fitted:
        """Return the coefficients, and their intervals in the units of the table."""
        families = self._families
        averaged = average(self._scores, families)
        constant = self._constant(averaged, families[-1])
        point, move, is_cut = self._moved(self._shrunk(averaged, constant), constant)
        excess = self._excess(averaged, point, constant)
        mean = self.start.mean + move
        own = self.radial.functional(self.half)
        to_user = self.to_user @ self.half
        bent = self._bent(own.value)
        bent_user = self.to_user @ bent
        given = self.radial.functional(to_user)
        lengths = np.sqrt(np.sum(to_user**2, axis=1))
        of_rows = (
            given.tail
            + self._far_out(to_user)
            + self._clipped
            + tuning.BENT_OFF * np.abs(bent_user)
        )
        tail = of_rows + self._rounded + self.rounding * lengths
        estimated = lengths > 0.0  # all but levels that others are compared with
        mean_tail = float(np.mean(tail[estimated] / lengths[estimated]))
        public = self.start.mean if self.public is None else self.public
        apart = 0.0
        if self.public is not None:
            apart = self._disagreement(public - self.start.mean - own.value - bent / 2.0, mean_tail)
        shifted = self._is_shifted(apart)
        trusted = self.public is not None and not shifted
        lacks, lack_half = self._unseen(own.value, public - self.start.mean if trusted else None)
        hidden = self.curvature.hidden_parts(self.to_user)
        rests = (np.sum(hidden, axis=1) > tuning.MUCH) | self._lacks_much(lacks)
        along = self.to_user @ self.curvature.unseen * rests[:, None]
        middle = along @ lacks
        half = np.sqrt(along**2 @ lack_half**2)
        drift = max(apart, 1.0) if self._is_drift(apart) else 1.0
        enough = trusted and self.m >= tuning.POOLED * self.radial.dim
        worth = (
            self._public_worth(mean_tail, self._public_sq)
            if enough and apart < tuning.ALIKE
            else 0.0
        )
        exact = given.value + bent_user / 2.0
        alone = self.to_user @ public + self.offset
        begin = self.to_user @ self.start.mean + self.offset
        center = begin + exact + worth * (alone - begin - exact)
        below = (1.0 - worth) * (
            tail - np.minimum(given.extra, 0.0) + np.maximum(half - middle, 0.0)
        )
        above = (1.0 - worth) * (
            tail + np.maximum(given.extra, 0.0) + np.maximum(half + middle, 0.0)
        )
        matters = np.any(hidden > tuning.MUCH, axis=0)
        covariance = self._covariance(
            worth, float(matters @ (lacks**2 + (lack_half / tuning.NORMAL) ** 2))
        )
        std = np.sqrt(variances_of(self.to_user, covariance))
        # Relative to the private rows at hand, their sampling error enters only through the public fit.
        both = (
            worth**2 * self.radial.sampling_std**2
            - (1.0 - worth) ** 2 * self.radial.sampling_std**2
        )
        sampled = variances_of(to_user, self.squares)
        reasons = self._reasons(
            of_rows + np.abs(given.extra), std, rests, excess, shifted=shifted, is_cut=is_cut
        )
        rows_std = np.sqrt(np.maximum(std**2 + both * sampled, 0.0))
        ends = Ends(
            estimate=self.to_user @ mean + self.offset,
            center=center,
            below=below,
            above=above,
            scale=np.ones(len(std)),
            rows_std=rows_std,
            reasons=reasons,
        )
        if trusted:
            ends = self._no_wider(ends, std, alone)
        noise = (1.0 - worth) ** 2 * self._noise_sq * self._inverse
        return Fitted(
            mean=mean,
            covariance=covariance,
            noise=noise,
            drift=drift,
            ends=one_sided(ends),
            excess=excess,
            residual_scale=self.residual_scale,
        )

    def _covariance(self, worth: float, lack_sq: float) -> FloatArray:
        """Covariance (D, D) of the center of the intervals, for a weight `worth` of public rows and a squared lack of the step."""
        inverse = self._inverse
        half = self.half
        sampled = (1.0 - worth) ** 2 * self.radial.sampling_std**2 + worth**2 * self._public_sq
        noise = (
            self._noise_sq * inverse
            + (self._bent_sq + self.curvature.noise**2 * lack_sq) * inverse @ inverse
        )
        return half @ (sampled * self.squares) @ half + (1.0 - worth) ** 2 * noise

    def _no_wider(self, ends: Ends, std: FloatArray, alone: FloatArray) -> Ends:
        """Return the intervals, or those of the public fit, `alone`, if they contain the estimates and are narrower."""
        reach, light = self._public_reach(self.to_user)
        # Public rows may not show a tail that private ones have.
        light |= np.array([Reason.HEAVY_TAIL not in each for each in ends.reasons])
        own = (ends.below + ends.above) / 2.0 + tuning.NORMAL * std
        taken = light & (reach < own) & (np.abs(ends.estimate - alone) < reach)
        usual = np.maximum(tuning.NORMAL * std, 1.0 / LARGEST)
        scale = np.where(taken, np.minimum(reach / usual, 1.0), 1.0)
        rest = np.maximum(reach - tuning.NORMAL * scale * std, 0.0)
        return replace(
            ends,
            center=np.where(taken, alone, ends.center),
            scale=scale,
            rows_std=np.where(taken, std * scale, ends.rows_std),
            below=np.where(taken, rest, ends.below),
            above=np.where(taken, rest, ends.above),
        )

    def _reasons(
        self,
        tail: FloatArray,
        std: FloatArray,
        rests: BoolArray,
        excess: LossExcess,
        *,
        shifted: bool,
        is_cut: bool,
    ) -> PartReasons:
        """Reasons of each estimate: the first one that affects all intervals, else few rows or a heavy tail of its own."""
        reason = self.radial.reason
        heavy = (tail > tuning.NORMAL * std) | (reason == Reason.HEAVY_TAIL)
        heavy |= self.concerns.heavy_tail
        # Estimates that so few rows determine that rows hidden by noise in a count of norms may dominate them.
        hidden = 0.0 if self.radial.norms.law is None else self.radial.norms.law.octave_std
        behind = self.behind * as_rare_as_chance_allows(self.behind * self.m)
        few = (behind < tuning.FEW_BEHIND) & (hidden > tuning.HIDDEN * behind * self.radial.rows)
        # Along a whitened direction the average curvature is one: unseen ones are not rare if that is hidden by noise.
        if self.curvature.raised < 1.0:
            few |= rests
        if self.m < tuning.MANY * self.radial.dim:
            # Neither public nor private rows resolve these directions, which matters if the loss may be far from its least.
            unseen = len(self.curvature.flattest)
            few |= is_hidden(unseen, self.radial.dim, excess.predicted, excess.alternative)
        concerns = replace(
            self.concerns,
            unresolved=reason == Reason.UNRESOLVED,
            fallback=excess.is_fallback or is_cut,
            shifted=shifted,
            few_rows=few,
            heavy_tail=heavy,
        )
        return concerns.first(len(tail))

    @property
    def _freedom(self) -> int:
        """Degrees of freedom of the curvature of public rows."""
        return self.m - self.radial.dim + 1

    @property
    def _public_sq(self) -> float:
        """Variance of the fit of public rows alone."""
        # z' W^-1 z of D standard normal z and the moment matrix W of m normal rows is |z|^2 over a chi-squared of m - D + 1.
        return self.radial.sampling_std**2 * self.radial.n / self._freedom

    def _disagreement(self, apart: FloatArray, mean_tail: float) -> float:
        """Squared distance of the public fit from the exact coefficients, over its expectation."""
        usual = self._public_sq + self._noise_sq + self.radial.sampling_std**2 + mean_tail**2
        # Along unseen directions the step is short of the exact coefficients.
        unseen = self.curvature.unseen
        along_rows = apart - unseen @ (unseen.T @ apart)
        scaled = np.linalg.solve(self.half, along_rows)
        distance_sq = float(scaled @ scaled) / self._rank
        return min(distance_sq / max(usual, 1.0 / LARGEST), LARGEST)

    def _is_shifted(self, disagreement: float) -> bool:
        """Whether private rows are of another population than the public ones."""
        if self.elsewhere or self._is_drift(disagreement):
            return True
        # Without a public fit to disagree with, rows beyond the clip that may have all of the curvature show it.
        return self.public is None and self.curvature.clipped >= self.radial.dim

    def _is_drift(self, disagreement: float) -> bool:
        """Whether a disagreement is significant, by an F test, for public rows of the private population."""
        return is_drift(disagreement, self._rank, self._freedom)

    def _public_worth(self, mean_tail: float, public_sq: float) -> float:
        """Inverse-variance weight of the public fit beside the exact coefficients, if they agree."""
        bent_sq = self._bent_sq * float(np.trace(self._inverse)) / self.radial.dim
        own = self.radial.sampling_std**2 + self._noise_sq + bent_sq + (mean_tail / 2.0) ** 2
        return own / (own + public_sq)
