"""One record of a text file is one row: replacing it, by anything, changes no other row, not n, and raises nothing."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from helpers_sources import every_source
from helpers_text import CHOSEN, CORPUS, PLAIN, TEXT_READERS, file_of, one_row, rows_changed, same, values_of

from fastpubpriv.sources import Rows, text_files
from fastpubpriv.sources import text_files as csv_file
from fastpubpriv.sources.open import SUFFIXES

MIB = 1 << 20
READERS = pytest.mark.parametrize("read", TEXT_READERS.values(), ids=TEXT_READERS.keys())


# Records around the one that is replaced: numbers, text, blanks, missing cells, so that every way of reading is taken.
AROUND = [b"1,x,2", b" 3 ,Eve,+4", PLAIN, b"nan,,inf", b"Bob,x,7", b",,", b"1e400,x,5"]


def with_each_byte(*forms):
    """Records with each of the 256 byte values in the place of a question mark; a line feed would make two records."""
    codes = [bytes([code]) for code in range(256) if code != text_files.LINE_FEED]
    return [form.replace(b"?", code) for form in forms for code in codes]


def test_every_text_reader_is_listed():
    text = {suffix for suffix in SUFFIXES.replace(" or", ",").replace(",", "").split() if ".csv" in suffix}
    assert set(TEXT_READERS) == text
    assert len(SUFFIXES.split()) == 9  # a new suffix of text must be in TEXT_READERS; of something else, only here


@READERS
def test_the_corpus_and_each_byte_give_the_row_that_the_record_gives_alone(read, tmp_path):
    corpus = [record for _, record in CORPUS]
    records = corpus + with_each_byte(b"?5,x,6", b"5?,x,6", b"5,x,?6", b"5,x,6?", b"5?5,x,6", b"5,?,6")
    mixed = [record for hostile in records for record in (hostile, PLAIN)]
    for end in (b"\n", b"\r\n"):
        found = values_of(read(tmp_path, file_of(mixed, end=end)))
        assert same(found, [one_row(record + end[:-1]) for record in mixed])
        for record in corpus:
            assert same(values_of(read(tmp_path, file_of([record], end=end))), [one_row(record + end[:-1])]), record


@READERS
def test_a_replaced_record_changes_its_own_row_only(read, tmp_path):
    records = [record for _, record in CORPUS]
    if read is TEXT_READERS[".csv"]:  # what is compressed is the same text, so that a few records will do
        records += with_each_byte(b"?5,x,6", b"5,x,6?")
    before = values_of(read(tmp_path, file_of(AROUND)))
    for at, record in enumerate(records):
        assert rows_changed(read, tmp_path, AROUND, at % len(AROUND), record, before) == 0, record


LONG = {
    "digits": b"7" * MIB,
    "commas": b"," * MIB,
    "quotes": b'"' * MIB,
    "odd quotes": b'"' * (MIB - 1),
    "returns": b"\r" * MIB,
    "blanks": b" " * MIB,
    "bytes": bytes(code for code in range(256) if code != text_files.LINE_FEED) * (MIB // 255),
}


@pytest.mark.parametrize(
    ("suffix", "fill"), [*((".csv", fill) for fill in LONG), (".csv.gz", "bytes"), (".csv.bz2", "bytes")]
)
def test_long_cells_at_several_offsets(suffix, fill, tmp_path):
    """In the column that is not read, in one that is, and in quotes, each from the first to the third mebibyte of the file."""
    read, records = TEXT_READERS[suffix], [b"1.5," + b"x" * 900 + b",-2"] * 3000
    before = values_of(read(tmp_path, file_of(records)))
    forms = (b"1,?,2", b"?,x,2", b'1,"?",2') if suffix == ".csv" else (b"1,?,2",)
    for index, form in enumerate(forms):
        for size in (0.5, 1, 4)[index:]:
            record = form.replace(b"?", (LONG[fill] * 4)[: int(size * MIB)])
            assert rows_changed(read, tmp_path, records, index * 1400, record, before) == 0


def test_a_line_beyond_the_limit_is_a_row_of_missing_values(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 1000)
    for piece in (1, 7, 999, 1000, 1001, MIB):
        monkeypatch.setattr(text_files, "_PIECE_BYTES", piece)
        for end in (b"\n", b"\r\n"):
            for length in (999, 1000, 1001, 1002, 5000):
                record = (b"1,%s,2" % (b"x" * 5000))[: length - 2] + b",2"
                found = values_of(TEXT_READERS[".csv"](tmp_path, file_of([PLAIN, record, PLAIN], end=end)))
                expected = [one_row(r + end[:-1], limit=1000) for r in (PLAIN, record, PLAIN)]
                assert same(found, expected)
                assert np.isnan(found[1]).all() == (length + len(end) - 1 > 1000)


def test_a_line_of_more_than_sixteen_mebibytes(tmp_path):
    for length in (text_files.MAX_LINE_BYTES, text_files.MAX_LINE_BYTES + 1):
        record = b"1,%s,2" % (b"x" * (length - 4))
        found = values_of(TEXT_READERS[".csv"](tmp_path, file_of([PLAIN, record, PLAIN])))
        assert same(found, [one_row(r) for r in (PLAIN, record, PLAIN)])


def by_arrow(folder, text):
    """Planted fault: the file as Arrow takes it apart, as a reader would do that trusts a parser of whole files."""
    (folder / "t.csv").write_bytes(text)
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(CHOSEN, pa.string()), include_columns=CHOSEN, check_utf8=False
    )
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    table = pa.csv.read_csv(folder / "t.csv", parse_options=parse, convert_options=options)
    columns = [text_files._numerals(pa, table[label].combine_chunks()).cast(pa.float64()) for label in CHOSEN]
    matrix = np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1)
    return Rows.from_array(matrix)


@pytest.mark.parametrize("record", [b'1,"x,2', b"1,x\ry,2", b"1,2", b"1,x,y,2", b"", b"1," + b"x" * 2 * MIB + b",2"])
def test_a_reader_that_trusts_a_parser_of_whole_files_is_caught(record, tmp_path):
    assert rows_changed(by_arrow, tmp_path, [PLAIN] * 9, 4, b"3,x,4") == 0
    assert rows_changed(by_arrow, tmp_path, [PLAIN] * 9, 4, record) > 0


def blanks_of_two_kinds(monkeypatch):
    """The reader as it was: a first try on the whole batch, where more bytes are blanks than in the second."""
    parsed = text_files._parsed
    monkeypatch.setattr(text_files, "_is_simple", lambda texts: True)
    monkeypatch.setattr(text_files, "_parsed", lambda pa, texts: parsed(pa, pa.compute.ascii_trim_whitespace(texts)))
    monkeypatch.setattr(text_files, "_BLANKS", " ")


def a_filter_that_knows_too_little(monkeypatch):
    monkeypatch.setattr(text_files, "_NUMERAL", text_files._NUMERAL.replace("[+-]?", "-?", 1))


def quotes_that_join_lines(monkeypatch):
    monkeypatch.setattr(csv_file, "read_lines", lambda path, join_quoted, read=text_files.read_lines: read(path, True))


def long_lines_that_are_no_rows(monkeypatch):
    read = text_files._lines

    def without_long_ones(text, feeds, at_start):
        found = read(text, feeds, at_start)
        keep = np.diff(feeds, prepend=-1) <= 1000
        return text_files.Lines(found.text, found.begin[keep], found.end[keep])

    monkeypatch.setattr(text_files, "_lines", without_long_ones)


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (b"Alice,x,Alice", blanks_of_two_kinds),
        (b"Alice,x,Alice", a_filter_that_knows_too_little),
        (b'1,"x,2', quotes_that_join_lines),
        (b"1," + b"x" * 1000 + b",2", long_lines_that_are_no_rows),
    ],
)
def test_planted_faults_are_caught(record, fault, tmp_path, monkeypatch):
    read = TEXT_READERS[".csv"]
    records = [b"+1,x,2", b"1,x,2", b"1,x,2\v", PLAIN]
    assert rows_changed(read, tmp_path, records, 1, record) == 0
    fault(monkeypatch)
    assert rows_changed(read, tmp_path, records, 1, record) > 0


def test_one_row_of_every_source_is_one_row(tmp_path):
    """The same for sources that hold numbers: a replaced row is replaced, and all others keep their bits."""
    matrix = np.random.default_rng(3).normal(size=(40, 3))
    before = {name: values_of(rows) for name, rows in every_source(matrix, tmp_path)}
    for value in (np.nan, np.inf, -0.0, 1.7e308, 5e-324):
        changed = matrix.copy()
        changed[17] = value
        for name, rows in every_source(changed, tmp_path):
            found = values_of(rows)
            assert same(found[17], changed[17]), name
            assert np.delete(found, 17, 0).tobytes() == np.delete(before[name], 17, 0).tobytes(), name
