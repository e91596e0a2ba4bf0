"""The type `Rows` of private rows, whose shape is public and whose content only passes can read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import Columns
from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.threads.guard import call_guarded, iterate_guarded
from fastpubpriv.validation import integer

# ---- Objects whose private content no operator, protocol or builtin of Python exposes ------------------------------


def _refusal(action: str) -> Any:
    """Return a method that raises TypeError."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"private rows cannot be {action}: only an estimator, or fold(), may read them"
        )

    return refuse


class Opaque:
    """Base class: pickling, copying, iterating, comparing, converting and formatting raise TypeError."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return _refusal("formatted as a number")() if spec else repr(self)

    __reduce__ = _refusal("pickled or copied")
    __array__ = _refusal("converted to an array")
    __iter__ = _refusal("iterated over")
    __contains__ = _refusal("searched")
    __getitem__ = _refusal("indexed")
    __eq__ = _refusal("compared")
    __bool__ = _refusal("used as a truth value")
    __hash__ = object.__hash__
    # NumPy operators and functions then raise TypeError instead of trying to convert
    __array_ufunc__ = None


STREAM = "stream"  # kind of rows whose number no text says
Chunk = NDArray[Any]  # (k, dim), float32 or float64, native byte order, adjacent columns
PathLike = str | os.PathLike[str]

# About 1 ms of work for a sum: short enough to interrupt a pass at once and to share it evenly among threads.
CHUNK_BYTES = 1 << 22
# For rows in memory that are read in place. Each chunk starts with Python code that is no longer in the CPU caches: 95 chunks of
# 4 MB take 10 % longer than one of 400 MB, and 12 chunks of 32 MB 2 %.
CHUNK_BYTES_IN_PLACE = 1 << 25


def default_chunk_rows(dim: int, size: int = CHUNK_BYTES) -> int:
    """Return the number of rows of `dim` doubles in `size` bytes, at least one."""
    return max(1, size // (8 * dim))


@dataclass(frozen=True, slots=True, eq=False)
class Persons:
    """The persons of a table, in whose order its rows stand: two sources belong side by side only if they share this object."""

    name: str | None  # of the identifiers, which a ledger records; None for an array without a name
    rows_each: int  # adjacent rows of each person


class Rows(Opaque, ABC):
    """Private rows, which can be read in chunks, any number of times, and in no other way.

    Create an instance with `fastpubpriv.sources.private_rows`, which reads any source, or with a constructor below. Shape, kind and
    column names are public; `repr` shows the first two. Pickling, copying, iterating, comparing, converting to an array and using
    as a truth value raise TypeError: each would pass private content to code that is unaware of it.

    Attributes
    ----------
    n : int
        Number of rows, public.
    dim : int
        Number of columns.
    columns : tuple of str, or None
        Column names, if the source has any.
    kind : str
        Kind of the source: "array", "npy", "parquet", "arrow", "csv", "frame", "dask", "chunks" or "stream".
    random_access : bool
        True if any range of rows can be read without reading the preceding rows, from several threads at once.

    Examples
    --------
    >>> import numpy as np
    >>> Rows.from_chunks(lambda: (np.ones((500, 2)) for _ in range(4)), n=2_000, dim=2)
    Rows(n=2000, dim=2, kind='chunks')
    """

    __slots__ = ("__weakref__", "columns", "dim", "kind", "n")

    random_access: bool = False
    cluster: Any = None  # the `DaskCluster` that runs passes over rows that other processes hold
    # who ordered the rows, in user-level privacy; None: in the order of their source
    persons: Persons | None = None
    # What stands for a person, in words that show public numbers alone; "" where privacy protects a single row.
    about: str = ""
    # 1 for each row that a person has and NaN for each that pads a person with fewer, (n, 1); None if no row is padded.
    presence: Rows | None = None

    @property
    def may_be_absent(self) -> bool:
        """Whether some rows may pad a person with fewer rows, by the form of the rows alone."""
        return self.rows_per_person > 1

    def __init__(self, n: int, dim: int, kind: str, columns: tuple[str, ...] | None) -> None:
        if n < 1:
            raise InputError("the data has no rows (n = 0): at least one row is needed")
        if dim < 1:
            raise InputError("the data has no columns (dim = 0): at least one column is needed")
        self.n = n
        self.dim = dim
        self.kind = kind
        self.columns = columns

    @property
    def rows_per_person(self) -> int:
        """Number of rows of each person in user-level privacy; 0: privacy protects a single row."""
        return 0 if self.persons is None else self.persons.rows_each

    def chunks(
        self, begin: int = 0, end: int | None = None, chunk_rows: int | None = None
    ) -> Iterator[Chunk]:
        """Read rows `begin` to `end` in order, at most `chunk_rows` at a time.

        Parameters
        ----------
        begin, end : int, optional
            Range of rows, `end` excluded; the default is all rows.
        chunk_rows : int, optional
            Maximum number of rows in a chunk; the default is 4 MB worth of doubles.

        Yields
        ------
        ndarray, (k, dim), float32 or float64
            Native byte order, adjacent columns, positive row stride. It may be a view of the caller's data: do not modify it.

        Raises
        ------
        InputError
            The range is outside the rows, the source cannot be read, or lacks the declared number of rows. Never for values.
        """
        begin = integer("begin", begin)
        end = integer("end", self.n if end is None else end)
        if not 0 <= begin <= end <= self.n:
            raise InputError(f"rows {begin} to {end} are not a range of rows of this source")
        size = (
            default_chunk_rows(self.dim)
            if chunk_rows is None
            else integer("chunk_rows", chunk_rows, minimum=1)
        )
        return iterate_guarded(self._chunks(begin, end, size))

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        """Yield the chunks of a valid range; without random access, a subclass reads them in order."""
        for first in range(begin, end, chunk_rows):
            yield self.block(first, min(first + chunk_rows, end))

    def block(self, begin: int, end: int) -> Chunk:
        """Return rows `begin` to `end` as one array in the form of `chunks`, without a range check; random access only."""
        raise KernelError(f"rows of kind {self.kind!r} have no blocks: they are read in order")

    def by_columns(self, begin: int, end: int, columns: slice = slice(None)) -> Columns | None:
        """Return rows `begin` to `end` by column, all or a range of `columns`, or None for a source that holds rows."""
        return None

    def take(self, places: NDArray[np.int64]) -> Chunk:
        """Return the rows at these positions, in this order, in the form of `block`; random access only."""
        return np.concatenate([self.block(int(place), int(place) + 1) for place in places])

    @property
    def in_memory(self) -> Chunk | None:
        """All rows as one array in the form of `chunks` if it exists already, else None."""
        return None

    def slice(self, begin: int, end: int) -> Rows:
        """Return rows `begin` to `end`, by position, as a separate source: one block of a public split.

        Blocks between public positions are disjoint and independent of content, so a replaced row is in only one of them.

        Parameters
        ----------
        begin, end : int
            Range of rows, `end` excluded; at least one row.

        Returns
        -------
        Rows
            A view: nothing is read or copied.

        Raises
        ------
        InputError
            The range is empty, or outside the rows.
        """
        rows: Rows = OPENERS["slice"](self, begin, end)
        return rows

    def __repr__(self) -> str:
        number = "" if self.kind == STREAM else f"n={self.n}, "
        return f"Rows({number}dim={self.dim}, kind={self.kind!r})"

    def __len__(self) -> int:
        return self.n

    @staticmethod
    def from_dask(
        collection: object, columns: Sequence[Any] | None = None, *, client: object = None
    ) -> Rows:
        """Rows of a Dask array, data frame or series. Passes run on the workers that hold the chunks; only integers are returned.

        Parameters
        ----------
        collection : dask.array.Array, dask.dataframe.DataFrame or dask.dataframe.Series
            Its chunks are NumPy arrays or pandas frames. Each pass computes them again: persist a collection that fits into the
            workers' memory. Chunks must be the same in each pass; only their numbers of rows are checked. Steps of a frame as for
            a LazyFrame (`private_rows`); of an array: arithmetic and functions of NumPy elementwise, with numbers and constants
            for each column, `clip`, `where`, `astype` to floats, indices of columns, `rechunk`. Functions that load chunks
            (`from_map`, `from_delayed`) and what is persisted cannot be checked: each row must be derived from one person's row,
            regardless of all others. In a chunk of objects, a value that is no number is missing.
        columns : label of a column or list of labels, optional
            As in `private_rows`, for a data frame.
        client : distributed.Client, optional
            Runs the tasks. The default is the current Dask scheduler: the default client, or threads of this process.

        Returns
        -------
        Rows
            Read in order where this process needs single rows (batches of a training run); the rows of a frame are counted now.

        Raises
        ------
        InputError
            Not such a collection, a plan with other steps, an array of unknown length, chunks without numbers, or a missing column.
        """
        return _opened("dask", collection, columns, client)

    @staticmethod
    def from_stream(query: object, *, each_row_from_one: bool = False) -> Any:
        """Rows of any object that hands out an Arrow stream, such as a query of DuckDB, ibis or narwhals, read once.

        What is protected is a row of the result. A filter, join, window, limit or sort lets one row of a table change many rows of
        the result, or their number, and nothing can tell these from other queries: so the caller has to.

        Parameters
        ----------
        query : object with __arrow_c_stream__, or a LazyFrame of polars or narwhals
            It runs now, and all of its columns are held in memory. Numbers, flags, decimals and texts can be read.
        each_row_from_one : bool
            Must be True, which states that each row of the result is made of one row of one table, regardless of all other
            rows, and no row is left out by what it holds. **The guarantee is then about the rows of that table.**

        Returns
        -------
        StreamTable
            For any function and any number of calls, with columns of text and with `person=`. No text of it says how many rows
            there are; a result without `person=` does, since that number is then public.

        Raises
        ------
        InputError
            `each_row_from_one` is not True, `query` has no stream, or it cannot be read, which says nothing of the reason.

        Examples
        --------
        >>> import pyarrow
        >>> table = pyarrow.table({"age": [31, 52, 47]})
        >>> Rows.from_stream(table.to_reader(), each_row_from_one=True)
        StreamTable(columns=1)
        """
        return call_guarded(OPENERS["stream"], given=(query, each_row_from_one))

    @staticmethod
    def from_csv(
        path: PathLike, columns: Sequence[str] | None = None, *, join_quoted_lines: bool = False
    ) -> Rows:
        """Rows of a CSV file with a header line. Each further line is one row, regardless of its content.

        Types are not inferred, since that would depend on private values. A cell is a decimal number, optionally in quotes; any
        other cell is NaN. With a column of text, every row is thus missing and is ignored: name the columns to read.

        Parameters
        ----------
        path : path
            Comma-separated, first line the column names; may be compressed (`.gz`, `.bz2`).
        columns : str or list of str, optional
            Columns to read, in this order; the default is all columns of the header.
        join_quoted_lines : bool
            True treats a line feed between quotes as part of a cell. **The guarantee then requires balanced quotes in every
            record**: one record with an odd number of quotes shifts the ends of all records after it, and so changes other
            people's rows and n, which no noise hides. Only for files whose writer doubles the quotes within cells.

        Returns
        -------
        Rows
            Read in pieces; the lines are counted when the object is made. One carriage return at the end of a line is dropped.
            A line is a row of NaN if it is empty, longer than 2**24 bytes, has an odd number of quotes, or another number of cells
            than the header. A comma after an odd number of quotes is not a separator. A last line without a line feed is a row
            unless it is empty.

        Raises
        ------
        InputError
            No such file, a first line that is not a header, or a missing column. Never for the other lines.
        """
        return _opened("csv", path, columns, join_quoted_lines)

    @staticmethod
    def from_chunks(factory: Callable[[], Iterable[Any]], *, n: int, dim: int) -> Rows:
        """Rows that a function supplied by the caller produces, array by array.

        Parameters
        ----------
        factory : callable without arguments
            Returns a fresh iterable of (k, dim) arrays for each pass, the same rows in the same order each time. An array is
            copied before the next one is requested, so a buffer may be reused. Any exception of the factory is replaced.
        n : int
            Number of rows in one pass, public. A pass with another number of rows raises InputError.
        dim : int
            Number of columns.

        Returns
        -------
        Rows
            Without random access.

        Raises
        ------
        InputError
            `factory` is not callable, or n or dim is not a positive whole number.
        """
        rows: Rows = OPENERS["chunks"](factory, n=n, dim=dim)
        return rows


class DerivedTable(Opaque, ABC):
    """Private rows derived from another source, for the columns that a call requests."""

    __slots__ = ("source",)

    source: Any
    persons: Persons | None = None  # as of `Rows`

    @property
    def added(self) -> tuple[str, ...]:
        """Names of the columns that the source does not have."""
        return ()

    @property
    def condition(self) -> str:
        """The condition that a row fulfills or is absent, as the caller wrote it; empty without any."""
        return ""

    @property
    @abstractmethod
    def left_out(self) -> frozenset[str]:
        """Names of the columns of the source that are no columns of these rows."""

    @abstractmethod
    def rows(self, columns: Any) -> Rows:
        """Return the rows with these columns, all but those left out if None; checks of form only."""

    def levels_of(self, name: str) -> tuple[str, ...] | None:
        """Return all texts that an added column may hold, public; None for any other column."""
        return None

    def presence(self) -> Rows | None:
        """Return 1 for each row of the source that fulfills the condition and NaN for any other, (n, 1); None without any."""
        return None


def derivations(data: Any) -> Iterator[DerivedTable]:
    """Yield what is derived from a source, step by step down to it."""
    while isinstance(data, DerivedTable):
        yield data
        data = data.source


def added_to(data: Any) -> tuple[str, ...]:
    """Return the names of the columns that the source of `data` does not have."""
    return tuple(name for each in derivations(data) for name in each.added)


def condition_of(data: Any) -> str:
    """Return the condition of the rows of `data`, as the caller wrote it; empty without any."""
    return next((each.condition for each in derivations(data) if each.condition), "")


def levels_of(data: Any, name: str) -> tuple[str, ...] | None:
    """Return all texts of a column that are public by how it is derived; None for any other column."""
    of_steps = (each.levels_of(name) for each in derivations(data))
    return next((levels for levels in of_steps if levels is not None), None)


def inside(data: Any) -> NDArray[np.bool_] | None:
    """Return which rows of the source of `data` fulfill its condition, (n,), private; None without any."""
    of_steps = (each.presence() for each in derivations(data))
    presence = next((rows for rows in of_steps if rows is not None), None)
    if presence is None:
        return None
    return np.concatenate([~np.isnan(chunk[:, 0]) for chunk in presence.chunks()])


class LedgerTable(Opaque):
    """Private rows bound to a ledger: functions that debit it take them as `x_priv`, and nothing else reads them."""

    __slots__ = ()


def source_of(data: Any) -> Any:
    """Return the table or file from which a `DerivedTable` is derived, and any other object unchanged."""
    while isinstance(data, DerivedTable):
        data = data.source
    return data


def order_of(data: Any) -> Persons | None:
    """Return the persons that ordered rows or a table; None for rows in the order of their source."""
    return data.persons if isinstance(data, Rows | DerivedTable) else None


# The constructor of each kind of rows; `open.py` fills it, since readers and views import this module.
OPENERS: dict[str, Callable[..., Any]] = {}


def _opened(kind: str, *given: object) -> Rows:
    rows: Rows = call_guarded(OPENERS[kind], given=given)
    return rows


class RandomAccessRows(Rows):
    """Rows of which any range can be read directly, from any thread; a subclass implements `block`."""

    __slots__ = ()

    random_access = True

    @abstractmethod
    def block(self, begin: int, end: int) -> Chunk:
        """See `Rows.block`."""


class RowStream:
    """Rows of a source, read in order in ranges that do not overlap."""

    __slots__ = ("_at", "_chunks", "_held", "_rows", "_size")

    def __init__(self, rows: Rows, chunk_rows: int | None = None) -> None:
        self._rows = rows
        self._size = chunk_rows
        self._chunks: Iterator[Chunk] | None = None

    def read(self, begin: int, end: int) -> Chunk:
        """Return rows `begin` to `end`, which follow the rows read before; rows between them are dropped."""
        if self._chunks is None:
            self._chunks = self._rows.chunks(begin, chunk_rows=self._size)
            self._at, self._held = begin, np.empty((0, self._rows.dim))
        parts = []
        while self._at < end:
            chunk = self._held if len(self._held) else next(self._chunks)
            parts.append(chunk[max(begin - self._at, 0) : end - self._at])
            self._held = chunk[end - self._at :]
            self._at += len(chunk) - len(self._held)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def finish(self, most: int) -> None:
        """Read on if at most this many rows are left, so that the source can check their number."""
        if self._chunks is not None and self._rows.n - self._at <= most:
            deque(self._chunks, maxlen=0)


def even_chunks(rows: Rows, chunk_rows: int) -> Iterator[Chunk]:
    """Yield all rows in chunks of exactly `chunk_rows` (but the last), where a key or a step belongs to a range of positions."""
    stream = RowStream(rows, chunk_rows)
    for begin in range(0, rows.n, chunk_rows):
        yield stream.read(begin, min(begin + chunk_rows, rows.n))
    stream.finish(0)
