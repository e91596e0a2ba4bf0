"""Clip radii of whole rows from private counts of their norms, or of shells about a center: no scale has to be known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.columns.clips import sides_of
from fastpubpriv.estimators.columns.scales import (
    SHELLS,
    Column,
    Shares,
    divide,
    doubtful_sum,
    edges_of,
    pooled_counts,
    scales_of,
    undetected_rows,
)
from fastpubpriv.kernels.rows import EXPONENTS
from fastpubpriv.mechanisms.sums import AffineMap, ShellCounts, check_sum_grids
from fastpubpriv.privacy import gaussian_count_grid, laplace_count_grid
from fastpubpriv.release.account import Account
from fastpubpriv.session import Run

SHELLS_AN_OCTAVE = 8
STANDS_OUT, STANDS_OUT_PURE = 2.75, 3.7
HIDDEN = 1.5
TYPICAL = 1.5  # norm of a row of ordinary columns, in roots of their number, where no shell stands out


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBall:
    """Radius, and how far the sum may be off for rows beyond it."""

    radius: float
    bias: float


def shell_edges(top: float) -> FloatArray:
    """Norms between shells, ascending; the last is that of the corner of all boxes."""
    return np.asarray(top * 2.0 ** (-np.arange(SHELLS - 1, -1, -1) / SHELLS_AN_OCTAVE))


def choose_ball(
    counts: FloatArray, edges: FloatArray, std: float, shares: Shares, noise: float | None = None
) -> RowBall:
    """The radius of least predicted error, from counts (edges + 1,) whose noise is `std` rows.

    `noise` is that of one of the `shares.dim` coordinates of what is released next, for radius 1; None is that of a plain sum.
    """
    noise = shares.noise_per_radius if noise is None else noise
    top = float(edges[-1])
    uppers = np.append(edges, top)
    middles = np.append(edges[0] / 2.0, np.append((edges[:-1] + edges[1:]) / 2.0, top))
    last = -1
    limit = STANDS_OUT_PURE if shares.pure else STANDS_OUT
    for width in (1, 2, 4):
        sums = np.convolve(counts, np.ones(width), "valid")
        found = np.flatnonzero(sums > limit * std * math.sqrt(width))
        last = max(last, int(found[-1]) + width - 1 if len(found) else -1)
    if last < 0:
        radius = min(top, TYPICAL * math.sqrt(shares.dim))
        return RowBall(radius=radius, bias=0.0)
    over = np.maximum(middles[: last + 1] - edges[:, None], 0.0)
    excess = np.maximum((over * counts[: last + 1]).sum(axis=1), 0.0)
    excess_std = std * np.sqrt((over**2).sum(axis=1))
    hidden = HIDDEN * std * np.maximum(uppers[min(last + 2, len(uppers) - 1)] - edges, 0.0)
    bias = np.sqrt(excess**2 + (excess_std / 2.0) ** 2 + (hidden / 2.0) ** 2)
    error = bias**2 + shares.dim * (noise * edges) ** 2
    best = int(np.argmin(error))
    return RowBall(radius=float(edges[best]), bias=float(bias[best]))


LOG2_PARTS = 1
LAW_OCTAVES = 6  # beyond the last norm that stands out, which the law of the tail goes on for
LEAST, MOST = -480, 480  # exponents of the norms that are told apart: their squares are ordinary numbers
OCTAVES = 10
_FIRST, _LAST = ((exponent + 1022 << LOG2_PARTS) + (1 << LOG2_PARTS) for exponent in (LEAST, MOST))
EDGES = edges_of(LOG2_PARTS)[_FIRST : _LAST + 1]
DRAWS = len(EDGES) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """What a count shows: the clip radius of least predicted error, how far a sum may be off for rows beyond it, the norm where
    rows end, and the root of the mean squared norm.

    `status` is that of the norms as of a column of numbers. Beyond the radius rows add up to at most `tail`, as far as the counts
    and the tail that they show can tell; `doubt` is what rows that do not stand out, but may be there, add up to; up to `unseen`
    rows may lie anywhere. `law` says how norms fall off, None where nothing stands out.
    """

    radius: float
    bias: float
    end: float
    rms: float
    status: str = "resolved"
    doubt: float = 0.0
    tail: float = 0.0
    unseen: float = 0.0
    law: TailLaw | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TailLaw:
    """How norms go on beyond the last one that stands out: sums of |z| - R over the rows beyond a radius R.

    `counts` (k,) are released rows of the shells with these `middles` (k,), up to `end`, each with noise of `std` rows; `inner`
    and `outer` those of the last octave but one and of the last that stands out, `later` (6,) those of the octaves beyond it.
    """

    middles: FloatArray
    counts: FloatArray
    std: float
    end: float
    inner: float
    outer: float
    later: FloatArray

    @property
    def octave_std(self) -> float:
        """Noise of the count of an octave."""
        return math.sqrt(2.0) * self.std

    @property
    def fall(self) -> float:
        """Rows of the last octave over those of the one before it."""
        return max(self.outer, self.octave_std) / max(self.inner, self.octave_std)

    def beyond(self, radius: float) -> float:
        """The sum that is expected: what was counted, and octaves that fall off faster and faster."""
        return self._sum(radius, max(self.outer, self.octave_std), min(self.fall, 0.7), 0.65)

    def most(self, radius: float, leeway: float = 1.0) -> float:
        """The sum of a tail as heavy as the counts allow: where they fall off slowly, a power law with `leeway` deviations more."""
        slow = self.fall - 0.15
        allowed = leeway * min(max(5.0 * slow, 0.0), 1.0) * self.octave_std
        outer, inner = (max(each, self.octave_std) for each in (self.outer, self.inner))
        first = min(0.75, (outer + allowed) / max(inner - allowed, self.octave_std))
        return self._sum(radius, outer + allowed, first, min(max(0.65 + 2.0 * slow, 0.65), 1.0))

    def _sum(self, radius: float, rows: float, first: float, bend: float) -> float:
        """Counted excess and that of octaves of `rows` times first, times first times bend, ..., none above what was counted."""
        over = np.maximum(self.middles - radius, 0.0)
        found, ratio = max(float(over @ self.counts), 0.0), first
        for octave, counted in enumerate(self.later.tolist()):
            rows = min(rows * ratio, max(counted, 0.0) + self.octave_std)
            ratio *= bend
            found += rows * max(1.3 * self.end * 2.0**octave - radius, 0.0)
        return math.hypot(found, 0.5 * self.std * float(np.linalg.norm(over)))

    def ratios(self, radius: float) -> tuple[float, float]:
        """The sum beyond a radius over that of the part between half of it and it: as expected, and at most."""
        least = np.finfo(np.float64).tiny
        here = self.beyond(radius)
        expected = min(3.0, here / max(self.beyond(radius / 2.0) - here, least))
        part = self.most(radius / 2.0, 0.0) - self.most(radius, 0.0)
        return expected, max(expected, min(6.0, self.most(radius) / max(part, least)))

    def counted(self, radius: float) -> float:
        """What was counted beyond a radius, over the sum of the part between half of it and it."""
        seen = max(float(np.maximum(self.middles - radius, 0.0) @ self.counts), 0.0)
        return seen / max(self.beyond(radius / 2.0) - self.beyond(radius), float(np.finfo(np.float64).tiny))

    def far(self, radius: float) -> float:
        """The sum of a few rows far out that no count can show."""
        return 0.3 * self.octave_std * max(3.0 * self.end - radius, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCount:
    """What a count of norms asks and costs, from public numbers; `left` of the allowance is for what comes after.

    `noise` is that of one of the `dim` coordinates of what comes after, for rows clipped to norm 1; None is that of a plain sum.
    With `squared`, norms are those of y y^T, |y|^2: shells and radius are in units of it.
    """

    shares: Shares
    dim: int
    noise: float | None = None
    squared: bool = False

    @classmethod
    def of(cls, account: Account, n: int, dim: int, part: Fraction = Fraction(1)) -> NormCount:
        """Divide a part of the allowance of an account."""
        shares = divide(1, n, part * account.allowance, pure=account.pure)
        return cls(shares=replace(shares, log2_parts=LOG2_PARTS), dim=dim)

    @classmethod
    def costing(
        cls, cost: Fraction, left: Fraction, n: int, dim: int, *, pure: bool, noise: float, squared: bool = False
    ) -> NormCount:
        """A count of this cost, before something that costs what is `left`."""
        std = math.sqrt(8.0) / float(cost) if pure else 1.0 / math.sqrt(float(cost))
        shares = Shares(
            n=n, dim=1, pure=pure, cells=cost, shells=Fraction(0), total=left, log2_parts=LOG2_PARTS, count_std=std
        )
        return cls(shares=shares, dim=dim, noise=noise, squared=squared)

    @property
    def left(self) -> Fraction:
        """What remains of the allowance."""
        return self.shares.total

    def check_grids(self, account: Account) -> None:
        """Raise now, before the debit, unless the count and one sum have a grid."""
        self.check_grid()
        check_sum_grids(account, [self.left], self.dim, self.shares.n)

    def check_grid(self) -> None:
        """The same for the count alone."""
        (laplace_count_grid if self.shares.pure else gaussian_count_grid)(self.shares.cells, DRAWS, self.shares.n)

    def look(self, run: Run, affine: AffineMap, public: FloatArray, name: str = "norms of rows") -> Norms:
        """Release the count, and say what it shows. `public` norms (m,) help."""
        edges = np.sqrt(EDGES) if self.squared else EDGES
        found = run.release(ShellCounts(affine=affine, edges=edges), name=name, cost=self.shares.cells)
        column = column_of(found.value, public, self.shares)
        (scale,) = scales_of([column], [self.shares])
        last, n, unseen = scale.above, self.shares.n, undetected_rows(self.shares)
        if last is None:
            # Rows at the centre need no ball; where nothing can be told, the public rows are all there is.
            seen = column.zero <= n / 2.0 and len(public) and float(public.max()) > 0.0
            radius = 2.0 * float(public.max()) if seen else float(EDGES[0]) if column.zero else 1.0
            status = "point_mass" if column.zero > n / 2.0 else "unresolved"
            return Norms(radius=radius, bias=0.0, end=radius, rms=radius, status=status, unseen=unseen)
        edges = edges_of(LOG2_PARTS)[last + 2 - OCTAVES * self.shares.parts : last + 2]
        inside = column.above[last + 2 - len(edges) : last + 1]
        counts = np.concatenate([[n - float(inside.sum())], inside, [0.0]])
        ball = choose_ball(counts, edges, self.shares.count_std, replace(self.shares, dim=self.dim), self.noise)
        end = float(edges[-1])
        squares = float((np.maximum(inside, 0.0) * (edges[1:] / end) ** 2).sum())
        rms = end * min(1.0, (squares / n) ** 0.5)
        root, heavy, faint = _side_of(column, last, self.shares)
        law = self._law(column.above, last)
        return Norms(
            radius=ball.radius, bias=ball.bias, end=end, rms=max(rms, root),
            status=("faint" if scale.outlying or faint else "heavy_tail" if heavy else "resolved")
            if scale.anchored else "unresolved",
            doubt=doubtful_sum(column, scale, self.shares), tail=law.most(ball.radius) + law.far(ball.radius),
            unseen=unseen, law=law,
        )  # fmt: skip

    def _law(self, counts: FloatArray, last: int) -> TailLaw:
        """The law of the norms whose outermost cell that stands out is `last`."""
        parts, edges = self.shares.parts, edges_of(LOG2_PARTS)
        begin, end = max(last + 1 - OCTAVES * parts, 0), last + 1

        def octave(ends: int) -> float:
            return float(counts[max(ends - parts, 0) : max(ends, 0)].sum())

        return TailLaw(
            middles=(edges[begin:end] + edges[begin + 1 : end + 1]) / 2.0, counts=counts[begin:end],
            std=self.shares.count_std, end=float(edges[end]), inner=octave(end - parts), outer=octave(end),
            later=np.array([octave(end + k * parts) for k in range(1, LAW_OCTAVES + 1)]),
        )  # fmt: skip


def _side_of(column: Column, last: int, shares: Shares) -> tuple[float, bool, bool]:
    """Root of the mean square of all norms, and whether their tail is heavy or faint; `last` is the last cell that stands out."""
    edges = edges_of(LOG2_PARTS)
    exponent = math.frexp(edges[last + 1])[1]
    sides = sides_of([column.above], [column.above_var], edges, [last], shares.parts, np.array([exponent]))
    *_, whole_sq = np.concatenate(sides.clipped(np.array([[math.inf]])), axis=1)[0].tolist()
    (side,) = sides.each()
    assert side is not None
    rms = min(math.sqrt(max(whole_sq / shares.n, 0.0)), math.ldexp(1.0, 1000))
    return math.ldexp(rms, exponent), side.heavy, side.faint


def column_of(counts: FloatArray, public: FloatArray, shares: Shares) -> Column:
    """The counts of norms as those of a column with nothing below its centre."""
    size = EXPONENTS << LOG2_PARTS
    above = np.zeros(size)
    above[_FIRST:_LAST] = counts[1:-1]
    factor = shares.n / len(public) if len(public) else 0.0
    ((above,),), ((variance,),), (cells,) = pooled_counts(
        above[None], 1, LOG2_PARTS, public[:, None], np.zeros(1), [shares.count_std**2], [factor]
    )
    return Column(
        center=0.0, above=above, below=np.zeros(size), above_var=variance, below_var=np.full(size, shares.count_std**2),
        zero=float(counts[0]), missing=0.0, public_above=cells, public_below=np.zeros(0, dtype=np.int64),
    )  # fmt: skip
