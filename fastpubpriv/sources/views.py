"""Rows made from those of another source: ranges, pairs, interleaved blocks, mapped columns."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.row_types import Chunk, Rows, in_blocks
from fastpubpriv.validation import integer


class View(Rows):
    """Rows made from those of another source: with random access if the source has it, otherwise read in order by `_streamed`.

    A view can be made again over other sources of the same shape, `type(view)(*sources, *view.arguments)`: a worker of a
    cluster does so with the part of the source that it holds.
    """

    __slots__ = ("_rows", "arguments", "cluster", "random_access", "rows_per_person", "sources")

    def __init__(
        self,
        sources: tuple[Rows, ...],
        n: int,
        dim: int,
        columns: tuple[str, ...] | None,
        *,
        kind: str | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        rows = sources[0]
        super().__init__(n, dim, rows.kind if kind is None else kind, columns)
        self._rows, self.sources = rows, sources
        self.arguments = arguments  # beside the sources: public values that can be pickled
        self.random_access = all(source.random_access for source in sources)
        self.cluster = rows.cluster
        self.rows_per_person = max(source.rows_per_person for source in sources)

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Ranges that rows begin to end of the view are made of: number of the source, first row, end."""
        return [(0, begin, end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """Positions in the view between which as few ranges as possible reach over one of the `ends` in a source."""
        del source
        return ends

    @abstractmethod
    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        """As `_chunks`, from a source that is read in order."""

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return in_blocks(self, begin, end, chunk_rows) if self.random_access else self._streamed(begin, end, chunk_rows)


def slice_rows(rows: Rows, begin: int, end: int) -> Rows:
    """Rows begin to end, which must be a range within the rows."""
    begin, end = integer("begin", begin, minimum=0), integer("end", end, minimum=0)
    if not begin < end <= rows.n:
        raise InputError(f"rows {begin} to {end} are not a block within the {rows.n} rows of this source")
    return Slice(rows, begin, end)


def split_rows(rows: Rows, *shares: int) -> tuple[Rows, ...]:
    """Contiguous blocks with sizes in proportion to `shares`, by the number of rows alone; InputError if one has no row."""
    whole = sum(shares)
    ends = [int(Fraction(rows.n * sum(shares[: index + 1]), whole)) for index in range(len(shares))]
    starts = [0, *ends[:-1]]
    if any(begin >= end for begin, end in zip(starts, ends, strict=True)):
        raise InputError(f"{rows.n} rows are too few for {len(shares)} blocks: each needs at least one row")
    return tuple(rows.slice(begin, end) for begin, end in zip(starts, ends, strict=True))


class Slice(View):
    """A block of a source."""

    __slots__ = ("_begin",)

    def __init__(self, rows: Rows, begin: int, end: int) -> None:
        super().__init__((rows,), end - begin, rows.dim, rows.columns, arguments=(begin, end))
        self._begin = begin

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, self._begin + begin, self._begin + end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return ends - self._begin

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end of the block."""
        return self._rows.block(self._begin + begin, self._begin + end)

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return self._rows.chunks(self._begin + begin, self._begin + end, chunk_rows)


# ---- Rows under a public linear map. Each row is mapped by itself, by operations in a fixed order --------------------


def linear_rows(rows: Rows, matrix: FloatArray) -> Rows:
    """The rows `matrix @ x` of the rows x of a source, (n, len(matrix)) float64; without BLAS, so that the chunk changes no bit."""
    return each_row(rows, Mapped(matrix), len(matrix))


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A map by one matrix: a value, so that it can be sent to where the rows are."""

    matrix: FloatArray

    def __call__(self, chunk: Chunk) -> Chunk:
        """The rows of a chunk, (k, len(matrix)) float64, column by column; zero entries of the matrix are skipped."""
        out: Chunk = np.zeros((len(chunk), len(self.matrix)))
        with np.errstate(all="ignore"):
            for j, row in enumerate(self.matrix):
                for i in np.flatnonzero(row):
                    out[:, j] += chunk[:, i].astype(np.float64) * row[i]
        return out


OfChunk = Callable[[Chunk], Chunk]

# What a function makes on its way is as large as its chunk: in pieces of this size it stays in the cache of a core. Each call of
# NumPy for a piece gives up Python's lock and waits for it: the fewer pieces, the less two threads wait for each other.
PIECE_BYTES = 1 << 20


def each_row(rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None = None) -> Rows:
    """Rows of `dim` columns, function(chunk) of a source; what becomes of a row must not depend on the rows beside it."""
    return RowMapView(rows, function, dim, columns)


class RowMapView(View):
    """The rows of a source, each changed by itself."""

    __slots__ = ("_function",)

    def __init__(self, rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None) -> None:
        super().__init__((rows,), rows.n, dim, columns, arguments=(function, dim, columns))
        self._function = function

    def changed(self, chunk: Chunk) -> Chunk:
        """The rows of a chunk of the source, changed piece by piece."""
        size = max(1, PIECE_BYTES // (8 * max(self._rows.dim, self.dim)))
        if len(chunk) <= size:
            return self._function(chunk)
        first = self._function(chunk[:size])
        out: Chunk = np.empty((len(chunk), *first.shape[1:]), dtype=first.dtype)
        out[:size] = first
        for begin in range(size, len(chunk), size):
            out[begin : begin + size] = self._function(chunk[begin : begin + size])
        return out

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end."""
        return self.changed(self._rows.block(begin, end))

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(begin, end, chunk_rows):
            yield self.changed(chunk)


def read_and_changed(rows: Rows) -> tuple[Rows, OfChunk]:
    """What is read, chunk after chunk, and what is then done to each chunk, by whichever thread."""
    if not isinstance(rows, RowMapView):
        return rows, lambda chunk: chunk
    source, before = read_and_changed(rows.sources[0])
    return source, lambda chunk: rows.changed(before(chunk))


# Blocks of rows that are spread over a whole source: for data that come sorted or in groups.

# Row i has the mark i g mod 2^64, where g / 2^64 is near the fraction of the golden ratio. Marks are integers, so they are the same
# on every machine, and they are spread so evenly that any range of rows has its share of each block, to within a few rows.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SEGMENT = 1 << 15


def interleave_rows(rows: Rows, *shares: int) -> tuple[Rows, ...]:
    """As `split_rows`, but each block is spread over all rows; a row keeps its order within its block."""
    whole = sum(shares)
    ends = [Fraction(sum(shares[: index + 1]), whole) for index in range(len(shares))]
    cuts = [0, *(math.floor(end * 2**64) for end in ends)]
    parts: list[Rows] = []
    for low, high in itertools.pairwise(cuts):
        block = _Members(rows.n, low, high)
        if block.size < 1:
            raise InputError(f"{rows.n} rows are too few for {len(shares)} blocks: each needs at least one row")
        parts.append(Interleaved(rows, block))
    return tuple(parts)


class _Members:
    """Which rows have a mark from `low` to below `high`, and how many there are before each segment."""

    __slots__ = ("high", "low", "n", "prefix")

    def __init__(self, n: int, low: int, high: int) -> None:
        self.n, self.low, self.high = n, np.uint64(low), np.uint64(high - 1)
        counts = [int(np.count_nonzero(self.mask(begin, min(begin + _SEGMENT, n)))) for begin in range(0, n, _SEGMENT)]
        self.prefix = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    @property
    def size(self) -> int:
        """Rows of the block."""
        return int(self.prefix[-1])

    def mask(self, begin: int, end: int) -> BoolArray:
        """Whether each of the rows begin to end is in the block."""
        marks = np.arange(begin, end, dtype=np.uint64) * _GOLDEN
        return (marks >= self.low) & (marks <= self.high)

    def before(self, row: int) -> int:
        """Rows of the block among the first `row` rows of the source."""
        segment = row // _SEGMENT
        return int(self.prefix[segment]) + int(np.count_nonzero(self.mask(segment * _SEGMENT, row)))

    def positions(self, begin: int, end: int) -> IntArray:
        """Positions in the source of rows begin to end of the block."""
        first = int(np.searchsorted(self.prefix, begin, side="right")) - 1
        last = int(np.searchsorted(self.prefix, end, side="left"))
        start = first * _SEGMENT
        positions = start + np.flatnonzero(self.mask(start, min(last * _SEGMENT, self.n)))
        skipped = begin - int(self.prefix[first])
        return positions[skipped : skipped + end - begin].astype(np.int64)


class Interleaved(View):
    """A block that is spread over a source."""

    __slots__ = ("_members",)

    def __init__(self, rows: Rows, members: _Members) -> None:
        super().__init__((rows,), members.size, rows.dim, rows.columns, arguments=(members,))
        self._members = members

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        if begin == end:
            return []
        first, last = (int(self._members.positions(at, at + 1)[0]) for at in (begin, end - 1))
        return [(0, first, last + 1)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return np.array([self._members.before(int(end)) for end in ends], dtype=np.int64)

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end of the block, copied."""
        if begin == end:
            return self._rows.block(0, 0)
        places = self._members.positions(begin, end)
        first = int(places[0])
        return self._rows.block(first, int(places[-1]) + 1).take(places - first, axis=0)

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        if begin == end:
            return
        at = int(self._members.positions(begin, begin + 1)[0])
        # A pass to the end of the block reads the source to its end, so that the source can check its number of rows.
        stop = self._rows.n if end == self.n else int(self._members.positions(end - 1, end)[0]) + 1
        for chunk in self._rows.chunks(at, stop, chunk_rows):
            taken = chunk[self._members.mask(at, at + len(chunk))]
            at += len(chunk)
            if len(taken):
                yield taken


# Differences of rows, of adjacent ones or of those n / 2 apart, for learners that need centered rows without knowing the mean.

_ROOT = math.sqrt(0.5)


class Pairs(View):
    """Rows (x_2i - x_2i+1) / sqrt(2) of a source; an odd last row is dropped. InputError for a single row."""

    # A pair is fixed by its position in the source, so a replaced row changes one pair.

    __slots__ = ()

    def __init__(self, rows: Rows) -> None:
        if rows.n < 2:
            raise InputError("differences of rows need at least two rows, got 1")
        super().__init__((rows,), rows.n // 2, rows.dim, rows.columns, kind=f"pairs of {rows.kind}")

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, 2 * begin, 2 * end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`. A pair over an end is by itself, so that one row moves and not a chunk."""
        return np.concatenate([ends // 2, -(-ends // 2)])

    def block(self, begin: int, end: int) -> Chunk:
        """Pairs begin to end."""
        return differences(self._rows.block(2 * begin, 2 * end))

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        held: Chunk | None = None
        # A pass to the last pair also reads an odd last row, so that the source can check its number of rows.
        stop = self._rows.n if end == self.n else 2 * end
        for chunk in self._rows.chunks(2 * begin, stop, 2 * chunk_rows):
            rows = chunk if held is None else np.concatenate([held, chunk])
            even = len(rows) - len(rows) % 2
            held = rows[even:].copy() if even < len(rows) else None
            if even:
                yield differences(rows[:even])


class DistantPairs(Pairs):
    """Rows (x_i - x_(i + h)) / sqrt(2) for i below h = n // 2; an odd last row is dropped."""

    # In sorted data, adjacent rows are too similar to show how wide the data are; rows that are h apart are not.

    __slots__ = ()

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, begin, end), (0, begin + self.n, end + self.n)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return np.concatenate([ends, ends - self.n])

    def block(self, begin: int, end: int) -> Chunk:
        """Pairs begin to end."""
        return halved(self._rows.block(begin, end), self._rows.block(begin + self.n, end + self.n))

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        stop = self._rows.n if end == self.n else self.n + end  # as above
        far = self._rows.chunks(self.n + begin, stop, chunk_rows)
        near = map(np.copy, self._rows.chunks(begin, end, chunk_rows))  # the next read may reuse its memory
        for one, other in in_step(near, far, self.dim):
            yield halved(one, other)
        for _ in far:
            pass


def pairs_of(rows: Rows) -> Pairs:
    """Differences of adjacent rows; of distant ones where adjacent ones may be of one person, and more alike than others."""
    return DistantPairs(rows) if rows.rows_per_person > 1 else Pairs(rows)


def in_step(chunks: Iterator[Chunk], others: Iterator[Chunk], dim: int) -> Iterator[tuple[Chunk, Chunk]]:
    """Chunks of one reader, each with as many rows, of `dim` columns, of another that is cut differently."""
    held: Chunk = np.empty((0, dim))
    for chunk in chunks:
        while len(held) < len(chunk):
            held = np.concatenate([held, next(others)])
        yield chunk, held[: len(chunk)]
        held = held[len(chunk) :]


def differences(rows: Chunk) -> Chunk:
    """Differences of adjacent rows: (k, dim) float64 from (2k, dim)."""
    return halved(rows[0::2], rows[1::2])


def halved(near: Chunk, far: Chunk) -> Chunk:
    """The differences near - far, divided by the square root of two, (k, dim) float64."""
    with np.errstate(all="ignore"):
        gaps: Chunk = (near.astype(np.float64) - far.astype(np.float64)) * _ROOT
    return gaps
