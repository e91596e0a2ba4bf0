"""Views: rows derived from those of another source (ranges, pairs, interleaved blocks, row-wise maps)."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, Columns, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.row_types import Chunk, Rows, RowStream
from fastpubpriv.validation import integer


def require_one_order(*sources: Rows) -> None:
    """Raise InputError unless all sources are in the order of their rows, or all in that of one table of persons."""
    if any(source.persons is not sources[0].persons for source in sources):
        raise InputError(
            "rows of persons are in an order of their own, so that no array beside them fits, nor rows of another table: pass the "
            "name of a column of x_priv"
        )


class View(Rows):
    """Rows derived from another source, with random access if the source has it, otherwise read in order.

    `type(view)(*sources, *view.arguments)` rebuilds a view over other sources of the same shape: a worker of a cluster does so
    with the part of the source that it holds.
    """

    __slots__ = ("_rows", "about", "arguments", "cluster", "persons", "random_access", "sources")

    # Most rows at the end of a source of which no row is derived: a pass reads them, so that the source can check its number.
    left_out = 0

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
        require_one_order(*sources)
        super().__init__(n, dim, rows.kind if kind is None else kind, columns)
        self._rows = rows
        self.sources = sources
        # constructor arguments after the sources: public values that can be pickled
        self.arguments = arguments
        self.random_access = all(source.random_access for source in sources)
        self.cluster = rows.cluster
        self.persons = rows.persons
        self.about = max(source.about for source in sources)  # of the source that has persons

    @property
    def may_be_absent(self) -> bool:
        """See `Rows.may_be_absent`."""
        return any(source.may_be_absent for source in self.sources)

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return the ranges (index of the source, begin, end) from which rows `begin` to `end` of the view are derived."""
        return [(0, begin, end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """Return split positions of the view such that as few ranges as possible cross one of the `ends` of chunks of a source."""
        del source
        return ends

    def derived(self, begin: int, end: int, *parts: Chunk) -> Chunk:
        """Return rows `begin` to `end` of the view, given the rows of each of their `spans`."""
        return parts[0]

    def block(self, begin: int, end: int) -> Chunk:
        """See `Rows.block`."""
        spans = self.spans(begin, end)
        return self.derived(
            begin, end, *(self.sources[k].block(low, high) for k, low, high in spans)
        )

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        if self.random_access or begin == end:
            yield from super()._chunks(begin, end, chunk_rows)
            return
        whole = self.spans(begin, end)
        streams = [RowStream(self.sources[k], chunk_rows) for k, _, _ in whole]
        step = max(1, chunk_rows * (end - begin) // max(high - low for _, low, high in whole))
        for first in range(begin, end, step):
            last = min(first + step, end)
            spans = zip(streams, self.spans(first, last), strict=True)
            yield self.derived(
                first, last, *(stream.read(low, high) for stream, (_, low, high) in spans)
            )
        for stream in streams if end == self.n else ():
            stream.finish(self.left_out)


def _ranges(size: int, shares: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Return contiguous ranges of 0 to `size`, proportional to the shares."""
    ends = (size * part // sum(shares) for part in itertools.accumulate(shares))
    return itertools.pairwise(itertools.chain([0], ends))


def _require_rows(n: int, sizes: list[int]) -> None:
    if min(sizes) < 1:
        raise InputError(
            f"{n} rows are too few for {len(sizes)} blocks: each needs at least one row"
        )


def split_rows(rows: Rows, *shares: int) -> tuple[Rows, ...]:
    """Return contiguous blocks with sizes proportional to `shares`, given n alone; raise InputError if one is empty."""
    ranges = list(_ranges(rows.n, shares))
    _require_rows(rows.n, [end - begin for begin, end in ranges])
    return tuple(rows.slice(begin, end) for begin, end in ranges)


class Slice(View):
    """A contiguous range of the rows of a source; raise InputError unless it is one."""

    __slots__ = ("_begin",)

    def __init__(self, rows: Rows, begin: int, end: int) -> None:
        begin = integer("begin", begin, minimum=0)
        end = integer("end", end, minimum=0)
        if not begin < end <= rows.n:
            raise InputError(f"rows {begin} to {end} are not a block of rows of this source")
        super().__init__((rows,), end - begin, rows.dim, rows.columns, arguments=(begin, end))
        self._begin = begin

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, self._begin + begin, self._begin + end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return ends - self._begin


class SideBySide(View):
    """The columns of two sources of equally many rows, read in aligned chunks."""

    __slots__ = ()

    def __init__(self, rows: Rows, others: Rows) -> None:
        super().__init__(
            (rows, others), rows.n, rows.dim + others.dim, _names_of_both(rows, others)
        )

    @property
    def presence(self) -> Rows | None:  # type: ignore[override]
        """See `Rows.presence`."""
        return self._rows.presence

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, begin, end), (1, begin, end)]

    def derived(self, begin: int, end: int, *parts: Chunk) -> Chunk:
        """See `View.derived`."""
        return np.concatenate([part.astype(np.float64, copy=False) for part in parts], axis=1)


def _names_of_both(rows: Rows, others: Rows) -> tuple[str, ...] | None:
    """Return the names of the columns, those of the others made distinct; None if the first source has none."""
    if rows.columns is None:
        return None
    names = list(rows.columns)
    for name in others.columns or ("label",):
        while name in names:
            name = f"{name}_"
        names.append(name)
    return tuple(names)


# ---- Rows under a public linear map, computed row by row with operations in a fixed order -----------------------


def linear_rows(rows: Rows, matrix: FloatArray) -> Rows:
    """Return rows `matrix @ x`, (n, len(matrix)) float64; without BLAS, so that no bit depends on the chunk."""
    return each_row(rows, Mapped(matrix), len(matrix))


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """Linear map by a matrix, as a value that can be sent to a worker."""

    matrix: FloatArray

    def __call__(self, chunk: Chunk) -> Chunk:
        """Return the mapped rows, (k, len(matrix)) float64, computed by column; zero entries of the matrix are skipped."""
        out: Chunk = np.zeros((len(chunk), len(self.matrix)))
        with np.errstate(all="ignore"):
            for j, row in enumerate(self.matrix):
                for i in np.flatnonzero(row):
                    out[:, j] += chunk[:, i].astype(np.float64) * row[i]
        return out


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """Some columns, by their positions, as a value that can be sent to a worker."""

    places: tuple[int, ...]

    def __call__(self, chunk: Chunk) -> Chunk:
        """Return these columns of the rows, in this order."""
        return np.ascontiguousarray(chunk[:, self.places])


@dataclass(frozen=True, slots=True)
class ColumnsOfWholeRows:
    """Columns `first` to `last`, `last` excluded; one of them is NaN where any number of the whole row is not finite."""

    first: int
    last: int

    def __call__(self, chunk: Chunk) -> Chunk:
        """Return these columns of the rows."""
        columns = np.array(chunk[:, self.first : self.last])
        columns[~np.isfinite(chunk).all(axis=1), 0] = np.nan
        return columns


OfChunk = Callable[[Chunk], Chunk]

# Bytes of a piece: temporaries of a function are as large as its input, and fit into the cache of a core at this size. Fewer
# pieces mean fewer NumPy calls, each of which releases and reacquires the interpreter lock.
PIECE_BYTES = 1 << 20


def each_row(
    rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None = None
) -> Rows:
    """Return rows function(chunk) of `dim` columns; the function must map each row independently of all others."""
    return RowMapView(rows, function, dim, columns)


class RowMapView(View):
    """The rows of a source under a function that maps each row independently."""

    __slots__ = ("_function",)

    def __init__(
        self, rows: Rows, function: OfChunk, dim: int, columns: tuple[str, ...] | None
    ) -> None:
        super().__init__((rows,), rows.n, dim, columns, arguments=(function, dim, columns))
        self._function = function

    @property
    def presence(self) -> Rows | None:  # type: ignore[override]
        """See `Rows.presence`."""
        return self._rows.presence

    @property
    def joins_columns(self) -> bool:
        """Whether `block` makes the rows of columns of the source, not of its rows."""
        return False

    def changed(self, chunk: Chunk) -> Chunk:
        """Return the mapped rows of a chunk of the source, computed in pieces."""
        size = max(1, PIECE_BYTES // (8 * max(self._rows.dim, self.dim)))
        if len(chunk) <= size:
            return self._function(chunk)
        first = self._function(chunk[:size])
        out: Chunk = np.empty((len(chunk), *first.shape[1:]), dtype=first.dtype)
        out[:size] = first
        for begin in range(size, len(chunk), size):
            out[begin : begin + size] = self._function(chunk[begin : begin + size])
        return out

    def derived(self, begin: int, end: int, *parts: Chunk) -> Chunk:
        """See `View.derived`."""
        return self.changed(parts[0])


class AdjacentColumns(RowMapView):
    """Columns `first` to `last` of a source, `last` excluded, as views without a copy."""

    __slots__ = ("_first",)

    def __init__(
        self, rows: Rows, last: int, columns: tuple[str, ...] | None, first: int = 0
    ) -> None:
        View.__init__(
            self, (rows,), rows.n, last - first, columns, arguments=(last, columns, first)
        )
        self._first = first

    def changed(self, chunk: Chunk) -> Chunk:
        """Return these columns of a chunk of the source."""
        return chunk[:, self._first : self._first + self.dim]

    @property
    def in_memory(self) -> Chunk | None:
        """See `Rows.in_memory`."""
        held = self._rows.in_memory
        return None if held is None else self.changed(held)

    def by_columns(self, begin: int, end: int, columns: slice = slice(None)) -> Columns | None:
        """See `Rows.by_columns`."""
        chosen = range(self._first, self._first + self.dim)[columns]
        return self._rows.by_columns(begin, end, slice(chosen.start, chosen.stop))


def adjacent_columns(rows: Rows, first: int, last: int, *, neutral: bool) -> Rows:
    """Return columns `first` to `last` of rows, `last` excluded; if `neutral`, a NaN stands in every row with one."""
    if neutral:
        return each_row(rows, ColumnsOfWholeRows(first, last), last - first)
    return AdjacentColumns(rows, last, None, first)


def read_and_changed(rows: Rows) -> tuple[Rows, OfChunk]:
    """Return the underlying source, and the composed map that any thread may apply to each of its chunks.

    A view that makes its rows of columns is a source itself: it needs no array of the rows beneath.
    """
    if not isinstance(rows, RowMapView) or rows.joins_columns:
        return rows, lambda chunk: chunk
    source, before = read_and_changed(rows.sources[0])
    return source, lambda chunk: rows.changed(before(chunk))


# Blocks of rows spread evenly over a source, for data that are sorted or grouped.

# Row i has the mark i g mod 2^64, where g / 2^64 is close to the fractional part of the golden ratio. Marks are integers, equal on
# every machine, and equidistributed: any range of rows has its share of each block, up to a few rows.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SEGMENT = 1 << 15


def interleave_rows(rows: Rows, *shares: int) -> tuple[Rows, ...]:
    """As `split_rows`, but each block is spread over all rows; the order of rows is preserved within a block."""
    blocks = [_Members(rows.n, low, high) for low, high in _ranges(2**64, shares)]
    _require_rows(rows.n, [block.size for block in blocks])
    return tuple(Interleaved(rows, block) for block in blocks)


class _Members:
    """The rows with a mark in [low, high), and prefix counts of them by segment."""

    __slots__ = ("high", "low", "n", "prefix")

    def __init__(self, n: int, low: int, high: int) -> None:
        self.n, self.low, self.high = n, np.uint64(low), np.uint64(high - 1)
        counts = [
            int(np.count_nonzero(self.mask(begin, min(begin + _SEGMENT, n))))
            for begin in range(0, n, _SEGMENT)
        ]
        self.prefix = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    @property
    def size(self) -> int:
        """Number of rows of the block."""
        return int(self.prefix[-1])

    def mask(self, begin: int, end: int) -> BoolArray:
        """Return (end - begin,) True for rows in the block."""
        marks = np.arange(begin, end, dtype=np.uint64) * _GOLDEN
        return (marks >= self.low) & (marks <= self.high)

    def before(self, row: int) -> int:
        """Return the number of rows of the block among the first `row` rows of the source."""
        segment = row // _SEGMENT
        return int(self.prefix[segment]) + int(np.count_nonzero(self.mask(segment * _SEGMENT, row)))

    def positions(self, begin: int, end: int) -> IntArray:
        """Return the positions in the source of rows `begin` to `end` of the block."""
        first = int(np.searchsorted(self.prefix, begin, side="right")) - 1
        last = int(np.searchsorted(self.prefix, end, side="left"))
        start = first * _SEGMENT
        positions = start + np.flatnonzero(self.mask(start, min(last * _SEGMENT, self.n)))
        skipped = begin - int(self.prefix[first])
        return positions[skipped : skipped + end - begin].astype(np.int64)


class Interleaved(View):
    """A block of rows spread over a source."""

    __slots__ = ("_members",)

    left_out = sys.maxsize

    def __init__(self, rows: Rows, members: _Members) -> None:
        super().__init__((rows,), members.size, rows.dim, rows.columns, arguments=(members,))
        self._members = members

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        if begin == end:
            return [(0, 0, 0)]
        first, last = (int(self._members.positions(at, at + 1)[0]) for at in (begin, end - 1))
        return [(0, first, last + 1)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return np.array([self._members.before(int(end)) for end in ends], dtype=np.int64)

    def derived(self, begin: int, end: int, *parts: Chunk) -> Chunk:
        """See `View.derived`."""
        places = self._members.positions(begin, end)
        return parts[0].take(places - places[0], axis=0) if len(places) else parts[0]


# Differences of rows, adjacent or n / 2 apart, for estimators that need centered rows and do not know the mean.

_ROOT = math.sqrt(0.5)


class Pairs(View):
    """Rows (x_2i - x_2i+1) / sqrt(2) of a source; an odd last row is dropped. Raise InputError for a single row."""

    # Pairs are formed by position, so a replaced row changes one pair.

    __slots__ = ()

    left_out = 1

    def __init__(self, rows: Rows) -> None:
        if rows.n < 2:
            raise InputError("differences of rows need at least two rows, got 1")
        super().__init__((rows,), rows.n // 2, rows.dim, rows.columns, kind=f"pairs of {rows.kind}")

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, 2 * begin, 2 * end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`. A pair across an end is a range of its own, so that one row is transferred and not a chunk."""
        return np.concatenate([ends // 2, -(-ends // 2)])

    def derived(self, begin: int, end: int, *parts: Chunk) -> Chunk:
        """See `View.derived`."""
        return halved(parts[0][0::2], parts[0][1::2])


class DistantPairs(Pairs):
    """Rows (x_i - x_(i + h)) / sqrt(2) for i below h = n // 2; an odd last row is dropped."""

    # In sorted data, differences of adjacent rows underestimate the scale; those of rows h apart do not.

    __slots__ = ()

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, begin, end), (0, begin + self.n, end + self.n)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return np.concatenate([ends, ends - self.n])

    def derived(self, begin: int, end: int, *parts: Chunk) -> Chunk:
        """See `View.derived`."""
        return halved(*parts)


def pairs_of(rows: Rows) -> Pairs:
    """Return differences of adjacent rows, or of distant rows if adjacent ones may belong to one person and be correlated."""
    return DistantPairs(rows) if rows.rows_per_person > 1 else Pairs(rows)


def halved(near: Chunk, far: Chunk) -> Chunk:
    """Return (near - far) / sqrt(2), (k, dim) float64."""
    with np.errstate(all="ignore"):
        gaps: Chunk = (near.astype(np.float64) - far.astype(np.float64)) * _ROOT
    return gaps
