"""Scores over the Yatracos class of a short list: each hypothesis is compared on every Scheffe set, not only on its own
(Aden-Ali, Ashtiani and Kamath 2021, Theorem 27).

Privacy note: `notes/hypotheses.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.maps import MixtureTable
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.mechanisms.selection.densities import Codes, PairCounts, PublicDraws, count_pairs, empty_counts, shares
from fastpubpriv.mechanisms.selection.roots import Intervals
from fastpubpriv.mechanisms.selection.scheffe import CellSets
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.threads.steps import share_out

MOST_HYPOTHESES = 256  # 32,640 sets, and a mass of each hypothesis in each of them
_BLOCK = 2048  # sets at once


class Sets(Protocol):
    """The Scheffe sets of all pairs, as public data."""

    def held(self, rows: Rows, executor: Executor) -> IntArray:
        """Rows in the set of each pair, (pairs,)."""


@dataclass(frozen=True, slots=True, eq=False)
class CellUnions:
    """Sets of public cells on the line: `edges` are the inner ends of the cells; `inside` (pairs, cells) says which are in one."""

    edges: FloatArray
    inside: BoolArray

    def held(self, rows: Rows, executor: Executor) -> IntArray:
        """See `Sets.held`."""
        counts = executor.run(CellQuery.between([self.edges]), rows)
        return self.total(counts[:, None])[:, 0]

    def total(self, numbers: np.ndarray[Any, Any]) -> IntArray:
        """Sums (pairs, k) over the cells of each set of whole numbers (cells, k) that add up to less than 2^53.

        In double precision these are exact, so every order of addition gives the same sum.
        """
        blocks = range(0, len(self.inside), _BLOCK)
        values = numbers.astype(np.float64)
        return np.concatenate([self.inside[at : at + _BLOCK] @ values for at in blocks]).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class CodeSets:
    """Sets of points at which the code of one hypothesis is above that of another."""

    table: MixtureTable
    size: int

    def held(self, rows: Rows, executor: Executor) -> IntArray:
        """See `Sets.held`."""
        return _in_order(count_pairs(self.table, rows, executor), self.size)


@dataclass(frozen=True, slots=True, eq=False)
class YatracosSets:
    """All Scheffe sets A_ij, i < j, in the order (0, 1), (0, 2), ..., (1, 2), ...

    `expected` (size, sets) holds what each hypothesis expects of n rows in each set, rounded; `sets` counts the rows in each.
    """

    sensitivity: ClassVar[int] = 1
    expected: IntArray
    sets: Sets

    @classmethod
    def of_intervals(cls, hypotheses: Hypotheses, n: int, *, threads: int | None = None) -> YatracosSets:
        """Exact sets on the line."""
        _check(hypotheses)
        intervals = Intervals.between(hypotheses, threads=threads)
        expected = np.empty((hypotheses.size, len(intervals.places)), dtype=np.int64)

        def work(index: int) -> None:
            expected[index] = intervals.expected(hypotheses, index, n, slice(None))

        share_out(work, hypotheses.size, threads=threads)
        return cls(expected, intervals)

    @classmethod
    def of_cells(cls, hypotheses: Hypotheses, n: int, *, cells: int) -> YatracosSets:
        """Sets of public cells on the line."""
        _check(hypotheses)
        cut = CellSets.prepare(hypotheses, n, cells=cells)
        first, second = np.triu_indices(hypotheses.size, 1)
        inside = np.empty((len(first), cut.masses.shape[1]), dtype=np.bool_)
        for begin in range(0, len(first), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            np.greater(cut.masses[first[block]], cut.masses[second[block]], out=inside[block])
        sets = CellUnions(cut.edges, inside)
        half = (1 << cut.shift) >> 1
        expected = np.ascontiguousarray((sets.total(cut.masses.T) + half).T >> cut.shift)
        return cls(expected, sets)

    @classmethod
    def of_densities(
        cls,
        hypotheses: Hypotheses,
        n: int,
        *,
        draws: int | None = None,
        public_seed: int = 0,
        threads: int | None = None,
    ) -> YatracosSets:
        """Sets of points at which one code is above another, with masses from public draws."""
        _check(hypotheses)
        size = hypotheses.size
        public = PublicDraws(hypotheses, draws=draws, public_seed=public_seed)
        table = public.table
        expected = np.empty((size, size * (size - 1) // 2), dtype=np.int64)

        def work(own: int, codes: Codes) -> None:
            counts = empty_counts(table.panels)
            for panel, found in enumerate(counts):
                kernels.pair_counts(codes, public.draws, panel, found)
            expected[own] = shares(_in_order(counts, size), public.draws, n)

        public.each(work, threads=threads)
        return cls(expected, CodeSets(table, size))

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """See `scheffe.Evaluation.scores`."""
        held = self.sets.held(rows, executor)
        return np.array([np.abs(masses - held).max() for masses in self.expected], dtype=np.int64)


def _check(hypotheses: Hypotheses) -> None:
    if hypotheses.size > MOST_HYPOTHESES:
        raise InputError(
            f'score="yatracos" compares up to {MOST_HYPOTHESES} hypotheses, got {hypotheses.size}: pass '
            'score="minimum_distance" or a shorter list'
        )


def _in_order(counts: list[PairCounts], size: int) -> IntArray:
    """Counts (pairs,) in the order of the sets, from those by panels."""
    width = counts[0].shape[0]
    table = np.zeros((size, size), dtype=np.int64)
    for panel, found in enumerate(counts):
        first, last = panel * width, min((panel + 1) * width, size)
        table[first:last, first:] = found[: last - first, : size - first]
    return table[np.triu_indices(size, 1)]
