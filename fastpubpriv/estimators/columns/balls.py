"""The radius of the ball that rows of several columns are clipped to, from released counts of shells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.columns.shares import SHELLS, Shares

SHELLS_AN_OCTAVE = 8
STANDS_OUT, STANDS_OUT_PURE = 2.75, 3.7
HIDDEN = 1.5
TYPICAL = 1.5  # norm of a row of ordinary columns, in roots of their number, where no shell stands out


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBall:
    """Radius, and how far the sum may be off for rows beyond it."""

    radius: float
    bias: float


def shell_edges(top: float) -> FloatArray:
    """Norms between shells, ascending; the last is that of the corner of all boxes."""
    return np.asarray(top * 2.0 ** (-np.arange(SHELLS - 1, -1, -1) / SHELLS_AN_OCTAVE))


def choose_ball(
    counts: FloatArray, edges: FloatArray, std: float, shares: Shares, noise: float | None = None
) -> RowBall:
    """The radius of least predicted error, from counts (edges + 1,) whose noise is `std` rows.

    `noise` is that of one of the `shares.dim` coordinates of what is released next, for radius 1; None is that of a plain sum.
    """
    noise = shares.noise_per_radius if noise is None else noise
    top = float(edges[-1])
    uppers = np.append(edges, top)
    middles = np.append(edges[0] / 2.0, np.append((edges[:-1] + edges[1:]) / 2.0, top))
    last = -1
    limit = STANDS_OUT_PURE if shares.pure else STANDS_OUT
    for width in (1, 2, 4):
        sums = np.convolve(counts, np.ones(width), "valid")
        found = np.flatnonzero(sums > limit * std * math.sqrt(width))
        last = max(last, int(found[-1]) + width - 1 if len(found) else -1)
    if last < 0:
        radius = min(top, TYPICAL * math.sqrt(shares.dim))
        return RowBall(radius=radius, bias=0.0)
    over = np.maximum(middles[: last + 1] - edges[:, None], 0.0)
    excess = np.maximum((over * counts[: last + 1]).sum(axis=1), 0.0)
    excess_std = std * np.sqrt((over**2).sum(axis=1))
    hidden = HIDDEN * std * np.maximum(uppers[min(last + 2, len(uppers) - 1)] - edges, 0.0)
    bias = np.sqrt(excess**2 + (excess_std / 2.0) ** 2 + (hidden / 2.0) ** 2)
    error = bias**2 + shares.dim * (noise * edges) ** 2
    best = int(np.argmin(error))
    return RowBall(radius=float(edges[best]), bias=float(bias[best]))
