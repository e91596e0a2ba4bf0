"""The user's files: choice of columns, and opening. Names and types of private columns are read, but no values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastpubpriv.cli.streams import refuse
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import Ledger
from fastpubpriv.rowwise.expressions import row_program
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.derived import DerivedRows
from fastpubpriv.sources.lazy_modules import pa
from fastpubpriv.sources.open import (
    NAMED_FILES,
    form_of_path,
    has_column,
    open_public,
    public_rows,
    schema_of_file,
)
from fastpubpriv.sources.person_table import stand_in, table_of_persons
from fastpubpriv.sources.public_csv import public_table, refuse_other_numerals
from fastpubpriv.sources.tables import TextColumns, choose, data_columns, float_dtype
from fastpubpriv.tables.private_table import PrivateTable

BOUND_BY_OPTIONS = ("person", "keep", "rows_per_person", "threads")
Schema = dict[str, bool]  # column -> whether it holds numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileInputs:
    """Unread rows of both files, the columns that a call names, and notes for the user on their choice."""

    settings: dict[str, Any]
    private: Any
    public: Any = None
    # all columns that are read; None for files without names
    names: list[str] | None = None
    # None where the rows were opened with their columns
    columns: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    def table(self, ledger: Ledger | None = None) -> PrivateTable:
        """Return the private rows bound to all that the options say; without a ledger one call can be paid for."""
        settings = self.settings
        bound: dict[str, Any] = {name: settings.get(name) for name in BOUND_BY_OPTIONS}
        bound["progress"] = False if settings["quiet"] else None
        if ledger is None:
            bound["total"] = settings["budget"]
        table = PrivateTable(self.private, x_pub=self.public, ledger=ledger, **bound)
        table = table.with_columns(**settings["with_columns"] or {})
        return table if settings["where"] is None else table.where(settings["where"])

    @property
    def dim(self) -> int:
        """Number of columns that are read."""
        return private_rows(derived(self.settings, self.private), columns=self.columns).dim

    def shown_public(self) -> Any:
        """Return the public rows as a call takes them: with new columns, and one row of each person if persons are reduced."""
        public = derived(self.settings, self.public)
        person = self.settings.get("person")
        keep = self.settings.get("keep")
        if person is None or keep in (None, "row") or not has_column(public, person):
            return public
        return table_of_persons(public, person, keep, 1)


def is_table(path: Path) -> bool:
    """Return whether the columns of such a file have names; an unknown suffix is rejected later, by the reader."""
    return form_of_path(path) in {*NAMED_FILES, ".csv"}


def _schema(path: Path, public: bool = False, joined: bool = False) -> Schema | None:
    """Return the schema of a file; None without names or, for a private CSV file, without types: a public one shows them."""
    form = form_of_path(path)
    if form not in NAMED_FILES and not (public and form == ".csv"):
        return None
    if not path.exists():
        raise InputError(f"there is no file {str(path)!r}")
    schema = public_table(path, join_quoted=joined).schema if form == ".csv" else None
    try:
        schema = schema_of_file(path) if schema is None else schema
        names = set(data_columns(schema))
        return {
            each.name: float_dtype(each.type) is not None for each in schema if each.name in names
        }
    except UnicodeDecodeError:
        raise InputError(
            f"the names of columns in {str(path)!r} are not text in UTF-8: save it as UTF-8"
        ) from None
    except Exception:
        raise InputError(f"{str(path)!r} cannot be read as a {form} file") from None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _numeric(schema: Schema) -> list[str]:
    return [name for name, numeric in schema.items() if numeric]


def chosen_columns(
    private: Path,
    public: Path | None,
    joined: bool,
    texts: Mapping[str, Any],
    without: Sequence[str],
    hint: str,
) -> tuple[list[str] | None, list[str]]:
    """Return the default columns, chosen by the schemas and public values alone, and notes on the columns left out."""
    theirs = None if public is None else _schema(public, True, joined)
    ours = _schema(private)
    if not is_table(private):
        return _numeric(theirs or {}) or None, []
    if theirs is None:
        unknown = "--columns is needed: whether a column of a private CSV file holds numbers is not looked up"
        refuse(ours is None, unknown)
        chosen = _numeric(ours or {})
        return chosen or None, _left_out(
            ("not numeric", [name for name in ours or () if name not in chosen], "")
        )
    alone = [name for name in ours or () if name not in theirs and name not in without]
    if ours is None:
        # The types of a private CSV file are not inferred. Without a header its first line is a row of data: names that only
        # this file has are therefore not shown either.
        rows = private_rows(joined_lines(private, None) if joined else private)
        header = set(rows.columns or ())
        ours = {name: True for name in theirs if name in header}
    theirs = {name: numeric for name, numeric in theirs.items() if name not in without}
    chosen = [
        name for name in theirs if name in ours and (name in texts or (theirs[name] and ours[name]))
    ]
    not_numeric = [name for name in theirs if name in ours and name not in chosen]
    if public is not None and form_of_path(public) == ".csv":
        refuse_other_numerals(public, not_numeric, joined)
    if not chosen:
        raise InputError(
            f"no numeric column occurs in both files (the public file has {_listed(list(theirs)) or 'none'}): "
            "pass --columns, or rename columns so that they agree"
        )
    what = "columns to read" if texts else "numeric columns"
    return chosen, [
        f"using the {what} that both files have: {_listed(chosen)}",
        *_left_out(
            ("not numeric", not_numeric, hint and f" ({hint})"),
            ("only in the public file", [name for name in theirs if name not in ours], ""),
            ("only in the private file", alone, ""),
        ),
    ]


def _left_out(*parts: tuple[str, list[str], str]) -> list[str]:
    return [f"left out, {why}: {_listed(names)}{more}" for why, names, more in parts if names]


def inputs_of(
    settings: dict[str, Any],
    *,
    all_columns: bool = False,
    texts: Mapping[str, tuple[str, ...]] | None = None,
    without: Sequence[str] = (),
    hint: str = "",
    private_alone: Sequence[str] = (),
) -> FileInputs:
    """Return both files with the same columns; names apply to tables, and `.npy` files are matched by position."""
    # With `all_columns` the call chooses the columns that it reads. `texts` are the columns of text with their public lists.
    # Columns `without` are no features; `hint` is about other text. Columns `private_alone` are read from the private file.
    private = settings["private_path"]
    public = settings.get("public_path")
    names = settings.get("columns")
    joined = settings.get("join_quoted_lines", False)
    require_agreement(settings)
    if all_columns:
        refuse(
            joined,
            "--join-quoted-lines does not go together with --by: save the private rows as .parquet",
        )
        return FileInputs(settings=settings, private=private, public=public, columns=names)
    notes = []
    is_named = is_table(private)
    is_public_named = public is not None and is_table(public)
    if public is not None and is_named != is_public_named and (is_named or names is not None):
        notes = ["a .npy file has no column names: columns are matched by position"]
    if names is None:
        person = [] if settings.get("person") is None else [settings["person"]]
        names, more = chosen_columns(
            private, public, joined, texts or {}, [*without, *person, *private_alone], hint
        )
        notes += more
        if names is not None:
            names += [name for name in numbers_of(settings) if name not in names]
    elif public is not None and is_public_named:
        # may suggest a similar name
        known = [*(_schema(public, True, joined) or ()), *(settings.get("with_columns") or ())]
        choose(known, names, repr(str(public)))
    read = [*(names or ()), *private_alone] or None
    columns = read if is_named and not joined else None
    asked: Any = TextColumns(names, texts) if texts else names
    asked_of_private: Any = TextColumns(read, texts) if texts else read
    if joined:
        private = joined_lines(private, asked_of_private)
        public = None if public is None else joined_lines(public, asked)
    if public is not None and is_named and not is_public_named:
        public = named_rows(public, names or [])
    elif public is not None and columns is None:
        public = open_public(public, asked if is_public_named else None)
    elif public is not None:
        # What the call would refuse is refused before a ledger is made: types of private columns, which a CSV file does not have,
        # then cells of public ones.
        if form_of_path(private) != ".csv":
            private_rows(derived(settings, private), columns=asked_of_private)
        open_public(derived(settings, public), asked)
    return FileInputs(
        settings=settings, private=private, public=public, names=read, columns=columns, notes=notes
    )


def named_rows(path: Path, names: Sequence[str]) -> Any:
    """Return the public rows of a file without names as a table whose columns have these names, in their order."""
    matrix = public_rows(path, argument="--public")
    if matrix.shape[1] != len(names):
        raise InputError(
            f"public rows have {matrix.shape[1]} columns and private rows have {len(names)}: pass the same columns in the same "
            "order"
        )
    return pa.table(dict(zip(names, matrix.T, strict=True)))


def require_agreement(settings: dict[str, Any]) -> None:
    """Raise an error if the options of files and persons do not go together."""
    private = settings["private_path"]
    public = settings.get("public_path")
    person = settings.get("person")
    is_named = is_table(private)
    if settings.get("join_quoted_lines", False):
        other = (
            "--join-quoted-lines is about the lines of a private .csv file, and --private is none"
        )
        refuse(form_of_path(private) != ".csv", other)
        both = (
            "--person and --join-quoted-lines do not go together: save the private rows as .parquet"
        )
        refuse(person is not None, both)
        is_derived = settings.get("where") is not None or settings.get("with_columns")
        both = "--where and --with do not go together with --join-quoted-lines: save the private rows as .parquet"
        refuse(is_derived, both)
    unnamed = "--person names a column, and .npy files have none: save a table"
    refuse(person is not None and not is_named, unnamed)
    if "keep" in settings:
        stand_in(person, settings["keep"], settings["rows_per_person"])
    if public is None:
        return
    if private.exists() and public.exists() and private.samefile(public):
        raise InputError(
            "--private and --public are the same file: rows are private or public, not both"
        )
    if settings.get("columns") is not None and not is_named and not is_table(public):
        raise InputError(
            "--columns chooses columns by name, and .npy files have none: save the columns that you want"
        )


def derived(settings: dict[str, Any], source: Any) -> Any:
    """Return rows, or those that --where and --with make of them."""
    columns = settings["with_columns"] or {}
    where = () if settings["where"] is None else (settings["where"],)
    return DerivedRows(source, where=where, with_columns=columns) if where or columns else source


def numbers_of(settings: dict[str, Any]) -> list[str]:
    """Return the names of the columns of --with that hold numbers, not bins."""
    program = row_program((), settings.get("with_columns") or {})
    return [name for name in program.names if program.bins_of(name) is None]


def joined_lines(path: Path, names: Any) -> Any:
    """Return the rows of a CSV file whose lines are joined between quotes; the name of any other file unchanged."""
    if form_of_path(path) != ".csv":
        return path
    return Rows.from_csv(path, names, join_quoted_lines=True)
