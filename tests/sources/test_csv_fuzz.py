"""Fuzzing of the CSV path: files of hostile records, read in pieces of all sizes, against a plain reading of each line.

The short run is an ordinary test; the long one belongs to `make audit`. What they find goes to hostile_records.csv.
"""

import itertools
import tempfile
from pathlib import Path

import pytest
from helpers_text import CORPUS, HEADER, csv_rows, one_row, rows_changed, same, values_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fastpubpriv.sources import text_files
from fastpubpriv.sources import text_files as csv_file

SLOW = [HealthCheck.too_slow]
SHORT = settings(max_examples=80, derandomize=True, database=None, deadline=None, suppress_health_check=SLOW)
LONG = settings(max_examples=10_000, deadline=None, suppress_health_check=SLOW)

WORDS = [
    *(b'"', b",", b"\r", b"\v", b" ", b"\t", b"\f", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xe2\x80\xa8"),
    *(b"1", b"-2.5", b"+4", b"1e400", b"1e-400", b".5", b"6.", b"e5", b"E", b"nan", b"-INF", b"infinity", b"nan(1)"),
    *(b"NA", b"null", b"0x10", b"1_0", b"Alice", b'""', b'","', b'1,"', b"x" * 50, b"7" * 50),
]
records = st.one_of(
    st.sampled_from([record for _, record in CORPUS]),
    st.lists(st.sampled_from(WORDS), max_size=9).map(b"".join),
    # Three cells, so that numbers are reached and not only ragged lines.
    st.tuples(*[st.lists(st.sampled_from([w for w in WORDS if b"," not in w]), max_size=3).map(b"".join)] * 3).map(
        b",".join
    ),
    st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")),
)


@st.composite
def files(draw):
    """(records, the ends of their lines): each line feed may have a carriage return, and the last may have none."""
    some = draw(st.lists(records, min_size=1, max_size=12))
    ends = draw(st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=len(some), max_size=len(some)))
    if some[-1] and draw(st.booleans()):
        ends[-1] = b""
    return some, ends


def check_file(content, mark, piece, limit):
    """Each row is what its line gives by itself; n is the number of lines."""
    some, ends = content
    text = mark + HEADER + b"\n" + b"".join(itertools.chain(*zip(some, ends, strict=True)))
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(text_files, "_PIECE_BYTES", piece)
        patch.setattr(text_files, "MAX_LINE_BYTES", limit)
        found = values_of(csv_rows(Path(folder), text))
    expected = [one_row(r + e.removesuffix(b"\n"), limit=limit) for r, e in zip(some, ends, strict=True)]
    assert same(found, expected)


def check_replacement(some, index, record, piece):
    """A replaced record changes no other row."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(text_files, "_PIECE_BYTES", piece)
        assert rows_changed(lambda *file: csv_rows(*file), Path(folder), some, index % len(some), record) == 0


FILES = given(files(), st.sampled_from([b"", b"\xef\xbb\xbf"]), st.integers(1, 80), st.sampled_from([40, 100, 1 << 24]))
REPLACEMENTS = given(st.lists(records, min_size=1, max_size=12), st.integers(0, 11), records, st.integers(1, 80))


def test_rows_are_what_their_lines_give_alone():
    SHORT(FILES(check_file))()


def test_a_replaced_record_changes_no_other_row():
    SHORT(REPLACEMENTS(check_replacement))()


@pytest.mark.audit
def test_rows_are_what_their_lines_give_alone_at_length():
    LONG(FILES(check_file))()


@pytest.mark.audit
def test_a_replaced_record_changes_no_other_row_at_length():
    LONG(REPLACEMENTS(check_replacement))()


def finds(run):
    with pytest.raises((AssertionError, ValueError)):
        settings(SHORT, max_examples=2000, deadline=None, phases=[Phase.generate])(run)()


def test_the_fuzzer_finds_a_plus_sign_that_text_elsewhere_forbids(monkeypatch):
    monkeypatch.setattr(text_files, "_NUMERAL", text_files._NUMERAL.replace("[+-]?", "-?", 1))
    finds(FILES(check_file))


def test_the_fuzzer_finds_quotes_that_join_lines(monkeypatch):
    monkeypatch.setattr(csv_file, "read_lines", lambda path, join_quoted, read=text_files.read_lines: read(path, True))
    finds(REPLACEMENTS(check_replacement))
