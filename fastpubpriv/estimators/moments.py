"""Counts of norms that choose the clip radius, and means of radially clipped rows whose intervals include the bias of clipping.

A private count of |z| chooses the radius R of a ball. One release then holds two pieces of each row, the part inside R / 2 and the
part from there to R, whose sum is as noisy as one sum of rows clipped to R under Gaussian noise. The outer piece estimates the
direction of the tail's bias, and the decay of the counts its size, as a multiple of the outer piece. Half of this bias is added to
the mean, and the interval ranges from none of it to more than all. Privacy note: `mechanisms/notes/two_pieces.md`.

The mean of y y^T for mapped rows y is a case of this: a count of |y|^2, and two second moments in one pass, of rows clipped to
sqrt(R / 2), and of y sqrt(min(|y|^2, R) - R / 2) / |y|, zero for rows inside. Each has half of the allowance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.distributions.norms import NormCount, Norms
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    MomentPieces,
    RadialPieces,
    Released,
    check_gram_grids,
    check_sum_grids,
)
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.release.account import Account
from fastpubpriv.results.public_draws import normal_quantile
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session

# expected and largest ratio of tail to outer piece above which a tail is heavy
HEAVY = 0.45
HEAVY_AT_MOST = 0.7
# minimum public rows, and their kurtosis of norms above which the tail is heavy too
SOME_PUBLIC = 50
KURTOSIS = 20.0
UNKNOWN_RATIOS = 3.0, 6.0  # these ratios if no norm is significant
# the largest for one column, as counts are of whole rows, which decay as most columns do
LONGEST = UNKNOWN_RATIOS[1]
_ALLOWED, _FAR = 1.2, 0.4  # factors on the tails, and on the effect of distant rows, in intervals
LARGEST = 1e100  # bound on radii and means, so that squares are finite


def count_share(dim: int) -> Fraction:
    """Return the share of the count of norms in the allowance of a radial mean."""
    return Fraction(min(0.3, 0.45 / math.sqrt(dim))).limit_denominator(1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class RadialPlan:
    """Plan of a radial mean and its costs, from public numbers: a count of norms, and one sum of two pieces of each row."""

    dim: int
    n: int
    spending: Spending  # in the law of the noise; `count`, `pieces` and `squares` are parts of it
    count: Fraction
    pieces: Fraction
    squares: Fraction = Fraction(0)  # additional cost of the second moment of rows
    # number of coordinates of y if z is y y^T, packed into `dim` ones; norms are then |y|^2
    side: int = 0

    @classmethod
    def of_squares(
        cls,
        account: Account,
        n: int,
        side: int,
        part: Fraction = Fraction(1),
        *,
        counts: bool = True,
    ) -> RadialPlan:
        """Return the plan for y y^T from a part of the allowance of an account; without `counts`, the radius must be public."""
        given = part * account.allowance
        dim = side * (side + 1) // 2
        counted = given * count_share(dim) if counts else Fraction(0)
        return cls(
            dim=dim,
            n=n,
            spending=account.spending,
            count=counted,
            pieces=given - counted,
            side=side,
        )

    @property
    def noise(self) -> float:
        """Noise of one coordinate of the sum of both pieces, for rows clipped to radius 1, or |y|^2 clipped to 1."""
        if self.side:
            return math.sqrt(0.5) * self.spending.at(self.pieces / 2).std("moment", self.side)
        return self.spending.at(self.pieces).std("parts", self.dim)

    def counting(self, amplified: float = 1.0) -> NormCount:
        """Return the plan of the count; the ball is chosen for `amplified` times the noise, for directions of little variance."""
        noise = amplified * self.noise
        return NormCount.costing(
            self.count,
            self.pieces,
            self.n,
            self.dim,
            spending=self.spending,
            noise=noise,
            squared=self.side > 0,
        )

    def check_grids(self, account: Account) -> None:
        """Raise before the debit unless all releases have feasible noise grids."""
        if self.count:
            self.counting().check_grid()
        check, dim = (check_gram_grids, self.side) if self.side else (check_sum_grids, self.dim)
        check(account, [self.pieces / 2], dim, self.n)

    def measure(
        self,
        run: Session,
        affine: AffineMap,
        public: FloatArray,
        *,
        names: tuple[str, str] = ("norms of rows", "two pieces of rows"),
        counted: float | None = None,
        radius: float | None = None,
    ) -> RadialMean:
        """Release the count and the pieces of z = affine(x); `public` has |z|, `counted` replaces n."""
        count = self.counting()
        if radius is None:
            norms = count.count_norms(run, affine, public, name=names[0])
            return self.pieces_of(run, affine, norms, public, name=names[1], counted=counted)
        # With a `radius`, which is public, both in one pass.
        asked = RadialPieces(
            affine=affine,
            radius=radius,
            squares=self.squares,
            counts=count.asked(affine),
            counted=self.count,
        )
        cost = self.count + self.pieces + self.squares
        joint = run.release(asked, name=" and ".join(names), cost=cost, clip_radius=radius)
        assert joint.counts is not None
        norms = count.shown(joint.counts, public)
        return self._mean(norms, public, radius, joint, counted)

    def pieces_of(
        self,
        run: Session,
        affine: AffineMap,
        norms: Norms,
        public: FloatArray,
        *,
        name: str,
        counted: float | None = None,
        most: float = math.inf,
    ) -> RadialMean:
        """Release the pieces of rows whose norms were counted."""
        radius = min(max(norms.radius, 1.0 / LARGEST), LARGEST, most)
        ball = math.sqrt(radius / 2.0) if self.side else radius
        asked: RadialPieces | MomentPieces = RadialPieces(
            affine=affine, radius=radius, squares=self.squares
        )
        if self.side:
            asked = MomentPieces(affine=affine, radius=ball)
        released = run.release(asked, name=name, cost=self.pieces + self.squares, clip_radius=ball)
        return self._mean(norms, public, radius, released, counted)

    def _mean(
        self,
        norms: Norms,
        public: FloatArray,
        radius: float,
        released: Released,
        counted: float | None,
    ) -> RadialMean:
        """Return the estimates from the sums of both pieces."""
        pieces = released.value
        std = released.noise_std
        if self.side:
            pieces = np.array([packed(each) for each in pieces])
            std = released.spectral_std
        n = float(self.n) if counted is None else counted
        inner, outer = np.clip(pieces / n, -LARGEST, LARGEST)
        return RadialMean(
            inner=inner,
            outer=outer,
            piece_std=std / n,
            radius=radius,
            norms=norms,
            n=n,
            rows=self.n,
            squares=released.moment,
            kurtosis=1.0 if self.side else kurtosis(public),
        )


def kurtosis(norms: FloatArray) -> float:
    """Return the mean fourth power of public norms over the squared mean square; 1 with fewer than SOME_PUBLIC rows."""
    if len(norms) < SOME_PUBLIC or not float(norms.max()) > 0.0:
        return 1.0
    squares = (norms / float(norms.max())) ** 2
    return float(np.mean(squares**2)) / float(np.mean(squares)) ** 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Functional:
    """Estimates (k,) of Q E z for a matrix Q, their standard errors, and tail allowances on either side."""

    value: FloatArray
    std: FloatArray
    noise: FloatArray  # the part of `std` from privacy noise
    tail: FloatArray
    extra: FloatArray  # signed; widens the interval on the side of its sign only

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (k,) each."""
        half = normal_quantile(0.5 + level / 2.0) * self.std + self.tail
        return self.value - half + np.minimum(self.extra, 0.0), self.value + half + np.maximum(
            self.extra, 0.0
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RadialMean:
    """Released means (D,) of both pieces, and the estimates of norms."""

    inner: FloatArray
    outer: FloatArray
    piece_std: float  # noise of each number of either
    radius: float
    norms: Norms
    n: float  # divisor of the sums: less than `rows` if these have weights
    rows: int
    kurtosis: float = 1.0
    squares: Released | None = None  # second moment of the rows, clipped to the radius
    # no row can lie beyond the radius, which reaches the farthest corner of the bounds
    reached: bool = False

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.inner)

    @property
    def mean(self) -> FloatArray:
        """The mean of the rows clipped to the radius, (D,)."""
        return self.inner + self.outer

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in each coordinate of `mean`."""
        return math.sqrt(2.0) * self.piece_std

    @property
    def sampling_std(self) -> float:
        """Sampling error of an average coordinate of `mean`."""
        return self.norms.rms * math.sqrt(self.rows / self.dim) / self.n

    @property
    def ratios(self) -> tuple[float, float]:
        """Ratio of the tail beyond the radius to the outer piece: expected, and largest plausible."""
        if self.reached:
            return 0.0, 0.0
        return UNKNOWN_RATIOS if self.norms.law is None else self.norms.law.ratios(self.radius)

    @property
    def far(self) -> float:
        """Bound on the effect of rows that noise hides on the norm of the mean."""
        return 0.0 if self.norms.law is None else self.norms.law.far(self.radius) / self.n

    @property
    def reason(self) -> Reason | None:
        """Reason that intervals may be invalid: UNRESOLVED, HEAVY_TAIL, or None."""
        reason = self.norms.reason
        expected, most = self.ratios
        if reason in (Reason.UNRESOLVED, Reason.CONSTANT):
            return Reason.UNRESOLVED
        heavy = reason is not None or expected > HEAVY or most > HEAVY_AT_MOST
        return Reason.HEAVY_TAIL if heavy or self.kurtosis > KURTOSIS else None

    def pulled(self, outer: FloatArray, lengths: FloatArray) -> FloatArray:
        """Return the expected part beyond the radius of maps of the mean, as far as noise shows their outer pieces."""
        doubt_sq = (lengths * self.piece_std) ** 2
        shown = np.maximum(1.0 - doubt_sq / np.maximum(outer**2, 1.0 / LARGEST**2), 0.0)
        return np.asarray(self.ratios[0] * outer * shown)

    def functional(self, rows: FloatArray) -> Functional:
        """Return the estimates for the linear maps in `rows` (k, D) of the mean of all z, with the tail in the allowances alone."""
        # Half of the tail's correction in the value multiplies outer pieces of a handful of rows.
        inside = rows @ self.mean
        known = self.known(inside, rows @ self.outer, np.sqrt(np.sum(rows**2, axis=1)))
        return replace(known, value=inside)

    def known(
        self,
        inside: FloatArray,
        outer: FloatArray,
        lengths: FloatArray,
        sampling_std: FloatArray | float | None = None,
    ) -> Functional:
        """Return the estimates for linear maps from their values at `mean` and `outer`, and norms; `sampling_std` is for norm 1."""
        sampling = self.sampling_std if sampling_std is None else sampling_std
        doubt = lengths * self.piece_std
        expected, most = self.ratios
        pulled = self.pulled(outer, lengths)
        tail = _ALLOWED * (expected + most) / 2.0 * doubt + np.abs(pulled) / 2.0
        tail += lengths * _FAR * self.far / math.sqrt(self.dim)
        return Functional(
            value=inside + pulled / 2.0,
            std=lengths * np.hypot(self.noise_std, sampling),
            noise=lengths * self.noise_std,
            tail=tail,
            extra=(_ALLOWED * most / max(expected, 1.0 / LARGEST) - 1.0) * pulled,
        )


def longest_tail(over: FloatArray, noise: FloatArray | float) -> FloatArray:
    """Return the longest tails of numbers whose outer pieces exceed those of light tails by `over`, as far as noise shows it."""
    shown = np.maximum(1.0 - (2.0 * noise) ** 2 / np.maximum(over**2, 1.0 / LARGEST**2), 0.0)
    return np.asarray(LONGEST * over * shown)


def packed(matrix: FloatArray) -> FloatArray:
    """Return a symmetric matrix (d, d) as a vector (d (d + 1) / 2,) whose l2 norm is the Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))


def unpacked(vector: FloatArray, side: int) -> FloatArray:
    """Return the symmetric matrix (side, side) of a packed vector."""
    rows, columns = np.triu_indices(side)
    matrix = np.empty((side, side))
    matrix[rows, columns] = matrix[columns, rows] = vector * np.where(
        rows == columns, 1.0, math.sqrt(0.5)
    )
    return matrix
