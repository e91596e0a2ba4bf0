"""Exact Scheffe sets of mixtures on the line: unions of intervals between the roots of differences of densities.

Privacy note: `notes/hypotheses.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.mechanisms.selection.scheffe import mixture_cdf
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.threads.steps import share_out

MOST_HYPOTHESES = 1000
# The densities of two mixtures of k Gaussians cross at most 2 (2 k - 1) times; rounding may add some where they are nearly equal.
_SPARE_ROOTS = 4
_REACH = np.arange(-8.0, 9.0)


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Where the density of one hypothesis on the line is larger than that of another, for all pairs i < j.

    Pairs stand in the order (0, 1), (0, 2), ..., (1, 2), ... `edges` are the roots of all of them, ascending; `places`
    (pairs, most) says which edges are the roots of a pair, in ascending order, and is `len(edges)` where it has no more; `signs`
    (pairs, most) is 1 for a root where A_ij ends, -1 where it begins, else 0; `ends_inside` (pairs,) is 1 if A_ij reaches to
    infinity.
    """

    edges: FloatArray
    places: IntArray
    signs: IntArray
    ends_inside: IntArray

    @classmethod
    def between(cls, hypotheses: Hypotheses, *, threads: int | None = None) -> Intervals:
        """Find the roots of all pairs."""
        size, components = hypotheses.size, hypotheses.n_components
        if hypotheses.dim != 1:
            raise InputError('exact sets are for one column; pass method="densities"')
        if size > MOST_HYPOTHESES:
            raise InputError(
                f'exact sets are found for up to {MOST_HYPOTHESES} hypotheses, got {size}; pass method="cells" or a shorter list'
            )
        weights, means = hypotheses.weights, hypotheses.means.reshape(size, components)
        std = np.sqrt(hypotheses.spreads.reshape(size, components))
        with np.errstate(divide="ignore", over="ignore"):
            constants = np.where(weights > 0.0, np.log(weights) - np.log(std), -1e300)
            points = (means[..., None] + std[..., None] * _REACH).reshape(size, -1)
        # A component of weight 0 needs no points: it repeats those of the first component with a weight.
        heaviest = np.argmax(weights, axis=1)
        absent = np.repeat(weights == 0.0, len(_REACH), axis=1)
        own = points.reshape(size, components, -1)[np.arange(size), heaviest]
        points = np.where(absent, np.tile(own, components), points)
        grids = np.sort(np.clip(points, -1e300, 1e300), axis=1)
        parts = (constants, np.ascontiguousarray(means), 1.0 / std)
        most = 2 * (2 * components - 1) + _SPARE_ROOTS
        first = np.concatenate([[0], np.cumsum(np.arange(size - 1, -1, -1))])
        roots = np.empty((int(first[-1]), most))
        counts = np.empty(int(first[-1]), dtype=np.int64)

        def work(index: int) -> None:
            span = slice(int(first[index]), int(first[index + 1]))
            kernels.pair_roots(parts, grids, index, roots[span], counts[span])

        share_out(work, size, threads=threads)
        leads = counts >= 0
        counts = np.where(leads, counts, -counts - 1)
        real = np.arange(most) < counts[:, None]
        alternate = np.where(np.arange(most) % 2 == 0, 1, -1)
        signs = np.where(leads[:, None], alternate, -alternate) * real
        ends_inside = (leads ^ (counts % 2 == 1)).astype(np.int64)
        edges, inverse = np.unique(roots[real], return_inverse=True)
        places = np.full(roots.shape, len(edges), dtype=np.int64)
        places[real] = inverse
        return cls(edges, places, signs, ends_inside)

    def expected(self, hypotheses: Hypotheses, index: int, n: int, pairs: IntArray | slice) -> IntArray:
        """Rows out of n that one hypothesis expects in the sets of some pairs, rounded, (pairs,)."""
        signs = self.signs[pairs]
        real = signs != 0
        below = np.zeros(signs.shape)
        below[real] = mixture_cdf(hypotheses, self.edges[self.places[pairs][real]], slice(index, index + 1))[0]
        mass = np.clip((below * signs).sum(axis=1) + self.ends_inside[pairs], 0.0, 1.0)
        rounded: IntArray = np.floor(n * mass + 0.5).astype(np.int64)
        return rounded

    def held(self, rows: Rows, executor: Executor) -> IntArray:
        """Rows in the set of each pair, (pairs,)."""
        below = np.cumsum(executor.run(CellQuery.between([self.edges]), rows))
        found: IntArray = (below[self.places] * self.signs).sum(axis=1) + self.ends_inside * below[-1]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class RootSets:
    """Hypotheses on the line: A_ij, i < j, is where the density of i is the larger one.

    `expected` (size, size) holds at [i, j] what i expects of n rows in the set that it has with j, rounded.
    """

    sensitivity: ClassVar[int] = 1
    intervals: Intervals
    expected: IntArray

    @classmethod
    def prepare(cls, hypotheses: Hypotheses, n: int, *, threads: int | None = None) -> RootSets:
        """Find the roots and work out the masses for n rows."""
        intervals = Intervals.between(hypotheses, threads=threads)
        size = hypotheses.size
        numbers = numbered(size)
        expected = np.zeros((size, size), dtype=np.int64)

        def work(index: int) -> None:
            others = np.delete(np.arange(size), index)
            expected[index, others] = intervals.expected(hypotheses, index, n, numbers[index, others])

        share_out(work, size, threads=threads)
        return cls(intervals, expected)

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """See `scheffe.Evaluation.scores`."""
        off = np.abs(self.expected - self.intervals.held(rows, executor)[numbered(len(self.expected))])
        np.fill_diagonal(off, 0)
        found: IntArray = off.max(axis=1)
        return found


def numbered(size: int) -> IntArray:
    """The place of each unordered pair in the order (0, 1), (0, 2), ..., (1, 2), ..., at [i, j] and [j, i]; 0 at [i, i]."""
    table = np.zeros((size, size), dtype=np.int64)
    upper = np.triu_indices(size, 1)
    table[upper] = np.arange(len(upper[0]))
    found: IntArray = table + table.T
    return found
