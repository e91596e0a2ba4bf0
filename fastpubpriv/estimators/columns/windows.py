"""Windows of neighbouring cells of a column whose counts stand out of the noise, and how far they reach."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.columns.shares import Shares
from fastpubpriv.kernels.columns import EXPONENTS

WIDTHS = (1, 2, 4, 8)
# A cell found by mistake g octaves out costs 4^g in squared error: mistakes must become rare faster than that.
DECAY = 3.0
OUTER_HALF = 1.5
PASSES = 6
ANCHOR_LEAST = 5.0  # below this no window surely holds rows
BOTH = 2  # sides together
SLACK = 1.0 - 1e-9  # the estimate of what a window may be must miss none


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
    """The windows that can stand out anywhere, and the anchor of the column: see `find_windows`.

    The anchor is the deviations and the outer end of the window, of one side or both together, that stands out most; -inf where
    none comes near to surely holding rows.
    """
    counts = column.above, column.below, column.above_var, column.below_var
    limits = thresholds_of(shares.log2_parts, chance, shares.pure)
    windows, score, end = find_windows(counts, limits, ANCHOR_LEAST, OUTER_HALF)
    return windows, (score, end)


def find_windows(
    counts: Sequence[FloatArray], thresholds: FloatArray, anchor_least: float, outer_half: float
) -> tuple[IntArray, float, int]:
    """Windows (k, 4) of 1, 2, 4 ... cells that stand out by more than the thresholds (widths, cells + 1) at distance zero.

    Of each: whether it is below, its first cell, half its width, and how far it reaches. Then the deviations, at least
    `anchor_least`, and the last cell of the window that stands out most; -inf, -1 where none does. `counts` are those above the
    center and below it, and the variances of both, (cells,) each; an outer half must exceed `outer_half` deviations of its own.
    """
    above, below, above_var, below_var = counts
    sides = (above, above_var), (below, below_var), (above + below, above_var + below_var)
    found, anchors = [np.zeros((0, 4), dtype=np.int64)], [(-math.inf, -1)]
    for side, (total, variance) in enumerate(sides):
        std = math.sqrt(float(np.minimum.reduce(variance)))
        half = total
        for k, limits in enumerate(thresholds):
            width, outer = 1 << k, (1 << k) // 2
            if k:  # window j begins at cell j
                half, total = total, total[:-outer] + total[outer:]
            least = anchor_least if side == BOTH else min(anchor_least, limits[0])
            # Few windows come near to standing out: only these are worked out.
            begin = (total > least * std * (SLACK * math.sqrt(width))).nonzero()[0]
            if not len(begin):
                continue
            score = total[begin] / np.sqrt(_sums_of(variance, begin, width))
            best = int(score.argmax())
            if score[best] > anchor_least:
                anchors.append((float(score[best]), int(begin[best]) + width - 1))
            if side == BOTH:
                continue
            stands = score > limits[0]
            if k:
                stands &= half[begin + outer] > outer_half * np.sqrt(_sums_of(variance, begin + outer, outer))
            windows = np.empty((int(np.count_nonzero(stands)), 4), dtype=np.int64)
            windows[:, 0], windows[:, 1], windows[:, 2] = side, begin[stands], outer
            windows[:, 3] = limits.searchsorted(score[stands])
            found.append(windows)
    return np.concatenate(found), *max(anchors)


def _sums_of(cells: FloatArray, begin: IntArray, width: int) -> FloatArray:
    """Sums of `width` cells from each of `begin` on, halves of halves, as sums of windows come about."""
    if width == 1:
        return np.asarray(cells[begin])
    return _sums_of(cells, begin, width // 2) + _sums_of(cells, begin + width // 2, width // 2)


def stand(
    windows: IntArray, known: Iterable[int], shares: Shares, *, passes: int = PASSES
) -> tuple[list[bool], tuple[int, int]]:
    """Which windows (k, 4) stand out so far from the cells that are `known`, and from the last cells of windows that stood in an
    earlier pass. Then the outermost last cells above and below of those that stand, -1 for none.
    """
    cells, rows = EXPONENTS << shares.log2_parts, windows.tolist()
    held, ends = sorted([-4 * cells, *known, 4 * cells]), [-1, -1]
    stood, waiting = [False] * len(rows), list(range(len(rows)))
    for _ in range(passes):
        found, rest = [], []
        for k in waiting:
            below, begin, outer, reach = rows[k]
            last, after = begin + max(2 * outer, 1) - 1, bisect_left(held, begin)
            distance = max(min(begin - held[after - 1], held[after] - last), 0)
            # Its outer half is what makes a window reach so far: from there on it counts as a mistake that costs.
            if outer < reach and min(distance + outer, cells) < reach:
                stood[k], ends[below] = True, max(ends[below], last)
                found.append(last)
            else:
                rest.append(k)
        if not found:
            break
        held, waiting = sorted(held + found), rest
    return stood, (ends[0], ends[1])


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
