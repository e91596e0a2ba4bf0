"""The full covariance of one Gaussian from released second moments: rounds, the last of them in two pieces, and what they show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.complete_rows import CompleteRows
from fastpubpriv.estimators.linalg import (
    bessel,
    divided,
    lower_powers,
    spectrum,
    symmetric,
)
from fastpubpriv.estimators.moments import LARGEST, RadialMean, unpacked
from fastpubpriv.gaussians import gaussian_tuning as tuning
from fastpubpriv.gaussians.public_prior import PublicPrior
from fastpubpriv.gaussians.rounds import RoundMoment, Rounds, contracted
from fastpubpriv.gaussians.shrinkage import PREVIOUS, chosen
from fastpubpriv.gaussians.structures import RoundPlan, constant_sq, full_plan
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy.spending import Spending


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


@dataclass(slots=True, eq=False, kw_only=True)
class FullRounds(Rounds):
    """The early rounds of the full structure, each planned from the spectrum that those before it released."""

    prior: PublicPrior
    plan: RoundPlan
    spectrum: FloatArray
    left: Fraction = Fraction(1)
    ball_sq: float | None = None  # squared clipping radius of a last round, once norms were counted

    @classmethod
    def of(cls, prior: PublicPrior, n: float, spending: Spending) -> FullRounds:
        """Return the state before the first round of n rows."""
        plan = full_plan(prior.worth, n, spending)
        return cls(
            prior.affine,
            np.eye(plan.side),
            lambda moment: plan.slack(moment.std),
            prior=prior,
            plan=plan,
            spectrum=prior.worth.spectrum(),
        )

    def step(self) -> Fraction | None:
        """Return the share of the next round by public and released numbers, None for the last one."""
        return self.plan.step(self.spectrum, self.left, self.made, ball_sq=self.ball_sq)[0]

    @property
    def amplified(self) -> float:
        """Predicted relative noise error of the covariance over that of white rows, at least 1."""
        known = np.maximum(self.spectrum, 1e-6)
        white = np.ones(self.plan.dim)
        one, other = (self.plan.noise_error(each, 1.0, self.left) for each in (known, white))
        return max(one / other, 1.0)

    def roots(self, values: FloatArray, vectors: FloatArray, moment: RoundMoment) -> FloatArray:
        """See `Rounds.roots`; the likely eigenvalues of the next round become the `spectrum`."""
        slack = self.slack(moment)
        roots = Rounds.roots(self, values, vectors, moment)
        likely = np.where(
            values > slack, values - slack / 2.0, np.maximum(values, 0.0) / 4.0 + slack / 8.0
        )
        likely = np.where(values > 1.5 * slack, values, likely) / np.square(roots)
        # One of (v, 1) is left out: the lifted one, or for several columns the least, which is costly to refine.
        omitted = int(np.argmax(np.square(vectors[-1]))) if len(vectors) == 2 else 0
        self.spectrum = np.sort(np.minimum(np.delete(likely, omitted), 1.0))
        self.ball_sq = None
        return roots


@dataclass(frozen=True, slots=True, eq=False)
class LastRound:
    """A last round in two pieces of rows (z, c), z = K (v - mean), by the mean and covariance of the rounds before it."""

    base: PublicPrior
    plan: RoundPlan
    rounds: int  # with the last one
    contraction: FloatArray  # from (v, 1) to (z, c)
    map: FloatArray  # and back, to (v, 1)

    @classmethod
    def after(cls, early: FullRounds) -> LastRound:
        """Return the one that follows these rounds."""
        dim = early.plan.dim
        contraction = early.contraction
        root = divided(contraction, np.eye(dim + 1, order="F"))
        # Rows (v, 1) have the second moment root root^T, and root has the last row (l, s): it gives the mean and the covariance.
        line = root[dim, :dim]
        scale = float(root[dim, dim])
        mass = float(line @ line) + scale * scale
        mean = root[:dim, :dim] @ line / mass
        whitener = lower_powers(np.eye(dim) - np.outer(line, line) / mass)[1]
        inverse = whitener @ contraction[:dim, :dim]
        constant = math.sqrt(constant_sq(dim))
        below = np.append(np.zeros(dim), constant)
        back = divided(inverse, np.eye(dim, order="F"))
        return cls(
            early.prior,
            early.plan,
            early.made + 1,
            np.vstack([np.column_stack([inverse, -(inverse @ mean)]), below]),
            np.vstack([np.column_stack([back, mean / constant]), below / constant**2]),
        )

    @property
    def constant(self) -> float:
        """The constant c."""
        return 1.0 / float(self.map[-1, -1])

    @property
    def fourth(self) -> float:
        """Mean of |(z, c)|^4 for white Gaussian rows z."""
        dim = self.plan.dim
        return (dim + constant_sq(dim)) ** 2 + 2.0 * dim

    @property
    def centered(self) -> AffineMap:
        """The map x -> z."""
        return contracted(self.base.affine, self.contraction[:-1])

    @property
    def affine(self) -> AffineMap:
        """The map x -> (z, c)."""
        return contracted(self.base.affine, self.contraction)

    def resolved(self, pieces: RadialMean) -> Resolved:
        """Return the shrunk mean and covariance of v from the released pieces, which estimate the clipping bias."""
        dim = self.plan.dim
        n = self.plan.n
        added, bias_sq = tail_of(pieces, self.fourth)
        second = unpacked(pieces.mean + added * pieces.outer, dim + 1)
        std = math.hypot(1.0, added) * pieces.noise_std
        least = float(spectrum(second)[0][0])
        # The mean needs the moment of rows (v, 1); the covariance is shrunk in the coordinates of the last round.
        moment = self.map @ second @ self.map.T
        mass = max(float(moment[dim, dim]), tuning.LEAST_MASS)
        first = moment[:dim, dim]
        inner = np.ascontiguousarray(self.contraction[:dim, :dim])
        moved = self.contraction[:dim] @ moment[:, dim]
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
            std=std,
            pieces=pieces,
            last=self,
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
        if self.rounds > 1:
            targets[PREVIOUS] = np.eye(dim) * max(float(np.trace(noisy)) / dim, 0.05)
        return targets


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolved:
    """Mean and covariance from second moments, in the coordinates v of the public prior."""

    mean: FloatArray  # the mean without shrinkage
    powers: tuple[FloatArray, FloatArray]  # lower root of the covariance, and its inverse
    error: float  # predicted relative error of the covariance, clipping bias included
    under_resolved: bool  # the least eigenvalue of the last round is within the noise
    details: dict[str, Any]
    std: float  # noise of the diagonal of the second moment
    pieces: RadialMean
    last: LastRound

    @property
    def mean_std(self) -> float:
        """Noise standard deviation of each coordinate of the mean of rows z."""
        return self.std * math.sqrt(0.5) / self.last.constant

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means of (z, c) (z, c)^T clipped to the ball, and of their outer piece."""
        side = self.last.plan.side
        return unpacked(self.pieces.mean, side), unpacked(self.pieces.outer, side)

    @property
    def edge(self) -> float:
        """Lower bound on the distance of the mean from the center of its clipping ball, as a fraction of the radius."""
        back = self.last.map
        constant = self.last.constant
        z = divided(back[:-1, :-1], self.mean[:, None] - constant * back[:-1, -1:])[:, 0]
        ball_sq = max(self.pieces.radius - constant**2, 1.0 / LARGEST)
        return edge_of(z, self.mean_std, math.sqrt(ball_sq))

    @property
    def noise_root(self) -> FloatArray:
        """Root of the noise covariance of `mean`, (dim, dim)."""
        return self.last.map[:-1, :-1] * self.mean_std

    @property
    def mean_bias_sq(self) -> float:
        """Squared error of `mean` beyond noise and sampling, in squared standard deviations of the rows."""
        length_sq = float(np.sum(np.square(self.moments[1][-1, :-1])))
        noise_sq = self.last.plan.dim * self.pieces.piece_std**2 / 2.0
        shown_sq = max(length_sq - noise_sq, 0.0)
        return (unknown_of(self.pieces) / self.last.constant) ** 2 * shown_sq

    @property
    def complete_rows(self) -> CompleteRows:
        """Share of rows without a missing cell, the released mean of the constant of rows (v, 1)."""
        row = self.last.map[-1]
        inside, outer = (np.array(row @ moment @ row) for moment in self.moments)
        return CompleteRows(self.pieces.known(inside, outer, np.array(float(row @ row)), 0.0))
