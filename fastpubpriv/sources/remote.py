"""A pass over rows that live elsewhere: what is sent to a worker, and what the worker does.

A worker gets a `Pass` (the query, and how the rows are made from their sources: public and released numbers) and chunks of the
sources, and returns a `Part`: integers, and how many rows they count. The functions here change nothing that they are given and
give the same answer each time, so a task that is retried, duplicated or speculated changes no bit. They never raise, because a
scheduler writes exceptions into logs: a `Failed` with a text of ours takes the place of every error.
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
from fastpubpriv.sources.arrays import ArrayRows
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
    """What a worker returns in place of an error: the name of a class of this library, and a text without private content."""

    name: str
    text: str

    def throw(self) -> NoReturn:
        """Raise the error that this stands for."""
        kind = getattr(errors, self.name, InputError)
        if not (isinstance(kind, type) and issubclass(kind, FastPubPrivError)):
            kind = InputError
        raise kind(self.text)


@dataclass(frozen=True, slots=True)
class Form:
    """What all chunks of a source have in common: columns and dtype. With `labels` a chunk is a data frame, else an array."""

    n: int
    dim: int
    dtype: str
    labels: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChunkPosition:
    """Where a chunk belongs: rows `begin` to `end` of source number `source`."""

    source: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Part:
    """What some rows add: packed accumulators, and the number of rows in them. Private, so it does not print itself."""

    accumulators: Any
    rows: int

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _size(self.accumulators)


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A query, and how its rows are made from their sources; everything in it is public or released."""

    query: Any
    tree: Any
    forms: tuple[Form, ...]
    chunk_rows: int


class WorkerRows(RandomAccessRows):
    """Those rows of a source that a worker holds; the other rows cannot be read."""

    __slots__ = ("_dtype", "_held")

    def __init__(self, form: Form, held: Sequence[tuple[int, Rows]]) -> None:
        super().__init__(form.n, form.dim, "dask", None)
        self._dtype = np.dtype(form.dtype)
        self._held = tuple(held)

    def block(self, begin: int, end: int) -> Chunk:
        """Rows begin to end, of those that are here."""
        blocks = [np.empty((0, self.dim), self._dtype)]
        for first, rows in self._held:
            low, high = max(begin, first), min(end, first + rows.n)
            if low < high:
                blocks.append(rows.block(low - first, high - first).astype(self._dtype, copy=False))
        if sum(len(chunk) for chunk in blocks) != end - begin:
            raise KernelError("a worker was asked for rows that it does not hold")
        return blocks[1] if len(blocks) == 2 else np.concatenate(blocks)


def tree_of(rows: Rows, sources: list[Rows]) -> Any:
    """How the rows are made: a number of a source, or a class of view, its arguments and its own sources. Sources are collected."""
    if isinstance(rows, View):
        return type(rows), rows.arguments, tuple(tree_of(source, sources) for source in rows.sources)
    for number, known in enumerate(sources):
        if known is rows:
            return number
    sources.append(rows)
    return len(sources) - 1


def made(tree: Any, sources: Sequence[Rows]) -> Rows:
    """The rows of a tree, over other sources of the same shape."""
    if isinstance(tree, int):
        return sources[tree]
    kind, arguments, below = tree
    rows: Rows = kind(*(made(branch, sources) for branch in below), *arguments)
    return rows


def reach(rows: Rows, begin: int, end: int, sources: Sequence[Rows]) -> list[ChunkPosition]:
    """Ranges of the sources that rows begin to end are made of."""
    if not isinstance(rows, View):
        return [ChunkPosition(next(k for k, known in enumerate(sources) if known is rows), begin, end)]
    below = rows.sources
    return [place for k, low, high in rows.spans(begin, end) for place in reach(below[k], low, high, sources)]


def cuts(rows: Rows, ends: Callable[[Rows], IntArray]) -> IntArray:
    """Positions at which the rows are cut, so that hardly any range needs two chunks of a source; ascending, from 0 to n."""
    parts = [np.array([0, rows.n], dtype=np.int64)]
    if isinstance(rows, View):
        parts += [rows.cuts(k, cuts(source, ends)) for k, source in enumerate(rows.sources)]
    else:
        parts.append(ends(rows))
    every = np.unique(np.concatenate(parts))
    return every[(every >= 0) & (every <= rows.n)]


def withheld(call: Callable[[], Any], *, foreign: bool = False) -> Any:
    """call(), or a `Failed` in place of any exception: its text and its frames may hold private content."""
    # Of `foreign` code, which makes chunks, an error of our classes is replaced too: that code chose its text.
    try:
        with alone(), np.errstate(all="ignore"):
            return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failure = error if passes(error) and not foreign else replace_error(error)
        return Failed(type(failure).__name__, str(failure))


def first_failure(values: Sequence[Any]) -> Failed | None:
    """The first failure among what other tasks returned."""
    return next((value for value in values if isinstance(value, Failed)), None)


def task(work: Callable[..., Any]) -> Callable[..., Any]:
    """A function that a worker runs: of several failures among what it gets it returns the first, and it never raises."""

    @functools.wraps(work)  # a worker finds it by its name
    def done(*given: Any) -> Any:
        return first_failure(given) or withheld(lambda: work(*given))

    return done


@task
def counted(chunk: Any) -> int:
    """Rows of a chunk: the one thing that is asked when a collection does not know its length."""
    return call_foreign(lambda: len(chunk))


@task
def extracted(form: Form, rows: int, begin: int, end: int, chunk: Any) -> Chunk:
    """Rows begin to end of a chunk of `rows` rows, as an array of their own."""
    return np.array(_opened(form, rows, chunk).block(begin, end), dtype=form.dtype, order="C")


@task
def nothing(sent: Pass, chunk: Any) -> Part:
    """The part of a chunk that had no rows when it was opened."""
    if call_foreign(lambda: len(chunk)) != 0:
        raise InputError(CHANGED)
    return Part(sent.query.packed(sent.query.zeros()), 0)


@task
def added(sent: Pass, begin: int, end: int, places: tuple[ChunkPosition, ...], *chunks: Any) -> Part:
    """What rows begin to end add, made from chunks of the sources."""
    return _added(sent, sent.query.zeros(), begin, end, places, chunks)


@task
def continued(sent: Pass, begin: int, end: int, places: tuple[ChunkPosition, ...], before: Part, *chunks: Any) -> Part:
    """As `added`, on top of what the rows before these add."""
    part = _added(sent, copy.deepcopy(before.accumulators), begin, end, places, chunks)
    return Part(part.accumulators, before.rows + part.rows)


@task
def merged(sent: Pass, *parts: Part) -> Part:
    """Several parts in one."""
    total = sent.query.zeros()
    for part in parts:
        sent.query.merge(total, part.accumulators)
    return Part(sent.query.packed(total), sum(part.rows for part in parts))


def _added(
    sent: Pass, accumulators: Any, begin: int, end: int, places: tuple[ChunkPosition, ...], chunks: Sequence[Any]
) -> Part:
    held: list[list[tuple[int, Rows]]] = [[] for _ in sent.forms]
    for place, chunk in zip(places, chunks, strict=True):
        rows = _opened(sent.forms[place.source], place.end - place.begin, chunk)
        held[place.source].append((place.begin, rows))
    rows = made(sent.tree, [WorkerRows(form, here) for form, here in zip(sent.forms, held, strict=True)])
    for first in range(begin, end, sent.chunk_rows):
        sent.query.add(rows.block(first, min(first + sent.chunk_rows, end)), accumulators)
    return Part(sent.query.packed(accumulators), end - begin)


def _size(accumulators: Any) -> int:
    """Bytes, by which a scheduler decides what to move."""
    if isinstance(accumulators, tuple | list):
        return sum(map(_size, accumulators))
    return int(getattr(accumulators, "nbytes", 64))


def _opened(form: Form, rows: int, chunk: Any) -> Rows:
    """A chunk as rows, by the same rules as in one process, after a look at its shape."""
    if call_foreign(lambda: len(chunk)) != rows:
        raise InputError(CHANGED)
    # Rows taken out of a chunk of a data frame come as an array.
    labels = None if isinstance(chunk, np.ndarray) else form.labels
    # Names and types of one chunk may follow its values, and so may an error about them.
    opened: Rows = call_foreign(
        lambda: ArrayRows.from_object(chunk) if labels is None else frame_rows(_numeric(chunk, labels), labels),
        UNREADABLE,
    )
    if opened.dim != form.dim:
        raise InputError(CHANGED)
    return opened


def _numeric(chunk: Any, labels: Sequence[Any]) -> Any:
    """The columns of a chunk. One value that is no number makes pandas hold a whole partition as objects; it alone is missing."""
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
    """Dask may hold a column of objects as text, so a number is read from that, too."""
    try:
        if isinstance(value, str):
            return float(_TRUTH.get(value, value))
        return float(value) if isinstance(value, bool | int | float | np.number | np.bool_) else np.nan
    except (ValueError, OverflowError):
        return np.nan
