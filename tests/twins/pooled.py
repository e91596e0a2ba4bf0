"""Released counts of columns pooled with those of public rows, one operation on all cells of a column at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastpubpriv._types import FloatArray, IntArray


def pooled_counts(
    counts: FloatArray,
    sides: int,
    log2_parts: int,
    public: FloatArray,
    centers: FloatArray,
    own: Sequence[float],
    factors: Sequence[float],
) -> tuple[FloatArray, FloatArray, list[IntArray]]:
    """Counts and variances (columns, sides, cells), and the cells that hold public rows, side after side of each column."""
    cells = 2047 << log2_parts
    values, variances = np.zeros((2, len(centers), sides, cells))
    found = []
    for j, (center, variance, factor) in enumerate(zip(centers, own, factors, strict=True)):
        distance = np.asarray(public[:, j]) - center
        keys = (np.abs(distance[distance != 0.0]).view(np.int64) - 1) >> (52 - log2_parts)
        for side, negative in enumerate((False, True)[:sides]):
            seen = np.bincount(keys[(distance[distance != 0.0] < 0.0) == negative], minlength=cells)
            around = np.concatenate([[0], seen[:-1]]) + seen + np.concatenate([seen[1:], [0]])
            # A public row says something of the cells beside its own; far from all of them, half a row is as good as seen.
            weight = variance / (variance + factor**2 * (around / 3.0 + 0.5)) if factor else np.zeros(cells)
            own_counts = counts[j, side * cells : (side + 1) * cells]
            values[j, side] = own_counts + weight * (factor * seen - own_counts)
            variances[j, side] = variance * (1.0 - weight)
            found.append(np.flatnonzero(seen))
    return values, variances, found
