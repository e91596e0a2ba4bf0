"""Public CSV files, split into lines and cells by the reader of private ones, so that both files have one dialect.

Being public, the content of such a file may be refused and quoted: a line, or a cell of a numeric column, that the private reader
would turn into missing values is refused before a budget is debited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources import tables
from fastpubpriv.sources.arrays import existing_file
from fastpubpriv.sources.lazy_modules import compute, pa
from fastpubpriv.sources.row_types import PathLike, Rows
from fastpubpriv.sources.text_files import TextLines, names_of, numbers_of, read_lines, split_cells

# Cells that stand for a missing number, stripped: the list of pyarrow.csv. The numeral NaN is matched in any case.
_NULL_WORDS = (
    *(
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "N/A",
        "NA",
        "NULL",
    ),
    *("NaN", "n/a", "nan", "null"),
)
_NAN = r"\A[+-]?(?i:nan)\z"
_OTHER_NUMERAL = re.compile(
    r"true|false|[+-]?0x[0-9a-f]+|[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?", re.IGNORECASE
)

_ADVICE = (
    "in the private file such a line is a row of missing values. Write both files as Parquet; or, if cells hold line breaks, pass "
    "Rows.from_csv(..., join_quoted_lines=True) for both (--join-quoted-lines): the guarantee then needs balanced quotes in every "
    "private record"
)


def public_names(path: PathLike) -> list[str]:
    """Return the column names of a public CSV file."""
    return _header(existing_file(path), join_quoted=False)


def public_table(path: PathLike, texts: Iterable[str] = (), join_quoted: bool = False) -> Any:
    """Return a public CSV file as an Arrow table, whose columns hold doubles, texts, or nothing but missing cells.

    Raise InputError, which names the line, if a line of the file is none for the private reader. `texts` are read as text.
    """
    name = existing_file(path)
    names = _header(name, join_quoted)
    pieces: list[list[Any]] = [[] for _ in names]
    for lines, line in _numbered(name, join_quoted):
        cells = split_cells(lines, len(names))
        if not cells.complete.all() or (lines.begin == lines.end).any():
            wrong = np.flatnonzero(~cells.complete | (lines.begin == lines.end))[0]
            _refuse_line(name, lines, int(wrong), line, len(names))
        for index, column in enumerate(pieces):
            column.append(cells.texts(index))
    as_text = set(texts)
    columns = [
        _column(pa.chunked_array(column, pa.string()), label in as_text)
        for label, column in zip(names, pieces, strict=True)
    ]
    return pa.table(columns, names)


def public_csv_rows(path: PathLike, columns: Any, join_quoted: bool = False) -> Rows:
    """Return the rows of a public CSV file; raise InputError for a cell of a numeric column that is no number."""
    if isinstance(columns, tables.TextColumns):
        texts = list(columns.texts)
    else:
        texts = [label for label in columns or () if isinstance(label, tables.Coded)]
    table = public_table(path, texts, join_quoted)
    require_numbers_in(path, table, columns, join_quoted)
    return tables.arrow_rows(table, columns, what=_quoted(path))


def require_numbers_in(path: PathLike, table: Any, columns: Any, join_quoted: bool = False) -> None:
    """Raise InputError, which names the line, if a cell of a column that is read as numbers is none; `table` is `public_table`."""
    refused = []
    for label in tables.choose(table.schema.names, columns, _quoted(path)):
        if not isinstance(label, tables.Coded) and tables.is_text(table.schema.field(label).type):
            refused.append(
                (label, _first_text(existing_file(path), table.column(label), join_quoted))
            )
    tables.require_numeric(refused, _quoted(path), columns)


def refuse_other_numerals(path: PathLike, names: Sequence[str], join_quoted: bool = False) -> None:
    """Raise InputError if one of these columns has numbers alone, some in spellings that the private reader does not read."""
    table = public_table(path, join_quoted=join_quoted)
    for name in names:
        column = table.column(name)
        if tables.is_text(column.type):
            odd = column.filter(pa.array(~_is_number(column))).to_pylist()
            if all(_OTHER_NUMERAL.fullmatch(cell.strip()) for cell in odd):
                require_numbers_in(path, table, [name], join_quoted)


def _quoted(path: PathLike) -> str:
    return f"the public file {existing_file(path)!r}"


def _header(name: str, join_quoted: bool) -> list[str]:
    reason = "its first line must be a header with the names of the columns"
    try:
        names = next(map(names_of, read_lines(name, join_quoted)), None)
    except UnicodeDecodeError:
        names = None
        reason = "the first line is not UTF-8 text; save the file as UTF-8"
    except (OSError, EOFError) as error:
        names = None
        reason = str(error)
    if names is None:
        raise InputError(f"{name!r} cannot be read as a CSV file: {reason}")
    return names


def _numbered(name: str, join_quoted: bool) -> Iterator[tuple[TextLines, int]]:
    """Yield the records after the header, each time with the number of the line of the file where the first begins."""
    pieces = read_lines(name, join_quoted)
    line = 1
    while True:
        try:
            lines = next(pieces, None)
        except (OSError, EOFError) as error:
            raise InputError(f"{name!r} cannot be read as a CSV file: {error}") from None
        if lines is None:
            return
        if line > 1:
            yield lines, line
        elif len(lines) > 1:
            yield lines.part(1, len(lines)), _line_after(lines, 1, line)
        line = _line_after(lines, len(lines), line)


def _line_after(lines: TextLines, count: int, line: int) -> int:
    """Return the number of the line of the file where record `count` begins, if record 0 begins on `line`."""
    stop = lines.begin[count] if count < len(lines) else len(lines.text)
    feeds = np.count_nonzero(lines.text[:stop] == ord("\n"))
    return line + int(feeds)


def _refuse_line(name: str, lines: TextLines, record: int, line: int, width: int) -> None:
    """Raise InputError about a record that is a row of missing values to the private reader."""
    text = lines.text[lines.begin[record] : lines.end[record]].tobytes()
    cells = 1 + sum(between.count(b",") for between in text.split(b'"')[::2])
    if not text:
        fault = "is blank (or longer than 16 MiB)"
    elif text.count(b'"') % 2:
        fault = "has an odd number of quotes"
    else:
        fault = f"has {cells} cell{'s' if cells > 1 else ''} and the header {width}"
    first = line + int(
        np.count_nonzero(lines.text[lines.begin[0] : lines.begin[record]] == ord("\n"))
    )
    raise InputError(f"line {first} of the public file {name!r} {fault}: {_ADVICE}")


def _is_number(column: Any) -> BoolArray:
    """Return whether each cell of a text column is a number of the private reader, or stands for a missing one."""
    numbers = np.concatenate([numbers_of(piece) for piece in column.chunks] or [np.empty(0)])
    words = compute.ascii_trim_whitespace(column.fill_null(""))
    missing = compute.or_(
        compute.is_in(words, value_set=pa.array(_NULL_WORDS)),
        compute.match_substring_regex(words, _NAN),
    )
    numeric: BoolArray = ~np.isnan(numbers) | np.asarray(missing)
    return numeric


def _column(texts: Any, as_text: bool) -> Any:
    """Return cells as doubles if all are numbers or missing, else as text, or as bytes if they are not UTF-8."""
    data = compute.replace_substring(texts.cast(pa.binary()), b'""', b'"')
    try:
        text = data.cast(pa.string())
    except pa.ArrowInvalid:
        return data
    if as_text or not _is_number(texts).all():
        return text
    numbers = np.concatenate([numbers_of(piece) for piece in texts.chunks] or [np.empty(0)])
    return pa.nulls(len(texts)) if np.isnan(numbers).all() else pa.array(numbers)


def _first_text(name: str, column: Any, join_quoted: bool) -> str:
    """Return where a column of texts has its first cell that is no number, and what it holds."""
    row = int(np.flatnonzero(~_is_number(column))[0])
    passed = 0
    for lines, line in _numbered(name, join_quoted):
        if row < passed + len(lines):
            feeds = lines.text[lines.begin[0] : lines.begin[row - passed]] == ord("\n")
            line += int(np.count_nonzero(feeds))
            break
        passed += len(lines)
    cell = column[row].as_py()
    return f"line {line} has {cell if len(cell) <= 40 else cell[:40] + '...'!r}, which is no decimal number"
