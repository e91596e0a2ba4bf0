"""Files of one's own: which columns, opened how, with which covariance. Names and types are public; values are not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows, public_rows, refuse_shared_memory
from fastpubpriv.sources.arrow import float_dtype, load_pyarrow
from fastpubpriv.sources.csv_file import public_table

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


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
    if suffix not in {".parquet", ".arrow", ".feather", ".ipc"}:
        return None
    pa = load_pyarrow()
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    try:
        if suffix == ".parquet":
            import pyarrow.parquet

            schema = pyarrow.parquet.read_schema(path)
        else:
            import pyarrow.ipc

            with open(path, "rb") as file:
                opener = pyarrow.ipc.open_file if file.read(6) == b"ARROW1" else pyarrow.ipc.open_stream
            with pa.memory_map(str(path)) as mapped:
                schema = opener(mapped).schema
        index = (schema.pandas_metadata or {}).get("index_columns", [])
    except Exception:
        raise InputError(f"{str(path)!r} cannot be read as a {suffix} file") from None
    return {f.name: float_dtype(f.type) is not None for f in schema if f.name not in index}


def _public_schema(path: Path) -> dict[str, bool] | None:
    """As `_typed_schema`; the types of a public CSV file are inferred from its content."""
    if _suffix(path) != ".csv":
        return _typed_schema(path)
    return {f.name: float_dtype(f.type) is not None for f in public_table(path).schema}


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def common_columns(private_path: Path, public_path: Path) -> tuple[list[str] | None, list[str]]:
    """Numeric columns that both files have, in the order of the public file, and notes on those left out.

    None when one of the files has no names. What is decided here depends on the form of the files and on public values.
    """
    theirs = _public_schema(public_path)
    typed = _typed_schema(private_path)
    if theirs is None or (typed is None and _suffix(private_path) != ".csv"):
        return None, []
    if typed is None:
        header = set(private_rows(private_path).columns or ())
        ours = {name: True for name in theirs if name in header}
        # A line of data in place of a header would be listed here, so names that only this file has are not shown.
        alone: list[str] = []
    else:
        ours, alone = typed, [name for name in typed if name not in theirs]
    chosen = [name for name, numeric in theirs.items() if numeric and ours.get(name, False)]
    text = [name for name in theirs if name in ours and name not in chosen]
    missing = [name for name in theirs if name not in ours]
    if not chosen:
        raise InputError(
            f"no numeric column occurs in both files (the public file has {_listed(list(theirs)) or 'none'}): "
            "pass --columns, or rename columns so that they agree"
        )
    notes = [f"Using the numeric columns that both files have: {_listed(chosen)}."]
    for words, names in (("not numeric", text), ("only in the public file", missing), ("only in the private file", alone)):
        if names:
            notes.append(f"Left out, {words}: {_listed(names)}.")
    return chosen, notes


def open_files(private_path: Path, public_path: Path | None, columns: str | None) -> Opened:
    """Open both files on the same columns."""
    names = split_names(columns)
    notes: list[str] = []
    if public_path is None:
        if names is None and _suffix(private_path) == ".csv":
            raise click.UsageError(
                "--columns is needed: whether a column of a private CSV file holds numbers is not looked up"
            )
        typed = _typed_schema(private_path) if names is None else None
        if typed is not None:
            names = [name for name, numeric in typed.items() if numeric]
            dropped = [name for name in typed if name not in names]
            notes = [f"Left out, not numeric: {_listed(dropped)}."] if dropped else []
        return Opened(private_rows(private_path, columns=names or None), None, notes)
    refuse_shared_memory(str(private_path), str(public_path))
    if names is None:
        names, notes = common_columns(private_path, public_path)
    rows = private_rows(private_path, columns=names)
    return Opened(rows, public_rows(public_path, columns=names, dim=rows.dim), notes)


def read_array(path: str, what: str) -> FloatArray:
    """A public .npy file of numbers; nothing in it is executed."""
    try:
        array = np.load(path, allow_pickle=False)
        return np.asarray(array, dtype=np.float64)
    except FileNotFoundError:
        raise InputError(f"{what}: there is no file {path!r}") from None
    except (OSError, ValueError, TypeError):
        raise InputError(f"{what}: {path!r} is not a .npy file of numbers (written by numpy.save)") from None


def read_covariance(text: str | None, dim: int) -> Any:
    """--covariance of the commands: None, a variance, or the content of a .npy file."""
    if text is None or text == "identity":
        return None
    if text.lower().endswith(".npy"):
        return read_array(text, "--covariance")
    return _numbers(text, dim, "--covariance")


def read_vector(text: str, dim: int, what: str) -> Any:
    """A number for all columns, numbers with commas between them, or the content of a .npy file."""
    return read_array(text, what) if text.lower().endswith(".npy") else _numbers(text, dim, what)


def _numbers(text: str, dim: int, what: str) -> Any:
    try:
        values = [float(item) for item in text.split(",")]
    except ValueError:
        raise click.UsageError(
            f"{what} must be a number, {dim} numbers with commas between them, or a .npy file; got {text[:80]!r}"
        ) from None
    return values[0] if len(values) == 1 else np.array(values)
