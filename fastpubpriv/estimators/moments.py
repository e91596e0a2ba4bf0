"""Means and second moments of derived rows as radial means, with intervals that know what their clipping takes.

The mean of derived rows z in R^D, and of any linear map of it, with an interval that knows what its clipping takes.
A private count of |z| chooses the radius R of a ball. One release then holds two pieces of each row, the part inside R / 2 and the
part between R / 2 and R, whose sum is as noisy as one sum of rows clipped to R under Gaussian noise. The outer piece says, in
each direction, which way the tail pulls; the fall of the counts says by what factor the tail beyond R goes on. Half of that is
added, and the interval allows from none of it to more than all. Privacy note: `mechanisms/notes/two_pieces.md`.

The mean of y y^T for mapped rows y as a radial mean (`moments`): a count of |y|^2, and two second moments, one of each piece.
Half of the vectors of y y^T clipped to |y|^2 <= R is inside R / 2, the second moment of rows clipped to sqrt(R / 2), as it is. The
outer piece is that of y sqrt(min(|y|^2, R) - R / 2) / |y|, zero for rows inside. Each is an ordinary second moment with half of the
allowance. Under Gaussian noise their sum is as noisy as one second moment clipped to R: half the square radius at half the cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.columns.norms import DRAWS, NormCount, Norms
from fastpubpriv.estimators.ladder.schedule import Noise
from fastpubpriv.kernels.rows import rows_quantise
from fastpubpriv.mechanisms.group_covariances import total_of_squares
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    SecondMoment,
    StatisticGram,
    StatisticSum,
    check_gram_grids,
    check_sum_grids,
)
from fastpubpriv.public_draws import normal_quantile
from fastpubpriv.release.account import Account
from fastpubpriv.row_maps import RowMap
from fastpubpriv.session import Run
from fastpubpriv.sources.base import Chunk

HEAVY, HEAVY_AT_MOST = 0.45, 0.7  # ratios of the tail to the outer piece from which a tail is called heavy
SOME_PUBLIC, KURTOSIS = 50, 20.0  # public rows, and their mean |z|^4 over (mean |z|^2)^2 from which it is, too
UNKNOWN_RATIOS = 3.0, 6.0  # where no norm stands out
_ALLOWED, _FAR = 1.2, 0.4
_EXACT = 2**53
LARGEST = 1e100


def count_share(dim: int) -> Fraction:
    """The part of the allowance of a radial mean that its count of norms gets."""
    return Fraction(min(0.3, 0.45 / math.sqrt(dim))).limit_denominator(1000)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoPieces:
    """The public map of a row to its part inside half the radius and its part from there to the radius, (2 D,), over sqrt(R / 2).

    The affine map and the clip to R are those of the C library, on a fine grid, so that a row has the same bits in any company.
    """

    row_map: RowMap  # of y to z in grid steps, clipped to `limit` steps
    scale: float  # sqrt(R / 2) for R = limit steps, in units of a step of z

    @classmethod
    def of(cls, affine: AffineMap, radius: float) -> TwoPieces:
        """The pieces of the rows of an affine map."""
        bound = min(math.isqrt(_EXACT // affine.out_dim), 2**30)
        limit = float(bound - math.isqrt(affine.out_dim) // 2 - 2)
        row_map = affine.row_map(quant_bound=bound, inv_step=limit / radius, limit=limit)
        return cls(row_map=row_map, scale=radius / limit / math.sqrt(radius / 2.0))

    def __call__(self, chunk: Chunk) -> FloatArray:
        """Rows (k, dim) as (k, 2 D) of norm at most sqrt(R)."""
        dim = self.row_map.out_dim
        whole = np.empty((len(chunk), dim), dtype=np.int32)
        rows_quantise(chunk, self.row_map, whole)
        norm = np.sqrt(total_of_squares(np.ascontiguousarray(whole.T, dtype=np.float64)))
        inside = np.minimum(self.row_map.limit / 2.0 / np.maximum(norm, 1.0), 1.0)[:, None]
        out = np.empty((len(chunk), 2 * dim))
        np.multiply(whole, inside * self.scale, out=out[:, :dim])
        np.multiply(whole, (1.0 - inside) * self.scale, out=out[:, dim:])
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class RadialPlan:
    """What a radial mean asks and costs, from public numbers: a count of norms, and one sum of two pieces of each row."""

    dim: int
    n: int
    pure: bool
    count: Fraction
    pieces: Fraction

    @classmethod
    def of(cls, account: Account, n: int, dim: int, part: Fraction, share: Fraction | None = None) -> RadialPlan:
        """For a part of the allowance of an account, of which the count gets a share."""
        given = part * account.allowance
        counted = given * (count_share(dim) if share is None else share)
        return cls(dim=dim, n=n, pure=account.pure, count=counted, pieces=given - counted)

    @property
    def draws(self) -> int:
        """Most draws of noise."""
        return DRAWS + 2 * self.dim

    @property
    def noise(self) -> float:
        """Noise of one coordinate of the sum of both pieces, for rows clipped to radius 1."""
        if self.pure:
            return 4.0 * math.sqrt(self.dim) / float(self.pieces)
        return math.sqrt(2.0 / float(self.pieces))

    def _counting(self) -> NormCount:
        return NormCount.costing(self.count, self.pieces, self.n, self.dim, pure=self.pure, noise=self.noise)

    def check_grids(self, account: Account) -> None:
        """Raise now, before the debit, unless both releases have a grid."""
        self._counting().check_grid()
        check_sum_grids(account, [self.pieces], 2 * self.dim, self.n)

    def measure(
        self, run: Run, affine: AffineMap, public: FloatArray, *, what: str = "rows", counted: float | None = None
    ) -> RadialMean:
        """Release both. `affine` maps the rows of the run to z; `public` norms |z| (m,) help; `counted` rows stand for n."""
        norms = self._counting().look(run, affine, public, name=f"norms of {what}")
        radius = min(max(norms.radius, 1.0 / LARGEST), LARGEST)
        asked = StatisticSum(
            statistic=TwoPieces.of(affine, radius), dim=2 * self.dim, radius=math.sqrt(radius), row_cost=8 * self.dim
        )
        found = run.release(asked, name=f"two pieces of {what}", cost=self.pieces, clip_radius=radius)
        unit, n = math.sqrt(radius / 2.0), float(self.n) if counted is None else counted
        inner, outer = np.split(np.clip(found.value * (unit / n), -LARGEST, LARGEST), 2)
        return RadialMean(
            inner=inner, outer=outer, piece_std=found.noise_std * unit / n, radius=radius, norms=norms, n=n,
            rows=self.n, kurtosis=_kurtosis(public),
        )  # fmt: skip


def _kurtosis(norms: FloatArray) -> float:
    """Mean fourth power of public norms over the squared mean square; 1 where they are too few to tell."""
    if len(norms) < SOME_PUBLIC or not float(norms.max()) > 0.0:
        return 1.0
    squares = (norms / float(norms.max())) ** 2
    return float(np.mean(squares**2)) / float(np.mean(squares)) ** 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Functional:
    """Estimates (k,) of Q E z, the deviation of noise and sampling, and what the tail may add to either side.

    `noise` is the part of `std` that is noise for privacy. `extra` is signed and widens its own side alone.
    """

    value: FloatArray
    std: FloatArray
    noise: FloatArray
    tail: FloatArray
    extra: FloatArray

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (k,) each."""
        half = normal_quantile(0.5 + level / 2.0) * self.std + self.tail
        return self.value - half + np.minimum(self.extra, 0.0), self.value + half + np.maximum(self.extra, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RadialMean:
    """Released means (D,) of both pieces, with noise of deviation `piece_std` for each number, and the norms.

    There are so many `rows`, and sums were divided by `n`, which is less where rows have weights.
    """

    inner: FloatArray
    outer: FloatArray
    piece_std: float
    radius: float
    norms: Norms
    n: float
    rows: int
    kurtosis: float = 1.0

    @property
    def dim(self) -> int:
        """Coordinates."""
        return len(self.inner)

    @property
    def mean(self) -> FloatArray:
        """The mean of the rows clipped to the radius, (D,)."""
        return self.inner + self.outer

    @property
    def noise_std(self) -> float:
        """Noise of each coordinate of `mean`."""
        return math.sqrt(2.0) * self.piece_std

    @property
    def sampling_std(self) -> float:
        """Sampling error of an average coordinate of `mean`."""
        return self.norms.rms * math.sqrt(self.rows / self.dim) / self.n

    @property
    def ratios(self) -> tuple[float, float]:
        """By what factor the tail beyond the radius goes on with the outer piece: as expected, and at most."""
        return UNKNOWN_RATIOS if self.norms.law is None else self.norms.law.ratios(self.radius)

    @property
    def far(self) -> float:
        """What rows that no count can show may add to the length of the mean."""
        return 0.0 if self.norms.law is None else self.norms.law.far(self.radius) / self.n

    @property
    def reason(self) -> str:
        """Why intervals may not hold: "unresolved", "point_mass", "heavy_tail", or nothing."""
        status, (expected, most) = self.norms.status, self.ratios
        if status in ("unresolved", "point_mass"):
            return status
        heavy = status in ("heavy_tail", "faint") or expected > HEAVY or most > HEAVY_AT_MOST
        return "heavy_tail" if heavy or self.kurtosis > KURTOSIS else ""

    def functional(self, rows: FloatArray) -> Functional:
        """What is known of rows (k, D) of linear maps of the mean of all z."""
        return self.known(rows @ self.mean, rows @ self.outer, np.sqrt(np.sum(rows**2, axis=1)))

    def known(
        self, inside: FloatArray, outer: FloatArray, lengths: FloatArray, sampling_std: FloatArray | float | None = None
    ) -> Functional:
        """What is known of linear maps whose values at `mean` and `outer` and whose lengths are these arrays of one shape.

        `sampling_std` is the sampling error of maps of length 1, that of an average coordinate by default.
        """
        sampling = self.sampling_std if sampling_std is None else sampling_std
        doubt = lengths * self.piece_std
        expected, most = self.ratios
        shown = np.maximum(1.0 - doubt**2 / np.maximum(outer**2, 1.0 / LARGEST**2), 0.0)
        pulled = expected * outer * shown
        tail = _ALLOWED * (expected + most) / 2.0 * doubt + np.abs(pulled) / 2.0
        tail += lengths * _FAR * self.far / math.sqrt(self.dim)
        return Functional(
            value=inside + pulled / 2.0,
            std=lengths * np.hypot(self.noise_std, sampling),
            noise=lengths * self.noise_std,
            tail=tail,
            extra=(_ALLOWED * most / max(expected, 1.0 / LARGEST) - 1.0) * pulled,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OuterPart:
    """The public map of a row y to y sqrt(min(|y|^2, R) - R / 2) / |y|, zero where |y|^2 <= R / 2, on a fine grid."""

    row_map: RowMap  # of y in grid steps, clipped to `limit` steps, which are sqrt(R)
    step: float

    @classmethod
    def of(cls, affine: AffineMap, radius: float) -> OuterPart:
        """The outer part for |y|^2 up to `radius`."""
        bound = min(math.isqrt(_EXACT // affine.out_dim), 2**30)
        limit = float(bound - math.isqrt(affine.out_dim) // 2 - 2)
        row_map = affine.row_map(quant_bound=bound, inv_step=limit / math.sqrt(radius), limit=limit)
        return cls(row_map=row_map, step=math.sqrt(radius) / limit)

    def __call__(self, chunk: Chunk) -> FloatArray:
        """The rows of a chunk that are not zero, (k, out_dim)."""
        whole = np.empty((len(chunk), self.row_map.out_dim), dtype=np.int32)
        rows_quantise(chunk, self.row_map, whole)
        y = whole.astype(np.float64)
        square = np.einsum("ij,ij->i", y, y)  # of whole numbers, exact in any order
        half = self.row_map.limit**2 / 2.0
        far = square > half
        found: FloatArray = y[far] * (np.sqrt(1.0 - half / square[far]) * self.step)[:, None]
        return found


def packed(matrix: FloatArray) -> FloatArray:
    """A symmetric matrix (d, d) as a vector (d (d + 1) / 2,) of the same length."""
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))


def unpacked(vector: FloatArray, side: int) -> FloatArray:
    """The matrix (side, side) of a packed one."""
    rows, columns = np.triu_indices(side)
    found = np.empty((side, side))
    found[rows, columns] = found[columns, rows] = vector * np.where(rows == columns, 1.0, math.sqrt(0.5))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SquarePlan:
    """What the radial mean of y y^T, y with `side` coordinates, asks and costs, from public numbers."""

    side: int
    n: int
    pure: bool
    count: Fraction
    pieces: Fraction

    @classmethod
    def of(cls, account: Account, n: int, side: int, part: Fraction) -> SquarePlan:
        """For a part of the allowance of an account."""
        given = part * account.allowance
        counted = given * count_share(side * (side + 1) // 2)
        return cls(side=side, n=n, pure=account.pure, count=counted, pieces=given - counted)

    @property
    def dim(self) -> int:
        """Coordinates of a packed matrix."""
        return self.side * (self.side + 1) // 2

    @property
    def noise(self) -> float:
        """Noise of one coordinate of the sum of both pieces, for rows with |y|^2 clipped to 1."""
        return math.sqrt(0.5) * Noise(self.pure, self.pieces / 2).gram(self.side)

    def _counting(self, amplified: float = 1.0) -> NormCount:
        noise = amplified * self.noise
        return NormCount.costing(self.count, self.pieces, self.n, self.dim, pure=self.pure, noise=noise, squared=True)

    def check_grids(self, account: Account) -> None:
        """Raise now, before the debit, unless all releases have a grid."""
        self._counting().check_grid()
        check_gram_grids(account, [self.pieces / 2], self.side, self.n)

    def measure(
        self, run: Run, affine: AffineMap, public: FloatArray, *, amplified: float = 1.0, most: float = math.inf,
        names: tuple[str, str] = ("norms of rows", "second moment"),
    ) -> RadialMean:  # fmt: skip
        """Release all; `affine` maps the rows of the run to y, and `public` (m,) are |y|^2 of public rows.

        Noise counts `amplified` times in the choice of the ball: more than once where some directions have hardly any variance. No
        |y|^2 is above `most`.
        """
        norms = self._counting(amplified).look(run, affine, public, name=names[0])
        radius = min(max(norms.radius, 1.0 / LARGEST), LARGEST, most)
        ball, cost = math.sqrt(radius / 2.0), self.pieces / 2
        inner = run.release(
            SecondMoment(affine=affine, radius=ball), name=f"{names[1]}, inside", cost=cost, clip_radius=ball
        )
        outside = StatisticGram(
            affine=AffineMap(dim=self.side), radius=ball, statistic=OuterPart.of(affine, radius), row_cost=self.side**2
        )
        outer = run.release(outside, name=f"{names[1]}, outside", cost=cost, clip_radius=ball)
        one, other = (packed(np.clip(each.value / self.n, -LARGEST, LARGEST)) for each in (inner, outer))
        return RadialMean(
            inner=one, outer=other, piece_std=inner.spectral_std / self.n, radius=radius,
            norms=norms, n=float(self.n), rows=self.n,
        )  # fmt: skip
