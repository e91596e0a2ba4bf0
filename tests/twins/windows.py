"""Windows of neighbouring counts that stand out of their noise, one operation on whole columns at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray


def find_windows(
    counts: Sequence[FloatArray], thresholds: FloatArray, anchor_least: float, outer_half: float
) -> tuple[IntArray, float, int]:
    """Windows (k, 4), side after side and width after width, and the deviations and last cell of the one that stands out most."""
    above, below, above_var, below_var = counts
    sides = (above, above_var), (below, below_var), (above + below, above_var + below_var)
    found, anchors = [np.zeros((0, 4), dtype=np.int64)], [(-math.inf, -1)]
    for side, (total, variance) in enumerate(sides):
        for k, limits in enumerate(thresholds):
            width, outer = 1 << k, (1 << k) // 2
            half, half_variance = total, variance
            if k:  # window j begins at cell j
                total, variance = total[:-outer] + total[outer:], variance[:-outer] + variance[outer:]
            score = total / np.sqrt(variance)
            best = int(score.argmax())
            if score[best] > anchor_least:
                anchors.append((float(score[best]), best + width - 1))
            if side == 2:
                continue
            stands = score > limits[0]
            if k:
                stands &= half[outer:] > outer_half * np.sqrt(half_variance[outer:])
            begin = np.flatnonzero(stands)
            reach = np.searchsorted(limits, score[begin])
            found.append(np.stack([np.full(len(begin), side), begin, np.full(len(begin), outer), reach], axis=1))
    return np.concatenate(found), *max(anchors)


def windows_that_stand(
    windows: IntArray, cells: int, known: Sequence[int], passes: int
) -> tuple[BoolArray, tuple[int, int]]:
    """Which windows reach a cell that is known or was found, asked again in every pass, and their outermost ends."""
    below, begin, outer, reach = windows.T
    last = begin + np.maximum(2 * outer, 1) - 1
    stood, held = np.zeros(len(windows), dtype=bool), list(known)
    for _ in range(passes):
        distance = np.full(len(windows), cells)
        for cell in held:
            distance = np.minimum(distance, np.maximum(np.maximum(begin - cell, cell - last), 0))
        stood |= (outer < reach) & (np.minimum(distance + outer, cells) < reach)
        held = [*known, *last[stood].tolist()]
    ends = [int(last[stood & (below == side)].max(initial=-1)) for side in (0, 1)]
    return stood, (ends[0], ends[1])
