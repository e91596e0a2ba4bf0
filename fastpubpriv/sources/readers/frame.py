"""Rows of pandas and polars frames. Neither library is imported here: whoever has a frame has already imported its library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Rows
from fastpubpriv.sources.readers.columns import ColumnReader, ColumnRows, choose, require_numeric
from fastpubpriv.sources.readers.texts import Coded, places, refuse_numbers
from fastpubpriv.threads.guard import call_guarded

_F64 = np.dtype(np.float64)
_F32 = np.dtype(np.float32)


def is_frame(obj: object) -> bool:
    """True for a pandas or polars DataFrame."""
    return _is(obj, "pandas", "DataFrame") or _is(obj, "polars", "DataFrame")


def is_series(obj: object) -> bool:
    """True for a pandas or polars Series."""
    return _is(obj, "pandas", "Series") or _is(obj, "polars", "Series")


def series_as_column(series: Any) -> Any:
    """A Series as a frame of one column of the same name; without a name it is called 0, as in a frame made of an array."""
    if _is(series, "polars", "Series") and not series.name:
        series = series.alias("0")
    return series.to_frame()


def series_as_row(series: Any) -> Any:
    """A Series as one row; the index of a pandas Series names the columns if there are several."""
    if len(series) == 1 or _is(series, "polars", "Series"):
        return np.ndarray.view(series.to_numpy(), np.ndarray).reshape(1, -1)
    return series.to_frame().T.infer_objects()


def is_lazy(obj: object) -> bool:
    """True for a polars LazyFrame."""
    return _is(obj, "polars", "LazyFrame")


def frame_rows(frame: object, columns: Sequence[Any] | None) -> Rows:
    """Rows of a pandas or polars DataFrame, or of a Series: rows of one number."""
    if is_series(frame):
        frame = series_as_column(frame)
    if _is(frame, "pandas", "DataFrame"):
        return _pandas_rows(frame, columns)
    if _is(frame, "polars", "DataFrame"):
        return polars_frame_rows(frame, columns)
    raise InputError(f"expected a pandas or polars DataFrame, got {type(frame).__name__}")


def _is(obj: object, module: str, name: str) -> bool:
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(obj, cls)


def _pandas_rows(frame: Any, columns: Sequence[Any] | None) -> Rows:
    what = "the data frame"
    labels = choose(list(frame.columns), columns, what)
    dtypes = {label: frame[label].dtype for label in labels}
    refused = [(k, _kind(d)) for k, d in dtypes.items() if not isinstance(k, Coded) and not _pandas_numeric(d)]
    require_numeric(refused, what, columns)
    readers: list[ColumnReader] = []
    held: list[NDArray[Any]] = []
    for label in labels:
        series = frame[label]
        if isinstance(label, Coded):
            readers.append(_pandas_texts(series, label, what))
        elif isinstance(series.dtype, np.dtype):
            values = np.ndarray.view(series.to_numpy(), np.ndarray)
            readers.append(_array_reader(values))
            held.append(values)
        elif hasattr(series.dtype, "pyarrow_dtype"):
            from fastpubpriv.sources.readers.arrow import column_memory, column_reader

            column = call_guarded(lambda series=series: series.array.__arrow_array__())
            readers.append(column_reader(column))
            held.extend(column_memory(column))
        else:
            readers.append(_masked_reader(series.array))
            if hasattr(series.array, "_data"):
                held.append(series.array._data)
    dtype = _F32 if all(d == _F32 and not isinstance(k, Coded) for k, d in dtypes.items()) else _F64
    return ColumnRows(len(frame), "frame", labels, readers, dtype, held)


def _kind(dtype: object) -> str:
    """The type of a column, without its parameters: they may hold a value (the fill value of a sparse column)."""
    return str(dtype).split("[")[0].split("(")[0][:40]


def _pandas_numeric(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biu" or (dtype.kind == "f" and dtype.char != "g")
    arrow_type = getattr(dtype, "pyarrow_dtype", None)
    if arrow_type is not None:
        from fastpubpriv.sources.readers.arrow import float_dtype

        return float_dtype(arrow_type) is not None
    # Nullable Int64, Float64, boolean and the like. A sparse column has a `subtype`, a category has `categories`.
    return getattr(dtype, "numpy_dtype", np.dtype(object)).kind in "biuf" and not hasattr(dtype, "subtype")


def _pandas_texts(series: Any, label: Coded, what: str) -> ColumnReader:
    dtype = series.dtype
    if hasattr(dtype, "pyarrow_dtype"):
        from fastpubpriv.sources.readers.arrow import column_reader

        return column_reader(call_guarded(lambda: series.array.__arrow_array__()), label, what)
    if _pandas_numeric(dtype) or (isinstance(dtype, np.dtype) and dtype.kind != "O") or hasattr(dtype, "subtype"):
        refuse_numbers(label, _kind(dtype), what)
    found = places(label.levels)
    if hasattr(dtype, "categories"):
        # A category has one place, whatever rows it is in; the code of a missing cell is -1.
        table = np.append(found(list(dtype.categories)), np.nan)
        codes = np.asarray(series.cat.codes)
        return lambda begin, end: table[codes[begin:end]]
    array = series.array
    return lambda begin, end: found(np.asarray(array[begin:end], dtype=object))


def _array_reader(values: NDArray[Any]) -> ColumnReader:
    return lambda begin, end: values[begin:end]


def _masked_reader(array: Any) -> ColumnReader:
    return lambda begin, end: array[begin:end].to_numpy(dtype=np.float64, na_value=np.nan)


def polars_frame_rows(frame: Any, columns: Sequence[Any] | None) -> Rows:
    """Rows of a polars DataFrame."""
    polars = sys.modules["polars"]
    what = "the data frame"
    labels = choose(list(frame.columns), columns, what)
    series = [frame.get_column(label) for label in labels]
    refused = [
        (s.name, _polars_kind(s.dtype))
        for s, label in zip(series, labels, strict=True)
        if not (isinstance(label, Coded) or s.dtype.is_numeric() or s.dtype == polars.Boolean)
    ]
    require_numeric(refused, what, columns)
    dtype = _F32 if all(s.dtype == polars.Float32 for s in series) else _F64
    target = polars.Float32 if dtype == _F32 else polars.Float64
    readers = [
        _polars_texts(s, label, what) if isinstance(label, Coded) else _polars_reader(s, target)
        for s, label in zip(series, labels, strict=True)
    ]
    held = [
        view
        for s, label in zip(series, labels, strict=True)
        if not isinstance(label, Coded) and (view := _polars_view(s)) is not None
    ]
    return ColumnRows(frame.height, "frame", labels, readers, dtype, held)


def _polars_kind(dtype: Any) -> str:
    # An Enum prints its categories; the class name says enough.
    return str(getattr(dtype, "base_type", lambda: dtype)())


def _polars_reader(series: Any, target: Any) -> ColumnReader:
    return lambda begin, end: series.slice(begin, end - begin).cast(target).to_numpy()


def _polars_texts(series: Any, label: Coded, what: str) -> ColumnReader:
    polars = sys.modules["polars"]
    kinds = [getattr(polars, name, None) for name in ("String", "Utf8", "Categorical", "Enum", "Object")]
    if not any(kind is not None and series.dtype == kind for kind in kinds):
        refuse_numbers(label, _polars_kind(series.dtype), what)
    found = places(label.levels)
    return lambda begin, end: found(series.slice(begin, end - begin).to_list())


def _polars_view(series: Any) -> NDArray[Any] | None:
    """The memory of a column without nulls; None where polars would have to copy."""
    try:
        view: NDArray[Any] = series.to_numpy(allow_copy=False)
    except Exception:
        return None
    return view
