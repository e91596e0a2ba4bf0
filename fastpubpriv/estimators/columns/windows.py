"""Windows of neighbouring cells of a column whose counts stand out of the noise, and how far they reach."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.columns.shares import Shares
from fastpubpriv.kernels.columns import EXPONENTS
from fastpubpriv.kernels.windows import find_windows, windows_that_stand

WIDTHS = (1, 2, 4, 8)
# A cell found by mistake g octaves out costs 4^g in squared error: mistakes must become rare faster than that.
DECAY = 3.0
OUTER_HALF = 1.5
PASSES = 6
ANCHOR_LEAST = 5.0  # below this no window surely holds rows


class Counted(Protocol):
    """Counts of one column on each side of its centre, (cells,) each, with their variances."""

    @property
    def above(self) -> FloatArray:
        """Counts above the centre."""

    @property
    def below(self) -> FloatArray:
        """Counts below it."""

    @property
    def above_var(self) -> FloatArray:
        """Their variances."""

    @property
    def below_var(self) -> FloatArray:
        """Their variances."""


@lru_cache(maxsize=32)
def thresholds(log2_parts: int, chance: float, width: int, pure: bool) -> FloatArray:
    """How many deviations a window must stand out, by its distance in cells from what is known to hold rows."""
    octaves = np.arange((EXPONENTS << log2_parts) + 1) / 2**log2_parts
    log_chance = math.log(chance) - DECAY * math.log(2.0) * octaves
    gaussian = -special.ndtri_exp(log_chance)
    if pure:  # noise of a cell is Laplace; that of several comes near a Gaussian
        laplace = -(math.log(2.0) + log_chance) / math.sqrt(2.0)
        gaussian = gaussian + (laplace - gaussian) / math.sqrt(width)
    gaussian.flags.writeable = False
    return np.asarray(gaussian)


@lru_cache(maxsize=32)
def thresholds_of(log2_parts: int, chance: float, pure: bool) -> FloatArray:
    """The thresholds of all widths up to two octaves: (widths, cells + 1)."""
    widths = [width for width in WIDTHS if width <= 2 << log2_parts]
    every = np.stack([thresholds(log2_parts, chance, width, pure) for width in widths])
    every.flags.writeable = False
    return every


def find(column: Counted, chance: float, shares: Shares) -> tuple[IntArray, tuple[float, int]]:
    """The windows that can stand out anywhere, and the anchor of the column: see `kernels.windows.find_windows`.

    The anchor is the deviations and the outer end of the window, of one side or both together, that stands out most; -inf where
    none comes near to surely holding rows.
    """
    counts = column.above, column.below, column.above_var, column.below_var
    limits = thresholds_of(shares.log2_parts, chance, shares.pure)
    windows, score, end = find_windows(counts, limits, ANCHOR_LEAST, OUTER_HALF)
    return windows, (score, end)


def stand(
    windows: IntArray, known: Iterable[int], shares: Shares, *, passes: int = PASSES
) -> tuple[BoolArray, tuple[int, int]]:
    """Which windows stand out so far from the cells that are `known`, and from those found beside, and their outermost ends."""
    return windows_that_stand(windows, EXPONENTS << shares.log2_parts, sorted(known), passes)


def anchor_between(column: Counted, low: int, high: int, shares: Shares) -> tuple[float, int]:
    """Deviations and outer end of the window that stands out most among those that begin in cells low ... high."""
    begin, best = max(0, low), (-math.inf, -1)
    part = slice(begin, high + WIDTHS[-1])
    total = np.stack([column.above[part], column.below[part], column.above[part] + column.below[part]])
    variance = np.stack(
        [column.above_var[part], column.below_var[part], column.above_var[part] + column.below_var[part]]
    )
    for width in WIDTHS:
        if width > 2 * shares.parts:
            break
        if width > 1:
            total = total[:, : -(width // 2)] + total[:, width // 2 :]
            variance = variance[:, : -(width // 2)] + variance[:, width // 2 :]
        score = (total / np.sqrt(variance))[:, : high + 1 - begin]
        for row in score if score.shape[1] else ():
            place = int(row.argmax())
            best = max(best, (float(row[place]), begin + place + width - 1))
    return best
