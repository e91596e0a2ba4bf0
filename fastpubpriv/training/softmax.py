"""Softmax regression: the maximum likelihood of all private rows, by the step of `exact` from a start by Newton steps.

Predictions of K classes are determined up to a common shift: coefficients of a row u are (K - 1, D) along contrasts of the classes,
such that the mean second derivative of public rows is about the identity. The score of a row is the outer product of the contrasts
of its residuals, label minus probability, with u; its second derivative is that of the contrasts of diag(p) - p p^T with u u^T.
Each is one vector per row, clipped to a ball, so that all classes and columns share one budget. An upper bound on the second
derivative, such as Boehning's, would make steps too short to reach the maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import linalg, special

from fastpubpriv._types import FloatArray
from fastpubpriv.distributions.norms import DRAWS, NormCount
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.moments import LARGEST, RadialMean, RadialPlan, unpacked
from fastpubpriv.gradient.gradient_problem import (
    Descended,
    GradientProblem,
    PreparedDescent,
)
from fastpubpriv.mechanisms.group_covariances import total_times
from fastpubpriv.mechanisms.sums import AffineMap, VectorSum
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.concerns import Concerns
from fastpubpriv.regression.coordinates import (
    Rotation,
    Whitener,
    mapped_rows,
    rotation_map,
    rounding_residual,
    variances_of,
)
from fastpubpriv.regression.curvature import PooledMoment, pooled_curvature, released_curvature
from fastpubpriv.regression.exact import (
    ExactStep,
    concerns_of_classes,
    plan_scores,
    run_rounds,
)
from fastpubpriv.regression.newton import bounded
from fastpubpriv.regression.posterior import Law, PublicLaws
from fastpubpriv.regression.problem import Fitted, relative_noise, risk, rows_worth
from fastpubpriv.release.account import Account
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows
from fastpubpriv.sources.row_types import Chunk
from fastpubpriv.sources.views import each_row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowOfClasses:
    """The public map of a labeled row to its score or second derivative; zero for a row without a known class."""

    # Sums are taken in a fixed order, so that a row is mapped to the same bits in any chunk.
    contrasts: FloatArray
    slope: FloatArray  # (K - 1, D), coefficients; a score has (K - 1) D entries
    step: float
    # whether to map to second derivatives, packed along classes and columns, with the matrix's Frobenius norm
    curvature: bool = False

    @property
    def width(self) -> int:
        """Width of an output row."""
        free, dim = self.slope.shape
        return int(free * (free + 1) // 2 * dim * (dim + 1) // 2 if self.curvature else free * dim)

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, D + 1) as (k, width) float64."""
        free, dim = self.slope.shape
        with np.errstate(all="ignore"):
            u = np.ascontiguousarray(chunk[:, :dim].T, dtype=np.float64) * self.step
            scores = np.array([total_times(u, each * 1.0) for each in self.contrasts @ self.slope])
            grown = np.exp(scores - scores.max(axis=0))
            chance = np.asarray(grown / total_times(grown, np.ones(len(grown))))
            label = chunk[:, dim]
            known = np.isin(label, np.arange(len(chance)))
            out = np.empty((self.width, len(chunk)))
            if self.curvature:
                root = math.sqrt(2.0)
                means = [total_times(chance, along) for along in self.contrasts.T]
                squares = np.array(
                    [
                        u[j] * u[k] * (1.0 if j == k else root)
                        for j, k in zip(*np.triu_indices(dim), strict=True)
                    ]
                )
                blocks = out.reshape(free * (free + 1) // 2, len(squares), -1)
                for block, a, b in zip(blocks, *np.triu_indices(len(means)), strict=True):
                    both = (
                        total_times(chance, self.contrasts[:, a] * self.contrasts[:, b])
                        - means[a] * means[b]
                    )
                    np.multiply(squares, both * (1.0 if a == b else root), out=block)
            else:
                missed = (label == np.arange(len(chance))[:, None]) - chance
                for block, along in zip(out.reshape(free, dim, -1), self.contrasts.T, strict=True):
                    np.multiply(u, total_times(missed, along), out=block)
            values: Chunk = np.where(known & np.isfinite(out).all(axis=0), out, 0.0).T
        return np.ascontiguousarray(values)

    def matrix(self, vector: FloatArray) -> FloatArray:
        """Return the matrix ((K - 1) D, (K - 1) D) of a packed second derivative."""
        free, dim = self.slope.shape
        blocks = np.empty((free, dim, free, dim))
        for row, a, b in zip(
            vector.reshape(-1, dim * (dim + 1) // 2), *np.triu_indices(free), strict=True
        ):
            blocks[a, :, b] = blocks[b, :, a] = unpacked(row, dim) * (
                1.0 if a == b else math.sqrt(0.5)
            )
        return blocks.reshape(free * dim, free * dim)


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftmaxProblem:
    """Public rows in whitened coordinates, and the map of private rows to these."""

    problem: GradientProblem

    @cached_property
    def whitener(self) -> Whitener:
        """The whitener of the public terms."""
        design = self.problem.units.design
        assert design is not None
        terms = self.problem.x[:, 1:]
        return Whitener.of(terms, design.leverage_weights(terms), self.sums)

    @cached_property
    def sums(self) -> FloatArray:
        """Sums (k, p) of terms that are constant in public rows."""
        design = self.problem.units.design
        assert design is not None
        return design.constant_sums(self.problem.x[:, 1:])

    @property
    def dim(self) -> int:
        """Number of coordinates of a row, with the intercept."""
        return len(self.whitener.ridge_of_terms) + 1

    @cached_property
    def rows(self) -> Rotation:
        """The map of private rows to whitened coordinates."""
        u = self.whitener(self.problem.x[:, 1:])
        units = self.problem.units
        assert units.design is not None
        longest = float(np.sqrt(np.max(np.sum(u**2, axis=1))))
        dim = self.dim
        radius = tuning.FAR_ROWS * longest + math.sqrt(dim)
        mean = self.whitener.mean
        matrix = np.vstack([np.zeros(len(mean)), self.whitener.root.T])
        row_map, step = rotation_map(matrix, mean, np.eye(dim)[0], radius)
        return Rotation(
            design=units.design,
            row_map=row_map,
            step=step,
            classes=units.classes,
            sums=self.sums,
        )

    @cached_property
    def public(self) -> FloatArray:
        """Public rows, mapped like private ones, (m, D + 1)."""
        return np.column_stack(
            [self.whitener(self.problem.x[:, 1:]) / self.rows.step, self.problem.y]
        )

    @cached_property
    def _to_fit(self) -> FloatArray:
        """Matrix (D, width) by which coefficients are multiplied for those in the units of the fit."""
        white = self.whitener
        matrix = np.eye(self.dim, len(white.mean) + 1)
        matrix[1:, 1:] = white.root.T
        matrix[1:, 0] = -white.root.T @ white.mean
        return matrix

    @property
    def _from_fit(self) -> FloatArray:
        """Matrix (width, D) by which weights in the units of the fit are multiplied for coefficients of the same predictions."""
        white = self.whitener
        matrix = np.eye(len(white.mean) + 1, self.dim)
        matrix[1:, 1:] = white.to_terms.T
        matrix[1:, 0] = white.mean
        return matrix

    @cached_property
    def contrasts(self) -> FloatArray:
        """Columns (K, K - 1) that sum to zero, along which the mean class curvature of public rows is about the identity."""
        # orthonormal columns, each of which sums to zero
        plain = linalg.helmert(self.problem.outputs).T
        scores = self.problem.x @ self.problem.public.weights.T
        chance = special.softmax(scores, axis=1)
        spread = plain.T @ (np.diag(chance.mean(axis=0)) - chance.T @ chance / len(chance)) @ plain
        values, along = np.linalg.eigh(spread)
        return np.asarray(
            plain @ (along / np.sqrt(np.maximum(values, 1.0 / len(chance)))) @ along.T
        )

    @cached_property
    def start(self) -> FloatArray:
        """The public fit, (K - 1, D)."""
        alone = self.problem.public.weights
        return np.linalg.pinv(self.contrasts) @ alone @ self._from_fit

    @cached_property
    def laws(self) -> PublicLaws:
        """What public rows say: their fit, and the log-odds of their classes."""
        start = self.start
        bend = self.at(start, curvature=True)
        curvature = bend.matrix(bend(self.public).mean(axis=0))
        values, along = np.linalg.eigh(curvature)
        variances = 1.0 / np.maximum(values, tuning.LEAST_CURVATURE) / len(self.public)
        own = Law(mean=start.ravel(), covariance=(along * variances) @ along.T)
        # Half a row of each class is added, so that odds are finite.
        counts = np.bincount(self.public[:, -1].astype(int), minlength=len(self.contrasts)) + 0.5
        share = counts / counts.sum()
        of_classes = np.diag(share) - np.outer(share, share)
        spread = np.linalg.inv(self.contrasts.T @ of_classes @ self.contrasts)
        odds = np.zeros_like(start)
        odds[:, 0] = np.linalg.pinv(self.contrasts) @ np.log(share)
        axis = np.eye(start.shape[1])[:1]  # of intercepts
        covariance = np.kron(spread, axis.T @ axis) / len(self.public)
        constant = Law(mean=odds.ravel(), covariance=covariance)
        slopes = float(np.trace(spread)) / start.size
        return PublicLaws(own=own, reported=own.mean, constant=constant, slope_variance=slopes)

    def in_fit(self, slope: FloatArray) -> FloatArray:
        """Convert coefficients (K - 1, D) to weights (K, width) in the units of the fit."""
        return self.contrasts @ slope @ self._to_fit

    @cached_property
    def to_user(self) -> FloatArray:
        """Matrix (K (p + 1), (K - 1) D) from coefficients to [intercept, slopes] of each class in the units of the table."""
        shape = self.start.shape
        columns = []
        for unit in np.eye(shape[0] * shape[1]):
            slopes, intercepts = self.problem.units.in_units(self.in_fit(unit.reshape(shape)))
            columns.append(np.column_stack([intercepts, slopes]).ravel())
        return np.array(columns).T

    @cached_property
    def predictors(self) -> FloatArray:
        """Map (K m, (K - 1) D) from coefficients to the log-odds of public rows."""
        return np.asarray(np.kron(self.contrasts, self.public[:, :-1] * self.rows.step), float)

    def at(self, slope: FloatArray, *, curvature: bool = False) -> RowOfClasses:
        """Return the map of rows to scores, or to second derivatives, at coefficients `slope`."""
        return RowOfClasses(
            contrasts=self.contrasts, slope=slope, step=self.rows.step, curvature=curvature
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftmaxPlan:
    """Plan of the releases, from public numbers."""

    known: SoftmaxProblem
    step: Fraction  # cost of each step of the start
    count: NormCount  # count of norms of second derivatives
    radial: RadialPlan
    share: Fraction  # share of the budget for the sums of scores
    rounds: int  # rounds of curvature and sums of scores, each at the result of the previous one


def knows(problem: GradientProblem) -> bool:
    """Whether public rows are enough, and coefficients few enough, for exact coefficients."""
    if problem.units.design is None:
        return False
    free, _ = _widths(problem)
    return free <= tuning.MOST_COEFFICIENTS and len(problem.y) >= tuning.FEW_OF_CLASSES * free


def _widths(problem: GradientProblem) -> tuple[int, int]:
    """Return the widths of a score and of a packed second derivative."""
    free = problem.outputs - 1
    dim = SoftmaxProblem(problem=problem).dim
    return free * dim, free * (free + 1) // 2 * dim * (dim + 1) // 2


def draws(problem: GradientProblem) -> int:
    """Upper bound on the number of noise draws."""
    dim, bent = _widths(problem)
    return tuning.SOFTMAX_STEPS * dim + 2 * (2 * dim + bent + 2 * DRAWS)


def prepare(problem: GradientProblem, account: Account) -> PreparedDescent:
    """Return the plan. Raise, before the debit, if the problem has too few public rows or too many coefficients."""
    n = problem.n_priv
    if not knows(problem):
        raise InputError(
            f"method='newton' for the softmax loss takes up to {tuning.MOST_COEFFICIENTS} coefficients, those of all classes but "
            f"one, and {tuning.FEW_OF_CLASSES} public rows for each: pass a gradient method, or more public rows"
        )
    dim, bent = _widths(problem)
    whole = account.spending
    relative = relative_noise(dim, n, whole.std("sum", dim))
    rounds = 2 if relative < tuning.QUIET_ROUNDS else 1
    step = whole.part(tuning.START / tuning.SOFTMAX_STEPS)
    step.grid("sum", dim, n)  # InputError if there is none
    of_round = whole.part(Fraction(1, rounds))
    gram = of_round.part(tuning.GRAM * (1 - tuning.GRAM_COUNT))
    of_count = of_round.part(tuning.GRAM * tuning.GRAM_COUNT)
    count = NormCount.costing(
        of_count.allowance,
        gram.allowance,
        n,
        bent,
        spending=whole,
        noise=gram.std("sum", bent),
    )
    count.check_grids(account)
    radial, pieces = plan_scores(account, of_round, dim, n)
    private = 0.5 * dim / n * risk(pieces, relative)
    alone = 0.5 * dim / len(problem.y)
    together = 1.0 / (1.0 / private + 1.0 / alone)
    known = SoftmaxProblem(problem=problem)
    return PreparedDescent(
        predicted=together,
        public_excess=alone,
        steps=tuning.SOFTMAX_STEPS + 4 * rounds,
        clip_norm=0.0,
        batch_rows=n,
        ranges={"start": "public weights", "curvature": "released"},
        more=SoftmaxPlan(
            known=known,
            step=step.allowance,
            count=count,
            radial=radial,
            share=pieces,
            rounds=rounds,
        ),
    )


def learn(run: Session, problem: GradientProblem, prepared: PreparedDescent) -> Descended:
    """Run Newton steps, release curvature and scores at their end, and return the exact coefficients."""
    plan: SoftmaxPlan = prepared.more
    known = plan.known
    rows = mapped_rows(run.rows, known.rows, run.executor)

    def measure(start: Fitted, again: str) -> ExactStep:
        return _measured_step(run, plan, start, rows, again)

    step, fitted = run_rounds(plan.rounds, _start(run, plan, rows), measure)
    assert fitted.ends is not None
    deviation = np.sqrt(variances_of(known.to_user, fitted.covariance)) * fitted.ends.scale
    return Descended(
        weights=known.in_fit(fitted.mean.reshape(known.start.shape)),
        noise_std=step.radial.noise_std * problem.n_priv,
        ends=fitted.ends,
        deviation=deviation,
        excess=fitted.excess,
    )


def _measured_step(
    run: Session, plan: SoftmaxPlan, start: Fitted, rows: Rows, again: str
) -> ExactStep:
    """Release curvature and scores of a round at its `start`; `again` ends the names of the releases."""
    known = plan.known
    slope = start.mean.reshape(known.start.shape)
    score = known.at(slope)
    scores = score(known.public)
    curvature = _measure_curvature(run, plan, slope, rows, again)
    half = curvature.power(-0.5)
    on_scores = run.on(each_row(rows, score, score.width))
    lengths = np.sqrt(np.sum((scores @ half) ** 2, axis=1))
    measured = plan.radial.measure(
        on_scores,
        AffineMap(dim=score.width, matrix=half),
        lengths,
        names=(f"norms of scores{again}", f"two pieces of scores{again}"),
    )
    influence = (scores @ curvature.power(-1.0) @ known.to_user.T) ** 2
    return ExactStep(
        to_user=known.to_user,
        offset=np.zeros(len(known.to_user)),
        start=start,
        public=known.start.ravel(),
        laws=known.laws,
        excess_unit=0.5,
        behind=rows_worth(influence) / len(scores),
        public_scores=known.at(known.start)(known.public),
        public_bends=scores,
        curvature=curvature,
        half=half,
        radial=measured,
        squares=np.eye(len(half)),
        elsewhere=False,
        rounding=rounding_residual(known.rows.step, slope, 0.0),
        concerns=_concerns(known, slope, curvature, measured),
        predictors=known.predictors,
        longest=tuning.LONGEST_MOVE,
        vanishing=True,
        # Two rounds from few steps still end short for long rows.
        mean_score=lambda free: known.at(free.reshape(slope.shape))(known.public).mean(axis=0),
    )


def _concerns(
    known: SoftmaxProblem, slope: FloatArray, curvature: PooledMoment, measured: RadialMean
) -> Concerns:
    """What released curvature and scores show of the labels."""
    if measured.reason == Reason.UNRESOLVED:
        return Concerns()
    # Mean of 1{y = k} - p_k over private rows for each class k, from the scores of the intercepts.
    intercepts = curvature.power(0.5).reshape(len(slope), -1, measured.dim)[:, 0]
    to_missed = np.linalg.pinv(known.contrasts.T) @ intercepts
    predicted = known.predictors @ slope.ravel()
    chance = special.softmax(predicted.reshape(len(known.contrasts), -1), axis=0)
    # The score of an absent class is minus its chance.
    missed = [(row, -of_class) for row, of_class in zip(to_missed, chance, strict=True)]
    return concerns_of_classes(curvature, measured, measured.norms.rms**2 / measured.dim, missed)


def _start(run: Session, plan: SoftmaxPlan, rows: Rows) -> Fitted:
    """Coefficients ((K - 1) D,) by Newton steps with the public curvature, shrunk to the public fit if noise is large."""
    known = plan.known
    n = plan.known.problem.n_priv
    mean = known.start.ravel()
    for index in range(tuning.SOFTMAX_STEPS):
        slope = mean.reshape(known.start.shape)
        score = known.at(slope)
        bend = known.at(slope, curvature=True)
        mean_bend = bend(known.public).mean(axis=0)
        values, along = np.linalg.eigh(bend.matrix(mean_bend))
        half = (along / np.sqrt(np.maximum(values, tuning.LEAST_CURVATURE))) @ along.T
        lengths = np.sqrt(np.sum((score(known.public) @ half) ** 2, axis=1))
        radius = max(float(np.quantile(lengths, tuning.CLIP_QUANTILE)), 1.0 / LARGEST)
        on_scores = run.on(each_row(rows, score, score.width))
        released = on_scores.release(
            VectorSum(affine=AffineMap(dim=score.width, matrix=half), radius=radius),
            name=f"gradient, step {index + 1}",
            cost=plan.step,
            clip_radius=radius,
        )
        public_sq = float(np.mean(lengths**2)) / score.width / len(lengths)
        noise_sq = (released.noise_std / n) ** 2
        trust = public_sq / (public_sq + noise_sq)
        released_mean: FloatArray = np.clip(np.nan_to_num(released.value), -LARGEST, LARGEST) / n
        move, _ = bounded(half @ released_mean, known.predictors, tuning.LONGEST_MOVE)
        mean = (1.0 - trust) * known.start.ravel() + trust * (mean + move)
    covariance = trust * noise_sq * (half @ half)
    return Fitted(mean=mean, covariance=covariance, noise=covariance)


def _measure_curvature(
    run: Session, plan: SoftmaxPlan, slope: FloatArray, rows: Rows, again: str
) -> PooledMoment:
    """Release the mean second derivative at these coefficients, and pool it with that of the public rows."""
    known = plan.known
    n = known.problem.n_priv
    bend = known.at(slope, curvature=True)
    public = bend(known.public)
    query = VectorSum(affine=AffineMap(dim=bend.width), radius=LARGEST)
    on_rows = run.on(each_row(rows, bend, bend.width))
    lengths = np.sqrt(np.sum(public**2, axis=1))
    packed = released_curvature(on_rows, plan.count, query, lengths, n, again)
    near = bend.matrix(public.mean(axis=0))
    # The grid of a plain sum is too fine for its rounding to matter.
    released = replace(packed, mean=bend.matrix(packed.mean), noise=packed.noise / math.sqrt(2.0))
    return pooled_curvature(released, near, known.at(slope)(known.public), n)
