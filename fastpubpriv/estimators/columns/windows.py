"""Windows of neighbouring cells of a column whose counts stand out of the noise, and how far they reach."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.columns.shares import Shares
from fastpubpriv.kernels.rows import EXPONENTS

WIDTHS = (1, 2, 4, 8)
# A cell found by mistake g octaves out costs 4^g in squared error: mistakes must become rare faster than that.
DECAY = 3.0
OUTER_HALF = 1.5
PASSES = 6
ANCHOR_LEAST = 5.0  # below this no window surely holds rows
COLUMNS = 16  # that are searched at once: their counts stay in a second cache
BOTH = 2  # sides together
SLACK = 1.0 - 1e-9  # the estimate of what a window may be must miss none


Found = tuple[IntArray, tuple[float, int]]


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


def find(columns: Sequence[Counted], chance: float, shares: Shares) -> list[Found]:
    """The windows of each column that can stand out anywhere, and its anchor: see `find_windows`."""
    limits, found = thresholds_of(shares.log2_parts, chance, shares.pure), []
    for begin in range(0, len(columns), COLUMNS):
        part = columns[begin : begin + COLUMNS]
        values = with_both([(each.above, each.below) for each in part])
        variances = with_both([(each.above_var, each.below_var) for each in part])
        found += find_windows(values, variances, limits, ANCHOR_LEAST, OUTER_HALF)
    return found


def with_both(sides: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Numbers of cells above each center, below it, and of both sides together: (columns, 3, cells)."""
    found = np.empty((len(sides), 3, len(sides[0][0])))
    for lines, (above, below) in zip(found, sides, strict=True):
        lines[0], lines[1] = above, below
        np.add(above, below, out=lines[BOTH])
    return found


def find_windows(
    values: FloatArray, variances: FloatArray, thresholds: FloatArray, anchor_least: float, outer_half: float
) -> list[Found]:
    """Windows (k, 4) of 1, 2, 4 ... cells that stand out by more than the thresholds (widths, cells + 1) at distance zero.

    Of each: whether it is below, its first cell, half its width, and how far it reaches. Then the anchor of the column: the
    deviations, at least `anchor_least`, and the last cell of the window, of one side or both together, that stands out most; -inf,
    -1 where none does. `values` and `variances` are made by `with_both`; an outer half must exceed `outer_half` deviations of its
    own.
    """
    columns, _, cells = values.shape
    std, flat, total = np.sqrt(variances.min(axis=2, keepdims=True)), variances.reshape(-1), values
    parts = []
    for k, limits in enumerate(thresholds):
        width, outer = 1 << k, (1 << k) // 2
        if k:  # window j begins at cell j
            half = total  # that of the width before is let go first: memory may be short
            total = half[:, :, :-outer] + half[:, :, outer:]
        single = min(anchor_least, limits[0])
        # Few windows come near to standing out: only these are worked out.
        near = total > np.array([[single], [single], [anchor_least]]) * std * (SLACK * math.sqrt(width))
        places = near.reshape(-1).nonzero()[0]
        line, begin = np.divmod(places, total.shape[2])
        score = total.reshape(-1)[places] / np.sqrt(_sums_of(flat, line * cells + begin, width))
        stands = (score > limits[0]) & (line % 3 != BOTH)
        if k:
            outside = half.reshape(-1)[line * half.shape[2] + begin + outer]
            stands &= outside > outer_half * np.sqrt(_sums_of(flat, line * cells + begin + outer, outer))
        reach = limits.searchsorted(score)
        parts.append((score, np.stack([line // 3, line % 3, begin, np.full(len(line), outer), reach]), stands))
    score, found, stands = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    best = np.full(columns, anchor_least)
    np.maximum.at(best, found[0], score)
    anchors = [(-math.inf, -1)] * columns
    firsts: set[tuple[int, int, int]] = set()
    for k in ((score == best[found[0]]) & (score > anchor_least)).nonzero()[0].tolist():
        column, side, begin, outer, _ = found[:, k].tolist()
        # Of equals the first of a side and width, and of these the one that ends last.
        if (column, side, outer) not in firsts:
            firsts.add((column, side, outer))
            anchors[column] = max(anchors[column], (float(score[k]), begin + max(2 * outer, 1) - 1))
    found = found[:, stands]
    found = found[:, found[0].argsort(kind="stable")]
    ends = found[0].searchsorted(np.arange(columns + 1)).tolist()
    return [(found[1:, low:high].T, anchor) for (low, high), anchor in zip(pairwise(ends), anchors, strict=True)]


def _sums_of(cells: FloatArray, begin: IntArray, width: int) -> FloatArray:
    """Sums of `width` cells from each of `begin` on, halves of halves, as sums of windows come about."""
    if width == 1:
        return np.asarray(cells[begin])
    return _sums_of(cells, begin, width // 2) + _sums_of(cells, begin + width // 2, width // 2)


def stand(
    windows: IntArray, known: Iterable[int], shares: Shares, *, passes: int = PASSES
) -> tuple[BoolArray, tuple[int, int]]:
    """Which windows (k, 4) stand out so far from the cells that are `known`, and from the last cells of windows that stood in an
    earlier pass: (k,). Then the outermost last cells above and below of those that stand, -1 for none.
    """
    cells = EXPONENTS << shares.log2_parts
    below, begin, outer, reach = windows.T
    last, far = begin + np.maximum(2 * outer, 1) - 1, 4 * cells
    # A window's outer half is what makes it reach so far: from there on it counts as a mistake that costs.
    most = np.where(reach > cells, 2 * far, reach - outer)
    most[most <= 0] = -2 * far
    held, stood = np.array(sorted([-far, *known, far])), np.zeros(len(windows), dtype=bool)
    ends, count = held, 0
    for _ in range(passes):
        after = ends.searchsorted(begin)
        stood = np.minimum(begin - ends[after - 1], ends[after] - last) < most
        before, count = count, int(np.count_nonzero(stood))
        if count in (before, len(windows)):
            break
        ends = np.sort(np.concatenate([held, last[stood]]))
    above_end, below_end = (int(last[stood & (below == side)].max(initial=-1)) for side in (0, 1))
    return stood, (above_end, below_end)


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
