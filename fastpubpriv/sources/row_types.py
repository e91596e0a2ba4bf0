"""`Rows`: private rows behind a type that shows its shape and nothing else."""

from __future__ import annotations

import abc
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.threads.guard import call_guarded, iterate_guarded
from fastpubpriv.validation import integer


class Cluster(abc.ABC):
    """Runs passes where the rows live. Only accumulators come back; ledger, account and keys stay where the caller is."""

    __slots__ = ()

    @abc.abstractmethod
    def accumulate(self, query: Any, rows: Any, chunk_rows: int, tell: Callable[[int], object] | None) -> Any:
        """The accumulators of `query` over all rows, each counted once, `chunk_rows` at a time; `tell` hears how many are done.

        InputError, without content, if a worker could not read or add rows, they have changed, or the cluster did not finish.
        """


# ---- Objects that hand out private content by no operator, protocol or function of Python ----------------------------


class Opaque:
    """Base class: pickling, copying, iterating, comparing, converting and formatting raise TypeError."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        if spec:
            _refuse("formatted as a number")
        return repr(self)

    def __reduce__(self) -> NoReturn:
        _refuse("pickled or copied")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        _refuse("converted to an array")

    def __iter__(self) -> NoReturn:
        _refuse("iterated over")

    def __contains__(self, item: object) -> NoReturn:
        _refuse("searched")

    def __getitem__(self, index: object) -> NoReturn:
        _refuse("indexed")

    def __eq__(self, other: object) -> NoReturn:
        _refuse("compared")

    def __bool__(self) -> NoReturn:
        _refuse("used as a truth value")

    __hash__ = object.__hash__
    __array_ufunc__ = None  # NumPy operators and functions then raise TypeError instead of trying to convert


def _refuse(action: str) -> NoReturn:
    raise TypeError(f"private rows cannot be {action}: only an estimator, or fold(), may read them")


Chunk = NDArray[Any]  # (k, dim), float32 or float64, native byte order, adjacent columns
PathLike = str | os.PathLike[str]

# About 1 ms of work for a sum: short enough to interrupt a pass at once and to share it evenly among threads.
CHUNK_BYTES = 1 << 22
# Of rows that lie in memory and are only read. Each chunk begins with Python code that the rows before it have driven out of the
# caches: 95 chunks of 4 MB take a tenth longer than one of 400 MB, and 12 of 32 MB a fiftieth.
CHUNK_BYTES_IN_PLACE = 1 << 25


def default_chunk_rows(dim: int, size: int = CHUNK_BYTES) -> int:
    """Rows of `dim` doubles in so many bytes, at least one."""
    return max(1, size // (8 * dim))


class Rows(Opaque, ABC):
    """Private rows. They can be read in chunks, as often as wanted, and in no other way.

    Make one with a constructor below or with `private_rows`. Shape, kind and column names are public; `repr` shows the
    first two. Pickling, copying, iterating, comparing, converting to an array and using as a truth value raise
    TypeError: each would hand private content to code that does not know it is private.

    Attributes
    ----------
    n : int
        Number of rows, public.
    dim : int
        Number of columns.
    columns : tuple of str, or None
        Column names, where the source has names.
    kind : str
        What kind of source the rows come from: "array", "npy", "parquet", "arrow", "csv", "frame", "dask" or "chunks".
    random_access : bool
        True if any range of rows can be read without reading those before it, from several threads at once.

    Examples
    --------
    >>> import numpy as np
    >>> Rows.from_chunks(lambda: (np.ones((500, 2)) for _ in range(4)), n=2_000, dim=2)
    Rows(n=2000, dim=2, kind='chunks')
    """

    __slots__ = ("__weakref__", "_columns", "_dim", "_kind", "_n")

    random_access: bool = False
    cluster: Cluster | None = None  # where the rows live, if not in this process
    # how many of the rows are of one person, whom calls then protect; 0: each row is protected by itself
    rows_per_person: int = 0

    def __init__(self, n: int, dim: int, kind: str, columns: tuple[str, ...] | None) -> None:
        if n < 1:
            raise InputError("the data has no rows (n = 0): at least one row is needed")
        if dim < 1:
            raise InputError("the data has no columns (dim = 0): at least one column is needed")
        self._n = n
        self._dim = dim
        self._kind = kind
        self._columns = columns

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._n

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self._dim

    @property
    def kind(self) -> str:
        """What kind of source this is."""
        return self._kind

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Column names, or None."""
        return self._columns

    def chunks(self, begin: int = 0, end: int | None = None, chunk_rows: int | None = None) -> Iterator[Chunk]:
        """Read rows `begin` to `end` in order, at most `chunk_rows` at a time.

        Parameters
        ----------
        begin, end : int, optional
            Range of rows, `end` excluded; the default is all rows.
        chunk_rows : int, optional
            Most rows in one chunk; the default is 4 MB worth of doubles.

        Yields
        ------
        ndarray, (k, dim), float32 or float64
            Native byte order, columns adjacent, rows at a positive stride. It may be a view of the caller's data: do not change it.

        Raises
        ------
        InputError
            The range is outside the rows, or the source cannot be read or has not as many rows as it declared. Never for values.
        """
        begin, end = integer("begin", begin), integer("end", self._n if end is None else end)
        if not 0 <= begin <= end <= self._n:
            raise InputError(f"rows {begin} to {end} are not a range within the {self._n} rows of this source")
        size = default_chunk_rows(self._dim) if chunk_rows is None else integer("chunk_rows", chunk_rows, minimum=1)
        return iterate_guarded(self._chunks(begin, end, size))

    @abstractmethod
    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        """Chunks of a range that has been checked."""

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end as one array, in the form that `chunks` promises; the range is not checked. For random access only."""
        raise KernelError(f"rows of kind {self._kind!r} have no blocks: they are read in order")

    def take(self, places: NDArray[np.int64]) -> Chunk:
        """Rows at these positions, in this order, as `block` gives them; for random access only."""
        return np.concatenate([self.block(int(place), int(place) + 1) for place in places])

    @property
    def in_memory(self) -> Chunk | None:
        """All rows as one array, in the form that `chunks` promises, where there is one already; it is never made for this."""
        return None

    def slice(self, begin: int, end: int) -> Rows:
        """Rows `begin` to `end` of this source, by position, as a source of its own: one block of a public split.

        Blocks cut at public positions are disjoint and do not depend on content, so a replaced row is in one of them only.

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
        return OPENERS["slice"](self, begin, end)

    def __repr__(self) -> str:
        return f"Rows(n={self._n}, dim={self._dim}, kind={self._kind!r})"

    def __len__(self) -> int:
        return self._n

    @staticmethod
    def from_array(array: object) -> Rows:
        """Rows of a 2-D numeric array (n, dim) or a rectangular list of lists.

        Parameters
        ----------
        array : ndarray, memoryview, or list of lists of numbers
            float32 and float64 are read in place; bool, integers, float16 and foreign byte order are converted to float64
            chunk by chunk (integers beyond 2**53 are rounded). Any strides and read-only memory are allowed. None in a list
            is NaN.

        Returns
        -------
        Rows
            With random access.

        Raises
        ------
        InputError
            Not two-dimensional, not real numbers, masked, sparse, ragged or empty. Never for the values.
        """
        return _opened("array", array)

    @staticmethod
    def from_npy(path: PathLike, *, memory_map: bool = True) -> Rows:
        """Rows of a `.npy` file.

        Parameters
        ----------
        path : path
            A file written by `numpy.save`, two-dimensional and numeric.
        memory_map : bool
            True reads chunk by chunk; if the file becomes shorter meanwhile, the process is killed. False reads the whole file now.

        Returns
        -------
        Rows
            With random access.

        Raises
        ------
        InputError
            No such file, not a `.npy` file, or an array that `from_array` would refuse.
        """
        return _opened("npy", path, memory_map)

    @staticmethod
    def from_parquet(
        path: PathLike | Sequence[PathLike], columns: Sequence[str] | None = None, *, memory_map: bool = True
    ) -> Rows:
        """Rows of one Parquet file, of several with the same columns, or of those under a directory, read piece by piece.

        Parameters
        ----------
        path : path or sequence of paths
            The files, in order; those of a directory in the order of their names, and keys of "key=value" folders are columns.
            n comes from the footers. Which files there are, and how long each is, is public: a replaced row stays in its file.
        columns : sequence of str, optional
            Numeric columns to read, in this order; the default is all columns, which must then all be numeric.
        memory_map : bool
            As in `from_npy`, but False too reads the files piece by piece.

        Returns
        -------
        Rows
            Numeric columns are those of bool, integers, floats, decimals, and dictionary-encoded ones of these. A null is NaN.

        Raises
        ------
        InputError
            A file cannot be read, or a chosen column is missing or not numeric (the message names the column).
        """
        return _opened("parquet", path, columns, memory_map)

    @staticmethod
    def from_arrow(table: object, columns: Sequence[str] | None = None, *, memory_map: bool = True) -> Rows:
        """Rows of an Arrow table, batch, list of batches, dataset, IPC / Feather file, or of a stream that is opened for each pass.

        Parameters
        ----------
        table : pyarrow.Table, RecordBatch, list of RecordBatches, Dataset, path, or function that returns a RecordBatchReader
            Read where it is. A dataset, without a filter, is read in the order of its files; a stream is counted now, and how it
            is made is not seen: each row must be made of one person's row, and their number is published.
        columns : sequence of str, optional
            Numeric columns to read, in this order; the default is all columns, which must then all be numeric.
        memory_map : bool
            As in `from_npy`, for a file.

        Returns
        -------
        Rows
            With random access, but for datasets and streams. Columns as in `from_parquet`.

        Raises
        ------
        InputError
            Not one of these, or a chosen column is missing or not numeric.
        """
        return _opened("arrow", table, columns, memory_map)

    @staticmethod
    def from_frame(frame: object, columns: Sequence[Any] | None = None) -> Rows:
        """Rows of a pandas or polars DataFrame, or of a polars LazyFrame.

        Parameters
        ----------
        frame : pandas.DataFrame, polars.DataFrame or polars.LazyFrame
            Read where it is, chunk by chunk. The plan of a LazyFrame runs in each pass, and now to count its rows. Its steps must
            make each row of one row: `select` and `with_columns` of arithmetic, casts that cannot fail, `scan_parquet`. Others
            (filter, join, sort, slices, text files, functions of Python) are refused: collect them, if n may then be public.
        columns : sequence of column labels, optional
            Numeric columns to read, in this order; the default is all columns, which must then all be numeric.

        Returns
        -------
        Rows
            Numeric columns are those of bool, integers, floats, their nullable and Arrow-backed forms, and decimals of polars and
            Arrow. A null is NaN. Categories, objects, text, dates and sparse columns are not numeric.

        Raises
        ------
        InputError
            Not a DataFrame, a plan with other steps, or a chosen column is missing or not numeric.
        """
        return _opened("frame", frame, columns)

    @staticmethod
    def from_dask(collection: object, columns: Sequence[Any] | None = None, *, client: object = None) -> Rows:
        """Rows of a Dask array, data frame or series. Passes run where the chunks live; only their integers come here.

        Parameters
        ----------
        collection : dask.array.Array, dask.dataframe.DataFrame or dask.dataframe.Series
            Its chunks are NumPy arrays or pandas frames. Each pass computes them again: persist what fits into the memory of the
            workers. The chunks must be the same in each pass, which their numbers of rows are checked for. Steps of a frame as for
            a LazyFrame; what made an array, or the parts of `from_map` and `from_delayed`, is not seen: there each row must be made
            of one person's row, whatever the others hold. In a chunk of objects, what is no number is missing.
        columns : sequence of column labels, optional
            As in `from_frame`, for a data frame.
        client : distributed.Client, optional
            Runs the tasks. The default is what Dask uses at the time: its default client, or threads of this process.

        Returns
        -------
        Rows
            Read in order where single rows are needed here (batches of a training run); the rows of a frame are counted now.

        Raises
        ------
        InputError
            Not such a collection, other steps, an array of unknown length, chunks that do not hold numbers, or a missing column.
        """
        return _opened("dask", collection, columns, client)

    @staticmethod
    def from_csv(path: PathLike, columns: Sequence[str] | None = None, *, join_quoted_lines: bool = False) -> Rows:
        """Rows of a CSV file with a header line. Each further line is one row, whatever it holds.

        Types are not inferred, since that would need a look at private values. A cell is a decimal number, perhaps in quotes;
        anything else is NaN. With a column of text, every row is thus missing and is ignored: name the columns to read.

        Parameters
        ----------
        path : path
            Comma-separated, first line the column names; may be compressed (`.gz`, `.bz2`).
        columns : sequence of str, optional
            Columns to read, in this order; the default is all columns of the header.
        join_quoted_lines : bool
            True takes a line feed between quotes as part of a cell. **The guarantee then needs balanced quotes in every
            record**: one record with an odd number of quotes shifts the ends of all records after it, and so changes other
            people's rows and n, which no noise hides. Only for files whose writer doubles the quotes within cells.

        Returns
        -------
        Rows
            Read in pieces; the lines are counted when the object is made. One carriage return at the end of a line is dropped.
            A line is a row of NaN if it is empty, longer than 2**24 bytes, has an odd number of quotes, or has not as many cells
            as the header. A comma after an odd number of quotes separates nothing. A last line without a line feed counts if it
            is not empty.

        Raises
        ------
        InputError
            No such file, the first line is no header, or a column is missing. Never for the other lines.
        """
        return _opened("csv", path, columns, join_quoted_lines)

    @staticmethod
    def from_chunks(factory: Callable[[], Iterable[Any]], *, n: int, dim: int) -> Rows:
        """Rows that a function of yours produces, array by array.

        Parameters
        ----------
        factory : callable without arguments
            Returns a fresh iterable of (k, dim) arrays for each pass, the same rows in the same order each time. An array is
            copied before the next is asked for, so a buffer may be reused. Any exception of the factory is replaced.
        n : int
            Number of rows in one pass, public. A pass that yields another number raises InputError.
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
        return OPENERS["chunks"](factory, n=n, dim=dim)


class DerivedTable(Opaque, ABC):
    """Private rows that are made of another source, for the columns that a call asks for."""

    __slots__ = ("source",)

    source: Any

    @abstractmethod
    def rows(self, columns: Any) -> Rows:
        """The rows, of these columns, of all where None are named; checks of form only."""


def source_of(data: Any) -> Any:
    """What a `DerivedTable` is made of; anything else as it is."""
    return data.source if isinstance(data, DerivedTable) else data


# The constructor of each kind of rows; `open.py` fills this in, since readers and views import the class above.
OPENERS: dict[str, Callable[..., Rows]] = {}


def _opened(kind: str, *given: object) -> Rows:
    return call_guarded(lambda: OPENERS[kind](*given))


class RandomAccessRows(Rows):
    """Rows of which any range can be read directly, from any thread; a subclass says how in `block`."""

    __slots__ = ()

    random_access = True

    @abstractmethod
    def block(self, begin: int, end: int) -> Chunk:
        """See `Rows.block`."""

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        return in_blocks(self, begin, end, chunk_rows)


def in_blocks(rows: Rows, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
    """Rows with random access, block by block."""
    for first in range(begin, end, chunk_rows):
        yield rows.block(first, min(first + chunk_rows, end))


def even_chunks(rows: Rows, chunk_rows: int) -> Iterator[Chunk]:
    """All rows, exactly `chunk_rows` at a time but for the last: where a key or a step belongs to a range, whatever the source."""
    held: list[Chunk] = []
    count = 0
    for chunk in rows.chunks(chunk_rows=chunk_rows):
        held.append(chunk)
        count += len(chunk)
        if count >= chunk_rows:
            both = held[0] if len(held) == 1 else np.concatenate(held)
            yield both[:chunk_rows]
            held, count = [both[chunk_rows:]] if count > chunk_rows else [], count - chunk_rows
    if count:
        yield held[0] if len(held) == 1 else np.concatenate(held)
