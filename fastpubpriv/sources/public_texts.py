"""The texts that public rows have: of a column of a frame, table or file, or of labels by themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from fastpubpriv.sources.readers.arrow import is_arrow, load_pyarrow
from fastpubpriv.sources.readers.csv import public_table
from fastpubpriv.sources.readers.frame import is_frame, is_lazy, is_series
from fastpubpriv.sources.readers.texts import plain_text
from fastpubpriv.threads.guard import call_guarded


def texts_of_column(x_pub: object, name: str) -> tuple[str, ...] | None:
    """The texts in a column of a public frame, table or file, in order; None where there are none, or no such column."""
    cells = call_guarded(lambda: _cells(x_pub, name))
    return None if cells is None else _listed(cells)


def texts_of_labels(y_pub: object) -> tuple[str, ...] | None:
    """The texts among public labels (m,), in alphabetical order; None where there are none."""
    return call_guarded(lambda: _listed(label_cells(y_pub)))


def label_cells(labels: Any) -> Iterable[Any]:
    """Labels that are an array, list or series, one by one; nothing of another form."""
    if is_series(labels) or is_frame(labels):
        labels = labels.to_numpy()
    if isinstance(labels, np.ndarray):
        return labels.ravel().tolist() if labels.dtype.kind in "OUT" else ()
    return labels if isinstance(labels, list | tuple) else ()


def _listed(cells: Iterable[Any]) -> tuple[str, ...] | None:
    found = {plain_text(cell) for cell in cells if isinstance(cell, str)} - {""}
    return tuple(sorted(found)) or None


def _cells(x_pub: Any, name: str) -> Iterable[Any] | None:
    """The cells of a column of text; None where it is of another type, or not to be found."""
    if isinstance(x_pub, str | os.PathLike):
        x_pub = _file(os.fspath(x_pub), name)
    if is_lazy(x_pub):
        x_pub = x_pub.select(name).collect()
    if hasattr(x_pub, "dask") and hasattr(x_pub, "columns"):
        x_pub = x_pub[[name]].compute()
    if is_frame(x_pub) and name in x_pub.columns:
        column = x_pub[name]
        return column.to_list() if hasattr(column, "to_list") else column.tolist()  # type: ignore[no-any-return]
    if is_arrow(x_pub) and name in x_pub.schema.names and hasattr(x_pub, "column"):
        return x_pub.column(name).to_pylist()  # type: ignore[no-any-return]
    return None


def _file(path: Any, name: str) -> Any:
    """A public file as a table, at least the one column."""
    lower = str(path).lower()
    if lower.endswith((".csv", ".csv.gz", ".csv.bz2")):
        return public_table(path)
    load_pyarrow()
    if lower.endswith(".parquet") or os.path.isdir(path):
        import pyarrow.dataset

        dataset = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive")
        return dataset.to_table(columns=[name]) if name in dataset.schema.names else None
    if lower.endswith((".arrow", ".feather", ".ipc")):
        import pyarrow.ipc

        with open(path, "rb") as file:
            opener = pyarrow.ipc.open_file if file.read(6) == b"ARROW1" else pyarrow.ipc.open_stream
        return opener(pyarrow.memory_map(str(path))).read_all()
    return None
