"""Distributed passes over rows: the messages sent to a worker, and the functions that a worker runs.

A worker receives a `Pass` (the query, and how the rows are derived from their sources: public and released numbers) and chunks of
the sources, and returns a `Part`: integers, and the number of rows in them. The functions here are pure and deterministic, so a
task that is retried, duplicated or speculated changes no bit. They never raise, because a scheduler logs exceptions: every error is
returned as a `Failed` with a text of this library.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from fastpubpriv import errors
from fastpubpriv._types import IntArray
from fastpubpriv.errors import FastPubPrivError, InputError, KernelError
from fastpubpriv.sources.arrays import ArrayRows, number_of_cell
from fastpubpriv.sources.row_types import Chunk, RandomAccessRows, Rows
from fastpubpriv.sources.tables import Coded, frame_rows
from fastpubpriv.sources.views import View
from fastpubpriv.threads.guard import call_foreign, passes, replace_error
from fastpubpriv.threads.pool import alone

CHANGED = (
    "a chunk of the collection has another shape than when it was opened: it must be the same in each pass. "
    "Persist the collection, or open it again"
)
UNREADABLE = (
    "a chunk of the collection has other columns or types than the collection says, or could not be made. "
    "The reason is withheld because it may quote private content: state the type of each column where the collection is built"
)

_TRUTH = {"True": 1.0, "False": 0.0}


@dataclass(frozen=True, slots=True)
class Failed:
    """An error returned by a worker: the name of an exception class of this library, and a text without private content."""

    name: str
    text: str

    def throw(self) -> NoReturn:
        """Raise the error that this object represents."""
        kind = getattr(errors, self.name, InputError)
        if not (isinstance(kind, type) and issubclass(kind, FastPubPrivError)):
            kind = InputError
        raise kind(self.text)


@dataclass(frozen=True, slots=True)
class Form:
    """Total rows, columns and dtype shared by all chunks of a source. With `labels` a chunk is a data frame, else an array."""

    n: int
    dim: int
    dtype: str
    labels: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChunkPosition:
    """Position of a chunk: rows `begin` to `end` of source number `source`."""

    source: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Part:
    """A partial result: packed accumulators, and the number of rows in them. Private, so it has no repr of its content."""

    accumulators: Any
    rows: int

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _size(self.accumulators)


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A query, and how its rows are derived from their sources; all of it is public or released."""

    query: Any
    tree: Any
    forms: tuple[Form, ...]
    chunk_rows: int


class WorkerRows(RandomAccessRows):
    """The rows of a source that a worker holds; reading any other row raises KernelError."""

    __slots__ = ("_dtype", "_held")

    def __init__(self, form: Form, held: Sequence[tuple[int, Rows]]) -> None:
        super().__init__(form.n, form.dim, "dask", None)
        self._dtype = np.dtype(form.dtype)
        self._held = tuple(held)

    def block(self, begin: int, end: int) -> Chunk:
        """Return rows `begin` to `end`; raise KernelError if this worker does not hold all of them."""
        blocks = [np.empty((0, self.dim), self._dtype)]
        for first, rows in self._held:
            low = max(begin, first)
            high = min(end, first + rows.n)
            if low < high:
                blocks.append(rows.block(low - first, high - first).astype(self._dtype, copy=False))
        if sum(len(chunk) for chunk in blocks) != end - begin:
            raise KernelError("a worker was asked for rows that it does not hold")
        return blocks[1] if len(blocks) == 2 else np.concatenate(blocks)


def tree_of(rows: Rows, sources: list[Rows]) -> Any:
    """Return how rows are derived: the index of a source (collected in `sources`), or a view class, its arguments and subtrees."""
    if isinstance(rows, View):
        return (
            type(rows),
            rows.arguments,
            tuple(tree_of(source, sources) for source in rows.sources),
        )
    for number, known in enumerate(sources):
        if known is rows:
            return number
    sources.append(rows)
    return len(sources) - 1


def made(tree: Any, sources: Sequence[Rows]) -> Rows:
    """Rebuild the rows of a tree over other sources of the same shape."""
    if isinstance(tree, int):
        return sources[tree]
    kind, arguments, below = tree
    rows: Rows = kind(*(made(branch, sources) for branch in below), *arguments)
    return rows


def reach(rows: Rows, begin: int, end: int, sources: Sequence[Rows]) -> list[ChunkPosition]:
    """Return the ranges of the sources from which rows `begin` to `end` are derived."""
    if not isinstance(rows, View):
        return [
            ChunkPosition(next(k for k, known in enumerate(sources) if known is rows), begin, end)
        ]
    below = rows.sources
    return [
        place
        for k, low, high in rows.spans(begin, end)
        for place in reach(below[k], low, high, sources)
    ]


def cuts(rows: Rows, ends: Callable[[Rows], IntArray]) -> IntArray:
    """Return ascending split positions of the rows, 0 to n, such that hardly any range needs two chunks of a source."""
    parts = [np.array([0, rows.n], dtype=np.int64)]
    if isinstance(rows, View):
        parts += [rows.cuts(k, cuts(source, ends)) for k, source in enumerate(rows.sources)]
    else:
        parts.append(ends(rows))
    every = np.unique(np.concatenate(parts))
    return every[(every >= 0) & (every <= rows.n)]


def withheld(call: Callable[[], Any], *, foreign: bool = False) -> Any:
    """Return call(), or a `Failed` for any exception, whose text and frames may hold private content."""
    # For `foreign` code, which computes chunks, errors of this library are replaced too: that code may choose their text.
    try:
        with alone(), np.errstate(all="ignore"):
            return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failure = error if passes(error) and not foreign else replace_error(error)
        return Failed(type(failure).__name__, str(failure))


def first_failure(values: Sequence[Any]) -> Failed | None:
    """Return the first failure among the results of other tasks, or None."""
    return next((value for value in values if isinstance(value, Failed)), None)


def task(work: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that a worker runs: it returns the first failure among its arguments, and it never raises."""

    @functools.wraps(work)  # workers look the function up by its name
    def done(*given: Any) -> Any:
        return first_failure(given) or withheld(lambda: work(*given))

    return done


@task
def counted(chunk: Any) -> int:
    """Return the number of rows of a chunk, for a collection of unknown lengths."""
    return call_foreign(lambda: len(chunk))


@task
def extracted(form: Form, rows: int, begin: int, end: int, chunk: Any) -> Chunk:
    """Return rows `begin` to `end` of a chunk of `rows` rows as a new array."""
    return np.array(_opened(form, rows, chunk).block(begin, end), dtype=form.dtype, order="C")


@task
def nothing(sent: Pass, chunk: Any) -> Part:
    """Return an empty part for a chunk that had no rows when it was opened; fail if it has rows now."""
    if call_foreign(lambda: len(chunk)) != 0:
        raise InputError(CHANGED)
    return Part(sent.query.packed(sent.query.zeros()), 0)


@task
def added(
    sent: Pass,
    begin: int,
    end: int,
    places: tuple[ChunkPosition, ...],
    before: Part | None,
    *chunks: Any,
) -> Part:
    """Return the part of rows `begin` to `end`, derived from chunks of the sources, added to that of the rows before if given."""
    held: list[list[tuple[int, Rows]]] = [[] for _ in sent.forms]
    for place, chunk in zip(places, chunks, strict=True):
        opened = _opened(sent.forms[place.source], place.end - place.begin, chunk)
        held[place.source].append((place.begin, opened))
    rows = made(
        sent.tree, [WorkerRows(form, here) for form, here in zip(sent.forms, held, strict=True)]
    )
    accumulators = sent.query.zeros() if before is None else copy.deepcopy(before.accumulators)
    for first in range(begin, end, sent.chunk_rows):
        sent.query.add(rows.block(first, min(first + sent.chunk_rows, end)), accumulators)
    return Part(
        sent.query.packed(accumulators), end - begin + (0 if before is None else before.rows)
    )


@task
def merged(sent: Pass, *parts: Part) -> Part:
    """Merge several parts into one."""
    total = sent.query.zeros()
    for part in parts:
        sent.query.merge(total, part.accumulators)
    return Part(sent.query.packed(total), sum(part.rows for part in parts))


def _size(accumulators: Any) -> int:
    """Return the size in bytes, which a scheduler uses to decide about transfers."""
    if isinstance(accumulators, tuple | list):
        return sum(map(_size, accumulators))
    return int(getattr(accumulators, "nbytes", 64))


def _opened(form: Form, rows: int, chunk: Any) -> Rows:
    """Open a chunk by the same rules as in one process, after a check of its shape."""
    if call_foreign(lambda: len(chunk)) != rows:
        raise InputError(CHANGED)
    # Rows extracted from a chunk of a data frame arrive as an array.
    labels = None if isinstance(chunk, np.ndarray) else form.labels
    # Names and types of a chunk may depend on its values, and so may an error about them.
    opened: Rows = call_foreign(
        lambda: (
            ArrayRows.from_object(chunk)
            if labels is None
            else frame_rows(_numeric(chunk, labels), labels)
        ),
        UNREADABLE,
    )
    if opened.dim != form.dim:
        raise InputError(CHANGED)
    return opened


def _numeric(chunk: Any, labels: Sequence[Any]) -> Any:
    """Return the columns of a chunk. A column of objects, as pandas makes it for one bad value, is converted cell by cell."""
    from pandas.api.types import is_numeric_dtype

    frame = chunk[list(labels)]
    for label in labels:
        if isinstance(label, Coded):
            if is_numeric_dtype(frame[label].dtype):  # a partition without any text
                frame = frame.astype({label: object})
        elif not is_numeric_dtype(frame[label].dtype):
            values = np.array([_number(value) for value in frame[label]], dtype=np.float64)
            frame = frame.copy()
            frame[label] = values
    return frame


def _number(value: Any) -> float:
    """Convert a cell to float, also from text, as Dask may store a column of objects; NaN if it is not a number."""
    try:
        if isinstance(value, str):
            return float(_TRUTH.get(value, value))
        return number_of_cell(value)
    except ValueError:
        return np.nan
