"""Opening data as `Rows`: constructors by kind, `private_rows` (checks of form only) and `public_rows` (checks of every value)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources import tables
from fastpubpriv.sources.arrays import ArrayRows, NpyFileRows, plain_list, plain_text
from fastpubpriv.sources.arrow_streams import StreamTable, in_memory, public_in_memory, stream_table
from fastpubpriv.sources.column_names import column_order
from fastpubpriv.sources.dask_backend import DaskRows, is_dask
from fastpubpriv.sources.dates import is_dates
from fastpubpriv.sources.lazy_modules import arrow_dataset
from fastpubpriv.sources.public_csv import public_csv_rows, public_names, public_table
from fastpubpriv.sources.rescanned import (
    dataset_rows,
    factory_rows,
    lazy_rows,
    parquet_rows,
    stream_rows,
    unmapped_arrow_rows,
)
from fastpubpriv.sources.row_types import (
    OPENERS,
    DerivedTable,
    LedgerTable,
    PathLike,
    Rows,
    added_to,
    inside,
    levels_of,
    order_of,
    source_of,
)
from fastpubpriv.sources.text_files import CsvRows, csv_rows
from fastpubpriv.sources.views import ChosenColumns, Slice, each_row
from fastpubpriv.threads.guard import guarded, naming


def _arrow(source: Any, columns: Sequence[str] | None) -> Rows:
    return (
        dataset_rows(source, columns)
        if tables.is_dataset(source)
        else tables.arrow_rows(source, columns)
    )


OPENERS.update(csv=csv_rows, dask=DaskRows.from_collection, chunks=factory_rows, slice=Slice)
OPENERS["stream"] = stream_table
_ONLY_FILES = "memory_map=False is for the path of a file, or a list of paths that end in .parquet"
SUFFIXES = ".npy, .parquet, .arrow, .feather, .ipc, .csv, .csv.gz or .csv.bz2"


def private_rows(
    obj: object, *, columns: Sequence[Any] | None = None, memory_map: bool = True
) -> Rows:
    """Rows of any readable source: an array, a table, a path, a list, or Rows.

    Parameters
    ----------
    obj : Rows, ndarray, memoryview, list, frame or series, Arrow table or dataset, Dask collection, path, list of paths
        Or an eager frame of narwhals, or a table of DuckDB (`con.table("t")`), whose rows are read into memory once; or a
        function that opens an Arrow RecordBatchReader, anew for each pass. A one-dimensional array, list of numbers or Series is
        one column. The suffix of a path determines its reader: .npy, .parquet, .arrow, .feather, .csv. A list of paths is a list
        of Parquet files, and a directory must hold such files; keys of its "key=value" folders are columns.

        Memory is read in place, files are mapped, and both must stay as they are. Integers beyond 2**53 are rounded; None and
        null are NaN. The set of files and their lengths are public: a replaced row stays in its file. The plan of a LazyFrame
        runs in each pass, and now to count its rows. Its steps must derive each row from one row: `select` and `with_columns` of
        arithmetic, casts that cannot fail, `scan_parquet`. Others (filter, join, sort, slice, text files, Python functions) are
        refused: collect them, if n may then be public. So are objects that run a query (`Rows.from_stream` takes them). A stream
        is counted now, and cannot be checked: each of its rows must be derived from one person's row, and the number of rows is
        published.
    columns : name of a column or list of names, optional
        Numeric columns to read, in this order, of a source that has names. The default is all columns, which must then all be
        numeric: bool, integers, floats, their nullable and Arrow-backed forms, decimals of polars and Arrow.
    memory_map : bool
        False reads a file, or a list of files, by ordinary reads: if another program makes it shorter during a call, this raises
        InputError, where a memory map ends the process. What was debited stays debited either way.

    Returns
    -------
    Rows
        Only the form has been read (of a CSV file, a stream and a plan also the number of rows).

    Raises
    ------
    InputError
        The form (type, dtype, shape, columns, file) cannot be used; the message says what to pass instead. Never for
        the values.

    See Also
    --------
    fastpubpriv.PrivateTable : a table bound to its public rows, a ledger and persons.
    fastpubpriv.Rows : the class, with `from_stream` for streams of unknown length.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv.sources import private_rows
    >>> rows = private_rows(np.arange(6.0).reshape(3, 2))
    >>> rows.n, rows.dim, rows.kind
    (3, 2, 'array')
    """
    with guarded():
        return _opened(obj, columns, memory_map)


def _opened(obj: object, columns: Sequence[Any] | None, memory_map: bool) -> Rows:
    if isinstance(obj, LedgerTable):
        raise InputError(
            "a PrivateTable is read by its methods and by functions with ledger=, which debit it: here pass the rows themselves"
        )
    if isinstance(obj, Rows | DerivedTable):
        if not memory_map:
            raise InputError(_ONLY_FILES)
        return _as_asked(obj, columns) if isinstance(obj, Rows) else obj.rows(columns)
    obj = in_memory(obj)
    kind = kind_of(obj)
    if kind not in KINDS:
        # The string may be private text passed by mistake, so it is not quoted.
        raise InputError(
            f"cannot tell from its name how to read this path: the suffix must be {SUFFIXES}"
        )
    if memory_map:
        return KINDS[kind].open(obj, columns)
    read = KINDS[kind].read
    if read is None:
        raise InputError(_ONLY_FILES)
    return read(obj, columns)


def kind_of(source: object) -> str:
    """Return the kind of a source, a key of `KINDS`; for a path, its suffix, which may not be in `KINDS`."""
    if type(source) is np.ndarray:  # before all others: applications make thousands of small calls
        return "array"
    if isinstance(source, StreamTable):
        return "query"
    if isinstance(source, str | os.PathLike):
        return form_of_path(source)
    kinds = (
        ("dask", is_dask),
        ("lazy", tables.is_lazy),
        ("frame", tables.is_frame),
        ("series", tables.is_series),
        ("arrow", tables.is_arrow),
        ("column", tables.is_arrow_column),
        ("stream", lambda obj: callable(obj) and not isinstance(obj, type)),
    )
    return next((kind for kind, fits in kinds if fits(source)), "array")


def _listed_files(obj: object, columns: Sequence[Any] | None) -> Rows:
    """Return rows of a list of paths of Parquet files, read without a memory map."""
    files = plain_list(obj) if isinstance(obj, list | tuple) else ()
    if not files or not all(
        isinstance(item, str | os.PathLike) and form_of_path(item) == ".parquet" for item in files
    ):
        raise InputError(_ONLY_FILES)
    return parquet_rows(files, columns, memory_map=False)


def _array(obj: object, columns: Sequence[Any] | None) -> Rows:
    """Return rows of an array-like, or of a list of paths or record batches."""
    asked = tables.names_of_columns(columns)
    if (
        isinstance(columns, tables.TextColumns)
        and asked is not None
        and list(asked) == ["0"]
        and "0" in columns.texts
    ):
        cells = obj if isinstance(obj, list | tuple) else obj.ravel() if _is_line(obj) else None
        if cells is not None:
            return tables.texts_rows(cells, columns)
    if isinstance(obj, list | tuple) and (obj := plain_list(obj)):
        if all(isinstance(item, str | os.PathLike) for item in obj):
            if all(form_of_path(item) == ".parquet" for item in obj):
                return parquet_rows(obj, columns)
            raise InputError(
                "a list of text is no list of rows; as a list of paths, all must end in .parquet"
            )
        if tables.is_arrow(obj[0]):
            return _arrow(obj, columns)
    return _as_asked(ArrayRows.from_object(obj), columns)


def _is_line(obj: object) -> bool:
    return isinstance(obj, np.ndarray) and obj.ndim == 1


def form_of_path(path: PathLike) -> str:
    """Return the lower-case suffix of a path, ignoring .gz and .bz2; for a directory, ".parquet"."""
    name = os.fsdecode(path)
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in {".gz", ".bz2"}:
        suffix = os.path.splitext(stem)[1]
    return ".parquet" if os.path.isdir(name) else suffix.lower()


def _as_asked(rows: Rows, columns: Sequence[Any] | None) -> Rows:
    """Return the rows if their columns are those requested; raise InputError otherwise."""
    if columns is None:
        return rows
    asked = tables.names_of_columns(columns)
    texts: Mapping[str, tuple[str, ...]] = (
        columns.texts if isinstance(columns, tables.TextColumns) else {}
    )
    held = {str(name): name.levels for name in rows.columns or () if isinstance(name, tables.Coded)}
    if any(held.get(name) != levels for name, levels in texts.items()):
        raise InputError(
            "text is read from frames, tables and files, and these rows hold numbers: pass the table or the path itself"
        )
    if asked is None or (
        rows.columns is not None and rows.columns == tuple(tables.asked_columns(asked))
    ):
        return rows
    if rows.columns is None:
        listed = tables.asked_columns(asked)
        places = [
            each % rows.dim for each in listed if type(each) is int and -rows.dim <= each < rows.dim
        ]
        if not places or len(set(places)) < len(listed):
            raise InputError(
                f"a source of kind {rows.kind!r} has no names of columns: columns= must be a list of their numbers, each once, "
                f"from 0 to {rows.dim - 1}"
            )
        return each_row(rows, ChosenColumns(tuple(places)), len(places))
    raise InputError(
        "these Rows were made with other columns: pass columns=[...] where they are made"
    )


# Distinct texts in public data: in a column of a frame, table or file, or in separate labels.


def texts_of_column(x_pub: object, name: str) -> tuple[str, ...] | None:
    """Return the distinct texts in a column of public data, sorted; None if there is no text or no such column."""
    cells = cells_of_column(x_pub, name)
    return None if cells is None else distinct_texts(cells)


def cells_of_column(x_pub: object, name: str) -> list[Any] | None:
    """Return the cells of a named column of public data; None if the source has no such column, or no columns with names."""
    with guarded():
        cells = _cells(x_pub, name)
        return None if cells is None else list(cells)


def label_cells(labels: Any) -> Iterable[Any]:
    """Return the cells of labels in an array, list or series that may hold text; nothing for other types."""
    if tables.is_series(labels) or tables.is_frame(labels):
        labels = labels.to_numpy()
    if isinstance(labels, np.ndarray):
        return tables.cells_of_texts(labels.ravel()) if labels.dtype.kind in "OUST" else ()
    return labels if isinstance(labels, list | tuple) else ()


def distinct_texts(cells: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the distinct texts among cells of any type, sorted; None if there are none."""
    levels = {plain_text(cell) for cell in cells if isinstance(cell, str)} - {""}
    return tuple(sorted(levels)) or None


def _cells(x_pub: Any, name: str) -> Iterable[Any] | None:
    """Return the cells of a named column, all levels of one of bins; None if there is no such column, or none with names."""
    levels = levels_of(x_pub, name)
    if levels is not None:
        return levels
    if name in added_to(x_pub):
        chunks = present_rows(private_rows(x_pub, columns=[name])).chunks()
        return [number for chunk in chunks for number in chunk[:, 0].tolist()]
    cells = _cells_of_source(source_of(x_pub), name)
    there = None if cells is None else inside(x_pub)
    return cells if cells is None or there is None else itertools.compress(cells, there)


def _cells_of_source(x_pub: Any, name: str) -> Iterable[Any] | None:
    if name == "0" and (tables.is_texts(x_pub) or tables.is_series(x_pub)):
        return label_cells(x_pub)
    if name == "0" and is_dates(x_pub):
        return list(x_pub)
    if isinstance(x_pub, CsvRows):
        return _cells_of_source(public_table(x_pub.path, join_quoted=x_pub.join_quoted), name)
    table: Any = KINDS[kind].table(x_pub, name) if (kind := kind_of(x_pub)) in KINDS else None
    if tables.is_frame(table) and name in table.columns:
        column = table[name]
        return list(column.to_list() if hasattr(column, "to_list") else column.tolist())
    if tables.is_arrow(table) and name in table.schema.names and hasattr(table, "column"):
        return list(table.column(name).to_pylist())
    return None


def names_of_table(x_pub: Any) -> list[str] | None:
    """Return the column names of public data, whatever the types of the columns; None for a source without names."""
    with guarded():
        given = source_of(x_pub)
        csv = kind_of(given) == ".csv"  # a header may hold numbers
        names = public_names(given) if csv else names_of_source(given)
        if names is None:
            return None
        left_out = left_out_of(x_pub)
        others = [str(name) for name in names if str(name) not in left_out]
        return [*others, *added_to(x_pub)]


def labels_of_table(x_pub: Any) -> list[Any] | None:
    """Return the column labels of public data as they are, of any type; that of a series is its name."""
    source = source_of(x_pub)
    if tables.is_series(source):
        return [source.name]
    labels = names_of_source(source) if tables.is_frame(source) else names_of_table(x_pub)
    left_out = left_out_of(x_pub)
    if labels is None or not tables.is_frame(source):
        return labels
    return [*(label for label in labels if label not in left_out), *added_to(x_pub)]


def left_out_of(table: Any) -> frozenset[str]:
    """Return the names of the columns of the source of `table` that are no columns of `table`."""
    return table.left_out if isinstance(table, DerivedTable) else frozenset()


class OtherColumns(DerivedTable):
    """The rows of a table or file with names, without one of its columns."""

    __slots__ = ("_name", "persons")

    def __init__(self, source: Any, name: str) -> None:
        self.source = source
        self._name = name
        self.persons = order_of(source)

    @property
    def left_out(self) -> frozenset[str]:
        """See `DerivedTable`."""
        return frozenset({self._name}) | left_out_of(self.source)

    def rows(self, columns: Any) -> Rows:
        """See `DerivedTable.rows`."""
        return private_rows(self.source, columns=self.without(columns))

    def without(self, columns: Any) -> Any:
        """Return the requested columns; by default all columns of the source but the one that is left out."""
        if tables.names_of_columns(columns) is not None:
            return columns
        names = names_of_table(self)
        return (
            tables.TextColumns(names, columns.texts)
            if isinstance(columns, tables.TextColumns)
            else names
        )


def has_column(table: Any, name: str) -> bool:
    """Return whether a table or file has a column of this name."""
    return name in (names_of_table(table) or ())


def without_column(table: Any, name: str) -> Any:
    """Return the rows of a table or file without the column of this name; return what has no such column unchanged."""
    if not has_column(table, name):
        return table
    if tables.is_frame(table):
        return table[[label for label in table.columns if str(label) != name]]
    return OtherColumns(table, name)


def names_of_source(source: Any) -> list[Any] | None:
    """Return the column labels of a source, from its form alone; None for a source without names."""
    kind = kind_of(source)
    names = KINDS[kind].names(source) if kind in KINDS else None
    return None if names is None else list(names)


# suffixes of files that say names and types of their columns
NAMED_FILES = (".parquet", ".arrow", ".feather", ".ipc")


def schema_of_file(path: PathLike) -> Any:
    """Return the Arrow schema of a file or directory of `NAMED_FILES`."""
    return (
        _dataset(path).schema
        if form_of_path(path) == ".parquet"
        else tables.ipc_reader(os.fspath(path)).schema
    )


def _dataset(path: PathLike) -> Any:
    return arrow_dataset.dataset(path, format="parquet", partitioning="hive")


def _parquet_table(path: PathLike, name: str) -> Any:
    dataset = _dataset(path)
    return dataset.to_table(columns=[name]) if name in dataset.schema.names else None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source: how to open its rows, to list its column names, and to read a column of text from public data."""

    open: Callable[[Any, Any], Rows]  # (source, columns)
    # column names, None without names
    names: Callable[[Any], Iterable[Any] | None] = lambda source: None
    # a frame or Arrow table with the named column
    table: Callable[[Any, str], Any] = lambda source, name: None
    # as `open`, without a memory map; None for what is no file
    read: Callable[[Any, Any], Rows] | None = None


_FILE_OF_ARROW = Kind(
    _arrow,
    lambda path: tables.data_columns(schema_of_file(path)),
    lambda path, name: tables.ipc_reader(os.fspath(path)).read_all(),
    read=unmapped_arrow_rows,
)
KINDS = {
    ".npy": Kind(
        lambda path, columns: _as_asked(ArrayRows.from_file(path), columns),
        read=lambda path, columns: _as_asked(NpyFileRows(path), columns),
    ),
    ".parquet": Kind(
        parquet_rows,
        lambda path: tables.data_columns(schema_of_file(path)),
        _parquet_table,
        read=lambda path, columns: parquet_rows(path, columns, memory_map=False),
    ),
    **dict.fromkeys(NAMED_FILES[1:], _FILE_OF_ARROW),
    ".csv": Kind(
        lambda path, columns: csv_rows(path, columns, False),
        lambda path: private_rows(path).columns,
        lambda path, name: public_table(path),
        read=lambda path, columns: csv_rows(path, columns, False),
    ),
    "dask": Kind(
        lambda source, columns: DaskRows.from_collection(source, columns, None),
        lambda source: getattr(source, "columns", None),
        lambda source, name: source[[name]].compute() if hasattr(source, "columns") else None,
    ),
    "lazy": Kind(
        lazy_rows,
        lambda source: source.collect_schema().names(),
        lambda source, name: source.select(name).collect(),
    ),
    "frame": Kind(tables.frame_rows, lambda source: source.columns, lambda source, name: source),
    "series": Kind(tables.frame_rows),
    "arrow": Kind(
        _arrow, lambda source: tables.data_columns(source.schema), lambda source, name: source
    ),
    "column": Kind(
        lambda source, columns: tables.arrow_rows(
            tables.table_of_column(source), columns, what="the Arrow array"
        ),
        lambda source: ["0"],
        lambda source, name: tables.table_of_column(source),
    ),
    "stream": Kind(stream_rows),
    "query": Kind(
        lambda source, columns: source.rows(columns),
        lambda source: source.names,
        lambda source, name: source.table,
    ),
    "array": Kind(
        _array, lambda source: ["0"] if tables.is_texts(source) else None, read=_listed_files
    ),
}


# `public_rows`: the same readers, then checks of every value; error messages may quote public values.

# Squares of values beyond these limits overflow or underflow, and a radius computed from the rows would be inf or 0.
_LARGEST = 1e150
_SMALLEST = 1e-150
_OVERLAP_WORK = 10_000
_F64 = np.dtype(np.float64)


def public_rows(obj: object, **form: Any) -> FloatArray:
    """Return the array of `public_table_of`."""
    return public_table_of(obj, **form)[0]


def public_table_of(
    obj: object,
    *,
    columns: Sequence[Any] | None = None,
    dim: int | None = None,
    min_rows: int = 1,
    names: Sequence[str] | None = None,
    show: bool = True,
    argument: str = "x_pub",
    finite: bool = True,
) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Read public rows into one array (m, dim), a copy, and check every value; return it and the column names or None."""
    # Anything that `private_rows` takes, or one row: a one-dimensional array, list or Series of length `dim` > 1, where the index
    # of a pandas Series names its columns. The columns of a source with names are put in the order of `names`, those of the private
    # rows, which an error quotes only with `show`. With finite=False, a cell may be missing (NaN). Errors quote public values.
    plain = _plain_copy(obj, dim, min_rows) if columns is None and names is None else None
    if plain is not None:
        return plain, None
    with naming(argument), guarded():
        rows = open_public(obj, columns, dim)
    order = column_order(names, rows.columns, of="x_priv", within=argument, show=show)
    if dim is not None and rows.dim != dim:
        if argument == "y_pub":
            raise InputError(f"y_pub must be one number for each row, got {rows.dim} columns")
        raise InputError(
            f"public rows have {rows.dim} columns and private rows have {dim}: pass the same columns in the same order"
        )
    if rows.n < min_rows:
        raise InputError(f"at least {min_rows} public rows are needed here, got {rows.n}")
    matrix = np.empty((rows.n, rows.dim))
    filled = 0
    for chunk in rows.chunks():
        matrix[filled : filled + chunk.shape[0]] = chunk
        filled += chunk.shape[0]
    _check_values(matrix if finite else np.where(np.isnan(matrix), 0.0, matrix), rows.columns)
    labels = rows.columns
    if order is not None:
        matrix = np.ascontiguousarray(matrix[:, order])
        labels = labels and tuple(labels[place] for place in order)
    return matrix, labels


def require_numbers(matrix: FloatArray, columns: Sequence[str] | None) -> None:
    """Raise InputError if all cells of some column of public rows (m, dim) are missing (NaN)."""
    empty = np.flatnonzero(np.isnan(matrix).all(axis=0)).tolist()
    if empty:
        names = [
            f"column {place}" if columns is None else f"column {columns[place]!r}"
            for place in empty[:10]
        ]
        raise InputError(
            f"public rows must have a number in every column, and all cells of {', '.join(names)} are missing: fill one in, or "
            "leave the column out of columns="
        )


def open_public(obj: object, columns: Any, dim: int | None = None) -> Rows:
    """Open public rows without checking values; the column types of a CSV file are inferred from its content."""
    if isinstance(obj, OtherColumns):
        return open_public(obj.source, obj.without(columns), dim)
    if isinstance(obj, CsvRows):
        asked = _as_asked(obj, columns)
        return public_csv_rows(obj.path, asked.columns, obj.join_quoted)
    obj = public_in_memory(obj)
    source = source_of(obj)
    if isinstance(source, str | os.PathLike) and kind_of(source) == ".csv":
        if source is obj:
            return public_csv_rows(source, columns)
        # Public persons, or rows inside a condition: the private reader makes them, and their cells are checked here.
        chosen = private_rows(obj, columns=columns)
        own = columns_of_source(obj, chosen.columns)
        if tables.names_of_columns(own) != []:
            public_csv_rows(source, own)
        return present_rows(chosen)
    if source is not obj:
        if order_of(obj) is None:
            tables.refuse_objects(source, columns_of_source(obj, columns))
        return present_rows(private_rows(obj, columns=columns))
    tables.refuse_objects(obj, columns)
    if dim == 1 and tables.is_series(obj) and len(cast(Sequence[Any], obj)) == 1:
        # as a row or as a column, the same single number
        return private_rows(tables.series_as_row(obj))
    if dim is not None and dim > 1 and tables.is_series(obj):
        return private_rows(tables.series_as_row(obj), columns=columns)
    if dim is not None and dim > 1 and tables.names_of_columns(columns) is None:
        row = _one_row(obj)
        if row is not None:
            if row.size != dim:
                raise InputError(
                    f"a one-dimensional public array is one row, with the {dim} columns of the private rows, "
                    f"but this one has length {row.size}: pass x.reshape(-1, 1) for rows of one number"
                )
            obj = row.reshape(1, -1) if isinstance(obj, np.ndarray) else [obj]
    return private_rows(obj, columns=columns)


def columns_of_source(data: Any, columns: Any) -> Any:
    """Return those of the columns of `data` that its source has; all of them if `columns` are all."""
    added = added_to(data)
    names = tables.names_of_columns(columns)
    if names is None or not added:
        return columns
    others = [name for name in names if name not in added]
    texts = columns.texts if isinstance(columns, tables.TextColumns) else {}
    return tables.TextColumns(others, texts)


def present_rows(rows: Rows) -> Rows:
    """Return the rows of public data that are not absent; raise InputError if there are none."""
    presence = rows.presence
    if presence is None:
        return rows
    every = np.concatenate(list(rows.chunks()))
    is_present = np.concatenate([~np.isnan(chunk[:, 0]) for chunk in presence.chunks()])
    if not is_present.any():
        about = rows.about
        raise InputError(f"no public row is inside {about}: pass public rows that are")
    return ArrayRows(every[is_present].astype(np.float64), rows.kind, rows.columns)


def _plain_copy(obj: object, dim: int | None, min_rows: int) -> FloatArray | None:
    """Fast path for small calls: a checked copy of a float64 matrix or row; None if the general path is needed."""
    if type(obj) is not np.ndarray or obj.dtype != _F64 or not obj.size:
        return None
    if obj.ndim == 1 and dim is not None and dim > 1:
        obj = obj.reshape(1, -1)
    if obj.ndim != 2 or (dim is not None and obj.shape[1] != dim) or obj.shape[0] < min_rows:
        return None
    matrix: FloatArray = np.array(obj, order="C")
    largest = float(np.maximum.reduce(np.abs(matrix), axis=None))  # NaN if any value is NaN
    return matrix if _SMALLEST <= largest <= _LARGEST or largest == 0.0 else None


def _one_row(obj: object) -> NDArray[Any] | None:
    """Return `obj` as a one-dimensional array, or None if it is not one-dimensional."""
    if isinstance(obj, np.ndarray) and not isinstance(obj, np.ma.MaskedArray):
        return np.ndarray.view(obj, np.ndarray) if obj.ndim == 1 else None
    if (
        isinstance(obj, list | tuple)
        and obj
        and all(np.isscalar(item) and not isinstance(item, str | bytes) for item in obj)
    ):
        return np.array(obj)
    return None


def _check_values(matrix: FloatArray, columns: tuple[str, ...] | None) -> None:
    finite = np.isfinite(matrix)
    if not finite.all():
        where = np.argwhere(~finite)
        more = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
        raise InputError(
            f"public rows must be finite: {_place(matrix, where[0], columns)}{more}. Drop those rows or fill them in"
        )
    size = np.abs(matrix)
    largest = float(size.max())
    if largest > _LARGEST:
        worst = np.array(np.unravel_index(int(size.argmax()), size.shape))
        raise InputError(
            f"public values must stay below {_LARGEST:g} in size: {_place(matrix, worst, columns)}. Change the unit"
        )
    longest = size.max(axis=0)
    tiny = np.flatnonzero((longest > 0.0) & (longest < _SMALLEST))
    if len(tiny):
        named = f"column {tiny[0]}" if columns is None else f"column {columns[tiny[0]]!r}"
        raise InputError(
            f"all public values of {named} are below {_SMALLEST:g} in size (the largest is {longest[tiny[0]]:g}). Change the unit"
        )


def _place(matrix: FloatArray, index: NDArray[Any], columns: tuple[str, ...] | None) -> str:
    row, column = (int(i) for i in index)
    name = f"column {column}" if columns is None else f"column {columns[column]!r}"
    return f"row {row}, {name} is {float(matrix[row, column])}"


def refuse_shared_memory(
    x_priv: object, x_pub: object, *, columns: Sequence[Any] | None = None
) -> None:
    """Raise InputError if public and private data are one object or file, or share memory; `columns` are those to be read."""
    # Contents are not compared, as that would read private rows. Only memory that NumPy can address is checked.
    x_priv, of_private = source_of(x_priv), columns_of_source(x_priv, columns)
    x_pub, of_public = source_of(x_pub), columns_of_source(x_pub, columns)
    if x_priv is x_pub:
        raise InputError(
            "x_priv and x_pub are the same object: rows are private or public, not both"
        )
    files = [_file_of(x) for x in (x_priv, x_pub)]
    if files[0] is not None and files[1] is not None and all(os.path.exists(str(f)) for f in files):
        if os.path.samefile(files[0], files[1]):
            raise InputError(
                "x_priv and x_pub are the same file: rows are private or public, not both"
            )
        return
    theirs = _memory(x_pub, of_public)
    if theirs and any(
        _shares(one, other) for one in _memory(x_priv, of_private) for other in theirs
    ):
        raise InputError(
            "x_priv and x_pub share memory: split the rows, and pass a copy of the public part"
        )


def _file_of(obj: object) -> str | bytes | None:
    """Return the path of a file, or of the file that rows are read from; None for anything else."""
    if isinstance(obj, CsvRows | NpyFileRows):
        return obj.path
    return os.fspath(obj) if isinstance(obj, str | os.PathLike) else None


def _memory(obj: object, columns: Sequence[Any] | None) -> list[NDArray[Any]]:
    """Return the arrays that hold the data of an object; an empty list where they cannot be determined."""
    if isinstance(obj, np.ndarray):
        return [np.ndarray.view(obj, np.ndarray)]
    if (
        obj is None
        or isinstance(obj, list | tuple)
        or kind_of(obj) not in ("frame", "series", "arrow", "array", "query")
    ):
        return []
    try:
        rows = private_rows(obj, columns=columns)
    except InputError:
        return []  # the reader that opens it afterwards reports the reason
    return rows.memory() if isinstance(rows, ArrayRows | tables.ColumnRows) else []


def _shares(one: NDArray[Any], other: NDArray[Any]) -> bool:
    try:
        return np.shares_memory(one, other, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    # unusual strides within one buffer: when in doubt, treat them as shared
    except np.exceptions.TooHardError:
        return np.may_share_memory(one, other)
