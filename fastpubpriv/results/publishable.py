"""Whole, non-negative counts with the sum that they must have, and interval ends that contain them: post-processing for readers.

Noise puts counts of no rows below zero. Moving all of them to the nearest non-negative counts with the same sum would take rows
from large counts to make up for small ones; so small counts, which may be of no rows, are moved among themselves.
"""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.privacy.noise_quantiles import noise_quantile

# Probability that some count of no rows is taken for a large one: one table in twenty.
FALSE_CELLS = 0.05
# Number of cells from which that probability is divided among them.
FEWEST_CELLS = 3
# Largest number of rows: all whole numbers up to it are floats.
MOST_ROWS = 2.0**53


def nearest_with_sum(values: FloatArray, total: float) -> FloatArray:
    """Non-negative numbers (k,) with sum `total` >= 0 that are nearest to the values in squares."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    above = np.flatnonzero(descending > excess)
    # With a total of zero, no value may lie above its excess.
    shift = excess[above[-1]] if len(above) else descending[0]
    return np.asarray(np.maximum(values - shift, 0.0))


def possible_counts(counts: FloatArray, noise_std: float, law: str, total: int) -> FloatArray:
    """Counts (k,) without negative ones and with sum `total`; those that noise alone does not explain stay, if they can."""
    shifted = counts + (total - counts.sum()) / len(counts)
    tail = FALSE_CELLS / max(len(counts), FEWEST_CELLS)
    small = shifted <= noise_quantile(law, noise_std, tail)
    rows_of_small = float(shifted[small].sum())
    possible = np.array(shifted)
    if rows_of_small > 0.0:
        possible[small] = nearest_with_sum(shifted[small], rows_of_small)
    else:
        possible[small] = 0.0
        if not small.all():
            possible[~small] = nearest_with_sum(shifted[~small], float(total))
    return possible


def rounded_with_sum(counts: FloatArray, total: int, multiple: int) -> IntArray:
    """Multiples (k,) nearest to non-negative counts, with the sum of the multiple nearest to `total`, by largest remainders."""
    steps = counts / multiple
    down = np.floor(steps)
    whole = down.astype(np.int64)
    left = int(np.floor(total / multiple + 0.5)) - int(whole.sum())
    by_remainder = np.argsort(down - steps, kind="stable")
    whole[by_remainder[:left]] += 1
    return whole * multiple


def publishable(
    counts: FloatArray, noise_std: float, law: str, total: int | None, most: int, multiple: int
) -> IntArray:
    """Whole multiples (k,) for readers, none negative, from noisy counts: with sum `total`, or at most `most` each without one."""
    if not len(counts):
        return np.zeros(0, dtype=np.int64)
    counts = np.clip(counts, -MOST_ROWS, MOST_ROWS)
    if total is None:
        nearest = np.floor(np.clip(counts, 0.0, float(most)) / multiple + 0.5)
        return nearest.astype(np.int64) * multiple
    possible = possible_counts(counts, noise_std, law, total)
    return rounded_with_sum(possible, total, multiple)


def whole_ends(
    lower: FloatArray, upper: FloatArray, published: IntArray, most: int, multiple: int
) -> tuple[FloatArray, FloatArray]:
    """Interval ends at multiples further out, between 0 and `most`, moved outwards where they do not contain what is published."""
    low = np.clip(np.floor(lower / multiple) * multiple, 0.0, float(most))
    high = np.clip(np.ceil(upper / multiple) * multiple, 0.0, float(most))
    return np.minimum(low, published), np.maximum(high, published)
