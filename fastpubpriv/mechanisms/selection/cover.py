"""Private choice among Gaussians on the line by Scheffe sets (hypothesis selection, in the role of BKSW19).

Privacy note: `notes/selection.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.mechanisms.selection.candidates import Chosen
from fastpubpriv.mechanisms.sums import AffineMap, Measurement
from fastpubpriv.privacy import SelectionEvent
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release_choice
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk

_PAIRS = 1 << 20  # pairs of hypotheses handled at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cover:
    """Gaussians N(mean_i, std_i^2) on the line, and the public cells that their Scheffe sets are made of.

    The line is cut at low + k step, k = 0 ... cuts - 1; each set is an interval between two cuts (or infinity), or the rest of
    the line. `accuracy` is the total variation alpha and `slack` the zeta of the score.
    """

    mean: FloatArray
    std: FloatArray
    accuracy: float
    slack: float
    low: float
    step: float
    cuts: int

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return len(self.mean)

    @property
    def edges(self) -> FloatArray:
        """The cuts with infinity at both ends, (cuts + 2,)."""
        return np.concatenate([[-np.inf], self.low + self.step * np.arange(self.cuts), [np.inf]])


def scheffe_sets(cover: Cover, first: int, last: int) -> tuple[IntArray, IntArray, BoolArray]:
    """Where hypotheses first ... last - 1 are likelier than each other: edges (begin, end); whether the set is outside."""
    mean_i, std_i = cover.mean[first:last, None], cover.std[first:last, None]
    mean_j, std_j = cover.mean[None, :], cover.std[None, :]
    with np.errstate(all="ignore"):
        # log(H_i / H_j) = a x^2 + b x + c
        a = 0.5 / std_j**2 - 0.5 / std_i**2
        b = mean_i / std_i**2 - mean_j / std_j**2
        c = 0.5 * (mean_j / std_j) ** 2 - 0.5 * (mean_i / std_i) ** 2 + np.log(std_j / std_i)
        middle = -b / (2.0 * a)
        half = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0)) / np.abs(2.0 * a)
        same = np.broadcast_to(std_i == std_j, a.shape)
        cross = (mean_i + mean_j) / 2.0
        low = np.where(same, np.where(mean_i > mean_j, cross, -np.inf), middle - half)
        high = np.where(same, np.where(mean_i > mean_j, np.inf, cross), middle + half)
    outside = ~same & (a > 0.0)

    def edge(point: FloatArray) -> IntArray:
        number = np.clip(np.rint((point - cover.low) / cover.step) + 1.0, 0.0, cover.cuts + 1.0)
        numbers: IntArray = number.astype(np.int64)
        return numbers

    return edge(low), edge(high), outside


def scores(cover: Cover, below: IntArray, n: int) -> IntArray:
    """S_i = min_j Gamma_ij, (size,), from the number of rows below each edge, (cuts + 2,), of n rows.

    Gamma_ij = n if H_i and H_j are close, else max(0, rows in W_ij - ceil(n (H_j(W_ij) + (1 + slack / 2) accuracy))). The offset
    is public, so a replaced row moves a score by at most one.
    """
    edges = cover.edges
    best = np.full(cover.size, n, dtype=np.int64)
    rows = max(1, _PAIRS // cover.size)
    for first in range(0, cover.size, rows):
        last = min(first + rows, cover.size)
        begin, end, outside = scheffe_sets(cover, first, last)
        inside = below[end] - below[begin]
        held = np.where(outside, below[-1] - inside, inside)

        def mass(mean: FloatArray, std: FloatArray, left: FloatArray, right: FloatArray, out: Any) -> FloatArray:
            within = ndtr((right - mean) / std) - ndtr((left - mean) / std)
            masses: FloatArray = np.where(out, 1.0 - within, within)
            return masses

        left, right = edges[begin], edges[end]
        own = mass(cover.mean[first:last, None], cover.std[first:last, None], left, right, outside)
        other = mass(cover.mean[None, :], cover.std[None, :], left, right, outside)
        offset = np.ceil(n * (other + (1.0 + cover.slack / 2.0) * cover.accuracy)).astype(np.int64)
        apart = own - other > (2.0 + cover.slack) * cover.accuracy
        gamma = np.where(apart, np.maximum(held - offset, 0), n)
        best[first:last] = gamma.min(axis=1)
    return best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BelowQuery(Query):
    """Rows whose coordinate lies below each edge of a cover, (cuts + 2,).

    The coordinate is summed term by term in a fixed order, so a row falls in the same cell whatever chunk it comes in; a row
    whose coordinate is not finite is in none.
    """

    cover: Cover
    affine: AffineMap

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.cover.cuts + 1, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        dim, matrix = self.affine.dim, self.affine.matrix
        center = np.zeros(dim) if self.affine.center is None else self.affine.center
        weights = np.zeros(dim) if matrix is None else matrix[0]
        value = np.zeros(len(chunk))
        for column in range(dim):
            value += (chunk[:, column].astype(np.float64) - center[column]) * weights[column]
        value = value[np.isfinite(value)]
        cells = np.searchsorted(self.cover.edges[1:-1], value, side="right")
        accumulators[0][:] += np.bincount(cells, minlength=self.cover.cuts + 1)

    def answer(self, accumulators: tuple[IntArray]) -> IntArray:
        """See `Query.answer`."""
        return np.concatenate([[0], np.cumsum(accumulators[0])]).astype(np.int64)

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return 8 * self.affine.dim + 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverChoice(Measurement[Fraction, Chosen]):
    """Choose the Gaussian of the cover that fits the coordinate affine(x), with (1, dim) matrix, of the rows.

    Exponential mechanism on integer scores of replace-one sensitivity one; exact but for 2^-100. The cost is its epsilon, in every
    notion.
    """

    affine: AffineMap
    cover: Cover

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Chosen:
        """Charge, run the pass, score and choose."""
        event = SelectionEvent(epsilon=cost, sensitivity=1, candidates=self.cover.size)

        def query() -> IntArray:
            below = executor.run(BelowQuery(cover=self.cover, affine=self.affine), rows)
            return scores(self.cover, below, rows.n)

        return Chosen(index=release_choice(account, name=name, query=query, event=event), event=event)
