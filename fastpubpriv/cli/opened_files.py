"""The user's files: choice of columns, and opening. Names and types of private columns are read, but no values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from fastpubpriv.cli.options import name_of
from fastpubpriv.cli.streams import refuse
from fastpubpriv.errors import InputError
from fastpubpriv.rowwise.expressions import row_program
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.derived import DerivedRows
from fastpubpriv.sources.open import (
    NAMED_FILES,
    form_of_path,
    open_public,
    public_table_of,
    require_numbers,
    schema_of_file,
)
from fastpubpriv.sources.person_table import stand_in, table_of_persons
from fastpubpriv.sources.public_csv import public_table, refuse_other_numerals
from fastpubpriv.sources.tables import TextColumns, choose, data_columns, float_dtype

# An argument in an error text, with its value if there is one.
_ARGUMENT = re.compile(r"\b(person|keep|rows_per_person)=(?:(['\"]?)(\w+)\2)?")
Schema = dict[str, bool]  # column -> whether it holds numbers


@dataclass(slots=True, eq=False)
class OpenedInputs:
    """Private rows (unread), public rows, and notes for the user on the choice of columns."""

    private: Any
    public: Any = None
    notes: list[str] = field(default_factory=list)
    # the private file, or the table of its persons: more columns of the same rows
    source: Any = None


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
        header = set(opened_rows(private, None, joined).columns or ())
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


def open_files(
    settings: dict[str, Any],
    *,
    gaps: bool = False,
    texts: Mapping[str, tuple[str, ...]] | None = None,
    without: Sequence[str] = (),
    hint: str = "",
    private_alone: Sequence[str] = (),
) -> OpenedInputs:
    """Open both files on the same columns; names apply to tables, and `.npy` files are matched by position."""
    # With `gaps` public cells may be missing if every column has a number. `texts` are the columns of text with their public lists:
    # then a public table stays unread, and any cell may be missing. Columns `without` are no features; `hint` is about other text.
    # Columns `private_alone` are read from the private file.
    private = settings["private_path"]
    public = settings.get("public_path")
    names = settings["columns"]
    notes: list[str] = []
    joined = settings["join_quoted_lines"]
    other = "--join-quoted-lines is about the lines of a private .csv file, and --private is none"
    refuse(joined and form_of_path(private) != ".csv", other)
    tables = [is_table(path) for path in (private, public) if path is not None]
    if public is not None:
        if private.exists() and public.exists() and private.samefile(public):
            raise InputError(
                "--private and --public are the same file: rows are private or public, not both"
            )
        if names is not None and not any(tables):
            raise InputError(
                "--columns chooses columns by name, and .npy files have none: save the columns that you want"
            )
        if any(tables) and not all(tables) and (tables[0] or names is not None):
            notes = ["a .npy file has no column names: columns are matched by position"]
    if names is None:
        person = [] if settings.get("person") is None else [settings["person"]]
        names, more = chosen_columns(
            private, public, joined, texts or {}, [*without, *person, *private_alone], hint
        )
        notes += more
        if names is not None:
            names += [name for name in numbers_of(settings) if name not in names]
    asked: Any = TextColumns(names, texts) if texts else names
    theirs: Any = [*(names or ()), *private_alone] or None
    source, x_pub = sources(settings)
    try:
        matrix = None
        asked_of_private = TextColumns(theirs, texts) if texts else theirs
        rows = opened_rows(
            source, asked_of_private if tables[0] or public is None else None, joined
        )
    except InputError:
        if names is not None and public is not None and tables[1]:
            # may suggest a similar name
            choose(list(_schema(public, True, joined) or ()), names, repr(str(public)))
        raise
    if public is not None and tables[1] and texts is not None:
        return OpenedInputs(
            rows, open_public(public_source(x_pub, asked, joined), asked), notes, source
        )
    if public is not None:
        columns = asked if tables[1] else None
        finite = texts is None and not gaps
        x_pub = public_source(x_pub, columns, joined)
        matrix, shown = public_table_of(
            x_pub, columns=columns, dim=rows.dim, argument="--public", finite=finite
        )
        if gaps:
            require_numbers(matrix, shown)
    return OpenedInputs(rows, matrix, notes, source)


def derived(settings: dict[str, Any], path: Path | None, person: str | None = None) -> Any:
    """Return a file, or the rows that --where and --with make of those in it."""
    conditions = settings.get("where")
    columns = settings.get("with_columns") or {}
    if path is None or (conditions is None and not columns):
        return path
    both = "--where and --with do not go together with --join-quoted-lines: save the private rows as .parquet"
    refuse(settings.get("join_quoted_lines", False), both)
    where = () if conditions is None else (conditions,)
    return DerivedRows(path, where=where, with_columns=columns, person=person)


def numbers_of(settings: dict[str, Any]) -> list[str]:
    """Return the names of the columns of --with that hold numbers, not bins."""
    program = row_program((), settings.get("with_columns") or {})
    return [name for name in program.names if program.bins_of(name) is None]


def sources(settings: dict[str, Any]) -> tuple[Any, Any]:
    """Return the private and the public rows, or tables of their persons; without identifiers each public row is a person."""
    public_path = settings.get("public_path")
    person = settings.get("person")
    private = derived(settings, settings["private_path"], person)
    public = derived(settings, public_path)
    if person is not None:
        unnamed = "--person names a column, and .npy files have none: save a table"
        refuse(not is_table(settings["private_path"]), unnamed)
        if "keep" not in settings:  # the function finds the persons itself
            return private, public
        both = (
            "--person and --join-quoted-lines do not go together: save the private rows as .parquet"
        )
        refuse(settings.get("join_quoted_lines", False), both)
    keep, k = _stand_in(person, settings.get("keep"), settings.get("rows_per_person"))
    if person is None:
        return private, public
    refuse(k == "auto", "--rows-per-person auto does not go with this command: pass a number")
    several = (
        k == 1
        and public_path is not None
        and is_table(public_path)
        and person in (_schema(public_path, True) or ())
    )
    return table_of_persons(private, person, keep, k), table_of_persons(
        public, person, keep, 1
    ) if several else public


def _stand_in(person: Any, keep: Any, rows_per_person: Any) -> tuple[str, Any]:
    """Return what `stand_in` does; its error names options in place of arguments."""
    try:
        return stand_in(person, keep, rows_per_person)
    except InputError as error:
        raise click.UsageError(_ARGUMENT.sub(_option, str(error))) from None


def _option(argument: re.Match[str]) -> str:
    """Return the option of an argument in a text: "--keep mean" of "keep='mean'"."""
    name, _, value = argument.groups()
    option = name_of(name)
    return option if value is None else f"{option} {value}"


def public_source(source: Any, names: Any, joined: bool) -> Any:
    """Return a public file, or the rows of a CSV file whose lines are joined between quotes, as those of the private file are."""
    joined = joined and isinstance(source, Path) and form_of_path(source) == ".csv"
    return Rows.from_csv(source, names, join_quoted_lines=True) if joined else source


def opened_rows(path: Any, names: Any, joined: bool) -> Rows:
    """Return private rows, unread."""
    return (
        Rows.from_csv(path, names, join_quoted_lines=True)
        if joined
        else private_rows(path, columns=names)
    )
