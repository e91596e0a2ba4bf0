"""Scheffe sets of mixtures on any number of columns, from codes of their densities at rows and at public draws.

Privacy note: `notes/hypotheses.md`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import LARGEST_COUNT, PANEL
from fastpubpriv.maps import MixtureTable
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.public_points import sobol_points
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk
from fastpubpriv.threads.pool import available_cpus
from fastpubpriv.threads.steps import Lent, share_out

Codes = np.ndarray[Any, np.dtype[np.int16]]
PairCounts = np.ndarray[Any, np.dtype[np.int32]]

MOST_HYPOTHESES = 20_000
CHUNK_ROWS = 2048
_BLOCK_ROWS = 32
_BLOCK_WORK = 2**28  # operations, a few hundredths of a second
_BLOCK_DRAWS = 256  # coded at once, so that the codes of a thousand hypotheses stay in the second-level cache
_DRAW_WORK = 1e10  # multiplications of densities at public draws, some two seconds of one core
_TINY = 2.0**-53


def draws_for(hypotheses: Hypotheses) -> int:
    """Number of public draws from each hypothesis: 1024, or down to 256 for long lists, to save time."""
    work = hypotheses.size**2 * hypotheses.n_components * (hypotheses.dim + 4)
    for draws in (1024, 512):
        if draws * work <= _DRAW_WORK:
            return draws
    return 256


class PublicDraws:
    """Public draws from each hypothesis: one scrambled Sobol sequence for all, so each point has the right law and together they
    fill the space evenly.
    """

    def __init__(self, hypotheses: Hypotheses, *, draws: int | None = None, public_seed: int = 0) -> None:
        if hypotheses.size > MOST_HYPOTHESES:
            raise InputError(
                f"densities are compared for up to {MOST_HYPOTHESES} hypotheses, got {hypotheses.size}: pass a shorter "
                'list, or score="log_ratio"'
            )
        self.draws = draws = draws_for(hypotheses) if draws is None else draws
        self.table = kernels.mixture_table(hypotheses.weights, hypotheses.means, hypotheses.spreads)
        self._hypotheses = hypotheses
        uniform = sobol_points(hypotheses.dim + 1, (draws - 1).bit_length(), seed=public_seed)[:draws]
        self._picks = uniform[:, 0]
        self._normals = ndtri(np.clip(uniform[:, 1:], _TINY, 1.0 - _TINY))
        spreads = hypotheses.spreads
        self._roots = np.sqrt(spreads) if hypotheses.axis_aligned else np.linalg.cholesky(spreads)
        self._ends = np.cumsum(hypotheses.weights, axis=1)

    def of(self, own: int) -> FloatArray:
        """Points (draws, dim) from one hypothesis."""
        picked = np.searchsorted(self._ends[own, :-1], self._picks, side="right")
        root = self._roots[own, picked]
        away = root * self._normals if root.ndim == 2 else np.einsum("nij,nj->ni", root, self._normals)
        return np.ascontiguousarray(self._hypotheses.means[own, picked] + away)

    def each(self, work: Callable[[int, Codes], None], *, threads: int | None) -> None:
        """work(i, codes of all hypotheses at the draws from i) for every hypothesis, in threads."""
        shape = self.table.panels, self.draws, PANEL
        buffers = Lent(lambda: (np.empty(shape, dtype=np.int16), kernels.density_room(self.table)))

        def coded(own: int) -> None:
            with buffers.one() as (codes, room):
                kernels.density_codes(self.of(own), self.table, codes, 0, room)
                work(own, codes)

        share_out(coded, self._hypotheses.size, threads=threads)


def empty_counts(panels: int) -> list[PairCounts]:
    """Zero counts for all pairs: an array for each panel p, of the pairs with panel p and all later panels."""
    return [np.zeros((PANEL, (panels - panel) * PANEL), dtype=np.int32) for panel in range(panels)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodesQuery(Query):
    """A pass over the codes of densities at the rows, `capacity` rows at a time.

    The threads share out the hypotheses, not the rows, because one table of codes or counts may be as large as memory allows. The
    first accumulator is workspace, the others are those of `totals`.
    """

    table: MixtureTable
    capacity: int
    threads: int | None = None

    @abc.abstractmethod
    def totals(self) -> list[np.ndarray[Any, Any]]:
        """New integer arrays at zero."""

    @abc.abstractmethod
    def use(self, codes: Codes, taken: int, totals: Any) -> None:
        """Add what the first `taken` rows contribute, whose codes are codes[:, :taken]."""

    def zeros(self) -> tuple[Any, ...]:
        """See `Query.zeros`."""
        codes = np.empty((self.table.panels, self.capacity, PANEL), dtype=np.int16)
        rooms = Lent(partial(kernels.density_room, self.table))  # they may be as large as the codes
        return [codes, rooms], *self.totals()

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        (codes, rooms), *totals = accumulators
        points = np.ascontiguousarray(chunk, dtype=np.float64)
        table, block = self.table, self._block()

        def coded(part: int) -> None:
            begin = part * block
            with rooms.one() as room:
                kernels.density_codes(points[begin : begin + block], table, codes, begin, room)

        share_out(coded, -(-len(points) // block), threads=self.threads)
        self.use(codes, len(points), totals)

    def _block(self) -> int:
        """Rows of a block. The parameters of a long list are read from memory once per block, but a block cannot be interrupted."""
        workers = available_cpus() if self.threads is None else self.threads
        affordable: int = _BLOCK_WORK // (
            self.table.panels * PANEL * self.table.constants.shape[1] * (self.table.dim + 8)
        )
        return max(1, min(_BLOCK_ROWS, affordable, -(-self.capacity // (4 * workers))))

    def merge(self, total: Any, part: Any) -> None:
        """See `Query.merge`."""
        Query.merge(self, total[1:], part[1:])

    def packed(self, accumulators: Any) -> tuple[Any, ...]:
        """See `Query.packed`."""
        return [], *accumulators[1:]

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return int(self.table.panels) ** 2

    @property
    def chunk_rows(self) -> int:
        """See `Query.chunk_rows`."""
        return self.capacity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairQuery(CodesQuery):
    """Rows that have the larger code for i than for j: at [i % PANEL, j - PANEL p] of panel p = i // PANEL."""

    def totals(self) -> list[PairCounts]:
        """See `CodesQuery.totals`."""
        return empty_counts(self.table.panels)

    def use(self, codes: Codes, taken: int, totals: list[PairCounts]) -> None:
        """See `CodesQuery.use`."""

        def counted(panel: int) -> None:
            kernels.pair_counts(codes, taken, panel, totals[panel])

        share_out(counted, self.table.panels, threads=self.threads)

    def answer(self, accumulators: Any) -> list[PairCounts]:
        """See `Query.answer`."""
        return list(accumulators[1:])


def count_pairs(table: MixtureTable, rows: Rows, executor: Executor) -> list[PairCounts]:
    """The answer of a `PairQuery`; private."""
    if rows.n > LARGEST_COUNT:
        raise KernelError("pairs are counted in 32 bits")
    query = PairQuery(table=table, capacity=min(CHUNK_ROWS, rows.n), threads=executor.threads)
    counts: list[PairCounts] = executor.run(query, rows)
    return counts


def shares(drawn: np.ndarray[Any, Any], draws: int, n: int) -> IntArray:
    """floor(n drawn / draws + 1/2): the rows among n that correspond to `drawn` of `draws` public draws."""
    numbers: IntArray = (2 * n * drawn.astype(np.int64) + draws) // (2 * draws)
    return numbers


def ahead(codes: Codes, own: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Draws (hypotheses,) at which the code of `own` is above that of a later hypothesis, or below that of an earlier one."""
    panel, place = divmod(own, PANEL)
    mine = codes[panel, :, place, None]
    found = np.empty((len(codes), PANEL), dtype=np.uint16)
    np.less(mine, codes[:panel]).sum(axis=1, dtype=np.uint16, out=found[:panel])
    np.greater(mine, codes[panel:]).sum(axis=1, dtype=np.uint16, out=found[panel:])
    np.less(mine, codes[panel, :, :place]).sum(axis=0, dtype=np.uint16, out=found[panel, :place])
    return found.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class DensitySets:
    """Hypotheses on any number of columns: A_ij holds the points at which the code of i is above that of j.

    The code of a hypothesis at a point is its log density below the largest one there, in steps of 1/2048, 32 at most.
    `masses` (size, size) uint16 holds for i < j at [i, j] and [j, i] how many of `draws` public points drawn from i, and from j,
    lie in A_ij.
    """

    sensitivity: ClassVar[int] = 1
    table: MixtureTable
    masses: np.ndarray[Any, np.dtype[np.uint16]]
    draws: int

    @classmethod
    def prepare(
        cls, hypotheses: Hypotheses, *, draws: int | None = None, public_seed: int = 0, threads: int | None = None
    ) -> DensitySets:
        """Draw from each hypothesis and count in which sets the draws lie."""
        public = PublicDraws(hypotheses, draws=draws, public_seed=public_seed)
        size, table, block = hypotheses.size, public.table, min(public.draws, _BLOCK_DRAWS)
        masses = np.zeros((size, size), dtype=np.uint16)
        shape = table.panels, block, PANEL
        buffers = Lent(lambda: (np.empty(shape, dtype=np.int16), kernels.density_room(table)))

        def work(own: int) -> None:
            points = public.of(own)
            with buffers.one() as (codes, room):
                for begin in range(0, public.draws, block):
                    drawn = points[begin : begin + block]
                    kernels.density_codes(drawn, table, codes, 0, room)
                    masses[own] += ahead(codes[:, : len(drawn)], own)[:size]

        share_out(work, size, threads=threads)
        return cls(table, masses, public.draws)

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """See `scheffe.Evaluation.scores`."""
        return self._worst(count_pairs(self.table, rows, executor), rows.n, executor)

    def _worst(self, counts: list[PairCounts], n: int, executor: Executor) -> IntArray:
        """Scores from the rows in A_ij, i < j, panel by panel."""
        size = len(self.masses)
        worst = np.zeros((len(counts), size), dtype=np.int64)

        def work(panel: int) -> None:
            first, last = panel * PANEL, min((panel + 1) * PANEL, size)
            held = counts[panel][: last - first, : size - first].astype(np.int64)
            pair = np.arange(first, size) > np.arange(first, last)[:, None]
            own = np.abs(shares(self.masses[first:last, first:], self.draws, n) - held) * pair
            other = np.abs(shares(self.masses[first:, first:last].T, self.draws, n) - held) * pair
            worst[panel, first:last] = own.max(axis=1)
            worst[panel, first:] = np.maximum(worst[panel, first:], other.max(axis=0))

        share_out(work, len(counts), threads=executor.threads)
        found: IntArray = worst.max(axis=0)
        return found
