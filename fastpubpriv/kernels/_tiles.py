"""What the loops over labelled rows share: rows side by side in a tile, residuals that may not raise, rounding and its checks."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from fastpubpriv.kernels._jit import compiled

LANES = 16  # rows side by side in a tile: sums run over the rows' own columns, so lanes never mix
ROUNDER = 1.5 * 2.0**52  # adding it rounds a double below 2**51 in size to the nearest integer, ties to even
MOST_LOOPS = 32  # compiled loops that are kept, one for each residual


def guarded(residual: Any) -> Any:
    """The residual of one prediction, compiled, NaN where it raises: an exception would tell of a row."""
    inner = compiled(residual)

    def value(prediction, label):  # type: ignore[no-untyped-def]
        try:
            found = inner(prediction, label)
        except Exception:
            found = math.nan
        return found

    return compiled(value)


@functools.cache
def turn_rows() -> Any:
    """tile (dim, LANES) = `used` rows from `first` on, each in a lane: (rows, first, used, tile), compiled at the first call."""

    def turn(rows, first, used, tile):  # type: ignore[no-untyped-def]
        for lane in range(used):
            row = rows[first + lane]
            for j in range(tile.shape[0]):
                tile[j, lane] = row[j]

    return compiled(turn)


@functools.cache
def add_rounded() -> Any:
    """sums (dim,) += factor * tile, rounded, without the lanes that fail a check: (tile, factor, largest, total, bound, sums).

    `largest` and `total` (LANES,) are scratch, and the tile is overwritten.
    """
    lanes, rounder = LANES, ROUNDER

    def add(tile, factor, largest, total, bound, sums):  # type: ignore[no-untyped-def]
        dim = tile.shape[0]
        for lane in range(lanes):
            largest[lane], total[lane] = 0.0, 0.0
        for j in range(dim):
            for lane in range(lanes):
                step = (factor[lane] * tile[j, lane] + rounder) - rounder
                tile[j, lane] = step
                largest[lane] = max(largest[lane], abs(step)) if step == step else math.inf
                total[lane] += step * step
        for lane in range(lanes):
            # Both tests, as in C: with every entry within Q, dim Q^2 <= 2^53 makes the sum of squares exact.
            if not (largest[lane] <= bound and total[lane] <= bound * bound):
                for j in range(dim):
                    tile[j, lane] = 0.0
        for j in range(dim):
            column = 0.0  # sixteen integers below 2^27: exact in any order
            for lane in range(lanes):
                column += tile[j, lane]
            sums[j] += np.int64(column)

    return compiled(add)
