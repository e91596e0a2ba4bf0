"""Tells the constructors of `Rows` which reader or view makes which kind of rows."""

from fastpubpriv.sources.base import OPENERS
from fastpubpriv.sources.readers.array import ArrayRows
from fastpubpriv.sources.readers.arrow import ParquetRows, arrow_rows
from fastpubpriv.sources.readers.chunks import ChunkRows
from fastpubpriv.sources.readers.csv import CsvRows
from fastpubpriv.sources.readers.dask import DaskRows
from fastpubpriv.sources.readers.frame import frame_rows
from fastpubpriv.sources.views.slices import slice_rows

OPENERS.update(
    array=ArrayRows.from_object,
    npy=ArrayRows.from_file,
    parquet=ParquetRows.from_paths,
    arrow=arrow_rows,
    frame=frame_rows,
    csv=CsvRows.from_path,
    dask=DaskRows.from_collection,
    chunks=ChunkRows,
    slice=slice_rows,
)
