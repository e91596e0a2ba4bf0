"""The user's files: which columns are read, and how they are opened. Names and types are read, but no values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastpubpriv.cli.app import refuse
from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.open import public_table_of
from fastpubpriv.sources.tables import TextColumns, choose, data_columns, float_dtype, footer, ipc_reader
from fastpubpriv.sources.text_files import public_table

TYPED = (".parquet", ".arrow", ".feather", ".ipc")
Schema = dict[str, bool]  # column -> whether it holds numbers


@dataclass(slots=True, eq=False)
class Opened:
    """Private rows (unread), public rows, and what the user should know about the choice of columns."""

    private: Any
    public: Any = None
    notes: list[str] = field(default_factory=list)


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return ".csv" if name.endswith((".csv", ".csv.gz", ".csv.bz2")) else path.suffix.lower()


def _is_table(path: Path) -> bool:
    """Whether the columns of such a file have names; an unknown suffix is left to the reader to refuse."""
    return _suffix(path) in {".csv", *TYPED}


def _typed_schema(path: Path) -> Schema | None:
    """The schema of a file that says itself what its columns hold."""
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


def _public_schema(path: Path) -> Schema:
    """As `_typed_schema`; the types of a public CSV file are inferred from its content."""
    if _suffix(path) != ".csv":
        return _typed_schema(path) or {}
    table = public_table(path)
    try:
        return {each.name: float_dtype(each.type) is not None for each in table.schema}
    except UnicodeDecodeError:
        raise InputError(f"the names of columns in {str(path)!r} are not text in UTF-8: save it as UTF-8") from None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _numeric(schema: Schema) -> list[str]:
    return [name for name, numeric in schema.items() if numeric]


def common_columns(
    private: Path, theirs: Schema, joined: bool, texts: Mapping[str, Any], without: Sequence[str], hint: str
) -> tuple[list[str], list[str]]:
    """Columns to read that both tables have, in the order of the public one (`theirs`), and notes on those left out.

    What is decided here depends on the form of the files and on public values.
    """
    ours = _typed_schema(private)
    alone = [name for name in ours or () if name not in theirs]
    if ours is None:
        # The types of a private CSV file are not looked up. If it has no header, a row of data is in its place: names that
        # only this file has are therefore not shown either.
        header = set(_private_rows(private, None, joined).columns or ())
        ours = {name: True for name in theirs if name in header}
    theirs = {name: numeric for name, numeric in theirs.items() if name not in without}
    chosen = [name for name in theirs if name in ours and (name in texts or (theirs[name] and ours[name]))]
    if not chosen:
        raise InputError(
            f"no numeric column occurs in both files (the public file has {_listed(list(theirs)) or 'none'}): "
            "pass --columns, or rename columns so that they agree"
        )
    notes = [f"using the {'columns to read' if texts else 'numeric columns'} that both files have: {_listed(chosen)}"]
    text = [name for name in theirs if name in ours and name not in chosen]
    for words, names, more in (
        ("not numeric", text, f" ({hint})" if hint else ""),
        ("only in the public file", [name for name in theirs if name not in ours], ""),
        ("only in the private file", alone, ""),
    ):
        if names:
            notes.append(f"left out, {words}: {_listed(names)}{more}")
    return chosen, notes


def open_files(
    settings: dict[str, Any],
    *,
    finite: bool = True,
    texts: Mapping[str, tuple[str, ...]] | None = None,
    without: Sequence[str] = (),
    hint: str = "",
) -> Opened:
    """Open both files on the same columns; names apply to tables, and `.npy` files are matched by position.

    Public cells may be missing if not `finite`. `texts` are the columns of text with their public lists; columns `without` are no
    features; `hint` is what is said of other text.
    """
    private, public, names = settings["private_path"], settings.get("public_path"), settings["columns"]
    joined = settings["join_quoted_lines"]
    other = "--join-quoted-lines is about the lines of a private .csv file, and --private is none"
    refuse(joined and _suffix(private) != ".csv", other)
    if public is None:
        return _open_private(private, names, joined)
    if private.exists() and public.exists() and private.samefile(public):
        raise InputError("--private and --public are the same file: rows are private or public, not both")
    tables, notes = (_is_table(private), _is_table(public)), []
    if names is not None and not any(tables):
        raise InputError("--columns chooses columns by name, and .npy files have none: save the columns that you want")
    if names is None and all(tables):
        names, notes = common_columns(private, _public_schema(public), joined, texts or {}, without, hint)
    elif names is None and tables[1]:
        names = _numeric(_public_schema(public)) or None
    elif any(tables) and not all(tables):
        notes = ["a .npy file has no column names: columns are matched by position"]
    elif names is not None:
        choose(list(_public_schema(public)), names, repr(str(public)))  # says which name may be meant
    asked: Any = TextColumns(names, texts) if texts else names
    if tables[0] and not tables[1]:
        opened = _open_private(private, names, joined)
        rows, notes = opened.private, notes + opened.notes
    else:
        rows = _private_rows(private, asked if tables[0] else None, joined)
    chosen = asked if tables[1] else None
    found, _ = public_table_of(public, columns=chosen, dim=rows.dim, argument="--public", finite=finite)
    return Opened(rows, found, notes)


def _open_private(path: Path, names: list[str] | None, joined: bool) -> Opened:
    """Private rows alone, on the columns named, or on those that the file says are numeric."""
    notes: list[str] = []
    unknown = "--columns is needed: whether a column of a private CSV file holds numbers is not looked up"
    refuse(names is None and _suffix(path) == ".csv", unknown)
    typed = _typed_schema(path) if names is None else None
    if typed is not None:
        names = _numeric(typed)
        dropped = [name for name in typed if name not in names]
        notes = [f"left out, not numeric: {_listed(dropped)}"] if dropped else []
    return Opened(_private_rows(path, names or None, joined), None, notes)


def _private_rows(path: Path, names: Any, joined: bool) -> Rows:
    if _suffix(path) == ".csv":
        return Rows.from_csv(path, names, join_quoted_lines=joined)
    return private_rows(path, columns=names)


def private_column(settings: dict[str, Any], name: str) -> Rows:
    """One column of a private table."""
    path = settings["private_path"]
    refuse(not _is_table(path), "--weights-priv names a column, and .npy files have none: save a table")
    return _private_rows(path, [name], settings["join_quoted_lines"])
