"""Scores of hypotheses from Scheffe sets: which sets, what each hypothesis gives them, and how many rows are in them.

Sets and masses are functions of the public list alone; `scores` adds the rows, as whole numbers. Privacy note:
`notes/hypotheses.md`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import PANEL, MixtureTable
from fastpubpriv.mechanisms.candidates import Hypotheses
from fastpubpriv.mechanisms.sums import Passes
from fastpubpriv.sources import Rows, fold
from fastpubpriv.sources.share import share_out

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]

CELLS = 512
MOST_CELL_ROWS = 2**30
MOST_DENSITY_HYPOTHESES = 20_000
_WORD = 30  # bits of a sum over cells
_REACH = np.linspace(-4.0, 4.0, 33)  # standard deviations at which cells are cut
_CHUNK_ROWS = 2048
_DRAW_WORK = 1e11  # multiplications of densities at public draws, a few seconds
_TINY = 2.0**-53


def draws_for(hypotheses: Hypotheses) -> int:
    """Public draws from each hypothesis: 1024, or down to 256 for long lists, where they take their time."""
    work = hypotheses.size**2 * hypotheses.n_components * (hypotheses.dim + 4)
    for draws in (1024, 512):
        if draws * work <= _DRAW_WORK:
            return draws
    return 256


class Evaluation(Protocol):
    """Public sets for every pair of hypotheses, ready for the rows."""

    def scores(self, rows: Rows, passes: Passes) -> IntArray:
        """s_i = max over sets A of i of |round(n f_i(A)) - rows in A|, (size,); moves by at most 1 when a row is replaced."""
        ...


def mixture_cdf(hypotheses: Hypotheses, points: FloatArray) -> FloatArray:
    """Distribution functions (size, points) of hypotheses on the line."""
    total = np.zeros((hypotheses.size, len(points)))
    for c in range(hypotheses.n_components):
        std = np.sqrt(hypotheses.spreads[:, c].reshape(hypotheses.size, 1))
        with np.errstate(over="ignore"):
            total += hypotheses.weights[:, c, None] * ndtr((points - hypotheses.means[:, c]) / std)
    return np.clip(total, 0.0, 1.0, out=total)


def cell_edges(hypotheses: Hypotheses, cells: int) -> FloatArray:
    """Inner edges, ascending, of at most `cells` cells: quantiles of the points mean + std t, |t| <= 4, of all components."""
    present = hypotheses.weights > 0.0
    means = hypotheses.means[present].ravel()
    std = np.sqrt(hypotheses.spreads[present].ravel())
    with np.errstate(over="ignore"):
        points = np.sort((means[:, None] + std[:, None] * _REACH).ravel())
    points = points[np.isfinite(points)]
    places = np.linspace(0, len(points) - 1, cells - 1).round().astype(np.int64)
    edges: FloatArray = np.unique(points[places])
    return edges


def count_cells(rows: Rows, edges: FloatArray, passes: Passes) -> IntArray:
    """Rows of one column below the first edge, from it to the next, ... , from the last on, (edges + 1,).

    A row on an edge is right of it; a row that is not finite is in no cell.
    """

    def step(chunk: Any, accumulators: tuple[IntArray, ...]) -> None:
        value = chunk[:, 0].astype(np.float64)
        value = value[np.isfinite(value)]
        accumulators[0][:] += np.bincount(np.searchsorted(edges, value, side="right"), minlength=len(edges) + 1)

    (counts,) = fold(
        rows,
        lambda: (np.zeros(len(edges) + 1, dtype=np.int64),),
        step,
        row_cost=64,
        threads=passes.threads,
        progress=passes.progress,
    )
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class CellSets:
    """Hypotheses on the line over public cells: A_ij is made of the cells to which i gives more than j.

    `edges` are the inner ends of the cells, `masses` (size, cells) int32 counts what a hypothesis expects of n rows, in units of
    2^-shift rows, and adds up to n 2^shift for each.
    """

    edges: FloatArray
    masses: np.ndarray[Any, np.dtype[np.int32]]
    shift: int

    @classmethod
    def prepare(cls, hypotheses: Hypotheses, n: int, *, cells: int = CELLS) -> CellSets:
        """Cut the line and work out the masses for n rows."""
        if hypotheses.dim != 1:
            raise InputError('cells are for one column; pass method="densities"')
        if n > MOST_CELL_ROWS:
            raise InputError(f"cells count up to 2^30 rows, got {n}; pass a part of the rows")
        shift = _WORD - (n - 1).bit_length()
        edges = cell_edges(hypotheses, cells)
        below = np.rint(mixture_cdf(hypotheses, edges) * math.ldexp(n, shift)).astype(np.int64)
        below = np.maximum.accumulate(below, axis=1)
        masses = np.diff(below, axis=1, prepend=0, append=n << shift)
        return cls(edges, masses.astype(np.int32), shift)

    def scores(self, rows: Rows, passes: Passes) -> IntArray:
        """See `Evaluation.scores`."""
        counts = count_cells(rows, self.edges, passes)
        # mass - rows: as both members of a pair lose the same in a cell, the table also says who gives it more.
        table = self.masses - (counts << self.shift).astype(np.int32)
        panels = kernels.panelled(table, 2**31 - 1)
        worst = np.zeros((len(panels), len(panels) * PANEL), dtype=np.int32)
        share_out(
            lambda panel: kernels.cell_scores(panels, self.shift, panel, worst[panel]),
            len(panels),
            threads=passes.threads,
        )
        found: IntArray = worst.max(axis=0)[: len(table)].astype(np.int64)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class DensitySets:
    """Hypotheses on any number of columns: A_ij holds the points at which the code of i is above that of j.

    The code of a hypothesis at a point is its log density below the largest one there, in steps of 1/2048, 32 at most.
    `masses` (size, size) uint16 holds for i < j at [i, j] and [j, i] how many of `draws` public points drawn from i, and from j,
    lie in A_ij.
    """

    table: MixtureTable
    masses: np.ndarray[Any, np.dtype[np.uint16]]
    draws: int

    @classmethod
    def prepare(
        cls, hypotheses: Hypotheses, *, draws: int | None = None, public_seed: int = 0, threads: int | None = None
    ) -> DensitySets:
        """Draw from each hypothesis and count in which sets the draws lie."""
        size, dim = hypotheses.size, hypotheses.dim
        draws = draws_for(hypotheses) if draws is None else draws
        if size > MOST_DENSITY_HYPOTHESES:
            raise InputError(
                f"densities are compared for up to {MOST_DENSITY_HYPOTHESES} hypotheses, got {size}: pass a shorter list"
            )
        table = kernels.mixture_table(hypotheses.weights, hypotheses.means, hypotheses.spreads)
        # One scrambled Sobol sequence for all: each point has the right law, and together they fill the space evenly.
        uniform = qmc.Sobol(dim + 1, scramble=True, seed=public_seed).random_base2((draws - 1).bit_length())[:draws]
        normals = ndtri(np.clip(uniform[:, 1:], _TINY, 1.0 - _TINY))
        roots = np.sqrt(hypotheses.spreads) if hypotheses.axis_aligned else np.linalg.cholesky(hypotheses.spreads)
        ends = np.cumsum(hypotheses.weights, axis=1)
        masses = np.empty((size, size), dtype=np.uint16)
        idle: deque[np.ndarray[Any, np.dtype[np.int16]]] = deque()  # as many as threads work at once

        def drawn(own: int) -> FloatArray:
            picked = np.searchsorted(ends[own, :-1], uniform[:, 0], side="right")
            root = roots[own, picked]
            away = root * normals if root.ndim == 2 else np.einsum("nij,nj->ni", root, normals)
            return np.ascontiguousarray(hypotheses.means[own, picked] + away)

        def work(own: int) -> None:
            try:
                codes = idle.pop()
            except IndexError:
                codes = np.empty((table.panels, draws, PANEL), dtype=np.int16)
            counts = np.empty(table.panels * PANEL, dtype=np.int32)
            kernels.density_codes(drawn(own), table, codes, 0)
            kernels.column_counts(codes, draws, own, counts)
            idle.append(codes)
            masses[own] = counts[:size]

        share_out(work, size, threads=threads)
        return cls(table, masses, draws)

    def scores(self, rows: Rows, passes: Passes) -> IntArray:
        """See `Evaluation.scores`."""
        panels = self.table.panels
        counts = [np.zeros((PANEL, (panels - panel) * PANEL), dtype=np.int32) for panel in range(panels)]
        capacity = min(_CHUNK_ROWS, rows.n)
        codes = np.empty((panels, capacity, PANEL), dtype=np.int16)
        block = -(-capacity // 64)

        def step(chunk: Any, _accumulators: tuple[IntArray, ...]) -> None:
            points = np.ascontiguousarray(chunk, dtype=np.float64)

            def coded(part: int) -> None:
                begin = part * block
                kernels.density_codes(points[begin : begin + block], self.table, codes, begin)

            share_out(coded, -(-len(points) // block), threads=passes.threads)
            share_out(
                lambda panel: kernels.pair_counts(codes, len(points), panel, counts[panel]),
                panels,
                threads=passes.threads,
            )

        # The threads share the pairs, not the rows: one table of counts may be as large as memory allows.
        fold(
            rows,
            lambda: (np.zeros(1, dtype=np.int64),),
            step,
            threads=1,
            chunk_rows=capacity,
            row_cost=max(1, panels * panels),
            progress=passes.progress,
        )
        return self._worst(counts, rows.n, passes)

    def _worst(self, counts: list[np.ndarray[Any, np.dtype[np.int32]]], n: int, passes: Passes) -> IntArray:
        """Scores from the rows in A_ij, i < j, panel by panel."""
        size = len(self.masses)
        worst = np.zeros((len(counts), size), dtype=np.int64)

        def rounded(drawn: np.ndarray[Any, np.dtype[np.uint16]]) -> IntArray:
            """floor(n drawn / draws + 1/2)"""
            numbers: IntArray = (2 * n * drawn.astype(np.int64) + self.draws) // (2 * self.draws)
            return numbers

        def work(panel: int) -> None:
            first, last = panel * PANEL, min((panel + 1) * PANEL, size)
            held = counts[panel][: last - first, : size - first].astype(np.int64)
            pair = np.arange(first, size) > np.arange(first, last)[:, None]
            own = np.abs(rounded(self.masses[first:last, first:]) - held) * pair
            other = np.abs(rounded(self.masses[first:, first:last].T) - held) * pair
            worst[panel, first:last] = own.max(axis=1)
            worst[panel, first:] = np.maximum(worst[panel, first:], other.max(axis=0))

        share_out(work, len(counts), threads=passes.threads)
        found: IntArray = worst.max(axis=0)
        return found
