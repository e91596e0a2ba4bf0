"""The full covariance of one Gaussian from released second moments: shrinkage, predicted errors, and intervals for every entry.

`FullRounds.step` plans the next release; `update` takes the released second moment of rows mapped by `affine`, `finalize` the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.estimators.complete_rows import CompleteRows
from fastpubpriv.estimators.ladder import ladder_tuning as tuning
from fastpubpriv.estimators.ladder.public_prior import PublicPrior, column_moments
from fastpubpriv.estimators.ladder.schedule import RoundPlan, chi_beyond, constant_sq
from fastpubpriv.estimators.lifted_coinpress import after, lift
from fastpubpriv.estimators.linalg import (
    bessel,
    divided,
    lower_powers,
    lower_root,
    spectrum,
    symmetric,
)
from fastpubpriv.estimators.moments import (
    LARGEST,
    SOME_PUBLIC,
    Functional,
    RadialMean,
    longest_tail,
    unpacked,
)
from fastpubpriv.mechanisms.sums import AffineMap, Released
from fastpubpriv.results.gaussians import GaussianReport
from fastpubpriv.results.reasons import PartReasons, Reason, first_of

PREVIOUS = "previous"


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTarget:
    """A released covariance in the eigenbasis of a shrinkage target, with the target's strength in rows on and off the diagonal."""

    name: str
    vectors: FloatArray
    values: FloatArray
    released: FloatArray
    scale: FloatArray
    std: float  # noise of the diagonal entries of the release
    n: float  # its number of rows
    diagonal: float = 1.0
    off: float = 1.0
    log_likelihood: float = -math.inf

    @property
    def prior(self) -> FloatArray:
        """Prior variance of the off-diagonal entries around the target, and half the prior variance of the diagonal ones."""
        worth = np.where(np.eye(len(self.values), dtype=bool), self.diagonal, self.off)
        return np.outer(self.values, self.values) / worth

    @property
    def sampling(self) -> FloatArray:
        """Sampling variance of the off-diagonal entries."""
        return np.outer(self.scale, self.scale) / self.n

    @property
    def error(self) -> FloatArray:
        """Error variance of the off-diagonal entries of the release; sampling error is shared with a target from the same rows."""
        noise = self.std**2 / 2.0
        return (
            np.full_like(self.released, noise) if self.name == PREVIOUS else self.sampling + noise
        )

    def error_sq(self, *, reported: bool = False) -> float:
        """Return the predicted squared relative Frobenius error; `reported` adds the error of fitted strengths and diagonals."""
        prior = self.prior
        error = self.error
        side = len(self.values)
        if reported:
            doubt = np.full((side, side), math.sqrt(4.0 / max(side * (side - 1), 2)))
            np.fill_diagonal(doubt, math.sqrt(2.0 / side))
            prior = prior + np.minimum(doubt, 1.0) * error
        left = prior * error / (prior + error)
        if reported and self.name == "diagonal":
            np.fill_diagonal(left, np.diag(error))
        if self.name == PREVIOUS:
            left = left + self.sampling
        return float(np.sum((1.0 + np.eye(side)) * left / np.outer(self.scale, self.scale)))

    def repaired(self) -> tuple[FloatArray, int]:
        """Return the release shrunk toward the target entry by entry, with eigenvalues raised to a noise-based floor on each axis.

        The second number is that of raised eigenvalues.
        """
        prior = self.prior
        values = self.values
        turn = self.vectors
        target = np.diag(values)
        shrunk = target + prior / (prior + self.error) * (self.released - target)
        floor = np.minimum(
            0.2 * values, 0.35 * self.std * math.sqrt(2.0 * len(values)) + 1e-9 * values
        )
        root = np.sqrt(np.maximum(floor, 1e-13 * float(np.max(values))))
        relative, vectors = spectrum(symmetric(shrunk / np.outer(root, root)))
        inner = (vectors * np.maximum(relative, 1.0)) @ vectors.T * np.outer(root, root)
        return symmetric(turn @ inner @ turn.T), int(np.count_nonzero(relative < 1.0))


def weighted_target(
    name: str, target: FloatArray, value: FloatArray, std: float, n: float, low: float
) -> WeightedTarget:
    """Fit the strengths of a target by maximum likelihood, with a penalty below `low`, the public degrees of freedom."""
    values, vectors = spectrum(target)
    values = np.maximum(values, 1e-13 * max(float(values[-1]), np.finfo(np.float64).tiny))
    released = symmetric(vectors.T @ value @ vectors)
    side = len(values)
    scale = np.maximum(np.diag(released), np.minimum(0.2 * values, std * math.sqrt(side)))
    one = WeightedTarget(name, vectors, values, released, np.maximum(scale, 1e-13 * values), std, n)
    gaps = released - np.diag(values)
    parts = []
    total = 0.0
    for entries, factor in (((np.arange(side),) * 2, 2.0), (np.triu_indices(side, 1), 1.0)):
        squares = np.square(gaps[entries])
        prior = one.prior[entries]
        error = one.error[entries]
        variance = factor * (prior / tuning.TARGET_GRID[:, None] + error)
        levels = -0.5 * np.sum(squares / variance + np.log(variance), axis=1)
        if name != PREVIOUS:
            levels -= 0.5 * np.square(
                np.minimum(np.log(tuning.TARGET_GRID / low), 0.0) / tuning.DOUBT
            )
        best = int(np.argmax(np.nan_to_num(levels, nan=-np.inf)))
        parts.append(float(tuning.TARGET_GRID[best]))
        total += float(levels[best])
    if name == "diagonal":
        total -= side / 2.0  # penalty for the fitted diagonal entries
    return replace(one, diagonal=parts[0], off=parts[1], log_likelihood=total)


def chosen(
    targets: dict[str, FloatArray], value: FloatArray, std: float, n: float, low: float
) -> WeightedTarget:
    """Return the target of largest likelihood, or the previous rounds where their predicted error is smaller.

    They are for a covariance `value` of n rows, released with noise `std` of its diagonal entries.
    """
    weighted = {
        name: weighted_target(name, target, value, std, n, low) for name, target in targets.items()
    }
    previous = weighted.pop(PREVIOUS, None)
    able = [
        each
        for each in weighted.values()
        if previous is None or each.diagonal >= tuning.LEAST_DIAGONAL
    ]
    if not able:
        assert previous is not None
        return previous
    best = max(able, key=lambda each: each.log_likelihood)
    return previous if previous is not None and previous.error_sq() < best.error_sq() else best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolved:
    """Mean and covariance from second moments, in the coordinates v of the public prior."""

    mean: FloatArray  # the mean without shrinkage
    powers: tuple[FloatArray, FloatArray]  # lower root of the covariance, and its inverse
    error: float  # predicted relative error of the covariance, clipping bias included
    under_resolved: bool  # the least eigenvalue of the last round is within the noise
    details: dict[str, Any]
    pieces: RadialMean
    map: FloatArray  # from rows (z, c) of the last round to (v, 1)

    @property
    def mean_std(self) -> float:
        """Noise standard deviation of each coordinate of the mean of rows z."""
        added, _ = tail_of(self.pieces, 0.0)
        return (
            math.hypot(1.0, added)
            * self.pieces.noise_std
            * math.sqrt(0.5)
            * float(self.map[-1, -1])
        )

    @property
    def edge(self) -> float:
        """Lower bound on the distance of the mean from the center of its clipping ball, as a fraction of the radius."""
        pieces = self.pieces
        last = self.map
        constant = 1.0 / float(last[-1, -1])
        z = divided(last[:-1, :-1], self.mean[:, None] - constant * last[:-1, -1:])[:, 0]
        return edge_of(z, self.mean_std, math.sqrt(max(pieces.radius - constant**2, 1.0 / LARGEST)))

    @property
    def noise_root(self) -> FloatArray:
        """Root of the noise covariance of `mean`, (dim, dim)."""
        return self.map[:-1, :-1] * self.mean_std

    @property
    def mean_bias_sq(self) -> float:
        """Squared error of `mean` beyond noise and sampling, in squared standard deviations of the rows."""
        pieces = self.pieces
        last = self.map
        length_sq = float(np.sum(np.square(unpacked(pieces.outer, len(last))[-1, :-1])))
        shown_sq = max(length_sq - (len(last) - 1) * pieces.piece_std**2 / 2.0, 0.0)
        return (unknown_of(pieces) * float(last[-1, -1])) ** 2 * shown_sq

    @property
    def complete_rows(self) -> CompleteRows:
        """Share of rows without a missing cell, the released mean of the constant of rows (v, 1)."""
        pieces = self.pieces
        row = self.map[-1]
        side = len(self.map)
        inside, outer = (
            np.array(row @ unpacked(each, side) @ row) for each in (pieces.mean, pieces.outer)
        )
        return CompleteRows(pieces.known(inside, outer, np.array(float(row @ row)), 0.0))


def edge_of(average: FloatArray, std: float, radius: float) -> float:
    """Return the norm of an average less two noise deviations over the radius, in [0, 1]; near 1, clipping limits the average."""
    length = math.sqrt(float(np.sum(np.square(average))))
    return min(max(length - 2.0 * std * math.sqrt(len(average)), 0.0) / radius, 1.0)


def unknown_of(pieces: RadialMean) -> float:
    """Return the uncertainty of the tail beyond the ball, as a factor of the outer piece."""
    law = pieces.norms.law
    expected, most = pieces.ratios
    return (most - (0.0 if law is None else min(law.counted(pieces.radius), expected))) / 4.0


def tail_of(pieces: RadialMean, usual: float) -> tuple[float, float]:
    """Return the factor of the outer piece added for rows beyond the ball, and the squared error beyond `usual` sampling."""
    law = pieces.norms.law
    expected, _ = pieces.ratios
    length_sq = float(np.sum(np.square(pieces.outer)))
    shown = max(1.0 - pieces.dim * pieces.piece_std**2 / max(length_sq, 1.0 / LARGEST), 0.0)
    counted = 0.0 if law is None else min(law.counted(pieces.radius), expected)
    sampling = max(pieces.norms.rms**2 - usual, 0.0) / pieces.n
    unknown = unknown_of(pieces) * math.sqrt(length_sq * shown)
    return shown * (counted + tuning.UNSEEN_SHARE * (expected - counted)), sampling + unknown**2


class FullRounds:
    """The rounds of second moments of one population."""

    __slots__ = ("_contraction", "_map", "_spectrum", "ball_sq", "base", "left", "made", "plan")

    def __init__(self, base: PublicPrior, plan: RoundPlan) -> None:
        self.base = base
        self.plan = plan
        self.left, self.made = Fraction(1), 0
        self._spectrum: FloatArray = base.worth.spectrum()
        # squared clipping radius of a last round, once norms were counted
        self.ball_sq: float | None = None
        self._contraction: FloatArray = np.eye(plan.dim + 1)
        self._map = self._contraction  # from rows (z, c) of the last round to (v, 1)

    @property
    def affine(self) -> AffineMap:
        """The map x -> preconditioned (v, 1) of the next round."""
        return lift(self.base.affine, self._contraction)

    def step(self) -> Fraction | None:
        """Return the share of the next round by public and released numbers, None for the last one."""
        return self.plan.step(self._spectrum, self.left, self.made, ball_sq=self.ball_sq)[0]

    def radius(self, share: Fraction) -> float:
        """Return the clipping radius of an early round of this share."""
        return math.sqrt(self.plan.radius_sq(self.made, share))

    @property
    def amplified(self) -> float:
        """Predicted relative noise error of the covariance over that of white rows, at least 1."""
        known = np.maximum(self._spectrum, 1e-6)
        white = np.ones(self.plan.dim)
        one, other = (self.plan.noise_error(each, 1.0, self.left) for each in (known, white))
        return max(one / other, 1.0)

    def update(self, released: Released, share: Fraction) -> None:
        """Update the preconditioner with the released second moment of an early round."""
        n = self.plan.n
        std = released.spectral_std / n
        second = released.value / n
        values, vectors = spectrum(second, overwrite=True)
        slack = self.plan.slack(std)
        roots = np.sqrt(np.maximum(values, 0.0) + slack)
        likely = np.where(
            values > slack, values - slack / 2.0, np.maximum(values, 0.0) / 4.0 + slack / 8.0
        )
        likely = np.where(values > 1.5 * slack, values, likely) / np.square(roots)
        # One of (v, 1) is left out: the lifted one, or for several columns the least, which is costly to refine.
        omitted = int(np.argmax(np.square(vectors[-1]))) if len(vectors) == 2 else 0
        self._spectrum = np.sort(np.minimum(np.delete(likely, omitted), 1.0))
        self._contraction = divided(lower_root(vectors, roots), self._contraction)
        self.left -= share
        self.made += 1
        self.ball_sq = None

    def center(self) -> AffineMap:
        """Prepare a last round in two pieces of rows (z, c); return the map x -> z = K (v - mean) of the current estimates."""
        dim = self.plan.dim
        root = divided(self._contraction, np.eye(dim + 1, order="F"))
        # Rows (v, 1) have the second moment root root^T, and root has the last row (l, s): it gives the mean and the covariance.
        line = root[dim, :dim]
        scale = float(root[dim, dim])
        mass = float(line @ line) + scale * scale
        mean = root[:dim, :dim] @ line / mass
        inverse = (
            lower_powers(np.eye(dim) - np.outer(line, line) / mass)[1]
            @ self._contraction[:dim, :dim]
        )
        moved: FloatArray = inverse @ mean
        constant = math.sqrt(constant_sq(dim))
        below = np.append(np.zeros(dim), constant)
        self._contraction = np.vstack([np.column_stack([inverse, -moved]), below])
        back = divided(inverse, np.eye(dim, order="F"))
        self._map = np.vstack([np.column_stack([back, mean / constant]), below / constant**2])
        return after(self.base.affine, inverse, offset=-moved)

    def finalize(self, pieces: RadialMean) -> Resolved:
        """Return the shrunk mean and covariance of v from a last round in two pieces, which estimate the clipping bias."""
        dim = self.plan.dim
        n = self.plan.n
        added, bias_sq = tail_of(pieces, (dim + constant_sq(dim)) ** 2 + 2.0 * dim)
        second = unpacked(pieces.mean + added * pieces.outer, dim + 1)
        std = math.hypot(1.0, added) * pieces.noise_std
        self.made += 1
        least = float(spectrum(second)[0][0])
        # The mean needs the moment of rows (v, 1); the covariance is shrunk in the coordinates of the last round.
        moment = self._map @ second @ self._map.T
        mass = max(float(moment[dim, dim]), tuning.LEAST_MASS)
        first = moment[:dim, dim]
        inner = np.ascontiguousarray(self._contraction[:dim, :dim])
        moved = self._contraction[:dim] @ moment[:, dim]
        noisy = symmetric(second[:dim, :dim] - np.outer(moved, moved) / mass) * bessel(n)
        best = chosen(
            self._targets(noisy, inner, first, mass, moment), noisy, std, n, self.base.worth.low
        )
        repaired, floored = best.repaired()
        half = divided(inner, np.array(repaired, order="F"))
        powers = lower_powers(symmetric(divided(inner, np.array(half.T, order="F"))))
        return Resolved(
            # A released moment may be of any size: a mean that overflows in whitened coordinates is replaced by zero.
            mean=first / mass if np.isfinite(powers[1] @ first).all() else np.zeros(dim),
            powers=powers,
            error=math.sqrt(best.error_sq(reported=True) + bias_sq),
            under_resolved=least <= self.plan.slack(std),
            pieces=pieces,
            map=self._map,
            details={
                "target": best.name,
                "target_strength": (best.diagonal, best.off),
                "clip_bias": math.sqrt(bias_sq),
                "floored": floored,
            },
        )

    def _targets(
        self,
        noisy: FloatArray,
        inner: FloatArray,
        first: FloatArray,
        mass: float,
        moment: FloatArray,
    ) -> dict[str, FloatArray]:
        """Return the shrinkage targets: the public covariance, itself rescaled or with released axis variances, previous rounds."""
        dim = self.plan.dim
        axes = (np.diag(moment)[:dim] - np.square(first) / mass) * bessel(self.plan.n)
        scale = max(float(np.mean(axes)), 0.05)
        public = symmetric(inner @ inner.T)
        targets = {
            "public": public,
            "scale": scale * public,
            "diagonal": symmetric((inner * np.maximum(axes, 0.1 * scale)) @ inner.T),
        }
        if self.made > 1:
            targets[PREVIOUS] = np.eye(dim) * max(float(np.trace(noisy)) / dim, 0.05)
        return targets


def undetected_square(pieces: RadialMean, tailed: BoolArray) -> FloatArray:
    """Return what undetected rows at the end of the counts may add to mean squares along directions; only some are `tailed`."""
    law = pieces.norms.law
    rows = float(pieces.reason is not None)
    end, std = (0.0, 0.0) if law is None else (law.end, law.octave_std)
    return np.where(tailed, max(tuning.FAR_ROWS * std, rows), rows) * end / pieces.n


class Squares:
    """Second moments about a mean, with (x - mean) = L y: L M L^T for M the clipped moment, its outer piece and the identity."""

    def __init__(
        self, base: PublicPrior, resolved: Resolved, mean: FloatArray, complete: CompleteRows
    ) -> None:
        self.pieces, last = resolved.pieces, resolved.map
        # All moments are per row of all rows, of which incomplete ones are zero.
        self.complete, self.share = complete, complete.divisor
        side = self.side = len(last)
        self.constant = 1.0 / float(last[-1, -1])
        self.usual = self.share * ((side - 1.0 + self.constant**2) ** 2 + 2.0 * (side - 1.0))
        self.maps: FloatArray = base.root @ last[:-1, :-1]  # of z to deviations from `start`
        self.start: FloatArray = base.center + base.root @ last[:-1, -1] * self.constant
        maps: FloatArray = np.column_stack([base.root, base.center - mean]) @ last
        moments = unpacked(self.pieces.mean, side), unpacked(self.pieces.outer, side), np.eye(side)
        self.inside, self.outer, self.inner = (maps @ each @ maps.T for each in moments)
        self.lengths: FloatArray = np.sum(maps**2, axis=1)
        self.trace = float(np.trace(moments[1]))
        # Share of the outer piece in each variance of white Gaussian rows (y, 1), without the constant.
        dim = side - 1
        radius = self.pieces.radius
        self.white: float = (
            chi_beyond(dim, radius / 2.0 - 1.0) - chi_beyond(dim, radius - 1.0)
        ) / dim

    def means(self) -> Functional:
        """Return the mean of x over the complete rows, with its errors."""
        maps = self.maps / self.constant
        inside, outer = (
            maps @ unpacked(each, self.side)[-1, :-1]
            for each in (self.pieces.mean, self.pieces.outer)
        )
        lengths = math.sqrt(0.5) * np.sqrt(np.sum(maps**2, axis=1))
        deviations = np.sqrt(np.maximum(np.diag(self.inside), 0.0) / self.pieces.n) / np.maximum(
            lengths, 1.0 / LARGEST
        )
        pieces = self.pieces
        law = self.pieces.norms.law
        dim = self.side - 1
        if law is not None:
            # A distant row enters the released mean as c z, of length c |z|, in one of `dim` directions.
            law = replace(law, root=self.constant * math.sqrt(2.0 * pieces.dim / dim))
            pieces = replace(pieces, norms=replace(pieces.norms, law=law))
        means = self.complete.over(pieces.known(inside, outer, lengths, deviations))
        return replace(means, value=self.start + means.value)

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


def report_of(
    base: PublicPrior,
    resolved: Resolved,
    complete: CompleteRows,
    mean: FloatArray,
    public: FloatArray,
) -> dict[str, Any]:
    """Return the report and reasons of a full Gaussian."""
    squares = Squares(base, resolved, mean, complete)
    means = squares.means()
    covariances = squares.covariances()
    correlations = squares.correlations()
    off = means.tail + np.abs(mean - means.value)
    spread = np.sqrt(np.maximum(np.diag(covariances.value), np.finfo(np.float64).tiny))
    reasons = _reasons(squares, covariances, public)
    tailed = np.array([Reason.HEAVY_TAIL in own for own in reasons])
    tailed |= public_kurtosis(public, tuning.LEAST_PUBLIC) > tuning.UNSEEN_KURTOSIS
    unseen = np.diag(squares.lengths * undetected_square(squares.pieces, tailed)) / complete.divisor
    report = GaussianReport(
        **parts_of("mean", means),
        **parts_of("covariance", covariances, np.outer(off, off), unseen),
        **parts_of("correlation", correlations, np.outer(off / spread, off / spread)),
    )
    return {"report": report, "part_reasons": reasons}


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
) -> dict[str, Any]:
    """Return the report and reasons of public rows (m, dim), from their fourth moments, with means that a vector may release.

    Means allow for one more row like the farthest one, variances for two of them, and correlations, as a row is rarely far out in
    both columns, for half of one. There is no interval of deviations of few rows or of a long tail, and no report for fewer than
    LEAST_PUBLIC rows, or for too few to show how columns vary together.
    """
    m, dim = public.shape
    if m < tuning.LEAST_PUBLIC or base.worth.guess:
        return {}
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
    return {"report": GaussianReport(**parts), "part_reasons": reasons}


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
    if pieces.norms.unseen > tuning.UNSEEN_ROWS * pieces.n:
        few |= public_kurtosis(public, tuning.LEAST_PUBLIC) > tuning.UNSEEN_KURTOSIS
    lost = pieces.reason == Reason.UNRESOLVED
    return first_of(
        [(lost, Reason.UNRESOLVED), (few, Reason.FEW_ROWS), (heavy, Reason.HEAVY_TAIL)],
        len(variances),
    )


def public_kurtosis(public: FloatArray, least: int = SOME_PUBLIC) -> FloatArray:
    """Return the kurtosis of each column of public rows (m, dim), or ones for fewer than `least` rows."""
    if len(public) < least:
        return np.ones(public.shape[1])
    squares = np.square(column_moments(public)[2])
    return np.asarray(
        np.mean(squares**2, axis=0) / np.maximum(np.mean(squares, axis=0) ** 2, 1e-300)
    )
