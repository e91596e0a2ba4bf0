"""Sides of columns as masses of cells: seen up to the last cell that stands out, guessed for five octaves beyond it.

Lengths are in a power of two of the caller's choice, near the last cell, so that products of lengths and counts cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.kernels.tails import INNER, OUTER, clipped_sums, masses_of_sides, sums_beyond

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

    def excess(self, clips: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For each of `clips` (sides, k): sum of rows times what they exceed it by, its variance, and what may be hidden."""
        return sums_beyond(self.block, self.parts, clips)

    def clipped(self, clips: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of the numbers clipped to each of `clips` (sides, k), and of their squares: (sides, k) both."""
        return clipped_sums(self.block, self.parts, clips)

    def limited(self, bounds: FloatArray) -> Sides:
        """The same where nothing can be beyond `bounds` (sides,)."""
        block = self.block.copy()
        block[MASS:] *= block[LOWER] < bounds[:, None]
        return replace(self, block=block)


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
    block, heavy, faint = masses_of_sides(counts, variances, edges, known, parts, exponents)
    return Sides(block=block, lasts=lasts, parts=parts, heavy=heavy, faint=faint)
