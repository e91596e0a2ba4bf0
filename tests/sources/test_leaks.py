"""Marker values in private rows come out by no door but the chunks: not by exceptions, warnings, logs or tracebacks."""

import io
import logging
import pickle
import re
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_sources import add_sums, every_source, fold, make_sums

from fastpubpriv.errors import FastPubPrivError
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.threads import guard

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
    out, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    text = ""
    try:
        with redirect_stdout(out), redirect_stderr(out), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
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
    "object array": lambda f: np.array([[TEXT, NUMBER]], dtype=object),
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
    "pandas object": lambda f: pd.DataFrame({"a": pd.Series([NUMBER, TEXT], dtype=object)}),
    "pandas category": lambda f: pd.DataFrame({"a": pd.Categorical([TEXT, "b"])}),
    "pandas sparse": lambda f: pd.DataFrame({"a": pd.arrays.SparseArray([NUMBER], fill_value=NUMBER)}),
    "polars text": lambda f: pl.DataFrame(text_table()),
    "polars enum": lambda f: pl.DataFrame({"a": pl.Series([TEXT], dtype=pl.Enum([TEXT]))}),
    "arrow text": lambda f: pa.table(text_table()),
    "series": lambda f: pd.Series([NUMBER, TEXT], dtype=object),
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


@pytest.mark.parametrize("step", [add_sums, failing_step])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_source_lets_a_marker_out_of_a_pass(step, threads, tmp_path):
    for name, rows in every_source(marked(), tmp_path):
        text = scrape(lambda rows=rows: fold(rows, make_sums(3), step, threads=threads, chunk_rows=4))
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
            assert not MARKERS.search(scrape(lambda rows=rows, look=look: str(look(rows)))), (name, look)


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
            lambda rows=rows: fold(rows, make_sums(rows.dim), add_sums, threads=threads, chunk_rows=2),
            lambda rows=rows: [None for _ in rows.chunks()] and None,
        ):
            text = scrape(run)
            assert "InputError" in text
            assert not MARKERS.search(text), text


def test_an_exception_raised_within_a_handler_keeps_no_chain():
    rows = Rows.from_chunks(failing_factory, n=9, dim=3)
    with pytest.raises(FastPubPrivError) as caught:
        fold(rows, make_sums(3), add_sums)
    assert caught.value.__context__ is None
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
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
