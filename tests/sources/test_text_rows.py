"""CSV files: what a line, a cell and a header are, and that two ways of reading a cell give the same number."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers_sources import column_sums, direct_sums, every_source
from helpers_text import (
    CHOSEN,
    CORPUS,
    HEADER,
    PLAIN,
    TEXT_READERS,
    csv_rows,
    file_of,
    number_of,
    one_row,
    rows_changed,
    same,
    values_of,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows, text_files
from fastpubpriv.sources.open import SUFFIXES

NAN = float("nan")


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def numbers(texts):
    """The numbers in these cells, as one batch."""
    data = b"".join(text + b"," for text in texts)
    end = np.cumsum([len(text) + 1 for text in texts]) - 1
    begin = end - [len(text) for text in texts]
    return text_files.numbers_of(text_files._texts(np.frombuffer(data, np.uint8), begin, end))


def test_both_ways_of_reading_a_cell_take_the_same_texts_for_numbers():
    """All texts of up to six of the characters that the quick way is used for; a digit stands for all ten."""
    for size in range(1, 7):
        texts = [bytes(codes) for codes in itertools.product(b"0+-.e", repeat=size)]
        texts += [text.replace(b"e", b"E").replace(b"0", b"9") for text in texts if b"e" in text][
            :: size**2
        ]
        slow = numbers([*texts, b"x"])[:-1]  # one text, and the whole batch goes the slow way
        assert same(slow, [number_of(text) for text in texts])
        numeral = ~np.isnan(slow)
        quick = [text for text, good in zip(texts, numeral, strict=True) if good]
        assert text_files._is_simple(pa.array(quick))
        assert same(numbers(quick), slow[numeral])
        for text in [text for text, good in zip(texts, numeral, strict=True) if not good][
            :: size**3
        ]:
            assert text_files._parsed(pa.array([text.decode()])) is None, text
            assert same(numbers([text]), [NAN]), text


def test_numbers_are_rounded_to_the_nearest_double_by_each_parser(monkeypatch):
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**64, 2000, dtype=np.uint64).view(np.float64)
    doubles = bits[np.isfinite(bits)]
    texts = [repr(x).encode() for x in doubles.tolist()]
    texts += [
        b"%d.%de%d" % (a, b, c)
        for a, b, c in rng.integers(0, 10**9, (2000, 3)) % [10**9, 10**9, 330]
    ]
    # Half way between two doubles, and a little beyond: parsers that stop reading round these wrongly.
    texts += [
        b"9007199254740993",
        b"9007199254740993." + b"0" * 800 + b"1",
        b"2.4703282292062328e-324",
        b"1e400",
        b"1" * 400,
    ]
    expected = [float(text) for text in texts]
    assert same(numbers(texts), expected)
    assert same(numbers([*texts, b"nan", b"Infinity"]), [*expected, NAN, np.inf])
    # Should another version of Arrow refuse one numeral of a batch, Python reads the batch: the same numbers.
    monkeypatch.setattr(text_files, "_parsed", lambda texts: None)
    assert same(numbers([*texts, b" +1 ", b"x", b""]), [*expected, 1, NAN, NAN])


def test_a_file_of_one_column_keeps_its_empty_lines(tmp_path):
    for text in (b"a\n1\n\n3\n", b"a\r\n1\r\n\r\n3\r\n", b"\xef\xbb\xbfa\n1\n\r\n3"):
        rows = private_rows(write(tmp_path / "t.csv", text))
        assert rows.columns == ("a",)
        np.testing.assert_array_equal(values_of(rows), [[1], [NAN], [3]])


def test_each_line_counts_and_none_is_lost(tmp_path):
    """Empty lines, also the last ones, are rows; what follows the last line feed is a row if it is not empty."""
    for text, expected in (
        ("a,b\n1,2\n\n3,4\n", [[1, 2], [NAN, NAN], [3, 4]]),
        ("a,b\n1,2\n\n\n", [[1, 2], [NAN, NAN], [NAN, NAN]]),
        ("a,b\n1,2\n3,4", [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3", [[1, 2], [NAN, NAN]]),
        ("a,b\n1,2\r3,4\n", [[NAN, NAN]]),
        ('a,b\n1,"2\n3",4\n', [[NAN, NAN], [NAN, NAN]]),
        ('a,b\n"1",2\n"3,4\n5,6\n', [[1, 2], [NAN, NAN], [5, 6]]),
    ):
        np.testing.assert_array_equal(
            values_of(private_rows(write(tmp_path / "t.csv", text))), expected
        )


def test_quoted_lines_are_joined_on_request_only(tmp_path):
    text = b'a,skip,b\r\n1,"x\n\ny,""z""",2\r\n3,,4\r\n\n5,"\n",6'
    expected = [[2, 1], [4, 3], [NAN, NAN], [6, 5]]
    assert csv_rows(tmp_path, text).n == 7
    for piece in (1, 2, 5, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_files, "_PIECE_BYTES", piece)
            rows = csv_rows(tmp_path, text, join_quoted_lines=True)
            np.testing.assert_array_equal(values_of(rows), expected)
    # The consequence that the docstring names: here, and only here, one record can change the others.
    joined = lambda folder, text: csv_rows(folder, text, join_quoted_lines=True)  # noqa: E731
    assert rows_changed(joined, tmp_path, [b"1,x,2"] * 5, 2, b'1,"x\n",2') == 0
    assert rows_changed(joined, tmp_path, [b"1,x,2"] * 5, 2, b'1,"x,2') > 0
    header = b'"a",skip,"b\n"\n1,2,3\n'
    assert values_of(csv_rows(tmp_path, header, join_quoted_lines=True)).tolist() == [[3, 1]]


def test_several_pieces_and_compressed_files(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_PIECE_BYTES", 10_000)
    x = np.random.default_rng(0).normal(size=(6000, 3)).round(6)
    pd.DataFrame(x, columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame(x, columns=list("abc")).to_csv(tmp_path / "t.csv.gz", index=False)
    pd.DataFrame(x, columns=list("abc")).to_csv(
        tmp_path / "T.CSV.BZ2", index=False, compression="bz2"
    )
    assert (tmp_path / "t.csv").stat().st_size > 100_000
    for name in ("t.csv", "t.csv.gz", "T.CSV.BZ2"):
        rows = private_rows(tmp_path / name)
        assert rows.n == len(x)
        assert column_sums(rows, threads=2, chunk_rows=99) == direct_sums(x)
        for begin, end in ((4100, 4103), (0, 1), (5999, 6000), (7, 7), (6000, 6000), (0, 6000)):
            found = np.concatenate([np.empty((0, 3)), *rows.chunks(begin, end)])
            np.testing.assert_array_equal(found, x[begin:end])


REFUSED = Refusals()
REFUSED.add_values(
    "cannot be read",
    "",
    "\n1\n",
    '"Alice-SSN-123,b\n1,2\n',
    "a" * (text_files.MAX_LINE_BYTES + 1) + "\n1\n",
    b"\xff\xfe\x00",
    b"Alice\xff,b\n1,2\n",
    b"\x1f\x8b Alice-SSN-123",
)
REFUSED.add_values("no rows", "a,b\n", "a,b")
REFUSED.add_values("cannot be read.*line feed", "a,b\r1,2\r")
REFUSED.add_values("header", "1.5,Alice-SSN-123\n2,3\n")
REFUSED.add_values("more than one column", "a,b,b\n1,2,3\n")


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_headers_that_cannot_be_used(text, words, tmp_path):
    path = write(tmp_path / ("t.csv.gz" if text[:1] == b"\x1f" else "t.csv"), text)
    caught = raises(InputError, words, Rows.from_csv, path, ["b"])
    assert "Alice" not in str(caught)
    assert caught.__context__ is None


def test_names_in_the_header(tmp_path):
    path = write(tmp_path / "t.csv", '"a, ""long"" name", b ,"","x\t"\r\n1,2,3,4\n')
    assert private_rows(path).columns == ('a, "long" name', "b", "", "x")
    assert "long" not in str(raises(InputError, "no column 'z'", private_rows, path, columns=["z"]))


def test_a_file_that_changes(tmp_path):
    path = write(tmp_path / "t.csv", "secret,b\n1,2\n3,4\n")
    rows = private_rows(path)
    for text, words in (
        ("secret,b\n1,2\n", "gave fewer rows"),
        ("secret,b\n1,2\n3,4\nAlice\n", "gave more rows"),
    ):
        write(path, text)
        caught = raises(InputError, words, list, rows.chunks())
        assert caught.__context__ is None
    path.unlink()
    raises(InputError, "withheld", list, rows.chunks())


# ---- Fuzzing of the CSV path: files of hostile records, read in pieces of all sizes, against a plain reading of each line.
# The short run is an ordinary test; the long one belongs to `make audit`. What they find goes to hostile_records.csv.
SLOW = [HealthCheck.too_slow]
SHORT = settings(
    max_examples=80, derandomize=True, database=None, deadline=None, suppress_health_check=SLOW
)
LONG = settings(max_examples=10_000, deadline=None, suppress_health_check=SLOW)
WORDS = [
    *(
        b'"',
        b",",
        b"\r",
        b"\v",
        b" ",
        b"\t",
        b"\f",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc3",
        b"\xe2\x80\xa8",
    ),
    *(
        b"1",
        b"-2.5",
        b"+4",
        b"1e400",
        b"1e-400",
        b".5",
        b"6.",
        b"e5",
        b"E",
        b"nan",
        b"-INF",
        b"infinity",
        b"nan(1)",
    ),
    *(b"NA", b"null", b"0x10", b"1_0", b"Alice", b'""', b'","', b'1,"', b"x" * 50, b"7" * 50),
]
records = st.one_of(
    st.sampled_from([record for _, record in CORPUS]),
    st.lists(st.sampled_from(WORDS), max_size=9).map(b"".join),
    # Three cells, so that numbers are reached and not only ragged lines.
    st.tuples(
        *[st.lists(st.sampled_from([w for w in WORDS if b"," not in w]), max_size=3).map(b"".join)]
        * 3
    ).map(b",".join),
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
    expected = [
        one_row(r + e.removesuffix(b"\n"), limit=limit) for r, e in zip(some, ends, strict=True)
    ]
    assert same(found, expected)


def check_replacement(some, index, record, piece):
    """A replaced record changes no other row."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(text_files, "_PIECE_BYTES", piece)
        assert (
            rows_changed(
                lambda *file: csv_rows(*file), Path(folder), some, index % len(some), record
            )
            == 0
        )


FILES = given(
    files(),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.integers(1, 80),
    st.sampled_from([40, 100, 1 << 24]),
)
REPLACEMENTS = given(
    st.lists(records, min_size=1, max_size=12), st.integers(0, 11), records, st.integers(1, 80)
)


@pytest.mark.parametrize(
    "run", [SHORT, pytest.param(LONG, marks=pytest.mark.audit)], ids=["short", "long"]
)
def test_rows_are_what_their_lines_give_alone_and_a_replaced_record_changes_no_other(run):
    run(FILES(check_file))()
    run(REPLACEMENTS(check_replacement))()


def a_filter_that_knows_too_little(monkeypatch):
    monkeypatch.setattr(text_files, "_NUMERAL", text_files._NUMERAL.replace("[+-]?", "-?", 1))


def quotes_that_join_lines(monkeypatch):
    read = text_files.read_lines
    monkeypatch.setattr(text_files, "read_lines", lambda path, join_quoted: read(path, True))


@pytest.mark.parametrize(
    ("fault", "run"),
    [
        (a_filter_that_knows_too_little, FILES(check_file)),
        (quotes_that_join_lines, REPLACEMENTS(check_replacement)),
    ],
)
def test_the_fuzzer_finds_planted_faults(fault, run, monkeypatch):
    fault(monkeypatch)
    once = settings(SHORT, max_examples=2000, deadline=None, phases=[Phase.generate])(run)
    raises((AssertionError, ValueError), None, once)


# ---- One record of a text file is one row: replacing it, by anything, changes no other row, not n, and raises nothing.
MIB = 1 << 20
READERS = pytest.mark.parametrize("read", TEXT_READERS.values(), ids=TEXT_READERS.keys())


# Records around the one that is replaced: numbers, text, blanks, missing cells, so that every way of reading is taken.
AROUND = [b"1,x,2", b" 3 ,Eve,+4", PLAIN, b"nan,,inf", b"Bob,x,7", b",,", b"1e400,x,5"]


def with_each_byte(*forms):
    """Records with each of the 256 byte values in the place of a question mark; a line feed would make two records."""
    codes = [bytes([code]) for code in range(256) if code != text_files.LINE_FEED]
    return [form.replace(b"?", code) for form in forms for code in codes]


def test_every_text_reader_is_listed():
    text = {
        suffix
        for suffix in SUFFIXES.replace(" or", ",").replace(",", "").split()
        if ".csv" in suffix
    }
    assert set(TEXT_READERS) == text
    # a new suffix of text must be in TEXT_READERS; of something else, only here
    assert len(SUFFIXES.split()) == 9


@READERS
def test_the_corpus_and_each_byte_give_the_row_that_the_record_gives_alone(read, tmp_path):
    corpus = [record for _, record in CORPUS]
    records = corpus + with_each_byte(
        b"?5,x,6", b"5?,x,6", b"5,x,?6", b"5,x,6?", b"5?5,x,6", b"5,?,6"
    )
    mixed = [record for hostile in records for record in (hostile, PLAIN)]
    for end in (b"\n", b"\r\n"):
        found = values_of(read(tmp_path, file_of(mixed, end=end)))
        assert same(found, [one_row(record + end[:-1]) for record in mixed])
        for record in corpus:
            assert same(
                values_of(read(tmp_path, file_of([record], end=end))), [one_row(record + end[:-1])]
            ), record


@READERS
def test_a_replaced_record_changes_its_own_row_only(read, tmp_path):
    records = [record for _, record in CORPUS]
    # what is compressed is the same text, so that a few records will do
    if read is TEXT_READERS[".csv"]:
        records += with_each_byte(b"?5,x,6", b"5,x,6?")
    before = values_of(read(tmp_path, file_of(AROUND)))
    for at, record in enumerate(records):
        assert rows_changed(read, tmp_path, AROUND, at % len(AROUND), record, before) == 0, record


LONG_OF_TEXT = {
    "digits": b"7" * MIB,
    "commas": b"," * MIB,
    "quotes": b'"' * MIB,
    "odd quotes": b'"' * (MIB - 1),
    "returns": b"\r" * MIB,
    "blanks": b" " * MIB,
    "bytes": bytes(code for code in range(256) if code != text_files.LINE_FEED) * (MIB // 255),
}


@pytest.mark.parametrize(
    ("suffix", "fill"),
    [*((".csv", fill) for fill in LONG_OF_TEXT), (".csv.gz", "bytes"), (".csv.bz2", "bytes")],
)
def test_long_cells_at_several_offsets(suffix, fill, tmp_path):
    """In the column that is not read, in one that is, and in quotes, each from the first to the third mebibyte of the file."""
    read = TEXT_READERS[suffix]
    records = [b"1.5," + b"x" * 900 + b",-2"] * 3000
    before = values_of(read(tmp_path, file_of(records)))
    forms = (b"1,?,2", b"?,x,2", b'1,"?",2') if suffix == ".csv" else (b"1,?,2",)
    for index, form in enumerate(forms):
        for size in (0.5, 1, 4)[index:]:
            record = form.replace(b"?", (LONG_OF_TEXT[fill] * 4)[: int(size * MIB)])
            assert rows_changed(read, tmp_path, records, index * 1400, record, before) == 0


def test_a_line_beyond_the_limit_is_a_row_of_missing_values(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 1000)
    for piece in (1, 7, 999, 1000, 1001, MIB):
        monkeypatch.setattr(text_files, "_PIECE_BYTES", piece)
        for end in (b"\n", b"\r\n"):
            for length in (999, 1000, 1001, 1002, 5000):
                record = (b"1,%s,2" % (b"x" * 5000))[: length - 2] + b",2"
                found = values_of(
                    TEXT_READERS[".csv"](tmp_path, file_of([PLAIN, record, PLAIN], end=end))
                )
                expected = [one_row(r + end[:-1], limit=1000) for r in (PLAIN, record, PLAIN)]
                assert same(found, expected)
                assert np.isnan(found[1]).all() == (length + len(end) - 1 > 1000)


def by_arrow(folder, text):
    """Planted fault: the file as Arrow takes it apart, as a reader would do that trusts a parser of whole files."""
    (folder / "t.csv").write_bytes(text)
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(CHOSEN, pa.string()), include_columns=CHOSEN, check_utf8=False
    )
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    table = pa.csv.read_csv(folder / "t.csv", parse_options=parse, convert_options=options)
    columns = [
        text_files._numerals(table[label].combine_chunks()).cast(pa.float64()) for label in CHOSEN
    ]
    matrix = np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1)
    return private_rows(matrix)


@pytest.mark.parametrize(
    "record", [b'1,"x,2', b"1,x\ry,2", b"1,2", b"1,x,y,2", b"", b"1," + b"x" * 2 * MIB + b",2"]
)
def test_a_reader_that_trusts_a_parser_of_whole_files_is_caught(record, tmp_path):
    assert rows_changed(by_arrow, tmp_path, [PLAIN] * 9, 4, b"3,x,4") == 0
    assert rows_changed(by_arrow, tmp_path, [PLAIN] * 9, 4, record) > 0


def blanks_of_two_kinds(monkeypatch):
    """The reader as it was: a first try on the whole batch, where more bytes are blanks than in the second."""
    parsed = text_files._parsed
    monkeypatch.setattr(text_files, "_is_simple", lambda texts: True)
    monkeypatch.setattr(
        text_files, "_parsed", lambda texts: parsed(pa.compute.ascii_trim_whitespace(texts))
    )
    monkeypatch.setattr(text_files, "_BLANKS", " ")


def long_lines_that_are_no_rows(monkeypatch):
    read = text_files._lines

    def without_long_ones(text, feeds, at_start):
        found = read(text, feeds, at_start)
        keep = np.diff(feeds, prepend=-1) <= 1000
        return text_files.TextLines(found.text, found.begin[keep], found.end[keep])

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
            assert np.delete(found, 17, 0).tobytes() == np.delete(before[name], 17, 0).tobytes(), (
                name
            )
