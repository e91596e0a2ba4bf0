"""What code of others raises while rows are read: only an interrupt comes through, and nothing of any text."""

import gc
import sys

import numpy as np
import pandas as pd
import pytest
from helpers_sources import add_sums, column_sums, fold, make_sums
from pandas.api.extensions import ExtensionArray

from fastpubpriv import InputError, KernelError, OutOfMemoryError, estimate_mean
from fastpubpriv.errors import BudgetError, FastPubPrivError
from fastpubpriv.privacy import ZCDP, Ledger
from fastpubpriv.sources import Rows, private_rows, public_rows
from fastpubpriv.sources.arrays import ChunkRows
from fastpubpriv.threads import guard
from fastpubpriv.threads.pool import Progress

SECRET = "Alice-SSN-123"
X = np.ones((40, 2))


class OwnError(InputError):
    """A user's class that looks like ours."""


ERRORS = [
    ValueError, SystemExit, MemoryError, GeneratorExit, BaseException, RecursionError, StopAsyncIteration,
    InputError, KernelError, BudgetError, OutOfMemoryError, OwnError, UnicodeError, ExceptionGroup,
]  # fmt: skip


def made(kind):
    return kind(SECRET, [ValueError(SECRET)]) if kind is ExceptionGroup else kind(SECRET)


def said(error):
    parts = []
    while error is not None:
        parts.append(repr((error.args, vars(error), getattr(error, "__notes__", None))))
        error = error.__cause__ or error.__context__
    return " ".join(parts)


def at_once(error):
    raise error


def after_a_chunk(error):
    yield X[:7]
    raise error


def while_another_is_handled(error):
    yield X[:7]
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        raise error  # noqa: B904


class Sequence(list):
    """A list that will not be read."""

    def __init__(self, items, error):
        super().__init__(items)
        self.error = error

    def __iter__(self):
        raise self.error


class Entry:
    """What a cell of a list may be."""

    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error

    __array__ = __float__


class Column(ExtensionArray):
    """A column of anyone's class in a frame of pandas."""

    dtype = pd.array([1.0], dtype="Float64").dtype

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return len(X)

    def __getitem__(self, item):
        raise self.error

    def isna(self):
        return np.zeros(len(X), dtype=bool)

    def copy(self):
        return self


FACTORIES = {
    "call": lambda error: Rows.from_chunks(lambda: at_once(error), n=40, dim=2),
    "generator": lambda error: Rows.from_chunks(lambda: after_a_chunk(error), n=40, dim=2),
    "chained": lambda error: Rows.from_chunks(lambda: while_another_is_handled(error), n=40, dim=2),
    "list": lambda error: Rows.from_chunks(lambda: Sequence([X], error), n=40, dim=2),
    "chunk": lambda error: Rows.from_chunks(lambda: [Sequence(X.tolist(), error)], n=40, dim=2),
    "cell": lambda error: Rows.from_chunks(lambda: [[[Entry(error), 1.0]] * 40], n=40, dim=2),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_whatever_a_factory_raises_says_nothing(make, kind, threads):
    for run in (
        column_sums,
        lambda rows, **options: list(rows.chunks()),
        lambda rows, **options: column_sums(rows.slice(0, 20)),
    ):
        with pytest.raises(FastPubPrivError) as caught:
            run(make(made(kind)), threads=threads, chunk_rows=5)
        assert type(caught.value) is (OutOfMemoryError if issubclass(kind, MemoryError) else InputError)
        assert SECRET not in said(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("make", [FACTORIES[name] for name in ("call", "generator", "list")])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_comes_through_without_what_was_said_with_it(make, threads):
    with pytest.raises(KeyboardInterrupt) as caught:
        column_sums(make(KeyboardInterrupt(SECRET)), threads=threads, chunk_rows=5)
    assert SECRET not in said(caught.value)


@pytest.mark.parametrize("kind", ERRORS)
def test_lists_are_read_inside_of_the_guard(kind):
    for source in (
        Sequence(X.tolist(), made(kind)),
        [[Entry(made(kind)), 1.0]],
        type("Pair", (tuple,), {"__iter__": lambda self: at_once(made(kind))})(X.tolist()),
    ):
        for read in (private_rows, Rows.from_array, Rows.from_parquet, Rows.from_arrow, Rows.from_frame):
            with pytest.raises(FastPubPrivError) as caught:
                read(source)
            assert SECRET not in said(caught.value)


@pytest.mark.parametrize("kind", ERRORS)
def test_columns_of_a_frame_are_read_inside_of_the_guard(kind):
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Series(Column(made(kind)))})
    ledger = Ledger(ZCDP(1))
    with pytest.raises(FastPubPrivError) as caught:
        estimate_mean(frame, x_pub=np.eye(2), budget=ZCDP(0.5), ledger=ledger)
    assert SECRET not in said(caught.value)


def test_a_chunk_of_a_class_that_answers_for_itself():
    class Chunk:
        def __getattr__(self, name):
            raise InputError(SECRET)

        @property
        def __array__(self):
            raise InputError(SECRET)

        @property
        def __next__(self):
            raise InputError(SECRET)

    for rows in (lambda: private_rows(Chunk()), lambda: column_sums(Rows.from_chunks(lambda: [Chunk()], n=1, dim=1))):
        with pytest.raises(InputError) as caught:
            rows()
        assert SECRET not in said(caught.value)


def test_our_own_errors_come_through():
    for own in (KernelError("status"), InputError("form"), BudgetError("left")):
        with pytest.raises(type(own)) as caught:
            guard.call_guarded(lambda own=own: at_once(own))
        assert caught.value is own


def test_a_generator_that_is_left_early_is_closed_in_silence(monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)

    def factory():
        try:
            yield X
        finally:
            raise ValueError(SECRET)

    rows = Rows.from_chunks(factory, n=len(X), dim=2)
    assert column_sums(rows.slice(0, 10)) == (10 * 2**20 * np.ones(2)).tolist()
    with pytest.raises(InputError, match="declared"):
        column_sums(Rows.from_chunks(factory, n=3, dim=2))
    gc.collect()
    assert heard == []


def test_public_rows_are_typed_errors_too():
    for kind in (ValueError, SystemExit, InputError):
        with pytest.raises(InputError):
            public_rows(Sequence([[1.0, 2.0]], made(kind)))


def test_a_bar_that_cannot_be_drawn_stops_no_pass(monkeypatch):
    class Closed:
        def isatty(self):
            return True

        def write(self, text):
            raise OSError("closed")

        flush = write

    monkeypatch.setattr(sys, "stderr", Closed())
    assert column_sums(private_rows(X), progress=True) == (40 * 2**20 * np.ones(2)).tolist()
    bar = Progress(10, True)
    bar.at(5)
    assert not bar.wanted
    bar.close()


def test_planted_guards_that_let_text_through(monkeypatch):
    """As before: our classes, MemoryError and whatever is no Exception pass; and the factory runs in the outer guard alone."""
    rows = [
        make(made(kind)) for kind in (SystemExit, MemoryError) for make in (FACTORIES["call"], FACTORIES["generator"])
    ]
    monkeypatch.setattr(guard, "replace_error", lambda error, message="": error)
    for source in rows:
        with pytest.raises(BaseException) as caught:  # any of them
            fold(source, make_sums(2), add_sums)
        assert SECRET in said(caught.value)
    monkeypatch.undo()
    monkeypatch.setattr("fastpubpriv.sources.arrays.call_foreign", guard.call_guarded)
    monkeypatch.setattr("fastpubpriv.sources.arrays.iterate_foreign", guard.iterate_guarded)
    for name in ("call", "generator"):
        source = FACTORIES[name](InputError(SECRET))
        assert isinstance(source, ChunkRows)
        with pytest.raises(InputError) as caught:
            fold(source, make_sums(2), add_sums)
        assert SECRET in said(caught.value)
