"""Counts of norms, the clip radius that they choose, and the tail of norms beyond it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import BudgetSplit, divide
from fastpubpriv.distributions.columns import DOWN, lines_of
from fastpubpriv.distributions.line import Line
from fastpubpriv.distributions.support import (
    SignedCounts,
    columns_of,
    doubtful_sum,
    edges_of,
    scales_of,
    undetected_rows,
)
from fastpubpriv.kernels.rows import EXPONENTS
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    ShellCounts,
    check_sum_grids,
)
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.release.account import Account
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session

SHELLS_AN_OCTAVE = 8
# z-score of a significant window of shells; with Laplace noise
STANDS_OUT = 2.75
STANDS_OUT_PURE = 3.7
# noise deviations of a count that rows beyond the last significant shell may reach unnoticed
HIDDEN = 1.5
TYPICAL = 1.5  # default clip radius over sqrt(dim) if no shell count is significant


def choose_ball(
    counts: FloatArray,
    edges: FloatArray,
    std: float,
    shares: BudgetSplit,
    noise: float | None = None,
) -> tuple[float, float]:
    """Return the clip radius of least predicted error, and a bound on the bias of the sum from rows beyond it.

    The counts (edges + 1,) have noise `std`; `noise` is that of one coordinate of the sum at radius 1.
    """
    noise = shares.noise_per_radius if noise is None else noise
    last = -1
    limit = shares.spending.by_tail(STANDS_OUT, STANDS_OUT_PURE)
    for width in (1, 2, 4):
        sums = np.convolve(counts, np.ones(width), "valid")
        significant = np.flatnonzero(sums > limit * std * math.sqrt(width))
        if len(significant):
            last = max(last, int(significant[-1]) + width - 1)
    top = float(edges[-1])
    if last < 0:
        return min(top, TYPICAL * math.sqrt(shares.dim)), 0.0
    cells = np.arange(len(counts))
    line = Line(
        center=np.zeros(1),
        exponent=np.zeros(1, dtype=np.int64),
        # rows beyond the last edge are taken to be at it
        edges=np.concatenate([[0.0], edges, [np.nextafter(top, math.inf)]])[None],
        rows=np.where(cells <= last, counts, 0.0)[None],
        # The squared bias counts whole, and half of its standard deviation.
        variance=np.where(cells <= last, std**2 / 4.0, 0.0)[None],
        spread=np.where(cells == min(last + 2, len(edges)), HIDDEN * std / 2.0, 0.0)[None],
        hidden=np.zeros((1, len(counts))),
    )
    noise_of_ball = 2.0 * noise * math.sqrt(shares.dim)
    box = line.clip(np.zeros((1, 1)), edges[None], noise=noise_of_ball, bias=1.0, corrected=False)
    excess = line.excess(box.upper[:, None], 1.0)
    bias = math.hypot(max(excess.total[0, 0], 0.0), math.sqrt(excess.variance[0, 0]))
    return float(box.upper[0]), bias


LOG2_PARTS = 1
LAW_OCTAVES = 6  # octaves beyond the last significant norm that the tail is extrapolated to
# binary exponents of the smallest and largest distinguished norms; their squares are finite
LEAST = -480
MOST = 480
NEAR_OCTAVES = 3  # octaves below the fullest octave in which quantiles of norms are computed
_FIRST, _LAST = ((exponent + 1022 << LOG2_PARTS) + (1 << LOG2_PARTS) for exponent in (LEAST, MOST))
EDGES = edges_of(LOG2_PARTS)[_FIRST : _LAST + 1]
DRAWS = len(EDGES) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """Estimates from a count of norms."""

    radius: float  # clip radius of least predicted error
    bias: float  # bound on the bias of a sum from rows beyond it
    end: float  # upper end of the last significant shell
    rms: float  # root mean square of the norms
    reason: Reason | None = None  # reason as for a numeric column
    doubt: float = 0.0  # sum of the norms of rows that are not significant but may exist
    # upper bound on the excess of rows beyond the radius, by the counts and the modeled tail
    tail: float = 0.0
    unseen: float = 0.0  # maximum number of undetected rows
    law: TailLaw | None = None  # model of the tail; None if no shell is significant
    shells: Shells | None = None  # counts by norm; None likewise

    def moved(self, added: float) -> Norms:
        """Return the estimates for norms that are larger by a constant."""
        law = self.law
        if law is not None:
            law = replace(
                law,
                middles=law.middles + added,
                end=law.end + added,
                further_edges=law.further_edges + added,
            )
        return replace(
            self, radius=self.radius + added, end=self.end + added, rms=self.rms + added, law=law
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shells:
    """Released `counts` (k,) of n rows with norms between ascending `edges` (k + 1,), up to the last significant shell."""

    edges: FloatArray
    counts: FloatArray
    n: float

    def quantile(self, share: float) -> float | None:
        """Return the quantile of the norms at level `share`; None if it is far below the norms of most detected rows."""
        fullest = int(np.argmax(np.convolve(self.counts, np.ones(1 << LOG2_PARTS), "valid")))
        low = max(fullest - (NEAR_OCTAVES << LOG2_PARTS), 0)
        wanted = (1.0 - share) * self.n
        outside = np.append(0.0, np.maximum.accumulate(np.cumsum(self.counts[low:][::-1])))
        if outside[-1] < wanted:
            return None
        return float(np.exp2(np.interp(wanted, outside, np.log2(self.edges[low:][::-1]))))

    def beyond(self, radius: float, *, power: int) -> float:
        """Return the mean over all rows of max(norm^power - radius^power, 0)."""
        norms = self._between(np.array([[0.25], [0.75]])) ** power
        over = np.maximum(norms - radius**power, 0.0).mean(axis=0)
        # Negative counts are noise; they must not cancel rows, or the least radius would seem best by chance.
        return float(np.sum(np.maximum(self.counts, 0.0) * over) / self.n)

    def best_radius(self, error: Callable[[float], float], *, least: float) -> float:
        """Return the radius that minimizes a predicted error, among `least` and larger candidates up to the last shell."""
        norms = self._between(np.array([[0.5], [1.0]]))
        further: list[float] = norms[norms > least].tolist()
        return min([least, *further], key=error)

    def _between(self, parts: FloatArray) -> FloatArray:
        """Return the norms at fractions `parts` (p, 1) of each shell on a log scale, (p, k)."""
        return np.asarray(self.edges[:-1] ** (1.0 - parts) * self.edges[1:] ** parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TailLaw:
    """Model of norms beyond the last significant shell: sums of |z| - R over the rows beyond a radius R."""

    middles: FloatArray
    counts: FloatArray  # released rows of the shells with these middles (k,), up to `end`
    std: float  # noise of each
    end: float
    inner: float  # rows of the second to last significant octave
    outer: float  # rows of the last significant octave
    later: FloatArray  # (6,), rows of the octaves beyond it
    # rows of the shells beyond it, (k,), and their ascending edges (k + 1,)
    further: FloatArray
    further_edges: FloatArray
    root: float = 0.0  # if positive, sums are of (|z| - R) / |z|^.5, and `far` is multiplied by it

    @property
    def octave_std(self) -> float:
        """Noise of the count of an octave."""
        return math.sqrt(2.0) * self.std

    def between(self, least: float, most: float) -> FloatArray:
        """Return the rows (j,) of each shell beyond `end` that has norms between two numbers."""
        below = self.further_edges[1:] < least
        above = self.further_edges[:-1] > most
        return np.asarray(self.further[~below & ~above])

    @property
    def fall(self) -> float:
        """Ratio of rows in the last octave to those in the previous one."""
        return max(self.outer, self.octave_std) / max(self.inner, self.octave_std)

    def beyond(self, radius: float) -> float:
        """Return the expected sum: counted rows, and further octaves whose ratios decrease geometrically."""
        return self._sum(radius, max(self.outer, self.octave_std), min(self.fall, 0.7), 0.65)

    def most(self, radius: float, leeway: float = 1.0) -> float:
        """Return the sum of the heaviest plausible tail: for slow decay, a power law with `leeway` deviations added to counts."""
        slow = self.fall - 0.15
        allowed = leeway * min(max(5.0 * slow, 0.0), 1.0) * self.octave_std
        outer, inner = (max(each, self.octave_std) for each in (self.outer, self.inner))
        first = min(0.75, (outer + allowed) / max(inner - allowed, self.octave_std))
        return self._sum(radius, outer + allowed, first, min(max(0.65 + 2.0 * slow, 0.65), 1.0))

    def _sum(self, radius: float, rows: float, first: float, bend: float) -> float:
        """Return the counted excess plus that of later octaves with rows * first, * first * bend, ..., bounded by their counts."""
        over = self._over(self.middles, radius)
        total = max(float(over @ self.counts), 0.0)
        ratio = first
        for octave, counted in enumerate(self.later.tolist()):
            rows = min(rows * ratio, max(counted, 0.0) + self.octave_std)
            ratio *= bend
            total += rows * float(self._over(1.3 * self.end * 2.0**octave, radius))
        return math.hypot(total, 0.5 * self.std * float(np.linalg.norm(over)))

    def ratios(self, radius: float) -> tuple[float, float]:
        """Return the ratio of the sum beyond a radius to that of the piece between half of it and it: expected, and largest."""
        least = np.finfo(np.float64).tiny
        here = self.beyond(radius)
        expected = min(3.0, here / max(self.beyond(radius / 2.0) - here, least))
        part = self.most(radius / 2.0, 0.0) - self.most(radius, 0.0)
        return expected, max(expected, min(6.0, self.most(radius) / max(part, least)))

    def counted(self, radius: float) -> float:
        """Return the ratio of the counted sum beyond a radius to the sum of the piece from half of it to it."""
        above = max(float(self._over(self.middles, radius) @ self.counts), 0.0)
        return above / max(
            self.beyond(radius / 2.0) - self.beyond(radius), float(np.finfo(np.float64).tiny)
        )

    def far(self, radius: float) -> float:
        """Return the sum of a few distant rows that noise hides in every count."""
        return (
            0.3 * self.octave_std * float(self._over(3.0 * self.end, radius)) * (self.root or 1.0)
        )

    def _over(self, norms: FloatArray | float, radius: float) -> FloatArray:
        """Return the excess of norms over a radius."""
        return np.maximum(norms - radius, 0.0) / (np.sqrt(norms) if self.root else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCount:
    """Plan of a count of norms and its cost, from public numbers; `left` of the allowance is for the release that follows."""

    shares: BudgetSplit
    dim: int
    # noise per coordinate of the release that follows, which has `dim` of them, at clip radius 1; None for a plain sum
    noise: float | None = None
    squared: bool = False  # norms, shells and radius are those of y y^T, |y|^2

    @classmethod
    def of(cls, account: Account, n: int, dim: int, part: Fraction = Fraction(1)) -> NormCount:
        """Return the plan for a part of the allowance of an account."""
        shares = divide(1, n, account.spending.part(part))
        return cls(shares=replace(shares, log2_parts=LOG2_PARTS), dim=dim)

    @classmethod
    def costing(
        cls,
        cost: Fraction,
        left: Fraction,
        n: int,
        dim: int,
        *,
        spending: Spending,
        noise: float | None = None,
        squared: bool = False,
    ) -> NormCount:
        """Return the plan of a count of this cost, before a release of cost `left`."""
        shares = BudgetSplit(
            n=n,
            dim=1,
            spending=spending,
            cells=cost,
            shells=Fraction(0),
            total=left,
            log2_parts=LOG2_PARTS,
            count_std=spending.at(cost).std("count"),
        )
        return cls(shares=shares, dim=dim, noise=noise, squared=squared)

    @property
    def left(self) -> Fraction:
        """What remains of the allowance."""
        return self.shares.total

    def check_grids(self, account: Account) -> None:
        """Raise before the debit unless the count and one sum have feasible noise grids."""
        self.check_grid()
        check_sum_grids(account, [self.left], self.dim, self.shares.n)

    def check_grid(self) -> None:
        """The same for the count alone."""
        # One more cell than the shells, that of incomplete rows.
        self.shares.spending.at(self.shares.cells).grid("count", DRAWS + 1, self.shares.n)

    def count_norms(
        self, run: Session, affine: AffineMap, public: FloatArray, name: str = "norms of rows"
    ) -> Norms:
        """Release the count and return its estimates, supported by `public` norms (m,)."""
        return self.shown(
            run.release(self.asked(affine), name=name, cost=self.shares.cells).value, public
        )

    def asked(self, affine: AffineMap, *, incomplete: bool = False) -> ShellCounts:
        """Return the measurement that is released; with `incomplete`, its last number is that of rows with a missing cell."""
        return ShellCounts(
            affine=affine, edges=np.sqrt(EDGES) if self.squared else EDGES, incomplete=incomplete
        )

    def shown(self, counts: FloatArray, public: FloatArray) -> Norms:
        """Return the estimates from released counts, supported by `public` norms (m,)."""
        column = column_of(counts, public, self.shares)
        (scale,) = scales_of([column], [self.shares])
        last = scale.above
        n = self.shares.n
        unseen = undetected_rows(self.shares)
        if last is None:
            # Rows at the center need no ball; if nothing is detected, only the public rows can give a radius.
            constant = column.zero > n / 2.0
            radius = float(EDGES[0]) if column.zero else 1.0
            if not constant and len(public) and float(public.max()) > 0.0:
                radius = 2.0 * float(public.max())
            reason = Reason.CONSTANT if constant else Reason.UNRESOLVED
            return Norms(
                radius=radius, bias=0.0, end=radius, rms=radius, reason=reason, unseen=unseen
            )
        edges = edges_of(LOG2_PARTS)[last + 2 - tuning.BELOW * self.shares.parts : last + 2]
        _, above = column.values
        inside = above[last + 2 - len(edges) : last + 1]
        counts = np.concatenate([[n - float(inside.sum())], inside, [0.0]])
        radius, bias = choose_ball(
            counts, edges, self.shares.count_std, replace(self.shares, dim=self.dim), self.noise
        )
        end = float(edges[-1])
        low = edges[:-1] / end
        high = edges[1:] / end
        squares = float(np.maximum(inside, 0.0) @ (low**2 + low * high + high**2)) / 3.0
        rms = end * min(1.0, (squares / n) ** 0.5)
        # The root mean square of all norms, and whether their tail is heavy.
        every = edges_of(LOG2_PARTS)
        line, sides = lines_of([column], [scale], [self.shares])
        whole_sq = min(max(line.second_moment() / n, 0.0), math.ldexp(1.0, 1000))
        root = math.ldexp(math.sqrt(whole_sq), int(line.exponent[0]))
        heavy = bool(sides.heavy.any() or sides.apart.any()) or scale.outlying
        law = self._law(above, last)
        return Norms(
            radius=radius,
            bias=bias,
            end=end,
            rms=max(rms, root),
            reason=Reason.UNRESOLVED
            if not scale.anchored
            else Reason.HEAVY_TAIL
            if heavy
            else None,
            doubt=doubtful_sum(column, scale, self.shares),
            tail=law.most(radius) + law.far(radius),
            unseen=unseen,
            law=law,
            shells=Shells(edges=every[_FIRST : last + 2], counts=above[_FIRST : last + 1], n=n)
            if scale.anchored
            else None,
        )

    def _law(self, counts: FloatArray, last: int) -> TailLaw:
        """Return the tail model of norms whose last significant cell is `last`."""
        parts = self.shares.parts
        edges = edges_of(LOG2_PARTS)
        begin = max(last + 1 - tuning.BELOW * parts, 0)
        end = last + 1
        further = counts[end : end + LAW_OCTAVES * parts]

        def octave(ends: int) -> float:
            return float(counts[max(ends - parts, 0) : max(ends, 0)].sum())

        return TailLaw(
            middles=(edges[begin:end] + edges[begin + 1 : end + 1]) / 2.0,
            counts=counts[begin:end],
            std=self.shares.count_std,
            end=float(edges[end]),
            inner=octave(end - parts),
            outer=octave(end),
            later=np.array([octave(end + k * parts) for k in range(1, LAW_OCTAVES + 1)]),
            further=further,
            further_edges=edges[end : end + len(further) + 1],
        )


def column_of(counts: FloatArray, public: FloatArray, shares: BudgetSplit) -> SignedCounts:
    """Return the counts of norms as signed counts of a column without values below its center."""
    side = EXPONENTS << LOG2_PARTS
    signed = np.zeros((1, 2 * side + 2))
    signed[0, _FIRST:_LAST] = counts[1:-1]
    signed[0, 2 * side] = counts[0]
    (column,) = columns_of(signed, public[:, None], np.zeros(1), [shares])
    variances = np.array(column.variances)
    variances[DOWN] = 0.0
    return replace(column, variances=variances)
