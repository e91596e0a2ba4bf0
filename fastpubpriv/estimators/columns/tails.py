"""One side of a column as masses of cells: seen up to the last cell that stands out, guessed for five octaves beyond it.

Lengths are in a power of two of the caller's choice, near the last cell, so that products of lengths and counts cannot overflow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastpubpriv._types import FloatArray

INNER, OUTER = 64, 5  # octaves that are looked at below and beyond the last cell
LARGEST_RATIO = 0.4  # of an octave to the one before it, in a tail that ends some day
LEAST_FACTOR = 1e-3
BEND = 6
GRID = 1.0 - np.linspace(0.0, 1.0, 41)
TINY = float(np.finfo(np.float64).tiny)
LEAST_INDEX = 0.3
LEAST_RATIO = 0.02
HIDDEN_GROWTH = 1.2
FAR_BELOW_NOISE = 1e-6
# A tail whose octaves fall off more slowly than this may have no variance.
HEAVY = 2.0**-1.5
LEEWAY = 1.0  # deviations of a count
GAP_ROWS = 6.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """Masses of cells (lower, upper] of one side, the first `seen` of them from counts, the others from the model of the tail.

    Attributes
    ----------
    lower, upper : (cells,) float64
        Edges, ascending.
    mass, variance : (cells,) float64
        Rows in a cell, and the variance of that number where it was counted.
    spread : (cells,) float64
        Standard deviation of the guessed numbers, which rise and fall together.
    hidden : (cells,) float64
        The most rows that a cell beyond the last one that stands out is believed to hold.
    seen : int
        Cells that were counted.
    last : int
        The last of them, among all cells of a side of the column.
    parts : int
        Cells of an octave.
    heavy, faint : bool
        The octaves fall off slowly; few rows far away from all others.
    """

    lower: FloatArray
    upper: FloatArray
    mass: FloatArray
    variance: FloatArray
    spread: FloatArray
    hidden: FloatArray
    seen: int
    last: int
    parts: int
    heavy: bool
    faint: bool

    @property
    def middle(self) -> FloatArray:
        """Middles of the cells."""
        return self.lower + (self.upper - self.lower) / 2.0

    @property
    def end(self) -> float:
        """Upper end of the last cell that stands out."""
        return float(self.upper[self.seen - 1])

    def excess(self, clips: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For each of `clips` (k,): sum of rows times what they exceed it by, its variance, and what may be hidden: (k,) each."""
        # Numbers of a cell are taken to lie evenly in it: `over` is what they exceed a clip by on average, also of one inside.
        part = np.clip(self.upper - clips[:, None], 0.0, self.upper - self.lower)
        over = part * (0.5 * part / np.maximum(self.upper - self.lower, TINY)) + np.maximum(
            self.lower - clips[:, None], 0.0
        ) * (part > 0.0)
        weighted = over * self.mass
        within = np.maximum(self.mass, 0.0) * part
        variance = (
            (self.variance * over**2).sum(axis=1)
            + (self.spread * over).sum(axis=1) ** 2
            + (within**2).sum(axis=1) / 12.0
        )
        unseen = (np.maximum(self.hidden - self.mass, 0.0) * over)[:, self.seen :].sum(axis=1)
        return weighted.sum(axis=1), variance, unseen

    def clipped(self, clip: float) -> tuple[float, float]:
        """Sum of the numbers clipped to `clip`, and of their squares."""
        cut = np.minimum(self.middle, clip)
        width = np.minimum(self.upper, clip) - np.minimum(self.lower, clip)
        return float((self.mass * cut).sum()), float((self.mass * (cut**2 + width**2 / 12.0)).sum())

    def limited(self, bound: float) -> Side:
        """The same where nothing can be beyond `bound`."""
        possible = self.lower < bound
        return replace(
            self,
            mass=self.mass * possible,
            variance=self.variance * possible,
            spread=self.spread * possible,
            hidden=self.hidden * possible,
        )


def cut(values: FloatArray, last: int, parts: int) -> FloatArray:
    """Entries last - 64 octaves + 1 ... last + 5 octaves of (cells,), zero where there are none."""
    begin, end = last + 1 - INNER * parts, last + 1 + OUTER * parts
    found = np.zeros(end - begin)
    low, high = max(begin, 0), min(end, len(values))
    found[low - begin : high - begin] = values[low:high]
    return found


def side_of(counts: FloatArray, variances: FloatArray, edges: FloatArray, last: int, parts: int, exponent: int) -> Side:
    """A side whose last cell that stands out is `last`; lengths in units of 2^exponent."""
    places = np.clip(np.arange(last + 1 - INNER * parts, last + 2 + OUTER * parts), 0, len(edges) - 1)
    scaled = np.ldexp(edges[places], -exponent)
    mass, variance = cut(counts, last, parts), cut(variances, last, parts)
    seen = INNER * parts
    octaves = mass[seen - 4 * parts : seen].reshape(4, parts).sum(axis=1)[::-1]
    stds = np.sqrt(variance[seen - 4 * parts : seen].reshape(4, parts).sum(axis=1))[::-1]
    beyond = mass[seen:].reshape(OUTER, parts).sum(axis=1)
    beyond_std = np.sqrt(variance[seen:].reshape(OUTER, parts).sum(axis=1))
    numbers, spreads, hidden, shares = tail(octaves, stds, beyond, beyond_std, scaled[seen:], parts)
    mass[seen:] = np.repeat(numbers, parts) * shares
    spread = np.zeros(len(mass))
    spread[seen:] = np.repeat(spreads, parts) * shares
    most = np.zeros(len(mass))
    most[seen:] = np.repeat(hidden, parts) * shares
    variance[seen:] = 0.0
    around, around_std = np.append(beyond[0], octaves), np.append(beyond_std[0], stds)
    one, gap = octaves[0], octaves[1] + octaves[2]
    noise = math.sqrt(float(variance[:seen].max(initial=0.0)))
    return Side(
        lower=scaled[:-1], upper=scaled[1:], mass=mass, variance=variance, spread=spread, hidden=most, seen=seen, last=last,
        parts=parts, heavy=any(is_slow(around, around_std, first) for first in (1, 2)),
        faint=bool(gap < 3.0 * math.hypot(stds[1], stds[2]) and one < GAP_ROWS * noise),
    )  # fmt: skip


def is_slow(octaves: FloatArray, stds: FloatArray, first: int) -> bool:
    """Whether octaves first, first + 1, first + 2 of (k,), inwards, fall off as slowly as a tail without a variance.

    One that goes on as slowly holds so many rows in the octaves further out that they would show; a bounded column does not.
    """
    one, two, three = (float(each) for each in octaves[first : first + 3])
    clear = one > 4.0 * stds[first] and two > 3.0 * stds[first + 1] and three > 3.0 * stds[first + 2]
    slow = HEAVY * two <= one < two and HEAVY * three <= two < three
    goes_on = HEAVY * octaves[1 : first + 1] <= octaves[:first] + LEEWAY * stds[:first]
    return bool(clear and slow and goes_on.all())


def tail(
    octaves: FloatArray, stds: FloatArray, beyond: FloatArray, beyond_std: FloatArray, edges: FloatArray, parts: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Rows of the five octaves beyond the last, their deviations and upper bounds (5,), and the cells' shares of them.

    `octaves` holds the last octaves inwards, `beyond` the counts of those outwards, `edges` the edges from the last cell on.
    """
    safe = np.maximum(stds, TINY)
    one, two = (max(float(octaves[k]), float(safe[k]) / 2.0) for k in (0, 1))
    ratio = min(LARGEST_RATIO, one / two) if one < two else LARGEST_RATIO
    factor = LEAST_FACTOR
    clear = octaves[0] > 4.0 * safe[0] and octaves[1] > 3.0 * safe[1] and octaves[2] > 3.0 * safe[2]
    if clear and octaves[0] < octaves[1]:  # a straight power law is believed, one that bends is not
        bend = float(octaves[0]) * float(octaves[2]) / float(octaves[1]) ** 2
        factor = min(0.5, max(LEAST_FACTOR, 0.1 * min(1.0, bend) ** BEND))
    numbers, spreads, hidden = np.zeros(OUTER), np.zeros(OUTER), np.zeros(OUTER)
    falls = np.zeros(OUTER)
    before, most, step = one, one + float(stds[0]), ratio
    growth = HIDDEN_GROWTH * ratio
    fractions = factor**GRID
    for j in range(OUTER):
        std = max(float(beyond_std[j]), TINY)
        numbers[j], spreads[j] = posterior(before * step, fractions, float(beyond[j]), std)
        # Octaves that fall off like a cliff are not believed to fall off more slowly further out.
        hidden[j] = min(growth * most, max(float(beyond[j]), 0.0) + 2.0 * std)
        growth = min(growth, HIDDEN_GROWTH * hidden[j] / max(most, TINY))
        most = float(hidden[j])
        falls[j] = fall = min(LARGEST_RATIO, max(numbers[j] / max(before, TINY), TINY))
        before, step = float(numbers[j]), min(step, max(fall, LEAST_RATIO))
    if parts == 1:
        return numbers, spreads, hidden, np.ones(OUTER)
    shares = [
        power_law(edges[j * parts : (j + 1) * parts + 1], max(LEAST_INDEX, -math.log2(fall)))
        for j, fall in enumerate(falls.tolist())
    ]
    return numbers, spreads, hidden, np.concatenate(shares)


def posterior(prior: float, fractions: FloatArray, count: float, std: float) -> tuple[float, float]:
    """Mean and deviation of a number of rows: one of `fractions` (k,) of 1.5 `prior`, all as likely, then seen as `count`."""
    if prior < FAR_BELOW_NOISE * std:
        return 0.3 * prior, 0.5 * prior
    points = 1.5 * prior * fractions
    log_weight = -0.5 * ((count - points) / std) ** 2
    weight = np.exp(log_weight - np.maximum.reduce(log_weight))
    weight /= np.add.reduce(weight)
    mean = float(np.add.reduce(weight * points))
    return mean, math.sqrt(max(0.0, float(np.add.reduce(weight * (points - mean) ** 2))))


def power_law(edges: FloatArray, index: float) -> FloatArray:
    """Shares of the cells between ascending edges under a tail u^-index; alike where the edges say nothing."""
    if not edges[0] > 0.0 or not edges[-1] > edges[0]:
        return np.full(len(edges) - 1, 1.0 / (len(edges) - 1))
    powers = (edges / edges[0]) ** -index
    shares = powers[:-1] - powers[1:]
    total = float(shares.sum())
    return np.asarray(shares / total if total > 0.0 else np.full(len(shares), 1.0 / len(shares)))
