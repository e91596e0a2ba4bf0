"""The user's files: which columns are read, how they are opened, and which covariance. Names and types are read, but no values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.open import public_table_of
from fastpubpriv.sources.tables import TextColumns, data_columns, float_dtype, footer, ipc_reader
from fastpubpriv.sources.text_files import public_table

TYPED = (".parquet", ".arrow", ".feather", ".ipc")


@dataclass(frozen=True, slots=True)
class Reading:
    """Columns of text, with their public lists of texts; columns that are no features; and what is said of other text."""

    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    hint: str = ""

    def of(self, names: Sequence[str] | None) -> Any:
        """What to ask a source for."""
        return TextColumns(names, self.texts) if self.texts else names


PLAIN = Reading()


@dataclass(slots=True, eq=False)
class Opened:
    """Private rows (unread), public rows, and what the user should know about the choice of columns."""

    private: Rows
    public: FloatArray | None
    notes: list[str] = field(default_factory=list)


def split_names(text: str | None) -> list[str] | None:
    """The names of --columns a,b,c."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.UsageError(f"--columns must look like temp,humid,visib; got {text[:80]!r}")
    return names


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return ".csv" if name.endswith((".csv", ".csv.gz", ".csv.bz2")) else path.suffix.lower()


def _typed_schema(path: Path) -> dict[str, bool] | None:
    """Column -> whether it holds numbers, where the file itself says so."""
    suffix = _suffix(path)
    if suffix not in TYPED:
        return None
    import pyarrow as pa

    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    try:
        schema = footer(str(path))[0] if suffix == ".parquet" else ipc_reader(pa, str(path), mapped=True).schema
        kept = data_columns(schema)
        return {each.name: float_dtype(each.type) is not None for each in schema if each.name in kept}
    except Exception:
        raise InputError(f"{str(path)!r} cannot be read as a {suffix} file") from None


def _is_table(path: Path) -> bool:
    """Whether the columns of such a file have names; an unknown suffix is left to the reader to refuse."""
    return _suffix(path) in {".csv", *TYPED}


def _public_schema(path: Path) -> dict[str, bool]:
    """As `_typed_schema`; the types of a public CSV file are inferred from its content."""
    if _suffix(path) != ".csv":
        return _typed_schema(path) or {}
    table = public_table(path)
    try:
        return {f.name: float_dtype(f.type) is not None for f in table.schema}
    except UnicodeDecodeError:
        raise InputError(f"the names of columns in {str(path)!r} are not text in UTF-8: save it as UTF-8") from None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _numeric(schema: dict[str, bool]) -> list[str]:
    return [name for name, numeric in schema.items() if numeric]


def common_columns(
    private_path: Path, theirs: dict[str, bool], join_quoted_lines: bool = False, read: Reading = PLAIN
) -> tuple[list[str], list[str]]:
    """Columns to read that both tables have, in the order of the public one (`theirs`), and notes on those left out.

    What is decided here depends on the form of the files and on public values.
    """
    ours = _typed_schema(private_path)
    alone = [name for name in ours or () if name not in theirs]
    if ours is None:
        # The types of a private CSV file are not looked up. If it has no header, a row of data is in its place: names that
        # only this file has are therefore not shown either.
        header = set(_private_rows(private_path, None, join_quoted_lines).columns or ())
        ours = {name: True for name in theirs if name in header}
    theirs = {name: numeric for name, numeric in theirs.items() if name not in read.without}
    chosen = [name for name in theirs if name in ours and (name in read.texts or (theirs[name] and ours[name]))]
    text = [name for name in theirs if name in ours and name not in chosen]
    kind = "columns to read" if read.texts else "numeric columns"
    missing = [name for name in theirs if name not in ours]
    if not chosen:
        raise InputError(
            f"no numeric column occurs in both files (the public file has {_listed(list(theirs)) or 'none'}): "
            "pass --columns, or rename columns so that they agree"
        )
    notes = [f"using the {kind} that both files have: {_listed(chosen)}"]
    for words, names in (
        ("not numeric", text),
        ("only in the public file", missing),
        ("only in the private file", alone),
    ):
        if names:
            hint = f" ({read.hint})" if names is text and read.hint else ""
            notes.append(f"left out, {words}: {_listed(names)}{hint}")
    return chosen, notes


def open_files(
    private_path: Path,
    public_path: Path | None,
    columns: str | None,
    join_quoted_lines: bool = False,
    *,
    finite: bool = True,
    read: Reading = PLAIN,
) -> Opened:
    """Open both files on the same columns; names apply to tables, and `.npy` files are matched by position.

    Public cells may be missing if not `finite`.
    """
    names = split_names(columns)
    if join_quoted_lines and _suffix(private_path) != ".csv":
        raise click.UsageError("--join-quoted-lines is about the lines of a private .csv file, and --private is none")
    if public_path is None:
        return _open_private(private_path, names, join_quoted_lines)
    if private_path.exists() and public_path.exists() and private_path.samefile(public_path):
        raise InputError("--private and --public are the same file: rows are private or public, not both")
    tables = [_is_table(private_path), _is_table(public_path)]
    notes: list[str] = []
    if names is not None and not any(tables):
        raise InputError("--columns chooses columns by name, and .npy files have none: save the columns that you want")
    if names is None and all(tables):
        names, notes = common_columns(private_path, _public_schema(public_path), join_quoted_lines, read)
    elif names is None and tables[1]:
        names = _numeric(_public_schema(public_path)) or None
    elif any(tables) and not all(tables):
        notes = ["a .npy file has no column names: columns are matched by position"]
    if tables[0] and not tables[1]:
        opened = _open_private(private_path, names, join_quoted_lines)
        rows, notes = opened.private, notes + opened.notes
    else:
        rows = _private_rows(private_path, read.of(names) if tables[0] else None, join_quoted_lines)
    chosen = read.of(names) if tables[1] else None
    found, _ = public_table_of(public_path, columns=chosen, dim=rows.dim, argument="--public", finite=finite)
    return Opened(rows, found, notes)


def _open_private(path: Path, names: list[str] | None, join_quoted_lines: bool) -> Opened:
    """Private rows alone, on the columns named, or on those that the file says are numeric."""
    notes: list[str] = []
    if names is None and _suffix(path) == ".csv":
        raise click.UsageError(
            "--columns is needed: whether a column of a private CSV file holds numbers is not looked up"
        )
    typed = _typed_schema(path) if names is None else None
    if typed is not None:
        names = _numeric(typed)
        dropped = [name for name in typed if name not in names]
        notes = [f"left out, not numeric: {_listed(dropped)}"] if dropped else []
    return Opened(_private_rows(path, names or None, join_quoted_lines), None, notes)


def _private_rows(path: Path, names: Any, join_quoted_lines: bool) -> Rows:
    if _suffix(path) == ".csv":
        return Rows.from_csv(path, names, join_quoted_lines=join_quoted_lines)
    return private_rows(path, columns=names)


def private_column(path: Path, name: str, join_quoted_lines: bool) -> Rows:
    """One column of a private table."""
    if not _is_table(path):
        raise click.UsageError("--weights-priv names a column, and .npy files have none: save a table")
    return _private_rows(path, [name], join_quoted_lines)


def read_array(path: str, what: str) -> FloatArray:
    """A public .npy file of numbers; nothing in it is executed."""
    try:
        array = np.load(path, allow_pickle=False)
        return np.asarray(array, dtype=np.float64)
    except FileNotFoundError:
        raise InputError(f"{what}: there is no file {path!r}") from None
    except (OSError, ValueError, TypeError):
        raise InputError(f"{what}: {path!r} is not a .npy file of numbers (written by numpy.save)") from None


def read_vector(text: str, dim: int, what: str) -> Any:
    """A number for all columns, numbers with commas between them, or the content of a .npy file."""
    if text.lower().endswith(".npy"):
        return read_array(text, what)
    try:
        values = [float(item) for item in text.split(",")]
    except ValueError:
        raise click.UsageError(
            f"{what} must be a number, {dim} numbers with commas between them, or a .npy file; got {text[:80]!r}"
        ) from None
    return values[0] if len(values) == 1 else np.array(values)
