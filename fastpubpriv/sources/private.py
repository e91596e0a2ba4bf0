"""`private_rows`: anything that can be read, as Rows, with checks of form only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import PathLike, Rows
from fastpubpriv.sources.readers.array import ArrayRows, plain_list
from fastpubpriv.sources.readers.arrow import is_arrow
from fastpubpriv.sources.readers.columns import asked_columns
from fastpubpriv.sources.readers.dask import is_dask
from fastpubpriv.sources.readers.frame import is_frame, is_lazy, is_series
from fastpubpriv.sources.readers.restarted import is_directory
from fastpubpriv.sources.readers.texts import Coded, TextColumns, names_of_columns
from fastpubpriv.threads.guard import call_guarded
from fastpubpriv.validation import path_name

SUFFIXES = ".npy, .parquet, .arrow, .feather, .ipc, .csv, .csv.gz or .csv.bz2"


def private_rows(obj: object, *, columns: Sequence[Any] | None = None) -> Rows:
    """Rows of anything that can be read: an array, a table, a path, a list, or Rows.

    Parameters
    ----------
    obj : Rows, ndarray, memoryview, list, frame or series, Arrow table or dataset, Dask collection, path, list of paths
        One dimension (an array, a list of numbers, a Series) is rows of one number. A path is read by its suffix: .npy,
        .parquet, .arrow, .feather, .csv. A list of paths is a list of Parquet files, and a directory holds such files.
    columns : sequence of column names, optional
        Numeric columns to read, in this order, of a source that has names. The default is all columns.

    Returns
    -------
    Rows
        Nothing has been read yet but the form (of a CSV file, the number of lines).

    Raises
    ------
    InputError
        The form (type, dtype, shape, columns, file) cannot be used; the message says what to pass instead. Never for
        the values.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv.sources import private_rows
    >>> rows = private_rows(np.arange(6.0).reshape(3, 2))
    >>> rows.n, rows.dim, rows.kind
    (3, 2, 'array')
    """
    if type(obj) is np.ndarray and columns is None:  # first, because small calls come in thousands
        return ArrayRows.from_object(obj)
    return call_guarded(lambda: _opened(obj, columns))


def _opened(obj: object, columns: Sequence[Any] | None) -> Rows:
    if isinstance(obj, Rows):
        return _as_asked(obj, columns)
    if isinstance(obj, str | os.PathLike):
        return path_rows(obj, columns)
    if is_dask(obj):
        return Rows.from_dask(obj, columns)
    if is_frame(obj) or is_series(obj) or is_lazy(obj):
        return Rows.from_frame(obj, columns)
    if is_arrow(obj):
        return Rows.from_arrow(obj, columns)
    if isinstance(obj, list | tuple):
        obj = plain_list(obj)
    if isinstance(obj, list | tuple) and obj:
        if all(isinstance(item, str | os.PathLike) for item in obj):
            if all(_suffix(item) == ".parquet" for item in obj):
                return Rows.from_parquet(obj, columns)
            raise InputError("a list of text is no list of rows; as a list of paths, all must end in .parquet")
        if is_arrow(obj[0]):
            return Rows.from_arrow(obj, columns)
    return _as_asked(Rows.from_array(obj), columns)


def path_rows(path: PathLike, columns: Sequence[Any] | None) -> Rows:
    """Rows of a file, by its suffix."""
    suffix = ".parquet" if is_directory(path) else _suffix(path)
    if suffix == ".npy":
        return _as_asked(Rows.from_npy(path), columns)
    if suffix == ".parquet":
        return Rows.from_parquet(path, columns)
    if suffix in {".arrow", ".feather", ".ipc"}:
        return Rows.from_arrow(path, columns)
    if suffix == ".csv":
        return Rows.from_csv(path, columns)
    # The string may be private text passed by mistake, so it is not quoted.
    raise InputError(f"cannot tell from its name how to read this path: the suffix must be {SUFFIXES}")


def _suffix(path: PathLike) -> str:
    stem, suffix = os.path.splitext(path_name(path))
    if suffix.lower() in {".gz", ".bz2"}:
        suffix = os.path.splitext(stem)[1]
    return suffix.lower()


def _as_asked(rows: Rows, columns: Sequence[Any] | None) -> Rows:
    """The rows, if they have just the columns asked for."""
    asked = names_of_columns(columns)
    texts: Mapping[str, tuple[str, ...]] = columns.texts if isinstance(columns, TextColumns) else {}
    held = {str(name): name.levels for name in rows.columns or () if isinstance(name, Coded)}
    if any(held.get(name) != levels for name, levels in texts.items()):
        raise InputError(
            "text is read from frames, tables and files, and these rows hold numbers: pass the table or the path itself"
        )
    if asked is None or (rows.columns is not None and rows.columns == tuple(asked_columns(asked))):
        return rows
    if rows.columns is None:
        raise InputError(
            f"columns= chooses columns by name, and a source of kind {rows.kind!r} has no names: slice it instead"
        )
    raise InputError("these Rows were made with other columns: pass columns=[...] where they are made")
