"""Sides of columns as masses of cells: seen up to the last cell that stands out, guessed for five octaves beyond it.

Lengths are in a power of two of the caller's choice, near the last cell, so that products of lengths and counts cannot overflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray

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
LOWER, UPPER, MASS, VARIANCE, SPREAD, HIDDEN = range(6)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """What is to be said about one side.

    Attributes
    ----------
    last : int
        The last cell that stands out, among all cells of a side of the column.
    end : float
        Its upper end.
    beyond : (5 octaves,) float64
        Rows guessed in the cells beyond it.
    heavy, faint : bool
        The octaves fall off slowly; few rows far away from all others.
    """

    last: int
    end: float
    beyond: FloatArray
    heavy: bool
    faint: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """Masses of cells (lower, upper] of each side, the first `seen` of them from counts, the others from the model of the tail.

    Attributes
    ----------
    block : (6, sides, cells) float64
        Lower and upper edges, ascending; rows in a cell; the variance of that number where it was counted; the standard deviation
        of the guessed numbers, which rise and fall together; the most rows that a guessed cell is believed to hold.
    lasts : sequence of int or None
        The last cell of each that stands out, among all cells of a side of the column; None where none does: that side is not
        `present`, and its numbers mean nothing.
    parts : int
        Cells of an octave.
    heavy, faint : sequence of bool
        As `Side`.
    """

    block: FloatArray
    lasts: Sequence[int | None]
    parts: int
    heavy: Sequence[bool]
    faint: Sequence[bool]

    @property
    def seen(self) -> int:
        """Cells of a side that were counted."""
        return INNER * self.parts

    @property
    def upper(self) -> FloatArray:
        """Upper edges of the cells, (sides, cells)."""
        return np.asarray(self.block[UPPER])

    @property
    def present(self) -> BoolArray:
        """(sides,) True where a cell stands out."""
        return np.array([last is not None for last in self.lasts])

    def each(self) -> list[Side | None]:
        """The sides, one by one; None for one that is not present."""
        ends, beyond = self.block[UPPER, :, self.seen - 1].tolist(), self.block[MASS, :, self.seen :]
        found = zip(self.lasts, ends, beyond, self.heavy, self.faint, strict=True)
        return [
            None if last is None else Side(last=last, end=end, beyond=rows, heavy=heavy, faint=faint)
            for last, end, rows, heavy, faint in found
        ]

    @np.errstate(all="ignore")
    def excess(self, clips: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For each of `clips` (sides, k): sum of rows times what they exceed it by, its variance, and what may be hidden."""
        # Clip points after the first are near the last cell: of those, the cells far inside of it are left out.
        parts = [self._excess(part) for part in (clips[:, :1], clips[:, 1:]) if part.shape[1]]
        over, risk, hidden = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        return over, risk, hidden

    def _excess(self, clips: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The same from the first cell on that is beyond one of the clips."""
        begin = self._first_beyond(clips.min(axis=1))
        seen = self.seen - begin
        lower, upper, mass, variance, spread, hidden = self.block[:, :, None, begin:]
        width, points = upper - lower, clips[:, :, None]
        # Numbers are taken to lie evenly in their cell, also in one that a clip is inside of.
        part = np.minimum(np.maximum(upper - points, 0.0), width)
        over = 0.5 * part / np.maximum(width, TINY) * part + np.where(part > 0.0, np.maximum(lower - points, 0.0), 0.0)
        guessed = (spread * over)[:, :, seen:].sum(axis=2)
        risk = (
            (over**2 * variance).sum(axis=2) + guessed**2 + np.square(part * np.maximum(mass, 0.0)).sum(axis=2) / 12.0
        )
        unseen = (np.maximum(hidden - mass, 0.0) * over)[:, :, seen:].sum(axis=2)
        return (over * mass).sum(axis=2), risk, unseen

    def _first_beyond(self, clips: FloatArray) -> int:
        """A cell below which all are inside of the clip of their side: they add zeros to every sum.

        NumPy adds up halves of whole lanes of eight: sums from this cell on have the bits of the whole ones.
        """
        inside = int((self.upper[:, : self.seen] <= clips[:, None]).sum(axis=1).min(initial=self.seen))
        cells, first = self.block.shape[2], 0
        while cells - first > 128:
            first += (cells - first) // 16 * 8
        return 0 if inside < first else first + (inside - first) // 8 * 8

    @np.errstate(all="ignore")
    def clipped(self, clips: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of the numbers clipped to each of `clips` (sides, k), and of their squares: (sides, k) both."""
        lower, upper, mass = self.block[:3, :, None]
        limits = clips[:, :, None]
        cut = np.minimum(lower + (upper - lower) / 2.0, limits)
        width = np.minimum(upper, limits) - np.minimum(lower, limits)
        return (mass * cut).sum(axis=2), (mass * (cut**2 + width**2 / 12.0)).sum(axis=2)

    def limited(self, bounds: FloatArray) -> Sides:
        """The same where nothing can be beyond `bounds` (sides,)."""
        block = self.block.copy()
        block[MASS:] *= block[LOWER] < bounds[:, None]
        return replace(self, block=block)


@np.errstate(all="ignore")  # cells beyond the largest double, and sides that are not present, mean nothing
def sides_of(
    counts: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    edges: FloatArray,
    lasts: Sequence[int | None],
    parts: int,
    exponents: IntArray,
) -> Sides:
    """Sides from the counts of each whose last cells that stand out are `lasts`; lengths of each in units of 2^exponent."""
    known = [-1 - OUTER * parts if last is None else last for last in lasts]  # from there on there are no cells
    places = np.array(known)[:, None] + np.arange(1 - INNER * parts, 2 + OUTER * parts)
    scaled = np.ldexp(edges[np.clip(places, 0, len(edges) - 1)], -exponents[:, None])
    mass = np.array([cut(*each, parts) for each in zip(counts, known, strict=True)])
    variance = np.array([cut(*each, parts) for each in zip(variances, known, strict=True)])
    seen = INNER * parts
    octaves = _octaves(mass[:, seen - 4 * parts : seen], parts)[:, ::-1]
    stds = np.sqrt(_octaves(variance[:, seen - 4 * parts : seen], parts))[:, ::-1]
    beyond, beyond_std = _octaves(mass[:, seen:], parts), np.sqrt(_octaves(variance[:, seen:], parts))
    numbers, spreads, hidden, shares = tails(octaves, stds, beyond, beyond_std, scaled[:, seen:], parts)
    mass[:, seen:] = np.repeat(numbers, parts, axis=1) * shares
    spread, most = np.zeros(mass.shape), np.zeros(mass.shape)
    spread[:, seen:] = np.repeat(spreads, parts, axis=1) * shares
    most[:, seen:] = np.repeat(hidden, parts, axis=1) * shares
    variance[:, seen:] = 0.0
    around = np.concatenate([beyond[:, :1], octaves], axis=1)
    around_std = np.concatenate([beyond_std[:, :1], stds], axis=1)
    noise = np.sqrt(variance[:, :seen].max(axis=1, initial=0.0))
    gap, gap_std = octaves[:, 1] + octaves[:, 2], [math.hypot(*each) for each in stds[:, 1:3].tolist()]
    block = np.stack([scaled[:, :-1], scaled[:, 1:], mass, variance, spread, most])
    heavy = is_slow(around, around_std, 1) | is_slow(around, around_std, 2)
    faint = (gap < 3.0 * np.array(gap_std)) & (octaves[:, 0] < GAP_ROWS * noise)
    return Sides(block=block, lasts=lasts, parts=parts, heavy=heavy.tolist(), faint=faint.tolist())


def cut(values: FloatArray, last: int, parts: int) -> FloatArray:
    """Entries last - 64 octaves + 1 ... last + 5 octaves of (cells,), zero where there are none."""
    begin, end = last + 1 - INNER * parts, last + 1 + OUTER * parts
    found = np.zeros(end - begin)
    low, high = max(begin, 0), min(end, len(values))
    found[low - begin : high - begin] = values[low:high]
    return found


def _octaves(cells: FloatArray, parts: int) -> FloatArray:
    """Sums of neighbours that make an octave: (sides, cells) to (sides, octaves)."""
    return np.asarray(cells.reshape(len(cells), -1, parts).sum(axis=2))


def is_slow(octaves: FloatArray, stds: FloatArray, first: int) -> BoolArray:
    """Whether octaves first, first + 1, first + 2 of (sides, k), inwards, fall off as slowly as a tail without a variance.

    One that goes on as slowly holds so many rows in the octaves further out that they would show; a bounded column does not.
    """
    one, two, three = octaves[:, first : first + 3].T
    noise = stds[:, first : first + 3].T
    clear = (one > 4.0 * noise[0]) & (two > 3.0 * noise[1]) & (three > 3.0 * noise[2])
    slow = (HEAVY * two <= one) & (one < two) & (HEAVY * three <= two) & (two < three)
    goes_on = HEAVY * octaves[:, 1 : first + 1] <= octaves[:, :first] + LEEWAY * stds[:, :first]
    return np.asarray(clear & slow & goes_on.all(axis=1))


def first_ratio(octaves: Sequence[float], stds: Sequence[float]) -> tuple[float, float, float]:
    """Rows of the last octave, their ratio to those of the one before, and the least factor that a tail may fall by at first."""
    safe = [max(std, TINY) for std in stds]
    one, two = (max(octaves[k], safe[k] / 2.0) for k in (0, 1))
    ratio = min(LARGEST_RATIO, one / two) if one < two else LARGEST_RATIO
    factor = LEAST_FACTOR
    clear = octaves[0] > 4.0 * safe[0] and octaves[1] > 3.0 * safe[1] and octaves[2] > 3.0 * safe[2]
    if clear and octaves[0] < octaves[1]:  # a straight power law is believed, one that bends is not
        bend = octaves[0] * octaves[2] / octaves[1] ** 2
        factor = min(0.5, max(LEAST_FACTOR, 0.1 * min(1.0, bend) ** BEND))
    return one, ratio, factor


def tails(
    octaves: FloatArray, stds: FloatArray, beyond: FloatArray, beyond_std: FloatArray, edges: FloatArray, parts: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Rows of the five octaves beyond the last, their deviations and upper bounds (sides, 5), and the cells' shares of them.

    `octaves` (sides, 4) holds the last octaves inwards, `beyond` (sides, 5) the counts of those outwards, `edges` (sides, 5 parts
    + 1) the edges from the last cell on.
    """
    starts = [first_ratio(*each) for each in zip(octaves.tolist(), stds.tolist(), strict=True)]
    before, step, factor = np.array(starts).reshape(-1, 3).T
    most, growth = before + stds[:, 0], HIDDEN_GROWTH * step
    fractions = factor[:, None] ** GRID
    shape = len(octaves), OUTER
    numbers, spreads, hidden, falls = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for j in range(OUTER):
        std = np.maximum(beyond_std[:, j], TINY)
        there = beyond_std[:, j] > 0.0  # beyond the largest double are no cells
        guessed = posterior(before * step, fractions, beyond[:, j], std)
        numbers[:, j], spreads[:, j] = (np.where(there, each, 0.0) for each in guessed)
        # Octaves that fall off like a cliff are not believed to fall off more slowly further out.
        hidden[:, j] = np.where(there, np.minimum(growth * most, np.maximum(beyond[:, j], 0.0) + 2.0 * std), 0.0)
        growth = np.minimum(growth, HIDDEN_GROWTH * hidden[:, j] / np.maximum(most, TINY))
        most = hidden[:, j]
        fall = np.minimum(LARGEST_RATIO, np.maximum(numbers[:, j] / np.maximum(before, TINY), TINY))
        falls[:, j] = fall
        before, step = numbers[:, j], np.minimum(step, np.maximum(fall, LEAST_RATIO))
    if parts == 1:
        return numbers, spreads, hidden, np.ones(shape)
    indices = np.array([max(LEAST_INDEX, -math.log2(fall)) for fall in falls.ravel().tolist()])
    windows = np.arange(OUTER)[:, None] * parts + np.arange(parts + 1)
    shares = power_laws(edges[:, windows].reshape(-1, parts + 1), indices)
    return numbers, spreads, hidden, shares.reshape(len(octaves), -1)


def posterior(
    prior: FloatArray, fractions: FloatArray, count: FloatArray, std: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and deviations (sides,) of numbers of rows: one of `fractions` (sides, k) of 1.5 `prior`, all as likely, then seen as
    `count`.
    """
    points = (1.5 * prior)[:, None] * fractions
    log_weight = -0.5 * ((count[:, None] - points) / std[:, None]) ** 2
    weight = np.exp(log_weight - log_weight.max(axis=1)[:, None])
    weight /= weight.sum(axis=1)[:, None]
    mean = (weight * points).sum(axis=1)
    spread = np.sqrt(np.maximum(0.0, (weight * (points - mean[:, None]) ** 2).sum(axis=1)))
    nothing = prior < FAR_BELOW_NOISE * std
    return np.where(nothing, 0.3 * prior, mean), np.where(nothing, 0.5 * prior, spread)


def power_laws(edges: FloatArray, indices: FloatArray) -> FloatArray:
    """Shares (k, cells) of the cells between ascending edges (k, cells + 1) under tails u^-index; alike where edges say nothing."""
    cells = edges.shape[1] - 1
    known = (edges[:, 0] > 0.0) & (edges[:, -1] > edges[:, 0])
    powers = (edges / np.where(known, edges[:, 0], 1.0)[:, None]) ** -indices[:, None]
    shares = powers[:, :-1] - powers[:, 1:]
    total = shares.sum(axis=1)
    known &= total > 0.0
    return np.where(known[:, None], shares / np.where(known, total, 1.0)[:, None], 1.0 / cells)
