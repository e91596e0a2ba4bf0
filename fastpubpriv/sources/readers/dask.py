"""Rows of Dask arrays and data frames: chunks stay on the workers, where passes run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.readers.array import ArrayRows
from fastpubpriv.sources.readers.columns import choose
from fastpubpriv.sources.readers.dask_graph import DaskCluster, Tasks
from fastpubpriv.sources.readers.frame import frame_rows
from fastpubpriv.sources.readers.plans import check_dask
from fastpubpriv.sources.readers.texts import TextColumns, name_of, names_of_columns
from fastpubpriv.sources.remote import Form
from fastpubpriv.threads.guard import call_foreign

_UNREADABLE = "the Dask collection cannot be read: build it again, with a meta of NumPy or pandas"


def is_dask(obj: object) -> bool:
    """True for a Dask array, data frame or series."""
    return _is_array(obj) or _is_frame(obj)


def _is_array(obj: object) -> bool:
    cls = getattr(sys.modules.get("dask.array"), "Array", None)
    return cls is not None and isinstance(obj, cls)


def _is_frame(obj: object) -> bool:
    module = sys.modules.get("dask.dataframe")
    kinds = tuple(kind for kind in (getattr(module, name, None) for name in ("DataFrame", "Series")) if kind)
    return bool(kinds) and isinstance(obj, kinds)


class DaskRows(Rows):
    """Rows of the chunks of a Dask collection. Passes go to its workers; read here, the chunks come one after another."""

    __slots__ = ("_dask", "cluster", "counts", "form", "tasks")

    def __init__(self, form: Form, tasks: Tasks, counts: Sequence[int], cluster: DaskCluster) -> None:
        names = None if form.labels is None else tuple(name_of(label) for label in form.labels)
        super().__init__(form.n, form.dim, "dask", names)
        self.form = form
        self.tasks = tasks
        self.counts = tuple(counts)
        self.cluster = self._dask = cluster

    @classmethod
    def from_collection(cls, collection: object, columns: Sequence[Any] | None, client: object) -> DaskRows:
        """Check the form; where the collection does not know its lengths, count the rows of its chunks."""
        if not is_dask(collection):
            raise InputError(f"expected a Dask array, data frame or series, got {type(collection).__name__}")
        if client is not None and not callable(getattr(client, "get", None)):
            raise InputError(f"client must be a distributed.Client, got {type(client).__name__}")
        cluster = DaskCluster(client)
        if _is_array(collection):
            if names_of_columns(columns) is not None or (isinstance(columns, TextColumns) and columns.texts):
                raise InputError("columns= chooses columns by name, and a Dask array has no names: slice it instead")
            return _of_array(cls, collection, cluster)
        return _of_frame(cls, collection, columns, cluster)

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        first = 0
        for number, count in enumerate(self.counts):
            low, high = max(begin - first, 0), min(end - first, count)
            first += count
            if low < high:
                held = ArrayRows(self._dask.fetch(self, number, low, high), "dask")
                for at in range(0, held.n, chunk_rows):
                    yield held.block(at, min(at + chunk_rows, held.n))


def _of_array(cls: type[DaskRows], array: Any, cluster: DaskCluster) -> DaskRows:
    if array.ndim not in (1, 2):
        raise InputError(
            f"rows must be two-dimensional (n, dim), got {array.ndim} dimension(s): reshape the Dask array"
        )
    if not isinstance(array._meta, np.ndarray):
        raise InputError(
            f"the chunks of the Dask array must be NumPy arrays, and are of type {type(array._meta).__name__}: "
            "pass x.map_blocks(numpy.asarray) or the like"
        )
    if isinstance(array._meta, np.ma.MaskedArray):
        raise InputError("the chunks of the Dask array are masked: pass dask.array.ma.filled(x, numpy.nan)")
    dim = 1 if array.ndim == 1 else array.shape[1]
    if np.isnan(array.chunks[0]).any():
        raise InputError(
            "the number of rows of the Dask array is not known, as after a filter, where it depends on what the rows hold: pass "
            "the array before the filter, or call x.compute_chunk_sizes() if that number may be public"
        )
    if np.isnan(dim):
        raise InputError("the number of columns of the Dask array is not known: call x.compute_chunk_sizes() first")
    if dim < 1:
        raise InputError("the data has no columns (dim = 0): at least one column is needed")
    if array.ndim == 2 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    like = ArrayRows.from_object(np.zeros((1, int(dim)), dtype=array.dtype))  # refuses what holds no numbers
    tasks = Tasks.of(call_foreign(lambda: dict(array.__dask_graph__()), _UNREADABLE), array.__dask_keys__())
    counts = [int(length) for length in array.chunks[0]]
    return cls(Form(sum(counts), int(dim), like.block(0, 1).dtype.name), tasks, counts, cluster)


def _of_frame(cls: type[DaskRows], frame: Any, columns: Sequence[Any] | None, cluster: DaskCluster) -> DaskRows:
    if not hasattr(frame, "columns") or frame.ndim == 1:
        frame = frame.to_frame(0 if frame.name is None else frame.name)
    check_dask(frame)
    labels = choose(list(frame.columns), columns, "the Dask data frame")
    like = frame_rows(call_foreign(lambda: frame[labels]._meta_nonempty, _UNREADABLE), columns and labels)
    frame = call_foreign(lambda: frame[labels].optimize(), _UNREADABLE)
    tasks = Tasks.of(call_foreign(lambda: dict(frame.__dask_graph__()), _UNREADABLE), frame.__dask_keys__())
    counts = cluster.count(tasks)
    form = Form(sum(counts), len(labels), like.block(0, 1).dtype.name, tuple(labels))
    return cls(form, tasks, counts, cluster)
