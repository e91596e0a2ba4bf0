"""Intervals for every mean, variance and correlation of a Gaussian, from released pieces or from public rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.estimators.complete_rows import CompleteRows
from fastpubpriv.estimators.moments import (
    LARGEST,
    SOME_PUBLIC,
    Functional,
    RadialMean,
    longest_tail,
)
from fastpubpriv.gaussians import gaussian_tuning as tuning
from fastpubpriv.gaussians.last_round import Resolved
from fastpubpriv.gaussians.public_prior import PublicPrior, column_moments
from fastpubpriv.gaussians.structures import chi_beyond
from fastpubpriv.results.gaussians import GaussianReport
from fastpubpriv.results.reasons import PartReasons, Reason, first_of


def undetected_square(pieces: RadialMean, tailed: BoolArray) -> FloatArray:
    """Return what undetected rows at the end of the counts may add to mean squares along directions; only some are `tailed`."""
    law = pieces.norms.law
    rows = float(pieces.reason is not None)
    end, std = (0.0, 0.0) if law is None else (law.end, law.octave_std)
    return np.where(tailed, max(tuning.FAR_ROWS * std, rows), rows) * end / pieces.n


class Squares:
    """Second moments about a mean, with (x - mean) = L y: L M L^T for M the clipped moment, its outer piece and the identity."""

    def __init__(self, resolved: Resolved, mean: FloatArray) -> None:
        self.resolved = resolved
        self.pieces = resolved.pieces
        # All moments are per row of all rows, of which incomplete ones are zero.
        self.complete = resolved.complete_rows
        self.share = self.complete.divisor
        last = resolved.last
        base = last.base
        self.dim = last.plan.dim
        self.usual = self.share * last.fourth
        maps: FloatArray = np.column_stack([base.root, base.center - mean]) @ last.map
        self.inside, self.outer = (maps @ moment @ maps.T for moment in resolved.moments)
        self.inner: FloatArray = maps @ maps.T
        self.lengths: FloatArray = np.sum(maps**2, axis=1)
        self.trace = float(np.trace(resolved.moments[1]))
        # Share of the outer piece in each variance of white Gaussian rows (y, 1), without the constant.
        radius = self.pieces.radius
        between = chi_beyond(self.dim, radius / 2.0 - 1.0) - chi_beyond(self.dim, radius - 1.0)
        self.white: float = between / self.dim

    def means(self) -> Functional:
        """Return the mean of x over the complete rows, with its errors."""
        last = self.resolved.last
        base = last.base
        constant = last.constant
        maps = base.root @ last.map[:-1, :-1] / constant
        inside, outer = (maps @ moment[-1, :-1] for moment in self.resolved.moments)
        lengths = math.sqrt(0.5) * np.sqrt(np.sum(maps**2, axis=1))
        deviations = np.sqrt(np.maximum(np.diag(self.inside), 0.0) / self.pieces.n) / np.maximum(
            lengths, 1.0 / LARGEST
        )
        pieces = self.pieces
        law = self.pieces.norms.law
        if law is not None:
            # A distant row enters the released mean as c z, of length c |z|, in one of `dim` directions.
            law = replace(law, root=constant * math.sqrt(2.0 * pieces.dim / self.dim))
            pieces = replace(pieces, norms=replace(pieces.norms, law=law))
        means = self.complete.over(pieces.known(inside, outer, lengths, deviations))
        start = base.center + base.root @ last.map[:-1, -1] * constant
        return replace(means, value=start + means.value)

    def known(
        self,
        inside: FloatArray,
        outer: FloatArray,
        lengths: FloatArray,
        gaussian: FloatArray,
        both: FloatArray,
    ) -> Functional:
        """Return linear maps (k, k) with their errors.

        `gaussian`: variances for Gaussian rows if all are complete; `both`: the shared outer pieces.
        """
        least = 1.0 / LARGEST
        lengths = np.maximum(lengths, least)
        far = np.abs(outer) + both + lengths * self.pieces.piece_std
        share = np.minimum(far / (lengths * max(self.trace, least)), 1.0)
        # mean |y|^4 in excess of Gaussian rows
        heavy = max(self.pieces.norms.rms**2 - self.usual, 0.0)
        variance = gaussian / self.share / lengths**2 + share * heavy
        return self.pieces.known(inside, outer, lengths, np.sqrt(variance / self.pieces.n))

    def covariances(self) -> Functional:
        """Return E (x - mean)(x - mean)^T over the complete rows, (dim, dim), with its errors."""
        inside = self.inside
        outer = self.outer
        inner = self.inner
        squares = np.diag(inner)
        spread = np.diag(inside)
        lengths = np.sqrt((np.outer(squares, squares) + inner**2) / 2.0)
        gaussian = np.outer(spread, spread) + inside**2
        ends = np.sqrt(np.maximum(np.diag(outer), 0.0))
        over = np.maximum(np.diag(outer) - self.white * spread, 0.0)
        known = self.known(
            inside, outer, lengths, gaussian, np.outer(ends, ends) - np.diag(ends**2)
        )
        longest = np.diag(longest_tail(over, self.lengths * self.pieces.piece_std))
        return self.complete.over(replace(known, extra=known.extra + longest))

    def correlations(self) -> Functional:
        """Return the correlations with their errors, to first order in the errors of covariances."""
        inside = self.inside
        outer = self.outer
        inner = self.inner
        unit = np.sqrt(np.maximum(np.diag(inside), np.finfo(np.float64).tiny))
        r, o, g = (each / np.outer(unit, unit) for each in (inside, outer, inner))
        r = np.clip(r, -1.0, 1.0)
        a = np.diag(g)[:, None]
        b = np.diag(g)[None, :]
        squares = (
            (a * b + g * g) / 2.0 + r * r / 4.0 * (a * a + b * b + 2.0 * g * g) - r * g * (a + b)
        )
        ends = np.maximum(np.diag(o), 0.0)
        rotated = o - r / 2.0 * (np.diag(o)[:, None] + np.diag(o)[None, :])
        both = np.sqrt(np.outer(ends, ends))
        np.fill_diagonal(both, 0.0)
        known = self.known(r, rotated, np.sqrt(np.maximum(squares, 0.0)), (1.0 - r * r) ** 2, both)
        # A long tail of one column alone raises its variance, and no covariance: correlations are nearer to zero.
        over = o - self.white * r
        own = np.maximum(np.diag(over), 0.0)
        raised = longest_tail(own, a[:, 0] * self.pieces.piece_std)
        factor = raised / np.maximum(own, 1.0 / LARGEST)
        shared = over * np.sqrt(np.outer(factor, factor))
        return replace(
            known, extra=known.extra + shared - r / 2.0 * (raised[:, None] + raised[None, :])
        )


@dataclass(frozen=True, slots=True, eq=False)
class Reported:
    """A report, and the reasons of its columns; neither if public rows alone would have to show it and are too few."""

    report: GaussianReport | None = None
    part_reasons: PartReasons = ()


def report_of(resolved: Resolved, mean: FloatArray, public: FloatArray) -> Reported:
    """Return the report and reasons of a full Gaussian with this mean."""
    squares = Squares(resolved, mean)
    means = squares.means()
    covariances = squares.covariances()
    correlations = squares.correlations()
    off = means.tail + np.abs(mean - means.value)
    spread = np.sqrt(np.maximum(np.diag(covariances.value), np.finfo(np.float64).tiny))
    reasons = _reasons(squares, covariances, public)
    tailed = np.array([Reason.HEAVY_TAIL in own for own in reasons])
    tailed |= public_kurtosis(public, tuning.LEAST_PUBLIC) > tuning.UNSEEN_KURTOSIS
    unseen = np.diag(squares.lengths * undetected_square(squares.pieces, tailed)) / squares.share
    report = GaussianReport(
        **parts_of("mean", means),
        **parts_of("covariance", covariances, np.outer(off, off), unseen),
        **parts_of("correlation", correlations, np.outer(off / spread, off / spread)),
    )
    return Reported(report, reasons)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleasedVector:
    """The average over n rows of v, and with structure "diagonal" of (v, (v^2 - 1) / sqrt(2)), clipped to a radius and released."""

    structure: str
    values: FloatArray
    std: float  # noise of each value
    n: float
    complete: CompleteRows | None
    radius: float

    def means(self, base: PublicPrior, public: FloatArray, covariance: FloatArray) -> Functional:
        """Return the mean of x: the average, raised by what public rows lose if clipped to the same radius.

        A public row has the length that the prior of the other ones gives it (formula of Sherman and Morrison). The tail is what
        one more row loses that is twice as long as the radius.
        """
        m, dim = public.shape
        apart = m / (m - 1.0)  # a row lies so much farther from the mean of the other ones
        degrees = base.ridge + m - 1.0
        gaps = (public - base.center) * apart
        white = gaps @ base.inverse.T
        others = 1.0 - np.sum(np.square(white), axis=1, keepdims=True) / (apart * degrees)
        white *= np.sqrt((1.0 - 1.0 / degrees) / np.maximum(others, np.finfo(np.float64).eps))
        lengths_sq = np.sum(np.square(white), axis=1, keepdims=True)
        if self.structure == "diagonal":
            lengths_sq += np.sum(np.square(np.square(white) - 1.0), axis=1, keepdims=True) / 2.0
        lost = gaps * (1.0 - self.radius / np.maximum(np.sqrt(lengths_sq), self.radius))
        moved = base.root @ self.values[:dim]
        roots = np.linalg.norm(base.root, axis=1)
        doubt = 0.0 if self.complete is None else self.complete.relative_std
        noise = np.hypot(self.std * roots, doubt * moved)
        sampling_sq = np.diag(covariance) / self.n + np.var(lost, axis=0, ddof=1) / m
        value = base.center + moved + np.mean(lost, axis=0)
        std = np.hypot(noise, student(m) * np.sqrt(sampling_sq))
        tail = roots * self.radius / (m * math.sqrt(dim))
        return Functional(value=value, std=std, noise=noise, tail=tail, extra=np.zeros(dim))


def student(m: int) -> float:
    """Return the standard deviation of Student's distribution for m rows, which approximates its wider quantiles."""
    return math.sqrt((m - 1.0) / (m - 3.0))


def report_of_public(
    base: PublicPrior,
    public: FloatArray,
    covariance: FloatArray,
    vector: ReleasedVector | None = None,
) -> Reported:
    """Return the report and reasons of public rows (m, dim), from their fourth moments, with means that a vector may release.

    Means allow for one more row like the farthest one, variances for two of them, and correlations, as a row is rarely far out in
    both columns, for half of one. There is no interval of deviations of few rows or of a long tail, and no report for fewer than
    LEAST_PUBLIC rows, or for too few to show how columns vary together.
    """
    m, dim = public.shape
    if m < tuning.LEAST_PUBLIC or base.worth.guess:
        return Reported()
    largest, _, gaps, _ = column_moments(public)
    unit = np.sqrt(np.maximum(np.mean(gaps**2, axis=0), 1.0 / LARGEST))
    white = gaps / unit
    scale = unit * largest
    squares = white**2
    r = white.T @ white / m
    both = squares.T @ squares / m
    odd = (white**3).T @ white / m
    fourth = np.mean(squares**2, axis=0)
    turned = fourth[:, None] + fourth[None, :] + 2.0 * both
    rotated = both - r * (odd + odd.T) + r * r / 4.0 * turned
    far = np.max(np.abs(white), axis=0)
    farthest = np.outer(far, far) / m
    silent, borrowed = (np.isin(np.arange(dim), own) for own in (base.fallback, base.borrowed))
    error = student(m) / math.sqrt(m)

    def known(value: FloatArray, std: FloatArray, tail: FloatArray) -> Functional:
        none = np.zeros_like(value)
        return Functional(value=value, std=error * std, noise=none, tail=tail, extra=none)

    means = known(base.center, scale, scale * far / m)
    if vector is not None:
        means = vector.means(base, public, covariance)
    product = np.outer(scale, scale)
    # Clipping lowers released variances, and private rows may have other ones than public rows.
    differ = np.abs(covariance - product * r)
    rises = 2.0 * product * farthest
    tail = np.where(np.eye(dim), differ, differ + rises)
    covariances = known(product * r, product * np.sqrt(np.maximum(both - r * r, 0.0)), tail)
    deviations = np.sqrt(np.maximum(rotated, 0.0))
    correlations = known(np.clip(r, -1.0, 1.0), deviations, farthest / 2.0)
    # A column that is constant in public rows leaves open how long private rows are, and what clipping takes from all columns.
    hidden = silent if vector is None else np.full(dim, silent.any())
    contradicted = np.diag(differ) > tuning.BY_CHANCE * np.diag(covariances.std)
    few = hidden | contradicted | (fourth > tuning.UNSEEN_KURTOSIS) | (m < 2 * SOME_PUBLIC)
    above = np.diag(np.diag(rises))
    parts = parts_of("mean", means, unknown=hidden)
    parts |= parts_of("covariance", covariances, above=above, unknown=few[:, None] | few)
    parts |= parts_of("correlation", correlations, unknown=silent[:, None] | silent)
    reasons = first_of([(borrowed, Reason.FEW_PUBLIC_ROWS), (few, Reason.FEW_ROWS)], dim)
    return Reported(GaussianReport(**parts), reasons)


def parts_of(
    name: str,
    known: Functional,
    around: FloatArray | float = 0.0,
    above: FloatArray | float = 0.0,
    unknown: BoolArray | bool = False,
) -> dict[str, FloatArray]:
    """Return the report fields of one quantity; `around` widens both sides, `above` the upper one, `unknown` ones have no error."""
    parts = {
        name: known.value,
        f"{name}_std": known.std,
        f"{name}_below": known.tail - np.minimum(known.extra, 0.0) + around,
        f"{name}_above": known.tail + np.maximum(known.extra, 0.0) + around + above,
    }
    # Released moments may be of any size: an overflow has an unbounded interval.
    bounded = {
        part: np.nan_to_num(each, nan=0.0 if part == name else LARGEST)
        for part, each in parts.items()
    }
    bounded[f"{name}_std"][unknown] = np.nan
    return bounded


def _reasons(squares: Squares, known: Functional, public: FloatArray) -> PartReasons:
    """Return for each column why its intervals may not hold."""
    pieces = squares.pieces
    variances = np.maximum(np.diag(known.value), np.finfo(np.float64).tiny)
    outer = np.diag(squares.outer) / squares.share
    doubt = squares.lengths * pieces.piece_std / squares.share
    far = (outer + 2.0 * doubt) / variances - squares.white
    surely = (outer - doubt) / variances - squares.white
    above = (np.diag(known.tail) + np.maximum(np.diag(known.extra), 0.0)) / variances
    heavy = (
        (bool(pieces.reason) & (far > tuning.OUTER))
        | (surely > tuning.OUTER)
        | (above > tuning.UNCERTAIN)
        | (public_kurtosis(public) > tuning.KURTOSIS)
    )
    few = np.diag(known.std) > tuning.UNCERTAIN * variances
    hides_many = pieces.norms.unseen > tuning.UNSEEN_ROWS * pieces.n
    if hides_many:
        few |= public_kurtosis(public, tuning.LEAST_PUBLIC) > tuning.UNSEEN_KURTOSIS
    lost = pieces.reason == Reason.UNRESOLVED
    silent = hides_many and len(public) < tuning.SILENT_PUBLIC
    choices = [
        (lost, Reason.UNRESOLVED),
        (few, Reason.FEW_ROWS),
        (heavy, Reason.HEAVY_TAIL),
        (silent, Reason.FEW_ROWS),
    ]
    return first_of(choices, len(variances))


def public_kurtosis(public: FloatArray, least: int = SOME_PUBLIC) -> FloatArray:
    """Return the kurtosis of each column of public rows (m, dim), or ones for fewer than `least` rows."""
    if len(public) < least:
        return np.ones(public.shape[1])
    squares = np.square(column_moments(public)[2])
    return np.asarray(
        np.mean(squares**2, axis=0) / np.maximum(np.mean(squares, axis=0) ** 2, 1e-300)
    )
