"""Where to clip a column on each side: far enough for its rows, near enough for the noise; and what to put back for the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.columns.scales import Column, Scale, edges_of
from fastpubpriv.estimators.columns.shares import FEW_COLUMNS, Shares
from fastpubpriv.estimators.columns.tails import TINY, Side, side_of

BELOW, BEYOND = 10, 4  # octaves around the last cell in which a clip point may lie
POINTS_AN_OCTAVE = 4
LARGEST_EXPONENT = 1020  # of a clip point, so that the box of a column is finite
MISSING_STDS = 3.0
# Where rows far from all others are looked for: octaves beyond the end of either side, and inside it, and no more deviations of the
# column than this from its mean; beside their counts so many deviations of the counts are allowed for.
FAR, INSIDE, FAR_REACH = 2, 4, 24.0
FAR_STDS = 0.5
# Share of the rows at the centre from which on, and at which fully, a side where nothing can be seen is not believed to be empty.
HALF_AT_CENTER, ALL_AT_CENTER = 0.5, 0.9
FEW_PUBLIC = 5
LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    """What became of one column before the sum; lengths, from the centre, in units of 2^exponent.

    Attributes
    ----------
    below, above : float
        The numbers are clipped to [-below, above].
    correction : float
        Added to the sum for what is cut.
    variance : float
        Of the correction.
    hidden_below, hidden_above : float
        What may be missing from the sum on either side beside it.
    first_mean, mean : float
        From the counts: of the clipped numbers, and of all.
    rms, std : float
        Deviation of a clipped number, and of a number.
    rows : float
        Rows that are not missing.
    missing : float
        Released number of missing rows; zero where it is within the noise.
    """

    exponent: int
    below: float
    above: float
    correction: float
    variance: float
    hidden_below: float
    hidden_above: float
    first_mean: float
    mean: float
    rms: float
    std: float
    rows: float
    missing: float
    sides: tuple[Side | None, Side | None]

    @property
    def middle(self) -> float:
        """Middle of the interval."""
        return (self.above - self.below) / 2.0

    @property
    def radius(self) -> float:
        """Half its length."""
        return (self.above + self.below) / 2.0

    def absolute(self, length: float) -> float:
        """A length in the unit of the column, finite."""
        try:
            found = math.ldexp(length, self.exponent)
        except OverflowError:
            found = math.copysign(math.inf, length)
        return min(max(found, -LARGEST), LARGEST)


def candidates(side: Side | None, exponent: int, bound: float) -> FloatArray:
    """Clip points of a side that are weighed against each other, zero first."""
    if side is None:
        return np.zeros(1)
    begin, end = side.seen - 1 - BELOW * side.parts, side.seen - 1 + BEYOND * side.parts
    edges = side.upper[begin : end + 1]
    steps = max(1, POINTS_AN_OCTAVE // side.parts)
    edges = np.append((edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(steps) / steps)).ravel(), edges[-1])
    most = min(bound, math.ldexp(1.0, min(1000, LARGEST_EXPONENT - exponent)))
    points = np.concatenate([[0.0], np.minimum(edges, most)])  # ascending
    return np.asarray(points[np.append(True, points[1:] != points[:-1])])


def rows_of(column: Column, shares: Shares) -> tuple[float, float]:
    """Rows that are not missing, and rows that are; the latter zero unless it stands out."""
    missing = column.missing if column.missing > MISSING_STDS * shares.count_std else 0.0
    return max(shares.n - missing, 1.0, min(MISSING_STDS * shares.count_std, float(shares.n))), missing


def sides_of(
    column: Column, scale: Scale, shares: Shares, bounds: tuple[float, float] | None
) -> tuple[int, tuple[Side | None, Side | None], tuple[float, float]]:
    """Exponent of the unit, the sides below and above, and how far the bounds let them reach, in that unit."""
    edges = edges_of(shares.log2_parts)
    lasts = scale.below, scale.above
    ends = [math.frexp(edges[last + 1])[1] for last in lasts if last is not None]
    exponent = max(ends, default=0)
    sides: list[Side | None] = []
    reach = (math.inf, math.inf)
    if bounds is not None:
        with np.errstate(all="ignore"):
            low, high = column.center - bounds[0], bounds[1] - column.center
            reach = (float(np.ldexp(max(low, 0.0), -exponent)), float(np.ldexp(max(high, 0.0), -exponent)))
    given = (column.below, column.below_var), (column.above, column.above_var)
    for last, (counts, variances), most in zip(lasts, given, reach, strict=True):
        side = None if last is None else side_of(counts, variances, edges, last, shares.parts, exponent)
        sides.append(side if side is None or most == math.inf else side.limited(most))
    return exponent, (sides[0], sides[1]), reach


def choose(column: Column, scale: Scale, shares: Shares, bounds: tuple[float, float] | None) -> Clip:
    """The clip interval of least predicted error, and what the counts say about it."""
    exponent, seen, reach = sides_of(column, scale, shares, bounds)
    sides = with_empty_side(column, seen, shares, exponent, reach)
    points = [candidates(side, exponent, most) for side, most in zip(sides, reach, strict=True)]
    excess, variance, hidden = zip(
        *(
            (np.zeros(1), np.zeros(1), np.zeros(1)) if side is None else side.excess(clips)
            for side, clips in zip(sides, points, strict=True)
        ),
        strict=True,
    )
    radius = (points[0][:, None] + points[1]) / 2.0
    below_risk, above_risk = (
        risk if side is not None else believed_risk(cut, risk)
        for side, cut, risk in zip(seen, excess, variance, strict=True)
    )
    error = (radius * shares.noise_per_clip) ** 2 + below_risk[:, None] + above_risk
    at = np.unravel_index(int(np.argmin(error)), error.shape)
    below, above = float(points[0][at[0]]), float(points[1][at[1]])
    rows, missing = rows_of(column, shares)
    first, first_sq, whole, whole_sq = moments(sides, below, above)
    first_mean = min(max(first / rows, -below), above)
    mean = whole / rows
    std = math.sqrt(max(0.0, whole_sq / rows - mean**2))
    counted = (column.below, column.below_var), (column.above, column.above_var)
    unseen = []
    for place, clip in enumerate((below, above)):
        possible = min(reach[place], max(0.0, FAR_REACH * std + (mean if place else -mean)))
        unseen.append(
            max(
                float(hidden[place][at[place]]),
                unseen_far(seen, place, counted[place], clip, possible, exponent, shares),
                unseen_beside(seen, place, counted[place][0], column.zero / rows, reach[place], shares),
            )
        )
    return Clip(
        exponent=exponent,
        below=below,
        above=above,
        correction=put_back(excess[1][at[1]], variance[1][at[1]]) - put_back(excess[0][at[0]], variance[0][at[0]]),
        variance=float(variance[0][at[0]] + variance[1][at[1]]),
        hidden_below=unseen[0],
        hidden_above=unseen[1],
        first_mean=first_mean,
        mean=mean,
        rms=math.sqrt(max(0.0, first_sq / rows - first_mean**2)),
        std=std,
        rows=rows,
        missing=missing,
        sides=seen,
    )


def with_empty_side(
    column: Column,
    sides: tuple[Side | None, Side | None],
    shares: Shares,
    exponent: int,
    reach: tuple[float, float],
) -> tuple[Side | None, Side | None]:
    """The sides to weigh clip points on: one where no cell stands out ends an octave, or two whole cells, inside the other.

    A public row near an end of a column leaves few rows on one side of it, too few for a cell to stand out, and far too many to
    clip all of them to that row: their counts are weighed as those of the other side are. Where most rows are at the public one, as
    in a column of few ones among zeros, nothing is known to lie beside it.
    """
    below, above = sides
    if (below is None) == (above is None) or column.zero > HALF_AT_CENTER * shares.n:
        return sides
    other = below or above
    assert other is not None
    counts, variances = (column.below, column.below_var) if below is None else (column.above, column.above_var)
    last = max(other.last - max(shares.parts, 2), 0)
    side = side_of(counts, variances, edges_of(shares.log2_parts), last, shares.parts, exponent)
    side = side.limited(reach[0 if below is None else 1])
    return (side, above) if below is None else (below, side)


def believed_risk(excess: FloatArray, variance: FloatArray) -> FloatArray:
    """Squared error of clipping a side where no cell stands out, (k,): none where its counts do not suggest any rows."""
    suggested = np.maximum(excess, 0.0) ** 2
    return np.asarray(variance * (suggested / np.maximum(suggested + variance, TINY)))


def put_back(excess: float, variance: float) -> float:
    """What is added for numbers that a side cuts: its noisy sum, less the share of it that noise explains (James and Stein).

    As it stands, the sum of cells that hold nothing would add its noise to nearly every column.
    """
    return max(0.0, float(excess) - float(variance) / float(excess)) if excess > 0.0 else 0.0


def unseen_far(
    sides: tuple[Side | None, Side | None],
    place: int,
    counted: tuple[FloatArray, FloatArray],
    clip: float,
    reach: float,
    exponent: int,
    shares: Shares,
) -> float:
    """What rows far from all others may add to the sum beyond `clip`: rows of a side past its last cell that stands out.

    No tail tells of them: a column that ends like a cliff may hold a few rows further out all the same, on either side. `counted`
    are the counts of one side and their variances.
    """
    lasts = [each.last for each in sides if each is not None]
    if not lasts:
        return 0.0
    counts, variances = counted
    side = sides[place]
    begin = max(0, max(lasts) + 1 - INSIDE * shares.parts) if side is None else side.last + 1
    end = min(len(counts), max(lasts) + 1 + FAR * shares.parts)
    edges = np.minimum(np.ldexp(edges_of(shares.log2_parts)[begin : end + 1], -exponent), reach)
    expected = np.zeros(end - begin)
    if side is not None:
        beyond = side.mass[side.seen :][: end - begin]
        expected[: len(beyond)] = beyond
    over = np.where(edges[1:] > edges[:-1], np.maximum((edges[:-1] + edges[1:]) / 2.0 - clip, 0.0), 0.0)
    std = math.sqrt(float((variances[begin:end] * over**2).sum()))
    return max(0.0, float(((counts[begin:end] - expected) * over).sum()) + FAR_STDS * std)


def unseen_beside(
    sides: tuple[Side | None, Side | None],
    place: int,
    counts: FloatArray,
    at_center: float,
    reach: float,
    shares: Shares,
) -> float:
    """What may hide on a side where no cell stands out, if most rows are at the centre: as far away as the other side's end.

    A column that rarely differs from its usual value may do so to both sides; where the centre is no such value, an empty side
    means that the centre is at an end.
    """
    other = sides[1 - place]
    if sides[place] is not None or other is None:
        return 0.0
    weight = min(1.0, max(0.0, (at_center - HALF_AT_CENTER) / (ALL_AT_CENTER - HALF_AT_CENTER)))
    cells = counts[max(0, other.last + 1 - shares.parts) : other.last + 1 + shares.parts]
    return weight * (max(0.0, float(cells.sum())) + shares.count_std * math.sqrt(len(cells))) * min(other.end, reach)


def moments(sides: tuple[Side | None, Side | None], below: float, above: float) -> tuple[float, float, float, float]:
    """Sums of the numbers clipped to [-below, above] and of their squares, then the same without clipping."""
    found = [0.0, 0.0, 0.0, 0.0]
    for sign, side, clip in ((-1.0, sides[0], below), (1.0, sides[1], above)):
        if side is not None:
            for place, limit in ((0, clip), (2, math.inf)):
                total, squares = side.clipped(limit)
                found[place] += sign * total
                found[place + 1] += squares
    return found[0], found[1], found[2], found[3]


def from_public(column: Column, public: FloatArray, shares: Shares) -> Clip:
    """The range of the public numbers, widened by its own length on each side, where the counts cannot show a scale."""
    low, high = float(public.min()), float(public.max())
    length = high - low
    exponent = math.frexp(length)[1] if length > 0.0 else 0
    rows, missing = rows_of(column, shares)
    above = math.ldexp(high - column.center + length, -exponent)
    below = math.ldexp(column.center - low + length, -exponent)
    mean = math.ldexp(float(public.mean()) - column.center, -exponent)
    std = math.ldexp(float(public.std(ddof=1)), -exponent)
    return Clip(
        exponent=exponent, below=below, above=above, correction=0.0, variance=0.0, hidden_below=0.0, hidden_above=0.0,
        first_mean=mean, mean=mean, rms=std, std=std, rows=rows, missing=missing, sides=(None, None),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Map:
    """How a column's clipped numbers enter the sum: y = (clipped - middle) / width, in the unit of its clip."""

    clip: Clip
    middle: float
    width: float

    @property
    def used(self) -> bool:
        """False for a column that is left out: nothing of it is clipped, or its box is none of ordinary numbers."""
        box = (self.clip.below, self.clip.above, self.width)
        return (
            self.clip.radius > 0.0 and self.width > 0.0 and self.clip.absolute(min(each for each in box if each)) > 0.0
        )

    @property
    def reach(self) -> float:
        """Largest |y|."""
        return max(self.clip.above - self.middle, self.middle + self.clip.below) / self.width


def map_of(clip: Clip, dim: int) -> Map:
    """Centre and width of a column: of its interval where columns are few, of its rows where they are many."""
    if dim == 1:
        return Map(clip=clip, middle=clip.middle, width=clip.radius)
    share = min(1.0, max(0.0, (dim - 1) / 5.0))
    middle = (1.0 - share) * clip.middle + share * clip.first_mean
    extent = max(clip.above - middle, middle + clip.below)
    if dim <= FEW_COLUMNS:
        return Map(clip=clip, middle=middle, width=extent)
    width = max(min(clip.rms, extent), extent / (0.9 * math.sqrt(dim) + 1.6))
    return Map(clip=clip, middle=middle, width=width)
