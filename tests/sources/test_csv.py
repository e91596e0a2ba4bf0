"""CSV files: what a line, a cell and a header are, and that two ways of reading a cell give the same number."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers_sources import column_sums, direct_sums, silently
from helpers_text import csv_rows, file_of, number_of, one_row, rows_changed, same, values_of

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows, text_files

NAN = float("nan")


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_cells_are_numbers_or_nan_one_by_one(tmp_path):
    text = 'a,name,b\n1,Alice-SSN-123,2\n,"x,""y",3\n 4 ,z,Alice-SSN-123\nNA,,inf\n-1e3,n,"6"\n1_0,?,0x10\n'
    rows = silently(lambda: private_rows(write(tmp_path / "t.csv", text), columns=["b", "a"]))
    expected = [[2, 1], [3, NAN], [NAN, 4], [np.inf, NAN], [6, -1000], [NAN, NAN]]
    np.testing.assert_array_equal(values_of(rows), expected)
    assert rows.columns == ("b", "a")
    everything = values_of(private_rows(tmp_path / "t.csv"))
    np.testing.assert_array_equal(everything[:, [2, 0]], expected)
    assert np.isnan(everything[:, 1]).all()


def numbers(texts):
    """The numbers in these cells, as one batch."""
    data = b"".join(text + b"," for text in texts)
    end = np.cumsum([len(text) + 1 for text in texts]) - 1
    begin = end - [len(text) for text in texts]
    return text_files._numbers(text_files._texts(np.frombuffer(data, np.uint8), begin, end))


def test_both_ways_of_reading_a_cell_take_the_same_texts_for_numbers():
    """All texts of up to six of the characters that the quick way is used for; a digit stands for all ten."""
    for size in range(1, 7):
        texts = [bytes(codes) for codes in itertools.product(b"0+-.e", repeat=size)]
        texts += [text.replace(b"e", b"E").replace(b"0", b"9") for text in texts if b"e" in text][:: size**2]
        slow = numbers([*texts, b"x"])[:-1]  # one text, and the whole batch goes the slow way
        assert same(slow, [number_of(text) for text in texts])
        numeral = ~np.isnan(slow)
        quick = [text for text, good in zip(texts, numeral, strict=True) if good]
        assert text_files._is_simple(pa.array(quick))
        assert same(numbers(quick), slow[numeral])
        for text in [text for text, good in zip(texts, numeral, strict=True) if not good][:: size**3]:
            assert text_files._parsed(pa, pa.array([text.decode()])) is None, text
            assert same(numbers([text]), [NAN]), text


def test_numbers_are_rounded_to_the_nearest_double_by_each_parser(monkeypatch):
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**64, 2000, dtype=np.uint64).view(np.float64)
    doubles = bits[np.isfinite(bits)]
    texts = [repr(x).encode() for x in doubles.tolist()]
    texts += [b"%d.%de%d" % (a, b, c) for a, b, c in rng.integers(0, 10**9, (2000, 3)) % [10**9, 10**9, 330]]
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
    monkeypatch.setattr(text_files, "_parsed", lambda pa, texts: None)
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
        np.testing.assert_array_equal(values_of(private_rows(write(tmp_path / "t.csv", text))), expected)


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
    pd.DataFrame(x, columns=list("abc")).to_csv(tmp_path / "T.CSV.BZ2", index=False, compression="bz2")
    assert (tmp_path / "t.csv").stat().st_size > 100_000
    for name in ("t.csv", "t.csv.gz", "T.CSV.BZ2"):
        rows = private_rows(tmp_path / name)
        assert rows.n == len(x)
        assert column_sums(rows, threads=2, chunk_rows=99) == direct_sums(x)
        for begin, end in ((4100, 4103), (0, 1), (5999, 6000), (7, 7), (6000, 6000), (0, 6000)):
            found = np.concatenate([np.empty((0, 3)), *rows.chunks(begin, end)])
            np.testing.assert_array_equal(found, x[begin:end])


def test_the_size_of_pieces_changes_nothing(tmp_path, monkeypatch):
    records = [b"1,x,2", b"", b'3,"y,",4\r', b"5", b"\r", b"6,,7"]
    text = b"\xef\xbb\xbf" + file_of(records)
    for piece in (1, 2, 3, 4, 11, 1 << 20):
        monkeypatch.setattr(text_files, "_PIECE_BYTES", piece)
        for ending in (text, text[:-1]):
            assert same(values_of(csv_rows(tmp_path, ending)), [one_row(record) for record in records])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ("\n1\n", "cannot be read"),
        ("a,b\n", "no rows"),
        ("a,b", "no rows"),
        ("a,b\r1,2\r", "cannot be read.*line feed"),
        ('"Alice-SSN-123,b\n1,2\n', "cannot be read"),
        ("1.5,Alice-SSN-123\n2,3\n", "header"),
        ("a,b,b\n1,2,3\n", "more than one column"),
        ("a" * (text_files.MAX_LINE_BYTES + 1) + "\n1\n", "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"Alice\xff,b\n1,2\n", "cannot be read"),
        (b"\x1f\x8b Alice-SSN-123", "cannot be read"),
    ],
)
def test_headers_that_cannot_be_used(text, words, tmp_path):
    path = write(tmp_path / ("t.csv.gz" if text[:1] == b"\x1f" else "t.csv"), text)
    with pytest.raises(InputError, match=words) as caught:
        Rows.from_csv(path, ["b"])
    assert "Alice" not in str(caught.value)
    assert caught.value.__context__ is None


def test_names_in_the_header(tmp_path):
    path = write(tmp_path / "t.csv", '"a, ""long"" name", b ,"","x\t"\r\n1,2,3,4\n')
    assert private_rows(path).columns == ('a, "long" name', "b", "", "x")
    with pytest.raises(InputError, match="no column 'z'") as caught:
        private_rows(path, columns=["z"])
    assert "long" not in str(caught.value)


def test_a_file_that_changes(tmp_path):
    path = write(tmp_path / "t.csv", "secret,b\n1,2\n3,4\n")
    rows = private_rows(path)
    for text, words in (("secret,b\n1,2\n", "gave 1 rows where 2"), ("secret,b\n1,2\n3,4\nAlice\n", "more than 2")):
        write(path, text)
        with pytest.raises(InputError, match=words) as caught:
            list(rows.chunks())
        assert caught.value.__context__ is None
    path.unlink()
    with pytest.raises(InputError, match="withheld"):
        list(rows.chunks())
