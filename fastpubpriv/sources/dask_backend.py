"""Rows of Dask arrays and data frames, and the task graph of a pass over them.

Each chunk of rows is one task, which runs on the worker that holds the chunk. A tree of tasks merges the results, and only its
root is sent to this process. The key of a task (kind of work, random number of the pass, index) does not depend on data.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.sources import remote
from fastpubpriv.sources.array_plans import check_array, nodes_of
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.lazy_modules import (
    dask_base,
    dask_callbacks,
    dask_core,
    dask_optimization,
    dask_threaded,
    distributed,
    spec,
)
from fastpubpriv.sources.remote import ChunkPosition, Failed, Form, Part, Pass
from fastpubpriv.sources.rescanned import check_dask
from fastpubpriv.sources.row_types import Chunk, Rows
from fastpubpriv.sources.tables import (
    TextColumns,
    choose,
    frame_rows,
    is_instance,
    name_of,
    names_of_columns,
)
from fastpubpriv.threads.guard import call_foreign

FAN_IN = 8  # partial results that one task merges: 4,096 chunks need a tree of four levels
LOST = (
    "the cluster did not finish a pass over the rows: too many workers were lost, or the connection was. "
    "The budget of this call is spent; the rows and the ledger are as they were"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Guarded:
    """A task that computes a chunk. An exception, which Dask would log and transmit, becomes a `Failed`."""

    node: Any
    names: tuple[Any, ...]

    def __call__(self, *values: Any) -> Any:
        """Return the value of the task, given the values of its dependencies."""
        return remote.first_failure(values) or remote.withheld(
            partial(self.node, dict(zip(self.names, values, strict=True))), foreign=True
        )


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """The task graph of a collection, and the keys of the tasks whose values are its chunks, in order."""

    graph: dict[Any, Any]
    chunks: tuple[Any, ...]

    @classmethod
    def of(cls, graph: dict[Any, Any], keys: Any) -> Tasks:
        """Wrap every task in `Guarded` under a new key: a scheduler may know an unguarded task under the old one."""
        name = _fresh("chunk")
        nodes = nodes_of(graph)
        if any(isinstance(node, spec.Task) and node.is_coro for node in nodes.values()):
            raise InputError(
                "a task of the Dask collection is a coroutine, whose errors Dask logs: build it from plain functions"
            )
        guarded = {key: node for key, node in nodes.items() if isinstance(node, spec.Task)}
        aliases = {key: node for key, node in nodes.items() if isinstance(node, spec.Alias)}
        # Dask derives the key of data from a hash of its content, which allows anyone who sees the key to test a guess.
        data = {key: node for key, node in nodes.items() if isinstance(node, spec.DataNode)}
        new = {key: (name, number) for number, key in enumerate([*guarded, *aliases, *data])}
        tasks = {}
        for key, node in nodes.items():
            if key in guarded:
                names = tuple(node.dependencies)
                needed = [spec.TaskRef(new.get(other, other)) for other in names]
                tasks[new[key]] = spec.Task(
                    new[key], Guarded(node, names), *needed, _data_producer=node.data_producer
                )
            elif key in aliases:
                tasks[new[key]] = spec.Alias(new[key], new.get(node.target, node.target))
            elif key in data:
                tasks[new[key]] = spec.DataNode(new[key], node.value)
            else:
                tasks[key] = node
        return cls(tasks, tuple(new.get(key, key) for key in dask_core.flatten(keys)))


class DaskCluster:
    """Runs passes on the given client, else on the current Dask scheduler (the default client, or threads of this process).

    Only accumulators return from the machines that hold the rows; ledger, account and keys stay with the caller.
    """

    __slots__ = ("_client",)

    def __init__(self, client: Any) -> None:
        self._client = client

    def accumulate(
        self, query: Any, rows: Any, chunk_rows: int, tell: Callable[[int], object] | None
    ) -> Any:
        """Return the accumulators of `query` over all rows, in chunks of `chunk_rows`; call `tell` with the rows done so far."""
        # InputError, without content, if a worker fails to read or add rows, the rows have changed, or the cluster fails.
        sources: list[Any] = []
        tree = remote.tree_of(rows, sources)
        if any(source.cluster is None for source in sources):
            raise InputError(
                "some of these rows are in a Dask collection and some are not: make Dask collections of all, or of none"
            )
        sent = Pass(query, tree, tuple(source.form for source in sources), chunk_rows)
        planned = _Plan(sent, rows, sources)
        part = _unfailed(self._run(planned, tell))
        if part.rows != rows.n:
            raise KernelError("a pass on a cluster counted another number of rows than there are")
        return part.accumulators

    def count(self, tasks: Tasks) -> list[int]:
        """Return the number of rows of each chunk."""
        name = _fresh("count")
        graph = dict(tasks.graph)
        keys = [(name, k) for k in range(len(tasks.chunks))]
        for key, chunk in zip(keys, tasks.chunks, strict=True):
            graph[key] = spec.Task(key, remote.counted, spec.TaskRef(chunk))
        return [int(_unfailed(answer)) for answer in self._get(graph, keys)]

    def fetch(self, rows: Any, number: int, begin: int, end: int) -> Chunk:
        """Fetch rows `begin` to `end` of one chunk into this process."""
        key = _fresh("rows here"), number
        graph, _ = dask_optimization.cull(rows.tasks.graph, [rows.tasks.chunks[number]])
        chunk = spec.TaskRef(rows.tasks.chunks[number])
        graph[key] = spec.Task(
            key, remote.extracted, rows.form, rows.counts[number], begin, end, chunk
        )
        return np.asarray(_unfailed(self._get(graph, key)))

    def _run(self, planned: _Plan, tell: Callable[[int], object] | None) -> Any:
        if tell is None:
            return self._get(planned.graph, planned.root)
        if not hasattr(self._client_now(), "submit"):
            return self._get_counting(planned, tell)
        return self._followed(planned, tell)

    def _client_now(self) -> Any:
        """Return the client that will run the tasks, or None for threads of this process."""
        return (
            self._client
            if self._client is not None
            else getattr(self._scheduler(), "__self__", None)
        )

    def _scheduler(self) -> Callable[..., Any]:
        get: Callable[..., Any] | None = (
            self._client.get if self._client is not None else dask_base.get_scheduler()
        )
        return get or dask_threaded.get

    def _get(self, graph: dict[Any, Any], keys: Any) -> Any:
        return _finished(lambda: self._scheduler()(graph, keys))

    def _get_counting(self, planned: _Plan, tell: Callable[[int], object]) -> Any:
        """Run a pass in this process; a callback reports each finished task."""
        total = 0

        def after(key: Any, *_: Any) -> None:
            nonlocal total
            if key in planned.rows_of:
                total += planned.rows_of[key]
                tell(total)

        with dask_callbacks.Callback(posttask=after):
            return self._get(planned.graph, planned.root)

    def _followed(self, planned: _Plan, tell: Callable[[int], object]) -> Any:
        """Run a pass on a cluster; the futures of the watched tasks report progress."""
        client = self._client_now()
        watched = list(planned.watched)

        def follow() -> Any:
            root, *others = client.get(planned.graph, [planned.root, *watched], sync=False)
            rows_of = dict(
                zip((future.key for future in others), planned.watched.values(), strict=True)
            )
            total = 0
            try:
                waiting = distributed.as_completed(others)
                del others
                for future in waiting:
                    total += rows_of[future.key]
                    tell(total)
                    future.release()
                return root.result()
            finally:
                root.cancel()

        return _finished(follow)


class _Plan:
    """The task graph of a pass, the key of its final task, and the number of rows of each task that adds rows."""

    def __init__(self, sent: Pass, rows: Rows, sources: Sequence[Any]) -> None:
        self.graph: dict[Any, Any] = {}
        for source in sources:
            self.graph.update(source.tasks.graph)
        self._name = uuid.uuid4().hex
        self._sent_key = f"fastpubpriv-pass-{self._name}"
        self.graph[self._sent_key] = spec.DataNode(self._sent_key, sent)
        self.rows_of: dict[Any, int] = {}
        self._starts = [
            np.concatenate([[0], np.cumsum(source.counts, dtype=np.int64)]) for source in sources
        ]
        self._sources = sources
        leaves = self._leaves(rows, sent.query.ordered)
        self.watched = {key: self.rows_of[key] for key in leaves if key in self.rows_of}
        self.root = leaves[-1] if sent.query.ordered else self._tree(leaves)
        self.graph, _ = dask_optimization.cull(self.graph, [self.root, *self.watched])

    def _leaves(self, rows: Rows, ordered: bool) -> list[Any]:
        """Add a task per range, chained if `ordered`, and otherwise one that checks each empty chunk; return their keys."""
        leaves: list[Any] = []
        starts = {
            id(source): starts for source, starts in zip(self._sources, self._starts, strict=True)
        }
        cuts = remote.cuts(rows, lambda source: starts[id(source)])
        for number, (begin, end) in enumerate(itertools.pairwise(cuts.tolist())):
            key = (f"fastpubpriv-rows-{self._name}", number)
            places, chunks = self._chunks(rows, begin, end)
            before = spec.TaskRef(leaves[-1]) if ordered and leaves else None
            sent = spec.TaskRef(self._sent_key)
            self.graph[key] = spec.Task(
                key, remote.added, sent, begin, end, places, before, *chunks
            )
            self.rows_of[key] = end - begin
            leaves.append(key)
        for source in () if ordered else self._sources:
            for number in np.flatnonzero(np.array(source.counts) == 0).tolist():
                key = (f"fastpubpriv-empty-{self._name}", len(leaves))
                chunk = spec.TaskRef(source.tasks.chunks[number])
                self.graph[key] = spec.Task(
                    key, remote.nothing, spec.TaskRef(self._sent_key), chunk
                )
                leaves.append(key)
        return leaves

    def _tree(self, leaves: list[Any]) -> Any:
        level = 0
        while len(leaves) > 1:
            above = []
            for number, first in enumerate(range(0, len(leaves), FAN_IN)):
                key = (f"fastpubpriv-merge-{self._name}", level, number)
                parts = leaves[first : first + FAN_IN]
                self.graph[key] = spec.Task(
                    key, remote.merged, spec.TaskRef(self._sent_key), *map(spec.TaskRef, parts)
                )
                above.append(key)
            leaves = above
            level = level + 1
        return leaves[0]

    def _chunks(
        self, rows: Rows, begin: int, end: int
    ) -> tuple[tuple[ChunkPosition, ...], list[Any]]:
        """Return positions and tasks of the chunks of a range; of several chunks, only the needed rows are transferred."""
        places = []
        chunks = []
        reached = remote.reach(rows, begin, end, self._sources)
        ranges = Counter(place.source for place in reached)
        for place in reached:
            source = self._sources[place.source]
            starts = self._starts[place.source]
            first = int(np.searchsorted(starts, place.begin, side="right")) - 1
            last = int(np.searchsorted(starts, place.end, side="left"))
            numbers = [number for number in range(first, last) if source.counts[number]]
            whole = len(numbers) == 1 and ranges[place.source] == 1
            for number in numbers:
                at = int(starts[number])
                stop = int(starts[number + 1])
                chunk = spec.TaskRef(source.tasks.chunks[number])
                if not whole:
                    low = max(place.begin, at)
                    high = min(place.end, stop)
                    key = (f"fastpubpriv-take-{self._name}", len(self.graph))
                    count = source.counts[number]
                    part = (low - at, high - at)
                    self.graph[key] = spec.Task(
                        key, remote.extracted, source.form, count, *part, chunk
                    )
                    at = low
                    stop = high
                    chunk = spec.TaskRef(key)
                places.append(ChunkPosition(place.source, at, stop))
                chunks.append(chunk)
        return tuple(places), chunks


def _fresh(work: str) -> str:
    return f"fastpubpriv-{work.replace(' ', '-')}-{uuid.uuid4().hex}"


def _finished(call: Callable[[], Any]) -> Any:
    """Return call(); replace any exception by an InputError, since those of Dask may quote tasks."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass
    raise InputError(LOST)


def _unfailed(answer: Any) -> Any:
    if isinstance(answer, Failed):
        answer.throw()
    if not isinstance(answer, Part | int | np.ndarray):
        raise InputError(LOST)
    return answer


_UNREADABLE = "the Dask collection cannot be read: build it again, with a meta of NumPy or pandas"


def is_dask(obj: object) -> bool:
    """Return True for a Dask array, data frame or series."""
    return _is_array(obj) or is_instance(obj, "dask.dataframe", "DataFrame", "Series")


def _is_array(obj: object) -> bool:
    return is_instance(obj, "dask.array", "Array")


class DaskRows(Rows):
    """Rows of the chunks of a Dask collection. Passes run on its workers; iteration in this process fetches chunks in order."""

    __slots__ = ("_dask", "cluster", "counts", "form", "tasks")

    def __init__(
        self, form: Form, tasks: Tasks, counts: Sequence[int], cluster: DaskCluster
    ) -> None:
        names = None if form.labels is None else tuple(name_of(label) for label in form.labels)
        super().__init__(form.n, form.dim, "dask", names)
        self.form = form
        self.tasks = tasks
        self.counts = tuple(counts)
        self.cluster = self._dask = cluster

    @classmethod
    def from_collection(
        cls, collection: object, columns: Sequence[Any] | None, client: object
    ) -> DaskRows:
        """Check the form of a collection, and count the rows of its chunks where their lengths are unknown."""
        if not is_dask(collection):
            raise InputError(
                f"expected a Dask array, data frame or series, got {type(collection).__name__}"
            )
        if client is not None and not callable(getattr(client, "get", None)):
            raise InputError(f"client must be a distributed.Client, got {type(client).__name__}")
        cluster = DaskCluster(client)
        if _is_array(collection):
            if names_of_columns(columns) is not None or (
                isinstance(columns, TextColumns) and columns.texts
            ):
                raise InputError(
                    "columns= chooses columns by name, and a Dask array has no names: slice it instead"
                )
            return _of_array(cls, collection, cluster)
        return _of_frame(cls, collection, columns, cluster)

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        first = 0
        for number, count in enumerate(self.counts):
            low = max(begin - first, 0)
            high = min(end - first, count)
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
            "pass x.map_blocks(numpy.asarray).persist()"
        )
    if isinstance(array._meta, np.ma.MaskedArray):
        raise InputError(
            "the chunks of the Dask array are masked: pass dask.array.ma.filled(x, numpy.nan)"
        )
    dim = 1 if array.ndim == 1 else array.shape[1]
    if np.isnan(array.chunks[0]).any():
        raise InputError(
            "the number of rows of the Dask array is not known, as after a filter, where it depends on what the rows hold: pass "
            "the array before the filter, or x.persist().compute_chunk_sizes() if that number may be public"
        )
    if np.isnan(dim):
        raise InputError(
            "the number of columns of the Dask array is not known: call x.compute_chunk_sizes() first"
        )
    if array.ndim == 2 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    # raises for a dtype that is not numeric
    like = ArrayRows.from_object(np.zeros((1, int(dim)), dtype=array.dtype))
    nodes = call_foreign(lambda: nodes_of(dict(array.__dask_graph__())), _UNREADABLE)
    check_array(nodes, list(dask_core.flatten(array.__dask_keys__())))
    tasks = Tasks.of(nodes, array.__dask_keys__())
    counts = [int(length) for length in array.chunks[0]]
    return cls(Form(sum(counts), int(dim), like.block(0, 1).dtype.name), tasks, counts, cluster)


def _of_frame(
    cls: type[DaskRows], frame: Any, columns: Sequence[Any] | None, cluster: DaskCluster
) -> DaskRows:
    if not hasattr(frame, "columns") or frame.ndim == 1:
        frame = frame.to_frame(0 if frame.name is None else frame.name)
    check_dask(frame)
    labels = choose(list(frame.columns), columns, "the Dask data frame")
    like = frame_rows(
        call_foreign(lambda: frame[labels]._meta_nonempty, _UNREADABLE), columns and labels
    )
    frame = call_foreign(lambda: frame[labels].optimize(), _UNREADABLE)
    tasks = Tasks.of(
        call_foreign(lambda: dict(frame.__dask_graph__()), _UNREADABLE), frame.__dask_keys__()
    )
    counts = cluster.count(tasks)
    form = Form(sum(counts), len(labels), like.block(0, 1).dtype.name, tuple(labels))
    return cls(form, tasks, counts, cluster)
