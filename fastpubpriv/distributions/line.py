"""The counted line: rows between ascending edges, the tails beyond them, and the box that clips values and restores their mean.

The m rows of a cell (l, u] are taken as uniform in it. Beyond a point t, with far = max(u - t, 0), near = max(l - t, 0) and part =
far - near, a value of the cell exceeds t by (far^2 - near^2) / (2 (u - l)) on average, called `over`. The excess of all cells is
sum(m over); its variance is sum(variance over^2) + (sum(spread over))^2 + sum((m part)^2) / 12, the last because nobody knows where
in its cell the mass of a cell lies. A box from a to b minimizes the predicted squared error of a sum of clipped values,

    ((b - a) / 2 noise)^2 + variance below a + variance above b + bias (excess below a + excess above b)^2.

Tails (`tails`): from one octave to the next rows fall by at least half, since a heavier tail has no mean, and at least as fast as
they did before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.distributions import tuning

TINY = float(np.finfo(np.float64).tiny)
LARGEST = float(np.finfo(np.float64).max)
POINTS_OF_CELL = 8  # cells of a line of squares for each cell of the line


# an excess of zero leaves nothing
@np.errstate(over="ignore")
def shrunk(excess: FloatArray, variance: FloatArray) -> FloatArray:
    """Positive part of a noisy excess, less the part that noise explains (positive-part James-Stein)."""
    return np.asarray(np.maximum(excess - variance / np.maximum(excess, TINY), 0.0))


class Excess(NamedTuple):
    """Sum by which rows lie beyond points, its variance, and what undetected rows may add, (lines, points) each."""

    total: FloatArray
    variance: FloatArray
    hidden: FloatArray

    def at(self, places: IntArray) -> Excess:
        """Excess over one point of each line, (lines,) each."""
        return Excess(*(_at(numbers, places) for numbers in self))

    def risk(self, occupied: BoolArray) -> FloatArray:
        """Variance of the sums; of a line that is not `occupied` here, the part that its counts suggest."""
        if occupied.all():
            return self.variance
        suggested = np.maximum(self.total, 0.0) ** 2
        believed = suggested / np.maximum(suggested + self.variance, TINY)
        return np.asarray(self.variance * np.where(occupied[:, None], 1.0, believed))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClipBox:
    """Clip points of lines, (lines,) each: values are released as (clipped - middle) / half, and decoded with the same numbers.

    Lengths are from the center in units of 2^exponent.
    """

    center: FloatArray
    exponent: IntArray
    lower: FloatArray
    upper: FloatArray
    middle: FloatArray
    half: FloatArray
    back: FloatArray  # added to the sum of the clipped values
    variance: FloatArray  # of `back`
    hidden: FloatArray  # (lines, 2): bound on the excess of undetected rows, below and above

    def decode(self, total: FloatArray, rows: FloatArray) -> FloatArray:
        """Mean of all values, from the sum of what was released of so many rows."""
        return np.asarray(self.middle + (self.half * total + self.back) / rows)

    def absolute(self, lengths: FloatArray) -> FloatArray:
        """Lengths (lines, ...) in data units, clipped to finite numbers; NaN (unknown) becomes the largest float."""
        return absolute(lengths, self.exponent.reshape(-1, *[1] * (lengths.ndim - 1)))

    def placed(self, lengths: FloatArray) -> FloatArray:
        """Values at these lengths from the centers, in data units."""
        return np.asarray(np.clip(self.center + self.absolute(lengths), -LARGEST, LARGEST))


def absolute(lengths: FloatArray, exponent: IntArray) -> FloatArray:
    """Lengths in units of 2^exponent as finite numbers in data units; NaN becomes the largest float."""
    with np.errstate(over="ignore"):
        values = np.ldexp(lengths, exponent)
    # np.fmin leaves out NaN
    return np.asarray(np.maximum(np.fmin(values, LARGEST), -LARGEST))


def _overlaps(
    edges: FloatArray, points: FloatArray | float, sign: float
) -> tuple[FloatArray, FloatArray]:
    """Mean excess of the values of each cell over points, and the length of its part beyond them; the last axis has the edges."""
    beyond = np.maximum(edges - points if sign > 0.0 else points - edges, 0.0)
    one = beyond[..., 1:]
    other = beyond[..., :-1]
    part = np.abs(one - other)
    width = np.maximum(np.abs(edges[..., 1:] - edges[..., :-1]), TINY)
    return np.asarray((one + other) * part / (2.0 * width)), part


def excess_above(
    point: float, edges: FloatArray, rows: FloatArray, variance: FloatArray
) -> tuple[float, float]:
    """Sum by which counted rows of cells between `edges` lie above a point, and its variance."""
    over, part = _overlaps(edges, point, 1.0)
    of_place = part**2 @ np.maximum(rows, 0.0) ** 2 / 12.0
    return float(over @ rows), float(over**2 @ variance + of_place)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """Rows of columns, or of the groups of one column, between ascending edges, in units of 2^exponent from a center."""

    center: FloatArray  # (lines,), or (1,) for all lines; like exponent
    exponent: IntArray
    edges: FloatArray  # (lines or 1, cells + 1)
    rows: FloatArray  # (lines, cells)
    variance: FloatArray  # of counted rows
    spread: FloatArray  # standard deviation of predicted rows, common to all cells of a tail
    hidden: FloatArray  # upper bound of rows

    @property
    def lower(self) -> FloatArray:
        """Lower edges of the cells."""
        return self.edges[:, :-1]

    @property
    def upper(self) -> FloatArray:
        """Upper edges of the cells."""
        return self.edges[:, 1:]

    def relative(self, values: FloatArray) -> FloatArray:
        """Lengths from the centers, of values in data units."""
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(values - self.center, -self.exponent))

    def within(self, lowest: FloatArray, highest: FloatArray) -> Line:
        """Line whose edges are clipped to bounds in data units, (lines,) each: no cell or tail lies beyond them."""
        begin = self.relative(lowest)[:, None]
        end = self.relative(highest)[:, None]
        return replace(self, edges=np.clip(self.edges, begin, end))

    @np.errstate(all="ignore")
    def excess(self, points: FloatArray, sign: float) -> Excess:
        """Excess of the rows over points (lines or 1, k), above them with sign 1, below them with -1."""
        over, part = _overlaps(self.edges[:, None, :], points[:, :, None], sign)

        def total(weights: FloatArray, cells: FloatArray) -> FloatArray:
            return np.asarray(np.matmul(weights, cells[:, :, None])[:, :, 0])

        variance = total(over**2, self.variance) + total(over, self.spread) ** 2
        variance += total(part**2, np.maximum(self.rows, 0.0) ** 2) / 12.0
        hidden = total(over, np.maximum(self.hidden - self.rows, 0.0))
        return Excess(total(over, self.rows), variance, hidden)

    def clip(
        self,
        lower: FloatArray,
        upper: FloatArray,
        *,
        noise: float,
        bias: float = 0.0,
        corrected: bool = True,
        occupied: BoolArray | None = None,
    ) -> ClipBox:
        """Box of least predicted squared error between points `lower` and `upper`, (lines or 1, k) each.

        `noise` is that of a sum of values in [-1, 1]; `occupied` (lines, 2), whether rows are seen below and above. Sums that are
        not `corrected` for what was clipped are biased by all of it, not by the part of it that noise does not explain.
        """
        below = self.excess(lower, -1.0)
        above = self.excess(upper, 1.0)
        if occupied is None:
            occupied = np.ones((len(self.rows), 2), dtype=bool)
        half = (upper[:, None, :] - lower[:, :, None]) / 2.0
        error = np.where(half >= 0.0, (half * noise) ** 2, np.inf)
        error = error + below.risk(occupied[:, 0])[:, :, None]
        error += above.risk(occupied[:, 1])[:, None, :]
        if bias:
            explained = 1.0 if corrected else 0.0
            down = shrunk(below.total, explained * below.variance)
            up = shrunk(above.total, explained * above.variance)
            error += bias * (down[:, :, None] + up[:, None, :]) ** 2
        best = error.reshape(len(error), -1).argmin(axis=1)
        low, high = np.divmod(best, upper.shape[1])
        return self._box(_at(lower, low), _at(upper, high), below.at(low), above.at(high))

    def box(self, lower: FloatArray, upper: FloatArray) -> ClipBox:
        """Box from `lower` to `upper`, (lines,) each."""
        first = np.zeros(len(lower), dtype=np.int64)
        below = self.excess(lower[:, None], -1.0).at(first)
        above = self.excess(upper[:, None], 1.0).at(first)
        return self._box(lower, upper, below, above)

    def _box(self, lower: FloatArray, upper: FloatArray, below: Excess, above: Excess) -> ClipBox:
        """Box with the excess over its ends, (lines,) each."""
        return ClipBox(
            center=self.center,
            exponent=self.exponent,
            lower=lower,
            upper=upper,
            middle=(lower + upper) / 2.0,
            half=(upper - lower) / 2.0,
            back=shrunk(above.total, above.variance) - shrunk(below.total, below.variance),
            variance=below.variance + above.variance,
            hidden=np.stack([below.hidden, above.hidden], axis=1),
        )

    def squares_about(self, mean: float) -> Line:
        """Line of the squared distances of the rows of one line from `mean`; a value stays where it is in its cell."""
        ends = np.unique(np.abs(self.edges[0] - mean))
        steps = np.arange(POINTS_OF_CELL * (len(ends) - 1) + 1) / POINTS_OF_CELL
        distance = np.append(0.0, np.interp(steps, np.arange(len(ends)), ends))

        def folded(cells: FloatArray) -> FloatArray:
            below = np.append(0.0, np.cumsum(cells[0]))
            up = np.interp(mean + distance, self.edges[0], below)
            down = np.interp(mean - distance, self.edges[0], below)
            return np.asarray(np.diff(up - down)[None])

        return replace(
            self,
            center=np.zeros(1),
            exponent=2 * self.exponent,
            edges=distance[None] ** 2,
            rows=folded(self.rows),
            variance=folded(self.variance),
            spread=folded(self.spread),
            hidden=folded(self.hidden),
        )

    def second_moment(self) -> float:
        """Sum of the squares of all values of one line, about its center."""
        squares = self.lower**2 + self.lower * self.upper + self.upper**2
        return float((self.rows * squares).sum()) / 3.0

    def moments(self, box: ClipBox | None = None) -> Moments:
        """Moments of the rows of each line, of their values as they are, or clipped to a box."""
        low = self.lower
        high = self.upper
        if box is not None:
            low = np.clip(low, box.lower[:, None], box.upper[:, None])
            high = np.clip(high, box.lower[:, None], box.upper[:, None])
        total = np.maximum(self.rows.sum(axis=1), 1.0)
        mean = (self.rows * (low + high)).sum(axis=1) / (2.0 * total)
        return Moments(total, mean, self.rows, low - mean[:, None], high - mean[:, None])


class Moments(NamedTuple):
    """Rows and mean of each line (lines,), and the rows of its cells with their ends about this mean, (lines, cells)."""

    rows: FloatArray
    mean: FloatArray
    of_cells: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def squares(self) -> FloatArray:
        """Mean square of the values of each cell about the mean."""
        return np.asarray((self.low**2 + self.low * self.high + self.high**2) / 3.0)

    @property
    def variance(self) -> FloatArray:
        """Variance of the rows of each line."""
        return np.asarray((self.of_cells * self.squares).sum(axis=1) / self.rows)

    @property
    def fourth(self) -> FloatArray:
        """Fourth central moment of the rows of each line."""
        low = self.low
        high = self.high
        fourths = low**4 + low**3 * high + (low * high) ** 2 + low * high**3 + high**4
        return np.asarray((self.of_cells * fourths).sum(axis=1) / 5.0 / self.rows)


def _at(points: FloatArray, places: IntArray) -> FloatArray:
    """Point of each line at its place; `points` are those of each line, or of all."""
    return np.asarray(points[np.arange(len(points)), places])


class Tails(NamedTuple):
    """Predicted rows of the octaves beyond the last significant cell, their deviation and upper bound, (lines, octaves)."""

    rows: FloatArray
    spread: FloatArray
    hidden: FloatArray


# a noise of zero is that of octaves without cells
@np.errstate(all="ignore")
def tails(
    octaves: FloatArray, stds: FloatArray, beyond: FloatArray, beyond_stds: FloatArray
) -> Tails:
    """Tails of lines whose last octaves (lines, 2), from the outermost one inwards, and octaves beyond (lines, k) were counted."""
    last = octaves[:, 0]
    inner = octaves[:, 1]
    std = np.maximum(stds, TINY)
    # Point: from the last octave on, the rule's largest ratio or the counted one.
    now = np.maximum(last, std[:, 0] / 2.0)
    ratio = np.minimum(tuning.LARGEST_RATIO, now / np.maximum(inner, std[:, 1] / 2.0))
    # Bound: the largest number of rows, and the largest ratio, within one standard deviation.
    most = np.maximum(last + std[:, 0], TINY)
    bound_ratio = np.minimum(
        tuning.LARGEST_RATIO, most / np.maximum(inner - std[:, 1], std[:, 1] / 2.0)
    )
    there = beyond_stds > 0.0  # no cells lie beyond the largest double
    noise = np.maximum(beyond_stds, TINY)
    noise_sq = noise**2
    largest = np.maximum(beyond, 0.0) + 2.0 * noise
    rows, spread, hidden = np.zeros((3, *beyond.shape))
    for j in range(beyond.shape[1]):
        allowed = ratio * now
        prior_std = tuning.PRIOR_STD * allowed
        weight = noise_sq[:, j] / (noise_sq[:, j] + prior_std**2)
        expected = weight * tuning.PRIOR_MEAN * allowed + (1.0 - weight) * beyond[:, j]
        before = now
        now = np.where(there[:, j], np.minimum(np.maximum(expected, 0.0), allowed), 0.0)
        ratio = np.minimum(ratio, now / np.maximum(before, TINY))
        bound = np.minimum(largest[:, j], bound_ratio * most)
        bound_ratio = np.minimum(bound_ratio, bound / most)
        most = np.maximum(bound, TINY)
        rows[:, j] = now
        spread[:, j] = prior_std
        hidden[:, j] = np.maximum(bound, now)
    return Tails(
        rows, np.where(there, np.minimum(noise, spread), 0.0), np.where(there, hidden, 0.0)
    )


def within_octaves(edges: FloatArray, parts: int) -> FloatArray:
    """Shares of the cells (lines, octaves parts) between `edges` in the rows of their octave, which fall as u^-1.5."""
    with np.errstate(all="ignore"):
        shares = -np.diff(edges**-1.5, axis=1).reshape(len(edges), -1, parts)
        shares /= shares.sum(axis=2, keepdims=True)
    return np.where(np.isnan(shares), 1.0 / parts, shares).reshape(len(edges), -1)
