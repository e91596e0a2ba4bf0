"""Marker values in private rows come out by no door but the chunks: not by exceptions, warnings, logs or tracebacks."""

import gc
import io
import logging
import pickle
import re
import sys
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.errors import raises
from helpers_sources import add_sums, column_sums, every_source, fold, make_sums
from pandas.api.extensions import ExtensionArray

from fastpubpriv import InputError, KernelError, OutOfMemoryError, estimate_mean
from fastpubpriv.errors import BudgetError, FastPubPrivError
from fastpubpriv.privacy import ZCDP, Ledger
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.open import public_rows
from fastpubpriv.threads import guard
from fastpubpriv.threads.pool import Progress

NUMBER = 1.23456789e77
TEXT = "Alice-SSN-123"
MARKERS = re.compile(r"1\.2345|12345678|Alice|SSN")


def whole_chain(error):
    """Everything that can be read off an exception: arguments, notes, attributes, causes, the rendered traceback."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    parts = [repr((e.args, vars(e), getattr(e, "__notes__", None))) for e in seen]
    return "\n".join(parts) + "".join(traceback.format_exception(seen[0]))


def scrape(action):
    """Run action(); return all text that came out of it in any way."""
    out = io.StringIO()
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    text = ""
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(out),
            warnings.catch_warnings(record=True, action="always") as caught,
        ):
            try:
                result = action()
                text += repr(result) if isinstance(result, Rows) else ""
            except Exception as error:
                text += whole_chain(error)
        text += "".join(str(w.message) for w in caught)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return text + out.getvalue() + log.getvalue()


def marked(rows=9, columns=3):
    x = np.full((rows, columns), NUMBER)
    x[1, 1] = np.nan
    return x


def failing_step(chunk, accumulators):
    raise ValueError(f"bad value {chunk[0, 0]}")


def failing_factory():
    yield marked()[:4]
    raise ValueError(TEXT)


def text_table():
    return {"a": [NUMBER, 1.0], "name": [TEXT, "x"]}


def csv_file(folder, text):
    (folder / "leak.csv").write_text(text)
    return folder / "leak.csv"


def parquet_file(folder):
    pq.write_table(pa.table(text_table()), folder / "leak.parquet")
    return folder / "leak.parquet"


WRONG_FORMS = {
    "text array": lambda f: np.array([[TEXT]]),
    "structured": lambda f: np.array([(NUMBER,)], dtype=[(TEXT, "f8")]),
    "3-d": lambda f: marked()[None],
    "complex": lambda f: marked().astype(complex),
    "masked": lambda f: np.ma.masked_invalid(marked()),
    "ragged": lambda f: [[NUMBER], [NUMBER, 1.0]],
    "text in list": lambda f: [[NUMBER, TEXT]],
    "none and text": lambda f: [[None, TEXT]],
    "text": lambda f: TEXT,
    "text with a dot": lambda f: f"a.{TEXT}",
    "list of text": lambda f: [TEXT],
    "bytes": lambda f: TEXT.encode(),
    "dict": lambda f: {TEXT: NUMBER},
    "generator": lambda f: (row for row in marked()),
    "set in list": lambda f: [[{TEXT}, NUMBER]],
    "pandas text": lambda f: pd.DataFrame(text_table()),
    "pandas category": lambda f: pd.DataFrame({"a": pd.Categorical([TEXT, "b"])}),
    "pandas sparse": lambda f: pd.DataFrame(
        {"a": pd.arrays.SparseArray([NUMBER], fill_value=NUMBER)}
    ),
    "polars text": lambda f: pl.DataFrame(text_table()),
    "polars enum": lambda f: pl.DataFrame({"a": pl.Series([TEXT], dtype=pl.Enum([TEXT]))}),
    "arrow text": lambda f: pa.table(text_table()),
    "series": lambda f: pd.Series([TEXT], dtype="str"),
    "polars series": lambda f: pl.Series([TEXT]),
    "list of numbers and text": lambda f: [NUMBER, TEXT],
    "parquet text": parquet_file,
    "csv no rows": lambda f: csv_file(f, f"{TEXT},b\n"),
    "csv open quote": lambda f: csv_file(f, f'"{TEXT},{NUMBER}\n{TEXT},{NUMBER}\n'),
    "csv no header": lambda f: csv_file(f, f"{TEXT},{NUMBER}\n{TEXT},{NUMBER}\n"),
}


@pytest.mark.parametrize("name", WRONG_FORMS)
def test_wrong_forms_quote_nothing(name, tmp_path):
    source = WRONG_FORMS[name](tmp_path)
    text = scrape(lambda: private_rows(source))
    assert "Error" in text
    assert not MARKERS.search(text), text


@pytest.mark.parametrize(
    "source",
    [
        pd.Series([NUMBER, TEXT], dtype=object),
        np.array([[NUMBER], [TEXT]], dtype=object),
        pl.Series([NUMBER, TEXT], dtype=pl.Object),
    ],
    ids=["pandas", "array", "polars"],
)
def test_objects_are_read_in_silence(source):
    text = scrape(
        lambda: [private_rows(source), sum(len(chunk) for chunk in private_rows(source).chunks())]
    )
    assert "Error" not in text
    assert not MARKERS.search(text), text


@pytest.mark.parametrize("step", [add_sums, failing_step])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_source_lets_a_marker_out_of_a_pass(step, threads, tmp_path):
    for name, rows in every_source(marked(), tmp_path):
        text = scrape(
            lambda rows=rows: fold(rows, make_sums(3), step, threads=threads, chunk_rows=4)
        )
        assert ("withheld" in text) == (step is failing_step), (name, text)
        assert not MARKERS.search(text), (name, text)
        looks = [
            repr,
            str,
            pickle.dumps,
            np.asarray,
            list,
            bool,
            lambda r: r == r,
            "{:.3f}".format,
            np.sum,
            lambda r: r @ r,
        ]
        for look in looks:
            assert not MARKERS.search(scrape(lambda rows=rows, look=look: str(look(rows)))), (
                name,
                look,
            )


@pytest.mark.parametrize("threads", [1, 2])
def test_text_that_turns_up_while_reading(threads, tmp_path):
    """Content that only a pass can meet: a factory that fails, and files that changed."""
    changed = private_rows(csv_file(tmp_path, "a,b\n1,2\n3,4\n"))
    csv_file(tmp_path, f"a,b\n{TEXT},{NUMBER}\n{TEXT}\n{NUMBER}\n")
    for rows in (
        Rows.from_chunks(failing_factory, n=9, dim=3),
        Rows.from_chunks(lambda: [[[TEXT]]], n=9, dim=3),
        changed,
    ):
        for run in (
            lambda rows=rows: fold(
                rows, make_sums(rows.dim), add_sums, threads=threads, chunk_rows=2
            ),
            lambda rows=rows: [None for _ in rows.chunks()] and None,
        ):
            text = scrape(run)
            assert "InputError" in text
            assert not MARKERS.search(text), text


def test_an_exception_raised_within_a_handler_keeps_no_chain():
    rows = Rows.from_chunks(failing_factory, n=9, dim=3)
    caught = raises(FastPubPrivError, None, fold, rows, make_sums(3), add_sums)
    assert caught.__context__ is None
    frames = [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
    assert "failing_factory" not in frames


def test_the_scrape_sees_planted_leaks(monkeypatch):
    """Planted bugs, one for each door that the scrape watches: each must be seen."""

    def chained():
        try:
            failing_step(marked(), None)
        except ValueError as error:
            raise FastPubPrivError("generic") from error

    def suppressed_only():
        try:
            failing_step(marked(), None)
        except ValueError:
            raise FastPubPrivError("generic") from None

    leaks = [
        chained,
        suppressed_only,
        lambda: warnings.warn(f"odd {NUMBER}", stacklevel=1),
        lambda: logging.getLogger("x").debug(TEXT),
        lambda: print(NUMBER),  # noqa: T201
    ]
    for leak in leaks:
        assert MARKERS.search(scrape(leak)), leak
    monkeypatch.setattr(guard, "passes", lambda error: True)
    rows = private_rows(marked())
    assert MARKERS.search(scrape(lambda: fold(rows, make_sums(3), failing_step)))


# ---- What code of others raises while rows are read: only an interrupt comes through, and nothing of any text -------
X = np.ones((40, 2))


class OwnError(InputError):
    """A user's class that looks like ours."""


ERRORS = [
    ValueError,
    SystemExit,
    MemoryError,
    GeneratorExit,
    BaseException,
    RecursionError,
    StopAsyncIteration,
    InputError,
    KernelError,
    BudgetError,
    OutOfMemoryError,
    OwnError,
    UnicodeError,
    ExceptionGroup,
]


def made(kind):
    return kind(TEXT, [ValueError(TEXT)]) if kind is ExceptionGroup else kind(TEXT)


def at_once(error):
    raise error


def after_a_chunk(error):
    yield X[:7]
    raise error


def while_another_is_handled(error):
    yield X[:7]
    try:
        raise RuntimeError(TEXT)
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
        caught = raises(
            FastPubPrivError, None, run, make(made(kind)), threads=threads, chunk_rows=5
        )
        assert type(caught) is (OutOfMemoryError if issubclass(kind, MemoryError) else InputError)
        assert TEXT not in whole_chain(caught)
        assert caught.__context__ is None


@pytest.mark.parametrize("make", [FACTORIES[name] for name in ("call", "generator", "list")])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_comes_through_without_what_was_said_with_it(make, threads):
    source = make(KeyboardInterrupt(TEXT))
    assert TEXT not in whole_chain(
        raises(KeyboardInterrupt, None, column_sums, source, threads=threads, chunk_rows=5)
    )


@pytest.mark.parametrize("kind", ERRORS)
def test_lists_and_columns_are_read_inside_of_the_guard(kind):
    for source in (
        Sequence(X.tolist(), made(kind)),
        [[Entry(made(kind)), 1.0]],
        type("Pair", (tuple,), {"__iter__": lambda self: at_once(made(kind))})(X.tolist()),
    ):
        assert TEXT not in whole_chain(raises(FastPubPrivError, None, private_rows, source))
    # Columns of a frame are read inside of the guard.
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Series(Column(made(kind)))})
    ledger = Ledger(ZCDP(1))
    caught = raises(
        FastPubPrivError,
        None,
        estimate_mean,
        frame,
        x_pub=np.eye(2),
        budget=ZCDP(0.5),
        ledger=ledger,
    )
    assert TEXT not in whole_chain(caught)


def test_a_chunk_of_a_class_that_answers_for_itself():
    class Chunk:
        def __getattr__(self, name):
            raise InputError(TEXT)

        @property
        def __array__(self):
            raise InputError(TEXT)

        @property
        def __next__(self):
            raise InputError(TEXT)

    for rows in (
        lambda: private_rows(Chunk()),
        lambda: column_sums(Rows.from_chunks(lambda: [Chunk()], n=1, dim=1)),
    ):
        assert TEXT not in whole_chain(raises(InputError, None, rows))


def test_a_generator_that_is_left_early_is_closed_in_silence(monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)

    def factory():
        try:
            yield X
        finally:
            raise ValueError(TEXT)

    rows = Rows.from_chunks(factory, n=len(X), dim=2)
    assert column_sums(rows.slice(0, 10)) == (10 * 2**20 * np.ones(2)).tolist()
    raises(InputError, "declared", column_sums, Rows.from_chunks(factory, n=3, dim=2))
    gc.collect()
    assert heard == []


def test_public_rows_are_typed_errors_too():
    for kind in (ValueError, SystemExit, InputError):
        raises(InputError, None, public_rows, Sequence([[1.0, 2.0]], made(kind)))


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
        make(made(kind))
        for kind in (SystemExit, MemoryError)
        for make in (FACTORIES["call"], FACTORIES["generator"])
    ]
    monkeypatch.setattr(guard, "replace_error", lambda error, message="": error)
    for source in rows:
        # any of them
        assert TEXT in whole_chain(
            raises(BaseException, None, fold, source, make_sums(2), add_sums)
        )
    monkeypatch.undo()
    monkeypatch.setattr("fastpubpriv.sources.rescanned.call_foreign", guard.call_guarded)
    monkeypatch.setattr("fastpubpriv.sources.rescanned.iterate_foreign", guard.iterate_guarded)
    for name in ("call", "generator"):
        source = FACTORIES[name](InputError(TEXT))
        assert TEXT in whole_chain(raises(InputError, None, fold, source, make_sums(2), add_sums))
