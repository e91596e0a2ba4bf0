"""Symmetric integer matrices of which kernels fill one triangle."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import IntArray

MIRROR_BLOCK = 64


def mirror(lower: IntArray) -> IntArray:
    """Copy the lower triangle of a square matrix to the upper one, in place and in blocks: a second matrix may be too much."""
    side = len(lower)
    for begin in range(0, side, MIRROR_BLOCK):
        end = min(begin + MIRROR_BLOCK, side)
        corner = np.tril(lower[begin:end, begin:end])
        lower[begin:end, begin:end] = corner + np.tril(corner, -1).T
        lower[begin:end, end:] = lower[end:, begin:end].T
    return lower
