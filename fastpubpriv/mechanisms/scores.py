"""Scores of hypotheses from private rows: Scheffe sets in one or several columns, and clipped log densities.

Sets and masses are functions of the public list alone; `scores` counts rows, in integers. In one column sets are unions of
intervals between the roots of differences of densities, or of public cells; in several columns they come from codes of densities
at rows and at public draws. Clipped log densities are for very long lists: time is linear, not quadratic, in the length.

Privacy note: `notes/hypotheses.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import densities as kernels
from fastpubpriv.kernels.densities import CODES_PER_NAT, LARGEST_COUNT, PANEL, TOP_CODE
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.results.public_draws import sobol_points
from fastpubpriv.rowwise.row_maps import MixtureTable
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.row_types import Chunk
from fastpubpriv.threads.pool import AccumulatorPool, available_cpus, share_out

CELLS = 512  # default number of cells
MOST_CELL_ROWS = 2**30
_WORD = 30  # bits of a sum over cells
# distances from a mean, in standard deviations, of candidate edges
_CELL_REACH = np.linspace(-4.0, 4.0, 33)


def mixture_cdf(
    hypotheses: Hypotheses, points: FloatArray, chosen: slice = slice(None)
) -> FloatArray:
    """Return the distribution functions (size, points) of the chosen hypotheses in one column."""
    weights, means, spreads = (
        part[chosen] for part in (hypotheses.weights, hypotheses.means, hypotheses.spreads)
    )
    total = np.zeros((len(weights), len(points)))
    for c in range(hypotheses.n_components):
        std = np.sqrt(spreads[:, c].reshape(-1, 1))
        with np.errstate(over="ignore"):
            total += weights[:, c, None] * ndtr((points - means[:, c]) / std)
    return np.clip(total, 0.0, 1.0, out=total)


def cell_edges(hypotheses: Hypotheses, cells: int) -> FloatArray:
    """Return ascending inner edges of at most `cells` cells: quantiles of the points mean + std t, |t| <= 4, of all components."""
    present = hypotheses.weights > 0.0
    means = hypotheses.means[present].ravel()
    std = np.sqrt(hypotheses.spreads[present].ravel())
    with np.errstate(over="ignore"):
        points = np.sort((means[:, None] + std[:, None] * _CELL_REACH).ravel())
    points = points[np.isfinite(points)]
    places = np.linspace(0, len(points) - 1, cells - 1).round().astype(np.int64)
    return np.unique(points[places])


@dataclass(frozen=True, slots=True, eq=False)
class CellSets:
    """Hypotheses in one column over public cells: A_ij is the union of the cells with more mass under i than under j."""

    sensitivity: ClassVar[int] = 1
    edges: FloatArray  # inner edges of the cells
    masses: np.ndarray[Any, np.dtype[np.int32]]  # (size, cells), expected numbers of n rows
    shift: int  # `masses` are in 2^-shift rows and add up to n 2^shift for each hypothesis

    @classmethod
    def prepare(cls, hypotheses: Hypotheses, n: int, *, cells: int = CELLS) -> CellSets:
        """Choose the cells and compute the masses for n rows."""
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

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """See `Evaluation`."""
        counts = executor.run(CellQuery.of(self.edges), rows)
        # mass - rows: the same count is subtracted for both members of a pair, so the table still shows whose mass is larger.
        table = self.masses - (counts << self.shift).astype(np.int32)
        panels = kernels.panelled(table, 2**31 - 1)
        worst = np.zeros((len(panels), len(panels) * PANEL), dtype=np.int32)
        share_out(
            lambda panel: kernels.cell_scores(panels, self.shift, panel, worst[panel]),
            len(panels),
            threads=executor.threads,
        )
        return np.asarray(worst.max(axis=0)[: len(table)].astype(np.int64))


MOST_EXACT_SETS = 1000
# The densities of two mixtures of k Gaussians cross at most 2 (2 k - 1) times; rounding may add some where they are nearly equal.
_SPARE_ROOTS = 4
_ROOT_REACH = np.arange(-8.0, 9.0)


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals where one hypothesis in one column has a larger density than another, for pairs (0, 1), (0, 2), ..., (1, 2) ..."""

    edges: FloatArray  # the roots of all pairs, ascending
    # (pairs, most): indices of the edges that are roots of a pair, ascending, then `len(edges)`
    places: IntArray
    signs: IntArray  # (pairs, most): 1 for a root where A_ij ends, -1 where it begins, else 0
    ends_inside: IntArray  # (pairs,): 1 if A_ij reaches to infinity

    @classmethod
    def between(cls, hypotheses: Hypotheses, *, threads: int | None = None) -> Intervals:
        """Find the roots of all pairs."""
        size = hypotheses.size
        components = hypotheses.n_components
        if hypotheses.dim != 1:
            raise InputError('exact sets are for one column; pass method="densities"')
        if size > MOST_EXACT_SETS:
            raise InputError(
                f'exact sets are found for up to {MOST_EXACT_SETS} hypotheses, got {size}; pass method="cells" or a shorter list'
            )
        weights = hypotheses.weights
        means = hypotheses.means.reshape(size, components)
        std = np.sqrt(hypotheses.spreads.reshape(size, components))
        with np.errstate(divide="ignore", over="ignore"):
            constants = np.where(weights > 0.0, np.log(weights) - np.log(std), -1e300)
            points = (means[..., None] + std[..., None] * _ROOT_REACH).reshape(size, -1)
        # A component of weight 0 needs no points: it repeats those of the first component with a weight.
        heaviest = np.argmax(weights, axis=1)
        absent = np.repeat(weights == 0.0, len(_ROOT_REACH), axis=1)
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

    def expected(
        self, hypotheses: Hypotheses, index: int, n: int, pairs: IntArray | slice
    ) -> IntArray:
        """Return the expected number of n rows in the sets of some pairs under one hypothesis, rounded, (pairs,)."""
        signs = self.signs[pairs]
        real = signs != 0
        below = np.zeros(signs.shape)
        below[real] = mixture_cdf(
            hypotheses, self.edges[self.places[pairs][real]], slice(index, index + 1)
        )[0]
        mass = np.clip((below * signs).sum(axis=1) + self.ends_inside[pairs], 0.0, 1.0)
        return np.asarray(np.floor(n * mass + 0.5).astype(np.int64))

    def held(self, rows: Rows, executor: Executor) -> IntArray:
        """Return the number of rows in the set of each pair, (pairs,)."""
        below = np.cumsum(executor.run(CellQuery.of(self.edges), rows))
        return np.asarray(
            (below[self.places] * self.signs).sum(axis=1) + self.ends_inside * below[-1]
        )


Codes = np.ndarray[Any, np.dtype[np.int16]]
PairCounts = np.ndarray[Any, np.dtype[np.int32]]

MOST_DENSITIES = 20_000  # hypotheses
CHUNK_ROWS = 2048
_BLOCK_ROWS = 32
_BLOCK_WORK = 2**28  # operations, a few hundredths of a second
# coded at once, so that the codes of a thousand hypotheses stay in the second-level cache
_BLOCK_DRAWS = 256
_DRAW_WORK = 1e10  # multiplications of densities at public draws, some two seconds of one core
_TINY = 2.0**-53  # distance of uniform draws from 0 and 1


class PublicDraws:
    """Public draws from each hypothesis, from one scrambled Sobol sequence: each point has the exact law, with low discrepancy."""

    def __init__(
        self, hypotheses: Hypotheses, *, draws: int | None = None, public_seed: int = 0
    ) -> None:
        if hypotheses.size > MOST_DENSITIES:
            raise InputError(
                f"densities are compared for up to {MOST_DENSITIES} hypotheses, got {hypotheses.size}: pass a shorter "
                'list, or score="log_ratio"'
            )
        if draws is None:  # 1024, or down to 256 for long lists, to save time
            work = hypotheses.size**2 * hypotheses.n_components * (hypotheses.dim + 4)
            draws = next((each for each in (1024, 512) if each * work <= _DRAW_WORK), 256)
        self.draws = draws
        self.table = kernels.mixture_table(hypotheses.weights, hypotheses.means, hypotheses.spreads)
        self._hypotheses = hypotheses
        uniform = sobol_points(hypotheses.dim + 1, (draws - 1).bit_length(), seed=public_seed)[
            :draws
        ]
        self._picks = uniform[:, 0]
        self._normals = ndtri(np.clip(uniform[:, 1:], _TINY, 1.0 - _TINY))
        spreads = hypotheses.spreads
        self._roots = np.sqrt(spreads) if hypotheses.axis_aligned else np.linalg.cholesky(spreads)
        self._ends = np.cumsum(hypotheses.weights, axis=1)

    def of(self, own: int) -> FloatArray:
        """Return points (draws, dim) from one hypothesis."""
        picked = np.searchsorted(self._ends[own, :-1], self._picks, side="right")
        root = self._roots[own, picked]
        away = (
            root * self._normals if root.ndim == 2 else np.einsum("nij,nj->ni", root, self._normals)
        )
        return np.ascontiguousarray(self._hypotheses.means[own, picked] + away)

    def each(
        self, work: Callable[[int, Codes, int], None], *, block: int, threads: int | None
    ) -> None:
        """Call work(i, codes, k), in threads, for blocks of k <= `block` draws from each hypothesis i, with codes codes[:, :k]."""
        block = min(self.draws, block)
        shape = self.table.panels, block, PANEL
        buffers = AccumulatorPool(
            lambda: (np.empty(shape, dtype=np.int16), kernels.density_room(self.table))
        )

        def coded(own: int) -> None:
            points = self.of(own)
            with buffers.one() as (codes, room):
                for begin in range(0, self.draws, block):
                    drawn = points[begin : begin + block]
                    kernels.density_codes(drawn, self.table, codes, 0, room)
                    work(own, codes, len(drawn))

        share_out(coded, self._hypotheses.size, threads=threads)


def empty_counts(panels: int) -> list[PairCounts]:
    """Return zero counts for all pairs: for each panel p, an array for its pairs with panel p and all later panels."""
    return [np.zeros((PANEL, (panels - panel) * PANEL), dtype=np.int32) for panel in range(panels)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodesQuery(Query):
    """Counts or sums of the codes of densities at the rows, `chunk_rows` rows at a time; accumulators are workspace and totals."""

    # The threads divide the hypotheses, not the rows, because one table of codes or counts may be as large as memory allows.
    table: MixtureTable
    # 0: number of rows with a larger code for i than for j, at [i % PANEL, j - PANEL p] of panel p = i // PANEL. Otherwise, for
    # each hypothesis the sum of the distances from the best code, each up to `most`, (panels, PANEL)
    most: int = 0
    chunk_rows: int = CHUNK_ROWS
    threads: int | None = None

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return int(self.table.panels) ** 2

    def zeros(self) -> tuple[Any, ...]:
        """See `Query.zeros`."""
        panels = self.table.panels
        codes = np.empty((panels, self.chunk_rows, PANEL), dtype=np.int16)
        # they may be as large as the codes
        rooms = AccumulatorPool(partial(kernels.density_room, self.table))
        totals = [np.zeros((panels, PANEL), dtype=np.int64)] if self.most else empty_counts(panels)
        return [codes, rooms], *totals

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        (codes, rooms), *totals = accumulators
        points = np.ascontiguousarray(chunk, dtype=np.float64)
        table = self.table
        n = len(points)
        # Many rows, as the parameters of a long list are read once per block, but a block cannot be interrupted.
        workers = available_cpus() if self.threads is None else self.threads
        affordable = _BLOCK_WORK // (
            table.panels * PANEL * table.constants.shape[1] * (table.dim + 8)
        )
        block = max(1, min(_BLOCK_ROWS, affordable, -(-self.chunk_rows // (4 * workers))))

        def coded(part: int) -> None:
            with rooms.one() as room:
                kernels.density_codes(
                    points[part * block : (part + 1) * block], table, codes, part * block, room
                )

        def counted(panel: int) -> None:
            kernels.pair_counts(codes, n, panel, totals[panel])

        def summed(part: int) -> None:
            span = slice(part * _PANELS, (part + 1) * _PANELS)
            below = TOP_CODE - codes[span, :n].astype(np.int32)
            totals[0][span] += np.minimum(below, np.int32(self.most), out=below).sum(axis=1)

        share_out(coded, -(-n // block), threads=self.threads)
        if self.most:
            share_out(summed, -(-table.panels // _PANELS), threads=self.threads)
        else:
            share_out(counted, table.panels, threads=self.threads)

    def merge(self, total: Any, part: Any) -> None:
        """See `Query.merge`."""
        Query.merge(self, total[1:], part[1:])

    def packed(self, accumulators: Any) -> tuple[Any, ...]:
        """See `Query.packed`."""
        return [], *accumulators[1:]

    def answer(self, accumulators: Any) -> list[np.ndarray[Any, Any]]:
        """See `Query.answer`."""
        return list(accumulators[1:])


def count_pairs(table: MixtureTable, rows: Rows, executor: Executor) -> list[PairCounts]:
    """Return the number of rows with a larger code for one hypothesis than for another, by panel, private values."""
    if rows.n > LARGEST_COUNT:
        raise KernelError("pairs are counted in 32 bits")
    query = CodesQuery(table=table, chunk_rows=min(CHUNK_ROWS, rows.n), threads=executor.threads)
    return list(executor.run(query, rows))


def shares(drawn: np.ndarray[Any, Any], draws: int, n: int) -> IntArray:
    """Return floor(n drawn / draws + 1/2): the number of n rows that corresponds to `drawn` of `draws` public draws."""
    return (2 * n * drawn.astype(np.int64) + draws) // (2 * draws)


def ahead(codes: Codes, own: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Count the draws (hypotheses,) at which the code of `own` is above that of a later, or below that of an earlier hypothesis."""
    panel, place = divmod(own, PANEL)
    mine = codes[panel, :, place, None]
    packed = np.empty((len(codes), PANEL), dtype=np.uint16)
    np.less(mine, codes[:panel]).sum(axis=1, dtype=np.uint16, out=packed[:panel])
    np.greater(mine, codes[panel:]).sum(axis=1, dtype=np.uint16, out=packed[panel:])
    np.less(mine, codes[panel, :, :place]).sum(axis=0, dtype=np.uint16, out=packed[panel, :place])
    return packed.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class DensitySets:
    """Hypotheses on any number of columns: A_ij holds the points at which the code of i is above that of j."""

    # The code of a hypothesis at a point is its log density relative to the largest one there, in steps of 1/2048 nat, down to -32.
    # `masses` (size, size) holds for i < j at [i, j] and [j, i] how many of `draws` public points from i, and from j, are in A_ij.
    sensitivity: ClassVar[int] = 1
    table: MixtureTable
    masses: np.ndarray[Any, np.dtype[np.uint16]]
    draws: int

    @classmethod
    def prepare(
        cls,
        hypotheses: Hypotheses,
        *,
        draws: int | None = None,
        public_seed: int = 0,
        threads: int | None = None,
    ) -> DensitySets:
        """Draw from each hypothesis and count the draws in each set."""
        public = PublicDraws(hypotheses, draws=draws, public_seed=public_seed)
        size = hypotheses.size
        masses = np.zeros((size, size), dtype=np.uint16)

        def work(own: int, codes: Codes, taken: int) -> None:
            masses[own] += ahead(codes[:, :taken], own)[:size]

        public.each(work, block=_BLOCK_DRAWS, threads=threads)
        return cls(public.table, masses, public.draws)

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """See `Evaluation`."""
        counts = count_pairs(self.table, rows, executor)
        n = rows.n
        size = len(self.masses)
        worst = np.zeros((len(counts), size), dtype=np.int64)

        def work(panel: int) -> None:
            first = panel * PANEL
            last = min((panel + 1) * PANEL, size)
            held = counts[panel][: last - first, : size - first].astype(np.int64)
            pair = np.arange(first, size) > np.arange(first, last)[:, None]
            own = np.abs(shares(self.masses[first:last, first:], self.draws, n) - held) * pair
            other = np.abs(shares(self.masses[first:, first:last].T, self.draws, n) - held) * pair
            worst[panel, first:last] = own.max(axis=1)
            worst[panel, first:] = np.maximum(worst[panel, first:], other.max(axis=0))

        share_out(work, len(counts), threads=executor.threads)
        return np.asarray(worst.max(axis=0))


# ---- Scores over Scheffe sets: those of the pairs with one hypothesis or, for a short list, those of all pairs, the Yatracos
# class (Aden-Ali, Ashtiani and Kamath 2021, Theorem 27)


MOST_HYPOTHESES = 256  # 32,640 sets, and a mass of each hypothesis in each of them
_BLOCK = 2048  # sets at once


@dataclass(frozen=True, slots=True, eq=False)
class ScheffeSets:
    """Scheffe sets A_ij, i < j, in the order (0, 1), (0, 2), ..., (1, 2), ...; `held` counts the rows in each set."""

    sensitivity: ClassVar[int] = 1
    # (size, sets): expected number of n rows, rounded, in the `own` sets of each or in all
    expected: IntArray
    held: Callable[[Rows, Executor], IntArray]
    # (size, sets): indices of the sets of the pairs with each hypothesis
    own: IntArray | None = None

    @classmethod
    def of_intervals(
        cls, hypotheses: Hypotheses, n: int, *, own_only: bool = False, threads: int | None = None
    ) -> ScheffeSets:
        """Build exact sets in one column; with `own_only`, a hypothesis uses only the sets of pairs that contain it."""
        intervals = Intervals.between(hypotheses, threads=threads)
        size = hypotheses.size
        own = None
        expected = np.empty((size, len(intervals.places)), dtype=np.int64)
        if own_only:
            table = np.zeros((size, size), dtype=np.int64)
            upper = np.triu_indices(size, 1)
            table[upper] = np.arange(len(upper[0]))
            own = (table + table.T)[~np.eye(size, dtype=bool)].reshape(size, size - 1)
            expected = np.empty(own.shape, dtype=np.int64)

        def work(index: int) -> None:
            pairs = slice(None) if own is None else own[index]
            expected[index] = intervals.expected(hypotheses, index, n, pairs)

        share_out(work, size, threads=threads)
        return cls(expected, intervals.held, own)

    @classmethod
    def of_cells(cls, hypotheses: Hypotheses, n: int, *, cells: int) -> ScheffeSets:
        """Build sets of public cells in one column."""
        cut = CellSets.prepare(hypotheses, n, cells=cells)
        first, second = np.triu_indices(hypotheses.size, 1)
        inside = np.empty((len(first), cut.masses.shape[1]), dtype=np.bool_)
        for begin in range(0, len(first), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            np.greater(cut.masses[first[block]], cut.masses[second[block]], out=inside[block])
        half = (1 << cut.shift) >> 1
        expected = np.ascontiguousarray((_unions(inside, cut.masses.T) + half).T >> cut.shift)
        return cls(expected, partial(_held_in_cells, cut.edges, inside))

    @classmethod
    def of_densities(
        cls,
        hypotheses: Hypotheses,
        n: int,
        *,
        draws: int | None = None,
        public_seed: int = 0,
        threads: int | None = None,
    ) -> ScheffeSets:
        """Build sets of points at which one code is above another, with masses from public draws."""
        size = hypotheses.size
        public = PublicDraws(hypotheses, draws=draws, public_seed=public_seed)
        table = public.table
        inside = np.zeros((size, size * (size - 1) // 2), dtype=np.int64)

        def work(own: int, codes: Codes, taken: int) -> None:
            counts = empty_counts(table.panels)
            for panel, counted in enumerate(counts):
                kernels.pair_counts(codes, taken, panel, counted)
            inside[own] += _in_order(counts, size)

        public.each(work, block=public.draws, threads=threads)
        return cls(shares(inside, public.draws, n), partial(_held_by_codes, table, size))

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """See `Evaluation`."""
        held = self.held(rows, executor)
        sets = [slice(None)] * len(self.expected) if self.own is None else self.own
        off = (
            np.abs(masses - held[mine]).max()
            for masses, mine in zip(self.expected, sets, strict=True)
        )
        return np.fromiter(off, dtype=np.int64)


# Functions of a module, so that a choice can be pickled.


def _held_by_codes(table: MixtureTable, size: int, rows: Rows, executor: Executor) -> IntArray:
    """Return the number of rows, (pairs,), at which the code of one hypothesis of a pair is above that of the other."""
    return _in_order(count_pairs(table, rows, executor), size)


def _held_in_cells(
    edges: FloatArray, inside: BoolArray, rows: Rows, executor: Executor
) -> IntArray:
    """Return the number of rows, (pairs,), in sets of cells between `edges`."""
    return _unions(inside, executor.run(CellQuery.of(edges), rows)[:, None])[:, 0]


def _unions(inside: BoolArray, numbers: np.ndarray[Any, Any]) -> IntArray:
    """Return sums (sets, k) over the cells of each set (sets, cells), of integers (cells, k) that add up to less than 2^53."""
    # These sums are exact in double precision, so they do not depend on the order of addition.
    blocks = range(0, len(inside), _BLOCK)
    values = numbers.astype(np.float64)
    return np.concatenate([inside[at : at + _BLOCK] @ values for at in blocks]).astype(np.int64)


def _in_order(counts: list[PairCounts], size: int) -> IntArray:
    """Return counts (pairs,) in the order of the sets, from counts by panel."""
    width = counts[0].shape[0]
    table = np.zeros((size, size), dtype=np.int64)
    for panel, column in enumerate(counts):
        first = panel * width
        last = min((panel + 1) * width, size)
        table[first:last, first:] = column[: last - first, : size - first]
    return table[np.triu_indices(size, 1)]


# steps of a score up to the clip, hence also its sensitivity: rounding to a step is small next to
# the noise
STEPS = 4
# at least one code per step; codes end at 32 nats
CLIP_LEAST = STEPS / CODES_PER_NAT
CLIP_MOST = 31.0
_CODES_HELD = 2**26  # codes in memory at once
_PANELS = 64  # panels summed at once


def checked_clip(clip: float) -> float:
    """Return `clip`; InputError if it is out of bounds."""
    if not CLIP_LEAST <= clip <= CLIP_MOST:
        raise InputError(f"clip must be from 1/512 to {CLIP_MOST:g} nats, got {clip!r}")
    return clip


@dataclass(frozen=True, slots=True, eq=False)
class LogRatios:
    """Hypotheses on any number of columns, scored by the clipped gap of their log density to the largest one at each row."""

    sensitivity: ClassVar[int] = STEPS
    table: MixtureTable
    size: int
    unit: int  # a step of a score, in codes: a row adds at most STEPS of them

    @classmethod
    def prepare(cls, hypotheses: Hypotheses, *, clip: float) -> LogRatios:
        """Build the table of densities; `clip` in nats, rounded to a multiple of 1/512."""
        table = kernels.mixture_table(hypotheses.weights, hypotheses.means, hypotheses.spreads)
        return cls(table, hypotheses.size, round(checked_clip(clip) * CODES_PER_NAT / STEPS))

    @property
    def clip(self) -> float:
        """The rounded clip, in nats."""
        return self.unit * STEPS / CODES_PER_NAT

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """Return floor(sum over rows of min(codes below the best, STEPS unit) / unit), (size,); its sensitivity is STEPS."""
        capacity = min(rows.n, CHUNK_ROWS, max(64, _CODES_HELD // (self.table.panels * PANEL)))
        query = CodesQuery(
            table=self.table,
            most=STEPS * self.unit,
            chunk_rows=capacity,
            threads=executor.threads,
        )
        return np.asarray(executor.run(query, rows)[0].reshape(-1)[: self.size] // self.unit)


# Scores of hypotheses at the rows. `sensitivity` is the maximum change of a score when a row is replaced; `scores(rows, executor)`
# returns integers (size,), lower is better: for sets, s_i = max over sets A of i of |round(n f_i(A)) - rows in A|.
Evaluation = CellSets | DensitySets | ScheffeSets | LogRatios
