"""Rows that are read afresh in each pass: Arrow datasets, directories of Parquet files, Arrow streams, lazy frames."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, PathLike, Rows
from fastpubpriv.sources.readers.array import check_count
from fastpubpriv.sources.readers.arrow import batch_rows, checked_schema, float_dtype, load_pyarrow
from fastpubpriv.sources.readers.columns import choose
from fastpubpriv.sources.readers.frame import polars_frame_rows
from fastpubpriv.sources.readers.plans import check_polars
from fastpubpriv.sources.readers.texts import name_of
from fastpubpriv.threads.guard import call_foreign, call_guarded, iterate_foreign
from fastpubpriv.validation import path_name

# From the first row that is wanted, and the most rows of a chunk: a row at or before it, and chunks from there on.
Open = Callable[[int, int], tuple[int, Iterator[Chunk]]]

_HINT = "the source must give the same rows in each pass"
_READ_AHEAD = 2  # batches that Arrow decodes in threads of its own while the ones before them are used


class RestartedRows(Rows):
    """Rows from `open`, which starts a pass."""

    __slots__ = ("_open",)

    def __init__(self, n: int, kind: str, labels: Sequence[Any], open_at: Open) -> None:
        super().__init__(n, len(labels), kind, tuple(name_of(label) for label in labels))
        self._open = open_at

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        position, chunks = self._open(begin, chunk_rows)
        return check_count(self._cut(position, chunks, begin, end, chunk_rows), end - begin, _HINT)

    def _cut(self, position: int, chunks: Iterator[Chunk], begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        stop = end if end < self.n else None  # a pass to the last row reads on, to notice an extra one
        for chunk in chunks:
            high = len(chunk) if stop is None else min(stop - position, len(chunk))
            for start in range(max(begin - position, 0), high, chunk_rows):
                yield chunk[start : min(start + chunk_rows, high)]
            position += len(chunk)
            if stop is not None and position >= stop:
                return


def directory_rows(path: PathLike, columns: Sequence[str] | None) -> Rows:
    """Rows of the Parquet files under a directory, in the order of their names; keys of "key=value" folders are columns too."""
    load_pyarrow()
    import pyarrow.dataset

    name = path_name(path)
    files = _parquet_files(name)
    if not files:
        raise InputError(f"{name!r} is a directory without .parquet files")
    options = {"format": "parquet", "partitioning": "hive", "partition_base_dir": name}
    message = f"{name!r} cannot be read as a directory of Parquet files"
    found = call_guarded(lambda: pyarrow.dataset.dataset(files, **options), message)
    return dataset_rows(found, columns, what=repr(name), kind="parquet")


def _parquet_files(name: str) -> list[str]:
    """Files below a directory, in the order of their names; those that begin with a dot or an underscore are notes of a writer."""
    found = []
    for folder, folders, files in os.walk(name):
        folders[:] = [sub for sub in folders if not sub.startswith((".", "_"))]
        found += [
            os.path.join(folder, file)
            for file in files
            if file.lower().endswith(".parquet") and not file.startswith((".", "_"))
        ]
    return sorted(found)


def dataset_rows(
    dataset: Any, columns: Sequence[str] | None, *, what: str = "the Arrow dataset", kind: str = "arrow"
) -> Rows:
    """Rows of an Arrow dataset, file after file."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:
        fragments = []
    if not fragments:
        # As many rows as a filter lets through is a number that depends on private content.
        raise InputError(
            f"{what} has no files, or is filtered: pass one without a filter, which has a public number of rows"
        )
    import pyarrow.dataset

    guessing = pyarrow.dataset.CsvFileFormat, getattr(pyarrow.dataset, "JsonFileFormat", pyarrow.dataset.CsvFileFormat)
    if any(isinstance(getattr(fragment, "format", None), guessing) for fragment in fragments):
        raise InputError(
            f"{what} is of text, whose types Arrow guesses from values: pass Parquet or Arrow files, or Rows.from_csv"
        )
    labels, _ = checked_schema(dataset.schema, columns, what)
    schemas = [_schema_of(fragment, dataset.schema, labels, what) for fragment in fragments]
    single = all(float_dtype(field.type) == np.float32 for schema in schemas for field in schema)
    dtype = np.dtype(np.float32 if single else np.float64)
    counts = [call_guarded(fragment.count_rows, f"{what} cannot be read") for fragment in fragments]
    starts = [0, *itertools.accumulate(counts)]

    def chunks(first: int, chunk_rows: int) -> Iterator[Chunk]:
        for fragment, schema in zip(fragments[first:], schemas[first:], strict=True):
            options = {"batch_readahead": _READ_AHEAD, "fragment_readahead": 1}
            for batch in fragment.to_batches(schema=schema, columns=labels, batch_size=chunk_rows, **options):
                if batch.num_rows:
                    yield batch_rows(batch, labels, 0, batch.num_rows, dtype)

    def open_at(begin: int, chunk_rows: int) -> tuple[int, Iterator[Chunk]]:
        first = max(k for k, start in enumerate(starts[:-1]) if start <= begin)
        return starts[first], chunks(first, chunk_rows)

    return RestartedRows(sum(counts), kind, labels, open_at)


def _schema_of(fragment: Any, schema: Any, labels: Sequence[str], what: str) -> Any:
    """The types in which a file holds the columns: to cast them to those of the first file may fail, for some values only."""
    pa = load_pyarrow()
    import pyarrow.dataset

    own = call_guarded(lambda: fragment.physical_schema, f"{what} cannot be read")
    keys = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
    missing = [label for label in labels if label not in own.names and label not in keys]
    if missing:
        raise InputError(f"a file of {what} has no column {missing[0]!r}: pass columns=[...] that all files have")
    found = pa.schema([schema.field(label) if label in keys else own.field(label) for label in labels])
    checked_schema(found, labels, what)
    return found


def stream_rows(factory: Callable[[], Any], columns: Sequence[str] | None) -> Rows:
    """Rows of the Arrow stream that `factory` opens for each pass. They are counted now, in a pass of their own."""
    pa = load_pyarrow()
    what = "the Arrow stream"

    def reader() -> Any:
        found = call_foreign(factory)
        if not isinstance(found, pa.RecordBatchReader):
            raise InputError("a function that opens an Arrow stream must return a pyarrow.RecordBatchReader each time")
        return found

    first = reader()
    labels, dtype = checked_schema(first.schema, columns, what)
    n = sum(batch.num_rows for batch in iterate_foreign(iter(first)))

    def open_at(begin: int, chunk_rows: int) -> tuple[int, Iterator[Chunk]]:
        del begin, chunk_rows
        batches = iterate_foreign(iter(reader()))
        return 0, (batch_rows(batch, labels, 0, batch.num_rows, dtype) for batch in batches if batch.num_rows)

    return RestartedRows(n, "arrow", labels, open_at)


def lazy_rows(frame: Any, columns: Sequence[Any] | None) -> Rows:
    """Rows of a polars LazyFrame, whose plan runs afresh in each pass, batch by batch. They are counted now."""
    import polars

    if not hasattr(frame, "collect_batches"):
        raise InputError(
            "this version of polars cannot read a LazyFrame in batches: update it, or pass frame.collect()"
        )
    what = "the lazy frame"
    check_polars(frame)
    schema = call_foreign(frame.collect_schema)
    labels = choose(schema.names(), columns, what)
    chosen = frame.select(labels)
    empty = polars.DataFrame(schema={label: schema[label] for label in labels})
    like = polars_frame_rows(empty.clear(1), None if columns is None else labels)
    dtype = like.block(0, 1).dtype
    n = int(call_foreign(lambda: chosen.select(polars.len()).collect(engine="streaming").item()))

    def chunks(chunk_rows: int) -> Iterator[Chunk]:
        for part in chosen.collect_batches(chunk_size=chunk_rows, maintain_order=True, engine="streaming"):
            if part.height:
                yield polars_frame_rows(part, labels).block(0, part.height).astype(dtype, copy=False)

    return RestartedRows(n, "frame", labels, lambda begin, chunk_rows: (0, iterate_foreign(chunks(chunk_rows))))


def is_directory(path: object) -> bool:
    """True for the path of a directory."""
    return isinstance(path, str | os.PathLike) and os.path.isdir(path_name(path))
