"""Tells the constructors of `Rows` which reader or view makes which kind of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fastpubpriv.sources.base import OPENERS, PathLike, Rows
from fastpubpriv.sources.readers.array import ArrayRows
from fastpubpriv.sources.readers.arrow import ParquetRows, arrow_rows, is_dataset
from fastpubpriv.sources.readers.chunks import ChunkRows
from fastpubpriv.sources.readers.csv import CsvRows
from fastpubpriv.sources.readers.dask import DaskRows
from fastpubpriv.sources.readers.frame import frame_rows, is_lazy
from fastpubpriv.sources.readers.restarted import dataset_rows, directory_rows, lazy_rows, stream_rows
from fastpubpriv.sources.views.view import slice_rows
from fastpubpriv.validation import path_name


def _parquet(path: PathLike | Sequence[PathLike], columns: Sequence[str] | None, memory_map: bool) -> Rows:
    if isinstance(path, str | os.PathLike) and os.path.isdir(path_name(path)):
        return directory_rows(path, columns)
    return ParquetRows.from_paths(path, columns, memory_map)


def _arrow(source: Any, columns: Sequence[str] | None, memory_map: bool) -> Rows:
    if is_dataset(source):
        return dataset_rows(source, columns)
    return stream_rows(source, columns) if callable(source) else arrow_rows(source, columns, memory_map)


def _frame(frame: Any, columns: Sequence[Any] | None) -> Rows:
    return lazy_rows(frame, columns) if is_lazy(frame) else frame_rows(frame, columns)


OPENERS.update(
    array=ArrayRows.from_object,
    npy=ArrayRows.from_file,
    parquet=_parquet,
    arrow=_arrow,
    frame=_frame,
    csv=CsvRows.from_path,
    dask=DaskRows.from_collection,
    chunks=ChunkRows,
    slice=slice_rows,
)
