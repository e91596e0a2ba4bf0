"""A clip radius for rows about a known centre, from private counts of their norms: no scale has to be known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.columns.balls import choose_ball
from fastpubpriv.estimators.columns.scales import Column, edges_of, pooled, scales_of
from fastpubpriv.estimators.columns.shares import Shares, divide
from fastpubpriv.kernels.columns import EXPONENTS
from fastpubpriv.mechanisms.sums import AffineMap, ShellCounts, check_sum_grids
from fastpubpriv.privacy import gaussian_count_grid, laplace_count_grid
from fastpubpriv.release.account import Account
from fastpubpriv.run import Run

LOG2_PARTS = 1
LEAST, MOST = -480, 480  # exponents of the norms that are told apart: their squares are ordinary numbers
OCTAVES = 10
_FIRST, _LAST = ((exponent + 1022 << LOG2_PARTS) + (1 << LOG2_PARTS) for exponent in (LEAST, MOST))
EDGES = edges_of(LOG2_PARTS)[_FIRST : _LAST + 1]
DRAWS = len(EDGES) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """What a count shows: the clip radius of least predicted error, how far a sum may be off for rows beyond it, the norm where
    rows end, and the root of the mean squared norm.
    """

    radius: float
    bias: float
    end: float
    rms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCount:
    """What a count of norms asks and costs, from public numbers; `left` of the allowance is for what comes after."""

    shares: Shares
    dim: int

    @classmethod
    def of(cls, account: Account, n: int, dim: int, part: Fraction = Fraction(1)) -> NormCount:
        """Divide a part of the allowance of an account."""
        shares = divide(1, n, part * account.allowance, pure=account.pure)
        return cls(shares=replace(shares, log2_parts=LOG2_PARTS), dim=dim)

    @property
    def left(self) -> Fraction:
        """What remains of the allowance."""
        return self.shares.total

    def check_grids(self, account: Account) -> None:
        """Raise now, before the debit, unless the count and one sum have a grid."""
        (laplace_count_grid if self.shares.pure else gaussian_count_grid)(self.shares.cells, DRAWS, self.shares.n)
        check_sum_grids(account, [self.left], self.dim, self.shares.n)

    def look(self, run: Run, affine: AffineMap, public: FloatArray) -> Norms:
        """Release the count, and say what it shows. `public` norms (m,) help."""
        found = run.release(ShellCounts(affine=affine, edges=EDGES), name="norms of rows", cost=self.shares.cells)
        column = column_of(found.value, public, self.shares)
        (scale,) = scales_of([column], [self.shares])
        last, n = scale.above, self.shares.n
        if last is None:
            # Rows at the centre need no ball; where nothing can be told, the public rows are all there is.
            seen = column.zero <= n / 2.0 and len(public) and float(public.max()) > 0.0
            radius = 2.0 * float(public.max()) if seen else float(EDGES[0]) if column.zero else 1.0
            return Norms(radius=radius, bias=0.0, end=radius, rms=radius)
        edges = edges_of(LOG2_PARTS)[last + 2 - OCTAVES * self.shares.parts : last + 2]
        inside = column.above[last + 2 - len(edges) : last + 1]
        counts = np.concatenate([[n - float(inside.sum())], inside, [0.0]])
        ball = choose_ball(counts, edges, self.shares.count_std, replace(self.shares, dim=self.dim))
        end = float(edges[-1])
        squares = float((np.maximum(inside, 0.0) * (edges[1:] / end) ** 2).sum())
        return Norms(radius=ball.radius, bias=ball.bias, end=end, rms=end * min(1.0, (squares / n) ** 0.5))


def column_of(counts: FloatArray, public: FloatArray, shares: Shares) -> Column:
    """The counts of norms as those of a column with nothing below its centre."""
    size = EXPONENTS << LOG2_PARTS
    above = np.zeros(size)
    above[_FIRST:_LAST] = counts[1:-1]
    positive = public[public > 0.0]
    keys = (np.ascontiguousarray(positive).view(np.int64) - 1) >> (52 - LOG2_PARTS)
    above, variance = pooled(above, np.bincount(keys, minlength=size), len(public), shares)
    return Column(
        center=0.0, above=above, below=np.zeros(size), above_var=variance, below_var=np.full(size, shares.count_std**2),
        zero=float(counts[0]), missing=0.0, public_above=np.unique(keys), public_below=np.zeros(0, dtype=np.int64),
    )  # fmt: skip
