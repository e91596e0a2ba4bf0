"""What clipping takes from a covariance whose rows are not Gaussian, by the second moments of all rounds of CoinPress.

Along an eigenvector of the last moment with eigenvalue s^2, a row of length |z| > R loses a share 1 - R^2 / |z|^2 of its square.
What the variance loses has a normal prior, with the share of a lognormal column as its deviation. An early round clips the same
rows to a ball that is wider along what the last one resolves: the difference of both moments has no sampling error, and shows a
part of the share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.clipping_bias import CONTRADICTION, LEAST_STD, WEIGHTS, lognormal
from fastpubpriv.gaussians.rounds import RoundMoment, Rounds

LOGNORMAL = lognormal(0.8)  # skewness 3.7
POSSIBLE = 1.5  # deviations of a share that it may be above the expected one
# What noise and sampling of Gaussian rows explain: as many times their predicted error.
TIMES_PREDICTED = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class ShapeLoss:
    """The share of variance along each eigenvector of the last moment that clipping took from rows of another shape, (dim,)."""

    expected: FloatArray
    std: FloatArray
    is_significant: FloatArray

    @property
    def significant(self) -> float:
        """The relative Frobenius error along the eigenvectors whose share noise does not explain."""
        return float(np.linalg.norm(np.where(self.is_significant, self.expected, 0.0)))

    def exceeds(self, predicted: float) -> bool:
        """Return whether the error may be a multiple of the predicted one."""
        most = np.linalg.norm(np.maximum(self.expected, 0.0) + POSSIBLE * self.std)
        return bool(most > TIMES_PREDICTED * predicted)


@dataclass(slots=True, eq=False)
class RecordedRounds(Rounds):
    """The state of CoinPress, with the early rounds: the map to the coordinates of each, and its moment."""

    early: list[tuple[FloatArray, RoundMoment]] = field(default_factory=list)

    def update(self, moment: RoundMoment) -> None:
        """See `Rounds.update`."""
        self.early.append((self.contraction.copy(), moment))
        Rounds.update(self, moment)


def lost_share(variance: float, others: float, radius: float, farthest: float) -> float:
    """Return the share of the variance of a lognormal coordinate that a ball takes, beside others of this total variance.

    No row is at more than `farthest` in this coordinate.
    """
    squares = np.minimum(np.square(LOGNORMAL), farthest**2 / variance)
    norms = variance * squares + others
    lost = np.maximum(norms - radius**2, 0.0) / np.maximum(norms, radius**2)
    return max(float(WEIGHTS @ (squares * lost)), LEAST_STD)


def prior_shares(
    variances: FloatArray, total: float, radius: float, farthest: FloatArray
) -> FloatArray:
    """Return `lost_share` of coordinates with these variances (dim,), whose sum is `total`."""
    shares = []
    for variance, most in zip(variances.tolist(), farthest.tolist(), strict=True):
        shares.append(lost_share(variance, max(total - variance, 0.0), radius, most))
    return np.array(shares)


def shape_loss(
    state: RecordedRounds, last: RoundMoment, radius: float, farthest: FloatArray | None
) -> ShapeLoss:
    """Return what the rounds show of the shares; columns of v are at most `farthest`, (dim,), from zero, if that is known."""
    values, vectors = last.spectrum()
    values = np.maximum(values, last.std)
    directions = state.contraction.T @ vectors
    reach = np.full(len(values), math.inf)
    if farthest is not None:
        reach = farthest @ np.abs(directions)
    prior = prior_shares(values, float(values.sum()), radius, reach)
    loss = ShapeLoss(np.zeros(len(values)), prior, np.zeros(len(values), dtype=bool))
    for contraction, moment in state.early:
        # The directions in the coordinates of the early round.
        early = linalg.solve_triangular(contraction, directions, lower=True, trans="T")
        scales = np.square(early).sum(axis=0)
        early_values = np.einsum("ij,ik,kj->j", early, moment.value, early)
        total = float(np.maximum(moment.spectrum()[0], moment.std).sum())
        before = prior_shares(values / scales, total, radius, reach / np.sqrt(scales))
        difference = (early_values - values) / values
        error = np.hypot(last.std, moment.std * scales) / values
        visible = np.maximum(1.0 - before / prior, 0.0)
        precision = 1.0 / prior**2 + (visible / error) ** 2
        std = precision**-0.5
        better = std < loss.std
        expected = visible * difference / (error**2 * precision)
        is_significant = loss.is_significant | (difference > CONTRADICTION * error)
        loss = ShapeLoss(
            expected=np.where(better, expected, loss.expected),
            std=np.where(better, std, loss.std),
            is_significant=is_significant,
        )
    return loss
