"""`public_rows`: the same readers for public data, then checks of every value, whose errors may quote values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray
from fastpubpriv.columns import column_order
from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Rows
from fastpubpriv.sources.private import private_rows
from fastpubpriv.sources.readers.array import ArrayRows
from fastpubpriv.sources.readers.arrow import arrow_rows
from fastpubpriv.sources.readers.columns import ColumnRows
from fastpubpriv.sources.readers.csv import public_table
from fastpubpriv.sources.readers.dask import is_dask
from fastpubpriv.sources.readers.frame import is_lazy, is_series, series_as_row
from fastpubpriv.sources.readers.texts import TextColumns, names_of_columns
from fastpubpriv.threads.guard import call_guarded, name_argument

# Beyond these a square overflows or underflows, and a radius computed from the rows would be inf or 0.
_LARGEST = 1e150
_SMALLEST = 1e-150
_OVERLAP_WORK = 10_000
_F64 = np.dtype(np.float64)


def public_rows(
    obj: object,
    *,
    columns: Sequence[Any] | None = None,
    dim: int | None = None,
    min_rows: int = 1,
    names: Sequence[str] | None = None,
    show: bool = True,
    argument: str = "x_pub",
) -> FloatArray:
    """Public rows as one checked array.

    Parameters
    ----------
    obj : anything that `private_rows` takes, or one row
        One dimension (an array, a list, a Series) of length `dim` is one public row where `dim` is above 1, and rows of one
        number otherwise. The index of a pandas Series names the columns of its row.
    columns : sequence of column names, optional
        Numeric columns to read, in this order. The types of a public CSV file are inferred from its content.
    dim : int, optional
        Number of columns that the rows must have: that of the private rows.
    min_rows : int
        Fewest rows that will do.
    names : sequence of str, optional
        Names of the columns of the private rows, in their order. A source whose columns have names is brought into this order;
        another source is taken as it is.
    show : bool
        Whether a message may quote those of the `names` that the public source does not have.
    argument : str
        What the caller calls these rows, for messages.

    Returns
    -------
    ndarray, (m, dim), float64, C-contiguous
        A copy.

    Raises
    ------
    InputError
        The form cannot be used, there are fewer than `min_rows` rows, the number of columns is not `dim`, their names are not
        `names`, or a value is not finite or out of scale: above 1e150 in size, or all below 1e-150 and not all zero. Quotes the
        value and its place.

    Examples
    --------
    >>> from fastpubpriv.sources import public_rows
    >>> public_rows([1.0, 2.0], dim=2)  # one row of two columns
    array([[1., 2.]])
    """
    found, _ = public_table_of(
        obj, columns=columns, dim=dim, min_rows=min_rows, names=names, show=show, argument=argument
    )
    return found


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
    """`public_rows`, and the names of the columns if they have any; with finite=False, a cell may be missing (NaN)."""
    plain = _plain_copy(obj, dim, min_rows) if columns is None and names is None and finite else None
    if plain is not None:
        return plain, None
    rows = name_argument(argument, lambda: call_guarded(lambda: open_public(obj, columns, dim)))
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
    found = rows.columns
    if order is not None:
        matrix = np.ascontiguousarray(matrix[:, order])
        found = found and tuple(found[place] for place in order)
    return matrix, found


def open_public(obj: object, columns: Any, dim: int | None = None) -> Rows:
    """Public rows that are not checked yet; the types of a CSV file are inferred from its content."""
    if isinstance(obj, str | os.PathLike) and os.fspath(obj).lower().endswith((".csv", ".csv.gz", ".csv.bz2")):
        texts = columns.texts if isinstance(columns, TextColumns) else ()
        return arrow_rows(public_table(obj, texts), columns, what=repr(os.fspath(obj)))
    if dim == 1 and is_series(obj) and len(cast(Sequence[Any], obj)) == 1:
        return private_rows(series_as_row(obj))  # a row of a frame, or one value of a column: the same number
    if dim is not None and dim > 1 and is_series(obj):
        return private_rows(series_as_row(obj), columns=columns)
    if dim is not None and dim > 1 and names_of_columns(columns) is None:
        row = _one_row(obj)
        if row is not None:
            if row.size != dim:
                raise InputError(
                    f"a one-dimensional public array is one row, with the {dim} columns of the private rows, "
                    f"but this one has length {row.size}: pass x.reshape(-1, 1) for rows of one number"
                )
            obj = row.reshape(1, -1) if isinstance(obj, np.ndarray) else [obj]
    return private_rows(obj, columns=columns)


def _plain_copy(obj: object, dim: int | None, min_rows: int) -> FloatArray | None:
    """The short way for small calls: a checked copy of a plain float64 matrix, or row, of the form that is asked for.

    None for everything else, and where something is wrong: the long way says what.
    """
    if type(obj) is not np.ndarray or obj.dtype != _F64 or not obj.size:
        return None
    if obj.ndim == 1 and dim is not None and dim > 1:
        obj = obj.reshape(1, -1)
    if obj.ndim != 2 or (dim is not None and obj.shape[1] != dim) or obj.shape[0] < min_rows:
        return None
    matrix: FloatArray = np.array(obj, order="C")
    largest = float(np.maximum.reduce(np.abs(matrix), axis=None))  # NaN if one of them is
    return matrix if _SMALLEST <= largest <= _LARGEST or largest == 0.0 else None


def _one_row(obj: object) -> NDArray[Any] | None:
    """`obj` as a one-dimensional array, or None if it is not one-dimensional."""
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
    if 0.0 < largest < _SMALLEST:
        raise InputError(
            f"all public values are below {_SMALLEST:g} in size (the largest is {largest:g}). Change the unit"
        )


def _place(matrix: FloatArray, index: NDArray[Any], columns: tuple[str, ...] | None) -> str:
    row, column = (int(i) for i in index)
    name = f"column {column}" if columns is None else f"column {columns[column]!r}"
    return f"row {row}, {name} is {float(matrix[row, column])}"


def refuse_shared_memory(x_priv: object, x_pub: object, *, columns: Sequence[Any] | None = None) -> None:
    """Refuse public data that is the private data.

    Parameters
    ----------
    x_priv, x_pub : the two data arguments, as the caller gave them
        The same object, the same file, or arrays, frames and tables over the same memory are refused. Contents are not
        compared: that would read private rows. Only memory that NumPy can address is checked (a polars column with nulls
        is not).
    columns : sequence of column names, optional
        The columns that will be read, as for `private_rows`.

    Raises
    ------
    InputError
        They share memory, or a file.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.zeros((10, 2))
    >>> try:
    ...     fpp.sources.refuse_shared_memory(rows, rows[:2])
    ... except fpp.InputError:
    ...     print("public rows are a part of the private ones")
    public rows are a part of the private ones
    """
    if x_priv is x_pub:
        raise InputError("x_priv and x_pub are the same object: rows are private or public, not both")
    if type(x_priv) is np.ndarray and type(x_pub) is np.ndarray:
        _refuse_shared([x_priv], [x_pub])
        return
    files = [os.fspath(x) if isinstance(x, str | os.PathLike) else None for x in (x_priv, x_pub)]
    if files[0] is not None and files[1] is not None and all(os.path.exists(str(f)) for f in files):
        if os.path.samefile(files[0], files[1]):
            raise InputError("x_priv and x_pub are the same file: rows are private or public, not both")
        return
    theirs = _memory(x_pub, columns)
    if theirs:
        _refuse_shared(_memory(x_priv, columns), theirs)


def _refuse_shared(ours: list[NDArray[Any]], theirs: list[NDArray[Any]]) -> None:
    for one in ours:
        for other in theirs:
            if _shares(one, other):
                raise InputError("x_priv and x_pub share memory: split the rows, and pass a copy of the public part")


def _memory(obj: object, columns: Sequence[Any] | None) -> list[NDArray[Any]]:
    """The arrays behind an object; none where that cannot be known."""
    if isinstance(obj, np.ndarray):
        return [np.ndarray.view(obj, np.ndarray)]
    if obj is None or is_dask(obj) or is_lazy(obj) or isinstance(obj, str | os.PathLike | list | tuple):
        return []
    try:
        rows = private_rows(obj, columns=columns)
    except InputError:
        return []  # the reader that opens it next says what is wrong with it
    return rows.memory() if isinstance(rows, ArrayRows | ColumnRows) else []


def _shares(one: NDArray[Any], other: NDArray[Any]) -> bool:
    try:
        return np.shares_memory(one, other, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:  # unusual strides within one buffer: when in doubt, treat them as shared
        return np.may_share_memory(one, other)
