"""Private choice from a public list of mixtures by scores of their Scheffe sets or log densities (paper C; MS08, AAK21).

Privacy note: `notes/hypotheses.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import LARGEST_COUNT
from fastpubpriv.maps import MixtureTable
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.selection.candidates import Chosen, Hypotheses
from fastpubpriv.mechanisms.selection.densities import (
    Codes,
    DensitySets,
    PairCounts,
    PublicDraws,
    count_pairs,
    empty_counts,
    shares,
)
from fastpubpriv.mechanisms.selection.log_ratio import LogRatios
from fastpubpriv.mechanisms.selection.roots import Intervals, RootSets
from fastpubpriv.mechanisms.selection.scheffe import CELLS, MOST_CELL_ROWS, CellSets, Evaluation
from fastpubpriv.mechanisms.sums import Measurement
from fastpubpriv.privacy import ZCDP, SelectionEvent, laplace_epsilon
from fastpubpriv.privacy.events import CHOICE_LAWS
from fastpubpriv.release.account import Account
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release_choice
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.threads.steps import share_out

# ---- Scores over the Yatracos class of a short list: each hypothesis is compared on every Scheffe set, not only on
# its own (Aden-Ali, Ashtiani and Kamath 2021, Theorem 27)
# Privacy note: `notes/hypotheses.md`.

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


METHODS = ("auto", "exact", "cells", "densities")
SCORES = ("minimum_distance", "yatracos", "log_ratio")
MOST_COMPARED = 2**15  # hypotheses in pairs; log ratios go as far as a choice does
CLIP = 8.0
LEAST_ACCURACY = (
    1e-9  # least accuracy for which rows are computed: a smaller one is out of reach, and its square may underflow
)
SHORT_LIST = 100  # roots of all pairs then take a tenth of a second
LAWS = ("auto", *CHOICE_LAWS)


def pays_epsilon(account: Account) -> bool:
    """True where a choice is charged in epsilon, False where in rho."""
    return not isinstance(account.budget, ZCDP)


def law_for(account: Account, law: str = "auto") -> str:
    """The cheaper law under a budget: permute-and-flip where the price is epsilon, the exponential mechanism where it is rho."""
    if law != "auto":
        return law
    return "permute_and_flip" if pays_epsilon(account) else "exponential"


def epsilon_of(share: Fraction, law: str, *, pure: bool) -> Fraction:
    """The largest epsilon at which a choice costs at most `share`, in epsilon (pure) or rho."""
    if pure:
        return share
    if law == "exponential":
        return Fraction(math.isqrt(math.floor(share * 8 * 4**60)), 2**60)
    return laplace_epsilon(ZCDP(share), 1)


def prepare(
    hypotheses: Hypotheses,
    n: int,
    *,
    method: str = "auto",
    score: str = "minimum_distance",
    cells: int = CELLS,
    draws: int | None = None,
    public_seed: int = 0,
    clip: float = CLIP,
    threads: int | None = None,
) -> tuple[str, Evaluation]:
    """Sets and masses for n rows, and the name of the method; reads nothing private."""
    if score == "log_ratio":
        if method not in ("auto", "densities"):
            raise InputError(f'score="log_ratio" compares densities: leave out method={method!r}')
        return "densities", LogRatios.prepare(hypotheses, clip=clip)
    if hypotheses.size > MOST_COMPARED:
        raise InputError(
            f"pairs are compared among up to {MOST_COMPARED} hypotheses, got {hypotheses.size}: pass a shorter list, or "
            'score="log_ratio"'
        )
    if n > LARGEST_COUNT and (hypotheses.dim > 1 or method == "densities"):
        raise InputError(f"densities are compared at up to 2^31 - 1 rows, got {n}: pass a part of the rows")
    if method == "auto":
        short = hypotheses.size <= SHORT_LIST
        method = "densities" if hypotheses.dim > 1 else "exact" if short else "cells"
    if score == "yatracos":
        if method == "exact":
            return method, YatracosSets.of_intervals(hypotheses, n, threads=threads)
        if method == "cells":
            return method, YatracosSets.of_cells(hypotheses, n, cells=cells)
        return method, YatracosSets.of_densities(hypotheses, n, draws=draws, public_seed=public_seed, threads=threads)
    if method == "exact":
        return method, RootSets.prepare(hypotheses, n, threads=threads)
    if method == "cells":
        return method, CellSets.prepare(hypotheses, n, cells=cells)
    return method, DensitySets.prepare(hypotheses, draws=draws, public_seed=public_seed, threads=threads)


def check_rows(n: int, dim: int) -> None:
    """Raise now, before the debit, if `prepare` could refuse n rows of so many columns."""
    most = LARGEST_COUNT if dim > 1 else MOST_CELL_ROWS
    if n > most:
        raise InputError(f"a choice compares up to {most} rows of {dim} columns, got {n}: pass a part of the rows")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HypothesisChoice(Measurement[Fraction, Chosen]):
    """Choose one of `size` hypotheses by integer scores. The cost is the epsilon of the choice, in every notion."""

    evaluation: Evaluation
    size: int
    law: str

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Chosen:
        """Charge, score and choose."""
        sensitivity = self.evaluation.sensitivity
        event = SelectionEvent(epsilon=cost, sensitivity=sensitivity, candidates=self.size, law=self.law)

        def query() -> IntArray:
            return -self.evaluation.scores(rows, executor)

        return Chosen(index=release_choice(account, name=name, query=query, event=event), event=event)


def pairs_of(size: int) -> int:
    """Scheffe sets of a list: one for each unordered pair."""
    return size * (size - 1) // 2


def _tail(size: int, failure_prob: float) -> float:
    """ln(size / b), b = failure_prob / 4: from logarithms, as a quotient of the smallest doubles would overflow."""
    return math.log(size) + math.log(4.0) - math.log(failure_prob)


def closed_form_rows(size: int, accuracy: float, epsilon: float, failure_prob: float) -> int:
    """Rows from which the choice is within 3 OPT + accuracy/2 but for 1/n, half of the slack for sampling, half for the choice.

    max(32 ln(2 S / b) / accuracy^2, 8 ln(size / b) / (accuracy epsilon)) with S pairs and b = failure_prob / 4.
    """
    if size < 2:
        return 1
    sampling = 32.0 * _tail(2 * pairs_of(size), failure_prob) / accuracy**2
    choosing = 8.0 * _tail(size, failure_prob) / (accuracy * epsilon)
    return math.ceil(max(sampling, choosing))


def required_rows(size: int, accuracy: float, epsilon: float, failure_prob: float) -> int:
    """The fewest rows with a slack of at most accuracy / 2: sampling and choice share it as they like."""
    if accuracy < LEAST_ACCURACY:
        raise InputError(f"accuracy must be at least {LEAST_ACCURACY:g}, got {accuracy:g}; for example 0.1")
    if size < 2:
        return 1
    low, high = 0, closed_form_rows(size, accuracy, epsilon, failure_prob)
    while slack_at(size, high, epsilon, failure_prob) > accuracy / 2.0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if slack_at(size, middle, epsilon, failure_prob) <= accuracy / 2.0 else (middle, high)
    return high


def slack_at(size: int, n: int, epsilon: float, failure_prob: float) -> float:
    """2 Delta + s at n rows: how far beyond 3 OPT the choice is with probability 1 - failure_prob."""
    if size < 2:
        return 0.0
    sampling = 2.0 * math.sqrt(_tail(2 * pairs_of(size), failure_prob) / (2.0 * n))
    return sampling + 2.0 * _tail(size, failure_prob) / (n * epsilon) + 1.0 / n
