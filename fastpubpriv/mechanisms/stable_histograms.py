"""Noisy counts of the occupied bins of many histograms at once, over keys computed from each row by public rules.

Privacy note: `notes/stable_histogram.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import bins
from fastpubpriv.kernels.bins import BinRule, BinTable
from fastpubpriv.mechanisms.sums import Measurement
from fastpubpriv.privacy import StableHistogramEvent
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.privacy.conversions import Law
from fastpubpriv.release.release import release_stable
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.labeled import beside
from fastpubpriv.sources.row_types import Chunk
from fastpubpriv.sources.views import each_row

Labels = Callable[[Any], IntArray]

_BLOCK_ROWS = 4096  # rows whose keys are in memory at once
_FEW_SLOTS = 2**17  # slots of a hash table beyond which a larger one is optional
LEVELS_MAX = 54  # keys have 54 bits


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Bins of some columns, counted once; each level gives a separate histogram."""

    # columns of the rows. With several, a bin is a tuple of one key for each
    columns: tuple[int, ...]
    rules: tuple[BinRule, ...]  # one for each column
    # histogram of level l has the keys shifted right by l bits: bins 2^l as wide, each a union of whole finest bins.
    # Counting many costs no more than counting the finest
    levels: tuple[int, ...] = (0,)
    # labels(chunk) returns an int64 number for each row, -1 for no bin, which is the first word of the key. It must be a
    # fixed map of the row and of public or released values, with the same bits whatever rows are in the chunk
    labels: Labels | None = None

    def __post_init__(self) -> None:
        if not self.columns or len(self.columns) != len(self.rules):
            raise InputError("a partition needs columns, and a rule for each of them")
        if not self.levels or not all(0 <= level <= LEVELS_MAX for level in self.levels):
            raise InputError(f"levels are numbers from 0 to {LEVELS_MAX}")
        if any(rule.dyadic for rule in self.rules) and self.levels != (0,):
            raise InputError("dyadic bins have no levels")

    @property
    def words(self) -> int:
        """Number of integers in a key."""
        return len(self.columns) + (self.labels is not None)

    def slots(self, n: int) -> int:
        """Return a public bound on the number of occupied bins of n rows, for each level."""
        dyadic = all(rule.dyadic for rule in self.rules) and self.labels is None
        return min(n, bins.DYADIC_KEYS ** len(self.rules)) if dyadic else n


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyBins:
    """The released bins of one histogram."""

    partition: int  # index into the partitions of the release
    level: int  # level of the partition
    keys: IntArray  # (b, words), in lexical order
    counts: FloatArray  # (b,), noisy counts, each at least the threshold


# ---- Rows that may be absent: those that pad persons, in a bin of their own, so that every histogram shows their number


@dataclass(frozen=True, slots=True)
class AbsenceLabels:
    """The label 1 of rows that are absent by the last column of a chunk, `Rows.presence`, and 0 of all others."""

    def __call__(self, chunk: Any) -> IntArray:
        """Return the label of each row, which depends on that row alone."""
        labels: IntArray = np.isnan(chunk[:, -1]).astype(np.int64)
        return labels


@dataclass(frozen=True, slots=True)
class FilledAbsences:
    """Map of rows with their presence as last column: public numbers stand in all other cells of absent rows."""

    cells: tuple[float, ...]

    def __call__(self, chunk: Chunk) -> Chunk:
        """Return the rows, of which absent ones are equal."""
        filled: Chunk = chunk.copy()
        filled[np.isnan(chunk[:, -1]), :-1] = self.cells
        return filled


def with_absences(rows: Rows, cells: tuple[float, ...]) -> Rows:
    """Return the rows with their presence as last column, absent ones with these cells; unchanged if no row can be absent."""
    if rows.presence is None:
        return rows
    return each_row(beside(rows, rows.presence), FilledAbsences(cells), rows.dim + 1)


def labeling_absences(partition: Partition, rows: Rows) -> Partition:
    """Return the partition for the rows of `with_absences`; raise InputError if its keys have no word left for the label."""
    if rows.presence is None:
        return partition
    if partition.words >= bins.WORDS_MAX:
        raise InputError(
            f"with several rows per person a bin has at most {bins.WORDS_MAX - 1} numbers: pass fewer columns, or a smaller "
            "max_bytes (six bytes of a text are a number)"
        )
    return replace(partition, labels=AbsenceLabels())


def without_absences(released: NoisyBins, partition: Partition, n: int) -> tuple[NoisyBins, float]:
    """Return the released bins of rows that are there, and the number of these rows: n less those counted as absent."""
    if not isinstance(partition.labels, AbsenceLabels):
        return released, math.nan
    absent = released.keys[:, 0] == 1
    there = replace(released, keys=released.keys[~absent, 1:], counts=released.counts[~absent])
    return there, n - float(released.counts[absent].sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StableRelease:
    """All histograms of one release, in the order of partitions and levels, with the common noise and threshold of a count."""

    histograms: tuple[NoisyBins, ...]
    noise_std: float
    threshold: float
    event: StableHistogramEvent

    @property
    def facts(self) -> dict[str, Any]:
        """The noise and the threshold, for the record."""
        return {"noise_std": self.noise_std, "threshold": self.threshold}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StableHistograms(Measurement[tuple[Fraction, Fraction], StableRelease]):
    """Release the occupied bins of all partitions and levels together, in one pass over the rows, at an (epsilon, delta)."""

    # A row is in at most one bin of each histogram, so a replaced row changes two counts of each by one. InputError, before the
    # charge, if counting may take more than `executor.max_memory`; callers that debit earlier call `check_memory` first.
    partitions: Sequence[Partition]
    law: Law | None = None  # None for the better noise
    # fixes noise and threshold, and is charged in place of `cost`
    event: StableHistogramEvent | None = None
    # draw noise for every slot of the public bound, so that the running time is not informative
    pad_all: bool = False

    def release(
        self,
        account: BudgetAccount,
        rows: Rows,
        executor: Executor,
        *,
        name: str,
        cost: tuple[Fraction, Fraction],
    ) -> StableRelease:
        """Charge, run the pass, add noise and keep the counts that reach the threshold."""
        partitions = self.partitions
        n = rows.n
        for partition in partitions:
            if any(not 0 <= column < rows.dim for column in partition.columns):
                raise InputError(f"a partition names a column outside of the {rows.dim} columns")
        histograms = [
            (index, level)
            for index, partition in enumerate(partitions)
            for level in partition.levels
        ]
        if not histograms:
            raise InputError("a release needs at least one histogram")
        slots = tuple(partitions[index].slots(n) for index, _ in histograms)
        event = self.event
        if event is None:
            event = stable_event(
                *cost, histograms=len(histograms), n=n, draws=sum(slots), law=self.law
            )
        check_memory(partitions, n, executor)

        def query() -> _Histograms:
            return _Histograms(count_bins(rows, partitions, executor), partitions)

        released = release_stable(
            account,
            name=name,
            query=query,
            event=event,
            slots=slots,
            pad_all=self.pad_all,
            threads=executor.threads,
        )
        return StableRelease(
            histograms=tuple(
                NoisyBins(partition=index, level=level, keys=keys, counts=counts)
                for (index, level), (keys, counts) in zip(histograms, released, strict=True)
            ),
            noise_std=event.count_noise_std,
            threshold=event.count_threshold,
            event=event,
        )


def _least_slots(n: int) -> int:
    """Return the slots of the smallest useful hash table: merging many shorter lists would take longer."""
    return max(bins.LEAST_SLOTS, min(_FEW_SLOTS, 1 << (2 * n - 1).bit_length()))


def memory_for(
    partitions: Sequence[Partition], n: int, executor: Executor, *, table_slots: int | None = None
) -> int:
    """Return an upper bound, from public numbers, on the bytes for counting n rows: those for rows in distinct bins."""
    # All keys and counts, those of one partition a second time while they are sorted, and for each thread a table of each
    # partition. The chunks in memory and the released bins are not included.
    sizes = [(partition.words, partition.slots(n)) for partition in partitions]
    held = [bins.key_bytes(words) * most for words, most in sizes]
    sorting = max(bins.merge_bytes(words) * most for words, most in sizes)
    if any(len(partition.levels) > 1 for partition in partitions):
        sorting += max(held)
    return (
        sum(held)
        + sorting
        + executor.workers * table_memory(partitions, n, table_slots=table_slots)
    )


def table_memory(partitions: Sequence[Partition], n: int, *, table_slots: int | None = None) -> int:
    """Return the maximum number of bytes of one thread's tables."""
    slots = _least_slots(n) if table_slots is None else table_slots
    return sum(
        bins.table_bytes(partition.words, len(partitions), slots) for partition in partitions
    )


def check_memory(partitions: Sequence[Partition], n: int, executor: Executor) -> None:
    """Raise InputError, before the debit, if counting n rows might take more than `executor.max_memory`."""
    if executor.max_memory is None:
        return
    needed = memory_for(partitions, n, executor)
    if needed > executor.max_memory:
        raise InputError(
            f"counting the bins of {n} rows may take {needed / 1e9:.3g} GB, if every row is in a bin of its own, and max_memory is "
            f"{executor.max_memory / 1e9:.3g} GB; pass max_memory={needed} or None (no more is taken than the occupied bins need), "
            "or fewer histograms"
        )


def _table_slots(partitions: Sequence[Partition], n: int, executor: Executor) -> int | None:
    """Return the largest number of slots of a hash table within the memory limit; None without a limit."""
    if executor.max_memory is None:
        return None
    check_memory(partitions, n, executor)
    slots = _least_slots(n)
    while (
        slots < 2 * n
        and memory_for(partitions, n, executor, table_slots=2 * slots) <= executor.max_memory
    ):
        slots *= 2
    return slots


@dataclass(frozen=True, slots=True, eq=False)
class _Histograms:
    """The histograms of all partitions and levels, each computed on access, from the one before it if that is finer."""

    # So not all are in memory at once, and doubling the bin width level by level costs little more in total than the finest level,
    # while shifting the finest bins for each of 30 levels would cost 30 times as much.
    counted: list[tuple[IntArray, IntArray]]
    partitions: Sequence[Partition]

    def __iter__(self) -> Iterator[tuple[IntArray, IntArray]]:
        for finest, partition in zip(self.counted, self.partitions, strict=True):
            keys, counts = finest
            done = 0
            for level in partition.levels:
                if level < done:
                    keys, counts = finest
                    done = 0
                keys, counts = coarsen(keys, counts, level - done, partition)
                done = level
                yield keys, counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BinQuery(Query):
    """Finest keys, in lexical order, and exact counts of every partition. Private: for `release_stable` only."""

    # The accumulators are lists of tables, one list for each partition.
    partitions: tuple[Partition, ...]
    slots: int | None  # maximum number of slots of a hash table, None for no limit

    def zeros(self) -> tuple[list[BinTable], ...]:
        """See `Query.zeros`."""
        count = len(self.partitions)
        return tuple(
            [BinTable(partition.words, count, self.slots)] for partition in self.partitions
        )

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        # In blocks of rows, column after column, so that wide rows are read from memory only once and few keys are in memory.
        whole = chunk.shape[1] == 1 and all(partition.words == 1 for partition in self.partitions)
        size = max(1, len(chunk)) if whole else _BLOCK_ROWS
        for begin in range(0, len(chunk), size):
            for partition, (table,) in zip(self.partitions, accumulators, strict=True):
                _count(chunk[begin : begin + size], partition, table)

    def merge(self, total: Any, part: Any) -> None:
        """Concatenate the lists of tables; `answer` adds up the counts of all tables."""
        for tables, others in zip(total, part, strict=True):
            tables.extend(others)

    def packed(self, accumulators: Any) -> tuple[list[bins.CountedKeys], ...]:
        """See `Query.packed`: each key once."""
        return tuple(
            [bins.CountedKeys(*bins.collect(tables, partition.words))]
            for tables, partition in zip(accumulators, self.partitions, strict=True)
        )

    def answer(self, accumulators: tuple[list[BinTable], ...]) -> list[tuple[IntArray, IntArray]]:
        """See `Query.answer`."""
        return [
            bins.collect(tables, partition.words)
            for tables, partition in zip(accumulators, self.partitions, strict=True)
        ]

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return 2 * sum(len(partition.columns) for partition in self.partitions)


def count_bins(
    rows: Rows, partitions: Sequence[Partition], executor: Executor
) -> list[tuple[IntArray, IntArray]]:
    """Return the finest keys and exact counts of every partition, private values."""
    slots = _table_slots(partitions, rows.n, executor)
    return list(executor.run(BinQuery(partitions=tuple(partitions), slots=slots), rows))


def _count(chunk: Any, partition: Partition, table: BinTable) -> None:
    if partition.words == 1:
        table.count(chunk[:, partition.columns[0]], partition.rules[0])
        return
    keys = np.empty((len(chunk), partition.words), dtype=np.int64)
    first = partition.words - len(partition.columns)
    for word, (column, rule) in enumerate(
        zip(partition.columns, partition.rules, strict=True), start=first
    ):
        bins.write_keys(chunk[:, column], rule, keys[:, word])
    if partition.labels is not None:
        labels = partition.labels(chunk)
        keys[:, 0] = np.where(labels < 0, bins.NONE, labels)
    table.insert(keys)


def coarsen(
    keys: IntArray, counts: IntArray, level: int, partition: Partition
) -> tuple[IntArray, IntArray]:
    """Return keys and counts of bins 2^level times as wide as the given ones."""
    if level == 0:
        return keys, counts
    first = partition.words - len(partition.columns)
    # A shift rounds down: each bin goes into the wider bin that contains it.
    return bins.merged(keys >> np.where(np.arange(partition.words) < first, 0, level), counts)
