"""The mean of y y^T for mapped rows y as a radial mean (`moments`): a count of |y|^2, and two second moments, one of each piece.

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
from fastpubpriv.estimators.columns.norms import NormCount
from fastpubpriv.estimators.ladder.schedule import Noise
from fastpubpriv.estimators.moments import LARGEST, RadialMean, count_share
from fastpubpriv.kernels.rows import rows_quantise
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment, StatisticGram, check_gram_grids
from fastpubpriv.release.account import Account
from fastpubpriv.row_maps import RowMap
from fastpubpriv.session import Run
from fastpubpriv.sources.base import Chunk

_EXACT = 2**53


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
    found: FloatArray = matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))
    return found


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
